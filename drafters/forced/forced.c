/* forced.c - propose what a constraint leaves no choice about: keys of a schema, the rest of a word that only one of an enum's
 * values begins with.
 *
 * Which constraint a row keeps to, and where in it the row is, its processors tell (ext/constrained.h): so text is forced
 * behind a text, in a phase and behind a trigger as it is in a constraint of the whole answer.
 *
 * The model chooses tokens, not bytes: a proposal is the forced text as the tokenizer cuts it behind the row's last tokens,
 * without the tokens at its end in whose place a longer one, which goes past the forced text, may come. So it is what the model
 * would write, and where it is not, the model decides as about any draft. */
#include <cadenza/drafter.h>
#include <cadenza/ext/constrained.h>
#include <cadenza/ext/tokenizer.h>
#include <string.h>

enum {
    MOST_BYTES = 512,  /* of forced text in a proposal */
    BEFORE_TOKENS = 4, /* of the row, before it */
    BEFORE_BYTES = 64,
    LOOK_BACK = 4, /* tokens at the end that a longer one may replace */
};

typedef struct {
    int64_t most_bytes;
} forced_params;

static const cdz_param params[] = {
    CDZ_INT(forced_params, most_bytes, MOST_BYTES, 1, MOST_BYTES, "most bytes of a proposal"),
};

/* A proposal being made. */
typedef struct {
    const cdz_step *step;
    const cdz_grammar_api *api;
    const cdz_tokenizer_api *text;
    cdz_row_constraint at; /* where the forced text begins */
    char bytes[BEFORE_BYTES + MOST_BYTES];
    size_t before, n; /* of bytes: those of the row, and all */
} forced_text;

/* --- the text --------------------------------------------------------------------------------------------- */

/* The last few tokens of the row, for the tokenizer to cut at the border as it would in a whole text. */
static void put_before(forced_text *f, cdz_ids ids)
{
    cdz_string texts[BEFORE_TOKENS];
    uint32_t n = 0;
    size_t bytes = 0;
    while (n < BEFORE_TOKENS && ids.len > f->step->request->prompt_len + n) {
        const cdz_string text = f->text->token_text(f->step, ids.at[ids.len - 1 - n]);
        if (!text.at || !text.len || bytes + text.len > BEFORE_BYTES) break;
        bytes += text.len;
        texts[n++] = text;
    }
    f->before = 0;
    while (n > 0) {
        n--;
        memcpy(f->bytes + f->before, texts[n].at, texts[n].len);
        f->before += texts[n].len;
    }
    f->n = f->before;
}

/* Finds the first of the row's constraints that forces something. */
static cdz_status find_forced(forced_text *f, const cdz_draft *draft)
{
    const cdz_constrained_host *host = cdz_get_constrained(f->step);
    const forced_params *p = f->step->params;
    put_before(f, draft->history);
    for (uint32_t i = 0; host && f->n == f->before; i++) {
        f->at = (cdz_row_constraint){.size = sizeof f->at};
        CDZ_TRY(host->nth(f->step, draft->row, i, &f->at));
        if (!f->at.constraint) break;
        if (f->at.state)
            f->n += f->api->forced(f->at.constraint, f->at.state, f->bytes + f->before,
                                   (size_t)p->most_bytes);
    }
    return CDZ_OK;
}

/* --- tokens ------------------------------------------------------------------------------------------------ */

/* The tokens of a text from its byte `skip` on, if one begins there. */
static cdz_status cut(const forced_text *f, size_t from, size_t skip, cdz_ids *out)
{
    cdz_ids ids;
    size_t at = 0;
    uint32_t i = 0;
    CDZ_TRY(f->text->encode(f->step, f->bytes + from, f->n - from, false, &ids));
    for (; i < ids.len && at < skip; i++) at += f->text->token_text(f->step, ids.at[i]).len;
    *out = at == skip ? (cdz_ids){ids.at + i, ids.len - i} : (cdz_ids){NULL, 0};
    return CDZ_OK;
}

/* Whether a token may come in this state that goes past the `left` forced bytes. */
static cdz_status longer_may_come(const forced_text *f, uint32_t state, size_t left, uint64_t *bits,
                                  uint32_t n_words, bool *may)
{
    *may = false;
    CDZ_TRY(f->api->allowed(f->step, f->at.constraint, state, bits, n_words));
    for (uint32_t w = 0; w < n_words && !*may; w++)
        for (uint64_t rest = bits[w]; rest && !*may; rest &= rest - 1) {
            const int32_t id = (int32_t)(64 * w) + __builtin_ctzll(rest);
            *may = f->text->token_text(f->step, id).len > left;
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
    states[0] = f->at.state;
    left[0] = f->n - f->before;
    for (; n < ids->len; n++) {
        const size_t len = f->text->token_text(f->step, ids->at[n]).len;
        states[n + 1] = states[n];
        CDZ_TRY(f->api->feed_token(f->step, f->at.constraint, ids->at[n], &states[n + 1]));
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
    forced_text f = {.step = step, .api = cdz_get_grammar(step), .text = cdz_get_tokenizer(step)};
    cdz_ids ids;
    (void)dec;
    if (draft->room == 0 || !f.api || !f.text || !f.text->present(step)) return CDZ_OK;
    CDZ_TRY(find_forced(&f, draft));
    if (f.n == f.before) return CDZ_OK;
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
    .caps = CDZ_DRAWS_IN_TURN,
    .propose = propose,
};
CDZ_EXPORT_PLUGINS(&forced.base)
