/* backtrack.c - greedy decoding that takes a step back when it loses confidence.
 * If the best next token is improbable, the token before it was probably the
 * mistake: drop it, forbid it at that position, choose again. */
#include <cadenza/strategy.h>

typedef struct {
    double floor;
    int64_t retries;
} backtrack;

static const cdz_param params[] = {
    CDZ_REAL(backtrack, floor, 0.15, 0.0, 1.0, "lowest probability the best token may have"),
    CDZ_INT(backtrack, retries, 8, 0, 1024, "steps back one sequence may take"),
};

/* [decode-thread] One sequence; the host batches the forward passes of many. */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const backtrack *p = step->params;
    int64_t left = p->retries;
    int32_t banned = -1;            /* the token refused at this position, or -1 */
    cdz_scores scores;              /* (1, n_vocab), owned by the decoder, may live on a device */
    cdz_pick best;

    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));     /* runs whatever the KV cache lacks */
        CDZ_TRY(cdz_process(dec, &scores));     /* the processors of the user's pipeline */
        if (banned >= 0)
            CDZ_TRY(cdz_ban(dec, &scores, 0, banned));
        CDZ_TRY(cdz_argmax(dec, &scores, 0, &best));

        if (best.prob < p->floor && left > 0 && cdz_rewindable(dec, 0) > 0) {
            const cdz_ids ids = cdz_input_ids(dec, 0);
            banned = ids.at[ids.len - 1];
            left--;
            CDZ_TRY(cdz_rewind(dec, 0, 1));     /* ids, KV cache, processor state, held text */
        } else {
            banned = -1;
            CDZ_TRY(cdz_append(dec, 0, best.token));
        }
    }
    return CDZ_OK;
}

static const cdz_strategy backtrack_strategy = {
    .base = { CDZ_STRATEGY_BASE, .id = "org.example.backtrack", .version = "1.0.0",
              .summary = "Greedy, stepping back when the next token is improbable",
              CDZ_PARAMS(backtrack, params) },
    .caps = CDZ_ONE_ROW | CDZ_REWINDS,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&backtrack_strategy.base)
