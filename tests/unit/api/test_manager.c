/* test_manager.c - many requests at once: names, states, results as they come, the end of all, statistics, schedulers. */
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
static const char short_one[] = "[generation]\ndo_sample = no\nmax_new_tokens = 8\n";
static const char endless[] =
    "[generation]\ndo_sample = no\neos_token_id = none\nmax_new_tokens = 400\n";

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_pipeline *few, *many;
} fixture;

static void open_with(fixture *f, const cdz_options *options)
{
    f->rt = opened_runtime(options);
    f->model = opened_model(f->rt, target);
    f->few = opened_pipeline(f->rt, short_one);
    f->many = opened_pipeline(f->rt, endless);
}

static void close_of(fixture *f)
{
    cdz_pipeline_free(f->few);
    cdz_pipeline_free(f->many);
    cdz_model_close(f->model);
    cdz_close(f->rt);
}

static int open_all(void **state)
{
    static fixture f;
    open_with(&f, NULL);
    *state = &f;
    return 0;
}

static int close_all(void **state)
{
    close_of(*state);
    return 0;
}

static uint64_t submit(fixture *f, cdz_pipeline *pipeline, const char *name)
{
    uint64_t id;
    cdz_error err = {0};
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = pipeline,
                           .prompt = "music is",
                           .name = name};
    must(cdz_submit(f->rt, &request, &id, &err), &err);
    return id;
}

static void drop(fixture *f, uint64_t id)
{
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_status status = cdz_wait(f->rt, id, &result, &err);
    assert_true(status == CDZ_OK || status == CDZ_E_CANCELLED);
    cdz_result_free(result);
}

/* --- names ---------------------------------------------------------------------------------------------------------- */

static void a_name_is_one_request_s(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_result *result;
    const uint64_t id = submit(f, f->few, "first");
    assert_int_equal(cdz_find_request(f->rt, "first"), id);
    assert_int_equal(cdz_find_request(f->rt, "second"), 0);
    cdz_request again = {.size = sizeof again, .model = f->model, .prompt = "a", .name = "first"};
    uint64_t other;
    assert_int_equal(cdz_submit(f->rt, &again, &other, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "\"first\": another request has it"));
    must(cdz_wait(f->rt, id, &result, &err), &err);
    assert_string_equal(cdz_result_name(result), "first");
    cdz_result_free(result);
    assert_int_equal(cdz_find_request(f->rt, "first"), 0);
    drop(f, submit(f, f->few, "first")); /* its name is free again */
}

static void hear_name(void *user, const cdz_event *event)
{
    if (event->name && strcmp(event->name, "heard") == 0) ++*(int *)user;
}

static void events_carry_the_name(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_result *result;
    int n = 0;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = f->few,
                           .prompt = "music is",
                           .name = "heard",
                           .on_event = hear_name,
                           .user = &n};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    assert_true(n >= 9); /* eight tokens and the end */
    cdz_result_free(result);
}

/* --- states and results ------------------------------------------------------------------------------------------------ */

static void await_state(fixture *f, uint64_t id, cdz_request_state state)
{
    const cdz_error unheard = {0};
    cdz_event event;
    while (cdz_get_request_state(f->rt, id) != state)
        if (cdz_poll(f->rt, 0.001, &event, NULL) == CDZ_OK) must(CDZ_E_STATE, &unheard);
}

static void states_go_one_way(void **state)
{
    (void)state;
    fixture f;
    cdz_error err = {0};
    const cdz_options one = {.size = sizeof one, .max_running = 1};
    open_with(&f, &one);
    assert_int_equal(cdz_get_request_state(f.rt, 0), CDZ_REQUEST_UNKNOWN);
    assert_int_equal(cdz_get_request_state(f.rt, 1), CDZ_REQUEST_UNKNOWN);
    const uint64_t runs = submit(&f, f.many, NULL), waits = submit(&f, f.few, NULL);
    await_state(&f, runs, CDZ_REQUEST_RUNNING);
    assert_int_equal(cdz_get_request_state(f.rt, waits), CDZ_REQUEST_PENDING);
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(f.rt, &stats);
    assert_int_equal(stats.n_pending, 1);
    assert_int_equal(stats.n_running, 1);
    assert_int_equal(stats.n_waiting, 1);
    assert_int_equal(stats.n_waiting_rows, 1);
    must(cdz_cancel(f.rt, runs, &err), &err);
    await_state(&f, runs, CDZ_REQUEST_CANCELLED);
    must(cdz_join(f.rt, -1, &err), &err);
    assert_int_equal(cdz_get_request_state(f.rt, waits), CDZ_REQUEST_FINISHED);
    must(cdz_evict(f.rt, runs, &err), &err);
    assert_int_equal(cdz_get_request_state(f.rt, runs), CDZ_REQUEST_EVICTED);
    drop(&f, waits);
    assert_int_equal(cdz_get_request_state(f.rt, waits), CDZ_REQUEST_EVICTED);
    cdz_get_stats(f.rt, &stats);
    assert_int_equal(stats.n_pending + stats.n_running, 0);
    assert_int_equal(stats.n_cancelled, 1);
    assert_int_equal(stats.n_finished, 1);
    assert_int_equal(stats.n_failed, 0);
    assert_true(stats.n_new_tokens >= 8 && stats.n_prompt_tokens >= 2 && stats.n_passes >= 8);
    close_of(&f);
}

static void results_come_as_requests_end(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_result *result;
    uint64_t ended;
    assert_int_equal(cdz_get_result(f->rt, 0, 0, NULL, &result, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_get_result(f->rt, 12345, 0, NULL, &result, &err), CDZ_E_NOT_FOUND);
    const uint64_t slow = submit(f, f->many, NULL), fast = submit(f, f->few, NULL);
    assert_int_equal(cdz_get_result(f->rt, slow, 0, NULL, &result, &err), CDZ_E_STATE);
    assert_null(result);
    must(cdz_get_result(f->rt, 0, -1, &ended, &result, &err), &err);
    assert_int_equal(ended, fast);
    cdz_result_free(result);
    assert_int_equal(cdz_join(f->rt, 0, &err), CDZ_E_STATE);
    must(cdz_cancel(f->rt, slow, &err), &err);
    assert_int_equal(cdz_get_result(f->rt, slow, 60, &ended, &result, &err), CDZ_E_CANCELLED);
    assert_int_equal(ended, slow);
    assert_string_equal(cdz_result_finish_reason(result, 0), "cancelled");
    cdz_result_free(result);
}

static void a_drained_runtime_takes_no_more(void **state)
{
    (void)state;
    fixture f;
    cdz_error err = {0};
    uint64_t id;
    open_with(&f, NULL);
    const uint64_t before = submit(&f, f.few, NULL);
    cdz_drain(f.rt, true);
    assert_int_equal(cdz_get_request_state(f.rt, before), CDZ_REQUEST_FINISHED);
    cdz_request late = {.size = sizeof late, .model = f.model, .prompt = "a"};
    assert_int_equal(cdz_submit(f.rt, &late, &id, &err), CDZ_E_STATE);
    drop(&f, before);
    close_of(&f);
}

/* --- what events say ----------------------------------------------------------------------------------------------------- */

typedef struct heard {
    char text[512];
    int32_t ids[64];
    uint32_t n, n_half_words;
    bool last_was_half;
} heard;

static void hear_text(void *user, const cdz_event *event)
{
    heard *h = user;
    if (event->kind != CDZ_EVENT_TOKENS) return;
    const size_t len = strlen(event->text);
    if (len) {
        h->n_half_words += h->last_was_half;
        h->last_was_half = event->text[len - 1] != ' ' && event->text[len - 1] != '\n';
    }
    strncat(h->text, event->text, sizeof h->text - strlen(h->text) - 1);
    for (uint32_t i = 0; i < event->n_ids && h->n < 64; i++) h->ids[h->n++] = event->ids[i];
}

static heard listen(fixture *f, uint32_t stream)
{
    heard h = {0};
    cdz_error err = {0};
    cdz_result *result;
    uint32_t n;
    cdz_request request = {
        .size = sizeof request,
        .model = f->model,
        .json = "{\"prompt\": \"river (noun): a\", \"kwargs\": {\"do_sample\": false}}",
        .on_event = hear_text,
        .user = &h,
        .stream = stream};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    const int32_t *all = cdz_result_sequence(result, 0, &n);
    const bool prompt = stream & CDZ_STREAM_PROMPT;
    const uint32_t skipped = prompt ? 0 : 6; /* the prompt's */
    assert_int_equal(h.n, n - skipped);
    assert_memory_equal(h.ids, all + skipped, h.n * sizeof *h.ids);
    cdz_result_free(result);
    return h;
}

static void events_say_what_was_asked_for(void **state)
{
    static const char answer[] =
        " large natural stream of water (larger than a creek). A river is a kind of stream.";
    char text[512];
    heard h = listen(*state, 0);
    assert_string_equal(h.text, answer);
    assert_true(h.n_half_words > 0);
    h = listen(*state, CDZ_STREAM_WORDS);
    assert_string_equal(h.text, answer);
    assert_int_equal(h.n_half_words, 0);
    h = listen(*state, CDZ_STREAM_PROMPT | CDZ_STREAM_WORDS);
    snprintf(text, sizeof text, "river (noun): a%s", answer);
    assert_string_equal(h.text, text);
    assert_int_equal(h.n_half_words, 0);
    h = listen(*state, CDZ_STREAM_SPECIAL);
    snprintf(text, sizeof text, "%s<", answer); /* and the end's token */
    assert_true(strncmp(h.text, text, strlen(text)) == 0);
    cdz_error err = {0};
    uint64_t id;
    fixture *f = *state;
    cdz_request wrong = {.size = sizeof wrong, .model = f->model, .prompt = "a", .stream = 8};
    assert_int_equal(cdz_submit(f->rt, &wrong, &id, &err), CDZ_E_USAGE);
}

/* --- schedulers -------------------------------------------------------------------------------------------------------- */

enum { N_LONG = 8, LONG = 300 }; /* more positions than a few passes have room for */

/* One request decodes; in the middle of it, on the engine's thread, eight long prompts arrive together. */
typedef struct company {
    fixture f;
    uint64_t ids[N_LONG];
    uint32_t n_tokens; /* of the one that decodes */
    uint32_t n_begun, at_first,
        at_last; /* long ones with a token; the former when the first and the last had one */
    char text[4096];
} company;

static void hear_long(void *user, const cdz_event *event)
{
    company *c = user;
    uint64_t bit = 0;
    if (event->kind != CDZ_EVENT_TOKENS) return;
    for (uint32_t i = 0; i < N_LONG; i++)
        if (event->request_id == c->ids[i]) bit = i + 1;
    if (bit == 0) return;
    c->ids[bit - 1] = 0; /* heard */
    if (c->n_begun++ == 0) c->at_first = c->n_tokens;
    c->at_last = c->n_tokens;
}

static void hear_one(void *user, const cdz_event *event)
{
    company *c = user;
    if (event->kind != CDZ_EVENT_TOKENS || ++c->n_tokens != 3) return;
    for (int i = 0; i < N_LONG; i++) {
        int32_t ids[LONG];
        cdz_error err = {0};
        for (int k = 0; k < LONG; k++) ids[k] = 10 + (i * 31 + k * 17) % 400;
        cdz_request request = {.size = sizeof request,
                               .model = c->f.model,
                               .pipeline = c->f.few,
                               .ids = ids,
                               .n_ids = LONG,
                               .on_event = hear_long,
                               .user = c};
        must(cdz_submit(c->f.rt, &request, &c->ids[i], &err), &err);
    }
}

static void keep_company(const char *scheduler, company *c)
{
    cdz_error err = {0};
    uint64_t one, ids[N_LONG];
    cdz_result *result;
    const cdz_options options = {.size = sizeof options, .scheduler = scheduler};
    *c = (company){0};
    open_with(&c->f, &options);
    cdz_request request = {.size = sizeof request,
                           .model = c->f.model,
                           .pipeline = c->f.many,
                           .prompt = "music is",
                           .on_event = hear_one,
                           .user = c};
    must(cdz_submit(c->f.rt, &request, &one, &err), &err);
    must(cdz_wait(c->f.rt, one, &result, &err), &err);
    size_t at = (size_t)snprintf(c->text, sizeof c->text, "%s", cdz_result_text(result, 0));
    cdz_result_free(result);
    for (int i = 0; i < N_LONG; i++) ids[i] = one + 1 + (uint64_t)i;
    for (int i = 0; i < N_LONG; i++) {
        must(cdz_wait(c->f.rt, ids[i], &result, &err), &err);
        at += (size_t)snprintf(c->text + at, sizeof c->text - at, "|%s", cdz_result_text(result, 0));
        assert_true(at < sizeof c->text);
        cdz_result_free(result);
    }
    close_of(&c->f);
    assert_int_equal(c->n_begun, N_LONG);
}

/* What decodes goes on while prompts are read, or waits for them; nobody's answer is another one by that. */
static void schedulers_say_who_is_first(void **state)
{
    (void)state;
    static company fifo, prefill_first;
    keep_company("fifo", &fifo);
    keep_company("prefill_first", &prefill_first);
    assert_string_equal(fifo.text, prefill_first.text);
    assert_true(fifo.at_last - fifo.at_first >= 3);
    assert_true(prefill_first.at_last - prefill_first.at_first <= 1);
    cdz_runtime *rt;
    cdz_error err = {0};
    const cdz_options wrong = {.size = sizeof wrong, .scheduler = "prefil_first"};
    assert_int_equal(cdz_open(&wrong, &rt, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "did you mean 'prefill_first'?"));
}

/* --- block sharing ------------------------------------------------------------------------------------------------------ */

/* What shares blocks: rows of one prompt, beams, forks of a strategy, companions, drafts. */
static const char *const sharers[] = {
    "\"num_beams\": 4, \"num_return_sequences\": 2, \"do_sample\": false",
    "\"num_beams\": 3, \"do_sample\": true",
    "\"num_return_sequences\": 3, \"do_sample\": true",
    "\"num_beams\": 4, \"num_beam_groups\": 2, \"diversity_penalty\": 0.5, \"do_sample\": false",
    "\"penalty_alpha\": 0.6, \"top_k\": 4, \"do_sample\": false",
    "\"guidance_scale\": 1.5, \"num_beams\": 2, \"do_sample\": false",
    "\"prompt_lookup_num_tokens\": 4, \"do_sample\": false",
};
enum { N_SHARERS = sizeof sharers / sizeof sharers[0], PROMPT = 70, ANSWER = 40 };

/* A request, and a question behind its answer, from the state that it left. */
static size_t ask_twice(const fixture *f, const char *kwargs, char *to, size_t room)
{
    cdz_error err = {0};
    cdz_result *first, *second;
    char json[2048];
    size_t at = (size_t)snprintf(json, sizeof json, "{\"seed\": 7, \"prompt_ids\": [[");
    for (int i = 0; i < PROMPT; i++)
        at += (size_t)snprintf(json + at, sizeof json - at, "%s%d", i ? ", " : "", 10 + i * 7 % 300);
    snprintf(json + at, sizeof json - at,
             "]], \"kwargs\": {\"max_new_tokens\": %d, \"eos_token_id\": null, %s}}", (int)ANSWER,
             kwargs);
    cdz_request request = {
        .size = sizeof request, .model = f->model, .json = json, .keep_cache = true};
    must(cdz_generate(f->rt, &request, &first, &err), &err);
    size_t n = 0;
    for (uint32_t r = 0; r < cdz_result_rows(first); r++)
        n += (size_t)snprintf(to + n, room - n, "%s|", cdz_result_text(first, r));
    uint32_t len;
    const int32_t *ids = cdz_result_sequence(first, 0, &len);
    const cdz_request next = {.size = sizeof next,
                              .model = f->model,
                              .pipeline = f->few,
                              .ids = ids,
                              .n_ids = len,
                              .past = first};
    must(cdz_generate(f->rt, &next, &second, &err), &err);
    n += (size_t)snprintf(to + n, room - n, "%s\n", cdz_result_text(second, 0));
    cdz_result_free(second);
    cdz_result_free(first);
    return n;
}

static uint64_t ask_all(const char *block_sharing, char text[1 << 15])
{
    fixture f;
    cdz_stats stats = {.size = sizeof stats};
    const cdz_options options = {
        .size = sizeof options, .n_threads = 2, .block_sharing = block_sharing};
    size_t n = 0;
    open_with(&f, &options);
    for (int i = 0; i < N_SHARERS; i++) n += ask_twice(&f, sharers[i], text + n, (1 << 15) - n);
    cdz_get_stats(f.rt, &stats);
    for (cdz_stats now = stats; now.kv_blocks_used; cdz_get_stats(f.rt, &now))
        drop(&f, submit(&f, f.few,
                        NULL)); /* states that were given back go with the engine's next steps */
    close_of(&f);
    return stats.kv_blocks_peak;
}

/* The same answers, in more memory. */
static void blocks_need_not_be_shared(void **state)
{
    static char shared[1 << 15], apart[1 << 15];
    (void)state;
    const uint64_t least = ask_all("on", shared), most = ask_all("off", apart);
    assert_string_equal(apart, shared);
    assert_true(most > least);
    cdz_runtime *rt;
    cdz_error err = {0};
    const cdz_options wrong = {.size = sizeof wrong, .block_sharing = "of"};
    assert_int_equal(cdz_open(&wrong, &rt, &err), CDZ_E_USAGE);
    assert_non_null(
        strstr(err.text, "block_sharing: there is no 'of', expected on or off: did you mean"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_one_request_s),
        cmocka_unit_test(events_carry_the_name),
        cmocka_unit_test(states_go_one_way),
        cmocka_unit_test(results_come_as_requests_end),
        cmocka_unit_test(a_drained_runtime_takes_no_more),
        cmocka_unit_test(events_say_what_was_asked_for),
        cmocka_unit_test(schedulers_say_who_is_first),
        cmocka_unit_test(blocks_need_not_be_shared),
    };
    return cmocka_run_group_tests_name("manager", tests, open_all, close_all);
}
