/* regex.h - patterns that no hand-written scanner knows, by way of Oniguruma, the reference's own
 * engine. A build without it refuses them by name. */
#ifndef CDZ_HOST_TOKEN_REGEX_H
#define CDZ_HOST_TOKEN_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "token/meter.h"

typedef struct cdz_regex cdz_regex;

/* The regexes of a tokenizer are a list, freed as one. */
struct cdz_regex {
    cdz_regex *next;
    void *compiled; /* regex_t; matching does not change it */
    void *twin; /* regex_t whose retries count what `compiled` goes through; NULL: there is none */
    bool from_search; /* it asks where the search began (\G) */
};

#define CDZ_REGEX_MAX_BYTES 4096 /* of a pattern */

/* Compiles a pattern and puts it at the head of the list. */
cdz_status cdz_regex_add(cdz_regex **list, const char *pattern, size_t len, uint32_t line,
                         cdz_error *err);
void cdz_regex_free(cdz_regex *list); /* NULL is fine */

typedef enum cdz_regex_found {
    CDZ_REGEX_MATCH,
    CDZ_REGEX_NONE,
    CDZ_REGEX_GAVE_UP, /* the meter is spent, or the stack of the engine is full */
} cdz_regex_found;

/* The leftmost match that begins at or after `from` in valid UTF-8 of n bytes. What it takes comes from the meter, which
 * is spent where the search gives up. */
cdz_regex_found cdz_regex_search(const cdz_regex *regex, const uint8_t *text, size_t n, size_t from,
                                 cdz_meter *meter, size_t *begin, size_t *end);

#endif
