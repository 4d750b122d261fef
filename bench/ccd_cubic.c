/// What the classic way misses: continuous detection by the roots of the coplanarity polynomial, as
/// the 2006 slides describe it (cubic when both features move, quadratic when one of them rests,
/// roots in floating point, then a check of the distance at each root), beside the conservative
/// advancement of the engine, on queries with exact ground truth.
///
///     bench_ccd tests/data/ccd/*.bin
///
/// FN: contacts that are not reported. late: reported after they happened. FP: reported although
/// the features never come within the tolerance. Times are medians per query.
#include "engine/collision/ccd.h"
#include "engine/geometry/closest.h"
#include "tests/unit/engine/queries.h"

#include <math.h>
#include <time.h>

static const double proximity = 1e-8; // at a root: how near the features must be, of their size

// ---- roots in [0, 1], ascending ----

static int quadratic_roots(double c, double b, double a, double *t) { // a t^2 + b t + c
    int n = 0;
    double r[2];
    if (a == 0) {
        if (b != 0) r[n++] = -c / b;
    } else {
        double d = b * b - 4 * a * c;
        if (d < 0) return 0;
        double q = -0.5 * (b + copysign(sqrt(d), b));
        r[n++] = q / a;
        if (q != 0) r[n++] = c / q;
        if (n == 2 && r[1] < r[0]) {
            double swap = r[0];
            r[0] = r[1];
            r[1] = swap;
        }
    }
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (r[i] >= 0 && r[i] <= 1) t[kept++] = r[i];
    return kept;
}

static double value(const double f[4], double t) {
    return f[0] + t * (f[1] + t * (f[2] + t * f[3]));
}

/// Between the turning points the cubic is monotonic: bisect and polish there.
static int cubic_roots(const double f[4], double *t) {
    double largest = fmax(fmax(fabs(f[0]), fabs(f[1])), fmax(fabs(f[2]), fabs(f[3])));
    if (fabs(f[3]) <= 1e-14 * largest) return quadratic_roots(f[0], f[1], f[2], t);
    double turn[4] = {0};
    int turns = 1 + quadratic_roots(f[1], 2 * f[2], 3 * f[3], turn + 1), n = 0;
    turn[turns] = 1;
    for (int i = 0; i < turns; i++) {
        double a = turn[i], b = turn[i + 1], fa = value(f, a), fb = value(f, b);
        if (fa == 0) {
            t[n++] = a;
        } else if ((fa < 0) != (fb < 0)) {
            for (int k = 0; k < 100 && b - a > 1e-16 * b; k++) {
                double m = a + (b - a) * fmin(fmax(fa / (fa - fb), 0.05), 0.95), fm = value(f, m);
                if ((fm < 0) == (fa < 0))
                    a = m, fa = fm;
                else
                    b = m, fb = fm;
                if (fm == 0) break;
            }
            t[n++] = 0.5 * (a + b);
        }
    }
    if (value(f, 1) == 0) t[n++] = 1;
    return n;
}

// ---- the two tests of the slides ----

/// det(e1, e2, q) along the motion, rising powers of t.
static void coplanarity(const qpc_vec3 x[3], const qpc_vec3 v[3], double f[4]) {
    f[0] = v3_dot(v3_cross(x[0], x[1]), x[2]);
    f[1] = v3_dot(v3_cross(v[0], x[1]), x[2]) + v3_dot(v3_cross(x[0], v[1]), x[2]) +
           v3_dot(v3_cross(x[0], x[1]), v[2]);
    f[2] = v3_dot(v3_cross(v[0], v[1]), x[2]) + v3_dot(v3_cross(v[0], x[1]), v[2]) +
           v3_dot(v3_cross(x[0], v[1]), v[2]);
    f[3] = v3_dot(v3_cross(v[0], v[1]), v[2]);
}

/// True and the time if a root has the features within proximity of each other.
static bool cubic_ccd(bool ee, const qpc_vec3 x0[4], const qpc_vec3 x1[4], double *ret_toi) {
    qpc_vec3 x[3], v[3];
    int from[3] = {0, ee ? 2 : 0, 0}, to[3] = {1, ee ? 3 : 2, ee ? 2 : 3};
    double f[4], t[8], size = 0;
    for (int i = 0; i < 3; i++) {
        x[i] = v3_sub(x0[to[i]], x0[from[i]]);
        v[i] = v3_sub(v3_sub(x1[to[i]], x1[from[i]]), x[i]);
        size = fmax(size, fmax(v3_norm(x[i]), v3_norm(v3_add(x[i], v[i]))));
    }
    coplanarity(x, v, f);
    // One feature at rest, so that its two vectors do not turn: the cubic term vanishes by itself.
    int n = cubic_roots(f, t);
    for (int i = 0; i < n; i++) {
        qpc_vec3 p[4];
        qpc_closest c;
        for (int k = 0; k < 4; k++) p[k] = v3_lerp(x0[k], x1[k], t[i]);
        if (ee)
            qpc_closest_ee(p, &c);
        else
            qpc_closest_vt(p, &c);
        if (c.distance <= proximity * size) return *ret_toi = t[i], true;
    }
    return false;
}

// ---- scoring ----

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void score(const char *file, const char *method, const query *q, int32_t n, double s) {
    enum { REPEAT = 16 };
    double tol = 1e-6;
    int32_t missed = 0, late = 0, wrong = 0, hits = 0, count[2] = {0, 0};
    long iterations = 0;
    double *ns[2] = {calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))};
    if (ns[0] == NULL || ns[1] == NULL) exit(1);
    for (int32_t i = 0; i < n; i++) {
        qpc_vec3 x0[4], x1[4];
        bool ee = q[i].kind == 1, hit = false;
        double toi = 2, begin = now_ns();
        query_points(&q[i], x0, x1);
        for (int k = 0; k < REPEAT; k++) {
            if (method[0] == 'c') {
                hit = cubic_ccd(ee, x0, x1, &toi);
            } else {
                qpc_ccd_result r;
                if (ee)
                    qpc_ccd_ee(x0, x1, s, tol, &r);
                else
                    qpc_ccd_vt(x0, x1, s, tol, &r);
                hit = r.outcome != QPC_CCD_MISS;
                toi = r.toi;
                if (k == 0) iterations += r.iterations;
            }
        }
        ns[q[i].kind][count[q[i].kind]++] = (now_ns() - begin) / REPEAT;
        bool must = s > 0 ? q[i].dmin[1] <= s : q[i].truth == 1;
        hits += hit;
        missed += must && !hit;
        wrong += !must && hit && q[i].dmin[0] > s + tol;
        late += s == 0 && must && hit && toi > q[i].toi[1];
    }
    printf("%-22s %-14s %6g %6d %5d %5d %5d %6d ", file, method, s, (int)n, (int)missed, (int)late,
           (int)wrong, (int)hits);
    for (int k = 0; k < 2; k++) {
        qsort(ns[k], (size_t)count[k], sizeof *ns[k], by_value);
        printf(" %6.0f %6.0f", ns[k][count[k] / 2], ns[k][count[k] * 99 / 100]);
        free(ns[k]);
    }
    printf("  %.2f\n", (double)iterations / n);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: bench_ccd FILE.bin...\n");
        return 2;
    }
    printf("%-22s %-14s %6s %6s %5s %5s %5s %6s  %6s %6s %6s %6s  %s\n", "file", "method", "s",
           "pairs", "FN", "late", "FP", "hits", "VT ns", "p99", "EE ns", "p99", "iterations");
    for (int i = 1; i < argc; i++) {
        int32_t n = 0;
        query *q = read_queries(argv[i], &n);
        if (q == NULL) {
            fprintf(stderr, "%s: not a file of queries\n", argv[i]);
            return 1;
        }
        const char *name = strrchr(argv[i], '/') != NULL ? strrchr(argv[i], '/') + 1 : argv[i];
        score(name, "cubic", q, n, 0);
        score(name, "engine", q, n, 0);
        score(name, "engine", q, n, 1e-3);
        free(q);
    }
    return 0;
}
