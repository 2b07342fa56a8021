/* stop.h - the text of a row on its way out: stop strings are cut off, and nothing leaves that may be the beginning of one. */
#ifndef CDZ_HOST_SERVE_STOP_H
#define CDZ_HOST_SERVE_STOP_H

#include <stdint.h>

#include "base/buf.h"

typedef struct cdz_stop_texts {
    const char *const *at;
    size_t n;
    bool keep; /* the stop string itself is part of the answer */
} cdz_stop_texts;

/* Where the text ends by the earliest stop string in it, from byte `from` on; *which is its place in the list. len: there is
 * none, and *which is the list's length. */
size_t cdz_stop_find(const cdz_stop_texts *stops, const char *text, size_t len, size_t from,
                     size_t *which);

/* Zeroed: at the beginning. */
typedef struct cdz_serve_row_text {
    cdz_buf text;   /* all that came */
    size_t looked;  /* no stop string begins before */
    size_t let_out; /* bytes that may leave */
    size_t told; /* bytes that an event has: fewer where the text waits for its log-probabilities */
    uint32_t told_ids; /* with return_token_ids */
    bool stopped;
} cdz_serve_row_text;

/* Takes a piece; returns how many more bytes may leave now, which let_out counts. */
size_t cdz_serve_row_text_add(cdz_serve_row_text *row, const cdz_stop_texts *stops,
                              const char *piece, size_t len);

#endif
