/// A tree of values: what JSON files and MessagePack messages both turn into.
///
/// Kinds: nil, bool, int (any int64 or uint64), real, str (UTF-8, counted), bin, array, map with
/// string keys in the order given, and tensor (a dense numeric array: on the wire a msgpack-numpy
/// map, in JSON nested lists). A tree owns everything below it, except that str, bin and tensor
/// bytes may be borrowed from a buffer that outlives the tree (decoding a message copies nothing).
/// Not thread-safe; a tree belongs to one thread at a time.
#ifndef QPC_BASE_VALUE_H
#define QPC_BASE_VALUE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum qpc_kind {
    QPC_NIL,
    QPC_BOOL,
    QPC_INT, // fits int64; or, with value.is_unsigned, a uint64 above INT64_MAX
    QPC_REAL,
    QPC_STR,
    QPC_BIN,
    QPC_LIST,
    QPC_MAP,
    QPC_TENSOR,
} qpc_kind;

typedef enum qpc_dtype { QPC_F64, QPC_F32, QPC_I32, QPC_U8, QPC_I64, QPC_U64 } qpc_dtype;
enum { QPC_TENSOR_MAX_DIMS = 4 };

/// Dense row-major little-endian array. data may be unaligned: read with memcpy or the helpers.
typedef struct qpc_tensor {
    qpc_dtype dtype;
    int32_t ndim;
    int64_t shape[QPC_TENSOR_MAX_DIMS];
    const void *data;
    size_t size; // bytes = product of shape * element size
} qpc_tensor;

typedef struct qpc_value qpc_value;
typedef struct qpc_pair qpc_pair;
struct qpc_value {
    qpc_kind kind;
    bool is_unsigned; // int: u is meant and is above INT64_MAX
    bool owns;        // str, bin, tensor: bytes are freed with the value
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double real;
        struct {
            const char *bytes; // str: not necessarily NUL-terminated when borrowed
            size_t size;
        } str; // and bin
        struct {
            qpc_value *items;
            int32_t count, capacity;
        } list;
        struct {
            qpc_pair *pairs;
            int32_t count, capacity;
        } map;
        qpc_tensor tensor;
    };
};
struct qpc_pair {
    qpc_value key; // always QPC_STR
    qpc_value value;
};

size_t qpc_dtype_size(qpc_dtype dtype);
/// "<f8", "<f4", "<i4", "|u1", "<i8", "<u8"
const char *qpc_dtype_name(qpc_dtype dtype);
bool qpc_dtype_from_name(const char *name, size_t size, qpc_dtype *ret);

/// Free what the tree owns and make it nil. NULL is accepted.
void qpc_value_fini(qpc_value *v);

// ---- making scalars (no memory taken) ----
qpc_value qpc_nil(void);
qpc_value qpc_bool(bool b);
qpc_value qpc_int(int64_t i);
qpc_value qpc_uint(uint64_t u);
qpc_value qpc_real(double d);
qpc_value qpc_str_borrow(const char *bytes, size_t size);
qpc_value qpc_text_borrow(const char *c_string);
qpc_value qpc_bin_borrow(const void *bytes, size_t size);
/// shape is copied; data borrowed.
qpc_value qpc_tensor_borrow(qpc_dtype dtype, int32_t ndim, const int64_t *shape, const void *data);
/// Bytes of a tensor; false for a negative size, more dimensions than QPC_TENSOR_MAX_DIMS, or a
/// product that overflows. Check shapes from outside with it before qpc_tensor_borrow().
bool qpc_tensor_bytes(qpc_dtype dtype, int32_t ndim, const int64_t *shape, size_t *ret);

// ---- making trees ----
/// Copies; ret is nil on QPC_ERR_MEMORY. Owned text is NUL-terminated as well as counted.
qpc_status qpc_text_copy(const char *c_string, qpc_value *ret);
qpc_status qpc_str_copy(const char *bytes, size_t size, qpc_value *ret);
qpc_status qpc_bin_copy(const void *bytes, size_t size, qpc_value *ret);
qpc_status qpc_tensor_copy(qpc_dtype dtype, int32_t ndim, const int64_t *shape, const void *data,
                           qpc_value *ret);
qpc_value qpc_list(void);
qpc_value qpc_map(void);
/// Take ownership of item, also on failure (it is freed then). QPC_ERR_MEMORY.
qpc_status qpc_list_push(qpc_value *list, qpc_value item);
/// key is borrowed and must outlive the map (a literal as a rule). An existing key is replaced.
qpc_status qpc_map_set(qpc_value *map, const char *key, qpc_value item);
/// The same, with a copy of the key.
qpc_status qpc_map_set_copy(qpc_value *map, const char *key, size_t key_size, qpc_value item);
/// For decoders: add a pair without looking for the key, in constant time. Takes key (QPC_STR, may
/// be borrowed) and item, also on failure. The caller knows that the key is new.
qpc_status qpc_map_append(qpc_value *map, qpc_value key, qpc_value item);
/// Deep copy that borrows nothing.
qpc_status qpc_value_copy(const qpc_value *v, qpc_value *ret);
/// Deep equality; ints and reals of equal value are equal, maps compare without order, tensors by
/// dtype, shape and bytes.
bool qpc_value_equal(const qpc_value *a, const qpc_value *b);

// ---- reading ----
/// NULL if v is not a map or has no such key.
const qpc_value *qpc_map_get(const qpc_value *v, const char *key);
bool qpc_str_equal(const qpc_value *v, const char *c_string);
/// Typed reads. `where` is the path for the message ("bodies[2].mass"). QPC_ERR_INVALID with the
/// path, what was found and what is wanted. A null v means "missing".
qpc_status qpc_read_bool(const qpc_value *v, const char *where, bool *ret, qpc_error *err);
qpc_status qpc_read_int(const qpc_value *v, const char *where, int64_t low, int64_t high,
                        int64_t *ret, qpc_error *err);
qpc_status qpc_read_uint(const qpc_value *v, const char *where, uint64_t *ret, qpc_error *err);
/// Any int or finite real; NaN and infinities are errors. low <= value <= high.
qpc_status qpc_read_real(const qpc_value *v, const char *where, double low, double high,
                         double *ret, qpc_error *err);
/// QPC_ERR_INVALID at `where`: what v is (NULL: missing), and what is wanted.
qpc_status qpc_fail_unwanted(const qpc_value *v, const char *where, const char *wanted, qpc_error *err);
/// Copies at most size - 1 bytes into out; longer text or a NUL inside is an error.
qpc_status qpc_read_text(const qpc_value *v, const char *where, char *out, size_t size,
                         qpc_error *err);
/// A list of numbers, a nested list of lists of equal length, or a tensor, as doubles:
/// rows x columns, row-major, newly allocated (qpc_free). columns is required (3 for points);
/// a flat list of rows * columns numbers is accepted too. Every number must be finite.
/// max_rows is a limit checked before memory is taken (QPC_ERR_LIMIT).
qpc_status qpc_read_matrix(const qpc_value *v, const char *where, int64_t columns, int64_t max_rows,
                           double **ret, int64_t *ret_rows, qpc_error *err);
/// The same for integers (int or integral numbers within [low, high]).
qpc_status qpc_read_int_matrix(const qpc_value *v, const char *where, int64_t columns,
                               int64_t max_rows, int64_t low, int64_t high, int32_t **ret,
                               int64_t *ret_rows, qpc_error *err);
/// Every key of map must be in keys (NULL-terminated list): else QPC_ERR_INVALID that names the
/// key, its place and the nearest known one.
qpc_status qpc_map_check_keys(const qpc_value *map, const char *where, const char *const *keys,
                              qpc_error *err);

#endif
