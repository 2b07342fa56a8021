/* to_gbnf.c - a compiled grammar as GBNF. Each rule of the network is a graph whose arcs carry expressions; nodes between two
 * arcs are taken out one by one, and what is left of a graph becomes rules, a rule for each node.
 *
 * GBNF is of characters, the network of bytes: arcs are found by reading bytes as UTF-8. Its readers take no rule that begins
 * with itself and no repetition of what may be empty, so circles of arcs that take nothing are made one node first. */
#include "grammar/bnf_rope.h"
#include "grammar/grow.h"
#include "grammar/states.h"

enum {
    MOST_COUNT = 2000, /* that llama.cpp reads */
    MOST_MOVED = 16,   /* arcs that are led past a node */
};
static const uint32_t NONE = UINT32_MAX;

typedef struct arc {
    uint32_t from, to;          /* of the graph's nodes */
    uint32_t next_out, next_in; /* of the same node, + 1 */
    cdz_bnf_rope rope;
    bool alive;
} arc;

typedef struct graph_node {
    uint32_t net;                 /* the network's number of it */
    uint32_t first_out, first_in; /* arcs, + 1 */
    uint32_t n_out, n_in, loop;   /* living arcs, but for the one from it to it, + 1 */
    uint32_t same, low, order,
        arc; /* while circles are looked for; same: the node that stands for it */
    bool open, waits, gone;
} graph_node;

typedef struct raw_span {
    uint32_t to, lo, hi;
} raw_span;

typedef struct first_call {
    uint32_t caller, called;
} first_call;

typedef struct gbnf_writer {
    const cdz_net *net;
    cdz_bnf_ropes ropes;
    uint32_t *number; /* by node of the network: its number in the graph + 1 */
    uint32_t *body;   /* by rule that counts: the rule that it repeats; NONE: it counts nothing */
    bool *counts;     /* by rule */
    uint32_t *todo, n_todo; /* rules to write */
    graph_node *nodes;
    arc *arcs;
    raw_span *spans;          /* characters from one node */
    uint32_t *slots, n_slots; /* arcs by their ends, + 1 */
    uint32_t *queue;          /* nodes to look at again */
    first_call *firsts;       /* rules that a rule may begin with */
    uint32_t n_nodes, nodes_cap, n_arcs, arcs_cap, n_spans, spans_cap, n_queue, queue_cap, n_firsts,
        firsts_cap, start, end;
    bool hollow; /* what may be empty is repeated */
    bool gates;  /* a count of characters is looked at before some of them */
    cdz_error *err;
} gbnf_writer;

static void writer_free(gbnf_writer *w)
{
    cdz_bnf_ropes_free(&w->ropes);
    free(w->number);
    free(w->body);
    free(w->counts);
    free(w->todo);
    free(w->nodes);
    free(w->arcs);
    free(w->spans);
    free(w->slots);
    free(w->queue);
    free(w->firsts);
}

static cdz_status refuse(const gbnf_writer *w, const char *what)
{
    return cdz_err(w->err, CDZ_E_UNSUPPORTED, "GBNF cannot say it: %s", what);
}

/* --- the graph ---------------------------------------------------------------------------------------- */

static bool node_of(gbnf_writer *w, uint32_t net_node, uint32_t *out)
{
    if (!w->number[net_node]) {
        if (!cdz_grow(&w->nodes, &w->nodes_cap, (size_t)w->n_nodes + 1, sizeof *w->nodes))
            return false;
        w->nodes[w->n_nodes] = (graph_node){.net = net_node, .same = w->n_nodes};
        w->number[net_node] = ++w->n_nodes;
    }
    *out = w->number[net_node] - 1;
    return true;
}

static uint32_t *slot_of(gbnf_writer *w, uint32_t from, uint32_t to)
{
    const uint64_t key = ((uint64_t)from << 32 | to) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(key >> 32) & (w->n_slots - 1);
    for (; w->slots[at]; at = (at + 1) & (w->n_slots - 1))
        if (w->arcs[w->slots[at] - 1].from == from && w->arcs[w->slots[at] - 1].to == to) break;
    return &w->slots[at];
}

static bool slot_room(gbnf_writer *w)
{
    if ((w->n_arcs + 1) * 2 < w->n_slots) return true;
    const uint32_t size = w->n_slots ? 2 * w->n_slots : 64;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots) return false;
    free(w->slots);
    w->slots = slots;
    w->n_slots = size;
    for (uint32_t i = 0; i < w->n_arcs; i++) *slot_of(w, w->arcs[i].from, w->arcs[i].to) = i + 1;
    return true;
}

static void count_arc(gbnf_writer *w, uint32_t i, uint32_t by)
{
    const arc *a = &w->arcs[i];
    if (a->from == a->to) {
        w->nodes[a->from].loop = by == 1 ? i + 1 : 0;
        return;
    }
    w->nodes[a->from].n_out += by;
    w->nodes[a->to].n_in += by;
}

static bool new_arc(gbnf_writer *w, uint32_t from, uint32_t to)
{
    if (!slot_room(w) || !cdz_grow(&w->arcs, &w->arcs_cap, (size_t)w->n_arcs + 1, sizeof *w->arcs))
        return false;
    w->arcs[w->n_arcs] = (arc){.from = from,
                               .to = to,
                               .next_out = w->nodes[from].first_out,
                               .next_in = w->nodes[to].first_in};
    *slot_of(w, from, to) = ++w->n_arcs;
    w->nodes[from].first_out = w->nodes[to].first_in = w->n_arcs;
    return true;
}

/* One more way from a node to another. */
static bool add_arc(gbnf_writer *w, uint32_t from, uint32_t to, cdz_bnf_rope rope)
{
    if (from == to && !rope.first) return true;
    uint32_t i = w->n_slots ? *slot_of(w, from, to) : 0;
    if (!i) {
        if (!new_arc(w, from, to)) return false;
        i = w->n_arcs;
    }
    arc *a = &w->arcs[i - 1];
    a->rope = a->alive ? cdz_bnf_rope_or(&w->ropes, a->rope, rope) : rope;
    if (!a->alive) {
        a->alive = true;
        count_arc(w, i - 1, 1);
    }
    return !w->ropes.failed;
}

static cdz_bnf_rope take_arc(gbnf_writer *w, uint32_t i)
{
    w->arcs[i].alive = false;
    count_arc(w, i, UINT32_MAX); /* one less */
    return w->arcs[i].rope;
}

/* --- characters ----------------------------------------------------------------------------------------- */

static bool add_span(gbnf_writer *w, uint32_t to, uint32_t lo, uint32_t hi)
{
    if (!cdz_grow(&w->spans, &w->spans_cap, (size_t)w->n_spans + 1, sizeof *w->spans)) return false;
    w->spans[w->n_spans++] = (raw_span){to, lo, hi};
    return true;
}

/* Bytes of which `more` are still to come, read up to a node as code points lo to hi. At most three deep. */
static cdz_status read_rest(gbnf_writer *w, uint32_t node, uint32_t lo, uint32_t hi, uint32_t more,
                            uint32_t least)
{
    static const char broken[] = "a text that is not UTF-8";
    if (!more) {
        if (lo < least || hi > CDZ_CODE_MAX || (lo <= 0xDFFF && hi >= 0xD800))
            return refuse(w, broken);
        return add_span(w, node, lo, hi) ? CDZ_OK : cdz_err_memory(w->err, "a grammar as GBNF");
    }
    if (w->net->end_of[node]) return refuse(w, broken);
    for (uint32_t i = w->net->first[node]; i < w->net->first[node + 1]; i++) {
        const cdz_net_edge *e = &w->net->edges[i];
        if (e->kind == CDZ_NET_NOTHING) { /* between the bytes of a text */
            CDZ_TRY(read_rest(w, e->to, lo, hi, more, least));
            continue;
        }
        if (e->kind != CDZ_NET_BYTES || e->lo < 0x80 || e->hi > 0xBF) return refuse(w, broken);
        if (lo == hi || (e->lo == 0x80 && e->hi == 0xBF)) {
            CDZ_TRY(read_rest(w, e->to, lo << 6 | (e->lo & 63u), hi << 6 | (e->hi & 63u), more - 1,
                              least));
            continue;
        }
        for (uint32_t c = lo; c <= hi; c++)
            CDZ_TRY(read_rest(w, e->to, c << 6 | (e->lo & 63u), c << 6 | (e->hi & 63u), more - 1,
                              least));
    }
    return CDZ_OK;
}

static cdz_status read_bytes(gbnf_writer *w, const cdz_net_edge *e)
{
    static const struct {
        uint8_t lo, hi, more;
        uint32_t least;
    } leads[] = {
        {0, 0x7F, 0, 0}, {0xC2, 0xDF, 1, 0x80}, {0xE0, 0xEF, 2, 0x800}, {0xF0, 0xF4, 3, 0x10000}};
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        if (e->lo < leads[i].lo || e->hi > leads[i].hi) continue;
        const uint32_t bits = leads[i].more ? 0x3Fu >> leads[i].more : 0x7F;
        return read_rest(w, e->to, e->lo & bits, e->hi & bits, leads[i].more, leads[i].least);
    }
    return refuse(w, "a text that is not UTF-8");
}

static int by_place(const void *a, const void *b)
{
    const raw_span *x = a, *y = b;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* The characters from one node as arcs: one to each place that they lead to. */
static cdz_status put_spans(gbnf_writer *w, uint32_t from)
{
    cdz_charset set = {0};
    cdz_status st = CDZ_OK;
    if (w->n_spans) qsort(w->spans, w->n_spans, sizeof *w->spans, by_place);
    for (uint32_t i = 0; i < w->n_spans && st == CDZ_OK;) {
        const uint32_t net_to = w->spans[i].to;
        uint32_t to = 0;
        set.n = 0;
        for (; i < w->n_spans && w->spans[i].to == net_to; i++) {
            const bool beyond = w->spans[i].lo == 0xE000; /* nothing lies between it and U+D7FF */
            cdz_charset_add(&set, beyond ? 0xD800 : w->spans[i].lo, w->spans[i].hi);
        }
        cdz_charset_settle(&set);
        if (set.n && set.at[0].lo == 0xD800) set.at[0].lo = 0xE000;
        if (set.failed || !node_of(w, net_to, &to) ||
            !add_arc(w, from, to, cdz_bnf_rope_set(&w->ropes, set.at, set.n)))
            st = cdz_err_memory(w->err, "a grammar as GBNF");
    }
    cdz_charset_free(&set);
    w->n_spans = 0;
    return st;
}

/* --- arcs of a rule ---------------------------------------------------------------------------------------- */

static cdz_status counted(gbnf_writer *w, uint32_t rule, cdz_bnf_rope *out)
{
    const cdz_net_rule *r = &w->net->rules[rule];
    const uint32_t most = r->max == UINT32_MAX ? r->min : r->max, body = w->body[rule];
    if (body == NONE || !r->max) {
        *out = cdz_bnf_rope_nothing;
        return r->min ? refuse(w, "a repetition of nothing") : CDZ_OK;
    }
    if (most > MOST_COUNT)
        return cdz_err(w->err, CDZ_E_UNSUPPORTED,
                       "GBNF cannot say it: a count of %u (by maxLength, minLength, maxItems or "
                       "minItems); its readers take up to %d",
                       most, MOST_COUNT);
    if (w->net->rules[body].nullable) return refuse(w, "a repetition of what may be empty");
    *out = cdz_bnf_rope_repeat(&w->ropes, cdz_bnf_rope_name(&w->ropes, body, NONE, false), r->min,
                               r->max);
    return CDZ_OK;
}

static cdz_status put_call(gbnf_writer *w, uint32_t from, const cdz_net_edge *e)
{
    cdz_bnf_rope rope;
    uint32_t to;
    if (w->counts[e->arg]) {
        CDZ_TRY(counted(w, e->arg, &rope));
    } else {
        rope = cdz_bnf_rope_name(&w->ropes, e->arg, NONE, w->net->rules[e->arg].nullable);
    }
    return node_of(w, e->to, &to) && add_arc(w, from, to, rope)
               ? CDZ_OK
               : cdz_err_memory(w->err, "a grammar as GBNF");
}

static cdz_status put_edges(gbnf_writer *w, uint32_t from)
{
    const uint32_t node = w->nodes[from].net;
    uint32_t to;
    for (uint32_t i = w->net->first[node]; i < w->net->first[node + 1]; i++) {
        const cdz_net_edge *e = &w->net->edges[i];
        switch (e->kind) {
        case CDZ_NET_BYTES: CDZ_TRY(read_bytes(w, e)); break;
        case CDZ_NET_CALL: CDZ_TRY(put_call(w, from, e)); break;
        case CDZ_NET_NOTHING:
            if (!node_of(w, e->to, &to) || !add_arc(w, from, to, cdz_bnf_rope_nothing))
                return cdz_err_memory(w->err, "a grammar as GBNF");
            break;
        case CDZ_NET_TOKENS: return refuse(w, "tokens by their number");
        default: return refuse(w, "a count within a rule");
        }
    }
    return put_spans(w, from);
}

static cdz_status read_rule(gbnf_writer *w, uint32_t rule)
{
    for (uint32_t i = 0; i < w->n_nodes; i++) w->number[w->nodes[i].net] = 0;
    w->n_nodes = w->n_arcs = w->n_queue = 0;
    if (w->n_slots > 4096) {
        free(w->slots);
        w->slots = NULL;
        w->n_slots = 0;
    }
    if (w->n_slots) memset(w->slots, 0, w->n_slots * sizeof *w->slots);
    if (!node_of(w, w->net->rules[rule].start, &w->start) ||
        !node_of(w, w->net->rules[rule].end, &w->end))
        return cdz_err_memory(w->err, "a grammar as GBNF");
    for (uint32_t i = 0; i < w->n_nodes; i++) CDZ_TRY(put_edges(w, i));
    return CDZ_OK;
}

/* --- circles of arcs that take nothing ---------------------------------------------------------------------- */

/* Closes a circle: all that were found since its first node. */
static void close_circle(gbnf_writer *w, uint32_t node, uint32_t *stack, uint32_t *n)
{
    uint32_t member;
    do {
        member = stack[--*n];
        w->nodes[member].open = false;
        w->nodes[member].same = node;
    } while (member != node);
}

/* Tarjan's search from a node; path and stack have room for every node. */
static void search_circles(gbnf_writer *w, uint32_t from, uint32_t *path, uint32_t *stack,
                           uint32_t *n_stack, uint32_t *order)
{
    uint32_t n = 0;
    path[n++] = from;
    while (n) {
        graph_node *v = &w->nodes[path[n - 1]];
        if (!v->order) {
            v->order = v->low = ++*order;
            v->arc = v->first_out;
            v->open = true;
            stack[(*n_stack)++] = path[n - 1];
        }
        const arc *a = v->arc ? &w->arcs[v->arc - 1] : NULL;
        if (a) {
            graph_node *to = &w->nodes[a->to];
            if (!a->alive || !a->rope.nullable) {
                v->arc = a->next_out;
            } else if (!to->order) {
                path[n++] = a->to; /* looked at again when it is done */
            } else {
                if (to->open && to->low < v->low) v->low = to->low;
                v->arc = a->next_out;
            }
            continue;
        }
        n--;
        if (v->low == v->order) close_circle(w, (uint32_t)(v - w->nodes), stack, n_stack);
    }
}

/* Leads the arcs of all nodes to those that stand for them. */
static bool join_circles(gbnf_writer *w)
{
    const uint32_t n = w->n_arcs;
    w->start = w->nodes[w->start].same;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = w->nodes[w->arcs[i].from].same, to = w->nodes[w->arcs[i].to].same;
        if (!w->arcs[i].alive) continue;
        w->hollow |= from == to && w->arcs[i].rope.nullable && w->arcs[i].rope.first;
        if (from == w->arcs[i].from && to == w->arcs[i].to) continue;
        if (!add_arc(w, from, to, take_arc(w, i))) return false;
    }
    for (uint32_t i = 0; i < w->n_nodes; i++) w->nodes[i].gone = w->nodes[i].same != i;
    return true;
}

static cdz_status merge_circles(gbnf_writer *w)
{
    uint32_t *path = malloc(((size_t)w->n_nodes + 1) * sizeof *path);
    uint32_t *stack = calloc((size_t)w->n_nodes + 1, sizeof *stack);
    uint32_t n_stack = 0, order = 0;
    const bool fine = path && stack;
    for (uint32_t i = 0; fine && i < w->n_nodes; i++)
        if (!w->nodes[i].order) search_circles(w, i, path, stack, &n_stack, &order);
    free(path);
    free(stack);
    return fine && join_circles(w) ? CDZ_OK : cdz_err_memory(w->err, "a grammar as GBNF");
}

/* --- taking nodes out --------------------------------------------------------------------------------------- */

static bool look_again(gbnf_writer *w, uint32_t node)
{
    if (w->nodes[node].waits || w->nodes[node].gone) return true;
    if (!cdz_grow(&w->queue, &w->queue_cap, (size_t)w->n_queue + 1, sizeof *w->queue)) return false;
    w->nodes[node].waits = true;
    w->queue[w->n_queue++] = node;
    return true;
}

static uint32_t living_out(const gbnf_writer *w, uint32_t node)
{
    uint32_t i = w->nodes[node].first_out;
    while (i && (!w->arcs[i - 1].alive || w->arcs[i - 1].to == node)) i = w->arcs[i - 1].next_out;
    return i - 1;
}

static uint32_t living_in(const gbnf_writer *w, uint32_t node)
{
    uint32_t i = w->nodes[node].first_in;
    while (i && (!w->arcs[i - 1].alive || w->arcs[i - 1].from == node)) i = w->arcs[i - 1].next_in;
    return i - 1;
}

/* A way through a node, which then has one less. */
static bool lead_past(gbnf_writer *w, uint32_t node, uint32_t in, uint32_t out, bool keep_in,
                      bool keep_out)
{
    const uint32_t from = w->arcs[in].from, to = w->arcs[out].to, loop = w->nodes[node].loop;
    cdz_bnf_rope rope = keep_in ? cdz_bnf_rope_nothing : take_arc(w, in);
    if (loop) {
        const cdz_bnf_rope round = take_arc(w, loop - 1);
        rope = cdz_bnf_rope_then(&w->ropes, rope,
                                 cdz_bnf_rope_repeat(&w->ropes, round, 0, UINT32_MAX));
    }
    if (!keep_out) rope = cdz_bnf_rope_then(&w->ropes, rope, take_arc(w, out));
    return add_arc(w, from, to, rope) && look_again(w, from) && look_again(w, to);
}

/* Takes a node out if nothing must be written twice for it; false: memory. */
static bool take_out(gbnf_writer *w, uint32_t node)
{
    graph_node *v = &w->nodes[node];
    if (node == w->start || node == w->end || v->gone || !v->n_in || !v->n_out) return true;
    const uint32_t in = living_in(w, node), out = living_out(w, node);
    bool fine = true;
    if (v->n_in == 1 && v->n_out == 1) {
        fine = lead_past(w, node, in, out, false, false);
        w->nodes[node].gone = true;
    } else if (!v->loop && v->n_in == 1 && !w->arcs[in].rope.first && v->n_out <= MOST_MOVED) {
        while (fine && w->nodes[node].n_out)
            fine = lead_past(w, node, in, living_out(w, node), true, false);
        (void)take_arc(w, in);
        w->nodes[node].gone = true;
    } else if (!v->loop && v->n_out == 1 && !w->arcs[out].rope.first && v->n_in <= MOST_MOVED) {
        while (fine && w->nodes[node].n_in)
            fine = lead_past(w, node, living_in(w, node), out, false, true);
        (void)take_arc(w, out);
        w->nodes[node].gone = true;
    }
    return fine;
}

static cdz_status reduce(gbnf_writer *w)
{
    bool fine = true;
    for (uint32_t i = w->n_nodes; fine && i-- > 0;) fine = look_again(w, i);
    while (fine && w->n_queue) {
        const uint32_t node = w->queue[--w->n_queue];
        w->nodes[node].waits = false;
        fine = take_out(w, node);
    }
    return fine && !w->ropes.failed ? CDZ_OK : cdz_err_memory(w->err, "a grammar as GBNF");
}

/* --- writing -------------------------------------------------------------------------------------------------- */

static void write_name(void *user, uint32_t rule, uint32_t part, cdz_buf *out)
{
    const gbnf_writer *w = user;
    if (rule == w->net->start_rule)
        cdz_buf_puts(out, "root");
    else
        cdz_buf_printf(out, "r%u", rule);
    if (part != NONE) cdz_buf_printf(out, "-%u", part);
}

/* What may follow a node, as a rule. */
static cdz_status write_node(gbnf_writer *w, uint32_t rule, uint32_t node, cdz_buf *out)
{
    cdz_bnf_rope all = {0};
    bool some = false;
    for (uint32_t i = w->nodes[node].first_out; i; i = w->arcs[i - 1].next_out) {
        const arc *a = &w->arcs[i - 1];
        cdz_bnf_rope one = a->rope;
        if (!a->alive) continue;
        if (a->to != w->end)
            one = cdz_bnf_rope_then(
                &w->ropes, one,
                cdz_bnf_rope_name(&w->ropes, rule, a->to == w->start ? NONE : a->to, false));
        all = some ? cdz_bnf_rope_or(&w->ropes, one, all) : one; /* arcs lie newest first */
        some = true;
    }
    write_name(w, rule, node == w->start ? NONE : node, out);
    cdz_buf_puts(out, " ::= ");
    cdz_bnf_rope_write(&w->ropes, all, write_name, w, out);
    cdz_buf_putc(out, '\n');
    return w->ropes.failed || out->failed ? cdz_err_memory(w->err, "a grammar as GBNF") : CDZ_OK;
}

static cdz_status write_rule(gbnf_writer *w, uint32_t rule, cdz_buf *out)
{
    w->ropes.n_pieces = w->ropes.n_spans = 0;
    CDZ_TRY(read_rule(w, rule));
    CDZ_TRY(merge_circles(w));
    if (w->hollow) return refuse(w, "a repetition of what may be empty");
    CDZ_TRY(reduce(w));
    CDZ_TRY(write_node(w, rule, w->start, out));
    for (uint32_t i = 0; i < w->n_nodes; i++)
        if (i != w->start && i != w->end && !w->nodes[i].gone) CDZ_TRY(write_node(w, rule, i, out));
    return CDZ_OK;
}

/* --- rules that begin with themselves ---------------------------------------------------------------------------- */

/* The rules that a rule may begin with, over what takes nothing. */
static bool find_firsts(gbnf_writer *w, uint32_t rule)
{
    const cdz_net *net = w->net;
    for (uint32_t i = 0; i < w->n_nodes; i++) w->number[w->nodes[i].net] = 0;
    w->n_nodes = 0;
    uint32_t to;
    if (!node_of(w, net->rules[rule].start, &to)) return false;
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        const uint32_t node = w->nodes[i].net;
        for (uint32_t k = net->first[node]; k < net->first[node + 1]; k++) {
            const cdz_net_edge *e = &net->edges[k];
            const bool call = e->kind == CDZ_NET_CALL;
            if (call) {
                if (!cdz_grow(&w->firsts, &w->firsts_cap, (size_t)w->n_firsts + 1,
                              sizeof *w->firsts))
                    return false;
                w->firsts[w->n_firsts++] = (first_call){rule, e->arg};
            }
            const bool passes = call ? net->rules[e->arg].nullable
                                     : e->kind != CDZ_NET_BYTES && e->kind != CDZ_NET_TOKENS;
            if (passes && !node_of(w, e->to, &to)) return false;
        }
    }
    return true;
}

/* Depth first over the pairs, which are sorted by caller; first[r]: where rule r's begin. */
static bool is_circle(const gbnf_writer *w, const uint32_t *first, uint32_t *path, uint32_t *at,
                      uint8_t *seen)
{
    for (uint32_t r = 0; r < w->net->n_rules; r++) {
        uint32_t n = 0;
        if (seen[r]) continue;
        path[n++] = r;
        at[r] = first[r];
        seen[r] = 1;
        while (n) {
            const uint32_t top = path[n - 1];
            if (at[top] == first[top + 1]) {
                seen[top] = 2;
                n--;
                continue;
            }
            const uint32_t to = w->firsts[at[top]++].called;
            if (seen[to] == 1) return true;
            if (seen[to]) continue;
            path[n++] = to;
            at[to] = first[to];
            seen[to] = 1;
        }
    }
    return false;
}

static cdz_status refuse_circles(gbnf_writer *w)
{
    const uint32_t n = w->net->n_rules;
    uint32_t *first = calloc((size_t)n + 1, sizeof *first), *path = calloc(n, sizeof *path);
    uint32_t *at = calloc(n, sizeof *at);
    uint8_t *seen = calloc(n, 1);
    bool fine = first && path && at && seen;
    for (uint32_t r = 0; fine && r < n; r++) {
        fine = !w->net->rules[r].productive || find_firsts(w, r);
        first[r + 1] = w->n_firsts;
    }
    const bool circle = fine && is_circle(w, first, path, at, seen);
    free(first);
    free(path);
    free(at);
    free(seen);
    if (!fine) return cdz_err_memory(w->err, "a grammar as GBNF");
    return circle
               ? refuse(w,
                        "a rule that begins with itself (a $ref that leads back, or left recursion)")
               : CDZ_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

static bool writer_begin(gbnf_writer *w)
{
    const cdz_net *net = w->net;
    w->number = calloc((size_t)net->n_nodes + 1, sizeof *w->number);
    w->body = malloc(((size_t)net->n_rules + 1) * sizeof *w->body);
    w->counts = calloc((size_t)net->n_rules + 1, sizeof *w->counts);
    w->todo = calloc((size_t)net->n_rules + 1, sizeof *w->todo);
    if (!w->number || !w->body || !w->counts || !w->todo) return false;
    for (uint32_t r = 0; r < net->n_rules; r++) w->body[r] = NONE;
    for (uint32_t i = 0; i < net->n_edges; i++) {
        const cdz_net_edge *e = &net->edges[i];
        if (e->kind == CDZ_NET_COUNT_OUT) w->counts[e->arg] = true;
        if (e->kind != CDZ_NET_COUNT_IN) continue;
        for (uint32_t k = net->first[e->to]; k < net->first[e->to + 1]; k++) {
            w->gates |= net->edges[k].kind == CDZ_NET_BYTES;
            if (net->edges[k].kind == CDZ_NET_CALL) w->body[e->arg] = net->edges[k].arg;
        }
    }
    return true;
}

/* Rules in the order in which they are named first. */
static cdz_status write_rules(gbnf_writer *w, cdz_buf *out)
{
    bool *done = calloc((size_t)w->net->n_rules + 1, sizeof *done);
    if (!done) return cdz_err_memory(w->err, "a grammar as GBNF");
    cdz_status st = CDZ_OK;
    w->todo[w->n_todo++] = w->net->start_rule;
    done[w->net->start_rule] = true;
    for (uint32_t i = 0; i < w->n_todo && st == CDZ_OK; i++) {
        const uint32_t rule = w->todo[i];
        st = write_rule(w, rule, out);
        for (uint32_t k = 0; st == CDZ_OK && k < w->ropes.n_pieces; k++) {
            const uint32_t named = cdz_bnf_rope_named(&w->ropes, k);
            if (named == NONE || done[named]) continue;
            done[named] = true;
            w->todo[w->n_todo++] = named;
        }
    }
    free(done);
    return st;
}

cdz_status cdz_grammar_to_gbnf(const cdz_grammar *g, cdz_buf *out, cdz_error *err)
{
    gbnf_writer w = {.net = &g->net, .err = err};
    cdz_status st =
        writer_begin(&w) ? refuse_circles(&w) : cdz_err_memory(w.err, "a grammar as GBNF");
    if (st == CDZ_OK && w.counts[g->net.start_rule]) st = refuse(&w, "a count within a rule");
    if (st == CDZ_OK && w.gates)
        st = refuse(
            &w, "a length (maxLength or minLength) beside a pattern or format, as large as this");
    if (st == CDZ_OK) st = write_rules(&w, out);
    writer_free(&w);
    return st;
}
