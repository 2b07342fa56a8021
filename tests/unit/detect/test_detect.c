/* test_detect.c - the hashes behind both watermarks, and what the detectors make of a text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"

/* --- cadenza/watermark.h: torch's numbers ---------------------------------------------------------------------- */

static void a_permutation_is_torchs(void **state)
{
    static const uint32_t begins[] = {138280, 994103, 467886, 915329};
    uint32_t *table = malloc(CDZ_GREEN_TABLE * sizeof *table);
    (void)state;
    assert_non_null(table);
    cdz_green_table(15485863, table);
    assert_memory_equal(table, begins, sizeof begins);
    uint32_t head[4]; /* all that is asked for, and no more work */
    uint32_t *room = malloc(CDZ_GREEN_TABLE * sizeof *room);
    assert_non_null(room);
    cdz_wm_permute(15485863, CDZ_GREEN_TABLE, 4, room);
    memcpy(head, room, sizeof head);
    assert_memory_equal(head, begins, sizeof begins);
    free(room);
    free(table);
}

static void green_ids_after_a_token(void **state)
{
    static const uint32_t want[] = {8, 61, 60, 17, 38, 41, 33, 48, 2, 36, 56, 34, 46, 35, 45, 63};
    const cdz_green green = {.key = 15485863, .width = 1, .n_vocab = 64, .n_green = 16};
    const int32_t ids[] = {3, 5};
    uint32_t room[64];
    (void)state;
    cdz_green_ids(&green, ids, 2, room);
    assert_memory_equal(room, want, sizeof want);
    assert_true(cdz_green_has(&green, ids, 2, 61, room));
    assert_false(cdz_green_has(&green, ids, 2, 7, room));
}

static void a_product_beyond_64_bits_is_reduced(void **state)
{
    (void)state;
    static const struct {
        int64_t key;
        int32_t id;
        uint32_t low; /* of key * id mod 2^64 - 1 */
    } cases[] = {
        {15485863, 5, 77429315u},
        {0, 9, 0},
        {INT64_MAX, 2, 0xfffffffeu},
        {INT64_MAX, 4, 0xfffffffdu},
        {INT64_MAX, INT32_MAX, 0xc0000000u},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(cdz_green_left(cases[i].key, cases[i].id), cases[i].low);
}

static void a_synthid_table_begins_so(void **state)
{
    static const uint8_t want[] = {0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0};
    uint8_t table[sizeof want];
    (void)state;
    cdz_synthid_table(0, sizeof table, table);
    assert_memory_equal(table, want, sizeof want);
}

/* --- settings ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *json, *says; /* NULL: accepted */
} setting_cases[] = {
    {"{}", NULL},
    {"{\"bias\": 2}", NULL},
    {"{\"type\": \"synthid\", \"ngram_len\": 5, \"keys\": [1, 2]}", NULL},
    {"[]", "watermarking_config: expected an object, found an array"},
    {"{\"greenlist_ration\": 0.5}", "did you mean 'greenlist_ratio'?"},
    {"{\"greenlist_ratio\": 1.5}", "greenlist_ratio = 1.5: must be 0.0 to 1.0"},
    {"{\"greenlist_ratio\": 1.0}", "above 0 and below 1"},
    {"{\"seeding_scheme\": \"x\"}", "must be lefthash or selfhash"},
    {"{\"context_width\": 0}", "context_width = 0"},
    {"{\"type\": \"synthid\", \"keys\": [1]}", "needs ngram_len"},
    {"{\"type\": \"synthid\", \"ngram_len\": 5}", "needs keys"},
    {"{\"type\": \"synthid\", \"ngram_len\": 5, \"keys\": [1], \"sampling_table_size\": 16777217}",
     "sampling_table_size = 16777217"},
};

static void settings_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof setting_cases / sizeof setting_cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_json config;
        cdz_watermark read;
        cdz_error err = {0};
        const char *json = setting_cases[i].json, *says = setting_cases[i].says;
        assert_int_equal(cdz_json_parse(json, strlen(json), "", NULL, &arena, &config, &err),
                         CDZ_OK);
        cdz_status status = cdz_watermark_read(&config, &arena, &read, &err);
        if (says ? status == CDZ_OK || !strstr(err.text, says) : status != CDZ_OK)
            fail_msg("%s: %d %s", json, (int)status, err.text);
        cdz_arena_free(&arena);
    }
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* Detects in one row and compares the answer whole; want NULL: refused with a sentence that holds `says`. */
static void detects(const char *config, const int32_t *ids, uint32_t n, int32_t bos,
                    const char *want, const char *says)
{
    cdz_arena arena = {0};
    cdz_json read;
    cdz_buf out = {0};
    cdz_error err = {0};
    static const int32_t end[] = {63};
    cdz_detection_input in = {.z_threshold = 3.0,
                              .n_vocab = 64,
                              .bos = bos,
                              .rows = &ids,
                              .lens = &n,
                              .n_rows = 1,
                              .eos = {end, 1}};
    assert_int_equal(cdz_json_parse(config, strlen(config), "", NULL, &arena, &read, &err), CDZ_OK);
    assert_int_equal(cdz_watermark_read(&read, &arena, &in.watermark, &err), CDZ_OK);
    cdz_status status = cdz_detection_write_json(&in, &out, &err);
    if (want) {
        if (status != CDZ_OK) fail_msg("%s", err.text);
        assert_string_equal(out.data, want);
    } else {
        assert_int_not_equal(status, CDZ_OK);
        if (!strstr(err.text, says)) fail_msg("%s", err.text);
    }
    cdz_buf_free(&out);
    cdz_arena_free(&arena);
}

static void every_window_counts(void **state)
{
    /* 5 -> 61, 60, 17 are green after 5; repeated pairs count again. */
    static const int32_t ids[] = {5, 61, 5, 61, 5, 60, 5, 17};
    (void)state;
    cdz_green green = {.key = 15485863, .width = 1, .n_vocab = 64, .n_green = 16};
    uint32_t room[64], others = 0;
    for (uint32_t i = 2; i < 8; i += 2) others += cdz_green_has(&green, ids, i, 5, room);
    assert_int_equal(others, 0);
    detects("{}", ids, 8, -1,
            "{\"num_tokens_scored\": [7], \"num_green_tokens\": [4], "
            "\"green_fraction\": [0.5714285714285714], \"z_score\": [1.9639610121239315], "
            "\"p_value\": [0.042908703782078894], \"confidence\": [0.9570912962179211], "
            "\"prediction\": [false]}",
            NULL);
}

static void a_leading_bos_is_dropped(void **state)
{
    static const int32_t ids[] = {0, 5, 61};
    (void)state;
    detects("{}", ids, 3, 0,
            "{\"num_tokens_scored\": [1], \"num_green_tokens\": [1], \"green_fraction\": [1.0], "
            "\"z_score\": [1.7320508075688774], \"p_value\": [0.07405061021936188], "
            "\"confidence\": [0.9259493897806381], \"prediction\": [false]}",
            NULL);
}

static void short_and_foreign_texts_are_refused(void **state)
{
    static const int32_t ids[] = {5, 64, 3};
    static const char synthid[] = "{\"type\": \"synthid\", \"ngram_len\": 3, \"keys\": [5]}";
    (void)state;
    detects("{}", ids, 1, -1, NULL, "1 tokens are too few");
    detects("{}", ids, 0, -1, NULL, "0 tokens are too few");
    detects("{\"seeding_scheme\": \"selfhash\", \"context_width\": 4}", ids, 1, -1, NULL, "too few");
    detects(synthid, ids, 1, -1, NULL, "ngram_len is 3");
    detects("{}", ids, 3, -1, NULL, "token id 64 at place 1");
}

static void positions_past_the_end_and_repeats_are_masked(void **state)
{
    static const int32_t ids[] = {1, 2, 3, 1, 2, 4, 63, 5};
    static const char config[] = "{\"type\": \"synthid\", \"ngram_len\": 3, \"keys\": [5, 7]}";
    cdz_arena arena = {0};
    cdz_json read, answer;
    cdz_buf out = {0};
    cdz_error err = {0};
    static const int32_t end[] = {63};
    const int32_t *rows[] = {ids};
    const uint32_t n = 8;
    cdz_detection_input in = {.n_vocab = 64, .bos = -1, .rows = rows, .lens = &n, .n_rows = 1};
    (void)state;
    in.eos = (cdz_ids){end, 1};
    assert_int_equal(cdz_json_parse(config, strlen(config), "", NULL, &arena, &read, &err), CDZ_OK);
    assert_int_equal(cdz_watermark_read(&read, &arena, &in.watermark, &err), CDZ_OK);
    assert_int_equal(cdz_detection_write_json(&in, &out, &err), CDZ_OK);
    assert_int_equal(cdz_json_parse(out.data, out.len, "", NULL, &arena, &answer, &err), CDZ_OK);
    const cdz_json *mask = &cdz_json_get(&answer, "mask")->items[0];
    /* contexts 1 2, 2 3, 3 1, 1 2 again, 2 4, then the end token stands in the window */
    static const int64_t want[] = {1, 1, 1, 0, 0, 0};
    assert_int_equal(mask->len, 6);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(mask->items[i].integer, want[i]);
    cdz_buf_free(&out);
    cdz_arena_free(&arena);
}

static void a_trained_detector_is_read(void **state)
{
    cdz_arena arena = {0};
    cdz_bayes bayes;
    cdz_error err = {0};
    const uint8_t ones[5] = {1, 1, 1, 1, 1}, none[5] = {0}, yes = 1, no = 0;
    (void)state;
    if (cdz_bayes_read(CADENZA_TEST_DATA "/golden/synthid_detector", &arena, &bayes, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_int_equal(bayes.depth, 5);
    const double prior = cdz_bayes_score(&bayes, ones, &no, 1);
    assert_true(fabs(prior - (double)bayes.prior) < 1e-6);
    assert_true(cdz_bayes_score(&bayes, ones, &yes, 1) > prior);
    assert_true(cdz_bayes_score(&bayes, none, &yes, 1) < prior);
    assert_int_not_equal(cdz_bayes_read(CADENZA_TEST_DATA "/golden/gpt2", &arena, &bayes, &err),
                         CDZ_OK);
    assert_non_null(strstr(err.text, "watermarking_depth"));
    cdz_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_permutation_is_torchs),
        cmocka_unit_test(green_ids_after_a_token),
        cmocka_unit_test(a_product_beyond_64_bits_is_reduced),
        cmocka_unit_test(a_synthid_table_begins_so),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(every_window_counts),
        cmocka_unit_test(a_leading_bos_is_dropped),
        cmocka_unit_test(short_and_foreign_texts_are_refused),
        cmocka_unit_test(positions_past_the_end_and_repeats_are_masked),
        cmocka_unit_test(a_trained_detector_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
