/* schema_object.c - objects: the declared keys in their order, then further ones.
 *
 * From a place in the order one may take its key or go on to the next, where the key is not required; so n keys need n
 * places, not a place for each set of keys. */
#include "base/utf8.h"
#include "grammar/grow.h"
#include "grammar/schema.h"

typedef struct object_slot {
    cdz_text_ref name;
    bool required;
} object_slot;

typedef struct object_pattern {
    uint32_t entry; /* of the list */
    const cdz_json *schema;
    cdz_chars_dfa keys;
} object_pattern;

typedef struct object_work {
    cdz_schema *s;
    const cdz_schema_list *list;
    object_slot *slots;
    uint32_t n_slots, slots_cap;
    uint32_t *table, table_size; /* slots by name, + 1 */
    object_pattern patterns[CDZ_SCHEMA_MAX_PATTERNS];
    uint32_t n_patterns;
} object_work;

static void work_free(object_work *w)
{
    free(w->slots);
    free(w->table);
    for (uint32_t i = 0; i < w->n_patterns; i++) cdz_chars_dfa_free(&w->patterns[i].keys);
}

/* --- slots ----------------------------------------------------------------------------------------------- */

static uint32_t name_hash(cdz_text_ref name)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < name.len; i++) h = (h ^ (uint8_t)name.text[i]) * 16777619u;
    return h ^ h >> 15;
}

static bool same_name(cdz_text_ref a, cdz_text_ref b)
{
    return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

static bool enlarge(object_work *w)
{
    const uint32_t size = w->table_size ? 2 * w->table_size : 64;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (uint32_t i = 0; i < w->n_slots; i++) {
        uint32_t at = name_hash(w->slots[i].name) & (size - 1);
        while (table[at]) at = (at + 1) & (size - 1);
        table[at] = i + 1;
    }
    free(w->table);
    w->table = table;
    w->table_size = size;
    return true;
}

static cdz_status add_slot(object_work *w, cdz_text_ref name, bool required)
{
    if ((w->n_slots + 1) * 2 >= w->table_size && !enlarge(w)) return cdz_schema_no_memory(w->s);
    uint32_t at = name_hash(name) & (w->table_size - 1);
    for (uint32_t i; w->slots && (i = w->table[at]) != 0; at = (at + 1) & (w->table_size - 1))
        if (same_name(w->slots[i - 1].name, name)) {
            w->slots[i - 1].required |= required;
            return CDZ_OK;
        }
    if (!cdz_grow(&w->slots, &w->slots_cap, (size_t)w->n_slots + 1, sizeof *w->slots))
        return cdz_schema_no_memory(w->s);
    w->slots[w->n_slots++] = (object_slot){name, required};
    w->table[at] = w->n_slots;
    return CDZ_OK;
}

static cdz_status add_pattern(object_work *w, uint32_t entry, const cdz_json_member *member)
{
    cdz_json key = {.type = CDZ_JSON_STRING,
                    .line = member->value.line,
                    .column = member->value.column,
                    .len = member->key_len,
                    .string = member->key};
    cdz_chars nfa;
    if (w->n_patterns == CDZ_SCHEMA_MAX_PATTERNS)
        return cdz_schema_refuse(w->s, &member->value, "patternProperties",
                                 "more than 5 patterns at one place");
    CDZ_TRY(cdz_schema_pattern(w->s, &key, &nfa));
    object_pattern *p = &w->patterns[w->n_patterns];
    const cdz_status st = cdz_chars_determine(&nfa, &p->keys, w->s->err);
    cdz_chars_free(&nfa);
    if (st != CDZ_OK) return st;
    p->entry = entry;
    p->schema = &member->value;
    w->n_patterns++;
    return CDZ_OK;
}

static cdz_status check_object(const object_work *w, const cdz_json *v, const char *keyword)
{
    if (!v || v->type == CDZ_JSON_OBJECT) return CDZ_OK;
    return cdz_schema_wrong(w->s, v, keyword, "expected an object");
}

static cdz_status collect(object_work *w)
{
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *schema = w->list->at[i].schema;
        const cdz_json *props = cdz_json_get(schema, "properties");
        const cdz_json *patterns = cdz_json_get(schema, "patternProperties");
        CDZ_TRY(check_object(w, props, "properties"));
        CDZ_TRY(check_object(w, patterns, "patternProperties"));
        for (uint32_t k = 0; props && k < props->len; k++)
            CDZ_TRY(add_slot(w, (cdz_text_ref){props->members[k].key, props->members[k].key_len},
                             false));
        for (uint32_t k = 0; patterns && k < patterns->len; k++)
            CDZ_TRY(add_pattern(w, i, &patterns->members[k]));
    }
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *required = cdz_json_get(w->list->at[i].schema, "required");
        if (required && required->type != CDZ_JSON_ARRAY)
            return cdz_schema_wrong(w->s, required, "required", "expected a list of names");
        for (uint32_t k = 0; required && k < required->len; k++) {
            const cdz_json *name = &required->items[k];
            if (name->type != CDZ_JSON_STRING)
                return cdz_schema_wrong(w->s, name, "required", "expected a list of names");
            CDZ_TRY(add_slot(w, (cdz_text_ref){name->string, name->len}, true));
        }
    }
    return CDZ_OK;
}

/* How many members there may be: only what the required ones imply. */
static cdz_status check_counts(const object_work *w)
{
    uint32_t n, required = 0;
    bool found;
    for (uint32_t i = 0; i < w->n_slots; i++) required += w->slots[i].required;
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *schema = w->list->at[i].schema;
        CDZ_TRY(cdz_schema_count(w->s, schema, "minProperties", &n, &found));
        if (found && n > required)
            return cdz_schema_refuse(w->s, schema, "minProperties",
                                     "above the number of required keys");
        CDZ_TRY(cdz_schema_count(w->s, schema, "maxProperties", &n, &found));
        if (found) return cdz_schema_refuse(w->s, schema, "maxProperties", "");
    }
    return CDZ_OK;
}

/* --- what a key's value must satisfy ------------------------------------------------------------------------ */

static const cdz_json *property(const cdz_json *props, cdz_text_ref name)
{
    if (!props) return NULL;
    if (!memchr(name.text, 0, name.len)) return cdz_json_get(props, name.text);
    for (uint32_t i = 0; i < props->len; i++)
        if (same_name((cdz_text_ref){props->members[i].key, props->members[i].key_len}, name))
            return &props->members[i].value;
    return NULL;
}

/* name NULL: a further key that matches the patterns of a set, and no others. */
static cdz_status value_rule(object_work *w, const cdz_text_ref *name, uint32_t set, uint32_t *rule)
{
    cdz_schema_list own = {0};
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; i < w->list->n && st == CDZ_OK; i++) {
        const cdz_json *schema = w->list->at[i].schema;
        const cdz_json *is = name ? property(cdz_json_get(schema, "properties"), *name) : NULL;
        bool declared = is != NULL;
        if (is) st = cdz_schema_add(w->s, &own, is);
        for (uint32_t p = 0; p < w->n_patterns && st == CDZ_OK; p++) {
            const object_pattern *pattern = &w->patterns[p];
            if (pattern->entry != i) continue;
            if (name ? !cdz_chars_accepts(&pattern->keys, name->text, name->len) : !(set >> p & 1))
                continue;
            declared = true;
            st = cdz_schema_add(w->s, &own, pattern->schema);
        }
        const cdz_json *other = declared ? NULL : cdz_json_get(schema, "additionalProperties");
        if (other && st == CDZ_OK) st = cdz_schema_add(w->s, &own, other);
    }
    if (st == CDZ_OK) st = cdz_schema_rule(w->s, &own, rule);
    cdz_schema_list_free(&own);
    return st;
}

/* --- keys --------------------------------------------------------------------------------------------------- */

/* What stands behind a key's text: its quote, the colon, the value. */
static void put_value(object_work *w, uint32_t from, uint32_t rule, uint32_t to)
{
    cdz_schema *s = w->s;
    const uint32_t quoted = cdz_schema_byte(s, from, '"');
    const uint32_t colon = cdz_schema_byte(s, cdz_schema_blank(s, quoted), ':');
    cdz_net_edge_add(s->net, cdz_schema_blank(s, colon), to, CDZ_NET_CALL, rule);
}

static cdz_status put_slot(object_work *w, uint32_t slot, uint32_t from, uint32_t to)
{
    uint32_t rule;
    cdz_text_ref name = w->slots[slot].name;
    CDZ_TRY(value_rule(w, &name, 0, &rule));
    const uint32_t in = cdz_schema_byte(w->s, from, '"'), out = cdz_net_node(w->s->net);
    CDZ_TRY(cdz_schema_names(w->s, &name, 1, false, in, out));
    put_value(w, out, rule, to);
    return CDZ_OK;
}

static int by_text(const void *a, const void *b)
{
    const cdz_text_ref *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* Keys that no slot has. */
static cdz_status put_undeclared(object_work *w, uint32_t from, uint32_t to)
{
    cdz_text_ref *names = malloc(((size_t)w->n_slots + 1) * sizeof *names);
    if (!names) return cdz_schema_no_memory(w->s);
    for (uint32_t i = 0; i < w->n_slots; i++) names[i] = w->slots[i].name;
    qsort(names, w->n_slots, sizeof *names, by_text);
    const cdz_status st = cdz_schema_names(w->s, names, w->n_slots, true, from, to);
    free(names);
    return st;
}

/* The slots' names as an automaton. */
static cdz_status slot_names(object_work *w, cdz_chars_dfa *out)
{
    cdz_chars nfa = {0};
    nfa.start = cdz_chars_node(&nfa);
    nfa.end = cdz_chars_node(&nfa);
    for (uint32_t i = 0; i < w->n_slots; i++) {
        uint32_t at = nfa.start;
        for (size_t k = 0, size; k < w->slots[i].name.len; k += size) {
            uint32_t code = 0;
            cdz_charset set = {0};
            size = cdz_utf8_decode(w->slots[i].name.text + k, w->slots[i].name.len - k, &code);
            if (!size) size = 1;
            cdz_charset_add(&set, code, code);
            const uint32_t to = cdz_chars_node(&nfa);
            cdz_chars_edge_add(&nfa, at, to, cdz_chars_set(&nfa, &set));
            at = to;
        }
        cdz_chars_edge_add(&nfa, at, nfa.end, CDZ_CHARS_NOTHING);
    }
    const cdz_status st = cdz_chars_determine(&nfa, out, w->s->err);
    cdz_chars_free(&nfa);
    return st;
}

/* Keys that match the patterns of a set, no other pattern and no slot: `keys` begins as all but the slots. */
static cdz_status keys_of_set(object_work *w, uint32_t set, cdz_chars_dfa *keys)
{
    for (uint32_t p = 0; p < w->n_patterns; p++) {
        cdz_chars_dfa next;
        CDZ_TRY(cdz_chars_combine(keys, &w->patterns[p].keys,
                                  set >> p & 1 ? CDZ_CHARS_AND : CDZ_CHARS_WITHOUT, &next,
                                  w->s->err));
        cdz_chars_dfa_free(keys);
        *keys = next;
    }
    return CDZ_OK;
}

static cdz_status put_set(object_work *w, uint32_t set, uint32_t from, uint32_t to)
{
    cdz_chars_dfa keys;
    uint32_t rule;
    CDZ_TRY(slot_names(w, &keys));
    bool any = false;
    cdz_status st = cdz_chars_complement(&keys, w->s->err);
    if (st == CDZ_OK) st = keys_of_set(w, set, &keys);
    if (st == CDZ_OK) st = cdz_chars_trim(&keys, &any, w->s->err);
    if (st == CDZ_OK && any) {
        const uint32_t out = cdz_net_node(w->s->net);
        st = value_rule(w, NULL, set, &rule);
        if (st == CDZ_OK) {
            cdz_net_dfa(w->s->net, from, out, &keys, true);
            put_value(w, out, rule, to);
        }
    }
    cdz_chars_dfa_free(&keys);
    return st;
}

/* Whether further keys can have no value, so that their language need not be built. */
static bool is_closed(const object_work *w)
{
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *v = cdz_json_get(w->list->at[i].schema, "additionalProperties");
        if (cdz_json_is(v, CDZ_JSON_BOOL) && !v->boolean) return !w->n_patterns;
    }
    return false;
}

static cdz_status put_further(object_work *w, uint32_t from, uint32_t to)
{
    uint32_t rule;
    if (is_closed(w)) return CDZ_OK;
    const uint32_t in = cdz_schema_byte(w->s, from, '"');
    if (w->n_patterns) {
        for (uint32_t set = 0; set < 1u << w->n_patterns; set++) CDZ_TRY(put_set(w, set, in, to));
        return CDZ_OK;
    }
    const uint32_t out = cdz_net_node(w->s->net);
    CDZ_TRY(value_rule(w, NULL, 0, &rule));
    CDZ_TRY(put_undeclared(w, in, out));
    put_value(w, out, rule, to);
    return CDZ_OK;
}

/* --- the chain ------------------------------------------------------------------------------------------------ */

/* From `first`, where no key was written yet, to `end`, before the closing brace. Places: key[i], where slot i or a later one
 * is written, and behind[i], after slot i - 1 or an earlier one. */
static cdz_status chain(object_work *w, uint32_t first, uint32_t end)
{
    cdz_schema *s = w->s;
    uint32_t needed = 0; /* slots before this one must still come */
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].required) needed = i + 1;
    if (!needed) cdz_net_edge_add(s->net, first, end, CDZ_NET_NOTHING, 0);
    uint32_t key = first;
    for (uint32_t i = 0; i < w->n_slots && s->net->status == CDZ_OK; i++) {
        const uint32_t behind = cdz_net_node(s->net), next = cdz_net_node(s->net);
        CDZ_TRY(put_slot(w, i, key, behind));
        if (!w->slots[i].required) cdz_net_edge_add(s->net, key, next, CDZ_NET_NOTHING, 0);
        if (needed <= i + 1) cdz_net_edge_add(s->net, behind, end, CDZ_NET_NOTHING, 0);
        const uint32_t comma = cdz_schema_byte(s, cdz_schema_blank(s, behind), ',');
        cdz_net_edge_add(s->net, cdz_schema_blank(s, comma), next, CDZ_NET_NOTHING, 0);
        key = next;
    }
    const uint32_t behind = cdz_net_node(s->net);
    CDZ_TRY(put_further(w, key, behind));
    cdz_net_edge_add(s->net, behind, end, CDZ_NET_NOTHING, 0);
    const uint32_t comma = cdz_schema_byte(s, cdz_schema_blank(s, behind), ',');
    cdz_net_edge_add(s->net, cdz_schema_blank(s, comma), key, CDZ_NET_NOTHING, 0);
    return CDZ_OK;
}

cdz_status cdz_schema_objects(cdz_schema *s, const cdz_schema_list *list, uint32_t from, uint32_t to)
{
    object_work w = {.s = s, .list = list};
    cdz_status st = collect(&w);
    if (st == CDZ_OK) st = check_counts(&w);
    if (st == CDZ_OK) {
        const uint32_t first = cdz_schema_blank(s, cdz_schema_byte(s, from, '{'));
        const uint32_t end = cdz_net_node(s->net);
        st = chain(&w, first, end);
        cdz_net_byte(s->net, cdz_schema_blank(s, end), to, '}', '}');
    }
    work_free(&w);
    return st;
}
