/* pattern.h - Lua patterns whose matching is charged step by step, so that no pattern can run away. */
#ifndef CDZ_HOST_LUA_PATTERN_H
#define CDZ_HOST_LUA_PATTERN_H

#include <lua.h>
#include <stddef.h>

#define CDZ_PATTERN_CAPTURES 32
#define CDZ_PATTERN_SUBJECT  (1u << 20) /* longest subject */

enum { CDZ_CAPTURE_OPEN = -1, CDZ_CAPTURE_POSITION = -2 };

typedef struct cdz_matcher {
    lua_State *L;
    const char *subject, *subject_end, *pattern_end;
    int depth, steps;
    int n_captures;
    struct {
        const char *at;
        ptrdiff_t len; /* or a CDZ_CAPTURE_ value */
    } capture[CDZ_PATTERN_CAPTURES];
} cdz_matcher;

void cdz_matcher_init(cdz_matcher *m, lua_State *L, const char *subject, size_t n_subject,
                      const char *pattern, size_t n_pattern);
/* Where the match of pattern p (without its anchor) at s ends, or NULL. Raises for malformed patterns. */
const char *cdz_match(cdz_matcher *m, const char *s, const char *p);
/* Pushes capture i; the whole match [s, e) when i is 0 and the pattern has none. */
void cdz_push_capture(cdz_matcher *m, int i, const char *s, const char *e);
/* Pushes all captures (the whole match when there are none and s is not NULL) and returns how many. */
int cdz_push_captures(cdz_matcher *m, const char *s, const char *e);

#endif
