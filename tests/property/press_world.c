/// See press_world.h.
#include "tests/property/press_world.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static void add(press_world *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    p->used += (size_t)vsnprintf(p->text + p->used, sizeof p->text - p->used, format, list);
    va_end(list);
}

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

bool press_world_control(press_world *p, char *out, size_t size) {
    random_source *r = &p->source;
    if (p->kind != PRESS_LIMITS || !random_chance(r, 0.1)) return false;
    int cable = random_int(r, 0, p->cables - 1), node = random_chance(r, 0.5) ? 0 : -1;
    double v[3];
    for (int a = 0; a < 3; a++) v[a] = random_real(r, -p->speed, p->speed);
    (void)snprintf(out, size, "{\"targets\": [{\"body\": \"c%d\", \"node\": %d, \"velocity\": [%.9g, %.9g, %.9g]}]}", cable, node, v[0], v[1], v[2]);
    return true;
}

const char *press_kind_name(press_kind kind) {
    static const char *const NAMES[PRESS_KINDS] = {"cables", "crossing", "boxes", "sheets", "limits"};
    return NAMES[kind];
}

void press_world_make(press_kind kind, uint64_t seed, press_world *ret) {
    static void (*const MAKE[PRESS_KINDS])(press_world *, random_source *) = {make_cables, make_crossing, make_boxes, make_sheets, make_limits};
    random_source r = {.state = seed * 1000 + (uint64_t)kind};
    *ret = (press_world){.used = 0};
    MAKE[kind](ret, &r);
    add(ret, "]}");
    ret->kind = kind;
    ret->source = r;
}

double press_world_speed(const press_world *p) {
    return 1.5 * p->speed + sqrt(2 * 9.81 * p->height) + sqrt(2 * p->thickness * 1.5 * p->speed / p->dt) + 9.81 * p->dt;
}
