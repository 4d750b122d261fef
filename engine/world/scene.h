/// Scenes: a value tree (docs/scene.md) to definitions, with errors that name the key.
#ifndef QPC_ENGINE_WORLD_SCENE_H
#define QPC_ENGINE_WORLD_SCENE_H

#include "engine/collision/detect.h"
#include "engine/dynamics/cloth.h"
#include "engine/dynamics/inertia.h"
#include "engine/dynamics/shell.h"
#include "engine/dynamics/tets.h"
#include "engine/engine.h"
#include "engine/solver/friction.h"
#include "engine/solver/impact.h"
#include "engine/world/contact_law.h"

typedef enum qpc_integrator { QPC_IMPLICIT_EULER, QPC_SYMPLECTIC_EULER, QPC_RK4, QPC_IMPLICIT_MIDPOINT } qpc_integrator;

/// The `solver` map of a scene; also what world.control may change.
typedef struct qpc_solver_def {
    qpc_solver_id id;
    bool position_based;   // projections in its place (position.h); id is then not asked
    int32_t iterations;    // sweeps of these
    int32_t newton;        // most extra Newton iterations
    int32_t passes;        // most collision passes
    int32_t halvings;      // deepest halving of a step
    int32_t budget;        // iterations of the solvers that a step may take; 0: as many as it needs
    double tolerance;      // natural residual, in units of (smallest separation) / dt
    double perturbation;   // augmented-cg: L
    double reach;          // proximity rows within reach * separation
    double recovery_speed; // m/s, cap for pushing out of the thickness
    qpc_friction_mode friction;
    double friction_tolerance; // natural residual of friction, dimensionless (friction.h)
    qpc_impact_mode impact;
} qpc_solver_def;
qpc_solver_def qpc_solver_def_default(void);
/// Keys given in map replace those of *def; all or nothing.
qpc_status qpc_solver_def_read(const qpc_value *map, const char *where, qpc_solver_def *def,
                               qpc_error *err);

typedef struct qpc_body_def {
    char name[64];
    char material[QPC_MATERIAL_NAME]; // "": none
    int32_t material_index;
    qpc_motion_kind motion; // QPC_DYNAMIC: a cable, with a mesh cloth, with tets a soft body; QPC_RIGID
    double radius;          // m, half thickness
    // cable, cloth
    int32_t node_count;
    double *nodes;          // (n x 3) m
    double *velocities;     // (n x 3) m/s
    double *masses;         // (n) kg
    qpc_cloth_springs springs; // cable: n - 1 in a row, ends left out
    qpc_shell_rest sheet;   // cloth: no triangles, unless it is a thin sheet and springs have no stiffness of their own
    double sheet_mu, sheet_lambda, sheet_rigidity; // N/m, N/m, J
    qpc_mesh *tets;         // soft: a reference of its own; mesh is its boundary
    qpc_tet_rest tet_rest;
    double tet_mu, tet_lambda; // Pa
    qpc_tet_material tet_material;
    double self_exclusion;  // m, < 0: the default
    bool obstacle;          // static or kinematic, without a mesh
    qpc_implicit shape;     // m
    bool responds;          // response: "velocity"
    bool round;             // rigid: a sphere or capsule by `shape`, without a mesh; radius is that of the shape
    // cloth, static, kinematic
    qpc_mesh *mesh;         // a reference of its own
    qpc_vec3 position;      // m
    double rotation[4];     // unit quaternion w, x, y, z
    double scale;
    qpc_vec3 velocity, angular_velocity; // m/s, rad/s about position; rigid: of, about the centre
    qpc_inertia inertia;    // rigid: of the mesh, scaled
} qpc_body_def;

enum { QPC_ROUND_NODES = 4 }; // of rigid spheres and capsules

typedef struct qpc_fixed_def {
    int32_t body, node;
} qpc_fixed_def;

typedef struct qpc_limit_def { // strain limit of every spring of a cable, of every edge of cloth
    int32_t body;
    double min, max; // l / l0; 0 and infinity: none
} qpc_limit_def;

typedef struct qpc_point_def { // of a joint
    int32_t body;  // -1: of the world
    int32_t node;  // node or vertex of the body, or -1
    bool placed;   // `at` is given; else, without a node, where the first point of the joint is
    qpc_vec3 at;   // at the start, m
} qpc_point_def;

typedef struct qpc_joint_def {
    qpc_joint_kind kind;
    int32_t constraint;   // place in the list
    int32_t first, count; // its points
    qpc_vec3 axis;        // hinge, unit
    double length;        // tendon, m; 0: as long as it is at the start
    bool equal;           // tendon: no shorter either
} qpc_joint_def;

typedef enum qpc_load_kind { QPC_LOAD_SPRING, QPC_LOAD_DRAG, QPC_LOAD_PRESSURE, QPC_LOAD_DAMPING, QPC_LOAD_WIND } qpc_load_kind;
typedef struct qpc_wind {
    qpc_vec3 velocity;       // of the air, m/s
    double density;          // of the air, kg/m3
    double drag, tangential; // coefficients across and along a surface
} qpc_wind;
typedef struct qpc_load_def {
    qpc_load_kind kind;
    int32_t index;      // place in the list
    int32_t first;      // spring: of its two points
    int32_t body;       // drag; -1: everything; pressure, damping, wind
    double stiffness;   // N/m
    double rest_length; // m, < 0: as at the start
    double damping;     // N s/m, of a spring along itself; of drag on each node, on the centre of a rigid body
    double per_mass;    // drag, 1/s
    double per_stiffness; // damping, s
    double pressure;    // Pa
    qpc_wind wind;
} qpc_load_def;

typedef struct qpc_scene_def {
    double dt;
    qpc_vec3 gravity;
    qpc_integrator integrator;
    qpc_solver_def solver;
    bool push_out;     // start: "push-out"
    double push_limit; // m, start_push_limit; 0: the default
    QPC_ARRAY(qpc_body_def) bodies;
    QPC_ARRAY(qpc_fixed_def) fixed;
    QPC_ARRAY(qpc_limit_def) limits;
    QPC_ARRAY(qpc_joint_def) joints;
    QPC_ARRAY(qpc_point_def) points;
    QPC_ARRAY(qpc_load_def) loads;
    qpc_material_table *materials;
    uint64_t hash; // XXH3-64 of the canonical scene
} qpc_scene_def;

/// def is zeroed first; on failure nothing is held. env: mesh_lookup and limits.
qpc_status qpc_scene_def_read(const qpc_value *scene, const qpc_world_env *env, qpc_scene_def *def,
                          qpc_scene_report *report, qpc_error *err);
void qpc_scene_def_fini(qpc_scene_def *def);
/// Body by name or index; QPC_ERR_INVALID that names the nearest known one.
qpc_status qpc_scene_find_body(const qpc_scene_def *def, const qpc_value *v, const char *where,
                               int32_t *ret, qpc_error *err);
/// QPC_ERR_INVALID for an unknown body name, with the nearest and the first `count` of `total` names.
enum { QPC_NAMES_SHOWN = 8 };
qpc_status qpc_fail_no_body(const char *name, const char *where, const char *const *names, int32_t count, int32_t total,
                            qpc_error *err);
void qpc_scene_warn(qpc_scene_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/// "where.key" into out, cut if need be.
enum { QPC_PATH_SIZE = 120 };
void qpc_path_join(char out[QPC_PATH_SIZE], const char *where, const char *key);
/// Three finite numbers.
qpc_status qpc_read_vec3(const qpc_value *v, const char *where, qpc_vec3 *ret, qpc_error *err);

#endif
