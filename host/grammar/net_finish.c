/* net_finish.c - what is done to a network before it runs: taking out what can never end, and sorting. */
#include <stdlib.h>
#include <string.h>

#include "grammar/grow.h"
#include "grammar/net.h"

typedef struct finish_work {
    uint32_t *first, *by_to; /* edges sorted by where they lead */
    uint32_t *callers_first, *callers;
    uint32_t *rule_of_start, *rule_of_end; /* by node, rule + 1 */
    bool *live, *empty; /* by node: an end can be reached; by nothing from the rule's start */
    uint32_t *queue;
    uint32_t n_queue;
} finish_work;

static void finish_free(finish_work *w)
{
    free(w->first);
    free(w->by_to);
    free(w->callers_first);
    free(w->callers);
    free(w->rule_of_start);
    free(w->rule_of_end);
    free(w->live);
    free(w->empty);
    free(w->queue);
}

/* Counting sort of edge numbers by a key below n. */
static bool sort_by(const cdz_net *net, bool calls, uint32_t n, uint32_t **first, uint32_t **order)
{
    *first = calloc((size_t)n + 2, sizeof **first);
    *order = malloc(((size_t)net->n_edges + 1) * sizeof **order);
    if (!*first || !*order) return false;
    for (uint32_t i = 0; i < net->n_edges; i++)
        if (!calls || net->edges[i].kind == CDZ_NET_CALL)
            (*first)[(calls ? net->edges[i].arg : net->edges[i].to) + 2]++;
    for (uint32_t i = 0; i < n; i++) (*first)[i + 2] += (*first)[i + 1];
    for (uint32_t i = 0; i < net->n_edges; i++)
        if (!calls || net->edges[i].kind == CDZ_NET_CALL)
            (*order)[(*first)[(calls ? net->edges[i].arg : net->edges[i].to) + 1]++] = i;
    return true;
}

static bool finish_begin(const cdz_net *net, finish_work *w)
{
    const size_t n = (size_t)net->n_nodes + 1;
    w->rule_of_start = calloc(n, sizeof *w->rule_of_start);
    w->rule_of_end = calloc(n, sizeof *w->rule_of_end);
    w->live = calloc(n, sizeof *w->live);
    w->empty = calloc(n, sizeof *w->empty);
    w->queue = malloc(n * sizeof *w->queue);
    if (!w->rule_of_start || !w->rule_of_end || !w->live || !w->empty || !w->queue) return false;
    for (uint32_t i = 0; i < net->n_rules; i++) {
        w->rule_of_start[net->rules[i].start] = i + 1;
        w->rule_of_end[net->rules[i].end] = i + 1;
    }
    return sort_by(net, false, net->n_nodes, &w->first, &w->by_to) &&
           sort_by(net, true, net->n_rules, &w->callers_first, &w->callers);
}

static void mark(finish_work *w, bool *marks, uint32_t node)
{
    if (marks[node]) return;
    marks[node] = true;
    w->queue[w->n_queue++] = node;
}

/* Backwards from the ends of rules: an edge that calls counts once its rule has been reached at its start. */
static void find_live(cdz_net *net, finish_work *w)
{
    w->n_queue = 0;
    for (uint32_t i = 0; i < net->n_rules; i++) mark(w, w->live, net->rules[i].end);
    while (w->n_queue) {
        const uint32_t node = w->queue[--w->n_queue];
        for (uint32_t i = w->first[node]; i < w->first[node + 1]; i++) {
            const cdz_net_edge *e = &net->edges[w->by_to[i]];
            if (e->kind != CDZ_NET_CALL || net->rules[e->arg].productive) mark(w, w->live, e->from);
        }
        const uint32_t rule = w->rule_of_start[node];
        if (!rule) continue;
        net->rules[rule - 1].productive = true;
        for (uint32_t i = w->callers_first[rule - 1]; i < w->callers_first[rule]; i++) {
            const cdz_net_edge *e = &net->edges[w->callers[i]];
            if (w->live[e->to]) mark(w, w->live, e->from);
        }
    }
}

bool cdz_net_find_live(cdz_net *net, bool *live)
{
    finish_work w = {0};
    const bool fine = finish_begin(net, &w);
    if (fine) find_live(net, &w);
    if (fine) memcpy(live, w.live, net->n_nodes * sizeof *live);
    finish_free(&w);
    return fine;
}

/* A count's body that takes nothing, or a minimum of none, lets a loop be left at once. */
static bool passes_empty(const cdz_net *net, const bool *rounds, const cdz_net_edge *e)
{
    switch (e->kind) {
    case CDZ_NET_NOTHING:
    case CDZ_NET_COUNT_IN:
    case CDZ_NET_COUNT_ADD: return true;
    case CDZ_NET_CALL: return net->rules[e->arg].nullable;
    case CDZ_NET_COUNT_OUT: return net->rules[e->arg].min == 0 || rounds[e->arg];
    default: return false;
    }
}

/* Forwards from the starts of rules, again and again while rules turn out to take nothing. */
static bool find_nullable(cdz_net *net, finish_work *w)
{
    bool *rounds = calloc((size_t)net->n_rules + 1, sizeof *rounds);
    if (!rounds) return false;
    for (bool more = true; more;) {
        more = false;
        w->n_queue = 0;
        memset(w->empty, 0, net->n_nodes * sizeof *w->empty);
        for (uint32_t i = 0; i < net->n_rules; i++) mark(w, w->empty, net->rules[i].start);
        while (w->n_queue) {
            const uint32_t node = w->queue[--w->n_queue], rule = w->rule_of_end[node];
            if (rule && !net->rules[rule - 1].nullable) net->rules[rule - 1].nullable = more = true;
            for (uint32_t i = net->first[node]; i < net->first[node + 1]; i++) {
                const cdz_net_edge *e = &net->edges[i];
                if (!passes_empty(net, rounds, e)) continue;
                if (e->kind == CDZ_NET_COUNT_ADD && !rounds[e->arg]) rounds[e->arg] = more = true;
                mark(w, w->empty, e->to);
            }
        }
    }
    free(rounds);
    return true;
}

/* Keeps the edges between live nodes, sorted by where they begin. */
static bool keep_live(cdz_net *net, const bool *live)
{
    uint32_t n = 0;
    net->first = calloc((size_t)net->n_nodes + 2, sizeof *net->first);
    for (uint32_t i = 0; net->first && i < net->n_edges; i++) {
        const cdz_net_edge *e = &net->edges[i];
        if (!live[e->from] || !live[e->to]) continue;
        if (e->kind == CDZ_NET_CALL && !net->rules[e->arg].productive) continue;
        net->counts |= e->kind == CDZ_NET_COUNT_ADD;
        net->first[e->from + 2]++;
        net->edges[n++] = *e;
    }
    cdz_net_edge *sorted = net->first ? malloc(((size_t)n + 1) * sizeof *sorted) : NULL;
    if (!sorted) return false;
    for (uint32_t i = 0; i < net->n_nodes; i++) net->first[i + 2] += net->first[i + 1];
    for (uint32_t i = 0; i < n; i++) sorted[net->first[net->edges[i].from + 1]++] = net->edges[i];
    free(net->edges);
    net->edges = sorted;
    net->n_edges = net->edges_cap = n;
    return true;
}

/* Bytes that no edge tells apart. */
static void find_classes(cdz_net *net)
{
    bool cut[257] = {true};
    for (uint32_t i = 0; i < net->n_edges; i++)
        if (net->edges[i].kind == CDZ_NET_BYTES)
            cut[net->edges[i].lo] = cut[net->edges[i].hi + 1] = true;
    net->n_classes = 0;
    for (uint32_t b = 0; b < 256; b++) {
        if (cut[b]) net->sample[net->n_classes++] = (uint8_t)b;
        net->class_of[b] = (uint8_t)(net->n_classes - 1);
    }
}

/* The classes of the bytes with which characters of a kind begin. */
static void find_begins(cdz_net *net)
{
    for (uint32_t b = 0; b < 256; b++) {
        const uint32_t class = net->class_of[b];
        const bool small = b >= 'a' && b <= 'z', letter = small || (b >= 'A' && b <= 'Z');
        const bool word = letter || (b >= 0xC2 && b <= 0xF4), solid = word || (b > 32 && b < 127);
        const bool plain = (solid || b == 32 || b == 127) && b != '"' && b != '\\';
        const bool of[CDZ_N_WAYS] = {plain, solid && plain, word, letter, small};
        for (int w = 0; w < CDZ_N_WAYS; w++)
            net->begins[w].bits[class / 64] |= (uint64_t)of[w] << (class % 64);
    }
}

/* A node by which all plain characters lead to one other, and none elsewhere, is known for that. */
static bool find_plain(cdz_net *net)
{
    uint32_t *n_plain = calloc((size_t)net->n_nodes + 1, sizeof *n_plain);
    net->plain_to = malloc(((size_t)net->n_nodes + 1) * sizeof *net->plain_to);
    const bool fine = n_plain && net->plain_to;
    for (uint32_t i = 0; fine && i < net->n_nodes; i++) net->plain_to[i] = CDZ_NET_NO_PLAIN;
    for (uint32_t i = 0; fine && i < net->n_edges; i++) {
        if (!cdz_net_begins_plain(&net->edges[i])) continue;
        n_plain[net->edges[i].from]++;
        net->plain_to[net->edges[i].from] = CDZ_NET_SOME_PLAIN;
    }
    for (uint32_t i = 0; fine && i < net->n_plains; i++) {
        const cdz_net_plain *p = &net->plains[i];
        if (n_plain[p->from] == p->n) net->plain_to[p->from] = p->to;
    }
    free(n_plain);
    return fine;
}

/* A node that leads to a copy by some bytes alone is one too. */
static void find_suffix(cdz_net *net, uint32_t node)
{
    const cdz_net_edge *e = &net->edges[net->first[node]];
    if (net->first[node + 1] != net->first[node] + 1 || e->kind != CDZ_NET_BYTES) return;
    const cdz_net_copy *to = &net->copy_of[e->to];
    if (to->shape == e->to || net->copy_of[node].shape != node) return;
    const uint32_t shape = cdz_net_suffix_of(net, to->shape, e->lo, e->hi);
    if (shape != UINT32_MAX) net->copy_of[node] = (cdz_net_copy){shape, to->index, 0};
}

static bool find_copies(cdz_net *net)
{
    if (!net->n_copies) return true;
    net->counts = true;
    net->copy_of = malloc(((size_t)net->n_nodes + 1) * sizeof *net->copy_of);
    if (!net->copy_of) return false;
    for (uint32_t i = 0; i < net->n_nodes; i++) net->copy_of[i] = (cdz_net_copy){i, 0, 0};
    for (uint32_t k = 0; k < net->n_copies; k++) {
        const cdz_chars_copies *c = &net->copies[k];
        for (uint32_t i = 0; i < c->n * c->size; i++)
            net->copy_of[c->first + i] = (cdz_net_copy){c->first + i % c->size, i / c->size, k + 1};
    }
    for (uint32_t i = 0; i < net->n_nodes; i++) find_suffix(net, i);
    return true;
}

static cdz_status finish(cdz_net *net, finish_work *w, cdz_error *err)
{
    if (!finish_begin(net, w)) return cdz_err_memory(err, "a grammar");
    find_live(net, w);
    if (!net->rules[net->start_rule].productive)
        return cdz_err(err, CDZ_E_INPUT, "nothing satisfies the constraint: its language is empty");
    if (!keep_live(net, w->live) || !find_nullable(net, w)) return cdz_err_memory(err, "a grammar");
    net->end_of = calloc((size_t)net->n_nodes + 1, 1);
    if (!net->end_of || !find_plain(net) || !find_copies(net))
        return cdz_err_memory(err, "a grammar");
    for (uint32_t i = 0; i < net->n_rules; i++) net->end_of[net->rules[i].end] = 1;
    find_classes(net);
    find_begins(net);
    return CDZ_OK;
}

cdz_status cdz_net_finish(cdz_net *net, uint32_t start_rule, cdz_error *err)
{
    finish_work w = {0};
    if (net->status != CDZ_OK) return cdz_err(err, net->status, "%s", net->error.text);
    net->start_rule = start_rule;
    const cdz_status st = finish(net, &w, err);
    finish_free(&w);
    free(net->suffixes);
    free(net->plains);
    free(net->marks);
    net->marks = NULL;
    net->n_marks = net->marks_cap = 0;
    net->suffixes = NULL;
    net->plains = NULL;
    net->suffixes_size = 0;
    return st;
}
