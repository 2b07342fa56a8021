/* test_processors_vectors.c - every recorded call of transformers' processors and criteria that has a plugin here.
 * tests/processors/processor_vectors.json was made by make_processor_vectors.py beside it; its layout is described in
 * docs/reference/internals/processors.md, section 6. Cases of classes without a plugin are counted by name as skipped. */
#include "unit/processors/harness.h"

#include "config/generation.h"
#include "support/documents.h"

/* --- names ---------------------------------------------------------------------------------------------------------- */

/* A class of the reference, its plugin, and where the plugin's parameter has another name. */
static const struct {
    const char *name, *id, *from, *to;
} classes[] = {
    {"Temperature", "temperature", NULL, NULL},
    {"TopK", "top_k", NULL, NULL},
    {"TopP", "top_p", NULL, NULL},
    {"TopH", "top_h", NULL, NULL},
    {"MinP", "min_p", NULL, NULL},
    {"Typical", "typical_p", NULL, NULL},
    {"Epsilon", "epsilon_cutoff", "epsilon", "epsilon_cutoff"},
    {"Eta", "eta_cutoff", "epsilon", "eta_cutoff"},
    {"InfNanRemove", "remove_invalid_values", NULL, NULL},
    {"LogitNormalization", "renormalize_logits", NULL, NULL},
    {"RepetitionPenalty", "repetition_penalty", "penalty", "repetition_penalty"},
    {"EncoderRepetitionPenalty", "encoder_repetition_penalty", "penalty",
     "encoder_repetition_penalty"},
    {"NoRepeatNGram", "no_repeat_ngram_size", "ngram_size", "no_repeat_ngram_size"},
    {"EncoderNoRepeatNGram", "encoder_no_repeat_ngram_size", "encoder_ngram_size",
     "encoder_no_repeat_ngram_size"},
    {"SequenceBias", "sequence_bias", NULL, NULL},
    {"NoBadWords", "bad_words_ids", NULL, NULL},
    {"MinLength", "min_length", NULL, NULL},
    {"MinNewTokensLength", "min_new_tokens", NULL, NULL},
    {"ForcedBOS", "forced_bos_token_id", "bos_token_id", "forced_bos_token_id"},
    {"ForcedEOS", "forced_eos_token_id", "eos_token_id", "forced_eos_token_id"},
    {"ExponentialDecayLengthPenalty", "exponential_decay_length_penalty", NULL, NULL},
    {"SuppressTokens", "suppress_tokens", NULL, NULL},
    {"SuppressTokensAtBegin", "begin_suppress_tokens", NULL, NULL},
    {"Watermark", "watermarking_config", NULL, NULL},
    {"SynthIDTextWatermark", "watermarking_config", NULL, NULL},
    {"AlternatingCodebooks", "alternating_codebooks", NULL, NULL},
    {"BarkEosPrioritizer", "bark_eos_prioritizer", NULL, NULL},
    {"MaxLength", "max_length", NULL, NULL},
    {"MaxTime", "max_time", NULL, NULL},
    {"EosToken", "eos_token_id", NULL, NULL},
    {"StopString", "stop_strings", NULL, NULL},
};
enum { N_CLASSES = sizeof classes / sizeof classes[0] };

/* Accepted there because a Python bool is an int; here true is no number. */
static const char *const refused_on_purpose[] = {"TopK", "MinLength", "MinNewTokensLength"};

static int class_of(const char *name)
{
    for (int i = 0; i < N_CLASSES; i++)
        if (strcmp(classes[i].name, name) == 0) return i;
    return -1;
}

/* --- counting --------------------------------------------------------------------------------------------------------- */

typedef struct tally {
    const char *name;
    unsigned passed, failed, skipped;
} tally;

enum { MAX_NAMES = 64 };

static tally *tally_of(tally *tallies, const char *name)
{
    for (size_t i = 0; i < MAX_NAMES; i++) {
        if (!tallies[i].name) tallies[i].name = name;
        if (strcmp(tallies[i].name, name) == 0) return &tallies[i];
    }
    fail_msg("more than %d names", MAX_NAMES);
    return NULL;
}

/* Prints the counts; fails unless something passed and nothing failed. */
static void settle(const char *kind, const tally *tallies)
{
    unsigned passed = 0, failed = 0;
    for (size_t i = 0; i < MAX_NAMES && tallies[i].name; i++) {
        const tally *t = &tallies[i];
        print_message("  %s %s: %u passed, %u failed, %u skipped\n", kind, t->name, t->passed,
                      t->failed, t->skipped);
        passed += t->passed;
        failed += t->failed;
    }
    if (passed == 0 || failed > 0) fail_msg("%s: %u passed, %u failed", kind, passed, failed);
}

/* --- values of a case ---------------------------------------------------------------------------------------------------- */

static cdz_arena json_memory;
static const cdz_json *vectors;

static const char *text_of(const cdz_json *object, const char *key)
{
    const cdz_json *value = cdz_json_get(object, key);
    return cdz_json_is(value, CDZ_JSON_STRING) ? value->string : "";
}

static uint32_t number_of(const cdz_json *value)
{
    assert_true(cdz_json_is(value, CDZ_JSON_INT));
    return (uint32_t)value->integer;
}

static float float_of(const cdz_json *value)
{
    double number = 0;
    if (cdz_json_eq(value, "nan")) return NAN;
    if (cdz_json_eq(value, "inf")) return INFINITY;
    if (cdz_json_eq(value, "-inf")) return -INFINITY;
    assert_true(cdz_json_number(value, &number));
    return (float)number;
}

/* Integers, or one integer, as a list of ids in the harness's memory. */
static cdz_ids ids_of(harness *h, const cdz_json *value)
{
    const bool one = cdz_json_is(value, CDZ_JSON_INT);
    const uint32_t n = one ? 1 : value->len;
    int32_t *at = cdz_arena_array(&h->memory, n + 1, sizeof *at);
    for (uint32_t i = 0; i < n; i++) {
        const cdz_json *item = one ? value : &value->items[i];
        assert_true(item->type == CDZ_JSON_INT);
        at[i] = (int32_t)item->integer;
    }
    return (cdz_ids){at, n};
}

/* End-of-sequence ids go through the generation parameter first: that is where their type is checked. */
static cdz_status set_eos(harness *h, const cdz_json *value)
{
    const cdz_param *row = cdz_param_find(cdz_generation_table(), "eos_token_id");
    cdz_generation *generation = cdz_arena_alloc(&h->memory, sizeof *generation);
    cdz_error err = {0};

    CDZ_TRY(cdz_param_set(row, generation, value, &h->memory, &err));
    if (value->type != CDZ_JSON_NULL) h->request.eos = ids_of(h, value);
    return CDZ_OK;
}

static void set_prompts(harness *h, const cdz_json *rows)
{
    h->request.n_prompts = rows->len;
    assert_true(rows->len <= MAX_PROMPTS);
    for (uint32_t i = 0; i < rows->len; i++) h->prompts[i] = ids_of(h, &rows->items[i]);
}

static void set_token_texts(harness *h, const cdz_json *texts)
{
    const char **at = cdz_arena_array(&h->memory, texts->len, sizeof *at);
    for (uint32_t i = 0; i < texts->len; i++) at[i] = texts->items[i].string;
    h->token_texts = at;
    h->n_tokens = texts->len;
}

/* What the reference gives its constructor is here a parameter of the plugin or a fact of the request. */
static cdz_status take(harness *h, int class, const char *key, const cdz_json *value)
{
    if (classes[class].from && strcmp(key, classes[class].from) == 0)
        return harness_set(h, classes[class].to, value);
    if (strcmp(key, "eos_token_id") == 0) return set_eos(h, value);
    if (strcmp(key, "encoder_input_ids") == 0) {
        set_prompts(h, value);
    } else if (strcmp(key, "prompt_length_to_skip") == 0 || strcmp(key, "begin_index") == 0 ||
               strcmp(key, "input_ids_seq_length") == 0) {
        h->request.prompt_len = number_of(value);
    } else if (strcmp(key, "max_length") == 0) {
        h->request.max_length = number_of(value);
    } else if (strcmp(key, "vocab_size") == 0) {
        h->request.n_vocab = number_of(value);
    } else if (strcmp(key, "elapsed") == 0) {
        h->now = (double)float_of(value);
    } else if (strcmp(key, "token_strings") == 0) {
        set_token_texts(h, value);
    } else {
        return harness_set(h, key, value);
    }
    return CDZ_OK;
}

static cdz_status fill_params(harness *h, int class, const cdz_json *params)
{
    const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};

    h->quirks = true; /* these are the reference's own answers */
    if (strcmp(classes[class].name, "InfNanRemove") == 0 ||
        strcmp(classes[class].name, "LogitNormalization") == 0)
        CDZ_TRY(harness_set(h, classes[class].id, &yes));
    if (strcmp(classes[class].name, "SynthIDTextWatermark") == 0)
        harness_set_text(h, "type", "synthid");
    for (uint32_t i = 0; i < params->len; i++)
        CDZ_TRY(take(h, class, params->members[i].key, &params->members[i].value));
    return CDZ_OK;
}

typedef struct rows {
    cdz_ids ids[MAX_ROWS];
    uint32_t n, n_vocab;
    float *in, *out;
} rows;

static float *matrix_of(harness *h, const cdz_json *value, uint32_t *n_vocab)
{
    *n_vocab = value->items[0].len;
    float *at = cdz_arena_array(&h->memory, (size_t)value->len * *n_vocab, sizeof *at);
    for (uint32_t r = 0; r < value->len; r++)
        for (uint32_t v = 0; v < *n_vocab; v++)
            at[r * *n_vocab + v] = float_of(&value->items[r].items[v]);
    return at;
}

/* scores_in has as many rows as processing needs; fewer rows of ids stand for all of them. */
static rows rows_of(harness *h, const cdz_json *c)
{
    const cdz_json *ids = cdz_json_get(c, "input_ids"), *in = cdz_json_get(c, "scores_in");
    const cdz_json *out = cdz_json_get(c, "scores_out");
    rows m = {.n = in ? in->len : ids->len};

    assert_true(m.n <= MAX_ROWS);
    for (uint32_t r = 0; r < m.n; r++)
        m.ids[r] = ids_of(h, &ids->items[r < ids->len ? r : ids->len - 1]);
    if (in) m.in = matrix_of(h, in, &m.n_vocab);
    if (out) m.out = matrix_of(h, out, &m.n_vocab);
    h->request.n_rows = m.n;
    if (in) h->request.n_vocab = m.n_vocab;
    return m;
}

/* --- processors ------------------------------------------------------------------------------------------------------------ */

static bool same(float a, float b, bool exact)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (exact || isinf(a) || isinf(b)) return memcmp(&a, &b, sizeof a) == 0;
    return fabsf(a - b) <= 1e-5f + 1e-5f * fabsf(b);
}

static bool all_same(const rows *m, const float *scores, bool exact, const cdz_json *c)
{
    for (uint32_t i = 0; i < m->n * m->n_vocab; i++) {
        if (same(scores[i], m->out[i], exact)) continue;
        print_error("%s, case %u: row %u, token %u: %.9g, expected %.9g\n", text_of(c, "name"),
                    number_of(cdz_json_get(c, "id")), i / m->n_vocab, i % m->n_vocab,
                    (double)scores[i], (double)m->out[i]);
        return false;
    }
    return true;
}

/* All rows at once; and, since every processor here claims that rows stand alone, one by one. */
static bool run_processor(const cdz_json *c, int class)
{
    const bool exact = strcmp(text_of(c, "compare"), "exact") == 0;
    harness h;
    harness_open(&h, classes[class].id);
    rows m = rows_of(&h, c);
    h.request.prompt_len = number_of(cdz_json_get(c, "prompt_len"));
    float *alone = cdz_arena_array(&h.memory, (size_t)m.n * m.n_vocab, sizeof *alone);
    memcpy(alone, m.in, (size_t)m.n * m.n_vocab * sizeof *alone);

    bool good = fill_params(&h, class, cdz_json_get(c, "params")) == CDZ_OK &&
                harness_create(&h) == CDZ_OK && harness_begin(&h) == CDZ_OK &&
                harness_apply(&h, 0, m.n, m.ids, m.in) == CDZ_OK;
    if (!good) print_error("%s: refused: %s\n", classes[class].name, h.sentence);
    good = good && all_same(&m, m.in, exact, c);
    assert_true(processor_of(&h)->caps & CDZ_ROWWISE);
    for (uint32_t r = 0; good && r < m.n; r++)
        good = harness_apply(&h, r, 1, &m.ids[r], alone + (size_t)r * m.n_vocab) == CDZ_OK;
    good = good && all_same(&m, alone, exact, c);
    harness_close(&h);
    return good;
}

/* Calls of one object in a row: what the reference remembers between them, the plugin finds in the ids. */
static bool run_stateful(const cdz_json *c, int class)
{
    const cdz_json *steps = cdz_json_get(c, "steps");
    harness h;
    harness_open(&h, classes[class].id);
    bool good =
        fill_params(&h, class, cdz_json_get(c, "params")) == CDZ_OK && harness_create(&h) == CDZ_OK;
    for (uint32_t i = 0; good && i < steps->len; i++) {
        rows m = rows_of(&h, &steps->items[i]);
        if (i == 0) h.request.prompt_len = m.ids[0].len;
        good = (i > 0 || harness_begin(&h) == CDZ_OK) &&
               harness_apply(&h, 0, m.n, m.ids, m.in) == CDZ_OK && all_same(&m, m.in, false, c);
    }
    if (!good) print_error("%s: %s\n", classes[class].name, h.sentence);
    harness_close(&h);
    return good;
}

/* --- errors ------------------------------------------------------------------------------------------------------------------- */

/* Refused somewhere on the way, with a sentence; or such that the profile never lets it act. */
static bool is_refused(harness *h, int class, const cdz_json *c)
{
    rows m = {0};
    const bool at_call = strcmp(text_of(c, "at"), "call") == 0;

    if (cdz_json_get(c, "input_ids")) m = rows_of(h, c);
    if (fill_params(h, class, cdz_json_get(c, "params")) != CDZ_OK) return true;
    if (harness_create(h) != CDZ_OK) return h->sentence[0] != '\0';
    if (harness_idle(h)) return cdz_json_get(c, "error")->boolean;
    if (!at_call && !cdz_json_get(c, "error")->boolean) return false;
    if (harness_begin(h) != CDZ_OK) return h->sentence[0] != '\0';
    if (!m.in) return false;
    return harness_apply(h, 0, m.n, m.ids, m.in) != CDZ_OK && h->sentence[0] != '\0';
}

static bool is_exception(const cdz_json *c)
{
    const cdz_json *params = cdz_json_get(c, "params");
    bool has_true = false;
    for (uint32_t i = 0; i < params->len; i++)
        has_true = has_true || params->members[i].value.type == CDZ_JSON_BOOL;
    for (size_t i = 0; i < sizeof refused_on_purpose / sizeof refused_on_purpose[0]; i++)
        if (has_true && strcmp(refused_on_purpose[i], text_of(c, "name")) == 0) return true;
    return false;
}

static bool run_error(const cdz_json *c, int class)
{
    const bool expected = cdz_json_get(c, "error")->boolean || is_exception(c);
    harness h;
    harness_open(&h, classes[class].id);
    const bool refused = is_refused(&h, class, c);
    if (refused != expected)
        print_error("%s, case %u: %s: %s\n", classes[class].name, number_of(cdz_json_get(c, "id")),
                    refused ? "refused" : "accepted", h.sentence);
    harness_close(&h);
    return refused == expected;
}

/* --- stopping ------------------------------------------------------------------------------------------------------------------ */

static bool run_stops(harness *h, const rows *m, cdz_stop *stops)
{
    return harness_create(h) == CDZ_OK && harness_begin(h) == CDZ_OK &&
           harness_test(h, m->n, m->ids, stops) == CDZ_OK;
}

static bool as_expected(const cdz_json *c, const rows *m, const bool *stopped)
{
    const cdz_json *out = cdz_json_get(c, "out");
    for (uint32_t r = 0; r < m->n; r++) {
        const bool expected = out->type == CDZ_JSON_ARRAY ? out->items[r].boolean : out->boolean;
        if (stopped[r] == expected) continue;
        print_error("%s, case %u: row %u: %d\n", text_of(c, "name"),
                    number_of(cdz_json_get(c, "id")), r, stopped[r]);
        return false;
    }
    return true;
}

static bool run_stopping(const cdz_json *c, int class)
{
    cdz_stop stops[MAX_ROWS];
    bool stopped[MAX_ROWS];
    harness h;
    harness_open(&h, classes[class].id);
    const rows m = rows_of(&h, c);
    bool good =
        fill_params(&h, class, cdz_json_get(c, "params")) == CDZ_OK && run_stops(&h, &m, stops);
    if (!good) print_error("%s: %s\n", classes[class].name, h.sentence);
    for (uint32_t r = 0; good && r < m.n; r++) stopped[r] = stops[r].reason != CDZ_GO_ON;
    good = good && as_expected(c, &m, stopped);
    harness_close(&h);
    return good;
}

/* [["MaxLength", 2], ["EosToken", [0]]]: all are asked, any ends the row. */
static bool run_list(const cdz_json *c)
{
    const cdz_json *list = cdz_json_get(cdz_json_get(c, "params"), "criteria");
    bool stopped[MAX_ROWS] = {false}, good = true;
    rows m = {0};

    for (uint32_t i = 0; i < list->len && good; i++) {
        const cdz_json *entry = &list->items[i];
        const int class = class_of(entry->items[0].string);
        cdz_stop stops[MAX_ROWS];
        harness h;
        harness_open(&h, classes[class].id);
        m = rows_of(&h, c);
        const bool eos = strcmp(classes[class].name, "EosToken") == 0;
        good = take(&h, class, eos ? "eos_token_id" : "max_length", &entry->items[1]) == CDZ_OK &&
               run_stops(&h, &m, stops);
        for (uint32_t r = 0; good && r < m.n; r++)
            stopped[r] = stopped[r] || stops[r].reason != CDZ_GO_ON;
        harness_close(&h);
    }
    return good && as_expected(c, &m, stopped);
}

/* --- the kinds --------------------------------------------------------------------------------------------------------------------- */

static void replay(const char *kind, bool (*run)(const cdz_json *, int))
{
    const cdz_json *cases = cdz_json_get(vectors, "cases");
    tally tallies[MAX_NAMES] = {{0}};

    for (uint32_t i = 0; i < cases->len; i++) {
        const cdz_json *c = &cases->items[i];
        if (strcmp(text_of(c, "kind"), kind) != 0) continue;
        tally *t = tally_of(tallies, text_of(c, "name"));
        const int class = class_of(t->name);
        const bool list = strcmp(t->name, "List") == 0;
        if (class < 0 && !list)
            t->skipped++;
        else if (list ? run_list(c) : run(c, class))
            t->passed++;
        else
            t->failed++;
    }
    settle(kind, tallies);
}

static void test_processor_cases(void **state)
{
    (void)state;
    replay("processor", run_processor);
}

static void test_stateful_cases(void **state)
{
    (void)state;
    replay("stateful", run_stateful);
}

static void test_error_cases(void **state)
{
    (void)state;
    replay("error", run_error);
}

static void test_stopping_cases(void **state)
{
    (void)state;
    replay("stopping", run_stopping);
}

static int read_vectors(void **state)
{
    (void)state;
    vectors = document_in(&json_memory, CADENZA_TEST_DATA "/processors/processor_vectors.json");
    return 0;
}

static int free_vectors(void **state)
{
    (void)state;
    cdz_arena_free(&json_memory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processor_cases),
        cmocka_unit_test(test_stateful_cases),
        cmocka_unit_test(test_error_cases),
        cmocka_unit_test(test_stopping_cases),
    };
    return cmocka_run_group_tests(tests, read_vectors, free_vectors);
}
