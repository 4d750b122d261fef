/// Gmsh files: version 1, 2.0 to 2.2 (text and binary) and 4.1 (text and binary).
///
/// A file is a list of sections, $Name ... $EndName; only nodes and elements are looked at. Node
/// numbers are names: they may have gaps and come in any order, so that a table turns them into
/// positions in the list (no array is sized by the largest number). Points and lines are skipped;
/// elements that fill a volume and are no tetrahedra, and curved ones, are refused: a mesh with
/// holes where they were would be worse than an error. Any thread.
#include "client/meshio/meshraw.h"

#include <stdio.h>

/// A node's number in the file, by open addressing.
typedef struct number_slot {
    uint64_t number;
    int32_t node; // -1: free
} number_slot;

typedef struct gmsh {
    qpc_mesh_text t;
    qpc_mesh_raw *raw;
    int version; // 1, 2, 4
    bool binary, has_nodes, has_elements;
    QPC_ARRAY(uint64_t) numbers; // of each node
    number_slot *slots;
    size_t mask;
} gmsh;

typedef enum cell_use { CELL_SKIP, CELL_TRIANGLE, CELL_QUAD, CELL_TET, CELL_REFUSE } cell_use;

typedef struct cell_kind {
    int nodes;
    cell_use use;
    const char *name;
} cell_kind;

static const cell_kind *kind_of(int64_t type) {
    static const cell_kind kinds[] = {
        {0, CELL_REFUSE, NULL},
        {2, CELL_SKIP, "line"},
        {3, CELL_TRIANGLE, "triangle"},
        {4, CELL_QUAD, "quadrangle"},
        {4, CELL_TET, "tetrahedron"},
        {8, CELL_REFUSE, "hexahedra"},
        {6, CELL_REFUSE, "prisms"},
        {5, CELL_REFUSE, "pyramids"},
        {3, CELL_SKIP, "curved line"},
        {6, CELL_REFUSE, "curved triangles (of second order)"},
        {9, CELL_REFUSE, "curved quadrangles (of second order)"},
        {10, CELL_REFUSE, "curved tetrahedra (of second order)"},
        {27, CELL_REFUSE, "curved hexahedra (of second order)"},
        {18, CELL_REFUSE, "curved prisms (of second order)"},
        {14, CELL_REFUSE, "curved pyramids (of second order)"},
        {1, CELL_SKIP, "point"},
    };
    static const cell_kind long_lines[] = {
        {4, CELL_SKIP, "line"}, {5, CELL_SKIP, "line"}, {6, CELL_SKIP, "line"}};
    if (type >= 1 && type < (int64_t)(sizeof kinds / sizeof *kinds)) return &kinds[type];
    if (type >= 26 && type <= 28) return &long_lines[type - 26];
    return NULL;
}

static qpc_status check_kind(const gmsh *g, int64_t type, const cell_kind **ret, qpc_error *err) {
    const cell_kind *kind = kind_of(type);
    if (kind == NULL)
        return qpc_text_fail(&g->t, err, "elements of Gmsh type %lld are not read",
                             (long long)type);
    if (kind->use == CELL_REFUSE)
        return qpc_text_fail(&g->t, err,
                             "the file has %s; only tetrahedra with 4 nodes are read (in Gmsh: no "
                             "recombination, Mesh.ElementOrder = 1)",
                             kind->name);
    *ret = kind;
    return QPC_OK;
}

// ---- numbers of nodes ----

static number_slot *find_slot(const gmsh *g, uint64_t number) {
    uint64_t h = number * 0x9e3779b97f4a7c15ULL;
    size_t at = (size_t)(h ^ h >> 32) & g->mask;
    while (g->slots[at].node >= 0 && g->slots[at].number != number) at = (at + 1) & g->mask;
    return &g->slots[at];
}

static qpc_status index_numbers(gmsh *g, qpc_error *err) {
    size_t slots = 16;
    while (slots < 2 * (size_t)g->numbers.count) slots *= 2;
    g->mask = slots - 1;
    g->slots = qpc_alloc_array(slots, sizeof *g->slots);
    if (g->slots == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < slots; i++) g->slots[i] = (number_slot){.node = -1};
    for (int32_t i = 0; i < g->numbers.count; i++) {
        number_slot *slot = find_slot(g, g->numbers.data[i]);
        if (slot->node >= 0)
            return qpc_text_fail(&g->t, err, "node number %llu is there twice",
                                 (unsigned long long)g->numbers.data[i]);
        *slot = (number_slot){g->numbers.data[i], i};
    }
    return QPC_OK;
}

static qpc_status add_number(gmsh *g, uint64_t number, qpc_error *err) {
    if (qpc_array_push(&g->numbers, number)) return QPC_OK;
    return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
}

static qpc_status add_cell(gmsh *g, const cell_kind *kind, const uint64_t *numbers,
                           qpc_error *err) {
    int32_t v[4];
    if (kind->use == CELL_SKIP) {
        g->raw->skipped++;
        return QPC_OK;
    }
    for (int k = 0; k < kind->nodes; k++) {
        v[k] = find_slot(g, numbers[k])->node;
        if (v[k] < 0)
            return qpc_text_fail(&g->t, err, "a %s uses node number %llu, which is not there",
                                 kind->name, (unsigned long long)numbers[k]);
    }
    if (kind->use == CELL_TET) return qpc_raw_tet(g->raw, &g->t, v, err);
    return qpc_raw_polygon(g->raw, v, kind->nodes, err);
}

// ---- numbers, text or binary ----

static qpc_status get_whole(gmsh *g, const char *what, int size, int64_t *ret, qpc_error *err) {
    if (!g->binary) return qpc_text_int(&g->t, what, ret, err);
    const char *p;
    qpc_status st = qpc_text_take(&g->t, (uint64_t)size, what, &p, err);
    if (st != QPC_OK) return st;
    *ret = qpc_get_int(p, size == 8 ? QPC_SCALAR_U64 : QPC_SCALAR_I32, g->t.big);
    return QPC_OK;
}

static qpc_status get_real(gmsh *g, const char *what, double *ret, qpc_error *err) {
    if (!g->binary) return qpc_text_real(&g->t, what, ret, err);
    const char *p;
    qpc_status st = qpc_text_take(&g->t, 8, what, &p, err);
    if (st == QPC_OK) *ret = qpc_get_f64(p, g->t.big);
    return st;
}

/// Numbers that name things: version 2 has them as int32, version 4 as size_t, 0 and above.
static qpc_status get_number(gmsh *g, const char *what, uint64_t *ret, qpc_error *err) {
    int64_t v = 0;
    qpc_status st = get_whole(g, what, g->version == 4 ? 8 : 4, &v, err);
    if (st == QPC_OK && v < 0) st = qpc_text_fail(&g->t, err, "%s is %lld", what, (long long)v);
    if (st == QPC_OK) *ret = (uint64_t)v;
    return st;
}

static qpc_status get_count(gmsh *g, const char *what, int size, int64_t least, int64_t *ret,
                            qpc_error *err) {
    int64_t v = 0;
    qpc_status st = get_whole(g, what, size, &v, err);
    if (st == QPC_OK) st = qpc_text_check_count(&g->t, what, v, least, err);
    if (st == QPC_OK) *ret = v;
    return st;
}

static qpc_status get_node(gmsh *g, int extra, qpc_error *err) {
    double x[3] = {0}, ignored;
    qpc_status st = QPC_OK;
    for (int k = 0; k < 3 && st == QPC_OK; k++) st = get_real(g, "a coordinate", &x[k], err);
    for (int k = 0; k < extra && st == QPC_OK; k++)
        st = get_real(g, "a parametric coordinate", &ignored, err);
    return st == QPC_OK ? qpc_raw_node(g->raw, &g->t, x, err) : st;
}

static qpc_status get_cell_nodes(gmsh *g, const cell_kind *kind, qpc_error *err) {
    uint64_t numbers[8] = {0};
    qpc_status st = QPC_OK;
    for (int k = 0; k < kind->nodes && st == QPC_OK; k++)
        st = get_number(g, "an element's node", &numbers[k], err);
    return st == QPC_OK ? add_cell(g, kind, numbers, err) : st;
}

// ---- versions 1 and 2 ----

static qpc_status read_nodes_2(gmsh *g, qpc_error *err) {
    int64_t count = 0;
    qpc_status st = qpc_text_count(&g->t, "nodes", g->binary ? 28 : 8, &count, err);
    if (st == QPC_OK && g->binary) (void)qpc_text_line(&g->t);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        uint64_t number = 0;
        st = get_number(g, "a node's number", &number, err);
        if (st == QPC_OK) st = add_number(g, number, err);
        if (st == QPC_OK) st = get_node(g, 0, err);
    }
    return st == QPC_OK ? index_numbers(g, err) : st;
}

/// number type tag-count tags nodes; version 1: number type physical elementary node-count nodes.
static qpc_status read_cell_text(gmsh *g, qpc_error *err) {
    int64_t number, type = 0, tags = 2, ignored, nodes = 0;
    const cell_kind *kind = NULL;
    qpc_status st = qpc_text_int(&g->t, "an element's number", &number, err);
    if (st == QPC_OK) st = qpc_text_int(&g->t, "an element's type", &type, err);
    if (st == QPC_OK) st = check_kind(g, type, &kind, err);
    if (st == QPC_OK && g->version == 2)
        st = qpc_text_count(&g->t, "tags of an element", 2, &tags, err);
    for (int64_t i = 0; i < tags && st == QPC_OK; i++)
        st = qpc_text_int(&g->t, "an element's tag", &ignored, err);
    if (st == QPC_OK && g->version == 1) {
        st = qpc_text_int(&g->t, "an element's count of nodes", &nodes, err);
        if (st == QPC_OK && nodes != kind->nodes)
            st = qpc_text_fail(&g->t, err, "a %s with %lld nodes", kind->name, (long long)nodes);
    }
    return st == QPC_OK ? get_cell_nodes(g, kind, err) : st;
}

/// A run of elements of one type: type, count, tag count; then number, tags, nodes of each.
static qpc_status read_cells_2_binary(gmsh *g, int64_t count, qpc_error *err) {
    qpc_status st = QPC_OK;
    while (count > 0 && st == QPC_OK) {
        int64_t type = 0, run = 0, tags = 0;
        const cell_kind *kind = NULL;
        const char *ignored;
        st = get_whole(g, "an element type", 4, &type, err);
        if (st == QPC_OK) st = check_kind(g, type, &kind, err);
        if (st == QPC_OK) st = get_count(g, "elements of one type", 4, 4, &run, err);
        if (st == QPC_OK) st = get_count(g, "tags of an element", 4, 4, &tags, err);
        if (st == QPC_OK && (run == 0 || run > count))
            st = qpc_text_fail(&g->t, err, "%lld elements in a run, %lld are left", (long long)run,
                               (long long)count);
        for (int64_t i = 0; i < run && st == QPC_OK; i++) {
            st = qpc_text_take(&g->t, 4 + 4 * (uint64_t)tags, "an element's tags", &ignored, err);
            if (st == QPC_OK) st = get_cell_nodes(g, kind, err);
        }
        count -= run;
    }
    return st;
}

static qpc_status read_elements_2(gmsh *g, qpc_error *err) {
    int64_t count = 0;
    qpc_status st = qpc_text_count(&g->t, "elements", 8, &count, err);
    if (st != QPC_OK) return st;
    if (g->binary) {
        (void)qpc_text_line(&g->t);
        return read_cells_2_binary(g, count, err);
    }
    for (int64_t i = 0; i < count && st == QPC_OK; i++) st = read_cell_text(g, err);
    return st;
}

// ---- version 4 ----

/// Blocks, total, least and largest number.
static qpc_status read_head_4(gmsh *g, const char *what, int64_t *ret_blocks, int64_t *ret_total,
                              qpc_error *err) {
    int64_t ignored;
    if (g->binary) (void)qpc_text_line(&g->t);
    qpc_status st = get_count(g, "blocks", 8, 8, ret_blocks, err);
    if (st == QPC_OK) st = get_count(g, what, 8, g->binary ? 8 : 4, ret_total, err);
    for (int i = 0; i < 2 && st == QPC_OK; i++)
        st = get_whole(g, "the range of numbers", 8, &ignored, err);
    return st;
}

/// Dimension, entity, what the third int says (parametric, or the type of element), count.
static qpc_status read_block_4(gmsh *g, const char *what, int64_t left, int64_t *ret_dim,
                               int64_t *ret_third, int64_t *ret_count, qpc_error *err) {
    int64_t entity;
    qpc_status st = get_whole(g, "an entity's dimension", 4, ret_dim, err);
    if (st == QPC_OK) st = get_whole(g, "an entity", 4, &entity, err);
    if (st == QPC_OK) st = get_whole(g, "a block's kind", 4, ret_third, err);
    if (st == QPC_OK) st = get_count(g, what, 8, g->binary ? 8 : 2, ret_count, err);
    if (st == QPC_OK && *ret_count > left)
        st = qpc_text_fail(&g->t, err, "a block of %lld %s, %lld are left", (long long)*ret_count,
                           what, (long long)left);
    return st;
}

static qpc_status read_nodes_4(gmsh *g, qpc_error *err) {
    int64_t blocks = 0, left = 0;
    qpc_status st = read_head_4(g, "nodes", &blocks, &left, err);
    for (; blocks > 0 && st == QPC_OK; blocks--) {
        int64_t dim = 0, parametric = 0, count = 0;
        st = read_block_4(g, "nodes", left, &dim, &parametric, &count, err);
        if (st == QPC_OK && (dim < 0 || dim > 3 || parametric < 0 || parametric > 1))
            st = qpc_text_fail(&g->t, err, "a block of dimension %lld, parametric %lld",
                               (long long)dim, (long long)parametric);
        for (int64_t i = 0; i < count && st == QPC_OK; i++) {
            uint64_t number = 0;
            st = get_number(g, "a node's number", &number, err);
            if (st == QPC_OK) st = add_number(g, number, err);
        }
        for (int64_t i = 0; i < count && st == QPC_OK; i++)
            st = get_node(g, parametric == 1 ? (int)dim : 0, err);
        left -= count;
    }
    if (st == QPC_OK && left > 0)
        st = qpc_text_fail(&g->t, err, "%lld nodes are missing", (long long)left);
    return st == QPC_OK ? index_numbers(g, err) : st;
}

static qpc_status read_elements_4(gmsh *g, qpc_error *err) {
    int64_t blocks = 0, left = 0;
    qpc_status st = read_head_4(g, "elements", &blocks, &left, err);
    for (; blocks > 0 && st == QPC_OK; blocks--) {
        int64_t dim = 0, type = 0, count = 0;
        uint64_t number;
        const cell_kind *kind = NULL;
        st = read_block_4(g, "elements", left, &dim, &type, &count, err);
        if (st == QPC_OK && count == 0) continue;
        if (st == QPC_OK) st = check_kind(g, type, &kind, err);
        for (int64_t i = 0; i < count && st == QPC_OK; i++) {
            st = get_number(g, "an element's number", &number, err);
            if (st == QPC_OK) st = get_cell_nodes(g, kind, err);
        }
        left -= count;
    }
    if (st == QPC_OK && left > 0)
        st = qpc_text_fail(&g->t, err, "%lld elements are missing", (long long)left);
    return st;
}

// ---- sections ----

/// $MeshFormat: version, binary or not, size of a number; binary files: the integer 1.
static qpc_status read_format(gmsh *g, qpc_error *err) {
    double version = 0;
    int64_t kind = 0, size = 0;
    qpc_status st = qpc_text_real(&g->t, "the version", &version, err);
    if (st == QPC_OK) st = qpc_text_int(&g->t, "the file's kind", &kind, err);
    if (st == QPC_OK) st = qpc_text_int(&g->t, "the size of a number", &size, err);
    if (st != QPC_OK) return st;
    bool two = version >= 2 && version<3, four = version> 4.05 && version < 4.15;
    if (!two && !four)
        return qpc_text_fail(&g->t, err,
                             "Gmsh version %g; 1, 2.0 to 2.2 and 4.1 are read (gmsh FILE -save "
                             "-format msh41 -o NEW)",
                             version);
    if (kind < 0 || kind > 1 || size != 8)
        return qpc_text_fail(&g->t, err, "file kind %lld with numbers of %lld bytes; 0 or 1 with 8",
                             (long long)kind, (long long)size);
    g->version = two ? 2 : 4;
    g->binary = kind == 1;
    g->raw->format = two         ? g->binary ? "Gmsh 2 binary" : "Gmsh 2"
                     : g->binary ? "Gmsh 4.1 binary"
                                 : "Gmsh 4.1";
    if (!g->binary) return QPC_OK;
    const char *one;
    (void)qpc_text_line(&g->t);
    st = qpc_text_take(&g->t, 4, "the byte order", &one, err);
    if (st != QPC_OK) return st;
    g->t.big = qpc_get_u32(one, false) != 1;
    if (qpc_get_u32(one, g->t.big) != 1)
        return qpc_text_fail(&g->t, err, "the byte order is neither little nor big");
    return QPC_OK;
}

/// The end of a section stands at the start of a line; behind binary data it follows at once.
static bool pass_section(gmsh *g, const char *end_name) {
    size_t n = strlen(end_name);
    for (const char *p = g->t.p; (size_t)(g->t.end - p) >= n; p++) {
        const char *at = memchr(p, '$', (size_t)(g->t.end - p));
        if (at == NULL || (size_t)(g->t.end - at) < n) return false;
        bool starts = at == g->t.p || at[-1] == '\n' || at[-1] == '\r';
        const char *behind = at + n;
        if (starts && memcmp(at, end_name, n) == 0 &&
            (behind == g->t.end || *behind == '\n' || *behind == '\r' || *behind == ' ')) {
            for (const char *c = g->t.p; c < at; c++) g->t.line += *c == '\n';
            g->t.p = behind;
            (void)qpc_text_line(&g->t);
            return true;
        }
        p = at;
    }
    return false;
}

/// What a section of nodes or elements holds must end where the section does.
static qpc_status end_section(gmsh *g, const char *end_name, qpc_error *err) {
    qpc_token token = qpc_text_token(&g->t);
    if (qpc_token_is(token, end_name)) return QPC_OK;
    return qpc_text_fail(&g->t, err, "%s should be here", end_name);
}

static qpc_status read_section(gmsh *g, qpc_token name, qpc_error *err) {
    bool old = qpc_token_is(name, "$NOD") || qpc_token_is(name, "$ELM");
    bool nodes = qpc_token_is(name, "$NOD") || qpc_token_is(name, "$Nodes");
    bool elements = qpc_token_is(name, "$ELM") || qpc_token_is(name, "$Elements");
    char end[64];
    if (old) {
        if (g->version > 1) return qpc_text_fail(&g->t, err, "a section of Gmsh 1 in a newer file");
        g->version = 1;
        g->raw->format = "Gmsh 1";
    }
    if (name.size > 40 || name.size < 2 || name.at[0] != '$')
        return qpc_text_fail(&g->t, err, "a section ($Name) should begin here");
    snprintf(end, sizeof end, "$%s%.*s", old ? "END" : "End", (int)name.size - 1, name.at + 1);
    qpc_status st = QPC_OK;
    if (qpc_token_is(name, "$MeshFormat")) {
        if (g->version != 0) return qpc_text_fail(&g->t, err, "a second $MeshFormat");
        st = read_format(g, err);
    } else if (nodes || elements) {
        bool *has = nodes ? &g->has_nodes : &g->has_elements;
        if (g->version == 0) return qpc_text_fail(&g->t, err, "no $MeshFormat before this");
        if (*has)
            return qpc_text_fail(&g->t, err, "a second list of %s", nodes ? "nodes" : "elements");
        if (elements && !g->has_nodes)
            return qpc_text_fail(&g->t, err, "elements before the nodes");
        *has = true;
        if (nodes) st = g->version == 4 ? read_nodes_4(g, err) : read_nodes_2(g, err);
        if (elements) st = g->version == 4 ? read_elements_4(g, err) : read_elements_2(g, err);
    } else {
        // Others may have anything in them.
        if (pass_section(g, end)) return QPC_OK;
        return qpc_text_fail(&g->t, err, "the section %.*s has no end", (int)name.size, name.at);
    }
    return st == QPC_OK ? end_section(g, end, err) : st;
}

qpc_status qpc_gmsh_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    gmsh g = {.t = qpc_text_over(bytes, size, 0), .raw = raw};
    qpc_status st = QPC_OK;
    raw->format = "Gmsh";
    while (st == QPC_OK && !g.has_elements) {
        g.t.binary = g.binary;
        qpc_token name = qpc_text_token(&g.t);
        if (name.size == 0) break;
        st = read_section(&g, name, err);
    }
    if (st == QPC_OK && !g.has_elements)
        st = qpc_text_fail(&g.t, err, "the file ends without elements");
    qpc_array_fini(&g.numbers);
    qpc_free(g.slots);
    return st;
}
