/* test_screen.c - the best tokens of a row by a screen of the head: the very ids and scores of the whole product, for every type
 * of head and kernel set, for rows that the copy puts in another order, and in requests, whose tokens are those without it. */
#include "run/pass/screen.h"
#include "support/kernel_data.h"
#include "support/run_strategies.h"

enum { WIDTH = 96, TOKENS = 1030, MOST_EDITED = 9 }; /* the last sixteen are six */

/* --- a head ----------------------------------------------------------------------------------------------------------- */

typedef struct head_made {
    cdz_weights weights;
    cdz_backend *backend;
    cdz_screening screening;
    void *data;
} head_made;

/* The floats as a head of that type and form; panels are made where the form has them. */
static head_made make_head(const char *variant, const float *w, size_t n, size_t k, cdz_dtype dtype,
                           cdz_weight_form form)
{
    head_made h = {.backend = make_backend(variant, 2), .screening = {.how = CDZ_SCREEN_ON}};
    const size_t stride = cdz_row_bytes(dtype, k), whole = n / CDZ_PANEL_ROWS * CDZ_PANEL_ROWS;
    char *rows = malloc(n * stride);
    for (size_t r = 0; r < n; r++) cdz_quantise(dtype, rows + r * stride, w + r * k, k);
    h.data = rows;
    if (form == CDZ_WEIGHT_PANELS) {
        char *panels = malloc(n * stride);
        cdz_to_panels(dtype, panels, rows, stride, whole, k);
        memcpy(panels + whole * stride, rows + whole * stride, (n - whole) * stride);
        free(rows);
        h.data = panels;
    }
    h.weights.folder = "made";
    h.weights.head.w = (cdz_weight){h.data, dtype, n, k, form};
    return h;
}

/* The screen once it is whole; NULL: there is none. */
static cdz_screen *screen_of(head_made *h)
{
    cdz_screen *screen = NULL;
    for (int i = 0; i < 40 && !screen; i++) {
        screen = cdz_screening_want(&h->screening, false);
        cdz_screening_more(&h->screening, &h->weights, h->backend);
    }
    return screen;
}

static void free_head(head_made *h)
{
    cdz_screening_free(&h->screening, h->backend); /* waits for workers that read the head too */
    h->backend->api->destroy(h->backend);
    free(h->data);
}

/* --- one search -------------------------------------------------------------------------------------------------------- */

static int by_fall(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* What is told of m rows is what the whole product has; returns of how many it is: of a row that the copy does not narrow down
 * nothing is. */
static uint32_t check_rows(const char *what, head_made *h, cdz_screen *screen, const float *x,
                           uint32_t m, uint32_t least)
{
    const size_t n = h->weights.head.w.n, k = h->weights.head.w.k;
    float *whole = malloc(m * n * sizeof *whole), *work = malloc(m * n * sizeof *work),
          *sorted = malloc(n * sizeof *sorted);
    static int32_t ids[CDZ_SCREEN_ROWS][CDZ_LEADERS_MOST];
    static float scores[CDZ_SCREEN_ROWS][CDZ_LEADERS_MOST], was[CDZ_SCREEN_ROWS][MOST_EDITED];
    static const int32_t edited[MOST_EDITED] = {0, 15, 16, 17, 400, 401, 1023, 1024, TOKENS - 1};
    cdz_leaders rows[CDZ_SCREEN_ROWS];
    for (uint32_t r = 0; r < m; r++)
        rows[r] = (cdz_leaders){.least = least,
                                .ids = ids[r],
                                .x = scores[r],
                                .edited = edited,
                                .n_edited = r % 2 ? MOST_EDITED : 0,
                                .was = was[r]};
    cdz_screen_all(screen, h->backend, x, m, whole);
    const uint32_t told = cdz_screen_tell(screen, h->backend, x, m, rows, work);
    uint32_t counted = 0;
    for (uint32_t r = 0; r < m; r++) {
        if (rows[r].least == 0) continue;
        counted++;
        const float *y = whole + r * n;
        memcpy(sorted, y, n * sizeof *y);
        for (uint32_t i = 0; i < rows[r].n_edited; i++) sorted[edited[i]] = -INFINITY;
        qsort(sorted, n, sizeof *sorted, by_fall);
        uint32_t at = 0;
        assert_true(rows[r].low == sorted[least - 1]);
        for (size_t id = 0; id < n; id++) {
            if (y[id] < rows[r].low) continue;
            if (at >= rows[r].n || ids[r][at] != (int32_t)id || scores[r][at] != y[id])
                fail_msg("%s: row %u: token %zu of score %.9g is not told", what, r, id,
                         (double)y[id]);
            at++;
        }
        assert_int_equal(at, rows[r].n);
        for (uint32_t i = 0; i < rows[r].n_edited; i++) assert_true(was[r][i] == y[edited[i]]);
        assert_true(cdz_screen_score(screen, h->backend, x + r * k, edited[8]) == y[edited[8]]);
    }
    assert_int_equal(told, counted);
    free(whole);
    free(work);
    free(sorted);
    return told;
}

static const struct {
    const char *name;
    cdz_dtype dtype;
    cdz_weight_form form;
} kinds[] = {{"f32", CDZ_F32, CDZ_WEIGHT_ROWS},
             {"f16", CDZ_F16, CDZ_WEIGHT_ROWS},
             {"bf16", CDZ_BF16, CDZ_WEIGHT_ROWS},
             {"bf16 by bf16", CDZ_BF16, CDZ_WEIGHT_BF16},
             {"bf16 by one part", CDZ_BF16, CDZ_WEIGHT_BF16X1},
             {"bf16 by three", CDZ_BF16, CDZ_WEIGHT_BF16X3},
             {"q8_0 rows", CDZ_Q8_0, CDZ_WEIGHT_ROWS},
             {"q8_0", CDZ_Q8_0, CDZ_WEIGHT_INT8},
             {"q8_0 panels", CDZ_Q8_0, CDZ_WEIGHT_PANELS}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* --- tests ------------------------------------------------------------------------------------------------------------- */

static void every_kind(const char *variant)
{
    rng r = {77};
    float *w = random_floats(&r, (size_t)TOKENS * WIDTH);
    memcpy(w + (size_t)900 * WIDTH, w + (size_t)33 * WIDTH,
           5 * WIDTH * sizeof *w); /* equal scores */
    for (size_t kind = 0; kind < KINDS; kind++) {
        head_made h = make_head(variant, w, TOKENS, WIDTH, kinds[kind].dtype, kinds[kind].form);
        const bool parts = kinds[kind].form >= CDZ_WEIGHT_BF16X1;
        if (parts && !h.backend->api->takes_parts) {
            free_head(&h);
            continue;
        }
        cdz_screen *screen = screen_of(&h);
        uint32_t told = 0, asked = 0;
        assert_non_null(screen);
        assert_int_equal(cdz_screen_width(screen), WIDTH);
        assert_true(atomic_load(&h.screening.bytes) > (size_t)TOKENS * WIDTH * 5 / 8);
        for (uint32_t i = 0; i < 24; i++) {
            const uint32_t most = cdz_screen_most(screen), m = i == 7 ? most : 1 + i % 4;
            if (m > most) continue;
            float *x = random_floats(&r, (size_t)m * WIDTH);
            for (size_t c = 0; i % 3 == 0 && c < WIDTH; c++) x[c] = w[(size_t)(35 + i) * WIDTH + c];
            for (size_t c = 0; i % 4 == 0 && c < WIDTH; c += 7) x[c] *= 40.0f;
            told += check_rows(kinds[kind].name, &h, screen, x, m, i % 5 ? 1 : 4);
            asked += m;
            free(x);
        }
        print_message("%s, %s: %u of %u told\n", variant, kinds[kind].name, told, asked);
        assert_true(told * 3 > asked);
        free_head(&h);
    }
    free(w);
}

static void test_tells_what_the_product_has(void **state)
{
    (void)state;
    each_variant(every_kind);
}

/* Token 40 has numbers that the copy takes for 0, and others a little less, half of which it takes for 1: there they are far
 * above it. What was lost points the way that x does, so the bound is no larger than the error is. */
static void test_the_copy_is_wrong(void **state)
{
    (void)state;
    static float w[TOKENS * WIDTH], work[TOKENS], x[WIDTH];
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t c = 0; c < WIDTH; c++) {
            const float near = t >= 200 && t < 260 ? c % 2 ? 0.51f : 0.45f : 0.1f;
            w[t * WIDTH + c] = c % 32 == 0 ? -16.0f
                               : t == 40   ? 0.49f
                                           : near; /* levels are 1 apart */
        }
    for (size_t c = 0; c < WIDTH; c++) x[c] = c % 32 ? 1.0f : 0.0f;
    uint8_t block[64];
    float back[32];
    cdz_quantise(CDZ_Q5_0, block, w + (size_t)40 * WIDTH, 32);
    cdz_widen(CDZ_Q5_0, back, block, 32);
    assert_true(back[5] == 0.0f);
    cdz_quantise(CDZ_Q5_0, block, w + (size_t)200 * WIDTH, 32);
    cdz_widen(CDZ_Q5_0, back, block, 32);
    assert_true(back[5] == 1.0f); /* else the copy is right, and nothing is tested */

    head_made h = make_head(NULL, w, TOKENS, WIDTH, CDZ_F32, CDZ_WEIGHT_ROWS);
    cdz_screen *screen = screen_of(&h);
    int32_t ids[CDZ_LEADERS_MOST];
    float scores[CDZ_LEADERS_MOST];
    cdz_leaders row = {.least = 1, .ids = ids, .x = scores};
    assert_non_null(screen);
    assert_int_equal(1, cdz_screen_tell(screen, h.backend, x, 1, &row, work));
    assert_int_equal(row.n, 1);
    assert_int_equal(ids[0], 40);
    free_head(&h);
}

static void test_numbers_that_are_none(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
    rng r = {3};
    float *w = random_floats(&r, (size_t)TOKENS * WIDTH), *x = random_floats(&r, WIDTH);
    int32_t ids[CDZ_LEADERS_MOST];
    float scores[CDZ_LEADERS_MOST], *work = malloc(TOKENS * sizeof *work);
    cdz_leaders row = {.least = 1, .ids = ids, .x = scores};
    head_made h = make_head(NULL, w, TOKENS, WIDTH, CDZ_F32, CDZ_WEIGHT_ROWS);
    cdz_screen *screen = screen_of(&h);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const float was = x[11];
        x[11] = bad[i];
        row.least = 1;
        assert_int_equal(0, cdz_screen_tell(screen, h.backend, x, 1, &row, work));
        x[11] = was;
    }
    free_head(&h);
    for (size_t i = 0; i < 4;
         i++) { /* of such a head there is no screen, nor where the copy has no scale so large */
        w[(size_t)TOKENS * WIDTH - 5] = i < 3 ? bad[i] : 2e6f;
        h = make_head(NULL, w, TOKENS, WIDTH, CDZ_F32, CDZ_WEIGHT_ROWS);
        assert_null(screen_of(&h));
        assert_true(atomic_load(&h.screening.bytes) == 0);
        free_head(&h);
    }
    free(work);
    free(w);
    free(x);
}

/* After searches that were no help the screen rests, longer each time; a search that was one ends that. For several tokens it
 * rests apart from the best one. */
static void test_rests(void **state)
{
    (void)state;
    rng r = {5};
    float *w = random_floats(&r, (size_t)TOKENS * WIDTH), *x = random_floats(&r, WIDTH);
    int32_t ids[CDZ_LEADERS_MOST];
    float scores[CDZ_LEADERS_MOST], *work = malloc(TOKENS * sizeof *work);
    head_made h = make_head(NULL, w, TOKENS, WIDTH, CDZ_Q8_0, CDZ_WEIGHT_INT8);
    cdz_screen *screen = screen_of(&h);
    for (uint32_t round = 0; round < 9; round++) {
        cdz_leaders row = {.least = CDZ_SCREEN_LEAST, .ids = ids, .x = scores};
        uint32_t rested = 0;
        assert_int_equal(0, cdz_screen_tell(screen, h.backend, x, 1, &row, work));
        while (!cdz_screening_want(&h.screening, true)) rested++;
        assert_int_equal(rested, round < 8 ? 1u << round : 128);
        assert_ptr_equal(cdz_screening_want(&h.screening, false), screen);
    }
    for (size_t c = 0; c < WIDTH; c++)
        x[c] = w[(size_t)70 * WIDTH + c]; /* whose score stands out */
    cdz_leaders row = {.least = 1, .ids = ids, .x = scores};
    assert_int_equal(1, cdz_screen_tell(screen, h.backend, x, 1, &row, work));
    assert_ptr_equal(cdz_screening_want(&h.screening, false), screen);
    free_head(&h);
    free(work);
    free(w);
    free(x);
}

static void refused(const cdz_weights *w, const cdz_backend *b, const char *why)
{
    cdz_error err = {0};
    assert_int_equal(cdz_screen_check(CDZ_SCREEN_ON, w, b, &err), CDZ_E_UNSUPPORTED);
    if (!strstr(err.text, why)) fail_msg("found '%s', expected '%s'", err.text, why);
    must(cdz_screen_check(CDZ_SCREEN_AUTO, w, b, &err), &err);
}

static void test_what_cannot_be_screened(void **state)
{
    (void)state;
    static float zero[TOKENS * WIDTH];
    head_made h = make_head(NULL, zero, TOKENS, WIDTH, CDZ_F32, CDZ_WEIGHT_ROWS);
    cdz_weights w = h.weights;
    cdz_error err = {0};
    cdz_screen_use use;
    must(cdz_screen_check(CDZ_SCREEN_ON, &w, h.backend, &err), &err);
    w.arch.final_cap = 30.0f;
    refused(&w, h.backend, "the head of made caps its scores; expected auto or off");
    w = h.weights;
    w.head.bias.data = zero;
    refused(&w, h.backend, "has a bias");
    w = h.weights;
    w.head.w.dtype = CDZ_Q4_0;
    refused(&w, h.backend, "is in few bits already");
    w = h.weights;
    w.head.w.k = 90;
    refused(&w, h.backend, "no multiple of 32");
    w = h.weights;
    w.head.w.n = 1000;
    refused(&w, h.backend, "fewer than 1024 tokens");
    w.head.w.data = NULL;
    refused(&w, h.backend, "says nothing of tokens");
    must(cdz_screen_named(NULL, &use, &err), &err);
    assert_int_equal(use, CDZ_SCREEN_AUTO);
    must(cdz_screen_named("off", &use, &err), &err);
    assert_int_equal(use, CDZ_SCREEN_OFF);
    assert_int_equal(cdz_screen_named("onn", &use, &err), CDZ_E_USAGE);
    assert_string_equal(
        err.text, "head_screen: found 'onn', expected one of auto, off, on: did you mean 'on'?");
    free_head(&h);
}

/* --- requests ----------------------------------------------------------------------------------------------------------- */

enum { ROWS = 3, LEN = 6, NEW = 40, REQUESTS = 12 };

static rig open_shipped(const char *screen)
{
    cdz_weights *weights;
    cdz_screen_use use;
    cdz_error err = {0};
    must(cdz_weights_open(CADENZA_SOURCE_DIR "/models/pocket-dictionary", &weights, &err), &err);
    rig r = rig_of(weights);
    must(cdz_screen_named(screen, &use, &err), &err);
    must(cdz_run_model_screen(r.model, use, &err), &err);
    return r;
}

/* Request `seed` of a strategy: what edits a few scores before, and for a draw what cuts after. */
static void ask(const rig *r, const cdz_plugin_base *strategy, uint32_t seed, answer *a)
{
    const bool draws = strcmp(strategy->id, "sample") == 0;
    hand_plan c;
    int32_t ids[ROWS * LEN];
    random_ids(ids, LEN, 4000, seed);
    memcpy(ids + LEN, ids, LEN * sizeof *ids);
    random_ids(ids + 2 * LEN, LEN, 4000, seed + 1);
    plan_init(&c, strategy, NULL);
    if (seed % 2) plan_add_named(&c, "repetition_penalty", 1.3, false);
    if (seed % 3 == 1) plan_add_named(&c, "no_repeat_ngram_size", 2, true);
    if (draws && seed % 4) plan_add_named(&c, "temperature", 0.8, false);
    if (draws) plan_add_named(&c, "top_k", 1 + seed % 5, true);
    if (draws && seed % 2) plan_add_named(&c, "top_p", 0.9, false);
    plan_add_criterion(&c, &length_rule, NULL);
    cdz_job *job = new_job(r, &c, ids, NULL, ROWS, LEN, NEW, a);
    job->seed = seed;
    run(r, a);
}

static uint64_t rows_away(const rig *r)
{
    cdz_engine_stats stats;
    cdz_engine_get_stats(r->engine, &stats);
    return stats.rows_away;
}

static void compare(const cdz_plugin_base *strategy, bool stays)
{
    rig with = open_shipped("on"), without = open_shipped("off");
    for (uint32_t seed = 0; seed < REQUESTS; seed++) {
        answer a, b;
        char name[80];
        ask(&with, strategy, seed, &a);
        ask(&without, strategy, seed, &b);
        snprintf(name, sizeof name, "%s, request %u", strategy->id, seed);
        must_be_same(a.outcome, b.outcome, ROWS, name);
        answer_free(&a);
        answer_free(&b);
    }
    print_message("%s: %llu of %d rows were not made\n", strategy->id,
                  (unsigned long long)rows_away(&with), REQUESTS * ROWS * NEW);
    assert_true(stays ? rows_away(&with) > REQUESTS * ROWS * NEW / 8 : rows_away(&with) == 0);
    assert_true(rows_away(&without) == 0);
    rig_close(&with);
    rig_close(&without);
}

/* A decode loop that reads its scores where they lie, as loops for the first ABI may. */
static cdz_status run_reading(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    while (!cdz_done(dec)) {
        cdz_scores scores;
        int32_t tokens[ROWS] = {0};
        CDZ_TRY(cdz_forward(dec, &scores));
        for (uint32_t r = 0; r < scores.n_rows; r++)
            for (uint32_t v = 1; v < scores.n_vocab; v++)
                if (cdz_row(&scores, r)[v] > cdz_row(&scores, r)[tokens[r]]) tokens[r] = (int32_t)v;
        CDZ_TRY(cdz_append_rows(dec, tokens));
    }
    return CDZ_OK;
}
STRATEGY(reading, run_reading, 0);

static void test_requests(void **state)
{
    (void)state;
    compare(built_plugin("greedy"), true);
    compare(built_plugin("sample"), true);
    compare(&reading.base, false);
}

/* Where the head is a good part of a step the copy is made after some steps, and not before. */
static void test_auto_waits(void **state)
{
    (void)state;
    rig r = open_shipped(NULL);
    answer a;
    ask(&r, built_plugin("greedy"), 0, &a);
    answer_free(&a);
    /* after the 41st pass that could be screened come sixteen that make the copy, however many rows they have */
    assert_true(NEW <= 41 && rows_away(&r) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        ask(&r, built_plugin("greedy"), 0, &a);
        answer_free(&a);
    }
    assert_true(rows_away(&r) > 0 && rows_away(&r) <= ROWS * (3 * NEW - 41 - 15));
    assert_true(cdz_run_model_screen_bytes(r.model) >
                cdz_screen_auto_bytes(cdz_run_model_weights(r.model)));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tells_what_the_product_has),
        cmocka_unit_test(test_the_copy_is_wrong),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_rests),
        cmocka_unit_test(test_what_cannot_be_screened),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_auto_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
