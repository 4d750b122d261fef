/// Reading joints (attachments, ball joints, hinges and tendons among the constraints of a scene) and loads (docs/scene.md).
#include "engine/world/scene_read.h"

#include "engine/solver/rows.h"

#include <stdio.h>

static const char *const ATTACH_KEYS[] = {"kind", "points", NULL};
static const char *const BALL_KEYS[] = {"kind", "body", "other", "at", NULL};
static const char *const HINGE_KEYS[] = {"kind", "body", "other", "at", "axis", NULL};
static const char *const TENDON_KEYS[] = {"kind", "points", "length", "equal", NULL};
static const char *const POINT_KEYS[] = {"body", "node", "at", NULL};

static qpc_status push_point(qpc_scene_def *def, qpc_point_def point, const char *where, qpc_error *err) {
    if (!qpc_array_push(&def->points, point)) return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory");
    return QPC_OK;
}

/// {body, node}, {body, at}, {body}: there where the first point is, or {at}: of the world.
static qpc_status read_point(const qpc_value *map, const char *where, qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    qpc_point_def point = {.body = -1, .node = -1};
    const qpc_value *v;
    if (map->kind != QPC_MAP)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a point such as {body: \"cable\", node: -1} or {body: \"box\", at: [x, y, z]}");
    qpc_status st = qpc_map_check_keys(map, where, POINT_KEYS, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "body");
    if ((v = qpc_map_get(map, "body")) != NULL && (st = qpc_scene_find_body(def, v, path, &point.body, err)) != QPC_OK) return st;
    const qpc_body_def *body = point.body >= 0 ? &def->bodies.data[point.body] : NULL;
    qpc_path_join(path, where, "at");
    if ((v = qpc_map_get(map, "at")) != NULL) {
        if ((st = qpc_read_vec3(v, path, &point.at, err)) != QPC_OK) return st;
        point.placed = true;
    }
    qpc_path_join(path, where, "node");
    if ((v = qpc_map_get(map, "node")) != NULL) {
        int64_t node;
        if (body == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, path, "a node needs a body");
        if (point.placed) return qpc_fail_at(err, QPC_ERR_INVALID, where, "give node or at, not both");
        if ((st = qpc_read_int(v, path, -(int64_t)body->node_count, (int64_t)body->node_count - 1, &node, err)) != QPC_OK) return st;
        point.node = (int32_t)(node < 0 ? node + body->node_count : node);
    } else if (body == NULL && !point.placed)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give body, at or both");
    else if (body != NULL && body->motion == QPC_DYNAMIC)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "a point of a cable, of cloth or of a soft body is one of its nodes: give node");
    return push_point(def, point, where, err);
}

static qpc_status read_points(const qpc_value *list, const char *where, int32_t least, int32_t most, qpc_scene_def *def,
                              qpc_error *err) {
    char path[QPC_PATH_SIZE];
    int32_t count = list != NULL && list->kind == QPC_LIST ? list->list.count : 0;
    if (count < least || count > most)
        return least == most ? qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a list of %d points", least)
                             : qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a list of %d to %d points, there %s %d", least, most,
                                           count == 1 ? "is" : "are", count);
    for (int32_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "%.100s[%d]", where, i);
        qpc_status st = read_point(&list->list.items[i], path, def, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

/// body, other (left out: the world) and at: two points, there.
static qpc_status read_pair(const qpc_value *map, const char *where, qpc_scene_def *def, qpc_error *err) {
    static const char *const keys[] = {"body", "other"};
    char path[QPC_PATH_SIZE];
    qpc_point_def point = {.node = -1, .placed = true};
    const qpc_value *v = qpc_map_get(map, "at");
    qpc_path_join(path, where, "at");
    if (v == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted: where the joint is, [x, y, z]");
    qpc_status st = qpc_read_vec3(v, path, &point.at, err);
    for (int i = 0; i < 2 && st == QPC_OK; i++) {
        v = qpc_map_get(map, keys[i]);
        qpc_path_join(path, where, keys[i]);
        point.body = -1;
        if (i == 0 || v != NULL) st = qpc_scene_find_body(def, v, path, &point.body, err);
        if (st == QPC_OK && point.body >= 0 && def->bodies.data[point.body].motion == QPC_DYNAMIC)
            st = qpc_fail_at(err, QPC_ERR_INVALID, path, "joints are for rigid, kinematic and static bodies; a node is held by attach");
        if (st == QPC_OK) st = push_point(def, point, where, err);
    }
    return st;
}

static qpc_status read_axis(const qpc_value *v, const char *where, qpc_vec3 *ret, qpc_error *err) {
    if (v == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted: what the hinge turns about, [x, y, z]");
    qpc_status st = qpc_read_vec3(v, where, ret, err);
    if (st != QPC_OK) return st;
    double length = v3_norm(*ret);
    if (!(length > 1e-100)) return qpc_fail_at(err, QPC_ERR_INVALID, where, "an axis must not be zero");
    *ret = v3_scale(1.0 / length, *ret);
    return QPC_OK;
}

qpc_status qpc_joint_def_read(const qpc_value *map, const char *where, qpc_joint_kind kind, int32_t index, qpc_scene_def *def,
                              qpc_error *err) {
    static const char *const *const keys[] = {ATTACH_KEYS, BALL_KEYS, HINGE_KEYS, TENDON_KEYS};
    char path[QPC_PATH_SIZE];
    const qpc_value *v;
    qpc_status st = qpc_map_check_keys(map, where, keys[kind], err);
    if (st != QPC_OK) return st;
    qpc_joint_def joint = {.kind = kind, .constraint = index, .first = def->points.count};
    qpc_path_join(path, where, "axis");
    if (kind == QPC_JOINT_HINGE && (st = read_axis(qpc_map_get(map, "axis"), path, &joint.axis, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "length");
    if ((v = qpc_map_get(map, "length")) != NULL && (st = qpc_read_positive(v, path, &joint.length, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "equal");
    if ((v = qpc_map_get(map, "equal")) != NULL && (st = qpc_read_bool(v, path, &joint.equal, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "points");
    if (kind == QPC_JOINT_BALL || kind == QPC_JOINT_HINGE) st = read_pair(map, where, def, err);
    else st = read_points(qpc_map_get(map, "points"), path, 2, kind == QPC_JOINT_TENDON ? QPC_ROW_POINTS : 2, def, err);
    if (st != QPC_OK) return st;
    joint.count = def->points.count - joint.first;
    if (!qpc_array_push(&def->joints, joint)) return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory");
    return QPC_OK;
}

// ---- loads ----

static const char *const LOAD_KINDS[] = {"spring", "drag", "pressure", "damping", "wind", NULL};
static const char *const SPRING_KEYS[] = {"kind", "points", "stiffness", "rest_length", "damping", NULL};
static const char *const PRESSURE_KEYS[] = {"kind", "body", "pressure", NULL};
static const char *const DAMPING_KEYS[] = {"kind", "body", "per_stiffness", NULL};
static const char *const WIND_KEYS[] = {"kind", "body", "velocity", "density", "drag", "tangential", NULL};
static const char *const DRAG_KEYS[] = {"kind", "body", "per_mass", "coefficient", NULL};

/// A number from 0, if it is there.
static qpc_status read_from_zero(const qpc_value *map, const char *where, const char *key, double *ret, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    const qpc_value *v = qpc_map_get(map, key);
    qpc_path_join(path, where, key);
    return v != NULL ? qpc_read_real(v, path, 0.0, QPC_SCENE_MAX_NUMBER, ret, err) : QPC_OK;
}

static qpc_status read_spring(const qpc_value *map, const char *where, qpc_load_def *load, qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    qpc_status st = qpc_map_check_keys(map, where, SPRING_KEYS, err);
    load->rest_length = -1.0;
    if (st == QPC_OK) st = read_from_zero(map, where, "stiffness", &load->stiffness, err);
    if (st == QPC_OK) st = read_from_zero(map, where, "damping", &load->damping, err);
    if (st == QPC_OK) st = read_from_zero(map, where, "rest_length", &load->rest_length, err);
    if (st == QPC_OK && load->stiffness == 0.0 && load->damping == 0.0)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give stiffness, damping or both, greater than 0");
    qpc_path_join(path, where, "points");
    return st == QPC_OK ? read_points(qpc_map_get(map, "points"), path, 2, 2, def, err) : st;
}

static qpc_status read_drag(const qpc_value *map, const char *where, qpc_load_def *load, const qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    const qpc_value *v;
    qpc_status st = qpc_map_check_keys(map, where, DRAG_KEYS, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "body");
    load->body = -1;
    if ((v = qpc_map_get(map, "body")) != NULL && (st = qpc_scene_find_body(def, v, path, &load->body, err)) != QPC_OK) return st;
    qpc_motion_kind motion = load->body >= 0 ? def->bodies.data[load->body].motion : QPC_DYNAMIC;
    if (motion != QPC_DYNAMIC && motion != QPC_RIGID)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "drag is for bodies that forces move");
    if ((qpc_map_get(map, "per_mass") != NULL) == (qpc_map_get(map, "coefficient") != NULL))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give one of per_mass (1/s) and coefficient (N s/m)");
    st = read_from_zero(map, where, "per_mass", &load->per_mass, err);
    return st == QPC_OK ? read_from_zero(map, where, "coefficient", &load->damping, err) : st;
}

/// The load of that kind that a body has already, or NULL.
static const qpc_load_def *other_on(const qpc_scene_def *def, qpc_load_kind kind, int32_t body) {
    for (int32_t i = 0; i < def->loads.count; i++)
        if (def->loads.data[i].kind == kind && def->loads.data[i].body == body) return &def->loads.data[i];
    return NULL;
}

static qpc_status read_pressure(const qpc_value *map, const char *where, qpc_load_def *load, const qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    qpc_status st = qpc_map_check_keys(map, where, PRESSURE_KEYS, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "body");
    if ((st = qpc_scene_find_body(def, qpc_map_get(map, "body"), path, &load->body, err)) != QPC_OK) return st;
    const qpc_body_def *body = &def->bodies.data[load->body];
    if ((body->motion != QPC_DYNAMIC && body->motion != QPC_RIGID) || body->mesh == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "pressure is for what has a surface and is moved by forces: cloth, soft and rigid bodies");
    const qpc_load_def *other = other_on(def, QPC_LOAD_PRESSURE, load->body);
    if (other != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "loads[%d] is its pressure already: give the difference of both sides once", other->index);
    qpc_path_join(path, where, "pressure");
    return qpc_read_real(qpc_map_get(map, "pressure"), path, -QPC_SCENE_MAX_NUMBER, QPC_SCENE_MAX_NUMBER, &load->pressure, err);
}

static qpc_status read_damping(const qpc_value *map, const char *where, qpc_load_def *load, const qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    qpc_status st = qpc_map_check_keys(map, where, DAMPING_KEYS, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "body");
    if ((st = qpc_scene_find_body(def, qpc_map_get(map, "body"), path, &load->body, err)) != QPC_OK) return st;
    if (def->bodies.data[load->body].tets == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, path, "damping by stiffness is for soft bodies");
    qpc_path_join(path, where, "per_stiffness");
    return qpc_read_real(qpc_map_get(map, "per_stiffness"), path, 0.0, QPC_SCENE_MAX_NUMBER, &load->per_stiffness, err);
}

static qpc_status read_wind(const qpc_value *map, const char *where, qpc_load_def *load, const qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    qpc_wind *wind = &load->wind;
    qpc_status st = qpc_map_check_keys(map, where, WIND_KEYS, err);
    if (st != QPC_OK) return st;
    *wind = (qpc_wind){.density = 1.2, .drag = 1.0};
    qpc_path_join(path, where, "body");
    if ((st = qpc_scene_find_body(def, qpc_map_get(map, "body"), path, &load->body, err)) != QPC_OK) return st;
    const qpc_body_def *body = &def->bodies.data[load->body];
    if (body->motion != QPC_DYNAMIC || body->mesh == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "wind is for cloth and soft bodies; rigid bodies and cables take drag, and forces of control");
    const qpc_load_def *other = other_on(def, QPC_LOAD_WIND, load->body);
    if (other != NULL) return qpc_fail_at(err, QPC_ERR_INVALID, path, "loads[%d] is its wind already: air moves one way at a time", other->index);
    qpc_path_join(path, where, "velocity");
    if ((st = qpc_read_vec3(qpc_map_get(map, "velocity"), path, &wind->velocity, err)) != QPC_OK) return st;
    if ((st = read_from_zero(map, where, "density", &wind->density, err)) != QPC_OK) return st;
    if ((st = read_from_zero(map, where, "drag", &wind->drag, err)) != QPC_OK) return st;
    return read_from_zero(map, where, "tangential", &wind->tangential, err);
}

qpc_status qpc_load_defs_read(const qpc_value *list, qpc_scene_def *def, qpc_error *err) {
    char path[QPC_PATH_SIZE], kind_path[QPC_PATH_SIZE];
    if (list->kind != QPC_LIST) return qpc_fail_at(err, QPC_ERR_INVALID, "loads", "wanted a list");
    for (int32_t i = 0; i < list->list.count; i++) {
        const qpc_value *map = &list->list.items[i];
        qpc_load_def load = {.index = i, .first = def->points.count};
        int32_t kind;
        (void)snprintf(path, sizeof path, "loads[%d]", i);
        qpc_path_join(kind_path, path, "kind");
        if (map->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted a map with a kind");
        qpc_status st = qpc_read_word(qpc_map_get(map, "kind"), kind_path, LOAD_KINDS, &kind, err);
        if (st == QPC_OK)
            st = kind == QPC_LOAD_SPRING ? read_spring(map, path, &load, def, err)
                 : kind == QPC_LOAD_DRAG     ? read_drag(map, path, &load, def, err)
                 : kind == QPC_LOAD_PRESSURE ? read_pressure(map, path, &load, def, err)
                 : kind == QPC_LOAD_DAMPING  ? read_damping(map, path, &load, def, err)
                                             : read_wind(map, path, &load, def, err);
        if (st != QPC_OK) return st;
        load.kind = (qpc_load_kind)kind;
        if (!qpc_array_push(&def->loads, load)) return qpc_fail_at(err, QPC_ERR_MEMORY, path, "no memory");
    }
    return QPC_OK;
}
