/// Mesh generators: the solids of the demo scenes, each at exactly the triangle count asked for.
///
/// All are centred on the origin, oriented outwards and closed where the solid is (a sheet and a
/// tube without caps are open). Counts that a regular grid misses are reached by splitting
/// diagonals of plane quadrilaterals, so the surface itself does not depend on the remainder. Any
/// thread; no state.
#ifndef QPC_CLIENT_MESHIO_GENERATE_H
#define QPC_CLIENT_MESHIO_GENERATE_H

#include "base/value.h"
#include "client/meshio/meshdata.h"

typedef enum qpc_mesh_param_type {
    QPC_PARAM_LENGTH, // real > 0, m
    QPC_PARAM_COUNT,  // integer
    QPC_PARAM_FLAG,   // bool
    QPC_PARAM_AXIS,   // "x", "y" or "z"
} qpc_mesh_param_type;

typedef struct qpc_mesh_param {
    const char *name;
    qpc_mesh_param_type type;
    const char *standard; // the default, as text for help
    const char *doc;
} qpc_mesh_param;

enum { QPC_MESH_PARAM_MAX = 8 };
typedef struct qpc_mesh_kind {
    const char *name, *doc;
    qpc_mesh_param params[QPC_MESH_PARAM_MAX + 1]; // ended by a NULL name
} qpc_mesh_kind;

enum { QPC_MESH_KIND_COUNT = 9, QPC_GENERATE_MAX_TRIANGLES = 40000000 };
/// NULL beyond the last one.
const qpc_mesh_kind *qpc_mesh_kind_get(int32_t index);
const qpc_mesh_kind *qpc_mesh_kind_find(const char *name);

/// spec is the map of a scene's `generate`: {kind, parameters of that kind}. where is its path for
/// messages. QPC_ERR_INVALID names an unknown kind or key with its nearest known one, and says
/// which counts or sizes are possible.
qpc_status qpc_mesh_generate(const qpc_value *spec, const char *where, qpc_mesh_data *ret,
                             qpc_error *err);

/// A lattice of n cells, six tetrahedra each, of this size (m), centred on the origin; round: an ellipsoid. QPC_ERR_LIMIT,
/// QPC_ERR_INVALID, QPC_ERR_MEMORY.
qpc_status qpc_generate_lattice(const int32_t n[3], const double size[3], bool round, const char *where, qpc_mesh_data *ret,
                                qpc_error *err);

#endif
