/* Built for an ABI of the future. */
#define ZOO_MAJOR 7
#include "zoo.h"
