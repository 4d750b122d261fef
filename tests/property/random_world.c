// Random scenes, see random_world.h. Lengths follow the thickness of the cables, so that contact,
// self-contact and passing through are as likely at 2 mm as at 40 mm.
#include "tests/property/random_world.h"

#include "engine/solver/solver.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

// ---- numbers ----

uint64_t random_next(random_source *r) { // splitmix64
    uint64_t z = r->state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}
double random_real(random_source *r, double low, double high) {
    return low + (high - low) * (double)(random_next(r) >> 11) * 0x1p-53;
}
double random_log(random_source *r, double low, double high) {
    return exp(random_real(r, log(low), log(high)));
}
int random_int(random_source *r, int low, int high) {
    return low + (int)(random_next(r) % (uint64_t)(high - low + 1));
}
bool random_chance(random_source *r, double probability) {
    return random_real(r, 0, 1) < probability;
}
static void direction(random_source *r, double out[3]) {
    double n;
    do {
        n = 0;
        for (int k = 0; k < 3; k++) out[k] = random_real(r, -1, 1), n += out[k] * out[k];
    } while (n > 1 || n < 1e-3);
    for (int k = 0; k < 3; k++) out[k] /= sqrt(n);
}

const char *random_family_name(random_family family) {
    static const char *const names[] = {"fall",   "fast",   "squeeze", "paddle", "drag",
                                        "limits", "tangle", "inside",  "bare",   "pellets"};
    return family < RANDOM_FAMILY_COUNT ? names[family] : "?";
}

// ---- text ----

typedef struct text {
    char *data;
    size_t used, room;
    bool failed;
} text;
__attribute__((format(printf, 2, 3))) static void say(text *t, const char *format, ...) {
    char piece[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof piece) t->failed = true;
    if (t->failed) return;
    if (t->used + (size_t)n + 1 > t->room) {
        size_t room = 2 * t->room + (size_t)n + 4096;
        char *grown = realloc(t->data, room);
        if (grown == NULL) {
            t->failed = true;
            return;
        }
        t->data = grown;
        t->room = room;
    }
    memcpy(t->data + t->used, piece, (size_t)n + 1);
    t->used += (size_t)n;
}
static void say_vector(text *t, const char *key, const double v[3]) {
    say(t, ", \"%s\": [%.17g, %.17g, %.17g]", key, v[0], v[1], v[2]);
}

// ---- meshes ----

enum { MOST_VERTICES = 400, MOST_TRIANGLES = 400 };
typedef struct draft {
    double x[3 * MOST_VERTICES];
    int32_t t[3 * MOST_TRIANGLES];
    int32_t nx, nt;
} draft;
static int32_t vertex(draft *m, double x, double y, double z) {
    if (m->nx == MOST_VERTICES) return m->nx - 1;
    double *p = m->x + 3 * m->nx;
    p[0] = x, p[1] = y, p[2] = z;
    return m->nx++;
}
static void triangle(draft *m, int32_t a, int32_t b, int32_t c) {
    if (m->nt == MOST_TRIANGLES) return;
    int32_t *t = m->t + 3 * m->nt++;
    t[0] = a, t[1] = b, t[2] = c;
}
static void box(draft *m, double a, double b, double c) {
    static const int32_t faces[12][3] = {{0, 2, 1}, {1, 2, 3}, {4, 5, 6}, {5, 7, 6},
                                         {0, 1, 4}, {1, 5, 4}, {2, 6, 3}, {3, 6, 7},
                                         {0, 4, 2}, {2, 4, 6}, {1, 3, 5}, {3, 7, 5}};
    for (int i = 0; i < 8; i++) vertex(m, i & 1 ? a : -a, i & 2 ? b : -b, i & 4 ? c : -c);
    for (int i = 0; i < 12; i++) triangle(m, faces[i][0], faces[i][1], faces[i][2]);
}
static void cone(draft *m, int sides, double radius, double height) {
    int32_t tip = vertex(m, 0, height, 0), foot = vertex(m, 0, 0, 0);
    for (int i = 0; i < sides; i++) {
        double a = 2 * PI * i / sides;
        vertex(m, radius * cos(a), 0, radius * sin(a));
    }
    for (int i = 0; i < sides; i++) {
        int32_t p = 2 + i, q = 2 + (i + 1) % sides;
        triangle(m, p, tip, q);
        triangle(m, p, q, foot);
    }
}
static void ball(draft *m, int rings, int sides, double radius) {
    int32_t top = vertex(m, 0, radius, 0), bottom = vertex(m, 0, -radius, 0);
    for (int i = 1; i < rings; i++)
        for (int k = 0; k < sides; k++) {
            double a = PI * i / rings, b = 2 * PI * k / sides;
            vertex(m, radius * sin(a) * cos(b), radius * cos(a), radius * sin(a) * sin(b));
        }
    for (int k = 0; k < sides; k++) {
        int32_t next = (k + 1) % sides;
        triangle(m, top, 2 + next, 2 + k);
        for (int i = 0; i < rings - 2; i++) {
            int32_t a = 2 + i * sides, b = a + sides;
            triangle(m, a + k, a + next, b + k);
            triangle(m, a + next, b + next, b + k);
        }
        int32_t last = 2 + (rings - 2) * sides;
        triangle(m, bottom, last + k, last + next);
    }
}
static void sheet(draft *m, double a, double b) {
    vertex(m, -a, 0, -b), vertex(m, a, 0, -b), vertex(m, a, 0, b), vertex(m, -a, 0, b);
    triangle(m, 0, 1, 2);
    triangle(m, 0, 2, 3);
}
static void wedge(draft *m, double width, double height, double length) {
    for (int i = 0; i < 2; i++) {
        double z = i ? length : -length;
        vertex(m, -width, 0, z), vertex(m, width, 0, z), vertex(m, 0, height, z);
    }
    triangle(m, 0, 1, 2), triangle(m, 3, 5, 4);
    triangle(m, 0, 4, 1), triangle(m, 0, 3, 4);
    triangle(m, 1, 5, 2), triangle(m, 1, 4, 5);
    triangle(m, 2, 3, 0), triangle(m, 2, 5, 3);
}
// Zero-area triangles, repeated corners, vertices twice at one place, corners that are not shared.
static void spoil(random_source *r, draft *m) {
    int32_t triangles = m->nt;
    if (random_chance(r, 0.3)) { // a soup
        draft soup = {.nt = 0};
        for (int32_t i = 0; i < 3 * triangles && soup.nx < MOST_VERTICES; i++) {
            const double *p = m->x + 3 * m->t[i];
            soup.t[i] = vertex(&soup, p[0], p[1], p[2]);
            soup.nt = (i + 1) / 3;
        }
        if (soup.nt == triangles) *m = soup;
    }
    for (int i = random_int(r, 0, 3); i > 0; i--) { // one corner of its own
        int32_t at = random_int(r, 0, 3 * triangles - 1);
        const double *p = m->x + 3 * m->t[at];
        m->t[at] = vertex(m, p[0], p[1], p[2]);
    }
    for (int i = random_int(r, 0, 4); i > 0; i--) {
        const int32_t *t = m->t + 3 * random_int(r, 0, triangles - 1);
        const double *a = m->x + 3 * t[0], *b = m->x + 3 * t[1];
        double s = random_real(r, 0, 1);
        switch (random_int(r, 0, 3)) {
        case 0: triangle(m, t[0], t[1], t[0]); break;
        case 1: triangle(m, t[2], t[2], t[2]); break;
        case 2: { // a thin hair along an edge, of (nearly) no area
            int32_t v = vertex(m, a[0] + s * (b[0] - a[0]), a[1] + s * (b[1] - a[1]),
                               a[2] + s * (b[2] - a[2]));
            triangle(m, t[0], v, t[1]);
            break;
        }
        default: { // a needle that sticks out
            int32_t v = vertex(m, a[0] * 1.3, a[1] * 1.3, a[2] * 1.3);
            triangle(m, t[0], v, v);
            break;
        }
        }
    }
}
static void random_mesh(random_source *r, double size, draft *m) {
    m->nx = m->nt = 0;
    switch (random_int(r, 0, 5)) {
    case 0: box(m, size * random_real(r, 0.2, 1), size * random_real(r, 0.05, 1), size); break;
    case 1: ball(m, random_int(r, 2, 9), random_int(r, 3, 12), size * random_real(r, 0.3, 1)); break;
    case 2: sheet(m, size * random_real(r, 0.3, 1.5), size * random_real(r, 0.3, 1.5)); break;
    case 3: cone(m, random_int(r, 3, 8), size * random_log(r, 0.01, 0.5), size); break;
    case 4: wedge(m, size * random_log(r, 0.005, 0.5), size * random_real(r, 0.3, 1), size); break;
    default: ball(m, 2, random_int(r, 3, 5), size * random_real(r, 0.3, 1)); break;
    }
    if (random_chance(r, 0.35)) spoil(r, m);
}
// Appends the body's map, open; the caller adds keys and the brace.
static void solid(text *t, qpc_test_meshes *meshes, const char *kind, const char *name,
                  const draft *m, double radius, const double at[3], const double *rotation) {
    char hash[65];
    qpc_error err;
    if (qpc_test_meshes_add(meshes, m->x, m->nx, m->t, m->nt, 3, hash, &err) != QPC_OK) {
        t->failed = true;
        return;
    }
    say(t, "{\"kind\": \"%s\", \"name\": \"%s\", \"mesh\": {\"sha256\": \"%s\"}", kind, name, hash);
    if (radius > 0) say(t, ", \"radius\": %.17g", radius);
    say_vector(t, "position", at);
    if (rotation != NULL)
        say(t, ", \"rotation\": [%.17g, %.17g, %.17g, %.17g]", rotation[0], rotation[1],
            rotation[2], rotation[3]);
}
static void random_rotation(random_source *r, double q[4]) {
    double n = 0;
    for (int i = 0; i < 4; i++) q[i] = random_real(r, -1, 1), n += q[i] * q[i];
    for (int i = 0; i < 4; i++) q[i] = n > 1e-6 ? q[i] / sqrt(n) : 0.5;
}

// ---- cables ----

// Points of a cable of n particles about `spacing` apart with thickness 2 r around `at`.
static void shape(random_source *r, int kind, int n, double spacing, double radius,
                  const double at[3], double *x) {
    double d[3], u[3], w[3];
    direction(r, d);
    if (kind == 0) d[1] *= 0.2;
    for (int k = 0; k < 3; k++) u[k] = 0;
    u[fabs(d[0]) < 0.7 ? 0 : 1] = 1;
    w[0] = d[1] * u[2] - d[2] * u[1], w[1] = d[2] * u[0] - d[0] * u[2], w[2] = d[0] * u[1] - d[1] * u[0];
    double length = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
    for (int k = 0; k < 3; k++) w[k] /= length;
    u[0] = w[1] * d[2] - w[2] * d[1], u[1] = w[2] * d[0] - w[0] * d[2], u[2] = w[0] * d[1] - w[1] * d[0];
    double turn = fmax(spacing, radius) * random_real(r, 1.2, 4), rise = radius * random_real(r, 2.05, 4);
    double angle = 0, walk[3] = {0, 0, 0}, step[3] = {d[0], d[1], d[2]};
    double wiggle = random_real(r, 0.05, 0.6), knot = n * spacing / 22.0;
    for (int i = 0; i < n; i++) {
        double p = 0, q = 0, s = 0;
        switch (kind) {
        case 0: s = (i - 0.5 * n) * spacing; break; // straight
        case 1:                                      // helix
            p = turn * cos(angle), q = turn * sin(angle), s = rise * angle / (2 * PI);
            angle += spacing / turn;
            break;
        case 2: { // flat spiral
            double out = turn + rise * angle / (2 * PI);
            p = out * cos(angle), q = out * sin(angle);
            angle += spacing / out;
            break;
        }
        case 3: { // trefoil, open at the end
            double a = 2 * PI * 0.96 * i / n;
            p = knot * (sin(a) + 2 * sin(2 * a)), q = knot * (cos(a) - 2 * cos(2 * a));
            s = -knot * sin(3 * a);
            break;
        }
        case 4: // zigzag
            s = 0.8 * spacing * i, p = 0.6 * spacing * (i % 2);
            break;
        default: // a walk that bends
            for (int k = 0; k < 3; k++) {
                walk[k] += spacing * step[k];
                step[k] += wiggle * random_real(r, -1, 1);
            }
            length = sqrt(step[0] * step[0] + step[1] * step[1] + step[2] * step[2]);
            for (int k = 0; k < 3; k++) step[k] /= length > 1e-3 ? length : 1;
            for (int k = 0; k < 3; k++) x[3 * i + k] = at[k] + walk[k];
            continue;
        }
        for (int k = 0; k < 3; k++) x[3 * i + k] = at[k] + p * u[k] + q * w[k] + s * d[k];
    }
}
typedef struct cable_plan {
    int n, kind;
    double radius, spacing;
    double at[3];
    double speed; // m/s, largest
    double steady; // 1/s^2: largest stiffness over mass that the integrator stands
    bool wild_masses;
} cable_plan;
// Returns the least mass of a particle.
static double cable(text *t, random_source *r, int index, const cable_plan *plan) {
    static double x[3 * 64];
    int n = plan->n;
    shape(r, plan->kind, n, plan->spacing, plan->radius, plan->at, x);
    say(t, "{\"kind\": \"cable\", \"name\": \"c%d\", \"radius\": %.17g, \"nodes\": [", index, plan->radius);
    for (int i = 0; i < n; i++)
        say(t, "%s[%.17g, %.17g, %.17g]", i ? ", " : "", x[3 * i], x[3 * i + 1], x[3 * i + 2]);
    double mass = random_log(r, 1e-3, 10);
    if (plan->wild_masses) {
        mass = 1e-3;
        say(t, "], \"mass\": [");
        for (int i = 0; i < n; i++) say(t, "%s%.17g", i ? ", " : "", random_log(r, mass, 1e4));
        say(t, "]");
    } else {
        say(t, "], \"mass\": %.17g", mass);
    }
    if (n > 1) {
        double stiffness = random_log(r, 1e2, 1e7);
        if (random_chance(r, 0.3) && plan->steady > 1e12)
            say(t, ", \"axial_stiffness\": %.17g", random_log(r, 1e2, 1e6));
        else say(t, ", \"stiffness\": %.17g", fmin(stiffness, plan->steady * mass));
        if (random_chance(r, 0.2))
            say(t, ", \"rest_length\": %.17g", plan->spacing * random_real(r, 0.7, 1.4));
        if (random_chance(r, 0.2))
            say(t, ", \"self_exclusion\": %.17g", plan->radius * random_real(r, 0, 8));
    }
    double v[3];
    direction(r, v);
    if (random_chance(r, 0.5)) v[0] *= 0.2, v[1] = -fabs(v[1]), v[2] *= 0.2;
    double speed = random_chance(r, 0.3) ? 0 : random_real(r, 0, plan->speed);
    if (random_chance(r, 0.25) && n > 1) {
        say(t, ", \"velocity\": [");
        for (int i = 0; i < n; i++) {
            direction(r, v);
            say(t, "%s[%.17g, %.17g, %.17g]", i ? ", " : "", speed * v[0], speed * v[1], speed * v[2]);
        }
        say(t, "]}");
        return mass;
    }
    for (int k = 0; k < 3; k++) v[k] *= speed;
    say_vector(t, "velocity", v);
    say(t, "}");
    return mass;
}

// ---- scenes ----

static void head(text *t, random_source *r, random_world *w) {
    static const char *const names[] = {"auto", "augmented-lagrangian", "active-set", "augmented-cg"};
    double gravity[3] = {0, random_chance(r, 0.85) ? -9.81 : 0, 0};
    if (random_chance(r, 0.1))
        for (int k = 0; k < 3; k++) gravity[k] = random_real(r, -30, 30);
    say(t, "{\"dt\": %.17g", w->dt);
    say_vector(t, "gravity", gravity);
    random_source side = {r->state ^ 0x9e3779b97f4a7c15}; // of its own: worlds are otherwise what they were without these
    bool other = random_chance(&side, w->implicit ? 0.3 : 0.5), positions = other && w->implicit && random_chance(&side, 0.5);
    const char *implicit = other && !positions ? "implicit-midpoint" : "implicit-euler";
    say(t, ", \"integrator\": \"%s\"", w->implicit ? implicit : other ? "rk4" : "symplectic-euler");
    int name = random_chance(r, 0.6) ? 0 : random_int(r, 1, 3);
    if (name == 3 && w->nodes > 50) name = 2; // conjugate gradients are slow, and here for comparison only
    say(t, ", \"solver\": {\"name\": \"%s\"", positions ? "position-based" : names[name]);
    w->implicit = w->implicit && !positions; // projections promise no energy
    bool bare = w->family == RANDOM_BARE;
    if (bare || random_chance(r, 0.1)) say(t, ", \"passes\": %d", bare ? 0 : random_int(r, 0, 3));
    if (bare || random_chance(r, 0.1)) say(t, ", \"halvings\": %d", bare ? 0 : random_int(r, 0, 5));
    if (random_chance(r, bare ? 0.3 : 0.1)) say(t, ", \"newton\": %d", random_int(r, 0, 3));
    if (random_chance(r, 0.1)) say(t, ", \"reach\": %.17g", random_real(r, 1.01, 2));
    random_source own = {w->seed * 0x9e3779b97f4a7c15U + 3}, *s = &own; // leaves the other numbers as they are
    bool rubs = random_chance(s, 0.3), bounces = random_chance(s, 0.2);
    if (random_chance(s, 0.1)) say(t, ", \"budget\": %d", random_int(s, 1, 200));
    if (rubs && random_chance(s, 0.4)) say(t, ", \"friction\": \"staggered\"");
    if (bounces && random_chance(s, 0.3)) say(t, ", \"impact\": \"sequential\"");
    say(t, "}");
    if (rubs || bounces)
        say(t, ", \"contacts\": {\"friction\": %.17g, \"restitution\": %.17g}", rubs ? random_log(s, 0.01, 3) : 0,
            bounces ? random_real(s, 0, 1) : 0);
    say(t, ", \"bodies\": [");
}

bool random_world_make(uint64_t seed, qpc_test_meshes *meshes, random_world *ret) {
    static draft m;
    random_source source = {seed * 0x2545f4914f6cdd1dU + 77}, *r = &source;
    random_world w = {.seed = seed, .family = (random_family)(seed % RANDOM_FAMILY_COUNT)};
    text t = {0};
    random_family f = w.family;
    double radius = random_log(r, 0.002, 0.04), spacing = radius * random_log(r, 0.4, 6);
    if (f == RANDOM_INSIDE) spacing = radius * random_log(r, 0.3, 2);
    w.cables = random_chance(r, 0.4) ? 1 : random_int(r, 1, 6);
    if (f == RANDOM_PELLETS) w.cables = random_int(r, 2, 6);
    cable_plan plan[8];
    double longest = 0;
    for (int i = 0; i < w.cables; i++) {
        plan[i] = (cable_plan){.n = random_chance(r, 0.1) ? random_int(r, 1, 3) : random_int(r, 2, 60)};
        if (w.cables > 3) plan[i].n = 1 + plan[i].n / 2;
        if (f == RANDOM_PELLETS) plan[i].n = random_chance(r, 0.6) ? 1 : random_int(r, 1, 12);
        plan[i].radius = random_chance(r, 0.7) ? radius : random_log(r, 0.002, 0.04);
        plan[i].spacing = random_chance(r, 0.7) ? spacing : plan[i].radius * random_log(r, 0.5, 5);
        plan[i].kind = f == RANDOM_TANGLE ? random_int(r, 1, 5)
                       : f == RANDOM_SQUEEZE ? (random_chance(r, 0.6) ? 0 : random_int(r, 0, 5))
                                             : random_int(r, 0, 5);
        plan[i].speed = f == RANDOM_FAST ? 50 : f == RANDOM_INSIDE ? 0.5 : random_log(r, 0.1, 10);
        plan[i].wild_masses = random_chance(r, 0.25);
        w.nodes += plan[i].n;
        longest = fmax(longest, plan[i].n * plan[i].spacing);
    }
    w.size = fmax(0.35 * longest, 8 * radius);
    w.dt = random_log(r, 0.001, 0.03);
    w.implicit = random_chance(r, 0.85);
    for (int i = 0; i < w.cables; i++) // symplectic Euler: dt w < 2, w^2 <= 4 k / m, and dt may change
        plan[i].steady = w.implicit ? 1e30 : 0.25 / (0.03 * 0.03);
    head(&t, r, &w); // what follows does not ask for w.implicit
    // Where the cables are: stacked along y, or as the family wants it.
    double y = 0.3 * w.size;
    for (int i = 0; i < w.cables; i++) {
        double gap = plan[i].radius * (f == RANDOM_INSIDE ? random_real(r, 0.3, 1.8) : random_real(r, 2.1, 8));
        y += gap;
        plan[i].at[0] = random_real(r, -0.2, 0.2) * w.size;
        plan[i].at[1] = y;
        plan[i].at[2] = random_real(r, -0.2, 0.2) * w.size;
        if (plan[i].kind == 1 || plan[i].kind == 3 || plan[i].kind == 5) y += 0.2 * plan[i].n * plan[i].spacing;
        if (i) say(&t, ", ");
        w.mass[i] = cable(&t, r, i, &plan[i]);
        bool wanted = f == RANDOM_DRAG || random_chance(r, f == RANDOM_SQUEEZE || f == RANDOM_LIMITS ? 0.5 : 0.2);
        w.pin[i] = wanted;
        w.two_pins[i] = wanted && plan[i].n > 2 && random_chance(r, 0.4);
        w.pinned += wanted;
    }
    // Obstacles.
    double at[3], q[4], v[3];
    char name[16];
    int obstacles = f == RANDOM_TANGLE ? random_int(r, 0, 1) : random_int(r, 1, 3);
    if (f == RANDOM_SQUEEZE) {
        double thick = 0.1 * w.size + radius;
        m.nx = m.nt = 0;
        box(&m, 2 * w.size, thick, 2 * w.size);
        at[0] = at[2] = 0, at[1] = -thick + random_real(r, -0.3, 0.2) * w.size;
        say(&t, ", ");
        solid(&t, meshes, "static", "wall", &m, 0, at, NULL);
        say(&t, "}");
        obstacles = random_int(r, 0, 1);
        int plates = random_int(r, 1, 2);
        for (int i = 0; i < plates; i++) {
            m.nx = m.nt = 0;
            switch (random_int(r, 0, 2)) {
            case 0: box(&m, w.size, thick, w.size); break;
            case 1: sheet(&m, w.size, w.size); break;
            default: wedge(&m, 0.3 * w.size, -0.5 * w.size, w.size); break;
            }
            at[0] = random_real(r, -0.3, 0.3) * w.size, at[2] = random_real(r, -0.3, 0.3) * w.size;
            at[1] = y + 0.4 * w.size + 3 * thick + i * 3 * thick;
            v[0] = random_real(r, -0.2, 0.2), v[1] = -random_log(r, 0.3, 10) * w.size, v[2] = random_real(r, -0.2, 0.2);
            (void)snprintf(name, sizeof name, "k%d", w.kinematic++);
            say(&t, ", ");
            solid(&t, meshes, "kinematic", name, &m, random_chance(r, 0.3) ? 0.5 * radius : 0, at, NULL);
            say_vector(&t, "velocity", v);
            if (random_chance(r, 0.3)) {
                direction(r, v);
                say_vector(&t, "angular_velocity", v);
            }
            say(&t, "}");
        }
    }
    int paddles = f == RANDOM_PADDLE ? random_int(r, 1, 2) : f == RANDOM_DRAG ? random_int(r, 0, 1) : random_chance(r, 0.1);
    for (int i = 0; i < obstacles + paddles; i++) {
        bool turns = i >= obstacles;
        random_mesh(r, w.size * random_real(r, 0.2, 0.8), &m);
        random_rotation(r, q);
        for (int k = 0; k < 3; k++) at[k] = random_real(r, -0.5, 0.5) * w.size;
        at[1] -= 0.6 * w.size;
        if (f == RANDOM_INSIDE) at[1] += 0.3 * w.size;
        if (turns) at[1] = random_chance(r, 0.5) ? -1.0 * w.size : y + 1.0 * w.size;
        (void)snprintf(name, sizeof name, turns ? "k%d" : "s%d", turns ? w.kinematic++ : i);
        say(&t, ", ");
        solid(&t, meshes, turns ? "kinematic" : "static", name, &m,
              random_chance(r, 0.5) ? random_log(r, 1e-4, 0.01) : 0, at, random_chance(r, 0.7) ? q : NULL);
        if (turns) {
            direction(r, v);
            for (int k = 0; k < 3; k++) v[k] *= random_log(r, 0.1, 30);
            say_vector(&t, "angular_velocity", v);
            direction(r, v);
            for (int k = 0; k < 3; k++) v[k] *= w.size * random_log(r, 0.1, 3);
            say_vector(&t, "velocity", v);
        }
        say(&t, "}");
    }
    say(&t, "]");
    // Pins and limits.
    const char *comma = "";
    if (w.pinned > 0 || f == RANDOM_LIMITS) say(&t, ", \"constraints\": [");
    for (int i = 0; i < w.cables; i++) {
        if (!w.pin[i]) continue;
        say(&t, "%s{\"kind\": \"fixed\", \"body\": \"c%d\", \"nodes\": [0%s]}", comma, i, w.two_pins[i] ? ", -1" : "");
        comma = ", ";
    }
    if (f == RANDOM_LIMITS)
        for (int i = 0; i < w.cables; i++) {
            if (plan[i].n < 2 || !random_chance(r, 0.8)) continue;
            say(&t, "%s{\"kind\": \"strain-limit\", \"body\": \"c%d\"", comma, i);
            int which = random_int(r, 1, 3);
            if (which & 1) say(&t, ", \"max\": %.17g", random_real(r, 1.001, 1.3));
            if (which & 2) say(&t, ", \"min\": %.17g", random_real(r, 0.6, 0.999));
            say(&t, "}");
            comma = ", ";
        }
    if (w.pinned > 0 || f == RANDOM_LIMITS) say(&t, "]");
    say(&t, "}");
    w.scene = t.data;
    w.steps = 60;
    *ret = w;
    if (!t.failed) return true;
    free(t.data);
    ret->scene = NULL;
    return false;
}
void random_world_fini(random_world *world) {
    free(world->scene);
    world->scene = NULL;
}

bool random_world_control(const random_world *w, int step, char *out, size_t size) {
    random_source source = {(w->seed * 1315423911U + 3) ^ ((uint64_t)step << 40)}, *r = &source;
    (void)random_next(r);
    if (step == 0 || !random_chance(r, w->family == RANDOM_DRAG ? 0.25 : 0.07)) return false;
    double v[3];
    direction(r, v);
    for (int tries = 0; tries < 8; tries++) {
        int kind = random_int(r, 0, 6), body = random_int(r, 0, w->cables - 1);
        if (w->family == RANDOM_DRAG && random_chance(r, 0.6)) kind = 1;
        double a = 0;
        switch (kind) {
        case 0:
            a = random_log(r, 0.1, 300) * w->mass[body];
            (void)snprintf(out, size, "{'clear_forces': true, 'forces': [{'body': 'c%d', 'force': [%.17g, %.17g, %.17g]}]}",
                           body, a * v[0], a * v[1], a * v[2]);
            return true;
        case 1: // a target: by velocity, so that no start position is needed
            if (!w->pin[body]) continue;
            a = w->size * random_log(r, 0.3, 20);
            if (random_chance(r, 0.5)) v[0] *= 0.2, v[1] = -fabs(v[1]), v[2] *= 0.2;
            (void)snprintf(out, size, "{'targets': [{'body': 'c%d', 'node': %d, 'velocity': [%.17g, %.17g, %.17g]}]}", body,
                           w->two_pins[body] && random_chance(r, 0.3) ? -1 : 0, a * v[0], a * v[1], a * v[2]);
            return true;
        case 2: // a place, far away in one step
            if (!w->pin[body]) continue;
            a = w->size * random_log(r, 0.01, 1);
            (void)snprintf(out, size, "{'targets': [{'body': 'c%d', 'node': 0, 'position': [%.17g, %.17g, %.17g]}]}", body,
                           a * v[0], a * v[1], a * v[2]);
            return true;
        case 3:
            if (w->kinematic == 0) continue;
            a = w->size * random_log(r, 0.1, 10);
            (void)snprintf(out, size,
                           "{'motions': [{'body': 'k%d', 'velocity': [%.17g, %.17g, %.17g], 'angular_velocity': [%.17g, %.17g, %.17g]}]}",
                           random_int(r, 0, w->kinematic - 1), a * v[0], a * v[1], a * v[2], 5 * v[1], 5 * v[2], -5 * v[0]);
            return true;
        case 4:
            a = random_real(r, 0, 30);
            (void)snprintf(out, size, "{'parameters': {'gravity': [%.17g, %.17g, %.17g]}}", a * v[0], a * v[1], a * v[2]);
            return true;
        case 5:
            (void)snprintf(out, size, "{'parameters': {'dt': %.17g}}", random_log(r, 0.001, 0.03));
            return true;
        default:
            (void)snprintf(out, size, "{'clear_forces': true, 'parameters': {'solver': {'reach': %.17g, 'recovery_speed': %.17g}}}",
                           random_real(r, 1.01, 2), random_log(r, 0.01, 1));
            return true;
        }
    }
    return false;
}
