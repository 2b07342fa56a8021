/* turns.h - what the schedulers share: lists by a key, and the parameter that all of them have. */
#ifndef CADENZA_SCHEDULERS_TURNS_H
#define CADENZA_SCHEDULERS_TURNS_H

#include <stdlib.h>

#include <cadenza/scheduler.h>

#define PROMPT_ROWS(T)                                                                             \
    CDZ_INT(T, prompt_rows, 0, 0, 1e6,                                                             \
            "rows of prompts in a pass in which others decode, at most; 0: as the host measures")

typedef struct place {
    double key;
    uint32_t at;
} place;

static int by_key(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* All n, in the order that they have. */
static inline void list_as_they_are(cdz_lineup *turns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) turns->list[i] = i;
    turns->n = n;
}

/* All n, the lowest key first; among equals, the one before. Sorts places. */
static inline void list_by_key(cdz_lineup *turns, place *places, uint32_t n)
{
    qsort(places, n, sizeof *places, by_key);
    for (uint32_t i = 0; i < n; i++) turns->list[i] = places[i].at;
    turns->n = n;
}

#endif
