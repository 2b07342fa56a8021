/* spy_hidden.h - a strategy's functions of hidden states (cdz_on_hidden) with a watcher before them: what one leaves of all positions
 * of a chunk is compared with what it leaves of a few at a time. One run at a time, in the check's process. */
#ifndef CDZ_HOST_CHECK_SPY_HIDDEN_H
#define CDZ_HOST_CHECK_SPY_HIDDEN_H

#include "cadenza/ext/steer.h"

void cdz_spy_hidden_begin(void); /* a run, whose functions are new */

/* What stands before the host's own table. */
const cdz_steer_host *cdz_spy_hidden(const cdz_steer_host *real);

uint32_t cdz_spy_hidden_calls(void);        /* that were compared, so far */
const char *cdz_spy_hidden_complaint(void); /* the first difference; "": none */

#endif
