/// Newton steps of the exact mode where K has any pattern: see friction_sparse.h.
///
/// phi of the convex problem (TF10) has the Hessian K + H'C H, C = R P' of 3x3 blocks. P' is the identity inside a
/// cone and a a' + part p p' on its boundary, so that H'C H = G'G with rows of G that are lines of H or sums of them: what
/// ssor.h and normal.h take. Worker thread of the world; memory from the arena, a factor's own from base/mem.h.
#include "engine/solver/friction_sparse.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { CG_AT_ONCE = 100 };

/// Room for G: its pattern stays.
static bool make_rows(qpc_sheet *s) {
    const qpc_qp *qp = s->qp;
    int64_t entries = 0, count = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        count += s->blocks[i].size;
        entries += s->blocks[i].size * s->blocks[i].columns;
    }
    s->row_start = qpc_arena_array(s->arena, (size_t)count + 1, sizeof *s->row_start);
    s->row_column = qpc_arena_array(s->arena, (size_t)entries, sizeof *s->row_column);
    s->row_value = qpc_arena_array(s->arena, (size_t)entries, sizeof *s->row_value);
    s->weight = qpc_arena_array(s->arena, (size_t)count, sizeof *s->weight);
    s->list = qpc_arena_array(s->arena, (size_t)count, sizeof *s->list);
    if (s->row_start == NULL || s->row_column == NULL || s->row_value == NULL || s->weight == NULL || s->list == NULL) return false;
    int32_t row = 0, at = 0;
    for (int32_t i = 0; i < qp->m; i++) {
        const qpc_friction_block *b = s->blocks + i;
        for (int32_t a = 0; a < b->size; a++) {
            s->row_start[row++] = at;
            memcpy(s->row_column + at, b->column, (size_t)b->columns * sizeof *s->row_column);
            memset(s->row_value + at, 0, (size_t)b->columns * sizeof *s->row_value);
            at += b->columns;
        }
    }
    s->row_start[row] = at;
    s->rows = (qpc_qp){.n = qp->n, .m = row, .sys = qp->sys};
    s->rows.row_start = s->row_start;
    s->rows.column = s->row_column;
    s->rows.value = s->row_value;
    return true;
}

bool qpc_sheet_allocate_steps(qpc_sheet *s) {
    if (!make_rows(s)) return false;
    if (!s->by_cg) return true;
    const qpc_blocks *K = s->qp->sys->blocks;
    int64_t couplings = qpc_ssor_couplings(s->rows.m, s->row_start, s->row_column);
    double *memory = qpc_arena_array(s->arena, qpc_ssor_size(K, true, couplings), sizeof *memory);
    if (memory == NULL) return false;
    qpc_ssor_init(&s->ssor, K, true, couplings, memory);
    if (!s->late) return true;
    s->late = s->ssor.l == NULL; // no coarse space
    double *more = qpc_arena_array(s->arena, qpc_ssor_late_size(K), sizeof *more);
    s->carried = qpc_arena_array(s->arena, 3 * (size_t)s->qp->m, sizeof *s->carried);
    if (more == NULL || s->carried == NULL) return false;
    qpc_ssor_late_init(&s->ssor, s->rows.m, s->row_start, s->row_column, more);
    return true;
}

void qpc_sheet_fini_steps(qpc_sheet *s) {
    qpc_normal_destroy(s->normal);
    s->normal = NULL;
}

/// Line `row` of G: sum factor_a h_a of the block.
static void list_row(qpc_sheet *s, const qpc_friction_block *b, int32_t row, const double *factor) {
    double *out = s->row_value + s->row_start[row];
    for (int32_t k = 0; k < b->columns; k++) {
        double sum = 0;
        for (int32_t a = 0; a < b->size; a++) sum += factor[a] * b->h[a][k];
        out[k] = sum;
    }
    s->weight[row] = 1;
    s->list[s->listed++] = row;
}

/// The block's rows of G, with its side and z.
static void list_block(qpc_sheet *s, const qpc_friction_block *b, int32_t first, const double *z) {
    double root = sqrt(b->R), factor[3];
    if (b->side == 2) {
        qpc_friction_turn d = qpc_friction_turn_of(b->mu, z);
        double around = root * sqrt(fmax(d.part, 0));
        for (int32_t a = 0; a < 3; a++) factor[a] = root * d.a[a];
        list_row(s, b, first, factor);
        for (int32_t a = 0; a < 3; a++) factor[a] = around * d.p[a];
        if (around > 0) list_row(s, b, first + 1, factor);
        return;
    }
    for (int32_t a = 0; a < b->size; a++) {
        for (int32_t c = 0; c < b->size; c++) factor[c] = a == c ? root : 0;
        list_row(s, b, first + a, factor);
    }
}

/// P at the centre, linearised; z: the centre.
static uint8_t linear_multiplier(qpc_friction_block *b, double *z) {
    double to[3] = {0}, size = qpc_friction_length(b->center[1], b->center[2]);
    memcpy(z, b->center, sizeof b->center);
    memset(b->x, 0, sizeof b->x);
    if (b->kind != QPC_BLOCK_FREE && !(b->center[0] > 0)) return 0;
    for (int32_t a = 0; a < b->size; a++) to[a] = -b->R * (b->y[a] + (a == 0 ? b->slide : 0));
    bool edge = b->kind == QPC_BLOCK_CONTACT && size > (1 - 1e-9) * b->mu * z[0];
    if (edge) {
        qpc_friction_turn d = qpc_friction_turn_of(b->mu, z);
        double along = 0, around = 0;
        for (int32_t a = 0; a < 3; a++) {
            along += d.a[a] * to[a];
            around += d.p[a] * to[a];
        }
        for (int32_t a = 0; a < 3; a++) to[a] = along * d.a[a] + fmax(d.part, 0) * around * d.p[a];
    }
    for (int32_t a = 0; a < b->size; a++) b->x[a] = b->center[a] + to[a];
    return edge ? 2 : 1;
}

/// What is new of the block's x goes into the residual that is followed.
static void push_change(qpc_sheet *s, int32_t i) {
    const qpc_friction_block *b = s->blocks + i;
    double *carried = s->carried + 3 * (int64_t)i, value[QPC_BLOCK_COLUMNS], change[3] = {0};
    for (int32_t a = 0; a < b->size; a++) {
        change[a] = b->x[a] - carried[a];
        carried[a] = b->x[a];
    }
    if (change[0] == 0 && change[1] == 0 && change[2] == 0) return;
    for (int32_t k = 0; k < b->columns; k++) {
        value[k] = 0;
        for (int32_t a = 0; a < b->size; a++) value[k] += change[a] * b->h[a][k];
    }
    qpc_ssor_late_push(&s->ssor, b->columns, b->column, value);
}

/// The gradient of all unknowns, and where it is followed from there on.
static double start_gradient(qpc_sheet *s) {
    if (!s->late) return qpc_ssor_start(&s->ssor, s->grad);
    if (!s->fresh) return qpc_ssor_late_restart(&s->ssor);
    s->fresh = false;
    for (int32_t i = 0; i < s->qp->m; i++) memcpy(s->carried + 3 * (int64_t)i, s->blocks[i].x, sizeof s->blocks[i].x);
    return qpc_ssor_late_start(&s->ssor, s->grad);
}

bool qpc_sheet_linearise(qpc_sheet *s, bool linear) {
    const qpc_qp *qp = s->qp;
    bool follows = s->late && !s->fresh;
    s->listed = 0;
    memset(s->weight, 0, (size_t)s->rows.m * sizeof *s->weight);
    for (int32_t k = 0; k < qp->n && !follows; k++) s->grad[k] = -s->rest[k];
    for (int32_t i = 0, first = 0; i < qp->m; first += s->blocks[i++].size) {
        qpc_friction_block *b = s->blocks + i;
        double z[3];
        b->side = linear ? linear_multiplier(b, z) : qpc_friction_multiplier(b, b->y, z, b->x);
        if (follows) push_change(s, i);
        if (b->side == 0) continue;
        list_block(s, b, first, z);
        if (!follows) qpc_friction_block_push(b, b->x, s->grad);
    }
    if (s->by_cg) {
        if (!qpc_ssor_prepare(&s->ssor, s->listed, s->list, s->row_start, s->row_column, s->row_value, s->weight))
            return false;
        s->gradient = start_gradient(s);
        return true;
    }
    // No factor yet: the diagonal tells whether one pays.
    for (int32_t k = 0; k < qp->n; k++) s->d[k] = qp->sys->diagonal[k];
    for (int32_t l = 0; l < s->listed; l++)
        for (int32_t k = s->row_start[s->list[l]]; k < s->row_start[s->list[l] + 1]; k++)
            s->d[s->row_column[k]] += s->row_value[k] * s->row_value[k];
    s->gradient = 0;
    for (int32_t k = 0; k < qp->n; k++) s->gradient += s->grad[k] * s->grad[k] / s->d[k];
    s->gradient = sqrt(s->gradient);
    return true;
}

qpc_status qpc_sheet_factor(qpc_sheet *s, bool *ret_good, qpc_error *err) {
    qpc_status st = s->normal == NULL ? qpc_normal_create(&s->rows, NULL, &s->normal, err) : QPC_OK;
    if (st == QPC_OK) st = qpc_normal_factor(s->normal, &s->rows, s->weight, err);
    s->factorizations += st == QPC_OK;
    *ret_good = st == QPC_OK;
    return st == QPC_ERR_NUMERIC ? QPC_OK : st;
}

/// d = (K + H'C H)^-1 grad, or as near as the target asks. *ret_good false: not positive definite.
static qpc_status direction(qpc_sheet *s, double target, bool *ret_good, qpc_error *err) {
    if (!s->by_cg) {
        qpc_status st = qpc_sheet_factor(s, ret_good, err);
        return st == QPC_OK && *ret_good ? qpc_normal_solve(s->normal, s->grad, s->d, err) : st;
    }
    int64_t before = s->ssor.steps;
    qpc_ssor_solve(&s->ssor, target, CG_AT_ONCE, s->d);
    s->cg_steps += s->ssor.steps - before;
    *ret_good = !s->ssor.lost;
    return QPC_OK;
}

double qpc_sheet_slide(const qpc_friction_block *b) {
    return b->kind == QPC_BLOCK_CONTACT ? b->mu * qpc_friction_length(b->y[1], b->y[2]) : 0;
}

void qpc_sheet_center(qpc_sheet *s) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        memcpy(b->center, b->x, sizeof b->x);
        b->slide = qpc_sheet_slide(b);
    }
}

static void move_blocks(qpc_sheet *s, double t) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        for (int32_t a = 0; a < b->size; a++) b->y[a] += t * b->dy[a];
    }
}

/// d'G'G d
static double curve_of_rows(const qpc_sheet *s) {
    double curve = 0;
    for (int32_t l = 0; l < s->listed; l++) {
        double sum = 0;
        for (int32_t k = s->row_start[s->list[l]]; k < s->row_start[s->list[l] + 1]; k++) sum += s->row_value[k] * s->d[s->row_column[k]];
        curve += sum * sum;
    }
    return curve;
}

/// A step whose d'grad and d'K d come from the recurrence of conjugate gradients: (K + G'G) d is all but grad along d.
static bool late_step(qpc_sheet *s, double target, bool whole) {
    int64_t before = s->ssor.steps;
    qpc_ssor_late_solve(&s->ssor, target, CG_AT_ONCE, s->d);
    s->cg_steps += s->ssor.steps - before;
    double work = qpc_ssor_late_work(&s->ssor), linear = -work, curve = fmax(work - curve_of_rows(s), 0);
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        qpc_friction_block_velocity(b, s->d, b->dy);
        for (int32_t a = 0; a < b->size; a++) linear += b->x[a] * b->dy[a];
    }
    if (s->ssor.lost || !(work > 0 && isfinite(linear) && isfinite(curve))) {
        qpc_ssor_late_forget(&s->ssor);
        return false;
    }
    double t = whole ? 1 : qpc_friction_line_search(s->blocks, s->qp->m, -work, linear, curve);
    qpc_ssor_late_follow(&s->ssor, t);
    move_blocks(s, t);
    return true;
}

qpc_status qpc_sheet_step(qpc_sheet *s, double target, bool whole, bool *ret_good, qpc_error *err) {
    const qpc_qp *qp = s->qp;
    if (s->late) {
        *ret_good = late_step(s, target, whole);
        return QPC_OK;
    }
    qpc_status st = direction(s, target, ret_good, err);
    if (st != QPC_OK || !*ret_good) return st;
    if (s->by_cg && s->single) qpc_ssor_product(&s->ssor, s->Kd);
    else qpc_sheet_multiply(qp, s->d, s->Kd);
    double start = 0, linear = 0, curve = 0;
    for (int32_t k = 0; k < qp->n; k++) {
        start -= s->d[k] * s->grad[k];
        linear += s->d[k] * s->rest[k];
        curve += s->d[k] * s->Kd[k];
    }
    *ret_good = start < 0 && isfinite(linear) && isfinite(curve);
    if (!*ret_good) return QPC_OK;
    for (int32_t i = 0; i < qp->m; i++) qpc_friction_block_velocity(s->blocks + i, s->d, s->blocks[i].dy);
    double t = whole ? 1 : qpc_friction_line_search(s->blocks, qp->m, start, linear, curve);
    for (int32_t k = 0; k < qp->n; k++) {
        s->dv[k] += t * s->d[k];
        s->rest[k] += t * s->Kd[k];
    }
    move_blocks(s, t);
    return QPC_OK;
}

void qpc_sheet_refresh(qpc_sheet *s) {
    const qpc_qp *qp = s->qp;
    if (s->late && !s->fresh) qpc_ssor_late_collect(&s->ssor, s->dv);
    s->fresh = true;
    qpc_sheet_multiply(qp, s->dv, s->rest);
    for (int32_t k = 0; k < qp->n; k++) s->rest[k] -= qp->b[k];
    for (int32_t i = 0; i < qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        qpc_friction_block_velocity(b, s->dv, b->y);
        for (int32_t a = 0; a < b->size; a++) b->y[a] += b->offset[a];
    }
}
