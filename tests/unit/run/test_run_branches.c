/* test_run_branches.c - branches of a search that go on side by side: the same tokens, draws and values as one after the other
 * by the verbs below them, in a pass a token; and further models by name. */
#include "support/run_strategies.h"

#include <math.h>

enum { PROMPT = 6, MOST = 7, BRANCHES = 4 };
static const int32_t prompt[PROMPT] = {5, 80, 201, 44, 17, 300};

static rig open_small(void)
{
    return rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
}

static void run_one(const rig *r, const cdz_strategy *strategy, const cdz_processor *with, answer *a)
{
    hand_plan plan;
    plan_init(&plan, &strategy->base, NULL);
    if (with) plan_add_processor(&plan, with, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(r, &plan, prompt, NULL, 1, PROMPT, MOST, a);
    submit(r, a);
    await_well(a);
}

/* Forks of the row with different first tokens. */
static cdz_status plant(cdz_decoder *dec, cdz_seq **seqs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const int32_t token = (int32_t)(20 + 7 * i);
        CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &seqs[i]));
        CDZ_TRY(cdz_seq_append(dec, seqs[i], &token, 1));
    }
    return CDZ_OK;
}

/* What rollouts is said to do, one branch's step after the other. */
static cdz_status one_by_one(cdz_decoder *dec, cdz_seq **seqs, uint32_t n, bool draws,
                             cdz_rollout *out)
{
    const uint32_t row = 0;
    memset(out, 0, n * sizeof *out);
    for (uint32_t step = 0; step < MOST; step++)
        for (uint32_t i = 0; i < n; i++) {
            cdz_scores scores;
            cdz_pick pick;
            int32_t token;
            if (out[i].stop.reason) continue;
            CDZ_TRY(cdz_seq_forward(dec, &seqs[i], 1, CDZ_POSITIONS_LAST, &scores));
            CDZ_TRY(cdz_seq_process(dec, &seqs[i], &row, 1, &scores));
            CDZ_TRY(cdz_softmax(dec, &scores));
            if (draws) {
                CDZ_TRY(cdz_multinomial(dec, &scores, &token));
            } else {
                CDZ_TRY(cdz_argmax(dec, &scores, 0, &pick));
                token = pick.token;
            }
            CDZ_TRY(cdz_seq_append(dec, seqs[i], &token, 1));
            out[i].n_new++;
            out[i].logprob += logf(cdz_row(&scores, 0)[token]);
            const cdz_ids ids = cdz_seq_ids(dec, seqs[i]);
            const cdz_ids suffix = {ids.at + PROMPT, ids.len - PROMPT};
            CDZ_TRY(cdz_stop_test(dec, &suffix, &row, 1, &out[i].stop));
        }
    return CDZ_OK;
}

static cdz_status run_both(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t rows[BRANCHES] = {0};
    cdz_seq *a[BRANCHES], *b[BRANCHES];
    cdz_rollout ways[2][BRANCHES];
    cdz_scores scores;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(plant(dec, a, BRANCHES));
    CDZ_TRY(plant(dec, b, BRANCHES));
    CDZ_TRY(cdz_rollouts(dec, a, rows, BRANCHES, MOST, false, ways[0]));
    CDZ_TRY(one_by_one(dec, b, BRANCHES, false, ways[1]));
    for (uint32_t i = 0; i < BRANCHES; i++) {
        const cdz_ids x = cdz_seq_ids(dec, a[i]), y = cdz_seq_ids(dec, b[i]);
        CHECK(x.len == y.len && memcmp(x.at, y.at, x.len * sizeof *x.at) == 0);
        CHECK(ways[0][i].n_new == ways[1][i].n_new && ways[0][i].n_new + 1 + PROMPT == x.len);
        CHECK(ways[0][i].logprob == ways[1][i].logprob);
        CHECK(ways[0][i].stop.reason == ways[1][i].stop.reason);
        CHECK(ways[0][i].stop.reason == CDZ_STOP_LENGTH && ways[0][i].n_new == MOST - 1);
    }
    return cdz_append(dec, 0, cdz_seq_ids(dec, a[2]).at[PROMPT]);
}

STRATEGY(both, run_both, CDZ_GREEDY);

static void test_rollouts(void **state)
{
    (void)state;
    rig r = open_small();
    answer a;
    run_one(&r, &both, NULL, &a);
    answer_free(&a);
    run_one(&r, &both, &hash_rows, &a); /* with states that hang on every token */
    answer_free(&a);
    rig_close(&r);
}

static bool draws_them;

/* Drawn side by side or one after the other: branch after branch in each step. */
static cdz_status run_drawn(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t rows[BRANCHES] = {0};
    cdz_seq *seqs[BRANCHES];
    cdz_rollout out[BRANCHES];
    cdz_scores scores;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(plant(dec, seqs, BRANCHES));
    if (draws_them) {
        CDZ_TRY(cdz_rollouts(dec, seqs, rows, BRANCHES, MOST, true, out));
    } else {
        CDZ_TRY(one_by_one(dec, seqs, BRANCHES, true, out));
    }
    for (uint32_t i = 0; i < BRANCHES; i++) {
        const cdz_ids ids = cdz_seq_ids(dec, seqs[i]);
        const uint64_t shape = ids.len;
        const char name[2] = {(char)('a' + i), 0};
        CDZ_TRY(cdz_put_result(dec, name, CDZ_RESULT_I32, 1, &shape, ids.at));
        CHECK(isfinite(out[i].logprob) && out[i].logprob < 0);
    }
    return CDZ_OK;
}

STRATEGY(drawn, run_drawn, CDZ_SAMPLES);

static void test_draws(void **state)
{
    (void)state;
    rig r = open_small();
    answer a, b;
    draws_them = true;
    run_one(&r, &drawn, NULL, &a);
    draws_them = false;
    run_one(&r, &drawn, NULL, &b);
    assert_int_equal(a.outcome->n_results, BRANCHES);
    for (uint32_t i = 0; i < BRANCHES; i++) {
        const cdz_named_result *x = &a.outcome->results[i], *y = &b.outcome->results[i];
        assert_int_equal(x->shape[0], y->shape[0]);
        assert_memory_equal(x->data, y->data, (size_t)x->shape[0] * sizeof(int32_t));
    }
    answer_free(&a);
    answer_free(&b);
    rig_close(&r);
}

/* --- a pass for all ----------------------------------------------------------------------------------------------- */

static cdz_status run_wide(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t rows[BRANCHES] = {0};
    cdz_seq *seqs[BRANCHES];
    cdz_rollout out[BRANCHES];
    cdz_scores scores;
    (void)step;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(plant(dec, seqs, BRANCHES));
    return cdz_rollouts(dec, seqs, rows, BRANCHES, 5, false, out);
}

STRATEGY(wide, run_wide, CDZ_GREEDY);

static void test_passes(void **state)
{
    (void)state;
    rig r = open_small();
    cdz_engine_stats before, after;
    answer a;
    cdz_engine_get_stats(r.engine, &before);
    run_one(&r, &wide, NULL, &a);
    cdz_engine_get_stats(r.engine, &after);
    assert_int_equal(after.passes - before.passes, 6);
    assert_int_equal(after.pass_rows - before.pass_rows, PROMPT + 5 * BRANCHES);
    answer_free(&a);
    rig_close(&r);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static cdz_status run_scorer(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *seqs[BRANCHES];
    cdz_scores scores;
    float got[BRANCHES], alone;
    int32_t tokens[BRANCHES];
    CDZ_TRY(plant(dec, seqs, BRANCHES));
    for (uint32_t i = 0; i < BRANCHES; i++) tokens[i] = (int32_t)(100 + i);
    CDZ_TRY(cdz_seq_append_forward(dec, seqs, tokens, BRANCHES, &scores));
    CHECK(scores.n_rows == BRANCHES);
    CDZ_TRY(cdz_seq_score(dec, seqs, BRANCHES, 2, got));
    for (uint32_t i = 0; i < BRANCHES; i++) {
        const cdz_ids ids = cdz_seq_ids(dec, seqs[i]);
        const float *fresh;
        double want = 0;
        CHECK(ids.len == PROMPT + 2);
        for (uint32_t k = 2; k > 0; k--) {
            double sum = 0;
            CDZ_TRY(fresh_scores(dec, (cdz_ids){ids.at, ids.len - k}, &fresh));
            for (uint32_t v = 0; v < scores.n_vocab; v++) sum += exp((double)fresh[v]);
            want += (double)fresh[ids.at[ids.len - k]] - log(sum);
        }
        CHECK(fabs(want - (double)got[i]) < 1e-4);
        CDZ_TRY(cdz_seq_score(dec, &seqs[i], 1, 2, &alone));
        CHECK(alone == got[i]);
        CHECK(cdz_seq_ids(dec, seqs[i]).len == PROMPT + 2);
    }
    cdz_seq *row = cdz_seq_of_row(dec, 0);
    CDZ_TRY(cdz_seq_score(dec, &row, 1, 3, &alone));
    CHECK(alone < 0 && cdz_input_ids(dec, 0).len == PROMPT);
    return CDZ_OK;
}

STRATEGY(scorer, run_scorer, CDZ_GREEDY);

static void test_values(void **state)
{
    (void)state;
    rig r = open_small();
    answer a;
    run_one(&r, &scorer, NULL, &a);
    answer_free(&a);
    rig_close(&r);
}

/* --- further models ----------------------------------------------------------------------------------------------- */

/* The same model under two names, and another one: each has sequences of its own, and says what it says alone. */
static cdz_status run_asker(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *own, *same, *other, *again;
    cdz_scores scores;
    cdz_model_facts facts = {.size = sizeof facts};
    CHECK(cdz_vocab_size(dec, "critic") > 0 && cdz_facts(dec, "critic", &facts));
    CHECK(cdz_vocab_size(dec, "nobody") == 0);
    CDZ_TRY(cdz_seq_new(dec, NULL, &own));
    CDZ_TRY(cdz_seq_new(dec, "itself", &same));
    CDZ_TRY(cdz_seq_new(dec, "critic", &other));
    CDZ_TRY(cdz_seq_new(dec, "reward", &again));
    CDZ_TRY(cdz_seq_append(dec, own, prompt, PROMPT));
    CDZ_TRY(cdz_seq_append(dec, same, prompt, PROMPT));
    CDZ_TRY(cdz_seq_append(dec, other, prompt, PROMPT));
    CDZ_TRY(cdz_seq_append(dec, again, prompt, PROMPT));
    float *ours, *theirs;
    CDZ_TRY(cdz_seq_forward(dec, &own, 1, CDZ_POSITIONS_LAST, &scores));
    ours = keep_floats(cdz_row(&scores, 0), scores.n_vocab);
    CDZ_TRY(cdz_seq_forward(dec, &same, 1, CDZ_POSITIONS_LAST, &scores));
    const bool equal = same_floats(ours, cdz_row(&scores, 0), scores.n_vocab);
    free(ours);
    CHECK(equal);
    CDZ_TRY(cdz_seq_forward(dec, &other, 1, CDZ_POSITIONS_LAST, &scores));
    theirs = keep_floats(cdz_row(&scores, 0), scores.n_vocab);
    CDZ_TRY(cdz_seq_forward(dec, &again, 1, CDZ_POSITIONS_LAST, &scores));
    const bool twice = same_floats(theirs, cdz_row(&scores, 0), scores.n_vocab);
    free(theirs);
    CHECK(twice);
    return cdz_seq_new(dec, "nobody", &own);
}

STRATEGY(asks_models, run_asker, CDZ_GREEDY);

static void test_models(void **state)
{
    (void)state;
    rig r = open_small();
    cdz_run_model *other = open_model(r.engine, "qwen2_tied");
    hand_plan plan;
    answer a;
    plan_init(&plan, &asks_models.base, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    cdz_job *job = new_job(&r, &plan, prompt, NULL, 1, PROMPT, MOST, &a);
    cdz_job_model *models = cdz_arena_array(&job->arena, 3, sizeof *models);
    assert_non_null(models);
    models[0] = (cdz_job_model){"critic", other};
    models[1] = (cdz_job_model){"itself", r.model};
    models[2] = (cdz_job_model){"reward", other};
    job->others = models;
    job->n_others = 3;
    submit(&r, &a);
    const cdz_outcome *outcome = await(&a);
    assert_int_equal(outcome->error.code, CDZ_E_NOT_FOUND);
    assert_non_null(strstr(outcome->error.text,
                           "seq_new: the request has no model \"nobody\"; it has "
                           "target, critic, itself, reward"));
    answer_free(&a);
    cdz_run_model_release(other);
    rig_close(&r);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static int wrong_way;

static cdz_status run_wrong(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t ids[2] = {9, 9};
    cdz_seq *seq;
    cdz_rollout out;
    float value;
    const uint32_t row = wrong_way == 1 ? 3 : 0;
    (void)step;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, ids, 2));
    switch (wrong_way) {
    case 0:
    case 1: return cdz_rollouts(dec, &seq, &row, 1, 3, false, &out);
    case 2: return cdz_seq_score(dec, &seq, 1, 2, &value);
    default: return cdz_seq_score(dec, &seq, 1, 0, &value);
    }
}

STRATEGY(wrong, run_wrong, CDZ_GREEDY);

static void test_wrong_use(void **state)
{
    static const char *const says[] = {
        "rollouts: a sequence does not begin with the ids of row 0",
        "rollouts: row 3 of 1",
        "seq_score: the last 2 tokens of a sequence of 2; the first has none before it",
        "seq_score: of no tokens",
    };
    (void)state;
    rig r = open_small();
    for (wrong_way = 0; wrong_way < 4; wrong_way++) {
        hand_plan plan;
        answer a;
        plan_init(&plan, &wrong.base, NULL);
        plan_add_criterion(&plan, &length_rule, NULL);
        new_job(&r, &plan, prompt, NULL, 1, PROMPT, MOST, &a);
        submit(&r, &a);
        const cdz_outcome *outcome = await(&a);
        if (outcome->error.code == CDZ_OK || !strstr(outcome->error.text, says[wrong_way]))
            fail_msg("\"%s\" does not say \"%s\"", outcome->error.text, says[wrong_way]);
        answer_free(&a);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rollouts), cmocka_unit_test(test_draws),
        cmocka_unit_test(test_passes),   cmocka_unit_test(test_values),
        cmocka_unit_test(test_models),   cmocka_unit_test(test_wrong_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
