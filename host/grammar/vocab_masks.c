/* vocab_masks.c - which tokens may come after a state.
 *
 * Three ways, by what a state is like. In a string any character leads on: masks by the number of characters that may come, and
 * what lies behind them walked once for all. In a state of which most characters lead to such a one, its mask, corrected
 * where the two states differ. In others the tries are walked, but for the parts whose characters all lead to one state. */
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "grammar/grow.h"
#include "grammar/vocab.h"

enum {
    CHARS = CDZ_VOCAB_CHARS,
    WORTH_KEEPING = 600, /* nodes looked at for a mask that is kept */
    MASKS_PER_SLAB = 16,
    N_SHAPES = 1024,     /* masks of so many that states of other counts are looked for among */
    WORTH_PREPARING = 4, /* nodes looked at ahead for each edge of a network */
    PREPARED = 40,       /* states near the beginning whose masks are made ahead */
    WORTH_ASKING = 12,   /* tokens below a node, for a look at all of them at once */
    WORTH_COMPARING = 8, /* bytes that two states are asked about, for all of them at once */
};

/* Where a walk is among brothers, and the state before them. */
typedef struct vocab_level {
    uint32_t at, end, state;
} vocab_level;

/* Two states that are compared, and the classes of bytes that may lead them to different ones. */
typedef struct state_pair {
    uint32_t state, other;
    cdz_net_classes differ;
} state_pair;

/* The same of a walk that compares. */
typedef struct pair_level {
    uint32_t at, end;
    state_pair pair;
} pair_level;

/* The state that a kept mask was made for, and by how much the counts of another may differ that has the same. */
typedef struct mask_origin {
    uint32_t state;
    cdz_net_slack slack;
} mask_origin;

typedef struct cdz_grammar_masks {
    const cdz_grammar_vocab *vocab;
    uint64_t **slabs;     /* MASKS_PER_SLAB masks of n_words in each */
    uint32_t *of;         /* by state: mask + 1 */
    mask_origin *origins; /* of masks */
    uint32_t *by_shape; /* mask + 1, the newest of a shape; N_SHAPES of them, where the grammar counts */
    uint32_t of_cap, n, n_slabs, slabs_cap, origins_cap;
    vocab_level *path; /* by depth */
    pair_level *pairs; /* by depth */
    uint64_t *scratch; /* the mask computed last */
} cdz_grammar_masks;

/* A mask that is being made. */
typedef struct mask_work {
    cdz_grammar_states *s;
    const cdz_grammar_vocab *v;
    cdz_grammar_masks *m;
    vocab_level *path;
    uint64_t *bits;  /* the scratch of those */
    uint32_t n;      /* nodes looked at */
    state_pair last; /* compared */
} mask_work;

void cdz_grammar_masks_free(cdz_grammar_masks *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->n_slabs; i++) free(m->slabs[i]);
    free(m->slabs);
    free(m->of);
    free(m->origins);
    free(m->by_shape);
    free(m->path);
    free(m->pairs);
    free(m->scratch);
    free(m);
}

uint64_t cdz_grammar_masks_bytes(const cdz_grammar_masks *m)
{
    if (!m) return 0;
    return sizeof *m +
           ((uint64_t)m->n_slabs * MASKS_PER_SLAB + 1) * m->vocab->n_words * sizeof *m->scratch +
           (uint64_t)m->of_cap * sizeof *m->of + m->origins_cap * sizeof *m->origins +
           N_SHAPES * sizeof *m->by_shape;
}

static uint64_t *mask_at(const cdz_grammar_masks *m, uint32_t i)
{
    return m->slabs[i / MASKS_PER_SLAB] + (size_t)(i % MASKS_PER_SLAB) * m->vocab->n_words;
}

/* --- masks that are kept ----------------------------------------------------------------------------------- */

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
    const size_t bytes = (size_t)m->vocab->n_words * sizeof **m->slabs;
    if (((size_t)m->n + 1) * bytes > CDZ_GRAMMAR_MASK_BYTES && m->n) {
        memset(m->of, 0, m->of_cap * sizeof *m->of);
        if (m->by_shape) memset(m->by_shape, 0, N_SHAPES * sizeof *m->by_shape);
        m->n = 0;
    }
    if (!cdz_grow(&m->origins, &m->origins_cap, (size_t)m->n + 1, sizeof *m->origins)) return false;
    if (m->n < m->n_slabs * MASKS_PER_SLAB) return true;
    if (!cdz_grow(&m->slabs, &m->slabs_cap, (size_t)m->n_slabs + 1, sizeof *m->slabs)) return false;
    uint64_t *slab = malloc(MASKS_PER_SLAB * bytes + 8);
    if (!slab) return false;
    m->slabs[m->n_slabs++] = slab;
    return true;
}

static uint32_t shape_slot(const cdz_grammar_states *s, uint32_t state)
{
    return cdz_grammar_states_shape(s, state) % N_SHAPES;
}

/* The mask of a state that is kept, perhaps for one that differs in counts alone; NULL: none is. */
static const uint64_t *kept(cdz_grammar_masks *m, const cdz_grammar_states *s, uint32_t state)
{
    if (state < m->of_cap && m->of[state]) return mask_at(m, m->of[state] - 1);
    const uint32_t mask = m->by_shape ? m->by_shape[shape_slot(s, state)] : 0;
    if (!mask ||
        !cdz_grammar_states_alike(s, m->origins[mask - 1].state, state, m->origins[mask - 1].slack))
        return NULL;
    if (!of_room(m, state)) return NULL;
    m->of[state] = mask;
    return mask_at(m, mask - 1);
}

/* Keeps the mask made last, for a state. Without room it is made again next time. */
static void keep(cdz_grammar_masks *m, const cdz_grammar_states *s, uint32_t state,
                 cdz_net_slack slack)
{
    if (!of_room(m, state) || !mask_room(m)) return;
    memcpy(mask_at(m, m->n), m->scratch, (size_t)m->vocab->n_words * sizeof *m->scratch);
    m->origins[m->n] = (mask_origin){state, slack};
    m->of[state] = ++m->n;
    if (m->by_shape) m->by_shape[shape_slot(s, state)] = m->n;
}

/* --- walking ----------------------------------------------------------------------------------------------- */

static void take_ids(const cdz_vocab_trie *t, uint32_t from, uint32_t past, uint64_t *bits)
{
    for (uint32_t k = from; k < past; k++) cdz_vocab_set(bits, t->ids[k]);
}

static void drop_ids(const cdz_vocab_trie *t, uint32_t from, uint32_t past, uint64_t *bits)
{
    for (uint32_t k = from; k < past; k++)
        bits[t->ids[k] / 64] &= ~((uint64_t)1 << (t->ids[k] % 64));
}

/* The next brother that may come, whose state goes to *to; false: there is none. */
static bool next_brother(cdz_grammar_states *s, const cdz_vocab_trie *t, vocab_level *l,
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

static bool is_free(cdz_grammar_states *s, uint32_t state)
{
    uint32_t to;
    return cdz_grammar_states_way(s, state, CDZ_WAY_PLAIN, &to) && to == state;
}

/* How many characters of a kind may come, whichever they are, up to CHARS; false: it depends on which. */
static bool count(cdz_grammar_states *s, uint32_t state, cdz_net_way way, uint32_t *n)
{
    uint32_t to;
    for (*n = 0; *n < CHARS; ++*n) {
        if (!cdz_grammar_states_way(s, state, way, &to)) return false;
        if (!to) return true;
        if (to == state) *n = CHARS - 1;
        state = to;
    }
    return true;
}

/* Whether all tokens below a node may come because of the kinds of their characters. */
static bool all_below(cdz_grammar_states *s, const cdz_vocab_node *node, uint32_t state, bool plain)
{
    uint32_t to, n;
    if (!node->n_children) return false;
    if (plain && is_free(s, state)) return true;
    if (node->below == CDZ_N_WAYS || node->ids_past - node->ids < WORTH_ASKING) return false;
    const cdz_net_way way = (cdz_net_way)node->below;
    if (!cdz_grammar_states_way(s, state, way, &to) || !to) return false;
    return to == state || (node->height <= CHARS && count(s, state, way, &n) && n >= node->height);
}

/* From some of the roots. */
static void walk_roots(mask_work *w, const cdz_vocab_trie *t, vocab_level roots, bool plain)
{
    uint32_t to, depth = 0;
    w->path[0] = roots;
    for (;;) {
        if (!next_brother(w->s, t, &w->path[depth], &to)) {
            if (!depth--) return;
            continue;
        }
        const cdz_vocab_node *node = &t->nodes[w->path[depth].at++];
        w->n += 1 + node->n_children;
        const bool all = all_below(w->s, node, to, plain);
        take_ids(t, node->ids, all ? node->ids_past : node->ids + node->n_ids, w->bits);
        if (!all && node->n_children)
            w->path[++depth] = (vocab_level){node->child, node->child + node->n_children, to};
    }
}

/* Those whose bytes are of a class. */
static bool roots_of(const cdz_net *net, const cdz_vocab_trie *t, uint32_t class, uint32_t *at,
                     uint32_t *end)
{
    *at = t->root_of[net->sample[class]];
    *end = t->root_of[class + 1 < net->n_classes ? net->sample[class + 1] : 256u];
    return *at < *end;
}

/* Marks the tokens that may come. plain: the trie holds plain tokens alone, so that in a state which every plain character leads
 * back to all below a node may come. */
static void walk(mask_work *w, const cdz_vocab_trie *t, uint32_t state, bool plain)
{
    const cdz_net_classes *known = t->n_roots ? cdz_grammar_states_takes(w->s, state) : NULL;
    if (!known) return;
    const cdz_net_classes takes = *known;
    for (uint32_t i = 0; i < 4; i++)
        for (uint64_t left = takes.bits[i]; left; left &= left - 1) {
            vocab_level roots = {0, 0, state};
            if (roots_of(w->s->net, t, 64 * i + (uint32_t)__builtin_ctzll(left), &roots.at,
                         &roots.end))
                walk_roots(w, t, roots, plain);
        }
}

/* --- any character ----------------------------------------------------------------------------------------- */

/* The states that plain characters lead to one after the other. */
typedef struct plain_chain {
    uint32_t at[CHARS + 1];
    uint32_t n; /* characters that may come; UINT32_MAX: any number */
    bool known; /* n is: of more than CHARS it may not be */
} plain_chain;

/* false: where characters lead depends on which they are. */
static bool follow_plain(cdz_grammar_states *s, uint32_t state, uint32_t longest, plain_chain *c)
{
    uint32_t to, k;
    c->at[0] = state;
    c->known = true;
    for (k = 0; k < CHARS; k++) {
        if (!cdz_grammar_states_way(s, c->at[k], CDZ_WAY_PLAIN, &to)) return false;
        c->n = k;
        if (!to) return true;
        c->at[k + 1] = to;
        if (to == c->at[k]) break;
    }
    c->n = UINT32_MAX;
    for (; k < CHARS; k++) c->at[k + 1] = c->at[k]; /* round and round */
    if (c->at[CHARS - 1] == c->at[CHARS]) return true;
    if (!cdz_grammar_states_way(s, c->at[CHARS], CDZ_WAY_PLAIN, &to)) return false;
    const uint32_t more = cdz_grammar_states_rounds(s, c->at[CHARS - 1], c->at[CHARS],
                                                    longest > CHARS ? longest - CHARS : 0);
    c->known = more > 0;
    c->n = more < UINT32_MAX - CHARS ? CHARS + more : UINT32_MAX;
    return true;
}

/* Marks the tokens below a node of tails whose characters before are lo to hi in number, from the state behind that node. */
static void take_tails(mask_work *w, const cdz_vocab_trie *t, uint32_t root, uint32_t state,
                       uint32_t lo, uint32_t hi)
{
    uint32_t to = state, depth = 0;
    const cdz_vocab_node *node = &t->nodes[root];
    w->path[0] = (vocab_level){0, 0, 0};
    for (;;) {
        w->n += 1 + node->n_children;
        for (uint32_t k = node->ids; k < node->ids + node->n_ids; k++)
            if (t->chars[k] >= lo && t->chars[k] <= hi) cdz_vocab_set(w->bits, t->ids[k]);
        if (node->n_children)
            w->path[++depth] = (vocab_level){node->child, node->child + node->n_children, to};
        while (depth && !next_brother(w->s, t, &w->path[depth], &to)) depth--;
        if (!depth) return;
        node = &t->nodes[w->path[depth].at++];
    }
}

/* Quotes lead to the same place from most states of a string: each place once, for the stretch of states before it. */
static void take_quotes(mask_work *w, const plain_chain *c, uint32_t most)
{
    const cdz_vocab_trie *t = &w->v->tails.quotes;
    for (uint32_t k = 0, last; t->n_ids && k <= most; k = last + 1) {
        const uint32_t to = cdz_grammar_states_next(w->s, c->at[k], '"');
        for (last = k; last < most; last++)
            if (cdz_grammar_states_next(w->s, c->at[last + 1], '"') != to) break;
        if (to) take_tails(w, t, 0, to, k, last); /* the one root is the quote */
    }
}

static void take_others(mask_work *w, const plain_chain *c, uint32_t most)
{
    if (most == CHARS && c->at[0] == c->at[CHARS]) {
        walk(w, &w->v->tails.others, c->at[0], false);
        return;
    }
    for (uint32_t k = 0; k <= most; k++) walk(w, &w->v->tails.after[k], c->at[k], false);
}

static void take_longs(mask_work *w, const plain_chain *c)
{
    const cdz_vocab_tails *tails = &w->v->tails;
    if (!c->known) walk(w, &tails->longs, c->at[0], true);
    for (uint32_t i = 0; c->known && c->n > CHARS && i < tails->longs.n_ids; i++)
        if (tails->long_chars[i] <= c->n) cdz_vocab_set(w->bits, tails->longs.ids[i]);
}

static bool take_string(mask_work *w, uint32_t state)
{
    plain_chain c;
    if (!follow_plain(w->s, state, w->v->depth, &c)) return false;
    const uint32_t most = c.n < CHARS ? c.n : CHARS;
    memcpy(w->bits, w->v->masks[CDZ_PART_PLAIN] + (size_t)most * w->v->n_words,
           w->v->n_words * sizeof *w->bits);
    take_longs(w, &c);
    take_quotes(w, &c, most);
    take_others(w, &c, most);
    walk(w, &w->v->tails.odd, state, false);
    return true;
}

/* --- almost any character ---------------------------------------------------------------------------------- */

/* A state that most characters lead to, and then all; 0: there is none. */
static uint32_t like_which(cdz_grammar_states *s, uint32_t state)
{
    static const uint8_t probes[] = {'e', 'Q', '~', '0', '.', '_', 'x', '%'};
    enum { N_PROBES = sizeof probes };
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t to = cdz_grammar_states_next(s, state, probes[i]);
        uint32_t n = 0;
        if (!to || to == state || !is_free(s, to)) continue;
        for (uint32_t k = 0; k < N_PROBES; k++)
            n += cdz_grammar_states_next(s, state, probes[k]) == to;
        if (n > N_PROBES / 2) return to;
    }
    return 0;
}

/* For a look at n brothers: of few it is found out one by one where they lead. */
static state_pair compare(mask_work *w, uint32_t state, uint32_t other, uint32_t n)
{
    if (n < WORTH_COMPARING)
        return (state_pair){state, other, {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}}};
    if (w->last.state != state || w->last.other != other)
        w->last = (state_pair){state, other, cdz_grammar_states_differ(w->s, state, other)};
    return w->last;
}

/* The first class of some from one on; 256: there is none. */
static uint32_t first_class(const cdz_net_classes *of, uint32_t from)
{
    for (uint32_t i = from / 64; i < 4; i++) {
        const uint64_t past = i == from / 64 ? UINT64_MAX << (from % 64) : UINT64_MAX;
        if (of->bits[i] & past) return 64 * i + (uint32_t)__builtin_ctzll(of->bits[i] & past);
    }
    return 256;
}

/* The first of a few brothers, which are in order, whose byte is not less. */
static uint32_t find_brother(const cdz_vocab_trie *t, uint32_t at, uint32_t end, uint8_t byte)
{
    while (at < end) {
        const uint32_t middle = at + (end - at) / 2;
        if (t->bytes[middle] < byte)
            at = middle + 1;
        else
            end = middle;
    }
    return at;
}

/* The next brother whose byte may lead the two to different states; false: there is none. */
static bool next_differing(const cdz_net *net, const cdz_vocab_trie *t, pair_level *l)
{
    while (l->at < l->end) {
        const uint32_t class = net->class_of[t->bytes[l->at]];
        const uint32_t next = first_class(&l->pair.differ, class);
        if (next == class) return true;
        if (next == 256) return false;
        l->at = find_brother(t, l->at + 1, l->end, net->sample[next]);
    }
    return false;
}

static void correct_roots(mask_work *w, const cdz_vocab_trie *t, pair_level roots)
{
    uint32_t depth = 0;
    pair_level *const path = w->m->pairs;
    path[0] = roots;
    for (;;) {
        pair_level *l = &path[depth];
        if (!next_differing(w->s->net, t, l)) {
            if (!depth--) return;
            continue;
        }
        const uint8_t byte = t->bytes[l->at];
        const cdz_vocab_node *node = &t->nodes[l->at++];
        const uint32_t to = cdz_grammar_states_look(w->s, l->pair.state, byte);
        const uint32_t its = cdz_grammar_states_look(w->s, l->pair.other, byte);
        if (to == its) continue;
        w->n++;
        if (!to) {
            drop_ids(t, node->ids, node->ids_past, w->bits);
            continue;
        }
        take_ids(t, node->ids, node->ids + node->n_ids, w->bits);
        if (node->n_children)
            path[++depth] = (pair_level){node->child, node->child + node->n_children,
                                         compare(w, to, its, node->n_children)};
    }
}

/* Corrects the bits of tokens that lead a state elsewhere than the one whose mask they are. */
static void correct(mask_work *w, const cdz_vocab_trie *t, const state_pair *pair)
{
    for (uint32_t i = 0; i < 4; i++)
        for (uint64_t left = pair->differ.bits[i]; left; left &= left - 1) {
            pair_level roots = {0, 0, *pair};
            if (roots_of(w->s->net, t, 64 * i + (uint32_t)__builtin_ctzll(left), &roots.at,
                         &roots.end))
                correct_roots(w, t, roots);
        }
}

/* The mask of such a state, which many others are like. */
static bool take_free(mask_work *w, uint32_t state)
{
    cdz_grammar_states *s = w->s;
    if (cdz_grammar_states_accepts(s, state) || s->configs[state].tokens)
        return take_string(w, state);
    const uint64_t *mask = kept(w->m, s, state);
    if (mask) {
        const mask_origin *origin = &w->m->origins[w->m->of[state] - 1];
        const cdz_net_slack none = {1, 0};
        memcpy(w->bits, mask, w->v->n_words * sizeof *w->bits);
        cdz_net_slack_join(&s->met, origin->state == state ? &origin->slack : &none);
        return true;
    }
    const cdz_net_slack before = s->met;
    s->met = CDZ_NET_SLACK_ALL;
    const bool fine = take_string(w, state);
    if (fine && s->status == CDZ_OK) keep(w->m, s, state, s->met);
    cdz_net_slack_join(&s->met, &before);
    return fine;
}

static bool take_alike(mask_work *w, uint32_t state)
{
    const uint32_t other = like_which(w->s, state);
    if (!other || !take_free(w, other)) return false;
    const uint32_t spaced = cdz_grammar_states_next(w->s, state, ' ');
    const uint32_t its = cdz_grammar_states_next(w->s, other, ' ');
    const state_pair here = {state, other, cdz_grammar_states_differ(w->s, state, other)};
    state_pair behind = {spaced, its, {{0}}};
    if (spaced != its) behind.differ = cdz_grammar_states_differ(w->s, spaced, its);
    for (int p = 0; p < CDZ_N_PARTS; p++) {
        const bool is_spaced = p >= CDZ_PART_SPACED && p < CDZ_PART_BLANK;
        correct(w, &w->v->tries[p], is_spaced ? &behind : &here);
    }
    return true;
}

/* --- some characters --------------------------------------------------------------------------------------- */

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

static void take_blank(mask_work *w, uint32_t state)
{
    const cdz_vocab_trie *blank = &w->v->tries[CDZ_PART_BLANK];
    if (!blank_is_free(w->s, state))
        walk(w, blank, state, false);
    else if (cdz_grammar_states_next(w->s, state, ' '))
        take_ids(blank, 0, blank->n_ids, w->bits);
}

/* The tokens of a part, and of those in it, that have at most n characters. */
static void take_mask(mask_work *w, uint32_t part, uint32_t n)
{
    const uint64_t *mask = w->v->masks[part] + (size_t)n * w->v->n_words;
    for (uint32_t i = 0; n && i < w->v->n_words; i++) w->bits[i] |= mask[i];
    w->n += n ? WORTH_KEEPING : 0;
}

/* The parts of a row of kinds, which `first` is the widest of, after a state: those up to the first whose characters all lead
 * one way are walked, that one and those in it come from its masks. */
static void take_kinds(mask_work *w, uint32_t state, uint32_t first)
{
    uint32_t n;
    for (uint32_t way = CDZ_WAY_SOLID; state && way < CDZ_N_WAYS; way++) {
        const uint32_t part = first + way - CDZ_WAY_SOLID;
        if (!count(w->s, state, (cdz_net_way)way, &n)) {
            walk(w, &w->v->tries[part], state, true);
            continue;
        }
        take_mask(w, part, n);
        return;
    }
}

/* Letters lead one way, and not all that a wider kind has: tokens that begin with letters are walked from where those end. */
static bool take_letters(mask_work *w, uint32_t state)
{
    const cdz_vocab_letters *letters = &w->v->letters;
    uint32_t n, to, at = state;
    if (!cdz_grammar_states_way(w->s, state, CDZ_WAY_LETTERS, &to) || !to ||
        cdz_grammar_states_way(w->s, state, CDZ_WAY_WORD, &to) ||
        !count(w->s, state, CDZ_WAY_LETTERS, &n))
        return false;
    take_mask(w, CDZ_PART_LETTERS, n);
    for (uint32_t k = 0; k <= n; k++) {
        walk(w, &letters->after[k], at, false);
        if (k < n) (void)cdz_grammar_states_way(w->s, at, CDZ_WAY_LETTERS, &at);
    }
    walk(w, &letters->odd, state, false);
    return true;
}

/* Solid characters, and not all plain ones, lead a state back to itself: others are walked from what comes behind the first of those. */
static bool take_solids(mask_work *w, uint32_t state)
{
    uint32_t to;
    if (!cdz_grammar_states_way(w->s, state, CDZ_WAY_SOLID, &to) || to != state) return false;
    take_mask(w, CDZ_PART_SOLID, CHARS);
    walk(w, &w->v->solids, state, false);
    return true;
}

static void take_some(mask_work *w, uint32_t state)
{
    memset(w->bits, 0, w->v->n_words * sizeof *w->bits);
    if (!take_letters(w, state) && !take_solids(w, state)) {
        take_kinds(w, state, CDZ_PART_SOLID);
        walk(w, &w->v->tries[CDZ_PART_PLAIN], state, true);
        walk(w, &w->v->tries[CDZ_PART_REST], state, false);
    }
    take_kinds(w, cdz_grammar_states_next(w->s, state, ' '), CDZ_PART_SPACED);
    take_blank(w, state);
}

/* --- a mask ------------------------------------------------------------------------------------------------ */

static cdz_grammar_masks *masks_for(cdz_grammar *g, const cdz_grammar_vocab *v)
{
    if (g->masks && g->masks->vocab == v) return g->masks;
    cdz_grammar_masks_free(g->masks);
    g->masks = calloc(1, sizeof *g->masks);
    if (!g->masks) return NULL;
    g->masks->vocab = v;
    g->masks->path = malloc(((size_t)v->depth + 2) * sizeof *g->masks->path);
    g->masks->scratch = malloc(((size_t)v->n_words + 1) * sizeof *g->masks->scratch);
    if (g->net.counts) g->masks->by_shape = calloc(N_SHAPES, sizeof *g->masks->by_shape);
    g->masks->pairs = malloc(((size_t)v->depth + 2) * sizeof *g->masks->pairs);
    if (g->masks->path && g->masks->pairs && g->masks->scratch &&
        (g->masks->by_shape || !g->net.counts))
        return g->masks;
    cdz_grammar_masks_free(g->masks);
    g->masks = NULL;
    return NULL;
}

/* The mask of a state into m->scratch; returns what it took, in nodes. */
static uint32_t compute(cdz_grammar *g, cdz_grammar_masks *m, uint32_t state)
{
    const cdz_grammar_vocab *v = m->vocab;
    mask_work w = {.s = &g->states, .v = v, .m = m, .path = m->path, .bits = m->scratch};
    if (!state) {
        memset(w.bits, 0, v->n_words * sizeof *w.bits);
        return 0;
    }
    if (!take_string(&w, state) && !take_alike(&w, state)) take_some(&w, state);
    cdz_grammar_states_mark_tokens(w.s, state, w.bits, v->n_ids);
    for (uint32_t i = 0; cdz_grammar_states_accepts(w.s, state) && i < v->n_ends; i++)
        cdz_vocab_set(w.bits, (uint32_t)v->ends[i]);
    return w.n;
}

cdz_status cdz_grammar_allowed(cdz_grammar *g, const cdz_grammar_vocab *v, uint32_t state,
                               const uint64_t **mask, cdz_error *err)
{
    cdz_grammar_masks *m = masks_for(g, v);
    if (!m) return cdz_err(err, CDZ_E_NOMEM, "out of memory for a mask of %u tokens", v->n_ids);
    *mask = kept(m, &g->states, state);
    if (*mask) return CDZ_OK;
    *mask = m->scratch;
    g->states.met = CDZ_NET_SLACK_ALL;
    const uint32_t work = compute(g, m, state);
    CDZ_TRY(cdz_grammar_trouble(g, err));
    if (work >= WORTH_KEEPING) keep(m, &g->states, state, g->states.met);
    return CDZ_OK;
}

void cdz_grammar_prepare(cdz_grammar *g, const cdz_grammar_vocab *v)
{
    cdz_grammar_masks *m = masks_for(g, v);
    const uint32_t most = WORTH_PREPARING * g->net.n_edges, n_states = g->states.n_configs;
    uint32_t work = 0;
    for (uint32_t state = 1; m && state < n_states && state <= PREPARED && work < most; state++) {
        if (kept(m, &g->states, state)) continue;
        g->states.met = CDZ_NET_SLACK_ALL;
        const uint32_t own = compute(g, m, state);
        if (!cdz_grammar_states_forget_limit(&g->states)) return;
        if (own >= WORTH_KEEPING) keep(m, &g->states, state, g->states.met);
        work += own;
    }
}
