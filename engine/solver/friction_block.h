/// Inside qpc_solve_friction: rows and contacts as scaled blocks, for the exact modes that do not form W.
///
/// A block is a row, or a contact with its two tangents: lines h of H = (-J; T), scaled by root = sqrt(rho), so that with
/// x = r / root and y = root u all rows are alike. What these modes share: the making of blocks, the natural map,
/// the augmented Lagrangian of the convex problem with its minimum along a step, and reports
/// (docs/theory-friction.md). One thread; memory is the caller's.
#ifndef QPC_ENGINE_SOLVER_FRICTION_BLOCK_H
#define QPC_ENGINE_SOLVER_FRICTION_BLOCK_H

#include "engine/solver/cones.h"

#include <math.h>

enum { QPC_BLOCK_COLUMNS = 12 }; // of a row and its tangents

typedef struct qpc_friction_block {
    double h[3][QPC_BLOCK_COLUMNS], offset[3]; // lines of H, and c or u0
    double root, mu;
    int32_t column[QPC_BLOCK_COLUMNS], columns, size, contact; // contact: of the friction, or -1
    qpc_block_kind kind;
    bool far;                 // chain: reaches beyond the band
    bool in;                  // has carried something: outside, x = 0 and the row holds
    uint8_t state, side;      // at the natural map; in the step (0: not in the matrix)
    double x[3], y[3], f[3];  // the iterate and its map
    double best[3];           // x of the least |F|
    double center[3], slide;  // of the augmented Lagrangian; mu |y_T| as taken
    double R;                 // its weight
    double C[3][3], g[3], dy[3];
} qpc_friction_block;

/// Directions of P' on the boundary, P' = a a' + part p p': along the ray, around the cone; q: its normal, of P' = 0.
typedef struct qpc_friction_turn {
    double a[3], p[3], q[3], part;
} qpc_friction_turn;

static inline double qpc_friction_length(double a, double b) { // of numbers that are scaled
    return sqrt(a * a + b * b);
}

static inline qpc_friction_turn qpc_friction_turn_of(double mu, const double *z) {
    double t = qpc_friction_length(z[1], z[2]), one = 1 / sqrt(1 + mu * mu), c = z[1] / t, s = z[2] / t;
    return (qpc_friction_turn){{one, mu * c * one, mu * s * one}, {0, -s, c}, {mu * one, -c * one, -s * one},
                               mu * (z[0] + mu * t) * one * one / t};
}

/// Asked once, of a problem that is still far from solved where most have come near: do its rows contradict? Then no law of
/// friction has a solution and the rest would be in vain. NULL: not asked. QPC_OK or why it could not be told.
typedef struct qpc_friction_doubt {
    qpc_status (*contradict)(void *context, bool *ret, qpc_error *err);
    void *context;
} qpc_friction_doubt;

/// Every row, with its tangents, has its columns in the room there is.
bool qpc_friction_blocks_fit(const qpc_qp *qp, const qpc_friction *friction);
/// Number of each row's contact, or -1, into contact_of (m).
void qpc_friction_contacts_of(const qpc_qp *qp, const qpc_friction *friction, int32_t *contact_of);
/// Row i with its contact (or -1), not scaled yet.
void qpc_friction_block_make(const qpc_qp *qp, const qpc_friction *friction, int32_t i, int32_t contact, qpc_friction_block *b);
/// Scaled by rho of W = h K^-1 h' or of what stands for it (size x size), and x from the impulses of row i.
void qpc_friction_block_scale(qpc_friction_block *b, const double *W, double lambda, const double *beta);
/// h dv, without the offset; rhs += h'd.
void qpc_friction_block_velocity(const qpc_friction_block *b, const double *dv, double *ret);
void qpc_friction_block_push(const qpc_friction_block *b, const double *d, double *rhs);
/// F at x, y of all blocks; its norm (DBL_MAX: not finite).
double qpc_friction_blocks_map(qpc_friction_block *blocks, int32_t count);

/// z = center - R (y + slide e_N) and x = P(z). 0: open, 1: inside, 2: on the boundary.
uint8_t qpc_friction_multiplier(const qpc_friction_block *b, const double *y, double *z, double *x);
/// To where the slope of phi along dy is flat, phi's quadratic part having the slope linear + t curve; start: that of phi at 0.
double qpc_friction_line_search(const qpc_friction_block *blocks, int32_t count, double start, double linear, double curve);

/// Residuals and states by the definitions, into found.
void qpc_friction_blocks_report(const qpc_friction_block *blocks, int32_t count, double scale, qpc_friction_report *found);
/// lambda (m) and beta from x.
void qpc_friction_blocks_impulses(const qpc_friction_block *blocks, int32_t count, int32_t contacts, double *lambda, double *beta);

#endif
