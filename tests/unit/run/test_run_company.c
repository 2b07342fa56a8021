/* test_run_company.c - the answer does not depend on the company: the same bits alone, in a batch, in any chunks, on any
 * number of threads, on either kind of fibre, and among fifty other requests. */
#include "support/run_strategies.h"

enum { V = 384, LONG = 700 };

/* --- one prompt, whole and in pieces --------------------------------------------------------------------------- */

static void test_chunks_threads_fibres(void **state)
{
    (void)state;
    static const struct {
        const char *name, *model, *fibres;
        uint32_t threads;
    } cases[] = {
        {"one thread", "llama_gqa", "ucontext", 1},
        {"two threads", "llama_gqa", "ucontext", 2},
        {"three threads", "llama_gqa", "threads", 3},
        {"baton", "llama_gqa", "threads", 1},
    };
    static int32_t ids[LONG];
    random_ids(ids, LONG, V, 1); /* longer than a pass */
    float *want = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r = rig_open(cases[i].model, (cdz_engine_options){.n_threads = cases[i].threads,
                                                              .fibres = cases[i].fibres});
        float *whole = whole_logits(&r, ids, LONG);
        float *parts = piece_logits(&r, ids, LONG);
        if (!want) want = keep_floats(whole, (size_t)LONG * V);
        if (!same_floats(whole, want, (size_t)LONG * V)) fail_msg("%s: whole", cases[i].name);
        if (!same_floats(parts, want, (size_t)LONG * V)) fail_msg("%s: pieces", cases[i].name);
        free(whole);
        free(parts);
        rig_close(&r);
    }
    free(want);
}

/* Windows of two kinds; sinks and experts in blocks; latents. */
static void test_chunks_of_other_kinds(void **state)
{
    (void)state;
    static const char *const names[] = {"mistral_sw", "qwen2_sw", "gpt_oss_mxfp4", "deepseek_v3"};
    static int32_t ids[150];
    for (uint32_t i = 0; i < 150; i++) ids[i] = (int32_t)(i * 37 % 200 + 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rig r = rig_open(names[i], (cdz_engine_options){.n_threads = 2});
        const cdz_arch *a = &cdz_run_model_weights(r.model)->arch;
        assert_true(a->has_window || a->latent.kv_rank);
        float *whole = whole_logits(&r, ids, 150), *parts = piece_logits(&r, ids, 150);
        assert_true(same_floats(whole, parts, 150 * vocab_of(&r)));
        free(whole);
        free(parts);
        rig_close(&r);
    }
}

/* --- many requests ---------------------------------------------------------------------------------------------- */

enum { N = 50 };

typedef struct crowd {
    rig r;
    const cdz_plugin_base *greedy, *sample;
    hand_plan plans[N];
    answer answers[N];
} crowd;

/* Request i: its own length, number of rows, mode and seed; masks hide some of the first ids of odd rows. */
static void make_request(crowd *c, uint32_t i)
{
    const uint32_t len = 3 + i * 5 % 60, rows = i % 7 == 0 ? 3 : 1;
    int32_t ids[3 * 64];
    uint8_t mask[3 * 64];
    memset(mask, 1, sizeof mask);
    random_ids(ids, rows * len, V, i);
    for (uint32_t row = 1; row < rows; row++)
        for (uint32_t k = 0; k < row && k + 1 < len; k++) mask[row * len + k] = 0;
    plan_init(&c->plans[i], i % 2 ? c->sample : c->greedy, NULL);
    plan_add_processor(&c->plans[i], i % 3 ? &hash_rows : &hash_all, NULL);
    plan_add_criterion(&c->plans[i], &length_rule, NULL);
    cdz_job *job = new_job(&c->r, &c->plans[i], ids, mask, rows, len, 4 + i % 23, &c->answers[i]);
    job->seed = 1000 + i;
    job->keep_scores = job->keep_logits = true;
    job->pad = 0;
}

static bool same_step(const cdz_recorded_step *a, const cdz_recorded_step *b, size_t n)
{
    return same_floats(a->scores, b->scores, n) && same_floats(a->logits, b->logits, n);
}

static void compare_outcomes(const cdz_outcome *a, const cdz_outcome *b, uint32_t request)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_steps, b->n_steps);
    for (uint32_t r = 0; r < a->n_rows; r++) {
        assert_int_equal(a->rows[r].len, b->rows[r].len);
        if (memcmp(a->rows[r].ids, b->rows[r].ids, a->rows[r].len * sizeof(int32_t)) != 0)
            fail_msg("request %u row %u: other tokens", request, r);
    }
    for (uint32_t s = 0; s < a->n_steps; s++)
        if (!same_step(&a->steps[s], &b->steps[s], (size_t)a->n_rows * V))
            fail_msg("request %u step %u: other scores", request, s);
}

static crowd *open_crowd(cdz_engine_options options)
{
    crowd *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->r = rig_open("llama_gqa", options);
    c->greedy = built_plugin("greedy");
    c->sample = built_plugin("sample");
    return c;
}

static void close_crowd(crowd *c)
{
    for (uint32_t i = 0; i < N; i++) answer_free(&c->answers[i]);
    rig_close(&c->r);
    free(c);
}

static void run_crowd(crowd *c, bool together)
{
    for (uint32_t i = 0; i < N; i++) {
        make_request(c, i);
        submit(&c->r, &c->answers[i]);
        if (!together) await(&c->answers[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        cdz_outcome *outcome = await(&c->answers[i]);
        must(outcome->error.code, &outcome->error);
    }
}

static void test_fifty_requests(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        cdz_engine_options options;
    } cases[] = {
        {"all at once", {.n_threads = 2}},
        {"threads as fibres", {.n_threads = 1, .fibres = "threads"}},
        {"seven at a time", {.n_threads = 2, .max_running = 7}},
        {"little memory", {.n_threads = 1, .kv_bytes = 20 * 3 * 2 * 2 * 12 * 32 * 4}},
    };
    crowd *alone = open_crowd((cdz_engine_options){.n_threads = 1});
    run_crowd(alone, false);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        crowd *c = open_crowd(cases[k].options);
        run_crowd(c, true);
        for (uint32_t i = 0; i < N; i++)
            compare_outcomes(c->answers[i].outcome, alone->answers[i].outcome, i);
        cdz_engine_stats together, single;
        cdz_engine_get_stats(c->r.engine, &together);
        cdz_engine_get_stats(alone->r.engine, &single);
        assert_int_equal(together.pass_rows, single.pass_rows);
        assert_true(together.passes < single.passes);
        assert_int_equal(together.requests_done, N);
        close_crowd(c);
    }
    close_crowd(alone);
}

/* Rows of one padded batch have the bits they have alone; rows from one prompt share its computation. */
static void test_batch_rows(void **state)
{
    (void)state;
    enum { LEN = 40, ROWS = 4, NEW = 12 };
    int32_t ids[ROWS * LEN];
    uint8_t mask[ROWS * LEN];
    memset(mask, 1, sizeof mask);
    random_ids(ids, ROWS * LEN, V, 3);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t i = 0; i < 9 * r; i++) mask[r * LEN + i] = 0;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    hand_plan plan, plans[ROWS];
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    answer batch, one;
    new_job(&r, &plan, ids, mask, ROWS, LEN, NEW, &batch)->keep_logits = true;
    const cdz_outcome *all = run_well(&r, &batch);
    for (uint32_t row = 0; row < ROWS; row++) {
        plans[row] = plan;
        plans[row].plan.criteria = plans[row].criteria;
        const uint32_t hidden = 9 * row; /* the prompt without its pads at all */
        new_job(&r, &plans[row], ids + row * LEN + hidden, NULL, 1, LEN - hidden, NEW, &one)
            ->keep_logits = true;
        const cdz_outcome *alone = run_well(&r, &one);
        assert_memory_equal(alone->rows[0].ids + LEN - hidden, all->rows[row].ids + LEN,
                            NEW * sizeof(int32_t));
        for (uint32_t s = 0; s < NEW; s++)
            assert_true(
                same_floats(alone->steps[s].logits, all->steps[s].logits + (size_t)row * V, V));
        answer_free(&one);
    }
    answer_free(&batch);
    rig_close(&r);
}

static void test_shared_prompt(void **state)
{
    (void)state;
    enum { LEN = 50, ROWS = 5, NEW = 20 };
    int32_t ids[LEN];
    random_ids(ids, LEN, V, 5);
    rig r = rig_open("llama_gqa", (cdz_engine_options){0});
    hand_plan plan;
    plan_init(&plan, built_plugin("sample"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    answer a;
    cdz_job *job = new_job(&r, &plan, ids, NULL, 1, LEN, NEW, &a);
    job->n_rows = ROWS;
    job->seed = 9;
    job->keep_logits = true;
    const cdz_outcome *outcome = run_well(&r, &a);
    assert_int_equal(outcome->n_rows, ROWS);
    assert_int_equal(outcome->n_prompt_tokens, LEN);
    cdz_engine_stats stats;
    cdz_engine_get_stats(r.engine, &stats);
    assert_int_equal(stats.pass_rows, LEN + ROWS * (NEW - 1));
    /* Each row's scores are those of its own ids, computed anew. */
    for (uint32_t row = 0; row < ROWS; row++) {
        float *want = whole_logits(&r, outcome->rows[row].ids, LEN + NEW);
        for (uint32_t s = 0; s < NEW; s++)
            assert_true(same_floats(outcome->steps[s].logits + (size_t)row * V,
                                    want + (size_t)(LEN - 1 + s) * V, V));
        free(want);
    }
    answer_free(&a);
    rig_close(&r);
}

/* prefill_chunk_size: rows of a batch, the longest prompt longer than a pass, in chunks of any size. */
static void test_prefill_chunks(void **state)
{
    (void)state;
    enum { LEN = 600, ROWS = 3, NEW = 4 };
    static const struct {
        uint32_t chunk, passes;
    } cases[] = {{0, 0}, {1, LEN}, {7, 86}, {64, 10}, {512, 3}, {100000, 3}};
    static int32_t ids[ROWS * LEN];
    static uint8_t mask[ROWS * LEN];
    memset(mask, 1, sizeof mask);
    random_ids(ids, ROWS * LEN, V, 8);
    for (uint32_t r = 1; r < ROWS; r++)
        for (uint32_t i = 0; i < 250 * r; i++) mask[r * LEN + i] = 0;
    answer first;
    hand_plan plans[sizeof cases / sizeof *cases];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
        plan_init(&plans[i], built_plugin("greedy"), NULL);
        plan_add_criterion(&plans[i], &length_rule, NULL);
        answer a;
        cdz_job *job = new_job(&r, &plans[i], ids, mask, ROWS, LEN, NEW, &a);
        job->keep_logits = job->keep_scores = true;
        job->prefill_chunk = cases[i].chunk;
        run_well(&r, &a);
        cdz_engine_stats stats;
        cdz_engine_get_stats(r.engine, &stats);
        if (i > 0) {
            if (stats.passes != cases[i].passes + NEW - 1)
                fail_msg("chunk %u: %u passes", cases[i].chunk, (unsigned)stats.passes);
            compare_outcomes(a.outcome, first.outcome, cases[i].chunk);
            answer_free(&a);
        } else {
            first = a;
        }
        rig_close(&r);
    }
    answer_free(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_threads_fibres), cmocka_unit_test(test_chunks_of_other_kinds),
        cmocka_unit_test(test_fifty_requests),        cmocka_unit_test(test_batch_rows),
        cmocka_unit_test(test_shared_prompt),         cmocka_unit_test(test_prefill_chunks),
    };
    return cmocka_run_group_tests_name("run company", tests, NULL, NULL);
}
