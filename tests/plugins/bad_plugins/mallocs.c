/* malloc and free at every token. */
#include <stdlib.h>
#include <string.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    float *copy = malloc(scores->n_vocab * sizeof *copy);
    if (!copy) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    EACH_ROW(scores, r)
    {
        memcpy(copy, cdz_row(scores, r), scores->n_vocab * sizeof *copy);
        shrink(copy, scores->n_vocab, 0.5f);
        memcpy(cdz_row(scores, r), copy, scores->n_vocab * sizeof *copy);
    }
    free(copy);
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE)}, .caps = CDZ_ROWWISE, .apply = apply)
