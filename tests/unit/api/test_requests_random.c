/* test_requests_random.c - random request documents that look valid, several at a time, with plugins that fail in a later
 * step, cancellations, kept states and their continuations: each is refused in a sentence or ends in an answer that is a
 * document. Then every number of a document with values that no table expects.
 *
 * A case is made of its number alone. CADENZA_REQUEST_CASES says how many (default 160), CADENZA_REQUEST_CASE runs one and
 * prints its documents. Runs under the sanitizers, which see what a wrong answer would hide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "cadenza/cadenza.h"
#include "config/generation.h"
#include "support/must.h"
#include "support/opened.h"

#define SCRIPTS CADENZA_TEST_DATA "/requests/"
enum { COMPANY = 3, KEPT = 3, WIDTH_MOST = 4096, PIPELINES = 8 };

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model, *draft;
    cdz_pipeline *pipelines[PIPELINES];
    cdz_result *kept[KEPT];
    float *embeds;
    uint64_t random;
    bool shown;
} fixture;

/* --- pipelines ------------------------------------------------------------------------------------------------------ */

#define SOON "stopping = soon\n"
#define REST "[soon]\nid = lua:" SCRIPTS "soon.lua\nafter = 7\n[generation]\nmax_new_tokens = 9\n"
#define LOOP(kind, at)                                                                             \
    "[pipeline]\nstrategy = loop\n" SOON REST "[loop]\nid = lua:" SCRIPTS "loop.lua\nkind = " kind \
    "\nat = " at "\n"

static const char *const pipelines[PIPELINES] = {
    "[pipeline]\n" SOON REST,
    "[pipeline]\n" SOON "processors = late\n" REST "[late]\nid = lua:" SCRIPTS "late.lua\nat = 9\n",
    "[pipeline]\n" SOON "drafter = drafts\n" REST "[drafts]\nid = lua:" SCRIPTS
    "drafts.lua\nat = 3\n",
    "[pipeline]\nstopping = soon\n[soon]\nid = lua:" SCRIPTS
    "soon.lua\nafter = 3\nfails = yes\n[generation]\nmax_new_tokens = 9\n",
    LOOP("logits", "4"),
    LOOP("scores", "100000"),
    LOOP("seqs", "5"),
    LOOP("fewer", "100000"),
};

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const cdz_options options = {.size = sizeof options, .n_threads = 2, .kv_bytes = 24u << 20};
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary");
    f->draft = opened_model(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft");
    for (size_t i = 0; i < PIPELINES; i++) f->pipelines[i] = opened_pipeline(f->rt, pipelines[i]);
    f->embeds = calloc(8 * WIDTH_MOST, sizeof *f->embeds);
    assert_non_null(f->embeds);
    assert_true(cdz_model_hidden_size(f->model) <= WIDTH_MOST);
    for (size_t i = 0; i < 8 * WIDTH_MOST; i++) f->embeds[i] = (float)(i % 7) * 0.01f;
    *state = f;
    return 0;
}

static void forget(fixture *f)
{
    for (size_t i = 0; i < KEPT; i++) {
        cdz_result_free(f->kept[i]);
        f->kept[i] = NULL;
    }
}

static int close_all(void **state)
{
    fixture *f = *state;
    forget(f);
    for (size_t i = 0; i < PIPELINES; i++) cdz_pipeline_free(f->pipelines[i]);
    cdz_model_close(f->draft);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f->embeds);
    free(f);
    return 0;
}

/* --- a document ------------------------------------------------------------------------------------------------------ */

/* splitmix64: below n */
static uint32_t draw(fixture *f, uint32_t n)
{
    uint64_t x = f->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((x ^ x >> 31) % n);
}

static const char *one_of(fixture *f, const char *const *words, size_t n)
{
    return words[draw(f, (uint32_t)n)];
}
#define ONE_OF(f, list) one_of(f, list, sizeof(list) / sizeof *(list))

static const char *const prompts[] = {
    "\"prompt\": \"river (noun): a\"",
    "\"prompt\": \"music is\"",
    "\"prompt\": [\"river (noun): a\", \"dog (noun):\"]",
    "\"prompt_ids\": [72, 480, 292, 305, 299]",
    "\"prompt_ids\": [[72, 480, 292], [5, 6, 7]], \"attention_mask\": [[1, 1, 1], [0, 1, 1]]",
    "\"prompt_ids\": [[72, 480, 292, 9]], \"attention_mask\": [[1, 0, 1, 1]]",
    "\"prompt_ids\": null",
    "\"mode\": \"score\", \"prompt\": \"A dog is a kind of\"",
    "\"mode\": \"logits\", \"prompt_ids\": [[72, 480, 292], [5, 6, 7]]",
};

static const char *const modes[] = {
    "\"do_sample\": false",
    "\"do_sample\": true, \"top_k\": 20, \"temperature\": 0.8",
    "\"num_beams\": 3, \"num_return_sequences\": 2",
    "\"num_beams\": 2, \"do_sample\": true",
    "\"do_sample\": true, \"num_return_sequences\": 3",
    "\"num_beams\": 4, \"num_beam_groups\": 2, \"diversity_penalty\": 0.5",
    "\"num_beams\": 3, \"force_words_ids\": [[72, 480]]",
    "\"penalty_alpha\": 0.6, \"top_k\": 4",
    "\"dola_layers\": \"low\"",
    "\"prompt_lookup_num_tokens\": 3",
    "\"assistant_early_exit\": 1",
};

static const char *const options[] = {
    "\"guidance_scale\": 1.5",
    "\"guidance_scale\": 2.0, \"negative_prompt_ids\": [[5, 6]]",
    "\"output_scores\": true",
    "\"output_logits\": true",
    "\"output_logprobs\": true",
    "\"output_hidden_states\": true",
    "\"output_attentions\": true",
    "\"return_dict_in_generate\": true",
    "\"use_cache\": false",
    "\"prefill_chunk_size\": 2",
    "\"token_healing\": true",
    "\"repetition_penalty\": 1.3",
    "\"encoder_repetition_penalty\": 1.2",
    "\"no_repeat_ngram_size\": 2",
    "\"encoder_no_repeat_ngram_size\": 3",
    "\"bad_words_ids\": [[845], [72, 480]]",
    "\"sequence_bias\": [[[845], -3.0], [[5, 6], 1.5]]",
    "\"suppress_tokens\": [845, 1491]",
    "\"begin_suppress_tokens\": [7]",
    "\"forced_eos_token_id\": 2",
    "\"stop_strings\": [\"e\", \"large\"]",
    "\"min_new_tokens\": 3",
    "\"eos_token_id\": null",
    "\"pad_token_id\": 0",
    "\"exponential_decay_length_penalty\": [2, 1.3]",
    "\"watermarking_config\": {\"bias\": 2.0}",
    "\"renormalize_logits\": true",
    "\"remove_invalid_values\": true",
    "\"quirks\": true",
    "\"max_new_tokens\": 1",
    "\"max_new_tokens\": 40",
    "\"max_length\": 8",
    "\"early_stopping\": true",
    "\"length_penalty\": -1.0",
    "\"num_assistant_tokens\": 2",
    "\"top_p\": 0.3",
    "\"typical_p\": 0.4",
    "\"min_p\": 0.2",
};

static const char *const records[] = {
    "{}",
    "{\"top\": 3}",
    "{\"top\": 5, \"transition\": true}",
    "{\"transition\": true}",
    "{\"top\": 2, \"outputs\": true, \"normalized\": true}",
    "null",
};

static void put_kwargs(fixture *f, cdz_buf *out)
{
    bool used[sizeof options / sizeof *options] = {false};
    cdz_buf_printf(out, "\"kwargs\": {%s", ONE_OF(f, modes));
    for (uint32_t n = draw(f, 6); n > 0; n--) {
        const uint32_t i = draw(f, sizeof options / sizeof *options);
        if (!used[i]) cdz_buf_printf(out, ", %s", options[i]);
        used[i] = true;
    }
    cdz_buf_putc(out, '}');
}

static void put_calls(fixture *f, cdz_buf *out)
{
    static const char *const begins[] = {
        "\"append_ids\": [[5, 6]]",           "\"append_ids\": [[5, 6], [7, 8]]",
        "\"append_ids\": [[], [], []]",       "\"prompt_ids\": [[5, 6, 7]]",
        "\"prompt\": \"A dog is a kind of\"",
    };
    cdz_buf_puts(out, ", \"calls\": [");
    for (uint32_t i = 0, n = 1 + draw(f, 2); i < n; i++) {
        cdz_buf_printf(out, "%s{%s, ", i ? ", " : "", ONE_OF(f, begins));
        put_kwargs(f, out);
        cdz_buf_putc(out, '}');
    }
    cdz_buf_putc(out, ']');
}

static void put_document(fixture *f, cdz_buf *out, bool embeds)
{
    cdz_buf_putc(out, '{');
    if (!embeds || draw(f, 2)) cdz_buf_printf(out, "%s, ", ONE_OF(f, prompts));
    put_kwargs(f, out);
    if (draw(f, 3) == 0) cdz_buf_printf(out, ", \"record\": %s", ONE_OF(f, records));
    if (draw(f, 4) == 0) put_calls(f, out);
    cdz_buf_printf(out, ", \"seed\": %u}", draw(f, 5));
}

/* --- a case: some requests that run together ------------------------------------------------------------------------- */

static void check_answer(cdz_result *result, const char *document)
{
    cdz_arena arena = {0};
    cdz_json answer;
    cdz_error err = {0};
    const char *json = cdz_result_json(result);
    if (cdz_json_parse(json, strlen(json), "answer", NULL, &arena, &answer, &err) != CDZ_OK)
        fail_msg("%s\n%s\n%s", document, json, err.text);
    for (uint32_t r = 0; r < cdz_result_rows(result); r++) {
        uint32_t n, whole;
        cdz_result_ids(result, r, &n);
        cdz_result_sequence(result, r, &whole);
        float *values = calloc(n + 1, sizeof *values);
        assert_non_null(values);
        for (int what = CDZ_TOKEN_SCORE; what <= CDZ_TOKEN_RAW_LOGPROB; what++) {
            const cdz_status st =
                cdz_result_token_values(result, r, (cdz_token_value)what, values, n, &err);
            assert_true(st == CDZ_OK || err.text[0]);
        }
        free(values);
    }
    cdz_arena_free(&arena);
}

typedef struct running {
    cdz_buf document;
    uint64_t id;
    bool submitted, keeps;
} running;

static void begin(fixture *f, running *r)
{
    cdz_error err = {0};
    const bool embeds = draw(f, 8) == 0;
    put_document(f, &r->document, embeds);
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = f->pipelines[draw(f, PIPELINES)],
                           .assistant = draw(f, 3) == 0 ? f->draft : NULL,
                           .json = r->document.data,
                           .keep_cache = draw(f, 2) == 0,
                           .past = f->kept[draw(f, KEPT)],
                           .timeout_s = draw(f, 20) == 0 ? 1e-9 : 0};
    if (embeds) {
        request.embeds = f->embeds;
        request.n_embed_rows = 1 + draw(f, 2);
        request.n_embeds = 1 + draw(f, 4);
    }
    if (draw(f, 2)) request.past = NULL;
    r->keeps = request.keep_cache;
    if (f->shown) print_message("%s\n", r->document.data);
    r->submitted = cdz_submit(f->rt, &request, &r->id, &err) == CDZ_OK;
    if (f->shown && !r->submitted) print_message("  %s\n", err.text);
    if (!r->submitted && !err.text[0]) fail_msg("refused in silence: %s", r->document.data);
}

static void end(fixture *f, running *r)
{
    cdz_error err = {0};
    cdz_result *result = NULL;
    if (!r->submitted) return;
    const cdz_status status = cdz_wait(f->rt, r->id, &result, &err);
    if (status != CDZ_OK && !err.text[0]) fail_msg("failed in silence: %s", r->document.data);
    if (f->shown && status != CDZ_OK) print_message("  %s\n", err.text);
    assert_non_null(result);
    check_answer(result, r->document.data);
    const uint32_t place = draw(f, KEPT);
    if (!r->keeps) {
        cdz_result_free(result);
        return;
    }
    cdz_result_free(f->kept[place]);
    f->kept[place] = result; /* rows that never began leave no state: then it is refused as a past */
}

static void run_case(fixture *f, uint32_t number)
{
    running all[COMPANY] = {0};
    f->random = number;
    const uint32_t n = 1 + draw(f, COMPANY);
    for (uint32_t i = 0; i < n; i++) begin(f, &all[i]);
    if (draw(f, 6) == 0 && all[0].submitted) (void)cdz_cancel(f->rt, all[0].id, NULL);
    for (uint32_t i = 0; i < n; i++) {
        end(f, &all[i]);
        cdz_buf_free(&all[i].document);
    }
    if (draw(f, 8) == 0) forget(f);
}

static uint32_t from_environment(const char *name, uint32_t otherwise)
{
    const char *value = getenv(name);
    return value ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

static void random_documents_are_answered_or_refused(void **state)
{
    fixture *f = *state;
    const uint32_t one = from_environment("CADENZA_REQUEST_CASE", UINT32_MAX);
    const uint32_t n = from_environment("CADENZA_REQUEST_CASES", 160);
    f->shown = one != UINT32_MAX;
    if (f->shown) run_case(f, one);
    for (uint32_t i = 0; !f->shown && i < n; i++) {
        printf("case %u\n", i); /* what a sanitizer stops says where */
        fflush(stdout);
        run_case(f, i);
    }
    forget(f);
}

/* --- numbers that nobody expects ------------------------------------------------------------------------------------- */

static const char *const extremes[] = {
    "-9223372036854775808",
    "-9007199254740993",
    "-2147483649",
    "-2147483648",
    "-1",
    "0",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551616",
    "-0.0",
    "1e-300",
    "1e300",
    "-1e300",
    "1e999",
    "NaN",
    "\"x\"",
    "[]",
    "[[]]",
    "{}",
    "true",
    "null",
};
enum { N_EXTREMES = sizeof extremes / sizeof *extremes };

static void ask(fixture *f, const cdz_buf *document)
{
    cdz_error err = {0};
    cdz_result *result = NULL;
    const cdz_request request = {.size = sizeof request,
                                 .model = f->model,
                                 .pipeline = f->pipelines[0],
                                 .json = document->data};
    assert_false(document->failed);
    const cdz_status status = cdz_generate(f->rt, &request, &result, &err);
    if (status != CDZ_OK && !err.text[0]) fail_msg("refused in silence: %s", document->data);
    if (result) check_answer(result, document->data);
    cdz_result_free(result);
}

/* Every parameter of the table, alone, in a list and in a list of lists. */
static void every_parameter_takes_any_number(void **state)
{
    fixture *f = *state;
    static const char *const forms[] = {"%s", "[%s]", "[[%s, 1]]", "[%s, 1.5]", "[[[1, 2], %s]]"};
    const cdz_param_table *table = cdz_generation_table();
    for (uint32_t i = 0; i < table->n; i++)
        for (uint32_t k = 0; k < N_EXTREMES; k++)
            for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
                cdz_buf document = {0};
                if (form && cdz_param_at(table, i)->type < CDZ_T_INTS) continue;
                cdz_buf_printf(&document,
                               "{\"prompt_ids\": [72, 480], \"seed\": 1, \"kwargs\": {\"%s\": ",
                               cdz_param_at(table, i)->name);
                const char *at = strstr(forms[form], "%s");
                cdz_buf_add(&document, forms[form], (size_t)(at - forms[form]));
                cdz_buf_puts(&document, extremes[k]);
                cdz_buf_puts(&document, at + 2);
                cdz_buf_puts(&document, "}}");
                ask(f, &document);
                cdz_buf_free(&document);
            }
}

static void every_field_takes_any_number(void **state)
{
    fixture *f = *state;
    static const char *const documents[] = {
        "{\"prompt_ids\": @}",
        "{\"prompt_ids\": [@]}",
        "{\"prompt_ids\": [[72, @], [5, 6]]}",
        "{\"prompt_ids\": [[72, 5]], \"attention_mask\": @}",
        "{\"prompt_ids\": [[72, 5]], \"attention_mask\": [[1, @]]}",
        "{\"prompt\": @}",
        "{\"prompt\": [@]}",
        "{\"prompt_ids\": [72], \"seed\": @}",
        "{\"prompt_ids\": [72], \"record\": @}",
        "{\"prompt_ids\": [72], \"record\": {\"top\": @}}",
        "{\"prompt_ids\": [72], \"record\": {\"detect\": {\"watermarking_config\": {\"seeding_scheme\": \"lefthash\", "
        "\"context_width\": @}}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"context_width\": @}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"hashing_key\": @}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"greenlist_ratio\": @, \"bias\": @}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"keys\": [1, @], \"ngram_len\": 2}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"keys\": [1], \"ngram_len\": @}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"keys\": [1], \"ngram_len\": 3, "
        "\"sampling_table_size\": @, \"sampling_table_seed\": @}}}",
        "{\"prompt_ids\": [72], \"kwargs\": {\"watermarking_config\": {\"keys\": [1], \"ngram_len\": 3, "
        "\"context_history_size\": @}}}",
        "{\"inputs_embeds\": [[[@]]]}",
        "{\"prompt_ids\": [72], \"kwargs\": @}",
        "{\"prompt_ids\": [72], \"calls\": [@]}",
        "{\"prompt_ids\": [72], \"calls\": [{\"append_ids\": [[@]], \"kwargs\": {}}]}",
        "{\"prompt_ids\": [72], \"assistant\": @}",
        "{\"messages\": [{\"role\": \"user\", \"content\": @}]}",
        "{\"prompt_ids\": [72], \"mode\": @}",
    };
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        for (uint32_t k = 0; k < N_EXTREMES; k++) {
            cdz_buf document = {0};
            for (const char *c = documents[i]; *c; c++) {
                if (*c == '@')
                    cdz_buf_puts(&document, extremes[k]);
                else
                    cdz_buf_putc(&document, *c);
            }
            ask(f, &document);
            cdz_buf_free(&document);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_documents_are_answered_or_refused),
        cmocka_unit_test(every_parameter_takes_any_number),
        cmocka_unit_test(every_field_takes_any_number),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
