/* fuzz_config.c - any bytes as a config.json. What is accepted has sizes that divide and finite
 * frequencies. */
#include <math.h>

#include "fuzz.h"
#include "load/arch.h"
#include "support/memory_meter.h"

/* What each layer has, has a size. */
static void check_layers(const cdz_arch *a)
{
    const cdz_recurrent *r = &a->recurrent;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (cdz_arch_mixes(a, i, CDZ_MIX_ATTENTION))
            FUZZ_CHECK(a->n_kv_heads > 0 && a->n_heads % a->n_kv_heads == 0);
        if (cdz_arch_mixes(a, i, CDZ_MIX_RECURRENT))
            FUZZ_CHECK(r->taps > 1 && cdz_recurrent_floats(a) > 0);
        if (cdz_arch_mixes(a, i, CDZ_MIX_DELTA | CDZ_MIX_SSD))
            FUZZ_CHECK(r->groups > 0 && r->heads % r->groups == 0 && r->rows > 0 && r->columns > 0);
        if (cdz_arch_feeds(a, i)) FUZZ_CHECK(a->sparse[i] || a->intermediate > 0);
    }
}

static void check(const cdz_arch *a)
{
    FUZZ_CHECK(a->n_layers > 0 && a->hidden > 0 && a->n_vocab > 0);
    check_layers(a);
    FUZZ_CHECK(a->placing.unplaced < (int32_t)a->n_vocab);
    FUZZ_CHECK(a->fp8_block.rows > 0 && a->fp8_block.columns > 0);
    FUZZ_CHECK(a->context > 0 || cdz_arch_adds_by_distance(a) || !cdz_arch_attends(a));
    for (uint32_t h = 0; a->slopes && h < a->n_heads; h++)
        FUZZ_CHECK(a->slopes[h] > 0 && a->slopes[h] < 1);
    if (a->encoder) check(a->encoder);
    if (!cdz_arch_rotates(a)) return;
    /* Of latent attention a part of its own rotates; what is kept of a position may be odd. */
    const uint32_t turns = a->latent.kv_rank ? a->latent.rotated : a->head_dim;
    FUZZ_CHECK(turns % 2 == 0);
    FUZZ_CHECK(a->rope.n_rotated <= turns);
    for (size_t i = 0; i < a->rope.n_rotated / 2; i++)
        FUZZ_CHECK(isfinite(a->rope.inv_freq[i]) && a->rope.inv_freq[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cdz_arena arena = {.limit = 16 << 20};
    cdz_json config;
    cdz_arch arch;
    cdz_error err;
    const char *text = (const char *)data;
    meter_begin();
    if (cdz_json_parse(text, size, "config.json", NULL, &arena, &config, &err) == CDZ_OK &&
        cdz_arch_read(&config, "config.json", &arena, &arch, &err) == CDZ_OK)
        check(&arch);
    FUZZ_CHECK(meter_most() + size <= meter_allowed(size));
    cdz_arena_free(&arena);
    return 0;
}
