/* net_crowd.c - finds, before a network runs, a place from which a text would stand at more places at once than a state may
 * have (CDZ_GRAMMAR_MAX_ITEMS). A place counts once here, whatever its frame and count are: what is found is certain,
 * and what depends on the text is left to those who run it. Small networks are not looked at. */
#include <stdlib.h>
#include <string.h>

#include "grammar/grow.h"
#include "grammar/net.h"

enum {
    STEPS_PER_EDGE = 16,               /* that looking may take */
    MANY = CDZ_GRAMMAR_MAX_ITEMS / 16, /* edges from a place that are worth looking behind */
    MAX_BYTES = 16,                    /* how far behind */
};

typedef struct crowd_work {
    const cdz_net *net;
    /* by node; fine: in a crowd that was small; lands: a text comes to it */
    bool *live, *fine, *lands;
    uint32_t *first, *order; /* edges by where they begin */
    uint32_t *seen, epoch;
    uint32_t *stack, *by, *spare; /* nodes reached, and the edges that reached them */
    uint32_t *votes;              /* by mark: edges that reached something */
    uint32_t n;
    uint64_t steps;
} crowd_work;

/* --- marks ------------------------------------------------------------------------------------------ */

void cdz_net_mark_add(cdz_net *net, uint32_t number, const char *keyword)
{
    if (net->status != CDZ_OK) return;
    /* nothing was made for the last one: this takes its place */
    const uint32_t n = net->n_marks;
    const uint32_t i = n && net->marks[n - 1].edge == net->n_edges ? n - 1 : n;
    if (cdz_grow(&net->marks, &net->marks_cap, (size_t)i + 1, sizeof *net->marks)) {
        net->marks[i] = (cdz_net_mark){net->n_edges, number, keyword};
        net->n_marks = i + 1;
    } else {
        cdz_net_fail(net, CDZ_E_NOMEM, "out of memory for a grammar of %u states", net->n_nodes);
    }
}

/* The last mark before an edge. */
static uint32_t mark_of(const cdz_net *net, uint32_t edge)
{
    uint32_t lo = 0, hi = net->n_marks;
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        if (net->marks[mid].edge <= edge)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Counts for the marks whose edges reached the nodes. */
static void vote(crowd_work *w)
{
    for (uint32_t i = 0; i < w->n; i++) w->votes[mark_of(w->net, w->by[i])]++;
}

/* --- looking ---------------------------------------------------------------------------------------------- */

static void crowd_free(crowd_work *w)
{
    free(w->live);
    free(w->fine);
    free(w->lands);
    free(w->first);
    free(w->order);
    free(w->seen);
    free(w->stack);
    free(w->by);
    free(w->spare);
    free(w->votes);
}

static bool crowd_begin(cdz_net *net, crowd_work *w)
{
    const size_t n = (size_t)net->n_nodes + 1;
    w->live = calloc(n, sizeof *w->live);
    w->fine = calloc(n, sizeof *w->fine);
    w->lands = calloc(n, sizeof *w->lands);
    w->first = calloc(n + 1, sizeof *w->first);
    w->order = malloc(((size_t)net->n_edges + 1) * sizeof *w->order);
    w->seen = calloc(n, sizeof *w->seen);
    w->stack = malloc(n * sizeof *w->stack);
    w->by = malloc(n * sizeof *w->by);
    w->spare = malloc(n * sizeof *w->spare);
    w->votes = calloc(net->n_marks, sizeof *w->votes);
    if (!w->live || !w->fine || !w->lands || !w->first || !w->order || !w->seen || !w->stack ||
        !w->by || !w->spare || !w->votes || !cdz_net_find_live(net, w->live))
        return false;
    for (uint32_t i = 0; i < net->n_edges; i++) w->first[net->edges[i].from + 2]++;
    for (uint32_t i = 0; i < net->n_nodes; i++) w->first[i + 2] += w->first[i + 1];
    for (uint32_t i = 0; i < net->n_edges; i++) w->order[w->first[net->edges[i].from + 1]++] = i;
    return true;
}

static void reach(crowd_work *w, uint32_t node, uint32_t edge)
{
    if (!w->live[node] || w->seen[node] == w->epoch) return;
    w->seen[node] = w->epoch;
    w->by[w->n] = edge;
    w->stack[w->n++] = node;
}

static bool taken(const crowd_work *w, const cdz_net_edge *e)
{
    return w->live[e->to] && (e->kind != CDZ_NET_CALL || w->net->rules[e->arg].productive);
}

/* All nodes that a text comes to from a rule on; those that it lands on, by a byte, a token or a rule that ended. */
static void find_lands(crowd_work *w, uint32_t rule)
{
    const cdz_net *net = w->net;
    w->epoch++;
    w->n = 0;
    reach(w, net->rules[rule].start, 0);
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t k = w->first[w->stack[i]]; k < w->first[w->stack[i] + 1]; k++) {
            const cdz_net_edge *e = &net->edges[w->order[k]];
            if (!taken(w, e)) continue;
            const bool calls = e->kind == CDZ_NET_CALL;
            w->lands[e->to] |= calls || e->kind == CDZ_NET_BYTES || e->kind == CDZ_NET_TOKENS;
            reach(w, e->to, 0);
            if (calls) reach(w, net->rules[e->arg].start, 0);
        }
    w->lands[net->rules[rule].start] = true;
}

/* An edge that takes nothing, on its way from a place where a text stands. */
static void follow(crowd_work *w, uint32_t edge)
{
    const cdz_net_edge *e = &w->net->edges[edge];
    const cdz_net_rule *rule = &w->net->rules[e->arg];
    if (!taken(w, e)) return;
    if (e->kind == CDZ_NET_CALL) reach(w, rule->start, edge);
    if (e->kind == CDZ_NET_NOTHING || e->kind == CDZ_NET_COUNT_ADD ||
        (e->kind == CDZ_NET_COUNT_IN && rule->max > 1) ||
        (e->kind == CDZ_NET_COUNT_OUT && !rule->min))
        reach(w, e->to, edge);
}

/* Goes on from the nodes that were reached. Returns whether they are a crowd. */
static bool gather(crowd_work *w)
{
    for (uint32_t i = 0; i < w->n && w->n <= CDZ_GRAMMAR_MAX_ITEMS; i++) {
        const uint32_t node = w->stack[i];
        w->steps += 1 + w->first[node + 1] - w->first[node];
        for (uint32_t k = w->first[node]; k < w->first[node + 1]; k++) follow(w, w->order[k]);
    }
    return w->n > CDZ_GRAMMAR_MAX_ITEMS;
}

/* The byte that most edges of the nodes reached take, and how many do; of as many, the last. */
static uint32_t most_taken(crowd_work *w, uint8_t *byte)
{
    int32_t change[257] = {0}, n = 0, most = 0;
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t k = w->first[w->stack[i]]; k < w->first[w->stack[i] + 1]; k++) {
            const cdz_net_edge *e = &w->net->edges[w->order[k]];
            if (e->kind != CDZ_NET_BYTES || !w->live[e->to]) continue;
            change[e->lo]++;
            change[e->hi + 1]--;
        }
    for (int b = 0; b < 256; b++) {
        n += change[b];
        if (n < most) continue;
        most = n;
        *byte = (uint8_t)b;
    }
    return (uint32_t)most;
}

/* From the nodes reached to those behind a byte. */
static void take(crowd_work *w, uint8_t byte)
{
    const uint32_t n = w->n;
    uint32_t *from = w->stack;
    w->stack = w->spare;
    w->spare = from;
    w->n = 0;
    w->epoch++;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = w->first[from[i]]; k < w->first[from[i] + 1]; k++) {
            const cdz_net_edge *e = &w->net->edges[w->order[k]];
            if (e->kind == CDZ_NET_BYTES && e->lo <= byte && byte <= e->hi)
                reach(w, e->to, w->order[k]);
        }
}

/* Behind the bytes that most of the nodes reached take, one after the other, while those are many. */
static bool crowd_behind(crowd_work *w)
{
    uint8_t byte = 0;
    memset(w->votes, 0, w->net->n_marks * sizeof *w->votes);
    for (uint32_t i = 0; i < MAX_BYTES; i++) {
        vote(w);
        if (most_taken(w, &byte) < MANY) return false;
        take(w, byte);
        if (!gather(w)) continue;
        vote(w);
        return true;
    }
    return false;
}

static bool crowd_at(crowd_work *w, uint32_t node)
{
    const uint64_t before = w->steps;
    w->epoch++;
    w->n = 0;
    reach(w, node, w->first[node] < w->first[node + 1] ? w->order[w->first[node]] : 0);
    if (gather(w)) {
        memset(w->votes, 0, w->net->n_marks * sizeof *w->votes);
        vote(w);
        return true;
    }
    for (uint32_t i = 0; i < w->n; i++) w->fine[w->stack[i]] = true;
    return w->steps - before > MANY && crowd_behind(w);
}

static bool find_crowd(crowd_work *w, uint32_t rule)
{
    const uint64_t most = (uint64_t)STEPS_PER_EDGE * w->net->n_edges;
    find_lands(w, rule);
    for (uint32_t node = 0; node < w->net->n_nodes && w->steps < most; node++)
        if (w->lands[node] && !w->fine[node] && crowd_at(w, node)) return true;
    return false;
}

static cdz_net_mark most_voted(const crowd_work *w)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < w->net->n_marks; i++)
        if (w->votes[i] > w->votes[most]) most = i;
    return w->net->marks[most];
}

bool cdz_net_crowd(cdz_net *net, uint32_t rule, cdz_net_mark *mark, bool *found)
{
    crowd_work w = {.net = net};
    *found = false;
    if (net->status != CDZ_OK || !net->n_marks || net->n_edges <= CDZ_GRAMMAR_MAX_ITEMS)
        return true;
    const bool fine = crowd_begin(net, &w);
    if (fine) *found = find_crowd(&w, rule);
    if (*found) *mark = most_voted(&w);
    crowd_free(&w);
    return fine;
}
