/* ask_tags.c - structural tags: free text in which a trigger begins a tag, and a tag holds what fits its schema. They become a
 * Lark grammar. Both forms are read that vLLM's clients send: {"structures", "triggers"}, and {"format": {"type":
 * "triggered_tags"}}. */
#include <string.h>

#include "serve/ask.h"

enum { MOST_TAGS = 512 };

typedef struct tag_form {
    const cdz_json *tags, *triggers;
    bool nested; /* a tag's schema is in its "content" */
} tag_form;

static bool bad(cdz_asking *a, const char *field, const char *why)
{
    return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s': structural_tag: %s", field, why);
}

static bool is_list(const cdz_json *value)
{
    return cdz_json_is(value, CDZ_JSON_ARRAY) && value->len && value->len <= MOST_TAGS;
}

/* False: neither form. */
static bool find_form(const cdz_json *value, tag_form *out)
{
    const cdz_json *format = cdz_ask_field(value, "format");
    *out = (tag_form){.tags = cdz_ask_field(value, "structures"),
                      .triggers = cdz_ask_field(value, "triggers")};
    if (format && cdz_json_eq(cdz_json_get(format, "type"), "triggered_tags"))
        *out = (tag_form){cdz_ask_field(format, "tags"), cdz_ask_field(format, "triggers"), true};
    return is_list(out->tags) && is_list(out->triggers);
}

/* What other than letters and digits might mean something: by its number. */
static void put_escaped(cdz_buf *out, const cdz_json *text)
{
    for (uint32_t i = 0; i < text->len; i++) {
        const unsigned char c = (unsigned char)text->string[i];
        const bool letter = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        if (letter || c >= 128)
            cdz_buf_putc(out, (char)c);
        else
            cdz_buf_printf(out, "\\x%02x", c);
    }
}

static bool put_text(cdz_asking *a, const char *field, const tag_form *form, cdz_buf *out)
{
    cdz_buf_puts(out, "start: (TEXT tag)* TEXT\nTEXT: ~/(?s:.)*(?:");
    for (uint32_t i = 0; i < form->triggers->len; i++) {
        const cdz_json *trigger = &form->triggers->items[i];
        if (trigger->type != CDZ_JSON_STRING || !trigger->len)
            return bad(a, field, "a trigger must be a text, and not empty");
        cdz_buf_puts(out, i ? "|" : "");
        put_escaped(out, trigger);
    }
    cdz_buf_puts(out, ")(?s:.)*/\n");
    return true;
}

static bool is_triggered(const tag_form *form, const cdz_json *begin)
{
    for (uint32_t i = 0; i < form->triggers->len; i++) {
        const cdz_json *t = &form->triggers->items[i];
        if (begin->len >= t->len && memcmp(begin->string, t->string, t->len) == 0) return true;
    }
    return false;
}

static bool put_tag(cdz_asking *a, const char *field, const tag_form *form, uint32_t i, cdz_buf *out)
{
    const cdz_json *tag = &form->tags->items[i];
    const cdz_json *begin = cdz_json_get(tag, "begin"), *end = cdz_json_get(tag, "end");
    const cdz_json *content = form->nested ? cdz_json_get(tag, "content") : NULL;
    const cdz_json *schema = cdz_json_get(tag, "schema");
    if (content && !cdz_json_eq(cdz_json_get(content, "type"), "json_schema"))
        return bad(a, field, "the content of a tag must be of type json_schema");
    if (content) schema = cdz_json_get(content, "json_schema");
    if (!cdz_json_is(begin, CDZ_JSON_STRING) || !cdz_json_is(end, CDZ_JSON_STRING) ||
        !cdz_json_is(schema, CDZ_JSON_OBJECT))
        return bad(a, field,
                   "a tag needs the texts begin and end, and a schema, which is an object");
    if (!is_triggered(form, begin)) return bad(a, field, "a tag's begin must begin with a trigger");
    cdz_buf_printf(out, "tag%u: \"", i);
    put_escaped(out, begin);
    cdz_buf_puts(out, "\" %json ");
    cdz_json_write(out, schema);
    cdz_buf_puts(out, " \"");
    put_escaped(out, end);
    cdz_buf_puts(out, "\"\n");
    return true;
}

bool cdz_ask_tags(cdz_asking *a, const char *field, const cdz_json *value, cdz_buf *out)
{
    tag_form form;
    if (!find_form(value, &form))
        return bad(
            a, field,
            "expected {\"structures\": [{\"begin\", \"schema\", \"end\"}], \"triggers\": [\"...\"]}, "
            "or a \"format\" of type triggered_tags; at most 512 of each");
    const cdz_json *format = cdz_ask_field(value, "format");
    static const char *const more[] = {"at_least_one", "stop_after_first"};
    for (size_t i = 0; format && i < 2; i++) {
        const cdz_json *flag = cdz_ask_field(format, more[i]);
        if (flag && !cdz_ask_is_json(flag, "false"))
            return bad(a, field, "at_least_one and stop_after_first must be false");
    }
    if (!put_text(a, field, &form, out)) return false;
    for (uint32_t i = 0; i < form.tags->len; i++)
        if (!put_tag(a, field, &form, i, out)) return false;
    for (uint32_t i = 0; i < form.tags->len; i++)
        cdz_buf_printf(out, i ? " | tag%u" : "tag: tag%u", i);
    cdz_buf_putc(out, '\n');
    return true;
}
