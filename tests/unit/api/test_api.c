/* test_api.c - the embedding interface, on the shipped models. */
#include <dirent.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "cadenza/cadenza.h"
#include "support/must.h"
#include "support/opened.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";
static const char draft[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft";

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
    cdz_pipeline *greedy;
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rt = opened_runtime(NULL);
    f->model = opened_model(f->rt, target);
    static const char ini[] = "[generation]\ndo_sample = no\nmax_new_tokens = 48\n";
    f->greedy = opened_pipeline(f->rt, ini);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    cdz_pipeline_free(f->greedy);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f);
    return 0;
}

/* --- the recorded continuations ----------------------------------------------------------------------------- */

static void same_ids(const cdz_json *want, const int32_t *got, uint32_t n, const char *what)
{
    bool same = want->len == n;
    for (uint32_t i = 0; same && i < n; i++) same = want->items[i].integer == got[i];
    if (!same) fail_msg("%s: %u ids, expected %u, or they differ", what, n, want->len);
}

static void examples_are_reproduced(void **state)
{
    fixture *f = *state;
    cdz_arena arena = {0};
    cdz_json doc;
    cdz_error err = {0};
    must(cdz_json_read_file(CADENZA_SOURCE_DIR "/models/examples.json", 0, NULL, &arena, &doc, &err),
         &err);
    const cdz_json *examples = cdz_json_get(&doc, "examples");
    assert_true(cdz_json_is(examples, CDZ_JSON_ARRAY) && examples->len >= 20);
    for (uint32_t i = 0; i < examples->len; i++) {
        const cdz_json *e = &examples->items[i];
        const char *prompt = cdz_json_get(e, "prompt")->string;
        int32_t *ids;
        size_t n_ids;
        must(cdz_tokenize(f->model, prompt, strlen(prompt), true, &ids, &n_ids, &err), &err);
        same_ids(cdz_json_get(e, "ids"), ids, (uint32_t)n_ids, prompt);
        cdz_free(ids);

        cdz_request request = {
            .size = sizeof request, .model = f->model, .pipeline = f->greedy, .prompt = prompt};
        cdz_result *result;
        must(cdz_generate(f->rt, &request, &result, &err), &err);
        uint32_t n;
        const int32_t *got = cdz_result_ids(result, 0, &n);
        same_ids(cdz_json_get(e, "continuation_ids"), got, n, prompt);
        assert_string_equal(cdz_result_text(result, 0), cdz_json_get(e, "text")->string);
        cdz_result_free(result);
    }
    cdz_arena_free(&arena);
}

/* --- events ---------------------------------------------------------------------------------------------------- */

typedef struct heard {
    cdz_buf text;
    uint32_t n_ids, n_done;
} heard;

static void hear(void *user, const cdz_event *event)
{
    heard *h = user;
    if (event->kind == CDZ_EVENT_DONE) {
        h->n_done++;
        return;
    }
    cdz_buf_puts(&h->text, event->text);
    h->n_ids += event->n_ids;
}

static void callbacks_give_the_whole_text(void **state)
{
    fixture *f = *state;
    heard h = {0};
    cdz_error err = {0};
    cdz_result *result;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = f->greedy,
                           .prompt = "river (noun): a",
                           .on_event = hear,
                           .user = &h};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    uint32_t n;
    cdz_result_ids(result, 0, &n);
    assert_int_equal(h.n_ids, n);
    assert_int_equal(h.n_done, 1);
    assert_string_equal(h.text.data, cdz_result_text(result, 0));
    assert_string_equal(cdz_result_finish_reason(result, 0), "stop");
    cdz_buf_free(&h.text);
    cdz_result_free(result);
}

static void poll_gives_the_same_events(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_buf text = {0};
    uint64_t id;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = f->greedy,
                           .prompt = "dog (noun):",
                           .poll = true};
    must(cdz_submit(f->rt, &request, &id, &err), &err);
    for (cdz_event event = {0}; event.kind != CDZ_EVENT_DONE;) {
        must(cdz_poll(f->rt, 60, &event, &err), &err);
        assert_int_equal(event.request_id, id);
        if (event.kind == CDZ_EVENT_TOKENS) cdz_buf_puts(&text, event.text);
    }
    cdz_result *result;
    must(cdz_wait(f->rt, id, &result, &err), &err);
    assert_string_equal(text.data, cdz_result_text(result, 0));
    cdz_event none;
    assert_int_equal(cdz_poll(f->rt, 0, &none, &err), CDZ_E_NOT_FOUND);
    cdz_buf_free(&text);
    cdz_result_free(result);
}

/* --- ending early ------------------------------------------------------------------------------------------------ */

static cdz_pipeline *endless(fixture *f)
{
    static const char ini[] =
        "[generation]\ndo_sample = no\nmax_new_tokens = 500\neos_token_id = none\n";
    cdz_pipeline *pipeline = opened_pipeline(f->rt, ini);
    return pipeline;
}

static void cancel_ends_a_request(void **state)
{
    fixture *f = *state;
    cdz_pipeline *pipeline = endless(f);
    cdz_error err = {0};
    uint64_t id;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = pipeline,
                           .prompt = "music is",
                           .poll = true};
    must(cdz_submit(f->rt, &request, &id, &err), &err);
    cdz_event event;
    must(cdz_poll(f->rt, 60, &event, &err), &err); /* it runs */
    must(cdz_cancel(f->rt, id, &err), &err);
    cdz_result *result = NULL;
    assert_int_equal(cdz_wait(f->rt, id, &result, &err), CDZ_E_CANCELLED);
    assert_non_null(result);
    assert_string_equal(cdz_result_finish_reason(result, 0), "cancelled");
    while (cdz_poll(f->rt, 0, &event, NULL) == CDZ_OK) continue;
    assert_int_equal(cdz_cancel(f->rt, id, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_wait(f->rt, id, &result, &err), CDZ_E_NOT_FOUND);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

static cdz_stats stats_of(const fixture *f)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(f->rt, &stats);
    return stats;
}

typedef struct slow_reader {
    fixture *f;
    uint32_t seen;
} slow_reader;

/* [engine] With its third token the request has enough. */
static void pause_at_third(void *user, const cdz_event *event)
{
    slow_reader *reader = user;
    if (event->kind == CDZ_EVENT_TOKENS && ++reader->seen == 3)
        assert_int_equal(cdz_pause(reader->f->rt, event->request_id, NULL), CDZ_OK);
}

static void await_paused(const fixture *f, uint32_t n)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < 120000 && stats_of(f).n_paused != n; i++) nanosleep(&moment, NULL);
    assert_int_equal(stats_of(f).n_paused, n);
}

static void a_paused_request_waits_alone(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_result *alone, *other, *mine;
    uint64_t id;
    slow_reader reader = {f, 0};
    const cdz_request plain = {
        .size = sizeof plain, .model = f->model, .pipeline = f->greedy, .prompt = "music is"};
    cdz_request request = plain;
    request.on_event = pause_at_third;
    request.user = &reader;
    must(cdz_generate(f->rt, &plain, &alone, &err), &err);
    must(cdz_submit(f->rt, &request, &id, &err), &err);
    await_paused(f, 1);
    const uint64_t passes = stats_of(f).n_passes;
    must(cdz_generate(f->rt, &plain, &other, &err), &err);
    assert_string_equal(cdz_result_text(other, 0), cdz_result_text(alone, 0));
    assert_true(stats_of(f).n_passes > passes);
    assert_int_equal(cdz_get_request_state(f->rt, id), CDZ_REQUEST_RUNNING);
    assert_int_equal(reader.seen, 3);
    must(cdz_pause(f->rt, id, &err), &err); /* again: nothing */
    must(cdz_resume(f->rt, id, &err), &err);
    must(cdz_wait(f->rt, id, &mine, &err), &err);
    assert_string_equal(cdz_result_text(mine, 0), cdz_result_text(alone, 0));
    assert_int_equal(stats_of(f).n_paused, 0);
    assert_int_equal(cdz_resume(f->rt, id, &err), CDZ_E_NOT_FOUND);
    assert_non_null(strstr(err.text, "no running request"));
    cdz_result_free(alone);
    cdz_result_free(other);
    cdz_result_free(mine);
}

/* Paused by their own events: the call comes before their end, however late this thread is. */
static void a_paused_request_can_be_ended(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_result *result = NULL;
    uint64_t cancelled, late;
    cdz_pipeline *pipeline = endless(f);
    slow_reader readers[2] = {{f, 0}, {f, 0}};
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = pipeline,
                           .prompt = "music is",
                           .on_event = pause_at_third,
                           .user = &readers[0]};
    must(cdz_submit(f->rt, &request, &cancelled, &err), &err);
    await_paused(f, 1);
    request.timeout_s = 0.5;
    request.user = &readers[1];
    must(cdz_submit(f->rt, &request, &late, &err), &err);
    assert_int_equal(cdz_wait(f->rt, late, &result, &err), CDZ_E_DEADLINE);
    cdz_result_free(result);
    await_paused(f, 1);
    must(cdz_cancel(f->rt, cancelled, &err), &err);
    assert_int_equal(cdz_wait(f->rt, cancelled, &result, &err), CDZ_E_CANCELLED);
    cdz_result_free(result);
    assert_int_equal(stats_of(f).kv_blocks_used, 0);
    cdz_pipeline_free(pipeline);
}

static void a_deadline_leaves_what_there_is(void **state)
{
    fixture *f = *state;
    cdz_pipeline *pipeline = endless(f);
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = pipeline,
                           .prompt = "music is",
                           .timeout_s = 0.001};
    assert_int_equal(cdz_generate(f->rt, &request, &result, &err), CDZ_E_DEADLINE);
    assert_non_null(result);
    assert_string_equal(cdz_result_finish_reason(result, 0), "time");
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

static void an_unwanted_result_is_evicted(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    uint64_t id;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = f->greedy,
                           .prompt = "music is",
                           .poll = true};
    must(cdz_submit(f->rt, &request, &id, &err), &err);
    cdz_event event = {0};
    while (event.kind != CDZ_EVENT_DONE) must(cdz_poll(f->rt, 60, &event, &err), &err);
    must(cdz_evict(f->rt, id, &err), &err);
    assert_int_equal(cdz_evict(f->rt, id, &err), CDZ_E_NOT_FOUND);
}

static void closing_ends_what_runs(void **state)
{
    (void)state;
    cdz_error err = {0};
    fixture *own;
    void *slot;
    open_all(&slot);
    own = slot;
    cdz_pipeline *pipeline = endless(own);
    for (int i = 0; i < 8; i++) {
        uint64_t id;
        cdz_request request = {.size = sizeof request,
                               .model = own->model,
                               .pipeline = pipeline,
                               .prompt = "music is",
                               .poll = i % 2 == 0};
        must(cdz_submit(own->rt, &request, &id, &err), &err);
        if (i % 4 == 1) must(cdz_pause(own->rt, id, &err), &err);
    }
    cdz_pipeline_free(pipeline);
    close_all(&slot);
}

/* --- two models, many requests ------------------------------------------------------------------------------------- */

static char *greedy_text(fixture *f, cdz_model *model, const char *prompt)
{
    cdz_error err = {0};
    cdz_result *result;
    cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = f->greedy, .prompt = prompt};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    char *copy = strdup(cdz_result_text(result, 0));
    cdz_result_free(result);
    return copy;
}

static void two_models_share_a_runtime(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_model *small = opened_model(f->rt, draft);
    char *alone_big = greedy_text(f, f->model, "window (noun):");
    char *alone_small = greedy_text(f, small, "window (noun):");
    assert_string_not_equal(alone_big, alone_small);

    enum { N = 16 };
    uint64_t ids[N];
    for (int i = 0; i < N; i++) {
        cdz_request request = {.size = sizeof request,
                               .model = i % 2 ? small : f->model,
                               .pipeline = f->greedy,
                               .prompt = "window (noun):"};
        must(cdz_submit(f->rt, &request, &ids[i], &err), &err);
    }
    cdz_model_close(small); /* its requests keep it alive */
    for (int i = 0; i < N; i++) {
        cdz_result *result;
        must(cdz_wait(f->rt, ids[i], &result, &err), &err);
        assert_string_equal(cdz_result_text(result, 0), i % 2 ? alone_small : alone_big);
        cdz_result_free(result);
    }
    free(alone_big);
    free(alone_small);
}

static void batched_samples_equal_single_ones(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    enum { N = 40 };
    static const char *const prompts[] = {"river (noun):", "A dog is a kind of", "music is",
                                          "teach (verb):", "She was"};
    uint64_t ids[N];
    char json[N][160], *alone[N];
    for (int i = 0; i < N; i++) {
        snprintf(json[i], sizeof json[i],
                 "{\"prompt\": \"%s\", \"seed\": %d, \"kwargs\": {\"do_sample\": true, "
                 "\"max_new_tokens\": %d}}",
                 prompts[i % 5], i, 5 + i);
        cdz_request request = {.size = sizeof request, .model = f->model, .json = json[i]};
        cdz_result *result;
        must(cdz_generate(f->rt, &request, &result, &err), &err);
        alone[i] = strdup(cdz_result_text(result, 0));
        cdz_result_free(result);
    }
    for (int i = 0; i < N; i++) {
        cdz_request request = {.size = sizeof request, .model = f->model, .json = json[i]};
        must(cdz_submit(f->rt, &request, &ids[i], &err), &err);
    }
    for (int i = 0; i < N; i++) {
        cdz_result *result;
        must(cdz_wait(f->rt, ids[i], &result, &err), &err);
        assert_string_equal(cdz_result_text(result, 0), alone[i]);
        cdz_result_free(result);
        free(alone[i]);
    }
}

/* --- requests that are wrong ------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *json, *says;
    cdz_status status;
} wrong_requests[] = {
    {"broken JSON", "{\"prompt\": ", "request:", CDZ_E_INPUT},
    {"an unknown field", "{\"promt\": \"a\"}", "did you mean \"prompt\"?", CDZ_E_USAGE},
    {"a parameter at the top", "{\"prompt\": \"a\", \"temperature\": 1}",
     "generation parameters go into \"kwargs\": {\"temperature\": ...}", CDZ_E_USAGE},
    {"another program's parameter", "{\"prompt\": \"a\", \"max_tokens\": 1}",
     "generation parameters go into \"kwargs\": {\"max_new_tokens\": ...}", CDZ_E_USAGE},
    {"a pipeline that is no path", "{\"prompt\": \"a\", \"pipeline\": 7}",
     "\"pipeline\" must be the path of an ini file or an object of its sections", CDZ_E_USAGE},
    {"a pipeline of the request's that names a script",
     "{\"prompt\": \"a\", \"pipeline\": {\"pipeline\": {\"strategy\": \"lua:x.lua\"}}}",
     "pipeline.pipeline.strategy must be an id, or a list of them, and no file", CDZ_E_USAGE},
    {"a path in a list of it",
     "{\"prompt\": \"a\", \"pipeline\": {\"pipeline\": {\"processors\": [\"dry\", \"../dry\"]}}}",
     "pipeline.pipeline.processors must be an id", CDZ_E_USAGE},
    {"a line within an id of it",
     "{\"prompt\": \"a\", \"pipeline\": {\"x\": {\"id\": \"dry\\n[models]\"}}}",
     "pipeline.x.id must be an id", CDZ_E_USAGE},
    {"a section of it that is a path", "{\"prompt\": \"a\", \"pipeline\": {\"lua:x\": {}}}",
     "the section \"lua:x\" must be called as a plugin's id", CDZ_E_USAGE},
    {"a file that it uses",
     "{\"prompt\": \"a\", \"pipeline\": {\"pipeline\": {\"use\": \"models\"}}}",
     "use = models: there is no such profile", CDZ_E_NOT_FOUND},
    {"models in it", "{\"prompt\": \"a\", \"pipeline\": {\"models\": {\"a\": \"b\"}}}",
     "a request has no section \"models\"", CDZ_E_USAGE},
    {"a misspelt field of it",
     "{\"prompt\": \"a\", \"pipeline\": {\"pipeline\": {\"procesors\": \"dry\"}}}",
     "has no field \"procesors\": did you mean \"processors\"?", CDZ_E_USAGE},
    {"a wrong value in it", "{\"prompt\": \"a\", \"pipeline\": {\"generation\": {\"regex\": 7}}}",
     "regex", CDZ_E_USAGE},
    {"an unknown parameter", "{\"prompt\": \"a\", \"kwargs\": {\"temprature\": 1.0}}",
     "temperature", CDZ_E_USAGE},
    {"sections that are a list", "{\"prompt\": \"a\", \"sections\": [1]}",
     "\"sections\" must be an object, found an array", CDZ_E_USAGE},
    {"a section that is a number", "{\"prompt\": \"a\", \"sections\": {\"top_k\": 7}}",
     "sections.top_k must be an object, found an integer", CDZ_E_USAGE},
    {"an unknown section", "{\"prompt\": \"a\", \"sections\": {\"topk\": {\"top_k\": 7}}}",
     "request: topk.top_k: nothing in the pipeline is called 'topk': did you mean 'top_k'?",
     CDZ_E_USAGE},
    {"the same value in both",
     "{\"prompt\": \"a\", \"kwargs\": {\"top_k.top_k\": 7}, "
     "\"sections\": {\"top_k\": {\"top_k\": 7}}}",
     "request: top_k.top_k and top_k.top_k are the same parameter", CDZ_E_USAGE},
    {"a parameter out of range",
     "{\"prompt\": \"a\", \"kwargs\": {\"do_sample\": true, \"top_p\": -1.0}}", "top_p",
     CDZ_E_USAGE},
    {"an id outside the vocabulary", "{\"prompt_ids\": [1, 4096]}", "0 to 4095", CDZ_E_USAGE},
    {"a negative id", "{\"prompt_ids\": [-1]}", "prompt_ids", CDZ_E_USAGE},
    {"an empty prompt", "{\"prompt\": \"\"}", "empty", CDZ_E_USAGE},
    {"nothing to start from", "{\"prompt_ids\": null}", "bos_token_id", CDZ_E_USAGE},
    {"a mask of another shape", "{\"prompt_ids\": [5, 6], \"attention_mask\": [1]}",
     "attention_mask", CDZ_E_USAGE},
    {"a mask of twos", "{\"prompt_ids\": [5, 6], \"attention_mask\": [2, 1]}", "0 and 1",
     CDZ_E_USAGE},
    {"a masked last position", "{\"prompt_ids\": [5, 6], \"attention_mask\": [1, 0]}", "left",
     CDZ_E_USAGE},
    {"text and ids", "{\"prompt\": \"a\", \"prompt_ids\": [5]}", "one of them", CDZ_E_USAGE},
    {"no room for a token",
     "{\"prompt_ids\": [5, 6, 7], \"kwargs\": {\"max_new_tokens\": null, \"max_length\": 3}}",
     "max_length", CDZ_E_INPUT},
};

static void wrong_requests_are_refused_in_words(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong_requests / sizeof wrong_requests[0]; i++) {
        cdz_error err = {0};
        uint64_t id;
        cdz_request request = {
            .size = sizeof request, .model = f->model, .json = wrong_requests[i].json};
        cdz_status status = cdz_submit(f->rt, &request, &id, &err);
        if (status != wrong_requests[i].status || !strstr(err.text, wrong_requests[i].says))
            fail_msg("%s: status %d, \"%s\"", wrong_requests[i].name, (int)status, err.text);
    }
}

/* Parameters as a document, the prompt as it is: nobody has to write text as JSON. */
static void a_document_may_leave_the_prompt_to_the_program(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_result *whole, *apart;
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .json = "{\"prompt\": \"river (noun): \\\"a\", \"kwargs\": "
                                   "{\"do_sample\": false, \"max_new_tokens\": 5}}"};
    must(cdz_generate(f->rt, &request, &whole, &err), &err);
    request.json = "{\"kwargs\": {\"do_sample\": false, \"max_new_tokens\": 5}}";
    request.prompt = "river (noun): \"a";
    must(cdz_generate(f->rt, &request, &apart, &err), &err);
    uint32_t n;
    const int32_t *ids = cdz_result_ids(apart, 0, &n);
    assert_int_equal(n, 5);
    assert_string_equal(cdz_result_text(whole, 0), cdz_result_text(apart, 0));
    assert_memory_equal(ids, cdz_result_ids(whole, 0, &n), n * sizeof *ids);
    cdz_result_free(whole);
    cdz_result_free(apart);
}

static void two_prompts_are_refused(void **state)
{
    static const int32_t five = 5;
    static const struct {
        const char *prompt, *json, *says;
        const int32_t *ids;
    } cases[] = {
        {"a", NULL, "cdz_request has both prompt and ids: give one prompt", &five},
        {"a", "{\"prompt\": \"b\"}",
         "cdz_request.prompt is set and cdz_request.json has \"prompt\"", NULL},
        {"a", "{\"messages\": []}", "cdz_request.json has \"messages\": give one prompt", NULL},
        {NULL, "{\"prompt_ids\": [6]}",
         "cdz_request.ids is set and cdz_request.json has \"prompt_ids\"", &five},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cdz_error err = {0};
        uint64_t id;
        const cdz_request request = {.size = sizeof request,
                                     .model = f->model,
                                     .prompt = cases[i].prompt,
                                     .ids = cases[i].ids,
                                     .n_ids = cases[i].ids ? 1 : 0,
                                     .json = cases[i].json};
        assert_int_equal(cdz_submit(f->rt, &request, &id, &err), CDZ_E_USAGE);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    }
}

/* They were run by an engine that does not know them, and waited for ever. */
static void what_is_of_another_runtime_is_refused(void **state)
{
    fixture *f = *state;
    const cdz_options options = {.size = sizeof options, .n_threads = 1, .kv_bytes = 8u << 20};
    cdz_runtime *other = opened_runtime(&options);
    cdz_model *model = opened_model(other, draft);
    cdz_pipeline *pipeline = opened_pipeline(other, "");
    const char *const critic = "critic";
    const struct {
        const char *what;
        cdz_request request;
    } cases[] = {
        {"model", {.model = model}},
        {"assistant", {.model = f->model, .assistant = model}},
        {"pipeline", {.model = f->model, .pipeline = pipeline}},
        {"critic", {.model = f->model, .models = &model, .model_names = &critic, .n_models = 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cdz_error err = {0};
        uint64_t id;
        char says[64];
        cdz_request request = cases[i].request;
        request.size = sizeof request;
        request.prompt = "a";
        assert_int_equal(cdz_submit(f->rt, &request, &id, &err), CDZ_E_USAGE);
        snprintf(says, sizeof says, "cdz_request: %s is of another runtime", cases[i].what);
        assert_string_equal(err.text, says);
    }
    cdz_error err = {0};
    cdz_rules *rules;
    cdz_rules_options of = {.size = sizeof of, .n_vocab = 10};
    assert_int_equal(cdz_rules_open(f->rt, pipeline, &of, &rules, &err), CDZ_E_USAGE);
    of.model = f->model;
    assert_int_equal(cdz_rules_open(other, pipeline, &of, &rules, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "cdz_rules_open: the model is of another runtime");
    cdz_request half = {.size = sizeof half, .model = f->model, .prompt = "a", .n_models = 1};
    uint64_t id;
    assert_int_equal(cdz_submit(f->rt, &half, &id, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "cdz_request.n_models is 1, models is NULL");
    cdz_pipeline_free(pipeline);
    cdz_model_close(model);
    cdz_close(other);
}

static void a_struct_without_its_size_is_refused(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_runtime *rt;
    cdz_model *model;
    cdz_rules *rules;
    cdz_reloader *reloader;
    assert_int_equal(cdz_open(&(cdz_options){.n_threads = 1}, &rt, &err), CDZ_E_USAGE);
    assert_string_equal(err.text, "cdz_options.size is 0: set it to sizeof(cdz_options)");
    assert_int_equal(
        cdz_model_open(f->rt, draft, &(cdz_model_options){.quantize = "q8_0"}, &model, &err),
        CDZ_E_USAGE);
    assert_string_equal(err.text,
                        "cdz_model_options.size is 0: set it to sizeof(cdz_model_options)");
    assert_int_equal(cdz_model_of_function(f->rt, &(cdz_function_model){.n_vocab = 8}, &model, &err),
                     CDZ_E_USAGE);
    assert_string_equal(err.text,
                        "cdz_function_model.size is 0: set it to sizeof(cdz_function_model)");
    assert_int_equal(
        cdz_rules_open(f->rt, f->greedy, &(cdz_rules_options){.n_vocab = 8}, &rules, &err),
        CDZ_E_USAGE);
    assert_string_equal(err.text,
                        "cdz_rules_options.size is 0: set it to sizeof(cdz_rules_options)");
    assert_int_equal(cdz_reloader_open(&(cdz_reloader_options){.quiet_ms = 9}, &reloader, &err),
                     CDZ_E_USAGE);
    assert_string_equal(err.text,
                        "cdz_reloader_options.size is 0: set it to sizeof(cdz_reloader_options)");
}

/* What is left of a deadline that has passed is no request without one. */
static void a_time_that_is_over_is_no_time_without_end(void **state)
{
    fixture *f = *state;
    const double times[] = {-1, -1e-9, NAN};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        cdz_error err = {0};
        uint64_t id;
        const cdz_request request = {
            .size = sizeof request, .model = f->model, .prompt = "a", .timeout_s = times[i]};
        assert_int_equal(cdz_submit(f->rt, &request, &id, &err), CDZ_E_USAGE);
        assert_non_null(strstr(err.text, "expected seconds, or 0 for none"));
    }
}

static void score_of(const fixture *f, float *out, size_t n)
{
    cdz_error err = {0};
    int32_t ids[16];
    assert_true(n <= sizeof ids / sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(100 + 37 * i);
    must(cdz_score(f->rt, f->model, NULL, 0, ids, n, out, &err), &err);
}

/* Threads begin with the floating-point mode of the one that makes them; the engine's has its own. */
static void bits_do_not_depend_on_who_opens_the_runtime(void **state)
{
    enum { N = 12 };
    const cdz_options options = {.size = sizeof options, .n_threads = 1};
    float nearest[N], upward[N];
    fixture other = {0};
    assert_int_equal(fesetround(FE_UPWARD), 0);
    other.rt = opened_runtime(&options);
    fesetround(FE_TONEAREST);
    other.model = opened_model(other.rt, target);
    score_of(*state, nearest, N);
    score_of(&other, upward, N);
    assert_memory_equal(nearest + 1, upward + 1, (N - 1) * sizeof *nearest);
    cdz_model_close(other.model);
    cdz_close(other.rt);
}

/* Whether a thread of this process blocks a signal; SigBlk of its status is a mask in hexadecimal digits. */
static bool blocks(const char *thread, int signal)
{
    char path[320], line[128];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "SigBlk: %llx", &mask) == 1) break;
    fclose(f);
    return mask >> (signal - 1) & 1;
}

static void a_folder_of_plugins_is_there(void **state)
{
    (void)state;
    cdz_error err = {0};
    cdz_runtime *rt = NULL;
    const char *const wrong[] = {"/no/such/folder",
                                 CADENZA_TEST_DATA "/golden/llama_bf16/config.json"};
    for (size_t i = 0; i < 2; i++) {
        const cdz_options options = {.size = sizeof options, .plugin_dir = wrong[i]};
        assert_int_equal(cdz_open(&options, &rt, &err), CDZ_E_NOT_FOUND);
        assert_non_null(strstr(err.text, wrong[i]));
        assert_non_null(strstr(err.text, "plugin_dir"));
        assert_null(rt);
    }
}

static void the_librarys_threads_take_no_signals(void **state)
{
    const fixture *f = *state;
    float score[2];
    size_t n = 0;
    score_of(f, score, 2);
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (const struct dirent *e = readdir(threads); e; e = readdir(threads)) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == (int)getpid()) continue;
        assert_true(blocks(e->d_name, SIGTERM) && blocks(e->d_name, SIGCHLD));
        n += !blocks(e->d_name, SIGSEGV) &&
             !blocks(e->d_name, SIGPIPE); /* a sanitizer's blocks all */
    }
    closedir(threads);
    assert_true(n > 0);
}

/* 0: what would wait for the engine's thread, which a child of fork has not, is refused there; ending waits for nothing. */
static int use_of_a_child(const fixture *f)
{
    cdz_error err = {0};
    uint64_t id;
    cdz_model *model;
    cdz_event event;
    cdz_result *result;
    const cdz_request request = {.size = sizeof request, .model = f->model, .prompt = "a"};
    alarm(60);
    if (cdz_submit(f->rt, &request, &id, &err) != CDZ_E_STATE) return 1;
    if (!strstr(err.text, "fork leaves its thread behind")) return 2;
    if (cdz_get_result(f->rt, 0, -1, NULL, &result, &err) != CDZ_E_STATE) return 3;
    if (cdz_poll(f->rt, -1, &event, &err) != CDZ_E_STATE) return 4;
    if (cdz_model_open(f->rt, draft, NULL, &model, &err) != CDZ_E_STATE) return 5;
    if (cdz_join(f->rt, -1, &err) != CDZ_E_STATE) return 6;
    cdz_pipeline_free(f->greedy);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    return 0;
}

static void a_child_of_fork_is_told(void **state)
{
    const fixture *f = *state;
    int status = -1;
    const pid_t child = fork();
    if (child == 0) _exit(use_of_a_child(f));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A pipeline that a document holds is the same as a file that says so; kwargs stand above it. */
static void a_request_may_hold_its_pipeline(void **state)
{
    static const char ini[] = "[pipeline]\nstrategy = greedy\nprocessors = calm\n"
                              "[calm]\nid = logit_bias\ntexts = [\" large\"]\nbiases = [-30]\n"
                              "[generation]\nmax_new_tokens = 20\n";
    static const char json[] =
        "{\"prompt\": \"river (noun): a\", \"pipeline\": {\"pipeline\": {\"strategy\": \"greedy\","
        " \"processors\": [\"calm\"]}, \"calm\": {\"id\": \"logit_bias\", "
        "\"texts\": [\" large\"], \"biases\": [-30]}, \"generation\": {\"max_new_tokens\": %s}}%s}";
    static const char *const ends[][2] = {
        {"20", ""}, {"4", ", \"kwargs\": {\"max_new_tokens\": 20}"}, {"20", ", \"kwargs\": {}"}};
    fixture *f = *state;
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    cdz_result *plain, *want;
    must(cdz_pipeline_parse(f->rt, ini, sizeof ini - 1, "calm.ini", &pipeline, &err), &err);
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .prompt = "river (noun): a",
                           .pipeline = pipeline};
    must(cdz_generate(f->rt, &request, &want, &err), &err);
    request = (cdz_request){
        .size = sizeof request,
        .model = f->model,
        .json = "{\"prompt\": \"river (noun): a\", \"kwargs\": {\"max_new_tokens\": 20, "
                "\"do_sample\": false}}"};
    must(cdz_generate(f->rt, &request, &plain, &err), &err);
    assert_string_not_equal(cdz_result_text(plain, 0), cdz_result_text(want, 0));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char text[512];
        cdz_result *result;
        snprintf(text, sizeof text, json, ends[i][0], ends[i][1]);
        request.json = text;
        must(cdz_generate(f->rt, &request, &result, &err), &err);
        assert_string_equal(cdz_result_text(result, 0), cdz_result_text(want, 0));
        cdz_result_free(result);
    }
    cdz_result_free(plain);
    cdz_result_free(want);
    cdz_pipeline_free(pipeline);
}

static void a_prompt_longer_than_the_context_is_refused(void **state)
{
    fixture *f = *state;
    int32_t ids[600];
    for (int i = 0; i < 600; i++) ids[i] = 5 + i;
    cdz_error err = {0};
    uint64_t id;
    cdz_request request = {.size = sizeof request, .model = f->model, .ids = ids, .n_ids = 600};
    assert_int_equal(cdz_submit(f->rt, &request, &id, &err), CDZ_E_USAGE);
    assert_non_null(strstr(err.text, "600"));
    assert_non_null(strstr(err.text, "512"));
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    uint64_t id;
    cdz_request request = {.size = sizeof request, .model = f->model, .prompt = "caf\xe9 au lait"};
    assert_int_equal(cdz_submit(f->rt, &request, &id, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "3")); /* the byte's offset */
}

/* --- what a program that speaks for a model asks ------------------------------------------------------------------ */

/* A conversation's ids are those that a request with it has as its prompt. */
static void a_conversation_becomes_ids(void **state)
{
    fixture *f = *state;
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"What does river mean?\"}]}";
    cdz_error err = {0};
    cdz_result *result = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    uint32_t len = 0, fresh = 0;
    must(cdz_apply_chat_template(f->model, json, strlen(json), &ids, &n, &err), &err);
    const cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = f->greedy, .json = json};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    const int32_t *sequence = cdz_result_sequence(result, 0, &len);
    cdz_result_ids(result, 0, &fresh);
    assert_int_equal(len, n + fresh);
    assert_memory_equal(sequence, ids, n * sizeof *ids);
    cdz_result_free(result);
    cdz_free(ids);
    static const char *const wrong[] = {"{}", "[]", "{\"messages\": 5}",
                                        "{\"messages\": [], \"mesages\": 1}", "{"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err.text[0] = '\0';
        assert_int_not_equal(
            cdz_apply_chat_template(f->model, wrong[i], strlen(wrong[i]), &ids, &n, &err), CDZ_OK);
        assert_true(err.text[0]);
    }
}

static void tokens_have_texts(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0, len = 0;
    char joined[64] = "", *text = NULL;
    must(cdz_tokenize(f->model, "a river", 7, false, &ids, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        must(cdz_token_text(f->model, ids[i], &text, &len, &err), &err);
        assert_int_equal(strlen(text), len);
        strncat(joined, text, sizeof joined - strlen(joined) - 1);
        cdz_free(text);
    }
    assert_string_equal(joined, "a river");
    cdz_free(ids);
    /* of half a character too */
    void *bytes = NULL;
    size_t told = 0;
    must(cdz_tokenize(f->model, "\xF0\x9F\x98\x80", 4, false, &ids, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        must(cdz_token_bytes(f->model, ids[i], &bytes, &len, &err), &err);
        assert_true(told + len <= 4);
        assert_memory_equal(bytes, &"\xF0\x9F\x98\x80"[told], len);
        told += len;
        cdz_free(bytes);
    }
    assert_int_equal(told, 4);
    cdz_free(ids);
    must(cdz_token_bytes(f->model, INT32_MAX, &bytes, &len, &err), &err);
    assert_null(bytes);
    assert_int_equal(cdz_token_text(f->model, -1, &text, &len, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_token_text(f->model, INT32_MAX, &text, &len, &err), CDZ_E_NOT_FOUND);
}

static void tokenizer_and_plugins_are_told(void **state)
{
    fixture *f = *state;
    cdz_error err = {0};
    cdz_arena arena = {0};
    cdz_json value;
    bool greedy = false;
    char *info = cdz_tokenizer_info_json(f->model), *plugins = NULL;
    assert_non_null(info);
    must(cdz_json_parse(info, strlen(info), "info", NULL, &arena, &value, &err), &err);
    assert_true(cdz_json_is(cdz_json_get(&value, "eos_token"), CDZ_JSON_STRING));
    assert_true(cdz_json_is(cdz_json_get(&value, "eos_token_id"), CDZ_JSON_INT));
    must(cdz_plugins_json(f->rt, &plugins, &err), &err);
    must(cdz_json_parse(plugins, strlen(plugins), "plugins", NULL, &arena, &value, &err), &err);
    for (uint32_t i = 0; i < value.len; i++) {
        const cdz_json *id = cdz_json_get(&value.items[i], "id");
        assert_true(cdz_json_is(cdz_json_get(&value.items[i], "parameters"), CDZ_JSON_OBJECT));
        greedy |= cdz_json_eq(id, "greedy") &&
                  cdz_json_eq(cdz_json_get(&value.items[i], "kind"), "strategy");
    }
    assert_true(greedy);
    cdz_free(info);
    cdz_free(plugins);
    cdz_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_are_reproduced),
        cmocka_unit_test(callbacks_give_the_whole_text),
        cmocka_unit_test(poll_gives_the_same_events),
        cmocka_unit_test(cancel_ends_a_request),
        cmocka_unit_test(a_paused_request_waits_alone),
        cmocka_unit_test(a_paused_request_can_be_ended),
        cmocka_unit_test(a_deadline_leaves_what_there_is),
        cmocka_unit_test(an_unwanted_result_is_evicted),
        cmocka_unit_test(closing_ends_what_runs),
        cmocka_unit_test(two_models_share_a_runtime),
        cmocka_unit_test(batched_samples_equal_single_ones),
        cmocka_unit_test(wrong_requests_are_refused_in_words),
        cmocka_unit_test(a_document_may_leave_the_prompt_to_the_program),
        cmocka_unit_test(two_prompts_are_refused),
        cmocka_unit_test(what_is_of_another_runtime_is_refused),
        cmocka_unit_test(a_struct_without_its_size_is_refused),
        cmocka_unit_test(a_time_that_is_over_is_no_time_without_end),
        cmocka_unit_test(bits_do_not_depend_on_who_opens_the_runtime),
        cmocka_unit_test(the_librarys_threads_take_no_signals),
        cmocka_unit_test(a_folder_of_plugins_is_there),
        cmocka_unit_test(a_child_of_fork_is_told),
        cmocka_unit_test(a_request_may_hold_its_pipeline),
        cmocka_unit_test(a_prompt_longer_than_the_context_is_refused),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(a_conversation_becomes_ids),
        cmocka_unit_test(tokens_have_texts),
        cmocka_unit_test(tokenizer_and_plugins_are_told),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
