/// Mesh generators.
///
/// Sheave, funnel, cylinder and sphere are solids of revolution: a profile in the half plane
/// (rho, t), run through counter-clockwise, is turned about the axis in `segments` steps. A strip
/// between two profile points is a ring of plane trapezoids, each two triangles; a point on the
/// axis is a single vertex with a fan. Sheet and box are grids. Each chooses its divisions so that
/// the regular part has at most the wanted count with a rest below one strip; the rest is made up
/// by quadrilaterals that get their diagonal split (four triangles instead of two), or, for one odd
/// triangle of an open surface, a boundary edge (three).
#include "client/meshio/generate.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/nearest.h"

#define PI 3.14159265358979323846

// clang-format off
static const qpc_mesh_kind kinds[QPC_MESH_KIND_COUNT] = {
    {"sheave", "grooved pulley with a bore, turned about its axis",
     {{"triangles", QPC_PARAM_COUNT, "13722", "exact count, even, at least 90"},
      {"radius", QPC_PARAM_LENGTH, "1", "radius at the bottom of the groove, m"},
      {"groove", QPC_PARAM_LENGTH, "0.06 radius", "radius of the groove's arc, m"},
      {"flange", QPC_PARAM_LENGTH, "radius + 2 groove", "outer radius, m"},
      {"lip", QPC_PARAM_LENGTH, "17/12 groove", "half width of the groove at the outer radius, m"},
      {"width", QPC_PARAM_LENGTH, "10/3 groove", "width along the axis, m"},
      {"hub", QPC_PARAM_LENGTH, "0.2 radius", "radius of the bore, m"},
      {"axis", QPC_PARAM_AXIS, "z", "axis of the pulley"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"funnel",
     "funnel with a spout and a wall of constant horizontal thickness; the rim of the mouth is at 0",
     {{"triangles", QPC_PARAM_COUNT, "11712", "exact count, even, at least 36"},
      {"mouth", QPC_PARAM_LENGTH, "0.5", "inner radius of the mouth, m"},
      {"throat", QPC_PARAM_LENGTH, "0.08", "inner radius of the spout, m"},
      {"height", QPC_PARAM_LENGTH, "0.8", "height of the cone, m"},
      {"spout", QPC_PARAM_LENGTH, "0.3", "length of the spout below the cone, m"},
      {"wall", QPC_PARAM_LENGTH, "0.05", "thickness of the wall, m"},
      {"axis", QPC_PARAM_AXIS, "y", "axis, from the spout to the mouth"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"cylinder", "cylinder, or with caps false an open tube",
     {{"triangles", QPC_PARAM_COUNT, "32 segments (tube: 30)", "exact count; with caps even"},
      {"radius", QPC_PARAM_LENGTH, "0.3", "radius of its corners, m"},
      {"length", QPC_PARAM_LENGTH, "2", "length along the axis, m"},
      {"segments", QPC_PARAM_COUNT, "64; chosen for even triangles if only `triangles` is given",
       "corners of the cross-section"},
      {"caps", QPC_PARAM_FLAG, "true", "close both ends"},
      {"axis", QPC_PARAM_AXIS, "z", "axis of the cylinder"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"sphere", "sphere of circles of latitude",
     {{"triangles", QPC_PARAM_COUNT, "1024", "exact count, even, at least 6"},
      {"radius", QPC_PARAM_LENGTH, "0.5", "radius of its corners, m"},
      {"axis", QPC_PARAM_AXIS, "z", "line through the poles"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"sheet", "flat rectangle that faces along its axis; open",
     {{"triangles", QPC_PARAM_COUNT, "2", "exact count, at least 2"},
      {"width", QPC_PARAM_LENGTH, "1", "size along x (axis x: along y), m"},
      {"depth", QPC_PARAM_LENGTH, "1", "size along the other direction, m"},
      {"axis", QPC_PARAM_AXIS, "y", "direction of the normal"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"grid", "flat rectangle of evenly spaced vertices, two triangles a cell: for cloth; open",
     {{"columns", QPC_PARAM_COUNT, "10", "vertices along x (axis x: along y), at least 2"},
      {"rows", QPC_PARAM_COUNT, "columns", "vertices along the other direction, at least 2"},
      {"width", QPC_PARAM_LENGTH, "1", "size along the columns' direction, m"},
      {"depth", QPC_PARAM_LENGTH, "width", "size along the other direction, m"},
      {"alternate", QPC_PARAM_FLAG, "true", "diagonals of neighbouring cells run across each other"},
      {"axis", QPC_PARAM_AXIS, "y", "direction of the normal"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"box", "box with its faces across the axes",
     {{"triangles", QPC_PARAM_COUNT, "12", "exact count, even, at least 12"},
      {"width", QPC_PARAM_LENGTH, "1", "size along x, m"},
      {"height", QPC_PARAM_LENGTH, "1", "size along y, m"},
      {"depth", QPC_PARAM_LENGTH, "1", "size along z, m"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"block", "block of tetrahedra, six a cell: for soft bodies",
     {{"columns", QPC_PARAM_COUNT, "4", "cells along x"},
      {"rows", QPC_PARAM_COUNT, "columns", "cells along y"},
      {"layers", QPC_PARAM_COUNT, "columns", "cells along z"},
      {"width", QPC_PARAM_LENGTH, "1", "size along x, m"},
      {"height", QPC_PARAM_LENGTH, "width", "size along y, m"},
      {"depth", QPC_PARAM_LENGTH, "width", "size along z, m"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
    {"ellipsoid", "ellipsoid of tetrahedra, six a cell of a lattice bent round: for soft bodies",
     {{"columns", QPC_PARAM_COUNT, "8", "cells along x, at least 2"},
      {"rows", QPC_PARAM_COUNT, "columns", "cells along y, at least 2"},
      {"layers", QPC_PARAM_COUNT, "columns", "cells along z, at least 2"},
      {"width", QPC_PARAM_LENGTH, "1", "size along x, m"},
      {"height", QPC_PARAM_LENGTH, "width", "size along y, m"},
      {"depth", QPC_PARAM_LENGTH, "width", "size along z, m"},
      {NULL, QPC_PARAM_FLAG, NULL, NULL}}},
};
// clang-format on

const qpc_mesh_kind *qpc_mesh_kind_get(int32_t index) {
    return index >= 0 && index < QPC_MESH_KIND_COUNT ? &kinds[index] : NULL;
}

const qpc_mesh_kind *qpc_mesh_kind_find(const char *name) {
    for (int i = 0; i < QPC_MESH_KIND_COUNT; i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

// ---- parameters ----

/// The parameters of a spec, in the order of the kind's table; booleans 0 or 1, axes 0, 1, 2.
typedef struct mesh_spec {
    const char *where;
    double value[QPC_MESH_PARAM_MAX];
    bool given[QPC_MESH_PARAM_MAX];
} mesh_spec;

static qpc_status read_axis(const qpc_value *v, const char *where, double *ret, qpc_error *err) {
    char text[4];
    if (v->kind != QPC_STR || qpc_read_text(v, where, text, sizeof text, NULL) != QPC_OK ||
        strlen(text) != 1 || strchr("xyz", text[0]) == NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "an axis is \"x\", \"y\" or \"z\"");
    *ret = text[0] - 'x';
    return QPC_OK;
}

static qpc_status read_param(const qpc_mesh_param *param, const qpc_value *v, const char *where,
                             double *ret, qpc_error *err) {
    int64_t count;
    bool flag;
    qpc_status status;
    switch (param->type) {
    case QPC_PARAM_LENGTH:
        return qpc_read_real(v, where, 1e-9, 1e9, ret, err);
    case QPC_PARAM_COUNT:
        status = qpc_read_int(v, where, 1, QPC_GENERATE_MAX_TRIANGLES, &count, err);
        if (status == QPC_OK) *ret = (double)count;
        return status;
    case QPC_PARAM_FLAG:
        status = qpc_read_bool(v, where, &flag, err);
        if (status == QPC_OK) *ret = flag;
        return status;
    case QPC_PARAM_AXIS:
        return read_axis(v, where, ret, err);
    }
    return qpc_fail(err, QPC_ERR_INTERNAL, "parameter of an unknown type");
}

static qpc_status read_spec(const qpc_value *map, const char *where, const qpc_mesh_kind *kind,
                            mesh_spec *spec, qpc_error *err) {
    const char *keys[QPC_MESH_PARAM_MAX + 2] = {"kind"};
    for (int i = 0; kind->params[i].name != NULL; i++) keys[i + 1] = kind->params[i].name;
    qpc_status status = qpc_map_check_keys(map, where, keys, err);
    *spec = (mesh_spec){.where = where};
    for (int i = 0; status == QPC_OK && kind->params[i].name != NULL; i++) {
        const qpc_value *v = qpc_map_get(map, kind->params[i].name);
        if (v == NULL) continue;
        char path[120];
        snprintf(path, sizeof path, "%s.%s", where, kind->params[i].name);
        status = read_param(&kind->params[i], v, path, &spec->value[i], err);
        spec->given[i] = true;
    }
    return status;
}

static double value_or(const mesh_spec *spec, int param, double standard) {
    return spec->given[param] ? spec->value[param] : standard;
}

static int32_t count_or(const mesh_spec *spec, int param, int32_t standard) {
    return (int32_t)value_or(spec, param, standard);
}

static qpc_status check_triangles(const mesh_spec *spec, int32_t triangles, int32_t least,
                                  bool closed, qpc_error *err) {
    if (triangles < least)
        return qpc_fail_at(err, QPC_ERR_INVALID, spec->where, "%d triangles; it needs at least %d",
                           triangles, least);
    if (closed && triangles % 2 != 0)
        return qpc_fail_at(err, QPC_ERR_INVALID, spec->where,
                           "%d triangles; a closed surface has an even number: %d or %d", triangles,
                           triangles - 1, triangles + 1);
    return QPC_OK;
}

// ---- building ----

typedef struct builder {
    qpc_mesh_data mesh;
    int32_t vertex_capacity, triangle_capacity;
    int axis; // where the third local coordinate goes
} builder;

static qpc_status builder_init(builder *b, int64_t vertices, int32_t triangles, int axis,
                               qpc_error *err) {
    *b = (builder){
        .vertex_capacity = (int32_t)vertices, .triangle_capacity = triangles, .axis = axis};
    b->mesh.nodes_per_element = 3;
    b->mesh.vertices = qpc_alloc_array((size_t)vertices, 3 * sizeof(double));
    b->mesh.elements = qpc_alloc_array((size_t)triangles, 3 * sizeof(int32_t));
    if (b->mesh.vertices != NULL && b->mesh.elements != NULL) return QPC_OK;
    qpc_mesh_data_fini(&b->mesh);
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a mesh of %d triangles", triangles);
}

/// Local (u, v, t), t along the axis; the coordinates are permuted cyclically, so that orientation
/// is kept.
static int32_t add_vertex(builder *b, double u, double v, double t) {
    const double local[3] = {u, v, t};
    int32_t i = b->mesh.vertex_count++;
    QPC_ASSERT(i < b->vertex_capacity);
    double *out = b->mesh.vertices + 3 * (size_t)i;
    for (int k = 0; k < 3; k++) out[(b->axis + 1 + k) % 3] = local[k] + 0.0;
    return i;
}

static int32_t add_middle(builder *b, int32_t i, int32_t j) {
    const double *p = b->mesh.vertices + 3 * (size_t)i, *q = b->mesh.vertices + 3 * (size_t)j;
    int32_t m = b->mesh.vertex_count++;
    QPC_ASSERT(m < b->vertex_capacity);
    double *out = b->mesh.vertices + 3 * (size_t)m;
    for (int k = 0; k < 3; k++) out[k] = 0.5 * (p[k] + q[k]);
    return m;
}

static void add_triangle(builder *b, int32_t i, int32_t j, int32_t k) {
    QPC_ASSERT(b->mesh.element_count < b->triangle_capacity);
    int32_t *out = b->mesh.elements + 3 * (size_t)b->mesh.element_count++;
    out[0] = i;
    out[1] = j;
    out[2] = k;
}

typedef enum quad_split { QUAD_PLAIN, QUAD_DIAGONAL, QUAD_EDGE } quad_split;

/// Two triangles, or four about the middle of a diagonal, or three with the edge i-j halved.
static void add_quad(builder *b, int32_t i, int32_t j, int32_t k, int32_t l, quad_split split) {
    if (split == QUAD_PLAIN) {
        add_triangle(b, i, j, l);
        add_triangle(b, j, k, l);
    } else if (split == QUAD_DIAGONAL) {
        int32_t m = add_middle(b, j, l);
        add_triangle(b, i, j, m);
        add_triangle(b, j, k, m);
        add_triangle(b, k, l, m);
        add_triangle(b, l, i, m);
    } else {
        int32_t m = add_middle(b, i, j);
        add_triangle(b, i, m, l);
        add_triangle(b, m, k, l);
        add_triangle(b, m, j, k);
    }
}

/// A profile to turn about the axis.
typedef struct profile {
    double *points; // (count x 2) rho, t; counter-clockwise; owned
    int32_t count;
    bool closed; // the last point joins the first; else poles (rho 0) or open ends
    int32_t segments;
    int32_t split_strip; // strip whose first `splits` quadrilaterals get their diagonal split
    int32_t splits;
    bool odd; // halve one edge of the first ring (an open end)
} profile;

static qpc_status revolve(const profile *p, int32_t triangles, int axis, qpc_mesh_data *ret,
                          qpc_error *err) {
    int32_t n = p->segments;
    int64_t vertices = (int64_t)p->count * n + p->splits + 1;
    if (vertices > INT32_MAX)
        return qpc_fail(err, QPC_ERR_LIMIT, "%d triangles need too many vertices", triangles);
    builder b;
    int32_t *first = qpc_alloc_array((size_t)p->count, sizeof *first); // of each ring
    double *turn = qpc_alloc_array((size_t)n, 2 * sizeof *turn);       // cos, sin
    if (first == NULL || turn == NULL ||
        builder_init(&b, vertices, triangles, axis, NULL) != QPC_OK) {
        qpc_free(first);
        qpc_free(turn);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a mesh of %d triangles", triangles);
    }
    for (int32_t k = 0; k < n; k++) {
        turn[2 * k] = cos(2 * PI * k / n);
        turn[2 * k + 1] = sin(2 * PI * k / n);
    }
    for (int32_t i = 0; i < p->count; i++) {
        double rho = p->points[2 * i], t = p->points[2 * i + 1];
        first[i] = b.mesh.vertex_count;
        int32_t corners = rho == 0 ? 1 : n;
        for (int32_t k = 0; k < corners; k++)
            add_vertex(&b, rho * turn[2 * k], rho * turn[2 * k + 1], t);
    }
    int32_t strips = p->closed ? p->count : p->count - 1;
    for (int32_t i = 0; i < strips; i++) {
        int32_t next = (i + 1) % p->count;
        int32_t low = first[i], high = first[next];
        bool low_pole = p->points[2 * i] == 0, high_pole = p->points[2 * next] == 0;
        for (int32_t k = 0; k < n; k++) {
            int32_t k1 = (k + 1) % n;
            if (low_pole) {
                add_triangle(&b, low, high + k1, high + k);
            } else if (high_pole) {
                add_triangle(&b, low + k, low + k1, high);
            } else {
                quad_split split = QUAD_PLAIN;
                if (i == p->split_strip && k < p->splits) split = QUAD_DIAGONAL;
                if (p->odd && i == 0 && k == n - 1) split = QUAD_EDGE;
                add_quad(&b, low + k, low + k1, high + k1, high + k, split);
            }
        }
    }
    qpc_free(first);
    qpc_free(turn);
    QPC_ASSERT(b.mesh.element_count == triangles);
    *ret = b.mesh;
    return QPC_OK;
}

/// The profile's corners with `count - corner_count` more points: always the piece with the longest
/// parts gets one part more, so corners stay. ret_at: where each corner came to lie.
static qpc_status resample(const double *corners, int32_t corner_count, bool closed, int32_t count,
                           double **ret, int32_t *ret_at, qpc_error *err) {
    enum { CORNER_MAX = 16 };
    int32_t parts[CORNER_MAX];
    double length[CORNER_MAX];
    int32_t pieces = closed ? corner_count : corner_count - 1;
    QPC_ASSERT(corner_count <= CORNER_MAX && count >= corner_count);
    double *points = qpc_alloc_array((size_t)count, 2 * sizeof *points);
    if (points == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a profile");
    for (int32_t i = 0; i < pieces; i++) {
        const double *p = corners + 2 * i, *q = corners + 2 * ((i + 1) % corner_count);
        parts[i] = 1;
        length[i] = hypot(q[0] - p[0], q[1] - p[1]);
    }
    for (int32_t extra = count - corner_count; extra > 0; extra--) {
        int32_t longest = 0;
        for (int32_t i = 1; i < pieces; i++)
            if (length[i] * parts[longest] > length[longest] * parts[i]) longest = i;
        parts[longest]++;
    }
    int32_t used = 0;
    for (int32_t i = 0; i < corner_count; i++) {
        const double *p = corners + 2 * i, *q = corners + 2 * ((i + 1) % corner_count);
        ret_at[i] = used;
        int32_t n = i < pieces ? parts[i] : 1;
        for (int32_t k = 0; k < n; k++, used++) {
            double s = (double)k / n;
            points[2 * used] = p[0] + s * (q[0] - p[0]);
            points[2 * used + 1] = p[1] + s * (q[1] - p[1]);
        }
    }
    QPC_ASSERT(used == count);
    *ret = points;
    return QPC_OK;
}

/// Turn a closed polygon of corners: `triangles` in all, near to the proportions of `points` and
/// `segments` at `standard` triangles. The strip behind corner `split_corner` takes the rest.
static qpc_status turn_closed(const double *corners, int32_t corner_count, int32_t split_corner,
                              int32_t triangles, double segments, double standard, int axis,
                              qpc_mesh_data *ret, qpc_error *err) {
    int32_t n = (int32_t)lround(segments * sqrt(triangles / standard));
    if (n > triangles / (2 * corner_count)) n = triangles / (2 * corner_count);
    if (n < 3) n = 3;
    profile p = {.count = triangles / (2 * n), .closed = true, .segments = n};
    p.splits = (triangles - 2 * n * p.count) / 2;
    int32_t at[16];
    qpc_status status = resample(corners, corner_count, true, p.count, &p.points, at, err);
    if (status != QPC_OK) return status;
    p.split_strip = at[split_corner];
    status = revolve(&p, triangles, axis, ret, err);
    qpc_free(p.points);
    return status;
}

// ---- the kinds ----

static qpc_status make_sheave(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { TRIANGLES, RADIUS, GROOVE, FLANGE, LIP, WIDTH, HUB, AXIS };
    enum { ARC_PARTS = 8, CORNERS = ARC_PARTS + 7 };
    double radius = value_or(spec, RADIUS, 1);
    double groove = value_or(spec, GROOVE, 0.06 * radius);
    double flange = value_or(spec, FLANGE, radius + 2 * groove);
    double lip = value_or(spec, LIP, groove * 17 / 12);
    double half = value_or(spec, WIDTH, groove * 10 / 3) / 2;
    double hub = value_or(spec, HUB, 0.2 * radius);
    const double reach = 81 * PI / 180;
    int32_t triangles = count_or(spec, TRIANGLES, 13722);
    qpc_status status = check_triangles(spec, triangles, 2 * 3 * CORNERS, true, err);
    if (status != QPC_OK) return status;
    if (!(hub < radius))
        return qpc_fail_at(err, QPC_ERR_INVALID, spec->where, "hub %g must be below radius %g", hub,
                           radius);
    if (!(flange > radius + groove * (1 - cos(reach))))
        return qpc_fail_at(err, QPC_ERR_INVALID, spec->where,
                           "flange %g must be above the groove's rim at %g", flange,
                           radius + groove * (1 - cos(reach)));
    if (!(lip >= groove * sin(reach) && lip < half))
        return qpc_fail_at(
            err, QPC_ERR_INVALID, spec->where,
            "lip %g must lie between the groove's half width %g and half the width %g", lip,
            groove * sin(reach), half);
    double corners[2 * CORNERS];
    for (int i = 0; i <= ARC_PARTS; i++) {
        double a = reach * (2.0 * i / ARC_PARTS - 1);
        corners[2 * i] = radius + groove - groove * cos(a);
        corners[2 * i + 1] = groove * sin(a);
    }
    const double rest[12] = {flange, lip,   flange, half,  hub,    half,
                             hub,    -half, flange, -half, flange, -lip};
    memcpy(corners + 2 * (ARC_PARTS + 1), rest, sizeof rest);
    // 70 points times 98 segments, and one edge of the hub: 13,722.
    return turn_closed(corners, CORNERS, ARC_PARTS + 3, triangles, 98, 13720,
                       (int)value_or(spec, AXIS, 2), ret, err);
}

static qpc_status make_funnel(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { TRIANGLES, MOUTH, THROAT, HEIGHT, SPOUT, WALL, AXIS };
    double mouth = value_or(spec, MOUTH, 0.5), throat = value_or(spec, THROAT, 0.08);
    double height = value_or(spec, HEIGHT, 0.8), spout = value_or(spec, SPOUT, 0.3);
    double wall = value_or(spec, WALL, 0.05);
    int32_t triangles = count_or(spec, TRIANGLES, 11712);
    qpc_status status = check_triangles(spec, triangles, 36, true, err);
    if (status != QPC_OK) return status;
    // From the foot of the spout outside, up to the rim, and down inside.
    const double corners[12] = {
        throat + wall, -height - spout, throat + wall, -height,        mouth + wall, 0, mouth, 0,
        throat,        -height,         throat,        -height - spout};
    // 61 points times 96 segments: 11,712.
    return turn_closed(corners, 6, 0, triangles, 96, 11712, (int)value_or(spec, AXIS, 1), ret, err);
}

static qpc_status make_cylinder(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { TRIANGLES, RADIUS, LENGTH, SEGMENTS, CAPS, AXIS };
    double radius = value_or(spec, RADIUS, 0.3), length = value_or(spec, LENGTH, 2);
    bool caps = value_or(spec, CAPS, 1) != 0;
    int32_t n = count_or(spec, SEGMENTS, 64);
    int64_t wanted = (int64_t)n * (caps ? 32 : 30);
    if (spec->given[TRIANGLES]) wanted = (int64_t)spec->value[TRIANGLES];
    if (wanted > QPC_GENERATE_MAX_TRIANGLES)
        return qpc_fail_at(err, QPC_ERR_LIMIT, spec->where, "more than %d triangles",
                           QPC_GENERATE_MAX_TRIANGLES);
    int32_t triangles = (int32_t)wanted;
    // A row of quadrilaterals along the side, and as many triangles in both caps together.
    int32_t fixed = caps ? 1 : 0;
    if (spec->given[TRIANGLES] && !spec->given[SEGMENTS]) {
        double even = sqrt(PI * radius * triangles / length);
        int32_t most = triangles / (2 * (1 + fixed));
        n = even < most ? (int32_t)even : most;
        if (n < 3) n = 3;
    }
    if (n < 3) return qpc_fail_at(err, QPC_ERR_INVALID, spec->where, "%d segments; at least 3", n);
    if ((int64_t)2 * n * (1 + fixed) > INT32_MAX)
        return qpc_fail_at(err, QPC_ERR_LIMIT, spec->where, "%d segments are too many", n);
    qpc_status status = check_triangles(spec, triangles, 2 * n * (1 + fixed), caps, err);
    if (status != QPC_OK) return status;
    int32_t rows = triangles / (2 * n) - fixed;
    int32_t rest = triangles - 2 * n * (rows + fixed);
    profile p = {.count = rows + 1 + 2 * fixed,
                 .segments = n,
                 .split_strip = fixed,
                 .splits = rest / 2,
                 .odd = rest % 2 != 0};
    p.points = qpc_alloc_array((size_t)p.count, 2 * sizeof *p.points);
    if (p.points == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a profile");
    for (int32_t i = 0; i <= rows; i++) {
        double *point = p.points + 2 * (i + fixed);
        point[0] = radius;
        point[1] = length * ((double)i / rows - 0.5);
    }
    if (caps) {
        double *last = p.points + 2 * (p.count - 1);
        p.points[0] = last[0] = 0;
        p.points[1] = -length / 2;
        last[1] = length / 2;
    }
    status = revolve(&p, triangles, (int)value_or(spec, AXIS, 2), ret, err);
    qpc_free(p.points);
    return status;
}

static qpc_status make_sphere(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { TRIANGLES, RADIUS, AXIS };
    double radius = value_or(spec, RADIUS, 0.5);
    int32_t triangles = count_or(spec, TRIANGLES, 1024);
    qpc_status status = check_triangles(spec, triangles, 6, true, err);
    if (status != QPC_OK) return status;
    // 2 n (bands - 1) triangles, n about twice the number of bands.
    int32_t rings = (int32_t)sqrt(triangles / 4.0);
    if (rings < 1) rings = 1;
    profile p = {.count = rings + 2, .segments = triangles / (2 * rings)};
    p.splits = (triangles - 2 * p.segments * rings) / 2;
    p.split_strip = (rings + 1) / 2;
    p.points = qpc_alloc_array((size_t)p.count, 2 * sizeof *p.points);
    if (p.points == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a profile");
    for (int32_t i = 0; i < p.count; i++) {
        double a = PI * i / (rings + 1);
        p.points[2 * i] = radius * sin(a);
        p.points[2 * i + 1] = -radius * cos(a);
    }
    p.points[0] = p.points[2 * (p.count - 1)] = 0;
    status = revolve(&p, triangles, (int)value_or(spec, AXIS, 2), ret, err);
    qpc_free(p.points);
    return status;
}

static qpc_status make_sheet(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { TRIANGLES, WIDTH, DEPTH, AXIS };
    int axis = (int)value_or(spec, AXIS, 1);
    double size[2] = {value_or(spec, WIDTH, 1), value_or(spec, DEPTH, 1)};
    if (axis == 1) { // the cycle about y is (z, x); width is along x
        double width = size[0];
        size[0] = size[1];
        size[1] = width;
    }
    int32_t triangles = count_or(spec, TRIANGLES, 2);
    qpc_status status = check_triangles(spec, triangles, 2, false, err);
    if (status != QPC_OK) return status;
    double even = sqrt(triangles / 2.0 * size[0] / size[1]);
    int32_t nu = even < triangles / 2 ? (int32_t)lround(even) : triangles / 2;
    if (nu < 1) nu = 1;
    if (nu > triangles / 2) nu = triangles / 2;
    int32_t nv = triangles / (2 * nu), rest = triangles - 2 * nu * nv;
    builder b;
    int64_t vertices = ((int64_t)nu + 1) * ((int64_t)nv + 1) + rest;
    status = builder_init(&b, vertices, triangles, axis, err);
    if (status != QPC_OK) return status;
    for (int32_t j = 0; j <= nv; j++)
        for (int32_t i = 0; i <= nu; i++)
            add_vertex(&b, size[0] * ((double)i / nu - 0.5), size[1] * ((double)j / nv - 0.5), 0);
    for (int32_t j = 0; j < nv; j++) {
        for (int32_t i = 0; i < nu; i++) {
            int32_t a = j * (nu + 1) + i, d = a + nu + 1;
            quad_split split = j == 0 && i < rest / 2 ? QUAD_DIAGONAL : QUAD_PLAIN;
            if (j == 0 && i == nu - 1 && rest % 2 != 0) split = QUAD_EDGE;
            add_quad(&b, a, a + 1, d + 1, d, split);
        }
    }
    QPC_ASSERT(b.mesh.element_count == triangles);
    *ret = b.mesh;
    return QPC_OK;
}

/// Vertex (column i, row j) is number j columns + i, whatever the axis.
static qpc_status make_grid(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { COLUMNS, ROWS, WIDTH, DEPTH, ALTERNATE, AXIS };
    int axis = (int)value_or(spec, AXIS, 1);
    double width = value_or(spec, WIDTH, 1), depth = value_or(spec, DEPTH, width);
    bool alternate = value_or(spec, ALTERNATE, 1) != 0;
    int32_t nu = count_or(spec, COLUMNS, 10), nv = count_or(spec, ROWS, nu);
    if (nu < 2 || nv < 2)
        return qpc_fail_at(err, QPC_ERR_INVALID, spec->where, "%d columns and %d rows; wanted at least 2 of each", nu, nv);
    int64_t triangles = 2 * ((int64_t)nu - 1) * ((int64_t)nv - 1);
    if (triangles > QPC_GENERATE_MAX_TRIANGLES)
        return qpc_fail_at(err, QPC_ERR_LIMIT, spec->where, "%d columns and %d rows have more than %d triangles", nu, nv,
                           QPC_GENERATE_MAX_TRIANGLES);
    builder b;
    qpc_status status = builder_init(&b, (int64_t)nu * nv, (int32_t)triangles, axis, err);
    if (status != QPC_OK) return status;
    for (int32_t j = 0; j < nv; j++)
        for (int32_t i = 0; i < nu; i++) {
            double u = width * ((double)i / (nu - 1) - 0.5), v = depth * ((double)j / (nv - 1) - 0.5);
            if (axis == 1) add_vertex(&b, v, u, 0); // the cycle about y is (z, x)
            else add_vertex(&b, u, v, 0);
        }
    for (int32_t j = 0; j + 1 < nv; j++)
        for (int32_t i = 0; i + 1 < nu; i++) {
            int32_t p = j * nu + i, q = axis == 1 ? p + nu : p + 1, r = p + nu + 1, s = axis == 1 ? p + 1 : p + nu;
            if (alternate && (i + j) % 2 != 0) add_quad(&b, q, r, s, p, QUAD_PLAIN);
            else add_quad(&b, p, q, r, s, QUAD_PLAIN);
        }
    *ret = b.mesh;
    return QPC_OK;
}

/// Number of a lattice point on the surface of an a x b x c grid: the layer z = 0, then the layer
/// z = c, then the walls between them, ring by ring.
static int32_t box_vertex(const int32_t n[3], int32_t i, int32_t j, int32_t k) {
    int32_t a = n[0], b = n[1], layer = (a + 1) * (b + 1);
    if (k == 0) return j * (a + 1) + i;
    if (k == n[2]) return layer + j * (a + 1) + i;
    int32_t around;
    if (j == 0) {
        around = i;
    } else if (i == a) {
        around = a + j;
    } else if (j == b) {
        around = a + b + (a - i);
    } else {
        around = 2 * a + b + (b - j);
    }
    return 2 * layer + (k - 1) * 2 * (a + b) + around;
}

/// Divisions of the three sides: 4 (ab + bc + ca) triangles, at most the count wanted, near to
/// squares, the rest below what one more division of any side would take.
static void choose_box(const double size[3], int32_t triangles, int32_t n[3]) {
    double area = size[0] * size[1] + size[1] * size[2] + size[2] * size[0];
    double per_metre = sqrt(triangles / (4 * area));
    for (int k = 0; k < 3; k++) {
        double parts = floor(size[k] * per_metre);
        n[k] = parts < 1 ? 1 : parts > triangles ? triangles : (int32_t)parts;
    }
    // Rounding thin sides up to one division may overshoot: take from the finest side.
    for (;;) {
        int64_t count = 4 * ((int64_t)n[0] * n[1] + (int64_t)n[1] * n[2] + (int64_t)n[2] * n[0]);
        if (count <= triangles) break;
        int k = n[0] >= n[1] && n[0] >= n[2] ? 0 : n[1] >= n[2] ? 1 : 2;
        int64_t others = (int64_t)n[(k + 1) % 3] + n[(k + 2) % 3];
        int64_t fewer = (count - triangles + 4 * others - 1) / (4 * others);
        n[k] = fewer >= n[k] ? n[k] / 2 : (int32_t)(n[k] - fewer);
        if (n[k] < 1) n[k] = 1;
    }
    for (;;) {
        int64_t rest =
            triangles - 4 * ((int64_t)n[0] * n[1] + (int64_t)n[1] * n[2] + (int64_t)n[2] * n[0]);
        int best = -1;
        for (int k = 0; k < 3; k++) {
            int64_t more = 4 * ((int64_t)n[(k + 1) % 3] + n[(k + 2) % 3]);
            if (more <= rest && (best < 0 || size[k] / n[k] > size[best] / n[best])) best = k;
        }
        if (best < 0) break;
        n[best]++;
    }
}

static qpc_status make_box(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    enum { TRIANGLES, WIDTH, HEIGHT, DEPTH };
    double size[3] = {value_or(spec, WIDTH, 1), value_or(spec, HEIGHT, 1),
                      value_or(spec, DEPTH, 1)};
    int32_t triangles = count_or(spec, TRIANGLES, 12);
    qpc_status status = check_triangles(spec, triangles, 12, true, err);
    if (status != QPC_OK) return status;
    int32_t n[3];
    choose_box(size, triangles, n);
    int32_t quads = 2 * (n[0] * n[1] + n[1] * n[2] + n[2] * n[0]);
    int32_t splits = triangles / 2 - quads;
    builder b;
    status = builder_init(&b, (int64_t)quads + 2 + splits, triangles, 2, err);
    if (status != QPC_OK) return status;
    // Vertices in the order of box_vertex().
    b.mesh.vertex_count = quads + 2; // Euler: V - E + F = 2 with F = quads, E = 2 quads
    for (int32_t k = 0; k <= n[2]; k++) {
        for (int32_t j = 0; j <= n[1]; j++) {
            bool inner = k > 0 && k < n[2] && j > 0 && j < n[1];
            for (int32_t i = 0; i <= n[0]; i += inner ? n[0] : 1) {
                double *out = b.mesh.vertices + 3 * (size_t)box_vertex(n, i, j, k);
                out[0] = size[0] * ((double)i / n[0] - 0.5);
                out[1] = size[1] * ((double)j / n[1] - 0.5);
                out[2] = size[2] * ((double)k / n[2] - 0.5);
            }
        }
    }
    // Each pair of opposite faces: u, v, w is a cycle of the axes, so (u, v) faces along +w.
    for (int w = 0; w < 3; w++) {
        int u = (w + 1) % 3, v = (w + 2) % 3;
        for (int side = 0; side < 2; side++) {
            for (int32_t j = 0; j < n[v]; j++) {
                for (int32_t i = 0; i < n[u]; i++) {
                    int32_t id[4];
                    for (int c = 0; c < 4; c++) {
                        int32_t at[3];
                        at[u] = i + (c == 1 || c == 2);
                        at[v] = j + (c >= 2);
                        at[w] = side == 0 ? 0 : n[w];
                        id[c] = box_vertex(n, at[0], at[1], at[2]);
                    }
                    quad_split split = splits > 0 ? QUAD_DIAGONAL : QUAD_PLAIN;
                    if (splits > 0) splits--;
                    if (side == 1) {
                        add_quad(&b, id[0], id[1], id[2], id[3], split);
                    } else {
                        add_quad(&b, id[0], id[3], id[2], id[1], split);
                    }
                }
            }
        }
    }
    QPC_ASSERT(splits == 0 && b.mesh.element_count == triangles);
    *ret = b.mesh;
    return QPC_OK;
}

static qpc_status make_lattice(const mesh_spec *spec, bool round, qpc_mesh_data *ret, qpc_error *err) {
    enum { COLUMNS, ROWS, LAYERS, WIDTH, HEIGHT, DEPTH };
    int32_t columns = count_or(spec, COLUMNS, round ? 8 : 4);
    double width = value_or(spec, WIDTH, 1);
    const int32_t n[3] = {columns, count_or(spec, ROWS, columns), count_or(spec, LAYERS, columns)};
    const double size[3] = {width, value_or(spec, HEIGHT, width), value_or(spec, DEPTH, width)};
    return qpc_generate_lattice(n, size, round, spec->where, ret, err);
}

static qpc_status make_block(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    return make_lattice(spec, false, ret, err);
}

static qpc_status make_ellipsoid(const mesh_spec *spec, qpc_mesh_data *ret, qpc_error *err) {
    return make_lattice(spec, true, ret, err);
}

qpc_status qpc_mesh_generate(const qpc_value *map, const char *where, qpc_mesh_data *ret,
                             qpc_error *err) {
    static qpc_status (*const make[QPC_MESH_KIND_COUNT])(const mesh_spec *, qpc_mesh_data *,
                                                         qpc_error *) = {
        make_sheave, make_funnel, make_cylinder, make_sphere, make_sheet, make_grid, make_box, make_block, make_ellipsoid};
    char path[120], name[32];
    if (map->kind != QPC_MAP)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a map {kind, ...}");
    snprintf(path, sizeof path, "%s.kind", where);
    qpc_status status = qpc_read_text(qpc_map_get(map, "kind"), path, name, sizeof name, err);
    if (status != QPC_OK) return status;
    const qpc_mesh_kind *kind = qpc_mesh_kind_find(name);
    if (kind == NULL) {
        const char *names[QPC_MESH_KIND_COUNT + 1] = {NULL};
        for (int i = 0; i < QPC_MESH_KIND_COUNT; i++) names[i] = kinds[i].name;
        const char *near = qpc_nearest(name, strlen(name), names);
        return qpc_fail_at(err, QPC_ERR_INVALID, path,
                           "unknown kind of mesh \"%s\"%s%s%s (sheave, funnel, cylinder, sphere, "
                           "sheet, grid, box, block, ellipsoid)",
                           name, near ? "; did you mean \"" : "", near ? near : "",
                           near ? "\"?" : "");
    }
    mesh_spec spec;
    status = read_spec(map, where, kind, &spec, err);
    return status == QPC_OK ? make[kind - kinds](&spec, ret, err) : status;
}
