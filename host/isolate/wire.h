/* wire.h - bytes between the host and a plugin's process: written one after the other, read with every length checked.
 *
 * Native byte order and sizes: both ends are the same build on the same machine. Neither end ever reads past what it was
 * given, whatever the bytes say; a reader that ran short stays bad and gives zeros. */
#ifndef CDZ_HOST_ISOLATE_WIRE_H
#define CDZ_HOST_ISOLATE_WIRE_H

#include "base/arena.h"
#include "cadenza/plugin.h"

typedef struct cdz_wire_out {
    unsigned char *at;
    size_t len, cap;
    bool full; /* something did not fit */
} cdz_wire_out;

void cdz_put(cdz_wire_out *out, const void *bytes, size_t len);
void cdz_put_u32(cdz_wire_out *out, uint32_t value);
void cdz_put_u64(cdz_wire_out *out, uint64_t value);
void cdz_put_real(cdz_wire_out *out, double value);
void cdz_put_text(cdz_wire_out *out, const char *text); /* NULL stays NULL */
void cdz_put_string(cdz_wire_out *out, cdz_string text);
void cdz_put_ids(cdz_wire_out *out, cdz_ids ids);

typedef struct cdz_wire_in {
    const unsigned char *at;
    size_t len, pos;
    bool bad; /* something was missing */
} cdz_wire_in;

/* A message ends where its last field does: all of it was taken, and nothing was missing. */
static inline bool cdz_taken_whole(const cdz_wire_in *in)
{
    return !in->bad && in->pos == in->len;
}

/* The next len bytes where they lie; NULL when there are fewer. */
const void *cdz_take(cdz_wire_in *in, size_t len);
/* The same for n items; NULL also when n * item_bytes is no size. */
const void *cdz_take_items(cdz_wire_in *in, uint32_t n, size_t item_bytes);
uint32_t cdz_take_u32(cdz_wire_in *in);
uint64_t cdz_take_u64(cdz_wire_in *in);
double cdz_take_real(cdz_wire_in *in);
/* Copies in the arena. Texts end at their first NUL; NULL when the text was NULL or bad. */
const char *cdz_take_text(cdz_wire_in *in, cdz_arena *arena);
cdz_string cdz_take_string(cdz_wire_in *in, cdz_arena *arena);
cdz_ids cdz_take_ids(cdz_wire_in *in, cdz_arena *arena);

#endif
