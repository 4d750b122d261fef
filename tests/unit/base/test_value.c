/// Value trees: life, copies, equality, typed reads and their messages.
#include "tests/support/check.h"

#include "base/value.h"
#include "tests/support/faults.h"

#include <float.h>
#include <stdio.h>

/// {"name": "rope", "bytes": h'0001', "mass": 0.5, "ids": [1, [true, null]], "x": <2x3 f64>}
static qpc_status make_tree(qpc_value *ret) {
    static const double x[6] = {1, 2, 3, 4, 5, 6};
    qpc_value map = qpc_map(), list = qpc_list(), inner = qpc_list(), item = qpc_nil();
    qpc_status status = qpc_text_copy("rope", &item);
    if (status == QPC_OK) status = qpc_map_set(&map, "name", item);
    if (status == QPC_OK) status = qpc_bin_copy("\0\1", 2, &item);
    if (status == QPC_OK) status = qpc_map_set_copy(&map, "bytes", 5, item);
    if (status == QPC_OK) status = qpc_map_set(&map, "mass", qpc_real(0.5));
    if (status == QPC_OK) status = qpc_list_push(&inner, qpc_bool(true));
    if (status == QPC_OK) status = qpc_list_push(&inner, qpc_nil());
    if (status == QPC_OK) status = qpc_list_push(&list, qpc_int(1));
    if (status == QPC_OK) {
        status = qpc_list_push(&list, inner);
        inner = qpc_nil();
    }
    if (status == QPC_OK) {
        status = qpc_map_set(&map, "ids", list);
        list = qpc_nil();
    }
    if (status == QPC_OK) status = qpc_tensor_copy(QPC_F64, 2, (const int64_t[]){2, 3}, x, &item);
    if (status == QPC_OK) status = qpc_map_set_copy(&map, "x", 1, item);
    if (status != QPC_OK) {
        qpc_value_fini(&map);
        qpc_value_fini(&list);
        qpc_value_fini(&inner);
        return status;
    }
    *ret = map;
    return QPC_OK;
}

static void dtypes_read_back_from_their_names(void **state) {
    (void)state;
    static const size_t sizes[] = {8, 4, 4, 1, 8, 8};
    for (int i = QPC_F64; i <= QPC_U64; i++) {
        const char *name = qpc_dtype_name((qpc_dtype)i);
        qpc_dtype back = QPC_F64;
        assert_true(qpc_dtype_from_name(name, strlen(name), &back));
        assert_int_equal(back, i);
        assert_int_equal(qpc_dtype_size((qpc_dtype)i), sizes[i]);
    }
    qpc_dtype kept = QPC_I32;
    assert_false(qpc_dtype_from_name(">f8", 3, &kept));
    assert_false(qpc_dtype_from_name("<f", 2, &kept));
    assert_false(qpc_dtype_from_name("<f88", 4, &kept));
    assert_false(qpc_dtype_from_name("|O", 2, &kept));
    assert_int_equal(kept, QPC_I32);
}

static void tensor_sizes_are_checked(void **state) {
    (void)state;
    size_t bytes = 0;
    assert_true(qpc_tensor_bytes(QPC_F32, 2, (const int64_t[]){5, 3}, &bytes));
    assert_int_equal(bytes, 60);
    assert_true(qpc_tensor_bytes(QPC_F64, 0, NULL, &bytes));
    assert_int_equal(bytes, 8);
    assert_true(qpc_tensor_bytes(QPC_F64, 2, (const int64_t[]){0, 3}, &bytes));
    assert_int_equal(bytes, 0);
    assert_false(qpc_tensor_bytes(QPC_F64, 1, (const int64_t[]){-1}, &bytes));
    assert_false(qpc_tensor_bytes(QPC_F64, 2, (const int64_t[]){INT64_MAX, 4}, &bytes));
    assert_false(qpc_tensor_bytes(QPC_U8, 1, (const int64_t[]){-2}, &bytes));
    assert_false(qpc_tensor_bytes(QPC_F64, 5, (const int64_t[]){1, 1, 1, 1, 1}, &bytes));
    assert_false(qpc_tensor_bytes(QPC_F64, -1, NULL, &bytes));
}

static void trees_copy_and_compare(void **state) {
    (void)state;
    qpc_value a, b;
    assert_int_equal(make_tree(&a), QPC_OK);
    assert_int_equal(qpc_value_copy(&a, &b), QPC_OK);
    assert_true(qpc_value_equal(&a, &b));
    const qpc_value *x = qpc_map_get(&b, "x");
    assert_true(x->owns && x->tensor.data != qpc_map_get(&a, "x")->tensor.data);
    assert_int_equal(qpc_map_set(&b, "mass", qpc_real(0.25)), QPC_OK);
    assert_false(qpc_value_equal(&a, &b));
    assert_int_equal(b.map.count, a.map.count); // replaced, not added
    qpc_value_fini(&a);
    assert_int_equal(a.kind, QPC_NIL);
    qpc_value_fini(&a);
    qpc_value_fini(NULL);
    assert_true(qpc_str_equal(qpc_map_get(&b, "name"), "rope"));
    qpc_value_fini(&b);
}

static void a_copy_borrows_nothing(void **state) {
    (void)state;
    char text[] = "abc", key[] = "key";
    qpc_value map = qpc_map(), copy;
    assert_int_equal(qpc_map_set(&map, key, qpc_text_borrow(text)), QPC_OK);
    assert_int_equal(qpc_value_copy(&map, &copy), QPC_OK);
    memcpy(text, "xyz", 3);
    memcpy(key, "???", 3);
    assert_true(qpc_str_equal(qpc_map_get(&copy, "key"), "abc"));
    qpc_value_fini(&map);
    qpc_value_fini(&copy);
}

static void maps_compare_without_order(void **state) {
    (void)state;
    qpc_value a = qpc_map(), b = qpc_map();
    qpc_map_set(&a, "x", qpc_int(1));
    qpc_map_set(&a, "y", qpc_int(2));
    qpc_map_set(&b, "y", qpc_int(2));
    assert_false(qpc_value_equal(&a, &b));
    qpc_map_set(&b, "x", qpc_int(1));
    assert_true(qpc_value_equal(&a, &b));
    qpc_map_set(&b, "x", qpc_int(3));
    assert_false(qpc_value_equal(&a, &b));
    qpc_value_fini(&a);
    qpc_value_fini(&b);
}

static void numbers_compare_by_exact_value(void **state) {
    (void)state;
    const struct {
        qpc_value a, b;
        bool equal;
    } cases[] = {
        {qpc_int(1), qpc_real(1.0), true},
        {qpc_real(0.0), qpc_real(-0.0), true},
        {qpc_int(INT64_MAX), qpc_real(0x1p63), false}, // rounds to it, is not it
        {qpc_uint(UINT64_C(1) << 63), qpc_real(0x1p63), true},
        {qpc_uint(UINT64_MAX), qpc_real(0x1p64), false},
        {qpc_int(-1), qpc_uint(UINT64_MAX), false},
        {qpc_int(INT64_MIN), qpc_real(-0x1p63), true},
        {qpc_int(9007199254740993), qpc_real(9007199254740992.0), false},
        {qpc_real((double)NAN), qpc_real((double)NAN), false},
        {qpc_int(0), qpc_real((double)NAN), false},
        {qpc_int(0), qpc_bool(false), false},
        {qpc_uint(7), qpc_int(7), true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(qpc_value_equal(&cases[i].a, &cases[i].b), cases[i].equal);
        assert_int_equal(qpc_value_equal(&cases[i].b, &cases[i].a), cases[i].equal);
    }
}

static void different_kinds_differ(void **state) {
    (void)state;
    static const int32_t numbers[2] = {1, 2};
    const int64_t shapes[2][2] = {{2, 1}, {1, 2}};
    qpc_value values[] = {
        qpc_nil(),
        qpc_bool(true),
        qpc_int(1),
        qpc_real(1.5),
        qpc_text_borrow("a"),
        qpc_bin_borrow("a", 1),
        qpc_list(),
        qpc_map(),
        qpc_tensor_borrow(QPC_I32, 2, shapes[0], numbers),
        qpc_tensor_borrow(QPC_I32, 2, shapes[1], numbers),
        qpc_tensor_borrow(QPC_F32, 2, shapes[1], numbers),
        qpc_tensor_borrow(QPC_I32, 1, shapes[0], numbers),
    };
    enum { COUNT = sizeof values / sizeof values[0] };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++)
            assert_int_equal(qpc_value_equal(&values[i], &values[j]), i == j);
}

static void trees_survive_failed_allocations(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_value v = qpc_nil();
        if (qpc_faults_ended(&f, make_tree(&v))) qpc_value_fini(&v);
    }
    qpc_value tree;
    assert_int_equal(make_tree(&tree), QPC_OK);
    QPC_FAULTS(f) {
        qpc_value copy;
        if (qpc_faults_ended(&f, qpc_value_copy(&tree, &copy))) {
            assert_true(qpc_value_equal(&tree, &copy));
            qpc_value_fini(&copy);
        } else {
            assert_int_equal(copy.kind, QPC_NIL);
        }
    }
    qpc_value_fini(&tree);
}

// ---- reads ----

static void scalars_read_back(void **state) {
    (void)state;
    qpc_error err = {0};
    bool b = false;
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    char text[8];
    qpc_value v = qpc_bool(true);
    assert_ok(qpc_read_bool(&v, "x", &b, &err), &err);
    assert_true(b);
    v = qpc_int(-5);
    assert_ok(qpc_read_int(&v, "x", -5, 5, &i, &err), &err);
    assert_true(i == -5);
    assert_ok(qpc_read_real(&v, "x", -10, 10, &d, &err), &err);
    assert_true(d == -5.0);
    v = qpc_uint(UINT64_MAX);
    assert_ok(qpc_read_uint(&v, "x", &u, &err), &err);
    assert_true(u == UINT64_MAX);
    assert_ok(qpc_read_real(&v, "x", 0, DBL_MAX, &d, &err), &err);
    assert_true(d == 0x1p64);
    v = qpc_text_borrow("seven77");
    assert_ok(qpc_read_text(&v, "x", text, sizeof text, &err), &err);
    assert_string_equal(text, "seven77");
    v = qpc_str_borrow(NULL, 0);
    assert_ok(qpc_read_text(&v, "x", text, sizeof text, &err), &err);
    assert_string_equal(text, "");
}

static void messages_name_place_found_and_wanted(void **state) {
    (void)state;
    qpc_error err = {0};
    bool b = false;
    int64_t i = 7;
    uint64_t u = 7;
    double d = 7;
    char text[4] = "old";
    static const int64_t shape[2] = {2, 3};
    static const double x[6] = {0};
    qpc_value v = qpc_int(6);
    assert_fails(qpc_read_int(&v, "bodies[2].count", 1, 5, &i, &err), QPC_ERR_INVALID, &err,
                 "bodies[2].count: got 6; want an integer from 1 to 5");
    assert_string_equal(err.where, "bodies[2].count");
    assert_fails(qpc_read_int(NULL, "n", 0, INT64_MAX, &i, &err), QPC_ERR_INVALID, &err,
                 "n: it is missing; want an integer of at least 0");
    v = qpc_real(2.0);
    assert_fails(qpc_read_int(&v, "n", INT64_MIN, INT64_MAX, &i, &err), QPC_ERR_INVALID, &err,
                 "n: got 2.0; want an integer");
    v = qpc_uint(UINT64_MAX);
    assert_fails(qpc_read_int(&v, "n", INT64_MIN, 9, &i, &err), QPC_ERR_INVALID, &err,
                 "n: got 18446744073709551615; want an integer of at most 9");
    v = qpc_int(-1);
    assert_fails(qpc_read_uint(&v, "id", &u, &err), QPC_ERR_INVALID, &err, "id: got -1; want");
    v = qpc_real((double)NAN);
    assert_fails(qpc_read_real(&v, "dt", -DBL_MAX, DBL_MAX, &d, &err), QPC_ERR_INVALID, &err,
                 "dt: got NaN; want a finite number");
    v = qpc_real((double)-INFINITY);
    assert_fails(qpc_read_real(&v, "dt", -(double)INFINITY, (double)INFINITY, &d, &err),
                 QPC_ERR_INVALID, &err, "got -infinity");
    v = qpc_int(0);
    assert_fails(qpc_read_real(&v, "mass", DBL_MIN, 1e9, &d, &err), QPC_ERR_INVALID, &err,
                 "mass: got 0; want a finite number greater than 0 up to 1000000000");
    assert_fails(qpc_read_real(&v, "mass", 1, 2, &d, &err), QPC_ERR_INVALID, &err,
                 "want a finite number from 1 to 2");
    assert_fails(qpc_read_real(&v, "mass", -9, -1, &d, &err), QPC_ERR_INVALID, &err,
                 "from -9 to -1");
    assert_fails(qpc_read_real(&v, "mass", -DBL_MAX, -1, &d, &err), QPC_ERR_INVALID, &err,
                 "a finite number of at most -1");
    v = qpc_text_borrow("true");
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err,
                 "on: got \"true\"; want true or false");
    assert_fails(qpc_read_text(&v, "name", text, sizeof text, &err), QPC_ERR_INVALID, &err,
                 "name: text of 4 bytes; want at most 3");
    v = qpc_str_borrow("a\0b", 3);
    assert_fails(qpc_read_text(&v, "name", text, sizeof text, &err), QPC_ERR_INVALID, &err, "NUL");
    v = qpc_nil();
    assert_fails(qpc_read_text(&v, "name", text, sizeof text, &err), QPC_ERR_INVALID, &err,
                 "name: got null; want text");
    v = qpc_list();
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err, "got a list of 0");
    v = qpc_map();
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err, "got a map of 0");
    v = qpc_bin_borrow("abc", 3);
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err, "got 3 bytes (bin)");
    v = qpc_tensor_borrow(QPC_F64, 2, shape, x);
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err,
                 "got an array of <f8, shape (2, 3)");
    // Outputs are written on success only, and err may be NULL.
    assert_true(i == 7 && u == 7 && d == 7 && !b);
    assert_string_equal(text, "old");
    assert_int_equal(qpc_read_bool(&v, "on", &b, NULL), QPC_ERR_INVALID);
}

static void long_and_strange_texts_are_quoted_safely(void **state) {
    (void)state;
    qpc_error err = {0};
    bool b;
    char text[1000];
    memset(text, 'z', sizeof text);
    memcpy(text, "\"\n\x01\x7F", 4);
    qpc_value v = qpc_str_borrow(text, sizeof text);
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err, "got \"????zzzz");
    assert_non_null(strstr(err.message, "\"... (1000 bytes); want"));
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 2 == 0 ? '\xC3' : '\xA9';
    memmove(text + 1, text, sizeof text - 1); // an odd cut
    text[0] = 'a';
    assert_fails(qpc_read_bool(&v, "on", &b, &err), QPC_ERR_INVALID, &err, "\xA9\"... (1000");
}

static void assert_matrix(const qpc_value *v, const double *wanted, int64_t rows, int64_t columns) {
    qpc_error err = {0};
    double *out = NULL;
    int64_t got = -1;
    assert_ok(qpc_read_matrix(v, "x", columns, 1000, &out, &got, &err), &err);
    assert_int_equal(got, rows);
    if (rows > 0) assert_memory_equal(out, wanted, (size_t)(rows * columns) * sizeof *out);
    qpc_free(out);
}

/// [[first, first + 1, ...], ...] or, flat, one list.
static qpc_value number_list(int rows, int columns, bool nested) {
    qpc_value list = qpc_list();
    for (int r = 0; r < rows; r++) {
        qpc_value row = qpc_list();
        for (int c = 0; c < columns; c++) {
            qpc_value number = c == 1 ? qpc_real(r * columns + c) : qpc_int(r * columns + c);
            assert_int_equal(qpc_list_push(nested ? &row : &list, number), QPC_OK);
        }
        if (nested)
            assert_int_equal(qpc_list_push(&list, row), QPC_OK);
        else
            qpc_value_fini(&row);
    }
    return list;
}

static void matrices_read_from_every_form(void **state) {
    (void)state;
    static const double f64[6] = {0, 1, 2, 3, 4, 5};
    static const float f32[6] = {0, 1, 2, 3, 4, 5};
    static const int32_t i32[6] = {0, 1, 2, 3, 4, 5};
    static const uint8_t u8[6] = {0, 1, 2, 3, 4, 5};
    static const int64_t i64[6] = {0, 1, 2, 3, 4, 5};
    static const uint64_t u64[6] = {0, 1, 2, 3, 4, 5};
    static const void *const data[] = {f64, f32, i32, u8, i64, u64};
    static const int64_t square[2] = {2, 3}, flat[1] = {6}, none[2] = {0, 3};
    for (int t = QPC_F64; t <= QPC_U64; t++) {
        qpc_value v = qpc_tensor_borrow((qpc_dtype)t, 2, square, data[t]);
        assert_matrix(&v, f64, 2, 3);
        v = qpc_tensor_borrow((qpc_dtype)t, 1, flat, data[t]);
        assert_matrix(&v, f64, 2, 3);
        assert_matrix(&v, f64, 6, 1);
        v = qpc_tensor_borrow((qpc_dtype)t, 2, none, data[t]);
        assert_matrix(&v, f64, 0, 3);
    }
    // Unaligned, as inside a message.
    unsigned char raw[1 + sizeof f64];
    memcpy(raw + 1, f64, sizeof f64);
    qpc_value v = qpc_tensor_borrow(QPC_F64, 2, square, raw + 1);
    assert_matrix(&v, f64, 2, 3);

    v = number_list(2, 3, true);
    assert_matrix(&v, f64, 2, 3);
    qpc_value_fini(&v);
    v = number_list(2, 3, false);
    assert_matrix(&v, f64, 2, 3);
    assert_matrix(&v, f64, 6, 1);
    qpc_value_fini(&v);
    v = qpc_list();
    assert_matrix(&v, f64, 0, 3);
    // A list of arrays, as a Python list of vectors comes.
    static const int64_t three[1] = {3};
    assert_int_equal(qpc_list_push(&v, qpc_tensor_borrow(QPC_F64, 1, three, f64)), QPC_OK);
    assert_int_equal(qpc_list_push(&v, qpc_tensor_borrow(QPC_F64, 1, three, f64 + 3)), QPC_OK);
    assert_matrix(&v, f64, 2, 3);
    qpc_value_fini(&v);
}

static void bad_matrices_name_the_element(void **state) {
    (void)state;
    qpc_error err = {0};
    double *out = NULL;
    int32_t *ints = NULL;
    int64_t rows = 0;
    double f64[6] = {0, 1, 2, 3, (double)NAN, 5};
    static const int64_t square[2] = {2, 3}, flat[1] = {6}, wide[2] = {3, 2};
    qpc_value v = qpc_tensor_borrow(QPC_F64, 2, square, f64);
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x[1][1]: got NaN; want a finite number");
    v = qpc_tensor_borrow(QPC_F64, 1, flat, f64);
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x[4]: got NaN");
    v = qpc_tensor_borrow(QPC_F64, 2, wide, f64);
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x: got an array of <f8, shape (3, 2); want rows of 3 numbers");
    v = qpc_tensor_borrow(QPC_F64, 2, square, f64);
    assert_fails(qpc_read_matrix(&v, "x", 3, 1, &out, &rows, &err), QPC_ERR_LIMIT, &err,
                 "x: 2 rows; the limit is 1");
    assert_fails(qpc_read_matrix(NULL, "x", 3, 1, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x: it is missing");
    v = qpc_text_borrow("1,2,3");
    assert_fails(qpc_read_matrix(&v, "x", 3, 1, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "got \"1,2,3\"");

    v = number_list(2, 3, true);
    qpc_list_push(&v.list.items[1], qpc_int(9));
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x[1]: got a list of 4; want a list of 3 numbers");
    v.list.items[1].list.count = 3;
    v.list.items[1].list.items[2] = qpc_bool(true);
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x[1][2]: got true; want a finite number");
    qpc_list_push(&v, qpc_int(1));
    v.list.items[1].list.items[2] = qpc_int(1);
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x[2]: got 1; want a list of 3 numbers");
    qpc_value_fini(&v);
    v = number_list(1, 4, false);
    assert_fails(qpc_read_matrix(&v, "x", 3, 9, &out, &rows, &err), QPC_ERR_INVALID, &err,
                 "x: got a list of 4; want rows of 3 numbers");
    qpc_value_fini(&v);

    static const double half[3] = {0, 1, 1.5}, large[3] = {0, 1, 3e9};
    static const int64_t one[2] = {1, 3};
    v = qpc_tensor_borrow(QPC_F64, 2, one, half);
    assert_fails(qpc_read_int_matrix(&v, "f", 3, 9, 0, 99, &ints, &rows, &err), QPC_ERR_INVALID,
                 &err, "f[0][2]: got 1.5; want an integer from 0 to 99");
    v = qpc_tensor_borrow(QPC_F64, 2, one, large);
    assert_fails(qpc_read_int_matrix(&v, "f", 3, 9, INT64_MIN, INT64_MAX, &ints, &rows, &err),
                 QPC_ERR_INVALID, &err, "f[0][2]: got 3000000000.0; want an integer");
    v = number_list(1, 3, true);
    assert_fails(qpc_read_int_matrix(&v, "f", 3, 9, 1, 99, &ints, &rows, &err), QPC_ERR_INVALID,
                 &err, "f[0][0]: got 0; want an integer from 1 to 99");
    assert_fails(qpc_read_int_matrix(&v, "f", 3, 9, 0, 1, &ints, &rows, &err), QPC_ERR_INVALID,
                 &err, "f[0][2]: got 2; want an integer from 0 to 1");
    assert_ok(qpc_read_int_matrix(&v, "f", 3, 9, 0, 2, &ints, &rows, &err), &err);
    assert_memory_equal(ints, ((int32_t[]){0, 1, 2}), 12);
    qpc_free(ints);
    qpc_value_fini(&v);
    assert_null(out);
}

static void matrices_survive_failed_allocations(void **state) {
    (void)state;
    qpc_value v = number_list(4, 3, true);
    QPC_FAULTS(f) {
        double *out = NULL;
        int64_t rows = 0;
        if (qpc_faults_ended(&f, qpc_read_matrix(&v, "x", 3, 9, &out, &rows, NULL))) qpc_free(out);
    }
    qpc_value_fini(&v);
}

static void unknown_keys_are_named_with_the_nearest(void **state) {
    (void)state;
    qpc_error err = {0};
    static const char *const keys[] = {"mass", "radius", NULL}, *const none[] = {NULL};
    qpc_value map = qpc_map();
    assert_ok(qpc_map_check_keys(&map, "bodies[0]", keys, &err), &err);
    qpc_map_set(&map, "mass", qpc_int(1));
    assert_ok(qpc_map_check_keys(&map, "bodies[0]", keys, &err), &err);
    qpc_map_set(&map, "raduis", qpc_int(1));
    assert_fails(qpc_map_check_keys(&map, "bodies[0]", keys, &err), QPC_ERR_INVALID, &err,
                 "bodies[0].raduis: unknown key \"raduis\"; the nearest known one is \"radius\"");
    assert_string_equal(err.where, "bodies[0].raduis");
    assert_fails(qpc_map_check_keys(&map, "", none, &err), QPC_ERR_INVALID, &err,
                 "mass: unknown key \"mass\"; known here: none");
    qpc_value_fini(&map);
    map = qpc_map();
    qpc_map_set(&map, "temperature", qpc_int(1));
    assert_fails(qpc_map_check_keys(&map, "", keys, &err), QPC_ERR_INVALID, &err,
                 "temperature: unknown key \"temperature\"; known here: mass, radius");
    qpc_value_fini(&map);
    map = qpc_map();
    qpc_map_set_copy(&map, "a\"\n\0b", 5, qpc_int(1));
    assert_fails(qpc_map_check_keys(&map, "", none, &err), QPC_ERR_INVALID, &err,
                 "unknown key \"a???b\"");
    qpc_value_fini(&map);
    qpc_value v = qpc_int(3);
    assert_fails(qpc_map_check_keys(&v, "solver", keys, &err), QPC_ERR_INVALID, &err,
                 "solver: got 3; want a map");
    assert_fails(qpc_map_check_keys(NULL, "solver", keys, &err), QPC_ERR_INVALID, &err,
                 "solver: it is missing; want a map");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_read_back_from_their_names),
        cmocka_unit_test(tensor_sizes_are_checked),
        cmocka_unit_test(trees_copy_and_compare),
        cmocka_unit_test(a_copy_borrows_nothing),
        cmocka_unit_test(maps_compare_without_order),
        cmocka_unit_test(numbers_compare_by_exact_value),
        cmocka_unit_test(different_kinds_differ),
        cmocka_unit_test(trees_survive_failed_allocations),
        cmocka_unit_test(scalars_read_back),
        cmocka_unit_test(messages_name_place_found_and_wanted),
        cmocka_unit_test(long_and_strange_texts_are_quoted_safely),
        cmocka_unit_test(matrices_read_from_every_form),
        cmocka_unit_test(bad_matrices_name_the_element),
        cmocka_unit_test(matrices_survive_failed_allocations),
        cmocka_unit_test(unknown_keys_are_named_with_the_nearest),
    };
    int failed = cmocka_run_group_tests_name("base/value", tests, NULL, NULL);
    return failed != 0 || qpc_mem_live_blocks() != 0;
}
