/// M^-1 (K + E) in the unknowns W'd, W = D + L (Eisenstat): with t = W^-T p and K + E = W + W' - D,
///     W^-1 (K + E) t = t + W^-1 (p - D t),
/// and D t is what the sweep down leaves of p. Residuals are kept as W^-1 r; their square in M^-1 is that in D.
#include "engine/dynamics/ssor.h"

#include "base/cpu.h"

#include <math.h>
#include <string.h>

// With rows a solve in the coarse space, A_c's factor included, costs what these steps do without and with it.
enum { MANY_PLAIN = 20, MANY_COARSE = 8 };

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef float oct __attribute__((vector_size(32), aligned(4), may_alias));
typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));

static inline quad load(const float *a) { return *(const quad *)a; }
static inline void store(float *a, quad v) { *(quad *)a = v; }
static inline quad splat(quad v, int k) { return (quad){v[k], v[k], v[k], v[k]}; }

// Eight at a time; macros, since functions that return so much have another ABI without AVX.
#define AT8(a) (*(oct *)(a))
#define LOAD8(a) (*(const oct *)(a))
#define BESIDE(a, b) __builtin_shufflevector(load(a), load(b), 0, 1, 2, 3, 4, 5, 6, 7) // two nodes

/// The symmetric block of a position times v.
static inline quad times(const float *blocks, int32_t position, quad v) {
    const float *m = blocks + qpc_sweep_diagonal(position);
    quad x = {m[0], m[8], m[16], 0}, y = {m[8], m[24], m[32], 0}, z = {m[16], m[32], m[40], 0};
    return x * splat(v, 0) + y * splat(v, 1) + z * splat(v, 2);
}

/// The sums of a, b and c over their lanes; the last lane is zero.
static inline quad across(quad a, quad b, quad c) {
    quad zero = {0};
    quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), c0 = __builtin_shufflevector(c, zero, 0, 4, 1, 5);
    quad abz = __builtin_shufflevector(a, b, 2, 6, 3, 7), cz = __builtin_shufflevector(c, zero, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, c0, 0, 1, 4, 5) + __builtin_shufflevector(ab, c0, 2, 3, 6, 7) +
           __builtin_shufflevector(abz, cz, 0, 1, 4, 5);
}

/// Sums in double precision, one for each lane.
typedef struct sums {
    pair low, high;
} sums;

static inline void add(sums *s, quad v) {
    s->low += (pair){(double)v[0], (double)v[1]};
    s->high += (pair){(double)v[2], (double)v[3]};
}
static inline double total(const sums *s) { return (s->low[0] + s->low[1]) + (s->high[0] + s->high[1]); }

int64_t qpc_ssor_couplings(int32_t m, const int32_t *row_start, const int32_t *column) {
    int64_t couplings = 0;
    for (int32_t i = 0; i < m; i++) {
        int64_t nodes = 0;
        for (int32_t k = row_start[i]; k < row_start[i + 1]; k++)
            nodes += k == row_start[i] || column[k] / 3 != column[k - 1] / 3;
        couplings += nodes * (nodes - 1) / 2;
    }
    return couplings;
}

/// Of what stands there without a coarse space.
static size_t plain_size(const qpc_blocks *K, int64_t couplings) {
    size_t nodes = (size_t)K->count, blocks = (size_t)couplings, groups = (size_t)K->sweep.groups;
    size_t floats = (2 * QPC_SWEEP_DIAGONAL + 5 * 4 * QPC_SWEEP_LANES) * groups + 12 * blocks + 2, ints = 2 * nodes + 2 + blocks;
    return 9 * nodes + floats / 2 + ints / 2 + nodes / 8 + 3;
}

size_t qpc_ssor_size(const qpc_blocks *K, bool rows, int64_t couplings) {
    size_t size = plain_size(K, couplings);
    if (K->coarse == NULL) return size;
    size += 6 * ((size_t)K->coarse->count + 1) + 4 * QPC_SWEEP_LANES * (size_t)K->sweep.groups;
    return size + (rows ? (size_t)qpc_coarse_factor_size(K->coarse, couplings) : 0);
}

static void init_coarse(qpc_ssor *s, bool rows, double *memory) {
    const qpc_coarse *z = s->K->coarse;
    size_t nodes = QPC_SWEEP_LANES * (size_t)s->K->sweep.groups, entries = 4 * ((size_t)z->count + 1);
    s->rows = rows;
    s->c = memory;
    s->mu = (float *)(memory + entries);
    s->l = s->mu + entries; // and as much again for the direction
    memset(s->mu, 0, (entries + 8 * nodes) * sizeof *s->mu);
    if (rows) qpc_coarse_factor_init(z, &s->own, (double *)(s->l + 8 * nodes));
}

void qpc_ssor_init(qpc_ssor *s, const qpc_blocks *K, bool rows, int64_t couplings, double *memory) {
    size_t nodes = (size_t)K->count, diagonal = QPC_SWEEP_DIAGONAL * (size_t)K->sweep.groups, vector = 4 * QPC_SWEEP_LANES * (size_t)K->sweep.groups;
    *s = (qpc_ssor){.K = K, .couplings = couplings, .wide = memory, .unit = 1, .kernels = qpc_ssor_kernels_of(-1)};
    float *f = (float *)(memory + 9 * nodes);
    s->own_D = f;
    s->own_inverse = f + diagonal;
    s->D = K->sweep.diagonal;
    s->inverse = K->sweep.inverse;
    s->r = f + 2 * diagonal;
    s->p = s->r + vector;
    s->t = s->p + vector;
    s->q = s->t + vector;
    s->d = s->q + vector;
    s->extra = s->d + vector;
    for (size_t k = 4 * nodes; k < vector; k++) s->r[k] = s->p[k] = s->t[k] = s->q[k] = s->d[k] = 0; // past the last node
    s->start = (int32_t *)(s->extra + 12 * (size_t)couplings);
    s->touched = s->start + nodes + 2;
    s->column = s->touched + nodes;
    s->is_touched = (uint8_t *)(s->column + couplings);
    memset(s->start, 0, (nodes + 2) * sizeof *s->start);
    s->way = s->t;
    if (K->coarse != NULL && K->coarse->pays) init_coarse(s, rows, memory + plain_size(K, couplings));
}

/// The next node of a row from entry k on: its position, v (3) = its part of the row, scaled; the entry behind it.
static int32_t next_node(const qpc_ssor *s, const int32_t *column, const double *value, int32_t k, int32_t end, int32_t *node,
                         double *v) {
    int32_t own = column[k] / 3;
    *node = s->K->sweep.position[own];
    v[0] = v[1] = v[2] = 0;
    for (; k < end && column[k] / 3 == own; k++) v[column[k] % 3] += s->K->scale[own] * value[k];
    return k;
}

static void add_block(qpc_ssor *s, double R, int32_t i, const double *vi, int32_t j, const double *vj) {
    if (i == j) { // a row that comes back to a node
        double *D = s->wide + 9 * (int64_t)i;
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) D[3 * r + c] += R * (vi[r] * vj[c] + vj[r] * vi[c]);
        return;
    }
    if (i < j) {
        int32_t node = i;
        const double *v = vi;
        i = j, vi = vj, j = node, vj = v;
    }
    int32_t place = s->start[i + 1]++;
    float *out = s->extra + 12 * (int64_t)place;
    s->column[place] = j;
    for (int c = 0; c < 3; c++) {
        for (int r = 0; r < 3; r++) out[4 * r + c] = (float)(R * vi[r] * vj[c]);
        out[4 * c + 3] = 0;
    }
}

/// D and D^-1 of a position from what is in `wide`.
static bool round_diagonal(qpc_ssor *s, int32_t i) {
    return qpc_sweep_round(s->wide + 9 * (int64_t)i, i, s->own_D, s->own_inverse);
}

/// D of a position is K's alone.
static void reset_diagonal(qpc_ssor *s, int32_t i) {
    int64_t at = qpc_sweep_diagonal(i);
    for (int e = 0; e < 6; e++, at += QPC_SWEEP_LANES) {
        s->own_D[at] = s->K->sweep.diagonal[at];
        s->own_inverse[at] = s->K->sweep.inverse[at];
    }
    s->is_touched[i] = 0;
}

/// With rows: from K's to own ones.
static void start_diagonal(qpc_ssor *s) {
    size_t size = QPC_SWEEP_DIAGONAL * (size_t)s->K->sweep.groups;
    s->started = true;
    memcpy(s->own_D, s->K->sweep.diagonal, size * sizeof *s->own_D);
    memcpy(s->own_inverse, s->K->sweep.inverse, size * sizeof *s->own_inverse);
    memset(s->is_touched, 0, (size_t)s->K->count);
    s->D = s->own_D;
    s->inverse = s->own_inverse;
}

static void add_diagonal(qpc_ssor *s, int32_t i, double R, const double *v) {
    double *D = s->wide + 9 * (int64_t)i;
    if (!s->is_touched[i]) {
        qpc_blocks_diagonal(s->K, i, D);
        s->is_touched[i] = 1;
        s->touched[s->touched_count++] = i;
    }
    for (int k = 0; k < 9; k++) D[k] += R * v[k / 3] * v[k % 3];
}

/// The factor of A_c: K's is at hand; one of K + E has to be worth it.
static void use_coarse(qpc_ssor *s, const qpc_coarse_rows *rows) {
    const qpc_coarse *z = s->K->coarse;
    s->factor = rows->listed > 0 ? &s->own : &z->factor;
    s->coarse = rows->listed == 0 || (s->rows && s->many_steps && qpc_coarse_factor_make(z, rows, &s->own)) ? z : NULL;
    s->way = s->coarse != NULL ? s->l + 4 * QPC_SWEEP_LANES * (int64_t)s->K->sweep.groups : s->t;
}

bool qpc_ssor_prepare(qpc_ssor *s, int32_t listed, const int32_t *list, const int32_t *row_start, const int32_t *column,
                      const double *value, const double *R) {
    int32_t count = s->K->count, a, b, before = s->touched_count;
    double va[3], vb[3];
    if (!s->K->definite) return false;
    if (!s->started && listed > 0) start_diagonal(s);
    for (int32_t k = 0; k < before; k++) reset_diagonal(s, s->touched[k]); // back to K's
    s->touched_count = 0;
    memset(s->start, 0, ((size_t)count + 2) * sizeof *s->start);
    for (int fill = 0; fill < 2; fill++) { // blocks of each row are counted, then placed
        for (int32_t l = 0; l < listed; l++) {
            int32_t i = list[l], end = row_start[i + 1];
            for (int32_t k = row_start[i]; k < end;) {
                k = next_node(s, column, value, k, end, &a, va);
                if (fill == 1) add_diagonal(s, a, R[i], va);
                for (int32_t k2 = k; k2 < end;) {
                    k2 = next_node(s, column, value, k2, end, &b, vb);
                    if (fill == 1)
                        add_block(s, R[i], a, va, b, vb);
                    else if (a != b)
                        s->start[(a > b ? a : b) + 2]++;
                }
            }
        }
        for (int32_t i = 0; i < count && fill == 0; i++) s->start[i + 2] += s->start[i + 1];
    }
    for (int32_t k = 0; k < s->touched_count; k++)
        if (!round_diagonal(s, s->touched[k])) return false;
    qpc_coarse_rows rows = {listed, list, row_start, column, value, R};
    if (s->l != NULL) use_coarse(s, &rows);
    return true;
}

#define TARGET
#define NAME(x) base_##x
#include "engine/dynamics/ssor_lanes.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAME(x) avx2_##x
#include "engine/dynamics/ssor_lanes.h"
#endif

struct qpc_ssor_kernels {
    double (*start)(qpc_ssor *s, const double *rhs, double unit);
    void (*sweep_down)(qpc_ssor *s);
    double (*sweep_up)(qpc_ssor *s);
    double (*begin)(qpc_ssor *s);
    double (*advance)(qpc_ssor *s, float alpha);
    void (*next_direction)(qpc_ssor *s, float beta);
    void (*product)(qpc_ssor *s);
    void (*restrict_to)(qpc_ssor *s);
    void (*take_coarse)(qpc_ssor *s);
    void (*collect)(qpc_ssor *s);
    double (*sweep_up_coarse)(qpc_ssor *s, float beta);
    double (*start_late)(qpc_ssor *s);
    void (*left_product)(qpc_ssor *s, int32_t g0, const int32_t *from, const float *y);
    double (*follow)(qpc_ssor *s, float step);
};

static const qpc_ssor_kernels kernels[] = {
    {base_start, base_sweep_down, base_sweep_up, base_begin, base_advance, base_next_direction, base_product,
     base_restrict_to, base_take_coarse, base_collect, base_sweep_up_coarse,
     base_start_late, base_left_product, base_follow},
#if defined(__x86_64__)
    {avx2_start, avx2_sweep_down, avx2_sweep_up, avx2_begin, avx2_advance, avx2_next_direction, avx2_product,
     avx2_restrict_to, avx2_take_coarse, avx2_collect, avx2_sweep_up_coarse,
     avx2_start_late, avx2_left_product, avx2_follow},
#endif
};

const qpc_ssor_kernels *qpc_ssor_kernels_of(int32_t set) {
    int32_t widest = qpc_has_avx2() ? 1 : 0;
    return set < 0 ? &kernels[widest] : set <= widest ? &kernels[set] : NULL;
}

double qpc_ssor_start(qpc_ssor *s, const double *rhs) {
    const qpc_blocks *K = s->K;
    double largest = 0;
    for (int32_t i = 0; i < K->count; i++) {
        double a = fabs(rhs[3 * i]), b = fabs(rhs[3 * i + 1]), c = fabs(rhs[3 * i + 2]);
        double size = (a < b ? (b < c ? c : b) : (a < c ? c : a)) * K->scale[i] + 0 * (a + b + c); // NaN stays
        if (!(size <= largest)) largest = size;
    }
    if (!isfinite(largest)) return largest;
    int exponent = 0;
    (void)frexp(largest, &exponent);
    s->unit = ldexp(1, exponent); // a power of two: no rounding
    double inverse_unit = 1 / s->unit;
    if (!(isfinite(inverse_unit) && s->unit > 0)) s->unit = inverse_unit = 1; // next to nothing
    return s->unit * sqrt(fmax(s->kernels->start(s, rhs, inverse_unit), 0));
}

/// One product with a new direction: its curvature.
static double go_down_and_up(qpc_ssor *s, float beta) {
    s->kernels->sweep_down(s);
    if (s->coarse == NULL) return s->kernels->sweep_up(s);
    s->kernels->collect(s);
    qpc_coarse_solve(s->coarse, s->factor, s->c, s->mu);
    return s->kernels->sweep_up_coarse(s, beta);
}

/// d = Z A_c^-1 Z'rhs, and r what is left: only what such a d cannot do is left to the steps.
static void begin_coarse(qpc_ssor *s) {
    s->kernels->restrict_to(s);
    qpc_coarse_solve(s->coarse, s->factor, s->c, s->mu);
    s->kernels->take_coarse(s);
}

/// Conjugate gradients from r: d, and the |residual|_{M^-1} reached, both in units of `unit`.
static double run_cg(qpc_ssor *s, double target, int32_t most) {
    const qpc_ssor_kernels *run = s->kernels;
    target /= s->unit;
    float beta = 0;
    int64_t before = s->steps;
    s->work = 0;
    if (s->coarse != NULL) begin_coarse(s);
    double rz = run->begin(s);
    for (int32_t step = 0; step < most && rz > target * target; step++) {
        s->steps++;
        double curve = go_down_and_up(s, beta);
        if (!(curve > 0)) {
            s->lost = true;
            break;
        }
        double last = rz;
        rz = run->advance(s, (float)(last / curve));
        s->work += last / curve * last;
        beta = (float)(rz / last);
        if (s->coarse == NULL) run->next_direction(s, beta);
    }
    s->many_steps = s->steps - before >= (s->coarse != NULL ? MANY_COARSE : MANY_PLAIN);
    return sqrt(rz);
}

double qpc_ssor_solve(qpc_ssor *s, double target, int32_t most, double *d) {
    double reached = run_cg(s, target, most);
    for (int32_t i = 0; i < s->K->count; i++)
        for (int a = 0; a < 3; a++) d[3 * i + a] = s->unit * s->K->scale[i] * (double)s->d[4 * s->K->sweep.position[i] + a];
    return s->unit * reached;
}

void qpc_ssor_product(qpc_ssor *s, double *Kd) {
    const qpc_blocks *K = s->K;
    s->kernels->product(s);
    for (int32_t i = 0; i < K->count; i++)
        for (int a = 0; a < 3; a++) Kd[3 * i + a] = s->unit / K->scale[i] * (double)s->t[4 * K->sweep.position[i] + a];
}

// ---- residuals that are followed ----

size_t qpc_ssor_late_size(const qpc_blocks *K) {
    return (12 * QPC_SWEEP_LANES + 1) * (size_t)K->sweep.groups / 2 + 1;
}

void qpc_ssor_late_init(qpc_ssor *s, int32_t m, const int32_t *row_start, const int32_t *column, double *memory) {
    const qpc_sweep *w = &s->K->sweep;
    size_t vector = 4 * QPC_SWEEP_LANES * (size_t)w->groups;
    s->sigma = (float *)memory;
    s->sum = s->sigma + vector;
    s->before = s->sum + vector;
    s->slot_from = (int32_t *)(s->before + vector);
    memset(s->sigma, 0, 3 * vector * sizeof *s->sigma);
    s->first = w->count;
    for (int32_t k = 0; k < row_start[m]; k++)
        if (w->position[column[k] / 3] < s->first) s->first = w->position[column[k] / 3];
    s->first -= s->first % QPC_SWEEP_LANES;
    for (int32_t g = s->first / QPC_SWEEP_LANES; g < w->groups; g++) {
        int32_t k = w->slot_start[g];
        for (bool reaches = false; k < w->slot_start[g + 1]; k++) {
            const int32_t *c = w->slot_column + QPC_SWEEP_LANES * (int64_t)k;
            for (int32_t l = 0; l < QPC_SWEEP_LANES; l++) // where there is no block, the column is the node's own
                reaches |= c[l] >= 4 * s->first && c[l] != 4 * (QPC_SWEEP_LANES * g + l);
            if (reaches) break;
        }
        s->slot_from[g] = k;
    }
}

/// q: zero before `first`, a vector behind it.
static void take_late(qpc_ssor *s, const float *from) {
    size_t before = 4 * (size_t)s->first, size = 4 * QPC_SWEEP_LANES * (size_t)s->K->sweep.groups;
    memset(s->q, 0, before * sizeof *s->q);
    memcpy(s->q + before, from + before, (size - before) * sizeof *s->q);
}

/// t = W r behind `first`, without what reaches before it.
static void lift(qpc_ssor *s) {
    take_late(s, s->r);
    s->kernels->left_product(s, s->first / QPC_SWEEP_LANES, s->slot_from, s->q);
}

double qpc_ssor_late_start(qpc_ssor *s, const double *rhs) {
    size_t before = 4 * (size_t)s->first, size = 4 * QPC_SWEEP_LANES * (size_t)s->K->sweep.groups;
    double norm = qpc_ssor_start(s, rhs);
    if (!isfinite(norm)) return norm;
    lift(s);
    memcpy(s->sigma + before, s->t + before, (size - before) * sizeof *s->t);
    memcpy(s->before, s->r, before * sizeof *s->r);
    memset(s->d, 0, size * sizeof *s->d); // no step yet
    s->inner = s->kernels->follow(s, 0);
    return norm;
}

void qpc_ssor_late_push(qpc_ssor *s, int32_t columns, const int32_t *column, const double *value) {
    for (int32_t k = 0; k < columns; k++) {
        int32_t node = column[k] / 3;
        s->sigma[4 * s->K->sweep.position[node] + column[k] % 3] += (float)(s->K->scale[node] / s->unit * value[k]);
    }
}

double qpc_ssor_late_restart(qpc_ssor *s) {
    take_late(s, s->sigma);
    return s->unit * sqrt(fmax(s->kernels->start_late(s) + s->inner, 0));
}

void qpc_ssor_late_solve(qpc_ssor *s, double target, int32_t most, double *d) {
    const qpc_sweep *w = &s->K->sweep;
    memcpy(s->before, s->r, 4 * (size_t)s->first * sizeof *s->r);
    (void)run_cg(s, target, most);
    for (int32_t i = s->first; i < w->count; i++)
        for (int a = 0; a < 3; a++) d[3 * w->node[i] + a] = s->unit * s->K->scale[w->node[i]] * (double)s->d[4 * i + a];
}

double qpc_ssor_late_work(const qpc_ssor *s) { return s->unit * s->unit * s->work; }

/// t += E d
static void add_rows(qpc_ssor *s) {
    const float *K = s->K->sweep.diagonal;
    for (int32_t k = 0; k < s->touched_count; k++) {
        int32_t i = s->touched[k];
        quad d = load(s->d + 4 * (int64_t)i), sum = times(s->D, i, d) - times(K, i, d);
        for (int32_t e = s->start[i]; e < s->start[i + 1]; e++) {
            float *other = s->t + 4 * (int64_t)s->column[e];
            sum += base_gather(s->column, s->extra, e, e + 1, s->d);
            store(other, load(other) + base_turned(s->extra + 12 * (int64_t)e, d));
        }
        store(s->t + 4 * (int64_t)i, load(s->t + 4 * (int64_t)i) + sum);
    }
}

void qpc_ssor_late_follow(qpc_ssor *s, double step) {
    int64_t size = 4 * QPC_SWEEP_LANES * (int64_t)s->K->sweep.groups;
    float a = (float)step;
    lift(s);
    add_rows(s); // (K + E) d is what the recurrence has taken off, K d is less
    for (int64_t k = 4 * (int64_t)s->first; k < size; k++) s->sigma[k] += a * (s->t[k] - s->sigma[k]);
    s->inner = s->kernels->follow(s, a);
}

void qpc_ssor_late_forget(qpc_ssor *s) { memcpy(s->r, s->before, 4 * (size_t)s->first * sizeof *s->r); }

void qpc_ssor_late_collect(qpc_ssor *s, double *dv) {
    const qpc_sweep *w = &s->K->sweep;
    for (int32_t i = 0; i < w->count; i++)
        for (int a = 0; a < 3; a++) dv[3 * i + a] += s->unit * s->K->scale[i] * (double)s->sum[4 * w->position[i] + a];
    memset(s->sum, 0, 4 * QPC_SWEEP_LANES * (size_t)w->groups * sizeof *s->sum);
}

void qpc_ssor_late_residual(qpc_ssor *s, double *ret) {
    const qpc_sweep *w = &s->K->sweep;
    s->kernels->left_product(s, 0, NULL, s->r);
    for (int32_t i = 0; i < w->count; i++)
        for (int a = 0; a < 3; a++) ret[3 * i + a] = s->unit / s->K->scale[i] * (double)s->t[4 * w->position[i] + a];
}
