/* serve_lines.h - what `cadenza serve` writes. */
#ifndef CDZ_HOST_CLI_SERVE_LINES_H
#define CDZ_HOST_CLI_SERVE_LINES_H

#include <stdint.h>

#include "base/mutex.h"

typedef struct cdz_cli_live {
    cdz_mutex lock;
    bool terminal;   /* the load is shown */
    bool shown;      /* it stands in the last line */
    uint64_t tokens; /* at that time */
    double at;
} cdz_cli_live;

/* The load at this moment. */
typedef struct cdz_cli_load {
    uint32_t running, waiting; /* requests */
    uint64_t tokens;           /* made since the beginning */
    uint64_t memory;           /* bytes */
} cdz_cli_load;

void cdz_cli_live_begin(cdz_cli_live *live);
void cdz_cli_live_line(cdz_cli_live *live, const char *line, bool json); /* [any thread] */
/* The load, about once a second. [one thread] */
void cdz_cli_live_second(cdz_cli_live *live, cdz_cli_load now);
void cdz_cli_live_end(cdz_cli_live *live);

#endif
