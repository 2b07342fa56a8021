/* ext/inserted.h - "cadenza.inserted/1": tokens of a row that the model did not write.
 *
 * A decode loop may put text into a row that somebody else has written: what a tool answered, a passage that was looked up
 * (cdz_insert of strategy.h). It says whether the request's length counts it. A stopping criterion that measures what the model
 * has written leaves out the others:
 *
 *     const cdz_inserted_api *inserted = cdz_get_inserted(step);
 *     uint32_t len = step->input_ids[r].len - (inserted ? inserted->uncounted(step, r) : 0);
 *
 * In a process of its own (docs/isolation.md) a plugin finds no table, and counts all. */
#ifndef CADENZA_EXT_INSERTED_H
#define CADENZA_EXT_INSERTED_H

#include "../plugin.h"

#define CDZ_EXT_INSERTED "cadenza.inserted/1"

typedef struct cdz_inserted_api {
    uint32_t size;
    /* [any; in test and apply] Of row r of this call: inserted tokens that the request's length does not count. */
    uint32_t (*uncounted)(const cdz_step *step, uint32_t r);
} cdz_inserted_api;

static inline const cdz_inserted_api *cdz_get_inserted(const cdz_step *step)
{
    return (const cdz_inserted_api *)step->host->extension(CDZ_EXT_INSERTED);
}

#endif
