/// What readers see of a world: an immutable, reference-counted copy of its state after a step.
///
/// The worker in the world takes snapshots; the loop answers world.state and feeds subscribers from
/// them, the recorder writes them. Arrays are over the nodes of moving bodies, in body order
/// (docs/protocol.md, frames); the layout says which nodes of the engine these are.
#ifndef QPC_SERVER_SNAPSHOT_H
#define QPC_SERVER_SNAPSHOT_H

#include "engine/engine.h"

#include <stdatomic.h>

enum { QPC_NAME_SIZE = 64 };

typedef struct qpc_layout_body {
    char name[QPC_NAME_SIZE], kind[16];
    int32_t first_node, node_count; // in frames; 0 nodes: does not move
    int32_t engine_first;           // the same in the engine's arrays
    int32_t first_tension, tension_count;
    int32_t element_count, nodes_per_element;
    double radius;
    bool moves, has_mesh;
    uint8_t mesh_sha256[32];
} qpc_layout_body;

typedef struct qpc_layout {
    int32_t node_count;        // of moving bodies
    int32_t engine_node_count; // of all
    int32_t engine_first;      // if contiguous: where the moving nodes begin
    bool contiguous;
    int32_t body_count;
    qpc_layout_body bodies[];
} qpc_layout;

/// Immutable afterwards; freed with qpc_free.
qpc_status qpc_layout_create(const qpc_world *world, qpc_layout **ret, qpc_error *err);
/// Copies the moving nodes of an engine array (all nodes x 3) into out (node_count x 3).
void qpc_layout_gather(const qpc_layout *layout, const double *all, double *out);
/// The list of maps {name, kind, first_node, node_count, radius, ...} for the wire.
qpc_status qpc_layout_to_value(const qpc_layout *layout, qpc_value *ret);
/// A body by name or index; `where` names the key. QPC_ERR_NOT_FOUND says which names there are.
qpc_status qpc_layout_find_body(const qpc_layout *layout, const qpc_value *v, const char *where,
                                int32_t *ret, qpc_error *err);

typedef enum qpc_snapshot_part {
    QPC_PART_POSITIONS = 1,
    QPC_PART_VELOCITIES = 2,
    QPC_PART_TENSIONS = 4,
    QPC_PART_CONTACTS = 8,
    QPC_PART_REACTIONS = 16,
    QPC_PART_DIAGNOSTICS = 32,
    QPC_PART_LIMIT_FORCES = 64,
    QPC_PART_CONFLICTS = 128,
    QPC_PART_JOINTS = 512,
    QPC_PART_ALL = 255 | QPC_PART_JOINTS,
    QPC_PART_SINGLE = 256, // float32 copies of positions and velocities too
} qpc_snapshot_part;

typedef struct qpc_snapshot {
    _Atomic int32_t refs;
    uint32_t parts;
    int64_t step;
    double time;
    uint64_t hash;
    int32_t node_count, tension_count, contact_count, reaction_count, limit_count, conflict_count, joint_count;
    double *positions, *velocities; // (nodes x 3) m, m/s
    float *positions32, *velocities32;
    double *tensions, *limit_forces; // N
    int64_t *removed;                // (bodies) the step after which it was taken out of the world, or -1
    int32_t body_count;
    int32_t *contact_body, *contact_feature; // (n x 2)
    uint8_t *contact_kind;                   // (n)
    double *contact_position, *contact_normal, *contact_gap, *contact_force, *contact_friction;
    uint64_t *contact_key;
    int32_t *conflict_body, *conflict_feature; // (n x 2)
    uint8_t *conflict_kind;                    // (n)
    uint64_t *conflict_key;
    int32_t *reaction_node;  // in frame numbers
    double *reaction_force;  // (n x 3) N
    int32_t *joint_constraint;                 // (n)
    uint8_t *joint_kind;                       // (n) qpc_joint_kind
    double *joint_position, *joint_force, *joint_torque, *joint_tension, *joint_gap;
    qpc_step_report report;  // zero before the first step
    bool stepped;
} qpc_snapshot;

/// Copy the wanted parts of the state. One allocation. The reference is the caller's.
qpc_status qpc_snapshot_take(const qpc_world *world, const qpc_layout *layout,
                             const qpc_step_report *report, uint32_t parts, qpc_snapshot **ret,
                             qpc_error *err);
qpc_snapshot *qpc_snapshot_ref(qpc_snapshot *snapshot);
void qpc_snapshot_unref(qpc_snapshot *snapshot); // NULL is accepted
size_t qpc_snapshot_size(const qpc_snapshot *snapshot);

/// "positions", ... in a list of names, to parts. NULL list: standard. Unknown names are errors.
qpc_status qpc_parts_from_value(const qpc_value *list, const char *where, uint32_t standard,
                                uint32_t *ret, qpc_error *err);
/// "float32" (the default when v is NULL) or "float64".
qpc_status qpc_single_from_value(const qpc_value *v, const char *where, bool *ret,
                                 qpc_error *err);
/// Add the parts to map; arrays borrow from the snapshot where no conversion is needed. body: -1,
/// or positions, velocities and tensions of that body alone. QPC_ERR_MEMORY.
qpc_status qpc_snapshot_to_map(const qpc_snapshot *snapshot, const qpc_layout *layout,
                               uint32_t parts, bool single, int32_t body, qpc_value *map);

/// Every step field as a map with borrowed keys, in pairs (QPC_STEP_FIELD_COUNT of them) that the
/// caller owns: takes no memory and must not be given to qpc_value_fini.
enum {
#define QPC_STEP_FIELD_ONE(type, name, unit, text) +1
    QPC_STEP_FIELD_COUNT = 0 QPC_STEP_FIELDS(QPC_STEP_FIELD_ONE)
#undef QPC_STEP_FIELD_ONE
};
qpc_value qpc_report_map(const qpc_step_report *report, qpc_pair *pairs);
/// Name and whether it is an integer, by number.
const char *qpc_step_field_name(int32_t field);
bool qpc_step_field_is_integer(int32_t field);
/// [{name, type, unit, doc}] for rpc.describe.
qpc_status qpc_step_fields_to_value(qpc_value *ret);

#endif
