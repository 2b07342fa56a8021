/* test_run_vectors.c - recorded greedy runs of transformers whose model was a script: the logits of every step are given.
 * The request takes the way of any other, through preparation, plan, strategy, processors, stopping rules and the
 * engine's loop; only what the model says is replaced, by a processor before all others. The letters of run/letters are
 * the recorded tokens' texts. */
#include "support/run_support.h"

#include "prepare/prepare.h"
#include "run/pass/model.h"

/* --- the script ------------------------------------------------------------------------------------------------- */

static cdz_status script_apply(const cdz_step *step, cdz_scores *scores)
{
    const cdz_json *steps = step->params;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const uint32_t at = step->input_ids[r].len - step->request->prompt_len;
        if (at >= steps->len || step->row_index[r] >= steps->items[at].len)
            return (step->host->fail)(step, CDZ_E_INTERNAL, "no line for step %u", (unsigned)at);
        const cdz_json *line = &steps->items[at].items[step->row_index[r]];
        if (line->len > scores->n_vocab)
            return (step->host->fail)(step, CDZ_E_INTERNAL, "a line too long");
        for (uint32_t v = 0; v < scores->n_vocab; v++) {
            double value = -INFINITY;
            if (v < line->len && !cdz_json_number(&line->items[v], &value))
                return (step->host->fail)(step, CDZ_E_INTERNAL, "a line with no number at %u", v);
            cdz_row(scores, r)[v] = (float)value;
        }
    }
    return CDZ_OK;
}

static const cdz_processor script = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.script", .version = "1.0.0", .summary = "script"},
    .caps = CDZ_NEEDS_IDS,
    .apply = script_apply,
};

static void put_script_first(cdz_plan *plan, const cdz_json *lines)
{
    cdz_instance *all = cdz_arena_array(&plan->arena, (size_t)plan->n_processors + 1, sizeof *all);
    assert_non_null(all);
    all[0] = instance_of(&script.base, lines);
    for (uint32_t i = 0; i < plan->n_processors; i++) all[i + 1] = plan->processors[i];
    plan->processors = all;
    plan->n_processors++;
}

/* --- a model whose tokens have the recorded texts ------------------------------------------------------------------- */

typedef struct stage {
    cdz_registry *registry;
    cdz_pipeline *hf;
    rig rig;
} stage;

static stage stage_open(void)
{
    stage s = {0};
    cdz_error err = {0};
    cdz_weights *weights;
    cdz_tokenizer *letters;
    const cdz_registry_options plugins = {.builtin_dir = CADENZA_BUILD_DIR "/lib/cadenza",
                                          .safe_mode = true};
    const cdz_engine_options options = {.n_threads = 2, .kv_bytes = 8 << 20};
    must(cdz_registry_create(&plugins, &s.registry, &err), &err);
    must(cdz_pipeline_create(s.registry, "", 0, "hf", &s.hf, &err), &err);
    must(cdz_engine_create(&options, &s.rig.engine, &err), &err);
    must(cdz_weights_open(CADENZA_TEST_DATA "/golden/llama_draft", &weights, &err), &err);
    must(cdz_tokenizer_open(CADENZA_TEST_DATA "/run/letters", &letters, &err), &err);
    must(cdz_run_model_create(s.rig.engine, weights, letters, &s.rig.model, &err), &err);
    return s;
}

static void stage_close(stage *s)
{
    rig_close(&s->rig);
    cdz_pipeline_release(s->hf);
    cdz_registry_free(s->registry);
}

static void check_letters(const stage *s, const cdz_json *c)
{
    const cdz_json *texts = cdz_json_get(c, "token_strings");
    if (!cdz_json_is(texts, CDZ_JSON_ARRAY)) return;
    for (uint32_t i = 0; i < texts->len; i++) {
        const cdz_string text = cdz_run_model_token_text(s->rig.model, (int32_t)i);
        assert_non_null(text.at);
        assert_true(cdz_json_eq(&texts->items[i], text.at));
    }
}

/* --- cases -------------------------------------------------------------------------------------------------------------- */

static cdz_job *prepare(const stage *s, const cdz_json *c)
{
    cdz_json_member fields[] = {
        {.key = "prompt_ids", .key_len = 10, .value = *cdz_json_get(c, "prompt_ids")},
        {.key = "kwargs", .key_len = 6, .value = *cdz_json_get(c, "params")},
    };
    const cdz_json document = {.type = CDZ_JSON_OBJECT, .len = 2, .members = fields};
    const cdz_prepare_input in = {.model = s->rig.model, .pipeline = s->hf, .document = &document};
    cdz_prepared call;
    cdz_error err = {0};
    must(cdz_prepare_job(&in, &call, NULL, &err), &err);
    put_script_first(call.job->plan, cdz_json_get(c, "step_logits"));
    return call.job;
}

static void check_rows(const cdz_json *c, const cdz_outcome *outcome)
{
    const cdz_json *want = cdz_json_get(c, "sequences");
    const long long id = cdz_json_get(c, "id")->integer;
    assert_int_equal(outcome->n_rows, want->len);
    for (uint32_t r = 0; r < want->len; r++) {
        const cdz_outcome_row *row = &outcome->rows[r];
        if (row->len != want->items[r].len)
            fail_msg("case %lld, row %u: %u ids, expected %u", id, r, row->len, want->items[r].len);
        for (uint32_t i = 0; i < row->len; i++)
            if (row->ids[i] != want->items[r].items[i].integer)
                fail_msg("case %lld, row %u, place %u: token %d, expected %lld", id, r, i,
                         (int)row->ids[i], (long long)want->items[r].items[i].integer);
    }
}

static void replay(const stage *s, const cdz_json *c)
{
    answer a = {.job = prepare(s, c)};
    cdz_plan *plan = a.job->plan; /* ours again once the job is done: answer_done takes it out */
    pthread_mutex_init(&a.lock, NULL);
    pthread_cond_init(&a.changed, NULL);
    a.job->on_tokens = answer_tokens;
    a.job->on_done = answer_done;
    a.job->user = &a;
    check_letters(s, c);
    check_rows(c, run_well(&s->rig, &a));
    answer_free(&a);
    cdz_plan_free(plan);
}

static void test_greedy_cases(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_json vectors;
    cdz_error err = {0};
    uint32_t n = 0;
    must(cdz_json_read_file(CADENZA_TEST_DATA "/processors/processor_vectors.json", 0, NULL, &arena,
                            &vectors, &err),
         &err);
    stage s = stage_open();
    const cdz_json *cases = cdz_json_get(&vectors, "cases");
    for (uint32_t i = 0; i < cases->len; i++) {
        if (!cdz_json_eq(cdz_json_get(&cases->items[i], "kind"), "loop")) continue;
        assert_true(cdz_json_eq(cdz_json_get(&cases->items[i], "name"), "greedy"));
        replay(&s, &cases->items[i]);
        n++;
    }
    stage_close(&s);
    cdz_arena_free(&arena);
    assert_int_equal(n, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
