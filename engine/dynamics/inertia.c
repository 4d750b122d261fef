/// Mass, centre and inertia; see inertia.h.
///
/// A mesh is summed up as signed tetrahedra from a point near it to each triangle (TR1), twice: for
/// volume and centre from the middle of its bounding box, then for second moments from the centre,
/// so that no large terms are subtracted by the parallel axis theorem.
#include "engine/dynamics/inertia.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define NO_PRODUCT 1e-14   // of the trace: products of inertia that are rounding
#define NO_VOLUME 1e-14    // of the products that it is summed from: a volume that is rounding
#define ABOVE_SUM 1e-9     // relative: how far a moment may be above the sum of the others
#define NOT_SYMMETRIC 1e-9 // of the largest entry

static const double PI = 3.14159265358979323846;

// ---- principal axes ----

/// Turn rows and columns p and q of a by the angle that makes a_pq zero; the same for the columns
/// of Q.
static void jacobi_rotate(double a[3][3], double Q[3][3], int p, int q) {
    double theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    double t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + hypot(theta, 1.0));
    double c = 1.0 / hypot(t, 1.0), s = t * c;
    int r = 3 - p - q;
    double app = a[p][p] - t * a[p][q], aqq = a[q][q] + t * a[p][q];
    double arp = c * a[r][p] - s * a[r][q], arq = s * a[r][p] + c * a[r][q];
    a[p][p] = app;
    a[q][q] = aqq;
    a[p][q] = a[q][p] = 0.0;
    a[r][p] = a[p][r] = arp;
    a[r][q] = a[q][r] = arq;
    for (int i = 0; i < 3; i++) {
        double ip = Q[i][p], iq = Q[i][q];
        Q[i][p] = c * ip - s * iq;
        Q[i][q] = s * ip + c * iq;
    }
}

/// Quaternion of a rotation matrix: from its largest component, so that nothing cancels.
static void quaternion_of(double R[3][3], double q[4]) {
    double trace = R[0][0] + R[1][1] + R[2][2];
    int k = 0;
    for (int i = 1; i < 3; i++)
        if (R[i][i] > R[k][k]) k = i;
    if (trace > R[k][k]) {
        q[0] = 1.0 + trace;
        q[1] = R[2][1] - R[1][2];
        q[2] = R[0][2] - R[2][0];
        q[3] = R[1][0] - R[0][1];
    } else {
        int l = (k + 1) % 3, m = (k + 2) % 3;
        q[0] = R[m][l] - R[l][m];
        q[1 + k] = 1.0 + R[k][k] - R[l][l] - R[m][m];
        q[1 + l] = R[k][l] + R[l][k];
        q[1 + m] = R[k][m] + R[m][k];
    }
    double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++) q[i] /= norm;
}

void qpc_principal_axes(const qpc_mat3 *tensor, double moment[3], double axes[4]) {
    double a[3][3], Q[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    memcpy(a, tensor->m, sizeof a);
    double none = NO_PRODUCT * (fabs(a[0][0]) + fabs(a[1][1]) + fabs(a[2][2]));
    for (int sweep = 0; sweep < 20; sweep++) {
        bool turned = false;
        for (int p = 0; p < 2; p++) {
            for (int q = p + 1; q < 3; q++) {
                // After the first sweep down to the last bit: convergence is quadratic.
                if (sweep == 0 ? fabs(a[p][q]) <= none : fabs(a[p][q]) <= 1e-3 * none) continue;
                jacobi_rotate(a, Q, p, q);
                turned = true;
            }
        }
        if (!turned) break;
    }
    for (int i = 0; i < 3; i++) moment[i] = a[i][i];
    quaternion_of(Q, axes);
}

// ---- checks ----

static qpc_status check_positive(double value, const char *what, const char *unit, qpc_error *err) {
    if (isfinite(value) && value > 0.0) return QPC_OK;
    return qpc_fail(err, QPC_ERR_INVALID, "%s is %g %s; it must be positive and finite", what,
                    value, unit);
}

/// Principal axes of what is filled in, checked.
static qpc_status finish(qpc_inertia *inertia, qpc_error *err) {
    if (!v3_finite(inertia->centre))
        return qpc_fail(err, QPC_ERR_INVALID, "the centre of mass is not finite");
    double largest = 0.0;
    for (int i = 0; i < 9; i++) {
        if (!isfinite(inertia->tensor.m[i]))
            return qpc_fail(err, QPC_ERR_INVALID, "the inertia tensor is not finite");
        largest = fmax(largest, fabs(inertia->tensor.m[i]));
    }
    double *m = inertia->tensor.m;
    for (int i = 0; i < 3; i++) {
        for (int j = i + 1; j < 3; j++) {
            if (fabs(m[3 * i + j] - m[3 * j + i]) > NOT_SYMMETRIC * largest)
                return qpc_fail(
                    err, QPC_ERR_INVALID,
                    "the inertia tensor is not symmetric: entries (%d, %d) and (%d, %d) "
                    "are %g and %g kg m2",
                    i, j, j, i, m[3 * i + j], m[3 * j + i]);
            m[3 * i + j] = m[3 * j + i] = 0.5 * (m[3 * i + j] + m[3 * j + i]);
        }
    }
    qpc_principal_axes(&inertia->tensor, inertia->moment, inertia->axes);
    const double *p = inertia->moment;
    for (int i = 0; i < 3; i++)
        if (!(p[i] > 0.0))
            return qpc_fail(err, QPC_ERR_INVALID,
                            "a principal moment of inertia is %g kg m2; all must be positive (%g, "
                            "%g, %g)",
                            p[i], p[0], p[1], p[2]);
    for (int i = 0; i < 3; i++) {
        double others = p[(i + 1) % 3] + p[(i + 2) % 3];
        if (p[i] > others * (1.0 + ABOVE_SUM))
            return qpc_fail(err, QPC_ERR_INVALID,
                            "a principal moment of inertia, %g kg m2, is above the sum of the two "
                            "others, %g: no body has that",
                            p[i], others);
    }
    return QPC_OK;
}

qpc_status qpc_inertia_given(double mass, qpc_vec3 centre, const qpc_mat3 *tensor, qpc_inertia *ret,
                             qpc_error *err) {
    qpc_inertia made = {.mass = mass, .centre = centre, .tensor = *tensor};
    qpc_status status = check_positive(mass, "the mass", "kg", err);
    if (status == QPC_OK) status = finish(&made, err);
    if (status == QPC_OK) *ret = made;
    return status;
}

qpc_status qpc_inertia_set_mass(qpc_inertia *inertia, double mass, qpc_error *err) {
    qpc_status status = check_positive(mass, "the mass", "kg", err);
    if (status != QPC_OK) return status;
    qpc_inertia made = *inertia;
    double factor = mass / inertia->mass;
    made.mass = mass;
    for (int i = 0; i < 9; i++) made.tensor.m[i] *= factor;
    for (int i = 0; i < 3; i++) {
        made.moment[i] *= factor;
        if (!isfinite(made.moment[i]) || !(made.moment[i] > 0.0))
            return qpc_fail(err, QPC_ERR_INVALID, "with a mass of %g kg a moment of inertia is %g",
                            mass, made.moment[i]);
    }
    *inertia = made;
    return QPC_OK;
}

// ---- primitives ----

static qpc_status finish_solid(double volume, double density, double xx, double yy, double zz,
                               qpc_inertia *ret, qpc_error *err) {
    qpc_status status = check_positive(density, "the density", "kg/m3", err);
    if (status == QPC_OK) status = check_positive(volume, "the volume", "m3", err);
    if (status == QPC_OK) status = check_positive(density * volume, "the mass", "kg", err);
    if (status != QPC_OK) return status;
    double mass = density * volume;
    qpc_inertia made = {.volume = volume, .mass = mass};
    made.tensor.m[0] = mass * xx;
    made.tensor.m[4] = mass * yy;
    made.tensor.m[8] = mass * zz;
    status = finish(&made, err);
    if (status == QPC_OK) *ret = made;
    return status;
}

qpc_status qpc_inertia_of_sphere(double radius, double density, qpc_inertia *ret, qpc_error *err) {
    qpc_status status = check_positive(radius, "the radius", "m", err);
    if (status != QPC_OK) return status;
    double r2 = radius * radius, i = 0.4 * r2;
    return finish_solid(4.0 / 3.0 * PI * r2 * radius, density, i, i, i, ret, err);
}

qpc_status qpc_inertia_of_box(qpc_vec3 size, double density, qpc_inertia *ret, qpc_error *err) {
    qpc_status status = check_positive(size.x, "the size along x", "m", err);
    if (status == QPC_OK) status = check_positive(size.y, "the size along y", "m", err);
    if (status == QPC_OK) status = check_positive(size.z, "the size along z", "m", err);
    if (status != QPC_OK) return status;
    double x2 = size.x * size.x / 12, y2 = size.y * size.y / 12, z2 = size.z * size.z / 12;
    return finish_solid(size.x * size.y * size.z, density, y2 + z2, z2 + x2, x2 + y2, ret, err);
}

qpc_status qpc_inertia_of_cylinder(double radius, double length, double density, qpc_inertia *ret,
                                   qpc_error *err) {
    qpc_status status = check_positive(radius, "the radius", "m", err);
    if (status == QPC_OK) status = check_positive(length, "the length", "m", err);
    if (status != QPC_OK) return status;
    double r2 = radius * radius, across = r2 / 4 + length * length / 12;
    return finish_solid(PI * r2 * length, density, across, across, r2 / 2, ret, err);
}

qpc_status qpc_inertia_of_capsule(double radius, double length, double density, qpc_inertia *ret,
                                  qpc_error *err) {
    qpc_status status = check_positive(radius, "the radius", "m", err);
    if (status != QPC_OK) return status;
    if (!(isfinite(length) && length >= 0.0))
        return qpc_fail(err, QPC_ERR_INVALID,
                        "the length is %g m; it must be finite and not "
                        "negative",
                        length);
    // A cylinder and the two halves of a sphere, whose centres of mass are 3/8 r beyond its ends.
    double r2 = radius * radius, l2 = length * length;
    double tube = PI * r2 * length, ball = 4.0 / 3.0 * PI * r2 * radius, volume = tube + ball;
    double along = (tube * r2 / 2 + ball * 0.4 * r2) / volume;
    double across =
        (tube * (r2 / 4 + l2 / 12) + ball * (0.4 * r2 + l2 / 4 + 0.375 * length * radius)) / volume;
    return finish_solid(volume, density, across, across, along, ret, err);
}

// ---- meshes ----

/// The triangles of a mesh, and after them those that close its holes: (corner, corner, apex).
typedef struct solid {
    const qpc_mesh *mesh;
    double scale;
    int32_t caps;
    int32_t *cap_corner; // (caps x 2)
    qpc_vec3 *cap_apex;  // (caps) in the units of the file
} solid;

static void solid_fini(solid *s) {
    qpc_free(s->cap_corner);
    qpc_free(s->cap_apex);
}

static qpc_vec3 vertex(const qpc_mesh *mesh, int32_t i) {
    return v3_load(qpc_mesh_vertices(mesh) + 3 * (int64_t)i);
}

/// How much more often triangles run along each edge from its lower vertex to its higher one than
/// back: all 0 if the mesh is closed and oriented.
static void edge_balance(const qpc_mesh *mesh, const qpc_topology *t, int32_t *balance) {
    const int32_t *corner = qpc_mesh_elements(mesh);
    for (int64_t i = 0; i < qpc_mesh_element_count(mesh); i++) {
        for (int k = 0; k < 3; k++) {
            int32_t edge = t->triangle_edge[3 * i + k];
            if (edge >= 0)
                balance[edge] += corner[3 * i + k] < corner[3 * i + (k + 1) % 3] ? 1 : -1;
        }
    }
}

/// Triangles of an edge that have an area.
static int32_t solid_triangles(const qpc_topology *t, int32_t edge) {
    int32_t count = 0;
    for (int32_t k = t->edge_triangle_start[edge]; k < t->edge_triangle_start[edge + 1]; k++)
        count += !t->triangle_degenerate[t->edge_triangle[k]];
    return count;
}

static qpc_status check_closed(const qpc_topology *t, const int32_t *balance, bool close,
                               int32_t *ret_open, qpc_error *err) {
    int32_t turned = 0, first_turned = -1, open = 0, first_open = -1;
    for (int32_t e = 0; e < t->edge_count; e++) {
        if (balance[e] == 0) continue;
        if (abs(balance[e]) == 1 && solid_triangles(t, e) <= 1) {
            if (open++ == 0) first_open = e;
        } else if (turned++ == 0) {
            first_turned = e;
        }
    }
    *ret_open = open;
    if (turned > 0)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "triangles of the mesh are turned over: at the edge from vertex %d to "
                        "vertex %d they do not run against each other (%d such edges)",
                        t->edge_vertex[2 * (int64_t)first_turned],
                        t->edge_vertex[2 * (int64_t)first_turned + 1], turned);
    if (open > 0 && !close)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "the mesh is open: the edge from vertex %d to vertex %d has one triangle "
                        "only (%d such edges); have its holes closed, join vertices at equal "
                        "places, or give mass and inertia",
                        t->edge_vertex[2 * (int64_t)first_open],
                        t->edge_vertex[2 * (int64_t)first_open + 1], open);
    return QPC_OK;
}

static int32_t root_of(int32_t *parent, int32_t v) {
    while (parent[v] != v) v = parent[v] = parent[parent[v]];
    return v;
}

/// A fan for every hole: its open edges, turned round, to their middle weighted by length. Whatever
/// the shape of a hole, its edges are a cycle, so that the fan closes it.
static qpc_status make_caps(const qpc_topology *t, const int32_t *balance, int32_t open, solid *s,
                            qpc_error *err) {
    int64_t count = qpc_mesh_vertex_count(s->mesh);
    int32_t *parent = qpc_alloc_array((size_t)count, sizeof *parent);
    double *sum = qpc_calloc((size_t)count, 4 * sizeof *sum);
    qpc_status status = QPC_OK;
    s->cap_corner = qpc_alloc_array((size_t)open, 2 * sizeof *s->cap_corner);
    s->cap_apex = qpc_alloc_array((size_t)open, sizeof *s->cap_apex);
    if (parent == NULL || sum == NULL || s->cap_corner == NULL || s->cap_apex == NULL) {
        status = qpc_fail(err, QPC_ERR_MEMORY, "out of memory to close %d open edges", open);
        goto out;
    }
    for (int32_t i = 0; i < count; i++) parent[i] = i;
    for (int32_t e = 0; e < t->edge_count; e++) {
        if (balance[e] == 0) continue;
        const int32_t *end = t->edge_vertex + 2 * (int64_t)e;
        int forward = balance[e] > 0; // the triangle runs from end 0 to end 1, the cap back
        s->cap_corner[2 * (int64_t)s->caps] = end[forward];
        s->cap_corner[2 * (int64_t)s->caps++ + 1] = end[!forward];
        parent[root_of(parent, end[0])] = root_of(parent, end[1]);
    }
    for (int32_t c = 0; c < s->caps; c++) {
        const int32_t *end = s->cap_corner + 2 * (int64_t)c;
        double *to = sum + 4 * (int64_t)root_of(parent, end[0]);
        qpc_vec3 a = vertex(s->mesh, end[0]), b = vertex(s->mesh, end[1]);
        double length = v3_norm(v3_sub(b, a));
        v3_store(to, v3_madd(v3_load(to), length, v3_lerp(a, b, 0.5)));
        to[3] += length;
    }
    for (int32_t c = 0; c < s->caps; c++) {
        const double *from = sum + 4 * (int64_t)root_of(parent, s->cap_corner[2 * (int64_t)c]);
        s->cap_apex[c] = from[3] > 0.0 ? v3_scale(1.0 / from[3], v3_load(from))
                                       : vertex(s->mesh, s->cap_corner[2 * (int64_t)c]);
    }
out:
    qpc_free(parent);
    qpc_free(sum);
    return status;
}

/// Check that the mesh is a solid, or make it one. solid_fini() in any case.
static qpc_status make_solid(const qpc_topology *t, bool close, solid *s, qpc_error *err) {
    int32_t *balance = qpc_calloc((size_t)t->edge_count + 1, sizeof *balance), open = 0;
    if (balance == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %d edges", t->edge_count);
    edge_balance(s->mesh, t, balance);
    qpc_status status = check_closed(t, balance, close, &open, err);
    if (status == QPC_OK && open > 0) status = make_caps(t, balance, open, s, err);
    qpc_free(balance);
    return status;
}

static int64_t triangle_count(const solid *s) {
    return qpc_mesh_element_count(s->mesh) + s->caps;
}

/// Corners of a triangle seen from `origin` (in the units of the file), times scale.
static void corners_from(const solid *s, int64_t triangle, qpc_vec3 origin, qpc_vec3 ret[3]) {
    int64_t cap = triangle - qpc_mesh_element_count(s->mesh);
    const int32_t *corner =
        cap < 0 ? qpc_mesh_elements(s->mesh) + 3 * triangle : s->cap_corner + 2 * cap;
    for (int k = 0; k < 3; k++) {
        qpc_vec3 x = cap >= 0 && k == 2 ? s->cap_apex[cap] : vertex(s->mesh, corner[k]);
        ret[k] = v3_scale(s->scale, v3_sub(x, origin));
    }
}

static qpc_vec3 box_middle(const qpc_mesh *mesh) {
    const int32_t *corner = qpc_mesh_elements(mesh);
    const double *vertices = qpc_mesh_vertices(mesh);
    qpc_vec3 low = v3_load(vertices + 3 * (int64_t)corner[0]), high = low;
    for (int64_t i = 0; i < 3 * qpc_mesh_element_count(mesh); i++) {
        qpc_vec3 x = v3_load(vertices + 3 * (int64_t)corner[i]);
        low = v3(fmin(low.x, x.x), fmin(low.y, x.y), fmin(low.z, x.z));
        high = v3(fmax(high.x, x.x), fmax(high.y, x.y), fmax(high.z, x.z));
    }
    return v3_lerp(low, high, 0.5);
}

/// Integrals of x x' over the volume, as seen from `origin` (TR1): xx, yy, zz, xy, yz, zx.
static void second_moments(const solid *body, qpc_vec3 origin, double ret[6]) {
    memset(ret, 0, 6 * sizeof *ret);
    for (int64_t i = 0; i < triangle_count(body); i++) {
        qpc_vec3 p[4];
        corners_from(body, i, origin, p);
        double w = v3_dot(p[0], v3_cross(p[1], p[2])) / 120.0;
        p[3] = v3_add(v3_add(p[0], p[1]), p[2]);
        for (int k = 0; k < 4; k++) {
            ret[0] += w * p[k].x * p[k].x;
            ret[1] += w * p[k].y * p[k].y;
            ret[2] += w * p[k].z * p[k].z;
            ret[3] += w * p[k].x * p[k].y;
            ret[4] += w * p[k].y * p[k].z;
            ret[5] += w * p[k].z * p[k].x;
        }
    }
}

static qpc_status volume_of(const solid *body, qpc_vec3 origin, double *ret_volume,
                            qpc_vec3 *ret_first, qpc_error *err) {
    double volume = 0.0, all = 0.0; // all: as large as the products that a tetrahedron is made of
    qpc_vec3 first = v3(0, 0, 0);
    for (int64_t i = 0; i < triangle_count(body); i++) {
        qpc_vec3 p[3];
        corners_from(body, i, origin, p);
        double w = v3_dot(p[0], v3_cross(p[1], p[2])) / 6.0;
        volume += w;
        all += v3_norm(p[0]) * v3_norm(p[1]) * v3_norm(p[2]) / 6.0;
        first = v3_madd(first, w / 4.0, v3_add(v3_add(p[0], p[1]), p[2]));
    }
    if (!isfinite(volume) || !v3_finite(first))
        return qpc_fail(err, QPC_ERR_INVALID, "the volume of the mesh is not finite");
    if (!(fabs(volume) > NO_VOLUME * all))
        return qpc_fail(
            err, QPC_ERR_INVALID,
            "the mesh encloses no volume (%g m3, which is rounding): a solid body needs "
            "some, or mass and inertia given",
            volume);
    if (volume < 0.0)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "the mesh is inside out (volume %g m3): its triangles must run "
                        "counter-clockwise seen from outside",
                        volume);
    *ret_volume = volume;
    *ret_first = first;
    return QPC_OK;
}

static qpc_status integrate(const solid *body, double density, qpc_inertia *ret, qpc_error *err) {
    qpc_inertia made = {.closed = body->caps};
    qpc_vec3 origin = box_middle(body->mesh), first = v3(0, 0, 0);
    qpc_status status = volume_of(body, origin, &made.volume, &first, err);
    if (status != QPC_OK) return status;
    made.mass = density * made.volume;
    status = check_positive(made.mass, "the mass of the mesh", "kg", err);
    if (status != QPC_OK) return status;
    qpc_vec3 middle = v3_madd(origin, 1.0 / (made.volume * body->scale), first);
    made.centre = v3_scale(body->scale, middle);
    // The integrals from the centre: what it lost when it was rounded is of second order (TR2).
    double s[6];
    second_moments(body, middle, s);
    for (int i = 0; i < 6; i++) s[i] *= density;
    made.tensor = (qpc_mat3){
        {s[1] + s[2], -s[3], -s[5], -s[3], s[2] + s[0], -s[4], -s[5], -s[4], s[0] + s[1]}};
    status = finish(&made, err);
    if (status == QPC_OK) *ret = made;
    return status;
}

qpc_status qpc_inertia_of_mesh(const qpc_mesh *mesh, double scale, double density, bool close,
                               qpc_inertia *ret, qpc_error *err) {
    const qpc_topology *topology = qpc_mesh_topology(mesh);
    if (topology == NULL)
        return qpc_fail(err, QPC_ERR_INVALID, "a rigid body needs a mesh of triangles");
    qpc_status status = check_positive(scale, "the scale", "", err);
    if (status == QPC_OK) status = check_positive(density, "the density", "kg/m3", err);
    if (status != QPC_OK) return status;
    solid body = {.mesh = mesh, .scale = scale};
    status = make_solid(topology, close, &body, err);
    if (status == QPC_OK) status = integrate(&body, density, ret, err);
    solid_fini(&body);
    return status;
}
