/* keys.c - API keys are compared as hashes and all of them every time; hosts and origins are compared as texts. */
#include "serve/keys.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/file.h"

static bool add_key(cdz_api_keys *keys, const char *at, size_t len)
{
    void *grown = realloc(keys->hashes, (keys->n + 1) * sizeof *keys->hashes);
    if (!grown) return false;
    keys->hashes = grown;
    cdz_sha256(at, len, keys->hashes[keys->n++]);
    return true;
}

static size_t trim(const char **at, size_t len)
{
    while (len && cdz_byte_in(**at, " \t\r")) ++*at, len--;
    while (len && cdz_byte_in((*at)[len - 1], " \t\r")) len--;
    return len;
}

static bool add_lines(cdz_api_keys *keys, const char *text, size_t len)
{
    const char *end = text + len;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end, *at = text;
        const size_t n = trim(&at, (size_t)(stop - text));
        if (n && *at != '#' && !add_key(keys, at, n)) return false;
        text = stop + 1;
    }
    return true;
}

cdz_status cdz_keys_read(const char *path, cdz_api_keys *out, cdz_error *err)
{
    char *text = NULL;
    size_t len = 0;
    *out = (cdz_api_keys){0};
    CDZ_TRY(cdz_file_read(path, 1 << 20, &text, &len, err));
    const bool good = add_lines(out, text, len);
    memset(text, 0, len);
    free(text);
    if (!good) return cdz_err_memory_in(err, path);
    if (out->n) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT, "%s: there is no key in it; expected a key a line", path);
}

void cdz_keys_free(cdz_api_keys *keys)
{
    free(keys->hashes);
    *keys = (cdz_api_keys){0};
}

bool cdz_keys_open(const cdz_api_keys *keys, cdz_slice authorization)
{
    static const char scheme[] = "Bearer ";
    static const size_t n = sizeof scheme - 1;
    uint8_t hash[CDZ_SHA256_BYTES];
    unsigned found = 0;
    if (!keys->n) return true;
    if (authorization.len <= n || strncasecmp(authorization.at, scheme, n) != 0) return false;
    cdz_sha256(authorization.at + n, authorization.len - n, hash);
    for (size_t k = 0; k < keys->n; k++) {
        unsigned differs = 0;
        for (size_t i = 0; i < sizeof hash; i++)
            differs |= (unsigned)(hash[i] ^ keys->hashes[k][i]);
        found |= (unsigned)(differs == 0);
    }
    return found != 0;
}

/* Without its port. */
static cdz_slice bare(cdz_slice host)
{
    const char *colon = memrchr(host.at, ':', host.len);
    const char *bracket = memrchr(host.at, ']', host.len);
    if (colon && (!bracket || colon > bracket)) host.len = (size_t)(colon - host.at);
    return host;
}

bool cdz_serve_host_is_local(cdz_slice host, const char *const *allowed, size_t n)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "[::1]"};
    if (!host.at || !host.len) return false;
    const cdz_slice name = bare(host);
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (cdz_slice_same(name, local[i])) return true;
    for (size_t i = 0; i < n; i++)
        if (cdz_slice_same(name, allowed[i]) || cdz_slice_same(host, allowed[i])) return true;
    return false;
}

bool cdz_serve_origin_is_allowed(cdz_slice origin, const char *const *allowed, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cdz_slice_is(origin, allowed[i])) return true;
    return false;
}

bool cdz_serve_origin_is_own(cdz_slice origin, cdz_slice host)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const size_t n = strlen(schemes[i]);
        if (host.at && host.len && origin.len == n + host.len &&
            memcmp(origin.at, schemes[i], n) == 0 &&
            strncasecmp(origin.at + n, host.at, host.len) == 0)
            return true;
    }
    return false;
}

bool cdz_serve_host_is_address(cdz_slice host)
{
    char text[64];
    struct in6_addr bytes;
    if (!host.at || !host.len) return false;
    cdz_slice name = bare(host);
    const bool six = name.len > 2 && name.at[0] == '[' && name.at[name.len - 1] == ']';
    if (six) name.at++, name.len -= 2;
    if (name.len >= sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", (int)name.len, name.at);
    return inet_pton(six ? AF_INET6 : AF_INET, text, &bytes) == 1;
}
