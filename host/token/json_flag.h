/* json_flag.h - reading a switch of a tokenizer.json's part. */
#ifndef CDZ_HOST_TOKEN_JSON_FLAG_H
#define CDZ_HOST_TOKEN_JSON_FLAG_H

#include "base/json.h"

/* A member that is true or false; absent or null it is `absent`. what: the part, for sentences. */
static inline cdz_status cdz_json_flag(const cdz_json *part, const char *what, const char *key,
                                       bool absent, bool *out, cdz_error *err)
{
    const cdz_json *v = cdz_json_get(part, key);
    *out = absent;
    if (!v || cdz_json_is(v, CDZ_JSON_NULL)) return CDZ_OK;
    if (!cdz_json_is(v, CDZ_JSON_BOOL))
        return cdz_err(err, CDZ_E_INPUT, "line %u: %s: \"%s\" is %s, expected true or false",
                       v->line, what, key, cdz_json_type_name(v));
    *out = v->boolean;
    return CDZ_OK;
}

#endif
