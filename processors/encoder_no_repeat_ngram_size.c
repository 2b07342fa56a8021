/* encoder_no_repeat_ngram_size.c - never copy a sequence of n tokens from the prompt.
 * transformers EncoderNoRepeatNGramLogitsProcessor: with the last n - 1 tokens of the row, masks every token that
 * followed them in the prompt. */
#include "prompt_rows.h"

typedef struct {
    cdz_opt_int encoder_no_repeat_ngram_size;
} encoder_no_repeat_ngram_size;

static const cdz_param params[] = {
    CDZ_OPT_INT(encoder_no_repeat_ngram_size, encoder_no_repeat_ngram_size, CDZ_GENERATION,
                -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                "length of the prompt's sequences that may not come again; 0: off"),
};

static bool idle(const cdz_step *step)
{
    const encoder_no_repeat_ngram_size *p = step->params;
    return !p->encoder_no_repeat_ngram_size.set || p->encoder_no_repeat_ngram_size.value <= 0;
}

static void ban(float *row, cdz_ids prompt, cdz_ids ids, uint32_t n)
{
    const uint32_t n_prefix = n - 1;

    for (uint32_t i = 0; i + n_prefix < prompt.len; i++) {
        uint32_t same = 0;
        while (same < n_prefix && prompt.at[i + same] == ids.at[ids.len - n_prefix + same]) same++;
        if (same == n_prefix) row[prompt.at[i + n_prefix]] = -INFINITY;
    }
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const encoder_no_repeat_ngram_size *p = step->params;
    const uint64_t n = (uint64_t)p->encoder_no_repeat_ngram_size.value;

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids prompt = prompt_of_row(step, r), ids = step->input_ids[r];
        CDZ_TRY(need_ids_in_vocabulary(step, prompt, scores->n_vocab));
        if (n >= 1 && n <= prompt.len && n - 1 <= ids.len)
            ban(cdz_row(scores, r), prompt, ids, (uint32_t)n);
    }
    return CDZ_OK;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    *out = prompt_of_row(step, r);
    return true;
}

CDZ_EDIT_FORM(edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "encoder_no_repeat_ngram_size", .version = "1.0.0",
             .summary = "Never copy a sequence of n tokens from the prompt",
             CDZ_PARAMS(encoder_no_repeat_ngram_size, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
