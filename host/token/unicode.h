/* unicode.h - what kind of character a code point is, for splitting and normalising text.
 *
 * The classes are those of the reference's regex engine (Unicode 16), read off the reference
 * itself; the three flags for normalisation are those of Unicode 12.0, which is what its
 * normalizer knows. The tables are generated: see tools/make_unicode_tables.py. */
#ifndef CDZ_HOST_TOKEN_UNICODE_H
#define CDZ_HOST_TOKEN_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum {
    CDZ_UC_LETTER = 1 << 0,       /* \p{L} */
    CDZ_UC_NUMBER = 1 << 1,       /* \p{N} */
    CDZ_UC_SPACE = 1 << 2,        /* \s, also White_Space */
    CDZ_UC_MARK = 1 << 3,         /* \p{M} */
    CDZ_UC_UPPER = 1 << 4,        /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
    CDZ_UC_LOWER = 1 << 5,        /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
    CDZ_UC_PUNCT = 1 << 6,        /* \p{P} */
    CDZ_UC_SYMBOL = 1 << 7,       /* \p{S} */
    CDZ_UC_DIGIT = 1 << 8,        /* what the Digits pre-tokenizer calls numeric */
    CDZ_UC_WORD = 1 << 9,         /* \w of the engine that checks single_word */
    CDZ_UC_ASSIGNED_12 = 1 << 10, /* assigned in Unicode 12.0 */
    CDZ_UC_NFC_CHECK = 1 << 11,   /* NFC_Quick_Check is No or Maybe */
    CDZ_UC_COMBINING = 1 << 12,   /* canonical combining class is not 0 */
};

extern const uint16_t cdz_uc_ascii[128]; /* flags of the code points below 128 */
extern const uint16_t cdz_uc_sets[];     /* flags by set number */
extern const uint16_t cdz_uc_blocks[];   /* block number by code point / 128 */
extern const uint8_t cdz_uc_codes[];     /* set number by block and code point % 128 */

/* The flags of a code point below 0x110000. */
static inline unsigned cdz_uc_flags(uint32_t code)
{
    return cdz_uc_sets[cdz_uc_codes[(size_t)cdz_uc_blocks[code >> 7] * 128 + (code & 127)]];
}

/* The code point at a character's first byte in valid UTF-8; *size is its bytes. Reads nothing
 * past them. */
static inline uint32_t cdz_uc_code(const uint8_t *at, size_t *size)
{
    const uint32_t b = at[0];
    if (b < 0x80) {
        *size = 1;
        return b;
    }
    if (b < 0xE0) {
        *size = 2;
        return (b & 31) << 6 | (at[1] & 63u);
    }
    if (b < 0xF0) {
        *size = 3;
        return (b & 15) << 12 | (at[1] & 63u) << 6 | (at[2] & 63u);
    }
    *size = 4;
    return (b & 7) << 18 | (at[1] & 63u) << 12 | (at[2] & 63u) << 6 | (at[3] & 63u);
}

/* The flags of the character at a first byte in valid UTF-8. */
static inline unsigned cdz_uc_at(const uint8_t *at, size_t *size)
{
    if (at[0] < 0x80) {
        *size = 1;
        return cdz_uc_ascii[at[0]];
    }
    return cdz_uc_flags(cdz_uc_code(at, size));
}

/* The first byte of the character that ends just before `at`, which must not be the text's
 * first. */
static inline const uint8_t *cdz_uc_before(const uint8_t *at)
{
    do {
        at--;
    } while ((*at & 0xC0) == 0x80);
    return at;
}

#endif
