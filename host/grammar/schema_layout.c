/* schema_layout.c - what stands between the tokens of a JSON text: whitespace, commas, colons. It owns no memory: patterns that
 * x-guidance gives are rules of the network. A place never has whitespace twice unless nothing stands between. Any thread. */
#include "grammar/expression.h"
#include "grammar/schema.h"

/* --- the options of the top's x-guidance ---------------------------------------------------------------- */

static cdz_status wrong_option(const cdz_schema *s, const cdz_json *v, const char *name,
                               const char *expected)
{
    return cdz_err(s->err, CDZ_E_INPUT, "schema:%u:%u: x-guidance: %s: expected %s, found %s",
                   v->line, v->column, name, expected, cdz_json_type_name(v));
}

static cdz_status read_bool(const cdz_schema *s, const cdz_json *v, const char *name, bool *out)
{
    if (v->type == CDZ_JSON_NULL) return CDZ_OK;
    if (v->type != CDZ_JSON_BOOL) return wrong_option(s, v, name, "true or false");
    *out = v->boolean;
    return CDZ_OK;
}

static cdz_status read_pattern(const cdz_schema *s, const cdz_json *v, const char *name,
                               uint32_t *rule)
{
    static const cdz_expression_style style = {0};
    cdz_error why = {0};
    cdz_chars nfa;
    if (v->type == CDZ_JSON_NULL) return CDZ_OK;
    if (v->type != CDZ_JSON_STRING) return wrong_option(s, v, name, "a regular expression");
    const cdz_status st = cdz_expression_read(v->string, v->len, &style, name, &nfa, &why);
    if (st != CDZ_OK)
        return cdz_err(s->err, st, "schema:%u:%u: x-guidance: %s", v->line, v->column, why.text);
    *rule = cdz_net_rule_of_chars(s->net, &nfa) + 1;
    cdz_chars_free(&nfa);
    return CDZ_OK;
}

static cdz_status read_option(cdz_schema *s, const char *name, const cdz_json *v)
{
    cdz_schema_layout *l = &s->layout;
    if (strcmp(name, "whitespace_flexible") == 0) return read_bool(s, v, name, &l->flexible);
    if (strcmp(name, "coerce_one_of") == 0) return read_bool(s, v, name, &l->coerce_one_of);
    if (strcmp(name, "whitespace_pattern") == 0) return read_pattern(s, v, name, &l->blank);
    if (strcmp(name, "item_separator") == 0) return read_pattern(s, v, name, &l->item);
    if (strcmp(name, "key_separator") == 0) return read_pattern(s, v, name, &l->key);
    return cdz_err(
        s->err, CDZ_E_UNSUPPORTED,
        "schema:%u:%u: x-guidance: '%.40s' is not supported; there are whitespace_flexible, "
        "whitespace_pattern, item_separator, key_separator, coerce_one_of",
        v->line, v->column, name);
}

cdz_status cdz_schema_read_layout(cdz_schema *s, const cdz_json *x)
{
    s->layout = (cdz_schema_layout){.flexible = true};
    if (!x) return CDZ_OK;
    if (x->type != CDZ_JSON_OBJECT)
        return cdz_schema_wrong(s, x, "x-guidance", "expected an object");
    for (uint32_t i = 0; i < x->len; i++)
        CDZ_TRY(read_option(s, x->members[i].key, &x->members[i].value));
    return CDZ_OK;
}

/* --- what stands between tokens ---------------------------------------------------------------------------- */

uint32_t cdz_schema_byte(cdz_schema *s, uint32_t from, char byte)
{
    const uint32_t to = cdz_net_node(s->net);
    cdz_net_byte(s->net, from, to, (uint8_t)byte, (uint8_t)byte);
    return to;
}

uint32_t cdz_schema_blank(cdz_schema *s, uint32_t from)
{
    const cdz_schema_layout *l = &s->layout;
    if (!l->blank && !l->flexible) return from;
    const uint32_t at = cdz_net_node(s->net);
    cdz_net_edge_add(s->net, from, at, CDZ_NET_NOTHING, 0);
    if (l->blank) {
        cdz_net_edge_add(s->net, from, at, CDZ_NET_CALL, l->blank - 1);
        return at;
    }
    cdz_net_byte(s->net, at, at, '\t', '\n');
    cdz_net_byte(s->net, at, at, '\r', '\r');
    cdz_net_byte(s->net, at, at, ' ', ' ');
    return at;
}

static uint32_t separator(cdz_schema *s, uint32_t from, uint32_t rule, char usual)
{
    const uint32_t at = cdz_schema_blank(s, from);
    return cdz_schema_blank(s, rule ? cdz_net_call(s->net, at, rule - 1)
                                    : cdz_schema_byte(s, at, usual));
}

uint32_t cdz_schema_comma(cdz_schema *s, uint32_t from)
{
    return separator(s, from, s->layout.item, ',');
}

uint32_t cdz_schema_colon(cdz_schema *s, uint32_t from)
{
    return separator(s, from, s->layout.key, ':');
}
