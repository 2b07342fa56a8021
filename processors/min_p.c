/* min_p.c - drop tokens less likely than a share of the likeliest (Nguyen et al., 2024).
 * transformers MinPLogitsWarper. */
#include "tools.h"

typedef struct {
    cdz_opt_real min_p;
    cdz_opt_int min_tokens_to_keep;
} min_p;

static const cdz_param params[] = {
    CDZ_OPT_REAL(min_p, min_p, CDZ_GENERATION, 0, 1,
                 "share of the best probability a token must reach"),
    CDZ_OPT_INT(min_p, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT,
                "least number of tokens to keep; unset: 1, with beams more"),
};

static bool idle(const cdz_step *step)
{
    const min_p *p = step->params;
    return !p->min_p.set;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const min_p *p = step->params;
    const size_t keep = tokens_to_keep(step, p->min_tokens_to_keep);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->keep_minp(cdz_row(scores, r), scores->n_vocab, p->min_p.value, keep, scratch);
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    const min_p *p = step->params;

    out->kind = CDZ_FORM_KEEP_MINP;
    out->amount = p->min_p.value;
    out->count = tokens_to_keep(step, p->min_tokens_to_keep);
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "min_p", .version = "1.0.0",
             .summary = "Drop tokens far less likely than the best", CDZ_PARAMS(min_p, params),
             .extension = extension},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_ARGMAX | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
