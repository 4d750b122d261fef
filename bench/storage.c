/// Recording: cost of a push on the caller, frames a second through the writer, bytes on disk, and
/// reading back. Frames are those of a swinging cable, so that compression is what it is in use.
///
///     bench_storage [folder]
#include "base/mem.h"
#include "engine/engine.h"
#include "storage/reader.h"
#include "storage/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const qpc_run_column step_columns[] = {
#define COLUMN_I true
#define COLUMN_R false
#define COLUMN(type, name, unit, text) {#name, COLUMN_##type},
    QPC_STEP_FIELDS(COLUMN)
#undef COLUMN
};
enum { COLUMNS = sizeof step_columns / sizeof step_columns[0] };

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const qpc_error *err) {
    fprintf(stderr, "bench_storage: %s\n", err->message);
    exit(1);
}

static void cable(int64_t step, int32_t nodes, double *x) {
    double t = 0.005 * (double)step;
    for (int32_t i = 0; i < nodes; i++) {
        double s = (double)i / (double)nodes;
        x[3 * i] = s + 0.01 * sin(7 * s + 3 * t);
        x[3 * i + 1] = 0.1 * cos(2 * t) * sin(3.14159265 * s) - 0.5 * s * (1 - s);
        x[3 * i + 2] = 0.02 * sin(11 * t + 5 * s);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool count_frame(void *user, int64_t step, int32_t substep, double time, uint64_t hash,
                        const double *positions, int32_t nodes) {
    (void)step, (void)substep, (void)time, (void)hash, (void)positions, (void)nodes;
    ++*(int64_t *)user;
    return true;
}

/// pace_us: sleep between steps, so that the queue never fills; 0: as fast as it goes.
static void measure(const char *folder, const char *name, int number, int32_t nodes,
                    qpc_dtype dtype, int64_t steps, bool diagnostics, long pace_us) {
    qpc_error err = {0};
    qpc_writer *writer = NULL;
    qpc_writer_options options = {.data_dir = folder};
    if (qpc_writer_create(&options, &writer, &err) != QPC_OK) die(&err);
    qpc_run_def def = {.name = name,
                       .scene_json = "{}",
                       .versions_json = "{}",
                       .dt = 0.005,
                       .frame_dtype = dtype,
                       .frame_nodes = nodes,
                       .columns = step_columns,
                       .column_count = COLUMNS};
    snprintf(def.id, sizeof def.id, "%016llx%08x%08x", (unsigned long long)time(NULL),
             (unsigned)getpid(), (unsigned)number);
    double start = seconds(CLOCK_MONOTONIC);
    qpc_run_handle *run = NULL;
    if (qpc_writer_open_run(writer, &def, &run, &err) != QPC_OK) die(&err);
    double opened = seconds(CLOCK_MONOTONIC) - start;

    enum { SHAPES = 64 };
    double *x = malloc(sizeof(double) * 3 * (size_t)nodes * SHAPES);
    double *cost = malloc(sizeof(double) * (size_t)steps);
    if (x == NULL || cost == NULL) exit(1);
    for (int i = 0; i < SHAPES; i++) cable(i, nodes, x + 3 * (size_t)nodes * (size_t)i);
    qpc_step_report report = {0};
    double cpu = 0;
    start = seconds(CLOCK_MONOTONIC);
    for (int64_t step = 1; step <= steps; step++) {
        report.step = step;
        report.time = 0.005 * (double)step;
        report.kinetic = sin(report.time);
        report.ns_total = 500000 + step % 1000;
        double before = seconds(CLOCK_MONOTONIC), cpu_before = seconds(CLOCK_THREAD_CPUTIME_ID);
        qpc_record *r = NULL;
        if (qpc_record_frame(step, -1, report.time, (uint64_t)step,
                             x + 3 * (size_t)nodes * (size_t)(step % SHAPES), nodes, dtype, &r,
                             &err) != QPC_OK ||
            qpc_writer_push(run, r, true, &err) != QPC_OK)
            die(&err);
        if (diagnostics && (qpc_record_step(step, &report, COLUMNS, &r, &err) != QPC_OK ||
                            qpc_writer_push(run, r, true, &err) != QPC_OK))
            die(&err);
        cpu += seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
        cost[step - 1] = seconds(CLOCK_MONOTONIC) - before;
        if (pace_us > 0) usleep((useconds_t)pace_us);
    }
    if (qpc_writer_flush(run, &err) != QPC_OK) die(&err);
    double wall = seconds(CLOCK_MONOTONIC) - start;
    qpc_writer_stats stats = qpc_writer_get_stats(writer);
    qsort(cost, (size_t)steps, sizeof *cost, compare);
    char path[512];
    snprintf(path, sizeof path, "%s/runs/%s.qpc", folder, def.id);
    qpc_writer_close_run(run);
    start = seconds(CLOCK_MONOTONIC);
    qpc_writer_destroy(writer);
    double closed = seconds(CLOCK_MONOTONIC) - start;

    qpc_reader *reader = NULL;
    if (qpc_reader_open(path, &reader, &err) != QPC_OK) die(&err);
    int64_t read = 0;
    start = seconds(CLOCK_MONOTONIC);
    if (qpc_reader_frames(reader, 0, steps, steps, false, count_frame, &read, &err) != QPC_OK)
        die(&err);
    double reading = seconds(CLOCK_MONOTONIC) - start;
    qpc_reader_close(reader);
    FILE *f = fopen(path, "r");
    long bytes = 0;
    if (f != NULL && fseek(f, 0, SEEK_END) == 0) bytes = ftell(f);
    if (f != NULL) fclose(f);
    unlink(path);

    double raw = 3.0 * nodes * (dtype == QPC_F32 ? 4 : 8);
    printf("%s,%d,%s,%lld,%.0f,%.2f,%.2f,%.2f,%.0f,%.0f,%.3f,%llu,%d,%.0f,%.1f,%.1f\n", name, nodes,
           dtype == QPC_F32 ? "f4" : "f8", (long long)steps, (double)steps / wall,
           1e6 * cpu / (double)steps, 1e6 * cost[steps / 2], 1e6 * cost[steps * 99 / 100], raw,
           (double)bytes / (double)steps, (double)bytes / (double)steps / raw,
           (unsigned long long)stats.commits, stats.queued_high_water, (double)read / reading,
           1e3 * opened, 1e3 * closed);
    free(x);
    free(cost);
}

int main(int argc, char **argv) {
    char folder[300];
    snprintf(folder, sizeof folder, "%s", argc > 1 ? argv[1] : "/tmp/qpc-bench-storage");
    puts("case,nodes,dtype,steps,steps_per_s,push_cpu_us,push_p50_us,push_p99_us,raw_bytes,"
         "file_bytes_per_step,ratio,commits,queue_high_water,read_frames_per_s,open_ms,close_ms");
    measure(folder, "frames", 1, 100, QPC_F32, 50000, false, 0);
    measure(folder, "frames-and-rows", 2, 100, QPC_F32, 50000, true, 0);
    measure(folder, "frames-and-rows-paced", 3, 100, QPC_F32, 4000, true, 500);
    measure(folder, "frames-f8", 4, 100, QPC_F64, 50000, false, 0);
    measure(folder, "large", 5, 10000, QPC_F32, 2000, true, 0);
    measure(folder, "large-f8", 6, 10000, QPC_F64, 2000, true, 0);
    measure(folder, "large-paced", 7, 10000, QPC_F32, 400, true, 5000);
    return 0;
}
