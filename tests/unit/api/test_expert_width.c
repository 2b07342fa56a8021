/* test_expert_width.c - experts that work in a width of their own: a model whose experts have been made wider by columns of zeros,
 * between two products that lead there and back, gives the bits of the model that it was made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/environment.h"
#include "load/safetensors.h"
#include "support/folder.h"
#include "support/must.h"
#include "support/opened.h"

enum { D = 32, WIDE = 48, INNER = 20 }; /* of nemotron_h's recorded model */
static const char model_folder[] = CADENZA_TEST_DATA "/golden/nemotron_h";
static const uint32_t sparse_layers[] = {1, 4};

/* --- files --- */

typedef struct writer {
    cdz_buf header, data;
} writer;

static void put(writer *w, const char *name, const char *shape, const void *bytes, size_t n)
{
    const size_t at = w->data.len;
    cdz_buf_printf(&w->header,
                   "%s\"%s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
                   w->header.len ? "," : "{", name, shape, at, at + n);
    cdz_buf_add(&w->data, bytes, n);
}

static void finish(writer *w, const char *name)
{
    cdz_buf file = {0};
    cdz_buf_putc(&w->header, '}');
    while (w->header.len % 8) cdz_buf_putc(&w->header, ' ');
    const uint64_t n = w->header.len;
    cdz_buf_add(&file, &n, sizeof n);
    cdz_buf_add(&file, w->header.data, w->header.len);
    cdz_buf_add(&file, w->data.data, w->data.len);
    assert_false(file.failed || w->header.failed || w->data.failed);
    folder_write(name, file.data, file.len);
    cdz_buf_free(&file);
    cdz_buf_free(&w->header);
    cdz_buf_free(&w->data);
}

/* Rows and columns more, of zeros. */
static void put_wider(writer *w, const cdz_tensor *t, size_t rows, size_t columns)
{
    const size_t has = t->shape[1];
    float *wide = calloc(rows * columns, sizeof *wide);
    char shape[48];
    assert_non_null(wide);
    for (size_t r = 0; r < t->shape[0]; r++)
        memcpy(wide + r * columns, (const char *)t->data + r * has * sizeof *wide,
               has * sizeof *wide);
    snprintf(shape, sizeof shape, "[%zu,%zu]", rows, columns);
    put(w, t->name, shape, wide, rows * columns * sizeof *wide);
    free(wide);
}

static void put_tensor(writer *w, const cdz_tensor *t)
{
    char shape[64];
    const bool expert = strstr(t->name, ".mixer.experts.");
    if (expert && strstr(t->name, "up_proj"))
        put_wider(w, t, INNER, WIDE);
    else if (expert)
        put_wider(w, t, WIDE, INNER);
    else
        put(w, t->name, cdz_tensor_shape_text(t, shape, sizeof shape), t->data, t->n_bytes);
}

/* Ones where row and column are the same. */
static void put_ones(writer *w, uint32_t layer, const char *part, size_t rows, size_t columns)
{
    static float ones[WIDE * WIDE];
    char name[96], shape[48];
    memset(ones, 0, sizeof ones);
    for (size_t i = 0; i < D; i++) ones[i * columns + i] = 1.0f;
    snprintf(name, sizeof name, "backbone.layers.%u.mixer.%s.weight", layer, part);
    snprintf(shape, sizeof shape, "[%zu,%zu]", rows, columns);
    put(w, name, shape, ones, rows * columns * sizeof *ones);
}

static void write_weights(void)
{
    writer w = {0};
    cdz_tensors tensors = {0};
    cdz_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/model.safetensors", model_folder);
    must(cdz_tensors_open(path, &tensors, &err), &err);
    for (size_t i = 0; i < tensors.n_items; i++) put_tensor(&w, &tensors.items[i]);
    for (size_t i = 0; i < sizeof sparse_layers / sizeof *sparse_layers; i++) {
        put_ones(&w, sparse_layers[i], "fc1_latent_proj", WIDE, D);
        put_ones(&w, sparse_layers[i], "fc2_latent_proj", D, WIDE);
    }
    finish(&w, "model.safetensors");
    cdz_tensors_close(&tensors);
}

static void write_config(void)
{
    static const char given[] = "\"moe_latent_size\": null";
    char path[512], text[8192] = "";
    snprintf(path, sizeof path, "%s/config.json", model_folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    assert_true(n > 0 && n < sizeof text - 1);
    assert_int_equal(fclose(file), 0);
    const char *at = strstr(text, given);
    assert_non_null(at);
    cdz_buf out = {0};
    cdz_buf_add(&out, text, (size_t)(at - text));
    cdz_buf_printf(&out, "\"moe_latent_size\": %d%s", WIDE, at + strlen(given));
    assert_false(out.failed);
    folder_write("config.json", out.data, out.len);
    cdz_buf_free(&out);
}

/* --- answers --- */

/* The logits of an answer, in a file. */
static void answer(const char *folder, const char *json, const char *to)
{
    cdz_runtime *rt;
    cdz_model *model;
    cdz_result *result = NULL;
    cdz_error err = {0};
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_bytes = 8 << 20};
    rt = opened_runtime(&options);
    model = opened_model(rt, folder);
    const cdz_request request = {.size = sizeof request, .model = model, .json = json};
    must(cdz_generate(rt, &request, &result, &err), &err);
    must(cdz_result_save(result, folder_path(to), &err), &err);
    cdz_result_free(result);
    cdz_model_close(model);
    cdz_close(rt);
}

static void wider_experts_give_the_same(void **state)
{
    (void)state;
    static const char *const asked[] = {
        "{\"prompt_ids\": [[5, 77, 13, 200, 9, 41]], \"kwargs\": {\"max_new_tokens\": 12, "
        "\"eos_token_id\": null, \"output_logits\": true}}",
        "{\"prompt_ids\": [[5, 77, 13], [8, 9, 10], [250, 249, 31]], \"kwargs\": "
        "{\"max_new_tokens\": 6, \"num_beams\": 2, \"eos_token_id\": null, \"output_logits\": true}}"};
    write_weights();
    write_config();
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        answer(model_folder, asked[i], "plain.out");
        answer(folder_path("."), asked[i], "wide.out");
        folder_run("cmp", folder_path("plain.out"), folder_path("wide.out"));
    }
}

int main(void)
{
    if (cdz_env_named("CADENZA_DEVICE")) return 77; /* recurrent layers run on the CPU alone */
    folder_make("experts");
    const struct CMUnitTest tests[] = {cmocka_unit_test(wider_experts_give_the_same)};
    const int failed = cmocka_run_group_tests_name("expert width", tests, NULL, NULL);
    folder_remove();
    return failed;
}
