/* test_fp8.c - checkpoints in float8_e4m3fn: their numbers are torch's, their logits those of the weights they stand for, and
 * they stay in blocks. Files that lie: test_bnb. */
#include "support/run_support.h"

static const char folder[] = CADENZA_TEST_DATA "/fp8";

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
    cdz_tensors set = recorded_tensors(folder, "values");
    const uint8_t *codes = recorded_tensor(&set, "codes");
    const float *values = recorded_tensor(&set, "values");
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
    cdz_weights *weights = open_weights(name);
    assert_int_equal(weights->facts.n_unexpected, 0);
    logits_are_recorded(weights, folder, name, 1.0f);
}

static void logits_are_those_of_the_weights(void **state)
{
    (void)state;
    static const char *const names[] = {"blocks",  "tensor", "rows",          "latent", "narrow",
                                        "experts", "ragged", "ragged_latent", "between"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) logits_are_those_of(names[i]);
}

/* --- blocks --------------------------------------------------------------------------------- */

static void weights_stay_in_blocks(void **state)
{
    (void)state;
    static const char *const names[] = {"blocks", "tensor", "rows", "narrow", "ragged"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cdz_weights *w = open_weights(names[i]);
        assert_int_equal(w->layers[1].q.w.dtype, CDZ_FP8);
        assert_int_equal(w->layers[1].mlp.up.w.dtype, CDZ_FP8);
        assert_int_equal(w->layers[1].mlp.down.w.dtype, CDZ_FP8);
        assert_int_equal(w->head.w.dtype, CDZ_F32);
        cdz_weights_close(w);
    }
    static const char *const latents[] = {"latent", "ragged_latent"};
    for (size_t i = 0; i < sizeof latents / sizeof *latents; i++) {
        cdz_weights *w = open_weights(latents[i]);
        assert_int_equal(w->layers[1].latent->k_up[1].w.dtype, CDZ_FP8);
        assert_int_equal(w->layers[1].latent->v_up[1].w.dtype, CDZ_FP8);
        assert_int_equal(w->layers[1].experts[3].down.w.dtype, CDZ_FP8);
        cdz_weights_close(w);
    }
    cdz_weights *w = open_weights("experts");
    assert_int_equal(w->layers[1].experts[3].up.w.dtype, CDZ_FP8);
    assert_int_equal(w->layers[0].experts[0].down.w.dtype, CDZ_FP8);
    assert_int_equal(w->layers[0].recurrent.out.w.dtype, CDZ_F32);
    cdz_weights_close(w);
    w = open_weights(
        "between"); /* blocks of 64 would not end with its factors, but where there is one of a row */
    assert_int_equal(w->layers[1].q.w.dtype, CDZ_F32);
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
