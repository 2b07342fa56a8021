/* utf8.h - strict UTF-8: what RFC 3629 allows and nothing else (no overlong forms, surrogates,
 * or code points past U+10FFFF). Works on bytes with a length; text may hold NUL bytes. */
#ifndef CDZ_HOST_BASE_UTF8_H
#define CDZ_HOST_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define CDZ_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Decodes the code point at text and returns its bytes (1 to 4); 0 when they are malformed or
 * cut off by len. */
size_t cdz_utf8_decode(const char *text, size_t len, uint32_t *code);

/* Writes a code point and returns its bytes; 0 for surrogates and past U+10FFFF. */
size_t cdz_utf8_encode(uint32_t code, char out[4]);

/* Where cdz_utf8_decode gave 0: how many bytes one U+FFFD replaces. This is the "maximal
 * subpart" that Rust, Python and the WHATWG decoder agree on. *cut (may be NULL) tells that the
 * bytes are the beginning of a character that more text could complete. len must not be 0. */
size_t cdz_utf8_bad(const char *text, size_t len, bool *cut);

/* The number of leading bytes that are whole, valid characters; len when all is. */
size_t cdz_utf8_valid_prefix(const char *text, size_t len);
bool cdz_utf8_valid(const char *text, size_t len);

/* Code points in text; a malformed part counts as the one U+FFFD that would replace it. */
size_t cdz_utf8_count(const char *text, size_t len);

/* --- text of bytes that come in pieces --- */

/* The first bytes of a character that more may complete. */
typedef struct cdz_utf8_tail {
    uint8_t n;
    char at[4];
} cdz_utf8_tail;

/* Appends bytes as text: each malformed part becomes U+FFFD. Returns how many bytes at the end may be the beginning of a
 * character that more bytes complete; they are not appended. */
size_t cdz_utf8_add(cdz_buf *out, const char *bytes, size_t n);
/* The same where nothing comes behind them: such a beginning is malformed, too. */
void cdz_utf8_add_all(cdz_buf *out, const char *bytes, size_t n);
/* Bytes that follow the tail: what they spell with it is appended, and what they leave is the tail. */
void cdz_utf8_push(cdz_buf *out, cdz_utf8_tail *tail, const char *bytes, size_t n);

#endif
