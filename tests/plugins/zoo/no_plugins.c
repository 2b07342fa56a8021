/* An empty list. */
#define ZOO_COUNT 0
#include "zoo.h"
