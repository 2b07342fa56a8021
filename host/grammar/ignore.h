/* ignore.h - what may stand between terminals: a network made anew so that it does. Inside grammar/ only. */
#ifndef CDZ_HOST_GRAMMAR_IGNORE_H
#define CDZ_HOST_GRAMMAR_IGNORE_H

#include "grammar/net.h"

/* Rules that are terminals, and which terminal's text names which: pairs of indices of the reader's rules. */
typedef struct cdz_ignore_rules {
    uint32_t *terminals;
    cdz_code_span *uses;
    uint32_t n_terminals, terminals_cap, n_uses, uses_cap;
} cdz_ignore_rules;

void cdz_ignore_free(cdz_ignore_rules *rules);
bool cdz_ignore_add_terminal(cdz_ignore_rules *rules, uint32_t rule);
bool cdz_ignore_add_use(cdz_ignore_rules *rules, uint32_t user, uint32_t used);
/* A terminal that leads back to itself; UINT32_MAX: none does. False: no memory. */
bool cdz_ignore_circle(const cdz_ignore_rules *rules, uint32_t n, uint32_t *found);
/* Lets `ignore` stand before every terminal but the first. Returns the rule that takes start's place. */
uint32_t cdz_ignore_between(cdz_net *net, const cdz_ignore_rules *rules, uint32_t ignore,
                            uint32_t start);

#endif
