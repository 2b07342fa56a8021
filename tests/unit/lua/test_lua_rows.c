/* test_lua_rows.c - what a strategy in Lua keeps of its scores, and how sentences of the engine count its rows: on a model, since
 * both are about verbs that the fake decoder of test_lua_strategy.c only imitates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "support/folder.h"
#include "support/opened.h"

#define MODEL CADENZA_SOURCE_DIR "/models/pocket-dictionary"

static cdz_runtime *runtime;
static cdz_model *model;

/* A request of two prompts through a pipeline; what it says, "" when it went well. */
static void ask(const char *ini, const char *kwargs, char said[CDZ_ERROR_TEXT])
{
    char json[400];
    cdz_pipeline *pipeline = NULL;
    cdz_result *result = NULL;
    cdz_error err = {0};
    const char *name = folder_path("test.ini");
    if (cdz_pipeline_parse(runtime, ini, strlen(ini), name, &pipeline, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    snprintf(
        json, sizeof json,
        "{\"prompt_ids\": [[7, 8, 9, 7, 8], [9, 8, 7, 9, 8]], \"kwargs\": {\"max_new_tokens\": 4, "
        "\"eos_token_id\": null, \"pad_token_id\": 0%s}}",
        kwargs);
    const cdz_request request = {
        .size = sizeof request, .model = model, .pipeline = pipeline, .json = json};
    const cdz_status st = cdz_generate(runtime, &request, &result, &err);
    snprintf(said, CDZ_ERROR_TEXT, "%s", st == CDZ_OK ? "" : err.text);
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

static void run_body(const char *head, const char *body, const char *kwargs,
                     char said[CDZ_ERROR_TEXT])
{
    char source[4096];
    snprintf(source, sizeof source, "return cadenza.strategy { %s run = function(ctx)\n%s\nend }",
             head, body);
    folder_write("rows.lua", source, strlen(source));
    /* A slow machine is no finding. */
    ask("[pipeline]\nstrategy = lua:rows.lua\n[lua:rows.lua]\nbudget_ms = 60000\n", kwargs, said);
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

#define ASIDE                                                                                      \
    "local seq = ctx:seq_new('target'); seq:append({7, 8, 9})\n"                                   \
    "local b = ctx:seq_forward({seq})\n"

static const struct {
    const char *name, *body, *says;
} copies[] = {
    {"scores of forward outlive passes over sequences",
     "local a = ctx:forward(); local want = a:copy()\n" ASIDE
     "for r = 1, 2 do assert(ctx:argmax(a, r) == ctx:argmax(want, r)) end\n"
     "assert(a[1][5] == want[1][5] and ctx:argmax(b, 1))",
     ""},
    {"those of a pass outlive forward, and end with the next pass",
     ASIDE "ctx:forward(); ctx:argmax(b, 1); ctx:seq_forward({seq:fork()}); ctx:argmax(b, 1)",
     "no longer valid"},
    {"those of forward end with the next one",
     "local a = ctx:forward(); ctx:append({5, 6}); ctx:forward(); ctx:argmax(a, 1)",
     "no longer valid"},
    {"a copy stays, and every verb takes it",
     "local a = ctx:forward(); local k, first = a:copy(), a[1][40]\n"
     "ctx:append({5, 6}); local later = ctx:forward()\n"
     "assert(#k == 2 and k[1][40] == first and k:row(1)[40] == first)\n"
     "ctx:process(k); ctx:ban(k, 1, 40); ctx:softmax(k)\n"
     "assert(k[1][40] == 0 and #ctx:argmax(k) == 2 and #ctx:multinomial(k) == 2)\n"
     "assert(#ctx:topk_flat(k, 1, 2, nil, 3) == 3 and #ctx:sample(later:copy(), 0) == 2)\n"
     "ctx:record('scores', k); ctx:map(k)\n"
     "assert(later:copy()[2][7] == later[2][7])",
     ""},
    {"a copy of a copy is another",
     "local a = ctx:forward():copy(); local b = a:copy()\n"
     "a:row(1):fill(0); assert(a[1][3] == 0 and b[1][3] ~= 0)",
     ""},
    {"copies that nobody holds give their rows back",
     "local a = ctx:forward()\nfor i = 1, 2100 do local k = a:copy() end", ""},
    {"a row holds its copy",
     "local a = ctx:forward(); local kept, want = a:copy():row(2), a[2][9]\n"
     "local part = a:copy():row(2):slice(0, 20)\n"
     "for i = 1, 300 do a:copy():row(2):fill(-1) end\n"
     "assert(kept[9] == want and part[9] == want)",
     ""},
};

static void scores_stay_as_long_as_they_are_said_to(void **state)
{
    char said[CDZ_ERROR_TEXT];
    uint32_t n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        run_body("", copies[i].body, "", said);
        if (copies[i].says[0] ? strstr(said, copies[i].says) != NULL : said[0] == '\0') continue;
        print_error("%s: \"%s\" (expected: \"%s\")\n", copies[i].name, said, copies[i].says);
        n_wrong++;
    }
    assert_int_equal(n_wrong, 0);
}

/* --- sentences ---------------------------------------------------------------------------------------------------- */

#define BAD "local s = ctx:softmax(ctx:forward()); s:row(2)[3] = 0 / 0\n"

static const struct {
    const char *head, *body, *kwargs, *says;
} sentences[] = {
    {"samples = true,", BAD "ctx:multinomial(s)", "", "row 2: probabilities hold nan"},
    {"samples = true,", BAD "ctx:multinomial_flat(s, 2, 1, 3)", "", "row 2: probabilities hold nan"},
    {"samples = true,", BAD "ctx:draw_rows(s)", "", "row 2: probabilities hold nan"},
    {"", "ctx:propose(2); ctx:judged(2, 99)", ", \"prompt_lookup_num_tokens\": 3",
     "judged: 99 tokens of row 2, but the newest draft has"},
    {"", "ctx:propose(2); ctx:judged(1, 0)", ", \"prompt_lookup_num_tokens\": 3",
     "judged: 0 tokens of row 1, but the newest draft has 3 of row 2"},
    {"", "ctx:finish(3, 'eos')", "", "row 3 is outside 1 to 2"},
    {"", "ctx:rewind(2, 1)", "", "rewinds = true"},
    {"rewinds = true,", "ctx:forward(); ctx:append({5, 6}); ctx:rewind(2, 7)", "",
     "rewind by 7: only 1"},
};

static void rows_are_counted_from_1(void **state)
{
    char said[CDZ_ERROR_TEXT];
    uint32_t n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        run_body(sentences[i].head, sentences[i].body, sentences[i].kwargs, said);
        if (strstr(said, sentences[i].says)) continue;
        print_error("%s: \"%s\" (expected: \"%s\")\n", sentences[i].body, said, sentences[i].says);
        n_wrong++;
    }
    assert_int_equal(n_wrong, 0);
}

static int open_all(void **state)
{
    static const cdz_options options = {.size = sizeof options, .n_threads = 1};
    (void)state;
    folder_make("lua-rows");
    runtime = opened_runtime(&options);
    model = opened_model(runtime, MODEL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    cdz_model_close(model);
    cdz_close(runtime);
    folder_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_stay_as_long_as_they_are_said_to),
        cmocka_unit_test(rows_are_counted_from_1),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
