/// Staggered projections (Kaufman et al. 2008): normal impulses with friction frozen, then friction
/// within what the normal impulses allow, in turn.
///
/// Both halves are convex and solved well; their alternation need not converge, so the best iterate
/// by the natural residual comes back. Worker thread of the world; memory from the arena.
#include "engine/solver/cones.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { CAP = 50, SWEEPS = 40, ROUNDS = 25 };

/// Newton goes on to here while it converges fast: what sticks stands still to round-off.
static const double FINE = 1e-15;

/// One sweep of projected block Gauss-Seidel over discs: x = P(x - y) block by block, y kept up to
/// date.
static void sweep(const qpc_cone_problem *p, double *x) {
    for (int32_t k = 0; k < p->count; k++) {
        int32_t i = p->at[k];
        double y[2];
        for (int32_t j = 0; j < 2; j++) {
            const double *row = p->A + (int64_t)(i + j) * p->size;
            y[j] = p->p[i + j];
            for (int32_t l = 0; l < p->size; l++) y[j] += row[l] * x[l];
        }
        double z0 = x[i] - y[0], z1 = x[i + 1] - y[1], t = hypot(z0, z1);
        double s = t > p->mu[k] ? p->mu[k] / t : 1;
        x[i] = s * z0;
        x[i + 1] = s * z1;
    }
}

qpc_status qpc_disc_solve(const qpc_cone_problem *p, double tolerance, qpc_arena *arena, double *x,
                          double *ret_norm, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    double *trial = qpc_arena_array(arena, (size_t)p->size, sizeof *trial), norm = DBL_MAX;
    qpc_natural natural;
    if (trial == NULL || !qpc_natural_alloc(&natural, p, arena)) {
        qpc_arena_rewind(arena, mark);
        return QPC_CONE_MEMORY(err, p);
    }
    qpc_status status = QPC_OK;
    int32_t steps = 0;
    for (int32_t round = 0; round < ROUNDS && status == QPC_OK; round++) {
        memcpy(trial, x, (size_t)p->size * sizeof *x);
        status = qpc_cone_newton(p, FINE, tolerance, true, 12, arena, trial, &norm, &steps, err);
        qpc_natural_map(p, x, &natural);
        if (norm < natural.norm) memcpy(x, trial, (size_t)p->size * sizeof *x);
        if (norm <= tolerance) break;
        for (int32_t s = 0; s < SWEEPS; s++) sweep(p, x);
    }
    qpc_natural_map(p, x, &natural);
    *ret_norm = natural.norm;
    qpc_arena_rewind(arena, mark);
    return status;
}

typedef struct halves {
    qpc_cone_problem normal, friction;
    int32_t *normal_at, *friction_at; // (sizes) unknowns of the whole
    int32_t *contact;                 // (friction.count) block of the whole
    double *xn, *xf;                  // (sizes)
} halves;

static bool take(const qpc_cone_problem *p, qpc_cone_problem *part, const int32_t *at,
                 qpc_arena *arena, double **ret_x) {
    size_t n = (size_t)part->size;
    part->A = qpc_arena_array(arena, n * n, sizeof(double));
    part->p = qpc_arena_array(arena, n, sizeof(double));
    part->mu = qpc_arena_array(arena, (size_t)part->count, sizeof(double));
    *ret_x = qpc_arena_array(arena, n, sizeof(double));
    if (part->A == NULL || part->p == NULL || part->mu == NULL || *ret_x == NULL) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) part->A[i * n + j] = p->A[(int64_t)at[i] * p->size + at[j]];
    return true;
}

static bool split(const qpc_cone_problem *p, halves *h, qpc_arena *arena) {
    size_t size = (size_t)p->size, count = (size_t)p->count;
    uint8_t *normal_kind = qpc_arena_array(arena, count, 1);
    uint8_t *disc_kind = qpc_arena_array(arena, count, 1);
    int32_t *normal_start = qpc_arena_array(arena, count + 1, sizeof(int32_t));
    int32_t *disc_start = qpc_arena_array(arena, count + 1, sizeof(int32_t));
    h->normal_at = qpc_arena_array(arena, size, sizeof(int32_t));
    h->friction_at = qpc_arena_array(arena, size, sizeof(int32_t));
    h->contact = qpc_arena_array(arena, count, sizeof(int32_t));
    if (normal_kind == NULL || disc_kind == NULL || normal_start == NULL || disc_start == NULL ||
        h->normal_at == NULL || h->friction_at == NULL || h->contact == NULL)
        return false;
    h->normal = (qpc_cone_problem){.kind = normal_kind, .at = normal_start};
    h->friction = (qpc_cone_problem){.kind = disc_kind, .at = disc_start};
    normal_start[0] = disc_start[0] = 0;
    for (int32_t k = 0; k < p->count; k++) {
        qpc_cone_problem *n = &h->normal, *f = &h->friction;
        normal_kind[n->count] = p->kind[k] == QPC_BLOCK_FREE ? QPC_BLOCK_FREE : QPC_BLOCK_HALF_LINE;
        h->normal_at[n->size++] = p->at[k];
        normal_start[++n->count] = n->size;
        if (p->kind[k] != QPC_BLOCK_CONTACT) continue;
        disc_kind[f->count] = QPC_BLOCK_DISC;
        h->contact[f->count] = k;
        h->friction_at[f->size++] = p->at[k] + 1;
        h->friction_at[f->size++] = p->at[k] + 2;
        disc_start[++f->count] = f->size;
    }
    return take(p, &h->normal, h->normal_at, arena, &h->xn) &&
           take(p, &h->friction, h->friction_at, arena, &h->xf);
}

/// p of one half: p + A x of the whole, less the half's own share.
static void load(const qpc_natural *whole, const int32_t *at, const double *x,
                 qpc_cone_problem *part, double *own) {
    for (int32_t i = 0; i < part->size; i++) own[i] = x[at[i]];
    for (int32_t i = 0; i < part->size; i++) {
        const double *row = part->A + (int64_t)i * part->size;
        double s = whole->y[at[i]];
        for (int32_t j = 0; j < part->size; j++) s -= row[j] * own[j];
        part->p[i] = s;
    }
}

static void unload(const int32_t *at, const qpc_cone_problem *part, const double *own, double *x) {
    for (int32_t i = 0; i < part->size; i++) x[at[i]] = own[i];
}

static qpc_status alternate(const qpc_cone_problem *p, halves *h, double tolerance,
                            qpc_arena *arena, double *x, qpc_natural *whole, qpc_error *err) {
    double norm = 0, inner = 1e-2 * (whole->norm < 1 ? whole->norm : 1);
    int32_t outers = 0, newton = 0;
    if (inner < 0.1 * tolerance) inner = 0.1 * tolerance;
    load(whole, h->normal_at, x, &h->normal, h->xn);
    qpc_status status =
        qpc_cone_solve(&h->normal, inner, 0, arena, h->xn, &norm, &outers, &newton, err);
    if (status != QPC_OK) return status;
    unload(h->normal_at, &h->normal, h->xn, x);
    qpc_natural_map(p, x, whole);
    load(whole, h->friction_at, x, &h->friction, h->xf);
    for (int32_t k = 0; k < h->friction.count; k++) {
        double push = x[p->at[h->contact[k]]];
        h->friction.mu[k] = push > 0 ? p->mu[h->contact[k]] * push : 0;
    }
    status = qpc_disc_solve(&h->friction, inner, arena, h->xf, &norm, err);
    if (status != QPC_OK) return status;
    unload(h->friction_at, &h->friction, h->xf, x);
    qpc_natural_map(p, x, whole);
    return QPC_OK;
}

qpc_status qpc_cone_stagger(const qpc_cone_problem *p, double tolerance, int32_t cap,
                            qpc_arena *arena, double *x, double *ret_norm, int32_t *ret_iterations,
                            qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_status status = QPC_OK;
    double *found = qpc_arena_array(arena, (size_t)p->size, sizeof *found), least = DBL_MAX;
    qpc_natural whole;
    halves h;
    if (found == NULL || !qpc_natural_alloc(&whole, p, arena) || !split(p, &h, arena)) {
        qpc_arena_rewind(arena, mark);
        return QPC_CONE_MEMORY(err, p);
    }
    if (cap <= 0 || cap > CAP) cap = CAP;
    qpc_natural_map(p, x, &whole);
    for (int32_t i = 0;; i++) {
        if (whole.norm < least) {
            least = whole.norm;
            memcpy(found, x, (size_t)p->size * sizeof *x);
        }
        if (least <= tolerance || i >= cap) break;
        status = alternate(p, &h, tolerance, arena, x, &whole, err);
        if (status != QPC_OK) break;
        ++*ret_iterations;
    }
    if (status == QPC_OK) memcpy(x, found, (size_t)p->size * sizeof *x);
    *ret_norm = least;
    qpc_arena_rewind(arena, mark);
    return status;
}
