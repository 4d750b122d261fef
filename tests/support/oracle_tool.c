// What the engine's parts answer to problems of algebra, for tests/oracle/run.py.
//
//     oracle_tool
//
// Reads one JSON map a line from standard input and answers each by one line: {"error": text} or what the
// operation `op` gives. The script poses the problem and judges; this program only asks the engine.
//     rows    particles, springs between neighbours, rows, friction on contacts: one step's QP
//     qp      a dense QP with equalities and friction
//     delassus  matrix of the contacts of a rigid body
//     tets    stiffness, forces, energy, stress of tetrahedra; a linear problem at the rest shape
//     box     the same of a box of tetrahedra
//     ccd     one continuous test
#include "base/json.h"
#include "base/mem.h"
#include "engine/collision/ccd.h"
#include "engine/dynamics/cable.h"
#include "engine/dynamics/rigid_rows.h"
#include "engine/solver/friction.h"
#include "engine/solver/rows.h"
#include "engine/solver/solver.h"
#include "tests/support/softbox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qpc_arena arena;

// ---- reading: anything missing or wrong ends the program, since only our own script calls it ----

static _Noreturn void stop(const char *what) {
    fprintf(stderr, "oracle_tool: %s\n", what);
    exit(2);
}
static void check(qpc_status status, const qpc_error *err) {
    if (status != QPC_OK) stop(err->message);
}
static double number(const qpc_value *map, const char *key) {
    double d;
    qpc_error err = {0};
    check(qpc_read_real(qpc_map_get(map, key), key, -1e300, 1e300, &d, &err), &err);
    return d;
}
static double number_or(const qpc_value *map, const char *key, double standard) {
    return qpc_map_get(map, key) == NULL ? standard : number(map, key);
}
static int32_t whole(const qpc_value *map, const char *key) {
    return (int32_t)number(map, key);
}
static bool is(const qpc_value *map, const char *key, const char *word) {
    return qpc_str_equal(qpc_map_get(map, key), word);
}
static int64_t count_of(const qpc_value *v) {
    if (v == NULL || v->kind != QPC_LIST) return 1;
    int64_t n = 0;
    for (int32_t i = 0; i < v->list.count; i++) n += count_of(&v->list.items[i]);
    return n;
}
static double *flatten(const qpc_value *v, double *at) {
    if (v->kind == QPC_LIST) {
        for (int32_t i = 0; i < v->list.count; i++) at = flatten(&v->list.items[i], at);
        return at;
    }
    qpc_error err = {0};
    check(qpc_read_real(v, "a number of a list", -1e300, 1e300, at, &err), &err);
    return at + 1;
}
/// All numbers of a nested list, n of them (n < 0: any); NULL if the key is missing. For the life of the program.
static double *numbers(const qpc_value *map, const char *key, int64_t n) {
    const qpc_value *v = qpc_map_get(map, key);
    if (v == NULL) return NULL;
    int64_t have = count_of(v);
    if (n >= 0 && have != n) stop(key);
    double *x = qpc_arena_array(&arena, (size_t)have + 1, sizeof *x);
    if (x == NULL) stop("memory");
    flatten(v, x);
    return x;
}
static double *zeros(int64_t n) {
    double *x = qpc_arena_array(&arena, (size_t)n + 1, sizeof *x);
    if (x == NULL) stop("memory");
    memset(x, 0, ((size_t)n + 1) * sizeof *x);
    return x;
}
static double *numbers_or_zeros(const qpc_value *map, const char *key, int64_t n) {
    double *x = numbers(map, key, n);
    return x != NULL ? x : zeros(n);
}
static qpc_vec3 vector(const qpc_value *map, const char *key) {
    double *x = numbers(map, key, 3);
    if (x == NULL) stop(key);
    return v3_load(x);
}
static const qpc_value *list_of(const qpc_value *map, const char *key, int32_t *ret_count) {
    const qpc_value *v = qpc_map_get(map, key);
    *ret_count = v != NULL && v->kind == QPC_LIST ? v->list.count : 0;
    return *ret_count > 0 ? v->list.items : NULL;
}

// ---- writing ----

static void print_list(const char *key, const double *x, int64_t n) {
    printf(", \"%s\": [", key);
    for (int64_t i = 0; i < n; i++) printf(isfinite(x[i]) ? "%s%.17g" : "%snull", i > 0 ? ", " : "", x[i]);
    printf("]");
}
static void begin(void) {
    printf("{\"ok\": true");
}
static void end(void) {
    printf("}\n");
}

// ---- rows ----

enum { NODES = 256, ROWS = 512 };

static void add_row(const qpc_value *row, qpc_rows *rows, const qpc_row_frame *frame, int32_t number_of) {
    qpc_error err = {0};
    if (is(row, "kind", "contact")) {
        double *node = numbers(row, "node", 4), *weight = numbers(row, "weight", 4);
        qpc_contact c = {.key = (uint64_t)number_of, .n = vector(row, "n")};
        for (int k = 0; k < 4; k++) {
            c.node[k] = (int32_t)node[k];
            c.weight[k] = weight[k];
        }
        check(qpc_rows_add_contact(rows, frame, &c, number(row, "separation"), -1e9, 0, &err), &err);
    } else if (is(row, "kind", "strain")) {
        check(qpc_rows_add_strain(rows, frame, whole(row, "node"), whole(row, "other"), vector(row, "n"),
                                  number(row, "maximum") > 0, number(row, "limit"), (uint64_t)number_of, 0, &err),
              &err);
    } else {
        check(qpc_rows_add_fixed(rows, frame, whole(row, "node"), vector(row, "velocity"), &err), &err);
    }
}

/// Tangents of one contact: t1 and t2 over its weighted nodes.
static void tangents(const qpc_value *row, const qpc_row_frame *frame, qpc_friction *f, int32_t *column, double *value,
                     int32_t *start, double *u0) {
    double *node = numbers(row, "node", 4), *weight = numbers(row, "weight", 4);
    for (int t = 0; t < 2; t++) {
        double *along = numbers(row, t == 0 ? "t1" : "t2", 3), sum[3 * NODES] = {0};
        int32_t at = start[2 * f->count + t];
        u0[2 * f->count + t] = 0;
        for (int k = 0; k < 4; k++)
            for (int d = 0; d < 3; d++) {
                int32_t i = (int32_t)node[k];
                u0[2 * f->count + t] += weight[k] * along[d] * frame->v[3 * i + d];
                if (frame->dof[i] >= 0) sum[frame->dof[i] + d] += weight[k] * along[d];
            }
        for (int32_t j = 0; j < 3 * frame->node_count; j++)
            if (sum[j] != 0) {
                column[at] = j;
                value[at++] = sum[j];
            }
        start[2 * f->count + t + 1] = at;
    }
}

typedef struct particles {
    int32_t nodes, n;
    int32_t dof[NODES];
    double *x, *v, *b, dt;
    qpc_row_frame frame;
    qpc_linsys K;
} particles;

static void read_particles(const qpc_value *p, particles *s) {
    qpc_error err = {0};
    s->nodes = (int32_t)count_of(qpc_map_get(p, "mass"));
    if (s->nodes > NODES) stop("too many nodes");
    double *mass = numbers(p, "mass", s->nodes), *force = numbers_or_zeros(p, "force", 3 * s->nodes);
    s->x = numbers(p, "x", 3 * s->nodes);
    s->v = numbers(p, "v", 3 * s->nodes);
    s->dt = number(p, "dt");
    for (int32_t i = 0; i < s->nodes; i++) {
        s->dof[i] = mass[i] > 0 ? s->n : -1;
        s->n += mass[i] > 0 ? 3 : 0;
    }
    s->frame = (qpc_row_frame){.node_count = s->nodes, .dof = s->dof, .x = s->x, .v = s->v, .dt = s->dt};
    s->b = zeros(s->n);
    check(qpc_linsys_resize(&s->K, s->n, s->n - 1, &err), &err);
    for (int32_t i = 0; i < s->nodes; i++)
        for (int d = 0; d < 3 && s->dof[i] >= 0; d++) {
            qpc_linsys_add(&s->K, s->dof[i] + d, s->dof[i] + d, mass[i]);
            s->b[s->dof[i] + d] = s->dt * force[3 * i + d];
        }
}

static void add_springs(const qpc_value *p, particles *s) {
    static int32_t first[NODES];
    int32_t count;
    const qpc_value *list = list_of(p, "springs", &count);
    if (count == 0) return;
    if (s->n != 3 * s->nodes || count > NODES) stop("springs want every node to be unknown");
    double *k = zeros(count), *l0 = zeros(count), *f = zeros(s->n), *Hv = zeros(s->n);
    for (int32_t i = 0; i < count; i++) {
        first[i] = whole(&list[i], "node");
        k[i] = number(&list[i], "stiffness");
        l0[i] = number(&list[i], "rest_length");
    }
    qpc_springs springs = {.count = count, .node = first, .stiffness = k, .rest_length = l0};
    qpc_springs_linearise(&springs, s->x, s->v, s->dt, &s->K, f, Hv);
    for (int32_t i = 0; i < s->n; i++) s->b[i] += s->dt * (f[i] - s->dt * Hv[i]);
}

static qpc_solver_id solver_of(const qpc_value *p) {
    char name[40] = "auto";
    qpc_solver_id id;
    const qpc_value *solver = qpc_map_get(p, "solver");
    if (solver != NULL) snprintf(name, sizeof name, "%.*s", (int)solver->str.size, solver->str.bytes);
    if (!qpc_solver_from_name(name, &id)) stop("solver");
    return id;
}

static void print_rows(const particles *s, const qpc_rows *rows, const double *dv, const double *beta, int32_t rubbing) {
    double *all = zeros(3 * s->nodes), *J = zeros((int64_t)rows->m * s->n);
    for (int32_t i = 0; i < 3 * s->nodes; i++)
        if (s->dof[i / 3] >= 0) all[i] = dv[s->dof[i / 3] + i % 3];
    for (int32_t i = 0; i < rows->m; i++)
        for (int32_t e = rows->row_start[i]; e < rows->row_start[i + 1]; e++)
            J[(int64_t)i * s->n + rows->column[e]] = rows->value[e];
    print_list("c", rows->c, rows->m);
    print_list("lambda", rows->lambda, rows->m);
    print_list("beta", beta, 2 * rubbing);
    print_list("dv", all, 3 * s->nodes);
    print_list("J", J, (int64_t)rows->m * s->n);
}

static void do_rows(const qpc_value *p) {
    static int32_t column[2 * ROWS * 24], start[2 * ROWS + 1], row_of[ROWS];
    static double value[2 * ROWS * 24], u0[2 * ROWS], mu[ROWS];
    particles s = {0};
    int32_t count;
    qpc_rows rows = {0};
    qpc_error err = {0};
    read_particles(p, &s);
    add_springs(p, &s);
    const qpc_value *list = list_of(p, "rows", &count);
    qpc_friction friction = {.row = row_of, .mu = mu, .start = start, .column = column, .value = value, .u0 = u0};
    if (count > ROWS) stop("too many rows");
    for (int32_t i = 0; i < count; i++) {
        int32_t at = rows.m;
        add_row(&list[i], &rows, &s.frame, i);
        double rub = number_or(&list[i], "mu", 0);
        if (!(rub > 0)) continue;
        tangents(&list[i], &s.frame, &friction, column, value, start, u0);
        row_of[friction.count] = at;
        mu[friction.count++] = rub;
    }
    qpc_solver_id id = solver_of(p);
    qpc_solver_options options = qpc_solver_options_default();
    options.residual_tolerance = 1e-12;
    options.exact = id != QPC_SOLVER_AUGMENTED_CG;
    if (qpc_map_get(p, "perturbation") != NULL) {
        options.perturbation = number(p, "perturbation");
        for (int32_t i = 0; i < rows.m; i++) rows.lambda[i] = 1; // all active at the start
    }
    check(qpc_linsys_factor(&s.K, &err), &err);
    qpc_qp qp = qpc_rows_qp(&rows, &s.K, s.b);
    qpc_solver_report report;
    qpc_friction_report rubbing = {.converged = true};
    qpc_friction_options how = {.mode = QPC_FRICTION_EXACT};
    double *dv = zeros(s.n), *beta = zeros(2 * friction.count);
    check(friction.count > 0 ? qpc_solve_friction(id, &qp, &friction, &options, &how, &arena, dv, rows.lambda, beta, &report,
                                                  &rubbing, &err)
                             : qpc_solve(id, &qp, &options, &arena, dv, rows.lambda, &report, &err),
          &err);
    begin();
    printf(", \"optimal\": %s, \"converged\": %s", report.outcome == QPC_OUTCOME_OPTIMAL ? "true" : "false",
           rubbing.converged ? "true" : "false");
    print_rows(&s, &rows, dv, beta, friction.count);
    end();
    qpc_rows_fini(&rows);
    qpc_linsys_fini(&s.K);
}

// ---- dense problems ----

static void compress(int32_t m, int32_t n, const double *dense, int32_t *start, int32_t *column, double *value) {
    int32_t at = 0;
    for (int32_t i = 0; i < m; i++) {
        start[i] = at;
        for (int32_t j = 0; j < n; j++)
            if (dense[(int64_t)i * n + j] != 0) {
                column[at] = j;
                value[at++] = dense[(int64_t)i * n + j];
            }
    }
    start[m] = at;
}

static int32_t *places(int64_t n) {
    int32_t *p = qpc_arena_array(&arena, (size_t)n + 1, sizeof *p);
    if (p == NULL) stop("memory");
    return p;
}

/// K diagonal (n), b, J (m x n), c, equality (m); friction: row, mu (f), T (2f x n).
static void do_qp(const qpc_value *p) {
    int32_t n = (int32_t)count_of(qpc_map_get(p, "K")), m = (int32_t)count_of(qpc_map_get(p, "c"));
    int32_t f = qpc_map_get(p, "mu") != NULL ? (int32_t)count_of(qpc_map_get(p, "mu")) : 0;
    double *diagonal = numbers(p, "K", n), *J = numbers(p, "J", (int64_t)m * n), *equal = numbers_or_zeros(p, "equality", m);
    double *row = numbers_or_zeros(p, "row", f), *T = numbers_or_zeros(p, "T", 2 * (int64_t)f * n);
    double *dv = zeros(n), *lambda = zeros(m), *beta = zeros(2 * f), *value = zeros((int64_t)m * n);
    double *t_value = zeros(2 * (int64_t)f * n);
    int32_t *start = places(m), *column = places((int64_t)m * n), *t_start = places(2 * f);
    int32_t *t_column = places(2 * (int64_t)f * n), *row_of = places(f);
    uint8_t *equality = qpc_arena_array(&arena, 2 * (size_t)m + 1, 1);
    uint64_t *key = qpc_arena_array(&arena, (size_t)m + 1, sizeof *key);
    qpc_linsys K = {0};
    qpc_error err = {0};
    if (equality == NULL || key == NULL) stop("memory");
    check(qpc_linsys_resize(&K, n, n - 1, &err), &err);
    for (int32_t i = 0; i < n; i++) qpc_linsys_add(&K, i, i, diagonal[i]);
    check(qpc_linsys_factor(&K, &err), &err);
    compress(m, n, J, start, column, value);
    compress(2 * f, n, T, t_start, t_column, t_value);
    for (int32_t i = 0; i < m; i++) {
        equality[i] = equal[i] != 0;
        equality[m + i] = 1; // priorities
        key[i] = (uint64_t)i;
    }
    for (int32_t i = 0; i < f; i++) row_of[i] = (int32_t)row[i];
    qpc_qp qp = {.n = n, .m = m, .sys = &K, .b = numbers(p, "b", n), .row_start = start, .column = column, .value = value,
                 .c = numbers(p, "c", m), .equality = equality, .priority = equality + m, .key = key};
    qpc_friction friction = {.count = f, .row = row_of, .mu = numbers_or_zeros(p, "mu", f), .start = t_start,
                             .column = t_column, .value = t_value, .u0 = zeros(2 * f)};
    qpc_solver_options options = qpc_solver_options_default();
    qpc_friction_options how = {.mode = QPC_FRICTION_EXACT};
    qpc_solver_report report;
    qpc_friction_report rubbing = {.converged = true};
    options.exact = true;
    if (f > 0) {
        check(qpc_solve_friction(QPC_SOLVER_AUTO, &qp, &friction, &options, &how, &arena, dv, lambda, beta, &report, &rubbing,
                                 &err),
              &err);
    } else {
        check(qpc_solve(QPC_SOLVER_AUTO, &qp, &options, &arena, dv, lambda, &report, &err), &err);
    }
    begin();
    printf(", \"converged\": %s", rubbing.converged ? "true" : "false");
    print_list("dv", dv, n);
    print_list("lambda", lambda, m);
    print_list("beta", beta, 2 * f);
    end();
    qpc_linsys_fini(&K);
}

// ---- rigid bodies ----

/// Contacts of one body with the fixed world, body and space in line: W = J M^-1 J'.
static void do_delassus(const qpc_value *p) {
    qpc_rigid_body body;
    const double q[4] = {1, 0, 0, 0};
    double block[36], *moment = numbers(p, "moment", 3);
    qpc_linsys M = {0};
    qpc_error err = {0};
    if (moment == NULL) stop("moment");
    body.mass = number(p, "mass");
    memcpy(body.moment, moment, sizeof body.moment);
    qpc_rigid_mass_block(&body, q, block);
    check(qpc_linsys_resize(&M, 6, 5, &err), &err);
    for (int32_t r = 0; r < 6; r++)
        for (int32_t s = 0; s <= r; s++) qpc_linsys_add(&M, r, s, block[6 * r + s]);
    check(qpc_linsys_factor(&M, &err), &err);
    int32_t m = (int32_t)(count_of(qpc_map_get(p, "points")) / 3);
    double *points = numbers(p, "points", 3 * m), *J = zeros(6 * (int64_t)m), *W = zeros((int64_t)m * m), column[6];
    qpc_vec3 n = v3_load(numbers_or_zeros(p, "n", 3));
    for (int32_t i = 0; i < m; i++) qpc_rigid_point_row(n, v3_load(points + 3 * i), J + 6 * i);
    for (int32_t i = 0; i < m; i++) {
        qpc_linsys_solve(&M, J + 6 * i, column);
        for (int32_t j = 0; j < m; j++)
            for (int k = 0; k < 6; k++) W[i * m + j] += J[6 * j + k] * column[k];
    }
    begin();
    print_list("W", W, (int64_t)m * m);
    end();
    qpc_linsys_fini(&M);
}

// ---- tetrahedra ----

/// Largest stretch or turn of an edge by u.
static double largest_gradient(const softbox *b, const double *u) {
    double largest = 0.0;
    for (int32_t e = 0; e < b->count; e++)
        for (int i = 0; i < 3; i++)
            for (int j = i + 1; j < 4; j++) {
                int64_t p = 3 * (int64_t)b->tet[4 * (int64_t)e + i], q = 3 * (int64_t)b->tet[4 * (int64_t)e + j];
                largest = fmax(largest, v3_norm(v3_sub(v3_load(u + p), v3_load(u + q))) / v3_norm(v3_sub(v3_load(b->x + p), v3_load(b->x + q))));
            }
    return largest;
}

/// stress (count x 6): derivative at rest along u, by differences of fourth order over edges that change by 1e-4 and 2e-4: errors of 1e-16 by
/// order, and of 1e-11 or so by rounding.
static void linear_stress(const softbox *b, const double *u, double *stress) {
    int32_t n = 3 * b->nodes, m = 6 * b->count;
    double largest = largest_gradient(b, u), part = largest > 0.0 ? 1e-4 / largest : 1.0, *x = zeros(n), *there = zeros(m);
    static const double at[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
    memset(stress, 0, (size_t)m * sizeof *stress);
    for (int k = 0; k < 4; k++) {
        for (int32_t i = 0; i < n; i++) x[i] = b->x[i] + at[k] * part * u[i];
        qpc_tets_stress(&b->tets, x, there);
        for (int32_t i = 0; i < m; i++) stress[i] += weight[k] * there[i] / (12 * part);
    }
}

static void answer_tets(const qpc_value *p, softbox *b) {
    qpc_error err = {0};
    int32_t n = 3 * b->nodes;
    double *at = numbers(p, "at", n), *u = numbers(p, "linear", n), *stress = zeros(6 * (int64_t)b->count);
    begin();
    if (at != NULL) {
        double *f = zeros(n), energy = qpc_tets_energy(&b->tets, at);
        qpc_tets_force(&b->tets, at, f);
        qpc_tets_stress(&b->tets, at, stress);
        print_list("force", f, n);
        print_list("energy", &energy, 1);
        print_list("stress", stress, 6 * (int64_t)b->count);
    }
    if (u != NULL) {
        double *Hu = zeros(n);
        qpc_linsys_clear(&b->K);
        qpc_tets_linearise(&b->tets, b->x, u, 1, &b->K, NULL, Hu);
        print_list("Hu", Hu, n);
        double *K = zeros((int64_t)n * n);
        for (int32_t i = 0; i < n && n <= 300; i++)
            for (int32_t j = 0; j <= i; j++) {
                const double *entry = qpc_linsys_entry(&b->K, i, j);
                K[(int64_t)i * n + j] = K[(int64_t)j * n + i] = entry != NULL ? *entry : 0;
            }
        if (n <= 300) print_list("K", K, (int64_t)n * n);
    }
    double *held = numbers(p, "held", n);
    if (held != NULL) {
        double *load = numbers_or_zeros(p, "load", n), *move = numbers_or_zeros(p, "u", n), *support = zeros(n);
        uint8_t *mask = qpc_arena_array(&arena, (size_t)n, 1);
        if (mask == NULL) stop("memory");
        for (int32_t i = 0; i < n; i++) mask[i] = held[i] != 0;
        check(softbox_solve(b, load, mask, move, support, &err), &err);
        print_list("u", move, n);
        print_list("support", support, n);
        linear_stress(b, move, stress);
        if (b->count <= 1000) print_list("linear_stress", stress, 6 * (int64_t)b->count);
    }
    double *mass = zeros(b->nodes);
    qpc_tet_rest_masses(&b->rest, b->tet, 1, mass);
    print_list("volume_of_node", mass, b->nodes);
    if (number_or(p, "mesh", 0) > 0) {
        print_list("x", b->x, n);
        double *tet = zeros(4 * (int64_t)b->count);
        for (int32_t i = 0; i < 4 * b->count; i++) tet[i] = b->tet[i];
        print_list("tets", tet, 4 * (int64_t)b->count);
    }
    end();
}

static qpc_tet_material material_of(const qpc_value *p) {
    return is(p, "material", "neo-hookean") ? QPC_TET_NEO_HOOKEAN : QPC_TET_COROTATIONAL;
}

static void do_tets(const qpc_value *p, bool box) {
    softbox b = {0};
    qpc_error err = {0};
    double young = number(p, "young"), poisson = number(p, "poisson");
    if (box) {
        double *cells = numbers(p, "cells", 3), *size = numbers(p, "size", 3);
        int32_t whole_cells[3] = {(int32_t)cells[0], (int32_t)cells[1], (int32_t)cells[2]};
        if (!softbox_make(&b, whole_cells, size, true, young, poisson, material_of(p), &err)) stop(err.message);
    } else {
        b.nodes = (int32_t)(count_of(qpc_map_get(p, "x")) / 3);
        b.count = (int32_t)(count_of(qpc_map_get(p, "tets")) / 4);
        double *x = numbers(p, "x", 3 * b.nodes), *tet = numbers(p, "tets", 4 * b.count);
        b.x = malloc(3 * sizeof *b.x * (size_t)b.nodes);
        b.tet = malloc(4 * sizeof *b.tet * (size_t)b.count);
        if (b.x == NULL || b.tet == NULL) stop("memory");
        memcpy(b.x, x, 3 * sizeof *b.x * (size_t)b.nodes);
        for (int32_t i = 0; i < 4 * b.count; i++) b.tet[i] = (int32_t)tet[i];
        for (int32_t e = 0; e < b.count; e++) softbox_turn(b.x, b.tet + 4 * e);
        if (!softbox_finish(&b, young, poisson, material_of(p), &err)) stop(err.message);
    }
    answer_tets(p, &b);
    softbox_fini(&b);
}

// ---- continuous tests ----

static void do_ccd(const qpc_value *p) {
    double *start = numbers(p, "start", 12), *last = numbers(p, "end", 12);
    qpc_vec3 x0[4], x1[4];
    for (int k = 0; k < 4; k++) {
        x0[k] = v3_load(start + 3 * k);
        x1[k] = v3_load(last + 3 * k);
    }
    qpc_ccd_result r = {0};
    (is(p, "pair", "edge_edge") ? qpc_ccd_ee : qpc_ccd_vt)(x0, x1, number(p, "separation"), number(p, "tolerance"), &r);
    begin();
    printf(", \"hit\": %s", r.outcome == QPC_CCD_MISS ? "false" : "true");
    print_list("toi", &r.toi, 1);
    if (r.outcome != QPC_CCD_MISS) print_list("weight", r.weight, 4);
    end();
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, stdin)) > 0) {
        qpc_value p;
        qpc_error err = {0};
        check(qpc_json_parse(line, (size_t)length, &p, &err), &err);
        if (is(&p, "op", "rows")) do_rows(&p);
        else if (is(&p, "op", "qp")) do_qp(&p);
        else if (is(&p, "op", "delassus")) do_delassus(&p);
        else if (is(&p, "op", "tets")) do_tets(&p, false);
        else if (is(&p, "op", "box")) do_tets(&p, true);
        else if (is(&p, "op", "ccd")) do_ccd(&p);
        else stop("op");
        (void)fflush(stdout);
        qpc_value_fini(&p);
        qpc_arena_reset(&arena);
    }
    free(line);
    qpc_arena_fini(&arena);
    return 0;
}
