/* check.h - the conformance kit behind `cadenza plugin test`: which checks there are, running them, and what they found.
 *
 * Each check runs in a process of its own that opens the plugin anew, so a plugin that crashes, hangs or spoils its
 * process costs that one check. What is tried at random comes from a seed; the same seed tries the same. */
#ifndef CDZ_HOST_CHECK_CHECK_H
#define CDZ_HOST_CHECK_CHECK_H

#include "base/buf.h"
#include "describe/descriptor.h"
#include "plug/registry.h"

enum { CDZ_CHECK_DETAIL = 1200, CDZ_CHECK_MAX_PLUGINS = 32 };

typedef struct cdz_check_options {
    const char *what; /* package folder, .so, .lua, or the id of a known plugin */
    bool is_path;     /* which of these it is */
    cdz_registry_options registry;
    const char *const *plugins; /* (n_plugins) further files to load first */
    uint32_t n_plugins;
    const char *only; /* names of checks separated by commas; NULL: all */
    uint64_t seed;
    uint32_t timeout_ms;    /* for each check; 0: 10 s, of strategies 60 s */
    const char *const *set; /* (n_set) "name=value": parameters that every check uses */
    uint32_t n_set;
    const char *model, *assistant; /* folders, for strategies and drafters; NULL: skipped */
    const char *const *with;       /* (n_with) "name=folder": further models of every request */
    uint32_t n_with;
    const char *
        tokenizer; /* a folder whose tokenizer processors and criteria are shown; NULL: the kit's own */
    const char *text; /* a file that is replayed through the plugin; NULL: the kit's own text */
} cdz_check_options;

typedef enum cdz_check_state {
    CDZ_CHECK_NONE = 0, /* the process ended without a verdict */
    CDZ_CHECK_OK,
    CDZ_CHECK_FAILED,
    CDZ_CHECK_SKIPPED,
} cdz_check_state;

typedef struct cdz_check_result {
    const char *name, *about;    /* the check; constant */
    char plugin[CDZ_MAX_ID + 1]; /* id, "" before it is known */
    uint32_t kind;               /* cdz_kind, 0 likewise */
    cdz_check_state state;
    double seconds;
    char detail[CDZ_CHECK_DETAIL]; /* a sentence; may be empty when ok */
} cdz_check_result;

typedef struct cdz_check_report {
    cdz_check_result *results;
    uint32_t n, cap;
    uint32_t n_failed;
    uint64_t seed;
} cdz_check_report;

/* Called as soon as a check is done. */
typedef void cdz_check_seen(void *user, const cdz_check_result *result);

/* Runs the checks of every plugin found. Fails only when nothing could be run: no such check, no process. Call while the
 * process has one thread. */
cdz_status cdz_check_run(const cdz_check_options *options, cdz_check_seen *seen, void *user,
                         cdz_check_report *out, cdz_error *err);
void cdz_check_report_free(cdz_check_report *report);

/* The i-th check of the table; false past the end. kinds: bits 1 << cdz_kind. */
bool cdz_check_listed(uint32_t i, const char **name, const char **about, uint32_t *kinds);

const char *cdz_check_word(cdz_check_state state); /* "ok", "FAILED", "skipped" */
void cdz_check_write_json(const cdz_check_report *report, const cdz_check_options *options,
                          cdz_buf *out);
void cdz_check_write_junit(const cdz_check_report *report, const cdz_check_options *options,
                           cdz_buf *out);

#endif
