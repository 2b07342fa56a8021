/* regex.c - Oniguruma behind limits: a pattern comes from a file and may be made to run for ever.
 *
 * The limit is a count, so that the same text is refused or not on every machine. What Oniguruma 6.9.8 counts is how often
 * it goes back (retries): not the bytes it goes through, and an atomic or possessive repetition, or one that the engine
 * makes atomic by itself (a+b), walks to the end of a text from each place with one retry. Later versions have a limit of
 * time, which is no count. So each pattern has a twin (regex_count.c) that goes back once for each round of each
 * repetition: its retries bound what the pattern goes through. A search is made with the twin first, under a limit that
 * grows until it suffices or the meter is spent; only then, for the match itself, with the pattern. Patterns with \G need
 * nothing of their own: one search by the twin sees the same \G. */
#include "token/regex.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifdef CDZ_HAVE_ONIG
#include <oniguruma.h>

#include "base/buf.h"
#include "token/regex_count.h"

#define FIRST_LIMIT 32     /* retries of a search that are tried first, and the least it costs */
#define STACK_LIMIT 100000 /* places that the engine remembers to go back to */
#define SHORT                                                                                      \
    ((size_t)512) /* what is left may be gone through from each place: the pattern's own retries count */

static int compile(const char *pattern, size_t len, regex_t **out, OnigErrorInfo *info)
{
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    const OnigUChar *p = (const OnigUChar *)pattern;
    onig_initialize(encodings, 1);
    return onig_new(out, p, p + len, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT,
                    info);
}

/* NULL where the pattern has none. */
static regex_t *compile_twin(const char *pattern, size_t len)
{
    cdz_buf text = {0};
    OnigErrorInfo info;
    regex_t *twin = NULL;
    if (cdz_regex_count(pattern, len, &text) && !text.failed &&
        compile(text.data ? text.data : "", text.len, &twin, &info) != ONIG_NORMAL)
        twin = NULL;
    cdz_buf_free(&text);
    return twin;
}

static cdz_status add(cdz_regex *regex, const char *pattern, size_t len, uint32_t line,
                      cdz_error *err)
{
    OnigErrorInfo info;
    regex_t *compiled = NULL;
    const int code = compile(pattern, len, &compiled, &info);
    if (code != ONIG_NORMAL) {
        OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = {0};
        onig_error_code_to_str(why, code, &info);
        return cdz_err(err, CDZ_E_INPUT, "line %u: the pattern %.200s: %s", line, pattern,
                       (char *)why);
    }
    regex->compiled = compiled;
    regex->twin = compile_twin(pattern, len);
    regex->from_search = strstr(pattern, "\\G") != NULL;
    return CDZ_OK;
}

static void drop(cdz_regex *regex)
{
    if (regex->compiled) onig_free(regex->compiled);
    if (regex->twin) onig_free(regex->twin);
}

/* --- one search ----------------------------------------------------------------------------------- */

typedef struct job {
    const cdz_regex *regex;
    const OnigUChar *text, *end;
    const OnigUChar *from;
    cdz_meter *meter;
    OnigRegion *region;
    OnigMatchParam *limits;
} job;

static void allow(OnigMatchParam *limits, uint64_t retries)
{
    const unsigned long most = retries < ULONG_MAX ? (unsigned long)retries : ULONG_MAX;
    onig_set_retry_limit_in_match_of_match_param(limits, most);
    onig_set_retry_limit_in_search_of_match_param(limits, most);
}

static int search(const job *j, regex_t *which, uint64_t retries)
{
    allow(j->limits, retries);
    return onig_search_with_param(which, j->text, j->end, j->from, j->end, j->region,
                                  ONIG_OPTION_NONE, j->limits);
}

static bool over(int code)
{
    return code == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || code == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
}

/* Searches with a limit that grows; a retry costs `weight` steps, and what a search is allowed it has taken: how many it
 * needed is not told. */
static int search_metered(const job *j, regex_t *which, uint64_t weight)
{
    for (uint64_t limit = FIRST_LIMIT;; limit *= 2) {
        const uint64_t left = j->meter->left / weight, now = limit < left ? limit : left;
        const int code = now ? search(j, which, now) : ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER;
        cdz_meter_take(j->meter, now * weight);
        if (!over(code)) return code;
        if (now < limit) return ONIG_ABORT;
    }
}

/* Place by place, where nothing counts what is gone through: each place costs as if that were all that is left. */
static int search_places(const job *j)
{
    if (j->regex->from_search) return ONIG_ABORT; /* a place of its own would begin a search */
    for (const OnigUChar *at = j->from; at <= j->end; at++) {
        if (at < j->end && (*at & 0xC0) == 0x80) continue; /* within a character */
        if (!cdz_meter_take(j->meter, (uint64_t)(j->end - at))) return ONIG_ABORT;
        allow(j->limits, j->meter->left + 1);
        const int len = onig_match_with_param(j->regex->compiled, j->text, j->end, at, j->region,
                                              ONIG_OPTION_NONE, j->limits);
        if (len != ONIG_MISMATCH) return len < 0 ? len : (int)(at - j->text);
    }
    return ONIG_MISMATCH;
}

/* The twin's stack fills sooner than the pattern's: then the places are tried one by one. */
static int search_long(const job *j)
{
    if (!j->regex->twin) return search_places(j);
    const int code = search_metered(j, j->regex->twin, 1);
    if (code == ONIGERR_MATCH_STACK_LIMIT_OVER) return search_places(j);
    return code == ONIG_ABORT ? code : search(j, j->regex->compiled, j->meter->left + 1);
}

static int search_any(const job *j)
{
    const size_t left = (size_t)(j->end - j->from);
    if (left > SHORT) return search_long(j);
    return search_metered(j, j->regex->compiled, j->regex->twin ? 1 : 1 + left / 64);
}

cdz_regex_found cdz_regex_search(const cdz_regex *regex, const uint8_t *text, size_t n, size_t from,
                                 cdz_meter *meter, size_t *begin, size_t *end)
{
    cdz_regex_found found = CDZ_REGEX_GAVE_UP;
    job j = {.regex = regex,
             .text = text,
             .end = text + n,
             .from = text + from,
             .meter = meter,
             .region = onig_region_new(),
             .limits = onig_new_match_param()};
    if (j.region && j.limits) {
        onig_initialize_match_param(j.limits);
        onig_set_match_stack_limit_size_of_match_param(j.limits, STACK_LIMIT);
        const int at = search_any(&j);
        if (at == ONIG_MISMATCH) found = CDZ_REGEX_NONE;
        if (at >= 0) {
            found = CDZ_REGEX_MATCH;
            *begin = (size_t)j.region->beg[0];
            *end = (size_t)j.region->end[0];
        }
    }
    if (found == CDZ_REGEX_GAVE_UP) meter->spent = true;
    if (j.limits) onig_free_match_param(j.limits);
    if (j.region) onig_region_free(j.region, 1);
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
                                 cdz_meter *meter, size_t *begin, size_t *end)
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
