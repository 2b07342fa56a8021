/* test_run_goldens.c - the engine against recorded logits and greedy runs of the reference. */
#include "base/environment.h"
#include "support/run_support.h"

static const char *const models[] = {
    "llama_gqa", "llama_draft", "llama_tied_l3", "llama_bias", "llama_bf16", "llama_f16",
    "llama_sharded", "mistral_sw", "qwen2_tied", "qwen2_sw", "qwen3", "smollm3", "olmo2",
    "qwen3_yarn", "phi3", "gemma2", "gemma3", "mixtral", "qwen3_moe", "gpt2", "gpt2_scaled",
    "gpt_neox", "gpt_neox_seq", "llama_dynamic", "phi3_longrope", "stablelm", "starcoder2", "olmo3",
    "exaone4", "cohere2", "glm4", "granite", "seed_oss", "hunyuan_v1_dense", "glm4_moe",
    "ernie4_5_moe", "minimax_m2", "ernie4_5", "qwen2_moe", "olmoe", "cohere", "gemma", "arcee",
    "olmo", "nemotron", "granitemoe", "llama4", "ministral3", "phi", "persimmon", "gptj",
    "gpt_bigcode", "opt", "gpt_oss", "gpt_oss_mxfp4", "deepseek_v2", "deepseek_v3", "stablelm2",
    "cohere_qk", "codegen", "falcon", "falcon_40b", "falcon_11b", "falcon_serial", "mpt", "bloom",
    "phimoe", "apertus",
    /* From here on with recurrent layers or several streams, which run on the CPU alone. */
    "lfm2", "lfm2_moe", "mamba2", "granitemoehybrid", "falcon_h1", "nemotron_h", "qwen3_next",
    "qwen3_5", "qwen3_5_moe", "gemma3n"};
enum { N_MODELS = sizeof models / sizeof *models, N_RECURRENT = 10 };

static int n_models(void)
{
    return cdz_env_named("CADENZA_DEVICE") ? N_MODELS - N_RECURRENT : N_MODELS;
}

static void compare_floats(const char *what, const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f + 1e-4f * fabsf(want[i])))
            fail_msg("%s: entry %zu is %.7g, expected %.7g", what, i, (double)got[i],
                     (double)want[i]);
}

/* Scores of every prompt position. */
static void check_logits(const rig *r, const cdz_json *one, const cdz_tensors *tensors)
{
    uint32_t n, len;
    int32_t *ids = golden_rows(cdz_json_get(one, "prompt_ids"), &n, &len);
    const cdz_json *name = cdz_json_get(cdz_json_get(one, "expect"), "tensor");
    const cdz_tensor *tensor = cdz_tensors_find(tensors, name->string);
    assert_non_null(tensor);
    answer a;
    cdz_job *job = new_job(r, NULL, ids, NULL, n, len, 0, &a);
    job->prompt_logits = true;
    cdz_outcome *outcome = run_well(r, &a);
    assert_non_null(outcome->prompt_logits);
    assert_int_equal(tensor->n_bytes, (size_t)len * outcome->n_vocab * sizeof(float));
    compare_floats(cdz_json_get(one, "id")->string, outcome->prompt_logits, tensor->data,
                   (size_t)len * outcome->n_vocab);
    answer_free(&a);
    free(ids);
}

static void test_prompt_logits(void **state)
{
    (void)state;
    for (int m = 0; m < n_models(); m++) {
        char path[512];
        cdz_error err = {0};
        cdz_tensors tensors = {0};
        snprintf(path, sizeof path, "%s%s/logits.safetensors", golden_folder, models[m]);
        must(cdz_tensors_open(path, &tensors, &err), &err);
        golden g = golden_open(models[m]);
        rig r = rig_open(models[m], (cdz_engine_options){0});
        for (uint32_t i = 0; i < g.cases.len; i++)
            if (cdz_json_eq(cdz_json_get(&g.cases.items[i], "mode"), "logits"))
                check_logits(&r, &g.cases.items[i], &tensors);
        rig_close(&r);
        cdz_arena_free(&g.arena);
        cdz_tensors_close(&tensors);
    }
}

/* eos of a case's kwargs as ids; 0 when null. */
static uint32_t read_eos(const cdz_json *one, int32_t eos[4])
{
    const cdz_json *value = cdz_json_get(cdz_json_get(one, "kwargs"), "eos_token_id");
    if (cdz_json_is(value, CDZ_JSON_INT)) {
        eos[0] = (int32_t)value->integer;
        return 1;
    }
    uint32_t n = cdz_json_is(value, CDZ_JSON_ARRAY) ? value->len : 0;
    for (uint32_t i = 0; i < n; i++) eos[i] = (int32_t)value->items[i].integer;
    return n;
}

static void compare_scores(const cdz_json *expect, const cdz_outcome *outcome)
{
    const cdz_json *chosen = cdz_json_get(cdz_json_get(expect, "scores"), "chosen");
    if (!chosen) return;
    assert_int_equal(chosen->len, outcome->n_steps);
    for (uint32_t s = 0; s < chosen->len; s++)
        for (uint32_t r = 0; r < outcome->n_rows; r++) {
            double want;
            if (!cdz_json_number(&chosen->items[s].items[r], &want)) continue;
            const float one = (float)want;
            compare_floats("chosen", &outcome->steps[s].chosen[r], &one, 1);
        }
}

/* A greedy case without processors of its own. */
static void check_greedy(const rig *r, const cdz_json *one, const cdz_plugin_base *greedy)
{
    uint32_t n, len, n_want, len_want;
    int32_t *ids = golden_rows(cdz_json_get(one, "prompt_ids"), &n, &len);
    int32_t *want =
        golden_rows(cdz_json_get(cdz_json_get(one, "expect"), "sequences"), &n_want, &len_want);
    uint8_t *mask = NULL;
    const cdz_json *given = cdz_json_get(one, "attention_mask");
    if (cdz_json_is(given, CDZ_JSON_ARRAY)) {
        uint32_t mn, ml;
        int32_t *wide = golden_rows(given, &mn, &ml);
        mask = calloc((size_t)n * len, 1);
        for (size_t i = 0; i < (size_t)n * len; i++) mask[i] = (uint8_t)wide[i];
        free(wide);
    }
    const cdz_json *max_new = cdz_json_get(cdz_json_get(one, "kwargs"), "max_new_tokens");
    hand_plan plan;
    plan_init(&plan, greedy, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    int32_t eos[4];
    const uint32_t n_eos = read_eos(one, eos);
    if (n_eos) plan_add_criterion(&plan, &eos_rule, NULL);
    answer a;
    cdz_job *job = new_job(r, &plan, ids, mask, n, len, (uint32_t)max_new->integer, &a);
    job->eos = (cdz_ids){eos, n_eos};
    job->pad = 0;
    job->keep_scores = true;
    job->keep_top = 5;
    cdz_outcome *outcome = run_well(r, &a);
    assert_int_equal(outcome->n_rows, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(outcome->rows[i].len, len_want);
        assert_memory_equal(outcome->rows[i].ids, want + i * len_want, len_want * sizeof *want);
        if (i < 4)
            assert_memory_equal(a.streamed[i], want + i * len_want + len,
                                a.n_streamed[i] * sizeof *want);
        assert_true(i >= 4 || a.n_streamed[i] == outcome->rows[i].n_new);
    }
    compare_scores(cdz_json_get(one, "expect"), outcome);
    answer_free(&a);
    free(mask);
    free(want);
    free(ids);
}

static void test_greedy(void **state)
{
    (void)state;
    static const char *const cases[] = {"greedy/0", "greedy/1", "batch/0", "eos/batch", "eos/list"};
    enum {
        EVERYWHERE = 4,
        RECURRENT = 1
    }; /* so many are recorded of all models, and of recurrent ones */
    const cdz_plugin_base *greedy = built_plugin("greedy");
    for (int m = 0; m < n_models(); m++) {
        /* No cases of these names; the program's own replay covers what they have. */
        if (strcmp(models[m], "llama_draft") == 0 || strcmp(models[m], "llama_dynamic") == 0)
            continue;
        golden g = golden_open(models[m]);
        rig r = rig_open(models[m], (cdz_engine_options){0});
        const size_t sure = m < N_MODELS - N_RECURRENT ? EVERYWHERE : RECURRENT;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char id[128];
            snprintf(id, sizeof id, "%s/%s", models[m], cases[i]);
            if (i >= sure && !golden_has(&g, id)) continue;
            check_greedy(&r, golden_case(&g, id), greedy);
        }
        rig_close(&r);
        cdz_arena_free(&g.arena);
    }
}

/* Does the case draw from a seed, in this mode, with so many prompts and sequences of each? */
static bool draws(const cdz_json *one, const char *mode, uint32_t n_prompts, int64_t n_sequences)
{
    const cdz_json *kwargs = cdz_json_get(one, "kwargs"), *prompts = cdz_json_get(one, "prompt_ids");
    const cdz_json *sample = kwargs ? cdz_json_get(kwargs, "do_sample") : NULL;
    const cdz_json *several = kwargs ? cdz_json_get(kwargs, "num_return_sequences") : NULL;
    return cdz_json_eq(cdz_json_get(one, "mode"), mode) && cdz_json_get(one, "seed") && sample &&
           sample->type == CDZ_JSON_BOOL && sample->boolean && prompts &&
           prompts->len == n_prompts && (several ? several->integer : 1) == n_sequences;
}

/* The program's own replay runs every recorded case; here, that the seeds' promise is among them. */
static void test_seeds_are_recorded(void **state)
{
    static const struct {
        const char *mode;
        uint32_t n_prompts;
        int64_t n_sequences;
        uint32_t least;
    } kinds[] = {
        {"sample", 1, 1, 20},     {"sample", 3, 1, 3},   {"sample", 1, 4, 1},
        {"beam_sample", 1, 2, 1}, {"assisted", 1, 1, 5}, {"prompt_lookup", 1, 1, 1},
    };
    golden g = golden_open("llama_gqa");
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < g.cases.len; i++)
            n += draws(&g.cases.items[i], kinds[k].mode, kinds[k].n_prompts, kinds[k].n_sequences);
        if (n < kinds[k].least)
            fail_msg("%s of %u prompts, %lld sequences: %u cases", kinds[k].mode,
                     kinds[k].n_prompts, (long long)kinds[k].n_sequences, n);
    }
    cdz_arena_free(&g.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_logits),
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_seeds_are_recorded),
    };
    return cmocka_run_group_tests_name("run goldens", tests, NULL, NULL);
}
