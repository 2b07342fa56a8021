/* regex.c - Oniguruma behind limits: a pattern comes from a file and may be made to run for ever. */
#include "token/regex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef CDZ_HAVE_ONIG
#include <oniguruma.h>

#define RETRIES_PER_MATCH  200000
#define RETRIES_PER_SEARCH 2000000
#define STACK_LIMIT        100000

static cdz_status add(cdz_regex *regex, const char *pattern, size_t len, uint32_t line,
                      cdz_error *err)
{
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    const OnigUChar *p = (const OnigUChar *)pattern;
    OnigErrorInfo info;
    regex_t *compiled = NULL;
    onig_initialize(encodings, 1);
    const int code = onig_new(&compiled, p, p + len, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                              ONIG_SYNTAX_DEFAULT, &info);
    if (code != ONIG_NORMAL) {
        OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = {0};
        onig_error_code_to_str(why, code, &info);
        return cdz_err(err, CDZ_E_INPUT, "line %u: the pattern %.200s: %s", line, pattern,
                       (char *)why);
    }
    regex->compiled = compiled;
    regex->from_search = strstr(pattern, "\\G") != NULL;
    return CDZ_OK;
}

static void drop(cdz_regex *regex)
{
    if (regex->compiled) onig_free(regex->compiled);
}

static OnigMatchParam *new_limits(void)
{
    OnigMatchParam *limits = onig_new_match_param();
    if (!limits) return NULL;
    onig_initialize_match_param(limits);
    onig_set_retry_limit_in_match_of_match_param(limits, RETRIES_PER_MATCH);
    onig_set_retry_limit_in_search_of_match_param(limits, RETRIES_PER_SEARCH);
    onig_set_match_stack_limit_size_of_match_param(limits, STACK_LIMIT);
    return limits;
}

/* The engine counts retries, not the bytes it goes through: an atomic or possessive repetition walks to the end of a
 * text from each place without one. So a long text is tried place by place, and the processor time of the whole walk is
 * held against an allowance by its length. */
#define SHORT ((size_t)8192) /* what is left may be searched in one call: its square is little */
#define BETWEEN                                                                                    \
    ((size_t)1 << 22) /* bytes gone through at worst from one look at the clock to the next */
#define BASE_S   2.0
#define PER_BYTE 2e-6

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Whether a walk that tries a place of n bytes, of which the last `left` may be gone through, has used its time. */
static bool spent(cdz_regex_meter *meter, size_t n, size_t left)
{
    meter->bytes += left;
    if (meter->bytes < BETWEEN) return false;
    meter->bytes = 0;
    const double now = thread_seconds();
    if (meter->looks++ == 0) meter->began = now;
    return now - meter->began > BASE_S + PER_BYTE * (double)n;
}

static int search(const cdz_regex *regex, const uint8_t *text, size_t n, size_t from,
                  cdz_regex_meter *meter, OnigRegion *region, OnigMatchParam *limits)
{
    const OnigUChar *const end = text + n;
    for (; n - from > SHORT && !regex->from_search; from++) {
        if ((text[from] & 0xC0) == 0x80) continue; /* within a character */
        if (spent(meter, n, n - from)) return ONIG_ABORT;
        const int len = onig_match_with_param(regex->compiled, text, end, text + from, region,
                                              ONIG_OPTION_NONE, limits);
        if (len != ONIG_MISMATCH) return len < 0 ? len : (int)from;
    }
    if (spent(meter, n, n - from)) return ONIG_ABORT;
    return onig_search_with_param(regex->compiled, text, end, text + from, end, region,
                                  ONIG_OPTION_NONE, limits);
}

cdz_regex_found cdz_regex_search(const cdz_regex *regex, const uint8_t *text, size_t n, size_t from,
                                 cdz_regex_meter *meter, size_t *begin, size_t *end)
{
    OnigRegion *region = onig_region_new();
    OnigMatchParam *limits = new_limits();
    cdz_regex_found found = CDZ_REGEX_GAVE_UP;
    if (region && limits) {
        const int at = search(regex, text, n, from, meter, region, limits);
        if (at == ONIG_MISMATCH) found = CDZ_REGEX_NONE;
        if (at >= 0) {
            found = CDZ_REGEX_MATCH;
            *begin = (size_t)region->beg[0];
            *end = (size_t)region->end[0];
        }
    }
    if (limits) onig_free_match_param(limits);
    if (region) onig_region_free(region, 1);
    return found;
}
#else
static cdz_status add(cdz_regex *regex, const char *pattern, size_t len, uint32_t line,
                      cdz_error *err)
{
    (void)regex;
    (void)len;
    return cdz_err(err, CDZ_E_UNSUPPORTED,
                   "line %u: the pattern is none of the known ones (GPT-2, cl100k, Llama-3, Qwen2, "
                   "Qwen3.5, o200k, Tekken, DeepSeek), and this build has no regex engine "
                   "(Oniguruma): %.200s",
                   line, pattern);
}

static void drop(cdz_regex *regex)
{
    (void)regex;
}

cdz_regex_found cdz_regex_search(const cdz_regex *regex, const uint8_t *text, size_t n, size_t from,
                                 cdz_regex_meter *meter, size_t *begin, size_t *end)
{
    (void)meter;
    (void)regex;
    (void)text;
    (void)from;
    *begin = *end = n;
    return CDZ_REGEX_NONE;
}
#endif

cdz_status cdz_regex_add(cdz_regex **list, const char *pattern, size_t len, uint32_t line,
                         cdz_error *err)
{
    if (len > CDZ_REGEX_MAX_BYTES)
        return cdz_err(err, CDZ_E_LIMIT, "line %u: a pattern of %zu bytes; at most %d are supported",
                       line, len, CDZ_REGEX_MAX_BYTES);
    cdz_regex *regex = calloc(1, sizeof *regex);
    if (!regex) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    const cdz_status st = add(regex, pattern, len, line, err);
    if (st != CDZ_OK) {
        free(regex);
        return st;
    }
    regex->next = *list;
    *list = regex;
    return CDZ_OK;
}

void cdz_regex_free(cdz_regex *list)
{
    while (list) {
        cdz_regex *next = list->next;
        drop(list);
        free(list);
        list = next;
    }
}
