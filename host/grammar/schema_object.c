/* schema_object.c - objects: the declared keys in their order, then further ones.
 *
 * From a place in the order one may take its key or go on to the next, where the key is not required; so n keys need n
 * places, not a place for each set of keys. */
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
    cdz_item_table table; /* slots by name */
    object_pattern patterns[CDZ_SCHEMA_MAX_PATTERNS];
    uint32_t n_patterns;
    cdz_schema_list names; /* of propertyNames */
    cdz_chars_dfa names_dfa;
    bool named;
    uint32_t min, max; /* members */
} object_work;

static void work_free(object_work *w)
{
    free(w->slots);
    free(w->table.at);
    cdz_schema_list_free(&w->names);
    cdz_chars_dfa_free(&w->names_dfa);
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

static uint32_t slot_hash(const void *of, uint32_t number)
{
    const object_work *w = of;
    return name_hash(w->slots[number - 1].name);
}

static cdz_status add_slot(object_work *w, cdz_text_ref name, bool required)
{
    cdz_item_table *t = &w->table;
    if (!cdz_item_table_room(t, w->n_slots, slot_hash, w)) return cdz_schema_no_memory(w->s);
    uint32_t at = name_hash(name) & (t->size - 1);
    for (uint32_t i; w->slots && (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (same_name(w->slots[i - 1].name, name)) {
            w->slots[i - 1].required |= required;
            return CDZ_OK;
        }
    if (!cdz_grow(&w->slots, &w->slots_cap, (size_t)w->n_slots + 1, sizeof *w->slots))
        return cdz_schema_no_memory(w->s);
    w->slots[w->n_slots++] = (object_slot){name, required};
    t->at[at] = w->n_slots;
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

/* Of each entry the first of those that came from it, and of each the next: in the order of the members that lead to them. Numbers
 * are + 1; 0: none. Returns the first that came from none. */
static uint32_t link_entries(const cdz_schema_list *list, uint32_t *first, uint32_t *next)
{
    uint32_t root = 0;
    memset(first, 0, list->n * sizeof *first);
    for (uint32_t i = list->n; i-- > 0;) {
        const cdz_schema_entry *e = &list->at[i];
        uint32_t *of = e->parent ? &first[e->parent - 1] : &root;
        while (*of && list->at[*of - 1].via < e->via) of = &next[*of - 1];
        next[i] = *of;
        *of = i + 1;
    }
    return root;
}

/* Where an entry's own keys stand: at the first keyword about them. */
static uint32_t own_place(const cdz_json *schema)
{
    static const char *const names[] = {"properties", "patternProperties", "additionalProperties"};
    uint32_t first = CDZ_VIA_LAST;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const uint32_t place = cdz_schema_place_of(schema, cdz_json_get(schema, names[i]));
        if (place < first) first = place;
    }
    return first;
}

/* Whether they stand before the member that leads to another entry. */
static bool is_before(const cdz_schema_list *list, uint32_t entry, uint32_t other)
{
    return own_place(list->at[entry].schema) < list->at[other].via;
}

/* Entries as a reader meets them, from left to right: what a member leads to stands where the member does. order has room for
 * 4 n. */
static void read_order(const cdz_schema_list *list, uint32_t *order)
{
    const uint32_t n = list->n;
    uint32_t *first = order + n, *next = first + n, *done = next + n;
    uint32_t at = link_entries(list, first, next);
    memset(done, 0, n * sizeof *done);
    for (uint32_t k = 0; at;) {
        const uint32_t i = at - 1, child = first[i];
        if (!done[i] && (!child || is_before(list, i, child - 1))) {
            done[i] = 1;
            order[k++] = i;
        } else if (child) {
            first[i] = next[child - 1];
            at = child;
        } else {
            at = list->at[i].parent ? list->at[i].parent : next[i];
        }
    }
}

static cdz_status collect_entry(object_work *w, uint32_t i)
{
    const cdz_json *schema = w->list->at[i].schema;
    const cdz_json *props = cdz_json_get(schema, "properties");
    const cdz_json *patterns = cdz_json_get(schema, "patternProperties");
    CDZ_TRY(check_object(w, props, "properties"));
    CDZ_TRY(check_object(w, patterns, "patternProperties"));
    for (uint32_t k = 0; props && k < props->len; k++)
        CDZ_TRY(
            add_slot(w, (cdz_text_ref){props->members[k].key, props->members[k].key_len}, false));
    for (uint32_t k = 0; patterns && k < patterns->len; k++)
        CDZ_TRY(add_pattern(w, i, &patterns->members[k]));
    return CDZ_OK;
}

static cdz_status collect_declared(object_work *w)
{
    uint32_t *order = malloc((4 * (size_t)w->list->n + 1) * sizeof *order);
    cdz_status st = CDZ_OK;
    if (!order) return cdz_schema_no_memory(w->s);
    read_order(w->list, order);
    for (uint32_t i = 0; st == CDZ_OK && i < w->list->n; i++) st = collect_entry(w, order[i]);
    free(order);
    return st;
}

static cdz_status collect(object_work *w)
{
    CDZ_TRY(collect_declared(w));
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

static cdz_status collect_names(object_work *w)
{
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *names = cdz_json_get(w->list->at[i].schema, "propertyNames");
        if (!names) continue;
        w->named = true;
        CDZ_TRY(cdz_schema_add(w->s, &w->names, names));
    }
    return w->named ? cdz_schema_keys(w->s, &w->names, &w->names_dfa) : CDZ_OK;
}

/* How many members there may be. */
static cdz_status count_members(object_work *w)
{
    uint32_t n;
    bool found;
    w->min = 0;
    w->max = UINT32_MAX;
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *schema = w->list->at[i].schema;
        CDZ_TRY(cdz_schema_count(w->s, schema, "minProperties", &n, &found));
        if (found && n > w->min) w->min = n;
        CDZ_TRY(cdz_schema_count(w->s, schema, "maxProperties", &n, &found));
        if (found && n < w->max) w->max = n;
    }
    return CDZ_OK;
}

/* --- what a key's value must satisfy ------------------------------------------------------------------------ */

/* Whether an entry, or one that came from it, says something about a key. */
static bool is_evaluated(const object_work *w, uint32_t entry, const cdz_text_ref *name,
                         uint32_t set)
{
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *schema = w->list->at[i].schema;
        if (!cdz_schema_came_from(w->list, i, entry)) continue;
        if (cdz_json_get(schema, "additionalProperties")) return true;
        if (name && cdz_schema_member(cdz_json_get(schema, "properties"), name->text, name->len))
            return true;
        for (uint32_t p = 0; p < w->n_patterns; p++)
            if (w->patterns[p].entry == i &&
                (name ? cdz_chars_accepts(&w->patterns[p].keys, name->text, name->len)
                      : (set >> p & 1) != 0))
                return true;
    }
    return false;
}

static cdz_status add_unevaluated(object_work *w, const cdz_text_ref *name, uint32_t set,
                                  cdz_schema_list *own)
{
    for (uint32_t i = 0; i < w->list->n; i++) {
        const cdz_json *v = cdz_schema_unevaluated(w->list, i, "unevaluatedProperties");
        if (v && !is_evaluated(w, i, name, set)) CDZ_TRY(cdz_schema_add(w->s, own, v));
    }
    return CDZ_OK;
}

/* name NULL: a further key that matches the patterns of a set, and no others. */
static cdz_status value_rule(object_work *w, const cdz_text_ref *name, uint32_t set, uint32_t *rule)
{
    cdz_schema_list own = {0};
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; i < w->list->n && st == CDZ_OK; i++) {
        const cdz_json *schema = w->list->at[i].schema;
        const cdz_json *props = name ? cdz_json_get(schema, "properties") : NULL;
        const cdz_json *is = props ? cdz_schema_member(props, name->text, name->len) : NULL;
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
    if (st == CDZ_OK) st = add_unevaluated(w, name, set, &own);
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
    cdz_net_edge_add(s->net, cdz_schema_colon(s, quoted), to, CDZ_NET_CALL, rule);
}

static cdz_status put_slot(object_work *w, uint32_t slot, uint32_t from, uint32_t to)
{
    uint32_t rule;
    cdz_text_ref name = w->slots[slot].name;
    if (w->named && !cdz_chars_accepts(&w->names_dfa, name.text, name.len)) return CDZ_OK;
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
    cdz_text_ref *names = malloc(((size_t)w->n_slots + 1) * sizeof *names);
    if (!names) return cdz_schema_no_memory(w->s);
    for (uint32_t i = 0; i < w->n_slots; i++) names[i] = w->slots[i].name;
    const cdz_status st = cdz_schema_texts(w->s, names, w->n_slots, out);
    free(names);
    return st;
}

/* Keys that match the patterns of a set, no other pattern and no slot: `keys` begins as all but the slots. */
static cdz_status keys_of_set(object_work *w, uint32_t set, cdz_chars_dfa *keys)
{
    if (w->named) {
        cdz_chars_dfa next;
        CDZ_TRY(cdz_chars_combine(keys, &w->names_dfa, CDZ_CHARS_AND, &next, w->s->err));
        cdz_chars_dfa_free(keys);
        *keys = next;
    }
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
    if (w->n_patterns || w->named) {
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
        cdz_net_edge_add(s->net, cdz_schema_comma(s, behind), next, CDZ_NET_NOTHING, 0);
        key = next;
    }
    const uint32_t further = cdz_net_node(s->net), behind = cdz_net_node(s->net);
    cdz_net_edge_add(s->net, key, further, CDZ_NET_NOTHING, 0);
    CDZ_TRY(put_further(w, further, behind));
    cdz_net_edge_add(s->net, behind, end, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(s->net, cdz_schema_comma(s, behind), further, CDZ_NET_NOTHING, 0);
    return CDZ_OK;
}

/* --- the chain, counted ------------------------------------------------------------------------------------------- */

/* Nodes by how many members were written: where the next one is, up to n. */
typedef struct counted {
    uint32_t *key, *next, n;
    uint32_t end, needed; /* slots before this one must still come */
} counted;

/* From a node behind a member to the end, if there are enough, and to the next key. */
static void go_on(object_work *w, const counted *c, uint32_t from, uint32_t slot, uint32_t n)
{
    if (c->needed <= slot && n >= w->min)
        cdz_net_edge_add(w->s->net, from, c->end, CDZ_NET_NOTHING, 0);
    if (n < w->max)
        cdz_net_edge_add(w->s->net, cdz_schema_comma(w->s, from), c->next[n < c->n ? n : c->n - 1],
                         CDZ_NET_NOTHING, 0);
}

static cdz_status counted_slot(object_work *w, counted *c, uint32_t slot)
{
    cdz_net *net = w->s->net;
    const uint32_t one = cdz_net_rule_new(net);
    if (net->status != CDZ_OK) return CDZ_OK; /* told at the end */
    const cdz_net_rule r = net->rules[one];
    CDZ_TRY(put_slot(w, slot, r.start, r.end));
    for (uint32_t n = 0; n < c->n; n++) c->next[n] = cdz_net_node(net);
    for (uint32_t n = 0; n < c->n && n <= slot; n++) {
        if (n < w->max) go_on(w, c, cdz_net_call(net, c->key[n], one), slot + 1, n + 1);
        if (!w->slots[slot].required)
            cdz_net_edge_add(net, c->key[n], c->next[n], CDZ_NET_NOTHING, 0);
    }
    memcpy(c->key, c->next, c->n * sizeof *c->key);
    return CDZ_OK;
}

/* At least one more key; n were written. */
static void counted_rest(object_work *w, const counted *c, uint32_t n, uint32_t one, uint32_t more)
{
    cdz_net *net = w->s->net;
    const uint32_t least = w->min > n + 1 ? w->min - n - 1 : 0;
    const uint32_t most = w->max == UINT32_MAX ? w->max : w->max - n - 1;
    const uint32_t all = cdz_net_repeat(net, more, least, most);
    cdz_net_edge_add(net, cdz_net_call(net, c->key[n], one), c->end, CDZ_NET_CALL, all);
}

static cdz_status counted_further(object_work *w, const counted *c)
{
    cdz_net *net = w->s->net;
    const uint32_t one = cdz_net_rule_new(net), more = cdz_net_rule_new(net);
    if (net->status != CDZ_OK) return CDZ_OK; /* told at the end */
    const cdz_net_rule r = net->rules[one], m = net->rules[more];
    CDZ_TRY(put_further(w, r.start, r.end));
    cdz_net_edge_add(net, cdz_schema_comma(w->s, m.start), m.end, CDZ_NET_CALL, one);
    for (uint32_t n = 0; n < c->n && n <= w->n_slots && net->status == CDZ_OK; n++)
        if (n < w->max) counted_rest(w, c, n, one, more);
    return CDZ_OK;
}

static cdz_status counted_chain(object_work *w, uint32_t first, uint32_t end)
{
    /* from the least number on, only a most tells counts apart */
    const uint32_t most = w->max == UINT32_MAX ? w->min : w->max;
    counted c = {.n = (most < w->n_slots ? most : w->n_slots) + 1, .end = end};
    if ((uint64_t)c.n * (w->n_slots + 1) > CDZ_SCHEMA_MAX_GRID)
        return cdz_schema_refuse(w->s, w->list->at[0].schema,
                                 w->max == UINT32_MAX ? "minProperties" : "maxProperties",
                                 "with so many properties (grammar_max_states)");
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].required) c.needed = i + 1;
    c.key = malloc(2 * (size_t)c.n * sizeof *c.key);
    if (!c.key) return cdz_schema_no_memory(w->s);
    c.next = c.key + c.n;
    for (uint32_t n = 0; n < c.n; n++) c.key[n] = n ? cdz_net_node(w->s->net) : first;
    if (!c.needed && !w->min) cdz_net_edge_add(w->s->net, first, end, CDZ_NET_NOTHING, 0);
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; i < w->n_slots && st == CDZ_OK && w->s->net->status == CDZ_OK; i++)
        st = counted_slot(w, &c, i);
    if (st == CDZ_OK) st = counted_further(w, &c);
    free(c.key);
    return st;
}

/* Whether a number of members says more than the required keys do. */
static bool is_counted(const object_work *w)
{
    uint32_t required = 0;
    for (uint32_t i = 0; i < w->n_slots; i++) required += w->slots[i].required;
    return w->max != UINT32_MAX || w->min > required;
}

cdz_status cdz_schema_objects(cdz_schema *s, const cdz_schema_list *list, uint32_t from, uint32_t to)
{
    object_work w = {.s = s, .list = list};
    cdz_status st = collect(&w);
    if (st == CDZ_OK) st = collect_names(&w);
    if (st == CDZ_OK) st = count_members(&w);
    if (st == CDZ_OK && w.min > w.max) {
        work_free(&w);
        return CDZ_OK;
    }
    if (st == CDZ_OK) {
        const uint32_t first = cdz_schema_blank(s, cdz_schema_byte(s, from, '{'));
        const uint32_t end = cdz_net_node(s->net);
        st = is_counted(&w) ? counted_chain(&w, first, end) : chain(&w, first, end);
        cdz_net_byte(s->net, cdz_schema_blank(s, end), to, '}', '}');
    }
    work_free(&w);
    return st;
}
