/* page.c - the page at /: its bytes are page.html's (CMakeLists.txt puts them into an array), its policy names the hashes of
 * its one script and its one style, so that a browser runs nothing else in it. */
#include <stdio.h>
#include <string.h>

#include "serve/page.h"

extern const unsigned char cdz_page_html[];
extern const size_t cdz_page_html_len;

enum { HASH_TEXT = 45 }; /* SHA-256 in base64 */

static void put_base64(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t second = left > 1 ? bytes[i + 1] : 0, third = left > 2 ? bytes[i + 2] : 0;
        const uint32_t three = (uint32_t)bytes[i] << 16 | second << 8 | third;
        for (int d = 0; d < 4; d++) *out++ = digits[three >> (18 - 6 * d) & 63];
        if (left < 3) out[-1] = '=';
        if (left < 2) out[-2] = '=';
    }
    *out = '\0';
}

/* Of what stands between the first <tag> and its end. */
static void hash_of(const char *tag, char out[HASH_TEXT])
{
    uint8_t hash[CDZ_SHA256_BYTES];
    char open[16], end[16];
    snprintf(open, sizeof open, "<%s>", tag);
    snprintf(end, sizeof end, "</%s>", tag);
    const char *from = strstr((const char *)cdz_page_html, open);
    const char *to = from ? strstr(from, end) : NULL;
    out[0] = '\0';
    if (!to) return;
    from += strlen(open);
    cdz_sha256(from, (size_t)(to - from), hash);
    put_base64(hash, sizeof hash, out);
}

void cdz_serve_page_policy(char *out, size_t bytes)
{
    char script[HASH_TEXT], style[HASH_TEXT];
    hash_of("script", script);
    hash_of("style", style);
    snprintf(out, bytes,
             "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; connect-src 'self'; "
             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             script, style);
}

void cdz_serve_page(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    cdz_buf_add(&text, (const char *)cdz_page_html, cdz_page_html_len);
    cdz_mutex_lock(&e->lock);
    e->out = text;
    cdz_mutex_unlock(&e->lock);
    cdz_serve_exchange_reply(e, 200, CDZ_PAGE_TYPE);
}
