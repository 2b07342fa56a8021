/* sample.c - draw every token from the distribution that the processors leave.
 * transformers GenerationMixin._sample with do_sample=True: the same tokens for the same seed, since the draw is
 * torch.multinomial's on the request's own stream; rows that have ended are drawn for as well. */
#include <cadenza/strategy.h>

/* [engine] All rows in lockstep; tokens is (n_rows). */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    int32_t *tokens = cdz_scratch(step, cdz_n_rows(dec) * sizeof *tokens);
    cdz_scores scores; /* (n_rows, n_vocab): logits */

    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "sample: no memory for a token per row");
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_LOGITS, &scores));
        CDZ_TRY(cdz_draw_rows(dec, &scores, tokens)); /* process, record, softmax, multinomial */
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}

static const cdz_strategy sample = {
    .base = {CDZ_STRATEGY_BASE, .id = "sample", .version = "1.0.0",
             .summary = "Draw every token from its distribution"},
    .caps = CDZ_SAMPLES | CDZ_SCORES_MOVE,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&sample.base)
