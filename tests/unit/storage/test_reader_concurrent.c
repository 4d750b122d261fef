/// Readers beside a recording: snapshots that are held, foreign locks, copies and exports.
/// With the argument `slow` the long forms of cases S01 and S02.
#include "tests/unit/storage/support.h"

#include "base/mem.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAL_LIMIT = 16 * 1024 * 1024 };
static bool slow;

static int64_t wal_size(const char *path) {
    char name[420];
    snprintf(name, sizeof name, "%.400s-wal", path);
    int64_t size = file_size(name);
    return size < 0 ? 0 : size;
}

/// A connection that holds a read snapshot of path.
static sqlite3 *hold_snapshot(const char *path) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM frames", NULL, NULL, NULL),
                     SQLITE_OK);
    return db;
}

static void a_held_snapshot_only_delays_the_checkpoint(void **state) { // case S01
    (void)state;
    enum { NODES = 830 }; // 10 kB
    char folder[200], path[400];
    make_folder(folder);
    notices n;
    notices_init(&n);
    qpc_writer *writer = open_writer(folder, &n);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    int64_t step = 0;
    while (step < 100) assert_ok(push_frame(run, ++step, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);

    sqlite3 *reader = hold_snapshot(path);
    double start = now_s(), hold = slow ? 30.0 : 1.6;
    while (step < 2600 || now_s() - start < hold) {
        assert_ok(push_frame(run, ++step, NODES, QPC_F32, true, &err), &err);
        if (step > 2600) sleep_ms(5);
    }
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_int_equal(qpc_writer_get_stats(writer).frames, step);
    assert_true(wal_size(path) > WAL_LIMIT); // it had to grow
    assert_int_equal(notices_of(&n, "checkpoint_blocked"), 1);
    sqlite3_close(reader);

    int64_t end = step + 200;
    while (step < end) assert_ok(push_frame(run, ++step, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    double wait_end = now_s() + 2; // the checkpoint comes just after the commit
    while (wal_size(path) >= WAL_LIMIT && now_s() < wait_end) sleep_ms(5);
    assert_true(wal_size(path) < WAL_LIMIT);
    for (end = step + 2000; step < end;) {
        assert_ok(push_frame(run, ++step, NODES, QPC_F32, true, &err), &err);
        if (step % 50 == 0) assert_true(wal_size(path) < WAL_LIMIT);
    }
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(notices_of(&n, "checkpoint_blocked"), 1);
    assert_int_equal(check_frames(path, 1, &err), step);
    remove_folder(folder);
}

static void an_idle_run_shrinks_when_its_reader_ends(void **state) {
    (void)state;
    enum { NODES = 4000 };
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    sqlite3 *reader = hold_snapshot(path);
    for (int64_t step = 1; step <= 500; step++)
        assert_ok(push_frame(run, step, NODES, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_true(wal_size(path) > WAL_LIMIT);
    sqlite3_close(reader);
    double end = now_s() + 5; // no record comes any more
    while (wal_size(path) >= WAL_LIMIT && now_s() < end) sleep_ms(10);
    assert_true(wal_size(path) < WAL_LIMIT);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void a_pausing_run_reaches_the_main_file(void **state) {
    (void)state;
    enum { NODES = 500, STEPS = 40 };
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= STEPS; step++)
        assert_ok(push_frame(run, step, NODES, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    int64_t before = file_size(path);
    double end = now_s() + 10;
    while (file_size(path) == before && now_s() < end) sleep_ms(20);
    assert_true(file_size(path) > before);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void without_readers_the_wal_stays_small(void **state) { // case S01
    (void)state;
    enum { NODES = 830 };
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    int64_t largest = 0;
    for (int64_t step = 1; step <= (slow ? 20000 : 3000); step++) {
        assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
        if (step % 20 == 0 && wal_size(path) > largest) largest = wal_size(path);
    }
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    if (largest >= WAL_LIMIT) fail_msg("the -wal grew to %lld bytes", (long long)largest);
    remove_folder(folder);
}

static void a_foreign_lock_leaves_no_gap(void **state) { // case S02
    (void)state;
    enum { NODES = 100 };
    char folder[200], path[400];
    make_folder(folder);
    notices n;
    notices_init(&n);
    qpc_writer *writer = open_writer(folder, &n);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    sqlite3 *lock = NULL;
    assert_int_equal(sqlite3_open(path, &lock), SQLITE_OK);
    sqlite3_busy_timeout(lock, 5000);
    double start = now_s(), hold = slow ? 3.0 : 1.2, slowest = 0;
    bool held = false, released = false;
    int64_t step = 0;
    while (now_s() - start < hold + 0.5 + (slow ? 5.0 : 0.3)) {
        double now = now_s();
        if (!held && now - start > 0.3) {
            assert_int_equal(sqlite3_exec(lock, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
            held = true;
        }
        if (!released && now - start > 0.3 + hold) {
            assert_int_equal(sqlite3_exec(lock, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
            released = true;
        }
        double before = now_s();
        assert_ok(push_frame(run, ++step, NODES, QPC_F32, true, &err), &err);
        if (now_s() - before > slowest) slowest = now_s() - before;
        sleep_ms(10);
    }
    sqlite3_close(lock);
    assert_true(slowest < 0.5); // pushing never waited for the lock
    qpc_writer_stats s = qpc_writer_get_stats(writer);
    assert_true(s.queued_high_water > 50);
    assert_int_equal(s.dropped + s.errors, 0);
    assert_true(notices_of(&n, "run_busy") == 1 && notices_of(&n, "run_failed") == 0);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(check_frames(path, 1, &err), step);
    assert_int_equal(query_int(path, "SELECT count(*) FROM events"), 0);
    remove_folder(folder);
}

typedef struct reading {
    char path[400];
    atomic_bool stop;
    atomic_int rounds, failures;
} reading;

/// Reads everything again and again; counts must only grow.
static void *read_all(void *user) {
    reading *r = user;
    qpc_error err = {0};
    int64_t last = 0;
    while (!atomic_load(&r->stop)) {
        int64_t count = check_frames(r->path, 1, &err);
        if (count < last) {
            fprintf(stderr, "%lld frames after %lld: %s\n", (long long)count, (long long)last,
                    err.message);
            atomic_fetch_add(&r->failures, 1);
        }
        last = count;
        atomic_fetch_add(&r->rounds, 1);
    }
    return NULL;
}

/// Keeps one reader open and asks for the newest part.
static void *follow(void *user) {
    reading *r = user;
    qpc_error err = {0};
    qpc_reader *reader = NULL;
    if (qpc_reader_open(r->path, &reader, &err) != QPC_OK) {
        fprintf(stderr, "%s\n", err.message);
        atomic_fetch_add(&r->failures, 1);
        return NULL;
    }
    int64_t seen = 0;
    static const char *const columns[] = {"step", "residual"};
    while (!atomic_load(&r->stop)) {
        void *values = NULL;
        int64_t rows = 0;
        if (qpc_reader_refresh(reader, &err) != QPC_OK ||
            qpc_reader_steps(reader, seen + 1, INT64_MAX, 200, columns, 2, &values, &rows, &err) !=
                QPC_OK) {
            fprintf(stderr, "%s\n", err.message);
            atomic_fetch_add(&r->failures, 1);
            break;
        }
        for (int64_t i = 0; i < rows; i++) {
            int64_t step;
            memcpy(&step, (char *)values + 16 * i, 8);
            if (step != ++seen) atomic_fetch_add(&r->failures, 1);
        }
        qpc_free(values);
        if (rows == 0) sleep_ms(2);
    }
    qpc_reader_close(reader);
    return NULL;
}

static void readers_see_a_growing_prefix(void **state) {
    (void)state;
    enum { NODES = 100, STEPS = 4000 };
    char folder[200];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    static reading r;
    run_path(r.path, folder, &def);
    qpc_error err = {0};
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, read_all, &r), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, follow, &r), 0);
    for (int64_t step = 1; step <= STEPS; step++) {
        assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
        assert_ok(push_step(run, step, 0.5, true, &err), &err);
        if (step % 100 == 0) sleep_ms(10);
    }
    assert_ok(qpc_writer_flush(run, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer); // closes beside them
    sleep_ms(20);
    atomic_store(&r.stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&r.failures), 0);
    assert_true(atomic_load(&r.rounds) > 2);
    assert_int_equal(check_frames(r.path, 1, &err), STEPS);
    assert_integrity(r.path);
    remove_folder(folder);
}

static void assert_no_trace(const char *path) {
    static const char *const suffix[] = {"-wal", "-shm", "-journal"};
    char name[420];
    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%.400s%s", path, suffix[i]);
        if (file_there(name)) fail_msg("%s is left", name);
    }
}

static void copies_and_exports(void **state) { // case S08
    (void)state;
    enum { NODES = 100 };
    char folder[200], path[400], copy[400], out[400];
    make_folder(folder);
    join_path(copy, folder, "copy.qpc");
    join_path(out, folder, "out.qpc");
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    qpc_reader *reader = NULL;

    // At once: nothing but the -wal knows more than that the run was created.
    assert_ok(qpc_run_export(path, out, &err), &err);
    assert_int_equal(check_frames(out, 1, &err), 0);
    remove(out);
    for (int64_t step = 1; step <= 500; step++)
        assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);

    // Case 2: the export of a live run.
    assert_ok(qpc_run_export(path, out, &err), &err);
    assert_int_equal(check_frames(out, 1, &err), 500);
    assert_int_equal(query_int(out, "SELECT state = 'exported' FROM run"), 1);
    assert_integrity(out);
    assert_int_equal(wal_size(out), 0);
    assert_fails(qpc_run_export(path, out, &err), QPC_ERR_EXISTS, &err, out);
    assert_int_equal(check_frames(out, 1, &err), 500);
    char deeper[400];
    join_path(deeper, folder, "missing/out.qpc");
    assert_fails(qpc_run_export(path, deeper, &err), QPC_ERR_IO, &err, deeper);

    // Case 3: only the main file of a live run, taken at many moments: a prefix or refused.
    int64_t step = 500, refused = 0;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 97; i++)
            assert_ok(push_frame(run, ++step, NODES, QPC_F32, true, &err), &err);
        copy_file(path, copy);
        double start = now_s();
        int64_t count = check_frames(copy, 1, &err);
        assert_true(now_s() - start < 2);
        assert_no_trace(copy);
        if (count < 0) {
            assert_int_equal(err.status, QPC_ERR_CORRUPT);
            assert_non_null(strstr(err.message, copy));
            refused++;
        }
        remove(copy);
    }
    assert_true(refused > 0);
    // ... and the shell's VACUUM INTO, which is a whole copy.
    char sql[600];
    remove(copy);
    snprintf(sql, sizeof sql, "VACUUM INTO '%s'", copy);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_true(check_frames(copy, 1, &err) >= 500);
    remove(copy);

    // Case 1: closed in order, then only the main file.
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    copy_file(path, copy);
    assert_int_equal(check_frames(copy, 1, &err), step);
    assert_ok(qpc_reader_open(copy, &reader, &err), &err);
    assert_string_equal(qpc_reader_facts(reader).state, "closed");
    qpc_reader_close(reader);
    assert_no_trace(copy);
    remove(out);
    assert_ok(qpc_run_export(path, out, &err), &err);
    assert_int_equal(check_frames(out, 1, &err), step);
    assert_int_equal(query_int(out, "SELECT state = 'closed' FROM run"), 1);
    remove_folder(folder);
}

static void a_run_closed_under_a_reader_is_read_afterwards(void **state) {
    (void)state;
    enum { NODES = 10 };
    char folder[200], path[400], copy[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 100; step++)
        assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    sqlite3 *held = hold_snapshot(path); // so it cannot leave WAL mode
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(check_frames(path, 1, &err), 100);
    sqlite3_close(held);
    assert_int_equal(check_frames(path, 1, &err), 100);
    // Its header still says WAL. Alone and without a -wal it is whole, since its state says closed.
    writer = open_writer(folder, NULL);
    qpc_writer_destroy(writer);
    assert_int_equal(check_frames(path, 1, &err), 100);
    join_path(copy, folder, "copy.qpc");
    char wal[420];
    snprintf(wal, sizeof wal, "%s-wal", path);
    if (!file_there(wal)) {
        copy_file(path, copy);
        assert_int_equal(check_frames(copy, 1, &err), 100);
    }
    remove_folder(folder);
}

int main(int argc, char **argv) {
    slow = argc > 1 && strcmp(argv[1], "slow") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_snapshot_only_delays_the_checkpoint),
        cmocka_unit_test(a_pausing_run_reaches_the_main_file),
        cmocka_unit_test(without_readers_the_wal_stays_small),
        cmocka_unit_test(a_foreign_lock_leaves_no_gap),
        cmocka_unit_test(an_idle_run_shrinks_when_its_reader_ends),
        cmocka_unit_test(readers_see_a_growing_prefix),
        cmocka_unit_test(copies_and_exports),
        cmocka_unit_test(a_run_closed_under_a_reader_is_read_afterwards),
    };
    return cmocka_run_group_tests_name(
        slow ? "storage/reader_concurrent_slow" : "storage/reader_concurrent", tests, NULL, NULL);
}
