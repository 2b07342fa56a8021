/* atext.h - text on its way to the model, each byte with the bytes of the original it stands for,
 * and the one way in which normalizers rewrite it. */
#ifndef CDZ_HOST_TOKEN_ATEXT_H
#define CDZ_HOST_TOKEN_ATEXT_H

#include "token/meter.h"
#include "token/nfc.h"

/* Zeroed is ready. Appending past `limit` bytes fails as running out of memory does, with
 * over_limit set. */
typedef struct cdz_atext {
    uint8_t *bytes;
    cdz_align *align; /* per byte; in bytes of the original text */
    size_t len, cap;
    size_t limit;
    bool limited, over_limit;
} cdz_atext;

void cdz_atext_free(cdz_atext *text);

/* Empties `to`. An output may have 64 times the bytes of the input, and what the meter has of slack: a chain of
 * replacements cannot grow without end, nor can text be put before each of a million stretches. cdz_atext_end takes from
 * the slack what the output used of it. */
void cdz_atext_begin(cdz_atext *to, size_t n_input, const cdz_meter *meter);
void cdz_atext_end(const cdz_atext *to, size_t n_input, cdz_meter *meter);

/* Appends a stretch of another text, or one character; false when there is no room. */
bool cdz_atext_copy(cdz_atext *to, const cdz_atext *from, size_t begin, size_t end);
bool cdz_atext_put(cdz_atext *to, uint32_t code, cdz_align align);
bool cdz_atext_put_all(cdz_atext *to, const char *text, size_t n, cdz_align align);
/* Appends original text whose first byte is byte `base` of the whole. */
bool cdz_atext_take(cdz_atext *to, const uint8_t *text, size_t n, size_t base);

/* A text written anew character by character, as the reference's NormalizedString::transform
 * does it. */
typedef struct cdz_rewrite {
    const cdz_atext *from;
    cdz_atext *to;
    size_t at;     /* the next byte of `from` */
    uint32_t base; /* where the original of `from` begins */
} cdz_rewrite;

/* change 0: the character stands for the next one of `from`; -k: and k more go; above 0: it is
 * an extra one, aligned as the one before it. */
bool cdz_rewrite_put(cdz_rewrite *rewrite, uint32_t code, int32_t change);

#endif
