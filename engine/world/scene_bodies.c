/// Reading bodies: cables, cloth, rigid, soft, static and kinematic meshes (docs/scene.md) to definitions. Cloth gets its springs
/// and masses here, so that everything later is particles and springs, whatever they were made from.
#include "engine/world/obstacles.h"
#include "engine/world/scene_read.h"

#include "engine/dynamics/cloth.h"
#include "engine/geometry/skin.h"

#include "base/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 64, MAX_PATH = QPC_PATH_SIZE };
static const char *const CABLE_KEYS[] = {"kind",        "name",   "nodes",    "mass",           "stiffness", "axial_stiffness",
                                         "rest_length", "radius", "velocity", "self_exclusion", "material", NULL};
static const char *const STATIC_KEYS[] = {"kind", "name", "mesh", "radius", "position", "rotation", "scale", "material", NULL};
static const char *const KINEMATIC_KEYS[] = {"kind",     "name",  "mesh",     "radius",           "position",
                                             "rotation", "scale", "velocity", "angular_velocity", "material", NULL};
static const char *const CLOTH_KEYS[] = {"kind",      "name",               "mesh",              "radius",   "position",
                                         "rotation",  "scale",              "nodes",             "mass",     "area_density",
                                         "stiffness", "membrane_stiffness", "bending_stiffness", "velocity", "self_exclusion",
                                         "young",     "poisson",            "thickness",         "bending_rigidity",
                                         "material",  NULL};
static const char *const SOFT_KEYS[] = {"kind",     "name",    "mesh",  "radius", "position", "rotation",       "scale",    "nodes", "mass",
                                        "density",  "young",   "poisson", "model", "velocity", "self_exclusion", "material", NULL};
static const char *const SOFT_MODELS[] = {"corotational", "neo-hookean", NULL}; // qpc_tet_material
static const char *const MESH_KEYS[] = {"sha256", NULL};
static const char *const BODY_KINDS[] = {"cable", "static", "kinematic", "cloth", "rigid", "soft", "obstacle", NULL};

// ---- what several kinds have ----

/// A number for all, or a list of `count` numbers, each in [low, high]; newly allocated.
static qpc_status read_per(const qpc_value *v, const char *where, int32_t count, double low, bool open_low,
                           double **ret, qpc_error *err) {
    double *out = qpc_alloc_array((size_t)(count > 0 ? count : 1), sizeof *out);
    if (out == NULL) return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory for %d numbers", count);
    qpc_status st = QPC_OK;
    if (v != NULL && (v->kind == QPC_INT || v->kind == QPC_REAL)) {
        double value;
        st = qpc_read_real(v, where, -QPC_SCENE_MAX_NUMBER, QPC_SCENE_MAX_NUMBER, &value, err);
        for (int32_t i = 0; st == QPC_OK && i < count; i++) out[i] = value;
    } else {
        double *data = NULL;
        int64_t rows = 0;
        st = qpc_read_matrix(v, where, 1, INT32_MAX, &data, &rows, err);
        if (st == QPC_OK && rows != count)
            st = qpc_fail_at(err, QPC_ERR_INVALID, where, "has %lld numbers; wanted one for all or %d",
                             (long long)rows, count);
        if (st == QPC_OK) memcpy(out, data, (size_t)count * sizeof *out);
        qpc_free(data);
    }
    for (int32_t i = 0; st == QPC_OK && i < count; i++)
        if (out[i] < low || (open_low && out[i] <= low) || out[i] > QPC_SCENE_MAX_NUMBER)
            st = qpc_fail_at(err, QPC_ERR_INVALID, where, "entry %d is %g; it must be %s %g", i, out[i],
                             open_low ? "greater than" : "at least", low);
    if (st != QPC_OK) {
        qpc_free(out);
        return st;
    }
    *ret = out;
    return QPC_OK;
}

/// Velocity: one for all nodes or one per node.
static qpc_status read_velocities(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v = qpc_map_get(map, "velocity");
    int64_t n = body->node_count, rows;
    double *data;
    body->velocities = qpc_calloc((size_t)n * 3, sizeof(double));
    if (body->velocities == NULL) return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory");
    if (v == NULL) return QPC_OK;
    qpc_path_join(path, where, "velocity");
    qpc_status st = qpc_read_matrix(v, path, 3, INT32_MAX, &data, &rows, err);
    if (st != QPC_OK) return st;
    for (int64_t i = 0; i < 3 * rows && st == QPC_OK; i++)
        if (fabs(data[i]) > 1e9) st = qpc_fail_at(err, QPC_ERR_INVALID, path, "faster than 1e9 m/s");
    if (st == QPC_OK && rows != 1 && rows != n)
        st = qpc_fail_at(err, QPC_ERR_INVALID, path, "has %lld vectors; wanted one for all or %lld",
                         (long long)rows, (long long)n);
    for (int64_t i = 0; st == QPC_OK && i < n; i++)
        memcpy(body->velocities + 3 * i, data + (rows == 1 ? 0 : 3 * i), 3 * sizeof(double));
    qpc_free(data);
    return st;
}

static qpc_status read_self_exclusion(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v = qpc_map_get(map, "self_exclusion");
    body->self_exclusion = -1.0;
    if (v == NULL) return QPC_OK;
    qpc_path_join(path, where, "self_exclusion");
    return qpc_read_real(v, path, 0.0, QPC_SCENE_MAX_NUMBER, &body->self_exclusion, err);
}

// ---- cables ----

static qpc_status read_cable(const qpc_value *map, const char *where, const qpc_world_env *env,
                             int64_t nodes_so_far, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v;
    int64_t max_nodes = env->limits.max_nodes > 0 ? env->limits.max_nodes : 1000000;
    qpc_status st = qpc_map_check_keys(map, where, CABLE_KEYS, err);
    if (st != QPC_OK) return st;
    body->motion = QPC_DYNAMIC;

    // Nodes: (n x 3), n >= 1.
    int64_t n;
    qpc_path_join(path, where, "nodes");
    st = qpc_read_matrix(qpc_map_get(map, "nodes"), path, 3, max_nodes - nodes_so_far, &body->nodes, &n, err);
    if (st != QPC_OK) return st;
    if (n < 1) return qpc_fail_at(err, QPC_ERR_INVALID, path, "a cable needs at least one node");
    for (int64_t i = 0; i < 3 * n; i++)
        if (fabs(body->nodes[i]) > 1e15)
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "node %lld has a coordinate beyond 1e15 m", (long long)(i / 3));
    body->node_count = (int32_t)n;
    int32_t springs = body->springs.count = body->springs.stretch_count = body->node_count - 1;

    qpc_path_join(path, where, "radius");
    if ((st = qpc_read_positive(qpc_map_get(map, "radius"), path, &body->radius, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "mass");
    st = read_per(qpc_map_get(map, "mass"), path, body->node_count, 0.0, true, &body->masses, err);
    if (st != QPC_OK) return st;

    // Rest lengths: as given, else as the nodes lie.
    qpc_path_join(path, where, "rest_length");
    if ((v = qpc_map_get(map, "rest_length")) != NULL) {
        if ((st = read_per(v, path, springs, 0.0, true, &body->springs.rest_length, err)) != QPC_OK) return st;
    } else {
        body->springs.rest_length = qpc_alloc_array((size_t)(springs > 0 ? springs : 1), sizeof(double));
        if (body->springs.rest_length == NULL) return qpc_fail_at(err, QPC_ERR_MEMORY, path, "no memory");
        for (int32_t s = 0; s < springs; s++) {
            body->springs.rest_length[s] = v3_norm(v3_sub(v3_load(body->nodes + 3 * (s + 1)), v3_load(body->nodes + 3 * s)));
            if (!(body->springs.rest_length[s] > 0.0)) {
                qpc_path_join(path, where, "nodes");
                return qpc_fail_at(err, QPC_ERR_INVALID, path,
                                   "nodes %d and %d are at the same place; move one or give rest_length", s, s + 1);
            }
        }
    }

    // Stiffness per spring, or EA over the rest length.
    const qpc_value *k = qpc_map_get(map, "stiffness"), *ea = qpc_map_get(map, "axial_stiffness");
    if (k != NULL && ea != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give stiffness (N/m) or axial_stiffness (N), not both");
    if (k == NULL && ea == NULL && springs > 0)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "stiffness (N/m per spring) or axial_stiffness (EA in N) is missing");
    qpc_path_join(path, where, k != NULL ? "stiffness" : "axial_stiffness");
    if (k == NULL && ea == NULL) {
        if ((body->springs.stiffness = qpc_calloc(1, sizeof(double))) == NULL)
            return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory");
    } else if ((st = read_per(k != NULL ? k : ea, path, springs, 0.0, false, &body->springs.stiffness, err)) != QPC_OK)
        return st;
    for (int32_t s = 0; ea != NULL && s < springs; s++) body->springs.stiffness[s] /= body->springs.rest_length[s];

    st = read_velocities(map, where, body, err);
    return st == QPC_OK ? read_self_exclusion(map, where, body, err) : st;
}

// ---- meshes ----

/// The mesh, by content.
qpc_status qpc_mesh_ref_read(const qpc_value *map, const char *where, const char *kind, const qpc_world_env *env,
                            qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v = qpc_map_get(map, "mesh");
    qpc_path_join(path, where, "mesh");
    if (v == NULL || v->kind != QPC_MAP)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted a map {sha256: hash of an uploaded mesh}");
    qpc_status st = qpc_map_check_keys(v, path, MESH_KEYS, err);
    if (st != QPC_OK) return st;
    const qpc_value *hex = qpc_map_get(v, "sha256");
    uint8_t sha256[32];
    qpc_path_join(path, where, "mesh.sha256");
    if (hex == NULL || hex->kind != QPC_STR || !qpc_hex_decode(hex->str.bytes, hex->str.size, sha256, 32))
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted 64 hex digits");
    if (env->mesh_lookup == NULL) return qpc_fail_at(err, QPC_ERR_UNSUPPORTED, path, "no meshes here");
    if ((st = env->mesh_lookup(env->user, sha256, &body->mesh, err)) != QPC_OK) return st;
    int32_t per_element = strcmp(kind, "soft") == 0 ? 4 : 3;
    if (qpc_mesh_nodes_per_element(body->mesh) != per_element)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "has %d nodes per element; a %s body needs %s",
                           qpc_mesh_nodes_per_element(body->mesh), kind,
                           per_element == 3 ? "triangles (3)" : "tetrahedra (4), such as Gmsh, TetGen or fTetWild make of a closed surface");
    int64_t n = qpc_mesh_vertex_count(body->mesh);
    if (n > INT32_MAX / 4) return qpc_fail_at(err, QPC_ERR_LIMIT, path, "%lld vertices are too many", (long long)n);
    body->node_count = (int32_t)n;
    return QPC_OK;
}

/// Where a mesh is put: position, scale, rotation.
qpc_status qpc_read_place(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v;
    qpc_status st;
    body->rotation[0] = 1.0;
    body->scale = 1.0;
    if ((v = qpc_map_get(map, "position")) != NULL) {
        qpc_path_join(path, where, "position");
        if ((st = qpc_read_vec3(v, path, &body->position, err)) != QPC_OK) return st;
    }
    if ((v = qpc_map_get(map, "scale")) != NULL) {
        qpc_path_join(path, where, "scale");
        if ((st = qpc_read_positive(v, path, &body->scale, err)) != QPC_OK) return st;
    }
    const char *key = qpc_map_get(map, "orientation") != NULL ? "orientation" : "rotation"; // the same; rigid bodies alone have the first
    if ((v = qpc_map_get(map, key)) == NULL) return QPC_OK;
    double *q;
    int64_t rows;
    qpc_path_join(path, where, key);
    if ((st = qpc_read_matrix(v, path, 4, 1, &q, &rows, err)) != QPC_OK) return st;
    double norm = rows == 1 ? sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]) : 0.0;
    for (int i = 0; i < 4 && norm > 0.0; i++) body->rotation[i] = q[i] / norm;
    qpc_free(q);
    if (!(norm > 1e-6 && norm < 1e6))
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted a quaternion [w, x, y, z] of a length between 1e-6 and 1e6, got %g", norm);
    return QPC_OK;
}

static qpc_status read_solid(const qpc_value *map, const char *where, bool kinematic, const qpc_world_env *env,
                             qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v;
    qpc_status st = qpc_map_check_keys(map, where, kinematic ? KINEMATIC_KEYS : STATIC_KEYS, err);
    body->motion = kinematic ? QPC_KINEMATIC : QPC_STATIC;
    if (st == QPC_OK) st = qpc_mesh_ref_read(map, where, kinematic ? "kinematic" : "static", env, body, err);
    if (st != QPC_OK) return st;
    if ((v = qpc_map_get(map, "radius")) != NULL) {
        qpc_path_join(path, where, "radius");
        if ((st = qpc_read_real(v, path, 0.0, QPC_SCENE_MAX_NUMBER, &body->radius, err)) != QPC_OK) return st;
    }
    if ((st = qpc_read_place(map, where, body, err)) != QPC_OK) return st;
    if ((v = qpc_map_get(map, "velocity")) != NULL) {
        qpc_path_join(path, where, "velocity");
        if ((st = qpc_read_vec3(v, path, &body->velocity, err)) != QPC_OK) return st;
    }
    if ((v = qpc_map_get(map, "angular_velocity")) != NULL) {
        qpc_path_join(path, where, "angular_velocity");
        if ((st = qpc_read_vec3(v, path, &body->angular_velocity, err)) != QPC_OK) return st;
    }
    return QPC_OK;
}

// ---- cloth ----

/// Mass of each vertex: a list as it stands; a total or a density spread by area, a third of a triangle to each corner.
static qpc_status read_cloth_mass(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *mass = qpc_map_get(map, "mass"), *density = qpc_map_get(map, "area_density");
    double number, area;
    if ((mass == NULL) == (density == NULL))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give mass (kg, of all, or a list of one a vertex) or area_density (kg/m2)");
    qpc_path_join(path, where, mass != NULL ? "mass" : "area_density");
    if (mass != NULL && mass->kind != QPC_INT && mass->kind != QPC_REAL)
        return read_per(mass, path, body->node_count, 0.0, true, &body->masses, err);
    qpc_status st = qpc_read_positive(mass != NULL ? mass : density, path, &number, err);
    if (st != QPC_OK) return st;
    body->masses = qpc_alloc_array((size_t)body->node_count, sizeof(double));
    if (body->masses == NULL) return qpc_fail_at(err, QPC_ERR_MEMORY, path, "no memory");
    qpc_cloth_areas(body->mesh, body->scale, body->masses, &area);
    double factor = mass != NULL ? number / area : number;
    for (int32_t i = 0; i < body->node_count; i++) {
        if (!(body->masses[i] > 0.0))
            return qpc_fail_at(err, QPC_ERR_INVALID, path,
                               "vertex %d of the mesh belongs to no triangle with an area, so it gets no mass", i);
        body->masses[i] *= factor;
        if (!(body->masses[i] > 0.0) || body->masses[i] > QPC_SCENE_MAX_NUMBER)
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "gives vertex %d a mass of %g kg", i, body->masses[i]);
    }
    return QPC_OK;
}

/// A thin sheet. The springs, without stiffness, are what limits and the pattern of K go by; what they would have as springs
/// of this membrane is the base of limits that give way.
static qpc_status read_sheet(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    static const char *const of_springs[] = {"stiffness", "membrane_stiffness", "bending_stiffness"};
    char path[MAX_PATH];
    double young, poisson = 0.3, thickness = 2.0 * body->radius;
    const qpc_value *v;
    qpc_error why = {0};
    for (int i = 0; i < 3; i++)
        if (qpc_map_get(map, of_springs[i]) != NULL)
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "give young or %s, not both: a sheet has its stiffness from young, "
                               "poisson and thickness", of_springs[i]);
    qpc_path_join(path, where, "young");
    qpc_status st = qpc_read_positive(qpc_map_get(map, "young"), path, &young, err);
    if (st == QPC_OK && (v = qpc_map_get(map, "poisson")) != NULL) {
        qpc_path_join(path, where, "poisson");
        st = qpc_read_real(v, path, -0.99, 0.99, &poisson, err);
    }
    if (st == QPC_OK && (v = qpc_map_get(map, "thickness")) != NULL) {
        qpc_path_join(path, where, "thickness");
        st = qpc_read_positive(v, path, &thickness, err);
    }
    if (st != QPC_OK) return st;
    st = qpc_shell_moduli(young, poisson, thickness, &body->sheet_mu, &body->sheet_lambda, &body->sheet_rigidity, &why);
    if (st != QPC_OK) return qpc_fail_at(err, st, where, "%s", why.message);
    if ((v = qpc_map_get(map, "bending_rigidity")) != NULL) {
        qpc_path_join(path, where, "bending_rigidity");
        if ((st = qpc_read_real(v, path, 0.0, QPC_SCENE_MAX_NUMBER, &body->sheet_rigidity, err)) != QPC_OK) return st;
    }
    double limit = 2.0 * body->sheet_mu + fabs(body->sheet_lambda);
    if (!(limit <= QPC_SCENE_MAX_NUMBER) || !(body->sheet_rigidity <= QPC_SCENE_MAX_NUMBER))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "the stiffness of the sheet is %g N/m and its bending rigidity %g J, each at most %g", limit,
                           body->sheet_rigidity, QPC_SCENE_MAX_NUMBER);
    qpc_path_join(path, where, "mesh");
    st = qpc_shell_rest_make(body->mesh, body->scale, poisson, &body->sheet, &why);
    if (st == QPC_OK) st = qpc_cloth_springs_make(body->mesh, body->scale, NULL, young * thickness, 1.0, &body->springs, &why);
    if (st != QPC_OK) return qpc_fail_at(err, st, path, "%s", why.message);
    for (int32_t s = body->springs.stretch_count; s < body->springs.count; s++) body->springs.stiffness[s] = 0.0;
    return QPC_OK;
}

static qpc_status read_cloth_springs(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *k = qpc_map_get(map, "stiffness"), *membrane = qpc_map_get(map, "membrane_stiffness");
    const qpc_value *bending = qpc_map_get(map, "bending_stiffness");
    if (qpc_map_get(map, "young") != NULL) return read_sheet(map, where, body, err);
    static const char *const of_sheets[] = {"poisson", "thickness", "bending_rigidity"};
    for (int i = 0; i < 3; i++)
        if (qpc_map_get(map, of_sheets[i]) != NULL)
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "%s goes with young: cloth of springs has none", of_sheets[i]);
    double bend = 0.0, tension = 0.0, *given = NULL;
    qpc_status st = QPC_OK;
    if ((k == NULL) == (membrane == NULL))
        return qpc_fail_at(err, QPC_ERR_INVALID, where,
                           "give young (Pa), stiffness (N/m per spring along an edge) or membrane_stiffness (E times thickness, N/m)");
    if (bending != NULL) {
        qpc_path_join(path, where, "bending_stiffness");
        if ((st = qpc_read_real(bending, path, 0.0, QPC_SCENE_MAX_NUMBER, &bend, err)) != QPC_OK) return st;
    }
    qpc_path_join(path, where, k != NULL ? "stiffness" : "membrane_stiffness");
    if (k != NULL) st = read_per(k, path, qpc_mesh_topology(body->mesh)->edge_count, 0.0, false, &given, err);
    else st = qpc_read_positive(membrane, path, &tension, err);
    qpc_path_join(path, where, "mesh");
    if (st == QPC_OK) {
        qpc_error why = {0};
        st = qpc_cloth_springs_make(body->mesh, body->scale, given, tension, bend, &body->springs, &why);
        if (st != QPC_OK) qpc_fail_at(err, st, path, "%s", why.message);
    }
    qpc_free(given);
    return st;
}

/// Cloth, soft bodies. Where the vertices start: as given, else the mesh where it is put.
static qpc_status read_start(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *given = qpc_map_get(map, "nodes");
    const double *vertices = qpc_mesh_vertices(body->mesh);
    qpc_path_join(path, where, given != NULL ? "nodes" : "mesh");
    if (given != NULL) {
        int64_t count;
        if (qpc_map_get(map, "position") != NULL || qpc_map_get(map, "rotation") != NULL)
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "give nodes, or position and rotation, not both");
        qpc_status st = qpc_read_matrix(given, path, 3, INT32_MAX, &body->nodes, &count, err);
        if (st != QPC_OK) return st;
        if (count != body->node_count)
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "has %lld points; the mesh has %d vertices", (long long)count,
                               body->node_count);
    } else {
        body->nodes = qpc_alloc_array((size_t)body->node_count, 3 * sizeof(double));
        if (body->nodes == NULL) return qpc_fail_at(err, QPC_ERR_MEMORY, where, "no memory");
        for (int32_t i = 0; i < body->node_count; i++) {
            qpc_vec3 at = v3_rotate(body->rotation, v3_scale(body->scale, v3_load(vertices + 3 * i)));
            v3_store(body->nodes + 3 * i, v3_add(body->position, at));
        }
    }
    for (int32_t i = 0; i < body->node_count; i++)
        if (!(v3_norm2(v3_load(body->nodes + 3 * i)) <= 1e30))
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "vertex %d is beyond 1e15 m", i);
    return QPC_OK;
}

static qpc_status read_cloth(const qpc_value *map, const char *where, const qpc_world_env *env, int64_t nodes_so_far,
                             qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    int64_t max_nodes = env->limits.max_nodes > 0 ? env->limits.max_nodes : 1000000;
    qpc_status st = qpc_map_check_keys(map, where, CLOTH_KEYS, err);
    body->motion = QPC_DYNAMIC;
    if (st == QPC_OK) st = qpc_mesh_ref_read(map, where, "cloth", env, body, err);
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, "mesh");
    if (body->node_count > max_nodes - nodes_so_far)
        return qpc_fail_at(err, QPC_ERR_LIMIT, path, "%d vertices and %lld nodes before them; the limit is %lld",
                           body->node_count, (long long)nodes_so_far, (long long)max_nodes);
    qpc_path_join(path, where, "radius");
    if ((st = qpc_read_positive(qpc_map_get(map, "radius"), path, &body->radius, err)) != QPC_OK) return st;
    if ((st = qpc_read_place(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_cloth_mass(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_cloth_springs(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_velocities(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_self_exclusion(map, where, body, err)) != QPC_OK) return st;
    return read_start(map, where, body, err);
}

// ---- soft bodies ----

/// Mass of each vertex: a list as it stands; a total or a density by volume, a quarter of each tetrahedron to its vertices.
static qpc_status read_soft_mass(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *mass = qpc_map_get(map, "mass"), *density = qpc_map_get(map, "density");
    double number, volume = 0.0;
    if ((mass == NULL) == (density == NULL))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give density (kg/m3) or mass (kg, of all, or a list of one a vertex)");
    qpc_path_join(path, where, mass != NULL ? "mass" : "density");
    if (mass != NULL && mass->kind != QPC_INT && mass->kind != QPC_REAL)
        return read_per(mass, path, body->node_count, 0.0, true, &body->masses, err);
    qpc_status st = qpc_read_positive(mass != NULL ? mass : density, path, &number, err);
    if (st != QPC_OK) return st;
    body->masses = qpc_calloc((size_t)body->node_count, sizeof(double));
    if (body->masses == NULL) return qpc_fail_at(err, QPC_ERR_MEMORY, path, "no memory");
    for (int32_t e = 0; e < body->tet_rest.count; e++) volume += body->tet_rest.volume[e];
    qpc_tet_rest_masses(&body->tet_rest, qpc_mesh_elements(body->tets), mass != NULL ? number / volume : number, body->masses);
    for (int32_t i = 0; i < body->node_count; i++)
        if (!(body->masses[i] > 0.0) || body->masses[i] > QPC_SCENE_MAX_NUMBER)
            return qpc_fail_at(err, QPC_ERR_INVALID, path, body->masses[i] > 0.0 ? "gives vertex %d a mass of %g kg"
                               : "vertex %d of the mesh belongs to no tetrahedron, so it gets a mass of %g kg: leave it out", i, body->masses[i]);
    return QPC_OK;
}

static qpc_status read_soft_material(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    double young, poisson = 0.3;
    int32_t model = QPC_TET_COROTATIONAL;
    const qpc_value *v;
    qpc_error why = {0};
    qpc_path_join(path, where, "young");
    qpc_status st = qpc_read_positive(qpc_map_get(map, "young"), path, &young, err);
    qpc_path_join(path, where, "poisson");
    if (st == QPC_OK && (v = qpc_map_get(map, "poisson")) != NULL) st = qpc_read_real(v, path, -0.99, QPC_TET_POISSON_MOST, &poisson, err);
    qpc_path_join(path, where, "model");
    if (st == QPC_OK && (v = qpc_map_get(map, "model")) != NULL) st = qpc_read_word(v, path, SOFT_MODELS, &model, err);
    if (st != QPC_OK) return st;
    body->tet_material = (qpc_tet_material)model;
    st = qpc_tet_lame(young, poisson, &body->tet_mu, &body->tet_lambda, &why);
    return st == QPC_OK ? st : qpc_fail_at(err, st, where, "%s", why.message);
}

/// The mesh: tetrahedra to deform, their boundary to touch with.
static qpc_status read_soft(const qpc_value *map, const char *where, const qpc_world_env *env, int64_t nodes_so_far,
                            qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    qpc_error why = {0};
    int64_t max_nodes = env->limits.max_nodes > 0 ? env->limits.max_nodes : 1000000;
    qpc_status st = qpc_map_check_keys(map, where, SOFT_KEYS, err);
    body->motion = QPC_DYNAMIC;
    if (st == QPC_OK) st = qpc_mesh_ref_read(map, where, "soft", env, body, err);
    if (st != QPC_OK) return st;
    body->tets = body->mesh;
    body->mesh = NULL;
    qpc_path_join(path, where, "mesh");
    if (body->node_count > max_nodes - nodes_so_far)
        return qpc_fail_at(err, QPC_ERR_LIMIT, path, "%d vertices and %lld nodes before them; the limit is %lld",
                           body->node_count, (long long)nodes_so_far, (long long)max_nodes);
    if ((st = qpc_read_place(map, where, body, err)) != QPC_OK) return st;
    if (qpc_mesh_element_count(body->tets) > INT32_MAX / 8) return qpc_fail_at(err, QPC_ERR_LIMIT, path, "too many tetrahedra");
    st = qpc_mesh_skin(body->tets, &body->mesh, &why);
    if (st == QPC_OK)
        st = qpc_tet_rest_make(qpc_mesh_vertices(body->tets), body->node_count, qpc_mesh_elements(body->tets),
                               (int32_t)qpc_mesh_element_count(body->tets), body->scale, &body->tet_rest, &why);
    if (st != QPC_OK) return qpc_fail_at(err, st, path, "%s", why.message);
    qpc_path_join(path, where, "radius");
    if ((st = qpc_read_positive(qpc_map_get(map, "radius"), path, &body->radius, err)) != QPC_OK) return st;
    if ((st = read_soft_material(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_soft_mass(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_velocities(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_self_exclusion(map, where, body, err)) != QPC_OK) return st;
    return read_start(map, where, body, err);
}

void qpc_body_def_fini(qpc_body_def *body) {
    qpc_free(body->nodes);
    qpc_free(body->velocities);
    qpc_free(body->masses);
    qpc_cloth_springs_fini(&body->springs);
    qpc_shell_rest_fini(&body->sheet);
    qpc_tet_rest_fini(&body->tet_rest);
    qpc_mesh_unref(body->mesh);
    qpc_mesh_unref(body->tets);
    memset(body, 0, sizeof *body);
}

static qpc_status check_masses(const qpc_value *map, const char *where, bool rigid, const qpc_body_def *body, qpc_error *err) {
    static const char *const keys[] = {"mass", "area_density", "density"};
    char path[MAX_PATH];
    int key = 0;
    while (key < 2 && qpc_map_get(map, keys[key]) == NULL) key++;
    qpc_path_join(path, where, keys[key]);
    if (rigid && body->inertia.mass < QPC_SCENE_LEAST_MASS)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "gives a mass of %g kg; the least is %g kg", body->inertia.mass, QPC_SCENE_LEAST_MASS);
    for (int32_t i = 0; !rigid && i < body->node_count; i++)
        if (body->masses[i] < QPC_SCENE_LEAST_MASS)
            return qpc_fail_at(err, QPC_ERR_INVALID, path, "gives node %d a mass of %g kg; the least is %g kg", i, body->masses[i], QPC_SCENE_LEAST_MASS);
    return QPC_OK;
}

qpc_status qpc_body_def_read(const qpc_value *map, const char *where, const qpc_world_env *env, int64_t nodes_so_far,
                            qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    if (map->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a map with a kind");
    int32_t kind;
    qpc_path_join(path, where, "kind");
    qpc_status st = qpc_read_word(qpc_map_get(map, "kind"), path, BODY_KINDS, &kind, err);
    if (st != QPC_OK) return st;
    const qpc_value *name = qpc_map_get(map, "name");
    if (name != NULL) {
        qpc_path_join(path, where, "name");
        if ((st = qpc_read_text(name, path, body->name, sizeof body->name, err)) != QPC_OK) return st;
    }
    const qpc_value *material = qpc_map_get(map, "material");
    if (material != NULL) {
        qpc_path_join(path, where, "material");
        if ((st = qpc_read_text(material, path, body->material, sizeof body->material, err)) != QPC_OK) return st;
        if (body->material[0] == '\0') return qpc_fail_at(err, QPC_ERR_INVALID, path, "a material needs a name");
    }
    if (kind == 6) return qpc_obstacle_def_read(map, where, body, err);
    if (kind == 0) st = read_cable(map, where, env, nodes_so_far, body, err);
    else if (kind == 5) st = read_soft(map, where, env, nodes_so_far, body, err);
    else if (kind == 3) st = read_cloth(map, where, env, nodes_so_far, body, err);
    else if (kind == 4) st = qpc_rigid_def_read(map, where, env, body, err);
    else return read_solid(map, where, kind == 2, env, body, err);
    return st == QPC_OK ? check_masses(map, where, kind == 4, body, err) : st;
}

