/* table.h - a row of the table of checks. */
#ifndef CDZ_HOST_CHECK_TABLE_H
#define CDZ_HOST_CHECK_TABLE_H

#include "check/child.h"

enum { CDZ_MOST_CHECKS = 128 }; /* the scan among them */

typedef struct cdz_check_row {
    const char *name, *about;
    uint32_t kinds;    /* bits 1 << cdz_kind */
    const char *needs; /* names separated by commas; "" : none */
    cdz_check_fn *fn;
} cdz_check_row;

extern const cdz_check_row cdz_check_scan_row; /* the first check, of the file as a whole */
const cdz_check_row *cdz_check_at(uint32_t i); /* the others, of one plugin each; NULL past the end */

/* Whether name is one of those that commas separate in list. */
bool cdz_check_in_list(const char *list, const char *name);

#endif
