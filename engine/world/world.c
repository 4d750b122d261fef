/// Worlds: making one from a scene, reading it, controlling it, and the hash of its state. The step
/// itself is in step.c. Everything a step touches is allocated here, once.
#include "engine/dynamics/factor.h"
#include "engine/world/elastic.h"
#include "engine/world/integrate.h"
#include "engine/world/joints.h"
#include "engine/world/loads.h"
#include "engine/world/obstacles.h"
#include "engine/world/position.h"
#include "engine/world/sheets.h"
#include "engine/world/world.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUBSTATES = 3 }; // inside a step that there is room for from the start: of a motion made in quarters

// ---- energy and hash ----

double qpc_world_energy(const qpc_world *w, const double *x, const double *v, const qpc_rigid_state *pose, double *ret_kinetic,
                        double *ret_potential, double *ret_elastic) {
    double kinetic = 0.0, potential = v3_dot(w->gravity, w->gone_moment);
    for (int32_t i = 0; i < w->free_count; i++) {
        kinetic += 0.5 * w->mass[i] * v3_norm2(v3_load(v + 3 * i));
        potential -= w->mass[i] * v3_dot(w->gravity, v3_load(x + 3 * i));
    }
    for (int32_t i = 0; i < w->rigid_count; i++) {
        kinetic += qpc_rigid_energy(&w->rigids[i].inertia, &pose[i]);
        potential -= w->rigids[i].inertia.mass * v3_dot(w->gravity, pose[i].x);
    }
    double elastic = qpc_elastic_energy(w, x, false);
    if (ret_kinetic != NULL) *ret_kinetic = kinetic;
    if (ret_potential != NULL) *ret_potential = potential;
    if (ret_elastic != NULL) *ret_elastic = elastic;
    return kinetic + potential + elastic;
}

uint64_t qpc_world_state_hash(qpc_world *w) {
    qpc_hash64 *h = w->hasher;
    qpc_hash64_reset(h);
    qpc_hash64_u64(h, w->hash);
    qpc_hash64_u64(h, (uint64_t)w->step);
    for (int32_t i = 0; i < w->body_count; i++) {
        const qpc_body *body = &w->bodies[i];
        if (body->gone) qpc_hash64_u64(h, (uint64_t)i); // else as it always was
        if (body->motion == QPC_STATIC) continue;
        if (body->motion == QPC_KINEMATIC) {
            double pose[] = {body->position.x,         body->position.y,         body->position.z,
                             body->rotation[0],        body->rotation[1],        body->rotation[2],
                             body->rotation[3],        body->velocity.x,         body->velocity.y,
                             body->velocity.z,         body->angular_velocity.x, body->angular_velocity.y,
                             body->angular_velocity.z, body->owed.x,             body->owed.y,
                             body->owed.z,             body->owed_turn.x,        body->owed_turn.y,
                             body->owed_turn.z,        body->pace,               body->turn_pace};
            qpc_hash64_doubles(h, pose, sizeof pose / sizeof pose[0]);
            continue;
        }
        if (body->motion == QPC_RIGID) {
            const qpc_rigid_state *s = &w->pose[body->rigid];
            double state[] = {s->x.x, s->x.y, s->x.z, s->q[0], s->q[1], s->q[2], s->q[3],
                              s->v.x, s->v.y, s->v.z, s->w.x,  s->w.y,  s->w.z};
            qpc_hash64_doubles(h, state, sizeof state / sizeof state[0]);
            qpc_hash64_doubles(h, w->force + w->rigids[body->rigid].dof, 6);
            continue;
        }
        size_t first = 3 * (size_t)body->first_node, count = 3 * (size_t)body->node_count;
        qpc_hash64_doubles(h, w->x + first, count);
        qpc_hash64_doubles(h, w->v + first, count);
        qpc_hash64_doubles(h, w->force + first, count);
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        const qpc_pin *pin = &w->pins[i];
        double target[] = {pin->target.x,   pin->target.y,   pin->target.z, pin->velocity.x,
                           pin->velocity.y, pin->velocity.z, pin->pace,     pin->told ? 1.0 : 0.0};
        qpc_hash64_doubles(h, target, sizeof target / sizeof target[0]);
    }
    qpc_hash64_bytes(h, w->warm_key, (size_t)w->warm_count * sizeof *w->warm_key);
    qpc_hash64_doubles(h, w->warm_lambda, (size_t)w->warm_count);
    for (int32_t i = 0; i < w->kept.count; i++) {
        const qpc_kept_friction *k = &w->kept.data[i];
        double impulse[3] = {k->impulse.x, k->impulse.y, k->impulse.z};
        qpc_hash64_u64(h, k->key);
        qpc_hash64_doubles(h, impulse, 3);
    }
    double run[] = {w->time,
                    w->dt,
                    w->gravity.x,
                    w->gravity.y,
                    w->gravity.z,
                    w->energy_start,
                    w->work,
                    w->work_pushed,
                    w->elastic_most,
                    w->height_low,
                    w->height_high,
                    w->warm_h,
                    (double)w->solver.id + (w->solver.position_based ? 100.0 + w->solver.iterations : 0.0),
                    (double)w->solver.newton,
                    (double)w->solver.passes,
                    (double)w->solver.halvings,
                    (double)w->solver.budget,
                    w->solver.tolerance,
                    w->solver.perturbation,
                    w->solver.reach,
                    w->solver.recovery_speed,
                    (double)w->solver.friction,
                    w->solver.friction_tolerance,
                    (double)w->solver.impact};
    qpc_hash64_doubles(h, run, sizeof run / sizeof run[0]);
    return qpc_hash64_digest(h);
}

// ---- creation ----

void qpc_world_destroy(qpc_world *w) {
    if (w == NULL) return;
    for (int32_t i = 0; i < w->body_count; i++) {
        qpc_mesh_unref(w->bodies[i].mesh);
        qpc_mesh_unref(w->bodies[i].tets);
        qpc_free(w->bodies[i].local);
    }
    qpc_detector_destroy(w->detector);
    qpc_linsys_fini(&w->sys);
    qpc_arena_fini(&w->arena);
    qpc_rows_fini(&w->rows);
    qpc_array_fini(&w->near);
    qpc_array_fini(&w->probe);
    qpc_array_fini(&w->predicted);
    qpc_array_fini(&w->merged);
    qpc_array_fini(&w->impacts);
    qpc_array_fini(&w->held);
    qpc_array_fini(&w->substates);
    qpc_array_fini(&w->kept);
    qpc_array_fini(&w->bounce);
    qpc_array_fini(&w->responses);
    qpc_linsys_fini(&w->inertia);
    qpc_integrate_fini(w);
    qpc_rub_fini(&w->rub);
    qpc_hash64_destroy(w->hasher);
    void *arrays[] = {w->bodies,      w->x,           w->v,           w->mass,        w->force,       w->x1,
                      w->v_frame,     w->row_dof,     w->pins,        w->pin_node,    w->reactions,   w->spring_node,
                      w->stiffness,   w->base,        w->rest_length, w->spring_min,  w->spring_max,  w->tension,     w->limit_force,
                      w->b,           w->f,           w->Hu,          w->dv,          w->dv_try,      w->dv_best,
                      w->warm_key,    w->warm_lambda, w->contact_info, w->conflict_info, w->limit_on, w->giving, w->touched, w->lost,
                      w->proven,     w->spring_other, w->spring_place, w->pin_of,      w->pin_other, w->pin_block,
                      w->laws,       w->mass_floor,  w->rigids,      w->pose,        w->pose1,     w->row_turn, w->arm, w->still, w->stood_for};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) qpc_free(arrays[i]);
    qpc_sheets_fini(w);
    qpc_softs_fini(w);
    qpc_joints_fini(w);
    qpc_loads_fini(w);
    qpc_value_fini(&w->scene);
    qpc_free(w);
}

static double *doubles(int64_t count) { return qpc_calloc((size_t)(count > 0 ? count : 1), sizeof(double)); }

/// Numbers of nodes, then the arrays over them.
static qpc_status allocate(qpc_world *w, const qpc_scene_def *def, qpc_error *err) {
    int64_t free_nodes = 0, driven = 0, all = 0, springs = 0, rigid = 0, vertices = 0;
    bool cloth = false, sheets = false;
    for (int32_t i = 0; i < def->bodies.count; i++) {
        const qpc_body_def *body = &def->bodies.data[i];
        all += body->node_count;
        springs += body->springs.count;
        if (body->motion == QPC_DYNAMIC) free_nodes += body->node_count;
        cloth = cloth || (body->motion == QPC_DYNAMIC && body->mesh != NULL);
        sheets = sheets || body->sheet.count > 0;
        if (body->motion == QPC_KINEMATIC) driven += body->node_count;
        if (body->motion == QPC_RIGID) {
            vertices += body->node_count;
            rigid++;
        }
    }
    w->node_count = (int32_t)all;
    w->free_count = (int32_t)free_nodes;
    w->live_count = (int32_t)(free_nodes + vertices);
    w->block_count = (int32_t)(free_nodes + 2 * rigid);
    w->moving_count = (int32_t)(free_nodes + vertices + driven);
    w->springs.count = (int32_t)springs;
    w->pin_count = def->fixed.count;
    w->bodies = qpc_calloc((size_t)def->bodies.count, sizeof *w->bodies);
    bool ok = w->bodies != NULL;
    if (ok) w->body_count = def->bodies.count;
    int64_t n = 3 * all, m = 3 * (int64_t)w->block_count;
    ok = (w->x = doubles(n)) && (w->v = doubles(n)) && (w->x1 = doubles(n)) && (w->v_frame = doubles(n)) && ok;
    ok = ok && (w->proven = doubles(3 * (int64_t)w->moving_count));
    ok = ok && (w->mass = doubles(all)) && (w->force = doubles(m)) && (w->b = doubles(m)) && (w->f = doubles(m));
    ok = ok && (w->Hu = doubles(m)) && (w->dv = doubles(m)) && (w->dv_try = doubles(m)) && (w->dv_best = doubles(m));
    ok = ok && (w->stiffness = doubles(springs)) && (w->rest_length = doubles(springs)) && (w->tension = doubles(springs));
    ok = ok && (!sheets || (w->base = doubles(springs)));
    ok = ok && (w->spring_min = doubles(springs)) && (w->spring_max = doubles(springs)) && (w->limit_force = doubles(springs));
    ok = ok && (w->reactions = doubles(3 * (int64_t)w->pin_count));
    ok = ok && (w->row_dof = qpc_calloc((size_t)all + 1, sizeof *w->row_dof));
    ok = ok && (w->spring_node = qpc_calloc((size_t)springs + 1, sizeof *w->spring_node));
    ok = ok && (!cloth || (w->spring_other = qpc_calloc((size_t)springs + 1, sizeof *w->spring_other)));
    ok = ok && (!cloth || (w->spring_place = qpc_calloc((size_t)springs + 1, sizeof *w->spring_place)));
    ok = ok && (w->touched = qpc_calloc((size_t)free_nodes + 1, 1)) && (w->lost = qpc_calloc((size_t)free_nodes + 1, 1));
    ok = ok && (w->limit_on = qpc_calloc((size_t)springs + 1, 1)) && (w->giving = qpc_calloc((size_t)springs + 1, 1));
    ok = ok && (w->pin_of = qpc_calloc((size_t)free_nodes + 1, sizeof *w->pin_of));
    ok = ok && (w->pins = qpc_calloc((size_t)w->pin_count + 1, sizeof *w->pins));
    ok = ok && (w->pin_node = qpc_calloc((size_t)w->pin_count + 1, sizeof *w->pin_node));
    ok = ok && (w->env.substep == NULL || qpc_array_reserve(&w->substates, SUBSTATES * (1 + n)));
    if (rigid > 0) {
        ok = ok && (w->rigids = qpc_calloc((size_t)rigid, sizeof *w->rigids));
        ok = ok && (w->pose = qpc_calloc((size_t)rigid, sizeof *w->pose)) && (w->pose1 = qpc_calloc((size_t)rigid, sizeof *w->pose1));
        ok = ok && (w->row_turn = qpc_calloc((size_t)all, sizeof *w->row_turn));
        ok = ok && (w->arm = doubles(3 * (int64_t)w->live_count));
    }
    if (!ok)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a world of %lld nodes", (long long)all);
    return qpc_hash64_create(&w->hasher, err);
}

/// A cable, cloth or soft body: its particles and springs.
static void place_particles(qpc_world *w, qpc_body *body, const qpc_body_def *def, int32_t *spring) {
    int32_t n = def->node_count;
    memcpy(w->x + 3 * body->first_node, def->nodes, (size_t)(3 * n) * sizeof(double));
    memcpy(w->v + 3 * body->first_node, def->velocities, (size_t)(3 * n) * sizeof(double));
    memcpy(w->mass + body->first_node, def->masses, (size_t)n * sizeof(double));
    body->first_spring = *spring;
    body->spring_count = def->springs.count;
    body->stretch_count = def->springs.stretch_count;
    body->mesh = def->mesh != NULL ? qpc_mesh_ref(def->mesh) : NULL;
    body->tets = def->tets != NULL ? qpc_mesh_ref(def->tets) : NULL;
    for (int32_t s = 0; s < def->springs.count; s++, (*spring)++) {
        bool row = def->springs.node == NULL; // a cable
        w->spring_node[*spring] = body->first_node + (row ? s : def->springs.node[s]);
        if (w->spring_other != NULL) w->spring_other[*spring] = body->first_node + (row ? s + 1 : def->springs.other[s]);
        w->stiffness[*spring] = def->sheet.count > 0 ? 0.0 : def->springs.stiffness[s];
        if (w->base != NULL) w->base[*spring] = def->springs.stiffness[s];
        w->rest_length[*spring] = def->springs.rest_length[s];
        w->spring_max[*spring] = HUGE_VAL;
    }
}

static qpc_status place_solid(qpc_world *w, int32_t index, const qpc_body_def *def, qpc_error *err) {
    qpc_body *body = &w->bodies[index];
    const double *vertices = def->obstacle ? NULL : qpc_mesh_vertices(def->mesh);
    body->mesh = def->obstacle ? NULL : qpc_mesh_ref(def->mesh);
    body->obstacle = def->obstacle;
    body->shape = def->shape;
    body->responds = def->responds;
    w->responds = w->responds || def->responds;
    body->position = def->position;
    memcpy(body->rotation, def->rotation, sizeof body->rotation);
    body->velocity = def->velocity;
    body->angular_velocity = def->angular_velocity;
    body->hold = 1.0;
    body->local = doubles(3 * (int64_t)def->node_count);
    if (body->local == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the vertices of body %d", index);
    if (def->obstacle) qpc_obstacle_frame(&def->shape, body->local);
    for (int32_t k = 0; k < 3 * def->node_count && !def->obstacle; k++) body->local[k] = def->scale * vertices[k];
    qpc_motion_place(w, index, 0.0, 1.0);
    size_t first = 3 * (size_t)body->first_node, count = 3 * (size_t)body->node_count;
    memcpy(w->x + first, w->x1 + first, count * sizeof(double));
    for (size_t k = first; k < first + count; k++)
        if (!isfinite(w->x[k]) || fabs(w->x[k]) > 1e15)
            return qpc_fail(err, QPC_ERR_INVALID, "body %d has a vertex beyond 1e15 m", index);
    if (body->motion == QPC_STATIC) {
        qpc_free(body->local);
        body->local = NULL;
    }
    return QPC_OK;
}

static qpc_status place_bodies(qpc_world *w, const qpc_scene_def *def, qpc_error *err) {
    static const qpc_motion_kind order[] = {QPC_DYNAMIC, QPC_RIGID, QPC_KINEMATIC, QPC_STATIC};
    int32_t node = 0, spring = 0;
    for (int pass = 0; pass < 4; pass++)
        for (int32_t i = 0; i < def->bodies.count; i++) {
            const qpc_body_def *from = &def->bodies.data[i];
            qpc_body *body = &w->bodies[i];
            if (from->motion != order[pass]) continue;
            memcpy(body->name, from->name, sizeof body->name);
            body->motion = from->motion;
            body->material = from->material_index;
            body->radius = from->radius;
            body->rigid = -1;
            body->self_exclusion = from->self_exclusion;
            if (from->motion == QPC_DYNAMIC && from->mesh != NULL) // along the mesh as it was uploaded
                body->self_exclusion = (from->self_exclusion < 0.0 ? acos(-1.0) * from->radius : from->self_exclusion) / from->scale;
            body->first_node = node;
            body->node_count = from->node_count;
            node += from->node_count;
            if (from->motion == QPC_DYNAMIC)
                place_particles(w, body, from, &spring);
            else {
                qpc_status st = from->motion == QPC_RIGID ? qpc_rigid_create(w, i, from, err) : place_solid(w, i, from, err);
                if (st != QPC_OK) return st;
            }
        }
    w->springs.node = w->spring_node;
    w->springs.stiffness = w->stiffness;
    w->springs.base = w->base;
    w->springs.rest_length = w->rest_length;
    w->springs.other = w->spring_other;
    w->springs.place = w->spring_place;
    for (int32_t i = 0; i < def->limits.count; i++) {
        const qpc_limit_def *limit = &def->limits.data[i];
        const qpc_body *body = &w->bodies[limit->body];
        for (int32_t s = body->first_spring; s < body->first_spring + body->stretch_count; s++) {
            w->spring_min[s] = limit->min * w->rest_length[s];
            w->spring_max[s] = limit->max * w->rest_length[s];
        }
        w->any_limit = true;
    }
    if (w->any_limit && qpc_is_implicit(w)) {
        w->springs.least = w->spring_min;
        w->springs.most = w->spring_max;
    }
    for (int32_t i = 0; i < w->node_count; i++) w->row_dof[i] = i < w->free_count ? 3 * i : -1;
    for (int32_t i = 0; i < w->node_count && w->rigid_count > 0; i++) w->row_turn[i] = -1;
    qpc_rigid_number(w);
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_body *body = &w->bodies[w->rigids[i].body];
        for (int32_t k = body->first_node; k < body->first_node + body->node_count; k++) {
            w->row_dof[k] = w->rigids[i].dof;
            w->row_turn[k] = w->rigids[i].dof + 3;
        }
    }
    for (int32_t i = 0; i < w->free_count; i++) w->pin_of[i] = -1;
    for (int32_t i = 0; i < w->pin_count; i++) {
        int32_t at = w->bodies[def->fixed.data[i].body].first_node + def->fixed.data[i].node;
        w->pin_node[i] = w->pins[i].node = at;
        w->pins[i].target = v3_load(w->x + 3 * at);
        w->pins[i].hold = 1.0;
        w->row_dof[at] = -1;
        w->pin_of[at] = i;
    }
    return QPC_OK;
}

static qpc_status keep_laws(qpc_world *w, const qpc_material_table *table, qpc_error *err) {
    int32_t n = w->material_count = table->count;
    w->laws = qpc_alloc_array((size_t)n * (size_t)n, sizeof *w->laws);
    if (w->laws == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for contact laws");
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++) {
            qpc_contact_law law = w->laws[i * n + k] = table->law[i][k];
            w->rubs = w->rubs || law.friction > 0.0;
            w->bounces = w->bounces || law.restitution > 0.0;
        }
    return QPC_OK;
}

static int by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/// The two nodes of a pair that K couples: springs, then edges of tetrahedra (some more than once).
static void coupled(const qpc_world *w, int64_t pair, int32_t ret[2]) {
    static const int EDGE[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    if (pair < w->springs.count) {
        ret[0] = w->spring_node[pair];
        ret[1] = qpc_springs_other(&w->springs, (int32_t)pair);
        return;
    }
    const int32_t *node = w->softs.node + 4 * ((pair - w->springs.count) / 6);
    const int *edge = EDGE[(pair - w->springs.count) % 6];
    ret[0] = node[edge[0]];
    ret[1] = node[edge[1]];
}

/// What K couples each pin to.
static qpc_status find_neighbours(qpc_world *w, qpc_error *err) {
    int64_t pairs = w->springs.count + 6 * (int64_t)w->softs.tets.count;
    int32_t count = 0, end[2];
    for (int32_t i = 0; i < w->pin_count; i++) w->pins[i].count = 1;
    for (int64_t s = 0; s < pairs && w->pin_count > 0; s++) {
        coupled(w, s, end);
        for (int k = 0; k < 2; k++)
            if (w->pin_of[end[k]] >= 0) w->pins[w->pin_of[end[k]]].count++;
    }
    for (int32_t i = 0; i < w->pin_count; i++) {
        w->pins[i].first = count;
        count += w->pins[i].count;
        w->pins[i].count = 0;
    }
    w->pin_other = qpc_calloc((size_t)count + 1, sizeof *w->pin_other);
    w->pin_block = doubles(9 * (int64_t)count);
    if (w->pin_other == NULL || w->pin_block == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d pins", w->pin_count);
    for (int32_t i = 0; i < w->pin_count; i++) w->pin_other[w->pins[i].first + w->pins[i].count++] = w->pins[i].node;
    for (int64_t s = 0; s < pairs && w->pin_count > 0; s++) {
        coupled(w, s, end);
        for (int k = 0; k < 2; k++) {
            if (w->pin_of[end[k]] < 0) continue;
            qpc_pin *pin = &w->pins[w->pin_of[end[k]]];
            w->pin_other[pin->first + pin->count++] = end[1 - k];
        }
    }
    for (int32_t i = 0; i < w->pin_count; i++) { // ascending, each once
        qpc_pin *pin = &w->pins[i];
        int32_t *list = w->pin_other + pin->first, kept = 0;
        qsort(list, (size_t)pin->count, sizeof *list, by_value);
        for (int32_t k = 0; k < pin->count; k++)
            if (k == 0 || list[k] != list[k - 1]) list[kept++] = list[k];
        pin->count = kept;
    }
    return QPC_OK;
}

/// K: a band for cables and rigid bodies alone, else sparse.
static qpc_status make_system(qpc_world *w, qpc_error *err) {
    if (w->spring_other == NULL) {
        int32_t band = qpc_rigid_band(w), more = qpc_loads_band(w);
        return qpc_linsys_resize(&w->sys, 3 * w->block_count, more > band ? more : band, err);
    }
    int32_t *start, *row;
    qpc_softs *s = &w->softs;
    qpc_status st = qpc_tets_pattern(&w->springs, &s->tets, w->free_count, &start, &row, w->spring_place, s->place, err);
    if (st != QPC_OK) return st;
    if (w->rigid_count > 0) st = qpc_rigid_add_pattern(w, &start, &row, err);
    uint8_t *inside = st == QPC_OK ? qpc_alloc_array((size_t)w->block_count, 1) : NULL;
    if (st == QPC_OK && inside == NULL) st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for the order of %d nodes", w->block_count);
    if (st == QPC_OK) qpc_softs_mark_inside(w, inside);
    if (st == QPC_OK) st = qpc_linsys_resize_soft(&w->sys, 3 * w->block_count, start, row, inside, err);
    qpc_free(inside);
    qpc_free(start);
    qpc_free(row);
    return st;
}

/// Smallest thickness of a pair that can touch: the unit of the tolerances of a step.
/// Of a sphere or capsule the radius is its size: what is told apart near it is so much finer.
static const double ROUND_FINENESS = 0.01;

static double smallest_separation(const qpc_scene_def *def) {
    double cable = HUGE_VAL, other = HUGE_VAL;
    for (int32_t i = 0; i < def->bodies.count; i++) {
        const qpc_body_def *body = &def->bodies.data[i];
        double *least = body->motion >= QPC_DYNAMIC ? &cable : &other;
        *least = fmin(*least, body->round ? ROUND_FINENESS * body->radius : body->radius);
    }
    if (cable == HUGE_VAL) return 1e-3;
    return fmin(2.0 * cable, cable + other);
}

/// K need not be factored to be certified: it is not less than the masses, or 1 where a node is fixed.
static qpc_status make_floor(qpc_world *w, qpc_error *err) {
    if ((w->mass_floor = doubles(3 * (int64_t)w->block_count)) == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the masses of %d nodes", w->free_count);
    for (int32_t i = 0; i < 3 * w->free_count; i++) w->mass_floor[i] = w->row_dof[i / 3] < 0 ? 1.0 : w->mass[i / 3];
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const double *I = w->rigids[i].inertia.moment;
        for (int32_t a = 0; a < 3; a++) {
            w->mass_floor[w->rigids[i].dof + a] = w->rigids[i].inertia.mass;
            w->mass_floor[w->rigids[i].dof + 3 + a] = (1.0 - 1e-12) * fmin(I[0], fmin(I[1], I[2]));
        }
    }
    for (int32_t i = 0; i < w->load_count; i++) { // load stiffness may take its share of the masses (TJ11)
        const qpc_pressed *s = &w->loads[i].pressed;
        for (int32_t k = 3 * s->first_node; k < 3 * (s->first_node + s->node_count) && k < 3 * w->free_count; k++)
            if (w->row_dof[k / 3] >= 0) w->mass_floor[k] *= 1.0 - QPC_PRESSED_SHARE;
    }
    w->sys.least = w->mass_floor;
    return QPC_OK;
}

/// M for impacts, factored once.
static qpc_status make_inertia(qpc_world *w, qpc_error *err) {
    if (!w->bounces) return QPC_OK;
    qpc_status st = qpc_linsys_resize(&w->inertia, 3 * w->block_count, w->rigid_count > 0 ? 2 : 0, err);
    if (st != QPC_OK) return st;
    qpc_rigid_add_masses(w, w->pose, &w->inertia); // anew where something bounces
    for (int32_t i = 0; i < 3 * w->free_count; i++) qpc_linsys_add(&w->inertia, i, i, w->mass[i / 3]);
    return qpc_linsys_factor(&w->inertia, err);
}

static void begin_run(qpc_world *w) {
    double kinetic, elastic;
    w->energy = w->energy_start = qpc_world_energy(w, w->x, w->v, w->pose, &kinetic, NULL, &elastic);
    w->kinetic_start = kinetic;
    w->elastic_most = elastic;
    w->height_low = HUGE_VAL;
    w->height_high = -HUGE_VAL;
    w->hash = w->scene_hash;
    w->hash = qpc_world_state_hash(w);
    qpc_springs_tension(&w->springs, w->x, w->tension);
}

static qpc_status create(const qpc_value *scene, const qpc_scene_def *def, qpc_world *w, qpc_scene_report *report,
                         qpc_error *err) {
    w->dt = def->dt;
    w->gravity = def->gravity;
    w->integrator = def->integrator;
    w->solver = def->solver;
    w->scene_hash = def->hash;
    w->min_separation = smallest_separation(def);
    w->warm_h = def->dt;
    qpc_status st = qpc_value_copy(scene, &w->scene);
    if (st != QPC_OK) return qpc_fail(err, st, "no memory for the scene");
    if ((st = allocate(w, def, err)) != QPC_OK) return st;
    if ((st = keep_laws(w, def->materials, err)) != QPC_OK) return st;
    if ((st = place_bodies(w, def, err)) != QPC_OK) return st;
    if ((st = qpc_still_make(w, err)) != QPC_OK || (st = qpc_softs_make(w, def, err)) != QPC_OK) return st;
    qpc_elastic_check(w, report);
    if ((st = qpc_joints_make(w, def, err)) != QPC_OK) return st;
    if ((st = qpc_loads_make(w, def, err)) != QPC_OK) return st;
    if ((st = find_neighbours(w, err)) != QPC_OK) return st;
    if ((st = make_system(w, err)) != QPC_OK) return st;
    if ((st = qpc_sheets_make(w, def, err)) != QPC_OK) return st;
    if ((st = qpc_position_check(w, &w->solver, "solver.name", err)) != QPC_OK) return st;
    if ((st = qpc_obstacles_check_solver(w, &w->solver, "solver.name", err)) != QPC_OK) return st;
    if ((st = make_inertia(w, err)) != QPC_OK) return st;
    if ((st = make_floor(w, err)) != QPC_OK) return st;
    if ((st = qpc_integrate_make(w, err)) != QPC_OK) return st;
    if ((st = qpc_world_make_detector(w, NULL, &w->detector, err)) != QPC_OK) return st;
    if ((st = qpc_start_check(w, def->push_out, def->push_limit, report, err)) != QPC_OK) return st;
    begin_run(w);
    return QPC_OK;
}

qpc_status qpc_world_create(const qpc_value *scene, const qpc_world_env *env, qpc_world **ret, qpc_scene_report *report,
                            qpc_error *err) {
    qpc_scene_report unused;
    qpc_scene_def def;
    if (report == NULL) report = &unused;
    memset(report, 0, sizeof *report);
    qpc_status st = qpc_scene_def_read(scene, env, &def, report, err);
    if (st != QPC_OK) return st;
    qpc_world *w = qpc_calloc(1, sizeof *w);
    if (w == NULL)
        st = qpc_fail(err, QPC_ERR_MEMORY, "no memory for a world");
    else {
        w->env = *env;
        st = create(scene, &def, w, report, err);
    }
    qpc_scene_def_fini(&def);
    if (st != QPC_OK) {
        qpc_world_destroy(w);
        return st;
    }
    *ret = w;
    return QPC_OK;
}

// ---- reading ----

size_t qpc_world_memory(const qpc_world *w) {
    size_t per_node = 15 * sizeof(double) + sizeof(int32_t);
    size_t rigid = (size_t)w->rigid_count * (sizeof *w->rigids + 2 * sizeof *w->pose + 6 * 8 * sizeof(double));
    size_t per_free = 21 * sizeof(double) + 12 * (size_t)(w->sys.bandwidth + 1) * sizeof(double);
    if (w->plain != NULL) per_free += 9 * sizeof(double) + 1;
    size_t per_spring = 6 * sizeof(double) + 3 * sizeof(int32_t) + 1;
    int64_t entries;
    qpc_linsys_values(&w->sys, &entries);
    if (w->sys.kind == QPC_LINSYS_BAND) entries = 0; // in per_free
    double factor = w->sys.sparse != NULL ? qpc_factor_entries(w->sys.sparse) : 0.0;
    return sizeof *w + rigid + qpc_sheets_memory(w) + qpc_softs_memory(w) + (size_t)w->springs.count * per_spring + (size_t)entries * 32 + (size_t)factor * 12 +
           (size_t)w->node_count * per_node + (size_t)w->free_count * per_free + w->arena.high_water +
           (size_t)w->rows.nnz_capacity * 12 + (size_t)w->rows.m_capacity * 48 +
           (size_t)(w->near.capacity + w->probe.capacity + w->held.capacity) * sizeof(qpc_contact);
}

int64_t qpc_world_step_number(const qpc_world *w) { return w->step; }
double qpc_world_time(const qpc_world *w) { return w->time; }
double qpc_world_dt(const qpc_world *w) { return w->dt; }
uint64_t qpc_world_hash(const qpc_world *w) { return w->hash; }
uint64_t qpc_world_scene_hash(const qpc_world *w) { return w->scene_hash; }
int32_t qpc_world_body_count(const qpc_world *w) { return w->body_count; }
int32_t qpc_world_node_count(const qpc_world *w) { return w->node_count; }
const double *qpc_world_positions(const qpc_world *w) { return w->x; }
const double *qpc_world_velocities(const qpc_world *w) { return w->v; }
const double *qpc_world_masses(const qpc_world *w) { return w->mass; }
const qpc_value *qpc_world_scene(const qpc_world *w) { return &w->scene; }

qpc_body_info qpc_world_body(const qpc_world *w, int32_t index) {
    static const char *const kinds[] = {"static", "kinematic", "cable", "rigid"};
    const qpc_body *body = &w->bodies[index];
    bool surface = body->motion == QPC_DYNAMIC && body->mesh != NULL;
    return (qpc_body_info){
        .name = body->name,
        .kind = body->obstacle ? "obstacle" : body->tet_count > 0 ? "soft" : surface ? "cloth" : kinds[body->motion],
        .first_node = body->first_node,
        .node_count = body->node_count,
        .element_count = body->mesh != NULL ? (int32_t)qpc_mesh_element_count(body->mesh) : body->obstacle || body->core_count > 0 ? 0 : body->node_count - 1,
        .nodes_per_element = body->mesh != NULL ? 3 : 2,
        .radius = body->radius,
        .first_spring = body->first_spring,
        .spring_count = body->spring_count,
        .mesh = body->mesh,
        .tets = body->tets,
        .moves = body->motion != QPC_STATIC,
        .removed = body->gone ? body->gone_since : -1,
    };
}

const double *qpc_world_tensions(const qpc_world *w, int32_t *ret_count) {
    *ret_count = w->springs.count;
    return w->tension;
}

const qpc_contact_info *qpc_world_contacts(const qpc_world *w, int32_t *ret_count) {
    *ret_count = w->contact_info_count;
    return w->contact_info;
}

qpc_still_reason qpc_world_still(const qpc_world *w, int32_t body) { return (qpc_still_reason)w->stuck[body]; }

bool qpc_world_all_stood(const qpc_world *w) { return w->all_stood; }

const qpc_conflict_info *qpc_world_conflicts(const qpc_world *w, int32_t *ret_count) {
    *ret_count = w->conflict_info_count;
    return w->conflict_info;
}

const double *qpc_world_reactions(const qpc_world *w, const int32_t **ret_node, int32_t *ret_count) {
    *ret_node = w->pin_node;
    *ret_count = w->pin_count;
    return w->reactions;
}

const double *qpc_world_limit_forces(const qpc_world *w, int32_t *ret_count) {
    *ret_count = w->springs.count;
    return w->limit_force;
}
