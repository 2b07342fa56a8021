/* Follows a pointer that is not there: create has no request. */
#include "bad.h"

static cdz_status create(const cdz_step *step)
{
    const volatile cdz_request_info *request = step->request;
    return request->n_vocab > 0 ? CDZ_OK : cdz_fail(step, CDZ_E_USAGE, "no vocabulary");
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step, (void)scores;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .create = create,
              .apply = apply)
