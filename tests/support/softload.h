/// Loads and supports of a box of tetrahedra along x, for linear problems at its rest shape.
#ifndef QPC_TESTS_SUPPORT_SOFTLOAD_H
#define QPC_TESTS_SUPPORT_SOFTLOAD_H

#include "tests/support/check.h"
#include "tests/support/softbox.h"

typedef struct softload { // (3 n) each
    double *load, *u, *support;
    uint8_t *held;
} softload;

static inline softload softload_make(const softbox *b) {
    size_t n = 3 * (size_t)b->nodes;
    softload s = {calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, 1)};
    assert_true(s.load != NULL && s.u != NULL && s.support != NULL && s.held != NULL);
    return s;
}

static inline void softload_fini(softload *s) {
    free(s->load);
    free(s->u);
    free(s->support);
    free(s->held);
}

static inline bool softload_at_end(const softbox *b, int32_t node, int axis) {
    return b->x[3 * node + axis] > b->size[axis] * (1 - 1e-9);
}

/// A force spread evenly over the face x = L: a third of each triangle's share to each of its corners.
static inline void softload_end(const softbox *b, const double force[3], double *load) {
    double face = b->size[1] * b->size[2];
    for (int32_t e = 0; e < b->count; e++) {
        const int32_t *n = b->tet + 4 * e;
        int32_t corner[4];
        int count = 0;
        for (int a = 0; a < 4; a++)
            if (softload_at_end(b, n[a], 0)) corner[count++] = n[a];
        if (count != 3) continue;
        const double *p[3] = {b->x + 3 * corner[0], b->x + 3 * corner[1], b->x + 3 * corner[2]};
        double area = 0.5 * fabs((p[1][1] - p[0][1]) * (p[2][2] - p[0][2]) - (p[1][2] - p[0][2]) * (p[2][1] - p[0][1]));
        for (int c = 0; c < 3; c++)
            for (int r = 0; r < 3; r++) load[3 * corner[c] + r] += force[r] * area / face / 3;
    }
}

/// Lumped weight along an axis, N.
static inline double softload_weight(const softbox *b, double density, double gravity, int axis, double *load) {
    double *mass = calloc((size_t)b->nodes, sizeof *mass), sum = 0;
    assert_non_null(mass);
    qpc_tet_rest_masses(&b->rest, b->tet, density, mass);
    for (int32_t i = 0; i < b->nodes; i++) {
        load[3 * i + axis] += mass[i] * gravity;
        sum += mass[i] * gravity;
    }
    free(mass);
    return sum;
}

static inline void softload_solve(softbox *b, softload *s) {
    qpc_error err = {0};
    assert_ok(softbox_solve(b, s->load, s->held, s->u, s->support, &err), &err);
}

/// Mean of one component over the face x = L.
static inline double softload_mean_at_end(const softbox *b, const double *u, int axis) {
    double sum = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < b->nodes; i++)
        if (softload_at_end(b, i, 0)) {
            sum += u[3 * i + axis];
            count++;
        }
    return sum / count;
}

#endif
