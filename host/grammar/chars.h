/* chars.h - automata over code points: what patterns are parsed to, and where they are intersected and complemented. From
 * here a language goes to bytes (net.h), plain or as the inside of a JSON string. */
#ifndef CDZ_HOST_GRAMMAR_CHARS_H
#define CDZ_HOST_GRAMMAR_CHARS_H

#include "base/error.h"
#include "grammar/charset.h"

enum {
    CDZ_CHARS_MAX_NODES = 400000,
    CDZ_CHARS_MAX_STATES = 60000,
    CDZ_CHARS_MAX_STEPS = 200000000, /* of finding them: a second or two */
    CDZ_CHARS_MAX_CELLS = 32000000,  /* of a table: states times kinds of characters */
};

/* What an edge takes: a set (by index), nothing, or nothing and only at the text's beginning or end. */
#define CDZ_CHARS_NOTHING 0xFFFFFFFFu
#define CDZ_CHARS_BEGIN   0xFFFFFFFEu
#define CDZ_CHARS_END     0xFFFFFFFDu

typedef struct cdz_chars_edge {
    uint32_t from, to, takes;
} cdz_chars_edge;

/* n copies of one part, each of `size` nodes from `first` on; one from the min-th on may be the last. */
typedef struct cdz_chars_copies {
    uint32_t first, size, n, min;
} cdz_chars_copies;

/* Nondeterministic. Zeroed: nothing yet. */
typedef struct cdz_chars {
    cdz_chars_copies *copies; /* those that are left unmentioned look like any nodes */
    uint32_t n_copies, copies_cap;
    cdz_charset *sets;
    cdz_chars_edge *edges;
    uint32_t n_sets, sets_cap, n_edges, edges_cap, n_nodes;
    uint32_t start, end;
    bool anchors;      /* some edge is CDZ_CHARS_BEGIN or _END */
    cdz_status failed; /* CDZ_E_NOMEM, or CDZ_E_LIMIT: there are too many nodes */
} cdz_chars;

void cdz_chars_free(cdz_chars *nfa);
uint32_t cdz_chars_node(cdz_chars *nfa);
void cdz_chars_edge_add(cdz_chars *nfa, uint32_t from, uint32_t to, uint32_t takes);
/* Takes what the set holds over; returns its index. */
uint32_t cdz_chars_set(cdz_chars *nfa, cdz_charset *set);
/* Once more the nodes from lo on and the edges from edge_lo on, up to the ends given. Returns what to add to a node. */
uint32_t cdz_chars_copy(cdz_chars *nfa, uint32_t lo, uint32_t hi, uint32_t edge_lo,
                        uint32_t edge_hi);
/* Lets edges of anchors go: a text begins and ends once. search: the pattern may stand anywhere in the text. */
void cdz_chars_settle(cdz_chars *nfa, bool search);

/* Deterministic and complete; state 0 is dead, 1 the start. */
typedef struct cdz_chars_dfa {
    uint32_t *next; /* state * n_classes + class */
    bool *accepts;
    uint32_t n_states, n_classes;
    uint32_t *cuts, *class_of; /* the i-th stretch of code points begins at cuts[i] */
    uint32_t n_cuts;
} cdz_chars_dfa;

typedef enum cdz_chars_op {
    CDZ_CHARS_AND,
    CDZ_CHARS_OR,
    CDZ_CHARS_WITHOUT,
} cdz_chars_op;

void cdz_chars_dfa_free(cdz_chars_dfa *dfa); /* zeroed is fine */
/* Of a settled automaton. CDZ_E_LIMIT: too many states. */
cdz_status cdz_chars_determine(const cdz_chars *nfa, cdz_chars_dfa *out, cdz_error *err);
cdz_status cdz_chars_combine(const cdz_chars_dfa *a, const cdz_chars_dfa *b, cdz_chars_op op,
                             cdz_chars_dfa *out, cdz_error *err);
/* Texts of min to max characters; max UINT32_MAX: any number from min. */
cdz_status cdz_chars_lengths(uint32_t min, uint32_t max, cdz_chars_dfa *out, cdz_error *err);
cdz_status cdz_chars_complement(cdz_chars_dfa *dfa, cdz_error *err);
/* Makes states from which nothing is accepted the dead one. *any: whether anything is; NULL: nobody asks. */
cdz_status cdz_chars_trim(cdz_chars_dfa *dfa, bool *any, cdz_error *err);
bool cdz_chars_accepts(const cdz_chars_dfa *dfa, const char *text, size_t len);

#endif
