/* schema.c - parameters said in JSON Schema: a row, a table of them, a plugin's.
 *
 * Owns nothing: types, ranges, words and defaults are the rows'. Values are read elsewhere (param_set.c, param_text.c). */
#include "params/schema.h"

#include <string.h>

static void put_limit(const char *name, double value, bool integer, cdz_buf *out)
{
    cdz_buf_printf(out, ", \"%s\": ", name);
    if (integer)
        cdz_buf_printf(out, "%.0f", value);
    else
        cdz_json_write_real(out, value);
}

static void put_range(const cdz_param *p, bool integer, cdz_buf *out)
{
    if (p->min > -CDZ_NO_LIMIT)
        put_limit(p->flags & CDZ_ABOVE_MIN ? "exclusiveMinimum" : "minimum", p->min, integer, out);
    if (p->max < CDZ_NO_LIMIT)
        put_limit(p->flags & CDZ_BELOW_MAX ? "exclusiveMaximum" : "maximum", p->max, integer, out);
}

/* {"type": "integer", "minimum": 0}: an item of a list. */
static void put_item(const cdz_param *p, const char *type, cdz_buf *out)
{
    cdz_buf_printf(out, "{\"type\": \"%s\"", type);
    if (strcmp(type, "string") != 0) put_range(p, strcmp(type, "integer") == 0, out);
    cdz_buf_putc(out, '}');
}

static void put_array(const cdz_param *p, const char *type, const char *bounds, cdz_buf *out)
{
    cdz_buf_printf(out, "{\"type\": \"array\"%s, \"items\": ", bounds);
    put_item(p, type, out);
    cdz_buf_putc(out, '}');
}

void cdz_words_schema(const char *text, cdz_buf *out)
{
    while (text) {
        const size_t n = strcspn(text, "|");
        cdz_json_write_string(out, text, n);
        text = text[n] ? text + n + 1 : NULL;
        if (text) cdz_buf_puts(out, ", ");
    }
}

static void put_scalar(const cdz_param *p, const char *type, cdz_buf *out)
{
    cdz_buf_printf(out, "\"type\": [\"%s\", \"null\"]", type);
    if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0)
        put_range(p, strcmp(type, "integer") == 0, out);
}

/* One value stands for a list of one. */
static void put_list(const cdz_param *p, const char *type, cdz_buf *out)
{
    cdz_buf_puts(out, "\"anyOf\": [");
    if (p->type == CDZ_T_WORD_OR_INTS) {
        cdz_buf_puts(out, "{\"enum\": [");
        cdz_words_schema(p->text, out);
        cdz_buf_puts(out, "]}, ");
    }
    put_item(p, type, out);
    cdz_buf_puts(out, ", ");
    put_array(p, type, "", out);
    cdz_buf_puts(out, ", {\"type\": \"null\"}]");
}

static void put_weighted(cdz_buf *out)
{
    static const char pairs[] =
        "{\"type\": \"array\", \"items\": {\"type\": \"array\", \"minItems\": 2, \"maxItems\": 2, "
        "\"prefixItems\": [{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}, "
        "{\"anyOf\": [{\"type\": \"number\"}, {\"enum\": [\"inf\", \"-inf\"]}]}]}}";
    cdz_buf_printf(out,
                   "\"anyOf\": [%s, {\"type\": \"object\", \"required\": [\"mapping\"], "
                   "\"additionalProperties\": false, \"properties\": {\"mapping\": %s}}, "
                   "{\"type\": \"null\"}]",
                   pairs, pairs);
}

static void put_choices(const cdz_param *p, cdz_buf *out)
{
    cdz_buf_puts(out, "\"type\": [\"array\", \"null\"], \"items\": {\"anyOf\": [");
    put_array(p, "integer", ", \"minItems\": 1", out);
    cdz_buf_puts(out, ", {\"type\": \"array\", \"minItems\": 1, \"items\": ");
    put_array(p, "integer", ", \"minItems\": 1", out);
    cdz_buf_puts(out, "}]}");
}

static void put_type(const cdz_param *p, cdz_buf *out)
{
    switch (p->type) {
    case CDZ_T_BOOL:
    case CDZ_T_OPT_BOOL: put_scalar(p, "boolean", out); break;
    case CDZ_T_INT:
    case CDZ_T_OPT_INT: put_scalar(p, "integer", out); break;
    case CDZ_T_REAL:
    case CDZ_T_OPT_REAL: put_scalar(p, "number", out); break;
    case CDZ_T_STRING: put_scalar(p, "string", out); break;
    case CDZ_T_WORD:
    case CDZ_T_BOOL_OR_WORD:
        cdz_buf_puts(out, p->type == CDZ_T_WORD ? "\"enum\": [" : "\"enum\": [false, true, ");
        cdz_words_schema(p->text, out);
        cdz_buf_puts(out, ", null]");
        break;
    case CDZ_T_INTS:
    case CDZ_T_WORD_OR_INTS: put_list(p, "integer", out); break;
    case CDZ_T_REALS: put_list(p, "number", out); break;
    case CDZ_T_STRINGS: put_list(p, "string", out); break;
    case CDZ_T_INT_LISTS:
        cdz_buf_puts(out, "\"type\": [\"array\", \"null\"], \"items\": ");
        put_array(p, "integer", "", out);
        break;
    case CDZ_T_WEIGHTED: put_weighted(out); break;
    case CDZ_T_INT_REAL:
        cdz_buf_puts(out, "\"type\": [\"array\", \"null\"], \"minItems\": 2, \"maxItems\": 2, "
                          "\"prefixItems\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]");
        break;
    case CDZ_T_INT_CHOICES: put_choices(p, out); break;
    default: break; /* a type of a later minor: anything */
    }
}

static void put_default(const cdz_param *p, cdz_buf *out)
{
    cdz_buf text = {0};
    cdz_param_write_default(p, &text);
    if (text.data && strcmp(text.data, "none") != 0)
        cdz_buf_printf(out, ", \"default\": %s", text.data);
    out->failed |= text.failed;
    cdz_buf_free(&text);
}

void cdz_param_schema(const cdz_param *param, cdz_buf *out)
{
    cdz_buf_puts(out, "{\"description\": ");
    cdz_json_write_string(out, param->help, strlen(param->help));
    const size_t before = out->len;
    cdz_buf_puts(out, ", ");
    put_type(param, out);
    if (!out->failed && out->len == before + 2) out->data[out->len = before] = '\0';
    put_default(param, out);
    cdz_buf_putc(out, '}');
}

void cdz_params_schema(const cdz_param_table *table, const char *more, cdz_buf *out)
{
    cdz_buf_puts(out, "\"properties\": {");
    for (uint32_t i = 0; i < table->n; i++) {
        const cdz_param *param = cdz_param_at(table, i);
        cdz_buf_puts(out, i ? ",\n    " : "\n    ");
        cdz_json_write_string(out, param->name, strlen(param->name));
        cdz_buf_puts(out, ": ");
        cdz_param_schema(param, out);
    }
    if (more && *more) cdz_buf_printf(out, "%s\n    %s", table->n ? "," : "", more);
    cdz_buf_puts(out, "\n  }");
}

void cdz_params_plugin_schema(const cdz_plugin_base *plugin, cdz_buf *out)
{
    const cdz_param_table table = cdz_params_of(plugin);
    cdz_buf_puts(out, "{\n  \"$schema\": \"" CDZ_SCHEMA_DRAFT "\",\n  \"title\": ");
    cdz_json_write_string(out, plugin->id, strlen(plugin->id));
    cdz_buf_puts(out, ",\n  \"description\": ");
    cdz_json_write_string(out, plugin->summary, strlen(plugin->summary));
    cdz_buf_puts(out, ",\n  \"type\": \"object\",\n  \"additionalProperties\": false,\n  ");
    cdz_params_schema(&table, NULL, out);
    cdz_buf_puts(out, "\n}\n");
}
