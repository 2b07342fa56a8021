/* A range with nothing in it. */
#define ZOO_PARAMS CDZ_REAL(zoo, strength, 1.0, 2.0, 0.0, "how much")
#include "zoo.h"
