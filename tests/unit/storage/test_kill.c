/// SIGKILL in the middle of recording, many times on one data folder (case S04).
#include "tests/unit/storage/support.h"

#include "base/mem.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 20, NODES = 60 };

/// Records as fast as it can; tells through the pipe which step is flushed. Never returns.
static void record_for_ever(const char *folder, int round, int pipe_in) {
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .batch_ms = 5};
    qpc_run_def def = sample_run(round, NODES, QPC_F32);
    qpc_run_handle *run = NULL;
    uint64_t world = 0;
    if (qpc_writer_create(&options, &writer, &err) != QPC_OK ||
        qpc_catalog_next_world(writer, &world, &err) != QPC_OK ||
        qpc_writer_open_run(writer, &def, &run, &err) != QPC_OK) {
        fprintf(stderr, "round %d: %s\n", round, err.message);
        _exit(1);
    }
    for (int64_t step = 1;; step++) {
        if (push_frame(run, step, NODES, QPC_F32, true, &err) != QPC_OK ||
            push_step(run, step, step % 5 == 0 ? (double)NAN : 0.5, true, &err) != QPC_OK ||
            (step % 37 == 0 && qpc_writer_flush(run, &err) != QPC_OK)) {
            fprintf(stderr, "round %d: %s\n", round, err.message);
            _exit(1);
        }
        if (step % 37 == 0 && write(pipe_in, &step, sizeof step) != sizeof step) _exit(2);
    }
}

/// In a child without root's rights: what a killed process left, in a folder that cannot be
/// written.
static int64_t frames_seen_by_nobody(const char *path) {
    int ends[2];
    int64_t count = -2;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        qpc_error err = {0};
        if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(1);
        int64_t seen = check_frames(path, 1, &err);
        if (seen < 0) fprintf(stderr, "%s\n", err.message);
        _exit(write(ends[1], &seen, sizeof seen) != sizeof seen);
    }
    close(ends[1]);
    int code = 0;
    assert_int_equal(read(ends[0], &count, sizeof count), sizeof count);
    close(ends[0]);
    assert_int_equal(waitpid(child, &code, 0), child);
    return count;
}

static void assert_opens_with_the_shell(const char *path, int64_t frames) {
    char command[600], line[64] = "";
    snprintf(command, sizeof command,
             "sqlite3 -readonly '%s' 'PRAGMA integrity_check; SELECT count(*) FROM frames'", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "ok\n");
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(atoll(line), frames);
    assert_int_equal(pclose(f), 0);
}

static void killed_recordings_open_without_holes(void **state) {
    (void)state;
    char folder[200], path[400], copy[400], name[540], copy_name[540], runs[400];
    make_folder(folder);
    join_path(runs, folder, "runs");
    qpc_error err = {0};
    srand(7);
    int64_t counts[ROUNDS + 1] = {0};
    for (int round = 1; round <= ROUNDS; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0) record_for_ever(folder, round, ends[1]);
        close(ends[1]);
        // Some rounds die while the run is being made, the others at any time later.
        int64_t flushed = 0, step;
        if (round % 5 != 0 && read(ends[0], &step, sizeof step) == sizeof step) flushed = step;
        sleep_ms(rand() % 120);
        assert_int_equal(kill(child, SIGKILL), 0);
        int code = 0;
        assert_int_equal(waitpid(child, &code, 0), child);
        if (!WIFSIGNALED(code)) fail_msg("round %d ended by itself: %x", round, (unsigned)code);
        while (read(ends[0], &step, sizeof step) == sizeof step) flushed = step;
        close(ends[0]);

        qpc_run_def def = sample_run(round, NODES, QPC_F32);
        run_path(path, folder, &def);
        if (file_there(path)) {
            // A copy of what lies there, then the thing itself.
            join_path(copy, folder, "copy.qpc");
            copy_file(path, copy);
            snprintf(name, sizeof name, "%s-wal", path);
            snprintf(copy_name, sizeof copy_name, "%s-wal", copy);
            if (file_there(name)) {
                copy_file(name, copy_name);
                int64_t copied = check_frames(copy, 1, &err);
                if (copied < flushed)
                    fail_msg("round %d: copy has %lld of %lld: %s", round, (long long)copied,
                             (long long)flushed, err.message);
                remove(copy_name);
                snprintf(copy_name, sizeof copy_name, "%s-shm", copy);
                remove(copy_name);
            }
            remove(copy);
            counts[round] = check_frames(path, 1, &err);
            if (counts[round] < flushed)
                fail_msg("round %d: %lld of %lld flushed frames: %s", round,
                         (long long)counts[round], (long long)flushed, err.message);
            assert_integrity(path);
            if (round % 4 == 0) assert_opens_with_the_shell(path, counts[round]);
            if (round % 4 == 1) {
                assert_int_equal(chmod(folder, 0755) | chmod(runs, 0555), 0);
                assert_int_equal(frames_seen_by_nobody(path), counts[round]);
                assert_int_equal(chmod(runs, 0755), 0);
            }
        } else {
            assert_int_equal(flushed, 0);
        }
    }
    // The next start puts the catalogue in order, and touches no old frame.
    qpc_writer *writer = open_writer(folder, NULL);
    uint64_t world = 0;
    assert_ok(qpc_catalog_next_world(writer, &world, &err), &err);
    assert_true(world > (uint64_t)(ROUNDS - ROUNDS / 5)); // every round had its own
    qpc_catalog_run *list = NULL;
    int32_t count = 0;
    assert_ok(qpc_catalog_list_runs(writer, &list, &count, &err), &err);
    assert_true(count >= ROUNDS - ROUNDS / 5);
    for (int32_t i = 0; i < count; i++) {
        int round = (int)strtol(list[i].id, NULL, 16);
        assert_string_equal(list[i].state, "crashed");
        assert_int_equal(list[i].frames, counts[round]);
        assert_int_equal(check_frames(list[i].path, 1, &err), counts[round]);
        snprintf(name, sizeof name, "%s-wal", list[i].path);
        assert_false(file_there(name)); // one file again
    }
    qpc_free(list);
    qpc_writer_destroy(writer);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_recordings_open_without_holes)};
    return cmocka_run_group_tests_name("storage/kill", tests, NULL, NULL);
}
