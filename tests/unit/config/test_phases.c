/* test_phases.c - [phase:NAME] sections, on the shipped model: where a row is, what runs there, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "cadenza/cadenza.h"
#include "grammar/grammar.h"
#include "support/must.h"
#include "support/opened.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";

enum { MOST_NEW = 64, EOS = 4 }; /* the model's other end of sequence is 0 */

typedef struct fixture {
    cdz_runtime *rt, *one_by_one; /* the latter without fused walks */
    cdz_model *model, *slow_model;
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rt = opened_runtime(NULL);
    f->model = opened_model(f->rt, target);
    setenv("CADENZA_PLAN", "off", 1);
    f->one_by_one = opened_runtime(NULL);
    unsetenv("CADENZA_PLAN");
    f->slow_model = opened_model(f->one_by_one, target);
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    cdz_model_close(f->model);
    cdz_model_close(f->slow_model);
    cdz_close(f->rt);
    cdz_close(f->one_by_one);
    free(f);
    return 0;
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

typedef struct answer {
    int32_t ids[MOST_NEW];
    uint32_t n;
    uint64_t fused;
} answer;

static uint64_t fused_rows(const cdz_result *result)
{
    cdz_arena arena = {0};
    cdz_json doc;
    cdz_error err = {0};
    const char *text = cdz_result_json(result);
    must(cdz_json_parse(text, strlen(text), "result", NULL, &arena, &doc, &err), &err);
    const cdz_json *plan = cdz_json_get(cdz_json_get(&doc, "timings"), "plan");
    const cdz_json *fused = plan ? cdz_json_get(plan, "fused") : NULL;
    const uint64_t n = fused ? (uint64_t)fused->integer : 0;
    cdz_arena_free(&arena);
    return n;
}

static void take(const cdz_result *result, uint32_t row, answer *out)
{
    const int32_t *ids = cdz_result_ids(result, row, &out->n);
    assert_in_range(out->n, 0, MOST_NEW);
    if (out->n) memcpy(out->ids, ids, out->n * sizeof *ids);
    out->fused = fused_rows(result);
}

/* json: a request document. */
static void ask_rows(cdz_runtime *rt, cdz_model *model, const char *ini, const char *json,
                     answer *out, uint32_t n_rows)
{
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    cdz_result *result;
    pipeline = opened_pipeline(rt, ini);
    cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = pipeline, .json = json};
    must(cdz_generate(rt, &request, &result, &err), &err);
    assert_int_equal(cdz_result_rows(result), n_rows);
    for (uint32_t r = 0; r < n_rows; r++) take(result, r, &out[r]);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

static void ask(const fixture *f, const char *ini, const char *json, answer *out)
{
    ask_rows(f->rt, f->model, ini, json, out, 1);
}

static void expect_ids(const answer *got, uint32_t from, const int32_t *want, uint32_t n,
                       const char *name)
{
    bool same = from + n <= got->n;
    for (uint32_t i = 0; same && i < n; i++) same = got->ids[from + i] == want[i];
    if (same) return;
    for (uint32_t i = 0; i < got->n; i++) print_message("%d ", (int)got->ids[i]);
    fail_msg("%s: not the %u ids expected from %u on", name, n, from);
}

/* --- where a row is ------------------------------------------------------------------------------------------------ */

/* With budgets of a few tokens, what is forced shows where the row was. 7 begins the first phase, 8 ends it; 9 begins the
 * second, 10 ends it. */
static const char marks_ini[] = "[generation]\ndo_sample = no\nmax_new_tokens = 9\n"
                                "suppress_tokens = [0, 4, 7, 8, 9, 10]\n"
                                "[phase:a]\nbegin = [7]\nuntil = [8]\nmax_tokens = 2\n"
                                "[phase:b]\nbegin = [9]\nuntil = [10]\nmax_tokens = 3\n";

static void prompts_count_from_their_last_end(void **state)
{
    static const struct {
        const char *name, *prompt;
        uint32_t at;    /* of the forced token among the new ones */
        int32_t forced; /* 0: none ever is */
    } cases[] = {
        {"nothing has begun", "[261, 336]", 0, 0},
        {"inside", "[261, 7, 336]", 2, 8},
        {"inside, begun by the last token", "[261, 7]", 2, 8},
        {"the prompt's tokens are not of the budget", "[261, 7, 336, 292, 305]", 2, 8},
        {"ended", "[261, 7, 336, 8, 305]", 0, 0},
        {"begun and ended at once", "[261, 7, 8]", 0, 0},
        {"in the second", "[261, 7, 336, 8, 9, 305]", 3, 10},
        {"the first was left out", "[261, 9, 305]", 3, 10},
        {"both ended", "[261, 7, 8, 9, 10, 305]", 0, 0},
        {"an earlier turn", "[261, 7, 336, 4, 305]", 0, 0},
        {"an earlier turn and a new one", "[7, 8, 9, 4, 7, 305]", 2, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[200];
        answer got;
        snprintf(json, sizeof json, "{\"prompt_ids\": [%s]}", cases[i].prompt);
        ask(*state, marks_ini, json, &got);
        assert_int_equal(got.n, 9);
        for (uint32_t k = 0; k < got.n; k++) {
            const bool here = cases[i].forced && k == cases[i].at;
            const bool mark = got.ids[k] == 8 || got.ids[k] == 10;
            if (here != mark || (here && got.ids[k] != cases[i].forced))
                fail_msg("%s: token %u is %d", cases[i].name, k, (int)got.ids[k]);
        }
    }
}

/* Without `begin` the first phase begins after the prompt, whatever that says. */
static void budgets_force_their_ends(void **state)
{
    static const struct {
        const char *name, *ini;
        uint32_t from, n;
        int32_t want[4];
    } cases[] = {
        {"tokens of several",
         "[phase:a]\nuntil = [856, 304]\nmax_tokens = 3\n[phase:b]\n",
         3,
         2,
         {856, 304}},
        {"a budget of nothing",
         "[phase:a]\nuntil = [856, 304]\nmax_tokens = 0\n[phase:b]\n",
         0,
         2,
         {856, 304}},
        {"one after the other",
         "[phase:a]\nuntil = [845]\nmax_tokens = 0\n[phase:b]\nuntil = [856]\nmax_tokens = 0\n"
         "[phase:c]\nuntil = [845]\nmax_tokens = 0\n",
         0,
         3,
         {845, 856, 845}},
        {"the same mark twice",
         "[phase:a]\nuntil = [845]\nmax_tokens = 0\n[phase:b]\nuntil = [845]\nmax_tokens = 1\n"
         "suppress_tokens = [845]\n",
         2,
         1,
         {845}},
        {"the end of sequence", "[phase:a]\nmax_tokens = 3\n", 3, 1, {EOS}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char ini[400];
        answer got;
        snprintf(ini, sizeof ini, "[generation]\ndo_sample = no\nmax_new_tokens = 8\n%s",
                 cases[i].ini);
        ask(*state, ini, "{\"prompt\": \"river (noun):\"}", &got);
        expect_ids(&got, cases[i].from, cases[i].want, cases[i].n, cases[i].name);
    }
}

/* Texts end wherever in a token: " large" is one token, "arg" a part of it. */
static void marks_are_texts(void **state)
{
    static const struct {
        const char *name, *until;
    } cases[] = {{"a token", " large"}, {"a part of one", "arg"}, {"over a border", "a lar"}};
    static const char plain[] = "[generation]\ndo_sample = no\nmax_new_tokens = 12\n";
    const int32_t forced[] = {845, 845};
    answer free_run;
    ask(*state, plain, "{\"prompt\": \"river (noun):\"}", &free_run);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char ini[400];
        answer got;
        snprintf(ini, sizeof ini,
                 "%s[phase:a]\nuntil = \"%s\"\n[phase:b]\nuntil = [845, 845]\nmax_tokens = 0\n",
                 plain, cases[i].until);
        ask(*state, ini, "{\"prompt\": \"river (noun):\"}", &got);
        expect_ids(&got, 0, free_run.ids, 2, cases[i].name); /* " a large" */
        expect_ids(&got, 2, forced, 2, cases[i].name);
    }
}

/* --- what runs there -------------------------------------------------------------------------------------------------- */

#define THINK "repetition_penalty = 1.4\nsuppress_tokens = [0, 4]\n"
#define REPLY "no_repeat_ngram_size = 2\nsuppress_tokens = [4, 0, 261]\n"

/* A phase after the other is a request after the other: the second one's prompt is the first one's answer. */
static void phases_are_requests_in_a_row(void **state)
{
    static const char *const prompts[] = {"360, 336, 292, 305, 299", "1037, 512, 292, 305, 299",
                                          "42, 1242, 7"};
    const fixture *f = *state;
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        char json[600];
        answer both, first, second;
        snprintf(json, sizeof json, "{\"prompt_ids\": [%s]}", prompts[i]);
        ask(f,
            "[generation]\ndo_sample = no\nmax_new_tokens = 16\n"
            "[phase:think]\nuntil = [845]\nmax_tokens = 6\n" THINK "[phase:reply]\n" REPLY,
            json, &both);
        ask(f, "[generation]\ndo_sample = no\nmax_new_tokens = 6\n" THINK, json, &first);
        uint32_t n = 0;
        while (n < first.n && first.ids[n] != 845) n++;
        expect_ids(&both, 0, first.ids, n, prompts[i]);
        assert_int_equal(both.ids[n], 845);
        size_t len = (size_t)snprintf(json, sizeof json, "{\"prompt_ids\": [%s", prompts[i]);
        for (uint32_t k = 0; k <= n; k++)
            len += (size_t)snprintf(json + len, sizeof json - len, ", %d", (int)both.ids[k]);
        snprintf(json + len, sizeof json - len, "], \"kwargs\": {\"max_new_tokens\": %u}}", 15 - n);
        ask(f, "[generation]\ndo_sample = no\n" REPLY, json, &second);
        expect_ids(&both, n + 1, second.ids, second.n, prompts[i]);
        assert_int_equal(both.n, n + 1 + second.n);
    }
}

#define WARM  "temperature = 1.3\ntop_k = 40\nmin_p = 0.02\n"
#define COOL  "temperature = 0.7\ntop_k = 200\ntop_p = 0.9\n"
#define DRAWS "[generation]\ndo_sample = yes\nseed = 11\nmax_new_tokens = 24\n"

/* Draws go on through the phases: the first part is a run of its settings alone, the second what its settings give where
 * the first part's very tokens are forced. Fused or not, the draws are the same. */
static void draws_go_on(void **state)
{
    const fixture *f = *state;
    static const char json[] = "{\"prompt\": \"river (noun):\"}";
    static const char ini[] =
        DRAWS "[phase:a]\nuntil = [845]\nmax_tokens = 9\n" WARM "[phase:b]\n" COOL;
    answer both, slow, warm, cool;
    ask(f, ini, json, &both);
    ask_rows(f->one_by_one, f->slow_model, ini, json, &slow, 1);
    expect_ids(&slow, 0, both.ids, both.n, "one by one");
    assert_true(both.fused > 12);
    assert_int_equal(slow.fused, 0);

    ask(f, DRAWS WARM, json, &warm);
    uint32_t n = 0;
    while (n < 9 && warm.ids[n] != 845) n++;
    expect_ids(&both, 0, warm.ids, n, "the first phase");
    char script[800];
    size_t len = (size_t)snprintf(script, sizeof script, DRAWS COOL "[phase:a]\nuntil = [");
    for (uint32_t k = 0; k <= n; k++)
        len += (size_t)snprintf(script + len, sizeof script - len, "%s%d", k ? ", " : "",
                                (int)both.ids[k]);
    snprintf(script + len, sizeof script - len, "]\nmax_tokens = 0\n");
    ask(f, script, json, &cool);
    expect_ids(&both, n + 1, cool.ids + n + 1, cool.n - n - 1, "the second phase");
}

/* Rows of a batch are each in their own phase, whatever thread they run on. */
static void rows_are_on_their_own(void **state)
{
    static const char *const prompts[] = {"261, 7, 336", "261, 299, 336", "7, 8, 9", "9, 305, 299",
                                          "7, 4, 336"};
    enum { N = sizeof prompts / sizeof prompts[0] };
    char json[400];
    answer together[N], alone;
    size_t len = (size_t)snprintf(json, sizeof json, "{\"prompt_ids\": [");
    for (size_t i = 0; i < N; i++)
        len += (size_t)snprintf(json + len, sizeof json - len, "%s[%s]", i ? ", " : "", prompts[i]);
    snprintf(json + len, sizeof json - len, "]}");
    const fixture *f = *state;
    ask_rows(f->rt, f->model, marks_ini, json, together, N);
    for (size_t i = 0; i < N; i++) {
        snprintf(json, sizeof json, "{\"prompt_ids\": [%s]}", prompts[i]);
        ask(f, marks_ini, json, &alone);
        expect_ids(&together[i], 0, alone.ids, alone.n, prompts[i]);
    }
}

/* A processor of one phase hears the tokens of another: dry of the second knows what the first repeated. */
static void processors_hear_other_phases(void **state)
{
    static const char ini[] = "[generation]\ndo_sample = no\nmax_new_tokens = 20\n"
                              "[phase:a]\nuntil = [42, 1242, 7, 88, 42, 1242, 7]\nmax_tokens = 0\n"
                              "[phase:b]\nprocessors = dry\nsequence_bias = [[[88], 30.0]]\n"
                              "[dry]\nmultiplier = 1000.0\nallowed_length = 1\n";
    answer got;
    ask(*state, ini, "{\"prompt\": \"river (noun):\"}", &got);
    assert_int_equal(got.ids[6], 7);
    assert_true(got.ids[7] != 88); /* 88 would go on with the repetition */
}

/* --- requests and the command line ------------------------------------------------------------------------------------- */

static const char story[] =
    "[generation]\ndo_sample = no\nmax_new_tokens = 12\n"
    "[phase:think]\nuntil = [845]\nmax_tokens = 6\nsuppress_tokens = [845]\n"
    "[phase:reply]\n";

static void requests_set_values(void **state)
{
    static const struct {
        const char *kwargs;
        uint32_t at;
    } cases[] = {
        {"{}", 6},
        {"{\"phases\": {\"think\": {\"max_tokens\": 2}}}", 2},
        {"{\"phases\": {\"think\": {\"max_tokens\": 3, \"repetition_penalty\": 1.2}, \"reply\": {}}}",
         3},
        {"{\"phases\": null}", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[300];
        answer got;
        snprintf(json, sizeof json, "{\"prompt\": \"river (noun):\", \"kwargs\": %s}",
                 cases[i].kwargs);
        ask(*state, story, json, &got);
        expect_ids(&got, cases[i].at, (const int32_t[]){845}, 1, cases[i].kwargs);
    }
}

/* --- constraints ------------------------------------------------------------------------------------------------------- */

/* 845 is " large". */
static const char constrained[] = "[generation]\ndo_sample = no\nmax_new_tokens = 40\n"
                                  "[phase:think]\nuntil = [845]\nregex = \" one( two){1,4}\"\n"
                                  "[phase:answer]\nregex = \" [A-Z][a-z]+( [a-z]+){2,3}[.]\"\n";

static bool matches(const char *text, const char *pattern)
{
    cdz_error err = {0};
    cdz_grammar *g;
    must(cdz_grammar_from_regex(pattern, strlen(pattern), NULL, &g, &err), &err);
    const bool does =
        cdz_grammar_accepts(g, cdz_grammar_feed(g, cdz_grammar_start(g), text, strlen(text)));
    cdz_grammar_free(g);
    return does;
}

static void expect_texts(const fixture *f, const char *ini, const char *kwargs, uint32_t n_rows,
                         const char *pattern, answer *first)
{
    char json[400];
    cdz_error err = {0};
    cdz_result *result;
    cdz_pipeline *pipeline = opened_pipeline(f->rt, ini);
    snprintf(json, sizeof json, "{\"prompt\": \"river (noun): a\", \"kwargs\": %s}", kwargs);
    cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = pipeline, .json = json};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    assert_int_equal(cdz_result_rows(result), n_rows);
    for (uint32_t r = 0; r < n_rows; r++)
        if (!matches(cdz_result_text(result, r), pattern))
            fail_msg("%s, row %u: %s", kwargs, r, cdz_result_text(result, r));
    take(result, 0, first);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

/* Whatever the loop, each phase's text is in its language, the token that ends it aside. */
static void a_phase_keeps_to_its_constraint(void **state)
{
    static const char both[] = " one( two){1,4} large [A-Z][a-z]+( [a-z]+){2,3}[.]";
    static const struct {
        const char *kwargs, *pattern;
        uint32_t n_rows;
        bool as_greedy; /* drafts change no token */
    } cases[] = {
        {"{}", both, 1, true},
        {"{\"prompt_lookup_num_tokens\": 4}", both, 1, true},
        {"{\"num_beams\": 3, \"num_return_sequences\": 3}", both, 3, false},
        {"{\"do_sample\": true, \"seed\": 5, \"num_return_sequences\": 4}", both, 4, false},
        {"{\"do_sample\": true, \"num_beams\": 2, \"seed\": 6}", both, 1, false},
        {"{\"phases\": {\"answer\": {\"regex\": null, \"json_schema\": {\"enum\": [[1, true]], "
         "\"x-guidance\": {\"whitespace_flexible\": false}}}}}",
         " one( two){1,4} large\\[1,true\\]", 1, false},
    };
    answer greedy, got;
    expect_texts(*state, constrained, "{}", 1, both, &greedy);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_texts(*state, constrained, cases[i].kwargs, cases[i].n_rows, cases[i].pattern, &got);
        if (cases[i].as_greedy) expect_ids(&got, 0, greedy.ids, greedy.n, cases[i].kwargs);
    }
}

/* A budget cuts a constraint as max_new_tokens does: the rest of the phases goes on. */
static void a_budget_cuts_a_constraint(void **state)
{
    answer got;
    expect_texts(*state, constrained, "{\"phases\": {\"think\": {\"max_tokens\": 1}}}", 1,
                 "  large [A-Z][a-z]+( [a-z]+){2,3}[.]", &got);
}

static void refuse(const fixture *f, const char *ini, const char *setting, const char *kwargs,
                   const char *sentence)
{
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    char json[300];
    cdz_status st = cdz_pipeline_parse(f->rt, ini, strlen(ini), "story.ini", &pipeline, &err);
    if (st == CDZ_OK && setting) {
        const char *equals = strchr(setting, '=');
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
        st = cdz_pipeline_set(pipeline, name, equals + 1, &err);
    }
    snprintf(json, sizeof json, "{\"prompt\": \"a\", \"kwargs\": %s}", kwargs ? kwargs : "{}");
    cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = pipeline, .json = json};
    if (st == CDZ_OK) st = cdz_generate(f->rt, &request, &result, &err);
    if (st == CDZ_OK || strcmp(err.text, sentence) != 0)
        fail_msg("%s %s %s\n  said     %s\n  expected %s", ini, setting ? setting : "",
                 kwargs ? kwargs : "", st == CDZ_OK ? "nothing" : err.text, sentence);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

static void what_cannot_be_meant_is_refused(void **state)
{
    static const struct {
        const char *ini, *setting, *kwargs, *sentence;
    } cases[] = {
        {"[phase:think]\nuntill = [8]\n", NULL, NULL,
         "story.ini:2:1: [phase:think] untill: no such key: did you mean 'until'?"},
        {"[phase:think]\ntemprature = 0.5\n", NULL, NULL,
         "story.ini:2:1: [phase:think] temprature: no such key: did you mean 'temperature'?"},
        {"[phase:think]\nnum_beams = 3\n", NULL, NULL,
         "story.ini:2:1: [phase:think] num_beams: is the whole request's and belongs in "
         "[generation]; a phase sets what edits a row (temperature, top_k, repetition_penalty, ...)"},
        {"[phase:think]\ntemperature = hot\n", NULL, NULL,
         "story.ini:2:1: [phase:think] temperature = \"hot\": must be a number"},
        {"[phase:think]\nmax_tokens = -1\n", NULL, NULL,
         "story.ini:2:1: [phase:think] max_tokens = -1: must be 0 to 2147483647"},
        {"[phase:think]\nmax_tokens = 3\n[phase:reply]\n", NULL, NULL,
         "story.ini:1: [phase:think] has no until: it would never end, and [phase:reply] follows"},
        {"[phase:think]\nuntil = [8]\n[phase:think]\n", NULL, NULL,
         "story.ini:3:1: [phase:think] was begun on line 1 already"},
        {"[phase]\nuntil = [8]\n", NULL, NULL, "story.ini:1: [phase] needs a name: [phase:think]"},
        {"[phase:think]\nuntil = \"\"\n", NULL, NULL,
         "story.ini:2:1: [phase:think] until: a mark cannot be empty; none unsets it"},
        {"[pipeline]\nprocessors = dry\n[phase:think]\nprocessors = xtc, dry\n", NULL, NULL,
         "story.ini:4: [phase:think] processors: [pipeline] processors gives 'dry' to every phase "
         "already"},
        {"[phase:think]\nprocessors = dry\nchain = top_k\n", NULL, NULL,
         "story.ini:2: [phase:think] processors: chain replaces the whole list; put them there"},
        {"[phase:think]\nprocessors = nothing_like_it\n", NULL, NULL, NULL},
        {"[phase:think]\nuntil = [99999]\n", NULL, NULL,
         "phases: phases: token 99999 is outside the vocabulary of 4096"},
        {story, "phase:thinks.max_tokens=3", NULL,
         "-s phase:thinks.max_tokens: nothing in the pipeline is called 'phase:thinks': did you mean "
         "'phase:think'?"},
        {story, "phase:think.max_token=3", NULL,
         "-s phase:think.max_token: no such key: did you mean 'max_tokens'?"},
        {story, NULL, "{\"phases\": {\"thnk\": {}}}",
         "request: phases.thnk: the pipeline has no such phase: did you mean 'think'?"},
        {story, NULL, "{\"phases\": {\"think\": 3}}",
         "request: phases.think: must be an object, found an integer"},
        {story, NULL, "{\"phases\": {\"think\": {\"processors\": \"dry\"}}}",
         "request: phases.think.processors: only the pipeline file can set this; a request sets "
         "values of a phase"},
        {story, NULL, "{\"phases\": {\"think\": {\"top_q\": 3}}}",
         "request: phases.think.top_q: no such key: did you mean 'top_p'?"},
        {story, NULL, "{\"phases\": {\"think\": {\"until\": {}}}}", NULL},
        {constrained, NULL, "{\"regex\": \"x\"}",
         "story.ini:4: [phase:think] regex: the whole answer has a constraint too ([generation] or "
         "the request); leave one of them out"},
        {constrained, NULL, "{\"grammar_after\": \"x\"}",
         "story.ini:4: [phase:think] regex: grammar_after is set; the phase says where it begins"},
        {constrained, "phase:think.until= Example:", NULL,
         "story.ini:4: [phase:think] regex: the phase's until is a text or several tokens, which may "
         "stand inside of what the constraint allows; write the id of one token, as until = [151668]"},
        {constrained, "phase:answer.regex=(a", NULL,
         "-s [phase:answer] regex: regex: a ( without ) at byte 3"},
        {constrained, "phase:answer.grammar_after=x", NULL,
         "-s phase:answer.grammar_after: is the whole request's and belongs in [generation]; a phase "
         "sets what edits a row (temperature, top_k, repetition_penalty, ...)"},
        {constrained, "phase:answer.choice=[\"a\"]", NULL, NULL},
        {"", NULL, "{\"phases\": {\"think\": {}}}",
         "request: phases: the pipeline has no [phase:NAME] section"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (cases[i].sentence)
            refuse(*state, cases[i].ini, cases[i].setting, cases[i].kwargs, cases[i].sentence);
}

/* --- explain ------------------------------------------------------------------------------------------------------------- */

static void explain_shows_each_phase(void **state)
{
    static const char ini[] = "[generation]\ndo_sample = yes\ntemperature = 0.8\ntop_p = none\n"
                              "[phase:think]\nbegin = \"<think>\"\nuntil = [8]\ntemperature = 1.3\n"
                              "[phase:reply]\nmax_tokens = 5\nchain = top_k\ntop_k = 3\n";
    static const char *const lines[] = {
        "Processors in phase think (test.ini:5, begin \"<think>\", until [8]), in order\n",
        "  18  temperature  1.3  test.ini:8\n",
        "Processors in phase reply (test.ini:9, max_tokens 5), in order\n",
        "  20  top_k  3  test.ini:11\n",
        "Processors outside of phases, in order\n",
        "  18  temperature  0.8  test.ini:3\n",
    };
    const fixture *f = *state;
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    char *text;
    pipeline = opened_pipeline(f->rt, ini);
    must(cdz_pipeline_set(pipeline, "phase:reply.temperature", "none", &err), &err);
    must(cdz_pipeline_explain(pipeline, NULL, &text, &err), &err);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(text, lines[i])) fail_msg("%s\nholds no line\n%s", text, lines[i]);
    cdz_free(text);
    cdz_pipeline_free(pipeline);
}

/* --- reloading ------------------------------------------------------------------------------------------------------------ */

typedef struct change {
    cdz_pipeline *pipeline;
    const cdz_model *model;
    const char *path, *text;
    uint32_t at, heard;
} change;

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void on_token(void *user, const cdz_event *event)
{
    change *c = user;
    cdz_error err = {0};
    if (event->kind != CDZ_EVENT_TOKENS) return;
    const uint32_t before = c->heard;
    c->heard += event->n_ids;
    if (before >= c->at || c->heard < c->at) return;
    write_file(c->path, c->text);
    must(cdz_pipeline_reload(c->pipeline, c->model, &err), &err);
}

/* A running request is shown its tokens again: a budget that is spent already under the new file is spent at once. */
static void reloading_finds_the_phase(void **state)
{
    const fixture *f = *state;
    static const char before[] = "[generation]\ndo_sample = no\nmax_new_tokens = 24\n"
                                 "suppress_tokens = [0, 4, 845]\n"
                                 "[phase:a]\nuntil = [845]\nmax_tokens = 20\n[phase:b]\n";
    static const char after[] = "[generation]\ndo_sample = no\nmax_new_tokens = 24\n"
                                "suppress_tokens = [0, 4, 845]\n"
                                "[phase:a]\nuntil = [845]\nmax_tokens = 5\n[phase:b]\n";
    char path[] = "/tmp/cadenza-phases-XXXXXX";
    const int fd = mkstemp(path);
    cdz_error err = {0};
    assert_true(fd >= 0);
    close(fd);
    write_file(path, before);
    change c = {.model = f->model, .path = path, .text = after, .at = 9};
    must(cdz_pipeline_load(f->rt, path, &c.pipeline, &err), &err);
    cdz_request request = {.size = sizeof request,
                           .model = f->model,
                           .pipeline = c.pipeline,
                           .prompt = "river (noun):",
                           .on_event = on_token,
                           .user = &c};
    cdz_result *result;
    answer got;
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    take(result, 0, &got);
    assert_int_equal(got.n, 24);
    for (uint32_t i = 0; i < got.n; i++) assert_int_equal(got.ids[i] == 845, i == 9);
    cdz_result_free(result);
    cdz_pipeline_free(c.pipeline);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_count_from_their_last_end),
        cmocka_unit_test(budgets_force_their_ends),
        cmocka_unit_test(marks_are_texts),
        cmocka_unit_test(phases_are_requests_in_a_row),
        cmocka_unit_test(draws_go_on),
        cmocka_unit_test(rows_are_on_their_own),
        cmocka_unit_test(processors_hear_other_phases),
        cmocka_unit_test(requests_set_values),
        cmocka_unit_test(a_phase_keeps_to_its_constraint),
        cmocka_unit_test(a_budget_cuts_a_constraint),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(explain_shows_each_phase),
        cmocka_unit_test(reloading_finds_the_phase),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
