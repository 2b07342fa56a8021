/* dry.c - "don't repeat yourself": the longer a repetition a token would go on with, the more its score is lowered.
 *
 * Philipp Emanuel Weidmann, text-generation-webui pull request 5677 (2024). Where the row ends in a sequence that it
 * holds already, the token that came next there loses multiplier * base^(length - allowed_length), length being that of
 * the longest such sequence. Sequences neither hold nor are followed by a breaker. A pure function of the row's ids. */
#include <cadenza/ext/form.h>
#include <cadenza/ext/tokenizer.h>
#include <cadenza/processor.h>

#include <float.h>
#include <math.h>
#include <string.h>

enum { LONGEST = 50 }; /* longer repetitions count as this long, as in the original */

typedef struct {
    double multiplier, base;
    int64_t allowed_length, range;
    cdz_string_list sequence_breakers;
} dry;

static const cdz_param params[] = {
    CDZ_REAL(dry, multiplier, 0.8, 0, CDZ_NO_LIMIT,
             "penalty of a repetition of allowed_length; 0: off"),
    CDZ_REAL(dry, base, 1.75, 1, CDZ_NO_LIMIT, "factor of the penalty for each further token"),
    CDZ_INT(dry, allowed_length, 2, 1, LONGEST, "shortest repetition that is penalised"),
    CDZ_INT(dry, range, 0, 0, CDZ_NO_LIMIT, "newest tokens to look at; 0: all"),
    CDZ_STRINGS(dry, sequence_breakers, 0,
                "texts whose tokens end a sequence; unset: newline, colon, double quote, asterisk"),
};

/* Which ids are breakers: a bit each. */
typedef struct {
    uint32_t n_ids;
    uint8_t *bits;
} breakers;

static bool idle(const cdz_step *step)
{
    const dry *p = step->params;
    return p->multiplier == 0;
}

static bool holds(cdz_string text, cdz_string wanted)
{
    for (uint32_t i = 0; wanted.len > 0 && i + wanted.len <= text.len; i++)
        if (memcmp(text.at + i, wanted.at, wanted.len) == 0) return true;
    return false;
}

static bool holds_any(cdz_string text, cdz_string_list wanted)
{
    for (uint32_t i = 0; text.at && i < wanted.len; i++)
        if (holds(text, wanted.at[i])) return true;
    return false;
}

/* Every token whose text holds a breaker is one. Without a tokenizer there are none, unless some were asked for. */
static cdz_status begin(const cdz_step *step, void **shared)
{
    static const cdz_string usual[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};
    const dry *p = step->params;
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    const cdz_string_list texts =
        p->sequence_breakers.set ? p->sequence_breakers : (cdz_string_list){usual, 4, true};
    breakers *out = cdz_alloc(step, sizeof *out);

    if (!out) return cdz_fail(step, CDZ_E_NOMEM, "dry: no memory for its breakers");
    *shared = out;
    if (!tokenizer || !tokenizer->present(step)) {
        if (!p->sequence_breakers.set || p->sequence_breakers.len == 0) return CDZ_OK;
        return cdz_fail(step, CDZ_E_USAGE,
                        "dry: sequence_breakers need a tokenizer; this model "
                        "has none (sequence_breakers = [] asks for none)");
    }
    out->n_ids = tokenizer->n_tokens(step);
    out->bits = cdz_alloc(step, (size_t)out->n_ids / 8 + 1);
    if (!out->bits) return cdz_fail(step, CDZ_E_NOMEM, "dry: no memory for its breakers");
    for (uint32_t id = 0; id < out->n_ids; id++)
        if (holds_any(tokenizer->token_text(step, (int32_t)id), texts))
            out->bits[id / 8] |= (uint8_t)(1u << id % 8);
    return CDZ_OK;
}

static bool is_breaker(const breakers *b, int32_t id)
{
    return id >= 0 && (uint32_t)id < b->n_ids && (b->bits[id / 8] >> id % 8 & 1);
}

/* How many tokens up to and including at[i] equal those at the end of ids; at[i] does. */
static uint8_t match_length(cdz_ids ids, uint32_t i, const breakers *b)
{
    uint32_t n = 1;
    while (n < LONGEST && n <= i && ids.at[i - n] == ids.at[ids.len - 1 - n] &&
           !is_breaker(b, ids.at[i - n]))
        n++;
    return (uint8_t)n;
}

/* longest (n_vocab, zeroed): for each token the longest repetition that it would go on with. */
static void find_repetitions(cdz_ids ids, const breakers *b, uint8_t *longest, uint32_t n_vocab)
{
    if (ids.len < 2 || is_breaker(b, ids.at[ids.len - 1])) return;
    for (uint32_t i = 0; i + 1 < ids.len; i++) {
        const int32_t next = ids.at[i + 1];
        if (ids.at[i] != ids.at[ids.len - 1] || next < 0 || (uint32_t)next >= n_vocab ||
            is_breaker(b, next))
            continue;
        const uint8_t n = match_length(ids, i, b);
        if (n > longest[next]) longest[next] = n;
    }
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const dry *p = step->params;
    uint8_t *longest = cdz_scratch(step, scores->n_vocab);

    if (!longest) return cdz_fail(step, CDZ_E_NOMEM, "dry: no memory for a row of lengths");
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        cdz_ids ids = step->input_ids[r];
        if (p->range > 0 && p->range < ids.len)
            ids = (cdz_ids){ids.at + ids.len - p->range, (uint32_t)p->range};
        memset(longest, 0, scores->n_vocab);
        find_repetitions(ids, step->shared, longest, scores->n_vocab);
        for (uint32_t v = 0; v < scores->n_vocab; v++) {
            if (longest[v] < p->allowed_length) continue;
            const double penalty =
                p->multiplier * pow(p->base, (double)(longest[v] - p->allowed_length));
            cdz_row(scores, r)[v] -= (float)fmin(penalty, FLT_MAX);
        }
    }
    return CDZ_OK;
}

/* What a repetition goes on with has been said before. */
static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    *out = step->input_ids[r];
    return true;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_EDIT;
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe, .edits = edits};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "dry", .version = "1.0.0",
             .summary = "Penalise tokens that would extend a repeated sequence",
             CDZ_PARAMS(dry, params), .extension = extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .idle = idle,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
