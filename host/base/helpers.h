/* helpers.h - a few threads for what would keep another one waiting: made when they are needed, and no more than a limit. */
#ifndef CDZ_HOST_BASE_HELPERS_H
#define CDZ_HOST_BASE_HELPERS_H

#include <stdatomic.h>

#include "base/error.h"

enum { CDZ_HELPERS = 32 }; /* threads of one engine; further errands wait their turn */

/* Something to do. Its memory is the giver's, until it is done or taken back. */
typedef struct cdz_helper_errand {
    void (*run)(void *arg); /* [a helper's thread] */
    void *arg;
    struct cdz_helper_errand *next;
    atomic_bool done; /* set last: what run wrote can be read */
} cdz_helper_errand;

typedef struct cdz_helpers cdz_helpers;

/* done(of) is called after each errand, on its thread. */
cdz_status cdz_helpers_create(void (*done)(void *of), void *of, cdz_helpers **out, cdz_error *err);
void cdz_helpers_free(
    cdz_helpers *helpers); /* nobody has given anything that is not done; NULL is fine */
cdz_status cdz_helpers_give(cdz_helpers *helpers, cdz_helper_errand *errand, cdz_error *err);
/* False: it has begun, and will be done. */
bool cdz_helpers_take_back(cdz_helpers *helpers, cdz_helper_errand *errand);

#endif
