/// world.control: bodies to remove, forces, targets, motions and parameters, all or nothing. Everything is read into
/// copies first and taken over when the whole map has proved good. Places in errors begin with `control`.
#include "engine/world/obstacles.h"
#include "engine/world/position.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PATH = QPC_PATH_SIZE };
static const char *const CONTROL_KEYS[] = {"remove", "forces", "clear_forces", "targets", "motions", "parameters", NULL};
static const char *const FORCE_KEYS[] = {"body", "nodes", "force", "torque", NULL};
static const char *const TARGET_KEYS[] = {"body", "node", "position", "velocity", NULL};
static const char *const MOTION_KEYS[] = {"body", "velocity", "angular_velocity", NULL};
static const char *const PARAMETER_KEYS[] = {"gravity", "dt", "solver", NULL};

typedef struct draft { // what would become of the world
    double *force;
    qpc_pin *pins;
    qpc_vec3 *velocity, *angular_velocity; // per body
    qpc_vec3 gravity;
    double dt;
    qpc_solver_def solver;
    bool *gone, removes;                    // per body; more of them than are
} draft;

/// The number of a body by its name or its number.
static qpc_status find_named(const qpc_world *w, const qpc_value *v, const char *path, int32_t *ret, qpc_error *err) {
    char text[64];
    if (v != NULL && v->kind == QPC_INT) {
        int64_t i;
        qpc_status st = qpc_read_int(v, path, 0, (int64_t)w->body_count - 1, &i, err);
        if (st == QPC_OK) *ret = (int32_t)i;
        return st;
    }
    if (v == NULL || v->kind != QPC_STR) return qpc_fail_unwanted(v, path, "a body: its name or its index", err);
    qpc_status st = qpc_read_text(v, path, text, sizeof text, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < w->body_count; i++)
        if (strcmp(w->bodies[i].name, text) == 0) {
            *ret = i;
            return QPC_OK;
        }
    const char *names[QPC_NAMES_SHOWN];
    int32_t count = w->body_count < QPC_NAMES_SHOWN ? w->body_count : QPC_NAMES_SHOWN;
    for (int32_t i = 0; i < count; i++) names[i] = w->bodies[i].name;
    return qpc_fail_no_body(text, path, names, count, w->body_count, err);
}

/// One that is there, and stays.
static qpc_status find_there(const qpc_world *w, const qpc_value *v, const char *path, const draft *d, int32_t *ret, qpc_error *err) {
    qpc_status st = find_named(w, v, path, ret, err);
    if (st != QPC_OK || !d->gone[*ret]) return st;
    const qpc_body *body = &w->bodies[*ret];
    if (!body->gone) return qpc_fail_at(err, QPC_ERR_INVALID, path, "body \"%s\" is removed by this control", body->name);
    return qpc_fail_at(err, QPC_ERR_INVALID, path, "body \"%s\" was removed after step %lld", body->name, (long long)body->gone_since);
}

static qpc_status find_body(const qpc_world *w, const qpc_value *map, const char *where, const draft *d, int32_t *ret, qpc_error *err) {
    char path[MAX_PATH];
    qpc_path_join(path, where, "body");
    return find_there(w, qpc_map_get(map, "body"), path, d, ret, err);
}

static qpc_status read_removals(const qpc_world *w, const qpc_value *list, draft *d, qpc_error *err) {
    char path[MAX_PATH];
    if (list->kind != QPC_LIST) return qpc_fail_at(err, QPC_ERR_INVALID, "control.remove", "wanted a list of bodies, by name or number");
    for (int32_t i = 0; i < list->list.count; i++) {
        int32_t index;
        (void)snprintf(path, sizeof path, "control.remove[%d]", i);
        qpc_status st = find_there(w, &list->list.items[i], path, d, &index, err);
        if (st != QPC_OK) return st;
        d->gone[index] = d->removes = true;
    }
    return QPC_OK;
}

/// Force at the centre and torque of a rigid body, along space axes.
static qpc_status read_rigid_force(const qpc_value *map, const char *where, int32_t dof, draft *d, qpc_error *err) {
    char path[MAX_PATH];
    qpc_vec3 part;
    static const char *const keys[2] = {"force", "torque"};
    if (qpc_map_get(map, "nodes") != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "a rigid body takes its force at the centre; leave nodes out");
    if (qpc_map_get(map, keys[0]) == NULL && qpc_map_get(map, keys[1]) == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give force (N), torque (N m) or both");
    for (int k = 0; k < 2; k++) {
        const qpc_value *v = qpc_map_get(map, keys[k]);
        if (v == NULL) continue;
        qpc_path_join(path, where, keys[k]);
        qpc_status st = qpc_read_vec3(v, path, &part, err);
        if (st != QPC_OK) return st;
        v3_store(d->force + dof + 3 * k, part);
    }
    return QPC_OK;
}

static qpc_status read_force(const qpc_world *w, const qpc_value *map, const char *where, draft *d, qpc_error *err) {
    char path[MAX_PATH];
    int32_t index, *nodes = NULL;
    int64_t count = 0;
    qpc_vec3 force;
    qpc_status st = qpc_map_check_keys(map, where, FORCE_KEYS, err);
    if (st == QPC_OK) st = find_body(w, map, where, d, &index, err);
    if (st != QPC_OK) return st;
    const qpc_body *body = &w->bodies[index];
    if (body->motion == QPC_RIGID) return read_rigid_force(map, where, w->rigids[body->rigid].dof, d, err);
    if (body->motion != QPC_DYNAMIC) return qpc_fail_at(err, QPC_ERR_INVALID, where, "only cables, cloth, soft and rigid bodies take forces");
    if (qpc_map_get(map, "torque") != NULL) return qpc_fail_at(err, QPC_ERR_INVALID, where, "only rigid bodies take a torque");
    qpc_path_join(path, where, "force");
    if ((st = qpc_read_vec3(qpc_map_get(map, "force"), path, &force, err)) != QPC_OK) return st;
    const qpc_value *list = qpc_map_get(map, "nodes");
    int32_t n = body->node_count;
    if (list == NULL) {
        for (int32_t k = 0; k < n; k++) v3_store(d->force + 3 * (body->first_node + k), force);
        return QPC_OK;
    }
    qpc_path_join(path, where, "nodes");
    st = qpc_read_int_matrix(list, path, 1, INT32_MAX, -(int64_t)n, (int64_t)n - 1, &nodes, &count, err); // naming a node twice is harmless
    if (st != QPC_OK) return st;
    for (int64_t i = 0; i < count; i++)
        v3_store(d->force + 3 * (body->first_node + (nodes[i] < 0 ? nodes[i] + n : nodes[i])), force);
    qpc_free(nodes);
    return QPC_OK;
}

static qpc_status read_target(const qpc_world *w, const qpc_value *map, const char *where, draft *d, qpc_error *err) {
    char path[MAX_PATH];
    int32_t index;
    int64_t node;
    qpc_status st = qpc_map_check_keys(map, where, TARGET_KEYS, err);
    if (st == QPC_OK) st = find_body(w, map, where, d, &index, err);
    if (st != QPC_OK) return st;
    const qpc_body *body = &w->bodies[index];
    qpc_path_join(path, where, "node");
    st = qpc_read_int(qpc_map_get(map, "node"), path, -(int64_t)body->node_count, (int64_t)body->node_count - 1, &node, err);
    if (st != QPC_OK) return st;
    int32_t at = body->first_node + (int32_t)(node < 0 ? node + body->node_count : node);
    qpc_pin *pin = NULL;
    for (int32_t i = 0; i < w->pin_count; i++)
        if (w->pins[i].node == at) pin = &d->pins[i];
    if (pin == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, path, "node %lld is not fixed; only fixed nodes have targets", (long long)node);
    const qpc_value *position = qpc_map_get(map, "position"), *velocity = qpc_map_get(map, "velocity");
    if ((position == NULL) == (velocity == NULL))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give position (reached by the end of the next step) or velocity");
    qpc_path_join(path, where, position != NULL ? "position" : "velocity");
    if (velocity != NULL) return qpc_read_vec3(velocity, path, &pin->velocity, err);
    pin->velocity = v3(0.0, 0.0, 0.0);
    pin->told = true;
    return qpc_read_vec3(position, path, &pin->target, err);
}

static qpc_status read_motion(const qpc_world *w, const qpc_value *map, const char *where, draft *d, qpc_error *err) {
    char path[MAX_PATH];
    int32_t index;
    const qpc_value *v;
    qpc_status st = qpc_map_check_keys(map, where, MOTION_KEYS, err);
    if (st == QPC_OK) st = find_body(w, map, where, d, &index, err);
    if (st != QPC_OK) return st;
    if (w->bodies[index].motion != QPC_KINEMATIC)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "only kinematic bodies have a motion");
    qpc_path_join(path, where, "velocity");
    if ((v = qpc_map_get(map, "velocity")) != NULL && (st = qpc_read_vec3(v, path, &d->velocity[index], err)) != QPC_OK) return st;
    qpc_path_join(path, where, "angular_velocity");
    if ((v = qpc_map_get(map, "angular_velocity")) != NULL) st = qpc_read_vec3(v, path, &d->angular_velocity[index], err);
    if (st == QPC_OK && w->bodies[index].obstacle) st = qpc_obstacle_check_turn(d->angular_velocity[index], d->dt, path, err);
    return st;
}

static qpc_status read_parameters(const qpc_value *map, draft *d, qpc_error *err) {
    const qpc_value *v;
    qpc_status st = qpc_map_check_keys(map, "control.parameters", PARAMETER_KEYS, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "gravity")) != NULL) st = qpc_read_vec3(v, "control.parameters.gravity", &d->gravity, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "dt")) != NULL) st = qpc_read_real(v, "control.parameters.dt", 1e-9, 1e6, &d->dt, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "solver")) != NULL) {
        if (v->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, "control.parameters.solver", "wanted a map");
        st = qpc_solver_def_read(v, "control.parameters.solver", &d->solver, err);
    }
    return st;
}

/// A longer step turns obstacles further.
static qpc_status check_turns(const qpc_world *w, const draft *d, qpc_error *err) {
    qpc_status st = QPC_OK;
    for (int32_t i = 0; i < w->body_count && st == QPC_OK; i++)
        if (w->bodies[i].obstacle) st = qpc_obstacle_check_turn(d->angular_velocity[i], d->dt, "control.parameters.dt", err);
    return st;
}

typedef qpc_status (*read_item)(const qpc_world *, const qpc_value *, const char *, draft *, qpc_error *);

static qpc_status read_list(const qpc_world *w, const qpc_value *control, const char *key, read_item read, draft *d,
                            qpc_error *err) {
    const qpc_value *list = qpc_map_get(control, key);
    char path[MAX_PATH];
    if (list == NULL) return QPC_OK;
    qpc_path_join(path, "control", key);
    if (list->kind != QPC_LIST) return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted a list of maps");
    for (int32_t i = 0; i < list->list.count; i++) {
        snprintf(path, sizeof path, "control.%s[%d]", key, i);
        if (list->list.items[i].kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted a map");
        qpc_status st = read(w, &list->list.items[i], path, d, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

static qpc_status read_control(const qpc_world *w, const qpc_value *control, draft *d, qpc_error *err) {
    const qpc_value *v;
    bool clear = false;
    if (control == NULL || control->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, "control", "a control is a map");
    qpc_status st = qpc_map_check_keys(control, "control", CONTROL_KEYS, err);
    if (st == QPC_OK && (v = qpc_map_get(control, "clear_forces")) != NULL) st = qpc_read_bool(v, "control.clear_forces", &clear, err);
    if (st != QPC_OK) return st;
    if ((v = qpc_map_get(control, "remove")) != NULL && (st = read_removals(w, v, d, err)) != QPC_OK) return st; // before all that names bodies
    if (clear) memset(d->force, 0, (size_t)w->block_count * 3 * sizeof(double));
    if ((st = read_list(w, control, "forces", read_force, d, err)) != QPC_OK) return st;
    if ((st = read_list(w, control, "targets", read_target, d, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(control, "parameters")) != NULL) { // before motions: how far those turn depends on dt
        if (v->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, "control.parameters", "wanted a map");
        if ((st = read_parameters(v, d, err)) != QPC_OK) return st;
    }
    if ((st = read_list(w, control, "motions", read_motion, d, err)) != QPC_OK) return st;
    return check_turns(w, d, err);
}

/// Energy jumps with gravity and with bodies that go: that is no drift of the solution.
static void begin_from(qpc_world *w) {
    double before = w->energy;
    w->energy = qpc_world_energy(w, w->x, w->v, w->pose, NULL, NULL, NULL);
    w->energy_start += w->energy - before;
}

/// detector: of what is left, NULL if nothing goes.
static void take_over(qpc_world *w, const draft *d, qpc_detector *detector) {
    memcpy(w->force, d->force, (size_t)w->block_count * 3 * sizeof(double));
    memcpy(w->pins, d->pins, (size_t)w->pin_count * sizeof *w->pins);
    for (int32_t i = 0; i < w->body_count; i++) {
        w->bodies[i].velocity = d->velocity[i];
        w->bodies[i].angular_velocity = d->angular_velocity[i];
    }
    w->dt = d->dt;
    if (d->solver.reach != w->solver.reach) w->near_valid = false;
    w->solver = d->solver;
    if (memcmp(&w->gravity, &d->gravity, sizeof w->gravity) != 0) {
        w->gravity = d->gravity;
        begin_from(w);
        w->height_low = HUGE_VAL;
        w->height_high = -HUGE_VAL;
    }
    if (detector == NULL) return;
    qpc_world_take_out(w, d->gone, detector);
    begin_from(w);
}

qpc_status qpc_world_control(qpc_world *w, const qpc_value *control, qpc_error *err) {
    draft d = {.gravity = w->gravity, .dt = w->dt, .solver = w->solver};
    size_t forces = (size_t)w->block_count * 3 * sizeof(double), pins = (size_t)w->pin_count * sizeof *d.pins;
    qpc_detector *detector = NULL;
    qpc_status st = QPC_ERR_MEMORY;
    d.gone = qpc_calloc((size_t)w->body_count + 1, sizeof *d.gone);
    d.force = qpc_alloc(forces);
    d.pins = qpc_alloc(pins);
    d.velocity = qpc_alloc_array((size_t)w->body_count, sizeof *d.velocity);
    d.angular_velocity = qpc_alloc_array((size_t)w->body_count, sizeof *d.angular_velocity);
    if (d.force == NULL || d.pins == NULL || d.velocity == NULL || d.angular_velocity == NULL || d.gone == NULL)
        qpc_fail(err, st, "no memory to read a control");
    else {
        memcpy(d.force, w->force, forces);
        if (pins > 0) memcpy(d.pins, w->pins, pins);
        for (int32_t i = 0; i < w->body_count; i++) {
            d.velocity[i] = w->bodies[i].velocity;
            d.angular_velocity[i] = w->bodies[i].angular_velocity;
            d.gone[i] = w->bodies[i].gone;
        }
        st = read_control(w, control, &d, err);
        if (st == QPC_OK) st = qpc_position_check(w, &d.solver, "control.parameters.solver.name", err);
        if (st == QPC_OK) st = qpc_obstacles_check_solver(w, &d.solver, "control.parameters.solver.name", err);
        if (st == QPC_OK && d.removes) st = qpc_world_make_detector(w, d.gone, &detector, err);
        if (st == QPC_OK) take_over(w, &d, detector);
    }
    qpc_free(d.force);
    qpc_free(d.pins);
    qpc_free(d.velocity);
    qpc_free(d.angular_velocity);
    qpc_free(d.gone);
    return st;
}
