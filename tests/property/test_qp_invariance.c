/// The same problem written otherwise has the same answer: rows permuted, copied, scaled by 1e-6 to
/// 1e6; all masses and forces scaled by 1e-6 and 1e6; unknowns in other units. Stored instances,
/// every engine that promises to solve, judged against the stored solution by the arithmetic of
/// qp_instances.
///
///     test_qp_invariance [SEEDS [FIRST [all]]]
///
/// auto and active-set, which promise it; all: augmented-lagrangian and interior-point too.
#include "tests/support/check.h"

#include "base/mem.h"
#include "tools/qp_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define QP QPC_TEST_DATA "/qp/"

static int seeds = 1, first_seed = 1, seed_now;
static bool all_engines;
static qpc_arena arena;
static uint64_t random_state;

/// splitmix64
static uint64_t next_random(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}
static double random_real(double low, double high) {
    return low + (high - low) * (double)(next_random() >> 11) * 0x1p-53;
}
static int32_t random_below(int32_t n) {
    return (int32_t)(next_random() % (uint64_t)n);
}

static void *take(size_t count, size_t size) {
    void *p = qpc_calloc(count, size);
    assert_non_null(p);
    return p;
}

static void read_instance(const char *name, qp_file *file) {
    char path[512];
    qpc_error err = {0};
    (void)snprintf(path, sizeof path, QP "%s.qpb", name);
    assert_ok(qp_file_read(path, file, &err), &err);
}

/// Rows in another order, `copies` of them twice (the multiplier stays with the first of them),
/// each times 10^-exponent to 10^exponent.
static void rewrite_rows(qp_file *f, int32_t copies, double exponent) {
    int32_t m = f->m + copies;
    int32_t *order = take((size_t)m, sizeof *order);
    double *factor = take((size_t)m, sizeof *factor);
    for (int32_t i = 0; i < m; i++) {
        order[i] = i < f->m ? i : random_below(f->m);
        int32_t other = random_below(i + 1), t = order[other];
        order[other] = order[i];
        order[i] = t;
        factor[i] = pow(10, random_real(-exponent, exponent));
    }
    int32_t total = 0;
    for (int32_t i = 0; i < m; i++) total += f->J.start[order[i] + 1] - f->J.start[order[i]];
    qp_matrix J = {take((size_t)m + 1, sizeof(int32_t)), take((size_t)total, sizeof(int32_t)),
                   take((size_t)total, sizeof(double))};
    double *c = take((size_t)m, sizeof *c), *kappa = take((size_t)m, sizeof *kappa);
    double *lam = take((size_t)m, sizeof *lam);
    int32_t *type = take((size_t)m, sizeof *type), *id = take((size_t)m, sizeof *id);
    uint8_t *seen = take((size_t)f->m, 1);
    int32_t equalities = 0;
    for (int32_t i = 0; i < m; i++) {
        int32_t from = order[i], at = J.start[i];
        bool empty = true;
        for (int32_t k = f->J.start[from]; k < f->J.start[from + 1]; k++) {
            J.index[at] = f->J.index[k];
            J.value[at++] = factor[i] * f->J.value[k];
            empty = empty && f->J.value[k] == 0;
        }
        J.start[i + 1] = at;
        c[i] = factor[i] * f->c[from];
        kappa[i] = empty ? 1 : factor[i] * f->kappa[from];
        lam[i] = seen[from] ? 0 : f->lam[from] / factor[i];
        seen[from] = 1;
        type[i] = f->type[from];
        equalities += type[i];
        id[i] = i;
    }
    void *old[] = {f->J.start, f->J.index, f->J.value, f->c, f->kappa, f->lam, f->type, f->row_id};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) qpc_free(old[i]);
    qpc_free(order);
    qpc_free(factor);
    qpc_free(seen);
    f->J = J;
    f->c = c;
    f->kappa = kappa;
    f->lam = lam;
    f->type = type;
    f->row_id = id;
    f->m = m;
    f->equalities = equalities;
}

/// K and b times s: x stays, lambda grows with s.
static void scale_masses(qp_file *f, double s) {
    for (int32_t k = 0; k < f->K.start[f->n]; k++) f->K.value[k] *= s;
    for (int32_t i = 0; i < f->n; i++) f->b[i] *= s;
    for (int32_t i = 0; i < f->m; i++) {
        f->lam[i] *= s;
        bool empty = f->J.start[i] == f->J.start[i + 1];
        for (int32_t k = f->J.start[i]; k < f->J.start[i + 1] && !empty; k++)
            empty = f->J.value[k] == 0;
        if (!empty) f->kappa[i] /= sqrt(s);
    }
    f->scale *= sqrt(s);
    if (f->objective != NULL) f->objective[0] *= s;
}

/// x_j = d_j y_j, d_j = 10^-exponent to 10^exponent: K := D K D, b := D b, J := J D.
static void change_units(qp_file *f, double exponent) {
    double *d = take((size_t)f->n, sizeof *d);
    for (int32_t i = 0; i < f->n; i++) {
        d[i] = ldexp(1, (int)lround(random_real(-exponent, exponent) / log10(2))); // no rounding
        f->b[i] *= d[i];
        f->x[i] /= d[i];
    }
    for (int32_t j = 0; j < f->n; j++)
        for (int32_t k = f->K.start[j]; k < f->K.start[j + 1]; k++)
            f->K.value[k] *= d[j] * d[f->K.index[k]];
    for (int32_t k = 0; k < f->J.start[f->m]; k++) f->J.value[k] *= d[f->J.index[k]];
    qpc_free(d);
}

/// Solved and where the stored solution is, whoever is asked.
static void solve(const char *name, const char *what, const qp_file *f) {
    qp_ground ground;
    qpc_error err = {0};
    qpc_status status = qp_ground_init(&ground, f, &err);
    if (status != QPC_OK) fail_msg("%s, %s: %s", name, what, err.message); // the test's own mistake
    for (int e = 0; e < QPC_SOLVER_COUNT; e++) {
        qpc_solver_id id = (qpc_solver_id)e;
        if (qp_engine_compares(id) ||
            (!all_engines && id != QPC_SOLVER_AUTO && id != QPC_SOLVER_ACTIVE_SET))
            continue;
        qp_result r;
        assert_ok(qp_run(&ground, id, NULL, 1, &arena, &r, &err), &err);
        if (r.verdict != QP_HOLDS)
            fail_msg("%s, %s, seed %d, %s: %s", name, what, seed_now, qpc_solver_name(id), r.why);
        qp_result_fini(&r);
    }
    qp_ground_fini(&ground);
}

static const char *const NAMES[] = {
    "tiny_dup3",     "tiny_eqfix",      "tiny_floor1",       "tiny_pyramid4", "tiny_ratio",
    "tiny_ring64",   "tiny_weak",       "tiny_depeq",        "cable_050",     "cable_050_dup",
    "cable_100_10t", "cable_100_light", "cable_3x40_cross3", "stack_03",      "stack_10_1e4",
    "stack_30_1e4",  "wall_6x4",        "pyramid_10",        "rand_060",      "needles_30x8",
    "massspan_40",   "fathi_20",        "cloth_10",          "mm_HS118",      "mm_HS268",
    "mm_HS35MOD",    "mm_QPCBLEND",     "inf_jam",           "inf_squeeze",   "inf_strain_chain"};

static void each(const char *what, void (*change)(qp_file *), bool infeasible) {
    for (int seed = first_seed; seed < first_seed + seeds; seed++)
        for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++) {
            qp_file f = {0};
            read_instance(NAMES[k], &f);
            seed_now = seed;
            random_state = (uint64_t)seed * 1000 + k;
            if (!f.infeasible || infeasible) {
                change(&f);
                solve(NAMES[k], what, &f);
            }
            qp_file_fini(&f);
        }
}

static void permute(qp_file *f) {
    rewrite_rows(f, 0, 0);
}
static void copy_rows(qp_file *f) {
    rewrite_rows(f, f->m / 3 + 1, 0);
}
static void scale_rows(qp_file *f) {
    rewrite_rows(f, 0, 6);
}
static void all_of_it(qp_file *f) {
    rewrite_rows(f, f->m / 5 + 1, 6);
}
static void heavier(qp_file *f) {
    scale_masses(f, 1e6);
}
static void lighter(qp_file *f) {
    scale_masses(f, 1e-6);
}
static void other_units(qp_file *f) {
    change_units(f, 3);
}

static void rows_in_another_order(void **state) {
    (void)state;
    each("permuted", permute, false);
}
static void copies_of_rows(void **state) {
    (void)state;
    each("copied", copy_rows, false);
}
static void rows_times_1e6_and_less(void **state) {
    (void)state;
    each("rows scaled", scale_rows, false);
}
static void copies_in_other_units_in_another_order(void **state) {
    (void)state;
    each("copied, scaled, permuted", all_of_it, false);
}
static void masses_times_1e6(void **state) {
    (void)state;
    each("masses 1e6", heavier, true);
    each("masses 1e-6", lighter, true);
}
static void unknowns_in_other_units(void **state) {
    (void)state;
    each("units", other_units, true);
}

static int teardown(void **state) {
    (void)state;
    qpc_arena_fini(&arena);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) seeds = atoi(argv[1]);
    if (argc > 2) first_seed = atoi(argv[2]);
    all_engines = argc > 3 && strcmp(argv[3], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_another_order),
        cmocka_unit_test(copies_of_rows),
        cmocka_unit_test(rows_times_1e6_and_less),
        cmocka_unit_test(copies_in_other_units_in_another_order),
        cmocka_unit_test(masses_times_1e6),
        cmocka_unit_test(unknowns_in_other_units),
    };
    return cmocka_run_group_tests_name("qp-invariance", tests, NULL, teardown);
}
