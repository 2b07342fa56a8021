/* pattern.h - what a Split or a Replace looks for: literal text, a hand-written scanner, or a regex. */
#ifndef CDZ_HOST_TOKEN_PATTERN_H
#define CDZ_HOST_TOKEN_PATTERN_H

#include "base/json.h"
#include "token/regex.h"
#include "token/scanner.h"

/* Exactly one of the three is set. */
typedef struct cdz_pattern {
    cdz_match_fn match;
    const char *literal; /* not empty; tokenizer lifetime */
    size_t literal_len;
    const cdz_regex *regex; /* tokenizer lifetime */
} cdz_pattern;

/* Reads {"String": ...} or {"Regex": ...} from part's member "pattern". what: "normalizer: Replace"
 * and the like, for sentences. */
cdz_status cdz_pattern_read(const cdz_json *part, const char *what, cdz_pattern *out,
                            cdz_arena *arena, cdz_regex **regexes, cdz_error *err);

/* A walk over the matches in valid UTF-8 of n bytes, in order and without overlap. Zeroed except
 * the first four. */
typedef struct cdz_pattern_walk {
    const cdz_pattern *pattern;
    const uint8_t *text;
    size_t n;
    cdz_meter *meter;  /* of the call */
    size_t from;       /* where the search goes on */
    size_t begin, end; /* the match found */
    bool any;          /* one was found before */
    bool gave_up;      /* the regex went past its limits; the walk is over */
} cdz_pattern_walk;

bool cdz_pattern_next(cdz_pattern_walk *walk); /* false: no more */

#endif
