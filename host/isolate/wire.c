/* wire.c - putting and taking, each with its length checked.
 *
 * Owns nothing: a writer has a room, a reader a copy. Invariant: neither goes past its end, whatever the bytes say; a reader
 * that ran short stays bad, so that one look at the end is enough. */
#include "isolate/wire.h"

#include <string.h>

/* Says that a text is NULL, where its length would stand. */
#define NO_TEXT UINT32_MAX

/* --- writing ------------------------------------------------------------------------------------------------ */

void cdz_put(cdz_wire_out *out, const void *bytes, size_t len)
{
    if (out->full || len > out->cap - out->len) {
        out->full = true;
        return;
    }
    if (len) memcpy(out->at + out->len, bytes, len);
    out->len += len;
}

void cdz_put_u32(cdz_wire_out *out, uint32_t value)
{
    cdz_put(out, &value, sizeof value);
}

void cdz_put_u64(cdz_wire_out *out, uint64_t value)
{
    cdz_put(out, &value, sizeof value);
}

void cdz_put_real(cdz_wire_out *out, double value)
{
    cdz_put(out, &value, sizeof value);
}

void cdz_put_text(cdz_wire_out *out, const char *text)
{
    const size_t len = text ? strlen(text) : 0;
    if (len >= NO_TEXT) out->full = true;
    cdz_put_u32(out, text ? (uint32_t)len : NO_TEXT);
    cdz_put(out, text, len);
}

void cdz_put_string(cdz_wire_out *out, cdz_string text)
{
    cdz_put_u32(out, text.at ? text.len : NO_TEXT);
    if (text.at) cdz_put(out, text.at, text.len);
}

void cdz_put_ids(cdz_wire_out *out, cdz_ids ids)
{
    cdz_put_u32(out, ids.len);
    cdz_put(out, ids.at, (size_t)ids.len * sizeof *ids.at);
}

/* --- reading ------------------------------------------------------------------------------------------------ */

const void *cdz_take(cdz_wire_in *in, size_t len)
{
    if (in->bad || len > in->len - in->pos) {
        in->bad = true;
        return NULL;
    }
    const void *at = in->at + in->pos;
    in->pos += len;
    return at;
}

const void *cdz_take_items(cdz_wire_in *in, uint32_t n, size_t item_bytes)
{
    size_t bytes;
    if (!__builtin_mul_overflow((size_t)n, item_bytes, &bytes)) return cdz_take(in, bytes);
    in->bad = true;
    return NULL;
}

static void take_copy(cdz_wire_in *in, void *to, size_t len)
{
    const void *at = cdz_take(in, len);
    if (at)
        memcpy(to, at, len);
    else
        memset(to, 0, len);
}

uint32_t cdz_take_u32(cdz_wire_in *in)
{
    uint32_t value;
    take_copy(in, &value, sizeof value);
    return value;
}

uint64_t cdz_take_u64(cdz_wire_in *in)
{
    uint64_t value;
    take_copy(in, &value, sizeof value);
    return value;
}

double cdz_take_real(cdz_wire_in *in)
{
    double value;
    take_copy(in, &value, sizeof value);
    return value;
}

cdz_string cdz_take_string(cdz_wire_in *in, cdz_arena *arena)
{
    const uint32_t len = cdz_take_u32(in);
    if (in->bad || len == NO_TEXT) return (cdz_string){0};
    const char *at = cdz_take(in, len);
    char *copy = at ? cdz_arena_alloc(arena, (size_t)len + 1) : NULL;
    if (!copy) {
        in->bad = true;
        return (cdz_string){0};
    }
    memcpy(copy, at, len);
    return (cdz_string){copy, len};
}

const char *cdz_take_text(cdz_wire_in *in, cdz_arena *arena)
{
    return cdz_take_string(in, arena).at;
}

cdz_ids cdz_take_ids(cdz_wire_in *in, cdz_arena *arena)
{
    const uint32_t len = cdz_take_u32(in);
    const void *at = cdz_take_items(in, len, sizeof(int32_t));
    int32_t *copy = at ? cdz_arena_array(arena, len, sizeof *copy) : NULL;
    if (!copy) {
        in->bad = true;
        return (cdz_ids){0};
    }
    if (len) memcpy(copy, at, (size_t)len * sizeof *copy);
    return (cdz_ids){copy, len};
}
