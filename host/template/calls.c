/* calls.c - the calls of tools that stand in a part of an answer: as JSON, as Python, and in tags.
 *
 * All of them become a name and a JSON object. A value that stands in a tag is a text where the tool's schema says so, and
 * otherwise what it is as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "template/reply.h"

enum { MOST_DEPTH = 64, MOST_NAME = 256 };

typedef struct part {
    const char *at;
    size_t len;
} part;

typedef struct reading {
    const cdz_json *tools;
    cdz_arena *arena;
    cdz_tool_call *out;
    size_t n, most;
    bool only_known;
    bool failed; /* memory ran out: what was read means nothing */
} reading;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static part trimmed(part p)
{
    while (p.len && is_blank(*p.at)) p.at++, p.len--;
    while (p.len && is_blank(p.at[p.len - 1])) p.len--;
    return p;
}

static bool begins(part p, const char *with)
{
    const size_t n = strlen(with);
    return p.len >= n && memcmp(p.at, with, n) == 0;
}

static void skip(part *p, size_t n)
{
    p->at += n;
    p->len -= n;
}

/* What stands before a text; *rest is what stands behind. False: the text is not there. */
static bool cut(part p, const char *at, part *before, part *rest)
{
    const char *found = p.len ? memmem(p.at, p.len, at, strlen(at)) : NULL;
    if (!found) return false;
    const size_t n = (size_t)(found - p.at);
    *before = (part){p.at, n};
    *rest = (part){found + strlen(at), p.len - n - strlen(at)};
    return true;
}

/* --- tools ------------------------------------------------------------------------------------------------------------ */

const cdz_json *cdz_reply_tool(const cdz_json *tools, const char *name)
{
    for (uint32_t i = 0; cdz_json_is(tools, CDZ_JSON_ARRAY) && i < tools->len; i++) {
        const cdz_json *function = cdz_json_get(&tools->items[i], "function");
        if (!function) function = &tools->items[i];
        if (cdz_json_eq(cdz_json_get(function, "name"), name)) return function;
    }
    return NULL;
}

static const cdz_json *member(const cdz_json *object, const char *name)
{
    return object ? cdz_json_get(object, name) : NULL;
}

static bool is_text(const reading *r, const char *tool, const char *key)
{
    const cdz_json *schema =
        member(member(cdz_reply_tool(r->tools, tool), "parameters"), "properties");
    return cdz_json_eq(member(member(schema, key), "type"), "string");
}

/* A name has no blanks, quotes or brackets in it. */
static bool is_name(const char *name)
{
    return name && *name && strlen(name) <= MOST_NAME && !strpbrk(name, " \t\r\n\"'<>{}[]()");
}

static bool add(reading *r, const char *name, const char *arguments)
{
    if (!is_name(name) || !arguments || r->n == r->most) return false;
    if (r->only_known && !cdz_reply_tool(r->tools, name)) return false;
    r->out[r->n++] = (cdz_tool_call){.name = name, .arguments = arguments};
    return true;
}

static const char *keep(reading *r, part p)
{
    p = trimmed(p);
    if (memchr(p.at, '\0', p.len)) return NULL;
    const char *out = cdz_arena_strndup(r->arena, p.at, p.len);
    r->failed |= !out;
    return out;
}

static const char *keep_buf(reading *r, cdz_buf *text)
{
    const char *out =
        text->failed || !text->data ? NULL : cdz_arena_strndup(r->arena, text->data, text->len);
    r->failed |= !out;
    cdz_buf_free(text);
    return out;
}

/* --- JSON --------------------------------------------------------------------------------------------------------------- */

/* Bytes of the object or list that a text begins with; 0: it has no end. */
static size_t json_end(part p)
{
    size_t depth = 0;
    bool string = false;
    for (size_t i = 0; i < p.len; i++) {
        const char c = p.at[i];
        if (string) {
            if (c == '\\') i++;
            string = c != '"';
        } else if (c == '"') {
            string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && (depth == 0 || --depth == 0)) {
            return i + 1;
        }
    }
    return 0;
}

static bool read_json(reading *r, part p, cdz_json *out)
{
    static const cdz_json_limits limits = {
        .depth = MOST_DEPTH, .nodes = 1 << 20, .duplicates = true};
    const char *text = cdz_arena_strndup(r->arena, p.at, p.len);
    const cdz_status status =
        text ? cdz_json_parse(text, p.len, "call", &limits, r->arena, out, NULL) : CDZ_E_NOMEM;
    r->failed |= status == CDZ_E_NOMEM;
    return status == CDZ_OK;
}

/* An object as JSON; it may come as a text that holds it, or be absent. */
static const char *write_arguments(reading *r, const cdz_json *value)
{
    cdz_json inner;
    cdz_buf text = {0};
    if (!value || value->type == CDZ_JSON_NULL) return "{}";
    if (value->type == CDZ_JSON_STRING) {
        if (!read_json(r, (part){value->string, value->len}, &inner)) return NULL;
        value = &inner;
    }
    if (value->type != CDZ_JSON_OBJECT) return NULL;
    cdz_json_write(&text, value);
    return keep_buf(r, &text);
}

static const cdz_json *first_of(const cdz_json *object, const char *const *names, size_t n)
{
    const cdz_json *found = NULL;
    for (size_t i = 0; i < n && !found; i++) found = cdz_json_get(object, names[i]);
    return found;
}

static bool add_object(reading *r, const cdz_json *object)
{
    static const char *const names[] = {"name", "tool_name", "function"};
    static const char *const arguments[] = {"arguments", "parameters", "args"};
    if (object->type != CDZ_JSON_OBJECT) return false;
    const cdz_json *name = first_of(object, names, 3);
    if (cdz_json_is(name, CDZ_JSON_OBJECT)) {
        object = name;
        name = cdz_json_get(object, "name");
    }
    return cdz_json_is(name, CDZ_JSON_STRING) && strlen(name->string) == name->len &&
           add(r, name->string, write_arguments(r, first_of(object, arguments, 3)));
}

/* Objects, and lists of them, with nothing but ; and , between. */
static bool read_values(reading *r, part p)
{
    static const char fence[] = "```", json[] = "```json";
    p = trimmed(p);
    if (begins(p, json)) skip(&p, sizeof json - 1);
    if (p.len >= 3 && memcmp(p.at + p.len - 3, fence, 3) == 0) p.len -= 3;
    for (p = trimmed(p); p.len; p = trimmed(p)) {
        cdz_json value;
        const size_t n = *p.at == '{' || *p.at == '[' ? json_end(p) : 0;
        if (!n || !read_json(r, (part){p.at, n}, &value)) return false;
        if (value.type == CDZ_JSON_OBJECT && !add_object(r, &value)) return false;
        for (uint32_t i = 0; value.type == CDZ_JSON_ARRAY && i < value.len; i++)
            if (!add_object(r, &value.items[i])) return false;
        skip(&p, n);
        p = trimmed(p);
        if (p.len && (*p.at == ';' || *p.at == ',')) skip(&p, 1);
    }
    return true;
}

/* An object of arguments, which all of the text is. */
static bool add_named(reading *r, part name, part arguments)
{
    cdz_json value;
    arguments = trimmed(arguments);
    if (!arguments.len) return add(r, keep(r, name), "{}");
    return read_json(r, arguments, &value) && add(r, keep(r, name), write_arguments(r, &value));
}

/* name[ARGS]{...}, or a list of objects. */
static bool read_mistral(reading *r, part p)
{
    part name, rest, id;
    p = trimmed(p);
    if (p.len && (*p.at == '[' || *p.at == '{')) return read_values(r, p);
    if (!cut(p, "[ARGS]", &name, &rest)) {
        if (!p.len || !memchr(p.at, '{', p.len)) return false;
        name = (part){p.at, (size_t)((const char *)memchr(p.at, '{', p.len) - p.at)};
        rest = (part){p.at + name.len, p.len - name.len};
    }
    cut(name, "[CALL_ID]", &name, &id);
    return add_named(r, name, rest);
}

/* function<sep>name, a line end, and JSON in a fence; or name<sep>JSON. */
static bool read_deepseek(reading *r, part p)
{
    part name, rest, line;
    if (!cut(p, "<｜tool▁sep｜>", &name, &rest)) return false;
    name = trimmed(name);
    if (name.len == 8 && begins(name, "function") && cut(rest, "\n", &line, &rest)) name = line;
    rest = trimmed(rest);
    if (begins(rest, "```json")) {
        skip(&rest, 7);
        cut(rest, "```", &rest, &line);
    }
    return add_named(r, name, rest);
}

/* functions.name:0<|tool_call_argument_begin|>JSON */
static bool read_kimi(reading *r, part p)
{
    part name, rest, number;
    if (!cut(p, "<|tool_call_argument_begin|>", &name, &rest)) return false;
    name = trimmed(name);
    if (begins(name, "functions.")) skip(&name, 10);
    cut(name, ":", &name, &number);
    return add_named(r, name, rest);
}

/* --- tags ----------------------------------------------------------------------------------------------------------------- */

/* "key": value, where a value that is JSON is that, unless the tool wants a text. False: the key is none. */
static bool put_value(reading *r, const char *tool, part key, part value, cdz_buf *out)
{
    cdz_json json;
    const char *name = keep(r, key);
    if (!name) return false;
    cdz_buf_puts(out, out->len > 1 ? ", " : "");
    cdz_json_write_string(out, name, strlen(name));
    cdz_buf_puts(out, ": ");
    const part inner = trimmed(value);
    if (!is_text(r, tool, name) && inner.len && read_json(r, inner, &json)) {
        cdz_json_write(out, &json);
        return true;
    }
    if (value.len && *value.at == '\n')
        skip(&value, 1); /* a line end beside the tag is the tag's */
    if (value.len && value.at[value.len - 1] == '\n') value.len--;
    cdz_json_write_string(out, value.at, value.len);
    return true;
}

/* Values between tags: before the key, behind it, before the value (NULL: that is all), behind the value. */
typedef struct tags {
    const char *open, *opened, *value, *close;
} tags;

static bool add_tagged(reading *r, part name, part p, const tags *t)
{
    const char *tool = keep(r, name);
    cdz_buf text = {0};
    bool good = tool != NULL;
    cdz_buf_putc(&text, '{');
    for (p = trimmed(p); good && p.len; p = trimmed(p)) {
        part key, value, between;
        good = begins(p, t->open);
        if (good) skip(&p, strlen(t->open));
        good = good && cut(p, t->opened, &key, &p) &&
               (!t->value || cut(p, t->value, &between, &p)) && cut(p, t->close, &value, &p);
        good = good && put_value(r, tool, key, value, &text);
    }
    cdz_buf_putc(&text, '}');
    const char *arguments = keep_buf(r, &text);
    return good && add(r, tool, arguments);
}

/* name>, and either JSON or <parameter=key>value</parameter>. */
static bool read_function(reading *r, part p)
{
    static const tags parameter = {"<parameter=", ">", NULL, "</parameter>"};
    part name, rest;
    if (!cut(p, ">", &name, &rest)) return false;
    rest = trimmed(rest);
    if (rest.len && *rest.at == '{') return add_named(r, name, rest);
    return add_tagged(r, name, rest, &parameter);
}

static bool read_functions(reading *r, part p)
{
    for (p = trimmed(p); p.len; p = trimmed(p)) {
        part one;
        if (!begins(p, "<function=")) return false;
        skip(&p, 10);
        if (!cut(p, "</function>", &one, &p)) {
            one = p;
            p.len = 0;
        }
        if (!read_function(r, one)) return false;
    }
    return true;
}

static bool read_invokes(reading *r, part p)
{
    static const tags parameter = {"<parameter name=\"", "\">", NULL, "</parameter>"};
    for (p = trimmed(p); p.len; p = trimmed(p)) {
        part one, name;
        if (!begins(p, "<invoke name=\"")) return false;
        skip(&p, 14);
        if (!cut(p, "</invoke>", &one, &p) || !cut(one, "\">", &name, &one)) return false;
        if (!add_tagged(r, name, one, &parameter)) return false;
    }
    return true;
}

static bool read_sniffed(reading *r, part p)
{
    static const tags argument = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
    p = trimmed(p);
    if (begins(p, "<function=")) return read_functions(r, p);
    if (!p.len || *p.at == '{' || *p.at == '[') return read_values(r, p);
    const char *key = memmem(p.at, p.len, argument.open, strlen(argument.open));
    const size_t n = key ? (size_t)(key - p.at) : p.len;
    if (memchr(p.at, '<', n) || memchr(p.at, '{', n)) return false;
    return add_tagged(r, (part){p.at, n}, (part){p.at + n, p.len - n}, &argument);
}

/* --- Python ----------------------------------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

static bool take_char(part *p, char c)
{
    *p = trimmed(*p);
    if (!p->len || *p->at != c) return false;
    skip(p, 1);
    return true;
}

static part take_word(part *p)
{
    *p = trimmed(*p);
    part word = {p->at, 0};
    while (word.len < p->len && is_letter(p->at[word.len])) word.len++;
    skip(p, word.len);
    return word;
}

/* A string in either quotes. */
static bool put_string(part *p, cdz_buf *out)
{
    static const char escapes[] = "n\nt\tr\rb\bf\f";
    cdz_buf text = {0};
    const char quote = *p->at;
    skip(p, 1);
    while (p->len && *p->at != quote) {
        char c = *p->at;
        if (c == '\\' && p->len > 1) {
            skip(p, 1);
            c = *p->at;
            for (size_t i = 0; i + 1 < sizeof escapes - 1; i += 2)
                if (escapes[i] == *p->at) c = escapes[i + 1];
        }
        cdz_buf_putc(&text, c);
        skip(p, 1);
    }
    out->failed |= text.failed;
    cdz_json_write_string(out, text.data ? text.data : "", text.len);
    cdz_buf_free(&text);
    return take_char(p, quote);
}

static bool put_python(reading *r, part *p, unsigned depth, cdz_buf *out);

/* Items up to `close`; a dictionary's have keys. */
static bool put_items(reading *r, part *p, char close, unsigned depth, cdz_buf *out)
{
    const bool keys = close == '}';
    bool first = true;
    cdz_buf_putc(out, keys ? '{' : '[');
    while (!take_char(p, close)) {
        if (!first && !take_char(p, ',')) return false;
        if (!first && take_char(p, close)) break;
        cdz_buf_puts(out, first ? "" : ", ");
        first = false;
        *p = trimmed(*p);
        if (keys && (!p->len || (*p->at != '"' && *p->at != '\'') || !put_string(p, out) ||
                     !take_char(p, ':')))
            return false;
        if (keys) cdz_buf_puts(out, ": ");
        if (!put_python(r, p, depth + 1, out)) return false;
    }
    cdz_buf_putc(out, keys ? '}' : ']');
    return true;
}

/* True, False, None, JSON's own names, and numbers. */
static bool put_word(reading *r, part *p, cdz_buf *out)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    cdz_json number;
    part word = {p->at, 0};
    while (word.len < p->len && (is_letter(p->at[word.len]) || cdz_byte_in(p->at[word.len], "+-")))
        word.len++;
    if (!word.len) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (word.len != strlen(words[i][0]) || !begins(word, words[i][0])) continue;
        cdz_buf_puts(out, words[i][1]);
        skip(p, word.len);
        return true;
    }
    if (!read_json(r, word, &number)) return false;
    cdz_json_write(out, &number);
    skip(p, word.len);
    return true;
}

static bool put_python(reading *r, part *p, unsigned depth, cdz_buf *out)
{
    *p = trimmed(*p);
    if (!p->len || depth > MOST_DEPTH) return false;
    switch (*p->at) {
    case '"':
    case '\'': return put_string(p, out);
    case '[': skip(p, 1); return put_items(r, p, ']', depth, out);
    case '(': skip(p, 1); return put_items(r, p, ')', depth, out);
    case '{': skip(p, 1); return put_items(r, p, '}', depth, out);
    default: return put_word(r, p, out);
    }
}

/* name(key=value, ...) */
static bool read_python_call(reading *r, part *p)
{
    cdz_buf text = {0};
    const part name = take_word(p);
    bool good = name.len && take_char(p, '(');
    cdz_buf_putc(&text, '{');
    while (good && !take_char(p, ')')) {
        if (text.len > 1) good = take_char(p, ',');
        const part key = take_word(p);
        cdz_buf_puts(&text, text.len > 1 ? ", " : "");
        cdz_json_write_string(&text, key.at, key.len);
        cdz_buf_puts(&text, ": ");
        good = good && key.len && take_char(p, '=') && put_python(r, p, 0, &text);
    }
    cdz_buf_putc(&text, '}');
    const char *arguments = keep_buf(r, &text);
    return good && add(r, keep(r, name), arguments);
}

static bool read_python(reading *r, part p)
{
    p = trimmed(p);
    const bool list = take_char(&p, '[');
    do {
        if (!read_python_call(r, &p)) return false;
    } while (take_char(&p, ','));
    if (list && !take_char(&p, ']')) return false;
    return !trimmed(p).len;
}

typedef bool reads(reading *r, part p);

/* --- all of them -------------------------------------------------------------------------------------------------------- */

size_t cdz_calls_read(cdz_call_body kind, const char *body, size_t len, const cdz_json *tools,
                      bool only_known, cdz_arena *arena, cdz_tool_call *out, size_t most,
                      bool *failed)
{
    static reads *const readers[] = {
        [CDZ_CALL_SNIFF] = read_sniffed,     [CDZ_CALL_JSON] = read_values,
        [CDZ_CALL_MISTRAL] = read_mistral,   [CDZ_CALL_PYTHON] = read_python,
        [CDZ_CALL_FUNCTION] = read_function, [CDZ_CALL_DEEPSEEK] = read_deepseek,
        [CDZ_CALL_KIMI] = read_kimi,         [CDZ_CALL_INVOKE] = read_invokes,
    };
    reading r = {.tools = tools, .arena = arena, .out = out, .most = most, .only_known = only_known};
    const bool calls = readers[kind](&r, (part){body, len});
    *failed |= r.failed;
    return calls && !r.failed ? r.n : 0;
}
