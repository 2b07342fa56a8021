/* test_lua_strings.c - the sandbox's own string library against the stock one, on random patterns. */
#include "support/fake.h"

#include <lauxlib.h>
#include <lualib.h>

#include "base/file.h"

#define N_CASES 3000

static char *read_patterns(void)
{
    cdz_error err = {0};
    char *text = NULL;
    size_t len;

    if (cdz_file_read(CADENZA_TEST_DATA "/lua/patterns.lua", 1 << 20, &text, &len, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    return text;
}

/* In a plain Lua with all its libraries. */
static void run_stock(const char *text, double *out)
{
    lua_State *L = luaL_newstate();

    assert_non_null(L);
    luaL_openlibs(L);
    assert_int_equal(luaL_loadbuffer(L, text, strlen(text), "@t.lua"), LUA_OK);
    assert_int_equal(lua_pcall(L, 0, 1, 0), LUA_OK);
    lua_pushinteger(L, N_CASES);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_insert(L, 1);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) fail_msg("%s", lua_tostring(L, -1));
    for (int i = 0; i < N_CASES; i++) {
        lua_rawgeti(L, 1, i);
        out[i] = lua_tonumber(L, -1);
        lua_pop(L, 1);
    }
    lua_close(L);
}

static void run_sandboxed(const char *text, float *row)
{
    fake *f = fake_new(1, N_CASES);
    const size_t n = strlen(text) + 200;
    char *source = malloc(n);

    assert_non_null(source);
    snprintf(source, n,
             "local f = (function() %s end)()\nreturn cadenza.processor { apply = function(p, ids, "
             "row) f(%d, row) end }",
             text, N_CASES);
    fake_use(f, source);
    fake_set(f, "budget_instructions", "1000000000");
    fake_set(f, "budget_ms", "60000");
    fake_begin(f);
    if (fake_apply(f, row) != CDZ_OK) fail_msg("%s", f->err.text);
    free(source);
    fake_free(f);
}

static void patterns_match_as_in_stock_lua(void **state)
{
    static double stock[N_CASES];
    static float ours[N_CASES];
    char *text = read_patterns();
    int different = 0;

    (void)state;
    run_stock(text, stock);
    run_sandboxed(text, ours);
    for (int i = 0; i < N_CASES; i++) {
        if (stock[i] == (double)ours[i]) continue;
        if (different++ < 5) print_error("case %d differs\n", i);
    }
    free(text);
    assert_int_equal(different, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns_match_as_in_stock_lua)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
