/// What a step says about its own motion: `proven`, `ccd_uncertain`, `hits`, `toi_margin`. Continuous detection goes through a
/// double (linked by --wrap), so that what never happens can be made to happen.
#include "tests/unit/world/support.h"

#include "engine/collision/detect.h"

typedef enum trick {
    HONEST,
    UNCERTAIN_ALWAYS, // one more pair that is not decided, in every test
    UNCERTAIN_FIRST,  // in the first test of a step only
    MOVED_AFTER,      // the motion is another one once it was found clean
} trick;
static trick mode;
static int tests;

qpc_status __real_qpc_detect_motion(qpc_detector *detector, const double *x0, const double *x1, double factor, qpc_contacts *ret,
                                    qpc_error *err);
qpc_status __wrap_qpc_detect_motion(qpc_detector *detector, const double *x0, const double *x1, double factor, qpc_contacts *ret,
                                    qpc_error *err);
qpc_status __wrap_qpc_detect_motion(qpc_detector *detector, const double *x0, const double *x1, double factor, qpc_contacts *ret,
                                    qpc_error *err) {
    qpc_status st = __real_qpc_detect_motion(detector, x0, x1, factor, ret, err);
    tests++;
    if (st != QPC_OK) return st;
    if (mode == UNCERTAIN_ALWAYS || (mode == UNCERTAIN_FIRST && tests == 1)) {
        // Vertex 0 of the cable and a triangle of the floor, as the iteration cap would report them.
        qpc_contact c = {.kind = QPC_CONTACT_VT, .flags = QPC_CONTACT_UNCERTAIN, .key = 1, .n = {0, 1, 0}, .distance = 0.5,
                         .separation = 0.01, .toi = 0.5, .surface = {0, 1}, .weight = {1, -1, 0, 0}, .node = {0, 3, 4, 5}};
        assert_true(qpc_array_push(ret, c));
    }
    if (mode == MOVED_AFTER && ret->count == 0) ((double *)(uintptr_t)x1)[1] -= 1e-7;
    return st;
}

static qpc_world *falling(void) {
    qpc_world *w = NULL;
    qpc_error err = {0};
    mode = HONEST;
    assert_ok(world_of("{'bodies':[{'kind':'cable','name':'c','nodes':[[0,0.02,0.05],[0.1,0.02,0.05],[0.2,0.02,0.05]],'mass':0.1,"
                       "'stiffness':1000,'radius':0.01}," FLOOR "]}", &w, NULL, &err), &err);
    return w;
}

static qpc_step_report step(qpc_world *w) {
    qpc_step_report r;
    qpc_error err = {0};
    tests = 0;
    assert_ok(qpc_world_step(w, &r, &err), &err);
    return r;
}

static void every_step_of_a_falling_cable_is_proven(void **state) {
    (void)state;
    qpc_world *w = falling();
    int64_t hits = 0;
    double least = 1.0;
    for (int i = 0; i < 60; i++) {
        qpc_step_report r = step(w);
        assert_int_equal(r.proven, 1);
        assert_int_equal(r.ccd_uncertain, 0);
        assert_true(r.toi_margin > 0.0 && r.toi_margin <= 1.0);
        assert_true(tests > 0);
        hits += r.hits;
        least = r.toi_margin < least ? r.toi_margin : least;
    }
    assert_true(qpc_world_positions(w)[1] < 0.0101);
    (void)hits;
    qpc_world_destroy(w);
}

static void a_pair_that_is_never_decided_is_reported_and_stops_the_motion(void **state) {
    (void)state;
    qpc_world *w = falling();
    double before[9];
    (void)step(w);
    memcpy(before, qpc_world_positions(w), sizeof before);
    mode = UNCERTAIN_ALWAYS;
    qpc_step_report r = step(w);
    assert_int_equal(r.proven, 0);
    assert_true(r.ccd_uncertain > 0);
    assert_true(r.hits >= r.ccd_uncertain);
    assert_true(r.failsafe > 0 && r.failsafe_scale < 1.0);
    assert_memory_equal(qpc_world_positions(w), before, sizeof before);
    mode = HONEST;
    r = step(w); // and it goes on
    assert_int_equal(r.proven, 1);
    assert_int_equal(r.ccd_uncertain, 0);
    assert_true(qpc_world_positions(w)[1] < before[1]);
    qpc_world_destroy(w);
}

static void a_pair_that_is_decided_in_the_end_is_counted_and_the_step_proven(void **state) {
    (void)state;
    qpc_world *w = falling();
    mode = UNCERTAIN_FIRST;
    qpc_step_report r = step(w);
    assert_int_equal(r.ccd_uncertain, 1);
    assert_int_equal(r.proven, 1);
    qpc_world_destroy(w);
}

static void a_motion_that_is_not_the_one_that_was_tested_is_not_proven(void **state) {
    (void)state;
    qpc_world *w = falling();
    mode = MOVED_AFTER;
    qpc_step_report r = step(w);
    assert_int_equal(r.proven, 0);
    assert_int_equal(r.ccd_uncertain, 0);
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(every_step_of_a_falling_cable_is_proven),
        cmocka_unit_test(a_pair_that_is_never_decided_is_reported_and_stops_the_motion),
        cmocka_unit_test(a_pair_that_is_decided_in_the_end_is_counted_and_the_step_proven),
        cmocka_unit_test(a_motion_that_is_not_the_one_that_was_tested_is_not_proven),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
