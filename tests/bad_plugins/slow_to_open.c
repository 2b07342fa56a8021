/* Builds its tables when it is opened, not when it is needed. */
#include <time.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

__attribute__((constructor)) static void build_tables(void)
{
    while ((double)clock() / CLOCKS_PER_SEC < 1.3) {
    }
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
