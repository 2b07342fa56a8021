/* safeguard.h - budgets by head: the best of all heads stay, and of each head some at least. */
#ifndef CADENZA_PRESSES_SAFEGUARD_H
#define CADENZA_PRESSES_SAFEGUARD_H

#include "presses.h"

typedef struct budgets {
    worth *all;     /* (G n) room */
    worth *head;    /* (n) room */
    uint32_t *safe; /* (G) of each head so many are in whatever the others have */
    uint32_t *left; /* (G) its budget */
} budgets;

static inline bool make_budgets(const cdz_step *step, const cdz_press_view *view, budgets *b)
{
    const uint32_t G = view->n_kv_heads;
    *b = (budgets){.all = cdz_scratch(step, (size_t)G * view->n * sizeof *b->all),
                   .head = cdz_scratch(step, view->n * sizeof *b->head),
                   .safe = cdz_scratch(step, G * sizeof *b->safe),
                   .left = cdz_scratch(step, G * sizeof *b->left)};
    return b->all && b->head && b->safe && b->left;
}

/* A head's entries, the best first. */
static inline void sort_head(const cdz_press_view *view, const cdz_press_choice *choice, uint32_t g,
                             worth *head)
{
    for (uint32_t i = 0; i < view->counts[g]; i++)
        head[i] = (worth){scores_of(view, choice, g)[i], g, i};
    qsort(head, view->counts[g], sizeof *head, by_worth);
}

/* As many stay as the counts say together; the best `alpha` of each head's are safe. */
static inline void share_out(const cdz_press_view *view, const cdz_press_choice *choice,
                             double alpha, budgets *b)
{
    uint32_t n = 0;
    uint64_t open = 0;
    for (uint32_t g = 0; g < view->n_kv_heads; g++) {
        const uint32_t safe = (uint32_t)(choice->counts[g] * alpha);
        b->safe[g] = b->left[g] = safe || alpha == 0 || !choice->counts[g] ? safe : 1;
        open += choice->counts[g] - b->safe[g];
        sort_head(view, choice, g, b->head);
        for (uint32_t i = b->safe[g]; i < view->counts[g]; i++) b->all[n++] = b->head[i];
    }
    qsort(b->all, n, sizeof *b->all, by_worth);
    for (uint32_t i = 0; i < n && i < open; i++) b->left[b->all[i].head]++;
}

#endif
