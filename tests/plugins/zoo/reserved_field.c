/* Writes into a field that is reserved. */
#define ZOO_RESERVED 1
#include "zoo.h"
