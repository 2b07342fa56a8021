/* top_k.c - keep the k best scores, and all that equal the k-th.
 * transformers TopKLogitsWarper: 0 switches it off. */
#include "tools.h"

typedef struct {
    cdz_opt_int top_k;
    cdz_opt_int min_tokens_to_keep;
} top_k;

static const cdz_param params[] = {
    CDZ_OPT_INT(top_k, top_k, CDZ_GENERATION, 0, CDZ_NO_LIMIT, "scores to keep; 0: all"),
    CDZ_OPT_INT(top_k, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT,
                "least number of tokens to keep; unset: 1, with beams more"),
};

static bool idle(const cdz_step *step)
{
    const top_k *p = step->params;
    return !p->top_k.set || p->top_k.value == 0;
}

/* The larger of top_k and what must be left. */
static size_t scores_to_keep(const cdz_step *step)
{
    const top_k *p = step->params;
    const size_t keep = tokens_to_keep(step, p->min_tokens_to_keep);
    return (size_t)p->top_k.value > keep ? (size_t)p->top_k.value : keep;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const size_t k = scores_to_keep(step);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->keep_topk(cdz_row(scores, r), scores->n_vocab, k, scratch);
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    out->kind = CDZ_FORM_KEEP_TOPK;
    out->count = scores_to_keep(step);
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "top_k", .version = "1.0.0",
             .summary = "Keep the k best tokens", CDZ_PARAMS(top_k, params), .extension = extension},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
