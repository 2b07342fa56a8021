/* param_types.h - what the sources of the parameter registry share: the C shape of each type. Private to config/. */
#ifndef CDZ_HOST_PARAMS_PARAM_TYPES_H
#define CDZ_HOST_PARAMS_PARAM_TYPES_H

#include "params/params.h"

typedef struct cdz_param_shape {
    size_t bytes, align;
    const char *words; /* "an integer", for sentences */
} cdz_param_shape;

/* NULL for an unknown type. */
const cdz_param_shape *cdz_param_shape_of(uint16_t type);

void cdz_param_set_default(const cdz_param *param, void *params);

static inline void *cdz_param_field(const cdz_param *param, void *params)
{
    return (unsigned char *)params + param->offset;
}

static inline const void *cdz_param_field_const(const cdz_param *param, const void *params)
{
    return (const unsigned char *)params + param->offset;
}

#endif
