/* schema_value.c - values that a schema spells out: as texts, and tested. What recurses here goes as deep as a
 * document may, CDZ_SCHEMA_MAX_DEPTH. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "grammar/expression.h"
#include "grammar/schema.h"

/* --- as text ----------------------------------------------------------------------------------------- */

static cdz_status put_value(cdz_schema *s, const cdz_json *v, uint32_t *at);

static cdz_status put_string(cdz_schema *s, const char *text, uint32_t len, uint32_t *at)
{
    cdz_text_ref name = {text, len};
    const uint32_t in = cdz_schema_byte(s, *at, '"'), out = cdz_net_node(s->net);
    CDZ_TRY(cdz_schema_names(s, &name, 1, false, in, out));
    *at = cdz_schema_byte(s, out, '"');
    return CDZ_OK;
}

/* A whole number that the schema writes as 2.0 may be written so too. */
static cdz_status put_number(cdz_schema *s, const cdz_json *v, uint32_t *at)
{
    cdz_buf text = {0};
    if (v->type == CDZ_JSON_INT)
        cdz_buf_printf(&text, "%lld", (long long)v->integer);
    else if (v->real == floor(v->real) && fabs(v->real) < 1e15)
        cdz_buf_printf(&text, "%.0f", v->real);
    else
        cdz_json_write_real(&text, v->real);
    if (text.failed) {
        cdz_buf_free(&text);
        return cdz_schema_no_memory(s);
    }
    *at = cdz_net_text(s->net, *at, text.data, text.len);
    if (v->type == CDZ_JSON_REAL && text.len == strcspn(text.data, ".e")) {
        const uint32_t as_real = cdz_net_text(s->net, *at, ".0", 2), end = cdz_net_node(s->net);
        cdz_net_edge_add(s->net, *at, end, CDZ_NET_NOTHING, 0);
        cdz_net_edge_add(s->net, as_real, end, CDZ_NET_NOTHING, 0);
        *at = end;
    }
    cdz_buf_free(&text);
    return CDZ_OK;
}

static cdz_status put_members(cdz_schema *s, const cdz_json *v, uint32_t *at)
{
    const bool object = v->type == CDZ_JSON_OBJECT;
    *at = cdz_schema_blank(s, cdz_schema_byte(s, *at, object ? '{' : '['));
    for (uint32_t i = 0; i < v->len; i++) {
        if (i) *at = cdz_schema_comma(s, *at);
        if (object) {
            CDZ_TRY(put_string(s, v->members[i].key, v->members[i].key_len, at));
            *at = cdz_schema_colon(s, *at);
        }
        CDZ_TRY(put_value(s, object ? &v->members[i].value : &v->items[i], at));
    }
    if (v->len) *at = cdz_schema_blank(s, *at);
    *at = cdz_schema_byte(s, *at, object ? '}' : ']');
    return CDZ_OK;
}

static cdz_status put_value(cdz_schema *s, const cdz_json *v, uint32_t *at)
{
    switch ((cdz_json_type)v->type) {
    case CDZ_JSON_NULL: *at = cdz_net_text(s->net, *at, "null", 4); return CDZ_OK;
    case CDZ_JSON_BOOL:
        *at = cdz_net_text(s->net, *at, v->boolean ? "true" : "false", v->boolean ? 4 : 5);
        return CDZ_OK;
    case CDZ_JSON_INT:
    case CDZ_JSON_REAL: return put_number(s, v, at);
    case CDZ_JSON_STRING: return put_string(s, v->string, v->len, at);
    default: return put_members(s, v, at);
    }
}

cdz_status cdz_schema_literal(cdz_schema *s, const cdz_json *value, uint32_t from, uint32_t to)
{
    CDZ_TRY(put_value(s, value, &from));
    cdz_net_edge_add(s->net, from, to, CDZ_NET_NOTHING, 0);
    return CDZ_OK;
}

static uint32_t type_of(const cdz_json *value)
{
    switch ((cdz_json_type)value->type) {
    case CDZ_JSON_NULL: return CDZ_TYPE_NULL;
    case CDZ_JSON_BOOL: return CDZ_TYPE_BOOLEAN;
    case CDZ_JSON_INT: return CDZ_TYPE_INTEGER;
    case CDZ_JSON_REAL:
        return value->real == floor(value->real) ? CDZ_TYPE_INTEGER : CDZ_TYPE_FRACTION;
    case CDZ_JSON_STRING: return CDZ_TYPE_STRING;
    case CDZ_JSON_ARRAY: return CDZ_TYPE_ARRAY;
    default: return CDZ_TYPE_OBJECT;
    }
}

/* --- tested ------------------------------------------------------------------------------------------ */

/* Fractions are not exact: 0.07 is seven times 0.01. */
static bool is_multiple(double x, double b)
{
    if (b == floor(b)) return fmod(x, b) == 0;
    const double n = x / b;
    return fabs(n - round(n)) <= 1e-12 * fabs(n);
}

static bool within_bounds(const cdz_json *schema, double x)
{
    double b;
    return !(cdz_json_number(cdz_schema_bound(schema, "minimum"), &b) && x < b) &&
           !(cdz_json_number(cdz_schema_bound(schema, "maximum"), &b) && x > b) &&
           !(cdz_json_number(cdz_schema_bound(schema, "exclusiveMinimum"), &b) && x <= b) &&
           !(cdz_json_number(cdz_schema_bound(schema, "exclusiveMaximum"), &b) && x >= b) &&
           !(cdz_json_number(cdz_json_get(schema, "multipleOf"), &b) && b > 0 && !is_multiple(x, b));
}

/* Whether a count lies between two keywords. */
static cdz_status within_counts(const cdz_schema *s, const cdz_json *schema, const char *least,
                                const char *most, size_t n, bool *valid)
{
    uint32_t limit;
    bool found;
    CDZ_TRY(cdz_schema_count(s, schema, least, &limit, &found));
    *valid &= !found || n >= limit;
    CDZ_TRY(cdz_schema_count(s, schema, most, &limit, &found));
    *valid &= !found || n <= limit;
    return CDZ_OK;
}

static cdz_status matches(const cdz_schema *s, const cdz_chars *nfa, const char *text, size_t len,
                          bool *valid)
{
    cdz_chars_dfa dfa;
    CDZ_TRY(cdz_chars_determine(nfa, &dfa, s->err));
    *valid &= cdz_chars_accepts(&dfa, text, len);
    cdz_chars_dfa_free(&dfa);
    return CDZ_OK;
}

static cdz_status valid_string(const cdz_schema *s, const cdz_json *schema, const cdz_json *v,
                               bool *valid)
{
    static const cdz_expression_style style = {.ascii = true};
    const cdz_json *pattern = cdz_json_get(schema, "pattern"),
                   *format = cdz_json_get(schema, "format");
    cdz_chars nfa;
    CDZ_TRY(within_counts(s, schema, "minLength", "maxLength", cdz_utf8_count(v->string, v->len),
                          valid));
    if (pattern) {
        CDZ_TRY(cdz_schema_pattern(s, pattern, &nfa));
        const cdz_status st = matches(s, &nfa, v->string, v->len, valid);
        cdz_chars_free(&nfa);
        CDZ_TRY(st);
    }
    if (!format) return CDZ_OK;
    const char *regex = format->type == CDZ_JSON_STRING ? cdz_schema_format(format->string) : NULL;
    if (!regex) return cdz_schema_refuse(s, format, "format", "of this name");
    CDZ_TRY(cdz_expression_read(regex, strlen(regex), &style, "a format", &nfa, s->err));
    const cdz_status st = matches(s, &nfa, v->string, v->len, valid);
    cdz_chars_free(&nfa);
    return st;
}

/* Whether a value satisfies one schema, with what that leads to. */
static cdz_status valid_by(cdz_schema *s, const cdz_json *schema, const cdz_json *v, uint32_t depth,
                           bool *valid)
{
    cdz_schema_list list = {0};
    bool own = true;
    cdz_status st = cdz_schema_add(s, &list, schema);
    if (st == CDZ_OK) st = cdz_schema_valid(s, &list, v, depth + 1, &own);
    cdz_schema_list_free(&list);
    *valid &= own;
    return st;
}

static cdz_status valid_unique(const cdz_schema *s, const cdz_json *schema, const cdz_json *v,
                               bool *valid)
{
    const cdz_json *unique = cdz_json_get(schema, "uniqueItems");
    if (!cdz_json_is(unique, CDZ_JSON_BOOL) || !unique->boolean) return CDZ_OK;
    if (v->len > CDZ_SCHEMA_MAX_LIST)
        return cdz_schema_refuse(s, unique, "uniqueItems", "of a value with more than 2000 items");
    for (uint32_t i = 0; i < v->len; i++)
        for (uint32_t k = 0; k < i; k++) *valid &= !cdz_schema_same(&v->items[i], &v->items[k]);
    return CDZ_OK;
}

static cdz_status valid_contains(cdz_schema *s, const cdz_json *schema, const cdz_json *v,
                                 uint32_t depth, bool *valid)
{
    const cdz_json *wanted = cdz_json_get(schema, "contains");
    uint32_t n = 0;
    if (!wanted) return CDZ_OK;
    for (uint32_t i = 0; i < v->len; i++) {
        bool own = true;
        CDZ_TRY(valid_by(s, wanted, &v->items[i], depth, &own));
        n += own;
    }
    *valid &= n > 0 || cdz_json_get(schema, "minContains");
    return within_counts(s, schema, "minContains", "maxContains", n, valid);
}

static cdz_status valid_array(cdz_schema *s, const cdz_json *schema, const cdz_json *v,
                              uint32_t depth, bool *valid)
{
    const cdz_json *prefix = cdz_json_get(schema, "prefixItems"),
                   *rest = cdz_json_get(schema, "items");
    CDZ_TRY(within_counts(s, schema, "minItems", "maxItems", v->len, valid));
    if (!prefix && cdz_json_is(rest, CDZ_JSON_ARRAY)) {
        prefix = rest;
        rest = cdz_json_get(schema, "additionalItems");
    }
    CDZ_TRY(valid_unique(s, schema, v, valid));
    CDZ_TRY(valid_contains(s, schema, v, depth, valid));
    for (uint32_t i = 0; i < v->len && *valid; i++) {
        const cdz_json *own =
            cdz_json_is(prefix, CDZ_JSON_ARRAY) && i < prefix->len ? &prefix->items[i] : rest;
        if (own) CDZ_TRY(valid_by(s, own, &v->items[i], depth, valid));
    }
    return CDZ_OK;
}

static cdz_status valid_member(cdz_schema *s, const cdz_json *schema, const cdz_json_member *m,
                               uint32_t depth, bool *valid)
{
    const cdz_json *own = cdz_schema_member(cdz_json_get(schema, "properties"), m->key, m->key_len);
    const cdz_json *patterns = cdz_json_get(schema, "patternProperties");
    const cdz_json *others = cdz_json_get(schema, "additionalProperties");
    bool declared = own != NULL;
    if (own) CDZ_TRY(valid_by(s, own, &m->value, depth, valid));
    for (uint32_t i = 0; cdz_json_is(patterns, CDZ_JSON_OBJECT) && i < patterns->len && *valid;
         i++) {
        const cdz_json key = {.type = CDZ_JSON_STRING,
                              .len = patterns->members[i].key_len,
                              .string = patterns->members[i].key};
        cdz_chars nfa;
        bool has = true;
        CDZ_TRY(cdz_schema_pattern(s, &key, &nfa));
        const cdz_status st = matches(s, &nfa, m->key, m->key_len, &has);
        cdz_chars_free(&nfa);
        CDZ_TRY(st);
        declared |= has;
        if (has) CDZ_TRY(valid_by(s, &patterns->members[i].value, &m->value, depth, valid));
    }
    return declared || !others ? CDZ_OK : valid_by(s, others, &m->value, depth, valid);
}

static cdz_status valid_object(cdz_schema *s, const cdz_json *schema, const cdz_json *v,
                               uint32_t depth, bool *valid)
{
    const cdz_json *required = cdz_json_get(schema, "required");
    CDZ_TRY(within_counts(s, schema, "minProperties", "maxProperties", v->len, valid));
    for (uint32_t i = 0; cdz_json_is(required, CDZ_JSON_ARRAY) && i < required->len; i++)
        if (cdz_json_is(&required->items[i], CDZ_JSON_STRING))
            *valid &=
                cdz_schema_member(v, required->items[i].string, required->items[i].len) != NULL;
    const cdz_json *names = cdz_json_get(schema, "propertyNames");
    for (uint32_t i = 0; names && i < v->len && *valid; i++) {
        const cdz_json key = {
            .type = CDZ_JSON_STRING, .len = v->members[i].key_len, .string = v->members[i].key};
        CDZ_TRY(valid_by(s, names, &key, depth, valid));
    }
    for (uint32_t i = 0; i < v->len && *valid; i++)
        CDZ_TRY(valid_member(s, schema, &v->members[i], depth, valid));
    return CDZ_OK;
}

static cdz_status valid_choices(cdz_schema *s, const cdz_schema_entry *e, const cdz_json *v,
                                uint32_t depth, bool *valid)
{
    const cdz_json *any = e->chosen & CDZ_CHOSEN_ANY ? NULL : cdz_json_get(e->schema, "anyOf");
    const cdz_json *one = e->chosen & CDZ_CHOSEN_ONE ? NULL : cdz_json_get(e->schema, "oneOf");
    for (int k = 0; k < 2; k++) {
        const cdz_json *choices = k ? one : any;
        uint32_t n = 0;
        if (!cdz_json_is(choices, CDZ_JSON_ARRAY)) continue;
        for (uint32_t i = 0; i < choices->len; i++) {
            bool own = true;
            CDZ_TRY(valid_by(s, &choices->items[i], v, depth, &own));
            n += own;
        }
        *valid &= k && !s->layout.coerce_one_of ? n == 1 : n > 0;
    }
    return CDZ_OK;
}

static cdz_status valid_literal(cdz_schema *s, const cdz_json *schema, const cdz_json *v,
                                bool *valid)
{
    const cdz_json *one = cdz_json_get(schema, "const"), *many = cdz_json_get(schema, "enum");
    *valid = !one || cdz_schema_same(one, v);
    return *valid && cdz_json_is(many, CDZ_JSON_ARRAY) ? cdz_schema_list_has(s, many, v, valid)
                                                       : CDZ_OK;
}

static cdz_status valid_entry(cdz_schema *s, const cdz_schema_entry *e, const cdz_json *v,
                              uint32_t depth, bool *valid)
{
    double x;
    static const char *const names[] = {"unevaluatedProperties", "unevaluatedItems"};
    for (size_t i = 0; i < 2; i++) {
        const cdz_json *v_of = cdz_json_get(e->schema, names[i]);
        if (v_of && (v->type == CDZ_JSON_OBJECT || v->type == CDZ_JSON_ARRAY))
            return cdz_schema_refuse(s, v_of, names[i], "of a value that is spelt out");
    }
    const cdz_json *denied = cdz_json_get(e->schema, "not");
    bool is_denied = denied != NULL;
    if (denied) CDZ_TRY(valid_by(s, denied, v, depth, &is_denied));
    *valid &= !is_denied;
    if (*valid && !(e->chosen & CDZ_CHOSEN_VALUE)) CDZ_TRY(valid_literal(s, e->schema, v, valid));
    if (*valid) CDZ_TRY(valid_choices(s, e, v, depth, valid));
    if (!*valid) return CDZ_OK;
    if (cdz_json_number(v, &x)) *valid &= within_bounds(e->schema, x);
    if (v->type == CDZ_JSON_STRING) return valid_string(s, e->schema, v, valid);
    if (v->type == CDZ_JSON_ARRAY) return valid_array(s, e->schema, v, depth, valid);
    if (v->type == CDZ_JSON_OBJECT) return valid_object(s, e->schema, v, depth, valid);
    return CDZ_OK;
}

cdz_status cdz_schema_valid(cdz_schema *s, const cdz_schema_list *list, const cdz_json *value,
                            uint32_t depth, bool *valid)
{
    uint32_t types;
    *valid = !list->never;
    CDZ_TRY(cdz_schema_in_time(s));
    if (depth > CDZ_SCHEMA_MAX_DEPTH)
        return cdz_err(s->err, CDZ_E_LIMIT, "the schema nests deeper than %d", CDZ_SCHEMA_MAX_DEPTH);
    CDZ_TRY(cdz_schema_types(s, list, &types));
    *valid &= (types & type_of(value)) != 0;
    for (uint32_t i = 0; i < list->n && *valid; i++)
        CDZ_TRY(valid_entry(s, &list->at[i], value, depth, valid));
    return CDZ_OK;
}
