/* test_bnb.c - checkpoints that bitsandbytes stored: their logits are those of the weights they
 * stand for, our own quantiser makes its blocks, and files that lie, MXFP4 and float8 too, end in a sentence. */
#include <sys/stat.h>
#include <unistd.h>

#include "support/run_support.h"

#include "base/file.h"

static const char folder[] = CADENZA_TEST_DATA "/bnb";

/* --- logits --------------------------------------------------------------------------------- */

static void logits_are_those_of(const char *name)
{
    char path[512];
    cdz_error err = {0};
    cdz_weights *weights;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(cdz_weights_open(path, &weights, &err), &err);
    assert_int_equal(weights->facts.n_unexpected, 0);
    assert_int_equal(weights->facts.n_parameters, 78144);
    logits_are_recorded(weights, folder, name, 0.0f);
}

static void logits_are_those_of_the_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"nf4", "fp4", "int8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) logits_are_those_of(names[i]);
}

/* Rows that the blocks divide stay in blocks; those of 96 are numbers. */
static void weights_stay_in_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        cdz_dtype type;
    } all[] = {{"nf4", CDZ_NF4}, {"fp4", CDZ_FP4}, {"int8", CDZ_INT8}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[512];
        cdz_error err = {0};
        cdz_weights *w;
        snprintf(path, sizeof path, "%s/%s", folder, all[i].name);
        must(cdz_weights_open(path, &w, &err), &err);
        assert_int_equal(w->layers[1].q.w.dtype, all[i].type);
        assert_int_equal(w->layers[1].mlp.up.w.dtype, all[i].type);
        assert_int_equal(w->layers[1].mlp.down.w.dtype, CDZ_F32);
        assert_int_equal(w->head.w.dtype, CDZ_F32);
        cdz_weights_close(w);
    }
}

/* --- blocks --------------------------------------------------------------------------------- */

/* fp4 has two zeros, and no rule for which: by number. */
static void same_block(cdz_dtype type, const char *name, const uint8_t *made, const char *factor,
                       const uint8_t *nibbles)
{
    uint8_t expected[36];
    float a[64], b[64];
    memcpy(expected, factor, 4);
    memcpy(expected + 4, nibbles, 32);
    cdz_widen(type, a, made, 64);
    cdz_widen(type, b, expected, 64);
    for (size_t i = 0; i < 64; i++)
        if (a[i] < b[i] || a[i] > b[i])
            fail_msg("%s: %.9g, expected %.9g", name, (double)a[i], (double)b[i]);
}

static void blocks_are_the_packages(void **state)
{
    (void)state;
    enum { ROWS = 4, K = 512, BYTES = K / 64 * 36 };
    static const cdz_dtype types[] = {CDZ_NF4, CDZ_FP4};
    static const char *const names[][2] = {{"nf4", "nf4.absmax"}, {"fp4", "fp4.absmax"}};
    cdz_tensors set = recorded_tensors(folder, "blocks");
    const float *rows = recorded_tensor(&set, "rows");
    for (size_t t = 0; t < 2; t++) {
        const uint8_t *nibbles = recorded_tensor(&set, names[t][0]);
        const char *factors = recorded_tensor(&set, names[t][1]);
        for (size_t r = 0; r < ROWS; r++) {
            uint8_t made[BYTES];
            cdz_quantise(types[t], made, rows + r * K, K);
            for (size_t b = 0; b < K / 64; b++)
                same_block(types[t], names[t][0], made + b * 36, factors + (r * K / 64 + b) * 4,
                           nibbles + (r * K / 64 + b) * 32);
        }
    }
    cdz_tensors_close(&set);
}

/* A row's largest magnitude is 127; everything is the nearest whole number of its 127th. */
static void whole_numbers_are_the_nearest(void **state)
{
    (void)state;
    enum { K = 128 };
    float row[K], back[K];
    uint8_t made[2 * 68];
    for (int i = 0; i < K; i++) row[i] = sinf((float)i) * (i == 77 ? 3.0f : 1.0f);
    cdz_quantise(CDZ_INT8, made, row, K);
    cdz_widen(CDZ_INT8, back, made, K);
    assert_float_equal(back[77], row[77], 1e-6);
    for (int i = 0; i < K; i++) assert_float_equal(back[i], row[i], fabs((double)row[77]) / 253);
}

/* --- files that lie ------------------------------------------------------------------------- */

static const struct {
    const char *what, *model, *from, *to, *sentence;
} lies[] = {
    {"another shape", "nf4", "\"shape\": [64, 64]", "\"shape\": [64, 63]",
     "its shape is not [64, 64]"},
    {"a block of 63", "nf4", "\"blocksize\": 64", "\"blocksize\": 63",
     "blocksize is no power of two"},
    {"a block of 0", "fp4", "\"blocksize\": 64", "\"blocksize\":  0",
     "blocksize is no power of two"},
    {"nested block as text", "nf4", "\"nested_blocksize\": 256", "\"nested_blocksize\": \"a\"",
     "nested_blocksize or nested_offset is not"},
    {"no JSON", "nf4", "{\"quant_type\": ", "[\"quant_type\": ", "quant_state"},
    {"factors gone", "fp4", "q_proj.weight.absmax\"", "q_proj.weight.absmay\"",
     "q_proj.weight.absmax is missing"},
    {"levels gone", "fp4", "q_proj.weight.quant_map\"", "q_proj.weight.quant_mao\"",
     "q_proj.weight.quant_map is missing"},
    {"other levels", "fp4", "\253\252\252\076", "\253\252\252\077", "level"},
    {"row factors of another type", "int8", "SCB\":{\"dtype\":\"F32\"", "SCB\":{\"dtype\":\"I32\"",
     "of I32, expected"},
    {"MXFP4 of another type", "../golden/gpt_oss_mxfp4", "gate_up_proj_blocks\":{\"dtype\":\"U8\"",
     "gate_up_proj_blocks\":{\"dtype\":\"I8\"",
     "gate_up_proj_blocks is [4, 64, 2, 16] of I8, config.json makes it [4, 64, 2, 16] of U8"},
    {"MXFP4 of fewer rows", "../golden/gpt_oss_mxfp4", "\"shape\":[4,64,1,16]",
     "\"shape\":[4,16,4,16]", "down_proj_blocks is [4, 16, 4, 16] of U8, config.json makes it"},
    {"float8 without factors", "../fp8/blocks", "1.mlp.up_proj.weight_scale_inv\"",
     "1.mlp.up_proj.weight_scale_out\"", "is of F8_E4M3, but neither"},
    {"float8 with factors of fewer rows", "../fp8/rows", "\"BF16\",\"shape\":[128,1]",
     "\"BF16\",\"shape\":[1,128]", "one for each of 128 rows"},
    {"float8 with other blocks", "../fp8/blocks", "\"F32\",\"shape\":[1,2]",
     "\"F32\",\"shape\":[2,1]", "or [1, 2] for blocks of 128x128"},
    {"float8 with factors of another type", "../fp8/blocks", "\"F32\",\"shape\":[1,2]",
     "\"I32\",\"shape\":[1,2]", "is [1, 2] of I32, expected F32, F16, BF16 or F8_E8M0"},
    {"float8 with NaN", "../fp8/blocks", "\355\353\243\361\140\304", "\177\353\243\361\140\304",
     "up_proj.weight has NaN in row 2, column 5"},
    {"float8 experts without factors", "../fp8/experts", "1.mlp.experts.down_proj_scale_inv\"",
     "1.mlp.experts.down_proj_scale_out\"", "down_proj is of F8_E4M3, but neither"},
    {"float8 experts with factors of fewer", "../fp8/experts", "\"F8_E8M0\",\"shape\":[4,2,1]",
     "\"F8_E8M0\",\"shape\":[2,4,1]", "down_proj_scale_inv is [2, 4, 1] of F8_E8M0"},
    {"MXFP4 without exponents", "../golden/gpt_oss_mxfp4", "gate_up_proj_scales\"",
     "gate_up_proj_scalez\"", "gate_up_proj is missing"},
};

/* A copy of the model with one thing changed. */
static cdz_status open_changed(size_t i, cdz_error *err)
{
    char temp[] = "/tmp/cadenza-bnb-XXXXXX", path[512], *text, *at;
    size_t len;
    static const char *const files[] = {"config.json", "model.safetensors"};
    assert_non_null(mkdtemp(temp));
    for (size_t f = 0; f < 2; f++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, lies[i].model, files[f]);
        must(cdz_file_read(path, 1 << 20, &text, &len, err), err);
        at = f ? memmem(text, len, lies[i].from, strlen(lies[i].from)) : text;
        if (!at) fail_msg("%s: the bytes are not in the file", lies[i].what);
        if (f) memcpy(at, lies[i].to, strlen(lies[i].to));
        snprintf(path, sizeof path, "%s/%s", temp, files[f]);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, len, file), len);
        fclose(file);
        free(text);
    }
    cdz_weights *w = NULL;
    const cdz_status st = cdz_weights_open(temp, &w, err);
    cdz_weights_close(w);
    for (size_t f = 0; f < 2; f++) {
        snprintf(path, sizeof path, "%s/%s", temp, files[f]);
        unlink(path);
    }
    rmdir(temp);
    return st;
}

static void lies_are_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        cdz_error err = {0};
        assert_int_equal(strlen(lies[i].from), strlen(lies[i].to));
        const cdz_status st = open_changed(i, &err);
        if (st == CDZ_OK || !strstr(err.text, lies[i].sentence))
            fail_msg("%s: %d %s", lies[i].what, (int)st, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_weights),
        cmocka_unit_test(weights_stay_in_blocks),
        cmocka_unit_test(blocks_are_the_packages),
        cmocka_unit_test(whole_numbers_are_the_nearest),
        cmocka_unit_test(lies_are_sentences),
    };
    return cmocka_run_group_tests_name("bitsandbytes", tests, NULL, NULL);
}
