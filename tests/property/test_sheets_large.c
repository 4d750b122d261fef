/// A sheet of 100,352 triangles that folds on itself and comes down on a mesh of 70,000: contacts
/// and hits against brute force on a sample of the features, as threads find them.
#include "tests/support/check.h"

#include "tests/support/sheet_checks.h"

enum { CELLS = 224 };

static void fold(deforming *d, double angle, double height, double *out) {
    double *x = deforming_at(d, out, 1);
    sheet_fold(d->rest[1].x.data, d->surface[1].node_count, 0.5, angle, 0.00085, x);
    for (int32_t i = 0; i < d->surface[1].node_count; i++) {
        x[3 * i] -= 0.5; // the fold over the crest of the torus
        x[3 * i + 1] -= 0.5;
        x[3 * i + 2] += height;
    }
}

static void large_sheet_folds_on_itself_and_onto_a_mesh(void **state) {
    (void)state;
    deforming d = {0};
    generated g = {0};
    qpc_error err = {0};
    double pi = acos(-1.0);
    assert_true(generate_torus(&g, 350, 100, 0.35, 0.12, 0.005)); // 70,000 triangles
    assert_int_equal(g.triangle.count / 3, 70000);
    assert_int_equal(deforming_add(&d, &g, QPC_STATIC, 0), 0);
    assert_true(generate_sheet(&g, CELLS, CELLS, 1.0 / CELLS, 0, 0));
    assert_int_equal(g.triangle.count / 3, 2 * CELLS * CELLS);
    assert_int_equal(deforming_add(&d, &g, QPC_DYNAMIC, 0.0009), 1);
    qpc_team *team = NULL;
    assert_ok(qpc_team_create(1, &team, &err), &err);
    qpc_parallel parallel = qpc_team_parallel(team);

    sheet_run r = {.stride = 20011}; // a prime: every surface gives other features
    fold(&d, 0.93 * pi, 0.1446, d.x0);
    sheet_run_start(&r, &d);
    qpc_detector_set_parallel(r.det, &parallel);
    int64_t self = 0, mesh = 0;
    for (int step = 1; step <= 8; step++) {
        // The upper half closes onto the lower one, whose contacts with the mesh grow.
        fold(&d, (0.93 + 0.07 * step / 8) * pi, 0.1446 - 0.003 * step, d.x1);
        sheet_run_motion(&r, &d);
        memcpy(d.x0, d.x1, 3 * (size_t)d.nodes * sizeof *d.x0);
        sheet_run_near(&r, &d);
        for (int32_t i = 0; i < r.contacts.count; i++) {
            const qpc_contact *c = &r.contacts.data[i];
            if (c->surface[0] == c->surface[1])
                self++;
            else
                mesh++;
        }
    }
    print_message("self %lld mesh %lld hits %lld touching %lld\n", (long long)self, (long long)mesh,
                  (long long)r.hits, (long long)r.touching);
    assert_true(self > 10000 && mesh > 1000 && r.hits > 1000);
    sheet_run_end(&r);
    qpc_team_destroy(team);
    deforming_fini(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_sheet_folds_on_itself_and_onto_a_mesh),
    };
    return cmocka_run_group_tests_name("sheets-large", tests, NULL, NULL);
}
