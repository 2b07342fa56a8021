/* A name that would leave its folder. */
#define ZOO_ID "../Zoo"
#include "zoo.h"
