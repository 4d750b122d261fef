/// Sheets of triangles: forces and stiffness against differences made here, and sheets of them against closed forms.
#include "engine/dynamics/shell.h"

#include "base/mem.h"
#include "base/vec.h"
#include "engine/dynamics/cable.h"
#include "engine/dynamics/cloth.h"
#include "tests/support/check.h"
#include "tests/support/faults.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed = 17;
static double uniform(void) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

// ---- a sheet with all that its forces need ----

typedef struct sheet {
    qpc_mesh *mesh;
    int32_t nodes, pairs;
    double *x; // the rest shape
    qpc_cloth_springs springs;
    qpc_shell_rest rest;
    double *mu, *lambda, *couple, *stiffness, *scratch;
    int32_t *spring_place, *place, *hinge_place;
    qpc_linsys K;
    qpc_shells shells;
} sheet;

static void *need(size_t count, size_t size) {
    void *p = calloc(count + 1, size);
    if (p == NULL) abort();
    return p;
}

static void sheet_make(sheet *s, const double *x, int32_t nodes, const int32_t *triangles, int32_t count, double mu, double lambda,
                       double poisson, double rigidity) {
    qpc_error err = {0};
    int32_t *start, *row;
    memset(s, 0, sizeof *s);
    assert_ok(qpc_mesh_create(x, nodes, triangles, count, 3, NULL, &s->mesh, NULL, &err), &err);
    assert_ok(qpc_cloth_springs_make(s->mesh, 1, NULL, 1, 1, &s->springs, &err), &err);
    assert_ok(qpc_shell_rest_make(s->mesh, 1, poisson, &s->rest, &err), &err);
    size_t triangle_count = (size_t)s->rest.count, hinges = (size_t)s->rest.hinge_count;
    assert_int_equal(s->springs.count - s->springs.stretch_count, s->rest.hinge_count);
    s->nodes = nodes;
    s->x = need(3 * (size_t)nodes, sizeof *s->x);
    memcpy(s->x, x, 3 * (size_t)nodes * sizeof *x);
    s->spring_place = need((size_t)s->springs.count, sizeof *s->spring_place);
    s->place = need(3 * triangle_count, sizeof *s->place);
    s->hinge_place = need(6 * hinges, sizeof *s->hinge_place);
    s->mu = need(triangle_count, sizeof *s->mu);
    s->lambda = need(triangle_count, sizeof *s->lambda);
    s->couple = need(6 * triangle_count, sizeof *s->couple);
    s->stiffness = need(hinges, sizeof *s->stiffness);
    s->scratch = need(2 * hinges, sizeof *s->scratch);
    qpc_springs springs = {.count = s->springs.count, .node = s->springs.node, .other = s->springs.other};
    assert_ok(qpc_springs_pattern(&springs, nodes, &start, &row, s->spring_place, &err), &err);
    assert_ok(qpc_linsys_resize_sparse(&s->K, 3 * nodes, start, row, &err), &err);
    qpc_free(start);
    qpc_free(row);
    for (size_t t = 0; t < triangle_count; t++) {
        s->mu[t] = mu;
        s->lambda[t] = lambda;
        for (size_t k = 0; k < 6; k++) s->couple[6 * t + k] = rigidity * s->rest.couple[6 * t + k];
        for (size_t k = 0; k < 3; k++) s->place[3 * t + k] = s->spring_place[s->rest.pair[3 * t + k]];
    }
    for (size_t h = 0; h < hinges; h++) {
        s->stiffness[h] = rigidity * s->rest.stiffness[h];
        for (size_t k = 0; k < 6; k++) s->hinge_place[6 * h + k] = s->spring_place[s->rest.hinge_pair[6 * h + k]];
    }
    s->shells = (qpc_shells){.count = s->rest.count, .node = qpc_mesh_elements(s->mesh), .inverse = s->rest.inverse,
                             .area = s->rest.area, .mu = s->mu, .lambda = s->lambda, .place = s->place,
                             .bend = s->rest.bend, .couple = s->couple, .scratch = s->scratch,
                             .hinge_count = s->rest.hinge_count, .hinge = s->rest.hinge, .stiffness = s->stiffness,
                             .angle = s->rest.angle, .hinge_place = s->hinge_place};
}

static void sheet_fini(sheet *s) {
    qpc_mesh_unref(s->mesh);
    qpc_cloth_springs_fini(&s->springs);
    qpc_shell_rest_fini(&s->rest);
    qpc_linsys_fini(&s->K);
    free(s->x);
    free(s->mu);
    free(s->lambda);
    free(s->couple);
    free(s->stiffness);
    free(s->scratch);
    free(s->spring_place);
    free(s->place);
    free(s->hinge_place);
}

/// (columns + 1) x (rows + 1) nodes over `length` by `width`, node j of column i at i (rows + 1) + j; every cell cut from its
/// first to its last corner; inner nodes moved by up to `shake` of a cell.
static void sheet_grid(sheet *s, int32_t columns, int32_t rows, double length, double width, double shake, double mu, double lambda,
                       double poisson, double rigidity) {
    int32_t nodes = (columns + 1) * (rows + 1), count = 0;
    double *x = need(3 * (size_t)nodes, sizeof *x), a = length / columns, b = width / rows;
    int32_t *t = need(6 * (size_t)(columns * rows), sizeof *t);
    for (int32_t i = 0; i <= columns; i++)
        for (int32_t j = 0; j <= rows; j++) {
            bool inner = i > 0 && i < columns && j > 0 && j < rows;
            double *p = x + 3 * (i * (rows + 1) + j);
            p[0] = a * (i + (inner ? shake * uniform() : 0));
            p[1] = b * (j + (inner ? shake * uniform() : 0));
        }
    for (int32_t i = 0; i < columns; i++)
        for (int32_t j = 0; j < rows; j++) {
            int32_t n0 = i * (rows + 1) + j, n1 = n0 + rows + 1;
            const int32_t cell[6] = {n0, n1, n1 + 1, n0, n1 + 1, n0 + 1};
            memcpy(t + 6 * (size_t)count++, cell, sizeof cell);
        }
    sheet_make(s, x, nodes, t, 2 * count, mu, lambda, poisson, rigidity);
    free(x);
    free(t);
}

static void forces(const sheet *s, const double *x, double *f) {
    memset(f, 0, 3 * (size_t)s->nodes * sizeof *f);
    qpc_shells_force(&s->shells, x, f);
}

/// H (n x n) at x, from K; H v as it is returned must be the same.
static void stiffness(sheet *s, const double *x, double *H) {
    int32_t n = 3 * s->nodes;
    double *v = need((size_t)n, sizeof *v), *Hv = need((size_t)n, sizeof *Hv);
    for (int32_t k = 0; k < n; k++) v[k] = uniform();
    qpc_linsys_clear(&s->K);
    qpc_shells_linearise(&s->shells, x, v, 1, &s->K, NULL, Hv);
    for (int32_t j = 0; j < n; j++)
        for (int32_t i = j; i < n; i++) {
            const double *at = qpc_linsys_entry(&s->K, i, j);
            H[i * n + j] = H[j * n + i] = at != NULL ? *at : 0;
        }
    double largest = 0;
    for (int32_t k = 0; k < n * n; k++) largest = fmax(largest, fabs(H[k]));
    for (int32_t i = 0; i < n; i++) {
        double sum = 0;
        for (int32_t j = 0; j < n; j++) sum += H[i * n + j] * v[j];
        assert_near(Hv[i], sum, 1e-12 * largest);
    }
    free(v);
    free(Hv);
}

/// -d f / d x by central differences.
static void differences(const sheet *s, double *x, double step, double *H) {
    int32_t n = 3 * s->nodes;
    double *f = need((size_t)n, sizeof *f), *g = need((size_t)n, sizeof *g);
    for (int32_t j = 0; j < n; j++) {
        double at = x[j];
        x[j] = at + step;
        forces(s, x, f);
        x[j] = at - step;
        forces(s, x, g);
        x[j] = at;
        for (int32_t i = 0; i < n; i++) H[i * n + j] = (g[i] - f[i]) / (2 * step);
    }
    free(f);
    free(g);
}

/// Smallest and largest eigenvalue of a symmetric A (n x n), which is used up.
static void extremes(int n, double *A, double *ret_least, double *ret_most) {
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double e = 2 * A[p * n + q], d = A[q * n + q] - A[p * n + p];
                if (!(fabs(e) > 0)) continue;
                double t = e / (fabs(d) + hypot(d, e)), c, r;
                if (d < 0) t = -t;
                c = 1 / sqrt(1 + t * t);
                r = t * c;
                for (int k = 0; k < n; k++) {
                    double u = A[k * n + p], v = A[k * n + q];
                    A[k * n + p] = c * u - r * v;
                    A[k * n + q] = r * u + c * v;
                }
                for (int k = 0; k < n; k++) {
                    double u = A[p * n + k], v = A[q * n + k];
                    A[p * n + k] = c * u - r * v;
                    A[q * n + k] = r * u + c * v;
                }
            }
    *ret_least = *ret_most = A[0];
    for (int k = 1; k < n; k++) {
        *ret_least = fmin(*ret_least, A[k * n + k]);
        *ret_most = fmax(*ret_most, A[k * n + k]);
    }
}

static const double PAIR[] = {0, 0, 0, 1, 0.1, 0, 0.4, 0.9, 0, 0.3, -0.8, 0.2};
static const int32_t PAIR_TRIANGLES[] = {0, 1, 2, 1, 0, 3};

/// Rest shape x scaled, shaken, and turned about an axis of its own.
static void deform(const sheet *s, double scale, double shake, double *x) {
    double q[4], norm = 0;
    for (int k = 0; k < 4; k++) q[k] = uniform();
    for (int k = 0; k < 4; k++) norm += q[k] * q[k];
    for (int k = 0; k < 4; k++) q[k] /= sqrt(norm);
    for (int32_t i = 0; i < s->nodes; i++) {
        qpc_vec3 p = v3_scale(scale, v3_load(s->x + 3 * i));
        p = v3_add(p, v3(shake * uniform(), shake * uniform(), shake * uniform()));
        v3_store(x + 3 * i, v3_add(v3_rotate(q, p), v3(2, -1, 3)));
    }
}

static void forces_are_the_slope_of_the_energy(void **state) {
    (void)state;
    sheet s;
    sheet_make(&s, PAIR, 4, PAIR_TRIANGLES, 2, 3, 2, 0.3, 0.7);
    assert_int_equal(s.rest.hinge_count, 1);
    for (int trial = 0; trial < 200; trial++) {
        double x[12], f[12], sum[3] = {0}, worst = 0, largest = 0;
        qpc_vec3 moment = v3(0, 0, 0);
        deform(&s, 0.5 + 0.01 * trial, trial % 4 * 0.15, x);
        forces(&s, x, f);
        for (int k = 0; k < 12; k++) {
            const double step = 1e-6;
            double at = x[k], up, down;
            x[k] = at + step;
            up = qpc_shells_energy(&s.shells, x);
            x[k] = at - step;
            down = qpc_shells_energy(&s.shells, x);
            x[k] = at;
            worst = fmax(worst, fabs(f[k] + (up - down) / (2 * step)));
            largest = fmax(largest, fabs(f[k]));
            sum[k % 3] += f[k];
        }
        for (int i = 0; i < 4; i++) moment = v3_add(moment, v3_cross(v3_load(x + 3 * i), v3_load(f + 3 * i)));
        assert_true(worst <= 1e-7 * (1 + largest));
        for (int k = 0; k < 3; k++) assert_near(sum[k], 0, 1e-13 * (1 + largest));
        assert_near(v3_norm(moment), 0, 1e-12 * (1 + largest));
    }
    sheet_fini(&s);
}

static void a_sheet_at_rest_carries_nothing_wherever_it_is_turned(void **state) {
    (void)state;
    sheet s;
    sheet_make(&s, PAIR, 4, PAIR_TRIANGLES, 2, 3, 2, 0.3, 0.7);
    assert_true(fabs(s.rest.angle[0]) > 0.1); // folded at rest
    for (int trial = 0; trial < 20; trial++) {
        double x[12], f[12];
        deform(&s, 1, 0, x);
        forces(&s, x, f);
        for (int k = 0; k < 12; k++) assert_near(f[k], 0, 1e-13);
        assert_near(qpc_shells_energy(&s.shells, x), 0, 1e-26);
    }
    sheet_fini(&s);
}

/// In tension nothing of the membrane is clamped, and at its own angle a hinge's k g g' is all there is.
static void stiffness_is_the_slope_of_forces(void **state) {
    (void)state;
    sheet s;
    double x[12], H[144], D[144];
    sheet_make(&s, PAIR, 4, PAIR_TRIANGLES, 2, 3, 2, 0.3, 0);
    for (int trial = 0; trial < 50; trial++) {
        deform(&s, 1.8, 0.1, x);
        stiffness(&s, x, H);
        differences(&s, x, 1e-5, D);
        for (int k = 0; k < 144; k++) assert_near(H[k], D[k], 1e-7 * 20);
    }
    sheet_fini(&s);
    sheet_make(&s, PAIR, 4, PAIR_TRIANGLES, 2, 0, 0, 0.3, 0.7);
    for (int trial = 0; trial < 50; trial++) {
        deform(&s, 1.2, 0.2, x);
        s.rest.angle[0] = qpc_shells_angle(x, s.rest.hinge);
        stiffness(&s, x, H);
        differences(&s, x, 1e-6, D);
        double largest = 0;
        for (int k = 0; k < 144; k++) largest = fmax(largest, fabs(H[k]));
        for (int k = 0; k < 144; k++) assert_near(H[k], D[k], 1e-7 * largest);
    }
    sheet_fini(&s);
}

/// Of a membrane H is the nearest matrix without negative eigenvalues to the slope: differences against it are negative.
static void compressed_stiffness_is_clamped(void **state) {
    (void)state;
    sheet s;
    double x[12], H[144], D[144], least, most, negative = 0;
    sheet_make(&s, PAIR, 4, PAIR_TRIANGLES, 2, 3, 2, 0.3, 0);
    for (int trial = 0; trial < 200; trial++) {
        deform(&s, 0.2 + 0.006 * trial, 0.3, x);
        stiffness(&s, x, H);
        differences(&s, x, 1e-7, D);
        for (int k = 0; k < 144; k++) D[k] = 0.5 * (D[k] + D[12 * (k % 12) + k / 12]);
        double part[144], gap[144];
        memcpy(part, H, sizeof part);
        for (int k = 0; k < 144; k++) gap[k] = H[k] - D[k];
        extremes(12, part, &least, &most);
        assert_true(least >= -1e-12 * most);
        double scale = most;
        extremes(12, gap, &least, &most);
        assert_true(least >= -1e-5 * scale); // only ever stiffer
        memcpy(part, D, sizeof part);
        extremes(12, part, &least, &most);
        negative = fmin(negative, least);
    }
    assert_true(negative < -0.1); // there was something to clamp
    sheet_fini(&s);
}

static void collapsed_sheets_have_finite_forces(void **state) {
    (void)state;
    static const double LINE[12] = {0, 0, 0, 1, 0, 0, 0.5, 0, 0, 0.5, 0, 0}, POINT[12] = {0};
    const double *const places[] = {LINE, POINT};
    sheet s;
    sheet_make(&s, PAIR, 4, PAIR_TRIANGLES, 2, 3, 2, 0.3, 0.7);
    for (int p = 0; p < 2; p++) {
        double x[12], f[12], H[144], least, most;
        memcpy(x, places[p], sizeof x);
        forces(&s, x, f);
        stiffness(&s, x, H);
        for (int k = 0; k < 12; k++) assert_true(isfinite(f[k]));
        for (int k = 0; k < 144; k++) assert_true(isfinite(H[k]));
        extremes(12, H, &least, &most);
        assert_true(least >= -1e-12 * most);
        assert_true(qpc_shells_energy(&s.shells, x) > 1);
        assert_near(qpc_shells_angle(x, s.rest.hinge), 0, 0);
    }
    sheet_fini(&s);
}

// ---- sheets against closed forms ----

/// Patch test: any uniform deformation of any mesh leaves its inner nodes in balance, and a strip that is free to get
/// narrower pulls with E h times its strain on a metre of its width.
static void uniform_tension_is_exact_on_any_mesh(void **state) {
    (void)state;
    double mu, lambda, rigidity, young = 2e5, poisson = 0.3, thickness = 1e-3, strain = 0.02;
    qpc_error err = {0};
    assert_ok(qpc_shell_moduli(young, poisson, thickness, &mu, &lambda, &rigidity, &err), &err);
    sheet s;
    sheet_grid(&s, 7, 5, 1.4, 0.8, 0.3, mu, lambda, poisson, rigidity);
    double *x = need(3 * (size_t)s.nodes, sizeof *x), *f = need(3 * (size_t)s.nodes, sizeof *f), pull = 0;
    for (int32_t i = 0; i < s.nodes; i++) {
        x[3 * i] = (1 + strain) * s.x[3 * i];
        x[3 * i + 1] = (1 - poisson * strain) * s.x[3 * i + 1];
    }
    forces(&s, x, f);
    for (int32_t i = 0; i < s.nodes; i++) {
        bool end = s.x[3 * i] == 0 || i / 6 == 7;
        if (i / 6 == 7) pull -= f[3 * i];
        for (int a = 0; a < 3; a++)
            if (!end) assert_near(f[3 * i + a], 0, 1e-12); // sides carry nothing
    }
    assert_near(pull, young * thickness * strain * 0.8, 1e-10);
    assert_near(qpc_shells_energy(&s.shells, x), 0.5 * young * thickness * strain * strain * 1.4 * 0.8, 1e-12);
    double *stretch = need(2 * (size_t)s.rest.count, sizeof *stretch);
    qpc_shells_stretches(&s.shells, x, stretch);
    for (int32_t t = 0; t < s.rest.count; t++) {
        assert_near(stretch[2 * t], 1 + strain, 1e-13);
        assert_near(stretch[2 * t + 1], 1 - poisson * strain, 1e-13);
    }
    free(stretch);
    free(x);
    free(f);
    sheet_fini(&s);
}

/// Rolled along its cells a sheet has the energy D/2 kappa^2 A, to the second order of the angle from cell to cell; the half
/// cells at its ends are free and stay flat.
static void a_rolled_sheet_has_the_energy_of_a_plate(void **state) {
    (void)state;
    sheet s;
    const int32_t columns = 40;
    double rigidity = 3e-4, radius = 0.5, length = 1, width = 0.2, a = length / columns;
    sheet_grid(&s, columns, 8, length, width, 0, 0, 0, 0, rigidity);
    double *x = need(3 * (size_t)s.nodes, sizeof *x), turn = 2 * asin(a / (2 * radius)); // chords of a circle
    for (int32_t i = 0; i < s.nodes; i++) {
        double angle = turn * (i / 9);
        x[3 * i] = radius * sin(angle);
        x[3 * i + 1] = s.x[3 * i + 1];
        x[3 * i + 2] = radius * (1 - cos(angle));
    }
    double plate = 0.5 * rigidity / (radius * radius) * width * a * (columns - 1);
    assert_near(qpc_shells_energy(&s.shells, x), plate, 1e-3 * plate);
    free(x);
    sheet_fini(&s);
}

/// D/2 kappa^2 A whichever way a lattice of equal triangles is rolled.
static void equal_triangles_bend_alike_in_all_directions(void **state) {
    (void)state;
    enum { SIDE = 24 };
    double *x = need(3 * (SIDE + 1) * (SIDE + 1), sizeof *x), rigidity = 2e-3, radius = 4, a = 1.0 / SIDE;
    int32_t *t = need(6 * SIDE * SIDE, sizeof *t), count = 0;
    for (int32_t i = 0; i <= SIDE; i++)
        for (int32_t j = 0; j <= SIDE; j++) {
            x[3 * (i * (SIDE + 1) + j)] = a * (i + 0.5 * j);
            x[3 * (i * (SIDE + 1) + j) + 1] = a * sqrt(0.75) * j;
        }
    for (int32_t i = 0; i < SIDE; i++)
        for (int32_t j = 0; j < SIDE; j++) {
            int32_t n = i * (SIDE + 1) + j, m = n + SIDE + 1;
            const int32_t cell[6] = {n, m, n + 1, m, m + 1, n + 1};
            memcpy(t + 6 * (size_t)count++, cell, sizeof cell);
        }
    sheet s;
    sheet_make(&s, x, (SIDE + 1) * (SIDE + 1), t, 2 * count, 0, 0, 0, rigidity);
    for (int k = 0; k < 7; k++) {
        double c = cos(0.3 * k), d = sin(0.3 * k);
        for (int32_t i = 0; i < s.nodes; i++) {
            double along = c * s.x[3 * i] + d * s.x[3 * i + 1], across = c * s.x[3 * i + 1] - d * s.x[3 * i];
            x[3 * i] = radius * sin(along / radius);
            x[3 * i + 1] = across;
            x[3 * i + 2] = radius * (1 - cos(along / radius));
        }
        double plate = 0.5 * rigidity / (radius * radius) * sqrt(0.75);
        assert_near(qpc_shells_energy(&s.shells, x), plate, 0.05 * plate); // triangles at the border give way
    }
    free(x);
    free(t);
    sheet_fini(&s);
}

/// A clamped strip with a small load at its end: F L^3 / 3 D b. Two columns are held, so that the strip begins at the second.
/// H is stiffer than the slope of forces where triangles couple angles: the way to the balance is that of a Newton iteration.
static double end_deflection(int32_t columns, int *ret_steps) {
    sheet s;
    double length = 1, width = 0.1, rigidity = 2e-3, load = 1e-8, off = 1;
    sheet_grid(&s, columns, 4, length, width, 0, 100, 0, 0, rigidity);
    int32_t n = 3 * s.nodes, held = 2 * 3 * 5;
    double *x = need((size_t)n, sizeof *x), *f = need((size_t)n, sizeof *f), sum = 0;
    qpc_error err = {0};
    memcpy(x, s.x, (size_t)n * sizeof *x);
    for (*ret_steps = 0; off > 1e-8 && *ret_steps < 500; ++*ret_steps) {
        memset(f, 0, (size_t)n * sizeof *f);
        for (int32_t j = 0; j < 5; j++) f[n - 3 * 5 + 3 * j + 2] = load * (j == 0 || j == 4 ? 0.125 : 0.25);
        qpc_linsys_clear(&s.K);
        qpc_shells_linearise(&s.shells, x, NULL, 1, &s.K, f, NULL);
        for (int32_t k = 0; k < n; k++) *qpc_linsys_entry(&s.K, k, k) += k < held ? 1e9 : 1e-12;
        for (int32_t k = 0; k < held; k++) f[k] = 0;
        assert_ok(qpc_linsys_factor(&s.K, &err), &err);
        qpc_linsys_solve(&s.K, f, f);
        for (int32_t k = 0; k < n; k++) x[k] += f[k];
        off = fabs(f[n - 1]) / fabs(x[n - 1]);
    }
    for (int32_t j = 0; j < 5; j++) sum += x[n - 3 * 5 + 3 * j + 2] / 5;
    free(x);
    free(f);
    sheet_fini(&s);
    double free_length = length - length / columns;
    return sum / (load * free_length * free_length * free_length / (3 * rigidity * width));
}

static void a_clamped_strip_sags_as_a_plate(void **state) {
    (void)state;
    int steps;
    double coarse = end_deflection(10, &steps), middle = end_deflection(20, &steps), fine = end_deflection(40, &steps);
    print_message("deflection over F L^3 / 3 D b: %.4f %.4f %.4f; %d steps\n", coarse, middle, fine, steps);
    assert_near(fine, 1, 0.05);
    assert_true(fabs(fine - 1) < 0.6 * fabs(middle - 1) && fabs(middle - 1) < 0.6 * fabs(coarse - 1));
}

// ---- refusals ----

static void narrow_triangles_are_refused(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1e-8, 0};
    static const int32_t t[] = {0, 1, 2, 0, 1, 3};
    qpc_mesh *mesh;
    qpc_shell_rest rest;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(x, 4, t, 2, 3, NULL, &mesh, NULL, &err), &err);
    assert_int_equal(qpc_shell_rest_make(mesh, 1, 0.3, &rest, &err), QPC_ERR_INVALID);
    assert_non_null(strstr(err.message, "triangle 1 (vertices 0, 1, 3) is too narrow"));
    qpc_mesh_unref(mesh);
}

static void moduli_follow_plane_stress(void **state) {
    (void)state;
    double mu, lambda, rigidity;
    qpc_error err = {0};
    assert_ok(qpc_shell_moduli(1e6, 0.25, 2e-3, &mu, &lambda, &rigidity, &err), &err);
    assert_near(mu, 800, 1e-10);
    assert_near(lambda, 1e6 * 2e-3 * 0.25 / 0.9375, 1e-10);
    assert_near(rigidity, 1e6 * 8e-9 / (12 * 0.9375), 1e-16);
    assert_int_equal(qpc_shell_moduli(0, 0.25, 2e-3, &mu, &lambda, &rigidity, &err), QPC_ERR_INVALID);
    assert_int_equal(qpc_shell_moduli(1e6, 1, 2e-3, &mu, &lambda, &rigidity, &err), QPC_ERR_INVALID);
    assert_int_equal(qpc_shell_moduli(1e6, 0.25, NAN, &mu, &lambda, &rigidity, &err), QPC_ERR_INVALID);
}

static void runs_out_of_memory_cleanly(void **state) {
    (void)state;
    qpc_mesh *mesh;
    qpc_error err = {0};
    assert_ok(qpc_mesh_create(PAIR, 4, PAIR_TRIANGLES, 2, 3, NULL, &mesh, NULL, &err), &err);
    QPC_FAULTS(f) {
        qpc_shell_rest rest;
        if (qpc_faults_ended(&f, qpc_shell_rest_make(mesh, 1, 0.3, &rest, &err))) qpc_shell_rest_fini(&rest);
    }
    qpc_mesh_unref(mesh);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forces_are_the_slope_of_the_energy),
        cmocka_unit_test(a_sheet_at_rest_carries_nothing_wherever_it_is_turned),
        cmocka_unit_test(stiffness_is_the_slope_of_forces),
        cmocka_unit_test(compressed_stiffness_is_clamped),
        cmocka_unit_test(collapsed_sheets_have_finite_forces),
        cmocka_unit_test(uniform_tension_is_exact_on_any_mesh),
        cmocka_unit_test(a_rolled_sheet_has_the_energy_of_a_plate),
        cmocka_unit_test(equal_triangles_bend_alike_in_all_directions),
        cmocka_unit_test(a_clamped_strip_sags_as_a_plate),
        cmocka_unit_test(narrow_triangles_are_refused),
        cmocka_unit_test(moduli_follow_plane_stress),
        cmocka_unit_test(runs_out_of_memory_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
