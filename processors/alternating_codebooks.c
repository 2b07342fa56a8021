/* alternating_codebooks.c - the tokens of two codebooks in turn, as Bark's coarse model writes them.
 * transformers AlternatingCodebooksLogitsProcessor. generate() never adds it by itself: a pipeline names it. */
#include "tools.h"

typedef struct {
    cdz_opt_int input_start_len;
    int64_t semantic_vocab_size, codebook_size;
} alternating_codebooks;

static const cdz_param params[] = {
    CDZ_OPT_INT(alternating_codebooks, input_start_len, 0, 0, CDZ_MAX_ID,
                "ids before the first of a codebook; unset: the prompt's"),
    CDZ_INT(alternating_codebooks, semantic_vocab_size, 10000, 0, CDZ_MAX_ID,
            "ids below it belong to no codebook"),
    CDZ_INT(alternating_codebooks, codebook_size, 1024, 0, CDZ_MAX_ID,
            "ids of the first codebook, which follow those; the second has the rest"),
};

/* As a place in a row of n scores. */
static size_t place(int64_t id, uint32_t n)
{
    return id < (int64_t)n ? (size_t)id : n;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const alternating_codebooks *p = step->params;
    const cdz_vec *vec = cdz_get_vec(step);
    const uint32_t n = scores->n_vocab;
    const int64_t start =
        p->input_start_len.set ? p->input_start_len.value : (int64_t)step->request->prompt_len;
    const size_t first = place(p->semantic_vocab_size, n),
                 second = place(p->semantic_vocab_size + p->codebook_size, n);

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        const bool odd = ((int64_t)step->input_ids[r].len - start) % 2 != 0;
        vec->fill(row, odd ? second : first, -INFINITY);
        if (!odd) vec->fill(row + second, n - second, -INFINITY);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "alternating_codebooks", .version = "1.0.0",
             .summary = "Let two codebooks take turns", CDZ_PARAMS(alternating_codebooks, params)},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
