/* test_lua_attacks.c - scripts that try to hang, starve, spy on or corrupt the host; each is stopped by the limit named
 * beside it. Run on a thread with the stack of a strategy's fibre, the smallest a script ever has. */
#include "lua/fake.h"

#include <pthread.h>
#include <time.h>

/* Sanitizers make frames several times as large; the guard counts bytes, so the scripts stop at the same place. */
#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_STACK (1024u << 10)
#else
#define FIBRE_STACK (256u << 10)
#endif

/* body of apply(p, ids, row, ctx). sentence NULL: the script proves the point itself and sets row[0] to 1. */
typedef struct attack {
    const char *name, *body, *sentence;
} attack;

#define SPENT "instruction budget spent: 2000000 per call"

static const attack attacks[] = {
    /* --- the table of things that break a stock sandbox -------------------------------------------------------- */
    {"find that backtracks quadratically", "return ('a'):rep(60000):find('.-b')", SPENT},
    {"find that backtracks exponentially", "return ('a'):rep(100):find('a-a-a-a-b')", SPENT},
    {"match, gmatch and gsub alike", "return ('a'):rep(60000):gsub('.-b', '')", SPENT},
    {"gmatch that backtracks", "for w in ('a'):rep(60000):gmatch('.-b') do end", SPENT},
    {"a million-step repetition of nothing",
     "assert(string.rep('', 1 << 36) == '' and ('x'):rep(-1) == '') row[0] = 1", NULL},
    {"a long repetition", "return ('x'):rep(1 << 21)", "text too long (at most 1 MiB)"},
    {"a repetition that overflows", "return ('x'):rep(math.maxinteger, ('y'):rep(100))",
     "text too long"},
    {"table.move over a void", "return table.move({}, 1, 100000000, 2)", "too many elements"},
    {"table.move that overflows", "return table.move({}, math.mininteger, math.maxinteger, 2)",
     "too many elements"},
    {"table.concat over a void",
     "return table.concat(setmetatable({}, { __index = function() return '' end }), '', 1, 1e9 // "
     "1 | 0)",
     "too many elements"},
    {"table.insert with a lying length",
     "return table.insert(setmetatable({}, { __len = function() return 1 << 40 end }), 1, 1)",
     "too many elements"},
    {"table.unpack of too many", "return table.unpack({}, 1, 1000000)", "too many elements"},
    {"table.unpack that overflows", "return table.unpack({}, math.mininteger, math.maxinteger)",
     "too many elements"},
    {"table.remove with a lying length",
     "return table.remove(setmetatable({}, { __len = function() return 1 << 40 end }), 1)",
     "too many elements"},
    {"a sort whose order never settles",
     "local t = {} for i = 1, 100000 do t[i] = i end\n"
     "table.sort(t, function() return true end)",
     SPENT},
    {"gsub that grows tenfold",
     "local s = 'x' for i = 1, 10 do s = s:gsub('.', '%0%0%0%0%0%0%0%0%0%0') end", "text too long"},
    {"format that grows",
     "return ('%s'):rep(3):format(('x'):rep(1 << 19), ('x'):rep(1 << 19), ('x'):rep(1 << 19))",
     "text too long"},
    {"pcall around every loop",
     "for i = 1, 200 do pcall(function() while true do end end) end row[0] = 1", SPENT},
    {"pcall in a tail call", "local function f() return pcall(f) end while true do f() end", SPENT},
    {"xpcall with an endless handler",
     "xpcall(function() while true do end end, function() while true do end end)", SPENT},
    {"an endless handler of an ordinary error", "xpcall(error, function() while true do end end)",
     SPENT},
    {"a handler that fails", "assert(not xpcall(error, function() error('again') end)) row[0] = 1",
     NULL},
    {"coroutines in a processor", "return coroutine.wrap(function() end)()",
     "coroutines are for strategies"},
    {"an endless finaliser", "setmetatable({}, { __gc = function() while true do end end })",
     "a metatable may not have __gc"},
    {"a finaliser added later",
     "local m = {} local t = setmetatable({}, m) m.__gc = function() while true do end end\n"
     "t = nil for i = 1, 20000 do local x = { i } end row[0] = 1",
     NULL},
    {"a weak table", "setmetatable({}, { __mode = 'k' })", "a metatable may not have __mode"},
    {"a closing metamethod", "setmetatable({}, { __close = print })",
     "a metatable may not have __close"},
    {"an endless close",
     "local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end\n"
     "do local x <close> = t end",
     SPENT},
    {"an endless close while an error passes",
     "local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end\n"
     "pcall(function() local x <close> = t while true do end end)",
     SPENT},
    {"no collectgarbage", "return collectgarbage('collect')",
     "attempt to call a nil value (global 'collectgarbage')"},
    {"poisoning the strings of all", "getmetatable('').__index.rep = print",
     "attempt to index a boolean value"},
    {"the metatable of strings is closed", "assert(getmetatable('') == false) row[0] = 1", NULL},
    {"writing the library", "string.rep = print", "the library is read-only"},
    {"writing the vector library", "vec.new = print", "the library is read-only"},
    {"an error object with an endless tostring",
     "error(setmetatable({}, { __tostring = function() while true do end end }))",
     "error object: table"},
    {"a number as error", "error(12)", "error object: 12"},
    {"nil as error", "error(nil)", "error object: nil"},
    {"addresses in tostring",
     "assert(tostring({}) == 'table' and tostring(print) == 'function' and tostring(ctx) == "
     "'object')\n"
     "assert(not pcall(string.format, '%p', {})) row[0] = 1",
     NULL},
    {"a format of quotes", "return ('%q'):format(1)", "'%q' is not allowed in format"},
    {"pairs with other keys", "for k in pairs({ [{}] = 1 }) do end",
     "only numbers and strings have an order"},
    {"no random numbers of its own",
     "assert(math.random == nil and math.randomseed == nil) row[0] = 1", NULL},
    {"a chain of calls", "local function f(n) return 1 + f(n + 1) end return f(0)",
     "memory budget spent"},
    {"deep recursion caught again and again",
     "local function f() return 1 + f() end while true do pcall(f) end", "memory budget spent"},
    {"gsub within gsub within gsub", "local function f(s) return (s:gsub('.', f)) end f('x')",
     "C stack overflow"},
    {"sort within sort within sort",
     "local function f() table.sort({ 1, 2 }, f) return true end f()", "C stack overflow"},
    {"pcall within pcall within pcall",
     "local function f() return pcall(f) == nil or pcall(f) end\n"
     "local function g() local ok, e = pcall(g) if not ok then error(e, 0) end end g()",
     "C stack overflow"},
    {"metamethods within metamethods",
     "local t = setmetatable({}, {}) getmetatable(t).__index = function(s, k) return s[k .. 'x'] "
     "end return t.x",
     "C stack overflow"},
    {"tostring within tostring",
     "local m = {} local t = setmetatable({}, m) m.__tostring = function() return tostring(t) end "
     "tostring(t)",
     "C stack overflow"},
    {"a pattern of deep nesting", "return ('x'):rep(300):match(('(x)'):rep(40))",
     "too many captures"},
    {"a pattern that recurses", "return ('x'):rep(1000):match(('x?'):rep(1000) .. ('x'):rep(1000))",
     "pattern too complex"},
    {"malformed patterns",
     "for _, p in ipairs { '[', '%', '[%', '(', ')', '%b', '%bx', '%f', '%1', '(()', '[a-', '[^' } "
     "do\n"
     "assert(not pcall(string.match, 'aaa(', p), p) end row[0] = 1",
     NULL},
    /* --- memory ----------------------------------------------------------------------------------------------------- */
    {"a string that doubles", "local s = ('x'):rep(1000) while true do s = s .. s end",
     "memory budget spent: 8388608 bytes"},
    {"a table that grows", "local t = {} for i = 1, 1e9 do t[i] = i end", "memory budget spent"},
    {"a table that grows, caught",
     "local t = {} while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = ('x'):rep(1000) .. "
     "#t end end) end",
     "budget spent"},
    {"nested tables", "local t = {} while true do t = { t, {} } end", "memory budget spent"},
    {"vectors kept", "local t = {} for i = 1, 1000 do t[i] = vec.new(ctx.n_vocab) end",
     "memory budget spent"},
    {"vectors dropped", "for i = 1, 5000 do vec.new(ctx.n_vocab) end row[0] = 1", NULL},
    {"a vector of all memory", "vec.new(1 << 40)", "do not fit the vector pool"},
    {"a bitset of all memory", "bitset.new(1 << 30)", "memory budget spent"},
    /* --- time by other ways ------------------------------------------------------------------------------------------- */
    {"a loop of bulk operations", "local v = vec.new(100) while true do v:add(1) end", SPENT},
    {"a loop of formulas",
     "local f, v = vec.expr('pow(x, 2) + pow(x, 3)'), vec.new(1000) while true do f(v) end", SPENT},
    {"formulas read for ever", "local s = '-x' .. ('+x'):rep(100) while true do vec.expr(s) end",
     SPENT},
    {"a formula of deep nesting", "vec.expr(('('):rep(4000))", "nested more than 64 deep"},
    {"a formula without end", "vec.expr(('x+'):rep(2000) .. 'x')", "more than 128 operations"},
    {"long strings compared",
     "local a = ('x'):rep(1 << 20) local b = ('x'):rep(1 << 20) while a == b do end",
     "budget spent"},
    {"long strings joined", "local a = ('x'):rep(1 << 20) while true do local b = a .. 'x' end",
     "budget spent"},
    {"upper on long text", "local a = ('x'):rep(1 << 20) while true do a:upper() end",
     "budget spent"},
    {"a goto that loops", "::again:: goto again", SPENT},
    {"an iterator that loops", "for i in function() return 1 end do end", SPENT},
    {"a numeric loop of nothing", "for i = 1, math.maxinteger do end", SPENT},
    {"a float loop that never ends", "for i = 1.0, math.huge, 1e-300 do end", SPENT},
    /* --- ways out ------------------------------------------------------------------------------------------------------ */
    {"nothing of the system",
     "for _, n in ipairs { 'io', 'os', 'package', 'debug', 'load', 'loadstring', "
     "'loadfile',\n"
     "'dofile', 'collectgarbage', '_G', 'next', 'rawget', 'rawset', 'newproxy', 'setfenv', "
     "'getfenv' } do\n"
     "assert(_ENV[n] == nil, n) end assert(string.dump == nil and string.pack == nil) row[0] = 1",
     NULL},
    {"package.loadlib", "return package.loadlib('x', 'y')",
     "attempt to index a nil value (global 'package')"},
    {"globals after loading", "leak = 1", "global 'leak' written after the script was loaded"},
    {"globals through _ENV", "_ENV.leak = 1", "written after the script was loaded"},
    {"the metatable of _ENV", "setmetatable(_ENV, {})", "cannot change a protected metatable"},
    {"an environment of its own", "local _ENV = { row = row } row[0] = 1", NULL},
    {"a metatable of a vector",
     "assert(getmetatable(row) == false and not pcall(setmetatable, row, {})) row[0] = 1", NULL},
    {"a method on another type", "bitset.new(8).set(row, 1)", "bitset expected, got cadenza.vec"},
    {"a method without its object", "row.add(1, 2)", "vec expected, got number"},
    {"a const that is not", "do local _ENV <const> = {} function f() end end row[0] = 1", NULL},
    /* --- bad numbers ------------------------------------------------------------------------------------------------------ */
    {"token id 2^53", "row[1 << 53] = 1", "element 9007199254740992 is outside 0 to 15"},
    {"a negative token id", "row[-1] = 1", "element -1 is outside 0 to 15"},
    {"token id 0/0", "return row[0/0]", "no method or element"},
    {"token id -0", "row[-0.0] = 3 assert(row[0] == 3) row[0] = 1", NULL},
    {"a list with 2^53", "row:mask({ 1 << 53 })", "is no token id"},
    {"a list with 0/0", "row:mask({ 0/0 })", "is no token id"},
    {"topk of 0", "row:topk(0)", "must be at least 1"},
    {"topk of a negative", "row:topk(math.mininteger)", "must be at least 1"},
    {"topk of a great many", "assert(#row:topk(math.maxinteger) == 16) row[0] = 1", NULL},
    {"keep_topp of nan", "row:keep_topp(0/0)", "must be from 0 to 1"},
    {"keep_minp above 1", "row:keep_minp(2)", "must be from 0 to 1"},
    {"a filter that keeps none", "row:keep_topp(0.5, 0)", "must be at least 1"},
    {"a slice that overflows", "row:slice(math.maxinteger, math.maxinteger)", "slice of"},
    {"n-grams of a great length", "row:ngram_ban(ids, math.maxinteger)", "must be at least 1"},
    {"a penalty of 0", "row:penalize(ids, 'repetition', 0)", "must be above 0"},
    {"an unknown penalty", "row:penalize(ids, 'x', 1)", "invalid option 'x'"},
    {"sampling from nothing", "row:fill(0):sample(ctx.rng)", "the probabilities sum to 0"},
    {"a random range that is none", "ctx.rng:int(2, 1)", "must not be below the first"},
    {"the widest random range",
     "assert(math.type(ctx.rng:int(math.mininteger, math.maxinteger)) == 'integer') row[0] = 1",
     NULL},
    {"sums of a text", "row:add('x')", "vec expected, got string"},
};

/* What went wrong, into why (empty: nothing). Runs on a small stack of another thread, where cmocka must not jump. */
static void run_attack(const attack *a, char why[1200])
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};
    char source[2048];
    cdz_error err = {0};

    snprintf(source, sizeof source,
             "return cadenza.processor { apply = function(p, ids, row, ctx) %s end }", a->body);
    cdz_status st = fake_load_bytes(f, source, strlen(source), &err);
    if (st == CDZ_OK) {
        f->step.plugin = f->plugins[0];
        fake_params(f);
        /* Which limit comes first should not depend on the machine, but for what only time can stop. */
        if (!a->sentence || strcmp(a->sentence, "budget spent") != 0)
            fake_set(f, "budget_ms", "10000");
        fake_begin(f);
        st = fake_apply(f, row);
        err = f->err;
    }
    const bool as_expected = a->sentence ? st == CDZ_E_PLUGIN && strstr(err.text, a->sentence)
                                         : st == CDZ_OK && row[0] == 1;
    if (!as_expected) snprintf(why, 1200, "%s: status %d, %s", a->name, (int)st, err.text);
    fake_free(f);
}

typedef struct run {
    const attack *attack;
    char why[1200];
} run;

static void *run_thread(void *user)
{
    run *r = user;

    run_attack(r->attack, r->why);
    return NULL;
}

static void on_the_stack_of_a_fibre(void **state)
{
    pthread_attr_t attr;
    size_t failed = 0;

    (void)state;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, FIBRE_STACK);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        pthread_t thread;
        run r = {.attack = &attacks[i]};
        assert_int_equal(pthread_create(&thread, &attr, run_thread, &r), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (!r.why[0]) continue;
        print_error("%s\n", r.why);
        failed++;
    }
    pthread_attr_destroy(&attr);
    assert_int_equal(failed, 0);
}

/* --- budgets stay spent --------------------------------------------------------------------------------------------- */

static void a_spent_budget_stays_spent(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(
        f,
        "local first = true\nreturn cadenza.processor { apply = function(p, ids, row)\n"
        "if first then first = false pcall(function() while true do end end) end row[0] = 1 end }");
    fake_set(f, "budget_ms", "10000");
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_E_PLUGIN);
    assert_int_equal(fake_apply(f, row), CDZ_E_PLUGIN);
    assert_non_null(strstr(f->err.text, "t.lua:3: " SPENT));
    assert_true(row[0] == 0);
    /* Another request of the same plugin starts afresh. */
    fake_processor(f)->end(&f->step);
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_E_PLUGIN);
    fake_free(f);
}

static void budgets_are_parameters(void **state)
{
    static const struct {
        const char *name, *value, *body, *sentence;
    } cases[] = {
        {"budget_instructions", "5000", "for i = 1, 1e6 do end",
         "instruction budget spent: 5000 per call"},
        {"budget_instructions", "50000000", "for i = 1, 3e6 do end", NULL},
        {"budget_ms", "1", "for i = 1, 19e5 do end", "time budget spent: 1 ms per call (budget_ms)"},
        {"budget_memory", "300000", "local t = {} for i = 1, 1e5 do t[i] = i end",
         "memory budget spent: 300000 bytes"},
        {"budget_memory", "33554432", "local t = {} for i = 1, 3e5 do t[i] = i .. '' end", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake *f = fake_new(1, FAKE_VOCAB);
        float row[FAKE_VOCAB] = {0};
        char source[512];
        snprintf(source, sizeof source,
                 "return cadenza.processor { apply = function(p, ids, row) %s end }", cases[i].body);
        fake_use(f, source);
        fake_set(f, "budget_ms", "5000");
        fake_set(f, cases[i].name, cases[i].value);
        fake_begin(f);
        const cdz_status st = fake_apply(f, row);
        if (cases[i].sentence ? st != CDZ_E_PLUGIN || !strstr(f->err.text, cases[i].sentence)
                              : st != CDZ_OK)
            fail_msg("%s = %s: %s", cases[i].name, cases[i].value, f->err.text);
        fake_free(f);
    }
}

static void a_request_has_a_budget_too(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};
    cdz_status st = CDZ_OK;
    int calls = 0;

    (void)state;
    fake_use(f, "return cadenza.processor { apply = function() for i = 1, 9000 do end end }");
    fake_set(f, "budget_instructions", "10000");
    fake_set(f, "budget_ms", "10000");
    fake_begin(f);
    for (; calls < 1000 && st == CDZ_OK; calls++) st = fake_apply(f, row);
    assert_int_equal(st, CDZ_E_PLUGIN);
    assert_true(calls > 90 && calls < 130);
    assert_non_null(strstr(f->err.text, "instruction budget spent: 1000000 per request"));
    fake_free(f);
}

/* Memory may run out at any point of starting, calling and copying a state: each is an error in words, never a panic. */
static void memory_runs_out_anywhere(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    int started = 0, worked = 0;

    (void)state;
    fake_use(
        f,
        "return cadenza.processor { params = { a = { 1, 'h' } },\n"
        "begin = function(ctx) local t = {} for i = 1, 50 do t[i] = { i, 'x' .. i } end return { t = t } end,\n"
        "accept = function(p, state, token) state.t[#state.t + 1] = ('y'):rep(100) end,\n"
        "apply = function(p, ids, row, ctx) row:add(#ctx.state.t); local ok = pcall(error, {}) end }");
    const cdz_param_table table = cdz_params_of(f->step.plugin);
    int64_t *memory =
        (int64_t *)(void *)((char *)f->params + cdz_param_find(&table, "budget_memory")->offset);
    for (*memory = 1000; *memory < 250000; *memory += 379) {
        const cdz_processor *p = fake_processor(f);
        float row[FAKE_VOCAB] = {0};
        uint64_t copy = 0;
        f->err.text[0] = '\0';
        f->state_store[0] = 0;
        cdz_status st = p->begin(&f->step, &f->step.shared);
        if (st == CDZ_OK) {
            started++;
            st = p->accept(&f->step, 0, 1);
            if (st == CDZ_OK) st = fake_apply(f, row);
            if (st == CDZ_OK)
                st = cdz_get_state_api(f->step.plugin)->clone(&f->step, &f->state_store[0], &copy);
            cdz_get_state_api(f->step.plugin)->free(&f->step, &copy);
            p->end(&f->step);
            f->step.shared = NULL;
        }
        worked += st == CDZ_OK;
        if (st != CDZ_OK && !strstr(f->err.text, "memory budget spent"))
            fail_msg("%d: %s", (int)*memory, f->err.text);
    }
    assert_true(worked > 0 && started > worked && started < 657);
    fake_free(f);
}

/* A thousand lines of log are a thousand lines the host need not keep. */
static void the_log_is_limited(void **state)
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};

    (void)state;
    fake_use(f, "return cadenza.processor { apply = function() for i = 1, 1000 do "
                "print(('x'):rep(5000), '\\n') end end }");
    fake_set(f, "budget_ms", "10000");
    fake_begin(f);
    assert_int_equal(fake_apply(f, row), CDZ_OK);
    assert_int_equal(f->n_log, 64);
    assert_true(strlen(f->log) < sizeof f->log && !strchr(f->log, '\n'));
    fake_free(f);
}

/* Parsers are attacked by their input's shape. */
static void sources_that_nest(void **state)
{
    static const struct {
        const char *name, *piece, *sentence;
    } cases[] = {
        {"parentheses", "(", "C stack overflow"},
        {"tables", "{", "C stack overflow"},
        {"concatenations", "'a'..", "C stack overflow"},
        {"blocks", "do ", "C stack overflow"},
        {"functions", "function f() ", "C stack overflow"},
        {"unary operators", "not ", "C stack overflow"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t piece = strlen(cases[i].piece), n = 100000 / piece;
        char *source = malloc(n * piece + 16);
        fake *f = fake_new(1, FAKE_VOCAB);
        cdz_error err = {0};
        assert_non_null(source);
        const bool expression = i != 3 && i != 4;
        snprintf(source, 8, "%s", expression ? "x = " : "");
        for (size_t k = 0, at = strlen(source); k < n; k++, at += piece)
            memcpy(source + at, cases[i].piece, piece + 1);
        if (fake_load_bytes(f, source, strlen(source), &err) == CDZ_OK ||
            !strstr(err.text, cases[i].sentence))
            fail_msg("%s: %s", cases[i].name, err.text);
        free(source);
        fake_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_stack_of_a_fibre),  cmocka_unit_test(a_spent_budget_stays_spent),
        cmocka_unit_test(budgets_are_parameters),   cmocka_unit_test(a_request_has_a_budget_too),
        cmocka_unit_test(memory_runs_out_anywhere), cmocka_unit_test(the_log_is_limited),
        cmocka_unit_test(sources_that_nest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
