/// Random worlds in which something driven presses on what is free, or pulls at it. A seed always gives the same world.
///
///   cables    one to three of 40 nodes, crossing, on a floor under a plate
///   crossing  two of them, always the same but for where they cross
///   boxes     one to three rigid ones, and a cable, on each other under a plate
///   sheets    a sheet of 8 x 8 nodes, and a cable, under a plate
///   limits    cables between two pins that are pulled about, with strain limits both ways
#ifndef QPC_TESTS_PROPERTY_PRESS_WORLD_H
#define QPC_TESTS_PROPERTY_PRESS_WORLD_H

#include "tests/property/random_world.h"

typedef enum press_kind { PRESS_CABLES, PRESS_CROSSING, PRESS_BOXES, PRESS_SHEETS, PRESS_LIMITS, PRESS_KINDS } press_kind;

typedef struct press_world {
    press_kind kind;
    random_source source;
    char text[16384]; // JSON with single quotes, disk form
    size_t used;
    double dt, speed, thickness, height; // of the driver, m/s; least separation and highest start of what is free, m
    int steps, cables;
} press_world;

const char *press_kind_name(press_kind kind);
void press_world_make(press_kind kind, uint64_t seed, press_world *ret);
/// The control before the next step as JSON text, in about every tenth one where pins are pulled; false: none.
bool press_world_control(press_world *p, char *out, size_t size);
/// Speed that what drives, falls and slips aside explains, m/s.
double press_world_speed(const press_world *p);

#endif
