/* utf8.c - the well-formed sequences of Unicode table 3-7, byte by byte. */
#include "base/utf8.h"

#include <string.h>

/* What a lead byte announces: the sequence's length and the range of its second byte, which
 * alone excludes overlong forms, surrogates and code points past U+10FFFF. bytes is 0 for a byte
 * that cannot lead. */
typedef struct lead {
    size_t bytes;
    unsigned char low, high;
} lead;

static lead lead_of(unsigned char c)
{
    if (c < 0x80) return (lead){1, 0, 0};
    if (c < 0xC2) return (lead){0, 0, 0};
    if (c < 0xE0) return (lead){2, 0x80, 0xBF};
    if (c < 0xF0) return (lead){3, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF};
    if (c < 0xF5) return (lead){4, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF};
    return (lead){0, 0, 0};
}

/* How many bytes at s agree with the sequence that its lead announces. */
static size_t agreeing(const unsigned char *s, size_t len, lead l)
{
    size_t n = 1;
    if (n < l.bytes && n < len && s[n] >= l.low && s[n] <= l.high) {
        n++;
        while (n < l.bytes && n < len && (s[n] & 0xC0) == 0x80) n++;
    }
    return n;
}

size_t cdz_utf8_decode(const char *text, size_t len, uint32_t *code)
{
    static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const unsigned char *s = (const unsigned char *)text;
    if (len == 0) return 0;
    lead l = lead_of(s[0]);
    if (l.bytes == 0 || agreeing(s, len, l) < l.bytes) return 0;

    uint32_t c = s[0] & lead_bits[l.bytes];
    for (size_t i = 1; i < l.bytes; i++) c = c << 6 | (s[i] & 0x3Fu);
    *code = c;
    return l.bytes;
}

size_t cdz_utf8_encode(uint32_t code, char out[4])
{
    static const unsigned char marks[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(marks[n] | code);
    return n;
}

size_t cdz_utf8_bad(const char *text, size_t len, bool *cut)
{
    const unsigned char *s = (const unsigned char *)text;
    lead l = lead_of(s[0]);
    size_t n = l.bytes == 0 ? 1 : agreeing(s, len, l);
    if (cut) *cut = l.bytes > n && n == len;
    return n;
}

size_t cdz_utf8_valid_prefix(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        /* Eight ASCII bytes at a time: most text is. */
        uint64_t word;
        if (len - at >= sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if (!(word & 0x8080808080808080u)) {
                at += sizeof word;
                continue;
            }
        }
        uint32_t code;
        size_t n = cdz_utf8_decode(text + at, len - at, &code);
        if (n == 0) return at;
        at += n;
    }
    return len;
}

bool cdz_utf8_valid(const char *text, size_t len)
{
    return cdz_utf8_valid_prefix(text, len) == len;
}

size_t cdz_utf8_count(const char *text, size_t len)
{
    size_t count = 0;
    for (size_t at = 0; at < len; count++) {
        uint32_t code;
        size_t n = cdz_utf8_decode(text + at, len - at, &code);
        at += n ? n : cdz_utf8_bad(text + at, len - at, NULL);
    }
    return count;
}

/* --- text of bytes that come in pieces --- */

size_t cdz_utf8_add(cdz_buf *out, const char *bytes, size_t n)
{
    while (n > 0) {
        const size_t valid = cdz_utf8_valid_prefix(bytes, n);
        bool cut = false;
        cdz_buf_add(out, bytes, valid);
        bytes += valid;
        n -= valid;
        if (n == 0) break;
        const size_t bad = cdz_utf8_bad(bytes, n, &cut);
        if (cut) return n;
        cdz_buf_puts(out, CDZ_UTF8_REPLACEMENT);
        bytes += bad;
        n -= bad;
    }
    return 0;
}

void cdz_utf8_add_all(cdz_buf *out, const char *bytes, size_t n)
{
    if (cdz_utf8_add(out, bytes, n) > 0) cdz_buf_puts(out, CDZ_UTF8_REPLACEMENT);
}

static void keep_tail(cdz_utf8_tail *tail, const char *end, size_t left)
{
    memcpy(tail->at, end - left, left);
    tail->n = (uint8_t)left;
}

void cdz_utf8_push(cdz_buf *out, cdz_utf8_tail *tail, const char *bytes, size_t n)
{
    while (tail->n > 0 && n > 0) { /* one byte at a time until the tail is settled */
        char joined[sizeof tail->at + 1];
        const size_t len = tail->n + 1u;
        memcpy(joined, tail->at, tail->n);
        joined[tail->n] = *bytes++;
        n--;
        keep_tail(tail, joined + len, cdz_utf8_add(out, joined, len));
    }
    if (n > 0) keep_tail(tail, bytes + n, cdz_utf8_add(out, bytes, n));
}
