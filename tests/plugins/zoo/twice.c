/* The same plugin twice. */
#define ZOO_LIST &zoo_processor.base, &zoo_processor.base
#include "zoo.h"
