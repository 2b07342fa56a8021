/* reads.h - how fast this machine reads a model's weights while requests run: what decode steps are a fraction of. */
#ifndef CDZ_HOST_API_READS_H
#define CDZ_HOST_API_READS_H

#include "api/api.h"

/* Between the passes of new tokens, and of the model's own matrices, on the engine's thread and with as many threads as the pass
 * before had: the machine may drift as it likes, both see the same of it. A sixteenth of the time goes to it, and none of that
 * is in the profile. */
typedef struct cdz_reads cdz_reads;

typedef struct cdz_reads_found {
    double gbs;     /* bytes of all turns over their time; 0: there was no turn */
    double highest; /* of one turn */
} cdz_reads_found;

/* Of an engine that takes times, on the CPU; before a request of this model alone. */
cdz_status cdz_reads_begin(cdz_runtime *runtime, cdz_model *model, cdz_reads **out, cdz_error *err);
/* After it. NULL is fine. */
cdz_reads_found cdz_reads_end(cdz_reads *reads);

#endif
