/// The pool and the bridge: order, giving way, waking, stopping.
#include "server/bridge.h"
#include "server/pool.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct job {
    qpc_task task; // first
    qpc_pool *pool;
    int number, again; // runs left after this one
} job;

static int ran[64], ran_count;

static void note(qpc_task *task) {
    job *j = (job *)(void *)task;
    ran[ran_count++] = j->number;
    if (j->again-- > 0) qpc_pool_push(j->pool, task);
}

static void tasks_run_in_the_order_they_came(void **state) {
    (void)state;
    qpc_pool_options options = {.workers = 0};
    qpc_pool *pool = NULL;
    assert_int_equal(qpc_pool_create(&options, &pool, NULL), QPC_OK);
    job jobs[3];
    ran_count = 0;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (job){.task.run = note, .pool = pool, .number = i, .again = i == 0 ? 2 : 0};
        qpc_pool_push(pool, &jobs[i].task);
    }
    assert_true(qpc_pool_is_wanted(pool));
    assert_int_equal(qpc_pool_get_stats(pool).ready, 3);
    assert_int_equal(qpc_pool_run_ready(pool, 2), 2);
    // The one that pushed itself again stands behind the third.
    assert_int_equal(qpc_pool_run_ready(pool, 100), 3);
    const int expected[] = {0, 1, 2, 0, 0};
    assert_memory_equal(ran, expected, sizeof expected);
    assert_false(qpc_pool_is_wanted(pool));
    assert_int_equal(qpc_pool_get_stats(pool).tasks, 5);
    qpc_pool_push(pool, &jobs[1].task);
    qpc_pool_destroy(pool); // runs what is left
    assert_int_equal(ran_count, 6);
}

typedef struct counted {
    qpc_task task; // first
    qpc_pool *pool;
    _Atomic int *total;
    int again;
} counted;

static void count_up(qpc_task *task) {
    counted *c = (counted *)(void *)task;
    atomic_fetch_add(c->total, 1);
    if (c->again-- > 0) qpc_pool_push(c->pool, task);
}

static void every_task_runs_exactly_as_often_as_it_was_pushed(void **state) {
    (void)state;
    enum { TASKS = 50, TIMES = 200 };
    for (int spin = 0; spin <= 20; spin += 20) {
        qpc_pool_options options = {.workers = 3, .nice = 1, .spin_us = spin};
        qpc_pool *pool = NULL;
        _Atomic int total = 0;
        counted tasks[TASKS];
        assert_int_equal(qpc_pool_create(&options, &pool, NULL), QPC_OK);
        for (int i = 0; i < TASKS; i++) {
            tasks[i] = (counted){{NULL, count_up}, pool, &total, TIMES - 1};
            qpc_pool_push(pool, &tasks[i].task);
        }
        qpc_pool_destroy(pool);
        assert_int_equal(atomic_load(&total), TASKS * TIMES);
    }
}

typedef struct sliced {
    qpc_task task; // first
    qpc_pool *pool;
    _Atomic int inside, slices, done;
} sliced;

static void meet(void *data, int32_t slice) {
    sliced *s = data;
    (void)slice;
    atomic_fetch_add(&s->inside, 1);
    while (atomic_load(&s->inside) < 2) sched_yield(); // the first slice waits for a second thread
    atomic_fetch_add(&s->slices, 1);
}

static void run_sliced(qpc_task *task) {
    sliced *s = (sliced *)(void *)task;
    qpc_parallel_run(qpc_pool_parallel(s->pool), 8, meet, s);
    atomic_store(&s->done, 1);
}

static void workers_without_a_task_help_with_slices(void **state) {
    (void)state;
    for (int spin = 0; spin <= 50; spin += 50) {
        qpc_pool_options options = {.workers = 2, .spin_us = spin};
        qpc_pool *pool = NULL;
        assert_int_equal(qpc_pool_create(&options, &pool, NULL), QPC_OK);
        for (int round = 0; round < 200; round++) {
            sliced s = {.task.run = run_sliced, .pool = pool};
            qpc_pool_push(pool, &s.task);
            while (!atomic_load(&s.done)) sched_yield();
            assert_int_equal(s.slices, 8);
        }
        qpc_pool_destroy(pool);
    }
}

static void a_pool_of_nonsense_is_refused(void **state) {
    (void)state;
    qpc_pool_options options = {.workers = -1};
    qpc_pool *pool = NULL;
    assert_int_equal(qpc_pool_create(&options, &pool, NULL), QPC_ERR_INVALID);
    qpc_pool_destroy(NULL);
}

// ---- bridge ----

typedef struct letter {
    qpc_post post; // first
    int number;
    struct sender *sender;
} letter;

typedef struct sender {
    qpc_task task; // first
    qpc_bridge *bridge;
    letter *letters;
    int count, next; // next number to arrive
} sender;

static void arrived(qpc_post *post) {
    letter *l = (letter *)(void *)post;
    assert_int_equal(l->number, l->sender->next);
    l->sender->next++;
}

static void send_all(qpc_task *task) {
    sender *s = (sender *)(void *)task;
    for (int i = 0; i < s->count; i++) qpc_bridge_send(s->bridge, &s->letters[i].post);
}

static void posts_arrive_in_the_order_of_each_sender(void **state) {
    (void)state;
    enum { SENDERS = 3, LETTERS = 2000 };
    uv_loop_t loop;
    qpc_bridge bridge;
    qpc_pool *pool = NULL;
    qpc_pool_options options = {.workers = SENDERS};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(qpc_bridge_init(&bridge, &loop, NULL), QPC_OK);
    assert_int_equal(qpc_pool_create(&options, &pool, NULL), QPC_OK);
    sender senders[SENDERS];
    for (int s = 0; s < SENDERS; s++) {
        letter *letters = calloc(LETTERS, sizeof *letters);
        senders[s] = (sender){{NULL, send_all}, &bridge, letters, LETTERS, 0};
        for (int i = 0; i < LETTERS; i++) letters[i] = (letter){{NULL, arrived}, i, &senders[s]};
        qpc_pool_push(pool, &senders[s].task);
    }
    // As the server's loop does it: drain, and sleep only if nothing has come.
    int count = 0;
    while (count < SENDERS * LETTERS) {
        int drained = qpc_bridge_drain(&bridge);
        count += drained;
        if (drained == 0 && qpc_bridge_may_sleep(&bridge)) {
            uv_run(&loop, UV_RUN_ONCE);
            qpc_bridge_awake(&bridge);
        }
    }
    for (int s = 0; s < SENDERS; s++) {
        assert_int_equal(senders[s].next, LETTERS);
        free(senders[s].letters);
    }
    qpc_pool_destroy(pool);
    qpc_bridge_close(&bridge);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_the_order_they_came),
        cmocka_unit_test(every_task_runs_exactly_as_often_as_it_was_pushed),
        cmocka_unit_test(workers_without_a_task_help_with_slices),
        cmocka_unit_test(a_pool_of_nonsense_is_refused),
        cmocka_unit_test(posts_arrive_in_the_order_of_each_sender),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
