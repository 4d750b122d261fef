/// QP solvers: medians and exact counts on stored instances and on the QPs of a cable over a
/// pulley.
///
///     bench_solver [FILE.qpb ...]
///
/// The pulley: 100 particles of 0.7 kg, 0.1 m apart, 1.38e6 N/m, ends of 10 t, start speed -2 m/s,
/// dt 5 ms, over a polygon of 98 sides and radius 1 m; vertex rows and edge rows near it. 200 steps
/// are simulated with `auto` and their QPs kept; each is then solved cold, warm (multipliers of the
/// step before, by row key), and by each engine. Times are thread CPU time in microseconds.
#include "bench/timing.h"
#include "engine/solver/solver.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/dynamics/cable.h"
#include "engine/solver/certificate.h"
#include "engine/solver/rows.h"
#include "tests/support/qpb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PARTICLES = 100, N = 3 * PARTICLES, STEPS = 200, REPEAT = 5, SIDES = 98 };

static double now_us(void) {
    return 1e3 * bench_ms(CLOCK_THREAD_CPUTIME_ID);
}

static void check(qpc_status status, const qpc_error *err) {
    if (status == QPC_OK) return;
    fprintf(stderr, "bench_solver: %s: %s\n", qpc_status_name(status), err->message);
    exit(1);
}

// ---- the pulley ----

typedef struct step_qp {
    qpc_rows rows;
    qpc_linsys K;
    double b[N], x[N];
    double *warm;
} step_qp;

static step_qp steps[STEPS];
static const double PI = 3.14159265358979323846, R = 1, THICK = 0.03, DT = 0.005;

/// Rows of the cable at x against the polygon: particles against sides, links against corners.
static void add_rows(qpc_rows *rows, const qpc_row_frame *frame, int32_t pulley) {
    qpc_error err = {0};
    double side = 2 * PI / SIDES, apothem = R * cos(side / 2), near_enough = 1.25 * THICK;
    for (int32_t i = 0; i < PARTICLES; i++) {
        qpc_vec3 p = v3_load(frame->x + 3 * i);
        int32_t k = (int32_t)floor(atan2(p.y, p.x) / side + 0.5); // side centred on k * side
        for (int32_t s = k - 1; s <= k + 1; s++) {                // its neighbours as well
            qpc_vec3 n = v3(cos(s * side), sin(s * side), 0);
            double gap = v3_dot(n, p) - apothem;
            double along = fabs(-p.x * n.y + p.y * n.x);
            if (gap > near_enough || along > apothem * tan(side / 2) + near_enough) continue;
            qpc_contact c = {.kind = QPC_CONTACT_VT,
                             .key = (uint64_t)i << 32 | (uint32_t)(s + SIDES),
                             .node = {i, pulley, pulley, pulley},
                             .weight = {1, -1, 0, 0},
                             .n = n,
                             .separation = THICK + apothem};
            check(qpc_rows_add_contact(rows, frame, &c, c.separation, -0.001, i, &err), &err);
        }
    }
    for (int32_t i = 0; i + 1 < PARTICLES; i++) {
        qpc_vec3 a = v3_load(frame->x + 3 * i), b = v3_load(frame->x + 3 * i + 3);
        qpc_vec3 d = v3_sub(b, a);
        for (int32_t s = 0; s < SIDES; s++) {
            double angle = (s + 0.5) * side;
            qpc_vec3 corner = v3(R * cos(angle), R * sin(angle), 0);
            double t = v3_dot(v3_sub(corner, a), d) / v3_norm2(d);
            if (t <= 0 || t >= 1) continue;
            qpc_vec3 apart = v3_sub(v3_madd(a, t, d), corner);
            double l = v3_norm(apart);
            if (l > near_enough || v3_dot(apart, corner) <= 0) continue;
            qpc_vec3 n = v3_scale(1 / l, apart);
            qpc_contact c = {.kind = QPC_CONTACT_EE,
                             .key = 1ULL << 60 | (uint64_t)i << 32 | (uint32_t)s,
                             .node = {i, i + 1, pulley, pulley},
                             .weight = {1 - t, t, -0.5, -0.5},
                             .n = n,
                             .separation = THICK + v3_dot(n, corner)};
            check(qpc_rows_add_contact(rows, frame, &c, c.separation, -0.001, i, &err), &err);
        }
    }
}

static void simulate(qpc_arena *arena) {
    static double x[N + 3], v[N + 3], mass[PARTICLES], k[PARTICLES - 1], l0[PARTICLES - 1];
    static int32_t node[PARTICLES - 1], dof[PARTICLES + 1];
    qpc_error err = {0};
    double spacing = 0.1, length = spacing * (PARTICLES - 1), Rc = R + THICK + 0.006;
    double left = (length - PI * Rc) / 2 + 1;
    for (int32_t i = 0; i < PARTICLES; i++) {
        double s = spacing * i - left; // along the arc
        double a = PI - s / Rc;
        if (s < 0)
            v3_store(x + 3 * i, v3(-Rc, s, 0));
        else if (a < 0)
            v3_store(x + 3 * i, v3(Rc, Rc * a, 0));
        else
            v3_store(x + 3 * i, v3(Rc * cos(a), Rc * sin(a), 0));
        v[3 * i + 1] = -2;
        mass[i] = i == 0 || i == PARTICLES - 1 ? 10000 : 0.7;
        dof[i] = 3 * i;
    }
    dof[PARTICLES] = -1; // the pulley: one known node at the origin
    for (int32_t i = 0; i + 1 < PARTICLES; i++) {
        node[i] = i;
        k[i] = 1.38e6;
        l0[i] = v3_norm(v3_sub(v3_load(x + 3 * i + 3), v3_load(x + 3 * i)));
    }
    qpc_springs springs = {.count = PARTICLES - 1, .node = node, .stiffness = k, .rest_length = l0};
    qpc_row_frame frame = {.node_count = PARTICLES + 1, .dof = dof, .x = x, .v = v, .dt = DT};
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = 1e-7 * THICK / DT;
    uint64_t *keys = NULL;
    double *kept = NULL;
    int32_t count = 0;
    for (int32_t step = 0; step < STEPS; step++) {
        step_qp *q = &steps[step];
        double f[N] = {0}, Hv[N] = {0}, dv[N];
        check(qpc_linsys_resize(&q->K, N, 5, &err), &err);
        for (int32_t i = 0; i < N; i++) qpc_linsys_add(&q->K, i, i, mass[i / 3]);
        qpc_springs_stiffness(&springs, x, v, DT, &q->K, Hv);
        qpc_springs_force(&springs, x, f);
        for (int32_t i = 0; i < N; i++) {
            if (i % 3 == 1) f[i] -= 10 * mass[i / 3];
            q->b[i] = DT * (f[i] - DT * Hv[i]);
        }
        check(qpc_linsys_factor(&q->K, &err), &err);
        qpc_rows_clear(&q->rows);
        add_rows(&q->rows, &frame, PARTICLES);
        qpc_rows_warm_start(&q->rows, keys, kept, count);
        int32_t m = q->rows.m;
        q->warm = malloc(((size_t)m + 1) * sizeof(double));
        keys = realloc(keys, ((size_t)m + 1) * sizeof *keys);
        kept = realloc(kept, ((size_t)m + 1) * sizeof *kept);
        if (q->warm == NULL || keys == NULL || kept == NULL) exit(1);
        if (m > 0) memcpy(q->warm, q->rows.lambda, (size_t)m * sizeof(double));
        qpc_solver_report report;
        qpc_qp qp = qpc_rows_qp(&q->rows, &q->K, q->b);
        qpc_arena_reset(arena);
        check(qpc_solve(QPC_SOLVER_AUTO, &qp, &options, arena, dv, q->rows.lambda, &report, &err),
              &err);
        memcpy(q->x, dv, sizeof dv);
        count = 0;
        for (int32_t i = 0; i < m; i++) { // rows.order is sorted by key
            int32_t row = q->rows.order[i];
            if (q->rows.lambda[row] <= 0) continue;
            keys[count] = q->rows.key[row];
            kept[count++] = q->rows.lambda[row];
        }
        for (int32_t i = 0; i < N; i++) {
            v[i] += dv[i];
            x[i] += DT * v[i];
        }
    }
    free(keys);
    free(kept);
}

static void bench_pulley(qpc_arena *arena) {
    static double time_cold[STEPS], time_warm[STEPS];
    simulate(arena);
    double rows = 0, active = 0;
    for (int32_t s = 0; s < STEPS; s++) {
        rows += steps[s].rows.m;
        for (int32_t i = 0; i < steps[s].rows.m; i++) active += steps[s].rows.lambda[i] > 0;
    }
    printf("pulley: n %d, rows %.1f, active %.1f on average over %d steps\n", N, rows / STEPS,
           active / STEPS, STEPS);
    printf("%-22s %9s %9s %9s %9s %8s %8s %8s %8s %8s\n", "engine", "cold us", "p99", "warm us",
           "p99", "it cold", "it warm", "factors", "not opt.", "natural");
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = 1e-7 * THICK / DT;
    for (int32_t id = 0; id < QPC_SOLVER_COUNT; id++) {
        int64_t iterations[2] = {0}, factors = 0, missed = 0;
        double natural = 0;
        int32_t count = id == QPC_SOLVER_AUGMENTED_CG ? 20 : STEPS;
        for (int32_t s = 0; s < count; s++) {
            step_qp *q = &steps[s];
            double dv[N], *l = malloc(((size_t)q->rows.m + 1) * sizeof *l);
            if (l == NULL) exit(1);
            for (int32_t warm = 0; warm < 2; warm++) {
                double best = HUGE_VAL;
                qpc_solver_report report = {0};
                qpc_error err = {0};
                qpc_qp qp = qpc_rows_qp(&q->rows, &q->K, q->b);
                for (int32_t r = 0; r < REPEAT; r++) {
                    for (int32_t i = 0; i < q->rows.m; i++) l[i] = warm ? q->warm[i] : 0;
                    double t = now_us();
                    check(qpc_solve((qpc_solver_id)id, &qp, &options, arena, dv, l, &report, &err),
                          &err);
                    t = now_us() - t;
                    if (t < best) best = t;
                }
                *(warm ? &time_warm[s] : &time_cold[s]) = best;
                iterations[warm] += report.iterations;
                if (warm) {
                    qpc_certificate c;
                    factors += report.factorizations;
                    missed += report.outcome != QPC_OUTCOME_OPTIMAL;
                    check(qpc_certify(&qp, dv, l, arena, &c, &err), &err);
                    if (c.natural > natural) natural = c.natural;
                }
            }
            free(l);
        }
        printf("%-22s %9.1f %9.1f %9.1f %9.1f %8.2f %8.2f %8.2f %8lld %8.1e\n",
               qpc_solver_name((qpc_solver_id)id), bench_quantile(time_cold, count, 0.5),
               bench_quantile(time_cold, count, 0.99), bench_quantile(time_warm, count, 0.5),
               bench_quantile(time_warm, count, 0.99), (double)iterations[0] / count,
               (double)iterations[1] / count, (double)factors / count, (long long)missed, natural);
    }
    // The pieces.
    step_qp *q = &steps[STEPS / 2];
    qpc_error err = {0};
    qpc_certificate c;
    double x[N], factor = HUGE_VAL, solve = HUGE_VAL, certify = HUGE_VAL;
    qpc_qp qp = qpc_rows_qp(&q->rows, &q->K, q->b);
    for (int32_t r = 0; r < 200; r++) {
        double t0 = now_us();
        check(qpc_linsys_factor(&q->K, &err), &err);
        double t1 = now_us();
        qpc_linsys_solve(&q->K, q->b, x);
        double t2 = now_us();
        check(qpc_certify(&qp, q->x, q->rows.lambda, arena, &c, &err), &err);
        double t3 = now_us();
        factor = fmin(factor, t1 - t0);
        solve = fmin(solve, t2 - t1);
        certify = fmin(certify, t3 - t2);
    }
    printf("n %d, half bandwidth 5: factor %.2f us, solve %.2f us, certificate %.1f us\n", N,
           factor, solve, certify);
    for (int32_t s = 0; s < STEPS; s++) {
        qpc_rows_fini(&steps[s].rows);
        qpc_linsys_fini(&steps[s].K);
        free(steps[s].warm);
    }
}

static void bench_file(const char *path, qpc_arena *arena) {
    qpb_problem p;
    if (!qpb_load(path, &p)) {
        printf("%-22s cannot be read as a QP\n", path);
        return;
    }
    double *x = calloc((size_t)p.qp.n + 1, sizeof *x), *l = calloc((size_t)p.qp.m + 1, sizeof *l);
    if (x == NULL || l == NULL) exit(1);
    qpc_solver_options options = qpc_solver_options_default();
    options.exact = true;
    options.residual_tolerance = HUGE_VAL;
    for (int32_t id = 0; id < QPC_SOLVER_AUGMENTED_CG; id++) {
        double best[2] = {HUGE_VAL, HUGE_VAL};
        qpc_solver_report report[2];
        qpc_error err = {0};
        for (int32_t r = 0; r < REPEAT; r++) {
            memset(l, 0, (size_t)p.qp.m * sizeof *l);
            for (int32_t warm = 0; warm < 2; warm++) { // warm: from its own answer
                double t = now_us();
                check(
                    qpc_solve((qpc_solver_id)id, &p.qp, &options, arena, x, l, &report[warm], &err),
                    &err);
                best[warm] = fmin(best[warm], now_us() - t);
            }
        }
        qpc_certificate c;
        check(qpc_certify(&p.qp, x, l, arena, &c, &err), &err);
        printf("%-22.22s %5d %5d %-21s out %d cold %9.1f us it %4d (+%d -%d x%d f%d s%d) "
               "warm %8.1f us it %3d  stat %.0e prim %.0e comp %.0e\n",
               p.name, p.qp.n, p.qp.m, qpc_solver_name((qpc_solver_id)id), report[0].outcome,
               best[0], report[0].iterations, report[0].adds, report[0].drops, report[0].exchanges,
               report[0].factorizations, report[0].solves, best[1], report[1].iterations, c.stat,
               c.prim, c.comp);
    }
    free(x);
    free(l);
    qpb_free(&p);
    qpc_arena_reset(arena);
}

int main(int argc, char **argv) {
    qpc_arena arena = {0};
    bench_pulley(&arena);
    for (int i = 1; i < argc; i++) bench_file(argv[i], &arena);
    qpc_arena_fini(&arena);
    return 0;
}
