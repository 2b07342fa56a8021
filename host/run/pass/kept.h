/* kept.h - the KV state that a request left behind, for later ones to continue.
 *
 * Made when a request ends, of its rows' sequences: their blocks move over with the request's account, trimmed to what
 * is in use. A later request of the same model shares the blocks of whatever its prompts have in common with them.
 * Blocks go back to the account they came from, so whoever shares them holds the state until it dropped them: the
 * request while it runs, and the state that it leaves behind itself. */
#ifndef CDZ_HOST_RUN_PASS_KEPT_H
#define CDZ_HOST_RUN_PASS_KEPT_H

#include <stdatomic.h>

#include "run/pass/sequence.h"

struct cdz_kept {
    atomic_uint holders;
    cdz_run_model *model; /* retained */
    cdz_kept *past;       /* what blocks are shared with, held; or NULL */
    cdz_kv_account account;
    cdz_kv_account states; /* beside it, of a model with recurrent layers */
    uint32_t n;
    cdz_seq *seqs;   /* (n) with masks of their own */
    uint8_t **masks; /* (n) owned; entries NULL where nothing is hidden */
    cdz_kept *next;  /* among the engine's; under its lock */
    bool condemned;  /* nobody holds it: the engine thread takes it apart; under the lock */
};

/* [engine] The sequence of the state that has most in common with seq, whose cache is empty: seq shares those
 * positions. What the same prompt, computed anew, would hold at them is what they hold. */
cdz_status cdz_seq_share_kept(const cdz_kept *kept, cdz_seq *seq, cdz_error *err);

#endif
