/* test_quantise.c - weights quantised at load: the numbers of a file that was quantised before, of
 * every type, by the rules of types; and through the embedding interface. */
#include "run/run_support.h"

#include <unistd.h>

#include "cadenza/cadenza.h"
#include "convert/convert.h"

static const char shipped[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char pair[] = CADENZA_TEST_DATA "/golden/t5_gated";
enum { LEN = 32 };

static cdz_weights *open_as(const char *path, cdz_dtype type)
{
    cdz_weights *w;
    cdz_error err = {0};
    must(cdz_weights_open(path, &w, &err), &err);
    if (type != CDZ_N_DTYPES) must(cdz_weights_quantise(w, type, &err), &err);
    return w;
}

/* The weights are taken. */
static float *logits_of(cdz_weights *w, size_t *n)
{
    int32_t ids[LEN];
    rig r = {0};
    answer a;
    cdz_error err = {0};
    const cdz_engine_options options = {.kv_bytes = 8 << 20};
    for (int i = 0; i < LEN; i++) ids[i] = (7 + 31 * i) % 4096;
    must(cdz_engine_create(&options, &r.engine, &err), &err);
    must(cdz_run_model_create(r.engine, w, NULL, &r.model, &err), &err);
    cdz_job *job = new_job(&r, NULL, ids, NULL, 1, LEN, 0, &a);
    job->prompt_logits = true;
    const cdz_outcome *outcome = run_well(&r, &a);
    *n = (size_t)LEN * outcome->n_vocab;
    float *copy = malloc(*n * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, outcome->prompt_logits, *n * sizeof *copy);
    answer_free(&a);
    rig_close(&r);
    return copy;
}

static void at_load_is_as_stored(void **state)
{
    (void)state;
    static const cdz_dtype types[] = {CDZ_Q8_0, CDZ_Q4_0, CDZ_Q4_K};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char path[] = "/tmp/cadenza-quantise-XXXXXX";
        size_t n, n_stored;
        cdz_error err = {0};
        cdz_convert_report report;
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        const cdz_convert_options o = {
            .in = shipped, .out = path, .to_gguf = true, .force = true, .type = types[t]};
        must(cdz_convert(&o, &report, &err), &err);
        float *loaded = logits_of(open_as(shipped, types[t]), &n),
              *stored = logits_of(open_as(path, CDZ_N_DTYPES), &n_stored);
        unlink(path);
        assert_int_equal(n, n_stored);
        assert_memory_equal(loaded, stored, n * sizeof *loaded);
        free(loaded);
        free(stored);
    }
}

/* How far off logits may be, by root mean square: a few times what was measured. */
static const struct {
    cdz_dtype type;
    double most;
} errors[] = {{CDZ_Q8_0, 0.1}, {CDZ_Q5_0, 0.5}, {CDZ_Q5_1, 0.5}, {CDZ_Q4_0, 1}, {CDZ_Q4_1, 1},
              {CDZ_Q6_K, 0.2}, {CDZ_Q5_K, 0.4}, {CDZ_Q4_K, 0.8}, {CDZ_Q3_K, 2}, {CDZ_Q2_K, 4},
              {CDZ_NF4, 0.8},  {CDZ_FP4, 1.2},  {CDZ_INT8, 0.1}};

static void every_type_is_near(void **state)
{
    (void)state;
    size_t n, n_got;
    float *plain = logits_of(open_as(shipped, CDZ_N_DTYPES), &n);
    for (size_t t = 0; t < sizeof errors / sizeof *errors; t++) {
        float *got = logits_of(open_as(shipped, errors[t].type), &n_got);
        double squares = 0;
        assert_int_equal(n, n_got);
        for (size_t i = 0; i < n; i++)
            squares += ((double)got[i] - (double)plain[i]) * ((double)got[i] - (double)plain[i]);
        const double error = sqrt(squares / (double)n);
        if (!(error > 0 && error < errors[t].most))
            fail_msg("%s: off by %g, expected at most %g", cdz_dtype_name(errors[t].type), error,
                     errors[t].most);
        free(got);
    }
    free(plain);
}

static void types_follow_the_rules(void **state)
{
    (void)state;
    static const struct {
        cdz_dtype wanted, matrix, odd, head; /* rows of 256, of 688; the tied head */
    } rules[] = {{CDZ_Q4_K, CDZ_Q4_K, CDZ_BF16, CDZ_Q6_K},
                 {CDZ_Q8_0, CDZ_Q8_0, CDZ_BF16, CDZ_Q8_0},
                 {CDZ_NF4, CDZ_NF4, CDZ_BF16, CDZ_BF16},
                 {CDZ_INT8, CDZ_INT8, CDZ_BF16, CDZ_BF16}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        cdz_weights *w = open_as(shipped, rules[i].wanted);
        uint64_t bytes = 0;
        assert_int_equal(w->layers[2].q.w.dtype, rules[i].matrix);
        assert_int_equal(w->layers[2].mlp.up.w.dtype, rules[i].matrix);
        assert_int_equal(w->layers[2].mlp.down.w.dtype, rules[i].odd);
        assert_int_equal(w->head.w.dtype, rules[i].head);
        assert_ptr_equal(w->head.w.data, w->embed.data);
        assert_int_equal(w->layers[2].attn_norm.w.dtype, CDZ_BF16);
        for (int t = 0; t < CDZ_N_DTYPES; t++) bytes += w->facts.bytes[t];
        assert_true(bytes < w->facts.file_bytes);
        assert_true(w->facts.bytes[rules[i].matrix] > 0);
        cdz_weights_close(w);
    }
}

/* Rows of 160 and 192 among them, and an encoder that shares the embedding. */
static void pairs_are_quantised_whole(void **state)
{
    (void)state;
    cdz_weights *w = open_as(pair, CDZ_Q8_0);
    const size_t wide = w->arch.intermediate;
    const cdz_dtype down = wide % 32 ? CDZ_F32 : CDZ_Q8_0;
    assert_int_equal(w->layers[0].mlp.down.w.dtype, down);
    assert_int_equal(w->encoder.layers[0].mlp.down.w.dtype, down);
    assert_ptr_equal(w->encoder.embed.data, w->embed.data);
    cdz_weights_close(w);
}

static void blocks_are_refused(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_weights *w = open_as(CADENZA_TEST_DATA "/gguf/llama_bf16_q4_0.gguf", CDZ_N_DTYPES);
    assert_int_equal(cdz_weights_quantise(w, CDZ_Q8_0, &err), CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "are Q4_0 already"));
    cdz_weights_close(w);
}

static void the_interface_takes_a_type(void **state)
{
    (void)state;
    cdz_runtime *rt;
    cdz_model *model = NULL;
    cdz_result *result;
    cdz_pipeline *greedy;
    cdz_error err = {0};
    static const char ini[] = "[generation]\ndo_sample = no\nmax_new_tokens = 12\n";
    cdz_model_options how = {.size = sizeof how, .quantize = "Q4_k"};
    must(cdz_open(NULL, &rt, &err), &err);
    must(cdz_model_open(rt, shipped, &how, &model, &err), &err);
    must(cdz_pipeline_parse(rt, ini, strlen(ini), "greedy.ini", &greedy, &err), &err);
    const cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = greedy, .prompt = "river (noun): a"};
    must(cdz_generate(rt, &request, &result, &err), &err);
    assert_string_equal(cdz_result_text(result, 0),
                        " large natural stream of water (larger than a cree");
    cdz_result_free(result);
    cdz_pipeline_free(greedy);
    cdz_model_close(model);
    how.quantize = "q4_9";
    model = NULL;
    assert_int_equal(cdz_model_open(rt, shipped, &how, &model, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "quantize: there is no type 'q4_9'"));
    assert_null(model);
    cdz_close(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_load_is_as_stored),   cmocka_unit_test(every_type_is_near),
        cmocka_unit_test(types_follow_the_rules), cmocka_unit_test(pairs_are_quantised_whole),
        cmocka_unit_test(blocks_are_refused),     cmocka_unit_test(the_interface_takes_a_type),
    };
    return cmocka_run_group_tests_name("quantise at load", tests, NULL, NULL);
}
