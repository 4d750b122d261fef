/// The certificate of a solved QP (T32): its own arithmetic over K, J, b, c, straight from the
/// definitions.
///
/// Shares nothing with the solvers except the factor behind K^-1, and every solve with it is
/// checked by a product (solve_check). b and r are solved for and multiplied side by side; in a
/// band, whose kernels are written out here for that, two cost what one does. Where K is not
/// factored, rough solves and a bound on what they leave take its place. Runs on the worker in the
/// world; memory from the arena, given back.
#include "engine/solver/certificate.h"

#include "base/cpu.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

// How far K^-1 b and K^-1 r are solved for where K has no factor.
static const double LOOSE_SCALE = 0.1, LOOSE_BOUND = 0.01, LOOSE_ESTIMATE = 1e-3;
// Where bounds that cost nothing are below these they are the answer.
static const double SMALL = 1e-9, SMALL_COMP = 1e-12;
static const double ENOUGH = 5e-7; // half of what *optimal* allows: a bound of the stationarity up to there is told as it is
static const double SHARP = 2; // S known to that factor needs no more steps
enum { LOOSE_STEPS = 24 }; // of conjugate gradients: the bound holds after any number, it is only the wider
enum { CABLE = 5 }; // half bandwidth that has its loops unrolled

/// Two vectors side by side: b and r, then K^-1 b and K^-1 r.
typedef double pair __attribute__((vector_size(16)));

/// K_ii, as stored.
static inline double diagonal(const qpc_linsys *K, int32_t i) {
    if (K->kind == QPC_LINSYS_SPARSE) return K->value[K->start[i]];
    return K->band[(int64_t)i * (K->bandwidth + 1) + K->bandwidth];
}

// ---- products and solves ----

/// y = K x, by columns of the lower triangle and their mirror.
static void sparse_product_pairs(const qpc_linsys *K, const pair *x, pair *y) {
    for (int32_t i = 0; i < K->n; i++) y[i] = (pair){0, 0};
    for (int32_t j = 0; j < K->n; j++) {
        pair sum = diagonal(K, j) * x[j], xj = x[j];
        for (int32_t k = K->start[j] + 1; k < K->start[j + 1]; k++) {
            double v = K->value[k];
            int32_t i = K->row[k];
            y[i] += v * xj;
            sum += v * x[i];
        }
        y[j] += sum;
    }
}

#define BAND_KERNEL static inline QPC_ALWAYS_INLINE void

/// y = K x, each row of the band once: for y_i, and mirrored for the y before it. x and y are apart.
BAND_KERNEL band_product_of(int32_t w, const qpc_linsys *K, const double *restrict x, double *restrict y) {
    for (int32_t i = 0; i < K->n; i++) {
        int32_t reach = i < w ? i : w;
        const double *row = K->band + (int64_t)i * (w + 1) + w - reach, *left = x + i - reach;
        double *above = y + i - reach, xi = x[i], sum = row[reach] * xi;
        for (int32_t d = 0; d < reach; d++) {
            sum += row[d] * left[d];
            above[d] += row[d] * xi;
        }
        y[i] = sum;
    }
}

BAND_KERNEL band_product_pairs_of(int32_t w, const qpc_linsys *K, const pair *restrict x, pair *restrict y) {
    for (int32_t i = 0; i < K->n; i++) {
        int32_t reach = i < w ? i : w;
        const double *row = K->band + (int64_t)i * (w + 1) + w - reach;
        const pair *left = x + i - reach;
        pair *above = y + i - reach, xi = x[i], sum = row[reach] * xi;
        for (int32_t d = 0; d < reach; d++) {
            sum += row[d] * left[d];
            above[d] += row[d] * xi;
        }
        y[i] = sum;
    }
}

/// L D L' x = rhs in place, the newest unknown last in each sum: the rest does not wait for it.
BAND_KERNEL band_solve_pairs_of(int32_t w, const qpc_linsys *K, pair *x) {
    int32_t n = K->n, stride = w + 1;
    for (int32_t i = 0; i < n; i++) {
        const double *row = K->factor + (int64_t)i * stride + w;
        pair v = x[i];
        if (i >= w) {
            for (int32_t d = w; d >= 1; d--) v -= row[-d] * x[i - d];
        } else {
            for (int32_t d = i; d >= 1; d--) v -= row[-d] * x[i - d];
        }
        x[i] = v;
    }
    for (int32_t i = n - 1; i >= 0; i--) {
        const double *row =
            K->factor + (int64_t)i * stride + w; // 1 / D there, L_ji at row[(j - i) w]
        pair v = x[i] * row[0];
        if (i + w < n) {
            for (int32_t d = w; d >= 1; d--) v -= row[(int64_t)d * w] * x[i + d];
        } else {
            for (int32_t d = n - 1 - i; d >= 1; d--) v -= row[(int64_t)d * w] * x[i + d];
        }
        x[i] = v;
    }
}

/// The same for cables with each K_ij read once: y_{i-5} to y_{i-1} so far are at hand.
static void cable_product_pairs(const qpc_linsys *K, const pair *x, pair *y) {
    const pair zero = {0, 0};
    pair a = zero, b = zero, c = zero, d = zero, e = zero, before[CABLE] = {zero};
    for (int32_t i = 0; i < K->n; i++) {
        const double *row = K->band + (int64_t)i * (CABLE + 1);
        pair xi = x[i], sum = row[5] * xi;
        if (i >= CABLE) {
            const pair *left = x + i - CABLE;
            sum += ((row[0] * left[0] + row[1] * left[1]) + (row[2] * left[2] + row[3] * left[3])) + row[4] * left[4];
            y[i - CABLE] = a + row[0] * xi;
        } else { // what is left of column 0 is 0
            for (int32_t k = 0; k < i; k++) sum += row[k - i + CABLE] * x[k];
        }
        a = b + row[1] * xi;
        b = c + row[2] * xi;
        c = d + row[3] * xi;
        d = e + row[4] * xi;
        e = sum;
    }
    before[0] = a, before[1] = b, before[2] = c, before[3] = d, before[4] = e;
    int32_t last = K->n < CABLE ? K->n : CABLE;
    for (int32_t k = 0; k < last; k++) y[K->n - last + k] = before[CABLE - last + k];
}

static void product(qpc_linsys *K, const double *x, double *y) {
    if (K->kind == QPC_LINSYS_SPARSE && K->n % 3 == 0) // blocks fill vectors up to whole nodes
        qpc_linsys_product(K, x, y);
    else if (K->kind == QPC_LINSYS_SPARSE)
        qpc_linsys_multiply(K, x, y);
    else if (K->bandwidth == CABLE)
        band_product_of(CABLE, K, x, y);
    else
        band_product_of(K->bandwidth, K, x, y);
}

static void product_pairs(const qpc_linsys *K, const pair *x, pair *y) {
    if (K->kind == QPC_LINSYS_SPARSE)
        sparse_product_pairs(K, x, y);
    else if (K->bandwidth == CABLE)
        cable_product_pairs(K, x, y);
    else
        band_product_pairs_of(K->bandwidth, K, x, y);
}

/// x = K^-1 x. scratch (n x QPC_LINSYS_BLOCK), for sparse K only.
static void solve_pairs(qpc_linsys *K, pair *x, double *scratch) {
    if (K->kind == QPC_LINSYS_BAND) {
        K->solves += 2;
        if (K->bandwidth == CABLE)
            band_solve_pairs_of(CABLE, K, x);
        else
            band_solve_pairs_of(K->bandwidth, K, x);
        return;
    }
    memset(scratch, 0, (size_t)K->n * QPC_LINSYS_BLOCK * sizeof *scratch);
    for (int32_t i = 0; i < K->n; i++)
        memcpy(scratch + (int64_t)i * QPC_LINSYS_BLOCK, &x[i], sizeof x[i]);
    qpc_linsys_solve_block(K, scratch);
    for (int32_t i = 0; i < K->n; i++)
        memcpy(&x[i], scratch + (int64_t)i * QPC_LINSYS_BLOCK, sizeof x[i]);
}

// ---- the figures ----

typedef struct judge {
    const qpc_qp *qp;
    const double *dv, *lambda;
    pair *x, *Kx;    // (n) b and r; K^-1 b and K^-1 r; K times those
    double *r;       // (n) K dv - b + J'lambda
    double *inverse; // (n) 1 / K_jj where a row has a column
    double *kt;      // (m) 1 for an empty row
    double *scratch; // (n x QPC_LINSYS_BLOCK), sparse K only
    uint64_t *keys;  // (m) of active rows
    double prim, dual, comp;
} judge;

/// *most = max(*most, v), and NaN stays once it is there.
static void raise(double *most, double v) {
    if (v > *most || isnan(v)) *most = v;
}

static void sort_keys(uint64_t *a, int32_t count) {
    for (int32_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : (int32_t)((int64_t)gap * 5 / 11)) {
        for (int32_t i = gap; i < count; i++) {
            uint64_t v = a[i];
            int32_t k = i;
            for (; k >= gap && a[k - gap] > v; k -= gap) a[k] = a[k - gap];
            a[k] = v;
        }
    }
}

static bool allocate(judge *g, qpc_arena *arena) {
    size_t n = (size_t)g->qp->n, m = (size_t)g->qp->m;
    g->x = qpc_arena_array(arena, n, sizeof *g->x);
    g->Kx = qpc_arena_array(arena, n, sizeof *g->Kx);
    g->r = qpc_arena_array(arena, n, sizeof *g->r);
    g->inverse = qpc_arena_array(arena, n, sizeof *g->inverse);
    g->kt = qpc_arena_array(arena, m, sizeof *g->kt);
    g->keys = qpc_arena_array(arena, m, sizeof *g->keys);
    bool sparse = g->qp->sys->kind == QPC_LINSYS_SPARSE;
    if (sparse) g->scratch = qpc_arena_array(arena, n * QPC_LINSYS_BLOCK, sizeof *g->scratch);
    return g->x != NULL && g->Kx != NULL && g->r != NULL && g->inverse != NULL && g->kt != NULL &&
           g->keys != NULL && (!sparse || g->scratch != NULL);
}

static void invert_diagonal(judge *g) {
    const qpc_qp *qp = g->qp;
    int32_t count = qp->row_start[qp->m];
    bool few = count < qp->n;
    for (int32_t k = 0; k < (few ? count : qp->n); k++) {
        int32_t j = few ? qp->column[k] : k;
        g->inverse[j] = 1 / diagonal(qp->sys, j);
    }
}

/// r += J'lambda, and what each row says by itself.
static void look_at_rows(judge *g, qpc_certificate *out) {
    const qpc_qp *qp = g->qp;
    for (int32_t i = 0; i < qp->m; i++) {
        double kt2 = 0, s = qp->c[i], l = g->lambda[i];
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) {
            int32_t j = qp->column[k];
            double v = qp->value[k];
            kt2 += v * v * g->inverse[j];
            s -= v * g->dv[j];
            g->r[j] += l * v;
        }
        double kt = g->kt[i] =
            kt2 > 0 ? sqrt(kt2) : 1;                 // no x helps an empty row: it counts as it is
        double violation = s >= 0 ? 0 : -s, natural; // NaN stays NaN
        if (qp->equality[i]) {
            violation = natural = fabs(s);
        } else {
            double push = l * kt * kt;
            natural = fabs(s > push ? push : s);
            if (!(l >= 0)) raise(&g->dual, -l * kt);
        }
        raise(&out->natural, natural);
        raise(&out->violation, violation);
        raise(&g->prim, violation / kt);
        g->comp += fabs(l * s);
        if (qp->equality[i] || l > 0) g->keys[out->active++] = qp->key[i];
    }
}

/// |v|_K from v and K v.
static double energy(double v_Kv) {
    return sqrt(v_Kv > 0 ? v_Kv : 0);
}

/// |r|_{K^-1}, and S from K^-1 b, both by the factor and a product.
static double by_the_factor(judge *g, qpc_certificate *out) {
    const qpc_qp *qp = g->qp;
    double rz = 0, r2 = 0, miss_r = 0, b2 = 0, miss_b = 0, free2 = 0;
    for (int32_t i = 0; i < qp->n; i++) g->x[i] = (pair){qp->b[i], g->r[i]};
    solve_pairs(qp->sys, g->x, g->scratch);
    product_pairs(qp->sys, g->x, g->Kx);
    for (int32_t i = 0; i < qp->n; i++) {
        double b = qp->b[i], r = g->r[i], off_b = g->Kx[i][0] - b, off_r = g->Kx[i][1] - r;
        free2 += g->x[i][0] * g->Kx[i][0];
        rz += r * g->x[i][1];
        r2 += r * r;
        b2 += b * b;
        miss_r += off_r * off_r;
        miss_b += off_b * off_b;
    }
    if (r2 > 0) raise(&out->solve_check, sqrt(miss_r / r2));
    if (b2 > 0) raise(&out->solve_check, sqrt(miss_b / b2));
    if (energy(free2) > out->scale) out->scale = energy(free2);
    for (int32_t i = 0; i < qp->m; i++) { // how far K^-1 b is from its rows
        double s = qp->c[i];
        int32_t begin = qp->row_start[i], end = qp->row_start[i + 1];
        for (int32_t k = begin; k < end; k++) s -= qp->value[k] * g->x[qp->column[k]][0];
        if (qp->equality[i]) s = -fabs(s);
        if (-s > out->scale * g->kt[i] && begin < end) out->scale = -s / g->kt[i];
    }
    return sqrt(fabs(rz));
}

/// x, a guess of K^-1 b, gives 2b'x - x'Kx <= |K^-1 b|^2 <= that + |b - Kx|^2_{D^-1}. False: too far apart, or there is none.
static bool scale_by_last(judge *g, qpc_certificate *out) {
    qpc_linsys *K = g->qp->sys;
    const double *x = K->free, *b = g->qp->b;
    double *Kx = g->scratch, size = 0, off = 0;
    if (!K->guessed || K->least == NULL) return false;
    product(K, x, Kx);
    for (int32_t i = 0; i < K->n; i++) {
        size += x[i] * (2 * b[i] - Kx[i]);
        off += (b[i] - Kx[i]) * (b[i] - Kx[i]) / K->least[i];
    }
    double known = fmax(size, out->scale * out->scale);
    if (!(size + off <= SHARP * SHARP * known)) return false;
    out->scale = energy(known);
    return true;
}

/// |K^-1 b|_K into S from an approximate K^-1 b, which is too small if anything; what that violates is left out.
static void scale_by_rough_solve(judge *g, qpc_certificate *out) {
    qpc_linsys *K = g->qp->sys;
    const double *b = g->qp->b;
    double *x = g->inverse, *Kx = g->scratch, size = 0;
    qpc_linsys_solve_roughly(K, b, NULL, LOOSE_SCALE, LOOSE_STEPS, x);
    product(K, x, Kx);
    for (int32_t i = 0; i < K->n; i++) size += x[i] * (2 * b[i] - Kx[i]); // never above b'K^-1 b
    if (energy(size) > out->scale) out->scale = energy(size);
}

/// |r|_{K^-1} from z, about K^-1 r: at most what comes back if D is known.
static double left_by(const judge *g, const double *z, qpc_certificate *out) {
    qpc_linsys *K = g->qp->sys;
    const double *least = K->least, *r = g->r;
    double *Kz = g->scratch, square = 0, r2 = 0, miss = 0;
    product(K, z, Kz);
    for (int32_t i = 0; i < K->n; i++) {
        double q = r[i] - Kz[i];
        square += z[i] * (2 * r[i] - Kz[i]);
        if (least != NULL) square += q * q / least[i];
        r2 += r[i] * r[i];
        miss += q * q;
    }
    if (r2 > 0) out->solve_check = sqrt(miss / r2);
    return sqrt(fabs(square));
}

/// |r|_{K^-1} where K has no factor: conjugate gradients give z with K z ~ r, a product gives q = r
/// - K z, and |r|^2 = 2 r'z - z'Kz + |q|^2 in K^-1, the last being at most |q|^2_{D^-1}. most: |r|_{D^-1}, which will do
/// where it is small. Else z is what an engine had of it, or solved for.
static double by_rough_solves(judge *g, double most, qpc_certificate *out) {
    qpc_linsys *K = g->qp->sys;
    const double *least = K->least;
    double *z = g->inverse; // no more needed
    if (!scale_by_last(g, out)) scale_by_rough_solve(g, out);
    out->by = least != NULL ? QPC_BY_BOUND : QPC_BY_ESTIMATE;
    if (most <= ENOUGH * out->scale) return most;
    if (K->left_known && least != NULL) { // whatever that is, the bound holds
        double left = left_by(g, K->left, out);
        if (left <= ENOUGH * out->scale) return left;
    }
    qpc_linsys_solve_roughly(K, g->r, NULL, least != NULL ? LOOSE_BOUND : LOOSE_ESTIMATE, least != NULL ? LOOSE_STEPS : 0, z);
    return left_by(g, z, out);
}

/// |r|_{D^-1}, never less than |r|_{K^-1}; HUGE_VAL: no such D is known.
static double left_at_most(const judge *g) {
    const double *least = g->qp->sys->least;
    double square = 0;
    if (least == NULL) return HUGE_VAL;
    for (int32_t i = 0; i < g->qp->n; i++) square += g->r[i] * g->r[i] / least[i];
    return sqrt(square);
}

/// Whether the crudest bound does, left = |r|_{D^-1} for |r|_{K^-1}, beside an S. Nothing is solved for then.
static bool by_the_masses(const judge *g, double left, double S) {
    return left <= SMALL * S && g->prim <= SMALL * S && g->dual <= SMALL * S && g->comp <= SMALL_COMP * S * S;
}

/// |K^-1 b|_K >= b'y / |y|_K whatever y is: with y = D^-1 b, which is K^-1 b but for springs, into S, at the price of a product. Only
/// where that may do: |b|_{D^-1} is never less. Bodies at rest, whose dv says nothing, are known by this.
static void scale_by_the_masses(judge *g, double left, qpc_certificate *out) {
    const double *least = g->qp->sys->least, *b = g->qp->b;
    double *y = (double *)g->x, *Ky = (double *)g->Kx, by = 0, yKy = 0;
    if (least == NULL) return;
    for (int32_t i = 0; i < g->qp->n; i++) {
        y[i] = b[i] / least[i];
        by += b[i] * y[i];
    }
    if (!by_the_masses(g, left, energy(by))) return;
    product(g->qp->sys, y, Ky);
    for (int32_t i = 0; i < g->qp->n; i++) yKy += y[i] * Ky[i];
    if (by > out->scale * energy(yKy)) out->scale = by / energy(yKy);
}

/// r = K dv - b and |dv|_K.
static double look_at_motion(judge *g) {
    double dv2 = 0;
    product(g->qp->sys, g->dv, g->r);
    for (int32_t i = 0; i < g->qp->n; i++) {
        dv2 += g->dv[i] * g->r[i];
        g->r[i] -= g->qp->b[i];
    }
    return energy(dv2);
}

qpc_status qpc_certify(const qpc_qp *qp, const double *dv, const double *lambda, qpc_arena *arena,
                       qpc_certificate *ret, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    judge g = {.qp = qp, .dv = dv, .lambda = lambda};
    bool rough = qp->sys->blocks != NULL && !qp->sys->factored;
    if (!allocate(&g, arena)) {
        qpc_arena_rewind(arena, mark);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the certificate of %d rows", qp->m);
    }
    qpc_certificate out = {.scale = 1e-140};
    out.scale = fmax(out.scale, look_at_motion(&g));
    invert_diagonal(&g);
    look_at_rows(&g, &out);
    double left = left_at_most(&g);
    bool known = by_the_masses(&g, left, out.scale);
    if (!known) {
        scale_by_the_masses(&g, left, &out);
        known = by_the_masses(&g, left, out.scale);
    }
    if (known) {
        out.by = QPC_BY_BOUND;
    } else if (rough) {
        qpc_linsys_prepare(qp->sys);
        left = by_rough_solves(&g, left, &out);
    } else {
        qpc_status status = qpc_linsys_ensure(qp->sys, err);
        if (status != QPC_OK) {
            qpc_arena_rewind(arena, mark);
            return status;
        }
        left = by_the_factor(&g, &out);
    }
    out.stat = left / out.scale;
    out.prim = g.prim / out.scale;
    out.dual = g.dual / out.scale;
    out.comp = g.comp / out.scale / out.scale;
    out.err = out.stat + sqrt(out.comp);
    sort_keys(g.keys, out.active);
    out.active_hash = XXH3_64bits(g.keys, (size_t)out.active * sizeof *g.keys);
    *ret = out;
    qpc_arena_rewind(arena, mark);
    return QPC_OK;
}

qpc_status qpc_is_stationary(const qpc_qp *qp, const double *dv, const double *lambda, double tolerance, qpc_arena *arena, bool *ret,
                             qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    judge g = {.qp = qp, .dv = dv, .lambda = lambda};
    qpc_certificate whole;
    g.r = qpc_arena_array(arena, (size_t)qp->n, sizeof *g.r);
    if (g.r == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the certificate of %d rows", qp->m);
    double size = look_at_motion(&g);
    for (int32_t i = 0; i < qp->m; i++)
        for (int32_t k = qp->row_start[i]; k < qp->row_start[i + 1]; k++) g.r[qp->column[k]] += lambda[i] * qp->value[k];
    *ret = left_at_most(&g) <= tolerance * size;
    qpc_arena_rewind(arena, mark);
    if (*ret) return QPC_OK;
    qpc_status status = qpc_certify(qp, dv, lambda, arena, &whole, err);
    *ret = status == QPC_OK && whole.stat <= tolerance;
    return status;
}

qpc_friction_certificate qpc_certify_friction(const qpc_qp *qp, const qpc_friction *friction, const double *dv,
                                              const double *lambda, const double *beta, double scale) {
    qpc_friction_certificate out = {0};
    double defect = 0;
    for (int32_t c = 0; c < friction->count; c++) {
        double u[2], kt2 = 0, push = lambda[friction->row[c]];
        for (int32_t k = 0; k < 2; k++) {
            double own = 0;
            u[k] = friction->u0[2 * c + k];
            for (int32_t j = friction->start[2 * c + k]; j < friction->start[2 * c + k + 1]; j++) {
                double v = friction->value[j];
                u[k] += v * dv[friction->column[j]];
                own += v * v / diagonal(qp->sys, friction->column[j]);
            }
            if (own > kt2) kt2 = own;
        }
        const double *b = beta + 2 * (int64_t)c;
        double limit = push > 0 ? friction->mu[c] * push : 0, size = sqrt(b[0] * b[0] + b[1] * b[1]);
        defect += limit * sqrt(u[0] * u[0] + u[1] * u[1]) - b[0] * u[0] - b[1] * u[1];
        if (kt2 == 0) { // between bodies that are driven
            out.sticking += push > 0 && size < limit * (1 - 1e-9);
            out.sliding += push > 0 && !(size < limit * (1 - 1e-9));
            continue;
        }
        double p[2] = {b[0] + u[0] / kt2, b[1] + u[1] / kt2}, length = sqrt(p[0] * p[0] + p[1] * p[1]);
        // What slides is off its disc by u. |beta| alone does not tell: where turns end (staggered) it is of the last lambda.
        if (push > 0) {
            out.sticking += length < limit * (1 - 1e-9);
            out.sliding += !(length < limit * (1 - 1e-9));
        }
        double part = length > limit ? limit / length : 1;
        double d[2] = {b[0] - part * p[0], b[1] - part * p[1]};
        raise(&out.natural, sqrt(d[0] * d[0] + d[1] * d[1]) * kt2);
    }
    out.defect = defect / (scale * scale);
    return out;
}
