/* No name. */
#define ZOO_ID NULL
#include "zoo.h"
