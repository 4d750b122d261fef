/// Obstacles: reading, checks, and the motion of their surface; see obstacles.h.
#include "engine/world/obstacles.h"
#include "engine/world/scene_read.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double MOST_TURN = 1.5707963267948966; // in a step, rad: detection tells turns below half of one apart, and what is owed adds half
static const char *const OBSTACLE_KEYS[] = {"kind", "name", "shape", "radius", "position", "rotation", "velocity", "angular_velocity", "material", "response", NULL};
static const char *const RESPONSES[] = {"rows", "velocity", NULL};
static const char *const SHAPES[] = {"plane", "sphere", "capsule", "box", "cylinder", NULL}; // qpc_implicit_kind
static const char *const AXES[] = {"x", "y", "z", NULL};
static const char *const SHAPE_KEYS[][6] = {
    {"kind", "axis", NULL}, {"kind", "radius", NULL}, {"kind", "radius", "length", "axis", NULL}, {"kind", "width", "height", "depth", NULL},
    {"kind", "radius", "length", "axis", NULL}};

/// A positive number of the map, or what stands in *ret.
static qpc_status read_size(const qpc_value *map, const char *where, const char *key, double *ret, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    const qpc_value *v = qpc_map_get(map, key);
    if (v == NULL) return QPC_OK;
    qpc_path_join(path, where, key);
    return qpc_read_positive(v, path, ret, err);
}

qpc_status qpc_shape_def_read(const qpc_value *map, const char *where, qpc_implicit *ret, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    int32_t kind, axis;
    if (map == NULL || map->kind != QPC_MAP)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a map such as {kind: \"sphere\", radius: 0.5}");
    qpc_path_join(path, where, "kind");
    qpc_status st = qpc_read_word(qpc_map_get(map, "kind"), path, SHAPES, &kind, err);
    if (st == QPC_OK) st = qpc_map_check_keys(map, where, SHAPE_KEYS[kind], err);
    if (st != QPC_OK) return st;
    qpc_implicit s = {.kind = (qpc_implicit_kind)kind, .radius = kind == QPC_IMPLICIT_SPHERE ? 0.5 : 0.3};
    axis = kind == QPC_IMPLICIT_PLANE ? 1 : 2;
    qpc_path_join(path, where, "axis");
    if (qpc_map_get(map, "axis") != NULL && (st = qpc_read_word(qpc_map_get(map, "axis"), path, AXES, &axis, err)) != QPC_OK) return st;
    s.axis = axis;
    double length = 2, size[3] = {1, 1, 1};
    st = read_size(map, where, "radius", &s.radius, err);
    if (st == QPC_OK) st = read_size(map, where, "length", &length, err);
    if (st == QPC_OK) st = read_size(map, where, "width", &size[0], err);
    if (st == QPC_OK) st = read_size(map, where, "height", &size[1], err);
    if (st == QPC_OK) st = read_size(map, where, "depth", &size[2], err);
    if (st != QPC_OK) return st;
    if (kind == QPC_IMPLICIT_BOX)
        for (int i = 0; i < 3; i++) s.half[i] = 0.5 * size[i];
    else if (kind == QPC_IMPLICIT_CAPSULE || kind == QPC_IMPLICIT_CYLINDER) s.half[axis] = 0.5 * length;
    *ret = s;
    return QPC_OK;
}

qpc_status qpc_obstacle_def_read(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    const qpc_value *v, *velocity = qpc_map_get(map, "velocity"), *turn = qpc_map_get(map, "angular_velocity");
    qpc_status st = qpc_map_check_keys(map, where, OBSTACLE_KEYS, err);
    if (st != QPC_OK) return st;
    body->obstacle = true;
    body->motion = velocity != NULL || turn != NULL ? QPC_KINEMATIC : QPC_STATIC;
    body->node_count = QPC_IMPLICIT_NODES;
    qpc_path_join(path, where, "shape");
    if ((st = qpc_shape_def_read(qpc_map_get(map, "shape"), path, &body->shape, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "response");
    if ((v = qpc_map_get(map, "response")) != NULL) {
        int32_t word;
        if ((st = qpc_read_word(v, path, RESPONSES, &word, err)) != QPC_OK) return st;
        body->responds = word == 1;
    }
    qpc_path_join(path, where, "radius");
    if ((v = qpc_map_get(map, "radius")) != NULL && (st = qpc_read_real(v, path, 0.0, QPC_SCENE_MAX_NUMBER, &body->radius, err)) != QPC_OK)
        return st;
    if ((st = qpc_read_place(map, where, body, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "velocity");
    if (velocity != NULL && (st = qpc_read_vec3(velocity, path, &body->velocity, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "angular_velocity");
    return turn != NULL ? qpc_read_vec3(turn, path, &body->angular_velocity, err) : QPC_OK;
}

qpc_status qpc_obstacle_check_turn(qpc_vec3 angular_velocity, double dt, const char *where, qpc_error *err) {
    double turn = v3_norm(angular_velocity) * dt;
    if (turn <= MOST_TURN) return QPC_OK;
    return qpc_fail_at(err, QPC_ERR_INVALID, where, "an obstacle would turn by %.3g rad in a step of %g s; it may by a quarter turn, %.4g", turn, dt, MOST_TURN);
}

qpc_status qpc_obstacles_check(const qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    int32_t answers = -1, rigid = -1;
    for (int32_t i = 0; i < def->bodies.count; i++) {
        const qpc_body_def *body = &def->bodies.data[i];
        if (body->motion == QPC_RIGID) rigid = i;
        if (!body->obstacle) continue;
        if (body->responds) answers = i;
        snprintf(path, sizeof path, "bodies[%d].angular_velocity", i);
        qpc_status st = qpc_obstacle_check_turn(body->angular_velocity, def->dt, path, err);
        if (st != QPC_OK) return st;
    }
    if (answers < 0 || rigid < 0) return QPC_OK;
    snprintf(path, sizeof path, "bodies[%d].response", answers);
    return qpc_fail_at(err, QPC_ERR_UNSUPPORTED, path, "the response \"velocity\" is for particles: bodies[%d] is rigid; use \"rows\"", rigid);
}

void qpc_obstacle_frame(const qpc_implicit *shape, double *local) {
    memset(local, 0, 3 * (size_t)QPC_IMPLICIT_NODES * sizeof *local);
    for (int i = 0; i < 3; i++) local[3 * (i + 1) + i] = qpc_implicit_reach(shape);
}

qpc_vec3 qpc_obstacle_spin(const qpc_world *w, const qpc_contact *c) {
    const qpc_body *body = &w->bodies[c->surface[1]];
    qpc_vec3 spin = {0, 0, 0};
    if (!body->obstacle || body->motion != QPC_KINEMATIC) return spin;
    const double *x = w->x + 3 * (int64_t)body->first_node, *v = w->v_frame + 3 * (int64_t)body->first_node;
    double reach = qpc_implicit_reach(&body->shape);
    for (int i = 1; i < QPC_IMPLICIT_NODES; i++) { // what turns n turns what lies along it
        qpc_vec3 axis = v3_scale(1 / reach, v3_sub(v3_load(x + 3 * i), v3_load(x)));
        spin = v3_madd(spin, c->offset * v3_dot(c->n, axis) / reach, v3_sub(v3_load(v + 3 * i), v3_load(v)));
    }
    return v3_madd(spin, -v3_dot(spin, c->n), c->n);
}
