/* test_quantise.c - weights quantised at load: the numbers of a file that was quantised before, of
 * every type, by the rules of types; and through the embedding interface. */
#include "support/run_support.h"

#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "api/api.h"
#include "cadenza/cadenza.h"
#include "convert/convert.h"
#include "support/opened.h"

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
    for (int i = 0; i < LEN; i++) ids[i] = (7 + 31 * i) % 4096;
    rig r = rig_of(w);
    float *logits = prompt_logits_of(&r, ids, LEN, n);
    rig_close(&r);
    return logits;
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
    rt = opened_runtime(NULL);
    must(cdz_model_open(rt, shipped, &how, &model, &err), &err);
    greedy = opened_pipeline(rt, ini);
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

/* --- activations -------------------------------------------------------------------------------- */

/* Does as many passes' share as are asked for; returns how many there were to do. */
static int bring_panels(cdz_weights *w, int most)
{
    char why[256] = "";
    const cdz_cpu_options how = {.n_threads = 2};
    cdz_backend *backend = cdz_cpu_backend_create(&how, why, sizeof why);
    int done = 0;
    assert_non_null(backend);
    for (; done < most && cdz_weights_panels_left(w); done++) cdz_weights_more_panels(w, backend);
    backend->api->destroy(backend);
    return done;
}

/* The shipped model in blocks, with activations of a kind; some of it in panels, by the share of so many passes. */
static float *logits_with(cdz_dtype type, cdz_activations how, int passes, size_t *n)
{
    cdz_error err = {0};
    cdz_weights *w = open_as(shipped, type);
    must(cdz_weights_set_activations(w, how, NULL, &err), &err);
    assert_int_equal(w->facts.panel_bytes, w->facts.int8_bytes);
    assert_int_equal(w->facts.int8_bytes > 0, how != CDZ_ACTIVATIONS_F32);
    assert_int_equal(w->embed.form, how == CDZ_ACTIVATIONS_F32 ? CDZ_WEIGHT_ROWS : CDZ_WEIGHT_INT8);
    if (how != CDZ_ACTIVATIONS_F32) assert_true(bring_panels(w, passes) > 0 || passes == 0);
    if (passes == INT_MAX) assert_false(cdz_weights_panels_left(w));
    if (passes == INT_MAX && how != CDZ_ACTIVATIONS_F32) {
        assert_int_equal(w->embed.form, CDZ_WEIGHT_PANELS);
        assert_ptr_equal(w->embed.data, w->head.w.data);
    }
    return logits_of(w, n);
}

static void panels_are_as_rows(void **state)
{
    (void)state;
    static const cdz_dtype types[] = {CDZ_Q8_0, CDZ_Q4_0, CDZ_Q5_1, CDZ_Q4_K};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t n;
        float *plain = logits_with(types[t], CDZ_ACTIVATIONS_F32, 0, &n),
              *panels = logits_with(types[t], CDZ_ACTIVATIONS_AUTO, INT_MAX, &n),
              *some = logits_with(types[t], CDZ_ACTIVATIONS_AUTO, 1, &n),
              *rows = logits_with(types[t], CDZ_ACTIVATIONS_INT8, 0, &n);
        double squares = 0.0;
        assert_memory_equal(panels, rows, n * sizeof *rows);
        assert_memory_equal(some, rows, n * sizeof *rows);
        for (size_t i = 0; i < n; i++)
            squares +=
                ((double)panels[i] - (double)plain[i]) * ((double)panels[i] - (double)plain[i]);
        const double error =
            sqrt(squares / (double)n); /* what a type costs by itself is 0.02 to 0.3 */
        if (error == 0.0 || error > 0.06)
            fail_msg("%s: int8 activations move logits by %g", cdz_dtype_name(types[t]), error);
        free(plain);
        free(panels);
        free(some);
        free(rows);
    }
}

/* The passes of a request bring its model's weights into panels; the next one, which finds them there, gets the same. */
static void passes_bring_panels(void **state)
{
    (void)state;
    cdz_runtime *rt;
    cdz_model *model;
    cdz_error err = {0};
    cdz_result *results[2];
    const cdz_model_options how = {.size = sizeof how, .quantize = "q4_0"};
    rt = opened_runtime(NULL);
    must(cdz_model_open(rt, shipped, &how, &model, &err), &err);
    const cdz_request request = {
        .size = sizeof request,
        .model = model,
        .json = "{\"prompt_ids\": [7, 38, 69, 100], \"kwargs\": {\"do_sample\": false, "
                "\"min_new_tokens\": 24, \"max_new_tokens\": 24}}"};
    for (int i = 0; i < 2; i++) {
        must(cdz_generate(rt, &request, &results[i], &err), &err);
        const cdz_weights *w = cdz_run_model_weights(model->run);
        assert_false(cdz_weights_panels_left(w));
        assert_int_equal(w->embed.form, CDZ_WEIGHT_PANELS);
    }
    uint32_t n, n_again;
    const int32_t *first = cdz_result_ids(results[0], 0, &n),
                  *again = cdz_result_ids(results[1], 0, &n_again);
    assert_int_equal(n, 24);
    assert_int_equal(n_again, n);
    assert_memory_equal(first, again, n * sizeof *first);
    for (int i = 0; i < 2; i++) cdz_result_free(results[i]);
    cdz_model_close(model);
    cdz_close(rt);
}

static void plain_weights_have_no_int8(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_weights *w = open_as(shipped, CDZ_N_DTYPES);
    must(cdz_weights_set_activations(w, CDZ_ACTIVATIONS_AUTO, NULL, &err), &err);
    assert_int_equal(w->facts.int8_bytes, 0);
    assert_int_equal(cdz_weights_set_activations(w, CDZ_ACTIVATIONS_INT8, NULL, &err),
                     CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no weights of a type that multiplies with it"));
    cdz_weights_close(w);
}

/* The shipped model is in bf16: rounding its activations moves logits a little. Of a model in float32 nothing is rounded. */
static void bf16_activations_are_near(void **state)
{
    (void)state;
    cdz_error err = {0};
    size_t n;
    cdz_weights *w = open_as(shipped, CDZ_N_DTYPES);
    must(cdz_weights_set_activations(w, CDZ_ACTIVATIONS_BF16, NULL, &err), &err);
    assert_true(w->facts.bf16_activation_bytes > w->facts.file_bytes / 2);
    assert_int_equal(w->layers[0].mlp.down.w.form, CDZ_WEIGHT_BF16);
    assert_int_equal(w->head.w.form, CDZ_WEIGHT_BF16);
    float *rounded = logits_of(w, &n), *plain = logits_of(open_as(shipped, CDZ_N_DTYPES), &n);
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += ((double)rounded[i] - (double)plain[i]) * ((double)rounded[i] - (double)plain[i]);
    const double error = sqrt(squares / (double)n);
    if (error == 0.0 || error > 0.02) fail_msg("bf16 activations move logits by %g", error);
    free(rounded);
    free(plain);
    w = open_as(pair, CDZ_N_DTYPES);
    assert_int_equal(cdz_weights_set_activations(w, CDZ_ACTIVATIONS_BF16, NULL, &err),
                     CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no weights in bf16"));
    cdz_weights_close(w);
}

/* The root of the mean square of what the shipped model's logits move by. */
static double moved_by(cdz_activations how, cdz_weight_form form)
{
    cdz_error err = {0};
    size_t n;
    cdz_backend *b = cdz_cpu_backend_create(&(cdz_cpu_options){0}, err.text, sizeof err.text);
    assert_non_null(b);
    cdz_weights *w = open_as(shipped, CDZ_N_DTYPES);
    const bool here = b->api->takes_parts;
    assert_int_equal(cdz_weights_set_activations(w, how, b, &err),
                     here ? CDZ_OK : CDZ_E_UNSUPPORTED);
    if (!here) assert_non_null(strstr(err.text, "is for processors with AMX"));
    b->api->destroy(b);
    if (!here) {
        print_message("no AMX here: logits by activations in parts are not looked at\n");
        cdz_weights_close(w);
        return -1.0;
    }
    assert_int_equal(w->head.w.form, form);
    assert_true(w->facts.bf16_activation_bytes > w->facts.file_bytes / 2);
    float *parts = logits_of(w, &n), *plain = logits_of(open_as(shipped, CDZ_N_DTYPES), &n);
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += ((double)parts[i] - (double)plain[i]) * ((double)parts[i] - (double)plain[i]);
    free(parts);
    free(plain);
    return sqrt(squares / (double)n);
}

/* Three parts of bf16 are the activation, one is it rounded. */
static void parts_are_near(void **state)
{
    (void)state;
    const double one = moved_by(CDZ_ACTIVATIONS_BF16X1, CDZ_WEIGHT_BF16X1),
                 three = moved_by(CDZ_ACTIVATIONS_BF16X3, CDZ_WEIGHT_BF16X3);
    if (one < 0) return;
    if (one == 0.0 || one > 0.02) fail_msg("one part moves logits by %g", one);
    if (three == 0.0 || three > 1e-5) fail_msg("three parts move logits by %g", three);
}

/* Kernels without such products say so, and the weights stay as they are. */
static void parts_are_refused_without_amx(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_backend *b;
    const char *without = cdz_cpu_variants()[1] ? cdz_cpu_variants()[1] : "scalar";
    if (!cdz_cpu_variant_runs_here(without) || strcmp(without, "scalar") == 0) return;
    b = cdz_cpu_backend_create(&(cdz_cpu_options){.variant = without}, err.text, sizeof err.text);
    assert_non_null(b);
    cdz_weights *w = open_as(shipped, CDZ_N_DTYPES);
    assert_int_equal(cdz_weights_set_activations(w, CDZ_ACTIVATIONS_BF16X3, b, &err),
                     CDZ_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "bf16x3 is for processors with AMX"));
    assert_int_equal(w->head.w.form, CDZ_WEIGHT_ROWS);
    cdz_weights_close(w);
    b->api->destroy(b);
}

/* All of a pair's stacks, whose table serves both, too. */
static void pairs_take_int8(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_weights *w = open_as(pair, CDZ_Q8_0);
    must(cdz_weights_set_activations(w, CDZ_ACTIVATIONS_INT8, NULL, &err), &err);
    bring_panels(w, INT_MAX);
    const cdz_weight *const some[] = {&w->layers[0].mlp.down.w, &w->encoder.layers[0].mlp.down.w,
                                      &w->layers[0].cross_k.w};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        assert_int_equal(some[i]->form,
                         some[i]->dtype == CDZ_Q8_0 ? CDZ_WEIGHT_PANELS : CDZ_WEIGHT_ROWS);
    assert_true(w->facts.int8_bytes > 0);
    assert_int_equal(w->encoder.embed.form, w->embed.form);
    assert_ptr_equal(w->encoder.embed.data, w->embed.data);
    cdz_weights_close(w);
}

static void the_interface_takes_activations(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        cdz_status status;
        bool panels;
    } cases[] = {{NULL, CDZ_OK, true},
                 {"auto", CDZ_OK, true},
                 {"int8", CDZ_OK, true},
                 {"f32", CDZ_OK, false},
                 {"int4", CDZ_E_USAGE, false}};
    cdz_runtime *rt;
    cdz_error err = {0};
    rt = opened_runtime(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cdz_model *model = NULL;
        const cdz_model_options how = {
            .size = sizeof how, .quantize = "q4_k", .activations = cases[i].name};
        assert_int_equal(cdz_model_open(rt, shipped, &how, &model, &err), cases[i].status);
        if (cases[i].status != CDZ_OK) {
            assert_non_null(strstr(err.text, "expected one of auto, f32, int8, bf16"));
            continue;
        }
        char *info = cdz_model_info_json(model);
        assert_int_equal(strstr(info, "\"panel_bytes\"") != NULL, cases[i].panels);
        cdz_free(info);
        cdz_model_close(model);
    }
    cdz_close(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_load_is_as_stored),
        cmocka_unit_test(every_type_is_near),
        cmocka_unit_test(types_follow_the_rules),
        cmocka_unit_test(pairs_are_quantised_whole),
        cmocka_unit_test(blocks_are_refused),
        cmocka_unit_test(the_interface_takes_a_type),
        cmocka_unit_test(panels_are_as_rows),
        cmocka_unit_test(passes_bring_panels),
        cmocka_unit_test(plain_weights_have_no_int8),
        cmocka_unit_test(bf16_activations_are_near),
        cmocka_unit_test(parts_are_near),
        cmocka_unit_test(parts_are_refused_without_amx),
        cmocka_unit_test(pairs_take_int8),
        cmocka_unit_test(the_interface_takes_activations),
    };
    return cmocka_run_group_tests_name("quantise at load", tests, NULL, NULL);
}
