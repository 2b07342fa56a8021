/* pretok.h - the pre-tokenizers of byte-level BPE, whose pieces go to the model as the bytes they
 * are: cuts by scanners and literals, then ByteLevel. Any other chain is a cdz_cutter's work. */
#ifndef CDZ_HOST_TOKEN_PRETOK_H
#define CDZ_HOST_TOKEN_PRETOK_H

#include "token/cutter.h"

/* A chain of cuts; the last part of the chain is ByteLevel, whose own cut (if any) is the last
 * of these. */
typedef struct cdz_pretok {
    cdz_split splits[CDZ_CUTTER_MAX + 1];
    uint32_t n;
    uint32_t n_before_prefix; /* cuts made before add_prefix_space acts on each piece */
    bool add_prefix_space;
} cdz_pretok;

/* False when the chain is not of this kind. */
bool cdz_pretok_from(const cdz_cutter *cutter, cdz_pretok *out);

#endif
