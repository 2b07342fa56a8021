/* test_profile.c - times by kind of work: what is counted under which strategy, that kinds exclude each other, and that
 * nothing is taken unless asked for. How long anything takes is no test's concern. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/json.h"
#include "support/must.h"
#include "support/opened.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* --- an account by hand -------------------------------------------------------------------------------------------- */

static void kinds_exclude_each_other(void **state)
{
    (void)state;
    cdz_profile p = {.now = CDZ_WORK_IDLE};
    const double start = cdz_now_s();
    assert_int_equal(cdz_profile_mark(&p, CDZ_WORK_SCHEDULE), CDZ_WORK_IDLE);
    assert_int_equal(cdz_profile_mark(&p, CDZ_WORK_STRATEGY), CDZ_WORK_SCHEDULE);
    const cdz_work was = cdz_profile_mark(&p, CDZ_WORK_DRAW);
    assert_int_equal(was, CDZ_WORK_STRATEGY);
    assert_int_equal(cdz_profile_mark(&p, CDZ_WORK_DRAW), CDZ_WORK_DRAW); /* it goes on */
    cdz_profile_enter(&p, CDZ_PASS_DECODE);
    assert_int_equal(cdz_profile_mark(&p, was), CDZ_WORK_DRAW);
    assert_int_equal(cdz_profile_mark(&p, CDZ_WORK_IDLE), CDZ_WORK_STRATEGY);
    const double took = cdz_now_s() - start;
    const double sum = cdz_work_seconds(&p.times.pass[CDZ_PASS_PROMPT]) +
                       cdz_work_seconds(&p.times.pass[CDZ_PASS_DECODE]);
    assert_true(sum > 0 && sum <= took);
    assert_true(p.times.pass[CDZ_PASS_PROMPT].seconds[CDZ_WORK_DRAW] > 0);
    assert_true(p.times.pass[CDZ_PASS_DECODE].seconds[CDZ_WORK_DRAW] > 0);
    assert_false(p.times.pass[CDZ_PASS_DECODE].seconds[CDZ_WORK_SCHEDULE] > 0);
    cdz_profile_settle(&p); /* idle: nothing is charged */
    assert_true(cdz_work_seconds(&p.times.pass[CDZ_PASS_PROMPT]) +
                    cdz_work_seconds(&p.times.pass[CDZ_PASS_DECODE]) <=
                took);
}

static void without_a_profile_marks_do_nothing(void **state)
{
    (void)state;
    assert_int_equal(cdz_profile_mark(NULL, CDZ_WORK_HEAD), CDZ_WORK_HEAD);
    cdz_profile_enter(NULL, CDZ_PASS_DECODE);
    cdz_profile_settle(NULL);
}

/* --- requests ------------------------------------------------------------------------------------------------------ */

#define BIT(w) (1u << (w))
enum {
    ALWAYS = BIT(CDZ_WORK_SCHEDULE) | BIT(CDZ_WORK_STRATEGY) | BIT(CDZ_WORK_RULES) |
             BIT(CDZ_WORK_EMBED) | BIT(CDZ_WORK_MATMUL) | BIT(CDZ_WORK_ATTENTION) |
             BIT(CDZ_WORK_NORM) | BIT(CDZ_WORK_HEAD) | BIT(CDZ_WORK_PROCESSORS) | BIT(CDZ_WORK_DRAW),
};

static const struct {
    const char *name, *model, *kwargs;
    unsigned kinds; /* that must have taken time while decoding */
    uint64_t prompt_passes, prompt_rows, decode_passes, decode_rows, requests;
} cases[] = {
    {"greedy", "llama_gqa", "\"do_sample\": false", ALWAYS, 1, 3, 7, 7, 1},
    {"sampling", "llama_gqa", "\"do_sample\": true, \"temperature\": 0.7", ALWAYS, 1, 3, 7, 7, 1},
    {"three of one prompt", "llama_gqa", "\"do_sample\": true, \"num_return_sequences\": 3", ALWAYS,
     1, 3, 7, 21, 1},
    {"beams", "llama_gqa", "\"num_beams\": 2", ALWAYS, 1, 3, 7, 14, 1},
    {"a prompt in pieces", "llama_gqa", "\"do_sample\": false, \"prefill_chunk_size\": 1", ALWAYS,
     3, 3, 7, 7, 1},
    {"no rotation", "gpt2", "\"do_sample\": false", ALWAYS, 1, 3, 7, 7, 1},
};

static cdz_profile_times run(size_t i, bool profile, double *took)
{
    char path[512], json[512];
    cdz_runtime *rt;
    cdz_model *model;
    cdz_result *result = NULL;
    cdz_error err = {0};
    const double start = cdz_now_s();
    const cdz_options options = {
        .size = sizeof options, .n_threads = 2, .kv_bytes = 4 << 20, .profile = profile};
    rt = opened_runtime(&options);
    snprintf(path, sizeof path, "%s/golden/%s", CADENZA_TEST_DATA, cases[i].model);
    model = opened_model(rt, path);
    snprintf(json, sizeof json,
             "{\"prompt_ids\": [5, 9, 7], \"seed\": 1, \"kwargs\": {\"eos_token_id\": null, "
             "\"pad_token_id\": null, \"max_new_tokens\": 8, \"repetition_penalty\": 1.1, %s}}",
             cases[i].kwargs);
    const cdz_request request = {.size = sizeof request, .model = model, .json = json};
    must(cdz_generate(rt, &request, &result, &err), &err);
    cdz_result_free(result);
    cdz_profile_times times;
    assert_int_equal(cdz_engine_get_profile(rt->engine, &times), profile);
    *took = cdz_now_s() - start;
    char *document = cdz_profile_json(rt);
    assert_int_equal(document != NULL, profile);
    cdz_free(document);
    cdz_model_close(model);
    cdz_close(rt);
    return times;
}

static void what_requests_cost(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        double took;
        const cdz_profile_times t = run(i, true, &took);
        const cdz_work_times *prompt = &t.pass[CDZ_PASS_PROMPT], *decode = &t.pass[CDZ_PASS_DECODE];
        if (prompt->passes != cases[i].prompt_passes || prompt->rows != cases[i].prompt_rows ||
            decode->passes != cases[i].decode_passes || decode->rows != cases[i].decode_rows ||
            t.requests != cases[i].requests)
            fail_msg("%s: %d passes of %d rows, then %d of %d; %d requests", cases[i].name,
                     (int)prompt->passes, (int)prompt->rows, (int)decode->passes, (int)decode->rows,
                     (int)t.requests);
        for (int w = 0; w < CDZ_N_WORK; w++)
            if ((cases[i].kinds & BIT(w)) && !(decode->seconds[w] > 0))
                fail_msg("%s: %s took no time", cases[i].name, cdz_work_name((cdz_work)w));
        if (cdz_work_seconds(prompt) + cdz_work_seconds(decode) > took)
            fail_msg("%s: kinds take more than all of it", cases[i].name);
    }
}

static void nothing_is_taken_unasked(void **state)
{
    (void)state;
    double took;
    const cdz_profile_times t = run(0, false, &took);
    const cdz_profile_times none = {0};
    assert_memory_equal(&t, &none, sizeof t);
}

/* --- what is written ----------------------------------------------------------------------------------------------- */

static double number(const cdz_json *object, const char *name)
{
    double value = 0;
    if (!cdz_json_number(cdz_json_get(object, name), &value)) fail_msg("no %s", name);
    return value;
}

static void the_document_has_every_kind(void **state)
{
    (void)state;
    cdz_profile_times t = {.requests = 2, .scores = {5, 2, 7, 4000, "org.example.reader"}};
    t.pass[CDZ_PASS_DECODE] = (cdz_work_times){.passes = 4, .rows = 8, .switches = 5};
    for (int w = 0; w < CDZ_N_WORK; w++) t.pass[CDZ_PASS_DECODE].seconds[w] = 0.001 * (w + 1);
    cdz_buf text = {0};
    cdz_profile_write_json(&t, "cpu", &text);
    cdz_arena arena = {0};
    cdz_json document;
    cdz_error err = {0};
    must(cdz_json_parse(text.data, text.len, "profile", NULL, &arena, &document, &err), &err);
    const cdz_json *decode = cdz_json_get(&document, "decode"), *ms = cdz_json_get(decode, "ms");
    assert_true(number(&document, "requests") > 1.5 && number(decode, "rows") > 7.5);
    assert_int_equal(ms->len, CDZ_N_WORK);
    const cdz_json *scores = cdz_json_get(&document, "scores");
    assert_true(number(scores, "away") > 4.5 && number(scores, "fetched") < 2.5);
    assert_true(number(scores, "brought") > 6.5 && number(scores, "bytes") > 3999.5);
    for (int w = 0; w < CDZ_N_WORK; w++)
        assert_true(fabs(number(ms, cdz_work_name((cdz_work)w)) - (w + 1)) < 1e-9);
    assert_true(fabs(cdz_work_own_seconds(&t.pass[CDZ_PASS_DECODE]) - 0.008) < 1e-12);
    cdz_arena_free(&arena);
    cdz_buf_free(&text);
}

static void differences_are_taken_field_by_field(void **state)
{
    (void)state;
    cdz_profile_times before = {.requests = 1}, now = {.requests = 3};
    before.pass[0] = (cdz_work_times){.passes = 1, .rows = 2, .switches = 3};
    now.pass[0] = (cdz_work_times){.passes = 11, .rows = 22, .switches = 33};
    before.pass[1].seconds[CDZ_WORK_TEXT] = 1.0;
    now.pass[1].seconds[CDZ_WORK_TEXT] = 1.5;
    before.scores = (cdz_rows_moved){1, 2, 3, 4, "a"};
    now.scores = (cdz_rows_moved){11, 22, 33, 44, "b"};
    const cdz_profile_times d = cdz_profile_since(&now, &before);
    assert_int_equal(d.requests, 2);
    assert_int_equal(d.pass[0].passes, 10);
    assert_int_equal(d.pass[0].rows, 20);
    assert_int_equal(d.pass[0].switches, 30);
    assert_true(d.scores.away == 10 && d.scores.fetched == 20 && d.scores.brought == 30 &&
                d.scores.bytes == 40);
    assert_true(fabs(cdz_work_seconds(&d.pass[1]) - 0.5) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_exclude_each_other),
        cmocka_unit_test(without_a_profile_marks_do_nothing),
        cmocka_unit_test(what_requests_cost),
        cmocka_unit_test(nothing_is_taken_unasked),
        cmocka_unit_test(the_document_has_every_kind),
        cmocka_unit_test(differences_are_taken_field_by_field),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
