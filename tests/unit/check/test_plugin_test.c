/* test_plugin_test.c - `cadenza plugin test` over plugins that each do one thing wrong (tests/plugins/bad_plugins), which it has
 * to name, and over every plugin of the tree, in which it has to find nothing. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/sanitized.h"
#include "support/small_model.h"

/* For plugins that never come back the check's limit is what finds them: short, but enough for the other checks, of which
 * there are none with sanitizers. A search whose settings are wild takes a share of it until it is cut off. */
enum { PATIENT_MS = CDZ_SANITIZED ? 120000 : 40000, SHORT_MS = CDZ_SANITIZED ? 8000 : 4000 };

/* What one run of the program printed. */
typedef struct answer {
    cdz_arena arena;
    cdz_json json;
    char *text;
    int status; /* exit status */
} answer;

static char *read_all(FILE *file)
{
    size_t len = 0, cap = 1 << 16;
    char *text = malloc(cap);
    while (text) {
        len += fread(text + len, 1, cap - len - 1, file);
        if (len + 1 < cap) break;
        cap *= 2;
        text = realloc(text, cap);
    }
    assert_non_null(text);
    text[len] = '\0';
    return text;
}

static void run_program(const char *arguments, answer *out)
{
    char command[4096];
    /* One of the bad ones fills its stack: it has to have an end. */
    snprintf(command, sizeof command, "ulimit -S -s 8192; %s/bin/cadenza plugin test %s",
             CADENZA_BUILD_DIR, arguments);
    FILE *program = popen(command, "r");
    assert_non_null(program);
    *out = (answer){.text = read_all(program)};
    const int status = pclose(program);
    assert_true(WIFEXITED(status));
    out->status = WEXITSTATUS(status);
}

static void test_file(const char *path, unsigned timeout_ms, const char *more, answer *out)
{
    char arguments[2048];
    cdz_error err = {0};
    snprintf(arguments, sizeof arguments, "'%s' --json --seed 1 --timeout-ms %u %s", path,
             timeout_ms, more);
    run_program(arguments, out);
    if (cdz_json_parse(out->text, strlen(out->text), path, NULL, &out->arena, &out->json, &err))
        fail_msg("%s: %s: %s", path, err.text, out->text);
}

static void answer_free(answer *a)
{
    cdz_arena_free(&a->arena);
    free(a->text);
}

/* The check at i, when it failed; else NULL. */
static const cdz_json *failure(const answer *a, uint32_t i)
{
    const cdz_json *check = &cdz_json_get(&a->json, "checks")->items[i];
    return cdz_json_eq(cdz_json_get(check, "state"), "failed") ? check : NULL;
}

/* --- the bad ones ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *file, *check;
    const char *says;  /* part of the sentence */
    bool hangs;        /* found by the timeout */
    bool no_sanitizer; /* the check is skipped in such a build */
} bad[] = {
    {"slow_to_open.so", "scan", "processor time", false, false},
    {"exits_when_opened.so", "scan", "opening the file: ended the process", false, false},
    {"lua_default_out_of_range.lua", "scan", "strength", false, false},
    {"../zoo/duplicate_parameter.so", "scan", "twice", false, false},
    {"../zoo/default_out_of_range.so", "scan", "default is out of range", false, false},
    {"no_summary.so", "descriptor", "summary is empty", false, false},
    {"unknown_caps.so", "scan", "sets 0x100000 in caps", false, false},
    {"unwritten_state.so", "descriptor", "no accept", false, false},
    {"endless_apply.so", "runs", "still running", true, false},
    {"crashes_in_create.so", "runs", "create with the default parameters: ", false, false},
    {"overflows_its_stack.so", "runs", "KiB is full", false, false},
    {"exits.so", "runs", "ended the process", false, false},
    {"unknown_status.so", "runs", "no status", false, false},
    {"silent_failure.so", "runs", "without saying why", false, false},
    {"makes_nan.so", "runs", "NaN", false, false},
    {"undeclared_ids.so", "runs", "the first row", false, false},
    {"criterion_wrong_reason.so", "runs", "reason 17", false, false},
    {"criterion_null_text.so", "runs", "3 bytes at NULL", false, false},
    {"lua_endless.lua", "runs", "instructions", false, false},
    {"lua_no_such_reason.lua", "runs", "table", false, false},
    {"dies_at_its_bound.so", "parameters", "every=0", false, false},
    {"refuses_in_silence.so", "parameters", "without saying why", false, false},
    {"divides_by_a_list.so", "fuzz", "tokens=[]", false, false},
    {"strategy_divides_by_its_stride.so", "fuzz", "stride=0", false, false},
    {"strategy_trusts_the_vocabulary.so", "fuzz", "outside", false, false},
    {"lua_strategy_reads_past_a_list.lua", "fuzz", "attempt to perform 'n%0'", false, false},
    {"strategy_out_of_vocabulary.so", "generates", "outside the vocabulary", false, false},
    {"strategy_gives_up.so", "generates", "no new token", false, false},
    {"observer_crashes.so", "generates", "NULL pointer", false, false},
    {"strategy_own_dice.so", "same-tokens", "the same request again", false, false},
    {"strategy_shares_a_static.so", "company", "other requests beside it", false, false},
    {"strategy_first_row_only.so", "batch-of-3", "row 1", false, false},
    {"strategy_ignores_cancel.so", "cancel", "what its verbs return", true, false},
    {"strategy_leaves_a_file_open.so", "leaves-nothing", "files are open", false, false},
    {"drafter_too_many.so", "proposals", "draft->room", false, false},
    {"drafter_out_of_vocabulary.so", "proposals", "token -1", false, false},
    {"drafter_appends.so", "proposals", "changed the request's rows", false, false},
    {"observer_writes_scores.so", "changes-nothing", "without the plugin", false, false},
    {"rounds_up.so", "environment", "floating-point mode", false, false},
    {"changes_locale.so", "environment", "create", false, false},
    {"leaves_a_file_open.so", "environment", "files are open", false, false},
    {"writes_past_row.so", "row-bounds", "element 1000 of row 0", false, false},
    {"writes_between_rows.so", "row-bounds", "between two rows", false, false},
    {"reads_before_row.so", "row-bounds", "read before the start of rows of scores", false, false},
    {"reads_past_ids.so", "ids-bounds", "read past the end of input_ids", false, false},
    {"writes_ids.so", "ids-bounds", "wrote input_ids, which are the host's", false, false},
    {"writes_past_state.so", "state-bounds", "past the end of the row's state", false, false},
    {"state_in_apply.so", "pure", "changed the state of the row", false, false},
    {"counts_calls.so", "pure", "asked the same again", false, false},
    {"own_dice.so", "pure", "asked the same again", false, false},
    {"criterion_writes_state.so", "pure", "changed the state of the row", false, false},
    {"lua_keeps_count.lua", "pure", "asked the same again", false, false},
    {"seeds_itself.so", "same-seed", "the same request again", false, false},
    {"keeps_a_global.so", "instances", "while another request runs", false, false},
    {"criterion_global.so", "instances", "while another request runs", false, false},
    {"shared_in_accept.so", "fork", "fork", false, false},
    {"lua_upvalue_in_accept.lua", "fork", "fork", false, false},
    {"remembers_the_longest.so", "rewind", "taken back", false, false},
    {"remembers_drafts.so", "draft", "a prefix that never comes to be", false, false},
    {"lies_rowwise.so", "batch", "against the row alone", false, false},
    {"criterion_first_row.so", "batch", "against the row alone", false, false},
    {"lies_elementwise.so", "elementwise", "when other scores changed", false, false},
    {"lies_keeps_top.so", "keeps-top", "below it is kept", false, false},
    {"lies_keeps_top_scores.so", "keeps-top", "the same or -inf", false, false},
    {"lies_keeps_argmax.so", "keeps-argmax", "the best token was", false, false},
    {"lua_drops_nothing.lua", "caps", "took nothing out of a cache in", false, false},
    {"lua_lies_keeps_argmax.lua", "keeps-argmax", "the best token was", false, false},
    {"lies_history_sparse.so", "history-sparse", "not in input_ids", false, false},
    {"lies_form.so", "form", "apply made it", false, false},
    {"lies_edits.so", "form", "when scores changed that `edits` does not list", false, false},
    {"lies_mask.so", "form", "`mask` tells token 3", false, false},
    {"lies_needs_normalised.so", "needs-normalised", "for nothing", false, false},
    {"waits_for_nan.so", "odd-rows", "all NaN: still running", true, false},
    {"spreads_nan.so", "nan-spread", "when row 1 is", false, false},
    {"small_index.so", "vocabularies", "151936", true, false},
    {"mallocs.so", "no-alloc", "from the heap", false, true},
    {"allocs_in_apply.so", "no-alloc", "cdz_alloc", false, true},
    {"leaks_memory.so", "leaks", "bytes of the heap", false, true},
    {"loader_keeps_the_bytes.so", "opens", "read the file's bytes, which are the host's", false,
     false},
    {"loader_writes_the_bytes.so", "opens", "wrote the file's bytes, which are the host's", false,
     false},
    {"loader_reads_past_the_end.so", "file-bounds", "read past the end of the file's bytes", false,
     false},
    {"loader_refuses_in_silence.so", "cut", "without saying why", false, false},
    {"loader_names_no_file.so", "cut", "does not name the file", false, false},
    {"loader_endless.so", "huge", "still running", true, false},
    {"loader_one_for_all.so", "twice", "one descriptor", false, false},
    {"loader_leaks.so", "open-close", "bytes of the heap", false, true},
    {"loader_leaves_a_file_open.so", "open-leaves", "files are open", false, false},
    {"loader_trusts_memory.so", "no-memory", "through a NULL pointer", false, false},
    {"scheduler_lists_twice.so", "runs", "requests twice", false, false},
    {"scheduler_writes_requests.so", "runs",
     "wrote the requests that it is shown, which are the host's", false, false},
    {"scheduler_past_the_list.so", "runs", "past the end of the list", false, false},
    {"scheduler_newest_first.so", "starves", "was overtaken by", false, false},
    {"scheduler_own_count.so", "same-turns", "the same queue again", false, false},
    {"scheduler_leaves_a_file_open.so", "environment", "files are open", false, false},
    {"scheduler_trusts_memory.so", "out-of-memory", "through a NULL pointer", false, false},
    {"trusts_memory.so", "out-of-memory", "memory refused at call 1", false, false},
};

enum { N_BAD = sizeof bad / sizeof bad[0] };

/* One check fails, and it is the one that should. With sanitizers, several times as slow, no other is asked. */
static void expect_one_failure(uint32_t which)
{
    char path[2048], more[2048], only[64] = "";
    if (CDZ_SANITIZED) snprintf(only, sizeof only, "--only %s", bad[which].check);
    snprintf(more, sizeof more, SMALL_MODEL " %s", only);
    const bool script = strstr(bad[which].file, ".lua") != NULL;
    snprintf(path, sizeof path, "%s/bad_plugins/%s",
             script ? CADENZA_TEST_DATA "/plugins" : CADENZA_BUILD_DIR "/tests", bad[which].file);
    answer a;
    test_file(path, bad[which].hangs ? SHORT_MS : PATIENT_MS, more, &a);
    const cdz_json *checks = cdz_json_get(&a.json, "checks");
    uint32_t n = 0;
    for (uint32_t i = 0; i < checks->len; i++) {
        const cdz_json *failed = failure(&a, i);
        if (!failed) continue;
        const char *name = cdz_json_get(failed, "check")->string;
        const char *detail = cdz_json_get(failed, "detail")->string;
        n++;
        if (strcmp(name, bad[which].check) != 0)
            fail_msg("%s: %s failed (%s), expected %s", bad[which].file, name, detail,
                     bad[which].check);
        if (!strstr(detail, bad[which].says))
            fail_msg("%s: '%s' does not say '%s'", bad[which].file, detail, bad[which].says);
    }
    if (n == 0) fail_msg("%s: %s did not fail", bad[which].file, bad[which].check);
    assert_int_equal(n, 1);
    assert_int_equal(a.status, 1);
    answer_free(&a);
}

static void each_bad_plugin_is_caught_by_name(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_BAD; i++) {
        if (CDZ_SANITIZED && bad[i].no_sanitizer) {
            print_message("skipped under a sanitizer: %s\n", bad[i].file);
            continue;
        }
        expect_one_failure(i);
    }
}

/* --- the good ones ---------------------------------------------------------------------------------------------- */

static void expect_no_failure(const char *path, const char *more)
{
    answer a;
    test_file(path, PATIENT_MS, more, &a);
    const cdz_json *checks = cdz_json_get(&a.json, "checks");
    for (uint32_t i = 0; i < checks->len; i++) {
        const cdz_json *failed = failure(&a, i);
        if (failed)
            fail_msg("%s: %s: %s", path, cdz_json_get(failed, "check")->string,
                     cdz_json_get(failed, "detail")->string);
    }
    assert_true(checks->len >= 2);
    assert_int_equal(a.status, 0);
    answer_free(&a);
}

/* Plugins that are nothing without something of their user's. */
static const char *what_it_needs(const char *name)
{
    if (strcmp(name, "qfilter.so") == 0)
        return SMALL_MODEL " -s filters=" CADENZA_TEST_DATA "/presses/qfilters_kit.safetensors";
    if (strcmp(name, "proxy_tuning") == 0)
        return SMALL_MODEL " --with expert=" CADENZA_TEST_DATA
                           "/golden/llama_gqa --with antiexpert=" CADENZA_TEST_DATA
                           "/golden/llama_gqa";
    return strcmp(name, "soft_prompt") == 0 ? ""
                                            : SMALL_MODEL; /* its vectors are the shipped model's */
}

static size_t expect_all_pass(const char *pattern)
{
    glob_t found;
    const char *every = getenv("CADENZA_PLUGINS_EVERY"); /* N: one in N */
    const size_t said = every ? strtoul(every, NULL, 10) : 0, step = said ? said : 1;
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i += step) {
        char *path = found.gl_pathv[i], *manifest = strstr(path, "/plugin.ini");
        if (manifest) *manifest = '\0'; /* the folder */
        expect_no_failure(path, what_it_needs(strrchr(path, '/') + 1));
    }
    const size_t n = found.gl_pathc;
    globfree(&found);
    return n;
}

static void every_plugin_of_the_tree_passes(void **state)
{
    (void)state;
    const size_t n = expect_all_pass(CADENZA_BUILD_DIR "/lib/cadenza/*.so") +
                     expect_all_pass(CADENZA_BUILD_DIR "/lib/cadenza/*.lua") +
                     expect_all_pass(CADENZA_BUILD_DIR "/lib/cadenza/*/plugin.ini") +
                     expect_all_pass(CADENZA_SOURCE_DIR "/sdk/template/*-lua/plugin.ini");
    assert_true(n > 30);
    expect_no_failure("org.cadenza.lua-loader", "");
}

/* --- the program ------------------------------------------------------------------------------------------------- */

static const char *count_calls_path(void)
{
    return CADENZA_BUILD_DIR "/tests/bad_plugins/counts_calls.so";
}

static void the_same_seed_finds_the_same(void **state)
{
    (void)state;
    const char *path = CADENZA_BUILD_DIR "/tests/bad_plugins/divides_by_a_list.so";
    answer whole, again;
    test_file(path, PATIENT_MS, "", &whole);
    test_file(path, PATIENT_MS, "--only fuzz", &again);
    const cdz_json *all = cdz_json_get(&whole.json, "checks");
    const cdz_json *one = cdz_json_get(&again.json, "checks");
    const char *first = NULL;
    for (uint32_t i = 0; i < all->len; i++)
        if (failure(&whole, i)) first = cdz_json_get(&all->items[i], "detail")->string;
    assert_int_equal(one->len, 2); /* the scan comes always */
    assert_non_null(first);
    assert_string_equal(cdz_json_get(&one->items[1], "detail")->string, first);
    answer_free(&whole);
    answer_free(&again);
}

static void the_table_names_the_failure_and_how_to_repeat_it(void **state)
{
    (void)state;
    answer a;
    char arguments[1024];
    snprintf(arguments, sizeof arguments, "%s --seed 5", count_calls_path());
    run_program(arguments, &a);
    assert_int_equal(a.status, 1);
    assert_non_null(strstr(a.text, "  pure              FAILED   apply with "));
    assert_non_null(strstr(a.text, "  fork              skipped  after instances"));
    assert_non_null(strstr(a.text, "counts_calls.so --seed 5 --only pure\n"));
    answer_free(&a);
}

static void junit_has_a_case_for_each_check(void **state)
{
    (void)state;
    answer a;
    char arguments[1024], line[2048];
    const char *file = CADENZA_BUILD_DIR "/tests/plugin_test.xml";
    unsigned cases = 0, failures = 0, ends = 0;
    snprintf(arguments, sizeof arguments, "%s --seed 5 --junit %s", count_calls_path(), file);
    run_program(arguments, &a);
    FILE *xml = fopen(file, "r");
    assert_non_null(xml);
    while (fgets(line, sizeof line, xml)) {
        cases += strstr(line, "<testcase ") != NULL;
        failures += strstr(line, "<failure message=\"") != NULL;
        ends += strcmp(line, "</testsuites>\n") == 0;
    }
    fclose(xml);
    assert_true(cases > 20);
    assert_int_equal(failures, 1);
    assert_int_equal(ends, 1);
    answer_free(&a);
}

static void wrong_usage_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "a b",
                                        "top_k --only nonsense",
                                        "top_k --only pur",
                                        "top_k --seed x",
                                        "top_k --timeout-ms 0",
                                        "top_k --timeout 0",
                                        "top_k --with folder",
                                        "top_k --nonsense"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        answer a;
        char arguments[256];
        snprintf(arguments, sizeof arguments, "%s 2>&1", wrong[i]);
        run_program(arguments, &a);
        if (a.status != 2) fail_msg("'%s' ended with %d: %s", wrong[i], a.status, a.text);
        answer_free(&a);
    }
}

static void an_unknown_plugin_fails_the_scan(void **state)
{
    (void)state;
    answer a;
    test_file("top_kk", PATIENT_MS, "", &a);
    assert_non_null(failure(&a, 0));
    assert_non_null(strstr(a.text, "top_k"));
    answer_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bad_plugin_is_caught_by_name),
        cmocka_unit_test(every_plugin_of_the_tree_passes),
        cmocka_unit_test(the_same_seed_finds_the_same),
        cmocka_unit_test(the_table_names_the_failure_and_how_to_repeat_it),
        cmocka_unit_test(junit_has_a_case_for_each_check),
        cmocka_unit_test(wrong_usage_is_refused),
        cmocka_unit_test(an_unknown_plugin_fails_the_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
