/* spy.h - a strategy's verbs with a watcher between: what it does with them is noted, and from a call of the check's choice on
 * they fail. One strategy, in the check's process. */
#ifndef CDZ_HOST_CHECK_SPY_H
#define CDZ_HOST_CHECK_SPY_H

#include "check/bench.h"

typedef struct cdz_spy {
    uint32_t fail_at;      /* from this call on verbs return CDZ_E_CANCELLED; 0: none */
    bool guards_ids;       /* input_ids lie read-only between pages that nobody may touch */
    bool guards_rows;      /* rows of scores lie between such pages (spy_rows.h), */
    bool at_end;           /* flush with the one behind them */
    bool watches_hidden;   /* functions of hidden states are compared (spy_hidden.h) */
    uint32_t calls, after; /* of verbs in the newest run; of those how many failed */
    uint32_t live;         /* sequences made and not freed when it returned */
    uint32_t rewound;      /* tokens that it asked to take back */
    uint32_t dropped;      /* positions that it took out of caches */
    bool drew, returned_rows;
    bool searched; /* it has sequences of its own, or moved rows */
    cdz_status returned;
    char complaint[400];        /* the first: a reason that cannot be; "": none */
    const char *_Atomic astray; /* the first verb called on another thread than [engine]; NULL: none */
} cdz_spy;

/* The spy, which sees every run of the check's strategy from now on. */
cdz_status cdz_spy_plant(const cdz_bench *b, cdz_spy **out, cdz_error *err);

/* A drafter's verbs, in the call of it that is running, until they are taken back with the scores that it gave: what they
 * give lies between guards from cdz_shown_begin on, which comes with each request. */
void cdz_spy_lend(cdz_child *c, cdz_decoder *dec);
void cdz_spy_take_back(cdz_decoder *dec, cdz_scores *given);
/* The first verb, lent or of the planted strategy, that was called on another thread than [engine]; NULL: none. */
const char *cdz_spy_astray(void);

/* Ids between guards, read-only; the newest of this slot (below CDZ_SHOWN). ids as they are where there is no memory. */
enum { CDZ_SHOWN = 8, CDZ_SHOWN_MOST = 4096 };
cdz_ids cdz_show_ids(uint32_t slot, cdz_ids ids);

#endif
