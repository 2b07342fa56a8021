/* test_fp8.c - checkpoints in float8_e4m3fn: their numbers are torch's, their logits those of the weights they stand for, and
 * they stay in blocks. Files that lie: test_bnb. */
#include "support/run_support.h"

static const char folder[] = CADENZA_TEST_DATA "/fp8";

enum { LEN = 24, VOCAB = 96 };

static cdz_tensors open_tensors(const char *name)
{
    char path[512];
    cdz_error err = {0};
    cdz_tensors set = {0};
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    must(cdz_tensors_open(path, &set, &err), &err);
    return set;
}

static const void *tensor(const cdz_tensors *set, const char *name)
{
    const cdz_tensor *t = cdz_tensors_find(set, name);
    if (!t) fail_msg("tensor %s is missing", name);
    return t->data;
}

static cdz_weights *open_weights(const char *name)
{
    char path[512];
    cdz_error err = {0};
    cdz_weights *w;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    must(cdz_weights_open(path, &w, &err), &err);
    return w;
}

/* --- numbers -------------------------------------------------------------------------------- */

/* All codes but NaN's, with factors that make some numbers smaller than the smallest normal one. */
static void numbers_are_torchs(void **state)
{
    (void)state;
    static const float factors[] = {1.0f, 0.0123f, -3.0f, 0x1p-140f, 0x1p100f};
    cdz_tensors set = open_tensors("values");
    const uint8_t *codes = tensor(&set, "codes");
    const float *values = tensor(&set, "values");
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
        for (size_t at = 0; at < 256; at += 64) {
            uint8_t block[68];
            float wide[64];
            memcpy(block, &factors[f], 4);
            memcpy(block + 4, codes + at, 64);
            cdz_widen(CDZ_FP8, wide, block, 64);
            for (size_t i = 0; i < 64; i++) {
                const float expected = values[at + i] * factors[f];
                if (memcmp(&wide[i], &expected, sizeof expected) != 0)
                    fail_msg("code %u times %g is %.9g, expected %.9g", codes[at + i],
                             (double)factors[f], (double)wide[i], (double)expected);
            }
        }
    cdz_tensors_close(&set);
}

/* --- logits --------------------------------------------------------------------------------- */

static void logits_are_those_of(const char *name)
{
    char path[512];
    cdz_error err = {0};
    rig r = {0};
    answer a;
    const cdz_engine_options options = {.kv_bytes = 8 << 20};
    snprintf(path, sizeof path, "%s/logits", name);
    cdz_tensors recorded = open_tensors(path);
    must(cdz_engine_create(&options, &r.engine, &err), &err);
    cdz_weights *weights = open_weights(name);
    assert_int_equal(weights->facts.n_unexpected, 0);
    must(cdz_run_model_create(r.engine, weights, NULL, &r.model, &err), &err);
    cdz_job *job = new_job(&r, NULL, tensor(&recorded, "ids"), NULL, 1, LEN, 0, &a);
    job->prompt_logits = true;
    const cdz_outcome *outcome = run_well(&r, &a);
    const float *expected = tensor(&recorded, "logits");
    for (size_t i = 0; i < (size_t)LEN * VOCAB; i++)
        if (!(fabsf(outcome->prompt_logits[i] - expected[i]) <= 2e-5f + 2e-5f * fabsf(expected[i])))
            fail_msg("%s: logit %zu is %.9g, expected %.9g", name, i,
                     (double)outcome->prompt_logits[i], (double)expected[i]);
    answer_free(&a);
    rig_close(&r);
    cdz_tensors_close(&recorded);
}

static void logits_are_those_of_the_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"blocks", "tensor", "rows", "latent", "narrow"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) logits_are_those_of(names[i]);
}

/* --- blocks --------------------------------------------------------------------------------- */

static void weights_stay_in_blocks(void **state)
{
    (void)state;
    static const char *const names[] = {"blocks", "tensor", "rows", "narrow"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cdz_weights *w = open_weights(names[i]);
        const bool narrow = strcmp(names[i], "narrow") == 0;
        assert_int_equal(w->layers[1].q.w.dtype, CDZ_FP8);
        assert_int_equal(w->layers[1].mlp.up.w.dtype, CDZ_FP8);
        assert_int_equal(w->layers[1].mlp.down.w.dtype, narrow ? CDZ_F32 : CDZ_FP8);
        assert_int_equal(w->head.w.dtype, CDZ_F32);
        cdz_weights_close(w);
    }
    cdz_weights *w = open_weights("latent");
    assert_int_equal(w->layers[1].latent->k_up[1].w.dtype, CDZ_FP8);
    assert_int_equal(w->layers[1].latent->v_up[1].w.dtype, CDZ_FP8);
    assert_int_equal(w->layers[1].experts[3].down.w.dtype, CDZ_FP8);
    cdz_weights_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_torchs),
        cmocka_unit_test(logits_are_those_of_the_weights),
        cmocka_unit_test(weights_stay_in_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
