/// The writer thread, and the closers.
///
///   push --> run queue (a list per run; counts and bytes bounded over all) --> batch --> run file
///
/// Pushers append to the list of their run under one mutex and wake the thread only when it would
/// sleep too long otherwise: twice a batch as a rule. The thread takes up to a batch of one run,
/// writes it as one transaction without the mutex, and keeps it until it is committed, so that a
/// busy or failing file loses nothing that was taken. A run whose file another process has locked
/// waits for its turn while others go on; a failed run keeps its one batch as a probe that is tried
/// again once a second, and drops and counts everything else until the probe goes in.
///
/// A run that is closed and written goes to the closers: to put a file into rollback mode waits for
/// the disk some seven times, and a file system commits what several threads wait for at once.
#include "storage/writer.h"

#include "base/mem.h"
#include "storage/catalog.h"
#include "storage/runfile.h"
#include "storage/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH_RECORDS = 256,
    BATCH_BYTES = 4 * 1024 * 1024,
    BUSY_RETRY_MS = 20,
    NOTICE_AFTER_MS = 1000, // of a lock or a blocked checkpoint
    CHECKPOINT_RETRY_MS = 100,
    IDLE_CHECKPOINT_MS = 2000,
    DATA_DIR_MAX = 380,
    CLOSERS = 8, // threads that close files
};
#define MS ((int64_t)1000000) // ns
#define NEVER INT64_MAX

struct qpc_run_handle {
    qpc_writer *writer;
    qpc_run_handle *next; // in writer->runs
    char id[33];
    int32_t column_count, frame_nodes; // what records must fit
    qpc_dtype frame_dtype;
    _Atomic uint64_t dropped;

    // Under the writer's mutex.
    qpc_record *head, *tail; // queue
    int32_t count;
    uint64_t bytes;
    int64_t oldest_ns;     // when head was pushed
    uint64_t pushed, done; // records queued ever; committed or dropped of these
    uint64_t flush_to;     // someone waits for done >= flush_to
    bool closing, failed, busy;
    bool over, taken; // nothing is left to write: for a closer; which has it
    bool *closed; // set when the file is closed, if somebody waits for that
    int64_t retry_ns; // failed or busy: not before
    qpc_status fail_status;
    char fail_message[512];
    qpc_run_gap gap;       // dropped since the last gap event
    qpc_run_totals totals; // of what is committed

    // Writer thread only.
    qpc_runfile *file;
    qpc_record *batch; // taken and not yet committed
    int32_t batch_count;
    uint64_t batch_bytes;
    int64_t busy_since_ns;
    bool busy_noticed, last_try;
    int64_t blocked_since_ns; // checkpoint; 0: not blocked
    bool blocked_noticed;
    int64_t checkpoint_ns; // try a blocked one again then; NEVER: none
    int64_t idle_ns;       // checkpoint then if nothing is committed before; NEVER: nothing to do
    bool committed;        // by the last serve()
    int64_t checkpoint_notice_ns;
};

struct qpc_writer {
    qpc_writer_options options;
    char data_dir[DATA_DIR_MAX + 1];
    int lock_fd;
    qpc_catalog *catalog;
    qpc_framecodec *codec;
    pthread_t thread, closer[CLOSERS];
    bool started;
    int32_t closer_count;

    pthread_mutex_t mutex;
    pthread_cond_t work; // for the thread
    pthread_cond_t room; // for pushers and flushers
    pthread_cond_t over; // for closers
    // Under mutex.
    qpc_run_handle *runs, **runs_end;
    int64_t wake_ns; // when the thread will look again by itself; 0 while it is awake
    int32_t waiting; // pushers that wait for room
    bool stopping;
    qpc_writer_stats stats; // queued, queued_bytes: also what is in batches
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void notice(qpc_writer *w, const char *event, const char *run_id, qpc_status status,
                   const char *message) {
    if (w->options.notice != NULL)
        w->options.notice(w->options.user, event, run_id, status, message);
}

static void destroy_list(qpc_record *list) {
    while (list != NULL) {
        qpc_record *next = list->next;
        qpc_record_destroy(list);
        list = next;
    }
}

static void widen_gap(qpc_run_handle *run, int64_t first, int64_t last, int64_t count,
                      const char *reason) {
    qpc_run_gap *gap = &run->gap;
    if (gap->count == 0 || first < gap->first_step) gap->first_step = first;
    if (gap->count == 0 || last > gap->last_step) gap->last_step = last;
    if (gap->count == 0) qpc_store_copy_text(gap->reason, sizeof gap->reason, reason);
    gap->count += count;
}

/// Count records as dropped. Under the mutex.
static void count_dropped(qpc_run_handle *run, const qpc_record *list, const char *reason) {
    for (; list != NULL; list = list->next) {
        widen_gap(run, list->step, list->step, 1, reason);
        atomic_fetch_add_explicit(&run->dropped, 1, memory_order_relaxed);
        run->writer->stats.dropped++;
    }
}

// ---- pushing ----

/// Under the mutex. One record is always admitted to an empty queue; a run that waits for a foreign
/// lock may take half of the room at most.
static bool has_room(const qpc_run_handle *run, size_t size) {
    const qpc_writer *w = run->writer;
    const qpc_writer_stats *s = &w->stats;
    if (s->queued == 0) return true;
    if (run->busy && (run->count >= w->options.queue_records / 2 ||
                      run->bytes + size > w->options.queue_bytes / 2))
        return false;
    return s->queued < w->options.queue_records && s->queued_bytes + size <= w->options.queue_bytes;
}

static qpc_status check_record(const qpc_run_handle *run, const qpc_record *record,
                               qpc_error *err) {
    if (record->kind == QPC_RECORD_FRAME &&
        (record->count != run->frame_nodes || record->dtype != run->frame_dtype))
        return qpc_fail(err, QPC_ERR_INVALID, "a frame of %d nodes as %s; the run has %d as %s",
                        record->count, qpc_dtype_name(record->dtype), run->frame_nodes,
                        qpc_dtype_name(run->frame_dtype));
    if (record->kind == QPC_RECORD_STEP && record->count != run->column_count)
        return qpc_fail(err, QPC_ERR_INVALID, "a row of %d columns; the run has %d", record->count,
                        run->column_count);
    return QPC_OK;
}

qpc_status qpc_writer_push(qpc_run_handle *run, qpc_record *record, bool wait, qpc_error *err) {
    qpc_writer *w = run->writer;
    qpc_status status = check_record(run, record, err);
    if (status != QPC_OK) {
        qpc_record_destroy(record);
        return status;
    }
    size_t size = qpc_record_size(record);
    record->next = NULL;
    pthread_mutex_lock(&w->mutex);
    while (wait && !run->failed && !has_room(run, size)) {
        w->waiting++;
        if (w->wake_ns != 0) pthread_cond_signal(&w->work);
        pthread_cond_wait(&w->room, &w->mutex);
        w->waiting--;
    }
    if (run->failed) {
        status =
            qpc_fail(err, run->fail_status, "the run is not being recorded: %s", run->fail_message);
        count_dropped(run, record, run->fail_message);
    } else if (!has_room(run, size)) {
        status = qpc_fail(err, QPC_ERR_BUSY, "the storage queue is full: %d records, %llu bytes",
                          w->stats.queued, (unsigned long long)w->stats.queued_bytes);
        count_dropped(run, record, "the storage queue was full");
    }
    if (status != QPC_OK) {
        pthread_mutex_unlock(&w->mutex);
        qpc_record_destroy(record);
        return status;
    }
    int64_t due = NEVER;
    if (run->head == NULL) {
        run->head = record;
        run->oldest_ns = now_ns();
        due = run->oldest_ns + w->options.batch_ms * MS;
    } else {
        run->tail->next = record;
    }
    run->tail = record;
    bool was_full = run->count >= BATCH_RECORDS || run->bytes >= BATCH_BYTES;
    run->count++;
    run->bytes += size;
    run->pushed++;
    if (!was_full && (run->count >= BATCH_RECORDS || run->bytes >= BATCH_BYTES)) due = 0;
    w->stats.queued++;
    w->stats.queued_bytes += size;
    if (w->stats.queued > w->stats.queued_high_water) w->stats.queued_high_water = w->stats.queued;
    bool wake = due < w->wake_ns; // never while it is awake (wake_ns 0)
    if (wake) w->wake_ns = due;
    pthread_mutex_unlock(&w->mutex);
    if (wake) pthread_cond_signal(&w->work);
    return QPC_OK;
}

qpc_status qpc_writer_flush(qpc_run_handle *run, qpc_error *err) {
    qpc_writer *w = run->writer;
    pthread_mutex_lock(&w->mutex);
    uint64_t target = run->pushed;
    if (target > run->flush_to) run->flush_to = target;
    while (!run->failed && run->done < target) {
        if (w->wake_ns != 0) pthread_cond_signal(&w->work);
        pthread_cond_wait(&w->room, &w->mutex);
    }
    qpc_status status = QPC_OK;
    if (run->failed)
        status =
            qpc_fail(err, run->fail_status, "the run is not being recorded: %s", run->fail_message);
    pthread_mutex_unlock(&w->mutex);
    return status;
}

static void close_run(qpc_run_handle *run, bool wait) {
    if (run == NULL) return;
    qpc_writer *w = run->writer;
    bool closed = false;
    pthread_mutex_lock(&w->mutex);
    run->closing = true;
    if (wait) run->closed = &closed;
    pthread_cond_signal(&w->work);
    while (wait && !closed) pthread_cond_wait(&w->room, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
}

void qpc_writer_close_run(qpc_run_handle *run) { close_run(run, false); }

void qpc_writer_close_run_and_wait(qpc_run_handle *run) { close_run(run, true); }

uint64_t qpc_run_handle_dropped(const qpc_run_handle *run) {
    return atomic_load_explicit(&run->dropped, memory_order_relaxed);
}

qpc_writer_stats qpc_writer_get_stats(qpc_writer *writer) {
    pthread_mutex_lock(&writer->mutex);
    qpc_writer_stats stats = writer->stats;
    stats.open_runs = stats.failed_runs = 0;
    for (const qpc_run_handle *run = writer->runs; run != NULL; run = run->next) {
        stats.open_runs++;
        if (run->failed) stats.failed_runs++;
    }
    pthread_mutex_unlock(&writer->mutex);
    return stats;
}

// ---- the thread ----

/// When run needs the thread. Under the mutex.
static int64_t due_at(const qpc_run_handle *run) {
    const qpc_writer *w = run->writer;
    if (run->over) return NEVER;
    if (run->failed) return run->closing ? 0 : run->retry_ns;
    if (run->busy) return run->retry_ns;
    if (run->closing || run->count >= BATCH_RECORDS || run->bytes >= BATCH_BYTES) return 0;
    if (run->flush_to > run->done) return 0;
    int64_t due = run->checkpoint_ns < run->idle_ns ? run->checkpoint_ns : run->idle_ns;
    if (run->count > 0) {
        if (w->waiting > 0) return 0;
        int64_t batch = run->oldest_ns + w->options.batch_ms * MS;
        if (batch < due) due = batch;
    }
    return due;
}

/// Move up to a batch of records from the queue. Under the mutex.
static void take_batch(qpc_run_handle *run) {
    qpc_record *last = NULL;
    run->batch = run->head;
    while (run->head != NULL && run->batch_count < BATCH_RECORDS &&
           run->batch_bytes < BATCH_BYTES) {
        last = run->head;
        run->batch_count++;
        run->batch_bytes += qpc_record_size(last);
        run->head = last->next;
    }
    if (last != NULL) last->next = NULL;
    if (run->head == NULL) run->tail = NULL;
    run->count -= run->batch_count;
    run->bytes -= run->batch_bytes;
}

/// The batch is committed or given up. Under the mutex; the records are the caller's to destroy.
static void forget_batch(qpc_run_handle *run) {
    run->done += (uint64_t)run->batch_count;
    run->batch = NULL;
    run->batch_count = 0;
    run->batch_bytes = 0;
}

/// Drop the queue of a failed run, not its batch. Under the mutex; returns what is to be destroyed.
static qpc_record *drop_queue(qpc_run_handle *run, const char *reason) {
    qpc_record *list = run->head;
    count_dropped(run, list, reason);
    run->writer->stats.queued -= run->count;
    run->writer->stats.queued_bytes -= run->bytes;
    run->done += (uint64_t)run->count;
    run->head = run->tail = NULL;
    run->count = 0;
    run->bytes = 0;
    return list;
}

static void note_error(qpc_writer *w, const char *message) {
    w->stats.errors++;
    qpc_store_copy_text(w->stats.last_error, sizeof w->stats.last_error, message);
}

/// What to do about an unwritten batch. Entered and left with the mutex held.
static void handle_failure(qpc_run_handle *run, const qpc_error *error) {
    qpc_writer *w = run->writer;
    int64_t now = now_ns();
    if (error->status == QPC_ERR_BUSY && !run->failed) {
        if (!run->busy) {
            run->busy = true;
            run->busy_since_ns = now;
            run->busy_noticed = false;
        }
        int64_t held = now - run->busy_since_ns;
        if (held < w->options.busy_ms * MS) {
            run->retry_ns = now + BUSY_RETRY_MS * MS;
            if (held > NOTICE_AFTER_MS * MS && !run->busy_noticed) {
                run->busy_noticed = true;
                pthread_mutex_unlock(&w->mutex);
                notice(w, "run_busy", run->id, error->status, error->message);
                pthread_mutex_lock(&w->mutex);
            }
            return;
        }
    }
    bool first = !run->failed;
    run->busy = false;
    run->failed = true;
    run->retry_ns = now + w->options.retry_ms * MS;
    run->fail_status = error->status;
    qpc_store_copy_text(run->fail_message, sizeof run->fail_message, error->message);
    note_error(w, error->message);
    if (!first) return;
    // The batch stays as a probe, outside the bounds of the queue (at most one batch a failed run).
    w->stats.queued -= run->batch_count;
    w->stats.queued_bytes -= run->batch_bytes;
    qpc_record *list = drop_queue(run, run->fail_message);
    pthread_cond_broadcast(&w->room);
    pthread_mutex_unlock(&w->mutex);
    destroy_list(list);
    notice(w, "run_failed", run->id, error->status, error->message);
    pthread_mutex_lock(&w->mutex);
}

/// Write one batch (or a gap event alone). Entered and left with the mutex held.
static void write_batch(qpc_run_handle *run) {
    qpc_writer *w = run->writer;
    if (run->batch == NULL) take_batch(run);
    qpc_run_gap gap = run->gap;
    if (run->batch == NULL && gap.count == 0) return;
    run->gap.count = 0; // what is dropped from here on waits for the next gap event
    pthread_mutex_unlock(&w->mutex);

    qpc_error error = {0};
    uint64_t bytes = 0;
    int64_t frames_before = qpc_runfile_totals(run->file).frames;
    qpc_status status = qpc_runfile_write(run->file, run->batch, &gap, w->codec, &bytes, &error);
    qpc_run_totals totals = qpc_runfile_totals(run->file);
    qpc_record *written = run->batch;

    if (status != QPC_OK) {
        pthread_mutex_lock(&w->mutex);
        if (gap.count > 0) widen_gap(run, gap.first_step, gap.last_step, gap.count, gap.reason);
        handle_failure(run, &error);
        return;
    }
    destroy_list(written);
    pthread_mutex_lock(&w->mutex);
    bool recovered = run->failed;
    if (!recovered) {
        w->stats.queued -= run->batch_count;
        w->stats.queued_bytes -= run->batch_bytes;
    }
    w->stats.records += (uint64_t)run->batch_count;
    w->stats.frames += (uint64_t)(totals.frames - frames_before);
    w->stats.bytes_written += bytes;
    w->stats.commits++;
    forget_batch(run);
    run->failed = run->busy = false;
    run->committed = true;
    run->totals = totals;
    pthread_cond_broadcast(&w->room);
    if (recovered) {
        char message[300];
        snprintf(message, sizeof message, "recording again; %lld records were dropped",
                 (long long)gap.count);
        pthread_mutex_unlock(&w->mutex);
        notice(w, "run_recovered", run->id, QPC_OK, message);
        pthread_mutex_lock(&w->mutex);
    }
}

/// After a commit, or when a blocked one is due again. Writer thread, without the mutex.
static void checkpoint(qpc_run_handle *run) {
    qpc_writer *w = run->writer;
    int64_t now = now_ns();
    if (qpc_runfile_wants_checkpoint(run->file)) {
        if (run->checkpoint_ns != NEVER && now < run->checkpoint_ns) return;
    } else {
        // A run that pauses comes to the main file, synced, in a moment.
        run->checkpoint_ns = NEVER;
        if (!qpc_runfile_has_wal(run->file))
            run->idle_ns = NEVER;
        else if (run->committed || run->idle_ns == NEVER)
            run->idle_ns = now + IDLE_CHECKPOINT_MS * MS;
        if (now < run->idle_ns) return;
    }
    run->idle_ns = NEVER;
    bool blocked = false;
    qpc_error error = {0};
    qpc_status status = qpc_runfile_checkpoint(run->file, &blocked, &error);
    if (status != QPC_OK) {
        // Nothing is lost: what is committed is in the -wal, and the next write tells if that is
        // full.
        run->checkpoint_ns = now + w->options.retry_ms * MS;
        pthread_mutex_lock(&w->mutex);
        note_error(w, error.message);
        pthread_mutex_unlock(&w->mutex);
        if (now >= run->checkpoint_notice_ns) {
            run->checkpoint_notice_ns = now + 60000 * MS;
            notice(w, "checkpoint_failed", run->id, status, error.message);
        }
        return;
    }
    if (!blocked) {
        run->checkpoint_ns = NEVER;
        run->blocked_since_ns = 0;
        run->blocked_noticed = false;
        return;
    }
    run->checkpoint_ns = now + CHECKPOINT_RETRY_MS * MS;
    if (run->blocked_since_ns == 0) run->blocked_since_ns = now;
    if (!run->blocked_noticed && now - run->blocked_since_ns > NOTICE_AFTER_MS * MS) {
        run->blocked_noticed = true;
        notice(w, "checkpoint_blocked", run->id, QPC_ERR_BUSY,
               "a reader holds an old snapshot of the run; its -wal grows until that ends");
    }
}

/// Close the file, tell the catalogue, free the handle. A closer, without the mutex.
static void finish_run(qpc_run_handle *run) {
    qpc_writer *w = run->writer;
    qpc_run_totals totals;
    qpc_error error = {0};
    bool whole = !run->failed;
    qpc_status status = qpc_runfile_close(run->file, whole, &totals, &error);
    if (status == QPC_OK && whole)
        status = qpc_catalog_finish_run(w->catalog, run->id, "closed", &totals, &error);
    else if (status == QPC_OK) {
        // The catalogue may be on the same disk: it says so if it can.
        qpc_catalog_finish_run(w->catalog, run->id, "failed", &totals, NULL);
        status = qpc_fail(&error, run->fail_status, "%s", run->fail_message);
    }
    if (status != QPC_OK) {
        pthread_mutex_lock(&w->mutex);
        note_error(w, error.message);
        pthread_mutex_unlock(&w->mutex);
        notice(w, "close_failed", run->id, status, error.message);
    }
    destroy_list(run->batch);
    destroy_list(run->head);
    pthread_mutex_lock(&w->mutex);
    qpc_run_handle **at = &w->runs;
    while (*at != run) at = &(*at)->next;
    *at = run->next;
    if (w->runs_end == &run->next) w->runs_end = at;
    if (run->closed != NULL) *run->closed = true;
    pthread_cond_broadcast(&w->room);
    if (w->runs == NULL) pthread_cond_signal(&w->work); // it may be the end
    pthread_mutex_unlock(&w->mutex);
    qpc_free(run);
}

/// The oldest run that is over and that no closer has, or NULL. Under the mutex.
static qpc_run_handle *take_over(qpc_writer *w) {
    qpc_run_handle *run = w->runs;
    while (run != NULL && (!run->over || run->taken)) run = run->next;
    if (run != NULL) run->taken = true;
    return run;
}

static void *closer_main(void *user) {
    qpc_writer *w = user;
    pthread_mutex_lock(&w->mutex);
    while (!w->stopping || w->runs != NULL) {
        qpc_run_handle *run = take_over(w);
        if (run == NULL) {
            pthread_cond_wait(&w->over, &w->mutex);
            continue;
        }
        pthread_mutex_unlock(&w->mutex);
        finish_run(run);
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/// Give run what it needs now. Entered and left with the mutex held; run may be gone afterwards.
static void serve(qpc_run_handle *run) {
    qpc_writer *w = run->writer;
    if (run->closing && run->failed) run->last_try = true;
    run->committed = false;
    write_batch(run);
    bool over = run->closing && run->batch == NULL && run->head == NULL && run->gap.count == 0;
    if (run->last_try && run->failed) { // one more try did not help: give up what is left
        count_dropped(run, run->batch, run->fail_message);
        over = true;
    }
    if (over) {
        run->over = true;
        pthread_cond_signal(&w->over);
        return;
    }
    if (run->failed || run->busy) return;
    pthread_mutex_unlock(&w->mutex);
    checkpoint(run);
    pthread_mutex_lock(&w->mutex);
}

static void *thread_main(void *user) {
    qpc_writer *w = user;
    pthread_mutex_lock(&w->mutex);
    for (;;) {
        // The run that is due for the longest time, and when the next one will be.
        qpc_run_handle *best = NULL;
        int64_t earliest = NEVER;
        for (qpc_run_handle *run = w->runs; run != NULL; run = run->next) {
            int64_t due = due_at(run);
            if (due < earliest) {
                earliest = due;
                best = run;
            }
        }
        if (best != NULL && earliest <= now_ns()) {
            // To the end of the list, so that runs that are always due take turns.
            qpc_run_handle **at = &w->runs;
            while (*at != best) at = &(*at)->next;
            if (best->next != NULL) {
                *at = best->next;
                best->next = NULL;
                *w->runs_end = best;
                w->runs_end = &best->next;
            }
            serve(best);
            continue;
        }
        if (w->stopping && w->runs == NULL) break;
        w->wake_ns = earliest;
        if (earliest == NEVER) {
            pthread_cond_wait(&w->work, &w->mutex);
        } else {
            struct timespec t = {.tv_sec = earliest / 1000000000, .tv_nsec = earliest % 1000000000};
            pthread_cond_timedwait(&w->work, &w->mutex, &t);
        }
        w->wake_ns = 0;
    }
    pthread_cond_broadcast(&w->over); // closers end too
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

/// Threads without signals: a SIGXFSZ of a write beyond the file size limit stays pending here and
/// the write answers EFBIG, whatever the program does about that signal. One closer is enough.
static qpc_status start_threads(qpc_writer *w, qpc_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    for (; rc == 0 && w->closer_count < CLOSERS; w->closer_count += rc == 0) {
        rc = pthread_create(&w->closer[w->closer_count], NULL, closer_main, w);
        if (rc == 0) pthread_setname_np(w->closer[w->closer_count], "qpc-closer");
    }
    if (w->closer_count > 0) rc = pthread_create(&w->thread, NULL, thread_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->started = w->closer_count > 0 && rc == 0;
    if (!w->started)
        return qpc_fail(err, QPC_ERR_MEMORY, "the writer's threads cannot start: %s",
                        qpc_store_why(rc));
    pthread_setname_np(w->thread, "qpc-writer");
    return QPC_OK;
}

// ---- opening and closing ----

static qpc_status make_folder(const char *path, qpc_error *err) {
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p != '\0') continue;
        char at = *p;
        *p = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            // EROFS and the like also come for folders that are there: those are not at fault.
            int why = errno;
            struct stat st;
            if (stat(part, &st) != 0 || !S_ISDIR(st.st_mode))
                return qpc_fail(err, why == ENOSPC || why == EDQUOT ? QPC_ERR_FULL : QPC_ERR_IO,
                                "data folder %s: %s cannot be made: %s", path, part,
                                qpc_store_why(why));
        }
        *p = at;
        if (at == '\0') break;
    }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return qpc_fail(err, QPC_ERR_IO, "data folder %s: is not a folder", path);
    return QPC_OK;
}

static qpc_status take_lock(qpc_writer *w, qpc_error *err) {
    char path[DATA_DIR_MAX + 16];
    snprintf(path, sizeof path, "%s/lock", w->data_dir);
    w->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (w->lock_fd < 0)
        return qpc_fail(err, errno == ENOSPC || errno == EDQUOT ? QPC_ERR_FULL : QPC_ERR_IO,
                        "data folder %s: %s cannot be written: %s", w->data_dir, path,
                        qpc_store_why(errno));
    if (flock(w->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return qpc_fail(err, QPC_ERR_BUSY, "data folder %s: another server uses it",
                            w->data_dir);
        return qpc_fail(err, QPC_ERR_IO, "data folder %s: %s cannot be locked: %s", w->data_dir,
                        path, qpc_store_why(errno));
    }
    return QPC_OK;
}

/// Runs that a killed server left `recording`: made whole, marked `crashed`, counted. A file that
/// does not open stays as it is.
static qpc_status recover_runs(qpc_writer *w, qpc_error *err) {
    qpc_catalog_run *runs = NULL;
    int32_t count = 0;
    qpc_status status = qpc_catalog_read_runs(w->catalog, NULL, &runs, &count, err);
    if (status != QPC_OK) return status;
    for (int32_t i = 0; status == QPC_OK && i < count; i++) {
        if (strcmp(runs[i].state, "recording") != 0) continue;
        qpc_error inner = {0};
        qpc_run_totals totals = {0};
        bool crashed = true;
        qpc_status opened = qpc_runfile_recover(runs[i].path, &totals, &crashed, &inner);
        if (opened == QPC_ERR_NOT_FOUND) { // killed before the file was there
            status = qpc_catalog_remove_run(w->catalog, runs[i].id, err);
            continue;
        }
        status = qpc_catalog_finish_run(w->catalog, runs[i].id, crashed ? "crashed" : "closed",
                                        &totals, err);
        if (opened != QPC_OK) {
            notice(w, "run_unreadable", runs[i].id, opened, inner.message);
        } else if (crashed) {
            char message[160];
            snprintf(message, sizeof message, "left by a killed server: %lld steps, %lld frames",
                     (long long)totals.steps, (long long)totals.frames);
            notice(w, "run_crashed", runs[i].id, QPC_OK, message);
        }
    }
    qpc_free(runs);
    return status;
}

/// All runs are written and closed, then the threads end.
static void end_threads(qpc_writer *w) {
    pthread_mutex_lock(&w->mutex);
    w->stopping = true;
    for (qpc_run_handle *run = w->runs; run != NULL; run = run->next) run->closing = true;
    pthread_cond_signal(&w->work);
    pthread_cond_broadcast(&w->over);
    pthread_mutex_unlock(&w->mutex);
    if (w->started) pthread_join(w->thread, NULL);
    for (int32_t i = 0; i < w->closer_count; i++) pthread_join(w->closer[i], NULL);
}

static void writer_free(qpc_writer *w) {
    end_threads(w);
    qpc_catalog_close(w->catalog);
    qpc_framecodec_destroy(w->codec);
    if (w->lock_fd >= 0) close(w->lock_fd); // and so unlocks
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->room);
    pthread_cond_destroy(&w->over);
    pthread_mutex_destroy(&w->mutex);
    qpc_free(w);
}

qpc_status qpc_writer_create(const qpc_writer_options *options, qpc_writer **ret, qpc_error *err) {
    if (options->data_dir == NULL || options->data_dir[0] == '\0')
        return qpc_fail(err, QPC_ERR_INVALID, "no data folder is given");
    if (strlen(options->data_dir) > DATA_DIR_MAX)
        return qpc_fail(err, QPC_ERR_LIMIT,
                        "the path of the data folder is longer than %d bytes: %s", DATA_DIR_MAX,
                        options->data_dir);
    qpc_writer *w = qpc_calloc(1, sizeof *w);
    if (w == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for the writer");
    w->options = *options;
    if (w->options.queue_records <= 0) w->options.queue_records = 4096;
    if (w->options.queue_bytes == 0) w->options.queue_bytes = (uint64_t)64 * 1024 * 1024;
    if (w->options.batch_ms <= 0) w->options.batch_ms = 50;
    if (w->options.retry_ms <= 0) w->options.retry_ms = 1000;
    if (w->options.busy_ms <= 0) w->options.busy_ms = 10000;
    snprintf(w->data_dir, sizeof w->data_dir, "%s", options->data_dir);
    w->options.data_dir = w->data_dir;
    w->lock_fd = -1;
    w->runs_end = &w->runs;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->room, NULL);
    pthread_cond_init(&w->over, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&w->work, &clock);
    pthread_condattr_destroy(&clock);

    char runs[DATA_DIR_MAX + 16];
    snprintf(runs, sizeof runs, "%s/runs", w->data_dir);
    qpc_status status = make_folder(w->data_dir, err);
    if (status == QPC_OK) status = take_lock(w, err);
    if (status == QPC_OK) status = make_folder(runs, err);
    if (status == QPC_OK) status = qpc_catalog_open(w->data_dir, &w->catalog, err);
    if (status == QPC_OK) status = qpc_framecodec_create(1, &w->codec, err);
    const char *file_system = "";
    if (status == QPC_OK && !qpc_store_wal_allowed_at(runs, &file_system)) {
        char message[DATA_DIR_MAX + 200];
        snprintf(
            message, sizeof message,
            "%s is on a file system of type %s: recording without WAL, with a rollback journal",
            w->data_dir, file_system);
        notice(w, "rollback_journal", "", QPC_OK, message);
    }
    if (status == QPC_OK) status = recover_runs(w, err);
    if (status == QPC_OK) status = start_threads(w, err);
    if (status != QPC_OK) {
        writer_free(w);
        return status;
    }
    *ret = w;
    return QPC_OK;
}

void qpc_writer_destroy(qpc_writer *writer) {
    if (writer != NULL) writer_free(writer);
}

static bool is_run_id(const char *id) {
    size_t n = strnlen(id, 33);
    return n == 32 && strspn(id, "0123456789abcdef") == 32;
}

qpc_status qpc_writer_open_run(qpc_writer *writer, const qpc_run_def *def, qpc_run_handle **ret,
                               qpc_error *err) {
    if (!is_run_id(def->id))
        return qpc_fail(err, QPC_ERR_INVALID, "a run id has 32 lower-case hex digits");
    qpc_run_handle *run = qpc_calloc(1, sizeof *run);
    if (run == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for a run");
    run->writer = writer;
    memcpy(run->id, def->id, sizeof run->id);
    run->column_count = def->column_count;
    run->frame_nodes = def->frame_nodes;
    run->frame_dtype = def->frame_dtype;
    run->checkpoint_ns = run->idle_ns = NEVER;

    // Listed first: a kill in between leaves a row without a file, which the next start removes.
    char file[64], path[DATA_DIR_MAX + 80];
    snprintf(file, sizeof file, "runs/%s.qpc", def->id);
    snprintf(path, sizeof path, "%s/%s", writer->data_dir, file);
    qpc_status status = qpc_catalog_add_run(writer->catalog, def, file, err);
    if (status != QPC_OK) {
        qpc_free(run);
        return status;
    }
    status = qpc_runfile_create(path, def, &run->file, err);
    if (status != QPC_OK) {
        qpc_catalog_remove_run(writer->catalog, def->id, NULL);
        qpc_free(run);
        return status;
    }
    run->totals = qpc_runfile_totals(run->file);
    pthread_mutex_lock(&writer->mutex);
    *writer->runs_end = run;
    writer->runs_end = &run->next;
    pthread_mutex_unlock(&writer->mutex);
    *ret = run;
    return QPC_OK;
}

qpc_catalog *qpc_writer_catalog(qpc_writer *writer) {
    return writer->catalog;
}

void qpc_writer_live_counts(qpc_writer *writer, qpc_catalog_run *runs, int32_t count) {
    pthread_mutex_lock(&writer->mutex);
    for (const qpc_run_handle *run = writer->runs; run != NULL; run = run->next) {
        for (int32_t i = count - 1; i >= 0; i--) { // open ones are among the newest
            if (strcmp(runs[i].id, run->id) != 0) continue;
            runs[i].steps = run->totals.steps;
            runs[i].frames = run->totals.frames;
            runs[i].bytes = run->totals.bytes;
            break;
        }
    }
    pthread_mutex_unlock(&writer->mutex);
}
