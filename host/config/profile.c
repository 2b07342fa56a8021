/* profile.c - the order and the conditions of transformers' own processors and criteria. */
#include "config/profile.h"

#include <string.h>

const cdz_profile_stage cdz_profile_processors[] = {
    {"guidance_scale", 1, false},
    {"sequence_bias", 2, false},
    {"encoder_repetition_penalty", 3, false},
    {"repetition_penalty", 4, false},
    {"no_repeat_ngram_size", 5, false},
    {"encoder_no_repeat_ngram_size", 6, false},
    {"bad_words_ids", 7, false},
    {"min_length", 8, false},
    {"min_new_tokens", 9, false},
    {"prefix_allowed_tokens", 10, false},
    {"forced_bos_token_id", 11, false},
    {"forced_eos_token_id", 12, false},
    {"remove_invalid_values", 13, false},
    {"exponential_decay_length_penalty", 14, false},
    {"suppress_tokens", 15, false},
    {"begin_suppress_tokens", 16, false},
    {"temperature", 18, true},
    {"top_h", 19, true},
    {"top_k", 20, true},
    {"top_p", 21, true},
    {"min_p", 22, true},
    {"typical_p", 23, true},
    {"epsilon_cutoff", 24, true},
    {"eta_cutoff", 25, true},
    {"watermarking_config", 26, false},
    {"renormalize_logits", 27, false},
};
const uint32_t cdz_profile_n_processors =
    sizeof cdz_profile_processors / sizeof cdz_profile_processors[0];

const cdz_profile_stage cdz_profile_criteria[] = {
    {"max_length", 1, false},
    {"max_time", 2, false},
    {"stop_strings", 3, false},
    {"eos_token_id", 4, false},
};
const uint32_t cdz_profile_n_criteria = sizeof cdz_profile_criteria / sizeof cdz_profile_criteria[0];

static const cdz_profile_stage *find(const char *id)
{
    for (uint32_t i = 0; i < cdz_profile_n_processors; i++)
        if (strcmp(cdz_profile_processors[i].id, id) == 0) return &cdz_profile_processors[i];
    return NULL;
}

uint32_t cdz_profile_place(const char *id)
{
    const cdz_profile_stage *stage = find(id);
    return stage ? stage->place : CDZ_PLACE_CUSTOM;
}

static bool not(cdz_opt_real value, double neutral)
{
    return value.set && value.value != neutral;
}

static bool positive(cdz_opt_int value)
{
    return value.set && value.value > 0;
}

static bool between_0_and_1(cdz_opt_real value)
{
    return value.set && value.value > 0 && value.value < 1;
}

static bool acts_before_custom(const cdz_generation *g, uint32_t place)
{
    switch (place) {
    case 1: return not(g->guidance_scale, 1.0);
    case 2: return g->sequence_bias.set;
    case 3: return not(g->encoder_repetition_penalty, 1.0);
    case 4: return not(g->repetition_penalty, 1.0);
    case 5: return positive(g->no_repeat_ngram_size);
    case 6: return positive(g->encoder_no_repeat_ngram_size);
    case 7: return g->bad_words_ids.set;
    /* min_new_tokens sets min_length too: both processors are there then. */
    case 8: return g->eos_token_id.set && (positive(g->min_length) || positive(g->min_new_tokens));
    case 9: return g->eos_token_id.set && positive(g->min_new_tokens);
    case 11: return g->forced_bos_token_id.set;
    case 12: return g->forced_eos_token_id.set;
    case 13: return g->remove_invalid_values.set && g->remove_invalid_values.value;
    case 14: return g->exponential_decay_length_penalty.set;
    case 15: return g->suppress_tokens.set;
    case 16: return g->begin_suppress_tokens.set;
    default: return false;
    }
}

static bool acts_after_custom(const cdz_generation *g, uint32_t place)
{
    switch (place) {
    case 18: return not(g->temperature, 1.0);
    case 19: return g->top_h.set;
    case 20: return g->top_k.set && g->top_k.value != 0;
    case 21: return g->top_p.set && g->top_p.value < 1.0;
    case 22: return g->min_p.set;
    case 23: return g->typical_p.set && g->typical_p.value < 1.0;
    case 24: return between_0_and_1(g->epsilon_cutoff);
    case 25: return between_0_and_1(g->eta_cutoff);
    case 27: return g->renormalize_logits.set && g->renormalize_logits.value;
    default: return false;
    }
}

static bool slot_is_set(const cdz_resolution *res, const char *name)
{
    const cdz_json *value = res->values[cdz_generation_slot(name)];
    return value && value->type != CDZ_JSON_NULL;
}

static bool criterion_acts(const cdz_generation *g, const char *id)
{
    if (strcmp(id, "max_length") == 0) return true;
    if (strcmp(id, "max_time") == 0) return g->max_time.set;
    if (strcmp(id, "stop_strings") == 0) return g->stop_strings.set;
    return strcmp(id, "eos_token_id") == 0 && g->eos_token_id.set;
}

bool cdz_profile_acts(const cdz_resolution *res, const char *id)
{
    const cdz_profile_stage *stage = find(id);
    const cdz_generation *g = &res->generation;
    if (!stage) return criterion_acts(g, id);
    if (stage->place == 10 || stage->place == 26) return slot_is_set(res, id);
    return acts_before_custom(g, stage->place) || acts_after_custom(g, stage->place);
}

bool cdz_profile_active(const cdz_resolution *res, const char *id)
{
    const cdz_profile_stage *stage = find(id);
    if (stage && stage->sampling && !res->generation.do_sample) return false;
    return cdz_profile_acts(res, id);
}
