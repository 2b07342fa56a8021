/* watermarking_config.c - write a watermark into the choice of tokens, for a detector that knows the settings.
 * transformers WatermarkLogitsProcessor (type greenlist) and SynthIDTextWatermarkLogitsProcessor (type synthid). There
 * SynthID counts its calls; here the calls are the generated tokens, so that nothing but ids is needed and the watermark
 * follows beams, drafts and tokens taken back. */
#include "tools.h"

#include <cadenza/watermark.h>

#include <string.h>

static const cdz_param params[] = {CDZ_WATERMARK_PARAMS};

/* What begin works out. */
typedef struct {
    cdz_green green;
    cdz_synthid synthid;
} secret;

static cdz_status create(const cdz_step *step)
{
    const char *fault = cdz_watermark_fault(step->params);
    return fault ? cdz_fail(step, CDZ_E_USAGE, "%s", fault) : CDZ_OK;
}

static cdz_status no_memory(const cdz_step *step)
{
    return cdz_fail(step, CDZ_E_NOMEM, "watermarking_config: out of memory");
}

static cdz_status begin_green(const cdz_step *step, secret *s)
{
    const cdz_watermark *p = step->params;
    const uint32_t n_vocab = step->request->n_vocab;
    uint32_t *table = NULL;
    if (p->seeding_scheme.value == CDZ_WM_SELFHASH) {
        if (n_vocab < CDZ_GREEN_PROBES)
            return cdz_fail(step, CDZ_E_INPUT,
                            "seeding_scheme = selfhash looks at %d candidates, but the vocabulary "
                            "has %u tokens",
                            CDZ_GREEN_PROBES, (unsigned)n_vocab);
        table = cdz_alloc(step, CDZ_GREEN_TABLE * sizeof *table);
        if (!table) return no_memory(step);
        cdz_green_table(p->hashing_key, table);
    }
    s->green = (cdz_green){.key = p->hashing_key,
                           .selfhash = p->seeding_scheme.value == CDZ_WM_SELFHASH,
                           .width = (uint32_t)p->context_width,
                           .n_vocab = n_vocab,
                           .n_green = (uint32_t)((double)n_vocab * p->greenlist_ratio),
                           .table = table};
    return CDZ_OK;
}

static cdz_status begin_synthid(const cdz_step *step, secret *s)
{
    const cdz_watermark *p = step->params;
    const uint32_t size = (uint32_t)p->sampling_table_size;
    uint8_t *table = cdz_alloc(step, size);
    if (!table) return no_memory(step);
    cdz_synthid_table(p->sampling_table_seed, size, table);
    s->synthid = (cdz_synthid){.ngram_len = (uint32_t)p->ngram_len,
                               .n_keys = p->keys.len,
                               .keys = p->keys.at,
                               .history = (uint32_t)p->context_history_size,
                               .table_size = size,
                               .table = table};
    return CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    const cdz_watermark *p = step->params;
    secret *s = cdz_alloc(step, sizeof *s);
    if (!s) return no_memory(step);
    *shared = s;
    return p->type.value == CDZ_WM_SYNTHID ? begin_synthid(step, s) : begin_green(step, s);
}

/* --- green lists ------------------------------------------------------------------------------------------- */

/* The candidates that would be green if they came next. */
static cdz_status favour_self(const cdz_step *step, const cdz_green *green, cdz_ids ids, float *row,
                              float bias, uint32_t *room)
{
    const uint32_t n = green->n_vocab;
    const uint32_t kept = ids.len < green->width ? ids.len : green->width;
    float *sorted = cdz_scratch(step, n * sizeof *sorted);
    int32_t *order = cdz_scratch(step, n * sizeof *order);
    int32_t *context = cdz_scratch(step, (kept + 1) * sizeof *context);
    void *scratch = cdz_scratch(step, cdz_vec_scratch(n));
    if (!sorted || !order || !context || !scratch) return no_memory(step);
    cdz_get_vec(step)->sort(row, n, true, sorted, order, scratch);
    memcpy(context, ids.at + (ids.len - kept), kept * sizeof *context);
    for (uint32_t i = 0; i < CDZ_GREEN_PROBES; i++) {
        context[kept] = order[i];
        if (cdz_green_has(green, context, kept + 1, order[i], room)) row[order[i]] += bias;
    }
    return CDZ_OK;
}

static cdz_status favour(const cdz_step *step, const cdz_green *green, cdz_ids ids, float *row,
                         uint32_t *room)
{
    const float bias = (float)((const cdz_watermark *)step->params)->bias;
    if (ids.len < green->width || ids.len == 0) return CDZ_OK;
    if (green->selfhash) return favour_self(step, green, ids, row, bias, room);
    cdz_green_ids(green, ids.at, ids.len, room);
    for (uint32_t i = 0; i < green->n_green; i++) row[room[i]] += bias;
    return CDZ_OK;
}

static cdz_status apply_green(const cdz_step *step, const cdz_green *green, cdz_scores *scores)
{
    uint32_t *room = cdz_scratch(step, green->n_vocab * sizeof *room);
    if (!room) return no_memory(step);
    for (uint32_t r = 0; r < scores->n_rows; r++)
        CDZ_TRY(favour(step, green, step->input_ids[r], cdz_row(scores, r), room));
    return CDZ_OK;
}

/* --- SynthID ------------------------------------------------------------------------------------------------ */

/* The context of call `call` (from 0): the ngram_len - 1 generated ids before its token, zeros where there are none. */
static uint64_t context_hash(const cdz_synthid *s, cdz_ids generated, uint32_t call)
{
    uint64_t hash = 1;
    for (uint32_t i = s->ngram_len - 1; i > 0; i--)
        hash = cdz_synthid_fold(hash, call >= i ? generated.at[call - i] : 0);
    return hash;
}

/* Did this context stand before one of the last `history` tokens? What was never filled counts as 0. */
static bool repeated(const cdz_synthid *s, cdz_ids generated, uint32_t from, uint64_t hash)
{
    const uint32_t calls = generated.len, looked = calls - from;
    if (hash == 0 && looked < s->history) return true;
    for (uint32_t i = 1; i <= looked && i <= s->history; i++)
        if (context_hash(s, generated, calls - i) == hash) return true;
    return false;
}

/* Every layer of the tournament moves mass to the tokens whose g-value is 1. p and g: (n). */
static void tournament(const cdz_step *step, const cdz_synthid *s, uint64_t context, float *p,
                       float *g, uint32_t n)
{
    const cdz_vec *vec = cdz_get_vec(step);
    for (uint32_t k = 0; k < s->n_keys; k++) {
        for (uint32_t v = 0; v < n; v++)
            g[v] = (float)cdz_synthid_g(s, cdz_synthid_fold(context, (int32_t)v), s->keys[k]);
        const float mass = vec->dot(g, p, n);
        for (uint32_t v = 0; v < n; v++) p[v] *= (1.0f + g[v]) - mass;
    }
}

static cdz_status mark_row(const cdz_step *step, const cdz_synthid *s, cdz_ids ids, float *row,
                           uint32_t n)
{
    const cdz_watermark *p = step->params;
    const cdz_vec *vec = cdz_get_vec(step);
    const uint32_t prompt =
        ids.len < step->request->prompt_len ? ids.len : step->request->prompt_len;
    const cdz_ids generated = {ids.at + prompt, ids.len - prompt};
    /* Skipped calls leave no context behind. */
    const uint32_t from = p->skip_first_ngram_calls ? s->ngram_len - 1 : 0;
    float *g = cdz_scratch(step, n * sizeof *g);
    if (!g) return no_memory(step);
    if (p->debug_mode) vec->fill(row, n, 1.0f);
    if (generated.len + 1 < s->ngram_len && p->skip_first_ngram_calls) return CDZ_OK;
    const uint64_t context = context_hash(s, generated, generated.len);
    if (repeated(s, generated, from < generated.len ? from : generated.len, context)) return CDZ_OK;
    vec->softmax(row, row, n);
    tournament(step, s, context, row, g, n);
    vec->log(row, n);
    for (uint32_t v = 0; v < n; v++)
        if (!isfinite(row[v])) row[v] = -3.4028234663852886e38f;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const secret *s = step->shared;
    if (((const cdz_watermark *)step->params)->type.value == CDZ_WM_GREENLIST)
        return apply_green(step, &s->green, scores);
    for (uint32_t r = 0; r < scores->n_rows; r++)
        CDZ_TRY(
            mark_row(step, &s->synthid, step->input_ids[r], cdz_row(scores, r), scores->n_vocab));
    return CDZ_OK;
}

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE, .id = "watermarking_config", .version = "1.0.0",
             .summary = "Write a watermark that a detector finds (green list, SynthID)",
             CDZ_PARAMS(cdz_watermark, params)},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE,
    .create = create,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&processor.base)
