/* Numbers with the user's comma, from now on, for everyone. */
#include <locale.h>

#include "bad.h"

static cdz_status create(const cdz_step *step)
{
    (void)step;
    setlocale(LC_ALL, "C.UTF-8");
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .create = create,
              .apply = apply)
