/* ext/phase.h - "cadenza.phase/1": a processor that says which phase of its answer a row is in.
 *
 * Scenario. A model thinks and then answers, and each part needs its own settings. One processor of a pipeline keeps
 * track of each row's phase in its row state. The host asks it before it runs the others, and leaves out the processors of
 * other phases. The built-in one is `phases`; [phase:NAME] sections of a pipeline file create it.
 *
 *     static uint32_t of(const cdz_step *step, uint32_t r)
 *     {
 *         const place *at = step->row_state[r];
 *         return at->thinking ? 1 : 2;
 *     }
 *     static const cdz_phase_api phase = {.size = sizeof phase, .of = of};
 *
 * The answer is a function of the row's state and ids, so it follows forks, rewinds, drafts and beams as states do. */
#ifndef CADENZA_EXT_PHASE_H
#define CADENZA_EXT_PHASE_H

#include "../plugin.h"

#define CDZ_EXT_PHASE "cadenza.phase/1"

typedef enum cdz_phase {
    CDZ_PHASE_NONE = 0, /* before, between or after the phases, which are numbered from 1 */
    CDZ_MOST_PHASES = 16,
    CDZ_PHASE_HELD =
        0x7fffffff, /* the next token is forced: only this processor's apply edits the row */
} cdz_phase;

typedef struct cdz_phase_api {
    uint32_t size;
    /* [row, no-alloc] The phase of row r of the step, from its state and ids. It may not change anything. */
    uint32_t (*of)(const cdz_step *step, uint32_t r);
} cdz_phase_api;

/* The plugin's table, or NULL when it has none. */
static inline const cdz_phase_api *cdz_get_phase_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_phase_api *)plugin->extension(CDZ_EXT_PHASE) : NULL;
}

#endif
