/* greedy.c - take the best token, again and again.
 * transformers GenerationMixin._sample with do_sample=False: ties go to the lowest id. */
#include <cadenza/strategy.h>

/* [engine] All rows in lockstep; tokens is (n_rows). */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    int32_t *tokens = cdz_scratch(step, cdz_n_rows(dec) * sizeof *tokens);
    cdz_scores scores; /* (n_rows, n_vocab) */

    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "greedy: no memory for a token per row");
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_LOGITS, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_record(dec, CDZ_RECORD_SCORES, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}

static const cdz_strategy greedy = {
    .base = {CDZ_STRATEGY_BASE, .id = "greedy", .version = "1.0.0",
             .summary = "Take the best token of every step"},
    .caps = CDZ_GREEDY | CDZ_SCORES_MOVE,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&greedy.base)
