/// Random worlds in which something driven presses on or pulls at what is free, and what comes of it: gaps, speeds over what the
/// orders explain, pushing out, energy and times. In process, one thread, default settings.
///
///     bench_press_worlds [--kind cables|crossing|boxes|sheets|limits] [--worlds N] [--first SEED] [--verbose]
///
/// Kinds are described in tests/property/press_world.h. A line a world, then the worst of each kind. See docs/benchmarks.md.
#include "base/json.h"
#include "tests/property/press_world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct figures {
    double gap, fall, rush, strain, push, pushed, gain, drift, ms; // see print_figures
    int64_t failsafe, unproven, crossings;
    int fall_step, push_step, gain_step;
} figures;

// ---- runs ----

static void count(const press_world *p, const qpc_step_report *r, double *last_gap, double *last_pushed, figures *f) {
    double push = fabs(r->work_pushed - *last_pushed), fall = *last_gap < HUGE_VAL ? r->min_gap / *last_gap : 1.0;
    if (fall < f->fall) f->fall = fall, f->fall_step = (int)r->step;
    if (push > f->push) f->push = push, f->push_step = (int)r->step;
    if (r->energy_step > f->gain) f->gain = r->energy_step, f->gain_step = (int)r->step;
    f->gap = fmin(f->gap, r->min_gap);
    f->rush = fmax(f->rush, r->max_speed / press_world_speed(p));
    f->strain = fmax(f->strain, r->max_strain);
    f->pushed = fmax(f->pushed, fabs(r->work_pushed));
    f->drift = fmax(f->drift, r->energy_drift);
    f->ms = fmax(f->ms, 1e-6 * (double)r->ns_total);
    f->failsafe += r->failsafe > 0;
    f->unproven += 1 - r->proven;
    *last_gap = r->min_gap;
    *last_pushed = r->work_pushed;
}

static void print_step(const qpc_step_report *r) {
    printf("  %lld: gap %.4f speed %.3g strain %.3g kinetic %.3g elastic %.3g work %.3g pushed %.3g energy %.1e outcome %lld failsafe %lld %.2g "
           "halvings %lld relaxed %.2g conflicts %lld lag %.2g passes %lld rows %lld, %.1f ms\n",
           (long long)r->step, r->min_gap, r->max_speed, r->max_strain, r->kinetic, r->elastic, r->work, r->work_pushed, r->energy_step,
           (long long)r->outcome, (long long)r->failsafe, r->failsafe_scale, (long long)r->halvings, r->relaxed, (long long)r->conflicts, r->lag,
           (long long)r->passes, (long long)r->rows, 1e-6 * (double)r->ns_total);
}

static void print_figures(const figures *f) {
    printf("gap %.4f, in a step times %.3f (%d); speed %.2f of explained, strain %.3g; pushed %.2g J in a step (%d), %.2g in all; energy step "
           "%.1e (%d) drift %.1e; %.0f ms; fail-safe %lld, unproven %lld, crossings %lld\n",
           f->gap, f->fall, f->fall_step, f->rush, f->strain, f->push, f->push_step, f->pushed, f->gain, f->gain_step, f->drift, f->ms,
           (long long)f->failsafe, (long long)f->unproven, (long long)f->crossings);
    (void)fflush(stdout);
}

static qpc_status run(press_kind of, uint64_t seed, bool verbose, figures *f, qpc_error *err) {
    press_world p;
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_watched w = {0};
    double last_gap = HUGE_VAL, last_pushed = 0;
    char pull[512];
    press_world_make(of, seed, &p);
    if (verbose) printf("%s\n", p.text);
    *f = (figures){.gap = HUGE_VAL, .fall = 1, .gain = -HUGE_VAL, .drift = -HUGE_VAL};
    qpc_status st = qpc_test_scene_text(p.text, meshes, &scene, err);
    if (st == QPC_OK) st = qpc_watched_create(&scene, meshes, &w, NULL, err);
    for (int i = 0; i < p.steps && st == QPC_OK; i++) {
        qpc_step_report report;
        qpc_value control = qpc_nil();
        if (press_world_control(&p, pull, sizeof pull)) {
            st = qpc_json_parse(pull, strlen(pull), &control, err);
            if (st == QPC_OK) st = qpc_world_control(w.world, &control, err);
            qpc_value_fini(&control);
            if (verbose) printf("  %s\n", pull);
        }
        if (st == QPC_OK) st = qpc_watched_step(&w, &report, err);
        if (st != QPC_OK) break;
        count(&p, &report, &last_gap, &last_pushed, f);
        if (verbose) print_step(&report);
    }
    f->crossings = w.found.crossings + w.found.intersections;
    if (w.world != NULL) qpc_watched_fini(&w);
    qpc_value_fini(&scene);
    qpc_test_meshes_destroy(meshes);
    return st;
}

static void worsen(figures *a, const figures *b) {
    a->gap = fmin(a->gap, b->gap);
    a->fall = fmin(a->fall, b->fall);
    a->rush = fmax(a->rush, b->rush);
    a->strain = fmax(a->strain, b->strain);
    a->push = fmax(a->push, b->push);
    a->pushed = fmax(a->pushed, b->pushed);
    a->gain = fmax(a->gain, b->gain);
    a->drift = fmax(a->drift, b->drift);
    a->ms = fmax(a->ms, b->ms);
    a->failsafe += b->failsafe;
    a->unproven += b->unproven;
    a->crossings += b->crossings;
}

int main(int argc, char **argv) {
    int only = -1, worlds = 40;
    unsigned long long first = 1;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        bool value = i + 1 < argc;
        if (value && strcmp(argv[i], "--kind") == 0) {
            i++;
            for (int k = 0; k < PRESS_KINDS; k++)
                if (strcmp(argv[i], press_kind_name((press_kind)k)) == 0) only = k;
        } else if (value && strcmp(argv[i], "--worlds") == 0) worlds = atoi(argv[++i]);
        else if (value && strcmp(argv[i], "--first") == 0) first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--verbose") == 0) verbose = true;
        else {
            (void)fprintf(stderr, "usage: bench_press_worlds [--kind cables|crossing|boxes|sheets|limits] [--worlds N] [--first SEED] [--verbose]\n");
            return 2;
        }
    }
    for (int k = 0; k < PRESS_KINDS; k++) {
        figures worst = {.gap = HUGE_VAL, .fall = 1, .gain = -HUGE_VAL, .drift = -HUGE_VAL};
        for (int i = 0; i < worlds && (only < 0 || only == k); i++) {
            figures f;
            qpc_error err = {0};
            if (run((press_kind)k, first + (uint64_t)i, verbose, &f, &err) != QPC_OK) {
                (void)fprintf(stderr, "%s %llu: %s\n", press_kind_name((press_kind)k), first + (unsigned long long)i, err.message);
                return 1;
            }
            printf("%s %llu: ", press_kind_name((press_kind)k), first + (unsigned long long)i);
            print_figures(&f);
            worsen(&worst, &f);
        }
        if (only >= 0 && only != k) continue;
        printf("%s, worst of %d worlds: ", press_kind_name((press_kind)k), worlds);
        print_figures(&worst);
    }
    return 0;
}
