/// Instances as the engine takes them, timing, and the verdicts.
#include "tools/qp_run.h"

#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NO_MEMORY(err) qpc_fail((err), QPC_ERR_MEMORY, "no memory to run an instance")

bool qp_engine_compares(qpc_solver_id id) {
    return id == QPC_SOLVER_AUGMENTED_CG || id == QPC_SOLVER_PROJECTED;
}

/// Only these prove that rows contradict.
static bool proves(qpc_solver_id id) {
    return id == QPC_SOLVER_AUTO || id == QPC_SOLVER_ACTIVE_SET || id == QPC_SOLVER_LCP_IMPULSE;
}

static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// ---- warm starts ----

void qp_memory_fini(qp_memory *memory) {
    qpc_free(memory->row_id);
    qpc_free(memory->lam);
    *memory = (qp_memory){0};
}

qpc_status qp_memory_keep(qp_memory *memory, const qp_file *file, const double *lam,
                          qpc_error *err) {
    size_t m = (size_t)file->m;
    int32_t *id = qpc_alloc_array(m, sizeof *id);
    double *l = qpc_alloc_array(m, sizeof *l);
    if (id == NULL || l == NULL) {
        qpc_free(id);
        qpc_free(l);
        return NO_MEMORY(err);
    }
    if (m > 0) memcpy(id, file->row_id, m * sizeof *id);
    if (m > 0) memcpy(l, lam, m * sizeof *l);
    qp_memory_fini(memory);
    *memory = (qp_memory){file->m, id, l};
    return QPC_OK;
}

typedef struct labelled {
    int32_t id, row;
} labelled;

static int by_label(const void *a, const void *b) {
    const labelled *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id)
                          : (x->row > y->row) - (x->row < y->row);
}

static void label(labelled *list, const int32_t *id, int32_t count) {
    for (int32_t i = 0; i < count; i++) list[i] = (labelled){id[i], i};
    if (count > 0) qsort(list, (size_t)count, sizeof *list, by_label);
}

/// The second row of an id takes from the second row of that id. False when memory is out.
static bool recall(const qp_memory *memory, const qp_file *f, double *lam) {
    labelled *now = qpc_alloc_array((size_t)f->m, sizeof *now);
    labelled *old = qpc_alloc_array((size_t)memory->count, sizeof *old);
    bool ok = now != NULL && old != NULL;
    if (ok) {
        label(now, f->row_id, f->m);
        label(old, memory->row_id, memory->count);
        for (int32_t i = 0, k = 0; i < f->m && k < memory->count;) {
            if (now[i].id == old[k].id) {
                double l = memory->lam[old[k++].row];
                int32_t row = now[i++].row;
                lam[row] = f->type[row] == 1 || l > 0 ? l : 0;
            } else if (now[i].id < old[k].id) {
                i++;
            } else {
                k++;
            }
        }
    }
    qpc_free(now);
    qpc_free(old);
    return ok;
}

// ---- the problem as the engine takes it ----

typedef struct problem {
    qpc_qp qp;
    qpc_linsys sys;
    int32_t *start, *index; // of K: the file's, or a diagonal
    double *diagonal, *negative, *zero;
    uint8_t *equality, *priority;
    uint64_t *key;
} problem;

static void problem_fini(problem *p) {
    qpc_linsys_fini(&p->sys);
    qpc_free(p->start);
    qpc_free(p->index);
    qpc_free(p->negative);
    qpc_free(p->zero);
    qpc_free(p->equality);
    qpc_free(p->priority);
    qpc_free(p->key);
    *p = (problem){0};
}

/// An LCP as a QP: K = diag(M), b = 0, J := -J, c := b, unknown v_plus - v.
static bool turn_lcp(problem *p, const qp_file *f) {
    size_t n = (size_t)f->n, nnz = (size_t)f->J.start[f->m];
    p->start = qpc_alloc_array(n + 1, sizeof *p->start);
    p->index = qpc_alloc_array(n, sizeof *p->index);
    p->negative = qpc_alloc_array(nnz, sizeof *p->negative);
    p->zero = qpc_calloc(n, sizeof *p->zero);
    if (p->start == NULL || p->index == NULL || p->negative == NULL || p->zero == NULL)
        return false;
    for (int32_t i = 0; i <= f->n; i++) p->start[i] = i;
    for (int32_t i = 0; i < f->n; i++) p->index[i] = i;
    for (size_t k = 0; k < nnz; k++) p->negative[k] = -f->J.value[k];
    p->qp.b = p->zero;
    p->qp.c = f->b;
    p->qp.value = p->negative;
    return true;
}

static qpc_status problem_init(problem *p, const qp_file *f, qpc_error *err) {
    size_t m = (size_t)f->m;
    *p = (problem){.equality = qpc_calloc(m, 1),
                   .priority = qpc_alloc_array(m, 1),
                   .key = qpc_alloc_array(m, sizeof *p->key)};
    p->qp = (qpc_qp){.n = f->n,
                     .m = f->m,
                     .b = f->b,
                     .row_start = f->J.start,
                     .column = f->J.index,
                     .value = f->J.value,
                     .c = f->c};
    if (p->equality == NULL || p->priority == NULL || p->key == NULL ||
        (f->kind == QP_KIND_LCP && !turn_lcp(p, f))) {
        problem_fini(p);
        return NO_MEMORY(err);
    }
    for (size_t i = 0; i < m; i++) {
        p->priority[i] = 1;
        p->key[i] = f->kind == QP_KIND_QP ? (uint64_t)(uint32_t)f->row_id[i] : i;
        if (f->kind == QP_KIND_QP) p->equality[i] = f->type[i] == 1;
    }
    p->qp.equality = p->equality;
    p->qp.priority = p->priority;
    p->qp.key = p->key;
    return QPC_OK;
}

/// What belongs to the time of a solve: K stored; it is factored in there, where somebody needs it.
/// A narrow band is a band, the rest is sparse.
enum { BAND_MOST = 12 };
static qpc_status set_up(problem *p, const qp_file *f, qpc_error *err) {
    bool lcp = f->kind == QP_KIND_LCP;
    const int32_t *start = lcp ? p->start : f->K.start, *index = lcp ? p->index : f->K.index;
    const double *value = lcp ? f->mass : f->K.value;
    int32_t width = 0;
    for (int32_t j = 0; j < f->n; j++) {
        int32_t far = index[start[j + 1] - 1] - j;
        if (far > width) width = far;
    }
    qpc_status status;
    if (width <= BAND_MOST) {
        status = qpc_linsys_resize(&p->sys, f->n, width, err);
        for (int32_t j = 0; status == QPC_OK && j < f->n; j++)
            for (int32_t k = start[j]; k < start[j + 1]; k++)
                qpc_linsys_add(&p->sys, index[k], j, value[k]);
    } else {
        status = qpc_linsys_resize_sparse(&p->sys, f->n, start, index, err);
        if (status == QPC_OK) memcpy(p->sys.value, value, (size_t)start[f->n] * sizeof *value);
    }
    p->qp.sys = &p->sys;
    return status;
}

// ---- verdicts ----

static void say(qp_result *r, qp_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(qp_result *r, qp_verdict verdict, const char *format, ...) {
    if (verdict < r->verdict || (verdict == r->verdict && r->why[0] != '\0'))
        return; // the first of the worst
    va_list list;
    va_start(list, format);
    r->verdict = verdict;
    (void)vsnprintf(r->why, sizeof r->why, format, list);
    va_end(list);
}

static void hold(qp_result *r, const char *name, double value, double limit, bool claims) {
    if (value <= limit) return;
    bool wrong = claims && !(value <= fmax(QP_LIMIT_WRONG, 10 * limit));
    say(r, wrong ? QP_WRONG : QP_SHORT, "%s%s %.2g, must be at most %g",
        claims ? "says optimal: " : "", name, value, limit);
}

static const char *outcome_of(const qp_result *r) {
    static const char *const names[] = {"optimal", "iteration limit", "infeasible", "stalled"};
    return names[r->report.outcome];
}

static void judge_infeasible(qp_result *r) {
    if (r->report.outcome == QPC_OUTCOME_OPTIMAL) {
        say(r, QP_WRONG, "says optimal, but the rows contradict");
    } else if (r->report.outcome != QPC_OUTCOME_INFEASIBLE) {
        if (proves(r->asked)) say(r, QP_SHORT, "rows contradict: not proved (%s)", outcome_of(r));
    } else if (!r->conflict.holds) {
        say(r, QP_SHORT, "the rows named prove nothing: |J'y| %.2g, c'y / |c|'|y| %.2g",
            r->conflict.size, r->conflict.slope);
    } else if (!(r->relaxation <= QP_LIMIT_RELAXATION) && proves(r->asked)) {
        say(r, QP_SHORT, "relaxation %.2g off, must be at most %g", r->relaxation,
            QP_LIMIT_RELAXATION);
    }
}

static qpc_status judge_qp(const qp_ground *g, qp_result *r, qpc_error *err) {
    bool claims = r->report.outcome == QPC_OUTCOME_OPTIMAL;
    qpc_status status = qp_score_qp(g, r->x, r->lam, false, &r->score, err);
    if (status != QPC_OK) return status;
    if (r->report.outcome == QPC_OUTCOME_INFEASIBLE) {
        status = qp_score_conflict(g, r->report.conflict_row, qpc_conflict_named(&r->report), &r->conflict, err);
        if (status != QPC_OK) return status;
    }
    if (g->file->infeasible) {
        judge_infeasible(r);
        return QPC_OK;
    }
    if (r->report.outcome == QPC_OUTCOME_INFEASIBLE)
        say(r, QP_WRONG, "says infeasible, and is not");
    hold(r, "stat", r->score.stat, QP_LIMIT, claims);
    hold(r, "prim", r->score.prim, QP_LIMIT, claims);
    hold(r, "dual", r->score.dual, QP_LIMIT, claims);
    hold(r, "comp", r->score.comp, QP_LIMIT_COMP, claims);
    hold(r, "distance", r->score.distance, QP_LIMIT_DISTANCE, claims);
    if (!claims)
        say(r, QP_SHORT, "%s, and is solved", outcome_of(r)); // modesty is no virtue either
    if (r->warm && r->changes > QP_LIMIT_CHANGES)
        say(r, QP_SHORT, "%d set changes from a warm start, at most %d", r->changes,
            (int)QP_LIMIT_CHANGES);
    return QPC_OK;
}

static qpc_status judge_lcp(const qp_ground *g, qp_result *r, qpc_error *err) {
    bool claims = r->report.outcome == QPC_OUTCOME_OPTIMAL;
    qpc_status status = qp_score_lcp(g, r->x, r->lam, &r->score, err);
    if (status != QPC_OK) return status;
    if (r->report.outcome == QPC_OUTCOME_INFEASIBLE)
        say(r, QP_WRONG, "says infeasible, and is not");
    hold(r, "stat", r->score.stat, QP_LIMIT, claims);
    hold(r, "w >= 0", r->score.prim, QP_LIMIT, claims);
    hold(r, "f >= 0", r->score.dual, QP_LIMIT, claims);
    hold(r, "f'w", r->score.comp, QP_LIMIT, claims);
    hold(r, "distance of v_plus", r->score.distance, QP_LIMIT_DISTANCE, claims);
    hold(r, "distance of w", r->score.w_distance, QP_LIMIT_DISTANCE, claims);
    if (!claims) say(r, QP_SHORT, "%s, and is solved", outcome_of(r));
    return QPC_OK;
}

/// What is asked of the engine: half of what is promised; of the cheap mode what it can give.
static double tolerance_of(qpc_friction_mode mode) {
    return mode == QPC_FRICTION_EXACT ? 0.5 * QP_LIMIT : 1e-3;
}

static qpc_status judge_friction(const qp_ground *g, qp_result *r, qpc_error *err) {
    qpc_status status = qp_score_friction(g, r->lam, &r->score, err);
    if (status != QPC_OK) return status;
    bool claims = r->friction.converged, cheap = r->mode != QPC_FRICTION_EXACT;
    double natural = r->score.natural;
    if (claims && !(natural <= 10 * tolerance_of(r->mode)))
        say(r, QP_WRONG, "says converged to %g: natural residual %.2g", tolerance_of(r->mode),
            natural);
    else if (!cheap)
        hold(r, "natural residual", natural, QP_LIMIT_NATURAL, false);
    else if (!claims) // told, not promised
        say(r, QP_SHORT, "not converged to %g: natural residual %.2g", tolerance_of(r->mode), natural);
    return QPC_OK;
}

qpc_status qp_judge(const qp_ground *g, qp_result *r, qpc_error *err) {
    r->verdict = QP_HOLDS;
    r->why[0] = '\0';
    if (r->status != QPC_OK) {
        say(r, QP_SHORT, "%s: %s", qpc_status_name(r->status), r->message);
        return QPC_OK;
    }
    qpc_status (*judge)(const qp_ground *, qp_result *, qpc_error *) =
        g->file->kind == QP_KIND_QP    ? judge_qp
        : g->file->kind == QP_KIND_LCP ? judge_lcp
                                       : judge_friction;
    return judge(g, r, err);
}

// ---- runs ----

void qp_result_fini(qp_result *result) {
    qpc_free(result->x);
    qpc_free(result->lam);
    *result = (qp_result){0};
}

static void keep_message(qp_result *r, const qpc_error *err) {
    (void)snprintf(r->message, sizeof r->message, "%.*s", (int)sizeof r->message - 1, err->message);
}

/// Sets of positive multipliers, equalities aside, before and after.
static int32_t net_changes(const qp_file *f, const double *before, const double *after) {
    int32_t net = 0;
    for (int32_t i = 0; i < f->m; i++) net += f->type[i] == 0 && (before[i] > 0) != (after[i] > 0);
    return net;
}

static qpc_status relax(const qp_ground *g, problem *p, qpc_arena *arena, qp_result *r,
                        qpc_error *err) {
    size_t m = (size_t)g->file->m;
    double *c = qpc_alloc_array(m, sizeof *c), largest = 0;
    if (c == NULL) return NO_MEMORY(err);
    qpc_error why = {0};
    memcpy(c, g->file->c, m * sizeof *c);
    if (qpc_relax(&p->qp, 1, QPC_RELAX_EXACT, arena, c, &largest, &why) == QPC_OK) {
        for (size_t i = 0; i < m; i++) c[i] -= g->file->c[i];
        r->relaxation = qp_score_relaxation(g, c);
    }
    qpc_free(c);
    return QPC_OK;
}

static qpc_status run_once(problem *p, const qp_file *f, const double *start, qpc_arena *arena,
                           bool keep, qp_result *r) {
    // No unit is common to the instances, so that m/s decide nothing here: exact does.
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = 1e300;
    qpc_error why = {0};
    qpc_arena_reset(arena);
    if (f->m > 0) memcpy(r->lam, start, (size_t)f->m * sizeof *start);
    double begin = cpu_ms();
    r->status = set_up(p, f, &why);
    if (r->status == QPC_OK)
        r->status = qpc_solve(r->asked, &p->qp, &options, arena, r->x, r->lam, &r->report, &why);
    if (!keep) qpc_linsys_fini(&p->sys);
    double ms = cpu_ms() - begin;
    if (r->ms < 0 || ms < r->ms) r->ms = ms;
    if (r->status != QPC_OK) keep_message(r, &why);
    return r->status;
}

qpc_status qp_run(const qp_ground *g, qpc_solver_id id, const qp_memory *warm, int repeat,
                  qpc_arena *arena, qp_result *ret, qpc_error *err) {
    const qp_file *f = g->file;
    problem p;
    qpc_status status = problem_init(&p, f, err);
    if (status != QPC_OK) return status;
    qp_result r = {.asked = id,
                   .warm = warm != NULL,
                   .ms = -1,
                   .relaxation = -1,
                   .x = qpc_calloc((size_t)f->n, sizeof *r.x),
                   .lam = qpc_calloc((size_t)f->m, sizeof *r.lam)};
    double *start = qpc_calloc((size_t)f->m, sizeof *start);
    if (r.x == NULL || r.lam == NULL || start == NULL) {
        status = NO_MEMORY(err);
        goto done;
    }
    if (warm != NULL && !recall(warm, f, start)) {
        status = NO_MEMORY(err);
        goto done;
    }
    for (int i = 0; i < repeat; i++)
        if (run_once(&p, f, start, arena, i == repeat - 1, &r) != QPC_OK) break;
    if (r.status == QPC_ERR_MEMORY) {
        status = NO_MEMORY(err);
        goto done;
    }
    if (r.status == QPC_OK && warm != NULL) {
        r.net = net_changes(f, start, r.lam);
        r.changes = r.report.adds + r.report.drops;
        if (r.changes < r.net) r.changes = r.net; // an engine without a working set
    }
    if (r.report.outcome == QPC_OUTCOME_INFEASIBLE && f->infeasible)
        status = relax(g, &p, arena, &r, err);
    if (status == QPC_OK) status = qp_judge(g, &r, err);
done:
    qpc_free(start);
    problem_fini(&p);
    if (status != QPC_OK)
        qp_result_fini(&r);
    else
        *ret = r;
    return status;
}

qpc_status qp_run_friction(const qp_ground *g, qpc_friction_mode mode, int repeat, qpc_arena *arena,
                           qp_result *ret, qpc_error *err) {
    const qp_file *f = g->file;
    size_t count = 3 * (size_t)f->m;
    const qpc_cones cones = {f->m, f->A.start, f->A.index, f->A.value, f->q, f->mu};
    const qpc_friction_options options = {.mode = mode, .tolerance = tolerance_of(mode)};
    qp_result r = {
        .mode = mode, .ms = -1, .relaxation = -1, .lam = qpc_calloc(count, sizeof *r.lam)};
    if (r.lam == NULL) return NO_MEMORY(err);
    for (int i = 0; i < repeat; i++) {
        qpc_error why = {0};
        qpc_arena_reset(arena);
        memset(r.lam, 0, count * sizeof *r.lam);
        double begin = cpu_ms();
        r.status = qpc_solve_cones(&cones, &options, arena, r.lam, &r.friction, &why);
        double ms = cpu_ms() - begin;
        if (r.ms < 0 || ms < r.ms) r.ms = ms;
        if (r.status == QPC_OK) continue;
        keep_message(&r, &why);
        break;
    }
    qpc_status status = r.status == QPC_ERR_MEMORY ? NO_MEMORY(err) : qp_judge(g, &r, err);
    if (status != QPC_OK)
        qp_result_fini(&r);
    else
        *ret = r;
    return status;
}
