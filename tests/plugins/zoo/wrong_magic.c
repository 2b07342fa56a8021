/* The entry is of something else. */
#define ZOO_MAGIC 0xDEADBEEFu
#include "zoo.h"
