/* Sets a flag of its descriptor that no ABI has yet. */
#define ZOO_BASE_FLAGS 4
#include "zoo.h"
