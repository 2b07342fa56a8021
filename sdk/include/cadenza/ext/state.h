/* ext/state.h - "cadenza.state/1": row state that is more than plain bytes.
 *
 * A processor or criterion whose state_size bytes own something (memory, a handle) returns a table for this id from
 * base.extension(). The host then does not copy those bytes itself: for a fork, a reorder, a checkpoint
 * of rewind or scratch rows of a draft it calls clone, and it calls free for every copy before dropping it.
 *
 * step: of the request, from begin on; step->shared is what begin returned; it has no rows (n_rows is 0). All-zero bytes are
 * a fresh row's state: clone and free accept them. The host does not call free for states
 * that are left when end is called: end releases what they own. */
#ifndef CADENZA_EXT_STATE_H
#define CADENZA_EXT_STATE_H

#include "../plugin.h"

#define CDZ_EXT_STATE "cadenza.state/1"

typedef struct cdz_state_api {
    uint32_t size;
    /* [engine] Makes `to` (zeroed) an independent copy of `from`; on failure `to` stays zeroed. */
    cdz_status (*clone)(const cdz_step *step, const void *from, void *to);
    /* [engine] Releases what the bytes own and zeroes them. */
    void (*free)(const cdz_step *step, void *state);
    /* [engine] Optional. Fills `to` (zeroed) from a state of another version of this plugin with the same state_version:
     * old is that version's step, with its shared; old keeps `from`. NULL: accept is called for the history again. */
    cdz_status (*hand_over)(const cdz_step *step, const cdz_step *old, const void *from, void *to);
} cdz_state_api;

/* The plugin's table, or NULL when its state is plain bytes. */
static inline const cdz_state_api *cdz_get_state_api(const cdz_plugin_base *plugin)
{
    return plugin->extension ? (const cdz_state_api *)plugin->extension(CDZ_EXT_STATE) : NULL;
}

#endif
