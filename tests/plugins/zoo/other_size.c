/* An entry that says it is shorter. */
#define ZOO_ENTRY_SIZE 24
#include "zoo.h"
