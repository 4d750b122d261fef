/// See engine_double.h.
#include "engine_double.h"

#include "base/mem.h"

#include <string.h>

void (*qpc_double_on_step)(int64_t step);
int qpc_double_worlds;

struct qpc_world {
    int32_t nodes, fixed; // moving ones; of the static body in front
    double *x, *v;        // all nodes
    int64_t step, fail_at;
    double time, dt;
    uint64_t hash;
    qpc_value scene;
};

static int64_t number(const qpc_value *scene, const char *key, int64_t standard) {
    const qpc_value *v = qpc_map_get(scene, key);
    return v != NULL ? v->i : standard;
}

qpc_status qpc_world_create(const qpc_value *scene, const qpc_world_env *env, qpc_world **ret,
                            qpc_scene_report *report, qpc_error *err) {
    (void)env;
    memset(report, 0, sizeof *report);
    qpc_world *world = qpc_calloc(1, sizeof *world);
    if (world == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    world->nodes = (int32_t)number(scene, "nodes", 1);
    world->fixed = (int32_t)number(scene, "static", 0);
    world->fail_at = number(scene, "fail_at", -1);
    const qpc_value *dt = qpc_map_get(scene, "dt");
    world->dt = dt != NULL ? dt->real : 0.01;
    world->hash = 1;
    size_t all = 3 * (size_t)(world->nodes + world->fixed);
    world->x = qpc_calloc(all, sizeof(double));
    world->v = qpc_calloc(all, sizeof(double));
    qpc_status status = qpc_value_copy(scene, &world->scene);
    qpc_double_worlds++;
    if (world->x == NULL || world->v == NULL || status != QPC_OK) {
        qpc_world_destroy(world);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    for (int32_t i = 0; i < world->fixed + world->nodes; i++) world->x[3 * i] = i;
    *ret = world;
    return QPC_OK;
}

void qpc_world_destroy(qpc_world *world) {
    if (world == NULL) return;
    qpc_double_worlds--;
    qpc_value_fini(&world->scene);
    qpc_free(world->x);
    qpc_free(world->v);
    qpc_free(world);
}

size_t qpc_world_memory(const qpc_world *world) {
    return sizeof *world + 48 * (size_t)(world->nodes + world->fixed);
}

qpc_status qpc_world_step(qpc_world *world, qpc_step_report *report, qpc_error *err) {
    if (qpc_double_on_step != NULL) qpc_double_on_step(world->step + 1);
    if (world->step + 1 == world->fail_at) {
        return qpc_fail_at(err, QPC_ERR_NUMERIC, "bodies[0]", "a number left the finite range");
    }
    memset(report, 0, sizeof *report);
    for (int32_t i = world->fixed; i < world->fixed + world->nodes; i++) {
        world->v[3 * i + 1] -= 10 * world->dt;
        world->x[3 * i + 1] += world->dt * world->v[3 * i + 1];
    }
    world->step++;
    world->time += world->dt;
    world->hash = world->hash * UINT64_C(6364136223846793005) + (uint64_t)world->step;
    report->step = world->step;
    report->time = world->time;
    report->hash = (int64_t)world->hash;
    report->min_gap = 2 - 0.01 * (double)world->step;
    report->contacts = world->step % 5;
    report->ns_wall = report->ns_total = 100;
    return QPC_OK;
}

qpc_status qpc_world_control(qpc_world *world, const qpc_value *control, qpc_error *err) {
    const qpc_value *push = qpc_map_get(control, "push");
    if (push == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, "control", "want push");
    for (int32_t i = world->fixed; i < world->fixed + world->nodes; i++) {
        world->v[3 * i] += push->real;
    }
    world->hash++;
    return QPC_OK;
}

int64_t qpc_world_step_number(const qpc_world *world) { return world->step; }
double qpc_world_time(const qpc_world *world) { return world->time; }
double qpc_world_dt(const qpc_world *world) { return world->dt; }
uint64_t qpc_world_hash(const qpc_world *world) { return world->hash; }
uint64_t qpc_world_scene_hash(const qpc_world *world) {
    (void)world;
    return 7;
}

int32_t qpc_world_body_count(const qpc_world *world) { return world->fixed > 0 ? 2 : 1; }

qpc_body_info qpc_world_body(const qpc_world *world, int32_t body) {
    if (world->fixed > 0 && body == 0) {
        return (qpc_body_info){.name = "floor", .kind = "static", .node_count = world->fixed};
    }
    return (qpc_body_info){.name = "cable",
                           .kind = "cable",
                           .first_node = world->fixed,
                           .node_count = world->nodes,
                           .radius = 0.1,
                           .moves = true};
}

int32_t qpc_world_node_count(const qpc_world *world) { return world->nodes + world->fixed; }
const double *qpc_world_positions(const qpc_world *world) { return world->x; }
const double *qpc_world_velocities(const qpc_world *world) { return world->v; }
const double *qpc_world_masses(const qpc_world *world) { return world->v; }

const double *qpc_world_tensions(const qpc_world *world, int32_t *ret_count) {
    *ret_count = world->nodes - 1;
    return world->x;
}

const qpc_joint_info *qpc_world_joints(const qpc_world *world, int32_t *ret_count) {
    (void)world;
    *ret_count = 0;
    return NULL;
}

const qpc_contact_info *qpc_world_contacts(const qpc_world *world, int32_t *ret_count) {
    static const qpc_contact_info contact = {
        .body = {0, 1}, .feature = {2, 3}, .kind = 1, .gap = 0.5, .force = 2, .key = 9};
    *ret_count = world->step > 0 ? 1 : 0;
    return &contact;
}

qpc_still_reason qpc_world_still(const qpc_world *world, int32_t body) { return world->step > 0 && body == 0 ? QPC_STILL_FAST : QPC_STILL_NOT; }

bool qpc_world_all_stood(const qpc_world *world) {
    (void)world;
    return false;
}

const qpc_conflict_info *qpc_world_conflicts(const qpc_world *world, int32_t *ret_count) {
    static const qpc_conflict_info conflict = {.kind = QPC_CONFLICT_STRAIN_MAX, .body = {0, -1}, .feature = {5, -1}, .key = 11};
    *ret_count = world->step > 0 ? 1 : 0;
    return &conflict;
}

const double *qpc_world_reactions(const qpc_world *world, const int32_t **ret_node,
                                  int32_t *ret_count) {
    static int32_t node;
    node = world->fixed;
    *ret_node = &node;
    *ret_count = 1;
    return world->x;
}

const double *qpc_world_limit_forces(const qpc_world *world, int32_t *ret_count) {
    *ret_count = 0;
    return world->x;
}

const qpc_value *qpc_world_scene(const qpc_world *world) { return &world->scene; }
