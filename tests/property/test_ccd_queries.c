/// ccd_queries on the files of tests/data/ccd, on copies whose truth was bent, and on files that
/// are none; and its reader when memory runs out.
#define QPC_BENT_FILE "bent.bin"
#include "tests/support/bent.h"

#include "base/mem.h"
#include "tools/query_file.h"

enum { HEAD = 32, NAME = 32, RECORD = 232 };
#define CCD QPC_TEST_DATA "/ccd/"

static int ccd_queries(const char *arguments) {
    return run_tool(QPC_CCD_QUERIES, arguments);
}

// ---- files to bend ----

static bytes load(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, CCD "%s", name);
    bytes b = load_bytes(path);
    assert_true(b.size > HEAD);
    return b;
}

static int check(const char *arguments, const bytes *b, size_t size) {
    char all[256];
    (void)snprintf(all, sizeof all, "--no-times %s", arguments);
    return run_tool_on(QPC_CCD_QUERIES, all, b, size);
}

static uint8_t *record(const bytes *b, int i) {
    return b->data + get(b->data + 12, 4) + RECORD * i;
}
static int first_with(const bytes *b, int truth) {
    int n = (int)get(b->data + 20, 4), i = 0;
    while (i < n && record(b, i)[225] != truth) i++;
    assert_true(i < n);
    return i;
}

// ---- tests ----

static void every_promise_holds_on_the_data(void **state) {
    (void)state;
    static const char *const options[] = {"", "--separation 1e-3", "--tolerance 1e-12",
                                          "--separation 1e-3 --tolerance 1e-12"};
    for (int i = 0; i < 4; i++) {
        char arguments[1024];
        (void)snprintf(arguments, sizeof arguments,
                       "--no-times %s %ssample_queries.bin %sdegenerate.bin %ssim.bin", options[i],
                       CCD, CCD, CCD);
        if (ccd_queries(arguments) != 0) fail_msg("%s", output);
        says("sample_queries.bin: 7279 queries");
        says("degenerate.bin: 1200 queries");
        says("sim.bin: 2000 queries");
        says("false negatives 0");
        says("beyond, late 0");
        says(" 0 uncertain");
    }
}

static void times_classes_and_csv(void **state) {
    (void)state;
    assert_int_equal(ccd_queries("--classes " CCD "sim.bin"), 0);
    says("ns a query: median ");
    says("sim_cloth_self");
    says("filter: ");
    assert_int_equal(ccd_queries("--csv --classes " CCD "sim.bin"), 0);
    int lines = 0, columns = commas(output), queries = 0;
    assert_true(columns > 20);
    for (char *line = output; *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_int_equal(commas(line), columns);
        int count;
        if (lines++ > 0 && sscanf(line, "sim.bin,%*[^,],all,%*[^,],%*[^,],%d,", &count) == 1)
            queries += count;
    }
    assert_int_equal(lines, 1 + 2 * (1 + 4));
    assert_int_equal(queries, 2000);
    says("sim.bin,VT,all,0,1e-06,1000,400,600,0,0,400,0,0,0,0,0,");
}

static void bent_truth_is_a_broken_promise(void **state) {
    (void)state;
    bytes b = load("sim.bin");
    int miss = first_with(&b, 0), touch = first_with(&b, 1);
    uint8_t keep[RECORD], *q = record(&b, miss);
    char where[64];
    // A pair that never touches is said to: both the narrow phase and the filter may miss it.
    memcpy(keep, q, RECORD);
    q[225] = 1;
    put_real(q + 192, 0.5);
    put_real(q + 200, 0.5);
    put_real(q + 208, 0);
    put_real(q + 216, 0);
    assert_int_equal(check("", &b, b.size), 1);
    (void)snprintf(where, sizeof where, "bent.bin: record %d (", miss);
    says(where);
    says(" missed");
    says("false negatives 1");
    memcpy(q, keep, RECORD);
    // A pair that touches is said to stay away.
    q = record(&b, touch);
    memcpy(keep, q, RECORD);
    q[225] = 0;
    put_real(q + 192, 2);
    put_real(q + 200, 2);
    put_real(q + 208, 0.25);
    put_real(q + 216, 0.25);
    assert_int_equal(check("", &b, b.size), 1);
    says("but never that near");
    says("and 1 beyond");
    assert_int_equal(check("--tolerance 0.3", &b, b.size), 0); // within that tolerance it is
    assert_int_equal(check("--separation 0.3", &b, b.size), 0);
    memcpy(q, keep, RECORD);
    // A contact is said to be earlier than it is.
    double toi = get_real(q + 192);
    assert_true(toi > 0.01);
    put_real(q + 192, toi - 0.01);
    put_real(q + 200, toi - 0.01);
    assert_int_equal(check("", &b, b.size), 1);
    says(" late");
    memcpy(q, keep, RECORD);
    assert_int_equal(check("", &b, b.size), 0);
    free(b.data);
}

static void a_bracket_around_the_separation_decides_nothing(void **state) {
    (void)state;
    bytes b = load("sim.bin");
    uint8_t *q = record(&b, first_with(&b, 0));
    double d = get_real(q + 208);
    char option[64];
    (void)snprintf(option, sizeof option, "--separation %.17g", d * (1 + 1e-7));
    put_real(q + 216, d * (1 + 1e-6));
    assert_int_equal(check(option, &b, b.size), 0);
    says("1 undecided by the file");
    free(b.data);
}

static void numbers_that_are_not_finite_are_reported(void **state) {
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e308, -1e61};
    bytes b = load("sim.bin");
    for (int i = 0; i < 5; i++) put_real(record(&b, 3 * i) + 8 * (5 * i % 24), bad[i]);
    for (int i = 0; i < 60; i++) // at the limit of what detection takes
        put_real(record(&b, 100 + i) + 8 * (i % 24), ldexp(1, 194 + i / 3));
    assert_int_equal(check("--classes", &b, b.size), 0);
    says("not finite or too large");
    assert_int_equal(check("--classes --csv --separation 1e-3", &b, b.size), 0);
    free(b.data);
}

/// One word of the header or byte of a record changed, and what is said.
static void malformed_files_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t at; // in the header, or with RECORD + x in the record numbered 7
        uint32_t value;
        const char *text;
    } cases[] = {{0, 0, "does not start with QPCCDQ01"},
                 {4, 0, "does not start with QPCCDQ01"},
                 {8, 2, "version 2"},
                 {12, 32, "a header of 32 bytes"},
                 {16, 231, "records of 231 bytes"},
                 {20, 1999, "but 1999 records"},
                 {20, 2001, "but 2001 records"},
                 {20, 0xffffffff, "but 4294967295 records"},
                 {24, 3, "but 3 classes"},
                 {24, 0xffffffff, "but 4294967295 classes"},
                 {28, 1, "reserved"},
                 {RECORD + 224, 2, "record 7: kind 2"},
                 {RECORD + 225, 0x0002, "record 7: truth 2"},
                 {RECORD + 226, 4, "record 7: class 4 of 4"},
                 {RECORD + 196, 0x7ff80000, "record 7: truth"},  // time not a number
                 {RECORD + 196, 0xbff00000, "record 7: truth"},  // before the start
                 {RECORD + 220, 0x7ff80000, "record 7: truth"},  // distance not a number
                 {RECORD + 220, 0x7ff00000, "record 7: truth"}}; // infinite
    bytes b = load("sim.bin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *p =
            cases[i].at < RECORD ? b.data + cases[i].at : record(&b, 7) + cases[i].at - RECORD;
        uint8_t keep[4];
        memcpy(keep, p, 4);
        if (cases[i].at == RECORD + 224 || cases[i].at == RECORD + 225)
            p[0] = (uint8_t)cases[i].value;
        else if (cases[i].at == RECORD + 226)
            p[0] = (uint8_t)cases[i].value, p[1] = 0;
        else
            put(p, cases[i].value, 4);
        assert_int_equal(check("", &b, b.size), 2);
        says("bent.bin: ");
        says(cases[i].text);
        memcpy(p, keep, 4);
    }
    static const size_t cuts[] = {0, 1, 8, 31, 32, 33, 159, 160, 161, 160 + RECORD};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(check("", &b, cuts[i]), 2);
        says("bytes, ");
    }
    assert_int_equal(check("", &b, b.size - 1), 2);
    bytes longer = {calloc(1, b.size + 1), b.size + 1};
    assert_non_null(longer.data);
    memcpy(longer.data, b.data, b.size);
    assert_int_equal(check("", &longer, longer.size), 2);
    free(longer.data);
    free(b.data);
}

static void usage_is_told(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "--bad " CCD "sim.bin",
                                        "--separation",
                                        "--separation -1 " CCD "sim.bin",
                                        "--separation x " CCD "sim.bin",
                                        "--separation nan " CCD "sim.bin",
                                        "--tolerance 0 " CCD "sim.bin",
                                        "--tolerance 1e-6x " CCD "sim.bin",
                                        "--tolerance inf " CCD "sim.bin"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (ccd_queries(wrong[i]) != 2) fail_msg("\"%s\" is taken: %s", wrong[i], output);
    assert_int_equal(ccd_queries("--help"), 0);
    says("usage: ccd_queries");
    assert_int_equal(ccd_queries("/nonexistent.bin"), 2);
    says("/nonexistent.bin: ");
    assert_int_equal(ccd_queries("/"), 2);
    assert_int_equal(ccd_queries("/dev/zero"), 2); // no end, no magic
    // One file that does not read is no reason to leave out the others.
    assert_int_equal(ccd_queries("--no-times /nonexistent.bin " CCD "sim.bin"), 2);
    says("sim.bin: 2000 queries");
}

static void a_broken_promise_outranks_a_file_that_does_not_read(void **state) {
    (void)state;
    bytes b = load("sim.bin");
    uint8_t *q = record(&b, first_with(&b, 1));
    put_real(q + 192, 0);
    put_real(q + 200, 0);
    assert_int_equal(check("/nonexistent.bin", &b, b.size), 1);
    free(b.data);
}

static void the_reader_survives_want_of_memory(void **state) {
    (void)state;
    qpc_error err = {0};
    ccd_query_file file = {0};
    int64_t live = qpc_mem_live_blocks();
    int failures = 0;
    for (uint64_t n = 1;; n++) {
        qpc_mem_fail_at(n, false);
        qpc_status status = ccd_query_file_read(CCD "sim.bin", &file, &err);
        bool failed = qpc_mem_failed();
        qpc_mem_fail_at(0, false);
        if (!failed) {
            assert_ok(status, &err);
            break;
        }
        failures++;
        assert_int_equal(status, QPC_ERR_MEMORY);
        assert_int_equal(qpc_mem_live_blocks(), live);
        assert_null(file.queries);
    }
    assert_true(failures > 3);
    assert_int_equal(file.count, 2000);
    assert_int_equal(file.class_count, 4);
    ccd_query_file_fini(&file);
    ccd_query_file_fini(NULL);
    assert_int_equal(qpc_mem_live_blocks(), live);
}

static void an_output_that_does_not_write_is_told(void **state) {
    (void)state;
    assert_int_equal(ccd_queries("--no-times --csv '" CCD "sim.bin' >/dev/full"), 2);
    assert_int_equal(ccd_queries("--no-times '" CCD "sim.bin' >/dev/null"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_promise_holds_on_the_data),
        cmocka_unit_test(times_classes_and_csv),
        cmocka_unit_test(bent_truth_is_a_broken_promise),
        cmocka_unit_test(a_bracket_around_the_separation_decides_nothing),
        cmocka_unit_test(numbers_that_are_not_finite_are_reported),
        cmocka_unit_test(malformed_files_are_refused),
        cmocka_unit_test(usage_is_told),
        cmocka_unit_test(a_broken_promise_outranks_a_file_that_does_not_read),
        cmocka_unit_test(the_reader_survives_want_of_memory),
        cmocka_unit_test(an_output_that_does_not_write_is_told),
    };
    return cmocka_run_group_tests_name("ccd-queries", tests, make_folder, remove_folder);
}
