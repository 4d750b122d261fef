/// Opening files: ours, foreign ones, damaged ones, none.
#include "tests/unit/storage/support.h"

#include "base/mem.h"
#include "tests/support/faults.h"
#include "tests/unit/storage/faultvfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_alone(const char *path) {
    static const char *const suffix[] = {"-wal", "-shm", "-journal", ".new"};
    char name[420];
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%.400s%s", path, suffix[i]);
        if (file_there(name)) fail_msg("%s is left", name);
    }
}

/// name is refused by every way to open it, with these texts in the message, and stays as it is.
static void refused_unchanged(const char *name, const char *text1, const char *text2) {
    char folder[200], source[400], path[400], before[65], after[65];
    make_folder(folder);
    data_file(source, name);
    join_path(path, folder, "catalog.db");
    copy_file(source, path);
    sha256_of_file(path, before);
    qpc_error err = {0};
    sqlite3 *db = NULL;
    static const qpc_open_mode modes[] = {QPC_OPEN_CREATE, QPC_OPEN_WRITE, QPC_OPEN_READ,
                                          QPC_OPEN_IMMUTABLE};
    for (size_t i = 0; i < 4; i++) {
        assert_fails(qpc_store_open(path, modes[i], QPC_CATALOG_APPLICATION_ID, "CREATE TABLE t(x)",
                                    &db, &err),
                     QPC_ERR_CORRUPT, &err, text1);
        assert_non_null(strstr(err.message, text2));
        assert_non_null(strstr(err.message, path));
    }
    // As a catalogue of a server, and as a run for a reader.
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder};
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_CORRUPT, &err, text1);
    qpc_reader *reader = NULL;
    assert_fails(qpc_reader_open(path, &reader, &err), QPC_ERR_CORRUPT, &err, text1);
    assert_non_null(strstr(err.message, text2));
    char out[400];
    join_path(out, folder, "out.qpc");
    assert_fails(qpc_run_export(path, out, &err), QPC_ERR_CORRUPT, &err, text1);
    assert_false(file_there(out));
    sha256_of_file(path, after);
    assert_string_equal(before, after);
    assert_alone(path);
    remove_folder(folder);
}

static void a_text_file_is_not_a_database(void **state) { // case S05
    (void)state;
    refused_unchanged("S05-not-a-database.db", "not a database", "");
}

static void a_newer_schema_is_refused_with_both_versions(void **state) { // case S06
    (void)state;
    refused_unchanged("S06-newer-schema.db", "2147483647", "supported is ");
}

static void a_database_of_another_program_is_refused(void **state) { // case S09
    (void)state;
    refused_unchanged("S09-other-application.db", "not one of this program's", "application_id");
    char source[400];
    data_file(source, "S09-other-application.db");
    assert_int_equal(query_int(source,
                               "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND "
                               "name NOT IN ('invoices', 'frames')"),
                     0);
}

static void our_own_newer_schema_is_refused(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "a.db");
    qpc_error err = {0};
    sqlite3 *db = NULL;
    assert_ok(qpc_store_open(path, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID, "CREATE TABLE t(x)",
                             &db, &err),
              &err);
    assert_ok(qpc_store_exec(db, "PRAGMA user_version=7", &err), &err);
    qpc_store_close(db);
    assert_fails(qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &db, &err),
                 QPC_ERR_CORRUPT, &err, "schema version 7 found, 3 supported");
    assert_fails(qpc_store_open(path, QPC_OPEN_READ, QPC_CATALOG_APPLICATION_ID, NULL, &db, &err),
                 QPC_ERR_CORRUPT, &err, "\"QPCR\", wanted 0x51504343 \"QPCC\"");
    assert_alone(path);
    remove_folder(folder);
}

static void a_new_file_is_complete_and_ours(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "odd name?a=b#c%20.db"); // nothing of it is URI syntax
    qpc_error err = {0};
    sqlite3 *db = NULL;
    assert_fails(qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &db, &err),
                 QPC_ERR_NOT_FOUND, &err, "no such file");
    assert_ok(qpc_store_open(path, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID, "CREATE TABLE t(x)",
                             &db, &err),
              &err);
    assert_ok(qpc_store_exec(db, "INSERT INTO t VALUES(5)", &err), &err);
    qpc_store_close(db);
    assert_alone(path);
    assert_true(file_there(path));
    assert_int_equal(query_int(path, "PRAGMA application_id"), QPC_RUN_APPLICATION_ID);
    assert_int_equal(query_int(path, "PRAGMA user_version"), 3);
    assert_int_equal(query_int(path, "SELECT journal_mode = 'delete' FROM pragma_journal_mode"), 1);
    // Opened again, not made again.
    assert_ok(qpc_store_open(path, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID, "CREATE TABLE t(x)",
                             &db, &err),
              &err);
    int64_t x = 0;
    assert_ok(qpc_store_get_int(db, "SELECT x FROM t", &x, &err), &err);
    assert_int_equal(x, 5);
    qpc_store_close(db);
    assert_fails(
        qpc_store_create(path, QPC_RUN_APPLICATION_ID, "CREATE TABLE t(x)", NULL, NULL, &err),
        QPC_ERR_EXISTS, &err, "exists already");
    remove_folder(folder);
}

static void a_failed_creation_leaves_nothing(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "a.db");
    qpc_error err = {0};
    sqlite3 *db = NULL;
    assert_int_not_equal(qpc_store_open(path, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID,
                                        "CREATE TABLE t(x); CREATE NONSENSE", &db, &err),
                         QPC_OK);
    assert_false(file_there(path));
    assert_alone(path);
    // A disk that fills at any write, or fails any sync, of the creation.
    for (int kind = FAULT_WRITE; kind <= FAULT_OPEN; kind *= 2) {
        for (long nth = 1;; nth++) {
            faultvfs_arm(kind, nth, SQLITE_FULL, ENOSPC, true);
            qpc_status status = qpc_store_create(path, QPC_RUN_APPLICATION_ID, "CREATE TABLE t(x)",
                                                 NULL, NULL, &err);
            bool fired = faultvfs_fired();
            faultvfs_arm(0, 0, 0, 0, false);
            if (!fired) {
                assert_int_equal(status, QPC_OK);
                assert_int_equal(remove(path), 0);
                break;
            }
            assert_int_equal(status, kind == FAULT_WRITE ? QPC_ERR_FULL : QPC_ERR_IO);
            assert_non_null(strstr(err.message, path));
            assert_false(file_there(path));
            assert_alone(path);
            assert_true(nth < 1000);
        }
    }
    remove_folder(folder);
}

static void an_empty_file_is_filled_or_refused(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "a.db");
    int fd = open(path, O_CREAT | O_WRONLY, 0666);
    close(fd);
    qpc_error err = {0};
    sqlite3 *db = NULL;
    assert_fails(qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &db, &err),
                 QPC_ERR_CORRUPT, &err, "empty");
    assert_ok(qpc_store_open(path, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID, "CREATE TABLE t(x)",
                             &db, &err),
              &err);
    qpc_store_close(db);
    remove_folder(folder);
}

static void a_folder_is_no_database(void **state) {
    (void)state;
    char folder[200];
    make_folder(folder);
    qpc_error err = {0};
    sqlite3 *db = NULL;
    assert_fails(qpc_store_open(folder, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID, "", &db, &err),
                 QPC_ERR_IO, &err, folder);
    char below[400];
    join_path(below, folder, "missing/a.db");
    assert_fails(qpc_store_open(below, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID, "", &db, &err),
                 QPC_ERR_IO, &err, below);
    remove_folder(folder);
}

static void a_cut_off_run_file_is_refused(void **state) {
    (void)state;
    char folder[200], path[400], cut[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 50, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 100; step++)
        assert_ok(push_frame(run, step, 50, QPC_F32, true, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    run_path(path, folder, &def);
    join_path(cut, folder, "cut.qpc");
    int64_t size = file_size(path);
    for (int64_t keep = 1; keep < size; keep += size / 37) {
        copy_file(path, cut);
        assert_int_equal(truncate(cut, keep), 0);
        // Opening or reading must say so; nothing wrong may come back as good.
        if (check_frames(cut, 1, &err) >= 0)
            fail_msg("%lld of %lld bytes were read as a run", (long long)keep, (long long)size);
        assert_int_equal(err.status, QPC_ERR_CORRUPT);
        assert_non_null(strstr(err.message, cut));
    }
    remove_folder(folder);
}

static void altered_bytes_never_come_back_as_frames(void **state) {
    (void)state;
    char folder[200], path[400], bad[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 50, QPC_F64); // compresses, so that blobs have checksums
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 40; step++)
        assert_ok(push_frame(run, step, 50, QPC_F64, true, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    run_path(path, folder, &def);
    assert_int_equal(query_int(path, "SELECT count(*) FROM frames WHERE encoding = 'zstd-planes'"),
                     40);
    // One byte inside a blob, found by its content.
    join_path(bad, folder, "bad.qpc");
    copy_file(path, bad);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(bad, &db), SQLITE_OK);
    sqlite3_blob *blob = NULL;
    assert_int_equal(sqlite3_blob_open(db, "main", "frames", "data", 20, 1, &blob), SQLITE_OK);
    unsigned char byte;
    int at = sqlite3_blob_bytes(blob) / 2;
    sqlite3_blob_read(blob, &byte, 1, at);
    byte ^= 0x10;
    sqlite3_blob_write(blob, &byte, 1, at);
    sqlite3_blob_close(blob);
    sqlite3_close(db);
    assert_int_equal(check_frames(bad, 1, &err), -1);
    assert_int_equal(err.status, QPC_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "the frame of step 20"));
    remove_folder(folder);
}

/// In a child without root's rights over permissions; its exit code is the number of wrong answers.
static int unwritable_child(const char *folder, const char *path) {
    int wrong = 0;
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 100;
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder};
    if (qpc_writer_create(&options, &writer, &err) != QPC_ERR_IO) wrong++;
    if (strstr(err.message, folder) == NULL || strstr(err.message, "ermission denied") == NULL)
        wrong++;
    char below[400];
    join_path(below, folder, "new/data");
    options.data_dir = below;
    if (qpc_writer_create(&options, &writer, &err) != QPC_ERR_IO) wrong++;
    if (strstr(err.message, "cannot be made") == NULL ||
        strstr(err.message, "ermission denied") == NULL)
        wrong++;
    // A closed run is read all the same.
    if (check_frames(path, 1, &err) != 30) wrong++;
    sqlite3 *db = NULL;
    if (qpc_store_open(path, QPC_OPEN_WRITE, QPC_RUN_APPLICATION_ID, NULL, &db, &err) != QPC_ERR_IO)
        wrong++;
    return wrong;
}

static void a_read_only_folder_is_said_and_its_runs_are_read(void **state) {
    (void)state;
    char folder[200], path[400], runs[400], lock[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 5, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 30; step++)
        assert_ok(push_frame(run, step, 5, QPC_F32, true, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    run_path(path, folder, &def);
    join_path(runs, folder, "runs");
    join_path(lock, folder, "lock");
    assert_int_equal(
        chmod(path, 0444) | chmod(runs, 0555) | chmod(lock, 0444) | chmod(folder, 0555), 0);
    pid_t child = fork();
    if (child == 0) _exit(unwritable_child(folder, path));
    int code = 0;
    assert_int_equal(waitpid(child, &code, 0), child);
    chmod(folder, 0755);
    chmod(runs, 0755);
    remove_folder(folder);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
}

static void opening_survives_failing_allocations(void **state) {
    (void)state;
    char folder[200], path[400], run_file[400];
    make_folder(folder);
    join_path(path, folder, "a.db");
    qpc_error err = {0};
    sqlite3 *db = NULL;
    QPC_FAULTS(f) {
        qpc_status status = qpc_store_open(path, QPC_OPEN_CREATE, QPC_RUN_APPLICATION_ID,
                                           "CREATE TABLE t(x)", &db, &err);
        if (qpc_faults_ended(&f, status)) {
            qpc_store_close(db);
            remove(path);
        }
        assert_alone(path);
    }
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 5, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    assert_ok(push_step(run, 1, 0.5, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    run_path(run_file, folder, &def);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    QPC_FAULTS(f) {
        qpc_reader *reader = NULL;
        qpc_status status = qpc_reader_open(run_file, &reader, &err);
        if (qpc_faults_ended(&f, status)) qpc_reader_close(reader);
    }
    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(run_file, &reader, &err), &err);
    QPC_FAULTS(f) {
        static const char *const columns[] = {"time", "residual"};
        void *values = NULL;
        int64_t rows = 0;
        qpc_status status = qpc_reader_steps(reader, 0, 10, 10, columns, 2, &values, &rows, &err);
        if (qpc_faults_ended(&f, status)) qpc_free(values);
    }
    qpc_reader_close(reader);
    remove_folder(folder);
}

/// A test that failed may have left faults on.
static int without_faults(void **state) {
    (void)state;
    faultvfs_arm(0, 0, 0, 0, false);
    return 0;
}
#define test(name) cmocka_unit_test_setup(name, without_faults)

int main(void) {
    faultvfs_install();
    const struct CMUnitTest tests[] = {
        test(a_text_file_is_not_a_database),
        test(a_newer_schema_is_refused_with_both_versions),
        test(a_database_of_another_program_is_refused),
        test(our_own_newer_schema_is_refused),
        test(a_new_file_is_complete_and_ours),
        test(a_failed_creation_leaves_nothing),
        test(an_empty_file_is_filled_or_refused),
        test(a_folder_is_no_database),
        test(a_cut_off_run_file_is_refused),
        test(altered_bytes_never_come_back_as_frames),
        test(a_read_only_folder_is_said_and_its_runs_are_read),
        test(opening_survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("storage/store", tests, NULL, NULL);
}
