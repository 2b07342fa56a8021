/* test_control.c - control vectors: made of texts as numpy makes them, added as PyTorch's hooks add them (tests/steer), the same
 * bits with the prefix cache, and a sentence for each file that is none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/json.h"
#include "convert/control_out.h"
#include "load/control.h"
#include "support/folder.h"
#include "support/must.h"
#include "support/opened.h"

enum { MOST = 16, LAYERS = 6, WIDTH = 256 };

typedef struct world {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_arena arena;
    cdz_json recorded;
    const char *folder;
    char mean[96], pca[96];
} world;

static const char shipped[] = CADENZA_TEST_DATA "/../models/pocket-dictionary";

static int open_all(void **state)
{
    static world w;
    cdz_error err = {0};
    must(cdz_json_read_file(CADENZA_TEST_DATA "/steer/control.json", 4 << 20, NULL, &w.arena,
                            &w.recorded, &err),
         &err);
    w.folder = folder_make("control");
    snprintf(w.mean, sizeof w.mean, "%s/mean.gguf", w.folder);
    snprintf(w.pca, sizeof w.pca, "%s/pca.gguf", w.folder);
    w.rt = opened_runtime(NULL);
    w.model = opened_model(w.rt, shipped);
    *state = &w;
    return 0;
}

static int close_all(void **state)
{
    world *w = *state;
    cdz_model_close(w->model);
    cdz_close(w->rt);
    folder_remove();
    cdz_arena_free(&w->arena);
    return 0;
}

/* --- making ------------------------------------------------------------------------------------------------------------- */

static uint32_t texts_of(world *w, const char *name, const char **out)
{
    const cdz_json *list = cdz_json_get(&w->recorded, name);
    assert_in_range(list->len, 1, MOST);
    for (size_t i = 0; i < list->len; i++)
        out[i] = cdz_arena_strndup(&w->arena, list->items[i].string, list->items[i].len);
    return (uint32_t)list->len;
}

static cdz_status make(world *w, const char *method, const char *path, bool force, cdz_error *err)
{
    const char *positive[MOST], *negative[MOST];
    cdz_control_texts texts = {.size = sizeof texts, .method = method, .force = force};
    texts.positive = positive;
    texts.negative = negative;
    texts.n_positive = texts_of(w, "positive", positive);
    texts.n_negative = texts_of(w, "negative", negative);
    return cdz_model_make_control_vector(w->model, &texts, path, err);
}

/* One layer's recorded numbers. */
static void read_row(const cdz_json *row, float *out, size_t n)
{
    assert_int_equal(row->len, n);
    for (size_t k = 0; k < n; k++) {
        double x;
        assert_true(cdz_json_number(&row->items[k], &x));
        out[k] = (float)x;
    }
}

static void compare_file(world *w, const char *name, const char *path)
{
    const cdz_json *rows = cdz_json_get(&w->recorded, name);
    cdz_error err = {0};
    cdz_control c;
    float want[WIDTH];
    must(cdz_control_begin(&c, LAYERS, WIDTH, &err), &err);
    must(cdz_control_add(&c, path, 1, &err), &err);
    assert_int_equal(rows->len, LAYERS - 2);
    assert_false(c.has[0] || c.has[LAYERS - 1]);
    for (uint32_t l = 1; l < LAYERS - 1; l++) {
        assert_true(c.has[l]);
        read_row(&rows->items[l - 1], want, WIDTH);
        for (uint32_t k = 0; k < WIDTH; k++)
            if (fabsf(c.sums[l * WIDTH + k] - want[k]) > 1e-4F + 1e-4F * fabsf(want[k]))
                fail_msg("%s: layer %u, number %u is %g, recorded %g", name, l, k,
                         (double)c.sums[l * WIDTH + k], (double)want[k]);
    }
    cdz_control_free(&c);
}

static void files_are_numpys(void **state)
{
    world *w = *state;
    cdz_error err = {0};
    must(make(w, NULL, w->mean, false, &err), &err);
    must(make(w, "pca", w->pca, false, &err), &err);
    compare_file(w, "mean", w->mean);
    compare_file(w, "pca", w->pca);
    assert_int_equal(make(w, NULL, w->mean, false, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "exists already"));
    must(make(w, NULL, w->mean, true, &err), &err);
}

/* --- adding ------------------------------------------------------------------------------------------------------------- */

static cdz_model *steered(world *w)
{
    char scaled[2][128];
    const char *const list[] = {scaled[0], scaled[1]};
    cdz_model *model = NULL;
    cdz_error err = {0};
    double mean, pca;
    assert_true(cdz_json_number(cdz_json_get(&w->recorded, "scale_of_mean"), &mean));
    assert_true(cdz_json_number(cdz_json_get(&w->recorded, "scale_of_pca"), &pca));
    snprintf(scaled[0], sizeof scaled[0], "%s:%g", w->mean, mean);
    snprintf(scaled[1], sizeof scaled[1], "%s:%g", w->pca, pca);
    const cdz_model_options how = {
        .size = sizeof how, .control_vectors_scaled = list, .n_control_vectors_scaled = 2};
    must(cdz_model_open(w->rt, shipped, &how, &model, &err), &err);
    return model;
}

static cdz_result *run(world *w, cdz_model *model)
{
    static const char form[] =
        "{\"prompt\": \"%s\", \"kwargs\": {\"max_new_tokens\": 8, \"do_sample\": false, "
        "\"output_logits\": true, \"return_dict_in_generate\": true}}";
    char json[512];
    const cdz_json *prompt = cdz_json_get(&w->recorded, "prompt");
    cdz_error err = {0};
    cdz_result *result = NULL;
    snprintf(json, sizeof json, form, cdz_arena_strndup(&w->arena, prompt->string, prompt->len));
    const cdz_request request = {.size = sizeof request, .model = model, .json = json};
    must(cdz_generate(w->rt, &request, &result, &err), &err);
    return result;
}

static void compare_logits(const world *w, const cdz_result *result)
{
    const cdz_json *want = cdz_json_get(&w->recorded, "logits");
    const float *logits = result->outcome->steps[0].logits;
    for (size_t v = 0; v < want->len; v++) {
        double x;
        assert_true(cdz_json_number(&want->items[v], &x));
        if (fabs(logits[v] - x) > 1e-3 + 1e-4 * fabs(x))
            fail_msg("logit %zu is %g, recorded %g", v, (double)logits[v], x);
    }
}

static void logits_are_those_of_hooks(void **state)
{
    world *w = *state;
    cdz_model *model = steered(w);
    cdz_result *result = run(w, model);
    compare_logits(w, result);
    cdz_result_free(result);
    cdz_model_close(model);
}

static uint64_t hits(const world *w)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(w->rt, &stats);
    return stats.n_prefix_hits;
}

/* All sequences of the model have the same edits, so that what one has computed serves the others. */
static void long_prompts_are_found_again(void **state)
{
    world *w = *state;
    char text[600] = "";
    cdz_error err = {0};
    cdz_model *model = steered(w);
    cdz_result *results[2];
    for (int i = 0; i < 20; i++) strcat(text, "river (noun): a large ");
    const cdz_request request = {.size = sizeof request, .model = model, .prompt = text};
    const uint64_t before = hits(w);
    for (int i = 0; i < 2; i++) must(cdz_generate(w->rt, &request, &results[i], &err), &err);
    assert_true(hits(w) > before);
    for (int i = 0; i < 2; i++) cdz_result_free(results[i]);
    cdz_model_close(model);
}

/* --- in a pipeline file --------------------------------------------------------------------------------------------------- */

/* The first model that is opened has them; a file that comes later is refused. */
static void a_pipeline_names_them(void **state)
{
    world *w = *state;
    char ini[400];
    cdz_error err = {0};
    cdz_pipeline *late = NULL;
    snprintf(ini, sizeof ini,
             "[model]\ncontrol_vector_scaled = %s:0.25 , %s:-0.125\n"
             "control_vector_layer_range = 1:5\n",
             w->mean, w->pca);
    cdz_runtime *own = opened_runtime(NULL), *shared = w->rt;
    cdz_pipeline *pipeline = opened_pipeline(own, ini);
    cdz_model *asked = opened_model(own, shipped), *plain = opened_model(own, shipped);
    w->rt = own;
    cdz_result *steers = run(w, asked), *as_made = run(w, plain);
    w->rt = shared;
    compare_logits(w, steers);
    assert_true(steers->outcome->steps[0].logits[5] != as_made->outcome->steps[0].logits[5]);
    assert_int_equal(cdz_pipeline_parse(own, ini, strlen(ini), "late.ini", &late, &err),
                     CDZ_E_STATE);
    assert_non_null(strstr(err.text, "late.ini:2: [model]: control_vector_scaled: a model has its"));
    cdz_result_free(steers);
    cdz_result_free(as_made);
    cdz_model_close(asked);
    cdz_model_close(plain);
    cdz_pipeline_free(pipeline);
    cdz_close(own);
}

/* --- what is none ------------------------------------------------------------------------------------------------------- */

static void refused(world *w, const cdz_model_options *how, const char *sentence)
{
    cdz_model *model = NULL;
    cdz_error err = {0};
    assert_int_not_equal(cdz_model_open(w->rt, shipped, how, &model, &err), CDZ_OK);
    assert_null(model);
    if (!strstr(err.text, sentence)) fail_msg("%s: %s", sentence, err.text);
}

static void refused_file(world *w, const char *path, const char *sentence)
{
    refused(w,
            &(cdz_model_options){
                .size = sizeof(cdz_model_options), .control_vectors = &path, .n_control_vectors = 1},
            sentence);
}

static void refused_scaled(world *w, const char *text, const char *range, const char *sentence)
{
    refused(w,
            &(cdz_model_options){.size = sizeof(cdz_model_options),
                                 .control_vectors_scaled = &text,
                                 .n_control_vectors_scaled = text != NULL,
                                 .control_vector_layer_range = range},
            sentence);
}

/* A file of n layers from the first on, each of `width` numbers. */
static const char *written(world *w, const char *name, uint32_t first, uint32_t n, uint32_t width,
                           float value)
{
    static float numbers[LAYERS * WIDTH * 2];
    cdz_error err = {0};
    const char *path = cdz_arena_printf(&w->arena, "%s/%s.gguf", w->folder, name);
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) numbers[k] = value;
    const cdz_control_out what = {
        .hint = "llama", .first = first, .n = n, .directions = numbers, .width = width};
    must(cdz_out_control(&what, path, true, &err), &err);
    return path;
}

static void wrong_ones_are_refused_by_name(void **state)
{
    world *w = *state;
    char half[160];
    refused_file(w, "/nowhere.gguf", "/nowhere.gguf: no such file");
    refused_file(w, CADENZA_TEST_DATA "/steer/control.json", "expected \"GGUF\"");
    refused_file(w, written(w, "narrow", 1, 1, 8, 1),
                 "tensor direction.1 is [8] of F32; the model's hidden states are [256] of F32");
    refused_file(w, written(w, "deep", 4, 3, WIDTH, 1),
                 "tensor direction.6: the model has 6 layers, the last of which is number 5");
    refused_file(w, written(w, "zero", 0, 1, WIDTH, 1),
                 "tensor direction.0: expected direction.N, where N is a layer from 1");
    refused_file(w, written(w, "none", 1, 0, WIDTH, 1), "there is no direction.N in it");
    refused_file(w, written(w, "infinite", 1, 1, WIDTH, INFINITY), "number 0 is not finite");
    refused_scaled(w, w->mean, NULL, "expected FILE:SCALE");
    snprintf(half, sizeof half, "%s:0.5", w->mean);
    refused_scaled(w, half, "0:2", "expected FIRST:LAST, of the layers 1 to 5");
    refused_scaled(w, half, "3:2", "expected FIRST:LAST, of the layers 1 to 5");
    refused_scaled(w, half, "2", "expected FIRST:LAST, of the layers 1 to 5");
    refused_scaled(w, half, "5:6", "have none of the layers 5 to 6");
    refused_scaled(w, NULL, "1:2", "there is no control vector");
}

static void texts_that_are_none_are_refused(void **state)
{
    world *w = *state;
    const char *one[] = {"a", "b"};
    cdz_error err = {0};
    cdz_control_texts t = {
        .size = sizeof t, .positive = one, .negative = one, .n_positive = 2, .n_negative = 1};
    t.method = "pca";
    assert_int_equal(cdz_model_make_control_vector(w->model, &t, "x", &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "2 positive ones and 1 negative ones are no pairs"));
    t.method = "median";
    assert_int_equal(cdz_model_make_control_vector(w->model, &t, "x", &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "expected mean or pca"));
    t.method = NULL;
    t.n_negative = 2;
    assert_int_equal(cdz_model_make_control_vector(w->model, &t, "x", &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "there is no direction between them"));
    t.n_negative = 0;
    assert_int_equal(cdz_model_make_control_vector(w->model, &t, "x", &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "no negative texts"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_numpys),
        cmocka_unit_test(logits_are_those_of_hooks),
        cmocka_unit_test(long_prompts_are_found_again),
        cmocka_unit_test(a_pipeline_names_them),
        cmocka_unit_test(wrong_ones_are_refused_by_name),
        cmocka_unit_test(texts_that_are_none_are_refused),
    };
    return cmocka_run_group_tests_name("control vectors", tests, open_all, close_all);
}
