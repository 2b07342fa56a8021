/* test_config_file.c - generation configs as files: read, changed, checked, saved; and every parameter transformers has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/config_file.h"

/* --- the table of parameters ------------------------------------------------------------------------------------- */

/* Every parameter of GenerationConfig, a value that acts, and what is said of it: NULL, it is followed; else the words
 * that refuse it. */
static const struct {
    const char *name, *value, *says;
} all[] = {
    {"max_length", "30", NULL},
    {"max_new_tokens", "5", NULL},
    {"min_length", "3", NULL},
    {"min_new_tokens", "3", NULL},
    {"early_stopping", "\"never\"", NULL},
    {"max_time", "2.5", NULL},
    {"stop_strings", "[\".\"]", NULL},
    {"do_sample", "true", NULL},
    {"num_beams", "3", NULL},
    {"use_cache", "false", NULL},
    {"cache_implementation", "\"static\"", NULL},
    {"cache_implementation", "\"nope\"", "no cache is called 'nope'"},
    {"cache_config", "{\"a\": 1}", NULL},
    {"temperature", "0.5", NULL},
    {"top_k", "3", NULL},
    {"top_p", "0.9", NULL},
    {"min_p", "0.1", NULL},
    {"top_h", "0.5", NULL},
    {"typical_p", "0.5", NULL},
    {"epsilon_cutoff", "0.01", NULL},
    {"eta_cutoff", "0.01", NULL},
    {"repetition_penalty", "1.2", NULL},
    {"encoder_repetition_penalty", "1.2", NULL},
    {"length_penalty", "2.0", NULL},
    {"no_repeat_ngram_size", "2", NULL},
    {"encoder_no_repeat_ngram_size", "2", NULL},
    {"bad_words_ids", "[[1]]", NULL},
    {"sequence_bias", "[[[1], 2.0]]", NULL},
    {"renormalize_logits", "true", NULL},
    {"forced_bos_token_id", "1", NULL},
    {"forced_eos_token_id", "[1, 2]", NULL},
    {"remove_invalid_values", "true", NULL},
    {"exponential_decay_length_penalty", "[3, 1.5]", NULL},
    {"suppress_tokens", "[1]", NULL},
    {"begin_suppress_tokens", "[1]", NULL},
    {"guidance_scale", "1.5", NULL},
    {"watermarking_config", "{\"bias\": 1.0}", NULL},
    {"watermarking_config", "{\"ngram_len\": 5}", "no setting of a green list"},
    {"watermarking_config", "{\"greenlist_ratio\": 2.0}", "greenlist_ratio must be"},
    {"num_return_sequences", "2", "greedy decoding gives one sequence"},
    {"output_scores", "true", NULL},
    {"output_logits", "true", NULL},
    {"return_dict_in_generate", "true", NULL},
    {"pad_token_id", "0", NULL},
    {"bos_token_id", "0", NULL},
    {"eos_token_id", "[0, 1]", NULL},
    {"decoder_start_token_id", "0", NULL},
    {"is_assistant", "true", NULL},
    {"num_assistant_tokens", "5", NULL},
    {"num_assistant_tokens_schedule", "\"heuristic\"", NULL},
    {"num_assistant_tokens_schedule", "\"often\"", "constant, heuristic or heuristic_transient"},
    {"assistant_confidence_threshold", "0.2", NULL},
    {"assistant_lookbehind", "5", NULL},
    {"target_lookbehind", "5", NULL},
    {"prompt_lookup_num_tokens", "3", NULL},
    {"max_matching_ngram_size", "2", NULL},
    {"assistant_early_exit", "1", NULL},
    {"compile_config", "{}", "nothing is compiled here"},
    {"disable_compile", "true", NULL},
    {"prefill_chunk_size", "4", NULL},
    {"low_memory", "true", NULL},
    {"penalty_alpha", "0.6", NULL},
    {"num_beam_groups", "2", NULL},
    {"diversity_penalty", "0.5", NULL},
    {"force_words_ids", "[[1]]", NULL},
    {"constraints", "[1]", "write them as force_words_ids"},
    {"max_new_tokens", "0", "max_new_tokens = 0"},
    {"early_stopping", "\"x\"", "early_stopping = \"x\""},
    {"logits_processor", "null", "an argument of a request"},
    {"streamer", "1", "an argument of a request"},
    {"negative_prompt_ids", "null", "an argument of a request"},
};

static void every_parameter_is_followed_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        cdz_arena arena = {0};
        cdz_resolution res;
        cdz_error err = {0};
        cdz_json value;
        assert_int_equal(
            cdz_json_parse(all[i].value, strlen(all[i].value), "", NULL, &arena, &value, &err),
            CDZ_OK);
        cdz_json_member member = {
            .key = all[i].name, .key_len = (uint32_t)strlen(all[i].name), .value = value};
        const struct cdz_config config = {.members = &member, .n = 1};
        cdz_status status = cdz_resolve_config(&config, &arena, &res, &err);
        if (status == CDZ_OK) status = cdz_generation_unsupported(&res, &err);
        if (!all[i].says ? status != CDZ_OK : status == CDZ_OK || !strstr(err.text, all[i].says))
            fail_msg("%s = %s: %d %s", all[i].name, all[i].value, (int)status, err.text);
        if (!all[i].says && cdz_generation_slot(all[i].name) < 0)
            fail_msg("%s is unknown", all[i].name);
        cdz_arena_free(&arena);
    }
}

/* --- files ------------------------------------------------------------------------------------------------------------ */

static char *slurp(const char *path)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void a_config_is_changed_saved_and_read(void **state)
{
    char folder[] = "/tmp/cadenza-config-XXXXXX", path[200];
    cdz_config *config, *again;
    cdz_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    assert_int_equal(cdz_config_open(NULL, &config, &err), CDZ_OK);
    assert_int_equal(cdz_config_set(config, "temperature", "0.7", &err), CDZ_OK);
    assert_int_equal(cdz_config_set(config, "top_k", "5", &err), CDZ_OK);
    assert_int_equal(cdz_config_set(config, "top_k", "none", &err), CDZ_OK);
    assert_int_equal(cdz_config_save(config, folder, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "not saved: temperature: set, but would do nothing");
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(cdz_config_set(config, "do_sample", "true", &err), CDZ_OK);
    assert_int_equal(cdz_config_set(config, "bad_words_ids", "[[1], [2, 3]]", &err), CDZ_OK);
    if (cdz_config_save(config, folder, &err) != CDZ_OK) fail_msg("%s", err.text);
    assert_string_equal(slurp(path),
                        "{\n  \"bad_words_ids\": [\n    [\n      1\n    ],\n    [\n      2,\n"
                        "      3\n    ]\n  ],\n  \"do_sample\": true,\n  \"temperature\": 0.7\n}\n");
    char *json;
    if (cdz_config_open(folder, &again, &err) != CDZ_OK) fail_msg("%s", err.text);
    assert_int_equal(cdz_config_json(again, false, &json, &err), CDZ_OK);
    assert_string_equal(json, slurp(path));
    cdz_free(json);
    assert_int_equal(cdz_config_json(again, true, &json, &err), CDZ_OK);
    assert_non_null(strstr(json, "\"top_k\": 50,"));
    assert_non_null(strstr(json, "\"temperature\": 0.7,"));
    cdz_free(json);
    cdz_config_free(again);
    cdz_config_free(config);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void mistakes_are_told(void **state)
{
    cdz_config *config;
    cdz_error err = {0};
    char *report;
    (void)state;
    assert_int_equal(cdz_config_open("/nowhere/at/all.json", &config, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(
        cdz_config_open(CADENZA_TEST_DATA "/golden/llama_gqa/cases.json", &config, &err),
        CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "expected an object"));
    assert_int_equal(cdz_config_open(NULL, &config, &err), CDZ_OK);
    assert_int_equal(cdz_config_set(config, "temprature", "1", &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "did you mean 'temperature'?"));
    assert_int_equal(cdz_config_set(config, "top_k", "many", &err), CDZ_E_USAGE);
    assert_int_equal(cdz_config_set(config, "top_p", "0.5", &err), CDZ_OK);
    assert_int_equal(cdz_config_validate(config, false, &report, &err), CDZ_OK);
    assert_string_equal(report, "top_p: set, but would do nothing\n");
    cdz_free(report);
    assert_int_equal(cdz_config_validate(config, true, &report, &err), CDZ_E_USAGE);
    cdz_config_free(config);
    cdz_config_free(NULL);
}

/* --- as transformers' own methods ------------------------------------------------------------------------------------- */

/* What GenerationConfig(**config).get_generation_mode(assistant) of transformers 5.3.0 says without and with an assistant. */
static const struct {
    const char *config, *alone, *assisted;
} modes[] = {
    {"{}", "greedy_search", "assisted_generation"},
    {"{\"do_sample\": true}", "sample", "assisted_generation"},
    {"{\"num_beams\": 4}", "beam_search", "beam_search"},
    {"{\"num_beams\": 4, \"do_sample\": true}", "beam_sample", "beam_sample"},
    {"{\"num_beams\": 4, \"num_beam_groups\": 2, \"diversity_penalty\": 0.5}", "group_beam_search",
     "group_beam_search"},
    {"{\"penalty_alpha\": 0.6}", "greedy_search", "assisted_generation"},
    {"{\"penalty_alpha\": 0.6, \"top_k\": 4}", "contrastive_search", "contrastive_search"},
    {"{\"penalty_alpha\": 0.6, \"top_k\": 4, \"do_sample\": true}", "sample", "assisted_generation"},
    {"{\"force_words_ids\": [[1]], \"num_beams\": 2}", "constrained_beam_search",
     "constrained_beam_search"},
    {"{\"prompt_lookup_num_tokens\": 3}", "assisted_generation", "assisted_generation"},
    {"{\"assistant_early_exit\": 1, \"do_sample\": true}", "assisted_generation",
     "assisted_generation"},
    {"{\"dola_layers\": \"high\"}", "dola_generation", "assisted_generation"},
    {"{\"dola_layers\": \"low\", \"prompt_lookup_num_tokens\": 2}", "assisted_generation",
     "assisted_generation"},
    {"{\"num_beams\": 3, \"prompt_lookup_num_tokens\": 2}", "beam_search", "beam_search"},
};

static void the_mode_is_the_reference_s(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        cdz_config *config;
        cdz_error err = {0};
        const char *alone = "", *assisted = "";
        assert_int_equal(cdz_config_open(NULL, &config, &err), CDZ_OK);
        if (cdz_config_update(config, modes[i].config, false, NULL, &err) != CDZ_OK ||
            cdz_config_mode(config, false, &alone, &err) != CDZ_OK ||
            cdz_config_mode(config, true, &assisted, &err) != CDZ_OK)
            fail_msg("%s: %s", modes[i].config, err.text);
        if (strcmp(alone, modes[i].alone) != 0 || strcmp(assisted, modes[i].assisted) != 0)
            fail_msg("%s: %s and %s, expected %s and %s", modes[i].config, alone, assisted,
                     modes[i].alone, modes[i].assisted);
        cdz_config_free(config);
    }
}

static void update(cdz_config *config, const char *json, bool defaults_only, const char *unused)
{
    char *rest;
    cdz_error err = {0};
    if (cdz_config_update(config, json, defaults_only, &rest, &err) != CDZ_OK)
        fail_msg("%s: %s", json, err.text);
    assert_string_equal(rest, unused);
    cdz_free(rest);
}

/* The calls, and what they leave, are those of GenerationConfig.update in transformers 5.3.0. */
static void an_update_returns_what_it_cannot_use(void **state)
{
    char path[] = "/tmp/cadenza-update-XXXXXX", *json;
    cdz_config *config;
    cdz_error err = {0};
    (void)state;
    const int fd = mkstemp(path);
    static const char begin[] = "{\"temperature\": 0.5, \"do_sample\": true, \"custom\": 3}";
    assert_int_equal(write(fd, begin, sizeof begin - 1), sizeof begin - 1);
    close(fd);
    assert_int_equal(cdz_config_open(path, &config, &err), CDZ_OK);
    unlink(path);
    update(config, "{\"temperature\": 0.7, \"nonsense\": 1, \"custom\": 4, \"top_k\": null}", false,
           "{\"nonsense\": 1}");
    update(config, "{\"temperature\": 0.9, \"top_p\": 0.5, \"x\": 2}", true,
           "{\"temperature\": 0.9, \"x\": 2}");
    update(config, "{\"top_k\": null, \"max_length\": 5}", true, "{}");
    static const char after[] =
        "{\n  \"custom\": 4,\n  \"do_sample\": true,\n  \"max_length\": 5,\n"
        "  \"temperature\": 0.7,\n  \"top_p\": 0.5\n}\n";
    assert_int_equal(cdz_config_json(config, false, &json, &err), CDZ_OK);
    assert_string_equal(json, after);
    cdz_free(json);

    /* What cannot be changes nothing, of what comes before it either. */
    char *rest = NULL;
    assert_int_equal(
        cdz_config_update(config, "{\"top_k\": 3, \"max_length\": \"long\"}", false, &rest, &err),
        CDZ_E_USAGE);
    assert_null(rest);
    assert_int_equal(cdz_config_update(config, "[1]", false, &rest, &err), CDZ_E_INPUT);
    assert_int_equal(cdz_config_json(config, false, &json, &err), CDZ_OK);
    assert_string_equal(json, after);
    cdz_free(json);
    cdz_config_free(config);
}

static void a_model_s_config_is_read_for_what_it_says(void **state)
{
    char folder[] = "/tmp/cadenza-model-XXXXXX", path[200], *json;
    cdz_config *config;
    cdz_error err = {0};
    static const char text[] =
        "{\"eos_token_id\": 2, \"hidden_size\": 64, \"output_hidden_states\": true, \"top_k\": null,"
        " \"text_config\": {\"bos_token_id\": 1, \"eos_token_id\": 7}}";
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    FILE *file = fopen(path, "w");
    assert_true(file && fputs("{\"top_k\": 3}", file) >= 0 && fclose(file) == 0);
    assert_int_equal(cdz_config_from_model(folder, &config, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    file = fopen(path, "w");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
    for (int from_file = 0; from_file < 2; from_file++) {
        if (cdz_config_from_model(from_file ? path : folder, &config, &err) != CDZ_OK)
            fail_msg("%s", err.text);
        assert_int_equal(cdz_config_json(config, false, &json, &err), CDZ_OK);
        assert_string_equal(json, "{\n  \"bos_token_id\": 1,\n  \"eos_token_id\": 2,\n"
                                  "  \"output_hidden_states\": true,\n"
                                  "  \"return_dict_in_generate\": true\n}\n");
        cdz_free(json);
        cdz_config_free(config);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_followed_or_refused),
        cmocka_unit_test(a_config_is_changed_saved_and_read),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(the_mode_is_the_reference_s),
        cmocka_unit_test(an_update_returns_what_it_cannot_use),
        cmocka_unit_test(a_model_s_config_is_read_for_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
