/* test_beam.c - beam search and beam sampling: vectors of the reference on models that are tables, what a search shares,
 * and what it leaves behind when it is cut short. The recorded cases of real models are parity's. */
#include "support/run_strategies.h"

#include "cadenza/cadenza.h"
#include "kernels.h"
#include "support/opened.h"

/* --- documents ---------------------------------------------------------------------------------------------------- */

static bool close_to(double got, double want)
{
    return fabs(got - want) <= 6e-5 + 1e-5 * fabs(want);
}

/* Every value of `want` is in `got`: integers and words exactly, others nearly. */
static bool holds(const cdz_json *got, const cdz_json *want)
{
    double a, b;
    if (want->type == CDZ_JSON_ARRAY) {
        bool same = cdz_json_is(got, CDZ_JSON_ARRAY) && got->len == want->len;
        for (uint32_t i = 0; same && i < want->len; i++)
            same = holds(&got->items[i], &want->items[i]);
        return same;
    }
    if (want->type == CDZ_JSON_INT && cdz_json_is(got, CDZ_JSON_INT))
        return got->integer == want->integer;
    if (want->type == CDZ_JSON_STRING) return cdz_json_eq(got, want->string);
    return cdz_json_number(want, &a) && got && cdz_json_number(got, &b) && close_to(b, a);
}

typedef struct table {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_arena arena;
} table;

static table table_open(const char *name)
{
    table t = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/beam/%s", CADENZA_TEST_DATA, name);
    t.rt = opened_runtime(NULL);
    t.model = opened_model(t.rt, path);
    return t;
}

static void table_close(table *t)
{
    cdz_model_close(t->model);
    cdz_close(t->rt);
    cdz_arena_free(&t->arena);
}

/* Runs a document; the answer lives in the table's arena. NULL: it failed, and why says what. */
static const cdz_json *ask(table *t, const char *document, cdz_error *why)
{
    cdz_request request = {.size = sizeof request, .model = t->model, .json = document};
    cdz_result *result = NULL;
    cdz_json *said = cdz_arena_alloc(&t->arena, sizeof *said);
    assert_non_null(said);
    *why = (cdz_error){0};
    if (cdz_generate(t->rt, &request, &result, why) != CDZ_OK) {
        cdz_result_free(result);
        return NULL;
    }
    cdz_error err = {0};
    const char *text = cdz_arena_strdup(&t->arena, cdz_result_json(result));
    must(cdz_json_parse(text, strlen(text), "answer", NULL, &t->arena, said, &err), &err);
    cdz_result_free(result);
    return said;
}

static const cdz_json *ask_well(table *t, const char *document)
{
    cdz_error why;
    const cdz_json *said = ask(t, document, &why);
    if (!said) fail_msg("%s", why.text);
    return said;
}

/* --- vectors ------------------------------------------------------------------------------------------------------- */

static void compare(const cdz_json *c, const cdz_json *said)
{
    const cdz_json *expect = cdz_json_get(c, "expect");
    for (uint32_t i = 0; i < expect->len; i++) {
        const cdz_json_member *m = &expect->members[i];
        cdz_buf text = {0};
        const cdz_json *got = cdz_json_get(said, m->key);
        if (holds(got, &m->value)) continue;
        if (got) cdz_json_write(&text, got);
        fail_msg("%s: %s is %s", cdz_json_get(c, "id")->string, m->key,
                 text.data ? text.data : "missing");
    }
}

static uint32_t replay(const char *name)
{
    table t = table_open(name);
    cdz_json cases;
    char path[512];
    cdz_error err = {0};
    snprintf(path, sizeof path, "%s/beam/%s/cases.json", CADENZA_TEST_DATA, name);
    must(cdz_json_read_file(path, 0, NULL, &t.arena, &cases, &err), &err);
    const uint32_t n = cases.len;
    for (uint32_t i = 0; i < n; i++) {
        cdz_buf document = {0};
        cdz_json_write(&document, &cases.items[i]);
        compare(&cases.items[i], ask_well(&t, document.data));
        cdz_buf_free(&document);
    }
    table_close(&t);
    return n;
}

static void vectors(void **state)
{
    (void)state;
    assert_int_equal(replay("transitions"), 22);
}

static void stopping_rules(void **state)
{
    (void)state;
    assert_int_equal(replay("stopping"), 3);
}

/* --- answers ------------------------------------------------------------------------------------------------------- */

#define PROMPT "{\"prompt_ids\": [[0]], \"attention_mask\": [[1]], \"seed\": 1, \"kwargs\": "

static const struct {
    const char *name, *kwargs, *field, *want;
} answers[] = {
    {"without an end token -1 fills",
     "{\"num_beams\": 2, \"num_return_sequences\": 2, \"max_new_tokens\": 3, \"eos_token_id\": null}",
     "sequences", "[[0, 1, 2, 4], [0, 1, 2, 3]]"},
    {"several ends, each makes room for more candidates",
     "{\"num_beams\": 2, \"num_return_sequences\": 2, \"max_new_tokens\": 6, \"eos_token_id\": [4, 3], "
     "\"pad_token_id\": 1}",
     "sequences", "[[0, 1, 2, 4], [0, 1, 2, 3]]"},
    {"one beam returned of three",
     "{\"num_beams\": 3, \"max_new_tokens\": 3, \"eos_token_id\": 4, \"pad_token_id\": 3}", "ids",
     "[1, 2, 4]"},
    {"why each sequence ended",
     "{\"num_beams\": 2, \"num_return_sequences\": 2, \"max_new_tokens\": 3, \"eos_token_id\": 4, "
     "\"pad_token_id\": 3, \"length_penalty\": 0.0}",
     "finish_reason", "[\"stop\", \"length\"]"},
    {"ids leave the filling out",
     "{\"num_beams\": 2, \"num_return_sequences\": 2, \"max_new_tokens\": 3, \"eos_token_id\": 4, "
     "\"pad_token_id\": 0, \"length_penalty\": 0.0}",
     "ids", "[[2, 4], [1, 2, 4]]"},
    {"processors work on log-probabilities",
     "{\"num_beams\": 2, \"max_new_tokens\": 1, \"eos_token_id\": null, \"output_logprobs\": true, "
     "\"sequence_bias\": [[[3], 2.0]]}",
     "transition_scores", "[[0.10288]]"},
    {"processed log-probabilities",
     "{\"num_beams\": 2, \"max_new_tokens\": 1, \"eos_token_id\": null, \"output_logprobs\": true, "
     "\"sequence_bias\": [[[3], 2.0]]}",
     "logprobs", "[[-0.569227]]"},
    {"raw log-probabilities",
     "{\"num_beams\": 2, \"max_new_tokens\": 1, \"eos_token_id\": null, \"output_logprobs\": true, "
     "\"sequence_bias\": [[[3], 2.0]]}",
     "raw_logprobs", "[[-1.89712]]"},
};

static void what_an_answer_holds(void **state)
{
    table t = table_open("transitions");
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        char document[512];
        cdz_json want;
        cdz_error err = {0};
        snprintf(document, sizeof document, PROMPT "%s}", answers[i].kwargs);
        must(cdz_json_parse(answers[i].want, strlen(answers[i].want), "want", NULL, &t.arena, &want,
                            &err),
             &err);
        const cdz_json *got = cdz_json_get(ask_well(&t, document), answers[i].field);
        cdz_buf text = {0};
        if (holds(got, &want)) continue;
        if (got) cdz_json_write(&text, got);
        fail_msg("%s: %s", answers[i].name, text.data ? text.data : "missing");
    }
    table_close(&t);
}

/* The recorded scores at beam_indices add up to sequences_scores times length to the penalty. */
static void scores_add_up(void **state)
{
    table t = table_open("transitions");
    (void)state;
    const cdz_json *a = ask_well(
        &t,
        "{\"prompt_ids\": [[0], [1]], \"attention_mask\": [[1], [1]], \"kwargs\": {\"num_beams\": 3, "
        "\"num_return_sequences\": 2, \"max_new_tokens\": 5, \"eos_token_id\": 4, \"pad_token_id\": 3, "
        "\"length_penalty\": 0.5, \"output_scores\": true, \"repetition_penalty\": 1.2}}");
    const cdz_json *scores = cdz_json_get(a, "scores"), *rows = cdz_json_get(a, "beam_indices");
    const cdz_json *ids = cdz_json_get(a, "sequences"),
                   *totals = cdz_json_get(a, "sequences_scores");
    assert_int_equal(scores->len, cdz_json_get(a, "n_steps")->integer);
    assert_int_equal(scores->items[0].len, 6);
    assert_int_equal(rows->len, 4);
    for (uint32_t r = 0; r < rows->len; r++) {
        double sum = 0, total, x;
        uint32_t n = 0;
        for (; n < rows->items[r].len && rows->items[r].items[n].integer >= 0; n++) {
            const int64_t row = rows->items[r].items[n].integer;
            const int64_t token = ids->items[r].items[1 + n].integer;
            assert_true(row / 3 == r / 2); /* beams of the prompt's own */
            assert_true(cdz_json_number(&scores->items[n].items[row].items[token], &x));
            sum += x;
        }
        assert_true(cdz_json_number(&totals->items[r], &total));
        if (!close_to(sum / sqrt(n), total)) fail_msg("row %u: %g is not %g", r, sum, total);
    }
    table_close(&t);
}

static const struct {
    const char *name, *kwargs, *sentence;
} refusals[] = {
    {"more candidates than tokens", "{\"num_beams\": 2, \"eos_token_id\": [0, 1, 2, 3, 4]}",
     "need 12 candidates, but 2 beams of 5 tokens have only 10"},
    {"low memory", "{\"num_beams\": 2, \"low_memory\": true}", "low_memory: is not possible"},
    {"more sequences than beams", "{\"num_beams\": 2, \"num_return_sequences\": 3}",
     "num_return_sequences: must not be above num_beams"},
    {"a rule of another name", "{\"num_beams\": 2, \"early_stopping\": \"often\"}",
     "early_stopping"},
};

static void refused(void **state)
{
    table t = table_open("transitions");
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char document[512];
        cdz_error why;
        snprintf(document, sizeof document, PROMPT "%s}", refusals[i].kwargs);
        if (ask(&t, document, &why) || !strstr(why.text, refusals[i].sentence))
            fail_msg("%s: %s", refusals[i].name, why.text);
    }
    table_close(&t);
}

/* --- plans by hand --------------------------------------------------------------------------------------------------- */

/* Parameters of beam.so, as its table lays them out. */
typedef struct beam_params {
    cdz_opt_real length_penalty;
    cdz_word early_stopping;
} beam_params;

static void beam_plan(hand_plan *plan, uint32_t n_beams, uint32_t n_returned)
{
    static const beam_params defaults = {{1.0, true, false}, {0, false}};
    const cdz_plugin_base *beam = built_plugin("beam");
    assert_int_equal(beam->params_size, sizeof defaults);
    plan_init(plan, beam, &defaults);
    cdz_params_defaults(cdz_generation_table(), &plan->plan.generation);
    plan->plan.generation.num_beams = n_beams;
    plan->plan.generation.num_return_sequences = n_returned;
    plan_add_criterion(plan, &length_rule, NULL);
}

/* A prompt of 50 blocks and a bit. */
enum { LONG = 1610 };

/* Most KV blocks that a request of n beams held. */
static uint64_t peak_of(uint32_t n_beams, uint64_t kv_bytes)
{
    rig r =
        rig_open("../beam/transitions", (cdz_engine_options){.n_threads = 1, .kv_bytes = kv_bytes});
    int32_t ids[LONG];
    hand_plan plan;
    answer a;
    cdz_engine_stats stats;
    for (int32_t i = 0; i < LONG; i++) ids[i] = i * i % 4;
    beam_plan(&plan, n_beams, 1);
    if (n_beams == 1) plan.plan.strategy = instance_of(built_plugin("greedy"), NULL);
    cdz_job *job = new_job(&r, &plan, ids, NULL, 1, LONG, 40, &a);
    job->n_rows = n_beams;
    run_well(&r, &a);
    cdz_engine_get_stats(r.engine, &stats);
    answer_free(&a);
    rig_close(&r);
    return stats.kv_blocks_peak;
}

static uint64_t block_bytes(void)
{
    static const cdz_kv_shape shape = {.n_layers = 1, .n_kv_heads = 2, .head_dim = 8};
    char why[256];
    cdz_backend *backend = cdz_cpu_backend_create(
        &(cdz_cpu_options){.variant = "scalar", .n_threads = 1}, why, sizeof why);
    assert_non_null(backend);
    const uint64_t bytes = backend->api->kv_block_bytes(backend, &shape);
    backend->api->destroy(backend);
    return bytes;
}

static void beams_share_the_prompt(void **state)
{
    (void)state;
    const uint64_t one = peak_of(1, 64 << 20), eight = peak_of(8, 64 << 20);
    if (one != 52 || eight <= one || eight * 10 >= one * 13)
        fail_msg("8 beams hold %u blocks, one %u", (unsigned)eight, (unsigned)one);
    /* And need not eight times the memory to be admitted. */
    assert_int_equal(peak_of(8, 80 * block_bytes()), eight);
}

/* --- what runs beside a search ---------------------------------------------------------------------------------------- */

/* A state that tells whether it saw exactly the tokens of its row. */
static uint64_t mixed(uint64_t h, int32_t token)
{
    return (h ^ (uint64_t)(uint32_t)token) * 0x100000001b3u + 1;
}

static cdz_status watch(const cdz_step *step, cdz_scores *scores)
{
    (void)scores;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        uint64_t want = 0, have;
        for (uint32_t i = step->request->prompt_len; i < step->input_ids[r].len; i++)
            want = mixed(want, step->input_ids[r].at[i]);
        memcpy(&have, step->row_state[r], sizeof have);
        if (have != want) return SAY("row %u: not its state", r);
    }
    return CDZ_OK;
}

static cdz_status see(const cdz_step *step, uint32_t r, int32_t token)
{
    uint64_t h;
    memcpy(&h, step->row_state[r], sizeof h);
    h = mixed(h, token);
    memcpy(step->row_state[r], &h, sizeof h);
    return CDZ_OK;
}

static const cdz_processor watcher = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.watcher", .version = "1.0.0", .summary = "watch"},
    .caps = CDZ_NEEDS_IDS,
    .state_size = sizeof(uint64_t),
    .apply = watch,
    .accept = see,
};

static const int32_t prompts[2][8] = {
    {5, 80, 201, 44, 17, 300, 9, 120},
    {66, 2, 31, 350, 12, 7, 190, 33},
};

/* Nothing is streamed before the end; then every sequence comes whole. */
static void state_follows_and_text_waits(void **state)
{
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    hand_plan plan;
    answer a;
    (void)state;
    beam_plan(&plan, 4, 2);
    plan_add_processor(&plan, &watcher, NULL);
    plan_add_criterion(&plan, &eos_rule, NULL);
    cdz_job *job = new_job(&r, &plan, prompts[0], NULL, 2, 8, 40, &a);
    static const int32_t eos[] = {210, 254};
    job->n_rows = 8;
    job->eos = (cdz_ids){eos, 2};
    job->pad = 0;
    const cdz_outcome *outcome = run_well(&r, &a);
    assert_int_equal(outcome->n_rows, 4);
    assert_int_equal(outcome->n_step_rows, 8);
    assert_int_equal(a.n_calls, 4);
    for (uint32_t i = 0; i < 4; i++) {
        const cdz_outcome_row *row = &outcome->rows[i];
        assert_true(row->n_new > 0 && row->n_new + 8 <= row->len && row->scores);
        assert_memory_equal(row->ids, prompts[i / 2], sizeof prompts[0]);
        assert_int_equal(a.n_streamed[i], row->n_new);
        assert_memory_equal(a.streamed[i], row->ids + 8, row->n_new * sizeof(int32_t));
        assert_true(row->stop.reason == CDZ_STOP_EOS || row->stop.reason == CDZ_STOP_LENGTH);
        for (uint32_t k = row->n_new + 8; k < row->len; k++)
            assert_int_equal(row->ids[k], eos[0]); /* pad 0 counts as none */
    }
    answer_free(&a);
    rig_close(&r);
}

/* --- a search cut short ------------------------------------------------------------------------------------------------ */

typedef struct cutter {
    cdz_engine *engine;
    answer *a;
} cutter;

/* Ends the request when rows have three new tokens. */
static cdz_status cut(const cdz_step *step, cdz_scores *scores)
{
    const cutter *c = *(const cutter *const *)step->params;
    (void)scores;
    if (step->input_ids[0].len == step->request->prompt_len + 3)
        cdz_engine_cancel(c->engine, c->a->id, NULL);
    return CDZ_OK;
}

static const cdz_processor cutting = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.cutting", .version = "1.0.0", .summary = "cut"},
    .caps = CDZ_NEEDS_IDS,
    .apply = cut,
};

static void cut_short(void **state)
{
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    hand_plan plan;
    answer a;
    cutter c = {r.engine, &a};
    const cutter *const params = &c;
    (void)state;
    beam_plan(&plan, 3, 2);
    plan_add_processor(&plan, &cutting, &params);
    new_job(&r, &plan, prompts[0], NULL, 1, 8, 40, &a)->n_rows = 3;
    const cdz_outcome *outcome = run(&r, &a);
    assert_int_equal(outcome->error.code, CDZ_E_CANCELLED);
    assert_int_equal(outcome->n_rows, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(outcome->rows[i].n_new, 3);
        assert_int_equal(outcome->rows[i].len, 11);
    }
    assert_memory_not_equal(outcome->rows[0].ids, outcome->rows[1].ids, 11 * sizeof(int32_t));
    answer_free(&a);
    rig_close(&r);
}

/* --- the verbs, used otherwise ------------------------------------------------------------------------------------------ */

/* Long enough for marks of state, reordered between two of them, then taken back. */
static cdz_status run_wander(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t stay[] = {0, 1, 2}, turn[] = {2, 2, 0};
    cdz_scores scores;
    CDZ_TRY(cdz_forward(dec, &scores));
    for (int32_t i = 0; i < 150; i++) {
        const int32_t tokens[] = {i, i + 1, i + 2};
        CDZ_TRY(cdz_extend_rows(dec, i == 100 ? turn : stay, tokens));
    }
    CHECK(cdz_input_ids(dec, 0).len == 158 && !cdz_done(dec));
    CHECK(cdz_input_ids(dec, 1).at[8 + 99] == 101 && cdz_input_ids(dec, 1).at[8 + 100] == 101);
    CDZ_TRY(cdz_rewind(dec, 1, 10));
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_process(dec, &scores)); /* the watcher compares */
    return CDZ_OK;
}
STRATEGY(wander, run_wander, CDZ_BEAMS);

/* Every misuse is a sentence, and nothing that was returned before is lost. */
static cdz_status run_misuse(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t good[] = {7, 8, 9}, bad[] = {7, 8, 384}, fill[] = {7, -1};
    static const uint32_t rows[] = {0, 1, 2}, none[] = {0, 1, 3};
    cdz_scores scores, other;
    cdz_token_score said[3];
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_scratch_scores(dec, 2, &other));
    CHECK(cdz_extend_rows(dec, rows, bad) == CDZ_E_PLUGIN);
    CHECK(cdz_extend_rows(dec, none, good) == CDZ_E_PLUGIN);
    CHECK(cdz_input_ids(dec, 0).len == 8);
    CHECK(cdz_token_scores(dec, &scores, none, good, 3, said) == CDZ_E_PLUGIN);
    CHECK(cdz_token_scores(dec, &scores, rows, bad, 3, said) == CDZ_E_PLUGIN);
    CDZ_TRY(cdz_token_scores(dec, &scores, rows, good, 3, said));
    CHECK(said[1].score == cdz_row(&scores, 1)[8] && isnan(said[1].logprob));
    CHECK(cdz_softmax_flat(dec, &scores, 1, 2, NULL, &other) == CDZ_E_PLUGIN);
    CHECK(cdz_softmax_flat(dec, &scores, 0, 0, NULL, &other) == CDZ_E_PLUGIN);
    CDZ_TRY(cdz_softmax_flat(dec, &scores, 0, 2, NULL, &other));
    cdz_returned back[] = {{.row = 1, .ids = {fill, 2}, .n_new = 1}};
    CDZ_TRY(cdz_return_rows(dec, back, 1));
    back[0].n_new = 2; /* -1 is no token */
    CHECK(cdz_return_rows(dec, back, 1) == CDZ_E_PLUGIN);
    back[0].n_new = 3;
    CHECK(cdz_return_rows(dec, back, 1) == CDZ_E_PLUGIN);
    back[0] = (cdz_returned){.row = 3};
    CHECK(cdz_return_rows(dec, back, 1) == CDZ_E_PLUGIN);
    CHECK(cdz_return_rows(dec, back, 0) == CDZ_E_PLUGIN);
    CHECK(cdz_return_rows(dec, back, 4) == CDZ_E_PLUGIN);
    CDZ_TRY(cdz_finish(dec, 2, CDZ_STOP_CUSTOM, "enough"));
    CHECK(cdz_extend_rows(dec, rows, good) == CDZ_E_STATE);
    return CDZ_OK;
}
STRATEGY(misuse, run_misuse, CDZ_BEAMS);

static void play_verbs(const cdz_strategy *strategy, answer *a)
{
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    hand_plan plan;
    beam_plan(&plan, 3, 1);
    plan.plan.strategy = instance_of(&strategy->base, NULL);
    plan_add_processor(&plan, &watcher, NULL);
    new_job(&r, &plan, prompts[0], NULL, 1, 8, 160, a)->n_rows = 3;
    run_well(&r, a);
    rig_close(&r);
}

static void verbs_of_searches(void **state)
{
    answer a;
    (void)state;
    play_verbs(&wander, &a);
    assert_int_equal(a.outcome->n_rows, 3);
    answer_free(&a);
    play_verbs(&misuse, &a);
    assert_int_equal(a.outcome->n_rows, 1);
    assert_int_equal(a.outcome->rows[0].n_new, 1);
    assert_int_equal(a.outcome->rows[0].ids[9], -1);
    assert_int_equal(a.outcome->rows[0].stop.reason, CDZ_STOP_CUSTOM);
    answer_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(stopping_rules),
        cmocka_unit_test(what_an_answer_holds),
        cmocka_unit_test(scores_add_up),
        cmocka_unit_test(refused),
        cmocka_unit_test(beams_share_the_prompt),
        cmocka_unit_test(state_follows_and_text_waits),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(verbs_of_searches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
