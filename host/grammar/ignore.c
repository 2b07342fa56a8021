/* ignore.c - what may stand between terminals. Each node comes twice: before the first terminal of a text, and after it; so
 * do rules: one that begins a text and takes something, and one that goes on. */
#include "grammar/ignore.h"

#include "grammar/grow.h"

void cdz_ignore_free(cdz_ignore_rules *rules)
{
    free(rules->terminals);
    free(rules->uses);
}

bool cdz_ignore_add_terminal(cdz_ignore_rules *rules, uint32_t rule)
{
    if (!cdz_grow(&rules->terminals, &rules->terminals_cap, (size_t)rules->n_terminals + 1,
                  sizeof *rules->terminals))
        return false;
    rules->terminals[rules->n_terminals++] = rule;
    return true;
}

bool cdz_ignore_add_use(cdz_ignore_rules *rules, uint32_t user, uint32_t used)
{
    if (user == UINT32_MAX) return true;
    if (!cdz_grow(&rules->uses, &rules->uses_cap, (size_t)rules->n_uses + 1, sizeof *rules->uses))
        return false;
    rules->uses[rules->n_uses++] = (cdz_code_span){user, used};
    return true;
}

/* Takes out, again and again, terminals that use none that is left; who stays is on a circle, or leads to one. */
bool cdz_ignore_circle(const cdz_ignore_rules *rules, uint32_t n, uint32_t *found)
{
    uint32_t *waits = calloc((size_t)n + 1, sizeof *waits);
    *found = UINT32_MAX;
    if (!waits) return false;
    for (uint32_t i = 0; i < rules->n_uses; i++) waits[rules->uses[i].lo]++;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t r = 0; r < n; r++) {
            if (waits[r]) continue;
            waits[r] = UINT32_MAX; /* out */
            for (uint32_t i = 0; i < rules->n_uses; i++)
                if (rules->uses[i].hi == r && waits[rules->uses[i].lo] != UINT32_MAX) {
                    waits[rules->uses[i].lo]--;
                    more = true;
                }
        }
    }
    for (uint32_t r = 0; r < n; r++)
        if (waits[r] != UINT32_MAX) *found = r;
    free(waits);
    return true;
}

/* --- doubling ---------------------------------------------------------------------------------------- */

typedef struct doubling {
    cdz_net *net;
    uint32_t n_nodes, n_rules, n_edges; /* as they were */
    bool *terminal;                     /* by rule */
    bool *inside;                       /* by node: of a rule that is no terminal */
    bool *empty;                        /* by node: reached by nothing from its rule's start */
    bool *nullable;                     /* by rule */
    uint32_t *before, *after;           /* by node: its two copies */
    uint32_t *first, *rest;             /* by rule: its two copies */
    uint32_t ignore;
} doubling;

static void doubling_free(doubling *d)
{
    free(d->terminal);
    free(d->inside);
    free(d->empty);
    free(d->nullable);
    free(d->before);
    free(d->after);
    free(d->first);
    free(d->rest);
}

static bool doubling_begin(doubling *d, const cdz_ignore_rules *rules)
{
    const size_t nodes = (size_t)d->n_nodes + 1, n = (size_t)d->n_rules + 1;
    d->terminal = calloc(n, sizeof *d->terminal);
    d->inside = calloc(nodes, sizeof *d->inside);
    d->empty = calloc(nodes, sizeof *d->empty);
    d->nullable = calloc(n, sizeof *d->nullable);
    d->before = calloc(nodes, sizeof *d->before);
    d->after = calloc(nodes, sizeof *d->after);
    d->first = calloc(n, sizeof *d->first);
    d->rest = calloc(n, sizeof *d->rest);
    if (!d->terminal || !d->inside || !d->empty || !d->nullable || !d->before || !d->after ||
        !d->first || !d->rest)
        return false;
    for (uint32_t i = 0; i < rules->n_terminals; i++) d->terminal[rules->terminals[i]] = true;
    d->terminal[d->ignore] = true;
    return true;
}

/* The nodes of rules that are no terminals, and what rules take nothing. Rounds until nothing changes. */
static void explore(doubling *d)
{
    const cdz_net *net = d->net;
    for (uint32_t r = 0; r < d->n_rules; r++) {
        d->empty[net->rules[r].start] = true;
        if (!d->terminal[r]) d->inside[net->rules[r].start] = true;
    }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < d->n_edges; i++) {
            const cdz_net_edge *e = &net->edges[i];
            const bool passes = e->kind == CDZ_NET_NOTHING || e->kind >= CDZ_NET_COUNT_IN ||
                                (e->kind == CDZ_NET_CALL && d->nullable[e->arg]);
            const bool out = e->kind != CDZ_NET_COUNT_OUT || net->rules[e->arg].min == 0;
            if (d->inside[e->from] && !d->inside[e->to]) d->inside[e->to] = more = true;
            if (passes && out && d->empty[e->from] && !d->empty[e->to])
                d->empty[e->to] = more = true;
        }
        for (uint32_t r = 0; r < d->n_rules; r++)
            if (!d->nullable[r] && d->empty[net->rules[r].end]) d->nullable[r] = more = true;
    }
}

static void copy_nodes(doubling *d)
{
    for (uint32_t i = 0; i < d->n_nodes; i++) {
        if (!d->inside[i]) continue;
        d->before[i] = cdz_net_node(d->net);
        d->after[i] = cdz_net_node(d->net);
    }
    for (uint32_t r = 0; r < d->n_rules && d->net->status == CDZ_OK; r++) {
        if (d->terminal[r]) continue;
        const cdz_net_rule old = d->net->rules[r];
        if (!d->inside[old.end]) d->after[old.end] = cdz_net_node(d->net);
        d->first[r] = cdz_net_rule_of(d->net, d->before[old.start], d->after[old.end]);
        d->rest[r] = cdz_net_rule_of(d->net, d->after[old.start], d->after[old.end]);
        if (d->net->status != CDZ_OK) return;
        d->net->rules[d->first[r]].min = d->net->rules[d->rest[r]].min = old.min;
        d->net->rules[d->first[r]].max = d->net->rules[d->rest[r]].max = old.max;
    }
}

static void copy_edge(doubling *d, cdz_net_edge e)
{
    cdz_net *net = d->net;
    const uint32_t before = d->before[e.from], after = d->after[e.from];
    switch (e.kind) {
    case CDZ_NET_NOTHING:
    case CDZ_NET_COUNT_IN:
    case CDZ_NET_COUNT_ADD:
    case CDZ_NET_COUNT_OUT: {
        const uint32_t arg = e.kind == CDZ_NET_NOTHING ? 0 : d->rest[e.arg];
        cdz_net_edge_add(net, before, d->before[e.to], (cdz_net_kind)e.kind, arg);
        cdz_net_edge_add(net, after, d->after[e.to], (cdz_net_kind)e.kind, arg);
        break;
    }
    case CDZ_NET_CALL:
        if (d->terminal[e.arg]) {
            cdz_net_edge_add(net, before, d->after[e.to], CDZ_NET_CALL, e.arg);
            cdz_net_edge_add(net, cdz_net_call(net, after, d->ignore), d->after[e.to], CDZ_NET_CALL,
                             e.arg);
            break;
        }
        cdz_net_edge_add(net, before, d->after[e.to], CDZ_NET_CALL, d->first[e.arg]);
        cdz_net_edge_add(net, after, d->after[e.to], CDZ_NET_CALL, d->rest[e.arg]);
        if (d->nullable[e.arg]) cdz_net_edge_add(net, before, d->before[e.to], CDZ_NET_NOTHING, 0);
        break;
    default: /* tokens by number, which are terminals too */
        e.from = before;
        e.to = d->after[e.to];
        if (e.kind == CDZ_NET_BYTES)
            cdz_net_byte(net, before, e.to, e.lo, e.hi);
        else
            cdz_net_edge_add(net, before, e.to, (cdz_net_kind)e.kind, e.arg);
        cdz_net_edge_add(net, cdz_net_call(net, after, d->ignore), e.to, (cdz_net_kind)e.kind,
                         e.arg);
    }
}

uint32_t cdz_ignore_between(cdz_net *net, const cdz_ignore_rules *rules, uint32_t ignore,
                            uint32_t start)
{
    doubling d = {.net = net,
                  .n_nodes = net->n_nodes,
                  .n_rules = net->n_rules,
                  .n_edges = net->n_edges,
                  .ignore = ignore};
    uint32_t whole = 0;
    if (!doubling_begin(&d, rules)) {
        cdz_net_fail(net, CDZ_E_NOMEM, "out of memory for a grammar");
    } else {
        explore(&d);
        copy_nodes(&d);
        for (uint32_t i = 0; i < d.n_edges && net->status == CDZ_OK; i++)
            if (d.inside[net->edges[i].from]) copy_edge(&d, net->edges[i]);
        whole = cdz_net_rule_new(net);
        if (net->status == CDZ_OK) {
            const cdz_net_rule r = net->rules[whole];
            cdz_net_edge_add(net, r.start, r.end, CDZ_NET_CALL, d.first[start]);
            if (d.nullable[start]) cdz_net_edge_add(net, r.start, r.end, CDZ_NET_NOTHING, 0);
        }
    }
    doubling_free(&d);
    return whole;
}
