// qp_instances: re-check the solvers on instances with verified solutions.
//
//     qp_instances [--engine NAME|all] [--friction MODE] [--sequence] [--repeat N] [--csv | --json]
//                  [--commit ID] FILE...
//
// Gives every instance of the layout of tests/data/qp to the engine and judges the answer by its
// own arithmetic (qp_score.h): residuals, distance from the stored solution, proofs of
// contradictions, set changes of warm starts; then geometric means by size class and the list of
// what fell short. Exit status: 0 every promise holds, 1 one is broken, 2 usage, a file that does
// not read or has the name of one before it, nothing that was checked, or an output that does not write. See docs/checking.md.
#include "base/mem.h"
#include "base/nearest.h"
#include "tools/qp_report.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_HOLDS = 0, EXIT_BROKEN = 1, EXIT_ERROR = 2, NAME = 128 };

typedef struct request {
    bool wanted[QPC_SOLVER_COUNT];
    bool chosen, sequence, friction; // chosen: by --engine; friction: asked for by itself
    qpc_friction_mode mode;
    int repeat;
} request;

/// The last step of a sequence, for each engine.
typedef struct history {
    char name[NAME];
    qp_memory memory[QPC_SOLVER_COUNT];
} history;

static void forget(history *h) {
    for (int e = 0; e < QPC_SOLVER_COUNT; e++) qp_memory_fini(&h->memory[e]);
    h->name[0] = '\0';
}

/// "seq_cable_03.qpb" gives "seq_cable_".
static size_t stem(const char *name) {
    size_t length = strcspn(name, ".");
    while (length > 0 && isdigit((unsigned char)name[length - 1])) length--;
    return length;
}

static bool follows(const history *h, const char *name, bool always) {
    if (h->name[0] == '\0') return false;
    if (always) return true;
    size_t length = stem(name);
    return strncmp(name, "seq_", 4) == 0 && length == stem(h->name) &&
           strncmp(name, h->name, length) == 0;
}

/// Cold, and warm where the file before was the step before.
static qpc_status check_solver(const qp_ground *g, const char *name, qpc_solver_id id,
                               const request *r, bool warm, history *h, qpc_arena *arena,
                               qp_report *report, qpc_error *err) {
    const qp_file *f = g->file;
    for (int start = 0; start < 2; start++) {
        if (start == 1 && !(warm && h->memory[id].lam != NULL)) break;
        qp_result result;
        qpc_status status =
            qp_run(g, id, start == 1 ? &h->memory[id] : NULL, r->repeat, arena, &result, err);
        if (status != QPC_OK) return status;
        qp_report_result(report, name, f, &result);
        bool last = start == 1 || !(warm && h->memory[id].lam != NULL);
        if (last && f->kind == QP_KIND_QP && result.status == QPC_OK)
            status = qp_memory_keep(&h->memory[id], f, result.lam, err);
        qp_result_fini(&result);
        if (status != QPC_OK || last) return status;
    }
    return QPC_OK;
}

static qpc_status check_ground(const qp_ground *g, const char *name, const request *r, history *h,
                               qpc_arena *arena, qp_report *report, qpc_error *err) {
    qpc_status status = QPC_OK;
    if (g->file->kind == QP_KIND_FRICTION) {
        qp_result result;
        // Friction does not go through the table of solvers: it belongs to auto.
        if (!r->friction && !r->wanted[QPC_SOLVER_AUTO]) return QPC_OK;
        status = qp_run_friction(g, r->mode, r->repeat, arena, &result, err);
        if (status != QPC_OK) return status;
        qp_report_result(report, name, g->file, &result);
        qp_result_fini(&result);
        return QPC_OK;
    }
    bool warm = g->file->kind == QP_KIND_QP && follows(h, name, r->sequence);
    if (!warm) forget(h);
    for (int e = 0; e < QPC_SOLVER_COUNT && status == QPC_OK; e++)
        if (r->wanted[e])
            status = check_solver(g, name, (qpc_solver_id)e, r, warm, h, arena, report, err);
    if (g->file->kind == QP_KIND_QP) (void)snprintf(h->name, sizeof h->name, "%s", name);
    return status;
}

/// The name of an instance: that of its file without the folder and without ".qpb".
static void name_of(const char *path, char name[NAME]) {
    const char *slash = strrchr(path, '/');
    (void)snprintf(name, NAME, "%s", slash != NULL ? slash + 1 : path);
    for (char *c = name; *c != '\0'; c++) // goes to terminals and CSV
        if ((unsigned char)*c <= ' ' || *c >= 127 || *c == ',' || *c == '"') *c = '_';
    char *end = strstr(name, ".qpb");
    if (end != NULL && end[4] == '\0') *end = '\0';
}

/// Whether a file before this one has its name: rows and means would count one instance twice.
static bool came_before(char **paths, int i) {
    char name[NAME], other[NAME];
    name_of(paths[i], name);
    for (int k = 0; k < i; k++) {
        name_of(paths[k], other);
        if (strcmp(name, other) != 0) continue;
        fprintf(stderr, "%s: left out, an instance of this name came before: %s\n", paths[i], paths[k]);
        return true;
    }
    return false;
}

static int check_file(const char *path, const request *r, history *h, qpc_arena *arena,
                      qp_report *report) {
    qp_file file = {0};
    qp_ground ground = {0};
    qpc_error err = {0};
    char name[NAME];
    name_of(path, name);
    qpc_status status = qp_file_read(path, &file, &err);
    if (status == QPC_OK) status = qp_ground_init(&ground, &file, &err);
    if (status == QPC_OK) status = check_ground(&ground, name, r, h, arena, report, &err);
    qp_ground_fini(&ground);
    qp_file_fini(&file);
    if (status == QPC_OK) return EXIT_HOLDS;
    fprintf(stderr, "%s: %s\n", path, err.message);
    forget(h);
    return EXIT_ERROR;
}

static int usage(FILE *out, int status) {
    fprintf(out,
            "usage: qp_instances [OPTION]... FILE...\n"
            "Checks the solvers on instances with verified solutions (QP, LCP, friction).\n"
            "  --engine NAME    ask this one, or all; may be repeated; default auto. Known:\n");
    for (int e = 0; e < QPC_SOLVER_COUNT; e++)
        fprintf(out, "                     %s%s\n", qpc_solver_name((qpc_solver_id)e),
                qp_engine_compares((qpc_solver_id)e) ? " (for comparison)" : "");
    fprintf(
        out,
        "  --friction MODE  exact (default, with auto) or staggered\n"
        "  --sequence       each file is the step after the one before; without this seq_*_00,\n"
        "                   seq_*_01, ... are\n"
        "  --repeat N       best time of N runs, 1 to 1000; default 3\n"
        "  --csv            one line an instance and engine, values separated by commas\n"
        "  --json           one JSON object a line\n"
        "  --commit ID      goes into the CSV\n"
        "Exit status: 0 every promise holds, 1 one is broken, 2 usage, a file that does not read or\n"
        "has the name of one before it, nothing that was checked, or an output that does not write.\n");
    return status;
}

static bool choose_engine(const char *name, request *r) {
    const char *names[QPC_SOLVER_COUNT + 2];
    bool known = false;
    if (!r->chosen) memset(r->wanted, 0, sizeof r->wanted);
    r->chosen = true;
    for (int e = 0; e < QPC_SOLVER_COUNT; e++) {
        names[e] = qpc_solver_name((qpc_solver_id)e);
        if (strcmp(name, "all") == 0 || strcmp(name, names[e]) == 0) r->wanted[e] = known = true;
    }
    names[QPC_SOLVER_COUNT] = "all";
    names[QPC_SOLVER_COUNT + 1] = NULL;
    if (known) return true;
    const char *near = qpc_nearest(name, strlen(name), names);
    fprintf(stderr, "--engine %s: not known%s%s%s; known:", name,
            near != NULL ? ", did you mean " : "", near != NULL ? near : "",
            near != NULL ? "?" : "");
    for (int e = 0; names[e] != NULL; e++) fprintf(stderr, " %s", names[e]);
    fprintf(stderr, "\n");
    return false;
}

static bool choose_mode(const char *name, request *r) {
    r->friction = true;
    if (strcmp(name, "exact") == 0)
        r->mode = QPC_FRICTION_EXACT;
    else if (strcmp(name, "staggered") == 0)
        r->mode = QPC_FRICTION_STAGGERED;
    else
        fprintf(stderr, "--friction %s: not known; known: exact staggered\n", name);
    return strcmp(name, "exact") == 0 || strcmp(name, "staggered") == 0;
}

static bool choose_repeat(const char *text, request *r) {
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > 1000) {
        fprintf(stderr, "--repeat %s: not a number from 1 to 1000\n", text);
        return false;
    }
    r->repeat = (int)n;
    return true;
}

/// False: usage, or a word that is not known.
static bool read_options(int argc, char **argv, request *r, qp_report *report, bool *ret_help) {
    static const struct option options[] = {
        {"engine", required_argument, NULL, 'e'},
        {"friction", required_argument, NULL, 'f'},
        {"sequence", no_argument, NULL, 's'},
        {"repeat", required_argument, NULL, 'r'},
        {"csv", no_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},
        {"commit", required_argument, NULL, 'i'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (c == 'e' && !choose_engine(optarg, r)) return false;
        if (c == 'f' && !choose_mode(optarg, r)) return false;
        if (c == 'r' && !choose_repeat(optarg, r)) return false;
        if (c == 's') r->sequence = true;
        if (c == 'c' || c == 'j') {
            qp_format format = c == 'c' ? QP_CSV : QP_JSON;
            if (report->format != QP_TEXT && report->format != format) {
                fprintf(stderr, "--csv and --json: one or the other\n");
                return false;
            }
            report->format = format;
        }
        if (c == 'i') report->commit = optarg;
        if (c == 'h') *ret_help = true;
        if (c == '?') {
            (void)usage(stderr, EXIT_ERROR);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    request r = {.mode = QPC_FRICTION_EXACT, .repeat = 3};
    r.wanted[QPC_SOLVER_AUTO] = true;
    static qp_report report;
    bool help = false;
    if (!read_options(argc, argv, &r, &report, &help)) return EXIT_ERROR;
    if (help) return usage(stdout, EXIT_HOLDS);
    if (optind == argc) return usage(stderr, EXIT_ERROR);
    qp_report_begin(&report);
    history h = {0};
    qpc_arena arena = {0};
    int unread = 0;
    for (int i = optind; i < argc; i++)
        unread += (!r.sequence && came_before(argv + optind, i - optind)) || check_file(argv[i], &r, &h, &arena, &report) != EXIT_HOLDS;
    bool holds = qp_report_end(&report, unread);
    forget(&h);
    qpc_arena_fini(&arena);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (!written) fprintf(stderr, "standard output: %s\n", strerror(errno));
    if (!holds) return EXIT_BROKEN; // worse than a file that does not read
    return unread > 0 || !written || report.checked == 0 ? EXIT_ERROR
                                  : EXIT_HOLDS; // nobody can read that every promise holds
}
