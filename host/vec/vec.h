/* vec.h - the host's own door to the vector operations behind "cadenza.vec/1". */
#ifndef CDZ_HOST_VEC_H
#define CDZ_HOST_VEC_H

#include "cadenza/ext/vec.h"

/* The table for this machine; every table gives the same bits. */
const cdz_vec *cdz_vec_table(void);

#endif
