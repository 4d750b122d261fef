/// Physics oracles (tests/data/physics): read the JSON of one and look up its numbers.
#ifndef QPC_TESTS_SUPPORT_ORACLE_H
#define QPC_TESTS_SUPPORT_ORACLE_H

#include "base/json.h"
#include "base/mem.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>

/// Parse a JSON file; the text stays alive with the value (strings may borrow).
typedef struct oracle {
    qpc_value root;
    char *text;
} oracle;

static inline oracle oracle_open(const char *path) {
    oracle o = {0};
    qpc_error err = {0};
    FILE *f = fopen(path, "rb");
    if (f == NULL) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    o.text = malloc((size_t)size + 1);
    if (o.text == NULL || fread(o.text, 1, (size_t)size, f) != (size_t)size)
        fail_msg("cannot read %s", path);
    fclose(f);
    assert_ok(qpc_json_parse(o.text, (size_t)size, &o.root, &err), &err);
    return o;
}

static inline void oracle_close(oracle *o) {
    qpc_value_fini(&o->root);
    free(o->text);
}

static inline double oracle_number(const qpc_value *v, const char *where) {
    double d = 0;
    qpc_error err = {0};
    assert_ok(qpc_read_real(v, where, -1e300, 1e300, &d, &err), &err);
    return d;
}

static inline double oracle_setup(const oracle *o, const char *key) {
    return oracle_number(qpc_map_get(qpc_map_get(&o->root, "setup"), key), key);
}

/// Numbers of a (nested) list, in order; returns how many.
static inline int32_t oracle_flatten(const qpc_value *v, double *out, int32_t most) {
    if (v == NULL) fail_msg("a list is missing");
    if (v->kind != QPC_LIST) {
        if (most < 1) fail_msg("more numbers than expected");
        *out = oracle_number(v, "list");
        return 1;
    }
    int32_t count = 0;
    for (int32_t i = 0; i < v->list.count; i++)
        count += oracle_flatten(&v->list.items[i], out + count, most - count);
    return count;
}

static inline int32_t oracle_setup_list(const oracle *o, const char *key, double *out,
                                        int32_t most) {
    return oracle_flatten(qpc_map_get(qpc_map_get(&o->root, "setup"), key), out, most);
}

/// Values of the result whose quantity starts with `quantity`, and its tolerance.
static inline int32_t oracle_result(const oracle *o, const char *quantity, double *out,
                                    int32_t most, double *ret_tolerance) {
    *ret_tolerance = 0;
    const qpc_value *results = qpc_map_get(&o->root, "results");
    for (int32_t i = 0; results != NULL && i < results->list.count; i++) {
        const qpc_value *r = &results->list.items[i], *q = qpc_map_get(r, "quantity");
        if (q->str.size < strlen(quantity) || memcmp(q->str.bytes, quantity, strlen(quantity)) != 0)
            continue;
        *ret_tolerance = oracle_number(qpc_map_get(r, "tolerance"), "tolerance");
        return oracle_flatten(qpc_map_get(r, "value"), out, most);
    }
    fail_msg("no result \"%s\"", quantity);
    return 0;
}

#endif
