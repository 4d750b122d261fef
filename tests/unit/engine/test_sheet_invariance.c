/// Detection between deforming surfaces finds the same whatever the numbering of vertices and
/// triangles, the winding, the place, the history of the lists and the number of threads.
#include "tests/support/check.h"
#include "tests/support/sheet_checks.h"

#include <stdlib.h>

static uint64_t seed = 20061;

/// Contacts by where they are: centre and normal, sorted.
typedef struct spot {
    double p[3], n[3], distance;
} spot;

static int by_place(const void *a, const void *b) {
    const spot *p = a, *q = b;
    for (int k = 0; k < 3; k++)
        if (fabs(p->p[k] - q->p[k]) > 1e-9) return p->p[k] < q->p[k] ? -1 : 1;
    return 0;
}

static spot *spots(const qpc_contacts *c, const double *x, qpc_vec3 origin) {
    spot *s = calloc((size_t)c->count + 1, sizeof *s);
    assert_non_null(s);
    for (int32_t i = 0; i < c->count; i++) {
        const qpc_contact *r = &c->data[i];
        qpc_vec3 p = v3(0, 0, 0), n = r->n;
        for (int k = 0; k < 4; k++)
            p = v3_madd(p, fabs(r->weight[k]), v3_sub(v3_load(x + 3 * r->node[k]), origin));
        double along = 0.3 * n.x + 0.5 * n.y + 0.7 * n.z;
        if (along < 0) n = v3_neg(n); // which side is i may change with the numbers
        v3_store(s[i].p, p);
        v3_store(s[i].n, n);
        s[i].distance = r->distance;
    }
    qsort(s, (size_t)c->count, sizeof *s, by_place);
    return s;
}

static void assert_same_spots(const spot *a, const spot *b, int32_t count, double by) {
    for (int32_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            assert_near(a[i].p[k], b[i].p[k], by);
            assert_near(a[i].n[k], b[i].n[k], 100 * by);
        }
        assert_near(a[i].distance, b[i].distance, by);
    }
}

enum { CRUMPLED = 81 }; // vertices

/// Two rough sheets, crumpled a little; numbered in another order, and moved.
static void crumpled(deforming *d, const int32_t *vertex, bool mirror, qpc_vec3 shift) {
    uint64_t keep = seed;
    seed = 99;
    for (int k = 0; k < 2; k++) {
        generated g = {0};
        assert_true(generate_sheet(&g, 8, 8, 0.0625, 0.015625 * k, 0.03125 * k));
        int32_t n = g.x.count / 3;
        assert_int_equal(n, CRUMPLED);
        for (int32_t i = 0; i < n; i++)
            for (int c = 0; c < 3; c++) // multiples of 2^-20, so that shifts are exact
                g.x.data[3 * i + c] =
                    round(0x1p20 * (g.x.data[3 * i + c] + 0.004 * deforming_uniform(&seed) +
                                    (c == 2) * 0.024 * k)) *
                    0x1p-20;
        if (vertex != NULL) {
            double x[3 * CRUMPLED];
            for (int32_t i = 0; i < CRUMPLED; i++)
                memcpy(x + 3 * vertex[i], g.x.data + 3 * i, 3 * sizeof *x);
            memcpy(g.x.data, x, sizeof x);
            int32_t t = g.triangle.count / 3;
            for (int32_t i = 0; i < g.triangle.count; i++)
                g.triangle.data[i] = vertex[g.triangle.data[i]];
            for (int32_t i = 0; i < t / 2; i++) // and triangles from the other end
                for (int c = 0; c < 3; c++) {
                    int32_t swap = g.triangle.data[3 * i + c];
                    g.triangle.data[3 * i + c] = g.triangle.data[3 * (t - 1 - i) + c];
                    g.triangle.data[3 * (t - 1 - i) + c] = swap;
                }
        }
        for (int32_t i = 0; mirror && i < g.triangle.count; i += 3) {
            int32_t swap = g.triangle.data[i];
            g.triangle.data[i] = g.triangle.data[i + 1];
            g.triangle.data[i + 1] = swap;
        }
        for (int32_t i = 0; i < n; i++)
            v3_store(g.x.data + 3 * i, v3_add(v3_load(g.x.data + 3 * i), shift));
        assert_int_equal(deforming_add(d, &g, QPC_DYNAMIC, 0.012), k);
    }
    double *b = deforming_at(d, d->x1, 1);
    for (int32_t i = 0; i < d->surface[1].node_count; i++) b[3 * i + 2] -= 0x1p-6;
    seed = keep;
}

static void numbering_winding_and_place_do_not_matter(void **state) {
    (void)state;
    int32_t vertex[CRUMPLED];
    for (int i = 0; i < CRUMPLED; i++) vertex[i] = i * 38 % CRUMPLED;
    qpc_vec3 far_away = v3(0x1p20, -0x1p20, 0x1p20);
    int32_t count[2] = {0, 0};
    spot *first[2] = {NULL, NULL};
    for (int variant = 0; variant < 5; variant++) {
        deforming d = {0};
        sheet_run r = {0};
        qpc_vec3 shift = variant >= 3 ? far_away : v3(0, 0, 0);
        crumpled(&d, variant == 1 || variant == 4 ? vertex : NULL, variant == 2, shift);
        sheet_run_start(&r, &d);
        for (int kind = 0; kind < 2; kind++) {
            qpc_error err = {0};
            if (kind == 0)
                assert_ok(qpc_detect_proximity(r.det, d.x0, 1.25, &r.contacts, &err), &err);
            else
                assert_ok(qpc_detect_motion(r.det, d.x0, d.x1, 0.95, &r.contacts, &err), &err);
            spot *s = spots(&r.contacts, d.x0, shift);
            if (variant == 0) {
                first[kind] = s;
                count[kind] = r.contacts.count;
                assert_true(count[kind] > 50);
                continue;
            }
            assert_int_equal(r.contacts.count, count[kind]);
            assert_same_spots(first[kind], s, count[kind], 1e-12);
            free(s);
        }
        sheet_run_end(&r);
        deforming_fini(&d);
    }
    free(first[0]);
    free(first[1]);
}

static void assert_same_bits(const qpc_contacts *a, const qpc_contacts *b) {
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++) {
        const qpc_contact *p = &a->data[i], *q = &b->data[i];
        assert_true(p->key == q->key && p->distance == q->distance);
        assert_memory_equal(p->node, q->node, sizeof p->node);
        assert_memory_equal(p->weight, q->weight, sizeof p->weight);
        assert_memory_equal(&p->n, &q->n, sizeof p->n);
        assert_true(p->toi == q->toi && p->kind == q->kind && p->flags == q->flags);
        assert_true(p->separation == q->separation);
    }
}

static void threads_and_history_change_no_bit(void **state) {
    (void)state;
    enum { TEAMS = 4 };
    deforming d = {0};
    generated g = {0};
    qpc_error err = {0};
    double pi = acos(-1.0);
    assert_true(generate_sheet(&g, 40, 16, 0.025, 0, 0));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), 0);
    assert_true(generate_icosphere(&g, 3, 0.2));
    assert_int_equal(deforming_add(&d, &g, QPC_KINEMATIC, 0.01), 1);
    qpc_detector *det[TEAMS];
    qpc_team *team[TEAMS] = {NULL};
    qpc_parallel parallel[TEAMS];
    qpc_contacts contacts[TEAMS + 1] = {{0}};
    for (int i = 0; i < TEAMS; i++) {
        assert_ok(qpc_detector_create(d.surface, 2, d.x0, d.nodes, 1 << 22, &det[i], &err), &err);
        if (i > 0) assert_ok(qpc_team_create(i == 3 ? 4 : i, &team[i], &err), &err);
        parallel[i] = qpc_team_parallel(team[i]);
        qpc_detector_set_parallel(det[i], &parallel[i]);
    }
    int64_t all = 0;
    for (int step = 0; step < 15; step++) {
        sheet_fold(d.rest[0].x.data, d.surface[0].node_count, 0.48, pi * step / 14, 0.0115, d.x1);
        double *ball = deforming_at(&d, d.x1, 1);
        for (int32_t i = 0; i < d.surface[1].node_count; i++)
            ball[3 * i + 2] = d.rest[1].x.data[3 * i + 2] - 0.25 + 0.002 * step;
        for (int pass = 0; pass < 2; pass++) {
            qpc_detector *fresh = NULL;
            assert_ok(qpc_detector_create(d.surface, 2, d.x0, d.nodes, 1 << 22, &fresh, &err),
                      &err);
            for (int i = 0; i <= TEAMS; i++) {
                qpc_detector *which = i < TEAMS ? det[i] : fresh;
                if (pass == 0)
                    assert_ok(qpc_detect_motion(which, d.x0, d.x1, 0.95, &contacts[i], &err), &err);
                else
                    assert_ok(qpc_detect_proximity(which, d.x0, 1.2, &contacts[i], &err), &err);
                if (i > 0) assert_same_bits(&contacts[0], &contacts[i]);
            }
            all += contacts[0].count;
            qpc_detector_destroy(fresh);
        }
        deforming_advance(&d);
    }
    assert_true(all > 1000);
    qpc_detect_counts one = qpc_detector_counts(det[0]), four = qpc_detector_counts(det[3]);
    assert_memory_equal(&one, &four, sizeof one);
    for (int i = 0; i < TEAMS; i++) {
        qpc_detector_destroy(det[i]);
        qpc_team_destroy(team[i]);
    }
    for (int i = 0; i <= TEAMS; i++) qpc_array_fini(&contacts[i]);
    deforming_fini(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbering_winding_and_place_do_not_matter),
        cmocka_unit_test(threads_and_history_change_no_bit),
    };
    return cmocka_run_group_tests_name("engine/sheet-invariance", tests, NULL, NULL);
}
