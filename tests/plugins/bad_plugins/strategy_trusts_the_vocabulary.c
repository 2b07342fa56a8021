/* Writes the token that its parameter names, in the vocabulary or not. */
#include "bad_loop.h"

typedef struct {
    int64_t token;
} tokens;

static const cdz_param params[] = {
    CDZ_INT(tokens, token, 0, 0, 4000, "the token that is written"),
};

static cdz_status run(cdz_decoder *dec, const cdz_step *step)
{
    const int64_t token = ((const tokens *)step->params)->token;
    while (!cdz_done(dec)) {
        cdz_scores scores;
        CDZ_TRY(cdz_forward(dec, &scores));
        CDZ_TRY(cdz_process(dec, &scores));
        CDZ_TRY(cdz_append(dec, 0, (int32_t)token));
    }
    return CDZ_OK;
}

BAD_STRATEGY(.base = {BAD_BASE(CDZ_STRATEGY_BASE), CDZ_PARAMS(tokens, params)}, .caps = CDZ_ONE_ROW,
             .run = run)
