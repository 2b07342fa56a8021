/* schema_array.c - arrays: items by place, the rest, and how many. */
#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

/* What a schema says of the item at a place; NULL: nothing. */
static const cdz_json *item_schema(const cdz_json *schema, uint32_t place)
{
    const cdz_json *prefix = cdz_json_get(schema, "prefixItems"),
                   *items = cdz_json_get(schema, "items");
    const cdz_json *rest = items;
    if (!prefix && cdz_json_is(items, CDZ_JSON_ARRAY)) {
        prefix = items;
        rest = cdz_json_get(schema, "additionalItems");
    }
    if (prefix && cdz_json_is(prefix, CDZ_JSON_ARRAY) && place < prefix->len)
        return &prefix->items[place];
    return rest;
}

static uint32_t n_places(const cdz_json *schema)
{
    const cdz_json *prefix = cdz_json_get(schema, "prefixItems");
    if (!prefix) prefix = cdz_json_get(schema, "items");
    return cdz_json_is(prefix, CDZ_JSON_ARRAY) ? prefix->len : 0;
}

/* Whether an entry, or one that came from it, says something about the item at a place. */
static bool is_evaluated(const cdz_schema_list *list, uint32_t entry, uint32_t place)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (item_schema(list->at[i].schema, place) && cdz_schema_came_from(list, i, entry))
            return true;
    return false;
}

static cdz_status add_unevaluated(cdz_schema *s, const cdz_schema_list *list, uint32_t place,
                                  cdz_schema_list *own)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *v = cdz_schema_unevaluated(list, i, "unevaluatedItems");
        if (v && !is_evaluated(list, i, place)) CDZ_TRY(cdz_schema_add(s, own, v));
    }
    return CDZ_OK;
}

/* What must hold of the item at a place. */
static cdz_status item_list(cdz_schema *s, const cdz_schema_list *list, uint32_t place,
                            cdz_schema_list *own)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *item = item_schema(list->at[i].schema, place);
        if (item) CDZ_TRY(cdz_schema_add(s, own, item));
    }
    return add_unevaluated(s, list, place, own);
}

/* also: n schemas that must hold beside; NULL among them: nothing. */
static cdz_status item_rule(cdz_schema *s, const cdz_schema_list *list, uint32_t place,
                            const cdz_json *const *also, uint32_t n, uint32_t *rule)
{
    cdz_schema_list own = {0};
    cdz_status st = item_list(s, list, place, &own);
    for (uint32_t i = 0; i < n && st == CDZ_OK; i++)
        if (also[i]) st = cdz_schema_add(s, &own, also[i]);
    if (st == CDZ_OK) st = cdz_schema_rule(s, &own, rule);
    cdz_schema_list_free(&own);
    return st;
}

/* The items behind those with places of their own: min to max of them from `at`; first: no comma before the first. */
static cdz_status rest(cdz_schema *s, uint32_t item, uint32_t min, uint32_t max, uint32_t at,
                       uint32_t end)
{
    cdz_net *net = s->net;
    const uint32_t one = cdz_net_call(net, at, item), more = cdz_net_rule_new(net);
    if (net->status != CDZ_OK) return CDZ_OK;
    const cdz_net_rule r = net->rules[more];
    cdz_net_edge_add(net, cdz_schema_comma(s, r.start), r.end, CDZ_NET_CALL, item);
    if (min <= 1 && max == UINT32_MAX) {
        cdz_net_edge_add(net, one, one, CDZ_NET_CALL, more);
        cdz_net_edge_add(net, one, end, CDZ_NET_NOTHING, 0);
        return CDZ_OK;
    }
    const uint32_t all =
        cdz_net_repeat(net, more, min ? min - 1 : 0, max == UINT32_MAX ? max : max - 1);
    cdz_net_edge_add(net, one, end, CDZ_NET_CALL, all);
    return CDZ_OK;
}

static uint32_t all_places(const cdz_schema_list *list)
{
    uint32_t places = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const uint32_t n = n_places(list->at[i].schema);
        if (n > places) places = n;
    }
    return places;
}

static cdz_status items(cdz_schema *s, const cdz_schema_list *list, uint32_t min, uint32_t max,
                        uint32_t at, uint32_t end)
{
    const uint32_t places = all_places(list);
    uint32_t item;
    if (min == 0) cdz_net_edge_add(s->net, at, end, CDZ_NET_NOTHING, 0);
    for (uint32_t i = 0; i < places && i < max; i++) {
        CDZ_TRY(item_rule(s, list, i, NULL, 0, &item));
        const uint32_t behind = cdz_net_call(s->net, at, item);
        if (i + 1 >= min) cdz_net_edge_add(s->net, behind, end, CDZ_NET_NOTHING, 0);
        if (i + 1 >= max) return CDZ_OK;
        at = cdz_schema_comma(s, behind);
    }
    if (places >= max) return CDZ_OK;
    CDZ_TRY(item_rule(s, list, places, NULL, 0, &item));
    return rest(s, item, min > places ? min - places : 0, max == UINT32_MAX ? max : max - places,
                at, end);
}

/* --- contains: a place for each number of items and of those that are wanted ------------------------------------- */

typedef struct wanted {
    const cdz_json *schema;
    const cdz_json *denied; /* what is not wanted; NULL: there is no most */
    uint32_t min, max;
    uint32_t most, step; /* more are not counted; how far columns of one more lie apart */
} wanted;

/* What is wanted at one place, each by a contains of its own. */
typedef struct wishes {
    wanted at[CDZ_SCHEMA_MAX_WANTED];
    uint32_t n;
    uint64_t n_columns; /* for each number of each */
} wishes;

typedef struct grid {
    cdz_schema *s;
    const cdz_schema_list *list;
    const wishes *wishes;
    uint32_t min, max, n_rows; /* of items; rows: items so far, the last one for all further */
    uint32_t end;
} grid;

static cdz_status add_wanted(cdz_schema *s, wishes *all, const cdz_json *schema)
{
    const cdz_json *own = cdz_json_get(schema, "contains");
    uint32_t min = 1, max = UINT32_MAX, n;
    bool found;
    if (!own) return CDZ_OK;
    CDZ_TRY(cdz_schema_count(s, schema, "minContains", &n, &found));
    if (found) min = n;
    CDZ_TRY(cdz_schema_count(s, schema, "maxContains", &n, &found));
    if (found) max = n;
    if (!min && max == UINT32_MAX) return CDZ_OK;
    if (all->n == CDZ_SCHEMA_MAX_WANTED)
        return cdz_schema_refuse(s, own, "contains", "more than 3 times at one place");
    wanted *w = &all->at[all->n++];
    *w = (wanted){own, NULL, min, max, max == UINT32_MAX ? min : max, (uint32_t)all->n_columns};
    all->n_columns *= (uint64_t)w->most + 1;
    if (all->n_columns > CDZ_SCHEMA_MAX_GRID)
        return cdz_schema_refuse(s, own, "contains", "with counts so large (grammar_max_states)");
    return max == UINT32_MAX ? CDZ_OK : cdz_schema_denied(s, own, &w->denied);
}

static cdz_status wanted_of(cdz_schema *s, const cdz_schema_list *list, wishes *all)
{
    *all = (wishes){.n_columns = 1};
    for (uint32_t i = 0; i < list->n; i++) CDZ_TRY(add_wanted(s, all, list->at[i].schema));
    return CDZ_OK;
}

/* Of a column: how many of one kind there were. */
static uint32_t count_in(const wanted *w, uint32_t column)
{
    return column / w->step % (w->most + 1);
}

static bool are_enough(const wishes *all, uint32_t column)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (count_in(&all->at[i], column) < all->at[i].min) return false;
    return true;
}

/* Where an array goes on behind an item: its end, or a comma and the next place. */
static void behind(const grid *g, uint32_t from, uint32_t n, uint32_t column, const uint32_t *next)
{
    if (n >= g->min && are_enough(g->wishes, column))
        cdz_net_edge_add(g->s->net, from, g->end, CDZ_NET_NOTHING, 0);
    if (n < g->max)
        cdz_net_edge_add(g->s->net, cdz_schema_comma(g->s, from), next[column], CDZ_NET_NOTHING, 0);
}

/* The column behind an item that counts for a set; false: there were enough, or too many. */
static bool counted(const wishes *all, uint32_t set, uint32_t *column)
{
    const uint32_t from = *column;
    for (uint32_t i = 0; i < all->n; i++) {
        if (!(set >> i & 1)) continue;
        if (count_in(&all->at[i], from) == all->at[i].most) return false;
        *column += all->at[i].step;
    }
    return true;
}

/* The items that count for a set of what is wanted. */
static cdz_status grid_set(const grid *g, uint32_t row, uint32_t set, const uint32_t *at,
                           const uint32_t *next)
{
    const cdz_json *also[CDZ_SCHEMA_MAX_WANTED];
    uint32_t item;
    for (uint32_t i = 0; i < g->wishes->n; i++)
        also[i] = set >> i & 1 ? g->wishes->at[i].schema : g->wishes->at[i].denied;
    CDZ_TRY(item_rule(g->s, g->list, row, also, g->wishes->n, &item));
    for (uint32_t k = 0; k < g->wishes->n_columns; k++) {
        uint32_t column = k;
        if (counted(g->wishes, set, &column))
            behind(g, cdz_net_call(g->s->net, at[k], item), row + 1, column, next);
    }
    return CDZ_OK;
}

static cdz_status grid_items(const grid *g, uint32_t first)
{
    const uint32_t n = (uint32_t)g->wishes->n_columns;
    uint32_t *at = malloc(2 * (size_t)n * sizeof *at);
    if (!at) return cdz_schema_no_memory(g->s);
    uint32_t *next = at + n;
    cdz_status st = CDZ_OK;
    for (uint32_t k = 0; k < n; k++) at[k] = k ? cdz_net_node(g->s->net) : first;
    if (!g->min && are_enough(g->wishes, 0))
        cdz_net_edge_add(g->s->net, first, g->end, CDZ_NET_NOTHING, 0);
    for (uint32_t i = 0; i < g->n_rows && st == CDZ_OK && g->s->net->status == CDZ_OK; i++) {
        const bool last = i + 1 == g->n_rows && g->max == UINT32_MAX;
        for (uint32_t k = 0; k < n; k++) next[k] = last ? at[k] : cdz_net_node(g->s->net);
        for (uint32_t set = 0; st == CDZ_OK && set < 1u << g->wishes->n; set++)
            st = grid_set(g, i, set, at, next);
        memcpy(at, next, n * sizeof *at);
    }
    free(at);
    return st;
}

static cdz_status wanted_items(cdz_schema *s, const cdz_schema_list *list, const wishes *all,
                               uint32_t min, uint32_t max, uint32_t at, uint32_t end)
{
    const uint32_t places = all_places(list);
    const uint64_t rows = max != UINT32_MAX ? max : (uint64_t)(min > places ? min : places) + 1;
    const grid g = {.s = s,
                    .list = list,
                    .wishes = all,
                    .min = min,
                    .max = max,
                    .n_rows = (uint32_t)rows,
                    .end = end};
    if (rows > CDZ_SCHEMA_MAX_GRID || rows * all->n_columns > CDZ_SCHEMA_MAX_GRID)
        return cdz_schema_refuse(s, all->at[0].schema, "contains",
                                 "with counts so large (grammar_max_states)");
    return grid_items(&g, at);
}

/* --- items that must differ: a place for each set of values that have come ---------------------------------------- */

typedef struct unique {
    uint32_t rules[CDZ_SCHEMA_MAX_UNIQUE]; /* each takes one value */
    const cdz_json *values[CDZ_SCHEMA_MAX_UNIQUE];
    uint32_t n, min, max, end;
} unique;

/* The keyword, where it says something; NULL: it does not. */
static const cdz_json *asks_unique(const cdz_schema_list *list, uint32_t max)
{
    for (uint32_t i = 0; i < list->n; i++) {
        const cdz_json *v = cdz_json_get(list->at[i].schema, "uniqueItems");
        if (cdz_json_is(v, CDZ_JSON_BOOL) && v->boolean && max > 1) return v;
    }
    return NULL;
}

static cdz_status add_value(cdz_schema *s, unique *u, const cdz_json *value, const cdz_json *keyword)
{
    for (uint32_t i = 0; i < u->n; i++)
        if (cdz_schema_same(u->values[i], value)) return CDZ_OK;
    if (u->n == CDZ_SCHEMA_MAX_UNIQUE)
        return cdz_schema_refuse(s, keyword, "uniqueItems",
                                 "of more than 12 values (grammar_max_states)");
    const uint32_t rule = cdz_net_rule_new(s->net);
    if (s->net->status != CDZ_OK) return CDZ_OK; /* told at the end */
    const cdz_net_rule r = s->net->rules[rule];
    u->rules[u->n] = rule;
    u->values[u->n++] = value;
    return cdz_schema_literal(s, value, r.start, r.end);
}

static cdz_status unique_values(cdz_schema *s, const cdz_schema_list *list, const cdz_json *keyword,
                                unique *u)
{
    cdz_schema_list own = {0};
    const cdz_json *values;
    uint32_t n = 0;
    cdz_status st = item_list(s, list, 0, &own);
    cdz_schema_spelt(&own, &values, &n);
    if (st == CDZ_OK && (!values || all_places(list)))
        st = cdz_schema_refuse(s, keyword, "uniqueItems",
                               "but for items that one enum spells out, all by the same schema");
    for (uint32_t i = 0; i < n && st == CDZ_OK; i++) {
        bool valid;
        st = cdz_schema_valid(s, &own, &values[i], 0, &valid);
        if (st == CDZ_OK && valid) st = add_value(s, u, &values[i], keyword);
    }
    cdz_schema_list_free(&own);
    return st;
}

/* Behind an item, when the values of a set have come. */
static void behind_set(cdz_schema *s, const unique *u, uint32_t set, uint32_t from, uint32_t next)
{
    const uint32_t n = (uint32_t)__builtin_popcount(set);
    if (n >= u->min) cdz_net_edge_add(s->net, from, u->end, CDZ_NET_NOTHING, 0);
    if (n < u->max && n < u->n)
        cdz_net_edge_add(s->net, cdz_schema_comma(s, from), next, CDZ_NET_NOTHING, 0);
}

static cdz_status unique_items(cdz_schema *s, const unique *u, uint32_t first)
{
    const uint32_t n_sets = 1u << u->n;
    uint32_t *at = malloc(2 * (size_t)n_sets * sizeof *at);
    if (!at) return cdz_schema_no_memory(s);
    uint32_t *behind = at + n_sets; /* an item that completed the set */
    if (!u->min) cdz_net_edge_add(s->net, first, u->end, CDZ_NET_NOTHING, 0);
    for (uint32_t set = 0; set < n_sets; set++) {
        at[set] = set ? cdz_net_node(s->net) : first;
        behind[set] = cdz_net_node(s->net);
        if (set) behind_set(s, u, set, behind[set], at[set]);
    }
    for (uint32_t set = 0; set < n_sets && s->net->status == CDZ_OK; set++)
        for (uint32_t i = 0; i < u->n; i++)
            if (!(set >> i & 1))
                cdz_net_edge_add(s->net, at[set], behind[set | 1u << i], CDZ_NET_CALL, u->rules[i]);
    free(at);
    return CDZ_OK;
}

/* The items from a node on, of whichever kind. */
static cdz_status put_items(cdz_schema *s, const cdz_schema_list *list, const wishes *w,
                            uint32_t min, uint32_t max, uint32_t at, uint32_t end)
{
    const cdz_json *keyword = asks_unique(list, max);
    unique u = {.min = min, .max = max, .end = end};
    if (keyword && w->n) return cdz_schema_refuse(s, keyword, "uniqueItems", "beside contains");
    if (w->n) return wanted_items(s, list, w, min, max, at, end);
    if (!keyword) return items(s, list, min, max, at, end);
    CDZ_TRY(unique_values(s, list, keyword, &u));
    return unique_items(s, &u, at);
}

cdz_status cdz_schema_arrays(cdz_schema *s, const cdz_schema_list *list, uint32_t from, uint32_t to)
{
    uint32_t min = 0, max = UINT32_MAX;
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t n;
        bool found;
        CDZ_TRY(cdz_schema_count(s, list->at[i].schema, "minItems", &n, &found));
        if (found && n > min) min = n;
        CDZ_TRY(cdz_schema_count(s, list->at[i].schema, "maxItems", &n, &found));
        if (found && n < max) max = n;
    }
    if (min > max) return CDZ_OK;
    wishes w;
    CDZ_TRY(wanted_of(s, list, &w));
    for (uint32_t i = 0; i < w.n; i++)
        if (w.at[i].min > w.at[i].max) return CDZ_OK;
    const uint32_t at = cdz_schema_blank(s, cdz_schema_byte(s, from, '['));
    const uint32_t end = cdz_net_node(s->net);
    CDZ_TRY(put_items(s, list, &w, min, max, at, end));
    cdz_net_byte(s->net, cdz_schema_blank(s, end), to, ']', ']');
    return CDZ_OK;
}
