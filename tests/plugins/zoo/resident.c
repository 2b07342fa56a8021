/* Asks never to be unloaded. */
#define ZOO_ID    "org.example.resident"
#define ZOO_FLAGS CDZ_RESIDENT
#include "zoo.h"
