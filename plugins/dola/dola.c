/* dola.c - what the last layer knows beyond an early one.
 * Chuang et al., DoLa: Decoding by Contrasting Layers Improves Factuality in Large Language Models (2023),
 * https://arxiv.org/abs/2309.03883; as _dola_decoding of transformers 4.55.4.
 *
 * Every step reads the next token's distribution off early layers too, by the head alone. Of several candidate layers the
 * one whose distribution is farthest from the last layer's, by Jensen-Shannon divergence, is taken; scores are the last
 * layer's log-probabilities less that layer's, for tokens that are not too unlikely. */
#include <cadenza/ext/vec.h>
#include <cadenza/strategy.h>
#include <math.h>
#include <string.h>

enum { LOW, HIGH };

typedef struct {
    cdz_word_or_ints dola_layers;
    cdz_opt_real repetition_penalty;
} dola;

static const cdz_param params[] = {
    CDZ_WORD_OR_INTS(dola, dola_layers, CDZ_GENERATION, "low|high", 0, 65536,
                     "candidate layers: every second one of the lower or upper half, or a list"),
    CDZ_OPT_REAL(dola, repetition_penalty, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "read for advice only: 1.2 or more is recommended with DoLa"),
};

/* What one run needs; scratch memory, which lives until run returns. */
typedef struct {
    cdz_decoder *dec;
    const cdz_step *step;
    const cdz_vec *vec;
    uint32_t n_rows, n_vocab, n_layers; /* n_layers: candidates */
    uint32_t *layers;                   /* (n_layers) */
    uint32_t n_steps, cap;
    int32_t *chosen; /* (cap, n_rows) the layer of each step */
    int32_t *tokens; /* (n_rows) */
    uint32_t *taken; /* (n_rows) the candidate of this step */
    float *sums;     /* (n_layers) distances over the rows */
    bool quirks;
    cdz_scores scores, early;            /* (n_rows, n_vocab), (n_layers * n_rows, n_vocab) */
    float *p, *q, *log_p, *log_q, *mean; /* (n_vocab) */
} loop;

static cdz_status no_memory(const loop *l)
{
    return cdz_fail(l->step, CDZ_E_NOMEM, "dola: out of memory after %u tokens", l->n_steps);
}

/* --- which layers ----------------------------------------------------------------------------------------------- */

/* Of tied models the first layers are left out: their head gives the token itself back. */
static uint32_t first_layer(const cdz_model_facts *model)
{
    if (!model->tied) return 0;
    return model->n_layers > 2 ? 2 : model->n_layers == 2;
}

static void add_every_second(loop *l, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i += 2) l->layers[l->n_layers++] = i;
}

static void name_half(loop *l, int32_t half, const cdz_model_facts *model)
{
    enum { DEEP = 40, REACH = 20 };
    const uint32_t n = model->n_layers, first = first_layer(model);
    const bool deep = n > DEEP;
    if (half == HIGH)
        add_every_second(l, deep ? n - REACH : n / 2, n);
    else if (first == n / 2)
        l->layers[l->n_layers++] = first;
    else
        add_every_second(l, first, deep ? REACH : n / 2);
}

static cdz_status name_layers(loop *l)
{
    const cdz_word_or_ints *p = &((const dola *)l->step->params)->dola_layers;
    cdz_model_facts model = {0};
    if (!cdz_facts(l->dec, NULL, &model))
        return cdz_fail(l->step, CDZ_E_UNSUPPORTED, "dola: the model has no layers to look into");
    if (model.has_encoder)
        return cdz_fail(l->step, CDZ_E_UNSUPPORTED,
                        "dola_layers: DoLa is for models without an encoder");
    l->layers = cdz_scratch(l->step, ((size_t)model.n_layers + p->ints.len + 1) * sizeof *l->layers);
    if (!l->layers) return no_memory(l);
    if (!p->word.set && !p->ints.set)
        return cdz_fail(l->step, CDZ_E_USAGE, "dola_layers: must be low, high or a list of layers");
    if (p->word.set) name_half(l, p->word.value, &model);
    for (uint32_t i = 0; i < p->ints.len; i++)
        if (p->ints.at[i] < model.n_layers) l->layers[l->n_layers++] = (uint32_t)p->ints.at[i];
    if (l->n_layers) return CDZ_OK;
    return cdz_fail(l->step, CDZ_E_USAGE,
                    "dola_layers: names no layer below the last of this model, which has %u",
                    model.n_layers);
}

/* --- begin ------------------------------------------------------------------------------------------------------ */

static void advise(const loop *l)
{
    const dola *p = l->step->params;
    if (!p->repetition_penalty.set || p->repetition_penalty.value < 1.2)
        cdz_log(l->step, CDZ_LOG_INFO,
                "DoLa tends to repeat; repetition_penalty = 1.2 or more helps");
}

static float *take(const loop *l, size_t n)
{
    return cdz_scratch(l->step, n * sizeof(float));
}

static cdz_status prepare(loop *l)
{
    l->n_rows = cdz_n_rows(l->dec);
    l->n_vocab = l->step->request->n_vocab;
    l->vec = cdz_get_vec(l->step);
    if (!l->vec) return cdz_fail(l->step, CDZ_E_UNSUPPORTED, "dola needs " CDZ_EXT_VEC);
    CDZ_TRY(l->step->host->config(l->step, "quirks", CDZ_T_BOOL, &l->quirks));
    CDZ_TRY(name_layers(l));
    l->taken = cdz_scratch(l->step, l->n_rows * sizeof *l->taken);
    l->sums = take(l, l->n_layers);
    l->tokens = cdz_scratch(l->step, l->n_rows * sizeof *l->tokens);
    l->p = take(l, l->n_vocab);
    l->q = take(l, l->n_vocab);
    l->log_p = take(l, l->n_vocab);
    l->log_q = take(l, l->n_vocab);
    l->mean = take(l, l->n_vocab);
    if (!l->taken || !l->sums || !l->tokens || !l->p || !l->q || !l->log_p || !l->log_q || !l->mean)
        return no_memory(l);
    advise(l);
    return cdz_keep_hidden(l->dec, CDZ_POSITIONS_LAST, l->layers, l->n_layers);
}

/* --- the layer of a step ------------------------------------------------------------------------------------------ */

static const float *early_row(const loop *l, uint32_t layer, uint32_t row)
{
    return cdz_row(&l->early, layer * l->n_rows + row);
}

/* Mean over the vocabulary of target * (log target - log of the other), as kl_div has it: 0 where the target is. */
static float divergence(const loop *l, const float *log_other)
{
    float sum = 0;
    for (uint32_t v = 0; v < l->n_vocab; v++)
        if (l->mean[v] > 0) sum += l->mean[v] * (logf(l->mean[v]) - log_other[v]);
    return sum / (float)l->n_vocab;
}

/* How far the early distribution of a row is from the last layer's, whose log-probabilities and probabilities are in
 * log_p and p. */
static float distance(loop *l, uint32_t layer, uint32_t row)
{
    const float *early = early_row(l, layer, row);
    l->vec->softmax(l->q, early, l->n_vocab);
    l->vec->log_softmax(l->log_q, early, l->n_vocab);
    for (uint32_t v = 0; v < l->n_vocab; v++) l->mean[v] = 0.5f * (l->p[v] + l->q[v]);
    return 0.5f * (divergence(l, l->log_p) + divergence(l, l->log_q));
}

static uint32_t largest(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Filled with pad, not run: its scores are old. */
static bool rests(const loop *l, uint32_t row)
{
    return l->step->request->eos.len && cdz_row_done(l->dec, row);
}

static void add_distances(loop *l, uint32_t row)
{
    l->vec->softmax(l->p, cdz_row(&l->scores, row), l->n_vocab);
    l->vec->log_softmax(l->log_p, cdz_row(&l->scores, row), l->n_vocab);
    for (uint32_t i = 0; i < l->n_layers; i++) l->sums[i] += distance(l, i, row);
}

/* The candidate that is farthest from the last layer, for each row. The reference takes one for all: the farthest on
 * average. */
static void farthest(loop *l)
{
    memset(l->sums, 0, l->n_layers * sizeof *l->sums);
    for (uint32_t r = 0; r < l->n_rows; r++) {
        if (!l->quirks) memset(l->sums, 0, l->n_layers * sizeof *l->sums);
        if (l->n_layers > 1 && !rests(l, r)) add_distances(l, r);
        l->taken[r] = largest(l->sums, l->n_layers);
    }
    for (uint32_t r = 0; l->quirks && r < l->n_rows; r++) l->taken[r] = l->taken[l->n_rows - 1];
}

/* --- one step ----------------------------------------------------------------------------------------------------- */

/* Tokens at least a tenth as likely as the best one keep the difference of log-probabilities. The others get what the
 * reference gives them, -inf: its own fill value of the early row does not come into it. */
static void contrast(loop *l, uint32_t row)
{
    const uint32_t layer = l->taken[row];
    float *x = cdz_row(&l->scores, row);
    if (rests(l, row)) return;
    l->vec->log_softmax(x, x, l->n_vocab);
    l->vec->log_softmax(l->log_q, early_row(l, layer, row), l->n_vocab);
    const float cut = l->vec->max(x, l->n_vocab) + (float)log(0.1);
    for (uint32_t v = 0; v < l->n_vocab; v++) x[v] = x[v] < cut ? -INFINITY : x[v] - l->log_q[v];
}

static cdz_status note(loop *l)
{
    const size_t R = l->n_rows;
    if (l->n_steps == l->cap) {
        const uint32_t cap = l->cap ? 2 * l->cap : 64;
        int32_t *more = cdz_scratch(l->step, cap * R * sizeof *more);
        if (!more) return no_memory(l);
        if (l->n_steps) memcpy(more, l->chosen, l->n_steps * R * sizeof *more);
        l->chosen = more;
        l->cap = cap;
    }
    for (uint32_t r = 0; r < R; r++)
        l->chosen[l->n_steps * R + r] = (int32_t)l->layers[l->taken[r]];
    l->n_steps++;
    return CDZ_OK;
}

static cdz_status read_layers(loop *l)
{
    cdz_hidden hidden;
    CDZ_TRY(cdz_forward(l->dec, &l->scores));
    CDZ_TRY(cdz_record(l->dec, CDZ_RECORD_LOGITS, &l->scores));
    CDZ_TRY(cdz_hidden_states(l->dec, &hidden));
    CDZ_TRY(cdz_head(l->dec, hidden.data, l->n_layers * l->n_rows, &l->early));
    CDZ_TRY(cdz_map(l->dec, &l->scores));
    return cdz_map(l->dec, &l->early);
}

static cdz_status choose(loop *l)
{
    if (!l->step->request->do_sample) return cdz_argmax_rows(l->dec, &l->scores, l->tokens);
    CDZ_TRY(cdz_softmax(l->dec, &l->scores));
    return cdz_multinomial(l->dec, &l->scores, l->tokens);
}

static cdz_status one_token(loop *l)
{
    CDZ_TRY(read_layers(l));
    farthest(l);
    for (uint32_t r = 0; r < l->n_rows; r++) contrast(l, r);
    CDZ_TRY(note(l));
    CDZ_TRY(cdz_process(l->dec, &l->scores));
    CDZ_TRY(cdz_record(l->dec, CDZ_RECORD_SCORES, &l->scores));
    CDZ_TRY(choose(l));
    return cdz_append_rows(l->dec, l->tokens);
}

/* layers: (steps, rows), or as the reference chooses them, (steps). */
static cdz_status put_layers(const loop *l)
{
    const uint64_t shape[] = {l->n_steps, l->n_rows};
    if (l->quirks)
        for (uint32_t i = 0; i < l->n_steps; i++) l->chosen[i] = l->chosen[(size_t)i * l->n_rows];
    return cdz_put_result(l->dec, "layers", CDZ_RESULT_I32, l->quirks ? 1 : 2, shape, l->chosen);
}

/* [engine] */
static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    loop l = {.dec = dec, .step = step};
    CDZ_TRY(prepare(&l));
    while (!cdz_done(dec)) CDZ_TRY(one_token(&l));
    return put_layers(&l);
}

static const cdz_strategy strategy = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.cadenza.dola", .version = "1.0.0",
             .summary = "Contrast the last layer with an earlier one", CDZ_PARAMS(dola, params)},
    .run = run,
};
CDZ_EXPORT_PLUGINS(&strategy.base)
