/* http.h - one file over HTTP, by libcurl. The token goes to the hub alone, by scheme, host and port: not to where it sends us
 * on to. What the addresses say behind a '?' may be a key, so sentences have hosts only. */
#ifndef CDZ_HOST_HUB_HTTP_H
#define CDZ_HOST_HUB_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct cdz_http cdz_http;

/* endpoint: "https://huggingface.co", without a path's end. token: NULL for none. CDZ_E_UNSUPPORTED: built without libcurl. */
cdz_status cdz_http_open(const char *endpoint, const char *token, cdz_http **out, cdz_error *err);
void cdz_http_close(cdz_http *http); /* NULL is fine */
const char *cdz_http_library(void);  /* "libcurl/8.5.0 ...", or "none" */

/* What stands before the bytes of an answer. */
typedef struct cdz_http_head {
    long status;
    bool has_bytes, has_range;
    uint64_t bytes;       /* of the body */
    uint64_t from, total; /* where it begins in the file, and the file's bytes: Content-Range */
    char etag[128];       /* quoted as it came; "": none, or a weak one */
    char code[64];        /* the hub's word for an error: X-Error-Code */
    unsigned wait;        /* seconds until another try is welcome: Retry-After */
} cdz_http_head;

typedef struct cdz_http_ask {
    const char *path;     /* behind the endpoint, escaped */
    uint64_t from;        /* bytes that are here already */
    const char *if_range; /* the ETag that they are of; NULL: not known */
    /* The head of an answer with bytes (200, 206), then these. False ends it; the caller knows why. */
    bool (*head)(void *user, const cdz_http_head *head);
    bool (*bytes)(void *user, const void *bytes, size_t n);
    bool (*stop)(void *user); /* asked now and then */
    void *user;
} cdz_http_ask;

/* CDZ_OK: an answer came whole, of whatever status; out is its head. CDZ_E_IO: none came, or not to its end: worth another
 * try. CDZ_E_CANCELLED: head, bytes or stop ended it. Others are not worth one. */
cdz_status cdz_http_get(cdz_http *http, const cdz_http_ask *ask, cdz_http_head *out, cdz_error *err);

#endif
