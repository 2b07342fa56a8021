/* regular.h - parts of a network that call no rule which leads back to itself: what two of them both take, and what one does
 * not take. The reader joins empty parts, and they are filled at the end, when all rules have their bodies. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_REGULAR_H
#define CDZ_HOST_GRAMMAR_REGULAR_H

#include "grammar/bnf.h"

typedef struct cdz_bnf_set {
    cdz_bnf_part out;         /* is filled */
    cdz_bnf_part left, right; /* with what both take; but: with what left does not take */
    bool but, filled;
    size_t pos; /* in the source */
} cdz_bnf_set;

typedef struct cdz_bnf_sets {
    cdz_bnf_set *at;
    uint32_t n, cap;
} cdz_bnf_sets;

void cdz_bnf_sets_free(cdz_bnf_sets *sets);
/* Where set.out is, which is made. */
cdz_status cdz_bnf_sets_add(cdz_bnf_sets *sets, cdz_bnf *b, cdz_bnf_set set, cdz_bnf_part *out);
/* Fills them. A failure is told with its place. */
cdz_status cdz_bnf_sets_fill(cdz_bnf_sets *sets, cdz_bnf *b);

#endif
