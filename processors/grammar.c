/* grammar.c - structured output: the tokens that keep the generated text in a language, and no others.
 *
 * A row's state is a number of the host's (ext/grammar.h), so it follows beams, drafts and rewinds as plain bytes. The
 * constraint begins where generation begins, behind a text, or with a phase, whose tokens alone it is then told of. The end of the text may come where the text is in the language, and must
 * come where nothing else may. */
#include <cadenza/ext/constrained.h>
#include <cadenza/ext/constraint.h>
#include <cadenza/ext/form.h>

#include "tools.h"

typedef struct {
    cdz_constraint_params asked; /* first, so that the rows below fit */
    cdz_int_list ends;
} constraint_settings;

static const cdz_param params[] = {
    CDZ_CONSTRAINT_PARAMS,
    CDZ_INTS(constraint_settings, ends, 0, 0, CDZ_MAX_ID,
             "tokens that end the constrained text, in place of end-of-sequence tokens"),
};

typedef struct {
    const cdz_grammar_api *api;
    cdz_constraint *constraint;
    cdz_ids ends; /* the text ends with one of these */
} constraint_shared;

/* Zeroed: nothing has come yet. */
typedef struct {
    uint32_t state;
    uint32_t place; /* constraint_place */
} constraint_row;

/* OVER: the text has ended, or somebody else appended what the constraint does not allow, as a draft may. */
enum constraint_place { AT_START, INSIDE, OVER };

/* --- what is asked --------------------------------------------------------------------------------------- */

static cdz_status create(const cdz_step *step)
{
    const cdz_constraint_params *p = &((const constraint_settings *)step->params)->asked;
    cdz_constraint_wish wish;
    if (cdz_constraint_wished(p, &wish) > 1)
        return cdz_fail(
            step, CDZ_E_USAGE,
            "of json_schema, regex, grammar, structural_tag, choice and json_object one may be set; "
            "none unsets another");
    if (p->choice.set && p->choice.len == 0)
        return cdz_fail(step, CDZ_E_USAGE, "choice is empty; expected a list of texts");
    return CDZ_OK;
}

static bool idle(const cdz_step *step)
{
    cdz_constraint_wish wish;
    const constraint_settings *p = step->params;
    return cdz_constraint_wished(&p->asked, &wish) == 0;
}

/* A constraint that no token of the vocabulary can begin would be noticed behind the free text only. */
static cdz_status check_behind(const cdz_step *step, const constraint_shared *s, const char *after)
{
    const uint32_t n_words = (step->request->n_vocab + 63) / 64;
    uint64_t *bits = cdz_scratch(step, n_words * sizeof *bits);
    uint32_t state = s->api->start(s->constraint);
    if (!bits) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    CDZ_TRY(s->api->feed(step, s->constraint, after, strlen(after), &state));
    if (state) CDZ_TRY(s->api->feed(step, s->constraint, "\n\n", 2, &state));
    if (state && s->api->accepts(s->constraint, state)) return CDZ_OK;
    if (state) CDZ_TRY(s->api->allowed(step, s->constraint, state, bits, n_words));
    for (uint32_t w = 0; state && w < n_words; w++)
        if (bits[w]) return CDZ_OK;
    return cdz_fail(step, CDZ_E_INPUT,
                    "no token of the vocabulary can begin it behind grammar_after");
}

static cdz_status find_ends(const cdz_step *step, constraint_shared *s)
{
    const cdz_int_list own = ((const constraint_settings *)step->params)->ends;
    s->ends = step->request->eos;
    if (!own.set || own.len == 0) return CDZ_OK;
    int32_t *ids = cdz_alloc(step, own.len * sizeof *ids);
    if (!ids) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < own.len; i++) ids[i] = (int32_t)own.at[i];
    s->ends = (cdz_ids){ids, own.len};
    return need_ids_in_vocabulary(step, s->ends, step->request->n_vocab);
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const constraint_settings *p = step->params;
    cdz_constraint_wish wish;
    constraint_shared *s = cdz_alloc(step, sizeof *s);
    if (!s) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    *shared = s;
    s->api = cdz_get_grammar(step);
    if (!s->api)
        return cdz_fail(step, CDZ_E_UNSUPPORTED,
                        "this host, or the process of an isolated plugin, lacks " CDZ_EXT_GRAMMAR);
    if (!cdz_constraint_wished(&p->asked, &wish)) return CDZ_OK;
    CDZ_TRY(find_ends(step, s));
    if (s->ends.len == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "%s: the answer could not end: there is no end-of-sequence token; set "
                        "eos_token_id",
                        wish.name);
    cdz_status st = cdz_constraint_compile(step, s->api, &wish, &s->constraint);
    if (st == CDZ_OK && wish.after) st = check_behind(step, s, wish.after);
    return st == CDZ_OK ? CDZ_OK : cdz_fail(step, st, "%s: ", wish.name);
}

static void end(const cdz_step *step)
{
    constraint_shared *s = step->shared;
    if (s && s->api) s->api->release(s->constraint);
}

/* --- rows ------------------------------------------------------------------------------------------------ */

static bool is_end(const cdz_step *step, int32_t token)
{
    return cdz_ids_have(((const constraint_shared *)step->shared)->ends, token);
}

static uint32_t state_of(const constraint_shared *s, const constraint_row *row)
{
    return row->place == AT_START ? s->api->start(s->constraint) : row->state;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    const constraint_shared *s = step->shared;
    constraint_row *row = step->row_state[r];
    if (!s->constraint || row->place == OVER) return CDZ_OK;
    uint32_t state = is_end(step, token) ? 0 : state_of(s, row);
    const cdz_status st = state ? s->api->feed_token(step, s->constraint, token, &state) : CDZ_OK;
    *row = (constraint_row){state, state ? INSIDE : OVER};
    return st;
}

static bool is_id(int32_t id, uint32_t n_vocab)
{
    return id >= 0 && (uint32_t)id < n_vocab;
}

static void set_bit(uint64_t *bits, int32_t id, bool on)
{
    const uint64_t bit = (uint64_t)1 << (id % 64);
    bits[id / 64] = on ? bits[id / 64] | bit : bits[id / 64] & ~bit;
}

static void set_bits(uint64_t *bits, cdz_ids ids, uint32_t n_vocab, bool on)
{
    for (uint32_t i = 0; i < ids.len; i++)
        if (is_id(ids.at[i], n_vocab)) set_bit(bits, ids.at[i], on);
}

static cdz_status find_allowed(const cdz_step *step, uint32_t state, uint32_t n_vocab,
                               uint64_t *bits, uint32_t n_words)
{
    const constraint_shared *s = step->shared;
    const bool may_end = s->api->accepts(s->constraint, state);
    CDZ_TRY(s->api->allowed(step, s->constraint, state, bits, n_words));
    set_bits(bits, step->request->eos, n_vocab, false);
    set_bits(bits, s->ends, n_vocab, may_end);
    return CDZ_OK;
}

/* Whether a token that has a bit can still come. */
static bool some_can_come(const float *row, uint32_t n_vocab, const uint64_t *bits)
{
    for (uint32_t w = 0; 64 * w < n_vocab; w++)
        for (uint32_t i = 64 * w; bits[w] && i < n_vocab && i < 64 * w + 64; i++)
            if ((bits[w] >> (i % 64) & 1) && row[i] > -INFINITY) return true;
    return false;
}

/* Whether the end alone can come, as forced_eos_token_id has it. */
static bool end_is_forced(const cdz_step *step, const float *row, uint32_t n_vocab)
{
    bool some = false;
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (!(row[i] > -INFINITY)) continue;
        if (!is_end(step, (int32_t)i) && !cdz_ids_have(step->request->eos, (int32_t)i))
            return false;
        some = true;
    }
    return some;
}

/* Masks what has no bit. */
static void mask_row(const cdz_step *step, float *row, uint32_t n_vocab, const uint64_t *bits)
{
    const uint32_t n_words = (n_vocab + 63) / 64;
    for (uint32_t w = 0, end; w < n_words; w = end) {
        for (end = w; end < n_words && !bits[end];) end++; /* a stretch of none */
        if (end > w) {
            const uint32_t stop = 64 * end < n_vocab ? 64 * end : n_vocab;
            cdz_get_vec(step)->fill(row + 64 * (size_t)w, stop - 64 * w, -INFINITY);
            continue;
        }
        for (uint32_t i = 64 * w; ~bits[w] && i < n_vocab && i < 64 * w + 64; i++)
            if (!(bits[w] >> (i % 64) & 1)) row[i] = -INFINITY;
        end = w + 1;
    }
}

static void force_end(const cdz_step *step, float *row, uint32_t n_vocab)
{
    const cdz_ids ends = ((const constraint_shared *)step->shared)->ends;
    cdz_get_vec(step)->fill(row, n_vocab, -INFINITY);
    for (uint32_t i = 0; i < ends.len; i++)
        if (is_id(ends.at[i], n_vocab)) row[ends.at[i]] = 0.0f;
}

static cdz_status apply_row(const cdz_step *step, const constraint_row *own, float *row,
                            uint32_t n_vocab, uint64_t *bits)
{
    if (own->place == OVER) {
        force_end(step, row, n_vocab);
        return CDZ_OK;
    }
    CDZ_TRY(find_allowed(step, state_of(step->shared, own), n_vocab, bits, (n_vocab + 63) / 64));
    if (some_can_come(row, n_vocab, bits)) {
        mask_row(step, row, n_vocab, bits);
        return CDZ_OK;
    }
    if (end_is_forced(step, row, n_vocab)) return CDZ_OK;
    return cdz_fail(step, CDZ_E_INPUT,
                    "no token can come next: those that the constraint allows are masked by the "
                    "decode loop or by other processors, or the vocabulary has none");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const constraint_shared *s = step->shared;
    const uint32_t n_words = (scores->n_vocab + 63) / 64;
    if (!s->constraint) return CDZ_OK;
    uint64_t *bits = cdz_scratch(step, n_words * sizeof *bits);
    if (!bits) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (uint32_t r = 0; r < scores->n_rows; r++)
        CDZ_TRY(apply_row(step, step->row_state[r], cdz_row(scores, r), scores->n_vocab, bits));
    return CDZ_OK;
}

/* --- what others may know ---------------------------------------------------------------------------------- */

static cdz_status tell(const cdz_step *step, uint32_t r, cdz_row_constraint *out)
{
    const constraint_shared *s = step->shared;
    const constraint_row *row = step->row_state[r];
    out->constraint = s->constraint;
    out->state = s->constraint && row->place != OVER ? state_of(s, row) : 0;
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    const constraint_shared *s = step->shared;
    out->kind = CDZ_FORM_MASK;
    return s->constraint != NULL;
}

/* Behind the end scores are replaced, not masked. */
static bool mask(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words)
{
    const constraint_row *row = step->row_state[r];
    return row->place != OVER && find_allowed(step, state_of(step->shared, row),
                                              step->request->n_vocab, bits, n_words) == CDZ_OK;
}

static const void *extension(const char *id)
{
    static const cdz_constrained_api constrained = {.size = sizeof constrained, .of = tell};
    static const cdz_form_api form = {.size = sizeof form, .describe = describe, .mask = mask};
    if (strcmp(id, CDZ_EXT_FORM) == 0) return &form;
    return strcmp(id, CDZ_EXT_CONSTRAINED) == 0 ? &constrained : NULL;
}

static const cdz_processor processor = {
    .base =
        {CDZ_PROCESSOR_BASE, .id = "grammar", .version = "1.0.0",
         .summary =
             "Keep the answer in a language: JSON Schema, regex, GBNF, Lark, structural tags, choices",
         CDZ_PARAMS(constraint_settings, params), .extension = extension},
    .caps = CDZ_ROWWISE,
    .state_size = sizeof(constraint_row),
    .create = create,
    .idle = idle,
    .begin = begin,
    .apply = apply,
    .accept = accept,
    .end = end,
};
CDZ_EXPORT_PLUGINS(&processor.base)
