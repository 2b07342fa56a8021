/* sampling_with_kvcache.c - a sampling loop that keeps its own books.
 *
 * Every step: temperature, then top-k, then top-p on a copy of the logits, a draw (or the best token), and two notes per
 * token: its log-probability under the distribution it was drawn from (`scores`) and under the model's own, at
 * temperature 1 (`logprobs`). Filters are off unless given. The KV cache is the host's: cdz_forward computes what it
 * lacks. */
#include <cadenza/ext/vec.h>
#include <cadenza/strategy.h>

typedef struct {
    bool do_sample;
    cdz_opt_real temperature, top_p;
    cdz_opt_int top_k;
} sampling;

static const cdz_param params[] = {
    CDZ_BOOL(sampling, do_sample, true, "draw from the distribution; false takes the best token"),
    CDZ_OPT_REAL(sampling, temperature, CDZ_ABOVE_MIN, 0.0, 1e6, "scores are divided by it"),
    CDZ_OPT_INT(sampling, top_k, 0, 1, 1e9, "keep this many best tokens"),
    CDZ_OPT_REAL(sampling, top_p, CDZ_ABOVE_MIN, 0.0, 1.0,
                 "keep the best tokens that reach this probability"),
};

/* What one run needs; scratch memory, which lives until run returns. */
typedef struct {
    cdz_decoder *dec;
    const cdz_step *step;
    const cdz_vec *vec;
    void *scratch;            /* for vec */
    uint32_t n_rows;          /* R */
    uint32_t n, cap;          /* tokens per row so far, room */
    float *scores, *logprobs; /* (cap, R): one row per step, turned around at the end */
    int32_t *tokens;          /* (R) */
    bool *ended;              /* (R) before this step */
    cdz_scores own,
        drawn; /* (R, n_vocab): log-probabilities of the model, and of the filtered scores */
} loop;

static cdz_status no_memory(const loop *l)
{
    return cdz_fail(l->step, CDZ_E_NOMEM, "sampling_with_kvcache: out of memory after %u tokens",
                    l->n);
}

static cdz_status prepare(loop *l)
{
    const uint32_t n_vocab = l->step->request->n_vocab;
    l->n_rows = cdz_n_rows(l->dec);
    l->vec = cdz_get_vec(l->step);
    if (!l->vec)
        return cdz_fail(l->step, CDZ_E_UNSUPPORTED, "sampling_with_kvcache needs " CDZ_EXT_VEC);
    l->scratch = cdz_scratch(l->step, cdz_vec_scratch(n_vocab));
    l->tokens = cdz_scratch(l->step, l->n_rows * sizeof l->tokens[0]);
    l->ended = cdz_scratch(l->step, l->n_rows * sizeof l->ended[0]);
    if (!l->scratch || !l->tokens || !l->ended) return no_memory(l);
    CDZ_TRY(cdz_scratch_scores(l->dec, l->n_rows, &l->own));
    CDZ_TRY(cdz_scratch_scores(l->dec, l->n_rows, &l->drawn));
    CDZ_TRY(cdz_map(l->dec, &l->own));
    return cdz_map(l->dec, &l->drawn);
}

static float *longer(const loop *l, const float *old, uint32_t cap)
{
    float *more = cdz_scratch(l->step, (size_t)cap * l->n_rows * sizeof *more);
    for (size_t i = 0; more && i < (size_t)l->n * l->n_rows; i++) more[i] = old[i];
    return more;
}

/* Room for one more step; doubling, so that what is left behind is no more than what is used. */
static cdz_status make_room(loop *l)
{
    if (l->n < l->cap) return CDZ_OK;
    const uint32_t cap = l->cap ? 2 * l->cap : 64;
    l->scores = longer(l, l->scores, cap);
    l->logprobs = longer(l, l->logprobs, cap);
    l->cap = cap;
    return l->scores && l->logprobs ? CDZ_OK : no_memory(l);
}

static void copy_rows(cdz_scores *to, const cdz_scores *from)
{
    for (uint32_t r = 0; r < from->n_rows; r++) {
        float *out = cdz_row(to, r);
        const float *in = cdz_row(from, r);
        for (uint32_t v = 0; v < from->n_vocab; v++) out[v] = in[v];
    }
}

/* Temperature first: it changes what top-p keeps. */
static void filter(const loop *l, cdz_scores *scores)
{
    const sampling *p = l->step->params;
    const size_t n = scores->n_vocab;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        if (p->temperature.set) l->vec->div(row, n, (float)p->temperature.value);
        if (p->top_k.set && p->top_k.value < (int64_t)n)
            l->vec->keep_topk(row, n, (size_t)p->top_k.value, l->scratch);
        if (p->top_p.set && p->top_p.value < 1.0)
            l->vec->keep_topp(row, n, p->top_p.value, 1, l->scratch);
    }
}

/* Picks a token for every row; scores (R, n_vocab) become probabilities when drawing. */
static cdz_status choose(loop *l, cdz_scores *scores)
{
    const sampling *p = l->step->params;
    if (!p->do_sample) return cdz_argmax_rows(l->dec, scores, l->tokens);
    CDZ_TRY(cdz_softmax(l->dec, scores));
    return cdz_multinomial(l->dec, scores, l->tokens);
}

/* Rows that had ended hold pads, which nobody drew: their notes are 0. */
static void note(loop *l)
{
    for (uint32_t r = 0; r < l->n_rows; r++) {
        const size_t at = (size_t)l->n * l->n_rows + r;
        l->scores[at] = l->ended[r] ? 0.0f : cdz_row(&l->drawn, r)[l->tokens[r]];
        l->logprobs[at] = l->ended[r] ? 0.0f : cdz_row(&l->own, r)[l->tokens[r]];
    }
    l->n++;
}

static cdz_status one_token(loop *l)
{
    cdz_scores scores;
    CDZ_TRY(make_room(l));
    CDZ_TRY(cdz_forward(l->dec, &scores));
    CDZ_TRY(cdz_map(l->dec, &scores));
    CDZ_TRY(cdz_record(l->dec, CDZ_RECORD_LOGITS, &scores));
    copy_rows(&l->own, &scores);
    CDZ_TRY(cdz_log_softmax(l->dec, &l->own));
    filter(l, &scores);
    CDZ_TRY(cdz_record(l->dec, CDZ_RECORD_SCORES, &scores));
    copy_rows(&l->drawn, &scores);
    CDZ_TRY(cdz_log_softmax(l->dec, &l->drawn));
    CDZ_TRY(choose(l, &scores));
    for (uint32_t r = 0; r < l->n_rows; r++) l->ended[r] = cdz_row_done(l->dec, r);
    note(l);
    return cdz_append_rows(l->dec, l->tokens);
}

/* (n, R) notes as a result of shape (R, n). */
static cdz_status put_notes(const loop *l, const char *name, const float *notes)
{
    const uint64_t shape[2] = {l->n_rows, l->n};
    float *out = cdz_scratch(l->step, ((size_t)l->n * l->n_rows + 1) * sizeof *out);
    if (!out) return no_memory(l);
    for (uint32_t r = 0; r < l->n_rows; r++)
        for (uint32_t i = 0; i < l->n; i++)
            out[(size_t)r * l->n + i] = notes[(size_t)i * l->n_rows + r];
    return cdz_put_result(l->dec, name, CDZ_RESULT_F32, 2, shape, out);
}

/* Prompt, pads and new tokens of every row: in lockstep all are equally long. */
static cdz_status put_sequences(const loop *l)
{
    const uint32_t len = cdz_input_ids(l->dec, 0).len;
    const uint64_t shape[2] = {l->n_rows, len};
    int64_t *out = cdz_scratch(l->step, ((size_t)len * l->n_rows + 1) * sizeof *out);
    if (!out) return no_memory(l);
    for (uint32_t r = 0; r < l->n_rows; r++) {
        const cdz_ids ids = cdz_input_ids(l->dec, r);
        for (uint32_t i = 0; i < len; i++) out[(size_t)r * len + i] = ids.at[i];
    }
    return cdz_put_result(l->dec, "sequences", CDZ_RESULT_I64, 2, shape, out);
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    loop l = {.dec = dec, .step = step};
    CDZ_TRY(prepare(&l));
    while (!cdz_done(dec)) CDZ_TRY(one_token(&l));
    CDZ_TRY(put_sequences(&l));
    CDZ_TRY(put_notes(&l, "scores", l.scores));
    return put_notes(&l, "logprobs", l.logprobs);
}

static const cdz_strategy sampling_with_kvcache = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.sampling-with-kvcache", .version = "1.0.0",
             .summary = "Sampling that returns the log-probability of every token",
             CDZ_PARAMS(sampling, params)},
    .run = run,
};
CDZ_EXPORT_PLUGINS(&sampling_with_kvcache.base)
