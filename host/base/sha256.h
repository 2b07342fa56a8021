/* sha256.h - SHA-256 (FIPS 180-4) of bytes, at once or piece by piece, for the hashes that packages, lock files and
 * model files are pinned by. */
#ifndef CDZ_HOST_BASE_SHA256_H
#define CDZ_HOST_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CDZ_SHA256_BYTES 32
#define CDZ_SHA256_HEX   65 /* with the terminating NUL */

void cdz_sha256(const void *data, size_t len, uint8_t out[CDZ_SHA256_BYTES]);

/* The digest as 64 lower-case hexadecimal digits. */
void cdz_sha256_hex(const void *data, size_t len, char out[CDZ_SHA256_HEX]);

/* Piece by piece: begin, any number of adds, end. */
typedef struct cdz_sha256_state {
    uint32_t h[8];
    uint64_t len;     /* bytes added */
    uint8_t rest[64]; /* the last len % 64 of them */
} cdz_sha256_state;

void cdz_sha256_begin(cdz_sha256_state *state);
void cdz_sha256_add(cdz_sha256_state *state, const void *data, size_t len);
void cdz_sha256_end(cdz_sha256_state *state, char out[CDZ_SHA256_HEX]);

/* 64 hexadecimal digits of either case, and nothing else. */
bool cdz_sha256_is_hex(const char *text);

#endif
