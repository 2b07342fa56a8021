/* vocab.c - the tokens as a trie over their bytes, and masks by walking it. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/grow.h"
#include "grammar/states.h"

typedef struct cdz_vocab_node {
    uint32_t child, n_children; /* nodes of the bytes that may follow, side by side */
    uint32_t ids, n_ids;        /* tokens that end here */
    uint32_t ids_past;          /* behind those and the ones below */
} cdz_vocab_node;

/* A trie of some of the tokens. The bytes of brothers, which a walk looks at, lie side by side, and what lies below them
 * behind them. */
typedef struct cdz_vocab_trie {
    cdz_vocab_node *nodes; /* the first n_roots are those of first bytes */
    uint8_t *bytes;        /* of the nodes */
    uint32_t n_nodes, cap, bytes_cap, n_roots;
    uint32_t *ids; /* of the tokens in order of their bytes */
    uint32_t n_ids;
} cdz_vocab_trie;

/* Where a walk is among brothers, and the state before them. */
typedef struct cdz_vocab_level {
    uint32_t at, end, state;
} cdz_vocab_level;

enum {
    PLAIN_CHARS = 24,    /* tokens of more characters are walked */
    WORTH_KEEPING = 300, /* nodes looked at for a mask that is kept */
};

/* Parts of the vocabulary, each a trie. A token is in the last that takes it; those of letters are in the masks of the plain. */
enum part {
    REST,
    PLAIN,        /* whole characters that JSON strings hold as they are */
    LETTERS,      /* of ASCII */
    SPACED,       /* a space and letters */
    SMALL,        /* small letters of ASCII alone */
    SPACED_SMALL, /* a space and these */
    BLANK,        /* JSON's whitespace */
    N_PARTS,
};

struct cdz_grammar_vocab {
    char *bytes;
    uint32_t *begin; /* of a token's bytes; n_ids + 1 of them */
    uint32_t n_ids, n_words, depth;
    cdz_vocab_trie tries[N_PARTS];
    uint64_t *masks[N_PARTS]; /* tokens of at most 0, 1, 2, ... characters, n_words of each; NULL: the part has none */
    int32_t *ends;
    uint32_t n_ends;
};

#define TOKEN_MAX_BYTES 4096u /* a longer one is never allowed */

static void trie_free(cdz_vocab_trie *t)
{
    free(t->nodes);
    free(t->bytes);
    free(t->ids);
}

void cdz_grammar_vocab_free(cdz_grammar_vocab *vocab)
{
    if (!vocab) return;
    free(vocab->bytes);
    free(vocab->begin);
    for (int i = 0; i < N_PARTS; i++) {
        trie_free(&vocab->tries[i]);
        free(vocab->masks[i]);
    }
    free(vocab->ends);
    free(vocab);
}

uint32_t cdz_grammar_vocab_size(const cdz_grammar_vocab *vocab)
{
    return vocab->n_ids;
}

/* --- the trie --------------------------------------------------------------------------------------------- */

typedef struct sorted_token {
    const char *bytes;
    uint32_t len, id;
} sorted_token;

static int by_bytes(const void *a, const void *b)
{
    const sorted_token *x = a, *y = b;
    const int c = memcmp(x->bytes, y->bytes, x->len < y->len ? x->len : y->len);
    if (c) return c;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Nodes for the byte at `depth` of the tokens lo to hi, which share those before it and are longer. */
static bool add_brothers(cdz_vocab_trie *t, const sorted_token *tokens, uint32_t lo, uint32_t hi,
                         uint32_t depth)
{
    for (uint32_t i = lo; i < hi; i++) {
        const uint8_t byte = (uint8_t)tokens[i].bytes[depth];
        if (i == lo || byte != t->bytes[t->n_nodes - 1]) {
            if (!cdz_grow(&t->nodes, &t->cap, (size_t)t->n_nodes + 1, sizeof *t->nodes) ||
                !cdz_grow(&t->bytes, &t->bytes_cap, (size_t)t->n_nodes + 1, 1))
                return false;
            t->bytes[t->n_nodes] = byte;
            t->nodes[t->n_nodes++] = (cdz_vocab_node){.ids = i};
        }
        t->nodes[t->n_nodes - 1].ids_past = i + 1;
    }
    return true;
}

/* A node whose own tokens and children are not known yet. */
typedef struct open_node {
    uint32_t node, depth; /* bytes on the way to it, itself included */
} open_node;

typedef struct open_nodes {
    open_node *at;
    uint32_t n, cap;
} open_nodes;

/* Brothers as they are to be met: the first on top. */
static bool push_brothers(open_nodes *open, uint32_t from, uint32_t n, uint32_t depth)
{
    if (!cdz_grow(&open->at, &open->cap, (size_t)open->n + n, sizeof *open->at)) return false;
    for (uint32_t i = n; i-- > 0;) open->at[open->n++] = (open_node){from + i, depth};
    return true;
}

static bool plant_below(cdz_vocab_trie *t, const sorted_token *tokens, open_nodes *open,
                        uint32_t *most)
{
    while (open->n) {
        const open_node one = open->at[--open->n];
        cdz_vocab_node node = t->nodes[one.node];
        while (node.ids + node.n_ids < node.ids_past &&
               tokens[node.ids + node.n_ids].len == one.depth)
            node.n_ids++;
        node.child = t->n_nodes;
        if (!add_brothers(t, tokens, node.ids + node.n_ids, node.ids_past, one.depth)) return false;
        node.n_children = t->n_nodes - node.child;
        t->nodes[one.node] = node;
        if (one.depth > *most) *most = one.depth;
        if (!push_brothers(open, node.child, node.n_children, one.depth + 1)) return false;
    }
    return true;
}

/* The trie of sorted tokens. */
static bool plant(cdz_grammar_vocab *v, cdz_vocab_trie *t, const sorted_token *tokens, uint32_t n)
{
    open_nodes open = {0};
    t->ids = malloc(((size_t)n + 1) * sizeof *t->ids);
    if (!t->ids || !add_brothers(t, tokens, 0, n, 0)) return false;
    for (uint32_t i = 0; i < n; i++) t->ids[i] = tokens[i].id;
    t->n_ids = n;
    t->n_roots = t->n_nodes;
    const bool fine =
        push_brothers(&open, 0, t->n_roots, 1) && plant_below(t, tokens, &open, &v->depth);
    free(open.at);
    return fine;
}

/* The characters of a token that is plain; 0: it is not, or has too many. */
static uint32_t plain_chars(const sorted_token *t)
{
    for (uint32_t i = 0; i < t->len; i++)
        if ((uint8_t)t->bytes[i] < 32 || t->bytes[i] == '"' || t->bytes[i] == '\\') return 0;
    if (!cdz_utf8_valid(t->bytes, t->len)) return 0;
    const size_t n = cdz_utf8_count(t->bytes, t->len);
    return n <= PLAIN_CHARS ? (uint32_t)n : 0;
}

static void set_bit(uint64_t *mask, uint32_t id)
{
    mask[id / 64] |= (uint64_t)1 << (id % 64);
}

static bool is_blank(const sorted_token *t)
{
    for (uint32_t i = 0; i < t->len; i++)
        if (!strchr(" \t\n\r", t->bytes[i]) || !t->bytes[i]) return false;
    return true;
}

/* Letters, which are small ones with `bits` set in each byte. */
static bool is_letters(const char *bytes, uint32_t n, int bits)
{
    for (uint32_t i = 0; i < n; i++)
        if ((bytes[i] | bits) < 'a' || (bytes[i] | bits) > 'z') return false;
    return n > 0;
}

static enum part part_of(const sorted_token *t, uint32_t chars)
{
    if (is_blank(t)) return BLANK;
    if (!chars) return REST;
    const uint32_t space = t->bytes[0] == ' ';
    if (is_letters(t->bytes + space, t->len - space, 0)) return space ? SPACED_SMALL : SMALL;
    if (is_letters(t->bytes + space, t->len - space, 32)) return space ? SPACED : LETTERS;
    return PLAIN;
}

static bool is_spaced(enum part part)
{
    return part == SPACED || part == SPACED_SMALL;
}

/* In the masks of a part for `chars` characters and more. */
static void set_from(cdz_grammar_vocab *v, enum part part, uint32_t chars, uint32_t id)
{
    for (uint32_t k = chars; k <= PLAIN_CHARS; k++)
        set_bit(v->masks[part] + (size_t)k * v->n_words, id);
}

static bool masks_new(cdz_grammar_vocab *v)
{
    bool fine = true;
    for (int i = PLAIN; i < BLANK; i++) {
        v->masks[i] = calloc((size_t)(PLAIN_CHARS + 1) * (v->n_words + 1), sizeof **v->masks);
        fine &= v->masks[i] != NULL;
    }
    return fine;
}

/* Cuts the sorted tokens into parts, all still sorted. */
static bool cut(cdz_grammar_vocab *v, const sorted_token *tokens, uint32_t n)
{
    sorted_token *parts[N_PARTS];
    uint32_t lens[N_PARTS] = {0};
    bool fine = masks_new(v);
    for (int i = 0; i < N_PARTS; i++) {
        parts[i] = malloc(((size_t)n + 1) * sizeof **parts);
        fine &= parts[i] != NULL;
    }
    for (uint32_t i = 0; fine && i < n; i++) {
        const uint32_t chars = plain_chars(&tokens[i]);
        const enum part part = part_of(&tokens[i], chars);
        parts[part][lens[part]++] = tokens[i];
        if (chars) set_from(v, PLAIN, chars, tokens[i].id);
        if (part > PLAIN && part < BLANK) set_from(v, part, chars - is_spaced(part), tokens[i].id);
    }
    for (int i = 0; i < N_PARTS; i++) {
        fine = fine && plant(v, &v->tries[i], parts[i], lens[i]);
        free(parts[i]);
    }
    return fine;
}

static bool build(cdz_grammar_vocab *v)
{
    sorted_token *tokens = malloc(((size_t)v->n_ids + 1) * sizeof *tokens);
    uint32_t n = 0;
    for (uint32_t id = 0; tokens && id < v->n_ids; id++) {
        const uint32_t len = v->begin[id + 1] - v->begin[id];
        if (len && len <= TOKEN_MAX_BYTES)
            tokens[n++] = (sorted_token){v->bytes + v->begin[id], len, id};
    }
    if (tokens) qsort(tokens, n, sizeof *tokens, by_bytes);
    const bool fine = tokens && cut(v, tokens, n);
    free(tokens);
    return fine;
}

static bool take_ends(cdz_grammar_vocab *v, const int32_t *ends, uint32_t n)
{
    v->ends = malloc(((size_t)n + 1) * sizeof *v->ends);
    for (uint32_t i = 0; v->ends && i < n; i++)
        if (ends[i] >= 0 && (uint32_t)ends[i] < v->n_ids) v->ends[v->n_ends++] = ends[i];
    return v->ends != NULL;
}

cdz_status cdz_grammar_vocab_of(const char *const *bytes, const uint32_t *lens, uint32_t n,
                                const int32_t *ends, uint32_t n_ends, cdz_grammar_vocab **out,
                                cdz_error *err)
{
    cdz_grammar_vocab *v = calloc(1, sizeof *v);
    cdz_buf all = {0};
    bool fine = v && (v->begin = calloc((size_t)n + 1, sizeof *v->begin)) != NULL;
    for (uint32_t id = 0; fine && id < n; id++) {
        cdz_buf_add(&all, bytes[id], lens[id]);
        v->begin[id + 1] = (uint32_t)all.len;
        fine = !all.failed && all.len < UINT32_MAX;
    }
    if (v) {
        v->n_ids = n;
        v->n_words = (n + 63) / 64;
        v->bytes = all.data;
    }
    *out = v;
    if (fine && take_ends(v, ends, n_ends) && build(v)) return CDZ_OK;
    cdz_grammar_vocab_free(v);
    *out = NULL;
    return cdz_err(err, CDZ_E_NOMEM, "out of memory for the trie of %u tokens", n);
}

cdz_status cdz_grammar_vocab_new(const cdz_tokenizer *tok, const int32_t *ends, uint32_t n_ends,
                                 cdz_grammar_vocab **out, cdz_error *err)
{
    const uint32_t n = cdz_tokenizer_n_ids(tok);
    uint32_t *begin = calloc((size_t)n + 1, sizeof *begin),
             *lens = calloc((size_t)n + 1, sizeof *lens);
    const char **bytes = calloc((size_t)n + 1, sizeof *bytes);
    cdz_buf all = {0};
    cdz_status st = CDZ_OK;
    *out = NULL;
    for (uint32_t id = 0; begin && lens && bytes && id < n; id++) {
        begin[id] = (uint32_t)all.len;
        cdz_tokenizer_token_bytes(tok, (int32_t)id, &all);
        lens[id] = (uint32_t)(all.len - begin[id]);
    }
    if (!begin || !lens || !bytes || all.failed)
        st = cdz_err(err, CDZ_E_NOMEM, "out of memory for the bytes of %u tokens", n);
    for (uint32_t id = 0; st == CDZ_OK && id < n; id++)
        bytes[id] = all.data ? all.data + begin[id] : "";
    if (st == CDZ_OK) st = cdz_grammar_vocab_of(bytes, lens, n, ends, n_ends, out, err);
    cdz_buf_free(&all);
    free(begin);
    free(lens);
    free(bytes);
    return st;
}

/* --- tokens ------------------------------------------------------------------------------------------------- */

uint32_t cdz_grammar_feed_token(cdz_grammar *g, const cdz_grammar_vocab *v, uint32_t state,
                                int32_t id)
{
    uint32_t to = 0;
    if (id < 0 || (uint32_t)id >= v->n_ids || !state) return 0;
    const uint32_t from = v->begin[id], len = v->begin[id + 1] - from;
    if (len) to = cdz_grammar_feed(g, state, v->bytes + from, len);
    return cdz_grammar_states_token(&g->states, state, (uint32_t)id, to);
}

/* --- masks -------------------------------------------------------------------------------------------------- */

typedef struct cdz_grammar_masks {
    const cdz_grammar_vocab *vocab;
    uint64_t *bits; /* n_words of each, n of them */
    uint32_t *of;   /* by state: mask + 1 */
    uint32_t of_cap, n, cap;
    cdz_vocab_level *path; /* by depth */
    uint64_t *scratch;     /* the mask computed last */
} cdz_grammar_masks;

void cdz_grammar_masks_free(cdz_grammar_masks *m)
{
    if (!m) return;
    free(m->bits);
    free(m->of);
    free(m->path);
    free(m->scratch);
    free(m);
}

uint64_t cdz_grammar_masks_bytes(const cdz_grammar_masks *m)
{
    if (!m) return 0;
    return sizeof *m + ((uint64_t)m->cap + 1) * m->vocab->n_words * sizeof *m->bits +
           (uint64_t)m->of_cap * sizeof *m->of;
}

static void take_ids(const cdz_vocab_trie *t, uint32_t from, uint32_t past, uint64_t *mask)
{
    for (uint32_t k = from; k < past; k++) set_bit(mask, t->ids[k]);
}

/* The next brother that may come, whose state goes to *to; false: there is none. */
static bool next_brother(cdz_grammar_states *s, const cdz_vocab_trie *t, cdz_vocab_level *l,
                         uint32_t *to)
{
    const uint32_t *row = cdz_grammar_states_row(s, l->state);
    for (; row && l->at < l->end; l->at++) {
        *to = row[s->net->class_of[t->bytes[l->at]]];
        if (!*to) continue;
        if (*to != CDZ_STATE_UNKNOWN) return true;
        *to = cdz_grammar_states_next(s, l->state, t->bytes[l->at]);
        if (*to) return true;
        row = cdz_grammar_states_row(s, l->state);
    }
    return false;
}

/* Marks the tokens that may come. plain: the trie holds plain tokens alone, so that in a state which every plain character leads
 * back to all below a node may come. Returns how many nodes were looked at. */
static uint32_t walk(cdz_grammar_states *s, const cdz_vocab_trie *t, uint32_t state,
                     cdz_vocab_level *path, bool plain, uint64_t *mask)
{
    uint32_t to, back, n = 0, depth = 0;
    path[0] = (cdz_vocab_level){0, t->n_roots, state};
    for (;;) {
        if (!next_brother(s, t, &path[depth], &to)) {
            if (!depth--) return n;
            continue;
        }
        const cdz_vocab_node *node = &t->nodes[path[depth].at++];
        n += 1 + node->n_children;
        const bool all =
            plain && node->n_children && cdz_grammar_states_plain(s, to, &back) && back == to;
        take_ids(t, node->ids, all ? node->ids_past : node->ids + node->n_ids, mask);
        if (!all && node->n_children)
            path[++depth] = (cdz_vocab_level){node->child, node->child + node->n_children, to};
    }
}

/* Whitespace leads to one state that it leads back to, or to none. */
static bool blank_is_free(cdz_grammar_states *s, uint32_t state)
{
    static const uint8_t bytes[] = {' ', '\t', '\n', '\r'};
    const uint32_t to = cdz_grammar_states_next(s, state, ' ');
    for (size_t i = 0; i < sizeof bytes; i++)
        if (cdz_grammar_states_next(s, state, bytes[i]) != to ||
            cdz_grammar_states_next(s, to, bytes[i]) != to)
            return false;
    return true;
}

static uint32_t walk_blank(cdz_grammar_states *s, const cdz_grammar_vocab *v, uint32_t state,
                           cdz_vocab_level *path, uint64_t *mask)
{
    const cdz_vocab_trie *blank = &v->tries[BLANK];
    if (!blank_is_free(s, state)) return walk(s, blank, state, path, false, mask);
    if (!cdz_grammar_states_next(s, state, ' ')) return 0;
    take_ids(blank, 0, blank->n_ids, mask);
    return 0;
}

/* Whether all characters of a kind lead to one configuration. */
typedef bool same_way(cdz_grammar_states *s, uint32_t config, uint32_t *to);

/* How many characters of a kind may come, whichever they are, up to PLAIN_CHARS; false: it depends on which. */
static bool count(cdz_grammar_states *s, uint32_t state, same_way *same, uint32_t *n)
{
    uint32_t to;
    for (*n = 0; *n < PLAIN_CHARS; ++*n) {
        if (!same(s, state, &to)) return false;
        if (!to) return true;
        if (to == state) *n = PLAIN_CHARS - 1;
        state = to;
    }
    return true;
}

/* A part of letters: after a state, or for those with a space in front after the state behind that. */
static uint32_t take_letters(cdz_grammar_states *s, const cdz_grammar_vocab *v, enum part part,
                             uint32_t state, cdz_vocab_level *path, uint64_t *bits)
{
    same_way *const same = part == SMALL || part == SPACED_SMALL ? cdz_grammar_states_small
                                                                 : cdz_grammar_states_letters;
    const uint32_t from = is_spaced(part) ? cdz_grammar_states_next(s, state, ' ') : state;
    uint32_t n;
    if (!from) return 0;
    if (!count(s, from, same, &n)) return walk(s, &v->tries[part], state, path, true, bits);
    const uint64_t *mask = v->masks[part] + (size_t)n * v->n_words;
    for (uint32_t w = 0; n && w < v->n_words; w++) bits[w] |= mask[w];
    return n ? WORTH_KEEPING : 0;
}

/* A place for the mask of each state up to one. */
static bool of_room(cdz_grammar_masks *m, uint32_t state)
{
    const uint32_t had = m->of_cap;
    if (!cdz_grow(&m->of, &m->of_cap, (size_t)state + 1, sizeof *m->of)) return false;
    memset(m->of + had, 0, (m->of_cap - had) * sizeof *m->of);
    return true;
}

/* Room for one more mask. Masks are forgotten all at once when they take too much. */
static bool mask_room(cdz_grammar_masks *m)
{
    const size_t bytes = (size_t)m->vocab->n_words * sizeof *m->bits;
    if (((size_t)m->n + 1) * bytes > CDZ_GRAMMAR_MASK_BYTES && m->n) {
        memset(m->of, 0, m->of_cap * sizeof *m->of);
        m->n = 0;
    }
    if (m->n < m->cap) return true;
    const uint32_t cap = m->cap ? 2 * m->cap : 4;
    uint64_t *bits = realloc(m->bits, cap * bytes + 8);
    if (!bits) return false;
    m->bits = bits;
    m->cap = cap;
    return true;
}

static cdz_grammar_masks *masks_for(cdz_grammar *g, const cdz_grammar_vocab *v)
{
    if (g->masks && g->masks->vocab == v) return g->masks;
    cdz_grammar_masks_free(g->masks);
    g->masks = calloc(1, sizeof *g->masks);
    if (!g->masks) return NULL;
    g->masks->vocab = v;
    g->masks->path = malloc(((size_t)v->depth + 1) * sizeof *g->masks->path);
    g->masks->scratch = malloc(((size_t)v->n_words + 1) * sizeof *g->masks->scratch);
    if (g->masks->path && g->masks->scratch) return g->masks;
    cdz_grammar_masks_free(g->masks);
    g->masks = NULL;
    return NULL;
}

/* The mask of a state into bits; returns what it took, in nodes. */
static uint32_t compute(cdz_grammar *g, const cdz_grammar_vocab *v, uint32_t state,
                        cdz_vocab_level *path, uint64_t *bits)
{
    cdz_grammar_states *s = &g->states;
    uint32_t n_plain = 0, work = 0;
    const bool counted = state && count(s, state, cdz_grammar_states_plain, &n_plain);
    if (n_plain && counted)
        memcpy(bits, v->masks[PLAIN] + (size_t)n_plain * v->n_words, v->n_words * sizeof *bits);
    else
        memset(bits, 0, v->n_words * sizeof *bits);
    if (!state) return 0;
    for (enum part p = LETTERS; !counted && p < BLANK; p++)
        work += take_letters(s, v, p, state, path, bits);
    if (!counted) work += walk(s, &v->tries[PLAIN], state, path, true, bits);
    work += walk_blank(s, v, state, path, bits);
    work += walk(s, &v->tries[REST], state, path, false, bits);
    cdz_grammar_states_mark_tokens(&g->states, state, bits, v->n_ids);
    for (uint32_t i = 0; cdz_grammar_states_accepts(&g->states, state) && i < v->n_ends; i++)
        set_bit(bits, (uint32_t)v->ends[i]);
    return work;
}

cdz_status cdz_grammar_allowed(cdz_grammar *g, const cdz_grammar_vocab *v, uint32_t state,
                               const uint64_t **mask, cdz_error *err)
{
    cdz_grammar_masks *m = masks_for(g, v);
    if (!m || !of_room(m, state))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for a mask of %u tokens", v->n_ids);
    *mask = m->scratch;
    if (m->of[state]) {
        *mask = m->bits + (size_t)(m->of[state] - 1) * v->n_words;
        return CDZ_OK;
    }
    const uint32_t work = compute(g, v, state, m->path, m->scratch);
    CDZ_TRY(cdz_grammar_trouble(g, err));
    if (work < WORTH_KEEPING) return CDZ_OK;
    if (!mask_room(m)) return CDZ_OK; /* it is made again next time */
    memcpy(m->bits + (size_t)m->n * v->n_words, m->scratch, v->n_words * sizeof *m->bits);
    m->of[state] = ++m->n;
    return CDZ_OK;
}
