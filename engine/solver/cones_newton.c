/// Semismooth Newton on the natural map of a cone problem.
///
/// With V the derivative of y^ and P' one of P at z = x - y^, it solves (I - P'(I - V - eps I)) d =
/// -F. Where nothing is touched P' = 0 and d = -x, so only the blocks that carry something enter
/// the matrix. eps = 1e-12 keeps the matrix regular where contacts are redundant: what A does not
/// see is not moved. Where that gives no descent, Levenberg steps follow. Worker thread of the
/// world; memory from the arena.
#include "engine/solver/cones.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

static const double SHIFT = 1e-12;
enum { IDLE_LIMIT = 5 };

typedef struct newton {
    const qpc_cone_problem *problem;
    qpc_natural here, there;
    int32_t *active, *owner; // (size) unknowns of blocks that are not open, and their blocks
    int32_t count;
    double *matrix, *copy,
        *squared; // (count x count); copy: before it is factored, for squared; patient only
    double *step, *trial, *rhs; // (size)
    int *pivots;
    bool patient; // Levenberg steps where Newton's fail
    int32_t room; // unknowns that matrix and the others have place for
} newton;

/// d(y^_i)/d(active unknowns) of row i of block k into `row`, plus SHIFT on the diagonal.
static void derivative_row(const newton *w, int32_t k, int32_t i, double *row) {
    const qpc_cone_problem *p = w->problem;
    const double *a = p->A + (int64_t)i * p->size;
    for (int32_t j = 0; j < w->count; j++)
        row[j] = a[w->active[j]] + (w->active[j] == i ? SHIFT : 0);
    if (p->kind[k] != QPC_BLOCK_CONTACT || i != p->at[k]) return;
    const double *y = w->here.y + i;
    double slide = hypot(y[1], y[2]);
    if (!(slide > DBL_MIN)) return;
    double d1 = p->mu[k] * y[1] / slide, d2 = p->mu[k] * y[2] / slide;
    const double *a1 = a + p->size, *a2 = a1 + p->size;
    for (int32_t j = 0; j < w->count; j++) row[j] += d1 * a1[w->active[j]] + d2 * a2[w->active[j]];
}

/// P' of a block on the boundary of its set.
static void projection_derivative(const newton *w, int32_t k, double P[3][3]) {
    const qpc_cone_problem *p = w->problem;
    const double *z = w->here.z + p->at[k];
    memset(P, 0, 9 * sizeof(double));
    if (p->kind[k] == QPC_BLOCK_DISC) {
        double t = hypot(z[0], z[1]), c = z[0] / t, s = z[1] / t, g = p->mu[k] / t;
        P[0][0] = g * s * s;
        P[0][1] = P[1][0] = -g * c * s;
        P[1][1] = g * c * c;
        return;
    }
    double mu = p->mu[k], t = hypot(z[1], z[2]), c = z[1] / t, s = z[2] / t;
    double one = 1 / (1 + mu * mu), g = mu * (z[0] + mu * t) * one / t;
    P[0][0] = one;
    P[0][1] = P[1][0] = mu * c * one;
    P[0][2] = P[2][0] = mu * s * one;
    P[1][1] = mu * mu * c * c * one + g * s * s;
    P[1][2] = P[2][1] = (mu * mu * one - g) * c * s;
    P[2][2] = mu * mu * s * s * one + g * c * c;
}

/// The matrix I - P'(I - V - SHIFT I) over the active unknowns, by rows.
static void fill(newton *w) {
    const qpc_cone_problem *p = w->problem;
    for (int32_t a = 0; a < w->count;) {
        int32_t k = w->owner[a], i = p->at[k], n = p->at[k + 1] - i;
        double *rows = w->matrix + (int64_t)a * w->count;
        for (int32_t j = 0; j < n; j++) derivative_row(w, k, i + j, rows + (int64_t)j * w->count);
        if (w->here.state[k] == 2) {
            double P[3][3];
            projection_derivative(w, k, P);
            for (int32_t j = 0; j < w->count; j++) {
                double v[3] = {0, 0, 0}, e[3] = {0, 0, 0};
                for (int32_t l = 0; l < n; l++) {
                    e[l] = a + l == j ? 1 : 0;
                    v[l] = e[l] - rows[(int64_t)l * w->count + j];
                }
                for (int32_t l = 0; l < n; l++)
                    rows[(int64_t)l * w->count + j] =
                        e[l] - (P[l][0] * v[0] + P[l][1] * v[1] + P[l][2] * v[2]);
            }
        }
        a += n;
    }
}

/// Right-hand side -F, less what the open blocks do on their way to zero.
static void fill_rhs(newton *w) {
    const qpc_cone_problem *p = w->problem;
    // step of open blocks = -x = -f; their A-columns act on the others through P'.
    double *moved = w->trial;
    bool any = false;
    memset(w->step, 0, (size_t)p->size * sizeof *w->step);
    for (int32_t k = 0; k < p->count; k++) {
        if (w->here.state[k] != 0) continue;
        for (int32_t i = p->at[k]; i < p->at[k + 1]; i++) {
            w->step[i] = -w->here.f[i];
            any = any || w->step[i] != 0;
        }
    }
    memset(moved, 0, (size_t)p->size * sizeof *moved);
    if (any)
        cblas_dgemv(CblasRowMajor, CblasNoTrans, p->size, p->size, 1, p->A, p->size, w->step, 1, 0,
                    moved, 1);
    for (int32_t a = 0; a < w->count;) {
        int32_t k = w->owner[a], i = p->at[k], n = p->at[k + 1] - i;
        double v[3] = {0, 0, 0};
        for (int32_t j = 0; j < n; j++) v[j] = moved[i + j];
        if (p->kind[k] == QPC_BLOCK_CONTACT) {
            const double *y = w->here.y + i;
            double slide = hypot(y[1], y[2]);
            if (slide > DBL_MIN) v[0] += p->mu[k] * (y[1] * v[1] + y[2] * v[2]) / slide;
        }
        double P[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
        if (w->here.state[k] == 2) projection_derivative(w, k, P);
        for (int32_t j = 0; j < n; j++)
            w->rhs[a + j] = -w->here.f[i + j] - (P[j][0] * v[0] + P[j][1] * v[1] + P[j][2] * v[2]);
        a += n;
    }
}

static bool make_room(newton *w, qpc_arena *arena) {
    if (w->count <= w->room) return true;
    size_t n = (size_t)(w->count < w->problem->size * 3 / 4 ? w->count * 5 / 4 : w->problem->size);
    if (n < (size_t)w->count) n = (size_t)w->count;
    w->matrix = qpc_arena_array(arena, n * n, sizeof *w->matrix);
    w->copy = w->patient ? qpc_arena_array(arena, n * n, sizeof *w->copy) : NULL;
    w->squared = NULL;
    if (w->matrix == NULL || (w->patient && w->copy == NULL)) return false;
    w->room = (int32_t)n;
    return true;
}

/// Armijo on the norm along step; the new x is in trial, its map in `there`.
static bool search(newton *w, const double *x, int32_t halvings) {
    double t = 1;
    for (int32_t h = 0; h < halvings; h++, t *= 0.5) {
        for (int32_t i = 0; i < w->problem->size; i++) w->trial[i] = x[i] + t * w->step[i];
        qpc_natural_map(w->problem, w->trial, &w->there);
        if (w->there.norm <= (1 - 1e-3 * t) * w->here.norm) return true;
    }
    return false;
}

/// (J'J + weight I) d = -J'F over the active unknowns.
static bool levenberg(newton *w, double weight) {
    int32_t n = w->count;
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, n, n, 1, w->copy, n, 0, w->squared, n);
    for (int32_t i = 0; i < n; i++) w->squared[(int64_t)i * n + i] += weight;
    // By rows the lower triangle is the upper one by columns: copy it over.
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++)
            w->squared[(int64_t)j * n + i] = w->squared[(int64_t)i * n + j];
    double *d = w->there.f; // free until the search
    cblas_dgemv(CblasRowMajor, CblasTrans, n, n, 1, w->copy, n, w->rhs, 1, 0, d, 1);
    if (!qpc_cholesky_solve(n, w->squared, d, false)) return false;
    for (int32_t i = 0; i < n; i++) w->step[w->active[i]] = d[i];
    return true;
}

static bool advance(newton *w, const double *x, qpc_arena *arena, bool *ret_memory) {
    const qpc_cone_problem *p = w->problem;
    w->count = 0;
    for (int32_t k = 0; k < p->count; k++) {
        if (w->here.state[k] == 0) continue;
        for (int32_t i = p->at[k]; i < p->at[k + 1]; i++) {
            w->owner[w->count] = k;
            w->active[w->count++] = i;
        }
    }
    if (!make_room(w, arena)) {
        *ret_memory = false;
        return false;
    }
    fill(w);
    fill_rhs(w);
    size_t bytes = (size_t)w->count * (size_t)w->count * sizeof *w->matrix;
    double *d = w->there.f;
    if (w->count > 0) { // no row pushes: nothing was taken for the matrix
        if (w->patient) memcpy(w->copy, w->matrix, bytes);
        memcpy(d, w->rhs, (size_t)w->count * sizeof *d);
    }
    if (w->count == 0 || qpc_lu_solve(w->count, w->matrix, true, w->pivots, d, false)) {
        for (int32_t i = 0; i < w->count; i++) w->step[w->active[i]] = d[i];
        if (search(w, x, w->patient ? 12 : 6)) return true;
    }
    if (w->count == 0 || !w->patient) return false;
    if (w->squared == NULL) {
        w->squared = qpc_arena_array(arena, (size_t)w->room * (size_t)w->room, sizeof *w->squared);
        if (w->squared == NULL) {
            *ret_memory = false;
            return false;
        }
    }
    for (double weight = 1e-10; weight < 1; weight *= 1e3)
        if (levenberg(w, weight) && search(w, x, 6)) return true;
    return false;
}

qpc_status qpc_cone_newton(const qpc_cone_problem *problem, double goal, double enough,
                           bool patient, int32_t steps, qpc_arena *arena, double *x,
                           double *ret_norm, int32_t *ret_steps, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    size_t n = (size_t)problem->size;
    newton w = {.problem = problem, .patient = patient};
    w.active = qpc_arena_array(arena, n, sizeof *w.active);
    w.owner = qpc_arena_array(arena, n, sizeof *w.owner);
    w.pivots = qpc_arena_array(arena, n, sizeof *w.pivots);
    w.step = qpc_arena_array(arena, n, sizeof *w.step);
    w.trial = qpc_arena_array(arena, n, sizeof *w.trial);
    w.rhs = qpc_arena_array(arena, n, sizeof *w.rhs);
    bool memory = qpc_natural_alloc(&w.here, problem, arena) &&
                  qpc_natural_alloc(&w.there, problem, arena) && w.active != NULL &&
                  w.pivots != NULL && w.owner != NULL && w.step != NULL && w.trial != NULL &&
                  w.rhs != NULL;
    if (memory) {
        qpc_natural_map(problem, x, &w.here);
        int32_t idle = 0, limit = patient ? IDLE_LIMIT : 2;
        for (int32_t s = 0; s < steps && w.here.norm > goal && idle < limit; s++) {
            if (!advance(&w, x, arena, &memory)) break;
            ++*ret_steps;
            idle = w.there.norm > 0.9 * w.here.norm ? idle + 1 : 0;
            // Good enough already, and not converging quadratically: round-off is near.
            if (w.there.norm <= enough && w.there.norm > 0.1 * w.here.norm) idle = limit;
            memcpy(x, w.trial, n * sizeof *x);
            qpc_natural swap = w.here;
            w.here = w.there;
            w.there = swap;
        }
        *ret_norm = w.here.norm;
    }
    qpc_arena_rewind(arena, mark);
    return memory ? QPC_OK : QPC_CONE_MEMORY(err, problem);
}
