/* generation.h - transformers' GenerationConfig: every parameter, its sources and its resolution.
 * Names, defaults and rules are those of transformers 5.3.0, generation/configuration_utils.py and generation/utils.py. */
#ifndef CDZ_HOST_CONFIG_GENERATION_H
#define CDZ_HOST_CONFIG_GENERATION_H

#include "params/params.h"

/* cache_implementation = quantized and its cache_config, as transformers names them. */
typedef struct cdz_quantized_cache {
    bool on;
    bool hqq; /* the backend; else quanto */
    int64_t nbits, axis_key, axis_value, q_group_size, residual_length;
} cdz_quantized_cache;

/* Cadenza's own: what presses are told, and when they run (docs/presses.md). */
typedef struct cdz_compression {
    cdz_opt_real ratio;
    cdz_real_list ratios;
    cdz_opt_int chunk_length, block_size, skip_last;
    cdz_opt_int interval, target_size;
    cdz_opt_real target_ratio;
} cdz_compression;

/* Cadenza's own: output_logprobs and output_kv. */
typedef struct cdz_own_outputs {
    bool logprobs; /* raw and processed log-probability of every token */
    bool kv;       /* what the rows' caches hold at the end */
} cdz_own_outputs;

/* The resolved configuration of one request; what generate() fills in is filled in. Fields are spelled as there.
 * Parameters whose feature is not built yet are known by name and refused with a sentence when set to something
 * that would act (generation_modes.c). */
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
    /* Cadenza's own: a constraint on the answer, one of them (docs/structured.md). */
    const char *json_schema, *regex, *grammar, *structural_tag, *grammar_after;
    cdz_string_list choice;
    cdz_opt_bool json_object;
    cdz_opt_bool token_healing;
    cdz_opt_real guidance_scale;
    cdz_int_lists negative_prompt_ids, negative_prompt_attention_mask;
    int64_t num_return_sequences;
    bool output_scores, output_logits, output_attentions, output_hidden_states,
        return_dict_in_generate;
    cdz_opt_int output_scores_top; /* Cadenza's own: so many of output_scores */
    cdz_own_outputs output;
    cdz_opt_int pad_token_id, bos_token_id;
    cdz_int_list eos_token_id;
    cdz_int_list decoder_start_token_id; /* encoder-decoder models */
    cdz_opt_bool is_assistant;
    cdz_opt_int num_assistant_tokens, assistant_lookbehind, target_lookbehind;
    cdz_word num_assistant_tokens_schedule;
    cdz_opt_real assistant_confidence_threshold;
    cdz_opt_int prompt_lookup_num_tokens, max_matching_ngram_size, assistant_early_exit,
        prefill_chunk_size;
    cdz_opt_bool disable_compile, low_memory;
    cdz_opt_real penalty_alpha, diversity_penalty;
    cdz_opt_int num_beam_groups;
    cdz_int_choices force_words_ids;
    cdz_word_or_ints dola_layers;
    cdz_compression compression; /* parameters compression_ratio and so on */
    /* Not in GenerationConfig: torch.manual_seed before the call; unset: a random one, reported. */
    cdz_opt_int seed;
    bool context,
        strict_context; /* end where the model's context is full; refuse what could go beyond */
    bool quirks;        /* the reference's own defects too (docs/departures.md) */

    /* Not a parameter of its own: on where keys and values are to be quantised. */
    cdz_quantized_cache quantized;

    /* Not parameters: somebody set max_length or min_length, if only to none (it is not the default). */
    bool max_length_given, min_length_given;
} cdz_generation;

const cdz_param_table *cdz_generation_table(void);

/* A parameter's value, for a plugin that names it: out is the C type behind type. CDZ_E_NOT_FOUND: there is none of
 * that name and type. */
cdz_status cdz_generation_value(const cdz_generation *generation, const char *name,
                                cdz_param_type type, void *out);

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
    const char *file;      /* path as given; of the model: the file's name; or NULL */
    uint32_t line, column; /* 0: none */
    const char *said; /* what the parameter was called there, when not by its own name; or NULL */
} cdz_origin;

/* "story.ini:15: ", "generation_config.json: ", "-s ", "request: " or "" into out: what stands before a sentence. */
void cdz_origin_prefix(const cdz_origin *origin, char *out, size_t out_bytes);
/* The error of a value from there: sentence, which may begin with the parameter's own name, behind that prefix and with
 * the name that it was called there. */
cdz_status cdz_origin_error(const cdz_origin *origin, const char *name, cdz_status status,
                            const char *sentence, cdz_error *err);

/* --- names ----------------------------------------------------------------------------------------------- */

/* Beside the table there are parameters transformers knows whose values are objects, callables or tensors. They have no
 * field; each is a slot after the table's rows. A slot of a name is its row, or n rows + k, or -1 when unknown. */
uint32_t cdz_generation_slots(void);
int cdz_generation_slot(const char *name);
const char *cdz_generation_slot_name(uint32_t slot);
/* Is there such a parameter? If not, the nearest name or NULL. */
cdz_status cdz_generation_known(const char *name, const char **near);
/* ": did you mean 'x'?" over all slots and, when not NULL, a second table; or "". */
void cdz_generation_suggest(const char *name, const cdz_param_table *also, char *out,
                            size_t out_bytes);

/* Reads text of ini or `-s` for a slot, and checks it as far as it can be checked alone. */
cdz_status cdz_generation_from_text(uint32_t slot, const char *text, cdz_arena *arena,
                                    cdz_json *out, cdz_error *err);

/* --- resolution ------------------------------------------------------------------------------------------ */

typedef struct cdz_warnings {
    const char **at;
    uint32_t n, cap;
} cdz_warnings;

/* The sentence lives in the arena; dropped when memory ran out. */
void cdz_warn(cdz_warnings *warnings, cdz_arena *arena, const char *fmt, ...) CDZ_PRINTF(3, 4);

/* Reads a cache_config, NULL: none, into out, which is on. False, with a sentence in why (of at least 160 bytes): it is none. */
bool cdz_quantized_cache_read(const cdz_json *config, cdz_quantized_cache *out, char *why,
                              size_t why_bytes);

#define CDZ_MAX_MINOR 32

/* One request's parameters while they are put together. Everything lives in the arena given to begin. */
typedef struct cdz_resolution {
    cdz_arena *arena;
    cdz_generation generation;
    const cdz_json **values; /* by slot; NULL: the default. A JSON null was set on purpose */
    cdz_origin *origins;     /* by slot */
    cdz_warnings warnings;
    bool zero_temperature; /* temperature = 0 has turned sampling off */
    bool has_embeds;       /* of a decoder alone: there is a cache, whatever use_cache says */
    const char *
        minor[CDZ_MAX_MINOR]; /* names that validate() of transformers would list as minor issues */
    uint32_t n_minor;
} cdz_resolution;

cdz_status cdz_resolution_begin(cdz_resolution *res, cdz_arena *arena, cdz_error *err);

/* The later call wins. value must live as long as the resolution. */
void cdz_resolution_put(cdz_resolution *res, uint32_t slot, const cdz_json *value,
                        const cdz_origin *origin);

/* All members of a model's generation config: null is absent, unknown names are passed over. */
cdz_status cdz_resolution_put_model(cdz_resolution *res, const cdz_json *model, cdz_error *err);

/* Checks and writes every value into res->generation, then validate(): its errors fail, its minor issues become
 * warnings. Sets pad_token_id to the first eos_token_id where none is set. */
cdz_status cdz_resolution_finish(cdz_resolution *res, cdz_error *err);

/* Names that transformers refuses inside a configuration ("streamer", "logits_processor", ...). */
bool cdz_generation_forbidden(const char *name);

/* What an object of defaults a model has: generation_config.json's own object where there is one (then nothing else is
 * asked), else the generation parameters of config.json, with those of a nested decoder, generator or text_config for
 * what it does not set. Either may be NULL; out may share their nodes. out->boolean tells that it came from config.json,
 * so that sentences name the right file. */
cdz_status cdz_generation_of_model(const cdz_json *generation_config, const cdz_json *config,
                                   cdz_arena *arena, cdz_json *out, cdz_error *err);

/* --- mode ------------------------------------------------------------------------------------------------ */

typedef enum cdz_mode {
    CDZ_MODE_GREEDY,
    CDZ_MODE_SAMPLE,
    CDZ_MODE_CONTRASTIVE,
    CDZ_MODE_BEAM,
    CDZ_MODE_BEAM_SAMPLE,
    CDZ_MODE_GROUP_BEAM,
    CDZ_MODE_CONSTRAINED_BEAM,
    CDZ_MODE_ASSISTED,
    CDZ_MODE_PROMPT_LOOKUP,
    CDZ_MODE_EARLY_EXIT,
    CDZ_MODE_DOLA,
} cdz_mode;

cdz_mode cdz_generation_mode(const cdz_resolution *res, bool has_assistant);
const char *cdz_mode_name(cdz_mode mode); /* "greedy", "beam", ... */

/* Refuses parameters that would act but whose feature this version lacks. */
cdz_status cdz_generation_unsupported(const cdz_resolution *res, cdz_error *err);

/* --- lengths --------------------------------------------------------------------------------------------- */

#define CDZ_MAX_LENGTH_WARNINGS 3

typedef struct cdz_lengths {
    int64_t max_length, min_length; /* totals, prompt included */
    char warnings[CDZ_MAX_LENGTH_WARNINGS][160];
    uint32_t n_warnings;
} cdz_lengths;

/* prompt_len: padded prompt after expansion; max_positions: max_position_embeddings, 0 unknown; embeds_len: length of a
 * prompt given as embeddings without ids (then prompt_len is 0), else 0. out is filled as far as it goes also when the
 * prompt leaves no room (CDZ_E_INPUT). */
cdz_status cdz_resolve_lengths(const cdz_generation *generation, uint32_t prompt_len,
                               uint32_t max_positions, uint32_t embeds_len, cdz_lengths *out,
                               cdz_error *err);

#endif
