/* test_run_verbs.c - every verb of cdz_decoder_api, from decode loops written for it. */
#include "support/run_strategies.h"

#include "random/torch_rng.h"
#include "vec/vec.h"

static const int32_t prompts[3][8] = {
    {5, 80, 201, 44, 17, 300, 9, 120},
    {66, 2, 31, 350, 12, 7, 190, 33},
    {5, 80, 201, 44, 17, 300, 9, 120},
};
enum { PROMPT = 8, V = 384 };

/* Runs a strategy on the first n_prompts prompts; the test ends when it fails. */
static cdz_outcome *play(const cdz_strategy *strategy, uint32_t n_prompts, uint32_t max_new,
                         hand_plan *plan, answer *a)
{
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    r.assistant = open_model(r.engine, "llama_draft");
    plan->plan.strategy = instance_of(&strategy->base, NULL);
    plan->plan.processors = plan->processors;
    plan->plan.criteria = plan->criteria;
    cdz_job *job = new_job(&r, plan, prompts[0], NULL, n_prompts, PROMPT, max_new, a);
    job->pad = 0;
    job->seed = 42;
    cdz_outcome *outcome = run_well(&r, a);
    rig_close(&r);
    return outcome;
}

/* --- sequences ------------------------------------------------------------------------------------------------- */

/* A forked row, grown by three tokens, shortened, grown otherwise: always the scores of a sequence made anew. */
static cdz_status run_fork(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t tail[] = {11, 222, 33};
    cdz_scores rows, kept, got;
    cdz_seq *fork, *twin;
    const float *want;
    CDZ_TRY(cdz_forward(dec, &rows));
    CDZ_TRY(cdz_map(dec, &rows));
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 0), &fork));
    CDZ_TRY(cdz_seq_append(dec, fork, tail, 3));
    CDZ_TRY(cdz_seq_forward(dec, &fork, 1, CDZ_POSITIONS_ALL, &got));
    CHECK(got.n_rows == 3 && got.n_vocab == V);
    CDZ_TRY(cdz_scratch_scores(dec, 3, &kept));
    memcpy(kept.data, got.data, 3 * V * sizeof(float));

    CDZ_TRY(fresh_scores(dec, cdz_seq_ids(dec, fork), &want));
    CHECK(same_floats(cdz_row(&kept, 2), want, V));
    CDZ_TRY(cdz_seq_truncate(dec, fork, PROMPT + 1));
    CDZ_TRY(cdz_seq_forward(dec, &fork, 1, CDZ_POSITIONS_LAST, &got));
    CHECK(got.n_rows == 1 && same_floats(got.data, cdz_row(&kept, 0), V));

    CDZ_TRY(cdz_seq_fork(dec, fork, &twin));
    CDZ_TRY(cdz_seq_append(dec, twin, tail + 1, 1));
    CDZ_TRY(cdz_seq_append(dec, fork, tail, 1));
    CDZ_TRY(cdz_seq_forward(dec, &fork, 1, CDZ_POSITIONS_NONE, NULL));
    cdz_seq *both[] = {twin, fork};
    CDZ_TRY(cdz_seq_forward(dec, both, 2, CDZ_POSITIONS_LAST, &got));
    CHECK(got.n_rows == 2 && same_floats(got.data, cdz_row(&kept, 1), V));
    memcpy(kept.data, got.data, 2 * V * sizeof(float));
    CDZ_TRY(fresh_scores(dec, cdz_seq_ids(dec, fork), &want));
    CHECK(same_floats(cdz_row(&kept, 1), want, V));

    /* The row itself never noticed. */
    CHECK(cdz_input_ids(dec, 0).len == PROMPT);
    memcpy(kept.data, rows.data, V * sizeof(float));
    CDZ_TRY(cdz_forward(dec, &rows));
    CDZ_TRY(cdz_map(dec, &rows));
    CHECK(same_floats(kept.data, rows.data, V));
    cdz_seq_free(dec, twin); /* fork goes with the request */
    return CDZ_OK;
}
STRATEGY(forker, run_fork, 0);

static void test_fork(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    cdz_outcome *outcome = play(&forker, 1, 20, &plan, &a);
    assert_int_equal(outcome->rows[0].n_new, 0);
    assert_int_equal(outcome->rows[0].stop.reason, CDZ_STOP_CUSTOM);
    answer_free(&a);
}

/* Two models in one request. */
static cdz_status run_two_models(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *target, *draft;
    cdz_scores got, kept;
    const cdz_ids ids = cdz_input_ids(dec, 0);
    CHECK(cdz_vocab_size(dec, "assistant") == V && cdz_vocab_size(dec, "nobody") == 0);
    CDZ_TRY(cdz_seq_new(dec, "assistant", &draft));
    CDZ_TRY(cdz_seq_new(dec, "target", &target));
    CDZ_TRY(cdz_seq_append(dec, draft, ids.at, ids.len));
    CDZ_TRY(cdz_seq_append(dec, target, ids.at, ids.len));
    CDZ_TRY(cdz_scratch_scores(dec, 1, &kept));
    CDZ_TRY(cdz_seq_forward(dec, &draft, 1, CDZ_POSITIONS_LAST, &got));
    memcpy(kept.data, got.data, V * sizeof(float));
    CDZ_TRY(cdz_seq_forward(dec, &target, 1, CDZ_POSITIONS_LAST, &got));
    CHECK(!same_floats(kept.data, got.data, V));
    memcpy(kept.data, got.data, V * sizeof(float));
    CDZ_TRY(cdz_forward(dec, &got));
    CDZ_TRY(cdz_map(dec, &got));
    CHECK(same_floats(kept.data, got.data, V));

    cdz_seq *mixed[] = {draft, target};
    CHECK(cdz_seq_forward(dec, mixed, 2, CDZ_POSITIONS_LAST, &got) == CDZ_E_PLUGIN);
    cdz_seq *twice[] = {draft, draft};
    CHECK(cdz_seq_forward(dec, twice, 2, CDZ_POSITIONS_LAST, &got) == CDZ_E_PLUGIN);
    CHECK(cdz_seq_new(dec, "nobody", &target) == CDZ_E_NOT_FOUND);
    CHECK(cdz_seq_append(dec, cdz_seq_of_row(dec, 0), ids.at, 1) == CDZ_E_STATE);
    CHECK(cdz_seq_truncate(dec, draft, ids.len + 1) == CDZ_E_PLUGIN);
    static const int32_t outside = V;
    CHECK(cdz_seq_append(dec, draft, &outside, 1) == CDZ_E_PLUGIN);
    CHECK(cdz_seq_of_row(dec, 1) == NULL);
    return CDZ_OK;
}
STRATEGY(two_models, run_two_models, 0);

static void test_two_models(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    play(&two_models, 1, 4, &plan, &a);
    answer_free(&a);
}

/* --- reorder ----------------------------------------------------------------------------------------------------- */

static cdz_status append_all(cdz_decoder *dec, int32_t a, int32_t b, int32_t c)
{
    int32_t tokens[] = {a, b, c};
    return cdz_append_rows(dec, tokens);
}

/* Every row's scores are those of its ids, and its plugin state is that of its ids. */
static cdz_status check_rows(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows, kept;
    const float *want;
    CDZ_TRY(cdz_forward(dec, &rows));
    CDZ_TRY(cdz_map(dec, &rows));
    CDZ_TRY(cdz_scratch_scores(dec, 3, &kept));
    memcpy(kept.data, rows.data, 3 * V * sizeof(float));
    for (uint32_t r = 0; r < 3; r++) {
        CDZ_TRY(fresh_scores(dec, cdz_input_ids(dec, r), &want));
        CHECK(same_floats(cdz_row(&kept, r), want, V));
    }
    CDZ_TRY(cdz_process(dec, &rows));
    for (uint32_t r = 0; r < 3; r++) {
        CHECK(cdz_row(&rows, r)[0] == hash_of(cdz_input_ids(dec, r), PROMPT));
        CHECK(cdz_row(&rows, r)[1] == cdz_row(&rows, r)[0]);
        CHECK(same_floats(cdz_row(&rows, r) + 2, cdz_row(&kept, r) + 2, V - 2));
    }
    return CDZ_OK;
}

static cdz_status run_reorder(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t orders[][3] = {{1, 1, 0}, {2, 0, 1}, {0, 1, 2}, {2, 2, 2}, {0, 0, 1}};
    CHECK(cdz_n_rows(dec) == 3);
    for (uint32_t i = 0; i < 5; i++) {
        cdz_ids before[3];
        int32_t newest[3];
        CDZ_TRY(append_all(dec, (int32_t)(20 + i), (int32_t)(40 + i), (int32_t)(60 + i)));
        CDZ_TRY(check_rows(dec, step));
        for (uint32_t r = 0; r < 3; r++) {
            before[r] = cdz_input_ids(dec, r);
            newest[r] = before[r].at[before[r].len - 1];
        }
        CDZ_TRY(cdz_reorder(dec, orders[i]));
        for (uint32_t r = 0; r < 3; r++) {
            const cdz_ids ids = cdz_input_ids(dec, r);
            CHECK(ids.len == PROMPT + i + 1 && ids.at[ids.len - 1] == newest[orders[i][r]]);
        }
        CDZ_TRY(check_rows(dec, step));
    }
    static const uint32_t wrong[] = {0, 3, 1};
    CHECK(cdz_reorder(dec, wrong) == CDZ_E_PLUGIN);
    /* Past a block's end, so that full blocks are shared as well. */
    for (int32_t i = 0; i < 40; i++) CDZ_TRY(append_all(dec, i, i + 50, i + 100));
    CDZ_TRY(check_rows(dec, step));
    CDZ_TRY(cdz_reorder(dec, orders[0]));
    CDZ_TRY(append_all(dec, 1, 2, 3));
    return check_rows(dec, step);
}
STRATEGY(shuffler, run_reorder, CDZ_BEAMS);

static void test_reorder(void **state)
{
    (void)state;
    const cdz_processor *const kinds[] = {&hash_rows, &hash_all};
    for (int i = 0; i < 2; i++) {
        answer a;
        hand_plan plan = {0};
        plan_add_processor(&plan, kinds[i], NULL);
        cdz_outcome *outcome = play(&shuffler, 3, 60, &plan, &a);
        assert_int_equal(outcome->rows[0].n_new, 46);
        assert_int_equal(a.n_streamed[0], 46); /* held until the end */
        assert_int_equal(a.n_calls, 3);
        assert_memory_equal(a.streamed[0], outcome->rows[0].ids + PROMPT, 46 * sizeof(int32_t));
        answer_free(&a);
    }
}

/* --- rewind ------------------------------------------------------------------------------------------------------- */

static cdz_status check_row(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows, kept;
    const float *want;
    CDZ_TRY(cdz_forward(dec, &rows));
    CDZ_TRY(cdz_map(dec, &rows));
    CDZ_TRY(cdz_scratch_scores(dec, 1, &kept));
    memcpy(kept.data, rows.data, V * sizeof(float));
    CDZ_TRY(fresh_scores(dec, cdz_input_ids(dec, 0), &want));
    CHECK(same_floats(kept.data, want, V));
    CDZ_TRY(cdz_process(dec, &rows));
    CHECK(rows.data[0] == hash_of(cdz_input_ids(dec, 0), PROMPT) && rows.data[0] == rows.data[1]);
    return CDZ_OK;
}

static cdz_status run_rewind(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t steps_back[] = {1, 40, 3, 100, 0, 64};
    CHECK(cdz_rewindable(dec, 0) == 0);
    for (size_t i = 0; i < sizeof steps_back / sizeof *steps_back; i++) {
        while (cdz_rewindable(dec, 0) < 150)
            CDZ_TRY(cdz_append(dec, 0, (int32_t)(cdz_rewindable(dec, 0) * 7 % 90 + 20 + i)));
        CDZ_TRY(check_row(dec, step));
        CDZ_TRY(cdz_rewind(dec, 0, steps_back[i]));
        CHECK(cdz_input_ids(dec, 0).len == PROMPT + 150 - steps_back[i]);
        CDZ_TRY(check_row(dec, step));
    }
    CHECK(cdz_rewind(dec, 0, 151) == CDZ_E_PLUGIN);
    CHECK(cdz_rewind(dec, 1, 1) == CDZ_E_PLUGIN);
    /* A row that ended runs again. */
    CDZ_TRY(cdz_append(dec, 0, 2));
    CHECK(cdz_row_done(dec, 0) && cdz_done(dec));
    CHECK(cdz_append(dec, 0, 50) == CDZ_E_STATE);
    CDZ_TRY(cdz_rewind(dec, 0, 1));
    CHECK(!cdz_row_done(dec, 0) && !cdz_done(dec));
    CDZ_TRY(cdz_append(dec, 0, 50));
    CDZ_TRY(check_row(dec, step));
    return cdz_append(dec, 0, 2);
}
STRATEGY(rewinder, run_rewind, CDZ_REWINDS);

static void test_rewind(void **state)
{
    (void)state;
    static const int32_t eos = 2;
    rig r = rig_open("llama_gqa", (cdz_engine_options){0});
    hand_plan plan;
    plan_init(&plan, &rewinder.base, NULL);
    plan_add_processor(&plan, &hash_rows, NULL);
    plan_add_criterion(&plan, &eos_rule, NULL);
    answer a;
    cdz_job *job = new_job(&r, &plan, prompts[0], NULL, 1, PROMPT, 200, &a);
    job->eos = (cdz_ids){&eos, 1};
    cdz_outcome *outcome = run_well(&r, &a);
    assert_int_equal(outcome->rows[0].n_new, 150 - 64 + 2);
    assert_int_equal(outcome->rows[0].stop.reason, CDZ_STOP_EOS);
    assert_int_equal(a.n_calls, 1); /* nothing was streamed that could be taken back */
    assert_int_equal(a.n_streamed[0], outcome->rows[0].n_new);
    answer_free(&a);
    rig_close(&r);
}

static cdz_status run_no_rewind(cdz_decoder *dec, const cdz_step *step)
{
    CDZ_TRY(cdz_append(dec, 0, 50));
    CHECK(cdz_rewindable(dec, 0) == 0);
    CHECK(cdz_rewind(dec, 0, 1) == CDZ_E_STATE);
    return CDZ_OK;
}
STRATEGY(undeclared, run_no_rewind, 0);

static void test_rewind_undeclared(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    cdz_outcome *outcome = play(&undeclared, 1, 4, &plan, &a);
    assert_int_equal(outcome->rows[0].n_new, 1);
    answer_free(&a);
}

/* --- rows that do not exist ------------------------------------------------------------------------------------------ */

static cdz_status run_made_up(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t suffix[] = {71, 72, 9};
    cdz_scores got;
    cdz_seq *seqs[2];
    CDZ_TRY(append_all(dec, 30, 31, 32));
    CDZ_TRY(append_all(dec, 33, 34, 35));
    CDZ_TRY(cdz_forward(dec, &got));

    /* One continues row 1, the other leaves row 2's path after its first token. */
    static const uint32_t rows[] = {1, 2};
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 1), &seqs[0]));
    CDZ_TRY(cdz_seq_fork(dec, cdz_seq_of_row(dec, 2), &seqs[1]));
    CDZ_TRY(cdz_seq_truncate(dec, seqs[1], PROMPT + 1));
    for (int i = 0; i < 2; i++) CDZ_TRY(cdz_seq_append(dec, seqs[i], suffix, 2));
    CDZ_TRY(cdz_seq_forward(dec, seqs, 2, CDZ_POSITIONS_LAST, &got));
    CDZ_TRY(cdz_seq_process(dec, seqs, rows, 2, &got));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(cdz_row(&got, i)[0] == hash_of(cdz_seq_ids(dec, seqs[i]), PROMPT));
        CHECK(cdz_row(&got, i)[1] == cdz_row(&got, i)[0]);
    }
    CHECK(cdz_seq_process(dec, seqs, rows, 1, &got) == CDZ_E_PLUGIN);

    /* The fourth token of a row may be nine, the fifth may not; row 0 has had two. */
    const cdz_ids ask[] = {{suffix + 1, 2}, {suffix, 3}, {suffix + 2, 1}, {suffix, 0}};
    static const uint32_t of[] = {0, 0, 1, 2};
    cdz_stop stops[4];
    CDZ_TRY(cdz_stop_test(dec, ask, of, 4, stops));
    CHECK(stops[0].reason == CDZ_STOP_CUSTOM && stops[0].text.len == 4);
    CHECK(stops[1].reason == CDZ_GO_ON && stops[2].reason == CDZ_GO_ON);
    CHECK(stops[3].reason == CDZ_GO_ON);
    static const uint32_t nobody[] = {3};
    CHECK(cdz_stop_test(dec, ask, nobody, 1, stops) == CDZ_E_PLUGIN);

    /* Nothing of that happened to the rows. */
    return check_rows(dec, step);
}
STRATEGY(dreamer, run_made_up, 0);

static void test_made_up_rows(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    plan_add_processor(&plan, &hash_rows, NULL);
    plan_add_criterion(&plan, &nine_rule, NULL);
    play(&dreamer, 3, 20, &plan, &a);
    answer_free(&a);
}

/* --- scores and choice ------------------------------------------------------------------------------------------------ */

static cdz_status run_choice(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows, view;
    cdz_pick pick;
    cdz_candidate best[5];
    int32_t tokens[3];
    CDZ_TRY(cdz_scratch_scores(dec, 3, &rows));
    CDZ_TRY(cdz_map(dec, &rows));
    for (uint32_t i = 0; i < 3 * V; i++) rows.data[i] = (float)(i * 7919 % 1000) / 250.0f;
    cdz_row(&rows, 0)[17] = cdz_row(&rows, 0)[300] = 9.0f;
    cdz_row(&rows, 1)[200] = 8.0f;
    cdz_row(&rows, 2)[3] = 8.5f;
    CDZ_TRY(cdz_argmax_rows(dec, &rows, tokens));
    CHECK(tokens[0] == 17 && tokens[1] == 200 && tokens[2] == 3);
    CDZ_TRY(cdz_ban(dec, &rows, 0, 17));
    CDZ_TRY(cdz_argmax(dec, &rows, 0, &pick));
    CHECK(pick.token == 300 && pick.score == 9.0f && pick.prob > 0.1f && pick.prob < 1.0f);

    static const float addends[] = {0.0f, 3.0f};
    CDZ_TRY(cdz_topk_flat(dec, &rows, 1, 2, addends, 2, best));
    CHECK(best[0].row == 1 && best[0].token == 3 && best[0].score == 11.5f);
    CHECK(best[1].row == 0 && best[1].token == 200 && best[1].score == 8.0f);

    view = rows; /* the middle row alone */
    view.data = cdz_row(&rows, 1);
    view.n_rows = 1;
    const float before = cdz_row(&rows, 2)[5];
    CDZ_TRY(cdz_log_softmax(dec, &view));
    CHECK(cdz_row(&rows, 1)[200] < 0.0f && cdz_row(&rows, 2)[5] == before);
    CDZ_TRY(cdz_softmax(dec, &rows));

    /* The stream: what torch would draw for the seed, in the order of the calls. */
    cdz_torch_rng rng;
    float uniform;
    cdz_torch_seed(&rng, step->request->seed);
    CDZ_TRY(cdz_uniform(dec, 1, &uniform));
    CHECK(uniform == cdz_torch_uniform(&rng));
    CDZ_TRY(cdz_multinomial(dec, &rows, tokens));
    for (uint32_t r = 0; r < 3; r++)
        CHECK(tokens[r] == cdz_torch_multinomial(&rng, cdz_row(&rows, r), V));
    CDZ_TRY(cdz_multinomial_flat(dec, &rows, 0, 2, 5, best));
    int32_t ids[5];
    void *room = cdz_scratch(step, cdz_vec_scratch(2 * V));
    CHECK(room && cdz_torch_multinomial_k(&rng, rows.data, 2 * V, 5, ids, room) == 0);
    for (int i = 0; i < 5; i++) {
        CHECK((int32_t)best[i].row * V + best[i].token == ids[i]);
        CHECK(best[i].score == rows.data[ids[i]]);
    }
    CDZ_TRY(cdz_uniform(dec, 1, &uniform));
    CHECK(uniform == cdz_torch_uniform(&rng));
    return CDZ_OK;
}
STRATEGY(chooser, run_choice, CDZ_SAMPLES);

static void test_choice(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    play(&chooser, 1, 4, &plan, &a);
    answer_free(&a);
}

/* Wrong arguments are refused in words and change nothing. */
static cdz_status run_misuse(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows, wrong;
    cdz_pick pick;
    cdz_candidate best[2];
    int32_t tokens[3] = {1, 2, 3};
    CDZ_TRY(cdz_forward(dec, &rows));
    CDZ_TRY(cdz_map(dec, &rows));
    float *own = cdz_scratch(step, 3 * V * sizeof *own);
    CHECK(own);
    wrong = (cdz_scores){.data = own, .n_rows = 1, .n_vocab = V, .stride = V};
    CHECK(cdz_softmax(dec, &wrong) == CDZ_E_PLUGIN);
    wrong = rows;
    wrong.n_rows = 4;
    CHECK(cdz_process(dec, &wrong) == CDZ_E_PLUGIN);
    wrong = rows;
    wrong.data += 1;
    CHECK(cdz_argmax_rows(dec, &wrong, tokens) == CDZ_E_PLUGIN);
    wrong = rows;
    wrong.stride = V - 1;
    CHECK(cdz_multinomial(dec, &wrong, tokens) == CDZ_E_PLUGIN);
    CHECK(cdz_argmax(dec, &rows, 3, &pick) == CDZ_E_PLUGIN);
    CHECK(cdz_ban(dec, &rows, 0, V) == CDZ_E_PLUGIN);
    CHECK(cdz_topk_flat(dec, &rows, 2, 2, NULL, 1, best) == CDZ_E_PLUGIN);
    CHECK(cdz_topk_flat(dec, &rows, 0, 1, NULL, V + 1, best) == CDZ_E_PLUGIN);
    CHECK(cdz_append(dec, 3, 5) == CDZ_E_PLUGIN);
    CHECK(cdz_append(dec, 0, V) == CDZ_E_PLUGIN);
    tokens[1] = -1;
    CHECK(cdz_append_rows(dec, tokens) == CDZ_E_PLUGIN);
    CHECK(cdz_input_ids(dec, 0).len == PROMPT && cdz_input_ids(dec, 3).len == 0);
    CHECK(cdz_finish(dec, 0, CDZ_GO_ON, "") == CDZ_E_PLUGIN);
    CHECK(cdz_finish(dec, 3, CDZ_STOP_CUSTOM, "") == CDZ_E_PLUGIN);
    static const uint64_t vast[] = {UINT64_MAX, UINT64_MAX};
    CHECK(cdz_put_result(dec, "x", CDZ_RESULT_F32, 2, vast, own) == CDZ_E_PLUGIN);
    CHECK(cdz_put_result(dec, "x", CDZ_RESULT_F32, 9, vast, own) == CDZ_E_PLUGIN);
    CHECK(cdz_put_result(dec, "", CDZ_RESULT_F32, 0, NULL, own) == CDZ_E_PLUGIN);
    /* Fields of the answer itself have one form: who reads them counts on it. */
    static const uint64_t thin[] = {1, 1}, five[] = {5};
    static const int64_t numbers[] = {1, 2, 3, 4, 5};
    CHECK(cdz_put_result(dec, "rounds", CDZ_RESULT_I64, 2, thin, numbers) == CDZ_E_PLUGIN);
    CHECK(cdz_put_result(dec, "rounds", CDZ_RESULT_I64, 0, NULL, numbers) == CDZ_E_PLUGIN);
    CHECK(cdz_put_result(dec, "num_assistant_tokens", CDZ_RESULT_BOOL, 1, thin, numbers) ==
          CDZ_E_PLUGIN);
    CHECK(cdz_put_result(dec, "json", CDZ_RESULT_JSON, 1, five, "{\"a\":") == CDZ_E_PLUGIN);
    CHECK(cdz_put_result(dec, "json", CDZ_RESULT_JSON, 2, thin, "1") == CDZ_E_PLUGIN);
    for (uint32_t i = 0; i < V; i++) cdz_row(&rows, 1)[i] = 0.0f;
    CDZ_TRY(cdz_softmax(dec, &(cdz_scores){rows.data, 1, V, V, rows.id}));
    CHECK(cdz_multinomial(dec, &rows, tokens) == CDZ_E_INPUT);
    return CDZ_OK;
}
STRATEGY(clumsy, run_misuse, 0);

static void test_misuse(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    play(&clumsy, 3, 4, &plan, &a);
    answer_free(&a);
}

/* --- how much a loop may hold --------------------------------------------------------------------------------------------- */

enum { MOST_SEQS = 16384, MOST_RESULTS = 4096, MOST_DERIVED = 256 };

static cdz_status fill_seqs(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *seq = NULL, *other;
    for (uint32_t i = 0; i < MOST_SEQS; i++) CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CHECK(cdz_seq_new(dec, NULL, &other) == CDZ_E_LIMIT);
    CHECK(cdz_seq_fork(dec, seq, &other) == CDZ_E_LIMIT);
    cdz_seq_free(dec, seq);
    return cdz_seq_new(dec, NULL, &other);
}

static cdz_status fill_results(cdz_decoder *dec, const cdz_step *step)
{
    char name[32];
    for (uint32_t i = 0; i <= MOST_RESULTS; i++) {
        snprintf(name, sizeof name, "number %u", i);
        const cdz_status status = cdz_put_result(dec, name, CDZ_RESULT_BOOL, 0, NULL, "");
        CHECK(status == (i < MOST_RESULTS ? CDZ_OK : CDZ_E_LIMIT));
    }
    return cdz_put_result(dec, "number 0", CDZ_RESULT_BOOL, 0, NULL, "\1"); /* in its place */
}

static cdz_status run_greedily(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores rows;
    uint32_t derived;
    CHECK(cdz_scratch_scores(dec, UINT32_MAX, &rows) == CDZ_E_LIMIT);
    for (uint32_t i = 0; i < MOST_DERIVED; i++)
        CDZ_TRY(cdz_pipeline_derive(dec, NULL, 0, NULL, 0, &derived));
    CHECK(cdz_pipeline_derive(dec, NULL, 0, NULL, 0, &derived) == CDZ_E_LIMIT);
    CDZ_TRY(fill_seqs(dec, step));
    CDZ_TRY(fill_results(dec, step));
    for (uint32_t i = 0; i < 20; i++) { /* what was given still is */
        CDZ_TRY(cdz_scratch_scores(dec, 1, &rows));
        cdz_row(&rows, 0)[V - 1] = 1.0f;
    }
    return cdz_softmax(dec, &rows);
}
STRATEGY(glutton, run_greedily, 0);

static void test_what_is_held(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    play(&glutton, 1, 4, &plan, &a);
    answer_free(&a);
}

/* --- the end ------------------------------------------------------------------------------------------------------------ */

static cdz_status run_finish(cdz_decoder *dec, const cdz_step *step)
{
    static const uint64_t shape[] = {2, 2};
    static const int64_t first[] = {1, 2, 3, 4}, second[] = {5, 6, 7, 8};
    CDZ_TRY(cdz_put_result(dec, "pairs", CDZ_RESULT_I64, 2, shape, first));
    CDZ_TRY(cdz_put_result(dec, "pairs", CDZ_RESULT_I64, 2, shape, second));
    static const char json[] = "{\"a\":\n [1, true]}";
    const uint64_t bytes[] = {sizeof json - 1};
    CDZ_TRY(cdz_put_result(dec, "json", CDZ_RESULT_JSON, 1, bytes, json));
    CDZ_TRY(append_all(dec, 20, 21, 22));
    CDZ_TRY(cdz_finish(dec, 1, CDZ_STOP_CUSTOM, "had enough"));
    CHECK(cdz_row_done(dec, 1) && !cdz_row_done(dec, 0) && !cdz_done(dec));
    CDZ_TRY(append_all(dec, 30, 31, 32));
    CHECK(cdz_input_ids(dec, 1).at[PROMPT + 1] == 31); /* no end-of-sequence rule: it goes on */
    CDZ_TRY(cdz_finish(dec, 0, CDZ_STOP_EOS, NULL));
    CDZ_TRY(cdz_finish(dec, 2, CDZ_STOP_LENGTH, "long"));
    CHECK(cdz_done(dec));
    return CDZ_OK;
}
STRATEGY(ender, run_finish, 0);

static void test_finish(void **state)
{
    (void)state;
    answer a;
    hand_plan plan = {0};
    cdz_outcome *outcome = play(&ender, 3, 20, &plan, &a);
    assert_int_equal(outcome->rows[0].n_new, 2);
    assert_int_equal(outcome->rows[1].n_new, 1);
    assert_int_equal(outcome->rows[1].len, PROMPT + 2);
    assert_int_equal(outcome->rows[1].stop.reason, CDZ_STOP_CUSTOM);
    assert_string_equal(outcome->rows[1].stop.text.at, "had enough");
    assert_int_equal(outcome->rows[2].stop.reason, CDZ_STOP_LENGTH);
    assert_int_equal(a.n_streamed[1], 1);
    assert_int_equal(outcome->n_results, 2);
    assert_string_equal(outcome->results[0].name, "pairs");
    assert_int_equal(((const int64_t *)outcome->results[0].data)[3], 8);
    static const char line[] = "{\"a\": [1, true]}"; /* one value, on one line */
    assert_int_equal(outcome->results[1].shape[0], sizeof line - 1);
    assert_memory_equal(outcome->results[1].data, line, sizeof line - 1);
    answer_free(&a);
}

/* --- one-row strategies on several rows ------------------------------------------------------------------------------------ */

/* Ends after seed % 4 + 2 tokens, having left its seed as a result. */
static cdz_status run_alone(cdz_decoder *dec, const cdz_step *step)
{
    const int64_t seed = (int64_t)step->request->seed;
    cdz_scores rows;
    CHECK(cdz_n_rows(dec) == 1 && step->request->n_rows == 1 && step->request->n_prompts == 1);
    CDZ_TRY(cdz_put_result(dec, "seed", CDZ_RESULT_I64, 0, NULL, &seed));
    for (int64_t i = 0; i < seed % 4 + 2; i++) {
        int32_t token;
        CDZ_TRY(cdz_forward(dec, &rows));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_SCORES, &rows));
        CDZ_TRY(cdz_argmax_rows(dec, &rows, &token));
        CDZ_TRY(cdz_append(dec, 0, token));
    }
    return cdz_finish(dec, 0, CDZ_STOP_CUSTOM, "enough");
}
STRATEGY(loner, run_alone, CDZ_ONE_ROW);

static void test_one_row(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){0});
    hand_plan plan;
    plan_init(&plan, &loner.base, NULL);
    answer a;
    cdz_job *job = new_job(&r, &plan, prompts[0], NULL, 3, PROMPT, 20, &a);
    job->seed = 41;
    job->pad = 0;
    job->keep_scores = true;
    cdz_outcome *outcome = run_well(&r, &a);
    static const uint32_t n_new[] = {3, 4, 5};
    assert_int_equal(outcome->n_rows, 3);
    assert_int_equal(outcome->n_results, 3);
    assert_int_equal(outcome->n_steps, 5);
    for (uint32_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed[%u]", i);
        assert_string_equal(outcome->results[i].name, name);
        assert_int_equal(*(const int64_t *)outcome->results[i].data, 41 + i);
        assert_int_equal(outcome->rows[i].n_new, n_new[i]);
        assert_int_equal(outcome->rows[i].len, PROMPT + 5);
        assert_int_equal(a.n_streamed[i], n_new[i]);
        for (uint32_t s = 0; s < 5; s++) {
            const int32_t token = outcome->rows[i].ids[PROMPT + s];
            const float *row = outcome->steps[s].scores + (size_t)i * V;
            if (s < n_new[i])
                assert_true(outcome->steps[s].chosen[i] == row[token]);
            else
                assert_true(isnan(outcome->steps[s].chosen[i]) && token == 0);
        }
    }
    answer_free(&a);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_two_models),
        cmocka_unit_test(test_reorder),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_rewind_undeclared),
        cmocka_unit_test(test_made_up_rows),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_what_is_held),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_one_row),
    };
    return cmocka_run_group_tests_name("run verbs", tests, NULL, NULL);
}
