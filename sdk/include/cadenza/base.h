/* base.h - what every Cadenza header uses: status codes, lists, linkage.
 * It includes the three freestanding headers and nothing else. */
#ifndef CADENZA_BASE_H
#define CADENZA_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CDZ_EXPORT            __attribute__((visibility("default")))
#define CDZ_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define CDZ_MUST_CHECK        __attribute__((warn_unused_result))
#else
#define CDZ_EXPORT
#define CDZ_PRINTF(fmt, args)
#define CDZ_MUST_CHECK
#endif

/* Every fallible call returns one of these; zero is success. The error sentence (what, where, found,
 * expected) is kept beside it: in a cdz_error (embedding), or in the request (plugins). */
#define CDZ_STATUS_MAP(X)                                                                          \
    X(CDZ_OK, 0, "ok")                                                                             \
    X(CDZ_E_NOMEM, 1, "out of memory")                                                             \
    X(CDZ_E_INPUT, 2, "bad input") /* a file, prompt or document is wrong */                       \
    X(CDZ_E_USAGE, 3, "bad usage") /* an argument, parameter or key is wrong */                    \
    X(CDZ_E_IO, 4, "input/output error")                                                           \
    X(CDZ_E_UNSUPPORTED, 5, "not supported")                                                       \
    X(CDZ_E_LIMIT, 6, "limit reached") /* memory, queue, budget */                                 \
    X(CDZ_E_CANCELLED, 7, "cancelled")                                                             \
    X(CDZ_E_DEADLINE, 8, "deadline passed")                                                        \
    X(CDZ_E_PLUGIN, 9, "plugin failed") /* a plugin broke its contract or failed */                \
    X(CDZ_E_STATE, 10, "wrong moment")  /* a call that is not allowed now */                       \
    X(CDZ_E_DENIED, 11, "not allowed")  /* trust, sandbox, capability */                           \
    X(CDZ_E_NOT_FOUND, 12, "not found")                                                            \
    X(CDZ_E_INTERNAL, 13, "internal error") /* a broken invariant of our own */

typedef enum cdz_status {
#define CDZ_X(name, value, text) name = value,
    CDZ_STATUS_MAP(CDZ_X)
#undef CDZ_X
} cdz_status;

typedef enum cdz_log_level { CDZ_LOG_DEBUG, CDZ_LOG_INFO, CDZ_LOG_WARNING } cdz_log_level;

/* Returns early on failure: the one macro that hides a return. */
#define CDZ_TRY(call)                                                                              \
    do {                                                                                           \
        const cdz_status cdz_try_ = (call);                                                        \
        if (cdz_try_ != CDZ_OK) return cdz_try_;                                                   \
    } while (0)

/* Token ids of one row, oldest first; borrowed, valid until the call that gave it returns. */
typedef struct cdz_ids {
    const int32_t *at;
    uint32_t len;
} cdz_ids;

/* Is the token among them? */
static inline bool cdz_ids_have(cdz_ids ids, int32_t token)
{
    for (uint32_t i = 0; i < ids.len; i++)
        if (ids.at[i] == token) return true;
    return false;
}

/* UTF-8 text that may hold NUL bytes; always followed by one NUL that len does not count. */
typedef struct cdz_string {
    const char *at;
    uint32_t len;
} cdz_string;

#endif
