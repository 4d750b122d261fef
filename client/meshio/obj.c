/// Wavefront OBJ: vertices and faces.
///
/// A face's corner is v, v/vt, v//vn or v/vt/vn, counted from 1 or, negative, back from the last
/// vertex above that line. A vertex has 3 numbers, 4 with a weight (coordinates are divided by it),
/// 6 or 7 with a colour. Points and lines are counted and left out; other keywords say nothing
/// about shape and are passed over. A backslash joins a line to the next one. Any thread; no state.
#include "client/meshio/meshraw.h"

enum { NUMBERS_MOST = 7, SHOWN_MOST = 40 };

static int shown(qpc_token token) {
    int n = 0;
    while (n < SHOWN_MOST && (size_t)n < token.size && token.at[n] > ' ' && token.at[n] <= '~') n++;
    return n;
}

/// The next token of this line, over a backslash that joins lines.
static qpc_token next(qpc_mesh_text *t) {
    while (true) {
        qpc_token token = qpc_text_token_in_line(t);
        if (token.size == 0 || token.at[token.size - 1] != '\\' || t->p == t->end) return token;
        (void)qpc_text_line(t);
        if (--token.size > 0) return token;
    }
}

static void skip_line(qpc_mesh_text *t) {
    while (next(t).size > 0) continue;
}

static qpc_status read_vertex(qpc_mesh_text *t, int64_t line, qpc_mesh_raw *raw, qpc_error *err) {
    double v[NUMBERS_MOST];
    int count = 0;
    qpc_mesh_text at = *t;
    at.line = line;
    for (qpc_token token = next(t); token.size > 0; token = next(t)) {
        if (count == NUMBERS_MOST || !qpc_token_real(token, &v[count]))
            return qpc_text_fail(&at, err, "\"%.*s\" is no number of a vertex", shown(token),
                                 token.at);
        count++;
    }
    if (count < 3 || count == 5)
        return qpc_text_fail(&at, err,
                             "a vertex has 3 numbers, 4 with a weight, 6 or 7 with a colour");
    if (count == 4 && v[3] == 0) return qpc_text_fail(&at, err, "a vertex has weight 0");
    for (int k = 0; k < 3 && count == 4; k++) v[k] /= v[3];
    return qpc_raw_node(raw, &at, v, err);
}

/// v, v/vt, v//vn, v/vt/vn; only v says anything here, the others must be integers.
static bool read_corner(qpc_token token, int64_t *ret) {
    int64_t ignored;
    const char *end = token.at + token.size, *p = token.at;
    for (int part = 0; part < 3; part++) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        qpc_token number = {p, (size_t)((slash != NULL ? slash : end) - p)};
        bool may_lack = part == 1 && slash != NULL;
        if (!(may_lack && number.size == 0) && !qpc_token_int(number, part == 0 ? ret : &ignored))
            return false;
        if (slash == NULL) return true;
        p = slash + 1;
    }
    return false;
}

static qpc_status read_face(qpc_mesh_text *t, int64_t line, qpc_mesh_raw *raw, qpc_error *err) {
    int32_t have = qpc_raw_node_count(raw);
    qpc_mesh_text at = *t;
    at.line = line;
    raw->corners.count = 0;
    for (qpc_token token = next(t); token.size > 0; token = next(t)) {
        int64_t v = 0;
        if (!read_corner(token, &v))
            return qpc_text_fail(&at, err, "\"%.*s\" is no corner of a face", shown(token),
                                 token.at);
        int64_t node = v > 0 ? v - 1 : have + v;
        if (v == 0 || node < 0 || node >= have)
            return qpc_text_fail(&at, err, "a face uses vertex %lld; %d are there above this line",
                                 (long long)v, have);
        if (!qpc_array_push(&raw->corners, (int32_t)node))
            return qpc_fail(err, QPC_ERR_MEMORY, "out of memory");
    }
    if (raw->corners.count < 3)
        return qpc_text_fail(&at, err, "a face with %d corners", raw->corners.count);
    return qpc_raw_polygon(raw, raw->corners.data, raw->corners.count, err);
}

qpc_status qpc_obj_parse(const void *bytes, size_t size, qpc_mesh_raw *raw, qpc_error *err) {
    qpc_mesh_text t = qpc_text_over(bytes, size, '#');
    qpc_status st = QPC_OK;
    raw->format = "OBJ";
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) t.p += 3; // a byte order mark
    while (st == QPC_OK) {
        qpc_text_skip(&t);
        if (t.p == t.end) return QPC_OK;
        int64_t line = t.line;
        qpc_token word = next(&t);
        if (qpc_token_is(word, "v")) {
            st = read_vertex(&t, line, raw, err);
        } else if (qpc_token_is(word, "f") || qpc_token_is(word, "fo")) {
            st = read_face(&t, line, raw, err);
        } else {
            raw->skipped += qpc_token_is(word, "p") || qpc_token_is(word, "l");
            skip_line(&t);
        }
    }
    return st;
}
