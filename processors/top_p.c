/* top_p.c - keep the likeliest tokens that together reach probability p (Holtzman et al., 2019).
 * transformers TopPLogitsWarper: of equal scores at the cut, those survive that its sort puts last. */
#include "tools.h"

typedef struct {
    cdz_opt_real top_p;
    cdz_opt_int min_tokens_to_keep;
} top_p;

static const cdz_param params[] = {
    CDZ_OPT_REAL(top_p, top_p, CDZ_GENERATION, 0, CDZ_NO_LIMIT,
                 "probability to keep; 1 and above: all"),
    CDZ_OPT_INT(top_p, min_tokens_to_keep, 0, 1, CDZ_NO_LIMIT,
                "least number of tokens to keep; unset: 1, with beams more"),
};

static bool idle(const cdz_step *step)
{
    const top_p *p = step->params;
    return !p->top_p.set || p->top_p.value >= 1.0;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const top_p *p = step->params;
    const size_t keep = tokens_to_keep(step, p->min_tokens_to_keep);
    const cdz_vec *vec = cdz_get_vec(step);
    void *scratch = row_scratch(step, scores);

    if (!scratch) return CDZ_E_NOMEM;
    for (uint32_t r = 0; r < scores->n_rows; r++)
        vec->keep_topp(cdz_row(scores, r), scores->n_vocab, p->top_p.value, keep, scratch);
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    const top_p *p = step->params;

    out->kind = CDZ_FORM_KEEP_TOPP;
    out->amount = p->top_p.value;
    out->count = tokens_to_keep(step, p->min_tokens_to_keep);
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "top_p", .version = "1.0.0",
             .summary = "Keep the likeliest tokens up to a total probability",
             CDZ_PARAMS(top_p, params), .extension = extension},
    .caps = CDZ_ROWWISE | CDZ_KEEPS_TOP | CDZ_SAMPLING_ONLY,
    .idle = idle,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
