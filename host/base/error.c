/* error.c - sentences, and the nearest known name. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cuts a string that filled its buffer back to the end of its last whole UTF-8 character. */
static void cut_at_character(char *text, size_t len)
{
    size_t end = len;
    while (end > 0 && ((unsigned char)text[end - 1] & 0xC0) == 0x80) end--;
    if (end == 0) return;
    unsigned char lead = (unsigned char)text[end - 1];
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (len - (end - 1) < need) text[end - 1] = '\0';
}

void cdz_err_write(cdz_error *err, cdz_status code, const char *fmt, ...)
{
    if (!err) return;
    /* An argument may point into err itself, so format beside it first. */
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len >= (int)sizeof text) cut_at_character(text, sizeof text - 1);
    err->code = code;
    memcpy(err->text, text, sizeof text);
}

cdz_status cdz_err_prefix(cdz_error *err, const char *fmt, ...)
{
    if (!err) return CDZ_E_INTERNAL;
    char prefix[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    return cdz_err(err, err->code, "%s: %s", prefix, err->text);
}

const char *cdz_status_text(cdz_status code)
{
    switch (code) {
#define CDZ_X(name, value, text)                                                                   \
    case name: return text;
        CDZ_STATUS_MAP(CDZ_X)
#undef CDZ_X
    }
    return "unknown status";
}

/* Edit distance with neighbour swaps, cut off at `limit`; names longer than 63 bytes count as far. */
static size_t distance(const char *a, const char *b, size_t limit)
{
    size_t rows[3][64];
    size_t la = strlen(a), lb = strlen(b);
    if (la >= 64 || lb >= 64) return limit + 1;
    for (size_t j = 0; j <= lb; j++) rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *now = rows[i % 3], *one = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = one[j - 1] + (a[i - 1] != b[j - 1]);
            if (one[j] + 1 < best) best = one[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two[j - 2] + 1 < best)
                best = two[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[la % 3][lb];
}

/* Names of few letters are near to almost everything: one slip there, else one for three letters. */
static size_t nearness(const char *name)
{
    const size_t len = strlen(name + strspn(name, "-"));
    return len <= 4 ? 1 : len / 3;
}

const char *cdz_nearest_name(const char *name, const char *const *names, size_t n)
{
    size_t limit = nearness(name), best = limit + 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(name, names[i], limit);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
    }
    return nearest;
}
