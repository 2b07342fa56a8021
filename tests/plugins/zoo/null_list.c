/* No list at all. */
#define ZOO_PLUGINS NULL
#include "zoo.h"
