/* sequence_bias.c - add a bias to the token that would complete a given sequence.
 * transformers SequenceBiasLogitsProcessor, with its checks: biases have a fraction; in the form of a list ids are above
 * 0, and of equal sequences the last one's bias counts at the first one's place. */
#include "sequences.h"

typedef struct {
    cdz_weighted_list sequence_bias;
} sequence_bias;

static const cdz_param params[] = {
    CDZ_WEIGHTED(sequence_bias, sequence_bias, CDZ_GENERATION,
                 "[[ids, bias], ...]: added to the last token of ids after the others"),
};

static cdz_status check_entry(const cdz_step *step, const cdz_weighted *entry, bool is_map)
{
    const int64_t least = is_map ? 0 : 1;

    if (entry->weight_is_int)
        return cdz_fail(step, CDZ_E_USAGE,
                        "sequence_bias: bias %.0f must be written with a fraction (%.1f)",
                        entry->weight, entry->weight);
    if (is_map && entry->ids.len == 0)
        return cdz_fail(step, CDZ_E_USAGE, "sequence_bias: a sequence is empty");
    for (uint32_t i = 0; i < entry->ids.len; i++)
        if (entry->ids.at[i] < least)
            return cdz_fail(step, CDZ_E_USAGE,
                            "sequence_bias: token %lld, expected an id from %d on",
                            (long long)entry->ids.at[i], (int)least);
    return CDZ_OK;
}

static cdz_status create(const cdz_step *step)
{
    const cdz_weighted_list *list = &((const sequence_bias *)step->params)->sequence_bias;

    if (list->set && list->len == 0)
        return cdz_fail(step, CDZ_E_USAGE,
                        "sequence_bias is empty; expected a sequence with its bias");
    for (uint32_t i = 0; i < list->len; i++) CDZ_TRY(check_entry(step, &list->at[i], list->is_map));
    return CDZ_OK;
}

static bool idle(const cdz_step *step)
{
    return !((const sequence_bias *)step->params)->sequence_bias.set;
}

static bool same_ids(const cdz_int_list *a, const cdz_int_list *b)
{
    return a->len == b->len && memcmp(a->at, b->at, a->len * sizeof *a->at) == 0;
}

/* FNV-1a over the ids. */
static uint32_t hash_ids(const cdz_int_list *ids)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < ids->len; i++) h = (h ^ (uint32_t)ids->at[i]) * 16777619u;
    return h;
}

/* last[i]: the entry whose bias counts for entry i, the first of its equals; UINT32_MAX for the others. */
static uint32_t *last_of_equals(const cdz_step *step, const cdz_weighted_list *list)
{
    uint32_t n_slots = 8;
    while (n_slots / 2 < list->len) n_slots *= 2;
    uint32_t *slots = cdz_alloc(step, n_slots * sizeof *slots); /* entry + 1; 0: free */
    uint32_t *last = cdz_alloc(step, list->len * sizeof *last);
    if (!slots || !last) return NULL;

    for (uint32_t i = 0; i < list->len; i++) {
        uint32_t at = hash_ids(&list->at[i].ids) & (n_slots - 1);
        while (slots[at] && !same_ids(&list->at[slots[at] - 1].ids, &list->at[i].ids))
            at = (at + 1) & (n_slots - 1);
        if (!slots[at]) slots[at] = i + 1;
        last[i] = UINT32_MAX;
        last[slots[at] - 1] = i;
    }
    return last;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const cdz_weighted_list *list = &((const sequence_bias *)step->params)->sequence_bias;
    sequences *s = sequences_new(step, list->len);
    const uint32_t *last = last_of_equals(step, list);

    if (!s || !last) return cdz_fail(step, CDZ_E_NOMEM, "sequence_bias: out of memory");
    for (uint32_t i = 0; i < list->len; i++)
        if (last[i] != UINT32_MAX)
            CDZ_TRY(sequences_add(step, s, list->at[i].ids, (float)list->at[last[i]].weight));
    *shared = s;
    return CDZ_OK;
}

CDZ_EDIT_FORM(sequences_edits)

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "sequence_bias", .version = "1.0.0",
             .summary = "Favour or disfavour the tokens that complete given sequences",
             CDZ_PARAMS(sequence_bias, params), .extension = edit_extension},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .create = create,
    .idle = idle,
    .begin = begin,
    .apply = sequences_apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
