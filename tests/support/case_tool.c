// Answers for tests/oracle/run_cases.py: what the detector or the solvers say to a case file.
//
//     case_tool FILE.json
//
// Prints one JSON object a line: for a ccd/1 file the detector's answer at zero thickness and the exact
// one; for a qp/1 file one line for each solver and start. The script judges; this program only asks.
#include "base/json.h"
#include "base/mem.h"
#include "engine/collision/ccd.h"
#include "engine/solver/certificate.h"
#include "engine/solver/solver.h"
#include "tests/support/exact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static _Noreturn void fail(const char *path, const qpc_error *err) {
    fprintf(stderr, "%s: %s\n", path, err->message);
    exit(2);
}
static char *read_file(const char *path, size_t *ret_size) {
    FILE *f = fopen(path, "rbe");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) exit(2);
    long size = ftell(f);
    char *text = size < 0 ? NULL : malloc((size_t)size + 1);
    if (text == NULL || fseek(f, 0, SEEK_SET) != 0 ||
        fread(text, 1, (size_t)size, f) != (size_t)size)
        exit(2);
    (void)fclose(f);
    *ret_size = (size_t)size;
    return text;
}
static void print_number(const char *key, double v) { // JSON has no NaN
    if (isfinite(v)) printf(", \"%s\": %.17g", key, v);
    else printf(", \"%s\": null", key);
}

static void ccd_case(const char *path, const qpc_value *c) {
    static const char *const points[2][4] = {{"vertex", "tri0", "tri1", "tri2"}, {"a0", "a1", "b0", "b1"}};
    qpc_error err = {0};
    bool edges = !qpc_str_equal(qpc_map_get(c, "pair"), "vertex_triangle");
    double x[2][12];
    for (int end = 0; end < 2; end++) {
        const qpc_value *map = qpc_map_get(c, end ? "end" : "start");
        for (int k = 0; k < 4; k++) {
            // the four points, by name or, for edges, in the order given
            const qpc_value *v = qpc_map_get(map, points[edges][k]);
            if (v == NULL && map != NULL && map->kind == QPC_MAP && map->map.count == 4)
                v = &map->map.pairs[k].value;
            double *p;
            int64_t rows;
            if (qpc_read_matrix(v, "point", 3, 1, &p, &rows, &err) != QPC_OK) fail(path, &err);
            memcpy(x[end] + 3 * k, p, 3 * sizeof *p);
            qpc_free(p);
        }
    }
    qpc_vec3 x0[4], x1[4];
    for (int k = 0; k < 4; k++) {
        x0[k] = v3_load(x[0] + 3 * k);
        x1[k] = v3_load(x[1] + 3 * k);
    }
    qpc_ccd_result r;
    double start = now();
    (edges ? qpc_ccd_ee : qpc_ccd_vt)(x0, x1, 0, 1e-9, &r);
    double seconds = now() - start, toi = -1;
    qpc_exact *exact = qpc_exact_create();
    int truth = (int)(edges ? qpc_exact_ee : qpc_exact_vt)(exact, x[0], x[1], &toi);
    qpc_exact_destroy(exact);
    bool finite = isfinite(r.toi) && isfinite(r.distance) && v3_finite(r.n);
    printf("{\"hit\": %s, \"finite\": %s, \"exact_hit\": %s",
           r.outcome == QPC_CCD_MISS ? "false" : "true", finite ? "true" : "false",
           truth == 1 ? "true" : "false");
    print_number("toi", r.toi);
    print_number("exact_toi", toi);
    print_number("seconds", seconds);
    printf("}\n");
}

// A x >= b and E x = e as rows J dv <= c of the QP with K = H, b = -g.
static void qp_case(const char *path, const qpc_value *c) {
    qpc_error err = {0};
    double *H, *g, *A = NULL, *b = NULL, *E = NULL, *e = NULL, *starts = NULL;
    int64_t n, unused, rows = 0, equal = 0, start_count = 0;
    const qpc_value *v;
    const struct {
        const char *key;
        double **ret;
        int64_t *count;
    } part[] = {{"A", &A, &rows}, {"E", &E, &equal}, {"starts", &starts, &start_count}};
    if (qpc_read_matrix(qpc_map_get(c, "g"), "g", 1, 1000, &g, &n, &err) != QPC_OK ||
        qpc_read_matrix(qpc_map_get(c, "H"), "H", n, 1000, &H, &unused, &err) != QPC_OK)
        fail(path, &err);
    for (int k = 0; k < 3; k++) {
        v = qpc_map_get(c, part[k].key);
        if (v == NULL || (v->kind == QPC_LIST && v->list.count == 0)) continue;
        if (qpc_read_matrix(v, part[k].key, n, 10000, part[k].ret, part[k].count, &err) != QPC_OK)
            fail(path, &err);
    }
    if ((rows > 0 &&
         qpc_read_matrix(qpc_map_get(c, "b"), "b", 1, rows, &b, &unused, &err) != QPC_OK) ||
        (equal > 0 &&
         qpc_read_matrix(qpc_map_get(c, "e"), "e", 1, equal, &e, &unused, &err) != QPC_OK))
        fail(path, &err);
    int32_t m = (int32_t)(rows + equal), dim = (int32_t)n;
    qpc_linsys K = {0};
    if (qpc_linsys_resize(&K, dim, dim - 1, &err) != QPC_OK) fail(path, &err);
    qpc_linsys_clear(&K);
    for (int32_t i = 0; i < dim; i++)
        for (int32_t j = 0; j <= i; j++) qpc_linsys_add(&K, i, j, H[i * n + j]);
    if (qpc_linsys_factor(&K, &err) != QPC_OK) fail(path, &err);
    int32_t *row_start = calloc((size_t)m + 1, sizeof *row_start);
    int32_t *column = calloc((size_t)(m * dim) + 1, sizeof *column);
    double *value = calloc((size_t)(m * dim) + 1, sizeof *value), *rhs = calloc((size_t)m + 1, 8);
    double *minus_g = calloc((size_t)n, 8), *dv = calloc((size_t)n, 8);
    double *lambda = calloc((size_t)m + 1, 8);
    uint8_t *equality = calloc((size_t)m + 1, 1), *priority = calloc((size_t)m + 1, 1);
    uint64_t *key = calloc((size_t)m + 1, sizeof *key);
    int32_t at = 0;
    for (int32_t i = 0; i < m; i++) {
        const double *row = i < rows ? A + i * n : E + (i - rows) * n;
        for (int32_t j = 0; j < dim; j++) {
            if (row[j] == 0) continue;
            column[at] = j;
            value[at++] = i < rows ? -row[j] : row[j];
        }
        row_start[i + 1] = at;
        rhs[i] = i < rows ? -b[i] : e[i - rows];
        equality[i] = i >= rows;
        priority[i] = i < rows; // may give way if rows contradict
        key[i] = (uint64_t)i + 1;
    }
    for (int32_t i = 0; i < dim; i++) minus_g[i] = -g[i];
    qpc_qp qp = {.n = dim, .m = m, .sys = &K, .b = minus_g, .row_start = row_start,
                 .column = column, .value = value, .c = rhs, .equality = equality,
                 .priority = priority, .key = key};
    static const qpc_solver_id ids[] = {QPC_SOLVER_AUGMENTED_LAGRANGIAN, QPC_SOLVER_ACTIVE_SET,
                                        QPC_SOLVER_AUTO};
    for (size_t s = 0; s < sizeof ids / sizeof ids[0]; s++) {
        for (int64_t k = -1; k < start_count; k++) { // -1: cold, the solver's own start
            // these solvers start from multipliers: rows that hold or are broken at the start vector
            for (int32_t i = 0; i < m; i++) {
                double slack = 0;
                for (int32_t j = 0; k >= 0 && i < rows && j < dim; j++)
                    slack += A[i * n + j] * starts[k * n + j];
                lambda[i] = k >= 0 && i < rows && slack - b[i] <= 1e-9 ? 1 : 0;
            }
            qpc_arena arena = {0};
            qpc_solver_options options = qpc_solver_options_default();
            options.exact = true;
            qpc_solver_report report = {0};
            double start = now(), relaxed = 0, objective = 0, worst = 0;
            qpc_status status = qpc_solve(ids[s], &qp, &options, &arena, dv, lambda, &report, &err);
            if (status == QPC_OK && report.outcome == QPC_OUTCOME_INFEASIBLE) {
                double *relaxed_c = malloc((size_t)m * sizeof *relaxed_c);
                if (relaxed_c == NULL) exit(2);
                memcpy(relaxed_c, rhs, (size_t)m * sizeof *relaxed_c);
                status = qpc_relax(&qp, 1, QPC_RELAX_EXACT, &arena, relaxed_c, &relaxed, &err);
                free(relaxed_c);
            }
            double seconds = now() - start;
            for (int32_t i = 0; i < dim; i++) {
                objective += g[i] * dv[i];
                for (int32_t j = 0; j < dim; j++) objective += 0.5 * dv[i] * H[i * n + j] * dv[j];
            }
            for (int32_t i = 0; i < m; i++) {
                double s_i = rhs[i];
                for (int32_t p = row_start[i]; p < row_start[i + 1]; p++)
                    s_i -= value[p] * dv[column[p]];
                worst = fmax(worst, equality[i] ? fabs(s_i) : -s_i);
            }
            static const char *const outcomes[] = {"optimal", "iteration limit", "infeasible",
                                                   "stalled"};
            printf("{\"solver\": \"%s\", \"start\": %lld, \"status\": \"%s\", \"outcome\": \"%s\", "
                   "\"iterations\": %d, \"set_changes\": %d, \"conflicts\": %d, \"x\": [",
                   qpc_solver_name(ids[s]), (long long)k, qpc_status_name(status),
                   outcomes[report.outcome], report.iterations, report.adds + report.drops,
                   report.conflict_count);
            for (int32_t i = 0; i < dim; i++)
                printf("%s%.17g", i ? ", " : "", isfinite(dv[i]) ? dv[i] : 1e300);
            printf("]");
            print_number("objective", objective);
            print_number("violation", worst);
            print_number("relaxed", relaxed);
            print_number("seconds", seconds);
            printf("}\n");
            qpc_arena_fini(&arena);
        }
    }
    qpc_linsys_fini(&K);
    double *owned[] = {H, g, A, b, E, e, starts};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) qpc_free(owned[i]);
    free(row_start), free(column), free(value), free(rhs), free(minus_g), free(dv), free(lambda);
    free(equality), free(priority), free(key);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE.json\n", argv[0]);
        return 2;
    }
    size_t size;
    char *text = read_file(argv[1], &size);
    qpc_value v;
    qpc_error err = {0};
    if (qpc_json_parse(text, size, &v, &err) != QPC_OK) fail(argv[1], &err);
    if (qpc_str_equal(qpc_map_get(&v, "format"), "ccd/1")) ccd_case(argv[1], &v);
    else if (qpc_str_equal(qpc_map_get(&v, "format"), "qp/1")) qp_case(argv[1], &v);
    else return 2;
    qpc_value_fini(&v);
    free(text);
    return 0;
}
