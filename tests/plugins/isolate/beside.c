/* beside.c - a library that a plugin brings along, beside itself: nothing of it may ever run. */
#include <stdlib.h>

int beside(void);
int beside(void)
{
    return 1;
}

__attribute__((constructor)) static void early(void)
{
    abort();
}
