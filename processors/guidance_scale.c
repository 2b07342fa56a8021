/* guidance_scale.c - classifier-free guidance: away from what the model says without the prompt, or after a negative one
 * (Sanchez et al., 2023). transformers UnbatchedClassifierFreeGuidanceLogitsProcessor.
 * The second sequence is a companion (cadenza/ext/companion.h). Without a negative prompt it begins with the last prompt
 * token. There it does not move with beams; here it does, unless `quirks` asks for theirs. */
#include "tools.h"

#include <cadenza/ext/companion.h>
#include <cadenza/ext/tokenizer.h>

#include <string.h>

typedef struct {
    cdz_opt_real guidance_scale;
    cdz_int_lists negative_prompt_ids, negative_prompt_attention_mask;
    const char *negative_prompt;
} guidance;

static const cdz_param params[] = {
    CDZ_OPT_REAL(guidance, guidance_scale, CDZ_GENERATION, -CDZ_NO_LIMIT, CDZ_NO_LIMIT,
                 "above 1: towards the prompt; below: away from it"),
    CDZ_INT_LISTS(guidance, negative_prompt_ids, CDZ_GENERATION, 0, CDZ_MAX_ID,
                  "what to steer away from: a list of ids for each prompt, or one for all"),
    CDZ_INT_LISTS(guidance, negative_prompt_attention_mask, CDZ_GENERATION, 0, 1,
                  "0 where negative_prompt_ids are padding"),
    CDZ_STRING(guidance, negative_prompt, NULL, "the same as text, where no ids are given"),
};

/* Negative prompts as the host wants them; shared. */
typedef struct {
    uint32_t n; /* 0: none */
    cdz_ids *ids;
    uint8_t **masks; /* entries NULL: all visible */
} negatives;

static bool idle(const cdz_step *step)
{
    return !((const guidance *)step->params)->guidance_scale.set;
}

/* --- negative prompts ---------------------------------------------------------------------------------------- */

static cdz_status no_memory(const cdz_step *step)
{
    return cdz_fail(step, CDZ_E_NOMEM, "guidance_scale: out of memory");
}

static cdz_status copy_row(const cdz_step *step, const cdz_int_list *from, cdz_ids *to)
{
    int32_t *ids = cdz_alloc(step, (from->len + 1) * sizeof *ids);
    if (!ids) return no_memory(step);
    for (uint32_t i = 0; i < from->len; i++) ids[i] = (int32_t)from->at[i];
    *to = (cdz_ids){ids, from->len};
    return CDZ_OK;
}

static cdz_status copy_mask(const cdz_step *step, const cdz_int_list *from, cdz_ids ids,
                            uint8_t **to)
{
    if (from->len != ids.len)
        return cdz_fail(step, CDZ_E_USAGE,
                        "negative_prompt_attention_mask: a row of %u for %u ids of "
                        "negative_prompt_ids",
                        (unsigned)from->len, (unsigned)ids.len);
    uint8_t *mask = *to = cdz_alloc(step, ids.len + 1);
    if (!mask) return no_memory(step);
    for (uint32_t i = 0; i < ids.len; i++) mask[i] = from->at[i] != 0;
    return CDZ_OK;
}

static cdz_status take_rows(const cdz_step *step, negatives *out)
{
    const guidance *p = step->params;
    const cdz_int_lists *rows = &p->negative_prompt_ids, *masks = &p->negative_prompt_attention_mask;
    const uint32_t n = rows->len;
    const cdz_request_info *request = step->request;
    if (n != 1 && n != request->n_prompts && n != request->n_rows)
        return cdz_fail(step, CDZ_E_USAGE,
                        "negative_prompt_ids: %u rows, expected 1 or one for each of the %u prompts",
                        (unsigned)n, (unsigned)request->n_prompts);
    if (masks->set && masks->len != n)
        return cdz_fail(step, CDZ_E_USAGE,
                        "negative_prompt_attention_mask: %u rows for %u of negative_prompt_ids",
                        (unsigned)masks->len, (unsigned)n);
    out->ids = cdz_alloc(step, n * sizeof *out->ids);
    out->masks = cdz_alloc(step, n * sizeof *out->masks);
    if (!out->ids || !out->masks) return no_memory(step);
    for (uint32_t i = 0; i < n; i++) {
        CDZ_TRY(copy_row(step, &rows->at[i], &out->ids[i]));
        if (masks->set) CDZ_TRY(copy_mask(step, &masks->at[i], out->ids[i], &out->masks[i]));
    }
    out->n = n;
    return CDZ_OK;
}

static cdz_status take_text(const cdz_step *step, const char *text, negatives *out)
{
    const cdz_tokenizer_api *tokenizer = cdz_get_tokenizer(step);
    if (!tokenizer || !tokenizer->present(step))
        return cdz_fail(step, CDZ_E_USAGE,
                        "negative_prompt: the model has no tokenizer; give negative_prompt_ids");
    out->ids = cdz_alloc(step, sizeof *out->ids);
    out->masks = cdz_alloc(step, sizeof *out->masks);
    if (!out->ids || !out->masks) return no_memory(step);
    CDZ_TRY(tokenizer->encode(step, text, strlen(text), true, out->ids));
    out->n = 1;
    return CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const guidance *p = step->params;
    negatives *n = cdz_alloc(step, sizeof *n);
    if (!n) return no_memory(step);
    *shared = n;
    if (p->negative_prompt_ids.set && p->negative_prompt_ids.len) return take_rows(step, n);
    return p->negative_prompt ? take_text(step, p->negative_prompt, n) : CDZ_OK;
}

/* --- the companion -------------------------------------------------------------------------------------------- */

static cdz_status describe(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    const negatives *n = step->shared;
    const cdz_request_info *request = step->request;
    bool quirks = false;
    out->none = ((const guidance *)step->params)->guidance_scale.value == 1.0;
    if (step->host->config(step, "quirks", CDZ_T_BOOL, &quirks) == CDZ_OK)
        out->stays = quirks && request->num_beams > 1;
    out->from = request->prompt_len;
    if (n->n == 0) {
        if (request->prompt_len == 0)
            return cdz_fail(step, CDZ_E_USAGE,
                            "guidance_scale: a prompt without ids needs negative_prompt_ids");
        out->from = request->prompt_len - 1;
        return CDZ_OK;
    }
    const uint32_t rows_each = request->n_rows / n->n;
    const uint32_t i = n->n == 1 ? 0 : row / (rows_each ? rows_each : 1);
    out->prefix = n->ids[i];
    out->mask = n->masks[i];
    return CDZ_OK;
}

static const cdz_companion_api companion = {.size = sizeof companion, .describe = describe};

static const void *extension(const char *id)
{
    return cdz_is_companion(id) ? &companion : NULL;
}

/* Guidance of log-probabilities with (row) and without (other) the prompt. */
static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const float scale = (float)((const guidance *)step->params)->guidance_scale.value;
    const uint32_t n = scores->n_vocab;
    const cdz_vec *vec = cdz_get_vec(step);
    float *other = cdz_scratch(step, n * sizeof *other);
    if (!other) return no_memory(step);
    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        const float *logits = cdz_companion_logits(step, r);
        vec->log_softmax(row, row, n);
        if (!logits) continue;
        vec->log_softmax(other, logits, n);
        cdz_companion_guide(row, other, n, scale);
    }
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "guidance_scale", .version = "1.0.0",
             .summary = "Classifier-free guidance, with or without a negative prompt",
             CDZ_PARAMS(guidance, params), .extension = extension},
    .caps = CDZ_ROWWISE,
    .idle = idle,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
