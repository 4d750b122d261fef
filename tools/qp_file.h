/// Files of QPs, LCPs and friction problems with verified solutions (layout:
/// tests/data/qp/README.md), read with every array checked: sizes against the file's, patterns,
/// indices, numbers that must be finite.
///
/// Nothing is taken from the file's word: what is allocated is never more than a few times what the
/// file holds. Whether K is positive definite and whether the stored solutions are solutions,
/// qp_score.h tells.
#ifndef QPC_TOOLS_QP_FILE_H
#define QPC_TOOLS_QP_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum qp_kind { QP_KIND_QP = 1, QP_KIND_LCP = 2, QP_KIND_FRICTION = 3 } qp_kind;

typedef struct qp_matrix { // compressed rows (columns for K)
    int32_t *start, *index;
    double *value;
} qp_matrix;

/// Arrays that a kind does not have are NULL.
typedef struct qp_file {
    qp_kind kind;
    // QP: unknowns and rows; LCP: unknowns (nv) and contacts (N); friction: 3 m unknowns, m
    // contacts
    int32_t n, m, equalities;
    qp_matrix K;            // QP: lower triangle by columns
    qp_matrix J;            // QP: (m x n); LCP: (m x n), impulses act along +J'
    qp_matrix A;            // LCP: (m x m) J diag(1/M) J'; friction: W (3m x 3m)
    double *b, *c;          // QP: (n), (m); LCP: b (m)
    int32_t *type, *row_id; // QP: (m) 1: equality; stable ids
    double *kappa;          // QP: (m)
    double *x, *lam;        // QP: solution
    double *relax, *farkas; // QP, infeasible ones: (m)
    double *mass, *velocity, *eps, *f, *w, *v_plus; // LCP
    double *q, *mu, *r, *u;                         // friction
    int32_t *state;
    double *objective;
    double scale; // S
    bool infeasible;
} qp_file;

/// QPC_ERR_CORRUPT with a sentence that names the array and the index; ret is then untouched.
qpc_status qp_file_parse(const uint8_t *bytes, size_t size, qp_file *ret, qpc_error *err);
/// The same from disk; QPC_ERR_IO or QPC_ERR_NOT_FOUND too. The path is not part of the message.
qpc_status qp_file_read(const char *path, qp_file *ret, qpc_error *err);
void qp_file_fini(qp_file *file);

#endif
