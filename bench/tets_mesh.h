/// A soft body from a mesh file on a table, pressed by a driven ball: the scene of examples/scenes/organ.json around any mesh.
#ifndef QPC_BENCH_TETS_MESH_H
#define QPC_BENCH_TETS_MESH_H

#include <stdbool.h>

/// Runs and prints it `runs` times (at most BENCH_RUNS_MAX); the longest extent of the mesh becomes 0.2 m. False, and a message on
/// standard error, if it cannot be read or made, if two runs differ, or if the checker finds a crossing.
bool bench_tets_mesh(const char *path, int runs);

#endif
