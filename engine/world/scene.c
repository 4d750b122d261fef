/// Reading scenes. Every map is checked for unknown keys first, so that a misspelt key is an error and
/// never a silent default. The canonical hash covers what can change a bit of the motion: names and
/// the record map are left out, bodies are hashed by index, numbers as float64.
#include "engine/world/obstacles.h"
#include "engine/world/scene_read.h"

#include "base/hash.h"
#include "base/nearest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_PATH = QPC_PATH_SIZE };
enum { FIRST_JOINT = 2 }; // of the kinds of constraints; from there as qpc_joint_kind has them

// Keys of each map, as docs/scene.md lists them.
static const char *const SCENE_KEYS[] = {"name",   "dt",          "gravity", "integrator", "solver",
                                         "bodies", "constraints", "record",  "start",
                                         "start_push_limit", "contacts", "loads", NULL};
static const char *const SOLVER_KEYS[] = {"name",         "newton", "passes",         "halvings", "budget", "tolerance",
                                          "perturbation", "reach",  "recovery_speed", "friction", "friction_tolerance",
                                          "impact",       "iterations", NULL};
static const char *const FRICTION_MODES[] = {"off", "staggered", "exact", NULL};
static const char *const IMPACT_MODES[] = {"simultaneous", "sequential", NULL};
static const char *const FIXED_KEYS[] = {"kind", "body", "nodes", NULL};
static const char *const LIMIT_KEYS[] = {"kind", "body", "max", "min", NULL};
static const char *const RECORD_KEYS[] = {"frames",   "precision",   "contacts", "reactions", "substeps",
                                          "diagnostics", "full", "enabled",  NULL};
static const char *const CONSTRAINT_KINDS[] = {"fixed", "strain-limit", "attach", "ball", "hinge", "tendon", NULL};
static const char *const STARTS[] = {"refuse", "push-out", NULL};
static const char *const INTEGRATORS[] = {"implicit-euler", "symplectic-euler", "rk4", "implicit-midpoint", NULL};

void qpc_scene_warn(qpc_scene_report *report, const char *format, ...) {
    if (report == NULL) return;
    int32_t room = (int32_t)(sizeof report->warning / sizeof report->warning[0]);
    if (report->warning_count < room) {
        va_list args;
        va_start(args, format);
        vsnprintf(report->warning[report->warning_count], sizeof report->warning[0], format, args);
        va_end(args);
    }
    report->warning_count++;
}

void qpc_path_join(char out[QPC_PATH_SIZE], const char *where, const char *key) {
    size_t used = strnlen(where, QPC_PATH_SIZE - 1), more = strlen(key);
    memmove(out, where, used);
    if (used < QPC_PATH_SIZE - 1) out[used++] = '.';
    if (more > QPC_PATH_SIZE - 1 - used) more = QPC_PATH_SIZE - 1 - used;
    memcpy(out + used, key, more);
    out[used + more] = '\0';
}

qpc_status qpc_read_vec3(const qpc_value *v, const char *where, qpc_vec3 *ret, qpc_error *err) {
    double *data;
    int64_t rows;
    qpc_status st = qpc_read_matrix(v, where, 3, 1, &data, &rows, err);
    if (st != QPC_OK) return st;
    if (rows != 1) {
        qpc_free(data);
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted three numbers [x, y, z]");
    }
    *ret = v3_load(data);
    qpc_free(data);
    if (v3_norm2(*ret) > QPC_SCENE_MAX_NUMBER)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "larger than 1e15");
    return QPC_OK;
}

/// One of a list of words; names the nearest.
qpc_status qpc_read_word(const qpc_value *v, const char *where, const char *const *words,
                            int32_t *ret, qpc_error *err) {
    char text[MAX_NAME];
    qpc_status st = qpc_read_text(v, where, text, sizeof text, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0) {
            *ret = i;
            return QPC_OK;
        }
    char all[256] = "";
    size_t used = 0;
    for (int32_t i = 0; words[i] != NULL && used < sizeof all; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s\"%s\"", i > 0 ? ", " : "", words[i]);
    const char *near = qpc_nearest(text, strlen(text), words);
    if (near != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "\"%s\" is not known; did you mean \"%s\"? Known: %s",
                           text, near, all);
    return qpc_fail_at(err, QPC_ERR_INVALID, where, "\"%s\" is not known; known: %s", text, all);
}

static qpc_status read_int32(const qpc_value *v, const char *where, int64_t low, int64_t high,
                             int32_t *ret, qpc_error *err) {
    int64_t value;
    qpc_status st = qpc_read_int(v, where, low, high, &value, err);
    if (st == QPC_OK) *ret = (int32_t)value;
    return st;
}

/// Greater than zero and at most 1e30.
qpc_status qpc_read_positive(const qpc_value *v, const char *where, double *ret, qpc_error *err) {
    double value;
    qpc_status st = qpc_read_real(v, where, -HUGE_VAL, QPC_SCENE_MAX_NUMBER, &value, err);
    if (st != QPC_OK) return st;
    if (!(value > 0.0))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "%g is not allowed; it must be greater than 0", value);
    *ret = value;
    return QPC_OK;
}

qpc_solver_def qpc_solver_def_default(void) {
    return (qpc_solver_def){
        .id = QPC_SOLVER_AUTO,
        .iterations = 20,
        .newton = 10,
        .passes = 12,
        .halvings = 3,
        .tolerance = 1e-7,
        .perturbation = 1e-3,
        .reach = 1.1,
        .recovery_speed = 0.2,
        .friction = QPC_FRICTION_EXACT,
        .friction_tolerance = 1e-7,
        .impact = QPC_IMPACT_SIMULTANEOUS,
    };
}

qpc_status qpc_solver_def_read(const qpc_value *map, const char *where, qpc_solver_def *def,
                               qpc_error *err) {
    qpc_solver_def d = *def;
    char path[MAX_PATH];
    qpc_status st = qpc_map_check_keys(map, where, SOLVER_KEYS, err);
    if (st != QPC_OK) return st;
#define KEY(name) (qpc_path_join(path, where, name), (v = qpc_map_get(map, name)) != NULL)
    const qpc_value *v;
    if (KEY("name")) {
        static const char *const names[] = {
#define QPC_SOLVER_NAME(id, name, text) name,
            QPC_SOLVER_LIST(QPC_SOLVER_NAME)
#undef QPC_SOLVER_NAME
                "position-based", NULL};
        int32_t word;
        if ((st = qpc_read_word(v, path, names, &word, err)) != QPC_OK) return st;
        d.position_based = word == QPC_SOLVER_COUNT;
        d.id = d.position_based ? QPC_SOLVER_PROJECTED : (qpc_solver_id)word;
    }
    if (KEY("iterations") && (st = read_int32(v, path, 1, 1000000, &d.iterations, err)) != QPC_OK) return st;
    if (KEY("newton") && (st = read_int32(v, path, 0, 50, &d.newton, err)) != QPC_OK) return st;
    if (KEY("passes") && (st = read_int32(v, path, 0, 1000, &d.passes, err)) != QPC_OK) return st;
    if (KEY("halvings") && (st = read_int32(v, path, 0, 10, &d.halvings, err)) != QPC_OK) return st;
    if (KEY("budget") && (st = read_int32(v, path, 0, 1000000000, &d.budget, err)) != QPC_OK) return st;
    if (KEY("tolerance") && (st = qpc_read_real(v, path, 1e-12, 1e-2, &d.tolerance, err)) != QPC_OK) return st;
    if (KEY("perturbation") && (st = qpc_read_real(v, path, -1.0, 1e6, &d.perturbation, err)) != QPC_OK) return st;
    if (KEY("reach") && (st = qpc_read_real(v, path, 1.0, 3.0, &d.reach, err)) != QPC_OK) return st;
    if (KEY("recovery_speed") && (st = qpc_read_real(v, path, 0.0, 1e6, &d.recovery_speed, err)) != QPC_OK) return st;
    int32_t mode;
    if (KEY("friction")) {
        if ((st = qpc_read_word(v, path, FRICTION_MODES, &mode, err)) != QPC_OK) return st;
        d.friction = (qpc_friction_mode)mode;
    }
    if (KEY("friction_tolerance") && (st = qpc_read_real(v, path, 1e-12, 1.0, &d.friction_tolerance, err)) != QPC_OK) return st;
    if (KEY("impact")) {
        if ((st = qpc_read_word(v, path, IMPACT_MODES, &mode, err)) != QPC_OK) return st;
        d.impact = (qpc_impact_mode)mode;
    }
#undef KEY
    *def = d;
    return QPC_OK;
}

// ---- bodies by name ----

qpc_status qpc_scene_find_body(const qpc_scene_def *def, const qpc_value *v, const char *where, int32_t *ret,
                               qpc_error *err) {
    if (v != NULL && v->kind == QPC_INT)
        return read_int32(v, where, 0, (int64_t)def->bodies.count - 1, ret, err);
    char text[MAX_NAME];
    qpc_status st = qpc_read_text(v, where, text, sizeof text, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < def->bodies.count; i++)
        if (strcmp(def->bodies.data[i].name, text) == 0) {
            *ret = i;
            return QPC_OK;
        }
    const char *names[QPC_NAMES_SHOWN];
    int32_t count = def->bodies.count < QPC_NAMES_SHOWN ? def->bodies.count : QPC_NAMES_SHOWN;
    for (int32_t i = 0; i < count; i++) names[i] = def->bodies.data[i].name;
    return qpc_fail_no_body(text, where, names, count, def->bodies.count, err);
}

qpc_status qpc_fail_no_body(const char *name, const char *where, const char *const *names, int32_t count, int32_t total,
                            qpc_error *err) {
    const char *list[QPC_NAMES_SHOWN + 1] = {NULL};
    char all[256] = "";
    size_t used = 0;
    for (int32_t i = 0; i < count && used < sizeof all; i++) {
        list[i] = names[i];
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%d \"%s\"", i > 0 ? ", " : "", i, names[i]);
    }
    const char *near = qpc_nearest(name, strlen(name), list);
    return qpc_fail_at(err, QPC_ERR_INVALID, where, "no body is called \"%s\"%s%s%s; there %s %d: %s%s", name,
                       near != NULL ? ", did you mean \"" : "", near != NULL ? near : "", near != NULL ? "\"?" : "",
                       total == 1 ? "is" : "are", total, all, total > count ? ", ..." : "");
}

// ---- constraints and record ----

static qpc_status read_fixed(const qpc_value *map, const char *where, qpc_scene_def *def, qpc_error *err) {
    char path[MAX_PATH];
    int32_t body, *nodes;
    int64_t count;
    qpc_status st = qpc_map_check_keys(map, where, FIXED_KEYS, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "body");
    if ((st = qpc_scene_find_body(def, qpc_map_get(map, "body"), path, &body, err)) != QPC_OK) return st;
    int32_t n = def->bodies.data[body].node_count;
    if (def->bodies.data[body].motion != QPC_DYNAMIC)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "only nodes of cables, cloth and soft bodies can be fixed");
    qpc_path_join(path, where, "nodes");
    st = qpc_read_int_matrix(qpc_map_get(map, "nodes"), path, 1, INT32_MAX, -(int64_t)n, (int64_t)n - 1, &nodes, &count, err);
    if (st != QPC_OK) return st;
    uint8_t *known = qpc_calloc((size_t)n, 1); // naming a node twice, also as 0 and -1, is harmless
    if (known == NULL) st = qpc_fail_at(err, QPC_ERR_MEMORY, path, "no memory");
    for (int32_t k = 0; k < def->fixed.count && known != NULL; k++)
        if (def->fixed.data[k].body == body) known[def->fixed.data[k].node] = 1;
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        int32_t node = nodes[i] < 0 ? nodes[i] + n : nodes[i];
        if (known[node] == 0 && !qpc_array_push(&def->fixed, ((qpc_fixed_def){body, node})))
            st = qpc_fail_at(err, QPC_ERR_MEMORY, path, "no memory");
        known[node] = 1;
    }
    qpc_free(known);
    qpc_free(nodes);
    return st;
}

static qpc_status read_limit(const qpc_value *map, const char *where, qpc_scene_def *def, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v;
    qpc_limit_def limit = {0, 0.0, HUGE_VAL};
    qpc_status st = qpc_map_check_keys(map, where, LIMIT_KEYS, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "body");
    if ((st = qpc_scene_find_body(def, qpc_map_get(map, "body"), path, &limit.body, err)) != QPC_OK) return st;
    if (def->bodies.data[limit.body].motion != QPC_DYNAMIC || def->bodies.data[limit.body].tets != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "strain limits are for cables and cloth");
    for (int32_t i = 0; i < def->limits.count; i++)
        if (def->limits.data[i].body == limit.body)
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "this body has a strain limit already; give max and min in one");
    qpc_path_join(path, where, "max");
    if ((v = qpc_map_get(map, "max")) != NULL && (st = qpc_read_real(v, path, 1.0, 1e6, &limit.max, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "min");
    if ((v = qpc_map_get(map, "min")) != NULL && (st = qpc_read_real(v, path, 0.0, 1.0, &limit.min, err)) != QPC_OK) return st;
    if (qpc_map_get(map, "max") == NULL && qpc_map_get(map, "min") == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give max, min or both (length over rest length)");
    if (limit.min >= limit.max)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "min %g is not below max %g", limit.min, limit.max);
    if (!qpc_array_push(&def->limits, limit)) return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory");
    return QPC_OK;
}

/// The server reads this map; the engine checks it, so that a dry run finds every error.
static qpc_status check_record(const qpc_value *map, qpc_error *err) {
    static const char *const precisions[] = {"float32", "float64", NULL}, *const policies[] = {"wait", "drop", NULL};
    static const char *const flags[] = {"contacts", "reactions", "substeps", "diagnostics", "enabled", NULL};
    char path[MAX_PATH];
    const qpc_value *v;
    int64_t frames;
    int32_t word;
    bool flag;
    if (map->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, "record", "wanted a map");
    qpc_status st = qpc_map_check_keys(map, "record", RECORD_KEYS, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "frames")) != NULL)
        st = qpc_read_int(v, "record.frames", 0, 1000000000, &frames, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "precision")) != NULL)
        st = qpc_read_word(v, "record.precision", precisions, &word, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "full")) != NULL) st = qpc_read_word(v, "record.full", policies, &word, err);
    for (int i = 0; flags[i] != NULL && st == QPC_OK; i++)
        if ((v = qpc_map_get(map, flags[i])) != NULL) {
            snprintf(path, sizeof path, "record.%s", flags[i]);
            st = qpc_read_bool(v, path, &flag, err);
        }
    return st;
}

// ---- canonical hash ----

enum { HASH_TOP, HASH_BODIES, HASH_BODY, HASH_CONSTRAINTS, HASH_CONSTRAINT, HASH_PLAIN };

static int compare_pairs(const void *a, const void *b) {
    const qpc_value *x = &(*(const qpc_pair *const *)a)->key, *y = &(*(const qpc_pair *const *)b)->key;
    size_t n = x->str.size < y->str.size ? x->str.size : y->str.size;
    int order = memcmp(x->str.bytes, y->str.bytes, n);
    return order != 0 ? order : (x->str.size > y->str.size) - (x->str.size < y->str.size);
}

static double tensor_entry(const qpc_tensor *t, int64_t i) {
    const char *p = (const char *)t->data + (size_t)i * qpc_dtype_size(t->dtype);
    switch (t->dtype) {
    case QPC_F64: { double d; memcpy(&d, p, sizeof d); return d; }
    case QPC_F32: { float f; memcpy(&f, p, sizeof f); return (double)f; }
    case QPC_I32: { int32_t n; memcpy(&n, p, sizeof n); return (double)n; }
    case QPC_U8: return (double)*(const uint8_t *)p;
    case QPC_I64: { int64_t n; memcpy(&n, p, sizeof n); return (double)n; }
    case QPC_U64: { uint64_t n; memcpy(&n, p, sizeof n); return (double)n; }
    }
    return 0.0;
}

static void hash_number(qpc_hash64 *h, double d) {
    qpc_hash64_u64(h, 'n');
    qpc_hash64_doubles(h, &d, 1);
}

/// A tensor hashes as the nested lists that it stands for.
static void hash_tensor(qpc_hash64 *h, const qpc_tensor *t, int32_t dim, int64_t *at) {
    if (dim >= t->ndim || dim >= QPC_TENSOR_MAX_DIMS) {
        hash_number(h, tensor_entry(t, (*at)++));
        return;
    }
    qpc_hash64_u64(h, 'l');
    qpc_hash64_u64(h, (uint64_t)t->shape[dim]);
    for (int64_t i = 0; i < t->shape[dim]; i++) hash_tensor(h, t, dim + 1, at);
}

static void hash_text(qpc_hash64 *h, const qpc_value *v) {
    qpc_hash64_u64(h, 's');
    qpc_hash64_u64(h, v->str.size);
    qpc_hash64_bytes(h, v->str.bytes, v->str.size);
}

static qpc_status hash_value(qpc_hash64 *h, const qpc_scene_def *def, const qpc_value *v, int place, qpc_error *err) {
    switch (v->kind) {
    case QPC_NIL: qpc_hash64_u64(h, '0'); break;
    case QPC_BOOL: qpc_hash64_u64(h, v->b ? 't' : 'f'); break;
    case QPC_INT: hash_number(h, v->is_unsigned ? (double)v->u : (double)v->i); break;
    case QPC_REAL: hash_number(h, v->real); break;
    case QPC_STR:
    case QPC_BIN: hash_text(h, v); break;
    case QPC_TENSOR: {
        int64_t at = 0;
        hash_tensor(h, &v->tensor, 0, &at);
        break;
    }
    case QPC_LIST: {
        int inner = place == HASH_BODIES ? HASH_BODY : place == HASH_CONSTRAINTS || place == HASH_CONSTRAINT ? HASH_CONSTRAINT : HASH_PLAIN;
        qpc_hash64_u64(h, 'l');
        qpc_hash64_u64(h, (uint64_t)v->list.count);
        for (int32_t i = 0; i < v->list.count; i++) {
            qpc_status st = hash_value(h, def, &v->list.items[i], inner, err);
            if (st != QPC_OK) return st;
        }
        break;
    }
    case QPC_MAP: {
        const qpc_pair **order = qpc_alloc_array((size_t)v->map.count + 1, sizeof *order);
        if (order == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory to hash the scene");
        for (int32_t i = 0; i < v->map.count; i++) order[i] = &v->map.pairs[i];
        qsort(order, (size_t)v->map.count, sizeof *order, compare_pairs);
        qpc_hash64_u64(h, 'm');
        qpc_status st = QPC_OK;
        for (int32_t i = 0; i < v->map.count && st == QPC_OK; i++) {
            const qpc_value *key = &order[i]->key;
            int inner = place == HASH_CONSTRAINT ? HASH_CONSTRAINT : HASH_PLAIN; // points of joints name bodies too
            if (place == HASH_TOP) {
                if (qpc_str_equal(key, "name") || qpc_str_equal(key, "record")) continue;
                if (qpc_str_equal(key, "bodies")) inner = HASH_BODIES;
                if (qpc_str_equal(key, "constraints") || qpc_str_equal(key, "loads")) inner = HASH_CONSTRAINTS;
            }
            if (place == HASH_BODY && qpc_str_equal(key, "name")) continue;
            hash_text(h, key);
            if (place == HASH_CONSTRAINT && (qpc_str_equal(key, "body") || qpc_str_equal(key, "other"))) {
                int32_t body = 0;
                st = qpc_scene_find_body(def, &order[i]->value, "constraints", &body, err);
                hash_number(h, (double)body);
            } else
                st = hash_value(h, def, &order[i]->value, inner, err);
        }
        qpc_hash64_u64(h, 'e');
        qpc_free(order);
        return st;
    }
    }
    return QPC_OK;
}

static qpc_status hash_scene(const qpc_value *scene, qpc_scene_def *def, qpc_error *err) {
    qpc_hash64 *h;
    qpc_status st = qpc_hash64_create(&h, err);
    if (st != QPC_OK) return st;
    qpc_hash64_reset(h);
    st = hash_value(h, def, scene, HASH_TOP, err);
    if (st == QPC_OK) def->hash = qpc_hash64_digest(h);
    qpc_hash64_destroy(h);
    return st;
}

// ---- the scene ----

static qpc_status read_bodies(const qpc_value *list, const qpc_world_env *env, qpc_scene_def *def, qpc_error *err) {
    char path[MAX_PATH];
    int64_t max_bodies = env->limits.max_bodies > 0 ? env->limits.max_bodies : 1000;
    if (list == NULL || list->kind != QPC_LIST || list->list.count == 0)
        return qpc_fail_at(err, QPC_ERR_INVALID, "bodies", "wanted a list of at least one body");
    if (list->list.count > max_bodies)
        return qpc_fail_at(err, QPC_ERR_LIMIT, "bodies", "%d bodies; the limit is %lld", list->list.count, (long long)max_bodies);
    int64_t nodes = 0, all_nodes = 0;
    for (int32_t i = 0; i < list->list.count; i++) {
        if (!qpc_array_push(&def->bodies, (qpc_body_def){0})) return qpc_fail_at(err, QPC_ERR_MEMORY, "bodies", "no memory");
        qpc_body_def *body = &def->bodies.data[i];
        snprintf(path, sizeof path, "bodies[%d]", i);
        qpc_status st = qpc_body_def_read(&list->list.items[i], path, env, nodes, body, err);
        if (st != QPC_OK) return st;
        if (body->motion == QPC_DYNAMIC) nodes += body->node_count;
        if (body->motion == QPC_RIGID) nodes += 2;
        all_nodes += body->node_count;
        if (all_nodes > INT32_MAX / 8)
            return qpc_fail_at(err, QPC_ERR_LIMIT, path, "the scene has more than %d nodes in all", INT32_MAX / 8);
        for (int32_t k = 0; k < i; k++)
            if (body->name[0] != '\0' && strcmp(def->bodies.data[k].name, body->name) == 0)
                return qpc_fail_at(err, QPC_ERR_EXISTS, path, "bodies[%d] is called \"%s\" already", k, body->name);
    }
    return QPC_OK;
}

static qpc_status read_constraints(const qpc_value *list, qpc_scene_def *def, qpc_error *err) {
    char path[MAX_PATH], kind_path[MAX_PATH];
    if (list->kind != QPC_LIST) return qpc_fail_at(err, QPC_ERR_INVALID, "constraints", "wanted a list");
    for (int32_t i = 0; i < list->list.count; i++) {
        const qpc_value *map = &list->list.items[i];
        int32_t kind;
        snprintf(path, sizeof path, "constraints[%d]", i);
        qpc_path_join(kind_path, path, "kind");
        if (map->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted a map with a kind");
        qpc_status st = qpc_read_word(qpc_map_get(map, "kind"), kind_path, CONSTRAINT_KINDS, &kind, err);
        if (st == QPC_OK && kind < FIRST_JOINT) st = kind == 0 ? read_fixed(map, path, def, err) : read_limit(map, path, def, err);
        else if (st == QPC_OK) st = qpc_joint_def_read(map, path, (qpc_joint_kind)(kind - FIRST_JOINT), i, def, err);
        if (st != QPC_OK) return st;
    }
    return QPC_OK;
}

static void warn_about(const qpc_scene_def *def, qpc_scene_report *report) {
    for (int32_t i = 0; i < def->bodies.count; i++) {
        const qpc_body_def *body = &def->bodies.data[i];
        if (body->motion != QPC_DYNAMIC) continue;
        double low = HUGE_VAL, high = 0.0;
        for (int32_t k = 0; k < body->node_count; k++) {
            low = fmin(low, body->masses[k]);
            high = fmax(high, body->masses[k]);
        }
        if (high > 1e6 * low)
            qpc_scene_warn(report, "bodies[%d]: masses from %g to %g kg: a ratio of %.1e", i, low, high, high / low);
    }
}

/// Larger than every angular frequency of the springs of a body, 1/s: by Gershgorin's circles, of M^-1 H. Sheets and tetrahedra apart.
static qpc_status bound_frequency(const qpc_body_def *body, double *ret, qpc_error *err) {
    const qpc_cloth_springs *springs = &body->springs;
    double most = 0.0, *sum = qpc_calloc((size_t)body->node_count + 1, sizeof *sum);
    if (sum == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d nodes", body->node_count);
    for (int32_t s = 0; s < springs->count; s++) {
        int32_t i = springs->node != NULL ? springs->node[s] : s, j = springs->other != NULL ? springs->other[s] : s + 1;
        double k = springs->stiffness[s], across = sqrt(body->masses[i] * body->masses[j]); // similar: M^-1/2 H M^-1/2
        sum[i] += k / body->masses[i] + k / across;
        sum[j] += k / body->masses[j] + k / across;
    }
    for (int32_t i = 0; i < body->node_count; i++) most = fmax(most, sum[i]);
    qpc_free(sum);
    *ret = sqrt(most);
    return QPC_OK;
}

/// What an integrator does not do is refused; steps that are too long for an explicit one get a warning.
static qpc_status check_integrator(const qpc_scene_def *def, qpc_scene_report *report, qpc_error *err) {
    static const double most[] = {[QPC_IMPLICIT_EULER] = HUGE_VAL, [QPC_SYMPLECTIC_EULER] = 2.0, [QPC_RK4] = 2.8, [QPC_IMPLICIT_MIDPOINT] = HUGE_VAL};
    if (def->loads.count > 0 && def->integrator != QPC_IMPLICIT_EULER)
        return qpc_fail_at(err, QPC_ERR_INVALID, "integrator", "loads are for \"implicit-euler\", not for \"%s\"", INTEGRATORS[def->integrator]);
    if (def->joints.count > 0 && def->integrator == QPC_IMPLICIT_MIDPOINT)
        return qpc_fail_at(err, QPC_ERR_INVALID, "integrator", "joints are not for \"implicit-midpoint\": use \"implicit-euler\"");
    for (int32_t i = 0; i < def->bodies.count; i++) {
        const qpc_body_def *body = &def->bodies.data[i];
        if (body->motion != QPC_DYNAMIC) continue;
        if (def->integrator == QPC_IMPLICIT_MIDPOINT && (body->tets != NULL || body->sheet.count > 0))
            return qpc_fail_at(err, QPC_ERR_INVALID, "integrator",
                               "\"implicit-midpoint\" is for cables and cloth of springs; body %d is %s: use \"implicit-euler\"", i,
                               body->tets != NULL ? "a soft body" : "a thin sheet");
        double fastest = 0.0;
        if (most[def->integrator] == HUGE_VAL) continue;
        qpc_status st = bound_frequency(body, &fastest, err);
        if (st != QPC_OK) return st;
        if (def->dt * fastest > most[def->integrator])
            qpc_scene_warn(report, "bodies[%d]: dt times the highest frequency may be %.3g; \"%s\" is unstable above %g", i, def->dt * fastest,
                           INTEGRATORS[def->integrator], most[def->integrator]);
    }
    return QPC_OK;
}

/// Materials of the bodies, then the laws of pairs of them (contacts: NULL, all zero).
static qpc_status read_materials(const qpc_value *contacts, qpc_scene_def *def, qpc_error *err) {
    def->materials = qpc_alloc(sizeof *def->materials);
    if (def->materials == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for materials");
    qpc_material_table_init(def->materials);
    for (int32_t i = 0; i < def->bodies.count; i++) {
        char path[MAX_PATH];
        qpc_body_def *body = &def->bodies.data[i];
        snprintf(path, sizeof path, "bodies[%d].material", i);
        qpc_status st = qpc_material_find(def->materials, body->material, path, &body->material_index, err);
        if (st != QPC_OK) return st;
    }
    return contacts != NULL ? qpc_contact_laws_read(contacts, def->materials, err) : QPC_OK;
}

static qpc_status read_scene(const qpc_value *scene, const qpc_world_env *env, qpc_scene_def *def,
                             qpc_scene_report *report, qpc_error *err) {
    const qpc_value *v;
    char name[MAX_NAME];
    qpc_status st;
    if (scene == NULL || scene->kind != QPC_MAP) return qpc_fail(err, QPC_ERR_INVALID, "a scene is a map");
    if ((st = qpc_map_check_keys(scene, "", SCENE_KEYS, err)) != QPC_OK) return st;
    def->dt = 0.005;
    def->gravity = v3(0.0, -9.81, 0.0);
    def->solver = qpc_solver_def_default();
    if ((v = qpc_map_get(scene, "name")) != NULL && (st = qpc_read_text(v, "name", name, sizeof name, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(scene, "dt")) != NULL && (st = qpc_read_real(v, "dt", 1e-9, 1e6, &def->dt, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(scene, "gravity")) != NULL && (st = qpc_read_vec3(v, "gravity", &def->gravity, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(scene, "integrator")) != NULL) {
        int32_t word;
        if ((st = qpc_read_word(v, "integrator", INTEGRATORS, &word, err)) != QPC_OK) return st;
        def->integrator = (qpc_integrator)word;
    }
    if ((v = qpc_map_get(scene, "solver")) != NULL) {
        if (v->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, "solver", "wanted a map such as {name: \"auto\"}");
        if ((st = qpc_solver_def_read(v, "solver", &def->solver, err)) != QPC_OK) return st;
    }
    if ((v = qpc_map_get(scene, "start")) != NULL) {
        int32_t word;
        if ((st = qpc_read_word(v, "start", STARTS, &word, err)) != QPC_OK) return st;
        def->push_out = word == 1;
    }
    if ((v = qpc_map_get(scene, "start_push_limit")) != NULL) {
        if ((st = qpc_read_positive(v, "start_push_limit", &def->push_limit, err)) != QPC_OK) return st;
        if (!def->push_out)
            return qpc_fail_at(err, QPC_ERR_INVALID, "start_push_limit", "is for start \"push-out\" only");
    }
    if ((st = read_bodies(qpc_map_get(scene, "bodies"), env, def, err)) != QPC_OK) return st;
    if ((st = read_materials(qpc_map_get(scene, "contacts"), def, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(scene, "constraints")) != NULL && (st = read_constraints(v, def, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(scene, "loads")) != NULL && (st = qpc_load_defs_read(v, def, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(scene, "record")) != NULL && (st = check_record(v, err)) != QPC_OK) return st;
    warn_about(def, report);
    if ((st = qpc_obstacles_check(def, err)) != QPC_OK) return st;
    if ((st = check_integrator(def, report, err)) != QPC_OK) return st;
    return hash_scene(scene, def, err);
}

qpc_status qpc_scene_def_read(const qpc_value *scene, const qpc_world_env *env, qpc_scene_def *def, qpc_scene_report *report,
                          qpc_error *err) {
    memset(def, 0, sizeof *def);
    qpc_status st = read_scene(scene, env, def, report, err);
    if (st != QPC_OK) qpc_scene_def_fini(def);
    return st;
}

void qpc_scene_def_fini(qpc_scene_def *def) {
    if (def == NULL) return;
    for (int32_t i = 0; i < def->bodies.count; i++) qpc_body_def_fini(&def->bodies.data[i]);
    qpc_array_fini(&def->bodies);
    qpc_array_fini(&def->fixed);
    qpc_array_fini(&def->limits);
    qpc_array_fini(&def->joints);
    qpc_array_fini(&def->points);
    qpc_array_fini(&def->loads);
    qpc_free(def->materials);
    def->materials = NULL;
}
