/* config_keys.c - one key of a configuration: its type, its range, its sentence. */
#include "load/config_keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Under another spelling, where there is one that the file has; NULL: not. */
static const cdz_json *find_alias(const cdz_keys *keys, const char *key)
{
    const cdz_json *value = NULL;
    for (const cdz_key_alias *a = keys->aliases; a && a->key && !value; a++)
        if (strcmp(a->key, key) == 0) value = cdz_json_get(keys->object, a->other);
    return cdz_json_is(value, CDZ_JSON_NULL) ? NULL : value;
}

const cdz_json *cdz_key(const cdz_keys *keys, const char *key)
{
    const cdz_json *other = find_alias(keys, key);
    const cdz_json *value = other ? other : cdz_json_get(keys->object, key);
    return cdz_json_is(value, CDZ_JSON_NULL) ? NULL : value;
}

bool cdz_key_is_null(const cdz_keys *keys, const char *key)
{
    return cdz_json_is(cdz_json_get(keys->object, key), CDZ_JSON_NULL);
}

static const char *prefix_of(const cdz_keys *keys)
{
    return keys->prefix ? keys->prefix : "";
}

static cdz_status missing(const cdz_keys *keys, const char *key)
{
    return cdz_err(keys->err, CDZ_E_INPUT, "%s: %s%s is missing", keys->path, prefix_of(keys), key);
}

/* What a value is, for "found": a number itself, else its kind. */
static const char *shown(const cdz_json *value, char buf[48])
{
    if (value->type == CDZ_JSON_INT)
        snprintf(buf, 48, "%lld", (long long)value->integer);
    else if (value->type == CDZ_JSON_REAL)
        snprintf(buf, 48, "%g", value->real);
    else
        return cdz_json_type_name(value);
    return buf;
}

static cdz_status whole_number(const cdz_keys *keys, const cdz_json *value, const char *key,
                               uint32_t min, uint32_t max, uint32_t *out)
{
    char buf[48];
    if (value->type != CDZ_JSON_INT || value->integer < (int64_t)min ||
        value->integer > (int64_t)max)
        return cdz_err(keys->err, CDZ_E_INPUT,
                       "%s:%u: %s%s is %s, expected a whole number from %u to %u", keys->path,
                       (unsigned)value->line, prefix_of(keys), key, shown(value, buf),
                       (unsigned)min, (unsigned)max);
    *out = (uint32_t)value->integer;
    return CDZ_OK;
}

cdz_status cdz_key_size(const cdz_keys *keys, const char *key, const uint32_t *fallback,
                        uint32_t max, uint32_t *out)
{
    const cdz_json *value = cdz_key(keys, key);
    if (value) return whole_number(keys, value, key, 1, max, out);
    if (!fallback) return missing(keys, key);
    *out = *fallback;
    return CDZ_OK;
}

cdz_status cdz_key_count(const cdz_keys *keys, const char *key, uint32_t fallback, uint32_t max,
                         uint32_t *out)
{
    const cdz_json *value = cdz_key(keys, key);
    if (value) return whole_number(keys, value, key, 0, max, out);
    *out = fallback;
    return CDZ_OK;
}

cdz_status cdz_key_real(const cdz_keys *keys, const char *key, double fallback, double min,
                        double max, double *out)
{
    const cdz_json *value = cdz_key(keys, key);
    char buf[48];
    if (!value && isnan(fallback)) return missing(keys, key);
    *out = fallback;
    if (value && (!cdz_json_number(value, out) || !(*out >= min && *out <= max)))
        return cdz_err(keys->err, CDZ_E_INPUT, "%s:%u: %s%s is %s, expected a number from %g to %g",
                       keys->path, (unsigned)value->line, prefix_of(keys), key, shown(value, buf),
                       min, max);
    return CDZ_OK;
}

cdz_status cdz_key_bool(const cdz_keys *keys, const char *key, bool fallback, bool *out)
{
    const cdz_json *value = cdz_key(keys, key);
    char buf[48];
    if (value && value->type != CDZ_JSON_BOOL)
        return cdz_err(keys->err, CDZ_E_INPUT, "%s:%u: %s%s is %s, expected true or false",
                       keys->path, (unsigned)value->line, prefix_of(keys), key, shown(value, buf));
    *out = value ? value->boolean : fallback;
    return CDZ_OK;
}
