/// Random and nasty scenes from a number: cables of all shapes, masses and stiffnesses over, under
/// and between meshes that are spiked, thin, broken or driven, and the controls that come while
/// they run. The same number gives the same scene and the same controls. Memory by malloc.
#ifndef QPC_TESTS_PROPERTY_RANDOM_WORLD_H
#define QPC_TESTS_PROPERTY_RANDOM_WORLD_H

#include "tests/support/scenes.h"

typedef enum random_family {
    RANDOM_FALL,    // shapes fall on obstacles
    RANDOM_FAST,    // the same at up to 50 m/s
    RANDOM_SQUEEZE, // a driven box pushes cables against a static one, also pinned ones
    RANDOM_PADDLE,  // turning meshes
    RANDOM_DRAG,    // targets of fixed nodes lead through meshes
    RANDOM_LIMITS,  // strain limits both ways, also ones that contradict the pins
    RANDOM_TANGLE,  // knots, coils and helices that fall on themselves and each other
    RANDOM_INSIDE,  // starts within thickness
    RANDOM_BARE,    // no passes, no halvings: the fail-safe alone
    RANDOM_PELLETS, // cables of one particle
    RANDOM_FAMILY_COUNT
} random_family;

typedef struct random_world {
    uint64_t seed;
    random_family family;
    char *scene; // JSON, wire form
    int steps;
    bool implicit;     // the energy test applies
    int cables, nodes; // nodes of the cables
    int pinned;        // cables with a fixed first node
    bool pin[8];       // by cable
    bool two_pins[8];  // the last node is fixed as well
    int kinematic;     // bodies "k0", "k1", ...
    double size;       // m, of the cables
    double dt;
    double mass[8]; // kg, of the lightest particle of each cable
} random_world;

const char *random_family_name(random_family family);
/// Meshes go to the store. False: memory.
bool random_world_make(uint64_t seed, qpc_test_meshes *meshes, random_world *ret);
void random_world_fini(random_world *world);
/// The control before this step (from 0) as JSON text into out, or false: none.
bool random_world_control(const random_world *world, int step, char *out, size_t size);

typedef struct random_source {
    uint64_t state;
} random_source;
uint64_t random_next(random_source *r);
double random_real(random_source *r, double low, double high);
double random_log(random_source *r, double low, double high); // log-uniform
int random_int(random_source *r, int low, int high);          // both included
bool random_chance(random_source *r, double probability);

#endif
