/* Sets a flag of a parameter that no ABI has yet. */
#define ZOO_PARAMS                                                                                 \
    CDZ_PARAM_(zoo, strength, double, CDZ_T_REAL, 0x4000, 1.0, 0.0, 2.0, NULL, "how much")
#include "zoo.h"
