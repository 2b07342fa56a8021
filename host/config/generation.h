/* generation.h - transformers' GenerationConfig: every parameter, its sources and its resolution.
 * Names, defaults and rules: docs/reference (transformers 5.3.0 generation/configuration_utils.py). */
#ifndef CDZ_HOST_GENERATION_H
#define CDZ_HOST_GENERATION_H

#include "config/params.h"

/* The resolved configuration of one request; defaults of transformers filled in. Fields are spelled as there.
 * Parameters whose feature is not built yet are known by name and refused with a sentence when set to something
 * that would act (config/generation.c keeps that list). */
typedef struct cdz_generation {
    cdz_opt_int max_length, max_new_tokens, min_length, min_new_tokens;
    cdz_word early_stopping; /* false, true, never */
    cdz_opt_real max_time;
    cdz_string_list stop_strings;
    bool do_sample;
    int64_t num_beams;
    bool use_cache;
    const char *cache_implementation;
    cdz_opt_real temperature, top_p, min_p, top_h, typical_p, epsilon_cutoff, eta_cutoff;
    cdz_opt_int top_k;
    cdz_opt_real repetition_penalty, encoder_repetition_penalty, length_penalty;
    cdz_opt_int no_repeat_ngram_size, encoder_no_repeat_ngram_size;
    cdz_int_lists bad_words_ids;
    cdz_weighted_list sequence_bias;
    cdz_opt_bool renormalize_logits;
    cdz_opt_int forced_bos_token_id;
    cdz_int_list forced_eos_token_id;
    cdz_opt_bool remove_invalid_values;
    cdz_int_real exponential_decay_length_penalty;
    cdz_int_list suppress_tokens, begin_suppress_tokens;
    cdz_opt_bool token_healing;
    cdz_opt_real guidance_scale;
    int64_t num_return_sequences;
    bool output_scores, output_logits, output_attentions, output_hidden_states,
        return_dict_in_generate;
    bool output_logprobs; /* Cadenza's own: raw and processed log-probability of every token */
    cdz_opt_int pad_token_id, bos_token_id;
    cdz_int_list eos_token_id;
    cdz_opt_int num_assistant_tokens;
    cdz_word num_assistant_tokens_schedule;
    cdz_opt_real assistant_confidence_threshold;
    cdz_opt_int prompt_lookup_num_tokens, max_matching_ngram_size, assistant_early_exit,
        prefill_chunk_size;
    cdz_opt_real penalty_alpha;
    cdz_opt_int
        seed; /* not in GenerationConfig: torch.manual_seed before the call; unset: a random one, reported */
    bool quirks; /* the reference's own defects too (docs/departures.md) */
} cdz_generation;

const cdz_param_table *cdz_generation_table(void);

/* Where a value came from, for explain and for error sentences. */
typedef enum cdz_source {
    CDZ_SOURCE_DEFAULT,
    CDZ_SOURCE_MODEL,   /* generation_config.json, or config.json without one */
    CDZ_SOURCE_PROFILE, /* use = ... */
    CDZ_SOURCE_FILE,    /* the pipeline file */
    CDZ_SOURCE_COMMAND, /* -s name=value */
    CDZ_SOURCE_REQUEST, /* kwargs */
} cdz_source;

typedef struct cdz_origin {
    cdz_source source;
    const char *file;      /* path as given, or NULL */
    uint32_t line, column; /* 0: none */
} cdz_origin;

/* One written setting: in a section of a file (section NULL or "generation": a generation parameter). */
typedef struct cdz_setting {
    const char *section, *name;
    cdz_json value;
    cdz_origin origin;
} cdz_setting;

#endif
