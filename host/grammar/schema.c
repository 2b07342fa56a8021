/* schema.c - JSON Schema: places and their rules, what is refused, alternatives, types. */
#include "grammar/schema.h"

#include <stdio.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "grammar/grow.h"
#include "grammar/states.h"

/* --- sentences --------------------------------------------------------------------------------------- */

cdz_status cdz_schema_no_memory(const cdz_schema *s)
{
    return cdz_err(s->err, CDZ_E_NOMEM, "out of memory for a JSON schema");
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

static bool is_true(const cdz_json *v)
{
    return cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean;
}

/* Keywords that are refused wherever they stand. */
static cdz_status refuse_keywords(const cdz_schema *s, const cdz_json *schema)
{
    static const char *const names[] = {"not",
                                        "contains",
                                        "unevaluatedProperties",
                                        "unevaluatedItems",
                                        "dependentSchemas",
                                        "dependentRequired",
                                        "dependencies",
                                        "$dynamicRef",
                                        "$recursiveRef",
                                        "propertyNames"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cdz_json *v = cdz_json_get(schema, names[i]);
        if (v) return cdz_schema_refuse(s, v, names[i], "");
    }
    const cdz_json *v = cdz_json_get(schema, "uniqueItems");
    if (is_true(v)) return cdz_schema_refuse(s, v, "uniqueItems", "");
    v = cdz_json_get(schema, "if");
    if (v && (cdz_json_get(schema, "then") || cdz_json_get(schema, "else")))
        return cdz_schema_refuse(s, v, "if", "");
    v = cdz_json_get(schema, "$id");
    if (v && schema != s->root) return cdz_schema_refuse(s, v, "$id", "inside a schema");
    v = cdz_json_get(schema, "x-guidance");
    if (v && schema != s->root) return cdz_schema_refuse(s, v, "x-guidance", "below the top");
    return CDZ_OK;
}

/* --- $ref -------------------------------------------------------------------------------------------- */

/* One step of a JSON pointer, without its escapes, into name; returns what follows. */
static const char *pointer_step(const char *at, char *name, size_t size)
{
    size_t n = 0;
    for (; *at && *at != '/'; at++) {
        char c = *at;
        if (c == '%' && cdz_hex_digit(at[1]) >= 0 && cdz_hex_digit(at[2]) >= 0) {
            c = (char)(cdz_hex_digit(at[1]) * 16 + cdz_hex_digit(at[2]));
            at += 2;
        }
        if (c == '~' && (at[1] == '0' || at[1] == '1')) {
            c = at[1] == '0' ? '~' : '/';
            at++;
        }
        if (n + 1 < size) name[n++] = c;
    }
    name[n] = '\0';
    return at;
}

static const cdz_json *pointed(const cdz_json *at, const char *pointer)
{
    char name[1024], *end;
    while (at && *pointer == '/') {
        pointer = pointer_step(pointer + 1, name, sizeof name);
        if (at->type == CDZ_JSON_ARRAY) {
            const unsigned long i = strtoul(name, &end, 10);
            at = *name && !*end && i < at->len ? &at->items[i] : NULL;
        } else {
            at = cdz_json_get(at, name);
        }
    }
    return *pointer ? NULL : at;
}

static cdz_status resolve(const cdz_schema *s, const cdz_json *ref, const cdz_json **out)
{
    const cdz_json *id = cdz_json_get(s->root, "$id");
    if (ref->type != CDZ_JSON_STRING) return cdz_schema_wrong(s, ref, "$ref", "expected a text");
    const char *text = ref->string;
    if (cdz_json_is(id, CDZ_JSON_STRING)) {
        const size_t n = strcspn(id->string, "#");
        if (n && strncmp(text, id->string, n) == 0 && (text[n] == '#' || !text[n])) text += n;
    }
    if (*text && *text != '#')
        return cdz_schema_refuse(s, ref, "$ref", "it leads out of the document");
    if (*text && text[1] && text[1] != '/')
        return cdz_schema_refuse(s, ref, "$ref", "to an $anchor");
    *out = *text ? pointed(s->root, text + 1) : s->root;
    if (*out) return CDZ_OK;
    return cdz_err(s->err, CDZ_E_INPUT, "schema:%u:%u: $ref: nothing is at '%s'", ref->line,
                   ref->column, ref->string);
}

/* --- a schema and what it leads to -------------------------------------------------------------------- */

static cdz_status push(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema)
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
        if (list->at[i].schema == schema) return CDZ_OK;
    if (list->n >= CDZ_SCHEMA_MAX_LIST)
        return cdz_schema_wrong(s, schema, "allOf",
                                "too many schemas hold at one place (grammar_max_states)");
    if (!cdz_grow(&list->at, &list->cap, (size_t)list->n + 1, sizeof *list->at))
        return cdz_schema_no_memory(s);
    list->at[list->n++] = (cdz_schema_entry){.schema = schema};
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

cdz_status cdz_schema_add(cdz_schema *s, cdz_schema_list *list, const cdz_json *schema)
{
    uint32_t next = list->n;
    CDZ_TRY(push(s, list, schema));
    for (; next < list->n; next++) {
        const cdz_json *at = list->at[next].schema, *all, *target;
        const cdz_json *ref = cdz_json_get(at, "$ref");
        if (ref && !s->siblings_of_ref) {
            CDZ_TRY(resolve(s, ref, &target));
            /* alone: the schema beside it says nothing */
            static const cdz_json_member none;
            static const cdz_json empty = {.type = CDZ_JSON_OBJECT, .members = &none};
            list->at[next].schema = &empty;
            list->at[next].chosen = CDZ_CHOSEN_ANY | CDZ_CHOSEN_ONE;
            CDZ_TRY(push(s, list, target));
            continue;
        }
        CDZ_TRY(refuse_keywords(s, at));
        if (ref) {
            CDZ_TRY(resolve(s, ref, &target));
            CDZ_TRY(push(s, list, target));
        }
        CDZ_TRY(schemas_of(s, at, "allOf", &all));
        for (uint32_t i = 0; all && i < all->len; i++) CDZ_TRY(push(s, list, &all->items[i]));
    }
    return CDZ_OK;
}

/* --- places ------------------------------------------------------------------------------------------ */

static uint32_t list_hash(const cdz_schema_list *list)
{
    uint64_t h = list->n + (list->never ? 7u : 0u);
    for (uint32_t i = 0; i < list->n; i++)
        h = (h ^ (uint64_t)(uintptr_t)list->at[i].schema ^ list->at[i].chosen) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static bool same_list(const cdz_schema_list *a, const cdz_schema_list *b)
{
    bool same = a->n == b->n && a->never == b->never;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = a->at[i].schema == b->at[i].schema && a->at[i].chosen == b->at[i].chosen;
    return same;
}

static bool enlarge(cdz_schema *s)
{
    const uint32_t size = s->table_size ? 2 * s->table_size : 64;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (uint32_t i = 0; i < s->n_places; i++) {
        uint32_t at = list_hash(&s->places[i].list) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = i + 1;
    }
    free(s->table);
    s->table = table;
    s->table_size = size;
    return true;
}

cdz_status cdz_schema_rule(cdz_schema *s, cdz_schema_list *list, uint32_t *rule)
{
    if ((s->n_places + 1) * 2 >= s->table_size && !enlarge(s)) return cdz_schema_no_memory(s);
    uint32_t at = list_hash(list) & (s->table_size - 1);
    for (uint32_t i; (i = s->table[at]) != 0; at = (at + 1) & (s->table_size - 1))
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
    s->places[s->n_places] = (cdz_schema_place){*list, *rule};
    *list = (cdz_schema_list){0};
    s->table[at] = ++s->n_places;
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

cdz_status cdz_schema_types(const cdz_schema *s, const cdz_schema_list *list, uint32_t *types)
{
    *types = CDZ_TYPE_ALL;
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *v = cdz_json_get(list->at[i].schema, "type");
        uint32_t own = 0;
        if (!v) continue;
        for (uint32_t k = 0; k < (v->type == CDZ_JSON_ARRAY ? v->len : 1); k++) {
            const uint32_t one = type_named(v->type == CDZ_JSON_ARRAY ? &v->items[k] : v);
            if (!one)
                return cdz_schema_wrong(
                    s, v, "type",
                    "expected null, boolean, integer, number, string, array or object");
            own |= one;
        }
        *types &= own;
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
    if (!cdz_json_number(v, &n) || n < 0 || n != (double)(uint64_t)(n < 1e15 ? n : 0))
        return cdz_schema_wrong(s, v, keyword, "expected a whole number from 0");
    *out = n > 4e9 ? UINT32_MAX - 1 : (uint32_t)n;
    return CDZ_OK;
}

uint32_t cdz_schema_blank(cdz_schema *s, uint32_t from)
{
    if (s->compact) return from;
    const uint32_t at = cdz_net_node(s->net);
    cdz_net_edge_add(s->net, from, at, CDZ_NET_NOTHING, 0);
    cdz_net_byte(s->net, at, at, '\t', '\n');
    cdz_net_byte(s->net, at, at, '\r', '\r');
    cdz_net_byte(s->net, at, at, ' ', ' ');
    return at;
}

uint32_t cdz_schema_byte(cdz_schema *s, uint32_t from, char byte)
{
    const uint32_t to = cdz_net_node(s->net);
    cdz_net_byte(s->net, from, to, (uint8_t)byte, (uint8_t)byte);
    return to;
}

/* --- the body of a place ------------------------------------------------------------------------------- */

/* One alternative: the list, with the choice made. */
static cdz_status alternative(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                              uint32_t bit, const cdz_json *choice, cdz_schema_list *out)
{
    if (!list_copy(list, out)) return cdz_schema_no_memory(s);
    out->at[entry].chosen |= bit;
    const cdz_status st = cdz_schema_add(s, out, choice);
    if (st != CDZ_OK) cdz_schema_list_free(out);
    return st;
}

static cdz_status check_apart(cdz_schema *s, const cdz_schema_list *list, uint32_t entry,
                              const cdz_json *choices, uint32_t i, uint32_t k)
{
    cdz_schema_list a = {0}, b = {0};
    bool apart = false;
    cdz_status st = alternative(s, list, entry, CDZ_CHOSEN_ONE, &choices->items[i], &a);
    if (st == CDZ_OK) st = alternative(s, list, entry, CDZ_CHOSEN_ONE, &choices->items[k], &b);
    if (st == CDZ_OK) st = cdz_schema_apart(s, &a, &b, &apart);
    cdz_schema_list_free(&a);
    cdz_schema_list_free(&b);
    if (st == CDZ_OK && !apart)
        st = cdz_schema_refuse(s, choices, "oneOf",
                               "its alternatives are not certain to exclude each other");
    return st;
}

/* A choice that is still open; *found false: there is none. */
static cdz_status choose(cdz_schema *s, const cdz_schema_list *list, const cdz_net_rule *rule,
                         bool *found)
{
    *found = false;
    for (uint32_t i = 0; i < list->n && !*found; i++) {
        const cdz_json *choices = NULL;
        uint32_t bit = CDZ_CHOSEN_ANY, call;
        if (!(list->at[i].chosen & bit))
            CDZ_TRY(schemas_of(s, list->at[i].schema, "anyOf", &choices));
        if (!choices && !(list->at[i].chosen & CDZ_CHOSEN_ONE)) {
            bit = CDZ_CHOSEN_ONE;
            CDZ_TRY(schemas_of(s, list->at[i].schema, "oneOf", &choices));
        }
        for (uint32_t k = 0; choices && k < choices->len; k++) {
            cdz_schema_list own;
            for (uint32_t m = 0; bit == CDZ_CHOSEN_ONE && m < k; m++)
                CDZ_TRY(check_apart(s, list, i, choices, m, k));
            CDZ_TRY(alternative(s, list, i, bit, &choices->items[k], &own));
            CDZ_TRY(cdz_schema_rule(s, &own, &call));
            cdz_net_edge_add(s->net, rule->start, rule->end, CDZ_NET_CALL, call);
            *found = true;
        }
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
    if (!list_copy(list, &own)) return cdz_schema_no_memory(s);
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
        if (many && many->type != CDZ_JSON_ARRAY)
            return cdz_schema_wrong(s, many, "enum", "expected a list of values");
        if (one)
            CDZ_TRY(put_values(s, list, one, 1, rule));
        else if (many)
            CDZ_TRY(put_enum(s, list, i, many, rule));
    }
    return CDZ_OK;
}

static cdz_status body(cdz_schema *s, const cdz_schema_list *list, const cdz_net_rule *rule)
{
    uint32_t types;
    bool found;
    if (list->never) return CDZ_OK;
    CDZ_TRY(choose(s, list, rule, &found));
    if (!found) CDZ_TRY(values_of(s, list, rule, &found));
    if (found) return CDZ_OK;
    CDZ_TRY(cdz_schema_types(s, list, &types));
    static const cdz_text_ref words[] = {{"null", 4}, {"true", 4}, {"false", 5}};
    for (size_t i = 0; i < 3; i++)
        if (types & (i ? CDZ_TYPE_BOOLEAN : CDZ_TYPE_NULL))
            cdz_net_edge_add(s->net, cdz_net_text(s->net, rule->start, words[i].text, words[i].len),
                             rule->end, CDZ_NET_NOTHING, 0);
    if (types & (CDZ_TYPE_INTEGER | CDZ_TYPE_FRACTION))
        CDZ_TRY(cdz_schema_numbers(s, list, types & CDZ_TYPE_FRACTION, rule->start, rule->end));
    if (types & CDZ_TYPE_STRING) CDZ_TRY(cdz_schema_strings(s, list, rule->start, rule->end));
    if (types & CDZ_TYPE_ARRAY) CDZ_TRY(cdz_schema_arrays(s, list, rule->start, rule->end));
    if (types & CDZ_TYPE_OBJECT) CDZ_TRY(cdz_schema_objects(s, list, rule->start, rule->end));
    return CDZ_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------ */

static cdz_status read_options(cdz_schema *s)
{
    const cdz_json *draft = cdz_json_get(s->root, "$schema"),
                   *x = cdz_json_get(s->root, "x-guidance");
    s->siblings_of_ref = true;
    if (cdz_json_is(draft, CDZ_JSON_STRING))
        for (int d = '3'; d <= '7'; d++) {
            const char name[] = {'d', 'r', 'a', 'f', 't', '-', '0', (char)d, '\0'};
            if (strstr(draft->string, name)) s->siblings_of_ref = false;
        }
    if (cdz_json_is(s->root, CDZ_JSON_OBJECT) && x) {
        const cdz_json *flexible = cdz_json_get(x, "whitespace_flexible");
        if (!cdz_json_is(x, CDZ_JSON_OBJECT) || x->len != 1 || !cdz_json_is(flexible, CDZ_JSON_BOOL))
            return cdz_schema_refuse(s, x, "x-guidance", "but for whitespace_flexible alone");
        s->compact = !flexible->boolean;
    }
    return CDZ_OK;
}

static cdz_status compile(cdz_schema *s, uint32_t *start)
{
    cdz_schema_list list = {0};
    CDZ_TRY(read_options(s));
    cdz_status st = cdz_schema_add(s, &list, s->root);
    if (st == CDZ_OK) st = cdz_schema_rule(s, &list, start);
    cdz_schema_list_free(&list);
    for (; st == CDZ_OK && s->net->status == CDZ_OK && s->done < s->n_places; s->done++) {
        const cdz_schema_list own = s->places[s->done].list;
        const cdz_net_rule rule = s->net->rules[s->places[s->done].rule];
        st = body(s, &own, &rule);
    }
    return st;
}

cdz_status cdz_schema_part(cdz_net *net, const char *text, size_t len, uint32_t *rule,
                           cdz_error *err)
{
    static const cdz_json_limits limits = {.depth = CDZ_SCHEMA_MAX_DEPTH};
    cdz_arena arena = {0};
    cdz_json root;
    cdz_schema s = {.net = net, .root = &root, .err = err};
    cdz_status st = cdz_json_parse(text, len, "schema", &limits, &arena, &root, err);
    if (st == CDZ_OK) st = compile(&s, rule);
    for (uint32_t i = 0; i < s.n_places; i++) cdz_schema_list_free(&s.places[i].list);
    free(s.places);
    free(s.table);
    cdz_arena_free(&arena);
    return st;
}
