/* test_ended.c - "cadenza.ended/1": who is shown the rows of a batch that have ended, and what of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "cadenza/criterion.h"
#include "cadenza/ext/ended.h"
#include "cadenza/observer.h"
#include "cadenza/processor.h"
#include "support/must.h"
#include "support/opened.h"

enum { MOST_IDS = 32, MOST_CALLS = 32, MOST_VOCAB = 1024, PAD = 1 };

/* What one plugin saw of a request: how many rows each call was about, and the newest row 0 of all of them. */
typedef struct eye {
    uint32_t n_calls, n_rows[MOST_CALLS];
    uint32_t len, n_vocab;
    int32_t ids[MOST_IDS];
    float row[MOST_VOCAB];
} eye;

static eye processor_all, processor_open, criterion_all, criterion_open, observer_all, observer_open;

static void look(eye *e, const cdz_step *step, const float *row, uint32_t n_vocab)
{
    assert_true(e->n_calls < MOST_CALLS && step->input_ids[0].len < MOST_IDS);
    assert_true(n_vocab <= MOST_VOCAB);
    e->n_rows[e->n_calls++] = step->n_rows;
    if (step->row_index[0] != 0) return;
    e->len = step->input_ids[0].len;
    e->n_vocab = n_vocab;
    memcpy(e->ids, step->input_ids[0].at, e->len * sizeof e->ids[0]);
    if (row) memcpy(e->row, row, n_vocab * sizeof *row);
}

static const void *extension(const char *id)
{
    static const cdz_ended_api ended = {.size = sizeof ended};
    return cdz_is_ended(id) ? &ended : NULL;
}

#define PROCESSOR(name, ...)                                                                       \
    static cdz_status apply_##name(const cdz_step *step, cdz_scores *scores)                       \
    {                                                                                              \
        look(&processor_##name, step, cdz_row(scores, 0), scores->n_vocab);                        \
        return CDZ_OK;                                                                             \
    }                                                                                              \
    static const cdz_processor p_##name = {.base = {CDZ_PROCESSOR_BASE, .id = "test.p-" #name,     \
                                                    .version = "1.0.0", .summary = "Looks",        \
                                                    __VA_ARGS__},                                  \
                                           .caps = CDZ_NEEDS_IDS,                                  \
                                           .apply = apply_##name};
#define CRITERION(name, ...)                                                                       \
    static cdz_status test_##name(const cdz_step *step, cdz_stop *stops)                           \
    {                                                                                              \
        look(&criterion_##name, step, NULL, 0);                                                    \
        (void)stops;                                                                               \
        return CDZ_OK;                                                                             \
    }                                                                                              \
    static const cdz_criterion c_##name = {.base = {CDZ_CRITERION_BASE, .id = "test.c-" #name,     \
                                                    .version = "1.0.0", .summary = "Looks",        \
                                                    __VA_ARGS__},                                  \
                                           .test = test_##name};
#define OBSERVER(name, ...)                                                                        \
    static cdz_status scores_##name(const cdz_step *step, const cdz_seen *seen)                    \
    {                                                                                              \
        look(&observer_##name, step, seen->after[0], seen->n_vocab);                               \
        return CDZ_OK;                                                                             \
    }                                                                                              \
    static const cdz_observer o_##name = {.base = {CDZ_OBSERVER_BASE, .id = "test.o-" #name,       \
                                                   .version = "1.0.0", .summary = "Looks",         \
                                                   __VA_ARGS__},                                   \
                                          .scores = scores_##name};
PROCESSOR(all, .extension = extension)
PROCESSOR(open, .extension = NULL)
CRITERION(all, .extension = extension)
CRITERION(open, .extension = NULL)
OBSERVER(all, .extension = extension)
OBSERVER(open, .extension = NULL)

static cdz_runtime *runtime;
static cdz_model *model;

static int open_model(void **state)
{
    (void)state;
    static const cdz_plugin_base *const plugins[] = {&p_all.base,  &p_open.base, &c_all.base,
                                                     &c_open.base, &o_all.base,  &o_open.base};
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 8u << 20};
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
    return 0;
}

static cdz_result *run(const char *lines, const char *json)
{
    static eye *const eyes[] = {&processor_all,  &processor_open, &criterion_all,
                                &criterion_open, &observer_all,   &observer_open};
    char ini[256];
    cdz_result *result = NULL;
    cdz_error err = {0};
    for (size_t i = 0; i < sizeof eyes / sizeof eyes[0]; i++) *eyes[i] = (eye){0};
    snprintf(ini, sizeof ini, "[pipeline]\n%s", lines);
    cdz_pipeline *pipeline = opened_pipeline(runtime, ini);
    const cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = pipeline, .json = json};
    must(cdz_generate(runtime, &request, &result, &err), &err);
    cdz_pipeline_free(pipeline);
    return result;
}

/* Six new tokens of two prompts; row 0 ends at an earlier one, after n_ended. */
static char json[256];
static uint32_t n_ended;

static void choose_end(void)
{
    static const char greedy[] =
        "{\"prompt_ids\": [[5, 80, 201, 44], [17, 300, 5, 80]], \"kwargs\": "
        "{\"do_sample\": false, \"max_new_tokens\": 6, "
        "\"eos_token_id\": %s, \"pad_token_id\": 1}}";
    char end[16];
    uint32_t n;
    snprintf(json, sizeof json, greedy, "null");
    cdz_result *result = run("", json);
    snprintf(end, sizeof end, "%d", (int)cdz_result_ids(result, 0, &n)[2]);
    cdz_result_free(result);
    snprintf(json, sizeof json, greedy, end);
    result = run("", json);
    (void)cdz_result_ids(result, 0, &n_ended);
    assert_in_range(n_ended, 1, 3);
    (void)cdz_result_ids(result, 1, &n);
    assert_true(n == 6);
    cdz_result_free(result);
}

static void saw(const eye *e, uint32_t n_calls, uint32_t at_last)
{
    assert_int_equal(e->n_calls, n_calls);
    assert_int_equal(e->n_rows[0], 2);
    assert_int_equal(e->n_rows[n_calls - 1], at_last);
}

static void test_who_sees_what(void **state)
{
    (void)state;
    choose_end();
    cdz_result_free(run("processors = test.p-all, test.p-open\nstopping = test.c-all, test.c-open\n"
                        "observers = test.o-all, test.o-open\n",
                        json));
    saw(&processor_all, 6, 2);
    saw(&criterion_all, 6, 2);
    saw(&observer_all, 6, 2);
    saw(&criterion_open, 6, 1);
    saw(&observer_open, 6, 1);
    assert_int_equal(processor_all.ids[processor_all.len - 1], PAD);
    assert_int_equal(criterion_all.len, 4 + 6);
    assert_in_range(criterion_open.len, 4 + 1, 4 + 3); /* not asked once it had ended */
}

/* Nobody asked for scores of ended rows: they are not computed, and who sees rows that run sees those alone. */
static void test_criterion_costs_no_pass(void **state)
{
    (void)state;
    choose_end();
    cdz_result_free(
        run("processors = test.p-open\nstopping = test.c-all\nobservers = test.o-open\n", json));
    saw(&criterion_all, 6, 2);
    saw(&processor_open, 6, 1);
    saw(&observer_open, 6, 1);
}

/* What the model makes of the pads: the bits of a prompt that ends in them. */
static void test_scores_are_computed(void **state)
{
    (void)state;
    choose_end();
    for (int observed = 0; observed < 2; observed++) {
        const char *lines = observed ? "observers = test.o-all\n" : "processors = test.p-all\n";
        const eye *saw_it = observed ? &observer_all : &processor_all;
        char prompt[256];
        cdz_result_free(run(lines, json));
        const eye want = *saw_it;
        int n = snprintf(prompt, sizeof prompt, "{\"prompt_ids\": [[%d", (int)want.ids[0]);
        for (uint32_t i = 1; i < want.len; i++)
            n += snprintf(prompt + n, sizeof prompt - (size_t)n, ", %d", (int)want.ids[i]);
        snprintf(prompt + n, sizeof prompt - (size_t)n,
                 "]], \"attention_mask\": [[1,1,1,1,1,1,1,1,1]], \"kwargs\": {\"do_sample\": false, "
                 "\"max_new_tokens\": 1}}");
        assert_int_equal(want.len, 9);
        cdz_result_free(run(lines, prompt));
        assert_int_equal(saw_it->n_vocab, want.n_vocab);
        assert_memory_equal(saw_it->row, want.row, want.n_vocab * sizeof want.row[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_sees_what),
        cmocka_unit_test(test_criterion_costs_no_pass),
        cmocka_unit_test(test_scores_are_computed),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
