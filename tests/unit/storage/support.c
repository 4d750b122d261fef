#include "tests/unit/storage/support.h"

#include "base/hash.h"
#include "base/mem.h"

#include <fcntl.h>
#include <ftw.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void make_folder(char out[200]) {
    const char *base = getenv("TMPDIR");
    snprintf(out, 200, "%.150s/qpc-storage-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(out) == NULL) fail_msg("no temporary folder %s", out);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void remove_folder(const char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void join_path(char out[400], const char *folder, const char *name) {
    snprintf(out, 400, "%.250s/%.140s", folder, name);
}

void data_file(char out[400], const char *name) {
    join_path(out, QPC_TEST_DATA, name);
}

void copy_file(const char *from, const char *to) {
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(in >= 0 && out >= 0);
    char buffer[65536];
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0)
        assert_int_equal(write(out, buffer, (size_t)n), n);
    close(in);
    close(out);
}

bool file_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

int64_t file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

void sha256_of_file(const char *path, char hex[65]) {
    int64_t size = file_size(path);
    assert_true(size >= 0);
    char *bytes = malloc((size_t)size + 1);
    int fd = open(path, O_RDONLY);
    assert_true(bytes != NULL && read(fd, bytes, (size_t)size) == size);
    close(fd);
    uint8_t digest[32];
    qpc_error err = {0};
    assert_ok(qpc_sha256_of(bytes, (size_t)size, digest, &err), &err);
    free(bytes);
    qpc_hex_encode(digest, 32, hex);
}

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void sleep_ms(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

// ---- a run ----

static const uint8_t mesh_bytes[] =
    "QPM1 the canonical bytes of some mesh, long enough to compress: "
    "0000000000000000000000000000000000000000000000000000000000000000";
static uint8_t mesh_sha[32];

qpc_run_def sample_run(int number, int32_t nodes, qpc_dtype dtype) {
    static const qpc_run_column columns[SAMPLE_COLUMNS] = {
        {"step", true}, {"iterations", true}, {"time", false}, {"residual", false}};
    static qpc_run_body bodies[2];
    static qpc_run_mesh meshes[1];
    qpc_error err = {0};
    assert_ok(qpc_sha256_of(mesh_bytes, sizeof mesh_bytes, mesh_sha, &err), &err);
    bodies[0] = (qpc_run_body){.name = "cable",
                               .kind = "cable",
                               .node_count = nodes,
                               .element_count = nodes - 1,
                               .nodes_per_element = 2,
                               .radius = 0.01};
    bodies[1] = (qpc_run_body){.name = "pulley \"A\"",
                               .kind = "static",
                               .element_count = 12,
                               .nodes_per_element = 3,
                               .radius = 0.0,
                               .mesh_sha256 = mesh_sha};
    meshes[0] = (qpc_run_mesh){mesh_sha, mesh_bytes, sizeof mesh_bytes};
    qpc_run_def def = {.world = 0xfffffffffffffff0ULL + (uint64_t)number,
                       .name = "sample",
                       .scene_json = "{\"dt\":0.005,\"name\":\"sample\"}",
                       .scene_hash = 0xfedcba9876543210ULL,
                       .start_hash = 0x8000000000000001ULL,
                       .dt = 0.005,
                       .frame_dtype = dtype,
                       .frame_nodes = nodes,
                       .columns = columns,
                       .column_count = SAMPLE_COLUMNS,
                       .bodies = bodies,
                       .body_count = 2,
                       .meshes = meshes,
                       .mesh_count = 1,
                       .versions_json = "{\"qpcollided\":\"test\"}"};
    snprintf(def.id, sizeof def.id, "%032x", number);
    return def;
}

void run_path(char out[400], const char *folder, const qpc_run_def *def) {
    snprintf(out, 400, "%.250s/runs/%.32s.qpc", folder, def->id);
}

void sample_positions(int64_t step, int32_t nodes, double *out) {
    // Exact in float32, and hard to compress well, as real frames are.
    uint32_t x = (uint32_t)step * 2654435761U + 1;
    for (int32_t i = 0; i < 3 * nodes; i++) {
        x = x * 1664525U + 1013904223U;
        out[i] = (double)(x >> 12) / 1024.0 - 256.0;
    }
}

qpc_status push_frame(qpc_run_handle *run, int64_t step, int32_t nodes, qpc_dtype dtype, bool wait,
                      qpc_error *err) {
    double *positions = malloc(sizeof(double) * 3 * (size_t)nodes + 1);
    assert_non_null(positions);
    sample_positions(step, nodes, positions);
    qpc_record *record = NULL;
    qpc_status status = qpc_record_frame(step, -1, 0.005 * (double)step, (uint64_t)step * 3,
                                         positions, nodes, dtype, &record, err);
    free(positions);
    if (status != QPC_OK) return status;
    return qpc_writer_push(run, record, wait, err);
}

qpc_status push_step(qpc_run_handle *run, int64_t step, double residual, bool wait,
                     qpc_error *err) {
    union {
        int64_t i;
        double d;
    } values[SAMPLE_COLUMNS] = {
        {.i = step}, {.i = step % 7}, {.d = 0.005 * (double)step}, {.d = residual}};
    qpc_record *record = NULL;
    qpc_status status = qpc_record_step(step, values, SAMPLE_COLUMNS, &record, err);
    if (status != QPC_OK) return status;
    return qpc_writer_push(run, record, wait, err);
}

qpc_status push_event(qpc_run_handle *run, int64_t step, const char *message, bool wait,
                      qpc_error *err) {
    qpc_record *record = NULL;
    qpc_status status = qpc_record_event(step, "note", message, &record, err);
    if (status != QPC_OK) return status;
    return qpc_writer_push(run, record, wait, err);
}

// ---- looks from outside ----

int64_t query_int(const char *path, const char *sql) {
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    int64_t value = -1;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s: %s", path, sql, sqlite3_errmsg(db));
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) value = sqlite3_column_int64(s, 0);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        fail_msg("%s: %s: %s", path, sql, sqlite3_errmsg(db));
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

void assert_integrity(const char *path) {
    assert_int_equal(
        query_int(path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"),
        1);
}

typedef struct frame_check {
    int64_t next, count;
    double *wanted;
    bool good;
} frame_check;

static bool check_frame(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                        const double *positions, int32_t nodes) {
    frame_check *c = user;
    sample_positions(step, nodes, c->wanted);
    c->good = c->good && step == c->next && substep == -1 && hash == (uint64_t)step * 3 &&
              fabs(time - 0.005 * (double)step) < 1e-12 &&
              memcmp(c->wanted, positions, sizeof(double) * 3 * (size_t)nodes) == 0;
    c->next++;
    c->count++;
    return c->good;
}

int64_t check_frames(const char *path, int64_t first, qpc_error *err) {
    qpc_reader *reader = NULL;
    if (qpc_reader_open(path, &reader, err) != QPC_OK) return -1;
    frame_check c = {.next = first, .good = true};
    c.wanted = malloc(sizeof(double) * 3 * (size_t)qpc_reader_facts(reader).frame_nodes + 1);
    qpc_status status =
        qpc_reader_frames(reader, INT64_MIN, INT64_MAX, INT64_MAX, true, check_frame, &c, err);
    free(c.wanted);
    qpc_reader_close(reader);
    if (status != QPC_OK) return -1;
    if (!c.good) fail_msg("%s: frame %lld is not as written", path, (long long)(c.next - 1));
    return c.count;
}

// ---- notices and writers ----

void notices_init(notices *n) {
    memset(n, 0, sizeof *n);
    pthread_mutex_init(&n->mutex, NULL);
}

void notices_take(void *user, const char *event, const char *run_id, qpc_status status,
                  const char *message) {
    (void)run_id;
    notices *n = user;
    pthread_mutex_lock(&n->mutex);
    if (n->count < 64) {
        snprintf(n->list[n->count].event, sizeof n->list[0].event, "%s", event);
        snprintf(n->list[n->count].message, sizeof n->list[0].message, "%s", message);
        n->list[n->count].status = status;
        n->count++;
    }
    pthread_mutex_unlock(&n->mutex);
}

int notices_of(notices *n, const char *event) {
    int count = 0;
    pthread_mutex_lock(&n->mutex);
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->list[i].event, event) == 0) count++;
    pthread_mutex_unlock(&n->mutex);
    return count;
}

bool notices_wait(notices *n, const char *event, int want, int ms) {
    double end = now_s() + 1e-3 * ms;
    while (notices_of(n, event) < want) {
        if (now_s() > end) return false;
        sleep_ms(5);
    }
    return true;
}

qpc_writer *open_writer(const char *folder, notices *n) {
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder, .batch_ms = 10, .retry_ms = 30};
    if (n != NULL) {
        options.notice = notices_take;
        options.user = n;
    }
    assert_ok(qpc_writer_create(&options, &writer, &err), &err);
    return writer;
}

qpc_run_handle *open_run(qpc_writer *writer, const qpc_run_def *def) {
    qpc_error err = {0};
    qpc_run_handle *run = NULL;
    assert_ok(qpc_writer_open_run(writer, def, &run, &err), &err);
    return run;
}
