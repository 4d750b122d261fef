/// TetGen's pair of files: .node (number, coordinates, attributes, marker) and .ele (number, four
/// nodes, attributes), and .face (number, three nodes, marker) if it is there.
///
/// Nodes are numbered from 0 or from 1, as the first one says; numbers run up by one. # starts a
/// comment. Any thread; no state.
#include "client/meshio/meshraw.h"

enum { EXTRA_MOST = 1000 };

static qpc_status head(qpc_mesh_text *t, const char *what, int64_t *count, int64_t least,
                       qpc_error *err) {
    return qpc_text_count(t, what, least, count, err);
}

/// An integer of the head line: from low to high, or `standard` where the line has ended.
static qpc_status head_number(qpc_mesh_text *t, const char *what, int64_t low, int64_t high,
                              int64_t standard, int64_t *ret, qpc_error *err) {
    qpc_token token = qpc_text_token_in_line(t);
    *ret = standard;
    if (token.size == 0) return QPC_OK;
    if (qpc_token_int(token, ret) && *ret >= low && *ret <= high) return QPC_OK;
    return qpc_text_fail(t, err, "%s is %.*s; %lld to %lld", what,
                         (int)(token.size < 40 ? token.size : 40), token.at, (long long)low,
                         (long long)high);
}

static qpc_status check_number(const qpc_mesh_text *t, int64_t number, int64_t wanted,
                               qpc_error *err) {
    if (number == wanted) return QPC_OK;
    return qpc_text_fail(t, err, "number %lld where %lld should be", (long long)number,
                         (long long)wanted);
}

static qpc_status skip_reals(qpc_mesh_text *t, int64_t count, qpc_error *err) {
    double ignored;
    qpc_status st = QPC_OK;
    for (int64_t i = 0; i < count && st == QPC_OK; i++)
        st = qpc_text_real(t, "an attribute", &ignored, err);
    return st;
}

static qpc_status read_nodes(qpc_mesh_text *t, qpc_mesh_raw *raw, int64_t *ret_base,
                             qpc_error *err) {
    int64_t count = 0, dimension, attributes = 0, markers = 0, base = 0;
    qpc_status st = head(t, "nodes", &count, 8, err);
    if (st == QPC_OK) st = head_number(t, "the dimension", 3, 3, 3, &dimension, err);
    if (st == QPC_OK)
        st = head_number(t, "the count of attributes", 0, EXTRA_MOST, 0, &attributes, err);
    if (st == QPC_OK) st = head_number(t, "the count of markers", 0, 1, 0, &markers, err);
    if (st == QPC_OK && count == 0)
        st = qpc_text_fail(t, err, "no nodes (TetGen then has them in a .poly or .smesh file)");
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        int64_t number = 0;
        double x[3] = {0};
        st = qpc_text_int(t, "a node's number", &number, err);
        if (st == QPC_OK && i == 0) {
            base = number;
            if (base < 0 || base > 1)
                st = qpc_text_fail(t, err, "the first node has number %lld; 0 or 1",
                                   (long long)base);
        }
        if (st == QPC_OK) st = check_number(t, number, base + i, err);
        for (int k = 0; k < 3 && st == QPC_OK; k++)
            st = qpc_text_real(t, "a coordinate", &x[k], err);
        if (st == QPC_OK) st = qpc_raw_node(raw, t, x, err);
        if (st == QPC_OK) st = skip_reals(t, attributes + markers, err);
    }
    *ret_base = base;
    return st;
}

/// corners 4: .ele; 3: .face
static qpc_status read_cells(qpc_mesh_text *t, int corners, int64_t base, qpc_mesh_raw *raw,
                             qpc_error *err) {
    int64_t count = 0, nodes = corners, extra = 0, number = 0, v = 0;
    int32_t cell[4] = {0};
    qpc_status st = head(t, corners == 4 ? "tetrahedra" : "faces", &count, 2 + 2 * corners, err);
    if (st == QPC_OK && corners == 4)
        st = head_number(t, "the count of nodes of a tetrahedron", 4, 10, 4, &nodes, err);
    if (st == QPC_OK && nodes != corners)
        st = qpc_text_fail(t, err,
                           "tetrahedra of %lld nodes (of second order); only those of 4 are read "
                           "(TetGen without -o2)",
                           (long long)nodes);
    if (st == QPC_OK) st = head_number(t, "the count of attributes", 0, EXTRA_MOST, 0, &extra, err);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        st = qpc_text_int(t, "an element's number", &number, err);
        if (st == QPC_OK) st = check_number(t, number, base + i, err);
        for (int k = 0; k < corners && st == QPC_OK; k++) {
            st = qpc_text_int(t, "an element's node", &v, err);
            if (st == QPC_OK) st = qpc_raw_index(raw, t, v, base, &cell[k], err);
        }
        if (st == QPC_OK) st = skip_reals(t, extra, err);
        if (st == QPC_OK)
            st = corners == 4 ? qpc_raw_tet(raw, t, cell, err)
                              : qpc_raw_triangle(raw, cell[0], cell[1], cell[2], err);
    }
    if (st == QPC_OK && qpc_text_token(t).size > 0)
        st = qpc_text_fail(t, err, "more in the file than its first line announces");
    return st;
}

/// Which of the files an error is in.
static qpc_status in_file(const char *name, qpc_status st, const qpc_error *why, qpc_error *err) {
    return st == QPC_OK ? st : qpc_fail(err, st, "%s file, %s", name, why->message);
}

qpc_status qpc_tetgen_parse(const void *node, size_t node_size, const void *ele, size_t ele_size,
                            const void *face, size_t face_size, qpc_mesh_raw *raw, qpc_error *err) {
    qpc_mesh_text t = qpc_text_over(node, node_size, '#');
    qpc_error why = {0};
    int64_t base = 0;
    raw->format = "TetGen";
    qpc_status st = in_file(".node", read_nodes(&t, raw, &base, &why), &why, err);
    if (st != QPC_OK) return st;
    t = qpc_text_over(ele, ele_size, '#');
    st = in_file(".ele", read_cells(&t, 4, base, raw, &why), &why, err);
    if (st != QPC_OK || face == NULL) return st;
    t = qpc_text_over(face, face_size, '#');
    return in_file(".face", read_cells(&t, 3, base, raw, &why), &why, err);
}
