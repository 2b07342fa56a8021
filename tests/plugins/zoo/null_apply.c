/* A processor that processes nothing. */
#define ZOO_APPLY NULL
#include "zoo.h"
