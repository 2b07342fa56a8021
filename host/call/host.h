/* host.h - what the host does for plugins, once: the functions behind step->host.
 *
 * Everybody who calls plugins (a request, create, the worker, the conformance kit, parity) is a caller of few functions. What
 * step->scope points to begins with that caller; the functions of the table find it there. Sentences and lines of the
 * log arrive as text. */
#ifndef CDZ_HOST_CALL_HOST_H
#define CDZ_HOST_CALL_HOST_H

#include "cadenza/plugin.h"

typedef struct cdz_caller {
    cdz_status (*fail)(const cdz_step *step, cdz_status code, const char *text); /* returns code */
    void (*log)(const cdz_step *step, cdz_log_level level, const char *text);    /* NULL: dropped */
    void *(*alloc)(const cdz_step *step, size_t bytes);
    void *(*scratch)(const cdz_step *step, size_t bytes);
    cdz_status (*config)(const cdz_step *step, const char *name, cdz_param_type type,
                         void *out); /* NULL: nothing is known */
    void (*noise)(const cdz_step *step, uint32_t row, uint32_t position,
                  uint32_t out[4]);        /* NULL: zeros */
    double (*now_s)(const cdz_step *step); /* NULL: the clock */
    /* The plugin's file of data; NULL: it has none. */
    cdz_status (*file)(const cdz_step *step, const char *name, cdz_string *out);
} cdz_caller;

cdz_status cdz_host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
    CDZ_PRINTF(3, 4);
void cdz_host_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...) CDZ_PRINTF(3, 4);
void *cdz_host_alloc(const cdz_step *step, size_t bytes);
void *cdz_host_scratch(const cdz_step *step, size_t bytes);
cdz_status cdz_host_config(const cdz_step *step, const char *name, cdz_param_type type, void *out);
void cdz_host_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4]);
double cdz_host_now_s(const cdz_step *step);

/* The extensions that ask nothing of the caller: what every table has, and the end of each caller's own list. */
const void *cdz_host_extension(const char *id);

/* The table, with the tables of further functions that `extension_` knows by id: it is asked without a step. */
/* clang-format off */
#define CDZ_HOST_WITH(extension_)                                                                  \
    {.size = sizeof(cdz_host), .extension = extension_, .fail = cdz_host_fail,                     \
     .log = cdz_host_log, .alloc = cdz_host_alloc, .scratch = cdz_host_scratch,                    \
     .config = cdz_host_config, .noise = cdz_host_noise, .now_s = cdz_host_now_s}
/* clang-format on */

/* With no other. */
extern const cdz_host cdz_bare_host;

#endif
