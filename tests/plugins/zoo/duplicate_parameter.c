/* One name, two rows. */
#define ZOO_PARAMS                                                                                 \
    CDZ_REAL(zoo, strength, 1.0, 0.0, 2.0, "how much"),                                            \
        CDZ_REAL(zoo, strength, 1.0, 0.0, 2.0, "again")
#include "zoo.h"
