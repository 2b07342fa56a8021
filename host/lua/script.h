/* script.h - a loaded .lua file: its text, and the descriptors made from what it returned. Immutable once loaded
 * (but for the list of stop reasons, which has a lock), so any number of requests share it. */
#ifndef CDZ_HOST_LUA_SCRIPT_H
#define CDZ_HOST_LUA_SCRIPT_H

#include <pthread.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mutex.h"
#include "cadenza/drafter.h"
#include "cadenza/loader.h"
#include "cadenza/observer.h"
#include "cadenza/press.h"
#include "cadenza/processor.h"
#include "lua/session.h"

#define CDZ_LUA_MAX_SOURCE  (256u << 10)
#define CDZ_LUA_MAX_DATA    (16u << 20) /* of a file of data */
#define CDZ_LUA_MAX_PLUGINS 64
#define CDZ_LUA_MAX_PARAMS  256

/* One plugin of a script. Its descriptor's base.loader_data points back here. */
typedef struct cdz_lua_def {
    union {
        cdz_plugin_base base;
        cdz_processor processor;
        cdz_criterion criterion;
        cdz_strategy strategy;
        cdz_drafter drafter;
        cdz_observer observer;
        cdz_press press;
    } as;
    cdz_lua_module *module;
    uint32_t index; /* from 1, in the list the script returned */
    bool batched, has_create, has_begin, has_accept, has_idle, has_judged, has_finish,
        has_companion, has_constraint, has_steer, has_on_hidden, needs_clock;
    bool own_count; /* a press that says how many stay */
    bool drops;     /* a strategy that keeps its caches small */
    bool has_apply; /* or what it does to scores is nothing; of other kinds true */
    /* Offsets of the reserved parameters in the parameter struct. */
    uint32_t instructions_at, ms_at, memory_at;
} cdz_lua_def;

/* Another file of the package, for require and cadenza.file. */
typedef struct cdz_lua_file {
    const char *name; /* the arena's */
    char *source;     /* its own: text of a .lua file, bytes of any other; NULL: too large */
    size_t len;
} cdz_lua_file;

struct cdz_lua_module {
    char *name; /* of the file, without folders */
    char *source;
    size_t source_len;
    cdz_lua_file *files; /* what plugin.ini lists: (n_files) scripts, then (n_data) others */
    uint32_t n_files, n_data;
    cdz_arena arena; /* descriptors, parameter tables and their texts */
    cdz_lua_def *defs;
    const cdz_plugin_base **plugins;
    uint32_t n_plugins;
    cdz_mutex lock; /* of reasons */
    char **reasons; /* stop reasons that scripts made up: they must live as long as the module */
    uint32_t n_reasons;
};

const char *cdz_lua_module_name(const cdz_lua_module *module);
/* A lasting copy of a stop reason; when too many different ones came, the constant "custom". [any] */
const char *cdz_lua_module_reason(cdz_lua_module *module, const char *text, size_t len);

/* require.c: a file's text, checked, a copy; and the other scripts of the package that entry belongs to. */
cdz_status cdz_lua_take_text(const cdz_plugin_file *file, char **text, cdz_error *err);
cdz_status cdz_lua_take_files(cdz_lua_module *m, const cdz_plugin_file *entry, cdz_error *err);
void cdz_lua_free_files(cdz_lua_module *m);
void cdz_lua_push_require(lua_State *L); /* [protected] the function */
int cdz_lua_file_bytes(lua_State *L);    /* cadenza.file */

/* A session of def's plugin for a request (step->request may be NULL: create): file run, functions found, p made. */
cdz_status cdz_lua_start(const cdz_lua_def *def, const cdz_step *step, cdz_lua_session **out);
static inline const cdz_lua_def *cdz_lua_def_of(const cdz_step *step)
{
    return (const cdz_lua_def *)step->plugin->loader_data;
}
/* Puts S's sentence on the request and returns st; for CDZ_LUA_SPENT_STATUS it is there already. */
cdz_status cdz_lua_report(const cdz_lua_session *S, const cdz_step *step, cdz_status st);

/* declare.c: [protected] cadenza.processor, .criterion, .strategy, .drafter, .observer, .press as a table on the stack; and what they returned,
 * at the top of the stack, into module->defs. */
void cdz_lua_push_cadenza(lua_State *L);
void cdz_lua_declare(lua_State *L, cdz_lua_module *module);
/* Pushes the table of the index-th plugin of the script's result at the top of the stack. */
void cdz_lua_push_def(lua_State *L, int result, uint32_t index, uint32_t kind);

/* params.c: [protected] one row of the script's params table, value at the top of the stack (popped). */
void cdz_lua_read_param(lua_State *L, const char *name, cdz_arena *arena, cdz_param *out);
size_t cdz_lua_param_bytes(uint32_t type);
/* Pushes the value of one parameter. */
void cdz_lua_push_param(lua_State *L, const cdz_param *param, const void *params);
/* Pushes p: every parameter by name, read-only. */
void cdz_lua_push_params(lua_State *L, const cdz_lua_def *def, const void *params);

/* context.c: [protected] pushes ctx for processors and criteria; strategy.c: for strategies. */
void cdz_lua_push_ctx(lua_State *L);
void cdz_lua_push_decoder_ctx(lua_State *L);
/* A field of the request that both have, or false. */
bool cdz_lua_push_request_field(lua_State *L, const char *name);
/* config, encode, decode, token_text, log: methods that both have, into the table at the top of the stack. */
void cdz_lua_add_request_methods(lua_State *L);
/* The request row of the present call, its ids so far. */
cdz_ids cdz_lua_current_ids(const cdz_lua_session *S);

/* processor.c, strategy.c: the C side of the descriptors. */
extern const cdz_processor cdz_lua_processor;
extern const cdz_criterion cdz_lua_criterion;
extern const cdz_strategy cdz_lua_strategy;
extern const cdz_drafter cdz_lua_drafter; /* drafter.c */
extern const cdz_press cdz_lua_press;     /* press.c */

/* row_state.c */
typedef struct cdz_lua_row_state {
    int32_t ref; /* 0: still what begin returned */
} cdz_lua_row_state;
const void *cdz_lua_state_extension(const char *id);
/* [protected] Replaces the value at the stack's top by a deep copy of it; raises for what cannot be copied. */
void cdz_lua_copy_state(lua_State *L);
/* [protected] Pushes the row's own state, which apply may look at (a copy) or accept may write. */
void cdz_lua_push_row_state(lua_State *L, cdz_lua_row_state *state, bool writable);
/* state_move.c: [protected] the value at the top of the stack, popped, as bytes; and pushed from such bytes. */
void cdz_lua_write_state(lua_State *L, cdz_buf *out);
void cdz_lua_read_state(lua_State *L, const cdz_buf *from);
/* What a descriptor offers with `companion`, with `steer`, and without `apply`. */
const void *cdz_lua_companion_extension(const char *id);
const void *cdz_lua_constrained_extension(const char *id);
const void *cdz_lua_steer_extension(const char *id);
const void *cdz_lua_on_hidden_extension(const char *id); /* of a processor, with both */
const void *cdz_lua_plain_extension(const char *id);
const void *cdz_lua_drops_extension(const char *id); /* verbs_cache.c: with `drops` */
cdz_status cdz_lua_leave_scores(const cdz_step *step, cdz_scores *scores);
/* extensions.c: all of these together; NULL: it offers nothing. state: with row states. */
typedef const void *cdz_lua_extension_fn(const char *id);
cdz_lua_extension_fn *cdz_lua_extension_of(const cdz_lua_def *def, bool state);
int cdz_lua_companion_logits(lua_State *L); /* the method of ctx */
int cdz_lua_context_constraint(lua_State *L);
/* Shared by processors and criteria. */
cdz_status cdz_lua_begin(const cdz_step *step, void **shared);
cdz_status cdz_lua_create(const cdz_step *step);
bool cdz_lua_idle(const cdz_step *step);
cdz_status cdz_lua_accept(const cdz_step *step, uint32_t r, int32_t token);
void cdz_lua_end(const cdz_step *step);
/* "eos", "length", "time", "string" or any other text: CDZ_STOP_CUSTOM. */
cdz_stop_reason cdz_lua_stop_reason(const char *text);
const char *cdz_lua_reason_name(uint32_t reason); /* the reverse */

/* observer.c: the names of an observer's own functions into out; and def's descriptor, with those that are declared. */
enum { CDZ_LUA_OBSERVER_FUNCTIONS = 7 };
/* What a plugin of that kind declares, as a table of its flags by the names that scripts declare them by. */
void cdz_lua_push_caps(lua_State *L, uint32_t kind, uint32_t caps);
size_t cdz_lua_observer_functions(const char **out);
void cdz_lua_hear(cdz_lua_def *def, bool (*declares)(void *user, const char *name), void *user);

#endif
