/* quantized_cache.c - cache_config of a quantised cache: transformers' names, defaults and bounds (cache_utils.py, QuantizedCache
 * and its layers). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/generation.h"

/* The numbers of cache_config, and what each backend takes. -2 ends a list. */
enum { END = -2, LARGEST_GROUP = 1 << 16, LARGEST_RESIDUAL = 1 << 20 };
static const int quanto_bits[] = {2, 4, END}, hqq_bits[] = {1, 2, 3, 4, 8, END},
                 quanto_axes[] = {0, -1, END}, hqq_axes[] = {0, 1, END};

typedef struct reader {
    const cdz_json *config;
    const char *backend;
    char *why;
    size_t why_bytes;
} reader;

static bool one_of(int64_t value, const int *list)
{
    for (; *list != END; list++)
        if (value == *list) return true;
    return false;
}

/* A whole number, where it is there; a sentence and false where it is none. */
static bool whole(const reader *r, const char *name, int64_t *out)
{
    const cdz_json *value = cdz_json_get(r->config, name);
    double x = 0;
    if (!value) return true;
    if (cdz_json_number(value, &x) && x == floor(x) && fabs(x) < 1e15) {
        *out = (int64_t)x;
        return true;
    }
    snprintf(r->why, r->why_bytes, "%s must be a whole number", name);
    return false;
}

static bool chosen(const reader *r, const char *name, const int *list, int64_t *out)
{
    if (!whole(r, name, out)) return false;
    if (one_of(*out, list)) return true;
    char words[64] = "";
    for (size_t len = 0; *list != END && len < sizeof words; list++)
        len += (size_t)snprintf(words + len, sizeof words - len, "%s%d", len ? ", " : "", *list);
    snprintf(r->why, r->why_bytes, "%s = %lld: the backend %s takes %s", name, (long long)*out,
             r->backend, words);
    return false;
}

static bool within(const reader *r, const char *name, int64_t least, int64_t most, int64_t *out)
{
    if (!whole(r, name, out)) return false;
    if (*out >= least && *out <= most) return true;
    snprintf(r->why, r->why_bytes, "%s = %lld: must be %lld to %lld", name, (long long)*out,
             (long long)least, (long long)most);
    return false;
}

static bool names_known(const reader *r)
{
    static const char *const names[] = {"backend",    "nbits",        "axis_key",
                                        "axis_value", "q_group_size", "residual_length"};
    const size_t n = sizeof names / sizeof *names;
    for (uint32_t i = 0; i < r->config->len; i++) {
        const char *key = r->config->members[i].key;
        bool known = false;
        for (size_t k = 0; k < n; k++) known |= strcmp(names[k], key) == 0;
        if (known) continue;
        const char *near = cdz_nearest_name(key, names, n);
        snprintf(r->why, r->why_bytes, "'%.60s' is no setting of a quantised cache%s%s%s", key,
                 near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        return false;
    }
    return true;
}

static bool read_backend(reader *r, cdz_quantized_cache *out)
{
    const cdz_json *backend = cdz_json_get(r->config, "backend");
    out->hqq = backend && cdz_json_eq(backend, "hqq");
    r->backend = out->hqq ? "hqq" : "quanto";
    if (!backend || out->hqq || cdz_json_eq(backend, "quanto")) return true;
    snprintf(r->why, r->why_bytes, "backend must be quanto or hqq");
    return false;
}

bool cdz_quantized_cache_read(const cdz_json *config, cdz_quantized_cache *out, char *why,
                              size_t why_bytes)
{
    *out = (cdz_quantized_cache){.on = true, .nbits = 4, .q_group_size = 64, .residual_length = 128};
    reader r = {config, "quanto", why, why_bytes};
    if (!config) return true;
    if (config->type != CDZ_JSON_OBJECT) {
        snprintf(why, why_bytes, "must be an object");
        return false;
    }
    return names_known(&r) && read_backend(&r, out) &&
           chosen(&r, "nbits", out->hqq ? hqq_bits : quanto_bits, &out->nbits) &&
           chosen(&r, "axis_key", out->hqq ? hqq_axes : quanto_axes, &out->axis_key) &&
           chosen(&r, "axis_value", out->hqq ? hqq_axes : quanto_axes, &out->axis_value) &&
           within(&r, "q_group_size", 8, LARGEST_GROUP, &out->q_group_size) &&
           within(&r, "residual_length", 0, LARGEST_RESIDUAL, &out->residual_length);
}
