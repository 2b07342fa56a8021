/* test_run_on_hidden.c - edits of hidden states that are a function: when it is called and with what, whom its failures end, that
 * nobody shares what it made, and until when it may be called. Its numbers are test_run_steer.c's. */
#include "cadenza/drafter.h"
#include "support/run_strategies.h"

enum { LEN = 40, NEW = 6, N_ROWS = 3 };

/* What a processor's on_hidden is to do, and has heard; one request at a time. */
typedef enum deed { ADDS, FAILS, FAILS_SILENTLY, LEAVES_NAN } deed;

typedef struct behaviour {
    deed deed;
    uint32_t from;    /* of its edit */
    uint32_t fail_at; /* the position at which it does what it is not to do */
    uint32_t n_calls, most,
        next[N_ROWS]; /* most: positions of a call; next: position, of each row */
    bool in_order;
} behaviour;

static behaviour *behaviour_of(const cdz_step *step)
{
    return (behaviour *)(uintptr_t)step->params;
}

static cdz_status leave(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

static cdz_status steer(const cdz_step *step, const cdz_steered *row, const cdz_edit **edits,
                        uint32_t *n)
{
    static cdz_edit list[2];
    (void)row;
    list[0] = (cdz_edit){.layer = 1,
                         .place = CDZ_EDIT_BLOCK,
                         .op = CDZ_EDIT_CALL,
                         .scale = 0.25f,
                         .from = behaviour_of(step)->from};
    list[1] = (cdz_edit){.layer = 2,
                         .place = CDZ_EDIT_MLP,
                         .op = CDZ_EDIT_SCALE,
                         .scale = 0.5f,
                         .from = behaviour_of(step)->from};
    *edits = list;
    *n = 2;
    return CDZ_OK;
}

static void hear(behaviour *b, const cdz_hidden_chunk *hidden)
{
    b->n_calls++;
    if (hidden->n > b->most) b->most = hidden->n;
    b->in_order &= hidden->row < N_ROWS && hidden->position == b->next[hidden->row] &&
                   hidden->edit->layer == 1 && hidden->edit->scale == 0.25f &&
                   !hidden->edit->vector;
    if (hidden->row < N_ROWS) b->next[hidden->row] = hidden->position + hidden->n;
}

static cdz_status on_hidden(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    behaviour *b = behaviour_of(step);
    const bool due = b->fail_at >= hidden->position && b->fail_at - hidden->position < hidden->n;
    hear(b, hidden);
    if (due && b->deed == FAILS) return SAY("position %u is not to my taste", b->fail_at);
    if (due && b->deed == FAILS_SILENTLY) return CDZ_E_INPUT;
    for (uint32_t p = 0; p < hidden->n; p++)
        for (uint32_t k = 0; k < hidden->width; k++) {
            float *h = &hidden->h[(size_t)p * hidden->width + k];
            *h += hidden->edit->scale * (float)((k + hidden->row) % 3) * fabsf(*h);
        }
    if (due && b->deed == LEAVES_NAN)
        hidden->h[(b->fail_at - hidden->position) * hidden->width + 5] = NAN;
    return CDZ_OK;
}

static const cdz_steer_api table = {.size = sizeof table, .steer = steer, .on_hidden = on_hidden};
static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_STEER) == 0 ? &table : NULL;
}
static const cdz_processor calling = {.base = {CDZ_PROCESSOR_BASE, .id = "test.calling",
                                               .version = "1.0.0", .summary = "is called",
                                               .extension = extension},
                                      .caps = CDZ_ROWWISE,
                                      .apply = leave};

static void plan_calling(hand_plan *plan, const cdz_plugin_base *strategy, behaviour *b)
{
    plan_init(plan, strategy, NULL);
    b->in_order = true;
    plan_add_processor(plan, &calling, b);
    plan->processors[0].offers.steer = &table;
    plan->processors[0].offers.on_hidden = on_hidden;
    plan_add_criterion(plan, &length_rule, NULL);
}

static cdz_job *job_of(const rig *r, hand_plan *plan, uint32_t seed, uint32_t n_prompts, answer *a)
{
    int32_t ids[N_ROWS * LEN];
    random_ids(ids, n_prompts * LEN, (uint32_t)vocab_of(r), seed);
    cdz_job *job = new_job(r, plan, ids, NULL, n_prompts, LEN, NEW, a);
    job->keep_scores = true;
    return job;
}

static void assert_same_steps(const rig *r, const cdz_outcome *x, const cdz_outcome *y)
{
    assert_int_equal(x->n_steps, y->n_steps);
    for (uint32_t s = 0; s < x->n_steps; s++)
        assert_memory_equal(x->steps[s].scores, y->steps[s].scores,
                            (size_t)x->n_rows * vocab_of(r) * sizeof(float));
}

/* Each position once and in order, as many at a time as passes read; the answer hangs on none of that. */
static void every_position_comes_once(void **state)
{
    answer answers[3];
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    for (uint32_t i = 0; i < 3; i++) {
        hand_plan plan;
        behaviour b = {.from = i == 2 ? 7 : 0, .next = {7, 7, 7}};
        if (b.from == 0) memset(b.next, 0, sizeof b.next);
        plan_calling(&plan, built_plugin("greedy"), &b);
        job_of(&r, &plan, 3, N_ROWS, &answers[i])->prefill_chunk = i == 1 ? 5 : 0;
        run_well(&r, &answers[i]);
        assert_true(b.in_order);
        assert_int_equal(b.most, i == 1 ? 5 : LEN - b.from);
        for (uint32_t row = 0; row < N_ROWS; row++) assert_int_equal(b.next[row], LEN + NEW - 1);
        assert_int_equal(b.n_calls, N_ROWS * ((i == 1 ? LEN / 5 : 1) + NEW - 1));
    }
    assert_same_steps(&r, answers[0].outcome, answers[1].outcome);
    assert_memory_not_equal(answers[0].outcome->steps[0].scores,
                            answers[2].outcome->steps[0].scores, vocab_of(&r) * sizeof(float));
    for (uint32_t i = 0; i < 3; i++) answer_free(&answers[i]);
    rig_close(&r);
}

/* --- failures ----------------------------------------------------------------------------------------------------------- */

static void a_failure_ends_its_request_alone(void **state)
{
    static const struct {
        deed deed;
        uint32_t at;
        const char *sentence;
    } cases[] = {
        {FAILS, 3, "test.calling: position 3 is not to my taste"},
        {FAILS, LEN + 2, "test.calling: position 42 is not to my taste"},
        {FAILS_SILENTLY, LEN, "test.calling: on_hidden failed"},
        {LEAVES_NAN, LEN - 1,
         "test.calling: on_hidden left a number that is not finite: of layer 1, position 39, number 5"},
    };
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hand_plan plans[4];
        answer plain, steered, failing, beside;
        behaviour well = {.deed = ADDS}, ill = {.deed = cases[i].deed, .fail_at = cases[i].at},
                  again = {.deed = ADDS};
        plan_init(&plans[0], built_plugin("greedy"), NULL);
        plan_add_criterion(&plans[0], &length_rule, NULL);
        plan_calling(&plans[1], built_plugin("greedy"), &well);
        plan_calling(&plans[2], built_plugin("greedy"), &ill);
        plan_calling(&plans[3], built_plugin("greedy"), &again);
        job_of(&r, &plans[1], 4, 1, &steered);
        run_well(&r, &steered); /* alone */
        job_of(&r, &plans[2], 4, 2, &failing);
        job_of(&r, &plans[3], 4, 1, &beside);
        job_of(&r, &plans[0], 4, 1, &plain);
        submit(&r, &failing);
        submit(&r, &beside);
        submit(&r, &plain);
        assert_int_equal(await(&failing)->error.code == CDZ_OK, false);
        if (!strstr(failing.outcome->error.text, cases[i].sentence))
            fail_msg("%s: %s", cases[i].sentence, failing.outcome->error.text);
        assert_same_steps(&r, steered.outcome, await_well(&beside));
        assert_memory_not_equal(beside.outcome->steps[0].scores,
                                await_well(&plain)->steps[0].scores, vocab_of(&r) * sizeof(float));
        assert_true(ill.n_calls <=
                    2 * NEW); /* none behind the one that failed, but of its own pass */
        answer_free(&plain);
        answer_free(&steered);
        answer_free(&failing);
        answer_free(&beside);
    }
    rig_close(&r);
}

/* --- caches ----------------------------------------------------------------------------------------------------------------- */

/* A later request of the same processor shares what lies before the function's first position, and no more. */
static void nobody_shares_what_it_made(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    for (uint32_t from = 0; from < 30; from += 13) {
        hand_plan plans[2];
        answer first, second;
        behaviour b = {.from = from}, again = {.from = from};
        plan_calling(&plans[0], built_plugin("greedy"), &b);
        plan_calling(&plans[1], built_plugin("greedy"), &again);
        job_of(&r, &plans[0], 5, 1, &first)->keep_cache = true;
        run_well(&r, &first);
        cdz_job *job = job_of(&r, &plans[1], 5, 1, &second);
        job->past = first.outcome->kept;
        cdz_kept_retain(job->past);
        run_well(&r, &second);
        assert_int_equal(second.outcome->n_reused_tokens, from);
        assert_same_steps(&r, first.outcome, second.outcome);
        answer_free(&first);
        answer_free(&second);
    }
    rig_close(&r);
}

/* What a kept cache holds of its edits is given back when the engine has gone too. */
static void kept_calls_outlive_the_engine(void **state)
{
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    hand_plan plan;
    answer a;
    behaviour b = {.from = 3};
    plan_calling(&plan, built_plugin("greedy"), &b);
    job_of(&r, &plan, 5, 1, &a)->keep_cache = true;
    run_well(&r, &a);
    assert_non_null(a.outcome->kept);
    cdz_engine_free(r.engine);
    cdz_run_model_release(r.model);
    answer_free(&a);
}

/* --- strategies --------------------------------------------------------------------------------------------------------------- */

static uint32_t n_heard, heard_row;

static cdz_status count(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    n_heard += hidden->n;
    heard_row = hidden->row;
    hidden->h[0] += *(const float *)step->shared;
    return CDZ_OK;
}

static const cdz_edit call_edit = {.layer = 0, .place = CDZ_EDIT_BLOCK, .op = CDZ_EDIT_CALL};

/* What an edit was given with it keeps; a row and its fork are told apart by nothing but what they are. */
static cdz_status run_two_functions(cdz_decoder *dec, const cdz_step *step)
{
    float one = 1, two = 2;
    const cdz_ids ids = cdz_input_ids(dec, 0);
    cdz_seq *row = cdz_seq_of_row(dec, 0), *fork, *other;
    CDZ_TRY(cdz_on_hidden(dec, step, count, &one));
    CDZ_TRY(cdz_seq_steer(dec, row, &call_edit, 1));
    CDZ_TRY(cdz_on_hidden(dec, step, count, &two));
    CDZ_TRY(cdz_seq_fork(dec, row, &fork));
    n_heard = 0;
    CDZ_TRY(compare_with(dec, step, fork, row)); /* the fork has the first function, too */
    CHECK(n_heard > 0 && heard_row == 0);
    CDZ_TRY(cdz_seq_new(dec, NULL, &other));
    CDZ_TRY(cdz_seq_append(dec, other, ids.at, ids.len));
    CDZ_TRY(cdz_seq_steer(dec, other, &call_edit, 1));
    const float *plain;
    const size_t width = step->request->n_vocab;
    float *firsts = cdz_scratch(step, width * sizeof *firsts);
    cdz_scores scores;
    CHECK(firsts);
    CDZ_TRY(cdz_seq_forward(dec, &row, 1, CDZ_POSITIONS_LAST, &scores));
    memcpy(firsts, scores.data, width * sizeof *firsts);
    n_heard = 0;
    CDZ_TRY(cdz_seq_forward(dec, &other, 1, CDZ_POSITIONS_LAST, &scores));
    CHECK(n_heard == ids.len && heard_row == CDZ_NO_ROW);
    CHECK(!same_floats(firsts, scores.data, width));
    CDZ_TRY(fresh_scores(dec, ids, &plain));
    CHECK(!same_floats(firsts, plain, width));
    return CDZ_OK;
}
STRATEGY(two_functions, run_two_functions, 0);

static cdz_status run_no_function(cdz_decoder *dec, const cdz_step *step)
{
    return cdz_on_hidden(dec, step, NULL, NULL);
}
STRATEGY(no_function, run_no_function, 0);

static cdz_status run_one_function(cdz_decoder *dec, const cdz_step *step)
{
    float one = 1;
    return cdz_on_hidden(dec, step, count, &one);
}
STRATEGY(one_function, run_one_function, 0);

static void functions_of_strategies(void **state)
{
    static const struct {
        const cdz_strategy *strategy;
        bool keep_hidden;
        const char *sentence;
    } cases[] = {
        {&two_functions, false, NULL},
        {&one_function, false, NULL},
        {&no_function, false, "test.no_function: on_hidden: no function is given"},
        {&one_function, true,
         "test.one_function: on_hidden: output_hidden_states reads the rows again when the decode loop "
         "has ended"},
    };
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hand_plan plan;
        answer a;
        plan_init(&plan, &cases[i].strategy->base, NULL);
        job_of(&r, &plan, 6, 1, &a)->keep_hidden = cases[i].keep_hidden;
        const cdz_outcome *outcome = run(&r, &a);
        if (cases[i].sentence ? !strstr(outcome->error.text, cases[i].sentence)
                              : outcome->error.code != CDZ_OK)
            fail_msg("case %zu: %s", i, outcome->error.text);
        answer_free(&a);
    }
    rig_close(&r);
}

/* --- drafters ----------------------------------------------------------------------------------------------------------------- */

static const cdz_plugin_base *heard_by;

static cdz_status note_who(const cdz_step *step, const cdz_hidden_chunk *hidden)
{
    (void)hidden;
    heard_by = step->plugin;
    return CDZ_OK;
}

static cdz_status begin_drafts(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    (void)shared;
    return cdz_on_hidden(dec, step, note_who, NULL);
}

/* None: it reads the history in a sequence of its own. */
static cdz_status read_alone(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    cdz_seq *seq;
    (void)step;
    CDZ_TRY(cdz_seq_new(dec, NULL, &seq));
    CDZ_TRY(cdz_seq_append(dec, seq, draft->history.at, draft->history.len));
    CDZ_TRY(cdz_seq_steer(dec, seq, &call_edit, 1));
    CDZ_TRY(cdz_seq_forward(dec, &seq, 1, CDZ_POSITIONS_NONE, NULL));
    cdz_seq_free(dec, seq);
    return CDZ_OK;
}

static const cdz_drafter reads_alone = {
    .base = {CDZ_DRAFTER_BASE, .id = "test.reads-alone", .version = "1.0.0", .summary = "drafts"},
    .begin = begin_drafts,
    .propose = read_alone,
};

static cdz_status run_beside_drafts(cdz_decoder *dec, const cdz_step *step)
{
    cdz_seq *row = cdz_seq_of_row(dec, 0);
    cdz_draft draft = {.size = sizeof draft, .row = 0, .room = 3};
    cdz_scores scores;
    CDZ_TRY(cdz_on_hidden(dec, step, note_who, NULL));
    CDZ_TRY(cdz_seq_steer(dec, row, &call_edit, 1));
    for (uint32_t i = 0; i < 2; i++) {
        CDZ_TRY(cdz_propose(dec, 0, &draft));
        CHECK(heard_by == &reads_alone.base);
        CDZ_TRY(cdz_forward(dec, &scores));
        CHECK(heard_by == step->plugin);
        CDZ_TRY(cdz_append(dec, 0, 7));
    }
    return CDZ_OK;
}
STRATEGY(beside_drafts, run_beside_drafts, CDZ_GREEDY);

/* Each is called by its own function, and as itself. */
static void a_drafter_has_its_own(void **state)
{
    hand_plan plan;
    answer a;
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    plan_init(&plan, &beside_drafts.base, NULL);
    plan.plan.drafter = instance_of(&reads_alone.base, NULL);
    job_of(&r, &plan, 8, 1, &a)->keep_scores = false;
    run_well(&r, &a);
    answer_free(&a);
    rig_close(&r);
}

/* output_hidden_states reads a processor's rows again, by its function. */
static void states_are_those_that_it_left(void **state)
{
    hand_plan plan;
    answer a;
    behaviour b = {.deed = ADDS};
    (void)state;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1});
    plan_calling(&plan, built_plugin("greedy"), &b);
    job_of(&r, &plan, 7, 1, &a)->keep_hidden = true;
    run_well(&r, &a);
    assert_true(b.n_calls > NEW); /* and once more */
    assert_non_null(a.outcome->steps[0].hidden);
    answer_free(&a);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_comes_once),
        cmocka_unit_test(a_failure_ends_its_request_alone),
        cmocka_unit_test(nobody_shares_what_it_made),
        cmocka_unit_test(kept_calls_outlive_the_engine),
        cmocka_unit_test(functions_of_strategies),
        cmocka_unit_test(a_drafter_has_its_own),
        cmocka_unit_test(states_are_those_that_it_left),
    };
    return cmocka_run_group_tests_name("run on_hidden", tests, NULL, NULL);
}
