/// Inside the friction solvers: one cone complementarity problem, scaled, and the methods that work
/// on it.
///
/// Unknowns are blocks: a contact (N, T1, T2) in its Coulomb cone, a half-line (a row without
/// friction), a free unknown (an equality), or a disc (the friction of a contact whose normal
/// impulse is given). With r = sqrt(rho_k) S x and u = S / sqrt(rho_k) y, rho_k = 1 /
/// lambda_max(W_kk), units and masses are gone:
///     y = A x + p,   natural map F(x) = x - P(x - y - mu |y_T| e_N),   its norm is the natural
///     residual.
/// One thread; all memory from the arena.
#ifndef QPC_ENGINE_SOLVER_CONES_H
#define QPC_ENGINE_SOLVER_CONES_H

#include "base/mem.h"
#include "engine/solver/friction.h"

typedef enum qpc_block_kind {
    QPC_BLOCK_CONTACT,   // 3 unknowns
    QPC_BLOCK_HALF_LINE, // 1, >= 0
    QPC_BLOCK_FREE,      // 1
    QPC_BLOCK_DISC,      // 2, |x| <= radius
} qpc_block_kind;

static inline int32_t qpc_block_size(qpc_block_kind kind) {
    return kind == QPC_BLOCK_CONTACT ? 3 : kind == QPC_BLOCK_DISC ? 2 : 1;
}

typedef struct qpc_cone_problem {
    int32_t count, size; // blocks, unknowns
    const uint8_t *kind; // (count) qpc_block_kind
    const int32_t *at;   // (count + 1) first unknown
    double *mu;          // (count) contacts: mu; discs: radius, in the units of x
    double *A;           // (size x size) by rows
    double *p;           // (size)
    double *root;        // (count) sqrt(rho)
    double scale;        // S
} qpc_cone_problem;

/// What the natural map saw at some x: all (size) but state and side.
typedef struct qpc_natural {
    double *y, *z, *f;
    uint8_t *state; // (count) 0 open, 1 sticking (inside), 2 on the boundary
    double norm;
} qpc_natural;

/// Scale A and p in place (they come in as W and q, the radii of discs as they are). rho: NULL, or
/// per block (0: its own).
void qpc_cone_scale(qpc_cone_problem *problem, const double *rho);
bool qpc_natural_alloc(qpc_natural *natural, const qpc_cone_problem *problem, qpc_arena *arena);
/// One block: z = x - y^ and F out; 0 open, 1 inside, 2 on the boundary.
uint8_t qpc_natural_block(qpc_block_kind kind, double mu, const double *x, const double *y,
                          double *z, double *f);
/// F at x and its norm.
void qpc_natural_map(const qpc_cone_problem *problem, const double *x, qpc_natural *natural);

/// Semismooth Newton from x, which it replaces by the best iterate. goal: where it stops; enough:
/// where it stops unless it converges fast; patient: take Levenberg steps where Newton's give no
/// descent; steps: at most. *ret_steps is added to. QPC_ERR_MEMORY.
qpc_status qpc_cone_newton(const qpc_cone_problem *problem, double goal, double enough,
                           bool patient, int32_t steps, qpc_arena *arena, double *x,
                           double *ret_norm, int32_t *ret_steps, qpc_error *err);

/// Newton on the law as Alart and Curnier have it, with a proximal term: for contacts that depend on each other. No discs. x: start in,
/// best iterate by the natural residual out; down to `goal`. *ret_steps is added to. QPC_ERR_MEMORY.
qpc_status qpc_cone_alart(const qpc_cone_problem *problem, double goal, int32_t steps, qpc_arena *arena, double *x, double *ret_norm,
                          int32_t *ret_steps, qpc_error *err);

/// Interior point on the cones. follow > 0: De Saxce's term goes this part of the way to that of
/// the last iterate (a fixed point, one outer an iteration; 1 all the way); 0: it enters with its
/// derivative.
typedef struct qpc_interior {
    bool derivative, symmetric;
    bool held;             // slide stays as it was set
    double follow, *slide; // (count) |y_T| as taken
    double *x, *y;         // (size) in the cones' own metric
    double gap, residual;
    int32_t iterations, idle, most; // most: may be lowered
    double best;                    // least natural residual so far, of
    double *best_x;                 // (size), in the problem's metric
    double *matrix;                 // (size x size) D^-1 A D^-1 + H^2
    double *inverse;                // (size) 1 / D, D = (mu, 1, 1) on contacts
    int *pivots;
} qpc_interior;
qpc_status qpc_interior_init(qpc_interior *interior, const qpc_cone_problem *problem, double start,
                             double follow, qpc_arena *arena, qpc_error *err);
/// Iterate until the natural residual of x (out) is <= target. *ret_stuck: it does not get further.
qpc_status qpc_interior_run(qpc_interior *interior, const qpc_cone_problem *problem, double target,
                            qpc_arena *arena, double *x, bool *ret_stuck, qpc_error *err);

/// One convex problem, with slide held, as far as doubles carry it. x: out.
qpc_status qpc_interior_converge(qpc_interior *interior, const qpc_cone_problem *problem,
                                 qpc_arena *arena, double *x, qpc_error *err);
/// De Saxce's fixed point with its convex problems solved to the end, moving by `damping` of the
/// way, where the above go round in circles. x: best iterate in and out. The counts are added to;
/// their sum ends it at max_steps.
qpc_status qpc_cone_fixed_point(const qpc_cone_problem *problem, double damping, int32_t most,
                                double goal, double tolerance, int32_t max_steps, qpc_arena *arena,
                                double *x, double *ret_norm, int32_t *ret_outers,
                                int32_t *ret_newton, qpc_error *err);
/// Rounds of sweeps (an outer step each), from zero, Newton after each. As above.
qpc_status qpc_cone_sweep(const qpc_cone_problem *problem, int32_t rounds, int32_t sweeps,
                          double goal, double tolerance, int32_t max_steps, qpc_arena *arena,
                          double *x, double *ret_norm, int32_t *ret_outers, int32_t *ret_newton,
                          qpc_error *err);

/// All of it: Newton from x, then interior point and Newton in turn, max_steps of both together at
/// most (0: own bound). x: warm start in, best iterate out.
qpc_status qpc_cone_solve(const qpc_cone_problem *problem, double tolerance, int32_t max_steps,
                          qpc_arena *arena, double *x, double *ret_norm, int32_t *ret_outers,
                          int32_t *ret_newton, qpc_error *err);
/// Discs only: block Gauss-Seidel and Newton in turn.
qpc_status qpc_disc_solve(const qpc_cone_problem *problem, double tolerance, qpc_arena *arena,
                          double *x, double *ret_norm, qpc_error *err);

/// Normal and friction impulses in turn, at most cap times (0 or more than 50: 50).
qpc_status qpc_cone_stagger(const qpc_cone_problem *problem, double tolerance, int32_t cap,
                            qpc_arena *arena, double *x, double *ret_norm, int32_t *ret_iterations,
                            qpc_error *err);

/// LAPACK: LU of a general matrix and Cholesky of a symmetric one, n x n, by rows or columns alike.
bool qpc_lu_solve(int32_t n, double *matrix, bool by_rows, int *pivots, double *x, bool factored);
bool qpc_cholesky_solve(int32_t n, double *matrix, double *x, bool factored);
/// What contacts add up to in a report.
typedef struct qpc_contact_sums {
    double natural, penetration, cone, complementarity, dissipation;
} qpc_contact_sums;
/// One contact's share, from u, r, mu and rho alone; counts it as sticking, sliding or open.
void qpc_contact_judge(double mu, double rho, const double *u, const double *r,
                       qpc_contact_sums *sums, qpc_friction_report *report);
void qpc_contact_sums_finish(const qpc_contact_sums *sums, double scale,
                             qpc_friction_report *report);
/// BLAS on one thread, once.
void qpc_cone_set_up(void);
/// 1 / lambda_max of the symmetric part of a block of 1 to 3 (1 where that is not positive).
double qpc_cone_rho(int32_t n, const double *block, int64_t stride);

#define QPC_CONE_MEMORY(err, problem)                                                              \
    qpc_fail((err), QPC_ERR_MEMORY, "out of memory for a friction problem of %d unknowns",         \
             (problem)->size)

#endif
