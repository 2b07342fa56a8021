/* schema_same.c - whether JSON values are equal, and whether a list has one. Numbers are equal by value, objects whatever the
 * order of their members. Long lists are looked through once, into a table of hashes that the schema keeps; what recurses
 * goes as deep as a document may, CDZ_SCHEMA_MAX_DEPTH. */
#include <string.h>

#include "base/json_table.h"
#include "grammar/schema.h"

enum { LONG_LIST = 16 };

/* --- equal --------------------------------------------------------------------------------------------- */

const cdz_json *cdz_schema_member(const cdz_json *object, const char *name, uint32_t len)
{
    if (!cdz_json_is(object, CDZ_JSON_OBJECT)) return NULL;
    if (object->indexed) {
        const cdz_json_member *found = cdz_json_table_find(object->members, name, len);
        return found ? &found->value : NULL;
    }
    for (uint32_t i = 0; i < object->len; i++)
        if (cdz_json_name_is(&object->members[i], name, len)) return &object->members[i].value;
    return NULL;
}

static bool equal_objects(const cdz_json *a, const cdz_json *b)
{
    for (uint32_t i = 0; i < a->len; i++) {
        const cdz_json_member *m = &a->members[i];
        const cdz_json *other = cdz_schema_member(b, m->key, m->key_len);
        if (!other || !cdz_schema_same(&m->value, other)) return false;
    }
    return true;
}

static bool equal_arrays(const cdz_json *a, const cdz_json *b)
{
    for (uint32_t i = 0; i < a->len; i++)
        if (!cdz_schema_same(&a->items[i], &b->items[i])) return false;
    return true;
}

bool cdz_schema_same(const cdz_json *a, const cdz_json *b)
{
    double x, y;
    if (cdz_json_number(a, &x) && cdz_json_number(b, &y))
        return a->type == CDZ_JSON_INT && b->type == CDZ_JSON_INT ? a->integer == b->integer
                                                                  : x == y;
    if (a->type != b->type) return false;
    switch ((cdz_json_type)a->type) {
    case CDZ_JSON_NULL: return true;
    case CDZ_JSON_BOOL: return a->boolean == b->boolean;
    case CDZ_JSON_STRING: return a->len == b->len && memcmp(a->string, b->string, a->len) == 0;
    case CDZ_JSON_ARRAY: return a->len == b->len && equal_arrays(a, b);
    default: return a->len == b->len && equal_objects(a, b);
    }
}

/* --- hashes --------------------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t h, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ at[i]) * 16777619u;
    return h ^ h >> 15;
}

/* Equal values have equal hashes. Of an object only what its order does not change: its length, and a sum over members. */
uint32_t cdz_schema_same_hash(const cdz_json *v)
{
    double x;
    uint32_t h = 2166136261u + (uint32_t)v->type;
    if (cdz_json_number(v, &x)) {
        x += 0.0; /* -0 is 0 */
        return mix(2166136261u, &x, sizeof x);
    }
    switch ((cdz_json_type)v->type) {
    case CDZ_JSON_BOOL: return mix(h, &v->boolean, sizeof v->boolean);
    case CDZ_JSON_STRING: return mix(h, v->string, v->len);
    case CDZ_JSON_ARRAY:
        for (uint32_t i = 0; i < v->len; i++) h = 31 * h + cdz_schema_same_hash(&v->items[i]);
        return h;
    case CDZ_JSON_OBJECT:
        for (uint32_t i = 0; i < v->len; i++)
            h += mix(cdz_schema_same_hash(&v->members[i].value), v->members[i].key,
                     v->members[i].key_len);
        return h;
    default: return h;
    }
}

/* --- long lists ------------------------------------------------------------------------------------------- */

void cdz_schema_lists_free(cdz_schema *s)
{
    for (uint32_t i = 0; i < s->n_indexes; i++) free(s->indexes[i].table.at);
    free(s->indexes);
    free(s->index_table.at);
}

static uint32_t index_hash(const void *of, uint32_t number)
{
    const cdz_schema *s = of;
    return mix(2166136261u, &s->indexes[number - 1].list, sizeof(const cdz_json *));
}

static uint32_t item_hash(const void *of, uint32_t number)
{
    return cdz_schema_same_hash(&((const cdz_json *)of)->items[number - 1]);
}

/* False: out of memory. */
static bool make_index(const cdz_json *list, cdz_schema_index *out)
{
    *out = (cdz_schema_index){.list = list};
    for (uint32_t i = 0; i < list->len; i++) {
        cdz_item_table *t = &out->table;
        if (!cdz_item_table_room(t, i, item_hash, list)) {
            free(t->at);
            return false;
        }
        uint32_t at = item_hash(list, i + 1) & (t->size - 1);
        while (t->at[at]) at = (at + 1) & (t->size - 1);
        t->at[at] = i + 1;
    }
    return true;
}

/* NULL: out of memory. */
static const cdz_schema_index *index_of(cdz_schema *s, const cdz_json *list)
{
    cdz_item_table *t = &s->index_table;
    if (!cdz_item_table_room(t, s->n_indexes, index_hash, s) || !t->at) return NULL;
    uint32_t at = mix(2166136261u, &list, sizeof(const cdz_json *)) & (t->size - 1);
    while (t->at[at] && s->indexes[t->at[at] - 1].list != list) at = (at + 1) & (t->size - 1);
    if (!t->at[at]) {
        if (!cdz_grow(&s->indexes, &s->indexes_cap, (size_t)s->n_indexes + 1, sizeof *s->indexes) ||
            !make_index(list, &s->indexes[s->n_indexes]))
            return NULL;
        t->at[at] = ++s->n_indexes;
    }
    return &s->indexes[t->at[at] - 1];
}

cdz_status cdz_schema_list_has(cdz_schema *s, const cdz_json *list, const cdz_json *value, bool *has)
{
    *has = false;
    if (list->len <= LONG_LIST) {
        for (uint32_t i = 0; i < list->len && !*has; i++)
            *has = cdz_schema_same(&list->items[i], value);
        return CDZ_OK;
    }
    const cdz_schema_index *index = index_of(s, list);
    if (!index || !index->table.at) return cdz_schema_no_memory(s);
    const cdz_item_table *t = &index->table;
    uint32_t at = cdz_schema_same_hash(value) & (t->size - 1);
    for (; t->at[at] && !*has; at = (at + 1) & (t->size - 1))
        *has = cdz_schema_same(&list->items[t->at[at] - 1], value);
    return CDZ_OK;
}
