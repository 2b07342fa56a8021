/* pipeline_state.h - what a pipeline holds, for the sources that make one and plan with it. Private to config/. */
#ifndef CDZ_HOST_PIPELINE_STATE_H
#define CDZ_HOST_PIPELINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "config/link.h"
#include "config/pipeline.h"

struct cdz_pipeline {
    atomic_uint references;
    cdz_registry *registry;
    cdz_arena arena; /* of sources and names */
    const char *name;
    cdz_sources sources;
    const char *strategy; /* --custom-generate, or NULL */
    pthread_mutex_t lock; /* of link and planned */
    cdz_link *link;       /* NULL: to be made anew after an override */
    bool planned;         /* from here on nothing changes */
};

#endif
