/// Scenes as files: reading the JSON, and resolving the disk form into what the wire takes.
///
/// The disk form may name meshes by file or generator, cable nodes by generator, and masses as
/// {all, first, last} (docs/scene.md). Everything else passes through untouched: the server checks
/// it. Any thread; no state.
#ifndef QPC_CLIENT_MESHIO_SCENE_H
#define QPC_CLIENT_MESHIO_SCENE_H

#include "base/value.h"
#include "client/meshio/meshdata.h"

/// Takes a mesh that the scene uses (uploads it, as a rule) and gives its SHA-256 as 64 hex digits.
/// name: the kind of generator or the file's name. The mesh is freed after the call, unless the
/// sink took it by zeroing *mesh.
typedef qpc_status (*qpc_mesh_sink)(void *user, const char *where, const char *name,
                                    qpc_mesh_data *mesh, char ret_sha256[65], qpc_error *err);

/// Read and parse one JSON file (at most 256 MiB). Messages name the file, and line and column of a
/// mistake. QPC_ERR_NOT_FOUND, QPC_ERR_IO, QPC_ERR_LIMIT, QPC_ERR_INVALID, QPC_ERR_MEMORY.
qpc_status qpc_json_read_file(const char *path, qpc_value *ret, qpc_error *err);

/// Replace in `scene`, in place, all that is of the disk form only. Files are looked for relative
/// to base_dir (NULL: the current folder). Errors name the place ("bodies[1].mesh.generate.kind");
/// on failure the scene may be partly resolved and is good for freeing only.
qpc_status qpc_scene_resolve(qpc_value *scene, const char *base_dir, qpc_mesh_sink sink, void *user,
                             qpc_error *err);

/// Both of the above: the scene at `path`, resolved relative to its own folder.
qpc_status qpc_scene_read(const char *path, qpc_mesh_sink sink, void *user, qpc_value *ret,
                          qpc_error *err);

#endif
