/// Generators of test geometry; see generate.h.
#include "tests/support/generate.h"

#include <math.h>

void generated_fini(generated *g) {
    qpc_array_fini(&g->x);
    qpc_array_fini(&g->triangle);
}

static bool vertex(generated *g, double x, double y, double z) {
    return qpc_array_push(&g->x, x) && qpc_array_push(&g->x, y) && qpc_array_push(&g->x, z);
}

static bool triangle(generated *g, int32_t a, int32_t b, int32_t c) {
    return qpc_array_push(&g->triangle, a) && qpc_array_push(&g->triangle, b) &&
           qpc_array_push(&g->triangle, c);
}

qpc_mesh *generated_mesh(const generated *g) {
    qpc_mesh *mesh = NULL;
    if (qpc_mesh_create(g->x.data, g->x.count / 3, g->triangle.data, g->triangle.count / 3, 3, NULL,
                        &mesh, NULL, NULL) != QPC_OK)
        return NULL;
    return mesh;
}

bool generate_sheave(generated *g) {
    enum { CORNERS = 15, POINTS = 70, TURNS = 98 };
    // Closed profile in (rho, z): groove arc, flanges, hub.
    double corner[CORNERS][2], groove = 0.06, pi = acos(-1.0);
    for (int i = 0; i <= 8; i++) {
        double a = (-81 + 162.0 * i / 8) * pi / 180;
        corner[i][0] = 1 + groove - groove * cos(a);
        corner[i][1] = groove * sin(a);
    }
    const double rest[6][2] = {{1.12, 0.085}, {1.12, 0.1},  {0.2, 0.1},
                               {0.2, -0.1},   {1.12, -0.1}, {1.12, -0.085}};
    for (int i = 0; i < 6; i++) corner[9 + i][0] = rest[i][0], corner[9 + i][1] = rest[i][1];
    // Resample: keep the corners, share the other points out by length, one at a time.
    double length[CORNERS];
    int parts[CORNERS], used = CORNERS;
    for (int i = 0; i < CORNERS; i++) {
        const double *a = corner[i], *b = corner[(i + 1) % CORNERS];
        length[i] = hypot(b[0] - a[0], b[1] - a[1]);
        parts[i] = 1;
    }
    for (; used < POINTS; used++) {
        int longest = 0;
        for (int i = 1; i < CORNERS; i++)
            if (length[i] / parts[i] > length[longest] / parts[longest]) longest = i;
        parts[longest]++;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        double phi = 2 * pi * turn / TURNS;
        for (int i = 0; i < CORNERS; i++)
            for (int k = 0; k < parts[i]; k++) {
                const double *a = corner[i], *b = corner[(i + 1) % CORNERS];
                double s = (double)k / parts[i], rho = a[0] + s * (b[0] - a[0]);
                if (!vertex(g, rho * cos(phi), rho * sin(phi), a[1] + s * (b[1] - a[1])))
                    return false;
            }
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < POINTS; i++) {
            int32_t a = turn * POINTS + i, b = turn * POINTS + (i + 1) % POINTS;
            int32_t c = (turn + 1) % TURNS * POINTS + i,
                    d = (turn + 1) % TURNS * POINTS + (i + 1) % POINTS;
            if (!triangle(g, a, c, b) || !triangle(g, b, c, d)) return false;
        }
    // Split one hub edge: two triangles become four.
    int32_t hub = 0;
    while (!(fabs(hypot(g->x.data[3 * hub], g->x.data[3 * hub + 1]) - 0.2) < 1e-9 &&
             fabs(g->x.data[3 * hub + 2]) < 0.09))
        hub++;
    int32_t p = hub, q = hub + 1, middle = g->x.count / 3;
    double half[3];
    for (int d = 0; d < 3; d++) half[d] = 0.5 * (g->x.data[3 * p + d] + g->x.data[3 * q + d]);
    if (!vertex(g, half[0], half[1], half[2])) return false;
    for (int32_t t = 0, n = g->triangle.count / 3; t < n; t++) {
        int32_t v[3] = {g->triangle.data[3 * t], g->triangle.data[3 * t + 1],
                        g->triangle.data[3 * t + 2]};
        int at_p = -1, at_q = -1;
        for (int k = 0; k < 3; k++) {
            if (v[k] == p) at_p = k;
            if (v[k] == q) at_q = k;
        }
        if (at_p < 0 || at_q < 0) continue;
        g->triangle.data[3 * t + at_q] = middle;
        v[at_p] = middle;
        if (!triangle(g, v[0], v[1], v[2])) return false;
    }
    return true;
}

bool generate_sheet(generated *g, int nx, int ny, double h, double x0, double y0) {
    for (int j = 0; j <= ny; j++)
        for (int i = 0; i <= nx; i++)
            if (!vertex(g, x0 + i * h, y0 + j * h, 0)) return false;
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            int32_t a = j * (nx + 1) + i, b = a + 1, c = a + nx + 1, d = c + 1;
            if (!triangle(g, a, b, d) || !triangle(g, a, d, c)) return false;
        }
    return true;
}

bool generate_sphere(generated *g, int n, double radius) {
    double pi = acos(-1.0);
    int m = n; // meridians
    if (!vertex(g, 0, 0, radius) || !vertex(g, 0, 0, -radius)) return false;
    for (int j = 1; j < n; j++)
        for (int i = 0; i < m; i++) {
            double theta = pi * j / n, phi = 2 * pi * i / m;
            if (!vertex(g, radius * sin(theta) * cos(phi), radius * sin(theta) * sin(phi),
                        radius * cos(theta)))
                return false;
        }
    for (int i = 0; i < m; i++) {
        int32_t k = (i + 1) % m, last = 2 + (n - 2) * m;
        if (!triangle(g, 0, 2 + i, 2 + k) || !triangle(g, 1, last + k, last + i)) return false;
        for (int j = 0; j + 2 < n; j++) {
            int32_t a = 2 + j * m + i, b = 2 + j * m + k;
            if (!triangle(g, a, a + m, b) || !triangle(g, b, a + m, b + m)) return false;
        }
    }
    return true;
}

bool generate_box(generated *g, const double low[3], const double high[3]) {
    for (int i = 0; i < 8; i++)
        if (!vertex(g, i & 1 ? high[0] : low[0], i & 2 ? high[1] : low[1],
                    i & 4 ? high[2] : low[2]))
            return false;
    static const int32_t face[12][3] = {{0, 2, 1}, {1, 2, 3}, {4, 5, 6}, {5, 7, 6},
                                        {0, 1, 4}, {1, 5, 4}, {2, 6, 3}, {3, 6, 7},
                                        {0, 4, 2}, {2, 4, 6}, {1, 3, 5}, {3, 7, 5}};
    for (int i = 0; i < 12; i++)
        if (!triangle(g, face[i][0], face[i][1], face[i][2])) return false;
    return true;
}
