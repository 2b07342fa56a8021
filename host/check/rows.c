/* rows.c - what made-up rows hold: scores and histories that depend on a key alone. */
#include <math.h>

#include "check/probe.h"
#include "check/probe_texts.h"

enum { TEXT_IDS = 4096 };

size_t cdz_answer_len(const cdz_made_up *facts)
{
    return (size_t)facts->n_vocab + CDZ_ROOM;
}

float *cdz_answers_new(cdz_child *c, size_t floats)
{
    float *all = cdz_arena_array(&c->memory, floats + 2 * (size_t)CDZ_ROOM, sizeof *all);
    return all ? all + CDZ_ROOM : NULL;
}

/* A sum of uniforms: a hill with tails, as logits are. Every 16th element repeats its neighbour, every 32nd is masked; which
 * these are, the key says. */
void cdz_fill_scores(float *row, uint32_t n_vocab, uint64_t key)
{
    uint64_t random = key * 0x9E3779B97F4A7C15u + 99;
    const uint32_t shift = (uint32_t)(key % 16), tied = (15 + shift) % 16, masked = 20 - shift;
    for (uint32_t v = 0; v < n_vocab; v++) {
        double sum = 0;
        for (int i = 0; i < 4; i++) sum += cdz_random_unit(&random);
        row[v] = (float)(6.0 * (sum - 2.0));
        if (v % 16 == tied && v > 0) row[v] = row[v - 1];
        if (v % 32 == masked) row[v] = -INFINITY;
    }
}

static int32_t one_of_few(uint32_t n_vocab, uint64_t *random)
{
    return (int32_t)cdz_random_below(random, n_vocab < 24 ? n_vocab : 24);
}

/* First, last and special ids, and those beside the kinds of the kit's vocabulary. */
static int32_t one_of_ends(uint32_t n_vocab, uint64_t *random)
{
    const uint32_t ends[] = {0, n_vocab - 1, n_vocab - 2, n_vocab - 3, n_vocab / 2, 24, 25, 255};
    const uint32_t id = ends[cdz_random_below(random, sizeof ends / sizeof ends[0])];
    return id < n_vocab ? (int32_t)id : 0;
}

void cdz_fill_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint64_t key)
{
    uint64_t random = key * 0xBF58476D1CE4E5B9u + 5;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = i % 4 != 3   ? one_of_few(n_vocab, &random)
                 : i % 8 == 3 ? (int32_t)cdz_random_below(&random, n_vocab)
                              : one_of_ends(n_vocab, &random);
        if (i >= 6 && i % 4 < 2) ids[i] = ids[i - 6]; /* pairs that were there before */
    }
}

int32_t cdz_some_token(const cdz_made_up *facts, uint64_t key)
{
    uint64_t random = key * 0x94D049BB133111EBu + 17;
    switch (cdz_random_below(&random, 8)) {
    case 0: return (int32_t)cdz_random_below(&random, facts->n_vocab);
    case 1: return one_of_ends(facts->n_vocab, &random);
    case 2: return cdz_probe_text_token(facts, key);
    default: return one_of_few(facts->n_vocab, &random);
    }
}

/* The bytes of token i are found by walking: the text is short, and what was found is kept. */
int32_t cdz_probe_text_token(const cdz_made_up *facts, uint64_t i)
{
    static struct {
        uint32_t n_vocab, n;
        int32_t ids[TEXT_IDS];
    } kept; /* of one vocabulary; a check's process has one thread that asks */
    if (kept.n_vocab != facts->n_vocab) {
        const cdz_string text = cdz_probe_text_corpus();
        kept.n_vocab = facts->n_vocab;
        kept.n = 0;
        for (size_t at = 0, bytes; at < text.len && kept.n < TEXT_IDS; at += bytes)
            kept.ids[kept.n++] =
                cdz_probe_text_first_token(facts->n_vocab, text.at + at, text.len - at, &bytes);
    }
    return kept.n ? kept.ids[i % kept.n] : 0;
}
