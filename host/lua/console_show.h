/* console_show.h - how a console shows values: scores as their best tokens, ids with their text, tables to some depth. */
#ifndef CDZ_HOST_LUA_CONSOLE_SHOW_H
#define CDZ_HOST_LUA_CONSOLE_SHOW_H

#include <lua.h>

/* Writes to whoever asked. [inside a statement] */
void cdz_lua_console_write(lua_State *L, const char *text, size_t len);
/* The value at index, and a line end. */
void cdz_lua_console_show(lua_State *L, int index);
/* top(scores [, k]): the k best tokens of each row, with probability and text. */
int cdz_lua_console_top(lua_State *L);
extern const char cdz_lua_console_help[];

#endif
