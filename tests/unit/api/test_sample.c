/* test_sample.c - a program's own loop draws what strategy `sample` draws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "support/must.h"
#include "support/opened.h"

static const struct {
    double temperature;
    size_t top_k;
    double top_p;
} settings[] = {{1, 0, 1},     {0.7, 0, 1},     {1.6, 5, 1},
                {1.3, 0, 0.9}, {1.5, 40, 0.95}, {0.01, 50, 0.5}};

/* Every token of an answer from the logits that it was drawn from. */
static void draws_are_those_of_the_strategy(void **state)
{
    cdz_runtime *rt;
    cdz_model *model;
    cdz_error err = {0};
    (void)state;
    rt = opened_runtime(NULL);
    model = opened_model(rt, CADENZA_TEST_DATA "/golden/llama_gqa");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char json[256];
        cdz_result *result;
        cdz_generator *generator;
        uint32_t n;
        snprintf(json, sizeof json,
                 "{\"prompt_ids\": [[5, 6, 7]], \"seed\": %zu, \"kwargs\": {\"do_sample\": true, "
                 "\"max_new_tokens\": 24, \"eos_token_id\": null, \"output_logits\": true, "
                 "\"temperature\": %g, \"top_k\": %zu, \"top_p\": %g}}",
                 i + 3, settings[i].temperature, settings[i].top_k, settings[i].top_p);
        const cdz_request request = {.size = sizeof request, .model = model, .json = json};
        must(cdz_generate(rt, &request, &result, &err), &err);
        must(cdz_generator_open(i + 3, &generator, &err), &err);
        const int32_t *ids = cdz_result_ids(result, 0, &n);
        assert_int_equal(n, 24);
        for (uint32_t step = 0; step < n; step++) {
            int32_t token = -1;
            must(cdz_sample(generator, result->outcome->steps[step].logits,
                            cdz_model_vocab_size(model), settings[i].temperature, settings[i].top_k,
                            settings[i].top_p, &token, &err),
                 &err);
            assert_int_equal(token, ids[step]);
        }
        cdz_generator_free(generator);
        cdz_result_free(result);
    }
    cdz_model_close(model);
    cdz_close(rt);
}

static void edges_end_in_a_token_or_a_sentence(void **state)
{
    cdz_error err = {0};
    cdz_generator *g;
    int32_t token = -1;
    (void)state;
    const float flat[] = {1, 3, 3, -INFINITY}, none[] = {-INFINITY, -INFINITY}, odd[] = {0, NAN};
    must(cdz_sample(NULL, flat, 4, 0, 7, 0.1, &token, &err), &err);
    assert_int_equal(token, 1); /* the first of the greatest */
    must(cdz_generator_open(1, &g, &err), &err);
    for (int i = 0; i < 50; i++) {
        must(cdz_sample(g, flat, 4, 1, 2, 1, &token, &err), &err);
        assert_true(token == 1 || token == 2);
        must(cdz_sample(g, flat, 4, 1, 0, 0, &token, &err), &err); /* one token is left at least */
        assert_true(token == 1 || token == 2);
        must(cdz_sample(g, flat, 4, 5, SIZE_MAX, 1, &token, &err), &err);
        assert_true(token >= 0 && token < 3);
    }
    assert_memory_equal(flat, ((const float[]){1, 3, 3, -INFINITY}), sizeof flat);
    assert_int_equal(cdz_sample(g, none, 2, 1, 0, 1, &token, &err), CDZ_E_INPUT);
    assert_int_equal(cdz_sample(g, odd, 2, 1, 0, 1, &token, &err), CDZ_E_INPUT);
    assert_int_equal(cdz_sample(g, flat, 0, 1, 0, 1, &token, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_sample(g, flat, 4, -1, 0, 1, &token, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_sample(g, flat, 4, NAN, 0, 1, &token, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_sample(g, flat, 4, 1, 0, 1.5, &token, &err), CDZ_E_USAGE);
    assert_int_equal(cdz_sample(NULL, flat, 4, 1, 0, 1, &token, &err), CDZ_E_USAGE);
    cdz_generator_free(g);
    cdz_generator_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_those_of_the_strategy),
        cmocka_unit_test(edges_end_in_a_token_or_a_sentence),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
