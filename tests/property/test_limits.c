/// max_iterations of a solve is exact in every engine: stored instances, cold, from the solution and from multipliers at random, which
/// hold rows that depend on each other.
///
///     test_limits [full]      without: the small ones
#include "tests/property/random_world.h"
#include "tests/support/instances.h"

#include <string.h>

enum { LIMIT_MOST = 20, STARTS = 4, SMALL = 130 };
static bool full;

static void start_from(const qpb_problem *p, int start, random_source *r, double *lambda) {
    for (int32_t i = 0; i < p->qp.m; i++) {
        double l = start == 1 ? p->lambda[i] : random_chance(r, start == 2 ? 0.5 : 0.1) ? random_log(r, 1e-4, 1) : 0.0;
        lambda[i] = start == 0 ? 0.0 : l;
    }
}

/// Solves with every limit; how many went over it.
static int count_over(const qpb_problem *p, qpc_solver_id id, int start, qpc_arena *arena) {
    double *x = qpc_calloc((size_t)p->qp.n + 1, sizeof *x), *lambda = qpc_calloc((size_t)p->qp.m + 1, sizeof *lambda);
    int over = 0;
    assert_true(x != NULL && lambda != NULL);
    for (int limit = 1; limit <= LIMIT_MOST; limit += full ? 1 : 1 + limit / 3)
        for (int sight = 0; sight < 2; sight++) {
            random_source r = {(uint64_t)(limit + 100 * start)};
            qpc_solver_options options = qpc_solver_options_default();
            qpc_solver_report report = {0};
            qpc_error err = {0};
            options.max_iterations = limit;
            options.at_sight = sight != 0;
            if (sight) options.residual_tolerance = 1e-6;
            start_from(p, start, &r, lambda);
            qpc_arena_reset(arena);
            if (qpc_solve(id, &p->qp, &options, arena, x, lambda, &report, &err) != QPC_OK) continue;
            if (report.iterations <= limit && report.adds + report.drops <= report.iterations) continue;
            if (over++ == 0)
                print_message("%s, %s, start %d: %d iterations (%d + %d set changes) of %d\n", p->name, qpc_solver_name(id), start,
                              report.iterations, report.adds, report.drops, limit);
        }
    qpc_free(x);
    qpc_free(lambda);
    return over;
}

static void try_names(const char *const *names, int *over) {
    qpc_arena arena = {0};
    for (; *names != NULL; names++) {
        qpb_problem p;
        instance_load(*names, &p);
        for (int id = 0; id < QPC_SOLVER_COUNT && (full || p.qp.n <= SMALL); id++)
            for (int start = 0; start < STARTS; start++) *over += count_over(&p, (qpc_solver_id)id, start, &arena);
        qpb_free(&p);
    }
    qpc_arena_fini(&arena);
}

static void a_limit_is_never_exceeded(void **state) {
    (void)state;
    int over = 0;
    try_names(instance_names, &over);
    try_names(infeasible_names, &over);
    assert_int_equal(over, 0);
}

int main(int argc, char **argv) {
    full = argc > 1 && strcmp(argv[1], "full") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_limit_is_never_exceeded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
