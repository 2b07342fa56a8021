/* A token that is none, once the row is long enough to be past the first requests. */
#include "bad_loop.h"

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    static const int32_t none[] = {-1};
    (void)dec, (void)step;
    if (draft->room > 0 && draft->history.len > step->request->prompt_len + 2)
        draft->tokens = (cdz_ids){none, 1};
    return CDZ_OK;
}

BAD_DRAFTER(.base = {BAD_BASE(CDZ_DRAFTER_BASE)}, .propose = propose)
