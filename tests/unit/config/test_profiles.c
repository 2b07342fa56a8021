/* test_profiles.c - the profiles that `use = NAME` names: the llama.cpp one leaves what its sampler chain leaves
 * (tools/capture_llamacpp.py), the names of all are honoured, and mistakes are told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "cadenza/cadenza.h"

/* Shows the processors the logits it was given, and keeps what they make of them. */
static const char feed[] = "return cadenza.strategy { id = 'test.feed', version = '1.0.0',\n"
                           "  params = { logits = { type = 'numbers', help = 'a row' } },\n"
                           "  run = function(ctx)\n"
                           "    local scores = ctx:scratch_scores(1)\n"
                           "    local row = scores:row(1)\n"
                           "    for i, x in ipairs(ctx.params.logits) do row[i - 1] = x end\n"
                           "    ctx:process(scores)\n"
                           "    ctx:record('scores', scores)\n"
                           "    local token = ctx:argmax(scores, 1)\n"
                           "    ctx:append(token)\n"
                           "  end }\n";

typedef struct world {
    cdz_runtime *runtime;
    cdz_model *model;
    cdz_arena arena;
    cdz_json vectors;
    char *text;
} world;

static cdz_status set_all(cdz_pipeline *pipeline, const cdz_json *params, cdz_error *err)
{
    for (uint32_t i = 0; i < params->len; i++) {
        cdz_buf value = {0};
        cdz_json_write(&value, &params->members[i].value);
        assert_false(value.failed);
        const cdz_status status =
            cdz_pipeline_set(pipeline, params->members[i].key, value.data, err);
        cdz_buf_free(&value);
        if (status != CDZ_OK) return status;
    }
    return CDZ_OK;
}

/* --- llama.cpp ---------------------------------------------------------------------------------------------------- */

static char *request_of(const cdz_json *c)
{
    cdz_buf out = {0};
    cdz_buf_puts(&out, "{\"prompt_ids\": [");
    cdz_json_write(&out, cdz_json_get(c, "history"));
    cdz_buf_puts(&out, "], \"kwargs\": {\"logits\": ");
    cdz_json_write(&out, cdz_json_get(c, "logits"));
    cdz_buf_puts(&out, "}}");
    assert_false(out.failed);
    return out.data;
}

/* Scores against the recorded tokens and probabilities. */
static void compare(const char *name, const cdz_json *scores, const cdz_json *c)
{
    const cdz_json *kept = cdz_json_get(c, "kept"), *p = cdz_json_get(c, "p");
    double most = -INFINITY, sum = 0, x;
    uint32_t n = 0;

    for (uint32_t i = 0; i < scores->len; i++)
        if (cdz_json_number(&scores->items[i], &x) && x > most) most = x;
    for (uint32_t i = 0; i < scores->len; i++)
        if (cdz_json_number(&scores->items[i], &x)) sum += exp(x - most);
    for (uint32_t i = 0; i < scores->len; i++) {
        if (!cdz_json_number(&scores->items[i], &x)) continue; /* "-inf" */
        if (n == kept->len || kept->items[n].integer != (int64_t)i)
            fail_msg("%s: token %u is left", name, i);
        double expected;
        assert_true(cdz_json_number(&p->items[n++], &expected));
        if (fabs(exp(x - most) / sum - expected) > 1e-5)
            fail_msg("%s: token %u has %.7f, llama.cpp gave %.7f", name, i, exp(x - most) / sum,
                     expected);
    }
    if (n != kept->len) fail_msg("%s: %u tokens are left, not %u", name, n, kept->len);
}

static void replay(world *w, const cdz_json *c)
{
    static const char ini[] = "[pipeline]\nuse = llamacpp\nstrategy = lua:feed.lua\n"
                              "[generation]\nmax_new_tokens = 1\noutput_scores = yes\n";
    const char *name = cdz_json_get(c, "name")->string;
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    cdz_json answer;
    char *json = request_of(c);
    cdz_status status =
        cdz_pipeline_parse(w->runtime, ini, strlen(ini), "test.ini", &pipeline, &err);
    if (status == CDZ_OK) status = set_all(pipeline, cdz_json_get(c, "params"), &err);
    const cdz_request request = {
        .size = sizeof request, .model = w->model, .pipeline = pipeline, .json = json};
    if (status == CDZ_OK) status = cdz_generate(w->runtime, &request, &result, &err);
    if (status != CDZ_OK) fail_msg("%s: %s", name, err.text);
    const char *text = cdz_result_json(result);
    if (cdz_json_parse(text, strlen(text), "answer", NULL, &w->arena, &answer, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    const cdz_json *scores = cdz_json_get(&answer, "scores");
    assert_non_null(scores);
    while (cdz_json_is(&scores->items[0], CDZ_JSON_ARRAY)) scores = &scores->items[0];
    compare(name, scores, c);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    free(json);
}

static void its_chain_leaves_the_same(void **state)
{
    world *w = *state;
    const cdz_json *cases = cdz_json_get(&w->vectors, "cases");
    assert_true(cases->len >= 15);
    for (uint32_t i = 0; i < cases->len; i++) replay(w, &cases->items[i]);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

typedef struct name_case {
    const char *ini, *set, *value; /* set: or NULL */
    const char *kwargs;            /* or NULL */
    uint32_t n_new;                /* tokens expected */
    const char *error;             /* part of it, or NULL */
} name_case;

static const name_case name_cases[] = {
    {"[pipeline]\nuse = llamacpp\n[generation]\nn_predict = 3\ntemp = 0.5\n", NULL, NULL, NULL, 3,
     NULL},
    {"[pipeline]\nuse = openai\n[generation]\nmax_tokens = 2\npresence_penalty = 0.5\n", NULL, NULL,
     NULL, 2, NULL},
    {"[pipeline]\nuse = vllm\n[generation]\nmax_tokens = 5\nmin_tokens = 2\n", NULL, NULL, NULL, 5,
     NULL},
    {"[pipeline]\nuse = openai\n", "max_completion_tokens", "4", NULL, 4, NULL},
    {"[pipeline]\nuse = openai\n", NULL, NULL, "{\"max_tokens\": 3}", 3, NULL},
    {"[pipeline]\nuse = llamacpp\n", "repeat_penalty", "0", NULL, 0, "repetition"},
    {"[pipeline]\nuse = llamacp\n", NULL, NULL, NULL, 0, "llamacp"},
    {"[generation]\nn_predict = 3\n", NULL, NULL, NULL, 0, "n_predict"},
    {"[pipeline]\nuse = llamacpp\n", "temp", "-1", NULL, 0, "temp = -1"},
    {"[pipeline]\nuse = llamacpp\n[generation]\ntemp = 0\nn_predict = 2\n", NULL, NULL, NULL, 2,
     NULL},
    {"[pipeline]\nuse = openai\n[generation]\nmax_tokens = 2\n", "temperature", "0", NULL, 2, NULL},
    {"[pipeline]\nuse = vllm\n[generation]\ntemperature = 0\nmax_tokens = 2\n", NULL, NULL, NULL, 2,
     NULL},
    {"[names]\nlength = max_new_token\n", NULL, NULL, NULL, 0, "'max_new_tokens'"},
    {"[names]\nlength = max_new_tokens\n[generation]\nlength = 2\n", NULL, NULL, NULL, 2, NULL},
    {"[pipeline]\nuse = llamacpp\n[generation]\nrepetition_penalty = 1.2\n", NULL, NULL, NULL, 0,
     "no stage of the chain uses it"},
};

static cdz_status run_names(world *w, const name_case *c, uint32_t *n_new, cdz_error *err)
{
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    char json[256];
    snprintf(json, sizeof json, "{\"prompt_ids\": [[5, 6, 7]], \"seed\": 1, \"kwargs\": %s}",
             c->kwargs ? c->kwargs : "{}");
    cdz_status status =
        cdz_pipeline_parse(w->runtime, c->ini, strlen(c->ini), "test.ini", &pipeline, err);
    if (status == CDZ_OK && c->set) status = cdz_pipeline_set(pipeline, c->set, c->value, err);
    const cdz_request request = {
        .size = sizeof request, .model = w->model, .pipeline = pipeline, .json = json};
    if (status == CDZ_OK) status = cdz_generate(w->runtime, &request, &result, err);
    if (status == CDZ_OK) (void)cdz_result_ids(result, 0, n_new);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    return status;
}

static void other_names_are_understood(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < sizeof name_cases / sizeof name_cases[0]; i++) {
        const name_case *c = &name_cases[i];
        cdz_error err = {0};
        uint32_t n = 0;
        const cdz_status status = run_names(w, c, &n, &err);
        if ((status != CDZ_OK) != (c->error != NULL)) fail_msg("%s: '%s'", c->ini, err.text);
        if (c->error && !strstr(err.text, c->error)) fail_msg("%s: '%s'", c->ini, err.text);
        if (!c->error && n != c->n_new) fail_msg("%s: %u tokens", c->ini, n);
    }
}

/* A profile may stand for the file. */
static void a_profile_is_a_file(void **state)
{
    world *w = *state;
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    assert_int_equal(cdz_pipeline_load(w->runtime, "vllm", &pipeline, &err), CDZ_OK);
    cdz_pipeline_free(pipeline);
    assert_int_not_equal(cdz_pipeline_load(w->runtime, "vlm", &pipeline, &err), CDZ_OK);
}

/* --- set-up ------------------------------------------------------------------------------------------------------- */

static int open_world(void **state)
{
    world *w = calloc(1, sizeof *w);
    cdz_error err = {0};
    size_t len;
    FILE *file = fopen("feed.lua", "w");
    if (!w || !file) return -1;
    fputs(feed, file);
    fclose(file);
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 8u << 20};
    cdz_status status = cdz_open(&options, &w->runtime, &err);
    if (status == CDZ_OK)
        status = cdz_model_open(w->runtime, CADENZA_TEST_DATA "/golden/llama_gqa", NULL, &w->model,
                                &err);
    if (status == CDZ_OK)
        status = cdz_file_read(CADENZA_TEST_DATA "/profiles/llamacpp.json", 1u << 20, &w->text,
                               &len, &err);
    if (status == CDZ_OK)
        status = cdz_json_parse(w->text, len, "llamacpp.json", NULL, &w->arena, &w->vectors, &err);
    if (status != CDZ_OK) print_error("%s\n", err.text);
    *state = w;
    return status != CDZ_OK;
}

static int close_world(void **state)
{
    world *w = *state;
    cdz_model_close(w->model);
    cdz_close(w->runtime);
    cdz_arena_free(&w->arena);
    free(w->text);
    free(w);
    return remove("feed.lua");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_chain_leaves_the_same),
        cmocka_unit_test(other_names_are_understood),
        cmocka_unit_test(a_profile_is_a_file),
    };
    return cmocka_run_group_tests_name("profiles", tests, open_world, close_world);
}
