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

static bool copy_items(cdz_arena *arena, const cdz_json *value, cdz_json *out)
{
    cdz_json *items = cdz_arena_array(arena, value->len, sizeof *items);
    for (uint32_t i = 0; items && i < value->len; i++)
        if (!cdz_json_copy(arena, &value->items[i], &items[i])) return false;
    out->items = items;
    return items != NULL;
}

static bool copy_members(cdz_arena *arena, const cdz_json *value, cdz_json *out)
{
    cdz_json_member *members = cdz_arena_array(arena, value->len, sizeof *members);
    for (uint32_t i = 0; members && i < value->len; i++) {
        const cdz_json_member *from = &value->members[i];
        members[i].key_len = from->key_len;
        members[i].key = cdz_arena_strndup(arena, from->key, from->key_len);
        if (!members[i].key || !cdz_json_copy(arena, &from->value, &members[i].value)) return false;
    }
    out->members = members;
    return members != NULL;
}

/* As deep as the reader lets documents be. */
bool cdz_json_copy(cdz_arena *arena, const cdz_json *value, cdz_json *out)
{
    *out = *value;
    out->indexed = false;
    switch ((cdz_json_type)value->type) {
    case CDZ_JSON_STRING:
        return (out->string = cdz_arena_strndup(arena, value->string, value->len)) != NULL;
    case CDZ_JSON_ARRAY: return copy_items(arena, value, out);
    case CDZ_JSON_OBJECT: return copy_members(arena, value, out);
    default: return true;
    }
}
