/// `qpc runs`, `qpc show`, `qpc diagnostics`: recorded runs and their figures.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "client/cli/cli.h"

// ---- look-ups ----

static qpc_status list_runs(cli *c, qpc_message *ret, const qpc_value **ret_list, qpc_error *err) {
    qpc_status status = qpc_client_run_list(c->client, ret, err);
    if (status == QPC_OK) *ret_list = cli_at(ret->value, "runs");
    return status;
}

/// The run's file is that one.
static bool is_at(const qpc_value *run, const char *path) {
    char of_run[PATH_MAX], real[2][PATH_MAX];
    cli_text(run, "path", of_run, sizeof of_run);
    return realpath(path, real[0]) != NULL && realpath(of_run, real[1]) != NULL && strcmp(real[0], real[1]) == 0;
}

cli_exit cli_find_run(cli *c, const char *text, char ret_id[33], qpc_value *ret_entry) {
    qpc_message m = {0};
    const qpc_value *runs = NULL, *found = NULL;
    qpc_error err = {0};
    if (list_runs(c, &m, &runs, &err) != QPC_OK) return cli_fail_call(c, &err);
    bool last = strcmp(text, "last") == 0;
    double newest = -1;
    int matches = 0;
    for (int32_t i = 0; runs->kind == QPC_LIST && i < runs->list.count; i++) {
        const qpc_value *run = &runs->list.items[i];
        char id[33];
        cli_text(run, "run", id, sizeof id);
        if (last) {
            double created = cli_real(run, "created", 0);
            if (created < newest) continue;
            newest = created;
            found = run;
            matches = 1;
        } else if (strncmp(id, text, strlen(text)) == 0 || is_at(run, text)) {
            found = run;
            matches++;
        }
    }
    cli_exit code = CLI_OK;
    if (matches != 1) {
        qpc_fail(&err, matches == 0 ? QPC_ERR_NOT_FOUND : QPC_ERR_INVALID,
                 matches > 0                ? "several runs begin with \"%s\""
                 : strchr(text, '/') != NULL ? "no run of this server is in the file \"%s\" (qpc runs lists them; --data names another folder)"
                                            : "no run \"%s\" (qpc runs lists them)",
                 text);
        code = cli_fail(c, CLI_SERVER_ERROR, &err, NULL);
    } else {
        cli_text(found, "run", ret_id, 33);
        if (qpc_value_copy(found, ret_entry) != QPC_OK) code = cli_no_memory(c);
    }
    qpc_message_fini(&m);
    return code;
}

/// All steps of a run, page by page. visit gets the columns of a page and its number of rows.
static qpc_status read_columns(cli *c, const char *run, int64_t from, int64_t to,
                               const char *const *fields,
                               qpc_status (*visit)(void *user, const qpc_value *columns,
                                                   int64_t rows, qpc_error *err),
                               void *user, qpc_error *err) {
    for (;;) {
        qpc_message m = {0};
        qpc_status status =
            qpc_client_run_diagnostics(c->client, run, from, to, 10000, fields, &m, err);
        if (status != QPC_OK) return status;
        const qpc_value *columns = cli_at(m.value, "columns");
        int64_t rows = 0;
        if (columns->kind == QPC_MAP && columns->map.count > 0 &&
            columns->map.pairs[0].value.kind == QPC_TENSOR)
            rows = columns->map.pairs[0].value.tensor.shape[0];
        if (rows > 0) status = visit(user, columns, rows, err);
        int64_t next = cli_int(m.value, "next", -1);
        qpc_message_fini(&m);
        if (status != QPC_OK || next <= from) return status;
        from = next;
    }
}

// ---- figures ----

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void cli_quantiles(double *values, int64_t n, double *ret_median, double *ret_p99) {
    *ret_median = *ret_p99 = NAN;
    if (n < 1) return;
    qsort(values, (size_t)n, sizeof *values, compare);
    *ret_median = n % 2 != 0 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
    int64_t at = (int64_t)ceil(0.99 * (double)n) - 1; // nearest rank
    *ret_p99 = values[at < 0 ? 0 : at];
}

/// A growing table of doubles, column by column.
typedef struct table {
    char (*names)[48];
    double **columns;
    int32_t column_count;
    int64_t rows, capacity;
} table;

static void table_fini(table *t) {
    for (int32_t i = 0; i < t->column_count; i++) qpc_free(t->columns[i]);
    qpc_free(t->columns);
    qpc_free(t->names);
    *t = (table){0};
}

static qpc_status table_add(void *user, const qpc_value *columns, int64_t rows, qpc_error *err) {
    table *t = user;
    if (t->columns == NULL) {
        t->columns = qpc_calloc((size_t)columns->map.count, sizeof *t->columns);
        t->names = qpc_calloc((size_t)columns->map.count, sizeof *t->names);
        if (t->columns == NULL || t->names == NULL)
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
        t->column_count = columns->map.count;
        for (int32_t i = 0; i < t->column_count; i++) {
            const qpc_value *key = &columns->map.pairs[i].key;
            snprintf(t->names[i], sizeof t->names[i], "%.*s", (int)key->str.size, key->str.bytes);
        }
    }
    if (t->rows + rows > t->capacity) {
        int64_t wanted = 2 * t->capacity > t->rows + rows ? 2 * t->capacity : t->rows + rows;
        for (int32_t i = 0; i < t->column_count; i++) {
            double *grown = qpc_realloc_array(t->columns[i], (size_t)wanted, sizeof *grown);
            if (grown == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
            t->columns[i] = grown;
        }
        t->capacity = wanted;
    }
    for (int32_t i = 0; i < t->column_count; i++) {
        const qpc_value *v = cli_at(columns, t->names[i]);
        for (int64_t k = 0; k < rows; k++)
            t->columns[i][t->rows + k] =
                v->kind == QPC_TENSOR ? cli_tensor_at(&v->tensor, k) : (double)NAN;
    }
    t->rows += rows;
    return QPC_OK;
}

/// NULL if there is no such column.
static double *table_column(const table *t, const char *name) {
    for (int32_t i = 0; i < t->column_count; i++)
        if (strcmp(t->names[i], name) == 0) return t->columns[i];
    return NULL;
}

qpc_status cli_read_times(cli *c, const char *run, cli_times *ret, qpc_error *err) {
    static const char *const fields[] = {"ns_total", "ns_wall", NULL};
    table t = {0};
    qpc_status status = read_columns(c, run, 0, -1, fields, table_add, &t, err);
    double *cpu = table_column(&t, "ns_total"), *wall = table_column(&t, "ns_wall");
    if (status == QPC_OK && cpu != NULL && wall != NULL) {
        for (int64_t i = 0; i < t.rows; i++) {
            cpu[i] *= 1e-6;
            wall[i] *= 1e-6;
        }
        cli_quantiles(cpu, t.rows, &ret->cpu_median, &ret->cpu_p99);
        cli_quantiles(wall, t.rows, &ret->wall_median, &ret->wall_p99);
        ret->steps = t.rows;
    }
    table_fini(&t);
    return status;
}

// ---- commands ----

/// Steps proven, not proven and unknown of a run by its description; all unknown if that does not say.
typedef struct proof {
    int64_t proven, not_proven, unknown;
} proof;

static proof proof_of(const qpc_value *facts) {
    return (proof){cli_int(facts, "steps_proven", 0), cli_int(facts, "steps_not_proven", 0),
                   cli_int(facts, "steps_unknown", cli_int(facts, "steps", 0))};
}

static qpc_status describe(cli *c, const char *run, qpc_message *ret, qpc_error *err) {
    qpc_value params = qpc_map();
    qpc_status status = QPC_ERR_MEMORY;
    if (cli_set(&params, "run", qpc_text_borrow(run))) {
        status = qpc_call(c->client, "run.describe", &params, ret, err);
    } else {
        qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    qpc_value_fini(&params);
    return status;
}

/// "all", "3 not", "unknown", "-" if the run cannot be read: for a column of a list.
static void proof_text(cli *c, const char *run, char *out, size_t size) {
    qpc_message facts = {0};
    qpc_error err = {0};
    snprintf(out, size, "-");
    if (describe(c, run, &facts, &err) == QPC_OK) {
        proof p = proof_of(facts.value);
        if (p.not_proven > 0)
            snprintf(out, size, "%lld NOT", (long long)p.not_proven);
        else if (p.unknown > 0)
            snprintf(out, size, "unknown");
        else if (p.proven > 0)
            snprintf(out, size, "all");
    }
    qpc_message_fini(&facts);
}

static void print_when(double created, char *out, size_t size) {
    time_t t = (time_t)created;
    struct tm parts;
    if (!(created > 0) || localtime_r(&t, &parts) == NULL ||
        strftime(out, size, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(out, size, "-");
}

cli_exit cli_runs(cli *c, int argc, char **argv) {
    const cli_option options[] = {
        CLI_DATA_OPTION(c), CLI_SERVER_OPTIONS(c), {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {"runs", "", "List the recorded runs.", 0, 0, NULL};
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, NULL, &count, &code)) return code;
    code = cli_connect(c, true);
    if (code != CLI_OK) return code;
    qpc_message m = {0};
    const qpc_value *runs = NULL;
    qpc_error err = {0};
    if (list_runs(c, &m, &runs, &err) != QPC_OK) return cli_fail_call(c, &err);
    if (c->json) {
        qpc_value copy;
        code =
            qpc_value_copy(m.value, &copy) == QPC_OK ? cli_print_json(c, &copy) : cli_no_memory(c);
    } else {
        printf("%-32s  %-9s  %10s  %-9s  %8s  %9s  %-19s  %s\n", "run", "state", "steps", "proven", "frames",
               "MB", "created", "name");
        for (int32_t i = 0; runs->kind == QPC_LIST && i < runs->list.count; i++) {
            const qpc_value *run = &runs->list.items[i];
            char id[40], name[80], state[16], when[32], proven[32];
            proof_text(c, cli_text(run, "run", id, sizeof id), proven, sizeof proven);
            print_when(cli_real(run, "created", 0), when, sizeof when);
            printf("%-32s  %-9s  %10lld  %-9s  %8lld  %9.2f  %-19s  %s\n",
                   cli_text(run, "run", id, sizeof id), cli_text(run, "state", state, sizeof state),
                   (long long)cli_int(run, "steps", 0), proven, (long long)cli_int(run, "frames", 0),
                   cli_real(run, "bytes", 0) / 1e6, when, cli_text(run, "name", name, sizeof name));
        }
    }
    qpc_message_fini(&m);
    return code;
}

/// Figures of a run that `qpc show` prints: the worst of a column over all steps.
static double extreme(const table *t, const char *name, bool smallest, double standard) {
    const double *v = table_column(t, name);
    double best = standard;
    for (int64_t i = 0; v != NULL && i < t->rows; i++)
        if (smallest ? v[i] < best : v[i] > best) best = v[i];
    return best;
}

static double largest_magnitude(const table *t, const char *name) {
    double low = extreme(t, name, true, 0), high = extreme(t, name, false, 0);
    return -low > high ? low : high;
}

static double total(const table *t, const char *name) {
    const double *v = table_column(t, name);
    double sum = 0;
    for (int64_t i = 0; v != NULL && i < t->rows; i++)
        if (isfinite(v[i])) sum += v[i];
    return sum;
}

/// Rows of a column above 0.
static double total_above(const table *t, const char *name) {
    const double *v = table_column(t, name);
    double count = 0;
    for (int64_t i = 0; v != NULL && i < t->rows; i++) count += v[i] > 0;
    return count;
}

static void print_show(const qpc_value *entry, const qpc_value *facts, const table *t,
                       const cli_times *times) {
    char text[4096];
    printf("run %s: %s\n", cli_text(entry, "run", text, 40),
           cli_text(entry, "name", text + 64, 128));
    printf("  state            %s, %lld steps, %lld frames, %.2f MB\n",
           cli_text(entry, "state", text, 32), (long long)cli_int(entry, "steps", 0),
           (long long)cli_int(entry, "frames", 0), cli_real(entry, "bytes", 0) / 1e6);
    print_when(cli_real(entry, "created", 0), text, sizeof text);
    printf("  created          %s\n", text);
    cli_print_bodies(cli_at(facts, "bodies"));
    proof p = proof_of(facts);
    cli_print_proof(p.proven, p.not_proven, p.unknown);
    if (t->rows > 0) {
        printf("  simulated        %g s\n", extreme(t, "time", false, 0));
        printf("  step             median %.3f ms, p99 %.3f ms (thread CPU); wall %.3f / %.3f\n",
               times->cpu_median, times->cpu_p99, times->wall_median, times->wall_p99);
        printf("  contacts         up to %g, active rows up to %g\n",
               extreme(t, "contacts", false, 0), extreme(t, "active", false, 0));
        printf("  passes           up to %g, Newton iterations up to %g\n",
               extreme(t, "passes", false, 0), extreme(t, "newton", false, 0));
        printf("  worst gap        %.4f of the thickness\n", extreme(t, "min_gap", true, 2));
        printf("  worst residuals  stat %.1e, prim %.1e, dual %.1e, comp %.1e, natural %.1e r/dt\n",
               extreme(t, "stat", false, 0), extreme(t, "prim", false, 0),
               extreme(t, "dual", false, 0), extreme(t, "comp", false, 0),
               extreme(t, "natural_ratio", false, 0));
        if (extreme(t, "friction_natural", false, 0) > 0)
            printf("  friction         residual %.1e m/s, missed in %g steps\n",
                   extreme(t, "friction_natural", false, 0), total(t, "friction_missed"));
        if (total(t, "exhausted") > 0)
            printf("  budget           used up in %g steps\n", total(t, "exhausted"));
        if (total_above(t, "conflicts") > 0)
            printf("  contradictions   in %g steps (qpc events, qpc forces say of what)\n", total_above(t, "conflicts"));
        printf("  fail-safe        %g, halvings %g\n", total(t, "failsafe"), total(t, "halvings"));
        const double *drift = table_column(t, "energy_drift");
        printf("  energy drift     %+.1e of the energy scale at most, %+.1e at the end\n",
               largest_magnitude(t, "energy_drift"),
               drift != NULL ? drift[t->rows - 1] : (double)NAN);
    }
    printf("  run file         %s\n", cli_text(entry, "path", text, sizeof text));
}

static cli_exit show_json(const cli *c, const qpc_value *entry, const qpc_value *facts,
                          const table *t, const cli_times *times) {
    static const struct {
        const char *key, *column;
        int how; // 0 largest, 1 smallest, 2 sum, 3 largest in magnitude
    } figures[] = {
        {"time", "time", 0},
        {"contacts_max", "contacts", 0},
        {"active_max", "active", 0},
        {"passes_max", "passes", 0},
        {"newton_max", "newton", 0},
        {"min_gap", "min_gap", 1},
        {"stat", "stat", 0},
        {"prim", "prim", 0},
        {"dual", "dual", 0},
        {"comp", "comp", 0},
        {"natural", "natural_ratio", 0},
        {"failsafe", "failsafe", 2},
        {"halvings", "halvings", 2},
        {"friction", "friction_natural", 0},
        {"friction_missed", "friction_missed", 2},
        {"exhausted", "exhausted", 2},
        {"energy_drift_max", "energy_drift", 3},
    };
    qpc_value root = qpc_map(), list = qpc_map(), facts_copy = qpc_nil();
    bool ok = qpc_value_copy(entry, &root) == QPC_OK;
    ok = qpc_value_copy(facts, &facts_copy) == QPC_OK && ok;
    for (size_t i = 0; t->rows > 0 && i < sizeof figures / sizeof *figures; i++) {
        const char *column = figures[i].column;
        double v = 0;
        switch (figures[i].how) {
        case 0:
            v = extreme(t, column, false, 0);
            break;
        case 1:
            v = extreme(t, column, true, 2);
            break;
        case 2:
            v = total(t, column);
            break;
        default:
            v = largest_magnitude(t, column);
            break;
        }
        ok = cli_set(&list, figures[i].key, qpc_real(v)) && ok;
    }
    ok = cli_set(&list, "cpu_median_ms", qpc_real(times->cpu_median)) && ok;
    ok = cli_set(&list, "cpu_p99_ms", qpc_real(times->cpu_p99)) && ok;
    ok = cli_set(&list, "wall_median_ms", qpc_real(times->wall_median)) && ok;
    ok = cli_set(&list, "wall_p99_ms", qpc_real(times->wall_p99)) && ok;
    ok = cli_set(&root, "figures", list) && ok;
    ok = cli_set(&root, "facts", facts_copy) && ok;
    if (ok) return cli_print_json(c, &root);
    qpc_value_fini(&root);
    return cli_no_memory(c);
}

cli_exit cli_show(cli *c, int argc, char **argv) {
    const cli_option options[] = {
        CLI_DATA_OPTION(c), CLI_SERVER_OPTIONS(c), {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {
        "show", "RUN", "What a recorded run is of, and its figures.",
        1,      1,     "RUN is an id, the beginning of one, the path of its file, or \"last\". Exit code 5: a step of it was not proven to be free of contact."};
    const char *text;
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, &text, &count, &code)) return code;
    code = cli_connect(c, true);
    if (code != CLI_OK) return code;
    char id[33];
    qpc_value entry = qpc_nil();
    code = cli_find_run(c, text, id, &entry);
    if (code != CLI_OK) return code;
    qpc_message facts = {0};
    qpc_error err = {0};
    table t = {0};
    cli_times times = {NAN, NAN, NAN, NAN, 0};
    qpc_status status = describe(c, id, &facts, &err);
    if (status == QPC_OK) status = read_columns(c, id, 0, -1, NULL, table_add, &t, &err);
    if (status == QPC_OK) status = cli_read_times(c, id, &times, &err);
    if (status != QPC_OK) {
        code = cli_fail_call(c, &err);
    } else if (c->json) {
        code = show_json(c, &entry, facts.value, &t, &times);
    } else {
        print_show(&entry, facts.value, &t, &times);
    }
    if (code == CLI_OK && proof_of(facts.value).not_proven > 0) code = CLI_RUN_FAILED;
    table_fini(&t);
    qpc_message_fini(&facts);
    qpc_value_fini(&entry);
    return code;
}

// ---- diagnostics ----

enum { FIELD_MAX = 128 };

/// Cut "a,b,c" into words, in place.
static int split_fields(char *text, const char **words) {
    int n = 0;
    for (char *word = strtok(text, ","); word != NULL && n < FIELD_MAX; word = strtok(NULL, ","))
        words[n++] = word;
    words[n] = NULL;
    return n;
}

static void print_csv_head(const qpc_value *columns) {
    for (int32_t i = 0; i < columns->map.count; i++)
        printf("%s%.*s", i > 0 ? "," : "", (int)columns->map.pairs[i].key.str.size,
               columns->map.pairs[i].key.str.bytes);
    putchar('\n');
}

static qpc_status print_csv(void *user, const qpc_value *columns, int64_t rows, qpc_error *err) {
    bool *started = user;
    if (!*started) print_csv_head(columns);
    *started = true;
    for (int64_t k = 0; k < rows; k++) {
        for (int32_t i = 0; i < columns->map.count; i++) {
            const qpc_value *v = &columns->map.pairs[i].value;
            if (i > 0) putchar(',');
            if (v->kind != QPC_TENSOR) continue;
            if (v->tensor.dtype == QPC_I64) {
                int64_t value;
                memcpy(&value, (const char *)v->tensor.data + 8 * (size_t)k, sizeof value);
                printf("%lld", (long long)value);
            } else {
                double value = cli_tensor_at(&v->tensor, k);
                if (isfinite(value)) printf("%.17g", value); // an empty field: not recorded
            }
        }
        putchar('\n');
    }
    if (ferror(stdout)) return qpc_fail(err, QPC_ERR_IO, "cannot write to standard output");
    return QPC_OK;
}

static cli_exit diagnostics_json(const cli *c, const table *t) {
    qpc_value root = qpc_map();
    bool ok = true;
    for (int32_t i = 0; i < t->column_count; i++) {
        qpc_value column = qpc_nil();
        ok = qpc_tensor_copy(QPC_F64, 1, &t->rows, t->columns[i], &column) == QPC_OK && ok;
        ok = cli_set(&root, t->names[i], column) && ok;
    }
    if (ok) return cli_print_json(c, &root);
    qpc_value_fini(&root);
    return cli_no_memory(c);
}

static void diagnostics_table(table *t) {
    printf("%lld steps\n%-18s %13s %13s %13s %13s %13s\n", (long long)t->rows, "field", "min",
           "median", "p99", "max", "mean");
    for (int32_t i = 0; i < t->column_count; i++) {
        double *v = t->columns[i], sum = 0, median, p99;
        int64_t n = 0;
        for (int64_t k = 0; k < t->rows; k++) {
            if (!isfinite(v[k])) continue;
            sum += v[k];
            v[n++] = v[k];
        }
        if (n == 0) continue;
        cli_quantiles(v, n, &median, &p99);
        printf("%-18s %13.6g %13.6g %13.6g %13.6g %13.6g\n", t->names[i], v[0], median, p99,
               v[n - 1], sum / (double)n);
    }
}

cli_exit cli_diagnostics(cli *c, int argc, char **argv) {
    bool csv = false;
    int64_t from = 0, to = -1;
    const char *field_text = NULL;
    const cli_option options[] = {
        {"csv", CLI_FLAG, &csv, NULL, "every step as a line of comma-separated values"},
        {"from", CLI_COUNT, &from, "STEP", "first step"},
        {"to", CLI_COUNT, &to, "STEP", "last step"},
        {"fields", CLI_TEXT, &field_text, "A,B,...", "only these (docs/storage.md lists them)"},
        CLI_DATA_OPTION(c),
        CLI_SERVER_OPTIONS(c),
        {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {
        "diagnostics",
        "RUN",
        "The figures of every step of a run, or a table of their spread.",
        1,
        1,
        "RUN is an id, the beginning of one, the path of its file, or \"last\"."};
    const char *text;
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, &text, &count, &code)) return code;
    char *words = field_text != NULL ? qpc_strdup(field_text) : NULL;
    const char *fields[FIELD_MAX + 1];
    if (words != NULL) split_fields(words, fields);
    code = cli_connect(c, true);
    char id[33];
    qpc_value entry = qpc_nil();
    if (code == CLI_OK) code = cli_find_run(c, text, id, &entry);
    qpc_value_fini(&entry);
    if (code != CLI_OK) {
        qpc_free(words);
        return code;
    }
    qpc_error err = {0};
    table t = {0};
    bool started = false;
    qpc_status status =
        read_columns(c, id, from, to, words != NULL ? fields : NULL, csv ? print_csv : table_add,
                     csv ? (void *)&started : &t, &err);
    if (status != QPC_OK) {
        code = cli_fail_call(c, &err);
    } else if (c->json && !csv) {
        code = diagnostics_json(c, &t);
    } else if (!csv) {
        diagnostics_table(&t);
    }
    table_fini(&t);
    qpc_free(words);
    return code;
}
