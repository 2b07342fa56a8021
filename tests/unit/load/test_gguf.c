/* test_gguf.c - the GGUF container: what it reads, and the sentence that every lie ends in. The
 * lies are files, tests/attacks/gguf, made by make_attacks.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "load/gguf.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const char attacks[] = CADENZA_TEST_DATA "/attacks/gguf/";
static const char corpus[] = CADENZA_TEST_DATA "/fuzz/corpus/gguf/";

static const struct {
    const char *file;
    cdz_status status;
    const char *sentence;
} lies[] = {
    {"alignment_0", CDZ_E_INPUT, "general.alignment is 0, expected a power of two up to 1048576"},
    {"alignment_2147483648", CDZ_E_INPUT,
     "general.alignment is 2147483648, expected a power of two up to 1048576"},
    {"alignment_3", CDZ_E_INPUT, "general.alignment is 3, expected a power of two up to 1048576"},
    {"alignment_type", CDZ_E_INPUT, "general.alignment is not of type uint32"},
    {"array_count_max", CDZ_E_INPUT,
     "a claims 18446744073709551615 elements, the file has 0 bytes left (is it cut short?)"},
    {"array_count_wraps", CDZ_E_INPUT,
     "a claims 2305843009213693953 elements, the file has 64 bytes left (is it cut short?)"},
    {"array_of_arrays", CDZ_E_UNSUPPORTED, "a is an array of arrays"},
    {"array_of_strings_past_end", CDZ_E_INPUT,
     "a at byte 66 takes 9223372036854775808 bytes, the file has 0 left (is it cut short?)"},
    {"array_type", CDZ_E_INPUT, "a has type 99, expected 0 to 12"},
    {"big_endian", CDZ_E_UNSUPPORTED, "is a big-endian GGUF file"},
    {"block_cut", CDZ_E_INPUT, "tensor a has rows of 48, Q8_0 comes in blocks of 32"},
    {"bool_2", CDZ_E_INPUT, "a is 2, expected 0 or 1 for a bool"},
    {"cut_at_000", CDZ_E_INPUT,
     "the header at byte 0 takes 24 bytes, the file has 0 left (is it cut short?)"},
    {"cut_at_009", CDZ_E_INPUT,
     "the header at byte 0 takes 24 bytes, the file has 9 left (is it cut short?)"},
    {"cut_at_018", CDZ_E_INPUT,
     "the header at byte 0 takes 24 bytes, the file has 18 left (is it cut short?)"},
    {"cut_at_027", CDZ_E_INPUT,
     "a key at byte 24 takes 8 bytes, the file has 3 left (is it cut short?)"},
    {"cut_at_036", CDZ_E_INPUT,
     "a key at byte 32 takes 20 bytes, the file has 4 left (is it cut short?)"},
    {"cut_at_045", CDZ_E_INPUT,
     "a key at byte 32 takes 20 bytes, the file has 13 left (is it cut short?)"},
    {"cut_at_054", CDZ_E_INPUT,
     "a type at byte 52 takes 4 bytes, the file has 2 left (is it cut short?)"},
    {"cut_at_063", CDZ_E_INPUT,
     "general.architecture at byte 56 takes 8 bytes, the file has 7 left (is it cut short?)"},
    {"cut_at_072", CDZ_E_INPUT,
     "a key at byte 69 takes 8 bytes, the file has 3 left (is it cut short?)"},
    {"cut_at_081", CDZ_E_INPUT,
     "a type at byte 78 takes 4 bytes, the file has 3 left (is it cut short?)"},
    {"cut_at_090", CDZ_E_INPUT,
     "x at byte 86 takes 8 bytes, the file has 4 left (is it cut short?)"},
    {"cut_at_099", CDZ_E_INPUT, "x claims 2 elements, the file has 5 bytes left (is it cut short?)"},
    {"cut_at_108", CDZ_E_INPUT,
     "x claims 2 elements, the file has 14 bytes left (is it cut short?)"},
    {"cut_at_117", CDZ_E_INPUT,
     "the table of tensors at byte 112 takes 33 bytes, the file has 5 left (is it cut short?)"},
    {"cut_at_126", CDZ_E_INPUT,
     "the table of tensors at byte 112 takes 33 bytes, the file has 14 left (is it cut short?)"},
    {"cut_at_135", CDZ_E_INPUT,
     "the table of tensors at byte 112 takes 33 bytes, the file has 23 left (is it cut short?)"},
    {"cut_at_144", CDZ_E_INPUT,
     "the table of tensors at byte 112 takes 33 bytes, the file has 32 left (is it cut short?)"},
    {"data_missing", CDZ_E_INPUT,
     "the padding before the data at byte 57 takes 7 bytes, the file has 0 left (is it cut short?)"},
    {"dim_huge", CDZ_E_INPUT,
     "tensor a takes 17592186044420 bytes from byte 0 of the data on, the file has only 32 (is it cut short?)"},
    {"dim_negative", CDZ_E_INPUT, "tensor a: the product of its shape is too large"},
    {"dims_0", CDZ_E_INPUT, "tensor a has 0 dimensions, expected 1 to 4"},
    {"dims_5", CDZ_E_INPUT, "tensor a has 5 dimensions, expected 1 to 4"},
    {"dims_max", CDZ_E_INPUT, "tensor a has 4294967295 dimensions, expected 1 to 4"},
    {"ggjt", CDZ_E_UNSUPPORTED, "is of the GGML formats before GGUF; convert it"},
    {"key_empty", CDZ_E_INPUT, "a key of 0 bytes, expected 1 to 65535"},
    {"key_length_max", CDZ_E_INPUT,
     "a key at byte 32 takes 18446744073709551615 bytes, the file has 0 left (is it cut short?)"},
    {"key_long", CDZ_E_INPUT, "a key of 65536 bytes, expected 1 to 65535"},
    {"key_nul", CDZ_E_INPUT, "a key has byte 0x00, expected printable ASCII"},
    {"key_twice", CDZ_E_INPUT, "a.b is there twice"},
    {"keys_18446744073709551615", CDZ_E_LIMIT,
     "claims 0 tensors and 18446744073709551615 keys, at most 65536 of each are possible"},
    {"keys_3", CDZ_E_INPUT,
     "a key at byte 24 takes 8 bytes, the file has 0 left (is it cut short?)"},
    {"keys_65537", CDZ_E_LIMIT,
     "claims 0 tensors and 65537 keys, at most 65536 of each are possible"},
    {"keys_9223372036854775808", CDZ_E_LIMIT,
     "claims 0 tensors and 9223372036854775808 keys, at most 65536 of each are possible"},
    {"magic", CDZ_E_INPUT, "begins with bytes 47 47 55 58, expected \"GGUF\""},
    {"magic_swapped", CDZ_E_UNSUPPORTED, "is a big-endian GGUF file"},
    {"offset_max", CDZ_E_INPUT,
     "tensor a takes 32 bytes from byte 18446744073709551584 of the data on, the file has only 32 (is it cut short?)"},
    {"offset_odd", CDZ_E_INPUT, "tensor a begins at byte 4 of the data, expected a multiple of 32"},
    {"offset_past_end", CDZ_E_INPUT,
     "tensor a takes 32 bytes from byte 64 of the data on, the file has only 32 (is it cut short?)"},
    {"overlap", CDZ_E_INPUT, "tensor b overlaps tensor a"},
    {"product_wraps", CDZ_E_INPUT, "tensor a: the product of its shape is too large"},
    {"product_wraps_by_type", CDZ_E_INPUT, "tensor a: the product of its shape is too large"},
    {"split_alone-00001-of-00003", CDZ_E_NOT_FOUND, "no such file"},
    {"split_count", CDZ_E_INPUT, "split.count is -2, expected 0 to 1024"},
    {"split_itself-00001-of-00002", CDZ_E_INPUT, "says it is part 1 of 2, expected 2 of 2"},
    {"split_itself-00002-of-00002", CDZ_E_INPUT,
     "is the first of 2 parts, expected a name that ends in -00001-of-00002.gguf"},
    {"split_name", CDZ_E_INPUT,
     "is the first of 3 parts, expected a name that ends in -00001-of-00003.gguf"},
    {"split_second", CDZ_E_INPUT, "is part 2 of 3; name the first one"},
    {"split_type", CDZ_E_INPUT, "split.count is a string, expected an integer"},
    {"string_length_max", CDZ_E_INPUT,
     "a at byte 45 takes 18446744073709551615 bytes, the file has 1 left (is it cut short?)"},
    {"string_past_end", CDZ_E_INPUT,
     "a at byte 45 takes 9 bytes, the file has 1 left (is it cut short?)"},
    {"tensor_name_empty", CDZ_E_INPUT, "a tensor's name of 0 bytes, expected 1 to 255"},
    {"tensor_name_long", CDZ_E_INPUT, "a tensor's name of 300 bytes, expected 1 to 255"},
    {"tensor_twice", CDZ_E_INPUT, "tensor a is there twice"},
    {"tensors_18446744073709551615", CDZ_E_LIMIT,
     "claims 18446744073709551615 tensors and 0 keys, at most 65536 of each are possible"},
    {"tensors_3", CDZ_E_INPUT,
     "the table of tensors at byte 24 takes 99 bytes, the file has 0 left (is it cut short?)"},
    {"tensors_65537", CDZ_E_LIMIT,
     "claims 65537 tensors and 0 keys, at most 65536 of each are possible"},
    {"tensors_9223372036854775808", CDZ_E_LIMIT,
     "claims 9223372036854775808 tensors and 0 keys, at most 65536 of each are possible"},
    {"type_13", CDZ_E_INPUT, "a has type 13, expected 0 to 12"},
    {"type_far", CDZ_E_INPUT, "tensor a has type 4294967295, which is none"},
    {"type_negative", CDZ_E_INPUT, "a has type 4294967295, expected 0 to 12"},
    {"type_unknown", CDZ_E_INPUT, "tensor a has type 4, which is none"},
    {"version_0", CDZ_E_UNSUPPORTED, "is of GGUF version 0; supported are 2 and 3"},
    {"version_1", CDZ_E_UNSUPPORTED, "is of GGUF version 1; supported are 2 and 3"},
    {"version_4", CDZ_E_UNSUPPORTED, "is of GGUF version 4; supported are 2 and 3"},
};

static cdz_gguf open_good(const char *name)
{
    char path[512];
    cdz_gguf g;
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s%s.gguf", corpus, name);
    if (cdz_gguf_open(path, &g, &err) != CDZ_OK) fail_msg("%s", err.text);
    return g;
}

static void every_lie_is_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(lies); i++) {
        char path[512];
        cdz_gguf g;
        cdz_error err = {0};
        snprintf(path, sizeof path, "%s%s.gguf", attacks, lies[i].file);
        const cdz_status st = cdz_gguf_open(path, &g, &err);
        if (st != lies[i].status || !strstr(err.text, lies[i].sentence))
            fail_msg("%s: %d %s", lies[i].file, (int)st, err.text);
        assert_null(g.header);
        assert_null(g.values);
        assert_int_equal(g.tensors.n_items, 0);
    }
}

static void reads_values_of_every_kind(void **state)
{
    (void)state;
    cdz_gguf g = open_good("kinds");
    cdz_error err = {0};
    const char *text = NULL;
    size_t len = 0;
    double real = 0;
    bool yes = false;
    const cdz_gguf_value *v;
    assert_int_equal(g.version, 3);
    assert_int_equal(cdz_gguf_string(&g, "general.architecture", &text, &len, &err), CDZ_OK);
    assert_int_equal(len, 5);
    assert_memory_equal(text, "llama", 5);
    assert_int_equal(cdz_gguf_real(&g, "x.real", &real, &err), CDZ_OK);
    assert_true(real == 0.5);
    assert_int_equal(cdz_gguf_bool(&g, "x.yes", &yes, &err), CDZ_OK);
    assert_true(yes);
    assert_int_equal(cdz_gguf_array(&g, "x.ints", CDZ_GGUF_I16, &v, &err), CDZ_OK);
    assert_int_equal(v->n, 3);
    for (uint64_t i = 0; i < 3; i++) assert_int_equal(cdz_gguf_int_at(v, i), (int64_t)i - 1);
    assert_int_equal(cdz_gguf_array(&g, "x.texts", CDZ_GGUF_STRING, &v, &err), CDZ_OK);
    const uint8_t *at = v->data;
    text = cdz_gguf_next_string(&at, &len);
    assert_true(len == 1 && *text == 'a');
    cdz_gguf_next_string(&at, &len);
    assert_int_equal(len, 0);
    cdz_gguf_close(&g);
}

static void values_of_another_kind_are_sentences(void **state)
{
    (void)state;
    cdz_gguf g = open_good("kinds");
    cdz_error err = {0};
    uint64_t n = 7;
    double real;
    const cdz_gguf_value *v;
    assert_int_equal(cdz_gguf_uint(&g, "absent", 9, &n, &err), CDZ_OK);
    assert_int_equal(n, 7);
    assert_int_equal(cdz_gguf_uint(&g, "x.int", 9, &n, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "x.int is -5, expected 0 to 9"));
    assert_int_equal(cdz_gguf_uint(&g, "x.real", 9, &n, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "x.real is float32, expected an integer"));
    assert_int_equal(cdz_gguf_real(&g, "x.texts", &real, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "x.texts is an array of a string, expected a number"));
    assert_int_equal(cdz_gguf_array(&g, "x.ints", CDZ_GGUF_F32, &v, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "x.ints is an array of int16, expected an array of float32"));
    cdz_gguf_close(&g);
}

static void reads_tensors_in_place(void **state)
{
    (void)state;
    cdz_gguf g = open_good("kinds");
    const cdz_tensor *w = cdz_tensors_find(&g.tensors, "blk.0.w"),
                     *b = cdz_tensors_find(&g.tensors, "blk.0.b");
    assert_non_null(w);
    assert_non_null(b);
    assert_string_equal(w->dtype, "Q8_0");
    assert_int_equal(w->n_dims, 2);
    assert_int_equal(w->shape[0], 2);
    assert_int_equal(w->shape[1], 32);
    assert_int_equal(w->n_bytes, 68);
    assert_int_equal(((const uint8_t *)w->data)[67], 67);
    assert_int_equal(b->n_bytes, 12);
    assert_ptr_equal(b->data, (const char *)w->data + 96);
    cdz_gguf_close(&g);
}

static void reads_version_2_and_parts(void **state)
{
    (void)state;
    cdz_gguf g = open_good("version_2");
    assert_int_equal(g.version, 2);
    cdz_gguf_close(&g);
    g = open_good("split-00001-of-00002");
    assert_int_equal(g.tensors.n_files, 2);
    for (size_t i = 0; i < 2; i++) {
        char name[16];
        float value;
        snprintf(name, sizeof name, "part.%zu", i);
        const cdz_tensor *t = cdz_tensors_find(&g.tensors, name);
        assert_non_null(t);
        assert_int_equal(t->file, i);
        memcpy(&value, t->data, sizeof value);
        assert_true(value == (float)i);
    }
    cdz_gguf_close(&g);
}

static void knows_its_files(void **state)
{
    (void)state;
    assert_true(cdz_gguf_is(CADENZA_TEST_DATA "/fuzz/corpus/gguf/kinds.gguf"));
    assert_false(cdz_gguf_is(CADENZA_TEST_DATA "/attacks/gguf/magic.gguf"));
    assert_false(cdz_gguf_is(CADENZA_TEST_DATA));
    assert_false(cdz_gguf_is("/nowhere"));
}

/* Every part of a good file cut off, and every bit of its header turned: an answer, no crash. */
static void cut_and_turned_files_are_answers(void **state)
{
    (void)state;
    char path[] = "/tmp/cadenza-gguf-XXXXXX", from[512];
    unsigned char bytes[1024];
    snprintf(from, sizeof from, "%skinds.gguf", corpus);
    FILE *in = fopen(from, "rb");
    assert_non_null(in);
    const size_t n = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && n > 200);
    for (size_t i = 0; i < 9 * n; i++) {
        cdz_gguf g;
        cdz_error err = {0};
        const size_t at = i % n, len = i < n ? at : n;
        if (i >= n) bytes[at] ^= (unsigned char)(1u << (i / n - 1));
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, bytes, len, 0), (ssize_t)len);
        if (i >= n) bytes[at] ^= (unsigned char)(1u << (i / n - 1));
        const cdz_status st = cdz_gguf_open(path, &g, &err);
        assert_true(i >= n || st != CDZ_OK);
        assert_true(st == CDZ_OK || err.text[0] != '\0');
        cdz_gguf_close(&g);
    }
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_lie_is_a_sentence),
        cmocka_unit_test(reads_values_of_every_kind),
        cmocka_unit_test(values_of_another_kind_are_sentences),
        cmocka_unit_test(reads_tensors_in_place),
        cmocka_unit_test(reads_version_2_and_parts),
        cmocka_unit_test(knows_its_files),
        cmocka_unit_test(cut_and_turned_files_are_answers),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
