/// Newton on a cone problem with the law as Alart and Curnier have it, TF13 of docs/theory-friction.md on dense matrices.
///
///     F_N = x_N - max(0, z_N),   F_T = x_T - D(x_T - y_T; mu max(0, z_N)),   z_N = x_N - y_N,
///     D the projection on a disc
///
/// Zero where the natural map is, but without its term mu |y_T|, whose kink at rest other Newton steps jump to and fro on. Contacts that
/// depend on each other leave impulses that A hardly sees: a proximal term holds them,
///
///     (I - P (I - A - eps I)) d = -F,   P the derivative of a block's projection by z,   eps as small as |F| allows (T60)
///
/// Worker thread of the world; memory from the arena: one dense matrix of the blocks that push.
#include "engine/solver/cones.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { HALVINGS = 8 };
static const double PROXIMAL = 0.1, PROXIMAL_MOST = 1e-3; // eps: of |F|; at most
static const double DESCENT = 1e-4;
static const double PROGRESS = 0.5; // of |F|; a step that makes less is followed by one that is taken whole

typedef struct alart {
    const qpc_cone_problem *p;
    double *F, *d, *Ad, *rhs, *matrix, *best; // (size); matrix: (room x room)
    int32_t *active, *owner, count, room;     // unknowns of blocks that push, and their blocks
    int *pivots;
    qpc_natural here;
    double mark; // |F| that progress is measured from
    bool whole;  // the next step
} alart;

typedef struct side { // of a block, at some x and y
    bool pushes, slides;
    double part, n[2]; // radius of the disc over |z_T|; the direction of z_T
} side;

/// F of a block.
static side law(const qpc_cone_problem *p, int32_t k, const double *x, const double *y, double *F) {
    double normal = x[0] - y[0];
    side s = {.pushes = p->kind[k] == QPC_BLOCK_FREE || normal > 0, .part = 1};
    F[0] = s.pushes ? y[0] : x[0];
    if (p->kind[k] != QPC_BLOCK_CONTACT) return s;
    double z[2] = {x[1] - y[1], x[2] - y[2]}, radius = p->mu[k] * fmax(normal, 0), size = hypot(z[0], z[1]);
    s.slides = size > radius;
    if (s.slides) s.part = radius / size;
    for (int32_t a = 0; a < 2; a++) {
        s.n[a] = size > 0 ? z[a] / size : 0;
        F[1 + a] = s.slides ? x[1 + a] - s.part * z[a] : y[1 + a];
    }
    return s;
}

/// |F| a step of length t away.
static double merit(const alart *w, const double *x, double t) {
    const qpc_cone_problem *p = w->p;
    double sum = 0;
    for (int32_t k = 0; k < p->count; k++) {
        double moved[3], y[3], F[3];
        int32_t at = p->at[k], n = p->at[k + 1] - at;
        for (int32_t a = 0; a < n; a++) {
            moved[a] = x[at + a] + t * w->d[at + a];
            y[a] = w->here.y[at + a] + t * w->Ad[at + a];
        }
        (void)law(p, k, moved, y, F);
        for (int32_t a = 0; a < n; a++) sum += F[a] * F[a];
    }
    return isfinite(sum) ? sqrt(sum) : DBL_MAX;
}

/// The blocks that push, and F. What does not push goes to zero at once.
static double sort_out(alart *w, const double *x) {
    const qpc_cone_problem *p = w->p;
    double sum = 0;
    w->count = 0;
    for (int32_t k = 0; k < p->count; k++) {
        int32_t at = p->at[k];
        bool pushes = law(p, k, x + at, w->here.y + at, w->F + at).pushes;
        for (int32_t i = at; i < p->at[k + 1]; i++) {
            sum += w->F[i] * w->F[i];
            w->d[i] = pushes ? 0 : -w->F[i];
            if (!pushes) continue;
            w->owner[w->count] = k;
            w->active[w->count++] = i;
        }
    }
    return sqrt(sum);
}

/// What slides: rows of I - P M from those of A + eps I, M = I - A - eps I; P of the tangents is mu n e_N' + part (I - n n').
static void turn(const alart *w, int32_t a, const side *s, double mu, const double *F) {
    double *row = w->matrix + (int64_t)a * w->count;
    const double *moved = w->Ad + w->p->at[w->owner[a]];
    double P[2][3] = {{mu * s->n[0], s->part * s->n[1] * s->n[1], -s->part * s->n[0] * s->n[1]},
                      {mu * s->n[1], -s->part * s->n[0] * s->n[1], s->part * s->n[0] * s->n[0]}};
    for (int32_t j = 0; j < w->count; j++) {
        double M[3], e[3];
        for (int32_t l = 0; l < 3; l++) {
            e[l] = a + l == j ? 1 : 0;
            M[l] = e[l] - row[(int64_t)l * w->count + j];
        }
        for (int32_t l = 0; l < 2; l++) row[(int64_t)(l + 1) * w->count + j] = e[l + 1] - (P[l][0] * M[0] + P[l][1] * M[1] + P[l][2] * M[2]);
    }
    for (int32_t l = 0; l < 2; l++) w->rhs[a + 1 + l] = -F[1 + l] - (P[l][0] * moved[0] + P[l][1] * moved[1] + P[l][2] * moved[2]);
}

/// I - P (I - A - eps I) over the unknowns that push, by rows, and -F less what the others do on their way to zero.
static void fill(alart *w, const double *x, double eps) {
    const qpc_cone_problem *p = w->p;
    cblas_dgemv(CblasRowMajor, CblasNoTrans, p->size, p->size, 1, p->A, p->size, w->d, 1, 0, w->Ad, 1);
    for (int32_t a = 0; a < w->count;) {
        int32_t k = w->owner[a], at = p->at[k], size = p->at[k + 1] - at;
        double *row = w->matrix + (int64_t)a * w->count, F[3];
        side s = law(p, k, x + at, w->here.y + at, F);
        for (int32_t l = 0; l < size; l++) {
            const double *from = p->A + (int64_t)(at + l) * p->size;
            for (int32_t j = 0; j < w->count; j++) row[(int64_t)l * w->count + j] = from[w->active[j]];
            row[(int64_t)l * w->count + a + l] += eps;
            w->rhs[a + l] = -F[l] - w->Ad[at + l];
        }
        if (s.slides) turn(w, a, &s, p->mu[k], F);
        a += size;
    }
}

static bool make_room(alart *w, qpc_arena *arena) {
    if (w->count <= w->room) return true;
    int32_t n = w->count < w->p->size * 3 / 4 ? w->count * 5 / 4 : w->p->size;
    w->matrix = qpc_arena_array(arena, (size_t)n * (size_t)n, sizeof *w->matrix);
    w->room = w->matrix != NULL ? n : 0;
    return w->matrix != NULL;
}

static bool allocate(alart *w, qpc_arena *arena) {
    size_t n = (size_t)w->p->size;
    double *all = qpc_arena_array(arena, 5 * n, sizeof *all);
    w->active = qpc_arena_array(arena, n, sizeof *w->active);
    w->owner = qpc_arena_array(arena, n, sizeof *w->owner);
    w->pivots = qpc_arena_array(arena, n, sizeof *w->pivots);
    if (all == NULL || w->active == NULL || w->owner == NULL || w->pivots == NULL) return false;
    w->F = all;
    w->d = all + n;
    w->Ad = all + 2 * n;
    w->rhs = all + 3 * n;
    w->best = all + 4 * n;
    return qpc_natural_alloc(&w->here, w->p, arena);
}

/// d and A d. False: the matrix is singular.
static bool direction(alart *w, const double *x, double eps) {
    const qpc_cone_problem *p = w->p;
    fill(w, x, eps);
    if (w->count > 0 && !qpc_lu_solve(w->count, w->matrix, true, w->pivots, w->rhs, false)) return false;
    for (int32_t a = 0; a < w->count; a++) w->d[w->active[a]] = w->rhs[a];
    cblas_dgemv(CblasRowMajor, CblasNoTrans, p->size, p->size, 1, p->A, p->size, w->d, 1, 0, w->Ad, 1);
    return true;
}

/// |F| has minima that are no zeros: it may rise in every second step.
static double length_of(alart *w, const double *x, double start) {
    double t = 1, end = merit(w, x, 1);
    for (int32_t k = 0; k < HALVINGS && !w->whole && !(end <= (1 - DESCENT * t) * start); k++) {
        t *= 0.5;
        end = merit(w, x, t);
    }
    bool gained = end < PROGRESS * w->mark;
    if (gained) w->mark = end;
    else if (!w->whole) w->mark = DBL_MAX; // whatever comes of the next step
    w->whole = !gained && !w->whole;
    return t;
}

qpc_status qpc_cone_alart(const qpc_cone_problem *p, double goal, int32_t steps, qpc_arena *arena, double *x, double *ret_norm,
                          int32_t *ret_steps, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    alart w = {.p = p, .mark = DBL_MAX};
    bool memory = allocate(&w, arena);
    double least = DBL_MAX;
    if (memory) memcpy(w.best, x, (size_t)p->size * sizeof *x);
    for (int32_t s = 0; memory; s++) {
        qpc_natural_map(p, x, &w.here);
        if (w.here.norm < least) {
            least = w.here.norm;
            memcpy(w.best, x, (size_t)p->size * sizeof *x);
        }
        if (s >= steps || least <= goal || w.here.norm == DBL_MAX) break;
        double norm = sort_out(&w, x);
        memory = make_room(&w, arena);
        if (!memory || !direction(&w, x, fmin(PROXIMAL_MOST, PROXIMAL * fmin(norm, w.here.norm)))) break;
        double t = length_of(&w, x, norm);
        for (int32_t i = 0; i < p->size; i++) x[i] += t * w.d[i];
        ++*ret_steps;
    }
    if (memory) memcpy(x, w.best, (size_t)p->size * sizeof *x);
    *ret_norm = least;
    qpc_arena_rewind(arena, mark);
    return memory ? QPC_OK : QPC_CONE_MEMORY(err, p);
}
