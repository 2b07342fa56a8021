/* forced.c - propose what a constraint leaves no choice about: keys of a schema, the rest of a word that only one of an enum's
 * values begins with.
 *
 * The model chooses tokens, not bytes: a proposal is the forced text as the tokenizer cuts it behind the row's last tokens,
 * without the tokens at its end in whose place a longer one, which goes past the forced text, may come. So it is what the model
 * would write, and where it is not, the model decides as about any draft. */
#include <cadenza/drafter.h>
#include <cadenza/ext/constraint.h>
#include <cadenza/ext/tokenizer.h>
#include <string.h>

enum {
    MOST_BYTES = 512,  /* of forced text in a proposal */
    BEFORE_TOKENS = 4, /* of the row, before it */
    BEFORE_BYTES = 64,
    LOOK_BACK = 4, /* tokens at the end that a longer one may replace */
};

typedef struct {
    cdz_constraint_params asked;
    int64_t most_bytes;
} forced_params;

static const cdz_param params[] = {
    CDZ_CONSTRAINT_PARAMS,
    CDZ_INT(forced_params, most_bytes, MOST_BYTES, 1, MOST_BYTES, "most bytes of a proposal"),
};

typedef struct {
    const cdz_grammar_api *api;
    const cdz_tokenizer_api *text;
    cdz_constraint *constraint;
    uint32_t row, len, state; /* what the newest proposal stood behind */
    int32_t last;
} forced_shared;

/* A proposal being made. */
typedef struct {
    const cdz_step *step;
    forced_shared *s;
    char bytes[BEFORE_BYTES + MOST_BYTES];
    size_t before, n; /* of bytes: those of the row, and all */
    uint32_t state;   /* where the forced text begins */
} forced_text;

/* --- life ------------------------------------------------------------------------------------------------ */

static cdz_status begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    forced_shared *s = cdz_alloc(step, sizeof *s);
    (void)dec;
    if (!s) return cdz_fail(step, CDZ_E_NOMEM, "no memory");
    *shared = s;
    s->api = cdz_get_grammar(step);
    s->text = cdz_get_tokenizer(step);
    if (!s->api || !s->text || !s->text->present(step)) return CDZ_OK;
    const forced_params *p = step->params;
    cdz_constraint_wish wish;
    if (!cdz_constraint_wished(&p->asked, &wish)) return CDZ_OK; /* nothing is forced */
    return cdz_constraint_compile(step, s->api, &wish, &s->constraint);
}

static void end(const cdz_step *step)
{
    forced_shared *s = step->shared;
    if (s && s->constraint) s->api->release(s->constraint);
}

/* --- the text --------------------------------------------------------------------------------------------- */

/* The state behind the row's new tokens: from the one that was last, where the row has only grown. */
static cdz_status find_state(const cdz_step *step, forced_shared *s, const cdz_draft *draft)
{
    const cdz_ids ids = draft->history;
    const bool grown =
        s->len && s->row == draft->row && s->len <= ids.len && ids.at[s->len - 1] == s->last;
    uint32_t from = grown ? s->len : step->request->prompt_len;
    if (!grown) s->state = s->api->start(s->constraint);
    for (; from < ids.len && s->state; from++)
        CDZ_TRY(s->api->feed_token(step, s->constraint, ids.at[from], &s->state));
    s->row = draft->row;
    s->len = ids.len;
    s->last = ids.len ? ids.at[ids.len - 1] : -1;
    return CDZ_OK;
}

/* The last few tokens of the row, for the tokenizer to cut at the border as it would in a whole text. */
static void put_before(forced_text *f, cdz_ids ids)
{
    cdz_string texts[BEFORE_TOKENS];
    uint32_t n = 0;
    size_t bytes = 0;
    while (n < BEFORE_TOKENS && ids.len > f->step->request->prompt_len + n) {
        const cdz_string text = f->s->text->token_text(f->step, ids.at[ids.len - 1 - n]);
        if (!text.at || !text.len || bytes + text.len > BEFORE_BYTES) break;
        bytes += text.len;
        texts[n++] = text;
    }
    while (n > 0) {
        n--;
        memcpy(f->bytes + f->before, texts[n].at, texts[n].len);
        f->before += texts[n].len;
    }
    f->n = f->before;
}

/* --- tokens ------------------------------------------------------------------------------------------------ */

/* The tokens of a text from its byte `skip` on, if one begins there. */
static cdz_status cut(const forced_text *f, size_t from, size_t skip, cdz_ids *out)
{
    cdz_ids ids;
    size_t at = 0;
    uint32_t i = 0;
    CDZ_TRY(f->s->text->encode(f->step, f->bytes + from, f->n - from, false, &ids));
    for (; i < ids.len && at < skip; i++) at += f->s->text->token_text(f->step, ids.at[i]).len;
    *out = at == skip ? (cdz_ids){ids.at + i, ids.len - i} : (cdz_ids){NULL, 0};
    return CDZ_OK;
}

/* Whether a token may come in this state that goes past the `left` forced bytes. */
static cdz_status longer_may_come(const forced_text *f, uint32_t state, size_t left, uint64_t *bits,
                                  uint32_t n_words, bool *may)
{
    *may = false;
    CDZ_TRY(f->s->api->allowed(f->step, f->s->constraint, state, bits, n_words));
    for (uint32_t w = 0; w < n_words && !*may; w++)
        for (uint64_t rest = bits[w]; rest && !*may; rest &= rest - 1) {
            const int32_t id = (int32_t)(64 * w) + __builtin_ctzll(rest);
            *may = f->s->text->token_text(f->step, id).len > left;
        }
    return CDZ_OK;
}

/* Keeps the tokens that follow the constraint, up to the place where a longer one may come. */
static cdz_status keep_sure(const forced_text *f, cdz_ids *ids)
{
    const uint32_t n_words = (f->step->request->n_vocab + 63) / 64;
    uint64_t *bits = cdz_scratch(f->step, n_words * sizeof *bits);
    uint32_t *states = cdz_scratch(f->step, (ids->len + 1) * sizeof *states), n = 0;
    size_t *left = cdz_scratch(f->step, (ids->len + 1) * sizeof *left);
    if (!bits || !states || !left) return cdz_fail(f->step, CDZ_E_NOMEM, "no memory");
    states[0] = f->state;
    left[0] = f->n - f->before;
    for (; n < ids->len; n++) {
        const size_t len = f->s->text->token_text(f->step, ids->at[n]).len;
        states[n + 1] = states[n];
        CDZ_TRY(f->s->api->feed_token(f->step, f->s->constraint, ids->at[n], &states[n + 1]));
        if (!states[n + 1] || len > left[n]) break;
        left[n + 1] = left[n] - len;
    }
    const uint32_t known = n;
    for (uint32_t back = 1; back <= LOOK_BACK && back <= known; back++) {
        const uint32_t k = known - back;
        bool may;
        CDZ_TRY(longer_may_come(f, states[k], left[k], bits, n_words, &may));
        if (may) n = k;
    }
    ids->len = n;
    return CDZ_OK;
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    forced_shared *s = step->shared;
    forced_text f = {.step = step, .s = s};
    cdz_ids ids;
    (void)dec;
    if (!s->constraint || draft->room == 0) return CDZ_OK;
    CDZ_TRY(find_state(step, s, draft));
    f.state = s->state;
    if (!f.state) return CDZ_OK;
    put_before(&f, draft->history);
    const forced_params *p = step->params;
    const size_t n =
        s->api->forced(s->constraint, f.state, f.bytes + f.before, (size_t)p->most_bytes);
    f.n += n;
    if (!n) return CDZ_OK;
    CDZ_TRY(cut(&f, 0, f.before, &ids));
    if (ids.len == 0) CDZ_TRY(cut(&f, f.before, 0, &ids));
    CDZ_TRY(keep_sure(&f, &ids));
    draft->tokens = (cdz_ids){ids.at, ids.len < draft->room ? ids.len : draft->room};
    return CDZ_OK;
}

static const cdz_drafter forced = {
    .base = {CDZ_DRAFTER_BASE, .id = "forced", .version = "1.0.0",
             .summary = "Propose what a constraint leaves no choice about",
             CDZ_PARAMS(forced_params, params)},
    .begin = begin,
    .propose = propose,
    .end = end,
};
CDZ_EXPORT_PLUGINS(&forced.base)
