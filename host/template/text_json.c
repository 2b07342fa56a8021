/* text_json.c - tojson, which is Python's json.dumps as the reference calls it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/methods.h"

typedef struct json_style {
    state *st;
    cdz_buf *to;
    value item, key; /* separators */
    value indent;    /* a string of one level, or V_NONE */
    bool ascii, sorted;
} json_style;

static void put_code(json_style *js, uint32_t code)
{
    tpl_touch(js->st, PER_CONVERSION);
    static const char named[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    char text[16];
    const char *found = code && code < 0x80 ? strchr(named, (int)code) : NULL;
    if (found)
        snprintf(text, sizeof text, "\\%c", letters[found - named]);
    else if (code > 0xFFFF)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10),
                 0xDC00 + (code & 0x3FF));
    else
        snprintf(text, sizeof text, "\\u%04x", code);
    tpl_put(js->st, js->to, text, strlen(text));
}

static void put_json_string(json_style *js, value v)
{
    tpl_put(js->st, js->to, "\"", 1);
    for (size_t at = 0; at < v.len && !js->st->failed;) {
        const size_t from = at;
        const uint32_t code = tpl_next_code(v.s, v.len, &at);
        if (code < 0x20 || code == '"' || code == '\\' || (js->ascii && code > 0x7E))
            put_code(js, code);
        else
            tpl_put(js->st, js->to, v.s + from, at - from);
    }
    tpl_put(js->st, js->to, "\"", 1);
}

static void put_json_float(json_style *js, double d)
{
    char text[40];
    const char *word = isnan(d) ? "NaN" : isinf(d) ? d < 0 ? "-Infinity" : "Infinity" : text;
    if (word == text && tpl_touch(js->st, PER_FLOAT)) tpl_format_double(d, text);
    tpl_put(js->st, js->to, word, strlen(word));
}

static void put_any(json_style *js, value v, uint32_t depth);

static void put_break(json_style *js, uint32_t depth)
{
    if (js->indent.kind == V_NONE) return;
    tpl_put(js->st, js->to, "\n", 1);
    for (uint32_t i = 0; i < depth && !js->st->failed; i++)
        tpl_put(js->st, js->to, js->indent.s, js->indent.len);
}

static void put_comma(json_style *js, uint32_t i, uint32_t depth)
{
    if (i) tpl_put(js->st, js->to, js->item.s, js->item.len);
    put_break(js, depth);
}

static void put_json_list(json_style *js, const seq *list, uint32_t depth)
{
    tpl_put(js->st, js->to, "[", 1);
    for (uint32_t i = 0; i < list->n && tpl_charge(js->st, 1); i++) {
        put_comma(js, i, depth + 1);
        put_any(js, list->at[i], depth + 1);
    }
    if (list->n) put_break(js, depth);
    tpl_put(js->st, js->to, "]", 1);
}

static void put_json_key(json_style *js, value key)
{
    const bool plain = key.kind == V_NONE || tpl_is_number(key);
    if (!plain && !tpl_is_string(key)) {
        tpl_fail(js->st, "keys must be str, int, float, bool or None, not %s", tpl_type_name(key));
        return;
    }
    if (plain) tpl_put(js->st, js->to, "\"", 1);
    put_any(js, key, 0);
    if (plain) tpl_put(js->st, js->to, "\"", 1);
    tpl_put(js->st, js->to, js->key.s, js->key.len);
}

/* The order in which to write the members. */
static uint32_t *sorted_members(state *st, const dict *d, bool sorted)
{
    uint32_t *at = tpl_take(st, d->n, sizeof *at);
    sort_item *keys = tpl_take(st, sorted ? (size_t)d->n * 2 : 0, sizeof *keys);
    if (!at || !keys) return NULL;
    for (uint32_t i = 0; i < d->n; i++) at[i] = i;
    if (!sorted) return at;
    for (uint32_t i = 0; i < d->n; i++) keys[i] = (sort_item){d->keys[i], tpl_v_int(i)};
    tpl_merge_sort(st, keys, keys + d->n, d->n, false);
    for (uint32_t i = 0; i < d->n && !st->failed; i++) at[i] = (uint32_t)keys[i].item.i;
    return st->failed ? NULL : at;
}

static void put_json_dict(json_style *js, const dict *d, uint32_t depth)
{
    const uint32_t *at = sorted_members(js->st, d, js->sorted);
    tpl_put(js->st, js->to, "{", 1);
    for (uint32_t i = 0; at && i < d->n && tpl_charge(js->st, 1); i++) {
        put_comma(js, i, depth + 1);
        put_json_key(js, d->keys[at[i]]);
        put_any(js, d->values[at[i]], depth + 1);
    }
    if (d->n) put_break(js, depth);
    tpl_put(js->st, js->to, "}", 1);
}

static void put_word(json_style *js, const char *word)
{
    tpl_put(js->st, js->to, word, strlen(word));
}

static void put_any(json_style *js, value v, uint32_t depth)
{
    if (depth > DATA_DEPTH) tpl_fail_limit(js->st, "data nested more than %d deep", DATA_DEPTH);
    if (js->st->failed) return;
    switch (v.kind) {
    case V_NONE: put_word(js, "null"); break;
    case V_BOOL: put_word(js, v.b ? "true" : "false"); break;
    case V_INT:
    case V_BIG: tpl_put_value(js->st, js->to, v); break;
    case V_FLOAT: put_json_float(js, v.d); break;
    case V_STRING: put_json_string(js, v); break;
    case V_LIST:
    case V_TUPLE: put_json_list(js, v.seq, depth); break;
    case V_DICT: put_json_dict(js, v.dict, depth); break;
    default:
        tpl_fail(js->st, "Object of type %s is not JSON serializable", tpl_type_name(v));
        break;
    }
}

/* One level of indentation: a count of spaces or a text. */
static value indent_text(state *st, value indent)
{
    if (indent.kind == V_MISSING || indent.kind == V_NONE) return tpl_v_none();
    if (tpl_is_string(indent)) return indent;
    if (indent.kind != V_INT && indent.kind != V_BOOL)
        return tpl_fail(st, "tojson: indent is %s, expected a number or a string",
                        tpl_type_name(indent));
    int64_t n = tpl_as_int(indent);
    if (n > FORMAT_WIDTH) return tpl_fail_limit(st, "tojson: indent is more than %d", FORMAT_WIDTH);
    if (n < 0) n = 0;
    char *spaces = tpl_take(st, (size_t)n + 1, 1);
    if (!spaces) return tpl_v_none();
    memset(spaces, ' ', (size_t)n);
    return tpl_v_borrow(spaces, (size_t)n);
}

void tpl_put_json(state *st, cdz_buf *to, value v, bool ascii, value indent, value separators,
                  bool sorted)
{
    json_style js = {.st = st, .to = to, .ascii = ascii, .sorted = sorted};
    js.indent = indent_text(st, indent);
    js.item = tpl_v_literal(js.indent.kind == V_NONE ? ", " : ",");
    js.key = tpl_v_literal(": ");
    if (separators.kind != V_MISSING && separators.kind != V_NONE) {
        const value *two;
        uint32_t n;
        if (!tpl_items_of(st, separators, &two, &n)) return;
        if (n != 2 || !tpl_is_string(two[0]) || !tpl_is_string(two[1])) {
            tpl_fail(st, "tojson: separators must be two strings");
            return;
        }
        js.item = two[0];
        js.key = two[1];
    }
    if (!st->failed) put_any(&js, v, 0);
}
