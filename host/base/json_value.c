/* json_value.c - questions about what was read. */
#include <string.h>

#include "base/json_table.h"

const cdz_json *cdz_json_get(const cdz_json *object, const char *key)
{
    if (!cdz_json_is(object, CDZ_JSON_OBJECT)) return NULL;
    size_t len = strlen(key);
    if (object->indexed) {
        const cdz_json_member *found = cdz_json_table_find(object->members, key, len);
        return found ? &found->value : NULL;
    }
    for (uint32_t i = 0; i < object->len; i++)
        if (cdz_json_name_is(&object->members[i], key, len)) return &object->members[i].value;
    return NULL;
}

bool cdz_json_eq(const cdz_json *value, const char *text)
{
    return cdz_json_is(value, CDZ_JSON_STRING) && strlen(text) == value->len &&
           memcmp(value->string, text, value->len) == 0;
}

bool cdz_json_number(const cdz_json *value, double *out)
{
    if (cdz_json_is(value, CDZ_JSON_INT))
        *out = (double)value->integer;
    else if (cdz_json_is(value, CDZ_JSON_REAL))
        *out = value->real;
    else
        return false;
    return true;
}

const char *cdz_json_type_name(const cdz_json *value)
{
    if (!value) return "nothing";
    switch ((cdz_json_type)value->type) {
    case CDZ_JSON_NULL: return "null";
    case CDZ_JSON_BOOL: return value->boolean ? "true" : "false";
    case CDZ_JSON_INT: return "an integer";
    case CDZ_JSON_REAL: return "a number";
    case CDZ_JSON_STRING: return "a string";
    case CDZ_JSON_ARRAY: return "an array";
    case CDZ_JSON_OBJECT: return "an object";
    }
    return "nothing";
}
