/* Says that it divides by two, and adds a little. */
#include <cadenza/ext/form.h>
#include <string.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    for (uint32_t v = 0; v < scores->n_vocab; v++)
        cdz_row(scores, r)[v] = cdz_row(scores, r)[v] / 2.0f + 1e-3f;
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_DIVIDE;
    out->amount = 2.0;
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE), .extension = extension},
              .caps = CDZ_ROWWISE | CDZ_ELEMENTWISE, .apply = apply)
