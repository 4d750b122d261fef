/// SHA-256, XXH3-64, hex, random bytes, constant-time comparison.
#include "tests/support/check.h"

#include "base/hash.h"
#include "tests/support/faults.h"

#include <stdlib.h>

static void assert_sha256(const void *data, size_t size, const char *hex) {
    qpc_error err = {0};
    uint8_t digest[32];
    char text[65];
    assert_ok(qpc_sha256_of(data, size, digest, &err), &err);
    qpc_hex_encode(digest, 32, text);
    assert_string_equal(text, hex);
}

/// FIPS 180-4, its examples; the last one is a million times 'a'.
static void sha256_gives_the_published_digests(void **state) {
    (void)state;
    assert_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char *many = qpc_alloc(1000000);
    assert_non_null(many);
    memset(many, 'a', 1000000);
    assert_sha256(many, 1000000,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    qpc_free(many);
}

static void sha256_streams_in_pieces(void **state) {
    (void)state;
    qpc_error err = {0};
    uint8_t bytes[1000], whole[32], pieces[32];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 31);
    assert_ok(qpc_sha256_of(bytes, sizeof bytes, whole, &err), &err);
    qpc_sha256 *h = NULL;
    assert_ok(qpc_sha256_create(&h, &err), &err);
    for (size_t at = 0, n = 0; at < sizeof bytes; at += n) {
        n = at % 7 * 13;
        if (n > sizeof bytes - at) n = sizeof bytes - at;
        assert_int_equal(qpc_sha256_update(h, bytes + at, n), QPC_OK);
        if (n == 0) n = 1, assert_int_equal(qpc_sha256_update(h, bytes + at, 1), QPC_OK);
    }
    assert_int_equal(qpc_sha256_final(h, pieces), QPC_OK);
    assert_memory_equal(whole, pieces, 32);
    assert_int_equal(qpc_sha256_final(h, pieces), QPC_ERR_INTERNAL); // taken once
    qpc_sha256_destroy(h);
    qpc_sha256_destroy(NULL);
}

/// The digests of the reference implementation (xxhsum -H3) for these bytes.
static void xxh3_gives_the_published_digests(void **state) {
    (void)state;
    qpc_error err = {0};
    qpc_hash64 *h = NULL;
    assert_ok(qpc_hash64_create(&h, &err), &err);
    assert_true(qpc_hash64_digest(h) == UINT64_C(0x2D06800538D394C2)); // of nothing
    qpc_hash64_bytes(h, "abc", 3);
    assert_true(qpc_hash64_digest(h) == UINT64_C(0x78AF5F94892F3950));
    qpc_hash64_reset(h);
    assert_true(qpc_hash64_digest(h) == UINT64_C(0x2D06800538D394C2));
    qpc_hash64_destroy(h);
    qpc_hash64_destroy(NULL);
}

static void hashing_doubles_is_hashing_their_bytes(void **state) {
    (void)state;
    qpc_error err = {0};
    double v[1000];
    for (int i = 0; i < 1000; i++) v[i] = i * 0.37 + 1e-300;
    qpc_hash64 *a = NULL, *b = NULL;
    assert_ok(qpc_hash64_create(&a, &err), &err);
    assert_ok(qpc_hash64_create(&b, &err), &err);
    uint64_t before = qpc_mem_thread_allocations();
    qpc_hash64_doubles(a, v, 1000);
    qpc_hash64_bytes(b, v, sizeof v);
    assert_true(qpc_hash64_digest(a) == qpc_hash64_digest(b));
    qpc_hash64_u64(a, UINT64_C(0x0102030405060708));
    qpc_hash64_bytes(b, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
    assert_true(qpc_hash64_digest(a) == qpc_hash64_digest(b));
    assert_int_equal(qpc_mem_thread_allocations(), before);
    qpc_hash64_destroy(a);
    qpc_hash64_destroy(b);
}

static void negative_zero_hashes_as_zero(void **state) {
    (void)state;
    qpc_error err = {0};
    const double minus[3] = {-0.0, 1.0, -0.0}, plus[3] = {0.0, 1.0, 0.0}, least = -5e-324;
    qpc_hash64 *a = NULL, *b = NULL;
    assert_ok(qpc_hash64_create(&a, &err), &err);
    assert_ok(qpc_hash64_create(&b, &err), &err);
    qpc_hash64_doubles(a, minus, 3);
    qpc_hash64_doubles(b, plus, 3);
    assert_true(qpc_hash64_digest(a) == qpc_hash64_digest(b));
    qpc_hash64_doubles(a, &least, 1);
    qpc_hash64_doubles(b, plus, 1);
    assert_true(qpc_hash64_digest(a) != qpc_hash64_digest(b));
    qpc_hash64_destroy(a);
    qpc_hash64_destroy(b);
}

static void hex_reads_back(void **state) {
    (void)state;
    uint8_t bytes[256], back[256];
    char text[513];
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
    qpc_hex_encode(bytes, 256, text);
    assert_int_equal(strlen(text), 512);
    assert_true(qpc_hex_decode(text, 512, back, 256));
    assert_memory_equal(bytes, back, 256);
    assert_true(qpc_hex_decode("AbCd", 4, back, 2));
    assert_int_equal(back[0], 0xAB);
    qpc_hex_encode(NULL, 0, text);
    assert_string_equal(text, "");
}

static void bad_hex_changes_nothing(void **state) {
    (void)state;
    uint8_t out[4] = {1, 2, 3, 4};
    static const char *const bad[] = {"0011223",  "001122334", "00112g33",
                                      "0011 233", "",          "00112233aa"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(qpc_hex_decode(bad[i], strlen(bad[i]), out, 4));
    assert_false(qpc_hex_decode("00\0\0\0\0\0\0", 8, out, 4));
    assert_memory_equal(out, ((uint8_t[]){1, 2, 3, 4}), 4);
}

static void random_bytes_differ(void **state) {
    (void)state;
    qpc_error err = {0};
    uint8_t a[600] = {0}, b[600] = {0};
    assert_ok(qpc_random_bytes(a, sizeof a, &err), &err);
    assert_ok(qpc_random_bytes(b, sizeof b, &err), &err);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + 300, b + 300, 300);
    assert_ok(qpc_random_bytes(a, 0, &err), &err);
}

static void constant_time_comparison_compares(void **state) {
    (void)state;
    assert_true(qpc_equal_constant_time("token", "token", 5));
    assert_false(qpc_equal_constant_time("token", "tokem", 5));
    assert_false(qpc_equal_constant_time("token", "Token", 5));
    assert_true(qpc_equal_constant_time("a", "b", 0));
}

static void hash_objects_survive_failed_allocations(void **state) {
    (void)state;
    QPC_FAULTS(f) {
        qpc_sha256 *h = NULL;
        if (qpc_faults_ended(&f, qpc_sha256_create(&h, NULL))) qpc_sha256_destroy(h);
    }
    QPC_FAULTS(f) {
        qpc_hash64 *h = NULL;
        if (qpc_faults_ended(&f, qpc_hash64_create(&h, NULL))) qpc_hash64_destroy(h);
    }
    QPC_FAULTS(f) {
        uint8_t digest[32];
        qpc_faults_ended(&f, qpc_sha256_of("x", 1, digest, NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_digests),
        cmocka_unit_test(sha256_streams_in_pieces),
        cmocka_unit_test(xxh3_gives_the_published_digests),
        cmocka_unit_test(hashing_doubles_is_hashing_their_bytes),
        cmocka_unit_test(negative_zero_hashes_as_zero),
        cmocka_unit_test(hex_reads_back),
        cmocka_unit_test(bad_hex_changes_nothing),
        cmocka_unit_test(random_bytes_differ),
        cmocka_unit_test(constant_time_comparison_compares),
        cmocka_unit_test(hash_objects_survive_failed_allocations),
    };
    int failed = cmocka_run_group_tests_name("base/hash", tests, NULL, NULL);
    return failed != 0 || qpc_mem_live_blocks() != 0;
}
