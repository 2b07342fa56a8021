/* sha1.h - SHA-1 (FIPS 180-4), piece by piece: git names its objects by it, and a hub its small files. It tells a file that
 * came over broken; it is no proof against whoever makes two files on purpose. */
#ifndef CDZ_HOST_BASE_SHA1_H
#define CDZ_HOST_BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define CDZ_SHA1_HEX 41 /* with the terminating NUL */

typedef struct cdz_sha1_state {
    uint32_t h[5];
    uint64_t len;     /* bytes added */
    uint8_t rest[64]; /* the last len % 64 of them */
} cdz_sha1_state;

void cdz_sha1_begin(cdz_sha1_state *state);
void cdz_sha1_add(cdz_sha1_state *state, const void *data, size_t len);
/* The digest as 40 lower-case hexadecimal digits. */
void cdz_sha1_end(cdz_sha1_state *state, char out[CDZ_SHA1_HEX]);

#endif
