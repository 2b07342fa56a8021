/* generation_modes.c - which decode loop the parameters ask for, and which of them this version cannot follow. */
#include <string.h>

#include "config/generation.h"

static const cdz_json *value_of(const cdz_resolution *res, const char *name)
{
    const cdz_json *value = res->values[cdz_generation_slot(name)];
    return value && value->type != CDZ_JSON_NULL ? value : NULL;
}

const char *cdz_mode_name(cdz_mode mode)
{
    static const char *const names[] = {
        [CDZ_MODE_GREEDY] = "greedy",
        [CDZ_MODE_SAMPLE] = "sample",
        [CDZ_MODE_CONTRASTIVE] = "contrastive",
        [CDZ_MODE_BEAM] = "beam",
        [CDZ_MODE_BEAM_SAMPLE] = "beam_sample",
        [CDZ_MODE_GROUP_BEAM] = "group_beam",
        [CDZ_MODE_CONSTRAINED_BEAM] = "constrained_beam",
        [CDZ_MODE_ASSISTED] = "assisted",
        [CDZ_MODE_PROMPT_LOOKUP] = "prompt_lookup",
        [CDZ_MODE_EARLY_EXIT] = "early_exit",
        [CDZ_MODE_DOLA] = "dola",
    };
    return names[mode];
}

static cdz_mode base_mode(const cdz_resolution *res)
{
    const cdz_generation *g = &res->generation;
    if (value_of(res, "constraints") || value_of(res, "force_words_ids"))
        return CDZ_MODE_CONSTRAINED_BEAM;
    if (g->num_beams == 1) {
        bool contrastive = g->penalty_alpha.set && g->penalty_alpha.value > 0 && g->top_k.set &&
                           g->top_k.value > 1;
        if (g->do_sample) return CDZ_MODE_SAMPLE;
        return contrastive ? CDZ_MODE_CONTRASTIVE : CDZ_MODE_GREEDY;
    }
    if (g->num_beam_groups.set && g->num_beam_groups.value > 1) return CDZ_MODE_GROUP_BEAM;
    return g->do_sample ? CDZ_MODE_BEAM_SAMPLE : CDZ_MODE_BEAM;
}

/* GenerationConfig.get_generation_mode, in its order. */
cdz_mode cdz_generation_mode(const cdz_resolution *res, bool has_assistant)
{
    const cdz_generation *g = &res->generation;
    cdz_mode mode = base_mode(res);
    if (mode != CDZ_MODE_GREEDY && mode != CDZ_MODE_SAMPLE) return mode;
    if (has_assistant) return CDZ_MODE_ASSISTED;
    if (g->prompt_lookup_num_tokens.set) return CDZ_MODE_PROMPT_LOOKUP;
    if (g->assistant_early_exit.set) return CDZ_MODE_EARLY_EXIT;
    return value_of(res, "dola_layers") ? CDZ_MODE_DOLA : mode;
}

typedef struct unsupported {
    const char *name;
    bool acts;
} unsupported;

/* Given otherwise than by the request, whose input it is. */
static bool configured(const cdz_resolution *res, const char *name)
{
    return value_of(res, name) &&
           res->origins[cdz_generation_slot(name)].source != CDZ_SOURCE_REQUEST;
}

static cdz_status refuse_first(const cdz_resolution *res, const unsupported *list, size_t n,
                               cdz_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!list[i].acts) continue;
        char prefix[256];
        const char *name = list[i].name;
        cdz_origin_prefix(&res->origins[cdz_generation_slot(name)], prefix, sizeof prefix);
        return cdz_err(err, CDZ_E_UNSUPPORTED, "%s%s: not supported by this version", prefix, name);
    }
    return CDZ_OK;
}

cdz_status cdz_generation_unsupported(const cdz_resolution *res, cdz_error *err)
{
    const cdz_generation *g = &res->generation;
    /* Parameters that no decode loop of this version could follow. */
    const unsupported always[] = {
        {"decoder_input_ids", configured(res, "decoder_input_ids")},
        {"decoder_attention_mask", configured(res, "decoder_attention_mask")},
        {"inputs_embeds", value_of(res, "inputs_embeds")},
        {"position_ids", value_of(res, "position_ids")},
        {"past_key_values", value_of(res, "past_key_values")},
    };
    /* Files of models made to draft say so: it matters to whom they draft for. */
    if (g->is_assistant.set && g->is_assistant.value &&
        res->origins[cdz_generation_slot("is_assistant")].source != CDZ_SOURCE_MODEL)
        return cdz_err(err, CDZ_E_USAGE,
                       "is_assistant: a model drafts when it is the assistant of a request "
                       "(--assistant FOLDER)");
    if (value_of(res, "constraints"))
        return cdz_err(err, CDZ_E_USAGE,
                       "constraints: Python objects; write them as force_words_ids, [[ids], [[ids], "
                       "[ids]]]");
    return refuse_first(res, always, sizeof always / sizeof always[0], err);
}
