/// Legacy VTK files, text or binary (big-endian): an unstructured grid.
///
/// Versions up to 4.2 list cells as count and points; version 5 as offsets and connectivity. Data
/// on points and cells come behind the grid and are not looked at; fields and meta data between the
/// parts of the grid are passed over. Any thread; no state.
#include "client/meshio/vtkcells.h"

typedef QPC_ARRAY(int64_t) int_list;

typedef struct vtk {
    qpc_mesh_text t;
    qpc_mesh_raw *raw;
    bool binary, has_cells, has_types;
    int_list lengths, cells, types; // points of each cell; all points, one cell after the other
} vtk;

qpc_status qpc_vtk_cell(qpc_mesh_raw *raw, const qpc_mesh_text *t, int64_t type,
                        const int64_t *points, int64_t count, int64_t first, qpc_error *err) {
    // Points of types 1 to 14, 0: any.
    static const int8_t sizes[] = {0, 1, 0, 2, 0, 3, 0, 0, 4, 4, 4};
    static const char *const solids[] = {"voxels", "hexahedra", "wedges", "pyramids"};
    if (type == 24)
        return qpc_text_fail(
            t, err, "the file has tetrahedra of second order (10 nodes); only those of 4 are read");
    if (type >= 11 && type <= 14)
        return qpc_text_fail(t, err, "the file has %s; only tetrahedra are read",
                             solids[type - 11]);
    if (type < 1 || type > 10 || type == 6)
        return qpc_text_fail(t, err, "cells of VTK type %lld are not read", (long long)type);
    if (sizes[type] != 0 && count != sizes[type])
        return qpc_text_fail(t, err, "a cell of VTK type %lld with %lld points; %d",
                             (long long)type, (long long)count, sizes[type]);
    if (type <= 4) {
        raw->skipped++;
        return QPC_OK;
    }
    raw->corners.count = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t v = 0;
        if (points[i] < 0 || points[i] > INT32_MAX)
            return qpc_text_fail(t, err, "a cell uses point %lld", (long long)points[i]);
        qpc_status st = qpc_raw_index(raw, t, first + points[i], 0, &v, err);
        if (st != QPC_OK) return st;
        if (!qpc_array_push(&raw->corners, v))
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    int32_t *v = raw->corners.data;
    if (type == 10) return qpc_raw_tet(raw, t, v, err);
    if (type == 8) { // a pixel's points run in rows
        int32_t swap = v[2];
        v[2] = v[3];
        v[3] = swap;
    }
    return qpc_raw_polygon(raw, v, raw->corners.count, err);
}

static qpc_status scalar_of(const vtk *f, qpc_token name, qpc_scalar *ret, qpc_error *err) {
    static const struct {
        const char *name;
        qpc_scalar type;
    } known[] = {
        {"unsigned_char", QPC_SCALAR_U8},   {"char", QPC_SCALAR_I8},
        {"unsigned_short", QPC_SCALAR_U16}, {"short", QPC_SCALAR_I16},
        {"unsigned_int", QPC_SCALAR_U32},   {"int", QPC_SCALAR_I32},
        {"unsigned_long", QPC_SCALAR_U64},  {"long", QPC_SCALAR_I64},
        {"vtktypeint64", QPC_SCALAR_I64},   {"vtktypeint32", QPC_SCALAR_I32},
        {"vtkidtype", QPC_SCALAR_I64},      {"float", QPC_SCALAR_F32},
        {"double", QPC_SCALAR_F64},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (qpc_token_is_any_case(name, known[i].name)) {
            *ret = known[i].type;
            return QPC_OK;
        }
    return qpc_text_fail(&f->t, err, "\"%.*s\" is no type of numbers that is known here",
                         (int)(name.size < 40 ? name.size : 40), name.at);
}

/// Binary data begin behind the end of this line, which nothing else is on.
static qpc_status begin_data(vtk *f, qpc_error *err) {
    if (qpc_text_token_in_line(&f->t).size > 0)
        return qpc_text_fail(&f->t, err, "more on the line than belongs there");
    (void)qpc_text_line(&f->t);
    return QPC_OK;
}

static qpc_status get_ints(vtk *f, const char *what, qpc_scalar type, int64_t count, int_list *to,
                           qpc_error *err) {
    int size = qpc_scalar_size(type);
    if (qpc_scalar_is_real(type)) return qpc_text_fail(&f->t, err, "%s are no integers", what);
    qpc_status st = qpc_text_check_count(&f->t, what, count, f->binary ? size : 2, err);
    if (st == QPC_OK && f->binary) st = begin_data(f, err);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        int64_t v = 0;
        const char *p;
        if (!f->binary) {
            st = qpc_text_int(&f->t, what, &v, err);
        } else if ((st = qpc_text_take(&f->t, (uint64_t)size, what, &p, err)) == QPC_OK) {
            v = qpc_get_int(p, type, true);
        }
        if (st == QPC_OK && !qpc_array_push(to, v))
            st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    return st;
}

static qpc_status read_points(vtk *f, qpc_error *err) {
    int64_t count = 0;
    qpc_scalar type = QPC_SCALAR_NONE;
    if (f->raw->nodes.count > 0) return qpc_text_fail(&f->t, err, "a second list of points");
    qpc_status st = qpc_text_count(&f->t, "points", 6, &count, err);
    if (st == QPC_OK) st = scalar_of(f, qpc_text_token_in_line(&f->t), &type, err);
    int size = qpc_scalar_size(type);
    if (st == QPC_OK && f->binary) {
        st = qpc_text_check_count(&f->t, "points", count, 3 * (int64_t)size, err);
        if (st == QPC_OK) st = begin_data(f, err);
    }
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        double x[3] = {0};
        const char *p = NULL;
        if (f->binary) st = qpc_text_take(&f->t, 3 * (uint64_t)size, "a point", &p, err);
        for (int k = 0; k < 3 && st == QPC_OK; k++) {
            if (p != NULL)
                x[k] = qpc_get_real(p + k * size, type, true);
            else
                st = qpc_text_real(&f->t, "a coordinate", &x[k], err);
        }
        if (st == QPC_OK) st = qpc_raw_node(f->raw, &f->t, x, err);
    }
    return st;
}

/// Version 5: OFFSETS type, numbers, CONNECTIVITY type, numbers.
static qpc_status read_offsets(vtk *f, int64_t count, int64_t size, qpc_error *err) {
    qpc_scalar type = QPC_SCALAR_NONE;
    int_list offsets = {0};
    qpc_status st = scalar_of(f, qpc_text_token_in_line(&f->t), &type, err);
    if (st == QPC_OK) st = get_ints(f, "offsets of cells", type, count, &offsets, err);
    f->t.binary = false;
    if (st == QPC_OK && !qpc_token_is_any_case(qpc_text_token(&f->t), "CONNECTIVITY"))
        st = qpc_text_fail(&f->t, err, "CONNECTIVITY should be here");
    if (st == QPC_OK) st = scalar_of(f, qpc_text_token_in_line(&f->t), &type, err);
    if (st == QPC_OK) st = get_ints(f, "points of cells", type, size, &f->cells, err);
    for (int32_t i = 0; i < offsets.count && st == QPC_OK; i++) {
        int64_t before = i > 0 ? offsets.data[i - 1] : 0, at = offsets.data[i];
        bool good = i == 0 ? at == 0 : at >= before && at <= size;
        if (i == offsets.count - 1) good = good && at == size;
        if (!good)
            st = qpc_text_fail(&f->t, err, "offset %d of the cells is %lld", i, (long long)at);
        else if (i > 0 && !qpc_array_push(&f->lengths, at - before))
            st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    qpc_array_fini(&offsets);
    return st;
}

/// Up to version 4.2: size integers, of each cell the count and the points.
static qpc_status split_cells(vtk *f, int64_t count, int64_t size, qpc_error *err) {
    int64_t at = 0, to = 0;
    qpc_status st = get_ints(f, "numbers of cells", QPC_SCALAR_I32, size, &f->cells, err);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        int64_t n = at < size ? f->cells.data[at++] : -1;
        if (n < 0 || n > size - at)
            return qpc_text_fail(&f->t, err, "cell %lld does not fit into its list", (long long)i);
        for (int64_t k = 0; k < n; k++) f->cells.data[to++] = f->cells.data[at++];
        if (!qpc_array_push(&f->lengths, n)) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    if (st == QPC_OK && at != size)
        st = qpc_text_fail(&f->t, err, "the list of cells is longer than its cells");
    f->cells.count = (int32_t)to;
    return st;
}

static qpc_status read_cells(vtk *f, qpc_error *err) {
    int64_t count = 0, size = 0;
    if (f->has_cells) return qpc_text_fail(&f->t, err, "a second list of cells");
    f->has_cells = true;
    qpc_status st = qpc_text_count(&f->t, "cells", 2, &count, err);
    if (st == QPC_OK) st = qpc_text_count(&f->t, "numbers of cells", f->binary ? 4 : 2, &size, err);
    if (st != QPC_OK) return st;
    qpc_mesh_text ahead = f->t;
    if (!qpc_token_is_any_case(qpc_text_token(&ahead), "OFFSETS"))
        return split_cells(f, count, size, err);
    f->t = ahead;
    return read_offsets(f, count, size, err);
}

static qpc_status read_types(vtk *f, qpc_error *err) {
    int64_t count = 0;
    qpc_status st = qpc_text_count(&f->t, "cell types", 2, &count, err);
    if (st == QPC_OK) st = get_ints(f, "cell types", QPC_SCALAR_I32, count, &f->types, err);
    f->has_types = st == QPC_OK;
    return st;
}

/// FIELD name count, then of each array: name components tuples type, numbers.
static qpc_status skip_field(vtk *f, qpc_error *err) {
    int64_t arrays = 0;
    (void)qpc_text_token_in_line(&f->t);
    qpc_status st = qpc_text_count(&f->t, "arrays of a field", 8, &arrays, err);
    for (int64_t i = 0; i < arrays && st == QPC_OK; i++) {
        int64_t components = 0, tuples = 0;
        qpc_scalar type = QPC_SCALAR_NONE;
        const char *ignored;
        f->t.binary = false;
        (void)qpc_text_token(&f->t);
        st = qpc_text_count(&f->t, "components", 1, &components, err);
        if (st == QPC_OK) st = qpc_text_count(&f->t, "tuples", 1, &tuples, err);
        if (st == QPC_OK) st = scalar_of(f, qpc_text_token_in_line(&f->t), &type, err);
        // Both are at most the size of the file.
        uint64_t numbers = (uint64_t)components * (uint64_t)tuples;
        if (st == QPC_OK && f->binary) {
            uint64_t size = (uint64_t)qpc_scalar_size(type);
            st = begin_data(f, err);
            if (st == QPC_OK && numbers > qpc_text_left(&f->t))
                st = qpc_text_fail(&f->t, err, "a field is larger than the file");
            if (st == QPC_OK) st = qpc_text_take(&f->t, numbers * size, "a field", &ignored, err);
        }
        for (uint64_t k = 0; k < numbers && !f->binary && st == QPC_OK; k++)
            if (qpc_text_token(&f->t).size == 0)
                st = qpc_text_fail(&f->t, err, "the file ends within a field");
    }
    return st;
}

/// METADATA ends with an empty line.
static void skip_metadata(vtk *f) {
    (void)qpc_text_line(&f->t);
    while (f->t.p < f->t.end && qpc_text_line(&f->t).size > 0) continue;
}

static qpc_status read_grid(vtk *f, qpc_error *err) {
    qpc_status st = QPC_OK;
    while (st == QPC_OK && !(f->has_cells && f->has_types)) {
        f->t.binary = false;
        qpc_token word = qpc_text_token(&f->t);
        if (word.size == 0)
            return qpc_text_fail(&f->t, err, "the file ends before CELLS and CELL_TYPES");
        if (qpc_token_is_any_case(word, "POINTS"))
            st = read_points(f, err);
        else if (qpc_token_is_any_case(word, "CELLS"))
            st = read_cells(f, err);
        else if (qpc_token_is_any_case(word, "CELL_TYPES"))
            st = read_types(f, err);
        else if (qpc_token_is_any_case(word, "FIELD"))
            st = skip_field(f, err);
        else if (qpc_token_is_any_case(word, "METADATA"))
            skip_metadata(f);
        else
            st = qpc_text_fail(&f->t, err, "\"%.*s\" is no part of a grid that is known here",
                               (int)(word.size < 40 ? word.size : 40), word.at);
    }
    return st;
}

static qpc_status take_cells(vtk *f, qpc_error *err) {
    int64_t at = 0;
    if (f->types.count != f->lengths.count)
        return qpc_text_fail(&f->t, err, "%d types for %d cells", f->types.count, f->lengths.count);
    qpc_status st = QPC_OK;
    for (int32_t i = 0; i < f->types.count && st == QPC_OK; i++) {
        st = qpc_vtk_cell(f->raw, &f->t, f->types.data[i], f->cells.data + at, f->lengths.data[i],
                          0, err);
        at += f->lengths.data[i];
    }
    return st;
}

/// "# vtk DataFile Version 3.0", a title, ASCII or BINARY, DATASET UNSTRUCTURED_GRID.
static qpc_status read_head(vtk *f, qpc_error *err) {
    qpc_token first = qpc_text_line(&f->t);
    if (first.size < 14 || memcmp(first.at, "# vtk DataFile", 14) != 0)
        return qpc_text_fail(&f->t, err, "a VTK file starts with \"# vtk DataFile Version\"");
    (void)qpc_text_line(&f->t);
    qpc_token kind = qpc_text_token(&f->t);
    f->binary = qpc_token_is_any_case(kind, "BINARY");
    f->raw->format = f->binary ? "VTK binary" : "VTK";
    if (!f->binary && !qpc_token_is_any_case(kind, "ASCII"))
        return qpc_text_fail(&f->t, err, "ASCII or BINARY should be here");
    qpc_token word = qpc_text_token(&f->t);
    if (qpc_token_is_any_case(word, "FIELD")) {
        qpc_status st = skip_field(f, err);
        if (st != QPC_OK) return st;
        f->t.binary = false;
        word = qpc_text_token(&f->t);
    }
    if (!qpc_token_is_any_case(word, "DATASET"))
        return qpc_text_fail(&f->t, err, "DATASET should be here");
    qpc_token set = qpc_text_token(&f->t);
    if (qpc_token_is_any_case(set, "UNSTRUCTURED_GRID")) return QPC_OK;
    return qpc_text_fail(&f->t, err, "DATASET %.*s; only UNSTRUCTURED_GRID is read",
                         (int)(set.size < 40 ? set.size : 40), set.at);
}

qpc_status qpc_vtk_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    vtk f = {.t = qpc_text_over(bytes, size, 0), .raw = raw};
    raw->format = "VTK";
    qpc_status st = read_head(&f, err);
    if (st == QPC_OK) st = read_grid(&f, err);
    if (st == QPC_OK) st = take_cells(&f, err);
    qpc_array_fini(&f.lengths);
    qpc_array_fini(&f.cells);
    qpc_array_fini(&f.types);
    return st;
}
