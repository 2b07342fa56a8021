/* test_device.c - which device a name means, what is said when it cannot be had, and that a device of its own memory gives
 * what the CPU gives. The backends are tests/backends/far.c, as it is and as another build's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "device/device.h"
#include "run/engine/engine_parts.h"
#include "support/must.h"

#define FAR             CADENZA_BUILD_DIR "/tests/backends/far"
#define OTHER_BUILD     CADENZA_BUILD_DIR "/tests/backends/other_build"
#define OTHER_VERSION   CADENZA_BUILD_DIR "/tests/backends/other_interface"
#define OTHER_SIZE      CADENZA_BUILD_DIR "/tests/backends/other_size"
#define NOWHERE         CADENZA_TEST_DATA "/golden"
#define MODEL           CADENZA_TEST_DATA "/golden/llama_gqa"
#define SHIPPED         CADENZA_TEST_DATA "/../models/pocket-dictionary"
#define ANOTHER_MODEL   CADENZA_TEST_DATA "/golden/llama_draft"
#define RECURRENT_MODEL CADENZA_TEST_DATA "/golden/falcon_h1"

/* --- names ---------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *title, *name, *folder;
    cdz_status status;
    const char *says; /* found: part of the device's name; else of the sentence */
} cases[] = {
    {"nothing is the CPU", NULL, FAR, CDZ_OK, "cpu"},
    {"the CPU needs no folder", "cpu", NOWHERE, CDZ_OK, "cpu"},
    {"a backend's first device", "far", FAR, CDZ_OK, "far:0 a far place, of capability 1"},
    {"its second", "far:1", FAR, CDZ_OK, "far:1 a far place"},
    {"auto takes what is there", "auto", FAR, CDZ_OK, "far:0"},
    {"auto without backends", "auto", NOWHERE, CDZ_OK, "cpu"},
    {"auto passes by what is of another build", "auto", OTHER_BUILD, CDZ_OK, "cpu"},
    {"no third", "far:2", FAR, CDZ_E_USAGE, "there are fewer, up to far:1"},
    {"a nearest name", "cudda", FAR, CDZ_E_USAGE, "did you mean 'cuda'?"},
    {"the nearest of a name with a number", "fax:0", FAR, CDZ_E_USAGE, "did you mean 'far'?"},
    {"none is near", "toaster", FAR, CDZ_E_USAGE, "expected one of cpu, auto, cuda[:N], far[:N]"},
    {"a number that is none", "far:x", FAR, CDZ_E_USAGE,
     "device 'far:x': expected far:0, far:1 and so on"},
    {"a number with a sign", "far:-1", FAR, CDZ_E_USAGE,
     "device 'far:-1': expected far:0, far:1 and so on"},
    {"a colon alone", "far:", FAR, CDZ_E_USAGE, "device 'far:'"},
    {"a path is no name", "./far.so", FAR, CDZ_E_USAGE, "there is no such device"},
    {"cuda is known and not there", "cuda", NOWHERE, CDZ_E_UNSUPPORTED,
     "this installation has no backend for it: " NOWHERE "/cuda.so is not there"},
    {"another build", "far", OTHER_BUILD, CDZ_E_UNSUPPORTED, "is of build 0.0.0-other"},
    {"another interface", "far", OTHER_VERSION, CDZ_E_UNSUPPORTED, "was built for interface 999"},
    {"other operations", "far", OTHER_SIZE, CDZ_E_UNSUPPORTED,
     " bytes and operations of 8, this program of "},
};

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cdz_device_wish wish = {.name = cases[i].name, .folder = cases[i].folder};
        cdz_device_found found;
        cdz_error err = {0};
        const cdz_status status = cdz_device_find(&wish, &found, &err);
        const char *said = status == CDZ_OK ? found.name : err.text;
        if (status != cases[i].status || !strstr(said, cases[i].says))
            fail_msg("%s: status %d, said: %s", cases[i].title, (int)status, said);
        const bool fell_back = cases[i].name && strcmp(cases[i].name, "auto") == 0 && !found.entry;
        if (status == CDZ_OK && fell_back != (found.why[0] != '\0'))
            fail_msg("%s: why: %s", cases[i].title, found.why);
    }
}

static void test_no_device(void **state)
{
    (void)state;
    const cdz_device_wish wish = {.name = "far", .folder = FAR}, any = {"auto", FAR, 0, false};
    cdz_device_found found;
    cdz_error err = {0};
    setenv("FAR_NONE", "1", 1);
    assert_int_equal(cdz_device_find(&wish, &found, &err), CDZ_E_UNSUPPORTED);
    assert_string_equal(err.text, "device far: there is none here: there is nothing far from here");
    must(cdz_device_find(&any, &found, &err), &err);
    unsetenv("FAR_NONE");
    assert_null(found.entry);
    assert_string_equal(found.why, "device far: there is none here: there is nothing far from here");
}

/* The words of the table, and nothing else; what the first ones mean is in every other test. */
static void test_words(void **state)
{
    (void)state;
    static const struct {
        cdz_options options;
        const char *says;
    } wrong[] = {
        {{.precision = "f16"}, "precision: there is no 'f16', expected auto or f32"},
        {{.determinism = "loose"}, "determinism: there is no 'loose', expected default or strict"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cdz_options options = wrong[i].options;
        cdz_runtime *rt = NULL;
        cdz_error err = {0};
        options.size = sizeof options;
        assert_int_equal(cdz_open(&options, &rt, &err), CDZ_E_USAGE);
        assert_non_null(strstr(err.text, wrong[i].says));
    }
    cdz_runtime *rt = NULL;
    cdz_error err = {0};
    const cdz_options good = {
        .size = sizeof good, .precision = "f32", .determinism = "strict", .n_threads = 1};
    must(cdz_open(&good, &rt, &err), &err);
    cdz_close(rt);
}

/* --- a runtime on it ------------------------------------------------------------------------------------------------ */

typedef struct heard {
    char text[1024];
    uint64_t done, bytes;
    bool in_order;
} heard;

static void hear(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    heard *h = user;
    snprintf(h->text + strlen(h->text), sizeof h->text - strlen(h->text), "%d %s: %s\n", (int)level,
             plugin, text);
}

static void see_loading(void *user, const char *model, uint64_t done, uint64_t bytes)
{
    heard *h = user;
    h->in_order = strstr(model, "llama") && done > h->done && done <= bytes;
    h->done = done == bytes ? 0 : done;
    h->bytes = bytes;
}

static cdz_status open_on(const char *device, heard *h, cdz_runtime **out, cdz_error *err)
{
    const cdz_options options = {
        .size = sizeof options, .device = device, .log = hear, .loading = see_loading, .log_user = h};
    return cdz_open(&options, out, err);
}

static char *run_as(cdz_runtime *rt, cdz_model *model, cdz_model *assistant, const char *asked)
{
    cdz_error err = {0};
    cdz_result *result;
    const cdz_request request = {
        .size = sizeof request, .model = model, .assistant = assistant, .json = asked};
    must(cdz_generate(rt, &request, &result, &err), &err);
    char *json = strdup(cdz_result_json(result));
    cdz_result_free(result);
    return json;
}

static char *run(cdz_runtime *rt, cdz_model *model, cdz_model *assistant)
{
    return run_as(rt, model, assistant,
                  "{\"prompt_ids\": [[1, 5, 9, 13, 17]], "
                  "\"kwargs\": {\"max_new_tokens\": 12, \"do_sample\": false}}");
}

/* The ids of a result's document; times differ. */
static void same_ids(const char *a, const char *b)
{
    const char *x = strstr(a, "\"sequences\""), *y = strstr(b, "\"sequences\"");
    assert_non_null(x);
    assert_non_null(y);
    const char *end = strstr(x, "]]");
    assert_non_null(end);
    assert_true(end - x > 40);
    assert_memory_equal(x, y, (size_t)(end - x) + 2);
}

static void test_same_tokens(void **state)
{
    (void)state;
    char *texts[2];
    for (int i = 0; i < 2; i++) {
        heard h = {0};
        cdz_error err = {0};
        cdz_runtime *rt;
        cdz_model *model, *draft;
        const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
        must(open_on(i ? "far:1" : "cpu", &h, &rt, &err), &err);
        must(cdz_model_open(rt, MODEL, &how, &model, &err), &err);
        must(cdz_model_open(rt, ANOTHER_MODEL, &how, &draft, &err), &err);
        assert_string_equal(rt->engine->device->api->device, i ? "far:1 a far place" : "cpu");
        texts[i] = run(rt, model, draft);
        assert_string_equal(h.text, "");
        assert_true(i ? h.bytes > 0 && h.in_order : h.bytes == 0);
        cdz_model_close(draft);
        cdz_model_close(model);
        cdz_close(rt);
    }
    same_ids(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
}

/* --- rows of scores ------------------------------------------------------------------------------------------------- */

enum { FIVE_STEPS = 5, ENDING_STEPS = 12 };

static const struct {
    const char *title, *request;
    uint64_t away,
        fetched; /* rows that passes left on the device, and those that were read after all */
    const char *reader; /* whom a profile names, of those that came with passes; NULL: not looked at */
} rows_of[] = {
    {"greedy rows stay", "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5}}",
     FIVE_STEPS, 0, NULL},
    {"of a batch too, prompts alike",
     "{\"prompt_ids\": [[1, 5, 9], [1, 5, 9], [2, 4, 8]], \"kwargs\": {\"max_new_tokens\": 5}}",
     3 * FIVE_STEPS, 0, NULL},
    {"recorded ones come at once",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"return_dict_in_generate\": true, \"output_scores\": true}}",
     0, 0, "the answer"},
    {"processors read theirs",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, \"do_sample\": true, "
     "\"typical_p\": 0.5, \"seed\": 2}}",
     0, 0, "typical_p"},
    {"of a penalty the row's ids come",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, \"repetition_penalty\": 1.3}}",
     FIVE_STEPS, 0, NULL},
    {"of one that raises",
     "{\"prompt_ids\": [[1, 5, 9], [7, 7, 7]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"repetition_penalty\": 0.6}}",
     2 * FIVE_STEPS, 0, NULL},
    {"of one, rows alike",
     "{\"prompt_ids\": [[1, 5, 9], [1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"repetition_penalty\": 1.9}}",
     2 * FIVE_STEPS, 0, NULL},
    {"of all that change few scores",
     "{\"prompt_ids\": [[1, 5, 9, 5], [2, 2, 2, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"repetition_penalty\": 1.1, \"no_repeat_ngram_size\": 2, \"bad_words_ids\": [[17], [5, 40]], "
     "\"sequence_bias\": [[[33], 4.0], [[9, 5], -2.5]], \"suppress_tokens\": [4, 100, 9999], "
     "\"begin_suppress_tokens\": [31], \"min_new_tokens\": 3, \"eos_token_id\": [2, 370], "
     "\"encoder_repetition_penalty\": 1.2, \"encoder_no_repeat_ngram_size\": 3, "
     "\"exponential_decay_length_penalty\": [3, 1.01]}}",
     2 * FIVE_STEPS, 0, NULL},
    {"a masked end that is favoured is NaN, and reads its row",
     "{\"prompt_ids\": [[11, 15, 19, 21, 25, 29, 31, 35, 39]], "
     "\"kwargs\": {\"max_new_tokens\": 5, \"min_new_tokens\": 4, "
     "\"eos_token_id\": 2, \"exponential_decay_length_penalty\": [2, 1.01]}}",
     4, 1, NULL},
    {"a forced token reads its row",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, \"forced_eos_token_id\": 8}}",
     FIVE_STEPS - 1, 0, "forced_eos_token_id"},
    {"drawn after a penalty",
     "{\"prompt_ids\": [[1, 5, 9], [1, 7, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 6, \"temperature\": 0.7, \"top_k\": 12, "
     "\"repetition_penalty\": 1.7}}",
     2 * FIVE_STEPS, 0, NULL},
    {"drawn by probability after penalties",
     "{\"prompt_ids\": [[1, 5, 9], [1, 7, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 8, \"temperature\": 0.4, \"top_k\": 0, \"top_p\": 0.8, "
     "\"repetition_penalty\": 0.8, \"no_repeat_ngram_size\": 1}}",
     2 * FIVE_STEPS, 0, NULL},
    {"drawn from all tokens after a penalty",
     "{\"prompt_ids\": [[1, 5, 9], [1, 7, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 5, \"top_k\": 0, \"temperature\": 0.15, "
     "\"repetition_penalty\": 1.5}}",
     2 * FIVE_STEPS, 0, NULL},
    {"of a constraint the mask goes there",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"regex\": \"[a-m ]{200,}\"}}",
     FIVE_STEPS, 0, NULL},
    {"of rows in several places of it",
     "{\"prompt_ids\": [[1, 5, 9], [1, 5, 9], [2, 4, 8]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"repetition_penalty\": 1.4, \"no_repeat_ngram_size\": 1, "
     "\"regex\": \"([a-m][n-z]? ){90,}\"}}",
     3 * FIVE_STEPS, 0, NULL},
    {"of one that ends",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 30, "
     "\"choice\": [\"yesterday at noon\", \"yet another day\"]}}",
     ENDING_STEPS, 0, NULL},
    {"drawn within one",
     "{\"prompt_ids\": [[1, 5, 9], [1, 7, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 8, \"temperature\": 0.7, \"top_k\": 12, \"top_p\": 0.9, "
     "\"min_p\": 0.01, \"repetition_penalty\": 1.2, \"regex\": \"[a-p ]{200,}\"}}",
     2 * FIVE_STEPS, 0, NULL},
    {"drawn from all that it allows",
     "{\"prompt_ids\": [[1, 5, 9], [1, 7, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 8, \"temperature\": 0.9, \"top_k\": 0, "
     "\"regex\": \"[^q]{200,}\"}}",
     2 * FIVE_STEPS, 0, NULL},
    {"whose search reads the rows",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, \"num_beams\": 2, "
     "\"regex\": \"[a-m ]{200,}\"}}",
     2, 2, "beam"},
    {"drawn rows stay",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, \"do_sample\": true, "
     "\"seed\": 3, \"temperature\": 0.8, \"top_k\": 20, \"top_p\": 0.9, \"min_p\": 0.02}}",
     FIVE_STEPS, 0, NULL},
    {"of a batch too",
     "{\"prompt_ids\": [[1, 5, 9], [1, 5, 9], [7, 3, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 4, \"top_k\": 50}}",
     3 * FIVE_STEPS, 0, NULL},
    {"drawn from all tokens",
     "{\"prompt_ids\": [[1, 5, 9], [7, 3, 2]], \"kwargs\": {\"max_new_tokens\": 5, "
     "\"do_sample\": true, \"seed\": 5, \"top_k\": 0, \"temperature\": 0.15}}",
     2 * FIVE_STEPS, 0, NULL},
    {"drawn from all tokens of flat rows, of which single scores are read",
     "{\"prompt_ids\": [[1, 5, 9], [7, 3, 2]], \"kwargs\": {\"max_new_tokens\": 12, "
     "\"do_sample\": true, \"seed\": 5, \"top_k\": 0, \"temperature\": 1.5}}",
     2 * 12, 0, NULL},
    {"drawn from all tokens of flat rows after penalties, which some of those that have a chance have had",
     "{\"prompt_ids\": [[1, 5, 9, 44, 71, 100, 13, 17, 66, 200, 201, 202], [7, 3, 2]], "
     "\"kwargs\": {\"max_new_tokens\": 12, \"do_sample\": true, \"seed\": 6, \"top_k\": 0, "
     "\"temperature\": 3.5, \"repetition_penalty\": 1.5}}",
     18, 3, "cuts below the leaders"},
    {"drawn without processors, which the first draw tells",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 12, "
     "\"do_sample\": true, \"seed\": 5, \"top_k\": 0}}",
     12, 1, NULL},
    {"who reads the first is given the others",
     "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, \"num_beams\": 2}}", 2, 2,
     "beam"},
};

static char *answer_on(const char *device, const char *request, cdz_engine_stats *stats,
                       char **profile)
{
    cdz_error err = {0};
    const cdz_options options = {.size = sizeof options, .device = device, .profile = true};
    cdz_runtime *rt;
    cdz_model *model;
    cdz_result *result;
    const cdz_model_options how = {.size = sizeof how};
    must(cdz_open(&options, &rt, &err), &err);
    must(cdz_model_open(rt, MODEL, &how, &model, &err), &err);
    const cdz_request asked = {.size = sizeof asked, .model = model, .json = request};
    must(cdz_generate(rt, &asked, &result, &err), &err);
    char *json = strdup(cdz_result_json(result));
    cdz_engine_get_stats(rt->engine, stats);
    *profile = cdz_profile_json(rt);
    cdz_result_free(result);
    cdz_model_close(model);
    cdz_close(rt);
    return json;
}

/* Caches that a device cannot keep are refused by name. */
static void test_caches(void **state)
{
    static const struct {
        const char *cache, *says;
    } caches[] = {
        {"static", NULL},
        {"quantized", "far does not quantise keys and values; cpu does"},
        {"offloaded", "cache_implementation = offloaded: keys and values stay in the memory of far"},
        {"offloaded_static", "cache_implementation = offloaded_static: keys and values stay"},
    };
    (void)state;
    cdz_error err = {0};
    cdz_runtime *rt;
    cdz_model *model;
    const cdz_options options = {.size = sizeof options, .device = "far"};
    const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
    must(cdz_open(&options, &rt, &err), &err);
    must(cdz_model_open(rt, CADENZA_TEST_DATA "/golden/qwen3", &how, &model, &err), &err);
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        char json[256];
        cdz_result *result = NULL;
        snprintf(json, sizeof json,
                 "{\"prompt_ids\": [[1, 5]], \"kwargs\": {\"max_new_tokens\": 2, "
                 "\"cache_implementation\": \"%s\"}}",
                 caches[i].cache);
        const cdz_request asked = {.size = sizeof asked, .model = model, .json = json};
        const cdz_status status = cdz_generate(rt, &asked, &result, &err);
        if (status != (caches[i].says ? CDZ_E_UNSUPPORTED : CDZ_OK) ||
            (caches[i].says && !strstr(err.text, caches[i].says)))
            fail_msg("%s: got %d %s", caches[i].cache, (int)status, err.text);
        cdz_result_free(result);
    }
    cdz_model_close(model);
    cdz_close(rt);
}

static void test_rows_stay_away(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows_of / sizeof *rows_of; i++) {
        cdz_engine_stats here, far;
        char *profiles[2], reader[100] = "";
        char *texts[] = {answer_on("cpu", rows_of[i].request, &here, &profiles[0]),
                         answer_on("far", rows_of[i].request, &far, &profiles[1])};
        if (rows_of[i].reader)
            snprintf(reader, sizeof reader, "\"reader\": \"%s\"", rows_of[i].reader);
        same_ids(texts[0], texts[1]);
        if (here.rows_away || far.rows_away != rows_of[i].away ||
            far.rows_fetched != rows_of[i].fetched)
            fail_msg("%s: %u rows stayed away, %u of them were fetched", rows_of[i].title,
                     (unsigned)far.rows_away, (unsigned)far.rows_fetched);
        assert_non_null(strstr(profiles[0], "\"away\": 0, \"fetched\": 0, \"brought\": 0"));
        if (!strstr(profiles[1], reader))
            fail_msg("%s: the profile says %s", rows_of[i].title, profiles[1]);
        for (int k = 0; k < 2; k++) {
            free(texts[k]);
            free(profiles[k]);
        }
    }
}

/* A device that takes no masks has the rows read. */
static void test_no_masks_there(void **state)
{
    (void)state;
    static const char request[] =
        "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": {\"max_new_tokens\": 5, "
        "\"regex\": \"[a-m ]{200,}\"}}";
    cdz_engine_stats here, far;
    char *profiles[2];
    setenv("FAR_NO_MASKS", "1", 1);
    char *texts[] = {answer_on("cpu", request, &here, &profiles[0]),
                     answer_on("far", request, &far, &profiles[1])};
    unsetenv("FAR_NO_MASKS");
    same_ids(texts[0], texts[1]);
    assert_true(far.rows_away == 0);
    assert_non_null(strstr(profiles[1], "\"reader\": \"grammar\""));
    for (int k = 0; k < 2; k++) {
        free(texts[k]);
        free(profiles[k]);
    }
}

/* What cannot be answered is said in the same words, though the row was masked where nobody looked. */
static void test_nothing_can_come(void **state)
{
    (void)state;
    char said[2][sizeof((cdz_error *)0)->text];
    for (int k = 0; k < 2; k++) {
        cdz_error err = {0};
        const cdz_options options = {.size = sizeof options, .device = k ? "far" : "cpu"};
        cdz_runtime *rt;
        cdz_model *model;
        cdz_result *result = NULL;
        const cdz_model_options how = {.size = sizeof how};
        must(cdz_open(&options, &rt, &err), &err);
        must(cdz_model_open(rt, MODEL, &how, &model, &err), &err);
        const cdz_request asked = {.size = sizeof asked,
                                   .model = model,
                                   .json = "{\"prompt_ids\": [[1, 5, 9]], \"kwargs\": "
                                           "{\"max_new_tokens\": 9, \"min_new_tokens\": 9, "
                                           "\"choice\": [\"a\"]}}"};
        assert_int_equal(cdz_generate(rt, &asked, &result, &err), CDZ_E_INPUT);
        snprintf(said[k], sizeof said[k], "%s", err.text);
        cdz_result_free(result);
        cdz_model_close(model);
        cdz_close(rt);
    }
    assert_non_null(strstr(said[0], "no token can come next"));
    assert_string_equal(said[0], said[1]);
}

static void test_auto_says_so(void **state)
{
    (void)state;
    heard h = {0};
    cdz_error err = {0};
    cdz_runtime *rt;
    cdz_model *model;
    const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
    setenv("FAR_NONE", "1", 1);
    must(open_on("auto", &h, &rt, &err), &err);
    must(cdz_model_open(rt, MODEL, &how, &model, &err), &err);
    unsetenv("FAR_NONE");
    assert_string_equal(h.text, "2 device: auto: passes run on the CPU: device far: there is none "
                                "here: there is nothing far from here\n");
    cdz_model_close(model);
    cdz_close(rt);
}

/* --- [model] device ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *title, *option, *ini, *set;
    cdz_status status;
    const char *says; /* what a model runs on; else part of the sentence */
} pipelines[] = {
    {"a file says it", NULL, "[model]\ndevice = far:1\n", NULL, CDZ_OK, "far:1 a far place"},
    {"beside what the drafter has", NULL, "[model]\nnum_assistant_tokens = 3\ndevice = far\n", NULL,
     CDZ_OK, "far:0 a far place"},
    {"none is nothing", NULL, "[model]\ndevice = none\n", NULL, CDZ_OK, "cpu"},
    {"the option wins", "cpu", "[model]\ndevice = far\n", NULL, CDZ_OK, "cpu"},
    {"a name that is none", NULL, "\n[model]\ndevice = fra\n", NULL, CDZ_E_USAGE,
     "story.ini:3: [model]: device 'fra': there is no such device; did you mean 'far'?"},
    {"not on the command line", NULL, "", "far", CDZ_E_USAGE,
     "belongs in a file; else say --device"},
};

static void test_pipelines(void **state)
{
    (void)state;
    const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        heard h = {0};
        cdz_error err = {0};
        cdz_runtime *rt;
        cdz_model *model = NULL;
        cdz_pipeline *pipeline = NULL;
        must(open_on(pipelines[i].option, &h, &rt, &err), &err);
        cdz_status status = cdz_pipeline_parse(rt, pipelines[i].ini, strlen(pipelines[i].ini),
                                               "story.ini", &pipeline, &err);
        if (status == CDZ_OK && pipelines[i].set)
            status = cdz_pipeline_set(pipeline, "model.device", pipelines[i].set, &err);
        if (status == CDZ_OK) status = cdz_model_open(rt, MODEL, &how, &model, &err);
        const char *said = status == CDZ_OK ? rt->engine->device->api->device : err.text;
        if (status != pipelines[i].status || !strstr(said, pipelines[i].says))
            fail_msg("%s: status %d, said: %s", pipelines[i].title, (int)status, said);
        if (model) free(run(rt, model, NULL));
        cdz_model_close(model);
        cdz_pipeline_free(pipeline);
        cdz_close(rt);
    }
}

/* What KV caches keep is found in the same places. */
static const struct {
    const char *title, *option, *ini;
    cdz_status status;
    cdz_dtype kept;
    const char *says;
} kept[] = {
    {"nothing is f32", NULL, "", CDZ_OK, CDZ_F32, ""},
    {"a file says it", NULL, "[model]\nkv_cache = bf16\n", CDZ_OK, CDZ_BF16, ""},
    {"with a device and a drafter's key", NULL,
     "[model]\nkv_cache = f16\nnum_assistant_tokens = 3\ndevice = far\n", CDZ_OK, CDZ_F16, ""},
    {"none is nothing", NULL, "[model]\nkv_cache = none\n", CDZ_OK, CDZ_F32, ""},
    {"the option wins", "f16", "[model]\nkv_cache = bf16\n", CDZ_OK, CDZ_F16, ""},
    {"an option of f32 too", "f32", "[model]\nkv_cache = bf16\n", CDZ_OK, CDZ_F32, ""},
    {"an option that is none", "f61", "", CDZ_E_USAGE, CDZ_F32, "KV cache: there is no type 'f61'"},
    {"a type that is none", NULL, "\n[model]\nkv_cache = bf17\n", CDZ_E_USAGE, CDZ_F32,
     "story.ini:3: [model]: KV cache: there is no type 'bf17' here, expected one of f32, f16, bf16, q8_0, q4_0: "
     "did you mean 'bf16'?"},
    {"one in blocks", "q8_0", "", CDZ_OK, CDZ_Q8_0, ""},
    {"a file says blocks, on a device", NULL, "[model]\nkv_cache = q8_0\ndevice = far\n", CDZ_OK,
     CDZ_Q8_0, ""},
    {"blocks that do not fit", NULL, "[model]\nkv_cache = q8_0\n", CDZ_E_UNSUPPORTED, CDZ_F32,
     "KV cache in Q8_0: blocks of 32 numbers do not go into this model's heads of 12; f16 or bf16 do"},
    {"one in smaller blocks", "q4_0", "", CDZ_OK, CDZ_Q4_0, ""},
    {"smaller blocks that do not fit", "q4_0", "", CDZ_E_UNSUPPORTED, CDZ_F32,
     "KV cache in Q4_0: blocks of 32 numbers do not go into this model's heads of 12; f16 or bf16 do"},
    {"other blocks", NULL, "[model]\nkv_cache = q4_1\n", CDZ_E_USAGE, CDZ_F32,
     "there is no type 'q4_1' here"},
};

static void test_kept(void **state)
{
    (void)state;
    const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        cdz_error err = {0};
        cdz_runtime *rt = NULL;
        cdz_model *model = NULL;
        cdz_pipeline *pipeline = NULL;
        const cdz_options options = {.size = sizeof options, .kv_cache = kept[i].option};
        cdz_status status = cdz_open(&options, &rt, &err);
        if (status == CDZ_OK)
            status = cdz_pipeline_parse(rt, kept[i].ini, strlen(kept[i].ini), "story.ini",
                                        &pipeline, &err);
        /* of these, only the shipped model has heads of a multiple of 32 */
        const char *folder = kept[i].kept >= CDZ_N_PLAIN ? SHIPPED : MODEL;
        if (status == CDZ_OK) status = cdz_model_open(rt, folder, &how, &model, &err);
        if (status != kept[i].status || !strstr(err.text, kept[i].says))
            fail_msg("%s: status %d, said: %s", kept[i].title, (int)status, err.text);
        if (model && cdz_run_model_kv_type(model->run) != kept[i].kept)
            fail_msg("%s: kept as %s", kept[i].title,
                     cdz_dtype_name(cdz_run_model_kv_type(model->run)));
        if (model) free(run(rt, model, NULL));
        cdz_model_close(model);
        cdz_pipeline_free(pipeline);
        cdz_close(rt);
    }
}

static const struct {
    const char *ini, *says;
} too_late[] = {
    {"[model]\ndevice = far\n", "late.ini:2: [model]: device 'far': models are open on cpu already"},
    {"[model]\nkv_cache = f16\n",
     "late.ini:2: [model]: KV cache in F16: models are open with F32 already"},
    {"[model]\nnuma = spread\n",
     "late.ini:2: [model]: numa spread: models are open with off already"},
};

static void test_too_late(void **state)
{
    (void)state;
    heard h = {0};
    cdz_error err = {0};
    cdz_runtime *rt;
    cdz_model *model;
    cdz_pipeline *pipeline;
    const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
    must(open_on(NULL, &h, &rt, &err), &err);
    must(cdz_model_open(rt, MODEL, &how, &model, &err), &err);
    for (size_t i = 0; i < sizeof too_late / sizeof *too_late; i++) {
        const char *ini = too_late[i].ini;
        assert_int_equal(cdz_pipeline_parse(rt, ini, strlen(ini), "late.ini", &pipeline, &err),
                         CDZ_E_STATE);
        assert_string_equal(err.text, too_late[i].says);
    }
    static const char same[] = "[model]\ndevice = cpu\nkv_cache = f32\nnuma = off\n";
    must(cdz_pipeline_parse(rt, same, strlen(same), "late.ini", &pipeline, &err), &err);
    cdz_pipeline_free(pipeline);
    cdz_model_close(model);
    cdz_close(rt);
}

static void test_refused_at_open(void **state)
{
    (void)state;
    heard h = {0};
    cdz_error err = {0};
    cdz_runtime *rt;
    assert_int_equal(open_on("fur", &h, &rt, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "did you mean 'far'?"));
}

/* --- memory --------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *title, *memory;
    uint64_t kv_bytes;
    cdz_status status;
    const char *says;
} fits[] = {
    {"plenty", "268435456", 0, CDZ_OK, ""},
    {"not even the weights", "40960", 0, CDZ_E_LIMIT,
     "but of the 40.0 KiB of far:0 a far place only"},
    {"more KV memory than is left", "268435456", (uint64_t)1 << 30, CDZ_E_LIMIT,
     "KV memory: 1.0 GiB were asked for, but beside the weights far:0 a far place has room for"},
};

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
        cdz_error err = {0};
        cdz_runtime *rt;
        cdz_model *model = NULL;
        const cdz_options options = {
            .size = sizeof options, .device = "far", .kv_bytes = fits[i].kv_bytes};
        const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
        setenv("FAR_MEMORY", fits[i].memory, 1);
        must(cdz_open(&options, &rt, &err), &err);
        const cdz_status status = cdz_model_open(rt, MODEL, &how, &model, &err);
        if (status != fits[i].status || !strstr(err.text, fits[i].says))
            fail_msg("%s: status %d, said: %s", fits[i].title, (int)status, err.text);
        cdz_model_close(model);
        cdz_close(rt);
    }
    unsetenv("FAR_MEMORY");
}

/* A runtime on a device of 64 MiB, where one model is open and another can be. */
typedef struct shared_device {
    heard heard;
    cdz_runtime *rt;
    cdz_model *model, *draft;
} shared_device;

static void open_one_more(shared_device *d, const char *path, cdz_model **out)
{
    const cdz_model_options how = {.size = sizeof how, .no_tokenizer = true};
    cdz_error err = {0};
    must(cdz_model_open(d->rt, path, &how, out, &err), &err);
}

static void open_shared_with(shared_device *d, const char *path)
{
    cdz_error err = {0};
    *d = (shared_device){0};
    setenv("FAR_MEMORY", "67108864", 1);
    must(open_on("far", &d->heard, &d->rt, &err), &err);
    open_one_more(d, path, &d->model);
}

static void open_shared(shared_device *d)
{
    open_shared_with(d, MODEL);
}

static void close_shared(shared_device *d)
{
    cdz_model_close(d->draft);
    cdz_model_close(d->model);
    cdz_close(d->rt);
    unsetenv("FAR_MEMORY");
}

/* Two models' pools share what is free by the size of their blocks, and a request asks no more than both have. */
static void test_pools_share(void **state)
{
    (void)state;
    shared_device d;
    open_shared(&d);
    open_one_more(&d, ANOTHER_MODEL, &d.draft);
    const uint64_t limit = d.rt->engine->budget.limit;
    assert_true(limit > 0 && limit < 67108864);
    free(run(d.rt, d.model, d.draft));
    const cdz_kv_pool *a = d.model->run->pool, *b = d.draft->run->pool;
    assert_int_equal(cdz_kv_pool_blocks(a), cdz_kv_pool_blocks(b));
    assert_true(cdz_kv_pool_bytes(a) + cdz_kv_pool_bytes(b) <= limit);
    close_shared(&d);
}

/* A model that is opened when another has run already takes its share of what that one leaves. */
static void test_opened_later(void **state)
{
    (void)state;
    shared_device d;
    open_shared(&d);
    free(run(d.rt, d.model, NULL));
    const uint32_t alone = cdz_kv_pool_blocks(d.model->run->pool);
    open_one_more(&d, ANOTHER_MODEL, &d.draft);
    free(run(d.rt, d.model, d.draft));
    const uint32_t shared = cdz_kv_pool_blocks(d.model->run->pool);
    assert_true(shared < alone);
    assert_int_equal(shared, cdz_kv_pool_blocks(d.draft->run->pool));
    free(run(d.rt, d.model, NULL));
    assert_int_equal(cdz_kv_pool_blocks(d.model->run->pool), shared);
    close_shared(&d);
}

/* States lie beside blocks, within what is free, and a request that finds too few of one has the others given up for it. */
static void test_states_share(void **state)
{
    (void)state;
    shared_device d;
    open_shared_with(&d, RECURRENT_MODEL);
    const cdz_run_model *m = d.model->run;
    const uint64_t limit = d.rt->engine->budget.limit;
    free(run(d.rt, d.model, NULL));
    const uint32_t states = cdz_kv_pool_blocks(m->states), blocks = cdz_kv_pool_blocks(m->pool);
    assert_true(states >= CDZ_STATES_A_ROW && blocks > 0);
    assert_true(cdz_kv_pool_bytes(m->states) + cdz_kv_pool_bytes(m->pool) <= limit);
    assert_true(states < 160);
    free(run_as(d.rt, d.model, NULL,
                "{\"prompt_ids\": [[1, 5, 9, 13, 17]], \"kwargs\": {\"max_new_tokens\": 4, "
                "\"do_sample\": true, \"num_return_sequences\": 40}}"));
    assert_int_equal(cdz_kv_pool_blocks(m->states), 160);
    assert_true(cdz_kv_pool_blocks(m->pool) < blocks);
    assert_true(cdz_kv_pool_bytes(m->states) + cdz_kv_pool_bytes(m->pool) <= limit);
    close_shared(&d);
}

int main(void)
{
    setenv("CADENZA_BACKENDS", FAR, 1);
    unsetenv("CADENZA_DEVICE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),          cmocka_unit_test(test_no_device),
        cmocka_unit_test(test_words),          cmocka_unit_test(test_same_tokens),
        cmocka_unit_test(test_caches),         cmocka_unit_test(test_rows_stay_away),
        cmocka_unit_test(test_no_masks_there), cmocka_unit_test(test_nothing_can_come),
        cmocka_unit_test(test_auto_says_so),   cmocka_unit_test(test_refused_at_open),
        cmocka_unit_test(test_pipelines),      cmocka_unit_test(test_kept),
        cmocka_unit_test(test_too_late),       cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pools_share),    cmocka_unit_test(test_opened_later),
        cmocka_unit_test(test_states_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
