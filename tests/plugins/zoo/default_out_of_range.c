/* A default that its own range refuses. */
#define ZOO_PARAMS CDZ_REAL(zoo, strength, 3.0, 0.0, 2.0, "how much")
#include "zoo.h"
