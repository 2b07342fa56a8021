/* phases.c - keeps track of the phases that a row goes through, thinking and answering for one, and holds their budgets.
 *
 * Phases come in the order they are named in. A phase with a `begin` mark begins when that mark has appeared, another one
 * as soon as the phase before it has ended; a phase ends when its `until` mark has appeared. A mark is a text, found as
 * stop_strings finds its texts, or a sequence of tokens, and lies wholly in the tokens since the last change: a phase has
 * the tokens after the one that completed the mark. When max_tokens of a phase are spent, the tokens of its `until` are
 * forced, or an end-of-sequence token where there is none (budget forcing, Muennighoff et al. 2025,
 * https://arxiv.org/abs/2501.19393).
 *
 * Where the first phase has a `begin` mark, the prompt counts from its last end-of-sequence token on: a chat template may
 * have begun the phase, or ended it. "cadenza.phase/1" tells the host which phase a row is in. */
#include "tools.h"

#include <cadenza/ext/phase.h>
#include <cadenza/ext/tokenizer.h>

typedef struct {
    cdz_string_list names, begin, until;
    cdz_int_lists begin_ids, until_ids;
    cdz_int_list max_tokens;
} phases;

static const cdz_param params[] = {
    CDZ_STRINGS(phases, names, 0, "the phases, in order"),
    CDZ_STRINGS(phases, begin, 0, "for each: the text that begins it, or an empty one"),
    CDZ_STRINGS(phases, until, 0, "for each: the text that ends it, or an empty one"),
    CDZ_INT_LISTS(phases, begin_ids, 0, 0, CDZ_MAX_ID, "for each: the tokens that begin it"),
    CDZ_INT_LISTS(phases, until_ids, 0, 0, CDZ_MAX_ID, "for each: the tokens that end it"),
    CDZ_INTS(phases, max_tokens, 0, -1, CDZ_MAX_ID,
             "for each: how many tokens it may have, -1 for any number"),
};

/* What begins or ends a phase. */
typedef struct mark {
    cdz_string text; /* empty: ids are compared */
    cdz_ids ids;     /* of an end: what is forced, also where the text is compared */
} mark;

typedef struct phase {
    mark begin, until;
    int64_t max_tokens; /* below 0: any number */
} phase;

typedef struct plan {
    uint32_t n;
    phase at[CDZ_MOST_PHASES];
} plan;

/* A row's state: bytes of zero are a row that has only its prompt. */
typedef struct place {
    uint32_t known; /* the prompt has been looked at */
    uint32_t phase; /* the present one when inside, else the next */
    uint32_t inside;
    uint32_t since;  /* marks lie in the ids from here on */
    uint32_t forced; /* tokens of the end that were forced */
} place;

/* --- create and begin ------------------------------------------------------------------------------------------- */

static bool fits(uint32_t len, bool set, uint32_t n)
{
    return !set || len == n;
}

static cdz_string text_of(const cdz_string_list *list, uint32_t i)
{
    return list->set ? list->at[i] : (cdz_string){0};
}

static bool ends(const phases *p, uint32_t i)
{
    return text_of(&p->until, i).len > 0 || (p->until_ids.set && p->until_ids.at[i].len > 0);
}

static cdz_status create(const cdz_step *step)
{
    const phases *p = step->params;
    const uint32_t n = p->names.len;

    if (n > CDZ_MOST_PHASES)
        return cdz_fail(step, CDZ_E_USAGE, "phases: %u of them, at most %d can be told apart",
                        (unsigned)n, (int)CDZ_MOST_PHASES);
    if (!fits(p->begin.len, p->begin.set, n) || !fits(p->until.len, p->until.set, n) ||
        !fits(p->begin_ids.len, p->begin_ids.set, n) ||
        !fits(p->until_ids.len, p->until_ids.set, n) ||
        !fits(p->max_tokens.len, p->max_tokens.set, n))
        return cdz_fail(step, CDZ_E_USAGE,
                        "phases: names has %u entries; begin, until, begin_ids, until_ids and "
                        "max_tokens have as many or none",
                        (unsigned)n);
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!ends(p, i))
            return cdz_fail(step, CDZ_E_USAGE,
                            "phases: %.*s has no until; only the last phase may go without",
                            (int)p->names.at[i].len, p->names.at[i].at);
    return CDZ_OK;
}

static bool idle(const cdz_step *step)
{
    return ((const phases *)step->params)->names.len == 0;
}

static cdz_status keep_ids(const cdz_step *step, cdz_int_list from, mark *out)
{
    int32_t *ids = cdz_alloc(step, (size_t)from.len * sizeof *ids);

    if (!ids) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < from.len; i++) ids[i] = (int32_t)from.at[i];
    out->ids = (cdz_ids){ids, from.len};
    return need_ids_in_vocabulary(step, out->ids, step->request->n_vocab);
}

static cdz_status make_mark(const cdz_step *step, const char *name, cdz_string text,
                            const cdz_int_lists *ids, uint32_t i, mark *out)
{
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);

    if (ids->set && ids->at[i].len > 0) return keep_ids(step, ids->at[i], out);
    if (text.len == 0) return CDZ_OK;
    if (!tokenizer || !tokenizer->present(step))
        return cdz_fail(step, CDZ_E_USAGE,
                        "%s is a text, and this model has no tokenizer; write token ids", name);
    out->text = text;
    CDZ_TRY(tokenizer->encode(step, text.at, text.len, false, &out->ids));
    if (out->ids.len == 0) return cdz_fail(step, CDZ_E_USAGE, "%s: the text has no tokens", name);
    return need_ids_in_vocabulary(step, out->ids, step->request->n_vocab);
}

static cdz_status make_phase(const cdz_step *step, uint32_t i, phase *out)
{
    const phases *p = step->params;
    const cdz_ids eos = step->request->eos;

    CDZ_TRY(make_mark(step, "begin", text_of(&p->begin, i), &p->begin_ids, i, &out->begin));
    CDZ_TRY(make_mark(step, "until", text_of(&p->until, i), &p->until_ids, i, &out->until));
    out->max_tokens = p->max_tokens.set ? p->max_tokens.at[i] : -1;
    if (out->max_tokens < 0 || out->until.ids.len > 0) return CDZ_OK;
    if (eos.len == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "%.*s has max_tokens, and neither an until nor the request an "
                        "end-of-sequence token to force",
                        (int)p->names.at[i].len, p->names.at[i].at);
    out->until.ids = (cdz_ids){eos.at, 1};
    return CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const phases *p = step->params;
    plan *made = cdz_alloc(step, sizeof *made);

    if (!made) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    made->n = p->names.len;
    for (uint32_t i = 0; i < made->n; i++) CDZ_TRY(make_phase(step, i, &made->at[i]));
    *shared = made;
    return CDZ_OK;
}

/* --- marks ---------------------------------------------------------------------------------------------------------- */

/* Do the ids end in the first `left` bytes of the text? */
static bool preceded(const cdz_step *step, cdz_ids ids, cdz_string text, uint32_t left)
{
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);

    for (uint32_t back = 1; left > 0; back++) {
        if (back > ids.len) return false;
        const cdz_string token = tokenizer->token_text(step, ids.at[ids.len - back]);
        const uint32_t used = token.len < left ? token.len : left;
        if (!token.at || memcmp(token.at + (token.len - used), text.at + (left - used), used) != 0)
            return false;
        left -= used;
    }
    return true;
}

/* Does the text lie in the ids with its last byte inside the newest token? */
static bool text_ends(const cdz_step *step, cdz_ids ids, cdz_string text)
{
    const cdz_ids before = {ids.at, ids.len - 1};
    const cdz_string newest = cdz_get_tokenizer(step)->token_text(step, ids.at[ids.len - 1]);

    for (uint32_t e = 1; newest.at && e <= newest.len; e++) {
        const uint32_t n = e < text.len ? e : text.len, left = text.len - n;
        if (memcmp(newest.at + (e - n), text.at + left, n) == 0 &&
            preceded(step, before, text, left))
            return true;
    }
    return false;
}

/* Has the newest of ids completed the mark? */
static bool completes(const cdz_step *step, const mark *m, cdz_ids ids, uint32_t since)
{
    if (ids.len <= since) return false;
    const cdz_ids own = {ids.at + since, ids.len - since};

    if (m->text.len > 0) return text_ends(step, own, m->text);
    return m->ids.len > 0 && m->ids.len <= own.len &&
           memcmp(own.at + (own.len - m->ids.len), m->ids.at, m->ids.len * sizeof *own.at) == 0;
}

static bool marked(const mark *m)
{
    return m->ids.len > 0;
}

/* --- places ----------------------------------------------------------------------------------------------------------- */

/* Before the phase: it begins at once when nothing marks its beginning. */
static void await(const plan *all, place *at, uint32_t since)
{
    at->since = since;
    at->forced = 0;
    at->inside = at->phase < all->n && !marked(&all->at[at->phase].begin);
}

/* Tokens that a phase has of its own when the row has n ids; the prompt's are nobody's. */
static uint32_t spent(const cdz_step *step, const place *at, uint32_t n)
{
    const uint32_t from =
        at->since > step->request->prompt_len ? at->since : step->request->prompt_len;
    return n > from ? n - from : 0;
}

/* Is the token after n ids decided? */
static bool held(const cdz_step *step, const place *at, uint32_t n)
{
    const plan *all = step->shared;
    if (!at->inside || n < step->request->prompt_len) return false;
    const phase *p = &all->at[at->phase];
    return p->max_tokens >= 0 && spent(step, at, n) >= p->max_tokens &&
           at->forced < p->until.ids.len;
}

static void go_on_inside(const cdz_step *step, place *at, cdz_ids ids)
{
    const plan *all = step->shared;
    const phase *p = &all->at[at->phase];
    const bool forcing = held(step, at, ids.len - 1);

    if (forcing && ids.at[ids.len - 1] == p->until.ids.at[at->forced]) at->forced++;
    const bool all_forced = forcing && at->forced == p->until.ids.len;
    if (!all_forced && !completes(step, &p->until, ids, at->since)) return;
    at->phase++;
    await(all, at, ids.len);
}

/* The first of the phases to come whose beginning has appeared; one without a mark is reached only through those before. */
static void go_on_outside(const cdz_step *step, place *at, cdz_ids ids)
{
    const plan *all = step->shared;

    for (uint32_t i = at->phase; i < all->n; i++) {
        if (!completes(step, &all->at[i].begin, ids, at->since)) continue;
        *at = (place){.known = 1, .phase = i, .inside = 1, .since = ids.len};
        return;
    }
}

static void go_on(const cdz_step *step, place *at, cdz_ids ids)
{
    if (at->inside)
        go_on_inside(step, at, ids);
    else
        go_on_outside(step, at, ids);
}

/* Where a row with only its prompt stands. */
static place after_prompt(const cdz_step *step, cdz_ids ids)
{
    const plan *all = step->shared;
    const uint32_t n = step->request->prompt_len < ids.len ? step->request->prompt_len : ids.len;
    uint32_t from = n;
    place at = {.known = 1};

    await(all, &at, n);
    if (at.inside) return at;
    while (from > 0 && !cdz_ids_have(step->request->eos, ids.at[from - 1])) from--;
    await(all, &at, from);
    for (uint32_t len = from + 1; len <= n; len++) go_on(step, &at, (cdz_ids){ids.at, len});
    return at;
}

static place place_of(const cdz_step *step, uint32_t r)
{
    const place *at = step->row_state[r];
    return at->known ? *at : after_prompt(step, step->input_ids[r]);
}

/* --- the calls -------------------------------------------------------------------------------------------------------- */

static uint32_t of(const cdz_step *step, uint32_t r)
{
    const place at = place_of(step, r);
    if (held(step, &at, step->input_ids[r].len)) return CDZ_PHASE_HELD;
    return at.inside ? at.phase + 1 : CDZ_PHASE_NONE;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const plan *all = step->shared;
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const place at = place_of(step, r);
        float *row = cdz_row(scores, r);
        if (!held(step, &at, step->input_ids[r].len)) continue;
        cdz_get_vec(step)->fill(row, scores->n_vocab, -INFINITY);
        row[all->at[at.phase].until.ids.at[at.forced]] = 0.0f;
    }
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    place *at = step->row_state[r];
    (void)token; /* the newest of the ids */
    if (!at->known) *at = after_prompt(step, step->input_ids[r]);
    go_on(step, at, step->input_ids[r]);
    return CDZ_OK;
}

static const cdz_phase_api phase_api = {.size = sizeof phase_api, .of = of};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_PHASE) == 0 ? &phase_api : NULL;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "phases", .version = "1.0.0",
             .summary = "Phases of an answer, each with an end and a budget",
             CDZ_PARAMS(phases, params), .extension = extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .state_size = sizeof(place),
    .idle = idle,
    .create = create,
    .begin = begin,
    .apply = apply,
    .accept = accept,
};
CDZ_EXPORT_PLUGINS(&processor.base)
