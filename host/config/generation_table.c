/* generation_table.c - every generation parameter: its row, or its slot where it has no field. */
#include <stdio.h>
#include <string.h>

#include "config/generation.h"
#include "config/habits.h"

#define ANY -CDZ_NO_LIMIT, CDZ_NO_LIMIT
#define ID  -2147483648.0, 2147483647.0
/* An optional number that generate() fills in when nobody set it. */
#define FILLED_INT(F, def_, help_)                                                                 \
    CDZ_PARAM_(cdz_generation, F, cdz_opt_int, CDZ_T_OPT_INT, 0, def_, -CDZ_NO_LIMIT,              \
               CDZ_NO_LIMIT, "filled", help_)
#define FILLED_REAL(F, def_, help_)                                                                \
    CDZ_PARAM_(cdz_generation, F, cdz_opt_real, CDZ_T_OPT_REAL, 0, def_, -CDZ_NO_LIMIT,            \
               CDZ_NO_LIMIT, "filled", help_)
#define OPT_INT(F, ...)   CDZ_OPT_INT(cdz_generation, F, 0, __VA_ARGS__)
#define OPT_REAL(F, ...)  CDZ_OPT_REAL(cdz_generation, F, 0, __VA_ARGS__)
#define OPT_BOOL(F, ...)  CDZ_OPT_BOOL(cdz_generation, F, 0, __VA_ARGS__)
#define BOOL(F, ...)      CDZ_BOOL(cdz_generation, F, __VA_ARGS__)
#define INT(F, ...)       CDZ_INT(cdz_generation, F, __VA_ARGS__)
#define INT_LISTS(F, ...) CDZ_INT_LISTS(cdz_generation, F, 0, __VA_ARGS__)
#define INTS(F, ...)      CDZ_INTS(cdz_generation, F, 0, __VA_ARGS__)
/* Of a struct of its own: compression.ratio is compression_ratio. */
/* clang-format off */
#define PRESSED(F, ctype, kind_, flags_, min_, max_, help_)                                        \
    {.name = "compression_" #F, .help = help_, .type = kind_, .flags = flags_,                     \
     .offset = CDZ_FIELD_(cdz_generation, compression.F, ctype), .min = min_, .max = max_}
#define PRESSED_INT(F, help_) PRESSED(F, cdz_opt_int, CDZ_T_OPT_INT, 0, 1, 1048576, help_)
#define OUTPUT(F, help_)                                                                           \
    {.name = "output_" #F, .help = help_, .offset = CDZ_FIELD_(cdz_generation, output.F, bool),    \
     .type = CDZ_T_BOOL, .max = 1}
/* clang-format on */

/* Ranges here are what transformers' validate() refuses; what a processor refuses when it is built is its own row's. */
static const cdz_param rows[] = {
    FILLED_INT(max_length, 20, "prompt and new tokens; unset everywhere: 20 new tokens"),
    OPT_INT(max_new_tokens, 1, CDZ_NO_LIMIT, "most new tokens; wins over max_length"),
    FILLED_INT(min_length, 0, "no end-of-sequence while prompt and new tokens are fewer"),
    OPT_INT(min_new_tokens, ANY, "no end-of-sequence while new tokens are fewer"),
    CDZ_BOOL_OR_WORD(
        cdz_generation, early_stopping, 0, "never",
        "when beam search ends: yes: with num_beams finished sequences; no: by a heuristic; "
        "never: when no better one is possible"),
    OPT_REAL(max_time, ANY, "seconds, from before the prompt is computed"),
    CDZ_STRINGS(cdz_generation, stop_strings, 0, "texts that end a row"),
    BOOL(do_sample, false, "draw tokens instead of taking the best"),
    INT(num_beams, 1, ANY, "beams of beam search; 1: no search"),
    BOOL(use_cache, true, "keep keys and values"),
    CDZ_STRING(cdz_generation, cache_implementation, NULL,
               "how keys and values are kept; quantized: in a few bits, see cache_config"),
    FILLED_REAL(temperature, 1.0,
                "scores are divided by it: below 1 sharper, above flatter; 0: greedy"),
    FILLED_REAL(top_p, 1.0, "keep the likeliest tokens that together reach this probability"),
    OPT_REAL(min_p, ANY, "drop tokens less likely than this share of the likeliest"),
    OPT_REAL(top_h, ANY, "keep tokens up to this share of the entropy"),
    FILLED_REAL(typical_p, 1.0,
                "keep tokens whose surprise is nearest to the entropy, up to this mass"),
    FILLED_REAL(epsilon_cutoff, 0.0, "drop tokens less likely than this"),
    FILLED_REAL(eta_cutoff, 0.0, "drop tokens less likely than a bound that follows the entropy"),
    FILLED_INT(top_k, 50, "keep the k best scores; 0: all"),
    FILLED_REAL(repetition_penalty, 1.0, "lowers scores of tokens already in the row"),
    FILLED_REAL(encoder_repetition_penalty, 1.0, "raises scores of the prompt's tokens"),
    FILLED_REAL(length_penalty, 1.0, "beam scores are divided by length to this power"),
    FILLED_INT(no_repeat_ngram_size, 0, "no n-gram of this size twice"),
    FILLED_INT(encoder_no_repeat_ngram_size, 0, "no n-gram of this size from the prompt"),
    INT_LISTS(bad_words_ids, ID, "token sequences that may not appear"),
    CDZ_WEIGHTED(cdz_generation, sequence_bias, 0, "added to the last token of a sequence"),
    OPT_BOOL(renormalize_logits, "normalise scores to log-probabilities after all processors"),
    OPT_INT(forced_bos_token_id, ID, "the token forced after the start token"),
    INTS(forced_eos_token_id, ID, "the token forced at max_length"),
    CDZ_PARAM_(cdz_generation, remove_invalid_values, cdz_opt_bool, CDZ_T_OPT_BOOL, 0, 0, 0, 1,
               "filled", "replace nan and infinite scores"),
    CDZ_INT_REAL(cdz_generation, exponential_decay_length_penalty, 0,
                 "[start, factor]: end-of-sequence grows likelier after start new tokens"),
    INTS(suppress_tokens, ID, "tokens that may not appear"),
    INTS(begin_suppress_tokens, ID, "tokens that may not come first"),
    CDZ_STRING(cdz_generation, json_schema, NULL, "the answer is JSON that fits this schema"),
    CDZ_STRING(cdz_generation, regex, NULL, "the answer as a whole matches this regular expression"),
    CDZ_STRING(cdz_generation, grammar, NULL,
               "the answer is a text of this grammar: GBNF or Lark, told apart by their look"),
    CDZ_STRING(cdz_generation, structural_tag, NULL,
               "JSON: the answer is free text, and a trigger in it begins a tag, whose inside fits a "
               "schema"),
    CDZ_STRING(cdz_generation, grammar_after, NULL,
               "the constraint begins behind this text; what comes before it is free"),
    CDZ_STRINGS(cdz_generation, choice, 0, "the answer is one of these texts"),
    OPT_BOOL(json_object, "the answer is any JSON object"),
    OPT_BOOL(token_healing, "tokenise the end of the prompt anew"),
    OPT_REAL(guidance_scale, ANY, "classifier-free guidance"),
    INT_LISTS(negative_prompt_ids, ID, "guidance: rows of ids to steer away from"),
    INT_LISTS(negative_prompt_attention_mask, 0, 1,
              "guidance: 0 hides an id of negative_prompt_ids"),
    INT(num_return_sequences, 1, 1, CDZ_NO_LIMIT, "rows per prompt"),
    BOOL(output_scores, false, "return processed scores of each step"),
    OPT_INT(output_scores_top, 1, CDZ_NO_LIMIT,
            "keep only the k best processed scores of each step, and the row's log-sum-exp"),
    BOOL(output_logits, false, "return raw logits of each step"),
    BOOL(output_attentions, false, "return attention weights"),
    BOOL(output_hidden_states, false, "return hidden states"),
    OUTPUT(kv, "return the keys and values that rows' caches hold at the end"),
    BOOL(return_dict_in_generate, false, "return more than sequences"),
    OUTPUT(logprobs, "return log-probabilities of the chosen tokens, raw and processed"),
    OPT_INT(pad_token_id, ID, "fills finished rows; unset: the first end-of-sequence token"),
    OPT_INT(bos_token_id, ID, "start when no prompt is given"),
    INTS(eos_token_id, ID, "end-of-sequence tokens"),
    INTS(decoder_start_token_id, ID, "start of the decoder of an encoder-decoder model"),
    OPT_BOOL(is_assistant, "this model is the draft model of another"),
    FILLED_INT(num_assistant_tokens, 20, "tokens per draft"),
    FILLED_INT(assistant_lookbehind, 10, "overlap when tokenizers differ"),
    FILLED_INT(target_lookbehind, 10, "overlap when tokenizers differ"),
    CDZ_WORD(cdz_generation, num_assistant_tokens_schedule,
             "constant|heuristic|heuristic_transient", 0, "how the draft length changes"),
    FILLED_REAL(assistant_confidence_threshold, 0.4,
                "a draft ends at a token less likely than this"),
    OPT_INT(prompt_lookup_num_tokens, ANY, "draft this many tokens from the prompt"),
    OPT_INT(max_matching_ngram_size, ANY, "longest n-gram looked up in the prompt"),
    OPT_INT(assistant_early_exit, ANY, "draft with this many layers"),
    OPT_INT(prefill_chunk_size, 1, CDZ_NO_LIMIT, "compute the prompt in pieces of so many tokens"),
    OPT_BOOL(disable_compile, "accepted and ignored: nothing is compiled here"),
    OPT_BOOL(low_memory, "refused with beams"),
    OPT_REAL(penalty_alpha, ANY,
             "contrastive search: weight of the penalty for repeating what was said"),
    FILLED_REAL(diversity_penalty, 0.0,
                "group beam search: subtracted from scores of tokens that earlier groups chose"),
    FILLED_INT(num_beam_groups, 1, "group beam search: number of groups"),
    CDZ_INT_CHOICES(cdz_generation, force_words_ids, 0, 0, 2147483647.0,
                    "phrases that must appear; of an item that is a list of phrases, one must"),
    CDZ_WORD_OR_INTS(cdz_generation, dola_layers, 0, "low|high", 0, 65536,
                     "layers that DoLa contrasts the last one with"),
    PRESSED(ratio, cdz_opt_real, CDZ_T_OPT_REAL, CDZ_BELOW_MAX, 0, 1,
            "presses: the share of the KV cache that goes; 0: all of it stays"),
    PRESSED(ratios, cdz_real_list, CDZ_T_REALS, 0, 0, 0.9999999,
            "presses: compression_ratio of each layer"),
    PRESSED_INT(chunk_length, "presses: the prompt is pressed in pieces of so many positions"),
    PRESSED_INT(block_size, "presses: what stays is found in turns, so many positions more in each"),
    PRESSED_INT(skip_last,
                "presses: so many tokens at the prompt's end are read after it was pressed"),
    PRESSED_INT(interval, "decoding_press: tokens from one press to the next; unset: 512"),
    PRESSED_INT(target_size, "decoding_press: positions that it leaves; unset: 2048"),
    PRESSED(target_ratio, cdz_opt_real, CDZ_T_OPT_REAL, CDZ_BELOW_MAX, 0, 1,
            "decoding_press: the share of all positions so far that it lets go"),
    OPT_INT(seed, ANY, "seed of the random draws; unset: a random one"),
    BOOL(context, true,
         "end a row when the model's context is full; false: continue where that is possible"),
    BOOL(strict_context, false,
         "refuse requests whose prompt and new tokens could exceed the "
         "context"),
    BOOL(quirks, false, "reproduce the reference's own defects too"),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Without a field. Which of them act is generation_modes.c's to know. */
static const char *const others[] = {
    "watermarking_config",   "constraints",       "cache_config",           "compile_config",
    "prefix_allowed_tokens", "decoder_input_ids", "decoder_attention_mask", "inputs_embeds",
    "position_ids",          "past_key_values",   "trust_remote_code",
};
enum { N_OTHERS = sizeof others / sizeof others[0], N_SLOTS = N_ROWS + N_OTHERS };

const cdz_param_table *cdz_generation_table(void)
{
    static const cdz_param_table table = {rows, N_ROWS, sizeof(cdz_param), sizeof(cdz_generation)};
    return &table;
}

uint32_t cdz_generation_slots(void)
{
    return N_SLOTS;
}

const char *cdz_generation_slot_name(uint32_t slot)
{
    return slot < N_ROWS ? rows[slot].name : others[slot - N_ROWS];
}

int cdz_generation_slot(const char *name)
{
    for (uint32_t i = 0; i < N_SLOTS; i++)
        if (strcmp(cdz_generation_slot_name(i), name) == 0) return (int)i;
    return -1;
}

void cdz_generation_suggest(const char *name, const cdz_param_table *also, char *out,
                            size_t out_bytes)
{
    const char *names[N_SLOTS + 256];
    uint32_t n = 0;
    for (; n < N_SLOTS; n++) names[n] = cdz_generation_slot_name(n);
    for (uint32_t i = 0; also && i < also->n && i < 256; i++)
        names[n++] = cdz_param_at(also, i)->name;
    const cdz_habit *habit = cdz_habit_find(name, strlen(name));
    const bool known = habit && habit->ours && cdz_generation_slot(habit->ours) >= 0;
    const char *nearest = known ? habit->ours : cdz_nearest_name(name, names, n);
    if (nearest)
        snprintf(out, out_bytes, ": did you mean '%s'?", nearest);
    else if (out_bytes)
        out[0] = '\0';
}

bool cdz_generation_forbidden(const char *name)
{
    static const char *const names[] = {
        "logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn",
        "synced_gpus",      "assistant_model",   "streamer",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Values of slots without a field are JSON, or a bare word. */
static cdz_status other_from_text(const char *text, cdz_arena *arena, cdz_json *out, cdz_error *err)
{
    char *copy = cdz_arena_strdup(arena, text);
    if (!copy) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    if (strcmp(copy, "none") == 0)
        *out = (cdz_json){.type = CDZ_JSON_NULL};
    else if (cdz_json_parse(copy, strlen(copy), "value", NULL, arena, out, NULL) != CDZ_OK)
        *out = (cdz_json){.type = CDZ_JSON_STRING, .len = (uint32_t)strlen(copy), .string = copy};
    return CDZ_OK;
}

cdz_status cdz_generation_from_text(uint32_t slot, const char *text, cdz_arena *arena,
                                    cdz_json *out, cdz_error *err)
{
    cdz_generation scratch;
    if (slot >= N_ROWS) return other_from_text(text, arena, out, err);
    CDZ_TRY(cdz_param_from_text(&rows[slot], text, arena, out, err));
    return cdz_param_set(&rows[slot], &scratch, out, arena, err);
}
