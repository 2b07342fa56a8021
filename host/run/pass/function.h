/* function.h - passes that a program's function computes (cdz_model_of_function).
 *
 * Such a model has no layers and keeps no keys and values: what its sequences call computed are positions that the function has
 * read. It is asked for all that wants lack in one call, and gets the ids of whole sequences. When it fails, so does whoever
 * waits for the pass, as when a device fails. Thread: [engine]. */
#ifndef CDZ_HOST_RUN_PASS_FUNCTION_H
#define CDZ_HOST_RUN_PASS_FUNCTION_H

#include "cadenza/cadenza.h"
#include "run/pass/forward.h"

typedef struct cdz_function {
    cdz_status (*forward)(void *user, const cdz_function_row *rows, uint32_t n, cdz_error *err);
    void *user;
    cdz_error failed; /* the last pass; code CDZ_OK: it did not */
} cdz_function;

/* One pass for all that these wants lack. Returns its rows. */
uint32_t cdz_function_pass(cdz_function *function, cdz_want *const *wants, uint32_t n);
/* How the last pass went, told once. */
cdz_status cdz_function_check(cdz_function *function, cdz_error *err);

#endif
