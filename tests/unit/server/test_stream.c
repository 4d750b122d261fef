/// Policies of subscriptions, without a session.
#include "server/stream.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct reader {
    bool ready;
    int64_t steps[64];
    uint64_t dropped[64];
    int count;
} reader;

static bool is_ready(void *user) { return ((reader *)user)->ready; }

static void take(void *user, const qpc_subscription *s, const qpc_snapshot *frame,
                 uint64_t dropped) {
    reader *r = user;
    (void)s;
    r->steps[r->count] = frame->step;
    r->dropped[r->count++] = dropped;
}

static qpc_snapshot *frame_of(int64_t step) {
    qpc_snapshot *frame = qpc_calloc(1, sizeof *frame);
    assert_non_null(frame);
    atomic_init(&frame->refs, 1);
    frame->step = step;
    return frame;
}

static void offer(qpc_subscription *s, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step++) {
        qpc_snapshot *frame = frame_of(step);
        qpc_subscription_offer(s, frame);
        qpc_snapshot_unref(frame);
    }
}

static qpc_subscription *subscribe(qpc_stream_policy policy, int32_t capacity, reader *r) {
    qpc_subscription *s = qpc_subscription_create(policy, capacity);
    assert_non_null(s);
    s->sink = (qpc_stream_sink){is_ready, take, r};
    return s;
}

static void expect(const reader *r, const int64_t *steps, int count) {
    assert_int_equal(r->count, count);
    for (int i = 0; i < count; i++) assert_int_equal(r->steps[i], steps[i]);
}

static void a_fast_reader_gets_every_frame_that_is_due(void **state) {
    (void)state;
    reader r = {.ready = true};
    qpc_subscription *s = subscribe(QPC_STREAM_DROP_OLDEST, 4, &r);
    s->every = 3;
    offer(s, 1, 10);
    expect(&r, (int64_t[]){3, 6, 9}, 3);
    assert_int_equal(s->sent, 3);
    assert_int_equal(s->dropped, 0);
    qpc_subscription_destroy(s);
}

static void policies_say_which_frames_go(void **state) {
    (void)state;
    static const struct {
        qpc_stream_policy policy;
        int64_t steps[4];
        int count;
        uint64_t dropped;
    } cases[] = {
        {QPC_STREAM_DROP_OLDEST, {8, 9, 10}, 3, 7},
        {QPC_STREAM_DROP_NEWEST, {1, 2, 3}, 3, 7},
        {QPC_STREAM_LATEST, {10}, 1, 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reader r = {.ready = false};
        qpc_subscription *s = subscribe(cases[i].policy, 3, &r);
        offer(s, 1, 10);
        assert_int_equal(r.count, 0);
        r.ready = true;
        qpc_subscription_pump(s);
        expect(&r, cases[i].steps, cases[i].count);
        assert_int_equal(r.dropped[0], cases[i].dropped);
        assert_int_equal(s->dropped, cases[i].dropped);
        // What was told is not told again.
        offer(s, 11, 11);
        assert_int_equal(r.dropped[r.count - 1], 0);
        qpc_subscription_destroy(s);
    }
}

static void close_ends_at_the_first_frame_too_many(void **state) {
    (void)state;
    reader r = {.ready = false};
    qpc_subscription *s = subscribe(QPC_STREAM_CLOSE, 2, &r);
    offer(s, 1, 2);
    assert_false(s->over);
    offer(s, 3, 3);
    assert_true(s->over);
    r.ready = true;
    qpc_subscription_pump(s);
    offer(s, 4, 4);
    assert_int_equal(r.count, 0);
    qpc_subscription_destroy(s);
}

static void credit_is_used_up_and_granted(void **state) {
    (void)state;
    reader r = {.ready = true};
    qpc_subscription *s = subscribe(QPC_STREAM_DROP_OLDEST, 2, &r);
    s->counted = true;
    s->credit = 2;
    offer(s, 1, 6);
    expect(&r, (int64_t[]){1, 2}, 2);
    s->credit += 1;
    qpc_subscription_pump(s);
    expect(&r, (int64_t[]){1, 2, 5}, 3);
    assert_int_equal(r.dropped[2], 2);
    s->credit += 5;
    offer(s, 7, 7); // the older one first
    expect(&r, (int64_t[]){1, 2, 5, 6, 7}, 5);
    assert_int_equal(s->credit, 3);
    qpc_subscription_destroy(s);
}

static void frames_lost_on_the_way_are_told(void **state) {
    (void)state;
    reader r = {.ready = true};
    qpc_subscription *s = subscribe(QPC_STREAM_LATEST, 64, &r);
    assert_int_equal(s->capacity, 1);
    qpc_subscription_missed(s, 5);
    offer(s, 6, 6);
    assert_int_equal(r.dropped[0], 5);
    assert_int_equal(s->dropped, 5);
    qpc_subscription_destroy(s);
    qpc_subscription_destroy(NULL);
}

static void bytes_of_waiting_frames_are_bounded_over_a_session(void **state) {
    (void)state;
    reader r = {.ready = false};
    qpc_snapshot *probe = frame_of(0);
    size_t held = 0, size = qpc_snapshot_size(probe);
    qpc_snapshot_unref(probe);
    qpc_subscription *a = subscribe(QPC_STREAM_DROP_OLDEST, 100, &r);
    qpc_subscription *b = subscribe(QPC_STREAM_DROP_OLDEST, 100, &r);
    a->held = b->held = &held;
    a->held_most = b->held_most = 3 * size;
    offer(a, 1, 5); // 3 to 5 wait
    assert_int_equal(held, 3 * size);
    offer(b, 6, 6); // nothing of its own to drop
    assert_int_equal(b->count, 0);
    assert_int_equal(b->dropped, 1);
    r.ready = true;
    qpc_subscription_pump(a);
    expect(&r, (int64_t[]){3, 4, 5}, 3);
    assert_int_equal(held, 0);
    r.ready = false;
    offer(b, 7, 7);
    assert_int_equal(held, size);
    qpc_subscription_destroy(a);
    qpc_subscription_destroy(b);
    assert_int_equal(held, 0);
}

static void names_of_policies_are_read(void **state) {
    (void)state;
    qpc_stream_policy policy;
    qpc_error error = {0};
    qpc_value v = qpc_text_borrow("drop-newest");
    assert_int_equal(qpc_stream_policy_read(&v, &policy, &error), QPC_OK);
    assert_int_equal(policy, QPC_STREAM_DROP_NEWEST);
    assert_int_equal(qpc_stream_policy_read(NULL, &policy, &error), QPC_OK);
    assert_int_equal(policy, QPC_STREAM_LATEST);
    v = qpc_text_borrow("newest");
    assert_int_equal(qpc_stream_policy_read(&v, &policy, &error), QPC_ERR_INVALID);
    assert_string_equal(error.where, "policy");
}

static int no_block_leaks(void **state) {
    (void)state;
    return qpc_mem_live_blocks() == 0 ? 0 : 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fast_reader_gets_every_frame_that_is_due),
        cmocka_unit_test(policies_say_which_frames_go),
        cmocka_unit_test(close_ends_at_the_first_frame_too_many),
        cmocka_unit_test(credit_is_used_up_and_granted),
        cmocka_unit_test(frames_lost_on_the_way_are_told),
        cmocka_unit_test(bytes_of_waiting_frames_are_bounded_over_a_session),
        cmocka_unit_test(names_of_policies_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, no_block_leaks);
}
