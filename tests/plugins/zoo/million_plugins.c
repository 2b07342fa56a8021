/* A list longer than the file. */
#define ZOO_COUNT 1000000
#include "zoo.h"
