/* rows.c - what made-up rows hold: scores and histories that depend on a key alone. */
#include <math.h>

#include "check/probe.h"

size_t cdz_answer_len(const cdz_made_up *facts)
{
    return (size_t)facts->n_vocab + CDZ_ROOM;
}

float *cdz_answers_new(cdz_child *c, size_t floats)
{
    float *all = cdz_arena_array(&c->memory, floats + 2 * (size_t)CDZ_ROOM, sizeof *all);
    return all ? all + CDZ_ROOM : NULL;
}

/* A sum of uniforms: a hill with tails, as logits are. Every 16th element repeats its neighbour, every 32nd is masked. */
void cdz_fill_scores(float *row, uint32_t n_vocab, uint64_t key)
{
    uint64_t random = key * 0x9E3779B97F4A7C15u + 99;
    for (uint32_t v = 0; v < n_vocab; v++) {
        double sum = 0;
        for (int i = 0; i < 4; i++) sum += cdz_random_unit(&random);
        row[v] = (float)(6.0 * (sum - 2.0));
        if (v % 16 == 15) row[v] = row[v - 1];
        if (v % 32 == 20) row[v] = -INFINITY;
    }
}

void cdz_fill_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint64_t key)
{
    uint64_t random = key * 0xBF58476D1CE4E5B9u + 5;
    const uint32_t few = n_vocab < 24 ? n_vocab : 24;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (int32_t)cdz_random_below(&random, few);
        if (i >= 6 && i % 4 < 2) ids[i] = ids[i - 6]; /* pairs that were there before */
    }
}

int32_t cdz_some_token(const cdz_made_up *facts, uint64_t key)
{
    uint64_t random = key * 0x94D049BB133111EBu + 17;
    const uint32_t few = facts->n_vocab < 24 ? facts->n_vocab : 24;
    return (int32_t)cdz_random_below(&random, few);
}
