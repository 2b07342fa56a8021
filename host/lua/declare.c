/* declare.c - cadenza.processor, .criterion, .strategy, .drafter, .observer and .press: from a script's table to a descriptor.
 *
 * Checked where the script calls them, so that an error names the line. In later runs of the same file, for requests,
 * the descriptor exists and the call only wraps the table. */
#include <string.h>

#include "base/ascii.h"
#include "describe/descriptor.h"
#include "lua/script.h"
#include "lua/types.h"

#define PLUGIN   "cadenza.plugin"
#define MAX_ID   64
#define MAX_TEXT 500

/* What cadenza.processor returns: an object that holds the script's table and, at first, its descriptor. */
typedef struct plugin_object {
    uint32_t kind;
    cdz_lua_def *def; /* in the module's arena; NULL in later runs */
} plugin_object;

typedef struct cap_name {
    const char *name;
    uint32_t cap;
} cap_name;

static const cap_name processor_caps[] = {{"elementwise", CDZ_ELEMENTWISE},
                                          {"keeps_argmax", CDZ_KEEPS_ARGMAX},
                                          {"keeps_top", CDZ_KEEPS_TOP},
                                          {"history_sparse", CDZ_HISTORY_SPARSE},
                                          {"needs_normalised", CDZ_NEEDS_NORMALISED},
                                          {"sampling_only", CDZ_SAMPLING_ONLY},
                                          {NULL, 0}};
static const cap_name criterion_caps[] = {{"has_eos", CDZ_HAS_EOS}, {NULL, 0}};
static const cap_name strategy_caps[] = {{"one_row", CDZ_ONE_ROW}, {"rewinds", CDZ_REWINDS},
                                         {"samples", CDZ_SAMPLES}, {"greedy", CDZ_GREEDY},
                                         {"beams", CDZ_BEAMS},     {NULL, 0}};

static const cap_name press_caps[] = {{"wraps", CDZ_PRESS_WRAPS}, {NULL, 0}};

static const cap_name drafter_caps[] = {{"draws_in_turn", CDZ_DRAWS_IN_TURN}, {NULL, 0}};

static const cap_name no_caps[] = {{NULL, 0}};

static const char *const common_fields[] = {"id",     "version", "summary",
                                            "params", "create",  "needs_clock"};
static const char *const row_fields[] = {"idle", "begin", "accept", "needs_ids", "state_version"};
static const char *const own_fields[][6] = {
    [CDZ_KIND_PROCESSOR] = {"apply", "batched", "companion", "constraint", "steer", "on_hidden"},
    [CDZ_KIND_CRITERION] = {"test", NULL},
    [CDZ_KIND_STRATEGY] = {"run", "generate", "drops", "on_hidden"},
    [CDZ_KIND_DRAFTER] = {"propose", "judged"},
    [CDZ_KIND_OBSERVER] = {NULL, NULL}, /* cdz_lua_observer_functions */
    [CDZ_KIND_PRESS] = {"score", "needs", "own_count"},
};

/* Whether rows of the request have something of the plugin's: state, idleness. */
static bool watches_rows(uint32_t kind)
{
    return kind == CDZ_KIND_PROCESSOR || kind == CDZ_KIND_CRITERION;
}

static const cap_name *caps_of(uint32_t kind)
{
    return kind == CDZ_KIND_PROCESSOR   ? processor_caps
           : kind == CDZ_KIND_CRITERION ? criterion_caps
           : kind == CDZ_KIND_STRATEGY  ? strategy_caps
           : kind == CDZ_KIND_DRAFTER   ? drafter_caps
           : kind == CDZ_KIND_PRESS     ? press_caps
                                        : no_caps;
}

void cdz_lua_push_caps(lua_State *L, uint32_t kind, uint32_t caps)
{
    lua_newtable(L);
    for (const cap_name *c = caps_of(kind); c->name; c++) {
        lua_pushboolean(L, (caps & c->cap) != 0);
        lua_setfield(L, -2, c->name);
    }
}

/* --- fields ---------------------------------------------------------------------------------------------------- */

static size_t known_fields(uint32_t kind, const char **out)
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof common_fields / sizeof *common_fields; i++)
        out[n++] = common_fields[i];
    for (size_t i = 0; watches_rows(kind) && i < sizeof row_fields / sizeof *row_fields; i++)
        out[n++] = row_fields[i];
    if (kind == CDZ_KIND_DRAFTER || kind == CDZ_KIND_OBSERVER || kind == CDZ_KIND_PRESS)
        out[n++] = "begin";
    if (kind == CDZ_KIND_OBSERVER) n += cdz_lua_observer_functions(out + n);
    for (size_t i = 0; i < sizeof *own_fields / sizeof **own_fields; i++)
        if (own_fields[kind][i]) out[n++] = own_fields[kind][i];
    for (const cap_name *c = caps_of(kind); c->name; c++) out[n++] = c->name;
    return n;
}

static void check_fields(lua_State *L, uint32_t kind)
{
    const char *known[40];
    const size_t n = known_fields(kind, known);

    cdz_lua_check_keys(L, 1, known, n, false, "unknown field");
}

static bool has_function(lua_State *L, const char *name)
{
    const int type = lua_getfield(L, 1, name);

    lua_pop(L, 1);
    if (type != LUA_TNIL && type != LUA_TFUNCTION)
        luaL_error(L, "field '%s' is a %s, expected a function", name, lua_typename(L, type));
    return type == LUA_TFUNCTION;
}

static bool flag(lua_State *L, const char *name, bool otherwise)
{
    const int type = lua_getfield(L, 1, name);
    const bool yes = type == LUA_TNIL ? otherwise : lua_toboolean(L, -1);

    lua_pop(L, 1);
    return yes;
}

/* A text field, copied; `otherwise` when the script has none. */
static const char *text_field(lua_State *L, cdz_arena *arena, const char *name,
                              const char *otherwise)
{
    const int type = lua_getfield(L, 1, name);

    if (type != LUA_TNIL && type != LUA_TSTRING)
        luaL_error(L, "field '%s' is a %s, expected a string", name, lua_typename(L, type));
    const char *text = type == LUA_TSTRING ? lua_tostring(L, -1) : otherwise;
    if (strlen(text) > MAX_TEXT) luaL_error(L, "field '%s' is too long", name);
    const char *copy = cdz_arena_strdup(arena, text);
    if (!copy) luaL_error(L, "out of memory");
    lua_pop(L, 1);
    return copy;
}

/* A script without an id is known by its file: lua.no_shouting.lua. */
static const char *default_id(lua_State *L, cdz_lua_module *m)
{
    char *id = cdz_arena_printf(&m->arena, "lua.%.*s", MAX_ID - 4, m->name);

    if (!id) luaL_error(L, "out of memory");
    for (char *c = id; *c; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
        else if (!cdz_byte_in(*c, "abcdefghijklmnopqrstuvwxyz0123456789._-"))
            *c = '-';
    }
    for (char *c = id + 4; !cdz_plugin_id_ok(id) && *c; c++) /* a file's name may have odd dots */
        if (*c == '.') *c = '-';
    return id;
}

static const char *check_id(lua_State *L, const char *id)
{
    if (!cdz_plugin_id_ok(id)) luaL_error(L, "id '%s': expected " CDZ_PLUGIN_ID_IS, id);
    return id;
}

/* --- parameters ---------------------------------------------------------------------------------------------- */

typedef struct reserved {
    const char *name, *help;
    double def, min, max;
} reserved;

static const reserved reserved_params[] = {
    {"budget_instructions", "Lua instructions one call may run (100 times as many a request)",
     2000000, 1000, 1e12},
    {"budget_ms", "milliseconds one call may run (100 times as many a request)", 50, 1, 3600000},
    {"budget_memory", "bytes of the script's own memory", 8 << 20, 65536, 1 << 30},
};
#define N_RESERVED (sizeof reserved_params / sizeof *reserved_params)

static void place(cdz_plugin_base *base, cdz_param *row)
{
    row->offset = base->params_size;
    base->params_size += (uint32_t)((cdz_lua_param_bytes(row->type) + 7) / 8 * 8);
}

/* Sorted by name, so that help and offsets do not depend on a hash; the reserved ones come last. */
static void declare_params(lua_State *L, cdz_lua_module *m, cdz_lua_def *def)
{
    cdz_plugin_base *base = &def->as.base;
    uint32_t *const at[N_RESERVED] = {&def->instructions_at, &def->ms_at, &def->memory_at};

    if (lua_getfield(L, 1, "params") == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
    }
    if (!lua_istable(L, -1)) luaL_error(L, "field 'params' is no table");
    const int params = lua_gettop(L);
    cdz_lua_push_sorted_keys(L, params);
    const lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    if (n > CDZ_LUA_MAX_PARAMS - (lua_Integer)N_RESERVED) luaL_error(L, "too many parameters");
    cdz_param *rows = cdz_arena_array(&m->arena, (size_t)n + N_RESERVED, sizeof *rows);
    if (!rows) luaL_error(L, "out of memory");
    for (lua_Integer i = 0; i < n; i++) {
        if (lua_rawgeti(L, params + 1, i + 1) != LUA_TSTRING)
            luaL_error(L, "a parameter has no name");
        const char *name = lua_tostring(L, -1);
        for (size_t k = 0; k < N_RESERVED; k++)
            if (strcmp(name, reserved_params[k].name) == 0)
                luaL_error(L, "parameter '%s' is the host's own", name);
        lua_getfield(L, params, name);
        cdz_lua_read_param(L, name, &m->arena, &rows[i]);
        place(base, &rows[i]);
        lua_pop(L, 1);
    }
    for (size_t k = 0; k < N_RESERVED; k++) {
        const reserved *r = &reserved_params[k];
        cdz_param *row = &rows[n + (lua_Integer)k];
        *row = (cdz_param){.name = r->name,
                           .help = r->help,
                           .type = CDZ_T_INT,
                           .def = r->def,
                           .min = r->min,
                           .max = r->max};
        place(base, row);
        *at[k] = row->offset;
    }
    base->params = rows;
    base->n_params = (uint32_t)n + (uint32_t)N_RESERVED;
    base->param_size = sizeof *rows;
}

/* --- the descriptor ------------------------------------------------------------------------------------------- */

static uint32_t read_caps(lua_State *L, uint32_t kind)
{
    uint32_t caps = 0;

    for (const cap_name *c = caps_of(kind); c->name; c++)
        if (flag(L, c->name, false)) caps |= c->cap;
    if (watches_rows(kind) && flag(L, "needs_ids", true)) caps |= CDZ_NEEDS_IDS;
    return caps;
}

static bool declares(void *L, const char *name)
{
    return has_function(L, name);
}

/* What the row states mean, by the script's own number; 0: nothing is promised. */
static uint32_t read_state_version(lua_State *L)
{
    const int type = lua_getfield(L, 1, "state_version");
    const lua_Integer n = type == LUA_TNIL ? 0 : lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;

    if (n < 0 || n > (lua_Integer)UINT32_MAX)
        luaL_error(L, "field 'state_version' is %s, expected an integer from 0 to 4294967295",
                   cdz_lua_text(L, -1, NULL));
    lua_pop(L, 1);
    return (uint32_t)n;
}

/* The functions of the host's side; what the script lacks is left out of the descriptor. */
static void fill_kind(lua_State *L, cdz_lua_def *def, uint32_t kind, uint32_t caps)
{
    const cdz_plugin_base base = def->as.base;
    const uint32_t state = def->has_accept ? sizeof(cdz_lua_row_state) : 0;

    if (kind == CDZ_KIND_PROCESSOR) {
        def->as.processor = cdz_lua_processor;
        def->as.processor.caps = caps;
        def->as.processor.state_size = state;
        if (!def->has_accept) def->as.processor.accept = NULL;
        if (!def->has_create) def->as.processor.create = NULL;
        if (!def->has_idle) def->as.processor.idle = NULL;
        if (!def->has_apply) {
            def->as.processor.apply = cdz_lua_leave_scores;
            def->as.processor.caps |= CDZ_ROWWISE;
        }
    } else if (kind == CDZ_KIND_CRITERION) {
        def->as.criterion = cdz_lua_criterion;
        def->as.criterion.caps = caps;
        def->as.criterion.state_size = state;
        if (!def->has_accept) def->as.criterion.accept = NULL;
        if (!def->has_create) def->as.criterion.create = NULL;
        if (!def->has_idle) def->as.criterion.idle = NULL;
    } else if (kind == CDZ_KIND_DRAFTER) {
        def->as.drafter = cdz_lua_drafter;
        def->as.drafter.caps = caps;
        if (!def->has_create) def->as.drafter.create = NULL;
        if (!def->has_judged) def->as.drafter.judged = NULL;
    } else if (kind == CDZ_KIND_OBSERVER) {
        cdz_lua_hear(def, declares, L);
    } else if (kind == CDZ_KIND_PRESS) {
        def->as.press = cdz_lua_press;
        def->as.press.caps = caps;
        if (!def->has_create) def->as.press.create = NULL;
    } else {
        def->as.strategy = cdz_lua_strategy;
        def->as.strategy.caps = caps;
        if (!def->has_create) def->as.strategy.create = NULL;
    }
    const uint32_t size = def->as.base.size;
    def->as.base = base;
    def->as.base.size = size;
    def->as.base.kind = kind;
    def->as.base.extension = cdz_lua_extension_of(def, state);
    def->as.base.loader_data = def;
}

static cdz_lua_def *make_def(lua_State *L, cdz_lua_module *m, uint32_t kind)
{
    cdz_lua_def *def = cdz_arena_alloc(&m->arena, sizeof *def);

    if (!def) luaL_error(L, "out of memory");
    check_fields(L, kind);
    if (own_fields[kind][0] && !has_function(L, own_fields[kind][0]) &&
        !(kind == CDZ_KIND_STRATEGY && has_function(L, "generate")) &&
        !(kind == CDZ_KIND_PROCESSOR && has_function(L, "steer")))
        luaL_error(L, "field '%s' is missing: the function to call", own_fields[kind][0]);
    def->module = m;
    def->has_create = has_function(L, "create");
    def->has_idle = watches_rows(kind) && has_function(L, "idle");
    def->has_begin = kind != CDZ_KIND_STRATEGY && has_function(L, "begin");
    def->has_accept = watches_rows(kind) && has_function(L, "accept");
    def->has_judged = kind == CDZ_KIND_DRAFTER && has_function(L, "judged");
    def->has_steer = kind == CDZ_KIND_PROCESSOR && has_function(L, "steer");
    def->has_on_hidden =
        (kind == CDZ_KIND_PROCESSOR || kind == CDZ_KIND_STRATEGY) && has_function(L, "on_hidden");
    if (kind == CDZ_KIND_PROCESSOR && def->has_on_hidden && !def->has_steer)
        luaL_error(L, "field 'steer' is missing: it says where on_hidden is called");
    def->has_apply = kind != CDZ_KIND_PROCESSOR || has_function(L, "apply");
    def->has_companion = kind == CDZ_KIND_PROCESSOR && has_function(L, "companion");
    def->has_constraint = kind == CDZ_KIND_PROCESSOR && has_function(L, "constraint");
    def->needs_clock = flag(L, "needs_clock", false);
    def->own_count = kind == CDZ_KIND_PRESS && flag(L, "own_count", false);
    def->drops = kind == CDZ_KIND_STRATEGY && flag(L, "drops", false);
    def->batched = kind == CDZ_KIND_PROCESSOR && flag(L, "batched", false);
    def->as.base.id = check_id(L, text_field(L, &m->arena, "id", default_id(L, m)));
    def->as.base.version = text_field(L, &m->arena, "version", "0.0.0");
    def->as.base.summary = text_field(L, &m->arena, "summary", "");
    declare_params(L, m, def);
    fill_kind(L, def, kind, read_caps(L, kind));
    if (kind == CDZ_KIND_PROCESSOR)
        def->as.processor.state_version = read_state_version(L);
    else if (kind == CDZ_KIND_CRITERION)
        def->as.criterion.state_version = read_state_version(L);
    return def;
}

static int declare(lua_State *L, uint32_t kind)
{
    cdz_lua_session *S = cdz_lua_of(L);

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (!S->loading) return luaL_error(L, "plugins are declared while the file runs");
    cdz_lua_def *def = S->kind == 0 ? make_def(L, S->module, kind) : NULL;
    plugin_object *o = lua_newuserdatauv(L, sizeof *o, 1);
    *o = (plugin_object){kind, def};
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    if (luaL_newmetatable(L, PLUGIN)) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
    }
    lua_setmetatable(L, -2);
    return 1;
}

static int declare_processor(lua_State *L)
{
    return declare(L, CDZ_KIND_PROCESSOR);
}

static int declare_criterion(lua_State *L)
{
    return declare(L, CDZ_KIND_CRITERION);
}

static int declare_strategy(lua_State *L)
{
    return declare(L, CDZ_KIND_STRATEGY);
}

static int declare_drafter(lua_State *L)
{
    return declare(L, CDZ_KIND_DRAFTER);
}

static int declare_observer(lua_State *L)
{
    return declare(L, CDZ_KIND_OBSERVER);
}

static int declare_press(lua_State *L)
{
    return declare(L, CDZ_KIND_PRESS);
}

void cdz_lua_push_cadenza(lua_State *L)
{
    static const luaL_Reg functions[] = {{"processor", declare_processor},
                                         {"criterion", declare_criterion},
                                         {"strategy", declare_strategy},
                                         {"drafter", declare_drafter},
                                         {"observer", declare_observer},
                                         {"press", declare_press},
                                         {"grammar", cdz_lua_grammar},
                                         {"file", cdz_lua_file_bytes},
                                         {NULL, NULL}};

    luaL_newlib(L, functions);
    lua_pushstring(L, CDZ_VERSION);
    lua_setfield(L, -2, "version");
}

/* --- what the script returned ---------------------------------------------------------------------------------- */

/* Pushes the i-th plugin object of the result, from 1; false and nothing pushed after the last. */
static bool push_object(lua_State *L, int result, uint32_t i)
{
    if (luaL_testudata(L, result, PLUGIN)) {
        if (i > 1) return false;
        lua_pushvalue(L, result);
        return true;
    }
    if (!lua_istable(L, result)) return false;
    if (lua_rawgeti(L, result, (lua_Integer)i) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
}

void cdz_lua_push_def(lua_State *L, int result, uint32_t index, uint32_t kind)
{
    const plugin_object *o = push_object(L, result, index) ? luaL_testudata(L, -1, PLUGIN) : NULL;

    if (!o || o->kind != kind)
        luaL_error(L, "%s: did not return the plugins it returned when it was loaded",
                   cdz_lua_module_name(cdz_lua_of(L)->module));
    lua_getiuservalue(L, -1, 1);
    lua_remove(L, -2);
}

static void check_unique(lua_State *L, const cdz_lua_module *m, const cdz_lua_def *def)
{
    for (uint32_t i = 0; i < m->n_plugins; i++)
        if (strcmp(m->plugins[i]->id, def->as.base.id) == 0)
            luaL_error(L, "%s: two plugins have the id '%s'", m->name, def->as.base.id);
}

void cdz_lua_declare(lua_State *L, cdz_lua_module *m)
{
    const int result = lua_gettop(L);

    m->plugins = cdz_arena_array(&m->arena, CDZ_LUA_MAX_PLUGINS, sizeof(*m->plugins));
    if (!m->plugins) luaL_error(L, "out of memory");
    while (push_object(L, result, m->n_plugins + 1)) {
        const plugin_object *o = luaL_testudata(L, -1, PLUGIN);
        if (!o)
            luaL_error(L, "%s: element %d of its list is no plugin", m->name, (int)m->n_plugins + 1);
        if (m->n_plugins == CDZ_LUA_MAX_PLUGINS) luaL_error(L, "%s: too many plugins", m->name);
        check_unique(L, m, o->def);
        o->def->index = m->n_plugins + 1;
        m->plugins[m->n_plugins++] = &o->def->as.base;
        lua_pop(L, 1);
    }
    if (m->n_plugins == 0)
        luaL_error(L,
                   "%s: returned %s, expected cadenza.processor{...}, cadenza.criterion{...}, "
                   "cadenza.strategy{...}, cadenza.drafter{...}, cadenza.observer{...}, "
                   "cadenza.press{...} or a list of them",
                   m->name, luaL_typename(L, result));
}
