/* test_lua.c - Lua processors and criteria, driven directly: what is declared, what is called, what is equal to C. */
#include "support/fake.h"

#include <math.h>

/* --- the processor of the style page, and its twin in C ----------------------------------------------------------- */

static const char fading_source[] =
    "return cadenza.processor {\n"
    "  id = \"org.example.fading-penalty\", version = \"1.0.0\", needs_ids = true,\n"
    "  params = { penalty = { 1.0, 0, 100, \"taken from the newest token's score\" },\n"
    "             decay   = { 0.9, 0, 1, \"factor per token of age\" },\n"
    "             window  = { 64, 1, 65536, \"tokens to look back over\", integer = true } },\n"
    "  apply = function(p, ids, row)                -- once per row; row is a view, not a copy\n"
    "    local w = p.penalty\n"
    "    for i = #ids, math.max(1, #ids - p.window + 1), -1 do\n"
    "      row[ids[i]] = row[ids[i]] - w            -- row is indexed by token id\n"
    "      w = w * p.decay\n"
    "    end\n"
    "  end,\n"
    "}\n";

static void fading_in_c(const cdz_ids ids, float *row, double penalty, double decay, int64_t window)
{
    double w = penalty;

    for (uint32_t age = 0; age < ids.len && age < window; age++, w *= decay)
        row[ids.at[ids.len - 1 - age]] -= (float)w;
}

static void fill(float *rows, size_t n)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        rows[i] = (float)((double)x / 4294967296.0 * 20.0 - 10.0);
    }
}

/* C rounds w to float32 and then subtracts; Lua subtracts in double and rounds once. Where w is a float32 these are the
 * same bits, elsewhere they are within the last place. */
static void style_example(void **state)
{
    static const struct {
        const char *penalty, *decay, *window;
        double p, d;
        int64_t w;
        float within;
    } cases[] = {{"1.0", "0.9", "64", 1.0, 0.9, 64, 1e-6f},
                 {"0.25", "0.5", "64", 0.25, 0.5, 64, 0},
                 {"0.25", "0.5", "2", 0.25, 0.5, 2, 0},
                 {"2.5", "1.0", "1", 2.5, 1.0, 1, 0}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fake *f = fake_new(2, FAKE_VOCAB);
        float rows[2 * FAKE_VOCAB], twin[2 * FAKE_VOCAB];
        fake_use(f, fading_source);
        fake_set(f, "penalty", cases[c].penalty);
        fake_set(f, "decay", cases[c].decay);
        fake_set(f, "window", cases[c].window);
        fill(rows, 2 * FAKE_VOCAB);
        memcpy(twin, rows, sizeof rows);
        fake_begin(f);
        assert_int_equal(fake_apply(f, rows), CDZ_OK);
        for (uint32_t r = 0; r < 2; r++)
            fading_in_c(f->ids[r], twin + r * FAKE_VOCAB, cases[c].p, cases[c].d, cases[c].w);
        for (int i = 0; i < 2 * FAKE_VOCAB; i++)
            assert_true(fabsf(rows[i] - twin[i]) <= cases[c].within);
        fake_free(f);
    }
}

static void style_example_declares(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);

    (void)state;
    fake_use(f, fading_source);
    const cdz_plugin_base *base = f->step.plugin;
    assert_string_equal(base->id, "org.example.fading-penalty");
    assert_string_equal(base->version, "1.0.0");
    assert_int_equal(base->size, sizeof(cdz_processor));
    assert_int_equal(fake_processor(f)->caps, CDZ_NEEDS_IDS);
    assert_int_equal(fake_processor(f)->state_size, 0);
    const cdz_param_table table = cdz_params_of(base);
    const cdz_param *window = cdz_param_find(&table, "window");
    assert_non_null(window);
    assert_int_equal(window->type, CDZ_T_INT);
    assert_true(window->def == 64 && window->min == 1 && window->max == 65536);
    assert_string_equal(window->help, "tokens to look back over");
    assert_int_equal(cdz_param_find(&table, "decay")->type, CDZ_T_REAL);
    assert_non_null(cdz_param_find(&table, "budget_instructions"));
    assert_non_null(cdz_param_find(&table, "budget_ms"));
    assert_non_null(cdz_param_find(&table, "budget_memory"));
    fake_free(f);
}

/* --- files that are refused ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *source, *sentence;
} refused[] = {
    {"nothing returned", "local x = 1", "t.lua: returned nil, expected cadenza.processor"},
    {"syntax error names the line", "local x = 1\nlocal y = = 2",
     "t.lua:2: unexpected symbol near '='"},
    {"error names the line", "\n\nerror('no luck')", "t.lua:3: no luck"},
    {"no apply", "return cadenza.processor { id = 'x' }", "t.lua:1: field 'apply' is missing"},
    {"apply is no function", "return cadenza.processor { apply = 1 }",
     "field 'apply' is a number, expected a function"},
    {"a field that does not exist", "return cadenza.processor { aply = function() end }",
     "unknown field 'aply'; did you mean 'apply'?"},
    {"an id with spaces", "return cadenza.processor { id = 'a b', apply = function() end }",
     "id 'a b': expected"},
    {"a reserved parameter",
     "return cadenza.processor { params = { budget_ms = { 1, 'x' } }, apply = function() end }",
     "parameter 'budget_ms' is the host's own"},
    {"a parameter without help",
     "return cadenza.processor { params = { a = { 1 } }, apply = function() end }",
     "parameter 'a' has no help text"},
    {"a parameter without default",
     "return cadenza.processor { params = { a = { type = 'number', help = 'h' } }, apply = "
     "function() end }",
     "parameter 'a': it has no default"},
    {"a word that is none",
     "return cadenza.processor { params = { a = { 'x', 'h', words = { 'y' } } }, apply = print }",
     "its default 'x' is none of its words"},
    {"two of one id",
     "local p = cadenza.processor { id = 'x', apply = print }\nreturn { p, cadenza.criterion { id "
     "= 'x', test = print } }",
     "two plugins have the id 'x'"},
    {"an endless loop", "while true do end", "t.lua:1: instruction budget spent: 2000000 per call"},
    {"bytecode", "\x1bLua", "is compiled Lua; only source text is accepted"},
    {"invalid UTF-8", "return 1 -- \n\xff", ":2: is not valid UTF-8"},
};

static void refused_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        fake *f = fake_new(1, FAKE_VOCAB);
        cdz_error err = {0};
        const cdz_status st = fake_load_bytes(f, refused[i].source, strlen(refused[i].source), &err);
        if (st == CDZ_OK || !strstr(err.text, refused[i].sentence))
            fail_msg("%s: status %d, '%s'", refused[i].name, (int)st, err.text);
        fake_free(f);
    }
}

static void a_large_file_is_refused(void **state)
{
    const size_t n = (256u << 10) + 1;
    char *source = malloc(n);
    fake *f = fake_new(1, FAKE_VOCAB);
    cdz_error err = {0};

    (void)state;
    assert_non_null(source);
    memset(source, ' ', n);
    assert_int_equal(fake_load_bytes(f, source, n, &err), CDZ_E_LIMIT);
    free(source);
    fake_free(f);
}

/* --- scripts that judge themselves: apply must leave 1 in row[0] ------------------------------------------------------- */

static const struct {
    const char *name, *body; /* of apply(p, ids, row, ctx) */
} self_tests[] = {
    {"ids count from 1",
     "assert(#ids == 4 and ids[1] == 1 and ids[4] == 3 and ids[5] == nil and ids[0] == nil)"},
    {"rows count from 0", "row[15] = 3; assert(#row == 16 and row[15] == 3)"},
    {"outside a row", "local ok, e = pcall(function() return row[16] end)\n"
                      "assert(not ok and e:find('element 16 is outside 0 to 15', 1, true), e)"},
    {"ids are read-only", "assert(not pcall(function() ids[1] = 2 end))"},
    {"facts",
     "assert(ctx.row == 1 and ctx.prompt_len == 2 and ctx.n_vocab == 16 and ctx.max_length == 20)\n"
     "assert(ctx.eos[1] == 2 and ctx.pad == nil and ctx.bos == 1 and ctx.seed == 7 and not "
     "ctx.do_sample)\n"
     "assert(ctx.prompts[1][2] == 3 and #ctx.tokens == 4)"},
    {"unknown facts", "local ok, e = pcall(function() return ctx.nothing end)\n"
                      "assert(not ok and e:find(\"ctx has no field 'nothing'\", 1, true), e)"},
    {"a verb nearly right",
     "local ok, e = pcall(function() return ctx:token_txt(1) end)\n"
     "assert(not ok and e:find(\"'token_txt': did you mean 'token_text'?\", 1, "
     "true), e)"},
    {"a method nearly right",
     "local ok, e = pcall(function() row:keep_topkk(1) end)\n"
     "assert(not ok and e:find(\"'keep_topkk': did you mean 'keep_topk'?\", 1, true), e)"},
    {"a method of nothing near", "local ok, e = pcall(function() row:zzzzzz(1) end)\n"
                                 "assert(not ok and not e:find('did you mean', 1, true), e)"},
    {"a key too long to be near", "local ok, e = pcall(function() return row[('x'):rep(5000)] end)\n"
                                  "assert(not ok and not e:find('did you mean', 1, true), e)"},
    {"a parameter nearly right",
     "local ok, e = pcall(function() return p.budget_mss end)\n"
     "assert(not ok and e:find(\"'budget_mss' is declared: did you mean 'budget_ms'?\", 1, true), e)"},
    {"config", "assert(ctx:config('top_k') == 50 and ctx:config('temperature') == 0.5)\n"
               "assert(ctx:config('top_p') == nil)"},
    {"config of a wrong name",
     "local ok, e = pcall(ctx.config, ctx, 'top_kk')\n"
     "assert(not ok and e:find(\"no generation parameter 'top_kk': did you mean 'top_k'?\", 1, true), e)"},
    {"unknown parameters", "local ok, e = pcall(function() return p.nothing end)\n"
                           "assert(not ok and e:find(\"no parameter 'nothing'\", 1, true), e)"},
    {"parameters are read-only", "assert(not pcall(function() p.budget_ms = 1 end))"},
    {"token text", "assert(ctx:token_text(3) == 'd' and ctx:token_text(99) == nil)"},
    {"text tail", "assert(ctx:text_tail(10) == 'fd' and ctx:text_tail(1) == 'd')"},
    {"text only in begin", "assert(not pcall(ctx.encode, ctx, 'abc'))"},
    {"in place and chained", "row:fill(2):add(1):mul(2):sub(4):div(2); assert(row[3] == 1)"},
    {"sparse", "row:fill(0):add({1, 1, 2}, 1.5):add({3, 4}, {1, 2}); assert(row[1] == 3 and row[2] "
               "== 1.5 and row[4] == 2)"},
    {"vectors",
     "local v = vec.new(16, 2); row:fill(1):add(v):axpy(0.5, v):mul(v):div(v):sub(v):max_with(v)\n"
     "assert(row[0] == 2); row:min_with(1):lerp(v, 0.5); assert(row[0] == 1.5)"},
    {"different lengths", "local ok, e = pcall(row.add, row, vec.new(3))\n"
                          "assert(not ok and e:find('different length: 16 and 3', 1, true), e)"},
    {"elementwise", "row:fill(-4):abs():pow(0.5):neg():clamp(-1, 1); assert(row[5] == -1)\n"
                    "row:fill(1):log():exp(); assert(row[5] == 1)"},
    {"copies are one's own", "local c = row:copy(); c:fill(9); assert(row[1] ~= 9 and #c == 16)"},
    {"slices look through", "local s = row:slice(4, 2); s[0] = 77; assert(row[4] == 77 and #s == 2)\n"
                            "assert(not pcall(row.slice, row, 15, 2))"},
    {"get and set", "row:set({1, 2}, {5, 6}); local g = row:get({2, 1}); assert(g[1] == 6 and g[2] "
                    "== 5 and #g == 2)\n"
                    "row:set(ids, 0); assert(row[3] == 0); assert(row:item(2) == 6)"},
    {"from and totable",
     "local v = vec.from{3, 4}; assert(v[0] == 3 and v:norm() == 5); assert(v:totable()[2] == 4)"},
    {"empty vectors",
     "local v = vec.new(0):add(1):softmax():keep_topk(3):cumsum():mask({ 1 }):copy(); assert(#v == 0)\n"
     "assert(#row:get({}) == 0 and #vec.from {} == 0 and #v:sort_desc() == 0 and not pcall(v.max, v))"},
    {"masks",
     "row:fill(1):mask({1, 99, -1}); assert(row[1] == -math.huge and row[2] == 1)\n"
     "row:fill(1):mask_except({2}); assert(row[2] == 1 and row[3] == -math.huge)\n"
     "row:fill(1); row[4] = 5; row:mask_below(2); assert(row[4] == 5 and row:count_above(0) == 1)"},
    {"bitsets",
     "local b = bitset.new(16):set({1, 3}); assert(b:count() == 2 and b:test(3) and not "
     "b:test(2))\n"
     "row:fill(1):mask_bits(b); assert(row[1] == -math.huge and row[2] == 1)\n"
     "row:fill(1):keep_bits(b); assert(row[1] == 1 and row[2] == -math.huge)\n"
     "local c = b:copy():flip(); assert(c:count() == 14); c:and_(b); assert(c:count() == 0)\n"
     "c:or_(b):clear(1):flip({5}); local i = c:ids(); assert(#i == 2 and i[1] == 3 and i[2] == 5)\n"
     "row:fill(0):where(b, 4); assert(row[3] == 4 and row[2] == 0); assert(#b == 16)\n"
     "assert(not pcall(b.set, b, 16))"},
    {"grammars",
     "local g = cadenza.grammar { regex = '[0-9]{2,3}|ab' }\n"
     "assert(g:viable('1') and not g:accepts('1') and g:accepts('12') and not g:viable('x'))\n"
     "assert(g:viable() and not g:accepts() and g:forced('a') == 'b' and g:forced() == '')\n"
     "assert(cadenza.grammar { choice = { 'red', 'green' } }:accepts('green'))\n"
     "assert(cadenza.grammar { json_schema = '{\"enum\": [5]}' }:forced() == '5')\n"
     "local tags = cadenza.grammar { structural_tag = [[{\"triggers\": [\"<\"], \"structures\": "
     "[{\"begin\": \"<\", \"schema\": {\"enum\": [5]}, \"end\": \">\"}]}]] }\n"
     "assert(tags:accepts('a <5>') and not tags:viable('<6'))\n"
     "assert(cadenza.grammar { grammar = 'root ::= \"a\"' }:accepts('a'))\n"
     "assert(not pcall(cadenza.grammar, {}) and not pcall(cadenza.grammar, { regex = 5 }))\n"
     "assert(not pcall(cadenza.grammar, { choice = {} }) and not pcall(cadenza.grammar, { regx = 'a' }))\n"
     "assert(not pcall(cadenza.grammar, { regex = 'a', gbnf = 'b' }))\n"
     "local bad = cadenza.grammar { regex = 'a(?=b)' }; assert(not pcall(bad.viable, bad, 'a'))\n"
     "assert(not pcall(g.viable, g, 4) and not pcall(g.start, g) and not pcall(g.feed, g, 1, 'a'))"},
    {"reductions", "row:fill(0); row[3] = 2; row[7] = -2; assert(row:max() == 2 and row:min() == "
                   "-2 and row:argmax() == 3)\n"
                   "assert(row:sum() == 0 and row:mean() == 0 and row:dot(row) == 8 and "
                   "row:rank(3) == 1 and row:rank(7) == 16)\n"
                   "assert(not row:any_nan()); row[1] = 0/0; assert(row:any_nan())"},
    {"entropy of a uniform row",
     "row:fill(0); assert(math.abs(row:entropy() - math.log(16)) < 1e-5)\n"
     "assert(math.abs(row:logsumexp() - math.log(16)) < 1e-5)"},
    {"kl of itself", "local q = row:fill(0):softmax():copy(); assert(row:kl(q) == 0)"},
    {"topk", "row:fill(0); row[3] = 2; row[7] = 5; local i, v = row:topk(2)\n"
             "assert(#i == 2 and i[1] == 7 and i[2] == 3 and v[1] == 5 and v[2] == 2); "
             "assert(#row:topk(99) == 16)"},
    {"sort", "for i = 0, 15 do row[i] = i end; local i, v = row:sort_desc(); assert(i[1] == 15 and "
             "v[16] == 0)"},
    {"filters",
     "for i = 0, 15 do row[i] = i end; row:keep_topk(3); assert(row:count_above(-1e30) == 3)\n"
     "for i = 0, 15 do row[i] = i end; row:keep_topp(0.5); assert(row:count_above(-1e30) == 1)\n"
     "for i = 0, 15 do row[i] = i end; row:keep_minp(0.1); assert(row:count_above(-1e30) == 3)\n"
     "row:temperature(2):keep_typical(0.9):keep_epsilon(0.0003):keep_eta(0.0003)"},
    {"formulas",
     "local f = vec.expr('x > t ? x*a : x - b', { 't', 'a', 'b' })\n"
     "for i = 0, 15 do row[i] = i end; local b = row:copy():fill(2)\n"
     "assert(row:apply(f, 7, 0.5, b) == row and row[8] == 4 and row[7] == 5)\n"
     "local a, c = row:copy(), row:copy(); f(a, 1, 2, 3); c:apply(f, 1, 2, 3); assert(a[9] == c[9])\n"
     "assert(vec.expr('abs(-x)')(vec.from { -3 })[0] == 3 and tostring(f) == 'formula')\n"
     "assert(#vec.new(0):apply(f, 1, 2, 3) == 0)"},
    {"formulas are the chain",
     "for i = 0, 15 do row[i] = i * 0.37 - 2 end; local a = row:copy()\n"
     "a:apply(vec.expr('exp(x / 0.7 + 0.1) * -3'))\n"
     "row:div(0.7):add(0.1):exp():mul(-3); for i = 0, 15 do assert(row[i] == a[i]) end"},
    {"formulas that are none",
     "local function no(e, ...) local ok, m = pcall(...)\n"
     "assert(not ok and m:find(e, 1, true), m) end\n"
     "no(\"vec.expr: column 5: unknown name 'y'\", vec.expr, 'x + y')\n"
     "no('name 1 is a number', vec.expr, 'x', { 1 })\n"
     "no(\"name 'x' has a meaning already\", vec.expr, 'x', { 'x' })\n"
     "local f = vec.expr('x + a', { 'a' })\n"
     "no('has 1 arguments, 0 were given', f, row)\n"
     "no('has 1 arguments, 2 were given', f, row, 1, 2)\n"
     "no(\"argument 'a' is a table, expected a number or a vector\", f, row, {})\n"
     "no('different length: 16 and 3', f, row, vec.new(3))\n"
     "no('vec or scores expected, got number', f, 1, 2)"},
    {"cumsum", "row:fill(1):cumsum(); assert(row[15] == 16)"},
    {"penalties",
     "row:fill(2):penalize(ids, 'repetition', 2); assert(row[3] == 1 and row[2] == 2)\n"
     "row:fill(2):penalize(ids, 'frequency', 0.5); assert(row[3] == 1 and row[5] == 1.5)\n"
     "row:fill(2):penalize(ids, 'presence', 0.5); assert(row[3] == 1.5)\n"
     "row:fill(2):encoder_penalty(ids, 2); assert(row[3] == 4)"},
    {"n-grams",
     "row:fill(1):ngram_ban(ids, 2); assert(row[5] == -math.huge and row[3] == 1)\n"
     "row:fill(1):ngram_ban(ids, 2, { 3, 9, 3, 8 }); assert(row[9] == -math.huge and row[8] == "
     "-math.huge and row[5] == 1)\n"
     "assert(not pcall(row.ngram_ban, row, { 3 }, 2, { 3, 9 }))\n"
     "row:fill(1):ngram_ban(ids, 99, { 3 }); assert(row:min() == 1)"},
    {"filled from another", "local v = vec.new(16, 3); assert(row:fill(v) == row and row[15] == 3)\n"
                            "assert(not pcall(row.fill, row, vec.new(2)))"},
    {"sequence bias",
     "row:fill(1):sequence_bias({ {{4}, 0.5}, {{3, 6}, 2}, {{5, 3, 6}, 1}, {{1, 7}, 9} }, ids)\n"
     "assert(row[4] == 1.5 and row[6] == 4 and row[7] == 1)"},
    {"the generator repeats",
     "local a = ctx.rng:uniform(); assert(a >= 0 and a < 1)\n"
     "local n = ctx.rng:int(3, 5); assert(n >= 3 and n <= 5); ctx.rng:normal()\n"
     "local s = row:fill(0):copy(); s[6] = 1; assert(s:sample(ctx.rng) == 6)\n"
     "assert(ctx.rng:sample(s) == 6 and s:sample_n(ctx.rng, 3)[3] == 6)\n"
     "row:gumbel(ctx.rng); assert(not row:any_nan() and row:max() < 100)"},
    {"pairs has one order",
     "local t, s = { b = 1, a = 2, [3] = 4, [1.5] = 5 }, ''\n"
     "for k in pairs(t) do s = s .. tostring(k) .. ' ' end; assert(s == '1.5 3 a b ', s)"},
    {"sort is stable",
     "local t = { {2, 'x'}, {1, 'y'}, {2, 'z'}, {1, 'w'} }\n"
     "table.sort(t, function(a, b) return a[1] < b[1] end)\n"
     "assert(t[1][2] == 'y' and t[2][2] == 'w' and t[3][2] == 'x' and t[4][2] == 'z')\n"
     "local u = { 'b', 'B', 'a' }; table.sort(u); assert(table.concat(u) == 'Bab')"},
    {"tables",
     "local t = { 1, 2, 3 }; table.insert(t, 2, 9); assert(table.remove(t) == 3 and t[2] == 9)\n"
     "assert(table.unpack({ 4, 5 }, 2) == 5 and table.pack(1, nil).n == 2)\n"
     "assert(#table.move({ 1, 2 }, 1, 2, 3, { 0, 0 }) == 4)"},
    {"strings", "assert(('x'):rep(3, ',') == 'x,x,x' and ('%5.2f|%s|%d'):format(1.5, true, 3) == ' "
                "1.50|true|3')\n"
                "assert(('AbC'):lower() == 'abc' and ('abc'):sub(-2) == 'bc' and ('abc'):byte(2) "
                "== 98 and #'abc' == 3)\n"
                "assert('10' + 1 == 11 and utf8.len('\xC3\xA9') == 1)"},
    {"tostring shows no address", "assert(tostring({}) == 'table' and tostring(print) == "
                                  "'function' and tostring(row) == 'vec(16)')\n"
                                  "assert(('%s'):format({}) == 'table')"},
    {"log", "print('a', 1, {}); ctx:log('b')"},
    {"xpcall", "local ok, e = xpcall(error, function(m) return m .. '!' end, 'no'); assert(not ok "
               "and e == 'no!')\n"
               "assert(select('#', xpcall(function(...) return ... end, print, 1, nil)) == 3)"},
};

static void self_judging(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof self_tests / sizeof *self_tests; i++) {
        fake *f = fake_new(1, FAKE_VOCAB);
        float row[FAKE_VOCAB] = {0};
        char source[4096];
        snprintf(
            source, sizeof source,
            "return cadenza.processor { apply = function(p, ids, row, ctx)\n%s\nrow[0] = 1 end }",
            self_tests[i].body);
        fake_use(f, source);
        fake_begin(f);
        if (fake_apply(f, row) != CDZ_OK) fail_msg("%s: %s", self_tests[i].name, f->err.text);
        if (row[0] != 1) fail_msg("%s: did not run", self_tests[i].name);
        fake_free(f);
    }
}

/* --- parameters of every type ------------------------------------------------------------------------------------------- */

static const char typed_source[] =
    "return cadenza.processor { params = {\n"
    "  b = { true, 'h' }, i = { 3, 'h', integer = true }, r = { 0.5, 0, 1, 'h' }, s = { 'text', "
    "'h' },\n"
    "  w = { 'soft', 'h', words = { 'hard', 'soft' } }, ob = { type = 'boolean', optional = true, "
    "help = 'h' },\n"
    "  oi = { type = 'integer', optional = true, min = 1, help = 'h' }, orr = { 1.5, optional = "
    "true, help = 'h' },\n"
    "  bw = { type = 'boolean_or_word', words = { 'never' }, help = 'h' }, li = { type = "
    "'integers', 'h' },\n"
    "  lr = { type = 'numbers', 'h' }, ls = { type = 'strings', 'h' }, ll = { type = "
    "'integer_lists', 'h' },\n"
    "  lw = { type = 'weighted', 'h' }, ir = { type = 'integer_and_number', 'h' },\n"
    "  wi = { type = 'word_or_integers', words = { 'low', 'high' }, 'h' },\n"
    "  ic = { type = 'integer_choices', 'h' } },\n"
    "apply = function(p, ids, row)\n"
    "  assert(p.b == true and p.i == 3 and math.type(p.i) == 'integer' and p.r == 0.5 and p.s == "
    "'text' and p.w == 'soft')\n"
    "  assert(p.ob == nil and p.oi == 7 and p.orr == 1.5 and p.bw == 'never')\n"
    "  assert(#p.li == 2 and p.li[2] == 9 and p.lr[1] == 0.25 and p.ls[2] == 'y' and p.ll[2][1] == "
    "3)\n"
    "  assert(p.lw[1][1][2] == 6 and p.lw[1][2] == 1.5 and p.ir[1] == 4 and p.ir[2] == 1.25)\n"
    "  row[0] = 1\n"
    "end }";

static void typed_params(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, typed_source);
    fake_set(f, "oi", "7");
    fake_set(f, "bw", "never");
    fake_set(f, "li", "8, 9");
    fake_set(f, "lr", "0.25");
    fake_set(f, "ls", "[\"x\", \"y\"]");
    fake_set(f, "ll", "[[1, 2], [3]]");
    fake_set(f, "lw", "[[[5, 6], 1.5]]");
    fake_set(f, "ir", "[4, 1.25]");
    fake_begin(f);
    if (fake_apply(f, row) != CDZ_OK) fail_msg("%s", f->err.text);
    assert_true(row[0] == 1);
    fake_free(f);
}

/* A request's [[ids, 9223372036854775807]]: as a double it is one more than 64 bits hold. */
static void the_largest_weight_is_a_number(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, "return cadenza.processor { params = { w = { type = 'weighted', 'h' } },\n"
                "apply = function(p, ids, row) row[0] = p.w[1][2] == 2.0 ^ 63 and 1 or 2 end }");
    fake_set_json(f, "w", "[[[5], 9223372036854775807]]");
    fake_begin(f);
    if (fake_apply(f, row) != CDZ_OK) fail_msg("%s", f->err.text);
    assert_true(row[0] == 1);
    fake_free(f);
}

static void create_refuses(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);

    (void)state;
    fake_use(f, "return cadenza.processor { params = { a = { 1, 'h' } }, apply = print,\n"
                "create = function(p) if p.a > 5 then error('a is too large', 0) end end }");
    f->step.request = NULL;
    assert_int_equal(fake_processor(f)->create(&f->step), CDZ_OK);
    fake_set(f, "a", "6");
    assert_int_equal(fake_processor(f)->create(&f->step), CDZ_E_USAGE);
    assert_non_null(strstr(f->err.text, "a is too large"));
    fake_free(f);
}

/* --- views, batches, state ---------------------------------------------------------------------------------------------- */

static void kept_views_expire(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, "local kept, slice\nreturn cadenza.processor { apply = function(p, ids, row)\n"
                "if kept then assert(not pcall(slice.fill, slice, 1)); kept:add(1) end; kept = "
                "row; slice = row:slice(0, 1)\n"
                "end }");
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_OK);
    assert_int_equal(fake_apply(f, row), CDZ_E_PLUGIN);
    assert_non_null(strstr(f->err.text, "this row is no longer valid"));
    assert_non_null(strstr(f->err.text, "t.lua:3"));
    fake_free(f);
}

static void batched_once(void **state)
{
    fake *f = fake_new(3, FAKE_VOCAB);
    float rows[3 * FAKE_VOCAB] = {0};

    (void)state;
    rows[2 * FAKE_VOCAB + 5] = 4;
    fake_use(f, "return cadenza.processor { batched = true, apply = function(p, ids, rows, ctx)\n"
                "assert(#rows == 3 and #ids == 3 and ids[3][2] == 3)\n"
                "local best = rows:argmax(); assert(best[1] == 0 and best[3] == 5)\n"
                "local i, v = rows:topk(1); assert(i[3][1] == 5 and v[3][1] == 4)\n"
                "assert(rows:add(1):mul(2) == rows); rows:row(2)[7] = 9; rows:add(rows)\n"
                "assert(not pcall(rows.row, rows, 4)) end }");
    fake_begin(f);
    if (fake_apply(f, rows) != CDZ_OK) fail_msg("%s", f->err.text);
    assert_true(rows[0] == 4 && rows[FAKE_VOCAB + 7] == 18 && rows[2 * FAKE_VOCAB + 5] == 20);
    fake_free(f);
}

static const char counting_source[] =
    "return cadenza.processor {\n"
    "begin = function(ctx)\n"
    "  return { n = 0, seen = {}, bias = vec.new(ctx.n_vocab), start = ctx:encode('d')[1], list = { { { 9 }, 2 } }, ids = { 7, 8 } }\n"
    "end,\n"
    "accept = function(p, state, token) state.n = state.n + 1; state.seen[#state.seen + 1] = token; state.bias[token] = state.n end,\n"
    "apply = function(p, ids, row, ctx)\n"
    "  local s, seen = ctx.state, 0; assert(s.start == 3); row:add(s.bias); row[0] = s.n\n"
    "  for i, t in ipairs(s.seen) do seen = seen + 1; assert(t == s.seen[i]) end\n"
    "  for k, v in pairs(s.seen) do seen = seen - 1 end; assert(seen == 0 and #s.seen == s.n)\n"
    "  row:sequence_bias(s.list, ids):add(s.ids, 1); assert(row[9] == 2 and row[7] == 1 and table.concat(s.ids, ',') == '7,8')\n"
    "  assert(not pcall(s.bias.fill, s.bias, 0) and not pcall(function() s.n = 100 end))\n"
    "  assert(not pcall(function() s.seen[1] = 100 end) and not pcall(table.insert, s.seen, 1) and not pcall(setmetatable, s, {}))\n"
    "end }";

/* State follows clones, apply cannot change it, and every row has its own. */
static void row_state(void **state)
{
    fake *f = fake_new(2, FAKE_VOCAB);
    float rows[2 * FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, counting_source);
    const cdz_processor *p = fake_processor(f);
    const cdz_state_api *api = cdz_get_state_api(f->step.plugin);
    assert_non_null(api);
    fake_begin(f);
    assert_int_equal(p->accept(&f->step, 0, 4), CDZ_OK);
    assert_int_equal(p->accept(&f->step, 0, 5), CDZ_OK);
    assert_int_equal(p->accept(&f->step, 1, 6), CDZ_OK);
    for (int again = 0; again < 2; again++) {
        memset(rows, 0, sizeof rows);
        if (fake_apply(f, rows) != CDZ_OK) fail_msg("%s", f->err.text);
        assert_true(rows[0] == 2 && rows[4] == 1 && rows[5] == 2 && rows[6] == 0);
        assert_true(rows[FAKE_VOCAB] == 1 && rows[FAKE_VOCAB + 6] == 1);
    }
    /* Row 1 becomes a copy of row 0, then they part. */
    uint64_t copy = 0;
    assert_int_equal(api->clone(&f->step, &f->state_store[0], &copy), CDZ_OK);
    api->free(&f->step, &f->state_store[1]);
    f->state_store[1] = copy;
    assert_int_equal(p->accept(&f->step, 1, 4), CDZ_OK);
    memset(rows, 0, sizeof rows);
    assert_int_equal(fake_apply(f, rows), CDZ_OK);
    assert_true(rows[0] == 2 && rows[4] == 1);
    assert_true(rows[FAKE_VOCAB] == 3 && rows[FAKE_VOCAB + 4] == 3 && rows[FAKE_VOCAB + 5] == 2);
    api->free(&f->step, &f->state_store[0]);
    assert_int_equal(f->state_store[0], 0);
    fake_free(f);
}

static void states_hold_values_only(void **state)
{
    static const struct {
        const char *begin, *sentence;
    } cases[] = {
        {"return { f = print }", "found function"},
        {"return setmetatable({}, {})", "with a metatable"},
        {"return { r = ctx.rng }", "found object"},
        {"return 5", "begin returned a number"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake *f = fake_new(1, FAKE_VOCAB);
        char source[256];
        snprintf(source, sizeof source,
                 "return cadenza.processor { apply = print, accept = print, begin = function(ctx) "
                 "%s end }",
                 cases[i].begin);
        fake_use(f, source);
        assert_int_equal(fake_processor(f)->begin(&f->step, &f->step.shared), CDZ_E_PLUGIN);
        if (!strstr(f->err.text, cases[i].sentence)) fail_msg("%s", f->err.text);
        fake_free(f);
    }
}

/* Nothing of one request is seen by another, not even through upvalues. */
static void requests_are_apart(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, "local n = 0\nreturn cadenza.processor { apply = function(p, ids, row) n = n + 1; "
                "row[0] = n end }");
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_OK);
    assert_int_equal(fake_apply(f, row), CDZ_OK);
    assert_true(row[0] == 2);
    fake_processor(f)->end(&f->step);
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_OK);
    assert_true(row[0] == 1);
    fake_free(f);
}

/* The generator's first words are the host's noise, so a C plugin that uses noise can be matched. */
static void noise_is_the_hosts(void **state)
{
    fake *f = fake_new(2, FAKE_VOCAB);
    float rows[2 * FAKE_VOCAB] = {0};
    uint32_t words[4];

    (void)state;
    fake_use(f, "return cadenza.processor { id = 'noisy', apply = function(p, ids, row, ctx)\n"
                "for i = 0, 9 do row[i] = ctx.rng:uniform() end end }");
    fake_begin(f);
    assert_int_equal(fake_apply(f, rows), CDZ_OK);
    for (uint32_t r = 0; r < 2; r++) {
        fake_noise(&f->step, r, 4, words);
        for (uint32_t i = 0; i < 4; i++)
            assert_true(rows[r * FAKE_VOCAB + i] == (float)((double)words[i] * 0x1p-32));
    }
    assert_true(rows[4] != rows[0] && rows[8] != rows[4]);
    fake_free(f);
}

/* --- criteria ------------------------------------------------------------------------------------------------------------ */

static void criteria(void **state)
{
    static const struct {
        const char *body;
        uint32_t reason;
        const char *text;
    } cases[] = {
        {"return ids[#ids] == 4", CDZ_GO_ON, ""},
        {"return nil", CDZ_GO_ON, ""},
        {"return true", CDZ_STOP_CUSTOM, "custom"},
        {"return ctx:text_tail(2) == 'fd' and 'saw fd'", CDZ_STOP_CUSTOM, "saw fd"},
        {"return 'string', 'the end'", CDZ_STOP_STRING, "the end"},
        {"return 'eos'", CDZ_STOP_EOS, "eos"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake *f = fake_new(1, FAKE_VOCAB);
        cdz_stop stop = {0};
        char source[256];
        snprintf(source, sizeof source,
                 "return cadenza.criterion { has_eos = true, test = function(p, ids, ctx) %s end }",
                 cases[i].body);
        fake_use(f, source);
        const cdz_criterion *c = fake_criterion(f);
        assert_true((c->caps & CDZ_HAS_EOS) != 0);
        assert_int_equal(c->begin(&f->step, &f->step.shared), CDZ_OK);
        if (c->test(&f->step, &stop) != CDZ_OK) fail_msg("%s", f->err.text);
        assert_int_equal(stop.reason, cases[i].reason);
        if (stop.reason) assert_string_equal(stop.text.at, cases[i].text);
        fake_free(f);
    }
}

static void lists_and_default_ids(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);

    (void)state;
    fake_use(f, "return { cadenza.processor { apply = print }, cadenza.criterion { id = 'c', test "
                "= print },\n"
                "cadenza.strategy { id = 's', one_row = true, rewinds = true, run = print } }");
    assert_int_equal(f->n_plugins, 3);
    assert_string_equal(f->plugins[0]->id, "lua.t.lua");
    assert_int_equal(f->plugins[1]->kind, CDZ_KIND_CRITERION);
    assert_int_equal(f->plugins[2]->kind, CDZ_KIND_STRATEGY);
    assert_int_equal(((const cdz_strategy *)(const void *)f->plugins[2])->caps,
                     CDZ_ONE_ROW | CDZ_REWINDS);
    fake_free(f);
}

static void errors_have_a_traceback(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, "local function inner(x)\n  return x.field\nend\nreturn cadenza.processor {\n"
                "  apply = function(p, ids, row)\n    local y = inner(nil)\n  end }");
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_E_PLUGIN);
    assert_non_null(strstr(f->err.text, "t.lua:2: attempt to index a nil value (local 'x')"));
    assert_non_null(strstr(f->err.text, "\n  at t.lua:2 in inner\n  at t.lua:6"));
    fake_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(style_example),
        cmocka_unit_test(style_example_declares),
        cmocka_unit_test(refused_files),
        cmocka_unit_test(a_large_file_is_refused),
        cmocka_unit_test(self_judging),
        cmocka_unit_test(typed_params),
        cmocka_unit_test(the_largest_weight_is_a_number),
        cmocka_unit_test(create_refuses),
        cmocka_unit_test(kept_views_expire),
        cmocka_unit_test(batched_once),
        cmocka_unit_test(row_state),
        cmocka_unit_test(states_hold_values_only),
        cmocka_unit_test(requests_are_apart),
        cmocka_unit_test(noise_is_the_hosts),
        cmocka_unit_test(criteria),
        cmocka_unit_test(lists_and_default_ids),
        cmocka_unit_test(errors_have_a_traceback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
