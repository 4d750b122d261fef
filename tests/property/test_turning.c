/// What turning obstacles hit: a step that calls itself optimal keeps 0.95 of the thickness. Random worlds under the independent checker,
/// and a sheet that a paddle sweeps along, in closed form.
///
///     test_turning [WORLDS [FIRST]]
#include "base/vec.h"
#include "tests/property/random_world.h"
#include "tests/property/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int worlds = 16;
static uint64_t first_world = 1;

static const char *const SHAPES[] = {"'kind':'capsule','radius':0.02,'length':0.5,'axis':'x'", "'kind':'box','width':0.4,'height':0.03,'depth':0.05",
                                     "'kind':'cylinder','radius':0.03,'length':0.4,'axis':'x'", "'kind':'sphere','radius':0.05", "'kind':'plane'"};

/// Above the origin, falling.
static void make_body(random_source *r, char *text, size_t size) {
    static const char *const bodies[] = {
        "'kind':'rigid','mesh':{'generate':{'kind':'box','width':0.3,'height':0.05,'depth':0.3}},'density':300,'position':[0,0.15,0]",
        "'kind':'soft','mesh':{'generate':{'kind':'block','columns':3,'rows':1,'layers':3,'width':0.3,'height':0.1,'depth':0.3}},'young':5e4,'density':200,'position':[0,0.15,0]",
        "'kind':'cable','nodes':{'generate':{'kind':'line','from':[-0.45,0.12,0],'to':[0.45,0.12,0],'count':11}},'mass':0.01,'stiffness':2000"};
    char cloth[256];
    snprintf(cloth, sizeof cloth, "'kind':'cloth','mesh':{'generate':{'kind':'grid','columns':%d,'width':0.9}},'area_density':0.2,'membrane_stiffness':3000,"
             "'bending_stiffness':0.1,'position':[0,0.12,0]", random_int(r, 3, 5));
    const char *body = random_chance(r, 0.5) ? cloth : bodies[random_int(r, 0, 2)];
    snprintf(text, size, "%s,'radius':0.003,'velocity':[0,%.3f,0]", body, random_real(r, -6, 0));
}

static void make_obstacle(random_source *r, char *text, size_t size) {
    int shape = random_int(r, 0, 4);
    double turn[3], speed[3];
    for (int i = 0; i < 3; i++) turn[i] = shape == 4 ? random_real(r, -2, 2) : random_real(r, -60, 60);
    for (int i = 0; i < 3; i++) speed[i] = shape == 4 ? 0 : random_real(r, -2, 2);
    snprintf(text, size, "'kind':'obstacle','shape':{%s},'radius':0.001,'position':[%.3f,-0.25,%.3f],'velocity':[%.3f,%.3f,%.3f],'angular_velocity':[%.3f,%.3f,%.3f]", SHAPES[shape],
             random_real(r, -0.2, 0.2), random_real(r, -0.2, 0.2), speed[0], speed[1] + 0.5, speed[2], turn[0], turn[1], turn[2]);
}

static void an_optimal_step_keeps_095_of_the_thickness_of_what_turns(void **state) {
    (void)state;
    int64_t steps = 0, optimal = 0, halvings = 0, passes = 0;
    double least = 2;
    for (int n = 0; n < worlds; n++) {
        random_source r = {.state = 7919 * (first_world + (uint64_t)n)};
        char body[640], obstacle[512], text[1536];
        simulation sim;
        make_body(&r, body, sizeof body);
        make_obstacle(&r, obstacle, sizeof obstacle);
        snprintf(text, sizeof text, "{'dt':0.005,'contacts':{'friction':%g,'restitution':%g},'bodies':[{%s},{%s}]}", random_chance(&r, 0.5) ? 0.3 : 0.0, random_chance(&r, 0.5) ? 0.5 : 0.0, body,
                 obstacle);
        simulation_start(&sim, text);
        for (int i = 0; i < 40; i++) {
            double before = sim.w.found.worst_penetration;
            simulation_step(&sim, 1);
            bool says_so = sim.report.outcome != QPC_STEP_OPTIMAL;
            steps++;
            optimal += !says_so;
            halvings += sim.report.halvings;
            passes += sim.report.passes;
            if (says_so) continue;
            least = fmin(least, sim.report.min_gap);
            if (!(sim.report.min_gap >= 0.95) || sim.w.found.worst_penetration > fmax(before, 0.05))
                fail_msg("world %llu, step %d: gap %.4f, penetration %.4f\n%s", (unsigned long long)(first_world + (uint64_t)n), i, sim.report.min_gap, sim.w.found.worst_penetration, text);
        }
        simulation_end(&sim);
    }
    print_message("  %d worlds, %lld steps: least gap %.4f, passes %lld, halvings %lld, not optimal %lld\n", worlds, (long long)steps, least, (long long)passes, (long long)halvings,
                  (long long)(steps - optimal));
    assert_true(optimal >= steps - steps / 10);
    assert_true(halvings <= steps / 20);
}

/// At 20 m/s outwards a millimetre over a flat paddle that turns about z, frictionless: what is hit is pressed on from there (in the frame of the
/// paddle it goes outwards), so at the end of a step the lowest vertex is a separation from the paddle, whose angle is known.
static void a_sheet_swept_by_a_paddle_is_a_separation_from_it_at_the_end_of_every_step(void **state) {
    (void)state;
    static const double turns[] = {10, 30, 50}; // rad/s
    static const char *const paddles[] = {"'kind':'box','width':4,'height':0.02,'depth':1", "'kind':'plane'"};
    for (int i = 0; i < 6; i++) {
        double w = turns[i % 3], half = i / 3 == 0 ? 0.01 : 0, separation = 0.005;
        char text[1024];
        simulation sim;
        snprintf(text, sizeof text, "{'dt':0.005,'gravity':[0,0,0],'bodies':[{'kind':'cloth','mesh':{'generate':{'kind':'grid','columns':3,'width':0.1}},'area_density':0.2,"
                 "'membrane_stiffness':3000,'bending_stiffness':0.1,'radius':0.004,'velocity':[20,0,0],'position':[0.4,%g,0]},{'kind':'obstacle','shape':{%s},'radius':0.001,'angular_velocity':[0,0,%g]}]}",
                 half + 0.006, paddles[i / 3], w);
        simulation_start(&sim, text);
        for (int step = 1; w * 0.005 * step < 0.6; step++) {
            simulation_step(&sim, 1);
            double angle = w * 0.005 * step, gap = 1;
            for (int k = 0; k < 9; k++) {
                const double *x = simulation_x(&sim, k);
                gap = fmin(gap, cos(angle) * x[1] - sin(angle) * x[0] - half);
            }
            assert_int_equal(sim.report.outcome, QPC_STEP_OPTIMAL);
            assert_near(gap, separation, 1e-3 * separation);
        }
        simulation_end(&sim);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) worlds = atoi(argv[1]);
    if (argc > 2) first_world = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_optimal_step_keeps_095_of_the_thickness_of_what_turns),
        cmocka_unit_test(a_sheet_swept_by_a_paddle_is_a_separation_from_it_at_the_end_of_every_step),
    };
    return cmocka_run_group_tests_name("turning", tests, NULL, NULL);
}
