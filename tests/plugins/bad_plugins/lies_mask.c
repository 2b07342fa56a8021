/* Says that it leaves the first half of the vocabulary, and leaves token 3 out. */
#include <cadenza/ext/form.h>
#include <math.h>
#include <string.h>

#include "bad.h"

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    (void)step;
    EACH_ROW(scores, r)
    {
        for (uint32_t v = scores->n_vocab / 2; v < scores->n_vocab; v++)
            cdz_row(scores, r)[v] = -INFINITY;
        if (scores->n_vocab > 8) cdz_row(scores, r)[3] = -INFINITY;
    }
    return CDZ_OK;
}

static bool describe(const cdz_step *step, cdz_form *out)
{
    (void)step;
    out->kind = CDZ_FORM_MASK;
    return true;
}

static bool mask(const cdz_step *step, uint32_t r, uint64_t *bits, uint32_t n_words)
{
    (void)r, (void)n_words;
    for (uint32_t v = 0; v < step->request->n_vocab / 2; v++) bits[v / 64] |= (uint64_t)1 << v % 64;
    return true;
}

static const cdz_form_api form = {.size = sizeof form, .describe = describe, .mask = mask};

static const void *extension(const char *id)
{
    return strcmp(id, CDZ_EXT_FORM) == 0 ? &form : NULL;
}

BAD_PROCESSOR(.base = {BAD_BASE(CDZ_PROCESSOR_BASE), .extension = extension}, .caps = CDZ_ROWWISE,
              .apply = apply)
