/* nfc.h - Unicode normalisation form C with the alignment that offsets need, as the reference does
 * it.
 *
 * Nearly all text is in this form already: a scan finds the places that are not, and only those
 * are worked on. */
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
    int32_t
        change;  /* <= 0: stands for a source character and drops -change more; > 0: an extra one */
    uint8_t ccc; /* canonical combining class */
} cdz_nfc_char;

/* Normalised text and working memory, kept from call to call. Zeroed is ready. */
typedef struct cdz_nfc {
    uint8_t *text;
    cdz_align *align; /* per byte of text; only when asked for */
    size_t len, cap, align_cap;
    cdz_nfc_char *chars, *held;
    size_t chars_cap;
} cdz_nfc;

void cdz_nfc_free(cdz_nfc *nfc);

/* Whether valid UTF-8 of n bytes is certainly in form C (false: probably not). */
bool cdz_nfc_is_normal(const uint8_t *text, size_t n);

/* Normalises valid UTF-8 of n < 2^30 bytes into nfc->text. False when memory is out. */
bool cdz_nfc_run(cdz_nfc *nfc, const uint8_t *text, size_t n, bool want_align);

#endif
