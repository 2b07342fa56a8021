/* test_function_model.c - a model whose passes are the program's: strategies give over it what they give over the model that it
 * asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/buf.h"
#include "support/must.h"
#include "support/opened.h"

/* The model behind the function, in an engine of its own: the function may wait for that one. */
typedef struct world {
    cdz_runtime *rt, *behind;
    cdz_model *model, *asked, *plain;
    uint32_t n_calls, most_rows, fail_at;
} world;

static void logits_of(const world *w, const cdz_function_row *row)
{
    cdz_buf json = {0};
    cdz_error err = {0};
    cdz_result *result;
    cdz_buf_printf(&json, "{\"mode\": \"logits\", \"prompt_ids\": [[");
    for (uint32_t i = 0; i < row->n_ids; i++)
        cdz_buf_printf(&json, "%s%d", i ? "," : "", row->ids[i]);
    cdz_buf_printf(&json, "]]}");
    const cdz_request request = {.size = sizeof request, .model = w->asked, .json = json.data};
    must(cdz_generate(w->behind, &request, &result, &err), &err);
    const size_t n = cdz_model_vocab_size(w->asked);
    for (uint32_t i = 0; i < row->n_scores; i++)
        memcpy(row->scores[i], result->outcome->prompt_logits + (row->n_ids - row->n_scores + i) * n,
               n * sizeof(float));
    cdz_result_free(result);
    cdz_buf_free(&json);
}

static cdz_status forward(void *user, const cdz_function_row *rows, uint32_t n, cdz_error *err)
{
    world *w = user;
    w->n_calls++;
    if (n > w->most_rows) w->most_rows = n;
    if (w->n_calls == w->fail_at) {
        snprintf(err->text, sizeof err->text, "the weather is bad");
        return CDZ_E_IO;
    }
    for (uint32_t r = 0; r < n; r++) logits_of(w, &rows[r]);
    return CDZ_OK;
}

static const char folder[] = CADENZA_TEST_DATA "/golden/llama_gqa";

static void open_world(world *w)
{
    cdz_error err = {0};
    *w = (world){0};
    w->rt = opened_runtime(NULL);
    w->behind = opened_runtime(NULL);
    w->asked = opened_model(w->behind, folder);
    w->plain = opened_model(w->rt, folder);
    const cdz_function_model function = {.size = sizeof function,
                                         .n_vocab = cdz_model_vocab_size(w->asked),
                                         .context = cdz_model_context(w->asked),
                                         .forward = forward,
                                         .user = w,
                                         .generation_config = "{\"eos_token_id\": 2}"};
    must(cdz_model_of_function(w->rt, &function, &w->model, &err), &err);
}

static void close_world(world *w)
{
    cdz_model_close(w->model);
    cdz_model_close(w->plain);
    cdz_model_close(w->asked);
    cdz_close(w->rt);
    cdz_close(w->behind);
}

static cdz_status generate(const world *w, cdz_model *model, const char *json, cdz_result **out,
                           cdz_error *err)
{
    const cdz_request request = {.size = sizeof request, .model = model, .json = json};
    return cdz_generate(w->rt, &request, out, err);
}

/* Prompts of one length, of several, with holes; every kind of loop. */
static const char *const requests[] = {
    "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"max_new_tokens\": 9, \"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[5, 6, 7], [9, 8, 7]], \"kwargs\": {\"max_new_tokens\": 6, "
    "\"repetition_penalty\": 1.3, \"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[0, 0, 5, 6, 7], [1, 2, 9, 8, 7]], \"attention_mask\": [[0, 0, 1, 1, 1], "
    "[1, 1, 1, 1, 1]], \"kwargs\": {\"max_new_tokens\": 5, \"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[5, 6, 7]], \"seed\": 3, \"kwargs\": {\"do_sample\": true, \"temperature\": "
    "1.4, \"max_new_tokens\": 8, \"num_return_sequences\": 3, \"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"num_beams\": 4, \"num_return_sequences\": 2, "
    "\"max_new_tokens\": 7, \"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[5, 6, 7, 5, 6, 7, 5, 6]], \"kwargs\": {\"prompt_lookup_num_tokens\": 3, "
    "\"max_new_tokens\": 9, \"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"guidance_scale\": 1.5, \"max_new_tokens\": 4, "
    "\"eos_token_id\": 2}}",
    "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"prefill_chunk_size\": 2, \"max_new_tokens\": 4, "
    "\"eos_token_id\": 2}}",
};

static void compare(const cdz_result *one, const cdz_result *other)
{
    assert_int_equal(cdz_result_rows(one), cdz_result_rows(other));
    for (uint32_t r = 0; r < cdz_result_rows(one); r++) {
        uint32_t n, m;
        const int32_t *a = cdz_result_sequence(one, r, &n), *b = cdz_result_sequence(other, r, &m);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n * sizeof *a);
    }
}

static void answers_are_those_of_the_model_behind(void **state)
{
    world w;
    (void)state;
    open_world(&w);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        cdz_error err = {0};
        cdz_result *own, *plain;
        must(generate(&w, w.model, requests[i], &own, &err), &err);
        must(generate(&w, w.plain, requests[i], &plain, &err), &err);
        compare(own, plain);
        cdz_result_free(own);
        cdz_result_free(plain);
    }
    assert_true(w.most_rows >= 4); /* beams are asked for in one call */
    close_world(&w);
}

static void it_drafts_for_a_model_and_has_drafts(void **state)
{
    world w;
    cdz_error err = {0};
    cdz_result *own, *plain;
    (void)state;
    open_world(&w);
    cdz_request request = {.size = sizeof request, .json = requests[0]};
    request.model = w.model;
    request.assistant = w.plain;
    must(cdz_generate(w.rt, &request, &own, &err), &err);
    request.model = w.plain;
    request.assistant = w.model;
    must(cdz_generate(w.rt, &request, &plain, &err), &err);
    compare(own, plain);
    cdz_result_free(own);
    cdz_result_free(plain);
    close_world(&w);
}

static void a_kept_cache_is_gone_on_with(void **state)
{
    world w;
    cdz_error err = {0};
    cdz_result *first, *second;
    (void)state;
    open_world(&w);
    cdz_request request = {
        .size = sizeof request, .model = w.model, .json = requests[0], .keep_cache = true};
    must(cdz_generate(w.rt, &request, &first, &err), &err);
    request.past = first;
    must(cdz_generate(w.rt, &request, &second, &err), &err);
    compare(first, second);
    cdz_result_free(second);
    cdz_result_free(first);
    close_world(&w);
}

static void a_failure_ends_who_waits_for_the_pass(void **state)
{
    world w;
    cdz_error err = {0};
    cdz_result *result = NULL;
    (void)state;
    open_world(&w);
    w.fail_at = 3;
    assert_int_equal(generate(&w, w.model, requests[0], &result, &err), CDZ_E_IO);
    assert_non_null(strstr(err.text, "the weather is bad"));
    cdz_result_free(result);
    must(generate(&w, w.model, requests[0], &result, &err), &err);
    cdz_result_free(result);
    close_world(&w);
}

static void what_a_function_has_not_is_refused(void **state)
{
    static const char *const refused[] = {
        ("{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"output_hidden_states\": true, "
         "\"return_dict_in_generate\": true}}"),
        "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"penalty_alpha\": 0.6, \"top_k\": 4}}",
        "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"dola_layers\": \"low\"}}",
        "{\"prompt_ids\": [[5, 6, 7]], \"kwargs\": {\"assistant_early_exit\": 1}}",
    };
    world w;
    (void)state;
    open_world(&w);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cdz_error err = {0};
        cdz_result *result = NULL;
        assert_int_not_equal(generate(&w, w.model, refused[i], &result, &err), CDZ_OK);
        assert_non_null(err.text[0] ? err.text : NULL);
        cdz_result_free(result);
    }
    cdz_error err = {0};
    cdz_model *none;
    assert_int_equal(
        cdz_model_of_function(w.rt, &(cdz_function_model){.size = sizeof(cdz_function_model)},
                              &none, &err),
        CDZ_E_USAGE);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_model_behind),
        cmocka_unit_test(it_drafts_for_a_model_and_has_drafts),
        cmocka_unit_test(a_kept_cache_is_gone_on_with),
        cmocka_unit_test(a_failure_ends_who_waits_for_the_pass),
        cmocka_unit_test(what_a_function_has_not_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
