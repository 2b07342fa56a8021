/* test_lua_stubs.c - sdk/lua/cadenza.lua lists every method a script can call, and none that does not exist; the
 * examples of docs/lua.md load and run. */
#include "support/fake_decoder.h"

#include "base/file.h"
#include "lua/decoder.h"

typedef struct face {
    const char *class_name, *metatable;
} face;

static const face faces[] = {
    {"Vec", CDZ_LUA_VEC},           {"Ids", CDZ_LUA_IDS},   {"Bitset", CDZ_LUA_BITSET},
    {"Rng", CDZ_LUA_RNG},           {"Seq", CDZ_LUA_SEQ},   {"Context", "cadenza.context"},
    {"Decoder", "cadenza.decoder"}, {"Expr", CDZ_LUA_EXPR}, {"Grammar", CDZ_LUA_GRAMMAR},
};

typedef struct stub {
    const char *text;
    char problems[4096];
    int n_methods;
} stub;

static void complain(stub *s, const char *what, const char *class_name, const char *method,
                     size_t len)
{
    const size_t at = strlen(s->problems);

    snprintf(s->problems + at, sizeof s->problems - at, "%s %s:%.*s\n", what, class_name, (int)len,
             method);
}

/* The table of methods at the top of the stack: is each one declared? */
static void check_declared(lua_State *L, stub *s, const char *class_name)
{
    char line[128];

    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        const char *method = lua_tostring(L, -1);
        s->n_methods++;
        snprintf(line, sizeof line, "\nfunction %s:%s(", class_name, method);
        if (!strstr(s->text, line))
            complain(s, "not in the stub:", class_name, method, strlen(method));
    }
}

/* And the other way round. */
static void check_existing(lua_State *L, stub *s, const char *class_name)
{
    char start[64];

    snprintf(start, sizeof start, "\nfunction %s:", class_name);
    for (const char *p = s->text; (p = strstr(p, start)) != NULL;) {
        p += strlen(start);
        const size_t len = strcspn(p, "(");
        lua_pushlstring(L, p, len);
        if (lua_rawget(L, -2) == LUA_TNIL) complain(s, "does not exist:", class_name, p, len);
        lua_pop(L, 1);
    }
}

/* A library of functions, vec and its like: both ways too. Its table is behind a read-only face. */
static void check_library(lua_State *L, stub *s, const char *name)
{
    char start[64], line[128];

    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    lua_getfield(L, -1, name);
    assert_true(lua_getmetatable(L, -1));
    lua_getfield(L, -1, "__index");
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        const bool function = lua_isfunction(L, -1);
        lua_pop(L, 1);
        snprintf(line, sizeof line, "\nfunction %s.%s(", name, lua_tostring(L, -1));
        if (function && !strstr(s->text, line))
            complain(s, "not in the stub:", name, lua_tostring(L, -1), lua_rawlen(L, -1));
        s->n_methods += function;
    }
    snprintf(start, sizeof start, "\nfunction %s.", name);
    for (const char *p = s->text; (p = strstr(p, start)) != NULL;) {
        p += strlen(start);
        const size_t len = strcspn(p, "(");
        lua_pushlstring(L, p, len);
        if (lua_rawget(L, -2) != LUA_TFUNCTION) complain(s, "does not exist:", name, p, len);
        lua_pop(L, 1);
    }
    lua_settop(L, 1);
}

/* Functions of no library; Lua's own need no stub. */
static void check_globals(lua_State *L, stub *s)
{
    int n = 0;

    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    for (const char *p = s->text; (p = strstr(p, "\nfunction ")) != NULL;) {
        p += 10;
        const size_t len = strcspn(p, "(");
        if (memchr(p, '.', len) || memchr(p, ':', len)) continue;
        lua_pushlstring(L, p, len);
        if (lua_gettable(L, -2) != LUA_TFUNCTION) complain(s, "does not exist:", "_ENV", p, len);
        lua_pop(L, 1);
        n++;
    }
    assert_true(n > 0);
    lua_settop(L, 1);
}

static int compare(lua_State *L)
{
    static const char *const libraries[] = {"cadenza", "vec", "bitset"};
    stub *s = lua_touserdata(L, 1);

    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        check_library(L, s, libraries[i]);
    check_globals(L, s);

    cdz_lua_push_ctx(L);
    cdz_lua_push_decoder_ctx(L);
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++) {
        luaL_getmetatable(L, faces[i].metatable);
        lua_getfield(L, -1, "__index");
        lua_getupvalue(L, -1, 1);
        check_declared(L, s, faces[i].class_name);
        check_existing(L, s, faces[i].class_name);
        lua_settop(L, 1);
    }
    return 0;
}

static char *read_file(const char *path)
{
    cdz_error err = {0};
    char *text = NULL;
    size_t len;

    if (cdz_file_read(path, 1 << 20, &text, &len, &err) != CDZ_OK) fail_msg("%s", err.text);
    return text;
}

static void the_stub_is_complete(void **state)
{
    char *text = read_file(CADENZA_SOURCE_DIR "/sdk/lua/cadenza.lua"), name[] = "t.lua";
    cdz_lua_module module = {.name = name};
    const cdz_lua_limits limits = CDZ_LUA_DEFAULT_LIMITS;
    cdz_lua_session *S = NULL;
    stub s = {.text = text};
    cdz_error err = {0};

    (void)state;
    assert_int_equal(cdz_lua_open(&module, CDZ_KIND_STRATEGY, &limits, 16, &S, &err), CDZ_OK);
    if (cdz_lua_enter(S, NULL, 1, compare, &s) != CDZ_OK) fail_msg("%s", S->error);
    cdz_lua_close(S);
    free(text);
    assert_true(s.n_methods > 100);
    if (s.problems[0]) fail_msg("%s", s.problems);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

/* A script of the page does what the page says: it loads, begins and runs. */
static void run_example(const char *source, int *n_of_kind)
{
    fake_decoder *d = fd_new(1, 12);
    fake *f = d->f;
    float row[FAKE_VOCAB] = {0};
    cdz_stop stop = {0};

    fake_use(f, source);
    n_of_kind[f->step.plugin->kind]++;
    cdz_status st = CDZ_OK;
    switch (f->step.plugin->kind) {
    case CDZ_KIND_PROCESSOR:
        fake_begin(f);
        st = fake_apply(f, row);
        if (fake_processor(f)->accept && st == CDZ_OK)
            st = fake_processor(f)->accept(&f->step, 0, 3);
        if (st == CDZ_OK) st = fake_apply(f, row);
        break;
    case CDZ_KIND_CRITERION:
        st = fake_criterion(f)->begin(&f->step, &f->step.shared);
        if (st == CDZ_OK) st = fake_criterion(f)->test(&f->step, &stop);
        break;
    default:
        st = fd_run(d);
        if (st == CDZ_OK) assert_true(fd_done(&d->dec));
        break;
    }
    if (st != CDZ_OK) fail_msg("%s\n%s", f->err.text, source);
    fd_free(d);
}

static void the_pages_examples_run(void **state)
{
    char *text = read_file(CADENZA_SOURCE_DIR "/docs/lua.md"), *p = text;
    int n_of_kind[5] = {0};

    (void)state;
    while ((p = strstr(p, "```lua")) != NULL) {
        const char *name = p;
        p = strchr(p, '\n'); /* a name may follow */
        assert_non_null(p);
        char *end = strstr(p, "```");
        assert_non_null(end);
        *end = '\0';
        /* Files of a package need each other: the page's own test runs them. */
        if (!memchr(name, '/', (size_t)(p - name))) run_example(p, n_of_kind);
        p = end + 1;
    }
    free(text);
    assert_true(n_of_kind[CDZ_KIND_PROCESSOR] >= 2);
    assert_true(n_of_kind[CDZ_KIND_CRITERION] >= 1);
    assert_true(n_of_kind[CDZ_KIND_STRATEGY] >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stub_is_complete),
        cmocka_unit_test(the_pages_examples_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
