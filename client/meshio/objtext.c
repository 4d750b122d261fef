/// Vertices of OBJ files, checked and written anew. See objtext.h.
#include "client/meshio/objtext.h"

#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

enum { NUMBERS_MOST = 7, SHOWN = 40 };

typedef struct number {
    const char *at;
    size_t size;
    bool bare; // starts with a point, or a sign and a point
} number;

typedef struct reader {
    const char *p, *end;
    long line;
    char *out;
} reader;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f'; }
static bool ends_line(char c) { return c == '\n' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Where a backslash joins the next line to this one: the characters that it takes, or 0.
static size_t joint(const char *p, const char *end) {
    if (p == end || *p != '\\') return 0;
    if (end - p >= 2 && p[1] == '\n') return 2;
    return end - p >= 3 && p[1] == '\r' && p[2] == '\n' ? 3 : 0;
}

/// Blanks, and ends of lines behind a backslash.
static void skip_blanks(reader *r) {
    while (r->p < r->end) {
        size_t n = joint(r->p, r->end);
        if (n == 0 && !is_blank(*r->p)) return;
        r->line += n > 0;
        r->p += n > 0 ? n : 1;
    }
}

static size_t digits(const char *p, const char *end) {
    size_t n = 0;
    while (p + n < end && is_digit(p[n])) n++;
    return n;
}

/// A decimal number from here to a blank or the end of the line; its size is 0 if there is none.
static number read_number(const reader *r) {
    const char *p = r->p, *end = r->end;
    if (p < end && (*p == '-' || *p == '+')) p++;
    size_t whole = digits(p, end), part = 0;
    p += whole;
    if (p < end && *p == '.') {
        part = digits(p + 1, end);
        p += 1 + part;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '-' || *p == '+')) p++;
        size_t power = digits(p, end);
        if (power == 0) return (number){0};
        p += power;
    }
    bool over = p == end || is_blank(*p) || ends_line(*p) || joint(p, end) > 0;
    if (!over || whole + part == 0) return (number){0};
    return (number){.at = r->p, .size = (size_t)(p - r->p), .bare = whole == 0};
}

static void put(reader *r, const char *bytes, size_t size) {
    memcpy(r->out, bytes, size);
    r->out += size;
}

static void put_number(reader *r, const number *n) {
    put(r, " ", 1);
    bool sign = *n->at == '-' || *n->at == '+';
    if (sign) put(r, n->at, 1);
    if (n->bare) put(r, "0", 1);
    put(r, n->at + sign, n->size - sign);
}

static qpc_status bad_vertex(const reader *r, long line, qpc_error *err) {
    int shown = 0;
    while (shown < SHOWN && r->p + shown < r->end && r->p[shown] > ' ' && r->p[shown] <= '~') shown++;
    if (shown > 0)
        return qpc_fail(err, QPC_ERR_INVALID, "line %ld: \"%.*s\" is no number of a vertex", line, shown, r->p);
    return qpc_fail(err, QPC_ERR_INVALID, "line %ld: a vertex has 3 numbers, 4 with a weight, 6 or 7 with a colour", line);
}

/// What is behind the `v`, to the end of the line.
static qpc_status copy_vertex(reader *r, qpc_error *err) {
    number numbers[NUMBERS_MOST];
    int count = 0;
    long line = r->line;
    for (skip_blanks(r); r->p < r->end && !ends_line(*r->p) && *r->p != '#'; skip_blanks(r)) {
        number n = read_number(r);
        if (n.size == 0) return bad_vertex(r, line, err);
        if (count < NUMBERS_MOST) numbers[count] = n;
        count++;
        r->p += n.size;
    }
    if (count < 3 || count == 5 || count > NUMBERS_MOST) {
        r->p = r->end;
        return bad_vertex(r, line, err);
    }
    put(r, "v", 1);
    for (int i = 0; i < (count == 4 ? 4 : 3); i++) put_number(r, &numbers[i]);
    while (r->p < r->end && !ends_line(*r->p)) r->p++; // a comment
    return QPC_OK;
}

/// A line of any other kind, with those that are joined to it.
static void copy_line(reader *r) {
    while (r->p < r->end && !ends_line(*r->p)) {
        size_t n = joint(r->p, r->end);
        r->line += n > 0;
        put(r, r->p, n > 0 ? n : 1);
        r->p += n > 0 ? n : 1;
    }
}

qpc_status qpc_obj_text(const char *text, size_t size, char **ret, size_t *ret_size, qpc_error *err) {
    // A number gets at most one digit more, and there is a blank before it.
    char *out = size < SIZE_MAX / 2 ? qpc_alloc(size + size / 2 + 2) : NULL;
    if (out == NULL) return qpc_fail(err, QPC_ERR_MEMORY, "out of memory for %zu bytes of text", size);
    reader r = {.p = text, .end = text + size, .line = 1, .out = out};
    while (r.p < r.end) {
        while (r.p < r.end && is_blank(*r.p)) r.p++;
        bool vertex = r.end - r.p >= 2 && r.p[0] == 'v' && (is_blank(r.p[1]) || ends_line(r.p[1]) || joint(r.p + 1, r.end) > 0);
        if (vertex) {
            r.p++;
            qpc_status st = copy_vertex(&r, err);
            if (st != QPC_OK) {
                qpc_free(out);
                return st;
            }
        } else {
            copy_line(&r);
        }
        if (r.p == r.end) break;
        r.p += r.end - r.p >= 2 && r.p[0] == '\r' && r.p[1] == '\n' ? 2 : 1;
        r.line++;
        put(&r, "\n", 1);
    }
    put(&r, "\n", 1);
    *ret = out;
    *ret_size = (size_t)(r.out - out);
    return QPC_OK;
}
