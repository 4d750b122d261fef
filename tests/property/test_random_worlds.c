// Random worlds under the independent checker: `test_random_worlds few | quick | full` (the first 20, 60 or 1000
// worlds: a second, seconds, minutes), `test_random_worlds FROM TO` prints a line for each of these seeds, and
// `test_random_worlds show SEED` prints the scene.
//
// Whatever the scene and the orders: every step returns; nothing crosses, also inside halved steps; every
// number is finite; fixed nodes are where they shall be in every bit; energy is never gained unseen; the
// report says so when a QP was not solved. And a second run, in which steps are made to fail half-way and
// detection has looked elsewhere in between, gives the same bits.
#include "tests/property/random_world.h"

#include "base/json.h"
#include "base/mem.h"
#include "engine/world/world.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_STEPS = 512 };

typedef struct outcome {
    bool made;                 // false: no scene of this seed is free of intersections
    char trouble[256];         // the first promise broken, or empty
    int steps;
    uint64_t hash[MOST_STEPS];
    double worst_ms, all_ms;
    int worst_step;
    qpc_step_report slowest, last;
    double penetration, started_inside, speed, natural, energy_step, energy_drift, lag, pushed;
    int64_t failsafe, halvings, relaxed, limited, stalled, late_allocations, rejected, substeps;
} outcome;

__attribute__((format(printf, 2, 3))) static void trouble(outcome *o, const char *format, ...) {
    if (o->trouble[0] != 0) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(o->trouble, sizeof o->trouble, format, args);
    va_end(args);
}

static void check_finite(const qpc_step_report *r, outcome *o) {
#define FINITE_I(name) (void)r->name
#define FINITE_R(name)                                                                             \
    if (!isfinite(r->name)) trouble(o, "step %lld: " #name " is %g", (long long)r->step, r->name)
#define FINITE(type, name, unit, text) FINITE_##type(name);
    QPC_STEP_FIELDS(FINITE)
}
static double cpu_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
static void control(qpc_world *world, const char *text, outcome *o) {
    char copy[512];
    size_t size = strlen(text);
    for (size_t i = 0; i <= size; i++) copy[i] = text[i] == '\'' ? '"' : text[i];
    qpc_value v;
    qpc_error err = {0};
    if (qpc_json_parse(copy, size, &v, &err) != QPC_OK) {
        trouble(o, "control %s: %s", text, err.message);
        return;
    }
    if (qpc_world_control(world, &v, &err) != QPC_OK) trouble(o, "control %s: %s", text, err.message);
    qpc_value_fini(&v);
}

// ---- steps that are made to fail, and lists that have looked elsewhere ----

static void disturb(qpc_world *world, random_source *r, outcome *o) {
    size_t nodes = (size_t)qpc_world_node_count(world), size = 3 * nodes * sizeof(double);
    double *x = malloc(size), *y = malloc(size);
    qpc_error err;
    if (x == NULL || y == NULL) abort();
    memcpy(x, qpc_world_positions(world), size);
    memcpy(y, x, size);
    if (random_chance(r, 0.5)) { // lists of another motion
        double far = random_log(r, 1e-3, 1);
        for (int32_t i = 0; i < 3 * world->moving_count; i++) y[i] += far * random_real(r, -1, 1);
        qpc_status st = qpc_detect_motion(world->detector, x, y, random_real(r, 0.1, 1), &world->probe, &err);
        if (st == QPC_OK && random_chance(r, 0.5))
            st = qpc_detect_proximity(world->detector, y, random_real(r, 1, 2), &world->probe, &err);
        if (st != QPC_OK && st != QPC_ERR_LIMIT) trouble(o, "disturbed detection: %s", err.message);
    }
    if (random_chance(r, 0.5)) { // a step that runs out of memory somewhere
        uint64_t hash = qpc_world_hash(world);
        qpc_step_report report;
        qpc_arena_fini(&world->arena); // so that there is something to allocate
        qpc_mem_fail_at((uint64_t)random_int(r, 1, 12), random_chance(r, 0.5));
        qpc_status st = qpc_world_step(world, &report, &err);
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        if (st == QPC_OK) {
            if (!failed) goto out; // more memory than was taken: the step went through
        } else if (st != QPC_ERR_MEMORY) {
            trouble(o, "a step without memory: %s: %s", qpc_status_name(st), err.message);
        } else if (qpc_world_hash(world) != hash || memcmp(x, qpc_world_positions(world), size) != 0) {
            trouble(o, "a step without memory changed the world");
        }
        if (st != QPC_OK) o->rejected++;
    }
out:
    free(x);
    free(y);
}

// ---- one world ----

typedef struct pin_watch { // by cable and end
    bool there, told;      // a target by control: may lag
    double at[3];
} pin_watch;

static void check_pins(const random_world *rw, const qpc_world *world, pin_watch pins[8][2], outcome *o) {
    for (int i = 0; i < rw->cables; i++)
        for (int end = 0; end < 2; end++) {
            pin_watch *p = &pins[i][end];
            if (!p->there || p->told) continue;
            qpc_body_info body = qpc_world_body(world, i);
            const double *x = qpc_world_positions(world) + 3 * (body.first_node + (end ? body.node_count - 1 : 0));
            if (memcmp(x, p->at, sizeof p->at) != 0)
                trouble(o, "step %lld: fixed node of c%d moved by %g", (long long)qpc_world_step_number(world), i,
                        fabs(x[0] - p->at[0]) + fabs(x[1] - p->at[1]) + fabs(x[2] - p->at[2]));
        }
}
static void check_step(const random_world *rw, const qpc_world *world, const qpc_step_report *r, double ms, int step,
                       bool controlled, outcome *o) {
    check_finite(r, o);
    if (ms > o->worst_ms) o->worst_ms = ms, o->worst_step = step, o->slowest = *r;
    o->all_ms += ms;
    o->speed = fmax(o->speed, r->max_speed);
    o->natural = fmax(o->natural, r->natural_ratio);
    o->lag = fmax(o->lag, r->lag);
    o->pushed = fmax(o->pushed, r->work_pushed / fmax(r->energy_scale, 1e-12));
    o->failsafe += r->failsafe;
    o->halvings += r->halvings;
    o->relaxed += r->outcome == QPC_STEP_RELAXED;
    o->limited += r->outcome == QPC_STEP_ITERATION_LIMIT;
    o->stalled += r->outcome == QPC_STEP_STALLED;
    if (step > rw->steps / 2) o->late_allocations += r->allocations;
    if (r->natural_ratio > 1e-7 * 1.000001 && r->outcome == QPC_STEP_OPTIMAL)
        trouble(o, "step %d: optimal with natural ratio %g", step, r->natural_ratio);
    if (r->stat > 1e-6 && r->outcome == QPC_STEP_OPTIMAL) trouble(o, "step %d: optimal with stat %g", step, r->stat);
    if (rw->implicit && r->outcome == QPC_STEP_OPTIMAL && r->halvings == 0) {
        o->energy_step = fmax(o->energy_step, r->energy_step);
        o->energy_drift = fmax(o->energy_drift, r->energy_drift);
        if (r->energy_step > 1e-6 || r->energy_drift > 1e-6)
            trouble(o, "step %d: energy step %g drift %g unreported", step, r->energy_step, r->energy_drift);
    }
    if ((r->failsafe > 0) != (r->failsafe_scale < 1))
        trouble(o, "step %d: fail-safe %lld, scale %g", step, (long long)r->failsafe, r->failsafe_scale);
    if (r->failsafe > 0 && r->outcome != QPC_STEP_FAILSAFE) trouble(o, "step %d: fail-safe not in the outcome", step);
    // Pairs not decided count as hits: a motion is proven in spite of them, or is not taken over.
    if (r->proven != 1)
        trouble(o, "step %d: proven %lld, %lld pairs not decided", step, (long long)r->proven, (long long)r->ccd_uncertain);
    if (r->step != qpc_world_step_number(world) || r->hash != (int64_t)qpc_world_hash(world))
        trouble(o, "step %d: report of another step", step);
    (void)controlled;
}

static void print_step(int step, double ms, const qpc_step_report *r) {
    printf("%4d %7.2f ms out %lld %lld pass %lld newt %lld halv %lld fs %lld %.2g toi %.2g | cont %lld act %lld rows %lld it "
           "%lld fb %lld | nat %.0e relax %.0e gap %.3f lag %.1e | E %.3e K %.1e W %.1e push %.1e scale %.1e dE %.0e "
           "%.0e | v %.3g strain %.1e\n",
           step, ms, (long long)r->outcome, (long long)r->engine, (long long)r->passes, (long long)r->newton,
           (long long)r->halvings, (long long)r->failsafe, r->failsafe_scale, r->toi_margin, (long long)r->contacts,
           (long long)r->active, (long long)r->rows, (long long)r->solver_iterations, (long long)r->fallbacks, r->natural_ratio,
           r->relaxed, r->min_gap, r->lag, r->kinetic + r->potential + r->elastic, r->kinetic, r->work, r->work_pushed,
           r->energy_scale, r->energy_step, r->energy_drift, r->max_speed, r->max_strain);
}

static bool build(uint64_t seed, random_world *rw, qpc_test_meshes **meshes, qpc_value *scene, qpc_watched *w) {
    qpc_error err = {0};
    *meshes = qpc_test_meshes_create();
    if (*meshes == NULL || !random_world_make(seed, *meshes, rw)) abort();
    qpc_status st = qpc_test_scene_text(rw->scene, *meshes, scene, &err);
    if (st != QPC_OK) {
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, err.message);
        abort();
    }
    st = qpc_watched_create(scene, *meshes, w, NULL, &err);
    if (st == QPC_OK) return true;
    if (strstr(err.message, "intersect at the start") == NULL)
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, err.message);
    qpc_value_fini(scene);
    qpc_test_meshes_destroy(*meshes);
    random_world_fini(rw);
    return false;
}

static void run(uint64_t seed, bool disturbed, bool verbose, outcome *o) {
    random_world rw;
    qpc_test_meshes *meshes;
    qpc_value scene;
    qpc_watched w;
    memset(o, 0, sizeof *o);
    if (!build(seed, &rw, &meshes, &scene, &w)) return;
    o->made = true;
    random_source r = {seed ^ 0xabcdef};
    pin_watch pins[8][2] = {{{false, false, {0}}}};
    for (int i = 0; i < rw.cables; i++)
        for (int end = 0; end < 2; end++) {
            qpc_body_info body = qpc_world_body(w.world, i);
            pins[i][end].there = end ? rw.two_pins[i] : rw.pin[i];
            memcpy(pins[i][end].at, qpc_world_positions(w.world) + 3 * (body.first_node + (end ? body.node_count - 1 : 0)),
                   sizeof pins[i][end].at);
        }
    o->started_inside = w.found.worst_penetration;
    for (int i = 0; i < rw.steps && o->trouble[0] == 0; i++) {
        char text[512];
        bool controlled = random_world_control(&rw, i, text, sizeof text);
        if (controlled) {
            if (verbose) printf("  %s\n", text);
            control(w.world, text, o);
            int body, node;
            if (sscanf(text, "{'targets': [{'body': 'c%d', 'node': %d", &body, &node) == 2)
                pins[body][node < 0].told = true;
        }
        int64_t before = qpc_world_step_number(w.world);
        if (disturbed) disturb(w.world, &r, o);
        qpc_error err = {0};
        qpc_step_report report;
        if (qpc_world_step_number(w.world) == before) { // a disturbed step may have gone through
            double t = cpu_ms();
            qpc_status st = qpc_world_step(w.world, &report, &err);
            t = cpu_ms() - t;
            if (st != QPC_OK) {
                trouble(o, "step %d: %s: %s", i + 1, qpc_status_name(st), err.message);
                break;
            }
            o->last = report;
            if (!disturbed) check_step(&rw, w.world, &report, t, i + 1, controlled, o);
            if (verbose)
                print_step(i + 1, t, &report);
        }
        (void)qpc_check_scene_next(&w.check, qpc_world_positions(w.world), &w.found);
        if (w.found.crossings + w.found.intersections + w.found.undecided > 0) {
            const qpc_finding *f = &w.found.finding[0];
            trouble(o, "step %d: %lld crossings, %lld intersections: body %d edge %d, body %d feature %d, time %g", i + 1,
                    (long long)w.found.crossings, (long long)w.found.intersections, f->body[0], f->feature[0], f->body[1],
                    f->feature[1], f->time);
        }
        check_pins(&rw, w.world, pins, o);
        o->hash[i] = qpc_world_hash(w.world);
        o->steps = i + 1;
    }
    o->penetration = w.found.worst_penetration;
    o->substeps = w.substeps;
    qpc_watched_fini(&w);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    random_world_fini(&rw);
}

static void check_again(uint64_t seed, outcome *first) {
    static outcome again;
    run(seed, true, false, &again);
    first->rejected = again.rejected;
    if (again.trouble[0] != 0) trouble(first, "second run: %s", again.trouble);
    for (int i = 0; i < first->steps && i < again.steps; i++)
        if (first->hash[i] != again.hash[i]) {
            trouble(first, "step %d: other bits in the second run", i + 1);
            break;
        }
}

// ---- many worlds ----

static int worlds_of(uint64_t from, uint64_t to, bool lines) {
    static outcome o;
    int broken = 0, made = 0;
    double worst = 0;
    uint64_t worst_seed = 0;
    int64_t failsafe = 0, halvings = 0, relaxed = 0, rejected = 0, steps = 0, substeps = 0;
    for (uint64_t seed = from; seed < to; seed++) {
        run(seed, false, false, &o);
        if (!o.made) continue;
        made++;
        if (o.trouble[0] == 0) check_again(seed, &o);
        if (o.worst_ms > worst) worst = o.worst_ms, worst_seed = seed;
        failsafe += o.failsafe, halvings += o.halvings, relaxed += o.relaxed, rejected += o.rejected;
        steps += o.steps, substeps += o.substeps;
        if (o.trouble[0] != 0) broken++;
        if (lines || o.trouble[0] != 0)
            printf("%6llu %-8s %3d steps %8.3f ms worst %8.2f ms | pen %.3f from %.3f v %.3g nat %.0e dE %.0e %.0e push %.1e lag %.1e | fs %lld halv "
                   "%lld relax %lld lim %lld stall %lld rej %lld alloc %lld %s%s\n",
                   (unsigned long long)seed, random_family_name((random_family)(seed % RANDOM_FAMILY_COUNT)), o.steps,
                   o.all_ms / (o.steps > 0 ? o.steps : 1), o.worst_ms, o.penetration, o.started_inside, o.speed, o.natural, o.energy_step, o.energy_drift,
                   o.pushed, o.lag, (long long)o.failsafe, (long long)o.halvings, (long long)o.relaxed, (long long)o.limited,
                   (long long)o.stalled, (long long)o.rejected, (long long)o.late_allocations,
                   o.trouble[0] ? "BROKEN " : "", o.trouble);
        (void)fflush(stdout);
    }
    printf("%d worlds of %lld, %lld steps, %lld states inside steps: fail-safe %lld, halved %lld, relaxed %lld, made to "
           "fail %lld; slowest step %.1f ms (seed %llu); %d broken\n",
           made, (long long)(to - from), (long long)steps, (long long)substeps, (long long)failsafe,
           (long long)halvings, (long long)relaxed, (long long)rejected, worst, (unsigned long long)worst_seed, broken);
    return broken;
}
static uint64_t range[2];
static void random_worlds_keep_their_promises(void **state) {
    (void)state;
    assert_int_equal(worlds_of(range[0], range[1], false), 0);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "show") == 0) {
        random_world w;
        qpc_test_meshes *meshes = qpc_test_meshes_create();
        if (meshes == NULL || !random_world_make(strtoull(argv[2], NULL, 10), meshes, &w)) return 1;
        puts(w.scene);
        random_world_fini(&w);
        qpc_test_meshes_destroy(meshes);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "run") == 0) {
        static outcome o;
        run(strtoull(argv[2], NULL, 10), false, true, &o);
        printf("%s\n", o.trouble);
        return 0;
    }
    if (argc == 3) return worlds_of(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), true) != 0;
    if (argc != 2 || (strcmp(argv[1], "few") != 0 && strcmp(argv[1], "quick") != 0 && strcmp(argv[1], "full") != 0)) {
        fprintf(stderr, "usage: %s few | quick | full | FROM TO | run SEED | show SEED\n", argv[0]);
        return 2;
    }
    range[0] = 0;
    range[1] = strcmp(argv[1], "few") == 0 ? 20 : strcmp(argv[1], "quick") == 0 ? 60 : 1000; // families take turns
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_worlds_keep_their_promises)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
