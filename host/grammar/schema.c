/* schema.c - JSON Schema: places and their rules, what is refused, alternatives, types. */
#include "grammar/schema.h"

#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "grammar/grow.h"
#include "grammar/states.h"

/* --- sentences --------------------------------------------------------------------------------------- */

cdz_status cdz_schema_no_memory(const cdz_schema *s)
{
    return cdz_err_memory(s->err, "a JSON schema");
}

cdz_status cdz_schema_wrong(const cdz_schema *s, const cdz_json *at, const char *keyword,
                            const char *text)
{
    return cdz_err(s->err, CDZ_E_INPUT, "schema:%u:%u: %s: %s", at->line, at->column, keyword, text);
}

cdz_status cdz_schema_refuse(const cdz_schema *s, const cdz_json *at, const char *keyword,
                             const char *text)
{
    return cdz_err(s->err, CDZ_E_UNSUPPORTED, "schema:%u:%u: %s is not supported%s%s", at->line,
                   at->column, keyword, *text ? ": " : "", text);
}

cdz_status cdz_schema_in_time(const cdz_schema *s)
{
    const cdz_status st = cdz_net_in_time(s->net);
    return st == CDZ_OK ? CDZ_OK : cdz_err(s->err, st, "%s", s->net->error.text);
}

/* --- lists ------------------------------------------------------------------------------------------- */

void cdz_schema_list_free(cdz_schema_list *list)
{
    free(list->at);
    *list = (cdz_schema_list){0};
}

static bool list_copy(const cdz_schema_list *from, cdz_schema_list *to)
{
    *to = (cdz_schema_list){.n = from->n, .never = from->never};
    if (!from->n) return true;
    if (!cdz_grow(&to->at, &to->cap, from->n, sizeof *to->at)) return false;
    memcpy(to->at, from->at, from->n * sizeof *to->at);
    return true;
}

/* Keywords that are refused wherever they stand. */
static cdz_status refuse_keywords(const cdz_schema *s, const cdz_json *schema)
{
    const cdz_json *v = cdz_json_get(schema, "x-guidance");
    if (v && schema != s->root) return cdz_schema_refuse(s, v, "x-guidance", "below the top");
    return CDZ_OK;
}

/* --- a schema and what it leads to -------------------------------------------------------------------- */

cdz_status cdz_schema_push(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema)
{
    if (schema->type == CDZ_JSON_BOOL) {
        list->never |= !schema->boolean;
        return CDZ_OK;
    }
    if (schema->type != CDZ_JSON_OBJECT)
        return cdz_err(s->err, CDZ_E_INPUT, "schema:%u:%u: expected a schema, found %s",
                       schema->line, schema->column, cdz_json_type_name(schema));
    if (!schema->len) return CDZ_OK;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i].schema == schema) {
            list->at[i].shared |= list->at[i].parent != list->parent;
            return CDZ_OK;
        }
    if (list->n >= CDZ_SCHEMA_MAX_LIST)
        return cdz_schema_wrong(s, schema, "allOf",
                                "too many schemas hold at one place (grammar_max_states)");
    if (!cdz_grow(&list->at, &list->cap, (size_t)list->n + 1, sizeof *list->at))
        return cdz_schema_no_memory(s);
    list->at[list->n++] = (cdz_schema_entry){
        .schema = schema, .parent = list->parent, .via = list->via, .silent = list->silent};
    return CDZ_OK;
}

static cdz_status schemas_of(const cdz_schema *s, const cdz_json *schema, const char *keyword,
                             const cdz_json **out)
{
    const cdz_json *v = cdz_json_get(schema, keyword);
    *out = v;
    if (v && (v->type != CDZ_JSON_ARRAY || !v->len))
        return cdz_schema_wrong(s, v, keyword, "expected a list of schemas");
    return CDZ_OK;
}

uint32_t cdz_schema_place_of(const cdz_json *object, const cdz_json *value)
{
    const size_t to_value = offsetof(cdz_json_member, value);
    if (!value) return CDZ_VIA_LAST;
    return (uint32_t)((const cdz_json_member *)((const char *)value - to_value) - object->members);
}

/* What an entry leads to. */
static cdz_status add_led(cdz_schema *s, cdz_schema_list *list, uint32_t next)
{
    CDZ_TRY(cdz_schema_in_time(s));
    const cdz_json *at = list->at[next].schema, *all, *target;
    const cdz_json *ref = cdz_json_get(at, "$ref");
    if (ref && !s->siblings_of_ref) {
        CDZ_TRY(cdz_schema_resolve(s, ref, "$ref", &target));
        /* alone: the schema beside it says nothing */
        static const cdz_json_member none;
        static const cdz_json empty = {.type = CDZ_JSON_OBJECT, .members = &none};
        list->at[next].schema = &empty;
        list->at[next].chosen = CDZ_CHOSEN_ANY | CDZ_CHOSEN_ONE;
        return cdz_schema_push(s, list, target);
    }
    CDZ_TRY(refuse_keywords(s, at));
    static const char *const refs[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    for (size_t i = 0; i < sizeof refs / sizeof *refs; i++) {
        const cdz_json *v = cdz_json_get(at, refs[i]);
        if (!v) continue;
        CDZ_TRY(cdz_schema_resolve(s, v, refs[i], &target));
        list->via = cdz_schema_place_of(at, v);
        CDZ_TRY(cdz_schema_push(s, list, target));
    }
    list->via = CDZ_VIA_LAST;
    CDZ_TRY(cdz_schema_push_made(s, list, at));
    CDZ_TRY(schemas_of(s, at, "allOf", &all));
    if (all) list->via = cdz_schema_place_of(at, all);
    for (uint32_t i = 0; all && i < all->len; i++)
        CDZ_TRY(cdz_schema_push(s, list, &all->items[i]));
    return CDZ_OK;
}

cdz_status cdz_schema_add(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema)
{
    const uint32_t parent = list->parent, via = list->via;
    const bool silent = list->silent;
    uint32_t next = list->n;
    CDZ_TRY(cdz_schema_push(s, list, schema));
    for (; next < list->n; next++) {
        list->parent = next + 1;
        list->silent = list->at[next].silent;
        CDZ_TRY(add_led(s, list, next));
    }
    list->parent = parent;
    list->via = via;
    list->silent = silent;
    return CDZ_OK;
}

/* --- places ------------------------------------------------------------------------------------------ */

static uint32_t list_hash(const cdz_schema_list *list)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t h = list->never ? odd : 0;
    for (uint32_t i = 0; i < list->n; i++)
        h = (h ^ (uint64_t)(uintptr_t)list->at[i].schema ^ list->at[i].chosen ^
             (uint64_t)list->at[i].parent << 40) *
            odd;
    return (uint32_t)(h >> 32);
}

static bool same_list(const cdz_schema_list *a, const cdz_schema_list *b)
{
    bool same = a->n == b->n && a->never == b->never;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->at[i].schema == b->at[i].schema && a->at[i].chosen == b->at[i].chosen &&
               a->at[i].parent == b->at[i].parent && a->at[i].via == b->at[i].via &&
               a->at[i].silent == b->at[i].silent && a->at[i].shared == b->at[i].shared;
    return same;
}

static uint32_t place_hash(const void *of, uint32_t number)
{
    const cdz_schema *s = of;
    return list_hash(&s->places[number - 1].list);
}

cdz_status cdz_schema_rule(cdz_schema *s, cdz_schema_list *list, uint32_t *rule)
{
    cdz_item_table *t = &s->table;
    if (!cdz_item_table_room(t, s->n_places, place_hash, s)) return cdz_schema_no_memory(s);
    uint32_t at = list_hash(list) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (same_list(&s->places[i - 1].list, list)) {
            *rule = s->places[i - 1].rule;
            cdz_schema_list_free(list);
            return CDZ_OK;
        }
    if (s->n_places >= CDZ_SCHEMA_MAX_LISTS)
        return cdz_err(s->err, CDZ_E_LIMIT,
                       "the schema has more than %d places (grammar_max_states)",
                       CDZ_SCHEMA_MAX_LISTS);
    if (!cdz_grow(&s->places, &s->places_cap, (size_t)s->n_places + 1, sizeof *s->places))
        return cdz_schema_no_memory(s);
    *rule = cdz_net_rule_new(s->net);
    s->places[s->n_places] = (cdz_schema_place){.list = *list, .rule = *rule};
    *list = (cdz_schema_list){0};
    t->at[at] = ++s->n_places;
    return CDZ_OK;
}

/* --- types ------------------------------------------------------------------------------------------- */

static uint32_t type_named(const cdz_json *name)
{
    static const struct {
        const char *name;
        uint32_t types;
    } all[] = {{"null", CDZ_TYPE_NULL},       {"boolean", CDZ_TYPE_BOOLEAN},
               {"integer", CDZ_TYPE_INTEGER}, {"number", CDZ_TYPE_INTEGER | CDZ_TYPE_FRACTION},
               {"string", CDZ_TYPE_STRING},   {"array", CDZ_TYPE_ARRAY},
               {"object", CDZ_TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (cdz_json_eq(name, all[i].name)) return all[i].types;
    return 0;
}

static cdz_status types_named(const cdz_schema *s, const cdz_json *v, uint32_t *types)
{
    *types = 0;
    for (uint32_t k = 0; k < (v->type == CDZ_JSON_ARRAY ? v->len : 1); k++) {
        const uint32_t one = type_named(v->type == CDZ_JSON_ARRAY ? &v->items[k] : v);
        if (!one)
            return cdz_schema_wrong(
                s, v, "type", "expected null, boolean, integer, number, string, array or object");
        *types |= one;
    }
    return CDZ_OK;
}

cdz_status cdz_schema_types(const cdz_schema *s, const cdz_schema_list *list, uint32_t *types)
{
    *types = CDZ_TYPE_ALL;
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *schema = list->at[i].schema, *v = cdz_json_get(schema, "type");
        const cdz_json *denied = cdz_schema_denies(schema, "type");
        uint32_t own = 0;
        if (v) CDZ_TRY(types_named(s, v, &own));
        if (v) *types &= own;
        if (denied) CDZ_TRY(types_named(s, denied, &own));
        if (denied) *types &= ~own;
        if (cdz_schema_denies(schema, "pattern") || cdz_schema_denies(schema, "format"))
            *types &= CDZ_TYPE_STRING;
        if (cdz_schema_denies(schema, "multipleOf")) *types &= CDZ_TYPE_INTEGER | CDZ_TYPE_FRACTION;
    }
    return CDZ_OK;
}

cdz_status cdz_schema_count(const cdz_schema *s, const cdz_json *schema, const char *keyword,
                            uint32_t *out, bool *found)
{
    const cdz_json *v = cdz_json_get(schema, keyword);
    double n = 0;
    *found = v != NULL;
    if (!v) return CDZ_OK;
    if (!cdz_json_number(v, &n) || n < 0 || n != floor(n))
        return cdz_schema_wrong(s, v, keyword, "expected a whole number from 0");
    *out = n > 4e9 ? UINT32_MAX - 1 : (uint32_t)n;
    return CDZ_OK;
}

/* --- the body of a place ------------------------------------------------------------------------------- */

/* Adds a choice of an entry. */
static cdz_status add_choice(cdz_schema *s, cdz_schema_list *list, uint32_t entry, uint32_t bit,
                             const cdz_json *choice)
{
    const cdz_json *schema = list->at[entry].schema;
    const cdz_json *choices = cdz_json_get(schema, bit == CDZ_CHOSEN_ONE ? "oneOf" : "anyOf");
    list->parent = entry + 1;
    list->via = cdz_schema_place_of(schema, choices);
    list->silent = list->at[entry].silent;
    const cdz_status st = cdz_schema_add(s, list, choice);
    list->parent = list->via = 0;
    list->silent = false;
    return st;
}

cdz_status cdz_schema_alternative(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                                  uint32_t bit, const cdz_json *choice, cdz_schema_list *out)
{
    if (!list_copy(list, out) || !out->at) return cdz_schema_no_memory(s);
    out->at[entry].chosen |= bit;
    const cdz_status st = add_choice(s, out, entry, bit, choice);
    if (st != CDZ_OK) cdz_schema_list_free(out);
    return st;
}

/* Two alternatives, the first and a later one, that may hold of one value; but_objects: of none that is an object. */
typedef struct overlap_pair {
    uint32_t lo, hi;
    bool but_objects;
} overlap_pair;

typedef struct overlaps {
    overlap_pair *at;
    uint32_t n, cap;
} overlaps;

static cdz_status refuse_one_of(const cdz_schema *s, const cdz_json *choices)
{
    return cdz_schema_refuse(s, choices, "oneOf",
                             "its alternatives are not certain to exclude each other; anyOf, or "
                             "coerce_one_of of x-guidance, takes what any of them allows");
}

static cdz_status overlap(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                          const cdz_json *choices, overlap_pair pair, overlaps *all)
{
    cdz_schema_list a = {0}, b = {0};
    bool apart = false;
    cdz_status st =
        cdz_schema_alternative(s, list, entry, CDZ_CHOSEN_ONE, &choices->items[pair.lo], &a);
    if (st == CDZ_OK)
        st = cdz_schema_alternative(s, list, entry, CDZ_CHOSEN_ONE, &choices->items[pair.hi], &b);
    if (st == CDZ_OK) st = cdz_schema_apart(s, &a, &b, &apart);
    if (st == CDZ_OK && !apart) st = cdz_schema_objects_apart(s, &a, &b, &pair.but_objects);
    cdz_schema_list_free(&a);
    cdz_schema_list_free(&b);
    if (st != CDZ_OK || apart) return st;
    if (all->n == CDZ_SCHEMA_MAX_OVERLAPS) return refuse_one_of(s, choices);
    if (!cdz_grow(&all->at, &all->cap, (size_t)all->n + 1, sizeof *all->at))
        return cdz_schema_no_memory(s);
    all->at[all->n++] = pair;
    return CDZ_OK;
}

static cdz_status overlaps_of(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                              const cdz_json *choices, overlaps *all)
{
    bool apart;
    CDZ_TRY(cdz_schema_told_apart(s, list, entry, choices, &apart));
    for (uint32_t k = 0; !apart && k < choices->len; k++)
        for (uint32_t i = 0; i < k; i++)
            CDZ_TRY(overlap(s, list, entry, choices, (overlap_pair){i, k, false}, all));
    return CDZ_OK;
}

static cdz_status add_denied(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema,
                             bool but_objects)
{
    const cdz_json *denied;
    CDZ_TRY(but_objects ? cdz_schema_denied_but_objects(s, schema, &denied)
                        : cdz_schema_denied(s, schema, &denied));
    list->silent = true;
    const cdz_status st = cdz_schema_add(s, list, denied);
    list->silent = false;
    return st;
}

/* Takes out of a choice what the other ones allow. */
static cdz_status exclude(cdz_schema *s, const cdz_json *choices, uint32_t choice,
                          const overlaps *all, cdz_schema_list *list)
{
    for (uint32_t i = 0; i < all->n; i++) {
        const overlap_pair *pair = &all->at[i];
        if (pair->lo != choice && pair->hi != choice) continue;
        const cdz_status st = add_denied(
            s, list, &choices->items[pair->lo == choice ? pair->hi : pair->lo], pair->but_objects);
        if (st == CDZ_E_UNSUPPORTED) return refuse_one_of(s, choices);
        if (st != CDZ_OK) return st;
    }
    return CDZ_OK;
}

/* A new alternative of the place whose body is being made. Choices that do not rule each other out multiply; one level of
 * them comes after the other, since places are a queue. */
static cdz_status count_alternative(cdz_schema *s, cdz_schema_place *place,
                                    const cdz_schema_entry *chosen)
{
    const cdz_schema_place *parent = &s->places[s->done];
    place->origin = parent->depth ? parent->origin : s->done;
    place->depth = parent->depth + 1;
    place->n_made = parent->n_made + ((chosen->chosen & CDZ_CHOSEN_MADE) != 0);
    cdz_schema_place *origin = &s->places[place->origin];
    if (place->depth > origin->deepest) origin->n_deepest = 0;
    origin->deepest = place->depth;
    origin->n_deepest++;
    if (place->n_made <= CDZ_SCHEMA_FEW_MADE || origin->n_deepest <= CDZ_SCHEMA_MAX_MADE)
        return CDZ_OK;
    return cdz_schema_refuse(s, chosen->schema, cdz_schema_made_of(s, chosen->schema),
                             "beside others at one place that do not rule each other out, and "
                             "make more than 1024 alternatives together (grammar_max_states)");
}

static cdz_status put_choice(cdz_schema *s, cdz_schema_list *own, const cdz_schema_entry *chosen,
                             const cdz_net_rule *rule)
{
    uint32_t call;
    const uint32_t n_places = s->n_places;
    bool nothing = false;
    if (s->n_made) CDZ_TRY(cdz_schema_void(s, own, &nothing));
    if (nothing) return CDZ_OK;
    CDZ_TRY(cdz_schema_rule(s, own, &call));
    cdz_net_edge_add(s->net, rule->start, rule->end, CDZ_NET_CALL, call);
    if (s->n_places == n_places) return CDZ_OK;
    return count_alternative(s, &s->places[n_places], chosen);
}

/* --- alternatives that may hold together, below unevaluatedProperties and unevaluatedItems ------------------- */

/* There each of them that holds says something about what it names: so each set of them is an alternative of its own, of which
 * the others do not hold. Those that a keyword was made to rule each other out. */
static cdz_status find_together(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                                const cdz_json *choices, overlaps *all)
{
    const char *above = cdz_schema_unevaluated_above(list, entry);
    if (!above || list->at[entry].chosen & CDZ_CHOSEN_MADE) return CDZ_OK;
    const cdz_status st = overlaps_of(s, list, entry, choices, all);
    if (st == CDZ_E_UNSUPPORTED || (st == CDZ_OK && all->n && choices->len > CDZ_SCHEMA_MAX_UNION))
        return cdz_schema_refuse(
            s, choices, above, "beside an anyOf of more than 5 alternatives that may hold together");
    return st;
}

static bool overlap_in(const overlaps *all, uint32_t lo, uint32_t hi)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->at[i].lo == lo && all->at[i].hi == hi) return true;
    return false;
}

/* Whether no two of a set are known to exclude each other. */
static bool may_hold(const overlaps *all, uint32_t set)
{
    for (uint32_t left = set; left; left &= left - 1)
        for (uint32_t rest = left & (left - 1); rest; rest &= rest - 1)
            if (!overlap_in(all, (uint32_t)__builtin_ctz(left), (uint32_t)__builtin_ctz(rest)))
                return false;
    return true;
}

/* To a list that has the first of a set: the others of it, and what does not hold. */
static cdz_status add_set(cdz_schema *s, cdz_schema_list *own, uint32_t entry, uint32_t bit,
                          const cdz_json *choices, const overlaps *all, uint32_t set)
{
    const uint32_t first = (uint32_t)__builtin_ctz(set);
    for (uint32_t k = 0; k < choices->len; k++) {
        const bool in = set >> k & 1,
                   told = !overlap_in(all, k < first ? k : first, k < first ? first : k);
        if (in && k != first) CDZ_TRY(add_choice(s, own, entry, bit, &choices->items[k]));
        if (!in && !told) CDZ_TRY(add_denied(s, own, &choices->items[k], false));
    }
    return CDZ_OK;
}

static cdz_status put_sets(cdz_schema *s, const cdz_schema_list *list, uint32_t entry, uint32_t bit,
                           const cdz_json *choices, const overlaps *all, const cdz_net_rule *rule)
{
    for (uint32_t set = 1; set < 1u << choices->len; set++) {
        cdz_schema_list own;
        const cdz_json *first = &choices->items[__builtin_ctz(set)];
        if (!may_hold(all, set)) continue;
        CDZ_TRY(cdz_schema_alternative(s, list, entry, bit, first, &own));
        cdz_status st = add_set(s, &own, entry, bit, choices, all, set);
        if (st == CDZ_E_UNSUPPORTED)
            st = cdz_schema_refuse(s, choices, cdz_schema_unevaluated_above(list, entry),
                                   "beside an anyOf whose alternatives may hold together");
        if (st == CDZ_OK) st = put_choice(s, &own, &list->at[entry], rule);
        cdz_schema_list_free(&own);
        CDZ_TRY(st);
    }
    return CDZ_OK;
}

static cdz_status put_each(cdz_schema *s, const cdz_schema_list *list, uint32_t entry, uint32_t bit,
                           const cdz_json *choices, const overlaps *all, const cdz_net_rule *rule)
{
    for (uint32_t k = 0; k < choices->len; k++) {
        cdz_schema_list own;
        CDZ_TRY(cdz_schema_alternative(s, list, entry, bit, &choices->items[k], &own));
        cdz_status st = exclude(s, choices, k, all, &own);
        if (st == CDZ_OK) st = put_choice(s, &own, &list->at[entry], rule);
        cdz_schema_list_free(&own);
        CDZ_TRY(st);
    }
    return CDZ_OK;
}

static cdz_status put_choices(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                              uint32_t bit, const cdz_json *choices, const cdz_net_rule *rule)
{
    overlaps all = {0};
    const bool one = bit == CDZ_CHOSEN_ONE && !s->layout.coerce_one_of;
    cdz_status st = one ? overlaps_of(s, list, entry, choices, &all)
                        : find_together(s, list, entry, choices, &all);
    if (st == CDZ_OK && !one && all.n)
        st = put_sets(s, list, entry, bit, choices, &all, rule);
    else if (st == CDZ_OK)
        st = put_each(s, list, entry, bit, choices, &all, rule);
    free(all.at);
    return st;
}

/* What of the place is being made from here on. */
static void set_keyword(cdz_schema *s, const char *keyword)
{
    s->keyword = keyword;
    cdz_net_mark_add(s->net, s->done, keyword);
}

/* A choice that is still open; *found false: there is none. */
static cdz_status choose(cdz_schema *s, const cdz_schema_list *list, const cdz_net_rule *rule,
                         bool *found)
{
    *found = false;
    for (uint32_t i = 0; i < list->n && !*found; i++) {
        const cdz_json *choices = NULL;
        uint32_t bit = CDZ_CHOSEN_ANY;
        if (!(list->at[i].chosen & bit))
            CDZ_TRY(schemas_of(s, list->at[i].schema, "anyOf", &choices));
        if (!choices && !(list->at[i].chosen & CDZ_CHOSEN_ONE)) {
            bit = CDZ_CHOSEN_ONE;
            CDZ_TRY(schemas_of(s, list->at[i].schema, "oneOf", &choices));
        }
        *found = choices != NULL;
        if (choices) set_keyword(s, bit == CDZ_CHOSEN_ANY ? "anyOf" : "oneOf");
        if (choices) CDZ_TRY(put_choices(s, list, i, bit, choices, rule));
    }
    return CDZ_OK;
}

static int by_text(const void *a, const void *b)
{
    const cdz_text_ref *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* The values of an enum that satisfy the rest of the list. */
static cdz_status put_values(cdz_schema *s, const cdz_schema_list *list, const cdz_json *values,
                             uint32_t n, const cdz_net_rule *rule)
{
    cdz_text_ref *texts = malloc(((size_t)n + 1) * sizeof *texts);
    uint32_t n_texts = 0;
    cdz_status st = texts ? CDZ_OK : cdz_schema_no_memory(s);
    for (uint32_t i = 0; st == CDZ_OK && i < n; i++) {
        bool valid = false;
        st = cdz_schema_valid(s, list, &values[i], 0, &valid);
        if (st != CDZ_OK || !valid) continue;
        if (values[i].type == CDZ_JSON_STRING)
            texts[n_texts++] = (cdz_text_ref){values[i].string, values[i].len};
        else
            st = cdz_schema_literal(s, &values[i], rule->start, rule->end);
    }
    if (st == CDZ_OK && n_texts) {
        const uint32_t in = cdz_schema_byte(s, rule->start, '"'), out = cdz_net_node(s->net);
        qsort(texts, n_texts, sizeof *texts, by_text);
        st = cdz_schema_names(s, texts, n_texts, false, in, out);
        cdz_net_byte(s->net, out, rule->end, '"', '"');
    }
    free(texts);
    return st;
}

/* Its own values need not be looked for in the enum of an entry. */
static cdz_status put_enum(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                           const cdz_json *values, const cdz_net_rule *rule)
{
    cdz_schema_list own;
    if (!list_copy(list, &own) || entry >= own.n) return cdz_schema_no_memory(s);
    own.at[entry].chosen |= CDZ_CHOSEN_VALUE;
    const cdz_status st = put_values(s, &own, values->items, values->len, rule);
    cdz_schema_list_free(&own);
    return st;
}

static cdz_status values_of(cdz_schema *s, const cdz_schema_list *list, const cdz_net_rule *rule,
                            bool *found)
{
    *found = false;
    for (uint32_t i = 0; i < list->n && !*found; i++) {
        const cdz_json *one = cdz_json_get(list->at[i].schema, "const");
        const cdz_json *many = cdz_json_get(list->at[i].schema, "enum");
        *found = one || many;
        if (*found) set_keyword(s, one ? "const" : "enum");
        if (many && many->type != CDZ_JSON_ARRAY)
            return cdz_schema_wrong(s, many, "enum", "expected a list of values");
        if (one)
            CDZ_TRY(put_values(s, list, one, 1, rule));
        else if (many)
            CDZ_TRY(put_enum(s, list, i, many, rule));
    }
    return CDZ_OK;
}

/* null, true and false. */
static cdz_status put_words(cdz_schema *s, const cdz_schema_list *list, uint32_t types,
                            const cdz_net_rule *rule)
{
    static const struct {
        cdz_json value;
        cdz_text_ref text;
    } words[] = {{{.type = CDZ_JSON_NULL}, {"null", 4}},
                 {{.type = CDZ_JSON_BOOL, .boolean = true}, {"true", 4}},
                 {{.type = CDZ_JSON_BOOL}, {"false", 5}}};
    for (size_t i = 0; i < 3; i++) {
        bool valid = true;
        if (!(types & (i ? CDZ_TYPE_BOOLEAN : CDZ_TYPE_NULL))) continue;
        if (s->n_made || cdz_schema_has_denials(list))
            CDZ_TRY(cdz_schema_valid(s, list, &words[i].value, 0, &valid));
        if (!valid) continue;
        const uint32_t out =
            cdz_net_text(s->net, rule->start, words[i].text.text, words[i].text.len);
        cdz_net_edge_add(s->net, out, rule->end, CDZ_NET_NOTHING, 0);
    }
    return CDZ_OK;
}

/* Values of arrays and objects that are denied one by one cannot be told from others. */
static cdz_status check_denials(const cdz_schema *s, const cdz_schema_list *list, uint32_t types)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *one = cdz_schema_denies(list->at[i].schema, "const");
        const cdz_json *many = cdz_schema_denies(list->at[i].schema, "enum");
        const uint32_t n = one ? 1 : cdz_json_is(many, CDZ_JSON_ARRAY) ? many->len : 0;
        for (uint32_t k = 0; k < n; k++) {
            const cdz_json *v = one ? one : &many->items[k];
            if ((v->type == CDZ_JSON_ARRAY && types & CDZ_TYPE_ARRAY) ||
                (v->type == CDZ_JSON_OBJECT && types & CDZ_TYPE_OBJECT))
                return cdz_schema_refuse(s, v, one ? "const" : "enum",
                                         "of an array or object, below not, if or oneOf");
        }
    }
    return CDZ_OK;
}

/* The keyword of strings that a sentence about them names. */
static const char *of_strings(const cdz_schema_list *list)
{
    static const char *const names[] = {"pattern", "format", "maxLength", "minLength", "not"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (uint32_t i = 0; i < list->n; i++)
            if (cdz_json_get(list->at[i].schema, names[n])) return names[n];
    return "type";
}

/* The values of the types that a list leaves, one kind after the other. */
static cdz_status put_types(cdz_schema *s, const cdz_schema_list *list, uint32_t types,
                            const cdz_net_rule *rule)
{
    static const struct {
        uint32_t types;
        const char *keyword; /* of most of what it takes; NULL: of_strings */
        cdz_status (*put)(cdz_schema *s, const cdz_schema_list *list, uint32_t from, uint32_t to);
    } all[] = {{CDZ_TYPE_STRING, NULL, cdz_schema_strings},
               {CDZ_TYPE_ARRAY, "items", cdz_schema_arrays},
               {CDZ_TYPE_OBJECT, "properties", cdz_schema_objects}};
    set_keyword(s, "type");
    CDZ_TRY(put_words(s, list, types, rule));
    if (types & (CDZ_TYPE_INTEGER | CDZ_TYPE_FRACTION))
        CDZ_TRY(cdz_schema_numbers(s, list, types, rule->start, rule->end));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        set_keyword(s, all[i].keyword ? all[i].keyword : of_strings(list));
        if (types & all[i].types) CDZ_TRY(all[i].put(s, list, rule->start, rule->end));
    }
    return CDZ_OK;
}

static cdz_status body(cdz_schema *s, const cdz_schema_list *list, const cdz_net_rule *rule)
{
    uint32_t types;
    bool found;
    if (list->never) return CDZ_OK;
    CDZ_TRY(cdz_schema_check_unevaluated(s, list));
    CDZ_TRY(choose(s, list, rule, &found));
    if (!found) CDZ_TRY(values_of(s, list, rule, &found));
    if (found) return CDZ_OK;
    CDZ_TRY(cdz_schema_types(s, list, &types));
    CDZ_TRY(check_denials(s, list, types));
    return put_types(s, list, types, rule);
}

/* --- the whole ------------------------------------------------------------------------------------------ */

static cdz_status read_options(cdz_schema *s)
{
    const cdz_json *draft = cdz_json_get(s->root, "$schema"),
                   *x = cdz_json_get(s->root, "x-guidance");
    s->siblings_of_ref = true;
    s->id = "$id";
    if (cdz_json_is(draft, CDZ_JSON_STRING))
        for (int d = '3'; d <= '7'; d++) {
            const char name[] = {'d', 'r', 'a', 'f', 't', '-', '0', (char)d, '\0'};
            if (!strstr(draft->string, name)) continue;
            s->siblings_of_ref = false;
            if (d <= '4') s->id = "id";
        }
    return cdz_schema_read_layout(s, x);
}

/* The schema of a list, which has one, that has a keyword; the first one where that is none's. */
static const cdz_json *schema_with(const cdz_schema_list *list, const char *keyword)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (cdz_json_get(list->at[i].schema, keyword)) return list->at[i].schema;
    return list->at[0].schema;
}

/* A limit that was met without a place: the schema whose body was being made has one. */
static cdz_status limit_at(const cdz_schema *s, cdz_status st, const cdz_schema_list *list)
{
    char text[sizeof s->err->text];
    if (st == CDZ_OK && s->net->status == CDZ_E_LIMIT) {
        st = CDZ_E_LIMIT;
        cdz_err(s->err, st, "%s", s->net->error.text);
    }
    if (st != CDZ_E_LIMIT || !s->err || !list->n) return st;
    if (strncmp(s->err->text, "schema:", 7) == 0) return st;
    snprintf(text, sizeof text, "%s", s->err->text);
    const cdz_json *at = schema_with(list, s->keyword);
    return cdz_err(s->err, st, "schema:%u:%u: %s: %s", at->line, at->column, s->keyword, text);
}

/* Refuses what would meet a limit while running: a state of too many places. */
static cdz_status check_crowd(cdz_schema *s, uint32_t rule)
{
    cdz_net_mark mark;
    bool found;
    if (!cdz_net_crowd(s->net, rule, &mark, &found)) return cdz_schema_no_memory(s);
    if (!found) return CDZ_OK;
    s->keyword = mark.keyword;
    const cdz_status st = cdz_err(s->err, CDZ_E_LIMIT, CDZ_NET_CROWDED, CDZ_GRAMMAR_MAX_ITEMS);
    return limit_at(s, st, &s->places[mark.number].list);
}

static cdz_status compile(cdz_schema *s, uint32_t *start)
{
    cdz_schema_list list = {0};
    const uint32_t n_marks = s->net->n_marks; /* those of what this schema stands in */
    CDZ_TRY(read_options(s));
    cdz_status st = cdz_schema_add(s, &list, s->root);
    if (st == CDZ_OK) st = cdz_schema_rule(s, &list, start);
    cdz_schema_list_free(&list);
    for (; st == CDZ_OK && s->net->status == CDZ_OK && s->done < s->n_places; s->done++) {
        const cdz_schema_list own = s->places[s->done].list;
        const cdz_net_rule rule = s->net->rules[s->places[s->done].rule];
        st = limit_at(s, body(s, &own, &rule), &own);
    }
    if (st == CDZ_OK) st = check_crowd(s, *start);
    s->net->n_marks = n_marks;
    return st;
}

cdz_status cdz_schema_part_of(cdz_net *net, const cdz_json *root, cdz_arena *arena, uint32_t *rule,
                              cdz_error *err)
{
    cdz_schema s = {.net = net, .root = root, .arena = arena, .err = err};
    const cdz_status st = compile(&s, rule);
    for (uint32_t i = 0; i < s.n_places; i++) cdz_schema_list_free(&s.places[i].list);
    free(s.places);
    free(s.made);
    cdz_schema_where_free(&s.where);
    cdz_schema_lists_free(&s);
    free(s.table.at);
    free(s.made_table.at);
    return st;
}

cdz_status cdz_schema_part(cdz_net *net, const char *text, size_t len, uint32_t *rule,
                           cdz_error *err)
{
    static const cdz_json_limits limits = {.depth = CDZ_SCHEMA_MAX_DEPTH};
    cdz_arena arena = {0};
    cdz_json root;
    cdz_status st = cdz_json_parse(text, len, "schema", &limits, &arena, &root, err);
    if (st == CDZ_OK) st = cdz_schema_part_of(net, &root, &arena, rule, err);
    cdz_arena_free(&arena);
    return st;
}
