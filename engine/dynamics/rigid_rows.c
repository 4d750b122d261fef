/// Rows with lever arms; see rigid_rows.h.
#include "engine/dynamics/rigid_rows.h"

#include <string.h>

typedef struct term { // what falls to one particle (3 unknowns) or one body (6)
    int32_t dof, size;
    double value[6];
} term;

static qpc_status check_node(const qpc_rigid_frame *frame, int32_t node, int32_t *ret_body,
                             qpc_error *err) {
    if (node < 0 || node >= frame->node_count)
        return qpc_fail(err, QPC_ERR_INVALID, "a row uses node %d; there are %d nodes", node,
                        frame->node_count);
    int32_t body = frame->body != NULL ? frame->body[node] : -1;
    if (body >= frame->body_count)
        return qpc_fail(err, QPC_ERR_INVALID, "node %d belongs to rigid body %d; there are %d",
                        node, body, frame->body_count);
    *ret_body = body;
    return QPC_OK;
}

/// Add to the term that begins at `dof`, or a new one in the order of columns.
static void gather(term *terms, int32_t *count, int32_t dof, int32_t size, const double *value) {
    int32_t at = 0;
    while (at < *count && terms[at].dof < dof) at++;
    if (at == *count || terms[at].dof != dof) {
        memmove(terms + at + 1, terms + at, (size_t)(*count - at) * sizeof *terms);
        terms[at] = (term){.dof = dof, .size = size};
        ++*count;
    }
    for (int32_t i = 0; i < size; i++) terms[at].value[i] += value[i];
}

qpc_status qpc_rigid_row_along(const qpc_rigid_frame *frame, const int32_t node[4],
                               const double weight[4], qpc_vec3 d, qpc_rigid_row *ret,
                               qpc_error *err) {
    term terms[5];
    int32_t count = 0;
    qpc_vec3 rate = v3(0, 0, 0);
    for (int k = 0; k < 4; k++) {
        if (weight[k] == 0.0) continue;
        int32_t body = -1;
        qpc_status status = check_node(frame, node[k], &body, err);
        if (status != QPC_OK) return status;
        double value[6];
        qpc_vec3 r = v3(0, 0, 0);
        if (body >= 0)
            r = v3_sub(v3_load(frame->x + 3 * (int64_t)node[k]),
                       v3_load(frame->centre + 3 * (int64_t)body));
        qpc_rigid_point_row(v3_scale(weight[k], d), r, value);
        int32_t dof = body >= 0 ? frame->body_dof[body] : frame->dof[node[k]];
        if (dof >= 0) gather(terms, &count, dof, body >= 0 ? 6 : 3, value);
        if (frame->v != NULL)
            rate = v3_madd(rate, weight[k], v3_load(frame->v + 3 * (int64_t)node[k]));
    }
    qpc_rigid_row row = {.c = v3_dot(d, rate)};
    for (int32_t t = 0; t < count; t++) {
        for (int32_t i = 0; i < terms[t].size; i++) {
            row.column[row.count] = terms[t].dof + i;
            row.value[row.count++] = terms[t].value[i];
        }
    }
    *ret = row;
    return QPC_OK;
}

qpc_status qpc_rigid_row_contact(const qpc_rigid_frame *frame, const int32_t node[4],
                                 const double weight[4], qpc_vec3 n, double separation,
                                 double gap_floor, qpc_rigid_row *ret, qpc_error *err) {
    qpc_rigid_row row;
    qpc_status status = qpc_rigid_row_along(frame, node, weight, n, &row, err);
    if (status != QPC_OK) return status;
    qpc_vec3 apart = v3(0, 0, 0);
    for (int k = 0; k < 4; k++)
        if (weight[k] != 0.0)
            apart = v3_madd(apart, weight[k], v3_load(frame->x + 3 * (int64_t)node[k]));
    double gap = v3_dot(n, apart) - separation;
    if (gap < gap_floor) gap = gap_floor;
    double opening = row.c;
    if (frame->dv != NULL) opening = 0.0;
    for (int32_t i = 0; i < row.count; i++) {
        if (frame->dv != NULL) opening -= row.value[i] * frame->dv[row.column[i]];
        row.value[i] = -row.value[i];
    }
    row.c = gap / frame->dt + opening;
    if (!isfinite(row.c) || !v3_finite(n))
        return qpc_fail(err, QPC_ERR_NUMERIC, "a contact row of a rigid body is not finite");
    *ret = row;
    return QPC_OK;
}

void qpc_rigid_point_row(qpc_vec3 n, qpc_vec3 r, double ret[6]) {
    v3_store(ret, n);
    v3_store(ret + 3, v3_cross(r, n));
}

double qpc_rigid_mobility(const qpc_rigid_body *body, const double q[4], qpc_vec3 n, qpc_vec3 r) {
    qpc_vec3 turn = qpc_quat_unrotate(q, v3_cross(r, n));
    const double *I = body->moment;
    return v3_norm2(n) / body->mass +
           (turn.x * turn.x / I[0] + turn.y * turn.y / I[1] + turn.z * turn.z / I[2]);
}

void qpc_rigid_mass_block(const qpc_rigid_body *body, const double q[4], double ret[36]) {
    qpc_mat3 tensor = qpc_rigid_tensor(body, q);
    memset(ret, 0, 36 * sizeof *ret);
    for (int i = 0; i < 3; i++) {
        ret[7 * i] = body->mass;
        for (int j = 0; j < 3; j++) ret[6 * (3 + i) + 3 + j] = tensor.m[3 * i + j];
    }
}

qpc_status qpc_rigid_add_mass(const qpc_rigid_body *body, const double q[4], int32_t dof,
                              qpc_linsys *K, qpc_error *err) {
    double block[36], *place[36] = {NULL};
    qpc_rigid_mass_block(body, q, block);
    if (dof < 0 || dof + 6 > K->n)
        return qpc_fail(err, QPC_ERR_INVALID, "a rigid body at unknown %d of %d", dof, K->n);
    for (int32_t i = 0; i < 6; i++) {
        for (int32_t j = 0; j <= i; j++) {
            if (i != j && (i < 3 || j < 3)) continue;
            place[6 * i + j] = K->kind == QPC_LINSYS_BAND && i - j > K->bandwidth
                                   ? NULL
                                   : qpc_linsys_entry(K, dof + i, dof + j);
            if (place[6 * i + j] == NULL)
                return qpc_fail(err, QPC_ERR_INVALID,
                                "the pattern of K has no room for the inertia "
                                "of a rigid body at unknown %d",
                                dof);
        }
    }
    for (int i = 0; i < 36; i++)
        if (place[i] != NULL) *place[i] += block[i];
    return QPC_OK;
}
