/* A recursion that ends too late. */
#include "bad.h"

enum { DEEP = 1 << 20 }; /* with 1 KiB each, far more than any stack has; an end all the same */

static uint32_t visit(uint32_t depth)
{
    volatile uint32_t here[256];
    here[0] = depth;
    if (depth == DEEP) return 0;
    return visit(depth + 1) + here[0];
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    shrink(cdz_row(scores, r), scores->n_vocab, visit(r) == 0 ? 0.25f : 0.5f);
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
