/* host.c - the functions behind step->host: each finds its caller at the head of the step's scope, turns a format into
 * text, and hands it on. What a caller leaves out has its answer here. The extensions that need no caller are here too.
 * Thread: the caller's. */
#include "call/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cadenza/ext/files.h"
#include "call/files.h"
#include "call/guard.h"
#include "vec/vec.h"

static const cdz_caller *caller_of(const cdz_step *step)
{
    return *(const cdz_caller *const *)step->scope;
}

cdz_status cdz_host_fail(const cdz_step *step, cdz_status code, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return caller_of(step)->fail(step, code, text);
}

void cdz_host_log(const cdz_step *step, cdz_log_level level, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    if (!caller_of(step)->log) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    caller_of(step)->log(step, level, text);
}

void *cdz_host_alloc(const cdz_step *step, size_t bytes)
{
    return caller_of(step)->alloc(step, bytes);
}

void *cdz_host_scratch(const cdz_step *step, size_t bytes)
{
    return caller_of(step)->scratch(step, bytes);
}

cdz_status cdz_host_config(const cdz_step *step, const char *name, cdz_param_type type, void *out)
{
    const cdz_caller *caller = caller_of(step);
    return caller->config ? caller->config(step, name, type, out) : CDZ_E_NOT_FOUND;
}

void cdz_host_noise(const cdz_step *step, uint32_t row, uint32_t position, uint32_t out[4])
{
    const cdz_caller *caller = caller_of(step);
    if (caller->noise)
        caller->noise(step, row, position, out);
    else
        memset(out, 0, 4 * sizeof *out);
}

double cdz_host_now_s(const cdz_step *step)
{
    const cdz_caller *caller = caller_of(step);
    return caller->now_s ? caller->now_s(step) : cdz_now_s();
}

static uint32_t here(const cdz_step *step)
{
    (void)step;
    return cdz_calling_now.thread;
}

static cdz_status get_file(const cdz_step *step, const char *name, cdz_string *out)
{
    const cdz_caller *caller = caller_of(step);
    if (name && caller->file) return caller->file(step, name, out);
    return cdz_call_find_file(step, NULL, name, out);
}

const void *cdz_host_extension(const char *id)
{
    static const cdz_thread_check thread_check = {.size = sizeof thread_check, .here = here};
    static const cdz_files_api files = {.size = sizeof files, .get = get_file};
    if (strcmp(id, CDZ_EXT_VEC) == 0) return cdz_vec_table();
    if (strcmp(id, CDZ_EXT_THREAD_CHECK) == 0) return &thread_check;
    return strcmp(id, CDZ_EXT_FILES) == 0 ? &files : NULL;
}

const cdz_host cdz_bare_host = CDZ_HOST_WITH(cdz_host_extension);
