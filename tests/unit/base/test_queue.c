/// The bounded queue, alone and between threads.
#include "tests/support/check.h"

#include "base/queue.h"
#include "tests/support/faults.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static int items[1000]; // their addresses are the items

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static qpc_queue *make(int32_t capacity, uint64_t max_weight) {
    qpc_error err = {0};
    qpc_queue *queue = NULL;
    assert_ok(qpc_queue_create(capacity, max_weight, &queue, &err), &err);
    return queue;
}

static void items_come_out_in_order(void **state) {
    (void)state;
    qpc_queue *queue = make(3, 0);
    assert_null(qpc_queue_try_pop(queue));
    for (int round = 0; round < 5; round++) { // around the ring
        for (int i = 0; i < 3; i++)
            assert_int_equal(qpc_queue_try_push(queue, &items[i], 1), QPC_OK);
        assert_int_equal(qpc_queue_try_push(queue, &items[3], 1), QPC_ERR_BUSY);
        assert_ptr_equal(qpc_queue_try_pop(queue), &items[0]);
        void *out[4];
        assert_int_equal(qpc_queue_pop_many(queue, out, 4, -1), 2);
        assert_ptr_equal(out[0], &items[1]);
        assert_ptr_equal(out[1], &items[2]);
    }
    qpc_queue_stats stats = qpc_queue_get_stats(queue);
    assert_int_equal(stats.count, 0);
    assert_int_equal(stats.weight, 0);
    assert_int_equal(stats.high_water, 3);
    assert_int_equal(stats.pushed, 15);
    assert_int_equal(stats.refused, 5);
    qpc_queue_destroy(queue);
    qpc_queue_destroy(NULL);
}

static void weight_bounds_but_an_empty_queue_admits_one(void **state) {
    (void)state;
    qpc_queue *queue = make(10, 100);
    assert_int_equal(qpc_queue_try_push(queue, &items[0], 5000), QPC_OK);
    assert_int_equal(qpc_queue_try_push(queue, &items[1], 0), QPC_ERR_BUSY);
    assert_ptr_equal(qpc_queue_try_pop(queue), &items[0]);
    assert_int_equal(qpc_queue_try_push(queue, &items[0], 60), QPC_OK);
    assert_int_equal(qpc_queue_try_push(queue, &items[1], 41), QPC_ERR_BUSY);
    assert_int_equal(qpc_queue_try_push(queue, &items[1], UINT64_MAX), QPC_ERR_BUSY);
    assert_int_equal(qpc_queue_try_push(queue, &items[1], 40), QPC_OK);
    assert_int_equal(qpc_queue_get_stats(queue).weight, 100);
    qpc_queue_close(queue);
    qpc_queue_destroy(queue);
}

static void a_closed_queue_drains(void **state) {
    (void)state;
    qpc_queue *queue = make(4, 0);
    assert_int_equal(qpc_queue_try_push(queue, &items[0], 1), QPC_OK);
    qpc_queue_close(queue);
    assert_int_equal(qpc_queue_try_push(queue, &items[1], 1), QPC_ERR_STATE);
    assert_int_equal(qpc_queue_push(queue, &items[1], 1, -1), QPC_ERR_STATE);
    assert_ptr_equal(qpc_queue_pop(queue, -1), &items[0]);
    assert_null(qpc_queue_pop(queue, -1)); // at once, for ever
    void *out[2];
    assert_int_equal(qpc_queue_pop_many(queue, out, 2, -1), 0);
    qpc_queue_destroy(queue);
}

static void waits_end_at_their_time(void **state) {
    (void)state;
    qpc_queue *queue = make(1, 0);
    int64_t start = now_ms();
    assert_null(qpc_queue_pop(queue, 30));
    assert_true(now_ms() - start >= 29);
    assert_int_equal(qpc_queue_try_push(queue, &items[0], 1), QPC_OK);
    start = now_ms();
    assert_int_equal(qpc_queue_push(queue, &items[1], 1, 30), QPC_ERR_BUSY);
    assert_true(now_ms() - start >= 29);
    assert_true(qpc_queue_get_stats(queue).wait_ns >= 29000000);
    assert_int_equal(qpc_queue_get_stats(queue).refused, 1);
    assert_ptr_equal(qpc_queue_pop(queue, INT64_MAX), &items[0]);
    qpc_queue_destroy(queue);
}

static void a_bad_capacity_is_an_error(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_queue *queue = NULL;
    assert_fails(qpc_queue_create(0, 0, &queue, &err), QPC_ERR_INVALID, &err, "queue of 0 items");
    assert_fails(qpc_queue_create(-3, 0, &queue, &err), QPC_ERR_INVALID, &err, "want at least 1");
    assert_null(queue);
}

static void creation_survives_failed_allocations(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_queue *queue = NULL;
        if (qpc_faults_ended(&f, qpc_queue_create(8, 0, &queue, NULL)))
            qpc_queue_destroy(queue);
        else
            assert_null(queue);
    }
}

// ---- between threads ----

enum { PRODUCERS = 4, CONSUMERS = 3, EACH = 20000 };

typedef struct traffic {
    qpc_queue *queue;
    atomic_int producer_ids;
    atomic_int seen[PRODUCERS * EACH];
    atomic_int out_of_order;
} traffic;

static traffic busy;
static int tokens[PRODUCERS * EACH];

static void *produce(void *arg) {
    traffic *t = arg;
    int id = atomic_fetch_add(&t->producer_ids, 1);
    for (int i = 0; i < EACH; i++) {
        qpc_status status = qpc_queue_push(t->queue, &tokens[id * EACH + i], (uint64_t)(i % 5), -1);
        if (status != QPC_OK) return (void *)1;
    }
    return NULL;
}

static void *consume(void *arg) {
    traffic *t = arg;
    int last[PRODUCERS] = {-1, -1, -1, -1};
    for (;;) {
        void *out[7];
        int32_t n = qpc_queue_pop_many(t->queue, out, 7, -1);
        if (n == 0) return NULL;
        for (int32_t i = 0; i < n; i++) {
            int index = (int)((int *)out[i] - tokens);
            atomic_fetch_add(&t->seen[index], 1);
            // Of one producer, one consumer sees the items in order.
            if (index % EACH <= last[index / EACH]) atomic_fetch_add(&t->out_of_order, 1);
            last[index / EACH] = index % EACH;
        }
    }
}

static void every_item_arrives_once_between_many_threads(void **state) {
    (void)state;
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    busy.queue = make(16, 20);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, &busy), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, &busy), 0);
    for (int i = 0; i < PRODUCERS; i++) {
        void *failed = NULL;
        pthread_join(producers[i], &failed);
        assert_null(failed);
    }
    qpc_queue_close(busy.queue);
    for (int i = 0; i < CONSUMERS; i++) pthread_join(consumers[i], NULL);
    for (int i = 0; i < PRODUCERS * EACH; i++) assert_int_equal(atomic_load(&busy.seen[i]), 1);
    assert_int_equal(atomic_load(&busy.out_of_order), 0);
    qpc_queue_stats stats = qpc_queue_get_stats(busy.queue);
    assert_int_equal(stats.pushed, PRODUCERS * EACH);
    assert_true(stats.high_water <= 16);
    qpc_queue_destroy(busy.queue);
}

static void *push_second(void *arg) {
    return (void *)(intptr_t)qpc_queue_push(arg, &items[1], 1, -1);
}

static void *pop_one(void *arg) {
    return qpc_queue_pop(arg, -1);
}

static void a_pop_lets_a_waiting_producer_in(void **state) {
    (void)state;
    qpc_queue *queue = make(1, 0);
    pthread_t thread;
    void *status = NULL;
    assert_int_equal(qpc_queue_try_push(queue, &items[0], 1), QPC_OK);
    assert_int_equal(pthread_create(&thread, NULL, push_second, queue), 0);
    sleep_ms(20);
    assert_ptr_equal(qpc_queue_pop(queue, -1), &items[0]);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, QPC_OK);
    assert_ptr_equal(qpc_queue_pop(queue, 0), &items[1]);
    qpc_queue_destroy(queue);
}

static void close_wakes_those_who_wait(void **state) {
    (void)state;
    qpc_queue *full = make(1, 0), *empty = make(1, 0);
    pthread_t pusher, popper;
    void *status = NULL, *item = &items[0];
    assert_int_equal(qpc_queue_try_push(full, &items[0], 1), QPC_OK);
    assert_int_equal(pthread_create(&pusher, NULL, push_second, full), 0);
    assert_int_equal(pthread_create(&popper, NULL, pop_one, empty), 0);
    sleep_ms(20);
    qpc_queue_close(full);
    qpc_queue_close(empty);
    pthread_join(pusher, &status);
    pthread_join(popper, &item);
    assert_int_equal((intptr_t)status, QPC_ERR_STATE);
    assert_null(item);
    qpc_queue_destroy(full);
    qpc_queue_destroy(empty);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_order),
        cmocka_unit_test(weight_bounds_but_an_empty_queue_admits_one),
        cmocka_unit_test(a_closed_queue_drains),
        cmocka_unit_test(waits_end_at_their_time),
        cmocka_unit_test(a_bad_capacity_is_an_error),
        cmocka_unit_test(creation_survives_failed_allocations),
        cmocka_unit_test(every_item_arrives_once_between_many_threads),
        cmocka_unit_test(a_pop_lets_a_waiting_producer_in),
        cmocka_unit_test(close_wakes_those_who_wait),
    };
    int failed = cmocka_run_group_tests_name("base/queue", tests, NULL, NULL);
    return failed != 0 || qpc_mem_live_blocks() != 0;
}
