/* Nobody learns what it is for. */
#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {CDZ_PROCESSOR_BASE, .id = "bad.plugin", .version = "1.0.0", .summary = ""},
              .caps = CDZ_ROWWISE, .apply = apply)
