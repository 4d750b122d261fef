// What a detector keeps of its last call between rigid surfaces never shows: whatever bodies do between two calls, the answers
// have the bits of a detector that is made anew for each.
#include "tests/support/check.h"
#include "tests/support/deforming.h"
#include "tests/support/faults.h"

#include <stdlib.h>

static const double REACH = 1.1, RADIUS = 0.001;

static void add_box(deforming *d, const double size[3], const double at[3], qpc_motion_kind motion) {
    generated g = {0};
    double low[3], high[3];
    for (int k = 0; k < 3; k++) low[k] = at[k] - 0.5 * size[k], high[k] = at[k] + 0.5 * size[k];
    assert_true(generate_box(&g, low, high));
    assert_true(deforming_add(d, &g, motion, RADIUS) >= 0);
}

/// A floor, three boxes on each other at their separation, a fourth beside them; sheet: and one sheet that lies on the fourth.
static void pile(deforming *d, bool sheet) {
    const double floor[3] = {2, 2, 0.1}, cube[3] = {0.1, 0.1, 0.1};
    add_box(d, floor, (const double[3]){0, 0, -0.05}, QPC_STATIC);
    for (int k = 0; k < 3; k++) add_box(d, cube, (const double[3]){0, 0, 0.052 + 0.102 * k}, QPC_RIGID);
    add_box(d, cube, (const double[3]){0.1023, 0.03, 0.052}, QPC_RIGID);
    if (!sheet) return;
    generated g = {0};
    assert_true(generate_sheet(&g, 4, 4, 0.02, 0, 0));
    for (int32_t k = 0; k < g.x.count; k += 3) g.x.data[k] += 0.07, g.x.data[k + 2] += 0.104;
    assert_true(deforming_add(d, &g, QPC_DYNAMIC, RADIUS) >= 0);
}

static void move(const deforming *d, int surface, qpc_vec3 by) {
    double *x = deforming_at(d, d->x1, surface);
    for (int32_t k = 0; k < d->surface[surface].node_count; k++) v3_store(x + 3 * k, v3_add(v3_load(x + 3 * k), by));
}

/// Turned about the vertical through the middle of its nodes.
static void turn(const deforming *d, int surface, double angle) {
    double *x = deforming_at(d, d->x1, surface), c = cos(angle), s = sin(angle);
    int32_t n = d->surface[surface].node_count;
    qpc_vec3 middle = v3(0, 0, 0);
    for (int32_t k = 0; k < n; k++) middle = v3_madd(middle, 1.0 / n, v3_load(x + 3 * k));
    for (int32_t k = 0; k < n; k++) {
        qpc_vec3 r = v3_sub(v3_load(x + 3 * k), middle);
        v3_store(x + 3 * k, v3_add(middle, v3(c * r.x - s * r.y, s * r.x + c * r.y, r.z)));
    }
}

static void same(const qpc_contacts *a, const qpc_contacts *b) {
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++) {
        const qpc_contact *p = &a->data[i], *q = &b->data[i];
        assert_true(p->key == q->key && p->kind == q->kind && p->flags == q->flags);
        assert_memory_equal(p->node, q->node, sizeof p->node);
        assert_memory_equal(p->weight, q->weight, sizeof p->weight);
        assert_memory_equal(&p->n, &q->n, sizeof p->n);
        assert_true(p->distance == q->distance && p->toi == q->toi && p->separation == q->separation);
    }
}

static qpc_detector *make(const deforming *d, const double *x) {
    qpc_error err = {0};
    qpc_detector *det;
    assert_ok(qpc_detector_create(d->surface, d->count, x, d->nodes, 100000, &det, &err), &err);
    return det;
}

typedef struct answers {
    qpc_contacts near, hits;
    double gap, wide;
} answers;

/// As a step asks: the contacts of x0, what the way to x1 hits, the gap there, and within a wider reach. start: by a new detector each,
/// that was made there.
static void ask(qpc_detector *det, const double *start, const deforming *d, answers *a) {
    for (int question = 0; question < 4; question++) {
        qpc_error err = {0};
        qpc_detector *asked = start != NULL ? make(d, start) : det;
        if (question == 0) assert_ok(qpc_detect_proximity(asked, d->x0, REACH, &a->near, &err), &err);
        if (question == 1) assert_ok(qpc_detect_motion(asked, d->x0, d->x1, 0.95, &a->hits, &err), &err);
        if (question == 2) assert_ok(qpc_detect_gap_within(asked, d->x1, REACH, &a->gap, &err), &err);
        if (question == 3) assert_ok(qpc_detect_minimum_gap(asked, d->x1, &a->wide, &err), &err);
        if (start != NULL) qpc_detector_destroy(asked);
    }
}

typedef struct comparison {
    qpc_detector *det; // lives on
    double *start;
    answers old, fresh;
    uint64_t tests;    // of the last proximity call
} comparison;

static void compare(comparison *c, deforming *d) {
    qpc_error err = {0};
    ask(NULL, c->start, d, &c->fresh);
    qpc_detector_counts_reset(c->det);
    assert_ok(qpc_detect_proximity(c->det, d->x0, REACH, &c->old.near, &err), &err);
    c->tests = qpc_detector_counts(c->det).vt_tests + qpc_detector_counts(c->det).ee_tests;
    ask(c->det, NULL, d, &c->old);
    same(&c->old.near, &c->fresh.near);
    same(&c->old.hits, &c->fresh.hits);
    assert_true(c->old.gap == c->fresh.gap && c->old.wide == c->fresh.wide);
    deforming_advance(d);
}

static void begin(comparison *c, deforming *d, bool sheet) {
    *c = (comparison){0};
    *d = (deforming){0};
    pile(d, sheet);
    c->start = malloc(3 * (size_t)d->nodes * sizeof *c->start);
    assert_non_null(c->start);
    memcpy(c->start, d->x0, 3 * (size_t)d->nodes * sizeof *c->start);
    c->det = make(d, c->start);
    compare(c, d);
    assert_true(c->tests > 0 && c->old.near.count >= 12);
}

static void end(comparison *c, deforming *d) {
    qpc_array_fini(&c->old.near);
    qpc_array_fini(&c->old.hits);
    qpc_array_fini(&c->fresh.near);
    qpc_array_fini(&c->fresh.hits);
    qpc_detector_destroy(c->det);
    free(c->start);
    deforming_fini(d);
}

static void what_stands_still_is_not_tested_again(void **state) {
    (void)state;
    comparison c;
    deforming d;
    begin(&c, &d, false);
    for (int k = 0; k < 3; k++) {
        compare(&c, &d);
        assert_int_equal(c.tests, 0);
    }
    end(&c, &d);
}

static void a_body_that_creeps_or_turns_slowly_is_tested_anew(void **state) {
    (void)state;
    comparison c;
    deforming d;
    begin(&c, &d, false);
    for (int k = 0; k < 40; k++) { // from one ulp to half of what is between separation and reach
        double by = ldexp(1e-17, k);
        if (k % 2 == 0) move(&d, 3, v3(by, 0, by));
        else turn(&d, 4, by);
        bool moved = memcmp(d.x0, d.x1, 3 * (size_t)d.nodes * sizeof *d.x0) != 0;
        compare(&c, &d); // asks at x0, where nothing has moved yet
        assert_int_equal(c.tests, 0);
        compare(&c, &d);
        assert_true(moved == (c.tests > 0));
    }
    assert_true(d.x0[3 * d.surface[3].first_node] > c.start[3 * d.surface[3].first_node]);
    end(&c, &d);
}

static void a_body_is_moved_away_and_back(void **state) {
    (void)state;
    comparison c;
    deforming d;
    begin(&c, &d, false);
    int32_t together = c.old.near.count;
    for (int k = 0; k < 3; k++) {
        move(&d, 3, v3(0, 0, 5)); // as if its state were set
        compare(&c, &d);
        compare(&c, &d);
        assert_true(c.old.near.count < together);
        move(&d, 3, v3(0, 0, -5 - 1e-4)); // what was out of reach is nearest of all now
        compare(&c, &d);
        assert_true(c.old.gap < 0.96);
        move(&d, 3, v3(0, 0, 1e-4));
        compare(&c, &d);
        compare(&c, &d);
        assert_int_equal(c.old.near.count, together);
        together = c.old.near.count;
        move(&d, 4, v3(0, 1e-5, 0)); // others move meanwhile
        compare(&c, &d);
    }
    end(&c, &d);
}

static void one_that_comes_in_hits_and_is_seen_coming(void **state) {
    (void)state;
    comparison c;
    deforming d;
    begin(&c, &d, false);
    int64_t hits = 0;
    for (int k = 0; k < 12; k++) {
        move(&d, 4, v3(k < 6 ? -2e-4 : 3e-4, 0, 0));
        compare(&c, &d);
        hits += c.old.hits.count;
    }
    assert_true(hits > 0);
    end(&c, &d);
}

static void whatever_moves_by_whatever_it_is_as_if_asked_for_the_first_time(void **state) {
    (void)state;
    comparison c;
    deforming d;
    uint64_t seed = 7;
    int still = 0, moving = 0;
    begin(&c, &d, false);
    for (int round = 0; round < 60; round++) {
        for (int k = 1; k < 5; k++) {
            double by = pow(10, -9.5 + 6.5 * deforming_uniform(&seed)), way = deforming_uniform(&seed);
            if (round % 3 == 2 || deforming_uniform(&seed) > -0.2) continue;
            if (way > 0) turn(&d, k, by);
            else move(&d, k, v3(by * deforming_uniform(&seed), by * deforming_uniform(&seed), by * way));
        }
        compare(&c, &d);
        still += c.tests == 0;
        moving += c.tests > 0;
    }
    assert_true(still > 10 && moving > 10);
    end(&c, &d);
}

static void deforming_surfaces_are_always_tested(void **state) {
    (void)state;
    comparison c;
    deforming d;
    begin(&c, &d, true);
    for (int k = 0; k < 6; k++) {
        if (k % 2 == 1) move(&d, 5, v3(0, 0, 2e-5 * (k - 4)));
        if (k == 4) move(&d, 1, v3(1e-6, 0, 0));
        compare(&c, &d);
        assert_true(c.tests > 0);
    }
    end(&c, &d);
}

static void what_touches_is_not_taken_for_resting(void **state) {
    (void)state;
    comparison c;
    deforming d;
    begin(&c, &d, false);
    move(&d, 4, v3(-0.0023, 0, 0)); // onto its neighbour's face
    deforming_advance(&d);
    for (int k = 0; k < 3; k++) compare(&c, &d);
    assert_true(c.old.gap < 1e-12);
    end(&c, &d);
}

static void another_reach_and_errors_are_no_lasting_memory(void **state) {
    (void)state;
    comparison c;
    deforming d;
    qpc_error err = {0};
    begin(&c, &d, false);
    qpc_contacts wide = {0}, fresh_wide = {0};
    qpc_detector *fresh = make(&d, c.start);
    assert_ok(qpc_detect_proximity(c.det, d.x0, 1.2, &wide, &err), &err);
    assert_ok(qpc_detect_proximity(fresh, d.x0, 1.2, &fresh_wide, &err), &err);
    same(&wide, &fresh_wide);
    compare(&c, &d);
    double kept = d.x0[3 * d.surface[2].first_node];
    d.x0[3 * d.surface[2].first_node] = NAN;
    assert_int_equal(qpc_detect_proximity(c.det, d.x0, REACH, &wide, &err), QPC_ERR_NUMERIC);
    double gap;
    assert_int_equal(qpc_detect_gap_within(c.det, d.x0, REACH, &gap, &err), QPC_ERR_NUMERIC);
    d.x0[3 * d.surface[2].first_node] = kept;
    compare(&c, &d);
    assert_ok(qpc_detect_proximity(c.det, d.x0, REACH, &wide, &err), &err);
    d.x0[3 * d.surface[2].first_node] = NAN; // of a gap right after
    assert_int_equal(qpc_detect_gap_within(c.det, d.x0, REACH, &gap, &err), QPC_ERR_NUMERIC);
    d.x0[3 * d.surface[2].first_node] = kept;
    compare(&c, &d);
    qpc_detector_destroy(fresh);
    qpc_array_fini(&wide);
    qpc_array_fini(&fresh_wide);
    end(&c, &d);
}

static void memory_that_runs_out_leaves_nothing_stale(void **state) {
    (void)state;
    deforming d = {0};
    pile(&d, false);
    QPC_FAULTS(f) {
        qpc_error err = {0};
        qpc_detector *det = NULL;
        qpc_contacts near = {0};
        qpc_status st = qpc_detector_create(d.surface, d.count, d.x0, d.nodes, 100000, &det, &err);
        for (int k = 0; k < 2 && st == QPC_OK; k++) st = qpc_detect_proximity(det, d.x0, REACH, &near, &err);
        if (!qpc_faults_ended(&f, st) && det != NULL) { // it can be asked again
            double gap = 0;
            assert_ok(qpc_detect_gap_within(det, d.x0, REACH, &gap, &err), &err);
            assert_near(gap, 1, 1e-9);
        }
        qpc_array_fini(&near);
        qpc_detector_destroy(det);
    }
    deforming_fini(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_still_is_not_tested_again),
        cmocka_unit_test(a_body_that_creeps_or_turns_slowly_is_tested_anew),
        cmocka_unit_test(a_body_is_moved_away_and_back),
        cmocka_unit_test(one_that_comes_in_hits_and_is_seen_coming),
        cmocka_unit_test(whatever_moves_by_whatever_it_is_as_if_asked_for_the_first_time),
        cmocka_unit_test(deforming_surfaces_are_always_tested),
        cmocka_unit_test(what_touches_is_not_taken_for_resting),
        cmocka_unit_test(another_reach_and_errors_are_no_lasting_memory),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
