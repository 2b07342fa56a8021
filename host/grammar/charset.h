/* charset.h - sets of code points as ranges. A set is settled when its ranges ascend and none touches the next: what reads
 * one wants it so. A set that memory failed remembers it. */
#ifndef CDZ_HOST_GRAMMAR_CHARSET_H
#define CDZ_HOST_GRAMMAR_CHARSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CDZ_CODE_MAX 0x10FFFFu

typedef struct cdz_code_span {
    uint32_t lo, hi; /* both in it */
} cdz_code_span;

typedef struct cdz_charset {
    cdz_code_span *at;
    uint32_t n, cap;
    bool failed;
} cdz_charset;

void cdz_charset_free(cdz_charset *set); /* zeroed is fine */
void cdz_charset_add(cdz_charset *set, uint32_t lo, uint32_t hi);
void cdz_charset_add_set(cdz_charset *set, const cdz_charset *more);
void cdz_charset_settle(cdz_charset *set);
void cdz_charset_negate(cdz_charset *set); /* settles it too */
bool cdz_charset_has(const cdz_charset *set, uint32_t code);
/* Adds every character that differs only by case, one for one. Settles it too. */
void cdz_charset_fold(cdz_charset *set);

/* \d \w \s by their letter; ascii: as ECMA 262 has them. False: no such class. Capitals are the complements. */
bool cdz_charset_add_class(cdz_charset *set, char letter, bool ascii);
/* alpha, digit, ...: the names inside [[:alpha:]]. */
bool cdz_charset_add_posix(cdz_charset *set, const char *name, size_t len);

#endif
