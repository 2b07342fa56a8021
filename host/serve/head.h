/* head.h - is this the head of an HTTP/1 request that everybody reads alike?
 *
 * A pure function over bytes: line ends, names, lengths and framing are looked at before any other program reads them.
 * What two programs may read differently is refused (RFC 9112; docs/serving.md has the list). Nothing is copied: texts
 * point into the bytes. */
#ifndef CDZ_HOST_SERVE_HEAD_H
#define CDZ_HOST_SERVE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CDZ_HEAD_BYTES = 32 << 10,
    CDZ_HEAD_TARGET = 8 << 10,
    CDZ_HEAD_FIELDS = 100,
    CDZ_HEAD_ID = 129, /* of a request, with its NUL */
};

/* Bytes of a head or of a body; at NULL: there are none. */
typedef struct cdz_slice {
    const char *at;
    size_t len;
} cdz_slice;

bool cdz_slice_is(cdz_slice slice, const char *text);
bool cdz_slice_same(cdz_slice slice, const char *text); /* in any case of ASCII letters */

typedef enum cdz_head_state {
    CDZ_HEAD_MORE, /* the head has not ended, and nothing is wrong yet */
    CDZ_HEAD_GOOD,
    CDZ_HEAD_BAD, /* status and why say what to answer; nothing behind it may be read */
} cdz_head_state;

typedef enum cdz_body_kind { CDZ_BODY_NONE, CDZ_BODY_LENGTH, CDZ_BODY_CHUNKED } cdz_body_kind;

typedef struct cdz_head {
    int status;      /* of a bad one */
    const char *why; /* constant */
    size_t bytes;    /* of a good one, with the empty line */
    size_t skip;     /* an empty line before it, which is let through */
    cdz_slice method, path, query;
    cdz_slice host; /* of an absolute target, else of the field */
    cdz_slice origin, authorization, content_type, request_id, traceparent;
    bool old;     /* HTTP/1.0 */
    bool last;    /* the connection ends after it */
    bool expects; /* 100-continue */
    cdz_body_kind body;
    uint64_t length; /* CDZ_BODY_LENGTH */
} cdz_head;

cdz_head_state cdz_head_read(const char *bytes, size_t n, cdz_head *out);

/* The id of a request: the one that is given, where it is 1 to 128 letters, digits, '.', '_' and '-'; else a new one. */
void cdz_head_id(cdz_slice given, char out[CDZ_HEAD_ID]);

/* The chunks of a body. Zeroed: at the beginning. */
typedef struct cdz_chunks {
    uint8_t state;
    uint8_t digits;    /* of the size */
    uint16_t extended; /* bytes of an extension */
    uint64_t left;     /* bytes of the chunk that are still to come */
    bool done;         /* the last chunk and its empty line were read */
} cdz_chunks;

enum { CDZ_CHUNK_DIGITS = 8, CDZ_CHUNK_EXTENSION = 128 };

/* Reads on: *data is the next piece of the body, perhaps empty, and *used how many bytes were read for it. False: this is no
 * chunked body. Call until used is n or done is set. */
bool cdz_chunks_read(cdz_chunks *chunks, const char *bytes, size_t n, cdz_slice *data, size_t *used);

#endif
