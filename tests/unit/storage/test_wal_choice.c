/// The choice of the journal mode, with the file system type as input.
#include "tests/unit/storage/support.h"

#include "tests/unit/storage/faultvfs.h"

#include <sqlite3.h>
#include <stdio.h>

static void network_file_systems_get_no_wal(void **state) {
    (void)state;
    static const struct {
        int64_t type;
        const char *name;
    } remote[] = {{0x6969, "NFS"},
                  {0xFF534D42, "CIFS"},
                  {0xFE534D42, "SMB2"},
                  {0x01021997, "9P"},
                  {0x65735546, "FUSE"}};
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
        const char *name = NULL;
        assert_false(qpc_store_wal_allowed(remote[i].type, &name));
        assert_string_equal(name, remote[i].name);
    }
    // f_type is a signed 32-bit number on some machines.
    assert_false(qpc_store_wal_allowed((int64_t)(int32_t)0xFF534D42U, NULL));
}

static void local_file_systems_get_wal(void **state) {
    (void)state;
    static const int64_t local[] = {0xEF53 /* ext4 */, 0x01021994 /* tmpfs */, 0x58465342 /* XFS */,
                                    0x9123683E /* btrfs */, 0x794c7630 /* overlay */};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        assert_true(qpc_store_wal_allowed(local[i], NULL));
}

static void the_choice_is_what_sqlite_answers(void **state) {
    (void)state;
    char folder[200], path[400];
    make_folder(folder);
    join_path(path, folder, "a.db");
    qpc_error err = {0};
    sqlite3 *db = NULL;
    const char *type = NULL;
    bool local = qpc_store_wal_allowed_at(path, &type); // not there yet: its folder counts
    assert_ok(qpc_store_open(path, QPC_OPEN_CREATE, QPC_CATALOG_APPLICATION_ID, "CREATE TABLE t(x)",
                             &db, &err),
              &err);
    if (qpc_store_is_wal(db) != local)
        fail_msg("file system %s, WAL %d", type, qpc_store_is_wal(db));
    qpc_store_close(db);

    // Shared memory cannot be had: the pragma answers another mode, and that is what we go by.
    faultvfs_without_shm(true);
    assert_ok(qpc_store_open(path, QPC_OPEN_WRITE, QPC_CATALOG_APPLICATION_ID, NULL, &db, &err),
              &err);
    assert_false(qpc_store_is_wal(db));
    assert_ok(qpc_store_exec(db, "INSERT INTO t VALUES(1)", &err), &err);
    char journal[400];
    join_path(journal, folder, "a.db-journal");
    assert_true(file_there(journal)); // TRUNCATE: it stays, which tells readers of a live writer
    qpc_store_close(db);
    assert_false(file_there(journal));
    faultvfs_without_shm(false);
    assert_int_equal(query_int(path, "SELECT x FROM t"), 1);
    remove_folder(folder);
}

static void a_run_records_without_wal(void **state) {
    (void)state;
    faultvfs_without_shm(true);
    char folder[200], path[400], copy[400], journal[400];
    make_folder(folder);
    qpc_writer *writer = open_writer(folder, NULL);
    qpc_run_def def = sample_run(1, 10, QPC_F32);
    qpc_run_handle *run = open_run(writer, &def);
    run_path(path, folder, &def);
    qpc_error err = {0};
    for (int64_t step = 1; step <= 200; step++)
        assert_ok(push_frame(run, step, 10, QPC_F32, true, &err), &err);
    assert_ok(qpc_writer_flush(run, &err), &err);
    assert_int_equal(query_int(path, "SELECT journal = 'truncate' FROM run"), 1);
    assert_int_equal(check_frames(path, 1, &err), 200); // while it is being recorded
    // The main file alone may be torn, and nothing beside it tells: refused.
    join_path(copy, folder, "copy.qpc");
    copy_file(path, copy);
    qpc_reader *reader = NULL;
    assert_fails(qpc_reader_open(copy, &reader, &err), QPC_ERR_CORRUPT, &err, "incomplete");
    qpc_writer_close_run(run);
    qpc_writer_destroy(writer);
    snprintf(journal, sizeof journal, "%.390s-journal", path);
    assert_false(file_there(journal));
    assert_int_equal(check_frames(path, 1, &err), 200);
    faultvfs_without_shm(false);
    remove_folder(folder);
}

int main(void) {
    faultvfs_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network_file_systems_get_no_wal),
        cmocka_unit_test(local_file_systems_get_wal),
        cmocka_unit_test(the_choice_is_what_sqlite_answers),
        cmocka_unit_test(a_run_records_without_wal),
    };
    return cmocka_run_group_tests_name("storage/wal_choice", tests, NULL, NULL);
}
