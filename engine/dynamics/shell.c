/// Thin sheets: what is made of a mesh once, when a scene is read. Energy and forces: shell_forces.c.
#include "engine/dynamics/shell.h"

#include "base/mem.h"
#include "base/vec.h"
#include "engine/dynamics/cloth.h"

#include <math.h>
#include <string.h>

static qpc_vec3 vertex(const qpc_mesh *mesh, double scale, int32_t i) {
    return v3_scale(scale, v3_load(qpc_mesh_vertices(mesh) + 3 * (int64_t)i));
}

/// B and the area of a triangle, in axes of its own: the first along its first side.
static qpc_status make_triangle(const qpc_mesh *mesh, double scale, int32_t triangle, double inverse[4], double *area,
                                qpc_error *err) {
    const int32_t *c = qpc_mesh_elements(mesh) + 3 * (int64_t)triangle;
    qpc_vec3 p = vertex(mesh, scale, c[0]), d1 = v3_sub(vertex(mesh, scale, c[1]), p), d2 = v3_sub(vertex(mesh, scale, c[2]), p);
    double first = v3_norm(d1), twice = v3_norm(v3_cross(d1, d2));
    double longest = fmax(first, fmax(v3_norm(d2), v3_norm(v3_sub(d2, d1))));
    if (c[0] == c[1] || c[1] == c[2] || c[2] == c[0] || !(0.5 * twice >= QPC_SHELL_NARROW * longest * longest) || !(first > 0))
        return qpc_fail(err, QPC_ERR_INVALID, "triangle %d (vertices %d, %d, %d) is too narrow for a sheet: its area of %g m2 "
                        "must be at least %g of the square of its longest side, %g m", triangle, c[0], c[1], c[2], 0.5 * twice,
                        QPC_SHELL_NARROW, longest);
    // Dm = (first, along; 0, twice / first)
    double along = v3_dot(d1, d2) / first;
    inverse[0] = 1 / first;
    inverse[1] = -along / twice;
    inverse[2] = 0;
    inverse[3] = first / twice;
    *area = 0.5 * twice;
    return QPC_OK;
}

/// The hinge of an inner edge; `pair`: its spring across.
static void make_hinge(const qpc_mesh *mesh, double scale, int32_t edge, const int32_t across[2], int32_t pair, qpc_shell_rest *rest) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    const int32_t *end = t->edge_vertex + 2 * (int64_t)edge;
    int32_t h = rest->hinge_count++, *node = rest->hinge + 4 * (int64_t)h, *pairs = rest->hinge_pair + 6 * (int64_t)h;
    node[0] = end[0];
    node[1] = end[1];
    node[2] = across[0];
    node[3] = across[1];
    pairs[0] = edge;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) pairs[1 + 2 * a + b] = qpc_topology_edge(t, end[a], across[b]);
    pairs[5] = pair;
    int32_t at = t->edge_triangle_start[edge];
    for (int k = 0; k < 2; k++) {
        int32_t triangle = t->edge_triangle[at + k];
        for (int side = 0; side < 3; side++)
            if (t->triangle_edge[3 * (int64_t)triangle + side] == edge) rest->bend[3 * (int64_t)triangle + side] = h;
    }
    double corner[12];
    for (int k = 0; k < 4; k++) v3_store(corner + 3 * k, vertex(mesh, scale, node[k]));
    static const int32_t order[4] = {0, 1, 2, 3};
    rest->angle[h] = qpc_shells_angle(corner, order);
}

/// 1 if angles of a hinge count from the side of this triangle to which its own normal points, else -1.
static double sign_of(const qpc_shell_rest *rest, const int32_t *corner, int k, int32_t hinge) {
    const int32_t *node = rest->hinge + 4 * (int64_t)hinge;
    bool first = corner[(k + 2) % 3] == node[2], along = corner[k] == node[0];
    return first == along ? 1 : -1;
}

/// C of a triangle for D = 1 (TC5): A ((1 - nu)(m_i . m_j)^2 + nu) l_i l_j / 4 A^2, where m_i is the normal of side i in the
/// plane. What is at a free side is whatever costs least, so that it is eliminated.
static void make_couple(const qpc_mesh *mesh, double scale, double poisson, int32_t triangle, qpc_shell_rest *rest) {
    const int32_t *c = qpc_mesh_elements(mesh) + 3 * (int64_t)triangle, *bend = rest->bend + 3 * (int64_t)triangle;
    double area = rest->area[triangle], C[3][3], *couple = rest->couple + 6 * (int64_t)triangle;
    qpc_vec3 side[3];
    for (int k = 0; k < 3; k++) side[k] = v3_sub(vertex(mesh, scale, c[(k + 1) % 3]), vertex(mesh, scale, c[k]));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double li = v3_norm(side[i]), lj = v3_norm(side[j]), cosine = v3_dot(side[i], side[j]) / (li * lj);
            C[i][j] = ((1 - poisson) * cosine * cosine + poisson) * li * lj / (4 * area);
        }
    for (int e = 0; e < 3; e++) {
        if (bend[e] >= 0) continue;
        double column[3] = {C[0][e], C[1][e], C[2][e]}, pivot = C[e][e];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) C[i][j] = i == e || j == e ? 0 : C[i][j] - column[i] * column[j] / pivot;
    }
    double sign[3];
    for (int k = 0; k < 3; k++) sign[k] = bend[k] >= 0 ? sign_of(rest, c, k, bend[k]) : 0;
    for (int k = 0; k < 3; k++) {
        couple[k] = C[k][k];
        couple[3 + k] = sign[k] * sign[(k + 1) % 3] * C[k][(k + 1) % 3];
    }
    for (int i = 0; i < 3; i++) // diag(sum_j |C_ij|) - C has no negative eigenvalue (TC6)
        if (bend[i] >= 0) rest->stiffness[bend[i]] += fabs(C[i][0]) + fabs(C[i][1]) + fabs(C[i][2]);
}

static bool allocate(const qpc_mesh *mesh, qpc_shell_rest *rest) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    size_t count = (size_t)qpc_mesh_element_count(mesh), hinges = 0;
    int32_t across[2];
    for (int32_t e = 0; e < t->edge_count; e++) hinges += qpc_cloth_across(mesh, e, across);
    rest->pair = qpc_alloc_array(count + 1, 3 * sizeof *rest->pair);
    rest->inverse = qpc_alloc_array(count + 1, 4 * sizeof *rest->inverse);
    rest->area = qpc_alloc_array(count + 1, sizeof *rest->area);
    rest->hinge = qpc_alloc_array(hinges + 1, 4 * sizeof *rest->hinge);
    rest->hinge_pair = qpc_alloc_array(hinges + 1, 6 * sizeof *rest->hinge_pair);
    rest->bend = qpc_alloc_array(count + 1, 3 * sizeof *rest->bend);
    rest->couple = qpc_alloc_array(count + 1, 6 * sizeof *rest->couple);
    rest->stiffness = qpc_calloc(hinges + 1, sizeof *rest->stiffness);
    rest->angle = qpc_alloc_array(hinges + 1, sizeof *rest->angle);
    return rest->pair != NULL && rest->inverse != NULL && rest->area != NULL && rest->hinge != NULL && rest->hinge_pair != NULL &&
           rest->bend != NULL && rest->couple != NULL && rest->stiffness != NULL && rest->angle != NULL;
}

qpc_status qpc_shell_rest_make(const qpc_mesh *mesh, double scale, double poisson, qpc_shell_rest *ret, qpc_error *err) {
    const qpc_topology *t = qpc_mesh_topology(mesh);
    qpc_shell_rest rest = {.count = (int32_t)qpc_mesh_element_count(mesh)};
    int32_t across[2];
    qpc_status st = allocate(mesh, &rest) ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d triangles", rest.count);
    for (int64_t k = 0; k < 3 * (int64_t)rest.count && st == QPC_OK; k++) rest.bend[k] = -1;
    for (int32_t i = 0; i < rest.count && st == QPC_OK; i++) {
        st = make_triangle(mesh, scale, i, rest.inverse + 4 * (int64_t)i, rest.area + i, err);
        if (st == QPC_OK) memcpy(rest.pair + 3 * (int64_t)i, t->triangle_edge + 3 * (int64_t)i, 3 * sizeof *rest.pair);
    }
    for (int32_t e = 0; e < t->edge_count && st == QPC_OK; e++)
        if (qpc_cloth_across(mesh, e, across)) make_hinge(mesh, scale, e, across, t->edge_count + rest.hinge_count, &rest);
    for (int32_t i = 0; i < rest.count && st == QPC_OK; i++) make_couple(mesh, scale, poisson, i, &rest);
    if (st != QPC_OK) {
        qpc_shell_rest_fini(&rest);
        return st;
    }
    *ret = rest;
    return QPC_OK;
}

void qpc_shell_rest_fini(qpc_shell_rest *rest) {
    if (rest == NULL) return;
    qpc_free(rest->pair);
    qpc_free(rest->inverse);
    qpc_free(rest->area);
    qpc_free(rest->hinge);
    qpc_free(rest->hinge_pair);
    qpc_free(rest->bend);
    qpc_free(rest->couple);
    qpc_free(rest->stiffness);
    qpc_free(rest->angle);
    memset(rest, 0, sizeof *rest);
}

qpc_status qpc_shell_moduli(double young, double poisson, double thickness, double *ret_mu, double *ret_lambda,
                            double *ret_rigidity, qpc_error *err) {
    if (!(young > 0) || !isfinite(young))
        return qpc_fail(err, QPC_ERR_INVALID, "Young's modulus is %g Pa, it must be positive", young);
    if (!(thickness > 0) || !isfinite(thickness))
        return qpc_fail(err, QPC_ERR_INVALID, "the thickness is %g m, it must be positive", thickness);
    if (!(poisson > -1) || !(poisson < 1))
        return qpc_fail(err, QPC_ERR_INVALID, "Poisson's ratio is %g, of a sheet it must be between -1 and 1", poisson);
    double plane = 1 - poisson * poisson;
    *ret_mu = young * thickness / (2 * (1 + poisson));
    *ret_lambda = young * thickness * poisson / plane;
    *ret_rigidity = young * thickness * thickness * thickness / (12 * plane);
    return QPC_OK;
}
