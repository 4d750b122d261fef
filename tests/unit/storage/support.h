/// What the storage tests share: temporary folders, a run to record, looks at files from outside.
#ifndef QPC_TESTS_UNIT_STORAGE_SUPPORT_H
#define QPC_TESTS_UNIT_STORAGE_SUPPORT_H

#include "tests/support/check.h"

#include "storage/reader.h"
#include "storage/store.h"
#include "storage/writer.h"

#include <pthread.h>

/// A new folder under $TMPDIR; remove_folder takes everything in it.
void make_folder(char out[200]);
void remove_folder(const char *path);
void join_path(char out[400], const char *folder, const char *name);
void copy_file(const char *from, const char *to);
bool file_there(const char *path);
int64_t file_size(const char *path); // -1: not there
void sha256_of_file(const char *path, char hex[65]);
/// tests/data/storage/name of the source tree.
void data_file(char out[400], const char *name);

double now_s(void);
void sleep_ms(long ms);

/// A run with columns step, iterations (integer), time, residual (real), `nodes` nodes in body 0
/// and a static body with a mesh. Texts are literals; the rest is static.
qpc_run_def sample_run(int number, int32_t nodes, qpc_dtype dtype);
enum { SAMPLE_COLUMNS = 4 };
void run_path(char out[400], const char *folder, const qpc_run_def *def);
/// Node coordinates of a step, so that any reader can tell whether it got the right ones.
void sample_positions(int64_t step, int32_t nodes, double *out);
qpc_status push_frame(qpc_run_handle *run, int64_t step, int32_t nodes, qpc_dtype dtype, bool wait,
                      qpc_error *err);
qpc_status push_step(qpc_run_handle *run, int64_t step, double residual, bool wait, qpc_error *err);
qpc_status push_event(qpc_run_handle *run, int64_t step, const char *message, bool wait,
                      qpc_error *err);

/// First value of a query on an own read-only connection; -1 if there is no row.
int64_t query_int(const char *path, const char *sql);
void assert_integrity(const char *path);
/// Every frame is whole and right, steps are first..last without a hole; returns their count.
int64_t check_frames(const char *path, int64_t first, qpc_error *err);

/// Notices of a writer, counted by name. Thread-safe.
typedef struct notices {
    pthread_mutex_t mutex;
    int count;
    struct {
        char event[32], message[400];
        qpc_status status;
    } list[64];
} notices;
void notices_init(notices *n);
void notices_take(void *user, const char *event, const char *run_id, qpc_status status,
                  const char *message);
int notices_of(notices *n, const char *event);
/// Wait up to ms for at least `want` of them.
bool notices_wait(notices *n, const char *event, int want, int ms);

qpc_writer *open_writer(const char *folder, notices *n);
qpc_run_handle *open_run(qpc_writer *writer, const qpc_run_def *def);

#endif
