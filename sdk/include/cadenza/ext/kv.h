/* ext/kv.h - "cadenza.kv/1": what the caches of sequences hold: looking into them, and taking positions out.
 *
 * Scenario. A loop that is to go on without end keeps the first few positions and a window of the newest ones (attention sinks:
 * Xiao and others, "Efficient Streaming Language Models with Attention Sinks", 2023):
 *
 *     const uint32_t n = cdz_seq_length(dec, row);
 *     if (n > most) CDZ_TRY(cdz_seq_drop(dec, step, row, n_sinks, n - window, CDZ_DROP_RENUMBER));
 *
 * Positions count from 0 among those that the model sees, as cdz_seq_length does, and stay what they are whatever is dropped: ids,
 * and all that sees ids, know of no drop. A drop is a part of what a sequence is from then on: copies have it; a cache that has to
 * be read again is read, and has it taken out again, to the same bits; and whoever takes back a position that had been read before
 * a drop (rewind, truncate) takes back the drop as well, after which the rest is read from the beginning.
 *
 * Refused, each by a sentence: models with recurrent layers, an encoder, latent attention, relative positions, shared keys and values
 * or passes of their own, and those on a device; cache_implementation = quantized; use_cache = false; attentions and hidden states
 * of all steps; rows that a press compresses. Layers with a sliding window keep what their window may still see, unless keys are
 * renumbered. Companions and drafters have caches of their own, which are not touched.
 *
 * The host's table is step->host->extension(CDZ_EXT_KV). All functions are [engine], on the strategy's own fibre; those that say
 * so suspend. */
#ifndef CADENZA_EXT_KV_H
#define CADENZA_EXT_KV_H

#include "../strategy.h"

#define CDZ_EXT_KV "cadenza.kv/1"

typedef enum cdz_drop_flag {
    /* What is left closes ranks: its keys are turned to the positions 0, 1, 2 and so on, and tokens go on behind the last of those.
     * All later drops of the sequence do the same. Without it everything keeps its place, and a gap stays. */
    CDZ_DROP_RENUMBER = 1u << 0,
} cdz_drop_flag;

/* Entries of one layer and kv head. */
typedef struct cdz_kv_entries {
    uint32_t size;
    uint32_t n, head_dim;
    const uint32_t *positions; /* (n) rising */
    const float *keys;         /* (n, head_dim) as attention reads them: normed, rotated */
    const float *values;       /* (n, head_dim) */
} cdz_kv_entries;

/* Attention of the newest positions of a sequence: (n_layers, n_heads, n_queries, n_keys), after the softmax. */
typedef struct cdz_attention_rows {
    uint32_t size;
    uint32_t n_layers, n_heads, n_queries, n_keys;
    const float *data; /* key k is position k; 0 where nothing is there, or is seen */
} cdz_attention_rows;

typedef struct cdz_kv_host {
    uint32_t size;
    /* Takes positions [from, to) out of the cache of seq, which may be a row: later positions do not see them. All of them have
     * been read by a pass; what is gone already may lie among them. Pages that become free are given back at once. */
    cdz_status (*drop)(cdz_decoder *dec, cdz_seq *seq, uint32_t from, uint32_t to, uint32_t flags);
    /* Entries of one layer and kv head, both from 0, at positions [from, to): those that are there, and so none that was dropped or
     * pressed, or has not been read. Valid until the next call of read or attention. It may suspend. */
    cdz_status (*read)(cdz_decoder *dec, cdz_seq *seq, uint32_t layer, uint32_t head, uint32_t from,
                       uint32_t to, cdz_kv_entries *out);
    /* What the newest n_queries positions of seq look at, in these layers, from 0: a pass over these positions of a copy, which reads
     * what the cache lacks. Suspends. Valid until the next call of read or attention. */
    cdz_status (*attention)(cdz_decoder *dec, cdz_seq *seq, uint32_t n_queries,
                            const uint32_t *layers, uint32_t n_layers, cdz_attention_rows *out);
} cdz_kv_host;

/* A strategy that keeps its caches small by drops offers this table, from base.extension(): its requests may then be longer than
 * memory allows, and are not refused before they begin. One that needs more than there is after all is told so. */
typedef struct cdz_kv_api {
    uint32_t size;
} cdz_kv_api;

/* For the plugin's `extension` function. */
static inline bool cdz_is_kv(const char *id)
{
    const char *ours = CDZ_EXT_KV;
    while (*id && *id == *ours) id++, ours++;
    return *id == *ours;
}

static inline const cdz_kv_host *cdz_get_kv(const cdz_step *step)
{
    return (const cdz_kv_host *)step->host->extension(CDZ_EXT_KV);
}

static inline cdz_status cdz_kv_lacks(const cdz_step *step)
{
    return cdz_fail(step, CDZ_E_UNSUPPORTED,
                    "this host lacks " CDZ_EXT_KV ": caches can be neither seen nor cut");
}

static inline cdz_status cdz_seq_drop(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq,
                                      uint32_t from, uint32_t to, uint32_t flags)
{
    const cdz_kv_host *kv = cdz_get_kv(step);
    return kv ? kv->drop(dec, seq, from, to, flags) : cdz_kv_lacks(step);
}

static inline cdz_status cdz_seq_kv(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq,
                                    uint32_t layer, uint32_t head, uint32_t from, uint32_t to,
                                    cdz_kv_entries *out)
{
    const cdz_kv_host *kv = cdz_get_kv(step);
    return kv ? kv->read(dec, seq, layer, head, from, to, out) : cdz_kv_lacks(step);
}

static inline cdz_status cdz_seq_attention(cdz_decoder *dec, const cdz_step *step, cdz_seq *seq,
                                           uint32_t n_queries, const uint32_t *layers,
                                           uint32_t n_layers, cdz_attention_rows *out)
{
    const cdz_kv_host *kv = cdz_get_kv(step);
    return kv ? kv->attention(dec, seq, n_queries, layers, n_layers, out) : cdz_kv_lacks(step);
}

#endif
