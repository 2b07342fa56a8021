/* test_run_outside.c - strategies that wait outside of the engine: others go on meanwhile, and whatever ends a request ends
 * the wait. What waits is let go by the test, so nothing here hangs on how fast a machine is. */
#include "support/run_strategies.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"

enum { PROMPT = 6, MANY = 8 };
static const int32_t prompt[PROMPT] = {5, 80, 201, 44, 17, 300};

static rig open_small(void)
{
    return rig_open("llama_gqa", (cdz_engine_options){.n_threads = 2});
}

/* One greedy token. */
static cdz_status take_one(cdz_decoder *dec)
{
    cdz_scores scores;
    int32_t token;
    CDZ_TRY(cdz_forward(dec, &scores));
    CDZ_TRY(cdz_process(dec, &scores));
    CDZ_TRY(cdz_argmax_rows(dec, &scores, &token));
    return cdz_append_rows(dec, &token);
}

static int pipe_ends[2];

static void open_pipe(void)
{
    assert_int_equal(pipe(pipe_ends), 0);
}

static void close_pipe(void)
{
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* --- a file ------------------------------------------------------------------------------------------------------- */

/* Before each token it waits for a byte. */
static cdz_status run_fed(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    while (!cdz_done(dec)) {
        uint32_t ready = 0;
        char byte;
        CDZ_TRY(cdz_wait_fd(dec, pipe_ends[0], CDZ_FD_READS, -1, &ready));
        if (ready != CDZ_FD_READS || read(pipe_ends[0], &byte, 1) != 1) return CDZ_E_INTERNAL;
        CDZ_TRY(take_one(dec));
    }
    return CDZ_OK;
}

static const cdz_strategy fed = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.test.fed", .version = "1.0.0", .summary = "x"},
    .caps = CDZ_GREEDY,
    .run = run_fed,
};

static void begin(const rig *r, hand_plan *plan, const cdz_plugin_base *strategy, uint32_t max_new,
                  answer *a)
{
    plan_init(plan, strategy, NULL);
    plan_add_criterion(plan, &length_rule, NULL);
    new_job(r, plan, prompt, NULL, 1, PROMPT, max_new, a);
}

/* Whole requests come and go while one waits; then it goes on, to the tokens that it has alone. */
static void test_others_go_on(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan, other_plan;
    answer waits, other;
    open_pipe();
    begin(&r, &plan, &fed.base, 5, &waits);
    submit(&r, &waits);
    for (int i = 0; i < 3; i++) {
        begin(&r, &other_plan, built_plugin("greedy"), 5, &other);
        submit(&r, &other);
        await_well(&other);
        assert_false(waits.done);
        if (i < 2) answer_free(&other);
    }
    assert_int_equal(write(pipe_ends[1], "abcde", 5), 5);
    await_well(&waits);
    assert_int_equal(waits.outcome->rows[0].n_new, 5);
    assert_memory_equal(waits.outcome->rows[0].ids, other.outcome->rows[0].ids,
                        (PROMPT + 5) * sizeof(int32_t));
    answer_free(&waits);
    answer_free(&other);
    close_pipe();
    rig_close(&r);
}

static void test_cancelled_while_it_waits(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan, late_plan;
    answer waits, late;
    cdz_error err = {0};
    open_pipe();
    begin(&r, &plan, &fed.base, 5, &waits);
    submit(&r, &waits);
    begin(&r, &late_plan, &fed.base, 5, &late);
    late.job->deadline_s = cdz_now_s() + 0.05;
    submit(&r, &late);
    assert_int_equal(await(&late)->error.code, CDZ_E_DEADLINE);
    assert_false(waits.done);
    must(cdz_engine_cancel(r.engine, waits.id, &err), &err);
    assert_int_equal(await(&waits)->error.code, CDZ_E_CANCELLED);
    answer_free(&waits);
    answer_free(&late);
    close_pipe();
    rig_close(&r);
}

static void test_engine_ends_while_one_waits(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer waits;
    open_pipe();
    begin(&r, &plan, &fed.base, 5, &waits);
    submit(&r, &waits);
    rig_close(&r); /* ends what runs */
    assert_int_equal(await(&waits)->error.code, CDZ_E_CANCELLED);
    answer_free(&waits);
    close_pipe();
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static double slept_s;

static cdz_status run_sleeper(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    const double from = cdz_now_s();
    CDZ_TRY(cdz_sleep(dec, 0.02));
    slept_s = cdz_now_s() - from;
    CDZ_TRY(cdz_sleep(dec, 0));
    uint32_t ready = 77;
    CDZ_TRY(cdz_wait_fd(dec, pipe_ends[0], CDZ_FD_READS, 0.01, &ready));
    if (ready != 0) return CDZ_E_INTERNAL;
    CDZ_TRY(cdz_wait_fd(dec, pipe_ends[1], CDZ_FD_READS | CDZ_FD_WRITES, 1000, &ready));
    if (ready != CDZ_FD_WRITES) return CDZ_E_INTERNAL;
    while (!cdz_done(dec)) CDZ_TRY(take_one(dec));
    return CDZ_OK;
}

static const cdz_strategy sleeper = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.test.sleeper", .version = "1.0.0", .summary = "x"},
    .caps = CDZ_GREEDY,
    .run = run_sleeper,
};

static void test_time(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer a;
    open_pipe();
    begin(&r, &plan, &sleeper.base, 3, &a);
    submit(&r, &a);
    await_well(&a);
    assert_true(slept_s >= 0.02);
    answer_free(&a);
    close_pipe();
    rig_close(&r);
}

/* --- helpers ------------------------------------------------------------------------------------------------------ */

static pthread_barrier_t together;

static void meet(void *arg)
{
    pthread_barrier_wait(&together);
    ++*(int *)arg;
}

/* Before each token it meets the other seven: none of them would ever go on if they went one after the other. */
static cdz_status run_meeter(cdz_decoder *dec, const cdz_step *step)
{
    int met = 0;
    (void)step;
    while (!cdz_done(dec)) {
        CDZ_TRY(cdz_offload(dec, meet, &met));
        CDZ_TRY(take_one(dec));
    }
    return met == 4 ? CDZ_OK : CDZ_E_INTERNAL;
}

static const cdz_strategy meeter = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.test.meeter", .version = "1.0.0", .summary = "x"},
    .caps = CDZ_GREEDY,
    .run = run_meeter,
};

static void test_eight_at_once(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plans[MANY];
    answer all[MANY];
    assert_int_equal(pthread_barrier_init(&together, NULL, MANY), 0);
    for (int i = 0; i < MANY; i++) {
        begin(&r, &plans[i], &meeter.base, 4, &all[i]);
        submit(&r, &all[i]);
    }
    for (int i = 0; i < MANY; i++) await_well(&all[i]);
    for (int i = 0; i < MANY; i++) answer_free(&all[i]);
    pthread_barrier_destroy(&together);
    rig_close(&r);
}

static pthread_barrier_t begun;
static atomic_int n_read;

static void read_byte(void *arg)
{
    char byte;
    pthread_barrier_wait(&begun);
    if (read(pipe_ends[0], &byte, 1) == 1) ++*(atomic_int *)arg;
}

static cdz_status run_reader(cdz_decoder *dec, const cdz_step *step)
{
    (void)step;
    CDZ_TRY(cdz_offload(dec, read_byte, &n_read));
    return CDZ_E_INTERNAL; /* the request was cancelled by then */
}

static const cdz_strategy reader = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.test.reader", .version = "1.0.0", .summary = "x"},
    .run = run_reader,
};

/* What runs is waited for: it uses what lies on the fibre's stack. */
static void test_cancelled_beside_a_helper(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan, other_plan;
    answer waits, other;
    cdz_error err = {0};
    open_pipe();
    assert_int_equal(pthread_barrier_init(&begun, NULL, 2), 0);
    atomic_store(&n_read, 0);
    begin(&r, &plan, &reader.base, 4, &waits);
    submit(&r, &waits);
    pthread_barrier_wait(&begun);
    must(cdz_engine_cancel(r.engine, waits.id, &err), &err);
    begin(&r, &other_plan, built_plugin("greedy"), 5, &other);
    submit(&r, &other);
    await_well(&other);
    assert_false(waits.done);
    assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    assert_int_equal(await(&waits)->error.code, CDZ_E_CANCELLED);
    assert_int_equal(atomic_load(&n_read), 1);
    answer_free(&waits);
    answer_free(&other);
    pthread_barrier_destroy(&begun);
    close_pipe();
    rig_close(&r);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static int wrong_way;

static cdz_status run_wrong(cdz_decoder *dec, const cdz_step *step)
{
    cdz_tool_answer said = {.size = sizeof said};
    (void)step;
    switch (wrong_way) {
    case 0: return cdz_sleep(dec, -1);
    case 1: return cdz_sleep(dec, 0.0 / 0.0);
    case 2: return cdz_wait_fd(dec, pipe_ends[0], 0, 1, NULL);
    case 3: return cdz_wait_fd(dec, 100000, CDZ_FD_READS, 1, NULL);
    case 4: return cdz_wait_fd(dec, pipe_ends[0], CDZ_FD_READS, 1e9, NULL);
    case 5: return cdz_offload(dec, NULL, NULL);
    case 6: return cdz_call_tool(dec, "", "x", 1, &said);
    default: return cdz_call_tool(dec, "weather", "x", 1, &said);
    }
}

static const cdz_strategy wrong = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.test.wrong", .version = "1.0.0", .summary = "x"},
    .run = run_wrong,
};

static void test_wrong_use(void **state)
{
    static const char *const says[] = {
        "sleep: -1 seconds; expected a number from 0 to a million",
        "sleep: ",
        "wait_fd: events 0x0; expected CDZ_FD_READS, CDZ_FD_WRITES or both",
        "wait_fd: 100000 is no open file",
        "wait_fd: 1e+09 seconds; expected a number up to a million",
        "offload: no function was given",
        "call: a tool has a name",
        "call: the request has no tool \"weather\"; it has none",
    };
    (void)state;
    rig r = open_small();
    open_pipe();
    for (wrong_way = 0; wrong_way < 8; wrong_way++) {
        hand_plan plan;
        answer a;
        begin(&r, &plan, &wrong.base, 4, &a);
        submit(&r, &a);
        const cdz_outcome *outcome = await(&a);
        if (outcome->error.code == CDZ_OK || !strstr(outcome->error.text, says[wrong_way]))
            fail_msg("\"%s\" does not say \"%s\"", outcome->error.text, says[wrong_way]);
        answer_free(&a);
    }
    close_pipe();
    rig_close(&r);
}

/* --- tools -------------------------------------------------------------------------------------------------------- */

static cdz_status run_asker(cdz_decoder *dec, const cdz_step *step)
{
    cdz_tool_answer said = {.size = sizeof said};
    CDZ_TRY(cdz_call_tool(dec, "twice", "ab", 2, &said));
    if (said.failed || said.text.len != 4 || memcmp(said.text.at, "abab", 5) != 0)
        return SAY("twice: %s", said.text.at);
    CDZ_TRY(cdz_call_tool(dec, "nothing", "", 0, &said));
    if (said.failed || said.text.len || said.text.at[0]) return CDZ_E_INTERNAL;
    CDZ_TRY(cdz_call_tool(dec, "broken", "", 0, &said));
    if (!said.failed || strcmp(said.text.at, "out of order") != 0) return CDZ_E_INTERNAL;
    CDZ_TRY(cdz_call_tool(dec, "endless", "", 0, &said));
    if (!said.failed || !strstr(said.text.at, "longer than 16 MiB")) return CDZ_E_INTERNAL;
    return cdz_call_tool(dec, "nobody", "", 0, &said);
}

static const cdz_strategy asker = {
    .base = {CDZ_STRATEGY_BASE, .id = "org.test.asker", .version = "1.0.0", .summary = "x"},
    .run = run_asker,
};

static cdz_status answer_call(void *user, cdz_tool_question *call, cdz_error *err)
{
    static char much[1 << 20];
    (void)user;
    if (cdz_tool_is_over(call)) return CDZ_E_CANCELLED;
    if (strcmp(call->name, "twice") == 0) {
        CDZ_TRY(cdz_tool_reply(call, call->text.at, call->text.len));
        return cdz_tool_reply(call, call->text.at, call->text.len);
    }
    if (strcmp(call->name, "nothing") == 0) return CDZ_OK;
    if (strcmp(call->name, "broken") == 0) return cdz_err(err, CDZ_E_IO, "out of order");
    if (strcmp(call->name, "nobody") == 0) return cdz_err(err, CDZ_E_NOT_FOUND, "no such tool");
    while (cdz_tool_reply(call, much, sizeof much) == CDZ_OK) {
    }
    return CDZ_OK;
}

static void test_tools(void **state)
{
    (void)state;
    rig r = open_small();
    hand_plan plan;
    answer a;
    begin(&r, &plan, &asker.base, 4, &a);
    a.job->on_tool = answer_call;
    submit(&r, &a);
    const cdz_outcome *outcome = await(&a);
    assert_int_equal(outcome->error.code, CDZ_E_NOT_FOUND);
    assert_non_null(strstr(outcome->error.text, "call: no such tool"));
    answer_free(&a);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_go_on),
        cmocka_unit_test(test_cancelled_while_it_waits),
        cmocka_unit_test(test_engine_ends_while_one_waits),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_eight_at_once),
        cmocka_unit_test(test_cancelled_beside_a_helper),
        cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
