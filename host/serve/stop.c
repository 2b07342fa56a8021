/* stop.c - looks for stop strings where they can still begin, and holds back what can still become one. */
#include "serve/stop.h"

#include <string.h>

size_t cdz_stop_find(const cdz_stop_texts *stops, const char *text, size_t len, size_t from,
                     size_t *which)
{
    size_t best = len;
    *which = stops->n;
    for (size_t i = 0; i < stops->n && from < len; i++) {
        const size_t n = strlen(stops->at[i]);
        const char *found = memmem(text + from, len - from, stops->at[i], n);
        if (!found || (size_t)(found - text) >= best) continue;
        best = (size_t)(found - text);
        *which = i;
    }
    return *which < stops->n && stops->keep ? best + strlen(stops->at[*which]) : best;
}

/* How many of the last bytes may be the beginning of a stop string. */
static size_t held(const cdz_stop_texts *stops, const char *text, size_t len)
{
    size_t most = 0;
    for (size_t i = 0; i < stops->n; i++) {
        size_t n = strlen(stops->at[i]);
        n = n ? n - 1 : 0;
        if (n > len) n = len;
        for (; n > most; n--)
            if (memcmp(text + len - n, stops->at[i], n) == 0) most = n;
    }
    return most;
}

size_t cdz_serve_row_text_add(cdz_serve_row_text *row, const cdz_stop_texts *stops,
                              const char *piece, size_t len)
{
    size_t which;
    if (row->stopped) return 0;
    cdz_buf_add(&row->text, piece, len);
    if (row->text.failed || !row->text.len) return 0;
    const size_t all = row->text.len;
    size_t end = cdz_stop_find(stops, row->text.data, all, row->looked, &which);
    row->stopped = which < stops->n;
    if (!row->stopped) {
        end = all - held(stops, row->text.data, all);
        row->looked = end;
    }
    if (end < row->let_out) end = row->let_out;
    const size_t out = end - row->let_out;
    row->let_out = end;
    return out;
}
