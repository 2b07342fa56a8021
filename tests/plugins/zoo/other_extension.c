/* Cannot do without an extension that no host has. */
#define ZOO_NEEDS "cadenza.vec/1 cadenza.sky/1"
#include "zoo.h"
