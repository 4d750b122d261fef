/// Rows with lever arms: signs and entries by hand, against the rows of particles, against motion
/// that is really carried out, conservation of momentum, mass blocks.
#include "engine/dynamics/rigid_rows.h"

#include "engine/solver/rows.h"
#include "tests/support/check.h"
#include "tests/support/oracle.h"

#define PHYSICS QPC_TEST_DATA "/physics/"
enum { NODES = 8, BODIES = 2 };

typedef struct scene { // two turned bodies of four vertices each; 6 unknowns a body
    qpc_rigid_body body[BODIES];
    qpc_rigid_state state[BODIES];
    double X[3 * NODES], x[3 * NODES], v[3 * NODES], centre[3 * BODIES];
    int32_t dof[NODES], of[NODES], body_dof[BODIES];
    qpc_rigid_frame frame;
} scene;

static uint64_t seed;
static double uniform(void) { // -1 to 1
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 4503599627370496.0 - 1;
}
static qpc_vec3 somewhere(double size) {
    double x = uniform(), y = uniform(), z = uniform();
    return v3(size * x, size * y, size * z);
}

/// x, v and centres where the bodies are.
static void place(scene *s) {
    for (int b = 0; b < BODIES; b++) {
        qpc_rigid_place(&s->state[b], 4, s->X + 12 * b, s->x + 12 * b, s->v + 12 * b);
        v3_store(s->centre + 3 * b, s->state[b].x);
    }
}

static void scene_init(scene *s, uint64_t number) {
    memset(s, 0, sizeof *s);
    seed = 1000 + number;
    for (int b = 0; b < BODIES; b++) {
        s->body[b] = (qpc_rigid_body){1 + b, {0.3 + b, 0.4 + b, 0.5 + b}};
        s->state[b].x = v3(0.1, 0.2, b ? -1 : 1);
        for (int i = 0; i < 4; i++) s->state[b].q[i] = uniform();
        assert_true(qpc_quat_normalise(s->state[b].q));
        s->state[b].v = somewhere(1);
        s->state[b].w = somewhere(3);
        s->body_dof[b] = 6 * b;
    }
    for (int i = 0; i < NODES; i++) {
        v3_store(s->X + 3 * i, somewhere(0.5));
        s->dof[i] = -1;
        s->of[i] = i / 4;
    }
    place(s);
    s->frame = (qpc_rigid_frame){.node_count = NODES,
                                 .body_count = BODIES,
                                 .dof = s->dof,
                                 .body = s->of,
                                 .body_dof = s->body_dof,
                                 .centre = s->centre,
                                 .x = s->x,
                                 .v = s->v,
                                 .dt = 0.01};
}

static qpc_rigid_row contact(const qpc_rigid_frame *frame, const int32_t node[4],
                             const double weight[4], qpc_vec3 n) {
    qpc_error err = {0};
    qpc_rigid_row row;
    assert_ok(qpc_rigid_row_contact(frame, node, weight, n, 0.01, -1e300, &row, &err), &err);
    return row;
}

// Vertex 0 of body 0 over three vertices of body 1, and edges of both.
static const int32_t VT[4] = {0, 4, 5, 6}, EE[4] = {1, 2, 4, 7};
static const double VT_WEIGHT[4] = {1, -0.2, -0.5, -0.3}, EE_WEIGHT[4] = {0.3, 0.7, -0.6, -0.4};

/// n . (point of side i - point of side j), the gap of which a row speaks.
static double gap_of(const double *x, const int32_t node[4], const double weight[4], qpc_vec3 n) {
    double gap = 0;
    for (int k = 0; k < 4; k++) gap += weight[k] * v3_dot(n, v3_load(x + 3 * node[k]));
    return gap;
}

static void entries_are_those_by_hand(void **state) {
    (void)state;
    // A vertex 0.5 m along x from the centre of a body falls on a static point.
    int32_t dof[2] = {-1, -1}, of[2] = {0, -1}, body_dof[1] = {6};
    double x[6] = {2.5, 0, 0.03, 2.5, 0, 0}, v[6] = {0, 0, -4, 0, 0, 0}, centre[3] = {2, 0, 0.03};
    qpc_rigid_frame frame = {.node_count = 2,
                             .body_count = 1,
                             .dof = dof,
                             .body = of,
                             .body_dof = body_dof,
                             .centre = centre,
                             .x = x,
                             .v = v,
                             .dt = 0.01};
    const int32_t node[4] = {0, 0, 1, 1};
    const double weight[4] = {0.25, 0.75, -1, 0};
    qpc_rigid_row row = contact(&frame, node, weight, v3(0, 0, 1));
    assert_int_equal(row.count, 6);
    // r x n = (0.5, 0, 0) x (0, 0, 1) = (0, -0.5, 0); both with a minus sign on side i.
    const double want[6] = {0, 0, -1, 0, 0.5, 0};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(row.column[i], 6 + i);
        assert_near(row.value[i], want[i], 1e-15);
    }
    assert_near(row.c, (0.03 - 0.01) / 0.01 - 4, 1e-12);
    body_dof[0] = -1; // a driven body has no column, only a share of c
    row = contact(&frame, node, weight, v3(0, 0, 1));
    assert_int_equal(row.count, 0);
    assert_near(row.c, -2, 1e-12);
}

static void particles_get_the_rows_of_particles(void **state) {
    (void)state;
    oracle o = oracle_open(PHYSICS "vertex_triangle_row.json");
    double x[12], v[12], n[3], w[3], want, tolerance;
    int32_t dof[4] = {0, 3, 6, 9};
    oracle_setup_list(&o, "triangle_m", x, 9);
    oracle_setup_list(&o, "vertex_m", x + 9, 3);
    oracle_setup_list(&o, "velocities_m_s", v, 12);
    oracle_setup_list(&o, "barycentric", w, 3);
    oracle_setup_list(&o, "normal", n, 3);
    qpc_error err = {0};
    qpc_contact c = {.kind = QPC_CONTACT_VT,
                     .key = 1,
                     .node = {3, 0, 1, 2},
                     .weight = {1, -w[0], -w[1], -w[2]},
                     .n = v3_load(n)};
    double dt = oracle_setup(&o, "dt_s"), thickness = oracle_setup(&o, "thickness_sum_m");
    qpc_row_frame plain = {.node_count = 4, .dof = dof, .x = x, .v = v, .dt = dt};
    qpc_rigid_frame frame = {.node_count = 4, .dof = dof, .x = x, .v = v, .dt = dt};
    qpc_rows rows = {0};
    qpc_rigid_row row;
    assert_ok(qpc_rows_add_contact(&rows, &plain, &c, thickness, -1e300, 0, &err), &err);
    assert_ok(qpc_rigid_row_contact(&frame, c.node, c.weight, c.n, thickness, -1e300, &row, &err),
              &err);
    oracle_result(&o, "row c", &want, 1, &tolerance);
    assert_near(row.c, want, tolerance);
    assert_near(row.c, rows.c[0], 0);
    assert_int_equal(row.count, rows.nnz);
    for (int i = 0; i < row.count; i++) {
        assert_int_equal(row.column[i], rows.column[i]);
        assert_near(row.value[i], rows.value[i], 0);
    }
    qpc_rows_fini(&rows);
    oracle_close(&o);
}

/// The bodies after velocities change by dv (12) and they move freely over dt.
static void move(const scene *s, const double *dv, scene *ret) {
    scene end = *s;
    qpc_error err = {0};
    for (int b = 0; b < BODIES; b++) {
        end.state[b].v = v3_add(end.state[b].v, v3_load(dv + 6 * b));
        end.state[b].w = v3_add(end.state[b].w, v3_load(dv + 6 * b + 3));
        assert_ok(qpc_rigid_drift(&end.body[b], s->frame.dt, &end.state[b], &err), &err);
    }
    *ret = end;
    place(ret);
    ret->frame.dof = ret->dof, ret->frame.body = ret->of, ret->frame.body_dof = ret->body_dof;
    ret->frame.centre = ret->centre, ret->frame.x = ret->x, ret->frame.v = ret->v;
}

/// (c - J dv) dt is how far the gap is above the separation after the step.
static double predicted(const qpc_rigid_row *row, const double *dv, double dt) {
    double sum = row->c;
    for (int i = 0; i < row->count; i++) sum -= row->value[i] * dv[row->column[i]];
    return sum * dt;
}

static void rows_foretell_the_gap_to_second_order_in_dt(void **state) {
    (void)state;
    for (uint64_t number = 0; number < 20; number++) {
        double error[2][2];
        for (int r = 0; r < 2; r++) {
            scene s;
            scene_init(&s, number);
            s.frame.dt = r ? 5e-4 : 1e-3;
            double dv[12];
            for (int i = 0; i < 12; i++) dv[i] = uniform();
            qpc_vec3 n = somewhere(1);
            n = v3_scale(1 / v3_norm(n), n);
            scene end;
            move(&s, dv, &end);
            qpc_rigid_row vt = contact(&s.frame, VT, VT_WEIGHT, n);
            qpc_rigid_row ee = contact(&s.frame, EE, EE_WEIGHT, n);
            assert_int_equal(vt.count, 12);
            assert_int_equal(ee.count, 12);
            error[0][r] = predicted(&vt, dv, s.frame.dt) - (gap_of(end.x, VT, VT_WEIGHT, n) - 0.01);
            error[1][r] = predicted(&ee, dv, s.frame.dt) - (gap_of(end.x, EE, EE_WEIGHT, n) - 0.01);
        }
        for (int k = 0; k < 2; k++) {
            assert_near(error[k][0], 0, 2e-5); // (w h)^2 r / 2: 16 x 1e-6 x 0.9 / 2
            assert_near(error[k][1], error[k][0] / 4, 1e-7);
        }
    }
}

static void rows_at_an_iterate_are_exact_there_and_close_around(void **state) {
    (void)state;
    for (uint64_t number = 0; number < 20; number++) {
        scene s;
        scene_init(&s, number);
        double dv[12], other[12];
        for (int i = 0; i < 12; i++) {
            dv[i] = uniform();
            other[i] = dv[i] + 0.01 * uniform();
        }
        qpc_vec3 n = somewhere(1);
        n = v3_scale(1 / v3_norm(n), n);
        scene end, near;
        move(&s, dv, &end);
        move(&s, other, &near);
        qpc_rigid_frame frame = end.frame;
        frame.dv = dv;
        qpc_rigid_row at = contact(&frame, VT, VT_WEIGHT, n);
        assert_near(predicted(&at, dv, 0.01), gap_of(end.x, VT, VT_WEIGHT, n) - 0.01, 1e-15);
        // Away from it by a change of 0.01 rad/s: h |change| r (h w/2), not the (h w)^2 r/2 of
        // before.
        assert_near(predicted(&at, other, 0.01), gap_of(near.x, VT, VT_WEIGHT, n) - 0.01, 5e-6);
        qpc_rigid_row start = contact(&s.frame, VT, VT_WEIGHT, n);
        double before =
            fabs(predicted(&start, other, 0.01) - (gap_of(near.x, VT, VT_WEIGHT, n) - 0.01));
        assert_true(before < 2e-3);
    }
}

/// Velocities that keep a corner of a fast body off the plane z = 0 (least kinetic energy of dv):
/// row at the start first, then at each iterate. What is missing of the 10 mm after each.
static void newton_on_rows_at_iterates_ends_on_the_thickness(void **state) {
    (void)state;
    int32_t dof[2] = {-1, -1}, of[2] = {0, -1}, body_dof[1] = {0};
    const qpc_rigid_body body = {1, {0.03, 0.04, 0.05}};
    const double X[3] = {0.2, -0.3, -0.25}, h = 0.01;
    qpc_rigid_state start = {
        .x = v3(0, 0, 0.3), .q = {0.9, 0.1, -0.2, 0.1}, .v = v3(1, 2, -20), .w = v3(9, -12, 8)};
    assert_true(qpc_quat_normalise(start.q));
    double x[6] = {0}, v[6] = {0}, centre[3], dv[6] = {0}, missing[6];
    const int32_t node[4] = {0, 0, 1, 1};
    const double weight[4] = {1, 0, -1, 0};
    qpc_rigid_frame frame = {.node_count = 2,
                             .body_count = 1,
                             .dof = dof,
                             .body = of,
                             .body_dof = body_dof,
                             .centre = centre,
                             .x = x,
                             .v = v,
                             .dt = h};
    qpc_rigid_place(&start, 1, X, x, v);
    start.x.z += 0.05 - x[2]; // the corner begins 50 mm above the plane
    qpc_rigid_place(&start, 1, X, x, v);
    v3_store(centre, start.x);
    for (int k = 0; k < 6; k++) {
        qpc_rigid_row row = contact(&frame, node, weight, v3(0, 0, 1));
        qpc_vec3 push = v3_load(row.value), angular = v3_load(row.value + 3);
        qpc_rigid_state still = {.q = {start.q[0], start.q[1], start.q[2], start.q[3]}},
                        end = start;
        qpc_rigid_kick(&body, push, angular, &still); // M^-1 J'
        double lambda = -row.c / (v3_dot(push, still.v) + v3_dot(angular, still.w));
        assert_true(lambda > 0);
        v3_store(dv, v3_scale(-lambda, still.v));
        v3_store(dv + 3, v3_scale(-lambda, still.w));
        qpc_error err = {0};
        end.v = v3_add(end.v, v3_load(dv));
        end.w = v3_add(end.w, v3_load(dv + 3));
        assert_ok(qpc_rigid_drift(&body, h, &end, &err), &err);
        qpc_rigid_place(&end, 1, X, x, NULL);
        v3_store(centre, end.x);
        frame.dv = dv;
        frame.v = NULL;
        missing[k] = fabs(x[2] - 0.01);
    }
    // It leaves at 50 rad/s: 8.2 mm, 0.12 mm, 34 um, 4.1, 0.44, 0.046 um.
    assert_true(missing[0] > 5e-3);
    for (int k = 1; k < 6; k++) assert_true(missing[k] < 0.3 * missing[k - 1]);
    assert_near(missing[5], 0, 1e-7);
}

static void impulses_of_a_row_keep_momentum(void **state) {
    (void)state;
    for (uint64_t number = 0; number < 20; number++) {
        scene s;
        scene_init(&s, number);
        // The normal along the line through both points: no net moment.
        qpc_vec3 apart = v3(0, 0, 0);
        for (int k = 0; k < 4; k++) apart = v3_madd(apart, EE_WEIGHT[k], v3_load(s.x + 3 * EE[k]));
        qpc_vec3 n = v3_scale(1 / v3_norm(apart), apart), sum = v3(0, 0, 0), moment = sum;
        qpc_rigid_row row = contact(&s.frame, EE, EE_WEIGHT, n);
        for (int b = 0; b < BODIES; b++) {
            qpc_vec3 push = v3_load(row.value + 6 * b), turn = v3_load(row.value + 6 * b + 3);
            sum = v3_add(sum, push);
            moment = v3_add(moment, v3_add(v3_cross(s.state[b].x, push), turn));
        }
        assert_near(v3_norm(sum), 0, 1e-15);
        assert_near(v3_norm(moment), 0, 2e-15);
        // An impulse lambda = -1 pushes body 0 along +n (T29), and J M^-1 J' is the sum of
        // mobilities.
        assert_true(v3_dot(v3_load(row.value), n) < 0);
        double together = 0, apiece = 0;
        for (int b = 0; b < BODIES; b++) {
            qpc_vec3 push = v3_load(row.value + 6 * b), turn = v3_load(row.value + 6 * b + 3),
                     at = v3(0, 0, 0);
            together += v3_norm2(push) / s.body[b].mass +
                        v3_dot(turn, qpc_rigid_inertia_solve(&s.body[b], s.state[b].q, turn));
            for (int k = 0; k < 4; k++)
                if (EE[k] / 4 == b) at = v3_madd(at, fabs(EE_WEIGHT[k]), v3_load(s.x + 3 * EE[k]));
            apiece += qpc_rigid_mobility(&s.body[b], s.state[b].q, n, v3_sub(at, s.state[b].x));
        }
        assert_near(apiece, together, 1e-14 * together);
    }
}

static void a_tangent_row_is_the_sliding_velocity(void **state) {
    (void)state;
    scene s;
    scene_init(&s, 3);
    qpc_error err = {0};
    qpc_rigid_row row;
    qpc_vec3 t = v3(0.6, 0, 0.8);
    assert_ok(qpc_rigid_row_along(&s.frame, VT, VT_WEIGHT, t, &row, &err), &err);
    double now = 0, dv[12], slide = 0;
    for (int k = 0; k < 4; k++) now += VT_WEIGHT[k] * v3_dot(t, v3_load(s.v + 3 * VT[k]));
    assert_near(row.c, now, 1e-15);
    for (int i = 0; i < 12; i++) dv[i] = uniform();
    for (int b = 0; b < BODIES; b++) {
        s.state[b].v = v3_add(s.state[b].v, v3_load(dv + 6 * b));
        s.state[b].w = v3_add(s.state[b].w, v3_load(dv + 6 * b + 3));
    }
    place(&s);
    for (int k = 0; k < 4; k++) slide += VT_WEIGHT[k] * v3_dot(t, v3_load(s.v + 3 * VT[k]));
    assert_near(row.c - predicted(&(qpc_rigid_row){.count = 0, .c = 0}, dv, 1), now, 1e-15);
    for (int i = 0; i < row.count; i++) now += row.value[i] * dv[row.column[i]];
    assert_near(now, slide, 1e-14);
}

static void bodies_and_particles_mix_in_order_of_columns(void **state) {
    (void)state;
    scene s;
    scene_init(&s, 5);
    s.of[4] = -1, s.dof[4] = 0; // a particle, a static node, two vertices of body 1
    s.of[5] = -1;
    s.body_dof[0] = 9;
    s.body_dof[1] = 3;
    qpc_rigid_row row = contact(&s.frame, VT, VT_WEIGHT, v3(0, 0, 1));
    assert_int_equal(row.count, 15);
    for (int i = 0; i < 15; i++) assert_int_equal(row.column[i], i);
    assert_near(row.value[2], 0.2, 0); // corner: plus
    assert_near(row.value[5], 0.3, 0); // body 1 by vertex 6 alone
    assert_near(row.value[11], -1, 0); // vertex: minus
    s.of[5] = 7;
    qpc_error err = {0};
    assert_fails(qpc_rigid_row_contact(&s.frame, VT, VT_WEIGHT, v3(0, 0, 1), 0, 0, &row, &err),
                 QPC_ERR_INVALID, &err, "rigid body 7");
    const int32_t beyond[4] = {0, 8, 5, 6};
    assert_fails(qpc_rigid_row_along(&s.frame, beyond, VT_WEIGHT, v3(0, 0, 1), &row, &err),
                 QPC_ERR_INVALID, &err, "node 8");
    s.of[5] = 1;
    assert_fails(qpc_rigid_row_contact(&s.frame, VT, VT_WEIGHT, v3(0, 0, NAN), 0, 0, &row, &err),
                 QPC_ERR_NUMERIC, &err, "not finite");
    row = contact(&s.frame, VT, VT_WEIGHT, v3(0, 0, 1));
    double deep = row.c;
    assert_ok(qpc_rigid_row_contact(&s.frame, VT, VT_WEIGHT, v3(0, 0, 1), 100, -1e-3, &row, &err),
              &err);
    assert_near(row.c - deep, -0.1 - (gap_of(s.x, VT, VT_WEIGHT, v3(0, 0, 1)) - 0.01) / 0.01,
                1e-11);
}

static void mass_blocks_go_into_band_and_sparse_alike(void **state) {
    (void)state;
    scene s;
    scene_init(&s, 9);
    qpc_error err = {0};
    qpc_linsys band = {0}, sparse = {0}, narrow = {0};
    int32_t start[13] = {0}, row[72], count = 0;
    for (int32_t j = 0; j < 12; j++) {
        int32_t end = j % 6 < 3 ? j + 1 : j - j % 6 + 6;
        for (int32_t i = j; i < end; i++) row[count++] = i;
        start[j + 1] = count;
    }
    assert_ok(qpc_linsys_resize(&band, 12, 2, &err), &err);
    assert_ok(qpc_linsys_resize(&narrow, 12, 1, &err), &err);
    assert_ok(qpc_linsys_resize_sparse(&sparse, 12, start, row, &err), &err);
    double dv[12], p[12], q[12];
    for (int b = 0; b < BODIES; b++) {
        assert_ok(qpc_rigid_add_mass(&s.body[b], s.state[b].q, 6 * b, &band, &err), &err);
        assert_ok(qpc_rigid_add_mass(&s.body[b], s.state[b].q, 6 * b, &sparse, &err), &err);
    }
    assert_fails(qpc_rigid_add_mass(&s.body[0], s.state[0].q, 0, &narrow, &err), QPC_ERR_INVALID,
                 &err, "no room");
    assert_fails(qpc_rigid_add_mass(&s.body[0], s.state[0].q, 8, &band, &err), QPC_ERR_INVALID,
                 &err, "unknown 8");
    for (int i = 0; i < 12; i++) dv[i] = uniform();
    qpc_linsys_multiply(&band, dv, p);
    qpc_linsys_multiply(&sparse, dv, q);
    for (int b = 0; b < BODIES; b++) {
        double block[36];
        qpc_rigid_mass_block(&s.body[b], s.state[b].q, block);
        qpc_vec3 L = qpc_rigid_inertia_times(&s.body[b], s.state[b].q, v3_load(dv + 6 * b + 3));
        const double want[6] = {s.body[b].mass * dv[6 * b],
                                s.body[b].mass * dv[6 * b + 1],
                                s.body[b].mass * dv[6 * b + 2],
                                L.x,
                                L.y,
                                L.z};
        for (int i = 0; i < 6; i++) {
            double by_block = 0;
            for (int j = 0; j < 6; j++) {
                by_block += block[6 * i + j] * dv[6 * b + j];
                assert_near(block[6 * i + j], block[6 * j + i], 0);
            }
            assert_near(p[6 * b + i], want[i], 1e-14);
            assert_near(q[6 * b + i], want[i], 1e-14);
            assert_near(by_block, want[i], 1e-14);
        }
    }
    // M^-1 by the factor is what a kick does.
    assert_ok(qpc_linsys_factor(&band, &err), &err);
    qpc_linsys_solve(&band, dv, p);
    for (int b = 0; b < BODIES; b++) {
        qpc_rigid_state still = s.state[b];
        still.v = still.w = v3(0, 0, 0);
        qpc_rigid_kick(&s.body[b], v3_load(dv + 6 * b), v3_load(dv + 6 * b + 3), &still);
        assert_near(v3_norm(v3_sub(still.v, v3_load(p + 6 * b))), 0, 1e-15);
        assert_near(v3_norm(v3_sub(still.w, v3_load(p + 6 * b + 3))), 0, 1e-14);
    }
    qpc_linsys_fini(&band);
    qpc_linsys_fini(&narrow);
    qpc_linsys_fini(&sparse);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_those_by_hand),
        cmocka_unit_test(particles_get_the_rows_of_particles),
        cmocka_unit_test(rows_foretell_the_gap_to_second_order_in_dt),
        cmocka_unit_test(rows_at_an_iterate_are_exact_there_and_close_around),
        cmocka_unit_test(newton_on_rows_at_iterates_ends_on_the_thickness),
        cmocka_unit_test(impulses_of_a_row_keep_momentum),
        cmocka_unit_test(a_tangent_row_is_the_sliding_velocity),
        cmocka_unit_test(bodies_and_particles_mix_in_order_of_columns),
        cmocka_unit_test(mass_blocks_go_into_band_and_sparse_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
