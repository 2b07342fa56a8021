/* error.h - one failure: a code and the sentence a person reads. */
#ifndef CDZ_HOST_BASE_ERROR_H
#define CDZ_HOST_BASE_ERROR_H

#include "cadenza/cadenza.h"

/* Writes the sentence (cut at CDZ_ERROR_TEXT bytes, never inside a character) and returns code, so that a
 * failure is one line: return cdz_err(err, CDZ_E_INPUT, "%s: ...", path). err may be NULL. */
#define cdz_err(err, code, ...) (cdz_err_write((err), (code), __VA_ARGS__), cdz_err_code(code))
/* The code itself: seen by compiler and checkers, which then know that a failure returns no CDZ_OK. */
static inline cdz_status cdz_err_code(cdz_status code)
{
    return code;
}
void cdz_err_write(cdz_error *err, cdz_status code, const char *fmt, ...) CDZ_PRINTF(3, 4);
/* Memory was refused: for something ("the request"), or while a file or a named thing was read or made. */
static inline cdz_status cdz_err_memory(cdz_error *err, const char *what)
{
    return cdz_err(err, CDZ_E_NOMEM, "out of memory for %s", what);
}
static inline cdz_status cdz_err_memory_in(cdz_error *err, const char *name)
{
    return cdz_err(err, CDZ_E_NOMEM, "%s: out of memory", name);
}

/* Puts "prefix: " before the sentence that is already there; returns err's code. */
cdz_status cdz_err_prefix(cdz_error *err, const char *fmt, ...) CDZ_PRINTF(2, 3);

/* The status table's words for a code. */
const char *cdz_status_text(cdz_status code);

/* The known name nearest to `name` by edit distance, or NULL when none is near enough to suggest.
 * names: n strings. Used by every "unknown X" sentence. */
const char *cdz_nearest_name(const char *name, const char *const *names, size_t n);

#endif
