/* no_repeat_ngram_size.c - never complete a sequence of n tokens that the row already holds.
 * transformers NoRepeatNGramLogitsProcessor: with the last n - 1 tokens g, masks every token that followed g before. */
#include "tools.h"

typedef struct {
    cdz_opt_int no_repeat_ngram_size;
} no_repeat_ngram_size;

static const cdz_param params[] = {
    CDZ_OPT_INT(no_repeat_ngram_size, no_repeat_ngram_size, CDZ_GENERATION, -CDZ_NO_LIMIT,
                CDZ_NO_LIMIT, "length of the sequences that may not come twice; 0: off"),
};

static bool idle(const cdz_step *step)
{
    const no_repeat_ngram_size *p = step->params;
    return !p->no_repeat_ngram_size.set || p->no_repeat_ngram_size.value <= 0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const no_repeat_ngram_size *p = step->params;
    const cdz_vec *vec = cdz_get_vec(step);

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        CDZ_TRY(need_ids_in_vocabulary(step, ids, scores->n_vocab));
        vec->ban_ngrams(cdz_row(scores, r), scores->n_vocab, ids.at, ids.len,
                        (size_t)p->no_repeat_ngram_size.value);
    }
    return CDZ_OK;
}

/* What follows something in the row is in it. */
static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    *out = step->input_ids[r];
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "no_repeat_ngram_size", .version = "1.0.0",
             .summary = "Never repeat a sequence of n tokens",
             CDZ_PARAMS(no_repeat_ngram_size, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
