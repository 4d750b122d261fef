/// Newton on the law as Alart and Curnier have it, where K has any pattern (TF13 of
/// docs/theory-friction.md).
///
///     F_N = x_N - max(0, z_N),   F_T = x_T - D(x_T - R y_T; mu max(0, z_N)),   z_N = x_N - R y_N,
///     D the projection on a disc
///
/// Zero where TF6 is, but without its term mu |y_T|, whose kink at rest is what keeps the other
/// methods going round where cloth folds between things that are driven. With P of each block the
/// derivative by z, and eps the weight of a proximal term,
///
///     (K + H'C H) s = H'(x + g) - (K dv - b),   g = -(I - P + eps)^-1 F,   C = R (I - P + eps)^-1
///     P,   d = g - C H s
///
/// In C what slides pushes along e_N + mu n by what it moves along e_N: not symmetric. GMRES,
/// preconditioned by the factor of the matrix without that coupling, in the norm of that matrix.
/// Worker thread of the world; memory from the arena.
#include "engine/solver/friction_sparse.h"
#include "engine/solver/hessenberg.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    VECTORS = 50,
    HALVINGS = 7,
    SLOW = 2, // steps without progress before a leap,
    IDLE = 9, // and before it is given up
};
static const double WEIGHT = 1; // R, of blocks that are scaled
static const double PROXIMAL = 1e-6,
                    PROXIMAL_LEAP = 1e-7; // eps; of a step that is taken whole, wherever it leads
static const double ENOUGH = 1e-3,
                    DESCENT = 1e-4; // ENOUGH: of eps, which |F| is over in the norm of GMRES
static const double PROGRESS = 0.5;

typedef struct newton {
    qpc_sheet *s;
    double (*F)[3], (*d)[3]; // (m); d: of x
    double *V, *MV;          // (VECTORS + 1 by n): GMRES, and the preconditioner's matrix times it
    double *rhs;             // (n)
    double proximal, mark;   // eps; |F| that progress is measured from
    int32_t slow;            // steps since
    bool leaps;              // the next one
} newton;

static bool allocate(newton *w) {
    size_t n = (size_t)w->s->qp->n + 3, m = (size_t)w->s->qp->m;
    w->F = qpc_arena_array(w->s->arena, m, sizeof *w->F);
    w->d = qpc_arena_array(w->s->arena, m, sizeof *w->d);
    w->V = qpc_arena_array(w->s->arena, n * (2 * VECTORS + 3), sizeof *w->V);
    if (w->F == NULL || w->d == NULL || w->V == NULL) return false;
    memset(w->V, 0, n * (2 * VECTORS + 3) * sizeof *w->V);
    w->MV = w->V + n * (VECTORS + 1);
    w->rhs = w->MV + n * (VECTORS + 1);
    return true;
}

/// F at x and y; *ret_part: radius of the disc over |z_T|, at most 1; n (2): the direction of z_T.
/// False: nothing pushes.
static bool law(const qpc_friction_block *b, const double *x, const double *y, double *F,
                double *ret_part, double *n) {
    double normal = x[0] - WEIGHT * y[0];
    bool pushes = b->kind == QPC_BLOCK_FREE || normal > 0;
    F[0] = pushes ? WEIGHT * y[0] : x[0];
    *ret_part = 1;
    if (b->size == 1) return pushes;
    double z[2] = {x[1] - WEIGHT * y[1], x[2] - WEIGHT * y[2]}, radius = b->mu * fmax(normal, 0),
           size = qpc_friction_length(z[0], z[1]);
    if (size > radius) *ret_part = radius / size;
    for (int32_t a = 0; a < 2; a++) {
        n[a] = size > 0 ? z[a] / size : 0;
        F[1 + a] = *ret_part < 1 ? x[1 + a] - *ret_part * z[a] : WEIGHT * y[1 + a];
    }
    return pushes;
}

/// |F| a step of length t away.
static double merit(const newton *w, double t) {
    double sum = 0;
    for (int32_t i = 0; i < w->s->qp->m; i++) {
        const qpc_friction_block *b = w->s->blocks + i;
        double x[3], y[3], F[3], part, n[2];
        for (int32_t a = 0; a < b->size; a++) {
            x[a] = b->x[a] + t * w->d[i][a];
            y[a] = b->y[a] + t * b->dy[a];
        }
        (void)law(b, x, y, F, &part, n);
        for (int32_t a = 0; a < b->size; a++) sum += F[a] * F[a];
    }
    return isfinite(sum) ? sqrt(sum) : DBL_MAX;
}

/// Row a of the block in the preconditioner: sum factor_k h_k.
static void set_row(qpc_sheet *s, const qpc_friction_block *b, int32_t row, double normal,
                    double first, double second) {
    double *out = s->row_value + s->row_start[row];
    s->weight[row] = 1;
    for (int32_t k = 0; k < b->columns; k++)
        out[k] = normal * b->h[0][k] + (b->size > 1 ? first * b->h[1][k] + second * b->h[2][k] : 0);
}

/// C and g of a block, and its rows in the preconditioner.
static void linearise_block(newton *w, int32_t i, int32_t row) {
    qpc_sheet *s = w->s;
    qpc_friction_block *b = s->blocks + i;
    double *F = w->F[i], part, n[2], eps = w->proximal, stiff = WEIGHT / eps, root = sqrt(stiff),
           one = 1 + eps;
    memset(b->C, 0, sizeof b->C);
    if (!law(b, b->x, b->y, F, &part, n)) {
        for (int32_t a = 0; a < b->size; a++) b->g[a] = -F[a] / one;
        return;
    }
    b->C[0][0] = stiff;
    b->g[0] = -F[0] / eps;
    set_row(s, b, row, root, 0, 0);
    if (b->size == 1) return;
    if (part == 1) {
        b->C[1][1] = b->C[2][2] = stiff;
        for (int32_t a = 1; a < 3; a++) b->g[a] = -F[a] / eps;
        set_row(s, b, row + 1, 0, root, 0);
        set_row(s, b, row + 2, 0, 0, root);
        return;
    }
    double around = WEIGHT * part / (1 - part + eps), along = b->mu * stiff;
    double across[2] = {-n[1], n[0]}, F_along = F[1] * n[0] + F[2] * n[1],
           F_around = F[1] * across[0] + F[2] * across[1];
    double g_along = (-F_along + b->mu * b->g[0]) / one, g_around = -F_around / (1 - part + eps);
    for (int32_t a = 0; a < 2; a++) {
        b->C[1 + a][0] = along * n[a];
        for (int32_t c = 0; c < 2; c++) b->C[1 + a][1 + c] = around * across[a] * across[c];
        b->g[1 + a] = g_along * n[a] + g_around * across[a];
    }
    set_row(s, b, row + 1, 0, sqrt(around) * across[0], sqrt(around) * across[1]);
}

/// The right-hand side, C and what is factored.
static void linearise(newton *w) {
    qpc_sheet *s = w->s;
    memset(s->weight, 0, (size_t)s->rows.m * sizeof *s->weight);
    for (int32_t k = 0; k < s->qp->n; k++) w->rhs[k] = -s->rest[k];
    for (int32_t i = 0, row = 0; i < s->qp->m; row += s->blocks[i++].size) {
        const qpc_friction_block *b = s->blocks + i;
        double push[3];
        linearise_block(w, i, row);
        for (int32_t a = 0; a < b->size; a++) push[a] = b->x[a] + b->g[a];
        qpc_friction_block_push(b, push, w->rhs);
    }
}

/// C h s of a block.
static void force_of(const qpc_friction_block *b, const double *s, double *ret) {
    double u[3];
    qpc_friction_block_velocity(b, s, u);
    for (int32_t a = 0; a < b->size; a++) {
        ret[a] = 0;
        for (int32_t c = 0; c < b->size; c++) ret[a] += b->C[a][c] * u[c];
    }
}

static void multiply(const qpc_sheet *s, const double *x, double *y) {
    double push[3];
    qpc_sheet_multiply(s->qp, x, y);
    for (int32_t i = 0; i < s->qp->m; i++) {
        if (s->blocks[i].C[0][0] == 0) continue;
        force_of(s->blocks + i, x, push);
        qpc_friction_block_push(s->blocks + i, push, y);
    }
}

static double dot(const double *a, const double *b, int32_t n) {
    double sum = 0;
    for (int32_t k = 0; k < n; k++) sum += a[k] * b[k];
    return sum;
}

/// s->d = about (K + H'C H)^-1 rhs. *ret_good false: not found.
static qpc_status gmres(newton *w, bool *ret_good, qpc_error *err) {
    qpc_sheet *s = w->s;
    int32_t n = s->qp->n, j = 0;
    size_t stride = (size_t)n + 3;
    qpc_hessenberg h = {0};
    qpc_status st = qpc_normal_solve(s->normal, w->rhs, s->d, err);
    if (st != QPC_OK) return st;
    double norm = sqrt(dot(s->d, w->rhs, n)), enough = ENOUGH * w->proximal * norm;
    *ret_good = norm > 0 && isfinite(norm);
    if (!*ret_good) return QPC_OK;
    for (int32_t k = 0; k < n; k++) {
        w->V[k] = s->d[k] / norm;
        w->MV[k] = w->rhs[k] / norm;
    }
    h.e[0] = norm;
    while (j < VECTORS && fabs(h.e[j]) > enough) {
        double *v = w->V + (size_t)j * stride, *z = v + stride,
               *mz = w->MV + (size_t)(j + 1) * stride;
        multiply(s, v, mz);
        if ((st = qpc_normal_solve(s->normal, mz, z, err)) != QPC_OK) return st;
        for (int32_t i = 0; i <= j; i++) {
            const double *vi = w->V + (size_t)i * stride, *mvi = w->MV + (size_t)i * stride;
            double part = h.R[j][i] = dot(mz, vi, n);
            for (int32_t k = 0; k < n; k++) {
                z[k] -= part * vi[k];
                mz[k] -= part * mvi[k];
            }
        }
        double size = h.R[j][j + 1] = sqrt(fmax(dot(mz, z, n), 0));
        for (int32_t k = 0; k < n && size > 0; k++) {
            z[k] /= size;
            mz[k] /= size;
        }
        qpc_hessenberg_rotate(&h, j++);
        if (!(size > 0)) break;
    }
    *ret_good = isfinite(h.e[j]);
    qpc_hessenberg_solve(&h, j);
    memset(s->d, 0, (size_t)n * sizeof *s->d);
    for (int32_t i = 0; i < j; i++)
        for (int32_t k = 0; k < n; k++) s->d[k] += h.e[i] * w->V[(size_t)i * stride + (size_t)k];
    s->cg_steps += j;
    return QPC_OK;
}

/// s->d = K^-1 (b - K dv + H'(x + d)) and dy of the blocks: the motion that goes with d to
/// round-off.
static qpc_status follow(newton *w, qpc_error *err) {
    qpc_sheet *s = w->s;
    double push[3];
    for (int32_t k = 0; k < s->qp->n; k++) s->d[k] = -s->rest[k];
    for (int32_t i = 0; i < s->qp->m; i++) {
        for (int32_t a = 0; a < s->blocks[i].size; a++) push[a] = s->blocks[i].x[a] + w->d[i][a];
        qpc_friction_block_push(s->blocks + i, push, s->d);
    }
    qpc_status st = qpc_linsys_solve_many(s->qp->sys, s->d, 1, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < s->qp->m; i++)
        qpc_friction_block_velocity(s->blocks + i, s->d, s->blocks[i].dy);
    return QPC_OK;
}

static void move(newton *w, double t) {
    qpc_sheet *s = w->s;
    for (int32_t k = 0; k < s->qp->n; k++) s->dv[k] += t * s->d[k];
    for (int32_t i = 0; i < s->qp->m; i++)
        for (int32_t a = 0; a < s->blocks[i].size; a++) s->blocks[i].x[a] += t * w->d[i][a];
    qpc_sheet_refresh(s);
}

/// Where |F| has stopped falling (it has minima that are no zeros) the next step is a leap.
static void pace(newton *w, double end) {
    bool gained = end < PROGRESS * w->mark;
    w->slow = gained ? 0 : w->slow + 1;
    if (gained) w->mark = end;
    w->leaps = w->slow >= SLOW;
    w->proximal = w->leaps ? PROXIMAL_LEAP : PROXIMAL;
    if (!w->leaps) return;
    w->slow = 0;
    w->mark = HUGE_VAL;
}

static qpc_status step(newton *w, bool *ret_good, qpc_error *err) {
    qpc_sheet *s = w->s;
    linearise(w);
    qpc_status st = qpc_sheet_factor(s, ret_good, err);
    if (st == QPC_OK && *ret_good) st = gmres(w, ret_good, err);
    if (st != QPC_OK || !*ret_good) return st;
    for (int32_t i = 0; i < s->qp->m; i++) {
        const qpc_friction_block *b = s->blocks + i;
        double moved[3];
        force_of(b, s->d, moved);
        for (int32_t a = 0; a < b->size; a++) w->d[i][a] = b->g[a] - moved[a];
    }
    if ((st = follow(w, err)) != QPC_OK) return st;
    double start = merit(w, 0), t = 1;
    for (int32_t k = 0; k < HALVINGS && !w->leaps && !(merit(w, t) <= (1 - DESCENT * t) * start);
         k++)
        t *= 0.5;
    double end = merit(w, t);
    *ret_good = end < DBL_MAX;
    pace(w, end);
    if (*ret_good) move(w, t);
    return QPC_OK;
}

/// dv of x.
static qpc_status settle(newton *w, qpc_error *err) {
    memset(w->d, 0, (size_t)w->s->qp->m * sizeof *w->d);
    qpc_status st = follow(w, err);
    if (st == QPC_OK) move(w, 1);
    return st;
}

/// |F| of TF6 at x; what is best so far is kept.
static double look(qpc_sheet *s, double least) {
    double norm = qpc_friction_blocks_map(s->blocks, s->qp->m);
    for (int32_t i = 0; i < s->qp->m && norm < least; i++)
        memcpy(s->blocks[i].best, s->blocks[i].x, sizeof s->blocks[i].x);
    return fmin(least, norm);
}

qpc_status qpc_sheet_newton(qpc_sheet *s, double goal, int32_t most, int32_t *steps,
                            qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(s->arena);
    newton w = {.s = s, .proximal = PROXIMAL, .mark = HUGE_VAL};
    if (!allocate(&w))
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", s->qp->m);
    qpc_status st = settle(&w, err);
    double least = st == QPC_OK ? look(s, DBL_MAX) : DBL_MAX, last = least;
    bool good = st == QPC_OK;
    for (int32_t k = 0, idle = 0; good && k < most && idle < IDLE && least > goal; k++) {
        ++*steps;
        if ((st = step(&w, &good, err)) != QPC_OK) break;
        least = look(s, least);
        idle = least < PROGRESS * last ? 0 : idle + 1;
        if (idle == 0) last = least;
    }
    for (int32_t i = 0; i < s->qp->m && least < DBL_MAX; i++)
        memcpy(s->blocks[i].x, s->blocks[i].best, sizeof s->blocks[i].x);
    if (st == QPC_OK) st = settle(&w, err);
    qpc_arena_rewind(s->arena, mark);
    return st;
}
