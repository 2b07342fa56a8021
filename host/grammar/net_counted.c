/* net_counted.c - texts of an automaton whose number of characters is bounded: the automaton stands in a rule that counts
 * characters, once, however large the bounds are. So that no text comes to where it cannot end, a state is entered only with
 * the counts from which the end can be reached: those are stretches, few of each state, and gates look at them. */
#include <stdlib.h>
#include <string.h>

#include "grammar/grow.h"
#include "grammar/net.h"

enum {
    SPANS_PER_STATE = 8,
};

/* Counts of a state from which the end can be reached: lo to hi. */
typedef struct count_span {
    uint32_t lo, hi, next; /* next: of higher counts, + 1; 0: none */
    uint32_t rule;         /* + 1; whose least and most are looked at before an edge to the state */
} count_span;

typedef struct counted_work {
    cdz_net *net;
    const cdz_chars_dfa *dfa;
    uint32_t min, last; /* counts are 0 to last */
    bool endless;       /* the last one stands for all further */
    count_span *spans;
    uint32_t n_spans, spans_cap, n_gated;
    uint32_t *first, *n_of; /* spans by state: of the lowest counts, + 1; how many */
    bool *live, *other;     /* by state: with the count looked at, and with the one behind it */
    uint32_t *gate;         /* the first state with the same spans */
    uint32_t *node,
        *made; /* by gate: the node behind it from the state that was written last, and which that was */
    cdz_item_table table; /* first states by their spans */
    uint32_t at,
        before; /* nodes: state s is at + s, and before + s once its last character has come */
    uint32_t rule;
} counted_work;

static void counted_free(counted_work *w)
{
    free(w->spans);
    free(w->first);
    free(w->n_of);
    free(w->live);
    free(w->other);
    free(w->gate);
    free(w->node);
    free(w->made);
    free(w->table.at);
}

static bool counted_begin(counted_work *w)
{
    const size_t n = w->dfa->n_states;
    w->first = calloc(n, sizeof *w->first);
    w->n_of = calloc(n, sizeof *w->n_of);
    w->live = calloc(n, sizeof *w->live);
    w->other = calloc(n, sizeof *w->other);
    w->gate = calloc(n, sizeof *w->gate);
    w->node = calloc(n, sizeof *w->node);
    w->made = calloc(n, sizeof *w->made);
    return w->first && w->n_of && w->live && w->other && w->gate && w->node && w->made;
}

/* --- from which counts the end can be reached ----------------------------------------------------------- */

static bool leads_on(const counted_work *w, uint32_t state)
{
    const uint32_t *row = w->dfa->next + (size_t)state * w->dfa->n_classes;
    for (uint32_t c = 0; c < w->dfa->n_classes; c++)
        if (row[c] && w->other[row[c]]) return true;
    return false;
}

/* The state's stretches with one more count, one below those that it has. */
static cdz_status note_live(counted_work *w, uint32_t state, uint32_t count)
{
    const uint32_t known = w->first[state];
    if (w->spans && known && w->spans[known - 1].lo == count + 1) {
        w->spans[known - 1].lo = count;
        return CDZ_OK;
    }
    if (w->n_of[state]++ == SPANS_PER_STATE) return CDZ_E_UNSUPPORTED;
    if (!cdz_grow(&w->spans, &w->spans_cap, (size_t)w->n_spans + 1, sizeof *w->spans))
        return CDZ_E_NOMEM;
    w->spans[w->n_spans] = (count_span){count, count, known, 0};
    w->first[state] = ++w->n_spans;
    return CDZ_OK;
}

/* The states that are live with the last count. */
static void look_at_last(counted_work *w)
{
    memcpy(w->live, w->dfa->accepts, w->dfa->n_states * sizeof *w->live);
    if (!w->endless) return;
    const size_t cells = (size_t)w->dfa->n_states * w->dfa->n_classes;
    for (size_t i = w->dfa->n_classes; i < cells; i++)
        if (w->dfa->next[i]) w->live[i / w->dfa->n_classes] = true;
}

static cdz_status note_all(counted_work *w, uint32_t count)
{
    for (uint32_t s = 1; s < w->dfa->n_states; s++)
        if (w->live[s]) CDZ_TRY(note_live(w, s, count));
    return CDZ_OK;
}

/* With all counts from one on, down to another, the same states are live. */
static void note_same(counted_work *w, uint32_t count)
{
    for (uint32_t s = 1; s < w->dfa->n_states; s++)
        if (w->live[s]) w->spans[w->first[s] - 1].lo = count;
}

static cdz_status find_spans(counted_work *w)
{
    look_at_last(w);
    CDZ_TRY(note_all(w, w->last));
    for (uint32_t k = w->last; k-- > 0;) {
        const bool may_end = k >= w->min;
        bool *before = w->other;
        w->other = w->live;
        w->live = before;
        CDZ_TRY(cdz_net_in_time(w->net));
        for (uint32_t s = 1; s < w->dfa->n_states; s++)
            w->live[s] = (may_end && w->dfa->accepts[s]) || leads_on(w, s);
        CDZ_TRY(note_all(w, k));
        if (memcmp(w->live, w->other, w->dfa->n_states * sizeof *w->live) != 0) continue;
        if (may_end != (k + 1 >= w->min)) continue;
        k = may_end ? w->min : 0; /* nothing changes before that */
        note_same(w, k);
    }
    return CDZ_OK;
}

/* --- gates ------------------------------------------------------------------------------------------------ */

static uint32_t spans_hash(const counted_work *w, uint32_t state)
{
    uint32_t h = 0;
    for (uint32_t i = w->first[state]; i; i = w->spans[i - 1].next)
        h = cdz_item_mix(h, w->spans[i - 1].lo, w->spans[i - 1].hi);
    return h;
}

static uint32_t gate_hash(const void *of, uint32_t number)
{
    const counted_work *w = of;
    return spans_hash(w, w->made[number - 1]);
}

static bool same_spans(const counted_work *w, uint32_t a, uint32_t b)
{
    uint32_t i = w->first[a], k = w->first[b];
    while (i && k && w->spans[i - 1].lo == w->spans[k - 1].lo &&
           w->spans[i - 1].hi == w->spans[k - 1].hi) {
        i = w->spans[i - 1].next;
        k = w->spans[k - 1].next;
    }
    return !i && !k;
}

/* States with the same stretches have one gate. While they are told, made lists those that were met first. */
static bool find_gates(counted_work *w)
{
    cdz_item_table *t = &w->table;
    for (uint32_t s = 1; s < w->dfa->n_states; s++) {
        if (!cdz_item_table_room(t, w->n_gated, gate_hash, w)) return false;
        uint32_t at = spans_hash(w, s) & (t->size - 1), i;
        while ((i = t->at[at]) != 0 && !same_spans(w, w->made[i - 1], s))
            at = (at + 1) & (t->size - 1);
        w->gate[s] = i ? w->made[i - 1] : s;
        if (i) continue;
        w->made[w->n_gated++] = s;
        t->at[at] = w->n_gated;
    }
    memset(w->made, 0, w->dfa->n_states * sizeof *w->made);
    return true;
}

/* A rule for its bounds alone: counts that one more character makes to those of a stretch. */
static uint32_t gate_rule(counted_work *w, count_span *span)
{
    if (!span->rule) {
        const uint32_t rule = cdz_net_rule_new(w->net);
        if (w->net->status != CDZ_OK) return 0;
        w->net->rules[rule].min = span->lo ? span->lo - 1 : 0;
        w->net->rules[rule].max = span->hi == w->last && w->endless ? UINT32_MAX : span->hi;
        span->rule = rule + 1;
    }
    return span->rule - 1;
}

/* The node behind the gate of a state, from another one. */
static uint32_t gate_from(counted_work *w, uint32_t state, uint32_t to)
{
    const uint32_t gate = w->gate[to];
    if (w->made[gate] == state) return w->node[gate];
    const uint32_t behind = cdz_net_node(w->net);
    for (uint32_t i = w->first[gate]; i; i = w->spans[i - 1].next) {
        const uint32_t rule = gate_rule(w, &w->spans[i - 1]), between = cdz_net_node(w->net);
        cdz_net_edge_add(w->net, w->at + state, between, CDZ_NET_COUNT_OUT, rule);
        cdz_net_edge_add(w->net, between, behind, CDZ_NET_COUNT_IN, rule);
    }
    w->made[gate] = state;
    return w->node[gate] = behind;
}

/* --- the automaton ------------------------------------------------------------------------------------------ */

static void put_state(counted_work *w, uint32_t s, bool json)
{
    const uint32_t *row = w->dfa->next + (size_t)s * w->dfa->n_classes;
    const uint32_t add = cdz_net_node(w->net);
    cdz_net_edge_add(w->net, w->before + s, add, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(w->net, add, w->at + s, CDZ_NET_COUNT_ADD, w->rule);
    for (uint32_t c = 0; c < w->dfa->n_classes; c++) {
        const uint32_t to = row[c];
        bool again = !to || !w->first[to];
        for (uint32_t d = 0; d < c && !again; d++) again = row[d] == to;
        if (!again)
            cdz_net_transition(w->net, w->dfa, s, to, gate_from(w, s, to), w->before + to, json);
    }
    if (w->dfa->accepts[s] && w->net->status == CDZ_OK)
        cdz_net_edge_add(w->net, w->at + s, w->net->rules[w->rule].end, CDZ_NET_COUNT_OUT, w->rule);
}

static void put_all(counted_work *w, uint32_t from, uint32_t to, bool json)
{
    const uint32_t n = w->dfa->n_states;
    w->rule = cdz_net_rule_new(w->net);
    w->at = w->net->n_nodes;
    w->before = w->at + n;
    for (uint32_t i = 0; i < 2 * n; i++) cdz_net_node(w->net);
    if (w->net->status != CDZ_OK) return;
    w->net->rules[w->rule].min = w->min;
    w->net->rules[w->rule].max = w->endless ? UINT32_MAX : w->last;
    cdz_net_edge_add(w->net, w->net->rules[w->rule].start, w->at + 1, CDZ_NET_NOTHING, 0);
    for (uint32_t s = 1; s < n && cdz_net_in_time(w->net) == CDZ_OK; s++)
        if (w->first[s]) put_state(w, s, json);
    cdz_net_edge_add(w->net, from, to, CDZ_NET_CALL, w->rule);
}

cdz_status cdz_net_dfa_counted(cdz_net *net, uint32_t from, uint32_t to, const cdz_chars_dfa *dfa,
                               uint32_t min, uint32_t max, bool json)
{
    counted_work w = {.net = net, .dfa = dfa, .min = min};
    w.endless = max == UINT32_MAX;
    w.last = w.endless ? min : max;
    cdz_status st = net->status == CDZ_OK && !counted_begin(&w) ? CDZ_E_NOMEM : net->status;
    if (st == CDZ_OK) st = find_spans(&w);
    if (st == CDZ_OK && !find_gates(&w)) st = CDZ_E_NOMEM;
    const uint32_t lowest = st == CDZ_OK ? w.first[1] : 0;
    if (lowest && !w.spans[lowest - 1].lo) put_all(&w, from, to, json);
    if (st == CDZ_E_NOMEM)
        cdz_net_fail(net, st, "out of memory for a grammar of %u states", net->n_nodes);
    counted_free(&w);
    return st == CDZ_OK ? net->status : st;
}
