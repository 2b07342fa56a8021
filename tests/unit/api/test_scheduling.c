/* test_scheduling.c - whose turn it is: the order that each scheduler gives a real engine, and what becomes of one whose
 * answers cannot be. A first request runs; at its first token, on the engine's thread, all others arrive together. Nothing
 * here looks at a clock: orders are told by who has a first token before whom, and lengths by passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "support/must.h"
#include "support/opened.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char wayward[] = CADENZA_BUILD_DIR "/tests/schedulers";

enum { MOST = 1100, LONG = 300 };

/* A request that arrives while the first one runs. */
typedef struct guest {
    int64_t priority;
    uint64_t tenant;
    uint32_t n_ids;
} guest;

typedef struct party {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_pipeline *first, *few;
    const guest *guests;
    uint32_t n;
    uint64_t ids[MOST];
    uint32_t order[MOST], n_begun; /* guests, by their first tokens */
    uint32_t at[MOST];             /* how many tokens the first request had by then */
    uint32_t n_tokens;             /* of the first request */
    char log[4096];
} party;

static void hear_log(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    party *p = user;
    const size_t n = strlen(p->log);
    (void)level;
    snprintf(p->log + n, sizeof p->log - n, "%s: %s\n", plugin, text);
}

static void hear_guest(void *user, const cdz_event *event)
{
    party *p = user;
    if (event->kind != CDZ_EVENT_TOKENS) return;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->ids[i] != event->request_id) continue;
        p->ids[i] = 0;
        p->at[p->n_begun] = p->n_tokens;
        p->order[p->n_begun++] = i;
        return;
    }
}

static void hear_first(void *user, const cdz_event *event)
{
    party *p = user;
    if (event->kind != CDZ_EVENT_TOKENS || p->n_tokens++ > 0) return;
    for (uint32_t i = 0; i < p->n; i++) {
        int32_t ids[LONG];
        cdz_error err = {0};
        for (uint32_t k = 0; k < p->guests[i].n_ids; k++)
            ids[k] = 10 + (int32_t)((i * 31 + k * 17) % 400);
        const cdz_request request = {.size = sizeof request,
                                     .model = p->model,
                                     .pipeline = p->few,
                                     .ids = ids,
                                     .n_ids = p->guests[i].n_ids,
                                     .priority = p->guests[i].priority,
                                     .tenant = p->guests[i].tenant,
                                     .on_event = hear_guest,
                                     .user = p};
        must(cdz_submit(p->rt, &request, &p->ids[i], &err), &err);
    }
}

static void open_party(party *p, cdz_options options, int first_tokens)
{
    char ini[160];
    options.size = sizeof options;
    options.log = hear_log;
    options.log_user = p;
    p->rt = opened_runtime(&options);
    p->model = opened_model(p->rt, target);
    snprintf(ini, sizeof ini,
             "[generation]\ndo_sample = no\neos_token_id = none\nmax_new_tokens = %d\n",
             first_tokens);
    p->first = opened_pipeline(p->rt, ini);
    static const char few[] =
        "[generation]\ndo_sample = no\neos_token_id = none\nmax_new_tokens = 2\n";
    p->few = opened_pipeline(p->rt, few);
}

static void close_party(party *p)
{
    cdz_pipeline_free(p->first);
    cdz_pipeline_free(p->few);
    cdz_model_close(p->model);
    cdz_close(p->rt);
}

/* All answers, one after the other, into text. */
static void hold(party *p, const guest *guests, uint32_t n, char *text, size_t bytes)
{
    cdz_error err = {0};
    cdz_result *result;
    uint64_t first, ids[MOST];
    size_t at = 0;
    p->guests = guests;
    p->n = n;
    const cdz_request request = {.size = sizeof request,
                                 .model = p->model,
                                 .pipeline = p->first,
                                 .prompt = "music is",
                                 .tenant = 99,
                                 .on_event = hear_first,
                                 .user = p};
    must(cdz_submit(p->rt, &request, &first, &err), &err);
    must(cdz_wait(p->rt, first, &result, &err), &err);
    cdz_result_free(result);
    for (uint32_t i = 0; i < n; i++) ids[i] = first + 1 + i;
    for (uint32_t i = 0; i < n; i++) {
        must(cdz_wait(p->rt, ids[i], &result, &err), &err);
        if (text && at < bytes)
            at += (size_t)snprintf(text + at, bytes - at, "%s|", cdz_result_text(result, 0));
        cdz_result_free(result);
    }
    assert_int_equal(p->n_begun, n);
}

/* --- the order in which requests begin, one at a time ------------------------------------------------------------------ */

static const guest company[] = {{3, 1, 9}, {1, 1, 9}, {2, 1, 9}, {1, 2, 9}, {-5, 2, 9}, {2, 3, 9}};
static const guest equals[] = {{0, 1, 9}, {0, 1, 9}, {0, 1, 9}, {0, 2, 9}, {0, 2, 9}, {0, 3, 9}};
enum { N_COMPANY = sizeof company / sizeof *company };

static const struct {
    const char *scheduler, *id, *file;
    const guest *guests;
    uint32_t order[N_COMPANY];
} orders[] = {
    {NULL, "first_come", NULL, equals, {0, 1, 2, 3, 4, 5}},
    {"fifo", "first_come", NULL, equals, {0, 1, 2, 3, 4, 5}},
    {"first_come", "first_come", NULL, equals, {0, 1, 2, 3, 4, 5}},
    {"prefill_first", "prefill_first", NULL, equals, {0, 1, 2, 3, 4, 5}},
    {"priority", "priority", NULL, company, {4, 1, 3, 2, 5, 0}},
    {"fair_share", "fair_share", NULL, equals, {0, 3, 5, 1, 4, 2}},
    {"wayward", "org.example.wayward", "newest", equals, {5, 4, 3, 2, 1, 0}},
};

static void each_has_its_order(void **state)
{
    (void)state;
    static char texts[sizeof orders / sizeof *orders][2048];
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        static party p;
        char path[512];
        const char *const plugins[] = {path};
        snprintf(path, sizeof path, "%s/%s.so", wayward, orders[i].file ? orders[i].file : "");
        p = (party){0};
        open_party(&p,
                   (cdz_options){.scheduler = orders[i].scheduler,
                                 .max_running = 1,
                                 .plugins = plugins,
                                 .n_plugins = orders[i].file ? 1 : 0},
                   3);
        assert_string_equal(cdz_scheduler_id(p.rt), orders[i].id);
        hold(&p, orders[i].guests, N_COMPANY, texts[i], sizeof texts[i]);
        close_party(&p);
        for (uint32_t k = 0; k < N_COMPANY; k++)
            if (p.order[k] != orders[i].order[k])
                fail_msg("%s: place %u is %u's, expected %u's", orders[i].id, k, p.order[k],
                         orders[i].order[k]);
        assert_string_equal(texts[i], texts[0]); /* no answer hangs on it */
        assert_string_equal(p.log, "");
    }
}

/* --- rows of prompts beside those that decode ---------------------------------------------------------------------------- */

/* Tokens of the first request between the arrival of a long prompt and its first token. */
static uint32_t passes_of_a_prompt(const char *scheduler, const char *param)
{
    static party p;
    static const guest one[] = {{0, 0, LONG}};
    p = (party){0};
    open_party(&p,
               (cdz_options){.scheduler = scheduler,
                             .scheduler_params = &param,
                             .n_scheduler_params = param ? 1 : 0},
               60);
    hold(&p, one, 1, NULL, 0);
    close_party(&p);
    return p.at[0];
}

static void prompts_are_bitten(void **state)
{
    (void)state;
    assert_in_range(passes_of_a_prompt("first_come", "prompt_rows=30"), LONG / 30, LONG / 30 + 3);
    assert_in_range(passes_of_a_prompt("first_come", "prompt_rows=10"), LONG / 10, LONG / 10 + 3);
    assert_in_range(passes_of_a_prompt("prefill_first", "prompt_rows=30"), LONG / 30, LONG / 30 + 3);
    assert_in_range(passes_of_a_prompt("prefill_first", NULL), 1, 3);
    assert_in_range(passes_of_a_prompt("priority", "prompt_rows=30"), LONG / 30, LONG / 30 + 3);
    assert_in_range(passes_of_a_prompt("fair_share", "prompt_rows=30"), LONG / 30, LONG / 30 + 3);
}

static const guest two[] = {{0, 0, 100}, {0, 0, 100}};

/* Of two prompts that are read eight rows at a time, the one that is in front is done first. */
static void rows_go_in_their_order(void **state)
{
    (void)state;
    static party p;
    static char one[512], other[512];
    const char *const bite = "prompt_rows=8", *const plugin = CADENZA_BUILD_DIR
                                              "/tests/schedulers/last_rows.so";
    p = (party){0};
    open_party(&p, (cdz_options){.scheduler_params = &bite, .n_scheduler_params = 1}, 60);
    hold(&p, two, 2, one, sizeof one);
    close_party(&p);
    assert_int_equal(p.order[0], 0);
    p = (party){0};
    open_party(&p, (cdz_options){.scheduler = "wayward", .plugins = &plugin, .n_plugins = 1}, 60);
    hold(&p, two, 2, other, sizeof other);
    close_party(&p);
    assert_int_equal(p.order[0], 1);
    assert_string_equal(one, other);
    assert_string_equal(p.log, "");
}

/* With a row at a time, the second prompt would have none for 300 passes; and then it is in front. */
static void nobody_is_left_out(void **state)
{
    (void)state;
    static party p;
    static const guest both[] = {{0, 0, LONG}, {0, 0, 40}};
    const char *const bite = "prompt_rows=1";
    p = (party){0};
    open_party(&p, (cdz_options){.scheduler_params = &bite, .n_scheduler_params = 1}, 400);
    hold(&p, both, 2, NULL, 0);
    close_party(&p);
    assert_non_null(strstr(p.log, "first_come: request 3 had rows in none of 256 passes, and is "
                                  "therefore in front\n"));
}

/* --- answers that cannot be -------------------------------------------------------------------------------------------- */

static const struct {
    const char *file, *says;
    bool goes_on; /* it is asked again */
} faults[] = {
    {"twice", "admit listed number 5 of 6 requests that wait twice", false},
    {"range", "admit listed number 6 of 6 requests that wait (from 0)", false},
    {"too_many", "admit listed 7 of 6 requests that wait", false},
    {"never", "admit let nobody begin while nothing runs; the request that came first begins", true},
    {"fails", "admit: no turn for anybody", false},
    {"silent", "admit failed (limit exceeded) without saying why", false},
    {"odd_first", "order answered first = 7, expected 0 or 1", false},
};

static uint32_t times(const char *text, const char *part)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

/* The first request is served by whatever it answers, so that six wait. */
static void wrong_answers_are_told(void **state)
{
    (void)state;
    static char expected[2048], text[2048];
    static party p;
    p = (party){0};
    open_party(&p, (cdz_options){.max_running = 1}, 3);
    hold(&p, equals, N_COMPANY, expected, sizeof expected);
    close_party(&p);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char path[512];
        const char *const plugins[] = {path};
        snprintf(path, sizeof path, "%s/%s.so", wayward, faults[i].file);
        p = (party){0};
        open_party(&p,
                   (cdz_options){
                       .scheduler = "wayward", .max_running = 1, .plugins = plugins, .n_plugins = 1},
                   3);
        hold(&p, equals, N_COMPANY, text, sizeof text);
        close_party(&p);
        assert_string_equal(text, expected);
        assert_int_equal(times(p.log, "\n"), 1);
        assert_true(strncmp(p.log, "org.example.wayward: ", 21) == 0);
        assert_int_equal(times(p.log, "from now on requests have their turns in the order in which "
                                      "they came"),
                         faults[i].goes_on ? 0 : 1);
        for (uint32_t k = 0; k < N_COMPANY; k++) assert_int_equal(p.order[k], k);
    }
}

/* Newest first: the oldest begins all the same, after 1024 others. */
static void nobody_is_overtaken_for_ever(void **state)
{
    (void)state;
    static party p;
    static guest many[MOST];
    const char *const plugin = CADENZA_BUILD_DIR "/tests/schedulers/newest.so";
    for (uint32_t i = 0; i < MOST; i++) many[i] = (guest){0, 0, 3};
    p = (party){0};
    open_party(
        &p,
        (cdz_options){.scheduler = "wayward", .max_running = 1, .plugins = &plugin, .n_plugins = 1},
        3);
    hold(&p, many, MOST, NULL, 0);
    close_party(&p);
    assert_int_equal(p.order[0], MOST - 1);
    assert_int_equal(p.order[1024], 0);
    assert_int_equal(times(p.log, "\n"), 1);
    assert_non_null(strstr(p.log, "1024 requests that came later have begun before request 2, which "
                                  "therefore begins next"));
}

/* --- options, and what a request may say ------------------------------------------------------------------------------- */

static const struct {
    const char *scheduler, *param, *says;
} refused[] = {
    {"prioritys", NULL, "scheduler: no scheduler 'prioritys': did you mean 'priority'?"},
    {"greedy", NULL, "scheduler: 'greedy' is of the kind strategy; expected scheduler"},
    {"priority", "agein=3", "scheduler priority: no parameter 'agein': did you mean 'ageing'?"},
    {"priority", "ageing", "scheduler priority: 'ageing': expected NAME=VALUE"},
    {"priority", "ageing=-1", "scheduler priority: ageing: "},
    {"fair_share", "answer_weight=much", "scheduler fair_share: answer_weight: "},
    {NULL, "ageing=3", "scheduler first_come: no parameter 'ageing'"},
};

static void wrong_options_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cdz_runtime *rt = NULL;
        cdz_error err = {0};
        const cdz_options options = {.size = sizeof options,
                                     .scheduler = refused[i].scheduler,
                                     .scheduler_params = &refused[i].param,
                                     .n_scheduler_params = refused[i].param ? 1 : 0};
        assert_int_not_equal(cdz_open(&options, &rt, &err), CDZ_OK);
        if (!strstr(err.text, refused[i].says)) fail_msg("'%s': %s", refused[i].says, err.text);
    }
}

static void priorities_need_a_scheduler(void **state)
{
    (void)state;
    static party p;
    cdz_error err = {0};
    uint64_t id;
    p = (party){0};
    open_party(&p, (cdz_options){.scheduler = "fair_share"}, 3);
    assert_false(cdz_scheduler_has_priorities(p.rt));
    const cdz_request request = {
        .size = sizeof request, .model = p.model, .prompt = "a", .priority = -2};
    assert_int_equal(cdz_submit(p.rt, &request, &id, &err), CDZ_E_UNSUPPORTED);
    assert_string_equal(err.text, "cdz_request.priority is -2: the scheduler fair_share has no "
                                  "priorities; cdz_options.scheduler \"priority\" has");
    close_party(&p);
    p = (party){0};
    open_party(&p, (cdz_options){.scheduler = "priority"}, 3);
    assert_true(cdz_scheduler_has_priorities(p.rt));
    close_party(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_order),        cmocka_unit_test(prompts_are_bitten),
        cmocka_unit_test(rows_go_in_their_order),    cmocka_unit_test(nobody_is_left_out),
        cmocka_unit_test(wrong_answers_are_told),    cmocka_unit_test(nobody_is_overtaken_for_ever),
        cmocka_unit_test(wrong_options_are_refused), cmocka_unit_test(priorities_need_a_scheduler),
    };
    return cmocka_run_group_tests_name("scheduling", tests, NULL, NULL);
}
