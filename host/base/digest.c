/* digest.c - four lanes of words, each multiplied and folded, so that every step is a permutation of its lane and of its word. */
#include "base/digest.h"

#include <string.h>

static const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t stir(uint64_t h, uint64_t word)
{
    h = (h ^ word) * factor;
    return h ^ h >> 32;
}

void cdz_digest_begin(cdz_digest_state *state)
{
    *state = (cdz_digest_state){0};
    for (unsigned i = 0; i < CDZ_DIGEST_LANES; i++) state->lanes[i] = (i + 1) * factor;
}

/* n bytes, whole stripes of them. */
static void take(cdz_digest_state *state, const uint8_t *at, size_t n)
{
    uint64_t lanes[CDZ_DIGEST_LANES], words[CDZ_DIGEST_LANES];
    memcpy(lanes, state->lanes, sizeof lanes);
    for (const uint8_t *end = at + n; at < end; at += sizeof words) {
        memcpy(words, at, sizeof words);
        for (unsigned i = 0; i < CDZ_DIGEST_LANES; i++) lanes[i] = stir(lanes[i], words[i]);
    }
    memcpy(state->lanes, lanes, sizeof lanes);
}

void cdz_digest_add(cdz_digest_state *state, const void *data, size_t len)
{
    const uint8_t *at = data;
    const size_t held = state->len % sizeof state->rest;
    state->len += len;
    if (held) {
        const size_t room = sizeof state->rest - held, n = len < room ? len : room;
        if (n) memcpy(state->rest + held, at, n);
        if (n < room) return;
        take(state, state->rest, sizeof state->rest);
        at += n;
        len -= n;
    }
    const size_t whole = len - len % sizeof state->rest;
    if (whole) take(state, at, whole);
    if (len > whole) memcpy(state->rest, at + whole, len - whole);
}

void cdz_digest_end(cdz_digest_state *state, uint8_t out[CDZ_DIGEST_BYTES])
{
    const size_t held = state->len % sizeof state->rest;
    uint64_t sums[2] = {stir(factor, state->len), stir(~factor, state->len)};
    if (held) {
        memset(state->rest + held, 0, sizeof state->rest - held);
        take(state, state->rest, sizeof state->rest);
    }
    for (unsigned i = 0; i < CDZ_DIGEST_LANES; i++) {
        sums[0] = stir(sums[0], state->lanes[i]);
        sums[1] = stir(sums[1], state->lanes[CDZ_DIGEST_LANES - 1 - i]);
    }
    memcpy(out, sums, sizeof sums);
}
