/* begin opens a file that end does not close. */
#include <fcntl.h>

#include "bad.h"

static cdz_status begin(const cdz_step *step, void **shared)
{
    (void)step, (void)shared;
    return open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? CDZ_OK
                                                        : cdz_fail(step, CDZ_E_IO, "no /dev/null");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .begin = begin,
              .apply = apply)
