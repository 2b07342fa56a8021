/* ascii.h - small questions about texts and characters that many readers ask. */
#ifndef CDZ_HOST_BASE_ASCII_H
#define CDZ_HOST_BASE_ASCII_H

#include <stdbool.h>
#include <string.h>

/* The value of a hexadecimal digit of either case; -1: it is none. A byte, or what stands for the end (below 0). */
static inline int cdz_hex_digit(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Whether a byte is one of a set's; nothing below 0 is. strchr finds 0 in every set: its end. */
static inline bool cdz_byte_in(int c, const char *set)
{
    return c > 0 && strchr(set, c) != NULL;
}

/* Does a control character begin here: one of a byte, or of two in UTF-8 (U+0080 to U+009F)? next: what follows, or 0. */
static inline bool cdz_is_control(unsigned char c, unsigned char next)
{
    return c < 0x20 || c == 0x7F || (c == 0xC2 && next >= 0x80 && next < 0xA0);
}

/* Are the len bytes those of a word? */
static inline bool cdz_is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

static inline bool cdz_ends_with(const char *text, const char *ending)
{
    const size_t len = strlen(text), n = strlen(ending);
    return len >= n && strcmp(text + len - n, ending) == 0;
}

/* words: with NULL at the end. */
static inline bool cdz_is_one_of(const char *text, const char *const *words)
{
    while (*words && strcmp(text, *words) != 0) words++;
    return *words != NULL;
}

#endif
