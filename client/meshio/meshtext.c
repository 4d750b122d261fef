/// Tokens, numbers and counts of mesh files. See meshtext.h.
#include "client/meshio/meshtext.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_MOST = 400, SHOWN_MOST = 40 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}
static bool ends_line(char c) {
    return c == '\n' || c == '\r';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

qpc_mesh_text qpc_text_over(const void *bytes, size_t size, char comment) {
    const char *p = bytes;
    return (qpc_mesh_text){.start = p, .p = p, .end = p + size, .line = 1, .comment = comment};
}

static void pass_line_end(qpc_mesh_text *t) {
    t->p += t->end - t->p >= 2 && t->p[0] == '\r' && t->p[1] == '\n' ? 2 : 1;
    t->line++;
}

/// Blanks and a comment, up to the end of the line.
static void skip_in_line(qpc_mesh_text *t) {
    while (t->p < t->end && is_blank(*t->p)) t->p++;
    if (t->p < t->end && t->comment != 0 && *t->p == t->comment)
        while (t->p < t->end && !ends_line(*t->p)) t->p++;
}

void qpc_text_skip(qpc_mesh_text *t) {
    for (skip_in_line(t); t->p < t->end && ends_line(*t->p); skip_in_line(t)) pass_line_end(t);
}

qpc_token qpc_text_token_in_line(qpc_mesh_text *t) {
    skip_in_line(t);
    qpc_token token = {.at = t->p};
    while (t->p < t->end && !is_blank(*t->p) && !ends_line(*t->p) &&
           (t->comment == 0 || *t->p != t->comment))
        t->p++;
    token.size = (size_t)(t->p - token.at);
    return token;
}

qpc_token qpc_text_token(qpc_mesh_text *t) {
    qpc_text_skip(t);
    return qpc_text_token_in_line(t);
}

qpc_token qpc_text_line(qpc_mesh_text *t) {
    while (t->p < t->end && is_blank(*t->p)) t->p++;
    qpc_token line = {.at = t->p};
    while (t->p < t->end && !ends_line(*t->p)) t->p++;
    line.size = (size_t)(t->p - line.at);
    while (line.size > 0 && is_blank(line.at[line.size - 1])) line.size--;
    if (t->p < t->end) pass_line_end(t);
    return line;
}

bool qpc_token_is(qpc_token token, const char *word) {
    return strlen(word) == token.size && memcmp(token.at, word, token.size) == 0;
}

bool qpc_token_is_any_case(qpc_token token, const char *word) {
    return strlen(word) == token.size && strncasecmp(token.at, word, token.size) == 0;
}

// ---- numbers ----

bool qpc_token_int(qpc_token token, int64_t *ret) {
    const char *p = token.at, *end = token.at + token.size;
    bool minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (p == end) return false;
    int64_t v = 0;
    for (; p < end; p++) {
        if (!is_digit(*p) || v > (INT64_MAX - (*p - '0')) / 10) return false;
        v = 10 * v + (*p - '0');
    }
    *ret = minus ? -v : v;
    return true;
}

/// The digits of a number: mantissa * 10^power, exact while `exact`.
typedef struct decimal {
    uint64_t mantissa;
    int power;
    bool exact, any;
} decimal;

static const char *read_digits(const char *p, const char *end, bool behind_point, decimal *d) {
    for (; p < end && is_digit(*p); p++) {
        d->any = true;
        if (d->mantissa > (UINT64_MAX - 9) / 10) {
            d->exact = false;
            continue;
        }
        d->mantissa = 10 * d->mantissa + (uint64_t)(*p - '0');
        if (behind_point) d->power--;
    }
    return p;
}

/// At most NUMBER_MOST characters, by the C library, in the C locale (which glibc keeps ready: this
/// takes no memory).
static bool convert_slowly(qpc_token token, double *ret) {
    char text[NUMBER_MOST + 1], *stop;
    memcpy(text, token.at, token.size);
    text[token.size] = '\0';
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return false;
    double v = strtod_l(text, &stop, plain);
    freelocale(plain);
    if (*stop != '\0' || !isfinite(v)) return false;
    *ret = v;
    return true;
}

bool qpc_token_real(qpc_token token, double *ret) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (token.size > NUMBER_MOST) return false;
    const char *p = token.at, *end = token.at + token.size;
    decimal d = {.exact = true};
    bool minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    p = read_digits(p, end, false, &d);
    if (p < end && *p == '.') p = read_digits(p + 1, end, true, &d);
    if (!d.any) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        int64_t power = 0;
        if (!qpc_token_int((qpc_token){p + 1, (size_t)(end - p - 1)}, &power)) return false;
        d.exact = d.exact && power > -1000 && power < 1000;
        if (d.exact) d.power += (int)power;
        p = end;
    }
    if (p != end) return false;
    // Both are exact doubles: one rounding.
    if (!d.exact || d.mantissa > (uint64_t)1 << 53 || d.power < -22 || d.power > 22)
        return convert_slowly(token, ret);
    double v = (double)d.mantissa;
    v = d.power < 0 ? v / powers[-d.power] : v * powers[d.power];
    *ret = minus ? -v : v;
    return true;
}

// ---- errors ----

qpc_status qpc_text_fail(const qpc_mesh_text *t, qpc_error *err, const char *format, ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return qpc_fail(err, QPC_ERR_INVALID, "%s %lld: %s", t->binary ? "byte" : "line",
                    t->binary ? (long long)(t->p - t->start) : (long long)t->line, message);
}

static qpc_status bad_token(const qpc_mesh_text *t, qpc_token token, const char *wanted,
                            const char *what, qpc_error *err) {
    if (token.size == 0) {
        const char *where = t->p == t->end ? "the file ends" : "the line ends";
        return qpc_text_fail(t, err, "%s where %s should be", where, what);
    }
    char shown[SHOWN_MOST + 1];
    size_t n = token.size < SHOWN_MOST ? token.size : SHOWN_MOST;
    for (size_t i = 0; i < n; i++)
        shown[i] = token.at[i] > ' ' && token.at[i] <= '~' ? token.at[i] : '?';
    shown[n] = '\0';
    return qpc_text_fail(t, err, "\"%s\" is no %s (%s)", shown, wanted, what);
}

qpc_status qpc_text_real(qpc_mesh_text *t, const char *what, double *ret, qpc_error *err) {
    qpc_token token = qpc_text_token(t);
    if (token.size > 0 && qpc_token_real(token, ret)) return QPC_OK;
    return bad_token(t, token, "finite decimal number", what, err);
}

qpc_status qpc_text_int(qpc_mesh_text *t, const char *what, int64_t *ret, qpc_error *err) {
    qpc_token token = qpc_text_token(t);
    if (token.size > 0 && qpc_token_int(token, ret)) return QPC_OK;
    return bad_token(t, token, "integer", what, err);
}

qpc_status qpc_text_check_count(const qpc_mesh_text *t, const char *what, int64_t count,
                                int64_t least, qpc_error *err) {
    if (count < 0) return qpc_text_fail(t, err, "the count of %s is %lld", what, (long long)count);
    // The last number of a text has no blank behind it.
    int64_t most = ((int64_t)qpc_text_left(t) + 1) / (least > 0 ? least : 1);
    if (count <= most) return QPC_OK;
    return qpc_text_fail(t, err, "%lld %s are announced, and the %lld bytes left cannot hold them",
                         (long long)count, what, (long long)qpc_text_left(t));
}

qpc_status qpc_text_count(qpc_mesh_text *t, const char *what, int64_t least, int64_t *ret,
                          qpc_error *err) {
    int64_t count = 0;
    char noun[80];
    snprintf(noun, sizeof noun, "the count of %s", what);
    qpc_status st = qpc_text_int(t, noun, &count, err);
    if (st == QPC_OK) st = qpc_text_check_count(t, what, count, least, err);
    if (st == QPC_OK) *ret = count;
    return st;
}

// ---- binary ----

qpc_status qpc_text_take(qpc_mesh_text *t, uint64_t size, const char *what, const char **ret,
                         qpc_error *err) {
    t->binary = true;
    if (size > qpc_text_left(t))
        return qpc_text_fail(t, err, "the file ends within %s (%llu bytes wanted, %zu left)", what,
                             (unsigned long long)size, qpc_text_left(t));
    *ret = t->p;
    t->p += size;
    return QPC_OK;
}

static uint64_t get_bytes(const char *p, int size, bool big) {
    uint64_t v = 0;
    for (int i = 0; i < size; i++) v = v << 8 | (uint8_t)p[big ? i : size - 1 - i];
    return v;
}

uint32_t qpc_get_u32(const char *p, bool big) {
    return (uint32_t)get_bytes(p, 4, big);
}
uint64_t qpc_get_u64(const char *p, bool big) {
    return get_bytes(p, 8, big);
}

double qpc_get_f32(const char *p, bool big) {
    uint32_t bits = qpc_get_u32(p, big);
    float v;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

double qpc_get_f64(const char *p, bool big) {
    uint64_t bits = qpc_get_u64(p, big);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

int qpc_scalar_size(qpc_scalar type) {
    static const int sizes[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return sizes[type];
}

int64_t qpc_get_int(const char *p, qpc_scalar type, bool big) {
    uint64_t v = get_bytes(p, qpc_scalar_size(type), big);
    switch (type) {
    case QPC_SCALAR_I8:
        return (int8_t)v;
    case QPC_SCALAR_I16:
        return (int16_t)v;
    case QPC_SCALAR_I32:
        return (int32_t)v;
    case QPC_SCALAR_I64:
        return (int64_t)v;
    default:
        return v <= INT64_MAX ? (int64_t)v : INT64_MAX;
    }
}

double qpc_get_real(const char *p, qpc_scalar type, bool big) {
    if (type == QPC_SCALAR_F32) return qpc_get_f32(p, big);
    if (type == QPC_SCALAR_F64) return qpc_get_f64(p, big);
    return (double)qpc_get_int(p, type, big);
}
