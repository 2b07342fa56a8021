/* test_run_drafts.c - drafters of every kind of honesty, and the verbs that strategies judge them with. */
#include "cadenza/drafter.h"
#include "params/params.h"
#include "support/run_strategies.h"

static const int32_t prompt[] = {5, 80, 201, 44, 17, 300, 9, 120};
enum { PROMPT = 8, V = 384, MAX_NEW = 24 };

#define DRAFTER(name_, propose_)                                                                   \
    static const cdz_drafter name_ = {                                                             \
        .base = {CDZ_DRAFTER_BASE, .id = "test." #name_, .version = "1.0.0", .summary = #name_},   \
        .propose = propose_,                                                                       \
    }

/* Runs a strategy with a drafter (or NULL) on the prompt. */
static cdz_outcome *play_long(const cdz_plugin_base *strategy, const cdz_drafter *drafter,
                              hand_plan *plan, const char *assistant, uint32_t max_new, answer *a)
{
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    if (assistant) r.assistant = open_model(r.engine, assistant);
    plan->plan.strategy = instance_of(strategy, NULL);
    if (drafter) plan->plan.drafter = instance_of(&drafter->base, NULL);
    plan->plan.processors = plan->processors;
    plan->plan.criteria = plan->criteria;
    cdz_job *job = new_job(&r, plan, prompt, NULL, 1, PROMPT, max_new, a);
    job->pad = 0;
    job->seed = 42;
    cdz_outcome *outcome = run(&r, a);
    rig_close(&r);
    return outcome;
}

static cdz_outcome *play(const cdz_plugin_base *strategy, const cdz_drafter *drafter,
                         hand_plan *plan, const char *assistant, answer *a)
{
    return play_long(strategy, drafter, plan, assistant, MAX_NEW, a);
}

/* --- drafters ---------------------------------------------------------------------------------------------------- */

static cdz_status propose_nothing(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    (void)dec, (void)step, (void)draft;
    return CDZ_OK;
}
DRAFTER(silent, propose_nothing);

/* Twice as many as there is room for, and hardly any of them right. */
static cdz_status propose_too_many(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const uint32_t n = 2 * draft->room + 3;
    int32_t *tokens = cdz_scratch(step, n * sizeof *tokens);
    (void)dec;
    CHECK(tokens && draft->history.len >= PROMPT);
    for (uint32_t i = 0; i < n; i++) tokens[i] = (int32_t)((draft->history.len * 7 + i) % V);
    draft->tokens = (cdz_ids){tokens, n};
    return CDZ_OK;
}
DRAFTER(loud, propose_too_many);

/* The model itself, three tokens ahead: all right, from a sequence of the drafter's own. */
static cdz_status propose_the_truth(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const uint32_t n = draft->room < 3 ? draft->room : 3;
    int32_t *tokens = cdz_scratch(step, 3 * sizeof *tokens);
    cdz_seq *seq;
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, draft->row), &seq));
    for (uint32_t i = 0; i < n; i++) {
        cdz_scores scores;
        CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, &tokens[i]));
        CDZ_TRY(cdz_seq_append(dec, seq, &tokens[i], 1));
    }
    cdz_seq_free(dec, seq);
    draft->tokens = (cdz_ids){tokens, n};
    return CDZ_OK;
}
DRAFTER(honest, propose_the_truth);

/* What `rounds` says: how many, and what was accepted in all. */
static uint32_t rounds_of(const cdz_outcome *outcome, int64_t *accepted)
{
    *accepted = 0;
    for (uint32_t i = 0; i < outcome->n_results; i++) {
        const cdz_named_result *r = &outcome->results[i];
        if (strcmp(r->name, "rounds") != 0) continue;
        for (uint64_t k = 0; k < r->shape[0]; k++)
            *accepted += ((const int64_t *)r->data)[2 * k + 1];
        return (uint32_t)r->shape[0];
    }
    return 0;
}

static void ends_as_greedy_does(void **state)
{
    static const struct {
        const cdz_drafter *drafter;
        uint32_t rounds; /* 0: any number */
    } cases[] = {{&silent, MAX_NEW}, {&loud, 0}, {&honest, MAX_NEW / 4}};
    answer plain;
    hand_plan greedy = {0};
    (void)state;
    plan_add_criterion(&greedy, &length_rule, NULL);
    const cdz_outcome *want = play(built_plugin("greedy"), NULL, &greedy, NULL, &plain);
    assert_int_equal(want->error.code, CDZ_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        answer a;
        hand_plan plan = {0};
        int64_t accepted;
        plan_add_criterion(&plan, &length_rule, NULL);
        const cdz_outcome *got = play(built_plugin("assisted"), cases[i].drafter, &plan, NULL, &a);
        if (got->error.code != CDZ_OK) fail_msg("%s", got->error.text);
        assert_int_equal(got->rows[0].len, want->rows[0].len);
        assert_memory_equal(got->rows[0].ids, want->rows[0].ids,
                            want->rows[0].len * sizeof(int32_t));
        const uint32_t rounds = rounds_of(got, &accepted);
        if (cases[i].rounds) assert_int_equal(rounds, cases[i].rounds);
        assert_int_equal(rounds + accepted, MAX_NEW);
        assert_int_equal(a.n_streamed[0], MAX_NEW);
        answer_free(&a);
    }
    answer_free(&plain);
}

static uint32_t asked, heard; /* how often `counting` was, and did */

static cdz_status propose_and_count(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    asked++;
    return propose_too_many(dec, step, draft);
}

static cdz_status hear(cdz_decoder *dec, const cdz_step *step, uint32_t row, uint32_t n_proposed,
                       uint32_t n_accepted)
{
    (void)dec, (void)step, (void)row;
    CHECK(n_accepted <= n_proposed);
    heard++;
    return CDZ_OK;
}

static const cdz_drafter counting = {
    .base = {CDZ_DRAFTER_BASE, .id = "test.counting", .version = "1.0.0", .summary = "counts"},
    .propose = propose_and_count,
    .judged = hear,
};

/* The engine chooses how long drafts are, and when there are none: the tokens stay. */
static void the_pace_of_drafts_changes_no_token(void **state)
{
    enum { LONG = 200 };
    const cdz_drafter *drafters[] = {&silent, &counting, &honest};
    answer plain;
    hand_plan greedy = {0};
    (void)state;
    plan_add_criterion(&greedy, &length_rule, NULL);
    const cdz_outcome *want = play_long(built_plugin("greedy"), NULL, &greedy, NULL, LONG, &plain);
    assert_int_equal(want->error.code, CDZ_OK);
    for (size_t i = 0; i < sizeof drafters / sizeof drafters[0]; i++) {
        answer a;
        hand_plan plan = {.plan.paces_drafts = true};
        int64_t accepted;
        asked = heard = 0;
        plan_add_criterion(&plan, &length_rule, NULL);
        const cdz_outcome *got =
            play_long(built_plugin("assisted"), drafters[i], &plan, NULL, LONG, &a);
        if (got->error.code != CDZ_OK) fail_msg("%s", got->error.text);
        assert_int_equal(got->rows[0].len, want->rows[0].len);
        assert_memory_equal(got->rows[0].ids, want->rows[0].ids,
                            want->rows[0].len * sizeof(int32_t));
        const uint32_t rounds = rounds_of(got, &accepted);
        assert_int_equal(rounds + accepted, LONG);
        if (drafters[i] == &counting) {
            assert_int_equal(asked, heard);
            assert_true(asked < rounds); /* not where what one row costs was to be learnt */
        }
        answer_free(&a);
    }
    answer_free(&plain);
}

/* --- drafters that fail ------------------------------------------------------------------------------------------ */

static cdz_status propose_outside(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    static const int32_t outside[] = {3, V};
    (void)dec, (void)step;
    draft->tokens = (cdz_ids){outside, 2};
    return CDZ_OK;
}
DRAFTER(outside, propose_outside);

static cdz_status propose_error(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    (void)dec, (void)draft;
    return (step->host->fail)(step, CDZ_E_INPUT, "no idea");
}
DRAFTER(failing, propose_error);

static cdz_status propose_bad_verb(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    cdz_seq *seq;
    (void)step, (void)draft;
    return cdz_seq_new(dec, "nobody", &seq);
}
DRAFTER(clumsy, propose_bad_verb);

static cdz_status propose_short_scores(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    static const int32_t tokens[] = {3, 4};
    (void)step;
    draft->tokens = (cdz_ids){tokens, 2};
    return cdz_scratch_scores(dec, 1, &draft->scores);
}
DRAFTER(short_scores, propose_short_scores);

static void a_drafters_fault_has_a_sentence(void **state)
{
    static const struct {
        const cdz_drafter *drafter;
        cdz_status code;
        const char *says;
    } cases[] = {
        {NULL, CDZ_E_USAGE, "assisted: there is nothing to draft with"},
        {&outside, CDZ_E_PLUGIN, "test.outside: propose named token 384, which is outside"},
        {&failing, CDZ_E_INPUT, "test.failing: no idea"},
        {&clumsy, CDZ_E_NOT_FOUND, "seq_new: the request has no model \"nobody\""},
        {&short_scores, CDZ_E_PLUGIN, "propose gave 1 score rows of 384 for 2 tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        answer a;
        hand_plan plan = {0};
        plan_add_criterion(&plan, &length_rule, NULL);
        const cdz_outcome *got = play(built_plugin("assisted"), cases[i].drafter, &plan, NULL, &a);
        if (got->error.code != cases[i].code || !strstr(got->error.text, cases[i].says))
            fail_msg("case %zu: %d %s", i, (int)got->error.code, got->error.text);
        answer_free(&a);
    }
}

/* --- made-up histories and selections ----------------------------------------------------------------------------- */

/* Counts in column 2 how often it ran, and in the last column of the request that there is one. */
static cdz_status tally_apply(const cdz_step *step, cdz_scores *scores)
{
    CHECK(scores->n_vocab == step->request->n_vocab);
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        cdz_row(scores, r)[2] += 1000;
        cdz_row(scores, r)[scores->n_vocab - 1] = 5;
        for (uint32_t i = 0; i < step->input_ids[r].len; i++)
            CHECK((uint32_t)step->input_ids[r].at[i] < scores->n_vocab);
    }
    return CDZ_OK;
}
static const cdz_processor tally = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.tally", .version = "1.0.0", .summary = "tally"},
    .caps = CDZ_NEEDS_IDS,
    .apply = tally_apply,
};

static cdz_status run_histories(cdz_decoder *dec, const cdz_step *step)
{
    static const char *const ids_of[] = {"test.tally", "test.nobody"};
    const int32_t tail[] = {7, 8, 9};
    const uint32_t rows[] = {0, 0, 0};
    cdz_scores scores;
    int32_t history[PROMPT + 3];
    uint32_t without, twice;
    memcpy(history, prompt, sizeof prompt);
    memcpy(history + PROMPT, tail, sizeof tail);
    const cdz_ids ids[] = {{history, PROMPT}, {history, PROMPT + 3}, {history, PROMPT + 1}};
    CDZ_TRY(cdz_scratch_scores(dec, 3, &scores));
    CDZ_TRY(cdz_process_ids(dec, 0, ids, rows, 3, &scores));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(cdz_row(&scores, i)[0] == hash_of(ids[i], PROMPT)); /* the state */
        CHECK(cdz_row(&scores, i)[1] == hash_of(ids[i], PROMPT)); /* the ids */
        CHECK(cdz_row(&scores, i)[2] == 1000);
    }
    CDZ_TRY(cdz_pipeline_derive(dec, ids_of, 1, NULL, 0, &without));
    CDZ_TRY(cdz_pipeline_derive(dec, NULL, 0, ids_of, 2, &twice));
    CDZ_TRY(cdz_process_ids(dec, without, ids, rows, 3, &scores));
    CHECK(cdz_row(&scores, 1)[2] == 1000);
    CDZ_TRY(cdz_process_ids(dec, twice, ids, rows, 3, &scores));
    CHECK(cdz_row(&scores, 1)[2] == 3000);
    CDZ_TRY(cdz_process_ids(dec, 0, ids, rows, 3, &scores));
    CHECK(cdz_row(&scores, 1)[2] == 4000);
    CHECK(cdz_process_ids(dec, twice + 1, ids, rows, 3, &scores) == CDZ_E_PLUGIN);
    CHECK(cdz_process_ids(dec, 0, ids, rows, 2, &scores) == CDZ_E_PLUGIN);
    CHECK(cdz_input_ids(dec, 0).len == PROMPT);
    return CDZ_OK;
}
STRATEGY(histories, run_histories, 0);

/* The draft's vocabulary is smaller: its rows keep their width, processors see the request's. */
static cdz_status run_foreign(cdz_decoder *dec, const cdz_step *step)
{
    const uint32_t n_draft = cdz_vocab_size(dec, "assistant"), row = 0;
    const int32_t ids[] = {1, (int32_t)n_draft - 1, 3};
    cdz_seq *seq;
    cdz_scores scores;
    CHECK(n_draft == 352);
    CDZ_TRY(cdz_seq_new(dec, "assistant", &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, ids, 3));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores));
    const float before = scores.data[2], last = scores.data[n_draft - 1];
    const cdz_ids history = cdz_seq_ids(dec, seq);
    CDZ_TRY(cdz_process_ids(dec, 0, &history, &row, 1, &scores));
    CHECK(scores.n_vocab == n_draft && scores.data[2] == before + 1000);
    CHECK(scores.data[n_draft - 1] == last);
    return CDZ_OK;
}
STRATEGY(foreign, run_foreign, 0);

/* Sequences that stop after some layers. */
static cdz_status run_exits(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *whole, *first, *all, *none;
    cdz_scores got, kept;
    CDZ_TRY(cdz_seq_new(dec, NULL, &whole));
    CDZ_TRY(cdz_seq_new_exit(dec, "target", 1, &first));
    CDZ_TRY(cdz_seq_new_exit(dec, "target", 3, &all));
    CHECK(cdz_seq_new_exit(dec, "target", 4, &none) == CDZ_E_USAGE);
    CHECK(cdz_seq_new_exit(dec, "target", 0, &none) == CDZ_E_USAGE);
    cdz_seq *seqs[] = {whole, first, all};
    for (int i = 0; i < 3; i++) CDZ_TRY(cdz_seq_append(dec, seqs[i], prompt, PROMPT));
    CHECK(cdz_seq_forward(dec, seqs, 2, CDZ_POSITIONS_LAST, &got) == CDZ_E_PLUGIN);
    CDZ_TRY(cdz_scratch_scores(dec, 1, &kept));
    CDZ_TRY(cdz_seq_forward(dec, &whole, 1, CDZ_POSITIONS_LAST, &got));
    memcpy(kept.data, got.data, V * sizeof(float));
    CDZ_TRY(cdz_seq_forward(dec, &first, 1, CDZ_POSITIONS_LAST, &got));
    CHECK(!same_floats(kept.data, got.data, V));
    CDZ_TRY(cdz_seq_forward(dec, &all, 1, CDZ_POSITIONS_LAST, &got));
    CHECK(same_floats(kept.data, got.data, V));
    CDZ_TRY(cdz_seq_fork(dec, first, &none)); /* as deep as what it came from */
    CDZ_TRY(cdz_seq_forward(dec, &first, 1, CDZ_POSITIONS_LAST, &got));
    memcpy(kept.data, got.data, V * sizeof(float));
    CDZ_TRY(cdz_seq_forward(dec, &none, 1, CDZ_POSITIONS_LAST, &got));
    CHECK(same_floats(kept.data, got.data, V));

    /* What a layer left, read through the model's end, is what an exit there says. */
    static const uint32_t layer = 1;
    cdz_seq *again;
    cdz_hidden hidden;
    CDZ_TRY(cdz_keep_hidden(dec, CDZ_POSITIONS_LAST, &layer, 1));
    CDZ_TRY(cdz_seq_new(dec, NULL, &again));
    CDZ_TRY(cdz_seq_append(dec, again, prompt, PROMPT));
    CDZ_TRY(cdz_seq_forward(dec, &again, 1, CDZ_POSITIONS_LAST, &got));
    CDZ_TRY(cdz_hidden_states(dec, &hidden));
    CDZ_TRY(cdz_lens(dec, cdz_hidden_row(&hidden, 0, 0), 1, &got));
    CHECK(got.n_rows == 1 && same_floats(kept.data, got.data, V));
    CDZ_TRY(cdz_head(dec, cdz_hidden_row(&hidden, 0, 0), 1, &got));
    CHECK(!same_floats(kept.data, got.data, V));
    CHECK(cdz_lens(dec, hidden.data, 0, &got) == CDZ_E_PLUGIN);
    return CDZ_OK;
}
STRATEGY(exits, run_exits, 0);

/* --- chunks and verdicts ------------------------------------------------------------------------------------------- */

/* Ends a row at token 77. */
static cdz_status test_77(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (step->input_ids[r].at[step->input_ids[r].len - 1] == 77)
            stops[r].reason = CDZ_STOP_CUSTOM;
    return CDZ_OK;
}
static const cdz_criterion at_77 = {
    .base = {CDZ_CRITERION_BASE, .id = "test.at77", .version = "1.0.0", .summary = "77"},
    .test = test_77,
};

static cdz_status run_chunk(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t tokens[] = {5, 77, 6}, no_token = V;
    bool quirks = false;
    uint32_t taken;
    CDZ_TRY(step->host->config(step, "quirks", CDZ_T_BOOL, &quirks));
    CHECK(cdz_append_chunk(dec, 0, &no_token, 1, NULL, NULL, &taken) == CDZ_E_PLUGIN);
    CHECK(cdz_append_chunk(dec, 1, tokens, 1, NULL, NULL, &taken) == CDZ_E_PLUGIN);
    CDZ_TRY(cdz_append_chunk(dec, 0, tokens, 3, NULL, NULL, &taken));
    CHECK(taken == (quirks ? 3u : 2u) && cdz_row_done(dec, 0) == !quirks);
    if (!quirks) CHECK(cdz_append_chunk(dec, 0, tokens, 1, NULL, NULL, &taken) == CDZ_E_STATE);
    return CDZ_OK;
}
STRATEGY(chunk, run_chunk, 0);

static cdz_status run_verdicts(cdz_decoder *dec, const cdz_step *step)
{
    cdz_draft draft;
    CHECK(cdz_has_drafter(dec));
    CDZ_TRY(cdz_propose(dec, 0, &draft));
    CHECK(draft.room == MAX_NEW - 1 && draft.tokens.len == draft.room);
    CHECK(cdz_judged(dec, 0, draft.tokens.len + 1) == CDZ_E_PLUGIN);
    CHECK(cdz_judged(dec, 1, 0) == CDZ_E_PLUGIN);
    CHECK(cdz_propose(dec, 1, &draft) == CDZ_E_PLUGIN);
    return cdz_judged(dec, 0, 2);
}
STRATEGY(verdicts, run_verdicts, 0);

static void verbs(void **state)
{
    static const struct {
        const cdz_strategy *strategy;
        const cdz_drafter *drafter;
        const char *assistant;
        bool quirks;
    } cases[] = {
        {&histories, NULL, NULL, false}, {&foreign, NULL, "llama_uad_draft", false},
        {&exits, NULL, NULL, false},     {&chunk, NULL, NULL, false},
        {&chunk, NULL, NULL, true},      {&verdicts, &loud, NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        answer a;
        hand_plan plan = {0};
        plan_add_processor(&plan, &hash_rows, NULL);
        plan_add_processor(&plan, &tally, NULL);
        plan_add_criterion(&plan, &at_77, NULL);
        plan.plan.generation.quirks = cases[i].quirks;
        const cdz_outcome *got =
            play(&cases[i].strategy->base, cases[i].drafter, &plan, cases[i].assistant, &a);
        if (got->error.code != CDZ_OK) fail_msg("case %zu: %s", i, got->error.text);
        answer_free(&a);
    }
}

/* --- a draft model that ends before the model does ----------------------------------------------------------------- */

/* gpt2 has learned positions; this one is cut to fewer. */
static cdz_run_model *open_short(cdz_engine *engine, uint32_t n_positions)
{
    cdz_error err = {0};
    cdz_weights *weights;
    cdz_run_model *model;
    must(cdz_weights_open(CADENZA_TEST_DATA "/golden/gpt2", &weights, &err), &err);
    assert_true(n_positions <= weights->arch.context);
    weights->arch.context = n_positions;
    must(cdz_run_model_create(engine, weights, NULL, &model, &err), &err);
    return model;
}

/* Drafts by the model itself, so that all of them are right: 8 tokens of prompt, 24 new ones. */
static cdz_outcome *play_short(uint32_t n_positions, bool drafts, answer *a)
{
    static const int32_t ids[PROMPT] = {5, 80, 201, 44, 17, 30, 9, 120};
    const cdz_plugin_base *drafter = built_plugin("model");
    const cdz_param_table table = cdz_params_of(drafter);
    void *params = calloc(1, drafter->params_size);
    rig r = rig_open("gpt2", (cdz_engine_options){.n_threads = 2});
    hand_plan plan = {0};
    assert_non_null(params);
    cdz_params_defaults(&table, params);
    plan_init(&plan, built_plugin(drafts ? "assisted" : "greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    if (drafts) {
        r.assistant = open_short(r.engine, n_positions);
        plan.plan.drafter = instance_of(drafter, params);
    }
    new_job(&r, &plan, ids, NULL, 1, PROMPT, MAX_NEW, a)->pad = 0;
    cdz_outcome *outcome = run(&r, a);
    rig_close(&r);
    free(params);
    return outcome;
}

/* How many tokens were proposed in all. */
static int64_t proposed_of(const cdz_outcome *outcome)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < outcome->n_results; i++) {
        const cdz_named_result *r = &outcome->results[i];
        for (uint64_t k = 0; strcmp(r->name, "rounds") == 0 && k < r->shape[0]; k++)
            n += ((const int64_t *)r->data)[2 * k];
    }
    return n;
}

static void a_draft_stops_where_its_model_does(void **state)
{
    static const struct {
        uint32_t n_positions;
        bool all; /* there is room for every proposal */
    } cases[] = {{256, true}, {PROMPT + MAX_NEW, true}, {20, false}, {PROMPT, false}, {3, false}};
    answer plain;
    (void)state;
    const cdz_outcome *want = play_short(0, false, &plain);
    assert_int_equal(want->error.code, CDZ_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        answer a;
        const uint32_t n = cases[i].n_positions;
        const cdz_outcome *got = play_short(n, true, &a);
        if (got->error.code != CDZ_OK) fail_msg("%u positions: %s", n, got->error.text);
        assert_int_equal(got->rows[0].len, want->rows[0].len);
        assert_memory_equal(got->rows[0].ids, want->rows[0].ids,
                            want->rows[0].len * sizeof(int32_t));
        const int64_t proposed = proposed_of(got);
        if (cases[i].all) assert_true(proposed >= MAX_NEW / 2);
        /* A token after the last position may be proposed, and none behind it. */
        if (!cases[i].all) assert_int_equal(proposed > 0, n >= PROMPT);
        if (!cases[i].all && n >= PROMPT) assert_true(proposed <= n + 1 - PROMPT);
        answer_free(&a);
    }
    answer_free(&plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_as_greedy_does),
        cmocka_unit_test(the_pace_of_drafts_changes_no_token),
        cmocka_unit_test(a_drafters_fault_has_a_sentence),
        cmocka_unit_test(verbs),
        cmocka_unit_test(a_draft_stops_where_its_model_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
