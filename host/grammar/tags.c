/* tags.c - structural tags: free text in which a trigger begins a tag, and a tag holds what fits its schema. Both forms are
 * read that clients of other servers send: {"structures", "triggers"}, and {"format": {"type": "triggered_tags"}}. */
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "grammar/expression.h"
#include "grammar/schema.h"
#include "grammar/states.h"

enum {
    MOST_TAGS = 512,    /* and triggers */
    DEPTH_OF_A_TAG = 8, /* of its schema, in the document */
};

typedef struct tag_work {
    cdz_net *net;
    const cdz_tokenizer *tokenizer;
    cdz_arena *arena;
    const cdz_json *tags, *triggers;
    bool nested; /* a tag's schema is in its "content" */
    cdz_error *err;
} tag_work;

static cdz_status wrong(const tag_work *w, const cdz_json *at, const char *what, const char *text)
{
    return cdz_err(w->err, CDZ_E_INPUT, "tags:%u:%u: %.60s: %s", at->line, at->column, what, text);
}

/* --- the document ---------------------------------------------------------------------------------------- */

/* A member that is there and not null. */
static const cdz_json *member(const cdz_json *object, const char *name)
{
    const cdz_json *v = cdz_json_get(object, name);
    return v && v->type != CDZ_JSON_NULL ? v : NULL;
}

/* names: what may stand in an object, with NULL at the end. */
static cdz_status known(const tag_work *w, const cdz_json *object, const char *const *names,
                        const char *expected)
{
    if (object->type != CDZ_JSON_OBJECT) return wrong(w, object, "expected an object", expected);
    for (uint32_t i = 0; i < object->len; i++) {
        const cdz_json_member *m = &object->members[i];
        if (m->value.type != CDZ_JSON_NULL && !cdz_is_one_of(m->key, names))
            return wrong(w, &m->value, m->key, expected);
    }
    return CDZ_OK;
}

static cdz_status list_of(const tag_work *w, const cdz_json *object, const char *name,
                          const cdz_json **out)
{
    *out = member(object, name);
    if (!cdz_json_is(*out, CDZ_JSON_ARRAY) || !(*out)->len)
        return wrong(w, *out ? *out : object, name, "expected a list that is not empty");
    if ((*out)->len > MOST_TAGS) return wrong(w, *out, name, "more than 512 entries");
    return CDZ_OK;
}

static cdz_status read_format(tag_work *w, const cdz_json *format)
{
    static const char *const names[] = {
        "type", "tags", "triggers", "at_least_one", "stop_after_first", NULL};
    CDZ_TRY(known(w, format, names,
                  "a format has type, tags, triggers, at_least_one and stop_after_first"));
    if (!cdz_json_eq(cdz_json_get(format, "type"), "triggered_tags"))
        return wrong(w, format, "format", "expected one of type triggered_tags");
    for (size_t i = 3; names[i]; i++) {
        const cdz_json *flag = member(format, names[i]);
        if (flag && (flag->type != CDZ_JSON_BOOL || flag->boolean))
            return wrong(w, flag, names[i], "it must be false");
    }
    w->nested = true;
    CDZ_TRY(list_of(w, format, "tags", &w->tags));
    return list_of(w, format, "triggers", &w->triggers);
}

static cdz_status read_document(tag_work *w, const cdz_json *root)
{
    static const char expected[] =
        "expected {\"structures\": [{\"begin\", \"schema\", \"end\"}], \"triggers\": [\"...\"]}, or a "
        "\"format\" of type triggered_tags";
    static const char *const flat[] = {"type", "structures", "triggers", NULL}, *const format[] = {
                                                                                    "type",
                                                                                    "format", NULL};
    const cdz_json *inner = member(root, "format");
    CDZ_TRY(known(w, root, inner ? format : flat, expected));
    if (inner) return read_format(w, inner);
    CDZ_TRY(list_of(w, root, "structures", &w->tags));
    return list_of(w, root, "triggers", &w->triggers);
}

/* A tag's texts and schema. */
static cdz_status read_tag(const tag_work *w, const cdz_json *tag, const cdz_json **begin,
                           const cdz_json **schema, const cdz_json **end)
{
    static const char *const flat[] = {"begin", "schema", "end", NULL},
                             *const deep[] = {"type", "begin", "content", "end", NULL},
                             *const inside[] = {"type", "json_schema", NULL};
    CDZ_TRY(known(w, tag, w->nested ? deep : flat,
                  w->nested ? "a tag has begin, content and end"
                            : "a structure has begin, schema and end"));
    const cdz_json *content = w->nested ? member(tag, "content") : NULL;
    if (content) CDZ_TRY(known(w, content, inside, "a content has type and json_schema"));
    if (w->nested && !cdz_json_eq(cdz_json_get(content, "type"), "json_schema"))
        return wrong(w, content ? content : tag, "content", "expected one of type json_schema");
    *begin = member(tag, "begin");
    *end = member(tag, "end");
    *schema = w->nested ? member(content, "json_schema") : member(tag, "schema");
    if (!cdz_json_is(*begin, CDZ_JSON_STRING)) return wrong(w, tag, "begin", "expected a text");
    if (!cdz_json_is(*end, CDZ_JSON_STRING)) return wrong(w, tag, "end", "expected a text");
    if (!cdz_json_is(*schema, CDZ_JSON_OBJECT) && !cdz_json_is(*schema, CDZ_JSON_BOOL))
        return wrong(w, tag, w->nested ? "json_schema" : "schema", "expected a JSON Schema");
    return CDZ_OK;
}

/* --- the network ----------------------------------------------------------------------------------------- */

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

static cdz_status put_others(const tag_work *w, const char *regex, size_t len, uint32_t *rule)
{
    static const cdz_expression_style style = {0};
    cdz_chars nfa;
    cdz_chars_dfa dfa = {0};
    CDZ_TRY(cdz_expression_read(regex, len, &style, "triggers", &nfa, w->err));
    cdz_status st = cdz_chars_determine(&nfa, &dfa, w->err);
    cdz_chars_free(&nfa);
    if (st == CDZ_OK) st = cdz_chars_complement(&dfa, w->err);
    if (st == CDZ_OK) st = cdz_chars_trim(&dfa, NULL, w->err);
    *rule = cdz_net_rule_new(w->net);
    if (st == CDZ_OK && w->net->status == CDZ_OK) {
        const cdz_net_rule r = w->net->rules[*rule];
        cdz_net_dfa(w->net, r.start, r.end, &dfa, false);
    }
    cdz_chars_dfa_free(&dfa);
    return st;
}

/* The rule of texts without a trigger in them. */
static cdz_status put_text(const tag_work *w, uint32_t *rule)
{
    cdz_buf regex = {0};
    cdz_status st = CDZ_OK;
    cdz_buf_puts(&regex, "(?s:.)*(?:");
    for (uint32_t i = 0; st == CDZ_OK && i < w->triggers->len; i++) {
        const cdz_json *trigger = &w->triggers->items[i];
        if (trigger->type != CDZ_JSON_STRING || !trigger->len)
            st = wrong(w, trigger, "triggers", "a trigger must be a text, and not empty");
        cdz_buf_puts(&regex, i ? "|" : "");
        if (st == CDZ_OK) put_escaped(&regex, trigger);
    }
    cdz_buf_puts(&regex, ")(?s:.)*");
    if (st == CDZ_OK && regex.failed) st = cdz_err_memory(w->err, "structural tags");
    if (st == CDZ_OK) st = put_others(w, regex.data, regex.len, rule);
    cdz_buf_free(&regex);
    return st;
}

/* A special token has no bytes: where one is called as the text is, its number stands for the text. */
static void put_token(const tag_work *w, uint32_t from, uint32_t to, const char *text, size_t len)
{
    const int32_t id = w->tokenizer && len ? cdz_tokenizer_id(w->tokenizer, text, len) : -1;
    if (id < 0 || !cdz_tokenizer_is_special(w->tokenizer, id)) return;
    cdz_code_span *at = malloc(sizeof *at);
    if (!at) {
        cdz_net_fail(w->net, CDZ_E_NOMEM, "out of memory for structural tags");
        return;
    }
    *at = (cdz_code_span){(uint32_t)id, (uint32_t)id};
    cdz_net_edge_add(w->net, from, to, CDZ_NET_TOKENS, cdz_net_token_set(w->net, at, 1, false));
}

/* head: so many bytes of the text are a trigger, which may be a special token alone. */
static uint32_t put_mark(const tag_work *w, uint32_t from, const cdz_json *text, uint32_t head)
{
    const uint32_t middle = cdz_net_text(w->net, from, text->string, head);
    const uint32_t to = cdz_net_text(w->net, middle, text->string + head, text->len - head);
    put_token(w, from, middle, text->string, head);
    if (head < text->len) put_token(w, from, to, text->string, text->len);
    return to;
}

/* Bytes of the longest trigger that a text begins with; 0: it begins with none. */
static uint32_t trigger_of(const tag_work *w, const cdz_json *begin)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < w->triggers->len; i++) {
        const cdz_json *t = &w->triggers->items[i];
        const bool is = begin->len >= t->len && memcmp(begin->string, t->string, t->len) == 0;
        if (is && t->len > longest) longest = t->len;
    }
    return longest;
}

static cdz_status put_tag(const tag_work *w, const cdz_json *tag, uint32_t from, uint32_t to)
{
    const cdz_json *begin, *schema, *end;
    uint32_t rule;
    CDZ_TRY(read_tag(w, tag, &begin, &schema, &end));
    const uint32_t head = trigger_of(w, begin);
    if (!head) return wrong(w, begin, "begin", "it must begin with a trigger");
    uint32_t at = put_mark(w, from, begin, head);
    CDZ_TRY(cdz_schema_part_of(w->net, schema, w->arena, &rule, w->err));
    at = put_mark(w, cdz_net_call(w->net, at, rule), end, end->len);
    cdz_net_edge_add(w->net, at, to, CDZ_NET_NOTHING, 0);
    return CDZ_OK;
}

/* Text, then as often as wanted a tag and text. */
static cdz_status put_all(const tag_work *w, uint32_t *start)
{
    uint32_t text;
    CDZ_TRY(put_text(w, &text));
    *start = cdz_net_rule_new(w->net);
    if (w->net->status != CDZ_OK) return CDZ_OK; /* told at the end */
    const cdz_net_rule r = w->net->rules[*start];
    const uint32_t before = cdz_net_node(w->net);
    cdz_net_edge_add(w->net, r.start, before, CDZ_NET_NOTHING, 0);
    const uint32_t behind = cdz_net_call(w->net, before, text);
    cdz_net_edge_add(w->net, behind, r.end, CDZ_NET_NOTHING, 0);
    for (uint32_t i = 0; i < w->tags->len && w->net->status == CDZ_OK; i++)
        CDZ_TRY(put_tag(w, &w->tags->items[i], behind, before));
    return CDZ_OK;
}

cdz_status cdz_grammar_from_tags(const char *text, size_t len, const cdz_grammar_options *options,
                                 cdz_grammar **out, cdz_error *err)
{
    static const cdz_json_limits limits = {.depth = CDZ_SCHEMA_MAX_DEPTH + DEPTH_OF_A_TAG};
    cdz_net net;
    cdz_arena arena = {0};
    cdz_json root;
    tag_work w = {.net = &net, .arena = &arena, .err = err};
    uint32_t start = 0;
    *out = NULL;
    w.tokenizer = options ? options->tokenizer : NULL;
    cdz_net_begin(&net, options ? &options->limits : NULL);
    cdz_status st = CDZ_OK;
    if (len > net.limits.max_bytes)
        st = cdz_err(err, CDZ_E_LIMIT,
                     "the structural tags have %zu bytes, the limit is %u (grammar_max_bytes)", len,
                     net.limits.max_bytes);
    if (st == CDZ_OK) st = cdz_json_parse(text, len, "tags", &limits, &arena, &root, err);
    if (st == CDZ_OK) st = read_document(&w, &root);
    if (st == CDZ_OK) st = put_all(&w, &start);
    cdz_arena_free(&arena);
    if (st == CDZ_OK) return cdz_grammar_of_net(&net, start, options, out, err);
    cdz_net_free(&net);
    return st;
}
