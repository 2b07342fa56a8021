/* ext/observe.h - "cadenza.observe/1": where observers leave what they have found.
 *
 * Scenario. An observer counts how sure the model was and wants that beside the answer; another one writes a line for each token
 * to a file that the user named (`--observe FILE`, cdz_request.on_observed), so that nothing of it mixes with the log.
 *
 *     const cdz_observe_api *out = cdz_get_observe(step);
 *     if (out) CDZ_TRY(out->write(step, line, len));
 *
 * The table is for observers in a request: others get CDZ_E_STATE. An observer that fails is silenced, as observer.h says. */
#ifndef CADENZA_EXT_OBSERVE_H
#define CADENZA_EXT_OBSERVE_H

#include "../strategy.h"

#define CDZ_EXT_OBSERVE "cadenza.observe/1"

typedef struct cdz_observe_api {
    uint32_t size;
    /* [engine; begin to end] Adds a result to the answer, as put_result of a strategy does (strategy.h); a later one of the
     * same name takes its place. */
    cdz_status (*put_result)(const cdz_step *step, const char *name, cdz_result_type type,
                             uint32_t n_dims, const uint64_t *shape, const void *data);
    /* [engine; begin to end] A line, without its end, for whoever listens; lines of several requests come whole, in the
     * order in which they were written. Nothing where nobody does. */
    cdz_status (*write)(const cdz_step *step, const char *line, size_t len);
    /* [engine; begin to end] Does anybody listen to write? */
    bool (*is_heard)(const cdz_step *step);
} cdz_observe_api;

static inline const cdz_observe_api *cdz_get_observe(const cdz_step *step)
{
    return (const cdz_observe_api *)step->host->extension(CDZ_EXT_OBSERVE);
}

#endif
