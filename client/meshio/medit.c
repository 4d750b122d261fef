/// Medit's text files (.mesh): keywords, each with a count and that many records of integers and
/// numbers, the last of a record being its reference.
///
/// Any thread; no state.
#include "client/meshio/meshraw.h"

typedef struct section {
    const char *name;
    int integers, reals; // of a record
    int nodes;           // 3, 4: surface; 5: tetrahedra; 0: passed over
} section;

enum { TETRAHEDRA = 5 };

static const section SECTIONS[] = {
    {"Triangles", 4, 0, 3},
    {"Quadrilaterals", 5, 0, 4},
    {"Tetrahedra", 5, 0, TETRAHEDRA},
    {"Edges", 3, 0, 0},
    {"Corners", 1, 0, 0},
    {"Ridges", 1, 0, 0},
    {"RequiredVertices", 1, 0, 0},
    {"RequiredEdges", 1, 0, 0},
    {"RequiredTriangles", 1, 0, 0},
    {"Normals", 0, 3, 0},
    {"NormalAtVertices", 2, 0, 0},
    {"Tangents", 0, 3, 0},
    {"TangentAtVertices", 2, 0, 0},
    {"TangentAtEdges", 3, 0, 0},
    {"AngleOfCornerBound", 0, 1, 0}, // no count: see read_keyword
};

static qpc_status read_vertices(qpc_mesh_text *t, qpc_mesh_raw *raw, qpc_error *err) {
    int64_t count = 0;
    if (raw->nodes.count > 0) return qpc_text_fail(t, err, "a second list of vertices");
    qpc_status st = qpc_text_count(t, "vertices", 8, &count, err);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        double x[3] = {0}, reference;
        for (int k = 0; k < 3 && st == QPC_OK; k++)
            st = qpc_text_real(t, "a coordinate", &x[k], err);
        if (st == QPC_OK) st = qpc_text_real(t, "a vertex's reference", &reference, err);
        if (st == QPC_OK) st = qpc_raw_node(raw, t, x, err);
    }
    return st;
}

static qpc_status read_record(qpc_mesh_text *t, const section *s, qpc_mesh_raw *raw,
                              qpc_error *err) {
    int64_t v[5] = {0};
    int32_t nodes[4] = {0};
    double ignored;
    qpc_status st = QPC_OK;
    for (int k = 0; k < s->integers && st == QPC_OK; k++)
        st = qpc_text_int(t, "a number of an element", &v[k], err);
    for (int k = 0; k < s->reals && st == QPC_OK; k++)
        st = qpc_text_real(t, "a component", &ignored, err);
    int count = s->nodes == 0 ? 0 : s->integers - 1;
    for (int k = 0; k < count && st == QPC_OK; k++)
        st = qpc_raw_index(raw, t, v[k], 1, &nodes[k], err);
    if (st != QPC_OK) return st;
    if (s->nodes == TETRAHEDRA) return qpc_raw_tet(raw, t, nodes, err);
    return s->nodes > 0 ? qpc_raw_polygon(raw, nodes, count, err) : QPC_OK;
}

static qpc_status read_keyword(qpc_mesh_text *t, qpc_token word, qpc_mesh_raw *raw,
                               qpc_error *err) {
    int64_t n = 0;
    if (qpc_token_is_any_case(word, "Vertices")) return read_vertices(t, raw, err);
    if (qpc_token_is_any_case(word, "Dimension")) {
        qpc_status st = qpc_text_int(t, "the dimension", &n, err);
        if (st == QPC_OK && n != 3)
            st = qpc_text_fail(t, err, "a mesh of dimension %lld; 3", (long long)n);
        return st;
    }
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++) {
        const section *s = &SECTIONS[i];
        if (!qpc_token_is_any_case(word, s->name)) continue;
        qpc_status st = QPC_OK;
        n = 1;
        if (s->integers + s->reals != 1 || s->reals == 0)
            st = qpc_text_count(t, s->name, 2 * (s->integers + s->reals), &n, err);
        for (int64_t k = 0; k < n && st == QPC_OK; k++) st = read_record(t, s, raw, err);
        if (st == QPC_OK && s->nodes == 0) raw->skipped += n;
        return st;
    }
    if (qpc_token_is_any_case(word, "Hexahedra") || qpc_token_is_any_case(word, "Prisms") ||
        qpc_token_is_any_case(word, "Pentahedra") || qpc_token_is_any_case(word, "Pyramids")) {
        // Gmsh and others write empty lists.
        qpc_status st = qpc_text_int(t, "a count", &n, err);
        if (st == QPC_OK && n != 0)
            st = qpc_text_fail(t, err, "the file has %.*s; only tetrahedra are read",
                               (int)word.size, word.at);
        return st;
    }
    return qpc_text_fail(t, err, "\"%.*s\" is no keyword that is known here",
                         (int)(word.size < 40 ? word.size : 40), word.at);
}

qpc_status qpc_medit_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    qpc_mesh_text t = qpc_text_over(bytes, size, '#');
    int64_t version = 0;
    raw->format = "Medit";
    if (!qpc_token_is_any_case(qpc_text_token(&t), "MeshVersionFormatted"))
        return qpc_text_fail(&t, err, "a Medit file starts with MeshVersionFormatted");
    qpc_status st = qpc_text_int(&t, "the version", &version, err);
    if (st == QPC_OK && (version < 1 || version > 4))
        st = qpc_text_fail(&t, err, "Medit version %lld; 1 to 4", (long long)version);
    while (st == QPC_OK) {
        qpc_token word = qpc_text_token(&t);
        if (word.size == 0) return qpc_text_fail(&t, err, "the file ends without \"End\"");
        if (qpc_token_is_any_case(word, "End")) return QPC_OK;
        st = read_keyword(&t, word, raw, err);
    }
    return st;
}
