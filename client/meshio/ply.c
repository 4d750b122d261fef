/// PLY: text, little-endian and big-endian.
///
/// The header lists elements and the types of their properties, so that everything can be passed
/// over that is not a vertex's x, y, z or a face's list of corners. Any thread; no state.
#include "client/meshio/meshraw.h"

enum { ELEMENTS_MOST = 64, PROPERTIES_MOST = 256 };

typedef enum property_use { USE_NONE, USE_X, USE_Y, USE_Z, USE_CORNERS } property_use;

typedef struct property {
    qpc_scalar count; // NONE: not a list
    qpc_scalar type;
    property_use use;
} property;

typedef struct element {
    int64_t count;
    int first, end; // of the properties
    bool is_vertex, is_face;
} element;

typedef struct ply {
    qpc_mesh_text t;
    qpc_mesh_raw *raw;
    bool binary;
    element elements[ELEMENTS_MOST];
    property properties[PROPERTIES_MOST];
    int element_count, property_count;
} ply;

static qpc_scalar scalar_of(qpc_token name) {
    static const struct {
        const char *names[2];
        qpc_scalar type;
    } known[] = {
        {{"char", "int8"}, QPC_SCALAR_I8},      {{"uchar", "uint8"}, QPC_SCALAR_U8},
        {{"short", "int16"}, QPC_SCALAR_I16},   {{"ushort", "uint16"}, QPC_SCALAR_U16},
        {{"int", "int32"}, QPC_SCALAR_I32},     {{"uint", "uint32"}, QPC_SCALAR_U32},
        {{"float", "float32"}, QPC_SCALAR_F32}, {{"double", "float64"}, QPC_SCALAR_F64},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int k = 0; k < 2; k++)
            if (qpc_token_is(name, known[i].names[k])) return known[i].type;
    return QPC_SCALAR_NONE;
}

// ---- header ----

static qpc_status read_element(ply *f, qpc_error *err) {
    if (f->element_count == ELEMENTS_MOST)
        return qpc_text_fail(&f->t, err, "more than %d elements", ELEMENTS_MOST);
    element *e = &f->elements[f->element_count];
    qpc_token name = qpc_text_token_in_line(&f->t);
    *e = (element){.first = f->property_count, .end = f->property_count};
    e->is_vertex = qpc_token_is(name, "vertex");
    e->is_face = qpc_token_is(name, "face");
    for (int i = 0; i < f->element_count; i++)
        if ((e->is_vertex && f->elements[i].is_vertex) || (e->is_face && f->elements[i].is_face))
            return qpc_text_fail(&f->t, err, "element %.*s is there twice", (int)name.size,
                                 name.at);
    if (qpc_token_is(name, "tristrips"))
        return qpc_text_fail(&f->t, err, "triangle strips are not read, only faces");
    if (!qpc_token_int(qpc_text_token_in_line(&f->t), &e->count) || e->count < 0)
        return qpc_text_fail(&f->t, err, "an element has a name and a count");
    f->element_count++;
    return QPC_OK;
}

static qpc_status read_property(ply *f, qpc_error *err) {
    if (f->element_count == 0) return qpc_text_fail(&f->t, err, "a property before any element");
    if (f->property_count == PROPERTIES_MOST)
        return qpc_text_fail(&f->t, err, "more than %d properties", PROPERTIES_MOST);
    element *e = &f->elements[f->element_count - 1];
    property p = {0};
    qpc_token type = qpc_text_token_in_line(&f->t);
    bool list = qpc_token_is(type, "list");
    if (list) {
        p.count = scalar_of(qpc_text_token_in_line(&f->t));
        type = qpc_text_token_in_line(&f->t);
        if (p.count == QPC_SCALAR_NONE || qpc_scalar_is_real(p.count))
            return qpc_text_fail(&f->t, err, "a list's count is of an integer type");
    }
    p.type = scalar_of(type);
    qpc_token name = qpc_text_token_in_line(&f->t);
    if (p.type == QPC_SCALAR_NONE || name.size == 0)
        return qpc_text_fail(&f->t, err, "a property has a type that is known and a name");
    if (e->is_vertex && !list && name.size == 1 && name.at[0] >= 'x' && name.at[0] <= 'z')
        p.use = (property_use)(USE_X + (name.at[0] - 'x'));
    if (e->is_face && list &&
        (qpc_token_is(name, "vertex_index") || qpc_token_is(name, "vertex_indices")))
        p.use = USE_CORNERS;
    if (p.use == USE_CORNERS && qpc_scalar_is_real(p.type))
        return qpc_text_fail(&f->t, err, "corners of faces are integers");
    for (int i = e->first; i < e->end; i++)
        if (p.use != USE_NONE && f->properties[i].use == p.use)
            return qpc_text_fail(&f->t, err, "property %.*s is there twice", (int)name.size,
                                 name.at);
    f->properties[f->property_count++] = p;
    e->end = f->property_count;
    return QPC_OK;
}

static qpc_status read_format(ply *f, qpc_error *err) {
    qpc_token kind = qpc_text_token_in_line(&f->t), version = qpc_text_token_in_line(&f->t);
    bool little = qpc_token_is(kind, "binary_little_endian");
    f->t.big = qpc_token_is(kind, "binary_big_endian");
    f->binary = little || f->t.big;
    f->raw->format = f->binary ? "PLY binary" : "PLY";
    if ((!f->binary && !qpc_token_is(kind, "ascii")) || !qpc_token_is(version, "1.0"))
        return qpc_text_fail(&f->t, err,
                             "the format is ascii, binary_little_endian or binary_big_endian 1.0");
    return QPC_OK;
}

/// A vertex has x, y, z; a face its corners; vertices come first.
static qpc_status check_header(const ply *f, qpc_error *err) {
    bool vertex = false, face = false;
    for (int i = 0; i < f->element_count; i++) {
        const element *e = &f->elements[i];
        unsigned uses = 0;
        for (int k = e->first; k < e->end; k++) uses |= 1U << f->properties[k].use;
        if (e->is_vertex && (uses & 0xeU) != 0xeU)
            return qpc_text_fail(&f->t, err, "vertices without x, y and z");
        if (e->is_face && (uses & 1U << USE_CORNERS) == 0)
            return qpc_text_fail(&f->t, err, "faces without vertex_indices");
        if (e->is_face && !vertex) return qpc_text_fail(&f->t, err, "faces before the vertices");
        vertex = vertex || e->is_vertex;
        face = face || e->is_face;
    }
    if (vertex && face) return QPC_OK;
    return qpc_text_fail(&f->t, err, "the file has no faces: elements vertex and face are wanted");
}

static qpc_status read_header(ply *f, qpc_error *err) {
    bool has_format = false;
    qpc_status st = QPC_OK;
    if (!qpc_token_is(qpc_text_line(&f->t), "ply"))
        return qpc_text_fail(&f->t, err, "a PLY file starts with \"ply\"");
    while (st == QPC_OK) {
        if (f->t.p == f->t.end) return qpc_text_fail(&f->t, err, "the header has no end");
        qpc_token word = qpc_text_token_in_line(&f->t);
        if (qpc_token_is(word, "end_header")) {
            // Binary data may start with any byte: only this end of a line is passed.
            (void)qpc_text_line(&f->t);
            if (!has_format) return qpc_text_fail(&f->t, err, "the header has no format");
            return check_header(f, err);
        }
        if (qpc_token_is(word, "format")) {
            st = read_format(f, err);
            has_format = true;
        } else if (qpc_token_is(word, "element")) {
            st = read_element(f, err);
        } else if (qpc_token_is(word, "property")) {
            st = read_property(f, err);
        } else if (word.size > 0 && !qpc_token_is(word, "comment") &&
                   !qpc_token_is(word, "obj_info")) {
            st = qpc_text_fail(&f->t, err, "\"%.*s\" is no line of a header",
                               (int)(word.size < 40 ? word.size : 40), word.at);
        }
        if (st == QPC_OK) (void)qpc_text_line(&f->t);
    }
    return st;
}

// ---- elements ----

static qpc_status get_real(ply *f, qpc_scalar type, double *ret, qpc_error *err) {
    if (!f->binary) return qpc_text_real(&f->t, "a property", ret, err);
    const char *p;
    qpc_status st = qpc_text_take(&f->t, (uint64_t)qpc_scalar_size(type), "an element", &p, err);
    if (st == QPC_OK) *ret = qpc_get_real(p, type, f->t.big);
    return st;
}

static qpc_status get_int(ply *f, qpc_scalar type, int64_t *ret, qpc_error *err) {
    if (!f->binary) return qpc_text_int(&f->t, "an integer of a list", ret, err);
    const char *p;
    qpc_status st = qpc_text_take(&f->t, (uint64_t)qpc_scalar_size(type), "a list", &p, err);
    if (st == QPC_OK) *ret = qpc_get_int(p, type, f->t.big);
    return st;
}

static qpc_status read_list(ply *f, const property *p, qpc_error *err) {
    int64_t count = 0, index = 0;
    int size = f->binary ? qpc_scalar_size(p->type) : 2;
    qpc_status st = get_int(f, p->count, &count, err);
    if (st == QPC_OK) st = qpc_text_check_count(&f->t, "items of a list", count, size, err);
    if (p->use == USE_CORNERS) f->raw->corners.count = 0;
    for (int64_t i = 0; i < count && st == QPC_OK; i++) {
        double ignored;
        int32_t v = 0;
        if (p->use != USE_CORNERS) {
            st = get_real(f, p->type, &ignored, err);
            continue;
        }
        st = get_int(f, p->type, &index, err);
        if (st == QPC_OK) st = qpc_raw_index(f->raw, &f->t, index, 0, &v, err);
        if (st == QPC_OK && !qpc_array_push(&f->raw->corners, v))
            st = qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    return st;
}

static qpc_status read_one(ply *f, const element *e, qpc_error *err) {
    double x[3] = {0}, ignored;
    qpc_status st = QPC_OK;
    for (int i = e->first; i < e->end && st == QPC_OK; i++) {
        const property *p = &f->properties[i];
        bool coordinate = p->use >= USE_X && p->use <= USE_Z;
        if (p->count != QPC_SCALAR_NONE)
            st = read_list(f, p, err);
        else
            st = get_real(f, p->type, coordinate ? &x[p->use - USE_X] : &ignored, err);
    }
    if (st == QPC_OK && e->is_vertex) st = qpc_raw_node(f->raw, &f->t, x, err);
    if (st == QPC_OK && e->is_face)
        st = qpc_raw_polygon(f->raw, f->raw->corners.data, f->raw->corners.count, err);
    return st;
}

static qpc_status read_elements(ply *f, const element *e, qpc_error *err) {
    int64_t least = 0;
    if (e->first == e->end) return QPC_OK; // nothing is stored of them
    for (int i = e->first; i < e->end; i++) {
        const property *p = &f->properties[i];
        qpc_scalar first = p->count != QPC_SCALAR_NONE ? p->count : p->type;
        least += f->binary ? qpc_scalar_size(first) : 2;
    }
    qpc_status st = qpc_text_check_count(&f->t, "elements", e->count, least, err);
    for (int64_t i = 0; i < e->count && st == QPC_OK; i++) st = read_one(f, e, err);
    return st;
}

qpc_status qpc_ply_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    ply f = {.t = qpc_text_over(bytes, size, 0), .raw = raw};
    raw->format = "PLY";
    qpc_status st = read_header(&f, err);
    for (int i = 0; i < f.element_count && st == QPC_OK; i++)
        st = read_elements(&f, &f.elements[i], err);
    return st;
}
