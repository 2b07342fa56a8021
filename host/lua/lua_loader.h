/* lua_loader.h - the Lua host: a loader (sdk loader.h) that is linked in. */
#ifndef CDZ_HOST_LUA_LUA_LOADER_H
#define CDZ_HOST_LUA_LUA_LOADER_H

#include "cadenza/loader.h"

/* Text only, at most 256 KiB of UTF-8; of its package the other .lua files, for require. The file runs once, sandboxed and under budgets, to learn what it declares. */
extern const cdz_loader cdz_lua_loader;

#endif
