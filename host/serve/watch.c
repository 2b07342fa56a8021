/* watch.c - whether the engine stands still. */
#include "serve/watch.h"

bool cdz_serve_watch_look(cdz_serve_watch *watch, const cdz_stats *stats, double now)
{
    const uint64_t progress =
        stats->n_passes + stats->n_finished + stats->n_cancelled + stats->n_failed;
    /* What is paused waits for its readers, and what is pending may wait for that. */
    const bool idle = stats->n_running == stats->n_paused && (stats->n_paused || !stats->n_pending);
    if (!watch->looked || idle || progress != watch->progress) watch->since = now;
    watch->looked = true;
    watch->progress = progress;
    return now - watch->since > CDZ_SERVE_WATCH_PATIENCE_S;
}
