/// Snapshots, layouts and their form on the wire. See snapshot.h.
///
/// A snapshot is one block: the struct, then its arrays one after the other. Any thread may read it
/// while it holds a reference.
#include "server/snapshot.h"

#include "base/hash.h"
#include "base/mem.h"
#include "server/builder.h"

#include <stdio.h>
#include <string.h>

// ---- layout ----

qpc_status qpc_layout_create(const qpc_world *world, qpc_layout **ret, qpc_error *err) {
    int32_t count = qpc_world_body_count(world);
    qpc_layout *layout =
        qpc_calloc(1, sizeof *layout + (size_t)count * sizeof layout->bodies[0]);
    if (layout == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d bodies", count);
    layout->body_count = count;
    layout->engine_node_count = qpc_world_node_count(world);
    layout->contiguous = true;
    int32_t next = -1;
    for (int32_t i = 0; i < count; i++) {
        qpc_body_info info = qpc_world_body(world, i);
        qpc_layout_body *body = &layout->bodies[i];
        snprintf(body->name, sizeof body->name, "%s", info.name != NULL ? info.name : "");
        snprintf(body->kind, sizeof body->kind, "%s", info.kind);
        body->radius = info.radius;
        body->element_count = info.element_count;
        body->nodes_per_element = info.nodes_per_element;
        body->engine_first = info.first_node;
        body->moves = info.moves;
        if (info.mesh != NULL) {
            body->has_mesh = true;
            memcpy(body->mesh_sha256, qpc_mesh_sha256(info.mesh), 32);
        }
        body->first_tension = info.first_spring;
        body->tension_count = info.spring_count;
        body->first_node = layout->node_count;
        if (!info.moves) continue;
        body->node_count = info.node_count;
        layout->node_count += info.node_count;
        if (next < 0) {
            layout->engine_first = info.first_node;
        } else if (next != info.first_node) {
            layout->contiguous = false;
        }
        next = info.first_node + info.node_count;
    }
    *ret = layout;
    return QPC_OK;
}

void qpc_layout_gather(const qpc_layout *layout, const double *all, double *out) {
    if (layout->node_count == 0) return;
    if (layout->contiguous) {
        memcpy(out, all + 3 * (size_t)layout->engine_first,
               3 * sizeof *out * (size_t)layout->node_count);
        return;
    }
    for (int32_t i = 0; i < layout->body_count; i++) {
        const qpc_layout_body *body = &layout->bodies[i];
        if (body->node_count == 0) continue;
        memcpy(out + 3 * (size_t)body->first_node, all + 3 * (size_t)body->engine_first,
               3 * sizeof *out * (size_t)body->node_count);
    }
}

static qpc_status body_to_value(const qpc_layout_body *body, qpc_value *ret) {
    qpc_value map = qpc_map();
    qpc_status status = QPC_OK;
    qpc_put_text(&map, &status, "name", body->name);
    qpc_put_text(&map, &status, "kind", body->kind);
    qpc_put(&map, &status, "first_node", qpc_int(body->first_node));
    qpc_put(&map, &status, "node_count", qpc_int(body->node_count));
    qpc_put(&map, &status, "radius", qpc_real(body->radius));
    qpc_put(&map, &status, "elements", qpc_int(body->element_count));
    qpc_put(&map, &status, "nodes_per_element", qpc_int(body->nodes_per_element));
    if (body->has_mesh) {
        char hex[65];
        qpc_hex_encode(body->mesh_sha256, 32, hex);
        qpc_put_text(&map, &status, "mesh", hex);
    }
    if (!body->has_mesh || body->tension_count > 0) {
        qpc_put(&map, &status, "first_tension", qpc_int(body->first_tension));
        qpc_put(&map, &status, "tension_count", qpc_int(body->tension_count));
    }
    return qpc_finish(&map, status, ret, NULL);
}

qpc_status qpc_layout_to_value(const qpc_layout *layout, qpc_value *ret) {
    qpc_value list = qpc_list();
    qpc_status status = QPC_OK;
    for (int32_t i = 0; i < layout->body_count && status == QPC_OK; i++) {
        qpc_value body;
        status = body_to_value(&layout->bodies[i], &body);
        if (status == QPC_OK) qpc_add(&list, &status, body);
    }
    return qpc_finish(&list, status, ret, NULL);
}

qpc_status qpc_layout_find_body(const qpc_layout *layout, const qpc_value *v, const char *where,
                                int32_t *ret, qpc_error *err) {
    if (v->kind == QPC_INT) {
        int64_t index;
        qpc_status status = qpc_read_int(v, where, 0, layout->body_count - 1, &index, err);
        if (status == QPC_OK) *ret = (int32_t)index;
        return status;
    }
    char name[QPC_NAME_SIZE];
    qpc_status status = qpc_read_text(v, where, name, sizeof name, err);
    if (status != QPC_OK) return status;
    for (int32_t i = 0; i < layout->body_count; i++) {
        if (strcmp(layout->bodies[i].name, name) == 0) {
            *ret = i;
            return QPC_OK;
        }
    }
    return qpc_fail_at(err, QPC_ERR_NOT_FOUND, where, "no body is named '%s' (%d bodies, the "
                       "first is '%s')", name, layout->body_count,
                       layout->body_count > 0 ? layout->bodies[0].name : "");
}

// ---- snapshots ----

/// Hands out pieces of one block; a first walk with base NULL measures it.
typedef struct carver {
    char *base;
    size_t at;
} carver;

static void *carve(carver *block, size_t count, size_t size) {
    block->at = (block->at + 15) & ~(size_t)15;
    void *p = block->base != NULL ? block->base + block->at : NULL;
    block->at += count * size;
    return p;
}

static void carve_all(carver *block, qpc_snapshot *s) {
    carve(block, 1, sizeof *s);
    size_t nodes = (size_t)s->node_count, contacts = (size_t)s->contact_count;
    if (s->parts & QPC_PART_POSITIONS) s->positions = carve(block, nodes, 24);
    if (s->parts & QPC_PART_VELOCITIES) s->velocities = carve(block, nodes, 24);
    if (s->parts & QPC_PART_SINGLE) {
        if (s->parts & QPC_PART_POSITIONS) s->positions32 = carve(block, nodes, 12);
        if (s->parts & QPC_PART_VELOCITIES) s->velocities32 = carve(block, nodes, 12);
    }
    s->tensions = carve(block, (size_t)s->tension_count, 8);
    s->removed = carve(block, (size_t)s->body_count, 8);
    size_t joints = (size_t)s->joint_count;
    s->joint_constraint = carve(block, joints, 4);
    s->joint_kind = carve(block, joints, 1);
    s->joint_position = carve(block, joints, 24);
    s->joint_force = carve(block, joints, 24);
    s->joint_torque = carve(block, joints, 24);
    s->joint_tension = carve(block, joints, 8);
    s->joint_gap = carve(block, joints, 8);
    s->limit_forces = carve(block, (size_t)s->limit_count, 8);
    s->contact_body = carve(block, contacts, 8);
    s->contact_feature = carve(block, contacts, 8);
    s->contact_kind = carve(block, contacts, 1);
    s->contact_position = carve(block, contacts, 24);
    s->contact_normal = carve(block, contacts, 24);
    s->contact_gap = carve(block, contacts, 8);
    s->contact_force = carve(block, contacts, 8);
    s->contact_friction = carve(block, contacts, 24);
    s->contact_key = carve(block, contacts, 8);
    size_t conflicts = (size_t)s->conflict_count;
    s->conflict_body = carve(block, conflicts, 8);
    s->conflict_feature = carve(block, conflicts, 8);
    s->conflict_kind = carve(block, conflicts, 1);
    s->conflict_key = carve(block, conflicts, 8);
    s->reaction_node = carve(block, (size_t)s->reaction_count, 4);
    s->reaction_force = carve(block, (size_t)s->reaction_count, 24);
}

static int32_t frame_node(const qpc_layout *layout, int32_t engine_node) {
    for (int32_t i = 0; i < layout->body_count; i++) {
        const qpc_layout_body *body = &layout->bodies[i];
        int32_t inside = engine_node - body->engine_first;
        if (inside >= 0 && inside < body->node_count) return body->first_node + inside;
    }
    return -1;
}

static void to_single(const double *from, float *to, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (float)from[i];
}

static void copy_contacts(qpc_snapshot *s, const qpc_contact_info *contacts) {
    for (int32_t i = 0; i < s->contact_count; i++) {
        const qpc_contact_info *c = &contacts[i];
        for (int k = 0; k < 2; k++) {
            s->contact_body[2 * i + k] = c->body[k];
            s->contact_feature[2 * i + k] = c->feature[k];
        }
        s->contact_kind[i] = (uint8_t)c->kind;
        memcpy(&s->contact_position[3 * i], c->position, sizeof c->position);
        memcpy(&s->contact_normal[3 * i], c->normal, sizeof c->normal);
        s->contact_gap[i] = c->gap;
        s->contact_force[i] = c->force;
        memcpy(&s->contact_friction[3 * i], c->friction, sizeof c->friction);
        s->contact_key[i] = c->key;
    }
}

static void copy_conflicts(qpc_snapshot *s, const qpc_conflict_info *conflicts) {
    for (int32_t i = 0; i < s->conflict_count; i++) {
        for (int k = 0; k < 2; k++) {
            s->conflict_body[2 * i + k] = conflicts[i].body[k];
            s->conflict_feature[2 * i + k] = conflicts[i].feature[k];
        }
        s->conflict_kind[i] = (uint8_t)conflicts[i].kind;
        s->conflict_key[i] = conflicts[i].key;
    }
}

static void copy_joints(qpc_snapshot *s, const qpc_joint_info *joints) {
    for (int32_t i = 0; i < s->joint_count; i++) {
        s->joint_constraint[i] = joints[i].constraint;
        s->joint_kind[i] = (uint8_t)joints[i].kind;
        memcpy(&s->joint_position[3 * i], joints[i].position, 24);
        memcpy(&s->joint_force[3 * i], joints[i].force, 24);
        memcpy(&s->joint_torque[3 * i], joints[i].torque, 24);
        s->joint_tension[i] = joints[i].tension;
        s->joint_gap[i] = joints[i].gap;
    }
}

qpc_status qpc_snapshot_take(const qpc_world *world, const qpc_layout *layout,
                             const qpc_step_report *report, uint32_t parts, qpc_snapshot **ret,
                             qpc_error *err) {
    // What there is to copy.
    qpc_snapshot head = {.parts = parts, .node_count = layout->node_count, .body_count = layout->body_count};
    const double *tensions = NULL, *limits = NULL, *reactions = NULL;
    const int32_t *reaction_node = NULL;
    const qpc_contact_info *contacts = NULL;
    const qpc_conflict_info *conflicts = NULL;
    const qpc_joint_info *joints = NULL;
    if (parts & QPC_PART_JOINTS) joints = qpc_world_joints(world, &head.joint_count);
    if (parts & QPC_PART_TENSIONS) tensions = qpc_world_tensions(world, &head.tension_count);
    if (parts & QPC_PART_LIMIT_FORCES) limits = qpc_world_limit_forces(world, &head.limit_count);
    if (parts & QPC_PART_CONTACTS) contacts = qpc_world_contacts(world, &head.contact_count);
    if (parts & QPC_PART_CONFLICTS) conflicts = qpc_world_conflicts(world, &head.conflict_count);
    if (parts & QPC_PART_REACTIONS) {
        reactions = qpc_world_reactions(world, &reaction_node, &head.reaction_count);
    }
    // One block for all of it.
    carver measure = {0};
    carve_all(&measure, &head);
    qpc_snapshot *s = qpc_alloc(measure.at);
    if (s == NULL) {
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a snapshot of %zu bytes",
                        measure.at);
    }
    memcpy(s, &head, sizeof head);
    atomic_init(&s->refs, 1);
    carver block = {(char *)s, 0};
    carve_all(&block, s);
    // Copy.
    s->step = qpc_world_step_number(world);
    s->time = qpc_world_time(world);
    s->hash = qpc_world_hash(world);
    s->stepped = report != NULL;
    if (report != NULL) {
        s->report = *report;
    } else {
        memset(&s->report, 0, sizeof s->report);
    }
    size_t numbers = 3 * (size_t)layout->node_count;
    if (s->positions != NULL) qpc_layout_gather(layout, qpc_world_positions(world), s->positions);
    if (s->velocities != NULL) {
        qpc_layout_gather(layout, qpc_world_velocities(world), s->velocities);
    }
    if (s->positions32 != NULL) to_single(s->positions, s->positions32, numbers);
    if (s->velocities32 != NULL) to_single(s->velocities, s->velocities32, numbers);
    if (s->tension_count > 0) memcpy(s->tensions, tensions, 8 * (size_t)s->tension_count);
    for (int32_t i = 0; i < s->body_count; i++) s->removed[i] = qpc_world_body(world, i).removed;
    if (s->limit_count > 0) memcpy(s->limit_forces, limits, 8 * (size_t)s->limit_count);
    if (s->contact_count > 0) copy_contacts(s, contacts);
    if (s->conflict_count > 0) copy_conflicts(s, conflicts);
    copy_joints(s, joints);
    for (int32_t i = 0; i < s->reaction_count; i++) {
        s->reaction_node[i] = frame_node(layout, reaction_node[i]);
        memcpy(&s->reaction_force[3 * i], &reactions[3 * i], 24);
    }
    *ret = s;
    return QPC_OK;
}

qpc_snapshot *qpc_snapshot_ref(qpc_snapshot *snapshot) {
    atomic_fetch_add_explicit(&snapshot->refs, 1, memory_order_relaxed);
    return snapshot;
}

void qpc_snapshot_unref(qpc_snapshot *snapshot) {
    if (snapshot == NULL) return;
    if (atomic_fetch_sub_explicit(&snapshot->refs, 1, memory_order_acq_rel) == 1) {
        qpc_free(snapshot);
    }
}

size_t qpc_snapshot_size(const qpc_snapshot *snapshot) {
    carver measure = {0};
    qpc_snapshot head;
    memcpy(&head, snapshot, sizeof head);
    carve_all(&measure, &head);
    return measure.at;
}

// ---- parts by name ----

static const struct {
    const char *name;
    uint32_t part;
} part_names[] = {
    {"positions", QPC_PART_POSITIONS},     {"velocities", QPC_PART_VELOCITIES},
    {"tensions", QPC_PART_TENSIONS},       {"contacts", QPC_PART_CONTACTS},
    {"reactions", QPC_PART_REACTIONS},     {"diagnostics", QPC_PART_DIAGNOSTICS},
    {"limit_forces", QPC_PART_LIMIT_FORCES}, {"conflicts", QPC_PART_CONFLICTS},
    {"joints", QPC_PART_JOINTS},
};
enum { PART_COUNT = sizeof part_names / sizeof part_names[0] };

qpc_status qpc_parts_from_value(const qpc_value *list, const char *where, uint32_t standard,
                                uint32_t *ret, qpc_error *err) {
    if (list == NULL) {
        *ret = standard;
        return QPC_OK;
    }
    if (list->kind != QPC_LIST) {
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "want a list of names");
    }
    uint32_t parts = 0;
    for (int32_t i = 0; i < list->list.count; i++) {
        char path[80], name[32];
        snprintf(path, sizeof path, "%s[%d]", where, i);
        qpc_status status =
            qpc_read_text(&list->list.items[i], path, name, sizeof name, err);
        if (status != QPC_OK) return status;
        uint32_t part = 0;
        for (int k = 0; k < PART_COUNT; k++) {
            if (strcmp(part_names[k].name, name) == 0) part = part_names[k].part;
        }
        if (part == 0) {
            return qpc_fail_at(err, QPC_ERR_INVALID, path,
                               "'%s' is not a field: want positions, velocities, tensions, "
                               "contacts, reactions, limit_forces, conflicts, joints or diagnostics",
                               name);
        }
        parts |= part;
    }
    *ret = parts;
    return QPC_OK;
}

qpc_status qpc_single_from_value(const qpc_value *v, const char *where, bool *ret,
                                 qpc_error *err) {
    if (v == NULL || qpc_str_equal(v, "float32")) {
        *ret = true;
    } else if (qpc_str_equal(v, "float64")) {
        *ret = false;
    } else {
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "want \"float32\" or \"float64\"");
    }
    return QPC_OK;
}

// ---- to the wire ----

/// A tensor over count x columns doubles, borrowed, or converted to float32 (borrowed from single
/// when that is there).
static qpc_status array_value(const double *data, const float *ready, int64_t count,
                              int64_t columns, bool single, qpc_value *ret) {
    int64_t shape[2] = {count, columns};
    int32_t ndim = columns > 1 ? 2 : 1;
    if (!single) {
        *ret = qpc_tensor_borrow(QPC_F64, ndim, shape, data);
        return QPC_OK;
    }
    if (ready != NULL) {
        *ret = qpc_tensor_borrow(QPC_F32, ndim, shape, ready);
        return QPC_OK;
    }
    size_t numbers = (size_t)(count * columns);
    float *converted = qpc_alloc_array(numbers, sizeof *converted);
    if (converted == NULL) return QPC_ERR_MEMORY;
    to_single(data, converted, numbers);
    *ret = qpc_tensor_borrow(QPC_F32, ndim, shape, converted);
    ret->owns = true;
    return QPC_OK;
}

static void put_array(qpc_value *map, qpc_status *status, const char *key, const double *data,
                      const float *ready, int64_t count, int64_t columns, bool single) {
    qpc_value v = qpc_nil();
    if (*status == QPC_OK) *status = array_value(data, ready, count, columns, single, &v);
    qpc_put(map, status, key, v);
}

static void put_raw(qpc_value *map, qpc_status *status, const char *key, qpc_dtype dtype,
                    int64_t count, int64_t columns, const void *data) {
    int64_t shape[2] = {count, columns};
    qpc_put(map, status, key, qpc_tensor_borrow(dtype, columns > 1 ? 2 : 1, shape, data));
}

static qpc_value contacts_value(const qpc_snapshot *s, bool single, qpc_status *status) {
    qpc_value c = qpc_map();
    int64_t n = s->contact_count;
    put_raw(&c, status, "bodies", QPC_I32, n, 2, s->contact_body);
    put_raw(&c, status, "features", QPC_I32, n, 2, s->contact_feature);
    put_raw(&c, status, "kind", QPC_U8, n, 1, s->contact_kind);
    put_array(&c, status, "position", s->contact_position, NULL, n, 3, single);
    put_array(&c, status, "normal", s->contact_normal, NULL, n, 3, single);
    put_array(&c, status, "gap", s->contact_gap, NULL, n, 1, single);
    put_array(&c, status, "force", s->contact_force, NULL, n, 1, single);
    put_array(&c, status, "friction", s->contact_friction, NULL, n, 3, single);
    put_raw(&c, status, "key", QPC_U64, n, 1, s->contact_key);
    return c;
}

static qpc_value conflicts_value(const qpc_snapshot *s, qpc_status *status) {
    qpc_value c = qpc_map();
    int64_t n = s->conflict_count;
    put_raw(&c, status, "kind", QPC_U8, n, 1, s->conflict_kind);
    put_raw(&c, status, "bodies", QPC_I32, n, 2, s->conflict_body);
    put_raw(&c, status, "features", QPC_I32, n, 2, s->conflict_feature);
    put_raw(&c, status, "key", QPC_U64, n, 1, s->conflict_key);
    return c;
}

static qpc_value reactions_value(const qpc_snapshot *s, bool single, qpc_status *status) {
    qpc_value r = qpc_map();
    put_raw(&r, status, "node", QPC_I32, s->reaction_count, 1, s->reaction_node);
    put_array(&r, status, "force", s->reaction_force, NULL, s->reaction_count, 3, single);
    return r;
}

static qpc_value joints_value(const qpc_snapshot *s, bool single, qpc_status *status) {
    qpc_value j = qpc_map();
    int64_t n = s->joint_count;
    put_raw(&j, status, "constraint", QPC_I32, n, 1, s->joint_constraint);
    put_raw(&j, status, "kind", QPC_U8, n, 1, s->joint_kind);
    put_array(&j, status, "position", s->joint_position, NULL, n, 3, single);
    put_array(&j, status, "force", s->joint_force, NULL, n, 3, single);
    put_array(&j, status, "torque", s->joint_torque, NULL, n, 3, single);
    put_array(&j, status, "tension", s->joint_tension, NULL, n, 1, single);
    put_array(&j, status, "gap", s->joint_gap, NULL, n, 1, single);
    return j;
}

static qpc_value diagnostics_value(const qpc_snapshot *s, qpc_status *status) {
    if (!s->stepped || *status != QPC_OK) return qpc_nil();
    qpc_pair pairs[QPC_STEP_FIELD_COUNT];
    qpc_value on_stack = qpc_report_map(&s->report, pairs);
    qpc_value copy = qpc_nil();
    *status = qpc_value_copy(&on_stack, &copy);
    return copy;
}

qpc_status qpc_snapshot_to_map(const qpc_snapshot *s, const qpc_layout *layout, uint32_t parts,
                               bool single, int32_t body, qpc_value *map) {
    qpc_status status = QPC_OK;
    parts &= s->parts;
    size_t first = 0;
    int32_t count = s->node_count, first_tension = 0, tensions = s->tension_count;
    if (body >= 0 && layout != NULL) {
        first = 3 * (size_t)layout->bodies[body].first_node;
        count = layout->bodies[body].node_count;
        first_tension = layout->bodies[body].first_tension;
        tensions = layout->bodies[body].tension_count;
    }
    if (parts & QPC_PART_POSITIONS) {
        put_array(map, &status, "positions", s->positions + first,
                  s->positions32 != NULL ? s->positions32 + first : NULL, count, 3, single);
    }
    if (parts & QPC_PART_VELOCITIES) {
        put_array(map, &status, "velocities", s->velocities + first,
                  s->velocities32 != NULL ? s->velocities32 + first : NULL, count, 3, single);
    }
    if (parts & QPC_PART_TENSIONS) {
        put_array(map, &status, "tensions", s->tensions + first_tension, NULL, tensions, 1,
                  single);
    }
    if (parts & QPC_PART_LIMIT_FORCES) {
        put_array(map, &status, "limit_forces", s->limit_forces, NULL, s->limit_count, 1, single);
    }
    if (parts & QPC_PART_CONTACTS) {
        qpc_value contacts = contacts_value(s, single, &status);
        qpc_put(map, &status, "contacts", contacts);
    }
    if (parts & QPC_PART_CONFLICTS) {
        qpc_value conflicts = conflicts_value(s, &status);
        qpc_put(map, &status, "conflicts", conflicts);
    }
    if (parts & QPC_PART_REACTIONS) {
        qpc_value reactions = reactions_value(s, single, &status);
        qpc_put(map, &status, "reactions", reactions);
    }
    if (parts & QPC_PART_JOINTS) {
        qpc_value joints = joints_value(s, single, &status);
        qpc_put(map, &status, "joints", joints);
    }
    if (parts & QPC_PART_DIAGNOSTICS) {
        qpc_value diagnostics = diagnostics_value(s, &status);
        qpc_put(map, &status, "diagnostics", diagnostics);
    }
    return status;
}

// ---- step fields ----

#define FIELD_IS_I 1
#define FIELD_IS_R 0
static const struct {
    const char *name, *unit, *doc;
    size_t name_size;
    bool integer;
} fields[] = {
#define FIELD_ROW(type, name, unit, text) {#name, unit, text, sizeof #name - 1, FIELD_IS_##type},
    QPC_STEP_FIELDS(FIELD_ROW)
#undef FIELD_ROW
};

const char *qpc_step_field_name(int32_t field) { return fields[field].name; }

bool qpc_step_field_is_integer(int32_t field) { return fields[field].integer; }

qpc_value qpc_report_map(const qpc_step_report *report, qpc_pair *pairs) {
    // Every member is eight bytes, in the order of the list: see the assertion.
    _Static_assert(sizeof *report == 8 * (size_t)QPC_STEP_FIELD_COUNT, "members of 8 bytes");
    const char *at = (const char *)report;
    for (int32_t i = 0; i < QPC_STEP_FIELD_COUNT; i++, at += 8) {
        pairs[i].key = qpc_str_borrow(fields[i].name, fields[i].name_size);
        if (fields[i].integer) {
            int64_t v;
            memcpy(&v, at, 8);
            pairs[i].value = qpc_int(v);
        } else {
            double v;
            memcpy(&v, at, 8);
            pairs[i].value = qpc_real(v);
        }
    }
    qpc_value map = {.kind = QPC_MAP};
    map.map.pairs = pairs;
    map.map.count = map.map.capacity = QPC_STEP_FIELD_COUNT;
    return map;
}

qpc_status qpc_step_fields_to_value(qpc_value *ret) {
    qpc_value list = qpc_list();
    qpc_status status = QPC_OK;
    for (int32_t i = 0; i < QPC_STEP_FIELD_COUNT && status == QPC_OK; i++) {
        qpc_value map = qpc_map();
        qpc_put(&map, &status, "name", qpc_text_borrow(fields[i].name));
        qpc_put(&map, &status, "type", qpc_text_borrow(fields[i].integer ? "int" : "real"));
        qpc_put(&map, &status, "unit", qpc_text_borrow(fields[i].unit));
        qpc_put(&map, &status, "doc", qpc_text_borrow(fields[i].doc));
        qpc_add(&list, &status, map);
    }
    return qpc_finish(&list, status, ret, NULL);
}
