/* constraints.c - tries of what must appear, and progress in them. */
#include "constraints.h"

#include <string.h>

/* --- reading -------------------------------------------------------------------------------------------------- */

int32_t cdz_trie_child(const cdz_constraints *c, int32_t node, int32_t token)
{
    int32_t at = c->nodes[node].child;
    while (at >= 0 && c->nodes[at].token != token) at = c->nodes[at].next;
    return at;
}

static int32_t new_node(cdz_constraints *c, int32_t token, int32_t depth)
{
    c->nodes[c->n_nodes] = (cdz_trie_node){token, -1, -1, depth};
    return (int32_t)c->n_nodes++;
}

static int32_t add_child(cdz_constraints *c, int32_t parent, int32_t token)
{
    const int32_t made = new_node(c, token, c->nodes[parent].depth + 1);
    int32_t *link = &c->nodes[parent].child;
    while (*link >= 0) link = &c->nodes[*link].next;
    *link = made;
    return made;
}

static uint32_t count_leaves(const cdz_constraints *c, uint32_t from)
{
    uint32_t n = 0;
    for (uint32_t i = from; i < c->n_nodes; i++) n += c->nodes[i].child < 0;
    return n;
}

static cdz_status read_one(const cdz_step *step, const cdz_int_lists *choice, cdz_constraints *c,
                           cdz_constraint *out)
{
    const uint32_t first = c->n_nodes;
    *out = (cdz_constraint){.root = new_node(c, -1, 0), .is_choice = choice->len > 1};
    for (uint32_t i = 0; i < choice->len; i++) {
        const cdz_int_list *word = &choice->at[i];
        int32_t node = out->root;
        for (uint32_t k = 0; k < word->len; k++) {
            const int32_t token = (int32_t)word->at[k];
            if ((uint64_t)word->at[k] >= step->request->n_vocab)
                return cdz_fail(step, CDZ_E_USAGE,
                                "force_words_ids: token %lld is outside the vocabulary of %u",
                                (long long)word->at[k], step->request->n_vocab);
            const int32_t child = cdz_trie_child(c, node, token);
            node = child >= 0 ? child : add_child(c, node, token);
        }
        if (c->nodes[node].depth > out->height) out->height = c->nodes[node].depth;
    }
    if (count_leaves(c, first) == choice->len) return CDZ_OK;
    return cdz_fail(step, CDZ_E_USAGE,
                    "force_words_ids: of a choice no phrase may be the beginning of another");
}

cdz_status cdz_constraints_read(const cdz_step *step, const cdz_int_choices *words,
                                cdz_constraints *out)
{
    size_t nodes = words->len; /* roots */
    for (uint32_t i = 0; i < words->len; i++)
        for (uint32_t k = 0; k < words->at[i].len; k++) nodes += words->at[i].at[k].len;
    if (words->len == 0)
        return cdz_fail(step, CDZ_E_USAGE, "force_words_ids: names nothing that must appear");
    *out = (cdz_constraints){.n = words->len};
    if (nodes < INT32_MAX) {
        out->nodes = cdz_scratch(step, nodes * sizeof *out->nodes);
        out->at = cdz_scratch(step, words->len * sizeof *out->at);
    }
    if (!out->nodes || !out->at)
        return cdz_fail(step, CDZ_E_NOMEM, "force_words_ids: out of memory for %zu tokens", nodes);
    for (uint32_t i = 0; i < words->len; i++) {
        CDZ_TRY(read_one(step, &words->at[i], out, &out->at[i]));
        if (out->at[i].height > out->height) out->height = out->at[i].height;
    }
    return CDZ_OK;
}

/* --- progress ------------------------------------------------------------------------------------------------- */

cdz_status cdz_progress_new(const cdz_step *step, const cdz_constraints *c, cdz_progress *out)
{
    out->pending = cdz_scratch(step, c->n * sizeof *out->pending);
    if (!out->pending) return cdz_fail(step, CDZ_E_NOMEM, "force_words_ids: out of memory");
    cdz_progress_begin(c, out);
    return CDZ_OK;
}

void cdz_progress_begin(const cdz_constraints *c, cdz_progress *p)
{
    p->n_fulfilled = 0;
    p->current = p->node = -1;
    p->n_pending = c->n;
    for (uint32_t i = 0; i < c->n; i++) p->pending[i] = (int32_t)i;
}

void cdz_progress_copy(cdz_progress *to, const cdz_progress *from)
{
    int32_t *pending = to->pending;
    memcpy(pending, from->pending, from->n_pending * sizeof *pending);
    *to = *from;
    to->pending = pending;
}

/* The node of constraint k is reached: the end of a sequence of it fulfils it. */
static void reach(const cdz_constraints *c, cdz_progress *p, int32_t k, int32_t node)
{
    const bool fulfilled = c->nodes[node].child < 0;
    p->current = fulfilled ? -1 : k;
    p->node = fulfilled ? -1 : node;
    p->n_fulfilled += fulfilled;
}

void cdz_progress_add(const cdz_constraints *c, cdz_progress *p, int32_t token)
{
    if (p->current >= 0) {
        const int32_t node = cdz_trie_child(c, p->node, token);
        if (node >= 0) {
            reach(c, p, p->current, node);
            return;
        }
        p->pending[p->n_pending++] = p->current; /* lost; the token begins no other */
        p->current = p->node = -1;
        return;
    }
    for (uint32_t i = 0; i < p->n_pending; i++) {
        const int32_t k = p->pending[i];
        const int32_t node = cdz_trie_child(c, c->at[k].root, token);
        if (node < 0) continue;
        p->n_pending--;
        memmove(&p->pending[i], &p->pending[i + 1], (p->n_pending - i) * sizeof *p->pending);
        reach(c, p, k, node);
        return;
    }
}

static uint32_t children(const cdz_constraints *c, int32_t node, int32_t *out)
{
    uint32_t n = 0;
    for (int32_t at = c->nodes[node].child; at >= 0; at = c->nodes[at].next)
        out[n++] = c->nodes[at].token;
    return n;
}

uint32_t cdz_progress_next(const cdz_constraints *c, const cdz_progress *p, int32_t *out)
{
    uint32_t n = 0;
    if (p->current >= 0) return children(c, p->node, out);
    for (uint32_t i = 0; i < p->n_pending; i++)
        n += children(c, c->at[p->pending[i]].root, out + n);
    return n;
}

int64_t cdz_progress_bank(const cdz_constraints *c, const cdz_progress *p)
{
    const int64_t whole = (int64_t)p->n_fulfilled * c->height;
    if (p->current < 0) return whole;
    return whole + c->height - (c->at[p->current].height - c->nodes[p->node].depth);
}
