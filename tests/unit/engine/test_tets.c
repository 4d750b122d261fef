/// Linear tetrahedra: one element against differences and projections made here, and boxes of them.
#include "engine/dynamics/tets.h"

#include "base/vec.h"
#include "tests/support/check.h"
#include "tests/support/faults.h"
#include "tests/support/softbox.h"

static const qpc_tet_material BOTH[] = {QPC_TET_COROTATIONAL, QPC_TET_NEO_HOOKEAN};

static uint64_t seed = 5;
static double uniform(void) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)(seed >> 11) / (double)(1LL << 52) - 1;
}

static void random_rotation(double R[9]) {
    double q[4], norm = 0;
    for (int k = 0; k < 4; k++) q[k] = uniform();
    for (int k = 0; k < 4; k++) norm += q[k] * q[k];
    for (int k = 0; k < 4; k++) q[k] /= sqrt(norm);
    for (int c = 0; c < 3; c++) {
        qpc_vec3 p = v3_rotate(q, v3(c == 0, c == 1, c == 2));
        R[c] = p.x;
        R[3 + c] = p.y;
        R[6 + c] = p.z;
    }
}

static void product(const double *A, const double *B, double *C) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) C[3 * i + j] = A[3 * i] * B[j] + A[3 * i + 1] * B[3 + j] + A[3 * i + 2] * B[6 + j];
}

// ---- one element: the unit corner, so that F is the matrix of nodes 1 to 3 and H of those its second derivative ----

static const int32_t corner_node[] = {0, 1, 2, 3};
static const double corner_inverse[] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, corner_volume[] = {1.0 / 6};

typedef struct one {
    double mu, lambda;
    uint8_t material;
    int32_t place[6];
    qpc_tets tets;
} one;

static void make_one(one *o, double young, double poisson, qpc_tet_material material) {
    static const int32_t place[] = {0, 3, 6, 0, 3, 0};
    qpc_error err = {0};
    assert_ok(qpc_tet_lame(young, poisson, &o->mu, &o->lambda, &err), &err);
    o->material = (uint8_t)material;
    memcpy(o->place, place, sizeof place);
    o->tets = (qpc_tets){.count = 1, .node = corner_node, .inverse = corner_inverse, .volume = corner_volume, .mu = &o->mu,
                         .lambda = &o->lambda, .material = &o->material, .place = o->place};
}

/// Nodes of the corner with deformation gradient F.
static void place_nodes(const double F[9], double x[12]) {
    for (int k = 0; k < 12; k++) x[k] = k < 3 ? 0 : F[3 * (k % 3) + k / 3 - 1];
}

/// H (12 x 12) of an element as K holds it.
static void dense_stiffness(const qpc_tets *tets, const double *x, double H[12][12]) {
    qpc_linsys K = {0};
    int32_t *start, *row, place[6];
    double zero[12] = {0};
    qpc_error err = {0};
    assert_ok(qpc_tets_pattern(NULL, tets, 4, &start, &row, NULL, place, &err), &err);
    assert_memory_equal(place, tets->place, sizeof place);
    assert_ok(qpc_linsys_resize_sparse(&K, 12, start, row, &err), &err);
    qpc_tets_linearise(tets, x, zero, 1, &K, NULL, NULL);
    for (int j = 0; j < 12; j++)
        for (int i = j; i < 12; i++) H[i][j] = H[j][i] = *qpc_linsys_entry(&K, i, j);
    qpc_linsys_fini(&K);
    qpc_free(start);
    qpc_free(row);
}

/// Eigenvalues of a symmetric A (n x n, stride) on its diagonal, vectors in the columns of Q.
static void jacobi(int n, int stride, double *A, double *Q) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) Q[i * stride + j] = i == j;
    for (int sweep = 0; sweep < 40; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double e = 2 * A[p * stride + q], d = A[q * stride + q] - A[p * stride + p];
                if (!(fabs(e) > 0)) continue;
                double t = e / (fabs(d) + hypot(d, e)), c, s;
                if (d < 0) t = -t;
                c = 1 / sqrt(1 + t * t);
                s = t * c;
                for (int k = 0; k < n; k++) {
                    double u = A[k * stride + p], v = A[k * stride + q], y = Q[k * stride + p], z = Q[k * stride + q];
                    A[k * stride + p] = c * u - s * v;
                    A[k * stride + q] = s * u + c * v;
                    Q[k * stride + p] = c * y - s * z;
                    Q[k * stride + q] = s * y + c * z;
                }
                for (int k = 0; k < n; k++) {
                    double u = A[p * stride + k], v = A[q * stride + k];
                    A[p * stride + k] = c * u - s * v;
                    A[q * stride + k] = s * u + c * v;
                }
            }
}

/// A deformation of any kind: near rest, wild, inside out, flat.
static void random_deformation(int k, double F[9]) {
    double R[9], Q[9], S[9] = {0}, T[9];
    random_rotation(R);
    random_rotation(Q);
    for (int i = 0; i < 3; i++) {
        double w = uniform();
        if (k % 4 == 0) S[4 * i] = 1 + 0.1 * w;
        else S[4 * i] = 1.1 + w;
    }
    if (k % 4 == 2) S[8] = -0.3 * S[8];
    product(R, S, T);
    product(T, Q, F);
    for (int i = 0; i < 9 && k % 4 == 3; i++) F[i] = 1.5 * uniform();
}

/// The corotational energy has a kink where s2 + s3 = 0 (TS3); s2 + s3 = sqrt(...) is read off the invariants.
static bool near_the_kink(const double F[9]) {
    double C[9], Q[9];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) C[3 * i + j] = F[i] * F[j] + F[3 + i] * F[3 + j] + F[6 + i] * F[6 + j];
    jacobi(3, 3, C, Q);
    double s[3] = {sqrt(fabs(C[0])), sqrt(fabs(C[4])), sqrt(fabs(C[8]))}, low = fmin(s[0], fmin(s[1], s[2]));
    double high = fmax(s[0], fmax(s[1], s[2])), middle = s[0] + s[1] + s[2] - low - high;
    return middle - low < 0.1;
}

static void forces_are_minus_the_gradient_of_the_energy(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 400; k++) {
            one o;
            double F[9], x[12], f[12] = {0}, g[12] = {0}, zero[12] = {0}, h = 1e-5;
            make_one(&o, 1000, k % 3 == 0 ? 0.0 : k % 3 == 1 ? 0.3 : 0.49, BOTH[m]);
            random_deformation(k, F);
            if (near_the_kink(F)) continue;
            place_nodes(F, x);
            qpc_tets_force(&o.tets, x, f);
            qpc_tets_linearise(&o.tets, x, zero, 1, NULL, g, zero);
            for (int i = 0; i < 12; i++) {
                double at = x[i];
                x[i] = at + h;
                double more = qpc_tets_energy(&o.tets, x);
                x[i] = at - h;
                double slope = (more - qpc_tets_energy(&o.tets, x)) / (2 * h);
                x[i] = at;
                // second differences err by h^2 and by rounding / h; stiffness up to 1e5
                assert_near(f[i], -slope, 1e-4);
                assert_near(f[i], g[i], 1e-9);
            }
        }
}

/// The 9 x 9 block of nodes 1 to 3 by differences of the force, its negative eigenvalues set to 0, is what K gets: this is
/// both the exact Hessian where nothing is clamped and the projection where something is.
static void the_jacobian_is_the_projected_second_derivative(void **state) {
    (void)state;
    int clamped = 0, whole = 0;
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 400; k++) {
            one o;
            double F[9], x[12], A[9][9], Q[9][9], H[12][12], h = 1e-6, largest = 0;
            make_one(&o, 1000, k % 3 == 0 ? 0.0 : k % 3 == 1 ? 0.3 : 0.49, BOTH[m]);
            random_deformation(k, F);
            if (near_the_kink(F)) continue;
            place_nodes(F, x);
            for (int i = 0; i < 9; i++) {
                double f[12] = {0}, g[12] = {0}, at = x[3 + i];
                x[3 + i] = at + h;
                qpc_tets_force(&o.tets, x, f);
                x[3 + i] = at - h;
                qpc_tets_force(&o.tets, x, g);
                x[3 + i] = at;
                for (int j = 0; j < 9; j++) A[j][i] = (g[3 + j] - f[3 + j]) / (2 * h);
            }
            for (int i = 0; i < 9; i++)
                for (int j = 0; j < i; j++) A[i][j] = A[j][i] = 0.5 * (A[i][j] + A[j][i]);
            jacobi(9, 9, &A[0][0], &Q[0][0]);
            int negative = 0;
            for (int e = 0; e < 9; e++) {
                largest = fmax(largest, fabs(A[e][e]));
                negative += A[e][e] < -1e-3;
            }
            clamped += negative > 0;
            whole += negative == 0;
            dense_stiffness(&o.tets, x, H);
            for (int i = 0; i < 9; i++)
                for (int j = 0; j < 9; j++) {
                    double want = 0;
                    for (int e = 0; e < 9; e++) want += fmax(A[e][e], 0) * Q[i][e] * Q[j][e];
                    assert_near(H[3 + i][3 + j], want, 1e-6 * largest + 1e-5); // of the differences
                }
            // and node 0 moves against the others
            for (int i = 0; i < 12; i++)
                for (int r = 0; r < 3; r++)
                    assert_near(H[i][r] + H[i][3 + r] + H[i][6 + r] + H[i][9 + r], 0, 1e-12 * largest);
        }
    assert_true(clamped > 100 && whole > 50);
}

/// F = U diag(s) V' turned by (u_i v_j' - u_j v_i')/sqrt 2: H gives that back times the clamped twist of TS6 and the volume, whether
/// none of the three is clamped or all, and where they are equal or next to 0.
static void twists_of_corotational_elements_are_clamped_one_by_one(void **state) {
    (void)state;
    static const double stretches[][3] = {
        {1, 1, 1},          {1.1, 1.1, 1.1},     {0.9, 0.9, 0.9},  {1.2, 0.9, 0.8},  {1.3, 1.2, 0.7}, {1, 1, 0.9},
        {1.1, 1, 1},        {1.2, 1.2, 0.6},     {1.5, 0.7, 0.7},  {2, 1, 0.3},      {0.3, 0.2, 0.1}, {1.0001, 1, 0.9999},
        {1.3, 0.7, 1 + 1e-9}, {1 + 1e-8, 1, 1},  {0.5, 0.4, -0.3}, {3, 0.02, 0.001}, {1.4, 1, 0.6},   {1.1, 1.05, 0.85},
    };
    enum { COUNT = sizeof stretches / sizeof *stretches };
    int none = 0, some = 0, all = 0;
    for (int k = 0; k < 3 * COUNT; k++) {
        one o;
        const double *s = stretches[k / 3];
        double U[9], V[9], S[9] = {0}, Vt[9], T[9], F[9], x[12], H[12][12];
        make_one(&o, 1000, k % 3 == 0 ? 0.0 : k % 3 == 1 ? 0.3 : 0.49, QPC_TET_COROTATIONAL);
        random_rotation(U);
        random_rotation(V);
        for (int i = 0; i < 9; i++) Vt[i] = V[3 * (i % 3) + i / 3];
        for (int i = 0; i < 3; i++) S[4 * i] = s[i];
        product(U, S, T);
        product(T, Vt, F);
        place_nodes(F, x);
        dense_stiffness(&o.tets, x, H);
        int clamped = 0;
        for (int e = 0; e < 3; e++) {
            int i = (e + 1) % 3, j = (e + 2) % 3;
            double W[9], trace = s[0] + s[1] + s[2] - 3;
            double twist = 2 * o.mu + (2 * o.lambda * trace - 4 * o.mu) / fmax(s[i] + s[j], 0.01);
            clamped += twist < 0;
            for (int r = 0; r < 3; r++) // nodes by columns of F
                for (int c = 0; c < 3; c++)
                    W[3 * c + r] = (U[3 * r + i] * V[3 * c + j] - U[3 * r + j] * V[3 * c + i]) / sqrt(2);
            for (int a = 0; a < 9; a++) {
                double sum = 0;
                for (int b = 0; b < 9; b++) sum += H[3 + a][3 + b] * W[b];
                assert_near(sum, fmax(twist, 0) * W[a] / 6, 1e-12 * (o.mu + o.lambda) / fmax(0.01, s[1] + s[2]));
            }
        }
        none += clamped == 0;
        some += clamped == 1 || clamped == 2;
        all += clamped == 3;
    }
    assert_true(none > 5 && some > 5 && all > 5);
}

static void the_jacobian_is_positive_semidefinite_everywhere(void **state) {
    (void)state;
    static const double special[][9] = {
        {0},                                // a point
        {1, 0, 0, 0, 0, 0, 0, 0, 0},        // a line
        {1, 0, 0, 0, 1, 0, 0, 0, 0},        // a triangle
        {1, 0, 0, 0, 1, 0, 0, 0, -1},       // a mirror image
        {-1, 0, 0, 0, -1, 0, 0, 0, -1},     // through its own middle
        {5, 0, 0, 0, 1e-9, 0, 0, 0, -1e-9}, // a long needle
        {100, 0, 0, 0, 1, 0, 0, 0, 1e-3},
        {1e-7, 0, 0, 0, 1e-7, 0, 0, 0, 1e-7},
    };
    enum { SPECIAL = sizeof special / sizeof *special };
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 300 + SPECIAL; k++) {
            one o;
            double F[9], x[12], H[12][12], Q[12][12], f[12] = {0}, largest = 0, least = 0;
            make_one(&o, 1000, k % 3 == 0 ? -0.3 : k % 3 == 1 ? 0.3 : 0.49, BOTH[m]);
            random_deformation(k, F);
            if (k < SPECIAL) memcpy(F, special[k], sizeof F);
            place_nodes(F, x);
            qpc_tets_force(&o.tets, x, f);
            dense_stiffness(&o.tets, x, H);
            jacobi(12, 12, &H[0][0], &Q[0][0]);
            for (int e = 0; e < 12; e++) {
                assert_true(isfinite(f[e]) && isfinite(H[e][e]));
                largest = fmax(largest, H[e][e]);
                least = fmin(least, H[e][e]);
            }
            assert_true(largest > 0 || (k == 0 && m == 1)); // a point is a maximum of the neo-Hookean energy
            assert_true(least >= -1e-13 * largest); // rounding of 12 x 12
        }
}

static void rest_is_at_rest_and_both_materials_are_hookes_law_there(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++)
        for (int p = 0; p < 3; p++) {
            one o;
            static const double poisson[] = {0, 0.3, 0.49};
            static const double rest[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
            double x[12], R[9], H[12][12], f[12] = {0};
            make_one(&o, 1000, poisson[p], BOTH[m]);
            // volume (lambda g_i g_j' + mu g_j g_i' + mu g_i.g_j I)
            dense_stiffness(&o.tets, rest, H);
            static const double g[4][3] = {{-1, -1, -1}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
            for (int i = 0; i < 12; i++)
                for (int j = 0; j < 12; j++) {
                    const double *gi = g[i / 3], *gj = g[j / 3];
                    double dot = gi[0] * gj[0] + gi[1] * gj[1] + gi[2] * gj[2];
                    double want = o.lambda * gi[i % 3] * gj[j % 3] + o.mu * gj[i % 3] * gi[j % 3] + (i % 3 == j % 3) * o.mu * dot;
                    assert_near(H[i][j], want / 6, 1e-11);
                }
            random_rotation(R);
            place_nodes(R, x);
            qpc_tets_force(&o.tets, x, f);
            for (int i = 0; i < 12; i++) assert_near(f[i], 0, 1e-11);
            assert_near(qpc_tets_energy(&o.tets, x), 0, 1e-11);
        }
}

// ---- many ----

/// Turned anywhere and strained by e: W = mu |e|^2 + lambda/2 tr(e)^2 but for e^3, however small e is.
static void energy_near_rest_has_all_its_digits(void **state) {
    (void)state;
    for (int material = 0; material < 2; material++)
        for (int k = 0; k < 300; k++) {
            one o;
            double R[9], G[9], F[9], x[12], size = pow(10, -2 - k % 11), square = 0, trace = 0;
            make_one(&o, 1e5, 0.3, BOTH[material]);
            if (k % 2) random_rotation(R);
            else
                for (int i = 0; i < 9; i++) R[i] = i % 4 == 0;
            for (int i = 0; i < 3; i++)
                for (int j = i; j < 3; j++) G[3 * i + j] = G[3 * j + i] = size * uniform();
            for (int i = 0; i < 9; i++) {
                square += G[i] * G[i];
                if (i % 4 == 0) trace += G[i];
                G[i] += i % 4 == 0;
            }
            product(R, G, F);
            place_nodes(F, x);
            double want = (o.mu * square + 0.5 * o.lambda * trace * trace) / 6, got = qpc_tets_energy(&o.tets, x);
            double digits = 4 * size + 40 * 2.2e-16 / size; // what F itself has of G
            if (!(fabs(got - want) <= digits * want)) fail_msg("material %d, strain %g: %g, want %g", material, size, got, want);
        }
}

static void scramble(const softbox *b, double amount, double *x) {
    for (int32_t i = 0; i < 3 * b->nodes; i++) x[i] = b->x[i] + amount * uniform();
}

static void make_box(softbox *b, qpc_tet_material material) {
    qpc_error err = {0};
    if (!softbox_make(b, (int32_t[]){3, 2, 2}, (double[]){0.3, 0.2, 0.2}, true, 1e5, 0.4, material, &err)) fail_msg("%s", err.message);
}

enum { BOX_NODES = 4 * 3 * 3, BOX_N = 3 * BOX_NODES };

static void forces_and_their_moments_sum_to_zero(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        softbox b;
        make_box(&b, BOTH[m]);
        double x[BOX_N], v[BOX_N], f[BOX_N] = {0}, Hv[BOX_N] = {0}, size = 0;
        scramble(&b, 0.05, x);
        for (int i = 0; i < BOX_N; i++) v[i] = uniform();
        qpc_tets_linearise(&b.tets, x, v, 0.01, &b.K, f, Hv);
        qpc_vec3 force = v3(0, 0, 0), moment = force, other = force;
        for (int i = 0; i < BOX_N; i += 3) {
            force = v3_add(force, v3_load(f + i));
            other = v3_add(other, v3_load(Hv + i));
            moment = v3_add(moment, v3_cross(v3_load(x + i), v3_load(f + i)));
            size += v3_norm(v3_load(f + i)) + v3_norm(v3_load(Hv + i));
        }
        assert_true(size > 100);
        assert_near(v3_norm(force), 0, 1e-14 * size);
        assert_near(v3_norm(other), 0, 1e-14 * size);
        assert_near(v3_norm(moment), 0, 1e-14 * size);
        // K v = dt^2 H v
        double Kv[BOX_N];
        qpc_linsys_multiply(&b.K, v, Kv);
        for (int i = 0; i < BOX_N; i++) assert_near(Kv[i], 1e-4 * Hv[i], 1e-18 * size);
        softbox_fini(&b);
    }
}

static void another_frame_gives_the_same(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        softbox b;
        make_box(&b, BOTH[m]);
        double x[BOX_N], y[BOX_N], v[BOX_N], w[BOX_N], f[2][BOX_N] = {{0}}, Hv[2][BOX_N] = {{0}}, R[9], size = 0;
        random_rotation(R);
        scramble(&b, 0.03, x);
        for (int i = 0; i < BOX_N; i++) v[i] = uniform();
        for (int i = 0; i < BOX_N; i += 3)
            for (int r = 0; r < 3; r++) {
                y[i + r] = R[3 * r] * x[i] + R[3 * r + 1] * x[i + 1] + R[3 * r + 2] * x[i + 2] + (r == 0 ? 1000 : -500);
                w[i + r] = R[3 * r] * v[i] + R[3 * r + 1] * v[i + 1] + R[3 * r + 2] * v[i + 2];
            }
        qpc_tets_linearise(&b.tets, x, v, 1, NULL, f[0], Hv[0]);
        qpc_tets_linearise(&b.tets, y, w, 1, NULL, f[1], Hv[1]);
        for (int i = 0; i < BOX_N; i++) size = fmax(size, fmax(fabs(f[0][i]), fabs(Hv[0][i])));
        // 1 km has a last place of 1.1e-13 m, edges are 0.1 m
        for (int i = 0; i < BOX_N; i += 3)
            for (int r = 0; r < 3; r++) {
                const double *p = f[0] + i, *q = Hv[0] + i, *row = R + 3 * r;
                assert_near(f[1][i + r], row[0] * p[0] + row[1] * p[1] + row[2] * p[2], 1e-10 * size);
                assert_near(Hv[1][i + r], row[0] * q[0] + row[1] * q[1] + row[2] * q[2], 1e-10 * size);
            }
        double e = qpc_tets_energy(&b.tets, x);
        assert_near(qpc_tets_energy(&b.tets, y), e, 1e-11 * e);
        softbox_fini(&b);
    }
}

/// Lanes do not meet: alone or next to any others, of any material, an element adds the same bits.
static void an_element_gives_the_same_bits_in_any_company(void **state) {
    (void)state;
    softbox b;
    make_box(&b, QPC_TET_COROTATIONAL);
    double x[BOX_N], v[BOX_N], f[2][BOX_N] = {{0}}, Hv[2][BOX_N] = {{0}}, g[2][BOX_N] = {{0}};
    scramble(&b, 0.08, x);
    for (int i = 0; i < BOX_N; i++) v[i] = uniform();
    for (int32_t e = 0; e < b.count; e++) b.material[e] = (uint8_t)(e * e % 7 % 2);
    for (int k = 0; k < 9; k++) x[3 * b.tet[8 + k / 3] + k % 3] = 0; // some are needles
    qpc_linsys_clear(&b.K);
    qpc_tets_linearise(&b.tets, x, v, 1, &b.K, f[0], Hv[0]);
    qpc_tets_force(&b.tets, x, g[0]);
    int64_t values;
    const double *all = qpc_linsys_values(&b.K, &values);
    double *kept = malloc((size_t)values * sizeof *kept), energy = 0;
    assert_non_null(kept);
    memcpy(kept, all, (size_t)values * sizeof *kept);
    qpc_linsys_clear(&b.K);
    for (int32_t e = 0; e < b.count; e++) {
        qpc_tets t = b.tets;
        t.count = 1;
        t.node += 4 * e;
        t.inverse += 9 * e;
        t.volume += e;
        t.mu += e;
        t.lambda += e;
        t.material += e;
        t.place += 6 * e;
        qpc_tets_linearise(&t, x, v, 1, &b.K, f[1], Hv[1]);
        qpc_tets_force(&t, x, g[1]);
        energy += qpc_tets_energy(&t, x);
    }
    assert_memory_equal(f[0], f[1], sizeof f[0]);
    assert_memory_equal(g[0], g[1], sizeof g[0]);
    assert_memory_equal(Hv[0], Hv[1], sizeof Hv[0]);
    assert_memory_equal(kept, all, (size_t)values * sizeof *kept);
    assert_true(energy - qpc_tets_energy(&b.tets, x) == 0);
    free(kept);
    softbox_fini(&b);
}

// The same file, compiled for any processor; see tets_portable.h.
double portable_tets_energy(const qpc_tets *tets, const double *x);
void portable_tets_force(const qpc_tets *tets, const double *x, double *f);
void portable_tets_linearise(const qpc_tets *tets, const double *x, const double *v, double dt, qpc_linsys *K, double *f, double *Hv);
void portable_tets_stress(const qpc_tets *tets, const double *x, double *ret);

static void every_processor_gives_the_same_bits(void **state) {
    (void)state;
    for (int k = 0; k < 8; k++) {
        softbox b;
        make_box(&b, QPC_TET_COROTATIONAL);
        double x[BOX_N], v[BOX_N], f[2][BOX_N] = {{0}}, g[2][BOX_N] = {{0}}, Hv[2][BOX_N] = {{0}};
        double *stress[2] = {calloc(6 * (size_t)b.count, sizeof(double)), calloc(6 * (size_t)b.count, sizeof(double))};
        scramble(&b, k % 2 == 0 ? 0.01 : 0.1, x);
        for (int i = 0; i < BOX_N; i++) v[i] = uniform();
        for (int32_t e = 0; e < b.count; e++) b.material[e] = (uint8_t)(k < 4 ? k / 2 : e % 11 < 9);
        int64_t values;
        const double *all = qpc_linsys_values(&b.K, &values);
        double *kept = malloc((size_t)values * sizeof *kept);
        assert_true(kept != NULL && stress[0] != NULL && stress[1] != NULL);
        qpc_tets_linearise(&b.tets, x, v, 0.1, &b.K, f[0], Hv[0]);
        qpc_tets_force(&b.tets, x, g[0]);
        qpc_tets_stress(&b.tets, x, stress[0]);
        memcpy(kept, all, (size_t)values * sizeof *kept);
        qpc_linsys_clear(&b.K);
        portable_tets_linearise(&b.tets, x, v, 0.1, &b.K, f[1], Hv[1]);
        portable_tets_force(&b.tets, x, g[1]);
        portable_tets_stress(&b.tets, x, stress[1]);
        assert_memory_equal(f[0], f[1], sizeof f[0]);
        assert_memory_equal(g[0], g[1], sizeof g[0]);
        assert_memory_equal(Hv[0], Hv[1], sizeof Hv[0]);
        assert_memory_equal(stress[0], stress[1], 6 * (size_t)b.count * sizeof(double));
        assert_memory_equal(kept, all, (size_t)values * sizeof *kept);
        assert_true(portable_tets_energy(&b.tets, x) - qpc_tets_energy(&b.tets, x) == 0);
        free(kept);
        free(stress[0]);
        free(stress[1]);
        softbox_fini(&b);
    }
}

static double volume_at(const softbox *b, int32_t e, const double *x) {
    const int32_t *n = b->tet + 4 * e;
    qpc_vec3 d[3];
    for (int a = 0; a < 3; a++) d[a] = v3_sub(v3_load(x + 3 * n[a + 1]), v3_load(x + 3 * n[0]));
    return v3_dot(d[0], v3_cross(d[1], d[2]));
}

/// A box whose nodes are thrown by more than an edge comes back to its rest shape in implicit steps of Newton's method.
static void what_is_inside_out_recovers(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 8; k++) {
            softbox b;
            make_box(&b, BOTH[m]);
            qpc_error err = {0};
            double x[BOX_N], zero[BOX_N] = {0}, f[BOX_N], y[BOX_N];
            scramble(&b, 0.12, x); // edges are 0.1
            int32_t inverted = 0;
            for (int32_t e = 0; e < b.count; e++) inverted += volume_at(&b, e, x) < 0;
            assert_true(inverted > b.count / 5);
            for (int i = 0; i < BOX_N && k == 3; i++) x[i] = i % 3 == 0 ? -0.05 * b.x[i] : b.x[i]; // crushed and mirrored
            double energy = qpc_tets_energy(&b.tets, x);
            assert_true(energy > 10);
            for (int step = 0; step < 500 && energy > 1e-6; step++) {
                memset(f, 0, sizeof f);
                qpc_linsys_clear(&b.K);
                qpc_tets_linearise(&b.tets, x, zero, 1, &b.K, f, NULL);
                for (int i = 0; i < BOX_N; i++) *qpc_linsys_entry(&b.K, i, i) += 100;
                assert_ok(qpc_linsys_factor(&b.K, &err), &err);
                qpc_linsys_solve(&b.K, f, f);
                double next = energy, part = 2;
                while (!(next < energy) && part > 1e-6) {
                    part /= 2;
                    for (int i = 0; i < BOX_N; i++) y[i] = x[i] + part * f[i];
                    next = qpc_tets_energy(&b.tets, y);
                }
                memcpy(x, y, sizeof x);
                energy = next;
            }
            assert_true(energy <= 1e-6);
            softbox_fini(&b);
        }
}

static void springs_and_tetrahedra_share_a_matrix(void **state) {
    (void)state;
    softbox b;
    make_box(&b, QPC_TET_NEO_HOOKEAN);
    // a cable behind the box, and springs of which one lies along an edge and one reaches across
    enum { NODES = BOX_NODES + 3, N = 3 * NODES };
    static const int32_t node[] = {BOX_NODES, BOX_NODES + 1, 0, 1, 2}, other[] = {BOX_NODES + 1, BOX_NODES + 2, 3, BOX_NODES - 1, BOX_NODES};
    static const double stiffness[] = {10, 20, 30, 40, 50}, length[] = {1, 1, 0.1, 0.3, 0.1};
    int32_t place[5], *start, *row;
    qpc_springs springs = {.count = 5, .node = node, .other = other, .stiffness = stiffness, .rest_length = length, .place = place};
    qpc_linsys K = {0};
    qpc_error err = {0};
    double x[N], v[N], Kv[N], Hv[N] = {0}, f[N] = {0};
    assert_ok(qpc_tets_pattern(&springs, &b.tets, NODES, &start, &row, place, b.place, &err), &err);
    assert_ok(qpc_linsys_resize_sparse(&K, N, start, row, &err), &err);
    for (int i = 0; i < N; i++) {
        x[i] = (i < BOX_N ? b.x[i] : 0) + 0.05 * uniform();
        v[i] = uniform();
    }
    qpc_springs_linearise(&springs, x, v, 0.1, &K, f, Hv);
    qpc_tets_linearise(&b.tets, x, v, 0.1, &K, f, Hv);
    qpc_linsys_multiply(&K, v, Kv);
    for (int i = 0; i < N; i++) assert_near(Kv[i], 0.01 * Hv[i], 1e-9); // of 1e4
    for (int i = 0; i < N; i++) *qpc_linsys_entry(&K, i, i) += 1e-3;
    assert_ok(qpc_linsys_factor(&K, &err), &err);
    qpc_linsys_fini(&K);
    qpc_free(start);
    qpc_free(row);
    softbox_fini(&b);
}

static void what_is_not_finite_shows(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, 1e200};
    for (int m = 0; m < 2; m++)
        for (int k = 0; k < 3; k++) {
            softbox b;
            make_box(&b, BOTH[m]);
            double x[BOX_N], zero[BOX_N] = {0}, f[BOX_N] = {0};
            qpc_error err = {0};
            scramble(&b, 0, x);
            x[40] = bad[k];
            qpc_tets_linearise(&b.tets, x, zero, 1, &b.K, f, NULL);
            for (int i = 0; i < BOX_N; i++) *qpc_linsys_entry(&b.K, i, i) += 1;
            assert_false(isfinite(f[40]));
            assert_false(isfinite(qpc_tets_energy(&b.tets, x)));
            assert_fails(qpc_linsys_factor(&b.K, &err), QPC_ERR_NUMERIC, &err, "not positive definite and finite");
            softbox_fini(&b);
        }
}

// ---- what is made of a mesh ----

static void rest_shapes_give_volumes_gradients_and_masses(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 3, 0, 0, 0, 2, 0, 1, 1, 4, 9, 9, 9};
    static const int32_t node[] = {0, 1, 2, 3};
    qpc_tet_rest rest;
    qpc_error err = {0};
    assert_ok(qpc_tet_rest_make(x, 5, node, 1, 0.5, &rest, &err), &err);
    assert_near(rest.volume[0], 0.5, 1e-15);
    double mass[5] = {1, 0, 0, 0, 7};
    qpc_tet_rest_masses(&rest, node, 800, mass);
    static const double want[] = {101, 100, 100, 100, 7};
    for (int i = 0; i < 5; i++) assert_near(mass[i], want[i], 1e-12);
    // gradient of the hat function of node i times edge j: 1 if they are the same
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double *g = rest.inverse + 3 * i, *p = x + 3 * (j + 1);
            assert_near(0.5 * (g[0] * p[0] + g[1] * p[1] + g[2] * p[2]), i == j, 1e-15);
        }
    qpc_tet_rest_fini(&rest);
    qpc_tet_rest_fini(&rest);
    double mu, lambda;
    assert_ok(qpc_tet_lame(2.6e6, 0.3, &mu, &lambda, &err), &err);
    assert_near(mu, 1e6, 1e-9);
    assert_near(lambda, 1.5e6, 1e-8);
}

static void bad_elements_and_moduli_are_named(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0};
    qpc_tet_rest rest = {0};
    qpc_error err = {0};
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, 1, 2, 3, 0, 2, 1, 3}, 2, 1, &rest, &err), QPC_ERR_INVALID, &err,
                 "tetrahedron 1 (nodes 0, 2, 1, 3) is inside out: its volume is -0.166667 m3; exchange two of its nodes, 1 and 3");
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, 1, 2, 4}, 1, 1, &rest, &err), QPC_ERR_INVALID, &err, "0 (nodes 0, 1, 2, 4) is flat");
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, 1, 2, 5}, 1, 1, &rest, &err), QPC_ERR_INVALID, &err, "is flat");
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, 1, 2, 3}, 1, NAN, &rest, &err), QPC_ERR_INVALID, &err, "is flat");
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, 1, 0, 3}, 1, 1, &rest, &err), QPC_ERR_INVALID, &err, "uses node 0 twice");
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, 1, 2, 6}, 1, 1, &rest, &err), QPC_ERR_INVALID, &err, "uses node 6, there are nodes 0 to 5");
    assert_fails(qpc_tet_rest_make(x, 6, (int32_t[]){0, -1, 2, 3}, 1, 1, &rest, &err), QPC_ERR_INVALID, &err, "uses node -1");
    assert_null(rest.inverse);
    double mu = 7, lambda = 7;
    assert_fails(qpc_tet_lame(0, 0.3, &mu, &lambda, &err), QPC_ERR_INVALID, &err, "Young's modulus is 0 Pa");
    assert_fails(qpc_tet_lame(NAN, 0.3, &mu, &lambda, &err), QPC_ERR_INVALID, &err, "must be positive");
    assert_fails(qpc_tet_lame(1, 0.5, &mu, &lambda, &err), QPC_ERR_INVALID, &err, "at most 0.49");
    assert_fails(qpc_tet_lame(1, -1, &mu, &lambda, &err), QPC_ERR_INVALID, &err, "above -1");
    assert_near(mu + lambda, 14, 0);
}

static void an_order_by_nodes_is_a_permutation(void **state) {
    (void)state;
    static const int32_t node[] = {5, 6, 7, 8, 2, 1, 9, 3, 8, 7, 6, 5, 1, 2, 3, 4};
    static const int32_t want[] = {3, 1, 0, 2};
    int32_t order[4];
    qpc_error err = {0};
    assert_ok(qpc_tets_order(node, 4, order, &err), &err);
    assert_memory_equal(order, want, sizeof want);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    one o;
    make_one(&o, 1, 0, QPC_TET_COROTATIONAL);
    QPC_FAULTS(f) {
        qpc_tet_rest rest;
        qpc_error err = {0};
        if (qpc_faults_ended(&f, qpc_tet_rest_make(x, 4, corner_node, 1, 1, &rest, &err))) qpc_tet_rest_fini(&rest);
    }
    QPC_FAULTS(f) {
        int32_t order[1];
        if (qpc_faults_ended(&f, qpc_tets_order(corner_node, 1, order, NULL))) assert_int_equal(order[0], 0);
    }
    QPC_FAULTS(f) {
        int32_t *start, *row, place[6];
        if (!qpc_faults_ended(&f, qpc_tets_pattern(NULL, &o.tets, 4, &start, &row, NULL, place, NULL))) continue;
        qpc_free(start);
        qpc_free(row);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forces_are_minus_the_gradient_of_the_energy),
        cmocka_unit_test(the_jacobian_is_the_projected_second_derivative),
        cmocka_unit_test(twists_of_corotational_elements_are_clamped_one_by_one),
        cmocka_unit_test(the_jacobian_is_positive_semidefinite_everywhere),
        cmocka_unit_test(rest_is_at_rest_and_both_materials_are_hookes_law_there),
        cmocka_unit_test(energy_near_rest_has_all_its_digits),
        cmocka_unit_test(forces_and_their_moments_sum_to_zero),
        cmocka_unit_test(another_frame_gives_the_same),
        cmocka_unit_test(an_element_gives_the_same_bits_in_any_company),
        cmocka_unit_test(every_processor_gives_the_same_bits),
        cmocka_unit_test(what_is_inside_out_recovers),
        cmocka_unit_test(springs_and_tetrahedra_share_a_matrix),
        cmocka_unit_test(what_is_not_finite_shows),
        cmocka_unit_test(rest_shapes_give_volumes_gradients_and_masses),
        cmocka_unit_test(bad_elements_and_moduli_are_named),
        cmocka_unit_test(an_order_by_nodes_is_a_permutation),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
