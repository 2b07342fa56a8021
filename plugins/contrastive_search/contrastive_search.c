/* contrastive_search.c - likely tokens that say something new.
 * Su et al., A Contrastive Framework for Neural Text Generation (2022), https://arxiv.org/abs/2202.06417; as
 * _contrastive_search of transformers 4.55.4.
 *
 * Each of the top_k likeliest tokens is tried: the model reads it, and its last hidden state is compared with those of all
 * positions before. Taken is the best of (1 - penalty_alpha) * probability - penalty_alpha * greatest cosine. The pass
 * that tried the token has also given the scores that follow it, and its sequence goes on. */
#include <cadenza/ext/vec.h>
#include <cadenza/strategy.h>
#include <math.h>
#include <string.h>

typedef struct {
    cdz_opt_real penalty_alpha;
    cdz_opt_int top_k;
} contrastive;

static const cdz_param params[] = {
    CDZ_OPT_REAL(contrastive, penalty_alpha, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "share of the penalty for being like what is there; the rest is probability's"),
    CDZ_OPT_INT(contrastive, top_k, CDZ_GENERATION, 1, CDZ_NO_LIMIT, "tokens to try"),
};

/* A row as the search sees it. */
typedef struct {
    cdz_seq *seq;         /* read up to its newest token; NULL: still the request's own row */
    float *context;       /* (cap, width) hidden states of its positions, each of length 1 */
    uint32_t n, cap;      /* positions */
    bool rests;           /* filled with pad from now on */
    uint32_t first_trial; /* its trials are [first_trial, first_trial + k) */
} line;

/* What one run needs; scratch memory, which lives until run returns. */
typedef struct {
    cdz_decoder *dec;
    const cdz_step *step;
    const cdz_vec *vec;
    uint32_t n_rows, n_vocab, width, k;
    float alpha;
    line *lines;      /* (n_rows) */
    int32_t *tokens;  /* (n_rows) */
    cdz_scores next;  /* (n_rows, n_vocab) logits of what follows each row */
    cdz_scores these; /* (n_rows, n_vocab) the same being processed, recorded and chosen from */

    cdz_seq **trials; /* (n_rows * k) */
    uint32_t n_trials;
    int32_t *ids;  /* (n_rows, k) candidates, likeliest first */
    float *probs;  /* (n_rows, k) */
    float *flat;   /* (n_vocab) */
    float *direct; /* (width) */
    void *room;    /* of top-k */
} search;

static cdz_status no_memory(const search *s)
{
    return cdz_fail(s->step, CDZ_E_NOMEM, "contrastive search: out of memory");
}

/* --- begin ------------------------------------------------------------------------------------------------------ */

static cdz_status configure(search *s)
{
    const contrastive *p = s->step->params;
    cdz_model_facts model = {0};
    s->vec = cdz_get_vec(s->step);
    if (!s->vec || !cdz_facts(s->dec, NULL, &model))
        return cdz_fail(s->step, CDZ_E_UNSUPPORTED, "contrastive search: needs " CDZ_EXT_VEC);
    if (!p->penalty_alpha.set || p->penalty_alpha.value <= 0 || !p->top_k.set || p->top_k.value < 2)
        return cdz_fail(s->step, CDZ_E_USAGE,
                        "contrastive search: needs penalty_alpha above 0.0 and top_k above 1");
    s->n_rows = cdz_n_rows(s->dec);
    s->n_vocab = s->step->request->n_vocab;
    s->width = model.width;
    s->alpha = (float)p->penalty_alpha.value;
    s->k = p->top_k.value < s->n_vocab ? (uint32_t)p->top_k.value : s->n_vocab;
    const uint32_t last = model.n_layers;
    return cdz_keep_hidden(s->dec, CDZ_POSITIONS_ALL, &last, 1);
}

static cdz_status make_room(search *s)
{
    const size_t trials = (size_t)s->n_rows * s->k;
    s->lines = cdz_scratch(s->step, s->n_rows * sizeof *s->lines);
    s->tokens = cdz_scratch(s->step, s->n_rows * sizeof *s->tokens);
    s->trials = cdz_scratch(s->step, trials * sizeof *s->trials);
    s->ids = cdz_scratch(s->step, trials * sizeof *s->ids);
    s->probs = cdz_scratch(s->step, trials * sizeof *s->probs);
    s->flat = cdz_scratch(s->step, s->n_vocab * sizeof *s->flat);
    s->direct = cdz_scratch(s->step, s->width * sizeof *s->direct);
    s->room = cdz_scratch(s->step, cdz_vec_scratch(s->n_vocab));
    if (!s->lines || !s->tokens || !s->trials || !s->ids || !s->probs || !s->flat || !s->direct ||
        !s->room)
        return no_memory(s);
    memset(s->lines, 0, s->n_rows * sizeof *s->lines);
    memset(s->tokens, 0, s->n_rows * sizeof *s->tokens);
    CDZ_TRY(cdz_scratch_scores(s->dec, s->n_rows, &s->next));
    return cdz_scratch_scores(s->dec, s->n_rows, &s->these);
}

/* --- what is there ------------------------------------------------------------------------------------------------ */

/* x / |x| */
static void direction(const search *s, const float *x, float *out)
{
    const float length = sqrtf(s->vec->dot(x, x, s->width));
    memcpy(out, x, s->width * sizeof *out);
    s->vec->div(out, s->width, length);
}

static cdz_status remember(search *s, line *l, const float *hidden)
{
    if (l->n == l->cap) {
        const uint32_t cap = l->cap ? 2 * l->cap : 256;
        float *more = cdz_scratch(s->step, (size_t)cap * s->width * sizeof *more);
        if (!more) return no_memory(s);
        if (l->n) memcpy(more, l->context, (size_t)l->n * s->width * sizeof *more);
        l->context = more;
        l->cap = cap;
    }
    direction(s, hidden, l->context + (size_t)l->n++ * s->width);
    return CDZ_OK;
}

/* Reads the prompts. */
static cdz_status begin(search *s)
{
    cdz_scores scores;
    cdz_hidden hidden;
    uint32_t at = 0;
    for (uint32_t r = 0; r < s->n_rows; r++) s->trials[r] = cdz_seq_of_row(s->dec, r);
    CDZ_TRY(cdz_seq_forward(s->dec, s->trials, s->n_rows, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(cdz_map(s->dec, &scores));
    CDZ_TRY(cdz_hidden_states(s->dec, &hidden));
    for (uint32_t r = 0; r < s->n_rows; r++) {
        const uint32_t n = cdz_seq_length(s->dec, s->trials[r]);
        memcpy(cdz_row(&s->next, r), cdz_row(&scores, r), s->n_vocab * sizeof(float));
        for (uint32_t i = 0; i < n && at < hidden.n_rows; i++)
            CDZ_TRY(remember(s, &s->lines[r], cdz_hidden_row(&hidden, 0, at++)));
    }
    return CDZ_OK;
}

/* --- trials ------------------------------------------------------------------------------------------------------- */

/* The likeliest tokens of a row, and a sequence for each. */
static cdz_status try_row(search *s, uint32_t r)
{
    line *l = &s->lines[r];
    const size_t at = (size_t)r * s->k;
    const cdz_seq *seq = l->seq ? l->seq : cdz_seq_of_row(s->dec, r);
    s->vec->softmax(s->flat, cdz_row(&s->these, r), s->n_vocab);
    s->vec->topk(s->flat, s->n_vocab, s->k, s->probs + at, s->ids + at, s->room);
    l->first_trial = s->n_trials;
    for (uint32_t i = 0; i < s->k; i++) {
        cdz_seq **trial = &s->trials[s->n_trials];
        CDZ_TRY(cdz_seq_fork(s->dec, seq, trial));
        s->n_trials++;
        CDZ_TRY(cdz_seq_append(s->dec, *trial, &s->ids[at + i], 1));
    }
    return CDZ_OK;
}

static float greatest_cosine(const search *s, const line *l, const float *hidden)
{
    float most = -INFINITY;
    direction(s, hidden, s->direct);
    for (uint32_t i = 0; i < l->n; i++) {
        const float cosine = s->vec->dot(l->context + (size_t)i * s->width, s->direct, s->width);
        if (cosine > most) most = cosine;
    }
    return most;
}

/* The best trial of a row: the first of equals. */
static uint32_t best_trial(const search *s, uint32_t r, const cdz_hidden *hidden)
{
    const line *l = &s->lines[r];
    uint32_t best = 0;
    float most = -INFINITY;
    for (uint32_t i = 0; i < s->k; i++) {
        const float *state = cdz_hidden_row(hidden, 0, l->first_trial + i);
        const float gain = (1.0f - s->alpha) * s->probs[(size_t)r * s->k + i];
        const float value = gain - s->alpha * greatest_cosine(s, l, state);
        if (!(value > most)) continue;
        most = value;
        best = i;
    }
    return best;
}

/* The best trial's sequence and scores are the row's from now on. */
static cdz_status settle(search *s, uint32_t r, const cdz_scores *scores, const cdz_hidden *hidden)
{
    line *l = &s->lines[r];
    const uint32_t best = best_trial(s, r, hidden), at = l->first_trial + best;
    CDZ_TRY(remember(s, l, cdz_hidden_row(hidden, 0, at)));
    memcpy(cdz_row(&s->next, r), cdz_row(scores, at), s->n_vocab * sizeof(float));
    s->tokens[r] = s->ids[(size_t)r * s->k + best];
    if (l->seq) cdz_seq_free(s->dec, l->seq);
    l->seq = s->trials[at];
    s->trials[at] = NULL;
    return CDZ_OK;
}

static cdz_status run_trials(search *s)
{
    cdz_scores scores;
    cdz_hidden hidden;
    s->n_trials = 0;
    for (uint32_t r = 0; r < s->n_rows; r++)
        if (!s->lines[r].rests) CDZ_TRY(try_row(s, r));
    CDZ_TRY(cdz_seq_forward(s->dec, s->trials, s->n_trials, CDZ_POSITIONS_LAST, &scores));
    CDZ_TRY(cdz_map(s->dec, &scores));
    CDZ_TRY(cdz_hidden_states(s->dec, &hidden));
    for (uint32_t r = 0; r < s->n_rows; r++)
        if (!s->lines[r].rests) CDZ_TRY(settle(s, r, &scores, &hidden));
    for (uint32_t i = 0; i < s->n_trials; i++)
        if (s->trials[i]) cdz_seq_free(s->dec, s->trials[i]);
    return CDZ_OK;
}

/* --- one step ----------------------------------------------------------------------------------------------------- */

static cdz_status score(search *s)
{
    CDZ_TRY(cdz_record(s->dec, CDZ_RECORD_LOGITS, &s->next));
    memcpy(s->these.data, s->next.data, (size_t)s->n_rows * s->n_vocab * sizeof(float));
    CDZ_TRY(cdz_process(s->dec, &s->these));
    return cdz_record(s->dec, CDZ_RECORD_SCORES, &s->these);
}

static cdz_status one_token(search *s)
{
    CDZ_TRY(score(s));
    CDZ_TRY(run_trials(s));
    CDZ_TRY(cdz_append_rows(s->dec, s->tokens));
    for (uint32_t r = 0; r < s->n_rows; r++)
        s->lines[r].rests = s->step->request->eos.len && cdz_row_done(s->dec, r);
    return CDZ_OK;
}

/* [engine] */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    search s = {.dec = dec, .step = step};
    CDZ_TRY(configure(&s));
    CDZ_TRY(make_room(&s));
    CDZ_TRY(begin(&s));
    while (!cdz_done(dec)) CDZ_TRY(one_token(&s));
    return CDZ_OK;
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.contrastive-search", .version = "1.0.0",
             .summary = "Prefer likely tokens that do not repeat the context",
             CDZ_PARAMS(contrastive, params)},
    .caps = CDZ_GREEDY,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&strategy.base)
