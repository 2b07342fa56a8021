/* setups.h - values of one parameter, as a user would write them. */
#ifndef CDZ_HOST_CHECK_SETUPS_H
#define CDZ_HOST_CHECK_SETUPS_H

#include "check/probe.h"
#include "params/params.h"

/* Writes a value that the declaration allows; ids in lists lie below n_vocab. */
void cdz_check_value_random(const cdz_param *param, uint32_t n_vocab, cdz_wildness wild,
                            uint64_t *random, cdz_buf *out);
/* Text into the field, as ini has it. */
cdz_status cdz_check_value_put(cdz_child *c, const cdz_param *param, const char *text, void *params,
                               cdz_error *err);
/* Zeroed bytes with the defaults. NULL: out of memory. */
void *cdz_check_params_new(cdz_child *c);

#endif
