/* Built for a later minor than this host speaks. */
#define ZOO_MINOR 9
#include "zoo.h"
