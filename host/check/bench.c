/* bench.c - opens a runtime for a check and makes its requests. */
#include "check/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/setups.h"

#define KV_BYTES (64u << 20)

enum { PARAMETER_TRIES = 12 };

/* What strategies may need to be told beside max_new_tokens, tried in order. */
static const char *const needs[] = {
    "",
    ", \"num_beams\": 3",
    ", \"num_beams\": 4, \"num_beam_groups\": 2, \"diversity_penalty\": 0.5",
    ", \"num_beams\": 3, \"force_words_ids\": [[40]]",
    ", \"penalty_alpha\": 0.6, \"top_k\": 4",
    ", \"dola_layers\": \"low\"",
    ", \"prompt_lookup_num_tokens\": 3",
    ", \"assistant_early_exit\": 2",
};

/* --- pipelines ------------------------------------------------------------------------------------------------ */

/* The plugin's section: what -s says, over values that the kit tried. */
static void put_settings(const cdz_child *c, const cdz_setup *tried, cdz_buf *ini)
{
    const cdz_param_table table = cdz_params_of(c->ref.base);
    cdz_buf value = {0}, usual = {0};
    cdz_buf_printf(ini, "[%s]\n", c->ref.base->id);
    for (uint32_t i = 0; !tried && i < c->options->n_set; i++)
        cdz_buf_printf(ini, "%s\n", c->options->set[i]);
    for (uint32_t i = 0; tried && i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        cdz_buf_clear(&value);
        cdz_buf_clear(&usual);
        cdz_param_write(param, tried->params, &value);
        cdz_param_write_default(param, &usual);
        if (value.data && usual.data && strcmp(value.data, usual.data) != 0 &&
            strcmp(value.data, "null") != 0)
            cdz_buf_printf(ini, "%s = %s\n", param->name, value.data);
    }
    cdz_buf_free(&value);
    cdz_buf_free(&usual);
}

/* plugged: with the plugin, else what its answers are compared with. */
static cdz_status make_pipeline(const cdz_bench *b, bool plugged, const cdz_setup *tried,
                                cdz_pipeline **out, cdz_error *err)
{
    const char *id = b->c->ref.base->id;
    cdz_buf ini = {0};
    cdz_buf_puts(&ini, "[pipeline]\ndrafting = fixed\n");
    switch (plugged ? b->c->ref.base->kind : 0u) {
    case CDZ_KIND_STRATEGY: cdz_buf_printf(&ini, "strategy = %s\n", id); break;
    case CDZ_KIND_DRAFTER: cdz_buf_printf(&ini, "strategy = assisted\ndrafter = %s\n", id); break;
    case CDZ_KIND_OBSERVER: cdz_buf_printf(&ini, "observers = %s\n", id); break;
    default: cdz_buf_puts(&ini, "strategy = auto\n");
    }
    if (b->processor) cdz_buf_printf(&ini, "processors = %s\n", b->processor);
    if (plugged) put_settings(b->c, tried, &ini);
    const cdz_status st = ini.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory")
                                     : cdz_pipeline_parse(b->runtime, ini.data, ini.len,
                                                          "the kit's pipeline", out, err);
    cdz_buf_free(&ini);
    return st;
}

cdz_status cdz_bench_pipeline(const cdz_bench *b, const cdz_setup *tried, cdz_pipeline **out,
                              cdz_error *err)
{
    return make_pipeline(b, true, tried, out, err);
}

/* --- requests -------------------------------------------------------------------------------------------------- */

/* As much of it as fits the model with what is to come. */
static uint32_t prompt_len_of(const cdz_bench *b, const cdz_order *order)
{
    const uint32_t context = cdz_model_context(b->model);
    const uint32_t len = order->prompt_len ? order->prompt_len : CDZ_BENCH_PROMPT;
    if (context == 0 || len + order->max_new < context) return len;
    return order->max_new + 1 < context ? context - order->max_new - 1 : 1;
}

static void put_prompts(const cdz_bench *b, const cdz_order *order, cdz_buf *out)
{
    const uint32_t n_vocab = cdz_model_vocab_size(b->model);
    const uint32_t few = n_vocab > 305 && !order->wide ? 300 : n_vocab - 5;
    const uint32_t len = prompt_len_of(b, order);
    for (uint32_t p = 0; p < order->n_prompts; p++) {
        uint64_t random = 1000 + order->prompt + 7919 * p; /* a row is the same alone */
        cdz_buf_puts(out, p ? ", [" : "[");
        for (uint32_t i = 0; i < len; i++)
            cdz_buf_printf(out, "%s%u", i ? ", " : "",
                           order->wide && i % 8 == 5 ? n_vocab - 1
                                                     : 5 + cdz_random_below(&random, few));
        cdz_buf_putc(out, ']');
    }
}

/* Without an end-of-sequence token unless asked for, so that a request is as long as it was asked to be. */
static cdz_status put_request(const cdz_bench *b, const cdz_order *order, cdz_buf *out)
{
    if (order->text.at) {
        cdz_buf_puts(out, "{\"prompt\": ");
        cdz_json_write_string(out, order->text.at, order->text.len);
    } else {
        cdz_buf_puts(out, "{\"prompt_ids\": [");
        put_prompts(b, order, out);
        cdz_buf_putc(out, ']');
    }
    cdz_buf_printf(out, ", \"seed\": %" PRIu64 ", \"kwargs\": {\"max_new_tokens\": %u, ",
                   order->seed, order->max_new);
    if (order->eos > 0)
        cdz_buf_printf(out, "\"eos_token_id\": %d, ", (int)order->eos);
    else if (!order->ends)
        cdz_buf_puts(out, "\"eos_token_id\": null, ");
    cdz_buf_printf(out, "\"pad_token_id\": 0%s%s}}",
                   order->sampling ? ", \"do_sample\": true, \"temperature\": 1.5"
                   : b->c->ref.base->kind == CDZ_KIND_STRATEGY ? ""
                                                               : ", \"do_sample\": false",
                   b->kwargs);
    return out->failed ? CDZ_E_NOMEM : CDZ_OK;
}

/* Any tool has an answer, and the same one to the same question: nothing, the question, a long text, or that it failed. */
static cdz_status answer_tool(void *unused, const cdz_tool_question *call, cdz_error *err)
{
    static const char *const said[] = {"", "42", "no { \"such\": \"city\" }\n"};
    const uint32_t kind = call->text.len % 5;
    (void)unused;
    if (kind == 4) return cdz_err(err, CDZ_E_IO, "tool %s: it has failed", call->name);
    if (kind < 3) return cdz_tool_reply(call, said[kind], strlen(said[kind]));
    for (uint32_t i = 0; i < 20; i++) CDZ_TRY(cdz_tool_reply(call, call->text.at, call->text.len));
    return CDZ_OK;
}

cdz_status cdz_bench_submit(const cdz_bench *b, cdz_pipeline *pipeline, const cdz_order *order,
                            uint64_t *id, cdz_error *err)
{
    cdz_buf json = {0};
    const uint32_t n = b->c->options->n_with;
    cdz_model *named[CDZ_BENCH_WITH];
    for (uint32_t i = 0; i < n; i++) named[i] = b->stand_in ? b->stand_in : b->others[i];
    cdz_status st = put_request(b, order, &json);
    const cdz_request request = {.size = sizeof request,
                                 .model = b->model,
                                 .model_names = b->other_names,
                                 .models = named,
                                 .n_models = n,
                                 .pipeline = pipeline,
                                 .json = json.data,
                                 .assistant = b->assistant,
                                 .timeout_s = b->timeout_s,
                                 .on_tool = answer_tool,
                                 .poll = true};
    if (st == CDZ_OK) st = cdz_submit(b->runtime, &request, id, err);
    cdz_buf_free(&json);
    return st;
}

cdz_status cdz_bench_run(const cdz_bench *b, cdz_pipeline *pipeline, const cdz_order *order,
                         cdz_result **out, cdz_error *err)
{
    uint64_t id;
    *out = NULL;
    CDZ_TRY(cdz_bench_submit(b, pipeline, order, &id, err));
    const cdz_status st = cdz_wait(b->runtime, id, out, err);
    if (st != CDZ_OK) {
        cdz_result_free(*out);
        *out = NULL;
    }
    return st;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* Those of --with. */
static cdz_status open_others(cdz_bench *b, cdz_error *err)
{
    const cdz_check_options *o = b->c->options;
    if (o->n_with > CDZ_BENCH_WITH)
        return cdz_err(err, CDZ_E_LIMIT, "%u further models; the kit takes %d", o->n_with,
                       CDZ_BENCH_WITH);
    b->other_names = cdz_arena_array(&b->c->memory, o->n_with + 1u, sizeof *b->other_names);
    b->others = cdz_arena_array(&b->c->memory, o->n_with + 1u, sizeof(cdz_model *));
    if (!b->other_names || !b->others) return cdz_err_memory(err, "further models");
    for (uint32_t i = 0; i < o->n_with; i++) {
        const char *equals = strchr(o->with[i], '=');
        b->other_names[i] =
            cdz_arena_strndup(&b->c->memory, o->with[i], (size_t)(equals - o->with[i]));
        if (!b->other_names[i]) return cdz_err_memory(err, "further models");
        CDZ_TRY(cdz_model_open(b->runtime, equals + 1, NULL, &b->others[i], err));
    }
    return CDZ_OK;
}

static cdz_status open_runtime(cdz_bench *b, cdz_error *err)
{
    const cdz_check_options *o = b->c->options;
    const char **plugins = cdz_arena_array(&b->c->memory, o->n_plugins + 1u, sizeof *plugins);
    if (!plugins) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    uint32_t n = 0;
    if (o->is_path) plugins[n++] = o->what;
    for (uint32_t i = 0; i < o->n_plugins; i++) plugins[n++] = o->plugins[i];
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = 2,
                                 .kv_bytes = KV_BYTES,
                                 .plugins = plugins,
                                 .n_plugins = n,
                                 .plugin_dir = o->registry.builtin_dir,
                                 .safe_mode = o->registry.safe_mode};
    CDZ_TRY(cdz_open(&options, &b->runtime, err));
    CDZ_TRY(cdz_model_open(b->runtime, o->model, NULL, &b->model, err));
    if (o->assistant) CDZ_TRY(cdz_model_open(b->runtime, o->assistant, NULL, &b->assistant, err));
    CDZ_TRY(open_others(b, err));
    CDZ_TRY(make_pipeline(b, true, NULL, &b->with, err));
    return make_pipeline(b, false, NULL, &b->without, err);
}

/* Whether a short request is answered with the i-th of the needs. */
static bool answers(cdz_bench *b, size_t i, cdz_error *err)
{
    const cdz_order order = {.n_prompts = 1, .max_new = 3, .seed = 1};
    cdz_result *result = NULL;
    b->kwargs = needs[i];
    cdz_check_note(b->c, "a request of 3 tokens%s", needs[i]);
    if (cdz_bench_run(b, b->with, &order, &result, err) != CDZ_OK) return false;
    cdz_result_free(result);
    return true;
}

/* Parameters of its own that it may not go without, at random. */
static bool answers_with_parameters(cdz_bench *b)
{
    uint64_t random = b->c->options->seed;
    for (int i = 0; i < PARAMETER_TRIES && b->c->ref.base->n_params > 0; i++) {
        const cdz_setup *setup = cdz_setup_random(b->c, &random, 1000, CDZ_MILD, NULL);
        cdz_pipeline *pipeline;
        if (!setup || make_pipeline(b, true, setup, &pipeline, NULL) != CDZ_OK) continue;
        cdz_pipeline_free(b->with);
        b->with = pipeline;
        if (answers(b, 0, NULL)) return true;
    }
    return false;
}

/* The first of the needs with which it answers; else the sentence of the plain request. */
cdz_status cdz_bench_needs(cdz_bench *b, cdz_error *err)
{
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (answers(b, i, i ? NULL : err)) return CDZ_OK;
    return b->c->options->n_set == 0 && answers_with_parameters(b) ? CDZ_OK : err->code;
}

cdz_check_state cdz_bench_start(cdz_child *c, cdz_bench *b)
{
    cdz_error err = {0};
    *b = (cdz_bench){.c = c, .kwargs = ""};
    if (!c->options->model)
        return cdz_skip_check(c, "there is no model to run it on; give one with --model");
    cdz_check_note(c, "opening the model");
    if (open_runtime(b, &err) != CDZ_OK) return cdz_fail_check(c, "%s", err.text);
    return CDZ_CHECK_OK;
}

cdz_check_state cdz_bench_open(cdz_child *c, cdz_bench *b)
{
    cdz_error err = {0};
    CDZ_CHECK_TRY(cdz_bench_start(c, b));
    if (cdz_bench_needs(b, &err) == CDZ_OK) return CDZ_CHECK_OK;
    return cdz_fail_check(c, "a request of 3 tokens: %s", err.text);
}

void cdz_bench_close(cdz_bench *b)
{
    cdz_check_note(b->c, "closing the runtime");
    cdz_pipeline_free(b->with);
    cdz_pipeline_free(b->without);
    cdz_model_close(b->model);
    cdz_model_close(b->assistant);
    for (uint32_t i = 0; b->others && i < b->c->options->n_with; i++) cdz_model_close(b->others[i]);
    cdz_close(b->runtime);
    *b = (cdz_bench){.c = b->c};
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* New tokens of a row that the loop put in (cdz_insert): lengths need not count them. */
static uint32_t count_put_in(const cdz_result *result, uint32_t row)
{
    uint32_t n_spans, n = 0;
    const cdz_span *spans = cdz_result_spans(result, row, &n_spans);
    for (uint32_t i = 0; i < n_spans; i++) n += spans[i].to - spans[i].from;
    return n;
}

cdz_check_state cdz_bench_judge(const cdz_bench *b, const cdz_result *result, const cdz_order *order)
{
    const uint32_t n_vocab = cdz_model_vocab_size(b->model);
    if (cdz_result_rows(result) != order->n_prompts)
        return cdz_fail_check(b->c, "%u prompts were answered with %u rows", order->n_prompts,
                              cdz_result_rows(result));
    for (uint32_t r = 0; r < order->n_prompts; r++) {
        uint32_t n;
        const int32_t *ids = cdz_result_ids(result, r, &n);
        if (n > order->max_new + count_put_in(result, r))
            return cdz_fail_check(b->c, "row %u has %u new tokens; max_new_tokens is %u",
                                  cdz_nth_row(r), n, order->max_new);
        if (n == 0) return cdz_fail_check(b->c, "row %u has no new token", cdz_nth_row(r));
        for (uint32_t i = 0; i < n; i++)
            if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
                return cdz_fail_check(b->c,
                                      "row %u: new token %u is %d, outside the vocabulary of %u",
                                      cdz_nth_row(r), i, (int)ids[i], n_vocab);
    }
    return CDZ_CHECK_OK;
}

bool cdz_bench_same(const cdz_result *a, const cdz_result *b, char *what, size_t bytes)
{
    for (uint32_t r = 0; r < cdz_result_rows(a); r++) {
        uint32_t n, m, at = 0;
        const int32_t *x = cdz_result_ids(a, r, &n), *y = cdz_result_ids(b, r, &m);
        while (at < n && at < m && x[at] == y[at]) at++;
        if (at == n && at == m) continue;
        snprintf(what, bytes, "row %u differs from new token %u on (%d, not %d; %u tokens, not %u)",
                 cdz_nth_row(r), at, at < n ? (int)x[at] : -1, at < m ? (int)y[at] : -1, n, m);
        return false;
    }
    return true;
}
