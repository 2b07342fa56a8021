/* added.c - the search for added tokens. */
#include "token/added.h"

#include <stdlib.h>

#include "token/unicode.h"

static uint32_t new_node(cdz_trie *trie, uint8_t byte)
{
    if (trie->n + 1 >= trie->cap) {
        const size_t cap = trie->cap ? trie->cap * 2 : 64;
        if (cap > UINT32_MAX / sizeof *trie->nodes) return 0;
        cdz_trie_node *nodes = realloc(trie->nodes, cap * sizeof *nodes);
        if (!nodes) return 0;
        trie->nodes = nodes;
        trie->cap = cap;
        if (trie->n == 0) trie->n = 1; /* node 0 means none */
    }
    trie->nodes[trie->n] = (cdz_trie_node){.token = -1, .byte = byte};
    return (uint32_t)trie->n++;
}

static uint32_t find_child(const cdz_trie *trie, uint32_t node, uint8_t byte)
{
    uint32_t child = trie->nodes[node].child;
    while (child && trie->nodes[child].byte != byte) child = trie->nodes[child].sibling;
    return child;
}

bool cdz_trie_add(cdz_trie *trie, const char *text, size_t len, int32_t token)
{
    const uint8_t *t = (const uint8_t *)text;
    if (len == 0) return true;
    uint32_t node = trie->first[t[0]];
    if (!node && !(node = trie->first[t[0]] = new_node(trie, t[0]))) return false;
    for (size_t i = 1; i < len; i++) {
        uint32_t child = find_child(trie, node, t[i]);
        if (!child) {
            if (!(child = new_node(trie, t[i]))) return false;
            trie->nodes[child].sibling = trie->nodes[node].child;
            trie->nodes[node].child = child;
        }
        node = child;
    }
    if (trie->nodes[node].token < 0) trie->nodes[node].token = token;
    return true;
}

void cdz_trie_free(cdz_trie *trie)
{
    free(trie->nodes);
    *trie = (cdz_trie){0};
}

/* The child, and how many nodes were looked at for it. */
static uint32_t step_down(const cdz_trie *trie, uint32_t node, uint8_t byte, uint64_t *steps)
{
    uint32_t child = trie->nodes[node].child;
    for (++*steps; child && trie->nodes[child].byte != byte; ++*steps)
        child = trie->nodes[child].sibling;
    return child;
}

/* The longest token that begins exactly at i: its end, or i. */
static size_t match_at(const cdz_trie *trie, const uint8_t *t, size_t n, size_t i, int32_t *token,
                       uint64_t *steps)
{
    size_t end = i;
    uint32_t node = trie->first[t[i]];
    for (size_t j = i + 1; node; node = step_down(trie, node, t[j++], steps)) {
        if (trie->nodes[node].token >= 0) {
            *token = trie->nodes[node].token;
            end = j;
        }
        if (j == n) break;
    }
    return end;
}

static bool is_word(const uint8_t *at)
{
    size_t size;
    return cdz_uc_at(at, &size) & CDZ_UC_WORD;
}

static bool stands_alone(const uint8_t *t, size_t n, size_t begin, size_t end)
{
    if (begin > 0 && is_word(cdz_uc_before(t + begin))) return false;
    return end == n || !is_word(t + end);
}

/* Takes the whitespace around a match in where the token says so, but not what an earlier match
 * has. */
static void widen(const cdz_added_token *token, const uint8_t *t, size_t n, size_t done,
                  cdz_added_match *m)
{
    size_t size;
    while (token->lstrip && m->begin > done) {
        const uint8_t *before = cdz_uc_before(t + m->begin);
        if (!(cdz_uc_at(before, &size) & CDZ_UC_SPACE)) break;
        m->begin = (size_t)(before - t);
    }
    while (token->rstrip && m->end < n && cdz_uc_at(t + m->end, &size) & CDZ_UC_SPACE)
        m->end += size;
}

bool cdz_added_next(const cdz_trie *trie, const cdz_added_token *tokens, const uint8_t *text,
                    size_t n, bool plain, cdz_meter *meter, size_t *from, size_t *done,
                    cdz_added_match *out)
{
    if (trie->n == 0) return false;
    for (size_t i = *from; i < n;) {
        int32_t token = -1;
        uint64_t steps = 0;
        if (!trie->first[text[i]]) {
            i++;
            continue;
        }
        const size_t end = match_at(trie, text, n, i, &token, &steps);
        if (!cdz_meter_take(meter, steps)) return false;
        if (end == i) {
            i++;
            continue;
        }
        const cdz_added_token *t = &tokens[token];
        const size_t begin = i;
        i = end;
        if ((plain && t->special) || (t->single_word && !stands_alone(text, n, begin, end)))
            continue;
        *out = (cdz_added_match){begin, end, token};
        widen(t, text, n, *done, out);
        /* Whitespace after a token may be gone through again from the next one: tokens may be whitespace. */
        if (!cdz_meter_take(meter, out->end - out->begin)) return false;
        *from = i;
        *done = out->end;
        return true;
    }
    *from = n;
    return false;
}

cdz_status cdz_added_spent(size_t n, cdz_error *err)
{
    return cdz_err(err, CDZ_E_LIMIT,
                   "the search for added tokens takes too many steps on %zu bytes of text", n);
}
