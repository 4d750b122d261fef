/// Reading a whole file for the tools that re-check: also from pipes, bounded by what the file holds.
#ifndef QPC_TOOLS_READ_FILE_H
#define QPC_TOOLS_READ_FILE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/// *ret (*ret_size) is the caller's to qpc_free. A file that does not begin with `magic` (8 bytes) is read no further
/// than that shows: a device without end is no such file. QPC_ERR_NOT_FOUND, QPC_ERR_IO, QPC_ERR_MEMORY.
qpc_status tool_read_file(const char *path, const char *magic, uint8_t **ret, size_t *ret_size, qpc_error *err);

#endif
