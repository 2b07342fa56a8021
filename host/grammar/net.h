/* net.h - a grammar as a network over bytes: rules are nodes joined by edges that take a byte, nothing, a token by its
 * number, or whatever another rule takes. All languages of constraints come down to this; states.h runs it.
 *
 * A rule may count: its body goes round a loop, and the count decides when it may go on and when it may leave. So a
 * repetition is as big as its body, however often it repeats.
 *
 * The first failure is kept, and makes every later call a no-op: a writer looks once, at cdz_net_finish. */
#ifndef CDZ_HOST_GRAMMAR_NET_H
#define CDZ_HOST_GRAMMAR_NET_H

#include "base/error.h"
#include "grammar/chars.h"
#include "grammar/grammar.h"
#include "token/tokenizer.h"

typedef enum cdz_net_kind {
    CDZ_NET_BYTES, /* lo to hi */
    CDZ_NET_NOTHING,
    CDZ_NET_CALL,      /* arg: a rule */
    CDZ_NET_TOKENS,    /* arg: a set of tokens */
    CDZ_NET_COUNT_IN,  /* nothing, while the count is below the rule's max */
    CDZ_NET_COUNT_ADD, /* nothing; counts */
    CDZ_NET_COUNT_OUT, /* nothing, once the count has reached the rule's min */
} cdz_net_kind;

typedef struct cdz_net_edge {
    uint32_t from, to, arg;
    uint8_t kind, lo, hi; /* kind: cdz_net_kind */
} cdz_net_edge;

typedef struct cdz_net_rule {
    uint32_t start, end; /* nodes; no edge leaves end */
    uint32_t min, max;   /* of a rule that counts; max UINT32_MAX: no end */
    bool nullable, productive;
} cdz_net_rule;

/* Tokens by number: those of a list, or all but those. */
typedef struct cdz_net_tokens {
    cdz_code_span *at;
    uint32_t n;
    bool but;
} cdz_net_tokens;

typedef struct cdz_net_suffix {
    uint32_t to, node;
    uint8_t lo, hi;
    bool used;
} cdz_net_suffix;

/* Kinds of characters, each in the one before. */
typedef enum cdz_net_way {
    CDZ_WAY_PLAIN, /* those that a JSON string holds as they are: from U+0020 on, but for quote and backslash */
    CDZ_WAY_SOLID,   /* without spaces and controls */
    CDZ_WAY_WORD,    /* letters of ASCII and what is not ASCII */
    CDZ_WAY_LETTERS, /* letters of ASCII */
    CDZ_WAY_SMALL,   /* small letters of ASCII */
    CDZ_N_WAYS,
} cdz_net_way;

/* A set of classes of bytes. */
typedef struct cdz_net_classes {
    uint64_t bits[4];
} cdz_net_classes;

/* All plain characters lead from one node to another, by n edges that leave the first. */
typedef struct cdz_net_plain {
    uint32_t from, to, n;
} cdz_net_plain;

/* Where a node is among copies of one part: the same node of the first of them, and which copy it is in. */
typedef struct cdz_net_copy {
    uint32_t shape, index;
    uint32_t of; /* copies + 1, where their number matters to what leaves the node */
} cdz_net_copy;

/* From this edge on a network is made for a keyword; the number is the reader's own. */
typedef struct cdz_net_mark {
    uint32_t edge, number;
    const char *keyword;
} cdz_net_mark;

typedef struct cdz_net {
    cdz_net_edge *edges;
    cdz_net_rule *rules;
    cdz_net_tokens *tokens;
    uint32_t n_edges, edges_cap, n_rules, rules_cap, n_tokens, tokens_cap, n_nodes, start_rule;
    cdz_net_suffix *suffixes; /* nodes before the last bytes of characters, which many share */
    uint32_t suffixes_size, n_suffixes;
    cdz_net_plain *plains;
    uint32_t n_plains, plains_cap;
    cdz_chars_copies *copies;
    uint32_t n_copies, copies_cap;
    cdz_net_mark *marks; /* until cdz_net_finish */
    uint32_t n_marks, marks_cap;
    cdz_grammar_limits limits;
    double deadline;
    uint32_t n_looks; /* at the clock that were asked for */
    cdz_status status;
    cdz_error error;
    /* after cdz_net_finish */
    bool counts;           /* some rule does, or there are copies */
    cdz_net_copy *copy_of; /* by node; NULL: there are no copies */
    uint32_t *first;       /* edges of a node: first[node] to first[node + 1] */
    uint8_t *end_of;       /* whether a node ends its rule */
    uint32_t *plain_to; /* by node: where all plain characters lead, CDZ_NET_NO_PLAIN, or CDZ_NET_SOME_PLAIN */
    uint8_t class_of[256];
    uint8_t sample[256]; /* a byte of each class */
    uint32_t n_classes;
    cdz_net_classes begins[CDZ_N_WAYS]; /* with bytes of which characters of a kind begin */
} cdz_net;

/* No edge of a node takes a plain character; or some do, and not all to one node. */
#define CDZ_NET_NO_PLAIN   0xFFFFFFFFu
#define CDZ_NET_SOME_PLAIN 0xFFFFFFFEu

void cdz_net_begin(cdz_net *net, const cdz_grammar_limits *limits);
void cdz_net_free(cdz_net *net);
cdz_status cdz_net_fail(cdz_net *net, cdz_status code, const char *fmt, ...) CDZ_PRINTF(3, 4);

/* CDZ_E_LIMIT once the time is over. Looks at the clock now and then: ask at each step of what may take long. */
cdz_status cdz_net_in_time(cdz_net *net);
uint32_t cdz_net_node(cdz_net *net);
void cdz_net_edge_add(cdz_net *net, uint32_t from, uint32_t to, cdz_net_kind kind, uint32_t arg);
void cdz_net_byte(cdz_net *net, uint32_t from, uint32_t to, uint8_t lo, uint8_t hi);
/* A rule with a node to begin and one to end, and nothing between. */
uint32_t cdz_net_rule_new(cdz_net *net);
/* A rule of what lies between two nodes; no edge leaves end. */
uint32_t cdz_net_rule_of(cdz_net *net, uint32_t start, uint32_t end);
/* Edges of bytes from one node on; returns where they lead. */
uint32_t cdz_net_text(cdz_net *net, uint32_t from, const char *text, size_t len);
uint32_t cdz_net_call(cdz_net *net, uint32_t from, uint32_t rule);
/* Takes a list (allocated) over. */
uint32_t cdz_net_token_set(cdz_net *net, cdz_code_span *at, uint32_t n, bool but);

/* One character of a set, as UTF-8; json: as the inside of a string writes it. */
void cdz_net_charset(cdz_net *net, uint32_t from, uint32_t to, const cdz_charset *set, bool json);
void cdz_net_chars(cdz_net *net, uint32_t from, uint32_t to, const cdz_chars *nfa, bool json);
/* A rule of the texts of an automaton, as they stand; what is wrong is the network's status. */
uint32_t cdz_net_rule_of_chars(cdz_net *net, const cdz_chars *nfa);
void cdz_net_dfa(cdz_net *net, uint32_t from, uint32_t to, const cdz_chars_dfa *dfa, bool json);
/* The code points by which one state of an automaton leads to another, from a node to a node. */
void cdz_net_transition(cdz_net *net, const cdz_chars_dfa *dfa, uint32_t state, uint32_t next,
                        uint32_t from, uint32_t to, bool json);
/* net_counted.c: of a trimmed automaton the texts of min to max characters; max UINT32_MAX: any number from min.
 * CDZ_E_UNSUPPORTED: from which counts they can end is not to be said in few stretches; nothing was added. */
cdz_status cdz_net_dfa_counted(cdz_net *net, uint32_t from, uint32_t to, const cdz_chars_dfa *dfa,
                               uint32_t min, uint32_t max, bool json);
/* The node before the last bytes of characters that leads to another by these bytes; UINT32_MAX: there is none. */
uint32_t cdz_net_suffix_of(const cdz_net *net, uint32_t to, uint8_t lo, uint8_t hi);
/* Whether an edge takes a byte with which a plain character begins. */
bool cdz_net_begins_plain(const cdz_net_edge *e);
/* A rule's count, one higher; without an end it stays at the least. */
static inline uint32_t cdz_net_counted(const cdz_net_rule *rule, uint32_t count)
{
    return rule->max == UINT32_MAX && count >= rule->min ? rule->min : count + 1;
}
/* min to max of what `body` takes; the rule to call. */
uint32_t cdz_net_repeat(cdz_net *net, uint32_t body, uint32_t min, uint32_t max);

/* Any bytes up to the first `marker`, which a token of that name may stand for; then at most two newlines, and what `rule`
 * takes. Returns the rule of it all. */
uint32_t cdz_net_after(cdz_net *net, const char *marker, const cdz_tokenizer *tokenizer,
                       uint32_t rule);

/* What is added from here on is made for a keyword. */
void cdz_net_mark_add(cdz_net *net, uint32_t number, const char *keyword);
/* The sentence of a state of too many places; of CDZ_GRAMMAR_MAX_ITEMS. */
#define CDZ_NET_CROWDED                                                                            \
    "a text may stand at more than %d places of the grammar (grammar_max_states)"
/* net_crowd.c: whether a text that a rule takes would stand at more than CDZ_GRAMMAR_MAX_ITEMS places at once, where that is
 * certain; the mark of most of them. False: memory. */
bool cdz_net_crowd(cdz_net *net, uint32_t rule, cdz_net_mark *mark, bool *found);
/* By node, whether the end of a rule can be reached; and which rules are productive. False: memory. */
bool cdz_net_find_live(cdz_net *net, bool *live);

/* Takes out what can never end, and readies the network for states. CDZ_E_INPUT: nothing is in the language. */
cdz_status cdz_net_finish(cdz_net *net, uint32_t start_rule, cdz_error *err);
bool cdz_net_has_token(const cdz_net *net, uint32_t set, uint32_t id);

#endif
