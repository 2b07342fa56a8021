/* test_observers.c - observers, in Lua and in C: what they hear of in every mode, and that nothing they do reaches the answer;
 * and where the lines go that plugins log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"

enum { LOG_BYTES = 1 << 16, MOST_IDS = 64, MOST_ROWS = 4 };

#define PROMPT "{\"prompt_ids\": [[5, 80, 201, 44, 17, 300]]}"
#define TWO    "{\"prompt_ids\": [[5, 80, 201, 44], [17, 300, 5, 80]]}"

/* What a request left behind. */
typedef struct heard {
    char log[LOG_BYTES]; /* "plugin: text\n" */
    size_t n_log;
    unsigned n_warnings;
    uint32_t n_rows, n_ids[MOST_ROWS];
    int32_t ids[MOST_ROWS][MOST_IDS];
} heard;

static void keep_line(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    heard *h = user;
    const int n = snprintf(h->log + h->n_log, sizeof h->log - h->n_log, "%s: %s\n", plugin, text);
    assert_true(n > 0 && (size_t)n < sizeof h->log - h->n_log);
    h->n_log += (size_t)n;
    h->n_warnings += level == CDZ_LOG_WARNING;
}

/* What the program says of its requests. */
static const char *request_id, *traceparent;

static cdz_status run(const char *ini, const char *json, bool draft, heard *h, cdz_error *err)
{
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = 1,
                                 .kv_bytes = 8u << 20,
                                 .log = keep_line,
                                 .log_user = h};
    cdz_runtime *runtime = NULL;
    cdz_model *model = NULL, *assistant = NULL;
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;

    *h = (heard){.n_log = 0};
    cdz_status status = cdz_open(&options, &runtime, err);
    if (status == CDZ_OK)
        status = cdz_model_open(runtime, CADENZA_TEST_DATA "/golden/llama_gqa", NULL, &model, err);
    if (status == CDZ_OK && draft)
        status =
            cdz_model_open(runtime, CADENZA_TEST_DATA "/golden/llama_draft", NULL, &assistant, err);
    if (status == CDZ_OK)
        status = cdz_pipeline_parse(runtime, ini, strlen(ini), "test.ini", &pipeline, err);
    const cdz_request request = {.size = sizeof request,
                                 .model = model,
                                 .assistant = assistant,
                                 .pipeline = pipeline,
                                 .json = json,
                                 .request_id = request_id,
                                 .traceparent = traceparent};
    if (status == CDZ_OK) status = cdz_generate(runtime, &request, &result, err);
    h->n_rows = status == CDZ_OK ? cdz_result_rows(result) : 0;
    for (uint32_t r = 0; r < h->n_rows; r++) {
        const int32_t *ids = cdz_result_ids(result, r, &h->n_ids[r]);
        assert_true(r < MOST_ROWS && h->n_ids[r] <= MOST_IDS);
        memcpy(h->ids[r], ids, h->n_ids[r] * sizeof *ids);
    }
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
    cdz_model_close(assistant);
    cdz_model_close(model);
    cdz_close(runtime);
    return status;
}

/* Scripts lie in the folder the test runs in. */
static void write_script(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static heard *listen(const char *ini, const char *json, bool draft)
{
    cdz_error err = {0};
    heard *h = malloc(sizeof *h);
    assert_non_null(h);
    if (run(ini, json, draft, h, &err) != CDZ_OK) fail_msg("%s\n%s", err.text, ini);
    return h;
}

static void same_answer(const heard *a, const heard *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    for (uint32_t r = 0; r < a->n_rows; r++) {
        assert_int_equal(a->n_ids[r], b->n_ids[r]);
        assert_memory_equal(a->ids[r], b->ids[r], a->n_ids[r] * sizeof a->ids[r][0]);
    }
}

/* --- what is heard ------------------------------------------------------------------------------------------------ */

/* Says everything; looks at rows so that wrong pointers would be found. */
static const char all_events[] =
    "local n = 0\n"
    "local function say(...) n = n + 1; print(...) end\n"
    "return cadenza.observer { id = 'test.all', version = '1.0.0',\n"
    "  params = { quiet = { false, 'scores are looked at in silence' } },\n"
    "  begin = function(ctx) say('begin', ctx.n_rows) end,\n"
    "  stage = function(p, by, before, after, ctx)\n"
    "    assert(#before == #after and #after == ctx.n_vocab)\n"
    "    if not p.quiet then say('stage', ctx.row, #ctx.tokens, by, after:count_above(-math.huge)) end\n"
    "  end,\n"
    "  scores = function(p, before, after, ctx)\n"
    "    assert(before:count_above(-math.huge) >= after:count_above(-math.huge))\n"
    "    if not p.quiet then say('scores', ctx.row, #ctx.tokens) end\n"
    "  end,\n"
    "  token = function(p, token, ctx)\n"
    "    assert(ctx.tokens[#ctx.tokens] == token)\n"
    "    say('token', ctx.row, #ctx.tokens)\n"
    "  end,\n"
    "  stop = function(p, reason, text, ctx) say('stop', ctx.row, #ctx.tokens, reason) end,\n"
    "  rewind = function(p, n, ctx) say('rewind', ctx.row, n, #ctx.tokens) end,\n"
    "  reorder = function(p, parents, ctx) say('reorder', #parents) end,\n"
    "  finish = function(p, ctx) say('finish', n) end,\n"
    "}\n";

/* Takes its first token back. */
static const char second_thoughts[] =
    "return cadenza.strategy { id = 'test.rewinds', version = '1.0.0', rewinds = true,\n"
    "  run = function(ctx)\n"
    "    ctx:append(7); ctx:rewind(1)\n"
    "    while not ctx:done() do ctx:append(9) end\n"
    "  end }\n";

#define OBSERVED "[pipeline]\nobservers = lua:all_events.lua\n"
#define QUIET    "[lua:all_events.lua]\nquiet = true\n"

typedef struct event_case {
    const char *name, *ini, *json;
    bool draft;
    const char *lines; /* expected, without "test.all: " */
} event_case;

static const event_case event_cases[] = {
    {"greedy", OBSERVED "[generation]\nmax_new_tokens = 2\n", PROMPT, false,
     "begin 1\nscores 1 6\ntoken 1 7\nscores 1 7\ntoken 1 8\nstop 1 8 length\nfinish 6\n"},
    {"stages", OBSERVED "[generation]\nmax_new_tokens = 1\ndo_sample = true\nseed = 1\ntop_k = 4\n",
     PROMPT, false,
     "begin 1\nstage 1 6 top_k 4\nscores 1 6\ntoken 1 7\nstop 1 7 length\nfinish 5\n"},
    {"two rows, quiet", OBSERVED "[generation]\nmax_new_tokens = 2\n" QUIET, TWO, false,
     "begin 2\ntoken 1 5\ntoken 2 5\ntoken 1 6\ntoken 2 6\nstop 1 6 length\nstop 2 6 length\n"
     "finish 7\n"},
    {"beams, quiet", OBSERVED "[generation]\nmax_new_tokens = 2\nnum_beams = 2\n" QUIET, PROMPT,
     false, "begin 2\nreorder 2\ntoken 1 7\ntoken 2 7\nstop 1 8 length\nfinish 5\n"},
    {"rewind",
     "[pipeline]\nstrategy = lua:second_thoughts.lua\nobservers = lua:all_events.lua\n"
     "[generation]\nmax_new_tokens = 2\n",
     PROMPT, false,
     "begin 1\ntoken 1 7\nrewind 1 1 6\ntoken 1 7\ntoken 1 8\nstop 1 8 length\nfinish 6\n"},
};

static void events_are_told(void **state)
{
    const event_case *c = *state;
    heard *h = listen(c->ini, c->json, c->draft);
    char told[4096] = "";
    const char *line = h->log;

    for (size_t at = 0; *line; line = strchr(line, '\n') + 1) {
        assert_int_equal(strncmp(line, "test.all: ", 10), 0);
        const int n = snprintf(told + at, sizeof told - at, "%.*s",
                               (int)(strcspn(line, "\n") + 1 - 10), line + 10);
        at += (size_t)n;
        assert_true(at < sizeof told);
    }
    assert_string_equal(told, c->lines);
    free(h);
}

/* --- what is not changed ------------------------------------------------------------------------------------------- */

#define BREAKER(body)                                                                              \
    "return cadenza.observer { id = 'test.breaker', version = '1.0.0', " body " }\n"

typedef struct breaker {
    const char *name, *script;
    const char *warning; /* part of it; NULL: none comes */
} breaker;

static const breaker breakers[] = {
    {"all", all_events, NULL},
    {"writes", BREAKER("scores = function(p, b, a) a[3] = 100 end"),
     "scores: breaker.lua:1: an observer writes no scores"},
    {"writes_in_bulk", BREAKER("stage = function(p, by, b, a) b:fill(0) end"),
     "stage: breaker.lua:1: an observer writes no scores"},
    {"errors", BREAKER("token = function() error('no more') end"), "no more"},
    {"errors_at_begin", BREAKER("begin = function() error('not today') end"), "begin: "},
    {"errors_at_stop", BREAKER("stop = function() local x = nil; x() end"), "stop: "},
    {"loops", BREAKER("token = function() while true do end end"), "budget_instructions"},
    {"hoards", BREAKER("token = function() local t = {}; for i = 1, 1e9 do t[i] = {} end end"),
     "budget_memory"},
};

typedef struct mode {
    const char *name, *generation, *json;
    bool draft;
} mode;

static const mode modes[] = {
    {"greedy", "max_new_tokens = 4\nrepetition_penalty = 1.3\n", PROMPT, false},
    {"sample", "max_new_tokens = 4\ndo_sample = true\nseed = 3\ntop_k = 9\ntemperature = 1.4\n",
     TWO, false},
    {"beams", "max_new_tokens = 4\nnum_beams = 3\nno_repeat_ngram_size = 2\n", PROMPT, false},
    {"drafts", "max_new_tokens = 5\nrepetition_penalty = 1.3\n", PROMPT, true},
    {"guidance", "max_new_tokens = 3\nguidance_scale = 1.5\n", PROMPT, false},
};

static void the_answer_stays(void **state)
{
    const breaker *b = *state;
    char ini[512];

    write_script("breaker.lua", b->script);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const mode *m = &modes[i];
        snprintf(ini, sizeof ini, "[generation]\n%s", m->generation);
        heard *alone = listen(ini, m->json, m->draft);
        snprintf(ini, sizeof ini,
                 "[pipeline]\nobservers = lua:breaker.lua\n[lua:breaker.lua]\nbudget_ms = 10000\n"
                 "[generation]\n%s",
                 m->generation);
        heard *watched = listen(ini, m->json, m->draft);
        same_answer(alone, watched);
        assert_int_equal(alone->n_log, 0);
        assert_int_equal(watched->n_warnings, b->warning != NULL);
        if (b->warning && !strstr(watched->log, b->warning))
            fail_msg("%s, %s: '%s'", b->name, m->name, watched->log);
        free(alone);
        free(watched);
    }
}

/* One that fails leaves the others alone. */
static void the_next_hears_on(void **state)
{
    (void)state;
    write_script("breaker.lua", BREAKER("token = function() error('no more') end"));
    heard *h = listen("[pipeline]\nobservers = lua:breaker.lua, lua:all_events.lua\n"
                      "[generation]\nmax_new_tokens = 3\n" QUIET,
                      PROMPT, false);
    assert_int_equal(h->n_warnings, 1);
    assert_non_null(strstr(h->log, "test.all: token 1 9\n"));
    assert_non_null(strstr(h->log, "test.all: finish 5\n"));
    free(h);
}

/* --- the trace package --------------------------------------------------------------------------------------------- */

static unsigned count(const char *text, const char *part)
{
    unsigned n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) n++;
    return n;
}

/* Of drafts and beams too, each token has been seen in the scores that it was chosen from. */
static void tokens_are_traced(void **state)
{
    char ini[512];
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const mode *m = &modes[i];
        snprintf(ini, sizeof ini, "[pipeline]\nobservers = org.cadenza.trace\n[generation]\n%s",
                 m->generation);
        heard *h = listen(ini, m->json, m->draft);
        const unsigned tokens = count(h->log, " p "), lines = count(h->log, "row ");
        assert_int_equal(h->n_warnings, 0);
        assert_true(tokens >= 3 && count(h->log, "ended: length") == h->n_rows);
        assert_int_equal(tokens + h->n_rows, lines); /* every line but the last of a row has a p */
        free(h);
    }
}

static void stages_are_traced(void **state)
{
    (void)state;
    heard *h = listen("[pipeline]\nobservers = org.cadenza.trace-stages\n[generation]\n"
                      "max_new_tokens = 2\ndo_sample = true\nseed = 1\ntop_k = 7\n"
                      "temperature = 0.5\n",
                      PROMPT, false);
    assert_int_equal(h->n_warnings, 0);
    assert_int_equal(count(h->log, " temperature: "), 2);
    assert_int_equal(count(h->log, " top_k: 7 left of "), 2);
    free(h);
}

/* --- refusals, and lines ------------------------------------------------------------------------------------------- */

static void a_pipeline_is_refused(const char *ini, const char *sentence)
{
    cdz_error err = {0};
    heard *h = malloc(sizeof *h);
    assert_non_null(h);
    assert_int_not_equal(run(ini, PROMPT, false, h, &err), CDZ_OK);
    if (!strstr(err.text, sentence)) fail_msg("'%s' is not in '%s'", sentence, err.text);
    free(h);
}

static void wrong_ones_are_refused(void **state)
{
    (void)state;
    a_pipeline_is_refused("[pipeline]\nobservers = org.cadenza.trase\n", "org.cadenza.trace");
    a_pipeline_is_refused("[pipeline]\nobservers = top_k\n", "observer");
    a_pipeline_is_refused("[pipeline]\nobserver = org.cadenza.trace\n", "'observers'");
    a_pipeline_is_refused(
        "[pipeline]\nobservers = org.cadenza.trace\n[org.cadenza.trace]\ntop = -1\n", "top");
    write_script("breaker.lua", BREAKER("tokens = function() end"));
    a_pipeline_is_refused("[pipeline]\nobservers = lua:breaker.lua\n", "did you mean 'token'?");
}

static void plugins_lines_arrive(void **state)
{
    (void)state;
    write_script("talker.lua", "return cadenza.processor { id = 'test.talker', version = '1.0.0',\n"
                               "  apply = function(p, ids, row, ctx) print('len', #ids) end }\n");
    heard *h = listen("[pipeline]\nprocessors = lua:talker.lua\n[generation]\nmax_new_tokens = 2\n",
                      PROMPT, false);
    assert_string_equal(h->log, "test.talker: len 6\ntest.talker: len 7\n");
    free(h);
}

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

/* What the program calls the request, and its place in a trace: in Lua from begin to the end, and in C. */
static void a_request_is_known(void **state)
{
    static const char ini[] =
        "[pipeline]\nobservers = lua:talker.lua, org.cadenza.trace\n[generation]\nmax_new_tokens = 1\n";
    (void)state;
    write_script("talker.lua",
                 "return cadenza.observer { id = 'test.talker', version = '1.0.0',\n"
                 "  begin = function(ctx) print(ctx.request_id, ctx.traceparent) end,\n"
                 "  finish = function(p, ctx) print(ctx.request_id, ctx.traceparent) end }\n");
    heard *h = listen(ini, PROMPT, false);
    assert_non_null(strstr(h->log, "test.talker: nil nil\n"));
    assert_null(strstr(h->log, "request "));
    free(h);
    char mine[] = "first-7";
    request_id = mine;
    traceparent = PARENT;
    h = listen(ini, PROMPT, false);
    request_id = traceparent = NULL;
    const char *first = strstr(h->log, "test.talker: first-7 " PARENT "\n");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "test.talker: first-7 " PARENT "\n"));
    assert_non_null(strstr(h->log, "org.cadenza.trace: request first-7, traceparent " PARENT "\n"));
    free(h);
}

/* A processor's edits hang on its input alone. */
static void a_processor_is_not_told(void **state)
{
    cdz_error err = {0};
    heard *h = malloc(sizeof *h);
    (void)state;
    assert_non_null(h);
    write_script("talker.lua", "return cadenza.processor { id = 'test.talker', version = '1.0.0',\n"
                               "  apply = function(p, ids, row, ctx) print(ctx.request_id) end }\n");
    assert_int_not_equal(run("[pipeline]\nprocessors = lua:talker.lua\n", PROMPT, false, h, &err),
                         CDZ_OK);
    assert_non_null(strstr(err.text, "request_id"));
    free(h);
}

static int write_scripts(void **state)
{
    (void)state;
    write_script("all_events.lua", all_events);
    write_script("second_thoughts.lua", second_thoughts);
    return 0;
}

static int remove_scripts(void **state)
{
    (void)state;
    remove("all_events.lua");
    remove("second_thoughts.lua");
    remove("breaker.lua");
    remove("talker.lua");
    return 0;
}

int main(void)
{
    enum {
        N_EVENTS = sizeof event_cases / sizeof event_cases[0],
        N_BREAKERS = sizeof breakers / sizeof breakers[0],
    };
    struct CMUnitTest tests[N_EVENTS + N_BREAKERS + 7] = {
        cmocka_unit_test(the_next_hears_on),       cmocka_unit_test(tokens_are_traced),
        cmocka_unit_test(stages_are_traced),       cmocka_unit_test(wrong_ones_are_refused),
        cmocka_unit_test(plugins_lines_arrive),    cmocka_unit_test(a_request_is_known),
        cmocka_unit_test(a_processor_is_not_told),
    };
    size_t n = 7;
    for (size_t i = 0; i < N_EVENTS; i++)
        tests[n++] = (struct CMUnitTest){.name = event_cases[i].name,
                                         .test_func = events_are_told,
                                         .initial_state = (void *)(uintptr_t)&event_cases[i]};
    for (size_t i = 0; i < N_BREAKERS; i++)
        tests[n++] = (struct CMUnitTest){.name = breakers[i].name,
                                         .test_func = the_answer_stays,
                                         .initial_state = (void *)(uintptr_t)&breakers[i]};
    return cmocka_run_group_tests_name("observers", tests, write_scripts, remove_scripts);
}
