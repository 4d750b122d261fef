/// Interior point on Coulomb cones: the convex problem, with De Saxce's term followed along.
///
/// With D = (mu, 1, 1), x_L = D x and y_L = D^-1 (y + mu |y_T| e_N) lie in the same self-dual cone,
/// and the problem is x_L o y_L = 0, y_L = A x_L + p + g e_0 with g = |y_T|. Nesterov-Todd scaling,
/// Mehrotra's predictor and corrector. g is either taken from the last iterate (De Saxce's fixed
/// point, one outer an iteration; each convex problem on the way is solved as far as one step goes,
/// the matrix is symmetric) or it enters with its derivative, smoothed by the gap (the matrix is
/// not symmetric). Redundant contacts are no trouble to either. Worker thread of the world; memory
/// from the arena.
#include "engine/solver/cones.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_ITERATIONS = 90, EARLY = 8, IDLE_LIMIT = 20 };
static const double GAP_PER_RESIDUAL = 1e-3;

typedef struct scaling { // of one block: H^2 x = y, lambda = H x = H^-1 y
    double H[3][3], inverse[3][3], square[3][3], lambda[3];
} scaling;

typedef struct scratch {
    scaling *scale;                                     // (count)
    double *residual, *dx, *dy, *ax, *ay, *rhs, *slope; // (size)
    qpc_natural natural;
    double *back; // (size) x in the problem's metric
} scratch;

static double lorentz(const double *v) {
    return (v[0] - hypot(v[1], v[2])) * (v[0] + hypot(v[1], v[2]));
}

static void scale_contact(const double *x, const double *y, scaling *s) {
    double nx = sqrt(lorentz(x)), ny = sqrt(lorentz(y)), dot = 0;
    for (int32_t i = 0; i < 3; i++) dot += x[i] / nx * (y[i] / ny);
    double g = sqrt(0.5 * (1 + dot)), w[3], eta = ny / nx, root = sqrt(eta);
    w[0] = 0.5 * (y[0] / ny + x[0] / nx) / g;
    w[1] = 0.5 * (y[1] / ny - x[1] / nx) / g;
    w[2] = 0.5 * (y[2] / ny - x[2] / nx) / g;
    for (int32_t i = 0; i < 3; i++) {
        for (int32_t j = 0; j < 3; j++) {
            double unit = i == j ? 1 : 0;
            double h = i == 0 || j == 0 ? w[i + j] : unit + w[i] * w[j] / (1 + w[0]);
            double sign = (i == 0) != (j == 0) ? -1 : 1;
            s->H[i][j] = root * h;
            s->inverse[i][j] = sign * h / root; // H^-1 = J H J / eta
            s->square[i][j] = eta * (2 * w[i] * w[j] - (i == 0 ? unit : -unit));
        }
    }
    for (int32_t i = 0; i < 3; i++)
        s->lambda[i] = s->H[i][0] * x[0] + s->H[i][1] * x[1] + s->H[i][2] * x[2];
}

static void scale_line(double x, double y, scaling *s) {
    s->H[0][0] = sqrt(y / x);
    s->inverse[0][0] = sqrt(x / y);
    s->square[0][0] = y / x;
    s->lambda[0] = sqrt(x * y);
}

/// v = lambda^-1 o d, then H v.
static void divide(const scaling *s, int32_t n, const double *d, double *ret) {
    if (n == 1) {
        ret[0] = s->H[0][0] * d[0] / s->lambda[0];
        return;
    }
    const double *l = s->lambda;
    double det = lorentz(l), tangent = l[1] * d[1] + l[2] * d[2];
    double v0 = (l[0] * d[0] - tangent) / det;
    double v1 = (d[1] - l[1] * v0) / l[0], v2 = (d[2] - l[2] * v0) / l[0];
    for (int32_t i = 0; i < 3; i++) ret[i] = s->H[i][0] * v0 + s->H[i][1] * v1 + s->H[i][2] * v2;
}

static void jordan(const double *a, const double *b, int32_t n, double *ret) {
    if (n == 1) {
        ret[0] = a[0] * b[0];
        return;
    }
    double dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    double r1 = a[0] * b[1] + b[0] * a[1], r2 = a[0] * b[2] + b[0] * a[2];
    ret[0] = dot;
    ret[1] = r1;
    ret[2] = r2;
}

static void apply(double m[3][3], int32_t n, const double *v, double *ret) {
    double r[3] = {0, 0, 0};
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++) r[i] += m[i][j] * v[j];
    memcpy(ret, r, (size_t)n * sizeof *ret);
}

/// How far along d from x the block stays in its cone.
static double reach(const double *x, const double *d, int32_t n) {
    if (n == 1) return d[0] < 0 ? -x[0] / d[0] : DBL_MAX;
    double far = d[0] < 0 ? -x[0] / d[0] : DBL_MAX;
    double a = lorentz(d), b = x[0] * d[0] - x[1] * d[1] - x[2] * d[2], c = lorentz(x);
    double disc = b * b - a * c;
    if (disc < 0) return far;
    double q = -(b + (b < 0 ? -sqrt(disc) : sqrt(disc)));
    double r1 = a != 0 ? q / a : DBL_MAX, r2 = q != 0 ? c / q : DBL_MAX;
    if (r1 > 0 && r1 < far) far = r1;
    if (r2 > 0 && r2 < far) far = r2;
    return far;
}

static bool scratch_alloc(scratch *s, const qpc_cone_problem *p, qpc_arena *arena) {
    size_t n = (size_t)p->size;
    double **all[] = {&s->residual, &s->dx, &s->dy, &s->ax, &s->ay, &s->rhs, &s->slope, &s->back};
    s->scale = qpc_arena_array(arena, (size_t)p->count, sizeof *s->scale);
    bool good = s->scale != NULL && qpc_natural_alloc(&s->natural, p, arena);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = qpc_arena_array(arena, n, sizeof(double));
        good = good && *all[i] != NULL;
    }
    return good;
}

qpc_status qpc_interior_init(qpc_interior *in, const qpc_cone_problem *p, double start,
                             double follow, qpc_arena *arena, qpc_error *err) {
    size_t n = (size_t)p->size;
    bool derivative = follow == 0;
    *in = (qpc_interior){
        .derivative = derivative, .follow = follow, .most = MAX_ITERATIONS, .best = DBL_MAX};
    in->slide = qpc_arena_array(arena, (size_t)p->count, sizeof *in->slide);
    in->x = qpc_arena_array(arena, n, sizeof *in->x);
    in->y = qpc_arena_array(arena, n, sizeof *in->y);
    in->best_x = qpc_arena_array(arena, n, sizeof *in->best_x);
    in->inverse = qpc_arena_array(arena, n, sizeof *in->inverse);
    in->pivots = qpc_arena_array(arena, n, sizeof *in->pivots);
    in->matrix = qpc_arena_array(arena, n * n, sizeof *in->matrix);
    if (in->x == NULL || in->y == NULL || in->best_x == NULL || in->inverse == NULL ||
        in->pivots == NULL || in->matrix == NULL || in->slide == NULL)
        return QPC_CONE_MEMORY(err, p);
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k];
        in->slide[k] = 0;
        for (int32_t j = i; j < p->at[k + 1]; j++) {
            in->inverse[j] = p->kind[k] == QPC_BLOCK_CONTACT && j == i ? 1 / p->mu[k] : 1;
            in->x[j] = in->y[j] = in->best_x[j] = 0;
        }
        if (p->kind[k] != QPC_BLOCK_FREE) in->x[i] = in->y[i] = start;
    }
    double skew = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            double d = fabs(p->A[i * n + j] - p->A[j * n + i]);
            skew = d > skew ? d : skew;
        }
    in->symmetric = !derivative && skew <= 1e-12; // blocks have lambda_max = 1
    return QPC_OK;
}

/// residual = y - A x - p - g e_0; slope: the direction of y_T for the derivative. Returns the gap.
static double residuals(qpc_interior *in, const qpc_cone_problem *p, scratch *s) {
    int32_t n = p->size, cones = 0;
    double gap = 0, sum = 0;
    // D^-1 A D^-1 is not stored: A takes D^-1 x.
    for (int32_t i = 0; i < n; i++) {
        s->back[i] = in->inverse[i] * in->x[i];
        s->residual[i] = p->p[i];
    }
    cblas_dgemv(CblasRowMajor, CblasNoTrans, n, n, 1, p->A, n, s->back, 1, 1, s->residual, 1);
    for (int32_t i = 0; i < n; i++) s->residual[i] = in->y[i] - in->inverse[i] * s->residual[i];
    for (int32_t k = 0; k < p->count; k++) {
        for (int32_t i = p->at[k]; i < p->at[k + 1]; i++) gap += in->x[i] * in->y[i];
        cones += p->kind[k] != QPC_BLOCK_FREE;
    }
    gap /= cones > 0 ? cones : 1;
    for (int32_t k = 0; k < p->count; k++) {
        if (p->kind[k] != QPC_BLOCK_CONTACT) continue;
        int32_t i = p->at[k];
        double slide = hypot(in->y[i + 1], in->y[i + 2]);
        if (in->derivative) {
            slide = sqrt(slide * slide + 1e-2 * gap);
            s->slope[i + 1] = in->y[i + 1] / slide;
            s->slope[i + 2] = in->y[i + 2] / slide;
        } else if (in->held) {
            slide = in->slide[k];
        } else {
            slide = in->slide[k] += in->follow * (slide - in->slide[k]);
        }
        s->residual[i] -= slide;
    }
    for (int32_t i = 0; i < n; i++) sum += s->residual[i] * s->residual[i];
    in->residual = sqrt(sum);
    return gap;
}

/// A + H^2 (and the derivative of g) into the matrix, by rows.
static void fill(qpc_interior *in, const qpc_cone_problem *p, scratch *s) {
    size_t n = (size_t)p->size;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            in->matrix[i * n + j] = p->A[i * n + j] * in->inverse[i] * in->inverse[j];
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k], size = p->at[k + 1] - i;
        double *row = in->matrix + (size_t)i * n;
        if (p->kind[k] == QPC_BLOCK_FREE) {
            row[i] += 1e-13 * fabs(row[i]);
            continue;
        }
        if (in->derivative && p->kind[k] == QPC_BLOCK_CONTACT)
            for (size_t j = 0; j < n; j++)
                row[j] += s->slope[i + 1] * row[n + j] + s->slope[i + 2] * row[2 * n + j];
        for (int32_t a = 0; a < size; a++)
            for (int32_t b = 0; b < size; b++)
                row[(size_t)a * n + i + b] += s->scale[k].square[a][b];
    }
}

/// Direction for lambda o (H dx + H^-1 dy) = target (in dx on entry), dy = A dx - residual.
static bool direction(qpc_interior *in, const qpc_cone_problem *p, scratch *s, bool factored) {
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k], size = p->at[k + 1] - i;
        if (p->kind[k] == QPC_BLOCK_FREE)
            s->dy[i] = 0;
        else
            divide(&s->scale[k], size, s->dx + i, s->dy + i);
    }
    for (int32_t i = 0; i < p->size; i++) s->dx[i] = s->dy[i] + s->residual[i];
    if (in->derivative)
        for (int32_t k = 0; k < p->count; k++) {
            if (p->kind[k] != QPC_BLOCK_CONTACT) continue;
            int32_t i = p->at[k];
            s->dx[i] += s->slope[i + 1] * s->residual[i + 1] + s->slope[i + 2] * s->residual[i + 2];
        }
    bool good = in->symmetric
                    ? qpc_cholesky_solve(p->size, in->matrix, s->dx, factored)
                    : qpc_lu_solve(p->size, in->matrix, true, in->pivots, s->dx, factored);
    if (!good) return false;
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k], size = p->at[k + 1] - i;
        if (p->kind[k] == QPC_BLOCK_FREE) continue;
        double moved[3];
        apply(s->scale[k].square, size, s->dx + i, moved);
        for (int32_t j = 0; j < size; j++) s->dy[i + j] -= moved[j];
    }
    return true;
}

static double longest(const qpc_interior *in, const qpc_cone_problem *p, const scratch *s) {
    double t = DBL_MAX;
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k], size = p->at[k + 1] - i;
        if (p->kind[k] == QPC_BLOCK_FREE) continue;
        double a = reach(in->x + i, s->dx + i, size), b = reach(in->y + i, s->dy + i, size);
        if (a < t) t = a;
        if (b < t) t = b;
    }
    return t;
}

static bool inside(const qpc_interior *in, const qpc_cone_problem *p) {
    for (int32_t k = 0; k < p->count; k++) {
        const double *x = in->x + p->at[k], *y = in->y + p->at[k];
        if (p->kind[k] == QPC_BLOCK_FREE) continue;
        if (!(x[0] > 0 && y[0] > 0)) return false;
        if (p->kind[k] == QPC_BLOCK_CONTACT && !(lorentz(x) > 0 && lorentz(y) > 0)) return false;
    }
    return true;
}

/// One predictor-corrector iteration; false if it cannot move.
static bool iterate(qpc_interior *in, const qpc_cone_problem *p, scratch *s) {
    if (!inside(in, p)) return false;
    in->gap = residuals(in, p, s);
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k], size = p->at[k + 1] - i;
        if (p->kind[k] == QPC_BLOCK_FREE) continue;
        if (p->kind[k] == QPC_BLOCK_CONTACT)
            scale_contact(in->x + i, in->y + i, &s->scale[k]);
        else
            scale_line(in->x[i], in->y[i], &s->scale[k]);
        jordan(s->scale[k].lambda, s->scale[k].lambda, size, s->rhs + i);
        for (int32_t j = i; j < i + size; j++) s->dx[j] = -s->rhs[j];
    }
    fill(in, p, s);
    if (!direction(in, p, s, false)) return false;
    double t = longest(in, p, s);
    t = t < 1 ? t : 1;
    double sigma = (1 - t) * (1 - t) * (1 - t);
    sigma = sigma > 1e-3 ? sigma : 1e-3;
    // The gap does not run ahead of De Saxce's term: a point that hugs the boundary cannot follow
    // it.
    double target = sigma * in->gap, least = GAP_PER_RESIDUAL * in->residual * in->residual;
    if (target < least) target = in->gap < least ? in->gap : least;
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k], size = p->at[k + 1] - i;
        if (p->kind[k] == QPC_BLOCK_FREE) continue;
        double cross[3];
        apply(s->scale[k].H, size, s->dx + i, s->ax + i);
        apply(s->scale[k].inverse, size, s->dy + i, s->ay + i);
        jordan(s->ax + i, s->ay + i, size, cross);
        for (int32_t j = 0; j < size; j++)
            s->dx[i + j] = -s->rhs[i + j] - cross[j] + (j == 0 ? target : 0);
    }
    if (!direction(in, p, s, true)) return false;
    t = 0.98 * longest(in, p, s);
    t = t < 1 ? t : 1;
    if (!(t > 1e-9)) return false;
    for (int32_t i = 0; i < p->size; i++) {
        in->x[i] += t * s->dx[i];
        in->y[i] += t * s->dy[i];
    }
    in->iterations++;
    return true;
}

qpc_status qpc_interior_run(qpc_interior *in, const qpc_cone_problem *p, double target,
                            qpc_arena *arena, double *x, bool *ret_stuck, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    scratch s;
    if (!scratch_alloc(&s, p, arena)) {
        qpc_arena_rewind(arena, mark);
        return QPC_CONE_MEMORY(err, p);
    }
    qpc_cone_set_up();
    *ret_stuck = false;
    while (in->best > target) {
        if (in->iterations >= in->most || in->idle >= IDLE_LIMIT || !iterate(in, p, &s)) {
            *ret_stuck = true;
            break;
        }
        for (int32_t i = 0; i < p->size; i++) s.back[i] = in->x[i] * in->inverse[i];
        qpc_natural_map(p, s.back, &s.natural);
        if (s.natural.norm < 0.7 * in->best || in->iterations < EARLY)
            in->idle = 0;
        else
            in->idle++;
        if (s.natural.norm < in->best) {
            in->best = s.natural.norm;
            memcpy(in->best_x, s.back, (size_t)p->size * sizeof *x);
        }
    }
    memcpy(x, in->best_x, (size_t)p->size * sizeof *x);
    qpc_arena_rewind(arena, mark);
    return QPC_OK;
}

qpc_status qpc_interior_converge(qpc_interior *in, const qpc_cone_problem *p, qpc_arena *arena,
                                 double *x, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    scratch s;
    if (!scratch_alloc(&s, p, arena)) {
        qpc_arena_rewind(arena, mark);
        return QPC_CONE_MEMORY(err, p);
    }
    qpc_cone_set_up();
    while (in->iterations < MAX_ITERATIONS && iterate(in, p, &s))
        if (in->gap <= 1e-18 && in->residual <= 1e-10) break;
    for (int32_t i = 0; i < p->size; i++) x[i] = in->x[i] * in->inverse[i];
    qpc_arena_rewind(arena, mark);
    return QPC_OK;
}
