/// The least-squares problem of GMRES by Givens rotations: column j of a Hessenberg matrix is made
/// upper triangular as it comes, |e[j + 1]| is the residual after it. Memory is the caller's.
#ifndef QPC_ENGINE_SOLVER_HESSENBERG_H
#define QPC_ENGINE_SOLVER_HESSENBERG_H

#include <math.h>
#include <stdint.h>

enum { QPC_HESSENBERG_MOST = 60 };

typedef struct qpc_hessenberg {
    double R[QPC_HESSENBERG_MOST][QPC_HESSENBERG_MOST + 1], c[QPC_HESSENBERG_MOST],
        s[QPC_HESSENBERG_MOST], e[QPC_HESSENBERG_MOST + 1];
} qpc_hessenberg;

/// Column j, its entries 0 .. j + 1 in R[j].
static inline void qpc_hessenberg_rotate(qpc_hessenberg *h, int32_t j) {
    double *column = h->R[j];
    for (int32_t i = 0; i < j; i++) {
        double a = column[i], b = column[i + 1];
        column[i] = h->c[i] * a + h->s[i] * b;
        column[i + 1] = -h->s[i] * a + h->c[i] * b;
    }
    double size = hypot(column[j], column[j + 1]);
    h->c[j] = size > 0 ? column[j] / size : 1;
    h->s[j] = size > 0 ? column[j + 1] / size : 0;
    column[j] = size;
    h->e[j + 1] = -h->s[j] * h->e[j];
    h->e[j] *= h->c[j];
}

/// The weights of `count` vectors, into e[0 .. count).
static inline void qpc_hessenberg_solve(qpc_hessenberg *h, int32_t count) {
    for (int32_t i = count - 1; i >= 0; i--) {
        for (int32_t k = i + 1; k < count; k++) h->e[i] -= h->R[k][i] * h->e[k];
        h->e[i] /= h->R[i][i];
    }
}

#endif
