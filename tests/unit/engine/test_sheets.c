/// Detection between deforming surfaces: known answers on small shapes, and brute force over all
/// pairs on soups and on sheets of some hundred triangles that fold, roll and twist.
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/sheet_checks.h"

#include <stdlib.h>

static uint64_t seed = 20061;

// ---- soups ----

static void soups_agree_with_brute_force(void **state) {
    (void)state;
    int64_t hits = 0, touching = 0, near = 0;
    for (int variant = 0; variant < 12; variant++) {
        deforming d = {0};
        sheet_run r = {.stride = 1};
        assert_true(deforming_add_soup(&d, 20, 20, QPC_DYNAMIC, 0.04, &seed));
        assert_true(deforming_add_soup(&d, 16, 14, variant % 3 == 0 ? QPC_STATIC : QPC_KINEMATIC,
                                       variant % 2 * 0.03, &seed));
        assert_true(deforming_add_soup(&d, 12, 12, variant % 4 < 2 ? QPC_DYNAMIC : QPC_STATIC, 0.02,
                                       &seed));
        sheet_run_start(&r, &d);
        qpc_error err = {0};
        for (int step = 0; step < 6; step++) {
            for (int s = 0; s < d.count; s++)
                for (int32_t i = 0; i < 3 * d.surface[s].node_count; i++)
                    if (d.surface[s].motion != QPC_STATIC)
                        deforming_at(&d, d.x1, s)[i] +=
                            (step == 5 ? 0.5 : 0.05) * deforming_uniform(&seed);
            sheet_run_near(&r, &d);
            sheet_run_motion(&r, &d);
            assert_true(qpc_detector_check(r.det, d.x0, d.x1, &err));
            deforming_advance(&d);
        }
        hits += r.hits, touching += r.touching, near += r.near;
        sheet_run_end(&r);
        deforming_fini(&d);
    }
    assert_true(hits > 3000 && touching > 2000 && near > 500);
}

// ---- sheets in motion ----

static void folding_sheet_meets_itself(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    double pi = acos(-1.0);
    assert_true(generate_sheet(&g, 20, 8, 0.05, 0, 0));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.02), 0);
    sheet_run_start(&r, &d);
    int32_t steady = 0, all = 0;
    for (int step = 0; step <= 16; step++) {
        double angle = pi * fmin(1, step / 12.0);
        sheet_fold(d.rest[0].x.data, d.nodes, 0.47, angle, 0.021, d.x1);
        if (step > 0) {
            sheet_run_near(&r, &d);
            sheet_run_motion(&r, &d);
        }
        if (step > 13) {
            all += r.contacts.count;
            steady += sheet_common(&r.contacts, &r.before);
        }
        deforming_advance(&d);
    }
    assert_true(r.near > 500);
    assert_true(all > 300);
    assert_int_equal(steady, all); // at rest the keys stay
    // Flat layer on flat layer: vertices over faces, and no edge inside the layers.
    for (int32_t i = 0; i < r.contacts.count; i++) {
        const qpc_contact *c = &r.contacts.data[i];
        if (c->kind != QPC_CONTACT_EE) continue;
        int zero = 0;
        for (int k = 0; k < 4; k++) zero += c->weight[k] == 0;
        bool bent = fabs(d.x0[3 * c->node[0]] - 0.47) < 0.1; // or at the fold
        assert_true(bent || zero > 0);
    }
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void rolled_sheet_has_contacts_between_its_layers(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    assert_true(generate_sheet(&g, 60, 3, 0.05, 0, 0));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.02), 0);
    sheet_run_start(&r, &d);
    for (int step = 0; step <= 10; step++) {
        sheet_roll(d.rest[0].x.data, d.nodes, 3, step / 10.0, 0.15, 0.046, d.x1);
        if (step > 0) {
            sheet_run_near(&r, &d);
            sheet_run_motion(&r, &d);
        }
        deforming_advance(&d);
    }
    sheet_run_near(&r, &d);
    assert_true(r.contacts.count > 100);
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void twisted_layers_keep_their_contacts(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    for (int k = 0; k < 2; k++) {
        generated g = {0};
        assert_true(generate_sheet(&g, 16, 6, 0.05, 0.013 * k, 0.017 * k));
        for (int32_t i = 2; i < g.x.count; i += 3) g.x.data[i] = 0.044 * k;
        assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.02), k);
    }
    sheet_run_start(&r, &d);
    int32_t common = 0, all = 0;
    for (int step = 0; step <= 20; step++) {
        for (int s = 0; s < 2; s++)
            sheet_twist(d.rest[s].x.data, d.surface[s].node_count, 0.15, 0.1 * step,
                        deforming_at(&d, d.x1, s));
        if (step > 0) {
            sheet_run_near(&r, &d);
            sheet_run_motion(&r, &d);
            common += sheet_common(&r.contacts, &r.before);
            all += r.before.count;
        }
        deforming_advance(&d);
    }
    assert_true(r.near > 2000);
    assert_true(common > 0.8 * all);
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void thick_fine_sheet_leaves_its_neighbourhood_alone(void **state) {
    (void)state;
    // Thickness of several edges: flat or gently bent nothing is in contact; folded, layers are.
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    double pi = acos(-1.0), gap = 0;
    qpc_error err = {0};
    assert_true(generate_sheet(&g, 40, 6, 0.01, 0, 0));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.02), 0);
    sheet_run_start(&r, &d);
    for (int step = 0; step <= 5; step++) {
        sheet_fold(d.rest[0].x.data, d.nodes, 0.2, step * pi / 5, 0.022, d.x1);
        deforming_advance(&d);
        sheet_run_near(&r, &d);
        if (step < 2) {
            assert_int_equal(r.contacts.count, 0);
            assert_ok(qpc_detect_minimum_gap(r.det, d.x0, &gap, &err), &err);
            assert_true(gap > 1.2);
        }
    }
    assert_true(r.contacts.count > 50);
    // Crumpled to a hundredth of itself, near pairs keep a hundredth of the separation.
    for (int32_t i = 0; i < 3 * d.nodes; i++) d.x0[i] *= 0.02;
    sheet_run_near(&r, &d);
    assert_true(r.self_near > 0);
    for (int32_t i = 0; i < r.contacts.count; i++)
        if (r.contacts.data[i].flags & QPC_CONTACT_NEAR_SELF)
            assert_true(r.contacts.data[i].separation <=
                        fmin(0.01 * 0.04, r.contacts.data[i].distance));
    sheet_run_end(&r);
    deforming_fini(&d);
}

// ---- known answers ----

static void flat_sheet_slides_over_a_flat_floor(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    assert_true(generate_sheet(&g, 6, 6, 0.1, -0.3, -0.3));
    assert_int_equal(deforming_add(&d, &g, QPC_STATIC, 0.01), 0);
    assert_true(generate_sheet(&g, 5, 5, 0.04, 0, 0));
    for (int32_t i = 2; i < g.x.count; i += 3) g.x.data[i] = 0.021;
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), 1);
    sheet_run_start(&r, &d);
    for (int step = 0; step < 30; step++) {
        double *x = deforming_at(&d, d.x1, 1);
        for (int32_t i = 0; i < d.surface[1].node_count; i++) {
            x[3 * i] -= 0.007;
            x[3 * i + 1] -= 0.003;
        }
        sheet_run_motion(&r, &d);
        assert_int_equal(r.hits, 0);
        deforming_advance(&d);
        sheet_run_near(&r, &d);
        assert_int_equal(r.contacts.count, d.surface[1].node_count);
        for (int32_t i = 0; i < r.contacts.count; i++) {
            const qpc_contact *c = &r.contacts.data[i];
            // Exactly over a vertex of the floor the lower node comes first, which is the floor's.
            bool over = c->kind == QPC_CONTACT_EE;
            assert_true(c->surface[0] == (over ? 0 : 1));
            assert_near(c->n.z, over ? -1 : 1, 1e-15);
            assert_near(hypot(c->n.x, c->n.y), 0, 1e-13);
            assert_near(c->distance, 0.021, 1e-14);
        }
    }
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void box_slides_over_a_triangulated_floor(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    assert_true(generate_sheet(&g, 8, 8, 0.1, -0.4, -0.4));
    assert_int_equal(deforming_add(&d, &g, QPC_STATIC, 0), 0);
    assert_true(generate_box(&g, (double[3]){0, 0, 0.011}, (double[3]){0.15, 0.13, 0.2}));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), 1);
    sheet_run_start(&r, &d);
    for (int step = 0; step < 20; step++) {
        double *x = deforming_at(&d, d.x1, 1);
        for (int32_t i = 0; i < d.surface[1].node_count; i++) x[3 * i] += 0.009;
        sheet_run_motion(&r, &d);
        assert_int_equal(r.hits, 0);
        deforming_advance(&d);
        sheet_run_near(&r, &d);
        assert_int_equal(r.contacts.count, 4);
        for (int32_t i = 0; i < 4; i++) assert_near(r.contacts.data[i].n.z, 1, 1e-15);
    }
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void patch_over_a_sphere(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    assert_true(generate_icosphere(&g, 3, 0.5));
    assert_int_equal(deforming_add(&d, &g, QPC_STATIC, 0.01), 0);
    assert_true(generate_sheet(&g, 14, 14, 0.05, -0.35, -0.35));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), 1);
    sheet_run_start(&r, &d);
    for (int step = 0; step < 5; step++) {
        double *x = deforming_at(&d, d.x1, 1), pi = acos(-1.0);
        const double *rest = d.rest[1].x.data;
        for (int32_t i = 0; i < d.surface[1].node_count; i++) {
            double a = rest[3 * i] / 0.5, b = rest[3 * i + 1] / 0.5, far = hypot(a, b);
            double s = far > 0 ? sin(fmin(far, pi)) / far : 1, h = 0.521 + 0.01 * (4 - step);
            x[3 * i] = h * s * a;
            x[3 * i + 1] = h * s * b;
            x[3 * i + 2] = h * cos(fmin(far, pi));
        }
        if (step > 0) sheet_run_motion(&r, &d);
        deforming_advance(&d);
        sheet_run_near(&r, &d);
    }
    assert_true(r.contacts.count >= d.surface[1].node_count);
    for (int32_t i = 0; i < r.contacts.count; i++) { // all normals point away from the middle
        const qpc_contact *c = &r.contacts.data[i];
        double side = c->surface[0] == 1 ? 1 : -1;
        qpc_vec3 p = v3_load(d.x0 + 3 * c->node[c->surface[0] == 1 ? 0 : 3]);
        assert_true(side * v3_dot(c->n, v3_scale(1 / v3_norm(p), p)) > 0.9);
    }
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void pressed_icospheres(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    for (int k = 0; k < 2; k++) {
        generated g = {0};
        assert_true(generate_icosphere(&g, 3, 0.5));
        for (int32_t i = 0; i < g.x.count; i += 3) g.x.data[i] += k * 1.03;
        assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), k);
    }
    sheet_run_start(&r, &d);
    double *b = deforming_at(&d, d.x1, 1);
    for (int step = 0; step < 8; step++) {
        for (int32_t i = 0; i < d.surface[1].node_count; i++) {
            b[3 * i] -= 0.002;
            b[3 * i + 1] += 0.003;
        }
        sheet_run_near(&r, &d);
        sheet_run_motion(&r, &d);
        deforming_advance(&d);
    }
    sheet_run_near(&r, &d);
    assert_true(r.contacts.count > 3 && r.hits > 5);
    for (int32_t i = 0; i < r.contacts.count; i++) {
        const qpc_contact *c = &r.contacts.data[i];
        assert_true((c->surface[0] == 0 ? -1 : 1) * c->n.x > 0.7);
    }
    sheet_run_end(&r);
    deforming_fini(&d);
}

/// One vertex over the middle of an edge, and one over a vertex: one contact each, one key, and the
/// same one whichever surface comes first.
static void features_have_one_key(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        deforming d = {0};
        sheet_run r = {.stride = 1};
        // A roof along y at x = 0 and below it a spike that points at the ridge, or at its end.
        for (int k = 0; k < 2; k++) {
            generated g = {0};
            if (k == order) {
                const double x[] = {0, 0, 0, 0, 1, 0, -1, 0, 1, 1, 0, 1, -1, 1, 1, 1, 1, 1};
                const int32_t t[] = {0, 1, 2, 1, 4, 2, 0, 3, 1, 1, 3, 5};
                for (int i = 0; i < 18; i++) assert_true(qpc_array_push(&g.x, x[i]));
                for (int i = 0; i < 12; i++) assert_true(qpc_array_push(&g.triangle, t[i]));
            } else {
                const double x[] = {0, 0.5, -0.02, 0.1, 0.5, -1, -0.1, 0.5, -1, 0, 0.6, -1};
                const int32_t t[] = {0, 1, 2, 0, 2, 3, 0, 3, 1};
                for (int i = 0; i < 12; i++) assert_true(qpc_array_push(&g.x, x[i]));
                for (int i = 0; i < 9; i++) assert_true(qpc_array_push(&g.triangle, t[i]));
            }
            assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), k);
        }
        sheet_run_start(&r, &d);
        int32_t spike = d.surface[1 - order].first_node, roof = d.surface[order].first_node;
        sheet_run_near(&r, &d);
        assert_int_equal(r.contacts.count, 1);
        assert_true(r.contacts.data[0].kind == QPC_CONTACT_VT);
        assert_int_equal(r.contacts.data[0].node[0], spike);
        assert_int_equal(r.contacts.data[0].key >> 60, 1); // vertex and edge
        assert_near(r.contacts.data[0].n.z, -1, 1e-15);
        for (int i = 0; i < 4; i++) d.x0[3 * (spike + i) + 1] -= 0.5; // under the end of the ridge
        sheet_run_near(&r, &d);
        assert_int_equal(r.contacts.count, 1);
        const qpc_contact *c = &r.contacts.data[0];
        assert_int_equal(c->key >> 60, 2); // two vertices, the lower node first
        assert_int_equal(c->node[c->weight[0] == 1 ? 0 : 1], spike < roof ? spike : roof);
        assert_near(c->n.z, spike < roof ? -1 : 1, 1e-15);
        // A motion into each other has the same key.
        memcpy(d.x1, d.x0, (size_t)d.nodes * 3 * sizeof *d.x0);
        for (int i = 0; i < 4; i++) d.x1[3 * (spike + i) + 2] += 0.01;
        qpc_contacts motion = {0};
        qpc_error err = {0};
        assert_ok(qpc_detect_motion(r.det, d.x0, d.x1, 0.95, &motion, &err), &err);
        assert_int_equal(sheet_common(&motion, &r.contacts), 1);
        qpc_array_fini(&motion);
        sheet_run_end(&r);
        deforming_fini(&d);
    }
}

static void fast_thin_sheet_does_not_pass_another(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    for (int k = 0; k < 2; k++) {
        assert_true(generate_sheet(&g, 8, 8, 0.1, -0.4 + 0.03 * k, -0.4 + 0.01 * k));
        assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 1e-4), k);
    }
    double *b = deforming_at(&d, d.x0, 1), *c = deforming_at(&d, d.x1, 1);
    for (int32_t i = 0; i < d.surface[1].node_count; i++) { // 100 m/s for 5 ms, turning over
        double x = b[3 * i];
        b[3 * i + 2] = 0.25 + 0.02 * deforming_uniform(&seed);
        c[3 * i] = -x;
        c[3 * i + 2] = -0.25 + 0.1 * deforming_uniform(&seed);
    }
    sheet_run_start(&r, &d);
    sheet_run_motion(&r, &d);
    assert_true(r.hits > 100 && r.touching > 100);
    sheet_run_end(&r);
    deforming_fini(&d);
}

static void touching_surfaces_have_their_surface_normal(void **state) {
    (void)state;
    deforming d = {0};
    sheet_run r = {.stride = 1};
    generated g = {0};
    assert_true(generate_sheet(&g, 3, 3, 0.1, 0, 0));
    assert_int_equal(deforming_add(&d, &g, QPC_STATIC, 0.01), 0);
    assert_true(generate_sheet(&g, 2, 2, 0.07, 0.03, 0.05));
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), 1);
    sheet_run_start(&r, &d);
    sheet_run_near(&r, &d);
    int32_t count = r.contacts.count;
    assert_true(count >= 9);
    for (int32_t i = 0; i < count; i++) assert_near(fabs(r.contacts.data[i].n.z), 1, 1e-12);
    // A motion that ends in touching: normals towards where it came from.
    for (int from = -1; from <= 1; from += 2) {
        double *a = deforming_at(&d, d.x0, 1), *b = deforming_at(&d, d.x1, 1);
        for (int32_t i = 2; i < 3 * d.surface[1].node_count; i += 3)
            a[i] = from * 1e-13, b[i] = -from * 0.01;
        qpc_contacts motion = {0};
        qpc_error err = {0};
        assert_ok(qpc_detect_motion(r.det, d.x0, d.x1, 0.95, &motion, &err), &err);
        assert_true(motion.count > 0);
        for (int32_t i = 0; i < motion.count; i++) {
            const qpc_contact *c = &motion.data[i];
            assert_near((c->surface[0] == 1 ? from : -from) * c->n.z, 1, 1e-6);
        }
        qpc_array_fini(&motion);
    }
    sheet_run_end(&r);
    deforming_fini(&d);
}

// ---- cables ----

static void sheet_and_cable_meet_both_ways(void **state) {
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        deforming d = {0};
        generated g = {0};
        qpc_error err = {0};
        qpc_detector *det = NULL;
        qpc_contacts c = {0};
        double gap;
        assert_true(generate_sheet(&g, 6, 6, 0.1, -0.3, -0.3));
        deforming_add(&d, &g, QPC_DYNAMIC, 0.005);
        deforming_add_chain(&d, 9, (double[3]){-0.25, 0.02, 0.1}, (double[3]){0.25, 0.03, 0.1},
                            variant == 0 ? QPC_DYNAMIC : QPC_KINEMATIC, 0.01);
        if (variant == 2) // a kinematic mesh and the kinematic cable have nothing with each other
            d.surface[0].motion = QPC_KINEMATIC;
        assert_ok(qpc_detector_create(d.surface, 2, d.x0, d.nodes, 100000, &det, &err), &err);
        for (int step = 0; step < 40; step++) {
            double *sheet = deforming_at(&d, d.x1, 0);
            for (int32_t i = 0; i < d.surface[0].node_count; i++) // a wave that rises to the cable
                sheet[3 * i + 2] = 0.0021 * step + 0.005 * sin(9 * sheet[3 * i] + 0.3 * step);
            assert_ok(qpc_detect_motion(det, d.x0, d.x1, 0.95, &c, &err), &err);
            assert_true(qpc_detector_check(det, d.x0, d.x1, &err));
            deforming_advance(&d);
        }
        assert_ok(qpc_detect_proximity(det, d.x0, 1.25, &c, &err), &err);
        assert_ok(qpc_detect_minimum_gap(det, d.x0, &gap, &err), &err);
        assert_int_equal(c.count > 0, variant < 2);
        assert_int_equal(gap < 1.25, variant < 2);
        for (int32_t i = 0; i < c.count; i++) {
            assert_int_equal(c.data[i].surface[0], 1);
            assert_true(c.data[i].n.z > 0.9);
        }
        // The sheet jumps over the cable in one step.
        double *sheet = deforming_at(&d, d.x1, 0);
        for (int32_t i = 0; i < d.surface[0].node_count; i++) sheet[3 * i + 2] += 0.5;
        assert_ok(qpc_detect_motion(det, d.x0, d.x1, 0.95, &c, &err), &err);
        assert_int_equal(c.count >= 9, variant < 2);
        // And lies across it.
        int64_t overlaps = 0;
        for (int32_t i = 0; i < d.surface[0].node_count; i++)
            sheet[3 * i + 2] = 0.1 + 0.3 * sheet[3 * i] + 0.001;
        assert_ok(qpc_detect_overlaps(det, d.x1, NULL, 0, &overlaps, &err), &err);
        assert_int_equal(overlaps > 0, variant < 2);
        qpc_detector_destroy(det);
        qpc_array_fini(&c);
        deforming_fini(&d);
    }
}

// ---- limits and faults ----

static void limits_are_errors(void **state) {
    (void)state;
    deforming d = {0};
    generated g = {0};
    qpc_error err = {0};
    qpc_detector *det = NULL;
    qpc_contacts c = {0};
    for (int k = 0; k < 2; k++) {
        assert_true(generate_sheet(&g, 8, 8, 0.1, 0.03 * k, 0.02 * k));
        assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.02), k);
        for (int32_t i = 0; i < d.surface[k].node_count; i++)
            deforming_at(&d, d.x0, k)[3 * i + 2] = k;
    }
    assert_ok(qpc_detector_create(d.surface, 2, d.x0, d.nodes, 2000, &det, &err), &err);
    assert_ok(qpc_detect_proximity(det, d.x0, 1.2, &c, &err), &err);
    memcpy(d.x1, d.x0, (size_t)d.nodes * 3 * sizeof *d.x0);
    for (int32_t i = 0; i < d.surface[1].node_count; i++)
        deforming_at(&d, d.x1, 1)[3 * i + 2] = 0.041;
    for (int i = 0; i < 2; i++)
        assert_fails(qpc_detect_proximity(det, d.x1, 1.2, &c, &err), QPC_ERR_LIMIT, &err,
                     "max_candidates");
    assert_ok(qpc_detect_proximity(det, d.x0, 1.2, &c, &err), &err);
    d.x1[7] = NAN;
    assert_fails(qpc_detect_motion(det, d.x0, d.x1, 0.9, &c, &err), QPC_ERR_NUMERIC, &err,
                 "not finite");
    assert_ok(qpc_detect_motion(det, d.x0, d.x0, 0.9, &c, &err), &err);
    qpc_detector_destroy(det);
    d.surface[0].radius = 0;
    assert_fails(qpc_detector_create(d.surface, 2, d.x0, d.nodes, 2000, &det, &err),
                 QPC_ERR_INVALID, &err, "dynamic mesh");
    qpc_array_fini(&c);
    deforming_fini(&d);
}

static void failing_memory_leaves_no_trace(void **state) {
    (void)state;
    deforming d = {0};
    generated g = {0};
    for (int k = 0; k < 2; k++) {
        assert_true(generate_sheet(&g, 4, 4, 0.01, 0.003 * k, 0.002 * k));
        for (int32_t i = 2; i < g.x.count; i += 3) g.x.data[i] = 0.021 * k;
        assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.01), k);
    }
    deforming_add_chain(&d, 3, (double[3]){0, 0, 0.045}, (double[3]){0.05, 0, 0.045}, QPC_DYNAMIC,
                        0.01);
    QPC_FAULTS(f) {
        qpc_error err = {0};
        qpc_contacts contacts = {0};
        qpc_detector *det = NULL;
        int64_t count;
        qpc_status status = qpc_detector_create(d.surface, 3, d.x0, d.nodes, 10000, &det, &err);
        if (status == QPC_OK) status = qpc_detect_proximity(det, d.x0, 1.1, &contacts, &err);
        if (status == QPC_OK) status = qpc_detect_motion(det, d.x0, d.x1, 0.95, &contacts, &err);
        if (status == QPC_OK) status = qpc_detect_overlaps(det, d.x0, NULL, 0, &count, &err);
        qpc_faults_ended(&f, status);
        qpc_detector_destroy(det);
        qpc_array_fini(&contacts);
    }
    deforming_fini(&d);
}

static void nothing_is_allocated_once_warm(void **state) {
    (void)state;
    deforming d = {0};
    generated g = {0};
    qpc_error err = {0};
    qpc_detector *det = NULL;
    qpc_contacts c = {0};
    uint64_t before = 0;
    double gap;
    for (int k = 0; k < 2; k++) {
        assert_true(generate_sheet(&g, 12, 12, 0.05, 0.013 * k, 0.017 * k));
        for (int32_t i = 2; i < g.x.count; i += 3) g.x.data[i] = 0.044 * k;
        assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.02), k);
    }
    assert_ok(qpc_detector_create(d.surface, 2, d.x0, d.nodes, 1 << 20, &det, &err), &err);
    for (int step = 0; step < 60; step++) {
        if (step == 30) before = qpc_mem_thread_allocations();
        for (int s = 0; s < 2; s++)
            sheet_twist(d.rest[s].x.data, d.surface[s].node_count, 0.3, sin(0.4 * step),
                        deforming_at(&d, d.x1, s));
        assert_ok(qpc_detect_proximity(det, d.x0, 1.2, &c, &err), &err);
        assert_ok(qpc_detect_motion(det, d.x0, d.x1, 0.95, &c, &err), &err);
        assert_ok(qpc_detect_minimum_gap(det, d.x1, &gap, &err), &err);
        deforming_advance(&d);
    }
    assert_true(qpc_mem_thread_allocations() == before);
    qpc_detector_destroy(det);
    qpc_array_fini(&c);
    deforming_fini(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soups_agree_with_brute_force),
        cmocka_unit_test(folding_sheet_meets_itself),
        cmocka_unit_test(rolled_sheet_has_contacts_between_its_layers),
        cmocka_unit_test(twisted_layers_keep_their_contacts),
        cmocka_unit_test(thick_fine_sheet_leaves_its_neighbourhood_alone),
        cmocka_unit_test(flat_sheet_slides_over_a_flat_floor),
        cmocka_unit_test(box_slides_over_a_triangulated_floor),
        cmocka_unit_test(patch_over_a_sphere),
        cmocka_unit_test(pressed_icospheres),
        cmocka_unit_test(features_have_one_key),
        cmocka_unit_test(fast_thin_sheet_does_not_pass_another),
        cmocka_unit_test(touching_surfaces_have_their_surface_normal),
        cmocka_unit_test(sheet_and_cable_meet_both_ways),
        cmocka_unit_test(limits_are_errors),
        cmocka_unit_test(failing_memory_leaves_no_trace),
        cmocka_unit_test(nothing_is_allocated_once_warm),
    };
    return cmocka_run_group_tests_name("engine/sheets", tests, NULL, NULL);
}
