/* test_parameters.c - every generation parameter, one by one, as a user meets it: setting it changes the answer, or is
 * refused with a sentence, or is known to change nothing here, for a reason that stands beside it. A parameter that joins the
 * table without a case fails the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/api.h"
#include "config/generation.h"
#include "support/must.h"
#include "support/opened.h"

typedef enum model_name { WORDS, RANDOM, PAIR, N_MODELS } model_name;

/* WORDS has a tokenizer and ends its answers; RANDOM is small and has a draft model of another tokenizer; PAIR has an
 * encoder. */
static const char *const folders[] = {
    [WORDS] = CADENZA_SOURCE_DIR "/models/pocket-dictionary",
    [RANDOM] = CADENZA_TEST_DATA "/golden/llama_gqa",
    [PAIR] = CADENZA_TEST_DATA "/golden/t5_gated",
};
static const char *const drafts[] = {
    [WORDS] = CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft",
    [RANDOM] = CADENZA_TEST_DATA "/golden/llama_uad_draft",
};

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *models[N_MODELS], *drafts[N_MODELS];
    cdz_pipeline *pipeline; /* rounds do not hang on time */
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rt = opened_runtime(NULL);
    static const char ini[] = "[pipeline]\ndrafting = fixed\n";
    f->pipeline = opened_pipeline(f->rt, ini);
    for (int i = 0; i < N_MODELS; i++) {
        f->models[i] = opened_model(f->rt, folders[i]);
        if (i != PAIR) f->drafts[i] = opened_model(f->rt, drafts[i]);
    }
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < N_MODELS; i++) {
        if (i != PAIR) cdz_model_close(f->drafts[i]);
        cdz_model_close(f->models[i]);
    }
    cdz_pipeline_free(f->pipeline);
    cdz_close(f->rt);
    free(f);
    return 0;
}

/* --- the cases --------------------------------------------------------------------------------------------------- */

typedef enum verdict {
    CHANGES, /* the answer is another one */
    REFUSED, /* says is in the sentence */
    WORKS,   /* the same answer with another amount of work: rows or passes of the model */
    MOOT,    /* the same answer: says tells why that is right */
} verdict;

/* Members of kwargs. */
#define TWELVE "\"max_new_tokens\": 12"
#define BEST   TWELVE ", \"do_sample\": false, \"eos_token_id\": null"
#define DRAWN  TWELVE ", \"do_sample\": true, \"eos_token_id\": null, \"seed\": 3"
#define BEAMS  BEST ", \"num_beams\": 4, \"num_return_sequences\": 4"
/* Token 7 wins nearly everywhere. */
#define SEVENS BEST ", \"sequence_bias\": [[[7], 40.0]]"
#define PROSE  "\"max_new_tokens\": 60, \"do_sample\": false"
#define SHOWN  BEST ", \"output_scores\": true"

static const struct {
    const char *name;
    model_name model;
    const char *prompt; /* a member of the document; NULL: none */
    const char *base, *with;
    verdict verdict;
    const char *says;
    bool draft; /* with a draft model */
} cases[] = {
#define IDS   "\"prompt_ids\": [[5, 80, 201, 44, 17, 300, 9, 120]]"
#define ONE   "\"prompt_ids\": [[5]]"
#define TEXT  "\"prompt\": \"river (noun): a\""
#define SHORT "\"prompt_ids\": [[5, 80, 201, 44, 17, 100, 9, 1]]"
    {"max_length", RANDOM, IDS, "\"do_sample\": false", "12", CHANGES, NULL, false},
    {"max_new_tokens", RANDOM, IDS, "\"do_sample\": false", "5", CHANGES, NULL, false},
    {"min_length", WORDS, TEXT, PROSE, "50", CHANGES, NULL, false},
    {"min_new_tokens", WORDS, TEXT, PROSE, "50", CHANGES, NULL, false},
    {"early_stopping", WORDS, TEXT, PROSE ", \"num_beams\": 4", "true", CHANGES, NULL, false},
    {"max_time", RANDOM, IDS, BEST, "1e-9", CHANGES, NULL, false},
    {"stop_strings", WORDS, TEXT, PROSE, "[\"stream\"]", CHANGES, NULL, false},
    {"stop_strings", PAIR, SHORT, BEST, "[\"stream\"]", REFUSED, "tokenizer", false},
    {"json_schema", WORDS, TEXT, PROSE, "\"{\\\"type\\\": \\\"array\\\"}\"", CHANGES, NULL, false},
    {"json_schema", WORDS, TEXT, PROSE, "\"{\"", REFUSED, "schema", false},
    {"json_object", WORDS, TEXT, PROSE, "true", CHANGES, NULL, false},
    {"regex", WORDS, TEXT, PROSE, "\"[0-9]+\"", CHANGES, NULL, false},
    {"regex", RANDOM, IDS, BEST, "\"[0-9]+\"", REFUSED, "end-of-sequence", false},
    {"grammar", WORDS, TEXT, PROSE, "\"root ::= [a-f]+\"", CHANGES, NULL, false},
    {"structural_tag", WORDS, TEXT, PROSE,
     "{\"triggers\": [\" \"], \"structures\": [{\"begin\": \" \", \"schema\": {}, \"end\": \".\"}]}",
     CHANGES, NULL, false},
    {"structural_tag", WORDS, TEXT, PROSE, "\"{\"", REFUSED, "tags:1:2", false},
    {"grammar_after", WORDS, TEXT, PROSE ", \"regex\": \"[0-9]+\"", "\"e\"", CHANGES, NULL, false},
    {"choice", WORDS, TEXT, PROSE, "[\"one\", \"two\"]", CHANGES, NULL, false},
    {"do_sample", RANDOM, IDS, TWELVE ", \"seed\": 3", "true", CHANGES, NULL, false},
    {"num_beams", RANDOM, IDS, BEST, "3", CHANGES, NULL, false},
    {"use_cache", RANDOM, IDS, BEST, "false", WORKS, NULL, false},
    {"use_cache", WORDS, TEXT, PROSE, "false", REFUSED, "drafts need the cache", true},
    {"cache_implementation", RANDOM, IDS, BEST, "\"static\"", MOOT, "blocks are what all are",
     false},
    {"cache_implementation", RANDOM, IDS, BEST, "\"quantized\"", REFUSED, "heads of 12 numbers",
     false},
    {"cache_implementation", WORDS, TEXT, PROSE, "\"quantized\"", MOOT,
     "the newest 128 positions are float32", false},
    {"cache_config", WORDS, TEXT,
     "\"max_new_tokens\": 90, \"min_new_tokens\": 90, \"do_sample\": false, "
     "\"cache_implementation\": \"quantized\"",
     "{\"backend\": \"hqq\", \"nbits\": 1, \"residual_length\": 0}", CHANGES, NULL, false},
    {"compression_ratio", RANDOM, IDS, BEST, "0.5", REFUSED, "the pipeline has no press", false},
    {"compression_ratios", RANDOM, IDS, BEST, "[0.5]", REFUSED, "the pipeline has no press", false},
    {"compression_chunk_length", RANDOM, IDS, BEST, "4", REFUSED, "the pipeline has no press",
     false},
    {"compression_block_size", RANDOM, IDS, BEST, "4", REFUSED, "the pipeline has no press", false},
    {"compression_skip_last", RANDOM, IDS, BEST, "1", REFUSED, "the pipeline has no press", false},
    {"compression_interval", RANDOM, IDS, BEST, "4", REFUSED, "the pipeline has no decoding_press",
     false},
    {"compression_target_size", RANDOM, IDS, BEST, "4", REFUSED,
     "the pipeline has no decoding_press", false},
    {"compression_target_ratio", RANDOM, IDS, BEST, "0.5", REFUSED,
     "the pipeline has no decoding_press", false},
    {"temperature", RANDOM, IDS, DRAWN, "0.2", CHANGES, NULL, false},
    {"top_p", RANDOM, IDS, DRAWN, "0.1", CHANGES, NULL, false},
    {"min_p", RANDOM, IDS, DRAWN, "0.9", CHANGES, NULL, false},
    {"top_h", RANDOM, IDS, DRAWN, "0.2", CHANGES, NULL, false},
    {"typical_p", RANDOM, IDS, DRAWN, "0.1", CHANGES, NULL, false},
    {"epsilon_cutoff", RANDOM, IDS, DRAWN, "0.05", CHANGES, NULL, false},
    {"eta_cutoff", RANDOM, IDS, DRAWN, "0.5", CHANGES, NULL, false},
    {"top_k", RANDOM, IDS, DRAWN, "1", CHANGES, NULL, false},
    {"repetition_penalty", RANDOM, IDS, SEVENS, "3.0", CHANGES, NULL, false},
    {"encoder_repetition_penalty", RANDOM, IDS, BEST, "5.0", CHANGES, NULL, false},
    {"length_penalty", WORDS, TEXT, PROSE ", \"num_beams\": 4", "-5.0", CHANGES, NULL, false},
    {"no_repeat_ngram_size", RANDOM, IDS, SEVENS, "2", CHANGES, NULL, false},
    {"encoder_no_repeat_ngram_size", RANDOM, "\"prompt_ids\": [[9, 7, 7, 7]]", SEVENS, "2", CHANGES,
     NULL, false},
    {"bad_words_ids", RANDOM, IDS, SEVENS, "[[7]]", CHANGES, NULL, false},
    {"sequence_bias", RANDOM, IDS, BEST, "[[[7], 10.0]]", CHANGES, NULL, false},
    {"renormalize_logits", RANDOM, IDS, SHOWN, "true", CHANGES, NULL, false},
    {"forced_bos_token_id", RANDOM, ONE, BEST, "9", CHANGES, NULL, false},
    {"forced_eos_token_id", RANDOM, IDS, BEST, "9", CHANGES, NULL, false},
    {"remove_invalid_values", RANDOM, IDS, SHOWN ", \"bad_words_ids\": [[7]]", "true", CHANGES,
     NULL, false},
    {"exponential_decay_length_penalty", WORDS, TEXT, PROSE, "[2, 3.0]", CHANGES, NULL, false},
    {"suppress_tokens", RANDOM, IDS, SEVENS, "[7]", CHANGES, NULL, false},
    {"begin_suppress_tokens", RANDOM, IDS, SEVENS, "[7]", CHANGES, NULL, false},
    {"token_healing", WORDS, "\"prompt\": \"river (noun): a l\"", PROSE, "true", CHANGES, NULL,
     false},
    {"token_healing", PAIR, SHORT, BEST, "true", REFUSED, "token_healing", false},
    {"guidance_scale", RANDOM, IDS, BEST, "3.0", CHANGES, NULL, false},
    {"negative_prompt_ids", RANDOM, IDS, BEST ", \"guidance_scale\": 3.0", "[[9, 8, 7]]", CHANGES,
     NULL, false},
    {"negative_prompt_attention_mask", RANDOM, IDS,
     BEST ", \"guidance_scale\": 3.0, \"negative_prompt_ids\": [[9, 8, 7]]", "[[0, 0, 1]]", CHANGES,
     NULL, false},
    {"num_return_sequences", RANDOM, IDS, DRAWN, "3", CHANGES, NULL, false},
    {"num_return_sequences", RANDOM, IDS, BEST, "3", REFUSED, "num_return_sequences", false},
    {"output_scores", RANDOM, IDS, BEST, "true", CHANGES, NULL, false},
    {"output_logits", RANDOM, IDS, BEST, "true", CHANGES, NULL, false},
    {"output_attentions", RANDOM, IDS, BEST, "true", CHANGES, NULL, false},
    {"output_hidden_states", RANDOM, IDS, BEST, "true", CHANGES, NULL, false},
    {"output_kv", RANDOM, IDS, BEST, "true", CHANGES, NULL, false},
    {"output_logprobs", RANDOM, IDS, BEST, "true", CHANGES, NULL, false},
    {"output_scores_top", RANDOM, IDS, BEST, "2", CHANGES, NULL, false},
    {"return_dict_in_generate", RANDOM, IDS, BEST, "true", MOOT, "every answer is an object", false},
    {"pad_token_id", WORDS, "\"prompt\": [\"river (noun): a\", \"music (noun): a\"]", PROSE, "9",
     CHANGES, NULL, false},
    {"bos_token_id", RANDOM, NULL, BEST, "9", CHANGES, NULL, false},
    {"eos_token_id", RANDOM, IDS, TWELVE ", \"do_sample\": false, \"sequence_bias\": [[[7], 10.0]]",
     "7", CHANGES, NULL, false},
    {"decoder_start_token_id", PAIR, SHORT, BEST, "5", CHANGES, NULL, false},
    {"is_assistant", RANDOM, IDS, BEST, "true", REFUSED,
     "is_assistant: a model drafts when it is the", false},
    {"num_assistant_tokens", WORDS, TEXT, PROSE, "2", CHANGES, NULL, true},
    {"assistant_lookbehind", RANDOM, IDS, BEST, "1", CHANGES, NULL, true},
    {"target_lookbehind", RANDOM, IDS, BEST, "1", CHANGES, NULL, true},
    {"num_assistant_tokens_schedule", WORDS, TEXT, PROSE ", \"num_assistant_tokens\": 4",
     "\"heuristic\"", CHANGES, NULL, true},
    {"assistant_confidence_threshold", WORDS, TEXT, PROSE, "0.99", CHANGES, NULL, true},
    {"prompt_lookup_num_tokens", RANDOM, IDS, BEST, "3", CHANGES, NULL, false},
    {"max_matching_ngram_size", RANDOM, "\"prompt_ids\": [[7, 7, 9, 3]]",
     SEVENS ", \"prompt_lookup_num_tokens\": 3", "5", CHANGES, NULL, false},
    {"assistant_early_exit", RANDOM, IDS, BEST, "1", CHANGES, NULL, false},
    {"assistant_early_exit", RANDOM, IDS, BEST, "9", CHANGES, NULL, false},
    {"prefill_chunk_size", RANDOM, IDS, BEST, "3", WORKS, NULL, false},
    {"disable_compile", RANDOM, IDS, BEST, "true", MOOT, "nothing is compiled", false},
    {"compile_config", RANDOM, IDS, BEST, "{}", REFUSED, "nothing is compiled", false},
    {"low_memory", RANDOM, IDS, BEST, "true", MOOT, "as in the reference", false},
    {"low_memory", RANDOM, IDS, BEAMS, "true", REFUSED, "low_memory", false},
    {"penalty_alpha", RANDOM, IDS, BEST, "0.6", CHANGES, NULL, false},
    {"diversity_penalty", RANDOM, IDS, BEAMS ", \"num_beam_groups\": 2", "0.0", REFUSED,
     "diversity_penalty", false},
    {"diversity_penalty", RANDOM, IDS, BEAMS ", \"num_beam_groups\": 2", "3.0", CHANGES, NULL,
     false},
    {"num_beam_groups", RANDOM, IDS, BEAMS ", \"diversity_penalty\": 3.0", "2", CHANGES, NULL,
     false},
    {"num_beam_groups", RANDOM, IDS, BEAMS ", \"diversity_penalty\": 3.0", "3", REFUSED,
     "does not divide", false},
    {"force_words_ids", RANDOM, IDS, BEAMS, "[[7, 9]]", CHANGES, NULL, false},
    {"force_words_ids", RANDOM, IDS, BEST, "[[7, 9]]", REFUSED, "num_beams", false},
    {"constraints", RANDOM, IDS, BEAMS, "[[7]]", REFUSED, "force_words_ids", false},
    {"dola_layers", RANDOM, IDS, BEST, "\"high\"", CHANGES, NULL, false},
    {"dola_layers", PAIR, SHORT, BEST, "\"high\"", REFUSED, "DoLa is for models without an encoder",
     false},
    {"seed", RANDOM, IDS, TWELVE ", \"do_sample\": true", "3", CHANGES, NULL, false},
    {"context", RANDOM, IDS, BEST, "false", MOOT, "nothing comes near the context", false},
    {"strict_context", RANDOM, IDS, "\"max_new_tokens\": 5000", "true", REFUSED, "(strict_context)",
     false},
    {"quirks", RANDOM, IDS, BEST ", \"dola_layers\": \"high\"", "true", CHANGES, NULL, false},
    {"watermarking_config", RANDOM, IDS, BEST, "{\"bias\": 20.0}", CHANGES, NULL, false},
    {"prefix_allowed_tokens", RANDOM, IDS, BEST, "{\"cycle\": [[1], [2]]}", CHANGES, NULL, false},
    {"decoder_input_ids", PAIR, SHORT, BEST, "[[0, 5]]", CHANGES, NULL, false},
    {"decoder_attention_mask", PAIR, SHORT, BEST ", \"decoder_input_ids\": [[0, 5, 6]]",
     "[[0, 1, 1]]", CHANGES, NULL, false},
    {"inputs_embeds", RANDOM, IDS, BEST, "[[0.5]]", REFUSED, "inputs_embeds", false},
    {"position_ids", RANDOM, IDS, BEST, "[[0]]", REFUSED, "position_ids", false},
    {"past_key_values", RANDOM, IDS, BEST, "[]", REFUSED, "past_key_values", false},
    {"trust_remote_code", RANDOM, IDS, BEST, "true", MOOT,
     "allows what is never done: to run what a model folder holds", false},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

/* --- running them ------------------------------------------------------------------------------------------------- */

/* What a request gave: its answer without what changes from run to run, or the sentence that refused it. */
typedef struct answer {
    cdz_buf text;
    bool refused;
    uint64_t pass_rows, passes;
} answer;

static void tell(const cdz_json *json, cdz_buf *out)
{
    cdz_json_member kept[64];
    cdz_json rest = {.type = CDZ_JSON_OBJECT, .members = kept};
    for (uint32_t i = 0; i < json->len; i++)
        if (strcmp(json->members[i].key, "timings") != 0 &&
            strcmp(json->members[i].key, "seed") != 0) {
            assert_true(rest.len < 64);
            kept[rest.len++] = json->members[i];
        }
    cdz_json_write(out, &rest);
}

static answer ask(const fixture *f, size_t i, bool with)
{
    answer a = {0};
    cdz_error err = {0};
    cdz_buf document = {0};
    cdz_result *result = NULL;
    cdz_engine_stats before, after;
    cdz_buf_printf(&document, "{%s%s\"kwargs\": {%s", cases[i].prompt ? cases[i].prompt : "",
                   cases[i].prompt ? ", " : "", cases[i].base);
    if (with) cdz_buf_printf(&document, ", \"%s\": %s", cases[i].name, cases[i].with);
    cdz_buf_puts(&document, "}}");
    const cdz_request request = {.size = sizeof request,
                                 .model = f->models[cases[i].model],
                                 .pipeline = f->pipeline,
                                 .assistant = cases[i].draft ? f->drafts[cases[i].model] : NULL,
                                 .json = document.data};
    cdz_engine_get_stats(f->rt->engine, &before);
    const cdz_status status = cdz_generate(f->rt, &request, &result, &err);
    cdz_engine_get_stats(f->rt->engine, &after);
    a.pass_rows = after.pass_rows - before.pass_rows;
    a.passes = after.passes - before.passes;
    a.refused = status != CDZ_OK;
    if (a.refused) {
        cdz_buf_puts(&a.text, err.text);
    } else {
        cdz_arena arena = {0};
        cdz_json json;
        const char *text = cdz_result_json(result);
        must(cdz_json_parse(text, strlen(text), "answer", NULL, &arena, &json, &err), &err);
        tell(&json, &a.text);
        cdz_arena_free(&arena);
    }
    cdz_result_free(result);
    cdz_buf_free(&document);
    return a;
}

static const char *fault(size_t i, const answer *without, const answer *with)
{
    const bool same = strcmp(without->text.data, with->text.data) == 0;
    if (with->refused != (cases[i].verdict == REFUSED))
        return with->refused ? "is refused" : "is not refused";
    switch (cases[i].verdict) {
    case CHANGES: return same ? "changes nothing" : NULL;
    case REFUSED: return strstr(with->text.data, cases[i].says) ? NULL : "is refused otherwise";
    case WORKS:
        if (!same) return "changes the answer";
        return with->pass_rows != without->pass_rows || with->passes != without->passes
                   ? NULL
                   : "takes the same work";
    case MOOT: return same ? NULL : "changes the answer";
    }
    return "has no verdict";
}

static void each_is_honoured_or_refused(void **state)
{
    fixture *f = *state;
    uint32_t n_bad = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        answer without = ask(f, i, false), with = ask(f, i, true);
        const char *bad = fault(i, &without, &with);
        if (bad)
            print_error("%s = %s (case %zu) %s:\n  %.300s\n  %.300s\n", cases[i].name,
                        cases[i].with, i, bad, without.text.data, with.text.data);
        n_bad += bad != NULL;
        cdz_buf_free(&without.text);
        cdz_buf_free(&with.text);
    }
    assert_int_equal(n_bad, 0);
}

/* GenerationConfig of transformers 5.3.0, and what it handles though it moved out. */
static const char *const reference[] = {
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "early_stopping",
    "max_time",
    "stop_strings",
    "do_sample",
    "num_beams",
    "use_cache",
    "cache_implementation",
    "cache_config",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "top_h",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "repetition_penalty",
    "encoder_repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "sequence_bias",
    "renormalize_logits",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "token_healing",
    "guidance_scale",
    "watermarking_config",
    "num_return_sequences",
    "output_scores",
    "output_logits",
    "output_attentions",
    "output_hidden_states",
    "return_dict_in_generate",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "target_lookbehind",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "assistant_early_exit",
    "compile_config",
    "disable_compile",
    "prefill_chunk_size",
    "low_memory",
    "penalty_alpha",
    "dola_layers",
    "num_beam_groups",
    "diversity_penalty",
    "constraints",
    "force_words_ids",
};

static void the_reference_s_are_all_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof reference / sizeof reference[0]; i++)
        if (cdz_generation_slot(reference[i]) < 0) fail_msg("%s: not in the table", reference[i]);
}

static void every_parameter_has_a_case(void **state)
{
    (void)state;
    for (uint32_t slot = 0; slot < cdz_generation_slots(); slot++) {
        const char *name = cdz_generation_slot_name(slot);
        bool found = false;
        for (size_t i = 0; i < N_CASES && !found; i++) found = strcmp(cases[i].name, name) == 0;
        if (!found) fail_msg("%s: no case says what it does", name);
    }
    for (size_t i = 0; i < N_CASES; i++)
        if (cdz_generation_slot(cases[i].name) < 0) fail_msg("%s: not in the table", cases[i].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_s_are_all_there),
        cmocka_unit_test(every_parameter_has_a_case),
        cmocka_unit_test(each_is_honoured_or_refused),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
