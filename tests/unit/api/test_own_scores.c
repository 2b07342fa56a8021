/* test_own_scores.c - processors and criteria over a program's own rows: bit for bit those of a request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "support/must.h"
#include "support/opened.h"

typedef struct world {
    cdz_runtime *rt;
    cdz_model *model;
    uint32_t n_vocab;
} world;

static void open_world(world *w)
{
    w->rt = opened_runtime(NULL);
    w->model = opened_model(w->rt, CADENZA_TEST_DATA "/golden/llama_gqa");
    w->n_vocab = cdz_model_vocab_size(w->model);
}

static void close_world(world *w)
{
    cdz_model_close(w->model);
    cdz_close(w->rt);
}

static cdz_rules *open_rules(const world *w, const char *ini, const char *kwargs,
                             cdz_pipeline **pipeline)
{
    cdz_error err = {0};
    cdz_rules *rules;
    must(cdz_pipeline_parse(w->rt, ini, strlen(ini), "test", pipeline, &err), &err);
    const cdz_rules_options options = {.size = sizeof options, .model = w->model, .kwargs = kwargs};
    must(cdz_rules_open(w->rt, *pipeline, &options, &rules, &err), &err);
    return rules;
}

static const struct {
    const char *ini, *kwargs;
} chains[] = {
    {"", "{\"do_sample\": true, \"temperature\": 0.7, \"top_k\": 9, \"repetition_penalty\": 1.3, "
         "\"eos_token_id\": null, \"max_new_tokens\": 80}"},
    {"", "{\"no_repeat_ngram_size\": 2, \"min_new_tokens\": 70, \"eos_token_id\": 2, "
         "\"max_new_tokens\": 80}"},
    {"[pipeline]\nprocessors = dry, frequency_penalty\n[dry]\nmultiplier = 0.8\n"
     "[frequency_penalty]\nfrequency_penalty = 0.3\n",
     "{\"do_sample\": true, \"eos_token_id\": null, \"max_new_tokens\": 80}"},
};

/* What an answer's steps held: their ids and logits in, their scores out. back: the same in any order of lengths. */
static void check_steps(cdz_rules *rules, const cdz_result *result, uint32_t n_vocab, bool back)
{
    const cdz_outcome *o = result->outcome;
    float *scores = malloc((size_t)o->n_rows * n_vocab * sizeof *scores);
    const uint32_t first = result->prompt_len, last = first + o->n_steps;
    int32_t *ids = malloc((size_t)o->n_rows * last * sizeof *ids);
    assert_true(scores && ids);
    for (uint32_t i = 0; i < o->n_steps; i++) {
        cdz_error err = {0};
        const uint32_t step = back && i % 5 == 4 ? i - 3 : i, len = first + step;
        for (uint32_t r = 0; r < o->n_rows; r++)
            memcpy(ids + (size_t)r * len, o->rows[r].ids, len * sizeof *ids);
        memcpy(scores, o->steps[step].logits, (size_t)o->n_rows * n_vocab * sizeof *scores);
        must(cdz_rules_process(rules, ids, o->n_rows, len, scores, &err), &err);
        assert_memory_equal(scores, o->steps[step].scores,
                            (size_t)o->n_rows * n_vocab * sizeof *scores);
    }
    free(scores);
    free(ids);
}

static void scores_are_those_of_a_request(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        char json[700];
        cdz_error err = {0};
        cdz_pipeline *pipeline;
        cdz_result *result;
        cdz_rules *rules = open_rules(&w, chains[i].ini, chains[i].kwargs, &pipeline);
        snprintf(json, sizeof json,
                 "{\"prompt_ids\": [[5, 6, 7], [8, 7, 8]], \"seed\": 4, \"kwargs\": "
                 "{\"context\": false, \"output_scores\": true, \"output_logits\": true, %s}",
                 chains[i].kwargs + 1);
        const cdz_request request = {
            .size = sizeof request, .model = w.model, .pipeline = pipeline, .json = json};
        must(cdz_generate(w.rt, &request, &result, &err), &err);
        assert_true(result->outcome->n_steps > 64); /* beyond a mark of states */
        check_steps(rules, result, w.n_vocab, false);
        check_steps(rules, result, w.n_vocab, true);
        cdz_result_free(result);
        cdz_rules_free(rules);
        cdz_pipeline_free(pipeline);
    }
    close_world(&w);
}

/* Rows that change places take what is known of them along. */
static void rows_may_change_places(void **state)
{
    static const int32_t rows[2][6] = {{5, 6, 7, 9, 9, 9}, {5, 6, 7, 11, 12, 11}};
    world w;
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    (void)state;
    open_world(&w);
    cdz_rules *rules = open_rules(
        &w, "[pipeline]\nchain = frequency_penalty\n[frequency_penalty]\nfrequency_penalty = 0.5\n",
        "{\"do_sample\": true}", &pipeline);
    float *scores = malloc(2 * (size_t)w.n_vocab * sizeof *scores);
    assert_non_null(scores);
    for (uint32_t len = 3; len <= 6; len++) {
        int32_t ids[12];
        const bool turned = len % 2;
        for (uint32_t r = 0; r < 2; r++)
            memcpy(ids + r * len, rows[turned ? 1 - r : r], len * sizeof *ids);
        memset(scores, 0, 2 * (size_t)w.n_vocab * sizeof *scores);
        must(cdz_rules_process(rules, ids, 2, len, scores, &err), &err);
        const uint32_t first = turned ? 1 : 0; /* where rows[0] is */
        assert_true(scores[first * w.n_vocab + 9] == -0.5F * (float)(len - 3));
        assert_true(scores[(1 - first) * w.n_vocab + 11] == (len < 4   ? 0
                                                             : len < 6 ? -0.5F
                                                                       : -1.0F));
    }
    free(scores);
    cdz_rules_free(rules);
    cdz_pipeline_free(pipeline);
    close_world(&w);
}

static void criteria_are_asked(void **state)
{
    static const int32_t rows[] = {5, 6, 7, 2, 5, 6, 7, 8};
    world w;
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    bool done[2] = {false, true};
    (void)state;
    open_world(&w);
    cdz_rules *rules = open_rules(&w, "", "{\"eos_token_id\": 2}", &pipeline);
    must(cdz_rules_test(rules, rows, 2, 4, done, &err), &err);
    assert_true(done[0] && !done[1]);
    cdz_rules_free(rules);
    cdz_pipeline_free(pipeline);
    rules = open_rules(&w, "", "{\"max_new_tokens\": 1, \"eos_token_id\": null}", &pipeline);
    must(cdz_rules_test(rules, rows, 2, 4, done, &err), &err);
    assert_true(done[0] && done[1]);
    cdz_rules_free(rules);
    cdz_pipeline_free(pipeline);
    close_world(&w);
}

static void bad_calls_are_refused(void **state)
{
    static const int32_t outside[] = {5, 1 << 30};
    world w;
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    float *scores;
    bool done;
    (void)state;
    open_world(&w);
    cdz_rules *rules = open_rules(&w, "", NULL, &pipeline);
    scores = calloc(w.n_vocab, sizeof *scores);
    assert_int_equal(cdz_rules_process(rules, outside, 1, 2, scores, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_rules_process(rules, outside, 0, 1, scores, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_rules_process(rules, outside, 1, 0, scores, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_rules_test(rules, outside, 1, 1, &done, &err), CDZ_E_USAGE);
    must(cdz_rules_process(rules, outside, 1, 1, scores, &err), &err);
    free(scores);
    cdz_rules_free(rules);
    rules = NULL;
    const cdz_rules_options bare = {.size = sizeof bare};
    assert_int_equal(cdz_rules_open(w.rt, pipeline, &bare, &rules, &err), CDZ_E_USAGE);
    const cdz_rules_options guided = {
        .size = sizeof guided, .n_vocab = 10, .kwargs = "{\"guidance_scale\": 2.0}"};
    assert_int_equal(cdz_rules_open(w.rt, pipeline, &guided, &rules, &err), CDZ_E_UNSUPPORTED);
    const cdz_rules_options list = {.size = sizeof list, .n_vocab = 10, .kwargs = "[]"};
    assert_int_equal(cdz_rules_open(w.rt, pipeline, &list, &rules, &err), CDZ_E_USAGE);
    cdz_pipeline_free(pipeline);
    cdz_rules_free(NULL);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_a_request),
        cmocka_unit_test(rows_may_change_places),
        cmocka_unit_test(criteria_are_asked),
        cmocka_unit_test(bad_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
