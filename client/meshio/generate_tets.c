/// Blocks and ellipsoids of tetrahedra, for soft bodies: a lattice of cells, six tetrahedra in each around a diagonal.
///
/// Diagonals run from the middle outwards, in all eight octants, so that the lattice of a ball has no cell whose diagonal joins
/// two faces that the ball's surface makes flat.
#include "client/meshio/generate.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/// Corners of a cell by bits x 1, y 2, z 4, along the way from corner 0 to corner 7.
static const int SIX[6][4] = {{0, 1, 3, 7}, {0, 1, 5, 7}, {0, 2, 3, 7}, {0, 2, 6, 7}, {0, 4, 5, 7}, {0, 4, 6, 7}};

static int32_t number(const int32_t n[3], const int32_t at[3]) { return (at[0] * (n[1] + 1) + at[1]) * (n[2] + 1) + at[2]; }

static double six_volumes(const double *x, const int32_t t[4]) {
    double d[3][3];
    for (int a = 0; a < 3; a++)
        for (int k = 0; k < 3; k++) d[a][k] = x[3 * (size_t)t[a + 1] + (size_t)k] - x[3 * (size_t)t[0] + (size_t)k];
    return d[0][0] * (d[1][1] * d[2][2] - d[1][2] * d[2][1]) - d[0][1] * (d[1][0] * d[2][2] - d[1][2] * d[2][0]) +
           d[0][2] * (d[1][0] * d[2][1] - d[1][1] * d[2][0]);
}

static void fill_cell(const int32_t n[3], const int32_t cell[3], qpc_mesh_data *mesh) {
    bool back[3]; // corner 0 is the one nearer to the middle
    for (int k = 0; k < 3; k++) back[k] = 2 * cell[k] + 1 < n[k];
    for (int t = 0; t < 6; t++) {
        int32_t *tet = mesh->elements + 4 * (size_t)mesh->element_count++;
        for (int c = 0; c < 4; c++) {
            int32_t at[3];
            for (int k = 0; k < 3; k++) at[k] = cell[k] + (((SIX[t][c] >> k & 1) != 0) != back[k]);
            tet[c] = number(n, at);
        }
        if (six_volumes(mesh->vertices, tet) < 0) {
            int32_t swap = tet[2];
            tet[2] = tet[3];
            tet[3] = swap;
        }
    }
}

/// Cubes around the middle become balls around it: the largest coordinate becomes the distance.
static void make_round(double p[3]) {
    double cube = fmax(fabs(p[0]), fmax(fabs(p[1]), fabs(p[2]))), ball = sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
    for (int k = 0; k < 3 && ball > 0; k++) p[k] *= cube / ball;
}

qpc_status qpc_generate_lattice(const int32_t n[3], const double size[3], bool round, const char *where, qpc_mesh_data *ret,
                                qpc_error *err) {
    int64_t cells = (int64_t)n[0] * n[1] * n[2], nodes = ((int64_t)n[0] + 1) * (n[1] + 1) * (n[2] + 1);
    if (n[0] > 4096 || n[1] > 4096 || n[2] > 4096 || 6 * cells > QPC_GENERATE_MAX_TRIANGLES)
        return qpc_fail_at(err, QPC_ERR_LIMIT, where, "%d x %d x %d cells have more than %d tetrahedra", n[0], n[1], n[2],
                           QPC_GENERATE_MAX_TRIANGLES);
    if (round && (n[0] < 2 || n[1] < 2 || n[2] < 2))
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "%d x %d x %d cells; round ones need at least 2 each way", n[0], n[1], n[2]);
    qpc_mesh_data mesh = {.nodes_per_element = 4};
    mesh.vertices = qpc_alloc_array((size_t)nodes, 3 * sizeof *mesh.vertices);
    mesh.elements = qpc_alloc_array((size_t)cells, 24 * sizeof *mesh.elements);
    if (mesh.vertices == NULL || mesh.elements == NULL) {
        qpc_mesh_data_fini(&mesh);
        return qpc_fail(err, QPC_ERR_MEMORY, "out of memory: a mesh of %lld tetrahedra", 6 * (long long)cells);
    }
    int32_t at[3];
    for (at[0] = 0; at[0] <= n[0]; at[0]++)
        for (at[1] = 0; at[1] <= n[1]; at[1]++)
            for (at[2] = 0; at[2] <= n[2]; at[2]++) {
                double p[3], *out = mesh.vertices + 3 * (size_t)mesh.vertex_count++;
                for (int k = 0; k < 3; k++) p[k] = 2.0 * at[k] / n[k] - 1.0;
                if (round) make_round(p);
                for (int k = 0; k < 3; k++) out[k] = 0.5 * size[k] * p[k] + 0.0;
            }
    for (at[0] = 0; at[0] < n[0]; at[0]++)
        for (at[1] = 0; at[1] < n[1]; at[1]++)
            for (at[2] = 0; at[2] < n[2]; at[2]++) fill_cell(n, at, &mesh);
    *ret = mesh;
    return QPC_OK;
}
