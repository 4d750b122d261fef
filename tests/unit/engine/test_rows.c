/// Rows: exact signs on known configurations, the physics oracles, and the plumbing.
///
/// The oracles print multipliers of K dv - b - J'lambda = 0; here K dv + J'lambda = b, so the signs
/// differ.
#include "engine/solver/rows.h"

#include "engine/dynamics/cable.h"
#include "engine/solver/solver.h"
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/oracle.h"

enum { NODES = 8, N = 3 * NODES };

typedef struct scene {
    int32_t dof[NODES];
    double x[N], v[N], mass[NODES], b[N], dv[N];
    qpc_row_frame frame;
    qpc_rows rows;
    qpc_linsys K;
    qpc_arena arena;
    int32_t n;
} scene;

/// `count` nodes of given masses; a mass of zero makes a node known.
static void scene_init(scene *s, int32_t count, const double *mass, double dt) {
    memset(s, 0, sizeof *s);
    for (int32_t i = 0; i < count; i++) {
        s->mass[i] = mass[i];
        s->dof[i] = mass[i] > 0 ? s->n : -1;
        if (mass[i] > 0) s->n += 3;
    }
    s->frame = (qpc_row_frame){.node_count = count, .dof = s->dof, .x = s->x, .v = s->v, .dt = dt};
}

static void scene_fini(scene *s) {
    qpc_rows_fini(&s->rows);
    qpc_linsys_fini(&s->K);
    qpc_arena_fini(&s->arena);
}

/// K = M, b = dt m g.
static void weigh(scene *s, double gx, double gy, double gz) {
    qpc_error err = {0};
    const double g[3] = {gx, gy, gz};
    assert_ok(qpc_linsys_resize(&s->K, s->n, 5, &err), &err);
    for (int32_t i = 0; i < s->frame.node_count; i++) {
        for (int32_t k = 0; k < 3 && s->dof[i] >= 0; k++) {
            qpc_linsys_add(&s->K, s->dof[i] + k, s->dof[i] + k, s->mass[i]);
            s->b[s->dof[i] + k] = s->frame.dt * s->mass[i] * g[k];
        }
    }
}

static void solve_with(scene *s, qpc_solver_id id) {
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = 1e-12;
    assert_ok(qpc_linsys_factor(&s->K, &err), &err);
    qpc_qp qp = qpc_rows_qp(&s->rows, &s->K, s->b);
    assert_ok(qpc_solve(id, &qp, &options, &s->arena, s->dv, s->rows.lambda, &report, &err), &err);
    assert_int_equal(report.outcome, QPC_OUTCOME_OPTIMAL);
}

static void solve(scene *s) {
    solve_with(s, QPC_SOLVER_ACTIVE_SET);
}

static qpc_contact vertex_triangle(int32_t vertex, int32_t a, int32_t b, int32_t c, const double *w,
                                   qpc_vec3 n) {
    return (qpc_contact){.kind = QPC_CONTACT_VT,
                         .key = 1,
                         .node = {vertex, a, b, c},
                         .weight = {1, -w[0], -w[1], -w[2]},
                         .n = n};
}

/// The contact of two lone particles: degenerate edges (i, i) and (j, j).
static qpc_contact pair(int32_t i, int32_t j, qpc_vec3 n, uint64_t key) {
    return (qpc_contact){.kind = QPC_CONTACT_EE,
                         .key = key,
                         .node = {i, i, j, j},
                         .weight = {0.25, 0.75, -0.5, -0.5},
                         .n = n};
}

static void add(scene *s, const qpc_contact *contact, double separation) {
    qpc_error err = {0};
    assert_ok(qpc_rows_add_contact(&s->rows, &s->frame, contact, separation, -1e300, 0, &err),
              &err);
}

static double entry(const scene *s, int32_t row, int32_t column) {
    for (int32_t k = s->rows.row_start[row]; k < s->rows.row_start[row + 1]; k++)
        if (s->rows.column[k] == column) return s->rows.value[k];
    return 0;
}

// A particle over a triangle in the plane z = 0: nodes 0-2 the triangle, 3 the particle.
static const double ONE_PARTICLE[4] = {0, 0, 0, 0.7}, THIRDS[3] = {0.25, 0.25, 0.5};
static void over_triangle(scene *s, double height, double vz) {
    scene_init(s, 4, ONE_PARTICLE, 0.01);
    const double corners[9] = {0, 0, 0, 1, 0, 0, 0, 1, 0};
    memcpy(s->x, corners, sizeof corners);
    s->x[9] = 0.25;
    s->x[10] = 0.5;
    s->x[11] = height;
    s->v[11] = vz;
}

static void a_falling_particle_is_stopped_at_its_thickness(void **state) {
    (void)state;
    scene s;
    over_triangle(&s, 0.05, -6);
    qpc_contact contact = vertex_triangle(3, 0, 1, 2, THIRDS, v3(0, 0, 1));
    add(&s, &contact, 0.03);
    // -dv_z <= (0.05 - 0.03)/0.01 + (-6) = -4: it must gain at least 4 m/s
    assert_int_equal(s.rows.m, 1);
    assert_int_equal(s.rows.nnz, 1);
    assert_near(entry(&s, 0, 2), -1, 0);
    assert_near(s.rows.c[0], -4, 1e-12);
    weigh(&s, 0, 0, -10);
    solve(&s);
    assert_near(s.dv[2], 4, 1e-12);
    assert_near(s.x[11] + s.frame.dt * (s.v[11] + s.dv[2]), 0.03, 1e-14);
    // It pushes: K dv - b = 0.7 (4 + 0.1) N s upwards, and lambda is positive.
    assert_near(s.rows.lambda[0], 0.7 * 4.1, 1e-12);
    scene_fini(&s);
}

static void a_particle_that_will_not_arrive_is_left_alone(void **state) {
    (void)state;
    scene s;
    over_triangle(&s, 0.05, -1);
    qpc_contact contact = vertex_triangle(3, 0, 1, 2, THIRDS, v3(0, 0, 1));
    add(&s, &contact, 0.03);
    weigh(&s, 0, 0, -10);
    solve(&s);
    assert_near(s.dv[2], -0.1, 1e-15);
    assert_near(s.rows.lambda[0], 0, 0);
    scene_fini(&s);
}

static void the_reaction_of_a_resting_particle_is_its_weight(void **state) {
    (void)state;
    scene s;
    over_triangle(&s, 0.03, 0);
    qpc_contact contact = vertex_triangle(3, 0, 1, 2, THIRDS, v3(0, 0, 1));
    add(&s, &contact, 0.03);
    weigh(&s, 0, 0, -10);
    solve(&s);
    assert_near(s.rows.lambda[0] / s.frame.dt, 7, 1e-10);
    assert_near(s.dv[2], 0, 1e-14);
    scene_fini(&s);
}

static void a_moving_triangle_carries_the_particle(void **state) {
    (void)state;
    scene s;
    over_triangle(&s, 0.03, 0);
    s.v[2] = s.v[5] = s.v[8] = 2; // the triangle rises at 2 m/s over the step
    qpc_contact contact = vertex_triangle(3, 0, 1, 2, THIRDS, v3(0, 0, 1));
    add(&s, &contact, 0.03);
    assert_near(s.rows.c[0], -2, 1e-12);
    weigh(&s, 0, 0, 0);
    solve(&s);
    assert_near(s.dv[2], 2, 1e-12);
    scene_fini(&s);
}

static void recovery_from_too_close_is_capped(void **state) {
    (void)state;
    scene s;
    qpc_error err = {0};
    over_triangle(&s, 0.01, 0);
    qpc_contact contact = vertex_triangle(3, 0, 1, 2, THIRDS, v3(0, 0, 1));
    assert_ok(qpc_rows_add_contact(&s.rows, &s.frame, &contact, 0.03, -0.002, 0, &err), &err);
    assert_near(s.rows.c[0], -0.2, 1e-12); // 2 mm in 10 ms, not 20 mm
    assert_int_equal(s.rows.priority[0], 1);
    assert_int_equal(s.rows.equality[0], 0);
    assert_int_equal(s.rows.kind[0], QPC_ROW_CONTACT);
    scene_fini(&s);
}

static void vertex_triangle_follows_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/vertex_triangle_row.json");
    scene s;
    double mass[4], n[3], w[3], g[3], want[12], tolerance;
    oracle_setup_list(&o, "masses_kg", mass, 4);
    scene_init(&s, 4, mass, oracle_setup(&o, "dt_s"));
    oracle_setup_list(&o, "triangle_m", s.x, 9);
    oracle_setup_list(&o, "vertex_m", s.x + 9, 3);
    oracle_setup_list(&o, "velocities_m_s", s.v, 12);
    oracle_setup_list(&o, "barycentric", w, 3);
    oracle_setup_list(&o, "normal", n, 3);
    oracle_setup_list(&o, "gravity_m_s2", g, 3);
    qpc_contact contact = vertex_triangle(3, 0, 1, 2, w, v3_load(n));
    add(&s, &contact, oracle_setup(&o, "thickness_sum_m"));
    oracle_result(&o, "row c", want, 1, &tolerance);
    assert_near(s.rows.c[0], want[0], tolerance);
    const qpc_solver_id ids[] = {QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUGMENTED_LAGRANGIAN};
    for (int32_t k = 0; k < 2; k++) {
        s.rows.lambda[0] = 0;
        weigh(&s, g[0], g[1], g[2]);
        solve_with(&s, ids[k]);
        oracle_result(&o, "velocity changes", want, 12, &tolerance);
        for (int32_t i = 0; i < 12; i++) assert_near(s.dv[i], want[i], tolerance);
        oracle_result(&o, "multiplier", want, 1, &tolerance);
        assert_near(-s.rows.lambda[0], want[0], tolerance);
    }
    double gap = 0, after;
    for (int32_t i = 0; i < 12; i++) {
        double weight = i < 9 ? -w[i / 3] : 1;
        gap += weight * n[i % 3] * (s.x[i] + s.frame.dt * (s.v[i] + s.dv[i]));
    }
    oracle_result(&o, "gap along the old normal", &after, 1, &tolerance);
    assert_near(gap, after, tolerance);
    scene_fini(&s);
    oracle_close(&o);
}

static void edge_edge_follows_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/edge_edge_row.json");
    scene s;
    double mass[4], n[3], g[3], want[12], tolerance;
    double a = oracle_setup(&o, "a"), b = oracle_setup(&o, "b");
    oracle_setup_list(&o, "masses_kg", mass, 4);
    scene_init(&s, 4, mass, oracle_setup(&o, "dt_s"));
    oracle_setup_list(&o, "edge_i_m", s.x, 6);
    oracle_setup_list(&o, "edge_j_m", s.x + 6, 6);
    oracle_setup_list(&o, "velocities_m_s", s.v, 12);
    oracle_setup_list(&o, "normal", n, 3);
    oracle_setup_list(&o, "gravity_m_s2", g, 3);
    qpc_contact contact = {.kind = QPC_CONTACT_EE,
                           .node = {0, 1, 2, 3},
                           .weight = {1 - a, a, b - 1, -b},
                           .n = v3_load(n)};
    add(&s, &contact, oracle_setup(&o, "thickness_sum_m"));
    oracle_result(&o, "row c", want, 1, &tolerance);
    assert_near(s.rows.c[0], want[0], tolerance);
    weigh(&s, g[0], g[1], g[2]);
    solve(&s);
    oracle_result(&o, "velocity changes", want, 12, &tolerance);
    for (int32_t i = 0; i < 12; i++) assert_near(s.dv[i], want[i], tolerance);
    oracle_result(&o, "multiplier", want, 1, &tolerance);
    assert_near(-s.rows.lambda[0], want[0], tolerance);
    oracle_result(&o, "total momentum", want, 3, &tolerance);
    for (int32_t k = 0; k < 3; k++) {
        double p = 0;
        for (int32_t i = k; i < 12; i += 3) p += mass[i / 3] * (s.v[i] + s.dv[i]);
        assert_near(p, want[k], tolerance);
    }
    scene_fini(&s);
    oracle_close(&o);
}

static void a_strain_limit_follows_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/strain_limit_row_step.json");
    scene s;
    qpc_error err = {0};
    double m = oracle_setup(&o, "mass_kg"), k = oracle_setup(&o, "stiffness_N_m"), want, tolerance;
    double l = oracle_setup(&o, "length_m"), l0 = oracle_setup(&o, "rest_length_m");
    double v = oracle_setup(&o, "speed_down_m_s"), g = oracle_setup(&o, "gravity_m_s2");
    double dt = oracle_setup(&o, "dt_s"), limit = oracle_setup(&o, "max_length_m");
    const double mass[2] = {0, m};
    scene_init(&s, 2, mass, dt);
    s.x[4] = -l; // node 1 hangs below node 0 along y
    s.v[4] = -v;
    weigh(&s, 0, -g, 0);
    qpc_linsys_add(&s.K, 1, 1, dt * dt * k);
    s.b[1] += dt * (k * (l - l0) + dt * k * v);
    assert_ok(qpc_rows_add_strain(&s.rows, &s.frame, 0, 1, v3(0, 1, 0), true, limit, 5, 0, &err),
              &err);
    assert_int_equal(s.rows.priority[0], 2);
    solve(&s);
    oracle_result(&o, "velocity change with the limit", &want, 1, &tolerance);
    assert_near(-s.dv[1], want, tolerance);
    oracle_result(&o, "length after the step", &want, 1, &tolerance);
    assert_near(l + dt * (v - s.dv[1]), want, tolerance);
    oracle_result(&o, "multiplier", &want, 1, &tolerance);
    assert_near(-s.rows.lambda[0], want, tolerance);
    oracle_result(&o, "force of the limit", &want, 1, &tolerance);
    assert_near(s.rows.lambda[0] / dt, want, tolerance);
    // Without the row.
    qpc_rows_clear(&s.rows);
    solve(&s);
    oracle_result(&o, "velocity change without the limit", &want, 1, &tolerance);
    assert_near(-s.dv[1], want, tolerance);
    scene_fini(&s);
    oracle_close(&o);
}

static void a_lower_strain_limit_holds_a_spring_open(void **state) {
    (void)state;
    scene s;
    qpc_error err = {0};
    const double mass[2] = {1, 3};
    scene_init(&s, 2, mass, 0.01);
    s.x[3] = 1; // 1 m apart on x, closing at 5 m/s; may not come closer than 0.98 m
    s.v[0] = 4;
    s.v[3] = -1;
    // n from node 1 to node 0
    assert_ok(qpc_rows_add_strain(&s.rows, &s.frame, 0, 1, v3(-1, 0, 0), false, 0.98, 5, 0, &err),
              &err);
    weigh(&s, 0, 0, 0);
    solve(&s);
    double apart = s.x[3] - s.x[0] + 0.01 * (s.v[3] + s.dv[3] - s.v[0] - s.dv[0]);
    assert_near(apart, 0.98, 1e-14);
    assert_true(s.rows.lambda[0] > 0);
    assert_near(mass[0] * s.dv[0] + mass[1] * s.dv[3], 0, 1e-13); // internal
    scene_fini(&s);
}

static void fixed_points_follow_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/fixed_velocity_reaction_step.json");
    scene s;
    qpc_error err = {0};
    double k = oracle_setup(&o, "stiffness_N_m"), l0 = oracle_setup(&o, "rest_length_m");
    double dt = oracle_setup(&o, "dt_s"), want[2], tolerance;
    const double mass[2] = {oracle_setup(&o, "mass1_kg"), oracle_setup(&o, "mass2_kg")};
    const int32_t first[] = {0};
    const qpc_springs spring = {.count = 1, .node = first, .stiffness = &k, .rest_length = &l0};
    scene_init(&s, 2, mass, dt);
    s.x[0] = oracle_setup(&o, "x1_m");
    s.x[3] = oracle_setup(&o, "x2_m");
    s.v[0] = oracle_setup(&o, "v1_m_s");
    s.v[3] = oracle_setup(&o, "v2_m_s");
    weigh(&s, 0, 0, 0);
    double f[6] = {0}, Hv[6] = {0};
    qpc_springs_force(&spring, s.x, f);
    qpc_springs_stiffness(&spring, s.x, s.v, dt, &s.K, Hv);
    for (int32_t i = 0; i < 6; i++) s.b[i] = dt * (f[i] - dt * Hv[i]);
    assert_ok(qpc_rows_add_fixed(&s.rows, &s.frame, 0, v3(oracle_setup(&o, "prescribed_m_s"), 0, 0),
                                 &err),
              &err);
    assert_int_equal(s.rows.m, 3);
    assert_int_equal(s.rows.equality[0], 1);
    assert_int_equal(s.rows.priority[2], 0);
    solve(&s);
    oracle_result(&o, "velocity changes", want, 2, &tolerance);
    assert_near(s.dv[0], want[0], tolerance);
    assert_near(s.dv[3], want[1], tolerance);
    // Impulse on particle 1: K dv - b = -J'lambda.
    oracle_result(&o, "multiplier", want, 1, &tolerance);
    assert_near(-s.rows.lambda[0], want[0], tolerance);
    oracle_result(&o, "force of the constraint", want, 1, &tolerance);
    assert_near(-s.rows.lambda[0] / dt, want[0], tolerance);
    scene_fini(&s);
    oracle_close(&o);
}

static void a_spring_on_a_fixed_point_follows_backward_euler(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/spring_backward_euler.json");
    scene s;
    qpc_error err = {0};
    double k = oracle_setup(&o, "stiffness_N_m"), dt = oracle_setup(&o, "dt_s"), l0 = 1, want,
           tolerance;
    const double mass[2] = {0.7, oracle_setup(&o, "mass_kg")};
    const int32_t first[] = {0};
    const qpc_springs spring = {.count = 1, .node = first, .stiffness = &k, .rest_length = &l0};
    scene_init(&s, 2, mass, dt);
    s.x[0] = -1; // rest position of the particle is then 0
    s.x[3] = oracle_setup(&o, "x0_m");
    s.v[3] = oracle_setup(&o, "v0_m_s");
    int32_t steps = (int32_t)oracle_setup(&o, "steps");
    for (int32_t step = 0; step < steps; step++) {
        double f[6] = {0}, Hv[6] = {0};
        weigh(&s, 0, 0, 0);
        qpc_springs_force(&spring, s.x, f);
        qpc_springs_stiffness(&spring, s.x, s.v, dt, &s.K, Hv);
        for (int32_t i = 0; i < 6; i++) s.b[i] = dt * (f[i] - dt * Hv[i]);
        qpc_rows_clear(&s.rows);
        assert_ok(qpc_rows_add_fixed(&s.rows, &s.frame, 0, v3(0, 0, 0), &err), &err);
        solve(&s);
        for (int32_t i = 0; i < 6; i++) {
            s.v[i] += s.dv[i];
            s.x[i] += dt * s.v[i];
        }
    }
    oracle_result(&o, "x after n steps", &want, 1, &tolerance);
    assert_near(s.x[3], want, tolerance);
    oracle_result(&o, "v after n steps", &want, 1, &tolerance);
    assert_near(s.v[3], want, tolerance);
    scene_fini(&s);
    oracle_close(&o);
}

static void internal_contacts_keep_momentum(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/internal_contact_momentum.json");
    scene s;
    double mass[8], list[18], want[24], tolerance;
    oracle_setup_list(&o, "masses_kg", mass, 8);
    scene_init(&s, 8, mass, oracle_setup(&o, "dt_s"));
    oracle_setup_list(&o, "positions_m", s.x, 24);
    oracle_setup_list(&o, "velocities_m_s", s.v, 24);
    oracle_setup_list(&o, "rows_i_j_limit", list, 18);
    for (int32_t r = 0; r < 6; r++) {
        int32_t i = (int32_t)list[3 * r], j = (int32_t)list[3 * r + 1];
        qpc_vec3 d = v3_sub(v3_load(s.x + 3 * i), v3_load(s.x + 3 * j));
        double l = v3_norm(d);
        // (v_j - v_i).n <= limit l: a gap of limit l dt
        qpc_contact contact = pair(i, j, v3_scale(1 / l, d), (uint64_t)r);
        add(&s, &contact, l - list[3 * r + 2] * l * s.frame.dt);
    }
    const qpc_solver_id ids[] = {QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUTO};
    for (int32_t k = 0; k < 2; k++) {
        for (int32_t r = 0; r < 6; r++) s.rows.lambda[r] = 0;
        weigh(&s, 0, 0, 0);
        solve_with(&s, ids[k]);
        oracle_result(&o, "multipliers", want, 6, &tolerance);
        for (int32_t r = 0; r < 6; r++) assert_near(-s.rows.lambda[r], want[r], tolerance);
        oracle_result(&o, "velocity changes", want, 24, &tolerance);
        for (int32_t i = 0; i < 24; i++) assert_near(s.dv[i], want[i], tolerance);
    }
    oracle_result(&o, "total momentum after", want, 3, &tolerance);
    for (int32_t k = 0; k < 3; k++) {
        double p = 0;
        for (int32_t i = k; i < 24; i += 3) p += mass[i / 3] * (s.v[i] + s.dv[i]);
        assert_near(p, want[k], tolerance);
    }
    qpc_vec3 turn = v3(0, 0, 0);
    for (int32_t i = 0; i < 8; i++) {
        qpc_vec3 u = v3_add(v3_load(s.v + 3 * i), v3_load(s.dv + 3 * i));
        turn = v3_madd(turn, mass[i], v3_cross(v3_load(s.x + 3 * i), u));
    }
    oracle_result(&o, "angular momentum", want, 3, &tolerance);
    assert_near(turn.x, want[0], tolerance);
    assert_near(turn.y, want[1], tolerance);
    assert_near(turn.z, want[2], tolerance);
    scene_fini(&s);
    oracle_close(&o);
}

static void dependent_rows_follow_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/dependent_rows_edge_on_two_triangles.json");
    scene s;
    double mass[3], v[2], gap[2], want[3], tolerance;
    double a = oracle_setup(&o, "a2"), r = oracle_setup(&o, "thickness_sum_m");
    oracle_setup_list(&o, "masses_kg", mass, 2);
    mass[2] = 0; // a node of the fixed plane, at the origin
    oracle_setup_list(&o, "vz_m_s", v, 2);
    oracle_setup_list(&o, "gaps_m", gap, 2);
    scene_init(&s, 3, mass, oracle_setup(&o, "dt_s"));
    for (int32_t i = 0; i < 2; i++) {
        s.x[3 * i + 2] = gap[i];
        s.v[3 * i + 2] = v[i];
    }
    qpc_contact end0 = pair(0, 2, v3(0, 0, 1), 10), end1 = pair(1, 2, v3(0, 0, 1), 11);
    qpc_contact middle = {.kind = QPC_CONTACT_EE,
                          .key = 12,
                          .node = {0, 1, 2, 2},
                          .weight = {1 - a, a, -0.5, -0.5},
                          .n = v3(0, 0, 1)};
    add(&s, &end0, r);
    add(&s, &end1, r);
    add(&s, &middle, r);
    const qpc_solver_id ids[] = {QPC_SOLVER_ACTIVE_SET, QPC_SOLVER_AUGMENTED_LAGRANGIAN};
    for (int32_t k = 0; k < 2; k++) {
        for (int32_t i = 0; i < 3; i++) s.rows.lambda[i] = 0;
        weigh(&s, 0, 0, -oracle_setup(&o, "gravity_m_s2"));
        solve_with(&s, ids[k]);
        oracle_result(&o, "velocity changes (z)", want, 2, &tolerance);
        assert_near(s.dv[2], want[0], tolerance);
        assert_near(s.dv[5], want[1], tolerance);
        oracle_result(&o, "total constraint impulse", want, 2, &tolerance);
        const double *l = s.rows.lambda; // impulse = -J'lambda, rows are -dv_z
        assert_near(l[0] + (1 - a) * l[2], want[0], tolerance);
        assert_near(l[1] + a * l[2], want[1], tolerance);
    }
    // The paper's perturbation, all three rows active from the start.
    qpc_error err = {0};
    qpc_solver_report report;
    qpc_solver_options options = qpc_solver_options_default();
    options.perturbation = oracle_setup(&o, "regularisation_L");
    for (int32_t i = 0; i < 3; i++) s.rows.lambda[i] = 1;
    qpc_qp qp = qpc_rows_qp(&s.rows, &s.K, s.b);
    assert_ok(qpc_solve(QPC_SOLVER_AUGMENTED_CG, &qp, &options, &s.arena, s.dv, s.rows.lambda,
                        &report, &err),
              &err);
    oracle_result(&o, "with the perturbation L on the diagonal", want, 2, &tolerance);
    assert_near(s.dv[2], want[0], tolerance);
    assert_near(s.dv[5], want[1], tolerance);
    oracle_result(&o, "with the perturbation: multipliers", want, 3, &tolerance);
    for (int32_t i = 0; i < 3; i++) assert_near(-s.rows.lambda[i], want[i], tolerance);
    // Rows are missed by L lambda, so it must not call itself optimal.
    assert_int_equal(report.outcome, QPC_OUTCOME_ITERATION_LIMIT);
    scene_fini(&s);
    oracle_close(&o);
}

static void passes_append_rows_as_in_the_oracle(void **state) {
    (void)state;
    oracle o = oracle_open(QPC_TEST_DATA "/physics/two_pass_chain.json");
    scene s;
    double mass[3], v[3], gap[2], want[3], tolerance, kept[3];
    oracle_setup_list(&o, "masses_kg", mass, 3);
    oracle_setup_list(&o, "velocities_m_s", v, 3);
    oracle_setup_list(&o, "gaps_m", gap, 2);
    scene_init(&s, 3, mass, oracle_setup(&o, "dt_s"));
    s.x[3] = gap[0];
    s.x[6] = gap[0] + gap[1];
    for (int32_t i = 0; i < 3; i++) s.v[3 * i] = v[i];
    // n from j = k + 1 to i = k points to the left.
    qpc_contact left = pair(0, 1, v3(-1, 0, 0), 100), right = pair(1, 2, v3(-1, 0, 0), 50);
    weigh(&s, 0, 0, 0);
    add(&s, &left, 0);
    solve(&s);
    oracle_result(&o, "velocities after the first pass", want, 3, &tolerance);
    for (int32_t i = 0; i < 3; i++) assert_near(s.v[3 * i] + s.dv[3 * i], want[i], tolerance);
    const uint64_t key = 100;
    kept[0] = s.rows.lambda[0];
    // The second pass: one more row, warm by key.
    qpc_rows_clear(&s.rows);
    add(&s, &right, 0);
    add(&s, &left, 0);
    qpc_rows_warm_start(&s.rows, &key, kept, 1);
    assert_near(s.rows.lambda[0], 0, 0);
    assert_near(s.rows.lambda[1], kept[0], 0);
    solve(&s);
    oracle_result(&o, "velocities after the last pass", want, 3, &tolerance);
    for (int32_t i = 0; i < 3; i++) assert_near(s.v[3 * i] + s.dv[3 * i], want[i], tolerance);
    oracle_result(&o, "gaps after the step", want, 2, &tolerance);
    for (int32_t i = 0; i < 2; i++) {
        double after =
            gap[i] + s.frame.dt * (s.v[3 * i + 3] + s.dv[3 * i + 3] - s.v[3 * i] - s.dv[3 * i]);
        assert_near(after, want[i], tolerance);
    }
    scene_fini(&s);
    oracle_close(&o);
}

static void columns_increase_and_equal_nodes_merge(void **state) {
    (void)state;
    scene s;
    const double mass[4] = {1, 1, 1, 1};
    scene_init(&s, 4, mass, 0.01);
    qpc_contact contact = {
        .node = {3, 0, 2, 2}, .weight = {0.5, 0.5, -0.25, -0.75}, .n = v3(0.6, 0, 0.8)};
    add(&s, &contact, 0);
    assert_int_equal(s.rows.nnz, 6); // three nodes, two components
    for (int32_t k = 1; k < 6; k++) assert_true(s.rows.column[k] > s.rows.column[k - 1]);
    assert_near(entry(&s, 0, 0), -0.3, 1e-16);
    assert_near(entry(&s, 0, 6), 0.6, 1e-16);
    assert_near(entry(&s, 0, 8), 0.8, 1e-16);
    assert_near(entry(&s, 0, 9), -0.3, 1e-16);
    // A node against itself cancels: an empty row, not a row of zeros.
    qpc_contact self = {.node = {1, 1, 1, 1}, .weight = {0.5, 0.5, -0.5, -0.5}, .n = v3(1, 0, 0)};
    add(&s, &self, 0);
    assert_int_equal(s.rows.row_start[2], 6);
    scene_fini(&s);
}

static void the_warm_start_matches_equal_keys_in_order(void **state) {
    (void)state;
    scene s;
    const double mass[2] = {1, 1};
    scene_init(&s, 2, mass, 0.01);
    const uint64_t keys[] = {9, 2, 9, 7, 2, 9};
    for (int32_t i = 0; i < 6; i++) {
        qpc_contact contact = pair(0, 1, v3(1, 0, 0), keys[i]);
        add(&s, &contact, 0);
    }
    const uint64_t old[] = {1, 2, 5, 9, 9};
    const double lambda[] = {10, 20, 50, 91, -92};
    qpc_rows_warm_start(&s.rows, old, lambda, 5);
    const double want[] = {91, 20, 0, 0, 0, 0}; // a negative one of an inequality is no start
    for (int32_t i = 0; i < 6; i++) assert_near(s.rows.lambda[i], want[i], 0);
    qpc_rows_warm_start(&s.rows, old, lambda, 0);
    for (int32_t i = 0; i < 6; i++) assert_near(s.rows.lambda[i], 0, 0);
    scene_fini(&s);
}

static void bad_input_is_refused_and_leaves_the_rows(void **state) {
    (void)state;
    scene s;
    qpc_error err = {0};
    const double mass[2] = {1, 0};
    scene_init(&s, 2, mass, 0.01);
    qpc_contact contact = pair(0, 1, v3(1, 0, 0), 3);
    add(&s, &contact, 0);
    contact.n.y = (double)NAN;
    assert_fails(qpc_rows_add_contact(&s.rows, &s.frame, &contact, 0, 0, 0, &err), QPC_ERR_NUMERIC,
                 &err, "finite");
    contact.n.y = 0;
    contact.node[1] = 2;
    assert_fails(qpc_rows_add_contact(&s.rows, &s.frame, &contact, 0, 0, 0, &err), QPC_ERR_INTERNAL,
                 &err, "node 2");
    assert_fails(qpc_rows_add_strain(&s.rows, &s.frame, 1, 2, v3(1, 0, 0), true, 1, 0, 0, &err),
                 QPC_ERR_INTERNAL, &err, "node 2");
    assert_fails(qpc_rows_add_fixed(&s.rows, &s.frame, 1, v3(0, 0, 0), &err), QPC_ERR_INTERNAL,
                 &err, "no unknowns");
    assert_fails(
        qpc_rows_add_strain(&s.rows, &s.frame, 0, 1, v3(1, 0, 0), true, (double)INFINITY, 0, 0, &err),
        QPC_ERR_NUMERIC, &err, "finite");
    assert_int_equal(s.rows.m, 1);
    assert_int_equal(s.rows.nnz, 1);
    scene_fini(&s);
}

static void after_warm_up_rows_take_no_memory(void **state) {
    (void)state;
    scene s;
    const double mass[2] = {1, 1};
    scene_init(&s, 2, mass, 0.01);
    qpc_contact contact = pair(0, 1, v3(0.6, 0.8, 0), 3);
    uint64_t before = 0;
    for (int32_t turn = 0; turn < 3; turn++) {
        qpc_rows_clear(&s.rows);
        for (int32_t i = 0; i < 1000; i++) add(&s, &contact, 0);
        qpc_rows_warm_start(&s.rows, NULL, NULL, 0);
        if (turn == 0) before = qpc_mem_thread_allocations();
    }
    assert_int_equal(qpc_mem_thread_allocations(), before);
    scene_fini(&s);
}

static void running_out_of_memory_leaves_the_rows(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        scene s;
        qpc_error err = {0};
        const double mass[2] = {1, 1};
        scene_init(&s, 2, mass, 0.01);
        qpc_contact contact = pair(0, 1, v3(0.6, 0.8, 0), 3);
        qpc_status status = QPC_OK;
        int32_t done = 0;
        for (; done < 200 && status == QPC_OK; done++)
            status = qpc_rows_add_contact(&s.rows, &s.frame, &contact, 0, 0, 0, &err);
        bool whole = qpc_faults_ended(&f, status);
        assert_int_equal(s.rows.m, whole ? 200 : done - 1);
        assert_int_equal(s.rows.nnz, 4 * s.rows.m);
        scene_fini(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_falling_particle_is_stopped_at_its_thickness),
        cmocka_unit_test(a_particle_that_will_not_arrive_is_left_alone),
        cmocka_unit_test(the_reaction_of_a_resting_particle_is_its_weight),
        cmocka_unit_test(a_moving_triangle_carries_the_particle),
        cmocka_unit_test(recovery_from_too_close_is_capped),
        cmocka_unit_test(vertex_triangle_follows_the_oracle),
        cmocka_unit_test(edge_edge_follows_the_oracle),
        cmocka_unit_test(a_strain_limit_follows_the_oracle),
        cmocka_unit_test(a_lower_strain_limit_holds_a_spring_open),
        cmocka_unit_test(fixed_points_follow_the_oracle),
        cmocka_unit_test(a_spring_on_a_fixed_point_follows_backward_euler),
        cmocka_unit_test(internal_contacts_keep_momentum),
        cmocka_unit_test(dependent_rows_follow_the_oracle),
        cmocka_unit_test(passes_append_rows_as_in_the_oracle),
        cmocka_unit_test(columns_increase_and_equal_nodes_merge),
        cmocka_unit_test(the_warm_start_matches_equal_keys_in_order),
        cmocka_unit_test(bad_input_is_refused_and_leaves_the_rows),
        cmocka_unit_test(after_warm_up_rows_take_no_memory),
        cmocka_unit_test(running_out_of_memory_leaves_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
