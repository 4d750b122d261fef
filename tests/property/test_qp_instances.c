/// qp_instances on the files of tests/data/qp, on bent copies and on files that are none; its
/// reader and its judge by themselves: wrong answers must be found, whoever gives them.
#define QPC_BENT_FILE "bent.qpb"
#include "tests/support/bent.h"

#include "base/mem.h"
#include "tests/support/faults.h"
#include "tools/qp_run.h"

#include <glob.h>
#include <math.h>

enum { HEAD = 64, ENTRY = 64 };
#define QP QPC_TEST_DATA "/qp/"

static int qp_instances(const char *arguments) {
    return run_tool(QPC_QP_INSTANCES, arguments);
}

// ---- files to bend ----

static bytes load(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, QP "%s.qpb", name);
    bytes b = load_bytes(path);
    assert_true(b.size > HEAD);
    return b;
}

static uint8_t *entry(const bytes *b, const char *name) {
    for (uint32_t k = 0; k < get(b->data + 12, 4); k++) {
        uint8_t *e = b->data + HEAD + (size_t)ENTRY * k;
        if (strcmp((const char *)e, name) == 0) return e;
    }
    fprintf(stderr, "no %s\n", name);
    abort();
}
static uint8_t *element(const bytes *b, const char *name, size_t i) {
    const uint8_t *e = entry(b, name);
    return b->data + get(e + 48, 8) + i * (get(e + 32, 4) == 1 ? 8 : 4);
}

static int check(const char *arguments, const bytes *b, size_t size) {
    char all[256];
    (void)snprintf(all, sizeof all, "--repeat 1 %s", arguments);
    return run_tool_on(QPC_QP_INSTANCES, all, b, size);
}

// ---- the data ----

static void every_promise_holds_on_the_data(void **state) {
    (void)state;
    int result = qp_instances("--repeat 1 " QP "*.qpb");
    if (result != 0) fail_msg("%d: %s", result, output);
    says("nothing fell short");
    says("cable_050 ");
    says("LCP 6 x 1");
    says("fc_own_slope_stick           friction 12 x 4  friction-exact: converged");
    says("4 stick, 0 slide, 0 open");
    assert_int_equal(count_of("    proved: rows "), 7);
    glob_t steps, firsts; // every step of a sequence but its first
    assert_int_equal(glob(QP "seq_*.qpb", 0, NULL, &steps), 0);
    assert_int_equal(glob(QP "seq_*_00.qpb", 0, NULL, &firsts), 0);
    assert_int_equal(count_of("(warm)"), steps.gl_pathc - firsts.gl_pathc);
    globfree(&steps);
    globfree(&firsts);
    says("QP, 400 <= n < 1200");
}

static void the_reference_engine_proves_and_solves(void **state) {
    (void)state;
    int result = qp_instances("--engine active-set --repeat 1 " QP "tiny*.qpb " QP "inf*.qpb " QP
                              "lcp*.qpb " QP "seq_cable_0[0-3].qpb");
    if (result != 0) fail_msg("%d: %s", result, output);
    assert_int_equal(count_of(" active-set: infeasible"), 7);
    says("set changes at most ");
    assert_int_equal(count_of("auto"), 0);
}

static void engines_named_alone_keep_the_promises_too(void **state) {
    (void)state;
    int result = qp_instances("--engine augmented-lagrangian --engine interior-point --repeat 1 " QP "[!c]*.qpb " QP "c[!h]*.qpb");
    if (result != 0) fail_msg("%d: %s", result, output);
    says("nothing fell short");
    // Masses over twelve decades are more than they can do; they say so.
    (void)qp_instances("--engine augmented-lagrangian --engine interior-point --repeat 1 " QP "chain_*.qpb");
    assert_int_equal(count_of("says optimal"), 0);
    says("chain_240_masses");
}

static void engines_for_comparison_promise_nothing_but_are_listed(void **state) {
    (void)state;
    // Gauss-Seidel cannot do a mass ratio of 1e4; it says so, and that is all that is asked of it.
    assert_int_equal(qp_instances("--engine projected --repeat 1 " QP "stack_10_1e4.qpb"), 0);
    says("projected: iteration limit");
    says("fell short: 1");
    says("(for comparison: no promise)");
}

static void the_cheap_mode_of_friction_says_what_it_reached(void **state) {
    (void)state;
    int result = qp_instances("--friction staggered --repeat 1 " QP "fc_*.qpb");
    if (result != 0) fail_msg("%d: %s", result, output);
    says("friction-staggered: converged");
    assert_int_equal(count_of("friction-exact"), 0);
    // What it does not reach is listed and counted, though it is no promise.
    says("fc_own_wall4x4, friction-staggered: not converged to 0.001: natural residual ");
    says("(for comparison: no promise)");
    assert_int_equal(count_of("17 of  17"), 0);
    // An engine for QPs is not asked for friction: nothing is checked then, and that is no success.
    assert_int_equal(qp_instances("--engine active-set --repeat 1 " QP "fc_own_slope_slip.qpb"), 2);
    assert_int_equal(count_of("fc_own_slope_slip"), 0);
    says("nothing was checked");
    assert_int_equal(count_of("nothing fell short"), 0);
}

static void any_files_are_a_sequence_if_asked(void **state) {
    (void)state;
    assert_int_equal(qp_instances("--sequence --repeat 1 --engine active-set " QP
                                  "cable_050.qpb " QP "cable_050.qpb"),
                     0);
    assert_int_equal(count_of("(warm)"), 1);
    says(" 0 set changes (0 net)");
    assert_int_equal(qp_instances("--repeat 1 " QP "cable_050.qpb " QP "cable_050_dup.qpb"), 0);
    assert_int_equal(count_of("(warm)"), 0);
}

static void csv_and_json(void **state) {
    (void)state;
    const char *files =
        "--repeat 1 --commit abc " QP "tiny_dup3.qpb " QP "inf_jam.qpb " QP "lcp_ball_floor.qpb";
    char arguments[1024];
    (void)snprintf(arguments, sizeof arguments, "--csv %s", files);
    assert_int_equal(qp_instances(arguments), 0);
    int lines = 0, columns = commas(output);
    assert_true(columns > 30);
    for (char *line = output; *line != '\0'; line = strchr(line, '\n') + 1, lines++)
        assert_int_equal(commas(line), columns);
    assert_int_equal(lines, 4);
    says(",abc,tiny_dup3,QP,3,3,n<100,auto,");
    (void)snprintf(
        arguments, sizeof arguments,
        "--json --engine all %s | /usr/bin/python3 -c \""
        "import json, sys\n"
        "lines = [json.loads(l) for l in sys.stdin if l.startswith('{')]\n"
        "print(sorted({l['type'] for l in lines}), sum(l['type'] == 'instance' for l in lines),"
        "[l['proved'] for l in lines if l.get('asked') == 'auto' and 'proved' in l])\"",
        files);
    assert_int_equal(qp_instances(arguments), 0);
    char want[128];
    (void)snprintf(want, sizeof want, "['class', 'instance', 'summary'] %d [True]",
                   3 * (int)QPC_SOLVER_COUNT);
    says(want);
}

// ---- bent and malformed files ----

static void bent_truth_is_found(void **state) {
    (void)state;
    static const struct {
        const char *file, *array, *message;
        int index;
        double factor;
    } bends[] = {
        {"cable_050", "x", "not a solution: stat", -1, 1 + 1e-5},
        {"cable_050", "lam", "not a solution: stat", -1, 1.001},
        {"cable_050", "kappa", "kappa[3]: ", 3, 1.001},
        {"cable_050", "S", "S[0]: ", 0, 1.001},
        {"cable_050", "K_x", "", 0, 1.01}, // S, kappa or the solution: one of them shows it
        {"cable_050", "objective", "objective[0]: ", 0, 1 + 1e-6},
        {"inf_strain_chain", "farkas", "farkas: proves nothing", -1, 1.001},
        {"inf_strain_chain", "relax_s", "relax_s: proves nothing", -1, 1.001},
        {"lcp_rack5", "A_x", "A_x: row ", 3, 1.001},
        {"lcp_rack5", "eps", "b[", 0, 1.001},
        {"lcp_rack5", "v_plus", "not a solution: v_plus", -1, 1.001},
        {"lcp_rack5", "w", "not a solution: w - ", -1, 1.001},
        {"fc_own_slope_slip", "r", "not a solution: natural", -1, 1.001},
        {"fc_own_slope_slip", "u", "u[", -1, 1.001},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        bytes b = load(bends[i].file);
        size_t at = (size_t)bends[i].index, count = get(entry(&b, bends[i].array) + 40, 8);
        if (bends[i].index < 0) // the largest one
            for (size_t k = at = 0; k < count; k++)
                if (fabs(get_real(element(&b, bends[i].array, k))) >
                    fabs(get_real(element(&b, bends[i].array, at))))
                    at = k;
        uint8_t *p = element(&b, bends[i].array, at);
        assert_true(get_real(p) != 0);
        put_real(p, bends[i].factor * get_real(p));
        int result = check("", &b, b.size);
        if (result != 2) fail_msg("%s, %s: %d: %s", bends[i].file, bends[i].array, result, output);
        says(bends[i].message);
        free(b.data);
    }
}

static void nothing_read_is_no_success_and_one_format_is_asked_for(void **state) {
    (void)state;
    assert_int_equal(qp_instances("/nonexistent.qpb"), 2);
    says("nothing was checked");
    assert_int_equal(count_of("fell short"), 0);
    assert_int_equal(count_of("geometric mean"), 0);
    assert_int_equal(qp_instances("--repeat 1 /nonexistent.qpb " QP "tiny_dup3.qpb"), 2);
    says("nothing of what was read fell short");
    assert_int_equal(qp_instances("--csv --json " QP "tiny_dup3.qpb"), 2);
    says("--csv and --json: one or the other");
    assert_int_equal(count_of("tiny_dup3"), 0);
}

static void malformed_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *array, *message;
        int index;
        int64_t value; // -1000: NaN
    } bends[] = {
        {"cable_050", "dims", "dims[0]: -1, a count is never negative", 0, -1},
        {"cable_050", "dims", "K_p: 151 elements, must be 2147483648", 0, INT32_MAX},
        {"cable_050", "dims", "dims: no unknown", 0, 0},
        {"cable_050", "dims", "entries, but dims says", 2, 5},
        {"cable_050", "dims", "type: 3 equalities, but dims says 4", 4, 4},
        {"cable_050", "K_p", "K_p[0]: 1, must be 0", 0, 1},
        {"cable_050", "K_p", "K_p[4]: ", 4, 0},
        {"cable_050", "K_p", "K_p[4]: 2147483647 after", 4, INT32_MAX}, // then the next one falls
        {"cable_050", "K_i", "K_i[0]: index 150, must be from 0 to 149", 0, 150},
        {"cable_050", "K_i", "K_i[0]: column 0 starts with row 1", 0, 1},
        {"cable_050", "K_i", "indices must ascend", 2, 1},
        {"cable_050", "K_i", "K_i[1]: index -7", 1, -7},
        {"cable_050", "J_i", "J_i[0]: index 150", 0, 150},
        {"cable_050", "J_p", "J_p[1]: -5 after 0", 1, -5},
        {"cable_050", "type", "type[2]: 2, must be from 0 to 1", 2, 2},
        {"cable_050", "status", "relax_s: the array is missing", 0, 1},
        {"cable_050", "b", "b[3]: nan, must be finite", 3, -1000},
        {"cable_050", "J_x", "J_x[9]: nan", 9, -1000},
        {"cable_050", "lam", "lam[9]: nan", 9, -1000},
        {"cable_050", "kappa", "kappa[1]: 0, must be above 0", 1, 0},
        {"cable_050", "K_x", "diagonal -1 of column 0", 0, -1},
        {"cable_050", "K_x", "K is not positive definite at row", 1, 100000000},
        {"lcp_rack5", "M", "M[0]: 0, must be above 0", 0, 0},
        {"lcp_rack5", "A_i", "A_i[0]: index 1000", 0, 1000},
        {"lcp_rack5", "status", "only a QP can be infeasible", 0, 1},
        {"fc_own_slope_slip", "mu", "mu[0]: -1, must not be negative", 0, -1},
        {"fc_own_slope_slip", "state", "state[1]: 1, but r and u say otherwise", 1, 1},
        {"fc_own_slope_stick", "state", "state[2]: 0, but r and u say otherwise", 2, 0},
        {"fc_own_slope_slip", "dims", "contacts are too many", 0, INT32_MAX},
        {"fc_own_slope_slip", "W_x", "", 0, -5}, // no positive eigenvalue, or S
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        bytes b = load(bends[i].file);
        uint8_t *p = element(&b, bends[i].array, (size_t)bends[i].index);
        bool reals = get(entry(&b, bends[i].array) + 32, 4) == 1;
        if (reals)
            put_real(p, bends[i].value == -1000 ? (double)NAN : (double)bends[i].value);
        else
            put(p, (uint32_t)bends[i].value, 4);
        int result = check("", &b, b.size);
        if (result != 2)
            fail_msg("%s, %s[%d]: %d: %s", bends[i].file, bends[i].array, bends[i].index, result,
                     output);
        if (strcmp(bends[i].message, "K_p[4]: 2147483647 after") == 0)
            says("K_p[5]: ");
        else
            says(bends[i].message);
        free(b.data);
    }
}

static void malformed_containers_are_refused(void **state) {
    (void)state;
    bytes b = load("cable_050");
    static const size_t cuts[] = {0, 5, 8, 40, 63, 64, 100, 1000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        assert_int_equal(check("", &b, cuts[i]), 2);
    assert_int_equal(check("", &b, b.size - 1), 2);
    says("but the header says");
    static const struct {
        size_t at;
        int size;
        uint64_t value;
        const char *message;
    } bends[] = {
        {0, 1, 'X', "does not start with QPBIN01"},
        {8, 4, 2, "version 2, only 1 is known"},
        {12, 4, 0xffffffff, "4294967295 arrays do not fit"},
        {12, 4, 300, "300 arrays, at most 256"},
        {16, 8, ~0ULL, "metadata"},
        {24, 8, ~0ULL, "metadata"},
        {32, 8, 12, "but the header says 12"},
        {40, 4, 4, "kind 4, must be 1 (QP), 2 (LCP) or 3 (friction)"},
        {50, 1, 1, "byte 50 of the header is 1"},
        {HEAD, 1, 0, "array 0: its name is not a word"},
        {HEAD, 4, 0x64646464, "dims: the array is missing"},
        {HEAD + 32, 4, 3, "dims: type 3, must be 1 (f64) or 2 (i32)"},
        {HEAD + 32, 4, 1, "dims: type 1, must be 2"},
        {HEAD + 40, 8, ~0ULL, "dims: 18446744073709551615 elements"},
        {HEAD + 40, 8, 4, "dims: 4 elements, must be 5"},
        {HEAD + 48, 8, 12, "dims: offset 12, must be a multiple of 8"},
        {HEAD + 48, 8, ~7ULL, "dims: 5 elements at"},
        {HEAD + 56, 8, 1, "dims: a reserved word"},
    };
    for (size_t i = 0; i < sizeof bends / sizeof *bends; i++) {
        bytes copy = load("cable_050");
        put(copy.data + bends[i].at, bends[i].value, bends[i].size);
        int result = check("", &copy, copy.size);
        if (result != 2) fail_msg("byte %zu: %d: %s", bends[i].at, result, output);
        says(bends[i].message);
        free(copy.data);
    }
    memcpy(entry(&b, "lam"), "x\0\0", 3);
    assert_int_equal(check("", &b, b.size), 2);
    says("x: there are two of that name");
    free(b.data);
}

static void usage_is_told(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "--frobnicate " QP "tiny_dup3.qpb",
                                        "--repeat 0 " QP "tiny_dup3.qpb",
                                        "--repeat 3x " QP "tiny_dup3.qpb",
                                        "--friction glue " QP "tiny_dup3.qpb",
                                        "--engine '' " QP "tiny_dup3.qpb"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (qp_instances(wrong[i]) != 2) fail_msg("\"%s\" is taken: %s", wrong[i], output);
    assert_int_equal(qp_instances("--engine active-sett " QP "tiny_dup3.qpb"), 2);
    says("did you mean active-set?");
    assert_int_equal(qp_instances("--help"), 0);
    says("usage: qp_instances");
    assert_int_equal(qp_instances("/nonexistent.qpb"), 2);
    says("/nonexistent.qpb: ");
    assert_int_equal(qp_instances("/"), 2);
    assert_int_equal(qp_instances("/dev/zero"), 2); // no end, no magic
    // One file that does not read is no reason to leave out the others.
    assert_int_equal(qp_instances("/nonexistent.qpb " QP "tiny_dup3.qpb"), 2);
    says("tiny_dup3 ");
    // One instance is judged once, whatever folder it comes from.
    assert_int_equal(qp_instances("--csv " QP "tiny_dup3.qpb " QP "tiny_floor1.qpb " QP "../qp/tiny_dup3.qpb"), 2);
    says("left out");
    assert_int_equal(count_of(",tiny_dup3,"), 1);
    assert_int_equal(qp_instances("'" QP "tiny_dup3.qpb' >/dev/full"), 2);
}

// ---- the judge ----

typedef struct subject {
    qp_file file;
    qp_ground ground;
    qp_result result;
} subject;

/// The stored solution as if an engine had given it.
static void subject_init(subject *s, const char *name) {
    char path[512];
    qpc_error err = {0};
    (void)snprintf(path, sizeof path, QP "%s.qpb", name);
    *s = (subject){0};
    assert_ok(qp_file_read(path, &s->file, &err), &err);
    assert_ok(qp_ground_init(&s->ground, &s->file, &err), &err);
    const qp_file *f = &s->file;
    size_t n = (size_t)f->n, m = f->kind == QP_KIND_FRICTION ? n : (size_t)f->m;
    s->result = (qp_result){.x = qpc_calloc(n, sizeof(double)),
                            .lam = qpc_calloc(m, sizeof(double)),
                            .relaxation = -1,
                            .mode = QPC_FRICTION_EXACT};
    assert_true(s->result.x != NULL && s->result.lam != NULL);
    if (f->kind == QP_KIND_QP) memcpy(s->result.x, f->x, n * sizeof(double));
    const double *l = f->kind == QP_KIND_QP ? f->lam : f->kind == QP_KIND_LCP ? f->f : f->r;
    memcpy(s->result.lam, l, m * sizeof(double));
    for (size_t i = 0; f->kind == QP_KIND_LCP && i < n; i++)
        s->result.x[i] = f->v_plus[i] - f->velocity[i];
    s->result.friction.converged = f->kind == QP_KIND_FRICTION;
}

static void subject_fini(subject *s) {
    qp_result_fini(&s->result);
    qp_ground_fini(&s->ground);
    qp_file_fini(&s->file);
}

static qp_verdict verdict(subject *s) {
    qpc_error err = {0};
    assert_ok(qp_judge(&s->ground, &s->result, &err), &err);
    return s->result.verdict;
}

static size_t largest(const double *v, size_t count) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs(v[i]) > fabs(v[at])) at = i;
    return at;
}

static void wrong_answers_to_qps_are_found(void **state) {
    (void)state;
    static const char *const names[] = {"cable_050", "stack_03",    "rand_060",
                                        "cloth_10",  "massspan_40", "mm_QPCBOEI1"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        subject s;
        subject_init(&s, names[k]);
        double *x = s.result.x, *lam = s.result.lam;
        if (verdict(&s) != QP_HOLDS) fail_msg("%s: %s", names[k], s.result.why);
        size_t at = largest(x, (size_t)s.file.n), row = largest(lam, (size_t)s.file.m);
        double was = x[at], multiplier = lam[row];
        double step = s.ground.scale /
                      sqrt(s.file.K.value[s.file.K.start[at]]); // moves x by S in the energy norm
        x[at] = was + 1e-7 * step;
        assert_true(verdict(&s) != QP_HOLDS);
        assert_true(s.result.score.stat > 0.99e-7 && s.result.score.stat_cw > 1e-12);
        assert_near(s.result.score.distance, 1e-7, 1e-9);
        x[at] = was + step; // far off, and called optimal
        assert_int_equal(verdict(&s), QP_WRONG);
        s.result.report.outcome = QPC_OUTCOME_STALLED; // said so: short, not wrong
        assert_int_equal(verdict(&s), QP_SHORT);
        x[at] = was;
        assert_int_equal(verdict(&s), QP_SHORT); // solved, but not said
        s.result.report.outcome = QPC_OUTCOME_INFEASIBLE;
        assert_int_equal(verdict(&s), QP_WRONG);
        s.result.report.outcome = QPC_OUTCOME_OPTIMAL;
        lam[row] = 0;
        assert_int_equal(verdict(&s), QP_WRONG);
        lam[row] = multiplier * (1 + 1e-5);
        assert_true(verdict(&s) != QP_HOLDS);
        lam[row] = multiplier;
        x[at] = (double)NAN;
        assert_true(verdict(&s) != QP_HOLDS);
        x[at] = was;
        s.result.warm = true;
        s.result.changes = QP_LIMIT_CHANGES + 1;
        assert_int_equal(verdict(&s), QP_SHORT);
        s.result.changes = QP_LIMIT_CHANGES;
        assert_int_equal(verdict(&s), QP_HOLDS);
        // A row that is met, but pulls: dual.
        for (int32_t i = 0; i < s.file.m; i++)
            if (s.file.type[i] == 0 && s.file.lam[i] == 0)
                lam[i] = -1e-6 * s.ground.scale / s.ground.kappa[i];
        verdict(&s);
        if (!(s.result.score.dual > 0.99e-6))
            fail_msg("%s: dual %g", names[k], s.result.score.dual);
        subject_fini(&s);
    }
}

static void wrong_answers_to_infeasible_qps_are_found(void **state) {
    (void)state;
    subject s;
    subject_init(&s, "inf_strain_chain");
    assert_int_equal(verdict(&s), QP_WRONG); // optimal: it is not
    s.result.report.outcome = QPC_OUTCOME_INFEASIBLE;
    s.result.relaxation = 1e-9;
    qpc_solver_report *r = &s.result.report;
    for (int32_t i = 0; i < s.file.m && r->conflict_count < QPC_CONFLICT_MAX; i++)
        if (fabs(s.file.farkas[i]) > 1e-9) r->conflict_row[r->conflict_count++] = i;
    if (verdict(&s) != QP_HOLDS) fail_msg("%s", s.result.why);
    assert_true(s.result.conflict.size <= 1e-12 && s.result.conflict.radius > 1e6);
    r->conflict_count--; // the chain is open: no contradiction
    assert_int_equal(verdict(&s), QP_SHORT);
    r->conflict_row[0] = s.file.m; // no such row
    assert_int_equal(verdict(&s), QP_SHORT);
    r->conflict_count = 0;
    assert_int_equal(verdict(&s), QP_SHORT);
    r->outcome = QPC_OUTCOME_STALLED;
    assert_int_equal(verdict(&s), QP_SHORT); // asked: auto, which must prove it
    s.result.asked = QPC_SOLVER_AUGMENTED_LAGRANGIAN;
    assert_int_equal(verdict(&s), QP_HOLDS); // which never said that it could
    double *c = qpc_calloc((size_t)s.file.m, sizeof *c);
    memcpy(c, s.file.relax, (size_t)s.file.m * sizeof *c);
    assert_true(qp_score_relaxation(&s.ground, c) <= 0);
    c[largest(c, (size_t)s.file.m)] *= 1 + 1e-5;
    assert_true(qp_score_relaxation(&s.ground, c) > 1e-7);
    qpc_free(c);
    subject_fini(&s);
    // Two equalities against each other: y is free there. One of them alone proves nothing, nor an
    // equality against itself.
    subject_init(&s, "inf_eq_conflict");
    qp_conflict found;
    qpc_error err = {0};
    const int32_t both[] = {0, 1}, twice[] = {0, 0};
    assert_ok(qp_score_conflict(&s.ground, both, 2, &found, &err), &err);
    assert_true(found.holds);
    assert_ok(qp_score_conflict(&s.ground, both, 1, &found, &err), &err);
    assert_false(found.holds);
    assert_ok(qp_score_conflict(&s.ground, twice, 2, &found, &err), &err);
    assert_false(found.holds);
    subject_fini(&s);
}

/// The chain of test_active_set.c, K = 1: only all of its rows contradict.
static void proofs_of_hundreds_of_rows_are_judged(void **state) {
    (void)state;
    enum { LINKS = 300, ROWS = LINKS + 1 };
    static int32_t K_start[LINKS + 1], K_index[LINKS], J_start[ROWS + 1], J_index[2 * ROWS], type[ROWS], rows[ROWS];
    static double K_value[LINKS], J_value[2 * ROWS], c[ROWS], kappa[ROWS];
    int32_t at = 0;
    for (int32_t i = 0; i < LINKS; i++) K_index[i] = i, K_value[i] = 1, K_start[i + 1] = i + 1;
    for (int32_t i = 0; i < ROWS; i++) {
        bool first = i == 0, last = i == LINKS;
        if (!first) J_index[at] = i - 1, J_value[at++] = -1;
        if (!last) J_index[at] = i, J_value[at++] = 1;
        c[i] = last ? -(LINKS + 1) : 1;
        kappa[i] = first || last ? 1 : sqrt(2.0);
        rows[i] = i;
        J_start[i + 1] = at;
    }
    const qp_file file = {.kind = QP_KIND_QP, .n = LINKS, .m = ROWS, .K = {K_start, K_index, K_value},
                          .J = {J_start, J_index, J_value}, .c = c, .type = type};
    qp_ground ground = {.file = &file, .kappa = kappa, .scale = LINKS};
    qpc_error err = {0};
    qp_conflict found;
    assert_ok(qp_cholesky_init(&ground.L, LINKS, &file.K, &err), &err);
    assert_ok(qp_score_conflict(&ground, rows, ROWS, &found, &err), &err);
    if (!found.holds) fail_msg("size %g slope %g radius %g", found.size, found.slope, found.radius);
    assert_ok(qp_score_conflict(&ground, rows, ROWS - 1, &found, &err), &err); // without the last there is room
    assert_false(found.holds);
    rows[LINKS / 2] = 0; // nor with a link left out
    assert_ok(qp_score_conflict(&ground, rows, ROWS, &found, &err), &err);
    assert_false(found.holds);
    qp_cholesky_fini(&ground.L);
}

static void feasible_rows_never_contradict(void **state) {
    (void)state;
    static const char *const names[] = {"nearinf_20", "needles_60x10", "tiny_ring64p", "tiny_depeq",
                                        "stack_03"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        subject s;
        subject_init(&s, names[k]);
        int32_t *rows = qpc_calloc((size_t)s.file.m, sizeof *rows), count = 0;
        for (int32_t i = 0; i < s.file.m && count < 40; i++) rows[count++] = i;
        qp_conflict found;
        qpc_error err = {0};
        assert_ok(qp_score_conflict(&s.ground, rows, count, &found, &err), &err);
        if (found.holds) fail_msg("%s: size %g, slope %g", names[k], found.size, found.slope);
        qpc_free(rows);
        subject_fini(&s);
    }
}

static void wrong_answers_to_lcps_and_friction_are_found(void **state) {
    (void)state;
    subject s;
    subject_init(&s, "lcp_rack5");
    assert_int_equal(verdict(&s), QP_HOLDS);
    size_t at = largest(s.result.lam, (size_t)s.file.m);
    double was = s.result.lam[at];
    s.result.lam[at] *= 1 + 1e-6;
    assert_true(verdict(&s) != QP_HOLDS);
    s.result.lam[at] = -was;
    assert_int_equal(verdict(&s), QP_WRONG);
    s.result.lam[at] = was;
    s.result.x[largest(s.result.x, (size_t)s.file.n)] *= 1.01; // dv that is not that of f
    assert_int_equal(verdict(&s), QP_WRONG);
    subject_fini(&s);
    subject_init(&s, "fc_own_slope_slip");
    assert_int_equal(verdict(&s), QP_HOLDS);
    assert_true(s.result.score.natural <= 1e-12);
    at = largest(s.result.lam, (size_t)s.file.n);
    s.result.lam[at] *= 1 + 1e-4;
    assert_int_equal(verdict(&s), QP_WRONG);
    assert_true(s.result.score.natural > 1e-6);
    s.result.friction.converged = false;
    assert_int_equal(verdict(&s), QP_SHORT);
    s.result.mode = QPC_FRICTION_STAGGERED; // may say that it has not converged: listed, no promise broken
    assert_int_equal(verdict(&s), QP_SHORT);
    // Frictionless: the tangential part is gone and what slid slides on. Cone and penetration hold,
    // the natural residual and the dissipation show it.
    for (int32_t i = 0; i < s.file.n; i++)
        if (i % 3 != 0) s.result.lam[i] = 0;
    s.result.friction.converged = true;
    assert_int_equal(verdict(&s), QP_WRONG);
    assert_true(s.result.score.dissipation > 1e-6);
    assert_true(s.result.score.cone <= 0);
    subject_fini(&s);
}

static void kappa_and_norms_against_closed_forms(void **state) {
    (void)state;
    // tiny_ratio: whatever it holds, K is factored by the judge: L L' is K, entry by entry.
    static const char *const names[] = {"tiny_ratio", "cloth_10", "rand_060", "cable_100_10t"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        subject s;
        subject_init(&s, names[k]);
        const qp_cholesky *L = &s.ground.L;
        int32_t n = s.file.n;
        double *e = qpc_calloc((size_t)n, sizeof *e);
        for (int32_t j = 0; j < n; j += 1 + n / 20) { // K^-1 K e_j = e_j
            memset(e, 0, (size_t)n * sizeof *e);
            for (int32_t c = 0; c < n; c++)
                for (int32_t p = s.file.K.start[c]; p < s.file.K.start[c + 1]; p++) {
                    int32_t i = s.file.K.index[p];
                    if (c == j) e[i] = s.file.K.value[p];
                    if (i == j) e[c] = s.file.K.value[p];
                }
            qp_cholesky_forward(L, 0, e);
            qp_cholesky_backward(L, e);
            for (int32_t i = 0; i < n; i++)
                if (fabs(e[i] - (i == j)) > 1e-7)
                    fail_msg("%s: column %d, row %d: %g", names[k], j, i, e[i]);
        }
        qpc_free(e);
        subject_fini(&s);
    }
}

static void want_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    static const char *const names[] = {QP "tiny_dup3.qpb", QP "inf_eq_conflict.qpb",
                                        QP "lcp_ball_floor.qpb", QP "fc_own_slope_slip.qpb"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        int failures = 0;
        QPC_FAULTS(f) {
            qp_file file = {0};
            qp_ground ground = {0};
            qpc_error err = {0};
            qpc_status status = qp_file_read(names[k], &file, &err);
            if (status == QPC_OK) status = qp_ground_init(&ground, &file, &err);
            failures += status != QPC_OK;
            qp_ground_fini(&ground);
            qp_file_fini(&file);
            qpc_faults_ended(&f, status);
        }
        assert_true(failures > 5);
    }
    qp_file_fini(NULL);
    qp_ground_fini(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise_holds_on_the_data),
        cmocka_unit_test(the_reference_engine_proves_and_solves),
        cmocka_unit_test(engines_named_alone_keep_the_promises_too),
        cmocka_unit_test(engines_for_comparison_promise_nothing_but_are_listed),
        cmocka_unit_test(the_cheap_mode_of_friction_says_what_it_reached),
        cmocka_unit_test(any_files_are_a_sequence_if_asked),
        cmocka_unit_test(csv_and_json),
        cmocka_unit_test(bent_truth_is_found),
        cmocka_unit_test(malformed_files_are_refused),
        cmocka_unit_test(nothing_read_is_no_success_and_one_format_is_asked_for),
        cmocka_unit_test(malformed_containers_are_refused),
        cmocka_unit_test(usage_is_told),
        cmocka_unit_test(wrong_answers_to_qps_are_found),
        cmocka_unit_test(wrong_answers_to_infeasible_qps_are_found),
        cmocka_unit_test(proofs_of_hundreds_of_rows_are_judged),
        cmocka_unit_test(feasible_rows_never_contradict),
        cmocka_unit_test(wrong_answers_to_lcps_and_friction_are_found),
        cmocka_unit_test(kappa_and_norms_against_closed_forms),
        cmocka_unit_test(want_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("qp-instances", tests, make_folder, remove_folder);
}
