/// Reads the query files of tests/data/ccd (layout in the README there).
#ifndef QPC_TESTS_UNIT_ENGINE_QUERIES_H
#define QPC_TESTS_UNIT_ENGINE_QUERIES_H

#include "base/vec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct query {
    double p0[12], p1[12]; // four points at t = 0 and t = 1
    double toi[2], dmin[2];
    uint8_t kind, truth;
    uint16_t class;
    uint32_t source;
} query;
_Static_assert(sizeof(query) == 232, "a record of the file");

/// All records of a file, to be freed with free(); NULL if it cannot be read.
static inline query *read_queries(const char *path, int32_t *ret_count) {
    FILE *file = fopen(path, "rb");
    uint32_t head[8];
    query *q = NULL;
    if (file == NULL) return NULL;
    if (fread(head, sizeof head, 1, file) == 1 && memcmp(head, "QPCCDQ01", 8) == 0 &&
        head[4] == sizeof *q && fseek(file, (long)head[3], SEEK_SET) == 0) {
        q = malloc(head[5] * sizeof *q);
        if (q != NULL && fread(q, sizeof *q, head[5], file) != head[5]) {
            free(q);
            q = NULL;
        }
        *ret_count = (int32_t)head[5];
    }
    fclose(file);
    return q;
}

static inline void query_points(const query *q, qpc_vec3 x0[4], qpc_vec3 x1[4]) {
    for (int k = 0; k < 4; k++) {
        x0[k] = v3_load(q->p0 + 3 * k);
        x1[k] = v3_load(q->p1 + 3 * k);
    }
}

#endif
