/* keys.h - who may ask: API keys, hosts and origins. */
#ifndef CDZ_HOST_SERVE_KEYS_H
#define CDZ_HOST_SERVE_KEYS_H

#include "base/error.h"
#include "base/sha256.h"
#include "serve/head.h"

/* Zeroed: there are none, and everybody may. What is kept of a key is its hash. */
typedef struct cdz_api_keys {
    uint8_t (*hashes)[CDZ_SHA256_BYTES];
    size_t n;
} cdz_api_keys;

/* A key a line; empty lines and those that begin with # do not count. */
cdz_status cdz_keys_read(const char *path, cdz_api_keys *out, cdz_error *err);
void cdz_keys_free(cdz_api_keys *keys);

/* Whether the value of an Authorization field holds one of them, in a time that does not depend on the keys. */
bool cdz_keys_open(const cdz_api_keys *keys, cdz_slice authorization);

/* Whether a Host names this machine as its own programs do, or is one of `allowed`. */
bool cdz_serve_host_is_local(cdz_slice host, const char *const *allowed, size_t n);
/* Whether an Origin is one of `allowed`, byte for byte. */
bool cdz_serve_origin_is_allowed(cdz_slice origin, const char *const *allowed, size_t n);
/* Whether it is an origin of this Host: http or https, its name and port. */
bool cdz_serve_origin_is_own(cdz_slice origin, cdz_slice host);
/* Whether a Host is an address in numbers. */
bool cdz_serve_host_is_address(cdz_slice host);

#endif
