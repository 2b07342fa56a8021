/* pipeline_state.h - what a pipeline holds, for the sources that make one and plan with it. Private to config/.
 *
 * A pipeline is read from its files more than once: each reading is an edition (a generation, as the manual calls it),
 * which nothing changes once a plan was made from it. Plans hold their edition; the pipeline holds the newest. */
#ifndef CDZ_HOST_CONFIG_PIPELINE_STATE_H
#define CDZ_HOST_CONFIG_PIPELINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mutex.h"
#include "config/link.h"
#include "config/pipeline.h"

struct cdz_edition {
    atomic_uint references;
    uint64_t number; /* from 1; 0: not adopted yet */
    cdz_arena arena; /* of sources */
    cdz_sources sources;
    const char *strategy;             /* the pipeline's --custom-generate, or NULL */
    cdz_link *link;                   /* NULL: to be made anew after an override */
    _Atomic(cdz_edition_kept *) kept; /* beside it: what the models of [models] are open as */
    atomic_bool reported;             /* that a running request could not go over to it */
};

/* -s, as given: every edition gets them again. */
typedef struct cdz_override {
    struct cdz_override *next;
    const char *name, *value;
} cdz_override;

struct cdz_pipeline {
    atomic_uint references;
    cdz_registry *registry;
    cdz_arena arena; /* of what follows; under the lock */
    const char *name;
    const char *text; /* (len) what it was made from; NULL: the file `name` */
    size_t len;
    bool of_request; /* named by a request document alone */
    bool written;    /* in that document itself: it names no files */
    cdz_override *overrides, **overrides_end;
    const char *strategy; /* --custom-generate, or NULL */

    cdz_mutex lock; /* of strategy, overrides, now and planned */
    cdz_edition *now;
    bool planned;                 /* from here on only reloading changes anything */
    atomic_uint_least64_t number; /* of now, for those who only want to know whether it is theirs */
    cdz_mutex reloading;          /* one after the other; taken before lock */

    cdz_mutex listening; /* of listener and user; held while it is called */
    cdz_reload_listener *listener;
    void *user;
};

/* Reads the files and what the command line says of them (editions.c). newest: see cdz_link_create. */
cdz_status cdz_pipeline_read(cdz_pipeline *pipeline, bool newest, cdz_edition **out, cdz_error *err);
/* Opens the newest edition for planning: linked, retained, frozen. */
cdz_status cdz_pipeline_freeze(cdz_pipeline *pipeline, cdz_edition **out, cdz_error *err);

#endif
