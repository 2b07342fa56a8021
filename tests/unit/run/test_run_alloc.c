/* test_run_alloc.c - once a request has warmed up, no memory is allocated between two tokens.
 * malloc and its kin are the test's own, counting and handing on to the C library's; skipped where a sanitizer has
 * taken that place already. */
#include "base/environment.h"
#include "support/run_strategies.h"

#include "base/sanitized.h"
#include "cadenza/cadenza.h"

#include <stdatomic.h>

static atomic_ulong n_allocations;

#if defined(__GLIBC__) && !CDZ_WITH_OWN_HEAP
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_calloc(n, bytes);
}
void *realloc(void *old, size_t bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_realloc(old, bytes);
}
#endif

enum { V = 384, PROMPT = 6, WARM = 3, TEXT_WARM = 40, LAST = 300 };
static const int32_t prompt[PROMPT] = {5, 80, 201, 44, 17, 300};

typedef struct meter {
    answer a; /* first */
    unsigned long at_warm, at_last;
} meter;

/* Row 0 speaks once per step. */
static void meter_tokens(void *user, const cdz_new_tokens *tokens)
{
    meter *m = user;
    if (tokens->row != 0) return;
    m->a.n_streamed[0] += tokens->n;
    if (m->a.n_streamed[0] == WARM) m->at_warm = atomic_load(&n_allocations);
    if (m->a.n_streamed[0] == LAST) m->at_last = atomic_load(&n_allocations);
}

/* Needs scratch, as a filter that sorts. */
static cdz_status busy_apply(const cdz_step *step, cdz_scores *scores)
{
    float *copy = cdz_scratch(step, scores->n_vocab * sizeof *copy);
    if (!copy) return (step->host->fail)(step, CDZ_E_NOMEM, "no scratch");
    for (uint32_t r = 0; r < scores->n_rows; r++)
        memcpy(copy, cdz_row(scores, r), scores->n_vocab * sizeof *copy);
    return CDZ_OK;
}
static const cdz_processor busy = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.busy", .version = "1.0.0", .summary = "scratch"},
    .caps = CDZ_ROWWISE,
    .apply = busy_apply,
};

/* Beams that swap all the time, a fork per step, questions about what is not. */
static cdz_status run_restless(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t swapped[] = {1, 0, 1};
    cdz_scores rows;
    while (!cdz_done(dec)) {
        int32_t tokens[3];
        cdz_candidate best[4];
        cdz_stop stops[1];
        static const uint32_t first = 0;
        CDZ_TRY(cdz_forward(dec, &rows));
        CDZ_TRY(cdz_process(dec, &rows));
        CDZ_TRY(cdz_topk_flat(dec, &rows, 0, 3, NULL, 4, best));
        CDZ_TRY(cdz_argmax_rows(dec, &rows, tokens));
        const cdz_ids ask = {tokens, 1};
        CDZ_TRY(cdz_stop_test(dec, &ask, &first, 1, stops));
        CDZ_TRY(cdz_append_rows(dec, tokens));
        CDZ_TRY(cdz_reorder(dec, swapped));
    }
    (void)step;
    return CDZ_OK;
}
STRATEGY(restless, run_restless, 0);

/* A search streams nothing: its steps are seen from within. Row states, spare sequences and scratch take the first
 * steps to grow. */
static struct {
    unsigned long at_warm, at_last;
} search_meter;

static cdz_status metering_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    const uint32_t n = step->input_ids[0].len - step->request->prompt_len;
    if (n == 64) search_meter.at_warm = atomic_load(&n_allocations);
    if (n == LAST) search_meter.at_last = atomic_load(&n_allocations);
    return CDZ_OK;
}
static const cdz_processor metering = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.metering", .version = "1.0.0", .summary = "count"},
    .caps = CDZ_NEEDS_IDS,
    .apply = metering_apply,
};

static void check_steady_search(const cdz_plugin_base *beam)
{
    static const struct {
        cdz_opt_real length_penalty;
        cdz_word early_stopping;
    } params = {{1.0, true, false}, {0, false}};
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2, .kv_bytes = 64 << 20});
    hand_plan plan;
    answer a;
    assert_int_equal(beam->params_size, sizeof params);
    plan_init(&plan, beam, &params);
    cdz_params_defaults(cdz_generation_table(), &plan.plan.generation);
    plan.plan.generation.num_beams = 4;
    plan_add_processor(&plan, &metering, NULL);
    plan_add_processor(&plan, &hash_all, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, LAST + 2, &a)->n_rows = 4;
    run_well(&r, &a);
    assert_true(search_meter.at_warm > 0);
    assert_int_equal(search_meter.at_last - search_meter.at_warm, 0);
    answer_free(&a);
    rig_close(&r);
}

static void check_steady(const cdz_strategy *strategy, uint32_t n_rows, uint32_t n_threads)
{
    rig r =
        rig_open("llama_gqa", (cdz_engine_options){.n_threads = n_threads, .kv_bytes = 64 << 20});
    hand_plan plan;
    meter m = {0};
    plan_init(&plan, &strategy->base, NULL);
    plan_add_processor(&plan, &busy, NULL);
    plan_add_processor(&plan, &hash_all, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    cdz_job *job = new_job(&r, &plan, prompt, NULL, 1, PROMPT, LAST + 2, &m.a);
    job->on_tokens = meter_tokens;
    job->n_rows = n_rows;
    run_well(&r, &m.a);
    assert_true(m.at_warm > 0);
    assert_int_equal(m.at_last - m.at_warm, 0);
    answer_free(&m.a);
    rig_close(&r);
}

static void test_steady_state(void **state)
{
    (void)state;
#if !defined(__GLIBC__) || CDZ_WITH_OWN_HEAP
    skip();
#endif
    const cdz_strategy *greedy = (const void *)built_plugin("greedy");
    const cdz_strategy *sample = (const void *)built_plugin("sample");
    check_steady(greedy, 1, 1);
    check_steady(greedy, 3, 2);
    check_steady(sample, 1, 2);
    check_steady(sample, 100, 2);
    check_steady(&restless, 3, 2);
    check_steady_search(built_plugin("beam"));
}

/* --- from the outside: text is made of the tokens too ---------------------------------------------------------------- */

typedef struct listener {
    uint32_t n_tokens;
    unsigned long at_warm, at_last;
} listener;

static void listen(void *user, const cdz_event *event)
{
    listener *l = user;
    if (event->kind != CDZ_EVENT_TOKENS) return;
    l->n_tokens += event->n_ids;
    if (l->n_tokens == TEXT_WARM) l->at_warm = atomic_load(&n_allocations);
    if (l->n_tokens == LAST) l->at_last = atomic_load(&n_allocations);
}

static const struct {
    const char *name, *kwargs;
    bool profile;
} streams[] = {
    {"greedy", "\"do_sample\": false", false},
    {"the usual processors",
     "\"do_sample\": true, \"top_k\": 50, \"top_p\": 0.9, \"temperature\": 0.8", false},
    {"penalties", "\"do_sample\": true, \"repetition_penalty\": 1.2, \"no_repeat_ngram_size\": 3",
     false},
    {"with times taken", "\"do_sample\": false", true},
};

/* screen: of the head, whose copy is made before the tokens that are watched, or never. */
static void check_streams(const char *screen)
{
    const cdz_model_options how = {.size = sizeof how, .head_screen = screen};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        cdz_runtime *rt;
        cdz_model *model;
        cdz_result *result = NULL;
        cdz_error err = {0};
        listener l = {0};
        char json[512];
        const cdz_options options = {
            .size = sizeof options, .n_threads = 2, .profile = streams[i].profile};
        assert_int_equal(cdz_open(&options, &rt, &err), CDZ_OK);
        assert_int_equal(
            cdz_model_open(rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary", &how, &model, &err),
            CDZ_OK);
        snprintf(
            json, sizeof json,
            "{\"prompt\": \"river (noun): a\", \"seed\": 3, \"kwargs\": {\"max_new_tokens\": %d, "
            "\"eos_token_id\": null, %s}}",
            LAST + 2, streams[i].kwargs);
        const cdz_request request = {
            .size = sizeof request, .model = model, .json = json, .on_event = listen, .user = &l};
        if (cdz_generate(rt, &request, &result, &err) != CDZ_OK) fail_msg("%s", err.text);
        if (l.at_warm == 0 || l.at_last != l.at_warm)
            fail_msg("%s, screen %s: %lu allocations between tokens %d and %d", streams[i].name,
                     screen, l.at_last - l.at_warm, (int)TEXT_WARM, (int)LAST);
        cdz_result_free(result);
        cdz_model_close(model);
        cdz_close(rt);
    }
}

static void test_steady_streams(void **state)
{
    (void)state;
#if !defined(__GLIBC__) || CDZ_WITH_OWN_HEAP
    skip();
#endif
    check_streams("off");
    if (!cdz_env_named("CADENZA_DEVICE")) check_streams("on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steady_state),
                                       cmocka_unit_test(test_steady_streams)};
    return cmocka_run_group_tests_name("run alloc", tests, NULL, NULL);
}
