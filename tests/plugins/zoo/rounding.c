/* Its constructor changes the rounding mode of the thread that loads it, as objects linked with -ffast-math change
 * flush-to-zero. */
#include <fenv.h>

#define ZOO_ID "org.example.rounding"
#include "zoo.h"

__attribute__((constructor)) static void change_mode(void)
{
    fesetround(FE_UPWARD);
}
