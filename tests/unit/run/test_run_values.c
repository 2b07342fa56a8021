/* test_run_values.c - heads for values: what transformers says of texts (tests/values), the same bits whatever is read beside or
 * was read before, in one pass for all, of further models and of the target; and what is refused. */
#include "run/pass/model.h"
#include "support/run_strategies.h"

#include <math.h>

enum { MOST_CASES = 16, MOST_VALUES = 4, PROMPT = 4 };
static const int32_t prompt[PROMPT] = {5, 80, 20, 44};

/* --- as recorded ---------------------------------------------------------------------------------------------------- */

static const cdz_json *now; /* the model whose cases the strategy replays */
static const char *whose;   /* by which name */

static uint32_t take_ids(const cdz_json *of, int32_t *ids)
{
    const cdz_json *given = cdz_json_get(of, "ids");
    for (uint32_t i = 0; i < given->len; i++) ids[i] = (int32_t)given->items[i].integer;
    return given->len;
}

static cdz_status as_recorded(const cdz_step *step, const cdz_json *of, const float *got, uint32_t n)
{
    const cdz_json *want = cdz_json_get(of, "values");
    CHECK(want->len == n);
    for (uint32_t v = 0; v < n; v++) {
        double x;
        CHECK(cdz_json_number(&want->items[v], &x));
        if (!(fabs((double)got[v] - x) <= 2e-5 + 2e-5 * fabs(x)))
            return SAY("value %u is %.7g, recorded %.7g", v, (double)got[v], x);
    }
    return CDZ_OK;
}

/* Token by token, with what was asked before in the cache. */
static cdz_status grown(cdz_decoder *dec, const int32_t *ids, uint32_t len, uint32_t n, float *out)
{
    cdz_seq *seq;
    CDZ_TRY(cdz_seq_new(dec, whose, &seq));
    for (uint32_t i = 0; i < len; i++) {
        CDZ_TRY(cdz_seq_append(dec, seq, &ids[i], 1));
        CDZ_TRY(cdz_seq_value(dec, &seq, 1, n, out));
    }
    CDZ_TRY(cdz_seq_value(dec, &seq, 1, n, out)); /* nothing new */
    cdz_seq_free(dec, seq);
    return CDZ_OK;
}

static bool is_label(cdz_string label, const char *text)
{
    return label.at && label.len == strlen(text) && memcmp(label.at, text, label.len) == 0;
}

/* These models' labels are transformers' own; TRL's head has none. */
static cdz_status check_labels(cdz_decoder *dec, const cdz_step *step, uint32_t n)
{
    const bool named = cdz_json_eq(cdz_json_get(now, "head"), "score");
    char text[16];
    for (uint32_t i = 0; i < n; i++) {
        const cdz_string label = cdz_value_label(dec, whose, i);
        snprintf(text, sizeof text, "LABEL_%u", i);
        CHECK(named ? is_label(label, text) : label.at == NULL);
    }
    CHECK(!cdz_value_label(dec, whose, n).at && !cdz_value_label(dec, "nobody", 0).at);
    return CDZ_OK;
}

static cdz_status run_recorded(cdz_decoder *dec, const cdz_step *step)
{
    const cdz_json *cases = cdz_json_get(now, "cases");
    const uint32_t n = cdz_n_values(dec, whose), many = cases->len;
    cdz_seq *seqs[MOST_CASES];
    float together[MOST_CASES * MOST_VALUES], alone[MOST_VALUES];
    int32_t ids[64];
    CHECK(n == (uint32_t)cdz_json_get(now, "n")->integer && n <= MOST_VALUES);
    CHECK(many >= 4 && many <= MOST_CASES && cdz_n_values(dec, "nobody") == 0);
    CDZ_TRY(check_labels(dec, step, n));
    for (uint32_t i = 0; i < many; i++) {
        const uint32_t len = take_ids(&cases->items[i], ids);
        CDZ_TRY(cdz_seq_new(dec, whose, &seqs[i]));
        CDZ_TRY(cdz_seq_append(dec, seqs[i], ids, len));
    }
    CDZ_TRY(cdz_seq_value(dec, seqs, many, n, together));
    for (uint32_t i = 0; i < many; i++) {
        const uint32_t len = take_ids(&cases->items[i], ids);
        CDZ_TRY(as_recorded(step, &cases->items[i], together + (size_t)i * n, n));
        CHECK(cdz_seq_ids(dec, seqs[i]).len == len); /* pads, too, are where they were */
        CDZ_TRY(grown(dec, ids, len, n, alone));
        CHECK(same_floats(alone, together + (size_t)i * n, n));
    }
    return CDZ_OK;
}
STRATEGY(replay_recorded, run_recorded, CDZ_GREEDY);

static cdz_run_model *open_folder(const rig *r, const char *path)
{
    cdz_error err = {0};
    cdz_weights *weights;
    cdz_run_model *model;
    must(cdz_weights_open(path, &weights, &err), &err);
    must(cdz_run_model_create(r->engine, weights, NULL, &model, &err), &err);
    return model;
}

static cdz_run_model *open_valued(const rig *r, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, CADENZA_TEST_DATA "/values/%s", name);
    return open_folder(r, path);
}

static void plan_with(const rig *r, const cdz_strategy *strategy, cdz_run_model *reward,
                      hand_plan *plan, answer *a)
{
    plan_init(plan, &strategy->base, NULL);
    plan_add_criterion(plan, &length_rule, NULL);
    cdz_job *job = new_job(r, plan, prompt, NULL, 1, PROMPT, 8, a);
    cdz_job_model *models = cdz_arena_array(&job->arena, 1, sizeof *models);
    assert_non_null(models);
    models[0] = (cdz_job_model){"reward", reward};
    job->others = models;
    job->n_others = 1;
}

static cdz_error run_with(const rig *r, const cdz_strategy *strategy, cdz_run_model *reward)
{
    hand_plan plan;
    answer a;
    plan_with(r, strategy, reward, &plan, &a);
    submit(r, &a);
    const cdz_error error = await(&a)->error;
    answer_free(&a);
    return error;
}

static void replay(const cdz_json *model)
{
    char name[64];
    const cdz_json *told = cdz_json_get(model, "name"), *alone = cdz_json_get(model, "alone");
    snprintf(name, sizeof name, "%.*s", (int)told->len, told->string);
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    cdz_run_model *reward = open_valued(&r, name);
    now = model;
    whose = "reward";
    cdz_error err = run_with(&r, &replay_recorded, reward);
    if (err.code != CDZ_OK) fail_msg("%s: %s", name, err.text);
    assert_true(cdz_run_model_speaks(reward) == !alone->boolean);
    cdz_run_model_release(reward);
    rig_close(&r);
}

static void values_of_transformers(void **state)
{
    cdz_arena arena = {0};
    cdz_json all;
    cdz_error err = {0};
    (void)state;
    must(cdz_json_read_file(CADENZA_TEST_DATA "/values/values.json", 1 << 20, NULL, &arena, &all,
                            &err),
         &err);
    const cdz_json *models = cdz_json_get(&all, "models");
    assert_int_equal(models->len, 6);
    for (uint32_t m = 0; m < models->len; m++) replay(&models->items[m]);
    cdz_arena_free(&arena);
}

/* --- one pass -------------------------------------------------------------------------------------------------------- */

static cdz_status run_several(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *seqs[6];
    float out[6];
    CHECK(cdz_n_values(dec, "reward") == 1);
    for (int32_t i = 0; i < 6; i++) {
        const int32_t ids[2] = {30 + i, 7};
        CDZ_TRY(cdz_seq_new(dec, "reward", &seqs[i]));
        CDZ_TRY(cdz_seq_append(dec, seqs[i], ids, 2));
    }
    for (int32_t k = 0; k < 3; k++) {
        CDZ_TRY(cdz_seq_value(dec, seqs, 6, 1, out));
        for (int32_t i = 0; i < 6; i++) CDZ_TRY(cdz_seq_append(dec, seqs[i], &k, 1));
    }
    for (uint32_t i = 1; i < 6; i++) CHECK(out[i] != out[0]);
    return CDZ_OK;
}
STRATEGY(asks_several, run_several, CDZ_GREEDY);

/* Three questions about six sequences are three passes. */
static void a_pass_for_all(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    cdz_run_model *reward = open_valued(&r, "llama_reward");
    cdz_engine_stats before, after;
    cdz_engine_get_stats(r.engine, &before);
    assert_int_equal(run_with(&r, &asks_several, reward).code, CDZ_OK);
    cdz_engine_get_stats(r.engine, &after);
    assert_int_equal(after.passes - before.passes, 3);
    cdz_run_model_release(reward);
    rig_close(&r);
}

/* --- a model that answers, and has values of its own ------------------------------------------------------------------- */

static cdz_status run_own(cdz_decoder *dec, const cdz_step *step)
{
    cdz_scores scores;
    cdz_seq *row = cdz_seq_of_row(dec, 0), *other;
    float value, again;
    CHECK(cdz_n_values(dec, NULL) == 1);
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_seq_value(dec, &row, 1, 1, &value));
    const cdz_ids ids = cdz_input_ids(dec, 0);
    CDZ_TRY(cdz_seq_new(dec, NULL, &other));
    CDZ_TRY(cdz_seq_append(dec, other, ids.at, ids.len));
    CDZ_TRY(cdz_seq_value(dec, &other, 1, 1, &again));
    CHECK(value == again);
    CDZ_TRY(cdz_forward(dec, &scores)); /* the row goes on as if it had not been asked */
    return cdz_append(dec, 0, 9);
}
STRATEGY(asks_own, run_own, CDZ_GREEDY);

static void values_of_a_row(void **state)
{
    (void)state;
    cdz_weights *weights;
    cdz_error err = {0};
    hand_plan plan;
    answer a;
    must(cdz_weights_open(CADENZA_TEST_DATA "/values/llama_v_head", &weights, &err), &err);
    rig r = rig_of(weights);
    plan_init(&plan, &asks_own.base, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, prompt, NULL, 1, PROMPT, 1, &a);
    run_well(&r, &a);
    answer_free(&a);
    rig_close(&r);
}

/* --- labels --------------------------------------------------------------------------------------------------------- */

static const char *first_label, *second_label;

static cdz_status run_labels(cdz_decoder *dec, const cdz_step *step)
{
    CHECK(cdz_n_values(dec, "reward") == 2);
    CHECK(is_label(cdz_value_label(dec, "reward", 0), first_label));
    CHECK(is_label(cdz_value_label(dec, "reward", 1), second_label));
    CHECK(!cdz_value_label(dec, NULL, 0).at); /* the target has no such head */
    return CDZ_OK;
}
STRATEGY(labels, run_labels, CDZ_GREEDY);

/* Those of config.json; where it has none, transformers'. */
static void labels_of_a_classifier(void **state)
{
    static const char *const whose_labels[][2] = {{"dull", "lively"}, {"LABEL_0", "LABEL_1"}};
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    for (int i = 0; i < 2; i++) {
        char command[1024];
        const char *folder = CADENZA_BUILD_DIR "/tests/unlabelled";
        first_label = whose_labels[i][0];
        second_label = whose_labels[i][1];
        snprintf(command, sizeof command,
                 "rm -rf '%s' && cp -r '" CADENZA_TEST_DATA "/values/pocket_labels' '%s' && sed -i "
                 "'%s' '%s/config.json'",
                 folder, folder, i ? "s/id2label/id3label/" : "", folder);
        assert_int_equal(system(command), 0);
        cdz_run_model *reward = open_folder(&r, folder);
        const cdz_error err = run_with(&r, &labels, reward);
        if (err.code != CDZ_OK) fail_msg("%d: %s", i, err.text);
        cdz_run_model_release(reward);
    }
    rig_close(&r);
}

/* --- what is refused ------------------------------------------------------------------------------------------------ */

static int wrong_way;

static cdz_status run_wrong(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t ids[2] = {9, 0}, pads[2] = {0, 0};
    cdz_seq *seq, *exits, *both[2];
    cdz_scores scores;
    cdz_rollout out;
    const uint32_t row = 0;
    float values[8];
    (void)step;
    CDZ_TRY(cdz_seq_new(dec, wrong_way == 0 ? NULL : "reward", &seq));
    if (wrong_way != 4) CDZ_TRY(cdz_seq_append(dec, seq, wrong_way == 5 ? pads : ids, 2));
    both[0] = both[1] = seq;
    switch (wrong_way) {
    case 1: return cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_LAST, &scores);
    case 2: return cdz_seq_score(dec, &seq, 1, 1, values);
    case 3: return cdz_seq_value(dec, &seq, 1, 2, values);
    case 6: return cdz_seq_value(dec, both, 2, 3, values);
    case 7:
        CDZ_TRY(cdz_seq_new_exit(dec, "reward", 1, &exits));
        CDZ_TRY(cdz_seq_append(dec, exits, ids, 1));
        return cdz_seq_value(dec, &exits, 1, 3, values);
    case 8: return cdz_rollouts(dec, &seq, &row, 1, 1, false, &out);
    default: return cdz_seq_value(dec, &seq, 1, 3, values);
    }
}
STRATEGY(wrong, run_wrong, CDZ_GREEDY);

static void wrong_use(void **state)
{
    static const char *const says[] = {
        "seq_value: model \"target\" has no head for values (score.weight, v_head.summary.weight)",
        ("seq_forward: model \"reward\" has a head for values (score) and none for tokens; seq_value "
         "asks it"),
        "seq_forward: model \"reward\" has a head for values (score) and none for tokens",
        "seq_value: room for 2 values of a sequence; model \"reward\" gives 3",
        "seq_value: sequence 0 of 1 has no token",
        "seq_value: sequence 0 of 1 has no token but pads",
        "seq_value: sequences 0 and 1 are the same one",
        "seq_value: a sequence that runs the first 1 layers alone",
        "rollouts: a sequence does not begin with the ids of row 0",
    };
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    cdz_run_model *reward = open_valued(&r, "qwen2_labels");
    for (wrong_way = 0; wrong_way < (int)(sizeof says / sizeof *says); wrong_way++) {
        const cdz_error err = run_with(&r, &wrong, reward);
        if (err.code == CDZ_OK || !strstr(err.text, says[wrong_way]))
            fail_msg("%d: \"%s\" does not say \"%s\"", wrong_way, err.text, says[wrong_way]);
    }
    cdz_run_model_release(reward);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_transformers),
        cmocka_unit_test(a_pass_for_all),
        cmocka_unit_test(values_of_a_row),
        cmocka_unit_test(labels_of_a_classifier),
        cmocka_unit_test(wrong_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
