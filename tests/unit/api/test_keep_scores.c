/* test_keep_scores.c - "cadenza.scores/1": what a processor keeps stays as it was, and the request goes on as if nothing had been kept. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "cadenza/ext/scores.h"
#include "cadenza/processor.h"
#include "support/must.h"
#include "support/opened.h"

enum { MOST_KEPT = 128 };

typedef enum mode {
    LOOKS,   /* and keeps nothing */
    KEEPS,   /* the rows of every third call, */
    POISONS, /* of each, writes NaN to them and releases them at once: nobody reads those any more */
    TWICE,   /* in one call */
} mode;

typedef struct kept {
    void *memory;
    const float *rows;
    float *copy;
    size_t n;
} kept;

static struct {
    const cdz_scores_host *host;
    mode mode;
    bool may;
    uint32_t n_calls, n_given, n_kept;
    uint64_t hash; /* of all rows that were shown */
    kept kept[MOST_KEPT];
} seen;

static void note(const cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (size_t i = 0; i < scores->n_vocab * sizeof(float); i++)
            seen.hash =
                (seen.hash ^ ((const unsigned char *)cdz_row(scores, r))[i]) * 0x100000001b3u;
}

static void edit(cdz_scores *scores, float by)
{
    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (uint32_t v = 0; v < scores->n_vocab; v++) cdz_row(scores, r)[v] += by * (float)(v % 7);
}

static cdz_status keep(const cdz_scores_host *host, const cdz_step *step, cdz_scores *scores)
{
    float *was = scores->data;
    const size_t n = scores->n_rows * scores->stride;
    kept *k = &seen.kept[seen.n_kept];
    assert_true(seen.n_kept < MOST_KEPT);
    CDZ_TRY(host->keep(step, scores, &k->memory));
    assert_ptr_not_equal(scores->data, was);
    assert_memory_equal(scores->data, was, n * sizeof *was);
    seen.n_given++;
    if (seen.mode == POISONS) {
        for (size_t i = 0; i < n; i++) was[i] = NAN;
        host->release(k->memory);
        return CDZ_OK;
    }
    *k = (kept){k->memory, was, malloc(n * sizeof *was), n};
    assert_non_null(k->copy);
    memcpy(k->copy, was, n * sizeof *was);
    seen.n_kept++;
    return seen.mode == TWICE ? host->keep(step, scores, &k->memory) : CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    seen.host = cdz_get_scores(step);
    seen.may = seen.host->may_keep(step);
    *shared = seen.may ? (void *)(uintptr_t)seen.host : NULL;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_scores_host *host = step->shared;
    const bool now = seen.mode == KEEPS ? seen.n_calls % 3 == 0 : seen.mode != LOOKS;
    note(scores);
    edit(scores, 0.25f);
    seen.n_calls++;
    if (host && now) CDZ_TRY(keep(host, step, scores));
    edit(scores, -0.125f);
    return CDZ_OK;
}

static const cdz_processor keeper = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.keeper", .version = "1.0.0", .summary = "Keeps rows"},
    .begin = begin,
    .apply = apply};

static cdz_status begin_in_rows(const cdz_step *step, void **shared)
{
    (void)shared;
    seen.may = cdz_get_scores(step)->may_keep(step);
    return CDZ_OK;
}

static cdz_status apply_in_rows(const cdz_step *step, cdz_scores *scores)
{
    void *memory = NULL;
    return cdz_get_scores(step)->keep(step, scores, &memory);
}

static const cdz_processor in_rows = {.base = {CDZ_PROCESSOR_BASE, .id = "test.in-rows",
                                               .version = "1.0.0", .summary = "Keeps in rows"},
                                      .caps = CDZ_ROWWISE,
                                      .begin = begin_in_rows,
                                      .apply = apply_in_rows};

static cdz_runtime *runtime;
static cdz_model *model;

static int open_model(void **state)
{
    (void)state;
    static const cdz_plugin_base *const plugins[] = {&keeper.base, &in_rows.base};
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_bytes = 8u << 20};
    cdz_error err = {0};
    runtime = opened_runtime(&options);
    model = opened_model(runtime, CADENZA_TEST_DATA "/golden/llama_gqa");
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++)
        must(cdz_runtime_add_plugin(runtime, plugins[i], &err), &err);
    return 0;
}

static int close_model(void **state)
{
    (void)state;
    cdz_model_close(model);
    cdz_close(runtime);
    model = NULL;
    runtime = NULL;
    return 0;
}

/* What was kept is as it was then. */
static void check_kept(void)
{
    for (uint32_t i = 0; i < seen.n_kept; i++)
        assert_memory_equal(seen.kept[i].rows, seen.kept[i].copy, seen.kept[i].n * sizeof(float));
}

static void release_kept(void)
{
    for (uint32_t i = 0; i < seen.n_kept; i++) {
        seen.host->release(seen.kept[i].memory);
        free(seen.kept[i].copy);
    }
    seen.n_kept = 0;
}

static cdz_status ask(mode m, const char *lines, const char *json, cdz_result **result,
                      cdz_error *err)
{
    cdz_pipeline *pipeline = opened_pipeline(runtime, lines);
    release_kept();
    seen.mode = m;
    seen.may = false;
    seen.n_calls = seen.n_given = 0;
    seen.hash = 0xcbf29ce484222325u;
    *result = NULL;
    const cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = pipeline, .json = json};
    const cdz_status status = cdz_generate(runtime, &request, result, err);
    cdz_pipeline_free(pipeline);
    return status;
}

/* --- the same request with and without ------------------------------------------------------------------------------ */

#define REQUEST(prompts, kwargs)                                                                   \
    "{\"prompt_ids\": [" prompts "], \"seed\": 7, \"kwargs\": {\"max_new_tokens\": 9, " kwargs "}}"
#define ONE   "[5, 80, 201, 44]"
#define THREE ONE ", [17, 300, 5, 80], [9, 9, 10, 11]"

static const struct one_case {
    const char *name, *after, *json;
} cases[] = {
    {"greedy", "", REQUEST(ONE, "\"do_sample\": false, \"eos_token_id\": null")},
    {"a batch", "", REQUEST(THREE, "\"do_sample\": false, \"eos_token_id\": null")},
    {"rows that end apart", "",
     REQUEST(THREE, "\"do_sample\": false, \"eos_token_id\": [3, 7, 11, 19, 30, 31, 32, 33, 34, 35, "
                    "36, 37, 38, 39, 40, 41, 42, 43, 60, 61, 62, 63, 64, 65], \"pad_token_id\": 1")},
    {"sampled", "", REQUEST(THREE, "\"do_sample\": true, \"eos_token_id\": null, \"top_k\": 40")},
    {"sampled, with scores", "",
     REQUEST(ONE, "\"do_sample\": true, \"eos_token_id\": null, \"output_scores\": true, "
                  "\"return_dict_in_generate\": true")},
    {"beams", "",
     REQUEST(ONE ", [17, 300, 5, 80]",
             "\"do_sample\": false, \"num_beams\": 3, \"eos_token_id\": null")},
    {"beam sample", "",
     REQUEST(ONE, "\"do_sample\": true, \"num_beams\": 3, \"eos_token_id\": null")},
    /* Logits of companions lie in the memory that is kept. */
    {"guidance", ", guidance_scale",
     REQUEST(THREE, "\"do_sample\": false, \"guidance_scale\": 1.5, "
                    "\"eos_token_id\": null")},
};

static void same_answer(const char *name, const cdz_result *want, const cdz_result *got)
{
    assert_int_equal(cdz_result_rows(got), cdz_result_rows(want));
    for (uint32_t r = 0; r < cdz_result_rows(want); r++) {
        uint32_t n, m;
        const int32_t *a = cdz_result_ids(want, r, &n), *b = cdz_result_ids(got, r, &m);
        if (n != m || memcmp(a, b, n * sizeof *a) != 0) fail_msg("%s: row %u differs", name, r);
    }
}

#define KEEPER "[pipeline]\nprocessors = test.keeper\n"

/* Once, or twice; and what comes after it. */
static const char *pipeline_of(const struct one_case *c, bool twice)
{
    static char ini[128];
    snprintf(ini, sizeof ini, "[pipeline]\n%s = test.keeper%s%s\n[again]\nid = test.keeper\n",
             c->after[0] ? "chain" : "processors", twice ? ", again" : "", c->after);
    return ini;
}

static void keeping_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const struct one_case *c = &cases[i / 2];
        for (mode m = KEEPS; m <= POISONS; m++) {
            cdz_result *want, *got;
            cdz_error err = {0};
            must(ask(LOOKS, pipeline_of(c, i % 2), c->json, &want, &err), &err);
            const uint64_t hash = seen.hash;
            const uint32_t n_calls = seen.n_calls;
            assert_true(seen.may);
            must(ask(m, pipeline_of(c, i % 2), c->json, &got, &err), &err);
            same_answer(c->name, want, got);
            if (seen.hash != hash || seen.n_calls != n_calls)
                fail_msg("%s: other rows were shown", c->name);
            assert_true(seen.n_given >= (m == KEEPS ? n_calls / 3 : n_calls));
            check_kept();
            cdz_result_free(want);
            cdz_result_free(got);
        }
    }
}

static void kept_outlives_everything(void **state)
{
    cdz_result *result;
    cdz_error err = {0};
    must(ask(KEEPS, KEEPER, cases[1].json, &result, &err), &err);
    assert_int_equal(seen.n_kept, 3);
    cdz_result_free(result);
    close_model(state);
    check_kept();
    release_kept();
    open_model(state);
}

/* --- where nothing can be kept --------------------------------------------------------------------------------------- */

static void once_a_call(void **state)
{
    (void)state;
    cdz_result *result;
    cdz_error err = {0};
    assert_int_equal(ask(TWICE, KEEPER, cases[0].json, &result, &err), CDZ_E_STATE);
    assert_non_null(strstr(err.text, "test.keeper: scores: keep takes the scores"));
    cdz_result_free(result);
}

static void not_row_by_row(void **state)
{
    (void)state;
    cdz_result *result;
    cdz_error err = {0};
    assert_int_equal(
        ask(LOOKS, "[pipeline]\nprocessors = test.in-rows\n", cases[0].json, &result, &err),
        CDZ_E_STATE);
    assert_false(seen.may);
    assert_non_null(strstr(err.text, "may_keep"));
    cdz_result_free(result);
}

/* Under a loop that does not look for scores that have moved, and beside a drafter, which does not either. */
static void not_where_scores_stay(void **state)
{
    (void)state;
    static const char with_drafts[] = REQUEST(
        ONE, "\"do_sample\": false, \"prompt_lookup_num_tokens\": 3, \"eos_token_id\": null");
    static const char loop[] = "[pipeline]\nstrategy = backtracking\nprocessors = test.keeper\n";
    const char *const asked[][2] = {{loop, cases[0].json}, {KEEPER, with_drafts}};
    for (size_t i = 0; i < 2; i++) {
        cdz_result *want, *got;
        cdz_error err = {0};
        must(ask(LOOKS, asked[i][0], asked[i][1], &want, &err), &err);
        must(ask(POISONS, asked[i][0], asked[i][1], &got, &err), &err);
        assert_false(seen.may);
        assert_true(seen.n_calls > 0 && seen.n_given == 0);
        same_answer("scores stay", want, got);
        cdz_result_free(want);
        cdz_result_free(got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeping_changes_nothing),
        cmocka_unit_test(kept_outlives_everything),
        cmocka_unit_test(once_a_call),
        cmocka_unit_test(not_row_by_row),
        cmocka_unit_test(not_where_scores_stay),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
