/* vocab.c - the tokens of a vocabulary sorted into parts, as tries over their bytes and masks by their characters. */
#include "grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "grammar/grow.h"

#define TOKEN_MAX_BYTES 4096u /* a longer one is never allowed */

static void trie_free(cdz_vocab_trie *t)
{
    free(t->nodes);
    free(t->bytes);
    free(t->ids);
    free(t->chars);
}

static void tails_free(cdz_vocab_tails *tails)
{
    trie_free(&tails->quotes);
    trie_free(&tails->others);
    for (int i = 0; i <= CDZ_VOCAB_CHARS; i++) trie_free(&tails->after[i]);
    trie_free(&tails->odd);
    trie_free(&tails->longs);
    free(tails->long_chars);
}

void cdz_grammar_vocab_free(cdz_grammar_vocab *vocab)
{
    if (!vocab) return;
    free(vocab->bytes);
    free(vocab->begin);
    for (int i = 0; i < CDZ_N_PARTS; i++) {
        trie_free(&vocab->tries[i]);
        free(vocab->masks[i]);
    }
    tails_free(&vocab->tails);
    for (int i = 0; i <= CDZ_VOCAB_CHARS; i++) trie_free(&vocab->letters.after[i]);
    trie_free(&vocab->letters.odd);
    trie_free(&vocab->solids);
    free(vocab->ends);
    free(vocab);
}

uint32_t cdz_grammar_vocab_size(const cdz_grammar_vocab *vocab)
{
    return vocab->n_ids;
}

/* --- kinds of characters --------------------------------------------------------------------------------- */

typedef struct span {
    uint32_t lo, hi;
} span;

/* As ways.c: what is not ASCII and not a control is solid, but for Unicode's spaces. */
static bool is_space(uint32_t code)
{
    static const span spaces[] = {{0x80, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                  {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                  {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (code >= spaces[i].lo && code <= spaces[i].hi) return true;
    return false;
}

static cdz_net_way way_of(uint32_t code)
{
    if (code >= 'a' && code <= 'z') return CDZ_WAY_SMALL;
    if (code >= 'A' && code <= 'Z') return CDZ_WAY_LETTERS;
    if (code >= 0x80) return is_space(code) ? CDZ_WAY_PLAIN : CDZ_WAY_WORD;
    return code == ' ' || code == 0x7F ? CDZ_WAY_PLAIN : CDZ_WAY_SOLID;
}

/* --- the trie --------------------------------------------------------------------------------------------- */

typedef struct sorted_token {
    const char *bytes;
    uint32_t len, id;
    uint8_t chars; /* plain characters cut off before the bytes */
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

/* What lies below each node; children stand behind their parents. */
static void find_below(cdz_vocab_trie *t)
{
    for (uint32_t i = t->n_nodes; i-- > 0;) {
        cdz_vocab_node *node = &t->nodes[i];
        uint32_t below = CDZ_WAY_SMALL;
        bool ascii = true;
        for (uint32_t c = node->child; c < node->child + node->n_children; c++) {
            const cdz_vocab_node *child = &t->nodes[c];
            const uint8_t byte = t->bytes[c];
            ascii &= byte >= 32 && byte < 0x80 && byte != '"' && byte != '\\' &&
                     child->below < CDZ_N_WAYS;
            if (way_of(byte) < below) below = way_of(byte);
            if (child->below < below) below = child->below;
            if (child->height >= node->height) node->height = (uint16_t)(child->height + 1);
        }
        node->below = (uint16_t)(ascii ? below : CDZ_N_WAYS);
    }
}

/* The trie of sorted tokens. */
static bool plant(cdz_grammar_vocab *v, cdz_vocab_trie *t, const sorted_token *tokens, uint32_t n)
{
    open_nodes open = {0};
    t->ids = malloc(((size_t)n + 1) * sizeof *t->ids);
    t->chars = malloc((size_t)n + 1);
    if (!t->ids || !t->chars || !add_brothers(t, tokens, 0, n, 0)) return false;
    for (uint32_t i = 0; i < n; i++) {
        t->ids[i] = tokens[i].id;
        t->chars[i] = tokens[i].chars;
    }
    t->n_ids = n;
    t->n_roots = t->n_nodes;
    for (uint32_t b = 0, root = 0; b <= 256; b++) {
        while (root < t->n_roots && t->bytes[root] < b) root++;
        t->root_of[b] = (uint16_t)root;
    }
    const bool fine =
        push_brothers(&open, 0, t->n_roots, 1) && plant_below(t, tokens, &open, &v->depth);
    free(open.at);
    if (fine) find_below(t);
    return fine;
}

/* How a token begins. */
typedef struct token_look {
    uint32_t chars, len;     /* plain characters, and their bytes */
    uint32_t solid;          /* bytes of the solid ones before any other */
    bool spaced;             /* the first is a space */
    cdz_net_way way, behind; /* the kind of all those, and of all but the first; narrowest */
} token_look;

static token_look look_at(const sorted_token *t)
{
    token_look look = {.way = CDZ_WAY_SMALL, .behind = CDZ_WAY_SMALL};
    while (look.len < t->len) {
        const uint8_t byte = (uint8_t)t->bytes[look.len];
        uint32_t code = byte;
        size_t n = 1;
        if (byte < 32 || byte == '"' || byte == '\\') break;
        if (byte >= 0x80) n = cdz_utf8_decode(t->bytes + look.len, t->len - look.len, &code);
        if (!n) break;
        const cdz_net_way way = way_of(code);
        if (way < look.way) look.way = way;
        if (look.chars && way < look.behind) look.behind = way;
        if (!look.chars) look.spaced = byte == ' ';
        if (look.solid == look.len && way >= CDZ_WAY_SOLID) look.solid += (uint32_t)n;
        look.len += (uint32_t)n;
        look.chars++;
    }
    return look;
}

/* Bytes with which a character begins that is not whole yet. */
static bool is_cut_short(const char *text, uint32_t n)
{
    const uint8_t *b = (const uint8_t *)text;
    if (b[0] < 0xC2 || b[0] > 0xF4) return false;
    if (n >= (b[0] < 0xE0 ? 2u : b[0] < 0xF0 ? 3u : 4u)) return false;
    const uint8_t lo = b[0] == 0xE0 ? 0xA0 : b[0] == 0xF0 ? 0x90 : 0x80;
    const uint8_t hi = b[0] == 0xED ? 0x9F : b[0] == 0xF4 ? 0x8F : 0xBF;
    if (n > 1 && (b[1] < lo || b[1] > hi)) return false;
    return n < 3 || (b[2] & 0xC0) == 0x80;
}

static bool is_blank(const sorted_token *t)
{
    for (uint32_t i = 0; i < t->len; i++)
        if (!cdz_byte_in(t->bytes[i], " \t\n\r")) return false;
    return true;
}

/* --- parts ------------------------------------------------------------------------------------------------- */

typedef struct token_list {
    sorted_token *at;
    uint32_t n, cap;
} token_list;

static bool push_token(token_list *list, sorted_token t, uint32_t from, uint32_t chars)
{
    if (!cdz_grow(&list->at, &list->cap, (size_t)list->n + 1, sizeof *list->at)) return false;
    list->at[list->n++] = (sorted_token){t.bytes + from, t.len - from, t.id, (uint8_t)chars};
    return true;
}

static bool masks_new(cdz_grammar_vocab *v)
{
    bool fine = true;
    for (int i = CDZ_PART_PLAIN; i < CDZ_PART_BLANK; i++) {
        v->masks[i] = calloc((size_t)(CDZ_VOCAB_CHARS + 1) * (v->n_words + 1), sizeof **v->masks);
        fine &= v->masks[i] != NULL;
    }
    return fine;
}

static void mark(cdz_grammar_vocab *v, uint32_t part, uint32_t chars, uint32_t id)
{
    cdz_vocab_set(v->masks[part] + (size_t)chars * v->n_words, id);
}

/* What has so many characters at most is among what may have one more. */
static void sum_up(cdz_grammar_vocab *v)
{
    for (int i = CDZ_PART_PLAIN; i < CDZ_PART_BLANK; i++)
        for (size_t w = v->n_words; w < (size_t)(CDZ_VOCAB_CHARS + 1) * v->n_words; w++)
            v->masks[i][w] |= v->masks[i][w - v->n_words];
}

/* A token of plain characters alone: into the masks of its kinds. Returns its part. */
static uint32_t mark_plain(cdz_grammar_vocab *v, const sorted_token *t, const token_look *look)
{
    mark(v, CDZ_PART_PLAIN, look->chars, t->id);
    if (look->spaced && look->chars > 1 && look->behind > CDZ_WAY_PLAIN) {
        for (uint32_t w = CDZ_WAY_SOLID; w <= look->behind; w++)
            mark(v, CDZ_PART_SPACED + w - CDZ_WAY_SOLID, look->chars - 1, t->id);
        return CDZ_PART_SPACED + look->behind - CDZ_WAY_SOLID;
    }
    for (uint32_t w = CDZ_WAY_SOLID; w <= look->way; w++)
        mark(v, CDZ_PART_PLAIN + w, look->chars, t->id);
    return CDZ_PART_PLAIN + look->way;
}

/* The lists of tails. */
enum {
    QUOTES,
    OTHERS,
    ODD,
    LONGS,
    SOLIDS,
    LETTERS_ODD,
    LETTERS,
    AFTER = LETTERS + CDZ_VOCAB_CHARS + 1,
    N_TAILS = AFTER + CDZ_VOCAB_CHARS + 1
};

/* Whether a token ends inside a character behind few plain ones: some solid character begins so. */
static bool ends_inside(const sorted_token *t, const token_look *look)
{
    return look->chars < CDZ_VOCAB_CHARS && look->len < t->len &&
           is_cut_short(t->bytes + look->len, t->len - look->len);
}

static bool push_tail(cdz_grammar_vocab *v, token_list *tails, const sorted_token *t,
                      const token_look *look)
{
    const uint8_t byte = look->len < t->len ? (uint8_t)t->bytes[look->len] : 0;
    const bool few = look->chars <= CDZ_VOCAB_CHARS;
    if (look->len == t->len) return few || push_token(&tails[LONGS], *t, 0, 0);
    if (ends_inside(t, look)) {
        mark(v, CDZ_PART_PLAIN, look->chars + 1, t->id);
        return true;
    }
    if (byte >= 0x80 || !few) return push_token(&tails[ODD], *t, 0, 0);
    if (byte == '"') return push_token(&tails[QUOTES], *t, look->len, look->chars);
    return push_token(&tails[OTHERS], *t, look->len, look->chars) &&
           push_token(&tails[AFTER + look->chars], *t, look->len, look->chars);
}

/* Cut behind its solid characters, unless it is one of the solid in all but the end of its last. */
static bool push_solid(cdz_grammar_vocab *v, token_list *tails, const sorted_token *t,
                       const token_look *look)
{
    if (look->solid == look->len && ends_inside(t, look)) {
        mark(v, CDZ_PART_SOLID, look->chars + 1, t->id);
        return true;
    }
    return push_token(&tails[SOLIDS], *t, look->solid < t->len ? look->solid : 0, 0);
}

static bool push_letters(token_list *tails, const sorted_token *t)
{
    uint32_t n = 0;
    while (n < t->len && way_of((uint8_t)t->bytes[n]) >= CDZ_WAY_LETTERS) n++;
    if (n > CDZ_VOCAB_CHARS) return push_token(&tails[LETTERS_ODD], *t, 0, 0);
    return push_token(&tails[LETTERS + n], *t, n, 0);
}

static bool sort_token(cdz_grammar_vocab *v, token_list *parts, token_list *tails,
                       const sorted_token *t)
{
    const token_look look = look_at(t);
    uint32_t part = CDZ_PART_REST;
    if (look.len == t->len && look.chars <= CDZ_VOCAB_CHARS) part = mark_plain(v, t, &look);
    if (is_blank(t)) part = CDZ_PART_BLANK;
    const bool spaced = part >= CDZ_PART_SPACED && part < CDZ_PART_BLANK;
    if (part < CDZ_PART_LETTERS && !push_letters(tails, t)) return false;
    if (part <= CDZ_PART_PLAIN && !push_solid(v, tails, t, &look)) return false;
    return push_token(&parts[part], *t, spaced, 0) && push_tail(v, tails, t, &look);
}

static bool plant_list(cdz_grammar_vocab *v, cdz_vocab_trie *trie, token_list *list, bool cut)
{
    if (cut && list->n) qsort(list->at, list->n, sizeof *list->at, by_bytes);
    const bool fine = plant(v, trie, list->at, list->n);
    free(list->at);
    *list = (token_list){0};
    return fine;
}

static bool count_longs(cdz_grammar_vocab *v)
{
    cdz_vocab_tails *tails = &v->tails;
    tails->long_chars = malloc(((size_t)tails->longs.n_ids + 1) * sizeof *tails->long_chars);
    for (uint32_t i = 0; tails->long_chars && i < tails->longs.n_ids; i++) {
        const uint32_t id = tails->longs.ids[i], from = v->begin[id];
        tails->long_chars[i] = (uint32_t)cdz_utf8_count(v->bytes + from, v->begin[id + 1] - from);
    }
    return tails->long_chars != NULL;
}

/* Cuts the sorted tokens into parts. */
static bool cut(cdz_grammar_vocab *v, const sorted_token *tokens, uint32_t n)
{
    token_list parts[CDZ_N_PARTS] = {0}, tails[N_TAILS] = {0};
    bool fine = masks_new(v);
    for (uint32_t i = 0; fine && i < n; i++) fine = sort_token(v, parts, tails, &tokens[i]);
    if (fine) sum_up(v);
    for (int i = 0; i < CDZ_N_PARTS; i++) fine &= plant_list(v, &v->tries[i], &parts[i], false);
    fine &= plant_list(v, &v->tails.quotes, &tails[QUOTES], true);
    fine &= plant_list(v, &v->tails.others, &tails[OTHERS], true);
    fine &= plant_list(v, &v->tails.odd, &tails[ODD], false);
    fine &= plant_list(v, &v->tails.longs, &tails[LONGS], false);
    fine &= plant_list(v, &v->letters.odd, &tails[LETTERS_ODD], false);
    fine &= plant_list(v, &v->solids, &tails[SOLIDS], true);
    for (int i = 0; i <= CDZ_VOCAB_CHARS; i++) {
        fine &= plant_list(v, &v->tails.after[i], &tails[AFTER + i], true);
        fine &= plant_list(v, &v->letters.after[i], &tails[LETTERS + i], i > 0);
    }
    return fine && count_longs(v);
}

static bool build(cdz_grammar_vocab *v)
{
    token_list tokens = {0};
    bool fine = true;
    for (uint32_t id = 0; fine && id < v->n_ids; id++) {
        const uint32_t len = v->begin[id + 1] - v->begin[id];
        const sorted_token t = {v->bytes + v->begin[id], len, id, 0};
        if (len && len <= TOKEN_MAX_BYTES) fine = push_token(&tokens, t, 0, 0);
    }
    if (fine && tokens.n) qsort(tokens.at, tokens.n, sizeof *tokens.at, by_bytes);
    fine = fine && cut(v, tokens.at, tokens.n);
    free(tokens.at);
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

uint32_t cdz_grammar_feed_token(cdz_grammar *g, const cdz_grammar_vocab *v, uint32_t state,
                                int32_t id)
{
    uint32_t to = 0;
    if (id < 0 || (uint32_t)id >= v->n_ids || !state) return 0;
    const uint32_t from = v->begin[id], len = v->begin[id + 1] - from;
    if (len) to = cdz_grammar_feed(g, state, v->bytes + from, len);
    return cdz_grammar_states_token(&g->states, state, (uint32_t)id, to);
}
