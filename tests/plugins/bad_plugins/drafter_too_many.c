/* As many as it likes. */
#include "bad_loop.h"

static cdz_status propose(cdz_decoder *dec, const cdz_step *step, cdz_draft *draft)
{
    const uint32_t n = draft->room + 3;
    int32_t *tokens = cdz_scratch(step, n * sizeof *tokens);
    (void)dec;
    if (!tokens) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++) tokens[i] = 5;
    draft->tokens = (cdz_ids){tokens, n};
    return CDZ_OK;
}

BAD_DRAFTER(.base = {BAD_BASE(CDZ_DRAFTER_BASE)}, .propose = propose)
