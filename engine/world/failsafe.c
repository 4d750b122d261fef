/// The fail-safe, in two parts.
///
/// Holding back: what drives bodies into an impact (kinematic bodies and moving pins, found along the
/// contacts that carry a force) is let go a part of its way only, or none, and the attempt is made
/// again: the rest of the world moves on. Orders that contradict each other end here.
///
/// Cutting: a motion that would still bring something closer than the acceptance distance is cut
/// before its first impact. Bodies that are about to touch form a group and are cut by one factor, so
/// that relative motions inside a group stay straight; static bodies join no group. Groups only merge
/// and factors only fall, so the loop ends; in the end nothing moves, which never collides.
#include "engine/world/joints.h"
#include "engine/world/world.h"

#include <string.h>

static const double MARGIN = 0.9; // of the time of impact
enum { MAX_ROUNDS = 40 };

/// x1 from the uncut end `whole` and the factor of each body.
static void place(qpc_world *w, double h, const double *whole, const int32_t *group, const double *factor) {
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->motion == QPC_STATIC) continue;
        double s = factor[group[i]];
        if (body->motion == QPC_KINEMATIC) {
            if (qpc_motion_is_driven(body) && body->hold > 0.0) qpc_motion_place(w, i, h, s);
            continue;
        }
        if (body->motion == QPC_RIGID) {
            qpc_rigid_place_end(w, body->rigid, h, s, w->dv);
            continue;
        }
        for (int32_t k = 3 * body->first_node; k < 3 * (body->first_node + body->node_count); k++)
            w->x1[k] = s >= 1.0 ? whole[k] : w->x[k] + s * (whole[k] - w->x[k]);
    }
}

static void join(qpc_world *w, int32_t *group, const int32_t pair[2]) {
    if (w->bodies[pair[0]].motion == QPC_STATIC || w->bodies[pair[1]].motion == QPC_STATIC) return;
    qpc_group_join(group, pair[0], pair[1]);
}

qpc_status qpc_failsafe_hold(qpc_world *w, int32_t round, int32_t *ret_count, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    size_t bodies = (size_t)w->body_count;
    bool stop = round == 1 || round == 3;
    int32_t *group = qpc_arena_array(&w->arena, bodies, sizeof *group);
    double *part = qpc_arena_array(&w->arena, bodies, sizeof *part); // of the motion, by group
    if (group == NULL || part == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the fail-safe");
    for (int32_t i = 0; i < w->body_count; i++) {
        group[i] = i;
        part[i] = 1.0;
    }
    for (int32_t i = 0; i < w->rows.m; i++)
        if (w->rows.kind[i] == QPC_ROW_CONTACT && w->rows.lambda[i] > 0.0) join(w, group, w->held.data[w->rows.source[i]].surface);
    for (int32_t i = 0; i < w->probe.count; i++) join(w, group, w->probe.data[i].surface);
    qpc_joints_group(w, group);
    for (int32_t i = 0; i < w->probe.count; i++) {
        const qpc_contact *c = &w->probe.data[i];
        // A pair that is closer than the acceptance distance comes no closer by force.
        double most = stop || (c->flags & QPC_CONTACT_AT_START) != 0 ? 0.0 : MARGIN * c->toi;
        for (int side = 0; side < 2; side++) {
            int32_t root = qpc_group_of(group, c->surface[side]);
            part[root] = fmin(part[root], most);
        }
    }
    if (w->probe.count == 0) // an answer that makes no sense: all that drives is suspected
        for (int32_t i = 0; i < w->body_count; i++) part[i] = stop ? 0.0 : 0.5;
    int32_t count = 0;
    for (int32_t i = 0; i < w->body_count && round != 2; i++) {
        qpc_body *body = &w->bodies[i];
        double most = part[qpc_group_of(group, i)];
        if (!qpc_motion_is_driven(body) || !(most < body->hold)) continue;
        body->hold = most;
        count++;
    }
    bool pins = round >= 2 || (round == 0 && count == 0);
    for (int32_t i = 0; i < w->pin_count && pins; i++) {
        qpc_pin *pin = &w->pins[i];
        double most = part[qpc_group_of(group, qpc_world_body_of_node(w, pin->node))];
        bool moves = v3_norm2(v3_sub(pin->target, v3_load(w->x + 3 * pin->node))) > 0.0;
        if (!moves || !(most < pin->hold)) continue;
        pin->hold = most;
        count++;
    }
    *ret_count = count;
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}

qpc_status qpc_failsafe_cut(qpc_world *w, double h, bool strictly, double *body_scale, int32_t *ret_groups, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    size_t bodies = (size_t)w->body_count, moving = 3 * (size_t)w->moving_count;
    int32_t *group = qpc_arena_array(&w->arena, bodies, sizeof *group);
    double *factor = qpc_arena_array(&w->arena, bodies, sizeof *factor);
    double *whole = qpc_arena_array(&w->arena, moving, sizeof *whole);
    if (group == NULL || factor == NULL || whole == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the fail-safe");
    memcpy(whole, w->x1, moving * sizeof *whole);
    for (int32_t i = 0; i < w->body_count; i++) {
        group[i] = i;
        factor[i] = 1.0;
    }
    qpc_joints_group(w, group); // what is held together is cut together
    qpc_status st = QPC_OK;
    for (int32_t round = 0;; round++) {
        st = strictly ? qpc_motion_test_strictly(w, err) : qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
        if (st != QPC_OK || w->probe.count == 0) break;
        for (int32_t i = 0; i < w->probe.count; i++) { // merge first, so that a group has one time of impact
            const int32_t *pair = w->probe.data[i].surface;
            if (w->bodies[pair[0]].motion == QPC_STATIC || w->bodies[pair[1]].motion == QPC_STATIC) continue;
            double least = fmin(factor[qpc_group_of(group, pair[0])], factor[qpc_group_of(group, pair[1])]);
            join(w, group, pair);
            factor[qpc_group_of(group, pair[0])] = least;
        }
        for (int32_t i = 0; i < w->body_count; i++) body_scale[i] = 1.0; // least time of impact by group
        for (int32_t i = 0; i < w->probe.count; i++)
            for (int side = 0; side < 2; side++) {
                int32_t body = w->probe.data[i].surface[side];
                if (w->bodies[body].motion == QPC_STATIC) continue;
                int32_t root = qpc_group_of(group, body);
                body_scale[root] = fmin(body_scale[root], w->probe.data[i].toi);
            }
        for (int32_t i = 0; i < w->body_count; i++) {
            if (qpc_group_of(group, i) != i || body_scale[i] >= 1.0) continue;
            factor[i] *= MARGIN * body_scale[i];
            if (factor[i] < 1e-6 || round >= MAX_ROUNDS) factor[i] = 0.0;
        }
        if (round >= MAX_ROUNDS) // cannot be met by a motion that gets smaller each time; stand still
            for (int32_t i = 0; i < w->body_count; i++) factor[i] = 0.0;
        for (int32_t i = 0; i < w->body_count; i++) group[i] = qpc_group_of(group, i);
        place(w, h, whole, group, factor);
        if (round >= MAX_ROUNDS) { // nothing moves: nothing can cross. Whether that is proven, a test says
            st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
            break;
        }
    }
    *ret_groups = 0;
    for (int32_t i = 0; i < w->body_count; i++) {
        body_scale[i] = factor[qpc_group_of(group, i)];
        if (group[i] == i && factor[i] < 1.0) ++*ret_groups;
    }
    qpc_arena_rewind(&w->arena, mark);
    return st;
}
