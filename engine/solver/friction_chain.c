/// The exact mode where K is banded: what a problem is set up as, and which step comes next.
///
/// With x, y scaled by rho and H the scaled rows, y = H dv + p and K dv = b + H'x. Two kinds of steps take turns. From
/// afar, De Saxce's fixed point: g = mu |y_T| is held, and
///
///     phi(dv) = 1/2 dv'K dv - b'dv + sum |P(x_c - R (y + g e_N))|^2 / 2 R
///
/// is minimised by Newton with a line search, which always gets there; x_c <- P(...) and g <- mu |y_T| then. R rises as long
/// as that takes few steps and falls where it takes many. Close by, whole Newton steps on the natural map, which
/// see g as well. The least |F| is kept. The nodes of a chain that no row touches are eliminated first. Worker
/// thread of the world.
#include "engine/solver/friction_chain.h"

#include "engine/solver/band_lu.h"
#include "engine/solver/condense.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    LEAST_UNKNOWNS = 24, // below that dense matrices are as fast
    BAND_LEAST = 5,      // a contact on an edge of a cable stays within it
    BAND_MOST = 83, // of bodies that lie by each other (world/rigid_create.c)
    LEAPS = 3,           // Newton steps on the natural map in a row
    OUTERS = 100,
    PATIENCE = 1,        // outers that go on beyond the tolerance
    DESCENTS = 30,       // steps on one augmented Lagrangian
    DOUBTFUL = 30,       // steps after which it should be near, or the rows may contradict,
    HOPELESS = 100,      // and after which it is given up
    FEW = 3,             // up to which R rises
    MANY = 7,            // from which on it falls
};
static const double REST = 1e-13; // of S: what a warm start that is an answer already is off by rounding at most (docs/theory-friction.md)
static const double FINE = 1e-15, R_FIRST = 30, R_LEAST = 1, R_MOST = 1e8, R_GROWTH = 10, INNER = 0.05, AIM = 1e-3, FAR_OFF = 1e-3;

// ---- set-up ----

static int32_t span_of(const int32_t *column, int32_t from, int32_t to) {
    return to > from ? column[to - 1] - column[from] : 0;
}

bool qpc_friction_chain_pays(const qpc_qp *qp, const qpc_friction *friction) {
    if (qp->sys->kind != QPC_LINSYS_BAND || qp->sys->bandwidth > BAND_MOST || 3 * friction->count < LEAST_UNKNOWNS) return false;
    return qpc_friction_blocks_fit(qp, friction);
}

static bool allocate(qpc_chain *c) {
    size_t n = (size_t)c->qp->n, m = (size_t)c->qp->m, stride = (size_t)qpc_band_lu_stride(c->w);
    c->blocks = qpc_arena_array(c->arena, m, sizeof *c->blocks);
    c->lu = qpc_arena_array(c->arena, n * stride, sizeof *c->lu);
    c->rhs = qpc_arena_array(c->arena, 6 * n, sizeof *c->rhs);
    c->Z = qpc_arena_array(c->arena, n * ((size_t)c->qp->sys->bandwidth + 1), sizeof *c->Z);
    c->pivot = qpc_arena_array(c->arena, n, sizeof *c->pivot);
    c->far = qpc_arena_array(c->arena, QPC_CHAIN_FAR, sizeof *c->far);
    c->first = qpc_arena_array(c->arena, n, sizeof *c->first);
    if (c->blocks == NULL || c->lu == NULL || c->rhs == NULL || c->Z == NULL || c->pivot == NULL || c->far == NULL || c->first == NULL) return false;
    c->step = c->rhs + n;
    c->dv = c->rhs + 2 * n;
    c->spare = c->rhs + 3 * n;
    c->free_dv = c->rhs + 4 * n;
    c->rest = c->rhs + 5 * n;
    return true;
}

/// The band of Z = K^-1 from K = L D L', from the last row up: Z_ij = (i = j) / D_i - sum_k L_ki Z_kj. Where nothing couples
/// i - 1 and what is before it to i and what is behind, both are zero beyond: first[i] is where what i is coupled to begins.
static void invert_band(qpc_chain *c) {
    const qpc_linsys *sys = c->qp->sys;
    int32_t n = c->qp->n, w = sys->bandwidth, stride = w + 1, end = n;
    for (int32_t i = 0, start = 0; i < n; i++) {
        int32_t k = i > w ? i - w : 0;
        while (k < i && sys->factor[(int64_t)i * stride + k - i + w] == 0) k++;
        if (k == i) start = i;
        else
            for (; start > k; start = c->first[start - 1]) {}
        for (int32_t l = start; l <= i; l++) c->first[l] = start;
    }
    memset(c->Z, 0, (size_t)n * (size_t)stride * sizeof *c->Z);
    for (int32_t i = n - 1; i >= 0; i--) {
        if (i + 1 < n && c->first[i + 1] != c->first[i]) end = i + 1;
        int32_t last = i + w < end ? i + w : end - 1;
        double *column = c->Z + i; // (j, i) at j * stride + i - j + w
        for (int32_t j = last; j >= i; j--) {
            double sum = j == i ? sys->factor[(int64_t)i * stride + w] : 0;
            for (int32_t k = i + 1; k <= last; k++) {
                double z = k >= j ? c->Z[(int64_t)k * stride + j - k + w] : c->Z[(int64_t)j * stride + k - j + w];
                sum -= sys->factor[(int64_t)k * stride + i - k + w] * z;
            }
            column[(int64_t)j * stride - j + w] = sum;
        }
    }
}

/// h K^-1 h' of a block, by the band of K^-1 or by solves.
static void compliance(qpc_chain *c, const qpc_friction_block *b, double W[9]) {
    const qpc_linsys *sys = c->qp->sys;
    int32_t w = sys->bandwidth, count = b->columns;
    double part[QPC_BLOCK_COLUMNS][QPC_LINSYS_BLOCK] = {{0}};
    if (span_of(b->column, 0, count) <= w) {
        for (int32_t k = 0, from = 0; k < count; k++) {
            const double *row = c->Z + (int64_t)b->column[k] * (w + 1) + w - b->column[k];
            while (b->column[from] < c->first[b->column[k]]) from++;
            for (int32_t l = from; l < k; l++)
                for (int32_t a = 0; a < b->size; a++) {
                    part[k][a] += row[b->column[l]] * b->h[a][l];
                    part[l][a] += row[b->column[l]] * b->h[a][k];
                }
            for (int32_t a = 0; a < b->size; a++) part[k][a] += row[b->column[k]] * b->h[a][k];
        }
    } else {
        double *columns = c->lu; // n x 4 fits
        memset(columns, 0, (size_t)c->qp->n * QPC_LINSYS_BLOCK * sizeof *columns);
        for (int32_t a = 0; a < b->size; a++)
            for (int32_t k = 0; k < count; k++) columns[(int64_t)b->column[k] * QPC_LINSYS_BLOCK + a] = b->h[a][k];
        qpc_linsys_solve_block(c->qp->sys, columns);
        for (int32_t k = 0; k < count; k++) memcpy(part[k], columns + (int64_t)b->column[k] * QPC_LINSYS_BLOCK, sizeof part[k]);
    }
    for (int32_t a = 0; a < b->size; a++)
        for (int32_t d = 0; d < b->size; d++) {
            double sum = 0;
            for (int32_t k = 0; k < count; k++) sum += b->h[a][k] * part[k][d];
            W[a * b->size + d] = sum;
        }
}

static void make_block(qpc_chain *c, int32_t i, int32_t contact, const double *lambda, const double *beta) {
    qpc_friction_block *b = c->blocks + i;
    double W[9];
    qpc_friction_block_make(c->qp, c->friction, i, contact, b);
    b->far = span_of(b->column, 0, b->columns) > c->w;
    compliance(c, b, W);
    qpc_friction_block_scale(b, W, lambda[i], beta);
}

// ---- the iterate ----

/// dv = K^-1 (b + H'x) with one refinement, y of all blocks from it, and their map.
static void settle(qpc_chain *c) {
    const qpc_qp *qp = c->qp;
    size_t n = (size_t)qp->n;
    memcpy(c->rhs, qp->b, n * sizeof *c->rhs);
    for (int32_t i = 0; i < qp->m; i++) qpc_friction_block_push(c->blocks + i, c->blocks[i].x, c->rhs);
    qpc_linsys_solve(qp->sys, c->rhs, c->dv);
    qpc_linsys_multiply(qp->sys, c->dv, c->spare);
    for (size_t k = 0; k < n; k++) c->spare[k] = c->rhs[k] - c->spare[k];
    qpc_linsys_solve(qp->sys, c->spare, c->spare);
    for (size_t k = 0; k < n; k++) c->dv[k] += c->spare[k];
    for (int32_t i = 0; i < qp->m; i++) {
        qpc_friction_block *b = c->blocks + i;
        qpc_friction_block_velocity(b, c->dv, b->y);
        for (int32_t a = 0; a < b->size; a++) b->y[a] += b->offset[a];
    }
    c->norm = qpc_friction_blocks_map(c->blocks, c->qp->m);
}

/// Blocks that carry something take part from now on: S^2 sums up their q.
static void take_in(qpc_chain *c) {
    for (int32_t i = 0; i < c->qp->m; i++) {
        qpc_friction_block *b = c->blocks + i;
        if (b->in || (b->state == 0 && b->x[0] == 0)) continue;
        double q[3];
        b->in = true;
        qpc_friction_block_velocity(b, c->free_dv, q);
        for (int32_t a = 0; a < b->size; a++) c->square += (q[a] + b->offset[a]) * (q[a] + b->offset[a]);
    }
}

static double scale_of(const qpc_chain *c) {
    return c->square > 0 ? sqrt(c->square) : 1;
}

static void keep(qpc_chain *c) {
    if (!(c->norm < c->best)) return;
    c->best = c->norm;
    for (int32_t i = 0; i < c->qp->m; i++) memcpy(c->blocks[i].best, c->blocks[i].x, sizeof c->blocks[i].x);
}

static void go_back(qpc_chain *c) {
    for (int32_t i = 0; i < c->qp->m; i++) memcpy(c->blocks[i].x, c->blocks[i].best, sizeof c->blocks[i].x);
    settle(c);
}

// ---- the whole ----

/// Whole Newton steps as long as they halve |F|. True: the tolerance is met and round-off is near. Else x is where
/// it was, or further if |F| became less.
static bool polish(qpc_chain *c, double R, double tolerance, int32_t most, int32_t *steps) {
    double start = c->norm;
    for (int32_t i = 0; i < c->qp->m; i++) memcpy(c->blocks[i].center, c->blocks[i].x, sizeof c->blocks[i].x);
    double least = start;
    for (int32_t s = 0; s < LEAPS && *steps < most && c->norm > FINE * scale_of(c); s++) {
        double before = c->norm;
        ++*steps;
        if (!qpc_chain_leap(c, fmin(before / scale_of(c), 1 / R))) break;
        take_in(c);
        keep(c);
        if (c->norm < least) {
            least = c->norm;
            for (int32_t i = 0; i < c->qp->m; i++) memcpy(c->blocks[i].center, c->blocks[i].x, sizeof c->blocks[i].x);
        }
        if (c->norm > 0.5 * before && s > 0) break;
    }
    if (c->best <= AIM * tolerance * scale_of(c)) return true;
    for (int32_t i = 0; i < c->qp->m; i++) memcpy(c->blocks[i].x, c->blocks[i].center, sizeof c->blocks[i].x);
    if (c->norm > least) settle(c);
    return false;
}

/// One outer step of the fixed point. R: in and out.
static void outer(qpc_chain *c, double *R, int32_t most, int32_t *steps) {
    qpc_linsys_multiply(c->qp->sys, c->dv, c->rest);
    for (int32_t k = 0; k < c->qp->n; k++) c->rest[k] -= c->qp->b[k];
    for (int32_t i = 0; i < c->qp->m; i++) {
        qpc_friction_block *b = c->blocks + i;
        memcpy(b->center, b->x, sizeof b->x);
        b->slide = b->kind == QPC_BLOCK_CONTACT ? b->mu * hypot(b->y[1], b->y[2]) : 0;
    }
    double enough = INNER * c->norm;
    int32_t taken = 0;
    while (taken < DESCENTS && *steps < most) {
        double decrement = qpc_chain_descend(c, *R);
        ++*steps;
        if (!(decrement > enough)) break;
        taken++;
    }
    if (taken <= FEW) *R = fmin(R_MOST, *R * R_GROWTH);
    if (taken >= MANY) *R = fmax(R_LEAST, *R / R_GROWTH);
    settle(c);
    take_in(c);
    keep(c);
}

/// lambda and beta, and the motion of all unknowns from them: dv = K^-1 (b - J'lambda - T'beta), with one refinement.
static void hand_out(const qpc_chain *c, const qpc_qp *qp, const qpc_friction *f, double *scratch, double *dv, double *lambda,
                     double *beta) {
    double *rhs = scratch, *rest = scratch + qp->n;
    qpc_friction_blocks_impulses(c->blocks, qp->m, f->count, lambda, beta);
    memcpy(rhs, qp->b, (size_t)qp->n * sizeof *rhs);
    for (int32_t i = 0; i < qp->m; i++) {
        for (int32_t k = qp->row_start[i]; lambda[i] != 0 && k < qp->row_start[i + 1]; k++)
            rhs[qp->column[k]] -= lambda[i] * qp->value[k];
        for (int32_t a = 1; a < c->blocks[i].size && lambda[i] > 0; a++) {
            int32_t t = 2 * c->blocks[i].contact + a - 1;
            for (int32_t k = f->start[t]; k < f->start[t + 1]; k++) rhs[f->column[k]] -= beta[t] * f->value[k];
        }
    }
    qpc_linsys_solve(qp->sys, rhs, dv);
    qpc_linsys_multiply(qp->sys, dv, rest);
    for (int32_t k = 0; k < qp->n; k++) rest[k] = rhs[k] - rest[k];
    qpc_linsys_solve(qp->sys, rest, rest);
    for (int32_t k = 0; k < qp->n; k++) dv[k] += rest[k];
}

/// The problem on the nodes that rows touch, where that is fewer. small, rub: what `into` points to then.
static qpc_status shrink(qpc_chain *into, qpc_condensed *small, qpc_friction *rub, qpc_error *err) {
    bool done;
    qpc_status st = qpc_condense(into->qp, into->arena, small, &done, err);
    if (st != QPC_OK || !done) return st;
    const qpc_friction *f = into->friction;
    int32_t count = f->start[2 * f->count];
    int32_t *column = qpc_arena_array(into->arena, (size_t)count, sizeof *column);
    if (column == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", into->qp->m);
    for (int32_t k = 0; k < count; k++) {
        int32_t place = small->place[f->column[k] / 3];
        if (place < 0) return QPC_OK; // a tangent goes where no row does
        column[k] = 3 * place + f->column[k] % 3;
    }
    *rub = *f;
    rub->column = column;
    into->qp = &small->qp;
    into->friction = rub;
    return QPC_OK;
}

static qpc_status set_up(qpc_chain *c, const double *lambda, const double *beta, qpc_error *err) {
    const qpc_qp *qp = c->qp;
    const qpc_friction *f = c->friction;
    c->w = qp->sys->bandwidth > BAND_LEAST ? qp->sys->bandwidth : BAND_LEAST;
    int32_t *contact_of = qpc_arena_array(c->arena, (size_t)qp->m, sizeof *contact_of);
    if (!allocate(c) || contact_of == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    qpc_friction_contacts_of(qp, f, contact_of);
    invert_band(c);
    for (int32_t i = 0; i < qp->m; i++) make_block(c, i, contact_of[i], lambda, beta);
    qpc_linsys_solve(qp->sys, qp->b, c->free_dv);
    settle(c);
    take_in(c);
    c->best = HUGE_VAL;
    keep(c);
    return QPC_OK;
}

qpc_status qpc_friction_chain_solve(const qpc_qp *qp, const qpc_friction *friction, double tolerance, int32_t most,
                                    const qpc_friction_doubt *doubt, qpc_arena *arena, double *dv, double *lambda, double *beta,
                                    qpc_friction_report *found, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_chain c = {.qp = qp, .friction = friction, .arena = arena};
    qpc_condensed small;
    qpc_friction rub;
    double R = R_FIRST;
    int32_t steps = 0;
    bool asked = doubt == NULL, vain = false;
    double *scratch = qpc_arena_array(arena, 2 * (size_t)qp->n, sizeof *scratch);
    qpc_status st = scratch == NULL ? qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m) : QPC_OK;
    if (st == QPC_OK) st = shrink(&c, &small, &rub, err);
    if (st == QPC_OK) st = set_up(&c, lambda, beta, err);
    bool rests = st == QPC_OK && c.best <= REST * scale_of(&c); // as it came
    for (int32_t i = 0, good = 0; i < OUTERS && st == QPC_OK && !rests && !vain && steps < most && !c.no_memory; i++) {
        if (c.best <= FINE * scale_of(&c) || polish(&c, R, tolerance, most, &steps)) break;
        if (c.best <= tolerance * scale_of(&c) && ++good > PATIENCE) break;
        if (steps >= HOPELESS && c.best > FAR_OFF * scale_of(&c)) break;
        if (!asked && steps >= DOUBTFUL && c.best > FAR_OFF * scale_of(&c)) {
            asked = true;
            if ((st = doubt->contradict(doubt->context, &vain, err)) != QPC_OK || vain) continue;
        }
        if (steps < most && !c.no_memory) outer(&c, &R, most, &steps);
    }
    if (st == QPC_OK && c.no_memory) st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    if (st == QPC_OK) {
        if (c.norm > c.best) go_back(&c);
        else if (!rests) settle(&c);
        qpc_friction_blocks_report(c.blocks, c.qp->m, scale_of(&c), found);
        found->newton += steps;
        if (rests && c.qp == qp) {
            qpc_friction_blocks_impulses(c.blocks, qp->m, friction->count, lambda, beta);
            memcpy(dv, c.dv, (size_t)qp->n * sizeof *dv);
        } else
            hand_out(&c, qp, friction, scratch, dv, lambda, beta);
    }
    qpc_arena_rewind(arena, mark);
    return st;
}
