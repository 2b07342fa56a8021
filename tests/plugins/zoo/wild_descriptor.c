/* A list that points nowhere. */
#define ZOO_LIST (const cdz_plugin_base *)(uintptr_t)0x10
#include "zoo.h"
