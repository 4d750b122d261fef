/// Inside of a step: the files that share one attempt at a motion.
///
///   linearise.c   K and b, rows, warm multipliers: what a QP of the step is made of
///   solve.c       the QPs of a try: budget, friction, rows that contradict
///   attempt.c     predict, correct, collide, accept: one try of a motion of length h
///   lost.c        contacts that a prediction leaves behind, cables that it stretches
///   giveway.c     strain limits that contradict what is driven
///   press.c       driven bodies that press harder than the world can follow
///   windup.c      how a step out of budget ends
///   sweeps.c      steps out of budget whose QP is not solved, and small
///   settle.c      steps out of budget that would collide
///   slowdown.c    steps out of budget that gain energy
///   energy.c      work, reactions and the energy test of a try
///   standstill.c  bodies that no step can move stand, the rest goes on
///   step.c        halving, holding back, cutting, committing; the report
///
/// Everything runs on the one thread that is in the world.
#ifndef QPC_ENGINE_WORLD_ATTEMPT_H
#define QPC_ENGINE_WORLD_ATTEMPT_H

#include "engine/world/world.h"

#include <time.h>

#define QPC_ENERGY_TOLERANCE 1e-6 // of the energy scale
#define QPC_STAT_TOLERANCE 1e-6   // relative stationarity of an optimal answer

/// What an attempt has found out about itself.
typedef struct qpc_trial {
    double h, left;
    bool cautious;                  // rows at x and of hits only, see predict()
    bool gentle;                    // nothing is pushed out: rows ask for the present gap at most
    bool last_pass;                 // no further passes
    bool watched;                   // its prediction may be too far from where it leads (T44, T45)
    bool divided;                   // and it is a part of one that did not do as a whole
    bool divisible;                 // it may be tried in halves where it is too long for its contacts
    bool lost;                      // its prediction is out of reach of contacts that pushed before
    bool gaining;                   // it gained energy with the corrections that the scene allows
    bool overshoots;                // its prediction stretches cables by far more than they carry (T45)
    bool rough;                     // by so much, or with so much that the QP did not know of, that it needs corrections
    bool too_long;                  // and what follows does not settle: no answer, smaller steps are next
    bool settled;                   // the first QP is the answer: its rows were made where it led
    bool renew;                     // a rigid body was hit: rows are made anew
    bool swerves;                   // one turns so fast near something that its arcs are not what was tested
    bool loose;                     // the next QP is only a way to another
    bool hits;                      // the next QP has rows of hits beside those of the last one
    bool unfinished;                // the last one was, and its motion stands for the answer until hits are known
    bool exhausted;                 // the budget of the step is used up: no further tries either
    bool contradiction;             // rows exclude each other, and the attempt is given up
    bool giving;                    // since now more limits give way
    bool walls;                     // contacts alone contradict
    bool pressing;                  // rows that contradict and name what drives a body end it
    bool pressed;                   // that is how it ended: no answer
    bool squeezed;                  // what hits added contradicts again after rows gave way
    bool relaxed, stalled, limited; // outcome of its last QP
    bool impact;                    // something would come closer than the acceptance distance
    bool tight;                     // not that, but it ends nearer than passes let be: smaller steps may do better
    bool absurd;                    // or the answer makes no sense
    bool broken;                    // an engine ran into infinity: everything stands still instead
    bool runaway;                   // that was so before the motion was slowed down
    bool doubtful;                  // energy is gained and the QP was not solved as it stood
    double near;                    // when something first comes within the pass distance, 1 if nothing does
    double excess;                  // energy test: max of both figures over the scale
    bool pushes;                    // pushing out does more than it may: energy is gained
    double overpush;                // so many times as much
    double fastest_push;            // m/s, of its rows with a force: less than they may, where little is left
    bool patient;                   // Newton goes on until energy holds, whatever the scene says
    bool downhill;                  // no corrections: the first QP at x, whose answer points where energy falls
    double energy, kinetic, potential, elastic, work, work_pushed, elastic_most, height_low, height_high;
    double energy_bound;            // S of the test, without driven work
    double energy_scale, energy_step, energy_drift; // what is reported, with it
    int32_t newton, passes;
    int32_t held_back;              // driven bodies and pins that are not let go all of their way
    double *work_of;                // (bodies) part of work that goes into each; NULL: nobody asks
    double apart;                   // m, that joints are left open by beyond what may be: smaller steps may do better
    int32_t apart_joint;            // the one that is most
    double relaxation;
    double given;                   // by limits that give way, m/s
    double unmeetable;              // that rows between known nodes ask for, m/s: nobody's answer, and nothing else is relaxed for it
    int32_t relaxations;            // rows relaxed so often
    int32_t unsolved;               // QPs that the solver gave up
} qpc_trial;

static inline int64_t qpc_clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/// Adds the wall time since *since to *sum and restarts it.
static inline void qpc_lap(int64_t *since, int64_t *sum) {
    int64_t now = qpc_clock_ns(CLOCK_MONOTONIC);
    *sum += now - *since;
    *since = now;
}

// ---- keyed.c ----
typedef struct qpc_keyed {
    uint64_t key;
    int32_t item;
} qpc_keyed;
/// By key, equal ones in the order given; spare (count): scratch. The result is in whichever of the two is returned.
qpc_keyed *qpc_keyed_sort(qpc_keyed *list, qpc_keyed *spare, int32_t count);

// ---- solve.c ----
/// Iterations that the step may still take; INT32_MAX: there is no budget.
int32_t qpc_step_budget_left(const qpc_world *w);
/// Solve the QP of the rows, with friction, into dv (multipliers in rows.lambda), from a guess of it if start is not NULL. Rows
/// that contradict end a bold attempt (t->contradiction), and a cautious one if limits may give way (t->giving); else they are
/// relaxed.
qpc_status qpc_step_solve(qpc_world *w, qpc_trial *t, const double *start, double *dv, qpc_error *err);
static inline bool qpc_has_cloth(const qpc_world *w) { return w->springs.other != NULL; }

// ---- linearise.c ----
/// K = M + h^2 H(x), b = h f(x) + sign h^2 H u, fixed nodes eliminated (T1, T4, T5); factored by whoever needs it.
void qpc_step_assemble(qpc_world *w, double h, const double *x, const double *u, double sign);
/// K += what contacts (sorted by key) of cables' edges with round obstacles resist turning by, from the multipliers kept; Hu (3 n) += that times u / h^2.
void qpc_step_add_contact_curvature(qpc_world *w, double h, const qpc_contacts *contacts, const double *x, const double *u, double *Hu);
/// Whether nothing but tetrahedra is elastic, so that K of an iterate serves the next one as well (T46).
bool qpc_step_may_keep_matrix(const qpc_world *w);
/// b at x with K as it stands, of an x before: h f(x) + (K - M) u.
void qpc_step_assemble_forces(qpc_world *w, double h, const double *x, const double *u);
/// What rows of a motion of length h are linearised against.
qpc_row_frame qpc_step_frame(const qpc_world *w, double h);
/// Length of a spring at x and its unit direction from the second node to the first.
double qpc_spring_direction(const qpc_world *w, int32_t spring, const double *x, qpc_vec3 *ret_n);
/// Rows of one spring's limit with direction n; of all springs near a limit at x, or with a cut. In a
/// gentle try no row, of any kind, asks for more than the present length or gap.
qpc_status qpc_step_add_strain_row(qpc_world *w, const qpc_trial *t, int32_t spring, qpc_vec3 n, bool maximum,
                                   qpc_error *err);
qpc_status qpc_step_add_strain_rows(qpc_world *w, const qpc_trial *t, const double *x, qpc_error *err);
/// Merge w->probe into w->predicted; then rows of w->predicted, of w->near, of one hit.
qpc_status qpc_step_merge_predicted(qpc_world *w, qpc_error *err);
qpc_status qpc_step_add_predicted_rows(qpc_world *w, double h, qpc_error *err);
qpc_status qpc_step_add_near_rows(qpc_world *w, const qpc_trial *t, qpc_error *err);
qpc_status qpc_step_add_impact_row(qpc_world *w, const qpc_trial *t, const qpc_contact *c, qpc_error *err);
/// Rows of strain limits (level 2) or contacts (level 1) that ask for more than to keep the present length
/// or gap ask for that only; *largest grows to the largest change, m/s. False: there are none.
/// A vector along the spring of a strain limit as its row has it, on the first end: the constraint pulls that by -lambda n. 0: neither end is free.
qpc_vec3 qpc_step_limit_direction(const qpc_world *w, int32_t row);
bool qpc_step_drop_pushes(qpc_world *w, int32_t level, double *largest);
void qpc_step_clear_rows(qpc_world *w);
/// Multipliers by row key: kept after a solve, given to new rows before the next.
qpc_status qpc_step_keep_warm(qpc_world *w, double h, qpc_error *err);
qpc_status qpc_step_start_warm(qpc_world *w, double h, qpc_error *err);

// ---- momentum.c ----
/// Of K dv + J'lambda = b (lambda in rows.lambda) every group of bodies that nothing holds is translated by what is left of its sum, so that the
/// group has the momentum that forces give it (T58). QPC_ERR_MEMORY.
qpc_status qpc_momentum_balance(qpc_world *w, double *dv, qpc_error *err);

// ---- lost.c ----
/// Of the motion that is taken over: which nodes are pushed.
void qpc_lost_keep(qpc_world *w);
/// Of a run that begins: what is in w->near counts.
void qpc_lost_start(qpc_world *w);
/// Whether more than a few of the nodes that were pushed before have no contact in w->probe.
bool qpc_lost_look(qpc_world *w);
/// Compare the first answer of a motion, placed in x1, with the prediction that it was linearised at (T45): t->overshoots, t->rough.
/// w->lost is scratch.
void qpc_lost_compare(const qpc_world *w, qpc_trial *t);

// ---- friction.c ----
qpc_contact_law qpc_world_law(const qpc_world *w, const qpc_contact *c);
/// Arm of the place where a contact's node k, of a rigid body, is touched: w->arm and half of the way to the other side.
qpc_vec3 qpc_step_arm(const qpc_world *w, const qpc_contact *c, int k);
/// Entries of d . sum w dv of a contact's nodes, columns ascending, arms of rigid bodies as above; how many.
enum { QPC_CONTACT_ENTRIES = 24 };
int32_t qpc_step_entries(const qpc_world *w, const qpc_contact *c, qpc_vec3 d, int32_t *column, double *value);
/// Tangent rows of the rows that stand, with the impulses of the last solve; count 0: there is no friction. left_out (rows): not of these;
/// NULL: of all.
qpc_status qpc_step_make_friction(qpc_world *w, double h, const bool *left_out, qpc_friction *ret, qpc_error *err);
// ---- contradiction.c ----
/// Contacts between known nodes that are too near while nothing closes them ask for no more than to open no less than they do, 0: they are
/// named as a conflict, and t->unmeetable says by how much (T57).
qpc_status qpc_step_ask_nobody(qpc_world *w, qpc_trial *t, double tolerance, qpc_error *err);
/// Remembers for the step which bodies are in a proof, by the rows that stand.
qpc_status qpc_rub_find_contradiction(qpc_world *w, const qpc_solver_report *proof, qpc_error *err);
static inline void qpc_rub_forget_contradiction(qpc_rub *rub) {
    rub->contradicts = false;
    rub->lawless.count = 0;
}
/// qpc_step_make_friction() but for the contacts of bodies that rows join to one that is in a proof of this step.
qpc_status qpc_rub_make_lawful(qpc_world *w, double h, qpc_friction *ret, qpc_error *err);
qpc_status qpc_step_keep_friction(qpc_world *w, qpc_error *err);
/// The proof in the report that rows of w->rows contradict, for readers (conflict.c).
qpc_status qpc_step_keep_conflict(qpc_world *w, const qpc_solver_report *report, qpc_error *err);
/// A joint that a motion leaves open, if nothing is named yet.
qpc_status qpc_step_keep_open(qpc_world *w, int32_t joint, qpc_error *err);
/// Springs past limits that gave way, if there is no proof in this step.
qpc_status qpc_step_keep_given(qpc_world *w, qpc_error *err);
/// Key of the row of a spring's limit.
uint64_t qpc_step_strain_key(int32_t spring, bool maximum);
void qpc_step_drop_friction(qpc_world *w);
// ---- guess_friction.c ----
/// Impulses of friction one step of its fixed point further towards Coulomb's law at the motion dv (NULL: as it is), not yet within mu lambda.
qpc_status qpc_step_guess_friction(qpc_world *w, const double *dv, qpc_error *err);
/// Contact of the rub with that row, or -1.
int32_t qpc_rub_of_row(const qpc_rub *rub, int32_t row);
qpc_vec3 qpc_rub_impulse(const qpc_rub *rub, int32_t k);
/// Every contact with a force that has a law of friction is in the rub; true where friction is off.
bool qpc_rub_is_whole(const qpc_world *w);
/// Tangent rows of those that are not, with no impulse: what was left out is judged by the law all the same.
qpc_status qpc_rub_complete(qpc_world *w, double h, qpc_error *err);
double qpc_rub_potential(const qpc_rub *rub, const double *dv);
void qpc_rub_load(const qpc_rub *rub, int32_t n, const double *b, double *out);

// ---- giveway.c ----
/// Every limit holds again; but in most steps not those of bodies that are past theirs.
void qpc_step_hold_limits(qpc_world *w);
/// The limits of bodies whose strain rows are in the proof give way from now on; false: there are none more.
bool qpc_step_conflict_gives(qpc_world *w, const qpc_solver_report *report);
/// The same for bodies with springs that the motion leaves past a limit that should hold.
bool qpc_step_overrun_gives(qpc_world *w, const qpc_trial *t);
/// The largest length past a limit that gives way, at the end of the motion, over h; m/s.
double qpc_step_given(const qpc_world *w, double h);

// ---- press.c ----
/// qpc_trial_attempt, again with driven bodies held back as long as rows contradict because of them, or they make what they push
/// rush off.
qpc_status qpc_press_attempt(qpc_world *w, qpc_trial *t, qpc_error *err);
/// What something kinematic touches rushes off in the motion at hand.
qpc_status qpc_press_rushes(qpc_world *w, const qpc_trial *t, bool *ret_rushes, qpc_error *err);
/// How fast what is pushed at that speed may slip aside, m/s (T41).
double qpc_press_explains(const qpc_world *w, double h, double drive);
/// A row of the proof is closed by a driven body that may be held back more: marks these bodies.
bool qpc_press_is_in_proof(qpc_world *w, const qpc_solver_report *report);

// ---- slowdown.c ----
/// A step out of budget has the best iterate that there was. Where that gains energy, groups of bodies that rows join go a part
/// of their way only, with that part of their velocity, down to standing still; only those groups that gain.
qpc_status qpc_step_slow_down(qpc_world *w, qpc_trial *t, qpc_error *err);
/// Work of driven bodies through contacts, by the free body it goes into, of an unsolved QP: what it says, within what can have been
/// done to each group of bodies (T42): no less than the energy it lost, no more than its potential rose and m u^2, u the speed of
/// what drives it.
void qpc_step_bound_work(qpc_world *w, double h, double *contact);
/// Everything free stops where it is; the fail-safe holds back what drives.
void qpc_step_stand_still(qpc_world *w, qpc_trial *t);

// ---- standstill.c ----
/// A step begins: bodies that stood in the one before stand, or are tried again (w->still_retry). It ends: all are as they were made;
/// taken: who stood is counted in the report.
void qpc_still_begin(qpc_world *w);
void qpc_still_end(qpc_world *w, bool taken);
/// Marks the bodies that make the motion at hand absurd, and what joints and springs hold to them: the step is to be made again
/// without these. False: nobody is to blame, or too many were.
bool qpc_still_find(qpc_world *w, const qpc_trial *t);
/// The same for those on trial, at the first sign.
bool qpc_still_find_again(qpc_world *w);
/// In K and b, cleared of what they have: dv = -v. In v1: 0.
void qpc_still_assemble(qpc_world *w);
void qpc_still_stop(const qpc_world *w, double *v1);
/// Faster than anything explains, by far.
bool qpc_trial_is_wild(const qpc_world *w, const qpc_trial *t, int32_t body);

// ---- windup.c ----
/// dv of pins: to the velocity that they have in the motion.
void qpc_step_order_pins(qpc_world *w);
/// A step out of budget has the best iterate that there was: settled where it would collide, slowed down where it gains, and what
/// drives gives way where that is not enough. t->impact: the rest is for the fail-safe.
qpc_status qpc_step_wind_up(qpc_world *w, qpc_trial *t, qpc_error *err);

// ---- sweeps.c ----
/// The rows that stand are few enough for sweeps with K.
bool qpc_sweeps_pay(const qpc_world *w);
/// Bounded sweeps with K from the impulses of the rows that stand, which they improve; w->dv is the motion of these then.
qpc_status qpc_step_sweep(qpc_world *w, double h, qpc_error *err);

// ---- settle.c ----
/// A step out of budget goes on by bounded sweeps with K, from its best iterate and with what it hits, where rows are few: with what
/// drives as it was in the QP. t says how that went; else nothing changes.
qpc_status qpc_step_go_on(qpc_world *w, qpc_trial *t, qpc_error *err);
/// A step out of budget that would collide: what approaches is stopped, by the masses alone; what is still hit goes on
/// together or stands with what it hits. t says how that went.
qpc_status qpc_step_settle(qpc_world *w, qpc_trial *t, qpc_error *err);
/// After a step out of budget with nothing but rigid bodies free: multipliers of contacts between bodies at rest become those that hold
/// them against their loads, for readers. A body that was made to stand has none of its own.
qpc_status qpc_step_find_forces(qpc_world *w, qpc_error *err);

// ---- impact.c ----
/// Contacts that approached bounce: changes v1 (blocks x 3), the velocities that the motion ends with, and the energies of t.
qpc_status qpc_step_bounce(qpc_world *w, qpc_trial *t, double *v1, qpc_error *err);

// ---- attempt.c ----
/// Try the motion of t->h; t says how it went, w->dv and w->x1 hold it. The second form is cautious
/// from the start, see predict(); gentle: the last resort, with rows that standing still satisfies (but
/// for what is driven), passes whatever the scene says, and the default solver.
qpc_status qpc_trial_attempt(qpc_world *w, qpc_trial *t, qpc_error *err);
qpc_status qpc_trial_attempt_cautiously(qpc_world *w, qpc_trial *t, bool gentle, qpc_error *err);
/// Where pushing out does more than it may: again, pushing out by as much more slowly.
qpc_status qpc_trial_attempt_slowly(qpc_world *w, qpc_trial *t, qpc_error *err);
/// Bold, and patient: for a motion that gains energy and is not to be made in smaller parts.
qpc_status qpc_trial_attempt_patiently(qpc_world *w, qpc_trial *t, qpc_error *err);
/// Cautious, without corrections: where these do not settle, a small enough part of this motion gains nothing (T45).
qpc_status qpc_trial_attempt_downhill(qpc_world *w, qpc_trial *t, qpc_error *err);
/// Every row again where the motion is by now: those of rigid bodies are good for poses near the one they were made at only.
qpc_status qpc_step_renew_rows(qpc_world *w, qpc_trial *t, qpc_error *err);
/// Work that goes into a body.
void qpc_trial_credit(qpc_trial *t, int32_t body, double work);
/// x1 of dv: nodes and vertices of rigid bodies; driven and pinned ones are there already.
void qpc_step_place_end(qpc_world *w, double h, const double *dv);
/// Append rows for the hits of w->probe that have none yet; the number added.
qpc_status qpc_step_add_hits(qpc_world *w, qpc_trial *t, int32_t *ret_added, qpc_error *err);
/// Count the iterations of a try that is given up.
void qpc_trial_count(qpc_world *w, const qpc_trial *t);

// ---- energy.c ----
/// Energies at the end of the motion, work, reactions (as impulses) and the test of T6.
void qpc_trial_test_energy(qpc_world *w, qpc_trial *t);
/// E+ - E - W of the step and E+ - E0 - W with that energy: over the scale into t; the larger over the bound is returned.
double qpc_trial_measure_energy(const qpc_world *w, qpc_trial *t, double energy);
/// Velocity of a node over the motion, m/s; vertices of rigid bodies along their chords.
qpc_vec3 qpc_step_node_velocity(const qpc_world *w, double h, int32_t node);
/// The test fails.
bool qpc_trial_gains(const qpc_world *w, const qpc_trial *t);
/// The answer is of absurd speed and energy: far above all that moves, falls, is stretched or drives.
bool qpc_trial_is_absurd(const qpc_world *w, const qpc_trial *t);
/// dv is far faster than anything explains, the motion with `before` in its place included.
bool qpc_trial_runs_away(const qpc_world *w, const qpc_trial *t, const double *before);
/// Rows that no change of velocity below this satisfies may as well contradict, m/s.
double qpc_step_beyond(const qpc_world *w, double h);

#endif
