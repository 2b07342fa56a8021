/* ends.c - tokens that end an answer: their text is no part of it. */
#include <string.h>

#include "serve/exchange.h"

static bool is_among(const int32_t *ids, uint32_t n, int32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

int32_t cdz_serve_stop_id(const cdz_http_exchange *e, const int32_t *ids, uint32_t n)
{
    const cdz_asking *a = &e->ask;
    return n && is_among(a->ends.at, a->n_stops, ids[n - 1]) ? ids[n - 1] : -1;
}

bool cdz_serve_is_end(const cdz_http_exchange *e, int32_t id)
{
    return !e->ask.stops.keep && is_among(e->ask.ends.at, e->ask.ends.len, id);
}

size_t cdz_serve_without_end(const cdz_http_exchange *e, const int32_t *ids, uint32_t n,
                             const char *text, size_t len)
{
    char *token = NULL;
    size_t n_token = 0;
    if (!n || !cdz_serve_is_end(e, ids[n - 1])) return len;
    if (cdz_token_text(e->served->model, ids[n - 1], &token, &n_token, NULL) != CDZ_OK) return len;
    const char *end = token;
    if (n_token == len + 1 && *end == ' ') end++, n_token--; /* an answer begins without a blank */
    const bool there = n_token <= len && memcmp(text + len - n_token, end, n_token) == 0;
    cdz_free(token);
    return there ? len - n_token : len;
}
