/// Substitutions with the factor that CHOLMOD made, without its overhead of a call and its
/// gathering of one right-hand side after the other: one at a time, or eight side by side.
#ifndef QPC_ENGINE_DYNAMICS_FACTOR_SOLVE_H
#define QPC_ENGINE_DYNAMICS_FACTOR_SOLVE_H

#include <stdint.h>

/// L of L L', supernodal (factor_lanes.h) or by columns (value_start and row_start are one then).
typedef struct qpc_supernodes {
    int32_t n, count;           // count: supernodes, 0 where L is stored by columns
    const int32_t *column;      // (count + 1) first columns
    const int32_t *row_start;   // (count + 1), or (n) by columns
    const int32_t *row_count;   // by columns: (n) entries, the diagonal first
    const int32_t *value_start; // (count + 1)
    const int32_t *row;
    const double *value;
} qpc_supernodes;

enum { QPC_FACTOR_LANES = 8 };
/// Instruction sets; all give the same bits.
typedef enum qpc_factor_width {
    QPC_FACTOR_BASE,
    QPC_FACTOR_AVX2,
    QPC_FACTOR_AVX512
} qpc_factor_width;
qpc_factor_width qpc_factor_widest(void); // that this processor has

/// x = (L L')^-1 x; below: scratch (n + 8).
void qpc_supernodes_solve(const qpc_supernodes *L, qpc_factor_width width, double *x,
                          double *below);
/// The same for x (n x 8) by rows.
void qpc_supernodes_solve_lanes(const qpc_supernodes *L, qpc_factor_width width, double *x);

#endif
