/// Random worlds in which something driven presses on or pulls at what is free, and what comes of it: gaps, speeds over what the
/// orders explain, pushing out, energy and times. In process, one thread, default settings.
///
///     bench_press_worlds [--kind cables|crossing|boxes|sheets|limits] [--worlds N] [--first SEED] [--verbose]
///
/// cables: one to three of 40 nodes, crossing, under a plate; crossing: two, always the same but for where they cross; boxes: one to three rigid ones, and a cable, under a plate; sheets: a sheet of
/// 8 x 8 nodes, and a cable, under a plate; limits: cables between two pins that are pulled about, with strain limits both ways. A seed
/// always gives the same world. A line a world, then the worst of each kind. See docs/benchmarks.md.
#include "base/json.h"
#include "tests/property/random_world.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { CABLES, CROSSING, BOXES, SHEETS, LIMITS, KINDS } kind;
static const char *const NAMES[KINDS] = {"cables", "crossing", "boxes", "sheets", "limits"};

typedef struct press_world {
    char text[16384];
    size_t used;
    double dt, speed, thickness, height; // of the driver, m/s; least separation and highest start of what is free, m
    int steps, cables;
} press_world;

typedef struct figures {
    double gap, fall, rush, strain, push, pushed, gain, drift, ms; // see print_figures
    int64_t failsafe, unproven, crossings;
    int fall_step, push_step, gain_step;
} figures;

__attribute__((format(printf, 2, 3))) static void add(press_world *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    p->used += (size_t)vsnprintf(p->text + p->used, sizeof p->text - p->used, format, list);
    va_end(list);
}

// ---- scenes ----

static void add_cable(press_world *p, int k, double mass, double radius, const double from[3], const double to[3], int count) {
    add(p,
        ", {'name': 'c%d', 'kind': 'cable', 'mass': %g, 'stiffness': 1e4, 'radius': %g, 'nodes': {'generate': {'kind': 'line', 'from': "
        "[%.9g, %.9g, %.9g], 'to': [%.9g, %.9g, %.9g], 'count': %d}}}",
        k, mass, radius, from[0], from[1], from[2], to[0], to[1], to[2], count);
    p->thickness = fmin(p->thickness, 2 * radius);
    p->height = fmax(p->height, fmax(from[1], to[1]));
}

/// Floor at height 0, and a plate with its face at `face`, shifted aside.
static void begin(press_world *p, random_source *r, const char *extra) {
    static const double STEP[] = {0.002, 0.005, 0.01};
    p->dt = STEP[random_int(r, 0, 2)];
    p->speed = random_log(r, 0.05, 1.0);
    p->thickness = HUGE_VAL;
    add(p, "{'dt': %g, 'gravity': [0, -9.81, 0], ", p->dt);
    if (random_chance(r, 0.4)) add(p, "'contacts': {'friction': %g}, ", random_real(r, 0.1, 0.6));
    add(p, "%s'bodies': [{'name': 'floor', 'kind': 'static', 'position': [0, -0.1, 0], 'mesh': {'generate': {'kind': 'box', 'width': 4, "
           "'height': 0.2, 'depth': 4}}}", extra);
}

static void add_plate(press_world *p, random_source *r, double face) {
    double aside = random_chance(r, 0.5) ? 0.01 : 0.2;
    add(p,
        ", {'name': 'plate', 'kind': 'kinematic', 'position': [%.9g, %.9g, %.9g], 'velocity': [0, %.9g, 0], 'mesh': {'generate': {'kind': "
        "'box', 'width': 1, 'height': 0.2, 'depth': 1}}}",
        random_real(r, -aside, aside), 0.1 + face, random_real(r, -aside, aside), -p->speed);
}

static void make_cables(press_world *p, random_source *r) {
    double radius = random_real(r, 0.008, 0.014), mass = random_log(r, 0.005, 0.1), y = 1.01 * radius;
    begin(p, r, "");
    p->cables = random_int(r, 1, 3);
    for (int k = 0; k < p->cables; k++) {
        double z = k == 2 ? -0.07 : random_real(r, -0.01, 0.01), tilt = random_real(r, -0.02, 0.02), h = k == 1 ? y + 2.02 * radius : y;
        const double along[2][3] = {{-0.4, h, z}, {0.4, h, z + tilt}}, across[2][3] = {{z, h, -0.4}, {z + tilt, h, 0.4}};
        add_cable(p, k, mass, radius, k == 1 ? across[0] : along[0], k == 1 ? across[1] : along[1], 40);
    }
    add_plate(p, r, p->height + radius + random_real(r, 0.001, 0.01));
    p->steps = (int)(0.6 / p->dt);
}

static void make_crossing(press_world *p, random_source *r) {
    static const double SPEED[] = {0.05, 0.1, 0.2, 0.5, 1.0};
    double aside[4], speed = SPEED[random_int(r, 0, 4)];
    bool rubs = random_chance(r, 0.2);
    for (int i = 0; i < 4; i++) aside[i] = random_real(r, -0.02, 0.02);
    *p = (press_world){.dt = random_chance(r, 0.7) ? 0.005 : 0.01, .speed = speed, .thickness = HUGE_VAL};
    add(p, "{'dt': %g, 'gravity': [0, -9.81, 0], %s'bodies': [{'name': 'floor', 'kind': 'static', 'position': [0, -0.1, 0], 'mesh': {'generate': "
           "{'kind': 'box', 'width': 4, 'height': 0.2, 'depth': 4}}}", p->dt, rubs ? "'contacts': {'friction': 0.3}, " : "");
    const double from[2][3] = {{-0.4 + aside[0], 0.0121, aside[1]}, {0.01 + aside[2], 0.0362, -0.4 + aside[3]}};
    const double to[2][3] = {{0.4 + aside[0], 0.0121, 0.02 + aside[1]}, {-0.01 + aside[2], 0.0362, 0.4 + aside[3]}};
    for (int k = 0; k < 2; k++) add_cable(p, k, 0.01, 0.012, from[k], to[k], 40);
    p->cables = 2;
    add_plate(p, r, 0.05);
    p->steps = (int)(1.0 / p->dt);
}

static void make_boxes(press_world *p, random_source *r) {
    int boxes = random_int(r, 1, 3);
    double top = 0, radius = random_real(r, 0.001, 0.004);
    begin(p, r, "");
    for (int k = 0; k < boxes; k++) {
        double size = random_real(r, 0.06, 0.15), high = random_real(r, 0.05, 0.15), yaw = random_real(r, -0.4, 0.4);
        add(p,
            ", {'name': 'b%d', 'kind': 'rigid', 'radius': %g, 'density': %g, 'position': [%.9g, %.9g, %.9g], 'rotation': [%.9g, 0, %.9g, 0], "
            "'mesh': {'generate': {'kind': 'box', 'width': %g, 'height': %g, 'depth': %g}}}",
            k, radius, random_log(r, 200, 4000), random_real(r, -0.02, 0.02), top + 2.01 * radius + 0.5 * high, random_real(r, -0.02, 0.02),
            cos(yaw), sin(yaw), size, high, size);
        p->height = top + 2.01 * radius + 0.5 * high;
        top += 2.01 * radius + high;
        p->thickness = radius;
    }
    if (random_chance(r, 0.3)) {
        double from[3] = {-0.3, top + radius + 0.013, random_real(r, -0.02, 0.02)}, to[3] = {0.3, from[1], random_real(r, -0.02, 0.02)};
        p->cables = 1;
        add_cable(p, 0, 0.02, 0.012, from, to, 30);
        top += 0.026;
    }
    add_plate(p, r, top + radius + random_real(r, 0.001, 0.01));
    p->steps = (int)(0.4 / p->dt);
}

static void make_sheets(press_world *p, random_source *r) {
    double radius = random_real(r, 0.006, 0.01), top = 2.02 * radius;
    begin(p, r, "");
    add(p,
        ", {'name': 's', 'kind': 'cloth', 'mesh': {'generate': {'kind': 'grid', 'columns': 8, 'rows': 8, 'width': 0.5}}, 'mass': %g, "
        "'membrane_stiffness': 1000, 'radius': %g, 'position': [0, %.9g, 0]}",
        random_log(r, 0.03, 0.3), radius, 1.01 * radius);
    p->thickness = radius;
    if (random_chance(r, 0.6)) {
        double from[3] = {-0.3, top + 0.0122, random_real(r, -0.1, 0.1)}, to[3] = {0.3, from[1], random_real(r, -0.1, 0.1)};
        p->cables = 1;
        add_cable(p, 0, 0.01, 0.012, from, to, 30);
        top += 0.0245;
    }
    p->height = top;
    add_plate(p, r, top + random_real(r, 0.001, 0.01));
    p->steps = (int)(0.3 / p->dt);
}

static void make_limits(press_world *p, random_source *r) {
    static const int NEWTON[] = {0, 1, 10};
    static const double STEP[] = {0.002, 0.005, 0.01};
    p->dt = STEP[random_int(r, 0, 2)];
    p->speed = random_log(r, 0.05, 2.0);
    p->thickness = HUGE_VAL;
    p->cables = random_int(r, 1, 2);
    add(p, "{'dt': %g, 'gravity': [0, -9.81, 0], 'solver': {'newton': %d}, 'constraints': [", p->dt, NEWTON[random_int(r, 0, 2)]);
    for (int k = 0; k < p->cables; k++) {
        if (k > 0) add(p, ", ");
        add(p, "{'kind': 'fixed', 'body': 'c%d', 'nodes': [0, -1]}, {'kind': 'strain-limit', 'body': 'c%d', 'min': %g, 'max': %g}", k, k,
            random_real(r, 0.95, 0.99), random_real(r, 1.01, 1.05));
    }
    add(p, "], 'bodies': [{'name': 'far', 'kind': 'static', 'position': [0, -30, 0], 'mesh': {'generate': {'kind': 'box', 'width': 1, 'height': "
           "1, 'depth': 1}}}");
    for (int k = 0; k < p->cables; k++) {
        const double from[3] = {-0.5, 0, 0.1 * k}, to[3] = {0.5, random_real(r, -0.1, 0.1), 0.1 * k};
        add_cable(p, k, random_log(r, 0.01, 1), 0.005, from, to, random_int(r, 5, 30));
    }
    p->steps = (int)(0.8 / p->dt);
}

/// A pull at a pin in about every tenth step; false: none.
static bool make_pull(const press_world *p, random_source *r, char *out, size_t size) {
    if (!random_chance(r, 0.1)) return false;
    (void)snprintf(out, size, "{\"targets\": [{\"body\": \"c%d\", \"node\": %d, \"velocity\": [%.9g, %.9g, %.9g]}]}", random_int(r, 0, p->cables - 1),
                   random_chance(r, 0.5) ? 0 : -1, random_real(r, -p->speed, p->speed), random_real(r, -p->speed, p->speed),
                   random_real(r, -p->speed, p->speed));
    return true;
}

// ---- runs ----

static double explained(const press_world *p) {
    return 1.5 * p->speed + sqrt(2 * 9.81 * p->height) + sqrt(2 * p->thickness * 1.5 * p->speed / p->dt) + 9.81 * p->dt;
}

static void count(const press_world *p, const qpc_step_report *r, double *last_gap, double *last_pushed, figures *f) {
    double push = fabs(r->work_pushed - *last_pushed), fall = *last_gap < HUGE_VAL ? r->min_gap / *last_gap : 1.0;
    if (fall < f->fall) f->fall = fall, f->fall_step = (int)r->step;
    if (push > f->push) f->push = push, f->push_step = (int)r->step;
    if (r->energy_step > f->gain) f->gain = r->energy_step, f->gain_step = (int)r->step;
    f->gap = fmin(f->gap, r->min_gap);
    f->rush = fmax(f->rush, r->max_speed / explained(p));
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

static qpc_status run(kind of, uint64_t seed, bool verbose, figures *f, qpc_error *err) {
    static void (*const make[KINDS])(press_world *, random_source *) = {make_cables, make_crossing, make_boxes, make_sheets, make_limits};
    press_world p = {.used = 0};
    random_source r = {.state = seed * 1000 + (uint64_t)of};
    qpc_test_meshes *meshes = qpc_test_meshes_create();
    qpc_value scene = qpc_nil();
    qpc_watched w = {0};
    double last_gap = HUGE_VAL, last_pushed = 0;
    char pull[512];
    make[of](&p, &r);
    add(&p, "]}");
    if (verbose) printf("%s\n", p.text);
    *f = (figures){.gap = HUGE_VAL, .fall = 1, .gain = -HUGE_VAL, .drift = -HUGE_VAL};
    qpc_status st = qpc_test_scene_text(p.text, meshes, &scene, err);
    if (st == QPC_OK) st = qpc_watched_create(&scene, meshes, &w, NULL, err);
    for (int i = 0; i < p.steps && st == QPC_OK; i++) {
        qpc_step_report report;
        qpc_value control = qpc_nil();
        if (of == LIMITS && make_pull(&p, &r, pull, sizeof pull)) {
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
            for (int k = 0; k < KINDS; k++)
                if (strcmp(argv[i], NAMES[k]) == 0) only = k;
        } else if (value && strcmp(argv[i], "--worlds") == 0) worlds = atoi(argv[++i]);
        else if (value && strcmp(argv[i], "--first") == 0) first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--verbose") == 0) verbose = true;
        else {
            (void)fprintf(stderr, "usage: bench_press_worlds [--kind cables|crossing|boxes|sheets|limits] [--worlds N] [--first SEED] [--verbose]\n");
            return 2;
        }
    }
    for (int k = 0; k < KINDS; k++) {
        figures worst = {.gap = HUGE_VAL, .fall = 1, .gain = -HUGE_VAL, .drift = -HUGE_VAL};
        for (int i = 0; i < worlds && (only < 0 || only == k); i++) {
            figures f;
            qpc_error err = {0};
            if (run((kind)k, first + (uint64_t)i, verbose, &f, &err) != QPC_OK) {
                (void)fprintf(stderr, "%s %llu: %s\n", NAMES[k], first + (unsigned long long)i, err.message);
                return 1;
            }
            printf("%s %llu: ", NAMES[k], first + (unsigned long long)i);
            print_figures(&f);
            worsen(&worst, &f);
        }
        if (only >= 0 && only != k) continue;
        printf("%s, worst of %d worlds: ", NAMES[k], worlds);
        print_figures(&worst);
    }
    return 0;
}
