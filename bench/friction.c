/// Friction: the stored problems, and walls of bricks of growing size.
///
///     bench_friction COMMIT [FILE.qpb ...]
///
/// CSV on standard output: per problem the residual, exact counts and thread CPU time (best of the
/// repeats that fit into about a second), exact and staggered. A wall of R x R bricks (6 unknowns
/// each, 4 points to what is below, hyperstatic) is pushed sideways under its weight, mu 0.5.
#include "engine/solver/friction.h"
#include "base/mem.h"
#include "bench/machine.h"
#include "bench/timing.h"
#include "tests/support/cones.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static char cpu[128];
static const char *commit;

static void run(const char *name, const qpc_cones *cones, qpc_friction_mode mode) {
    qpc_arena arena = {0};
    size_t n = 3 * (size_t)cones->count;
    double *r = calloc(n, sizeof *r), best = HUGE_VAL, spent = 0;
    qpc_friction_options options = {.mode = mode};
    qpc_friction_report report = {0};
    qpc_error err = {0};
    for (int32_t k = 0; k < 200 && spent < 1000; k++) {
        memset(r, 0, n * sizeof *r);
        double t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
        if (qpc_solve_cones(cones, &options, &arena, r, &report, &err) != QPC_OK) {
            fprintf(stderr, "%s: %s\n", name, err.message);
            exit(1);
        }
        t = bench_ms(CLOCK_THREAD_CPUTIME_ID) - t;
        spent += t;
        if (t < best) best = t;
        qpc_arena_reset(&arena);
    }
    printf("%s,%s,%s,%s,%s,%d,%d,%.3e,%.3e,%.3e,%d,%d,%d,%d,%d,%d,%.3f\n", cpu, bench_compiler(),
           commit, name, mode == QPC_FRICTION_EXACT ? "exact" : "staggered", cones->count,
           report.converged, cones_natural(cones, r), report.penetration, report.dissipation_defect,
           report.iterations, report.outers, report.newton, report.sticking, report.sliding,
           report.open, best);
    fflush(stdout);
    free(r);
    qpc_arena_fini(&arena);
}

typedef struct wall {
    int32_t rows, contacts, *start, *column;
    double *value, *q, *mu, (*H)[2][3][6]; // side, direction, unknown of the brick
    int32_t (*brick)[2];
} wall;

/// One point between brick a (above) and b (below, or -1 for the ground), at p from a's centre.
static void wall_point(wall *w, int32_t a, int32_t b, const double *pa, const double *pb) {
    static const double directions[3][3] = {{0, 0, 1}, {1, 0, 0}, {0, 1, 0}};
    int32_t k = w->contacts++;
    w->brick[k][0] = a;
    w->brick[k][1] = b;
    w->mu[k] = 0.5;
    for (int32_t side = 0; side < 2; side++) {
        const double *p = side ? pb : pa, s = side ? -1 : 1;
        for (int32_t d = 0; d < 3; d++) {
            const double *n = directions[d];
            double *h = w->H[k][side][d];
            for (int32_t i = 0; i < 3; i++) {
                int32_t j = (i + 1) % 3, l = (i + 2) % 3;
                h[i] = s * n[i];
                h[3 + i] = s * (p[j] * n[l] - p[l] * n[j]);
            }
        }
    }
}

static void wall_make(wall *w, int32_t rows) {
    size_t most = 4 * (size_t)rows * (size_t)rows;
    *w = (wall){.rows = rows};
    w->H = calloc(most, sizeof *w->H);
    w->brick = calloc(most, sizeof *w->brick);
    w->mu = calloc(most, sizeof *w->mu);
    w->q = calloc(3 * most, sizeof *w->q);
    w->start = calloc(3 * most + 1, sizeof *w->start);
    // Bricks of 0.4 x 0.2 x 0.1, every second course shifted by half a brick.
    for (int32_t a = 0; a < rows * rows; a++) {
        int32_t r = a / rows, c = a % rows;
        for (int32_t half = 0; half < 2; half++) {
            // Each half of a brick stands with two points on what is below it, if there is a brick.
            int32_t below = r == 0 ? -1 : (r - 1) * rows + c + (r % 2 ? half : half - 1);
            int32_t column = r == 0 ? 0 : c + (r % 2 ? half : half - 1);
            if (r > 0 && (column < 0 || column >= rows)) continue;
            double at = half ? 0.1 : -0.1;
            for (int32_t depth = 0; depth < 2; depth++) {
                double y = depth ? 0.08 : -0.08, pa[3] = {at, y, -0.05}, pb[3] = {-at, y, 0.05};
                wall_point(w, a, below, pa, pb);
            }
        }
    }
}

static double wall_inverse_mass(int32_t i) {
    static const double size[3] = {0.4, 0.2, 0.1};
    if (i < 3) return 1 / 2.0;
    double s = size[(i - 2) % 3], t = size[(i - 1) % 3];
    return 12 / (2 * (s * s + t * t));
}

/// W = H M^-1 H' and q = H (v + h g), with a push along x that grows upward.
static void wall_condense(wall *w) {
    size_t room = (size_t)w->contacts * 3 * 64;
    w->column = malloc(room * sizeof *w->column);
    w->value = malloc(room * sizeof *w->value);
    int32_t at = 0;
    for (int32_t k = 0; k < w->contacts; k++) {
        for (int32_t d = 0; d < 3; d++) {
            w->start[3 * k + d] = at;
            for (int32_t l = 0; l < w->contacts; l++) {
                for (int32_t e = 0; e < 3; e++) {
                    double s = 0;
                    for (int32_t a = 0; a < 2; a++)
                        for (int32_t b = 0; b < 2; b++)
                            if (w->brick[k][a] >= 0 && w->brick[k][a] == w->brick[l][b])
                                for (int32_t i = 0; i < 6; i++)
                                    s += w->H[k][a][d][i] * wall_inverse_mass(i) * w->H[l][b][e][i];
                    if (s == 0) continue;
                    if ((size_t)at >= room) abort();
                    w->column[at] = 3 * l + e;
                    w->value[at++] = s;
                }
            }
            for (int32_t a = 0; a < 2; a++) {
                if (w->brick[k][a] < 0) continue;
                int32_t r = w->brick[k][a] / w->rows;
                double v[3] = {0.4 * 0.05 * r / w->rows, 0, -0.05};
                for (int32_t i = 0; i < 3; i++) w->q[3 * k + d] += w->H[k][a][d][i] * v[i];
            }
        }
    }
    w->start[3 * w->contacts] = at;
}

static void run_wall(int32_t rows, bool staggered) {
    wall w;
    char name[32];
    wall_make(&w, rows);
    wall_condense(&w);
    qpc_cones cones = {.count = w.contacts,
                       .start = w.start,
                       .column = w.column,
                       .value = w.value,
                       .q = w.q,
                       .mu = w.mu};
    (void)snprintf(name, sizeof name, "wall_%dx%d", rows, rows);
    run(name, &cones, QPC_FRICTION_EXACT);
    if (staggered) run(name, &cones, QPC_FRICTION_STAGGERED);
    free(w.H);
    free(w.brick);
    free(w.mu);
    free(w.q);
    free(w.start);
    free(w.column);
    free(w.value);
}

// ---- steps of a cable over a cylinder ----

typedef struct cable {
    int32_t n, contacts, *row_start, *column, *t_start, *t_column, *row;
    double *value, *t_value, *c, *b, *mu, *u0;
    uint8_t *equality, *priority;
    uint64_t *key;
    qpc_linsys K;
} cable;

static void *zeros(size_t count, size_t size) {
    void *p = calloc(count, size);
    if (p == NULL) abort();
    return p;
}

/// `contacts` particles around a half circle of radius 1 and as many on two hanging legs, 0.7 kg,
/// stiff links, one side longer: it slides, or sticks where mu carries it. dt 5 ms.
static void cable_make(cable *s, int32_t contacts, double mu) {
    int32_t particles = 2 * contacts;
    double dt = 0.005, spacing = acos(-1) / contacts, m = 7 * spacing, k = 1e5 / spacing;
    qpc_error err = {0};
    *s = (cable){.n = 3 * particles, .contacts = contacts};
    size_t n = (size_t)s->n, c = (size_t)contacts;
    s->row_start = zeros(c + 1, sizeof(int32_t));
    s->row = zeros(c, sizeof(int32_t));
    s->column = zeros(3 * c, sizeof(int32_t));
    s->t_start = zeros(2 * c + 1, sizeof(int32_t));
    s->t_column = zeros(6 * c, sizeof(int32_t));
    s->value = zeros(3 * c, sizeof(double));
    s->t_value = zeros(6 * c, sizeof(double));
    s->c = zeros(c, sizeof(double));
    s->mu = zeros(c, sizeof(double));
    s->u0 = zeros(2 * c, sizeof(double));
    s->b = zeros(n, sizeof(double));
    s->equality = zeros(c, 1);
    s->priority = zeros(c, 1);
    s->key = zeros(c, sizeof(uint64_t));
    if (qpc_linsys_resize(&s->K, s->n, 5, &err) != QPC_OK) abort();
    int32_t first = contacts / 3; // particles on the shorter leg
    for (int32_t i = 0; i < particles; i++) {
        int32_t on = i - first;
        double a = on < 0 ? 0 : on >= contacts ? acos(-1) : (on + 0.5) * spacing;
        double d[3] = {-sin(a), cos(a), 0};
        for (int32_t p = 0; p < 3; p++) {
            qpc_linsys_add(&s->K, 3 * i + p, 3 * i + p, m);
            for (int32_t q = 0; i > 0 && q < 3; q++) {
                double h = dt * dt * k * d[p] * d[q];
                if (q <= p) qpc_linsys_add(&s->K, 3 * i + p, 3 * i + q, h);
                if (q <= p) qpc_linsys_add(&s->K, 3 * i - 3 + p, 3 * i - 3 + q, h);
                qpc_linsys_add(&s->K, 3 * i + p, 3 * i - 3 + q, -h);
            }
        }
        s->b[3 * i + 1] = -dt * m * 9.81;
        if (on < 0 || on >= contacts) continue;
        for (int32_t j = 0; j < 3; j++) {
            s->column[3 * on + j] = s->t_column[6 * on + j] = s->t_column[6 * on + 3 + j] =
                3 * i + j;
            s->value[3 * on + j] = j == 0 ? -cos(a) : j == 1 ? -sin(a) : 0;
            s->t_value[6 * on + j] = d[j];
            s->t_value[6 * on + 3 + j] = j == 2;
        }
        s->row_start[on + 1] = 3 * (on + 1);
        s->t_start[2 * on + 1] = 6 * on + 3;
        s->t_start[2 * on + 2] = 6 * on + 6;
        s->row[on] = on;
        s->mu[on] = mu;
        s->u0[2 * on] = 0.3 * (mu < 0.3);
        s->priority[on] = 1;
        s->key[on] = (uint64_t)on;
    }
    if (qpc_linsys_factor(&s->K, &err) != QPC_OK) abort();
}

static void cable_free(cable *s) {
    void *all[] = {s->row_start, s->column,   s->t_start,  s->t_column, s->row,
                   s->value,     s->t_value,  s->c,        s->b,        s->mu,
                   s->u0,        s->equality, s->priority, s->key};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    qpc_linsys_fini(&s->K);
}

/// Cold, and warm from its own answer with the load changed by 1 %.
static void run_cable(int32_t contacts, double mu, qpc_friction_mode mode) {
    cable s;
    cable_make(&s, contacts, mu);
    qpc_qp qp = {.n = s.n,
                 .m = contacts,
                 .sys = &s.K,
                 .b = s.b,
                 .row_start = s.row_start,
                 .column = s.column,
                 .value = s.value,
                 .c = s.c,
                 .equality = s.equality,
                 .priority = s.priority,
                 .key = s.key};
    qpc_friction friction = {.count = contacts,
                             .row = s.row,
                             .mu = s.mu,
                             .start = s.t_start,
                             .column = s.t_column,
                             .value = s.t_value,
                             .u0 = s.u0};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_friction_options how = {.mode = mode};
    double *dv = zeros((size_t)s.n, 8), *lambda = zeros((size_t)contacts, 8);
    double *beta = zeros(2 * (size_t)contacts, 8), *l0 = zeros((size_t)contacts, 8);
    double *b0 = zeros(2 * (size_t)contacts, 8);
    qpc_arena arena = {0};
    for (int32_t warm = 0; warm < 2; warm++) {
        qpc_solver_report solver = {0};
        qpc_friction_report report = {0};
        qpc_error err = {0};
        double best = HUGE_VAL, spent = 0;
        memcpy(l0, lambda, (size_t)contacts * 8);
        memcpy(b0, beta, 2 * (size_t)contacts * 8);
        for (int32_t i = 0; warm && i < s.n; i++) s.b[i] *= 1.01;
        for (int32_t k = 0; k < 100 && spent < 500; k++) {
            memcpy(lambda, l0, (size_t)contacts * 8);
            memcpy(beta, b0, 2 * (size_t)contacts * 8);
            double t = bench_ms(CLOCK_THREAD_CPUTIME_ID);
            if (qpc_solve_friction(QPC_SOLVER_AUTO, &qp, &friction, &options, &how, &arena, dv,
                                   lambda, beta, &solver, &report, &err) != QPC_OK) {
                fprintf(stderr, "cable: %s\n", err.message);
                exit(1);
            }
            t = bench_ms(CLOCK_THREAD_CPUTIME_ID) - t;
            spent += t;
            if (t < best) best = t;
            qpc_arena_reset(&arena);
        }
        printf("%s,%s,%s,cable_mu_%g_%s,%s,%d,%d,%.3e,%.3e,%.3e,%d,%d,%d,%d,%d,%d,%.3f\n", cpu,
               bench_compiler(), commit, mu, warm ? "warm" : "cold",
               mode == QPC_FRICTION_EXACT ? "exact" : "staggered", contacts, report.converged,
               report.natural, report.penetration, report.dissipation_defect, report.iterations,
               report.outers, report.newton, report.sticking, report.sliding, report.open, best);
    }
    fflush(stdout);
    free(dv);
    free(lambda);
    free(beta);
    free(l0);
    free(b0);
    qpc_arena_fini(&arena);
    cable_free(&s);
}

int main(int argc, char **argv) {
    bench_cpu(cpu, sizeof cpu);
    commit = argc > 1 ? argv[1] : "unknown";
    printf("cpu,compiler,commit,problem,mode,contacts,converged,natural,penetration,dissipation_"
           "defect,"
           "iterations,outers,newton,sticking,sliding,open,ms\n");
    for (int i = 2; i < argc; i++) {
        cones_file f;
        const char *slash = strrchr(argv[i], '/');
        if (!cones_open(argv[i], 3, &f)) {
            fprintf(stderr, "bench_friction: %s is not a friction problem\n", argv[i]);
            return 1;
        }
        run(slash != NULL ? slash + 1 : argv[i], &f.cones, QPC_FRICTION_EXACT);
        run(slash != NULL ? slash + 1 : argv[i], &f.cones, QPC_FRICTION_STAGGERED);
        cones_close(&f);
    }
    for (int32_t contacts = 25; contacts <= 200; contacts *= 2)
        for (int32_t k = 0; k < 4; k++)
            run_cable(contacts, k % 2 ? 0.6 : 0.1,
                      k / 2 ? QPC_FRICTION_STAGGERED : QPC_FRICTION_EXACT);
    for (int32_t rows = 4; rows <= 16; rows += 4) run_wall(rows, rows <= 12);
    return 0;
}
