/* vocab.c - the tokens as a trie over their bytes, and masks by walking it. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/grow.h"
#include "grammar/states.h"

/* In depth-first order: what lies below a node follows it, and `past` is what comes after. */
typedef struct cdz_vocab_node {
    uint32_t past, ids, n_ids;
    uint16_t depth; /* bytes on the way to it, itself included */
    uint8_t byte;
} cdz_vocab_node;

/* A trie of some of the tokens. */
typedef struct cdz_vocab_trie {
    cdz_vocab_node *nodes;
    uint32_t n_nodes, cap;
    uint32_t *ids; /* in the nodes' order */
    uint32_t n_ids, n_roots;
    uint32_t roots[256]; /* nodes of first bytes */
    uint8_t root_bytes[256];
} cdz_vocab_trie;

enum {
    PLAIN_CHARS = 24,    /* tokens of more characters are walked */
    WORTH_KEEPING = 300, /* nodes looked at for a mask that is kept */
};

struct cdz_grammar_vocab {
    char *bytes;
    uint32_t *begin; /* of a token's bytes; n_ids + 1 of them */
    uint32_t n_ids, n_words, depth;
    cdz_vocab_trie plain; /* tokens of whole characters that JSON strings hold as they are */
    cdz_vocab_trie blank; /* tokens of JSON's whitespace */
    cdz_vocab_trie rest;
    uint64_t *plain_masks; /* those of at most 0, 1, 2, ... characters: n_words of each */
    int32_t *ends;
    uint32_t n_ends;
};

#define TOKEN_MAX_BYTES 4096u /* a longer one is never allowed */

void cdz_grammar_vocab_free(cdz_grammar_vocab *vocab)
{
    if (!vocab) return;
    free(vocab->bytes);
    free(vocab->begin);
    free(vocab->plain.nodes);
    free(vocab->plain.ids);
    free(vocab->blank.nodes);
    free(vocab->blank.ids);
    free(vocab->rest.nodes);
    free(vocab->rest.ids);
    free(vocab->plain_masks);
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

static uint32_t shared(const sorted_token *a, const sorted_token *b)
{
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->bytes[n] == b->bytes[n]) n++;
    return n;
}

/* The nodes of sorted tokens, each path's nodes closed when the next token leaves it. */
static bool plant(cdz_grammar_vocab *v, cdz_vocab_trie *t, const sorted_token *tokens, uint32_t n)
{
    uint32_t path[TOKEN_MAX_BYTES + 1], depth = 0;
    t->ids = malloc(((size_t)n + 1) * sizeof *t->ids);
    if (!t->ids) return false;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t keep = i ? shared(&tokens[i - 1], &tokens[i]) : 0;
        while (depth > keep) t->nodes[path[depth--]].past = t->n_nodes;
        while (depth < tokens[i].len) {
            if (!cdz_grow(&t->nodes, &t->cap, (size_t)t->n_nodes + 1, sizeof *t->nodes))
                return false;
            t->nodes[t->n_nodes] = (cdz_vocab_node){
                .byte = (uint8_t)tokens[i].bytes[depth], .depth = (uint16_t)(depth + 1), .ids = i};
            if (!depth) {
                t->root_bytes[t->n_roots] = (uint8_t)tokens[i].bytes[0];
                t->roots[t->n_roots++] = t->n_nodes;
            }
            path[++depth] = t->n_nodes++;
        }
        t->nodes[path[depth]].n_ids++;
        t->ids[i] = tokens[i].id;
        if (depth > v->depth) v->depth = depth;
    }
    while (depth > 0) t->nodes[path[depth--]].past = t->n_nodes;
    t->n_ids = n;
    return true;
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

/* Cuts the sorted tokens into plain ones, blank ones and the rest, all still sorted. A plain blank one is among the blank ones,
 * and in the masks of the plain. */
static bool part(cdz_grammar_vocab *v, const sorted_token *tokens, uint32_t n)
{
    sorted_token *parts[3];
    uint32_t lens[3] = {0};
    bool fine = true;
    for (uint32_t i = 0; i < 3; i++) {
        parts[i] = malloc(((size_t)n + 1) * sizeof **parts);
        fine &= parts[i] != NULL;
    }
    v->plain_masks = calloc((size_t)(PLAIN_CHARS + 1) * (v->n_words + 1), sizeof *v->plain_masks);
    fine &= v->plain_masks != NULL;
    for (uint32_t i = 0; fine && i < n; i++) {
        const uint32_t chars = plain_chars(&tokens[i]), to = is_blank(&tokens[i]) ? 1
                                                             : chars              ? 0
                                                                                  : 2;
        parts[to][lens[to]++] = tokens[i];
        for (uint32_t k = chars; chars && k <= PLAIN_CHARS; k++)
            set_bit(v->plain_masks + (size_t)k * v->n_words, tokens[i].id);
    }
    fine = fine && plant(v, &v->plain, parts[0], lens[0]) &&
           plant(v, &v->blank, parts[1], lens[1]) && plant(v, &v->rest, parts[2], lens[2]);
    for (uint32_t i = 0; i < 3; i++) free(parts[i]);
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
    const bool fine = tokens && part(v, tokens, n);
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
    uint32_t *path;    /* states by depth */
    uint64_t *scratch; /* the mask computed last */
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

/* Below a node of plain tokens, in a state that every plain character leads back to, all of them are allowed. */
static uint32_t take_all(const cdz_vocab_trie *t, const cdz_vocab_node *node, uint64_t *mask)
{
    const uint32_t end = node->past < t->n_nodes ? t->nodes[node->past].ids : t->n_ids;
    for (uint32_t k = node->ids; k < end; k++) set_bit(mask, t->ids[k]);
    return node->past;
}

/* From a first byte's node on, all that lies below it. */
static uint32_t walk_root(cdz_grammar_states *s, const cdz_vocab_trie *t, uint32_t root,
                          uint32_t *path, bool plain, uint64_t *mask)
{
    const cdz_vocab_node *nodes = t->nodes;
    uint32_t back, n = 0;
    for (uint32_t i = root; i < nodes[root].past; n++) {
        const cdz_vocab_node *node = &nodes[i];
        const uint32_t to = cdz_grammar_states_next(s, path[node->depth - 1], node->byte);
        if (!to) {
            i = node->past;
        } else if (plain && node->past > i + 1 && cdz_grammar_states_plain(s, to, &back) &&
                   back == to) {
            i = take_all(t, node, mask);
        } else {
            path[node->depth] = to;
            for (uint32_t k = node->ids; k < node->ids + node->n_ids; k++) set_bit(mask, t->ids[k]);
            i++;
        }
    }
    return n;
}

/* Returns how many nodes were looked at. */
static uint32_t walk(cdz_grammar_states *s, const cdz_vocab_trie *t, uint32_t state, uint32_t *path,
                     bool plain, uint64_t *mask)
{
    uint32_t n = 0;
    path[0] = state;
    for (uint32_t r = 0; r < t->n_roots; r++)
        if (cdz_grammar_states_next(s, state, t->root_bytes[r]))
            n += walk_root(s, t, t->roots[r], path, plain, mask);
    return n;
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
                           uint32_t *path, uint64_t *mask)
{
    if (!blank_is_free(s, state)) return walk(s, &v->blank, state, path, false, mask);
    if (!cdz_grammar_states_next(s, state, ' ')) return 0;
    for (uint32_t k = 0; k < v->blank.n_ids; k++) set_bit(mask, v->blank.ids[k]);
    return 0;
}

/* How many plain characters may come, whichever they are, up to PLAIN_CHARS; false: it depends on which. */
static bool count_plain(cdz_grammar_states *s, uint32_t state, uint32_t *n)
{
    uint32_t to;
    for (*n = 0; *n < PLAIN_CHARS; ++*n) {
        if (!cdz_grammar_states_plain(s, state, &to)) return false;
        if (!to) return true;
        if (to == state) *n = PLAIN_CHARS - 1;
        state = to;
    }
    return true;
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
static uint32_t compute(cdz_grammar *g, const cdz_grammar_vocab *v, uint32_t state, uint32_t *path,
                        uint64_t *bits)
{
    uint32_t n_plain = 0, work = 0;
    const bool counted = state && count_plain(&g->states, state, &n_plain);
    memcpy(bits, v->plain_masks + (counted ? (size_t)n_plain * v->n_words : 0),
           v->n_words * sizeof *bits);
    if (!state) return 0;
    if (!counted) work += walk(&g->states, &v->plain, state, path, true, bits);
    work += walk_blank(&g->states, v, state, path, bits);
    work += walk(&g->states, &v->rest, state, path, false, bits);
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
