/* charset.c - sets of code points: arithmetic, and the classes that have names. */
#include "grammar/charset.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/ascii.h"
#include "grammar/grow.h"
#include "grammar/property.h"
#include "token/unicode.h"

void cdz_charset_free(cdz_charset *set)
{
    free(set->at);
    *set = (cdz_charset){0};
}

void cdz_charset_add(cdz_charset *set, uint32_t lo, uint32_t hi)
{
    if (set->failed || lo > hi) return;
    if (set->n && lo >= set->at[set->n - 1].lo && lo <= set->at[set->n - 1].hi + 1) {
        if (hi > set->at[set->n - 1].hi) set->at[set->n - 1].hi = hi;
        return;
    }
    if (!cdz_grow(&set->at, &set->cap, (size_t)set->n + 1, sizeof *set->at)) {
        set->failed = true;
        return;
    }
    set->at[set->n++] = (cdz_code_span){lo, hi};
}

void cdz_charset_add_set(cdz_charset *set, const cdz_charset *more)
{
    if (more->failed) set->failed = true;
    for (uint32_t i = 0; i < more->n; i++) cdz_charset_add(set, more->at[i].lo, more->at[i].hi);
}

static int by_low_end(const void *a, const void *b)
{
    const cdz_code_span *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void cdz_charset_settle(cdz_charset *set)
{
    uint32_t n = 0;
    if (set->n < 2) return;
    qsort(set->at, set->n, sizeof *set->at, by_low_end);
    for (uint32_t i = 1; i < set->n; i++) {
        if (set->at[i].lo > set->at[n].hi + 1)
            set->at[++n] = set->at[i];
        else if (set->at[i].hi > set->at[n].hi)
            set->at[n].hi = set->at[i].hi;
    }
    set->n = n + 1;
}

void cdz_charset_negate(cdz_charset *set)
{
    cdz_charset others = {.failed = set->failed};
    uint32_t from = 0;
    cdz_charset_settle(set);
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->at[i].lo > from) cdz_charset_add(&others, from, set->at[i].lo - 1);
        from = set->at[i].hi + 1;
    }
    if (from <= CDZ_CODE_MAX) cdz_charset_add(&others, from, CDZ_CODE_MAX);
    cdz_charset_free(set);
    *set = others;
}

bool cdz_charset_has(const cdz_charset *set, uint32_t code)
{
    uint32_t lo = 0, hi = set->n;
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (set->at[mid].hi < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < set->n && set->at[lo].lo <= code;
}

/* --- case ----------------------------------------------------------------------------------------- */

enum { LAST_CASED = 0x1E943 }; /* Adlam */

static uint32_t folded(uint32_t code)
{
    if (code == 0x130 || code == 0x131) return code; /* the Turkish ones stand alone */
    return (uint32_t)utf8proc_tolower(utf8proc_toupper((utf8proc_int32_t)code));
}

static void fold_ascii(cdz_charset *set, const cdz_charset *before)
{
    for (uint32_t c = 'a'; c <= 'z'; c++) {
        if (!cdz_charset_has(before, c) && !cdz_charset_has(before, c - 32)) continue;
        cdz_charset_add(set, c, c);
        cdz_charset_add(set, c - 32, c - 32);
        if (c == 's') cdz_charset_add(set, 0x17F, 0x17F);
        if (c == 'k') cdz_charset_add(set, 0x212A, 0x212A);
    }
}

void cdz_charset_fold(cdz_charset *set)
{
    cdz_charset before = {0}, images = {0};
    cdz_charset_settle(set);
    cdz_charset_add_set(&before, set);
    if (set->n && set->at[set->n - 1].hi < 128) {
        fold_ascii(set, &before);
    } else {
        for (uint32_t i = 0; i < before.n; i++)
            for (uint32_t c = before.at[i].lo; c <= before.at[i].hi && c <= LAST_CASED; c++)
                if (folded(c) != c || (c > 127 && c < 0x10000) || c < 128)
                    cdz_charset_add(&images, folded(c), folded(c));
        cdz_charset_settle(&images);
        for (uint32_t c = 0; c <= LAST_CASED; c++)
            if (cdz_charset_has(&images, folded(c))) cdz_charset_add(set, c, c);
    }
    set->failed |= before.failed || images.failed;
    cdz_charset_settle(set);
    cdz_charset_free(&before);
    cdz_charset_free(&images);
}

/* --- classes -------------------------------------------------------------------------------------- */

/* All code points with one of the flags. */
static void add_flagged(cdz_charset *set, unsigned flags)
{
    for (uint32_t c = 0; c <= CDZ_CODE_MAX; c++)
        if (cdz_uc_flags(c) & flags) cdz_charset_add(set, c, c);
}

static void add_word(cdz_charset *set, bool ascii)
{
    cdz_charset_add(set, '0', '9');
    cdz_charset_add(set, 'A', 'Z');
    cdz_charset_add(set, '_', '_');
    cdz_charset_add(set, 'a', 'z');
    if (!ascii) add_flagged(set, CDZ_UC_WORD);
}

static void add_space(cdz_charset *set, bool ascii)
{
    cdz_charset_add(set, '\t', '\r');
    cdz_charset_add(set, ' ', ' ');
    if (!ascii) add_flagged(set, CDZ_UC_SPACE);
    if (!ascii) return;
    static const cdz_code_span ecma[] = {{0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                         {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                         {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    for (size_t i = 0; i < sizeof ecma / sizeof *ecma; i++)
        cdz_charset_add(set, ecma[i].lo, ecma[i].hi);
}

bool cdz_charset_add_class(cdz_charset *set, char letter, bool ascii)
{
    cdz_charset own = {0};
    switch (letter | 32) {
    case 'd':
        cdz_charset_add(&own, '0', '9');
        if (!ascii) cdz_charset_add_property(&own, "Nd", 2);
        break;
    case 'w': add_word(&own, ascii); break;
    case 's': add_space(&own, ascii); break;
    default: return false;
    }
    cdz_charset_settle(&own);
    if (letter < 'a') cdz_charset_negate(&own);
    cdz_charset_add_set(set, &own);
    cdz_charset_free(&own);
    return true;
}

bool cdz_charset_add_posix(cdz_charset *set, const char *name, size_t len)
{
    static const struct {
        const char *name;
        cdz_code_span ranges[4];
    } classes[] = {
        {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
        {"digit", {{'0', '9'}}},
        {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
        {"upper", {{'A', 'Z'}}},
        {"lower", {{'a', 'z'}}},
        {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
        {"space", {{'\t', '\r'}, {' ', ' '}}},
        {"blank", {{'\t', '\t'}, {' ', ' '}}},
        {"cntrl", {{0, 31}, {127, 127}}},
        {"graph", {{'!', '~'}}},
        {"print", {{' ', '~'}}},
        {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
        {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
        {"ascii", {{0, 127}}},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!cdz_is_word(name, len, classes[i].name)) continue;
        for (size_t r = 0; r < 4; r++)
            if (classes[i].ranges[r].hi)
                cdz_charset_add(set, classes[i].ranges[r].lo, classes[i].ranges[r].hi);
        return true;
    }
    return false;
}
