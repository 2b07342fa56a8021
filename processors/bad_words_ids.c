/* bad_words_ids.c - never complete one of the given token sequences.
 * transformers NoBadWordsLogitsProcessor: sequence_bias of -inf; entries that are just one end-of-sequence token are
 * dropped. */
#include "sequences.h"

typedef struct {
    cdz_int_lists bad_words_ids;
} bad_words_ids;

static const cdz_param params[] = {
    CDZ_INT_LISTS(bad_words_ids, bad_words_ids, CDZ_GENERATION, 0, CDZ_MAX_ID,
                  "token sequences that may not appear"),
};

static cdz_status create(const cdz_step *step)
{
    const cdz_int_lists *lists = &((const bad_words_ids *)step->params)->bad_words_ids;

    if (lists->set && lists->len == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "bad_words_ids is empty; expected a list of token sequences");
    return CDZ_OK;
}

static bool idle(const cdz_step *step)
{
    return !((const bad_words_ids *)step->params)->bad_words_ids.set;
}

static bool is_eos(cdz_int_list ids, cdz_ids eos)
{
    for (uint32_t i = 0; ids.len == 1 && i < eos.len; i++)
        if (ids.at[0] == eos.at[i]) return true;
    return false;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const cdz_int_lists *lists = &((const bad_words_ids *)step->params)->bad_words_ids;
    sequences *s = sequences_new(step, lists->len);
    uint32_t n = 0;

    if (!s) return cdz_fail(step, CDZ_E_NOMEM, "bad_words_ids: out of memory");
    for (uint32_t i = 0; i < lists->len; i++) {
        if (is_eos(lists->at[i], step->request->eos)) continue;
        CDZ_TRY(sequences_add(step, s, lists->at[i], -INFINITY));
        n++;
    }
    *shared = n > 0 ? s : NULL;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    return step->shared ? sequences_apply(step, scores) : CDZ_OK;
}

CDZ_EDIT_FORM(sequences_edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "bad_words_ids", .version = "1.0.0",
             .summary = "Never complete given token sequences", CDZ_PARAMS(bad_words_ids, params),
             .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .create = create,
    .idle = idle,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
