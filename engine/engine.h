/// The engine as the server sees it: meshes, worlds, steps and their reports. No network, SQL, files.
///
/// A world is used by one thread at a time; worlds share nothing but immutable meshes. Scenes and
/// controls come as value trees (docs/scene.md); errors name the key. Same scene, same binary: same
/// state hash after every step, on any thread.
#ifndef QPC_ENGINE_ENGINE_H
#define QPC_ENGINE_ENGINE_H

#include "base/parallel.h"
#include "base/status.h"
#include "base/value.h"
#include "engine/geometry/mesh.h"

typedef struct qpc_world qpc_world;

// ---- limits and surroundings ----

typedef struct qpc_world_limits { // 0: the default
    int64_t max_bodies;           // 1,000
    int64_t max_nodes;            // degrees of freedom / 3; 1,000,000
    int64_t max_candidates;       // candidate pairs of one step; 20,000,000
} qpc_world_limits;

/// Where a world gets meshes from. On success *ret is a new reference (the world releases it).
typedef qpc_status (*qpc_mesh_lookup)(void *user, const uint8_t sha256[32], qpc_mesh **ret,
                                      qpc_error *err);
/// A state inside a step that was travelled through (halved sub-steps); x (nodes x 3) m. Called when the step
/// has succeeded, before qpc_world_step returns: a step that fails has no states.
typedef void (*qpc_substep_sink)(void *user, int64_t step, double time, const double *x,
                                 int32_t node_count);

typedef struct qpc_world_env {
    void *user;
    qpc_mesh_lookup mesh_lookup;
    qpc_substep_sink substep; // NULL: not wanted
    qpc_world_limits limits;
    const qpc_parallel *parallel; // who helps with slices of a large step; referenced. NULL: nobody
} qpc_world_env;

enum { QPC_SCENE_PAIRS_MAX = 16 };
typedef struct qpc_scene_pair { // intersection, or within thickness (a warning)
    int32_t body[2], feature[2];
    double depth;
} qpc_scene_pair;
typedef struct qpc_scene_report { // always written, also on failure
    int64_t overlap_count;        // true intersections: refused (QPC_ERR_INVALID), or pushed out if the scene says so
    int64_t close_count;          // pairs within thickness: a warning, rows push them out; or pushed out
    int64_t moved_count;          // nodes moved by the push-out
    double largest_move;          // of these, m
    int64_t stuck_count;          // pairs that it could not separate: refused
    int32_t pair_count;           // of the following: the scene as given, overlaps first; if refused with
                                  // stuck_count > 0, what is left, worst first, depth being the least that is still to go
    qpc_scene_pair pair[QPC_SCENE_PAIRS_MAX];
    int32_t warning_count;
    char warning[8][160];         // zero-area triangles, unreferenced vertices, mass ratios, ...
} qpc_scene_report;

// ---- life of a world ----

qpc_status qpc_world_create(const qpc_value *scene, const qpc_world_env *env, qpc_world **ret,
                            qpc_scene_report *report, qpc_error *err);
void qpc_world_destroy(qpc_world *world); // NULL is accepted
/// Bytes held by the world's arrays, arena included.
size_t qpc_world_memory(const qpc_world *world);

// ---- one step ----

/// One row of diagnostics a step: the columns of a run file, the map on the wire and docs/storage.md are
/// made from this list. X(type, name, unit, one line); type I: int64_t, R: double.
#define QPC_STEP_FIELDS(X)                                                                         \
    X(I, step, "1", "number of the step, from 1")                                                  \
    X(R, time, "s", "simulated time at its end")                                                   \
    X(I, hash, "1", "state hash after the step (the 64 bits as a signed integer)")                 \
    X(I, outcome, "1", "0 optimal, 1 iteration limit (rows, friction or stationarity not to their tolerance, the last 1e-6; or a pair ends nearer than 0.95 of its thickness, and than any was before), 2 relaxed, 3 stalled, 4 fail-safe") \
    X(I, engine, "1", "solver that gave the answer: 1 augmented-lagrangian, 2 active-set, 3 augmented-cg, 4 projected, 5 interior-point, 6 lcp-impulse, 15 position-based; with friction that was met: 16 exact over bands, 17 exact over a sparse K, 18 exact by dense matrices, 19 staggered") \
    X(I, passes, "1", "collision passes (detect and solve again), the first solve not counted")    \
    X(I, newton, "1", "extra Newton iterations with re-detected rows")                             \
    X(I, halvings, "1", "times the step was halved")                                               \
    X(I, failsafe, "1", "groups whose motion was cut short before an impact, driven bodies and targets held back, bodies made to stand") \
    X(R, failsafe_scale, "1", "smallest factor that a motion was cut to or a driven one held back to; 1 if none")                    \
    X(I, contacts, "1", "contacts with rows at the end")                                           \
    X(I, rows, "1", "rows of the last QP")                                                         \
    X(I, active, "1", "rows held at their bound")                                                  \
    X(I, strain_rows, "1", "rows of strain limits")                                                \
    X(I, joint_rows, "1", "rows of attachments, ball joints, hinges and tendons")                 \
    X(R, joint_gap, "m", "largest distance of points that a joint holds together, or of a tendon past its length, at the end of the step") \
    X(I, active_hash, "1", "hash of the sorted keys of the active rows")                           \
    X(I, qps, "1", "QPs solved in the step")                                                       \
    X(I, solver_iterations, "1", "iterations of QPs, friction and impacts, changes of sets apart")  \
    X(I, set_changes, "1", "rows added to and dropped from active sets")                           \
    X(I, budget, "1", "iterations and set changes that the step was given; 0: as many as it needed") \
    X(I, exhausted, "1", "1: they did not suffice: the best iterate was taken, or friction was missed where it was cut short")                \
    X(I, factorizations, "1", "factorisations of K or K + J'RJ")                                   \
    X(I, solves, "1", "back-substitutions")                                                        \
    X(I, fallbacks, "1", "QPs that the fallback solver finished")                                  \
    X(I, candidates, "1", "candidate pairs looked at")                                             \
    X(I, vt_tests, "1", "vertex-triangle tests")                                                   \
    X(I, ee_tests, "1", "edge-edge tests")                                                         \
    X(I, hits, "1", "hits of all continuous tests of the step")                                    \
    X(I, ccd_uncertain, "1", "of these, pairs that detection could not decide and took as hits to be safe") \
    X(I, list_rebuilds, "1", "candidate lists queried anew")                                       \
    X(R, stat, "1", "relative stationarity |K dv - b + J'lambda| in the K^-1 norm")                \
    X(R, prim, "1", "largest violation of a row over its scale")                                   \
    X(R, dual, "1", "largest negative multiplier over its scale")                                  \
    X(R, comp, "1", "sum |lambda s| over the squared scale")                                       \
    X(R, err, "1", "stat + sqrt(comp): bounds the relative error of dv in the energy norm")        \
    X(R, natural, "m/s", "natural residual max |min(s, lambda kt^2)|")                             \
    X(R, natural_ratio, "1", "natural residual times dt over the smallest separation")             \
    X(R, violation, "m/s", "largest row violation")                                                \
    X(R, solve_check, "1", "relative residual of the K-solve behind stat")                         \
    X(I, sticking, "1", "contacts with a force and friction that stick at the end: their impulse is inside its disc, also with what they slide added")                            \
    X(I, sliding, "1", "contacts with friction that slide at the end")                             \
    X(R, friction_natural, "m/s", "natural residual of Coulomb's law, docs/theory-friction.md")    \
    X(R, friction_defect, "1", "dissipation missing to the maximum, over the squared scale")       \
    X(I, friction_missed, "1", "1: a friction problem of the step did not reach its tolerance and the motion does not meet Coulomb's law as rows are met, or friction was left out")                     \
    X(I, impacts, "1", "contacts that bounced")                                                    \
    X(R, restitution_scale, "1", "least factor that restitution was lowered by to gain no energy; 1 if none") \
    X(I, conflicts, "1", "rows that proved to contradict each other on the way, of the last such proof; without one, springs past limits that go on giving way; 0: neither") \
    X(R, relaxed, "m/s", "largest relaxation of contradicting rows")                               \
    X(R, min_gap, "1", "smallest distance over separation at its end and the ends of its parts, at most solver.reach") \
    X(R, toi_margin, "1", "when, in parts of an accepted motion, a pair first came within 0.95 of its separation (or 0.9 of its start distance); 1 if none did") \
    X(I, proven, "1", "1: a continuous test of each motion that was taken over found that nothing comes within the acceptance distance; 0: not proven") \
    X(R, kinetic, "J", "kinetic energy")                                                           \
    X(R, potential, "J", "gravitational energy against the start")                                 \
    X(R, elastic, "J", "elastic energy, with that of limits that gave way")             \
    X(R, work, "J", "work of driven bodies, targets and applied forces so far")                    \
    X(R, work_pushed, "J", "work of push-out rows and of cut or held-back motion so far, apart")   \
    X(R, energy_scale, "J", "initial kinetic + sum m g times height range + largest elastic, at least loads times thickness; + largest |work| so far") \
    X(R, energy_step, "1", "(E+ - E - W of the step) over the scale")                              \
    X(R, energy_drift, "1", "(E+ - E0 - W) over the scale")                                        \
    X(R, momentum_x, "kg m/s", "total momentum")                                                   \
    X(R, momentum_y, "kg m/s", "total momentum")                                                   \
    X(R, momentum_z, "kg m/s", "total momentum")                                                   \
    X(R, max_speed, "m/s", "largest node speed")                                                   \
    X(R, max_strain, "1", "largest |l/l0 - 1| of a spring, those of bending left out")                                        \
    X(R, lag, "m", "largest distance of something driven from where its orders would have it")                                          \
    X(I, allocations, "1", "memory allocations of the step (0 after warm-up)")                     \
    X(I, arena_bytes, "B", "high water of the step arena")                                         \
    X(I, ns_assemble, "ns", "wall time: K and b")                                                  \
    X(I, ns_detect, "ns", "wall time: proximity, passes and acceptance")                           \
    X(I, ns_rows, "ns", "wall time: rows from contacts")                                           \
    X(I, ns_solve, "ns", "wall time: solvers of QPs, friction and impacts")                                               \
    X(I, ns_certify, "ns", "wall time: certificate, energy, hash")                                 \
    X(I, ns_total, "ns", "thread CPU time of the step")                                            \
    X(I, ns_wall, "ns", "wall time of the step")

typedef struct qpc_step_report {
#define QPC_STEP_TYPE_I int64_t
#define QPC_STEP_TYPE_R double
#define QPC_STEP_MEMBER(type, name, unit, text) QPC_STEP_TYPE_##type name;
    QPC_STEP_FIELDS(QPC_STEP_MEMBER)
#undef QPC_STEP_MEMBER
} qpc_step_report;

enum {
    QPC_STEP_OPTIMAL = 0,
    QPC_STEP_ITERATION_LIMIT = 1,
    QPC_STEP_RELAXED = 2,
    QPC_STEP_STALLED = 3,
    QPC_STEP_FAILSAFE = 4,
};

/// Advance by dt. Other than OK: the state is as before (NUMERIC: a number left the finite range;
/// LIMIT: max_candidates; MEMORY; CANCELLED). How hard the step was is in the report.
qpc_status qpc_world_step(qpc_world *world, qpc_step_report *report, qpc_error *err);

/// Applies forces, targets, velocities and parameters (docs/scene.md, control) before the next step.
/// All or nothing: on failure nothing changed.
qpc_status qpc_world_control(qpc_world *world, const qpc_value *control, qpc_error *err);

// ---- reading; pointers are borrowed until the next step or control ----

int64_t qpc_world_step_number(const qpc_world *world);
double qpc_world_time(const qpc_world *world);
double qpc_world_dt(const qpc_world *world);
uint64_t qpc_world_hash(const qpc_world *world);
uint64_t qpc_world_scene_hash(const qpc_world *world);

typedef struct qpc_body_info {
    const char *name; // borrowed for the life of the world
    const char *kind; // "cable", "cloth", "rigid", "soft", "static", "kinematic", "obstacle"
    int32_t first_node, node_count; // in the arrays below; static bodies have nodes too
    int32_t element_count, nodes_per_element;
    double radius;
    int32_t first_spring, spring_count; // of qpc_world_tensions; cloth: its edges, then springs across inner edges
    const qpc_mesh *mesh; // NULL for a cable; of a soft body the boundary
    const qpc_mesh *tets; // of a soft body, else NULL
    bool moves;           // false: positions never change
    int64_t removed;      // the step after which it was taken out of the world, or -1: its nodes stay where they were, and mean nothing
} qpc_body_info;
int32_t qpc_world_body_count(const qpc_world *world);
qpc_body_info qpc_world_body(const qpc_world *world, int32_t body);
int32_t qpc_world_node_count(const qpc_world *world);
const double *qpc_world_positions(const qpc_world *world);  // (nodes x 3) m
const double *qpc_world_velocities(const qpc_world *world); // (nodes x 3) m/s
const double *qpc_world_masses(const qpc_world *world);     // (nodes) kg; 0: not a degree of freedom, or of a rigid body
/// Spring tensions, body after body (qpc_body_info), N.
const double *qpc_world_tensions(const qpc_world *world, int32_t *ret_count);

/// Contacts of the last step that have a row, sorted by key.
typedef struct qpc_contact_info {
    int32_t body[2], feature[2];
    int32_t kind;      // 0 vertex-triangle, 1 edge-edge
    double position[3]; // point on side i at the end of the step, m
    double normal[3];  // from side j to side i
    double gap;        // distance - separation at the end of the step along the normal, m
    double force;      // lambda / dt >= 0, N
    double friction[3]; // of friction on side i, N
    uint64_t key;
} qpc_contact_info;
const qpc_contact_info *qpc_world_contacts(const qpc_world *world, int32_t *ret_count);
/// Reaction forces of fixed points over the last step, N, (count x 3); nodes in the order fixed.
const double *qpc_world_reactions(const qpc_world *world, const int32_t **ret_node,
                                  int32_t *ret_count);
/// Forces of strain limits over the last step, N >= 0, one a spring (0: slack); sign of a maximum.
const double *qpc_world_limit_forces(const qpc_world *world, int32_t *ret_count);
/// Joints, in the order of `constraints`, and their forces over the last step.
typedef enum qpc_joint_kind { QPC_JOINT_ATTACH, QPC_JOINT_BALL, QPC_JOINT_HINGE, QPC_JOINT_TENDON } qpc_joint_kind;
typedef struct qpc_joint_info {
    qpc_joint_kind kind;
    int32_t constraint;  // place in `constraints` of the scene
    double position[3];  // of its first point, m
    double force[3];     // on its first point, N
    double torque[3];    // of a hinge, on its first body about position, N m
    double tension;      // of a tendon, N; else |force|
    double gap;          // how far its points are apart, a tendon longer than allowed (not kept in length: if it is), m
} qpc_joint_info;
const qpc_joint_info *qpc_world_joints(const qpc_world *world, int32_t *ret_count);
/// Why a body was made to stand in the last step: no motion of it made sense (docs/architecture.md). Such a step counts the bodies in
/// `failsafe`, with the scale 0.
typedef enum qpc_still_reason {
    QPC_STILL_NOT,    // it was not
    QPC_STILL_FAST,   // it was over ten times faster than anything explains, with more than ten times the energy there is
    QPC_STILL_BURIED, // stiffness times dt^2 is so much larger than mass that K has no factor in double precision
    QPC_STILL_REMOVED, // inside of a world: it was taken out of it, and is not told of
} qpc_still_reason;
qpc_still_reason qpc_world_still(const qpc_world *world, int32_t body);
/// Nothing free moved in a part of that step: no motion made sense, and no body alone was to blame.
bool qpc_world_all_stood(const qpc_world *world);

/// What contradicted in the last step: the pairs and springs behind the first 1,024 rows of the proof (`conflicts` of the report
/// says how many rows), each once, by its first row. Every one of the rows is needed for the contradiction. They were relaxed, or
/// the motion held back.
typedef enum qpc_conflict_kind { // on the wire: the order never changes
    QPC_CONFLICT_VERTEX_TRIANGLE,
    QPC_CONFLICT_EDGE_EDGE,
    QPC_CONFLICT_STRAIN_MAX,
    QPC_CONFLICT_STRAIN_MIN,
    QPC_CONFLICT_JOINT,
} qpc_conflict_kind;
typedef struct qpc_conflict_info {
    int32_t kind;                // qpc_conflict_kind
    int32_t body[2], feature[2]; // of a contact as above; of a strain limit the body and its spring, -1; of a joint
                                 // its first body that moves freely and its place in `constraints`, -1
    uint64_t key;
} qpc_conflict_info;
const qpc_conflict_info *qpc_world_conflicts(const qpc_world *world, int32_t *ret_count);
/// The canonical wire form of the scene (names and record included), borrowed for life.
const qpc_value *qpc_world_scene(const qpc_world *world);

#endif
