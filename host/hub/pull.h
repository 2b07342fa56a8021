/* pull.h - a model from the hub into the Hugging Face cache, in its own layout, so that Python and Cadenza share it:
 *
 *   models--ORG--NAME/blobs/HASH                  the files
 *   models--ORG--NAME/snapshots/COMMIT/FILE       links to them
 *   models--ORG--NAME/refs/REVISION               the commit that a branch or tag stood for
 *
 * Nothing that comes is run, and nothing that could be is taken (choose.h). */
#ifndef CDZ_HOST_HUB_PULL_H
#define CDZ_HOST_HUB_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "hub/id.h"

/* What is wanted. */
typedef struct cdz_hub_wish {
    cdz_hub_id id;
    const char *revision; /* NULL: main */
    bool texts;           /* tokenizer and templates will do */
} cdz_hub_wish;

/* Who looks on. All may be NULL. */
typedef struct cdz_hub_watch {
    void (*begin)(void *user, size_t files, uint64_t bytes,
                  const char *folder); /* what is to come */
    void (*progress)(void *user, const char *file, uint64_t done, uint64_t bytes);
    void (*wait)(void *user, const char *file); /* another process is at it */
    bool (*stop)(void *user);
    void *user;
} cdz_hub_watch;

/* Brings all files that lack, and says where the model is: a folder, or a GGUF file. CDZ_E_CANCELLED: watch->stop said so; what
 * is there by then stays. */
cdz_status cdz_hub_pull(const cdz_hub_wish *wish, const cdz_hub_watch *watch, char *path,
                        size_t bytes, cdz_error *err);

#endif
