/* A kind from the future. */
#define ZOO_KIND 99
#include "zoo.h"
