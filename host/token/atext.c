/* atext.c - growing aligned text, and rewriting it. */
#include "token/atext.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "token/unicode.h"

void cdz_atext_free(cdz_atext *text)
{
    free(text->bytes);
    free(text->align);
    *text = (cdz_atext){0};
}

void cdz_atext_begin(cdz_atext *to, size_t n_input, const cdz_meter *meter)
{
    const size_t most = (size_t)1 << 30, each = CDZ_METER_REWRITTEN;
    to->len = 0;
    to->over_limit = false;
    to->limited = true;
    to->limit = n_input < most / each ? n_input * each + meter->slack : most;
}

void cdz_atext_end(const cdz_atext *to, size_t n_input, cdz_meter *meter)
{
    const size_t own = n_input * CDZ_METER_REWRITTEN;
    if (to->len <= own) return;
    const size_t more = to->len - own;
    meter->slack -= more < meter->slack ? more : meter->slack;
}

static bool reserve(cdz_atext *to, size_t more)
{
    const size_t need = to->len + more;
    if (to->limited && need > to->limit) {
        to->over_limit = true;
        return false;
    }
    if (need <= to->cap) return true;
    const size_t cap = need + need / 2 + 64;
    uint8_t *bytes = realloc(to->bytes, cap);
    if (bytes) to->bytes = bytes;
    cdz_align *align =
        cap > SIZE_MAX / sizeof *align ? NULL : realloc(to->align, cap * sizeof *align);
    if (align) to->align = align;
    if (!bytes || !align) return false;
    to->cap = cap;
    return true;
}

bool cdz_atext_copy(cdz_atext *to, const cdz_atext *from, size_t begin, size_t end)
{
    if (begin >= end) return true;
    if (!reserve(to, end - begin)) return false;
    memcpy(to->bytes + to->len, from->bytes + begin, end - begin);
    memcpy(to->align + to->len, from->align + begin, (end - begin) * sizeof *to->align);
    to->len += end - begin;
    return true;
}

bool cdz_atext_put(cdz_atext *to, uint32_t code, cdz_align align)
{
    char bytes[4];
    return cdz_atext_put_all(to, bytes, cdz_utf8_encode(code, bytes), align);
}

bool cdz_atext_put_all(cdz_atext *to, const char *text, size_t n, cdz_align align)
{
    if (!reserve(to, n)) return false;
    for (size_t i = 0; i < n; i++) {
        to->bytes[to->len] = (uint8_t)text[i];
        to->align[to->len++] = align;
    }
    return true;
}

bool cdz_atext_take(cdz_atext *to, const uint8_t *text, size_t n, size_t base)
{
    size_t size;
    if (!reserve(to, n)) return false;
    if (n > 0) memcpy(to->bytes + to->len, text, n);
    for (size_t i = 0; i < n; i += size) {
        cdz_uc_code(text + i, &size);
        const cdz_align align = {(uint32_t)(base + i), (uint32_t)(base + i + size)};
        for (size_t k = 0; k < size; k++) to->align[to->len + i + k] = align;
    }
    to->len += n;
    return true;
}

static void skip_char(cdz_rewrite *r)
{
    size_t size;
    if (r->at >= r->from->len) return;
    cdz_uc_code(r->from->bytes + r->at, &size);
    r->at += size;
}

bool cdz_rewrite_put(cdz_rewrite *r, uint32_t code, int32_t change)
{
    const cdz_atext *from = r->from;
    cdz_align align = {r->base, r->base};
    if (change > 0 && r->at > 0)
        align = from->align[r->at - 1];
    else if (change <= 0 && from->len > 0)
        align = from->align[r->at < from->len ? r->at : from->len - 1];
    for (int32_t k = change; k <= 0; k++) skip_char(r);
    return cdz_atext_put(r->to, code, align);
}
