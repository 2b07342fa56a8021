/* rules.c - a loader of .rules files: texts to ban and to favour, a line each, as a logits processor.
 *
 * A rule is about the last of its text's tokens, where the others stand before it, as transformers' sequence_bias has it.
 * What several rules say of a token is added up; a ban is a ban. */
#include "rules.h"

#include <cadenza/ext/tokenizer.h>
#include <math.h>

/* A rule in the request's vocabulary. */
typedef struct meant {
    cdz_ids ids; /* one at least */
    float bias;  /* -inf: banned */
} meant;

/* --- the processor of a file --------------------------------------------------------------------------------- */

static const rules *rules_of(const cdz_step *step)
{
    return step->plugin->loader_data;
}

static float bias_of(const rule *one, const values *v)
{
    if (one->ban) return -INFINITY;
    return (float)(one->param == NO_PARAM ? one->bias : one->bias * v->value[one->param]);
}

static cdz_status encode(const cdz_step *step, const cdz_tokenizer_api *tok, const rule *one,
                         cdz_ids *out)
{
    const rules *file = rules_of(step);
    CDZ_TRY(tok->encode(step, one->text.at, one->text.len, false, out));
    if (out->len == 0)
        return cdz_fail(step, CDZ_E_INPUT, "%s:%u: this model has no tokens for the text",
                        file->path, one->line);
    for (uint32_t i = 0; i < out->len; i++)
        if (out->at[i] < 0 || (uint32_t)out->at[i] >= step->request->n_vocab)
            return cdz_fail(step, CDZ_E_INPUT, "%s:%u: token %d is outside the vocabulary",
                            file->path, one->line, (int)out->at[i]);
    return CDZ_OK;
}

/* [engine] */
static cdz_status begin(const cdz_step *step, void **shared)
{
    const rules *file = rules_of(step);
    const cdz_tokenizer_api *tok = cdz_get_tokenizer(step);
    if (!tok || !tok->present(step))
        return cdz_fail(step, CDZ_E_INPUT, "%s: needs a model with a tokenizer", file->path);
    meant *all = cdz_alloc(step, file->n * sizeof *all);
    if (!all) return cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory", file->path);
    for (uint32_t i = 0; i < file->n; i++) {
        all[i].bias = bias_of(&file->at[i], step->params);
        CDZ_TRY(encode(step, tok, &file->at[i], &all[i].ids));
    }
    *shared = all;
    return CDZ_OK;
}

static bool stands_before(const meant *m, cdz_ids ids)
{
    const uint32_t n = m->ids.len - 1;
    if (ids.len < n) return false;
    for (uint32_t i = 0; i < n; i++)
        if (ids.at[ids.len - n + i] != m->ids.at[i]) return false;
    return true;
}

/* [row, no-alloc] In place on scores, (n_rows, n_vocab). */
static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const meant *all = step->shared;
    const uint32_t n = rules_of(step)->n;

    for (uint32_t r = 0; r < scores->n_rows; r++) {
        float *row = cdz_row(scores, r);
        for (uint32_t i = 0; i < n; i++) {
            const int32_t last = all[i].ids.at[all[i].ids.len - 1];
            if (stands_before(&all[i], step->input_ids[r]))
                row[last] = all[i].bias == -INFINITY ? -INFINITY : row[last] + all[i].bias;
        }
    }
    return CDZ_OK;
}

/* --- the loader ------------------------------------------------------------------------------------------------ */

static const cdz_processor processor = {
    .base = {CDZ_PROCESSOR_BASE},
    .caps = CDZ_NEEDS_IDS | CDZ_ROWWISE | CDZ_HISTORY_SPARSE,
    .begin = begin,
    .apply = apply,
};

/* [load] All that is made is cdz_alloc's, so there is nothing to close. */
static cdz_status open_rules(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    rules *made = cdz_alloc(step, sizeof *made);
    if (!made) return cdz_fail(step, CDZ_E_NOMEM, "%s: out of memory", file->path);
    made->processor = processor;
    made->processor.base.loader_data = made;
    CDZ_TRY(rules_parse(step, file, made));
    made->list[0] = &made->processor.base;
    out->plugins = made->list;
    out->n_plugins = 1;
    return CDZ_OK;
}

static const cdz_loader loader = {
    .base = {CDZ_LOADER_BASE, .id = "org.cadenza.rules", .version = "1.0.0",
             .summary = "Files of texts to ban and to favour"},
    .caps = CDZ_SANDBOXES, /* a rule can say nothing but what to add to a score */
    .max_bytes = MAX_BYTES,
    .endings = "rules",
    .open = open_rules,
};
CDZ_EXPORT_PLUGINS(&loader.base)
