/* simple_sample.c - sampling as small as it can be: temperature, top-k, top-p, one draw per row.
 * Temperature 0 takes the best token and skips the filters. A row that has ended gets no more tokens. */
#include <cadenza/ext/vec.h>
#include <cadenza/strategy.h>

typedef struct {
    double temperature, top_p;
    int64_t top_k;
} simple;

static const cdz_param params[] = {
    CDZ_REAL(simple, temperature, 1.0, 0.0, 1e6, "scores are divided by it; 0 takes the best token"),
    CDZ_INT(simple, top_k, 0, 0, 1e9, "keep this many best tokens; 0 keeps all"),
    CDZ_REAL(simple, top_p, 1.0, 0.0, 1.0,
             "keep the best tokens that reach this probability; 1 keeps all"),
};

static cdz_status draw(cdz_decoder *dec, const cdz_step *step, cdz_scores *scores, void *scratch,
                       int32_t *tokens)
{
    const simple *p = step->params;
    const cdz_vec *vec = cdz_get_vec(step);
    const size_t n = scores->n_vocab, k = p->top_k < (int64_t)n ? (size_t)p->top_k : 0;

    CDZ_TRY(cdz_map(dec, scores));
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        vec->div(row, n, (float)p->temperature);
        if (k > 0) vec->keep_topk(row, n, k, scratch);
        if (p->top_p < 1.0) vec->keep_topp(row, n, p->top_p, 1, scratch);
    }
    CDZ_TRY(cdz_softmax(dec, scores));
    return cdz_multinomial(dec, scores, tokens);
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const simple *p = step->params;
    const cdz_request_info *q = step->request;
    const uint32_t n_rows = cdz_n_rows(dec);
    void *scratch = cdz_scratch(step, cdz_vec_scratch(q->n_vocab));
    int32_t *tokens = cdz_scratch(step, n_rows * sizeof *tokens);
    cdz_scores scores; /* (n_rows, n_vocab) */

    if (!scratch || !tokens || !cdz_get_vec(step))
        return cdz_fail(step, CDZ_E_NOMEM, "simple_sample: no memory or no vector operations");
    if (q->max_length > q->context)
        return cdz_fail(step, CDZ_E_INPUT,
                        "%u prompt tokens and %u new ones exceed the model's context of %u",
                        q->prompt_len, q->max_length - q->prompt_len, q->context);
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        if (p->temperature > 0)
            CDZ_TRY(draw(dec, step, &scores, scratch, tokens));
        else
            CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        for (uint32_t r = 0; r < n_rows; r++)
            if (!cdz_row_done(dec, r)) CDZ_TRY(cdz_append(dec, r, tokens[r]));
    }
    return CDZ_OK;
}

static const cdz_strategy simple_sample = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.simple-sample", .version = "1.0.0",
             .summary = "Sampling in its smallest form: temperature, top-k, top-p",
             CDZ_PARAMS(simple, params)},
    .run = run,
};
CDZ_EXPORT_PLUGINS(&simple_sample.base)
