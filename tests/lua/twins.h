/* twins.h - the built-in processors and stop rules that are also written in Lua (twins/NAME.lua), with settings: what the test
 * compares bit for bit and the benchmark times. */
#ifndef CDZ_TESTS_LUA_TWINS_H
#define CDZ_TESTS_LUA_TWINS_H

#include <stddef.h>
#include <stdint.h>

typedef struct twin {
    const char *name;
    const char *
        settings[14]; /* parameter, value, parameter, value, ...; one without a name is called as the plugin */
    uint32_t n_ids; /* of the ids there are; 0: all */
} twin;

static const twin twins[] = {
    {"temperature", {"temperature", "0.7"}, 0},
    {"temperature", {"temperature", "1.9"}, 0},
    {"top_k", {"top_k", "50"}, 0},
    {"top_k", {"top_k", "1", "min_tokens_to_keep", "7"}, 0},
    {"top_p", {"top_p", "0.9"}, 0},
    {"top_p", {"top_p", "0.1", "min_tokens_to_keep", "3"}, 0},
    {"min_p", {"min_p", "0.05"}, 0},
    {"repetition_penalty", {"repetition_penalty", "1.3"}, 0},
    {"repetition_penalty", {"repetition_penalty", "0.8", "prompt_ignore_length", "2"}, 0},
    {"no_repeat_ngram_size", {"no_repeat_ngram_size", "2"}, 0},
    {"no_repeat_ngram_size", {"no_repeat_ngram_size", "1"}, 0},
    {"min_length", {"min_length", "5"}, 0},
    {"min_length", {"min_length", "4"}, 0},
    {"min_new_tokens", {"min_new_tokens", "3"}, 0},
    {"min_new_tokens", {"min_new_tokens", "1"}, 0},
    {"epsilon_cutoff", {"epsilon_cutoff", "0.0003"}, 0},
    {"epsilon_cutoff", {"epsilon_cutoff", "0.9", "min_tokens_to_keep", "3"}, 0},
    {"eta_cutoff", {"eta_cutoff", "0.0006"}, 0},
    {"typical_p", {"typical_p", "0.5"}, 0},
    {"typical_p", {"typical_p", "0.01", "min_tokens_to_keep", "4"}, 0},
    {"suppress_tokens", {"suppress_tokens", "[3, 5002, 17]"}, 0},
    {"begin_suppress_tokens", {"begin_suppress_tokens", "[3, 5002, 17]"}, 2},
    {"begin_suppress_tokens", {"begin_suppress_tokens", "[3, 5002, 17]"}, 3},
    {"renormalize_logits", {"renormalize_logits", "true"}, 0},
    {"forced_bos_token_id", {"forced_bos_token_id", "4"}, 1},
    {"forced_eos_token_id", {"forced_eos_token_id", "[4, 9]"}, 0},
    {"encoder_repetition_penalty", {"encoder_repetition_penalty", "1.7"}, 0},
    {"encoder_no_repeat_ngram_size", {"encoder_no_repeat_ngram_size", "1"}, 0},
    {"encoder_no_repeat_ngram_size", {"encoder_no_repeat_ngram_size", "2"}, 0},
    {"bad_words_ids", {"bad_words_ids", "[[5], [3, 9], [5, 3, 9], [7, 7]]"}, 0},
    {"exponential_decay_length_penalty", {"exponential_decay_length_penalty", "[1, 1.3]"}, 0},
    {"sequence_bias",
     {"sequence_bias", "[[[5], 0.7], [[3, 9], -1.3], [[5, 3, 9], 0.4], [[5], 0.9], [[7, 7], 2.5]]"},
     0},
    {"top_h", {"top_h", "0.4"}, 0},
    {"top_h", {"top_h", "1"}, 0},
    {"top_h", {"top_h", "0.01"}, 0},
    {"remove_invalid_values", {"remove_invalid_values", "true"}, 0},
    {"prefix_allowed_tokens", {"cycle", "[[1, 2], [3], [5, 3, 9, 5], [7]]"}, 0},
    {"prefix_allowed_tokens", {"cycle", "[[1, 2], [3], [7]]", "cycle_lengths", "[2, 1]"}, 3},
    {"alternating_codebooks", {"semantic_vocab_size", "1000", "codebook_size", "700"}, 0},
    {"alternating_codebooks", {"semantic_vocab_size", "1000", "input_start_len", "1"}, 0},
    {"alternating_codebooks", {"semantic_vocab_size", "2000000000", "codebook_size", "7"}, 3},
    {"bark_eos_prioritizer", {"min_eos_p", "0.00001"}, 0},
    {"bark_eos_prioritizer", {"min_eos_p", "0.9"}, 0},
    {"guidance_scale", {"guidance_scale", "1.7"}, 0},
    {"guidance_scale", {"guidance_scale", "-0.6"}, 0},
    {"watermarking_config", {"greenlist_ratio", "0.3", "bias", "2.7", "hashing_key", "7919"}, 0},
    {"watermarking_config",
     {"seeding_scheme", "selfhash", "context_width", "3", "bias", "1.3", "budget_memory",
      "67108864", "budget_instructions", "20000000"},
     0},
    {"watermarking_config",
     {"type", "synthid", "ngram_len", "3", "keys", "[654, 400, 836]", "sampling_table_size", "1024"},
     0},
    {"watermarking_config",
     {"type", "synthid", "ngram_len", "2", "keys", "[-5, 77]", "sampling_table_size", "97",
      "skip_first_ngram_calls", "true", "debug_mode", "true"},
     0},
};
enum { N_TWINS = sizeof twins / sizeof twins[0] };

#endif
