/* A list with a hole. */
#define ZOO_LIST NULL
#include "zoo.h"
