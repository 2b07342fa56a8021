/* test_cli_numbers.c - numbers at the ends of their types in the files that the program alone reads: recorded cases of single
 * processors and of whole requests (parity), saved tensors (score --outputs), a package's own cases (plugin test). Each of them
 * ends with an answer or a sentence, never by a signal or a sanitizer's report.
 *
 * CADENZA_NUMBERS_SHOWN=1: what the program says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sanitized.h"
#include "support/numbers.h"

enum { REPORTED = 99 /* a sanitizer's exit status */ };

static char folder[64];
static bool shown;

/* --- files, the program ------------------------------------------------------------------------------------------------ */

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void become_program(const char *const *args)
{
    setenv("ASAN_OPTIONS", "exitcode=99", 1);
    setenv("UBSAN_OPTIONS", "exitcode=99", 1);
#if !CDZ_WITH_OWN_HEAP
    const struct rlimit most = {(rlim_t)8 << 30, (rlim_t)8 << 30};
    setrlimit(RLIMIT_AS, &most);
#endif
    if (!freopen(path_of("said"), "wb", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        _exit(127);
    execv(CADENZA_BUILD_DIR "/bin/cadenza", (char *const *)(uintptr_t)args);
    _exit(127);
}

static int run(const char *const *args)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) become_program(args);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* 0: all is well; 1 and 2 come with words. The kit tries a plugin in a process of its own, and tells of its end. */
static void must_answer(const char *what, const char *const *args)
{
    static const char *const reports[] = {"Sanitizer", "runtime error", "died of", "status 99",
                                          "out of memory"};
    char *said = NULL;
    size_t len = 0;
    cdz_error err = {0};
    const int status = run(args);
    if (cdz_file_read(path_of("said"), (size_t)64 << 20, &said, &len, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    if (shown) fputs(said, stderr);
    bool reported = false;
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        reported = reported || strstr(said, reports[i]);
    if (status < 0 || status >= REPORTED || reported || (status && !len))
        fail_msg("%s: status %d\n%.4000s", what, status, said);
    free(said);
    unlink(path_of("said"));
}

/* --- recorded calls of processors ---------------------------------------------------------------------------------------- */

/* All of them but those that no JSON text may hold. */
static bool is_json(const char *number)
{
    return strcmp(number, "NaN") != 0 && strcmp(number, "1e999") != 0;
}

static void put_cases(cdz_buf *out, const char *text, size_t len)
{
    enum { PLACES = 40 };
    number_place places[PLACES];
    cdz_buf changed = {0};
    const size_t n = numbers_in(text, len, true, places, PLACES);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < N_NUMBERS; k++) {
            if (!is_json(numbers[k])) continue;
            put_instead(&changed, text, len, places[i], numbers[k]);
            if (out->len) cdz_buf_puts(out, ",\n");
            cdz_buf_add(out, changed.data, changed.len);
        }
    cdz_buf_free(&changed);
}

/* Without the long rows of scores: there is a test of any number in these. */
static void put_short(cdz_buf *out, const cdz_json *one)
{
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < one->len; i++) {
        const cdz_json_member *m = &one->members[i];
        cdz_buf_printf(out, "%s\"%s\": ", i ? ", " : "", m->key);
        cdz_json_write(out, &m->value);
    }
    cdz_buf_putc(out, '}');
}

static bool is_first_of_its_kind(const cdz_json *cases, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++) {
        bool same = true;
        for (size_t k = 0; k < 2; k++) {
            const char *key = k ? "name" : "kind";
            const cdz_json *a = cdz_json_get(&cases->items[i], key),
                           *b = cdz_json_get(&cases->items[at], key);
            same = same && a && b && cdz_json_eq(a, b->string);
        }
        if (same) return false;
    }
    return true;
}

static void recorded_calls_with_any_number_are_compared(void **state)
{
    cdz_arena arena = {0};
    cdz_json document;
    cdz_error err = {0};
    (void)state;
    assert_int_equal(cdz_json_read_file(CADENZA_TEST_DATA "/processors/processor_vectors.json", 0,
                                        NULL, &arena, &document, &err),
                     CDZ_OK);
    const cdz_json *cases = cdz_json_get(&document, "cases");
    for (uint32_t i = 0; i < cases->len; i++) {
        cdz_buf one = {0}, all = {0}, file = {0};
        if (!is_first_of_its_kind(cases, i)) continue;
        put_short(&one, &cases->items[i]);
        put_cases(&all, one.data, one.len);
        cdz_buf_printf(&file, "{\"cases\": [%s]}", all.data ? all.data : "");
        assert_false(file.failed);
        write_file("vectors.json", file.data, file.len);
        char path[256];
        snprintf(path, sizeof path, "%s", path_of("vectors.json"));
        must_answer(one.data, (const char *[]){"cadenza", "parity", path, NULL});
        cdz_buf_free(&one);
        cdz_buf_free(&all);
        cdz_buf_free(&file);
    }
    unlink(path_of("vectors.json"));
    cdz_arena_free(&arena);
}

/* --- recorded requests ----------------------------------------------------------------------------------------------------- */

#define REQUEST                                                                                     \
    "{\"id\": \"m/a\", \"mode\": \"greedy\", \"prompt_ids\": [[5, 6, 7]], \"kwargs\": "             \
    "{\"max_new_tokens\": 2, \"output_scores\": true%s}, \"record\": {\"top\": 3, \"transition\": " \
    "true}, \"expect\": {%s}}"

/* What is expected may be of any form; so may the lists that are written in another way than they stand. */
static void recorded_requests_with_any_number_are_compared(void **state)
{
    static const char *const parts[][2] = {
        {"", "\"scores\": {\"top_ids\": [[[1, 2, 3]], [[1, 2, 3]]], \"top_vals\": "
             "[[[1.5, 1.0, 0.5]], [[1.5, 1.0, 0.5]]]}"},
        {"", "\"scores\": {\"top_ids\": 7, \"top_vals\": 7}"},
        {"", "\"scores\": {\"top_ids\": [7, 7], \"top_vals\": [7]}"},
        {"", "\"scores\": {\"top_ids\": [[7, 7], [7]], \"top_vals\": [7, [7]]}"},
        {"", "\"scores\": {\"top_ids\": [[[1, 2, 3]], [[1, 2, 3]]], \"top_vals\": [7, 7]}"},
        {"",
         "\"scores\": {\"top_ids\": [[[1, 2, 3]], [7]], \"top_vals\": [[[1.5]], [[1.5, 1.0, 0.5]]]}"},
        {"", "\"sequences\": [[5, 6, 7, 1, 2]], \"scores\": [1, 2]"},
        {", \"prefix_allowed_tokens\": {\"batch_cycles\": [[[1, 2], 3], 7]}",
         "\"sequences\": [[1]]"},
        {", \"prefix_allowed_tokens\": {\"batch_cycles\": 7}", "\"sequences\": [[1]]"},
    };
    static const char *const links[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    cdz_buf one = {0}, all = {0}, file = {0};
    (void)state;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        char target[512];
        snprintf(target, sizeof target, "%s/golden/llama_gqa/%s", CADENZA_TEST_DATA, links[i]);
        assert_int_equal(symlink(target, path_of(links[i])), 0);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *expect;
        cdz_buf_clear(&one);
        cdz_buf_printf(&one, REQUEST, parts[i][0], parts[i][1]);
        expect = strstr(one.data, *parts[i][0] ? "\"prefix_allowed" : "\"expect\"");
        number_place places[40];
        cdz_buf changed = {0};
        const size_t before = (size_t)(expect - one.data);
        const size_t n = numbers_in(expect, one.len - before, true, places, 40);
        for (size_t k = 0; k < n * N_NUMBERS; k++) {
            const number_place at = {before + places[k / N_NUMBERS].begin,
                                     before + places[k / N_NUMBERS].end};
            if (!is_json(numbers[k % N_NUMBERS])) continue;
            put_instead(&changed, one.data, one.len, at, numbers[k % N_NUMBERS]);
            cdz_buf_puts(&all, all.len ? ",\n" : "[");
            cdz_buf_add(&all, changed.data, changed.len);
        }
        cdz_buf_free(&changed);
    }
    cdz_buf_printf(&file, "%s]", all.data);
    write_file("cases.json", file.data, file.len);
    must_answer("cases.json", (const char *[]){"cadenza", "parity", "--threads", "1", folder, NULL});
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) unlink(path_of(links[i]));
    unlink(path_of("cases.json"));
    cdz_buf_free(&one);
    cdz_buf_free(&all);
    cdz_buf_free(&file);
}

/* --- saved tensors ------------------------------------------------------------------------------------------------------------ */

/* header, then 8 bytes each of `data`. */
static void write_tensors(const char *header, const int64_t *data, size_t n)
{
    cdz_buf file = {0};
    uint8_t bytes[8];
    put_bits(bytes, strlen(header), 8);
    cdz_buf_add(&file, bytes, 8);
    cdz_buf_puts(&file, header);
    cdz_buf_add(&file, data, n * sizeof *data);
    write_file("saved.safetensors", file.data, file.len);
    cdz_buf_free(&file);
}

static void saved_tensors_with_any_number_are_scored(void **state)
{
    static const char *const headers[] = {
        "{\"sequences\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[0,16]},"
        "\"scores/0\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[16,24]},"
        "\"beam_indices\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[24,32]}}",
        "{\"sequences\":{\"dtype\":\"I64\",\"shape\":[4294967295,0],\"data_offsets\":[0,0]},"
        "\"scores/0\":{\"dtype\":\"F32\",\"shape\":[4294967295,0],\"data_offsets\":[0,0]}}",
        "{\"sequences\":{\"dtype\":\"I64\",\"shape\":[4294967295,0],\"data_offsets\":[0,0]},"
        "\"scores/0\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}",
        "{\"sequences\":{\"dtype\":\"I64\",\"shape\":[1,1],\"data_offsets\":[0,8]},"
        "\"scores/0\":{\"dtype\":\"F32\",\"shape\":[1,0],\"data_offsets\":[8,8]}}",
    };
    static const int64_t values[] = {INT64_MIN, -1, 1, 2, INT32_MAX, UINT32_MAX, INT64_MAX};
    static const size_t n_data[] = {4, 0, 1, 1};
    char path[256], what[64];
    (void)state;
    snprintf(path, sizeof path, "%s", path_of("saved.safetensors"));
    for (size_t h = 0; h < sizeof headers / sizeof *headers; h++)
        for (size_t i = 0; i < (h ? 1 : 4); i++)
            for (size_t k = 0; k < (h ? 1 : sizeof values / sizeof *values); k++) {
                int64_t data[4] = {1, 0, 0x3f0000003f000000, 0};
                data[i] = values[k];
                snprintf(what, sizeof what, "saved tensors %zu, %zu: %lld", h, i,
                         (long long)values[k]);
                write_tensors(headers[h], data, n_data[h]);
                must_answer(what, (const char *[]){"cadenza", "score", "--outputs", path, NULL});
            }
    unlink(path);
}

/* --- a package's own cases ---------------------------------------------------------------------------------------------------- */

static void own_cases_with_any_number_are_tried(void **state)
{
    static const char script[] =
        "return cadenza.processor { id = 'org.example.own', version = '1.0.0',\n"
        "  apply = function(p, ids, row) row[ids[#ids]] = 0 end }\n";
    static const char manifest[] =
        "[plugin]\nid = org.example.own\nversion = 1.0.0\nkind = processor\n"
        "entry = own.lua\n";
    static const char one[] =
        "{\"name\": \"a\", \"input_ids\": [[1, 2], [2, 1]], \"prompt_len\": 1, \"seed\": 3, \"eos\": [2], "
        "\"tolerance\": 0.001, \"scores_in\": [[1, 2, 3], [3, 2, 1]], \"scores_out\": [[1, 0, 3], [3, 2, 0]]}";
    cdz_buf all = {0}, file = {0};
    number_place places[40];
    char path[256];
    (void)state;
    assert_int_equal(mkdir(path_of("tests"), 0755), 0);
    write_file("plugin.ini", manifest, sizeof manifest - 1);
    write_file("own.lua", script, sizeof script - 1);
    const size_t n = numbers_in(one, sizeof one - 1, true, places, 40);
    snprintf(path, sizeof path, "%s", path_of("tests/a.json"));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < N_NUMBERS;
             k += 3 + i % 3) { /* a run each: the first wrong case ends it */
            if (!is_json(numbers[k])) continue;
            put_instead(&all, one, sizeof one - 1, places[i], numbers[k]);
            cdz_buf_clear(&file);
            cdz_buf_printf(&file, "{\"cases\": [%s]}", all.data);
            write_file("tests/a.json", file.data, file.len);
            must_answer(all.data, (const char *[]){"cadenza", "plugin", "test", folder, "--only",
                                                   "vectors", NULL});
        }
    unlink(path);
    rmdir(path_of("tests"));
    unlink(path_of("plugin.ini"));
    unlink(path_of("own.lua"));
    cdz_buf_free(&all);
    cdz_buf_free(&file);
}

static int begin(void **state)
{
    (void)state;
    shown = getenv("CADENZA_NUMBERS_SHOWN") != NULL;
    snprintf(folder, sizeof folder, "/tmp/cadenza-numbers-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_calls_with_any_number_are_compared),
        cmocka_unit_test(recorded_requests_with_any_number_are_compared),
        cmocka_unit_test(saved_tensors_with_any_number_are_scored),
        cmocka_unit_test(own_cases_with_any_number_are_tried),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
