/* scheduler.h - schedulers: they say which requests begin, and whose rows go into a pass first.
 *
 * Scenario. A runtime has one scheduler, chosen when it is opened: `scheduler = ID` in [server] of a server's file,
 * `--scheduler ID`, cdz_options.scheduler. Its parameters are the section [ID] of that file, `--scheduler-set NAME=VALUE`, or
 * cdz_options.scheduler_params. Built in are first_come, prefill_first, fair_share and priority. A runtime's calls:
 *
 *     create -> begin -> { admit, order, ended }* -> end
 *
 * `admit` says in which order requests that wait are to begin; `order`, whose rows go into the next pass first, and how many rows
 * of prompts go beside those that decode. All else is the host's: a request begins when there is memory for it, and the first
 * in the order that has none is waited for (nobody overtakes it, so that long prompts are not shut out by short ones); when
 * blocks of KV memory run out, the request that began last gives its own back and is computed again.
 *
 * No answer hangs on a scheduler: a row has the same bits whatever else is in its pass, and draws from its own stream.
 *
 * What the host does not believe. One request always goes on. An answer that cannot be (an index twice or out of range, more
 * than there are, a `first` that is none) and a call that fails are told to the log, in a sentence with the plugin's id; from
 * then on the host goes by its own order, that of first_come, and calls no function of the scheduler but `end`. Where
 * nothing runs and `admit` lets nobody begin, the request that came first begins. A request that CDZ_MOST_OVERTAKEN
 * others overtook begins next, and one whose rows were left out of CDZ_MOST_LEFT_OUT passes is in front; both are told to the
 * log once. A scheduler that is to be fair in less than that has to see to it itself, as `priority` does with age.
 *
 * All functions but create are [engine], one at a time; several runtimes may have a scheduler of one file, each with
 * its own `shared`. They may allocate, but not block: every request waits meanwhile, `order` is called before each pass, and a
 * pass of a small model takes a millisecond. In step, params, shared, plugin and host are set; n_rows is 0, request and all
 * that belongs to rows is NULL; config finds nothing, and noise gives zeros. Pointers are borrowed until the call returns.
 *
 * The time of an answer is what a scheduler is about, so age_s is here; whoever wants the same order in each run counts
 * passes (age_passes) and not seconds. */
#ifndef CADENZA_SCHEDULER_H
#define CADENZA_SCHEDULER_H

#include "plugin.h"

#define CDZ_MOST_OVERTAKEN 1024u /* others that came later and began before a request that waits */
#define CDZ_MOST_LEFT_OUT  256u /* passes in a row without rows of a request that has some to run */

typedef enum cdz_contender_state {
    CDZ_CONTENDER_WAITS = 0,   /* it has not begun */
    CDZ_CONTENDER_READS = 1,   /* a prompt of it is being read */
    CDZ_CONTENDER_DECODES = 2, /* it has had its first pass over all of its prompts */
} cdz_contender_state;

/* A request, as a scheduler sees it. */
typedef struct cdz_contender {
    uint32_t size;          /* of this struct */
    uint32_t state;         /* cdz_contender_state */
    uint64_t id;            /* rises in the order in which requests came; the same in every call */
    uint64_t tenant;        /* whose it is: a number for each API key; 0: nobody said */
    int64_t priority;       /* lower first; 0 where nobody said */
    double age_s;           /* seconds since it came */
    uint64_t age_passes;    /* passes that have run since */
    uint64_t prompt_tokens; /* positions of all its prompts */
    uint64_t prompt_left;   /* of them, those that are still to be read */
    uint64_t new_tokens;    /* that all its rows have been given */
    uint64_t kv_blocks;     /* that it holds; while it waits: those that it begins with */
    uint64_t n_rows;        /* sequences that it decodes, beams among them */
} cdz_contender;

/* What there is to choose from. */
typedef struct cdz_contest {
    uint32_t size;      /* of this struct */
    uint32_t n_waiting; /* requests that have not begun */
    uint32_t n_running; /* requests that have */
    uint32_t places;    /* how many more may begin; 0 in order */
    /* (n_waiting) in the order in which they came. NULL in `order` and `ended`. */
    const cdz_contender *const *waiting;
    const cdz_contender *const *running; /* (n_running) in the order in which they began */
    uint64_t passes;                     /* that have run */
    uint32_t pass_rows;                  /* rows that a pass has room for */
    uint32_t reserved;                   /* 0 */
} cdz_contest;

typedef enum cdz_rows_first {
    CDZ_DECODING_FIRST = 0, /* running answers do not wait for prompts */
    CDZ_PROMPTS_FIRST = 1,  /* prompts are read as fast as can be */
} cdz_rows_first;

/* The answer. All fields but size, cap and list arrive as 0. */
typedef struct cdz_lineup {
    uint32_t size;
    uint32_t cap; /* room in list: n_waiting, or n_running */
    uint32_t *list; /* indexes into contest->waiting (admit) or running (order), the first one first */
    uint32_t n;     /* how many of list are filled */
    uint32_t first;       /* of order: cdz_rows_first */
    uint32_t prompt_rows; /* of order: see there */
} cdz_lineup;

typedef enum cdz_scheduler_cap {
    /* It goes by `priority`. Without it, requests that have one are refused by name. */
    CDZ_HAS_PRIORITIES = 1u << 0,
} cdz_scheduler_cap;

typedef struct cdz_scheduler {
    cdz_plugin_base base;
    uint32_t caps; /* cdz_scheduler_cap */

    cdz_status (*create)(
        const cdz_step *step); /* [load] Optional: checks parameters, as in processor.h */
    /* Optional, once, before the first request. *shared: memory of cdz_alloc, which lives until `end`; later step->shared. A
     * failure is one of cdz_open. */
    cdz_status (*begin)(const cdz_step *step, void **shared);
    /* Which of those that wait begin next. Called when some wait, there is a place, and nobody lacks KV memory. Who is not in
     * the list goes on waiting; the first of it that finds no memory ends it for now. More than contest->places may be listed. */
    cdz_status (*admit)(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns);
    /* Optional. Whose rows go into the next pass first. Who is not in the list comes behind those who are, in the order in which
     * they began. `first` goes before the list: rows of prompts and rows that decode are two groups, each in the list's order.
     * prompt_rows: at most so many rows of prompts go into a pass in which others decode. 0: while decoding is first, as many
     * as make the pass about twice as long as one without any, which is measured; while prompts are first, all that fit.
     * Without this function: decoding first, and 0. */
    cdz_status (*order)(const cdz_step *step, const cdz_contest *contest, cdz_lineup *turns);
    /* Optional. A request that had begun has ended; its new_tokens are all that it was given. */
    void (*ended)(const cdz_step *step, const cdz_contender *request);
    void (*end)(const cdz_step *step); /* Optional. The last call; requests have ended. */
} cdz_scheduler;

#define CDZ_SCHEDULER_BASE .size = sizeof(cdz_scheduler), .kind = CDZ_KIND_SCHEDULER

#endif
