/* digest.h - a sum of 128 bits over bytes, at the speed of memory: tells what was damaged by accident, not what somebody forged
 * (sha256.h does). Bytes that differ in one word of eight have different sums, always; all others but for chance. */
#ifndef CDZ_HOST_BASE_DIGEST_H
#define CDZ_HOST_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { CDZ_DIGEST_BYTES = 16, CDZ_DIGEST_LANES = 4 };

/* Piece by piece: begin, any number of adds, end; how the bytes are cut does not matter. */
typedef struct cdz_digest_state {
    uint64_t lanes[CDZ_DIGEST_LANES];
    uint64_t len;                       /* bytes added */
    uint8_t rest[CDZ_DIGEST_LANES * 8]; /* the last len % sizeof rest of them */
} cdz_digest_state;

void cdz_digest_begin(cdz_digest_state *state);
void cdz_digest_add(cdz_digest_state *state, const void *data, size_t len);
void cdz_digest_end(cdz_digest_state *state, uint8_t out[CDZ_DIGEST_BYTES]);

#endif
