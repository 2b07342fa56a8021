/* every = 0 is allowed, and divides. */
#include "bad.h"

typedef struct own {
    int64_t every;
} own;

static const cdz_param params[] = {CDZ_INT(own, every, 2, 0, 64, "every so many tokens")};

static cdz_status create(const cdz_step *step)
{
    const own *p = step->params;
    return 64 % p->every != 1 ? CDZ_OK : cdz_fail(step, CDZ_E_USAGE, "one token is left");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE), CDZ_PARAMS(own, params)}, .caps = CDZ_ROWWISE,
              .create = create, .apply = apply)
