/* ways.c - whether all characters of a kind lead from a configuration to one other: so whole parts of a vocabulary may come at once. */
#include "grammar/states.h"

enum { FEW_PLACES = 16 }; /* of a configuration whose row is filled at once */

/* Characters whose bytes differ independently. */
typedef struct way_block {
    uint8_t n, lo[4], hi[4];
} way_block;

static const way_block blocks[] = {
    /* small letters */
    {1, {'a'}, {'z'}},
    /* letters */
    {1, {'A'}, {'Z'}},
    /* U+00A1 on without Unicode's spaces */
    {2, {0xC2, 0xA1}, {0xC2, 0xBF}},
    {2, {0xC3, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xE1, 0x99, 0xBF}},
    {3, {0xE1, 0x9A, 0x81}, {0xE1, 0x9A, 0xBF}},
    {3, {0xE1, 0x9B, 0x80}, {0xE1, 0xBF, 0xBF}},
    {3, {0xE2, 0x80, 0x8B}, {0xE2, 0x80, 0xA7}},
    {3, {0xE2, 0x80, 0xAA}, {0xE2, 0x80, 0xAE}},
    {3, {0xE2, 0x80, 0xB0}, {0xE2, 0x80, 0xBF}},
    {3, {0xE2, 0x81, 0x80}, {0xE2, 0x81, 0x9E}},
    {3, {0xE2, 0x81, 0xA0}, {0xE2, 0x81, 0xBF}},
    {3, {0xE2, 0x82, 0x80}, {0xE2, 0xBF, 0xBF}},
    {3, {0xE3, 0x80, 0x81}, {0xE3, 0x80, 0xBF}},
    {3, {0xE3, 0x81, 0x80}, {0xE3, 0xBF, 0xBF}},
    {3, {0xE4, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEE, 0xBF, 0xBF}},
    {3, {0xEF, 0x80, 0x80}, {0xEF, 0xBA, 0xBF}},
    {3, {0xEF, 0xBB, 0x80}, {0xEF, 0xBB, 0xBE}},
    {3, {0xEF, 0xBC, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
    /* the rest of ASCII that is seen */
    {1, {'!'}, {'!'}},
    {1, {'#'}, {'@'}},
    {1, {'['}, {'['}},
    {1, {']'}, {'`'}},
    {1, {'{'}, {'~'}},
    /* spaces and controls */
    {1, {' '}, {' '}},
    {1, {0x7F}, {0x7F}},
    {2, {0xC2, 0x80}, {0xC2, 0xA0}},
    {3, {0xE1, 0x9A, 0x80}, {0xE1, 0x9A, 0x80}},
    {3, {0xE2, 0x80, 0x80}, {0xE2, 0x80, 0x8A}},
    {3, {0xE2, 0x80, 0xA8}, {0xE2, 0x80, 0xA9}},
    {3, {0xE2, 0x80, 0xAF}, {0xE2, 0x80, 0xAF}},
    {3, {0xE2, 0x81, 0x9F}, {0xE2, 0x81, 0x9F}},
    {3, {0xE3, 0x80, 0x80}, {0xE3, 0x80, 0x80}},
    {3, {0xEF, 0xBB, 0xBF}, {0xEF, 0xBB, 0xBF}},
};

/* Blocks of a kind: those before. */
static const uint8_t n_blocks[CDZ_N_WAYS] = {
    [CDZ_WAY_PLAIN] = sizeof blocks / sizeof *blocks,
    [CDZ_WAY_SOLID] = 30,
    [CDZ_WAY_WORD] = 25,
    [CDZ_WAY_LETTERS] = 2,
    [CDZ_WAY_SMALL] = 1,
};

/* Whether all of a block leads to one configuration. Bytes that the network does not tell apart, and those that come to
 * where the byte before did, are looked at once. */
static bool block_leads(cdz_grammar_states *s, uint32_t config, const way_block *b, uint32_t depth,
                        uint32_t to)
{
    uint32_t last = CDZ_STATE_UNKNOWN, class = CDZ_STATE_UNKNOWN;
    for (uint32_t byte = b->lo[depth]; byte <= b->hi[depth]; byte++) {
        if (s->net->class_of[byte] == class) continue;
        class = s->net->class_of[byte];
        const uint32_t next = cdz_grammar_states_next(s, config, (uint8_t)byte);
        if (next == last) continue;
        last = next;
        if (depth + 1 == b->n ? next != to : !block_leads(s, next, b, depth + 1, to))
            return false; /* at most four deep */
    }
    return true;
}

/* Whether all plain characters lead one way by what the network knows of its nodes. */
static bool plain_by_nodes(cdz_grammar_states *s, uint32_t config)
{
    const cdz_net_config *c = &s->configs[config];
    for (uint32_t i = 0; i < c->n_live; i++)
        if (s->net->plain_to[s->items[c->live + i].node] == CDZ_NET_SOME_PLAIN) return false;
    return true;
}

/* Whether bytes with which characters of the kind begin may come: 0: none, 1: some, 2: all. */
static int may_begin(cdz_grammar_states *s, uint32_t config, cdz_net_way way)
{
    const cdz_net_classes *takes = cdz_grammar_states_takes(s, config);
    bool none = true, all = true;
    for (uint32_t i = 0; takes && i < 4; i++) {
        const uint64_t begins = s->net->begins[way].bits[i];
        none &= !(takes->bits[i] & begins);
        all &= (takes->bits[i] & begins) == begins;
    }
    return none ? 0 : all ? 2 : 1;
}

/* Whether a kind's characters of one byte, or its others, all lead to one configuration. */
static bool all_lead(cdz_grammar_states *s, uint32_t config, cdz_net_way way, bool single,
                     uint32_t to)
{
    for (uint32_t i = 0; i < n_blocks[way]; i++)
        if ((blocks[i].n == 1) == single && !block_leads(s, config, &blocks[i], 0, to))
            return false;
    return true;
}

static uint32_t find_way(cdz_grammar_states *s, uint32_t config, cdz_net_way way)
{
    const int begin = may_begin(s, config, way);
    if (begin < 2) return begin ? 1 : 2;
    const uint32_t next = cdz_grammar_states_next(s, config, 'a');
    if (way == CDZ_WAY_PLAIN && plain_by_nodes(s, config)) return next + 2;
    if (!all_lead(s, config, way, true, next)) return 1;
    if (way <= CDZ_WAY_WORD && s->configs[config].n_live <= FEW_PLACES)
        cdz_grammar_states_fill(s, config); /* it is about most bytes */
    return all_lead(s, config, way, false, next) ? next + 2 : 1;
}

bool cdz_grammar_states_way(cdz_grammar_states *s, uint32_t config, cdz_net_way way, uint32_t *to)
{
    uint32_t known = s->configs[config].ways[way];
    if (!known) {
        const cdz_net_slack before = s->met;
        s->met = CDZ_NET_SLACK_ALL;
        known = find_way(s, config, way);
        if (s->status == CDZ_OK) s->configs[config].ways[way] = known;
        cdz_net_slack_join(&s->configs[config].way_slack, &s->met);
        s->met = before;
    }
    cdz_net_slack_join(&s->met, &s->configs[config].way_slack);
    *to = known - 2;
    return known > 1;
}

uint32_t cdz_grammar_states_rounds(cdz_grammar_states *s, uint32_t before, uint32_t config,
                                   uint32_t enough)
{
    if (before == config) return UINT32_MAX;
    const cdz_net_config *a = &s->configs[before], *b = &s->configs[config];
    if (a->n_items != 1 || b->n_items != 1) return 0;
    const cdz_net_item x = s->items[a->items], y = s->items[b->items];
    const uint32_t first = s->net->first[y.node];
    if (x.node != y.node || x.frame != y.frame || x.count + 1 != y.count) return 0;
    const cdz_net_edge *e = &s->net->edges[first];
    if (s->net->first[y.node + 1] != first + 1 || e->kind != CDZ_NET_COUNT_ADD) return 0;
    const cdz_net_rule *rule = &s->net->rules[e->arg];
    const bool may_leave =
        y.count >= rule->min; /* else what follows might take the same characters */
    const uint32_t more = rule->max == UINT32_MAX ? UINT32_MAX : rule->max - y.count - 1;
    cdz_net_slack slack = {1, 0};
    if (may_leave && more >= enough)
        slack = (cdz_net_slack){more - enough + 1, y.count - rule->min};
    cdz_net_slack_join(&s->met, &slack);
    return may_leave ? more : 0;
}
