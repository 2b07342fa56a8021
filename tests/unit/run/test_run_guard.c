/* test_run_guard.c - what a function of a plugin does to the thread ends with the call: the engine calls each of them, one
 * sets flush-to-zero, and from then on every verb and every other plugin looks at the thread. */
#include "base/environment.h"
#include "cadenza/drafter.h"
#include "cadenza/ext/companion.h"
#include "cadenza/ext/form.h"
#include "cadenza/ext/phase.h"
#include "cadenza/ext/state.h"
#include "call/guard.h"
#include "support/run_strategies.h"

enum { PROMPT = 6 };
static const int32_t prompt[PROMPT] = {5, 80, 201, 44, 17, 300};

/* --- the witnesses ------------------------------------------------------------------------------------------------- */

/* One request at a time: what is wrong first, and what it was asked. */
static struct {
    const char *sick;  /* the function that flushes */
    uint32_t phase;    /* what `of` says */
    unsigned healthy;  /* the mode before */
    char wrong[200];   /* what a witness saw first */
    char log[400];     /* what the engine logged */
    uint32_t n_called; /* how often the sick function was */
    uint32_t n_asked;  /* for extensions, while the request runs */
    bool runs;
} now;

static void look(const char *after)
{
    if (now.wrong[0]) return;
    if (cdz_float_mode() != now.healthy)
        snprintf(now.wrong, sizeof now.wrong, "%s: the floating-point mode is %x", after,
                 cdz_float_mode());
}

/* The strategy itself is what the thread is in, between two verbs. */
static void look_between(const char *after)
{
    const cdz_calling in = cdz_calling_now;
    look(after);
    if (now.wrong[0] || (in.plugin && strcmp(in.function, "run") == 0)) return;
    snprintf(now.wrong, sizeof now.wrong, "%s: the thread is in %s of %s", after,
             in.function ? in.function : "nothing", in.plugin ? in.plugin->id : "nobody");
}

static void flush_in(const char *function)
{
    if (!now.sick || strcmp(now.sick, function) != 0) return;
    now.n_called++;
    cdz_float_mode_set(cdz_float_mode() | CDZ_FLOAT_FLUSH);
}

static cdz_status watch_begin(const cdz_step *step, void **shared)
{
    (void)step, (void)shared;
    look("begin of another");
    return CDZ_OK;
}
static cdz_status watch_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    look("apply of another");
    return CDZ_OK;
}
static void watch_end(const cdz_step *step)
{
    (void)step;
    look("end of another");
}
static const cdz_processor witness = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.witness", .version = "1.0.0", .summary = "looks"},
    .begin = watch_begin,
    .apply = watch_apply,
    .end = watch_end,
};

/* Every verb that leads to a call, two rows, with a look at the thread after each of them. */
static cdz_status run_looking(cdz_decoder *dec, const cdz_step *step)
{
    static const uint32_t swapped[] = {1, 0};
    (void)step;
    look_between("the beginning");
    for (int i = 0; i < 3; i++) {
        cdz_scores rows;
        int32_t tokens[2];
        cdz_status status = cdz_forward(dec, &rows);
        look_between("forward");
        if (status == CDZ_OK) status = cdz_process(dec, &rows);
        look_between("process");
        if (status == CDZ_OK) status = cdz_argmax_rows(dec, &rows, tokens);
        if (status == CDZ_OK) status = cdz_append_rows(dec, tokens);
        look_between("append_rows");
        if (status == CDZ_OK) status = cdz_reorder(dec, swapped);
        look_between("reorder");
        if (status == CDZ_OK && cdz_has_drafter(dec)) {
            cdz_draft draft;
            status = cdz_propose(dec, 0, &draft);
            look_between("propose");
            if (status == CDZ_OK) status = cdz_judged(dec, 0, 0);
            look_between("judged");
        }
        CDZ_TRY(status);
    }
    return CDZ_OK;
}
STRATEGY(looking, run_looking, CDZ_REWINDS);

/* --- plugins of every kind of extension, each of whose functions may be the sick one ----------------------------------- */

static cdz_status quiet_apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

static cdz_status describe_companion(const cdz_step *step, uint32_t row, cdz_companion *out)
{
    (void)row;
    out->from = step->request->prompt_len - 1;
    flush_in("companion.describe");
    return CDZ_OK;
}

static bool describe_form(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_EDIT;
    flush_in("form.describe");
    return true;
}
static bool list_edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    (void)step, (void)r;
    *out = (cdz_ids){prompt, 1};
    flush_in("form.edits");
    return true;
}

static bool describe_mask(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_MASK;
    return true;
}
static bool leave_all(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words)
{
    (void)step, (void)r;
    memset(bits, 0xff, n_words * sizeof *bits);
    flush_in("form.mask");
    return true;
}

static uint32_t phase_of(const cdz_step *step, uint32_t r)
{
    (void)step, (void)r;
    flush_in("phase.of");
    return now.phase;
}

static cdz_status clone_state(const cdz_step *step, const void *from, void *to)
{
    (void)step;
    memcpy(to, from, sizeof(uint32_t));
    flush_in("state.clone");
    return CDZ_OK;
}
static void free_state(const cdz_step *step, void *state)
{
    (void)step;
    memset(state, 0, sizeof(uint32_t));
    flush_in("state.free");
}

static const cdz_companion_api companion_api = {.size = sizeof companion_api,
                                                .describe = describe_companion};
static const cdz_form_api form_api = {
    .size = sizeof form_api, .describe = describe_form, .edits = list_edits};
static const cdz_form_api mask_api = {
    .size = sizeof mask_api, .describe = describe_mask, .mask = leave_all};
static const cdz_phase_api phase_api = {.size = sizeof phase_api, .of = phase_of};
static const cdz_state_api state_api = {
    .size = sizeof state_api, .clone = clone_state, .free = free_state};

#define OFFERS(name_, id_)                                                                         \
    static const void *offers_##name_(const char *id)                                              \
    {                                                                                              \
        now.n_asked += now.runs;                                                                   \
        return strcmp(id, id_) == 0 ? &name_##_api : NULL;                                         \
    }
OFFERS(companion, CDZ_EXT_COMPANION)
OFFERS(form, CDZ_EXT_FORM)
OFFERS(mask, CDZ_EXT_FORM)
OFFERS(phase, CDZ_EXT_PHASE)
OFFERS(state, CDZ_EXT_STATE)

#define SICK_BASE(name_)                                                                           \
    .base = {CDZ_PROCESSOR_BASE, .id = "test.sick", .version = "1.0.0", .summary = "flushes",      \
             .extension = offers_##name_},                                                         \
    .apply = quiet_apply
static const cdz_processor with_companion = {SICK_BASE(companion)};
static const cdz_processor with_form = {SICK_BASE(form), .caps = CDZ_ROWWISE};
static const cdz_processor with_mask = {SICK_BASE(mask), .caps = CDZ_ROWWISE};
static const cdz_processor with_phase = {SICK_BASE(phase), .caps = CDZ_ROWWISE};
static const cdz_processor with_state = {SICK_BASE(state), .state_size = sizeof(uint32_t)};

static const cdz_processor second = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.second", .version = "1.0.0", .summary = "of a phase"},
    .caps = CDZ_ROWWISE,
    .apply = quiet_apply,
};

static cdz_status draft_begin(cdz_decoder *dec, const cdz_step *step, void **shared)
{
    (void)dec, (void)step, (void)shared;
    flush_in("drafter.begin");
    return CDZ_OK;
}
static cdz_status draft_propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    (void)dec, (void)step, (void)draft;
    flush_in("drafter.propose");
    return CDZ_OK;
}
static cdz_status draft_judged(cdz_decoder *dec, const cdz_step *step, uint32_t row,
                               uint32_t n_proposed, uint32_t n_accepted)
{
    (void)dec, (void)step, (void)row, (void)n_proposed, (void)n_accepted;
    flush_in("drafter.judged");
    return CDZ_OK;
}
static void draft_end(const cdz_step *step)
{
    (void)step;
    flush_in("drafter.end");
}
static const cdz_drafter sick_drafter = {
    .base = {CDZ_DRAFTER_BASE, .id = "test.sick", .version = "1.0.0", .summary = "flushes"},
    .begin = draft_begin,
    .propose = draft_propose,
    .judged = draft_judged,
    .end = draft_end,
};

/* --- requests -------------------------------------------------------------------------------------------------------- */

static void keep_log(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    (void)user, (void)level;
    const size_t n = strlen(now.log);
    snprintf(now.log + n, sizeof now.log - n, "%s: %s\n", plugin, text);
}

/* processor or drafter: the one that may be sick. phases: those of a second processor; 0: there is none. */
static cdz_outcome *play(const rig *r, const cdz_processor *processor, const cdz_drafter *drafter,
                         uint32_t phases, answer *a)
{
    static hand_plan plan;
    plan_init(&plan, &looking.base, NULL);
    if (processor) plan_add_processor(&plan, processor, NULL);
    if (drafter) plan.plan.drafter = instance_of(&drafter->base, NULL);
    if (phases) {
        static const cdz_plan_phase phase = {.name = "one"};
        plan_add_processor(&plan, &second, NULL);
        plan.processors[1].phases = phases;
        plan.plan.phases = &phase;
        plan.plan.n_phases = 1;
    }
    if (processor != &with_form && processor != &with_mask)
        plan_add_processor(&plan, &witness, NULL); /* it would read the rows */
    plan_add_criterion(&plan, &length_rule, NULL);
    new_job(r, &plan, prompt, NULL, 1, PROMPT, 8, a)->n_rows = 2;
    now.healthy = cdz_float_mode();
    now.runs = true;
    cdz_outcome *outcome = run(r, a);
    now.runs = false;
    return outcome;
}

static void expect_calm(const char *what)
{
    if (now.wrong[0]) fail_msg("%s: after %s", what, now.wrong);
}

typedef struct sick_case {
    const char *function;
    const cdz_processor *processor;
    const cdz_drafter *drafter;
    uint32_t phases;
    const char *error, *log; /* what says so: one of them */
} sick_case;

/* Scores are fetched for processors, and masked, on a device of its own alone. */
static bool is_asked(const sick_case *c)
{
    return (strcmp(c->function, "form.edits") != 0 && strcmp(c->function, "form.mask") != 0) ||
           cdz_env_named("CADENZA_DEVICE");
}

static void test_modes_end_with_the_call(void **state)
{
    (void)state;
    if (!CDZ_SEES_FLOAT_MODE) skip();
    static const sick_case cases[] = {
        {"companion.describe", &with_companion, NULL, 0, "test.sick: describe changed", NULL},
        {"form.describe", &with_form, NULL, 0, NULL, "test.sick: describe changed"},
        {"form.edits", &with_form, NULL, 0, NULL, "test.sick: edits changed"},
        {"form.mask", &with_mask, NULL, 0, NULL, "test.sick: mask changed"},
        {"phase.of", &with_phase, NULL, 1u << 1, "test.sick: of changed", NULL},
        {"state.clone", &with_state, NULL, 0, "test.sick: clone changed", NULL},
        {"state.free", &with_state, NULL, 0, NULL, "test.sick: free changed"},
        {"drafter.begin", NULL, &sick_drafter, 0, "test.sick: begin changed", NULL},
        {"drafter.propose", NULL, &sick_drafter, 0, "test.sick: propose changed", NULL},
        {"drafter.judged", NULL, &sick_drafter, 0, "test.sick: judged changed", NULL},
        {"drafter.end", NULL, &sick_drafter, 0, NULL, "test.sick: end changed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const sick_case *c = &cases[i];
        answer a;
        memset(&now, 0, sizeof now);
        now.sick = c->function;
        rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .log = keep_log});
        const cdz_outcome *outcome = play(&r, c->processor, c->drafter, c->phases, &a);
        expect_calm(c->function);
        if (is_asked(c)) {
            assert_true(now.n_called > 0);
            assert_int_equal(outcome->error.code, c->error ? CDZ_E_PLUGIN : CDZ_OK);
            if (c->error && !strstr(outcome->error.text, c->error))
                fail_msg("%s: %s", c->function, outcome->error.text);
            if (c->log && !strstr(now.log, c->log))
                fail_msg("%s: \"%s\" lacks \"%s\"", c->function, now.log, c->log);
        }
        answer_free(&a);
        rig_close(&r);
    }
}

/* A phase that is none fails the request, and the thread is the strategy's again all the same. */
static void test_bad_phase_leaves(void **state)
{
    (void)state;
    answer a;
    memset(&now, 0, sizeof now);
    now.phase = 99;
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .log = keep_log});
    const cdz_outcome *outcome = play(&r, &with_phase, NULL, 1u << 1, &a);
    expect_calm("a phase that is none");
    assert_int_equal(outcome->error.code, CDZ_E_PLUGIN);
    if (!strstr(outcome->error.text, "test.sick: of gave phase 99"))
        fail_msg("%s", outcome->error.text);
    answer_free(&a);
    rig_close(&r);
}

/* Rows that a row-wise stage leaves out, because they are in another phase. */
static void test_stage_of_another_phase(void **state)
{
    (void)state;
    answer a;
    memset(&now, 0, sizeof now);
    rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .log = keep_log});
    const cdz_outcome *outcome = play(&r, &with_phase, NULL, 1u << 1, &a);
    must(outcome->error.code, &outcome->error);
    expect_calm("a stage of another phase");
    answer_free(&a);
    rig_close(&r);
}

/* What a plugin offers is known before its request begins. */
static void test_offers_are_asked_once(void **state)
{
    (void)state;
    static const cdz_processor *const all[] = {&with_companion, &with_form, &with_phase,
                                               &with_state};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        answer a;
        memset(&now, 0, sizeof now);
        rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .log = keep_log});
        const cdz_outcome *outcome = play(&r, all[i], NULL, all[i] == &with_phase ? 1u << 1 : 0, &a);
        must(outcome->error.code, &outcome->error);
        if (now.n_asked)
            fail_msg("plugin %zu: asked %u times while the request ran", i, now.n_asked);
        answer_free(&a);
        rig_close(&r);
    }
}

/* --- verbs ------------------------------------------------------------------------------------------------------------- */

/* Of a thread that is not in the request's fibre: nothing is touched. */
static void *call_from_outside(void *arg)
{
    cdz_decoder *dec = arg;
    int32_t tokens[2] = {5, 6};
    const uint32_t parents[2] = {0, 1};
    const cdz_status all[] = {
        cdz_append(dec, 0, 5),
        cdz_append_rows(dec, tokens),
        cdz_reorder(dec, parents),
        cdz_rewind(dec, 0, 0),
        cdz_finish(dec, 0, CDZ_STOP_CUSTOM, "x"),
        cdz_put_result(dec, "x", CDZ_RESULT_I32, 0, NULL, tokens),
    };
    size_t refused = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) refused += all[i] == CDZ_E_PLUGIN;
    return refused == sizeof all / sizeof *all ? NULL : dec;
}

static cdz_status run_with_a_thread(cdz_decoder *dec, const cdz_step *step)
{
    pthread_t thread;
    void *wrong = dec;
    cdz_scores rows;
    CDZ_TRY(cdz_forward(dec, &rows));
    CHECK(pthread_create(&thread, NULL, call_from_outside, dec) == 0);
    CHECK(pthread_join(thread, &wrong) == 0 && !wrong);
    CHECK(cdz_input_ids(dec, 0).len == PROMPT && !cdz_row_done(dec, 0));
    return cdz_append(dec, 0, 7);
}
STRATEGY(threaded, run_with_a_thread, CDZ_ONE_ROW | CDZ_REWINDS);

static void test_verbs_of_another_thread(void **state)
{
    (void)state;
    static const char *const ways[] = {"ucontext", "threads"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        hand_plan plan;
        answer a;
        rig r = rig_open("llama_gqa", (cdz_engine_options){.n_threads = 1, .fibres = ways[i]});
        plan_init(&plan, &threaded.base, NULL);
        new_job(&r, &plan, prompt, NULL, 1, PROMPT, 8, &a);
        assert_int_equal(run_well(&r, &a)->rows[0].n_new, 1);
        answer_free(&a);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes_end_with_the_call),
        cmocka_unit_test(test_bad_phase_leaves),
        cmocka_unit_test(test_stage_of_another_phase),
        cmocka_unit_test(test_offers_are_asked_once),
        cmocka_unit_test(test_verbs_of_another_thread),
    };
    return cmocka_run_group_tests_name("run guard", tests, NULL, NULL);
}
