/* chars.c - automata over code points: building, and the two that anchors make of one. */
#include "grammar/chars.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/grow.h"

void cdz_chars_free(cdz_chars *nfa)
{
    for (uint32_t i = 0; i < nfa->n_sets; i++) cdz_charset_free(&nfa->sets[i]);
    free(nfa->sets);
    free(nfa->edges);
    free(nfa->copies);
    *nfa = (cdz_chars){0};
}

/* The first failure stays. */
static void fail(cdz_chars *nfa, cdz_status code)
{
    if (nfa->failed == CDZ_OK) nfa->failed = code;
}

uint32_t cdz_chars_node(cdz_chars *nfa)
{
    if (nfa->n_nodes >= CDZ_CHARS_MAX_NODES) {
        fail(nfa, CDZ_E_LIMIT);
        return 0;
    }
    return nfa->n_nodes++;
}

void cdz_chars_edge_add(cdz_chars *nfa, uint32_t from, uint32_t to, uint32_t takes)
{
    if (nfa->failed) return;
    if (nfa->n_edges >= 4u * CDZ_CHARS_MAX_NODES) {
        fail(nfa, CDZ_E_LIMIT);
        return;
    }
    if (!cdz_grow(&nfa->edges, &nfa->edges_cap, (size_t)nfa->n_edges + 1, sizeof *nfa->edges)) {
        fail(nfa, CDZ_E_NOMEM);
        return;
    }
    if (takes == CDZ_CHARS_BEGIN || takes == CDZ_CHARS_END) nfa->anchors = true;
    nfa->edges[nfa->n_edges++] = (cdz_chars_edge){from, to, takes};
}

uint32_t cdz_chars_set(cdz_chars *nfa, cdz_charset *set)
{
    cdz_charset_settle(set);
    if (set->failed ||
        !cdz_grow(&nfa->sets, &nfa->sets_cap, (size_t)nfa->n_sets + 1, sizeof *nfa->sets)) {
        fail(nfa, CDZ_E_NOMEM);
        cdz_charset_free(set);
        return 0;
    }
    nfa->sets[nfa->n_sets] = *set;
    *set = (cdz_charset){0};
    return nfa->n_sets++;
}

uint32_t cdz_chars_copy(cdz_chars *nfa, uint32_t lo, uint32_t hi, uint32_t edge_lo, uint32_t edge_hi)
{
    const uint32_t shift = nfa->n_nodes - lo;
    if (nfa->n_nodes + (hi - lo) > CDZ_CHARS_MAX_NODES) fail(nfa, CDZ_E_LIMIT);
    if (nfa->failed) return 0;
    nfa->n_nodes += hi - lo;
    for (uint32_t i = edge_lo; i < edge_hi && !nfa->failed; i++) {
        const cdz_chars_edge e = nfa->edges[i];
        cdz_chars_edge_add(nfa, e.from + shift, e.to + shift, e.takes);
    }
    return shift;
}

/* --- anchors -------------------------------------------------------------------------------------- */

/* Every node four times: nothing was read yet, something was, and both once more for "nothing may be read any more". */
enum { FRESH = 0, READ = 1, FRESH_ENDED = 2, READ_ENDED = 3 };

static void unfold_edge(cdz_chars *nfa, cdz_chars_edge e)
{
    const uint32_t from = 4 * e.from, to = 4 * e.to;
    switch (e.takes) {
    case CDZ_CHARS_NOTHING:
        for (uint32_t i = 0; i < 4; i++) cdz_chars_edge_add(nfa, from + i, to + i, e.takes);
        break;
    case CDZ_CHARS_BEGIN:
        cdz_chars_edge_add(nfa, from + FRESH, to + FRESH, CDZ_CHARS_NOTHING);
        cdz_chars_edge_add(nfa, from + FRESH_ENDED, to + FRESH_ENDED, CDZ_CHARS_NOTHING);
        break;
    case CDZ_CHARS_END:
        cdz_chars_edge_add(nfa, from + FRESH, to + FRESH_ENDED, CDZ_CHARS_NOTHING);
        cdz_chars_edge_add(nfa, from + READ, to + READ_ENDED, CDZ_CHARS_NOTHING);
        cdz_chars_edge_add(nfa, from + FRESH_ENDED, to + FRESH_ENDED, CDZ_CHARS_NOTHING);
        cdz_chars_edge_add(nfa, from + READ_ENDED, to + READ_ENDED, CDZ_CHARS_NOTHING);
        break;
    default:
        cdz_chars_edge_add(nfa, from + FRESH, to + READ, e.takes);
        cdz_chars_edge_add(nfa, from + READ, to + READ, e.takes);
    }
}

static uint32_t all_codes(cdz_chars *nfa)
{
    cdz_charset all = {0};
    cdz_charset_add(&all, 0, CDZ_CODE_MAX);
    return cdz_chars_set(nfa, &all);
}

/* Any text before and after. */
static void open_ends(cdz_chars *nfa, uint32_t starts[2], uint32_t ends[2])
{
    const uint32_t any = all_codes(nfa), before = cdz_chars_node(nfa), after = cdz_chars_node(nfa);
    cdz_chars_edge_add(nfa, starts[FRESH], before, any);
    cdz_chars_edge_add(nfa, before, before, any);
    cdz_chars_edge_add(nfa, before, starts[READ], CDZ_CHARS_NOTHING);
    cdz_chars_edge_add(nfa, ends[FRESH], after, CDZ_CHARS_NOTHING);
    cdz_chars_edge_add(nfa, ends[READ], after, CDZ_CHARS_NOTHING);
    cdz_chars_edge_add(nfa, after, after, any);
    cdz_chars_edge_add(nfa, after, nfa->end, CDZ_CHARS_NOTHING);
}

void cdz_chars_settle(cdz_chars *nfa, bool search)
{
    if (nfa->failed || (!nfa->anchors && !search)) return;
    cdz_chars_edge *old = nfa->edges;
    const uint32_t n = nfa->n_edges;
    if (nfa->n_nodes > CDZ_CHARS_MAX_NODES / 4 - 8) {
        fail(nfa, CDZ_E_LIMIT);
        return;
    }
    nfa->edges = NULL;
    nfa->n_edges = nfa->edges_cap = 0;
    nfa->n_nodes *= 4;
    for (uint32_t i = 0; i < nfa->n_copies; i++) {
        nfa->copies[i].first *= 4;
        nfa->copies[i].size *= 4;
    }
    for (uint32_t i = 0; i < n; i++) unfold_edge(nfa, old[i]);
    free(old);
    uint32_t starts[2] = {4 * nfa->start + FRESH, 4 * nfa->start + READ};
    uint32_t ends[2] = {4 * nfa->end + FRESH, 4 * nfa->end + READ};
    const uint32_t was_end = 4 * nfa->end;
    nfa->start = cdz_chars_node(nfa);
    cdz_chars_edge_add(nfa, nfa->start, starts[FRESH], CDZ_CHARS_NOTHING);
    nfa->end = cdz_chars_node(nfa);
    for (uint32_t i = 0; i < 4; i++)
        cdz_chars_edge_add(nfa, was_end + i, nfa->end, CDZ_CHARS_NOTHING);
    if (search) open_ends(nfa, starts, ends);
    nfa->anchors = false;
}
