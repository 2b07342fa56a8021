/* pretok.c - telling chains that end in ByteLevel from others. */
#include "token/pretok.h"

bool cdz_pretok_from(const cdz_cutter *cutter, cdz_pretok *out)
{
    *out = (cdz_pretok){0};
    if (cutter->n == 0) return false;
    const cdz_cut *last = &cutter->cuts[cutter->n - 1];
    for (uint32_t i = 0; i + 1 < cutter->n; i++) {
        const cdz_cut *cut = &cutter->cuts[i];
        if (cut->kind != CDZ_CUT_SPLIT || cut->split.pattern.regex) return false;
        out->splits[out->n++] = cut->split;
    }
    if (last->kind != CDZ_CUT_BYTE_LEVEL) return false;
    out->n_before_prefix = out->n;
    out->add_prefix_space = last->prefix;
    if (last->cuts_first) out->splits[out->n++] = last->split;
    return true;
}
