// From scene to checker, see check_scene.h. Reads only the keys that say where things are and how
// thick: kind, nodes, rest_length, radius, self_exclusion, mesh, position, rotation, scale.
#include "tests/support/check_scene.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct draft { // of one body
    double *x;          // (node_count x 3), by malloc
    double *rest;       // (node_count - 1), or NULL
    int32_t *skin;      // triangles around tetrahedra, or NULL
} draft;

// Rows of a matrix, copied to malloc'd memory.
static qpc_status matrix(const qpc_value *v, const char *where, int columns, double **ret,
                         int64_t *ret_rows, qpc_error *err) {
    double *data;
    qpc_status status = qpc_read_matrix(v, where, columns, INT32_MAX / 4, &data, ret_rows, err);
    if (status != QPC_OK) return status;
    size_t size = (size_t)*ret_rows * (size_t)columns * sizeof **ret;
    *ret = malloc(size + 1);
    if (*ret != NULL) memcpy(*ret, data, size);
    qpc_free(data);
    return *ret != NULL ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "%s", where);
}
static qpc_status number(const qpc_value *map, const char *key, double standard, double *ret,
                         qpc_error *err) {
    const qpc_value *v = qpc_map_get(map, key);
    *ret = standard;
    return v == NULL ? QPC_OK : qpc_read_real(v, key, -1e300, 1e300, ret, err);
}
static qpc_status vector(const qpc_value *map, const char *key, int n, double *ret, qpc_error *err) {
    const qpc_value *v = qpc_map_get(map, key);
    if (v == NULL) return QPC_OK;
    double *data = NULL;
    int64_t rows = 0;
    qpc_status status = matrix(v, key, n, &data, &rows, err);
    if (status == QPC_OK && rows != 1)
        status = qpc_fail(err, QPC_ERR_INVALID, "%s: wanted %d numbers", key, n);
    if (status == QPC_OK) memcpy(ret, data, (size_t)n * sizeof *ret);
    free(data);
    return status;
}
static qpc_status read_cable(const qpc_value *map, qpc_checker_body *b, draft *d, qpc_error *err) {
    int64_t n = 0, springs = 0;
    qpc_status status = matrix(qpc_map_get(map, "nodes"), "nodes", 3, &d->x, &n, err);
    if (status != QPC_OK) return status;
    b->node_count = (int32_t)n;
    b->moves = true;
    status = number(map, "self_exclusion", -1, &b->self_exclusion, err);
    const qpc_value *rest = qpc_map_get(map, "rest_length");
    if (status != QPC_OK || rest == NULL || n < 2) return status;
    if (rest->kind == QPC_LIST || rest->kind == QPC_TENSOR) {
        status = matrix(rest, "rest_length", 1, &d->rest, &springs, err);
        if (status == QPC_OK && springs != n - 1)
            status = qpc_fail(err, QPC_ERR_INVALID, "rest_length: wanted %lld numbers",
                              (long long)(n - 1));
        return status;
    }
    double value;
    status = number(map, "rest_length", 1, &value, err);
    d->rest = malloc((size_t)n * sizeof *d->rest);
    if (d->rest == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "rest_length");
    for (int64_t i = 0; i < n - 1; i++) d->rest[i] = value;
    return status;
}
// Faces of tetrahedra: their vertices in order, then as the tetrahedron has them.
typedef struct face {
    int32_t sorted[3], given[3];
} face;
static int by_vertices(const void *a, const void *b) {
    const face *p = a, *q = b;
    for (int k = 0; k < 3; k++)
        if (p->sorted[k] != q->sorted[k]) return p->sorted[k] < q->sorted[k] ? -1 : 1;
    return 0;
}
/// The faces that one tetrahedron alone has; which way round they are does not matter here.
static qpc_status skin_of(const qpc_check_mesh *mesh, draft *d, int32_t *ret_count, qpc_error *err) {
    size_t faces = 4 * (size_t)mesh->triangle_count, kept = 0;
    face *list = malloc(faces * sizeof *list + 1);
    d->skin = malloc(3 * faces * sizeof *d->skin + 1);
    if (list == NULL || d->skin == NULL) {
        free(list);
        return qpc_fail(err, QPC_ERR_MEMORY, "skin");
    }
    for (size_t i = 0; i < faces; i++) {
        const int32_t *tet = mesh->triangles + i / 4 * 4;
        for (size_t k = 0, at = 0; k < 4; k++)
            if (k != i % 4) list[i].given[at++] = tet[k];
        memcpy(list[i].sorted, list[i].given, sizeof list[i].sorted);
        for (int pass = 0; pass < 2; pass++)
            for (int k = 0; k < 2; k++)
                if (list[i].sorted[k] > list[i].sorted[k + 1]) {
                    int32_t t = list[i].sorted[k];
                    list[i].sorted[k] = list[i].sorted[k + 1];
                    list[i].sorted[k + 1] = t;
                }
    }
    qsort(list, faces, sizeof *list, by_vertices);
    for (size_t i = 0; i < faces; i++) {
        bool twin = (i > 0 && by_vertices(&list[i], &list[i - 1]) == 0) || (i + 1 < faces && by_vertices(&list[i], &list[i + 1]) == 0);
        if (!twin) memcpy(d->skin + 3 * kept++, list[i].given, sizeof list[i].given);
    }
    free(list);
    *ret_count = (int32_t)kept;
    return QPC_OK;
}
/// Where a body is put: at + scale r p.
static qpc_status read_place(const qpc_value *map, double at[3], double r[9], double *scale, qpc_error *err) {
    double q[4] = {1, 0, 0, 0};
    qpc_status status;
    memset(at, 0, 3 * sizeof *at);
    if ((status = number(map, "scale", 1, scale, err)) != QPC_OK ||
        (status = vector(map, "position", 3, at, err)) != QPC_OK ||
        (status = vector(map, "rotation", 4, q, err)) != QPC_OK ||
        (status = vector(map, "orientation", 4, q, err)) != QPC_OK)
        return status;
    double size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++) q[i] /= size;
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double turn[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                            2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                            2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    memcpy(r, turn, sizeof turn);
    return QPC_OK;
}
static qpc_status read_obstacle(const qpc_value *map, qpc_checker_body *b, draft *d, qpc_check_obstacle *o, qpc_error *err) {
    static const int32_t none[3];
    const qpc_value *shape = qpc_map_get(map, "shape"), *axis = qpc_map_get(shape, "axis");
    char kind[16], along[4];
    double at[3], r[9], scale, size[3];
    qpc_status status = qpc_read_text(qpc_map_get(shape, "kind"), "kind", kind, sizeof kind, err);
    if (status == QPC_OK && axis != NULL) status = qpc_read_text(axis, "axis", along, sizeof along, err);
    if (status == QPC_OK) status = read_place(map, at, r, &scale, err);
    *o = (qpc_check_obstacle){.shape = kind[0] == 'c' && kind[1] == 'a' ? 'C' : kind[0]};
    o->axis = axis != NULL ? along[0] - 'x' : kind[0] == 'p' ? 1 : 2;
    if (status == QPC_OK) status = number(map, "radius", 0, &o->thickness, err);
    if (status == QPC_OK) status = number(shape, "radius", kind[0] == 's' ? 0.5 : 0.3, &o->radius, err);
    if (status == QPC_OK) status = number(shape, "length", 2, &size[0], err);
    if (status != QPC_OK) return status;
    o->half[o->axis] = 0.5 * size[0];
    static const char *const edges[] = {"width", "height", "depth"};
    for (int i = 0; i < 3 && status == QPC_OK && kind[0] == 'b'; i++) {
        status = number(shape, edges[i], 1, &size[i], err);
        o->half[i] = 0.5 * size[i];
    }
    d->x = malloc(12 * sizeof *d->x); // the frame: origin and three axes
    if (d->x == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "obstacle");
    for (int i = 0; i < 12; i++) d->x[i] = at[i % 3] + (i < 3 ? 0 : r[3 * (i % 3) + i / 3 - 1]);
    b->node_count = 4;
    b->triangles = none; // nothing for the rest of the checker
    b->moves = qpc_map_get(map, "velocity") != NULL || qpc_map_get(map, "angular_velocity") != NULL;
    b->self_exclusion = -1;
    return status;
}
/// Edges of cables (of a single particle itself), triangles of meshes.
static qpc_status list_features(const qpc_checker_body *b, int32_t body, qpc_check_feature_list *ret, qpc_error *err) {
    int32_t size = b->triangles != NULL ? 3 : 2;
    int32_t count = size == 3 ? b->triangle_count : b->node_count > 1 ? b->node_count - 1 : 1;
    *ret = (qpc_check_feature_list){.body = body, .count = count, .size = size, .radius = b->radius};
    ret->nodes = malloc((size_t)size * (size_t)count * sizeof *ret->nodes + 1);
    if (ret->nodes == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "features");
    for (int32_t i = 0; i < size * count; i++) {
        int32_t along = i / 2 + i % 2 < b->node_count ? i / 2 + i % 2 : i / 2;
        ret->nodes[i] = b->first_node + (size == 3 ? b->triangles[i] : along);
    }
    return QPC_OK;
}
/// A rigid sphere or capsule: a particle or an edge as thick as it is large, the first nodes of its frame.
static bool is_round(const qpc_value *map) {
    const qpc_value *shape = qpc_map_get(map, "shape");
    return qpc_str_equal(qpc_map_get(map, "kind"), "rigid") &&
           (qpc_str_equal(qpc_map_get(shape, "kind"), "sphere") || qpc_str_equal(qpc_map_get(shape, "kind"), "capsule"));
}
static qpc_status read_round(const qpc_value *map, qpc_checker_body *b, draft *d, qpc_error *err) {
    const qpc_value *shape = qpc_map_get(map, "shape"), *axis = qpc_map_get(shape, "axis");
    bool capsule = qpc_str_equal(qpc_map_get(shape, "kind"), "capsule");
    char along[4] = "z";
    double at[3], r[9], scale, length;
    qpc_status status = number(shape, "radius", capsule ? 0.3 : 0.5, &b->radius, err);
    if (status == QPC_OK) status = number(shape, "length", 2, &length, err);
    if (status == QPC_OK && axis != NULL) status = qpc_read_text(axis, "axis", along, sizeof along, err);
    if (status == QPC_OK) status = read_place(map, at, r, &scale, err);
    if (status != QPC_OK) return status;
    b->node_count = capsule ? 2 : 1;
    b->moves = true;
    b->self_exclusion = -1;
    d->x = malloc(6 * sizeof *d->x);
    d->rest = malloc(sizeof *d->rest);
    if (d->x == NULL || d->rest == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "shape");
    d->rest[0] = length;
    for (int i = 0; i < 6; i++) d->x[i] = at[i % 3] + (capsule ? (i < 3 ? -0.5 : 0.5) * length * r[3 * (i % 3) + along[0] - 'x'] : 0);
    return QPC_OK;
}
static qpc_status read_solid(const qpc_value *map, qpc_check_mesh_lookup lookup, void *user,
                             qpc_checker_body *b, draft *d, qpc_error *err) {
    char sha256[65];
    qpc_check_mesh mesh;
    qpc_status status = qpc_read_text(qpc_map_get(qpc_map_get(map, "mesh"), "sha256"), "sha256",
                                      sha256, sizeof sha256, err);
    if (status != QPC_OK) return status;
    if (!lookup(user, sha256, &mesh)) return qpc_fail(err, QPC_ERR_NOT_FOUND, "mesh %s", sha256);
    double scale, at[3], r[9];
    if ((status = read_place(map, at, r, &scale, err)) != QPC_OK) return status;
    d->x = malloc(3 * (size_t)mesh.vertex_count * sizeof *d->x + 1);
    if (d->x == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "mesh");
    for (int64_t i = 0; i < mesh.vertex_count; i++) {
        const double *v = mesh.vertices + 3 * i;
        for (int k = 0; k < 3; k++)
            d->x[3 * i + k] =
                at[k] + scale * (r[3 * k] * v[0] + r[3 * k + 1] * v[1] + r[3 * k + 2] * v[2]);
    }
    b->node_count = mesh.vertex_count;
    b->triangles = mesh.triangles;
    b->triangle_count = mesh.triangle_count;
    if (mesh.per == 4) {
        if ((status = skin_of(&mesh, d, &b->triangle_count, err)) != QPC_OK) return status;
        b->triangles = d->skin;
    }
    bool soft = qpc_str_equal(qpc_map_get(map, "kind"), "soft");
    bool rigid = qpc_str_equal(qpc_map_get(map, "kind"), "rigid");
    b->deforms = soft || rigid || qpc_str_equal(qpc_map_get(map, "kind"), "cloth"); // tested against other meshes
    b->moves = b->deforms || qpc_str_equal(qpc_map_get(map, "kind"), "kinematic");
    b->rest = b->deforms ? d->x : NULL; // turning and shifting keep lengths
    return number(map, "self_exclusion", rigid ? HUGE_VAL : -1, &b->self_exclusion, err);
}

qpc_status qpc_check_scene_create(const qpc_value *scene, const int32_t *first_node,
                                  int32_t frame_nodes, const double *start,
                                  qpc_check_mesh_lookup lookup, void *user, qpc_check_scene *ret,
                                  qpc_error *err) {
    const qpc_value *list = qpc_map_get(scene, "bodies");
    if (list == NULL || list->kind != QPC_LIST)
        return qpc_fail(err, QPC_ERR_INVALID, "bodies: wanted a list");
    int32_t count = list->list.count;
    qpc_checker_body *bodies = calloc((size_t)count + 1, sizeof *bodies);
    draft *drafts = calloc((size_t)count + 1, sizeof *drafts);
    qpc_check_scene s = {.frame_nodes = frame_nodes, .node_count = frame_nodes};
    s.obstacles = calloc((size_t)count + 1, sizeof *s.obstacles);
    s.lists = calloc((size_t)count + 1, sizeof *s.lists);
    qpc_status status = bodies && drafts && s.obstacles && s.lists ? QPC_OK : qpc_fail(err, QPC_ERR_MEMORY, "scene");
    for (int32_t i = 0; status == QPC_OK && i < count; i++) {
        const qpc_value *map = &list->list.items[i];
        bool cable = qpc_str_equal(qpc_map_get(map, "kind"), "cable");
        status = number(map, "radius", 0, &bodies[i].radius, err);
        if (status == QPC_OK && cable) status = read_cable(map, &bodies[i], &drafts[i], err);
        bool obstacle = qpc_str_equal(qpc_map_get(map, "kind"), "obstacle"), round = is_round(map);
        if (status == QPC_OK && round) status = read_round(map, &bodies[i], &drafts[i], err);
        if (status == QPC_OK && obstacle) {
            s.obstacles[s.obstacle_count] = (qpc_check_obstacle){0};
            status = read_obstacle(map, &bodies[i], &drafts[i], &s.obstacles[s.obstacle_count++], err);
        }
        if (status == QPC_OK && !cable && !obstacle && !round)
            status = read_solid(map, lookup, user, &bodies[i], &drafts[i], err);
        if (status != QPC_OK) break;
        bodies[i].rest_length = drafts[i].rest;
        bodies[i].first_node = first_node[i];
        if (first_node[i] >= 0 && first_node[i] > frame_nodes - bodies[i].node_count)
            status = qpc_fail(err, QPC_ERR_INVALID, "body %d does not fit in a frame of %d nodes", i,
                              frame_nodes);
        if (first_node[i] < 0) {
            bodies[i].first_node = s.node_count;
            s.node_count += bodies[i].node_count;
        }
        if (obstacle) {
            s.obstacles[s.obstacle_count - 1].body = i;
            s.obstacles[s.obstacle_count - 1].first_node = bodies[i].first_node;
        } else if (cable || round || bodies[i].deforms)
            status = status == QPC_OK ? list_features(&bodies[i], i, &s.lists[s.list_count++], err) : status;
    }
    if (status == QPC_OK) {
        s.x0 = calloc(3 * (size_t)s.node_count + 1, sizeof *s.x0);
        s.x1 = calloc(3 * (size_t)s.node_count + 1, sizeof *s.x1);
        if (!s.x0 || !s.x1) status = qpc_fail(err, QPC_ERR_MEMORY, "scene");
    }
    if (status == QPC_OK) {
        for (int32_t i = 0; i < count; i++)
            memcpy(s.x1 + 3 * (int64_t)bodies[i].first_node, drafts[i].x,
                   3 * (size_t)bodies[i].node_count * sizeof *s.x1);
        if (start != NULL) memcpy(s.x1, start, 3 * (size_t)frame_nodes * sizeof *s.x1);
        memcpy(s.x0, s.x1, 3 * (size_t)s.node_count * sizeof *s.x0);
        status = qpc_checker_create(bodies, count, s.x0, s.node_count, &s.checker, err);
    }
    for (int32_t i = 0; drafts != NULL && i < count; i++) {
        free(drafts[i].x);
        free(drafts[i].rest);
        free(drafts[i].skin);
    }
    free(drafts);
    free(bodies);
    if (status == QPC_OK) *ret = s;
    else qpc_check_scene_fini(&s);
    return status;
}
void qpc_check_scene_fini(qpc_check_scene *s) {
    qpc_checker_destroy(s->checker);
    free(s->x0);
    free(s->x1);
    for (int32_t i = 0; i < s->list_count; i++) free(s->lists[i].nodes);
    free(s->lists);
    free(s->obstacles);
    *s = (qpc_check_scene){0};
}

void qpc_check_scene_remove(qpc_check_scene *s, int32_t body) {
    int32_t obstacles = 0, lists = 0;
    qpc_checker_remove(s->checker, body);
    for (int32_t i = 0; i < s->obstacle_count; i++)
        if (s->obstacles[i].body != body) s->obstacles[obstacles++] = s->obstacles[i];
    for (int32_t i = 0; i < s->list_count; i++) {
        if (s->lists[i].body == body) free(s->lists[i].nodes);
        else s->lists[lists++] = s->lists[i];
    }
    s->obstacle_count = obstacles;
    s->list_count = lists;
}

bool qpc_check_scene_next(qpc_check_scene *s, const double *frame, qpc_check_report *report) {
    size_t size = 3 * (size_t)s->frame_nodes * sizeof *frame;
    memcpy(s->x1, frame, size);
    bool clean = true;
    if (!qpc_check_obstacles(s->obstacles, s->obstacle_count, s->lists, s->list_count, s->started ? s->x0 : s->x1, s->x1, report)) clean = false;
    if (s->started) {
        clean = qpc_checker_step(s->checker, s->x0, s->x1, report) && clean;
    } else {
        int64_t before = report->intersections + report->undecided;
        qpc_checker_state(s->checker, s->x1, report);
        clean = report->intersections + report->undecided == before && clean;
    }
    s->started = true;
    memcpy(s->x0, frame, size);
    return clean;
}

void qpc_check_report_print(const char *name, const qpc_check_report *r) {
    printf("%s: %lld motions, %lld states: crossings %lld, intersections %lld, undecided %lld, "
           "penetration %.4f, least distance %.4f of the thickness (%lld pairs, %lld queries, %lld "
           "exact)\n",
           name, (long long)r->motions, (long long)r->states, (long long)r->crossings,
           (long long)r->intersections, (long long)r->undecided, r->worst_penetration,
           r->least_ratio, (long long)r->pairs, (long long)r->queries, (long long)r->exact_queries);
    static const char *const kinds[] = {"intersection", "crossing", "undecided"};
    for (int32_t i = 0; i < r->finding_count; i++) {
        const qpc_finding *f = &r->finding[i];
        printf("  %s at state %lld: body %d edge %d with body %d feature %d, time %.6f\n",
               kinds[f->kind], (long long)f->state, f->body[0], f->feature[0], f->body[1],
               f->feature[1], f->time);
    }
}
