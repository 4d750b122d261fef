/// VTK's XML files of an unstructured grid (.vtu), not compressed.
///
/// Elements are found by their tags, in order: no tree is built. Of each Piece the points,
/// connectivity, offsets and types are looked at; other arrays are passed over. Data are text,
/// base64 within the element, or appended behind all of them, raw or base64. Any thread; no state.
#include "client/meshio/vtkcells.h"

typedef QPC_ARRAY(int64_t) int_list;

typedef struct vtu {
    qpc_mesh_text t;
    qpc_mesh_raw *raw;
    bool big, appended_raw;
    int header_size;      // bytes of the length before binary data: 4 or 8
    const char *appended; // behind the underscore; NULL: none
    uint64_t taken;       // bytes of binary arrays so far: at most the file's, so that pieces which
                          // share their data cannot ask for more memory than the file has
    QPC_ARRAY(char) bytes; // decoded base64
    int_list connectivity, offsets, types;
    bool has_points, has_connectivity, has_offsets, has_types; // in this piece
} vtu;

typedef struct tag {
    qpc_token name, attributes;
    bool closing, empty;
} tag;

/// The next tag; false at the end. Comments, declarations and text between tags are passed over.
static bool next_tag(qpc_mesh_text *t, tag *ret) {
    while (t->p < t->end) {
        const char *open = memchr(t->p, '<', qpc_text_left(t));
        if (open == NULL) break;
        const char *close = memchr(open, '>', (size_t)(t->end - open));
        if (close == NULL) break;
        for (const char *c = t->p; c < close; c++) t->line += *c == '\n';
        t->p = close + 1;
        const char *p = open + 1;
        if (p == close || *p == '!' || *p == '?') continue;
        *ret = (tag){.closing = *p == '/', .empty = close[-1] == '/'};
        if (ret->closing) p++;
        const char *name = p;
        while (p < close && *p != ' ' && *p != '\t' && *p != '\n' && *p != '\r' && *p != '/') p++;
        ret->name = (qpc_token){name, (size_t)(p - name)};
        ret->attributes = (qpc_token){p, (size_t)(close - p)};
        return true;
    }
    t->p = t->end;
    return false;
}

/// The value of name="...", or an empty token if it is not there.
static qpc_token attribute(const tag *from, const char *name) {
    const char *p = from->attributes.at, *end = p + from->attributes.size;
    size_t n = strlen(name);
    while (p < end) {
        while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
        const char *word = p;
        while (p < end && *p != '=') p++;
        size_t word_size = (size_t)(p - word);
        while (word_size > 0 && word[word_size - 1] <= ' ') word_size--;
        while (p < end && *p != '"' && *p != '\'') p++;
        if (p == end) break;
        char quote = *p++;
        const char *value = p;
        while (p < end && *p != quote) p++;
        if (p == end) break;
        if (word_size == n && memcmp(word, name, n) == 0)
            return (qpc_token){value, (size_t)(p - value)};
        p++;
    }
    return (qpc_token){"", 0};
}

static qpc_status count_of(const vtu *f, const tag *from, const char *name, int64_t *ret,
                           qpc_error *err) {
    qpc_token value = attribute(from, name);
    if (!qpc_token_int(value, ret) || *ret < 0)
        return qpc_text_fail(&f->t, err, "%s is missing or no count", name);
    return qpc_text_check_count(&f->t, name, *ret, 1, err);
}

static qpc_status scalar_of(const vtu *f, const tag *from, qpc_scalar *ret, qpc_error *err) {
    static const char *const names[] = {"",       "Int8",  "UInt8",  "Int16",   "UInt16", "Int32",
                                        "UInt32", "Int64", "UInt64", "Float32", "Float64"};
    qpc_token value = attribute(from, "type");
    for (int i = QPC_SCALAR_I8; i <= QPC_SCALAR_F64; i++)
        if (value.size > 0 && qpc_token_is(value, names[i])) {
            *ret = (qpc_scalar)i;
            return QPC_OK;
        }
    return qpc_text_fail(&f->t, err, "a DataArray of a type that is not known here");
}

// ---- binary data ----

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// Groups of four characters from *p; blanks are passed over, = ends a group that is short. Stops
/// after `most` bytes, or where there is no base64 any more.
static qpc_status decode(vtu *f, const char **p, size_t most, qpc_error *err) {
    uint32_t bits = 0;
    int held = 0;
    f->bytes.count = 0;
    for (; *p < f->t.end && (size_t)f->bytes.count < most; (*p)++) {
        if ((uint8_t) * *p <= ' ') continue;
        int digit = digit_of(**p);
        if (digit < 0 && **p != '=') break;
        if (digit < 0 && held == 0) continue;
        if (digit < 0) { // the rest of this group is padding
            bits = 0;
            held = 0;
            continue;
        }
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held >= 8) {
            held -= 8;
            if (!qpc_array_push(&f->bytes, (char)(bits >> held & 0xff)))
                return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
        }
    }
    return QPC_OK;
}

/// The data that start at p, length first: *ret is `size` bytes.
static qpc_status binary_data(vtu *f, const char *p, bool encoded, uint64_t size, const char **ret,
                              qpc_error *err) {
    size_t head = (size_t)f->header_size;
    const char *bytes = p;
    size_t have = (size_t)(f->t.end - p);
    f->t.binary = true;
    if (size > have) return qpc_text_fail(&f->t, err, "the file ends within an array");
    f->taken += size;
    if (f->taken > (uint64_t)(f->t.end - f->t.start))
        return qpc_text_fail(&f->t, err, "arrays share their data");
    if (encoded) {
        qpc_status st = decode(f, &p, head + (size_t)size, err);
        if (st != QPC_OK) return st;
        bytes = f->bytes.data;
        have = (size_t)f->bytes.count;
    }
    if (have < head + size)
        return qpc_text_fail(&f->t, err, "an array has %zu bytes; %llu are wanted", have,
                             (unsigned long long)(head + size));
    uint64_t said = head == 8 ? qpc_get_u64(bytes, f->big) : qpc_get_u32(bytes, f->big);
    if (said != size)
        return qpc_text_fail(&f->t, err, "an array of %llu bytes; %llu are wanted",
                             (unsigned long long)said, (unsigned long long)size);
    *ret = bytes + head;
    return QPC_OK;
}

/// Where an array's numbers are: NULL for text, which is then left in *text.
static qpc_status find_data(vtu *f, const tag *array, qpc_scalar type, int64_t count,
                            qpc_mesh_text *text, const char **ret, qpc_error *err) {
    qpc_token format = attribute(array, "format");
    uint64_t size = (uint64_t)count * (uint64_t)qpc_scalar_size(type);
    *ret = NULL;
    *text = f->t;
    if (qpc_token_is(format, "ascii")) {
        const char *close = memchr(f->t.p, '<', qpc_text_left(&f->t));
        if (close != NULL) text->end = close;
        return qpc_text_check_count(text, "numbers", count, 2, err);
    }
    if (qpc_token_is(format, "binary")) return binary_data(f, f->t.p, true, size, ret, err);
    int64_t offset = 0;
    if (!qpc_token_is(format, "appended"))
        return qpc_text_fail(&f->t, err, "a DataArray's format is ascii, binary or appended");
    if (f->appended == NULL) return qpc_text_fail(&f->t, err, "there are no appended data");
    if (!qpc_token_int(attribute(array, "offset"), &offset) || offset < 0 ||
        offset > f->t.end - f->appended)
        return qpc_text_fail(&f->t, err, "the offset of an array is missing or past the end");
    return binary_data(f, f->appended + offset, !f->appended_raw, size, ret, err);
}

/// The text of an array has been read: nothing may be left.
static qpc_status end_text(const vtu *f, qpc_mesh_text *text, qpc_error *err) {
    qpc_text_skip(text);
    if (text->p == text->end) return QPC_OK;
    return qpc_text_fail(text, err, "an array has more numbers than its piece says (line %lld)",
                         (long long)f->t.line);
}

static qpc_status get_points(vtu *f, const tag *array, int64_t count, qpc_error *err) {
    qpc_scalar type = QPC_SCALAR_NONE;
    const char *data = NULL;
    qpc_mesh_text text = f->t;
    qpc_token components = attribute(array, "NumberOfComponents");
    if (!qpc_token_is(components, "3"))
        return qpc_text_fail(&f->t, err, "points have 3 components");
    qpc_status st = scalar_of(f, array, &type, err);
    if (st == QPC_OK) st = find_data(f, array, type, 3 * count, &text, &data, err);
    int size = qpc_scalar_size(type);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        double x[3] = {0};
        for (int k = 0; k < 3 && st == QPC_OK; k++) {
            if (data != NULL)
                x[k] = qpc_get_real(data + (3 * i + k) * size, type, f->big);
            else
                st = qpc_text_real(&text, "a coordinate", &x[k], err);
        }
        if (st == QPC_OK) st = qpc_raw_node(f->raw, &f->t, x, err);
    }
    f->has_points = true;
    return st == QPC_OK && data == NULL ? end_text(f, &text, err) : st;
}

static qpc_status get_ints(vtu *f, const tag *array, int64_t count, int_list *to, qpc_error *err) {
    qpc_scalar type = QPC_SCALAR_NONE;
    const char *data = NULL;
    qpc_mesh_text text = f->t;
    qpc_status st = scalar_of(f, array, &type, err);
    if (st == QPC_OK && qpc_scalar_is_real(type))
        st = qpc_text_fail(&f->t, err, "cells are made of integers");
    if (st == QPC_OK) st = find_data(f, array, type, count, &text, &data, err);
    int size = qpc_scalar_size(type);
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        int64_t v = 0;
        if (data != NULL)
            v = qpc_get_int(data + i * size, type, f->big);
        else
            st = qpc_text_int(&text, "a number of a cell", &v, err);
        if (st == QPC_OK && !qpc_array_push(to, v))
            st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    return st == QPC_OK && data == NULL ? end_text(f, &text, err) : st;
}

// ---- a piece ----

/// Arrays of cells come in any order, and the connectivity's length is the last offset.
typedef struct piece {
    int64_t points, cells;
    int32_t first; // its first node
    tag connectivity;
    qpc_mesh_text at; // behind that tag
} piece;

static qpc_status read_array(vtu *f, const tag *array, bool in_points, piece *p, qpc_error *err) {
    if (in_points) {
        if (f->has_points) return qpc_text_fail(&f->t, err, "a second array of points");
        return get_points(f, array, p->points, err);
    }
    qpc_token name = attribute(array, "Name");
    if (qpc_token_is(name, "connectivity")) {
        f->has_connectivity = true;
        p->connectivity = *array;
        p->at = f->t;
        return QPC_OK;
    }
    bool offsets = qpc_token_is(name, "offsets"), types = qpc_token_is(name, "types");
    bool *has = offsets ? &f->has_offsets : &f->has_types;
    if (!offsets && !types) return QPC_OK; // faces of polyhedra, whose cells are refused
    if (*has) return qpc_text_fail(&f->t, err, "an array of the cells is there twice");
    *has = true;
    return get_ints(f, array, p->cells, offsets ? &f->offsets : &f->types, err);
}

static qpc_status finish_piece(vtu *f, piece *p, qpc_error *err) {
    if (!f->has_points || !f->has_connectivity || !f->has_offsets || !f->has_types)
        return qpc_text_fail(&f->t, err,
                             "a Piece has points, and cells of connectivity, offsets and types; "
                             "one of them is missing");
    int64_t before = 0, total = p->cells > 0 ? f->offsets.data[p->cells - 1] : 0;
    for (int64_t i = 0; i < p->cells; i++) {
        if (f->offsets.data[i] < before || f->offsets.data[i] > total)
            return qpc_text_fail(&f->t, err, "offset %lld of the cells is %lld", (long long)i,
                                 (long long)f->offsets.data[i]);
        before = f->offsets.data[i];
    }
    qpc_mesh_text here = f->t;
    f->t = p->at;
    qpc_status st = qpc_text_check_count(&f->t, "points of cells", total, 1, err);
    if (st == QPC_OK) st = get_ints(f, &p->connectivity, total, &f->connectivity, err);
    for (int64_t i = 0; i < p->cells && st == QPC_OK; i++) {
        int64_t at = i > 0 ? f->offsets.data[i - 1] : 0;
        st = qpc_vtk_cell(f->raw, &f->t, f->types.data[i], f->connectivity.data + at,
                          f->offsets.data[i] - at, p->first, err);
    }
    if (st == QPC_OK) f->t = here;
    f->t.binary = false;
    return st;
}

static qpc_status read_piece(vtu *f, const tag *open, qpc_error *err) {
    piece p = {.first = qpc_raw_node_count(f->raw)};
    bool in_points = false, in_cells = false;
    f->has_points = f->has_connectivity = f->has_offsets = f->has_types = false;
    f->connectivity.count = f->offsets.count = f->types.count = 0;
    qpc_status st = count_of(f, open, "NumberOfPoints", &p.points, err);
    if (st == QPC_OK) st = count_of(f, open, "NumberOfCells", &p.cells, err);
    tag next;
    while (st == QPC_OK) {
        f->t.binary = false;
        if (!next_tag(&f->t, &next)) return qpc_text_fail(&f->t, err, "the file ends in a Piece");
        if (qpc_token_is(next.name, "Points")) in_points = !next.closing && !next.empty;
        if (qpc_token_is(next.name, "Cells")) in_cells = !next.closing && !next.empty;
        if (qpc_token_is(next.name, "Piece") && next.closing) return finish_piece(f, &p, err);
        if (qpc_token_is(next.name, "DataArray") && !next.closing && (in_points || in_cells))
            st = read_array(f, &next, in_points, &p, err);
    }
    return st;
}

// ---- the file ----

static qpc_status read_root(vtu *f, const tag *root, qpc_error *err) {
    qpc_token type = attribute(root, "type"), order = attribute(root, "byte_order");
    qpc_token header = attribute(root, "header_type");
    if (!qpc_token_is(type, "UnstructuredGrid"))
        return qpc_text_fail(&f->t, err,
                             "a VTKFile of type \"%.*s\"; only UnstructuredGrid is read",
                             (int)(type.size < 40 ? type.size : 40), type.at);
    if (attribute(root, "compressor").size > 0)
        return qpc_text_fail(&f->t, err,
                             "compressed data are not read; write the file without compression "
                             "(in ParaView: compressor type none)");
    f->big = qpc_token_is(order, "BigEndian");
    f->header_size = qpc_token_is(header, "UInt64") ? 8 : 4;
    return QPC_OK;
}

/// Appended data start behind the underscore that follows the tag.
static qpc_status find_appended(vtu *f, qpc_error *err) {
    static const char name[] = "<AppendedData";
    const char *p = memmem(f->t.p, qpc_text_left(&f->t), name, sizeof name - 1);
    if (p == NULL) return QPC_OK;
    qpc_mesh_text t = f->t;
    tag found;
    t.p = p;
    if (!next_tag(&t, &found)) return qpc_text_fail(&t, err, "AppendedData has no end");
    qpc_token encoding = attribute(&found, "encoding");
    f->appended_raw = qpc_token_is(encoding, "raw");
    if (!f->appended_raw && !qpc_token_is(encoding, "base64"))
        return qpc_text_fail(&t, err, "appended data are raw or base64");
    qpc_text_skip(&t);
    if (t.p == t.end || *t.p != '_')
        return qpc_text_fail(&t, err, "appended data start with an underscore");
    f->appended = t.p + 1;
    return QPC_OK;
}

qpc_status qpc_vtu_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    vtu f = {.t = qpc_text_over(bytes, size, 0), .raw = raw};
    qpc_status st = QPC_OK;
    tag next;
    bool root = false, piece_seen = false;
    raw->format = "VTU";
    while (st == QPC_OK && next_tag(&f.t, &next)) {
        if (next.closing) continue;
        if (!root && !qpc_token_is(next.name, "VTKFile")) break;
        if (!root) {
            root = true;
            st = read_root(&f, &next, err);
            if (st == QPC_OK) st = find_appended(&f, err);
        } else if (qpc_token_is(next.name, "Piece") && !next.empty) {
            piece_seen = true;
            st = read_piece(&f, &next, err);
        } else if (qpc_token_is(next.name, "AppendedData")) {
            break;
        }
    }
    if (st == QPC_OK && !root) st = qpc_text_fail(&f.t, err, "the file is no VTKFile");
    if (st == QPC_OK && !piece_seen) st = qpc_text_fail(&f.t, err, "the file has no Piece");
    qpc_array_fini(&f.bytes);
    qpc_array_fini(&f.connectivity);
    qpc_array_fini(&f.offsets);
    qpc_array_fini(&f.types);
    return st;
}
