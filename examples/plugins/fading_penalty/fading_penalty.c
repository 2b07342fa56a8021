/* fading_penalty.c - lower the scores of recent tokens, the newest most.
 * scores[v] -= penalty * decay^age, summed over each use of v in the window. */
#include <cadenza/processor.h>

typedef struct {
    double penalty, decay;
    int64_t window;
} fading;

static const cdz_param params[] = {
    CDZ_REAL(fading, penalty, 1.0, 0.0, 100.0, "taken from the newest token's score"),
    CDZ_REAL(fading, decay, 0.9, 0.0, 1.0, "factor per token of age"),
    CDZ_INT(fading, window, 64, 1, 65536, "tokens to look back over"),
};

/* [decode-thread, no-alloc] In place on scores, (n_rows, n_vocab). */
static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const fading *p = step->params;

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_ids ids = step->input_ids[r];
        float *row = cdz_row(scores, r);
        double w = p->penalty;
        for (uint32_t age = 0; age < ids.len && age < p->window; age++, w *= p->decay)
            row[ids.at[ids.len - 1 - age]] -= (float)w;
    }
    return CDZ_OK;
}

static const cdz_processor fading_penalty = {
    .base = { CDZ_PROCESSOR_BASE, .id = "org.example.fading-penalty", .version = "1.0.0",
              .summary = "Penalise tokens by how recently they were used",
              CDZ_PARAMS(fading, params) },
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&fading_penalty.base)
