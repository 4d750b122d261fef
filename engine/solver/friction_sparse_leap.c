/// Close by: whole Newton steps that see how g = mu |y_T| moves, where K has any pattern.
///
///     K dv - b = H'x,   x = P(x_c - R y^),   y^ = y + mu |y_T| e_N:   (K + H'R P'V H) d = -(K dv - b - H'x),   x_c <- x
///
/// V the derivative of y^. The matrix is not symmetric; without V it is that of friction_sparse_step.c, by which flexible GMRES
/// is preconditioned (some conjugate gradients, or the factor). Where De Saxce's fixed point creeps, or goes round in circles, and the
/// sets are right, a few such steps are all that is left to do. Worker thread of the world; memory from the arena.
#include "engine/solver/friction_sparse.h"
#include "engine/solver/hessenberg.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    LEAPS = 6,     // in a row
    VECTORS = 30,  // of GMRES
    CG_INSIDE = 4,
};
static const double ENOUGH = 1e-2, INSIDE = 0.05; // of the gradient: GMRES; conjugate gradients inside
static const double PROGRESS = 0.3, WILD = 10;    // of the error, or it is given up; what the first step may make of it
static const double R_MOST_CG = 1e3, R_MOST_FACTOR = 1e8;

typedef struct kept { // of a block
    double x[3], y[3], center[3], slide, R;
} kept;

typedef struct leap {
    qpc_sheet *s;
    double *weight;         // (n) of the norm
    double *V, *Z;          // (VECTORS + 1, VECTORS by n + 3)
    double *dv, *rest;      // kept
    kept *blocks;           // (m)
} leap;

static bool allocate(leap *l) {
    size_t n = (size_t)l->s->qp->n + 3, m = (size_t)l->s->qp->m;
    double *memory = qpc_arena_array(l->s->arena, n * (2 * VECTORS + 4), sizeof *memory);
    l->blocks = qpc_arena_array(l->s->arena, m, sizeof *l->blocks);
    if (memory == NULL || l->blocks == NULL) return false;
    for (size_t k = 1; k <= 2 * VECTORS + 4; k++) memset(memory + k * n - 3, 0, 3 * sizeof *memory); // beyond n, as conjugate gradients fill up
    l->V = memory;
    l->Z = l->V + n * (VECTORS + 1);
    l->weight = l->Z + n * VECTORS;
    l->dv = l->weight + n;
    l->rest = l->dv + n;
    return true;
}

static void keep(leap *l) {
    const qpc_sheet *s = l->s;
    memcpy(l->dv, s->dv, (size_t)s->qp->n * sizeof *l->dv);
    memcpy(l->rest, s->rest, (size_t)s->qp->n * sizeof *l->rest);
    for (int32_t i = 0; i < s->qp->m; i++) {
        const qpc_friction_block *b = s->blocks + i;
        kept *k = l->blocks + i;
        memcpy(k->x, b->x, sizeof k->x);
        memcpy(k->y, b->y, sizeof k->y);
        memcpy(k->center, b->center, sizeof k->center);
        k->slide = b->slide;
    }
}

static void go_back(leap *l) {
    qpc_sheet *s = l->s;
    memcpy(s->dv, l->dv, (size_t)s->qp->n * sizeof *l->dv);
    memcpy(s->rest, l->rest, (size_t)s->qp->n * sizeof *l->rest);
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        const kept *k = l->blocks + i;
        memcpy(b->x, k->x, sizeof k->x);
        memcpy(b->y, k->y, sizeof k->y);
        memcpy(b->center, k->center, sizeof k->center);
        b->slide = k->slide;
    }
}

/// out += h'R P'(V - I) h d: what is not symmetric. P' e_N of what slides on the boundary, where z is taken from.
static void add_turning(const qpc_sheet *s, const double *d, double *out) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        const qpc_friction_block *b = s->blocks + i;
        double slide = qpc_friction_length(b->y[1], b->y[2]), dy[3], z[3], push[3];
        if (b->side != 2 || !(slide > DBL_MIN)) continue;
        qpc_friction_block_velocity(b, d, dy);
        double rise = b->R * b->mu * (b->y[1] * dy[1] + b->y[2] * dy[2]) / slide;
        for (int32_t a = 0; a < 3; a++) z[a] = b->center[a] - b->R * (b->y[a] + (a == 0 ? b->slide : 0));
        qpc_friction_turn t = qpc_friction_turn_of(b->mu, z);
        for (int32_t a = 0; a < 3; a++) push[a] = rise * t.a[0] * t.a[a]; // p has no normal part
        qpc_friction_block_push(b, push, out);
    }
}

/// The matrix times d, which is what the preconditioner gave last.
static void multiply(qpc_sheet *s, const double *d, double *out) {
    if (s->by_cg && s->single) qpc_ssor_product(&s->ssor, out);
    else qpc_sheet_multiply(s->qp, d, out);
    for (int32_t l = 0; l < s->listed; l++) {
        int32_t from = s->row_start[s->list[l]], to = s->row_start[s->list[l] + 1];
        double sum = 0;
        for (int32_t k = from; k < to; k++) sum += s->row_value[k] * d[s->row_column[k]];
        for (int32_t k = from; k < to; k++) out[s->row_column[k]] += sum * s->row_value[k];
    }
    add_turning(s, d, out);
}

static double dot(const leap *l, const double *a, const double *b) {
    double sum = 0;
    for (int32_t k = 0; k < l->s->qp->n; k++) sum += l->weight[k] * a[k] * b[k];
    return sum;
}

/// z = about (K + H'C H)^-1 v
static qpc_status precondition(leap *l, const double *v, double *z, qpc_error *err) {
    qpc_sheet *s = l->s;
    if (!s->by_cg) return qpc_normal_solve(s->normal, v, z, err);
    int64_t before = s->ssor.steps;
    double norm = qpc_ssor_start(&s->ssor, v);
    qpc_ssor_solve(&s->ssor, INSIDE * norm, CG_INSIDE, z);
    s->cg_steps += s->ssor.steps - before;
    return QPC_OK;
}

static void set_norm(leap *l) {
    const qpc_sheet *s = l->s;
    for (int32_t k = 0; k < s->qp->n; k++) l->weight[k] = s->qp->sys->diagonal[k];
    for (int32_t r = 0; r < s->listed; r++)
        for (int32_t k = s->row_start[s->list[r]]; k < s->row_start[s->list[r] + 1]; k++)
            l->weight[s->row_column[k]] += s->row_value[k] * s->row_value[k];
    for (int32_t k = 0; k < s->qp->n; k++) l->weight[k] = 1 / l->weight[k];
}

/// s->d = about A^-1 grad. *ret_good false: not found.
static qpc_status gmres(leap *l, bool *ret_good, qpc_error *err) {
    qpc_sheet *s = l->s;
    size_t n = (size_t)s->qp->n + 3;
    qpc_hessenberg h = {0};
    double norm = sqrt(dot(l, s->grad, s->grad));
    int32_t j = 0;
    *ret_good = norm > 0 && isfinite(norm);
    if (!*ret_good) return QPC_OK;
    for (int32_t k = 0; k < s->qp->n; k++) l->V[k] = s->grad[k] / norm;
    h.e[0] = norm;
    while (j < VECTORS && fabs(h.e[j]) > ENOUGH * norm) {
        double *v = l->V + (size_t)j * n, *z = l->Z + (size_t)j * n, *w = v + n;
        qpc_status st = precondition(l, v, z, err);
        if (st != QPC_OK) return st;
        multiply(s, z, w);
        for (int32_t i = 0; i <= j; i++) {
            double part = h.R[j][i] = dot(l, w, l->V + (size_t)i * n);
            for (int32_t k = 0; k < s->qp->n; k++) w[k] -= part * l->V[(size_t)i * n + (size_t)k];
        }
        double size = h.R[j][j + 1] = sqrt(dot(l, w, w));
        for (int32_t k = 0; k < s->qp->n && size > 0; k++) w[k] /= size;
        qpc_hessenberg_rotate(&h, j++);
        if (!(size > 0)) break;
    }
    *ret_good = isfinite(h.e[j]) && fabs(h.e[j]) <= 0.3 * norm && !s->ssor.lost;
    qpc_hessenberg_solve(&h, j);
    memset(s->d, 0, (size_t)s->qp->n * sizeof *s->d);
    for (int32_t i = 0; i < j; i++)
        for (int32_t k = 0; k < s->qp->n; k++) s->d[k] += h.e[i] * l->Z[(size_t)i * n + (size_t)k];
    return QPC_OK;
}

/// x becomes the centre and g what it is; what the next step is taken from, and how far off it is. HUGE_VAL: no matrix.
static double center(qpc_sheet *s) {
    double sum = 0;
    qpc_sheet_center(s);
    if (!qpc_sheet_linearise(s, false) || !isfinite(s->gradient)) return HUGE_VAL;
    for (int32_t i = 0; i < s->qp->m; i++) {
        const qpc_friction_block *b = s->blocks + i;
        for (int32_t a = 0; a < b->size; a++) sum += (b->x[a] - b->center[a]) * (b->x[a] - b->center[a]) / b->R;
    }
    return sqrt(sum) + s->gradient;
}

static qpc_status step(leap *l, bool *ret_good, qpc_error *err) {
    qpc_sheet *s = l->s;
    qpc_status st = s->by_cg ? QPC_OK : qpc_sheet_factor(s, ret_good, err);
    if (st != QPC_OK || !(s->by_cg || *ret_good)) return st;
    set_norm(l);
    if ((st = gmres(l, ret_good, err)) != QPC_OK || !*ret_good) return st;
    qpc_sheet_multiply(s->qp, s->d, s->Kd);
    for (int32_t k = 0; k < s->qp->n; k++) {
        s->dv[k] += s->d[k];
        s->rest[k] += s->Kd[k];
    }
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        double dy[3], z[3];
        qpc_friction_block_velocity(b, s->d, dy);
        for (int32_t a = 0; a < b->size; a++) b->y[a] += dy[a];
        b->slide = qpc_sheet_slide(b);
        b->side = qpc_friction_multiplier(b, b->y, z, b->x);
    }
    return QPC_OK;
}

qpc_status qpc_sheet_leap(qpc_sheet *s, double R, double goal, int32_t most, int32_t *steps, bool *ret_gained, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(s->arena);
    leap l = {.s = s};
    *ret_gained = false;
    if (!allocate(&l)) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", s->qp->m);
    bool late = s->late; // whole vectors from here on
    if (late && !s->fresh) qpc_sheet_refresh(s);
    s->late = false;
    keep(&l);
    R = fmin(R, s->by_cg ? R_MOST_CG : R_MOST_FACTOR);
    for (int32_t i = 0; i < s->qp->m; i++) {
        l.blocks[i].R = s->blocks[i].R;
        s->blocks[i].R = fmax(s->blocks[i].R, R);
    }
    double least = center(s), error = least;
    qpc_status st = QPC_OK;
    for (int32_t k = 0; k < LEAPS && *steps < most && error < HUGE_VAL && error > goal; k++) {
        bool good;
        double before = error;
        ++*steps;
        if ((st = step(&l, &good, err)) != QPC_OK) break;
        error = good ? center(s) : HUGE_VAL;
        if (error < least) {
            if (error <= PROGRESS * least) *ret_gained = true;
            least = error;
            keep(&l);
        }
        if (!(error <= PROGRESS * before) && (k > 0 || !(error <= WILD * before))) break;
    }
    s->ssor.lost = false;
    s->late = late;
    if (st == QPC_OK) go_back(&l);
    for (int32_t i = 0; i < s->qp->m; i++) s->blocks[i].R = l.blocks[i].R;
    qpc_arena_rewind(s->arena, mark);
    return st;
}
