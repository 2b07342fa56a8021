/* test_run_recurrent.c - recurrent state as part of a sequence: the same bits whole and in pieces, after forks, cuts and other
 * ways on, past the positions where states are noted, alone and beside others; and that its memory is counted. */
#include "base/environment.h"
#include "support/run_strategies.h"

/* Attention in some layers, in none, and beside the recurrent mixer in each. */
static const char *const models[] = {"lfm2", "mamba2", "qwen3_next", "falcon_h1", "nemotron_h"};
enum { N_MODELS = sizeof models / sizeof *models, LONG = 1100, V = 256 };

/* An emulated device takes minutes for what others do at once: it runs a model of each mixer, on one thread, and fewer steps. */
static bool is_slow(void)
{
    const char *device = cdz_env_named("CADENZA_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

static size_t n_models(void)
{
    return is_slow() ? 3 : N_MODELS;
}

/* --- pieces --- */

static void pieces_give_what_the_whole_gives(void **state)
{
    (void)state;
    static int32_t ids[LONG];
    random_ids(ids, LONG, V, 1);
    for (size_t m = 0; m < n_models(); m++) {
        float *want = NULL;
        for (uint32_t threads = 1; threads <= (is_slow() ? 1 : 3); threads += 2) {
            rig r = rig_open(models[m], (cdz_engine_options){.n_threads = threads});
            float *whole = whole_logits(&r, ids, LONG), *parts = piece_logits(&r, ids, LONG);
            if (!want) want = keep_floats(whole, (size_t)LONG * V);
            if (!same_floats(whole, want, (size_t)LONG * V)) fail_msg("%s: whole", models[m]);
            if (!same_floats(parts, want, (size_t)LONG * V)) fail_msg("%s: pieces", models[m]);
            free(whole);
            free(parts);
            rig_close(&r);
        }
        free(want);
    }
}

/* --- ways back --- */

enum { WALKERS = 4, STEPS = 60 };

/* Several ids at once, scores of each: as many rows as were missing, whatever was read again for them. */
static cdz_status go_on(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq, uint32_t *seed)
{
    int32_t more[24];
    cdz_scores scores;
    const uint32_t n = 1 + draw(seed, 24), at = cdz_seq_ids(dec, seq).len;
    for (uint32_t i = 0; i < n; i++) more[i] = (int32_t)(3 + draw(seed, V - 3));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_NONE, NULL));
    CHECK(cdz_seq_ids(dec, seq).len == at);
    CDZ_TRY(cdz_seq_append(dec, seq, more, n));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_ALL, &scores));
    if (scores.n_rows != n) return SAY("%u rows of scores for %u ids", scores.n_rows, n);
    return CDZ_OK;
}

/* Sequences that grow, are cut back, become copies of one another, and say what a new one would. */
static cdz_status run_wander(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_seq *walkers[WALKERS];
    uint32_t seed = 11;
    for (uint32_t w = 0; w < WALKERS; w++) {
        CDZ_TRY(cdz_seq_new(dec, NULL, &walkers[w]));
        CDZ_TRY(cdz_seq_append(dec, walkers[w], ids.at, ids.len / (w + 1)));
    }
    for (uint32_t s = 0; s < (is_slow() ? STEPS / 8 : STEPS); s++) {
        const uint32_t w = draw(&seed, WALKERS), other = draw(&seed, WALKERS);
        const uint32_t len = cdz_seq_ids(dec, walkers[w]).len;
        switch (draw(&seed, 4)) {
        case 0: CDZ_TRY(cdz_seq_truncate(dec, walkers[w], 1 + draw(&seed, len))); break;
        case 1:
            CDZ_TRY(cdz_seq_truncate(dec, walkers[w], len - draw(&seed, len < 9 ? len : 9)));
            break;
        case 2:
            if (w == other) break;
            cdz_seq_free(dec, walkers[w]);
            CDZ_TRY(cdz_seq_fork(dec, walkers[other], &walkers[w]));
            break;
        default: CDZ_TRY(go_on(dec, step, walkers[w], &seed));
        }
        CDZ_TRY(compare_with_new(dec, step, walkers[w], NULL, 0));
    }
    return CDZ_OK;
}
STRATEGY(wander, run_wander, 0);

static void a_state_follows_every_way_back(void **state)
{
    (void)state;
    static int32_t ids[LONG];
    random_ids(ids, LONG, V, 2);
    for (size_t m = 0; m < n_models(); m++)
        for (uint32_t len = is_slow() ? 540 : 20; len <= 540; len += 520) {
            rig r = rig_open(models[m], (cdz_engine_options){.n_threads = 2});
            hand_plan plan;
            answer a;
            plan_init(&plan, &wander.base, NULL);
            new_job(&r, &plan, ids, NULL, 1, len, 1, &a);
            const cdz_outcome *outcome = run(&r, &a);
            if (outcome->error.code != CDZ_OK)
                fail_msg("%s, %u ids: %s", models[m], len, outcome->error.text);
            answer_free(&a);
            rig_close(&r);
        }
}

/* --- rows that take tokens back --- */

/* A row goes on greedily, but takes back up to six tokens now and then and says others first; what it says in the end is compared. */
static cdz_status run_returns(cdz_decoder *dec, const cdz_step *step)
{
    uint32_t seed = 5;
    cdz_scores scores;
    for (uint32_t s = 0; s < 40; s++) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_append(dec, 0, (int32_t)(3 + draw(&seed, V - 3))));
        const uint32_t most = cdz_rewindable(dec, 0);
        if (draw(&seed, 3) == 0)
            CDZ_TRY(cdz_rewind(dec, 0, draw(&seed, (most < 6 ? most : 6) + 1)));
    }
    float *got = cdz_scratch(step, V * sizeof *got);
    CHECK(got);
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_map(dec, &scores));
    memcpy(got, cdz_row(&scores, 0), V * sizeof *got);
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_seq *fresh;
    CDZ_TRY(cdz_seq_new(dec, NULL, &fresh));
    CDZ_TRY(cdz_seq_append(dec, fresh, ids.at, ids.len));
    CDZ_TRY(cdz_seq_forward(dec, &fresh, 1, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(cdz_map(dec, &scores));
    CHECK(memcmp(got, scores.data, V * sizeof *got) == 0);
    return CDZ_OK;
}
STRATEGY(returns, run_returns, CDZ_REWINDS);

static void rows_take_tokens_back(void **state)
{
    (void)state;
    int32_t ids[30];
    random_ids(ids, 30, V, 3);
    for (size_t m = 0; m < n_models(); m++) {
        rig r = rig_open(models[m], (cdz_engine_options){.n_threads = 1});
        hand_plan plan;
        answer a;
        plan_init(&plan, &returns.base, NULL);
        new_job(&r, &plan, ids, NULL, 1, 30, 64, &a);
        const cdz_outcome *outcome = run(&r, &a);
        if (outcome->error.code != CDZ_OK) fail_msg("%s: %s", models[m], outcome->error.text);
        answer_free(&a);
        rig_close(&r);
    }
}

/* --- company --- */

enum { N = 16 };

static void requests_beside_one_another_are_as_alone(void **state)
{
    (void)state;
    const cdz_plugin_base *greedy = built_plugin("greedy");
    for (size_t m = 0; m < n_models(); m++) {
        hand_plan plans[N];
        answer alone[N], beside[N];
        rig r = rig_open(models[m], (cdz_engine_options){.n_threads = 2});
        for (uint32_t turn = 0; turn < 2; turn++)
            for (uint32_t i = 0; i < N; i++) {
                int32_t ids[3 * 64];
                const uint32_t len = 3 + i * 7 % 60, rows = i % 5 == 0 ? 3 : 1;
                random_ids(ids, rows * len, V, i);
                plan_init(&plans[i], greedy, NULL);
                plan_add_criterion(&plans[i], &length_rule, NULL);
                answer *a = turn ? &beside[i] : &alone[i];
                new_job(&r, &plans[i], ids, NULL, rows, len, 4 + i, a)->keep_scores = true;
                submit(&r, a);
                if (!turn) await_well(a);
            }
        for (uint32_t i = 0; i < N; i++) {
            const cdz_outcome *x = alone[i].outcome, *y = await_well(&beside[i]);
            assert_int_equal(x->n_steps, y->n_steps);
            for (uint32_t k = 0; k < x->n_rows; k++)
                assert_memory_equal(x->rows[k].ids, y->rows[k].ids, x->rows[k].len * 4);
            for (uint32_t s = 0; s < x->n_steps; s++)
                assert_memory_equal(x->steps[s].chosen, y->steps[s].chosen, x->n_rows * 4);
            answer_free(&alone[i]);
            answer_free(&beside[i]);
        }
        rig_close(&r);
    }
}

/* --- memory --- */

static void states_are_counted_and_refused(void **state)
{
    (void)state;
    int32_t ids[8];
    random_ids(ids, 8, V, 1);
    rig r = rig_open("mamba2", (cdz_engine_options){.kv_bytes = 96 << 10});
    const cdz_weights *weights = cdz_run_model_weights(r.model);
    assert_int_equal(weights->facts.kv_bytes_per_token, 0);
    assert_int_equal(weights->facts.state_bytes, 3 * (3 * 128 + 8 * 8 * 16) * sizeof(float));
    answer a;
    cdz_error err = {0};
    cdz_job *job = new_job(&r, NULL, ids, NULL, 8, 1, 0, &a);
    job->prompt_logits = true;
    assert_int_equal(cdz_engine_submit(r.engine, job, &a.id, &err), CDZ_E_LIMIT);
    if (!strstr(err.text, "recurrent states of")) fail_msg("%s", err.text);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_give_what_the_whole_gives),
        cmocka_unit_test(a_state_follows_every_way_back),
        cmocka_unit_test(rows_take_tokens_back),
        cmocka_unit_test(requests_beside_one_another_are_as_alone),
        cmocka_unit_test(states_are_counted_and_refused),
    };
    return cmocka_run_group_tests_name("run recurrent", tests, NULL, NULL);
}
