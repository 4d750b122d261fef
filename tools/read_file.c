/// The one loop behind read_file.h.
#include "tools/read_file.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

qpc_status tool_read_file(const char *path, const char *magic, uint8_t **ret, size_t *ret_size, qpc_error *err) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return qpc_fail(err, errno == ENOENT ? QPC_ERR_NOT_FOUND : QPC_ERR_IO, "%s",
                        strerror(errno));
    uint8_t *bytes = NULL;
    size_t size = 0, room = 0;
    qpc_status status = QPC_OK;
    for (;;) { // also from pipes, which do not tell their size
        if (size == room) {
            room = room == 0 ? 1 << 16 : 2 * room;
            uint8_t *more = qpc_realloc(bytes, room);
            if (more == NULL) {
                status =
                    qpc_fail(err, QPC_ERR_MEMORY, "no memory for a file of over %zu bytes", size);
                break;
            }
            bytes = more;
        }
        size_t got = fread(bytes + size, 1, room - size, file);
        size += got;
        // A device without end is none of ours: what it starts with tells.
        if (got == 0 || (size >= 8 && memcmp(bytes, magic, 8) != 0)) break;
    }
    if (status == QPC_OK && ferror(file)) status = qpc_fail(err, QPC_ERR_IO, "%s", strerror(errno));
    (void)fclose(file);
    if (status != QPC_OK) {
        qpc_free(bytes);
        return status;
    }
    *ret = bytes;
    *ret_size = size;
    return QPC_OK;
}
