/// Friction under a budget that is too small for Coulomb's law: one step of its fixed point a QP, from the impulses of the step
/// before, so that it gets there over a few steps where a world slides or rests steadily.
///
/// beta_k <- the part within mu lambda_k of beta_k + u_k / a_k, u_k the tangential velocity of the motion at hand; a_k the compliance
/// by the masses alone, each mass shared by the contacts that it is in, so that all of them together do not overshoot.
/// Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static double inverse_mass(const qpc_world *w, int32_t column) {
    return 1.0 / (column < 3 * w->free_count ? w->mass[column / 3] : w->sys.diagonal[column]); // K of rigid bodies is M
}

/// For each column, how many contacts that push are in it.
static void count_contacts(const qpc_world *w, int32_t *count) {
    const qpc_rub *rub = &w->rub;
    memset(count, 0, 3 * (size_t)w->block_count * sizeof *count);
    for (int32_t k = 0; k < rub->row.count; k++) {
        if (!(w->rows.lambda[rub->row.data[k]] > 0.0)) continue;
        for (int32_t e = rub->start.data[2 * k]; e < rub->start.data[2 * k + 2]; e++)
            if (rub->value.data[e] != 0.0) count[rub->column.data[e]]++;
    }
    // Both tangents of a contact are in a column of a node, or one is.
    for (int32_t i = 0; i < 3 * w->block_count; i++) count[i] = (count[i] + 1) / 2;
}

qpc_status qpc_step_guess_friction(qpc_world *w, const double *dv, qpc_error *err) {
    const qpc_rub *rub = &w->rub;
    qpc_arena_mark mark = qpc_arena_get_mark(&w->arena);
    int32_t *count = qpc_arena_array(&w->arena, 3 * (size_t)w->block_count, sizeof *count);
    if (count == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "no memory for the friction of %d contacts", rub->row.count);
    count_contacts(w, count);
    for (int32_t k = 0; k < rub->row.count; k++) {
        double *beta = rub->beta.data + 2 * k, soft = 0.0, lambda = w->rows.lambda[rub->row.data[k]];
        if (!(lambda > 0.0)) continue;
        double u[2] = {rub->u0.data[2 * k], rub->u0.data[2 * k + 1]};
        for (int a = 0; a < 2; a++) {
            double sum = 0.0;
            for (int32_t e = rub->start.data[2 * k + a]; e < rub->start.data[2 * k + a + 1]; e++) {
                int32_t column = rub->column.data[e];
                double value = rub->value.data[e];
                sum += value * value * inverse_mass(w, column) * count[column];
                if (dv != NULL) u[a] += value * dv[column];
            }
            soft = fmax(soft, sum);
        }
        if (!(soft > 0.0)) continue;
        for (int a = 0; a < 2; a++) beta[a] += u[a] / soft; // solve.c keeps it within mu lambda
    }
    qpc_arena_rewind(&w->arena, mark);
    return QPC_OK;
}
