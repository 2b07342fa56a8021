/* chars_dfa.c - deterministic automata over code points: subset construction, products, complements. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/chars.h"
#include "grammar/grow.h"

static cdz_status too_many(cdz_error *err)
{
    return cdz_err(err, CDZ_E_LIMIT, "a pattern needs more than %d states (grammar_max_states)",
                   CDZ_CHARS_MAX_STATES);
}

static cdz_status too_wide(cdz_error *err)
{
    return cdz_err(err, CDZ_E_LIMIT,
                   "a pattern needs a table of more than %d entries (grammar_max_states)",
                   CDZ_CHARS_MAX_CELLS);
}

void cdz_chars_dfa_free(cdz_chars_dfa *dfa)
{
    free(dfa->next);
    free(dfa->accepts);
    free(dfa->cuts);
    free(dfa->class_of);
    *dfa = (cdz_chars_dfa){0};
}

/* Room for one more state, whose transitions all lead to the dead one. */
static bool add_state(cdz_chars_dfa *dfa, uint32_t *cap)
{
    const size_t row = (size_t)dfa->n_classes * sizeof *dfa->next;
    if (dfa->n_states == *cap) {
        const uint32_t want = *cap ? *cap * 2 : 16;
        uint32_t *next = realloc(dfa->next, want * row);
        if (next) dfa->next = next;
        bool *accepts = realloc(dfa->accepts, want * sizeof *accepts);
        if (accepts) dfa->accepts = accepts;
        if (!next || !accepts) return false;
        *cap = want;
    }
    memset(dfa->next + (size_t)dfa->n_states * dfa->n_classes, 0, row);
    dfa->accepts[dfa->n_states++] = false;
    return true;
}

/* --- classes of code points that no set tells apart --------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static bool find_cuts(const cdz_chars *nfa, cdz_chars_dfa *dfa)
{
    size_t n = 1;
    for (uint32_t s = 0; s < nfa->n_sets; s++) n += 2 * (size_t)nfa->sets[s].n;
    dfa->cuts = malloc(n * sizeof *dfa->cuts);
    if (!dfa->cuts) return false;
    n = 0;
    dfa->cuts[n++] = 0;
    for (uint32_t s = 0; s < nfa->n_sets; s++)
        for (uint32_t i = 0; i < nfa->sets[s].n; i++) {
            dfa->cuts[n++] = nfa->sets[s].at[i].lo;
            dfa->cuts[n++] = nfa->sets[s].at[i].hi + 1;
        }
    qsort(dfa->cuts, n, sizeof *dfa->cuts, by_value);
    for (size_t i = 0; i < n; i++)
        if (dfa->cuts[i] <= CDZ_CODE_MAX &&
            (!dfa->n_cuts || dfa->cuts[i] != dfa->cuts[dfa->n_cuts - 1]))
            dfa->cuts[dfa->n_cuts++] = dfa->cuts[i];
    dfa->class_of = calloc(dfa->n_cuts, sizeof *dfa->class_of);
    return dfa->class_of != NULL;
}

/* Stretches of equal value get one class. Values are n_cuts numbers; what is equal is grouped by sorting. */
typedef struct cut_value {
    uint64_t value;
    uint32_t cut;
} cut_value;

static int by_cut_value(const void *a, const void *b)
{
    const cut_value *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return x->cut < y->cut ? -1 : x->cut > y->cut;
}

static void number_classes(cdz_chars_dfa *dfa, cut_value *values)
{
    qsort(values, dfa->n_cuts, sizeof *values, by_cut_value);
    for (uint32_t i = 0; i < dfa->n_cuts; i++) {
        if (i && values[i].value != values[i - 1].value) dfa->n_classes++;
        dfa->class_of[values[i].cut] = dfa->n_classes;
    }
    dfa->n_classes++;
}

/* Of a class: how many stretches it has, how many of them lie in the set of this number, and the class that these become. */
typedef struct class_part {
    uint32_t n, set, inside, becomes;
} class_part;

/* The first stretch that begins at code or later. */
static uint32_t stretch_at(const cdz_chars_dfa *dfa, uint32_t code)
{
    uint32_t lo = 0, hi = dfa->n_cuts;
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (dfa->cuts[mid] < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The stretches of a span of a set: from *lo to before *hi. */
static void stretches_of(const cdz_chars_dfa *dfa, const cdz_code_span *span, uint32_t *lo,
                         uint32_t *hi)
{
    *lo = stretch_at(dfa, span->lo);
    *hi = span->hi == CDZ_CODE_MAX ? dfa->n_cuts : stretch_at(dfa, span->hi + 1);
}

static uint32_t count_inside(const cdz_chars_dfa *dfa, class_part *parts, const cdz_charset *set,
                             uint32_t number)
{
    uint32_t n = 0, lo, hi;
    for (uint32_t r = 0; r < set->n; r++) {
        stretches_of(dfa, &set->at[r], &lo, &hi);
        n += hi - lo;
        for (uint32_t i = lo; i < hi; i++) {
            const uint32_t class = dfa->class_of[i];
            class_part *part = &parts[class];
            if (part->set != number)
                *part = (class_part){part->n, number, .inside = 0, .becomes = class};
            part->inside++;
        }
    }
    return n;
}

/* Stretches inside the set leave a class that has others too, for a new one. */
static void split_classes(cdz_chars_dfa *dfa, class_part *parts, const cdz_charset *set)
{
    uint32_t lo, hi;
    for (uint32_t r = 0; r < set->n; r++) {
        stretches_of(dfa, &set->at[r], &lo, &hi);
        for (uint32_t i = lo; i < hi; i++) {
            const uint32_t class = dfa->class_of[i];
            class_part *part = &parts[class];
            if (part->becomes == class && part->inside < part->n) {
                part->becomes = dfa->n_classes++;
                part->n -= part->inside;
                parts[part->becomes] = (class_part){.n = part->inside};
            }
            dfa->class_of[i] = part->becomes;
        }
    }
}

/* Stretches that no set tells apart: one set after the other splits the classes that it cuts through. */
static cdz_status find_classes(const cdz_chars *nfa, cdz_chars_dfa *dfa, cdz_error *err)
{
    class_part *parts = calloc(dfa->n_cuts, sizeof *parts);
    uint64_t entries = 0;
    if (!parts) return cdz_err_memory(err, "the states of a pattern");
    dfa->n_classes = 1;
    parts[0].n = dfa->n_cuts;
    for (uint32_t s = 0; s < nfa->n_sets && entries <= CDZ_CHARS_MAX_CELLS; s++) {
        entries += count_inside(dfa, parts, &nfa->sets[s], s + 1);
        split_classes(dfa, parts, &nfa->sets[s]);
    }
    free(parts);
    return entries > CDZ_CHARS_MAX_CELLS ? too_wide(err) : CDZ_OK;
}

/* --- subset construction ------------------------------------------------------------------------------- */

typedef struct subset_work {
    const cdz_chars *nfa;
    cdz_chars_dfa *dfa;
    uint32_t *first, *order;   /* edges by node: order[first[node] ..] */
    uint32_t *members, *begin; /* of the states: members[begin[s] .. begin[s + 1]] */
    uint32_t members_cap, begin_cap, n_members;
    cdz_item_table table;  /* states by their members */
    uint32_t *seen, epoch; /* by node */
    uint32_t *stack;
    uint32_t *takes_begin, *takes; /* classes of each set */
    uint32_t cap;
} subset_work;

static void subset_free(subset_work *w)
{
    free(w->first);
    free(w->order);
    free(w->members);
    free(w->begin);
    free(w->table.at);
    free(w->seen);
    free(w->stack);
    free(w->takes_begin);
    free(w->takes);
}

static bool sort_edges(subset_work *w)
{
    const cdz_chars *nfa = w->nfa;
    w->first = calloc((size_t)nfa->n_nodes + 2, sizeof *w->first);
    w->order = malloc(((size_t)nfa->n_edges + 1) * sizeof *w->order);
    if (!w->first || !w->order) return false;
    for (uint32_t i = 0; i < nfa->n_edges; i++) w->first[nfa->edges[i].from + 2]++;
    for (uint32_t i = 0; i < nfa->n_nodes; i++) w->first[i + 2] += w->first[i + 1];
    for (uint32_t i = 0; i < nfa->n_edges; i++) w->order[w->first[nfa->edges[i].from + 1]++] = i;
    return true;
}

/* The classes that each set consists of, ascending. */
static bool sets_as_classes(subset_work *w)
{
    const cdz_chars *nfa = w->nfa;
    const cdz_chars_dfa *dfa = w->dfa;
    uint32_t n = 0, cap = 0, lo, hi;
    w->takes_begin = calloc((size_t)nfa->n_sets + 1, sizeof *w->takes_begin);
    uint32_t *in = calloc(dfa->n_classes, sizeof *in); /* the set that has a class, + 1 */
    bool fine = w->takes_begin && in;
    for (uint32_t s = 0; fine && s < nfa->n_sets; s++) {
        const cdz_charset *set = &nfa->sets[s];
        for (uint32_t r = 0; fine && r < set->n; r++) {
            stretches_of(dfa, &set->at[r], &lo, &hi);
            fine = cdz_grow(&w->takes, &cap, (size_t)n + (hi - lo), sizeof *w->takes);
            for (uint32_t i = lo; fine && i < hi; i++) {
                if (in[dfa->class_of[i]] == s + 1) continue;
                in[dfa->class_of[i]] = s + 1;
                w->takes[n++] = dfa->class_of[i];
            }
        }
        if (n > w->takes_begin[s])
            qsort(w->takes + w->takes_begin[s], n - w->takes_begin[s], sizeof *w->takes, by_value);
        w->takes_begin[s + 1] = n;
    }
    free(in);
    return fine;
}

static bool subset_begin(subset_work *w)
{
    w->seen = calloc((size_t)w->nfa->n_nodes + 1, sizeof *w->seen);
    w->stack = malloc(((size_t)w->nfa->n_nodes + 1) * sizeof *w->stack);
    return w->seen && w->stack && sort_edges(w) && sets_as_classes(w) &&
           cdz_grow(&w->begin, &w->begin_cap, 2, sizeof *w->begin);
}

static uint32_t hash_of(const uint32_t *at, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++) h = (h ^ at[i]) * 16777619u;
    return h ^ h >> 15;
}

static uint32_t state_hash(const void *of, uint32_t state)
{
    const subset_work *w = of;
    return hash_of(w->members + w->begin[state], w->begin[state + 1] - w->begin[state]);
}

/* The state of the members that stand behind the last state's; *state 0 and true: there are none. */
static bool intern(subset_work *w, uint32_t n, uint32_t *state)
{
    const uint32_t from = w->n_members;
    *state = 0;
    if (!n) return true;
    qsort(w->members + from, n, sizeof *w->members, by_value);
    cdz_item_table *t = &w->table;
    if (!cdz_item_table_room(t, w->dfa->n_states - 1, state_hash, w)) return false;
    uint32_t at = hash_of(w->members + from, n) & (t->size - 1);
    for (uint32_t s; (s = t->at[at]) != 0; at = (at + 1) & (t->size - 1))
        if (w->begin[s + 1] - w->begin[s] == n &&
            memcmp(w->members + w->begin[s], w->members + from, n * sizeof *w->members) == 0) {
            *state = s;
            return true;
        }
    const uint32_t s = w->dfa->n_states;
    if (!add_state(w->dfa, &w->cap) ||
        !cdz_grow(&w->begin, &w->begin_cap, (size_t)s + 2, sizeof *w->begin))
        return false;
    t->at[at] = *state = s;
    w->begin[s] = from;
    w->begin[s + 1] = w->n_members = from + n;
    for (uint32_t i = 0; i < n; i++)
        if (w->members[from + i] == w->nfa->end) w->dfa->accepts[s] = true;
    return true;
}

/* Adds a node and what lies behind empty edges to the members being gathered. */
static bool gather(subset_work *w, uint32_t node, uint32_t *n)
{
    uint32_t depth = 0;
    if (w->seen[node] == w->epoch) return true;
    w->seen[node] = w->epoch;
    w->stack[depth++] = node;
    while (depth) {
        const uint32_t at = w->stack[--depth];
        if (!cdz_grow(&w->members, &w->members_cap, (size_t)w->n_members + *n + 1,
                      sizeof *w->members))
            return false;
        w->members[w->n_members + (*n)++] = at;
        for (uint32_t i = w->first[at]; i < w->first[at + 1]; i++) {
            const cdz_chars_edge *e = &w->nfa->edges[w->order[i]];
            if (e->takes != CDZ_CHARS_NOTHING || w->seen[e->to] == w->epoch) continue;
            w->seen[e->to] = w->epoch;
            w->stack[depth++] = e->to;
        }
    }
    return true;
}

static bool takes_class(const subset_work *w, uint32_t set, uint32_t class)
{
    uint32_t lo = w->takes_begin[set], hi = w->takes_begin[set + 1];
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (w->takes[mid] < class)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < w->takes_begin[set + 1] && w->takes[lo] == class;
}

static bool step(subset_work *w, uint32_t state, uint32_t class, uint32_t *to)
{
    uint32_t n = 0;
    w->epoch++;
    for (uint32_t m = w->begin[state]; m < w->begin[state + 1]; m++) {
        const uint32_t node = w->members[m];
        for (uint32_t i = w->first[node]; i < w->first[node + 1]; i++) {
            const cdz_chars_edge *e = &w->nfa->edges[w->order[i]];
            if (e->takes >= w->nfa->n_sets || !takes_class(w, e->takes, class)) continue;
            if (!gather(w, e->to, &n)) return false;
        }
    }
    return intern(w, n, to);
}

static cdz_status construct(subset_work *w, cdz_error *err)
{
    uint32_t start, n = 0;
    uint64_t steps = 0;
    if (!subset_begin(w) || !add_state(w->dfa, &w->cap))
        return cdz_err_memory(err, "the states of a pattern");
    w->epoch = 1;
    if (!gather(w, w->nfa->start, &n) || !intern(w, n, &start))
        return cdz_err_memory(err, "the states of a pattern");
    for (uint32_t s = 1; s < w->dfa->n_states; s++) {
        steps += (uint64_t)(w->begin[s + 1] - w->begin[s]) * w->dfa->n_classes;
        if (steps > CDZ_CHARS_MAX_STEPS)
            return cdz_err(err, CDZ_E_LIMIT, "a pattern takes more than %d steps (grammar_max_ms)",
                           CDZ_CHARS_MAX_STEPS);
        for (uint32_t c = 0; c < w->dfa->n_classes; c++) {
            uint32_t to;
            if (!step(w, s, c, &to)) return cdz_err_memory(err, "the states of a pattern");
            w->dfa->next[(size_t)s * w->dfa->n_classes + c] = to;
        }
        if (w->dfa->n_states > CDZ_CHARS_MAX_STATES || w->n_members > 50000000)
            return too_many(err);
        if ((uint64_t)w->dfa->n_states * w->dfa->n_classes > CDZ_CHARS_MAX_CELLS)
            return too_wide(err);
    }
    return CDZ_OK;
}

cdz_status cdz_chars_determine(const cdz_chars *nfa, cdz_chars_dfa *out, cdz_error *err)
{
    subset_work w = {.nfa = nfa, .dfa = out};
    *out = (cdz_chars_dfa){0};
    cdz_status st = nfa->failed == CDZ_E_NOMEM ? cdz_err_memory(err, "the states of a pattern")
                    : nfa->failed              ? too_many(err)
                                               : CDZ_OK;
    if (st == CDZ_OK && !find_cuts(nfa, out)) st = cdz_err_memory(err, "the states of a pattern");
    if (st == CDZ_OK) st = find_classes(nfa, out, err);
    if (st == CDZ_OK) st = construct(&w, err);
    subset_free(&w);
    if (st != CDZ_OK) cdz_chars_dfa_free(out);
    return st;
}

/* --- products -------------------------------------------------------------------------------------------- */

static bool holds(cdz_chars_op op, bool a, bool b)
{
    return op == CDZ_CHARS_AND ? a && b : op == CDZ_CHARS_OR ? a || b : a && !b;
}

/* Cuts of both; per cut the pair of classes. */
static bool join_cuts(const cdz_chars_dfa *a, const cdz_chars_dfa *b, cdz_chars_dfa *out,
                      uint64_t **pairs)
{
    cut_value *values = malloc(((size_t)a->n_cuts + b->n_cuts) * sizeof *values);
    out->cuts = malloc(((size_t)a->n_cuts + b->n_cuts) * sizeof *out->cuts);
    out->class_of = calloc((size_t)a->n_cuts + b->n_cuts, sizeof *out->class_of);
    *pairs = calloc((size_t)a->n_cuts + b->n_cuts, sizeof **pairs);
    const bool fine = values && out->cuts && out->class_of && *pairs;
    for (uint32_t i = 0, j = 0; fine && (i < a->n_cuts || j < b->n_cuts);) {
        const uint32_t x = i < a->n_cuts ? a->cuts[i] : UINT32_MAX;
        const uint32_t y = j < b->n_cuts ? b->cuts[j] : UINT32_MAX;
        i += x <= y;
        j += y <= x;
        values[out->n_cuts] =
            (cut_value){(uint64_t)a->class_of[i - 1] << 32 | b->class_of[j - 1], out->n_cuts};
        out->cuts[out->n_cuts++] = x < y ? x : y;
    }
    if (fine) number_classes(out, values);
    for (uint32_t i = 0; fine && i < out->n_cuts; i++)
        (*pairs)[out->class_of[values[i].cut]] = values[i].value;
    free(values);
    return fine;
}

typedef struct pair_table {
    uint64_t *keys; /* pair + 1; 0: free */
    uint32_t *states, size, n;
} pair_table;

static bool pair_grow(pair_table *t)
{
    pair_table more = {.size = t->size ? 2 * t->size : 1024, .n = t->n};
    more.keys = calloc(more.size, sizeof *more.keys);
    more.states = malloc(more.size * sizeof *more.states);
    if (!more.keys || !more.states) {
        free(more.keys);
        free(more.states);
        return false;
    }
    for (uint32_t i = 0; i < t->size; i++) {
        if (!t->keys[i]) continue;
        uint32_t at = (uint32_t)(t->keys[i] * 0x9E3779B97F4A7C15u >> 32) & (more.size - 1);
        while (more.keys[at]) at = (at + 1) & (more.size - 1);
        more.keys[at] = t->keys[i];
        more.states[at] = t->states[i];
    }
    free(t->keys);
    free(t->states);
    *t = more;
    return true;
}

/* The slot of a pair, or where it belongs. */
static uint32_t pair_slot(const pair_table *t, uint64_t key)
{
    uint32_t at = (uint32_t)(key * 0x9E3779B97F4A7C15u >> 32) & (t->size - 1);
    while (t->keys[at] && t->keys[at] != key) at = (at + 1) & (t->size - 1);
    return at;
}

typedef struct product {
    const cdz_chars_dfa *a, *b;
    cdz_chars_dfa *out;
    cdz_chars_op op;
    pair_table table;
    uint64_t *of_state; /* pairs */
    uint32_t of_cap, cap;
} product;

/* False: memory. */
static bool product_state(product *p, uint32_t x, uint32_t y, uint32_t *state)
{
    const bool hopeless = p->op == CDZ_CHARS_AND ? !x || !y : p->op == CDZ_CHARS_OR ? !x && !y : !x;
    const uint64_t key = ((uint64_t)x << 32 | y) + 1;
    *state = 0;
    if (hopeless) return true;
    if (p->table.n * 2 >= p->table.size && !pair_grow(&p->table)) return false;
    const uint32_t slot = pair_slot(&p->table, key);
    if (p->table.keys[slot]) {
        *state = p->table.states[slot];
        return true;
    }
    *state = p->out->n_states;
    if (!add_state(p->out, &p->cap) ||
        !cdz_grow(&p->of_state, &p->of_cap, (size_t)*state + 1, sizeof *p->of_state))
        return false;
    p->of_state[*state] = key - 1;
    p->out->accepts[*state] = holds(p->op, p->a->accepts[x], p->b->accepts[y]);
    p->table.keys[slot] = key;
    p->table.states[slot] = *state;
    p->table.n++;
    return true;
}

static cdz_status multiply(product *p, const uint64_t *pairs, cdz_error *err)
{
    uint32_t start;
    if (!add_state(p->out, &p->cap)) return cdz_err_memory(err, "the states of a pattern");
    if (!product_state(p, 1, 1, &start)) return cdz_err_memory(err, "the states of a pattern");
    if (!start && !add_state(p->out, &p->cap))
        return cdz_err_memory(err, "the states of a pattern");
    for (uint32_t s = 1; start && s < p->out->n_states; s++) {
        const uint32_t x = (uint32_t)(p->of_state[s] >> 32), y = (uint32_t)p->of_state[s];
        for (uint32_t c = 0; c < p->out->n_classes; c++) {
            uint32_t to;
            const uint32_t ca = (uint32_t)(pairs[c] >> 32), cb = (uint32_t)pairs[c];
            if (!product_state(p, p->a->next[(size_t)x * p->a->n_classes + ca],
                               p->b->next[(size_t)y * p->b->n_classes + cb], &to))
                return cdz_err_memory(err, "the states of a pattern");
            p->out->next[(size_t)s * p->out->n_classes + c] = to;
        }
        if (p->out->n_states > CDZ_CHARS_MAX_STATES) return too_many(err);
        if ((uint64_t)p->out->n_states * p->out->n_classes > CDZ_CHARS_MAX_CELLS)
            return too_wide(err);
    }
    return CDZ_OK;
}

cdz_status cdz_chars_combine(const cdz_chars_dfa *a, const cdz_chars_dfa *b, cdz_chars_op op,
                             cdz_chars_dfa *out, cdz_error *err)
{
    product p = {.a = a, .b = b, .out = out, .op = op};
    uint64_t *pairs = NULL;
    *out = (cdz_chars_dfa){0};
    cdz_status st = join_cuts(a, b, out, &pairs) ? multiply(&p, pairs, err)
                                                 : cdz_err_memory(err, "the states of a pattern");
    free(pairs);
    free(p.of_state);
    free(p.table.keys);
    free(p.table.states);
    if (st != CDZ_OK) cdz_chars_dfa_free(out);
    return st;
}

cdz_status cdz_chars_lengths(uint32_t min, uint32_t max, cdz_chars_dfa *out, cdz_error *err)
{
    const uint32_t last = max == UINT32_MAX ? min : max;
    uint32_t cap = 0;
    *out = (cdz_chars_dfa){.n_classes = 1, .n_cuts = 1};
    if (last >= CDZ_CHARS_MAX_STATES) return too_many(err);
    out->cuts = calloc(1, sizeof *out->cuts);
    out->class_of = calloc(1, sizeof *out->class_of);
    bool fine = out->cuts && out->class_of && add_state(out, &cap);
    for (uint32_t i = 0; fine && i <= last; i++) {
        fine = add_state(out, &cap);
        if (!fine) break;
        out->accepts[i + 1] = i >= min;
        out->next[i + 1] = i < last ? i + 2 : max == UINT32_MAX ? i + 1 : 0;
    }
    if (fine) return CDZ_OK;
    cdz_chars_dfa_free(out);
    return cdz_err_memory(err, "the states of a pattern");
}

cdz_status cdz_chars_complement(cdz_chars_dfa *dfa, cdz_error *err)
{
    /* The dead state becomes one that accepts everything, so it moves: a new one takes its place. */
    uint32_t cap = dfa->n_states;
    const size_t row = dfa->n_classes;
    if (!add_state(dfa, &cap)) return cdz_err_memory(err, "the states of a pattern");
    const uint32_t all = dfa->n_states - 1;
    for (size_t i = row; i < (size_t)dfa->n_states * row; i++)
        if (!dfa->next[i]) dfa->next[i] = all;
    for (uint32_t s = 1; s < dfa->n_states; s++) dfa->accepts[s] = !dfa->accepts[s];
    dfa->accepts[all] = true;
    return CDZ_OK;
}

cdz_status cdz_chars_trim(cdz_chars_dfa *dfa, bool *any, cdz_error *err)
{
    const uint32_t n = dfa->n_states, k = dfa->n_classes;
    bool *live = malloc(n * sizeof *live), more = true;
    if (!live) return cdz_err_memory(err, "the states of a pattern");
    memcpy(live, dfa->accepts, n * sizeof *live);
    live[0] = false;
    while (more) { /* states are numbered outwards: backwards, few rounds are needed */
        more = false;
        for (uint32_t s = n; s-- > 1;)
            for (uint32_t c = 0; c < k && !live[s]; c++)
                if (live[dfa->next[(size_t)s * k + c]]) live[s] = more = true;
    }
    for (size_t i = 0; i < (size_t)n * k; i++)
        if (!live[dfa->next[i]]) dfa->next[i] = 0;
    if (any) *any = n > 1 && live[1];
    free(live);
    return CDZ_OK;
}

bool cdz_chars_accepts(const cdz_chars_dfa *dfa, const char *text, size_t len)
{
    uint32_t state = 1, code;
    for (size_t i = 0, size; i < len; i += size) {
        size = cdz_utf8_decode(text + i, len - i, &code);
        if (!size) return false;
        uint32_t lo = 0, hi = dfa->n_cuts;
        while (hi - lo > 1) {
            const uint32_t mid = (lo + hi) / 2;
            if (dfa->cuts[mid] <= code)
                lo = mid;
            else
                hi = mid;
        }
        state = dfa->next[(size_t)state * dfa->n_classes + dfa->class_of[lo]];
    }
    return dfa->accepts[state];
}
