/// Thin sheets: energy, forces, and the clamped Jacobian of K and b. No state; any thread.
///
/// A triangle without area has no normal and a hinge beside it no angle: the hinge gives no force for that step, as a
/// spring without length does not. The membrane's forces are finite everywhere.
#include "engine/dynamics/shell.h"

#include "base/vec.h"

#include <math.h>

static const double NEEDLE = 1e-12;     // s2 / s1 below which U has no second direction
static const double DIVISOR_LEAST = 1e-2; // of s and of s1 + s2, in stiffness against turning
static const double AREA_LEAST = 1e-12;   // of |n|, in squares of the edge: below, a hinge has no angle

// ---- one membrane ----

typedef struct frame { // F = u diag(s) v', s[0] >= s[1] >= 0
    qpc_vec3 u[3];
    double s[2], v[2][2]; // v[k]: column k of V
} frame;

/// Any direction across u.
static qpc_vec3 direction_across(qpc_vec3 u) {
    double x = fabs(u.x), y = fabs(u.y), z = fabs(u.z);
    qpc_vec3 axis = x <= y && x <= z ? v3(1, 0, 0) : y <= z ? v3(0, 1, 0) : v3(0, 0, 1);
    qpc_vec3 b = v3_madd(axis, -v3_dot(axis, u), u);
    return v3_scale(1 / v3_norm(b), b);
}

/// One turn of one-sided Jacobi makes the columns of F orthogonal, which finds each s to its own accuracy.
static frame decompose(qpc_vec3 f0, qpc_vec3 f1) {
    frame r;
    double d = v3_norm2(f1) - v3_norm2(f0), e = 2 * v3_dot(f0, f1), c = 1, s = 0;
    if (e != 0) {
        double t = e / (fabs(d) + sqrt(d * d + e * e));
        if (d < 0) t = -t;
        c = 1 / sqrt(1 + t * t);
        s = t * c;
    }
    qpc_vec3 b[2] = {v3_sub(v3_scale(c, f0), v3_scale(s, f1)), v3_add(v3_scale(s, f0), v3_scale(c, f1))};
    double length[2] = {v3_norm(b[0]), v3_norm(b[1])};
    int big = length[1] > length[0];
    r.v[big][0] = c;
    r.v[big][1] = -s;
    r.v[!big][0] = s;
    r.v[!big][1] = c;
    r.s[0] = length[big];
    r.s[1] = length[!big];
    r.u[0] = r.s[0] > 0 ? v3_scale(1 / r.s[0], b[big]) : v3(1, 0, 0);
    qpc_vec3 rest = v3_madd(b[!big], -v3_dot(b[!big], r.u[0]), r.u[0]);
    double second = v3_norm(rest);
    if (second > NEEDLE * r.s[0]) r.u[1] = v3_scale(1 / second, rest);
    else {
        r.u[1] = direction_across(r.u[0]);
        r.s[1] = 0;
    }
    r.u[2] = v3_cross(r.u[0], r.u[1]);
    return r;
}

static frame frame_of(const qpc_shells *shells, int32_t t, const double *x) {
    const int32_t *c = shells->node + 3 * (int64_t)t;
    const double *B = shells->inverse + 4 * (int64_t)t;
    qpc_vec3 p = v3_load(x + 3 * (int64_t)c[0]);
    qpc_vec3 d1 = v3_sub(v3_load(x + 3 * (int64_t)c[1]), p), d2 = v3_sub(v3_load(x + 3 * (int64_t)c[2]), p);
    return decompose(v3_madd(v3_scale(B[0], d1), B[2], d2), v3_madd(v3_scale(B[1], d1), B[3], d2));
}

/// dW/ds
static void slopes(const qpc_shells *shells, int32_t t, const frame *r, double ret[2]) {
    double trace = (r->s[0] - 1) + (r->s[1] - 1);
    for (int k = 0; k < 2; k++) ret[k] = 2 * shells->mu[t] * (r->s[k] - 1) + shells->lambda[t] * trace;
}

/// Gradients of the hat functions of the corners in the frame of V.
static void gradients(const qpc_shells *shells, int32_t t, const frame *r, double h[3][2]) {
    const double *B = shells->inverse + 4 * (int64_t)t;
    for (int k = 0; k < 2; k++) {
        h[1][k] = B[0] * r->v[k][0] + B[1] * r->v[k][1];
        h[2][k] = B[2] * r->v[k][0] + B[3] * r->v[k][1];
        h[0][k] = -(h[1][k] + h[2][k]);
    }
}

static void membrane_force(const qpc_shells *shells, int32_t t, const frame *r, double h[3][2], double *f) {
    const int32_t *c = shells->node + 3 * (int64_t)t;
    double first[2], area = shells->area[t];
    qpc_vec3 sum = v3(0, 0, 0);
    slopes(shells, t, r, first);
    for (int i = 1; i < 3; i++) {
        double a = area * first[0] * h[i][0], b = area * first[1] * h[i][1];
        qpc_vec3 pull = v3_madd(v3_scale(a, r->u[0]), b, r->u[1]);
        double *fi = f + 3 * (int64_t)c[i];
        v3_store(fi, v3_sub(v3_load(fi), pull));
        sum = v3_add(sum, pull);
    }
    double *f0 = f + 3 * (int64_t)c[0];
    v3_store(f0, v3_add(v3_load(f0), sum));
}

// ---- blocks of K ----

typedef struct target { // where H goes
    qpc_linsys *K;
    double dt2, *Hv;
    const double *v;
} target;

/// H[i][i], symmetric.
static void add_diagonal(const target *to, int32_t node, double H[3][3]) {
    int64_t i = 3 * (int64_t)node;
    for (int b = 0; b < 3 && to->K != NULL; b++) {
        double *at = to->K->value + to->K->start[i + b];
        for (int a = b; a < 3; a++) at[a - b] += to->dt2 * H[a][b];
    }
    for (int a = 0; a < 3 && to->Hv != NULL; a++)
        to->Hv[i + a] += H[a][0] * to->v[i] + H[a][1] * to->v[i + 1] + H[a][2] * to->v[i + 2];
}

/// H[p][q] and its transpose, p != q.
static void add_pair(const target *to, int32_t p, int32_t q, int32_t place, double H[3][3]) {
    int64_t i = 3 * (int64_t)p, j = 3 * (int64_t)q;
    for (int b = 0; b < 3 && to->K != NULL; b++) { // the later node's rows, the earlier one's columns
        double *below = to->K->value + to->K->start[3 * (int64_t)(p < q ? p : q) + b] + (3 - b) + place;
        for (int a = 0; a < 3; a++) below[a] += to->dt2 * (p > q ? H[a][b] : H[b][a]);
    }
    for (int a = 0; a < 3 && to->Hv != NULL; a++) {
        to->Hv[i + a] += H[a][0] * to->v[j] + H[a][1] * to->v[j + 1] + H[a][2] * to->v[j + 2];
        to->Hv[j + a] += H[0][a] * to->v[i] + H[1][a] * to->v[i + 1] + H[2][a] * to->v[i + 2];
    }
}

// ---- stiffness of one membrane ----

typedef struct moduli { // second derivatives of W in the frames of U and V (TC4), clamped, times the area
    double A[2];        // 11 and 22; 12
    double plus, minus; // of G12^2 and G21^2 each; of G12 G21
    double out[2];      // out of the plane
} moduli;

static double clamped(double value) { return value > 0 ? value : 0; }

static moduli moduli_of(const qpc_shells *shells, int32_t t, const frame *r) {
    double mu = shells->mu[t], lambda = shells->lambda[t], area = shells->area[t], first[2];
    double sum = r->s[0] + r->s[1], flip = 2 * mu;
    slopes(shells, t, r, first);
    double twist = clamped((first[0] + first[1]) / fmax(sum, DIVISOR_LEAST));
    moduli m = {.A = {area * (2 * mu + lambda), area * lambda}, .plus = 0.5 * area * (flip + twist), .minus = 0.5 * area * (flip - twist)};
    for (int k = 0; k < 2; k++) m.out[k] = area * clamped(first[k] / fmax(r->s[k], DIVISOR_LEAST));
    return m;
}

/// Block of H between two corners with gradients p and q.
static void membrane_block(const moduli *m, const frame *r, const double p[2], const double q[2], double H[3][3]) {
    double M[3][3] = {
        {m->A[0] * p[0] * q[0] + m->plus * p[1] * q[1], m->A[1] * p[0] * q[1] + m->minus * p[1] * q[0], 0},
        {m->A[1] * p[1] * q[0] + m->minus * p[0] * q[1], m->A[0] * p[1] * q[1] + m->plus * p[0] * q[0], 0},
        {0, 0, m->out[0] * p[0] * q[0] + m->out[1] * p[1] * q[1]},
    };
    double u[3][3] = {{r->u[0].x, r->u[1].x, r->u[2].x}, {r->u[0].y, r->u[1].y, r->u[2].y}, {r->u[0].z, r->u[1].z, r->u[2].z}};
    for (int a = 0; a < 3; a++) {
        double T[3] = {u[a][0] * M[0][0] + u[a][1] * M[1][0], u[a][0] * M[0][1] + u[a][1] * M[1][1], u[a][2] * M[2][2]};
        for (int b = 0; b < 3; b++) H[a][b] = T[0] * u[b][0] + T[1] * u[b][1] + T[2] * u[b][2];
    }
}

static void membrane_stiffness(const qpc_shells *shells, int32_t t, const frame *r, double h[3][2], const target *to) {
    const int32_t *c = shells->node + 3 * (int64_t)t, *place = shells->place + 3 * (int64_t)t;
    moduli m = moduli_of(shells, t, r);
    double H[3][3];
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3;
        membrane_block(&m, r, h[i], h[i], H);
        add_diagonal(to, c[i], H);
        membrane_block(&m, r, h[i], h[j], H);
        add_pair(to, c[i], c[j], place[i], H);
    }
}

// ---- one hinge ----

/// Its angle; g (unless NULL): d theta / dx of the four nodes. False if a triangle has no area.
static bool fold(const double *x, const int32_t hinge[4], double *ret_angle, qpc_vec3 *g) {
    qpc_vec3 a = v3_load(x + 3 * (int64_t)hinge[0]), e = v3_sub(v3_load(x + 3 * (int64_t)hinge[1]), a);
    qpc_vec3 c = v3_sub(v3_load(x + 3 * (int64_t)hinge[2]), a), d = v3_sub(v3_load(x + 3 * (int64_t)hinge[3]), a);
    qpc_vec3 n0 = v3_cross(e, c), n1 = v3_cross(d, e);
    double e2 = v3_norm2(e), length = sqrt(e2), n02 = v3_norm2(n0), n12 = v3_norm2(n1);
    double least = AREA_LEAST * AREA_LEAST * e2 * e2;
    if (!(n02 > least) || !(n12 > least)) return false;
    *ret_angle = atan2(v3_dot(e, v3_cross(n1, n0)) / length, v3_dot(n0, n1));
    if (g == NULL) return true;
    double tc = v3_dot(c, e) / e2, td = v3_dot(d, e) / e2;
    g[2] = v3_scale(length / n02, n0);
    g[3] = v3_scale(length / n12, n1);
    g[0] = v3_neg(v3_add(v3_scale(1 - tc, g[2]), v3_scale(1 - td, g[3])));
    g[1] = v3_neg(v3_add(v3_scale(tc, g[2]), v3_scale(td, g[3])));
    return true;
}

double qpc_shells_angle(const double *x, const int32_t hinge[4]) {
    double angle;
    return fold(x, hinge, &angle, NULL) ? angle : 0;
}

/// scratch: off each angle at rest, then the moment of each hinge, J. The energy of bending, J.
static double moments(const qpc_shells *shells, const double *x) {
    double *off = shells->scratch, *moment = off + shells->hinge_count, sum = 0;
    for (int32_t h = 0; h < shells->hinge_count; h++) {
        double angle;
        off[h] = fold(x, shells->hinge + 4 * (int64_t)h, &angle, NULL) ? angle - shells->angle[h] : 0;
        moment[h] = 0;
    }
    for (int32_t t = 0; t < shells->count; t++) {
        const int32_t *bend = shells->bend + 3 * (int64_t)t;
        const double *C = shells->couple + 6 * (int64_t)t;
        double a[3];
        for (int k = 0; k < 3; k++) a[k] = bend[k] >= 0 ? off[bend[k]] : 0;
        for (int k = 0; k < 3; k++) {
            double M = C[k] * a[k] + C[3 + k] * a[(k + 1) % 3] + C[3 + (k + 2) % 3] * a[(k + 2) % 3];
            if (bend[k] >= 0) moment[bend[k]] += M;
            sum += 0.5 * M * a[k];
        }
    }
    return sum;
}

static void hinge_force(const qpc_shells *shells, int32_t h, const qpc_vec3 g[4], double *f) {
    double moment = shells->scratch[shells->hinge_count + h];
    for (int k = 0; k < 4; k++) {
        double *fk = f + 3 * (int64_t)shells->hinge[4 * (int64_t)h + k];
        v3_store(fk, v3_madd(v3_load(fk), -moment, g[k]));
    }
}

static void outer(double factor, qpc_vec3 p, qpc_vec3 q, double H[3][3]) {
    double a[3] = {factor * p.x, factor * p.y, factor * p.z}, b[3] = {q.x, q.y, q.z};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) H[i][j] = a[i] * b[j];
}

static void hinge_stiffness(const qpc_shells *shells, int32_t h, const qpc_vec3 g[4], const target *to) {
    const int32_t *node = shells->hinge + 4 * (int64_t)h, *place = shells->hinge_place + 6 * (int64_t)h;
    double H[3][3];
    for (int p = 0; p < 4; p++) {
        outer(shells->stiffness[h], g[p], g[p], H);
        add_diagonal(to, node[p], H);
        for (int q = p + 1; q < 4; q++) {
            outer(shells->stiffness[h], g[p], g[q], H);
            add_pair(to, node[p], node[q], *place++, H);
        }
    }
}

// ---- all of them ----

double qpc_shells_energy(const qpc_shells *shells, const double *x) {
    double sum = shells->hinge_count > 0 ? moments(shells, x) : 0;
    for (int32_t t = 0; t < shells->count; t++) {
        frame r = frame_of(shells, t, x);
        double p = r.s[0] - 1, q = r.s[1] - 1;
        sum += shells->area[t] * (shells->mu[t] * (p * p + q * q) + 0.5 * shells->lambda[t] * (p + q) * (p + q));
    }
    return sum;
}

void qpc_shells_force(const qpc_shells *shells, const double *x, double *f) {
    qpc_shells_linearise(shells, x, NULL, 0, NULL, f, NULL);
}

void qpc_shells_linearise(const qpc_shells *shells, const double *x, const double *v, double dt, qpc_linsys *K, double *f,
                          double *Hv) {
    target to = {.K = K, .dt2 = dt * dt, .Hv = Hv, .v = v};
    bool stiff = K != NULL || Hv != NULL;
    for (int32_t t = 0; t < shells->count; t++) {
        frame r = frame_of(shells, t, x);
        double h[3][2];
        gradients(shells, t, &r, h);
        if (f != NULL) membrane_force(shells, t, &r, h, f);
        if (stiff) membrane_stiffness(shells, t, &r, h, &to);
    }
    if (f != NULL && shells->hinge_count > 0) moments(shells, x);
    for (int32_t h = 0; h < shells->hinge_count; h++) {
        qpc_vec3 g[4];
        double angle;
        if (!fold(x, shells->hinge + 4 * (int64_t)h, &angle, g)) continue;
        if (f != NULL) hinge_force(shells, h, g, f);
        if (stiff) hinge_stiffness(shells, h, g, &to);
    }
}

void qpc_shells_stretches(const qpc_shells *shells, const double *x, double *ret) {
    for (int32_t t = 0; t < shells->count; t++) {
        frame r = frame_of(shells, t, x);
        ret[2 * (int64_t)t] = r.s[0];
        ret[2 * (int64_t)t + 1] = r.s[1];
    }
}
