/// `qpc run` and `qpc check`.
///
/// A run goes in batches of world.step, each with an idempotency key and the step it expects, so
/// that a lost connection costs nothing: connect again and ask again. Batches are sized to take a
/// fifth of a second, which keeps the progress alive and Ctrl-C quick.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "client/cli/cli.h"
#include "client/libqpc/address.h"

enum { WAIT_MS = 100, CANCEL_MS = 20000, RECORD_MS = 10000, KEPT_MS = 1000 };
enum { RETRIES = 6, BATCH_MAX = 100000 };

// ---- one number over all batches ----

typedef struct totals {
    int64_t reached;
    double time; // simulated, s
    uint64_t hash;
    char status[16];
    qpc_error error;
    double wall_s, cpu_s, elapsed_s;
    int64_t contacts, active, passes, newton, halvings, failsafe;
    int64_t exhausted, friction_missed, conflicts, relaxed; // steps
    int64_t not_proven, not_said; // steps; not_said: by a server that has no such figure
    double min_gap, penetration;
    double energy_drift,
        energy_last; // (E - E0 - W) over the scale: largest in magnitude, at the end
    double stat, prim, dual, comp, natural, friction;
} totals;

static void larger(double *a, double b) {
    if (!(b <= *a)) *a = b;
}

static void larger_int(int64_t *a, int64_t b) {
    if (b > *a) *a = b;
}

static void add_batch(totals *t, const qpc_step_reply *reply) {
    const qpc_value *s = reply->summary, *worst = cli_at(s, "worst");
    t->reached = reply->reached;
    t->time = reply->time;
    t->hash = reply->hash;
    memcpy(t->status, reply->status, sizeof t->status);
    t->error = reply->error;
    if (s == NULL || cli_int(s, "steps", 0) == 0) return;
    t->wall_s += cli_real(s, "wall_s", 0);
    t->cpu_s += cli_real(s, "cpu_s", 0);
    larger_int(&t->contacts, cli_int(s, "contacts_max", 0));
    larger_int(&t->active, cli_int(s, "active_max", 0));
    larger_int(&t->passes, cli_int(s, "passes_max", 0));
    larger_int(&t->newton, cli_int(s, "newton_max", 0));
    t->halvings += cli_int(s, "halvings", 0);
    t->failsafe += cli_int(s, "failsafe", 0);
    t->exhausted += cli_int(s, "exhausted", 0);
    t->friction_missed += cli_int(s, "friction_missed", 0);
    t->conflicts += cli_int(s, "conflicts", 0);
    t->relaxed += cli_int(s, "relaxed", 0);
    int64_t not_proven = cli_int(s, "not_proven", -1);
    *(not_proven < 0 ? &t->not_said : &t->not_proven) += not_proven < 0 ? cli_int(s, "steps", 0) : not_proven;
    t->min_gap = fmin(t->min_gap, cli_real(s, "min_gap", 2));
    t->energy_last = cli_real(cli_at(s, "last"), "energy_drift", t->energy_last);
    double drift = cli_real(s, "energy_drift_max", t->energy_last); // largest in magnitude
    if (!(fabs(drift) <= fabs(t->energy_drift))) t->energy_drift = drift;
    larger(&t->stat, cli_real(worst, "stat", 0));
    larger(&t->prim, cli_real(worst, "prim", 0));
    larger(&t->dual, cli_real(worst, "dual", 0));
    larger(&t->comp, cli_real(worst, "comp", 0));
    larger(&t->natural, cli_real(worst, "natural_ratio", 0));
    larger(&t->friction, cli_real(worst, "friction_natural", 0));
    larger(&t->penetration, cli_real(worst, "penetration", 0));
}

// ---- the loop ----

typedef struct run_options {
    int64_t steps; // < 0: by seconds
    double seconds, dt;
    const char *positions_path, *name;
    bool keep, no_record;
} run_options;

typedef struct run_state {
    cli *c;
    uint64_t world;
    int64_t steps;
    totals total;
    double *positions; // (nodes x 3) of the last step; owned
    int64_t nodes;
    bool want_positions;
    char key_base[20];
} run_state;

static void pause_ms(int64_t ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static bool lost(const cli *c) {
    return c->client == NULL || !qpc_client_is_open(c->client);
}

/// Wait for the reply to a step, looking for Ctrl-C meanwhile.
static qpc_status wait_step(run_state *r, uint32_t id, qpc_message *ret, qpc_error *err) {
    int64_t cancelled_at = -1;
    for (;;) {
        qpc_status status = qpc_wait(r->c->client, id, WAIT_MS, ret, err);
        if (status == QPC_OK) return QPC_OK;
        bool waiting = status == QPC_ERR_DEADLINE || status == QPC_ERR_CANCELLED;
        if (!waiting || lost(r->c)) return status;
        if (!cli_interrupted()) continue;
        if (cancelled_at < 0) {
            cancelled_at = qpc_now_ms();
            uint32_t cancel_id;
            qpc_value params = qpc_map();
            if (cli_set(&params, "world", qpc_uint(r->world)) &&
                qpc_send(r->c->client, "world.cancel", &params, &cancel_id, err) == QPC_OK)
                qpc_forget(r->c->client, cancel_id);
            qpc_value_fini(&params);
        }
        if (qpc_now_ms() - cancelled_at > CANCEL_MS)
            return qpc_fail(err, QPC_ERR_CANCELLED, "interrupted; the server did not answer");
    }
}

/// One batch, tried again over a new connection if the old one is lost.
static qpc_status step_batch(run_state *r, int64_t n, qpc_step_reply *ret, qpc_error *err) {
    char key[64];
    snprintf(key, sizeof key, "%s-%lld", r->key_base, (long long)r->total.reached);
    qpc_step_request request = qpc_step_request_default();
    request.n = n;
    request.expect_step = r->total.reached;
    request.key = key;
    request.positions = r->want_positions && r->total.reached + n >= r->steps;
    request.float64 = true;
    for (int tries = 0;; tries++) {
        qpc_value params;
        qpc_message message = {0};
        uint32_t id;
        qpc_status status = qpc_step_params(r->world, &request, &params, err);
        if (status != QPC_OK) return status;
        status = qpc_send(r->c->client, "world.step", &params, &id, err);
        qpc_value_fini(&params);
        if (status == QPC_OK) status = wait_step(r, id, &message, err);
        if (status == QPC_OK) {
            status = message.status;
            if (status != QPC_OK) *err = message.error;
            if (status == QPC_OK) return qpc_step_reply_read(&message, ret, err);
            qpc_message_fini(&message);
            if (status != QPC_ERR_BUSY) return status;
        } else if (!lost(r->c)) {
            return status;
        }
        // A private daemon that is gone does not come back.
        if (tries == RETRIES || cli_interrupted() || (r->c->daemon > 0 && lost(r->c)))
            return status;
        cli_warn(r->c, "%s; trying again", err->message);
        pause_ms((int64_t)100 << tries);
        if (lost(r->c)) {
            qpc_status again = cli_reconnect(r->c, err);
            if (again != QPC_OK && r->c->client == NULL && tries == RETRIES - 1) return again;
            while (r->c->client == NULL && tries++ < RETRIES) {
                pause_ms((int64_t)100 << tries);
                again = cli_reconnect(r->c, err);
            }
            if (r->c->client == NULL) return again;
        }
    }
}

static qpc_status keep_positions(run_state *r, const qpc_step_reply *reply, qpc_error *err) {
    if (reply->positions == NULL) return QPC_OK;
    qpc_value view = {.kind = QPC_TENSOR, .tensor = *reply->positions};
    return qpc_read_matrix(&view, "positions", 3, INT32_MAX, &r->positions, &r->nodes, err);
}

static qpc_status run_steps(run_state *r, const char *label, qpc_error *err) {
    cli_progress progress;
    cli_progress_start(&progress, r->c, label);
    int64_t started = qpc_now_ms(), n = 10;
    qpc_status status = QPC_OK;
    while (r->total.reached < r->steps && !cli_interrupted()) {
        int64_t left = r->steps - r->total.reached, before = r->total.reached;
        struct timespec t0, t1;
        clock_gettime(CLOCK_MONOTONIC, &t0);
        qpc_step_reply reply;
        status = step_batch(r, n < left ? n : left, &reply, err);
        if (status != QPC_OK) break;
        clock_gettime(CLOCK_MONOTONIC, &t1);
        add_batch(&r->total, &reply);
        if (r->total.reached >= r->steps) status = keep_positions(r, &reply, err);
        bool going = strcmp(reply.status, "ok") == 0;
        qpc_message_fini(&reply.message);
        if (status != QPC_OK || !going) break;
        if (r->total.reached == before) {
            status = qpc_fail(err, QPC_ERR_INTERNAL, "the server reports success without a step");
            break;
        }
        double took = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
        double wanted = 0.2 * (double)(r->total.reached - before) / (took > 1e-6 ? took : 1e-6);
        n = wanted < 1 ? 1 : wanted > BATCH_MAX ? BATCH_MAX : (int64_t)wanted;
        char text[120];
        double elapsed = 1e-3 * (double)(qpc_now_ms() - started);
        snprintf(text, sizeof text, "%lld/%lld steps, %.3f s, %.0f steps/s",
                 (long long)r->total.reached, (long long)r->steps, r->total.time,
                 elapsed > 0 ? (double)r->total.reached / elapsed : 0.0);
        cli_progress_show(&progress, (double)r->total.reached / (double)r->steps, text);
    }
    r->total.elapsed_s = 1e-3 * (double)(qpc_now_ms() - started);
    cli_progress_end(&progress);
    return status;
}

// ---- positions as a file ----

/// NumPy's .npy (float64, C order), or text with x,y,z lines for .csv.
static qpc_status write_positions(const run_state *r, const char *path, qpc_error *err) {
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return qpc_fail(err, QPC_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".csv") == 0) {
        fprintf(file, "x,y,z\n");
        for (int64_t i = 0; i < r->nodes; i++)
            fprintf(file, "%.17g,%.17g,%.17g\n", r->positions[3 * i], r->positions[3 * i + 1],
                    r->positions[3 * i + 2]);
    } else {
        char head[128] = "\x93NUMPY\x01"; // version 1.0, header padded to 128 bytes with it
        int used = snprintf(head + 10, sizeof head - 10,
                            "{'descr': '<f8', 'fortran_order': False, 'shape': (%lld, 3), }",
                            (long long)r->nodes);
        head[8] = (char)(sizeof head - 10);
        memset(head + 10 + used, ' ', sizeof head - 10 - (size_t)used);
        head[sizeof head - 1] = '\n';
        fwrite(head, 1, sizeof head, file);
        fwrite(r->positions, 24, (size_t)r->nodes, file);
    }
    bool bad = ferror(file) != 0;
    if (fclose(file) != 0 || bad)
        return qpc_fail(err, QPC_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return QPC_OK;
}

// ---- the summary ----

static void print_summary(const totals *t, const cli_times *times, const char *name,
                          const char *run, const char *path) {
    double rate = t->elapsed_s > 0 ? (double)t->reached / t->elapsed_s : 0;
    printf("%s: %lld steps, %.6g s simulated in %.3f s\n", name, (long long)t->reached, t->time,
           t->elapsed_s);
    printf("  speed            %.0f steps/s, real-time factor %.2f\n", rate,
           t->elapsed_s > 0 ? t->time / t->elapsed_s : 0.0);
    if (times->steps > 0)
        printf("  step             median %.3f ms, p99 %.3f ms (thread CPU); wall %.3f / %.3f\n",
               times->cpu_median, times->cpu_p99, times->wall_median, times->wall_p99);
    printf("  contacts         up to %lld, active rows up to %lld\n", (long long)t->contacts,
           (long long)t->active);
    printf("  passes           up to %lld, Newton iterations up to %lld\n", (long long)t->passes,
           (long long)t->newton);
    printf("  worst gap        %.4f of the thickness (penetration %.2g)\n", t->min_gap,
           t->penetration);
    printf("  worst residuals  stat %.1e, prim %.1e, dual %.1e, comp %.1e, natural %.1e r/dt\n",
           t->stat, t->prim, t->dual, t->comp, t->natural);
    if (t->friction > 0 || t->friction_missed > 0)
        printf("  friction         residual %.1e m/s, missed in %lld steps\n", t->friction,
               (long long)t->friction_missed);
    if (t->exhausted > 0)
        printf("  budget           used up in %lld steps\n", (long long)t->exhausted);
    if (t->conflicts > 0 || t->relaxed > 0)
        printf("  contradictions   in %lld steps, %lld relaxed (qpc events, qpc forces say of what)\n",
               (long long)t->conflicts, (long long)t->relaxed);
    printf("  fail-safe        %lld, halvings %lld\n", (long long)t->failsafe,
           (long long)t->halvings);
    cli_print_proof(t->reached - t->not_proven - t->not_said, t->not_proven, t->not_said);
    printf("  energy drift     %+.1e of the energy scale at most, %+.1e at the end\n",
           t->energy_drift, t->energy_last);
    printf("  state hash       %016llx\n", (unsigned long long)t->hash);
    if (run[0] != '\0') printf("  run              %s\n", run);
    if (path[0] != '\0') printf("  run file         %s\n", path);
}

static cli_exit print_summary_json(const cli *c, const totals *t, const cli_times *times,
                                   const char *name, uint64_t world, const char *run,
                                   const char *path, const qpc_value *warnings) {
    qpc_value root = qpc_map(), worst = qpc_map(), step = qpc_map(), error = qpc_nil();
    qpc_value notes = qpc_nil();
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->hash);
    qpc_value_copy(warnings, &notes);
    bool ok = true;
    if (t->error.status != QPC_OK) {
        error = qpc_map();
        ok = cli_set(&error, "code", qpc_int(t->error.status)) && ok;
        ok = cli_set(&error, "name", qpc_text_borrow(qpc_status_name(t->error.status))) && ok;
        ok = cli_set(&error, "message", qpc_text_borrow(t->error.message)) && ok;
    }
    const struct {
        const char *key;
        double value;
    } worsts[] = {{"stat", t->stat}, {"prim", t->prim},       {"dual", t->dual},
                  {"comp", t->comp}, {"natural", t->natural}, {"friction", t->friction}, {"penetration", t->penetration}};
    for (size_t i = 0; i < sizeof worsts / sizeof *worsts; i++)
        ok = cli_set(&worst, worsts[i].key, qpc_real(worsts[i].value)) && ok;
    ok = cli_set(&step, "cpu_median", qpc_real(times->cpu_median)) && ok;
    ok = cli_set(&step, "cpu_p99", qpc_real(times->cpu_p99)) && ok;
    ok = cli_set(&step, "wall_median", qpc_real(times->wall_median)) && ok;
    ok = cli_set(&step, "wall_p99", qpc_real(times->wall_p99)) && ok;
    double rate = t->elapsed_s > 0 ? (double)t->reached / t->elapsed_s : 0;
    const struct {
        const char *key;
        qpc_value value;
    } items[] = {
        {"name", qpc_text_borrow(name)},
        {"status", qpc_text_borrow(t->status[0] != '\0' ? t->status : "ok")},
        {"error", error},
        {"world", qpc_uint(world)},
        {"run", run[0] != '\0' ? qpc_text_borrow(run) : qpc_nil()},
        {"path", path[0] != '\0' ? qpc_text_borrow(path) : qpc_nil()},
        {"steps", qpc_int(t->reached)},
        {"time", qpc_real(t->time)},
        {"hash", qpc_text_borrow(hash)},
        {"elapsed_s", qpc_real(t->elapsed_s)},
        {"wall_s", qpc_real(t->wall_s)},
        {"cpu_s", qpc_real(t->cpu_s)},
        {"steps_per_s", qpc_real(rate)},
        {"real_time_factor", qpc_real(t->elapsed_s > 0 ? t->time / t->elapsed_s : 0)},
        {"step_ms", step},
        {"contacts_max", qpc_int(t->contacts)},
        {"active_max", qpc_int(t->active)},
        {"passes_max", qpc_int(t->passes)},
        {"newton_max", qpc_int(t->newton)},
        {"min_gap", qpc_real(t->min_gap)},
        {"worst", worst},
        {"failsafe", qpc_int(t->failsafe)},
        {"halvings", qpc_int(t->halvings)},
        {"exhausted", qpc_int(t->exhausted)},
        {"friction_missed", qpc_int(t->friction_missed)},
        {"conflicts", qpc_int(t->conflicts)},
        {"relaxed", qpc_int(t->relaxed)},
        {"not_proven", t->not_said > 0 && t->not_proven == 0 ? qpc_nil() : qpc_int(t->not_proven)},
        {"energy_drift_max", qpc_real(t->energy_drift)},
        {"energy_drift_end", qpc_real(t->energy_last)},
        {"warnings", notes},
    };
    for (size_t i = 0; i < sizeof items / sizeof *items; i++)
        ok = cli_set(&root, items[i].key, items[i].value) && ok;
    if (ok) return cli_print_json(c, &root);
    qpc_value_fini(&root);
    return cli_no_memory(c);
}

// ---- the command ----

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/// The scene's own name, or the file's.
static void scene_name(const qpc_value *scene, const char *path, const char *given, char *out,
                       size_t size) {
    if (given != NULL) {
        snprintf(out, size, "%s", given);
        return;
    }
    cli_text(scene, "name", out, size);
    if (out[0] == '\0') snprintf(out, size, "%s", base_name(path));
}

static cli_exit override(const cli *c, qpc_value *scene, const run_options *o) {
    if (!isnan(o->dt) && !cli_set(scene, "dt", qpc_real(o->dt))) return cli_no_memory(c);
    if (!o->no_record) return CLI_OK;
    qpc_value record = qpc_map();
    const qpc_value *given = qpc_map_get(scene, "record");
    if (given != NULL && given->kind == QPC_MAP && qpc_value_copy(given, &record) != QPC_OK)
        return cli_no_memory(c);
    if (!cli_set(&record, "enabled", qpc_bool(false)) || !cli_set(scene, "record", record))
        return cli_no_memory(c);
    return CLI_OK;
}

/// A scene that the server refuses is a bad scene; other refusals are the server's.
static cli_exit fail_create(const cli *c, const qpc_error *err, const char *path,
                            const qpc_value *scene_map) {
    cli_exit code = cli_fail_input(c, err, path);
    if (code == CLI_BAD_FILE && qpc_client_answered(c->client))
        cli_print_pairs(stderr, cli_at(qpc_client_error_data(c->client), "close_pairs"), cli_at(scene_map, "bodies"));
    return code;
}

static void print_remarks(const cli *c, const qpc_value *answer) {
    const qpc_value *warnings = cli_at(answer, "warnings");
    for (int32_t i = 0; warnings->kind == QPC_LIST && i < warnings->list.count; i++) {
        const qpc_value *w = &warnings->list.items[i];
        if (w->kind == QPC_STR) cli_warn(c, "warning: %.*s", (int)w->str.size, w->str.bytes);
    }
}

static qpc_status ask_dt(cli *c, uint64_t world, double *ret, qpc_error *err) {
    qpc_value params = qpc_map();
    qpc_message m = {0};
    if (!cli_set(&params, "world", qpc_uint(world))) {
        qpc_value_fini(&params);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    qpc_status status = qpc_call(c->client, "world.describe", &params, &m, err);
    qpc_value_fini(&params);
    if (status == QPC_OK)
        status = qpc_read_real(qpc_map_get(m.value, "dt"), "dt", 1e-300, 1e300, ret, err);
    qpc_message_fini(&m);
    return status;
}

/// End a world, so that its run file is closed. False if its recording did not take everything.
static bool end_world(cli *c, uint64_t world) {
    qpc_value params = qpc_map();
    qpc_message m = {0};
    qpc_error err = {0};
    qpc_status status = QPC_ERR_MEMORY;
    if (cli_set(&params, "world", qpc_uint(world))) status = qpc_call(c->client, "world.destroy", &params, &m, &err);
    qpc_value_fini(&params);
    bool whole = true;
    const qpc_value *recording = status == QPC_OK ? qpc_map_get(m.value, "recording") : NULL;
    if (status != QPC_OK) cli_warn(c, "world %llu: %s", (unsigned long long)world, err.message);
    if (recording != NULL && recording->kind == QPC_STR) {
        cli_warn(c, "the run file is incomplete: %.*s", (int)recording->str.size, recording->str.bytes);
        whole = false;
    }
    qpc_message_fini(&m);
    return whole;
}

/// Times and path of a run. What was recorded last may still be on its way to the file: wait for
/// it, until the file is closed or wait_ms have passed.
static qpc_status read_recorded(cli *c, const char *run, int64_t steps, int64_t wait_ms,
                                cli_times *ret_times, char *ret_path, size_t path_size,
                                qpc_error *err) {
    int64_t deadline = qpc_now_ms() + wait_ms;
    for (;;) {
        char id[33], state[16];
        qpc_value entry = qpc_nil();
        if (cli_find_run(c, run, id, &entry) != CLI_OK)
            return qpc_fail(err, QPC_ERR_NOT_FOUND, "the server does not list it");
        cli_text(&entry, "path", ret_path, path_size);
        bool closed = strcmp(cli_text(&entry, "state", state, sizeof state), "recording") != 0;
        qpc_value_fini(&entry);
        qpc_status status = cli_read_times(c, run, ret_times, err);
        if (status != QPC_OK || ret_times->steps >= steps || closed || qpc_now_ms() > deadline)
            return status;
        pause_ms(10);
    }
}

/// Step a world that exists, and tell how it went.
static cli_exit run_world(cli *c, const qpc_world_receipt *receipt, const run_options *o,
                          const char *name) {
    run_state r = {.c = c,
                   .world = receipt->world,
                   .steps = o->steps,
                   .want_positions = o->positions_path != NULL};
    r.total.min_gap = 2;
    r.total.hash = receipt->hash;
    qpc_error err = {0};
    uint8_t random[8];
    double dt;
    qpc_status status = qpc_random_bytes(random, sizeof random, &err);
    if (status == QPC_OK) qpc_hex_encode(random, sizeof random, r.key_base);
    if (status == QPC_OK && o->steps < 0) {
        dt = cli_real(receipt->message.value, "dt", 0);
        if (!(dt > 0)) status = ask_dt(c, receipt->world, &dt, &err);
        if (status == QPC_OK) r.steps = (int64_t)ceil(o->seconds / dt - 1e-9);
    }
    if (status == QPC_OK) status = run_steps(&r, name, &err);
    cli_exit code = CLI_OK;
    if (status != QPC_OK) {
        code = cli_interrupted() ? CLI_INTERRUPTED : cli_fail_call(c, &err);
    } else if (cli_interrupted()) {
        code = CLI_INTERRUPTED;
    } else if (strcmp(r.total.status, "failed") == 0 || r.total.error.status != QPC_OK) {
        code = CLI_RUN_FAILED;
    } else if (r.total.reached < r.steps) {
        code = CLI_SERVER_ERROR; // drained, or cancelled by someone else
    } else if (r.total.not_proven > 0) {
        code = CLI_RUN_FAILED; // every step was made, but the promise is broken
    }
    if (lost(c)) {
        qpc_free(r.positions);
        return code;
    }
    // End the world, so that its run file is closed; then its figures are all there.
    cli_times times = {NAN, NAN, NAN, NAN, 0};
    char path[4096] = "";
    if (!o->keep && !end_world(c, receipt->world) && code == CLI_OK) code = CLI_SERVER_ERROR;
    if (receipt->run[0] != '\0' &&
        read_recorded(c, receipt->run, r.total.reached, o->keep ? KEPT_MS : RECORD_MS, &times, path,
                      sizeof path, &err) != QPC_OK)
        cli_warn(c, "no figures of the run: %s", err.message);
    if (code == CLI_OK && r.positions != NULL &&
        write_positions(&r, o->positions_path, &err) != QPC_OK)
        code = cli_fail(c, CLI_BAD_FILE, &err, NULL);
    if (r.total.friction_missed > 0)
        fprintf(stderr, "qpc: %lld steps miss Coulomb's law: friction was not solved to its tolerance\n", (long long)r.total.friction_missed);
    if (r.total.not_proven > 0)
        fprintf(stderr, "qpc: %lld steps are not proven to be free of contact\n", (long long)r.total.not_proven);
    if (code == CLI_RUN_FAILED && (strcmp(r.total.status, "failed") == 0 || r.total.error.status != QPC_OK))
        fprintf(stderr, "qpc: step %lld failed: %s\n", (long long)r.total.reached + 1,
                r.total.error.message);
    if (r.total.reached < r.steps && code == CLI_SERVER_ERROR && status == QPC_OK)
        fprintf(stderr, "qpc: the server ended the run after step %lld: %s\n",
                (long long)r.total.reached, r.total.status);
    if (code == CLI_INTERRUPTED)
        cli_warn(c, "interrupted after step %lld", (long long)r.total.reached);
    if (status == QPC_OK || code == CLI_INTERRUPTED) {
        if (code == CLI_INTERRUPTED) memcpy(r.total.status, "cancelled", sizeof "cancelled");
        if (c->json) {
            cli_exit printed =
                print_summary_json(c, &r.total, &times, name, receipt->world, receipt->run, path,
                                   cli_at(receipt->message.value, "warnings"));
            if (code == CLI_OK) code = printed;
        } else {
            print_summary(&r.total, &times, name, receipt->run, path);
        }
    }
    qpc_free(r.positions);
    return code;
}

cli_exit cli_run(cli *c, int argc, char **argv) {
    run_options o = {.steps = -1, .seconds = NAN, .dt = NAN};
    const cli_option options[] = {
        {"steps", CLI_COUNT, &o.steps, "N", "number of steps"},
        {"seconds", CLI_NUMBER, &o.seconds, "S", "simulated time, s (default 5)"},
        {"dt", CLI_NUMBER, &o.dt, "S", "length of a step instead of the scene's, s"},
        {"name", CLI_TEXT, &o.name, "NAME", "label of the world and the run"},
        {"positions", CLI_TEXT, &o.positions_path, "FILE",
         "write the last positions of all moving nodes to FILE (.npy, or .csv)"},
        {"keep", CLI_FLAG, &o.keep, NULL, "leave the world on the server"},
        {"no-record", CLI_FLAG, &o.no_record, NULL, "record no run file"},
        CLI_DATA_OPTION(c),
        CLI_SERVER_OPTIONS(c),
        {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {
        "run",
        "SCENE.json",
        "Make a world of a scene, step it, and say how it went.",
        1,
        1,
        "Without --server it uses the server at the default address, if one listens there; "
        "otherwise it starts a private daemon that ends with the command (its data folder and the "
        "run file stay). Ctrl-C stops between two steps, and still prints the summary.\n"
        "Exit code 5: a step failed, or its motion was not proven to be free of contact. That the "
        "fail-safe fired is told, but is no failure."};
    const char *path;
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, &path, &count, &code)) return code;
    qpc_error err = {0};
    if (o.dt <= 0) {
        qpc_fail(&err, QPC_ERR_INVALID, "--dt is %g; it must be greater than 0", o.dt);
        return cli_fail(c, CLI_USAGE, &err, NULL);
    }
    if ((o.steps >= 0 && !isnan(o.seconds)) || o.seconds < 0) {
        qpc_fail(&err, QPC_ERR_INVALID, "say --steps or --seconds, and neither less than 0");
        return cli_fail(c, CLI_USAGE, &err, NULL);
    }
    if (isnan(o.seconds)) o.seconds = 5;
    qpc_value scene = qpc_nil();
    cli_meshes meshes = {0};
    code = cli_read_scene(c, path, &scene, &meshes);
    if (code == CLI_OK) code = override(c, &scene, &o);
    if (code == CLI_OK) code = cli_connect(c, true);
    if (code == CLI_OK) code = cli_upload_meshes(c, path, &meshes);
    cli_meshes_fini(&meshes);
    if (code == CLI_OK) {
        char name[128];
        scene_name(&scene, path, o.name, name, sizeof name);
        qpc_world_receipt receipt;
        if (qpc_client_world_create(c->client, &scene, name, false, &receipt, &err) != QPC_OK) {
            code = fail_create(c, &err, path, &scene);
        } else {
            print_remarks(c, receipt.message.value);
            code = run_world(c, &receipt, &o, name);
            qpc_message_fini(&receipt.message);
        }
    }
    qpc_value_fini(&scene);
    return code;
}

/// What scene.check found beyond the check of the world: lines below those of the name and the bodies, or the key "preflight" of
/// the answer for JSON.
static cli_exit show_preflight(cli *c, const qpc_value *scene, const char *name, const qpc_value *of_world, qpc_value *answer) {
    qpc_value found = qpc_nil();
    cli_exit code = cli_check_scene_meshes(c, scene, &found);
    if (code != CLI_OK) return code;
    const qpc_value *errors = cli_at(&found, "errors"), *bodies = cli_at(&found, "bodies");
    bool bad = errors->kind == QPC_LIST && errors->list.count > 0;
    if (!c->json) {
        printf("%s: %s\n", name, bad ? "has errors" : "good");
        cli_print_bodies(of_world);
        cli_print_findings(errors, "error", bodies);
        cli_print_findings(cli_at(&found, "warnings"), "warning", bodies);
        qpc_value_fini(&found);
    } else if (!cli_set(answer, "preflight", found)) {
        return cli_no_memory(c);
    }
    return bad ? CLI_BAD_FILE : CLI_OK;
}

/// A scene that no world can be made of: the first reason, and all that pre-flight has to say of its meshes.
static cli_exit fail_check(cli *c, const qpc_error *err, const char *path, const qpc_value *scene) {
    if (!cli_is_of_input(c, err)) return cli_fail_call(c, err);
    qpc_value data = qpc_map(), found = qpc_nil();
    const qpc_value *said = qpc_client_answered(c->client) ? qpc_client_error_data(c->client) : NULL;
    if (said != NULL && said->kind == QPC_MAP && qpc_value_copy(said, &data) != QPC_OK) return cli_no_memory(c);
    cli_exit code = cli_check_scene_meshes(c, scene, &found);
    if (code == CLI_OK && c->json && !cli_set(&data, "preflight", found)) code = cli_no_memory(c);
    if (code == CLI_OK) {
        code = cli_fail_file(c, err, path, &data);
        cli_print_pairs(stderr, cli_at(&data, "close_pairs"), cli_at(scene, "bodies"));
    }
    if (code == CLI_BAD_FILE && !c->json) {
        const qpc_value *bodies = cli_at(&found, "bodies");
        cli_print_findings(cli_at(&found, "errors"), "error", bodies);
        cli_print_findings(cli_at(&found, "warnings"), "warning", bodies);
    }
    if (!c->json) qpc_value_fini(&found);
    qpc_value_fini(&data);
    return code;
}

/// The answer of a dry run; what it says in lines, or as JSON.
static cli_exit show_check(cli *c, const char *path, const qpc_value *scene, const qpc_value *answer) {
    if (c->json) {
        qpc_value copy;
        if (qpc_value_copy(answer, &copy) != QPC_OK) return cli_no_memory(c);
        cli_exit code = show_preflight(c, scene, NULL, NULL, &copy);
        if (code != CLI_OK && code != CLI_BAD_FILE) {
            qpc_value_fini(&copy);
            return code;
        }
        cli_exit printed = cli_print_json(c, &copy);
        return printed == CLI_OK ? code : printed;
    }
    char name[128];
    scene_name(scene, path, NULL, name, sizeof name);
    cli_exit code = show_preflight(c, scene, name, cli_at(answer, "bodies"), NULL);
    const qpc_value *close_pairs = cli_at(answer, "close_pairs");
    if (close_pairs->kind == QPC_LIST && close_pairs->list.count > 0) {
        int64_t moved = cli_int(answer, "moved_nodes", 0);
        if (moved > 0)
            printf("  pushed out: %lld nodes moved, by up to %g m\n", (long long)moved,
                   cli_real(answer, "largest_move", 0));
        printf("  pairs that %scloser than their thickness at the start%s:\n",
               cli_int(answer, "overlap_count", 0) > 0 ? "intersect or are " : "are ",
               moved > 0 ? " of the scene as given" : "");
        cli_print_pairs(stdout, close_pairs, cli_at(answer, "bodies"));
    }
    return code;
}

cli_exit cli_check(cli *c, int argc, char **argv) {
    const char *use = NULL;
    int64_t list = 0;
    const cli_option options[] = {
        {"use", CLI_TEXT, &use, "USE", "of a mesh: surface, cloth, rigid or soft (default: surface)"},
        {"list", CLI_COUNT, &list, "N", "of a mesh: list up to N elements of a finding"},
        CLI_DATA_OPTION(c), CLI_SERVER_OPTIONS(c), {NULL, CLI_FLAG, NULL, NULL, NULL}};
    static const cli_command command = {
        "check",
        "FILE",
        "Have the server check a scene without making a world of it, or a mesh file: errors apart "
        "from warnings, pairs that start within their thickness, pairs that intersect.",
        1,
        1,
        "Exit code 0: it can be used, perhaps with warnings. 4: it cannot, or has errors."};
    const char *path;
    int count;
    cli_exit code;
    if (!cli_parse(&command, options, argc, argv, &path, &count, &code)) return code;
    if (cli_is_mesh_file(path)) return cli_check_mesh(c, path, use, list);
    qpc_value scene = qpc_nil();
    cli_meshes meshes = {0};
    qpc_error err = {0};
    code = cli_read_scene(c, path, &scene, &meshes);
    if (code == CLI_OK) code = cli_connect(c, true);
    if (code == CLI_OK) code = cli_upload_meshes(c, path, &meshes);
    cli_meshes_fini(&meshes);
    qpc_world_receipt receipt = {0};
    if (code == CLI_OK &&
        qpc_client_world_create(c->client, &scene, NULL, true, &receipt, &err) != QPC_OK) {
        code = fail_check(c, &err, path, &scene);
    } else if (code == CLI_OK) {
        code = show_check(c, path, &scene, receipt.message.value);
    }
    qpc_message_fini(&receipt.message);
    qpc_value_fini(&scene);
    return code;
}
