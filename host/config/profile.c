/* profile.c - the order and the conditions of transformers' own processors and criteria. */
#include "config/profile.h"

#include <stddef.h>
#include <string.h>

/* A parameter's field, of whatever type, and what it must be. */
#define SET(F) CDZ_HF_SET, offsetof(cdz_generation, F.set), 0
#define VALUE(F, when)                                                                             \
    CDZ_HF_##when, offsetof(cdz_generation, F.set), offsetof(cdz_generation, F.value)
enum {
    ROW = CDZ_HF_ROW_ALONE,
    WARPER = CDZ_HF_SAMPLING | CDZ_HF_ROW_ALONE,
    EOS = CDZ_HF_NEEDS_EOS
};

const cdz_hf_stage cdz_hf_processors[] = {
    {"guidance_scale", 1, 0, VALUE(guidance_scale, NOT_1)},
    {"sequence_bias", 2, ROW, SET(sequence_bias)},
    {"encoder_repetition_penalty", 3, ROW, VALUE(encoder_repetition_penalty, NOT_1)},
    {"repetition_penalty", 4, ROW, VALUE(repetition_penalty, NOT_1)},
    {"no_repeat_ngram_size", 5, ROW, VALUE(no_repeat_ngram_size, POSITIVE)},
    {"encoder_no_repeat_ngram_size", 6, ROW, VALUE(encoder_no_repeat_ngram_size, POSITIVE)},
    {"bad_words_ids", 7, ROW, SET(bad_words_ids)},
    {"min_length", 8, EOS, VALUE(min_length, POSITIVE)},
    {"min_new_tokens", 9, EOS, VALUE(min_new_tokens, POSITIVE)},
    {"prefix_allowed_tokens", 10, 0, CDZ_HF_SLOT_SET, 0, 0},
    {"forced_bos_token_id", 11, 0, SET(forced_bos_token_id)},
    {"forced_eos_token_id", 12, 0, SET(forced_eos_token_id)},
    {"remove_invalid_values", 13, ROW, VALUE(remove_invalid_values, YES)},
    {"exponential_decay_length_penalty", 14, 0, SET(exponential_decay_length_penalty)},
    {"suppress_tokens", 15, ROW, SET(suppress_tokens)},
    {"begin_suppress_tokens", 16, 0, SET(begin_suppress_tokens)},
    {"grammar", CDZ_PLACE_CUSTOM, 0, CDZ_HF_CONSTRAINED, 0,
     0}, /* after all that lifts single tokens */
    {"temperature", 18, WARPER, VALUE(temperature, NOT_1)},
    {"top_h", 19, WARPER, SET(top_h)},
    {"top_k", 20, WARPER, VALUE(top_k, NOT_0)},
    {"top_p", 21, WARPER, VALUE(top_p, BELOW_1)},
    {"min_p", 22, WARPER, SET(min_p)},
    {"typical_p", 23, WARPER, VALUE(typical_p, BELOW_1)},
    {"epsilon_cutoff", 24, WARPER, VALUE(epsilon_cutoff, BETWEEN_0_1)},
    {"eta_cutoff", 25, WARPER, VALUE(eta_cutoff, BETWEEN_0_1)},
    {"watermarking_config", 26, 0, CDZ_HF_SLOT_SET, 0, 0},
    {"renormalize_logits", 27, ROW, VALUE(renormalize_logits, YES)},
};
const uint32_t cdz_hf_n_processors = sizeof cdz_hf_processors / sizeof cdz_hf_processors[0];

const cdz_hf_stage cdz_hf_criteria[] = {
    {"max_length", 1, 0, CDZ_HF_ALWAYS, 0, 0},
    {"max_time", 2, 0, SET(max_time)},
    {"stop_strings", 3, 0, SET(stop_strings)},
    {"eos_token_id", 4, 0, SET(eos_token_id)},
};
const uint32_t cdz_hf_n_criteria = sizeof cdz_hf_criteria / sizeof cdz_hf_criteria[0];

static const cdz_hf_stage *find(const cdz_hf_stage *stages, uint32_t n, const char *id)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(stages[i].id, id) == 0) return &stages[i];
    return NULL;
}

static const cdz_hf_stage *find_processor(const char *id)
{
    return find(cdz_hf_processors, cdz_hf_n_processors, id);
}

uint32_t cdz_hf_place(const char *id)
{
    const cdz_hf_stage *stage = find_processor(id);
    return stage ? stage->place : CDZ_PLACE_CUSTOM;
}

bool cdz_hf_constrains(const cdz_generation *g)
{
    return g->json_schema || g->regex || g->grammar || g->structural_tag || g->choice.set ||
           (g->json_object.set && g->json_object.value);
}

bool cdz_hf_is_constraint(const char *name)
{
    static const char *const names[] = {"json_schema",    "regex",  "grammar",
                                        "structural_tag", "choice", "json_object"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static bool slot_is_set(const cdz_resolution *res, const char *name)
{
    const cdz_json *value = res->values[cdz_generation_slot(name)];
    return value && value->type != CDZ_JSON_NULL;
}

/* A whole number's field of that condition, or a real one's. */
static bool number_acts(const cdz_hf_stage *stage, const void *value)
{
    const int64_t whole = stage->when <= CDZ_HF_POSITIVE ? *(const int64_t *)value : 0;
    const double real = stage->when > CDZ_HF_POSITIVE ? *(const double *)value : 0;
    switch (stage->when) {
    case CDZ_HF_NOT_0: return whole != 0;
    case CDZ_HF_POSITIVE: return whole > 0;
    case CDZ_HF_NOT_1: return real != 1;
    case CDZ_HF_BELOW_1: return real < 1;
    default: return real > 0 && real < 1;
    }
}

static bool parameter_acts(const cdz_resolution *res, const cdz_hf_stage *stage)
{
    const unsigned char *g = (const unsigned char *)&res->generation;
    if (stage->when == CDZ_HF_ALWAYS) return true;
    if (stage->when == CDZ_HF_CONSTRAINED) return cdz_hf_constrains(&res->generation);
    if (stage->when == CDZ_HF_SLOT_SET) return slot_is_set(res, stage->id);
    if (!*(const bool *)(g + stage->set)) return false;
    if (stage->when == CDZ_HF_SET) return true;
    if (stage->when == CDZ_HF_YES) return *(const bool *)(g + stage->value);
    return number_acts(stage, g + stage->value);
}

bool cdz_hf_acts(const cdz_resolution *res, const char *id)
{
    const cdz_hf_stage *stage = find_processor(id);
    if (!stage) stage = find(cdz_hf_criteria, cdz_hf_n_criteria, id);
    if (!stage) return false;
    if ((stage->traits & CDZ_HF_NEEDS_EOS) && !res->generation.eos_token_id.set) return false;
    /* min_new_tokens sets min_length too: both processors are there then. */
    return parameter_acts(res, stage) ||
           (strcmp(id, "min_length") == 0 && parameter_acts(res, find_processor("min_new_tokens")));
}

bool cdz_hf_active(const cdz_resolution *res, const char *id)
{
    const cdz_hf_stage *stage = find_processor(id);
    const bool warps = stage && (stage->traits & CDZ_HF_SAMPLING);
    return (!warps || res->generation.do_sample) && cdz_hf_acts(res, id);
}
