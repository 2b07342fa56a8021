/* generate_ids.h - one prompt of ids through the embedding API, in a test. */
#ifndef CDZ_TESTS_SUPPORT_GENERATE_IDS_H
#define CDZ_TESTS_SUPPORT_GENERATE_IDS_H

#include "cadenza/cadenza.h"

/* A request document: seed 3, no end of sequence, no padding. kwargs: further members, each with a comma before it. free() it. */
char *ids_document(const int32_t *ids, uint32_t n, const char *kwargs);
/* Its answer, which must come; past and keep as in cdz_request. */
cdz_result *generate_ids(cdz_runtime *rt, cdz_model *model, const int32_t *ids, uint32_t n,
                         const char *kwargs, const cdz_result *past, bool keep);

#endif
