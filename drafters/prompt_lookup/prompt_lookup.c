/* prompt_lookup.c - propose what followed the last few tokens where they stood before.
 * transformers PromptLookupCandidateGenerator: of the longest n-gram that occurs earlier, the leftmost place. */
#include <cadenza/drafter.h>
#include <float.h>
#include <math.h>

typedef struct lookup {
    cdz_opt_int prompt_lookup_num_tokens, max_matching_ngram_size;
} lookup;

static const cdz_param params[] = {
    CDZ_OPT_INT(lookup, prompt_lookup_num_tokens, CDZ_GENERATION, 1, 1 << 20,
                "most tokens to propose; 10 when not set"),
    CDZ_OPT_INT(lookup, max_matching_ngram_size, CDZ_GENERATION, 1, 1 << 20,
                "longest n-gram to look for; 2 when not set"),
};

static uint32_t value_or(cdz_opt_int value, uint32_t otherwise)
{
    return value.set ? (uint32_t)value.value : otherwise;
}

static bool equal(const int32_t *a, const int32_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

/* Do the processors leave this token possible behind ids? They are asked on a row of ones. */
static cdz_status is_allowed(cdz_decoder *dec, const cdz_step *step, cdz_ids ids, int32_t token,
                             bool *allowed)
{
    cdz_scores *ones = step->shared;
    if (ones->n_rows == 0) CDZ_TRY(cdz_scratch_scores(dec, 1, ones));
    cdz_scores scores = *ones;
    for (uint32_t v = 0; v < scores.n_vocab; v++) scores.data[v] = 1.0f;
    CDZ_TRY(cdz_process_ids(dec, 0, &ids, step->row_index, 1, &scores));
    *allowed = scores.data[token] != -INFINITY && scores.data[token] != -FLT_MAX;
    return CDZ_OK;
}

/* How many of the candidates the processors leave possible, each after those before it. Behind the first that is not,
 * nothing is asked: a processor may have no answer there. */
static cdz_status allowed(cdz_decoder *dec, const cdz_step *step, cdz_ids history, cdz_ids found,
                          uint32_t *n)
{
    int32_t *ids = cdz_scratch(step, ((size_t)history.len + found.len) * sizeof *ids);
    if (!ids)
        return cdz_fail(step, CDZ_E_NOMEM, "prompt_lookup: no memory for %u candidates", found.len);
    for (uint32_t i = 0; i < history.len; i++) ids[i] = history.at[i];
    bool possible = true;
    for (*n = 0; *n < found.len; ++*n) {
        const cdz_ids so_far = {ids, history.len + *n};
        CDZ_TRY(is_allowed(dec, step, so_far, found.at[*n], &possible));
        if (!possible) return CDZ_OK;
        ids[history.len + *n] = found.at[*n];
    }
    return CDZ_OK;
}

static uint32_t before_eos(const cdz_request_info *request, cdz_ids found)
{
    uint32_t n = 0;
    while (n < found.len && !cdz_ids_have(request->eos, found.at[n])) n++;
    return n;
}

/* Where the last `size` tokens stood before: the first place whose continuation is possible. */
static cdz_status search(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft, uint32_t size,
                         uint32_t most, bool *done)
{
    const cdz_ids history = draft->history;
    const uint32_t len = history.len, max_length = step->request->max_length;
    const uint32_t end = len < max_length ? len : max_length;
    for (uint32_t i = 0; i + size <= len; i++) {
        const uint32_t from = i + size;
        uint32_t n = from < end ? end - from : 0;
        if (n == 0 || !equal(history.at + i, history.at + len - size, size)) continue;
        cdz_ids found = {history.at + from, n < most ? n : most};
        CDZ_TRY(allowed(dec, step, history, found, &found.len));
        if (found.len == 0) continue;
        found.len = before_eos(step->request, found);
        draft->tokens = found;
        *done = true;
        return CDZ_OK;
    }
    return CDZ_OK;
}

static cdz_status begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    (void)dec;
    *shared = cdz_alloc(step, sizeof(cdz_scores));
    return *shared ? CDZ_OK : cdz_fail(step, CDZ_E_NOMEM, "prompt_lookup: no memory");
}

/* Most tokens to look for: as many as are of use, or, with quirks, as many as the reference takes. */
static uint32_t most_tokens(const cdz_step *step, const cdz_draft *draft)
{
    const lookup *p = step->params;
    const uint32_t most = value_or(p->prompt_lookup_num_tokens, 10);
    bool quirks = false;
    (void)step->host->config(step, "quirks", CDZ_T_BOOL, &quirks);
    return quirks || most < draft->room ? most : draft->room;
}

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const lookup *p = step->params;
    const uint32_t most = most_tokens(step, draft);
    uint32_t size = value_or(p->max_matching_ngram_size, 2);
    bool done = draft->room == 0;
    if (size > draft->history.len - 1) size = draft->history.len - 1;
    for (; size > 0 && !done; size--) CDZ_TRY(search(dec, step, draft, size, most, &done));
    return CDZ_OK;
}

static const cdz_drafter prompt_lookup = {
    .base = {CDZ_DRAFTER_BASE, .id = "prompt_lookup", .version = "1.0.0",
             .summary = "Propose what followed the same tokens before", CDZ_PARAMS(lookup, params)},
    .begin = begin,
    .propose = propose,
};
CDZ_EXPORT_PLUGINS(&prompt_lookup.base)
