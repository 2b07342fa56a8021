/* Sets a flag of the entry that no ABI has yet. */
#define ZOO_FLAGS 0x80
#include "zoo.h"
