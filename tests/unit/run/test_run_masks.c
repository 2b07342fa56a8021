/* test_run_masks.c - processors that mask, with a state of their own: on a device whose rows stay there, requests give the
 * tokens of requests whose rows come home, whatever is masked, whoever edits before and cuts after, and whoever takes tokens back
 * or reads a row all the same. On the CPU, where nothing stays away, the two are the same code. */
#include "base/environment.h"
#include "support/run_strategies.h"

#include "cadenza/ext/form.h"

enum { LEN = 6, ROWS = 3, NEW = 16, CHAINS = 40, SLOW_CHAINS = 6 };

/* --- a mask by what has come ------------------------------------------------------------------------------------------ */

/* What a row is left with, by the tokens that it has got. */
enum { ALL, THIRD, RANGE, FEW, ONE, HALF, NONE, NOT_TOLD, KINDS };

static uint32_t n_kinds; /* those that come up */

typedef struct told {
    uint32_t kind, at, n_vocab;
} told;

static told told_of(const cdz_step *step, uint32_t r)
{
    const uint32_t *hash = step->row_state[r];
    const uint32_t h = (*hash ^ step->row_index[r]) * 2654435761u >> 8;
    return (told){h % n_kinds, h / KINDS % step->request->n_vocab, step->request->n_vocab};
}

static bool leaves(told t, uint32_t v)
{
    switch (t.kind) {
    case THIRD: return (v + t.at) % 3 == 0;
    case RANGE: return v >= t.at && v < t.at + 70;
    case FEW: return (v + t.at) % 97 == 0;
    case ONE: return v == t.at;
    case HALF: return v > t.n_vocab / 2 || v == 8;
    case NONE: return false;
    default: return true;
    }
}

static bool mask(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words)
{
    const told t = told_of(step, r);
    for (uint32_t v = 0; v < t.n_vocab; v++)
        if (leaves(t, v)) bits[v / 64] |= (uint64_t)1 << (v % 64);
    if (t.n_vocab % 64) bits[n_words - 1] |= ~(uint64_t)0 << t.n_vocab % 64; /* nobody's */
    return t.kind != NOT_TOLD;
}

static bool some_come(told t, const float *row)
{
    for (uint32_t v = 0; v < t.n_vocab; v++)
        if (leaves(t, v) && row[v] > -INFINITY) return true;
    return false;
}

/* Where nothing is left token 11 comes, or a higher one; and what is not told is no mask. */
static void mask_row(told t, float *row)
{
    const bool some = some_come(t, row);
    for (uint32_t v = 0; v < t.n_vocab; v++) {
        if (t.kind == NOT_TOLD)
            row[v] = v % 2 ? row[v] + 1.0f : -row[v];
        else if (!some || !leaves(t, v))
            row[v] = -INFINITY;
    }
    if (!some) row[11 + t.at % 200] = 0.0f;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    for (uint32_t r = 0; r < scores->n_rows; r++) mask_row(told_of(step, r), cdz_row(scores, r));
    return CDZ_OK;
}

static cdz_status accept(const cdz_step *step, uint32_t r, int32_t token)
{
    uint32_t *hash = step->row_state[r];
    *hash = (*hash ^ (uint32_t)token) * 16777619u + 1;
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_MASK;
    return true;
}

static const void *extension(const char *id)
{
    static const cdz_form_api form = {.size = sizeof form, .describe = describe, .mask = mask};
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

static const cdz_processor masks = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.masks", .version = "1.0.0", .summary = "leaves some",
             .extension = extension},
    .caps = CDZ_ROWWISE,
    .state_size = sizeof(uint32_t),
    .apply = apply,
    .accept = accept,
};

/* --- strategies ------------------------------------------------------------------------------------------------------- */

/* Greedy, and now and then two tokens are taken back, once for each length. */
static cdz_status run_rewinding(cdz_decoder *dec, const cdz_step *step)
{
    int32_t tokens[ROWS];
    cdz_scores scores;
    uint32_t longest = 0;
    CHECK(cdz_n_rows(dec) <= ROWS);
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        CDZ_TRY(cdz_append_rows(dec, tokens));
        const uint32_t len = cdz_input_ids(dec, 0).len;
        if (len <= longest || len % 4 != 0) continue;
        longest = len;
        for (uint32_t r = 0; r < cdz_n_rows(dec); r++)
            if (!cdz_row_done(dec, r) && cdz_rewindable(dec, r) > 2 + r)
                CDZ_TRY(cdz_rewind(dec, r, 1 + r));
    }
    return CDZ_OK;
}
STRATEGY(rewinding, run_rewinding, CDZ_REWINDS);

/* The best of the rows as they came, of those that are processed, and of these read whole: which one it is hangs on length and seed. */
static cdz_status run_peeking(cdz_decoder *dec, const cdz_step *step)
{
    int32_t before[ROWS], tokens[ROWS];
    cdz_scores scores;
    CHECK(cdz_n_rows(dec) <= ROWS);
    while (!cdz_done(dec)) {
        const uint32_t turn = (cdz_input_ids(dec, 0).len + (uint32_t)step->request->seed) % 3;
        CDZ_TRY(cdz_forward(dec, &scores));
        if (turn == 0) CDZ_TRY(cdz_argmax_rows(dec, &scores, before));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
        if (turn == 1) CDZ_TRY(cdz_map(dec, &scores));
        for (uint32_t r = 0; turn == 1 && r < scores.n_rows; r++)
            for (uint32_t v = 0; v < scores.n_vocab; v++)
                if (cdz_row(&scores, r)[v] > -INFINITY && v % 7 == 3) tokens[r] = (int32_t)v;
        CDZ_TRY(cdz_append_rows(dec, turn == 0 ? before : tokens));
    }
    return CDZ_OK;
}
STRATEGY(peeking, run_peeking, 0);

/* --- chains ----------------------------------------------------------------------------------------------------------- */

typedef struct chain {
    hand_plan plan;
    char name[300];
} chain;

static void add(chain *c, const char *id, double value, bool whole)
{
    plan_add_named(&c->plan, id, value, whole);
    const size_t at = strlen(c->name);
    snprintf(c->name + at, sizeof c->name - at, " %s %g", id, value);
}

typedef enum what_follows { NOTHING, CUTS, FLATTENING } what_follows;

static void add_cuts(chain *c, uint32_t *random)
{
    static const double temperatures[] = {0.7, 1.3, 0.2}, masses[] = {0.9, 0.5, 0.99};
    if (draw(random, 3)) add(c, "temperature", temperatures[draw(random, 3)], false);
    if (draw(random, 2)) add(c, "top_k", 1 + draw(random, 60), true);
    if (draw(random, 2)) add(c, "top_p", masses[draw(random, 3)], false);
    if (draw(random, 3) == 0) add(c, "min_p", 0.05, false);
}

static chain *new_chain(const cdz_plugin_base *strategy, what_follows then, uint32_t seed)
{
    chain *c = calloc(1, sizeof *c);
    uint32_t random = seed * 2654435761u + 1;
    assert_non_null(c);
    plan_init(&c->plan, strategy, NULL);
    if (draw(&random, 2)) add(c, "repetition_penalty", draw(&random, 2) ? 1.4 : 0.7, false);
    if (draw(&random, 2)) add(c, "no_repeat_ngram_size", 1 + draw(&random, 2), true);
    plan_add_processor(&c->plan, &masks, NULL);
    if (draw(&random, 4) == 0) plan_add_processor(&c->plan, &masks, NULL);
    if (then == CUTS) add_cuts(c, &random);
    if (then == FLATTENING) add(c, "temperature", 2.0, false);
    plan_add_criterion(&c->plan, &eos_rule, NULL);
    plan_add_criterion(&c->plan, &length_rule, NULL);
    return c;
}

static void run_chain(const rig *r, chain *c, uint32_t seed, answer *a)
{
    static const int32_t eos[] = {5, 17};
    int32_t ids[ROWS * LEN];
    random_ids(ids, LEN, 250, seed);
    memcpy(ids + LEN, ids, LEN * sizeof *ids); /* two are alike */
    random_ids(ids + 2 * LEN, LEN, 250, seed + 1);
    cdz_job *job = new_job(r, &c->plan, ids, NULL, ROWS, LEN, NEW, a);
    job->seed = seed;
    job->pad = 0;
    job->eos = (cdz_ids){eos, 2};
    run(r, a);
}

static bool on_device(void)
{
    return cdz_env_named("CADENZA_DEVICE") != NULL;
}

/* Few on an emulated device. */
static uint32_t n_chains(void)
{
    return on_device() && strcmp(cdz_env_named("CADENZA_DEVICE"), "cuda") == 0 ? SLOW_CHAINS
                                                                               : CHAINS;
}

/* The same requests to two engines, one of which has all rows at home; how many stayed away in the other, and came after all. */
static void compare(const char *name, const cdz_plugin_base *strategy, what_follows then,
                    uint64_t *away, uint64_t *fetched)
{
    rig home = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .one_by_one = true});
    rig there = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    cdz_engine_stats stats, none;
    for (uint32_t seed = 0; seed < n_chains(); seed++) {
        answer want, got;
        char title[400];
        chain *c = new_chain(strategy, then, seed);
        run_chain(&home, c, seed, &want);
        run_chain(&there, c, seed, &got);
        snprintf(title, sizeof title, "%s, seed %u,%s", name, seed, c->name);
        must_be_same(want.outcome, got.outcome, ROWS, title);
        answer_free(&want);
        answer_free(&got);
        free(c);
    }
    cdz_engine_get_stats(home.engine, &none);
    cdz_engine_get_stats(there.engine, &stats);
    print_message(
        "%s: %llu rows stayed away, %llu of them came after all; of the others %llu, %llu\n", name,
        (unsigned long long)stats.rows_away, (unsigned long long)stats.rows_fetched,
        (unsigned long long)none.rows_away, (unsigned long long)none.rows_fetched);
    assert_true(none.rows_away == 0);
    *away = stats.rows_away;
    *fetched = stats.rows_fetched;
    rig_close(&home);
    rig_close(&there);
}

/* --- tests -------------------------------------------------------------------------------------------------------------- */

/* Nothing but masks that leave something: no row comes home. */
static void test_masked_rows_stay(void **state)
{
    (void)state;
    uint64_t away, fetched;
    n_kinds = FEW + 1;
    compare("greedy", built_plugin("greedy"), NOTHING, &away, &fetched);
    assert_true(on_device() ? away > ROWS * n_chains() * 6 && fetched * 20 < away : away == 0);
    compare("sampled", built_plugin("sample"), CUTS, &away, &fetched);
    assert_true(on_device() ? away > ROWS * n_chains() * 6 && fetched * 5 < away : away == 0);
}

/* Where nothing is cut, single scores may be asked for, of masked tokens too. */
static void test_all_that_is_left(void **state)
{
    (void)state;
    uint64_t away, fetched;
    n_kinds = RANGE + 1;
    compare("flat", built_plugin("sample"), FLATTENING, &away, &fetched);
    assert_true(on_device() ? away > ROWS * n_chains() : away == 0);
}

/* One token, none, and rows that are not told, beside the others. */
static void test_whatever_is_left(void **state)
{
    (void)state;
    uint64_t away, fetched;
    n_kinds = KINDS;
    compare("greedy", built_plugin("greedy"), NOTHING, &away, &fetched);
    assert_true(on_device() ? away > 6 * n_chains() && fetched > n_chains() : away == 0);
    compare("sampled", built_plugin("sample"), CUTS, &away, &fetched);
    assert_true(on_device() ? away > 6 * n_chains() && fetched > n_chains() : away == 0);
}

static void test_tokens_taken_back(void **state)
{
    (void)state;
    uint64_t away, fetched;
    n_kinds = HALF + 1;
    compare("rewinding", &rewinding.base, NOTHING, &away, &fetched);
    assert_true(on_device() ? away > ROWS * n_chains() * 6 && fetched * 10 < away : away == 0);
}

static void test_rows_read_all_the_same(void **state)
{
    (void)state;
    uint64_t away, fetched;
    n_kinds = KINDS;
    compare("peeking", &peeking.base, NOTHING, &away, &fetched);
    assert_true(on_device() ? fetched > n_chains() : away == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masked_rows_stay),       cmocka_unit_test(test_all_that_is_left),
        cmocka_unit_test(test_whatever_is_left),       cmocka_unit_test(test_tokens_taken_back),
        cmocka_unit_test(test_rows_read_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
