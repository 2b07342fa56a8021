/* regular.c - parts of a network as automata over bytes: copied with the rules they call in place of the calls, and with counts
 * as so many copies; then determined and multiplied. */
#include "grammar/regular.h"

#include <string.h>

#include "base/assert.h"
#include "grammar/chars.h"

/* A place of the copy: a node of the network, in a call, at a count. */
typedef struct regular_item {
    uint32_t call, node, count, at;
} regular_item;

/* A rule in place of a call: where it ends, and the copy goes on. */
typedef struct regular_call {
    uint32_t end, to;
} regular_call;

/* What all copies share. */
typedef struct regular_work {
    cdz_net *net;
    const cdz_bnf_sets *sets;
    uint32_t *newest,
        *before; /* edges of a node, as numbers + 1: the newest, and which was so before an edge */
    uint32_t n_nodes, nodes_cap, n_edges, edges_cap; /* that are noted */
    uint32_t *set_of; /* by lowest byte and highest: set + 1 of the copy that is being made; else 0 */
    cdz_chars_dfa any; /* any text, where a part is denied */
} regular_work;

typedef struct regular_copy {
    regular_work *work;
    regular_item *items;
    regular_call *calls;
    uint32_t n_items, items_cap, n_calls, calls_cap;
    cdz_item_table seen;
    cdz_chars out;
    bool waits; /* a part was met that is not filled */
} regular_copy;

enum { N_BYTES = 256 };

/* Its sets have one span of bytes each. */
static void copy_free(regular_copy *c)
{
    for (uint32_t i = 0; i < c->out.n_sets; i++) {
        const cdz_code_span *bytes = c->out.sets[i].at;
        c->work->set_of[bytes->lo * N_BYTES + bytes->hi] = 0;
    }
    free(c->items);
    free(c->calls);
    free(c->seen.at);
    cdz_chars_free(&c->out);
}

static void no_memory(regular_copy *c)
{
    if (c->out.failed == CDZ_OK) c->out.failed = CDZ_E_NOMEM;
}

/* --- edges ------------------------------------------------------------------------------------------------ */

/* Those that have come to the network since it was last looked at. */
static bool note_edges(regular_work *w)
{
    const cdz_net *net = w->net;
    if (!cdz_grow(&w->newest, &w->nodes_cap, (size_t)net->n_nodes + 1, sizeof *w->newest) ||
        !cdz_grow(&w->before, &w->edges_cap, (size_t)net->n_edges + 1, sizeof *w->before))
        return false;
    memset(w->newest + w->n_nodes, 0, (net->n_nodes - w->n_nodes) * sizeof *w->newest);
    w->n_nodes = net->n_nodes;
    for (uint32_t i = w->n_edges; i < net->n_edges; i++) {
        w->before[i] = w->newest[net->edges[i].from];
        w->newest[net->edges[i].from] = i + 1;
    }
    w->n_edges = net->n_edges;
    return true;
}

static void work_free(regular_work *w)
{
    free(w->newest);
    free(w->before);
    free(w->set_of);
    cdz_chars_dfa_free(&w->any);
}

/* --- copying ------------------------------------------------------------------------------------------- */

static uint32_t item_hash(const void *of, uint32_t number)
{
    const regular_item *item = &((const regular_copy *)of)->items[number - 1];
    return cdz_item_mix(item->call, item->node, item->count);
}

/* Whether a part begins here that is not filled. They are in the order of their nodes. */
static bool waits_at(const cdz_bnf_sets *sets, uint32_t node)
{
    uint32_t lo = 0, hi = sets->n;
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (sets->at[mid].out.in < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < sets->n && sets->at[lo].out.in == node && !sets->at[lo].filled;
}

/* The copy of a node. */
static uint32_t copy_of(regular_copy *c, uint32_t call, uint32_t node, uint32_t count)
{
    cdz_item_table *t = &c->seen;
    if (c->out.failed) return 0;
    if (!cdz_item_table_room(t, c->n_items, item_hash, c) ||
        !cdz_grow(&c->items, &c->items_cap, (size_t)c->n_items + 1, sizeof *c->items)) {
        no_memory(c);
        return 0;
    }
    uint32_t at = cdz_item_mix(call, node, count) & (t->size - 1);
    for (uint32_t i; (i = t->at[at]) != 0; at = (at + 1) & (t->size - 1)) {
        const regular_item *k = &c->items[i - 1];
        if (k->call == call && k->node == node && k->count == count) return k->at;
    }
    c->waits |= waits_at(c->work->sets, node);
    c->items[c->n_items] = (regular_item){call, node, count, cdz_chars_node(&c->out)};
    t->at[at] = ++c->n_items;
    return c->items[c->n_items - 1].at;
}

static uint32_t call_new(regular_copy *c, uint32_t end, uint32_t to)
{
    if (!cdz_grow(&c->calls, &c->calls_cap, (size_t)c->n_calls + 1, sizeof *c->calls)) {
        no_memory(c);
        return 0;
    }
    c->calls[c->n_calls] = (regular_call){end, to};
    return c->n_calls++;
}

static uint32_t bytes_set(regular_copy *c, uint32_t lo, uint32_t hi)
{
    uint32_t *known = &c->work->set_of[lo * N_BYTES + hi];
    if (*known) return *known - 1;
    cdz_charset set = {0};
    cdz_charset_add(&set, lo, hi);
    const uint32_t made = cdz_chars_set(&c->out, &set);
    if (!c->out.failed) *known = made + 1;
    return made;
}

static void copy_edge(regular_copy *c, const regular_item *item, const cdz_net_edge *e)
{
    const cdz_net_rule *rule = &c->work->net->rules[e->arg];
    uint32_t takes = CDZ_CHARS_NOTHING, count = item->count, call = item->call, to = e->to;
    switch (e->kind) {
    case CDZ_NET_BYTES: takes = bytes_set(c, e->lo, e->hi); break;
    case CDZ_NET_CALL:
        call = call_new(c, rule->end, copy_of(c, item->call, e->to, item->count));
        to = rule->start;
        count = 0;
        break;
    case CDZ_NET_COUNT_IN:
        if (count >= rule->max) return;
        break;
    case CDZ_NET_COUNT_ADD: count = cdz_net_counted(rule, count); break;
    case CDZ_NET_COUNT_OUT:
        if (count < rule->min) return;
        break;
    default: cdz_assert(e->kind == CDZ_NET_NOTHING); /* no tokens by number */
    }
    cdz_chars_edge_add(&c->out, item->at, copy_of(c, call, to, count), takes);
}

static cdz_status copy_part(regular_copy *c, cdz_net *net, cdz_bnf_part part)
{
    c->out.end = cdz_chars_node(&c->out);
    c->out.start = copy_of(c, call_new(c, part.out, c->out.end), part.in, 0);
    for (uint32_t i = 0; i < c->n_items && !c->out.failed && !c->waits; i++) {
        const regular_item item = c->items[i];
        const regular_call call = c->calls[item.call];
        CDZ_TRY(cdz_net_in_time(net));
        if (item.node == call.end) cdz_chars_edge_add(&c->out, item.at, call.to, CDZ_CHARS_NOTHING);
        for (uint32_t e = c->work->newest[item.node]; e && !c->out.failed;
             e = c->work->before[e - 1])
            copy_edge(c, &item, &net->edges[e - 1]);
    }
    return CDZ_OK;
}

/* What a part takes; *waits: a part that is not filled stands in it. */
static cdz_status determine(regular_work *w, cdz_bnf_part part, cdz_chars_dfa *out, bool *waits,
                            cdz_error *err)
{
    regular_copy c = {.work = w};
    cdz_status st = note_edges(w) ? copy_part(&c, w->net, part) : CDZ_E_NOMEM;
    *waits = c.waits;
    if (st == CDZ_OK && c.out.failed == CDZ_E_LIMIT)
        st = cdz_err(err, CDZ_E_LIMIT, "it comes to more than %d places (grammar_max_states)",
                     CDZ_CHARS_MAX_NODES);
    else if (st == CDZ_OK)
        st = c.out.failed;
    else if (st == CDZ_E_LIMIT)
        *err = w->net->error;
    if (st == CDZ_OK && !c.waits) st = cdz_chars_determine(&c.out, out, err);
    copy_free(&c);
    return st;
}

/* --- sets ------------------------------------------------------------------------------------------------ */

void cdz_bnf_sets_free(cdz_bnf_sets *sets)
{
    free(sets->at);
}

cdz_status cdz_bnf_sets_add(cdz_bnf_sets *sets, cdz_bnf *b, cdz_bnf_set set, cdz_bnf_part *out)
{
    if (!cdz_grow(&sets->at, &sets->cap, (size_t)sets->n + 1, sizeof *sets->at))
        return cdz_bnf_no_memory(b);
    *out = set.out = cdz_bnf_part_new(b);
    sets->at[sets->n++] = set;
    return CDZ_OK;
}

/* Any text. */
static cdz_bnf_part any_text(cdz_bnf *b)
{
    const cdz_bnf_part part = cdz_bnf_part_new(b);
    const uint32_t round = cdz_net_node(b->net);
    cdz_charset all = {0};
    cdz_charset_add(&all, 0, CDZ_CODE_MAX);
    cdz_net_charset(b->net, round, round, &all, false);
    cdz_net_edge_add(b->net, part.in, round, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(b->net, round, part.out, CDZ_NET_NOTHING, 0);
    if (all.failed) cdz_net_fail(b->net, CDZ_E_NOMEM, "out of memory for a set of the grammar");
    cdz_charset_free(&all);
    return part;
}

/* An automaton over bytes becomes edges. */
static void put_bytes(cdz_net *net, cdz_bnf_part part, const cdz_chars_dfa *dfa)
{
    const uint32_t base = net->n_nodes;
    for (uint32_t i = 0; i < dfa->n_states; i++) cdz_net_node(net);
    for (uint32_t s = 1; s < dfa->n_states && cdz_net_in_time(net) == CDZ_OK; s++) {
        const uint32_t *row = dfa->next + (size_t)s * dfa->n_classes;
        for (uint32_t i = 0, next; i < dfa->n_cuts && dfa->cuts[i] < N_BYTES; i = next) {
            const uint32_t to = row[dfa->class_of[i]];
            for (next = i + 1; next < dfa->n_cuts && row[dfa->class_of[next]] == to;) next++;
            uint32_t past = next < dfa->n_cuts ? dfa->cuts[next] : N_BYTES;
            if (past > N_BYTES) past = N_BYTES;
            if (to)
                cdz_net_byte(net, base + s, base + to, (uint8_t)dfa->cuts[i], (uint8_t)(past - 1));
        }
        if (dfa->accepts[s]) cdz_net_edge_add(net, base + s, part.out, CDZ_NET_NOTHING, 0);
    }
    cdz_net_edge_add(net, part.in, base + 1, CDZ_NET_NOTHING, 0);
}

/* Fills one, unless another must be filled before it. */
static cdz_status fill(regular_work *w, cdz_bnf_set *set, cdz_error *err)
{
    cdz_chars_dfa left = {0}, right = {0}, both = {0};
    bool waits, waits_too = false, some = false;
    cdz_status st = determine(w, set->left, &left, &waits, err);
    if (st == CDZ_OK && !waits && !set->but) st = determine(w, set->right, &right, &waits_too, err);
    if (st == CDZ_OK && !waits && !waits_too) {
        st = set->but ? cdz_chars_combine(&w->any, &left, CDZ_CHARS_WITHOUT, &both, err)
                      : cdz_chars_combine(&left, &right, CDZ_CHARS_AND, &both, err);
        if (st == CDZ_OK) st = cdz_chars_trim(&both, &some, err);
        if (st == CDZ_OK && some) put_bytes(w->net, set->out, &both);
        set->filled = st == CDZ_OK;
    }
    cdz_chars_dfa_free(&left);
    cdz_chars_dfa_free(&right);
    cdz_chars_dfa_free(&both);
    return st;
}

static cdz_status begin(regular_work *w, cdz_bnf *b, cdz_error *err)
{
    bool denies = false, waits;
    w->set_of = calloc((size_t)N_BYTES * N_BYTES, sizeof *w->set_of);
    if (!w->set_of) return CDZ_E_NOMEM;
    for (uint32_t i = 0; i < w->sets->n; i++) denies |= w->sets->at[i].but;
    return denies ? determine(w, any_text(b), &w->any, &waits, err) : CDZ_OK;
}

/* Again and again, while some wait for others: no rule leads back to itself, so that one of them waits for none. */
static cdz_status fill_all(regular_work *w, cdz_bnf_sets *sets, cdz_bnf *b)
{
    cdz_error err = {0};
    cdz_status st = begin(w, b, &err);
    size_t pos = sets->at[0].pos;
    for (uint32_t left = sets->n; left && st == CDZ_OK && b->net->status == CDZ_OK;)
        for (uint32_t i = 0; i < sets->n && st == CDZ_OK; i++) {
            if (sets->at[i].filled) continue;
            pos = sets->at[i].pos;
            st = fill(w, &sets->at[i], &err);
            left -= sets->at[i].filled;
        }
    if (st == CDZ_E_NOMEM) return cdz_bnf_no_memory(b);
    if (st != CDZ_OK) cdz_bnf_wrong(b, pos, err.text);
    return st;
}

cdz_status cdz_bnf_sets_fill(cdz_bnf_sets *sets, cdz_bnf *b)
{
    regular_work w = {.net = b->net, .sets = sets};
    const cdz_status st = sets->n ? fill_all(&w, sets, b) : CDZ_OK;
    work_free(&w);
    return st;
}
