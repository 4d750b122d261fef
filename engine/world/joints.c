/// Joints in a step: their rows, the work that goes through them, their forces (docs/theory-joints.md).
///
/// Runs on the worker in the world; no memory is taken but for rows.
#include "engine/world/joints.h"

static const double OPEN = 1e-5; // of the smallest separation: gaps that the Newton iteration leaves

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
    if (joint->kind == QPC_JOINT_TENDON) return length_at(joint, x) - joint->length;
    int32_t first = k < 3 ? 0 : 2;
    return v3_dot(joint->along[k * joint->count + first], between(joint, first, x));
}

static uint64_t key_of(int32_t joint, int32_t row) { return UINT64_C(6) << 60 | (uint64_t)(uint32_t)joint << 8 | (uint64_t)(uint32_t)row; }

qpc_status qpc_joints_add_rows(qpc_world *w, const qpc_trial *t, const double *end, qpc_error *err) {
    qpc_row_frame frame = qpc_step_frame(w, t->h);
    double most = t->gentle ? 0.0 : w->recovery * t->h;
    for (int32_t i = 0; i < w->joint_count; i++) {
        qpc_joint *joint = &w->joints[i];
        if (w->still[qpc_joints_body(w, i)] != 0) continue;
        bool tendon = joint->kind == QPC_JOINT_TENDON;
        for (int32_t k = 0; k < joint->rows; k++) {
            qpc_vec3 *a = joint->along + k * joint->count;
            if (tendon)
                tendon_gradient(joint, w->x, end, a);
            else {
                for (int32_t p = 0; p < joint->count; p++) a[p] = v3(0.0, 0.0, 0.0);
                int32_t first = k < 3 ? 0 : 2;
                a[first] = direction(joint, k, end);
                a[first + 1] = v3_neg(a[first]);
            }
            double gap = value_at(joint, k, w->x), closed = fmin(gap, most);
            if (!tendon || joint->equal) closed = fmax(closed, -most);
            joint->aim[k] = gap - closed;
            qpc_status st = qpc_rows_add_joint(&w->rows, &frame, joint->count, joint->point, a, closed, !tendon || joint->equal,
                                               key_of(i, k), i, err);
            if (st != QPC_OK) return st;
        }
    }
    return QPC_OK;
}

bool qpc_joints_open(const qpc_world *w, const qpc_trial *t) {
    if (t->relaxed) return false; // its rows mean something else by now
    for (int32_t i = 0; i < w->joint_count; i++) {
        const qpc_joint *joint = &w->joints[i];
        for (int32_t k = 0; k < joint->rows && w->still[qpc_joints_body(w, i)] == 0; k++) {
            double left = value_at(joint, k, w->x1) - joint->aim[k];
            if (joint->kind != QPC_JOINT_TENDON || joint->equal) left = fabs(left);
            if (left > OPEN * w->min_separation) return true;
        }
    }
    return false;
}

static int32_t row_of(const qpc_world *w, int32_t row) { return (int32_t)(w->rows.key[row] & 0xff); }

void qpc_joints_add_work(qpc_world *w, qpc_trial *t, int32_t row) {
    int32_t source = w->rows.source[row];
    const qpc_joint *joint = &w->joints[source];
    const qpc_vec3 *a = joint->along + row_of(w, row) * joint->count;
    double lambda = w->rows.lambda[row], opening = 0.0;
    for (int32_t p = 0; p < joint->count; p++)
        for (int32_t k = 0; k < 4 && joint->point[p].node[k] >= 0; k++) {
            int32_t node = joint->point[p].node[k];
            double weight = joint->point[p].weight[k], part = weight * v3_dot(a[p], qpc_step_node_velocity(w, t->h, node));
            opening += part;
            if (node >= w->live_count) qpc_trial_credit(t, qpc_joints_body(w, source), lambda * part); // what is driven pulls
            int32_t pin = node < w->free_count ? w->pin_of[node] : -1;
            if (pin >= 0) v3_store(w->reactions + 3 * pin, v3_madd(v3_load(w->reactions + 3 * pin), lambda * weight, a[p]));
        }
    if (!(lambda * opening < 0.0)) return;
    t->work_pushed -= lambda * opening;
    t->fastest_push = fmax(t->fastest_push, fabs(opening));
}

int32_t qpc_joints_rows(const qpc_world *w) {
    int32_t count = 0;
    for (int32_t i = 0; i < w->joint_count; i++)
        if (w->still[qpc_joints_body(w, i)] == 0) count += w->joints[i].rows;
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
    for (int32_t r = 0; r < w->rows.m; r++) {
        if (w->rows.kind[r] != QPC_ROW_JOINT) continue;
        const qpc_joint *joint = &w->joints[w->rows.source[r]];
        qpc_joint_info *out = &w->joint_info[w->rows.source[r]];
        int32_t k = row_of(w, r), at = k < 3 ? 0 : 2;
        qpc_vec3 force = v3_scale(-w->rows.lambda[r] / h, joint->along[k * joint->count + at]);
        qpc_vec3 arm = v3_sub(qpc_joint_place(joint, at, w->x), qpc_joint_place(joint, 0, w->x));
        v3_store(out->force, v3_add(v3_load(out->force), force));
        v3_store(out->torque, v3_add(v3_load(out->torque), v3_cross(arm, force)));
        out->tension = joint->kind == QPC_JOINT_TENDON ? w->rows.lambda[r] / h : v3_norm(v3_load(out->force));
    }
}

const qpc_joint_info *qpc_world_joints(const qpc_world *w, int32_t *ret_count) {
    *ret_count = w->joint_count;
    return w->joint_info;
}
