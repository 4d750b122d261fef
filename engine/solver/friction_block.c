/// Blocks of rows and contacts, see friction_block.h. Worker thread of the world.
#include "engine/solver/friction_block.h"

#include <float.h>
#include <string.h>

enum { TRIALS = 20 };           // of a line search
static const double FLAT = 0.1; // of the slope at its start

// ---- making ----

/// Adds columns, ascending, to those in ret; their number, or -1: more than there is room for.
static int32_t merge(const int32_t *column, int32_t columns, int32_t *ret, int32_t count) {
    for (int32_t k = 0, at = 0; k < columns; k++) {
        while (at < count && ret[at] < column[k]) at++;
        if (at < count && ret[at] == column[k]) continue;
        if (count == QPC_BLOCK_COLUMNS) return -1;
        memmove(ret + at + 1, ret + at, (size_t)(count - at) * sizeof *ret);
        ret[at] = column[k];
        count++;
    }
    return count;
}

/// Columns of row i and of its tangents, ascending; -1: more than there is room for. Most are of two bodies that are next to each
/// other, and fit in the bits of a word.
static int32_t columns_of(const qpc_qp *qp, const qpc_friction *f, int32_t i, int32_t contact, int32_t *ret) {
    const int32_t *line[3] = {qp->column + qp->row_start[i]};
    int32_t size[3] = {qp->row_start[i + 1] - qp->row_start[i]}, lines = contact >= 0 ? 3 : 1, low = INT32_MAX, high = -1;
    for (int32_t a = 1; a < lines; a++) {
        line[a] = f->column + f->start[2 * contact + a - 1];
        size[a] = f->start[2 * contact + a] - f->start[2 * contact + a - 1];
    }
    for (int32_t a = 0; a < lines; a++) {
        if (size[a] == 0) continue;
        low = line[a][0] < low ? line[a][0] : low;
        high = line[a][size[a] - 1] > high ? line[a][size[a] - 1] : high;
    }
    int32_t count = 0;
    if (high - (int64_t)low >= 64) {
        for (int32_t a = 0; a < lines && count >= 0; a++) count = merge(line[a], size[a], ret, count);
        return count;
    }
    uint64_t columns = 0;
    for (int32_t a = 0; a < lines; a++)
        for (int32_t k = 0; k < size[a]; k++) columns |= UINT64_C(1) << (line[a][k] - low);
    for (int32_t at = low; columns != 0; at++, columns >>= 1) {
        if ((columns & 1) == 0) continue;
        if (count == QPC_BLOCK_COLUMNS) return -1;
        ret[count++] = at;
    }
    return count;
}

bool qpc_friction_blocks_fit(const qpc_qp *qp, const qpc_friction *friction) {
    int32_t column[QPC_BLOCK_COLUMNS];
    for (int32_t i = 0; i < qp->m; i++)
        if (columns_of(qp, friction, i, -1, column) < 0) return false;
    for (int32_t k = 0; k < friction->count; k++)
        if (columns_of(qp, friction, friction->row[k], k, column) < 0) return false;
    return true;
}

void qpc_friction_contacts_of(const qpc_qp *qp, const qpc_friction *friction, int32_t *contact_of) {
    for (int32_t i = 0; i < qp->m; i++) contact_of[i] = -1;
    for (int32_t k = 0; k < friction->count; k++)
        if (friction->mu[k] > 0) contact_of[friction->row[k]] = k;
}

static void spread(qpc_friction_block *b, int32_t line, double sign, const int32_t *column, const double *value, int32_t count) {
    for (int32_t k = 0, at = 0; k < count; k++) {
        while (b->column[at] != column[k]) at++;
        b->h[line][at] += sign * value[k];
    }
}

void qpc_friction_block_make(const qpc_qp *qp, const qpc_friction *f, int32_t i, int32_t contact, qpc_friction_block *b) {
    *b = (qpc_friction_block){.contact = contact, .size = contact >= 0 ? 3 : 1};
    b->kind = qp->equality[i] ? QPC_BLOCK_FREE : contact >= 0 ? QPC_BLOCK_CONTACT : QPC_BLOCK_HALF_LINE;
    b->columns = columns_of(qp, f, i, contact, b->column);
    b->mu = contact >= 0 ? f->mu[contact] : 0;
    b->offset[0] = qp->c[i];
    spread(b, 0, -1, qp->column + qp->row_start[i], qp->value + qp->row_start[i], qp->row_start[i + 1] - qp->row_start[i]);
    for (int32_t a = 1; a < b->size; a++) {
        int32_t t = 2 * contact + a - 1;
        b->offset[a] = f->u0[t];
        spread(b, a, 1, f->column + f->start[t], f->value + f->start[t], f->start[t + 1] - f->start[t]);
    }
}

void qpc_friction_block_scale(qpc_friction_block *b, const double *W, double lambda, const double *beta) {
    b->root = sqrt(qpc_cone_rho(b->size, W, b->size));
    b->x[0] = lambda / b->root;
    for (int32_t a = 1; a < b->size; a++) b->x[a] = -beta[2 * b->contact + a - 1] / b->root;
    for (int32_t a = 0; a < b->size; a++) {
        b->offset[a] *= b->root;
        for (int32_t k = 0; k < b->columns; k++) b->h[a][k] *= b->root;
    }
}

// ---- the natural map ----

void qpc_friction_block_velocity(const qpc_friction_block *b, const double *dv, double *ret) {
    for (int32_t a = 0; a < b->size; a++) {
        double sum = 0;
        for (int32_t k = 0; k < b->columns; k++) sum += b->h[a][k] * dv[b->column[k]];
        ret[a] = sum;
    }
}

void qpc_friction_block_push(const qpc_friction_block *b, const double *d, double *rhs) {
    for (int32_t a = 0; a < b->size; a++)
        for (int32_t k = 0; d[a] != 0 && k < b->columns; k++) rhs[b->column[k]] += d[a] * b->h[a][k];
}

double qpc_friction_blocks_map(qpc_friction_block *blocks, int32_t count) {
    double sum = 0, z[3];
    for (int32_t i = 0; i < count; i++) {
        qpc_friction_block *b = blocks + i;
        b->state = qpc_natural_block(b->kind, b->mu, b->x, b->y, z, b->f);
        for (int32_t a = 0; a < b->size; a++) sum += b->f[a] * b->f[a];
    }
    return isfinite(sum) ? sqrt(sum) : DBL_MAX;
}

// ---- the augmented Lagrangian ----

uint8_t qpc_friction_multiplier(const qpc_friction_block *b, const double *y, double *z, double *x) {
    for (int32_t a = 0; a < b->size; a++) z[a] = b->center[a] - b->R * (y[a] + (a == 0 ? b->slide : 0));
    if (b->kind != QPC_BLOCK_CONTACT) {
        bool held = b->kind == QPC_BLOCK_FREE || z[0] > 0;
        x[0] = held ? z[0] : 0;
        return held;
    }
    double t = qpc_friction_length(z[1], z[2]);
    if (t <= b->mu * z[0]) {
        memcpy(x, z, 3 * sizeof *x);
        return 1;
    }
    if (b->mu * t <= -z[0]) {
        x[0] = x[1] = x[2] = 0;
        return 0;
    }
    x[0] = (z[0] + b->mu * t) / (1 + b->mu * b->mu);
    x[1] = b->mu * x[0] * z[1] / t;
    x[2] = b->mu * x[0] * z[2] / t;
    return 2;
}

/// Slope of phi at t along the step.
static double slope_at(const qpc_friction_block *blocks, int32_t count, double linear, double curve, double t) {
    double slope = linear + t * curve;
    for (int32_t i = 0; i < count; i++) {
        const qpc_friction_block *b = blocks + i;
        double y[3], z[3], x[3];
        for (int32_t a = 0; a < b->size; a++) y[a] = b->y[a] + t * b->dy[a];
        if (qpc_friction_multiplier(b, y, z, x) == 0) continue;
        for (int32_t a = 0; a < b->size; a++) slope -= b->dy[a] * x[a];
    }
    return slope;
}

/// The slope rises with t. Regula falsi kept off the ends, halving in every third turn.
double qpc_friction_line_search(const qpc_friction_block *blocks, int32_t count, double start, double linear, double curve) {
    double low = 0, high = HUGE_VAL, slope_low = start, slope_high = 0, t = 1;
    for (int32_t i = 0; i < TRIALS; i++) {
        double slope = slope_at(blocks, count, linear, curve, t);
        if (!(fabs(slope) > FLAT * fabs(start))) return t;
        if (slope > 0) {
            high = t;
            slope_high = slope;
        } else {
            low = t;
            slope_low = slope;
        }
        if (high == HUGE_VAL) {
            t *= 2;
            continue;
        }
        double width = high - low, guess = low - slope_low * width / (slope_high - slope_low);
        if (i % 3 == 2) guess = low + 0.5 * width;
        t = fmin(fmax(guess, low + 0.05 * width), high - 0.05 * width);
    }
    return low > 0 ? low : t;
}

// ---- what comes out ----

void qpc_friction_blocks_report(const qpc_friction_block *blocks, int32_t count, double scale, qpc_friction_report *found) {
    qpc_contact_sums sums = {0};
    found->sticking = found->sliding = found->open = 0;
    for (int32_t i = 0; i < count; i++) {
        const qpc_friction_block *b = blocks + i;
        double u[3], r[3], rho = b->root * b->root;
        if (!b->in) {
            found->open += b->kind == QPC_BLOCK_CONTACT;
            continue;
        }
        for (int32_t a = 0; a < b->size; a++) {
            u[a] = b->y[a] / b->root;
            r[a] = b->x[a] * b->root;
        }
        if (b->kind == QPC_BLOCK_CONTACT) {
            qpc_contact_judge(b->mu, rho, u, r, &sums, found);
            continue;
        }
        double below = b->kind == QPC_BLOCK_FREE ? fabs(b->y[0]) : -b->y[0];
        sums.natural += b->f[0] * b->f[0];
        sums.penetration = fmax(sums.penetration, below);
        sums.complementarity += fabs(b->x[0] * b->y[0]);
    }
    qpc_contact_sums_finish(&sums, scale, found);
}

void qpc_friction_blocks_impulses(const qpc_friction_block *blocks, int32_t count, int32_t contacts, double *lambda, double *beta) {
    memset(beta, 0, 2 * (size_t)contacts * sizeof *beta);
    for (int32_t i = 0; i < count; i++) {
        const qpc_friction_block *b = blocks + i;
        lambda[i] = b->kind == QPC_BLOCK_FREE || b->x[0] > 0 ? b->x[0] * b->root : 0;
        for (int32_t a = 1; a < b->size && lambda[i] > 0; a++)
            beta[2 * b->contact + a - 1] = b->x[a] == 0 ? 0 : -b->x[a] * b->root;
    }
}
