/// What contradicts is nobody else's matter: friction elsewhere, reactions, and how what starts too near gets out.
#include "tests/unit/world/support.h"

#include <math.h>

/// A pellet on a slope of 15 degrees, beneath the limit of its law, far from everything else of the world.
#define SLOPE "'dt':0.005,'gravity':[2.539,-9.476,0],'contacts':{'friction':0.5}"
#define PELLET \
    "{'kind':'obstacle','name':'ground','shape':{'kind':'plane'}}," \
    "{'kind':'cable','name':'pellet','mass':2,'radius':0.01,'nodes':[[0,0.01,2]]}"

static const double *position(const qpc_world *w, int body) { return qpc_world_positions(w) + 3 * qpc_world_body(w, body).first_node; }

/// Body 1 stays, while what body 2 is in contradicts in every step. missed: so is friction, there.
static void assert_pellet_stays(const char *text, int missed) {
    qpc_world *w = world_made(text);
    qpc_step_report r;
    double at = position(w, 1)[0];
    for (int k = 0; k < 30; k++) {
        world_steps(w, 1, &r);
        assert_int_equal(r.friction_missed, missed);
        assert_true(r.conflicts > 0);
        assert_int_equal(r.outcome, QPC_STEP_RELAXED);
    }
    assert_near(position(w, 1)[0], at, 1e-6);
    qpc_world_destroy(w);
}

static void a_fixed_node_within_its_thickness_leaves_friction_to_others(void **state) {
    (void)state;
    assert_pellet_stays("{" SLOPE ",'constraints':[{'kind':'fixed','body':'q','nodes':[0]}],'bodies':[" PELLET
                       ",{'kind':'cable','name':'q','radius':0.01,'mass':0.01,'stiffness':10000,'nodes':[[0,0.0099,-2],[0.03,0.03,-2],[0.06,0.05,-2]]}]}",
                        0);
}

/// The same in the middle of a cable: its halves hang from there over something fixed, and no row is without an unknown. They come no nearer
/// than 0.95 of the distance of what is fixed, and what holds them up is of the size of a chain of 0.1 kg that falls taut, not of what
/// would open the gap at their ends (2e5 N). floor: the gap there, m.
static void assert_halves_hang(const char *text, double floor) {
    qpc_world *w = world_made(text);
    qpc_step_report r;
    double at = position(w, 1)[0], least = 0.0, most = 0.0;
    for (int k = 0; k < 40; k++) {
        int32_t count;
        world_steps(w, 1, &r);
        const qpc_contact_info *c = qpc_world_contacts(w, &count);
        for (int i = 0; i < count; i++) least = fmin(least, c[i].gap);
        for (int i = 0; i < count; i++) most = fmax(most, c[i].force);
        assert_int_equal(r.friction_missed, 0);
        assert_int_equal(r.outcome, QPC_STEP_RELAXED);
        assert_true(r.conflicts > 0 && r.qps < 20);
    }
    assert_near(position(w, 1)[0], at, 1e-6);
    assert_near(least, floor, 1e-5); // they hang on it by now
    assert_true(most > 20.0 && most < 2000.0);
    qpc_world_destroy(w);
}

static void a_fixed_node_within_its_thickness_of_an_edge_leaves_friction_to_others(void **state) {
    (void)state;
    assert_halves_hang("{" SLOPE ",'constraints':[{'kind':'fixed','body':'c','nodes':[0,1]},{'kind':'fixed','body':'q','nodes':[2]}],'bodies':[" PELLET
                       ",{'kind':'cable','name':'c','radius':0.01,'mass':0.1,'stiffness':10000,'nodes':[[0,0.3,-2],[0.2,0.3,-2],[0.4,0.3,-2]]},"
                       "{'kind':'cable','name':'q','radius':0.01,'mass':0.1,'stiffness':10000,'nodes':[[0,0.312,-2.2],[0,0.312,-2.1],[0,0.312,-2],"
                       "[0,0.312,-1.9],[0,0.312,-1.8]]}]}",
                       0.95 * 0.012 - 0.02);
}

/// A thin rod that is a function: edges have nearest points of their own beside the fixed node.
static void a_fixed_node_within_its_thickness_of_a_rod_leaves_friction_to_others(void **state) {
    (void)state;
    assert_halves_hang("{" SLOPE ",'constraints':[{'kind':'fixed','body':'q','nodes':[2]}],'bodies':[" PELLET
                       ",{'kind':'obstacle','name':'rod','radius':0.01,'shape':{'kind':'capsule','radius':0.0001,'length':0.4,'axis':'x'},'position':[0,1,-2]},"
                       "{'kind':'cable','name':'q','radius':0.01,'mass':0.1,'stiffness':10000,'nodes':[[0,1.0121,-2.2],[0,1.0121,-2.1],[0,1.0121,-2],"
                       "[0,1.0121,-1.9],[0,1.0121,-1.8]]}]}",
                       0.95 * 0.012 - 0.02);
}

/// Momentum: what the ends are held with is m (v1 - v0) / h less weight and what the ball pushes. Steps in one part.
static void fixed_ends_of_a_cable_with_a_limit_hold_what_it_is_pushed_with(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.01,'gravity':[0,-10,0],'bodies':[{'kind':'cable','name':'c','radius':0.008,'mass':0.0012,'stiffness':80000,'nodes':"
                              "[[0,0,0],[0.04,0,0],[0.08,0,0],[0.12,0,0],[0.16,0,0],[0.2,0,0],[0.24,0,0],[0.28,0,0]]},"
                              "{'kind':'rigid','name':'b','shape':{'kind':'sphere','radius':0.05},'mass':3,'position':[0.13,0.1,0],'velocity':[0,-3,0]}],"
                              "'constraints':[{'kind':'fixed','body':'c','nodes':[0,-1]},{'kind':'strain-limit','body':'c','max':1.01}]}");
    qpc_step_report r;
    int checked = 0;
    double before[3] = {0.0, 0.0, 0.0};
    for (int k = 0; k < 12; k++) {
        double now[3] = {0.0, 0.0, 0.0}, sum[3], size = 1.0;
        int32_t contacts, pins;
        const int32_t *node;
        world_steps(w, 1, &r);
        const double *v = qpc_world_velocities(w);
        for (int i = 0; i < 24; i++) now[i % 3] += 0.0012 * v[i];
        const qpc_contact_info *c = qpc_world_contacts(w, &contacts);
        const double *held = qpc_world_reactions(w, &node, &pins);
        for (int a = 0; a < 3; a++) {
            sum[a] = (now[a] - before[a]) / 0.01 - (a == 1 ? -10.0 * 8 * 0.0012 : 0.0);
            for (int i = 0; i < contacts; i++) sum[a] -= (c[i].body[0] == 0 ? 1.0 : -1.0) * (c[i].force * c[i].normal[a] + c[i].friction[a]);
            for (int i = 0; i < pins; i++) sum[a] -= held[3 * i + a];
            for (int i = 0; i < pins; i++) size = fmax(size, fabs(held[3 * i + a]));
            before[a] = now[a];
        }
        if (r.halvings > 0) continue; // forces are of the last part
        checked += size > 10.0;
        for (int a = 0; a < 3; a++) assert_near(sum[a], 0.0, 1e-10 * size);
    }
    assert_true(checked >= 5);
    qpc_world_destroy(w);
}

static void what_is_between_two_walls_leaves_friction_to_others(void **state) {
    (void)state;
    assert_pellet_stays("{" SLOPE ",'bodies':[" PELLET ",{'kind':'cable','name':'q','radius':0.01,'mass':0.01,'nodes':[[0,5.006,-2]]},"
                        "{'kind':'obstacle','name':'low','shape':{'kind':'box','width':1,'height':1,'depth':1},'position':[0,4.5,-2]},"
                        "{'kind':'obstacle','name':'high','shape':{'kind':'box','width':1,'height':1,'depth':1},'position':[0,5.512,-2]}]}",
                        1);
}

/// It is pressed by 10 N: pushed out at 0.2 m/s that would be 10 mJ a step, where 1/2 m u^2 of both pellets and
/// 1e-3 of the energy there is are 40 uJ. It goes at the speed that the bound allows, and all the while 2 N along the plane are held by friction.
static void what_is_pressed_is_pushed_out_as_fast_as_its_bound_allows(void **state) {
    (void)state;
    qpc_world *w = world_made("{'dt':0.005,'gravity':[0,0,0],'contacts':{'friction':0.3},'solver':{'recovery_speed':0.2},'bodies':["
                              "{'kind':'obstacle','name':'ground','shape':{'kind':'plane'}},"
                              "{'kind':'cable','name':'q','mass':0.001,'radius':0.01,'nodes':[[0,0.00995,0]]},"
                              "{'kind':'cable','name':'far','mass':0.001,'radius':0.01,'nodes':[[0,1,0]],'velocity':[0,1,0]}]}");
    qpc_step_report r;
    qpc_error err = {0};
    assert_ok(world_control(w, "{'forces':[{'body':'q','nodes':[0],'force':[2,-10,0]}]}", &err), &err);
    const double bound = 0.5 * 0.002 * 0.04 + 1e-3 * 5e-4;
    int steps = 0;
    for (double last = 0.00995; last < 0.01 - 1e-8 && steps < 200; steps++) {
        world_steps(w, 1, &r);
        double now = position(w, 1)[1];
        assert_true(now > last);
        assert_true(10.0 * (now - last) < bound);
        assert_int_equal(r.friction_missed, 0);
        assert_int_equal(r.outcome, QPC_STEP_OPTIMAL);
        assert_true(r.energy_step < 1e-6);
        last = now;
    }
    assert_true(steps >= 13 && steps < 20); // 5e-5 m, 4e-6 m a step, and 0.8 of that
    assert_near(position(w, 1)[0], 0.0, 1e-6);
    qpc_world_destroy(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_node_within_its_thickness_leaves_friction_to_others),
        cmocka_unit_test(a_fixed_node_within_its_thickness_of_an_edge_leaves_friction_to_others),
        cmocka_unit_test(a_fixed_node_within_its_thickness_of_a_rod_leaves_friction_to_others),
        cmocka_unit_test(what_is_between_two_walls_leaves_friction_to_others),
        cmocka_unit_test(fixed_ends_of_a_cable_with_a_limit_hold_what_it_is_pushed_with),
        cmocka_unit_test(what_is_pressed_is_pushed_out_as_fast_as_its_bound_allows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
