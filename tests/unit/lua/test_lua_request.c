/* test_lua_request.c - what scripts are told of their request by the engine itself: the prompt of a row, a drafter's memory, a
 * strategy's own random numbers. Scripts judge themselves by error(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/cadenza.h"
#include "support/folder.h"
#include "support/must.h"
#include "support/opened.h"

static const char target[] = CADENZA_SOURCE_DIR "/models/pocket-dictionary";

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model;
} fixture;

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->rt = opened_runtime(NULL);
    f->model = opened_model(f->rt, target);
    folder_make("request");
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    folder_remove();
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f);
    return 0;
}

/* The script as `key` of [pipeline]; with more lines, and a request document. */
static cdz_result *run(const fixture *f, const char *key, const char *script, const char *more,
                       const char *document)
{
    char ini[512];
    cdz_pipeline *pipeline;
    cdz_result *result = NULL;
    cdz_error err = {0};
    folder_write("script.lua", script, strlen(script));
    snprintf(ini, sizeof ini, "[pipeline]\n%s = lua:%s\n[generation]\nmax_new_tokens = 6\n%s", key,
             folder_path("script.lua"), more);
    pipeline = opened_pipeline(f->rt, ini);
    const cdz_request request = {
        .size = sizeof request, .model = f->model, .pipeline = pipeline, .json = document};
    must(cdz_generate(f->rt, &request, &result, &err), &err);
    cdz_pipeline_free(pipeline);
    return result;
}

static const char two_prompts[] = "{\"prompt_ids\": [[5, 6, 7], [8, 9, 10]], \"seed\": 3}";

/* --- the prompt of a row --------------------------------------------------------------------------------------------- */

#define FIRST "local first = { 5, 8 }\n"

/* Two rows of each of two prompts: a row begins with the prompt that it is told to continue. */
static void the_prompt_of_a_row(void **state)
{
    static const struct {
        const char *key, *script, *more;
    } cases[] = {
        {"processors",
         FIRST "return cadenza.processor { apply = function(p, ids, row, ctx)\n"
               "  local n = ctx:prompt_of()\n"
               "  assert(ids[1] == first[n] and ctx.prompts[n][1] == ids[1]) end }",
         "do_sample = yes\nnum_return_sequences = 2\n"},
        {"processors",
         FIRST "return cadenza.processor { batched = true, apply = function(p, ids, rows, ctx)\n"
               "  for r = 1, #ids do assert(ids[r][1] == first[ctx:prompt_of(r)]) end\n"
               "  assert(#ids == 1 or not pcall(ctx.prompt_of, ctx)) end }",
         "do_sample = yes\nnum_return_sequences = 2\n"},
        {"processors",
         FIRST "return cadenza.processor { apply = function(p, ids, row, ctx)\n"
               "  assert(ids[1] == first[ctx:prompt_of()]) end }",
         "do_sample = no\nnum_beams = 3\n"},
        {"stopping",
         FIRST "return cadenza.criterion { test = function(p, ids, ctx)\n"
               "  assert(ids[1] == first[ctx:prompt_of()]) end }",
         "do_sample = yes\nnum_return_sequences = 2\n"},
        {"strategy",
         FIRST "return cadenza.strategy { run = function(ctx) while not ctx:done() do\n"
               "  for r = 1, ctx.n_rows do\n"
               "    assert(ctx:input_ids(r)[1] == first[ctx:prompt_of(r)]) end\n"
               "  ctx:append(ctx:argmax(ctx:forward())) end end }",
         "num_return_sequences = 2\n"},
        {"strategy",
         FIRST "return cadenza.strategy { one_row = true, run = function(ctx)\n"
               "  assert(ctx.prompts[ctx:prompt_of()][1] == ctx:input_ids()[1])\n"
               "  while not ctx:done() do ctx:append((ctx:argmax(ctx:forward(), 1))) end end }",
         "num_return_sequences = 2\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cdz_result_free(run(*state, cases[i].key, cases[i].script, cases[i].more, two_prompts));
}

/* --- a drafter's memory ------------------------------------------------------------------------------------------------- */

/* Counts its calls; each row's count is its own, and begins with what begin returned. */
static void a_drafters_memory(void **state)
{
    static const char script[] =
        "local calls = {}\n"
        "return cadenza.drafter {\n"
        "  begin = function(ctx)\n"
        "    assert(not pcall(function() return ctx.memory end))\n"
        "    return { n = 10, seen = {} } end,\n"
        "  propose = function(p, ids, room, ctx)\n"
        "    local m = ctx.memory\n"
        "    calls[ctx.row] = (calls[ctx.row] or 0) + 1\n"
        "    m.n = m.n + 1\n"
        "    m.seen[#m.seen + 1] = ids[1]\n"
        "    assert(m.n == 10 + calls[ctx.row] and #m.seen == calls[ctx.row])\n"
        "    for _, id in ipairs(m.seen) do assert(id == ids[1]) end\n"
        "    return { ids[#ids] } end,\n"
        "  judged = function(p, n_proposed, n_accepted, ctx)\n"
        "    assert(ctx.memory.n == 10 + calls[ctx.row]) end }";
    static const char loop[] = "{\"prompt_ids\": [[5, 6, 7], [8, 9, 10]], \"seed\": 3}";
    cdz_result_free(run(*state, "drafter", script, "do_sample = no\n", loop));
    cdz_result_free(run(*state, "drafter", script, "do_sample = yes\n", loop));
}

/* --- a strategy's own random numbers -------------------------------------------------------------------------------------- */

static void same_row(const cdz_result *a, const cdz_result *b, bool same)
{
    uint32_t n, m;
    const int32_t *x = cdz_result_ids(a, 0, &n), *y = cdz_result_ids(b, 0, &m);
    assert_true(n > 2 && m > 2);
    assert_int_equal(n == m && memcmp(x, y, n * sizeof *x) == 0, same);
}

/* They hang on the seed, go on from verb to verb, and take nothing from the request's stream. */
static void a_strategys_own_numbers(void **state)
{
    static const char own[] = "return cadenza.strategy { one_row = true, run = function(ctx)\n"
                              "  local seen = {}\n"
                              "  while not ctx:done() do\n"
                              "    local u = ctx.rng:uniform()\n"
                              "    assert(u >= 0 and u < 1 and not seen[u])\n"
                              "    seen[u] = true\n"
                              "    local s = ctx:forward():row(1):copy():softmax()\n"
                              "    ctx:append(s:sample(ctx.rng)) end end }";
    static const char with[] =
        "return cadenza.strategy { one_row = true, run = function(ctx)\n"
        "  while not ctx:done() do ctx.rng:normal()\n"
        "    ctx:append(ctx:multinomial(ctx:softmax(ctx:forward()))) end end }";
    static const char without[] =
        "return cadenza.strategy { one_row = true, run = function(ctx)\n"
        "  while not ctx:done() do\n"
        "    ctx:append(ctx:multinomial(ctx:softmax(ctx:forward()))) end end }";
    static const char *const seeds[] = {"{\"prompt_ids\": [5, 6, 7], \"seed\": 3}",
                                        "{\"prompt_ids\": [5, 6, 7], \"seed\": 4}"};
    static const char more[] = "eos_token_id = none\n";
    cdz_result *first = run(*state, "strategy", own, more, seeds[0]);
    cdz_result *again = run(*state, "strategy", own, more, seeds[0]);
    cdz_result *other = run(*state, "strategy", own, more, seeds[1]);
    same_row(first, again, true);
    same_row(first, other, false);
    cdz_result *a = run(*state, "strategy", with, more, seeds[0]);
    cdz_result *b = run(*state, "strategy", without, more, seeds[0]);
    same_row(a, b, true);
    cdz_result *const all[] = {first, again, other, a, b};
    for (size_t i = 0; i < 5; i++) cdz_result_free(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prompt_of_a_row),
        cmocka_unit_test(a_drafters_memory),
        cmocka_unit_test(a_strategys_own_numbers),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
