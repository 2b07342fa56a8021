/* vec.h - the host's own door to the vector operations behind "cadenza.vec/1". */
#ifndef CDZ_HOST_VEC_VEC_H
#define CDZ_HOST_VEC_VEC_H

#include "cadenza/ext/vec.h"

/* The table for this machine; every table gives the same bits. Of its scratch, topk uses the first 16 * n bytes. */
const cdz_vec *cdz_vec_table(void);

/* "scalar" or "avx2"; NULL when there is no such table or this machine cannot run it. */
const cdz_vec *cdz_vec_table_of(const char *variant);

#endif
