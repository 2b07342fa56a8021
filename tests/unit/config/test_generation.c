/* test_generation.c - generation parameters: sources, sentences, mode and lengths, beyond what the recorded cases of
 * validation, lengths and order say (`cadenza parity`, e2e/parity.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/generation.h"
#include "support/documents.h"

/* --- sources --------------------------------------------------------------------------------------------- */

static void put_all(cdz_resolution *res, const cdz_json *object, cdz_source source)
{
    const cdz_origin origin = {.source = source};
    for (uint32_t i = 0; i < object->len; i++) {
        int slot = cdz_generation_slot(object->members[i].key);
        assert_true(slot >= 0);
        cdz_resolution_put(res, (uint32_t)slot, &object->members[i].value, &origin);
    }
}

typedef struct request {
    cdz_arena arena;
    cdz_resolution res;
    cdz_error err;
    cdz_status status;
} request;

/* model and kwargs as JSON objects. */
static void resolve(request *r, const char *model, const char *kwargs)
{
    *r = (request){0};
    r->status = cdz_resolution_begin(&r->res, &r->arena, &r->err);
    assert_int_equal(r->status, CDZ_OK);
    r->status = cdz_resolution_put_model(&r->res, document_of(&r->arena, model), &r->err);
    if (r->status != CDZ_OK) return;
    put_all(&r->res, document_of(&r->arena, kwargs), CDZ_SOURCE_REQUEST);
    r->status = cdz_resolution_finish(&r->res, &r->err);
}

/* What one field is after both sources: written as JSON. */
static const struct {
    const char *name, *model, *kwargs, *field, *expect;
} source_cases[] = {
    {"a default", "{}", "{}", "top_k", "50"},
    {"a default of a real", "{}", "{}", "temperature", "1.0"},
    {"no default", "{}", "{}", "min_p", "null"},
    {"the model's value", "{\"top_k\": 7}", "{}", "top_k", "7"},
    {"null in the model's file is absent", "{\"top_k\": null}", "{}", "top_k", "50"},
    {"the request wins", "{\"top_k\": 7}", "{\"top_k\": 9}", "top_k", "9"},
    {"null in the request turns off", "{\"top_k\": 7}", "{\"top_k\": null}", "top_k", "null"},
    {"null turns a default off", "{}", "{\"top_k\": null}", "top_k", "null"},
    {"null gives a plain field its default", "{\"num_beams\": 3}", "{\"num_beams\": null}",
     "num_beams", "1"},
    {"eos becomes a list", "{\"eos_token_id\": 2}", "{}", "eos_token_id", "[2]"},
    {"several eos", "{\"eos_token_id\": [2, 9]}", "{}", "eos_token_id", "[2, 9]"},
    {"no eos", "{\"eos_token_id\": 2}", "{\"eos_token_id\": null}", "eos_token_id", "null"},
    {"an empty eos list is none", "{}", "{\"eos_token_id\": []}", "eos_token_id", "null"},
    {"pad is the first eos", "{\"eos_token_id\": [9, 2]}", "{}", "pad_token_id", "9"},
    {"a pad of one's own stays", "{\"eos_token_id\": 9, \"pad_token_id\": 0}", "{}", "pad_token_id",
     "0"},
    {"no eos, no pad", "{}", "{}", "pad_token_id", "null"},
    {"pad follows eos when set to null", "{\"eos_token_id\": 9, \"pad_token_id\": 0}",
     "{\"pad_token_id\": null}", "pad_token_id", "9"},
    {"an integer stays one", "{}", "{\"temperature\": 2, \"do_sample\": true}", "temperature", "2"},
    {"unknown keys of the model are passed over", "{\"my_own_key\": 3, \"top_k\": 4}", "{}",
     "top_k", "4"},
    {"a word of early_stopping", "{}", "{\"early_stopping\": \"never\", \"num_beams\": 2}",
     "early_stopping", "\"never\""},
};

static void sources_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof source_cases / sizeof source_cases[0]; i++) {
        request r;
        cdz_buf out = {0};
        const cdz_param *row = cdz_param_find(cdz_generation_table(), source_cases[i].field);
        assert_non_null(row);
        resolve(&r, source_cases[i].model, source_cases[i].kwargs);
        if (r.status != CDZ_OK) fail_msg("%s: %s", source_cases[i].name, r.err.text);
        cdz_param_write(row, &r.res.generation, &out);
        if (strcmp(out.data, source_cases[i].expect) != 0)
            fail_msg("%s: got %s", source_cases[i].name, out.data);
        cdz_buf_free(&out);
        cdz_arena_free(&r.arena);
    }
}

static const struct {
    const char *name, *model, *kwargs, *sentence;
} error_cases[] = {
    {"a wrong type in the model's file", "{\"top_k\": \"x\"}", "{}",
     "generation_config.json: top_k = \"x\": must be an integer"},
    {"a wrong type in the request", "{}", "{\"top_k\": 1.5}",
     "request: top_k = 1.5: must be an integer"},
    {"no new tokens", "{}", "{\"max_new_tokens\": 0}",
     "request: max_new_tokens = 0: must be an integer from 1"},
    {"an unknown cache", "{}", "{\"cache_implementation\": \"statik\"}",
     "request: cache_implementation: no cache is called 'statik': did you mean 'static'?"},
    {"rows without sampling", "{\"num_return_sequences\": 2}", "{}",
     "generation_config.json: num_return_sequences: greedy decoding gives one sequence; set "
     "do_sample = true or more beams"},
    {"more rows than beams", "{}", "{\"num_return_sequences\": 3, \"num_beams\": 2}",
     "request: num_return_sequences: must not be above num_beams"},
    {"low_memory with beams", "{}", "{\"low_memory\": true, \"num_beams\": 2}",
     "request: low_memory: is not possible with beams"},
    {"an empty prefill chunk", "{}", "{\"prefill_chunk_size\": 0}",
     "request: prefill_chunk_size = 0: must be an integer from 1"},
    {"prefill chunks without a cache", "{}", "{\"prefill_chunk_size\": 4, \"use_cache\": false}",
     "request: prefill_chunk_size: needs use_cache = true"},
    {"an argument in the model's file", "{\"streamer\": 1}", "{}",
     "generation_config.json: streamer is an argument of a request, not a parameter of a "
     "configuration"},
    {"a bad word list", "{}", "{\"bad_words_ids\": [1]}",
     "request: bad_words_ids = [1]: must be a list of lists of integers, each -2147483648 to "
     "2147483647"},
};

static void errors_say_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof error_cases / sizeof error_cases[0]; i++) {
        request r;
        resolve(&r, error_cases[i].model, error_cases[i].kwargs);
        if (r.status == CDZ_OK || strcmp(r.err.text, error_cases[i].sentence) != 0)
            fail_msg("%s: got %d %s", error_cases[i].name, (int)r.status, r.err.text);
        cdz_arena_free(&r.arena);
    }
}

/* The sentence of the only warning; NULL: none. */
static const struct {
    const char *name, *model, *kwargs, *sentence;
} warning_cases[] = {
    {"nothing to say", "{}", "{\"do_sample\": true, \"temperature\": 0.5}", NULL},
    {"one parameter", "{}", "{\"temperature\": 0.5}",
     "temperature does nothing without do_sample = true"},
    {"several", "{}", "{\"temperature\": 0.5, \"top_p\": 0.5}",
     "temperature, top_p do nothing without do_sample = true"},
    {"what the model's file sets is not the user's fault", "{\"temperature\": 0.5}", "{}", NULL},
    {"beams", "{}", "{\"length_penalty\": 2.0}",
     "length_penalty does nothing without num_beams above 1"},
    {"a cache's old name", "{}", "{\"cache_implementation\": \"hybrid_chunked\"}",
     "cache_implementation = hybrid_chunked is an old name: write static or offloaded_static"},
    {"the old name in a model's file", "{\"cache_implementation\": \"hybrid\"}", "{}", NULL},
    {"a cache_config that nothing reads", "{}", "{\"cache_config\": {\"nbits\": 4}}",
     "cache_config does nothing without cache_implementation = quantized"},
    {"a cache that is not used", "{}",
     "{\"use_cache\": false, \"cache_implementation\": \"static\"}",
     "cache_implementation does nothing with use_cache = false"},
    {"both lengths", "{}", "{\"max_length\": 9, \"max_new_tokens\": 4}",
     "request: max_length is not used: max_new_tokens is set too, and wins"},
    {"the model's length", "{\"max_length\": 9}", "{\"max_new_tokens\": 4}", NULL},
    {"both minima", "{}", "{\"min_length\": 9, \"min_new_tokens\": 4}",
     "request: min_length is not used: min_new_tokens is set too, and wins"},
    {"a negative eos", "{\"eos_token_id\": -1}", "{\"pad_token_id\": 0}",
     "eos_token_id -1 is negative: no token ever equals it"},
    {"output flags need no switch here", "{}", "{\"output_scores\": true}", NULL},
};

static void warnings_speak_to_the_user(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof warning_cases / sizeof warning_cases[0]; i++) {
        request r;
        resolve(&r, warning_cases[i].model, warning_cases[i].kwargs);
        assert_int_equal(r.status, CDZ_OK);
        const char *expect = warning_cases[i].sentence;
        const cdz_warnings *w = &r.res.warnings;
        if (w->n != (expect ? 1 : 0) || (expect && strcmp(w->at[0], expect) != 0))
            fail_msg("%s: %u warnings, %s", warning_cases[i].name, w->n, w->n ? w->at[0] : "");
        cdz_arena_free(&r.arena);
    }
}

/* --- modes ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *kwargs;
    bool assistant;
    const char *mode;
} mode_cases[] = {
    {"nothing set", "{}", false, "greedy"},
    {"sampling", "{\"do_sample\": true}", false, "sample"},
    {"penalty_alpha with top_k's default", "{\"penalty_alpha\": 0.6}", false, "contrastive"},
    {"penalty_alpha with top_k 1", "{\"penalty_alpha\": 0.6, \"top_k\": 1}", false, "greedy"},
    {"penalty_alpha without top_k", "{\"penalty_alpha\": 0.6, \"top_k\": null}", false, "greedy"},
    {"penalty_alpha while sampling", "{\"penalty_alpha\": 0.6, \"do_sample\": true}", false,
     "sample"},
    {"beams", "{\"num_beams\": 2}", false, "beam"},
    {"beams and sampling", "{\"num_beams\": 2, \"do_sample\": true}", false, "beam_sample"},
    {"groups", "{\"num_beams\": 4, \"num_beam_groups\": 2}", false, "group_beam"},
    {"groups without beams", "{\"num_beam_groups\": 2}", false, "greedy"},
    {"constraints first", "{\"force_words_ids\": [[1]], \"do_sample\": true}", false,
     "constrained_beam"},
    {"an assistant", "{}", true, "assisted"},
    {"an assistant while sampling", "{\"do_sample\": true}", true, "assisted"},
    {"beams ignore the assistant", "{\"num_beams\": 2}", true, "beam"},
    {"prompt lookup", "{\"prompt_lookup_num_tokens\": 3}", false, "prompt_lookup"},
    {"early exit", "{\"assistant_early_exit\": 2}", false, "early_exit"},
    {"dola over greedy", "{\"dola_layers\": \"high\"}", false, "dola"},
    {"an assistant over dola", "{\"dola_layers\": \"high\"}", true, "assisted"},
    {"null is unset", "{\"prompt_lookup_num_tokens\": null, \"dola_layers\": null}", false,
     "greedy"},
};

static void modes_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mode_cases / sizeof mode_cases[0]; i++) {
        request r;
        resolve(&r, "{}", mode_cases[i].kwargs);
        assert_int_equal(r.status, CDZ_OK);
        const char *mode = cdz_mode_name(cdz_generation_mode(&r.res, mode_cases[i].assistant));
        if (strcmp(mode, mode_cases[i].mode) != 0) fail_msg("%s: %s", mode_cases[i].name, mode);
        cdz_arena_free(&r.arena);
    }
}

/* refused: the name in the sentence, NULL when accepted because it changes nothing. */
static const struct {
    const char *kwargs;
    const char *refused;
} unsupported_cases[] = {
    {"{\"guidance_scale\": 1.0}", NULL},
    {"{\"guidance_scale\": 1.5}", NULL},
    {"{\"guidance_scale\": 0.5}", NULL},
    {"{\"token_healing\": false}", NULL},
    {"{\"token_healing\": true}", NULL},
    {"{\"watermarking_config\": null}", NULL},
    {"{\"watermarking_config\": {\"bias\": 1.0}}", NULL},
    {"{\"prefix_allowed_tokens\": {\"cycle\": [[1]]}}", NULL},
    {"{\"prefill_chunk_size\": 4}", NULL},
    {"{\"output_attentions\": true}", NULL},
    {"{\"output_attentions\": false}", NULL},
    {"{\"output_hidden_states\": true}", NULL},
    {"{\"cache_implementation\": \"quantized\"}", NULL},
    {"{\"cache_implementation\": \"static\"}", NULL},
    {"{\"decoder_input_ids\": [[1]]}", NULL},
    {"{\"force_words_ids\": [[1]]}", NULL},
    {"{\"dola_layers\": \"high\"}", NULL},
    {"{\"prompt_lookup_num_tokens\": 3}", NULL},
    {"{\"max_matching_ngram_size\": 3}", NULL},
    {"{\"assistant_early_exit\": 3}", NULL},
    {"{\"diversity_penalty\": 0.5}", NULL},
    {"{\"negative_prompt_ids\": [[1]]}", NULL},
};

static void what_is_not_built_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unsupported_cases / sizeof unsupported_cases[0]; i++) {
        request r;
        char expect[120] = "";
        const char *name = unsupported_cases[i].refused;
        resolve(&r, "{}", unsupported_cases[i].kwargs);
        assert_int_equal(r.status, CDZ_OK);
        cdz_status st = cdz_generation_unsupported(&r.res, &r.err);
        if (name)
            snprintf(expect, sizeof expect, "request: %s: not supported by this version", name);
        if (st != (name ? CDZ_E_UNSUPPORTED : CDZ_OK) || strcmp(r.err.text, expect) != 0)
            fail_msg("%s: got %d %s", unsupported_cases[i].kwargs, (int)st, r.err.text);
        cdz_arena_free(&r.arena);
    }
}

/* --- model files ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *file, *config, *expect;
} model_cases[] = {
    {"the file is the only source", "{\"top_k\": 5}", "{\"eos_token_id\": 2}", "{\"top_k\":5}"},
    {"without a file, config.json", NULL,
     "{\"eos_token_id\": 2, \"hidden_size\": 64, \"temperature\": 0.5}",
     "{\"temperature\":0.5,\"eos_token_id\":2}"},
    {"nulls are dropped", NULL, "{\"eos_token_id\": null, \"pad_token_id\": 0}",
     "{\"pad_token_id\":0}"},
    {"nested text_config fills gaps", NULL,
     "{\"eos_token_id\": 2, \"text_config\": {\"eos_token_id\": 3, \"bos_token_id\": 1}}",
     "{\"eos_token_id\":2,\"bos_token_id\":1}"},
    {"decoder before text_config", NULL,
     "{\"text_config\": {\"bos_token_id\": 1}, \"decoder\": {\"bos_token_id\": 4}}",
     "{\"bos_token_id\":4}"},
    {"an output flag asks for a dict", NULL, "{\"output_scores\": true}",
     "{\"output_scores\":true,\"return_dict_in_generate\":true}"},
    {"a false one does not", NULL, "{\"output_scores\": false}", "{\"output_scores\":false}"},
    {"nothing at all", NULL, NULL, "{}"},
    {"forced bos of an old file",
     "{\"_from_model_config\": true, \"force_bos_token_to_be_generated\": true, "
     "\"bos_token_id\": 7}",
     NULL,
     "{\"_from_model_config\":true,\"force_bos_token_to_be_generated\":true,\"bos_token_id\":7,"
     "\"forced_bos_token_id\":7}"},
};

static void squeeze(char *text)
{
    char *to = text;
    for (; *text; text++)
        if (*text != ' ' && *text != '\n') *to++ = *text;
    *to = '\0';
}

static void model_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof model_cases / sizeof model_cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_buf text = {0};
        cdz_json out;
        cdz_error err = {0};
        const char *file = model_cases[i].file, *config = model_cases[i].config;
        assert_int_equal(cdz_generation_of_model(file ? document_of(&arena, file) : NULL,
                                                 config ? document_of(&arena, config) : NULL,
                                                 &arena, &out, &err),
                         CDZ_OK);
        cdz_json_write(&text, &out);
        squeeze(text.data);
        if (strcmp(text.data, model_cases[i].expect) != 0)
            fail_msg("%s: got %s", model_cases[i].name, text.data);
        cdz_buf_free(&text);
        cdz_arena_free(&arena);
    }
}

static cdz_status resolve_model(cdz_resolution *res, cdz_arena *arena, const cdz_json *model,
                                cdz_error *err)
{
    CDZ_TRY(cdz_resolution_begin(res, arena, err));
    CDZ_TRY(cdz_resolution_put_model(res, model, err));
    return cdz_resolution_finish(res, err);
}

static void sentences_name_config_json(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_resolution res;
    cdz_json model;
    cdz_error err = {0};
    assert_int_equal(cdz_generation_of_model(NULL, document_of(&arena, "{\"top_k\": \"x\"}"),
                                             &arena, &model, &err),
                     CDZ_OK);
    assert_int_equal(resolve_model(&res, &arena, &model, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "config.json: top_k = \"x\": must be an integer");
    cdz_arena_free(&arena);
}

static void a_model_file_must_be_an_object(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_json out;
    cdz_error err = {0};
    assert_int_equal(cdz_generation_of_model(document_of(&arena, "[1]"), NULL, &arena, &out, &err),
                     CDZ_E_INPUT);
    assert_string_equal(err.text, "generation_config.json: holds an array, expected an object");
    cdz_arena_free(&arena);
}

/* --- lengths beyond the vectors ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *kwargs;
    uint32_t prompt, positions, embeds;
    int64_t max, min;
    const char *sentence;
} length_cases[] = {
    {"embeddings count in max_length", "{\"max_length\": 30, \"min_length\": 12}", 0, 64, 10, 20, 2,
     NULL},
    {"embeddings and max_new_tokens", "{\"max_new_tokens\": 5}", 0, 64, 10, 5, 0, NULL},
    {"min_length does not go below 0", "{\"max_length\": 30, \"min_length\": 2}", 0, 64, 10, 20, 0,
     NULL},
    {"more embeddings than room", "{\"max_length\": 8}", 0, 64, 10, 0, 0,
     "the prompt of 0 tokens leaves no room"},
    {"the context is full", "{}", 64, 64, 0, 64, 0, "the prompt of 64 tokens leaves no room"},
    {"no max_length at all", "{\"max_length\": null}", 4, 64, 0, 0, 0,
     "max_length = none needs max_new_tokens"},
    {"max_new_tokens saves it", "{\"max_length\": null, \"max_new_tokens\": 3}", 4, 64, 0, 7, 0,
     NULL},
    {"an absurd length saturates", "{\"max_new_tokens\": 9223372036854775807}", 4, 64, 0,
     UINT32_MAX, 0, NULL},
    {"an absurd minimum", "{\"max_new_tokens\": 1, \"min_new_tokens\": -9223372036854775807}", 4,
     64, 0, 5, 0, NULL},
    {"no known context", "{}", 4, 0, 0, 24, 0, NULL},
};

static void lengths_at_the_edges(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof length_cases / sizeof length_cases[0]; i++) {
        request r;
        cdz_lengths out;
        const char *sentence = length_cases[i].sentence;
        resolve(&r, "{}", length_cases[i].kwargs);
        assert_int_equal(r.status, CDZ_OK);
        cdz_status st =
            cdz_resolve_lengths(&r.res.generation, length_cases[i].prompt,
                                length_cases[i].positions, length_cases[i].embeds, &out, &r.err);
        if ((st == CDZ_OK) != !sentence || (sentence && !strstr(r.err.text, sentence)))
            fail_msg("%s: %d %s", length_cases[i].name, (int)st, r.err.text);
        if (out.max_length != length_cases[i].max || out.min_length != length_cases[i].min)
            fail_msg("%s: %lld, %lld", length_cases[i].name, (long long)out.max_length,
                     (long long)out.min_length);
        cdz_arena_free(&r.arena);
    }
}

static void the_table_is_sane(void **state)
{
    (void)state;
    cdz_error err = {0};
    char text[80];
    if (cdz_param_table_check(cdz_generation_table(), "generation", &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_int_equal(cdz_generation_slot("no_such"), -1);
    cdz_generation_suggest("temprature", NULL, text, sizeof text);
    assert_string_equal(text, ": did you mean 'temperature'?");
    assert_true(cdz_generation_forbidden("streamer"));
    assert_false(cdz_generation_forbidden("top_k"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_in_order),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(warnings_speak_to_the_user),
        cmocka_unit_test(modes_of_the_table),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(model_files),
        cmocka_unit_test(sentences_name_config_json),
        cmocka_unit_test(a_model_file_must_be_an_object),
        cmocka_unit_test(lengths_at_the_edges),
        cmocka_unit_test(the_table_is_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
