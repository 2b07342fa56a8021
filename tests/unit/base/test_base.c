/* test_base.c - arenas, buffers, sentences, whole files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/spread.h"
#include "base/utf8.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* --- spreads --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t n;
    double in[5], median, low, high;
} spreads[] = {
    {"nothing", 0, {0}, 0, 0, 0},
    {"one", 1, {7}, 7, 7, 7},
    {"of two the upper", 2, {5, 3}, 5, 3, 5},
    {"three", 3, {9, 1, 4}, 4, 1, 9},
    {"four: the upper middle", 4, {4, 1, 3, 2}, 3, 1, 4},
    {"an outlier moves nothing but an end", 5, {2, 1000, 1, 3, 2}, 2, 1, 1000},
};

static void spreads_of_measurements(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(spreads); i++) {
        double values[5];
        memcpy(values, spreads[i].in, sizeof values);
        const cdz_spread s = cdz_spread_of(values, spreads[i].n);
        const bool good = s.median >= spreads[i].median && s.median <= spreads[i].median &&
                          s.low >= spreads[i].low && s.low <= spreads[i].low &&
                          s.high >= spreads[i].high && s.high <= spreads[i].high;
        if (!good) fail_msg("%s: %g %g %g", spreads[i].name, s.median, s.low, s.high);
    }
}

/* --- arena ----------------------------------------------------------------------------------- */

static bool all_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    unsigned char *pieces[200];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT(pieces); i++) {
            size_t bytes = i * 37 % 5000;
            pieces[i] = cdz_arena_alloc(&arena, bytes);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t)pieces[i] % 16, 0);
            assert_true(all_zero(pieces[i], bytes));
            memset(pieces[i], (int)i + 1, bytes);
        }
        for (size_t i = 0; i < COUNT(pieces); i++)
            for (size_t k = 0; k < i * 37 % 5000; k += 101)
                assert_int_equal(pieces[i][k], (int)i + 1);
        cdz_arena_reset(&arena); /* the next round gets used memory, zeroed again */
        assert_int_equal(arena.used, 0);
    }
    cdz_arena_free(&arena);
    assert_null(arena.head);
}

static void arena_alignments(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    for (size_t align = 1; align <= 4096; align *= 2) {
        assert_non_null(cdz_arena_alloc_aligned(&arena, 3, 1));
        void *p = cdz_arena_alloc_aligned(&arena, 100, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
    }
    cdz_arena_free(&arena);
}

static void arena_refuses_what_does_not_fit(void **state)
{
    (void)state;
    cdz_arena arena = {.limit = 1000};
    assert_null(cdz_arena_alloc(&arena, 1001));
    assert_non_null(cdz_arena_alloc(&arena, 600));
    assert_null(cdz_arena_alloc(&arena, 401));
    assert_non_null(cdz_arena_alloc(&arena, 400));
    assert_in_range(arena.used, 1000, 1015); /* aligning counts too */
    assert_null(cdz_arena_alloc(&arena, 1));
    cdz_arena_free(&arena);
    arena.limit = 0;
    assert_null(cdz_arena_array(&arena, SIZE_MAX / 2, 3));
    assert_null(cdz_arena_alloc(&arena, SIZE_MAX));
    assert_null(cdz_arena_strndup(&arena, "x", SIZE_MAX));
    assert_non_null(cdz_arena_array(&arena, 0, 8));
    cdz_arena_free(&arena);
}

static void arena_strings(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    assert_string_equal(cdz_arena_strdup(&arena, "whole"), "whole");
    assert_string_equal(cdz_arena_strndup(&arena, "parted", 4), "part");
    assert_string_equal(cdz_arena_printf(&arena, "%d-%s", 7, "seven"), "7-seven");
    char *large = cdz_arena_printf(&arena, "%0*d", 9000, 1);
    assert_non_null(large);
    assert_int_equal(strlen(large), 9000);
    cdz_arena_free(&arena);
    cdz_arena_free(&arena);
}

/* --- buffer ---------------------------------------------------------------------------------- */

static void buffer_grows(void **state)
{
    (void)state;
    cdz_buf buf = {0};
    for (int i = 0; i < 1000; i++) {
        cdz_buf_putc(&buf, 'a');
        cdz_buf_puts(&buf, "bc");
        cdz_buf_add(&buf, "d\0e", 3);
        cdz_buf_printf(&buf, "%03d", i);
    }
    assert_false(buf.failed);
    assert_int_equal(buf.len, 9000);
    assert_memory_equal(buf.data + 999 * 9, "abcd\0e999", 10);
    char *kept = buf.data;
    cdz_buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    assert_string_equal(buf.data, "");
    cdz_buf_puts(&buf, "again");
    assert_ptr_equal(buf.data, kept);
    cdz_buf_free(&buf);
    cdz_buf_free(&buf);
}

static void buffer_remembers_a_failure(void **state)
{
    (void)state;
    cdz_buf buf = {0};
    cdz_buf_puts(&buf, "ok");
    cdz_buf_add(&buf, "x", SIZE_MAX / 2);
    assert_true(buf.failed);
    cdz_buf_puts(&buf, "more");
    assert_int_equal(buf.len, 2);
    assert_string_equal(buf.data, "ok");
    cdz_buf_free(&buf);
}

static void buffer_stays_within_its_limit(void **state)
{
    (void)state;
    cdz_buf buf = {.limit = 100};
    for (int i = 0; i < 99; i++) cdz_buf_putc(&buf, 'x');
    assert_false(buf.failed);
    assert_int_equal(buf.len, 99);
    assert_true(buf.cap <= 100);
    cdz_buf_putc(&buf, 'x');
    assert_true(buf.failed);
    assert_int_equal(buf.len, 99);
    cdz_buf_free(&buf);
}

/* --- errors ---------------------------------------------------------------------------------- */

static void errors_are_code_and_sentence(void **state)
{
    (void)state;
    cdz_error err = {0};
    assert_int_equal(cdz_err(&err, CDZ_E_INPUT, "%s: %d of %d", "a.json", 1, 2), CDZ_E_INPUT);
    assert_int_equal(err.code, CDZ_E_INPUT);
    assert_string_equal(err.text, "a.json: 1 of 2");
    assert_int_equal(cdz_err_prefix(&err, "model %s", "m"), CDZ_E_INPUT);
    assert_string_equal(err.text, "model m: a.json: 1 of 2");
    assert_int_equal(cdz_err(&err, CDZ_E_IO, "again: %s", err.text), CDZ_E_IO);
    assert_string_equal(err.text, "again: model m: a.json: 1 of 2");
    assert_int_equal(cdz_err(NULL, CDZ_E_LIMIT, "nobody listens"), CDZ_E_LIMIT);
}

static void long_sentences_end_at_a_character(void **state)
{
    (void)state;
    cdz_error err;
    char text[3000];
    for (size_t shift = 0; shift < 4; shift++) {
        size_t at = 0;
        while (at < shift) text[at++] = 'x';
        while (at + 4 < sizeof text) {
            memcpy(text + at, "\xF0\x9F\x98\x80", 4);
            at += 4;
        }
        text[at] = '\0';
        cdz_err(&err, CDZ_E_INPUT, "%s", text);
        size_t len = strlen(err.text);
        assert_true(len < CDZ_ERROR_TEXT && len > CDZ_ERROR_TEXT - 6);
        assert_true(cdz_utf8_valid(err.text, len));
    }
}

static void every_status_has_words(void **state)
{
    (void)state;
    for (int code = CDZ_OK; code <= CDZ_E_INTERNAL; code++)
        assert_string_not_equal(cdz_status_text((cdz_status)code), "unknown status");
    assert_string_equal(cdz_status_text(CDZ_E_NOMEM), "out of memory");
    assert_string_equal(cdz_status_text((cdz_status)999), "unknown status");
}

static void nearest_names(void **state)
{
    (void)state;
    static const char *const names[] = {"temperature", "top_k", "top_p", "min_p",
                                        "repetition_penalty"};
    static const struct {
        const char *name, *nearest;
    } cases[] = {
        {"temprature", "temperature"},
        {"tempertaure", "temperature"},
        {"topk", "top_k"},
        {"repetition-penalty", "repetition_penalty"},
        {"mni_p", "min_p"},
        {"banana", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *found = cdz_nearest_name(cases[i].name, names, COUNT(names));
        if (cases[i].nearest ? !found || strcmp(found, cases[i].nearest) != 0 : found != NULL)
            fail_msg("%s: %s", cases[i].name, found ? found : "nothing");
    }
    assert_null(cdz_nearest_name("x", names, 0));
    char far[200];
    memset(far, 'a', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    assert_null(cdz_nearest_name(far, names, COUNT(names)));
}

/* --- whole files ----------------------------------------------------------------------------- */

static void files_are_read_whole(void **state)
{
    (void)state;
    char path[] = "/tmp/cadenza-test-XXXXXX";
    int fd = mkstemp(path);
    char *text;
    size_t len;
    cdz_error err;
    assert_true(fd >= 0);
    assert_int_equal(cdz_file_read(path, 10, &text, &len, &err), CDZ_OK);
    assert_int_equal(len, 0);
    assert_string_equal(text, "");
    free(text);
    assert_int_equal(write(fd, "ten\0 bytes", 10), 10);
    close(fd);
    assert_int_equal(cdz_file_read(path, 10, &text, &len, &err), CDZ_OK);
    assert_int_equal(len, 10);
    assert_memory_equal(text, "ten\0 bytes\0", 11);
    free(text);
    assert_int_equal(cdz_file_read(path, 9, &text, &len, &err), CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "has 10 bytes, the limit is 9"));
    unlink(path);
    assert_int_equal(cdz_file_read(path, 9, &text, &len, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_file_read("/tmp", 9, &text, &len, &err), CDZ_E_INPUT);
    assert_string_equal(err.text, "/tmp: is a folder, expected a regular file");
}

/* A file that says it has 0 bytes and has more, as those of /proc do. */
static void files_that_grow_are_read_to_their_end(void **state)
{
    (void)state;
    char *text;
    size_t len;
    cdz_error err;
    if (access("/proc/self/status", R_OK) != 0) skip();
    assert_int_equal(cdz_file_read("/proc/self/status", SIZE_MAX, &text, &len, &err), CDZ_OK);
    assert_true(len > 100);
    assert_non_null(strstr(text, "VmSize"));
    free(text);
    assert_int_equal(cdz_file_read("/proc/self/status", 50, &text, &len, &err), CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "is larger than the limit of 50 bytes"));
}

/* A program that closed its standard input gives the next file descriptor 0. */
static void a_mapped_file_may_have_descriptor_0(void **state)
{
    (void)state;
    cdz_file file;
    int saved = dup(0);
    close(0);
    cdz_status st = cdz_file_map(CADENZA_TEST_DATA "/CMakeLists.txt", &file, NULL);
    if (saved >= 0) {
        dup2(saved, 0);
        close(saved);
    }
    assert_int_equal(st, CDZ_OK);
    assert_true(file.fd > 0);
    assert_int_equal(cdz_file_check(&file, NULL), CDZ_OK);
    cdz_file_unmap(&file);
    cdz_file_unmap(&file);
    cdz_file_unmap(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_of_measurements),
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_alignments),
        cmocka_unit_test(arena_refuses_what_does_not_fit),
        cmocka_unit_test(arena_strings),
        cmocka_unit_test(buffer_grows),
        cmocka_unit_test(buffer_remembers_a_failure),
        cmocka_unit_test(buffer_stays_within_its_limit),
        cmocka_unit_test(errors_are_code_and_sentence),
        cmocka_unit_test(long_sentences_end_at_a_character),
        cmocka_unit_test(every_status_has_words),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(files_are_read_whole),
        cmocka_unit_test(files_that_grow_are_read_to_their_end),
        cmocka_unit_test(a_mapped_file_may_have_descriptor_0),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
