/* A gigabyte of state per row. */
#define ZOO_STATE (1u << 30)
#include "zoo.h"
