/* scanner.h - the split patterns of well-known tokenizers as hand-written matchers.
 *
 * A pattern is recognised by its exact text. Its matcher gives the same matches as the
 * reference's regex engine (Oniguruma, Ruby syntax) with the classes of Unicode 16. */
#ifndef CDZ_HOST_TOKEN_SCANNER_H
#define CDZ_HOST_TOKEN_SCANNER_H

#include "token/unicode.h"

/* The end of the match that begins exactly at i < n, or i when none does. text is valid UTF-8,
 * cut between characters at n; nothing past n is looked at. */
typedef size_t (*cdz_match_fn)(const uint8_t *text, size_t n, size_t i);

/* The matcher of a pattern, or NULL when the pattern is not a known one. */
cdz_match_fn cdz_scanner_find(const char *pattern, size_t len);

/* The pattern that ByteLevel splits by itself (use_regex). */
size_t cdz_scan_gpt2(const uint8_t *text, size_t n, size_t i);
/* One character of the Digits pre-tokenizer's class. */
size_t cdz_scan_digit(const uint8_t *text, size_t n, size_t i);

#endif
