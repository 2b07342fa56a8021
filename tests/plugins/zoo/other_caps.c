/* Promises what no ABI knows yet. */
#define ZOO_CAPS 0x10000000
#include "zoo.h"
