/* encoded.h - what a decoder reads from: one prompt of an encoder-decoder model, and the keys and values that the
 * encoder made of it, a set for each layer of the decoder.
 *
 * They lie in blocks of the decoder's own KV pool, made once before the first decoder pass and read by every row that
 * grows from the prompt: beams, return sequences, forks. Only visible ids are encoded; their places among all ids are
 * their positions. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_ENCODED_H
#define CDZ_HOST_RUN_PASS_ENCODED_H

#include "load/arch.h"
#include "run/pass/kv.h"

/* Where the states of a row's slots [first, first + n_queries) go, a tensor for each layer: hidden states (rows, n_queries, hidden)
 * of the embeddings and after each layer, attentions (rows, heads, n_queries, n_keys), and of a pair's decoder those to
 * its source, (rows, heads, n_queries, source slots). Each may be NULL. */
typedef struct cdz_capture {
    float *const *hidden, *const *attentions, *const *cross;
    uint32_t row, first, n_queries, n_keys; /* n_keys: slots of the row */
    bool by_entry; /* attentions of chosen layers, those that are not NULL, over entries as they lie in the cache */
} cdz_capture;

typedef struct cdz_encoded {
    cdz_kv_account *account;
    const int32_t *ids; /* (n) request lifetime, as all it is given; NULL: embeddings are given instead */
    const float *embeds; /* (n, hidden) or NULL */
    const uint8_t *mask; /* (n) or NULL: everything is visible */
    uint32_t n, n_visible;
    int32_t *blocks;
    uint32_t n_blocks;
    bool ready;                 /* the blocks hold it */
    const cdz_capture *capture; /* filled while it is encoded; or NULL */
} cdz_encoded;

void cdz_encoded_init(cdz_encoded *source, cdz_kv_account *account, const int32_t *ids,
                      const float *embeds, const uint8_t *mask, uint32_t n);
void cdz_encoded_clear(cdz_encoded *source); /* zeroed is fine */
/* Can the encoder run this prompt? ids NULL: embeddings. row: for the sentence. */
cdz_status cdz_encoded_check(const cdz_arch *encoder, const int32_t *ids, const uint8_t *mask,
                             uint32_t n, uint32_t row, cdz_error *err);
/* Takes the blocks, so that encoding cannot fail. */
cdz_status cdz_encoded_prepare(cdz_encoded *source, cdz_error *err);

/* A query that sees all of it. */
static inline cdz_kv_row cdz_encoded_row(const cdz_encoded *source)
{
    return (cdz_kv_row){source->blocks, 0, source->n_visible - 1, NULL};
}

#endif
