/// Cholesky factor K = L L' of a sparse matrix, for judging alone: shares no line with the
/// engine's.
///
/// Columns in the order of the file, left-looking, no reordering: slow, but short enough to check
/// by reading.
#ifndef QPC_TOOLS_QP_CHOLESKY_H
#define QPC_TOOLS_QP_CHOLESKY_H

#include "tools/qp_file.h"

typedef struct qp_cholesky {
    int32_t n;
    int64_t *start; // (n + 1)
    int32_t *row;   // ascending in a column, the diagonal first
    double *value;
} qp_cholesky;

enum { QP_CHOLESKY_MOST = 100000000 }; // entries of L: 1.2 GB
/// K as in qp_file: lower triangle by columns. QPC_ERR_CORRUPT if it is not positive definite,
/// QPC_ERR_LIMIT beyond QP_CHOLESKY_MOST, QPC_ERR_MEMORY.
qpc_status qp_cholesky_init(qp_cholesky *L, int32_t n, const qp_matrix *K, qpc_error *err);
void qp_cholesky_fini(qp_cholesky *L);
/// x = L^-1 x; x is zero before `from`.
void qp_cholesky_forward(const qp_cholesky *L, int32_t from, double *x);
/// x = L'^-1 x.
void qp_cholesky_backward(const qp_cholesky *L, double *x);

#endif
