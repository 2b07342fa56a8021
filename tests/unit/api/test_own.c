/* test_own.c - plugins of the program itself (cdz_runtime_add_plugin), and a result's tensors where they lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/observer.h"
#include "cadenza/processor.h"
#include "cadenza/strategy.h"
#include "support/must.h"
#include "support/opened.h"

/* What the program's plugins share with it: one request at a time. */
static struct {
    int applied, tested, begun, ended;
    int32_t wanted;
} seen;

/* More than a fibre's stack has, as an interpreter may need. */
static bool have_room(void)
{
    volatile char room[2 * 1024 * 1024];
    for (size_t i = 0; i < sizeof room; i += 4096) room[i] = 1;
    return room[4096] == 1;
}

static cdz_status own_begin(const cdz_step *step, void **shared)
{
    seen.begun += step->plugin->loader_data == &seen;
    *shared = &seen;
    return CDZ_OK;
}

static cdz_status own_apply(const cdz_step *step, cdz_scores *scores)
{
    if (step->shared != &seen || !have_room()) return CDZ_E_INTERNAL;
    if (seen.wanted < 0) return (step->host->fail)(step, CDZ_E_INPUT, "no token is wanted");
    seen.applied++;
    for (uint32_t r = 0; r < scores->n_rows; r++) cdz_row(scores, r)[seen.wanted] = 1e6f;
    return CDZ_OK;
}

static void own_end(const cdz_step *step)
{
    (void)step;
    seen.ended++;
}

static cdz_status own_test(const cdz_step *step, cdz_stop *stops)
{
    if (!have_room()) return CDZ_E_INTERNAL;
    seen.tested++;
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (step->input_ids[r].len >= 6) stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"six", 3}};
    return CDZ_OK;
}

static const cdz_processor wanted = {
    .base = {CDZ_PROCESSOR_BASE, .id = "org.example.wanted", .version = "1.0.0",
             .summary = "One token", .loader_data = &seen},
    .caps = CDZ_NEEDS_IDS,
    .begin = own_begin,
    .apply = own_apply,
    .end = own_end,
};
static const cdz_criterion six = {
    .base = {CDZ_CRITERION_BASE, .id = "org.example.six", .version = "1.0.0",
             .summary = "Six tokens"},
    .test = own_test,
};
/* What the drafter and the observer saw. */
static struct {
    int begun, ended, proposed, judged, accepted, staged, scored, stopped, with_decoder;
    int32_t tokens[32];
    uint32_t n_tokens;
} drafts;
/* The answer to a prompt of three tokens: what the drafter proposes, once a wrong token. */
static int32_t known[16];

static cdz_status draft_begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    drafts.begun++;
    drafts.with_decoder += dec != NULL;
    (void)step;
    *shared = &drafts;
    return have_room() ? CDZ_OK : CDZ_E_INTERNAL;
}

static cdz_status draft_propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    static int32_t guess[2];
    drafts.with_decoder += dec != NULL;
    if (step->shared != &drafts || !have_room()) return CDZ_E_INTERNAL;
    const uint32_t done = draft->history.len - 3;
    const uint32_t n = draft->room < 2 ? draft->room : 2;
    for (uint32_t i = 0; i < n; i++) guess[i] = known[done + i];
    if (n && drafts.proposed++ == 0) guess[0] ^= 1;
    draft->tokens = (cdz_ids){guess, n};
    return CDZ_OK;
}

static cdz_status draft_judged(cdz_decoder *dec, const cdz_step *step, uint32_t row,
                               uint32_t n_proposed, uint32_t n_accepted)
{
    (void)step;
    drafts.with_decoder += dec != NULL;
    drafts.judged += row == 0 && n_proposed <= 2;
    drafts.accepted += (int)n_accepted;
    return CDZ_OK;
}

static void draft_end(const cdz_step *step)
{
    drafts.ended += step->shared == &drafts;
}

static cdz_status watch_stage(const cdz_step *step, const cdz_plugin_base *by, const cdz_seen *with)
{
    for (uint32_t r = 0; r < step->n_rows; r++) drafts.staged += by->id && with->n_vocab;
    return CDZ_OK;
}

static cdz_status watch_scores(const cdz_step *step, const cdz_seen *with)
{
    for (uint32_t r = 0; r < step->n_rows; r++) drafts.scored += with->after[r] != NULL;
    return CDZ_OK;
}

static cdz_status watch_token(const cdz_step *step, int32_t token)
{
    if (!have_room()) return CDZ_E_INTERNAL;
    if (drafts.n_tokens < 32 && step->input_ids[0].at[step->input_ids[0].len - 1] == token)
        drafts.tokens[drafts.n_tokens++] = token;
    return CDZ_OK;
}

static cdz_status watch_stop(const cdz_step *step, const cdz_stop *stop)
{
    drafts.stopped += step->n_rows == 1 && stop->reason != 0;
    return CDZ_OK;
}

static void watch_end(const cdz_step *step)
{
    (void)step;
    drafts.ended++;
}

static const cdz_drafter knows = {
    .base = {CDZ_DRAFTER_BASE, .id = "org.example.knows", .version = "1.0.0", .summary = "Knows it"},
    .begin = draft_begin,
    .propose = draft_propose,
    .judged = draft_judged,
    .end = draft_end,
};
static const cdz_observer watches = {
    .base = {CDZ_OBSERVER_BASE, .id = "org.example.watches", .version = "1.0.0",
             .summary = "Looks on"},
    .stage = watch_stage,
    .scores = watch_scores,
    .token = watch_token,
    .stop = watch_stop,
    .end = watch_end,
};

static cdz_status never(cdz_decoder *dec, const cdz_step *step)
{
    (void)dec;
    (void)step;
    return CDZ_OK;
}
static const cdz_strategy loop = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.example.loop", .version = "1.0.0", .summary = "A loop"},
    .run = never,
};

static const char ini[] = "[pipeline]\n"
                          "processors = org.example.wanted\n"
                          "stopping = org.example.six\n";

typedef struct world {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_pipeline *pipeline;
} world;

static world open_world(void)
{
    world w = {0};
    cdz_error err = {0};
    w.rt = opened_runtime(NULL);
    w.model = opened_model(w.rt, CADENZA_TEST_DATA "/golden/llama_gqa");
    must(cdz_runtime_add_plugin(w.rt, &wanted.base, &err), &err);
    must(cdz_runtime_add_plugin(w.rt, &six.base, &err), &err);
    w.pipeline = opened_pipeline(w.rt, ini);
    return w;
}

static void close_world(world *w)
{
    cdz_pipeline_free(w->pipeline);
    cdz_model_close(w->model);
    cdz_close(w->rt);
}

static cdz_status generate(world *w, const char *json, cdz_result **result, cdz_error *err)
{
    const cdz_request request = {
        .size = sizeof request, .model = w->model, .pipeline = w->pipeline, .json = json};
    return cdz_generate(w->rt, &request, result, err);
}

static void test_edits_and_stops(void **state)
{
    (void)state;
    world w = open_world();
    cdz_error err = {0};
    cdz_result *result;
    memset(&seen, 0, sizeof seen);
    seen.wanted = 7;
    must(generate(&w, "{\"prompt_ids\": [[5, 6, 9]], \"kwargs\": {\"do_sample\": false}}", &result,
                  &err),
         &err);
    uint32_t n;
    const int32_t *ids = cdz_result_ids(result, 0, &n);
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(ids[i], 7);
    assert_string_equal(cdz_result_finish_reason(result, 0), "six");
    assert_int_equal(seen.applied, 3);
    assert_true(seen.tested >= 3);
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.ended, 1);
    cdz_result_free(result);
    close_world(&w);
}

/* Drafts of the program change no token, and its observer sees each. */
static void test_drafts_and_looks_on(void **state)
{
    (void)state;
    static const char both[] =
        "[pipeline]\ndrafter = org.example.knows\nobservers = org.example.watches\n";
    static const char json[] =
        "{\"prompt_ids\": [[5, 6, 9]], \"kwargs\": {\"do_sample\": false, \"max_new_tokens\": 9, "
        "\"repetition_penalty\": 1.1, \"eos_token_id\": null}}";
    world w = open_world();
    cdz_error err = {0};
    cdz_pipeline_free(w.pipeline);
    w.pipeline = NULL;
    must(cdz_runtime_add_plugin(w.rt, &knows.base, &err), &err);
    must(cdz_runtime_add_plugin(w.rt, &watches.base, &err), &err);
    cdz_result *result;
    uint32_t n;
    must(generate(&w, json, &result, &err), &err);
    const int32_t *ids = cdz_result_ids(result, 0, &n);
    assert_int_equal(n, 9);
    memcpy(known, ids, n * sizeof *ids);
    cdz_result_free(result);

    memset(&drafts, 0, sizeof drafts);
    must(cdz_pipeline_parse(w.rt, both, sizeof both - 1, "both", &w.pipeline, &err), &err);
    must(generate(&w, json, &result, &err), &err);
    ids = cdz_result_ids(result, 0, &n);
    assert_int_equal(n, 9);
    assert_memory_equal(ids, known, sizeof *ids * 9);
    assert_int_equal(drafts.n_tokens, 9);
    assert_memory_equal(drafts.tokens, known, sizeof *known * 9);
    assert_int_equal(drafts.begun, 1);
    assert_int_equal(drafts.ended, 2); /* both */
    assert_int_equal(drafts.with_decoder, 0);
    assert_true(drafts.judged >= 2 && drafts.accepted >= 2 && drafts.accepted < 9);
    assert_true(drafts.scored >= 9 && drafts.staged >= 9 && drafts.stopped == 1);
    cdz_result_free(result);
    close_world(&w);
}

/* Its sentence reaches the caller, and the next request runs. */
static void test_failure(void **state)
{
    (void)state;
    world w = open_world();
    cdz_error err = {0};
    cdz_result *result = NULL;
    seen.wanted = -1;
    assert_int_equal(generate(&w, "{\"prompt_ids\": [[5, 6, 9]]}", &result, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "no token is wanted"));
    cdz_result_free(result);
    seen.wanted = 3;
    must(generate(&w, "{\"prompt_ids\": [[5, 6, 9]]}", &result, &err), &err);
    cdz_result_free(result);
    close_world(&w);
}

static void test_refusals(void **state)
{
    (void)state;
    world w = open_world();
    cdz_error err = {0};
    assert_int_equal(cdz_runtime_add_plugin(w.rt, &loop.base, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "expected a processor, a criterion, a drafter or an observer"));
    assert_int_equal(cdz_runtime_add_plugin(w.rt, &wanted.base, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "already"));
    close_world(&w);
}

static const cdz_result_tensor *named(const cdz_result_tensor *tensors, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
    fail_msg("no tensor \"%s\"", name);
    return NULL;
}

static void test_tensors(void **state)
{
    (void)state;
    world w = open_world();
    cdz_error err = {0};
    cdz_result *result;
    cdz_result_tensor *tensors;
    size_t n;
    const cdz_request request = {
        .size = sizeof request,
        .model = w.model,
        .json =
            "{\"prompt_ids\": [[5, 6, 9]], \"kwargs\": {\"num_beams\": 2, \"max_new_tokens\": 3, "
            "\"do_sample\": false, \"output_scores\": true, \"output_attentions\": true}}"};
    must(cdz_generate(w.rt, &request, &result, &err), &err);
    must(cdz_result_tensors(result, &tensors, &n, &err), &err);
    const cdz_result_tensor *scores = named(tensors, n, "scores/0");
    assert_string_equal(scores->type, "f32");
    assert_int_equal(scores->n_dims, 2);
    assert_int_equal(scores->shape[0], 2);
    assert_int_equal(scores->shape[1], cdz_model_vocab_size(w.model));
    const cdz_result_tensor *attention = named(tensors, n, "attentions/0/1");
    assert_int_equal(attention->n_dims, 4);
    assert_int_equal(attention->shape[2], 3);
    assert_string_equal(named(tensors, n, "sequences_scores")->type, "f32");
    assert_string_equal(named(tensors, n, "beam_indices")->type, "i32");
    float value;
    must(cdz_result_token_values(result, 0, CDZ_TOKEN_SCORE, &value, 1, &err), &err);
    uint32_t n_ids;
    const int32_t first = cdz_result_ids(result, 0, &n_ids)[0];
    assert_true(value == ((const float *)scores->data)[first]); /* both beams begin in row 0 */
    cdz_free(tensors);
    cdz_result_free(result);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edits_and_stops), cmocka_unit_test(test_drafts_and_looks_on),
        cmocka_unit_test(test_failure),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
