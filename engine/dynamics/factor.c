/// CHOLMOD behind factor.h. All its memory goes through base/mem.h. Runs on the worker in the world.
#include "engine/dynamics/factor.h"

#include "base/mem.h"
#include "engine/dynamics/blas.h"
#include "engine/dynamics/factor_solve.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <suitesparse/cholmod.h>

struct qpc_factor {
    cholmod_common common;
    cholmod_sparse *A; // own pattern, values refilled
    cholmod_factor *L;
    double *work, *below; // (n x 8) right-hand sides in the order of L, (n + 8) scratch
    qpc_factor_width width;
    double entries, operations;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void (*set_max_active_levels)(int); // OpenMP's, where CHOLMOD was built with it

static void set_up(void) {
    // CHOLMOD asks through these for everything.
    SuiteSparse_config.malloc_func = qpc_alloc;
    SuiteSparse_config.calloc_func = qpc_calloc;
    SuiteSparse_config.realloc_func = qpc_realloc;
    SuiteSparse_config.free_func = qpc_free;
    qpc_blas_one_thread();
    // CHOLMOD would start four threads from each worker. Its runtime is loaded along with it, whichever it is.
    void *found = dlsym(RTLD_DEFAULT, "omp_set_max_active_levels");
    memcpy(&set_max_active_levels, &found, sizeof found);
}

/// No parallel regions on this thread: the setting is one of the calling thread.
static void stay_on_one_thread(void) {
    if (set_max_active_levels != NULL) set_max_active_levels(0);
}

static qpc_status fail_of(const cholmod_common *c, int32_t n, const char *what, qpc_error *err) {
    if (c->status == CHOLMOD_TOO_LARGE)
        return qpc_fail(err, QPC_ERR_LIMIT, "%s of a matrix of order %d is too large", what, n);
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the %s of a matrix of order %d", what, n);
}

/// Unknowns that no entry couples to another; -1 without memory.
static int32_t alone(int32_t n, const int32_t *start, const int32_t *row) {
    uint8_t *coupled = qpc_calloc((size_t)n, 1);
    if (coupled == NULL) return -1;
    int32_t count = 0;
    for (int32_t j = 0; j < n; j++) {
        for (int32_t k = start[j] + 1; k < start[j + 1]; k++) coupled[j] = coupled[row[k]] = 1;
        count += !coupled[j]; // those to the left have told all that they know
    }
    qpc_free(coupled);
    return count;
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
    // Where many unknowns stand alone (upright contacts leave three of six of a brick so), each is a block
    // of its own to the supernodal code, which then pays later: measured on walls of 1,000 to 70,000.
    int32_t single = alone(n, start, row);
    if (single > n / 4) c->supernodal_switch = 120;
    c->final_ll = 1; // L D L' would take an indefinite matrix
    size_t count = (size_t)start[n];
    f->A = cholmod_allocate_sparse((size_t)n, (size_t)n, count, 1, 1, -1, CHOLMOD_REAL, c);
    if (f->A != NULL && single >= 0) {
        memcpy(f->A->p, start, ((size_t)n + 1) * sizeof *start);
        if (count > 0) memcpy(f->A->i, row, count * sizeof *row);
        if (count > 0) memset(f->A->x, 0, count * sizeof(double));
        f->work = qpc_alloc_array((size_t)n, QPC_FACTOR_LANES * sizeof *f->work);
        f->below = qpc_alloc_array((size_t)n + QPC_FACTOR_LANES, sizeof *f->below);
        f->L = cholmod_analyze(f->A, c);
    }
    if (f->L == NULL || f->work == NULL || f->below == NULL) {
        qpc_status st = fail_of(c, n, "analysis", err);
        qpc_factor_destroy(f);
        return st;
    }
    f->width = qpc_factor_widest();
    f->entries = c->lnz;
    f->operations = c->fl;
    *ret = f;
    return QPC_OK;
}

void qpc_factor_destroy(qpc_factor *f) {
    if (f == NULL) return;
    qpc_free(f->work);
    qpc_free(f->below);
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
    stay_on_one_thread();
    int done = cholmod_factorize(f->A, f->L, &f->common);
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

static qpc_supernodes view_of(const cholmod_factor *L) {
    if (L->is_super)
        return (qpc_supernodes){.n = (int32_t)L->n,
                                .count = (int32_t)L->nsuper,
                                .column = L->super,
                                .row_start = L->pi,
                                .value_start = L->px,
                                .row = L->s,
                                .value = L->x};
    return (qpc_supernodes){
        .n = (int32_t)L->n, .row_start = L->p, .row_count = L->nz, .row = L->i, .value = L->x};
}

qpc_status qpc_factor_solve(qpc_factor *f, const double *B, double *X, int32_t columns, qpc_error *err) {
    (void)err; // all memory is there
    int64_t n = (int64_t)f->A->nrow;
    const int32_t *order = f->L->Perm;
    qpc_supernodes L = view_of(f->L);
    int32_t done = 0;
    for (; done + 1 < columns; done += QPC_FACTOR_LANES) {
        int32_t lanes = columns - done < QPC_FACTOR_LANES ? columns - done : QPC_FACTOR_LANES;
        const double *from = B + done * n;
        double *to = X + done * n;
        if (lanes < QPC_FACTOR_LANES) memset(f->work, 0, (size_t)n * QPC_FACTOR_LANES * sizeof *f->work);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < lanes; k++) f->work[i * QPC_FACTOR_LANES + k] = from[k * n + order[i]];
        qpc_supernodes_solve_lanes(&L, f->width, f->work);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < lanes; k++) to[k * n + order[i]] = f->work[i * QPC_FACTOR_LANES + k];
    }
    for (; done < columns; done++) {
        for (int64_t i = 0; i < n; i++) f->work[i] = B[done * n + order[i]];
        qpc_supernodes_solve(&L, f->width, f->work, f->below);
        for (int64_t i = 0; i < n; i++) X[done * n + order[i]] = f->work[i];
    }
    return QPC_OK;
}

double qpc_factor_entries(const qpc_factor *f) {
    return f->entries;
}

double qpc_factor_operations(const qpc_factor *f) {
    return f->operations;
}
