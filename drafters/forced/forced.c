/* forced.c - propose what a constraint leaves no choice about: keys of a schema, the rest of a word that only one of an enum's
 * values begins with. Where whitespace may come before the only byte that is none, as between the tokens of JSON, the usual
 * whitespace (usual.h) is proposed too.
 *
 * Which constraint a row keeps to, and where in it the row is, its processors tell (ext/constrained.h): so text is forced
 * behind a text, in a phase and behind a trigger as it is in a constraint of the whole answer.
 *
 * The model chooses tokens, not bytes: a proposal is that text as the tokenizer cuts it behind the row's last tokens, without
 * the tokens at its end that the tokenizer would cut otherwise with more text behind it. So it is what the model would
 * write, and where it is not, the model decides as about any draft. */
#include <cadenza/drafter.h>
#include <cadenza/ext/constrained.h>
#include <cadenza/ext/tokenizer.h>
#include <string.h>

#include "usual.h"

enum {
    MOST_BYTES = 512,  /* of text in a proposal */
    SEEN_BYTES = 1024, /* of the row, before it: where its whitespace is looked for */
    CONTEXT_TOKENS =
        4, /* of those, for the tokenizer to cut at the border as it would in a whole text */
    CONTEXT_BYTES = 64,
    MOST_ENDS = 4, /* bytes that may come next, with which a proposal is cut once more */
};

typedef struct {
    int64_t most_bytes;
    bool whitespace;
} forced_params;

static const cdz_param params[] = {
    CDZ_INT(forced_params, most_bytes, MOST_BYTES, 1, MOST_BYTES, "most bytes of a proposal"),
    CDZ_BOOL(forced_params, whitespace, true,
             "also propose the usual whitespace, where any may come before text that must"),
};

/* A proposal being made. */
typedef struct {
    const cdz_step *step;
    const cdz_grammar_api *api;
    const cdz_tokenizer_api *text;
    cdz_row_constraint at; /* where its text begins */
    uint32_t state;        /* behind its text */
    char bytes[SEEN_BYTES + MOST_BYTES +
               1]; /* the row's last, and from SEEN_BYTES on its own; the last is for one of the ends */
    size_t seen, context, n; /* of bytes: where the row's begin, and its last few tokens'; all */
} forced_text;

/* --- the row ----------------------------------------------------------------------------------------------- */

static void put_before(forced_text *f, cdz_ids ids)
{
    f->seen = f->context = f->n = SEEN_BYTES;
    for (uint32_t n = 0; ids.len > f->step->request->prompt_len + n; n++) {
        const cdz_string text = f->text->token_text(f->step, ids.at[ids.len - 1 - n]);
        if (!text.at || !text.len || text.len > f->seen) return;
        f->seen -= text.len;
        memcpy(f->bytes + f->seen, text.at, text.len);
        if (n < CONTEXT_TOKENS && SEEN_BYTES - f->seen <= CONTEXT_BYTES) f->context = f->seen;
    }
}

/* --- whitespace --------------------------------------------------------------------------------------------- */

/* The visible bytes of ASCII that may come next, the first `most` of them. */
static cdz_status find_next(const forced_text *f, uint32_t most, char *next, uint32_t *n)
{
    *n = 0;
    for (int byte = '!'; byte <= '~' && *n < most; byte++) {
        uint32_t to = f->state;
        next[*n] = (char)byte;
        CDZ_TRY(f->api->feed(f->step, f->at.constraint, &next[*n], 1, &to));
        if (to) ++*n;
    }
    return CDZ_OK;
}

/* Adds bytes if they may come. */
static cdz_status add(forced_text *f, size_t most, cdz_string bytes)
{
    uint32_t to = f->state;
    if (bytes.len > most - f->n) return CDZ_OK;
    CDZ_TRY(f->api->feed(f->step, f->at.constraint, bytes.at, bytes.len, &to));
    if (!to) return CDZ_OK;
    memcpy(f->bytes + f->n, bytes.at, bytes.len);
    f->n += bytes.len;
    f->state = to;
    return CDZ_OK;
}

/* Adds the only byte that is no whitespace, and what usually stands before it. */
static cdz_status add_blank(forced_text *f, size_t most)
{
    uint32_t to = f->state, n_next;
    char blank[USUAL_MOST], next[2];
    if (f->api->accepts(f->at.constraint, f->state)) return CDZ_OK;
    CDZ_TRY(f->api->feed(f->step, f->at.constraint, " ", 1, &to));
    if (!to) return CDZ_OK;
    CDZ_TRY(find_next(f, 2, next, &n_next));
    if (n_next != 1) return CDZ_OK;
    const size_t n = usual_blank(f->bytes + f->seen, f->n - f->seen, next[0], blank);
    if (n) CDZ_TRY(add(f, most, (cdz_string){blank, (uint32_t)n}));
    return add(f, most, (cdz_string){next, 1});
}

/* --- the text ------------------------------------------------------------------------------------------------ */

static cdz_status add_forced(forced_text *f, size_t most)
{
    char *const at = f->bytes + f->n;
    const size_t n = f->api->forced(f->at.constraint, f->state, at, most - f->n);
    f->n += n;
    return f->api->feed(f->step, f->at.constraint, at, n, &f->state);
}

static cdz_status find_text(forced_text *f)
{
    const forced_params *p = f->step->params;
    const size_t most = SEEN_BYTES + (size_t)p->most_bytes;
    for (size_t had = 0; f->state && f->n != had;) {
        had = f->n;
        CDZ_TRY(add_forced(f, most));
        if (f->n == had && p->whitespace) CDZ_TRY(add_blank(f, most));
    }
    return CDZ_OK;
}

/* Finds the first of the row's constraints that forces something. */
static cdz_status find_forced(forced_text *f, const cdz_draft *draft)
{
    const cdz_constrained_host *host = cdz_get_constrained(f->step);
    put_before(f, draft->history);
    for (uint32_t i = 0; host && f->n == SEEN_BYTES; i++) {
        f->at = (cdz_row_constraint){.size = sizeof f->at};
        CDZ_TRY(host->nth(f->step, draft->row, i, &f->at));
        if (!f->at.constraint) break;
        f->state = f->at.state;
        CDZ_TRY(find_text(f));
    }
    return CDZ_OK;
}

/* --- tokens ------------------------------------------------------------------------------------------------ */

/* The tokens of the text from its byte `skip` on, if one begins there. */
static cdz_status cut_at(const forced_text *f, size_t from, size_t skip, cdz_ids *out)
{
    cdz_ids ids;
    uint32_t i = 0;
    CDZ_TRY(f->text->encode(f->step, f->bytes + from, f->n - from, false, &ids));
    for (; i < ids.len && from < skip; i++) from += f->text->token_text(f->step, ids.at[i]).len;
    *out = from == skip ? (cdz_ids){ids.at + i, ids.len - i} : (cdz_ids){NULL, 0};
    return CDZ_OK;
}

static cdz_status cut(const forced_text *f, cdz_ids *out)
{
    CDZ_TRY(cut_at(f, f->context, SEEN_BYTES, out));
    return out->len ? CDZ_OK : cut_at(f, SEEN_BYTES, SEEN_BYTES, out);
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A few of the visible bytes that may come behind the text, of letters and digits where some may. */
static cdz_status find_ends(const forced_text *f, char ends[MOST_ENDS], uint32_t *n)
{
    char next['~' - '!' + 1];
    uint32_t n_next, n_words = 0;
    CDZ_TRY(find_next(f, sizeof next, next, &n_next));
    for (uint32_t i = 0; i < n_next; i++) n_words += is_alnum(next[i]);
    for (uint32_t i = 0, k = 0; n_words && i < n_next; i++)
        if (is_alnum(next[i])) next[k++] = next[i];
    const uint32_t n_of = n_words ? n_words : n_next;
    *n = n_of < MOST_ENDS ? n_of : MOST_ENDS;
    for (uint32_t i = 0; i < *n; i++) ends[i] = next[(2 * i + 1) * n_of / (2 * *n)];
    return CDZ_OK;
}

/* How many tokens stay as they are before one of the ends. */
static cdz_status count_same(forced_text *f, cdz_ids ids, char end, uint32_t *n)
{
    cdz_ids with;
    f->bytes[f->n++] = end;
    const cdz_status st = cut(f, &with);
    f->n--;
    for (*n = 0; st == CDZ_OK && *n < ids.len && *n < with.len && ids.at[*n] == with.at[*n];) ++*n;
    return st;
}

/* Keeps the tokens that stay before at least half of the ends. */
static cdz_status keep_likely(forced_text *f, cdz_ids *ids)
{
    char ends[MOST_ENDS];
    uint32_t n_ends, same[MOST_ENDS];
    CDZ_TRY(find_ends(f, ends, &n_ends));
    for (uint32_t i = 0; i < n_ends; i++) { /* sorted as they come */
        uint32_t n, k = i;
        CDZ_TRY(count_same(f, *ids, ends[i], &n));
        for (; k && same[k - 1] > n; k--) same[k] = same[k - 1];
        same[k] = n;
    }
    if (n_ends) ids->len = same[n_ends / 2];
    return CDZ_OK;
}

/* Keeps the tokens that the constraint allows: a tokenizer that changes texts may give others. */
static cdz_status keep_allowed(const forced_text *f, cdz_ids *ids)
{
    uint32_t state = f->at.state;
    for (uint32_t n = 0; n < ids->len; n++) {
        CDZ_TRY(f->api->feed_token(f->step, f->at.constraint, ids->at[n], &state));
        if (!state) ids->len = n;
    }
    return CDZ_OK;
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    forced_text f = {.step = step, .api = cdz_get_grammar(step), .text = cdz_get_tokenizer(step)};
    cdz_ids ids;
    (void)dec;
    if (draft->room == 0 || !f.api || !f.text || !f.text->present(step)) return CDZ_OK;
    CDZ_TRY(find_forced(&f, draft));
    if (f.n == SEEN_BYTES) return CDZ_OK;
    CDZ_TRY(cut(&f, &ids));
    CDZ_TRY(keep_likely(&f, &ids));
    CDZ_TRY(keep_allowed(&f, &ids));
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
