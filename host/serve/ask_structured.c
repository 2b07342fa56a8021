/* ask_structured.c - the fields that ask for an answer of a certain form: OpenAI's response_format, vLLM's structured_outputs
 * and its older guided_*, llama.cpp's grammar and json_schema. All of them are one generation parameter; what is wrong
 * with a schema or a pattern is said when it is compiled, before the engine hears of the request. */
#include <stdio.h>
#include <string.h>

#include "serve/ask.h"

/* What a field asks for, as the generation parameter `name`. */
typedef struct asked {
    const char *field, *name;
    const cdz_json *value;
} asked;

static bool is_text_list(const cdz_json *value)
{
    if (value->type != CDZ_JSON_ARRAY || !value->len) return false;
    for (uint32_t i = 0; i < value->len; i++)
        if (value->items[i].type != CDZ_JSON_STRING) return false;
    return true;
}

/* A schema is an object, or its text; so are structural tags. */
static bool fits(const char *name, const cdz_json *value, const char **expected)
{
    if (strcmp(name, "json_object") == 0) {
        *expected = "true";
        return value->type == CDZ_JSON_BOOL && value->boolean;
    }
    if (strcmp(name, "choice") == 0) {
        *expected = "a list of at least one text and nothing else";
        return is_text_list(value);
    }
    const bool tags = strcmp(name, "structural_tag") == 0;
    const bool object = tags || strcmp(name, "json_schema") == 0;
    *expected = tags ? "an object, or the text of one" : object ? "a JSON Schema" : "a string";
    return value->type == CDZ_JSON_STRING || (object && value->type == CDZ_JSON_OBJECT);
}

static bool take(cdz_asking *a, const asked *one)
{
    const char *expected;
    cdz_buf text = {0};
    if (a->structured && strcmp(a->structured, one->field) != 0)
        return cdz_serve_fault_set(a->fault, 400, one->field, NULL,
                                   "'%s' and '%s' both say what the answer may be; give one",
                                   a->structured, one->field);
    if (!fits(one->name, one->value, &expected))
        return cdz_ask_wrong(a->fault, one->field, expected, one->value);
    a->structured = one->field;
    cdz_json_write(&text, one->value);
    const bool good = !text.failed && cdz_ask_set(a, one->name, text.data);
    cdz_buf_free(&text);
    return good;
}

static bool take_true(cdz_asking *a, const char *field)
{
    static const cdz_json yes = {.type = CDZ_JSON_BOOL, .boolean = true};
    return take(a, &(asked){field, "json_object", &yes});
}

/* {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}; llama.cpp's and a response's may have "schema" beside
 * "type". */
static bool take_format(cdz_asking *a)
{
    const char *const field = a->respond ? "text.format" : "response_format";
    const cdz_json *format = cdz_ask_field(&a->body, "response_format");
    if (!format) return true;
    if (format->type != CDZ_JSON_OBJECT) return cdz_ask_wrong(a->fault, field, "an object", format);
    const cdz_json *type = cdz_json_get(format, "type"), *schema = cdz_ask_field(format, "schema");
    if (!cdz_json_is(type, CDZ_JSON_STRING))
        return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s' needs a \"type\"", field);
    if (cdz_json_eq(type, "text")) return true;
    if (cdz_json_eq(type, "json_object") && !schema) return take_true(a, field);
    if (cdz_json_eq(type, "structural_tag"))
        return take(a, &(asked){field, "structural_tag", format});
    const cdz_json *inner = cdz_ask_field(format, "json_schema");
    if (inner && inner->type != CDZ_JSON_OBJECT)
        return cdz_ask_wrong(a->fault, field, "an object", inner);
    if (inner) schema = cdz_ask_field(inner, "schema");
    if (!cdz_json_eq(type, "json_schema") && !cdz_json_eq(type, "json_object"))
        return cdz_serve_fault_set(a->fault, 400, field, NULL,
                                   "'%s' of type \"%.40s\" is not known: it has text, json_object, "
                                   "json_schema and structural_tag",
                                   field, type->string);
    if (schema) return take(a, &(asked){field, "json_schema", schema});
    return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s' of type json_schema needs %sschema",
                               field, a->respond ? "" : "json_schema.");
}

/* Exactly one of its fields. */
static bool take_outputs(cdz_asking *a)
{
    static const char field[] = "structured_outputs";
    static const char *const pairs[][2] = {
        {"json", "json_schema"},        {"regex", "regex"},
        {"choice", "choice"},           {"grammar", "grammar"},
        {"json_object", "json_object"}, {"structural_tag", "structural_tag"}};
    enum { N = sizeof pairs / sizeof *pairs };
    const cdz_json *outputs = cdz_ask_field(&a->body, field);
    asked one = {0};
    if (!outputs) return true;
    if (outputs->type != CDZ_JSON_OBJECT)
        return cdz_ask_wrong(a->fault, field, "an object", outputs);
    for (uint32_t i = 0; i < outputs->len; i++) {
        const cdz_json_member *m = &outputs->members[i];
        size_t k = 0;
        while (k < N && strcmp(pairs[k][0], m->key) != 0) k++;
        if (m->value.type == CDZ_JSON_NULL || (m->value.type == CDZ_JSON_BOOL && !m->value.boolean))
            continue;
        if (k == N)
            return cdz_serve_fault_set(a->fault, 400, field, NULL,
                                       "'%s' has json, regex, choice, grammar, json_object and "
                                       "structural_tag, not \"%.60s\"",
                                       field, m->key);
        if (one.value)
            return cdz_serve_fault_set(a->fault, 400, field, NULL,
                                       "'%s' must hold one constraint, found several", field);
        one = (asked){field, pairs[k][1], &m->value};
    }
    if (one.value) return take(a, &one);
    return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s' holds no constraint", field);
}

/* What llama.cpp's clients send when they ask for nothing. */
static bool asks_nothing(const char *field, const cdz_json *value)
{
    const bool empty =
        (value->type == CDZ_JSON_STRING || value->type == CDZ_JSON_OBJECT) && !value->len;
    return empty && strncmp(field, "guided_", 7) != 0;
}

bool cdz_ask_structured(cdz_asking *a)
{
    static const char *const pairs[][2] = {
        {"guided_json", "json_schema"}, {"guided_regex", "regex"}, {"guided_choice", "choice"},
        {"guided_grammar", "grammar"},  {"grammar", "grammar"},    {"json_schema", "json_schema"}};
    if (!take_format(a) || !take_outputs(a)) return false;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const cdz_json *value = cdz_ask_field(&a->body, pairs[i][0]);
        if (!value || asks_nothing(pairs[i][0], value)) continue;
        if (!take(a, &(asked){pairs[i][0], pairs[i][1], value})) return false;
    }
    return true;
}

const char *cdz_ask_blamed(const cdz_asking *a, const cdz_error *err)
{
    static const char *const names[] = {"json_schema", "regex",       "grammar",
                                        "choice",      "json_object", "structural_tag"};
    static const char said[] = "request: ", made[] = "grammar: ";
    const char *text = err->text, *sampler = cdz_ask_blamed_own(a, text);
    if (sampler) return sampler;
    if (!a->structured ||
        (strncmp(text, said, sizeof said - 1) != 0 && strncmp(text, made, sizeof made - 1) != 0))
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        const char *name = text + sizeof said - 1; /* both are as long */
        if (strncmp(name, names[i], n) == 0 && name[n] == ':') return a->structured;
    }
    return NULL;
}

/* --- calls of tools ------------------------------------------------------------------------------------- */

static void write_reference(cdz_buf *out, const char *place, const cdz_json *ref)
{
    cdz_buf text = {0};
    cdz_buf_puts(&text, place);
    cdz_buf_add(&text, ref->string + 1, ref->len - 1);
    if (text.failed) out->failed = true;
    if (!text.failed) cdz_json_write_string(out, text.data, text.len);
    cdz_buf_free(&text);
}

/* The schema as JSON, its references within the document led to where it now stands. Nothing here is deeper than the reader
 * of the body allows. */
static void write_moved(cdz_buf *out, const cdz_json *value, const char *place)
{
    if (value->type == CDZ_JSON_ARRAY) {
        cdz_buf_putc(out, '[');
        for (uint32_t i = 0; i < value->len; i++) {
            cdz_buf_puts(out, i ? ", " : "");
            write_moved(out, &value->items[i], place);
        }
        cdz_buf_putc(out, ']');
        return;
    }
    if (value->type != CDZ_JSON_OBJECT) {
        cdz_json_write(out, value);
        return;
    }
    cdz_buf_putc(out, '{');
    for (uint32_t i = 0; i < value->len; i++) {
        const cdz_json_member *m = &value->members[i];
        cdz_buf_puts(out, i ? ", " : "");
        cdz_json_write_string(out, m->key, m->key_len);
        cdz_buf_puts(out, ": ");
        const bool ref = strcmp(m->key, "$ref") == 0 && m->value.type == CDZ_JSON_STRING &&
                         m->value.string[0] == '#';
        if (ref)
            write_reference(out, place, &m->value);
        else
            write_moved(out, &m->value, place);
    }
    cdz_buf_putc(out, '}');
}

static bool is_strict(const cdz_json *function)
{
    const cdz_json *strict = cdz_ask_field(function, "strict");
    return cdz_json_is(strict, CDZ_JSON_BOOL) && strict->boolean;
}

/* strict_only: the arguments of a tool that is not strict are any object. */
static void write_call(cdz_buf *out, const cdz_json *function, bool strict_only, uint32_t n)
{
    static const cdz_json any = {.type = CDZ_JSON_OBJECT};
    char place[80];
    const cdz_json *name = cdz_json_get(function, "name");
    const cdz_json *parameters = cdz_ask_field(function, "parameters");
    if (strict_only && !is_strict(function)) parameters = NULL;
    (void)snprintf(place, sizeof place, "#/anyOf/%u/properties/arguments", n);
    cdz_buf_printf(
        out, "%s{\"type\": \"object\", \"properties\": {\"name\": {\"const\": ", n ? ", " : "");
    cdz_json_write(out, name);
    cdz_buf_puts(out, "}, \"arguments\": ");
    if (strict_only && !parameters)
        cdz_buf_puts(out, "{\"type\": \"object\"}");
    else
        write_moved(out, parameters ? parameters : &any, place);
    cdz_buf_puts(out, "}, \"required\": [\"name\", \"arguments\"], "
                      "\"additionalProperties\": false}");
}

bool cdz_ask_one_call(cdz_asking *a, const char *name)
{
    cdz_buf text = {0};
    uint32_t n = 0;
    /* Blanks between tokens are of no use to anybody, and some models write them for ever. */
    cdz_buf_puts(&text, "{\"x-guidance\": {\"whitespace_flexible\": false}, \"anyOf\": [");
    for (uint32_t i = 0; i < a->tools->len; i++) {
        const cdz_json *function = cdz_ask_field(&a->tools->items[i], "function");
        if (name && !cdz_json_eq(cdz_json_get(function, "name"), name)) continue;
        write_call(&text, function, false, n++);
    }
    cdz_buf_puts(&text, "]}");
    const char *kept = text.failed ? NULL : cdz_arena_strndup(&a->arena, text.data, text.len);
    const cdz_json schema = {.type = CDZ_JSON_STRING, .string = kept, .len = (uint32_t)text.len};
    cdz_buf_free(&text);
    if (!kept)
        return cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory for the request");
    return take(a, &(asked){"tool_choice", "json_schema", &schema});
}

static bool some_strict(const cdz_json *tools)
{
    for (uint32_t i = 0; i < tools->len; i++)
        if (is_strict(cdz_ask_field(&tools->items[i], "function"))) return true;
    return false;
}

/* Where the markers are tokens that no text has, they are named as tokens too. */
bool cdz_ask_strict_calls(cdz_asking *a)
{
    cdz_buf text = {0};
    if (!some_strict(a->tools)) return true;
    cdz_buf_printf(&text,
                   "start: %s\nTEXT: ~/(?s:.)*<tool_call>(?s:.)*/\nSPACE: /[ \\n]{0,4}/\n"
                   "open: \"<tool_call>\"%s\nclose: \"</tool_call>\"%s\n"
                   "call: open SPACE %%json {\"anyOf\": [",
                   a->one_call ? "TEXT (call SPACE)?" : "(TEXT call)* TEXT",
                   a->special ? " | <tool_call>" : "", a->special ? " | </tool_call>" : "");
    for (uint32_t i = 0; i < a->tools->len; i++)
        write_call(&text, cdz_ask_field(&a->tools->items[i], "function"), true, i);
    cdz_buf_puts(&text, "]} SPACE close\n");
    const char *kept = text.failed ? NULL : cdz_arena_strndup(&a->arena, text.data, text.len);
    const cdz_json lark = {.type = CDZ_JSON_STRING, .string = kept, .len = (uint32_t)text.len};
    cdz_buf_free(&text);
    if (!kept)
        return cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory for the request");
    return take(a, &(asked){"tools", "grammar", &lark});
}
