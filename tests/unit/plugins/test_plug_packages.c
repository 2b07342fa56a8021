/* test_plug_packages.c - the packages of plugins/ as a user runs them: with the shipped model, through cadenza.h.
 * What they choose is compared with the built-in strategies, what they report with what the host records. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "cadenza/cadenza.h"
#include "support/opened.h"

#define MODEL    CADENZA_SOURCE_DIR "/models/pocket-dictionary"
#define PACKAGES CADENZA_BUILD_DIR "/lib/cadenza/"
#define PROMPTS  "[[84, 300, 12, 7], [901, 45, 3000, 7]]"

static cdz_runtime *runtime;
static cdz_model *model;

static int open_model(void **state)
{
    (void)state;
    runtime = opened_runtime(NULL);
    model = opened_model(runtime, MODEL);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    cdz_model_close(model);
    cdz_close(runtime);
    return 0;
}

/* What a request gave: its answer document, alive until freed. */
typedef struct answer {
    cdz_arena arena;
    cdz_json json;
    cdz_error err;
    cdz_status status;
} answer;

/* package: folder name under lib/cadenza, or NULL for the pipeline's own strategy. settings: "name=value" separated by
 * blanks. */
static void apply_settings(cdz_pipeline *pipeline, const char *settings, cdz_error *err,
                           cdz_status *status)
{
    char text[512];
    snprintf(text, sizeof text, "%s", settings);
    for (char *at = text; *at && *status == CDZ_OK;) {
        size_t n = strcspn(at, " ");
        bool last = at[n] == '\0';
        at[n] = '\0';
        char *equals = strchr(at, '=');
        assert_non_null(equals);
        *equals = '\0';
        *status = cdz_pipeline_set(pipeline, at, equals + 1, err);
        at += last ? n : n + 1;
    }
}

static cdz_status run(const char *package, const char *settings, const char *request, answer *out)
{
    char path[512];
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    *out = (answer){0};
    cdz_status st = cdz_pipeline_load(runtime, NULL, &pipeline, &out->err);
    assert_int_equal(st, CDZ_OK);
    snprintf(path, sizeof path, PACKAGES "%s", package ? package : "");
    if (package) st = cdz_pipeline_custom_generate(pipeline, path, &out->err);
    if (st == CDZ_OK) apply_settings(pipeline, settings, &out->err, &st);
    cdz_request req = {.size = sizeof req, .model = model, .pipeline = pipeline, .json = request};
    if (st == CDZ_OK) st = cdz_generate(runtime, &req, &result, &out->err);
    if (result) {
        const char *text = cdz_result_json(result);
        cdz_error bad = {0};
        char *copy = cdz_arena_strdup(&out->arena, text);
        if (cdz_json_parse(copy, strlen(copy), "answer", NULL, &out->arena, &out->json, &bad) !=
            CDZ_OK)
            fail_msg("%s", bad.text);
    }
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    out->status = st;
    return st;
}

static void done(answer *a)
{
    cdz_arena_free(&a->arena);
}

static void must_run(const char *name, const char *package, const char *settings, answer *out)
{
    char request[256];
    snprintf(request, sizeof request, "{\"prompt_ids\": %s, \"seed\": 7}", PROMPTS);
    if (run(package, settings, request, out) != CDZ_OK)
        fail_msg("%s: %s: %s", name, package ? package : "built-in", out->err.text);
}

/* --- reading answers -------------------------------------------------------------------------------------- */

static const cdz_json *member(const answer *a, const char *group, const char *name)
{
    const cdz_json *from = group ? cdz_json_get(&a->json, group) : &a->json;
    const cdz_json *found = from ? cdz_json_get(from, name) : NULL;
    if (!found) fail_msg("the answer has no %s%s%s", group ? group : "", group ? "." : "", name);
    return found;
}

static double number(const cdz_json *rows, uint32_t r, uint32_t i)
{
    double value = 0;
    assert_true(r < rows->len && i < rows->items[r].len);
    assert_true(cdz_json_number(&rows->items[r].items[i], &value));
    return value;
}

static void same_numbers(const char *name, const cdz_json *a, const cdz_json *b, double tolerance)
{
    assert_int_equal(a->len, b->len);
    for (uint32_t r = 0; r < a->len; r++) {
        if (a->items[r].len != b->items[r].len)
            fail_msg("%s: row %u has %u and %u entries", name, r, a->items[r].len, b->items[r].len);
        for (uint32_t i = 0; i < a->items[r].len; i++) {
            double x = number(a, r, i), y = number(b, r, i);
            if (!(fabs(x - y) <= tolerance))
                fail_msg("%s: row %u, entry %u: %.9g and %.9g", name, r, i, x, y);
        }
    }
}

/* --- what they choose ------------------------------------------------------------------------------------- */

#define LENGTH "eos_token_id=none max_new_tokens=24"

/* The built-in strategies follow the model's generation_config.json and sample from the 50 best unless told otherwise. */
#define PLAIN LENGTH " temperature=1.0 top_k=none top_p=1.0 "

/* The same choice said to a package and to the built-in strategies. */
static const struct {
    const char *name, *package, *settings, *same_as;
} choices[] = {
    {"greedy", "sampling_with_kvcache", "do_sample=false", "do_sample=false"},
    {"plain draws", "sampling_with_kvcache", "", "do_sample=true"},
    {"temperature", "sampling_with_kvcache", "temperature=0.7", "do_sample=true temperature=0.7"},
    {"top-k", "sampling_with_kvcache", "top_k=20", "do_sample=true top_k=20"},
    {"top-p", "sampling_with_kvcache", "top_p=0.8", "do_sample=true top_p=0.8"},
    {"all three", "sampling_with_kvcache", "temperature=1.5 top_k=40 top_p=0.9",
     "do_sample=true temperature=1.5 top_k=40 top_p=0.9"},
    {"more than the vocabulary", "sampling_with_kvcache", "top_k=100000 top_p=1.0",
     "do_sample=true"},
    {"temperature 0", "simple_sample", "temperature=0", "do_sample=false"},
    {"plain draws", "simple_sample", "", "do_sample=true"},
    {"all three", "simple_sample", "temperature=0.7 top_k=40 top_p=0.9",
     "do_sample=true temperature=0.7 top_k=40 top_p=0.9"},
};

static void packages_choose_as_the_built_ins(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        char ours[256], theirs[256];
        answer a, b;
        snprintf(ours, sizeof ours, LENGTH "%s%s", choices[i].settings[0] ? " " : "",
                 choices[i].settings);
        snprintf(theirs, sizeof theirs, PLAIN "%s", choices[i].same_as);
        must_run(choices[i].name, choices[i].package, ours, &a);
        must_run(choices[i].name, NULL, theirs, &b);
        same_numbers(choices[i].name, member(&a, NULL, "ids"), member(&b, NULL, "ids"), 0);
        done(&a);
        done(&b);
    }
}

static void seeds_differ(void **state)
{
    (void)state;
    answer a, b;
    assert_int_equal(run("simple_sample", LENGTH, "{\"prompt_ids\": [[84, 300]], \"seed\": 1}", &a),
                     CDZ_OK);
    assert_int_equal(run("simple_sample", LENGTH, "{\"prompt_ids\": [[84, 300]], \"seed\": 2}", &b),
                     CDZ_OK);
    const cdz_json *x = member(&a, NULL, "ids"), *y = member(&b, NULL, "ids");
    bool differ = false;
    for (uint32_t i = 0; i < x->len && i < y->len; i++)
        differ |= x->items[i].integer != y->items[i].integer;
    assert_true(differ);
    done(&a);
    done(&b);
}

/* --- what they report ------------------------------------------------------------------------------------- */

static void results_have_their_shapes(void **state)
{
    (void)state;
    answer a;
    must_run("shapes", "sampling_with_kvcache", LENGTH " temperature=0.7 top_k=20", &a);
    const cdz_json *ids = member(&a, NULL, "ids"), *seq = member(&a, "results", "sequences");
    const cdz_json *scores = member(&a, "results", "scores");
    const cdz_json *logprobs = member(&a, "results", "logprobs");
    assert_int_equal(seq->len, 2);
    assert_int_equal(scores->len, 2);
    assert_int_equal(logprobs->len, 2);
    assert_true(number(seq, 1, 0) == 901);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(seq->items[r].len, 28);
        assert_int_equal(scores->items[r].len, 24);
        assert_int_equal(logprobs->items[r].len, 24);
        for (uint32_t i = 0; i < 24; i++) {
            assert_true(number(seq, r, 4 + i) == number(ids, r, i));
            assert_true(number(scores, r, i) <= 0 && number(logprobs, r, i) < 0);
        }
    }
    done(&a);
}

/* ours: [row][step]; the host's: [step][row] */
static void same_by_step(const char *name, const cdz_json *ours, const cdz_json *hosts)
{
    assert_int_equal(hosts->len, ours->items[0].len);
    for (uint32_t r = 0; r < ours->len; r++)
        for (uint32_t i = 0; i < hosts->len; i++) {
            double x = number(ours, r, i), y = number(hosts, i, r);
            if (!(fabs(x - y) <= 1e-5))
                fail_msg("%s: row %u, token %u: %.9g and %.9g", name, r, i, x, y);
        }
}

/* The host records the same two numbers for the built-in strategy. It may sum them in another order: 1e-5. */
static void log_probabilities_are_the_hosts(void **state)
{
    (void)state;
    answer a, b;
    must_run("package", "sampling_with_kvcache", LENGTH " temperature=0.7 top_k=20", &a);
    must_run("built-in", NULL, PLAIN "do_sample=true temperature=0.7 top_k=20 output_logprobs=true",
             &b);
    same_by_step("scores", member(&a, "results", "scores"), member(&b, NULL, "logprobs"));
    same_by_step("logprobs", member(&a, "results", "logprobs"), member(&b, NULL, "raw_logprobs"));
    done(&a);
    done(&b);
}

static void without_filters_both_are_equal(void **state)
{
    (void)state;
    answer a;
    must_run("plain", "sampling_with_kvcache", LENGTH, &a);
    same_numbers("plain", member(&a, "results", "scores"), member(&a, "results", "logprobs"), 0);
    done(&a);
}

static void one_candidate_is_certain(void **state)
{
    (void)state;
    answer a;
    must_run("top_k=1", "sampling_with_kvcache", LENGTH " top_k=1", &a);
    const cdz_json *scores = member(&a, "results", "scores");
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < 24; i++) assert_true(number(scores, r, i) == 0);
    done(&a);
}

/* The third token of row 0 becomes its end: the row is padded, its notes are 0, the other row goes on. */
static void a_row_that_ended_has_no_notes(void **state)
{
    (void)state;
    char settings[128];
    answer a, b;
    must_run("free", "sampling_with_kvcache", LENGTH " do_sample=false", &a);
    const int end = (int)number(member(&a, NULL, "ids"), 0, 2);
    uint32_t first = 0;
    while ((int)number(member(&a, NULL, "ids"), 0, first) != end) first++;
    snprintf(settings, sizeof settings,
             "eos_token_id=%d pad_token_id=5 max_new_tokens=24 do_sample=false", end);
    must_run("ended", "sampling_with_kvcache", settings, &b);
    const cdz_json *seq = member(&b, "results", "sequences");
    const cdz_json *scores = member(&b, "results", "scores");
    const cdz_json *logprobs = member(&b, "results", "logprobs");
    const uint32_t n = scores->items[0].len;
    assert_true(n > first + 1);
    for (uint32_t i = first + 1; i < n; i++) {
        assert_true(number(seq, 0, 4 + i) == 5);
        assert_true(number(scores, 0, i) == 0 && number(logprobs, 0, i) == 0);
    }
    assert_true(number(logprobs, 0, first) < 0);
    assert_true(number(logprobs, 1, n - 1) < 0);
    done(&a);
    done(&b);
}

/* --- C and Lua are one ------------------------------------------------------------------------------------ */

static void lua_and_c_agree(void **state)
{
    (void)state;
    static const char *const settings[] = {
        LENGTH " do_sample=false",
        LENGTH,
        LENGTH " temperature=0.7",
        LENGTH " top_k=20",
        LENGTH " top_p=0.8",
        LENGTH " temperature=1.3 top_k=40 top_p=0.9",
        "max_new_tokens=60 temperature=0.9",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        static const char *const names[] = {"sequences", "scores", "logprobs"};
        answer a, b;
        must_run(settings[i], "sampling_with_kvcache", settings[i], &a);
        must_run(settings[i], "sampling_with_kvcache_lua", settings[i], &b);
        for (size_t k = 0; k < 3; k++)
            same_numbers(settings[i], member(&a, "results", names[k]),
                         member(&b, "results", names[k]), 0);
        done(&a);
        done(&b);
    }
}

/* --- refusals --------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *package, *settings, *sentence;
} refusals[] = {
    {"past the context", "simple_sample", "max_new_tokens=600",
     "4 prompt tokens and 600 new ones exceed the model's context of 512"},
    {"unknown parameter", "simple_sample", "temprature=1", "temprature"},
    {"out of range", "sampling_with_kvcache", "temperature=-1", "temperature"},
};

static void refusals_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        answer a;
        char request[256];
        snprintf(request, sizeof request, "{\"prompt_ids\": %s}", PROMPTS);
        if (run(refusals[i].package, refusals[i].settings, request, &a) == CDZ_OK)
            fail_msg("%s: was accepted", refusals[i].name);
        if (!strstr(a.err.text, refusals[i].sentence))
            fail_msg("%s: '%s' lacks '%s'", refusals[i].name, a.err.text, refusals[i].sentence);
        done(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_choose_as_the_built_ins),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(results_have_their_shapes),
        cmocka_unit_test(log_probabilities_are_the_hosts),
        cmocka_unit_test(without_filters_both_are_equal),
        cmocka_unit_test(one_candidate_is_certain),
        cmocka_unit_test(a_row_that_ended_has_no_notes),
        cmocka_unit_test(lua_and_c_agree),
        cmocka_unit_test(refusals_are_sentences),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
