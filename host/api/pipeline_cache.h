/* pipeline_cache.h - pipelines by the text that they are made of, so that many requests with the same one share it. */
#ifndef CDZ_HOST_API_PIPELINE_CACHE_H
#define CDZ_HOST_API_PIPELINE_CACHE_H

#include "base/mutex.h"
#include "cadenza/cadenza.h"

/* What a pipeline is taken to weigh beside its text: plugins, parameters, plans; measured, and rounded up. */
enum { CDZ_PIPELINE_WEIGHT = 32 << 10, CDZ_PIPELINE_CACHE_BYTES = 16 << 20 };

/* Those that were used last, up to so many bytes. Zeroed: it holds none, and takes none. */
typedef struct cdz_pipeline_cache {
    cdz_mutex lock;
    struct cdz_cached_pipeline *newest; /* under it; behind it the one used before */
    size_t bytes, most;
    void (*let_go)(void *user, cdz_pipeline *pipeline); /* ends the cache's hold of one */
    void *user;
} cdz_pipeline_cache;

/* let_go NULL: cdz_pipeline_free. */
void cdz_pipeline_cache_open(cdz_pipeline_cache *cache, size_t most,
                             void (*let_go)(void *user, cdz_pipeline *pipeline), void *user);
void cdz_pipeline_cache_close(cdz_pipeline_cache *cache);
/* The pipeline of this text, held for the caller (cdz_pipeline_free); NULL: there is none. [any thread] */
cdz_pipeline *cdz_pipeline_cache_find(cdz_pipeline_cache *cache, const char *text, size_t len);
/* From now on it is found, until others have been used so often that there is no room; the caller goes on holding it. Nothing, where
 * memory is short or the text is there. [any thread] */
void cdz_pipeline_cache_keep(cdz_pipeline_cache *cache, const char *text, size_t len,
                             cdz_pipeline *pipeline);

#endif
