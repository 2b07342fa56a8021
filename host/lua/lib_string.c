/* lib_string.c - the string library of scripts. What matches patterns or can make long text is written anew with limits;
 * the rest is the stock function, charged for the bytes it is given. */
#include <lualib.h>
#include <string.h>

#include "base/ascii.h"
#include "lua/pattern.h"
#include "lua/session.h"

#define MAX_TEXT (1u << 20)

static const char *check_subject(lua_State *L, int index, size_t *len)
{
    const char *s = luaL_checklstring(L, index, len);

    if (*len > CDZ_PATTERN_SUBJECT) luaL_error(L, "text too long (at most 1 MiB)");
    cdz_lua_charge(L, 1 + (lua_Integer)(*len / 256));
    return s;
}

/* A start position: from 1, negative from the end. */
static size_t start_at(lua_Integer pos, size_t len)
{
    if (pos > 0) return (size_t)pos - 1;
    if (pos == 0 || pos < -(lua_Integer)len) return 0;
    return len - (size_t)(-pos);
}

static int l_rep(lua_State *L)
{
    size_t len, n_sep;
    const char *s = luaL_checklstring(L, 1, &len);
    const lua_Integer n = luaL_checkinteger(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &n_sep);
    luaL_Buffer b;

    if (n <= 0 || len + n_sep == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if ((lua_Unsigned)n > MAX_TEXT / (len + n_sep))
        return luaL_error(L, "text too long (at most 1 MiB)");
    cdz_lua_charge(L, 1 + n / 16 + (lua_Integer)((size_t)n * (len + n_sep) / 256));
    const size_t total = (size_t)n * (len + n_sep) - n_sep;
    char *to = luaL_buffinitsize(L, &b, total);
    for (lua_Integer i = 0; i < n; i++) {
        memcpy(to, s, len);
        to += len;
        if (i + 1 == n) break;
        memcpy(to, sep, n_sep);
        to += n_sep;
    }
    luaL_pushresultsize(&b, total);
    return 1;
}

/* --- find and match ---------------------------------------------------------------------------------------- */

static bool has_specials(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cdz_byte_in(p[i], "^$*+?.([%-")) return true;
    return false;
}

static int find_plain(lua_State *L, const char *s, size_t len, size_t from, const char *p, size_t n)
{
    cdz_lua_charge(L, 1 + (lua_Integer)(len / 64));
    const char *hit = n == 0 ? s + from : memmem(s + from, len - from, p, n);
    if (!hit) return lua_pushnil(L), 1;
    lua_pushinteger(L, (lua_Integer)(hit - s) + 1);
    lua_pushinteger(L, (lua_Integer)(hit - s) + (lua_Integer)n);
    return 2;
}

static int find_or_match(lua_State *L, bool find)
{
    size_t len, n;
    const char *s = check_subject(L, 1, &len), *p = luaL_checklstring(L, 2, &n);
    const size_t from = start_at(luaL_optinteger(L, 3, 1), len);
    cdz_matcher m;

    if (from > len) return lua_pushnil(L), 1;
    if (find && (lua_toboolean(L, 4) || !has_specials(p, n)))
        return find_plain(L, s, len, from, p, n);
    const bool anchor = n > 0 && *p == '^';
    cdz_matcher_init(&m, L, s, len, p, n);
    for (const char *at = s + from; at <= m.subject_end; at++) {
        m.n_captures = 0;
        const char *e = cdz_match(&m, at, p + anchor);
        if (e && find) {
            lua_pushinteger(L, (lua_Integer)(at - s) + 1);
            lua_pushinteger(L, (lua_Integer)(e - s));
            return cdz_push_captures(&m, NULL, NULL) + 2;
        }
        if (e) return cdz_push_captures(&m, at, e);
        if (anchor) break;
    }
    return lua_pushnil(L), 1;
}

static int l_find(lua_State *L)
{
    return find_or_match(L, true);
}

static int l_match(lua_State *L)
{
    return find_or_match(L, false);
}

/* --- gmatch -------------------------------------------------------------------------------------------------- */

/* Upvalues: subject, pattern, next start (0-based), end of the last match (-1: none). A match may not end where the last
 * one ended, so an empty one cannot repeat. */
static int next_match(lua_State *L)
{
    size_t len, n;
    const char *s = lua_tolstring(L, lua_upvalueindex(1), &len);
    const char *p = lua_tolstring(L, lua_upvalueindex(2), &n);
    const lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    cdz_matcher m;

    cdz_lua_charge(L, 2);
    cdz_matcher_init(&m, L, s, len, p, n);
    for (size_t at = (size_t)lua_tointeger(L, lua_upvalueindex(3)); at <= len; at++) {
        m.n_captures = 0;
        const char *e = cdz_match(&m, s + at, p);
        if (!e || e - s == last) continue;
        lua_pushinteger(L, e - s);
        lua_copy(L, -1, lua_upvalueindex(3));
        lua_replace(L, lua_upvalueindex(4));
        return cdz_push_captures(&m, s + at, e);
    }
    lua_pushinteger(L, (lua_Integer)len + 1);
    lua_replace(L, lua_upvalueindex(3));
    return 0;
}

static int l_gmatch(lua_State *L)
{
    size_t len;

    check_subject(L, 1, &len);
    luaL_checkstring(L, 2);
    const size_t from = start_at(luaL_optinteger(L, 3, 1), len);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)(from > len ? len + 1 : from));
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, next_match, 4);
    return 1;
}

/* --- gsub ---------------------------------------------------------------------------------------------------- */

/* Adds the replacement text with %0-%9 and %% filled in. */
static void add_template(cdz_matcher *m, luaL_Buffer *b, const char *s, const char *e)
{
    size_t n;
    const char *r = lua_tolstring(m->L, 3, &n);

    for (size_t i = 0; i < n; i++) {
        if (r[i] != '%') {
            luaL_addchar(b, r[i]);
            continue;
        }
        i++;
        if (i < n && r[i] == '%') {
            luaL_addchar(b, '%');
        } else if (i < n && r[i] == '0') {
            luaL_addlstring(b, s, (size_t)(e - s));
        } else if (i < n && r[i] > '0' && r[i] <= '9') {
            cdz_push_capture(m, r[i] - '1', s, e);
            luaL_tolstring(m->L, -1, NULL);
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else {
            luaL_error(m->L, "invalid use of '%%' in replacement string");
        }
    }
}

/* Adds what replaces the match [s, e); true when that differs from the match itself. */
static bool add_replacement(cdz_matcher *m, luaL_Buffer *b, const char *s, const char *e)
{
    lua_State *L = m->L;

    switch (lua_type(L, 3)) {
    case LUA_TFUNCTION: {
        lua_pushvalue(L, 3);
        const int n = cdz_push_captures(m, s, e);
        lua_call(L, n, 1);
        break;
    }
    case LUA_TTABLE:
        cdz_push_capture(m, 0, s, e);
        lua_gettable(L, 3);
        break;
    default: add_template(m, b, s, e); return true;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(e - s));
        return false;
    }
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(b);
    return true;
}

static int l_gsub(lua_State *L)
{
    size_t len, n_pattern;
    const char *s = check_subject(L, 1, &len), *p = luaL_checklstring(L, 2, &n_pattern);
    const int type = lua_type(L, 3);
    const lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)len + 1);
    const char *end = s + len, *last = NULL;
    const bool anchor = n_pattern > 0 && *p == '^';
    lua_Integer n = 0;
    cdz_matcher m;
    luaL_Buffer b;

    luaL_argexpected(L,
                     type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                         type == LUA_TTABLE,
                     3, "string/function/table");
    cdz_lua_guard_stack(L);
    cdz_matcher_init(&m, L, s, len, p, n_pattern);
    luaL_buffinit(L, &b);
    while (n < most) {
        m.n_captures = 0;
        const char *e = cdz_match(&m, s, p + anchor);
        if (e && e != last) {
            n++;
            cdz_lua_charge(L, 1);
            add_replacement(&m, &b, s, e);
            s = last = e;
        } else if (s < end) {
            luaL_addchar(&b, *s++);
        } else {
            break;
        }
        if (luaL_bufflen(&b) > MAX_TEXT) return luaL_error(L, "text too long (at most 1 MiB)");
        if (anchor) break;
    }
    luaL_addlstring(&b, s, (size_t)(end - s));
    luaL_pushresult(&b);
    lua_pushinteger(L, n);
    return 2;
}

/* --- format ------------------------------------------------------------------------------------------------ */

/* The argument of one conversion becomes text without addresses for %s; %p and %q are refused. */
static void check_conversion(lua_State *L, char conversion, int arg)
{
    if (conversion == 's' && lua_type(L, arg) != LUA_TSTRING) {
        if (lua_isnone(L, arg)) return; /* the stock function says which is missing */
        if (lua_type(L, arg) != LUA_TTABLE || !luaL_callmeta(L, arg, "__tostring"))
            cdz_lua_text(L, arg, NULL);
        if (!lua_isstring(L, -1)) luaL_error(L, "'__tostring' must return a string");
        lua_replace(L, arg);
    }
    if (conversion == 'p' || conversion == 'q')
        luaL_error(L, "'%%%c' is not allowed in format", conversion);
}

/* Upvalue: the stock function. */
static int l_format(lua_State *L)
{
    size_t n;
    const char *f = luaL_checklstring(L, 1, &n);
    size_t bytes = n;
    int arg = 1;

    cdz_lua_guard_stack(L);
    for (size_t i = 0; i < n; i++) {
        if (f[i] != '%') continue;
        i += 1 + strspn(f + i + 1, "-+ #0123456789.");
        if (i >= n || f[i] == '%') continue;
        check_conversion(L, f[i], ++arg);
        bytes += 512 + (lua_type(L, arg) == LUA_TSTRING ? lua_rawlen(L, arg) : 0);
    }
    if (bytes > MAX_TEXT) return luaL_error(L, "text too long (at most 1 MiB)");
    cdz_lua_charge(L, 1 + (lua_Integer)(bytes / 256));
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void cdz_lua_push_string_lib(lua_State *L)
{
    static const char *const charged[] = {"lower", "reverse", "upper", /* every byte is looked at */
                                          "byte",  "char",    "len",   "sub"};
    static const luaL_Reg own[] = {{"rep", l_rep},       {"find", l_find}, {"match", l_match},
                                   {"gmatch", l_gmatch}, {"gsub", l_gsub}, {NULL, NULL}};

    lua_pushcfunction(L, luaopen_string);
    lua_call(L, 0, 1);
    luaL_newlib(L, own);
    for (size_t i = 0; i < sizeof charged / sizeof *charged; i++) {
        lua_getfield(L, -2, charged[i]);
        cdz_lua_wrap_charged(L, i < 3 ? 16 : 256);
        lua_setfield(L, -2, charged[i]);
    }
    lua_getfield(L, -2, "format");
    lua_pushcclosure(L, l_format, 1);
    lua_setfield(L, -2, "format");
    lua_remove(L, -2);
}
