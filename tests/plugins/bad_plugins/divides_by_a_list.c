/* A list that is set may be empty. */
#include "bad.h"

typedef struct own {
    cdz_int_list tokens;
} own;

static const cdz_param params[] = {CDZ_INTS(own, tokens, 0, 0, 1000000, "tokens to lower")};

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const own *p = step->params;
    if (p->tokens.set) cdz_row(scores, 0)[1000 / p->tokens.len % scores->n_vocab] -= 1;
    return CDZ_OK;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE), CDZ_PARAMS(own, params)}, .apply = apply)
