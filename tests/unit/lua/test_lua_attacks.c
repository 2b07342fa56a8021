/* test_lua_attacks.c - scripts that try to hang, starve, spy on or corrupt the host; each is stopped by the limit named
 * beside it. Run on a thread with the stack of a strategy's fibre, the smallest a script ever has. */
#include "lua/attacks.h"
#include "support/fake.h"

#include "lua/session.h"

#include <pthread.h>
#include <time.h>

/* Sanitizers make frames several times as large; the guard counts bytes, so the scripts stop at the same place. */
#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_STACK (1024u << 10)
#else
#define FIBRE_STACK (256u << 10)
#endif

/* The limit that a sentence names. */
static cdz_lua_spent named_limit(const char *sentence)
{
    if (!sentence) return CDZ_LUA_NOT_SPENT;
    if (strstr(sentence, "instruction budget")) return CDZ_LUA_SPENT_INSTRUCTIONS;
    if (strstr(sentence, "time budget")) return CDZ_LUA_SPENT_TIME;
    return strstr(sentence, "memory budget") ? CDZ_LUA_SPENT_MEMORY : CDZ_LUA_NOT_SPENT;
}

/* The limit that ended it is the named one, and the books say so: a spent budget is charged in full and hardly more,
 * what another limit ended is charged for what it did, memory never exceeds its limit. */
static bool charge_is_right(const attack *a, const cdz_lua_session *S)
{
    const int64_t budget = CDZ_LUA_DEFAULT_LIMITS.instructions, most = a->most ? a->most : 5000;
    const cdz_lua_spent limit = named_limit(a->sentence);

    if (S->spent != limit || S->heap_used > (size_t)CDZ_LUA_DEFAULT_LIMITS.memory) return false;
    if (S->pool_used > S->pool_limit || S->request_used < S->call_used) return false;
    if (limit == CDZ_LUA_SPENT_INSTRUCTIONS)
        return S->call_used > budget && S->call_used <= budget + budget / 20;
    return S->call_used <= most;
}

/* What went wrong, into why (empty: nothing). Runs on a small stack of another thread, where cmocka must not jump. */
static void run_attack(const attack *a, char why[1200])
{
    fake *f = fake_new(1, FAKE_VOCAB);
    float row[FAKE_VOCAB] = {0};
    char source[2048];
    cdz_error err = {0};

    snprintf(source, sizeof source,
             "return cadenza.processor { apply = function(p, ids, row, ctx) %s end }", a->body);
    if (fake_load_bytes(f, source, strlen(source), &err) != CDZ_OK) {
        snprintf(why, 1200, "%s: %s", a->name, err.text);
        fake_free(f);
        return;
    }
    f->step.plugin = f->plugins[0];
    fake_params(f);
    /* Which limit comes first must not depend on the machine, but for what only time can stop. */
    if (named_limit(a->sentence) != CDZ_LUA_SPENT_TIME) fake_set(f, "budget_ms", "100000");
    fake_begin(f);
    const cdz_lua_session *S = f->step.shared;
    const cdz_status st = fake_apply(f, row);
    const bool as_expected = a->sentence ? st == CDZ_E_PLUGIN && strstr(f->err.text, a->sentence)
                                         : st == CDZ_OK && row[0] == 1;
    if (!as_expected || !charge_is_right(a, S))
        snprintf(why, 1200, "%s: status %d, limit %d, charge %lld, heap %zu, %s", a->name, (int)st,
                 (int)S->spent, (long long)S->call_used, S->heap_used, f->err.text);
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

/* One call into the host that would take minutes: each byte leads to a state of thousands of places. */
static void a_text_for_a_grammar_of_large_states(void **state)
{
    static const attack long_text = {
        "a text for a grammar",
        "local g, t, x = cadenza.grammar { regex = '(a|b)*a(a|b){10000}c' }, {}, 1\n"
        "for i = 1, 200 do x = x * 48271 % 2147483647 t[i] = x % 2 == 0 and 'a' or 'b' end\n"
        "return g:viable(table.concat(t):rep(1000))",
        TIMED, 100000};
    run r = {.attack = &long_text};
    (void)state;
    run_attack(r.attack, r.why);
    assert_string_equal(r.why, "");
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
        size_t n; /* pieces; 0: as many as 100,000 bytes hold */
    } cases[] = {
        {"parentheses", "(", "C stack overflow", 0},
        {"tables", "{", "C stack overflow", 0},
        {"concatenations", "'a'..", "C stack overflow", 0},
        {"blocks", "do ", "C stack overflow", 0},
        {"functions", "function f() ", "C stack overflow", 0},
        {"unary operators", "not ", "C stack overflow", 0},
        {"a long bracket without end (CVE-2025-46819)", "=", "invalid long string delimiter", 0},
        {"one long name", "x", "", 0},
        {"a hundred thousand concatenations", "a..", "the limit is 262144", 100000},
        {"as many concatenations as a file holds", "a..", "C stack overflow", 87000},
        {"a hundred thousand parentheses", "(", "C stack overflow", 100000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t piece = strlen(cases[i].piece);
        const size_t n = cases[i].n ? cases[i].n : 100000 / piece;
        char *source = malloc(n * piece + 16);
        fake *f = fake_new(1, FAKE_VOCAB);
        cdz_error err = {0};
        assert_non_null(source);
        const bool expression = i != 3 && i != 4;
        snprintf(source, 8, "%s", i == 6 ? "x = [" : expression ? "x = " : "");
        for (size_t k = 0, at = strlen(source); k < n; k++, at += piece)
            memcpy(source + at, cases[i].piece, piece + 1);
        if (fake_load_bytes(f, source, strlen(source), &err) == CDZ_OK ||
            !strstr(err.text, cases[i].sentence))
            fail_msg("%s: %s", cases[i].name, err.text);
        free(source);
        fake_free(f);
    }
}

/* A collector that runs while the parser does may not take what the parser holds (CVE-2025-49844): thousands of strings that
 * nothing else knows, in a heap that is always full of the last ones. The name of the file is among what it holds. */
static void parsing_while_garbage_is_collected(void **state)
{
    enum { STRINGS = 3000, ROUNDS = 36, BYTES = 96 << 10 };
    char *source = malloc(BYTES);

    (void)state;
    assert_non_null(source);
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t len = (size_t)snprintf(source, BYTES, "local t = {\n");
        for (unsigned i = 0; i < STRINGS; i++)
            len += (size_t)snprintf(source + len, BYTES - len, "'s%u_%u'..'x%u',\n", round, i,
                                    i * 7919u);
        snprintf(source + len, BYTES - len, "} error(#t .. t[%u])", STRINGS);
        fake *f = fake_new(1, FAKE_VOCAB);
        cdz_error err = {0};
        char want[80];
        assert_int_not_equal(fake_load_bytes(f, source, strlen(source), &err), CDZ_OK);
        snprintf(want, sizeof want, "t.lua:%u: %us%u_%ux%u", STRINGS + 2, STRINGS, round,
                 STRINGS - 1, (STRINGS - 1) * 7919u);
        if (!strstr(err.text, want)) fail_msg("expected %s, found %s", want, err.text);
        fake_free(f);
    }
    free(source);
}

/* Strings are hashed with a seed of each state's own, and insertion leaves traces: pairs shows neither. */
static void pairs_has_one_order_in_every_state(void **state)
{
    enum { KEYS = 800 };
    static const unsigned steps[] = {1, 3, 333, 797,
                                     799}; /* each goes through all keys, in an order of its own */

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        fake *f = fake_new(1, FAKE_VOCAB);
        float row[FAKE_VOCAB] = {0};
        char source[700];
        snprintf(source, sizeof source,
                 "return cadenza.processor { apply = function(p, ids, row)\n"
                 "local t = {} for i = 0, %d do t[('k%%05d'):format(i * %u %% %d)] = i end\n"
                 "for i = 1, %d, 3 do t[('k%%05d'):format(i)] = nil end\n"
                 "local last, n = '', 0\n"
                 "for k in pairs(t) do assert(last < k, k) last = k n = n + 1 end row[0] = n end }",
                 KEYS - 1, steps[i], KEYS, KEYS - 1);
        fake_use(f, source);
        fake_set(f, "budget_ms", "100000");
        fake_begin(f);
        if (fake_apply(f, row) != CDZ_OK) fail_msg("%s", f->err.text);
        assert_true(row[0] == KEYS - (KEYS + 1) / 3);
        fake_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_stack_of_a_fibre),
        cmocka_unit_test(a_text_for_a_grammar_of_large_states),
        cmocka_unit_test(a_spent_budget_stays_spent),
        cmocka_unit_test(budgets_are_parameters),
        cmocka_unit_test(a_request_has_a_budget_too),
        cmocka_unit_test(memory_runs_out_anywhere),
        cmocka_unit_test(the_log_is_limited),
        cmocka_unit_test(sources_that_nest),
        cmocka_unit_test(parsing_while_garbage_is_collected),
        cmocka_unit_test(pairs_has_one_order_in_every_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
