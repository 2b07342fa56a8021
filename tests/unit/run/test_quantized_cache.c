/* test_quantized_cache.c - cache_implementation = quantized: what cache_config may say; how far logits are from those of a float32
 * cache; and that an answer hangs on nothing but its request: not on chunks, rows beside it, beams, forks or how it goes back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "support/must.h"
#include "support/opened.h"

enum { N_MODELS = 4, PROMPT = 210 };

static const struct subject {
    const char *folder;
    double slack; /* of the bounds: random weights make large scores, and of a small difference another text */
} subjects[N_MODELS] = {
    {CADENZA_SOURCE_DIR "/models/pocket-dictionary", 0.1},
    {CADENZA_TEST_DATA "/golden/qwen3", 1},
    {CADENZA_TEST_DATA "/golden/gemma2", 1},
    {CADENZA_TEST_DATA "/golden/llama_tied_l3", 2},
};

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *models[N_MODELS];
    cdz_model *odd, *pair;
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_bytes = 64 << 20};
    f->rt = opened_runtime(&options);
    for (size_t i = 0; i < N_MODELS; i++) f->models[i] = opened_model(f->rt, subjects[i].folder);
    f->odd = opened_model(f->rt, CADENZA_TEST_DATA "/golden/llama_gqa");
    f->pair = opened_model(f->rt, CADENZA_TEST_DATA "/golden/t5_relu");
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < N_MODELS; i++) cdz_model_close(f->models[i]);
    cdz_model_close(f->odd);
    cdz_model_close(f->pair);
    cdz_close(f->rt);
    free(f);
    return 0;
}

/* A request for one prompt of n ids; kwargs begin with a comma. */
static char *document(uint32_t n, const char *kwargs)
{
    cdz_buf out = {0};
    cdz_buf_puts(&out, "{\"prompt_ids\": [[");
    for (uint32_t i = 0; i < n; i++)
        cdz_buf_printf(&out, "%s%u", i ? ", " : "", i * i * 31 % 251 + 3);
    cdz_buf_printf(
        &out,
        "]], \"kwargs\": {\"eos_token_id\": null, \"pad_token_id\": null, \"context\": false, "
        "%s\"output_logits\": true%s}}",
        strstr(kwargs, "do_sample") ? "" : "\"do_sample\": false, ", kwargs);
    assert_false(out.failed);
    return out.data;
}

static cdz_status try_run(const fixture *f, cdz_model *model, uint32_t n, const char *kwargs,
                          cdz_result **out, cdz_error *err)
{
    char *json = document(n, kwargs);
    const cdz_request request = {.size = sizeof request, .model = model, .json = json};
    const cdz_status status = cdz_generate(f->rt, &request, out, err);
    free(json);
    return status;
}

static cdz_result *run(const fixture *f, cdz_model *model, uint32_t n, const char *kwargs)
{
    cdz_result *result = NULL;
    cdz_error err = {0};
    must(try_run(f, model, n, kwargs, &result, &err), &err);
    return result;
}

static void same_answers(const cdz_result *a, const cdz_result *b, const char *what)
{
    assert_int_equal(cdz_result_rows(a), cdz_result_rows(b));
    for (uint32_t r = 0; r < cdz_result_rows(a); r++) {
        uint32_t n, m;
        const int32_t *x = cdz_result_sequence(a, r, &n), *y = cdz_result_sequence(b, r, &m);
        if (n != m || memcmp(x, y, n * sizeof *x) != 0) fail_msg("%s: row %u differs", what, r);
    }
}

/* Of row 0. */
static const float *logits_of(const cdz_result *result, uint32_t step, uint32_t *vocab)
{
    const cdz_outcome *outcome = result->outcome;
    assert_true(step < outcome->n_steps);
    *vocab = outcome->n_vocab;
    return outcome->steps[step].logits;
}

/* ---- what cache_config may say ---- */

#define Q         ", \"cache_implementation\": \"quantized\""
#define C(config) Q ", \"cache_config\": {" config "}"

static const struct {
    const char *kwargs;
    const char *says; /* NULL: it runs */
} configs[] = {
    {Q, NULL},
    {C("\"backend\": \"quanto\", \"nbits\": 2, \"axis_key\": 0, \"axis_value\": -1"), NULL},
    {C("\"backend\": \"hqq\", \"nbits\": 8, \"axis_key\": 1, \"axis_value\": 0"), NULL},
    {C("\"backend\": \"hqq\", \"nbits\": 3, \"q_group_size\": 32, \"residual_length\": 0"), NULL},
    {C("\"q_group_size\": 8, \"axis_key\": -1"), NULL},
    {", \"cache_config\": {\"nbits\": 4}", NULL},
    {C("\"nbits\": 8"), "nbits = 8: the backend quanto takes 2, 4"},
    {C("\"nbits\": 5, \"backend\": \"hqq\""), "nbits = 5: the backend hqq takes 1, 2, 3, 4, 8"},
    {C("\"nbits\": 2.5"), "nbits must be a whole number"},
    {C("\"axis_key\": 1"), "axis_key = 1: the backend quanto takes 0, -1"},
    {C("\"axis_value\": -1, \"backend\": \"hqq\""), "axis_value = -1: the backend hqq takes 0, 1"},
    {C("\"backend\": \"gptq\""), "backend must be quanto or hqq"},
    {C("\"nbit\": 4"), "'nbit' is no setting of a quantised cache: did you mean 'nbits'?"},
    {C("\"residual_length\": -1"), "residual_length = -1: must be 0 to 1048576"},
    {C("\"q_group_size\": 0"), "q_group_size = 0: must be 8 to 65536"},
    {C("\"q_group_size\": 48"), "groups of 48 do not go into this model's heads of 32"},
    {C("\"q_group_size\": 20, \"axis_key\": -1"), "groups of 20 do not go"},
    {Q ", \"cache_config\": [4]", "cache_config: must be"},
};

static void each_config_runs_or_is_refused(void **state)
{
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char kwargs[512];
        cdz_result *result = NULL;
        cdz_error err = {0};
        snprintf(kwargs, sizeof kwargs, "%s, \"max_new_tokens\": 2", configs[i].kwargs);
        const cdz_status status = try_run(f, f->models[0], 200, kwargs, &result, &err);
        if ((status == CDZ_OK) != !configs[i].says ||
            (configs[i].says && !strstr(err.text, configs[i].says)))
            fail_msg("%s: got %d %s", configs[i].kwargs, (int)status, err.text);
        cdz_result_free(result);
    }
}

static void models_that_cannot_are_refused(void **state)
{
    const fixture *f = *state;
    cdz_result *result = NULL;
    cdz_error err = {0};
    assert_int_equal(try_run(f, f->odd, 9, Q, &result, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "heads of 12 numbers"));
    const cdz_request request = {
        .size = sizeof request,
        .model = f->pair,
        .json = "{\"prompt_ids\": [[5, 6]], \"kwargs\": {\"cache_implementation\": \"quantized\"}}"};
    assert_int_equal(cdz_generate(f->rt, &request, &result, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "its cache cannot be quantised"));
}

static void a_cache_of_halves_is_refused(void **state)
{
    (void)state;
    fixture f = {0};
    cdz_model *model;
    cdz_result *result = NULL;
    cdz_error err = {0};
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_cache = "f16"};
    f.rt = opened_runtime(&options);
    model = opened_model(f.rt, subjects[1].folder);
    assert_int_equal(try_run(&f, model, 9, Q, &result, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "KV caches are in F16"));
    cdz_model_close(model);
    cdz_close(f.rt);
}

/* ---- how far logits are ---- */

typedef struct distance {
    double most, mean, spread; /* of logits, and how far a row's lie apart */
} distance;

/* Over the steps at which both have the same history. */
static distance between(const cdz_result *a, const cdz_result *b)
{
    distance d = {0};
    uint64_t n = 0;
    uint32_t len, other, vocab;
    const int32_t *x = cdz_result_sequence(a, 0, &len), *y = cdz_result_sequence(b, 0, &other);
    for (uint32_t step = 0; PROMPT + step < len; step++) {
        const float *p = logits_of(a, step, &vocab), *q = logits_of(b, step, &vocab);
        double low = INFINITY, high = -INFINITY;
        for (uint32_t v = 0; v < vocab; v++, n++) {
            const double off = fabs((double)p[v] - (double)q[v]);
            d.most = fmax(d.most, off);
            d.mean += off;
            low = fmin(low, (double)p[v]);
            high = fmax(high, (double)p[v]);
        }
        d.spread = fmax(d.spread, high - low);
        if (x[PROMPT + step] != y[PROMPT + step]) break;
    }
    d.mean /= (double)n;
    return d;
}

/* Shares of the spread of a row's logits; measured ones are in docs/quantisation.md. */
static const struct {
    const char *name, *kwargs;
    double most, mean;
} bounds[] = {
    {"quanto 2", C("\"nbits\": 2, \"residual_length\": 32"), 0.5, 0.1},
    {"quanto 4", C("\"nbits\": 4, \"residual_length\": 32"), 0.2, 0.03},
    {"quanto 4, across", C("\"axis_key\": -1, \"axis_value\": -1, \"residual_length\": 32"), 0.2,
     0.03},
    {"hqq 2", C("\"backend\": \"hqq\", \"nbits\": 2, \"residual_length\": 32"), 0.5, 0.1},
    {"hqq 4", C("\"backend\": \"hqq\", \"nbits\": 4, \"residual_length\": 32"), 0.2, 0.03},
    {"hqq 8", C("\"backend\": \"hqq\", \"nbits\": 8, \"residual_length\": 32"), 0.012, 0.002},
};

static void logits_are_near_those_of_float32(void **state)
{
    const fixture *f = *state;
    for (size_t m = 0; m < N_MODELS; m++) {
        cdz_result *plain = run(f, f->models[m], PROMPT, ", \"max_new_tokens\": 12");
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
            char kwargs[256];
            snprintf(kwargs, sizeof kwargs, "%s, \"max_new_tokens\": 12", bounds[i].kwargs);
            cdz_result *packed = run(f, f->models[m], PROMPT, kwargs);
            const distance d = between(plain, packed);
            print_message("%s, %s: at most %.4g, mean %.4g, of %.4g\n", subjects[m].folder,
                          bounds[i].name, d.most, d.mean, d.spread);
            assert_true(d.most > 0);
            assert_true(d.most <= subjects[m].slack * bounds[i].most * d.spread);
            assert_true(d.mean <= subjects[m].slack * bounds[i].mean * d.spread);
            cdz_result_free(packed);
        }
        cdz_result_free(plain);
    }
}

/* What is within the newest positions is as it was. */
static void a_short_text_is_exact(void **state)
{
    const fixture *f = *state;
    cdz_result *plain = run(f, f->models[1], 100, ", \"max_new_tokens\": 20"),
               *packed = run(f, f->models[1], 100, Q ", \"max_new_tokens\": 20");
    uint32_t vocab;
    same_answers(plain, packed, "short");
    for (uint32_t step = 0; step < 20; step++) {
        const float *p = logits_of(plain, step, &vocab), *q = logits_of(packed, step, &vocab);
        assert_memory_equal(p, q, vocab * sizeof *p);
    }
    cdz_result_free(plain);
    cdz_result_free(packed);
}

/* ---- an answer hangs on its request alone ---- */

#define SMALL C("\"nbits\": 2, \"residual_length\": 40") ", \"max_new_tokens\": 40"

static void same_logits(const cdz_result *a, const cdz_result *b, const char *what)
{
    uint32_t vocab, n;
    same_answers(a, b, what);
    cdz_result_sequence(a, 0, &n);
    for (uint32_t step = 0; PROMPT + step < n; step++) {
        const float *p = logits_of(a, step, &vocab), *q = logits_of(b, step, &vocab);
        if (memcmp(p, q, vocab * sizeof *p) != 0) fail_msg("%s: logits of step %u", what, step);
    }
}

static void chunks_change_nothing(void **state)
{
    static const char *const chunks[] = {"1", "7", "32", "33", "300"};
    const fixture *f = *state;
    for (size_t m = 0; m < N_MODELS; m++) {
        cdz_result *whole = run(f, f->models[m], PROMPT, SMALL);
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            char kwargs[256];
            snprintf(kwargs, sizeof kwargs, "%s, \"prefill_chunk_size\": %s", SMALL, chunks[i]);
            cdz_result *again = run(f, f->models[m], PROMPT, kwargs);
            same_logits(whole, again, chunks[i]);
            cdz_result_free(again);
        }
        cdz_result_free(whole);
    }
}

/* A text read anew, as the second half of one that was generated, has the same logits. */
static void a_fresh_reading_has_the_same_bits(void **state)
{
    const fixture *f = *state;
    cdz_error err = {0};
    cdz_result *whole = run(f, f->models[0], PROMPT, SMALL);
    uint32_t n, vocab;
    const int32_t *ids = cdz_result_sequence(whole, 0, &n);
    cdz_buf json = {0};
    cdz_buf_puts(&json, "{\"prompt_ids\": [[");
    for (uint32_t i = 0; i + 10 < n; i++) cdz_buf_printf(&json, "%s%d", i ? ", " : "", ids[i]);
    cdz_buf_printf(&json,
                   "]], \"kwargs\": {\"eos_token_id\": null, \"pad_token_id\": null, \"context\": "
                   "false, \"do_sample\": false, \"output_logits\": true" C(
                       "\"nbits\": 2, \"residual_length\": 40") ", \"max_new_tokens\": 10}}");
    const cdz_request request = {.size = sizeof request, .model = f->models[0], .json = json.data};
    cdz_result *fresh = NULL;
    must(cdz_generate(f->rt, &request, &fresh, &err), &err);
    same_answers(whole, fresh, "read anew");
    for (uint32_t step = 0; step < 10; step++) {
        const float *p = logits_of(whole, 30 + step, &vocab), *q = logits_of(fresh, step, &vocab);
        assert_memory_equal(p, q, vocab * sizeof *p);
    }
    cdz_buf_free(&json);
    cdz_result_free(whole);
    cdz_result_free(fresh);
}

/* Rows of one prompt share what is packed until they part; each is what it is alone. */
static void rows_and_beams(void **state)
{
    const fixture *f = *state;
    cdz_result *one = run(f, f->models[0], PROMPT, SMALL);
    cdz_result *beams = run(f, f->models[0], PROMPT,
                            SMALL ", \"num_beams\": 4, \"num_return_sequences\": 4"),
               *again = run(f, f->models[0], PROMPT,
                            SMALL ", \"num_beams\": 4, \"num_return_sequences\": 4, "
                                  "\"prefill_chunk_size\": 50");
    same_answers(beams, again, "beams");
    cdz_result *rows = run(f, f->models[0], PROMPT,
                           SMALL ", \"do_sample\": true, \"top_k\": 1, \"num_return_sequences\": 3");
    for (uint32_t r = 0; r < 3; r++) {
        uint32_t n, m;
        const int32_t *x = cdz_result_sequence(one, 0, &n), *y = cdz_result_sequence(rows, r, &m);
        assert_int_equal(n, m);
        assert_memory_equal(x, y, n * sizeof *x);
    }
    cdz_result_free(one);
    cdz_result_free(beams);
    cdz_result_free(again);
    cdz_result_free(rows);
}

/* A sequence that reads ahead and goes back, by little and by more than its newest positions, is the row's again. */
static void going_back_changes_nothing(void **state)
{
    static const char ini[] =
        "[pipeline]\nstrategy = lua:" CADENZA_TEST_DATA "/whole/composition/goes_back.lua\n";
    const fixture *f = *state;
    cdz_error err = {0};
    cdz_pipeline *pipeline = opened_pipeline(f->rt, ini);
    for (size_t m = 0; m < N_MODELS; m++) {
        char *json = document(PROMPT, SMALL);
        const cdz_request request = {
            .size = sizeof request, .model = f->models[m], .pipeline = pipeline, .json = json};
        cdz_result *whole = run(f, f->models[m], PROMPT, SMALL), *back = NULL;
        must(cdz_generate(f->rt, &request, &back, &err), &err);
        same_answers(whole, back, subjects[m].folder);
        cdz_result_free(whole);
        cdz_result_free(back);
        free(json);
    }
    cdz_pipeline_free(pipeline);
}

/* Nothing that is packed is kept, and a prompt begins with nothing that was kept: the answers are those without. */
static void kept_states_are_left_alone(void **state)
{
    const fixture *f = *state;
    cdz_error err = {0};
    char *packed = document(PROMPT, SMALL), *plain = document(PROMPT, ", \"max_new_tokens\": 40");
    const char *const first[] = {packed, plain, packed}, *const then[] = {plain, packed, packed};
    for (size_t i = 0; i < 3; i++) {
        cdz_request request = {
            .size = sizeof request, .model = f->models[0], .json = first[i], .keep_cache = true};
        cdz_result *past = NULL, *with = NULL, *without = NULL;
        must(cdz_generate(f->rt, &request, &past, &err), &err);
        request.json = then[i];
        request.keep_cache = false;
        must(cdz_generate(f->rt, &request, &without, &err), &err);
        request.past = past;
        must(cdz_generate(f->rt, &request, &with, &err), &err);
        same_logits(without, with, "after another");
        cdz_result_free(past);
        cdz_result_free(with);
        cdz_result_free(without);
    }
    free(packed);
    free(plain);
}

/* Drafts, and trials of contrastive search, have a cache as it is: the answer of one, and a warning. */
static void drafts_have_it_whole(void **state)
{
    static const char *const others[] = {", \"prompt_lookup_num_tokens\": 3",
                                         ", \"penalty_alpha\": 0.6, \"top_k\": 4"};
    const fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        char kwargs[512];
        snprintf(kwargs, sizeof kwargs, ", \"max_new_tokens\": 40%s", others[i]);
        cdz_result *plain = run(f, f->models[0], PROMPT, kwargs);
        snprintf(kwargs, sizeof kwargs, "%s%s", SMALL, others[i]);
        cdz_result *packed = run(f, f->models[0], PROMPT, kwargs);
        same_answers(plain, packed, others[i]);
        assert_non_null(strstr(cdz_result_json(packed), "use a dynamic cache instead"));
        cdz_result_free(plain);
        cdz_result_free(packed);
    }
}

/* Requests of several kinds at once, again and again. */
static void company_changes_nothing(void **state)
{
    static const char *const kinds[] = {
        SMALL,
        ", \"max_new_tokens\": 40",
        C("\"backend\": \"hqq\", \"nbits\": 4, \"residual_length\": 40") ", \"max_new_tokens\": 40",
    };
    enum { KINDS = sizeof kinds / sizeof *kinds, ALL = 2 * KINDS };
    const fixture *f = *state;
    cdz_result *alone[KINDS];
    uint64_t ids[ALL];
    char *json[ALL];
    cdz_error err = {0};
    for (size_t i = 0; i < KINDS; i++) alone[i] = run(f, f->models[0], PROMPT, kinds[i]);
    for (size_t i = 0; i < ALL; i++) {
        json[i] = document(PROMPT, kinds[i % KINDS]);
        const cdz_request request = {.size = sizeof request, .model = f->models[0], .json = json[i]};
        must(cdz_submit(f->rt, &request, &ids[i], &err), &err);
    }
    for (size_t i = 0; i < ALL; i++) {
        cdz_result *result = NULL;
        must(cdz_wait(f->rt, ids[i], &result, &err), &err);
        same_logits(alone[i % KINDS], result, kinds[i % KINDS]);
        cdz_result_free(result);
        free(json[i]);
    }
    for (size_t i = 0; i < KINDS; i++) cdz_result_free(alone[i]);
}

/* ---- memory ---- */

/* What a float32 cache has no room for fits quantised. */
static void it_takes_less_memory(void **state)
{
    (void)state;
    fixture f = {0};
    cdz_model *model;
    cdz_result *result = NULL;
    cdz_error err = {0};
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 256 << 10};
    f.rt = opened_runtime(&options);
    model = opened_model(f.rt, subjects[3].folder);
    uint32_t n = 256;
    while (try_run(&f, model, n, ", \"max_new_tokens\": 1", &result, &err) == CDZ_OK) {
        cdz_result_free(result);
        result = NULL;
        n += 64;
    }
    assert_non_null(strstr(err.text, "more KV memory"));
    must(try_run(&f, model, n, Q ", \"max_new_tokens\": 1", &result, &err), &err);
    cdz_result_free(result);
    cdz_model_close(model);
    cdz_close(f.rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_config_runs_or_is_refused),
        cmocka_unit_test(models_that_cannot_are_refused),
        cmocka_unit_test(a_cache_of_halves_is_refused),
        cmocka_unit_test(logits_are_near_those_of_float32),
        cmocka_unit_test(a_short_text_is_exact),
        cmocka_unit_test(chunks_change_nothing),
        cmocka_unit_test(a_fresh_reading_has_the_same_bits),
        cmocka_unit_test(rows_and_beams),
        cmocka_unit_test(going_back_changes_nothing),
        cmocka_unit_test(kept_states_are_left_alone),
        cmocka_unit_test(drafts_have_it_whole),
        cmocka_unit_test(company_changes_nothing),
        cmocka_unit_test(it_takes_less_memory),
    };
    return cmocka_run_group_tests_name("quantized cache", tests, open_all, close_all);
}
