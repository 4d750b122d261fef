/// The end of a step out of budget (T42): what drives bodies gives way to what the best iterate did not solve.
///
/// The motion that there is may collide, squeeze what is closer than the acceptance distance, or gain energy. It is settled and
/// slowed down; where that is not enough because something driven goes on, kinematic bodies are held back from round to round,
/// then moving pins, and the same iterate is settled again. All of it is bounded and counts in no budget.
/// Runs on the worker in the world.
#include "engine/world/attempt.h"

#include <string.h>

static const double SQUEEZED = 0.9; // of a separation: nothing kinematic makes use of what is below
enum { TRIED_STEPS = 8 }; // a body that stood in the step before is let go in every so manieth one only

typedef struct iterate { // what the budget came to
    double *dv, *lambda, *beta;
    int32_t rows, rubs;
    bool absurd, impact;
} iterate;

static bool keep(qpc_world *w, const qpc_trial *t, iterate *it) {
    size_t n = 3 * (size_t)w->block_count, m = (size_t)w->rows.m, r = 2 * (size_t)w->rub.row.count;
    it->dv = qpc_arena_array(&w->arena, n + m + r, sizeof(double));
    if (it->dv == NULL) return false;
    it->lambda = it->dv + n;
    it->beta = it->lambda + m;
    it->rows = w->rows.m;
    it->rubs = w->rub.row.count;
    it->absurd = t->absurd;
    it->impact = t->impact;
    memcpy(it->dv, w->dv, n * sizeof(double));
    if (m > 0) memcpy(it->lambda, w->rows.lambda, m * sizeof(double));
    if (r > 0) memcpy(it->beta, w->rub.beta.data, r * sizeof(double));
    return true;
}

void qpc_step_order_pins(qpc_world *w) {
    for (int32_t i = 0; i < w->pin_count; i++) {
        int32_t node = w->pins[i].node;
        v3_store(w->dv + 3 * node, v3_sub(v3_load(w->v_frame + 3 * node), v3_load(w->v + 3 * node)));
    }
}

/// The iterate again, with what drives held back as it is by now.
static qpc_status take_back(qpc_world *w, qpc_trial *t, const iterate *it, qpc_error *err) {
    memcpy(w->dv, it->dv, 3 * (size_t)w->block_count * sizeof(double));
    for (int32_t i = 0; i < w->rows.m; i++) w->rows.lambda[i] = i < it->rows ? it->lambda[i] : 0.0;
    for (int32_t r = 0; r < 2 * w->rub.row.count; r++) w->rub.beta.data[r] = r < 2 * it->rubs ? it->beta[r] : 0.0;
    qpc_motion_prepare(w, t->h, t->left);
    qpc_step_order_pins(w);
    qpc_step_place_end(w, t->h, w->dv);
    qpc_trial_test_energy(w, t);
    t->absurd = it->absurd;
    qpc_status st = qpc_motion_test(w, QPC_ACCEPT_FACTOR, NULL, err);
    t->impact = it->impact || w->probe.count > 0;
    return st;
}

/// Settled and slowed down as far as it goes; *ret_free: nothing is hit or squeezed then, nothing gained, and nothing rushes off from
/// what drives.
static qpc_status mend(qpc_world *w, qpc_trial *t, bool *ret_free, qpc_error *err) {
    // Of rigid bodies alone K is M, and the sweeps go on solving what the budget did not.
    bool more = t->impact || (t->limited && w->free_count == 0);
    qpc_status st = more ? qpc_step_settle(w, t, err) : QPC_OK;
    if (st == QPC_OK && (t->absurd || qpc_trial_gains(w, t))) st = qpc_step_slow_down(w, t, err);
    if (st == QPC_OK) st = qpc_motion_test_strictly(w, err);
    t->impact = w->probe.count > 0;
    bool rushes = false;
    if (st == QPC_OK && !t->impact) st = qpc_press_rushes(w, t, &rushes, err); // and there is no hit that names what drives it
    *ret_free = !t->impact && !rushes;
    return st;
}

/// Where something kinematic stood in the step before, the first round would find that again.
static int32_t first_round(const qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++)
        if (w->bodies[i].stood && w->step % TRIED_STEPS != 0) return 1;
    return 0;
}

static bool drives(const qpc_world *w) {
    for (int32_t i = 0; i < w->body_count; i++)
        if (qpc_motion_is_driven(&w->bodies[i]) && w->bodies[i].hold > 0.0) return true;
    return false;
}

/// Something kinematic goes on while pairs come closer that are squeezed already, though not as far as may not be: into w->probe.
static qpc_status find_pressed(qpc_world *w, bool *ret_any, qpc_error *err) {
    *ret_any = false;
    if (w->step % TRIED_STEPS == 0 || !drives(w)) return QPC_OK;
    qpc_status st = qpc_motion_find_squeezed(w, SQUEEZED, err);
    *ret_any = w->probe.count > 0;
    return st;
}

qpc_status qpc_step_wind_up(qpc_world *w, qpc_trial *t, qpc_error *err) {
    iterate it = {0};
    bool is_free = false, pressed = false;
    int32_t count = 0;
    qpc_status st = t->impact || t->limited ? qpc_step_go_on(w, t, err) : QPC_OK;
    if (st == QPC_OK && !keep(w, t, &it)) st = qpc_fail(err, QPC_ERR_MEMORY, "no memory to end a step out of budget");
    if (st == QPC_OK) st = mend(w, t, &is_free, err);
    for (int32_t round = first_round(w); st == QPC_OK && round < QPC_HOLD_ROUNDS; round++) {
        if (is_free && ((st = find_pressed(w, &pressed, err)) != QPC_OK || !pressed)) break;
        if (is_free && round > 1) break; // pins go on
        if ((st = qpc_failsafe_hold(w, round, &count, err)) != QPC_OK || count == 0) continue;
        if ((st = take_back(w, t, &it, err)) == QPC_OK) st = mend(w, t, &is_free, err);
    }
    return st;
}
