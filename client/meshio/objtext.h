/// The text of an OBJ file as assimp reads it right.
///
/// assimp leaves out a vertex whose line it does not understand (a number that starts with a point, five numbers,
/// blanks before the `v`), without a word, and every face behind it then uses other vertices. Here every vertex is checked
/// and written anew: `v x y z` or `v x y z w`. Colours behind x y z are left out; the other lines stay as they are.
/// Any thread.
#ifndef QPC_CLIENT_MESHIO_OBJTEXT_H
#define QPC_CLIENT_MESHIO_OBJTEXT_H

#include "base/status.h"

#include <stddef.h>

/// ret: qpc_free. QPC_ERR_INVALID names the line of a vertex that cannot be read.
qpc_status qpc_obj_text(const char *text, size_t size, char **ret, size_t *ret_size, qpc_error *err);

#endif
