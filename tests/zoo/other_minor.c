/* Built for the next minor; in 0.x that is another ABI. */
#define ZOO_MINOR 2
#include "zoo.h"
