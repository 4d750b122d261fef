/// OFF: the word OFF (with prefixes ST, C, N for what else a vertex has), the counts of vertices,
/// faces and, perhaps, edges; then a line a vertex, and a line a face: the count of its corners,
/// the corners from 0, perhaps a colour. # starts a comment. Any thread; no state.
#include "client/meshio/meshraw.h"

/// Everything may be on the line of the word, or on lines below.
static qpc_status read_head(qpc_mesh_text *t, int64_t *ret_vertices, int64_t *ret_faces,
                            qpc_error *err) {
    static const char *const words[] = {"OFF",   "COFF",   "NOFF",   "CNOFF",
                                        "STOFF", "STCOFF", "STNOFF", "STCNOFF"};
    qpc_token word = qpc_text_token(t);
    bool known = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        known = known || qpc_token_is(word, words[i]);
    if (!known) return qpc_text_fail(t, err, "an OFF file in three dimensions starts with OFF");
    qpc_mesh_text ahead = *t;
    if (qpc_token_is_any_case(qpc_text_token(&ahead), "BINARY"))
        return qpc_text_fail(t, err, "binary OFF is not read");
    qpc_status st = qpc_text_count(t, "vertices", 6, ret_vertices, err);
    if (st == QPC_OK) st = qpc_text_count(t, "faces", 2, ret_faces, err);
    if (st != QPC_OK) return st;
    int64_t edges;
    qpc_token third = qpc_text_token_in_line(t);
    if (third.size > 0 && !qpc_token_int(third, &edges))
        return qpc_text_fail(t, err, "the count of edges is no integer");
    if (qpc_text_token_in_line(t).size > 0) return qpc_text_fail(t, err, "more than three counts");
    return QPC_OK;
}

/// What else is on a line (normals, colours) must be numbers.
static qpc_status end_line(qpc_mesh_text *t, qpc_error *err) {
    double ignored;
    for (qpc_token token; (token = qpc_text_token_in_line(t)).size > 0;)
        if (!qpc_token_real(token, &ignored))
            return qpc_text_fail(t, err, "\"%.*s\" is no number",
                                 (int)(token.size < 40 ? token.size : 40), token.at);
    return QPC_OK;
}

static qpc_status read_vertex(qpc_mesh_text *t, qpc_mesh_raw *raw, qpc_error *err) {
    double x[3] = {0};
    qpc_text_skip(t);
    if (t->p == t->end) return qpc_text_fail(t, err, "the file ends where a vertex should be");
    for (int k = 0; k < 3; k++)
        if (!qpc_token_real(qpc_text_token_in_line(t), &x[k]))
            return qpc_text_fail(t, err, "coordinate %d of vertex %d is no finite decimal number",
                                 k, qpc_raw_node_count(raw));
    qpc_status st = end_line(t, err);
    return st == QPC_OK ? qpc_raw_node(raw, t, x, err) : st;
}

static qpc_status read_face(qpc_mesh_text *t, qpc_mesh_raw *raw, qpc_error *err) {
    int64_t count = 0;
    raw->corners.count = 0;
    qpc_status st = qpc_text_count(t, "corners", 2, &count, err);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        int64_t index = 0;
        int32_t v = 0;
        if (!qpc_token_int(qpc_text_token_in_line(t), &index))
            return qpc_text_fail(t, err, "corner %lld of a face of %lld is missing or no integer",
                                 (long long)i, (long long)count);
        st = qpc_raw_index(raw, t, index, 0, &v, err);
        if (st == QPC_OK && !qpc_array_push(&raw->corners, v))
            st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    if (st == QPC_OK) st = end_line(t, err);
    return st == QPC_OK ? qpc_raw_polygon(raw, raw->corners.data, raw->corners.count, err) : st;
}

qpc_status qpc_off_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    qpc_mesh_text t = qpc_text_over(bytes, size, '#');
    int64_t vertices = 0, faces = 0;
    raw->format = "OFF";
    qpc_status st = read_head(&t, &vertices, &faces, err);
    for (int64_t i = 0; i < vertices && st == QPC_OK; i++) st = read_vertex(&t, raw, err);
    for (int64_t i = 0; i < faces && st == QPC_OK; i++) st = read_face(&t, raw, err);
    return st;
}
