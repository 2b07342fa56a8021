/* constraints.h - what must appear in a sequence, and how much of it a sequence holds.
 * Constraint, PhrasalConstraint, DisjunctiveConstraint and ConstraintListState of transformers 4.55.4,
 * generation/beam_constraints.py. A constraint is a trie of token sequences, any one of which fulfils it; a phrase is a
 * trie with one branch. A sequence works on one constraint at a time: a wrong token loses what it has of that one. */
#ifndef CADENZA_PLUGINS_CONSTRAINTS_H
#define CADENZA_PLUGINS_CONSTRAINTS_H

#include <cadenza/plugin.h>

typedef struct cdz_trie_node {
    int32_t token;
    int32_t child, next; /* first child, next sibling, in the order they were written; -1: none */
    int32_t depth;       /* tokens from the root */
} cdz_trie_node;

typedef struct cdz_constraint {
    int32_t root;
    int32_t height; /* tokens of its longest sequence */
    bool is_choice;
} cdz_constraint;

typedef struct cdz_constraints {
    cdz_trie_node *nodes;
    cdz_constraint *at;
    uint32_t n, n_nodes;
    int32_t height; /* the highest of all */
} cdz_constraints;

/* How far a sequence is. Plain values: copied by cdz_progress_copy. */
typedef struct cdz_progress {
    uint32_t n_fulfilled;
    int32_t current, node; /* the constraint being worked on and the node reached; -1: none */
    uint32_t n_pending;
    int32_t *pending; /* (n) those not begun, in the order they are tried */
} cdz_progress;

/* Memory is the strategy's scratch. Errors are said. */
cdz_status cdz_constraints_read(const cdz_step *step, const cdz_int_choices *words,
                                cdz_constraints *out);

cdz_status cdz_progress_new(const cdz_step *step, const cdz_constraints *c, cdz_progress *out);
void cdz_progress_begin(const cdz_constraints *c, cdz_progress *p);
void cdz_progress_copy(cdz_progress *to, const cdz_progress *from);
void cdz_progress_add(const cdz_constraints *c, cdz_progress *p, int32_t token);
static inline bool cdz_progress_complete(const cdz_constraints *c, const cdz_progress *p)
{
    return p->n_fulfilled == c->n;
}
/* Tokens that bring it further, each once per constraint; out has room for n_nodes. */
uint32_t cdz_progress_next(const cdz_constraints *c, const cdz_progress *p, int32_t *out);
/* How much is done; a constraint begun counts by its remaining tokens. */
int64_t cdz_progress_bank(const cdz_constraints *c, const cdz_progress *p);
/* The child of a node for a token; -1: none. */
int32_t cdz_trie_child(const cdz_constraints *c, int32_t node, int32_t token);

#endif
