/* require.c - require "name": the other .lua files of a package, and nothing else; and cadenza.file("name"), its files of data.
 *
 * A package names them in its plugin.ini (files = tables.lua, words.lua). The host reads them with the script, by
 * name and never by a path that the script makes up, so what runs later is what was there then. Each runs once per state,
 * in the script's own sandbox, and what it returned is what every later require of it gives. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "lua/console.h"
#include "lua/script.h"
#include "plug/manifest.h"

#define MAX_FILES_BYTES (1u << 20) /* of all files together */

/* --- reading ----------------------------------------------------------------------------------------------------- */

static size_t line_of(const char *text, size_t at)
{
    size_t line = 1;

    for (size_t i = 0; i < at; i++) line += text[i] == '\n';
    return line;
}

static cdz_status check_text(const char *path, const char *text, size_t len, cdz_error *err)
{
    const size_t valid = cdz_utf8_valid_prefix(text, len);

    if (len > 0 && text[0] == 0x1b)
        return cdz_err(err, CDZ_E_INPUT, "%s: is compiled Lua; only source text is accepted", path);
    if (valid < len)
        return cdz_err(err, CDZ_E_INPUT, "%s:%zu: is not valid UTF-8", path, line_of(text, valid));
    return CDZ_OK;
}

cdz_status cdz_lua_read_text(const char *path, char **text, size_t *len, cdz_error *err)
{
    CDZ_TRY(cdz_file_read(path, CDZ_LUA_MAX_SOURCE, text, len, err));
    cdz_status st = check_text(path, *text, *len, err);
    if (st == CDZ_OK) return st;
    free(*text);
    *text = NULL;
    return st;
}

cdz_status cdz_lua_take_text(const cdz_plugin_file *file, char **text, cdz_error *err)
{
    if (!file->bytes || file->len > CDZ_LUA_MAX_SOURCE)
        return cdz_err(err, CDZ_E_LIMIT, "%s: has %llu bytes, the limit is %u", file->path,
                       (unsigned long long)file->len, CDZ_LUA_MAX_SOURCE);
    const size_t len = (size_t)file->len;
    CDZ_TRY(check_text(file->path, file->bytes, len, err));
    *text = malloc(len + 1);
    if (!*text) return cdz_err_memory_in(err, file->path);
    memcpy(*text, file->bytes, len + 1); /* and the NUL */
    return CDZ_OK;
}

/* Bytes of any kind, as they were read with the script. */
static cdz_status take_data(cdz_lua_module *m, const cdz_plugin_file *file, cdz_error *err)
{
    cdz_lua_file *f = &m->files[m->n_files + m->n_data];
    f->name = cdz_arena_strdup(&m->arena, file->name);
    f->len = (size_t)file->len;
    if (!f->name) return cdz_err_memory_in(err, m->name);
    m->n_data++;
    if (!file->bytes) return CDZ_OK;
    f->source = malloc(f->len + 1);
    if (!f->source) return cdz_err_memory_in(err, file->path);
    memcpy(f->source, file->bytes, f->len + 1);
    return CDZ_OK;
}

static bool is_lua(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && strcmp(dot, ".lua") == 0;
}

cdz_status cdz_lua_take_files(cdz_lua_module *m, const cdz_plugin_file *entry, cdz_error *err)
{
    size_t total = 0;

    m->files = cdz_arena_array(&m->arena, entry->n_files + 1, sizeof *m->files);
    if (!m->files) return cdz_err_memory_in(err, m->name);
    for (uint32_t i = 0; i < entry->n_files; i++) {
        const cdz_plugin_file *file = entry->files[i];
        if (!is_lua(file->name)) continue;
        cdz_lua_file *f = &m->files[m->n_files];
        f->name = cdz_arena_strdup(&m->arena, file->name);
        if (!f->name) return cdz_err_memory_in(err, m->name);
        CDZ_TRY(cdz_lua_take_text(file, &f->source, err));
        f->len = (size_t)file->len;
        m->n_files++;
        total += f->len;
        if (total > MAX_FILES_BYTES)
            return cdz_err(err, CDZ_E_LIMIT,
                           "%s: the files of its package have more than %u bytes together",
                           entry->path, MAX_FILES_BYTES);
    }
    for (uint32_t i = 0; i < entry->n_files; i++)
        if (!is_lua(entry->files[i]->name)) CDZ_TRY(take_data(m, entry->files[i], err));
    return CDZ_OK;
}

void cdz_lua_free_files(cdz_lua_module *m)
{
    for (uint32_t i = 0; i < m->n_files + m->n_data; i++) free(m->files[i].source);
}

/* --- data -------------------------------------------------------------------------------------------------------- */

static const cdz_lua_file *find_data(const cdz_lua_module *m, const char *name)
{
    for (uint32_t i = m->n_files; i < m->n_files + m->n_data; i++)
        if (strcmp(m->files[i].name, name) == 0) return &m->files[i];
    return NULL;
}

static int refuse_data(lua_State *L, const cdz_lua_module *m, const char *name)
{
    const char *names[CDZ_MANIFEST_FILES];
    if (is_lua(name))
        return luaL_error(L, "cadenza.file '%s': a script is loaded by require", name);
    for (uint32_t i = 0; i < m->n_data; i++) names[i] = m->files[m->n_files + i].name;
    const char *near = m->n_data ? cdz_nearest_name(name, names, m->n_data) : NULL;
    return luaL_error(L, "cadenza.file '%s': not among the files of plugin.ini%s%s%s", name,
                      near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* cadenza.file(name): the bytes of a file that plugin.ini lists. */
int cdz_lua_file_bytes(lua_State *L)
{
    const cdz_lua_module *m = cdz_lua_of(L)->module;
    size_t len;
    const char *name = luaL_checklstring(L, 1, &len);
    const cdz_lua_file *f = strlen(name) == len ? find_data(m, name) : NULL;

    if (!f) return refuse_data(L, m, name);
    if (!f->source)
        return luaL_error(L, "cadenza.file '%s': has %I bytes, the limit is %I", name,
                          (lua_Integer)f->len, (lua_Integer)CDZ_LUA_MAX_DATA);
    cdz_lua_charge(L, (int64_t)(f->len / 64 + 1));
    lua_pushlstring(L, f->source, f->len);
    return 1;
}

/* --- require ------------------------------------------------------------------------------------------------------ */

/* "words" and "words.lua" are the same file. */
static const cdz_lua_file *find(const cdz_lua_module *m, const char *name, size_t len)
{
    for (uint32_t i = 0; i < m->n_files; i++) {
        const char *file = m->files[i].name;
        const size_t n = strlen(file);
        if ((n == len || n == len + 4) && memcmp(file, name, len) == 0) return &m->files[i];
    }
    return NULL;
}

static int refuse(lua_State *L, const cdz_lua_module *m, const char *name)
{
    const char *names[CDZ_MANIFEST_FILES];

    if (m->n_files == 0)
        return luaL_error(L,
                          "require '%s': this script has no other files; a package names them in "
                          "its plugin.ini (files = NAME.lua)",
                          name);
    luaL_checkstack(L, (int)m->n_files + 4, NULL);
    for (uint32_t i = 0; i < m->n_files; i++)
        names[i] = lua_pushlstring(L, m->files[i].name, strlen(m->files[i].name) - 4);
    const char *near = cdz_nearest_name(name, names, m->n_files);
    lua_pushliteral(L, "");
    if (near) lua_pushfstring(L, ": did you mean '%s'?", near);
    return luaL_error(L, "require '%s': not among the files of plugin.ini%s", name,
                      lua_tostring(L, -1));
}

/* Upvalue: what is loaded, by file name; false while its file runs. */
static int l_require(lua_State *L)
{
    const cdz_lua_module *m = cdz_lua_of(L)->module;
    size_t len;
    const char *name = luaL_checklstring(L, 1, &len);
    const cdz_lua_file *f = strlen(name) == len ? find(m, name, len) : NULL;

    lua_settop(L, 1);
    if (!f) return refuse(L, m, name);
    if (lua_getfield(L, lua_upvalueindex(1), f->name) == LUA_TBOOLEAN && !lua_toboolean(L, -1))
        return luaL_error(L, "require '%s': %s requires itself, or failed when it ran", name,
                          f->name);
    if (!lua_isnil(L, -1)) return 1;
    cdz_lua_guard_stack(L);
    cdz_lua_charge(L, (int64_t)(f->len / 4 + 1));
    lua_pushfstring(L, "@%s", f->name);
    if (luaL_loadbufferx(L, f->source, f->len, lua_tostring(L, -1), "t") != LUA_OK)
        return lua_error(L);
    cdz_lua_get(L, CDZ_LUA_SLOT_ENV);
    lua_setupvalue(L, -2, 1);
    lua_pushboolean(L, 0);
    lua_setfield(L, lua_upvalueindex(1), f->name);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1) || (lua_isboolean(L, -1) && !lua_toboolean(L, -1))) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, lua_upvalueindex(1), f->name);
    return 1;
}

void cdz_lua_push_require(lua_State *L)
{
    lua_newtable(L);
    lua_pushcclosure(L, l_require, 1);
}
