/* places.h - where a command writes: not over what it reads. */
#ifndef CDZ_HOST_CLI_PLACES_H
#define CDZ_HOST_CLI_PLACES_H

#include "cli/cli.h"

/* Refuses a path to write that is a file of the model or the draft model, the pipeline, control vectors, or one of `others` (NULLs and "-"
 * are passed over). */
cdz_status cdz_cli_check_place(const cdz_cli_options *options, const char *path,
                               const char *const *others, size_t n_others, cdz_error *err);

#endif
