// Wind on cloth and soft bodies: closed forms of flat sheets and of a cube, what every triangle feels, what K and b say of it.
#include "engine/world/loads.h"
#include "tests/property/simulation.h"

#include <math.h>
#include <string.h>

#define SHEET(columns, more)                                                                                                              \
    "{'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': " columns ", 'width': 0.5, 'axis': 'z'}}, 'radius': 0.002, "      \
    "'area_density': 0.4, 'young': 1e4, 'thickness': 0.001" more "}"
#define WIND(keys) "'loads': [{'kind': 'wind', 'body': 0, " keys "}]"

/// Kinetic energy, J; momentum, N s.
static double motion_of(const simulation *sim, double p[3]) {
    double sum = 0;
    memset(p, 0, 3 * sizeof *p);
    for (int i = 0; i < sim->w.world->free_count; i++)
        for (int a = 0; a < 3; a++) {
            double v = simulation_v(sim, i)[a], m = sim->w.world->mass[i];
            p[a] += m * v;
            sum += 0.5 * m * v * v;
        }
    return sum;
}

/// dv/dt = k (w - v)^2, k = rho C A / 2 m: v = w - w / (1 + k w t). Of first order in dt, and each step that of backward Euler.
static void a_flat_sheet_goes_with_the_wind_as_the_square_law_says(void **state) {
    (void)state;
    double w = 4, h = 0.02, k = 1.2 * 1.1 / (2 * 0.4), t = 0.4, error[3];
    for (int part = 0; part < 3; part++) {
        simulation sim;
        char text[1024];
        (void)snprintf(text, sizeof text, "{'dt': %g, 'gravity': [0, 0, 0], 'bodies': [" SHEET("3", "") "], " WIND("'velocity': [0, 0, 4], 'drag': 1.1") "}",
                       h / (1 << part));
        simulation_start(&sim, text);
        for (int s = 0; s < 20 << part; s++) {
            double before = simulation_v(&sim, 4)[2];
            simulation_run(&sim, 1);
            double past = w - simulation_v(&sim, 4)[2];
            assert_near(simulation_v(&sim, 4)[2] - before, h / (1 << part) * k * past * past, 2e-6); // what Newton leaves
        }
        error[part] = simulation_v(&sim, 4)[2] - (w - w / (1 + k * w * t));
        for (int i = 0; i < 9; i++) assert_near(simulation_v(&sim, i)[2], simulation_v(&sim, 4)[2], 1e-9);
        simulation_end(&sim);
    }
    print_message("  errors %.3g %.3g %.3g m/s\n", error[0], error[1], error[2]);
    for (int part = 0; part < 2; part++) assert_near(error[part] / error[part + 1], 2, 0.1);
}

/// Terminal: rho C v^2 / 2 = g m / A, whatever dt, and from above as from below.
static void a_falling_sheet_reaches_the_speed_that_carries_its_weight(void **state) {
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        simulation sim;
        char text[1024];
        (void)snprintf(text, sizeof text, "{'dt': 0.1, 'gravity': [0, 0, -9.81], 'bodies': [" SHEET("3", ", 'velocity': [0, 0, %d]") "], "
                       WIND("'velocity': [0, 0, 0], 'density': 1.3, 'drag': 2") "}", fast ? -30 : 0);
        simulation_start(&sim, text);
        simulation_run(&sim, 60);
        assert_near(simulation_v(&sim, 0)[2], -sqrt(2 * 0.4 * 9.81 / (1.3 * 2)), 1e-6);
        simulation_end(&sim);
    }
}

/// Along a sheet wind does nothing without the tangential coefficient, and rho C_t A/2 u^2 with it.
static void wind_along_a_sheet_rubs_as_its_tangential_coefficient_says(void **state) {
    (void)state;
    for (int rubs = 0; rubs < 2; rubs++) {
        simulation sim;
        char text[1024];
        (void)snprintf(text, sizeof text, "{'dt': 0.01, 'gravity': [0, 0, 0], 'bodies': [" SHEET("3", "") "], "
                       WIND("'velocity': [6, 8, 0], 'drag': 3, 'tangential': %g") "}", 0.05 * rubs);
        simulation_start(&sim, text);
        simulation_run(&sim, 1);
        double v = hypot(simulation_v(&sim, 0)[0], simulation_v(&sim, 0)[1]), k = 1.2 * 0.05 / (2 * 0.4);
        assert_near(v, rubs ? 0.01 * k * (10 - v) * (10 - v) : 0, 1e-9);
        assert_near(simulation_v(&sim, 0)[0] * 8, simulation_v(&sim, 0)[1] * 6, 1e-9);
        assert_near(simulation_v(&sim, 0)[2], 0, 1e-12);
        simulation_end(&sim);
    }
}

/// Only what faces the wind is blown on: rho A C / 2 u^2 of one face, over the whole cube.
static void a_soft_cube_feels_the_wind_on_one_face(void **state) {
    (void)state;
    simulation sim;
    double p[3], h = 0.001;
    simulation_start(&sim, "{'dt': 0.001, 'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 2, 'width': 0.2}}, "
                           "'radius': 0.001, 'density': 1000, 'young': 1e6, 'poisson': 0.3}], " WIND("'velocity': [-10, 0, 0]") "}");
    simulation_run(&sim, 5);
    (void)motion_of(&sim, p);
    assert_near(p[0], -0.5 * 1.2 * 0.04 * 100 * 5 * h, 1e-3 * 0.012);
    assert_near(p[1], 0, 1e-9);
    simulation_end(&sim);
}

/// What a triangle feels by the law itself, N.
static void law(const simulation *sim, const double *x, const int32_t *c, double rho, const double coefficient[2], const double wind[3], double f[3]) {
    double e[2][3], u[3], across[3], n[3], twice = 0, un = 0, speed = 0;
    for (int a = 0; a < 3; a++) {
        e[0][a] = x[3 * c[1] + a] - x[3 * c[0] + a];
        e[1][a] = x[3 * c[2] + a] - x[3 * c[0] + a];
        u[a] = wind[a];
        for (int k = 0; k < 3; k++) u[a] -= simulation_v(sim, c[k])[a] / 3;
    }
    for (int a = 0; a < 3; a++) n[a] = e[0][(a + 1) % 3] * e[1][(a + 2) % 3] - e[0][(a + 2) % 3] * e[1][(a + 1) % 3];
    for (int a = 0; a < 3; a++) twice += n[a] * n[a];
    twice = sqrt(twice);
    for (int a = 0; a < 3; a++) un += u[a] * n[a] / twice;
    for (int a = 0; a < 3; a++) across[a] = u[a] - un * n[a] / twice;
    for (int a = 0; a < 3; a++) speed += across[a] * across[a];
    for (int a = 0; a < 3; a++) f[a] = rho * twice / 4 * (coefficient[0] * fabs(un) * un * n[a] / twice + coefficient[1] * sqrt(speed) * across[a]);
}

/// The momentum of a sheet that flutters and folds is what its triangles felt, a step after the other.
static void the_momentum_of_a_fluttering_sheet_is_what_its_triangles_felt(void **state) {
    (void)state;
    simulation sim;
    const double coefficient[2] = {1.2, 0.1}, wind[3] = {3, 1, 5};
    double x[3 * 25], before[3], after[3];
    simulation_start(&sim, "{'dt': 0.005, 'gravity': [0, 0, 0], 'bodies': [" SHEET("5", ", 'velocity': [[4, 0, 0], [0, 3, 0], [0, 0, 2], [0, 0, 0], [0, 0, 0], "
                           "[0, 0, 0], [0, 0, 0], [0, 0, -5], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 3], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], "
                           "[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 2, 8]]") "], "
                           WIND("'velocity': [3, 1, 5], 'drag': 1.2, 'tangential': 0.1") "}");
    const qpc_mesh *mesh = sim.w.world->bodies[0].mesh;
    for (int s = 0; s < 20; s++) {
        double sum[3] = {0};
        memcpy(x, simulation_x(&sim, 0), sizeof x);
        (void)motion_of(&sim, before);
        simulation_run(&sim, 1);
        (void)motion_of(&sim, after);
        for (int t = 0; t < qpc_mesh_element_count(mesh); t++) {
            double f[3];
            law(&sim, x, qpc_mesh_elements(mesh) + 3 * (int64_t)t, 1.2, coefficient, wind, f);
            for (int a = 0; a < 3; a++) sum[a] += 0.005 * f[a];
        }
        for (int a = 0; a < 3; a++) assert_near(after[a] - before[a], sum[a], 1e-5 * 0.1);
    }
    simulation_end(&sim);
}

/// In still air no step is too long: what moves only loses.
static void still_air_takes_energy_at_any_length_of_step(void **state) {
    (void)state;
    simulation sim;
    double p[3];
    simulation_start(&sim, "{'dt': 0.2, 'gravity': [0, 0, 0], 'bodies': [" SHEET("3", ", 'velocity': [20, -10, 50]") "], "
                           WIND("'velocity': [0, 0, 0], 'density': 1000, 'tangential': 1") "}");
    for (int s = 0; s < 10; s++) {
        double before = motion_of(&sim, p);
        simulation_run(&sim, 1);
        assert_true(motion_of(&sim, p) < before);
        assert_true(sim.report.work < 0);
    }
    simulation_end(&sim);
}

/// Of one load: the potential's slope is minus h f, that of f is J, and b is of both.
static void its_potential_its_force_and_its_part_of_k_agree(void **state) {
    (void)state;
    for (int soft = 0; soft < 2; soft++) {
        simulation sim;
        simulation_start(&sim, soft ? "{'gravity': [0, 0, 0], 'bodies': [{'kind': 'soft', 'mesh': {'generate': {'kind': 'block', 'columns': 2, 'width': 0.2}}, 'radius': 0.001, "
                                      "'density': 1000, 'young': 1e6, 'poisson': 0.3}], " WIND("'velocity': [3, 1, 5], 'tangential': 0.3") "}"
                                    : "{'gravity': [0, 0, 0], 'bodies': [" SHEET("5", "") "], " WIND("'velocity': [3, 1, 5], 'tangential': 0.3") "}");
        qpc_world *w = sim.w.world;
        int n = 3 * w->free_count;
        double h = 0.01, by = 1e-5, dv[81], way[81], end[2][81], f[2][81], at[81] = {0}, Kway[81], Kdv[81], slope = 0, worst = 0;
        assert_true(n <= 81);
        for (int k = 0; k < n; k++) {
            w->v[k] = sin(k * k);
            dv[k] = cos(3 * k * k);
            way[k] = sin(7 * k);
            for (int s = 0; s < 2; s++) end[s][k] = dv[k] + (s == 0 ? -by : by) * way[k], f[s][k] = 0;
        }
        for (int s = 0; s < 2; s++) qpc_wind_force(w, &w->loads[0], end[s], f[s]);
        qpc_wind_force(w, &w->loads[0], dv, at);
        memset(w->b, 0, (size_t)n * sizeof *w->b);
        qpc_linsys_clear(&w->sys);
        qpc_wind_linearise(w, &w->loads[0], h, dv, 1);
        qpc_linsys_multiply(&w->sys, way, Kway);
        qpc_linsys_multiply(&w->sys, dv, Kdv);
        for (int k = 0; k < n; k++) {
            slope -= h * at[k] * way[k];
            worst = fmax(worst, fabs(Kway[k] + h * (f[1][k] - f[0][k]) / (2 * by)));
            assert_near(w->b[k], h * at[k] + Kdv[k], 1e-14);
        }
        double change = qpc_loads_potential(w, h, end[1]) - qpc_loads_potential(w, h, end[0]);
        assert_near(change / (2 * by), slope, 1e-7 * fabs(slope));
        assert_true(worst < 1e-8);
        simulation_end(&sim);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flat_sheet_goes_with_the_wind_as_the_square_law_says),
        cmocka_unit_test(a_falling_sheet_reaches_the_speed_that_carries_its_weight),
        cmocka_unit_test(wind_along_a_sheet_rubs_as_its_tangential_coefficient_says),
        cmocka_unit_test(a_soft_cube_feels_the_wind_on_one_face),
        cmocka_unit_test(the_momentum_of_a_fluttering_sheet_is_what_its_triangles_felt),
        cmocka_unit_test(still_air_takes_energy_at_any_length_of_step),
        cmocka_unit_test(its_potential_its_force_and_its_part_of_k_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
