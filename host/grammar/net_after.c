/* net_after.c - a language that begins behind a text: free bytes, in which that text is looked for as Knuth, Morris and Pratt do. */
#include "grammar/grow.h"
#include "grammar/net.h"

enum { MOST_MARKER = 256 };

typedef struct after_work {
    cdz_net *net;
    const uint8_t *marker;
    uint32_t n;
    uint32_t nodes[MOST_MARKER + 1]; /* by how much of the marker has come */
    uint32_t falls[MOST_MARKER + 1]; /* what is left of it when the next byte is another */
} after_work;

static uint32_t next(const after_work *w, uint32_t k, uint32_t byte)
{
    while (k && w->marker[k] != byte) k = w->falls[k];
    return w->marker[k] == byte ? k + 1 : 0;
}

static void find_falls(after_work *w)
{
    for (uint32_t k = 1; k < w->n; k++) w->falls[k + 1] = next(w, w->falls[k], w->marker[k]);
}

static void put_bytes(after_work *w, uint32_t k)
{
    for (uint32_t lo = 0, hi; lo < 256; lo = hi + 1) {
        const uint32_t to = next(w, k, lo);
        for (hi = lo; hi < 255 && next(w, k, hi + 1) == to; hi++) continue;
        cdz_net_byte(w->net, w->nodes[k], w->nodes[to], (uint8_t)lo, (uint8_t)hi);
    }
}

static void put_token(after_work *w, int32_t id)
{
    cdz_code_span *at = malloc(sizeof *at);
    if (!at) {
        cdz_net_fail(w->net, CDZ_E_NOMEM, "out of memory for a grammar");
        return;
    }
    *at = (cdz_code_span){(uint32_t)id, (uint32_t)id};
    const uint32_t set = cdz_net_token_set(w->net, at, 1, false);
    for (uint32_t k = 0; k < w->n; k++)
        cdz_net_edge_add(w->net, w->nodes[k], w->nodes[w->n], CDZ_NET_TOKENS, set);
}

static void put_rest(after_work *w, uint32_t rule, uint32_t end)
{
    cdz_net *net = w->net;
    const uint32_t line = cdz_net_node(net), begin = cdz_net_node(net);
    cdz_net_byte(net, w->nodes[w->n], line, '\n', '\n');
    cdz_net_byte(net, line, begin, '\n', '\n');
    cdz_net_edge_add(net, w->nodes[w->n], begin, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(net, line, begin, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(net, begin, end, CDZ_NET_CALL, rule);
}

uint32_t cdz_net_after(cdz_net *net, const char *marker, const cdz_tokenizer *tokenizer,
                       uint32_t rule)
{
    after_work w = {.net = net, .marker = (const uint8_t *)marker, .n = (uint32_t)strlen(marker)};
    if (w.n > MOST_MARKER) {
        cdz_net_fail(net, CDZ_E_LIMIT, "grammar_after has %u bytes, the limit is %d", w.n,
                     MOST_MARKER);
        return 0;
    }
    const uint32_t whole = cdz_net_rule_new(net);
    for (uint32_t k = 0; k <= w.n; k++) w.nodes[k] = cdz_net_node(net);
    if (net->status != CDZ_OK) return 0;
    find_falls(&w);
    const cdz_net_rule r = net->rules[whole];
    cdz_net_edge_add(net, r.start, w.nodes[0], CDZ_NET_NOTHING, 0);
    for (uint32_t k = 0; k < w.n; k++) put_bytes(&w, k);
    const int32_t id = tokenizer ? cdz_tokenizer_id(tokenizer, marker, w.n) : -1;
    if (id >= 0) put_token(&w, id);
    put_rest(&w, rule, r.end);
    return whole;
}
