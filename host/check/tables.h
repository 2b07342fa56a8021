/* tables.h - small random models for checks: what comes next is a table that a seed gives. */
#ifndef CDZ_HOST_CHECK_TABLES_H
#define CDZ_HOST_CHECK_TABLES_H

#include "cadenza/cadenza.h"
#include "check/child.h"

enum { CDZ_TABLE_VOCAB = 48, CDZ_TABLE_CONTEXT = 64, CDZ_TABLE_EOS = 3 };

/* Opens one. sharpness: how far the likeliest tokens stand above the others; 0: all scores are equal. */
cdz_status cdz_table_open(cdz_child *c, cdz_runtime *runtime, uint64_t seed, double sharpness,
                          cdz_model **out, cdz_error *err);

#endif
