/* pipeline_cache.c - see pipeline_cache.h.
 *
 * Owns: a list, the one that was used last in front, and one hold of each pipeline in it. Texts are told apart by a hash first, and
 * then whole. Thread: any, under its lock; holds are ended without it. */
#include "api/pipeline_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "config/pipeline.h"

typedef struct cdz_cached_pipeline cached;
struct cdz_cached_pipeline {
    cached *next;
    cdz_pipeline *pipeline;
    uint8_t hash[CDZ_DIGEST_BYTES];
    size_t len;
    char text[]; /* (len) */
};

static void free_pipeline(void *unused, cdz_pipeline *pipeline)
{
    (void)unused;
    cdz_pipeline_free(pipeline);
}

void cdz_pipeline_cache_open(cdz_pipeline_cache *c, size_t most,
                             void (*let_go)(void *user, cdz_pipeline *pipeline), void *user)
{
    *c = (cdz_pipeline_cache){.most = most, .let_go = let_go ? let_go : free_pipeline, .user = user};
    cdz_mutex_init(&c->lock);
}

/* A list that nobody else sees any more. */
static void drop(const cdz_pipeline_cache *c, cached *list)
{
    for (cached *next; list; list = next) {
        next = list->next;
        c->let_go(c->user, list->pipeline);
        free(list);
    }
}

void cdz_pipeline_cache_close(cdz_pipeline_cache *c)
{
    if (!c->let_go) return;
    drop(c, c->newest);
    cdz_mutex_destroy(&c->lock);
    *c = (cdz_pipeline_cache){0};
}

static void hash_of(const char *text, size_t len, uint8_t out[CDZ_DIGEST_BYTES])
{
    cdz_digest_state state;
    cdz_digest_begin(&state);
    cdz_digest_add(&state, text, len);
    cdz_digest_end(&state, out);
}

/* To the front. The lock is held. */
static cached *find(cdz_pipeline_cache *c, const char *text, size_t len,
                    const uint8_t hash[CDZ_DIGEST_BYTES])
{
    for (cached **at = &c->newest; *at; at = &(*at)->next) {
        cached *one = *at;
        if (memcmp(one->hash, hash, CDZ_DIGEST_BYTES) != 0 || one->len != len ||
            memcmp(one->text, text, len) != 0)
            continue;
        *at = one->next;
        one->next = c->newest;
        return c->newest = one;
    }
    return NULL;
}

cdz_pipeline *cdz_pipeline_cache_find(cdz_pipeline_cache *c, const char *text, size_t len)
{
    uint8_t hash[CDZ_DIGEST_BYTES];
    hash_of(text, len, hash);
    cdz_mutex_lock(&c->lock);
    const cached *one = find(c, text, len, hash);
    cdz_pipeline *pipeline = one ? one->pipeline : NULL;
    if (pipeline) cdz_pipeline_retain(pipeline);
    cdz_mutex_unlock(&c->lock);
    return pipeline;
}

static size_t weight_of(size_t len)
{
    return len + CDZ_PIPELINE_WEIGHT;
}

/* Those for which there is no room, the longest unused, taken off the list. The lock is held. */
static cached *take_oldest(cdz_pipeline_cache *c)
{
    size_t bytes = 0;
    cached **at = &c->newest;
    for (; *at && bytes + weight_of((*at)->len) <= c->most; at = &(*at)->next)
        bytes += weight_of((*at)->len);
    cached *gone = *at;
    *at = NULL;
    c->bytes = bytes;
    return gone;
}

void cdz_pipeline_cache_keep(cdz_pipeline_cache *c, const char *text, size_t len,
                             cdz_pipeline *pipeline)
{
    cached *one = malloc(sizeof *one + len), *gone = NULL;
    if (!one) return;
    one->len = len;
    one->pipeline = pipeline;
    memcpy(one->text, text, len);
    hash_of(text, len, one->hash);
    cdz_mutex_lock(&c->lock);
    if (!find(c, text, len, one->hash)) {
        cdz_pipeline_retain(pipeline);
        one->next = c->newest;
        c->newest = one;
        gone = take_oldest(c);
        one = NULL;
    }
    cdz_mutex_unlock(&c->lock);
    free(one);
    drop(c, gone);
}
