/// K of one step: a symmetric positive definite matrix, its Cholesky factor and solves.
///
/// Two storages. Band: cables numbered along their length give half bandwidth 5 (3x3 blocks,
/// tridiagonal); direct, allocation-free after qpc_linsys_resize(). Sparse: any pattern, the lower
/// triangle by columns, rows ascending, the diagonal first and always there. It is factored by
/// the cheapest of three by their operations: the banded code (narrow patterns, 6x6 blocks of rigid bodies),
/// a dense Cholesky (small and full), CHOLMOD (factor.h; analysed once per pattern).
/// Band storage: row i holds K[i][i - bandwidth .. i] at band[i * (bandwidth + 1) + (j - i + bandwidth)];
/// places left of column 0 are kept zero. The factor is K = L D L' with unit L, so that no square
/// root and no division stands in the recurrence from row to row.
#ifndef QPC_ENGINE_DYNAMICS_LINSYS_H
#define QPC_ENGINE_DYNAMICS_LINSYS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum qpc_linsys_kind { QPC_LINSYS_BAND, QPC_LINSYS_SPARSE } qpc_linsys_kind;

/// How a sparse K is solved with; chosen by its pattern alone.
typedef enum qpc_linsys_method {
    QPC_LINSYS_BY_BAND,    // own L D L' of the envelope, in the order given: no overhead
    QPC_LINSYS_BY_DENSE,   // L L', column-major (dense.h)
    QPC_LINSYS_BY_CHOLMOD,
} qpc_linsys_method;

typedef struct qpc_linsys {
    qpc_linsys_kind kind;
    qpc_linsys_method method; // sparse only
    int32_t width;            // sparse: half bandwidth of the pattern
    int32_t n, bandwidth; // bandwidth: band only, else 0
    int32_t *start, *row; // sparse: (n + 1), (start[n]) lower triangle by columns
    double *value;        // sparse: (start[n])
    struct qpc_factor *sparse; // by CHOLMOD: the factor; else it is in `factor`, n x (width + 1) or n x n
    struct qpc_blocks *blocks; // sparse, not small, narrow or dense: K in blocks of 3x3, for conjugate gradients; else NULL
    double *cg;                // with blocks: scratch of conjugate gradients
    double operations;         // sparse: floating-point operations of a factorisation
    double *least;             // (n) or NULL, the caller's: a diagonal D with K - D positive semidefinite (masses)
    double *free;         // with blocks: (n) if `guessed` about K^-1 b of the QP before, of qpc_linsys_solve_like_last(); else NULL
    double *left;         // with blocks: (n) if `left_known` about K^-1 r of the residual r that an engine measured last; else NULL
    double *work;         // sparse: (n x 4) scratch of a block solve
    double *band;     // (n x (bandwidth + 1)) lower band of K
    double *factor;   // the same shape: L of K = L D L' below the diagonal, 1 / D on it
    double *diagonal; // (n) copy of diag(K)
    int64_t capacity; // doubles allocated in band and in factor each
    bool solvable;           // by CHOLMOD: solves have their memory
    bool guessed, left_known;
    bool factored, prepared; // the factor, the blocks are those of K as it stands
    uint64_t factorizations, solves, cg_steps; // exact work counts
} qpc_linsys;

qpc_status qpc_linsys_resize(qpc_linsys *sys, int32_t n, int32_t bandwidth, qpc_error *err);
/// Any pattern (copied): ordered and analysed here, K = 0. QPC_ERR_INVALID for a pattern that is not as
/// above; on any failure sys is as before.
qpc_status qpc_linsys_resize_sparse(qpc_linsys *sys, int32_t n, const int32_t *start, const int32_t *row,
                                    qpc_error *err);
/// The same; inside (n / 3, or NULL): nodes that no row is ever on, which conjugate gradients make use of (sweep.h).
qpc_status qpc_linsys_resize_soft(qpc_linsys *sys, int32_t n, const int32_t *start, const int32_t *row, const uint8_t *inside,
                                  qpc_error *err);
void qpc_linsys_fini(qpc_linsys *sys);
void qpc_linsys_clear(qpc_linsys *sys); // K = 0
/// Where K[i][j], j <= i, is stored: in the band, or a place of the pattern (NULL: it has none).
double *qpc_linsys_entry(qpc_linsys *sys, int32_t i, int32_t j);
/// Band only: K[i][j] += v for j <= i, i - j <= bandwidth
static inline void qpc_linsys_add(qpc_linsys *sys, int32_t i, int32_t j, double v) {
    sys->band[(int64_t)i * (sys->bandwidth + 1) + (j - i + sys->bandwidth)] += v;
}
/// All stored values of K and their number, to look for what is not finite.
const double *qpc_linsys_values(const qpc_linsys *sys, int64_t *ret_count);
/// Factor of K; QPC_ERR_NUMERIC naming the row if K is not positive definite or not finite.
qpc_status qpc_linsys_factor(qpc_linsys *sys, qpc_error *err);
/// The same, unless that has been done since qpc_linsys_clear().
qpc_status qpc_linsys_ensure(qpc_linsys *sys, qpc_error *err);
/// What has to be done before products and conjugate gradients: the diagonal and the blocks of K as it
/// stands. qpc_linsys_factor() does it as well; again costs nothing until qpc_linsys_clear().
void qpc_linsys_prepare(qpc_linsys *sys);
/// x = K^-1 rhs; x may be rhs. Where K has blocks and no factor yet: conjugate gradients down to a residual
/// of 1e-14 of rhs in M^-1 (blocks.h), or as far as doubles go.
void qpc_linsys_solve(qpc_linsys *sys, const double *rhs, double *x);
/// The same, all of it by a factor; else from a guess (n, or NULL: 0) down to a residual of `tolerance` of rhs, or as far as
/// `most` steps go (0: 2,000).
void qpc_linsys_solve_roughly(qpc_linsys *sys, const double *rhs, const double *guess, double tolerance, int32_t most,
                              double *x);
/// x = K^-1 rhs roughly, with blocks and no factor: from what the last such call came to (sys->guessed), and where the next begins.
void qpc_linsys_solve_like_last(qpc_linsys *sys, const double *rhs, double tolerance, double *x);
/// y = K x, from K as stored, not from the factor.
void qpc_linsys_multiply(const qpc_linsys *sys, const double *x, double *y);
/// The same by blocks where there are any, which are made; x and y (n up to a multiple of 3).
void qpc_linsys_product(qpc_linsys *sys, const double *x, double *y);
/// Four right-hand sides at once, x (n x 4) row-major, in place; with a band about the time of two single
/// ones.
enum { QPC_LINSYS_BLOCK = 4 };
void qpc_linsys_solve_block(qpc_linsys *sys, double *x);
/// X = K^-1 X, (n x columns) column by column, in place: the way to K^-1 J' for many rows. By CHOLMOD
/// 32 columns at once. QPC_ERR_MEMORY leaves X undefined.
qpc_status qpc_linsys_solve_many(qpc_linsys *sys, double *X, int32_t columns, qpc_error *err);

/// The kernels, on bare arrays of the shape above: for matrices that are not a step's K.
/// Returns the first row whose pivot is not positive and finite, or -1. Rows below `from` are taken as
/// factored already (K has not changed there).
int32_t qpc_band_factor(int32_t n, int32_t bandwidth, const double *K, double *factor,
                        int32_t from);
void qpc_band_solve(int32_t n, int32_t bandwidth, const double *factor, double *x);
void qpc_band_solve_block(int32_t n, int32_t bandwidth, const double *factor, double *x);
void qpc_band_multiply(int32_t n, int32_t bandwidth, const double *K, const double *x, double *y);

#endif
