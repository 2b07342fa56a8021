/* meter.h - what one call of a tokenizer may take, counted in steps: of a trie, of a pattern's engine, over whitespace
 * that is gone through again. A count, not a time: what is refused is refused on every machine, whatever else runs there.
 *
 * Ordinary text takes a few steps for each byte: tokens are found by walks of a few bytes, and a pattern goes back by a
 * few. The allowance is far above that and linear in the text, so that a text and a file made for each other (a token of a
 * thousand bytes that nearly matches everywhere, a pattern that walks to the end from every place) end in a sentence. */
#ifndef CDZ_HOST_TOKEN_METER_H
#define CDZ_HOST_TOKEN_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CDZ_METER_STEPS        (1 << 24) /* for any text */
#define CDZ_METER_PER_BYTE     256       /* more for each of its bytes */
#define CDZ_METER_REWRITTEN    64        /* bytes that rewriting makes of one */
#define CDZ_METER_REWRITTEN_IN (1 << 20) /* more bytes that it makes of all stretches of a text */

typedef struct cdz_meter {
    uint64_t left;  /* steps */
    uint64_t slack; /* bytes that rewritten text may still have past CDZ_METER_REWRITTEN of each */
    bool spent;     /* more was asked for than was left */
} cdz_meter;

/* For a call on n bytes. */
static inline void cdz_meter_begin(cdz_meter *meter, size_t n)
{
    *meter = (cdz_meter){.left = CDZ_METER_STEPS + (uint64_t)n * CDZ_METER_PER_BYTE,
                         .slack = CDZ_METER_REWRITTEN_IN};
}

/* Takes n steps; false when there are not so many. */
static inline bool cdz_meter_take(cdz_meter *meter, uint64_t n)
{
    if (n > meter->left) {
        meter->left = 0;
        meter->spent = true;
        return false;
    }
    meter->left -= n;
    return true;
}

#endif
