/* test_run_insert.c - text of a row that the model did not write, and tokens that stay although the loop takes others back:
 * what the model reads, what is told and when, what counts, through rewinds and reorders. */
#include "support/run_strategies.h"

enum { PROMPT = 6, NEW = 8 };
static const int32_t prompt[PROMPT] = {5, 80, 201, 44, 17, 300};
static const int32_t note[3] = {7, 9, 11};

static rig open_small(void)
{
    return rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
}

static cdz_status take_one(cdz_decoder *dec)
{
    cdz_scores scores;
    int32_t tokens[4];
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_process(dec, &scores));
    CDZ_TRY(cdz_argmax_rows(dec, &scores, tokens));
    return cdz_append_rows(dec, tokens);
}

static const cdz_opt_int unset; /* max_length's one parameter */

static void begin(const rig *r, hand_plan *plan, const cdz_strategy *strategy, uint32_t max_new,
                  answer *a)
{
    plan_init(plan, &strategy->base, NULL);
    plan_add_criterion(plan, (const void *)built_plugin("max_length"), &unset);
    new_job(r, plan, prompt, NULL, 1, PROMPT, max_new, a);
}

static void run_one(const rig *r, const cdz_strategy *strategy, uint32_t max_new, answer *a)
{
    hand_plan plan;
    begin(r, &plan, strategy, max_new, a);
    submit(r, a);
    await_well(a);
}

/* What the model says after these ids, one after the other; the ids behind `n` are written. */
static void greedy_after(const rig *r, const int32_t *ids, uint32_t n, uint32_t n_new, int32_t *out)
{
    hand_plan plan;
    answer a;
    plan_init(&plan, built_plugin("greedy"), NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(r, &plan, ids, NULL, 1, n, n_new, &a);
    submit(r, &a);
    await_well(&a);
    memcpy(out, a.outcome->rows[0].ids + n, n_new * sizeof *out);
    answer_free(&a);
}

/* --- what is read, told and counted ------------------------------------------------------------------------------- */

static uint32_t flags;

/* Two tokens, a note, and on to the end. */
static cdz_status run_noter(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    CDZ_TRY(take_one(dec));
    CDZ_TRY(take_one(dec));
    CDZ_TRY(cdz_insert(dec, 0, note, 3, flags, "notes"));
    while (!cdz_done(dec)) CDZ_TRY(take_one(dec));
    return CDZ_OK;
}

STRATEGY(noter, run_noter, CDZ_GREEDY);

static void wants_span(const cdz_outcome *o, uint32_t i, uint32_t from, uint32_t to, bool shown)
{
    assert_true(i < o->rows[0].n_spans);
    const cdz_span *span = &o->rows[0].spans[i];
    assert_int_equal(span->from, from);
    assert_int_equal(span->to, to);
    assert_int_equal(span->shown, shown);
    assert_string_equal(span->who, "notes");
}

static void test_what_is_told(void **state)
{
    (void)state;
    rig r = open_small();
    int32_t read[PROMPT + 5], after[NEW], first[2];
    greedy_after(&r, prompt, PROMPT, 2, first);
    memcpy(read, prompt, sizeof prompt);
    memcpy(read + PROMPT, first, sizeof first);
    memcpy(read + PROMPT + 2, note, sizeof note);
    greedy_after(&r, read, PROMPT + 5, NEW - 2, after);
    for (flags = 0; flags < 8; flags++) {
        answer a;
        run_one(&r, &noter, NEW, &a);
        const bool shown = flags & CDZ_INSERT_SHOWN, counts = flags & CDZ_INSERT_COUNTS;
        const cdz_outcome_row *row = &a.outcome->rows[0];
        const uint32_t later = counts ? NEW - 5 : NEW - 2;
        assert_int_equal(row->n_new, 5 + later);
        assert_memory_equal(row->ids, read, sizeof read);
        assert_memory_equal(row->ids + PROMPT + 5, after, later * sizeof *after);
        assert_int_equal(row->n_spans, 1);
        wants_span(a.outcome, 0, 2, 5, shown);
        assert_int_equal(a.n_streamed[0], (shown ? 5 : 2) + later);
        assert_memory_equal(a.streamed[0], row->ids + PROMPT, (shown ? 5 : 2) * sizeof(int32_t));
        assert_memory_equal(a.streamed[0] + (shown ? 5 : 2), after, later * sizeof(int32_t));
        answer_free(&a);
    }
    rig_close(&r);
}

/* At the note's second token, where rules are asked about it. */
static cdz_status test_nine(const cdz_step *step, cdz_stop *stops)
{
    for (uint32_t r = 0; r < step->n_rows; r++)
        if (step->input_ids[r].at[step->input_ids[r].len - 1] == 9)
            stops[r] = (cdz_stop){CDZ_STOP_CUSTOM, {"nine", 4}};
    return CDZ_OK;
}

static const cdz_criterion at_nine = {
    .base = {CDZ_CRITERION_BASE, .id = "test.at_nine", .version = "1.0.0", .summary = "x"},
    .caps = CDZ_NEEDS_IDS,
    .test = test_nine,
};

static void test_rules(void **state)
{
    (void)state;
    rig r = open_small();
    for (int asked = 0; asked < 2; asked++) {
        hand_plan plan;
        answer a;
        flags = asked ? CDZ_INSERT_STOPS | CDZ_INSERT_SHOWN : CDZ_INSERT_SHOWN;
        begin(&r, &plan, &noter, NEW, &a);
        plan_add_criterion(&plan, &at_nine, NULL);
        submit(&r, &a);
        await_well(&a);
        const cdz_outcome_row *row = &a.outcome->rows[0];
        assert_int_equal(row->n_new, asked ? 4 : NEW + 3);
        assert_string_equal(row->stop.text.at, asked ? "nine" : "length");
        wants_span(a.outcome, 0, 2, asked ? 4 : 5, true);
        assert_int_equal(a.n_streamed[0], row->n_new);
        answer_free(&a);
    }
    rig_close(&r);
}

/* --- rewinds, states ---------------------------------------------------------------------------------------------- */

/* States of the stages are those of the ids that are left; spans are cut with them. */
static cdz_status run_rewinder(cdz_decoder *dec, const cdz_step *step)
{
    const float *fresh;
    cdz_scores scores;
    CDZ_TRY(take_one(dec));
    CDZ_TRY(cdz_insert(dec, 0, note, 3, CDZ_INSERT_SHOWN, "notes"));
    CDZ_TRY(take_one(dec));
    CDZ_TRY(cdz_insert(dec, 0, note, 3, 0, "notes"));
    CHECK(cdz_rewindable(dec, 0) == 8);
    CDZ_TRY(cdz_rewind(dec, 0, 2)); /* two of the hidden note */
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(fresh_scores(dec, cdz_input_ids(dec, 0), &fresh));
    CHECK(same_floats(cdz_row(&scores, 0), fresh, scores.n_vocab));
    CDZ_TRY(cdz_rewind(dec, 0, 3)); /* the rest of it, a token, and one of the first note */
    CDZ_TRY(cdz_commit(dec, 0, 2));
    CHECK(cdz_rewindable(dec, 0) == 1);
    CDZ_TRY(cdz_insert(dec, 0, note, 1, 0, "notes"));
    while (!cdz_done(dec)) CDZ_TRY(take_one(dec));
    return CDZ_OK;
}

STRATEGY(rewinder, run_rewinder, CDZ_REWINDS | CDZ_GREEDY);

static void test_rewinds(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer a;
    begin(&r, &plan, &rewinder, NEW, &a);
    plan_add_processor(&plan, &hash_rows, NULL);
    submit(&r, &a);
    await_well(&a);
    /* one, two of the first note, one hidden; the note and the hidden one do not count */
    assert_int_equal(a.outcome->rows[0].n_new, NEW + 3);
    assert_int_equal(a.outcome->rows[0].n_spans, 2);
    wants_span(a.outcome, 0, 1, 3, true);
    wants_span(a.outcome, 1, 3, 4, false);
    assert_int_equal(a.n_streamed[0], NEW + 2);
    assert_int_equal(a.streamed[0][1], 7);
    answer_free(&a);
    rig_close(&r);
}

/* --- committing --------------------------------------------------------------------------------------------------- */

static answer *watched;
static uint32_t told[4];

/* Three tokens, two of them said to stay; then one is taken back and chosen again. */
static cdz_status run_committer(cdz_decoder *dec, const cdz_step *step)
{
    for (int i = 0; i < 3; i++) CDZ_TRY(take_one(dec));
    told[0] = watched->n_streamed[0];
    CDZ_TRY(cdz_commit(dec, 0, 2));
    told[1] = watched->n_streamed[0];
    CDZ_TRY(cdz_commit(dec, 0, 1)); /* they stay */
    CHECK(cdz_rewindable(dec, 0) == 1);
    CDZ_TRY(cdz_rewind(dec, 0, 1));
    CHECK(cdz_rewindable(dec, 0) == 0);
    CDZ_TRY(take_one(dec));
    told[2] = watched->n_streamed[0];
    while (!cdz_done(dec)) CDZ_TRY(take_one(dec));
    CDZ_TRY(cdz_commit(dec, 0, NEW));
    told[3] = watched->n_streamed[0];
    return CDZ_OK;
}

STRATEGY(committer, run_committer, CDZ_REWINDS | CDZ_GREEDY);

static void test_commit(void **state)
{
    (void)state;
    rig r = open_small();
    answer a;
    int32_t plain[NEW];
    watched = &a;
    greedy_after(&r, prompt, PROMPT, NEW, plain);
    run_one(&r, &committer, NEW, &a);
    assert_int_equal(told[0], 0);
    assert_int_equal(told[1], 2);
    assert_int_equal(told[2], 2);
    assert_int_equal(told[3], NEW);
    assert_int_equal(a.n_streamed[0], NEW);
    assert_memory_equal(a.streamed[0], plain, sizeof plain);
    assert_memory_equal(a.outcome->rows[0].ids + PROMPT, plain, sizeof plain);
    answer_free(&a);
    rig_close(&r);
}

/* --- several rows ------------------------------------------------------------------------------------------------- */

/* Rows change places with what was inserted into them; who has committed keeps what it has told. */
static cdz_status run_swapper(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t swap[2] = {1, 0}, both[2] = {1, 1}, stay[2] = {0, 1};
    CDZ_TRY(take_one(dec));
    CDZ_TRY(cdz_insert(dec, 0, note, 3, CDZ_INSERT_SHOWN, "notes"));
    CDZ_TRY(cdz_reorder(dec, swap));
    CHECK(cdz_input_ids(dec, 1).len == PROMPT + 4 && cdz_input_ids(dec, 0).len == PROMPT + 1);
    CDZ_TRY(cdz_rewind(dec, 1, 1));
    CDZ_TRY(cdz_reorder(dec, both));
    CDZ_TRY(cdz_commit(dec, 0, 3));
    CDZ_TRY(cdz_rewind(dec, 1, 3));
    CDZ_TRY(cdz_reorder(dec, stay));
    return cdz_reorder(dec, swap);
}

STRATEGY(swapper, run_swapper, CDZ_REWINDS | CDZ_GREEDY);

static void test_reorders(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer a;
    const int32_t two[2 * PROMPT] = {5, 80, 201, 44, 17, 300, 9, 8, 7, 6, 5, 4};
    plan_init(&plan, &swapper.base, NULL);
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(&r, &plan, two, NULL, 2, PROMPT, NEW, &a);
    submit(&r, &a);
    const cdz_outcome *o = await(&a);
    assert_int_equal(o->error.code, CDZ_E_STATE);
    assert_non_null(strstr(o->error.text, "reorder: row 0 has committed 3 new tokens, which row 1 "
                                          "does not begin with"));
    assert_int_equal(o->rows[0].n_spans, 1);
    wants_span(o, 0, 1, 3, true);
    assert_int_equal(o->rows[1].n_spans, 0);
    assert_int_equal(a.n_streamed[0], 3);
    answer_free(&a);
    rig_close(&r);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static int wrong_way;

static cdz_status run_wrong(cdz_decoder *dec, const cdz_step *step)
{
    static const int32_t beyond = 100000;
    const cdz_returned given = {.n_new = 0, .stop = {CDZ_STOP_LENGTH, {"length", 6}}};
    (void)step;
    switch (wrong_way) {
    case 0: return cdz_insert(dec, 1, note, 3, 0, NULL);
    case 1: return cdz_insert(dec, 0, &beyond, 1, 0, NULL);
    case 2: return cdz_insert(dec, 0, note, 3, 64, NULL);
    case 3: return cdz_commit(dec, 0, 1);
    case 4: return cdz_commit(dec, 5, 0);
    case 5: CDZ_TRY(cdz_insert(dec, 0, note, 1, 0, NULL)); return cdz_return_rows(dec, &given, 1);
    case 6:
        CDZ_TRY(cdz_finish(dec, 0, CDZ_STOP_CUSTOM, "enough"));
        return cdz_insert(dec, 0, note, 1, 0, NULL);
    default: return cdz_insert(dec, 0, note, 1, 0, NULL);
    }
}

STRATEGY(wrong, run_wrong, CDZ_REWINDS);

static void test_wrong_use(void **state)
{
    static const char *const says[] = {
        "insert: row 1 of 1",
        "insert: token 100000 for row 0 is outside the vocabulary",
        "insert: flags 0x40 have no meaning",
        "commit: 1 new tokens of row 0, which has 0",
        "commit: 0 new tokens of row 5, which has 0",
        "return_rows: a row that has text of others (insert) is the answer itself",
        "insert: row 0 has ended",
        "insert: the request records scores or log-probabilities of each step",
    };
    (void)state;
    rig r = open_small();
    for (wrong_way = 0; wrong_way < 8; wrong_way++) {
        hand_plan plan;
        answer a;
        begin(&r, &plan, &wrong, 4, &a);
        a.job->keep_scores = wrong_way == 7;
        submit(&r, &a);
        const cdz_outcome *outcome = await(&a);
        if (outcome->error.code == CDZ_OK || !strstr(outcome->error.text, says[wrong_way]))
            fail_msg("\"%s\" does not say \"%s\"", outcome->error.text, says[wrong_way]);
        answer_free(&a);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told), cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rewinds),      cmocka_unit_test(test_commit),
        cmocka_unit_test(test_reorders),     cmocka_unit_test(test_wrong_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
