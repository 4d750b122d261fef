/// Files of continuous collision queries with exact answers (layout: tests/data/ccd/README.md),
/// read with every field checked: sizes against the file's, kinds, classes, brackets.
/// Coordinates may be any numbers, so that a detector can be tried on those too.
#ifndef QPC_TOOLS_QUERY_FILE_H
#define QPC_TOOLS_QUERY_FILE_H

#include "base/status.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ccd_query {
    qpc_vec3 x0[4], x1[4]; // at t = 0 and t = 1
    double toi[2];         // bracket of the first contact; 2.0 when there is none
    double dmin[2];        // bracket of the least distance
    bool edges;            // edge-edge, else vertex-triangle
    bool truth;            // touch at some time
    uint16_t class;
    uint32_t source;
} ccd_query;

enum { CCD_CLASS_NAME = 33 };

typedef struct ccd_query_file {
    ccd_query *queries;
    char (*classes)[CCD_CLASS_NAME];
    int32_t count, class_count;
} ccd_query_file;

/// QPC_ERR_CORRUPT with a sentence that says what is wrong; ret is then untouched.
qpc_status ccd_query_file_parse(const uint8_t *bytes, size_t size, ccd_query_file *ret,
                                qpc_error *err);
/// The same from disk; QPC_ERR_IO or QPC_ERR_NOT_FOUND too. The path is not part of the message.
qpc_status ccd_query_file_read(const char *path, ccd_query_file *ret, qpc_error *err);
void ccd_query_file_fini(ccd_query_file *file);

#endif
