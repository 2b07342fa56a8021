/* descriptor.h - what a plugin must say about itself before it is used: its id, its kind, its parameters, its calls. */
#ifndef CDZ_HOST_DESCRIBE_DESCRIPTOR_H
#define CDZ_HOST_DESCRIBE_DESCRIPTOR_H

#include "base/error.h"
#include "cadenza/criterion.h"
#include "cadenza/drafter.h"
#include "cadenza/loader.h"
#include "cadenza/observer.h"
#include "cadenza/press.h"
#include "cadenza/processor.h"
#include "cadenza/scheduler.h"
#include "cadenza/strategy.h"

/* The host's own copy of a descriptor: fields that an older plugin lacks read as zero. */
typedef union cdz_descriptor {
    cdz_plugin_base base;
    cdz_processor processor;
    cdz_criterion criterion;
    cdz_strategy strategy;
    cdz_drafter drafter;
    cdz_observer observer;
    cdz_loader loader;
    cdz_scheduler scheduler;
    cdz_press press;
} cdz_descriptor;

#define CDZ_MAX_PLUGINS    256u       /* plugins in one file */
#define CDZ_MAX_STATE_SIZE (1u << 20) /* bytes of state per row */
#define CDZ_MAX_ID         64u
#define CDZ_MAX_TEXT       4096u /* bytes of a name, help or summary */

/* "processor", "criterion", "strategy", "drafter", "observer", "loader", "scheduler", "press"; NULL for anything else. */
const char *cdz_kind_name(uint32_t kind);
uint32_t cdz_kind_of_name(const char *name); /* 0: no such kind */
/* An id: a-z 0-9 . _ -, at most CDZ_MAX_ID of them, a letter or digit first, dots between others alone, and no file's name
 * (x.so, x.lua). Checked wherever one comes in. */
bool cdz_plugin_id_ok(const char *id);
#define CDZ_PLUGIN_ID_IS                                                                           \
    "1 to 64 of a-z 0-9 . _ -, a letter or digit first, single dots between others"
/* Whether two ids mean the same, - and _ being alike. */
bool cdz_plugin_id_alike(const char *a, const char *b);
const char *cdz_plugin_id_last(const char *id); /* what follows its last dot; all of it without one */
bool cdz_plugin_version_ok(const char *version);

/* Whether `ending` (n bytes, without a dot) is one of the words of a loader's endings. */
bool cdz_endings_hold(const char *endings, const char *ending, size_t n);

/* Where a descriptor lies and all that it points to. */
typedef struct cdz_bounds {
    bool (*holds)(const void *object, const void *at, size_t bytes);
    bool (*holds_string)(const void *object, const char *text, size_t max); /* with its NUL */
    const void *object;
} cdz_bounds;

/* Copies a descriptor into *out and checks it. bounds: NULL for descriptors that a loader made: they lie where it likes. */
cdz_status cdz_descriptor_adopt(const char *path, const cdz_plugin_base *from,
                                const cdz_bounds *bounds, cdz_descriptor *out, cdz_error *err);

/* Flags that are not among the known ones: a later minor may give them a meaning. */
cdz_status cdz_descriptor_check_flags(const char *path, const char *whose, const char *name,
                                      uint32_t flags, uint32_t known, cdz_error *err);

#endif
