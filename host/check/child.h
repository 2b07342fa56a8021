/* child.h - what one check has to work with: the plugin in a process of its own, random numbers, and the verdict. */
#ifndef CDZ_HOST_CHECK_CHILD_H
#define CDZ_HOST_CHECK_CHILD_H

#include "base/arena.h"
#include "check/check.h"

enum { CDZ_CHECK_NOTES = 480, CDZ_CHECK_REGION_NAME = 80, CDZ_CHECK_REGIONS = 96 };

/* Where touching memory is a plugin's mistake. */
typedef struct cdz_region {
    uintptr_t lo, hi;
    uintptr_t from; /* what an address is counted from, in units of `unit` bytes */
    uint32_t unit;
    char name[CDZ_CHECK_REGION_NAME]; /* "past the end of a row of scores" */
} cdz_region;

/* Shared by a check's process and the one that waits for it. */
typedef struct cdz_verdict {
    int state; /* cdz_check_state */
    char detail[CDZ_CHECK_DETAIL];
    char note[CDZ_CHECK_NOTES]; /* what was going on; told when the process dies */
    cdz_region regions[CDZ_CHECK_REGIONS];
    uint32_t n_regions;
    /* what the first check found in the file */
    struct {
        char id[CDZ_MAX_ID + 1];
        uint32_t kind;
        bool script; /* sandboxed by a loader of the host */
    } found[CDZ_CHECK_MAX_PLUGINS];
    uint32_t n_found;
} cdz_verdict;

typedef struct cdz_surroundings cdz_surroundings;

typedef struct cdz_child {
    const cdz_check_options *options;
    cdz_verdict *verdict;
    cdz_registry *registry;
    cdz_plugin_ref ref; /* the plugin under test */
    cdz_arena memory;
    uint64_t random;          /* state of the check's own numbers */
    cdz_surroundings *before; /* what the process was like before the plugin was opened */
    double opened_s;          /* processor time that opening took */
    uint32_t patience_ms;     /* how long the check may take */
} cdz_child;

typedef cdz_check_state cdz_check_fn(cdz_child *c);

/* --- verdicts: child.c --- */
cdz_check_state cdz_fail_check(cdz_child *c, const char *fmt, ...) CDZ_PRINTF(2, 3);
cdz_check_state cdz_skip_check(cdz_child *c, const char *fmt, ...) CDZ_PRINTF(2, 3);
cdz_check_state cdz_pass_check(cdz_child *c, const char *fmt, ...) CDZ_PRINTF(2, 3);
void cdz_check_note(cdz_child *c, const char *fmt, ...) CDZ_PRINTF(2, 3);
#define CDZ_CHECK_TRY(call)                                                                        \
    do {                                                                                           \
        const cdz_check_state check_try_ = (call);                                                 \
        if (check_try_ != CDZ_CHECK_OK) return check_try_;                                         \
    } while (0)

/* The number of row r, from 0, in a sentence: from 1 where the plugin is a script. probe.c */
uint32_t cdz_nth_row(uint32_t r);

/* Opens the plugin that the options name: all of them are retained; *n at most CDZ_CHECK_MAX_PLUGINS. */
cdz_status cdz_child_open(cdz_child *c, cdz_plugin_ref *found, uint32_t *n, cdz_error *err);
void cdz_child_close(cdz_child *c);

/* --- random numbers: splitmix64 --- */
uint64_t cdz_random(uint64_t *state);
uint32_t cdz_random_below(uint64_t *state, uint32_t n); /* n > 0 */
double cdz_random_unit(uint64_t *state);                /* [0, 1) */

/* --- faults: fault.c --- */
/* From now on a fault in a region of the verdict becomes a failure that names it. */
void cdz_fault_watch(cdz_verdict *verdict);
bool cdz_fault_region(const void *lo, size_t bytes, const void *from, uint32_t unit,
                      const char *name);

/* Memory with a page on each side that nobody may touch; len bytes flush with the one behind (at_end) or before. name:
 * "a row of scores". NULL: out of memory. Lives as long as the process. */
void *cdz_guarded(size_t len, uint32_t unit, bool at_end, const char *name);
/* Makes the memory of cdz_guarded readable only: a write is a fault named `name`. */
bool cdz_guarded_lock(void *at, size_t len, uint32_t unit, const char *name);
void cdz_guarded_unlock(void *at, size_t len);
/* Of memory that was locked once: readable only, or not even that. */
void cdz_guarded_readable(void *at, size_t len, bool readable);

/* --- allocations: allocations.c --- */
bool cdz_allocations_known(void); /* whether this build can count them */
void cdz_allocations_watch(void);
/* What the kit itself takes on a plugin's call is not the plugin's. Returns what to go on with. */
bool cdz_allocations_pause(void);
void cdz_allocations_go_on(bool watched);
uint32_t cdz_allocations_seen(void); /* of this thread since watch; stops counting */
int64_t cdz_allocations_kept(void);  /* bytes taken less bytes given back, likewise */

/* --- time: clocks.c --- */
/* From now on the process's clocks are ahead by so much, where this build can tell plugins the time. */
void cdz_clocks_ahead(int64_t seconds);

#endif
