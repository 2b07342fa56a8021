/* Nothing is wrong with this one. */
#include "zoo.h"
