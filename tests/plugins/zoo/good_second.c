/* The next version of good: the same id, another sum. */
#define ZOO_VERSION "2.0.0"
#define ZOO_ADD     2.0f
#include "zoo.h"
