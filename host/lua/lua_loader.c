/* lua_loader.c - a script's file: refusing it, running it, starting it again for each request. */
#include "lua/lua_loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "lua/console.h"
#include "lua/script.h"

#define MAX_REASONS      256
#define MAX_REASON_BYTES 256
#define MAX_DECLARED     (4u << 20) /* bytes of descriptors and parameter tables */

const char *cdz_lua_module_name(const cdz_lua_module *module)
{
    return module->name;
}

const char *cdz_lua_module_reason(cdz_lua_module *module, const char *text, size_t len)
{
    const char *found = NULL;

    if (len > MAX_REASON_BYTES) len = cdz_utf8_valid_prefix(text, MAX_REASON_BYTES);
    cdz_mutex_lock(&module->lock);
    for (uint32_t i = 0; i < module->n_reasons && !found; i++)
        if (cdz_is_word(text, len, module->reasons[i])) found = module->reasons[i];
    if (!found && module->n_reasons < MAX_REASONS) {
        char *copy = strndup(text, len);
        if (copy) found = module->reasons[module->n_reasons++] = copy;
    }
    cdz_mutex_unlock(&module->lock);
    return found ? found : "custom";
}

cdz_status cdz_lua_report(const cdz_lua_session *S, const cdz_step *step, cdz_status st)
{
    if (st == CDZ_OK) return st;
    /* The host's sentence stands: the place goes before it (plugin.h: cdz_fail). */
    if (S->spent == CDZ_LUA_SPENT_STATUS) {
        const bool told = st != CDZ_E_CANCELLED && st != CDZ_E_DEADLINE;
        return told && S->where[0] ? cdz_fail(step, st, "%s", S->where) : st;
    }
    return cdz_fail(step, st, "%s", S->error);
}

/* --- running the file -------------------------------------------------------------------------------- */

/* [protected] Leaves what the script returned in the RESULT slot. */
static int run_file(lua_State *L)
{
    cdz_lua_session *S = cdz_lua_of(L);
    const cdz_lua_module *m = S->module;
    const char *name = lua_pushfstring(L, "@%s", m->name);

    if (luaL_loadbufferx(L, m->source, m->source_len, name, "t") != LUA_OK) return lua_error(L);
    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    lua_setupvalue(L, -2, 1);
    S->loading = true;
    lua_call(L, 0, 1);
    S->loading = false;
    cdz_lua_set(L, CDZ_LUA_SLOT_RESULT);
    return 0;
}

static int declare(lua_State *L)
{
    cdz_lua_get(L, CDZ_LUA_SLOT_RESULT);
    cdz_lua_declare(L, cdz_lua_of(L)->module);
    return 0;
}

static void keep_field(lua_State *L, const char *name, cdz_lua_slot slot)
{
    lua_getfield(L, -1, name);
    cdz_lua_set(L, slot);
}

/* [protected] Finds the functions of the plugin this session is for, and makes p and ctx. */
static int bind_plugin(lua_State *L)
{
    cdz_lua_session *S = cdz_lua_of(L);
    const cdz_lua_def *def = lua_touserdata(L, 1);
    static const char *const call[] = {NULL, "apply", "test", "run",  "propose",
                                       NULL, NULL,    NULL,   "score"};

    cdz_lua_get(L, CDZ_LUA_SLOT_RESULT);
    cdz_lua_push_def(L, lua_gettop(L), def->index, S->kind);
    if (call[S->kind]) keep_field(L, call[S->kind], CDZ_LUA_SLOT_CALL); /* observers have several */
    if (S->kind == CDZ_KIND_STRATEGY && lua_getfield(L, -1, "generate") != LUA_TNIL)
        cdz_lua_set(L, CDZ_LUA_SLOT_CALL);
    else if (S->kind == CDZ_KIND_STRATEGY)
        lua_pop(L, 1);
    keep_field(L, S->kind == CDZ_KIND_DRAFTER ? "judged" : "accept", CDZ_LUA_SLOT_ACCEPT);
    cdz_lua_set(L, CDZ_LUA_SLOT_DEF);
    cdz_lua_push_params(L, def, S->step->params);
    cdz_lua_set(L, CDZ_LUA_SLOT_PARAMS);
    if (S->kind == CDZ_KIND_STRATEGY)
        cdz_lua_push_decoder_ctx(L);
    else
        cdz_lua_push_ctx(L);
    cdz_lua_set(L, CDZ_LUA_SLOT_CTX);
    lua_newtable(L);
    cdz_lua_set(L, CDZ_LUA_SLOT_STATES);
    lua_newtable(L);
    cdz_lua_set(L, CDZ_LUA_SLOT_FACES);
    return 0;
}

static cdz_lua_limits limits_of(const cdz_lua_def *def, const void *params)
{
    const char *p = params;

    if (!p) return CDZ_LUA_DEFAULT_LIMITS;
    return (cdz_lua_limits){*(const int64_t *)(const void *)(p + def->instructions_at),
                            *(const int64_t *)(const void *)(p + def->ms_at),
                            *(const int64_t *)(const void *)(p + def->memory_at)};
}

/* The file itself may always cost what it may cost when it is first looked at. */
static cdz_status run_file_again(cdz_lua_session *S, const cdz_step *step)
{
    const cdz_lua_limits own = S->limits, least = CDZ_LUA_FILE_LIMITS;

    if (S->limits.instructions < least.instructions) S->limits.instructions = least.instructions;
    if (S->limits.ms < least.ms) S->limits.ms = least.ms;
    const cdz_status st = cdz_lua_enter(S, step, 1, run_file, NULL);
    S->limits = own;
    S->request_used = 0;
    S->request_s = 0;
    return st;
}

/* A request may spend so many times CDZ_LUA_REQUEST_CALLS calls: once per row and for every 1000 tokens it may make. */
static uint32_t request_factor(const cdz_request_info *request)
{
    const uint64_t new_tokens =
        request->max_length > request->prompt_len ? request->max_length - request->prompt_len : 0;
    const uint64_t factor =
        (uint64_t)(request->n_rows > 0 ? request->n_rows : 1) * (1 + new_tokens / 1000);

    return factor < CDZ_LUA_MAX_FACTOR ? (uint32_t)factor : CDZ_LUA_MAX_FACTOR;
}

cdz_status cdz_lua_start(const cdz_lua_def *def, const cdz_step *step, cdz_lua_session **out)
{
    const cdz_lua_limits limits = limits_of(def, step->params);
    const cdz_request_info *request = step->request;
    cdz_lua_session *S = NULL;
    cdz_error err = {0};

    cdz_status st = cdz_lua_open(def->module, def->as.base.kind, &limits,
                                 request ? request->n_vocab : 0, &S, &err);
    if (st != CDZ_OK) return cdz_fail(step, st, "%s", err.text);
    if (request) S->request_rows = request_factor(request);
    st = run_file_again(S, step);
    if (st == CDZ_OK) {
        void *arg;
        memcpy(&arg, &def, sizeof arg);
        st = cdz_lua_enter(S, step, 1, bind_plugin, arg);
    }
    if (st != CDZ_OK) {
        cdz_lua_report(S, step, st);
        cdz_lua_close(S);
        return st;
    }
    *out = S;
    return CDZ_OK;
}

/* --- the loader -------------------------------------------------------------------------------------- */

static void unload(void *state)
{
    cdz_lua_module *m = state;

    if (!m) return;
    for (uint32_t i = 0; m->reasons && i < m->n_reasons; i++) free(m->reasons[i]);
    free(m->reasons);
    cdz_lua_free_files(m);
    cdz_arena_free(&m->arena);
    cdz_mutex_destroy(&m->lock);
    free(m->source);
    free(m->name);
    free(m);
}

cdz_status cdz_lua_module_empty(const char *name, cdz_lua_module **out, cdz_error *err)
{
    cdz_lua_module *m = calloc(1, sizeof *m);

    if (!m) return cdz_err_memory_in(err, name);
    cdz_mutex_init(&m->lock);
    m->arena.limit = MAX_DECLARED;
    m->name = strdup(name);
    m->reasons = calloc(MAX_REASONS, sizeof *m->reasons);
    if (!m->name || !m->reasons) {
        unload(m);
        return cdz_err_memory_in(err, name);
    }
    *out = m;
    return CDZ_OK;
}

void cdz_lua_module_free(cdz_lua_module *module)
{
    unload(module);
}

static cdz_status open_module(const cdz_plugin_file *file, cdz_lua_module **out, cdz_error *err)
{
    cdz_lua_module *m = NULL;

    CDZ_TRY(cdz_lua_module_empty(file->name, &m, err));
    m->source_len = (size_t)file->len;
    cdz_status st = cdz_lua_take_text(file, &m->source, err);
    if (st == CDZ_OK) st = cdz_lua_take_files(m, file, err);
    if (st != CDZ_OK) {
        unload(m);
        return st;
    }
    *out = m;
    return CDZ_OK;
}

static cdz_status load(const cdz_plugin_file *file, cdz_lua_module **out, cdz_error *err)
{
    const cdz_lua_limits limits = CDZ_LUA_FILE_LIMITS;
    cdz_lua_module *m = NULL;
    cdz_lua_session *S = NULL;

    CDZ_TRY(open_module(file, &m, err));
    cdz_status st = cdz_lua_open(m, 0, &limits, 0, &S, err);
    if (st == CDZ_OK) {
        st = cdz_lua_enter(S, NULL, 1, run_file, NULL);
        if (st == CDZ_OK) st = cdz_lua_enter(S, NULL, 1, declare, NULL);
        if (st != CDZ_OK) cdz_err(err, st, "%s", S->error);
    }
    cdz_lua_close(S);
    if (st == CDZ_OK)
        *out = m;
    else
        unload(m);
    return st;
}

static cdz_status open_file(const cdz_step *step, const cdz_plugin_file *file, cdz_opened *out)
{
    cdz_lua_module *m = NULL;
    cdz_error err = {0};
    const cdz_status st = load(file, &m, &err);

    if (st != CDZ_OK && strstr(err.text, file->name)) return cdz_fail(step, st, "%s", err.text);
    if (st != CDZ_OK) return cdz_fail(step, st, "%s: %s", file->path, err.text);
    out->state = m;
    out->plugins = m->plugins;
    out->n_plugins = m->n_plugins;
    return CDZ_OK;
}

static void close_file(const cdz_step *step, void *state)
{
    (void)step;
    unload(state);
}

const cdz_loader cdz_lua_loader = {
    .base = {CDZ_LOADER_BASE, .id = "org.cadenza.lua-loader", .version = "1.0.0",
             .summary = "Plugins in Lua 5.4, in a sandbox"},
    .caps = CDZ_SANDBOXES,
    .max_bytes = CDZ_LUA_MAX_DATA, /* of scripts less: cdz_lua_take_text */
    .endings = "lua",
    .open = open_file,
    .close = close_file,
};
