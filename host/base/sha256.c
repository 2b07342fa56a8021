/* sha256.c - SHA-256 as FIPS 180-4 writes it: sections 4.1.2, 4.2.2, 5.1.1, 5.3.3 and 6.2. */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return (x >> n) | (x << (32 - n));
}

static uint32_t load_be(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* One 64-byte block (6.2.2). */
static void compress(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++) w[t] = load_be(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    memcpy(s, h, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25);
        uint32_t ch = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + s1 + ch + round_constants[t] + w[t];
        uint32_t s0 = rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22);
        uint32_t maj = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + s0 + maj;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

void cdz_sha256_begin(cdz_sha256_state *state)
{
    *state = (cdz_sha256_state){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void cdz_sha256_add(cdz_sha256_state *state, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    const size_t held = state->len % 64;
    if (len == 0) return;
    state->len += len;
    if (held) {
        const size_t n = len < 64 - held ? len : 64 - held;
        memcpy(state->rest + held, bytes, n);
        if (held + n < 64) return;
        compress(state->h, state->rest);
        bytes += n;
        len -= n;
    }
    for (; len >= 64; bytes += 64, len -= 64) compress(state->h, bytes);
    memcpy(state->rest, bytes, len);
}

/* The tail: what is left, a one bit, zeros, and the length in bits; one block or two (5.1.1). */
static void finish(cdz_sha256_state *state, uint8_t out[CDZ_SHA256_BYTES])
{
    const size_t rest = state->len % 64, tail_len = rest < 56 ? 64 : 128;
    uint8_t tail[128] = {0};
    memcpy(tail, state->rest, rest);
    tail[rest] = 0x80;
    const uint64_t bits = state->len * 8;
    for (size_t i = 0; i < 8; i++) tail[tail_len - 1 - i] = (uint8_t)(bits >> (8 * i));
    for (size_t i = 0; i < tail_len; i += 64) compress(state->h, tail + i);
    for (size_t i = 0; i < CDZ_SHA256_BYTES; i++)
        out[i] = (uint8_t)(state->h[i / 4] >> (24 - 8 * (i % 4)));
}

void cdz_sha256_end(cdz_sha256_state *state, char out[CDZ_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[CDZ_SHA256_BYTES];
    finish(state, digest);
    for (size_t i = 0; i < CDZ_SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[CDZ_SHA256_HEX - 1] = '\0';
}

void cdz_sha256(const void *data, size_t len, uint8_t out[CDZ_SHA256_BYTES])
{
    cdz_sha256_state state;
    cdz_sha256_begin(&state);
    cdz_sha256_add(&state, data, len);
    finish(&state, out);
}

void cdz_sha256_hex(const void *data, size_t len, char out[CDZ_SHA256_HEX])
{
    cdz_sha256_state state;
    cdz_sha256_begin(&state);
    cdz_sha256_add(&state, data, len);
    cdz_sha256_end(&state, out);
}

bool cdz_sha256_is_hex(const char *text)
{
    return strlen(text) == CDZ_SHA256_HEX - 1 &&
           strspn(text, "0123456789abcdefABCDEF") == CDZ_SHA256_HEX - 1;
}
