/* params.c - parameters between a script and the host: the script's params table becomes the rows a C plugin would
 * declare, and the filled struct becomes the table p.
 *
 * A row:  penalty = { 1.0, 0, 100, "taken from the newest token's score" }      default, lowest, highest, help
 *         window  = { 64, 1, 65536, "tokens to look back over", integer = true }
 *         mode    = { "soft", "how hard to mask", words = { "soft", "hard" } }
 *         stops   = { type = "strings", help = "where to stop" }                 lists are nil when unset
 *         top_k   = { type = "integer", optional = true, generation = true, min = 1, help = "..." } */
#include <math.h>
#include <string.h>

#include "lua/script.h"
#include "lua/types.h"

typedef struct type_name {
    const char *name;
    uint16_t type, optional; /* optional: the type when `optional` is set, or 0 */
} type_name;

static const type_name type_names[] = {
    {"boolean", CDZ_T_BOOL, CDZ_T_OPT_BOOL},
    {"integer", CDZ_T_INT, CDZ_T_OPT_INT},
    {"number", CDZ_T_REAL, CDZ_T_OPT_REAL},
    {"string", CDZ_T_STRING, CDZ_T_STRING},
    {"word", CDZ_T_WORD, CDZ_T_WORD},
    {"boolean_or_word", CDZ_T_BOOL_OR_WORD, CDZ_T_BOOL_OR_WORD},
    {"integers", CDZ_T_INTS, CDZ_T_INTS},
    {"numbers", CDZ_T_REALS, CDZ_T_REALS},
    {"strings", CDZ_T_STRINGS, CDZ_T_STRINGS},
    {"integer_lists", CDZ_T_INT_LISTS, CDZ_T_INT_LISTS},
    {"weighted", CDZ_T_WEIGHTED, CDZ_T_WEIGHTED},
    {"integer_and_number", CDZ_T_INT_REAL, CDZ_T_INT_REAL},
    {"word_or_integers", CDZ_T_WORD_OR_INTS, CDZ_T_WORD_OR_INTS},
    {"integer_choices", CDZ_T_INT_CHOICES, CDZ_T_INT_CHOICES},
};

static const char *const row_keys[] = {"type",   "default",   "min",       "max",
                                       "help",   "integer",   "optional",  "generation",
                                       "strict", "above_min", "below_max", "words"};

size_t cdz_lua_param_bytes(uint32_t type)
{
    switch (type) {
    case CDZ_T_BOOL: return sizeof(bool);
    case CDZ_T_INT: return sizeof(int64_t);
    case CDZ_T_REAL: return sizeof(double);
    case CDZ_T_STRING: return sizeof(const char *);
    case CDZ_T_OPT_BOOL: return sizeof(cdz_opt_bool);
    case CDZ_T_OPT_INT: return sizeof(cdz_opt_int);
    case CDZ_T_OPT_REAL: return sizeof(cdz_opt_real);
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD: return sizeof(cdz_word);
    case CDZ_T_INTS: return sizeof(cdz_int_list);
    case CDZ_T_REALS: return sizeof(cdz_real_list);
    case CDZ_T_STRINGS: return sizeof(cdz_string_list);
    case CDZ_T_INT_LISTS: return sizeof(cdz_int_lists);
    case CDZ_T_WEIGHTED: return sizeof(cdz_weighted_list);
    case CDZ_T_WORD_OR_INTS: return sizeof(cdz_word_or_ints);
    case CDZ_T_INT_CHOICES: return sizeof(cdz_int_choices);
    default: return sizeof(cdz_int_real);
    }
}

/* --- reading a row ------------------------------------------------------------------------------------------ */

static const char *keep(lua_State *L, cdz_arena *arena, const char *text)
{
    const char *copy = cdz_arena_strdup(arena, text);

    if (!copy) luaL_error(L, "out of memory");
    return copy;
}

static bool flag(lua_State *L, int row, const char *name)
{
    cdz_lua_field(L, row, name);
    const bool yes = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return yes;
}

static void check_keys(lua_State *L, int row, const char *name)
{
    const char *wrong = lua_pushfstring(L, "parameter '%s': unknown field", name);
    cdz_lua_check_keys(L, row, row_keys, sizeof row_keys / sizeof *row_keys, true, wrong);
    lua_pop(L, 1);
}

/* The type that the default, at the top of the stack, implies; NULL: none. */
static const char *implied_type(lua_State *L, int row)
{
    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN: return "boolean";
    case LUA_TNUMBER: return flag(L, row, "integer") ? "integer" : "number";
    case LUA_TSTRING: break;
    default: return NULL;
    }
    const bool words = cdz_lua_field(L, row, "words") != LUA_TNIL;
    lua_pop(L, 1);
    return words ? "word" : "string";
}

/* The type the row names or its default implies. The default is at the top of the stack. */
static uint16_t type_of(lua_State *L, int row, const char *name)
{
    const bool optional = flag(L, row, "optional");

    cdz_lua_field(L, row, "type");
    const char *given = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pop(L, 1); /* the row holds it */
    if (!given) given = implied_type(L, row);
    if (!given) return (uint16_t)luaL_error(L, "parameter '%s': give a default or a type", name);
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (strcmp(given, type_names[i].name) == 0)
            return optional ? type_names[i].optional : type_names[i].type;
    return (uint16_t)luaL_error(L, "parameter '%s': unknown type '%s'", name, given);
}

static bool takes_default(uint16_t type)
{
    return type <= CDZ_T_WORD;
}

/* default, then positional numbers are bounds and a positional string is the help; named fields win. */
static void read_positions(lua_State *L, int row, lua_Integer first, cdz_param *out,
                           cdz_arena *arena)
{
    int bounds = 0;

    for (lua_Integer i = first, n = (lua_Integer)lua_rawlen(L, row); i <= n; i++) {
        lua_rawgeti(L, row, i);
        if (lua_type(L, -1) == LUA_TNUMBER && bounds < 2) {
            *(bounds++ == 0 ? &out->min : &out->max) = lua_tonumber(L, -1);
        } else if (lua_type(L, -1) == LUA_TSTRING && !out->help) {
            out->help = keep(L, arena, lua_tostring(L, -1));
        } else {
            luaL_error(L, "parameter '%s': element %I is neither a bound nor the help", out->name,
                       i);
        }
        lua_pop(L, 1);
    }
}

static void read_bound(lua_State *L, int row, const char *name, double *out)
{
    cdz_lua_field(L, row, name);
    if (!lua_isnil(L, -1)) *out = luaL_checknumber(L, -1);
    lua_pop(L, 1);
}

/* "a|b|c" and the place of the default in it. */
static void read_words(lua_State *L, int row, const char *chosen, cdz_param *out, cdz_arena *arena)
{
    luaL_Buffer b;

    cdz_lua_field(L, row, "words");
    if (!lua_istable(L, -1)) luaL_error(L, "parameter '%s': words is no list", out->name);
    const int words = lua_gettop(L);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, words);
    out->def = -1;
    luaL_buffinit(L, &b);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, words, i);
        const char *word = lua_tostring(L, -1);
        if (!word || strchr(word, '|') || !*word)
            luaL_error(L, "parameter '%s': word %I is no plain word", out->name, i);
        if (chosen && strcmp(word, chosen) == 0) out->def = (double)(i - 1);
        if (i > 1) luaL_addchar(&b, '|');
        lua_pushvalue(L, -1);
        lua_remove(L, -2);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    out->text = keep(L, arena, lua_tostring(L, -1));
    if (chosen && out->def < 0 && out->type == CDZ_T_WORD)
        luaL_error(L, "parameter '%s': its default '%s' is none of its words", out->name, chosen);
    lua_settop(L, words - 1);
}

/* The default, at the top of the stack, as out->type has it. */
static void read_default(lua_State *L, int row, cdz_param *out, cdz_arena *arena)
{
    const int type = lua_type(L, -1);
    const int want = out->type == CDZ_T_BOOL || out->type == CDZ_T_OPT_BOOL ? LUA_TBOOLEAN
                     : out->type == CDZ_T_STRING || out->type == CDZ_T_WORD ? LUA_TSTRING
                                                                            : LUA_TNUMBER;

    if (out->type == CDZ_T_WORD || out->type == CDZ_T_BOOL_OR_WORD ||
        out->type == CDZ_T_WORD_OR_INTS) {
        read_words(L, row, type == LUA_TSTRING ? lua_tostring(L, -1) : NULL, out, arena);
        return;
    }
    if (type == LUA_TNIL && out->type <= CDZ_T_REAL)
        luaL_error(L, "parameter '%s': it has no default (optional = true would allow that)",
                   out->name);
    if (type == LUA_TNIL) return;
    if (type != want)
        luaL_error(L, "parameter '%s': its default is a %s", out->name, luaL_typename(L, -1));
    switch (want) {
    case LUA_TBOOLEAN: out->def = lua_toboolean(L, -1); break;
    case LUA_TNUMBER: out->def = lua_tonumber(L, -1); break;
    default: out->text = keep(L, arena, lua_tostring(L, -1)); break;
    }
    if (out->type >= CDZ_T_OPT_BOOL && out->type <= CDZ_T_OPT_REAL) out->text = "set";
    if ((out->type == CDZ_T_INT || out->type == CDZ_T_OPT_INT) &&
        !(out->def == floor(out->def) && fabs(out->def) < 0x1p63))
        luaL_error(L, "parameter '%s': its default is no integer", out->name);
}

static uint16_t read_flags(lua_State *L, int row)
{
    uint16_t flags = 0;

    if (flag(L, row, "generation")) flags |= CDZ_GENERATION;
    if (flag(L, row, "strict")) flags |= CDZ_STRICT_REAL;
    if (flag(L, row, "above_min")) flags |= CDZ_ABOVE_MIN;
    if (flag(L, row, "below_max")) flags |= CDZ_BELOW_MAX;
    return flags;
}

void cdz_lua_read_param(lua_State *L, const char *name, cdz_arena *arena, cdz_param *out)
{
    const int row = lua_gettop(L);

    if (!lua_istable(L, row)) luaL_error(L, "parameter '%s' is no table", name);
    check_keys(L, row, name);
    *out = (cdz_param){.name = keep(L, arena, name), .min = -CDZ_NO_LIMIT, .max = CDZ_NO_LIMIT};
    cdz_lua_field(L, row, "help");
    if (lua_isstring(L, -1)) out->help = keep(L, arena, lua_tostring(L, -1));
    lua_pop(L, 1);

    cdz_lua_field(L, row, "default");
    const bool named = !lua_isnil(L, -1);
    if (!named) {
        lua_pop(L, 1);
        lua_rawgeti(L, row, 1);
    }
    out->type = type_of(L, row, name);
    /* Of optional and list parameters the first element can only be a bound or the help. */
    const bool positional =
        !named && takes_default(out->type) &&
        !(flag(L, row, "optional") && out->type != CDZ_T_STRING && lua_type(L, -1) == LUA_TSTRING);
    if (!named && !positional) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    read_default(L, row, out, arena);
    out->flags = read_flags(L, row);
    read_positions(L, row, positional && !lua_isnil(L, -1) ? 2 : 1, out, arena);
    read_bound(L, row, "min", &out->min);
    read_bound(L, row, "max", &out->max);
    if (out->type == CDZ_T_BOOL || out->type == CDZ_T_OPT_BOOL) out->min = 0, out->max = 1;
    if (!out->help) luaL_error(L, "parameter '%s' has no help text", name);
    lua_settop(L, row - 1);
}

/* --- p --------------------------------------------------------------------------------------------------------- */

static void push_int_list(lua_State *L, const cdz_int_list *list)
{
    lua_createtable(L, (int)list->len, 0);
    for (uint32_t i = 0; i < list->len; i++) {
        lua_pushinteger(L, list->at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_real_list(lua_State *L, const cdz_real_list *list)
{
    lua_createtable(L, (int)list->len, 0);
    for (uint32_t i = 0; i < list->len; i++) {
        lua_pushnumber(L, list->at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_string_list(lua_State *L, const cdz_string_list *list)
{
    lua_createtable(L, (int)list->len, 0);
    for (uint32_t i = 0; i < list->len; i++) {
        lua_pushlstring(L, list->at[i].at, list->at[i].len);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_int_lists(lua_State *L, const cdz_int_lists *lists)
{
    lua_createtable(L, (int)lists->len, 0);
    for (uint32_t i = 0; i < lists->len; i++) {
        push_int_list(L, &lists->at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* A weight written as an integer stays one where 64 bits hold it: it comes as a double, which rounds the largest up. */
static void push_weight(lua_State *L, const cdz_weighted *pair)
{
    lua_Integer whole;
    if (pair->weight_is_int && lua_numbertointeger(pair->weight, &whole))
        lua_pushinteger(L, whole);
    else
        lua_pushnumber(L, pair->weight);
}

/* {{ids, weight}, ...}: what sequence_bias takes. A weight written as an integer stays one; is_map: see plugin.h. */
static void push_weighted(lua_State *L, const cdz_weighted_list *list)
{
    lua_createtable(L, (int)list->len, 0);
    for (uint32_t i = 0; i < list->len; i++) {
        lua_createtable(L, 2, 0);
        push_int_list(L, &list->at[i].ids);
        lua_rawseti(L, -2, 1);
        push_weight(L, &list->at[i]);
        lua_rawseti(L, -2, 2);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushboolean(L, list->is_map);
    lua_setfield(L, -2, "is_map");
}

static void push_pair(lua_State *L, const cdz_int_real *pair)
{
    lua_createtable(L, 2, 0);
    lua_pushinteger(L, pair->first);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, pair->second);
    lua_rawseti(L, -2, 2);
}

/* The i-th word of "a|b|c", from 0. */
static void push_word(lua_State *L, const char *words, int32_t i)
{
    for (; i > 0; i--) {
        const char *bar = strchr(words, '|');
        if (!bar) break;
        words = bar + 1;
    }
    lua_pushlstring(L, words, strcspn(words, "|"));
}

static void push_chosen(lua_State *L, const cdz_param *param, const cdz_word *word)
{
    if (param->type == CDZ_T_WORD)
        push_word(L, param->text, word->value);
    else if (word->value < 2)
        lua_pushboolean(L, word->value == 1);
    else
        push_word(L, param->text, word->value - 2);
}

/* Each item a list of lists, also a choice of one. */
static void push_choices(lua_State *L, const cdz_int_choices *choices)
{
    lua_createtable(L, (int)choices->len, 0);
    for (uint32_t i = 0; i < choices->len; i++) {
        push_int_lists(L, &choices->at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* A string, a list, or nil. */
static void push_word_or_ints(lua_State *L, const cdz_param *param, const cdz_word_or_ints *value)
{
    if (value->word.set)
        push_word(L, param->text, value->word.value);
    else if (value->ints.set)
        push_int_list(L, &value->ints);
    else
        lua_pushnil(L);
}

/* Pushes what may be unset: nil then. */
static void push_settable(lua_State *L, const cdz_param *param, const void *at)
{
    union {
        cdz_opt_bool b;
        cdz_opt_int i;
        cdz_opt_real r;
        cdz_word w;
        cdz_int_list ints;
        cdz_real_list reals;
        cdz_string_list strings;
        cdz_int_lists lists;
        cdz_weighted_list weighted;
        cdz_int_real pair;
        cdz_word_or_ints mixed;
        cdz_int_choices choices;
    } v;

    memcpy(&v, at, cdz_lua_param_bytes(param->type));
#define WHEN_SET(kind, field, push)                                                                \
    case kind:                                                                                     \
        if (v.field.set)                                                                           \
            push;                                                                                  \
        else                                                                                       \
            lua_pushnil(L);                                                                        \
        break
    switch (param->type) {
        WHEN_SET(CDZ_T_OPT_BOOL, b, lua_pushboolean(L, v.b.value));
        WHEN_SET(CDZ_T_OPT_INT, i, lua_pushinteger(L, v.i.value));
        WHEN_SET(CDZ_T_OPT_REAL, r, lua_pushnumber(L, v.r.value));
        WHEN_SET(CDZ_T_WORD, w, push_chosen(L, param, &v.w));
        WHEN_SET(CDZ_T_BOOL_OR_WORD, w, push_chosen(L, param, &v.w));
        WHEN_SET(CDZ_T_INTS, ints, push_int_list(L, &v.ints));
        WHEN_SET(CDZ_T_REALS, reals, push_real_list(L, &v.reals));
        WHEN_SET(CDZ_T_STRINGS, strings, push_string_list(L, &v.strings));
        WHEN_SET(CDZ_T_INT_LISTS, lists, push_int_lists(L, &v.lists));
        WHEN_SET(CDZ_T_WEIGHTED, weighted, push_weighted(L, &v.weighted));
        WHEN_SET(CDZ_T_INT_REAL, pair, push_pair(L, &v.pair));
        WHEN_SET(CDZ_T_INT_CHOICES, choices, push_choices(L, &v.choices));
    case CDZ_T_WORD_OR_INTS: push_word_or_ints(L, param, &v.mixed); break;
    default: lua_pushnil(L); break;
    }
#undef WHEN_SET
}

void cdz_lua_push_param(lua_State *L, const cdz_param *param, const void *params)
{
    const char *at = (const char *)params + param->offset;
    bool b;
    int64_t i;
    double r;
    const char *s;

    switch (param->type) {
    case CDZ_T_BOOL:
        memcpy(&b, at, sizeof b);
        lua_pushboolean(L, b);
        break;
    case CDZ_T_INT:
        memcpy(&i, at, sizeof i);
        lua_pushinteger(L, i);
        break;
    case CDZ_T_REAL:
        memcpy(&r, at, sizeof r);
        lua_pushnumber(L, r);
        break;
    case CDZ_T_STRING:
        memcpy(&s, at, sizeof s);
        lua_pushstring(L, s); /* nil when NULL */
        break;
    default: push_settable(L, param, at); break;
    }
}

static int refuse_param(lua_State *L)
{
    return luaL_error(L, "parameters are read-only");
}

/* Reading a parameter the script did not declare is a slip, not nil. Upvalue: the names declared. */
static int unknown_param(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 0;
    lua_pushvalue(L, lua_upvalueindex(1));
    const char *near = cdz_lua_suggest_key(L);
    return luaL_error(L, "no parameter '%s' is declared%s", cdz_lua_text(L, 2, NULL), near);
}

void cdz_lua_push_params(lua_State *L, const cdz_lua_def *def, const void *params)
{
    const cdz_plugin_base *base = &def->as.base;

    lua_newtable(L); /* face */
    lua_newtable(L); /* its metatable */
    lua_newtable(L); /* values */
    lua_newtable(L); /* values' metatable */
    lua_newtable(L); /* names */
    for (uint32_t i = 0; params && i < base->n_params; i++) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, base->params[i].name);
        cdz_lua_push_param(L, &base->params[i], params);
        lua_setfield(L, -4, base->params[i].name);
    }
    lua_pushcclosure(L, unknown_param, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_param);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}
