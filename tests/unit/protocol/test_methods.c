/// The method table: it is complete, checks what it says, and describes itself.
#include "tests/unit/protocol/support.h"

#include "base/json.h"
#include "protocol/codec.h"
#include "protocol/methods.h"
#include "tests/support/faults.h"

#include <math.h>

static void every_method_is_found_and_complete(void **state) {
    (void)state;
    for (int i = 0; i < QPC_METHOD_COUNT; i++) {
        const qpc_method_spec *m = qpc_method_get((qpc_method)i);
        assert_non_null(m->name);
        assert_int_equal(qpc_method_find(m->name), i);
        if (m->doc == NULL || strlen(m->doc) < 10) fail_msg("%s has no text", m->name);
        assert_true(strlen(m->name) < 64);
        assert_true(m->result_count > 0);
        for (int kind = 0; kind < 2; kind++) {
            const qpc_field_spec *fields = kind == 0 ? m->params : m->results;
            int32_t count = kind == 0 ? m->param_count : m->result_count;
            for (int32_t j = 0; j < count; j++) {
                assert_true(strlen(fields[j].doc) > 4);
                // A sentence ends with a full stop.
                assert_int_equal(fields[j].doc[strlen(fields[j].doc) - 1], '.');
                assert_true(fields[j].low <= fields[j].high);
                for (int32_t k = 0; k < j; k++)
                    assert_string_not_equal(fields[j].name, fields[k].name);
            }
        }
    }
    assert_int_equal(qpc_method_find("nothing"), QPC_METHOD_COUNT);
    assert_int_equal(qpc_method_find(""), QPC_METHOD_COUNT);
}

static void an_unknown_method_names_the_nearest(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_method method = QPC_METHOD_COUNT;
    assert_string_equal(qpc_method_nearest("world.stpe"), "world.step");
    assert_null(qpc_method_nearest("zzzzzzzzzzzzzz"));
    assert_fails(qpc_method_resolve("World.Step", true, &method, &err), QPC_ERR_UNKNOWN_METHOD,
                 &err, "\"world.step\"");
    assert_fails(qpc_method_resolve("zzzzzzzzzzzzzz", true, &method, &err), QPC_ERR_UNKNOWN_METHOD,
                 &err, "rpc.describe lists them");
    assert_ok(qpc_method_resolve("server.stats", true, &method, &err), &err);
    assert_int_equal(method, QPC_METHOD_SERVER_STATS);
}

static qpc_status check(qpc_method method, const char *json, qpc_error *err) {
    qpc_value v = qpc_nil();
    *err = (qpc_error){0};
    assert_ok(qpc_json_parse(json, strlen(json), &v, err), err);
    qpc_status status = qpc_method_check_params(method, &v, err);
    qpc_value_fini(&v);
    return status;
}

static void good_params_pass(void **state) {
    (void)state;
    static const struct {
        qpc_method method;
        const char *json;
    } good[] = {
        {QPC_METHOD_HELLO, "{}"},
        {QPC_METHOD_HELLO, "{\"version\": 1, \"client\": \"x\", \"role\": \"bulk\", "
                           "\"array_keys\": \"bin\", \"token\": \"\"}"},
        {QPC_METHOD_RPC_DESCRIBE, "{}"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1}"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 9223372036854775807, \"n\": 1000000000, "
                                "\"expect_step\": 0, \"key\": \"k\", \"control\": {}, "
                                "\"positions\": true, \"precision\": \"float64\"}"},
        {QPC_METHOD_WORLD_CREATE, "{\"scene\": {}, \"idle_limit_s\": 0.5}"},
        {QPC_METHOD_WORLD_CREATE, "{\"scene\": {}, \"idle_limit_s\": 5}"},
        {QPC_METHOD_WORLD_STATE, "{\"world\": 1, \"body\": \"rope\", \"fields\": [\"positions\"]}"},
        {QPC_METHOD_MESH_UPLOAD, "{\"vertices\": [[0, 0, 0]], \"elements\": [[0, 0, 0]]}"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        qpc_error err = {0};
        assert_ok(check(good[i].method, good[i].json, &err), &err);
    }
}

static void bad_params_say_what_would_be_right(void **state) {
    (void)state;
    static const struct {
        qpc_method method;
        const char *json, *where, *text;
    } bad[] = {
        {QPC_METHOD_WORLD_STEP, "{}", "world", "world.step needs it: Id of the world."},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"contorl\": {}}", "contorl", "\"control\""},
        {QPC_METHOD_WORLD_STEP, "{\"world\": -1}", "world", "got -1"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": \"1\"}", "world", "got \"1\""},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"n\": 0}", "n", "from 1 to 1000000000"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"n\": 1000000001}", "n", "from 1 to"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"n\": 1.5}", "n", "want an integer"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"positions\": 1}", "positions", "true or false"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"control\": []}", "control",
         "got a list; want a map"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"precision\": \"double\"}", "precision",
         "got \"double\"; want one of float32|float64"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"precision\": \"\"}", "precision", "want one of"},
        {QPC_METHOD_WORLD_STEP, "{\"world\": 1, \"precision\": \"float32|float64\"}", "precision",
         "want one of"},
        {QPC_METHOD_WORLD_STEP,
         "{\"world\": 1, \"key\": \"0123456789012345678901234567890123456789012345678901234567890"
         "1234\"}",
         "key", "65 bytes; want at most 64"},
        {QPC_METHOD_WORLD_CREATE, "{\"scene\": {}, \"idle_limit_s\": -1}", "idle_limit_s", "-1"},
        {QPC_METHOD_WORLD_CREATE, "{\"scene\": {}, \"name\": null}", "name", "got nil; want text"},
        {QPC_METHOD_WORLD_LIST, "{\"world\": 1}", "world", "known here: none"},
        {QPC_METHOD_WORLD_STATE, "{\"world\": 1, \"fields\": \"positions\"}", "fields",
         "got text; want a list"},
        {QPC_METHOD_MESH_UPLOAD, "{}", "", "needs vertices and elements, or sha256"},
        {QPC_METHOD_MESH_UPLOAD, "{\"vertices\": [[0, 0, 0]]}", "elements", "missing"},
        {QPC_METHOD_MESH_UPLOAD, "{\"sha256\": \"00\", \"size\": 8, \"offset\": 0}", "data",
         "missing"},
        {QPC_METHOD_MESH_UPLOAD, "{\"vertices\": [], \"elements\": [], \"offset\": 0}", "offset",
         "one or the other"},
        {QPC_METHOD_MESH_UPLOAD, "{\"vertices\": 5, \"elements\": []}", "vertices",
         "want an array"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qpc_error err = {0};
        assert_fails(check(bad[i].method, bad[i].json, &err), QPC_ERR_INVALID, &err, bad[i].text);
        if (strcmp(err.where, bad[i].where) != 0)
            fail_msg("%s: where is \"%s\", want \"%s\"", bad[i].json, err.where, bad[i].where);
    }
}

static void numbers_at_the_edges_are_checked(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_value map = qpc_map();
    assert_int_equal(qpc_map_set(&map, "world", qpc_uint(UINT64_MAX)), QPC_OK);
    assert_ok(qpc_method_check_params(QPC_METHOD_WORLD_STEP, &map, &err), &err);
    assert_int_equal(qpc_map_set(&map, "n", qpc_uint(UINT64_MAX)), QPC_OK);
    assert_fails(qpc_method_check_params(QPC_METHOD_WORLD_STEP, &map, &err), QPC_ERR_INVALID, &err,
                 "18446744073709551615");
    qpc_value_fini(&map);
    map = qpc_map();
    assert_int_equal(qpc_map_set(&map, "scene", qpc_map()), QPC_OK);
    assert_int_equal(qpc_map_set(&map, "idle_limit_s", qpc_real((double)NAN)), QPC_OK);
    assert_fails(qpc_method_check_params(QPC_METHOD_WORLD_CREATE, &map, &err), QPC_ERR_INVALID,
                 &err, "NaN");
    qpc_value_fini(&map);
    // A NUL inside, which JSON of ours cannot have.
    map = qpc_map();
    assert_int_equal(qpc_map_set(&map, "client", qpc_str_borrow("a\0b", 3)), QPC_OK);
    assert_fails(qpc_method_check_params(QPC_METHOD_HELLO, &map, &err), QPC_ERR_INVALID, &err,
                 "NUL");
    qpc_value_fini(&map);
    // Params that are not a map at all.
    map = qpc_list();
    assert_fails(qpc_method_check_params(QPC_METHOD_HELLO, &map, &err), QPC_ERR_INVALID, &err,
                 "want a map");
    // An array where a list of numbers is meant, and the other way round.
    static const double x[3] = {0, 0, 0};
    map = qpc_map();
    assert_int_equal(
        qpc_map_set(&map, "vertices", qpc_tensor_borrow(QPC_F64, 2, (const int64_t[]){1, 3}, x)),
        QPC_OK);
    assert_int_equal(qpc_map_set(&map, "elements", qpc_list()), QPC_OK);
    assert_ok(qpc_method_check_params(QPC_METHOD_MESH_UPLOAD, &map, &err), &err);
    qpc_value_fini(&map);
}

static void results_are_checked_too(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_value map = qpc_map();
    assert_int_equal(qpc_map_set(&map, "destroyed", qpc_bool(true)), QPC_OK);
    assert_fails(qpc_method_check_results(QPC_METHOD_WORLD_DESTROY, &map, &err), QPC_ERR_INVALID,
                 &err, "steps");
    assert_int_equal(qpc_map_set(&map, "steps", qpc_nil()), QPC_OK);
    assert_ok(qpc_method_check_results(QPC_METHOD_WORLD_DESTROY, &map, &err), &err);
    assert_int_equal(qpc_map_set(&map, "step", qpc_int(1)), QPC_OK);
    assert_fails(qpc_method_check_results(QPC_METHOD_WORLD_DESTROY, &map, &err), QPC_ERR_INVALID,
                 &err, "\"steps\"");
    qpc_value_fini(&map);
}

static const qpc_value *find_named(const qpc_value *list, const char *name) {
    for (int32_t i = 0; i < list->list.count; i++)
        if (qpc_str_equal(qpc_map_get(&list->list.items[i], "name"), name))
            return &list->list.items[i];
    fail_msg("%s is not described", name);
    return NULL;
}

static void the_table_describes_itself(void **state) {
    (void)state;
    qpc_value v = qpc_nil();
    qpc_error err = {0};
    assert_int_equal(qpc_methods_describe(&v), QPC_OK);
    const qpc_value *list = qpc_map_get(&v, "methods");
    assert_int_equal(list->list.count, QPC_METHOD_COUNT);
    const qpc_value *step = find_named(list, "world.step");
    const qpc_value *n = find_named(qpc_map_get(step, "params"), "n");
    assert_true(qpc_str_equal(qpc_map_get(n, "type"), "int"));
    assert_int_equal(qpc_map_get(n, "min")->i, 1);
    assert_int_equal(qpc_map_get(n, "max")->i, 1000000000);
    assert_false(qpc_map_get(n, "required")->b);
    const qpc_value *status = find_named(qpc_map_get(step, "results"), "status");
    assert_int_equal(qpc_map_get(status, "one_of")->list.count, 5);
    assert_true(qpc_str_equal(&qpc_map_get(status, "one_of")->list.items[1], "failed"));
    const qpc_value *key = find_named(qpc_map_get(step, "params"), "key");
    assert_int_equal(qpc_map_get(key, "max_bytes")->i, 64);
    bool state_error = false;
    const qpc_value *errors = qpc_map_get(step, "errors");
    for (int32_t i = 0; i < errors->list.count; i++)
        state_error = state_error || qpc_str_equal(&errors->list.items[i], "STATE");
    assert_true(state_error);
    const qpc_value *all = qpc_map_get(&v, "errors");
    assert_int_equal(all->list.count, 18);
    assert_int_equal(qpc_map_get(find_named(all, "INTERNAL"), "code")->i, 18);

    // Over the wire and back.
    qpc_buffer buffer = {0};
    qpc_value back = qpc_nil();
    assert_ok(qpc_encode(&v, false, &buffer, &err), &err);
    assert_ok(qpc_decode(buffer.data, buffer.size, &back, &err), &err);
    assert_true(qpc_value_equal(&v, &back));
    qpc_value_fini(&back);
    qpc_value_fini(&v);
    qpc_buffer_fini(&buffer);
}

static void every_failed_allocation_of_the_description_is_reported(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_value v = qpc_nil();
        if (qpc_faults_ended(&f, qpc_methods_describe(&v)))
            qpc_value_fini(&v);
        else
            assert_int_equal(v.kind, QPC_NIL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_is_found_and_complete),
        cmocka_unit_test(an_unknown_method_names_the_nearest),
        cmocka_unit_test(good_params_pass),
        cmocka_unit_test(bad_params_say_what_would_be_right),
        cmocka_unit_test(numbers_at_the_edges_are_checked),
        cmocka_unit_test(results_are_checked_too),
        cmocka_unit_test(the_table_describes_itself),
        cmocka_unit_test(every_failed_allocation_of_the_description_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
