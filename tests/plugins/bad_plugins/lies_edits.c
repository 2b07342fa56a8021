/* Says that it changes token 3 alone, and makes its score that of token 4. */
#include <cadenza/ext/form.h>
#include <string.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r) if (scores->n_vocab > 4) cdz_row(scores, r)[3] = cdz_row(scores, r)[4];
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_EDIT;
    return true;
}

static bool edits(const cdz_step *step, uint32_t r, cdz_ids *out)
{
    static const int32_t three = 3;
    (void)step, (void)r;
    *out = (cdz_ids){&three, 1};
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe, .edits = edits};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE), .extension = extension}, .caps = CDZ_ROWWISE,
              .apply = apply)
