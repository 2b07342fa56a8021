/* A descriptor that ends before apply. */
#define ZOO_SIZE 40
#include "zoo.h"
