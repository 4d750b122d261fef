/// Lists of a run file: packing what a step has, and the same records as arrays. See recordlist.h.
#include "server/recordlist.h"

#include "base/mem.h"
#include "server/builder.h"

#include <stdio.h>
#include <string.h>

enum { OLD_CONTACT_SIZE = 96, NAMES_IN_TEXT = 4 }; // contacts from before there was friction

typedef struct field {
    const char *name;
    qpc_dtype dtype;
    int32_t columns;
    size_t offset;
} field;

static const field CONTACT_FIELDS[] = {
    {"bodies", QPC_I32, 2, 0},     {"features", QPC_I32, 2, 8}, {"kind", QPC_U8, 1, 16},
    {"position", QPC_F64, 3, 24},  {"normal", QPC_F64, 3, 48},  {"gap", QPC_F64, 1, 72},
    {"force", QPC_F64, 1, 80},     {"key", QPC_U64, 1, 88},     {"friction", QPC_F64, 3, 96},
    {NULL, QPC_U8, 0, 0},
};
static const field REACTION_FIELDS[] = {
    {"body", QPC_I32, 1, 0}, {"node", QPC_I32, 1, 4}, {"force", QPC_F64, 3, 8}, {NULL, QPC_U8, 0, 0}};
static const field LIMIT_FIELDS[] = {
    {"body", QPC_I32, 1, 0}, {"spring", QPC_I32, 1, 4}, {"force", QPC_F64, 1, 8}, {NULL, QPC_U8, 0, 0}};
static const field CONFLICT_FIELDS[] = {
    {"bodies", QPC_I32, 2, 0}, {"features", QPC_I32, 2, 8}, {"kind", QPC_U8, 1, 16},
    {"key", QPC_U64, 1, 24},   {NULL, QPC_U8, 0, 0}};
static const field JOINT_FIELDS[] = {
    {"constraint", QPC_I32, 1, 0}, {"kind", QPC_U8, 1, 4},      {"position", QPC_F64, 3, 8}, {"force", QPC_F64, 3, 32},
    {"torque", QPC_F64, 3, 56},    {"tension", QPC_F64, 1, 80}, {"gap", QPC_F64, 1, 88},     {NULL, QPC_U8, 0, 0}};

static const struct {
    size_t size;
    const field *fields;
} LISTS[QPC_LIST_COUNT] = {
    [QPC_LIST_CONTACTS] = {120, CONTACT_FIELDS},
    [QPC_LIST_REACTIONS] = {32, REACTION_FIELDS},
    [QPC_LIST_LIMIT_FORCES] = {16, LIMIT_FIELDS},
    [QPC_LIST_CONFLICTS] = {32, CONFLICT_FIELDS},
    [QPC_LIST_JOINTS] = {96, JOINT_FIELDS},
};

void qpc_packed_fini(qpc_packed *packed) {
    qpc_free(packed->data);
    *packed = (qpc_packed){0};
}

size_t qpc_recordlist_size(qpc_run_list list) { return LISTS[list].size; }

// ---- packing ----

static char *put(char *at, const void *bytes, size_t size) {
    memcpy(at, bytes, size);
    return at + size;
}

static char *put_int(char *at, int32_t v) { return put(at, &v, sizeof v); }

static char *put_contact(char *at, const qpc_contact_info *c) {
    at = put(at, c->body, sizeof c->body);
    at = put(at, c->feature, sizeof c->feature);
    at = put_int(put_int(at, c->kind), 0);
    at = put(at, c->position, sizeof c->position);
    at = put(at, c->normal, sizeof c->normal);
    at = put(at, &c->gap, sizeof c->gap);
    at = put(at, &c->force, sizeof c->force);
    at = put(at, &c->key, sizeof c->key);
    return put(at, c->friction, sizeof c->friction);
}

/// The body of a node that is fixed, and its number there.
static char *put_reaction(char *at, const qpc_world *world, int32_t node, const double force[3]) {
    int32_t body = -1, inside = -1;
    for (int32_t i = 0; i < qpc_world_body_count(world) && body < 0; i++) {
        qpc_body_info info = qpc_world_body(world, i);
        inside = node - info.first_node;
        if (inside >= 0 && inside < info.node_count) body = i;
    }
    return put(put_int(put_int(at, body), inside), force, 3 * sizeof *force);
}

/// Limits that hold, body after body.
static char *put_limits(char *at, const qpc_world *world, const double *force) {
    for (int32_t i = 0; i < qpc_world_body_count(world); i++) {
        qpc_body_info info = qpc_world_body(world, i);
        for (int32_t s = 0; s < info.spring_count; s++) {
            const double *f = &force[info.first_spring + s];
            if (*f != 0.0) at = put(put_int(put_int(at, i), s), f, sizeof *f);
        }
    }
    return at;
}

static char *put_conflict(char *at, const qpc_conflict_info *c) {
    at = put(at, c->body, sizeof c->body);
    at = put(at, c->feature, sizeof c->feature);
    at = put_int(put_int(at, c->kind), 0);
    return put(at, &c->key, sizeof c->key);
}

static char *put_joint(char *at, const qpc_joint_info *j) {
    at = put_int(put_int(at, j->constraint), (int32_t)j->kind);
    at = put(at, j->position, sizeof j->position);
    at = put(at, j->force, sizeof j->force);
    at = put(at, j->torque, sizeof j->torque);
    at = put(at, &j->tension, sizeof j->tension);
    return put(at, &j->gap, sizeof j->gap);
}

qpc_status qpc_recordlist_pack(qpc_run_list list, const qpc_world *world, qpc_packed *packed,
                               int32_t *ret_count) {
    const qpc_contact_info *contacts = NULL;
    const qpc_conflict_info *conflicts = NULL;
    const qpc_joint_info *joints = NULL;
    const double *forces = NULL;
    const int32_t *node = NULL;
    int32_t count = 0;
    if (list == QPC_LIST_CONTACTS) contacts = qpc_world_contacts(world, &count);
    if (list == QPC_LIST_REACTIONS) forces = qpc_world_reactions(world, &node, &count);
    if (list == QPC_LIST_CONFLICTS) conflicts = qpc_world_conflicts(world, &count);
    if (list == QPC_LIST_JOINTS) joints = qpc_world_joints(world, &count);
    if (list == QPC_LIST_LIMIT_FORCES) {
        int32_t springs = 0;
        forces = qpc_world_limit_forces(world, &springs);
        for (int32_t i = 0; i < springs; i++) count += forces[i] != 0.0;
    }
    size_t size = (size_t)count * LISTS[list].size;
    if (size > packed->capacity) {
        char *grown = qpc_realloc(packed->data, 2 * size);
        if (grown == NULL) return QPC_ERR_MEMORY;
        packed->data = grown;
        packed->capacity = 2 * size;
    }
    char *at = packed->data;
    if (list == QPC_LIST_LIMIT_FORCES && count > 0) at = put_limits(at, world, forces);
    for (int32_t i = 0; i < count; i++) {
        if (contacts != NULL) at = put_contact(at, &contacts[i]);
        if (node != NULL) at = put_reaction(at, world, node[i], forces + 3 * (size_t)i);
        if (conflicts != NULL) at = put_conflict(at, &conflicts[i]);
        if (joints != NULL) at = put_joint(at, &joints[i]);
    }
    QPC_ASSERT(count == 0 || (size_t)(at - packed->data) == size);
    *ret_count = count;
    return QPC_OK;
}

// ---- reading ----

static qpc_value field_value(const field *f, const char *records, int32_t count, size_t record_size,
                             qpc_status *status) {
    size_t size = qpc_dtype_size(f->dtype) * (size_t)f->columns;
    int64_t shape[2] = {count, f->columns};
    if (*status != QPC_OK) return qpc_nil();
    char *copy = qpc_calloc((size_t)count + 1, size);
    if (copy == NULL) {
        *status = QPC_ERR_MEMORY;
        return qpc_nil();
    }
    for (int32_t i = 0; i < count && f->offset + size <= record_size; i++)
        memcpy(copy + size * (size_t)i, records + record_size * (size_t)i + f->offset, size);
    qpc_value v = qpc_tensor_borrow(f->dtype, f->columns > 1 ? 2 : 1, shape, copy);
    v.owns = true;
    return v;
}

qpc_status qpc_recordlist_to_value(qpc_run_list list, const void *records, int32_t count,
                                   size_t record_size, qpc_value *ret, qpc_error *err) {
    bool old = list == QPC_LIST_CONTACTS && record_size == OLD_CONTACT_SIZE;
    if (record_size != LISTS[list].size && !old)
        return qpc_fail(err, QPC_ERR_CORRUPT, "%s of %zu bytes; this program knows %zu",
                        qpc_run_list_table(list), record_size, LISTS[list].size);
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    for (const field *f = LISTS[list].fields; f->name != NULL; f++) {
        qpc_value array = field_value(f, records, count, record_size, &status);
        qpc_put(&map, &status, f->name, array);
    }
    return qpc_finish(&map, status, ret, err);
}

// ---- words ----

static int conflict_words(const qpc_world *world, const qpc_conflict_info *c, char *out, size_t size) {
    const char *first = qpc_world_body(world, c->body[0]).name;
    if (c->kind == QPC_CONFLICT_STRAIN_MAX || c->kind == QPC_CONFLICT_STRAIN_MIN)
        return snprintf(out, size, "%s strain of %.64s spring %d",
                        c->kind == QPC_CONFLICT_STRAIN_MAX ? "largest" : "least", first, c->feature[0]);
    if (c->kind == QPC_CONFLICT_JOINT) return snprintf(out, size, "joint constraints[%d] of %.64s", c->feature[0], first);
    return snprintf(out, size, "%s of %.64s %d and %.64s %d",
                    c->kind == QPC_CONFLICT_VERTEX_TRIANGLE ? "vertex and triangle" : "edges", first,
                    c->feature[0], qpc_world_body(world, c->body[1]).name, c->feature[1]);
}

void qpc_recordlist_conflict_text(const qpc_world *world, char *out, size_t size) {
    int32_t count = 0, told = 0;
    const qpc_conflict_info *c = qpc_world_conflicts(world, &count);
    int at = snprintf(out, size, "%d features contradict each other: ", count);
    for (; told < count && told < NAMES_IN_TEXT && at >= 0 && (size_t)at < size; told++) {
        at += snprintf(out + at, size - (size_t)at, "%s", told > 0 ? "; " : "");
        if ((size_t)at < size) at += conflict_words(world, &c[told], out + at, size - (size_t)at);
    }
    if (told < count && at >= 0 && (size_t)at < size)
        (void)snprintf(out + at, size - (size_t)at, "; and %d more", count - told);
}

bool qpc_recordlist_still_text(const qpc_world *world, char *out, size_t size) {
    static const char *const reasons[] = {
        [QPC_STILL_FAST] = "in every motion that was found it is far faster than anything explains",
        [QPC_STILL_BURIED] = "its stiffness times dt squared buries its masses in round-off",
    };
    int32_t told = 0, more = 0;
    int at = snprintf(out, size, "made to stand, as no step can move it: ");
    for (int32_t i = 0; i < qpc_world_body_count(world); i++) {
        qpc_still_reason why = qpc_world_still(world, i);
        if (why == QPC_STILL_NOT) continue;
        if (told >= NAMES_IN_TEXT || at < 0 || (size_t)at >= size) {
            more++;
            continue;
        }
        at += snprintf(out + at, size - (size_t)at, "%s%.64s (%s)", told++ > 0 ? "; " : "", qpc_world_body(world, i).name, reasons[why]);
    }
    if (more > 0 && at >= 0 && (size_t)at < size) (void)snprintf(out + at, size - (size_t)at, "; and %d more", more);
    if (told == 0 && qpc_world_all_stood(world))
        (void)snprintf(out, size, "everything was made to stand in a part of the step: no motion of it made sense, and no body alone was to blame");
    return told > 0 || qpc_world_all_stood(world);
}
