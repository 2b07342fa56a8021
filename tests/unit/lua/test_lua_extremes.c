/* test_lua_extremes.c - every function that the Lua sandbox offers, found in its own tables, called with numbers at the ends
 * of their range, with nan, with strings, tables that contain themselves or change while they are read, objects twice, gone
 * and freed. A script may fail as it likes; the host may not. The sanitizers watch: memory, and arithmetic.
 *
 * CADENZA_LUA_CASES: how many numbers (default 250); CADENZA_LUA_CASE: one number, its calls in the log. */
#include "support/fake.h"

#include "base/buf.h"
#include "base/file.h"
#include "cadenza/cadenza.h"
#include "lua/decoder.h"
#include "support/must.h"
#include "support/opened.h"

/* --- what there is to call ------------------------------------------------------------------------------------------ */

static void put_key(cdz_buf *out, const char *name)
{
    cdz_buf_printf(out, "[\"%s\"] = ", name);
}

/* The string keys of the table on the top that hold functions, each by `put`. */
typedef void put_name(cdz_buf *out, const char *library, const char *name);

static void each_function(lua_State *L, const char *library, put_name *put, cdz_buf *out)
{
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        if (lua_isfunction(L, -1) && lua_type(L, -2) == LUA_TSTRING)
            put(out, library, lua_tostring(L, -2));
        lua_pop(L, 1);
    }
}

static void put_function(cdz_buf *out, const char *library, const char *name)
{
    const char *dot = *library ? "." : "";
    cdz_buf_printf(out, "  [\"%s%s%s\"] = %s%s%s,\n", library, dot, name, library, dot, name);
}

static void put_method(cdz_buf *out, const char *library, const char *name)
{
    (void)library;
    cdz_buf_printf(out, "\"%s\", ", name);
}

/* Replaces a read-only face by the table behind it. */
static bool behind(lua_State *L)
{
    if (!lua_getmetatable(L, -1)) return false;
    lua_getfield(L, -1, "__index");
    lua_replace(L, -3);
    lua_pop(L, 1);
    return lua_istable(L, -1);
}

static void list_functions(lua_State *L, cdz_buf *out)
{
    cdz_buf_puts(out, "local functions = {\n");
    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    assert_true(behind(L) && behind(L)); /* the script's globals; the library */
    each_function(L, "", put_function, out);
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        char name[64];
        snprintf(name, sizeof name, "%s", lua_tostring(L, -2));
        if (lua_istable(L, -1) && behind(L)) each_function(L, name, put_function, out);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    cdz_buf_puts(
        out, "}\nfunctions.names = {}\nfor name in pairs(functions) do\n"
             "  if name ~= 'names' then functions.names[#functions.names + 1] = name end\nend\n");
}

/* Types are metatables of the registry, whose __index has the methods as its first upvalue. */
static void list_methods(lua_State *L, cdz_buf *out)
{
    cdz_buf_puts(out, "local methods = {\n");
    lua_pushnil(L);
    while (lua_next(L, LUA_REGISTRYINDEX)) {
        const int top = lua_gettop(L);
        const char *type = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
        if (strncmp(type, "cadenza.", 8) == 0 && lua_istable(L, -1) &&
            lua_getfield(L, -1, "__index") == LUA_TFUNCTION && lua_getupvalue(L, -1, 1)) {
            put_key(out, type);
            cdz_buf_puts(out, "{ ");
            each_function(L, "", put_method, out);
            cdz_buf_puts(out, "},\n");
        }
        lua_settop(L, top - 1);
    }
    cdz_buf_puts(out, "}\n");
}

/* The tables, then the script, in a file of a folder of its own. */
static void write_script(char path[64])
{
    char folder[] = "/tmp/cadenza_extremes_XXXXXX";
    fake *f = fake_new(1, FAKE_VOCAB);
    cdz_buf out = {0};
    cdz_error err = {0};
    char *text;
    size_t len;
    fake_use(f, "return cadenza.processor { apply = function() end }");
    fake_begin(f);
    lua_State *L = ((const cdz_lua_session *)f->step.shared)->L;
    list_functions(L, &out);
    cdz_lua_push_decoder_ctx(L); /* defines a strategy's types */
    lua_pop(L, 1);
    list_methods(L, &out);
    fake_free(f);
    if (cdz_file_read(CADENZA_TEST_DATA "/lua/extremes.lua", 1 << 20, &text, &len, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    cdz_buf_add(&out, text, len);
    free(text);
    assert_false(out.failed);
    assert_non_null(strstr(out.data, "\"seq_process\""));
    assert_non_null(strstr(out.data, "[\"string.rep\"] = string.rep"));
    assert_non_null(mkdtemp(folder));
    snprintf(path, 64, "%s/extremes.lua", folder);
    fake_write(path, out.data, out.len);
    cdz_buf_free(&out);
}

/* --- requests -------------------------------------------------------------------------------------------------------- */

typedef struct fixture {
    cdz_runtime *rt;
    cdz_model *model, *draft;
    char path[64];
    bool shown;
} fixture;

static void log_line(void *user, cdz_log_level level, const char *plugin, const char *text)
{
    const fixture *f = user;
    (void)level;
    if (f->shown) fprintf(stderr, "%s: %s\n", plugin, text);
}

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    write_script(f->path);
    const char *const plugins[] = {f->path};
    const cdz_options options = {.size = sizeof options,
                                 .n_threads = 2,
                                 .kv_bytes = 16u << 20,
                                 .plugins = plugins,
                                 .n_plugins = 1,
                                 .log = log_line,
                                 .log_user = f};
    f->rt = opened_runtime(&options);
    f->model = opened_model(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary");
    f->draft = opened_model(f->rt, CADENZA_SOURCE_DIR "/models/pocket-dictionary-draft");
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    *strrchr(f->path, '/') = '\0';
    rmdir(f->path);
    cdz_model_close(f->draft);
    cdz_model_close(f->model);
    cdz_close(f->rt);
    free(f);
    return 0;
}

/* A role of that file's scripts in a pipeline, and the decoding it is asked under. */
typedef struct role {
    const char *key, *id, *decoding;
} role;

/* In a request of two rows. */
static void run_case(fixture *f, uint32_t number, const role *as)
{
    char ini[1024];
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    cdz_result *result = NULL;
    snprintf(ini, sizeof ini,
             "[pipeline]\n%s = x\n[x]\nid = %s\nseed = %u\ntrace = %s\nbudget_ms = 100000\n"
             "[generation]\nmax_new_tokens = 4\n%snum_return_sequences = 1\n",
             as->key, as->id, number, f->shown ? "yes" : "no", as->decoding);
    pipeline = opened_pipeline(f->rt, ini);
    const cdz_request request = {.size = sizeof request,
                                 .model = f->model,
                                 .assistant = number % 3 ? NULL : f->draft,
                                 .pipeline = pipeline,
                                 .keep_cache = number % 2,
                                 .json =
                                     "{\"prompt_ids\": [[72, 480, 292], [5, 6, 7]], \"seed\": 1, "
                                     "\"record\": {\"top\": 2}}"};
    const cdz_status status = cdz_generate(f->rt, &request, &result, &err);
    if (f->shown) fprintf(stderr, "%s\n", status == CDZ_OK ? "ended well" : err.text);
    if (status != CDZ_OK && !err.text[0]) fail_msg("%s %u failed in silence", as->id, number);
    if (result) assert_int_equal(cdz_result_json(result)[0], '{');
    cdz_result_free(result);
    cdz_pipeline_free(pipeline);
}

/* share: of the numbers, where a role calls as much as several others do. */
static void run_cases(fixture *f, const role *as, uint32_t share)
{
    const char *one = getenv("CADENZA_LUA_CASE"), *many = getenv("CADENZA_LUA_CASES");
    const uint32_t n = (many ? (uint32_t)strtoul(many, NULL, 10) : 250) / share;
    f->shown = one != NULL;
    if (one) run_case(f, (uint32_t)strtoul(one, NULL, 10), as);
    for (uint32_t i = 0; !one && i < n; i++) {
        printf("%s %u\n", as->id, i); /* what a sanitizer stops says where */
        fflush(stdout);
        run_case(f, i, as);
    }
}

#define GREEDY "do_sample = no\n"
#define BEAMS  "do_sample = no\nnum_beams = 2\n"

static void a_strategy_may_call_anything(void **state)
{
    run_cases(*state, &(role){"strategy", "org.example.extremes", GREEDY}, 1);
}

static void a_processor_may_call_anything(void **state)
{
    run_cases(*state, &(role){"processors", "org.example.extremes-row", GREEDY}, 1);
}

static void a_batched_processor_may_call_anything(void **state)
{
    run_cases(*state, &(role){"processors", "org.example.extremes-batch", GREEDY}, 2);
    run_cases(*state, &(role){"processors", "org.example.extremes-batch", BEAMS}, 8);
}

static void a_companion_may_be_anything(void **state)
{
    run_cases(*state, &(role){"processors", "org.example.extremes-companion", GREEDY}, 2);
    run_cases(*state, &(role){"processors", "org.example.extremes-companion", BEAMS}, 8);
}

static void a_criterion_may_call_anything(void **state)
{
    run_cases(*state, &(role){"stopping", "org.example.extremes-stop", GREEDY}, 2);
}

static void a_drafter_may_call_anything(void **state)
{
    run_cases(*state, &(role){"drafter", "org.example.extremes-draft", GREEDY}, 2);
}

static void an_observer_may_call_anything(void **state)
{
    run_cases(*state, &(role){"observers", "org.example.extremes-watch", GREEDY}, 4);
    run_cases(*state, &(role){"observers", "org.example.extremes-watch", BEAMS}, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_strategy_may_call_anything),
                                       cmocka_unit_test(a_processor_may_call_anything),
                                       cmocka_unit_test(a_batched_processor_may_call_anything),
                                       cmocka_unit_test(a_companion_may_be_anything),
                                       cmocka_unit_test(a_criterion_may_call_anything),
                                       cmocka_unit_test(a_drafter_may_call_anything),
                                       cmocka_unit_test(an_observer_may_call_anything)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
