/* test_processors.c - what the recorded vectors do not say about the built-in processors and criteria: when they are
 * idle, what they take from the request, what their capability flags promise, what they refuse. */
#include "unit/processors/harness.h"

#include "support/random_rows.h"

/* Opens a plugin with parameters written as in an ini file: "name=value", up to two, and runs create and begin. */
static void start(harness *h, const char *id, const char *first, const char *second)
{
    const char *const settings[] = {first, second};

    harness_open(h, id);
    for (size_t i = 0; i < 2; i++) {
        char name[64];
        const char *equals = settings[i] ? strchr(settings[i], '=') : NULL;
        if (!equals) continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - settings[i]), settings[i]);
        harness_set_text(h, name, equals + 1);
    }
    if (harness_create(h) != CDZ_OK) fail_msg("%s: %s", id, h->sentence);
}

static void begin_or_fail(harness *h)
{
    if (harness_begin(h) != CDZ_OK) fail_msg("%s: %s", h->plugin->id, h->sentence);
}

/* --- idle ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *id, *setting;
    bool eos, idle;
} idle_cases[] = {
    {"temperature", NULL, false, true},
    {"temperature", "temperature=1.0", false, true},
    {"temperature", "temperature=0.7", false, false},
    {"top_k", "top_k=0", false, true},
    {"top_k", "top_k=50", false, false},
    {"top_p", "top_p=1.0", false, true},
    {"top_p", "top_p=7", false, true},
    {"top_p", "top_p=0.9", false, false},
    {"min_p", NULL, false, true},
    {"min_p", "min_p=0", false, false},
    {"top_h", NULL, false, true},
    {"top_h", "top_h=1", false, false},
    {"typical_p", "typical_p=1.0", false, true},
    {"typical_p", "typical_p=0.99", false, false},
    {"epsilon_cutoff", "epsilon_cutoff=0", false, true},
    {"epsilon_cutoff", "epsilon_cutoff=3e-4", false, false},
    {"eta_cutoff", "eta_cutoff=1", false, true},
    {"eta_cutoff", "eta_cutoff=0.1", false, false},
    {"repetition_penalty", "repetition_penalty=1", false, true},
    {"repetition_penalty", "repetition_penalty=1.1", false, false},
    {"encoder_repetition_penalty", NULL, false, true},
    {"no_repeat_ngram_size", "no_repeat_ngram_size=-1", false, true},
    {"no_repeat_ngram_size", "no_repeat_ngram_size=2", false, false},
    {"encoder_no_repeat_ngram_size", "encoder_no_repeat_ngram_size=0", false, true},
    {"min_length", "min_length=5", false, true},
    {"min_length", "min_length=5", true, false},
    {"min_length", "min_length=0", true, true},
    {"min_new_tokens", "min_new_tokens=5", false, true},
    {"min_new_tokens", "min_new_tokens=5", true, false},
    {"min_new_tokens", "min_new_tokens=-2", true, true},
    {"sequence_bias", NULL, false, true},
    {"bad_words_ids", NULL, false, true},
    {"suppress_tokens", NULL, false, true},
    {"begin_suppress_tokens", NULL, false, true},
    {"forced_bos_token_id", NULL, false, true},
    {"forced_bos_token_id", "forced_bos_token_id=0", false, false},
    {"forced_eos_token_id", NULL, false, true},
    {"remove_invalid_values", "remove_invalid_values=false", false, true},
    {"remove_invalid_values", "remove_invalid_values=true", false, false},
    {"renormalize_logits", NULL, false, true},
    {"exponential_decay_length_penalty", NULL, true, true},
    {"eos_token_id", NULL, false, true},
    {"eos_token_id", NULL, true, false},
    {"eos_token_id", "eos_token_id=3", false, false},
    {"max_length", NULL, false, false},
    {"max_time", NULL, false, true},
    {"max_time", "max_time=0.5", false, false},
    {"stop_strings", NULL, false, true},
};

static void test_idle(void **state)
{
    static const int32_t eos[] = {2};
    (void)state;
    for (size_t i = 0; i < sizeof idle_cases / sizeof idle_cases[0]; i++) {
        harness h;
        start(&h, idle_cases[i].id, idle_cases[i].setting, NULL);
        if (idle_cases[i].eos) h.request.eos = (cdz_ids){eos, 1};
        if (harness_idle(&h) != idle_cases[i].idle)
            fail_msg("%s with %s, eos %d", idle_cases[i].id, idle_cases[i].setting,
                     idle_cases[i].eos);
        harness_close(&h);
    }
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *id, *name, *json, *sentence;
} refusals[] = {
    {"temperature", "temperature", "2", "temperature = 2: must be written with a fraction (2.0)"},
    {"repetition_penalty", "repetition_penalty", "2",
     "repetition_penalty = 2: must be written with a fraction (2.0)"},
    {"sequence_bias", "sequence_bias", "[]",
     "sequence_bias is empty; expected a sequence with its bias"},
    {"sequence_bias", "sequence_bias", "[[[3], 2]]",
     "sequence_bias: bias 2 must be written with a fraction (2.0)"},
    {"sequence_bias", "sequence_bias", "[[[0], 2.5]]",
     "sequence_bias: token 0, expected an id from 1 on"},
    {"sequence_bias", "sequence_bias", "[[[], 2.5]]", "sequence_bias: a sequence is empty"},
    {"sequence_bias", "sequence_bias", "[[[1, 32], 2.5]]",
     "sequence_bias: token 32 is outside the vocabulary of 32"},
    {"bad_words_ids", "bad_words_ids", "[]",
     "bad_words_ids is empty; expected a list of token sequences"},
    {"bad_words_ids", "bad_words_ids", "[[1], [40]]",
     "bad_words_ids: token 40 is outside the vocabulary of 32"},
    {"forced_eos_token_id", "forced_eos_token_id", "99",
     "forced_eos_token_id: token 99 is outside the vocabulary of 32"},
    {"exponential_decay_length_penalty", "exponential_decay_length_penalty", "[1, 1.5]",
     "exponential_decay_length_penalty needs eos_token_id, and none is set"},
    {"stop_strings", "stop_strings", "[]",
     "stop_strings is empty; expected a text or a list of texts"},
    {"stop_strings", "stop_strings", "\"x\"",
     "stop_strings needs a tokenizer, and this model has none"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        cdz_json value;
        cdz_error err = {0};
        harness h;
        harness_open(&h, refusals[i].id);
        const char *json = refusals[i].json;
        assert_int_equal(cdz_json_parse(json, strlen(json), "test", NULL, &h.memory, &value, &err),
                         0);
        assert_int_equal(harness_set(&h, refusals[i].name, &value), CDZ_OK);
        if (harness_create(&h) == CDZ_OK && harness_begin(&h) == CDZ_OK)
            fail_msg("%s = %s is accepted", refusals[i].name, json);
        assert_string_equal(h.sentence, refusals[i].sentence);
        harness_close(&h);
    }
}

/* An ini file has no way to tell 2 from 2.0. */
static void test_whole_numbers_in_text(void **state)
{
    float row[32] = {3};
    const cdz_ids ids[] = {{NULL, 0}};
    harness h;
    (void)state;
    start(&h, "temperature", "temperature=2", NULL);
    begin_or_fail(&h);
    assert_int_equal(harness_apply(&h, 0, 1, ids, row), CDZ_OK);
    assert_true(row[0] == 1.5f);
    harness_close(&h);
}

static void test_ids_outside_the_vocabulary(void **state)
{
    static const int32_t outside[] = {1, 32};
    static const struct {
        const char *id, *setting;
        bool error;
    } cases[] = {
        {"repetition_penalty", "repetition_penalty=1.5", true},
        {"no_repeat_ngram_size", "no_repeat_ngram_size=1", true},
        {"forced_bos_token_id", "forced_bos_token_id=32", true},
        {"suppress_tokens", "suppress_tokens=1,32,-1", false},
        {"min_new_tokens", "min_new_tokens=9", false},
        {"min_length", "min_length=9", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float row[40] = {0};
        const cdz_ids ids[] = {{outside, 2}};
        harness h;
        start(&h, cases[i].id, cases[i].setting, NULL);
        h.request.eos = (cdz_ids){outside, 2};
        begin_or_fail(&h);
        const cdz_status st = harness_apply(&h, 0, 1, ids, row);
        if ((st != CDZ_OK) != cases[i].error) fail_msg("%s: %d, %s", cases[i].id, st, h.sentence);
        if (st == CDZ_OK) assert_true(isinf(row[1]) && row[0] == 0);
        for (size_t v = 32; v < 40; v++) assert_true(row[v] == 0);
        harness_close(&h);
    }
}

/* --- what comes from the request ------------------------------------------------------------------------------------- */

static unsigned kept(const float *row, uint32_t n)
{
    unsigned count = 0;
    for (uint32_t v = 0; v < n; v++) count += !isinf(row[v]);
    return count;
}

static void test_tokens_to_keep(void **state)
{
    static const int32_t eos[] = {1, 2, 5};
    static const struct {
        const char *name, *own;
        uint32_t beams, n_eos;
        unsigned kept;
    } cases[] = {
        {"one without beams", NULL, 1, 3, 1},
        {"two with beams", NULL, 4, 0, 2},
        {"beams and three ends", NULL, 4, 3, 4},
        {"its own word", "min_tokens_to_keep=7", 4, 3, 7},
        {"its own, no beams", "min_tokens_to_keep=2", 1, 0, 2},
    };
    static const char *const filters[][2] = {
        {"top_p", "top_p=0"},
        {"min_p", "min_p=1"},
        {"top_k", "top_k=1"},
        {"typical_p", "typical_p=1e-9"},
        {"epsilon_cutoff", "epsilon_cutoff=0.9"},
        {"eta_cutoff", "eta_cutoff=0.99"},
    };
    (void)state;
    for (size_t f = 0; f < 6; f++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            float row[32];
            const cdz_ids ids[] = {{NULL, 0}};
            harness h;
            /* steep enough that no second token passes, and each has its own surprise */
            for (size_t v = 0; v < 32; v++) row[v] = -2.0f * (float)((v * 7) % 32);
            start(&h, filters[f][0], filters[f][1], cases[i].own);
            h.request.num_beams = cases[i].beams;
            h.request.eos = (cdz_ids){eos, cases[i].n_eos};
            begin_or_fail(&h);
            assert_int_equal(harness_apply(&h, 0, 1, ids, row), CDZ_OK);
            if (kept(row, 32) != cases[i].kept)
                fail_msg("%s, %s: %u", filters[f][0], cases[i].name, kept(row, 32));
            harness_close(&h);
        }
}

static void test_first_token_after_a_forced_one(void **state)
{
    static const int32_t two[] = {0, 7};
    static const struct {
        bool forced;
        uint32_t prompt_len, len;
        bool masked;
    } cases[] = {{false, 1, 1, true},
                 {false, 1, 2, false},
                 {true, 1, 1, false},
                 {true, 1, 2, true},
                 {true, 2, 2, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float row[32] = {0};
        const cdz_ids ids[] = {{two, cases[i].len}};
        harness h;
        start(&h, "begin_suppress_tokens", "begin_suppress_tokens=4", NULL);
        h.request.prompt_len = cases[i].prompt_len;
        h.forced_bos = (cdz_opt_int){7, cases[i].forced};
        begin_or_fail(&h);
        assert_int_equal(harness_apply(&h, 0, 1, ids, row), CDZ_OK);
        if ((isinf(row[4]) != 0) != cases[i].masked) fail_msg("case %zu", i);
        harness_close(&h);
    }
}

/* min_new_tokens replaces min_length, be it larger or smaller. */
static void test_resolved_minimum(void **state)
{
    static const int32_t six[] = {1, 1, 1, 1, 1, 1}, eos[] = {3};
    static const struct {
        bool new_tokens;
        uint32_t resolved;
        bool masked;
    } cases[] = {{false, 10, true}, {true, 5, false}, {true, 7, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float row[32] = {0};
        const cdz_ids ids[] = {{six, 6}};
        harness h;
        start(&h, "min_length", "min_length=10", NULL);
        h.request.eos = (cdz_ids){eos, 1};
        h.min_new_tokens = (cdz_opt_int){2, cases[i].new_tokens};
        h.request.min_length = cases[i].resolved;
        begin_or_fail(&h);
        assert_int_equal(harness_apply(&h, 0, 1, ids, row), CDZ_OK);
        if ((isinf(row[3]) != 0) != cases[i].masked) fail_msg("case %zu", i);
        harness_close(&h);
    }
}

/* Two prompts of two rows each: rows 0 and 1 belong to the first, 2 and 3 to the second. */
static void test_prompts_of_rows(void **state)
{
    static const int32_t prompts[2][1] = {{4}, {9}};
    static const int32_t reached[2][4] = {{4, 4, 9, 9},
                                          {4, 9, -1, -1}}; /* without and with quirks */
    (void)state;
    for (int quirks = 0; quirks < 2; quirks++) {
        float rows[4][32] = {{0}};
        const cdz_ids ids[4] = {{prompts[0], 1}, {prompts[0], 1}, {prompts[1], 1}, {prompts[1], 1}};
        harness h;
        start(&h, "encoder_repetition_penalty", "encoder_repetition_penalty=2.0", NULL);
        h.quirks = quirks != 0;
        h.request.n_prompts = 2;
        h.request.n_rows = 4;
        for (size_t i = 0; i < 2; i++) h.prompts[i] = (cdz_ids){prompts[i], 1};
        for (size_t r = 0; r < 4; r++)
            for (size_t v = 0; v < 32; v++) rows[r][v] = 1;
        begin_or_fail(&h);
        assert_int_equal(harness_apply(&h, 0, 4, ids, rows[0]), CDZ_OK);
        for (size_t r = 0; r < 4; r++)
            for (int32_t v = 0; v < 32; v++)
                assert_true(rows[r][v] == (v == reached[quirks][r] ? 2.0f : 1.0f));
        harness_close(&h);
    }
}

static void test_own_limits_of_criteria(void **state)
{
    static const int32_t three[] = {1, 2, 3}, eos[] = {2};
    const cdz_ids ids[] = {{three, 3}};
    static const struct {
        const char *id, *setting;
        uint32_t reason;
    } cases[] = {
        {"max_length", NULL, CDZ_GO_ON},       {"max_length", "max_length=3", CDZ_STOP_LENGTH},
        {"eos_token_id", NULL, CDZ_GO_ON},     {"eos_token_id", "eos_token_id=3", CDZ_STOP_EOS},
        {"max_time", "max_time=2", CDZ_GO_ON}, {"max_time", "max_time=1.5", CDZ_STOP_TIME},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cdz_stop stop;
        harness h;
        start(&h, cases[i].id, cases[i].setting, NULL);
        h.request.eos = (cdz_ids){eos, 1};
        h.request.start_s = 10;
        h.now = 12;
        begin_or_fail(&h);
        assert_int_equal(harness_test(&h, 1, ids, &stop), CDZ_OK);
        if (stop.reason != cases[i].reason) fail_msg("%s %s", cases[i].id, cases[i].setting);
        assert_true((stop.reason == CDZ_GO_ON) == (stop.text.len == 0));
        harness_close(&h);
    }
}

/* --- stop strings ------------------------------------------------------------------------------------------------------ */

static const char *const texts[] = {
    "s", "t", "", "op", "stop", "stopwatch", "p", "é", "\xc3\xa9t\xc3\xa9"};
enum { S, T, EMPTY, OP, STOP, WATCH, P, E_ACUTE, ETE, UNKNOWN };

static const struct {
    const char *name, *strings;
    int32_t ids[8];
    uint32_t n;
    const char *stop; /* NULL: goes on */
} stop_cases[] = {
    {"in one token", "stop", {T, STOP}, 2, "stop"},
    {"the token runs on past it", "stop", {WATCH}, 1, "stop"},
    {"over several tokens", "stop", {S, T, OP}, 3, "stop"},
    {"an empty token uses up a place", "stop", {S, T, EMPTY, OP}, 4, "stop"},
    {"two empty ones too many", "stop", {S, T, EMPTY, EMPTY, OP}, 5, NULL},
    {"an empty newest token never stops", "stop", {STOP, EMPTY}, 2, NULL},
    {"only what ends in the newest token", "stop", {STOP, T}, 2, NULL},
    {"an unknown id breaks it", "stop", {S, T, UNKNOWN, OP}, 4, NULL},
    {"an unknown newest id", "stop", {STOP, UNKNOWN}, 2, NULL},
    {"the first string of several that match", "[\"op\", \"stop\"]", {STOP}, 1, "op"},
    {"the second when the first does not", "[\"tt\", \"stop\"]", {STOP}, 1, "stop"},
    {"the longest decides how far to look",
     "[\"stop\", \"xxxxxxxx\"]",
     {S, T, EMPTY, EMPTY, OP},
     5,
     "stop"},
    {"more bytes than characters", "étét", {ETE, T}, 2, "étét"},
    {"characters, not bytes, are counted", "téé", {T, EMPTY, E_ACUTE, E_ACUTE}, 4, NULL},
    {"before the row begins", "stop", {OP}, 1, NULL},
};

/* Of the last, only what lies in the answer as a whole. */
static const struct {
    const char *name;
    int32_t ids[8];
    uint32_t n, prompt_len;
    bool stops;
} parted[] = {
    {"all of it", {T, S, T, OP}, 4, 1, true},
    {"its first token is the prompt's", {S, T, OP}, 3, 1, false},
    {"all but one is", {S, T, OP}, 3, 2, false},
    {"there is no prompt", {S, T, OP}, 3, 0, true},
    {"no token is new", {STOP}, 1, 1, false},
    {"the token begins before it", {T, WATCH}, 2, 1, true},
};

static void test_stop_strings_of_the_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof parted / sizeof parted[0]; i++) {
        const cdz_ids ids[] = {{parted[i].ids, parted[i].n}};
        cdz_stop stop;
        harness h;
        start(&h, "stop_strings", "stop_strings=stop", "in_prompt=no");
        h.token_texts = texts;
        h.n_tokens = UNKNOWN;
        h.request.prompt_len = parted[i].prompt_len;
        begin_or_fail(&h);
        assert_int_equal(harness_test(&h, 1, ids, &stop), CDZ_OK);
        if ((stop.reason == CDZ_STOP_STRING) != parted[i].stops)
            fail_msg("%s: reason %u", parted[i].name, stop.reason);
        harness_close(&h);
    }
}

static void test_stop_strings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stop_cases / sizeof stop_cases[0]; i++) {
        const cdz_ids ids[] = {{stop_cases[i].ids, stop_cases[i].n}};
        char setting[128];
        cdz_stop stop;
        harness h;
        snprintf(setting, sizeof setting, "stop_strings=%s", stop_cases[i].strings);
        start(&h, "stop_strings", setting, NULL);
        h.token_texts = texts;
        h.n_tokens = UNKNOWN;
        begin_or_fail(&h);
        assert_int_equal(harness_test(&h, 1, ids, &stop), CDZ_OK);
        if ((stop.reason == CDZ_STOP_STRING) != (stop_cases[i].stop != NULL))
            fail_msg("%s: reason %u", stop_cases[i].name, stop.reason);
        if (stop_cases[i].stop) assert_string_equal(stop.text.at, stop_cases[i].stop);
        harness_close(&h);
    }
}

/* --- promises ------------------------------------------------------------------------------------------------------------- */

static const char *const acting[][2] = {
    {"temperature", "temperature=0.7"},
    {"top_k", "top_k=5"},
    {"top_p", "top_p=0.6"},
    {"top_h", "top_h=0.4"},
    {"min_p", "min_p=0.1"},
    {"typical_p", "typical_p=0.5"},
    {"epsilon_cutoff", "epsilon_cutoff=0.03"},
    {"eta_cutoff", "eta_cutoff=0.1"},
    {"repetition_penalty", "repetition_penalty=1.3"},
    {"no_repeat_ngram_size", "no_repeat_ngram_size=2"},
    {"encoder_repetition_penalty", "encoder_repetition_penalty=1.3"},
    {"encoder_no_repeat_ngram_size", "encoder_no_repeat_ngram_size=1"},
    {"sequence_bias", "sequence_bias=[[[3], 2.5]]"},
    {"bad_words_ids", "bad_words_ids=[[3]]"},
    {"suppress_tokens", "suppress_tokens=5"},
    {"begin_suppress_tokens", "begin_suppress_tokens=5"},
    {"forced_bos_token_id", "forced_bos_token_id=3"},
    {"forced_eos_token_id", "forced_eos_token_id=3"},
    {"min_length", "min_length=9"},
    {"min_new_tokens", "min_new_tokens=9"},
    {"remove_invalid_values", "remove_invalid_values=true"},
    {"renormalize_logits", "renormalize_logits=true"},
    {"exponential_decay_length_penalty", "exponential_decay_length_penalty=[0, 1.2]"},
};

enum { VOCAB = 400, LEN = 12 };

static void check_argmax(const char *id, const float *before, const float *after)
{
    const cdz_vec *v = cdz_vec_table();
    if (v->argmax(before, VOCAB) != v->argmax(after, VOCAB))
        fail_msg("%s: the best token changed", id);
}

/* Masked or untouched, and nothing kept is below anything masked. */
static void check_top(const char *id, const float *before, const float *after)
{
    float least = INFINITY, most = -INFINITY;
    for (size_t v = 0; v < VOCAB; v++) {
        if (!isinf(after[v]) && before[v] != after[v]) fail_msg("%s: a kept score changed", id);
        if (isinf(after[v]) && !isinf(before[v])) most = fmaxf(most, before[v]);
        if (!isinf(after[v])) least = fminf(least, after[v]);
    }
    if (most > least) fail_msg("%s: what it keeps is no top segment", id);
}

/* 5 is what the suppressors name, 2 the end of sequence. */
static void check_sparse(const char *id, const float *before, const float *after, const int32_t *ids)
{
    for (int32_t v = 0; v < VOCAB; v++) {
        bool touched = v == 5 || v == 2;
        for (size_t i = 0; i < LEN; i++) touched = touched || ids[i] == v;
        if (!touched && before[v] != after[v]) fail_msg("%s: score %d changed", id, (int)v);
    }
}

/* One element at a time gives what the row gives. */
static void check_elementwise(harness *h, const float *before, const float *after,
                              const cdz_ids *ids)
{
    h->request.n_vocab = 1;
    for (size_t v = 0; v < VOCAB; v++) {
        float one = before[v];
        assert_int_equal(harness_apply(h, 0, 1, ids, &one), CDZ_OK);
        if (memcmp(&one, &after[v], sizeof one) != 0)
            fail_msg("%s: not elementwise", h->plugin->id);
    }
    h->request.n_vocab = VOCAB;
}

static void check_promises(harness *h, const float *before, const float *after, const cdz_ids *ids)
{
    const char *id = h->plugin->id;
    const uint32_t caps = processor_of(h)->caps;

    if (caps & CDZ_KEEPS_ARGMAX) check_argmax(id, before, after);
    if (caps & CDZ_KEEPS_TOP) check_top(id, before, after);
    if (caps & CDZ_HISTORY_SPARSE) check_sparse(id, before, after, ids->at);
    if (caps & CDZ_ELEMENTWISE) check_elementwise(h, before, after, ids);
}

static void test_promises(void **state)
{
    static const int32_t eos[] = {2};
    (void)state;
    test_seed(77);
    for (size_t p = 0; p < sizeof acting / sizeof acting[0]; p++) {
        unsigned changed = 0;
        for (size_t round = 0; round < 20; round++) {
            float before[VOCAB], after[VOCAB];
            int32_t history[LEN];
            for (size_t v = 0; v < VOCAB; v++)
                before[v] = round % 2 ? test_normal() * 3 : roundf(test_normal() * 4) / 2;
            for (size_t i = 0; i < LEN; i++) history[i] = (int32_t)(test_random() % 30);
            memcpy(after, before, sizeof after);
            /* a lone start token half of the time, for those that act on nothing else */
            const uint32_t len = round % 4 < 2 ? LEN : 1;
            const cdz_ids ids[] = {{history, len}};
            harness h;
            start(&h, acting[p][0], acting[p][1], NULL);
            h.request.n_vocab = VOCAB;
            h.request.eos = (cdz_ids){eos, 1};
            h.request.max_length = LEN + 1;
            h.prompts[0] = (cdz_ids){history, LEN};
            begin_or_fail(&h);
            assert_int_equal(harness_apply(&h, 0, 1, ids, after), CDZ_OK);
            changed += memcmp(before, after, sizeof after) != 0;
            check_promises(&h, before, after, ids);
            harness_close(&h);
        }
        /* finite rows hold nothing for it to replace */
        if (changed == 0 && strcmp(acting[p][0], "remove_invalid_values") != 0)
            fail_msg("%s never acted", acting[p][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_whole_numbers_in_text),
        cmocka_unit_test(test_ids_outside_the_vocabulary),
        cmocka_unit_test(test_tokens_to_keep),
        cmocka_unit_test(test_first_token_after_a_forced_one),
        cmocka_unit_test(test_resolved_minimum),
        cmocka_unit_test(test_prompts_of_rows),
        cmocka_unit_test(test_own_limits_of_criteria),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_stop_strings_of_the_answer),
        cmocka_unit_test(test_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
