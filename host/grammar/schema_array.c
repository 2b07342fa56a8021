/* schema_array.c - arrays: items by place, the rest, and how many. */
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
    if (cdz_json_is(prefix, CDZ_JSON_ARRAY) && place < prefix->len) return &prefix->items[place];
    return rest;
}

static uint32_t n_places(const cdz_json *schema)
{
    const cdz_json *prefix = cdz_json_get(schema, "prefixItems");
    if (!prefix) prefix = cdz_json_get(schema, "items");
    return cdz_json_is(prefix, CDZ_JSON_ARRAY) ? prefix->len : 0;
}

static cdz_status item_rule(cdz_schema *s, const cdz_schema_list *list, uint32_t place,
                            uint32_t *rule)
{
    cdz_schema_list own = {0};
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; i < list->n && st == CDZ_OK; i++) {
        const cdz_json *item = item_schema(list->at[i].schema, place);
        if (item) st = cdz_schema_add(s, &own, item);
    }
    if (st == CDZ_OK) st = cdz_schema_rule(s, &own, rule);
    cdz_schema_list_free(&own);
    return st;
}

/* A comma, with what may stand around it. */
static uint32_t comma(cdz_schema *s, uint32_t from)
{
    return cdz_schema_blank(s, cdz_schema_byte(s, cdz_schema_blank(s, from), ','));
}

/* The items behind those with places of their own: min to max of them from `at`; first: no comma before the first. */
static cdz_status rest(cdz_schema *s, uint32_t item, uint32_t min, uint32_t max, uint32_t at,
                       uint32_t end)
{
    cdz_net *net = s->net;
    const uint32_t one = cdz_net_call(net, at, item), more = cdz_net_rule_new(net);
    if (net->status != CDZ_OK) return CDZ_OK;
    const cdz_net_rule r = net->rules[more];
    cdz_net_edge_add(net, comma(s, r.start), r.end, CDZ_NET_CALL, item);
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

static cdz_status items(cdz_schema *s, const cdz_schema_list *list, uint32_t min, uint32_t max,
                        uint32_t at, uint32_t end)
{
    uint32_t places = 0, item;
    for (uint32_t i = 0; i < list->n; i++) {
        const uint32_t n = n_places(list->at[i].schema);
        if (n > places) places = n;
    }
    if (min == 0) cdz_net_edge_add(s->net, at, end, CDZ_NET_NOTHING, 0);
    for (uint32_t i = 0; i < places && i < max; i++) {
        CDZ_TRY(item_rule(s, list, i, &item));
        const uint32_t behind = cdz_net_call(s->net, at, item);
        if (i + 1 >= min) cdz_net_edge_add(s->net, behind, end, CDZ_NET_NOTHING, 0);
        if (i + 1 >= max) return CDZ_OK;
        at = comma(s, behind);
    }
    if (places >= max) return CDZ_OK;
    CDZ_TRY(item_rule(s, list, places, &item));
    return rest(s, item, min > places ? min - places : 0, max == UINT32_MAX ? max : max - places,
                at, end);
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
    const uint32_t at = cdz_schema_blank(s, cdz_schema_byte(s, from, '['));
    const uint32_t end = cdz_net_node(s->net);
    CDZ_TRY(items(s, list, min, max, at, end));
    cdz_net_byte(s->net, cdz_schema_blank(s, end), to, ']', ']');
    return CDZ_OK;
}
