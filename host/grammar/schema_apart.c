/* schema_apart.c - whether alternatives exclude each other: by their types, by values that both spell out, by bounds, and for
 * objects by a key that one of them requires. */
#include "grammar/schema.h"

/* The values that a list allows, where it spells them out. */
static void spelt(const cdz_schema_list *list, const cdz_json **values, uint32_t *n)
{
    *values = NULL;
    *n = 0;
    for (uint32_t i = 0; i < list->n && !*values; i++) {
        const cdz_json *one = cdz_json_get(list->at[i].schema, "const");
        const cdz_json *many = cdz_json_get(list->at[i].schema, "enum");
        if (one) {
            *values = one;
            *n = 1;
        } else if (cdz_json_is(many, CDZ_JSON_ARRAY)) {
            *values = many->items;
            *n = many->len;
        }
    }
}

/* Whether the first list spells its values out, and the second has none of them. */
static cdz_status by_values(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                            bool *apart)
{
    const cdz_json *values;
    uint32_t n;
    spelt(a, &values, &n);
    if (!values || *apart) return CDZ_OK;
    for (uint32_t i = 0; i < n; i++) {
        bool in_a = false, in_b = false;
        CDZ_TRY(cdz_schema_valid(s, a, &values[i], 0, &in_a));
        if (in_a) CDZ_TRY(cdz_schema_valid(s, b, &values[i], 0, &in_b));
        if (in_b) return CDZ_OK;
    }
    *apart = true;
    return CDZ_OK;
}

static bool above(const cdz_schema_list *a, const cdz_schema_list *b)
{
    double lo = -1e308 * 10, hi = 1e308 * 10, x;
    bool strict = false;
    for (uint32_t i = 0; i < a->n; i++) {
        if (cdz_json_number(cdz_json_get(a->at[i].schema, "minimum"), &x) && x > lo) lo = x;
        if (cdz_json_number(cdz_json_get(a->at[i].schema, "exclusiveMinimum"), &x) && x >= lo) {
            lo = x;
            strict = true;
        }
    }
    for (uint32_t i = 0; i < b->n; i++) {
        if (cdz_json_number(cdz_json_get(b->at[i].schema, "maximum"), &x) && x < hi) hi = x;
        if (cdz_json_number(cdz_json_get(b->at[i].schema, "exclusiveMaximum"), &x) && x <= hi) {
            hi = x;
            strict = true;
        }
    }
    return lo > hi || (lo == hi && strict);
}

/* --- objects ----------------------------------------------------------------------------------------- */

/* What a list says of a key's value. */
static cdz_status of_key(cdz_schema *s, const cdz_schema_list *list, const char *key,
                         cdz_schema_list *out)
{
    *out = (cdz_schema_list){0};
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *schema = list->at[i].schema;
        const cdz_json *own = cdz_json_get(cdz_json_get(schema, "properties"), key);
        if (!own && !cdz_json_get(schema, "patternProperties"))
            own = cdz_json_get(schema, "additionalProperties");
        if (own) CDZ_TRY(cdz_schema_add(s, out, own));
    }
    return CDZ_OK;
}

/* A key that must be there, and whose values in the two lists exclude each other. One level deep: values and types. */
static cdz_status by_key(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                         const char *key, bool *apart)
{
    cdz_schema_list x, y = {0};
    uint32_t types_x = 0, types_y = 0;
    cdz_status st = of_key(s, a, key, &x);
    if (st == CDZ_OK) st = of_key(s, b, key, &y);
    if (st == CDZ_OK) st = cdz_schema_types(s, &x, &types_x);
    if (st == CDZ_OK) st = cdz_schema_types(s, &y, &types_y);
    if (st == CDZ_OK && (x.never || y.never || !(types_x & types_y))) *apart = true;
    if (st == CDZ_OK) st = by_values(s, &x, &y, apart);
    if (st == CDZ_OK) st = by_values(s, &y, &x, apart);
    cdz_schema_list_free(&x);
    cdz_schema_list_free(&y);
    return st;
}

static cdz_status by_required(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                              bool *apart)
{
    for (uint32_t i = 0; i < a->n && !*apart; i++) {
        const cdz_json *required = cdz_json_get(a->at[i].schema, "required");
        for (uint32_t k = 0; cdz_json_is(required, CDZ_JSON_ARRAY) && k < required->len && !*apart;
             k++)
            if (cdz_json_is(&required->items[k], CDZ_JSON_STRING))
                CDZ_TRY(by_key(s, a, b, required->items[k].string, apart));
    }
    return CDZ_OK;
}

cdz_status cdz_schema_apart(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                            bool *apart)
{
    uint32_t types_a, types_b;
    *apart = a->never || b->never;
    CDZ_TRY(cdz_schema_types(s, a, &types_a));
    CDZ_TRY(cdz_schema_types(s, b, &types_b));
    const uint32_t common = types_a & types_b;
    if (!common) *apart = true;
    if (!*apart) CDZ_TRY(by_values(s, a, b, apart));
    if (!*apart) CDZ_TRY(by_values(s, b, a, apart));
    if (!*apart && !(common & ~(uint32_t)(CDZ_TYPE_INTEGER | CDZ_TYPE_FRACTION)))
        *apart = above(a, b) || above(b, a);
    if (!*apart && common == CDZ_TYPE_OBJECT) {
        CDZ_TRY(by_required(s, a, b, apart));
        CDZ_TRY(by_required(s, b, a, apart));
    }
    return CDZ_OK;
}
