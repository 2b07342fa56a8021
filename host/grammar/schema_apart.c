/* schema_apart.c - whether alternatives exclude each other: by their types, by values that both spell out, by bounds, and for
 * objects by a key that one of them requires. */
#include <math.h>

#include "grammar/schema.h"

void cdz_schema_spelt(const cdz_schema_list *list, const cdz_json **values, uint32_t *n)
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
    cdz_schema_spelt(a, &values, &n);
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

/* The bound of a list on one side, and whether it is not reached itself; +-infinity: there is none. */
static double bound_of(const cdz_schema_list *list, bool lower, bool *strict)
{
    double bound = lower ? -HUGE_VAL : HUGE_VAL, x;
    *strict = false;
    for (uint32_t i = 0; i < list->n; i++)
        for (int k = 0; k < 2; k++) {
            const char *const names[2][2] = {{"maximum", "exclusiveMaximum"},
                                             {"minimum", "exclusiveMinimum"}};
            if (!cdz_json_number(cdz_schema_bound(list->at[i].schema, names[lower][k]), &x))
                continue;
            if (x == bound) *strict |= k;
            if (lower ? x > bound : x < bound) {
                bound = x;
                *strict = k;
            }
        }
    return bound;
}

static bool above(const cdz_schema_list *a, const cdz_schema_list *b)
{
    bool strict_lo, strict_hi;
    const double lo = bound_of(a, true, &strict_lo), hi = bound_of(b, false, &strict_hi);
    return lo > hi || (lo == hi && (strict_lo || strict_hi));
}

/* --- objects ----------------------------------------------------------------------------------------- */

/* What a list says of a key's value. */
static cdz_status of_key(cdz_schema *s, const cdz_schema_list *list, const cdz_json *key,
                         cdz_schema_list *out)
{
    *out = (cdz_schema_list){0};
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *schema = list->at[i].schema;
        const cdz_json *own =
            cdz_schema_member(cdz_json_get(schema, "properties"), key->string, key->len);
        if (!own && !cdz_json_get(schema, "patternProperties"))
            own = cdz_json_get(schema, "additionalProperties");
        if (own) CDZ_TRY(cdz_schema_add(s, out, own));
    }
    return CDZ_OK;
}

/* A key that must be there, and whose values in the two lists exclude each other. One level deep: values and types. */
static cdz_status by_key(cdz_schema *s, const cdz_schema_list *a, const cdz_schema_list *b,
                         const cdz_json *key, bool *apart)
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
                CDZ_TRY(by_key(s, a, b, &required->items[k], apart));
    }
    return CDZ_OK;
}

cdz_status cdz_schema_objects_apart(cdz_schema *s, const cdz_schema_list *a,
                                    const cdz_schema_list *b, bool *apart)
{
    *apart = false;
    CDZ_TRY(by_required(s, a, b, apart));
    return by_required(s, b, a, apart);
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
    return !*apart && common == CDZ_TYPE_OBJECT ? cdz_schema_objects_apart(s, a, b, apart) : CDZ_OK;
}

/* --- many alternatives --------------------------------------------------------------------------------- */

struct spelled_out {
    const cdz_json *value;
    uint32_t choice;
};

/* Values that alternatives spell out, by their hashes. */
typedef struct apart_values {
    struct spelled_out *at;
    uint32_t n, cap;
    cdz_item_table table;
} apart_values;

static uint32_t apart_hash(const void *of, uint32_t number)
{
    return cdz_schema_same_hash(((const apart_values *)of)->at[number - 1].value);
}

/* *apart becomes false where another choice has the value. */
static cdz_status note_value(cdz_schema *s, apart_values *all, const cdz_json *value,
                             uint32_t choice, bool *apart)
{
    cdz_item_table *t = &all->table;
    CDZ_TRY(cdz_schema_in_time(s));
    if (!cdz_item_table_room(t, all->n, apart_hash, all) ||
        !cdz_grow(&all->at, &all->cap, (size_t)all->n + 1, sizeof *all->at))
        return cdz_schema_no_memory(s);
    uint32_t at = cdz_schema_same_hash(value) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (all->at[i - 1].choice != choice && cdz_schema_same(all->at[i - 1].value, value))
            *apart = false;
    all->at[all->n].value = value;
    all->at[all->n].choice = choice;
    t->at[at] = ++all->n;
    return CDZ_OK;
}

static cdz_status note_spelt(cdz_schema *s, apart_values *all, const cdz_schema_list *list,
                             uint32_t choice, bool *apart)
{
    const cdz_json *values;
    uint32_t n;
    cdz_schema_spelt(list, &values, &n);
    *apart &= values != NULL;
    for (uint32_t i = 0; i < n && *apart; i++)
        CDZ_TRY(note_value(s, all, &values[i], choice, apart));
    return CDZ_OK;
}

static bool is_required(const cdz_schema_list *list, const cdz_json *key)
{
    bool has = false;
    for (uint32_t i = 0; i < list->n && !has; i++) {
        const cdz_json *required = cdz_json_get(list->at[i].schema, "required");
        for (uint32_t k = 0; cdz_json_is(required, CDZ_JSON_ARRAY) && k < required->len && !has; k++)
            has = cdz_schema_same(&required->items[k], key);
    }
    return has;
}

/* Of an alternative: what it spells out at a key, or itself where key is NULL. */
static cdz_status note_choice(cdz_schema *s, apart_values *all, const cdz_schema_list *own,
                              const cdz_json *key, uint32_t choice, bool *apart)
{
    cdz_schema_list at_key = {0};
    uint32_t types;
    if (!key) return note_spelt(s, all, own, choice, apart);
    CDZ_TRY(cdz_schema_types(s, own, &types));
    *apart &= !(types & ~(uint32_t)CDZ_TYPE_OBJECT) && is_required(own, key);
    cdz_status st = *apart ? of_key(s, own, key, &at_key) : CDZ_OK;
    if (st == CDZ_OK && *apart) st = note_spelt(s, all, &at_key, choice, apart);
    cdz_schema_list_free(&at_key);
    return st;
}

static cdz_status apart_at(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                           const cdz_json *choices, const cdz_json *key, bool *apart)
{
    apart_values all = {0};
    cdz_status st = CDZ_OK;
    *apart = true;
    for (uint32_t k = 0; k < choices->len && *apart && st == CDZ_OK; k++) {
        cdz_schema_list own = {0};
        st = cdz_schema_alternative(s, list, entry, CDZ_CHOSEN_ONE, &choices->items[k], &own);
        if (st == CDZ_OK) st = note_choice(s, &all, &own, key, k, apart);
        cdz_schema_list_free(&own);
    }
    free(all.at);
    free(all.table.at);
    return st;
}

/* The keys that the first alternative requires are tried one after the other. */
static cdz_status apart_by_keys(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                                const cdz_json *choices, const cdz_schema_list *first, bool *apart)
{
    for (uint32_t i = 0; i < first->n && !*apart; i++) {
        const cdz_json *required = cdz_json_get(first->at[i].schema, "required");
        for (uint32_t k = 0; cdz_json_is(required, CDZ_JSON_ARRAY) && k < required->len && !*apart;
             k++)
            if (cdz_json_is(&required->items[k], CDZ_JSON_STRING))
                CDZ_TRY(apart_at(s, list, entry, choices, &required->items[k], apart));
    }
    return CDZ_OK;
}

cdz_status cdz_schema_told_apart(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                                 const cdz_json *choices, bool *apart)
{
    cdz_schema_list first = {0};
    CDZ_TRY(apart_at(s, list, entry, choices, NULL, apart));
    if (*apart) return CDZ_OK;
    cdz_status st =
        cdz_schema_alternative(s, list, entry, CDZ_CHOSEN_ONE, &choices->items[0], &first);
    if (st == CDZ_OK) st = apart_by_keys(s, list, entry, choices, &first, apart);
    cdz_schema_list_free(&first);
    return st;
}

/* --- what nothing satisfies ---------------------------------------------------------------------------- */

/* A key that must be there and cannot. */
static cdz_status void_key(cdz_schema *s, const cdz_schema_list *list, const cdz_json *key,
                           bool *nothing)
{
    cdz_schema_list own;
    uint32_t types = 0, n;
    const cdz_json *values;
    cdz_status st = of_key(s, list, key, &own);
    if (st == CDZ_OK) st = cdz_schema_types(s, &own, &types);
    if (st == CDZ_OK && (own.never || !types)) *nothing = true;
    cdz_schema_spelt(&own, &values, &n);
    bool any = !values;
    for (uint32_t i = 0; st == CDZ_OK && i < n && !any; i++)
        st = cdz_schema_valid(s, &own, &values[i], 0, &any);
    *nothing |= st == CDZ_OK && !any;
    cdz_schema_list_free(&own);
    return st;
}

cdz_status cdz_schema_void(cdz_schema *s, const cdz_schema_list *list, bool *nothing)
{
    uint32_t types;
    *nothing = list->never;
    CDZ_TRY(cdz_schema_types(s, list, &types));
    *nothing |= !types;
    for (uint32_t i = 0; types == CDZ_TYPE_OBJECT && i < list->n; i++) {
        const cdz_json *required = cdz_json_get(list->at[i].schema, "required");
        for (uint32_t k = 0;
             cdz_json_is(required, CDZ_JSON_ARRAY) && k < required->len && !*nothing; k++)
            if (cdz_json_is(&required->items[k], CDZ_JSON_STRING))
                CDZ_TRY(void_key(s, list, &required->items[k], nothing));
    }
    return CDZ_OK;
}
