/* A field past the end of its struct. */
#define ZOO_PARAMS                                                                                 \
    {                                                                                              \
        .name = "strength", .help = "how much", .offset = 4096, .type = CDZ_T_REAL, .max = 1       \
    }
#include "zoo.h"
