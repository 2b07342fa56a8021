/* ext/scores.h - "cadenza.scores/1": a processor keeps the memory of the scores that it was shown, without a copy.
 *
 * Scenario. A processor shows its rows to code that may hold them for longer than the call: objects of another language, a thread
 * that writes down each step. A copy before each call costs more than what most of that code does. So it shows the host's own
 * memory, asks afterwards whether somebody still holds it, and keeps it only then; the host goes on in a copy.
 *
 *     static cdz_status begin(const cdz_step *step, void **shared)
 *     {
 *         const cdz_scores_host *host = cdz_get_scores(step);
 *         *shared = host && host->may_keep(step) ? (void *)(uintptr_t)host : NULL;
 *         return CDZ_OK;
 *     }
 *     static cdz_status apply(const cdz_step *step, cdz_scores *scores)
 *     {
 *         const cdz_scores_host *host = step->shared;
 *         if (!host) return show_a_copy(scores);
 *         show(scores);
 *         return is_held() ? host->keep(step, scores, &held_memory) : CDZ_OK;
 *     }                                                                     later: host->release(held_memory)
 *
 * Rows are kept where they lie: whoever reads them after keep goes by scores->data. The host does; of decode loops, those that
 * declare CDZ_SCORES_MOVE (strategy.h). may_keep is false under others, with a drafter, for CDZ_ROWWISE processors, and where
 * scores are not the host's: copy them there. In a process of its own (docs/isolation.md) a plugin finds no table. Scripts copy. */
#ifndef CADENZA_EXT_SCORES_H
#define CADENZA_EXT_SCORES_H

#include "../plugin.h"

#define CDZ_EXT_SCORES "cadenza.scores/1"

typedef struct cdz_scores_host {
    uint32_t size;
    /* [engine; in begin] Whether this processor may keep rows. The answer holds for the request, in each apply. */
    bool (*may_keep)(const cdz_step *step);
    /* [engine; in apply, once a call] The memory that the scores of this call lie in is the plugin's from now on, as it is. They go on
     * elsewhere, with the same values: scores->data says where. *memory: what release takes. It does not fail where may_keep was
     * true; CDZ_E_STATE otherwise, with nothing changed. */
    cdz_status (*keep)(const cdz_step *step, cdz_scores *scores, void **memory);
    /* [any] Frees what was kept; also after the request, the model and the runtime have ended. NULL is fine. */
    void (*release)(void *memory);
} cdz_scores_host;

static inline const cdz_scores_host *cdz_get_scores(const cdz_step *step)
{
    return (const cdz_scores_host *)step->host->extension(CDZ_EXT_SCORES);
}

#endif
