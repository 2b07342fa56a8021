/* assisted.c - let the model judge several proposed tokens in one pass.
 * transformers GenerationMixin._assisted_decoding: the same tokens as greedy decoding, and when sampling the same
 * distribution (_speculative_sampling), token for token for one seed. Where proposals come from is the drafter's affair.
 *
 * `trunk` is the model's own sequence: between rounds it holds what the row holds, and its cache all but the last token.
 * A round puts the proposals behind it, scores c + 1 positions, and cuts it back to what was right. */
#include <cadenza/drafter.h>
#include <string.h>

typedef struct loop {
    cdz_decoder *dec;
    const cdz_step *step;
    cdz_seq *trunk;
    bool samples, keeps_logits, quirks;
    bool in_turn; /* CDZ_DRAWS_IN_TURN */
    cdz_scores logits,
        probs;          /* copies of the round's rows: before the processors; as probabilities */
    uint32_t room;      /* rows that those have */
    cdz_ids *histories; /* (room) */
    uint32_t *rows;     /* (room) all 0 */
    int32_t *tokens;    /* (room) */
    float *uniforms;    /* (room) */
    int64_t *rounds;    /* (rounds_cap, 2) proposed, accepted */
    uint32_t n_rounds, rounds_cap;
} loop;

static cdz_status no_memory(const loop *l)
{
    return cdz_fail(l->step, CDZ_E_NOMEM, "assisted: no memory for a round");
}

/* --- memory ---------------------------------------------------------------------------------------------------- */

/* Room for n positions; what it replaces stays with the request. */
static cdz_status make_room(loop *l, uint32_t n)
{
    if (n <= l->room) return CDZ_OK;
    const uint32_t room = n > 2 * l->room ? n : 2 * l->room;
    l->histories = cdz_alloc(l->step, room * sizeof *l->histories);
    l->rows = cdz_alloc(l->step, room * sizeof *l->rows);
    l->tokens = cdz_alloc(l->step, room * sizeof *l->tokens);
    l->uniforms = cdz_alloc(l->step, room * sizeof *l->uniforms);
    if (!l->histories || !l->rows || !l->tokens || !l->uniforms) return no_memory(l);
    if (l->keeps_logits) CDZ_TRY(cdz_scratch_scores(l->dec, room, &l->logits));
    if (l->samples) CDZ_TRY(cdz_scratch_scores(l->dec, room, &l->probs));
    l->room = room;
    return CDZ_OK;
}

static cdz_status note_round(loop *l, uint32_t proposed, int64_t accepted)
{
    if (l->n_rounds == l->rounds_cap) {
        const uint32_t cap = l->rounds_cap ? 2 * l->rounds_cap : 32;
        int64_t *grown = cdz_alloc(l->step, cap * 2 * sizeof *grown);
        if (!grown) return no_memory(l);
        if (l->n_rounds) memcpy(grown, l->rounds, l->n_rounds * 2 * sizeof *grown);
        l->rounds = grown;
        l->rounds_cap = cap;
    }
    l->rounds[2 * l->n_rounds] = proposed;
    l->rounds[2 * l->n_rounds + 1] = accepted;
    l->n_rounds++;
    return CDZ_OK;
}

/* The first n rows of a matrix that has more. */
static cdz_scores first_rows(cdz_scores scores, uint32_t n)
{
    scores.n_rows = n;
    return scores;
}

static void copy_rows(cdz_scores *to, const cdz_scores *from)
{
    for (uint32_t r = 0; r < from->n_rows; r++)
        memcpy(cdz_row(to, r), cdz_row(from, r), from->n_vocab * sizeof(float));
}

/* --- a round ---------------------------------------------------------------------------------------------------- */

/* Scores of the c + 1 positions from the row's last token on, processed as if each were the row's end. */
static cdz_status score(loop *l, cdz_ids proposed, uint32_t row_len, cdz_scores *scores)
{
    const uint32_t n = proposed.len + 1;
    CDZ_TRY(cdz_seq_append(l->dec, l->trunk, proposed.at, proposed.len));
    CDZ_TRY(cdz_seq_forward(l->dec, &l->trunk, 1, CDZ_POSITIONS_ALL, scores));
    if (scores->n_rows != n)
        return cdz_fail(l->step, CDZ_E_INTERNAL, "assisted: %u positions scored, expected %u",
                        scores->n_rows, n);
    if (l->keeps_logits) copy_rows(&l->logits, scores);
    const int32_t *ids = cdz_seq_ids(l->dec, l->trunk).at;
    for (uint32_t i = 0; i < n; i++) l->histories[i] = (cdz_ids){ids, row_len + i};
    return cdz_process_ids(l->dec, 0, l->histories, l->rows, n, scores);
}

/* Would the row end with these proposals? Asked of the whole, as the reference asks; it also asks of none, and then takes
 * a prompt that ends in an end-of-sequence token for the end. */
static cdz_status ends_with(loop *l, cdz_ids proposed, bool *ends)
{
    const uint32_t row = 0;
    cdz_stop stop = {0};
    *ends = false;
    if (proposed.len == 0 && !l->quirks) return CDZ_OK;
    CDZ_TRY(cdz_stop_test(l->dec, &proposed, &row, 1, &stop));
    *ends = stop.reason != CDZ_GO_ON;
    return CDZ_OK;
}

/* The reference's answer where a round without proposals begins at a row that ends already: nothing. */
static cdz_status end_with_nothing(loop *l)
{
    CDZ_TRY(note_round(l, 0, -1));
    return cdz_finish(l->dec, 0, CDZ_STOP_EOS, NULL);
}

/* Draws for the positions, as the request would without a draft where they are drawn for in turn. */
static cdz_status draw(loop *l, const cdz_draft *draft, cdz_scores *probs)
{
    const uint32_t c = draft->tokens.len;
    if (!l->in_turn) return cdz_multinomial(l->dec, probs, l->tokens);
    for (uint32_t i = 0; i <= c; i++) {
        cdz_scores one = first_rows(*probs, 1);
        one.data = cdz_row(probs, i);
        CDZ_TRY(cdz_multinomial(l->dec, &one, &l->tokens[i]));
        if (i < c && l->tokens[i] != draft->tokens.at[i]) break;
    }
    return CDZ_OK;
}

/* Choose at every position on its own; proposals are right as long as they are what was chosen. */
static cdz_status choose(loop *l, const cdz_draft *draft, const cdz_scores *scores, bool ends,
                         uint32_t *accepted, uint32_t *n_tokens)
{
    const uint32_t c = draft->tokens.len;
    uint32_t n = 0;
    if (l->samples) {
        cdz_scores probs = first_rows(l->probs, c + 1);
        copy_rows(&probs, scores);
        CDZ_TRY(cdz_softmax(l->dec, &probs));
        CDZ_TRY(draw(l, draft, &probs));
    } else {
        CDZ_TRY(cdz_argmax_rows(l->dec, scores, l->tokens));
    }
    while (n < c && l->tokens[n] == draft->tokens.at[n]) n++;
    if (ends && n == c) n--; /* nothing comes after a proposal that ends the row */
    *accepted = n;
    *n_tokens = n + 1;
    return CDZ_OK;
}

/* max(p - q, 0), scaled to sum 1: what is left to draw from where the draft was too sure. Where nothing is, p. */
static void take_away(float *p, const float *q, uint32_t n_vocab)
{
    double sum = 0;
    for (uint32_t v = 0; v < n_vocab; v++) sum += p[v] > q[v] ? (double)(p[v] - q[v]) : 0.0;
    if (!(sum > 0)) return;
    for (uint32_t v = 0; v < n_vocab; v++) p[v] = p[v] > q[v] ? (p[v] - q[v]) / (float)sum : 0.0f;
}

/* Leviathan et al. 2022, algorithm 1. All uniforms are drawn, though only a beginning of them decides. */
static cdz_status speculate(loop *l, cdz_draft *draft, const cdz_scores *scores, bool ends,
                            uint32_t *accepted, uint32_t *n_tokens)
{
    const uint32_t c = draft->tokens.len;
    const int32_t *x = draft->tokens.at;
    cdz_scores p = first_rows(l->probs, c + 1), *q = &draft->scores;
    uint32_t n = 0;
    copy_rows(&p, scores);
    CDZ_TRY(cdz_softmax(l->dec, &p));
    if (c) CDZ_TRY(cdz_softmax(l->dec, q));
    CDZ_TRY(cdz_uniform(l->dec, c, l->uniforms));
    while (n < c && l->uniforms[n] <= cdz_row(&p, n)[x[n]] / cdz_row(q, n)[x[n]]) n++;
    if (c) memcpy(l->tokens, x, c * sizeof *x);
    if (ends && n == c) {
        *accepted = c - 1;
        *n_tokens = c;
        return CDZ_OK;
    }
    if (n < c) take_away(cdz_row(&p, n), cdz_row(q, n), p.n_vocab);
    cdz_scores rest = p;
    rest.data = cdz_row(&p, n);
    rest.n_rows = 1;
    *accepted = n;
    *n_tokens = n + 1;
    return cdz_multinomial(l->dec, &rest, &l->tokens[n]);
}

/* The trunk becomes what the row is; its cache keeps all it can. */
static cdz_status follow_row(loop *l)
{
    const cdz_ids row = cdz_input_ids(l->dec, 0), trunk = cdz_seq_ids(l->dec, l->trunk);
    const uint32_t most = row.len < trunk.len ? row.len : trunk.len;
    uint32_t same = 0;
    while (same < most && row.at[same] == trunk.at[same]) same++;
    CDZ_TRY(cdz_seq_truncate(l->dec, l->trunk, same));
    return cdz_seq_append(l->dec, l->trunk, row.at + same, row.len - same);
}

static cdz_status run_round(loop *l)
{
    cdz_draft draft;
    cdz_scores scores;
    uint32_t accepted, n_tokens;
    bool ends;
    CDZ_TRY(cdz_propose(l->dec, 0, &draft));
    const uint32_t row_len = draft.history.len, c = draft.tokens.len;
    CDZ_TRY(make_room(l, c + 1));
    CDZ_TRY(ends_with(l, draft.tokens, &ends));
    if (ends && c == 0) return end_with_nothing(l);
    CDZ_TRY(score(l, draft.tokens, row_len, &scores));
    if (l->samples && (draft.scores.id || c == 0))
        CDZ_TRY(speculate(l, &draft, &scores, ends, &accepted, &n_tokens));
    else
        CDZ_TRY(choose(l, &draft, &scores, ends, &accepted, &n_tokens));
    const cdz_scores *logits = l->keeps_logits ? &l->logits : NULL;
    CDZ_TRY(cdz_append_chunk(l->dec, 0, l->tokens, n_tokens, logits, &scores, NULL));
    CDZ_TRY(follow_row(l));
    CDZ_TRY(note_round(l, c, accepted));
    return cdz_judged(l->dec, 0, accepted);
}

/* --- the whole -------------------------------------------------------------------------------------------------- */

/* A copy of the row, all but its last token in the cache. */
static cdz_status plant(loop *l)
{
    CDZ_TRY(cdz_seq_fork(l->dec, cdz_seq_of_row(l->dec, 0), &l->trunk));
    const cdz_ids row = cdz_input_ids(l->dec, 0);
    CDZ_TRY(cdz_seq_truncate(l->dec, l->trunk, row.len - 1));
    if (row.len > 1) CDZ_TRY(cdz_seq_forward(l->dec, &l->trunk, 1, CDZ_POSITIONS_NONE, NULL));
    return cdz_seq_append(l->dec, l->trunk, row.at + row.len - 1, 1);
}

static bool asked(const cdz_step *step, const char *name)
{
    bool value = false;
    return step->host->config(step, name, CDZ_T_BOOL, &value) == CDZ_OK && value;
}

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    loop l = {.dec = dec, .step = step, .samples = step->request->do_sample};
    l.keeps_logits = asked(step, "output_logits") || asked(step, "output_logprobs");
    l.quirks = asked(step, "quirks");
    if (!cdz_has_drafter(dec))
        return cdz_fail(step, CDZ_E_USAGE,
                        "there is nothing to draft with: give a draft model (--assistant FOLDER), "
                        "set prompt_lookup_num_tokens or assistant_early_exit, or name a drafter");
    l.in_turn = (cdz_drafter_caps(dec) & CDZ_DRAWS_IN_TURN) != 0;
    CDZ_TRY(plant(&l));
    while (!cdz_done(dec)) CDZ_TRY(run_round(&l));
    const uint64_t shape[] = {l.n_rounds, 2};
    return cdz_put_result(dec, "rounds", CDZ_RESULT_I64, 2, shape, l.rounds);
}

static const cdz_strategy assisted = {
    .base = {CDZ_STRATEGY_BASE, .id = "assisted", .version = "1.0.0",
             .summary = "Verify proposed tokens, several in one pass"},
    .caps = CDZ_ONE_ROW,
    .run = run,
};
CDZ_EXPORT_PLUGINS(&assisted.base)
