/// Slices on several threads: each runs once, nobody waits for ever, nothing is touched afterwards.
#include "tests/support/check.h"

#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

enum { SLICES = 64 };

typedef struct work {
    _Atomic int32_t runs[SLICES];
    double sum[SLICES];
    pthread_t by[SLICES];
    _Atomic int32_t here; // threads inside slices at once
    int32_t meet;         // slices wait until so many are inside
} work;

static void slice(void *data, int32_t i) {
    work *w = data;
    atomic_fetch_add(&w->here, 1);
    while (atomic_load(&w->here) < w->meet) sched_yield();
    for (int32_t k = 0; k < 1000; k++) w->sum[i] += 1.0 / (1 + i + k);
    w->by[i] = pthread_self();
    atomic_fetch_add(&w->runs[i], 1);
}

static void each_slice_runs_once_in_place_without_threads(void **state) {
    (void)state;
    work w = {.meet = 1};
    qpc_parallel_run(NULL, SLICES, slice, &w);
    for (int32_t i = 0; i < SLICES; i++) assert_int_equal(w.runs[i], 1);
    qpc_parallel none = qpc_team_parallel(NULL);
    qpc_parallel_run(&none, 3, slice, &w);
    for (int32_t i = 0; i < SLICES; i++) assert_int_equal(w.runs[i], i < 3 ? 2 : 1);
    qpc_parallel_run(&none, 0, slice, &w);
}

static void a_team_shares_the_slices_and_sums_have_the_same_bits(void **state) {
    (void)state;
    qpc_error err = {0};
    static work alone, both;
    alone.meet = 1;
    both.meet = 2; // nobody gets on before a second thread has joined in
    qpc_parallel_run(NULL, SLICES, slice, &alone);
    qpc_team *team = NULL;
    assert_ok(qpc_team_create(1, &team, &err), &err);
    qpc_parallel parallel = qpc_team_parallel(team);
    qpc_parallel_run(&parallel, SLICES, slice, &both);
    int32_t others = 0;
    for (int32_t i = 0; i < SLICES; i++) {
        assert_int_equal(both.runs[i], 1);
        assert_memory_equal(&both.sum[i], &alone.sum[i], sizeof both.sum[i]);
        others += !pthread_equal(both.by[i], pthread_self());
    }
    assert_true(others > 0);
    for (int32_t round = 0; round < 2000; round++) { // the caller often ends before they wake
        work w = {.meet = 1};
        qpc_parallel_run(&parallel, 2 + round % 5, slice, &w);
        for (int32_t i = 0; i < 2 + round % 5; i++) assert_int_equal(w.runs[i], 1);
    }
    qpc_team_destroy(team);
}

static void *call_often(void *user) {
    qpc_parallel *parallel = user;
    for (int32_t round = 0; round < 500; round++) {
        work w = {.meet = 1};
        qpc_parallel_run(parallel, 4, slice, &w);
        for (int32_t i = 0; i < 4; i++)
            if (w.runs[i] != 1) return parallel;
    }
    return NULL;
}

static void several_callers_share_one_team(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_team *team = NULL;
    assert_ok(qpc_team_create(2, &team, &err), &err);
    qpc_parallel parallel = qpc_team_parallel(team);
    pthread_t caller[3];
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, call_often, &parallel), 0);
    for (int32_t i = 0; i < 3; i++) {
        void *wrong = NULL;
        pthread_join(caller[i], &wrong);
        assert_null(wrong);
    }
    qpc_team_destroy(team);
}

static void teams_of_no_threads_or_too_many_are_refused(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_team *team = NULL;
    assert_int_equal(qpc_team_create(0, &team, &err), QPC_ERR_INVALID);
    assert_int_equal(qpc_team_create(5000, &team, &err), QPC_ERR_INVALID);
    assert_null(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slice_runs_once_in_place_without_threads),
        cmocka_unit_test(a_team_shares_the_slices_and_sums_have_the_same_bits),
        cmocka_unit_test(several_callers_share_one_team),
        cmocka_unit_test(teams_of_no_threads_or_too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
