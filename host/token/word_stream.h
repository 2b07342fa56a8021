/* word_stream.h - text handed on word by word, as transformers' TextStreamer prints it. */
#ifndef CDZ_HOST_TOKEN_WORD_STREAM_H
#define CDZ_HOST_TOKEN_WORD_STREAM_H

#include "base/buf.h"

/* Zeroed: as new. */
typedef struct cdz_word_stream {
    cdz_buf held;
    size_t n_said; /* bytes of held that the last call gave, dropped at the next */
} cdz_word_stream;

/* Takes whole characters. What may be said now (valid until the next call, not NUL-terminated): all of it where it ends in a
 * newline or in an ideograph, else what ends in its last space. NULL: out of memory. */
const char *cdz_word_stream_feed(cdz_word_stream *stream, const char *text, size_t len, size_t *n);
/* What is still held. */
const char *cdz_word_stream_end(cdz_word_stream *stream, size_t *n);
void cdz_word_stream_free(cdz_word_stream *stream);

#endif
