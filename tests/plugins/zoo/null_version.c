/* No version. */
#define ZOO_VERSION NULL
#include "zoo.h"
