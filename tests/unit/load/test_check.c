/* test_check.c - what `cadenza model check` looks for: recorded hashes, wherever they are recorded, and values that
 * are no numbers, in every type. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "load/check.h"
#include "support/folder.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define HASH         "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */
#define OTHER        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static int begin(void **state)
{
    (void)state;
    return folder_make("check") ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    folder_remove();
    return 0;
}

/* --- hashes -------------------------------------------------------------------------------- */

static void hashes_a_file(void **state)
{
    (void)state;
    cdz_file file;
    cdz_error err = {0};
    char hex[CDZ_SHA256_HEX];
    folder_write("m", "abc", 3);
    assert_int_equal(cdz_file_map(folder_path("m"), &file, &err), CDZ_OK);
    assert_int_equal(cdz_hash_check(&file, NULL, hex, &err), CDZ_OK);
    assert_string_equal(hex, HASH);
    assert_int_equal(truncate(folder_path("m"), 1), 0);
    assert_int_equal(cdz_hash_check(&file, NULL, hex, &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "was cut while it was in use"));
    cdz_file_unmap(&file);
}

static const struct {
    const char *name, *file, *text; /* what lies beside the model "m" */
    const char *hex;                /* NULL: a sentence */
    const char *words;              /* of the source, or of the sentence */
} recorded[] = {
    {"nothing", "unrelated", "x", "", ""},
    {"a list", "SHA256SUMS", OTHER "  n\n" HASH "  m\n", HASH, "SHA256SUMS"},
    {"a list of others", "SHA256SUMS", OTHER "  n\n", "", ""},
    {"binary, large digits", "SHA256SUMS",
     "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD *m", HASH, "SHA256SUMS"},
    {"lines of another system", "SHA256SUMS", OTHER "  n\r\n\r\n" HASH "  m\r\n", HASH,
     "SHA256SUMS"},
    {"an empty list", "SHA256SUMS", "", "", ""},
    {"a list that is none", "SHA256SUMS", "\n" HASH "  m\nhello\n", NULL, "SHA256SUMS:3: expected"},
    {"digits cut off", "SHA256SUMS", "ba78  m\n", NULL, "SHA256SUMS:1: expected"},
    {"a digit that is none", "SHA256SUMS", "x" HASH "  m\n", NULL, "SHA256SUMS:1: expected"},
    {"a file of its own", "m.sha256", HASH "  m\n", HASH, "m.sha256"},
    {"what a client recorded", ".cache/huggingface/download/m.metadata",
     "0123456789abcdef\n" HASH "\n1717171717.5\n", HASH, "m.metadata"},
    {"of a small file", ".cache/huggingface/download/m.metadata",
     "0123\n0123456789012345678901234567890123456789\n1.5\n", "", ""},
    {"nothing recorded", ".cache/huggingface/download/m.metadata", "", "", ""},
};

static void finds_what_is_recorded(void **state)
{
    (void)state;
    folder_run("mkdir", "-p", folder_path(".cache/huggingface/download"));
    for (size_t i = 0; i < COUNT(recorded); i++) {
        cdz_arena arena = {0};
        cdz_known_hash known;
        cdz_error err = {0};
        folder_write(recorded[i].file, recorded[i].text, strlen(recorded[i].text));
        const cdz_status st = cdz_hash_known(folder_path("m"), &arena, &known, &err);
        if (!recorded[i].hex) {
            if (st != CDZ_E_INPUT || !strstr(err.text, recorded[i].words))
                fail_msg("%s: %d %s", recorded[i].name, (int)st, err.text);
        } else if (st != CDZ_OK || strcmp(known.hex, recorded[i].hex) != 0 ||
                   !strstr(known.source, recorded[i].words)) {
            fail_msg("%s: %d %s \"%s\"", recorded[i].name, (int)st, err.text, known.hex);
        }
        unlink(folder_path(recorded[i].file));
        cdz_arena_free(&arena);
    }
}

static void a_link_into_a_cache(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_known_hash known;
    assert_int_equal(symlink("../blobs/" HASH, folder_path("linked")), 0);
    assert_int_equal(symlink("../blobs/0123", folder_path("elsewhere")), 0);
    assert_int_equal(cdz_hash_known(folder_path("linked"), &arena, &known, NULL), CDZ_OK);
    assert_string_equal(known.hex, HASH);
    assert_int_equal(cdz_hash_known(folder_path("elsewhere"), &arena, &known, NULL), CDZ_OK);
    assert_string_equal(known.hex, "");
    cdz_arena_free(&arena);
}

/* --- values -------------------------------------------------------------------------------- */

enum { MOST = 300000 };

/* Which bytes of a type make its value 0 (or all of a block that begins with it) NaN or infinite. */
static const struct {
    cdz_dtype dtype;
    uint16_t at, nan, infinite; /* of 16 bits, little-endian */
} bad[] = {
    {CDZ_F32, 2, 0x7FC0, 0xFF80},   {CDZ_F16, 0, 0x7E00, 0x7C00},    {CDZ_BF16, 0, 0x7FC0, 0x7F80},
    {CDZ_Q8_0, 0, 0x7E00, 0x7C00},  {CDZ_Q4_0, 0, 0x7E00, 0x7C00},   {CDZ_Q5_1, 0, 0x7E00, 0x7C00},
    {CDZ_Q2_K, 80, 0x7E00, 0x7C00}, {CDZ_Q3_K, 108, 0x7E00, 0x7C00}, {CDZ_Q4_K, 0, 0x7E00, 0x7C00},
    {CDZ_Q5_K, 0, 0x7E00, 0x7C00},  {CDZ_Q6_K, 208, 0x7E00, 0x7C00},
};

static cdz_value_counts scan(cdz_value_scan *scanner, cdz_dtype dtype, const void *bytes, size_t n)
{
    cdz_file file;
    cdz_value_counts counts;
    cdz_error err = {0};
    folder_write("values", bytes, n);
    assert_int_equal(cdz_file_map(folder_path("values"), &file, &err), CDZ_OK);
    const cdz_tensor t = {
        .name = "t", .dtype = cdz_dtype_name(dtype), .data = file.data, .n_bytes = n};
    if (cdz_value_scan_tensor(scanner, &file, &t, &counts, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    cdz_file_unmap(&file);
    return counts;
}

static void put(uint8_t *block, size_t at, uint16_t bits)
{
    block[at] = (uint8_t)(bits & 0xFF);
    block[at + 1] = (uint8_t)(bits >> 8);
}

static void counts_what_is_no_number(void **state)
{
    (void)state;
    static const size_t lengths[] = {256, 512, MOST / 256 * 256, 262144 + 256};
    char why[256];
    cdz_backend *backend = cdz_cpu_backend_create(&(cdz_cpu_options){0}, why, sizeof why);
    cdz_value_scan *scanner = cdz_value_scan_new(backend);
    uint8_t *bytes = calloc(MOST, 4);
    assert_non_null(scanner);
    assert_non_null(bytes);
    for (size_t i = 0; i < COUNT(bad); i++)
        for (size_t l = 0; l < COUNT(lengths); l++) {
            const cdz_dtype type = bad[i].dtype;
            const size_t n = lengths[l], block = cdz_dtype_block(type),
                         size = n / block * cdz_dtype_bytes(type),
                         last = size - cdz_dtype_bytes(type);
            memset(bytes, 0, size);
            cdz_value_counts c = scan(scanner, type, bytes, size);
            assert_int_equal(c.n, n);
            assert_int_equal(c.n_nan + c.n_infinite, 0);
            put(bytes + last, bad[i].at, bad[i].nan);
            c = scan(scanner, type, bytes, size);
            if (c.n_nan != block || c.first_nan != n - block)
                fail_msg("%s: %d NaN from %d on", cdz_dtype_name(type), (int)c.n_nan,
                         (int)c.first_nan);
            if (type >= CDZ_N_PLAIN) continue; /* 0 times infinity is NaN */
            put(bytes, bad[i].at, bad[i].infinite);
            c = scan(scanner, type, bytes, size);
            assert_int_equal(c.n_infinite, 1);
            assert_int_equal(c.n_nan, 1);
        }
    free(bytes);
    cdz_value_scan_free(scanner);
    backend->api->destroy(backend);
}

static void odd_lengths_and_other_types(void **state)
{
    (void)state;
    static const float values[300] = {1, 2, 3};
    char why[256];
    cdz_backend *backend = cdz_cpu_backend_create(&(cdz_cpu_options){0}, why, sizeof why);
    cdz_value_scan *scanner = cdz_value_scan_new(backend);
    assert_non_null(scanner);
    for (size_t n = 1; n <= 300; n += 23)
        assert_int_equal(scan(scanner, CDZ_F32, values, n * sizeof(float)).n, n);
    const cdz_tensor none = {.name = "t", .dtype = "BOOL", .data = values, .n_bytes = 8};
    cdz_value_counts counts;
    const cdz_file file = {.data = values, .size = sizeof values};
    assert_int_equal(cdz_value_scan_tensor(scanner, &file, &none, &counts, NULL), CDZ_OK);
    assert_int_equal(counts.n, 0);
    cdz_value_scan_free(scanner);
    backend->api->destroy(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_a_file),
        cmocka_unit_test(finds_what_is_recorded),
        cmocka_unit_test(a_link_into_a_cache),
        cmocka_unit_test(counts_what_is_no_number),
        cmocka_unit_test(odd_lengths_and_other_types),
    };
    return cmocka_run_group_tests_name("check", tests, begin, end);
}
