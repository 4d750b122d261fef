/// CHOLMOD behind factor.h. All its memory goes through base/mem.h. Runs on the worker in the world.
#include "engine/dynamics/factor.h"

#include "base/mem.h"

#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <suitesparse/cholmod.h>

struct qpc_factor {
    cholmod_common common;
    cholmod_sparse *A; // own pattern, values refilled
    cholmod_factor *L;
    // Kept by cholmod_solve2 from call to call; it makes them anew when the width changes, so single columns,
    // blocks of four and whatever is wider have their own.
    cholmod_dense *x[3], *y[3], *e[3];
    double entries, operations;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

// CHOLMOD may have been built with OpenMP: its threads would spin beside the workers. With no level of
// parallel regions allowed they all run on the calling thread; the setting is a thread's own.
static int (*omp_levels)(void);
static void (*omp_set_levels)(int);

static int keep_to_this_thread(void) {
    if (omp_levels == NULL || omp_set_levels == NULL) return -1;
    int levels = omp_levels();
    omp_set_levels(0);
    return levels;
}

static void let_go(int levels) {
    if (levels >= 0) omp_set_levels(levels);
}

static void set_up(void) {
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_active_levels"), *set = dlsym(RTLD_DEFAULT, "omp_set_max_active_levels");
    memcpy(&omp_levels, &get, sizeof get);
    memcpy(&omp_set_levels, &set, sizeof set);
    // CHOLMOD asks through these for everything; BLAS threads of its own would fight with the workers
    // and sum in another order.
    SuiteSparse_config.malloc_func = qpc_alloc;
    SuiteSparse_config.calloc_func = qpc_calloc;
    SuiteSparse_config.realloc_func = qpc_realloc;
    SuiteSparse_config.free_func = qpc_free;
    openblas_set_num_threads(1);
}

static qpc_status fail_of(const cholmod_common *c, int32_t n, const char *what, qpc_error *err) {
    if (c->status == CHOLMOD_TOO_LARGE)
        return qpc_fail(err, QPC_ERR_LIMIT, "%s of a matrix of order %d is too large", what, n);
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the %s of a matrix of order %d", what, n);
}

qpc_status qpc_factor_create(int32_t n, const int32_t *start, const int32_t *row, qpc_factor **ret,
                             qpc_error *err) {
    pthread_once(&once, set_up);
    qpc_factor *f = qpc_calloc(1, sizeof *f);
    if (f == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a factor");
    cholmod_common *c = &f->common;
    cholmod_start(c);
    c->print = 0;
    c->quick_return_if_not_posdef = 1;
    c->final_ll = 1; // L D L' would take an indefinite matrix
    size_t count = (size_t)start[n];
    f->A = cholmod_allocate_sparse((size_t)n, (size_t)n, count, 1, 1, -1, CHOLMOD_REAL, c);
    if (f->A != NULL) {
        memcpy(f->A->p, start, ((size_t)n + 1) * sizeof *start);
        if (count > 0) memcpy(f->A->i, row, count * sizeof *row);
        if (count > 0) memset(f->A->x, 0, count * sizeof(double));
        f->L = cholmod_analyze(f->A, c);
    }
    if (f->L == NULL) {
        qpc_status st = fail_of(c, n, "analysis", err);
        qpc_factor_destroy(f);
        return st;
    }
    f->entries = c->lnz;
    f->operations = c->fl;
    *ret = f;
    return QPC_OK;
}

void qpc_factor_destroy(qpc_factor *f) {
    if (f == NULL) return;
    for (int set = 0; set < 3; set++) {
        cholmod_free_dense(&f->x[set], &f->common);
        cholmod_free_dense(&f->y[set], &f->common);
        cholmod_free_dense(&f->e[set], &f->common);
    }
    cholmod_free_factor(&f->L, &f->common);
    cholmod_free_sparse(&f->A, &f->common);
    cholmod_finish(&f->common);
    qpc_free(f);
}

qpc_status qpc_factor_refill(qpc_factor *f, const double *value, int32_t *ret_bad, qpc_error *err) {
    const int32_t *start = f->A->p;
    int32_t n = (int32_t)f->A->nrow;
    if (ret_bad != NULL) *ret_bad = -1;
    if (start[n] > 0) memcpy(f->A->x, value, (size_t)start[n] * sizeof *value);
    f->common.status = CHOLMOD_OK;
    int levels = keep_to_this_thread();
    int done = cholmod_factorize(f->A, f->L, &f->common);
    let_go(levels);
    if (f->common.status == CHOLMOD_NOT_POSDEF || (done && f->L->minor < f->A->nrow)) {
        const int32_t *order = f->L->Perm;
        int32_t bad = order != NULL ? order[f->L->minor] : (int32_t)f->L->minor;
        if (ret_bad != NULL) *ret_bad = bad;
        return qpc_fail(err, QPC_ERR_NUMERIC, "the matrix is not positive definite and finite at row %d (node %d)",
                        bad, bad / 3);
    }
    if (!done || f->common.status < CHOLMOD_OK) return fail_of(&f->common, n, "factor", err);
    return QPC_OK;
}

qpc_status qpc_factor_solve(qpc_factor *f, const double *B, double *X, int32_t columns, qpc_error *err) {
    size_t n = f->A->nrow;
    if (n == 0 || columns == 0) return QPC_OK;
    cholmod_dense b = {
        .nrow = n, .ncol = (size_t)columns, .nzmax = n * (size_t)columns, .d = n,
        .x = (void *)(uintptr_t)B, .xtype = CHOLMOD_REAL, .dtype = CHOLMOD_DOUBLE};
    int set = columns == 1 ? 0 : columns == 4 ? 1 : 2;
    f->common.status = CHOLMOD_OK;
    // CHOLMOD's solve of a simplicial factor does not look whether it got this one.
    if (cholmod_ensure_dense(&f->y[set], n, (size_t)columns, n, CHOLMOD_REAL, &f->common) == NULL)
        return fail_of(&f->common, (int32_t)n, "solution", err);
    if (!cholmod_solve2(CHOLMOD_A, f->L, &b, NULL, &f->x[set], NULL, &f->y[set], &f->e[set],
                        &f->common))
        return fail_of(&f->common, (int32_t)n, "solution", err);
    memcpy(X, f->x[set]->x, n * (size_t)columns * sizeof *X);
    return QPC_OK;
}

double qpc_factor_entries(const qpc_factor *f) {
    return f->entries;
}

double qpc_factor_operations(const qpc_factor *f) {
    return f->operations;
}
