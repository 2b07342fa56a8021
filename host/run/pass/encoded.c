/* encoded.c - the blocks that hold what an encoder made.
 *
 * Owns: taking and dropping them. Not: what is written there (encode.c). All are there before the first pass and none is
 * added later, so readers share them without asking. */
#include "run/pass/encoded.h"

#include <inttypes.h>
#include <stdlib.h>

void cdz_encoded_init(cdz_encoded *source, cdz_kv_account *account, const int32_t *ids,
                      const float *embeds, const uint8_t *mask, uint32_t n)
{
    *source = (cdz_encoded){.account = account, .ids = ids, .embeds = embeds, .mask = mask, .n = n};
    for (uint32_t i = 0; i < n; i++) source->n_visible += !mask || mask[i];
}

void cdz_encoded_clear(cdz_encoded *source)
{
    while (source->n_blocks > 0) cdz_kv_drop(source->account, source->blocks[--source->n_blocks]);
    free(source->blocks);
    *source = (cdz_encoded){0};
}

static bool has_hole(const uint8_t *mask, uint32_t n)
{
    uint32_t first = 0, last = n;
    while (first < n && !mask[first]) first++;
    while (last > first && !mask[last - 1]) last--;
    for (uint32_t i = first; i < last; i++)
        if (!mask[i]) return true;
    return false;
}

cdz_status cdz_encoded_check(const cdz_arch *encoder, const int32_t *ids, const uint8_t *mask,
                             uint32_t n, uint32_t row, cdz_error *err)
{
    uint32_t visible = 0;
    for (uint32_t i = 0; i < n; i++) {
        visible += !mask || mask[i];
        if (!ids) continue;
        if (ids[i] < 0 || (uint32_t)ids[i] >= encoder->n_vocab)
            return cdz_err(err, CDZ_E_INPUT,
                           "prompt row %" PRIu32 ": token %" PRId32 " at %" PRIu32
                           " is outside the encoder's vocabulary of %" PRIu32,
                           row, ids[i], i, encoder->n_vocab);
    }
    if (visible == 0)
        return cdz_err(err, CDZ_E_INPUT,
                       "attention_mask: row %" PRIu32 " hides every token from the encoder", row);
    if (mask && encoder->buckets.n && has_hole(mask, n))
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "attention_mask: row %" PRIu32
                       " has holes inside, which a model with relative positions cannot honour",
                       row);
    if (cdz_arch_has_positions(encoder) && n > encoder->context)
        return cdz_err(err, CDZ_E_INPUT,
                       "the prompt has %" PRIu32 " tokens; the encoder has %" PRIu32 " positions",
                       n, encoder->context);
    return CDZ_OK;
}

cdz_status cdz_encoded_prepare(cdz_encoded *source, cdz_error *err)
{
    const uint32_t need = cdz_kv_blocks_for(source->n_visible);
    if (source->n_blocks == need) return CDZ_OK;
    if (!source->blocks) source->blocks = calloc(need, sizeof *source->blocks);
    if (!source->blocks) return cdz_err_memory(err, "the encoder's prompt");
    while (source->n_blocks < need) {
        CDZ_TRY(cdz_kv_take(source->account, &source->blocks[source->n_blocks], err));
        source->n_blocks++;
    }
    return CDZ_OK;
}
