/// Conjugate gradients on K + E, E = J_A'R J_A of some rows, to a few digits, in single precision.
///
/// Preconditioned by symmetric Gauss-Seidel in blocks of 3x3 over the whole of K + E = L + D + L':
/// M = (D + L) D^-1 (D + L)'. In the unknowns (D + L)'d one product with the preconditioned matrix costs one
/// sweep up and one down, which is what a product with K + E alone costs (Eisenstat 1981). An inexact Newton
/// step or one round of iterative refinement needs no more digits; who wants more forms the residual in double
/// precision and asks again.
/// On large, stiff meshes they are deflated by a coarse space (coarse.h; Saad, Yeung, Erhel, Guyomarc'h 2000): a step
/// costs one product with L'Z up and one down more, and a solve with A_c; with rows only after a solve that took many
/// steps, since A_c has to be factored anew whenever the rows change.
/// Where solve follows solve and only what rows do changes in between, residuals are followed without products (T55): the rows reach
/// positions from `first` on, so that W^-1 of a residual stays what it is before it, and behind it comes from
/// sigma = residual - (blocks that reach before `first`) W^-1 residual, in which no row is. Sums run in a fixed order; memory from the caller; any thread.
#ifndef QPC_ENGINE_DYNAMICS_SSOR_H
#define QPC_ENGINE_DYNAMICS_SSOR_H

#include "engine/dynamics/blocks.h"
#include "engine/dynamics/coarse.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct qpc_ssor_kernels qpc_ssor_kernels; // the sweeps for an instruction set

typedef struct qpc_ssor {
    const qpc_blocks *K;
    const qpc_ssor_kernels *kernels;
    double *wide;              // (count x 9) D of touched positions before it is rounded
    int32_t *touched;          // (count) positions whose D is not K's alone
    int32_t touched_count;
    uint8_t *is_touched;       // (count)
    const float *D, *inverse;  // (groups x QPC_SWEEP_DIAGONAL) as in a sweep, D^-1 alike: K's, or with rows own ones
    float *own_D, *own_inverse;
    float *r, *p, *t, *q, *d;  // (groups x 8 x 4) three unknowns and a zero
    float *way, *l;            // alike: the direction, t itself without a coarse space; L' of it
    int32_t *start, *column;   // (count + 1), blocks of E left of the diagonal, as those of K
    float *extra;              // (couplings x 12)
    int64_t couplings;         // room for those
    double unit;               // of r: right-hand sides are taken in units of their size
    int64_t steps;             // CG steps so far: exact work count
    const qpc_coarse *coarse;  // in use; else NULL
    qpc_coarse_factor own;     // of A_c with rows
    const qpc_coarse_factor *factor; // own, or K's
    double *c;                 // (aggregates + 1 by 4)
    float *mu;                 // alike, zeros at the end
    int32_t first;             // what rows reach begins there, at a group
    int32_t *slot_from;        // (groups) first slot that reaches no less far, from `first` on
    float *sigma, *sum, *before; // as r: see above; steps taken, since the last qpc_ssor_collect(); r before a solve
    double inner, work;        // r'D r before `first`; d'rhs of the last solve, by the recurrence, in units of unit^2
    bool rows;                 // may have rows
    bool many_steps;           // the last solve took so many that A_c with rows would pay
    bool started;              // the own ones are in use
    bool lost;                 // a direction without curvature was met: K + E is not positive definite
} qpc_ssor;

/// Pairs of nodes that rows couple, each a block of E.
int64_t qpc_ssor_couplings(int32_t m, const int32_t *row_start, const int32_t *column);
/// Doubles that one needs (rows: E will not always be 0), and to place it there; E = 0.
size_t qpc_ssor_size(const qpc_blocks *K, bool rows, int64_t couplings);
void qpc_ssor_init(qpc_ssor *s, const qpc_blocks *K, bool rows, int64_t couplings, double *memory);
/// E = J_A'R J_A of the rows (listed) of J (CSR); false if a block of D is not positive definite.
bool qpc_ssor_prepare(qpc_ssor *s, int32_t listed, const int32_t *list, const int32_t *row_start, const int32_t *column,
                      const double *value, const double *R);
/// |rhs|_{M^-1}; what a solve of the same rhs (3 count) starts from is kept.
double qpc_ssor_start(qpc_ssor *s, const double *rhs);
/// After qpc_ssor_start(): d (3 count) = (K + E)^-1 rhs until |residual|_{M^-1} <= target or `most` steps are
/// done; the |residual|_{M^-1} reached, as the recurrence has it.
double qpc_ssor_solve(qpc_ssor *s, double target, int32_t most, double *d);
/// Kd (3 count) = K d of the d that was solved for last, in single precision.
void qpc_ssor_product(qpc_ssor *s, double *Kd);

/// ---- residuals that are followed (without a coarse space only) ----

/// Floats and integers in doubles that this takes besides; place them there. Rows (CSR) as for qpc_ssor_couplings().
size_t qpc_ssor_late_size(const qpc_blocks *K);
void qpc_ssor_late_init(qpc_ssor *s, int32_t m, const int32_t *row_start, const int32_t *column, double *memory);
/// qpc_ssor_start() of the residual that is followed from now on.
double qpc_ssor_late_start(qpc_ssor *s, const double *rhs);
/// residual += J'x of one row or block of rows: its columns and values.
void qpc_ssor_late_push(qpc_ssor *s, int32_t columns, const int32_t *column, const double *value);
/// |residual|_{M^-1} after pushes and another E.
double qpc_ssor_late_restart(qpc_ssor *s);
/// qpc_ssor_solve() of the residual; d of the nodes that rows may reach. Not lost: one of the two below has to follow.
void qpc_ssor_late_solve(qpc_ssor *s, double target, int32_t most, double *d);
/// d'residual of that solve.
double qpc_ssor_late_work(const qpc_ssor *s);
/// residual -= step K d
void qpc_ssor_late_follow(qpc_ssor *s, double step);
/// That solve has not been.
void qpc_ssor_late_forget(qpc_ssor *s);
/// dv += the steps followed; those are zero then.
void qpc_ssor_late_collect(qpc_ssor *s, double *dv);
/// The residual itself, after a restart (or a start) without another E since.
void qpc_ssor_late_residual(qpc_ssor *s, double *ret);

/// Kernels of instruction set 0 (any processor), 1 (AVX2), or the widest there is (-1), which is what
/// qpc_ssor_init() takes; NULL if this processor lacks it. All give the same bits.
const qpc_ssor_kernels *qpc_ssor_kernels_of(int32_t set);

#endif
