/// Joints in a step: their rows, the work that goes through them, their forces (docs/theory-joints.md).
///
/// Runs on the worker in the world; no memory is taken but for rows.
#include "engine/world/joints.h"

#include <string.h>

static const double OPEN = 1e-5;    // of the smallest separation: gaps that the Newton iteration leaves
static const double APART = 1e-2;   // of that: gaps that a motion among contacts may leave, or one that is not corrected
static const double NEAR_END = 2.0; // of the least length of a tendon's part: below that it has a row
static const double STIFF = 0.2;    // of a body's least moment of inertia: curvature that Newton goes without

qpc_vec3 qpc_joint_place(const qpc_joint *joint, int32_t point, const double *x) {
    const qpc_row_point *p = &joint->point[point];
    if (p->node[0] < 0) return joint->place[point];
    qpc_vec3 sum = v3(0.0, 0.0, 0.0);
    for (int32_t k = 0; k < 4 && p->node[k] >= 0; k++) sum = v3_madd(sum, p->weight[k], v3_load(x + 3 * (int64_t)p->node[k]));
    return sum;
}

static qpc_vec3 between(const qpc_joint *joint, int32_t point, const double *x) {
    return v3_sub(qpc_joint_place(joint, point, x), qpc_joint_place(joint, point + 1, x));
}

static double length_at(const qpc_joint *joint, const double *x) {
    double sum = 0.0;
    for (int32_t p = 0; p + 1 < joint->count; p++) sum += v3_norm(between(joint, p, x));
    return sum;
}

/// Gradient of the length over the points such that its change from x to end is exactly sum a.(end - x) (TJ4).
static void tendon_gradient(const qpc_joint *joint, const double *x, const double *end, qpc_vec3 *a) {
    for (int32_t p = 0; p < joint->count; p++) a[p] = v3(0.0, 0.0, 0.0);
    for (int32_t p = 0; p + 1 < joint->count; p++) {
        qpc_vec3 from = between(joint, p, x), to = between(joint, p, end);
        double lengths = v3_norm(from) + v3_norm(to);
        if (!(lengths > 0.0)) continue;
        qpc_vec3 n = v3_scale(1.0 / lengths, v3_add(from, to));
        a[p] = v3_add(a[p], n);
        a[p + 1] = v3_sub(a[p + 1], n);
    }
}

/// Direction k of those that two points are one in: the axes, or across a hinge.
static qpc_vec3 direction(const qpc_joint *joint, int32_t k, const double *x) {
    static const qpc_vec3 axes[3] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};
    if (k < 3) return axes[k];
    qpc_vec3 axis = v3_sub(qpc_joint_place(joint, 2, x), qpc_joint_place(joint, 0, x));
    int least = fabs(axis.x) < fabs(axis.y) ? (fabs(axis.x) < fabs(axis.z) ? 0 : 2) : (fabs(axis.y) < fabs(axis.z) ? 1 : 2);
    qpc_vec3 across = v3_cross(axis, axes[least]);
    if (k == 4) across = v3_cross(axis, across);
    return v3_scale(1.0 / v3_norm(across), across);
}

/// Value of the function of row k at x, m, in the direction that the row was made in last.
static double value_at(const qpc_joint *joint, int32_t k, const double *x) {
    if (joint->kind == QPC_JOINT_TENDON && k == 0) return length_at(joint, x) - joint->length;
    if (joint->kind == QPC_JOINT_TENDON) return joint->least[k - 1] + v3_dot(joint->along[k * joint->count + k - 1], between(joint, k - 1, x));
    int32_t first = k < 3 ? 0 : 2;
    return v3_dot(joint->along[k * joint->count + first], between(joint, first, x));
}

uint64_t qpc_joints_key(int32_t joint, int32_t row) { return UINT64_C(6) << 60 | (uint64_t)(uint32_t)joint << 8 | (uint64_t)(uint32_t)row; }

/// Rows of a tendon after the first: that a part keeps a length.
static bool is_stop(const qpc_joint *joint, int32_t k) { return joint->kind == QPC_JOINT_TENDON && k > 0; }

static bool is_equality(const qpc_joint *joint) { return joint->kind != QPC_JOINT_TENDON || joint->equal; }

/// That part of a tendon is at its least length, or would be at the end, and the tendon is not slack.
static bool nears_stop(const qpc_world *w, const qpc_joint *joint, int32_t part, const double *end, qpc_vec3 *ret_n) {
    double near = NEAR_END * joint->least[part];
    qpc_vec3 d = between(joint, part, w->x);
    double length = v3_norm(d);
    if (!(near > 0.0) || !(length > 0.0)) return false;
    *ret_n = v3_scale(1.0 / length, d);
    if (!(fmin(length, v3_dot(*ret_n, between(joint, part, end))) < near)) return false;
    return fmax(length_at(joint, w->x), length_at(joint, end)) > joint->length - near;
}

/// Gradients of row k, of the function itself at the end or between both ends. False: there is no such row now.
static bool make_gradient(const qpc_world *w, const qpc_joint *joint, int32_t k, const double *end, qpc_vec3 *a) {
    if (joint->kind == QPC_JOINT_TENDON && k == 0) {
        tendon_gradient(joint, w->x, end, a);
        return true;
    }
    for (int32_t p = 0; p < joint->count; p++) a[p] = v3(0.0, 0.0, 0.0);
    if (joint->kind != QPC_JOINT_TENDON) {
        int32_t first = k < 3 ? 0 : 2;
        a[first] = direction(joint, k, end);
        a[first + 1] = v3_neg(a[first]);
        return true;
    }
    qpc_vec3 n;
    if (!nears_stop(w, joint, k - 1, end, &n)) return false;
    a[k - 1] = v3_neg(n);
    a[k] = n;
    return true;
}

qpc_status qpc_joints_add_rows(qpc_world *w, const qpc_trial *t, const double *end, qpc_error *err) {
    qpc_row_frame frame = qpc_step_frame(w, t->h);
    double most = t->gentle ? 0.0 : w->recovery * t->h;
    qpc_vec3 more[QPC_ROW_POINTS];
    for (int32_t i = 0; i < w->joint_count; i++) {
        qpc_joint *joint = &w->joints[i];
        if (w->still[qpc_joints_body(w, i)] != 0) continue;
        for (int32_t k = 0; k < joint->rows; k++) {
            qpc_vec3 *a = joint->along + k * joint->count;
            bool equality = is_equality(joint) && !is_stop(joint, k);
            joint->aim[k] = HUGE_VAL;
            if (!make_gradient(w, joint, k, end, a)) continue;
            double gap = value_at(joint, k, w->x), closed = fmin(gap, most);
            if (equality) closed = fmax(closed, -most);
            joint->aim[k] = gap - closed;
            closed -= t->h * qpc_joint_find_moments(w, joint, a, t->h, more);
            qpc_status st = qpc_rows_add_joint(&w->rows, &frame, joint->count, joint->point, a, more, closed, equality, qpc_joints_key(i, k), i, err);
            if (st != QPC_OK) return st;
        }
    }
    return QPC_OK;
}

/// The largest gap of rows beyond what they aim at, m; *ret_joint: whose.
static double most_left(const qpc_world *w, int32_t *ret_joint) {
    double most = 0.0;
    *ret_joint = -1;
    for (int32_t i = 0; i < w->joint_count; i++) {
        const qpc_joint *joint = &w->joints[i];
        for (int32_t k = 0; k < joint->rows && w->still[qpc_joints_body(w, i)] == 0; k++) {
            double left = value_at(joint, k, w->x1) - joint->aim[k];
            if (is_equality(joint) && !is_stop(joint, k)) left = fabs(left);
            if (!(left > most)) continue;
            most = left;
            *ret_joint = i;
        }
    }
    return most;
}

bool qpc_joints_open(const qpc_world *w, const qpc_trial *t) {
    int32_t joint;
    // Relaxed rows mean something else by now.
    return !t->relaxed && w->joint_count > 0 && most_left(w, &joint) > OPEN * w->min_separation;
}

double qpc_joints_apart(const qpc_world *w, const qpc_trial *t, int32_t *ret_joint) {
    if (t->relaxed || w->joint_count == 0) return 0.0;
    double left = most_left(w, ret_joint);
    bool alone = t->newton > 0 && qpc_is_implicit(w) && w->rows.m == qpc_joints_rows(w); // rows that were made anew
    return left > (alone ? OPEN : APART) * w->min_separation ? left : 0.0;
}

static int32_t row_of(const qpc_world *w, int32_t row) { return (int32_t)(w->rows.key[row] & 0xff); }

/// The part of a symmetric matrix that is positive semidefinite.
static qpc_mat3 positive_part(const qpc_mat3 *s) {
    double moment[3], axes[4];
    qpc_principal_axes(s, moment, axes);
    const qpc_vec3 q = v3(axes[1], axes[2], axes[3]), unit[3] = {{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}};
    qpc_mat3 sum = {{0.0}};
    for (int32_t i = 0; i < 3; i++) {
        if (!(moment[i] > 0.0)) continue;
        qpc_vec3 t = v3_scale(2.0, v3_cross(q, unit[i])), e = v3_add(v3_madd(unit[i], axes[0], t), v3_cross(q, t));
        const double c[3] = {e.x, e.y, e.z};
        for (int32_t a = 0; a < 9; a++) sum.m[a] += moment[i] * c[a / 3] * c[a % 3];
    }
    return sum;
}

/// Adds h/2 ((r g' + g r')/2 - (r.g) I).
static void add_curvature(qpc_mat3 *S, double h, qpc_vec3 r, qpc_vec3 g) {
    const double a[3] = {r.x, r.y, r.z}, b[3] = {g.x, g.y, g.z};
    double along = v3_dot(r, g);
    for (int32_t k = 0; k < 9; k++)
        S->m[k] += 0.5 * h * (0.5 * (a[k / 3] * b[k % 3] + b[k / 3] * a[k % 3]) - (k % 4 == 0 ? along : 0.0));
}

/// Of the rows of the last QP, by rigid body.
static void sum_curvature(const qpc_world *w, double h, qpc_mat3 *S) {
    for (int32_t row = 0; row < w->rows.m; row++) {
        if (w->rows.kind[row] != QPC_ROW_JOINT) continue;
        const qpc_joint *joint = &w->joints[w->rows.source[row]];
        const qpc_vec3 *along = joint->along + row_of(w, row) * joint->count;
        for (int32_t p = 0; p < joint->count; p++) {
            int32_t rigid = joint->body[p] >= 0 ? w->bodies[joint->body[p]].rigid : -1;
            if (rigid < 0) continue;
            qpc_vec3 arm = v3_sub(qpc_joint_place(joint, p, w->x1), w->pose1[rigid].x);
            add_curvature(&S[rigid], h, arm, v3_scale(w->rows.lambda[row], along[p]));
        }
    }
}

qpc_status qpc_joints_stiffen(qpc_world *w, double h, bool *ret_any, qpc_error *err) {
    *ret_any = false;
    if (w->joint_count == 0 || w->rigid_count == 0) return QPC_OK;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    qpc_mat3 *S = qpc_arena_array(&w->arena, (size_t)w->rigid_count, sizeof *S);
    if (S == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the curvature of %d joints", w->joint_count);
    memset(S, 0, (size_t)w->rigid_count * sizeof *S);
    sum_curvature(w, h, S);
    for (int32_t i = 0; i < w->rigid_count; i++) {
        const qpc_rigid_part *part = &w->rigids[i];
        const double *moment = part->inertia.moment;
        if (w->still[part->body] != 0) continue;
        qpc_mat3 add = positive_part(&S[i]);
        if (!(add.m[0] + add.m[4] + add.m[8] > STIFF * fmin(moment[0], fmin(moment[1], moment[2])))) continue;
        *ret_any = true;
        double *b = w->b + part->dof + 3;
        for (int32_t a = 0; a < 3; a++)
            for (int32_t c = 0; c < 3; c++) {
                if (c <= a) *qpc_linsys_entry(&w->sys, part->dof + 3 + a, part->dof + 3 + c) += add.m[3 * a + c];
                b[a] += add.m[3 * a + c] * w->dv[part->dof + 3 + c];
            }
    }
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}

double qpc_joints_driven_work(const qpc_world *w, double h, double *ret_drive) {
    double work = 0.0;
    for (int32_t row = 0; row < w->rows.m; row++) {
        if (w->rows.kind[row] != QPC_ROW_JOINT) continue;
        const qpc_joint *joint = &w->joints[w->rows.source[row]];
        const qpc_vec3 *a = joint->along + row_of(w, row) * joint->count;
        for (int32_t p = 0; p < joint->count; p++)
            for (int32_t k = 0; k < 4 && joint->point[p].node[k] >= w->live_count; k++) {
                qpc_vec3 v = qpc_step_node_velocity(w, h, joint->point[p].node[k]);
                work += w->rows.lambda[row] * joint->point[p].weight[k] * v3_dot(a[p], v);
                *ret_drive = fmax(*ret_drive, v3_norm(v));
            }
    }
    return work;
}

void qpc_joints_add_work(qpc_world *w, qpc_trial *t, int32_t row, double trust) {
    int32_t source = w->rows.source[row];
    const qpc_joint *joint = &w->joints[source];
    const qpc_vec3 *a = joint->along + row_of(w, row) * joint->count;
    double lambda = w->rows.lambda[row], opening = 0.0;
    for (int32_t p = 0; p < joint->count; p++)
        for (int32_t k = 0; k < 4 && joint->point[p].node[k] >= 0; k++) {
            int32_t node = joint->point[p].node[k];
            double weight = joint->point[p].weight[k], part = weight * v3_dot(a[p], qpc_step_node_velocity(w, t->h, node));
            opening += part;
            if (node >= w->live_count) qpc_trial_credit(t, qpc_joints_body(w, source), trust * lambda * part); // what is driven pulls
            int32_t pin = node < w->free_count ? w->pin_of[node] : -1;
            if (pin >= 0) v3_store(w->reactions + 3 * pin, v3_madd(v3_load(w->reactions + 3 * pin), lambda * weight, a[p]));
        }
    if (!(lambda * opening < 0.0)) return;
    t->work_pushed -= lambda * opening;
    t->fastest_push = fmax(t->fastest_push, fabs(opening));
}

int32_t qpc_joints_rows(const qpc_world *w) {
    int32_t count = 0;
    for (int32_t r = 0; r < w->rows.m; r++) count += w->rows.kind[r] == QPC_ROW_JOINT;
    return count;
}

static double gap_of(const qpc_joint *joint, const double *x) {
    if (joint->kind != QPC_JOINT_TENDON) return v3_norm(between(joint, 0, x));
    double past = length_at(joint, x) - joint->length;
    return joint->equal ? fabs(past) : fmax(past, 0.0);
}

void qpc_joints_publish(qpc_world *w, double h) {
    for (int32_t i = 0; i < w->joint_count; i++) {
        const qpc_joint *joint = &w->joints[i];
        qpc_joint_info *out = &w->joint_info[i];
        *out = (qpc_joint_info){.kind = joint->kind, .constraint = out->constraint, .gap = gap_of(joint, w->x)};
        v3_store(out->position, qpc_joint_place(joint, 0, w->x));
        w->report->joint_gap = fmax(w->report->joint_gap, out->gap);
    }
    // It closes as its rows say, but they do not say that it is closed.
    if (w->report->joint_gap > APART * w->min_separation && w->report->outcome == QPC_STEP_OPTIMAL) w->report->outcome = QPC_STEP_RELAXED;
    for (int32_t r = 0; r < w->rows.m; r++) {
        if (w->rows.kind[r] != QPC_ROW_JOINT) continue;
        const qpc_joint *joint = &w->joints[w->rows.source[r]];
        qpc_joint_info *out = &w->joint_info[w->rows.source[r]];
        int32_t k = row_of(w, r), at = k < 3 || joint->kind == QPC_JOINT_TENDON ? 0 : 2;
        qpc_vec3 force = v3_scale(-w->rows.lambda[r] / h, joint->along[k * joint->count + at]);
        qpc_vec3 arm = v3_sub(qpc_joint_place(joint, at, w->x), qpc_joint_place(joint, 0, w->x));
        v3_store(out->force, v3_add(v3_load(out->force), force));
        v3_store(out->torque, v3_add(v3_load(out->torque), v3_cross(arm, force)));
        if (joint->kind != QPC_JOINT_TENDON) out->tension = v3_norm(v3_load(out->force));
        else if (k == 0) out->tension = w->rows.lambda[r] / h;
    }
}

const qpc_joint_info *qpc_world_joints(const qpc_world *w, int32_t *ret_count) {
    *ret_count = w->joint_count;
    return w->joint_info;
}
