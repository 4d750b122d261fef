/// What goes into a run file comes out of it.
#include "tests/unit/storage/support.h"

#include "base/hash.h"
#include "base/mem.h"
#include "tests/support/faults.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct seen {
    int count;
    int64_t step[64];
    int32_t substep[64];
    double time[64], first[64];
    int stop_after;
} seen;

static bool see(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                const double *positions, int32_t nodes) {
    seen *s = user;
    (void)hash;
    assert_true(s->count < 64);
    s->step[s->count] = step;
    s->substep[s->count] = substep;
    s->time[s->count] = time;
    s->first[s->count] = nodes > 0 ? positions[0] : 0;
    s->count++;
    return s->count != s->stop_after;
}

static void frames_of_both_precisions_come_back(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_error err = {0};
    static const qpc_dtype types[] = {QPC_F32, QPC_F64};
    for (int i = 0; i < 2; i++) {
        qpc_run_def def = sample_run(i + 1, 33, types[i]);
        qpc_run_handle *run = open_run(writer, &def);
        for (int64_t step = 0; step <= 300; step++)
            assert_ok(push_frame(run, step, 33, types[i], true, &err), &err);
        assert_ok(qpc_writer_flush(run, &err), &err);
        run_path(path, folder, &def);
        assert_int_equal(check_frames(path, 0, &err), 301);
        qpc_writer_close_run(run);
    }
    qpc_writer_destroy(writer);
    for (int i = 0; i < 2; i++) {
        qpc_run_def def = sample_run(i + 1, 33, types[i]);
        run_path(path, folder, &def);
        assert_int_equal(check_frames(path, 0, &err), 301);
        assert_integrity(path);
        assert_int_equal(query_int(path, "SELECT count(*) FROM frames WHERE dtype <> "
                                         "(SELECT frame_dtype FROM run)"),
                         0);
    }
    remove_folder(folder);
}

static bool take_positions(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                           const double *positions, int32_t nodes) {
    (void)step, (void)substep, (void)time, (void)hash;
    memcpy(user, positions, sizeof(double) * 3 * (size_t)nodes);
    return true;
}

static void doubles_keep_every_bit_and_float32_rounds(void **state) {
    (void)state;
    static const double values[6] = {0.1, -0.0, 1e300, -1e-310, 3.0, (double)NAN};
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_error err = {0};
    for (int i = 0; i < 2; i++) {
        qpc_dtype type = i == 0 ? QPC_F64 : QPC_F32;
        qpc_run_def def = sample_run(i + 1, 2, type);
        qpc_run_handle *run = open_run(writer, &def);
        qpc_record *record = NULL;
        assert_ok(qpc_record_frame(1, -1, 0.1, 1, values, 2, type, &record, &err), &err);
        assert_ok(qpc_writer_push(run, record, true, &err), &err);
        assert_ok(qpc_writer_flush(run, &err), &err);
        run_path(path, folder, &def);
        qpc_reader *reader = NULL;
        assert_ok(qpc_reader_open(path, &reader, &err), &err);
        double out[6] = {0};
        assert_ok(qpc_reader_frames(reader, 1, 1, 1, false, take_positions, out, &err), &err);
        double want[6];
        for (int k = 0; k < 6; k++) want[k] = i == 0 ? values[k] : (double)(float)values[k];
        assert_memory_equal(out, want, sizeof want); // 1e300 is inf in float32, -0 stays -0
        qpc_reader_close(reader);
        qpc_writer_close_run(run);
    }
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void substeps_come_before_the_end_of_their_step(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 1, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 4; step++) {
        for (int32_t sub = -1; sub < 3; sub++) { // the end first: order in the file does not matter
            double x[3] = {(double)step + 0.1 * sub, 0, 0};
            qpc_record *record = NULL;
            assert_ok(qpc_record_frame(step, sub < 0 ? -7 : sub, (double)step, 0, x, 1, QPC_F64,
                                       &record, &err),
                      &err);
            assert_ok(qpc_writer_push(run, record, true, &err), &err);
        }
    }
    assert_ok(qpc_writer_flush(run, &err), &err);
    run_path(path, folder, &def);
    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    seen s = {0};
    assert_ok(qpc_reader_frames(reader, 2, 3, 100, true, see, &s, &err), &err);
    static const int32_t order[] = {0, 1, 2, -1};
    assert_int_equal(s.count, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(s.step[i], 2 + i / 4);
        assert_int_equal(s.substep[i], order[i % 4]);
        assert_near(s.first[i], (double)s.step[i] + 0.1 * order[i % 4], 0);
    }
    s = (seen){0};
    assert_ok(qpc_reader_frames(reader, 0, 100, 3, false, see, &s, &err), &err);
    assert_int_equal(s.count, 3); // the limit
    assert_int_equal(s.substep[2], -1);
    s = (seen){.stop_after = 2};
    assert_ok(qpc_reader_frames(reader, 0, 100, 100, true, see, &s, &err), &err);
    assert_int_equal(s.count, 2); // visit said stop
    s = (seen){0};
    assert_ok(qpc_reader_frames(reader, 5, 100, 100, true, see, &s, &err), &err);
    assert_int_equal(s.count, 0);
    assert_int_equal(qpc_reader_facts(reader).frame_count, 4);
    qpc_reader_close(reader);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static bool find_non_finite(void *user, int64_t step, const char *kind, const char *subject,
                            const char *text) {
    int *found = user;
    if (strcmp(kind, "non-finite") == 0 && strcmp(subject, "steps.residual") == 0 &&
        ((step == 2 && strcmp(text, "nan") == 0) || (step == 3 && strcmp(text, "inf") == 0) ||
         (step == 4 && strcmp(text, "-inf") == 0)))
        ++*found;
    return true;
}

static void non_finite_numbers_are_kept_apart_from_missing_ones(void **state) { // case S07
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 4, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    const double values[] = {0.25, (double)NAN, (double)INFINITY, -(double)INFINITY, 0.75};
    for (int64_t step = 1; step <= 5; step++) {
        assert_ok(push_frame(run, step, 4, QPC_F32, true, &err), &err);
        assert_ok(push_step(run, step, values[step - 1], true, &err), &err);
    }
    qpc_record *record = NULL;
    double at[12] = {0};
    assert_ok(qpc_record_frame(6, -1, -(double)INFINITY, 18, at, 4, QPC_F32, &record, &err), &err);
    assert_ok(qpc_writer_push(run, record, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    run_path(path, folder, &def);
    assert_int_equal(query_int(path, "SELECT count(*) FROM steps WHERE residual IS NULL"), 3);
    assert_int_equal(query_int(path, "SELECT count(*) FROM frames"), 6);

    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    static const char *const columns[] = {"residual", "iterations", "step", "time"};
    union {
        int64_t i;
        double d;
    } * v;
    void *out = NULL;
    int64_t rows = 0;
    assert_ok(qpc_reader_steps(reader, 1, 9, 100, columns, 4, &out, &rows, &err), &err);
    v = out;
    assert_int_equal(rows, 5);
    assert_near(v[0].d, 0.25, 0);
    assert_true(isnan(v[4].d));
    assert_true(isinf(v[8].d) && v[8].d > 0);
    assert_true(isinf(v[12].d) && v[12].d < 0);
    assert_near(v[16].d, 0.75, 0);
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(v[4 * i + 1].i, (i + 1) % 7);
        assert_int_equal(v[4 * i + 2].i, i + 1);
        assert_near(v[4 * i + 3].d, 0.005 * (double)(i + 1), 0);
    }
    qpc_free(out);
    seen s = {0};
    assert_ok(qpc_reader_frames(reader, 5, 6, 9, false, see, &s, &err), &err);
    assert_true(isinf(s.time[1]) && s.time[1] < 0);
    int found = 0;
    assert_ok(qpc_reader_events(reader, 0, 100, find_non_finite, &found, &err), &err);
    assert_int_equal(found, 3);
    // Not measured, written by hand: NULL without an event.
    qpc_reader_close(reader);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "INSERT INTO steps(step) VALUES(77)", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    assert_ok(qpc_reader_steps(reader, 77, 77, 100, columns, 2, &out, &rows, &err), &err);
    v = out;
    assert_int_equal(rows, 1);
    assert_true(isnan(v[0].d));
    assert_int_equal(v[1].i, INT64_MIN);
    qpc_free(out);
    static const char *const unknown[] = {"time\" FROM steps; --"};
    assert_fails(qpc_reader_steps(reader, 0, 1, 1, unknown, 1, &out, &rows, &err), QPC_ERR_INVALID,
                 &err, "has no column");
    qpc_reader_close(reader);
    remove_folder(folder);
}

static void facts_bodies_meshes_and_columns_come_back(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(3, 7, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    run_path(path, folder, &def);
    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    qpc_run_facts f = qpc_reader_facts(reader);
    assert_string_equal(f.id, def.id);
    assert_string_equal(f.name, def.name);
    assert_string_equal(f.scene_json, def.scene_json);
    assert_string_equal(f.versions_json, def.versions_json);
    assert_string_equal(f.state, "recording");
    assert_true(f.world == def.world && f.scene_hash == def.scene_hash &&
                f.start_hash == def.start_hash);
    assert_near(f.dt, def.dt, 0);
    assert_int_equal(f.frame_dtype, QPC_F64);
    assert_int_equal(f.frame_nodes, 7);
    assert_int_equal(f.frame_count, 0);
    assert_ok(push_frame(run, 9, 7, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_ok(qpc_reader_refresh(reader, &err), &err);
    f = qpc_reader_facts(reader);
    assert_true(f.frame_count == 1 && f.first_step == 9 && f.last_step == 9);
    const qpc_run_body *bodies = NULL;
    int32_t count = 0;
    assert_ok(qpc_reader_bodies(reader, &bodies, &count), &err);
    assert_int_equal(count, 2);
    for (int32_t i = 0; i < 2; i++) {
        assert_string_equal(bodies[i].name, def.bodies[i].name);
        assert_string_equal(bodies[i].kind, def.bodies[i].kind);
        assert_int_equal(bodies[i].node_count, def.bodies[i].node_count);
        assert_int_equal(bodies[i].element_count, def.bodies[i].element_count);
        assert_near(bodies[i].radius, def.bodies[i].radius, 0);
    }
    assert_null(bodies[0].mesh_sha256);
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_ok(qpc_reader_mesh(reader, bodies[1].mesh_sha256, &bytes, &size, &err), &err);
    assert_int_equal(size, def.meshes[0].size);
    assert_memory_equal(bytes, def.meshes[0].bytes, size);
    qpc_free(bytes);
    uint8_t none[32] = {1};
    assert_fails(qpc_reader_mesh(reader, none, &bytes, &size, &err), QPC_ERR_NOT_FOUND, &err,
                 "01000000");
    const char *const *names = NULL;
    const bool *integer = NULL;
    assert_ok(qpc_reader_columns(reader, &names, &integer, &count), &err);
    assert_int_equal(count, SAMPLE_COLUMNS);
    for (int32_t i = 0; i < count; i++) {
        assert_string_equal(names[i], def.columns[i].name);
        assert_int_equal(integer[i], def.columns[i].integer);
    }
    qpc_reader_close(reader);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    assert_string_equal(qpc_reader_facts(reader).state, "closed");
    qpc_reader_close(reader);
    remove_folder(folder);
}

typedef struct texts {
    char all[1000];
} texts;
static bool collect(void *user, int64_t step, const char *kind, const char *subject,
                    const char *text) {
    texts *t = user;
    size_t n = strlen(t->all);
    snprintf(t->all + n, sizeof t->all - n, "%lld|%s|%s|%s\n", (long long)step, kind,
             subject != NULL ? subject : "-", text);
    return true;
}

static void contacts_commands_and_events_come_back(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(3, 7, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    uint8_t blob[96 * 5];
    for (size_t i = 0; i < sizeof blob; i++) blob[i] = (uint8_t)(i * 7);
    qpc_record *r = NULL;
    assert_ok(qpc_record_list(QPC_LIST_CONTACTS, 4, blob, 5, 96, &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    assert_ok(qpc_record_list(QPC_LIST_CONTACTS, 5, NULL, 0, 96, &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    for (int32_t i = 1; i < QPC_LIST_COUNT; i++) {
        assert_ok(qpc_record_list((qpc_run_list)i, 4, blob + i, i, 8, &r, &err), &err);
        assert_ok(qpc_writer_push(run, r, true, &err), &err);
    }
    assert_ok(qpc_record_command(4, "world.control", "{\"forces\":[]}", &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    assert_ok(qpc_record_command(2, "world.step", "{\"n\":\"\xc3\xa9\"}", &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    assert_ok(qpc_record_event(3, "fail-safe", "group 1 cut to 0.5", &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    run_path(path, folder, &def);
    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    void *out = NULL;
    int32_t count = -1;
    size_t size = 0;
    assert_ok(qpc_reader_list(reader, QPC_LIST_CONTACTS, 4, &out, &count, &size, &err), &err);
    assert_true(count == 5 && size == 96);
    assert_memory_equal(out, blob, sizeof blob);
    qpc_free(out);
    assert_ok(qpc_reader_list(reader, QPC_LIST_CONTACTS, 5, &out, &count, &size, &err), &err);
    assert_int_equal(count, 0);
    qpc_free(out);
    assert_fails(qpc_reader_list(reader, QPC_LIST_CONTACTS, 6, &out, &count, &size, &err), QPC_ERR_NOT_FOUND, &err,
                 "no contacts are stored for step 6");
    for (int32_t i = 1; i < QPC_LIST_COUNT; i++) { // each in a table of its own
        assert_ok(qpc_reader_list(reader, (qpc_run_list)i, 4, &out, &count, &size, &err), &err);
        assert_true(count == i && size == 8);
        assert_memory_equal(out, blob + i, 8 * (size_t)i);
        qpc_free(out);
    }
    texts t = {0};
    assert_ok(qpc_reader_commands(reader, 0, 100, collect, &t, &err), &err);
    assert_string_equal(t.all,
                        "2|world.step|-|{\"n\":\"\xc3\xa9\"}\n4|world.control|-|{\"forces\":[]}\n");
    t = (texts){0};
    assert_ok(qpc_reader_events(reader, 0, 100, collect, &t, &err), &err);
    assert_string_equal(t.all, "3|fail-safe||group 1 cut to 0.5\n");
    qpc_reader_close(reader);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void a_second_record_of_a_step_is_noted_not_fatal(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 3, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 3; step++) {
        assert_ok(push_frame(run, step, 3, QPC_F32, true, &err), &err);
        assert_ok(push_step(run, step, 1, true, &err), &err);
    }
    assert_ok(push_step(run, 2, 99, true, &err), &err);
    assert_ok(push_frame(run, 2, 3, QPC_F32, true, &err), &err);
    assert_ok(push_frame(run, 4, 3, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    run_path(path, folder, &def);
    assert_int_equal(check_frames(path, 1, &err), 4);
    assert_int_equal(query_int(path, "SELECT residual FROM steps WHERE step = 2"), 1);
    assert_int_equal(
        query_int(path, "SELECT count(*) FROM events WHERE kind = 'duplicate' AND step = 2"), 2);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void definitions_are_checked(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_error err = {0};
    qpc_run_handle *run = NULL;
    qpc_run_def good = sample_run(1, 3, QPC_F32), def = good;
    run_path(path, folder, &def);
    def.dt = (double)NAN;
    assert_fails(qpc_writer_open_run(writer, &def, &run, &err), QPC_ERR_INVALID, &err, "dt");
    def = good;
    def.frame_dtype = QPC_I32;
    assert_fails(qpc_writer_open_run(writer, &def, &run, &err), QPC_ERR_INVALID, &err, "float32");
    def = good;
    strcpy(def.id, "../../etc/passwd");
    assert_fails(qpc_writer_open_run(writer, &def, &run, &err), QPC_ERR_INVALID, &err, "32");
    static const char *const bad[] = {"", "a b", "1st", "x\"; DROP TABLE run; --", "Time"};
    for (size_t i = 0; i < 5; i++) {
        qpc_run_column columns[2] = {{"time", false}, {bad[i], true}};
        def = good;
        def.columns = columns;
        def.column_count = 2;
        assert_fails(qpc_writer_open_run(writer, &def, &run, &err), QPC_ERR_INVALID, &err,
                     "column 1");
    }
    assert_false(file_there(path));
    qpc_catalog_run *runs = NULL;
    int32_t count = -1;
    assert_ok(qpc_catalog_list_runs(writer, &runs, &count, &err), &err);
    assert_int_equal(count, 0); // nothing is listed that is not there
    qpc_free(runs);
    // Words of SQL are fine as names; no column at all too; step is added.
    static const qpc_run_column words[] = {{"select", false}, {"order", true}};
    def = good;
    def.columns = words;
    def.column_count = 2;
    run = open_run(writer, &def);
    assert_int_equal(query_int(path, "SELECT count(*) FROM pragma_table_info('steps')"), 3);
    assert_fails(qpc_writer_open_run(writer, &def, &run, &err), QPC_ERR_EXISTS, &err, "exists");
    qpc_writer_close_run(run);
    def = sample_run(2, 0, QPC_F32);
    def.columns = NULL;
    def.column_count = 0;
    run = open_run(writer, &def);
    qpc_record *r = NULL;
    assert_ok(qpc_record_step(1, NULL, 0, &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    assert_ok(qpc_record_frame(1, -1, 0.1, 3, NULL, 0, QPC_F32, &r, &err), &err);
    assert_ok(qpc_writer_push(run, r, true, &err), &err);
    // Records that do not fit their run are the caller's mistake.
    assert_fails(push_frame(run, 2, 3, QPC_F32, true, &err), QPC_ERR_INVALID, &err, "3 nodes");
    assert_fails(push_step(run, 2, 1, true, &err), QPC_ERR_INVALID, &err, "4 columns");
    assert_ok(qpc_writer_flush(run, &err), &err);
    run_path(path, folder, &def);
    seen s = {0};
    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    assert_ok(qpc_reader_frames(reader, 0, 9, 9, false, see, &s, &err), &err);
    assert_int_equal(s.count, 1);
    qpc_reader_close(reader);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void records_survive_failing_allocations(void **state) {
    (void)state;
    qpc_error err = {0};
    double x[3] = {1, 2, 3};
    qpc_record *r = NULL;
    QPC_FAULTS(f) {
        qpc_status status = qpc_record_frame(1, -1, 0, 0, x, 1, QPC_F32, &r, &err);
        if (qpc_faults_ended(&f, status)) {
            assert_true(qpc_record_size(r) >= 12);
            qpc_record_destroy(r);
        }
    }
    QPC_FAULTS(f) {
        qpc_status status = qpc_record_step(1, x, 3, &r, &err);
        if (qpc_faults_ended(&f, status)) qpc_record_destroy(r);
    }
    QPC_FAULTS(f) {
        qpc_status status = qpc_record_event(1, "a", "b", &r, &err);
        if (qpc_faults_ended(&f, status)) qpc_record_destroy(r);
    }
    assert_fails(qpc_record_frame(1, -1, 0, 0, x, 1, QPC_I32, &r, &err), QPC_ERR_INVALID, &err,
                 "dtype");
    assert_fails(qpc_record_frame(1, -1, 0, 0, x, -1, QPC_F32, &r, &err), QPC_ERR_INVALID, &err,
                 "-1");
    assert_fails(qpc_record_frame(1, -1, 0, 0, x, 50 * 1000 * 1000, QPC_F64, &r, &err),
                 QPC_ERR_LIMIT, &err, "fit a row");
    assert_fails(qpc_record_list(QPC_LIST_CONTACTS, 1, x, 1, 0, &r, &err), QPC_ERR_INVALID, &err, "0 bytes");
}

static void opening_a_run_survives_failing_allocations(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_error err = {0};
    qpc_run_def def = sample_run(1, 3, QPC_F32);
    run_path(path, folder, &def);
    // A run that opens ends on the writer thread, so leaks are looked at for failures only.
    for (uint64_t nth = 1;; nth++) {
        int64_t live = qpc_mem_live_blocks();
        qpc_run_handle *run = NULL;
        qpc_mem_fail_at(nth, false);
        qpc_status status = qpc_writer_open_run(writer, &def, &run, &err);
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        if (!failed) {
            assert_int_equal(status, QPC_OK);
            qpc_writer_close_run(run);
            break;
        }
        assert_int_equal(status, QPC_ERR_MEMORY);
        assert_int_equal(qpc_mem_live_blocks(), live);
        assert_false(file_there(path));
        assert_true(nth < 1000);
    }
    qpc_writer_destroy(writer);
    assert_true(file_there(path));
    QPC_FAULTS(f) {
        qpc_writer_options options = {.data_dir = folder};
        qpc_status status = qpc_writer_create(&options, &writer, &err);
        if (qpc_faults_ended(&f, status)) qpc_writer_destroy(writer);
    }
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_both_precisions_come_back),
        cmocka_unit_test(doubles_keep_every_bit_and_float32_rounds),
        cmocka_unit_test(substeps_come_before_the_end_of_their_step),
        cmocka_unit_test(non_finite_numbers_are_kept_apart_from_missing_ones),
        cmocka_unit_test(facts_bodies_meshes_and_columns_come_back),
        cmocka_unit_test(contacts_commands_and_events_come_back),
        cmocka_unit_test(a_second_record_of_a_step_is_noted_not_fatal),
        cmocka_unit_test(definitions_are_checked),
        cmocka_unit_test(records_survive_failing_allocations),
        cmocka_unit_test(opening_a_run_survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("storage/run_roundtrip", tests, NULL, NULL);
}
