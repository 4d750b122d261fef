/// The writer: batches, bounds, policies, full and failing disks, the catalogue.
#include "tests/unit/storage/support.h"

#include "base/hash.h"
#include "base/mem.h"
#include "tests/unit/storage/faultvfs.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 20 };

/// A connection that holds the write lock of path, as another process would.
static sqlite3 *hold_lock(const char *path) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void release_lock(sqlite3 *db) {
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
}

static void batches_are_committed_by_age_and_by_count(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL); // batch_ms 10
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    assert_ok(push_frame(run, 1, NODES, QPC_F32, true, &err), &err);
    double end = now_s() + 5;
    while (qpc_writer_get_stats(writer).frames == 0 && now_s() < end) sleep_ms(2);
    assert_int_equal(check_frames(path, 1, &err), 1); // nobody flushed
    for (int64_t step = 2; step <= 3000; step++)
        assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    qpc_writer_stats s = qpc_writer_get_stats(writer);
    assert_int_equal(s.frames, 3000);
    assert_int_equal(s.records, 3000);
    assert_int_equal(s.queued, 0);
    assert_int_equal(s.queued_bytes, 0);
    assert_true(s.commits >= 3000 / 256 && s.commits <= 1500);
    assert_int_equal(s.open_runs, 1);
    assert_int_equal(s.dropped + s.errors, 0);
    assert_ok(qpc_writer_flush(run, &err), &err); // nothing to wait for
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(check_frames(path, 1, &err), 3000);
    remove_folder(folder);
}

static void a_full_queue_drops_and_states_the_gap(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .queue_records = 40, .batch_ms = 5};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    assert_ok(push_frame(run, 1, NODES, QPC_F32, false, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    sqlite3 *lock = hold_lock(path);
    int refused = 0;
    for (int64_t step = 2; step <= 101; step++) {
        qpc_status status = push_frame(run, step, NODES, QPC_F32, false, &err);
        if (status == QPC_OK) continue;
        assert_int_equal(status, QPC_ERR_BUSY);
        assert_non_null(strstr(err.message, "queue is full"));
        refused++;
    }
    assert_true(refused >= 60);
    assert_int_equal(qpc_run_handle_dropped(run), refused);
    qpc_writer_stats s = qpc_writer_get_stats(writer);
    assert_true(s.queued <= 40 && s.queued_high_water <= 40);
    release_lock(lock);
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_ok(push_frame(run, 102, NODES, QPC_F32, true, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(query_int(path, "SELECT count(*) FROM frames"), 102 - refused);
    assert_true(
        query_int(path,
                  "SELECT count(*) FROM events WHERE kind = 'gap' AND message LIKE "
                  "'% records of steps % to 101 were not recorded: the storage queue was full'") >=
        1);
    remove_folder(folder);
}

static void bytes_are_bounded_but_one_record_always_fits(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .queue_bytes = 3000, .batch_ms = 5};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def = sample_run(1, 100, QPC_F64); // 2400 bytes and a head
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    sqlite3 *lock = hold_lock(path);
    assert_ok(push_frame(run, 1, 100, QPC_F64, false, &err), &err);
    assert_int_equal(push_frame(run, 2, 100, QPC_F64, false, &err), QPC_ERR_BUSY);
    release_lock(lock);
    qpc_writer_close_run(run);
    def = sample_run(2, 1000, QPC_F64); // larger than the bound
    run = open_run(writer, &def);
    assert_ok(push_frame(run, 1, 1000, QPC_F64, true, &err), &err);
    assert_ok(push_frame(run, 2, 1000, QPC_F64, true, &err), &err); // waits for the first
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    run_path(path, folder, &def);
    assert_int_equal(check_frames(path, 1, &err), 2);
    remove_folder(folder);
}

typedef struct unlocker {
    sqlite3 *db;
    int ms;
} unlocker;
static void *unlock_later(void *user) {
    unlocker *u = user;
    sleep_ms(u->ms);
    release_lock(u->db);
    return NULL;
}

static void waiting_pushers_lose_nothing(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .queue_records = 30, .batch_ms = 5};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    unlocker u = {hold_lock(path), 300};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, unlock_later, &u), 0);
    double start = now_s();
    for (int64_t step = 1; step <= 200; step++)
        assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
    assert_true(now_s() - start > 0.2); // it did have to wait
    pthread_join(thread, NULL);
    assert_true(qpc_writer_get_stats(writer).queued_high_water <= 30);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(check_frames(path, 1, &err), 200);
    assert_int_equal(query_int(path, "SELECT count(*) FROM events"), 0);
    remove_folder(folder);
}

static void a_locked_run_does_not_hold_up_others(void **state) {
    (void)state;
    char folder[200], path1[400], path2[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .queue_records = 64, .batch_ms = 5};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def1 = sample_run(1, NODES, QPC_F32), def2 = sample_run(2, NODES, QPC_F32);
    qpc_run_handle *run1 = open_run(writer, &def1), *run2 = open_run(writer, &def2);
    run_path(path1, folder, &def1);
    run_path(path2, folder, &def2);
    sqlite3 *lock = hold_lock(path1);
    assert_ok(push_frame(run1, 1, NODES, QPC_F32, false, &err), &err);
    sleep_ms(40); // it has met the lock by now
    int64_t in = 1;
    for (int64_t step = 2; step <= 100; step++)
        if (push_frame(run1, step, NODES, QPC_F32, false, &err) == QPC_OK) in++;
    assert_true(in < 64); // half of the room is left to others
    for (int64_t step = 1; step <= 500; step++)
        assert_ok(push_frame(run2, step, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run2, &err), &err);
    assert_int_equal(check_frames(path2, 1, &err), 500);
    release_lock(lock);
    assert_ok(qpc_writer_flush(run1, &err), &err);
    assert_int_equal(check_frames(path1, 1, &err), in);
    qpc_writer_close_run(run1);
    qpc_writer_close_run(run2);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void a_lock_held_too_long_fails_the_run_until_it_goes(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    notices n;
    notices_init(&n);
    qpc_writer_options options = {.data_dir = folder,
                                  .batch_ms = 5,
                                  .retry_ms = 20,
                                  .busy_ms = 100,
                                  .notice = notices_take,
                                  .user = &n};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    sqlite3 *lock = hold_lock(path);
    assert_ok(push_frame(run, 1, NODES, QPC_F32, true, &err), &err);
    assert_fails(qpc_writer_flush(run, &err), QPC_ERR_BUSY, &err, "not being recorded");
    assert_int_equal(push_frame(run, 2, NODES, QPC_F32, true, &err), QPC_ERR_BUSY);
    assert_int_equal(qpc_writer_get_stats(writer).failed_runs, 1);
    release_lock(lock);
    assert_true(notices_wait(&n, "run_recovered", 1, 5000));
    assert_int_equal(notices_of(&n, "run_failed"), 1);
    assert_ok(push_frame(run, 3, NODES, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_int_equal(query_int(path, "SELECT group_concat(step, '') FROM frames"), 13);
    assert_int_equal(query_int(path,
                               "SELECT count(*) FROM events WHERE kind = 'gap' AND message LIKE "
                               "'1 records of steps 2 to 2 %'"),
                     1);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

// ---- full and failing disks ----

static int wrong_if(bool wrong, int line) {
    if (wrong) fprintf(stderr, "wrong in line %d\n", line);
    return wrong;
}

/// In a child: a limit on file size as `ulimit -f` sets it (case S03 b). Exit code: wrong answers.
static int file_limit_child(const char *folder, const char *path) {
    int wrong = 0;
    qpc_error err = {0};
    notices n;
    notices_init(&n);
    signal(SIGXFSZ, SIG_IGN);
    qpc_writer_options options = {
        .data_dir = folder, .batch_ms = 5, .retry_ms = 50, .notice = notices_take, .user = &n};
    qpc_writer *writer = NULL;
    qpc_run_handle *run = NULL;
    qpc_run_def def = sample_run(1, 200, QPC_F64);
    if (qpc_writer_create(&options, &writer, &err) != QPC_OK) return 101;
    if (qpc_writer_open_run(writer, &def, &run, &err) != QPC_OK) return 102;
    struct rlimit limit = {2 * 1024 * 1024, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    int64_t step = 1, good = 0;
    qpc_status status = QPC_OK;
    for (; step <= 4000 && status == QPC_OK; step++) {
        status = push_frame(run, step, 200, QPC_F64, true, &err);
        if (status == QPC_OK && step % 20 == 0) {
            status = qpc_writer_flush(run, &err);
            if (status == QPC_OK) good = step;
        }
    }
    wrong += wrong_if(status != QPC_ERR_FULL, __LINE__);
    wrong += wrong_if(strstr(err.message, path) == NULL, __LINE__);
    wrong += wrong_if(good < 50, __LINE__);
    wrong += wrong_if(!notices_wait(&n, "run_failed", 1, 1000), __LINE__);
    sleep_ms(200); // some tries in vain
    wrong += wrong_if(notices_of(&n, "run_failed") != 1, __LINE__);
    qpc_writer_stats stats = qpc_writer_get_stats(writer);
    wrong += wrong_if(stats.failed_runs != 1 || stats.errors < 2, __LINE__);
    wrong += wrong_if(push_frame(run, 5000, 200, QPC_F64, true, &err) != QPC_ERR_FULL, __LINE__);
    // Everything flushed is there and readable while the disk is full.
    qpc_reader *reader = NULL;
    if (qpc_reader_open(path, &reader, &err) != QPC_OK) {
        wrong += wrong_if(true, __LINE__);
    } else {
        wrong += wrong_if(qpc_reader_facts(reader).last_step < good, __LINE__);
        qpc_reader_close(reader);
    }
    // Space is back: recording goes on behind a gap.
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    wrong += wrong_if(!notices_wait(&n, "run_recovered", 1, 3000), __LINE__);
    wrong += wrong_if(push_frame(run, 9000, 200, QPC_F64, true, &err) != QPC_OK, __LINE__);
    wrong += wrong_if(qpc_writer_flush(run, &err) != QPC_OK, __LINE__);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    wrong +=
        wrong_if(query_int(path, "SELECT count(*) FROM events WHERE kind = 'gap'") < 1, __LINE__);
    wrong += wrong_if(query_int(path, "SELECT max(step) FROM frames") != 9000, __LINE__);
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM frames WHERE step <= %lld", (long long)good);
    wrong += wrong_if(query_int(path, sql) != good, __LINE__);
    return wrong;
}

static void a_file_size_limit_is_a_full_disk_that_recovers(void **state) { // case S03
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_run_def def = sample_run(1, 200, QPC_F64);
    run_path(path, folder, &def);
    pid_t child = fork();
    if (child == 0) _exit(file_limit_child(folder, path));
    int code = 0;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code)); // not SIGXFSZ
    assert_int_equal(WEXITSTATUS(code), 0);
    assert_integrity(path);
    remove_folder(folder);
}

static void a_full_file_system_recovers_when_it_grows(void **state) { // case S03 a
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    if (mount("qpc-test", folder, "tmpfs", 0, "size=4m") != 0) {
        remove_folder(folder);
        skip(); // needs root, or a container that may mount
    }
    notices n;
    notices_init(&n);
    qpc_writer *writer = open_writer(folder, &n);
    qpc_run_def def = sample_run(1, 200, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    qpc_status status = QPC_OK;
    int64_t step = 0, flushed = 0;
    while (status == QPC_OK && step < 5000) {
        status = push_frame(run, ++step, 200, QPC_F64, true, &err);
        if (status == QPC_OK && step % 10 == 0) status = qpc_writer_flush(run, &err);
        if (status == QPC_OK && step % 10 == 0) flushed = step;
    }
    assert_int_equal(status, QPC_ERR_FULL);
    assert_non_null(strstr(err.message, path));
    double start = now_s();
    while (now_s() - start < 0.3) // the world goes on, records are dropped
        assert_int_not_equal(push_frame(run, ++step, 200, QPC_F64, true, &err), QPC_OK);
    assert_int_equal(notices_of(&n, "run_failed"), 1);
    assert_true(flushed > 100);
    // A catalogue on the full disk answers too.
    uint64_t world = 0;
    status = qpc_catalog_next_world(writer, &world, &err);
    assert_true(status == QPC_OK || status == QPC_ERR_FULL);
    qpc_reader *reader = NULL;
    assert_ok(qpc_reader_open(path, &reader, &err), &err);
    assert_true(qpc_reader_facts(reader).last_step >= flushed);
    qpc_reader_close(reader);

    assert_int_equal(mount("qpc-test", folder, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    assert_true(notices_wait(&n, "run_recovered", 1, 3000));
    assert_ok(push_frame(run, ++step, 200, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_integrity(path);
    assert_int_equal(query_int(path, "SELECT max(step) FROM frames"), step);
    assert_int_equal(query_int(path,
                               "SELECT count(*) FROM events WHERE kind = 'gap' AND message LIKE "
                               "'%disk is full%'"),
                     1);
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM frames WHERE step <= %lld", (long long)flushed);
    assert_int_equal(query_int(path, sql), flushed);
    umount2(folder, MNT_DETACH);
    remove_folder(folder);
}

/// Record, with the nth operation of a kind failing on the way; see that nothing flushed is lost
/// and that recording recovers. False when n was beyond the last operation.
static bool survive_fault(int kind, long nth, int code, int system_error, bool sticky,
                          qpc_status wanted) {
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    notices n;
    notices_init(&n);
    qpc_writer *writer = NULL;
    qpc_writer_options options = {
        .data_dir = folder, .batch_ms = 2, .retry_ms = 10, .notice = notices_take, .user = &n};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def = sample_run(1, 400, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    for (int64_t step = 1; step <= 10; step++)
        assert_ok(push_frame(run, step, 400, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);

    faultvfs_arm(kind, nth, code, system_error, sticky);
    int64_t flushed = 10;
    bool refused = false;
    for (int64_t step = 11; step <= 60; step++) {
        qpc_status status = push_frame(run, step, 400, QPC_F64, true, &err);
        if (status == QPC_OK && step % 10 == 0) {
            status = qpc_writer_flush(run, &err);
            if (status == QPC_OK) flushed = refused ? flushed : step;
        }
        if (status == QPC_OK) continue;
        refused = true;
        if (status != wanted)
            fail_msg("fault %ld of kind %d: %s: %s", nth, kind, qpc_status_name(status),
                     err.message);
        assert_non_null(strstr(err.message, path));
    }
    bool fired = faultvfs_fired();
    faultvfs_arm(0, 0, 0, 0, false);
    if (refused && !notices_wait(&n, "run_recovered", 1, 5000))
        fail_msg("no recovery after fault %ld of kind %d", nth, kind);
    if (refused) assert_true(notices_of(&n, "run_failed") >= 1);
    assert_ok(push_frame(run, 100, 400, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    int64_t dropped = (int64_t)qpc_run_handle_dropped(run);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);

    assert_integrity(path);
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM frames WHERE step <= %lld", (long long)flushed);
    assert_int_equal(query_int(path, sql), flushed);
    assert_int_equal(query_int(path, "SELECT count(*) FROM frames"), 61 - dropped);
    if (dropped > 0)
        assert_true(query_int(path, "SELECT count(*) FROM events WHERE kind = 'gap'") >= 1);
    assert_int_equal(query_int(path, "SELECT state = 'closed' FROM run"), 1);
    remove_folder(folder);
    return fired;
}

static void any_failing_write_loses_nothing_flushed(void **state) {
    (void)state;
    // Around 150 writes happen; past the first batches they repeat, so steps grow.
    for (long nth = 1; survive_fault(FAULT_WRITE, nth, SQLITE_FULL, ENOSPC, false, QPC_ERR_FULL);
         nth += nth < 12 ? 1 : nth / 3)
        assert_true(nth < 5000);
    for (long nth = 1; survive_fault(FAULT_WRITE, nth, SQLITE_IOERR_WRITE, EIO, true, QPC_ERR_IO);
         nth += nth < 6 ? 1 : nth / 2)
        assert_true(nth < 5000);
    survive_fault(FAULT_WRITE, 3, SQLITE_IOERR_WRITE, EFBIG, true, QPC_ERR_FULL);
    survive_fault(FAULT_WRITE, 3, SQLITE_IOERR_WRITE, EDQUOT, true, QPC_ERR_FULL);
}

static void failing_checkpoints_lose_nothing(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    notices n;
    notices_init(&n);
    qpc_writer *writer = NULL;
    qpc_writer_options options = {
        .data_dir = folder, .batch_ms = 2, .retry_ms = 10, .notice = notices_take, .user = &n};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    qpc_run_def def = sample_run(1, 2000, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    faultvfs_arm(FAULT_SYNC, 1, 0, EIO, true); // a checkpoint syncs, a commit does not
    for (int64_t step = 1; step <= 300; step++)
        assert_ok(push_frame(run, step, 2000, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_true(notices_wait(&n, "checkpoint_failed", 1, 3000));
    assert_true(faultvfs_fired());
    assert_int_equal(notices_of(&n, "run_failed"), 0);
    faultvfs_arm(0, 0, 0, 0, false);
    for (int64_t step = 301; step <= 400; step++)
        assert_ok(push_frame(run, step, 2000, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    assert_int_equal(notices_of(&n, "checkpoint_failed"), 1);
    assert_int_equal(check_frames(path, 1, &err), 400);
    assert_integrity(path);
    remove_folder(folder);
}

static void a_run_that_ends_on_a_full_disk_keeps_what_was_flushed(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    notices n;
    notices_init(&n);
    qpc_writer *writer = open_writer(folder, &n);
    qpc_run_def def = sample_run(1, 100, QPC_F64);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    for (int64_t step = 1; step <= 50; step++)
        assert_ok(push_frame(run, step, 100, QPC_F64, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    faultvfs_arm(FAULT_WRITE, 1, SQLITE_FULL, ENOSPC, true);
    for (int64_t step = 51; step <= 60; step++) push_frame(run, step, 100, QPC_F64, true, &err);
    qpc_writer_close_run(run);
    double start = now_s();
    qpc_writer_destroy(writer); // does not hang
    assert_true(now_s() - start < 5);
    faultvfs_arm(0, 0, 0, 0, false);
    assert_int_equal(notices_of(&n, "close_failed"), 1);
    assert_int_equal(check_frames(path, 1, &err), 50);
    // The next start finds it and puts it in order.
    writer = open_writer(folder, &n);
    assert_int_equal(notices_of(&n, "run_crashed"), 1);
    qpc_catalog_run info;
    assert_ok(qpc_catalog_find_run(writer, def.id, &info, &err), &err);
    assert_string_equal(info.state, "crashed");
    assert_int_equal(info.frames, 50);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void a_run_that_cannot_be_made_leaves_nothing(void **state) {
    (void)state;
    char folder[200], path[400], left[420];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 100, QPC_F64);
    qpc_run_handle *run = NULL;
    run_path(path, folder, &def);
    static const char *const suffix[] = {"", "-wal", "-shm", "-journal", ".new"};
    for (int kind = FAULT_WRITE; kind <= FAULT_SHM; kind *= 2) {
        for (long nth = 1;; nth++) {
            faultvfs_arm(kind, nth, SQLITE_FULL, ENOSPC, false);
            qpc_status status = qpc_writer_open_run(writer, &def, &run, &err);
            bool fired = faultvfs_fired();
            faultvfs_arm(0, 0, 0, 0, false);
            if (status == QPC_OK) { // nothing failed, or nothing that mattered
                qpc_writer_close_run(run);
                qpc_writer_destroy(writer);
                assert_int_equal(query_int(path, "SELECT state = 'closed' FROM run"), 1);
                remove_folder(folder);
                make_folder(folder);
                run_path(path, folder, &def);
                writer = open_writer(folder, NULL);
            } else {
                assert_true(status == QPC_ERR_FULL || status == QPC_ERR_IO);
                for (size_t i = 0; i < 5; i++) {
                    snprintf(left, sizeof left, "%s%s", path, suffix[i]);
                    if (file_there(left))
                        fail_msg("%s is left after fault %ld of kind %d", left, nth, kind);
                }
                qpc_catalog_run info;
                assert_int_equal(qpc_catalog_find_run(writer, def.id, &info, &err),
                                 QPC_ERR_NOT_FOUND);
            }
            if (!fired) break;
            assert_true(nth < 500);
        }
    }
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

// ---- the data folder and the catalogue ----

static void two_servers_never_share_a_folder(void **state) {
    (void)state;
    char folder[200], deep[400];
    make_folder(folder);
    join_path(deep, folder, "a/b//c");
    qpc_error err = {0};
    qpc_writer *writer = open_writer(deep, NULL), *second = NULL;
    qpc_writer_options options = {.data_dir = deep};
    assert_fails(qpc_writer_create(&options, &second, &err), QPC_ERR_BUSY, &err, "another server");
    qpc_writer_destroy(writer);
    writer = open_writer(deep, NULL);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void bad_data_folders_are_named(void **state) {
    (void)state;
    char folder[200], file[400], below[400];
    make_folder(folder);
    join_path(file, folder, "file");
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = file};
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_IO, &err, file);
    join_path(below, folder, "file/data");
    options.data_dir = below;
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_IO, &err, below);
    options.data_dir = "";
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_INVALID, &err,
                 "no data folder");
    char longer[1000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    options.data_dir = longer;
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_LIMIT, &err, "longer than");
    options.data_dir = "/proc/nothing/here";
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_IO, &err, "/proc/nothing");
    remove_folder(folder);
}

static void a_damaged_catalogue_is_named(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "catalog.db");
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_writer_destroy(writer);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    for (long at = 100; at < (long)file_size(path); at++) {
        fseek(f, at, SEEK_SET);
        fputc(0xa5, f);
    }
    fclose(f);
    qpc_error err = {0};
    qpc_writer_options options = {.data_dir = folder};
    assert_fails(qpc_writer_create(&options, &writer, &err), QPC_ERR_CORRUPT, &err, path);
    remove_folder(folder);
}

static void world_ids_are_never_given_twice(void **state) {
    (void)state;
    char folder[200];
    make_folder(folder);
    qpc_error err = {0};
    uint64_t last = 0;
    for (int round = 0; round < 3; round++) {
        qpc_writer *writer = open_writer(folder, NULL);
        for (int i = 0; i < 5; i++) {
            uint64_t id = 0;
            assert_ok(qpc_catalog_next_world(writer, &id, &err), &err);
            assert_true(id == last + 1);
            last = id;
        }
        qpc_writer_destroy(writer);
    }
    remove_folder(folder);
}

static void meshes_are_kept_by_their_hash(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "catalog.db");
    qpc_error err = {0};
    qpc_writer *writer = open_writer(folder, NULL);
    enum { COUNT = 3 };
    uint8_t bytes[COUNT][5000];
    qpc_catalog_mesh info[COUNT];
    for (int i = 0; i < COUNT; i++) {
        memset(bytes[i], i, sizeof bytes[i]);
        info[i] = (qpc_catalog_mesh){.vertices = 100 + i, .elements = 7, .nodes_per_element = 3};
        snprintf(info[i].name, sizeof info[i].name, "mesh %d", i);
        assert_ok(qpc_sha256_of(bytes[i], sizeof bytes[i], info[i].sha256, &err), &err);
        assert_ok(qpc_catalog_put_mesh(writer, &info[i], bytes[i], sizeof bytes[i], &err), &err);
        assert_ok(qpc_catalog_put_mesh(writer, &info[i], bytes[i], sizeof bytes[i], &err), &err);
    }
    qpc_writer_destroy(writer);
    writer = open_writer(folder, NULL);
    qpc_catalog_mesh *list = NULL;
    int32_t count = 0;
    assert_ok(qpc_catalog_list_meshes(writer, &list, &count, &err), &err);
    assert_int_equal(count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(list[i].name, info[i].name);
        assert_int_equal(list[i].vertices, 100 + i);
        assert_int_equal(list[i].bytes, 5000);
        assert_true(list[i].created > 1.5e9);
        uint8_t *out = NULL;
        size_t size = 0;
        assert_ok(qpc_catalog_get_mesh(writer, list[i].sha256, &out, &size, &err), &err);
        assert_int_equal(size, 5000);
        assert_memory_equal(out, bytes[i], size);
        qpc_free(out);
    }
    qpc_free(list);
    assert_ok(qpc_catalog_delete_mesh(writer, info[1].sha256, &err), &err);
    uint8_t *out = NULL;
    size_t size = 0;
    assert_fails(qpc_catalog_delete_mesh(writer, info[1].sha256, &err), QPC_ERR_NOT_FOUND, &err,
                 "no mesh");
    assert_fails(qpc_catalog_get_mesh(writer, info[1].sha256, &out, &size, &err), QPC_ERR_NOT_FOUND,
                 &err, "no mesh");
    qpc_writer_destroy(writer);
    // Bytes that are not those of the hash are never given out.
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE meshes SET data = (SELECT data FROM meshes WHERE id = 3)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    writer = open_writer(folder, NULL);
    assert_fails(qpc_catalog_get_mesh(writer, info[0].sha256, &out, &size, &err), QPC_ERR_CORRUPT,
                 &err, "do not have its hash");
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void a_full_disk_refuses_meshes_and_worlds(void **state) {
    (void)state;
    char folder[200];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = open_writer(folder, NULL);
    uint8_t *bytes = malloc(100000);
    assert_non_null(bytes);
    for (int i = 0; i < 100000; i++) bytes[i] = (uint8_t)((unsigned)i * (unsigned)i >> 3);
    qpc_catalog_mesh info = {.vertices = 1, .elements = 1, .nodes_per_element = 3};
    assert_ok(qpc_sha256_of(bytes, 100000, info.sha256, &err), &err);
    faultvfs_arm(FAULT_WRITE, 1, SQLITE_FULL, ENOSPC, true);
    uint64_t id = 0;
    assert_fails(qpc_catalog_put_mesh(writer, &info, bytes, 100000, &err), QPC_ERR_FULL, &err,
                 "catalog.db");
    assert_fails(qpc_catalog_next_world(writer, &id, &err), QPC_ERR_FULL, &err, "catalog.db");
    faultvfs_arm(0, 0, 0, 0, false);
    assert_ok(qpc_catalog_put_mesh(writer, &info, bytes, 100000, &err), &err);
    assert_ok(qpc_catalog_next_world(writer, &id, &err), &err);
    free(bytes);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

static void runs_are_listed_with_their_counts(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, NODES, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    for (int64_t step = 1; step <= 20; step++) {
        if (step % 2 == 0) assert_ok(push_frame(run, step, NODES, QPC_F32, true, &err), &err);
        assert_ok(push_step(run, step, 0, true, &err), &err);
    }
    assert_ok(push_step(run, 21, 0, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    qpc_catalog_run info;
    assert_ok(qpc_catalog_find_run(writer, def.id, &info, &err), &err);
    assert_string_equal(info.state, "recording");
    assert_string_equal(info.path, path);
    assert_true(info.steps == 21 && info.frames == 10 && info.bytes > 0);
    assert_true(info.world == def.world && info.scene_hash == def.scene_hash);
    assert_fails(qpc_catalog_find_run(writer, "00000000000000000000000000000009", &info, &err),
                 QPC_ERR_NOT_FOUND, &err, "no run");
    qpc_writer_close_run(run);
    double end = now_s() + 5;
    do {
        sleep_ms(2);
        assert_ok(qpc_catalog_find_run(writer, def.id, &info, &err), &err);
    } while (strcmp(info.state, "closed") != 0 && now_s() < end);
    assert_string_equal(info.state, "closed");
    assert_true(info.steps == 21 && info.frames == 10);
    assert_int_equal(info.bytes, file_size(path));
    qpc_writer_destroy(writer);
    char left[420];
    snprintf(left, sizeof left, "%s-wal", path);
    assert_false(file_there(left));
    remove_folder(folder);
}

typedef struct pusher {
    qpc_run_handle *run;
    int64_t steps;
    atomic_int *failures;
} pusher;
static void *push_many(void *user) {
    pusher *p = user;
    qpc_error err = {0};
    for (int64_t step = 1; step <= p->steps; step++) {
        if (push_frame(p->run, step, NODES, QPC_F32, true, &err) != QPC_OK)
            atomic_fetch_add(p->failures, 1);
        if (step % 100 == 0 && qpc_writer_flush(p->run, &err) != QPC_OK)
            atomic_fetch_add(p->failures, 1);
    }
    return NULL;
}

static void many_runs_record_at_once(void **state) {
    (void)state;
    enum { RUNS = 12, THREADS = 4, STEPS = 300 };
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .queue_records = 100, .batch_ms = 3};
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    pusher p[RUNS];
    atomic_int failures = 0;
    for (int i = 0; i < RUNS; i++) {
        qpc_run_def def = sample_run(i + 1, NODES, QPC_F32);
        p[i] = (pusher){open_run(writer, &def), STEPS, &failures};
    }
    for (int at = 0; at < RUNS; at += THREADS) {
        pthread_t thread[THREADS];
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, push_many, &p[at + i]), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    }
    assert_int_equal(atomic_load(&failures), 0);
    for (int i = 0; i < RUNS; i += 2) qpc_writer_close_run(p[i].run);
    qpc_writer_destroy(writer); // closes the others
    for (int i = 0; i < RUNS; i++) {
        qpc_run_def def = sample_run(i + 1, NODES, QPC_F32);
        run_path(path, folder, &def);
        assert_int_equal(check_frames(path, 1, &err), STEPS);
        assert_int_equal(query_int(path, "SELECT state = 'closed' FROM run"), 1);
    }
    remove_folder(folder);
}

/// On a disk that takes 10 ms for each wait, what is waited for is counted: one file after another
/// would take all of it.
static void runs_that_end_together_wait_for_the_disk_together(void **state) {
    (void)state;
    enum { RUNS = 32, SYNC_MS = 10 };
    char folder[200], path[400];
    make_folder(folder);
    qpc_error err = {0};
    notices n;
    notices_init(&n);
    qpc_writer *writer = open_writer(folder, &n);
    for (int i = 0; i < RUNS; i++) {
        qpc_run_def def = sample_run(i + 1, NODES, QPC_F32);
        qpc_run_handle *run = open_run(writer, &def);
        assert_ok(push_frame(run, 1, NODES, QPC_F32, true, &err), &err);
        assert_ok(qpc_writer_flush(run, &err), &err);
    }
    faultvfs_slow_sync(SYNC_MS);
    double from = now_s();
    qpc_writer_destroy(writer);
    double took = now_s() - from;
    long syncs = faultvfs_syncs();
    faultvfs_slow_sync(0);
    assert_true(syncs >= 3 * RUNS); // each is closed as durably as one alone
    assert_true(took < 0.5 * 1e-3 * SYNC_MS * (double)syncs);
    for (int i = 0; i < RUNS; i++) {
        qpc_run_def def = sample_run(i + 1, NODES, QPC_F32);
        run_path(path, folder, &def);
        assert_int_equal(check_frames(path, 1, &err), 1);
        assert_int_equal(query_int(path, "SELECT state = 'closed' FROM run"), 1);
    }
    join_path(path, folder, "catalog.db");
    assert_int_equal(query_int(path, "SELECT count(*) FROM runs WHERE state = 'closed'"), RUNS);
    assert_int_equal(n.count, 0);
    remove_folder(folder);
}

/// A test that failed may have left faults on.
static int without_faults(void **state) {
    (void)state;
    faultvfs_arm(0, 0, 0, 0, false);
    faultvfs_slow_sync(0);
    return 0;
}
#define test(name) cmocka_unit_test_setup(name, without_faults)

int main(void) {
    faultvfs_install();
    const struct CMUnitTest tests[] = {
        test(a_file_size_limit_is_a_full_disk_that_recovers), // forks: before any thread
        test(batches_are_committed_by_age_and_by_count),
        test(a_full_queue_drops_and_states_the_gap),
        test(bytes_are_bounded_but_one_record_always_fits),
        test(waiting_pushers_lose_nothing),
        test(a_locked_run_does_not_hold_up_others),
        test(a_lock_held_too_long_fails_the_run_until_it_goes),
        test(a_full_file_system_recovers_when_it_grows),
        test(any_failing_write_loses_nothing_flushed),
        test(failing_checkpoints_lose_nothing),
        test(a_run_that_ends_on_a_full_disk_keeps_what_was_flushed),
        test(a_run_that_cannot_be_made_leaves_nothing),
        test(two_servers_never_share_a_folder),
        test(bad_data_folders_are_named),
        test(a_damaged_catalogue_is_named),
        test(world_ids_are_never_given_twice),
        test(meshes_are_kept_by_their_hash),
        test(a_full_disk_refuses_meshes_and_worlds),
        test(runs_are_listed_with_their_counts),
        test(many_runs_record_at_once),
        test(runs_that_end_together_wait_for_the_disk_together),
    };
    return cmocka_run_group_tests_name("storage/writer", tests, NULL, NULL);
}
