/// STL: binary (by 84 + 50 n bytes, whatever the header says) and text.
///
/// Facets list their corners anew, so that every corner is a node here; they are merged by position
/// later. Stored normals are not looked at: the corners give the orientation. Any thread; no state.
#include "client/meshio/meshraw.h"

enum { HEADER = 84, FACET = 50, NORMAL = 12 };

static qpc_status add_facet(qpc_mesh_raw *raw, const qpc_mesh_text *t, double x[3][3],
                            qpc_error *err) {
    int32_t first = qpc_raw_node_count(raw);
    qpc_status st = QPC_OK;
    for (int i = 0; i < 3 && st == QPC_OK; i++) st = qpc_raw_node(raw, t, x[i], err);
    return st == QPC_OK ? qpc_raw_triangle(raw, first, first + 1, first + 2, err) : st;
}

static qpc_status read_binary(qpc_mesh_text *t, int64_t count, qpc_mesh_raw *raw, qpc_error *err) {
    const char *p = NULL;
    qpc_status st = qpc_text_take(t, HEADER, "the header", &p, err);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        double x[3][3] = {{0}};
        st = qpc_text_take(t, FACET, "a facet", &p, err);
        for (int k = 0; k < 9 && st == QPC_OK; k++)
            x[k / 3][k % 3] = qpc_get_f32(p + NORMAL + 4 * k, false);
        if (st == QPC_OK) st = add_facet(raw, t, x, err);
    }
    return st;
}

static qpc_status want(qpc_mesh_text *t, const char *word, qpc_error *err) {
    if (qpc_token_is_any_case(qpc_text_token(t), word)) return QPC_OK;
    return qpc_text_fail(t, err, "\"%s\" should be here", word);
}

/// Behind "facet": [normal x y z] outer loop, three times vertex x y z, endloop endfacet.
static qpc_status read_facet(qpc_mesh_text *t, qpc_mesh_raw *raw, qpc_error *err) {
    double x[3][3] = {{0}};
    while (qpc_text_token_in_line(t).size > 0) continue; // the normal
    qpc_status st = want(t, "outer", err);
    if (st == QPC_OK) st = want(t, "loop", err);
    for (int i = 0; i < 3 && st == QPC_OK; i++) {
        st = want(t, "vertex", err);
        for (int k = 0; k < 3 && st == QPC_OK; k++)
            st = qpc_text_real(t, "a coordinate", &x[i][k], err);
    }
    if (st == QPC_OK) st = want(t, "endloop", err);
    if (st == QPC_OK) st = want(t, "endfacet", err);
    return st == QPC_OK ? add_facet(raw, t, x, err) : st;
}

static qpc_status read_text(qpc_mesh_text *t, qpc_mesh_raw *raw, qpc_error *err) {
    qpc_status st = QPC_OK;
    bool inside = false;
    while (st == QPC_OK) {
        qpc_token word = qpc_text_token(t);
        bool begin = qpc_token_is_any_case(word, "solid");
        if (word.size == 0 && !inside) return QPC_OK;
        if (word.size == 0) return qpc_text_fail(t, err, "the file ends without endsolid");
        if ((begin && !inside) || (qpc_token_is_any_case(word, "endsolid") && inside)) {
            (void)qpc_text_line(t); // the name
            inside = begin;
        } else if (inside && qpc_token_is_any_case(word, "facet")) {
            st = read_facet(t, raw, err);
        } else {
            st = qpc_text_fail(t, err, "%s should be here", inside ? "facet or endsolid" : "solid");
        }
    }
    return st;
}

qpc_status qpc_stl_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    qpc_mesh_text t = qpc_text_over(bytes, size, 0), ahead = t;
    uint32_t count = size >= HEADER ? qpc_get_u32(t.p + HEADER - 4, false) : 0;
    if (size >= HEADER && size == HEADER + (uint64_t)FACET * count) {
        raw->format = "STL binary";
        return read_binary(&t, count, raw, err);
    }
    raw->format = "STL";
    if (qpc_token_is_any_case(qpc_text_token(&ahead), "solid")) return read_text(&t, raw, err);
    if (size < HEADER)
        return qpc_fail(err, QPC_ERR_INVALID,
                        "neither text (it does not start with \"solid\") nor a binary STL file, "
                        "whose header has %d bytes",
                        HEADER);
    return qpc_fail(err, QPC_ERR_INVALID,
                    "neither text (it does not start with \"solid\") nor a binary STL file of %u "
                    "facets, which has %llu bytes, not %zu",
                    count, (unsigned long long)HEADER + FACET * (unsigned long long)count, size);
}
