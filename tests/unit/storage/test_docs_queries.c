/// docs/storage.md holds to the code: every column of steps and every table is described, and its
/// queries give rows on a recorded run in the sqlite3 shell.
#include "tests/unit/storage/support.h"

#include "engine/engine.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *read_docs(void) {
    FILE *f = fopen(QPC_DOCS, "r");
    if (f == NULL) fail_msg("%s cannot be read", QPC_DOCS);
    static char text[200000];
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

static const qpc_run_column step_columns[] = {
#define COLUMN_I true
#define COLUMN_R false
#define COLUMN(type, name, unit, text) {#name, COLUMN_##type},
    QPC_STEP_FIELDS(COLUMN)
#undef COLUMN
};
enum { COLUMNS = sizeof step_columns / sizeof step_columns[0], NODES = 12, STEPS = 200 };

/// One row of a plausible run: a few hard steps, one number that is not finite.
static qpc_step_report report_of(int64_t step) {
    qpc_step_report r = {
        .step = step, .time = 0.005 * (double)step, .hash = step * 77777, .engine = 1};
    r.contacts = step % 9;
    r.rows = r.contacts + 2;
    r.active = r.contacts / 2;
    r.passes = step % 4;
    r.newton = step % 3;
    r.halvings = step == 90;
    r.outcome = step == 60 ? QPC_STEP_FAILSAFE : step == 61 ? QPC_STEP_RELAXED : QPC_STEP_OPTIMAL;
    r.failsafe = step == 60;
    r.failsafe_scale = step == 60 ? 0.4 : 1;
    r.natural_ratio = 1e-9 * (double)(step % 11 + 1);
    r.stat = step == 100 ? (double)NAN : 1e-12;
    r.min_gap = 1.5 - 0.002 * (double)step;
    r.kinetic = 10 + sin(0.1 * (double)step);
    r.potential = 5 - 0.01 * (double)step;
    r.elastic = 1;
    r.energy_drift = 1e-8 * (double)step;
    r.max_strain = 0.01;
    r.ns_detect = 100000 + 100 * step;
    r.ns_solve = 200000 + 300 * (step % 7);
    r.ns_total = 400000 + 1000 * (step % 13);
    r.ns_wall = r.ns_total + 5000;
    return r;
}

static void push(qpc_run_handle *run, qpc_record *record) {
    qpc_error err = {0};
    assert_ok(qpc_writer_push(run, record, true, &err), &err);
}

static void record_a_run(const char *folder, char path[400]) {
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    def.columns = step_columns;
    def.column_count = COLUMNS;
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    qpc_record *r = NULL;
    double x[3 * NODES];
    assert_ok(qpc_record_command(1, "world.control", "{\"parameters\":{\"dt\":0.005}}", &r, &err),
              &err);
    push(run, r);
    for (int64_t step = 1; step <= STEPS; step++) {
        sample_positions(step, NODES, x);
        if (step == 90) {
            assert_ok(qpc_record_frame(step, 0, 0.4475, 0, x, NODES, QPC_F32, &r, &err), &err);
            push(run, r);
        }
        assert_ok(qpc_record_frame(step, -1, 0.005 * (double)step, (uint64_t)step, x, NODES,
                                   QPC_F32, &r, &err),
                  &err);
        push(run, r);
        qpc_step_report report = report_of(step);
        assert_int_equal(sizeof report, 8 * COLUMNS); // the report is the row
        assert_ok(qpc_record_step(step, &report, COLUMNS, &r, &err), &err);
        push(run, r);
        uint8_t contacts[8 * 96] = {0};
        assert_ok(qpc_record_list(QPC_LIST_CONTACTS, step, contacts, (int32_t)(step % 9), 96, &r, &err), &err);
        push(run, r);
    }
    assert_ok(qpc_record_event(60, "fail-safe", "group of node 4 cut to 0.4", &r, &err), &err);
    push(run, r);
    assert_ok(qpc_writer_flush(run, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
}

/// Run sql in the shell; the number of lines it prints.
static int lines_of(const char *folder, const char *path, const char *sql, char *first,
                    size_t size) {
    char file[400], command[1000], line[2000];
    join_path(file, folder, "query.sql");
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(sql, f);
    fclose(f);
    snprintf(command, sizeof command, "sqlite3 -batch -bail -readonly '%s' < '%s' 2>&1", path,
             file);
    f = popen(command, "r");
    assert_non_null(f);
    int count = 0;
    first[0] = '\0';
    while (fgets(line, sizeof line, f) != NULL) {
        if (count == 0) qpc_store_copy_text(first, size, line);
        count++;
    }
    int code = pclose(f);
    if (code != 0) fail_msg("%s\n%s", sql, first);
    return count;
}

static void every_query_gives_rows(void **state) {
    (void)state;
    char folder[200], path[400], sql[4000], first[200];
    make_folder(folder);
    record_a_run(folder, path);
    const char *at = read_docs();
    int blocks = 0;
    while ((at = strstr(at, "\n```sql\n")) != NULL) {
        at += strlen("\n```sql\n");
        const char *end = strstr(at, "\n```");
        assert_non_null(end);
        assert_true(end - at < (long)sizeof sql);
        snprintf(sql, sizeof sql, "%.*s\n", (int)(end - at), at);
        if (lines_of(folder, path, sql, first, sizeof first) < 1) fail_msg("no rows from\n%s", sql);
        if (first[strspn(first, "|\n")] == '\0') fail_msg("a row of NULLs from\n%s", sql);
        at = end;
        blocks++;
    }
    if (blocks < 10) fail_msg("%d queries in %s", blocks, QPC_DOCS);
    remove_folder(folder);
}

static void every_column_of_steps_is_described(void **state) {
    (void)state;
    const char *docs = read_docs();
    static const struct {
        const char *name, *unit, *text;
    } fields[] = {
#define FIELD(type, name, unit, text) {#name, unit, text},
        QPC_STEP_FIELDS(FIELD)
#undef FIELD
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char row[400];
        size_t n = (size_t)snprintf(row, sizeof row, "| `%s` | %s | %s | ", fields[i].name,
                                    step_columns[i].integer ? "INTEGER" : "REAL", fields[i].unit);
        for (const char *p = fields[i].text; *p != '\0' && n + 2 < sizeof row; p++) {
            if (*p == '|') row[n++] = '\\'; // a bar inside a table of Markdown
            row[n++] = *p;
        }
        row[n] = '\0';
        if (strstr(docs, row) == NULL) fail_msg("%s lacks the row\n%s |", QPC_DOCS, row);
    }
}

static void every_table_and_column_is_described(void **state) {
    (void)state;
    char folder[200], path[400], catalog[400];
    make_folder(folder);
    record_a_run(folder, path);
    join_path(catalog, folder, "catalog.db");
    const char *docs = read_docs();
    const char *const files[] = {path, catalog};
    for (int i = 0; i < 2; i++) {
        sqlite3 *db = NULL;
        sqlite3_stmt *s = NULL;
        assert_int_equal(sqlite3_open_v2(files[i], &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
        assert_int_equal(
            sqlite3_prepare_v2(
                db,
                "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c "
                "WHERE m.type = 'table'",
                -1, &s, NULL),
            SQLITE_OK);
        int columns = 0;
        while (sqlite3_step(s) == SQLITE_ROW) {
            char heading[100], cell[100];
            const char *table = (const char *)sqlite3_column_text(s, 0);
            // Run files come first in the page, the catalogue after.
            snprintf(heading, sizeof heading, "\n### `%s` (%s)", table,
                     i == 0 ? "run file" : "catalogue");
            snprintf(cell, sizeof cell, "\n| `%s` |", (const char *)sqlite3_column_text(s, 1));
            const char *section = strstr(docs, heading);
            if (section == NULL) {
                fail_msg("%s has no section%s", QPC_DOCS, heading);
                continue;
            }
            const char *end = strstr(section + 5, "\n### ");
            const char *found = strstr(section, cell);
            if (found == NULL || (end != NULL && found > end))
                fail_msg("%s: section%s lacks%s", QPC_DOCS, heading, cell);
            columns++;
        }
        sqlite3_finalize(s);
        sqlite3_close(db);
        assert_true(columns > 15);
    }
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_query_gives_rows),
        cmocka_unit_test(every_column_of_steps_is_described),
        cmocka_unit_test(every_table_and_column_is_described),
    };
    return cmocka_run_group_tests_name("storage/docs_queries", tests, NULL, NULL);
}
