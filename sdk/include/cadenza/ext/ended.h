/* ext/ended.h - "cadenza.ended/1": a plugin that is shown the rows of a batch that have ended.
 *
 * A row that has ended is filled with pad until the last one of its batch ends. Most plugins are not shown it any more, and
 * nothing is computed for it. The reference hands each processor and criterion the whole batch at each step; a plugin
 * that counts on that offers this table:
 *
 *     static const cdz_ended_api ended = {.size = sizeof ended};
 *     static const void *extension(const char *id)
 *     {
 *         return cdz_is_ended(id) ? &ended : NULL;      .base.extension = extension
 *     }
 *
 * Of a processor: apply sees all rows, and the scores of ended ones are what the model makes of the pads: a pass for each step,
 * which other plugins do not cost. Processors of the same request edit them too, but hear of no pad by accept. Of an observer:
 * scores shows these rows as well, for the same price. Of a criterion: test is asked about all rows, and what it says of
 * ended ones changes nothing. A row that fills the model's context is shown no more. */
#ifndef CADENZA_EXT_ENDED_H
#define CADENZA_EXT_ENDED_H

#include "../plugin.h"

#define CDZ_EXT_ENDED "cadenza.ended/1"

typedef struct cdz_ended_api {
    uint32_t size;
} cdz_ended_api;

/* For the plugin's `extension` function. */
static inline bool cdz_is_ended(const char *id)
{
    const char *ours = CDZ_EXT_ENDED;
    while (*id && *id == *ours) id++, ours++;
    return *id == *ours;
}

#endif
