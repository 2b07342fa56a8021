/* Goes by a stride that its parameter allows to be 0. */
#include "bad_loop.h"

typedef struct {
    int64_t stride;
} strides;

static const cdz_param params[] = {
    CDZ_INT(strides, stride, 1, 0, 64, "every so many tokens another one is taken"),
};

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const volatile uint32_t stride = (uint32_t)((const strides *)step->params)->stride;
    for (uint32_t n = 1; !cdz_done(dec); n++) CDZ_TRY(one_step(dec, n % stride == 0));
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE), CDZ_PARAMS(strides, params)},
             .caps = CDZ_ONE_ROW, .run = run)
