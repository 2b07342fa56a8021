/* regex_count.h - the twin of a pattern, which counts. */
#ifndef CDZ_HOST_TOKEN_REGEX_COUNT_H
#define CDZ_HOST_TOKEN_REGEX_COUNT_H

#include "base/buf.h"

/* Writes a pattern that matches what `pattern` (Oniguruma's syntax, compiles) does and goes back at least once for each
 * round of each repetition. False where the pattern has something that walks without one (references, absent operators,
 * calls, repetitions without end that look behind) or that is not read here (free spacing). */
bool cdz_regex_count(const char *pattern, size_t len, cdz_buf *out);

#endif
