/* Builds its tables when it is opened, not when it is needed. */
#include <time.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

/* Arithmetic between two looks at the clock: time spent asking for the time is not counted everywhere. */
__attribute__((constructor)) static void build_tables(void)
{
    volatile uint32_t sum = 0;
    while ((double)clock() / CLOCKS_PER_SEC < 1.3)
        for (uint32_t i = 0; i < 1000000; i++) sum = sum * 31 + i;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
