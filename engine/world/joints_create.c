/// Making the joints of a world from a scene: points, what is refused. On the thread that is in the world.
#include "engine/world/joints.h"

#include "base/mem.h"

#include <stdio.h>

static const double LEAST = 0.5;  // of the length of a tendon's part at the start: it becomes no shorter, nor than a separation
static const double APART = 1e-9; // of the size of what is held together: points that far apart are one

/// Vertices v that span the body: each the farthest from what those before it span. Their number: 3 if it is flat.
static int32_t spanning(const qpc_body *body, const double *x, int32_t v[4]) {
    const double *first = x + 3 * (int64_t)body->first_node;
    qpc_vec3 o = v3_load(first), e = v3(0.0, 0.0, 0.0), n = e;
    double size = 0.0;
    v[0] = 0;
    for (int32_t found = 1; found < 4; found++) {
        double most = -1.0;
        for (int32_t i = 0; i < body->node_count; i++) {
            qpc_vec3 d = v3_sub(v3_load(first + 3 * (int64_t)i), o);
            if (found == 2) d = v3_sub(d, v3_scale(v3_dot(d, e), e));
            double far = found == 3 ? fabs(v3_dot(d, n)) : v3_norm(d);
            if (!(far > most)) continue;
            most = far;
            v[found] = i;
        }
        if (found == 1) size = most;
        if (!(most > 1e-6 * size) || !(most > 0.0)) return found;
        qpc_vec3 d = v3_sub(v3_load(first + 3 * (int64_t)v[found]), o);
        if (found == 1) e = v3_scale(1.0 / most, d);
        if (found == 2) {
            n = v3_cross(e, d);
            n = v3_scale(1.0 / v3_norm(n), n);
        }
    }
    return 4;
}

/// Weights of the vertices of a body that make a point (TJ3); QPC_ERR_INVALID for one off the plane of a flat body.
static qpc_status weigh(const qpc_body *body, const double *x, qpc_vec3 at, const char *where, qpc_row_point *ret, qpc_error *err) {
    int32_t v[4], count = spanning(body, x, v);
    qpc_vec3 p[4];
    for (int32_t k = 0; k < count; k++) p[k] = v3_load(x + 3 * (int64_t)(body->first_node + v[k]));
    if (count < 3) return qpc_fail_at(err, QPC_ERR_INVALID, where, "the mesh of that body has no extent");
    qpc_vec3 a = v3_sub(p[1], p[0]), b = v3_sub(p[2], p[0]), c = v3_cross(a, b), d = v3_sub(at, p[0]);
    if (count == 4) c = v3_sub(p[3], p[0]);
    double volume = v3_dot(a, v3_cross(b, c));
    double w[4] = {0.0, v3_dot(d, v3_cross(b, c)) / volume, v3_dot(d, v3_cross(c, a)) / volume, v3_dot(d, v3_cross(a, b)) / volume};
    if (count == 3 && fabs(w[3]) * v3_norm(c) > 1e-6 * v3_norm(a))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "the mesh of that body is flat, and the point is %g m off its plane", fabs(w[3]) * v3_norm(c));
    w[0] = 1.0 - w[1] - w[2] - (count == 4 ? w[3] : 0.0);
    *ret = (qpc_row_point){.node = {-1, -1, -1, -1}};
    for (int32_t k = 0; k < count; k++) {
        ret->node[k] = body->first_node + v[k];
        ret->weight[k] = w[k];
    }
    return QPC_OK;
}

/// A point of a body at `at`, or a node of it.
static qpc_status make_point(const qpc_world *w, qpc_joint *joint, int32_t p, int32_t body, int32_t node, qpc_vec3 at,
                             const char *where, qpc_error *err) {
    const qpc_body *of = body >= 0 ? &w->bodies[body] : NULL;
    joint->point[p] = (qpc_row_point){.node = {-1, -1, -1, -1}};
    joint->body[p] = -1;
    joint->named[p] = body;
    joint->place[p] = node >= 0 ? v3_load(w->x + 3 * (int64_t)(of->first_node + node)) : at;
    if (of == NULL || of->motion == QPC_STATIC) return QPC_OK;
    joint->body[p] = body;
    if (node < 0) return weigh(of, w->x, at, where, &joint->point[p], err);
    joint->point[p].node[0] = of->first_node + node;
    joint->point[p].weight[0] = 1.0;
    return QPC_OK;
}

static bool is_free(const qpc_world *w, const qpc_joint *joint, int32_t p) {
    return joint->body[p] >= 0 && (w->row_dof[joint->point[p].node[0]] >= 0 || w->still[joint->body[p]] != 0);
}

/// What is held together: two points of different things, at one place, one of which can move.
static qpc_status check_pair(const qpc_world *w, const qpc_joint *joint, const char *where, qpc_error *err) {
    const qpc_row_point *a = &joint->point[0], *b = &joint->point[1];
    if (a->node[0] >= 0 && joint->body[0] == joint->body[1]) {
        if (w->bodies[joint->body[0]].motion != QPC_DYNAMIC)
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "both are points of body %d, which holds them together already", joint->body[0]);
        if (a->node[0] == b->node[0])
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "node %d of body %d is held to itself",
                               a->node[0] - w->bodies[joint->body[0]].first_node, joint->body[0]);
    }
    qpc_vec3 at = qpc_joint_place(joint, 0, w->x), other = qpc_joint_place(joint, 1, w->x);
    double apart = v3_norm(v3_sub(at, other)), size = fmax(w->min_separation, v3_norm(at));
    if (apart > APART * size) return qpc_fail_at(err, QPC_ERR_INVALID, where, "the two points are %g m apart; they are to be one from the start", apart);
    return QPC_OK;
}

static qpc_status check_tendon(const qpc_world *w, qpc_joint *joint, const char *where, qpc_error *err) {
    double length = 0.0;
    for (int32_t p = 0; p + 1 < joint->count; p++) {
        double part = v3_norm(v3_sub(qpc_joint_place(joint, p, w->x), qpc_joint_place(joint, p + 1, w->x)));
        if (!(part > 0.0)) return qpc_fail_at(err, QPC_ERR_INVALID, where, "points %d and %d are at one place", p, p + 1);
        length += part;
        // Both points of one rigid body, or of what is driven: the part is no shorter by what the tendon does.
        bool one = joint->body[p] == joint->body[p + 1] && joint->body[p] >= 0 && w->bodies[joint->body[p]].rigid >= 0;
        if (!one && (is_free(w, joint, p) || is_free(w, joint, p + 1))) joint->least[p] = fmin(w->min_separation, LEAST * part);
    }
    if (joint->length == 0.0) joint->length = length;
    if (length > joint->length * (1.0 + APART) || (joint->equal && length < joint->length * (1.0 - APART)))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "the way over the points is %.9g m, and length %.9g m", length, joint->length);
    return QPC_OK;
}

/// Where the second point of a hinge is: as far from the first as its bodies reach.
static double lever(const qpc_world *w, const qpc_joint *joint) {
    double reach = 0.0;
    for (int32_t p = 0; p < 2; p++)
        if (joint->body[p] >= 0 && w->bodies[joint->body[p]].rigid >= 0) reach = fmax(reach, w->rigids[w->bodies[joint->body[p]].rigid].reach);
    return reach;
}

qpc_status qpc_joint_reserve(qpc_joint *joint, int32_t count, int32_t rows, qpc_error *err) {
    size_t n = (size_t)count;
    joint->rows = rows;
    joint->count = count;
    joint->point = qpc_calloc(n, sizeof *joint->point);
    joint->body = qpc_calloc(n, sizeof *joint->body);
    joint->named = qpc_calloc(n, sizeof *joint->named);
    joint->place = qpc_calloc(n, sizeof *joint->place);
    joint->along = qpc_calloc(n * (size_t)rows + 1, sizeof *joint->along);
    joint->aim = qpc_calloc((size_t)rows + 1, sizeof *joint->aim);
    joint->least = qpc_calloc(n, sizeof *joint->least);
    if (joint->point == NULL || joint->body == NULL || joint->named == NULL || joint->place == NULL || joint->along == NULL || joint->aim == NULL || joint->least == NULL)
        return qpc_fail(err, QPC_ERR_MEMORY, "no memory for a joint of %d points", count);
    return QPC_OK;
}

qpc_status qpc_joint_make_points(const qpc_world *w, qpc_joint *joint, const qpc_point_def *points, int32_t count, const char *where,
                                 qpc_error *err) {
    bool any = false;
    for (int32_t order = 0; order < count; order++) {
        // {body} alone is where the other point is, whichever comes first.
        int32_t p = count == 2 && !points[0].placed && points[0].node < 0 ? 1 - order : order;
        const qpc_point_def *point = &points[p];
        if (order == 0 && !point->placed && point->node < 0)
            return qpc_fail_at(err, QPC_ERR_INVALID, where, "one of its points needs a node or a place (at)");
        qpc_vec3 at = point->placed || order == 0 ? point->at : qpc_joint_place(joint, count == 2 ? 1 - p : 0, w->x);
        qpc_status st = make_point(w, joint, p, point->body, point->node, at, where, err);
        if (st != QPC_OK) return st;
        any = any || is_free(w, joint, p);
    }
    if (!any) return qpc_fail_at(err, QPC_ERR_INVALID, where, "nothing that it holds can move: fixed nodes, kinematic and static bodies");
    return QPC_OK;
}

static qpc_status make(qpc_world *w, const qpc_scene_def *def, int32_t index, qpc_error *err) {
    const qpc_joint_def *from = &def->joints.data[index];
    qpc_joint *joint = &w->joints[index];
    char where[QPC_PATH_SIZE];
    (void)snprintf(where, sizeof where, "constraints[%d]", from->constraint);
    joint->kind = from->kind;
    joint->length = from->length;
    joint->equal = from->equal;
    w->joint_info[index] = (qpc_joint_info){.kind = from->kind, .constraint = from->constraint};
    int32_t rows = from->kind == QPC_JOINT_TENDON ? from->count : from->kind == QPC_JOINT_HINGE ? QPC_JOINT_MOST_ROWS : 3;
    const qpc_point_def *points = def->points.data + from->first;
    qpc_status st = qpc_joint_reserve(joint, from->count + (from->kind == QPC_JOINT_HINGE ? 2 : 0), rows, err);
    if (st == QPC_OK) st = qpc_joint_make_points(w, joint, points, from->count, where, err);
    for (int32_t p = 2; p < 4 && from->kind == QPC_JOINT_HINGE && st == QPC_OK; p++) {
        qpc_vec3 at = v3_madd(points[0].at, lever(w, joint), from->axis);
        st = make_point(w, joint, p, points[p - 2].body, -1, at, where, err);
    }
    if (st != QPC_OK) return st;
    return from->kind == QPC_JOINT_TENDON ? check_tendon(w, joint, where, err) : check_pair(w, joint, where, err);
}

qpc_status qpc_joints_make(qpc_world *w, const qpc_scene_def *def, qpc_error *err) {
    w->joints = qpc_calloc((size_t)def->joints.count + 1, sizeof *w->joints);
    w->joint_info = qpc_calloc((size_t)def->joints.count + 1, sizeof *w->joint_info);
    if (w->joints == NULL || w->joint_info == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for %d joints", def->joints.count);
    qpc_status st = QPC_OK;
    for (int32_t i = 0; i < def->joints.count && st == QPC_OK; i++) {
        w->joint_count++;
        st = make(w, def, i, err);
    }
    return st;
}

void qpc_joint_fini(qpc_joint *joint) {
    qpc_free(joint->point);
    qpc_free(joint->body);
    qpc_free(joint->named);
    qpc_free(joint->place);
    qpc_free(joint->along);
    qpc_free(joint->aim);
    qpc_free(joint->least);
}

void qpc_joints_fini(qpc_world *w) {
    for (int32_t i = 0; i < w->joint_count; i++) qpc_joint_fini(&w->joints[i]);
    qpc_free(w->joints);
    qpc_free(w->joint_info);
}

int32_t qpc_joints_body(const qpc_world *w, int32_t joint) {
    const qpc_joint *of = &w->joints[joint];
    int32_t p = 0;
    while (!is_free(w, of, p)) p++; // there is one
    return of->body[p];
}

bool qpc_joints_join(const qpc_world *w, int32_t body, int32_t other) {
    for (int32_t i = 0; i < w->joint_count; i++) {
        const qpc_joint *joint = &w->joints[i];
        bool one = false, two = false;
        for (int32_t p = 0; p < joint->count; p++) {
            one = one || joint->body[p] == body;
            two = two || joint->body[p] == other;
        }
        if (one && two) return true;
    }
    return false;
}

void qpc_joints_group(const qpc_world *w, int32_t *group) {
    for (int32_t i = 0; i < w->joint_count; i++) {
        const qpc_joint *joint = &w->joints[i];
        int32_t first = qpc_joints_body(w, i);
        for (int32_t p = 0; p < joint->count; p++)
            if (joint->body[p] >= 0) qpc_group_join(group, first, joint->body[p]);
    }
}
