/* show.c - the compiled form of a grammar, for people: rules, their places, and what leads from one to the next. */
#include <stdlib.h>

#include "grammar/states.h"

static void put_byte(cdz_buf *out, uint8_t byte)
{
    if (byte > 32 && byte < 127 && byte != '-' && byte != '\\')
        cdz_buf_putc(out, (char)byte);
    else
        cdz_buf_printf(out, "\\x%02x", byte);
}

static void put_edge(const cdz_net *net, const cdz_net_edge *e, cdz_buf *out)
{
    const cdz_net_rule *rule = &net->rules[e->arg];
    cdz_buf_printf(out, "    %u -> %u  ", e->from, e->to);
    switch (e->kind) {
    case CDZ_NET_BYTES:
        put_byte(out, e->lo);
        if (e->hi > e->lo) cdz_buf_putc(out, '-');
        if (e->hi > e->lo) put_byte(out, e->hi);
        break;
    case CDZ_NET_NOTHING: cdz_buf_puts(out, "nothing"); break;
    case CDZ_NET_CALL: cdz_buf_printf(out, "rule %u", e->arg); break;
    case CDZ_NET_TOKENS: cdz_buf_puts(out, "a token by its number"); break;
    case CDZ_NET_COUNT_IN: cdz_buf_printf(out, "once more, below %u", rule->max); break;
    case CDZ_NET_COUNT_ADD: cdz_buf_puts(out, "counted"); break;
    default: cdz_buf_printf(out, "enough, from %u on", rule->min);
    }
    cdz_buf_putc(out, '\n');
}

/* The places that a rule reaches, each once. */
static void put_rule(const cdz_net *net, uint32_t r, uint32_t *todo, uint8_t *seen, cdz_buf *out)
{
    uint32_t n = 0;
    cdz_buf_printf(out, "rule %u: from %u to %u%s%s\n", r, net->rules[r].start, net->rules[r].end,
                   net->rules[r].nullable ? ", may be empty" : "",
                   r == net->start_rule ? ", the whole text" : "");
    if (seen[net->rules[r].start]) return;
    seen[net->rules[r].start] = 1;
    todo[n++] = net->rules[r].start;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = net->first[todo[i]]; k < net->first[todo[i] + 1]; k++) {
            const cdz_net_edge *e = &net->edges[k];
            put_edge(net, e, out);
            if (seen[e->to]) continue;
            seen[e->to] = 1;
            todo[n++] = e->to;
        }
}

void cdz_grammar_show(const cdz_grammar *g, cdz_buf *out)
{
    const cdz_net *net = &g->net;
    uint32_t *todo = calloc((size_t)net->n_nodes + 1, sizeof *todo);
    uint8_t *seen = calloc((size_t)net->n_nodes + 1, 1);
    cdz_buf_printf(out, "%u rules, %u places, %u steps, %u classes of bytes, %llu bytes of memory\n",
                   net->n_rules, net->n_nodes, net->n_edges, net->n_classes,
                   (unsigned long long)cdz_grammar_bytes(g));
    out->failed |= !todo || !seen;
    for (uint32_t r = 0; !out->failed && r < net->n_rules; r++)
        if (net->rules[r].productive) put_rule(net, r, todo, seen, out);
    free(todo);
    free(seen);
}
