/* quant_types.h - the types that weights can be quantised to: their names, and which matrix gets
 * which. */
#ifndef CDZ_HOST_LOAD_QUANT_TYPES_H
#define CDZ_HOST_LOAD_QUANT_TYPES_H

#include "base/error.h"
#include "kernels.h"

/* The type among [from, to) of that name, in any case. CDZ_E_USAGE with the names there are and the nearest. */
cdz_status cdz_type_named(const char *name, cdz_dtype from, cdz_dtype to, cdz_dtype *out,
                          cdz_error *err);

/* What a tensor is for the choice of its type. */
typedef enum cdz_role {
    CDZ_ROLE_MATRIX,
    CDZ_ROLE_EMBED, /* looked up only */
    CDZ_ROLE_HEAD,  /* the head, or the embedding that is one */
    CDZ_ROLE_KEPT,  /* norms, biases, positions, routers */
} cdz_role;

/* The type of a matrix with rows of k where `wanted` was asked for: of GGUF's types a larger one
 * for the head, another where blocks do not fit, `own` where none does; bitsandbytes' types are
 * for the layers' matrices alone. CDZ_N_DTYPES: nothing was asked for. */
cdz_dtype cdz_type_for(cdz_dtype wanted, cdz_role role, size_t k, cdz_dtype own);

#endif
