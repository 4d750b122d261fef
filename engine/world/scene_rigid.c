/// Rigid bodies of a scene: their surface, a mesh or a shape, and their inertia.
#include "engine/world/obstacles.h"
#include "engine/world/scene_read.h"

#include <math.h>
#include <string.h>

enum { MAX_PATH = QPC_PATH_SIZE };
static const char *const RIGID_KEYS[] = {"kind",        "name",     "mesh",   "radius",           "position", "rotation",
                                         "orientation", "scale",    "mass",   "density",          "inertia",  "center",
                                         "close",       "velocity", "material", "angular_velocity", "shape", NULL};

/// A tensor (3 x 3) or its diagonal, along the axes of the mesh.
static qpc_status read_tensor(const qpc_value *v, const char *where, qpc_mat3 *ret, qpc_error *err) {
    double *data;
    int64_t rows;
    qpc_status st = qpc_read_matrix(v, where, 3, 3, &data, &rows, err);
    if (st != QPC_OK) return st;
    *ret = (qpc_mat3){{0}};
    for (int i = 0; i < 9; i++)
        if (rows == 3) ret->m[i] = data[i];
        else if (rows == 1 && i % 4 == 0) ret->m[i] = data[i / 4];
    qpc_free(data);
    if (rows != 1 && rows != 3)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted three rows of three numbers, or the three of its diagonal");
    return QPC_OK;
}

/// The error of an integral or a check, at a key of the scene.
static qpc_status fail_inertia(qpc_status st, const char *where, qpc_error *err) {
    char text[sizeof err->message];
    if (err == NULL) return st;
    memcpy(text, err->message, sizeof text);
    return qpc_fail_at(err, st, where, "%s", text);
}

/// Of the volume inside the mesh, by density or mass; or as the scene has it.
/// Of a shape filled evenly, by closed forms (TR4); those of inertia.h have z for their axis.
static qpc_status shape_inertia(const qpc_implicit *shape, double density, qpc_inertia *ret, qpc_error *err) {
    qpc_status st = QPC_OK;
    const double *half = shape->half;
    double length = 2.0 * half[shape->axis];
    if (shape->kind == QPC_IMPLICIT_SPHERE) return qpc_inertia_of_sphere(shape->radius, density, ret, err);
    if (shape->kind == QPC_IMPLICIT_BOX) return qpc_inertia_of_box(v3(2.0 * half[0], 2.0 * half[1], 2.0 * half[2]), density, ret, err);
    if (shape->kind == QPC_IMPLICIT_CAPSULE) st = qpc_inertia_of_capsule(shape->radius, length, density, ret, err);
    else st = qpc_inertia_of_cylinder(shape->radius, length, density, ret, err);
    if (st != QPC_OK || shape->axis == 2) return st;
    qpc_mat3 turned = {{0.0}};
    double volume = ret->volume;
    for (int k = 0; k < 3; k++) turned.m[4 * k] = ret->tensor.m[k == shape->axis ? 8 : 0];
    st = qpc_inertia_given(ret->mass, ret->centre, &turned, ret, err);
    ret->volume = volume;
    return st;
}

static qpc_status read_inertia(const qpc_value *map, const char *where, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *mass = qpc_map_get(map, "mass"), *density = qpc_map_get(map, "density"), *v = qpc_map_get(map, "close");
    const qpc_value *inertia = qpc_map_get(map, "inertia"), *center = qpc_map_get(map, "center");
    double number;
    bool close = false;
    if ((mass == NULL) == (density == NULL))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give mass (kg) or density (kg/m3)");
    if (inertia != NULL && mass == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, where, "inertia (kg m2) goes with mass, not density");
    if (center != NULL && inertia == NULL) return qpc_fail_at(err, QPC_ERR_INVALID, where, "center goes with inertia");
    qpc_path_join(path, where, "close");
    qpc_status st = v != NULL ? qpc_read_bool(v, path, &close, err) : QPC_OK;
    if (st != QPC_OK) return st;
    qpc_path_join(path, where, mass != NULL ? "mass" : "density");
    if ((st = qpc_read_positive(mass != NULL ? mass : density, path, &number, err)) != QPC_OK) return st;
    if (inertia != NULL) {
        qpc_vec3 at = v3(0.0, 0.0, 0.0);
        qpc_mat3 tensor;
        qpc_path_join(path, where, "center");
        if (center != NULL && (st = qpc_read_vec3(center, path, &at, err)) != QPC_OK) return st;
        qpc_path_join(path, where, "inertia");
        if ((st = read_tensor(inertia, path, &tensor, err)) != QPC_OK) return st;
        st = qpc_inertia_given(number, at, &tensor, &body->inertia, err);
        return st == QPC_OK ? st : fail_inertia(st, path, err);
    }
    bool shaped = qpc_map_get(map, "shape") != NULL;
    double even = density != NULL ? number : 1.0;
    qpc_path_join(path, where, shaped ? "shape" : "mesh");
    st = shaped ? shape_inertia(&body->shape, even, &body->inertia, err) : qpc_inertia_of_mesh(body->mesh, body->scale, even, close, &body->inertia, err);
    if (st == QPC_OK && mass != NULL) st = qpc_inertia_set_mass(&body->inertia, number, err);
    return st == QPC_OK ? st : fail_inertia(st, path, err);
}

/// A mesh; a sphere or capsule without one, whose radius is its thickness; a box or cylinder, which says what the mesh is a surface of.
static qpc_status read_rigid_surface(const qpc_value *map, const char *where, const qpc_world_env *env, qpc_body_def *body, qpc_error *err) {
    static const char *const not_round[] = {"mesh", "radius", "scale", "close"};
    char path[MAX_PATH];
    const qpc_value *shape = qpc_map_get(map, "shape");
    qpc_path_join(path, where, "shape");
    qpc_status st = shape != NULL ? qpc_shape_def_read(shape, path, &body->shape, err) : QPC_OK;
    if (st != QPC_OK) return st;
    if (shape != NULL && body->shape.kind == QPC_IMPLICIT_PLANE)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "a plane has no mass; a rigid body is a sphere, capsule, box or cylinder");
    body->round = shape != NULL && (body->shape.kind == QPC_IMPLICIT_SPHERE || body->shape.kind == QPC_IMPLICIT_CAPSULE);
    for (int i = 0; i < 4 && body->round; i++)
        if (qpc_map_get(map, not_round[i]) != NULL)
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "a sphere or capsule by its shape takes no %s: it is exact, and as thick as it is large", not_round[i]);
    if (body->round) {
        body->radius = body->shape.radius;
        body->node_count = QPC_ROUND_NODES;
        return QPC_OK;
    }
    if (shape != NULL && qpc_map_get(map, "mesh") == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "a rigid box or cylinder collides by its mesh: give one beside shape, such as {\"generate\": {\"kind\": ...}} in a file");
    if ((st = qpc_mesh_ref_read(map, where, "rigid", env, body, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "radius");
    return qpc_read_positive(qpc_map_get(map, "radius"), path, &body->radius, err);
}

/// The mesh beside a shape is one of its surface: no vertex is farther from it than a hundredth of its size.
static qpc_status check_shape(const qpc_value *map, const char *where, const qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    if (body->round || qpc_map_get(map, "shape") == NULL) return QPC_OK;
    const double *vertex = qpc_mesh_vertices(body->mesh);
    double size = qpc_implicit_reach(&body->shape), far = 0.0;
    for (int64_t k = 0; k < body->node_count; k++) {
        far = fmax(far, fabs(qpc_implicit_phi(&body->shape, v3_scale(body->scale, v3_load(vertex + 3 * k)), NULL)));
    }
    if (far <= 0.01 * size) return QPC_OK;
    qpc_path_join(path, where, "shape");
    return qpc_fail_at(err, QPC_ERR_INVALID, path, "the mesh has a vertex %g m off the surface of this shape", far);
}

qpc_status qpc_rigid_def_read(const qpc_value *map, const char *where, const qpc_world_env *env, qpc_body_def *body, qpc_error *err) {
    char path[MAX_PATH];
    const qpc_value *v;
    qpc_status st = qpc_map_check_keys(map, where, RIGID_KEYS, err);
    body->motion = QPC_RIGID;
    if (st == QPC_OK) st = read_rigid_surface(map, where, env, body, err);
    if (st != QPC_OK) return st;
    if (qpc_map_get(map, "rotation") != NULL && qpc_map_get(map, "orientation") != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "give rotation or orientation, which are the same, not both");
    if ((st = qpc_read_place(map, where, body, err)) != QPC_OK) return st;
    if ((st = check_shape(map, where, body, err)) != QPC_OK) return st;
    if ((st = read_inertia(map, where, body, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "velocity");
    if ((v = qpc_map_get(map, "velocity")) != NULL && (st = qpc_read_vec3(v, path, &body->velocity, err)) != QPC_OK) return st;
    qpc_path_join(path, where, "angular_velocity");
    if ((v = qpc_map_get(map, "angular_velocity")) != NULL) st = qpc_read_vec3(v, path, &body->angular_velocity, err);
    return st;
}
