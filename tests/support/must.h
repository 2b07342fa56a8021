/* must.h - a call that has to go well, in a test: the line where it did not, and its sentence. */
#ifndef CDZ_TESTS_SUPPORT_MUST_H
#define CDZ_TESTS_SUPPORT_MUST_H

#include "base/error.h"

/* Ends the test unless status is CDZ_OK. */
#define must(status, err) must_be_well(status, err, __FILE__, __LINE__)
void must_be_well(cdz_status status, const cdz_error *err, const char *file, int line);

#endif
