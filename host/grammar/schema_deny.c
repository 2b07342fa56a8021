/* schema_deny.c - keywords that come down to others: not, if, and what keys ask of others. Each becomes a schema made here,
 * once per place in the document, with alternatives that choose() takes one by one. What stays is `not` around a single type,
 * enum, const, pattern or format, which the types' own files read. */
#include "grammar/grow.h"
#include "grammar/schema.h"

typedef struct denial {
    cdz_schema *s;
    const cdz_json *at; /* where the schema stands that is denied */
    cdz_json *to;       /* alternatives */
    uint32_t n, cap;
    bool no_memory;
} denial;

/* --- schemas that are made -------------------------------------------------------------------------------- */

static cdz_json_member member(const char *key, cdz_json value)
{
    return (cdz_json_member){.key = key, .key_len = (uint32_t)strlen(key), .value = value};
}

static cdz_json truth(const denial *d, bool value)
{
    return (cdz_json){
        .type = CDZ_JSON_BOOL, .boolean = value, .line = d->at->line, .column = d->at->column};
}

static cdz_json text(const denial *d, const char *string)
{
    return (cdz_json){.type = CDZ_JSON_STRING,
                      .line = d->at->line,
                      .column = d->at->column,
                      .len = (uint32_t)strlen(string),
                      .string = string};
}

/* A copy in the arena; NULL: out of memory, which is noted. */
static void *keep(denial *d, const void *items, uint32_t n, size_t item_bytes)
{
    void *own = cdz_arena_array(d->s->arena, n, item_bytes);
    d->no_memory |= !own;
    if (own && n) memcpy(own, items, n * item_bytes);
    return own;
}

static cdz_json object_of(denial *d, const cdz_json_member *members, uint32_t n)
{
    cdz_json_member *own = keep(d, members, n, sizeof *own);
    return (cdz_json){.type = CDZ_JSON_OBJECT,
                      .line = d->at->line,
                      .column = d->at->column,
                      .len = own ? n : 0,
                      .members = own};
}

static cdz_json list_of(denial *d, const cdz_json *items, uint32_t n)
{
    cdz_json *own = keep(d, items, n, sizeof *own);
    return (cdz_json){.type = CDZ_JSON_ARRAY,
                      .line = d->at->line,
                      .column = d->at->column,
                      .len = own ? n : 0,
                      .items = own};
}

static cdz_json with(denial *d, const char *key, cdz_json value)
{
    const cdz_json_member m = member(key, value);
    return object_of(d, &m, 1);
}

static cdz_json typed(denial *d, const char *type, const char *key, cdz_json value)
{
    const cdz_json_member m[] = {member("type", text(d, type)), member(key, value)};
    return object_of(d, m, 2);
}

static void put(denial *d, cdz_json alternative)
{
    if (!cdz_grow(&d->to, &d->cap, (size_t)d->n + 1, sizeof *d->to))
        d->no_memory = true;
    else
        d->to[d->n++] = alternative;
}

static cdz_status finish(denial *d, const cdz_json **out)
{
    cdz_json *made = cdz_arena_alloc(d->s->arena, sizeof *made);
    if (made && !d->n)
        *made = truth(d, false);
    else if (made && d->n == 1)
        *made = d->to[0];
    else if (made)
        *made = with(d, "anyOf", list_of(d, d->to, d->n));
    free(d->to);
    *out = made;
    return made && !d->no_memory ? CDZ_OK : cdz_schema_no_memory(d->s);
}

/* --- denying a schema: one alternative for each thing it asks ------------------------------------------------ */

typedef enum deny_how {
    DENY_ITSELF, /* stays, below not */
    DENY_FORMAT, /* likewise, where it is whole */
    DENY_BOUND,  /* the other bound, of a type */
    DENY_LEAST,  /* the other count, one less */
    DENY_MOST,   /* the other count, one more */
    DENY_NOT,
    DENY_ALL,
    DENY_ANY,
    DENY_IF,
    DENY_REF,
    DENY_REQUIRED,
    DENY_PROPERTIES,
    DENY_OTHERS,
    DENY_ITEMS,
    DENY_CONTAINS,
    DENY_ONE,
    DENY_PLACES,
    DENY_DEPENDENT,
    DENY_NEVER, /* is refused */
} deny_how;

typedef struct deny_row {
    const char *keyword;
    deny_how how;
    const char *type, *other; /* type: of the values that it asks something of; NULL: several */
} deny_row;

static const deny_row rows[] = {
    {"type", DENY_ITSELF, NULL, NULL},
    {"enum", DENY_ITSELF, NULL, NULL},
    {"const", DENY_ITSELF, NULL, NULL},
    {"pattern", DENY_ITSELF, NULL, NULL},
    {"multipleOf", DENY_ITSELF, NULL, NULL},
    {"minimum", DENY_BOUND, "number", "exclusiveMaximum"},
    {"maximum", DENY_BOUND, "number", "exclusiveMinimum"},
    {"exclusiveMinimum", DENY_BOUND, "number", "maximum"},
    {"exclusiveMaximum", DENY_BOUND, "number", "minimum"},
    {"minLength", DENY_LEAST, "string", "maxLength"},
    {"maxLength", DENY_MOST, "string", "minLength"},
    {"minItems", DENY_LEAST, "array", "maxItems"},
    {"maxItems", DENY_MOST, "array", "minItems"},
    {"minProperties", DENY_LEAST, "object", "maxProperties"},
    {"maxProperties", DENY_MOST, "object", "minProperties"},
    {"not", DENY_NOT, NULL, NULL},
    {"allOf", DENY_ALL, NULL, NULL},
    {"anyOf", DENY_ANY, NULL, NULL},
    {"if", DENY_IF, NULL, NULL},
    {"$ref", DENY_REF, NULL, NULL},
    {"$dynamicRef", DENY_REF, NULL, NULL},
    {"required", DENY_REQUIRED, "object", NULL},
    {"properties", DENY_PROPERTIES, "object", NULL},
    {"additionalProperties", DENY_OTHERS, "object", NULL},
    {"unevaluatedProperties", DENY_OTHERS, "object", NULL},
    {"unevaluatedItems", DENY_OTHERS, NULL, NULL},
    {"additionalItems", DENY_ITEMS, NULL, NULL},
    {"items", DENY_ITEMS, NULL, NULL},
    {"contains", DENY_CONTAINS, NULL, NULL},
    {"oneOf", DENY_ONE, NULL, NULL},
    {"format", DENY_FORMAT, NULL, NULL},
    {"prefixItems", DENY_PLACES, NULL, NULL},
    {"patternProperties", DENY_NEVER, "object", NULL},
    {"propertyNames", DENY_NEVER, "object", NULL},
    {"uniqueItems", DENY_NEVER, NULL, NULL},
    {"dependentRequired", DENY_DEPENDENT, "object", NULL},
    {"dependentSchemas", DENY_DEPENDENT, "object", NULL},
    {"dependencies", DENY_DEPENDENT, "object", NULL},
    {"$recursiveRef", DENY_REF, NULL, NULL},
};

static bool stays_below_not(const deny_row *row, const cdz_json *v)
{
    return row->how == DENY_ITSELF || (row->how == DENY_FORMAT && cdz_schema_format_is_whole(v));
}

static cdz_status refuse(const denial *d, const deny_row *row, const cdz_json *v)
{
    return cdz_schema_refuse(d->s, v, row->keyword,
                             "below not, if or oneOf, which need what it does not allow");
}

static cdz_status shape(const denial *d, const cdz_json *v, const char *keyword, cdz_json_type type)
{
    if (v->type == type) return CDZ_OK;
    return cdz_schema_wrong(d->s, v, keyword,
                            type == CDZ_JSON_ARRAY ? "expected a list" : "expected an object");
}

static cdz_status deny_count(denial *d, const deny_row *row, const cdz_json *schema)
{
    uint32_t n;
    bool found;
    CDZ_TRY(cdz_schema_count(d->s, schema, row->keyword, &n, &found));
    if (row->how == DENY_LEAST && !n) return CDZ_OK;
    cdz_json v = {.type = CDZ_JSON_INT, .line = d->at->line, .column = d->at->column};
    v.integer = row->how == DENY_LEAST ? (int64_t)n - 1 : (int64_t)n + 1;
    put(d, typed(d, row->type, row->other, v));
    return CDZ_OK;
}

static cdz_status deny_required(denial *d, const cdz_json *names)
{
    CDZ_TRY(shape(d, names, "required", CDZ_JSON_ARRAY));
    for (uint32_t i = 0; i < names->len; i++) {
        if (names->items[i].type != CDZ_JSON_STRING)
            return cdz_schema_wrong(d->s, &names->items[i], "required", "expected a list of names");
        const cdz_json_member m = {names->items[i].string, names->items[i].len, truth(d, false)};
        put(d, typed(d, "object", "properties", object_of(d, &m, 1)));
    }
    return CDZ_OK;
}

static bool asks_nothing(const cdz_json *v)
{
    return (v->type == CDZ_JSON_BOOL && v->boolean) || (v->type == CDZ_JSON_OBJECT && !v->len);
}

/* The key is there, and its value is not what it must be. */
static cdz_status deny_properties(denial *d, const cdz_json *properties)
{
    CDZ_TRY(shape(d, properties, "properties", CDZ_JSON_OBJECT));
    for (uint32_t i = 0; i < properties->len; i++) {
        const cdz_json_member *own = &properties->members[i];
        if (asks_nothing(&own->value)) continue;
        cdz_json name = text(d, own->key);
        name.len = own->key_len;
        const cdz_json_member value = {own->key, own->key_len, with(d, "not", own->value)};
        const cdz_json_member m[] = {member("type", text(d, "object")),
                                     member("required", list_of(d, &name, 1)),
                                     member("properties", object_of(d, &value, 1))};
        put(d, object_of(d, m, 3));
    }
    return CDZ_OK;
}

static cdz_status deny_schemas(denial *d, const deny_row *row, const cdz_json *v)
{
    denial inner = {.s = d->s, .at = d->at};
    CDZ_TRY(shape(d, v, row->keyword, CDZ_JSON_ARRAY));
    for (uint32_t i = 0; i < v->len; i++)
        put(row->how == DENY_ALL ? d : &inner, with(d, "not", v->items[i]));
    if (row->how != DENY_ALL) put(d, with(d, "allOf", list_of(d, inner.to, inner.n)));
    d->no_memory |= inner.no_memory;
    free(inner.to);
    return CDZ_OK;
}

static void deny_if(denial *d, const cdz_json *schema, const cdz_json *condition)
{
    const cdz_json *then = cdz_json_get(schema, "then"), *otherwise = cdz_json_get(schema, "else");
    if (then) {
        const cdz_json both[] = {*condition, with(d, "not", *then)};
        put(d, with(d, "allOf", list_of(d, both, 2)));
    }
    if (otherwise) {
        const cdz_json both[] = {with(d, "not", *condition), with(d, "not", *otherwise)};
        put(d, with(d, "allOf", list_of(d, both, 2)));
    }
}

static cdz_json whole(const denial *d, int64_t n)
{
    return (cdz_json){
        .type = CDZ_JSON_INT, .line = d->at->line, .column = d->at->column, .integer = n};
}

/* There is an item at a place, and it is not what it must be. */
static cdz_status deny_places(denial *d, const deny_row *row, const cdz_json *places)
{
    CDZ_TRY(shape(d, places, row->keyword, CDZ_JSON_ARRAY));
    if (places->len > CDZ_SCHEMA_MAX_DENIED_PLACES) return refuse(d, row, places);
    cdz_json *before = cdz_arena_array(d->s->arena, places->len + 1, sizeof *before);
    if (!before) return cdz_schema_no_memory(d->s);
    for (uint32_t i = 0; i < places->len; before[i++] = truth(d, true)) {
        CDZ_TRY(cdz_schema_in_time(d->s));
        if (asks_nothing(&places->items[i])) continue;
        before[i] = with(d, "not", places->items[i]);
        const cdz_json_member m[] = {member("type", text(d, "array")),
                                     member("minItems", whole(d, (int64_t)i + 1)),
                                     member("prefixItems", list_of(d, before, i + 1))};
        put(d, object_of(d, m, 3));
    }
    return CDZ_OK;
}

/* Of items behind those with places it can be said that there are some, not which. */
static cdz_status deny_items(denial *d, const deny_row *row, const cdz_json *schema,
                             const cdz_json *v)
{
    const cdz_json *prefix = cdz_json_get(schema, "prefixItems");
    const bool further = strcmp(row->keyword, "additionalItems") == 0;
    if (further) prefix = cdz_json_get(schema, "items");
    if (further && !cdz_json_is(prefix, CDZ_JSON_ARRAY)) return CDZ_OK; /* says nothing */
    if (!prefix && v->type == CDZ_JSON_ARRAY) return deny_places(d, row, v);
    if (asks_nothing(v)) return CDZ_OK;
    if (!prefix)
        put(d, typed(d, "array", "contains", with(d, "not", *v)));
    else if (prefix->type == CDZ_JSON_ARRAY && v->type == CDZ_JSON_BOOL)
        put(d, typed(d, "array", "minItems", whole(d, (int64_t)prefix->len + 1)));
    else
        return refuse(d, row, v);
    return CDZ_OK;
}

/* Fewer than the least, or more than the most. */
static cdz_status deny_contains(denial *d, const cdz_json *schema, const cdz_json *v)
{
    uint32_t min, max;
    bool has_min, has_max;
    CDZ_TRY(cdz_schema_count(d->s, schema, "minContains", &min, &has_min));
    CDZ_TRY(cdz_schema_count(d->s, schema, "maxContains", &max, &has_max));
    if (!has_min) min = 1;
    if (min == 1) put(d, typed(d, "array", "items", with(d, "not", *v)));
    for (int k = 0; k < 2; k++) {
        const cdz_json_member m[] = {
            member("type", text(d, "array")), member("contains", *v),
            member("minContains", whole(d, k ? (int64_t)max + 1 : 0)),
            member("maxContains", whole(d, (int64_t)min - 1)) /* of those with the fewest alone */};
        if (k ? has_max : min > 1) put(d, object_of(d, m, k ? 3 : 4));
    }
    return CDZ_OK;
}

/* None of them holds, or two do. */
static cdz_status deny_one(denial *d, const deny_row *row, const cdz_json *choices)
{
    denial none = {.s = d->s, .at = d->at};
    CDZ_TRY(shape(d, choices, row->keyword, CDZ_JSON_ARRAY));
    if (choices->len > CDZ_SCHEMA_MAX_DENIED_ONE) return refuse(d, row, choices);
    for (uint32_t i = 0; i < choices->len; i++) {
        put(&none, with(d, "not", choices->items[i]));
        for (uint32_t k = 0; k < i; k++) {
            const cdz_json two[] = {choices->items[k], choices->items[i]};
            put(d, with(d, "allOf", list_of(d, two, 2)));
        }
    }
    put(d, with(d, "allOf", list_of(d, none.to, none.n)));
    d->no_memory |= none.no_memory;
    free(none.to);
    return CDZ_OK;
}

/* A key is there, and what it asks for does not hold. */
static cdz_status deny_dependents(denial *d, const deny_row *row, const cdz_json *asks)
{
    CDZ_TRY(shape(d, asks, row->keyword, CDZ_JSON_OBJECT));
    for (uint32_t i = 0; i < asks->len; i++) {
        cdz_json name = text(d, asks->members[i].key), holds = asks->members[i].value;
        name.len = asks->members[i].key_len;
        if (holds.type == CDZ_JSON_ARRAY) holds = with(d, "required", holds);
        const cdz_json both[] = {typed(d, "object", "required", list_of(d, &name, 1)),
                                 with(d, "not", holds)};
        put(d, with(d, "allOf", list_of(d, both, 2)));
    }
    return CDZ_OK;
}

static cdz_status deny_keyword(denial *d, const deny_row *row, const cdz_json *schema,
                               const cdz_json *v)
{
    const cdz_json *target;
    switch (row->how) {
    case DENY_ITSELF:
    case DENY_FORMAT:
        if (!stays_below_not(row, v)) return refuse(d, row, v);
        put(d, with(d, "not", with(d, row->keyword, *v)));
        return CDZ_OK;
    case DENY_BOUND: put(d, typed(d, row->type, row->other, *v)); return CDZ_OK;
    case DENY_LEAST:
    case DENY_MOST: return deny_count(d, row, schema);
    case DENY_NOT: put(d, *v); return CDZ_OK;
    case DENY_ALL:
    case DENY_ANY: return deny_schemas(d, row, v);
    case DENY_IF: deny_if(d, schema, v); return CDZ_OK;
    case DENY_REF:
        CDZ_TRY(cdz_schema_resolve(d->s, v, row->keyword, &target));
        put(d, with(d, "not", *target));
        return CDZ_OK;
    case DENY_REQUIRED: return deny_required(d, v);
    case DENY_PROPERTIES: return deny_properties(d, v);
    case DENY_OTHERS: return asks_nothing(v) ? CDZ_OK : refuse(d, row, v);
    case DENY_ITEMS: return deny_items(d, row, schema, v);
    case DENY_CONTAINS: return deny_contains(d, schema, v);
    case DENY_ONE:
        return d->s->layout.coerce_one_of ? deny_schemas(d, row, v) : deny_one(d, row, v);
    case DENY_PLACES: return deny_places(d, row, v);
    case DENY_DEPENDENT: return deny_dependents(d, row, v);
    default:
        if (v->type == CDZ_JSON_BOOL && !v->boolean) return CDZ_OK; /* uniqueItems: false */
        return refuse(d, row, v);
    }
}

static bool asks_objects(const deny_row *row)
{
    return row->type && strcmp(row->type, "object") == 0;
}

/* but_objects: these are all let through. */
static cdz_status deny(cdz_schema *s, const cdz_json *schema, bool but_objects, const cdz_json **out)
{
    denial d = {.s = s, .at = schema};
    cdz_status st = CDZ_OK;
    const bool alone = !s->siblings_of_ref && cdz_json_get(schema, "$ref");
    if (schema->type == CDZ_JSON_BOOL) {
        put(&d, truth(&d, !schema->boolean));
    } else if (schema->type != CDZ_JSON_OBJECT) {
        return cdz_schema_wrong(s, schema, "not", "expected a schema");
    }
    for (size_t i = 0; schema->type == CDZ_JSON_OBJECT && i < sizeof rows / sizeof *rows; i++) {
        const cdz_json *v = rows[i].how == DENY_BOUND ? cdz_schema_bound(schema, rows[i].keyword)
                                                      : cdz_json_get(schema, rows[i].keyword);
        if (but_objects && asks_objects(&rows[i])) continue;
        if (!v || st != CDZ_OK || (alone && strcmp(rows[i].keyword, "$ref") != 0)) continue;
        st = deny_keyword(&d, &rows[i], schema, v);
    }
    if (but_objects) put(&d, with(&d, "type", text(&d, "object")));
    const cdz_status end = finish(&d, out);
    return st != CDZ_OK ? st : end;
}

bool cdz_schema_is_atom(const cdz_json *denied)
{
    if (!cdz_json_is(denied, CDZ_JSON_OBJECT) || denied->len != 1) return false;
    const cdz_json_member *m = &denied->members[0];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(m->key, rows[i].keyword) == 0) return stays_below_not(&rows[i], &m->value);
    return false;
}

const cdz_json *cdz_schema_denies(const cdz_json *schema, const char *keyword)
{
    const cdz_json *denied = cdz_json_get(schema, "not");
    return denied && cdz_schema_is_atom(denied) ? cdz_json_get(denied, keyword) : NULL;
}

bool cdz_schema_has_denials(const cdz_schema_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (cdz_json_get(list->at[i].schema, "not")) return true;
    return false;
}

/* --- if, and keys that ask for others -------------------------------------------------------------------------- */

static cdz_status make_if(cdz_schema *s, const cdz_json *schema, const cdz_json **out)
{
    const cdz_json *condition = cdz_json_get(schema, "if");
    const cdz_json *then = cdz_json_get(schema, "then"), *otherwise = cdz_json_get(schema, "else");
    denial d = {.s = s, .at = condition};
    const cdz_json yes[] = {*condition, then ? *then : truth(&d, true)};
    const cdz_json no[] = {with(&d, "not", *condition), otherwise ? *otherwise : truth(&d, true)};
    put(&d, with(&d, "allOf", list_of(&d, yes, 2)));
    put(&d, with(&d, "allOf", list_of(&d, no, 2)));
    return finish(&d, out);
}

/* A key is not there, or what it asks for holds. Where the key has no place in the schema's order it may also come before the
 * keys that it asks for. */
static cdz_status make_dependent(cdz_schema *s, const cdz_json_member *asks, bool placed,
                                 const cdz_json **out)
{
    denial d = {.s = s, .at = &asks->value};
    const cdz_json_member none = {asks->key, asks->key_len, truth(&d, false)};
    put(&d, with(&d, "properties", object_of(&d, &none, 1)));
    cdz_json holds = asks->value;
    if (holds.type == CDZ_JSON_ARRAY) holds = with(&d, "required", holds);
    put(&d, holds);
    if (!placed) {
        cdz_json name = text(&d, asks->key);
        name.len = asks->key_len;
        const cdz_json both[] = {with(&d, "required", list_of(&d, &name, 1)), holds};
        put(&d, with(&d, "allOf", list_of(&d, both, 2)));
    }
    return finish(&d, out);
}

/* --- each once ---------------------------------------------------------------------------------------------------- */

typedef enum made_kind {
    MADE_DENIED,
    MADE_DENIED_BUT_OBJECTS,
    MADE_IF,
    MADE_DEPENDENT,
    MADE_DEPENDENT_PLACED,
} made_kind;

static uint32_t made_hash(const void *from, uint32_t kind)
{
    return (uint32_t)(((uint64_t)(uintptr_t)from + kind) * 0x9E3779B97F4A7C15u >> 32);
}

static uint32_t hash_of_made(const void *of, uint32_t number)
{
    const cdz_schema *s = of;
    return made_hash(s->made[number - 1].from, s->made[number - 1].kind);
}

static cdz_status make(cdz_schema *s, const void *from, made_kind kind, const char *keyword,
                       const cdz_json **out)
{
    cdz_item_table *t = &s->made_table;
    if (!cdz_item_table_room(t, s->n_made, hash_of_made, s) ||
        !cdz_grow(&s->made, &s->made_cap, (size_t)s->n_made + 1, sizeof *s->made))
        return cdz_schema_no_memory(s);
    uint32_t at = made_hash(from, kind) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (s->made[i - 1].from == from && s->made[i - 1].kind == (uint32_t)kind) {
            *out = s->made[i - 1].schema;
            return CDZ_OK;
        }
    if (kind == MADE_DENIED || kind == MADE_DENIED_BUT_OBJECTS)
        CDZ_TRY(deny(s, from, kind == MADE_DENIED_BUT_OBJECTS, out));
    else if (kind == MADE_IF)
        CDZ_TRY(make_if(s, from, out));
    else
        CDZ_TRY(make_dependent(s, from, kind == MADE_DEPENDENT_PLACED, out));
    s->made[s->n_made++] = (cdz_schema_made){from, (uint32_t)kind, keyword, *out};
    t->at[at] = s->n_made;
    return CDZ_OK;
}

cdz_status cdz_schema_denied(cdz_schema *s, const cdz_json *schema, const cdz_json **out)
{
    return make(s, schema, MADE_DENIED, "not", out);
}

static bool asks_something(const cdz_json *schema)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].how != DENY_REF && cdz_json_get(schema, rows[i].keyword)) return true;
    return false;
}

cdz_status cdz_schema_denied_but_objects(cdz_schema *s, const cdz_json *schema, const cdz_json **out)
{
    for (int i = 0; i < CDZ_SCHEMA_MAX_HOPS; i++) {
        const cdz_json *ref = cdz_json_get(schema, "$ref");
        if (!ref || (s->siblings_of_ref && asks_something(schema))) break;
        CDZ_TRY(cdz_schema_resolve(s, ref, "$ref", &schema));
    }
    return make(s, schema, MADE_DENIED_BUT_OBJECTS, "not", out);
}

const char *cdz_schema_made_of(const cdz_schema *s, const cdz_json *made)
{
    for (uint32_t i = 0; i < s->n_made; i++)
        if (s->made[i].schema == made) return s->made[i].keyword;
    return "anyOf";
}

static cdz_status push_one(cdz_schema *s, cdz_schema_list *list, const cdz_json *made)
{
    const uint32_t n = list->n;
    CDZ_TRY(cdz_schema_push(s, list, made));
    if (list->n > n) list->at[n].chosen |= CDZ_CHOSEN_MADE;
    return CDZ_OK;
}

static cdz_status add_dependents(cdz_schema *s, cdz_schema_list *list, const cdz_json *at,
                                 const char *keyword)
{
    const cdz_json *asks = cdz_json_get(at, keyword), *made = NULL;
    if (!asks) return CDZ_OK;
    if (asks->type != CDZ_JSON_OBJECT)
        return cdz_schema_wrong(s, asks, keyword, "expected an object");
    for (uint32_t i = 0; i < asks->len; i++) {
        const bool placed = cdz_json_get(cdz_json_get(at, "properties"), asks->members[i].key);
        CDZ_TRY(make(s, &asks->members[i], placed ? MADE_DEPENDENT_PLACED : MADE_DEPENDENT, keyword,
                     &made));
        CDZ_TRY(push_one(s, list, made));
    }
    return CDZ_OK;
}

cdz_status cdz_schema_push_made(cdz_schema *s, cdz_schema_list *list, const cdz_json *at)
{
    const cdz_json *denied = cdz_json_get(at, "not"), *made = NULL;
    if (denied && !cdz_schema_is_atom(denied)) {
        CDZ_TRY(make(s, denied, MADE_DENIED, "not", &made));
        const bool silent = list->silent;
        list->silent = true;
        CDZ_TRY(push_one(s, list, made));
        list->silent = silent;
    }
    if (cdz_json_get(at, "if") && (cdz_json_get(at, "then") || cdz_json_get(at, "else"))) {
        CDZ_TRY(make(s, at, MADE_IF, "if", &made));
        CDZ_TRY(push_one(s, list, made));
    }
    CDZ_TRY(add_dependents(s, list, at, "dependentRequired"));
    CDZ_TRY(add_dependents(s, list, at, "dependentSchemas"));
    return add_dependents(s, list, at, "dependencies");
}
