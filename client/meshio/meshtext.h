/// Walking over the bytes of a mesh file, text or binary: tokens, numbers, counts, positions.
///
/// All readers of formats stand on this. Nothing reads beyond the end; numbers do not depend on the
/// locale, are decimal, finite, and end where their token ends ("1,5", "0x1", "nan" are none). A
/// count is refused at once when the bytes left cannot hold that many records, so that no reader
/// takes memory, or time, that the file's size does not pay for. Any thread; no state.
#ifndef QPC_CLIENT_MESHIO_MESHTEXT_H
#define QPC_CLIENT_MESHIO_MESHTEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct qpc_mesh_text {
    const char *start, *p, *end;
    int64_t line; // of p, from 1; not kept over binary data
    char comment; // starts a comment up to the end of its line; 0: there are none
    bool binary;  // errors name the byte instead of the line
    bool big;     // binary numbers are big-endian
} qpc_mesh_text;

typedef struct qpc_token {
    const char *at;
    size_t size; // 0: there is none
} qpc_token;

qpc_mesh_text qpc_text_over(const void *bytes, size_t size, char comment);
static inline size_t qpc_text_left(const qpc_mesh_text *t) {
    return (size_t)(t->end - t->p);
}

/// Over blanks, ends of lines and comments.
void qpc_text_skip(qpc_mesh_text *t);
/// The next token, over ends of lines; or in this line only, whose end is not passed.
qpc_token qpc_text_token(qpc_mesh_text *t);
qpc_token qpc_text_token_in_line(qpc_mesh_text *t);
/// What is left of this line without blanks around it; p is then behind its end (\n, \r\n or \r).
qpc_token qpc_text_line(qpc_mesh_text *t);
/// Exactly this word; without regard to case.
bool qpc_token_is(qpc_token token, const char *word);
bool qpc_token_is_any_case(qpc_token token, const char *word);

/// The whole token is a finite decimal number, rounded right; an integer of 64 bits.
bool qpc_token_real(qpc_token token, double *ret);
bool qpc_token_int(qpc_token token, int64_t *ret);

/// QPC_ERR_INVALID, the message starts with "line 12: " or "byte 120: ".
qpc_status qpc_text_fail(const qpc_mesh_text *t, qpc_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/// The next token as a number; `what` is the noun of the error.
qpc_status qpc_text_real(qpc_mesh_text *t, const char *what, double *ret, qpc_error *err);
qpc_status qpc_text_int(qpc_mesh_text *t, const char *what, int64_t *ret, qpc_error *err);
/// count records of at least `least` bytes each are to come: refused if they cannot. least 0 is 1.
qpc_status qpc_text_check_count(const qpc_mesh_text *t, const char *what, int64_t count,
                                int64_t least, qpc_error *err);
/// An integer that passes qpc_text_check_count.
qpc_status qpc_text_count(qpc_mesh_text *t, const char *what, int64_t least, int64_t *ret,
                          qpc_error *err);

/// `size` bytes of binary data, or an error; p moves behind them.
qpc_status qpc_text_take(qpc_mesh_text *t, uint64_t size, const char *what, const char **ret,
                         qpc_error *err);
uint32_t qpc_get_u32(const char *p, bool big);
uint64_t qpc_get_u64(const char *p, bool big);
double qpc_get_f32(const char *p, bool big);
double qpc_get_f64(const char *p, bool big);

/// The scalar types of PLY, VTK and VTU files.
typedef enum qpc_scalar {
    QPC_SCALAR_NONE,
    QPC_SCALAR_I8,
    QPC_SCALAR_U8,
    QPC_SCALAR_I16,
    QPC_SCALAR_U16,
    QPC_SCALAR_I32,
    QPC_SCALAR_U32,
    QPC_SCALAR_I64,
    QPC_SCALAR_U64,
    QPC_SCALAR_F32,
    QPC_SCALAR_F64,
} qpc_scalar;
int qpc_scalar_size(qpc_scalar type);
static inline bool qpc_scalar_is_real(qpc_scalar type) {
    return type >= QPC_SCALAR_F32;
}
/// The value there. An unsigned one beyond 2^63 comes out as INT64_MAX, which no count or index is.
int64_t qpc_get_int(const char *p, qpc_scalar type, bool big); // not for reals
double qpc_get_real(const char *p, qpc_scalar type, bool big);

#endif
