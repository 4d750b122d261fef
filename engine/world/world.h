/// Inside of a world: its arrays and the calls between the files of this folder.
///
/// Nodes are numbered cables and cloth first (in body order), then vertices of rigid, kinematic and static bodies, so that
/// the unknowns of node i are 3 i .. 3 i + 2 for i < free_count, and the nodes that move come first. Behind the unknowns of
/// nodes come six for each rigid body, velocity of the centre and angular velocity: two blocks of three.
#ifndef QPC_ENGINE_WORLD_WORLD_H
#define QPC_ENGINE_WORLD_WORLD_H

#include "base/hash.h"
#include "engine/collision/detect.h"
#include "engine/dynamics/cable.h"
#include "engine/dynamics/linsys.h"
#include "engine/dynamics/rigid.h"
#include "engine/engine.h"
#include "engine/solver/certificate.h"
#include "engine/solver/rows.h"
#include "engine/solver/solver.h"
#include "engine/world/scene.h"
#include "engine/world/softs.h"

/// Acceptance distance: min(0.3 separation, 0.9 of the start distance).
#define QPC_ACCEPT_FACTOR 0.3
/// Passes look for hits at this fraction of the separation; rows aim at all of it.
#define QPC_PASS_FACTOR 0.95

typedef struct qpc_body {
    char name[64];
    qpc_motion_kind motion;
    int32_t first_node, node_count;
    int32_t material;     // row and column of the laws
    int32_t first_spring, spring_count, stretch_count; // cable, cloth; bending springs come last
    int32_t first_tet, tet_count;                      // soft
    double radius;
    qpc_mesh *mesh;
    bool obstacle;              // its nodes are those of a frame; see obstacles.h
    int32_t core_count;         // rigid sphere, capsule: its first nodes, which with `radius` about them are its surface; else 0
    double core_length;         // m, between those of a capsule
    qpc_implicit shape;
    bool responds;              // at the level of velocities, without rows; see respond.c
    qpc_mesh *tets;             // soft: what the mesh is the boundary of
    double *local;              // kinematic, rigid: (n x 3) vertices in the frame of the body, m; rigid: principal axes, from its centre
    int32_t rigid;              // number among the rigid bodies, or -1
    qpc_vec3 position;          // kinematic pose
    double rotation[4];         // w, x, y, z
    qpc_vec3 velocity, angular_velocity;
    qpc_vec3 owed, owed_turn;   // kinematic: way it was held back from, m and rad; pose + owed = where it should be
    double pace, turn_pace;     // kinematic: largest speed since something is owed, m/s and rad/s
    double hold;                // kinematic: part of its motion that it is let go in the present attempt
    bool stood;                 // kinematic: it was not let go at all in the motion before
    bool pressing;              // kinematic: the present attempt has no answer, or a wild one, because of it
    double self_exclusion;      // as qpc_surface has it
    bool gone;                  // removed after the step gone_since; see remove.c
    int64_t gone_since;
} qpc_body;

typedef struct qpc_rigid_part { // what a rigid body is beside its surface
    int32_t body;
    int32_t dof;               // first of its six unknowns
    qpc_rigid_body inertia;
    double reach;              // of its farthest vertex from the centre, m
    double swing;              // the same of what is tested along chords: not the frame of a sphere or capsule
    qpc_vec3 kick, twist;      // change of velocities that pose1 was placed with
    qpc_rigid_state middle;    // half of the way to pose1, where there are joints (TJ16)
    double held;               // its vertices stay where they are for that part of the motion (TR23); 0: they go
} qpc_rigid_part;

typedef struct qpc_pin { // a fixed node; its three rows are eliminated from K (docs/theory.md)
    int32_t node;
    qpc_vec3 target, velocity; // where it shall be at the end of the step; m/s it moves on with
    double pace;               // m/s of the orders since it lags behind: what catching up is capped by
    double hold;               // part of its way that it is let go in the present attempt
    bool told;                 // the target is new: to be reached in the coming step
    bool gone;                 // its body is: nothing holds it
    qpc_vec3 reaction;         // N, force of the constraint on the node over the last step
    qpc_vec3 b;                // right-hand side of the free system
    int32_t first, count;      // its neighbours and itself in pin_other and pin_block
} qpc_pin;

/// The friction problem of the rows that stand, see qpc_friction.
typedef struct qpc_rub {
    QPC_ARRAY(int32_t) row, start, column;
    QPC_ARRAY(double) mu, value, u0, beta;
    QPC_ARRAY(qpc_vec3) tangent; // two a contact
    double natural, defect;      // of the last solve, by the certificate: m/s; over S^2
    int32_t sticking, sliding;
    bool contradicts;            // rows of this step did,
    QPC_ARRAY(bool) lawless;     // (bodies) and these were in it
    int32_t missed;              // solves of this step that did not reach their tolerance
    bool unmet;                  // the last solve did not, or had to leave friction out
    bool cut_short;              // a solve of this step did not for the sake of the budget
} qpc_rub;

typedef struct qpc_kept_friction {
    uint64_t key;
    qpc_vec3 impulse; // on the first side, N s
} qpc_kept_friction;

typedef struct qpc_response { // of an obstacle that answers at the level of velocities
    qpc_contact contact;
    qpc_vec3 impulse; // on side i, N s
} qpc_response;

struct qpc_world {
    // what the scene says
    qpc_value scene;
    uint64_t scene_hash;
    double dt, min_separation;
    qpc_vec3 gravity;
    qpc_integrator integrator;
    qpc_solver_def solver;
    double recovery; // m/s, at which the present attempt pushes out: recovery_speed, or less where that does too much
    qpc_world_env env;
    qpc_body *bodies;
    int32_t body_count;

    // nodes
    int32_t node_count, free_count, moving_count;
    int32_t live_count;     // free nodes and vertices of rigid bodies: what forces move
    int32_t block_count;    // unknowns by threes: free nodes, then two for each rigid body
    double *x, *v, *mass;   // state
    double *force;          // (block_count x 3) applied forces, N, and torques, N m
    double *x1;             // (node_count x 3) end of the motion on trial
    double *v_frame;        // (node_count x 3) see qpc_row_frame
    double *proven;         // (moving_count x 3) end of the motion from x that was tested last
    bool proof;             // that test found nothing
    int32_t *row_dof;       // (node_count) 3 i, that of its body for a rigid vertex, or -1 for pinned and driven nodes
    // rigid bodies
    qpc_rigid_part *rigids;
    int32_t rigid_count;
    qpc_rigid_state *pose, *pose1; // (rigid_count) now; at the end of the motion on trial
    int32_t *row_turn;      // (node_count) unknown of its body's turning for a rigid vertex, else -1; NULL: no rigid bodies
    double *arm;            // (live_count x 3) of rigid vertices, half way through the motion on trial, m
    qpc_pin *pins;
    int32_t *pin_node;      // (pin_count) the same nodes, for readers
    double *reactions;      // (pin_count x 3) N
    int32_t pin_count;
    int32_t *pin_of;        // (free_count) pin of a node, or -1
    int32_t *pin_other;     // nodes that K couples pins to, themselves too, ascending
    double *pin_block;      // (of these, 3x3) of the free K

    // springs and strain limits
    qpc_springs springs;
    struct qpc_sheet *sheets; // cloth that is no springs; see sheets.h
    int32_t sheet_count;
    qpc_softs softs;
    int32_t *spring_node, *spring_other, *spring_place; // the last two: NULL without cloth
    double *stiffness, *base; // N/m; base: springs.base, NULL without sheets
    double *rest_length, *spring_min, *spring_max; // m; 0 and infinity: none
    bool any_limit;
    double *tension, *limit_force;

    struct qpc_joint *joints; // attachments, ball joints, hinges, tendons; see joints.h
    int32_t joint_count;
    qpc_joint_info *joint_info;
    struct qpc_load *loads; // springs, dampers, drag, pressure and damping; see loads.h
    int32_t load_count;
    double *pushed;         // (block_count x 3) forces and torques of pressure and wind at x, N, N m; NULL: none

    // contact laws and friction
    qpc_contact_law *laws; // (material_count x material_count), symmetric
    int32_t material_count;
    bool rubs, bounces;    // some law has friction, restitution
    qpc_rub rub;
    QPC_ARRAY(qpc_kept_friction) kept; // friction of the last solve, sorted by key
    qpc_linsys inertia;        // M, if something bounces
    uint8_t *still, *stuck;    // (body_count) qpc_still_reason of bodies made to stand in this step, and in the one before (standstill.c)
    int32_t *stood_for;        // (body_count) steps in a row that it was
    bool still_found, still_retry; // a part of the step has found more of them; those of the step before are on trial
    bool all_stood;            // in a part of the step
    int32_t still_rounds;
    double *mass_floor;        // (3 block_count) what K is not less than, kg
    QPC_ARRAY(double) bounce;  // impulses of restitution in the last motion, by row, N s; empty: none

    bool responds;             // some obstacle answers at the level of velocities
    QPC_ARRAY(qpc_response) responses; // of the motion on trial

    // step workspace
    qpc_linsys sys;
    qpc_arena arena;
    double *b, *f, *Hu, *dv, *dv_try, *dv_best; // (3 block_count)
    qpc_detector *detector;
    qpc_contacts near;      // proximity at x: gaps of the report, rows of a cautious attempt
    bool near_valid;
    qpc_contacts probe;     // re-detected contacts or hits
    qpc_contacts predicted; // re-detected by this attempt so far, sorted by key, latest normals
    qpc_contacts merged;    // scratch of the merge
    qpc_contacts impacts;   // hits of the passes of this attempt; kept while K is relinearised
    qpc_contacts held;      // contacts with a row, by row source
    uint8_t *limit_on;      // per spring: has a strain row in this attempt
    uint8_t *touched, *lost; // (free_count) in a contact with a force in the last motion; of those, out of reach of the prediction (lost.c)
    bool any_touched;
    uint8_t *giving;        // per spring: its limit gives way in this motion; springs.giving is this or NULL
    qpc_rows rows;
    uint64_t *warm_key;     // multipliers of the last solve, sorted by key
    double *warm_lambda;
    int32_t warm_count, warm_capacity;
    double warm_h;          // the step length that they belong to
    int32_t factor_first;   // steps to come whose K conjugate gradients are not tried on
    qpc_hash64 *hasher;
    // integrators other than Euler's (integrate.h), else NULL
    uint8_t *plain;           // (free_count) the node ends at x + h (v + dv)
    double *free_kick, *ahead; // (free_count x 3) rk4: change of v by forces; v at the end less the mean of the motion; m/s
    double *between;          // (free_count x 3) rk4: positions of a stage; midpoint: where forces are linearised; m
    QPC_ARRAY(double) substates; // (k x (1 + 3 node_count)) times and positions inside the step that runs

    // state of the run
    int64_t step;
    double time;
    uint64_t hash;
    qpc_vec3 gone_moment; // of removed bodies, sum m x, kg m: they have no weight
    double energy, energy_start, work, work_pushed, kinetic_start, elastic_most;
    double gained;    // E+ - E - W of the parts of this step so far, J
    double work_most; // largest |work| so far, for the scale of reports
    double height_low, height_high; // along -gravity, m
    qpc_contact_info *contact_info;
    int32_t contact_info_count, contact_info_capacity;
    qpc_conflict_info *conflict_info;
    int32_t conflict_info_count, conflict_info_capacity;
    qpc_step_report *report; // of the step that runs
};

// ---- world.c ----
/// E = kinetic + gravitational + elastic at (x, v) and the rigid bodies' states; parts may be NULL.
double qpc_world_energy(const qpc_world *w, const double *x, const double *v, const qpc_rigid_state *pose, double *ret_kinetic,
                        double *ret_potential, double *ret_elastic);
/// Chain the hash of the state after step w->step + 1 onto w->hash.
uint64_t qpc_world_state_hash(qpc_world *w);

// ---- remove.c ----
/// A detector of all bodies but those (gone: body_count, NULL: of all), with positions as they are.
qpc_status qpc_world_make_detector(const qpc_world *w, const bool *gone, qpc_detector **ret, qpc_error *err);
/// Between steps: remove those bodies (body_count, with the ones that are gone already); the world takes over the detector, which knows the rest.
void qpc_world_take_out(qpc_world *w, const bool *gone, qpc_detector *detector);

// ---- standstill.c ----
qpc_status qpc_still_make(qpc_world *w, qpc_error *err);
/// Bodies that stand: x1 = x, v_frame = 0.
void qpc_still_place(qpc_world *w);

// ---- cause.c ----
/// Append to the message of a step that ran out of the range of numbers which body does something in it that none can, if one does.
void qpc_world_name_cause(const qpc_world *w, qpc_error *err);

// ---- friction.c ----
void qpc_rub_fini(qpc_rub *rub);

// ---- start.c ----
/// Default of start_push_limit, in radii of a node's cable.
#define QPC_START_PUSH_RADII 4.0
/// Find what intersects or lies within thickness; refuse it (QPC_ERR_INVALID) or, with push, move free nodes
/// apart, each by at most push_limit m (0: the default). The report is of the scene as given. Leaves w->near.
qpc_status qpc_start_check(qpc_world *w, bool push, double push_limit, qpc_scene_report *report, qpc_error *err);

// ---- motion.c: where driven and pinned nodes go ----
/// Has a prescribed motion, or owes some.
bool qpc_motion_is_driven(const qpc_body *body);
/// Fastest that a node of a kinematic body goes in a motion of length h that nothing holds back, m/s, or a little more.
double qpc_motion_speed(const qpc_body *body, double h);
/// Orders for the step that begins: targets of pins that move on by themselves, and the speeds that
/// catching up is measured by.
void qpc_motion_begin_step(qpc_world *w);
/// Fill x1 and v_frame of driven and pinned nodes for a motion of length h when `left` seconds of the
/// step remain, each body and pin going the part `hold` of its way; v_frame of free nodes = v.
void qpc_motion_prepare(qpc_world *w, double h, double left);
/// Put the nodes of a kinematic body where `scale` of its motion of length h takes it, in x1.
void qpc_motion_place(qpc_world *w, int32_t body, double h, double scale);
/// Take over poses after a motion of h whose driven part was cut to body_scale (NULL: nothing was cut).
void qpc_motion_commit(qpc_world *w, double h, const double *body_scale);
/// Let every body and pin go all of its way again.
void qpc_motion_release(qpc_world *w);
/// Largest distance between where something driven is and where its orders would have it, m.
double qpc_motion_lag(const qpc_world *w);

/// Forces are those of the end or the middle of a motion: K = M + h^2 H, and the energy promise (T3, T6).
static inline bool qpc_is_implicit(const qpc_world *w) {
    return w->integrator == QPC_IMPLICIT_EULER || w->integrator == QPC_IMPLICIT_MIDPOINT;
}
/// Force or torque on three unknowns at the start of the motion, applied or of pressure, N, N m.
static inline qpc_vec3 qpc_world_load(const qpc_world *w, int32_t dof) {
    qpc_vec3 f = v3_load(w->force + dof);
    return w->pushed != NULL ? v3_add(f, v3_load(w->pushed + dof)) : f;
}
static inline bool qpc_body_is_free(const qpc_body *body) { return body->motion >= QPC_DYNAMIC; }
/// Blocks of three unknowns of a body, first .. end - 1: one a node, or two of a rigid body, the first of which translates it.
static inline void qpc_body_blocks(const qpc_world *w, const qpc_body *body, int32_t *ret_first, int32_t *ret_end) {
    bool rigid = body->motion == QPC_RIGID;
    *ret_first = rigid ? w->rigids[body->rigid].dof / 3 : body->first_node;
    *ret_end = *ret_first + (rigid ? 2 : qpc_body_is_free(body) ? body->node_count : 0);
}

// ---- rigids.c: motion of rigid bodies (docs/theory-rigid.md, TR17 to TR21) ----
/// pose1 and x1 of a body after the part `scale` of a free motion of length h that begins with the kick dv (blocks x 3).
/// Too fast to follow: x1 is not a number.
void qpc_rigid_place_end(qpc_world *w, int32_t rigid, double h, double scale, const double *dv);
void qpc_rigid_place_ends(qpc_world *w, double h, const double *dv);
/// The kick that stops a body, into dv.
void qpc_rigid_stop(const qpc_world *w, int32_t rigid, double *dv);
/// Every body ends nearer than that, and turns no faster than can be followed.
bool qpc_rigid_leads_somewhere(const qpc_world *w, double h, double farthest, const double *dv);
/// Arms of rows, and v_frame of the vertices such that x + h (v_frame + J dv) is x1 at the kick it was placed with.
void qpc_rigid_linearise(qpc_world *w, double h);
/// Mass blocks into K (cleared), the bodies in `pose`; loads into b.
void qpc_rigid_add_masses(const qpc_world *w, const qpc_rigid_state *pose, qpc_linsys *K);
void qpc_rigid_add_loads(const qpc_world *w, double h, double *b);
/// 1/2 dv'M dv less what loads do on the way.
double qpc_rigid_potential(const qpc_world *w, double h, const double *dv);
/// Velocities of bodies in `pose` into their blocks of u, and back.
void qpc_rigid_velocities(const qpc_world *w, const qpc_rigid_state *pose, double *u);
void qpc_rigid_set_velocities(const qpc_world *w, const double *u, qpc_rigid_state *pose);
/// Velocities of the vertices of bodies in `pose`, at their vertices' places x, into v (nodes x 3).
void qpc_rigid_vertex_velocities(const qpc_world *w, const qpc_rigid_state *pose, const double *x, double *v);
/// Largest over the bodies of how far vertices swerve from the chords that were tested, over the radius.
double qpc_rigid_swerve(const qpc_world *w, double h);
/// Speed of its fastest point is no more than this, m/s.
double qpc_rigid_speed(const qpc_rigid_part *part, qpc_vec3 v, qpc_vec3 turning);
// ---- rigid_create.c ----
/// The next rigid body, of that definition: vertices along its principal axes from its centre, its pose and velocities.
qpc_status qpc_rigid_create(qpc_world *w, int32_t body, const qpc_body_def *def, qpc_error *err);
/// Their unknowns, from the lowest body up: those that lie on each other are next to each other in K.
void qpc_rigid_number(qpc_world *w);
/// Half bandwidth of K without cloth. Rigid bodies are not coupled in it, but in K + J'RJ those that touch are, and what lies beyond
/// the band is dear. Where there is mostly cable, its own.
int32_t qpc_rigid_band(const qpc_world *w);
/// Every so many steps: wider, if bodies came to lie by each other that it does not join.
enum { QPC_WIDEN_STEPS = 16 };
qpc_status qpc_rigid_widen(qpc_world *w, qpc_error *err);
/// Two blocks of three for each behind the pattern of K over the nodes; both arrays grow.
qpc_status qpc_rigid_add_pattern(const qpc_world *w, int32_t **start, int32_t **row, qpc_error *err);

// ---- rigid_sides.c ----
/// A contact found at x is on the outside of the rigid bodies that it is of; true if it is of none.
bool qpc_rigid_is_outside(const qpc_world *w, const qpc_contact *c, const double *x);
/// A hit of x -> x1 with an edge or vertex inside a flat part of a mesh that is not along the normal there: something else is
/// nearer to that plane, and hit before.
bool qpc_rigid_is_beside(const qpc_world *w, const qpc_contact *hit);

// ---- proof.c: what is known of a motion ----
/// Continuous detection of x -> x1 at factor * separation, hits into w->probe; counted in the report. A test at the
/// acceptance distance or more that finds nothing proves the motion. *ret_toi (may be NULL): least time of a
/// hit, 1 if none.
qpc_status qpc_motion_test(qpc_world *w, double factor, double *ret_toi, qpc_error *err);
/// Pairs within factor * separation that come closer in the motion and were that near before, into w->probe (time 0).
qpc_status qpc_motion_find_squeezed(qpc_world *w, double factor, qpc_error *err);
/// The least distance over separation at x1, if it is less than *gap. *ret_nearer: it is below the pass distance, and below the least at x.
qpc_status qpc_motion_find_end(qpc_world *w, double *gap, bool *ret_nearer, qpc_error *err);
/// qpc_motion_test at the acceptance distance; if nothing is hit, pairs that are closer than that and come closer still are hits, too
/// (time 0). Steps out of budget could squeeze them by a tenth each.
qpc_status qpc_motion_test_strictly(qpc_world *w, qpc_error *err);
/// x -> x1, as it is now, bit for bit, is proven.
bool qpc_motion_is_proven(const qpc_world *w);

// ---- groups.c ----
/// The body that a node, a spring is of; there must be one.
int32_t qpc_world_body_of_node(const qpc_world *w, int32_t node);
int32_t qpc_world_body_of_spring(const qpc_world *w, int32_t spring);
/// Of a row that is no contact; of a joint the first that moves freely.
int32_t qpc_world_body_of_row(const qpc_world *w, int32_t row);
/// Groups of bodies: group[i] = i alone, else a body of its group with a lower number; a group is named by its lowest.
int32_t qpc_group_of(int32_t *group, int32_t i);
void qpc_group_join(int32_t *group, int32_t i, int32_t k);

// ---- failsafe.c ----
/// Hold back what drives bodies into an impact: w->probe holds the impacts (none: everything is suspected),
/// rows and held the QP that did not prevent them. Sets `hold` of what is connected to an impact by
/// contacts with a force. Round 0: kinematic bodies, or if there is none moving pins, go up to the time of impact;
/// 1: the bodies stop, so that a pin can get out of their way; 2: so do pins up to the time of impact; 3: bodies and
/// pins stop. *ret_count: how many are held back more than before.
enum { QPC_HOLD_ROUNDS = 4 };
qpc_status qpc_failsafe_hold(qpc_world *w, int32_t round, int32_t *ret_count, qpc_error *err);
/// Cut the motion x -> x1 before its first impact, group by group, until nothing comes closer than the
/// acceptance distance. strictly: nor squeezed. body_scale (body_count) out: the factor each body's motion was cut to;
/// *ret_groups: how many groups were cut.
qpc_status qpc_failsafe_cut(qpc_world *w, double h, bool strictly, double *body_scale, int32_t *ret_groups, qpc_error *err);

#endif
