/* ext/companion.h - "cadenza.companion/1": a processor for which the model runs on a second sequence beside each row.
 *
 * Guidance is the example: a second sequence, without the prompt or with a negative one, follows the row token by token,
 * and the processor compares the logits after both. The processor runs nothing itself. It says once
 * with what ids the second sequence, the row's companion, begins. The companion of a row with `ids` holds
 *     prefix, then ids[from], ids[from + 1], ...
 * Before apply the host has computed the logits of its last position, in the same passes as the row's own. Since the
 * companion is a function of the row's ids, it follows forks, beams, tokens taken back and drafts.
 *
 *     static cdz_status describe(const cdz_step *step, uint32_t row, cdz_companion *out)
 *     {
 *         out->from = step->request->prompt_len - 1;            the last prompt token and what comes after it
 *         return CDZ_OK;
 *     }
 *     static const cdz_companion_api companion = {.size = sizeof companion, .describe = describe};
 *     static const void *extension(const char *id)
 *     {
 *         return cdz_is_companion(id) ? &companion : NULL;      .base.extension = extension
 *     }
 *     ... in apply:  const float *other = cdz_companion_logits(step, r);
 *
 * The host's table has the same id in step->host->extension. Only processors have companions. */
#ifndef CADENZA_EXT_COMPANION_H
#define CADENZA_EXT_COMPANION_H

#include "../plugin.h"

#define CDZ_EXT_COMPANION "cadenza.companion/1"

typedef struct cdz_companion {
    uint32_t size;       /* of this struct, the host's */
    uint32_t from;       /* the row's ids from here on come after the prefix */
    cdz_ids prefix;      /* request lifetime (cdz_alloc in begin); may be empty */
    const uint8_t *mask; /* (prefix.len) 0: hidden from the model; NULL: all visible; request lifetime */
    bool none;           /* this row needs no companion */
    /* The companion keeps its tokens when rows are reordered, as the reference does with beams. Only to reproduce the
     * reference. */
    bool stays;
} cdz_companion;

/* The plugin's table. */
typedef struct cdz_companion_api {
    uint32_t size;
    /* [engine] After begin, once for each request row; step->shared is what begin returned; n_rows is 0. All fields of out but
     * size arrive zeroed. A companion that begins without a visible token is refused. */
    cdz_status (*describe)(const cdz_step *step, uint32_t row, cdz_companion *out);
} cdz_companion_api;

/* The host's table. */
typedef struct cdz_companion_host {
    uint32_t size;
    /* [row; only inside apply] Raw logits (n_vocab) of the companion of row r of this call; NULL when it has none. Read
     * only, until apply returns. */
    const float *(*logits)(const cdz_step *step, uint32_t r);
} cdz_companion_host;

static inline bool cdz_is_companion(const char *id)
{
    const char *want = CDZ_EXT_COMPANION;
    while (*want && *id == *want) id++, want++;
    return *id == *want;
}

/* The plugin's table, or NULL. */
static inline const cdz_companion_api *cdz_get_companion_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_companion_api *)plugin->extension(CDZ_EXT_COMPANION)
                             : NULL;
}

static inline const float *cdz_companion_logits(const cdz_step *step, uint32_t r)
{
    const cdz_companion_host *host =
        (const cdz_companion_host *)step->host->extension(CDZ_EXT_COMPANION);
    return host ? host->logits(step, r) : NULL;
}

/* Guidance in place: moves `row` away from `other`, the scores without the prompt, by scale; both (n). */
static inline void cdz_companion_guide(float *row, const float *other, uint32_t n, float scale)
{
    for (uint32_t v = 0; v < n; v++) row[v] = scale * (row[v] - other[v]) + other[v];
}

#endif
