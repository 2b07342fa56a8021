/* prefix_allowed_tokens.c - only some tokens may come next: a fixed list for each place of the row.
 * transformers PrefixConstrainedLogitsProcessor, whose function is a table here: the ids allowed after a row of n ids are
 * entry n mod (length of the cycle). A function proper is a processor of one's own, named as the value of
 * prefix_allowed_tokens (docs/constrained.md). */
#include "prompt_rows.h"

typedef struct {
    cdz_int_lists cycle;
    cdz_int_list cycle_lengths;
} prefix_allowed;

static const cdz_param params[] = {
    CDZ_INT_LISTS(prefix_allowed, cycle, 0, 0, CDZ_MAX_ID,
                  "ids allowed after 0, 1, 2, ... ids, prompt included; then from the start again"),
    CDZ_INTS(prefix_allowed, cycle_lengths, 0, 1, CDZ_MAX_ID,
             "cycle holds a cycle for each prompt, of these lengths, one after the other"),
};

static cdz_status create(const cdz_step *step)
{
    const prefix_allowed *p = step->params;
    int64_t sum = 0;
    if (p->cycle.len == 0)
        return cdz_fail(step, CDZ_E_USAGE, "cycle is empty; expected lists of allowed ids");
    for (uint32_t i = 0; i < p->cycle_lengths.len; i++) sum += p->cycle_lengths.at[i];
    if (p->cycle_lengths.len && sum != p->cycle.len)
        return cdz_fail(step, CDZ_E_USAGE, "cycle_lengths add up to %lld, but cycle has %u lists",
                        (long long)sum, (unsigned)p->cycle.len);
    return CDZ_OK;
}

static cdz_status allows_nothing(const cdz_step *step, uint32_t list)
{
    return cdz_fail(step, CDZ_E_INPUT, "cycle: list %u allows no token", (unsigned)list);
}

/* Each place of the cycle may be reached: what cannot be answered there is refused before the first row. The reference asks
 * its function when it gets there, so with quirks an empty list fails then. */
static cdz_status check_lists(const cdz_step *step, const prefix_allowed *p)
{
    bool quirks = false;
    if (step->host->config(step, "quirks", CDZ_T_BOOL, &quirks) != CDZ_OK) quirks = false;
    for (uint32_t i = 0; i < p->cycle.len; i++) {
        const cdz_int_list *ids = &p->cycle.at[i];
        if (ids->len == 0 && !quirks) return allows_nothing(step, i);
        for (uint32_t k = 0; k < ids->len; k++)
            if (ids->at[k] >= step->request->n_vocab)
                return cdz_fail(step, CDZ_E_INPUT,
                                "cycle: token %lld is outside the vocabulary of %u",
                                (long long)ids->at[k], (unsigned)step->request->n_vocab);
    }
    return CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const prefix_allowed *p = step->params;
    (void)shared;
    CDZ_TRY(check_lists(step, p));
    if (p->cycle_lengths.len == 0 || p->cycle_lengths.len >= step->request->n_prompts)
        return CDZ_OK;
    return cdz_fail(step, CDZ_E_USAGE, "cycle_lengths: %u cycles for %u prompts",
                    (unsigned)p->cycle_lengths.len, (unsigned)step->request->n_prompts);
}

/* The list for a row of len ids of a prompt. */
static const cdz_int_list *allowed(const prefix_allowed *p, uint32_t prompt, uint32_t len)
{
    uint32_t first = 0;
    if (p->cycle_lengths.len == 0) return &p->cycle.at[len % p->cycle.len];
    for (uint32_t i = 0; i < prompt; i++) first += (uint32_t)p->cycle_lengths.at[i];
    return &p->cycle.at[first + len % (uint32_t)p->cycle_lengths.at[prompt]];
}

/* mask: 0 where a token may come, else -inf. */
static void make_mask(const cdz_step *step, const cdz_int_list *ids, float *mask, uint32_t n)
{
    cdz_get_vec(step)->fill(mask, n, -INFINITY);
    for (uint32_t i = 0; i < ids->len; i++)
        if (ids->at[i] < n) mask[ids->at[i]] = 0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const prefix_allowed *p = step->params;
    float *mask = cdz_scratch(step, scores->n_vocab * sizeof *mask);
    if (!mask) return cdz_fail(step, CDZ_E_NOMEM, "prefix_allowed_tokens: out of memory");
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        const cdz_int_list *ids = allowed(p, prompt_index_of_row(step, r), step->input_ids[r].len);
        if (ids->len == 0) return allows_nothing(step, (uint32_t)(ids - p->cycle.at));
        make_mask(step, ids, mask, scores->n_vocab);
        cdz_get_vec(step)->add_v(cdz_row(scores, r), mask, scores->n_vocab);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "prefix_allowed_tokens", .version = "1.0.0",
             .summary = "Allow only given tokens at each place of the row",
             CDZ_PARAMS(prefix_allowed, params)},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .create = create,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
