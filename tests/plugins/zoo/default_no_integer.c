/* An integer whose default no integer can be. */
#define ZOO_PARAMS                                                                                 \
    {                                                                                              \
        .name = "strength", .help = "how much", .type = CDZ_T_INT, .offset = 0, .def = 1e300,      \
        .min = 0, .max = 1e308                                                                     \
    }
#include "zoo.h"
