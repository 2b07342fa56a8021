/* settings_text.c - rows in words: what they take, JSON Schemas, the reference page. See settings.h. */
#include <string.h>

#include "base/json.h"
#include "params/schema.h"
#include "params/settings.h"

/* "a|b|c" as "a, b or c". */
static void put_words(const char *words, cdz_buf *out)
{
    for (const char *at = words; at;) {
        const size_t n = strcspn(at, "|");
        const char *next = at[n] ? at + n + 1 : NULL;
        cdz_buf_add(out, at, n);
        if (next) cdz_buf_puts(out, strchr(next, '|') ? ", " : " or ");
        at = next;
    }
}

void cdz_setting_takes(const cdz_setting *row, cdz_buf *out)
{
    switch (row->kind) {
    case CDZ_KIND_SWITCH:
    case CDZ_KIND_BIT: cdz_buf_puts(out, "no value"); break;
    case CDZ_KIND_COUNT:
        if (row->most < UINT32_MAX)
            cdz_buf_printf(out, "a number from %.0f to %.0f", row->least, row->most);
        else
            cdz_buf_puts(out, "a number");
        break;
    case CDZ_KIND_BYTES: cdz_buf_puts(out, "a size such as 512M or 2G"); break;
    case CDZ_KIND_SECONDS: cdz_buf_puts(out, row->least > 0 ? "seconds above 0" : "seconds"); break;
    case CDZ_KIND_WORD: put_words(row->words, out); break;
    case CDZ_KIND_TEXTS: cdz_buf_puts(out, "a text, as often as wanted"); break;
    case CDZ_KIND_PARAMETER: cdz_buf_puts(out, "a parameter"); break;
    case CDZ_KIND_TEXT: cdz_buf_puts(out, "a text"); break;
    }
}

/* --- JSON Schema ----------------------------------------------------------------------------------------------- */

/* Of an option what it is, without what follows a semicolon, nor the words of which there is an enum; else all. */
static void put_description(const cdz_setting *row, cdz_buf *out)
{
    const char *help = row->flag.help;
    cdz_buf_puts(out, "\"description\": ");
    const char *const ends = row->words ? ":;" : ";";
    cdz_json_write_string(out, help, row->flag.name ? strcspn(help, ends) : strlen(help));
}

void cdz_settings_file_schema(const char *section, cdz_buf *out)
{
    const cdz_setting *row;
    const char *comma = "";
    cdz_buf_puts(out, "\"properties\": {");
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (!row->section || strcmp(row->section, section) != 0) continue;
        cdz_buf_printf(out, "%s\n    \"%s\": {", comma, row->name);
        put_description(row, out);
        if (row->words) {
            cdz_buf_puts(out, ", \"enum\": [");
            cdz_words_schema(row->words, out);
            cdz_buf_puts(out, row->or_null ? ", \"none\"]}" : "]}");
        } else {
            cdz_buf_puts(out, ", \"type\": \"string\"}");
        }
        comma = ",";
    }
    cdz_buf_puts(out, "\n  }");
}

static const char ids_schema[] =
    "\"anyOf\": [{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}, {\"type\": \"array\", "
    "\"items\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}}}, {\"type\": \"null\"}]";
static const char texts_schema[] =
    "\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"array\", \"minItems\": 1, \"items\": "
    "{\"type\": \"string\"}}]";

static const char *type_of(cdz_member_kind kind)
{
    switch (kind) {
    case CDZ_MEMBER_TEXT: return "string";
    case CDZ_MEMBER_INT: return "integer";
    case CDZ_MEMBER_BOOL: return "boolean";
    case CDZ_MEMBER_LIST: return "array";
    case CDZ_MEMBER_OBJECT: return "object";
    default: return NULL;
    }
}

static void put_member_type(const cdz_setting *row, cdz_buf *out)
{
    const char *type = type_of(row->member);
    if (row->member == CDZ_MEMBER_ANY) return;
    cdz_buf_puts(out, ", ");
    if (row->member == CDZ_MEMBER_TEXTS)
        cdz_buf_puts(out, texts_schema);
    else if (row->member == CDZ_MEMBER_IDS)
        cdz_buf_puts(out, ids_schema);
    else if (row->member == CDZ_MEMBER_PARAMETERS)
        cdz_buf_puts(out, "\"$ref\": \"#/$defs/generation\"");
    else if (row->or_null)
        cdz_buf_printf(out, "\"type\": [\"%s\", \"null\"]", type);
    else
        cdz_buf_printf(out, "\"type\": \"%s\"", type);
}

void cdz_settings_member_schema(cdz_buf *out)
{
    const cdz_setting *row;
    const char *comma = "";
    for (size_t i = 0; (row = cdz_setting_at(i)) != NULL; i++) {
        if (!row->member || row->member == CDZ_MEMBER_NOTE) continue;
        cdz_buf_printf(out, "%s\n    \"%s\": {", comma, row->name);
        put_description(row, out);
        put_member_type(row, out);
        cdz_buf_putc(out, '}');
        comma = ",";
    }
}

/* --- the page ---------------------------------------------------------------------------------------------------- */

/* A cell of a Markdown table: a bar in it would end it. */
static void put_cell(const char *text, cdz_buf *out)
{
    for (; *text; text++) {
        if (*text == '|' || *text == '<') cdz_buf_putc(out, '\\');
        cdz_buf_putc(out, *text);
    }
}

static void put_code(const char *before, const char *text, cdz_buf *out)
{
    if (text) cdz_buf_printf(out, "%s`%s`", before, text);
}

/* Every way to say it: "`--kv-cache`, `kv_cache` in `[model]`". */
static void put_ways(const cdz_setting *row, cdz_buf *out)
{
    const char *comma = "";
    if (row->flag.name) {
        cdz_buf_printf(out, "`--%s%s%s`", row->flag.name, row->flag.value ? " " : "",
                       row->flag.value ? row->flag.value : "");
        if (row->flag.letter) cdz_buf_printf(out, ", `-%c`", row->flag.letter);
        comma = ", ";
    }
    if (row->section) {
        cdz_buf_printf(out, "%s`%s` in `[%s]`", comma, row->name, row->section);
        comma = ", ";
    }
    if (row->env) {
        put_code(comma, row->env, out);
        comma = ", ";
    }
    if (row->member) {
        cdz_buf_printf(out, "%s`\"%s\"` of a request", comma, row->name);
        comma = ", ";
    }
    put_code(comma, row->field, out);
}

static void put_values(const cdz_setting *row, cdz_buf *out)
{
    const char *between = "`";
    if (!row->words && row->kind != CDZ_KIND_TEXT) cdz_setting_takes(row, out);
    for (const char *at = row->words; at && *at; between = " `") {
        const size_t n = strcspn(at, "|");
        cdz_buf_printf(out, "%s%.*s`", between, (int)n, at);
        at += n + (at[n] != '\0');
    }
}

/* Which columns a table has something for, beside the first three. */
typedef struct columns {
    bool values, otherwise, commands;
} columns;

static columns columns_of(const cdz_setting_table *table)
{
    columns has = {0};
    for (size_t i = 0; i < table->n; i++) {
        const cdz_setting *row = &table->rows[i];
        has.values |= row->kind && row->kind != CDZ_KIND_TEXT;
        has.otherwise |= row->otherwise != NULL;
        has.commands |= row->group != 0;
    }
    return has;
}

static void put_head(columns has, cdz_buf *out)
{
    cdz_buf_puts(out, "| setting | where it is said | what it is |");
    if (has.values) cdz_buf_puts(out, " values |");
    if (has.otherwise) cdz_buf_puts(out, " otherwise |");
    if (has.commands) cdz_buf_puts(out, " commands |");
    cdz_buf_puts(out, "\n|---|---|---|");
    for (int i = 0; i < has.values + has.otherwise + has.commands; i++) cdz_buf_puts(out, "---|");
    cdz_buf_putc(out, '\n');
}

static void put_row(const cdz_setting *row, columns has, cdz_setting_commands *commands,
                    cdz_buf *out)
{
    cdz_buf_printf(out, "| `%s` | ", row->name);
    put_ways(row, out);
    cdz_buf_puts(out, " | ");
    put_cell(row->flag.help, out);
    cdz_buf_puts(out, " |");
    if (has.values) {
        cdz_buf_putc(out, ' ');
        put_values(row, out);
        cdz_buf_puts(out, " |");
    }
    if (has.otherwise) cdz_buf_printf(out, " %s |", row->otherwise ? row->otherwise : "");
    if (has.commands) {
        cdz_buf_putc(out, ' ');
        if (row->group) commands(row, out);
        cdz_buf_puts(out, " |");
    }
    cdz_buf_putc(out, '\n');
}

void cdz_settings_page(cdz_setting_commands *commands, cdz_buf *out)
{
    cdz_buf_puts(
        out,
        "# Settings\n\n"
        "Every setting of the host, written by `tools/docs/plugin-pages.sh` from the table that the "
        "program itself uses;\n`cadenza explain --settings` prints this page. The command line wins "
        "over the pipeline file, and the file over the environment.\n`cadenza explain FILE` shows "
        "the values in use and where they came from. Parameters of generation are not here: "
        "`cadenza run\n--help all` has them, and [a page](../config.md) tells where they come from.\n");
    for (size_t t = 0; t < cdz_setting_tables_n; t++) {
        const cdz_setting_table *table = &cdz_setting_tables[t];
        const columns has = columns_of(table);
        cdz_buf_printf(out, "\n## %s\n\n", table->title ? table->title : "Output");
        put_head(has, out);
        for (size_t i = 0; i < table->n; i++)
            if (table->rows[i].member != CDZ_MEMBER_NOTE)
                put_row(&table->rows[i], has, commands, out);
    }
}
