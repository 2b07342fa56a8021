/* consent.h - whether a file's code may run at all. The one place that says so, for every file of every kind: by who named
 * it, where it lies once all links are followed, and what kind of code it is. The table is docs/packages.md's.
 *
 * A model's folder is one that holds a GGUF file, or a config.json beside a tokenizer or weights, or what a model cache
 * keeps them in ("blobs" beside "snapshots"); and everything below it. Folders above the user's home, that home itself and
 * folders that anyone may write to are nobody's model, but for what lies directly in them or in their custom_generate. */
#ifndef CDZ_HOST_PLUG_CONSENT_H
#define CDZ_HOST_PLUG_CONSENT_H

#include <stdbool.h>

#include "base/error.h"

/* On whose word. */
typedef enum cdz_namer {
    CDZ_BY_PROGRAM, /* the built-in folder */
    CDZ_BY_USER, /* the command line, a program that embeds the library, or a pipeline that one of them named */
    CDZ_BY_REQUEST, /* a request document, or a pipeline that only it named */
    CDZ_BY_LOCK,    /* found in a folder, and pinned */
    CDZ_BY_NOBODY,  /* found in a folder */
    CDZ_N_NAMERS
} cdz_namer;

typedef enum cdz_site {
    CDZ_SITE_ELSEWHERE,
    CDZ_SITE_MODEL,      /* in a model's folder */
    CDZ_SITE_MODEL_LOOP, /* in the custom_generate of one */
    CDZ_N_SITES
} cdz_site;

/* A file of a loader that does not come with the host, or does not sandbox it, is native. */
typedef enum cdz_code {
    CDZ_CODE_NATIVE,
    CDZ_CODE_ISOLATED, /* native, in a process of its own */
    CDZ_CODE_SCRIPT,
    CDZ_N_CODES
} cdz_code;

typedef enum cdz_right { CDZ_NEVER, CDZ_WITH_FLAG, CDZ_ALWAYS } cdz_right;
cdz_right cdz_consent_table(cdz_namer by, cdz_site place, cdz_code code);

/* A file that somebody wants to run. */
typedef struct cdz_claim {
    const char *path;    /* as named, for sentences and for where its name lies */
    const char *real;    /* where it lies, no link in it */
    const char *package; /* the folder as named that it is the entry of; NULL: a bare file */
    cdz_namer by;
    cdz_code code;
    bool allow_model_plugins;
} cdz_claim;

cdz_status cdz_consent(const cdz_claim *claim, cdz_error *err);

/* Where a file (canonical path) lies. */
cdz_site cdz_site_of(const char *real);

#endif
