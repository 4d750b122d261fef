/// The exact mode where K has any pattern: what a problem is set up as, which step comes next, and the end.
///
///     phi(dv) = 1/2 dv'K dv - b'dv + sum |P(x_c - R (y + g e_N))|^2 / 2 R,    x = P(x_c - R (y + g e_N))
///
/// x_c <- x and g <- mu |y_T| as soon as the gradient of phi is small against the change that makes, both as energies: neither
/// of the two errors is pushed far below the other, as in alm_pcg.c. By conjugate gradients R stays small and grows only
/// where updates get nowhere; with a factor it grows as long as a minimum takes few steps. Worker thread of the world.
#include "engine/solver/friction_sparse.h"

#include "engine/solver/work.h"

#include <float.h>
#include <string.h>

enum {
    LEAST_CONTACTS = 24, // below that dense matrices are as fast, unless K is dear to factor
    LEAST_MILD = 4,      // or mild:
    DENSE_MOST = 40,     // contacts of which up to so many go to dense matrices, if K is cheap, when they have not settled
    SETTLING_STEPS = 40, // in so many steps
    UPDATES_MOST = 2000,
    REFRESH = 8,         // updates after which y and K dv - b are formed afresh
    SLOW_MOST = 3,
    HOPELESS = 100,      // steps after which it should be near
    FEW = 2,             // with a factor: steps a minimum, up to which R rises
    FINE_MOST = 5,       // dv is formed from x at the first look at an |F| that is small enough, but for the gradient, and at each fifth
    SETTLINGS = 4,
    PATIENCE = 3,        // updates before the first leap,
    PATIENCE_MILD = 12,
    PATIENCE_MOST = 10,  // and after one that failed
    MANY = 6,            // from which on it falls
    TURNS = 2,
    FAR_STEPS = 20,      // of a turn, at least
    FAR_MILD = 40,
    FAR_MOST = 240,
    NEAR_STEPS = 30,
};
static const double ETA = 0.1, THETA = 0.3, STRIDE = 0.3; // as in alm_pcg.c
static const double THETA_MILD = 0.05, RECOVERY = 1.4; // where K is mild; RECOVERY: of the part of the way that g goes, where that got on
static const double R_CG = 2, R_MOST_CG = 1e4, R_GROWTH = 4, HARDEN = 0.01, SOFTEN = 16; // HARDEN: of the largest energy
static const double R_FACTOR = 30, R_MOST_FACTOR = 1e8, R_FACTOR_GROWTH = 10;
static const double LEAP_AIM = 1e-3; // of the tolerance
static const double AIM = 0.1, FAR_OFF = 1e-3, LEAST_DAMPING = 0.1, NEARLY = 10; // NEARLY: of the tolerance
static const double NEAR_FACTORS = 4, CG_A_STEP = 10; // factorisations that a few steps of Newton take, conjugate gradients a step from afar
static const double FADED = 1e-4;          // part of a gradient that is left when K dv - b is formed afresh
static const double SETTLED = 1e-4;        // of what is left of the equation of dv
static const double FREE_TOLERANCE = 1e-3; // of K^-1 b, which only S needs
// K over the masses up to which it is mild: a few conjugate gradients a digit, hard rows or not. There so many times the gradient are hidden
// of |F| as a rule (measured, by settling; less is asked of answers on the way, from a tolerance of ROUGH on).
static const double MILD = 300, R_MILD = 30, FREE_MILD = 0.1, HIDES = 10, HIDES_ROUGHLY = 3, ROUGH = 1e-4;
static const double DEAR = 1e8;            // operations of a factor of K, with which dense matrices begin
static const double CG_FACTORS = 24;       // factorisations of K whose time conjugate gradients may take

bool qpc_friction_is_mild(const qpc_linsys *sys) {
    if (sys->least == NULL || !qpc_alm_pcg_pays(sys)) return false;
    for (int32_t i = 0; i < sys->n; i++)
        if (!(sys->value[sys->start[i]] <= MILD * sys->least[i])) return false;
    return true;
}

bool qpc_friction_sparse_pays(const qpc_qp *qp, const qpc_friction *friction) {
    if (qp->sys->kind != QPC_LINSYS_SPARSE || !qpc_friction_blocks_fit(qp, friction)) return false;
    if (friction->count >= LEAST_CONTACTS || (qp->sys->operations > DEAR && qpc_alm_pcg_pays(qp->sys))) return true;
    return friction->count >= LEAST_MILD && qpc_friction_is_mild(qp->sys);
}

// ---- set-up ----

static bool allocate(qpc_sheet *s) {
    size_t n = (size_t)s->qp->n + 3, m = (size_t)s->qp->m; // conjugate gradients fill the last node up
    s->blocks = qpc_arena_array(s->arena, m, sizeof *s->blocks);
    s->dv = qpc_arena_array(s->arena, 6 * n, sizeof *s->dv);
    if (s->blocks == NULL || s->dv == NULL) return false;
    memset(s->dv, 0, 6 * n * sizeof *s->dv);
    s->rest = s->dv + n;
    s->grad = s->dv + 2 * n;
    s->d = s->dv + 3 * n;
    s->Kd = s->dv + 4 * n;
    s->free_dv = s->dv + 5 * n;
    return true;
}

/// The inverse of the diagonal 3x3 block of K at a node (K beyond n is the identity).
static void invert_node(const qpc_linsys *sys, int32_t node, double inverse[9]) {
    double k[9];
    for (int32_t r = 0; r < 3; r++)
        for (int32_t c = 0; c <= r; c++) {
            int32_t i = 3 * node + r, j = 3 * node + c;
            const double *entry = i < sys->n ? qpc_linsys_entry((qpc_linsys *)(uintptr_t)sys, i, j) : NULL;
            k[3 * r + c] = k[3 * c + r] = entry != NULL ? *entry : i == j && i >= sys->n ? 1 : 0;
        }
    double a = k[4] * k[8] - k[5] * k[5], b = k[2] * k[5] - k[1] * k[8], c = k[1] * k[5] - k[2] * k[4];
    double one = 1 / (k[0] * a + k[1] * b + k[2] * c);
    inverse[0] = one * a;
    inverse[1] = inverse[3] = one * b;
    inverse[2] = inverse[6] = one * c;
    inverse[4] = one * (k[0] * k[8] - k[2] * k[2]);
    inverse[5] = inverse[7] = one * (k[1] * k[2] - k[0] * k[5]);
    inverse[8] = one * (k[0] * k[4] - k[1] * k[1]);
}

/// h D^-1 h', D the diagonal blocks of K: what stands for the block of W, which would take solves.
static void compliance(const qpc_friction_block *b, const double *inverse, double W[9]) {
    memset(W, 0, 9 * sizeof *W);
    for (int32_t k = 0; k < b->columns; k++)
        for (int32_t l = 0; l < b->columns; l++) {
            if (b->column[k] / 3 != b->column[l] / 3) continue;
            double z = inverse[9 * (int64_t)(b->column[k] / 3) + 3 * (b->column[k] % 3) + b->column[l] % 3];
            for (int32_t a = 0; a < b->size; a++)
                for (int32_t d = 0; d < b->size; d++) W[a * b->size + d] += b->h[a][k] * z * b->h[d][l];
        }
}

static qpc_status make_blocks(qpc_sheet *s, const double *lambda, const double *beta, qpc_error *err) {
    const qpc_qp *qp = s->qp;
    qpc_arena_mark mark = qpc_arena_get_mark(s->arena);
    size_t nodes = ((size_t)qp->n + 2) / 3;
    int32_t *contact_of = qpc_arena_array(s->arena, (size_t)qp->m, sizeof *contact_of);
    double *inverse = qpc_arena_array(s->arena, 9 * nodes, sizeof *inverse), W[9];
    if (contact_of == NULL || inverse == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    for (size_t k = 0; k < nodes; k++) inverse[9 * k] = -1; // not made yet
    qpc_friction_contacts_of(qp, s->friction, contact_of);
    for (int32_t i = 0; i < qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        qpc_friction_block_make(qp, s->friction, i, contact_of[i], b);
        for (int32_t k = 0; k < b->columns; k++)
            if (inverse[9 * (int64_t)(b->column[k] / 3)] == -1)
                invert_node(qp->sys, b->column[k] / 3, inverse + 9 * (int64_t)(b->column[k] / 3));
        compliance(b, inverse, W);
        qpc_friction_block_scale(b, W, lambda[i], beta);
    }
    qpc_arena_rewind(s->arena, mark);
    return QPC_OK;
}

typedef struct course { // of one solve
    double tolerance, square, scale; // scale: S
    double least, reference, damping, most; // energy of an update so far; part of the way that g goes; R at most
    double norm, doubt;      // |F| now, and what the gradient may hide of it at most
    double reach;            // doubt of a gradient in the norm of the masses
    bool mild;               // K is near the masses
    double peak;             // of the gradients since dv's equation was formed in double precision; 0: it just was
    int32_t slow, updates, since; // since: steps since the last update
    int32_t fine;                 // times that |F| was small and the gradient not
    int32_t patience, waited;     // updates between leaps
    bool linear;
} course;

/// |dy| <= reach |gradient|_{masses^-1}: K - masses is positive semidefinite, and h D^-1 h' is at most the identity.
static qpc_status make_reach(const qpc_sheet *s, course *c, qpc_error *err) {
    const qpc_qp *qp = s->qp;
    const double *least = qp->sys->least;
    qpc_arena_mark mark = qpc_arena_get_mark(s->arena);
    size_t nodes = ((size_t)qp->n + 2) / 3;
    double *use = qpc_arena_array(s->arena, nodes, sizeof *use), mu = 0;
    if (use == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    memset(use, 0, nodes * sizeof *use);
    c->reach = least == NULL ? HUGE_VAL : 0;
    c->mild = least != NULL && s->by_cg;
    for (int32_t i = 0; i < qp->m; i++) {
        const qpc_friction_block *b = s->blocks + i;
        mu = fmax(mu, b->mu);
        for (int32_t k = 0; k < b->columns; k++)
            if (k == 0 || b->column[k] / 3 != b->column[k - 1] / 3) use[b->column[k] / 3]++;
    }
    for (int32_t k = 0; k < (int32_t)nodes && least != NULL; k++) {
        double trace = 0, mass = HUGE_VAL;
        for (int32_t i = 3 * k; i < 3 * k + 3 && i < qp->n; i++) {
            trace += qp->sys->diagonal[i];
            mass = fmin(mass, least[i]);
        }
        c->mild = c->mild && trace <= 3 * MILD * mass;
        if (use[k] > 0) c->reach = fmax(c->reach, mass > 0 ? use[k] * trace / mass : HUGE_VAL);
    }
    c->reach = (1 + mu) * sqrt(c->reach);
    qpc_arena_rewind(s->arena, mark);
    return QPC_OK;
}

static void set_weights(qpc_sheet *s, double R) {
    for (int32_t i = 0; i < s->qp->m; i++) s->blocks[i].R = R;
}

static qpc_status set_up(qpc_sheet *s, course *c, const double *start, const double *lambda, const double *beta, qpc_error *err) {
    const qpc_qp *qp = s->qp;
    qpc_linsys_prepare(qp->sys);
    s->by_cg = qpc_alm_pcg_pays(qp->sys);
    qpc_status st = qp->sys->blocks == NULL ? qpc_linsys_ensure(qp->sys, err) : QPC_OK;
    if (st != QPC_OK) return st;
    if (!allocate(s)) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    if ((st = make_blocks(s, lambda, beta, err)) != QPC_OK) return st;
    if ((st = make_reach(s, c, err)) != QPC_OK) return st;
    s->late = c->mild;
    if (!qpc_sheet_allocate_steps(s)) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for friction on %d rows", qp->m);
    // K^-1 b, which only S needs
    if (c->mild) qpc_linsys_solve_like_last(qp->sys, qp->b, FREE_MILD, s->free_dv);
    else qpc_linsys_solve_roughly(qp->sys, qp->b, NULL, FREE_TOLERANCE, 0, s->free_dv);
    for (int32_t i = 0; i < qp->m; i++) {
        memcpy(s->blocks[i].center, s->blocks[i].x, sizeof s->blocks[i].x);
        c->linear |= s->blocks[i].x[0] != 0;
    }
    memcpy(s->dv, start != NULL ? start : s->free_dv, (size_t)qp->n * sizeof *s->dv);
    if (c->linear && start == NULL) { // the motion of the impulses at hand
        memcpy(s->grad, qp->b, (size_t)qp->n * sizeof *s->grad);
        for (int32_t i = 0; i < qp->m; i++) qpc_friction_block_push(s->blocks + i, s->blocks[i].x, s->grad);
        qpc_linsys_solve_roughly(qp->sys, s->grad, s->free_dv, c->mild ? fmax(SETTLED, c->tolerance) : SETTLED, 0, s->dv);
    }
    s->fresh = true; // nothing has been followed
    qpc_sheet_refresh(s);
    for (int32_t i = 0; i < qp->m; i++) s->blocks[i].slide = c->linear ? qpc_sheet_slide(s->blocks + i) : 0;
    s->single = c->mild;
    set_weights(s, c->mild ? R_MILD : s->by_cg ? R_CG : R_FACTOR);
    return QPC_OK;
}

// ---- the iteration ----

/// Blocks that carry something take part from now on: S^2 sums up their q.
static void take_in(qpc_sheet *s, course *c) {
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        double q[3];
        if (b->in || (b->state == 0 && b->x[0] == 0)) continue;
        b->in = true;
        qpc_friction_block_velocity(b, s->free_dv, q);
        for (int32_t a = 0; a < b->size; a++) c->square += (q[a] + b->offset[a]) * (q[a] + b->offset[a]);
    }
    c->scale = c->square > 0 ? sqrt(c->square) : 1;
}

/// What an update would move, as an energy.
static double energy_of(const qpc_friction_block *b) {
    double sum = 0, g = b->side != 0 ? qpc_sheet_slide(b) - b->slide : 0;
    for (int32_t a = 0; a < b->size; a++) sum += (b->x[a] - b->center[a]) * (b->x[a] - b->center[a]);
    return sum / b->R + b->R * g * g;
}

/// What the gradient may hide of |F| at most; HUGE_VAL: not known.
static double doubt_of(const qpc_sheet *s, const course *c) {
    double sum = 0;
    if (!(c->reach < HUGE_VAL)) return HUGE_VAL;
    for (int32_t k = 0; k < s->qp->n; k++) sum += s->grad[k] * s->grad[k] / s->qp->sys->least[k];
    return c->reach * sqrt(sum);
}

/// |F| at x and dv and what is not known of it; the energy of an update.
static double look(qpc_sheet *s, course *c) {
    double energy = 0;
    c->norm = qpc_friction_blocks_map(s->blocks, s->qp->m);
    take_in(s, c);
    for (int32_t i = 0; i < s->qp->m; i++) energy += energy_of(s->blocks + i);
    c->doubt = s->late ? HUGE_VAL : doubt_of(s, c); // late: when somebody needs it
    return sqrt(energy);
}

/// A larger R for the blocks whose updates carry the energy; false if they have the largest already.
static bool harden(qpc_sheet *s, double most) {
    double largest = 0;
    bool any = false;
    for (int32_t i = 0; i < s->qp->m; i++) largest = fmax(largest, s->blocks[i].dy[0]);
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        if (!(b->dy[0] > 0 && b->dy[0] >= HARDEN * largest) || b->R >= most) continue;
        b->R *= R_GROWTH;
        any = true;
    }
    return any;
}

/// Products of steps in single precision leave 1e-6 of the largest gradient or less in K dv - b: it is formed afresh as soon as that could
/// be more than a hundredth of the present one. True: that was done.
static bool is_refreshed(qpc_sheet *s, course *c) {
    c->peak = fmax(c->peak, s->gradient);
    if (!s->single || !(s->gradient <= FADED * c->peak)) return false;
    qpc_sheet_refresh(s);
    c->peak = 0;
    return true;
}

/// x_c and g as they have come out; R by what came of it.
static void update(qpc_sheet *s, course *c, double energy) {
    if (energy > c->reference) c->damping = fmax(LEAST_DAMPING, 0.7 * c->damping);
    else if (c->mild) c->damping = fmin(1, RECOVERY * c->damping);
    for (int32_t i = 0; i < s->qp->m; i++) {
        qpc_friction_block *b = s->blocks + i;
        b->dy[0] = energy_of(b);
        memcpy(b->center, b->x, sizeof b->x);
        b->slide += c->damping * (qpc_sheet_slide(b) - b->slide);
    }
    if (++c->updates % REFRESH == 0 && !s->single) qpc_sheet_refresh(s);
    if (!s->by_cg) {
        for (int32_t i = 0; i < s->qp->m; i++) {
            qpc_friction_block *b = s->blocks + i;
            if (c->since <= FEW) b->R = fmin(R_MOST_FACTOR, b->R * R_FACTOR_GROWTH);
            if (c->since >= MANY) b->R = fmax(1, b->R / R_FACTOR_GROWTH);
        }
        c->least = HUGE_VAL;
    } else if (energy < STRIDE * c->reference) {
        c->slow = 0;
    } else if (++c->slow >= SLOW_MOST && harden(s, c->most)) {
        c->least *= sqrt(R_GROWTH);
        c->slow = 0;
        energy = HUGE_VAL;
    }
    if (c->slow == 0) c->reference = energy;
    c->since = 0;
}

static void take_factor(qpc_sheet *s, course *c) {
    if (s->single) qpc_sheet_refresh(s);
    s->by_cg = s->single = s->late = c->mild = false;
    set_weights(s, R_FACTOR);
}

/// Conjugate gradients met what is not positive definite to single precision: softer rows, or a factor.
static void give_way(qpc_sheet *s, course *c) {
    double hardest = 0;
    for (int32_t i = 0; i < s->qp->m; i++) hardest = fmax(hardest, s->blocks[i].R);
    s->ssor.lost = false;
    c->least = c->reference = HUGE_VAL;
    c->most = c->mild && hardest > R_CG ? fmax(R_CG, hardest / SOFTEN) : hardest / SOFTEN;
    for (int32_t i = 0; i < s->qp->m; i++) s->blocks[i].R = fmin(s->blocks[i].R, c->most);
    if (c->most >= R_CG) return;
    take_factor(s, c);
}

/// What is left of the equation of dv with the x at hand.
static void balance(qpc_sheet *s) {
    for (int32_t k = 0; k < s->qp->n; k++) s->grad[k] = -s->rest[k];
    for (int32_t i = 0; i < s->qp->m; i++) qpc_friction_block_push(s->blocks + i, s->blocks[i].x, s->grad);
}

/// dv of x, by K^-1 of what is left of its equation, and |F| there: where the bound on the gradient's share does not do.
static void settle(qpc_sheet *s, course *c) {
    const qpc_qp *qp = s->qp;
    for (int32_t pass = 0; pass < SETTLINGS; pass++) {
        balance(s);
        c->doubt = doubt_of(s, c);
        if (pass > 0 && c->doubt <= 0.1 * c->tolerance * c->scale) break;
        qpc_linsys_solve_roughly(qp->sys, s->grad, NULL, SETTLED, 0, s->d);
        for (int32_t k = 0; k < qp->n; k++) s->dv[k] += s->d[k];
        qpc_sheet_refresh(s);
    }
    if (!(c->doubt < HUGE_VAL)) c->doubt = 0;
    c->norm = qpc_friction_blocks_map(s->blocks, qp->m);
    take_in(s, c);
}

/// The gradient, where it was followed only.
static void know_doubt(qpc_sheet *s, course *c) {
    if (!s->late || c->doubt < HUGE_VAL) return;
    qpc_ssor_late_residual(&s->ssor, s->grad);
    c->doubt = doubt_of(s, c);
}

/// Whether |F| is within `part` of the tolerance, and what the gradient may hide of it. Where K is mild the bound on that is far too wide: an
/// answer on the way does with what it hides as a rule, others with the bound within the tolerance itself.
static bool is_met(qpc_sheet *s, course *c, double part) {
    double most = part * c->tolerance * c->scale;
    if (c->norm + c->doubt <= most) return true;
    bool rough = c->tolerance >= ROUGH;
    if (!c->mild || !(c->norm + (rough ? HIDES_ROUGHLY : HIDES) * s->gradient <= most)) return false;
    if (!rough) know_doubt(s, c);
    return rough || c->norm + c->doubt <= c->tolerance * c->scale;
}

static qpc_status iterate(qpc_sheet *s, course *c, int32_t most, int32_t *steps, qpc_error *err) {
    double budget = CG_FACTORS * s->qp->sys->operations / qpc_alm_pcg_step_operations(s->qp->sys);
    while (*steps < most && c->updates < UPDATES_MOST) {
        if (s->by_cg && (double)s->cg_steps > budget) {
            take_factor(s, c);
            c->least = c->reference = HUGE_VAL;
        }
        if (!qpc_sheet_linearise(s, c->linear)) {
            give_way(s, c);
            continue;
        }
        if (!isfinite(s->gradient)) return QPC_OK;
        double energy = look(s, c), measure = fmin(energy, c->least);
        if (is_refreshed(s, c)) continue;
        if (is_met(s, c, AIM)) return QPC_OK;
        if (!c->mild && c->norm <= AIM * c->tolerance * c->scale && c->fine++ % FINE_MOST == 0) {
            settle(s, c);
            if (c->norm + c->doubt <= AIM * c->tolerance * c->scale) return QPC_OK;
            continue;
        }
        if (*steps >= HOPELESS && c->norm > FAR_OFF * c->scale) return QPC_OK; // rows that contradict, as a rule
        // Only the gradient is left.
        bool hidden = c->mild && fmax(c->norm, energy) <= AIM * c->tolerance * c->scale;
        if (s->gradient <= THETA * measure && !c->linear && !hidden) {
            c->least = measure;
            update(s, c, energy);
            if (++c->waited < c->patience) continue;
            bool gained;
            double R = c->scale / fmax(c->norm, DBL_MIN), goal = LEAP_AIM * c->tolerance * c->scale;
            qpc_status st = qpc_sheet_leap(s, R, goal, most, steps, &gained, err);
            if (st != QPC_OK) return st;
            c->waited = 0;
            c->patience = !gained ? PATIENCE_MOST : c->mild ? PATIENCE_MILD : PATIENCE;
            if (!gained) continue;
            c->least = c->reference = HUGE_VAL;
            c->damping = 1;
            continue;
        }
        ++*steps;
        c->since++;
        bool good;
        double enough = hidden ? 0 : (c->mild ? THETA_MILD : 0.5 * THETA) * measure;
        double target = fmin(s->gradient, fmax(ETA * s->gradient, enough));
        qpc_status st = qpc_sheet_step(s, target, c->linear, &good, err);
        if (st != QPC_OK) return st;
        if (!good && !s->by_cg) return QPC_OK;
        if (!good) give_way(s, c);
        if (c->linear)
            for (int32_t i = 0; i < s->qp->m; i++) s->blocks[i].slide = qpc_sheet_slide(s->blocks + i);
        c->linear = false;
    }
    return QPC_OK;
}

/// What was followed becomes dv, and its equation unless that is met.
static void leave(qpc_sheet *s, course *c) {
    if (!s->late) return;
    if (is_met(s, c, 1)) {
        know_doubt(s, c);
        if (!s->fresh) qpc_ssor_late_collect(&s->ssor, s->dv);
    } else {
        if (!s->fresh) qpc_sheet_refresh(s);
        balance(s);
        c->doubt = doubt_of(s, c);
    }
    s->fresh = true;
}

/// Steps from afar until Newton takes its turn: as many as a few of its factorisations cost.
static int32_t far_steps(const qpc_sheet *s, const course *c) {
    double steps = NEAR_FACTORS * s->qp->sys->operations / (CG_A_STEP * qpc_alm_pcg_step_operations(s->qp->sys));
    return !s->by_cg ? FAR_STEPS : (int32_t)fmax(c->mild ? FAR_MILD : FAR_STEPS, fmin(steps, FAR_MOST));
}

/// Newton on the law (TF13) from x of the blocks; what follows goes on from the best that it met.
static qpc_status close_in(qpc_sheet *s, course *c, int32_t most, int32_t *steps, qpc_error *err) {
    int32_t near = most - *steps < NEAR_STEPS ? most - *steps : NEAR_STEPS;
    qpc_status st = qpc_sheet_newton(s, AIM * c->tolerance * c->scale, near, steps, err);
    if (st != QPC_OK) return st;
    balance(s);
    (void)look(s, c);
    qpc_sheet_center(s);
    c->least = c->reference = HUGE_VAL;
    c->damping = 1;
    c->linear = c->mild = s->late = false; // K has a factor now
    return QPC_OK;
}

/// By turns: the augmented Lagrangian comes near from afar, Newton ends what it goes round in. Impulses of the step or the correction
/// before are near already: Newton goes first there, unless its factors are dear. What that leaves nearly solved is
/// as good as it gets: contacts that leave each other next to no room have impulses without bound, and residuals fall no further.
static qpc_status approach(qpc_sheet *s, course *c, const qpc_friction_doubt *doubt, int32_t most, int32_t *steps, qpc_error *err) {
    bool vain = false;
    if (!s->by_cg && c->linear) {
        (void)look(s, c); // the scale
        qpc_status st = close_in(s, c, most, steps, err);
        if (st != QPC_OK || is_met(s, c, 1)) return st;
    }
    for (int32_t turn = 0; turn < TURNS && *steps < most; turn++) {
        int32_t far = *steps + far_steps(s, c);
        qpc_status st = iterate(s, c, far < most ? far : most, steps, err);
        leave(s, c);
        if (st != QPC_OK || is_met(s, c, 1) || *steps >= most) return st;
        if (turn == 0 && doubt != NULL && c->norm > FAR_OFF * c->scale) st = doubt->contradict(doubt->context, &vain, err);
        if (st != QPC_OK || vain) return st;
        if ((st = close_in(s, c, most, steps, err)) != QPC_OK) return st;
        if (c->norm <= NEARLY * c->tolerance * c->scale) return QPC_OK;
    }
    return QPC_OK;
}

qpc_status qpc_friction_sparse_solve(const qpc_qp *qp, const qpc_friction *friction, double tolerance, int32_t most,
                                     const double *start, const qpc_friction_doubt *doubt, qpc_arena *arena, double *dv,
                                     double *lambda, double *beta,
                                     qpc_solver_report *report, qpc_friction_report *found, qpc_error *err) {
    qpc_arena_mark mark = qpc_arena_get_mark(arena);
    qpc_sheet s = {.qp = qp, .friction = friction, .arena = arena};
    course c = {.tolerance = tolerance, .least = HUGE_VAL, .reference = HUGE_VAL, .damping = 1, .most = R_MOST_CG, .scale = 1};
    int32_t steps = 0;
    qpc_status st = set_up(&s, &c, start, lambda, beta, err);
    if (c.mild && friction->count <= DENSE_MOST && qp->sys->operations <= DEAR && most > SETTLING_STEPS) most = SETTLING_STEPS;
    c.patience = c.mild ? PATIENCE_MILD : PATIENCE;
    if (st == QPC_OK) st = approach(&s, &c, doubt, most, &steps, err);
    qpc_sheet_fini_steps(&s);
    if (st == QPC_OK && !is_met(&s, &c, 1)) settle(&s, &c);
    if (st == QPC_OK) {
        qpc_friction_blocks_report(s.blocks, qp->m, c.scale, found);
        found->natural += (c.mild && is_met(&s, &c, 1) ? fmin(c.doubt, HIDES * s.gradient) : c.doubt) / c.scale;
        found->newton += steps;
        report->cg_steps += (int32_t)s.cg_steps;
        report->factorizations += s.factorizations;
        qpc_friction_blocks_impulses(s.blocks, qp->m, friction->count, lambda, beta);
        memcpy(dv, s.dv, (size_t)qp->n * sizeof *dv);
    }
    qpc_arena_rewind(arena, mark);
    return st;
}
