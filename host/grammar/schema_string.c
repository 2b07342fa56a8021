/* schema_string.c - strings: lengths, patterns, formats, and lists of names. */
#include "base/utf8.h"
#include "grammar/expression.h"
#include "grammar/grow.h"
#include "grammar/schema.h"

static void any_character(cdz_net *net, uint32_t from, uint32_t to)
{
    cdz_code_span all = {0, CDZ_CODE_MAX};
    const cdz_charset set = {.at = &all, .n = 1};
    cdz_net_charset(net, from, to, &set, true);
}

cdz_status cdz_schema_pattern(const cdz_schema *s, const cdz_json *pattern, cdz_chars *out)
{
    static const cdz_expression_style style = {.ascii = true, .search = true};
    cdz_error why = {0};
    if (pattern->type != CDZ_JSON_STRING)
        return cdz_schema_wrong(s, pattern, "pattern", "expected a text");
    const cdz_status st =
        cdz_expression_read(pattern->string, pattern->len, &style, "the pattern", out, &why);
    if (st != CDZ_OK)
        cdz_err(s->err, st, "schema:%u:%u: pattern: %s", pattern->line, pattern->column, why.text);
    return st;
}

static cdz_status read_format(const cdz_schema *s, const cdz_json *format, cdz_chars *out)
{
    static const cdz_expression_style style = {.ascii = true};
    if (format->type != CDZ_JSON_STRING)
        return cdz_schema_wrong(s, format, "format", "expected a text");
    const char *regex = cdz_schema_format(format->string);
    if (!regex)
        return cdz_err(s->err, CDZ_E_UNSUPPORTED, "schema:%u:%u: format '%s' is not supported",
                       format->line, format->column, format->string);
    return cdz_expression_read(regex, strlen(regex), &style, "a format", out, s->err);
}

/* What a list asks of strings. */
typedef struct string_wishes {
    uint32_t min, max, n_patterns, n_denials;
    const cdz_json *last; /* the pattern or format, where there is one */
    bool is_format;
} string_wishes;

static cdz_status wishes_of(const cdz_schema *s, const cdz_schema_list *list, string_wishes *w)
{
    *w = (string_wishes){.max = UINT32_MAX};
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t n;
        bool found;
        CDZ_TRY(cdz_schema_count(s, list->at[i].schema, "minLength", &n, &found));
        if (found && n > w->min) w->min = n;
        CDZ_TRY(cdz_schema_count(s, list->at[i].schema, "maxLength", &n, &found));
        if (found && n < w->max) w->max = n;
        const cdz_json *pattern = cdz_json_get(list->at[i].schema, "pattern");
        const cdz_json *format = cdz_json_get(list->at[i].schema, "format");
        w->n_patterns += (pattern ? 1u : 0u) + (format ? 1u : 0u);
        w->n_denials += cdz_schema_denies(list->at[i].schema, "pattern") ||
                        cdz_schema_denies(list->at[i].schema, "format") ||
                        cdz_schema_denies(list->at[i].schema, "enum") ||
                        cdz_schema_denies(list->at[i].schema, "const");
        w->last = pattern ? pattern : w->last;
        if (pattern) w->is_format = false;
        if (format) {
            w->last = format;
            w->is_format = true;
        }
    }
    return CDZ_OK;
}

static cdz_status narrow(const cdz_schema *s, cdz_chars_dfa *dfa, cdz_chars_dfa *own, bool *some)
{
    cdz_chars_dfa both;
    if (!*some) {
        *dfa = *own;
        *some = true;
        return CDZ_OK;
    }
    const cdz_status st = cdz_chars_combine(dfa, own, CDZ_CHARS_AND, &both, s->err);
    cdz_chars_dfa_free(own);
    if (st != CDZ_OK) return st;
    cdz_chars_dfa_free(dfa);
    *dfa = both;
    return cdz_chars_trim(dfa, NULL, s->err);
}

static cdz_status narrow_by(const cdz_schema *s, const cdz_json *value, bool format,
                            cdz_chars_dfa *dfa, bool *some)
{
    cdz_chars nfa;
    cdz_chars_dfa own;
    CDZ_TRY(format ? read_format(s, value, &nfa) : cdz_schema_pattern(s, value, &nfa));
    const cdz_status st = cdz_chars_determine(&nfa, &own, s->err);
    cdz_chars_free(&nfa);
    return st == CDZ_OK ? narrow(s, dfa, &own, some) : st;
}

cdz_status cdz_schema_texts(const cdz_schema *s, const cdz_text_ref *texts, uint32_t n,
                            cdz_chars_dfa *out)
{
    cdz_chars nfa = {0};
    nfa.start = cdz_chars_node(&nfa);
    nfa.end = cdz_chars_node(&nfa);
    for (uint32_t i = 0; i < n && !nfa.failed; i++) {
        uint32_t at = nfa.start;
        for (size_t k = 0, size; k < texts[i].len && !nfa.failed; k += size) {
            uint32_t code = 0;
            cdz_charset set = {0};
            size = cdz_utf8_decode(texts[i].text + k, texts[i].len - k, &code);
            if (!size) size = 1;
            cdz_charset_add(&set, code, code);
            const uint32_t to = cdz_chars_node(&nfa);
            cdz_chars_edge_add(&nfa, at, to, cdz_chars_set(&nfa, &set));
            at = to;
        }
        cdz_chars_edge_add(&nfa, at, nfa.end, CDZ_CHARS_NOTHING);
    }
    const cdz_status st = cdz_chars_determine(&nfa, out, s->err);
    cdz_chars_free(&nfa);
    return st;
}

/* The texts of a list of values, or of one. */
static cdz_status values_dfa(const cdz_schema *s, const cdz_json *values, uint32_t n,
                             cdz_chars_dfa *out)
{
    cdz_text_ref *texts = malloc(((size_t)n + 1) * sizeof *texts);
    uint32_t n_texts = 0;
    if (!texts) return cdz_schema_no_memory(s);
    for (uint32_t i = 0; i < n; i++)
        if (values[i].type == CDZ_JSON_STRING)
            texts[n_texts++] = (cdz_text_ref){values[i].string, values[i].len};
    const cdz_status st = cdz_schema_texts(s, texts, n_texts, out);
    free(texts);
    return st;
}

static cdz_status narrow_by_values(const cdz_schema *s, const cdz_json *values, uint32_t n,
                                   bool denied, cdz_chars_dfa *dfa, bool *some)
{
    cdz_chars_dfa own;
    CDZ_TRY(values_dfa(s, values, n, &own));
    if (denied) {
        const cdz_status st = cdz_chars_complement(&own, s->err);
        if (st != CDZ_OK) {
            cdz_chars_dfa_free(&own);
            return st;
        }
    }
    return narrow(s, dfa, &own, some);
}

static cdz_status deny_pattern(const cdz_schema *s, const cdz_json *pattern, bool format,
                               cdz_chars_dfa *dfa, bool *some)
{
    cdz_chars_dfa own = {0};
    bool any = false;
    CDZ_TRY(narrow_by(s, pattern, format, &own, &any));
    const cdz_status st = cdz_chars_complement(&own, s->err);
    if (st == CDZ_OK) return narrow(s, dfa, &own, some);
    cdz_chars_dfa_free(&own);
    return st;
}

static cdz_status narrow_by_denials(const cdz_schema *s, const cdz_json *schema, cdz_chars_dfa *dfa,
                                    bool *some)
{
    const cdz_json *pattern = cdz_schema_denies(schema, "pattern"),
                   *format = cdz_schema_denies(schema, "format");
    const cdz_json *many = cdz_schema_denies(schema, "enum"),
                   *one = cdz_schema_denies(schema, "const");
    if (pattern) CDZ_TRY(deny_pattern(s, pattern, false, dfa, some));
    if (format) CDZ_TRY(deny_pattern(s, format, true, dfa, some));
    if (many && many->type != CDZ_JSON_ARRAY)
        return cdz_schema_wrong(s, many, "enum", "expected a list of values");
    if (many) CDZ_TRY(narrow_by_values(s, many->items, many->len, true, dfa, some));
    return one ? narrow_by_values(s, one, 1, true, dfa, some) : CDZ_OK;
}

/* Everything asked for but lengths, as one automaton. */
static cdz_status intersect(const cdz_schema *s, const cdz_schema_list *list, cdz_chars_dfa *dfa,
                            bool *some)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *pattern = cdz_json_get(list->at[i].schema, "pattern");
        const cdz_json *format = cdz_json_get(list->at[i].schema, "format");
        if (pattern) CDZ_TRY(narrow_by(s, pattern, false, dfa, some));
        if (format) CDZ_TRY(narrow_by(s, format, true, dfa, some));
        CDZ_TRY(narrow_by_denials(s, list->at[i].schema, dfa, some));
    }
    return CDZ_OK;
}

static bool asks_lengths(const string_wishes *w)
{
    return w->min || w->max != UINT32_MAX;
}

static cdz_status narrow_by_lengths(const cdz_schema *s, const string_wishes *w, cdz_chars_dfa *dfa,
                                    bool *some)
{
    cdz_chars_dfa lengths;
    if (!asks_lengths(w)) return CDZ_OK;
    CDZ_TRY(cdz_chars_lengths(w->min, w->max, &lengths, s->err));
    return narrow(s, dfa, &lengths, some);
}

/* The texts of an automaton that have the lengths asked for. Where a state for each state and length would be many, characters
 * are counted. */
static cdz_status put_lengths(cdz_schema *s, const string_wishes *w, cdz_chars_dfa *dfa,
                              uint32_t from, uint32_t to)
{
    const uint64_t last = w->max == UINT32_MAX ? w->min : w->max;
    bool some = true;
    if (w->min > w->max) return CDZ_OK;
    if (asks_lengths(w) && (last + 1) * dfa->n_states > CDZ_SCHEMA_FEW_STATES) {
        const cdz_status st = cdz_net_dfa_counted(s->net, from, to, dfa, w->min, w->max, true);
        if (st != CDZ_E_UNSUPPORTED) return CDZ_OK; /* trouble is told at the end */
    }
    CDZ_TRY(narrow_by_lengths(s, w, dfa, &some));
    CDZ_TRY(cdz_chars_trim(dfa, &some, s->err));
    if (some) cdz_net_dfa(s->net, from, to, dfa, true);
    return CDZ_OK;
}

/* Characters without a pattern: any number, or counted. */
static void characters(cdz_net *net, const string_wishes *w, uint32_t from, uint32_t to)
{
    if (w->max == UINT32_MAX && w->min == 0) {
        const uint32_t at = cdz_net_node(net);
        cdz_net_edge_add(net, from, at, CDZ_NET_NOTHING, 0);
        any_character(net, at, at);
        cdz_net_edge_add(net, at, to, CDZ_NET_NOTHING, 0);
        return;
    }
    const uint32_t one = cdz_net_rule_new(net);
    if (net->status != CDZ_OK) return;
    any_character(net, net->rules[one].start, net->rules[one].end);
    const uint32_t all = cdz_net_repeat(net, one, w->min, w->max);
    cdz_net_edge_add(net, from, to, CDZ_NET_CALL, all);
}

static cdz_status inside(cdz_schema *s, const cdz_schema_list *list, const string_wishes *w,
                         uint32_t from, uint32_t to)
{
    if (!w->n_patterns && !w->n_denials) {
        if (w->min <= w->max) characters(s->net, w, from, to);
        return CDZ_OK;
    }
    if (w->n_patterns == 1 && !w->n_denials && !w->min && w->max == UINT32_MAX) {
        cdz_chars nfa;
        CDZ_TRY(w->is_format ? read_format(s, w->last, &nfa) : cdz_schema_pattern(s, w->last, &nfa));
        cdz_net_chars(s->net, from, to, &nfa, true);
        cdz_chars_free(&nfa);
        return CDZ_OK;
    }
    cdz_chars_dfa dfa = {0};
    bool some = false, any = false;
    cdz_status st = intersect(s, list, &dfa, &some);
    if (st == CDZ_OK) st = cdz_chars_trim(&dfa, &any, s->err);
    if (st == CDZ_OK && any) st = put_lengths(s, w, &dfa, from, to);
    if (some) cdz_chars_dfa_free(&dfa);
    return st;
}

cdz_status cdz_schema_strings(cdz_schema *s, const cdz_schema_list *list, uint32_t from, uint32_t to)
{
    string_wishes w;
    CDZ_TRY(wishes_of(s, list, &w));
    const bool any = !w.n_patterns && !w.n_denials && !w.min && w.max == UINT32_MAX;
    if (any && s->string_rule) {
        cdz_net_edge_add(s->net, from, to, CDZ_NET_CALL, s->string_rule - 1);
        return CDZ_OK;
    }
    const uint32_t rule = cdz_net_rule_new(s->net);
    if (s->net->status != CDZ_OK) return CDZ_OK; /* told at the end */
    const cdz_net_rule r = s->net->rules[rule];
    const uint32_t in = cdz_schema_byte(s, r.start, '"'), out = cdz_net_node(s->net);
    CDZ_TRY(inside(s, list, &w, in, out));
    cdz_net_byte(s->net, out, r.end, '"', '"');
    cdz_net_edge_add(s->net, from, to, CDZ_NET_CALL, rule);
    if (any) s->string_rule = rule + 1;
    return CDZ_OK;
}

/* --- keys, by propertyNames ------------------------------------------------------------------------------ */

static cdz_status narrow_keys(cdz_schema *s, const cdz_schema_list *list, cdz_chars_dfa *dfa,
                              bool *some)
{
    string_wishes w;
    CDZ_TRY(wishes_of(s, list, &w));
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *schema = list->at[i].schema, *many = cdz_json_get(schema, "enum");
        const cdz_json *one = cdz_json_get(schema, "const");
        if (cdz_json_get(schema, "anyOf") || cdz_json_get(schema, "oneOf"))
            return cdz_schema_refuse(s, schema, "propertyNames", "with alternatives");
        if (cdz_json_is(many, CDZ_JSON_ARRAY))
            CDZ_TRY(narrow_by_values(s, many->items, many->len, false, dfa, some));
        if (one) CDZ_TRY(narrow_by_values(s, one, 1, false, dfa, some));
    }
    CDZ_TRY(intersect(s, list, dfa, some));
    return narrow_by_lengths(s, &w, dfa, some);
}

cdz_status cdz_schema_keys(cdz_schema *s, const cdz_schema_list *list, cdz_chars_dfa *out)
{
    bool some = false;
    uint32_t types;
    *out = (cdz_chars_dfa){0};
    CDZ_TRY(cdz_schema_types(s, list, &types));
    if (list->never || !(types & CDZ_TYPE_STRING)) return cdz_schema_texts(s, NULL, 0, out);
    const cdz_status st = narrow_keys(s, list, out, &some);
    if (st == CDZ_OK && !some) return cdz_chars_lengths(0, UINT32_MAX, out, s->err);
    if (st != CDZ_OK && some) cdz_chars_dfa_free(out);
    return st;
}

/* --- names --------------------------------------------------------------------------------------------- */

/* Names lo to hi, which share their first `depth` bytes and have come to a node. */
typedef struct names_branch {
    uint32_t lo, hi, depth, node;
} names_branch;

typedef struct names_work {
    cdz_text_ref *names;
    names_branch *open;
    uint32_t n_open, cap, to, other; /* other: behind a character that no name has there */
    bool but;
} names_work;

static cdz_status names_node(cdz_schema *s, names_work *w, names_branch b)
{
    cdz_charset others = {0};
    bool ends = false;
    cdz_status st = CDZ_OK;
    for (uint32_t i = b.lo; i < b.hi && st == CDZ_OK;) {
        const cdz_text_ref *name = &w->names[i];
        uint32_t code, k = i;
        const size_t size = cdz_utf8_decode(name->text + b.depth, name->len - b.depth, &code);
        if (name->len == b.depth) {
            ends = true;
            i++;
            continue;
        }
        while (k < b.hi && w->names[k].len >= b.depth + size &&
               memcmp(w->names[k].text + b.depth, name->text + b.depth, size) == 0)
            k++;
        cdz_code_span one = {code, code};
        const cdz_charset set = {.at = &one, .n = 1};
        const names_branch next = {i, k, b.depth + (uint32_t)size, cdz_net_node(s->net)};
        cdz_net_charset(s->net, b.node, next.node, &set, true);
        cdz_charset_add(&others, code, code);
        if (!cdz_grow(&w->open, &w->cap, (size_t)w->n_open + 1, sizeof *w->open))
            st = cdz_schema_no_memory(s);
        else
            w->open[w->n_open++] = next;
        i = k;
    }
    cdz_charset_negate(&others);
    if (w->but) cdz_net_charset(s->net, b.node, w->other, &others, true);
    if (others.failed) st = cdz_schema_no_memory(s);
    if (ends != w->but) cdz_net_edge_add(s->net, b.node, w->to, CDZ_NET_NOTHING, 0);
    cdz_charset_free(&others);
    return st;
}

cdz_status cdz_schema_names(cdz_schema *s, cdz_text_ref *names, uint32_t n, bool but, uint32_t from,
                            uint32_t to)
{
    names_work w = {.names = names, .to = to, .but = but};
    cdz_status st;
    if (but) {
        w.other = cdz_net_node(s->net);
        any_character(s->net, w.other, w.other);
        cdz_net_edge_add(s->net, w.other, to, CDZ_NET_NOTHING, 0);
    }
    st = names_node(s, &w, (names_branch){0, n, 0, from});
    while (st == CDZ_OK && w.n_open && s->net->status == CDZ_OK)
        st = names_node(s, &w, w.open[--w.n_open]);
    free(w.open);
    return st;
}
