/* grammar.c - a grammar as its users have it: states and bytes. */
#include "grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

#include "grammar/states.h"

/* What is met while exploring is told when a text comes there. */
static bool begin_states(cdz_grammar *g)
{
    if (!cdz_grammar_states_begin(&g->states, &g->net)) return false;
    cdz_grammar_states_explore(&g->states);
    if (g->states.status == CDZ_OK) return true;
    cdz_grammar_states_free(&g->states);
    return cdz_grammar_states_begin(&g->states, &g->net);
}

cdz_status cdz_grammar_of_net(cdz_net *net, uint32_t start_rule, const cdz_grammar_options *options,
                              cdz_grammar **out, cdz_error *err)
{
    *out = NULL;
    if (options && options->after && *options->after)
        start_rule = cdz_net_after(net, options->after, options->tokenizer, start_rule);
    cdz_grammar *g = calloc(1, sizeof *g);
    cdz_status st = g ? cdz_net_finish(net, start_rule, err) : cdz_err_memory(err, "a grammar");
    if (!g) {
        cdz_net_free(net);
        return st;
    }
    g->net = *net;
    *net = (cdz_net){0};
    if (st == CDZ_OK && !begin_states(g)) st = cdz_err_memory(err, "a grammar");
    if (st == CDZ_OK)
        *out = g;
    else
        cdz_grammar_free(g);
    return st;
}

void cdz_grammar_free(cdz_grammar *grammar)
{
    if (!grammar) return;
    cdz_grammar_masks_free(grammar->masks);
    cdz_grammar_states_free(&grammar->states);
    cdz_net_free(&grammar->net);
    free(grammar);
}

void cdz_grammar_use_by(cdz_grammar *grammar, cdz_grammar_use *use)
{
    grammar->states.use = use;
    (void)cdz_grammar_states_forget_limit(&grammar->states);
}

uint32_t cdz_grammar_start(const cdz_grammar *grammar)
{
    return grammar->states.start;
}

uint32_t cdz_grammar_feed(cdz_grammar *grammar, uint32_t state, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && state; i++)
        state = cdz_grammar_states_next(&grammar->states, state, (uint8_t)bytes[i]);
    return state;
}

bool cdz_grammar_accepts(cdz_grammar *grammar, uint32_t state)
{
    return cdz_grammar_states_accepts(&grammar->states, state);
}

cdz_status cdz_grammar_trouble(const cdz_grammar *grammar, cdz_error *err)
{
    if (grammar->states.status == CDZ_OK) return CDZ_OK;
    return cdz_err(err, grammar->states.status, "%s", grammar->states.error.text);
}

size_t cdz_grammar_forced(cdz_grammar *grammar, uint32_t state, char *out, size_t room)
{
    return cdz_grammar_states_forced(&grammar->states, state, out, room);
}

uint64_t cdz_grammar_bytes(const cdz_grammar *grammar)
{
    const cdz_net *net = &grammar->net;
    return sizeof *grammar + (uint64_t)net->edges_cap * sizeof *net->edges +
           net->rules_cap * sizeof *net->rules +
           net->n_nodes * (sizeof *net->first + sizeof *net->plain_to + sizeof *net->end_of) +
           cdz_grammar_states_bytes(&grammar->states) + cdz_grammar_masks_bytes(grammar->masks);
}

cdz_status cdz_grammar_from_choice(const char *const *texts, size_t n,
                                   const cdz_grammar_options *options, cdz_grammar **out,
                                   cdz_error *err)
{
    cdz_net net;
    cdz_net_begin(&net, options ? &options->limits : NULL);
    const uint32_t rule = cdz_net_rule_new(&net);
    cdz_net_mark_add(&net, 0, "choice");
    for (size_t i = 0; i < n && net.status == CDZ_OK; i++) {
        const uint32_t at = cdz_net_text(&net, net.rules[rule].start, texts[i], strlen(texts[i]));
        cdz_net_edge_add(&net, at, net.rules[rule].end, CDZ_NET_NOTHING, 0);
    }
    cdz_net_mark mark;
    bool found;
    if (cdz_net_crowd(&net, rule, &mark, &found) && found)
        cdz_net_fail(&net, CDZ_E_LIMIT, "%s: " CDZ_NET_CROWDED, mark.keyword, CDZ_GRAMMAR_MAX_ITEMS);
    return cdz_grammar_of_net(&net, rule, options, out, err);
}
