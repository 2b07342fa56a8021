/* sha1.c - SHA-1 as FIPS 180-4 writes it: sections 4.1.1, 4.2.1, 5.1.1, 5.3.1 and 6.1. */
#include "base/sha1.h"

#include <string.h>

static uint32_t rotl(uint32_t x, unsigned n)
{
    return (x << n) | (x >> (32 - n));
}

/* The function and the constant of round t (4.1.1, 4.2.1). */
static uint32_t mix(int t, const uint32_t s[5])
{
    const uint32_t b = s[1], c = s[2], d = s[3];
    if (t < 20) return ((b & c) ^ (~b & d)) + 0x5a827999;
    if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1;
    if (t < 60) return ((b & c) ^ (b & d) ^ (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

/* One 64-byte block (6.1.2). */
static void compress(uint32_t h[5], const uint8_t *block)
{
    uint32_t w[80], s[5];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    for (int t = 16; t < 80; t++) w[t] = rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    memcpy(s, h, sizeof s);
    for (int t = 0; t < 80; t++) {
        const uint32_t next = rotl(s[0], 5) + mix(t, s) + s[4] + w[t];
        memmove(s + 1, s, 4 * sizeof s[0]);
        s[2] = rotl(s[2], 30);
        s[0] = next;
    }
    for (int i = 0; i < 5; i++) h[i] += s[i];
}

void cdz_sha1_begin(cdz_sha1_state *state)
{
    *state = (cdz_sha1_state){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void cdz_sha1_add(cdz_sha1_state *state, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    while (len) {
        const size_t held = state->len % 64, n = len < 64 - held ? len : 64 - held;
        memcpy(state->rest + held, bytes, n);
        if (held + n == 64) compress(state->h, state->rest);
        state->len += n;
        bytes += n;
        len -= n;
    }
}

/* The tail: a one bit, zeros, and the length in bits (5.1.1). */
void cdz_sha1_end(cdz_sha1_state *state, char out[CDZ_SHA1_HEX])
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t bits = state->len * 8;
    uint8_t tail[128] = {0x80}, length[8];
    const size_t held = state->len % 64;
    for (size_t i = 0; i < 8; i++) length[7 - i] = (uint8_t)(bits >> (8 * i));
    cdz_sha1_add(state, tail, (held < 56 ? 56 : 120) - held);
    cdz_sha1_add(state, length, sizeof length);
    for (size_t i = 0; i < 40; i++) out[i] = digits[state->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[40] = '\0';
}
