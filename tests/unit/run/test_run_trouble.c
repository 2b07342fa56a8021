/* test_run_trouble.c - requests that are cancelled, late, too large or spoilt by a plugin: each ends alone, with what it
 * has and one sentence that says why. */
#include "base/float_mode.h"
#include "cadenza/ext/tokenizer.h"
#include "support/run_strategies.h"

#include <locale.h>
#include <stdatomic.h>

enum { V = 384, PROMPT = 6 };
static const int32_t prompt[PROMPT] = {5, 80, 201, 44, 17, 300};

static rig open_small(void)
{
    return rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
}

static void wants_text(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* --- cancelling and deadlines -------------------------------------------------------------------------------------- */

/* Waits inside on_tokens until the test says go: makes "in the middle of the run" certain. */
typedef struct gate {
    answer a; /* first: answer_tokens sees it as its own */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reached, open, expire; /* expire: the deadline passes right there */
} gate;

static void gate_tokens(void *user, const cdz_new_tokens *tokens)
{
    gate *g = user;
    answer_tokens(&g->a, tokens);
    if (g->a.n_streamed[0] != 5) return;
    if (g->expire) {
        g->a.job->deadline_s = 1.0;
        return;
    }
    pthread_mutex_lock(&g->lock);
    g->reached = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void gate_await(gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->reached) pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* A greedy request of up to 400 tokens that stops at its fifth until the gate opens. */
static cdz_job *new_gated(const rig *r, hand_plan *plan, gate *g)
{
    *g = (gate){0};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    plan_init(plan, built_plugin("greedy"), NULL);
    plan_add_criterion(plan, &length_rule, NULL);
    cdz_job *job = new_job(r, plan, prompt, NULL, 1, PROMPT, 400, &g->a);
    job->on_tokens = gate_tokens;
    return job;
}

static void test_cancel_running(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan, next_plan;
    gate g;
    answer next;
    new_gated(&r, &plan, &g);
    submit(&r, &g.a);
    gate_await(&g);
    plan_init(&next_plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&next_plan, &length_rule, NULL);
    new_job(&r, &next_plan, prompt, NULL, 1, PROMPT, 8, &next);
    submit(&r, &next);
    cdz_error err = {0};
    must(cdz_engine_cancel(r.engine, g.a.id, &err), &err);
    gate_open(&g);
    const cdz_outcome *outcome = await(&g.a);
    assert_int_equal(outcome->error.code, CDZ_E_CANCELLED);
    wants_text(outcome->error.text, "cancelled");
    assert_int_equal(outcome->rows[0].n_new, 5);
    assert_int_equal(outcome->rows[0].len, PROMPT + 5);
    assert_string_equal(outcome->rows[0].stop.text.at, "cancelled");
    assert_memory_equal(outcome->rows[0].ids + PROMPT, g.a.streamed[0], 5 * sizeof(int32_t));
    await_well(&next); /* its neighbour never noticed */
    assert_int_equal(next.outcome->rows[0].n_new, 8);
    assert_int_equal(cdz_engine_cancel(r.engine, g.a.id, &err), CDZ_E_NOT_FOUND);
    answer_free(&g.a);
    answer_free(&next);
    rig_close(&r);
}

/* One runs, one waits; the waiting one is cancelled, then a third runs out of time in the queue. */
static void test_cancel_and_deadline_in_queue(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .max_running = 1});
    hand_plan plan, second_plan, third_plan;
    gate g;
    answer second, third;
    new_gated(&r, &plan, &g);
    submit(&r, &g.a);
    gate_await(&g);
    plan_init(&second_plan, built_plugin("greedy"), NULL);
    plan_init(&third_plan, built_plugin("greedy"), NULL);
    new_job(&r, &second_plan, prompt, NULL, 1, PROMPT, 8, &second);
    new_job(&r, &third_plan, prompt, NULL, 1, PROMPT, 8, &third)->deadline_s = 1.0;
    submit(&r, &second);
    submit(&r, &third);
    cdz_error err = {0};
    must(cdz_engine_cancel(r.engine, second.id, &err), &err);
    gate_open(&g);
    assert_int_equal(await(&second)->error.code, CDZ_E_CANCELLED);
    assert_int_equal(second.outcome->rows[0].n_new, 0);
    assert_int_equal(second.outcome->rows[0].len, PROMPT);
    assert_int_equal(await(&third)->error.code, CDZ_E_DEADLINE);
    wants_text(third.outcome->error.text, "deadline");
    await_well(&g.a);
    assert_int_equal(g.a.outcome->rows[0].n_new, 400);
    answer_free(&g.a);
    answer_free(&second);
    answer_free(&third);
    rig_close(&r);
}

static void test_deadline_running(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    gate g;
    new_gated(&r, &plan, &g);
    g.expire = true;
    submit(&r, &g.a);
    const cdz_outcome *outcome = await(&g.a);
    assert_int_equal(outcome->error.code, CDZ_E_DEADLINE);
    assert_int_equal(outcome->rows[0].n_new, 5);
    assert_int_equal(outcome->rows[0].stop.reason, CDZ_STOP_TIME);
    answer_free(&g.a);
    rig_close(&r);
}

/* Every verb answers CANCELLED once the request is, and nothing crashes. */
static cdz_status run_deaf(cdz_decoder *dec, const cdz_step *step)
{
    int32_t token = 7;
    cdz_scores rows;
    cdz_pick pick;
    cdz_seq *seq;
    cdz_stop stop;
    float number;
    CDZ_TRY(cdz_forward(dec, &rows));
    for (int i = 0; i < 6; i++)
        if (cdz_append(dec, 0, token) != CDZ_OK) break; /* cancelled while the fifth is streamed */
    CHECK(cdz_cancelled(dec) && cdz_done(dec));
    const uint32_t row = 0;
    const cdz_ids none = {NULL, 0};
    const cdz_status all[] = {
        cdz_forward(dec, &rows),
        cdz_process(dec, &rows),
        cdz_append(dec, 0, token),
        cdz_append_rows(dec, &token),
        cdz_rewind(dec, 0, 1),
        cdz_reorder(dec, &row),
        cdz_map(dec, &rows),
        cdz_softmax(dec, &rows),
        cdz_log_softmax(dec, &rows),
        cdz_ban(dec, &rows, 0, 1),
        cdz_scratch_scores(dec, 1, &rows),
        cdz_argmax(dec, &rows, 0, &pick),
        cdz_argmax_rows(dec, &rows, &token),
        cdz_multinomial(dec, &rows, &token),
        cdz_uniform(dec, 1, &number),
        cdz_seq_new(dec, NULL, &seq),
        cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seq),
        cdz_stop_test(dec, &none, &row, 1, &stop),
        cdz_finish(dec, 0, CDZ_STOP_CUSTOM, "x"),
        cdz_record(dec, CDZ_RECORD_SCORES, &rows),
        cdz_put_result(dec, "x", CDZ_RESULT_I32, 0, NULL, &token),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] != CDZ_E_CANCELLED) return SAY("verb %zu gave %d", i, (int)all[i]);
    return CDZ_OK; /* though it saw nothing wrong, the request was cancelled */
}
STRATEGY(deaf, run_deaf, 0);

static void test_verbs_after_cancel(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    gate g;
    cdz_job *job = new_gated(&r, &plan, &g);
    plan.plan.strategy = instance_of(&deaf.base, NULL);
    (void)job;
    submit(&r, &g.a);
    gate_await(&g);
    cdz_error err = {0};
    must(cdz_engine_cancel(r.engine, g.a.id, &err), &err);
    gate_open(&g);
    const cdz_outcome *outcome = await(&g.a);
    if (outcome->error.code != CDZ_E_CANCELLED) fail_msg("%s", outcome->error.text);
    assert_int_equal(outcome->rows[0].n_new, 5);
    answer_free(&g.a);
    rig_close(&r);
}

/* Freeing the engine ends what runs and what waits; every on_done is called; models and results outlive it. */
static void test_free_cancels(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2, .max_running = 1});
    hand_plan plan, second_plan;
    gate g;
    answer second;
    new_gated(&r, &plan, &g);
    submit(&r, &g.a);
    gate_await(&g);
    plan_init(&second_plan, built_plugin("greedy"), NULL);
    new_job(&r, &second_plan, prompt, NULL, 1, PROMPT, 8, &second);
    submit(&r, &second);
    gate_open(&g);
    cdz_engine_free(r.engine);
    assert_true(g.a.done && second.done);
    assert_int_equal(second.outcome->error.code, CDZ_E_CANCELLED);
    assert_int_equal(cdz_run_model_weights(r.model)->arch.n_vocab, V);
    cdz_run_model_release(r.model);
    answer_free(&g.a);
    answer_free(&second);
}

/* --- too large ------------------------------------------------------------------------------------------------------- */

static void refused(const rig *r, answer *a, cdz_status code, const char *part)
{
    cdz_error err = {0};
    a->job->on_done = NULL;
    a->job->plan = NULL;
    assert_int_equal(cdz_engine_submit(r->engine, a->job, &a->id, &err), code);
    wants_text(err.text, part);
    answer_free(a);
}

static void test_never_fits(void **state)
{
    (void)state;
    enum { BLOCK = 3 * 2 * 2 * 12 * 32 * 4 };
    rig r = rig_open("llama_gqa", (cdz_engine_options){.kv_bytes = 4 * BLOCK});
    answer a;
    new_job(&r, NULL, prompt, NULL, 1, PROMPT, 4 * 32 - PROMPT + 1, &a);
    refused(&r, &a, CDZ_E_LIMIT, "5 blocks");
    new_job(&r, NULL, prompt, NULL, 1, PROMPT, UINT32_MAX - PROMPT, &a);
    refused(&r, &a, CDZ_E_LIMIT, "more KV memory");
    hand_plan plan;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 4 * 32 - PROMPT, &a); /* just fits */
    run_well(&r, &a);
    cdz_engine_stats stats;
    cdz_engine_get_stats(r.engine, &stats);
    assert_int_equal(stats.kv_blocks_peak, 4);
    assert_int_equal(stats.kv_blocks_used, 0);
    answer_free(&a);
    rig_close(&r);
}

/* Forks until memory is full: a sentence with numbers, and the request can go on. */
static cdz_status run_greedy_forks(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows;
    cdz_status status = CDZ_OK;
    CDZ_TRY(cdz_forward(dec, &rows));
    for (int i = 0; i < 100 && status == CDZ_OK; i++) {
        static const int32_t token = 9;
        cdz_seq *seq;
        CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seq));
        CDZ_TRY(cdz_seq_append(dec, seq, &token, 1));
        status = cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &rows);
    }
    CHECK(status == CDZ_E_LIMIT);
    CDZ_TRY(cdz_append(dec, 0, 5));
    CDZ_TRY(cdz_forward(dec, &rows)); /* within its reservation */
    return status;
}
STRATEGY(hoarder, run_greedy_forks, 0);

static void test_memory_full(void **state)
{
    (void)state;
    enum { BLOCK = 3 * 2 * 2 * 12 * 32 * 4 };
    rig r = rig_open("llama_gqa", (cdz_engine_options){.kv_bytes = 10 * BLOCK});
    hand_plan plan;
    answer a;
    plan_init(&plan, &hoarder.base, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 40, &a);
    const cdz_outcome *outcome = run(&r, &a);
    assert_int_equal(outcome->error.code, CDZ_E_LIMIT);
    wants_text(outcome->error.text, "KV memory is full");
    assert_int_equal(outcome->rows[0].n_new, 1);
    answer_free(&a);
    cdz_engine_stats stats;
    cdz_engine_get_stats(r.engine, &stats);
    assert_int_equal(stats.kv_blocks_used, 0);
    rig_close(&r);
}

/* Wants more than there is, beside an older request and then alone; goes on without it until the third has begun. */
static atomic_bool third_began;

static cdz_status run_glutton(cdz_decoder *dec, const cdz_step *step)
{
    enum { FORKS = 40 };
    static const int32_t token = 9;
    cdz_seq *forks[FORKS];
    cdz_scores rows;
    CDZ_TRY(cdz_forward(dec, &rows));
    for (int i = 0; i < FORKS; i++) {
        CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &forks[i]));
        CDZ_TRY(cdz_seq_append(dec, forks[i], &token, 1));
    }
    CHECK(cdz_seq_forward(dec, forks, FORKS, CDZ_POSITIONS_LAST, &rows) == CDZ_E_LIMIT);
    for (int i = 0; i < FORKS; i++) cdz_seq_free(dec, forks[i]);
    for (int i = 0; i < 30 && !atomic_load(&third_began); i++) {
        CDZ_TRY(cdz_append(dec, 0, token));
        CDZ_TRY(cdz_forward(dec, &rows));
    }
    CHECK(atomic_load(&third_began));
    return CDZ_OK;
}
STRATEGY(glutton, run_glutton, 0);

static cdz_status run_latecomer(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows;
    (void)step;
    atomic_store(&third_began, true);
    return cdz_forward(dec, &rows);
}
STRATEGY(latecomer, run_latecomer, 0);

/* Whoever was refused blocks goes on, and others begin beside it. */
static void test_refused_goes_on(void **state)
{
    (void)state;
    enum { BLOCK = 3 * 2 * 2 * 12 * 32 * 4 };
    rig r = rig_open("llama_gqa", (cdz_engine_options){.kv_bytes = 24 * BLOCK, .max_running = 2});
    hand_plan plans[3];
    gate g;
    answer second, last;
    atomic_store(&third_began, false);
    new_gated(&r, &plans[0], &g);
    submit(&r, &g.a);
    gate_await(&g);
    plan_init(&plans[1], &glutton.base, NULL);
    new_job(&r, &plans[1], prompt, NULL, 1, PROMPT, 40, &second);
    submit(&r, &second);
    plan_init(&plans[2], &latecomer.base, NULL);
    new_job(&r, &plans[2], prompt, NULL, 1, PROMPT, 2, &last);
    submit(&r, &last);
    gate_open(&g);
    await_well(&g.a);
    await_well(&second);
    await_well(&last);
    cdz_engine_stats stats;
    cdz_engine_get_stats(r.engine, &stats);
    assert_int_equal(stats.preemptions, 1);
    answer_free(&g.a);
    answer_free(&second);
    answer_free(&last);
    rig_close(&r);
}

static void test_queue_full(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.max_running = 1, .max_queue = 1});
    hand_plan plan, second_plan;
    gate g;
    answer second, third;
    new_gated(&r, &plan, &g);
    submit(&r, &g.a);
    gate_await(&g);
    plan_init(&second_plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&second_plan, &length_rule, NULL);
    new_job(&r, &second_plan, prompt, NULL, 1, PROMPT, 8, &second);
    submit(&r, &second);
    new_job(&r, NULL, prompt, NULL, 1, PROMPT, 8, &third)->prompt_logits = true;
    refused(&r, &third, CDZ_E_LIMIT, "waiting already");
    gate_open(&g);
    await(&g.a);
    await_well(&second);
    answer_free(&g.a);
    answer_free(&second);
    rig_close(&r);
}

/* What there is a place for waits for nothing, though the engine has not looked at it yet. */
static void test_queue_places(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.max_running = 3, .max_queue = 1});
    hand_plan plan, plans[3];
    gate g;
    answer others[3], last;
    new_gated(&r, &plan, &g);
    submit(&r, &g.a);
    gate_await(&g);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(cdz_engine_see_line(r.engine).n, 0);
        plan_init(&plans[i], built_plugin("greedy"), NULL);
        plan_add_criterion(&plans[i], &length_rule, NULL);
        new_job(&r, &plans[i], prompt, NULL, 1, PROMPT, 8, &others[i]);
        submit(&r, &others[i]);
    }
    const cdz_engine_line line = cdz_engine_see_line(r.engine);
    assert_int_equal(line.n, 1);
    assert_int_equal(line.rows, 1);
    assert_int_equal(line.prompt_tokens, PROMPT);
    new_job(&r, NULL, prompt, NULL, 1, PROMPT, 8, &last)->prompt_logits = true;
    refused(&r, &last, CDZ_E_LIMIT, "1 requests are waiting already");
    gate_open(&g);
    await(&g.a);
    answer_free(&g.a);
    for (uint32_t i = 0; i < 3; i++) {
        await_well(&others[i]);
        answer_free(&others[i]);
    }
    rig_close(&r);
}

static void test_bad_prompts(void **state)
{
    (void)state;
    static const int32_t outside[PROMPT] = {5, 80, V, 44, 17, 300};
    static const uint8_t hidden[PROMPT] = {0}, holes[PROMPT] = {0, 1, 0, 1, 1, 1};
    rig r = open_small();
    answer a;
    hand_plan plan;
    new_job(&r, NULL, outside, NULL, 1, PROMPT, 8, &a);
    refused(&r, &a, CDZ_E_INPUT, "token 384 at 2");
    new_job(&r, NULL, prompt, NULL, 1, 0, 8, &a);
    refused(&r, &a, CDZ_E_INPUT, "no prompt");
    new_job(&r, NULL, prompt, NULL, 1, PROMPT, 8, &a);
    refused(&r, &a, CDZ_E_USAGE, "no plan");
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, prompt, hidden, 1, PROMPT, 8, &a);
    assert_int_equal(run(&r, &a)->error.code, CDZ_E_INPUT);
    wants_text(a.outcome->error.text, "hides every token");
    assert_int_equal(a.outcome->rows[0].len, PROMPT);
    answer_free(&a);
    new_job(&r, &plan, prompt, holes, 1, PROMPT, 8, &a);
    run_well(&r, &a); /* positions are counted over what is visible */
    answer_free(&a);
    rig_close(&r);

    static const int32_t small[PROMPT] = {5, 80, 20, 44, 17, 30};
    rig windows = rig_open("mistral_sw", (cdz_engine_options){0});
    new_job(&windows, &plan, small, holes, 1, PROMPT, 8, &a);
    assert_int_equal(run(&windows, &a)->error.code, CDZ_E_UNSUPPORTED);
    wants_text(a.outcome->error.text, "holes");
    answer_free(&a);
    rig_close(&windows);
}

/* --- plugins that fail -------------------------------------------------------------------------------------------------- */

typedef enum trouble_kind {
    SPEAKS,       /* returns a status with a sentence */
    SILENT,       /* a status without one */
    NO_STATUS,    /* a number that is none */
    FLUSHES,      /* changes the floating-point mode */
    OTHER_LOCALE, /* changes the locale of the process */
    OWN_LOCALE,   /* and of the thread */
    BAD_STOP,     /* gives a reason that is none */
} trouble_kind;

typedef struct trouble {
    const char *where;
    trouble_kind kind;
} trouble;

static cdz_status cause(const cdz_step *step, const char *where)
{
    const trouble *t = step->params;
    if (strcmp(t->where, where) != 0) return CDZ_OK;
    switch (t->kind) {
    case SPEAKS: return (step->host->fail)(step, CDZ_E_INPUT, "no luck in %s", where);
    case SILENT: return CDZ_E_INPUT;
    case NO_STATUS: return (cdz_status)77;
    case FLUSHES: cdz_float_mode_set(cdz_float_mode() | CDZ_FLOAT_FLUSH); return CDZ_OK;
    case OTHER_LOCALE: return setlocale(LC_ALL, "C.UTF-8") ? CDZ_OK : CDZ_E_INTERNAL;
    case OWN_LOCALE: {
        const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        uselocale(own); /* "C" is a constant of the library: nothing to free */
        return CDZ_OK;
    }
    case BAD_STOP: return CDZ_OK;
    }
    return CDZ_OK;
}

static cdz_status p_begin(const cdz_step *step, void **shared)
{
    (void)shared;
    return cause(step, "begin");
}
static cdz_status p_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    return cause(step, "apply");
}
static cdz_status p_accept(const cdz_step *step, uint32_t r, int32_t token)
{
    (void)r;
    (void)token;
    return cause(step, "accept");
}
static cdz_status c_test(const cdz_step *step, cdz_stop *stops)
{
    if (((const trouble *)step->params)->kind == BAD_STOP) stops[0].reason = 99;
    return cause(step, "test");
}

static const cdz_processor sick_rows = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.sick", .version = "1.0.0", .summary = "fails"},
    .caps = CDZ_ROWWISE,
    .begin = p_begin,
    .apply = p_apply,
    .accept = p_accept,
};
static const cdz_processor sick_all = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.sick", .version = "1.0.0", .summary = "fails"},
    .begin = p_begin,
    .apply = p_apply,
    .accept = p_accept,
};
static const cdz_criterion sick_rule = {
    .base = {CDZ_CRITERION_BASE, .id = "test.sick", .version = "1.0.0", .summary = "fails"},
    .begin = p_begin,
    .test = c_test,
    .accept = p_accept,
};
static cdz_status run_sick(cdz_decoder *dec, const cdz_step *step)
{
    (void)dec;
    return cause(step, "run");
}
static const cdz_strategy sick_strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "test.sick", .version = "1.0.0", .summary = "fails"},
    .run = run_sick,
};

static void test_failing_plugins(void **state)
{
    (void)state;
    static const struct {
        char what; /* r: row-wise processor, a: processor, c: criterion, s: strategy */
        trouble t;
        cdz_status code;
        const char *text;
        uint32_t n_new;
    } cases[] = {
        {'r', {"begin", SPEAKS}, CDZ_E_INPUT, "test.sick: no luck in begin", 0},
        {'r', {"apply", SPEAKS}, CDZ_E_INPUT, "test.sick: no luck in apply", 0},
        {'r', {"accept", SPEAKS}, CDZ_E_INPUT, "test.sick: no luck in accept", 1},
        {'r', {"apply", SILENT}, CDZ_E_PLUGIN, "without saying why", 0},
        {'r', {"apply", NO_STATUS}, CDZ_E_PLUGIN, "77", 0},
        {'a', {"apply", SPEAKS}, CDZ_E_INPUT, "test.sick: no luck in apply", 0},
        {'a', {"apply", NO_STATUS}, CDZ_E_PLUGIN, "77", 0},
        {'c', {"begin", SILENT}, CDZ_E_PLUGIN, "begin failed", 0},
        {'c', {"test", SPEAKS}, CDZ_E_INPUT, "test.sick: no luck in test", 1},
        {'c', {"accept", SILENT}, CDZ_E_PLUGIN, "accept failed", 1},
        {'c', {"-", BAD_STOP}, CDZ_E_PLUGIN, "reason 99", 1},
        {'s', {"run", SPEAKS}, CDZ_E_INPUT, "test.sick: no luck in run", 0},
        {'s', {"run", SILENT}, CDZ_E_PLUGIN, "run failed", 0},
        {'s', {"run", NO_STATUS}, CDZ_E_PLUGIN, "77", 0},
#if CDZ_SEES_FLOAT_MODE
        {'r', {"apply", FLUSHES}, CDZ_E_PLUGIN, "floating-point mode", 0},
        {'a', {"apply", FLUSHES}, CDZ_E_PLUGIN, "floating-point mode", 0},
        {'a', {"begin", FLUSHES}, CDZ_E_PLUGIN, "floating-point mode", 0},
        {'a', {"accept", FLUSHES}, CDZ_E_PLUGIN, "floating-point mode", 1},
        {'c', {"test", FLUSHES}, CDZ_E_PLUGIN, "floating-point mode", 1},
        {'s', {"run", FLUSHES}, CDZ_E_PLUGIN, "run changed the thread's floating-point mode", 0},
#endif
#ifdef CDZ_CHECKED
        {'r', {"apply", OTHER_LOCALE}, CDZ_E_PLUGIN, "apply changed the locale", 0},
        {'a', {"apply", OWN_LOCALE}, CDZ_E_PLUGIN, "apply changed the locale", 0},
        {'a', {"begin", OTHER_LOCALE}, CDZ_E_PLUGIN, "begin changed the locale", 0},
        {'a', {"accept", OWN_LOCALE}, CDZ_E_PLUGIN, "accept changed the locale", 1},
        {'c', {"test", OTHER_LOCALE}, CDZ_E_PLUGIN, "test changed the locale", 1},
        {'s', {"run", OWN_LOCALE}, CDZ_E_PLUGIN, "run changed the locale", 0},
#endif
    };
    rig r = open_small();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hand_plan plan;
        answer a;
        plan_init(&plan, built_plugin("greedy"), NULL);
        if (cases[i].what == 'r') plan_add_processor(&plan, &sick_rows, &cases[i].t);
        if (cases[i].what == 'a') plan_add_processor(&plan, &sick_all, &cases[i].t);
        if (cases[i].what == 'c') plan_add_criterion(&plan, &sick_rule, &cases[i].t);
        if (cases[i].what == 's')
            plan.plan.strategy = instance_of(&sick_strategy.base, &cases[i].t);
        plan_add_criterion(&plan, &length_rule, NULL);
        new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != cases[i].code)
            fail_msg("case %zu: status %d, %s", i, (int)outcome->error.code, outcome->error.text);
        wants_text(outcome->error.text, cases[i].text);
        wants_text(outcome->error.text, "test.sick: ");
        assert_int_equal(outcome->rows[0].n_new, cases[i].n_new);
        answer_free(&a);
    }
    rig_close(&r);
}

/* One row of several fails on whatever thread it is: the lowest row's sentence is told. */
static cdz_status odd_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    if (step->row_index[0] % 2 == 0) return CDZ_OK;
    return (step->host->fail)(step, CDZ_E_INPUT, "row %u is odd", step->row_index[0]);
}
static const cdz_processor odd = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.odd", .version = "1.0.0", .summary = "odd rows"},
    .caps = CDZ_ROWWISE,
    .apply = odd_apply,
};

static void test_lowest_row_speaks(void **state)
{
    (void)state;
    enum { ROWS = 100 }; /* enough to be shared among threads */
    rig r = open_small();
    hand_plan plan;
    answer a;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_processor(&plan, &odd, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a)->n_rows = ROWS;
    const cdz_outcome *outcome = run(&r, &a);
    assert_int_equal(outcome->error.code, CDZ_E_INPUT);
    assert_string_equal(outcome->error.text, "test.odd: row 1 is odd");
    answer_free(&a);
    rig_close(&r);
}

static cdz_status nan_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    for (uint32_t i = 0; i < scores->n_vocab; i++) scores->data[i] = NAN;
    return CDZ_OK;
}
static const cdz_processor nan_maker = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.nan", .version = "1.0.0", .summary = "nan"},
    .apply = nan_apply,
};

static void test_nan_scores(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer a;
    plan_init(&plan, built_plugin("sample"), NULL);
    plan_add_processor(&plan, &nan_maker, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a);
    assert_int_equal(run(&r, &a)->error.code, CDZ_E_INPUT);
    wants_text(a.outcome->error.text, "row 0: probabilities hold nan");
    answer_free(&a);
    rig_close(&r);
}

/* A child of several fails: its siblings stop, its sentence is the request's. */
static cdz_status run_second_fails(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows;
    for (int i = 0; i < 50; i++) {
        CDZ_TRY(cdz_forward(dec, &rows));
        CDZ_TRY(cdz_append(dec, 0, 7));
        if (step->request->seed == 1 && i == 3)
            return (step->host->fail)(step, CDZ_E_INPUT, "the second gives up");
    }
    return CDZ_OK;
}
STRATEGY(siblings, run_second_fails, CDZ_ONE_ROW);

static void test_sibling_fails(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer a;
    plan_init(&plan, &siblings.base, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 60, &a)->n_rows = 3;
    const cdz_outcome *outcome = run(&r, &a);
    assert_int_equal(outcome->error.code, CDZ_E_INPUT);
    assert_string_equal(outcome->error.text, "test.siblings: the second gives up");
    assert_int_equal(outcome->rows[1].n_new, 4);
    assert_in_range(outcome->rows[0].n_new, 4, 5);
    answer_free(&a);
    rig_close(&r);
}

/* The second row's loop cannot be made: what the first would have reused counts for nothing. */
static void test_reused_by_none(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan, again;
    answer first, second;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &first)->keep_cache = true;
    submit(&r, &first);
    await_well(&first);
    assert_non_null(first.outcome->kept);

    int32_t both[2 * PROMPT];
    uint8_t masks[2 * PROMPT] = {0};
    for (size_t i = 0; i < PROMPT; i++) {
        both[i] = both[PROMPT + i] = prompt[i];
        masks[i] = 1;
    }
    plan_init(&again, &siblings.base, NULL);
    cdz_job *job = new_job(&r, &again, both, masks, 2, PROMPT, 8, &second);
    job->past = first.outcome->kept;
    cdz_kept_retain(job->past);
    const cdz_outcome *outcome = run(&r, &second);
    assert_int_equal(outcome->error.code, CDZ_E_INPUT);
    assert_int_equal(outcome->n_reused_tokens, 0);
    assert_int_equal(outcome->n_prompt_tokens, 0);
    answer_free(&first);
    answer_free(&second);
    rig_close(&r);
}

/* --- the host table ------------------------------------------------------------------------------------------------------- */

typedef struct facts {
    uint64_t *words; /* shared */
    uint32_t n_ends;
} facts;

static facts *facts_of(const cdz_step *step)
{
    return (facts *)(uintptr_t)step->params;
}

static cdz_status t_begin(const cdz_step *step, void **shared)
{
    uint64_t *words = cdz_alloc(step, 100 * sizeof *words);
    CHECK(words && words[0] == 0 && words[99] == 0);
    cdz_opt_int max_length;
    cdz_opt_real wrong;
    CHECK(step->host->config(step, "max_length", CDZ_T_OPT_INT, &max_length) == CDZ_OK);
    CHECK(max_length.set && max_length.value == (int64_t)step->request->max_length);
    CHECK(step->host->config(step, "max_length", CDZ_T_OPT_REAL, &wrong) == CDZ_E_NOT_FOUND);
    CHECK(step->host->config(step, "nonsense", CDZ_T_OPT_INT, &max_length) == CDZ_E_NOT_FOUND);
    const cdz_tokenizer_api *tok = cdz_get_tokenizer(step);
    CHECK(tok && !tok->present(step) && tok->n_tokens(step) == 0);
    CHECK(tok->token_text(step, 5).at == NULL);
    CHECK(step->host->extension("nobody.knows/1") == NULL);
    CHECK(step->host->now_s(step) >= step->request->start_s);
    cdz_log(step, CDZ_LOG_INFO, "hello %d", 5);
    words[0] = 77;
    *shared = words;
    return CDZ_OK;
}

static cdz_status t_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    CHECK(((const uint64_t *)step->shared)[0] == 77);
    CHECK(cdz_alloc(step, 8) == NULL); /* not here */
    unsigned char *a = cdz_scratch(step, 1000), *b = cdz_scratch(step, 100000);
    CHECK(a && b && (uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
    memset(a, 1, 1000);
    memset(b, 2, 100000);
    CHECK(a[999] == 1 && b[0] == 2);
    uint32_t one[4], same[4], other[4];
    step->host->noise(step, 0, 5, one);
    step->host->noise(step, 0, 5, same);
    step->host->noise(step, 1, 5, other);
    CHECK(memcmp(one, same, sizeof one) == 0 && memcmp(one, other, sizeof one) != 0);
    return CDZ_OK;
}

static void t_end(const cdz_step *step)
{
    facts_of(step)->n_ends++;
}

static const cdz_processor table_user = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.table", .version = "1.0.0", .summary = "asks"},
    .begin = t_begin,
    .apply = t_apply,
    .end = t_end,
};

static void keep_line(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    snprintf(user, 128, "%d %s %s", (int)level, plugin, text);
}

static void test_host_table(void **state)
{
    (void)state;
    char line[128] = "";
    rig r = rig_open("llama_gqa", (cdz_engine_options){.log = keep_line, .log_user = line});
    hand_plan plan;
    answer a;
    facts f = {0};
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_processor(&plan, &table_user, &f);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a);
    run_well(&r, &a);
    assert_int_equal(f.n_ends, 1);
    assert_string_equal(line, "1 test.table hello 5");
    answer_free(&a);
    rig_close(&r);
}

/* --- the tokenizer extension ------------------------------------------------------------------------------------------------ */

static cdz_status tok_begin(const cdz_step *step, void **shared)
{
    static const char text[] = "a river, \xC3\xA4 stone";
    const cdz_tokenizer_api *tok = cdz_get_tokenizer(step);
    cdz_ids ids;
    cdz_string back;
    (void)shared;
    CHECK(tok && tok->present(step) && tok->n_tokens(step) == V);
    CDZ_TRY(tok->encode(step, text, sizeof text - 1, false, &ids));
    CHECK(ids.len > 0);
    CDZ_TRY(tok->decode(step, ids, false, &back));
    CHECK(back.len == sizeof text - 1 && memcmp(back.at, text, back.len) == 0);
    CHECK(tok->token_text(step, -1).at == NULL && tok->token_text(step, V).at == NULL);
    CHECK(tok->token_text(step, INT32_MAX).at == NULL);
    /* Tokens of plain letters stand for themselves, also alone. */
    char joined[64] = "";
    CDZ_TRY(tok->encode(step, "xyz", 3, false, &ids));
    for (uint32_t i = 0; i < ids.len; i++) {
        const cdz_string part = tok->token_text(step, ids.at[i]);
        CHECK(part.at && part.at[part.len] == '\0');
        snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s", part.at);
    }
    CHECK(strcmp(joined, "xyz") == 0);
    return tok->encode(step, "\xFF", 1, false, &ids); /* not UTF-8 */
}
static const cdz_processor tok_user = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.tok", .version = "1.0.0", .summary = "asks"},
    .begin = tok_begin,
    .apply = p_apply,
};

/* What they give lives as long as the request: called at every step they would fill its memory. */
static cdz_status text_apply(const cdz_step *step, cdz_scores *scores)
{
    cdz_string text;
    (void)scores;
    return cdz_get_tokenizer(step)->decode(step, step->input_ids[0], false, &text);
}

static cdz_status no_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

static cdz_status text_accept(const cdz_step *step, uint32_t row, int32_t token)
{
    cdz_ids ids;
    (void)row, (void)token;
    return cdz_get_tokenizer(step)->encode(step, "xyz", 3, false, &ids);
}

static void test_text_has_its_time(void **state)
{
    static const cdz_processor decodes = {
        .base = {CDZ_PROCESSOR_BASE, .id = "test.text", .version = "1.0.0", .summary = "asks"},
        .caps = CDZ_NEEDS_IDS,
        .apply = text_apply,
    };
    static const cdz_processor encodes = {
        .base = {CDZ_PROCESSOR_BASE, .id = "test.text", .version = "1.0.0", .summary = "asks"},
        .apply = no_apply,
        .accept = text_accept,
    };
    const cdz_processor *const users[] = {&decodes, &encodes};
    static const char *const says[] = {"test.text: decode works in begin",
                                       "test.text: encode works in begin"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rig r = open_small();
        cdz_run_model_release(r.model);
        r.model = open_model_with(r.engine, "llama_gqa", true);
        hand_plan plan;
        answer a;
        plan_init(&plan, built_plugin("greedy"), NULL);
        plan_add_processor(&plan, users[i], NULL);
        new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a);
        assert_int_equal(run(&r, &a)->error.code, CDZ_E_STATE);
        wants_text(a.outcome->error.text, says[i]);
        answer_free(&a);
        rig_close(&r);
    }
}

static void test_tokenizer_extension(void **state)
{
    (void)state;
    rig r = open_small();
    cdz_run_model_release(r.model);
    r.model = open_model_with(r.engine, "llama_gqa", true);
    hand_plan plan;
    answer a;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_processor(&plan, &tok_user, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a);
    assert_int_equal(run(&r, &a)->error.code, CDZ_E_INPUT);
    wants_text(a.outcome->error.text, "test.tok: ");
    wants_text(a.outcome->error.text, "UTF-8");
    answer_free(&a);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel_running),
        cmocka_unit_test(test_cancel_and_deadline_in_queue),
        cmocka_unit_test(test_deadline_running),
        cmocka_unit_test(test_verbs_after_cancel),
        cmocka_unit_test(test_free_cancels),
        cmocka_unit_test(test_never_fits),
        cmocka_unit_test(test_memory_full),
        cmocka_unit_test(test_refused_goes_on),
        cmocka_unit_test(test_queue_full),
        cmocka_unit_test(test_queue_places),
        cmocka_unit_test(test_bad_prompts),
        cmocka_unit_test(test_failing_plugins),
        cmocka_unit_test(test_lowest_row_speaks),
        cmocka_unit_test(test_nan_scores),
        cmocka_unit_test(test_sibling_fails),
        cmocka_unit_test(test_reused_by_none),
        cmocka_unit_test(test_host_table),
        cmocka_unit_test(test_tokenizer_extension),
        cmocka_unit_test(test_text_has_its_time),
    };
    return cmocka_run_group_tests_name("run trouble", tests, NULL, NULL);
}
