/* Its greatest value is no value, but it does not say so. */
#include "bad.h"

typedef struct own {
    double strength;
} own;

static const cdz_param params[] = {CDZ_REAL(own, strength, 1, 0, 8, "how much")};

static cdz_status create(const cdz_step *step)
{
    const own *p = step->params;
    return p->strength < 8 ? CDZ_OK : CDZ_E_USAGE;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE), CDZ_PARAMS(own, params)}, .caps = CDZ_ROWWISE,
              .create = create, .apply = apply)
