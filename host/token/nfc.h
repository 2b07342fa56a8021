/* nfc.h - Unicode normalisation forms with the alignment that offsets need, as the reference does
 * them.
 *
 * Nearly all text is in form C already: a scan finds the places that are not, and only those are
 * worked on. The other forms are made of any text, stretch by stretch. */
#ifndef CDZ_HOST_TOKEN_NFC_H
#define CDZ_HOST_TOKEN_NFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the source that one byte of normalised text stands for. */
typedef struct cdz_align {
    uint32_t begin, end;
} cdz_align;

typedef struct cdz_nfc_char {
    uint32_t code;
    int32_t change; /* <= 0: stands for a source character and drops -change more; > 0: an extra one */
    uint8_t ccc;    /* canonical combining class */
} cdz_nfc_char;

/* Normalised text and working memory, kept from call to call. Zeroed is ready. */
typedef struct cdz_nfc {
    uint8_t *text;
    cdz_align *align; /* per byte of text; only when asked for */
    size_t len, cap, align_cap;
    cdz_nfc_char *chars, *held;
    size_t chars_cap, held_cap;
} cdz_nfc;

void cdz_nfc_free(cdz_nfc *nfc);

/* Whether valid UTF-8 of n bytes is certainly in form C (false: probably not). */
bool cdz_nfc_is_normal(const uint8_t *text, size_t n);

/* Normalises valid UTF-8 of n < 2^30 bytes into nfc->text. False when memory is out. */
bool cdz_nfc_run(cdz_nfc *nfc, const uint8_t *text, size_t n, bool want_align);

/* --- any form --------------------------------------------------------------------------------- */

typedef enum cdz_tok_form {
    CDZ_NFC,
    CDZ_NFD,
    CDZ_NFKC,
    CDZ_NFKD,
} cdz_tok_form;

/* Writes the form of a stretch of valid UTF-8 text[begin, n) to nfc->chars. Returns where the
 * next stretch begins, n after the last one, or SIZE_MAX when memory is out. */
size_t cdz_nfc_stretch(cdz_nfc *nfc, cdz_tok_form form, const uint8_t *text, size_t n, size_t begin,
                       size_t *n_chars);

#endif
