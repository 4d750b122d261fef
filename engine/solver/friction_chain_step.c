/// Newton steps of the exact mode where K is banded.
///
/// On the natural map:
///
///     (I - P' + eps P') d = -F - P'V dy,   dy = H s,   K s = H'd,   so   (K + H'C H) s = -H'G F,
///     G = (I - P' + eps P')^-1,   C = G P'V,
///
/// V the derivative of y^. eps is what redundant contacts need to be without, and what keeps a step near by. dy is formed
/// anew from d by the factor of K, so that round-off over eps stays in the direction. On the augmented Lagrangian C = R P' is
/// symmetric, and the step goes to the minimum of phi along it. Rows that reach beyond the band (cable on cable) are
/// bordered to it. Worker thread of the world.
#include "engine/solver/friction_chain.h"

#include "engine/solver/band_lu.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void set_diagonal(qpc_friction_block *b, double v) {
    for (int32_t i = 0; i < 3; i++)
        for (int32_t j = 0; j < 3; j++) b->C[i][j] = i == j ? v : 0;
}

/// C = G P'V and g = G F of a block at the natural map.
static void linearise(qpc_friction_block *b, double shift) {
    const double *y = b->y, *f = b->f;
    b->side = b->state;
    if (b->side == 0) {
        memcpy(b->g, f, sizeof b->g);
        return;
    }
    set_diagonal(b, 1 / shift);
    for (int32_t i = 0; i < b->size; i++) b->g[i] = f[i] / shift;
    if (b->kind != QPC_BLOCK_CONTACT) return;
    double slide = qpc_friction_length(y[1], y[2]);
    if (b->side == 2) {
        double z[3] = {b->x[0] - (y[0] + b->mu * slide), b->x[1] - y[1], b->x[2] - y[2]};
        qpc_friction_turn d = qpc_friction_turn_of(b->mu, z);
        double around = 1 / (1 - d.part + shift * d.part);
        double fa = (d.a[0] * f[0] + d.a[1] * f[1] + d.a[2] * f[2]) / shift, fp = (d.p[1] * f[1] + d.p[2] * f[2]) * around,
               fq = d.q[0] * f[0] + d.q[1] * f[1] + d.q[2] * f[2];
        for (int32_t i = 0; i < 3; i++) {
            for (int32_t j = 0; j < 3; j++) b->C[i][j] = d.a[i] * d.a[j] / shift + d.p[i] * d.p[j] * (d.part * around);
            b->g[i] = d.a[i] * fa + d.p[i] * fp + d.q[i] * fq;
        }
    }
    if (!(slide > DBL_MIN)) return;
    double w1 = b->mu * y[1] / slide, w2 = b->mu * y[2] / slide;
    for (int32_t i = 0; i < 3; i++) {
        double normal = b->C[i][0];
        b->C[i][1] += normal * w1;
        b->C[i][2] += normal * w2;
    }
}

/// Room for rows beyond the band, once there are any.
static bool allocate_far(qpc_chain *c) {
    const size_t most = 3 * QPC_CHAIN_FAR;
    if (c->no_memory) return false;
    if (c->Y != NULL) return true;
    c->Y = qpc_arena_array(c->arena, (size_t)c->qp->n * most, sizeof *c->Y);
    c->S = qpc_arena_array(c->arena, most * most, sizeof *c->S);
    c->e = qpc_arena_array(c->arena, most, sizeof *c->e);
    c->far_pivots = qpc_arena_array(c->arena, most, sizeof *c->far_pivots);
    return c->Y != NULL && c->S != NULL && c->e != NULL && c->far_pivots != NULL;
}

/// K + H'C H of the blocks within the band.
static void fill(qpc_chain *c) {
    const qpc_linsys *sys = c->qp->sys;
    int32_t n = c->qp->n, v = sys->bandwidth, w = c->w;
    int64_t stride = qpc_band_lu_stride(w);
    memset(c->lu, 0, (size_t)n * (size_t)stride * sizeof *c->lu);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = i > v ? i - v : 0; j <= i; j++) {
            double k = sys->band[(int64_t)i * (v + 1) + j - i + v];
            c->lu[i * stride + j - i + w] = k;
            c->lu[j * stride + i - j + w] = k;
        }
    for (int32_t i = 0; i < c->qp->m; i++) {
        const qpc_friction_block *b = c->blocks + i;
        if (b->side == 0 || b->far) continue;
        for (int32_t k = 0; k < b->columns; k++) {
            double *row = c->lu + b->column[k] * stride - b->column[k] + w, part[3] = {0};
            for (int32_t a = 0; a < b->size; a++)
                for (int32_t d = 0; d < b->size; d++) part[d] += b->h[a][k] * b->C[a][d];
            for (int32_t l = 0; l < b->columns; l++) {
                double sum = 0;
                for (int32_t d = 0; d < b->size; d++) sum += part[d] * b->h[d][l];
                row[b->column[l]] += sum;
            }
        }
    }
}

/// dy of the far blocks from the step without them: (I + Y C) dy = h step, Y = h B^-1 h'; then the step with them.
static bool border(qpc_chain *c) {
    int32_t n = c->qp->n, f = 0;
    for (int32_t k = 0; k < c->far_count; k++) {
        const qpc_friction_block *b = c->blocks + c->far[k];
        for (int32_t a = 0; a < b->size; a++, f++) {
            double *column = c->Y + (int64_t)f * n;
            memset(column, 0, (size_t)n * sizeof *column);
            for (int32_t l = 0; l < b->columns; l++) column[b->column[l]] = b->h[a][l];
            qpc_band_lu_solve(n, c->w, c->lu, c->pivot, column);
        }
    }
    int32_t row = 0;
    for (int32_t k = 0; k < c->far_count; k++) {
        const qpc_friction_block *b = c->blocks + c->far[k];
        qpc_friction_block_velocity(b, c->step, c->e + row);
        for (int32_t l = 0, first = 0; l < c->far_count; first += c->blocks[c->far[l++]].size) {
            const qpc_friction_block *other = c->blocks + c->far[l];
            double y[3][3];
            for (int32_t d = 0; d < other->size; d++) {
                double u[3];
                qpc_friction_block_velocity(b, c->Y + (int64_t)(first + d) * n, u);
                for (int32_t a = 0; a < b->size; a++) y[a][d] = u[a];
            }
            for (int32_t a = 0; a < b->size; a++)
                for (int32_t j = 0; j < other->size; j++) {
                    double sum = row + a == first + j ? 1 : 0;
                    for (int32_t d = 0; d < other->size; d++) sum += y[a][d] * other->C[d][j];
                    c->S[(int64_t)(row + a) * f + first + j] = sum;
                }
        }
        row += b->size;
    }
    if (!qpc_lu_solve(f, c->S, true, c->far_pivots, c->e, false)) return false;
    row = 0;
    for (int32_t k = 0; k < c->far_count; k++) {
        const qpc_friction_block *b = c->blocks + c->far[k];
        for (int32_t a = 0; a < b->size; a++) {
            double pushed = 0;
            for (int32_t d = 0; d < b->size; d++) pushed += b->C[a][d] * c->e[row + d];
            const double *column = c->Y + (int64_t)(row + a) * n;
            for (int32_t i = 0; i < n; i++) c->step[i] -= pushed * column[i];
        }
        row += b->size;
    }
    return true;
}

/// The far blocks that may carry something; false: too many, or no memory for them.
static bool list_far(qpc_chain *c) {
    c->far_count = 0;
    for (int32_t i = 0; i < c->qp->m; i++) {
        const qpc_friction_block *b = c->blocks + i;
        if (!b->far || b->side == 0) continue;
        if (c->far_count == QPC_CHAIN_FAR) return false;
        c->far[c->far_count++] = i;
    }
    if (c->far_count == 0 || allocate_far(c)) return true;
    c->no_memory = true;
    return false;
}

/// The lower half of the same, C being symmetric, in the band of qpc_band_factor().
static void fill_half(qpc_chain *c) {
    const qpc_linsys *sys = c->qp->sys;
    int32_t n = c->qp->n, v = sys->bandwidth, w = c->w;
    int64_t stride = w + 1;
    if (v == w)
        memcpy(c->lu, sys->band, (size_t)n * (size_t)stride * sizeof *c->lu);
    else {
        memset(c->lu, 0, (size_t)n * (size_t)stride * sizeof *c->lu);
        for (int32_t i = 0; i < n; i++) memcpy(c->lu + i * stride + w - v, sys->band + (int64_t)i * (v + 1), (size_t)(v + 1) * sizeof *c->lu);
    }
    for (int32_t i = 0; i < c->qp->m; i++) {
        const qpc_friction_block *b = c->blocks + i;
        if (b->side == 0) continue;
        for (int32_t k = 0; k < b->columns; k++) {
            double *row = c->lu + b->column[k] * stride - b->column[k] + w, part[3] = {0};
            for (int32_t a = 0; a < b->size; a++)
                for (int32_t d = 0; d < b->size; d++) part[d] += b->h[a][k] * b->C[a][d];
            for (int32_t l = 0; l <= k; l++) {
                double sum = 0;
                for (int32_t d = 0; d < b->size; d++) sum += part[d] * b->h[d][l];
                row[b->column[l]] += sum;
            }
        }
    }
}

/// step = (K + H'C H)^-1 rhs, with the blocks that have a side.
static bool solve(qpc_chain *c, bool symmetric) {
    int32_t n = c->qp->n;
    if (!list_far(c)) return false;
    if (symmetric && c->far_count == 0) {
        fill_half(c);
        if (qpc_band_factor(n, c->w, c->lu, c->lu, 0) >= 0) return false;
        memcpy(c->step, c->rhs, (size_t)n * sizeof *c->step);
        qpc_band_solve(n, c->w, c->lu, c->step);
        return true;
    }
    fill(c);
    if (!qpc_band_lu_factor(n, c->w, c->lu, c->pivot)) return false;
    memcpy(c->step, c->rhs, (size_t)n * sizeof *c->step);
    qpc_band_lu_solve(n, c->w, c->lu, c->pivot, c->step);
    return c->far_count == 0 || border(c);
}

bool qpc_chain_leap(qpc_chain *c, double shift) {
    size_t n = (size_t)c->qp->n;
    int32_t m = c->qp->m;
    memset(c->rhs, 0, n * sizeof *c->rhs);
    for (int32_t i = 0; i < m; i++) {
        qpc_friction_block *b = c->blocks + i;
        linearise(b, shift);
        double back[3] = {-b->g[0], -b->g[1], -b->g[2]};
        qpc_friction_block_push(b, back, c->rhs);
    }
    if (!solve(c, false)) return false;
    memset(c->rhs, 0, n * sizeof *c->rhs);
    for (int32_t i = 0; i < m; i++) {
        qpc_friction_block *b = c->blocks + i;
        double dy[3], d[3];
        if (b->side != 0) qpc_friction_block_velocity(b, c->step, dy);
        for (int32_t a = 0; a < b->size; a++) {
            d[a] = -b->g[a];
            for (int32_t k = 0; b->side != 0 && k < b->size; k++) d[a] -= b->C[a][k] * dy[k];
            b->x[a] += d[a];
        }
        qpc_friction_block_push(b, d, c->rhs);
    }
    qpc_linsys_solve(c->qp->sys, c->rhs, c->step);
    for (size_t k = 0; k < n; k++) c->dv[k] += c->step[k];
    for (int32_t i = 0; i < m; i++) {
        qpc_friction_block *b = c->blocks + i;
        double dy[3];
        qpc_friction_block_velocity(b, c->step, dy);
        for (int32_t a = 0; a < b->size; a++) b->y[a] += dy[a];
    }
    c->norm = qpc_friction_blocks_map(c->blocks, c->qp->m);
    return c->norm < DBL_MAX;
}

// ---- augmented Lagrangian ----

/// x and C = R P' at y.
static void linearise_multiplier(qpc_friction_block *b, double R) {
    double z[3];
    b->R = R;
    b->side = qpc_friction_multiplier(b, b->y, z, b->x);
    set_diagonal(b, R);
    if (b->side != 2) return;
    qpc_friction_turn d = qpc_friction_turn_of(b->mu, z);
    for (int32_t i = 0; i < 3; i++)
        for (int32_t j = 0; j < 3; j++) b->C[i][j] = R * (d.a[i] * d.a[j] + d.p[i] * d.p[j] * d.part);
}

double qpc_chain_descend(qpc_chain *c, double R) {
    int32_t n = c->qp->n, m = c->qp->m;
    for (int32_t k = 0; k < n; k++) c->rhs[k] = -c->rest[k];
    for (int32_t i = 0; i < m; i++) {
        linearise_multiplier(c->blocks + i, R);
        qpc_friction_block_push(c->blocks + i, c->blocks[i].x, c->rhs);
    }
    if (!solve(c, true)) return -1;
    double *moved = c->spare, start = 0, linear = 0, curve = 0, z[3];
    qpc_linsys_multiply(c->qp->sys, c->step, moved);
    for (int32_t k = 0; k < n; k++) {
        start -= c->step[k] * c->rhs[k];
        linear += c->step[k] * c->rest[k];
        curve += c->step[k] * moved[k];
    }
    if (!(start < 0)) return start == 0 ? 0 : -1;
    for (int32_t i = 0; i < m; i++) qpc_friction_block_velocity(c->blocks + i, c->step, c->blocks[i].dy);
    double t = qpc_friction_line_search(c->blocks, m, start, linear, curve);
    for (int32_t k = 0; k < n; k++) {
        c->dv[k] += t * c->step[k];
        c->rest[k] += t * moved[k];
    }
    for (int32_t i = 0; i < m; i++) {
        qpc_friction_block *b = c->blocks + i;
        for (int32_t a = 0; a < b->size; a++) b->y[a] += t * b->dy[a];
        b->side = qpc_friction_multiplier(b, b->y, z, b->x);
    }
    return sqrt(-start);
}
