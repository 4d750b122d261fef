/// Counted allocation, fault injection, the arena, growable arrays.
#include "tests/support/check.h"

#include "base/array.h"
#include "tests/support/faults.h"

#include <pthread.h>
#include <stdlib.h>

static void sizes_that_overflow_are_refused(void **state) {
    (void)state;
    size_t r = 5;
    assert_false(qpc_mul_size(SIZE_MAX / 2, 3, &r));
    assert_false(qpc_add_size(SIZE_MAX, 1, &r));
    assert_int_equal(r, 5);
    assert_true(qpc_mul_size(6, 7, &r));
    assert_int_equal(r, 42);
    assert_null(qpc_calloc(SIZE_MAX / 2, 3));
    assert_null(qpc_alloc_array(SIZE_MAX / 2, 3));
    int *kept = qpc_alloc_array(4, sizeof *kept);
    assert_non_null(kept);
    assert_null(qpc_realloc_array(kept, SIZE_MAX / 2, 3));
    kept[3] = 1; // still ours
    qpc_free(kept);
}

static void zero_sizes_give_blocks(void **state) {
    (void)state;
    int64_t live = qpc_mem_live_blocks();
    void *a = qpc_alloc(0), *b = qpc_calloc(0, 8), *c = qpc_realloc(qpc_alloc(8), 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_int_equal(qpc_mem_live_blocks(), live + 3);
    qpc_free(a);
    qpc_free(b);
    qpc_free(c);
    qpc_free(NULL);
    assert_int_equal(qpc_mem_live_blocks(), live);
}

static void allocations_are_counted_per_thread(void **state) {
    (void)state;
    uint64_t before = qpc_mem_thread_allocations();
    void *p = qpc_alloc(8);
    p = qpc_realloc(p, 80);
    char *s = qpc_strdup("hello");
    assert_string_equal(s, "hello");
    assert_int_equal(qpc_mem_thread_allocations() - before, 3);
    qpc_free(p);
    qpc_free(s);
}

static void the_nth_allocation_fails_once(void **state) {
    (void)state;
    qpc_mem_fail_at(2, false);
    void *a = qpc_alloc(1);
    assert_non_null(a);
    assert_false(qpc_mem_failed());
    assert_null(qpc_alloc(1));
    assert_true(qpc_mem_failed());
    void *b = qpc_alloc(1);
    assert_non_null(b);
    qpc_mem_fail_at(0, false);
    assert_false(qpc_mem_failed());
    qpc_free(a);
    qpc_free(b);
}

static void all_fail_after_the_nth_if_asked(void **state) {
    (void)state;
    void *a = qpc_alloc(8);
    qpc_mem_fail_at(1, true);
    assert_null(qpc_alloc(1));
    assert_null(qpc_calloc(1, 1));
    assert_null(qpc_realloc(a, 100));
    assert_null(qpc_strdup("x"));
    qpc_mem_disarm();
    assert_true(qpc_mem_failed());
    void *b = qpc_alloc(1);
    assert_non_null(b);
    qpc_mem_fail_at(0, false);
    qpc_free(a);
    qpc_free(b);
}

static void *alloc_elsewhere(void *arg) {
    void *p = qpc_alloc(16);
    *(bool *)arg = p != NULL;
    qpc_free(p);
    return NULL;
}

static void faults_are_the_calling_threads_own(void **state) {
    (void)state;
    pthread_t thread;
    bool had = false;
    qpc_mem_fail_at(1, true);
    assert_int_equal(pthread_create(&thread, NULL, alloc_elsewhere, &had), 0);
    pthread_join(thread, NULL);
    assert_true(had);
    assert_null(qpc_alloc(1));
    qpc_mem_fail_at(0, false);
}

// ---- arena ----

static void arena_blocks_are_aligned_and_apart(void **state) {
    (void)state;
    qpc_arena arena = {0};
    unsigned char *blocks[200];
    size_t sizes[200];
    for (int i = 0; i < 200; i++) {
        sizes[i] = (size_t)(i * 37 % 3000);
        blocks[i] = qpc_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], i, sizes[i]);
    }
    for (int i = 0; i < 200; i++)
        for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(blocks[i][k], i);
    assert_null(qpc_arena_alloc(&arena, SIZE_MAX - 3));
    assert_null(qpc_arena_array(&arena, SIZE_MAX / 2, 3));
    qpc_arena_fini(&arena);
    qpc_arena_fini(NULL);
}

static void rewind_gives_back_what_followed_the_mark(void **state) {
    (void)state;
    qpc_arena arena = {0};
    char *kept = qpc_arena_alloc(&arena, 100);
    memset(kept, 7, 100);
    qpc_arena_mark mark = qpc_arena_get_mark(&arena);
    char *first = qpc_arena_alloc(&arena, 1000);
    qpc_arena_alloc(&arena, 1000000); // another block
    qpc_arena_alloc(&arena, 5000000); // and another
    qpc_arena_rewind(&arena, mark);
    assert_ptr_equal(qpc_arena_alloc(&arena, 1000), first);
    for (int i = 0; i < 100; i++) assert_int_equal(kept[i], 7);
    qpc_arena_fini(&arena);
}

static void rewind_to_the_empty_mark_empties(void **state) {
    (void)state;
    qpc_arena arena = {0};
    qpc_arena_mark mark = qpc_arena_get_mark(&arena);
    void *first = qpc_arena_alloc(&arena, 64);
    qpc_arena_alloc(&arena, 1000000);
    qpc_arena_rewind(&arena, mark);
    uint64_t before = qpc_mem_thread_allocations();
    assert_ptr_equal(qpc_arena_alloc(&arena, 64), first);
    assert_int_equal(qpc_mem_thread_allocations(), before);
    assert_int_equal(arena.used + arena.total, 64);
    qpc_arena_fini(&arena);
}

/// One step of a user: grows, marks, takes a large scratch, gives it back, goes on.
static void use_like_a_step(qpc_arena *arena) {
    qpc_arena_reset(arena);
    assert_non_null(qpc_arena_alloc(arena, 50000));
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    assert_non_null(qpc_arena_alloc(arena, 300000));
    assert_non_null(qpc_arena_alloc(arena, 900000));
    qpc_arena_rewind(arena, mark);
    assert_non_null(qpc_arena_alloc(arena, 20000));
}

static void a_warm_arena_takes_no_memory_although_marks_are_rewound(void **state) {
    (void)state;
    qpc_arena arena = {0};
    use_like_a_step(&arena);
    use_like_a_step(&arena);
    uint64_t before = qpc_mem_thread_allocations();
    for (int i = 0; i < 10; i++) use_like_a_step(&arena);
    assert_int_equal(qpc_mem_thread_allocations(), before);
    assert_true(arena.high_water >= 1250000);
    qpc_arena_fini(&arena);
}

static void reset_without_memory_goes_on_and_tries_again(void **state) {
    (void)state;
    qpc_arena arena = {0};
    qpc_arena_alloc(&arena, 60000);
    qpc_arena_alloc(&arena, 60000);
    qpc_arena_alloc(&arena, 60000);
    qpc_mem_fail_at(1, true);
    qpc_arena_reset(&arena);
    assert_true(qpc_mem_failed());
    qpc_mem_fail_at(0, false);
    assert_int_equal(arena.used + arena.total, 0);
    char *p = qpc_arena_alloc(&arena, 60000);
    assert_non_null(p);
    memset(p, 1, 60000);
    qpc_arena_reset(&arena);
    uint64_t before = qpc_mem_thread_allocations();
    qpc_arena_alloc(&arena, 180000);
    assert_int_equal(qpc_mem_thread_allocations(), before);
    qpc_arena_fini(&arena);
}

static void arena_failures_leave_it_as_it_was(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_arena arena = {0};
        char *a = qpc_arena_alloc(&arena, 1000);
        char *b = a != NULL ? qpc_arena_alloc(&arena, 100000) : NULL;
        if (a != NULL) memset(a, 1, 1000);
        if (b != NULL) memset(b, 1, 100000);
        qpc_faults_ended(&f, b != NULL ? QPC_OK : QPC_ERR_MEMORY);
        qpc_arena_fini(&arena);
    }
}

// ---- arrays ----

static void arrays_grow_and_keep_their_items(void **state) {
    (void)state;
    QPC_ARRAY(int64_t) a = {0};
    for (int64_t i = 0; i < 10000; i++) assert_true(qpc_array_push(&a, i * i));
    for (int64_t i = 0; i < 10000; i++) assert_true(a.data[i] == i * i);
    assert_int_equal(a.count, 10000);
    assert_true(qpc_array_reserve(&a, 5));
    int64_t too_many = (int64_t)INT32_MAX + 1;
    assert_false(qpc_array_reserve(&a, too_many));
    assert_int_equal(a.count, 10000);
    qpc_array_fini(&a);
    assert_null(a.data);
}

static void a_failed_push_changes_nothing(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        QPC_ARRAY(int32_t) a = {0};
        qpc_status status = QPC_OK;
        int32_t pushed = 0;
        for (; pushed < 100; pushed++) {
            if (!qpc_array_push(&a, pushed)) {
                status = QPC_ERR_MEMORY;
                break;
            }
        }
        assert_int_equal(a.count, pushed);
        for (int32_t i = 0; i < a.count; i++) assert_int_equal(a.data[i], i);
        qpc_faults_ended(&f, status);
        qpc_array_fini(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(zero_sizes_give_blocks),
        cmocka_unit_test(allocations_are_counted_per_thread),
        cmocka_unit_test(the_nth_allocation_fails_once),
        cmocka_unit_test(all_fail_after_the_nth_if_asked),
        cmocka_unit_test(faults_are_the_calling_threads_own),
        cmocka_unit_test(arena_blocks_are_aligned_and_apart),
        cmocka_unit_test(rewind_gives_back_what_followed_the_mark),
        cmocka_unit_test(rewind_to_the_empty_mark_empties),
        cmocka_unit_test(a_warm_arena_takes_no_memory_although_marks_are_rewound),
        cmocka_unit_test(reset_without_memory_goes_on_and_tries_again),
        cmocka_unit_test(arena_failures_leave_it_as_it_was),
        cmocka_unit_test(arrays_grow_and_keep_their_items),
        cmocka_unit_test(a_failed_push_changes_nothing),
    };
    int failed = cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
    return failed != 0 || qpc_mem_live_blocks() != 0;
}
