/* net.c - building networks: nodes and edges are numbers in arrays that grow, bounded by CDZ_GRAMMAR_MAX_STATES. */
#include "grammar/net.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "grammar/grow.h"

void cdz_net_begin(cdz_net *net, const cdz_grammar_limits *limits)
{
    *net = (cdz_net){.status = CDZ_OK};
    if (limits) net->limits = *limits;
    if (!net->limits.max_bytes) net->limits.max_bytes = CDZ_GRAMMAR_MAX_BYTES;
    if (!net->limits.max_states) net->limits.max_states = CDZ_GRAMMAR_MAX_STATES;
    if (!net->limits.max_ms) net->limits.max_ms = CDZ_GRAMMAR_MAX_MS;
    net->deadline = cdz_now_s() + net->limits.max_ms / 1000.0;
}

void cdz_net_free(cdz_net *net)
{
    for (uint32_t i = 0; i < net->n_tokens; i++) free(net->tokens[i].at);
    free(net->tokens);
    free(net->edges);
    free(net->rules);
    free(net->suffixes);
    free(net->plains);
    free(net->marks);
    free(net->plain_to);
    free(net->first);
    free(net->end_of);
    free(net->copies);
    free(net->copy_of);
    *net = (cdz_net){0};
}

cdz_status cdz_net_fail(cdz_net *net, cdz_status code, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    if (net->status != CDZ_OK) return net->status;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    net->status = cdz_err(&net->error, code, "%s", text);
    return net->status;
}

static void no_memory(cdz_net *net)
{
    cdz_net_fail(net, CDZ_E_NOMEM, "out of memory for a grammar of %u states", net->n_nodes);
}

cdz_status cdz_net_in_time(cdz_net *net)
{
    if (++net->n_looks % 64 == 0 && cdz_now_s() > net->deadline)
        cdz_net_fail(net, CDZ_E_LIMIT, "the grammar takes longer than %u ms (grammar_max_ms)",
                     net->limits.max_ms);
    return net->status;
}

uint32_t cdz_net_node(cdz_net *net)
{
    if (net->status != CDZ_OK) return 0;
    if (net->n_nodes >= net->limits.max_states)
        cdz_net_fail(net, CDZ_E_LIMIT, "the grammar needs more than %u states (grammar_max_states)",
                     net->limits.max_states);
    return cdz_net_in_time(net) == CDZ_OK ? net->n_nodes++ : 0;
}

static void add_edge(cdz_net *net, cdz_net_edge edge)
{
    if (net->status != CDZ_OK) return;
    if (!cdz_grow(&net->edges, &net->edges_cap, (size_t)net->n_edges + 1, sizeof *net->edges))
        no_memory(net);
    else
        net->edges[net->n_edges++] = edge;
}

void cdz_net_edge_add(cdz_net *net, uint32_t from, uint32_t to, cdz_net_kind kind, uint32_t arg)
{
    add_edge(net, (cdz_net_edge){.from = from, .to = to, .kind = (uint8_t)kind, .arg = arg});
}

void cdz_net_byte(cdz_net *net, uint32_t from, uint32_t to, uint8_t lo, uint8_t hi)
{
    add_edge(net, (cdz_net_edge){.from = from, .to = to, .kind = CDZ_NET_BYTES, .lo = lo, .hi = hi});
}

uint32_t cdz_net_rule_of(cdz_net *net, uint32_t start, uint32_t end)
{
    if (net->status != CDZ_OK) return 0;
    if (!cdz_grow(&net->rules, &net->rules_cap, (size_t)net->n_rules + 1, sizeof *net->rules)) {
        no_memory(net);
        return 0;
    }
    net->rules[net->n_rules] = (cdz_net_rule){.start = start, .end = end};
    return net->n_rules++;
}

uint32_t cdz_net_rule_new(cdz_net *net)
{
    const uint32_t start = cdz_net_node(net);
    return cdz_net_rule_of(net, start, cdz_net_node(net));
}

uint32_t cdz_net_text(cdz_net *net, uint32_t from, const char *text, size_t len)
{
    for (size_t i = 0; i < len && net->status == CDZ_OK; i++) {
        const uint32_t to = cdz_net_node(net);
        cdz_net_byte(net, from, to, (uint8_t)text[i], (uint8_t)text[i]);
        from = to;
    }
    return from;
}

uint32_t cdz_net_call(cdz_net *net, uint32_t from, uint32_t rule)
{
    const uint32_t to = cdz_net_node(net);
    cdz_net_edge_add(net, from, to, CDZ_NET_CALL, rule);
    return to;
}

uint32_t cdz_net_token_set(cdz_net *net, cdz_code_span *at, uint32_t n, bool but)
{
    if (net->status != CDZ_OK ||
        !cdz_grow(&net->tokens, &net->tokens_cap, (size_t)net->n_tokens + 1, sizeof *net->tokens)) {
        free(at);
        no_memory(net);
        return 0;
    }
    net->tokens[net->n_tokens] = (cdz_net_tokens){at, n, but};
    return net->n_tokens++;
}

bool cdz_net_has_token(const cdz_net *net, uint32_t set, uint32_t id)
{
    const cdz_net_tokens *t = &net->tokens[set];
    bool in = false;
    for (uint32_t i = 0; i < t->n && !in; i++) in = id >= t->at[i].lo && id <= t->at[i].hi;
    return in != t->but;
}

uint32_t cdz_net_repeat(cdz_net *net, uint32_t body, uint32_t min, uint32_t max)
{
    const uint32_t rule = cdz_net_rule_new(net);
    if (net->status != CDZ_OK) return 0;
    net->rules[rule].min = min;
    net->rules[rule].max = max;
    const cdz_net_rule r = net->rules[rule];
    const uint32_t round = cdz_net_node(net), in = cdz_net_node(net);
    cdz_net_edge_add(net, r.start, round, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(net, round, in, CDZ_NET_COUNT_IN, rule);
    cdz_net_edge_add(net, cdz_net_call(net, in, body), round, CDZ_NET_COUNT_ADD, rule);
    cdz_net_edge_add(net, round, r.end, CDZ_NET_COUNT_OUT, rule);
    return rule;
}

/* --- characters as bytes -------------------------------------------------------------------------- */

static uint32_t suffix_hash(uint32_t to, uint8_t lo, uint8_t hi)
{
    uint64_t h = (uint64_t)to << 16 | (uint64_t)lo << 8 | hi;
    h *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static bool suffix_room(cdz_net *net)
{
    if (net->n_suffixes * 2 < net->suffixes_size) return true;
    const uint32_t size = net->suffixes_size ? 2 * net->suffixes_size : 256;
    cdz_net_suffix *table = calloc(size, sizeof *table);
    if (!table) return false;
    for (uint32_t i = 0; i < net->suffixes_size; i++) {
        const cdz_net_suffix *s = &net->suffixes[i];
        if (!s->used) continue;
        uint32_t at = suffix_hash(s->to, s->lo, s->hi) & (size - 1);
        while (table[at].used) at = (at + 1) & (size - 1);
        table[at] = *s;
    }
    free(net->suffixes);
    net->suffixes = table;
    net->suffixes_size = size;
    return true;
}

uint32_t cdz_net_suffix_of(const cdz_net *net, uint32_t to, uint8_t lo, uint8_t hi)
{
    uint32_t at = suffix_hash(to, lo, hi) & (net->suffixes_size - 1);
    for (; net->suffixes_size && net->suffixes[at].used; at = (at + 1) & (net->suffixes_size - 1)) {
        const cdz_net_suffix *s = &net->suffixes[at];
        if (s->to == to && s->lo == lo && s->hi == hi) return s->node;
    }
    return UINT32_MAX;
}

/* A node from which one byte of lo to hi leads to `to`, and nothing else leads anywhere. */
static uint32_t before(cdz_net *net, uint32_t to, uint8_t lo, uint8_t hi)
{
    if (net->status != CDZ_OK) return 0;
    if (!suffix_room(net)) {
        no_memory(net);
        return 0;
    }
    uint32_t at = suffix_hash(to, lo, hi) & (net->suffixes_size - 1);
    for (; net->suffixes[at].used; at = (at + 1) & (net->suffixes_size - 1)) {
        const cdz_net_suffix *s = &net->suffixes[at];
        if (s->to == to && s->lo == lo && s->hi == hi) return s->node;
    }
    const uint32_t node = cdz_net_node(net);
    cdz_net_byte(net, node, to, lo, hi);
    net->suffixes[at] = (cdz_net_suffix){to, node, lo, hi, true};
    net->n_suffixes++;
    return node;
}

/* Code points whose UTF-8 differs in each byte independently. */
static void put_block(cdz_net *net, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    const int more = lo < 0x80 ? 0 : lo < 0x800 ? 1 : lo < 0x10000 ? 2 : 3;
    static const uint8_t leads[] = {0, 0xC0, 0xE0, 0xF0};
    for (int i = 0; i < more; i++) {
        to = before(net, to, (uint8_t)(0x80 | (lo & 63)), (uint8_t)(0x80 | (hi & 63)));
        lo >>= 6;
        hi >>= 6;
    }
    cdz_net_byte(net, from, to, (uint8_t)(leads[more] | lo), (uint8_t)(leads[more] | hi));
}

/* Cuts lo to hi where the number of bytes or a continuation changes. */
static void put_range(cdz_net *net, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    static const uint32_t lasts[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF, CDZ_CODE_MAX};
    while (lo <= hi && net->status == CDZ_OK) {
        uint32_t end = hi;
        for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++)
            if (lo <= lasts[i] && lasts[i] < end) end = lasts[i];
        for (int bits = 6; bits <= 18 && lo >= 0x80; bits += 6) {
            const uint32_t low = (1u << bits) - 1;
            if ((lo & ~low) == (end & ~low)) break;
            if (lo & low) { /* to the end of the block that lo lies in */
                end = lo | low;
                break;
            }
            if ((end & low) != low) { /* whole blocks first */
                end = (end & ~low) - 1;
                bits = 0; /* a smaller end may be cut by less */
            }
        }
        if (lo < 0xD800 || lo > 0xDFFF) put_block(net, from, to, lo, end);
        lo = end + 1;
    }
}

/* The two hexadecimal digits of lo to hi, which share the first one. */
static void put_hex(cdz_net *net, uint32_t from, uint32_t to, uint32_t lo, uint32_t hi)
{
    const uint8_t high = (uint8_t)('0' + (lo >> 4));
    const uint32_t a = lo & 15, b = hi & 15, digits_end = b < 9 ? b : 9;
    if (a <= 9)
        cdz_net_byte(net, from,
                     before(net, before(net, to, (uint8_t)('0' + a), (uint8_t)('0' + digits_end)),
                            high, high),
                     '0', '0');
    if (b >= 10) {
        const uint32_t c = (a > 10 ? a : 10) - 10, d = b - 10;
        cdz_net_byte(
            net, from,
            before(net, before(net, to, (uint8_t)('a' + c), (uint8_t)('a' + d)), high, high), '0',
            '0');
        cdz_net_byte(
            net, from,
            before(net, before(net, to, (uint8_t)('A' + c), (uint8_t)('A' + d)), high, high), '0',
            '0');
    }
}

/* Whether the set has a character that a JSON string may not, or need not, hold as it is. */
static bool has_escaped(const cdz_charset *set)
{
    static const cdz_code_span escaped[] = {{0, 31}, {'"', '"'}, {'\\', '\\'}, {127, 127}};
    for (uint32_t i = 0; i < set->n && set->at[i].lo <= 127; i++)
        for (size_t k = 0; k < sizeof escaped / sizeof *escaped; k++)
            if (set->at[i].lo <= escaped[k].hi && set->at[i].hi >= escaped[k].lo) return true;
    return false;
}

/* How a JSON string writes such characters. */
static void put_escapes(cdz_net *net, uint32_t from, uint32_t to, const cdz_charset *set)
{
    static const char shorts[][2] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                     {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};
    if (!has_escaped(set)) return;
    const uint32_t slash = cdz_net_node(net);
    cdz_net_byte(net, from, slash, '\\', '\\');
    for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++)
        if (cdz_charset_has(set, (uint8_t)shorts[i][0]))
            cdz_net_byte(net, slash, to, (uint8_t)shorts[i][1], (uint8_t)shorts[i][1]);
    const uint32_t zero = cdz_net_node(net), zero2 = cdz_net_node(net);
    cdz_net_byte(net, slash, zero, 'u', 'u');
    cdz_net_byte(net, zero, zero2, '0', '0');
    for (uint32_t lo = 0; lo < 32; lo++) {
        uint32_t hi = lo;
        if (!cdz_charset_has(set, lo)) continue;
        while ((hi & 15) != 15 && cdz_charset_has(set, hi + 1)) hi++;
        put_hex(net, zero2, to, lo, hi);
        lo = hi;
    }
    if (cdz_charset_has(set, 127)) put_hex(net, zero2, to, 127, 127);
}

/* Whether one stretch of the set after another covers all plain characters. */
static bool has_all_plain(const cdz_charset *set)
{
    static const cdz_code_span plain[] = {{32, 33}, {35, 91}, {93, 0xD7FF}, {0xE000, CDZ_CODE_MAX}};
    uint32_t i = 0;
    for (size_t p = 0; p < sizeof plain / sizeof *plain; p++) {
        while (i < set->n && set->at[i].hi < plain[p].hi) i++;
        if (i == set->n || set->at[i].lo > plain[p].lo) return false;
    }
    return true;
}

bool cdz_net_begins_plain(const cdz_net_edge *e)
{
    static const uint8_t spans[][2] = {{32, 33}, {35, 91}, {93, 127}, {0xC2, 0xF4}};
    for (size_t i = 0; e->kind == CDZ_NET_BYTES && i < sizeof spans / sizeof *spans; i++)
        if (e->lo <= spans[i][1] && e->hi >= spans[i][0]) return true;
    return false;
}

static void note_plain(cdz_net *net, uint32_t from, uint32_t to, uint32_t first_edge)
{
    cdz_net_plain p = {from, to, 0};
    for (uint32_t i = first_edge; i < net->n_edges; i++)
        p.n += net->edges[i].from == from && cdz_net_begins_plain(&net->edges[i]);
    if (net->status != CDZ_OK) return;
    if (cdz_grow(&net->plains, &net->plains_cap, (size_t)net->n_plains + 1, sizeof *net->plains))
        net->plains[net->n_plains++] = p;
    else
        no_memory(net);
}

void cdz_net_charset(cdz_net *net, uint32_t from, uint32_t to, const cdz_charset *set, bool json)
{
    const uint32_t first_edge = net->n_edges;
    static const cdz_code_span raw[] = {{32, 33}, {35, 91}, {93, CDZ_CODE_MAX}};
    for (uint32_t i = 0; i < set->n; i++) {
        if (!json) {
            put_range(net, from, to, set->at[i].lo, set->at[i].hi);
            continue;
        }
        for (size_t r = 0; r < 3; r++) {
            const uint32_t lo = set->at[i].lo > raw[r].lo ? set->at[i].lo : raw[r].lo;
            const uint32_t hi = set->at[i].hi < raw[r].hi ? set->at[i].hi : raw[r].hi;
            if (lo <= hi) put_range(net, from, to, lo, hi);
        }
    }
    if (json) put_escapes(net, from, to, set);
    if (has_all_plain(set)) note_plain(net, from, to, first_edge);
}

static void note_copies(cdz_net *net, const cdz_chars *nfa, uint32_t base)
{
    if (net->status != CDZ_OK || !nfa->n_copies) return;
    if (!cdz_grow(&net->copies, &net->copies_cap, (size_t)net->n_copies + nfa->n_copies,
                  sizeof *net->copies)) {
        no_memory(net);
        return;
    }
    for (uint32_t i = 0; i < nfa->n_copies; i++) {
        net->copies[net->n_copies] = nfa->copies[i];
        net->copies[net->n_copies++].first += base;
    }
}

void cdz_net_chars(cdz_net *net, uint32_t from, uint32_t to, const cdz_chars *nfa, bool json)
{
    if (nfa->failed == CDZ_E_NOMEM) no_memory(net);
    if (nfa->failed) {
        cdz_net_fail(net, CDZ_E_LIMIT, "a pattern needs more than %d states (grammar_max_states)",
                     CDZ_CHARS_MAX_NODES);
        return;
    }
    const uint32_t base = net->n_nodes;
    note_copies(net, nfa, base);
    for (uint32_t i = 0; i < nfa->n_nodes; i++) cdz_net_node(net);
    for (uint32_t i = 0; i < nfa->n_edges && net->status == CDZ_OK; i++) {
        const cdz_chars_edge *e = &nfa->edges[i];
        if (e->takes < nfa->n_sets)
            cdz_net_charset(net, base + e->from, base + e->to, &nfa->sets[e->takes], json);
        else
            cdz_net_edge_add(net, base + e->from, base + e->to, CDZ_NET_NOTHING, 0);
    }
    cdz_net_edge_add(net, from, base + nfa->start, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(net, base + nfa->end, to, CDZ_NET_NOTHING, 0);
}

uint32_t cdz_net_rule_of_chars(cdz_net *net, const cdz_chars *nfa)
{
    const uint32_t rule = cdz_net_rule_new(net);
    if (net->status == CDZ_OK)
        cdz_net_chars(net, net->rules[rule].start, net->rules[rule].end, nfa, false);
    return rule;
}

void cdz_net_transition(cdz_net *net, const cdz_chars_dfa *dfa, uint32_t state, uint32_t next,
                        uint32_t from, uint32_t to, bool json)
{
    cdz_charset set = {0};
    for (uint32_t i = 0; i < dfa->n_cuts; i++)
        if (dfa->next[(size_t)state * dfa->n_classes + dfa->class_of[i]] == next)
            cdz_charset_add(&set, dfa->cuts[i],
                            i + 1 < dfa->n_cuts ? dfa->cuts[i + 1] - 1 : CDZ_CODE_MAX);
    cdz_charset_settle(&set);
    cdz_net_charset(net, from, to, &set, json);
    if (set.failed) no_memory(net);
    cdz_charset_free(&set);
}

void cdz_net_dfa(cdz_net *net, uint32_t from, uint32_t to, const cdz_chars_dfa *dfa, bool json)
{
    const uint32_t base = net->n_nodes;
    for (uint32_t i = 0; i < dfa->n_states; i++) cdz_net_node(net);
    for (uint32_t s = 1; s < dfa->n_states && cdz_net_in_time(net) == CDZ_OK; s++) {
        const uint32_t *row = dfa->next + (size_t)s * dfa->n_classes;
        for (uint32_t c = 0; c < dfa->n_classes; c++) {
            bool again = !row[c];
            for (uint32_t d = 0; d < c && !again; d++) again = row[d] == row[c];
            if (!again) cdz_net_transition(net, dfa, s, row[c], base + s, base + row[c], json);
        }
        if (dfa->accepts[s]) cdz_net_edge_add(net, base + s, to, CDZ_NET_NOTHING, 0);
    }
    cdz_net_edge_add(net, from, base + 1, CDZ_NET_NOTHING, 0);
}
