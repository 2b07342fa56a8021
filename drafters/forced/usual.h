/* usual.h - the whitespace that usually stands at a place of a text such as JSON. */
#ifndef CDZ_DRAFTERS_FORCED_USUAL_H
#define CDZ_DRAFTERS_FORCED_USUAL_H

#include <stddef.h>

enum { USUAL_MOST = 64 };

/* What has to come behind a text for its usual whitespace to stand before another byte: as at such places before, else as
 * JSON is mostly written. Returns its length; whitespace that the text ends with counts as its beginning. */
size_t usual_blank(const char *text, size_t n, char next, char out[USUAL_MOST]);

#endif
