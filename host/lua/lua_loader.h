/* lua_loader.h - the Lua host: turns .lua files into plugins like any other. */
#ifndef CDZ_HOST_LUA_LOADER_H
#define CDZ_HOST_LUA_LOADER_H

#include "plug/registry.h"

/* Text only, at most 256 KiB of UTF-8. The file runs once, sandboxed and under budgets, to learn what it declares. */
extern const cdz_loader cdz_lua_loader;

#endif
