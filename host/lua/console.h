/* console.h - statements of Lua, one after the other, inside a strategy's ctx: what `cadenza lua` runs a request with.
 *
 * The statements are run by a strategy as any script's: the same verbs, the same vectors, the same sandbox. What differs is
 * that they come one by one, that globals may be written, that print and results go to whoever asked, and that budgets are
 * wide. An error or an interrupt ends a statement, not the request. */
#ifndef CDZ_HOST_LUA_CONSOLE_H
#define CDZ_HOST_LUA_CONSOLE_H

#include "base/error.h"
#include "cadenza/strategy.h"

typedef struct cdz_lua_module cdz_lua_module;

typedef enum cdz_lua_said {
    CDZ_LUA_SAID_NOTHING, /* nothing was run yet */
    CDZ_LUA_RAN,
    CDZ_LUA_FAILED,     /* the sentence was complained */
    CDZ_LUA_INCOMPLETE, /* the text ends inside a statement: give it again with more */
} cdz_lua_said;

typedef struct cdz_lua_statement {
    const char *text; /* valid until the next call of next */
    size_t len;
    const char *name; /* for error sentences: "stdin", a file's name */
    bool whole;       /* there is no more: incomplete text is a mistake */
} cdz_lua_statement;

/* All called on the engine's thread, inside the request. */
typedef struct cdz_lua_console {
    cdz_lua_module *module; /* of cdz_lua_module_empty; outlives the request's outcome */
    /* The next statement; said: how the last one went. False: the end. May wait for a person; the engine waits too. */
    bool (*next)(void *user, cdz_lua_said said, cdz_lua_statement *out);
    void (*write)(void *user, const char *text, size_t len); /* prints and results */
    void (*complain)(void *user, const char *sentence);
    bool (*interrupted)(void *user); /* the statement is to end; asked often */
    void *user;
} cdz_lua_console;

/* Its params are a cdz_lua_console. */
extern const cdz_strategy cdz_lua_console_strategy;

/* The text of a script: UTF-8 source of at most 256 KiB; free it. */
cdz_status cdz_lua_read_text(const char *path, char **text, size_t *len, cdz_error *err);

/* A module of no file: where the sessions of a console hang what must last. */
cdz_status cdz_lua_module_empty(const char *name, cdz_lua_module **out, cdz_error *err);
void cdz_lua_module_free(cdz_lua_module *module); /* NULL is fine */

#endif
