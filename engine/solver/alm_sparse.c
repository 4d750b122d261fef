/// Newton steps of augmented-lagrangian where K has any pattern: a sparse Cholesky of K + J_A'R J_A.
///
/// One factorisation for every change of the active set (normal.h). Its pattern holds the rows that
/// K^-1 b misses and those with a multiplier to start from; when others become active it is made anew with
/// them, the third time with all rows. Runs on the worker in the world; memory from the arena, the
/// factor's own from base/mem.h.
#include "engine/solver/alm.h"

#include <math.h>
#include <string.h>

enum { PATTERNS_OF_SOME = 2 };

bool qpc_alm_sparse_allocate(qpc_alm *s, qpc_arena *arena) {
    const qpc_qp *qp = s->qp;
    size_t m = (size_t)qp->m;
    s->sparse.used = qpc_arena_array(arena, m, 1);
    s->sparse.weight = qpc_arena_array(arena, m, sizeof(double));
    if (s->sparse.used == NULL || s->sparse.weight == NULL) return false;
    for (int32_t i = 0; i < qp->m; i++)
        s->sparse.used[i] = qp->equality[i] || s->mu[i] != 0 ||
                            qpc_row_dot(qp, i, s->work->free_dv) > qp->c[i];
    return true;
}

/// A pattern with a place for every active row.
static bool make_pattern(qpc_alm *s) {
    qpc_alm_sparse *sparse = &s->sparse;
    bool holds = sparse->normal != NULL;
    for (int32_t i = 0; i < s->qp->m; i++) {
        if (!s->active[i] || sparse->used[i]) continue;
        sparse->used[i] = 1;
        holds = false;
    }
    if (holds) return true;
    qpc_normal_destroy(sparse->normal);
    sparse->normal = NULL;
    if (++sparse->patterns > PATTERNS_OF_SOME && s->qp->m > 0) memset(sparse->used, 1, (size_t)s->qp->m);
    qpc_status st = qpc_normal_create(s->qp, sparse->used, &sparse->normal, NULL);
    s->no_memory = st == QPC_ERR_MEMORY;
    return st == QPC_OK;
}

bool qpc_alm_sparse_factor(qpc_alm *s) {
    qpc_alm_sparse *sparse = &s->sparse;
    s->have_factor = false;
    if (!make_pattern(s)) return false;
    for (int32_t i = 0; i < s->qp->m; i++) {
        s->factored[i] = s->active[i];
        sparse->weight[i] = s->active[i] ? s->R[i] : 0;
    }
    qpc_status st = qpc_normal_factor(sparse->normal, s->qp, sparse->weight, NULL);
    s->no_memory = st == QPC_ERR_MEMORY;
    return s->have_factor = st == QPC_OK;
}

void qpc_alm_sparse_solve(qpc_alm *s, const double *rhs, double *d) {
    qpc_status st = qpc_normal_solve(s->sparse.normal, rhs, d, NULL);
    if (st == QPC_OK) return;
    s->no_memory = st == QPC_ERR_MEMORY;
    for (int32_t i = 0; i < s->qp->n; i++) d[i] = NAN; // ends the run
}

void qpc_alm_sparse_fini(qpc_alm *s) {
    qpc_normal_destroy(s->sparse.normal);
    s->sparse.normal = NULL;
}
