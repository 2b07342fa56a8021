/* lengths.c - max_length and min_length of a request, once the prompt's length is known
 * (GenerationMixin._prepare_generated_length and _validate_generated_length). */
#include <stdarg.h>
#include <stdio.h>

#include "config/generation.h"

static int64_t clamped(int64_t length)
{
    return length < 0 ? 0 : length > UINT32_MAX ? UINT32_MAX : length;
}

/* a + b, saturating, for any b. */
static int64_t plus(uint32_t a, int64_t b)
{
    if (b > UINT32_MAX) return UINT32_MAX;
    if (b < -(int64_t)UINT32_MAX) return 0;
    return clamped((int64_t)a + b);
}

static CDZ_PRINTF(2, 3) void warn(cdz_lengths *out, const char *fmt, ...)
{
    va_list args;
    if (out->n_warnings == CDZ_MAX_LENGTH_WARNINGS) return;
    va_start(args, fmt);
    vsnprintf(out->warnings[out->n_warnings++], sizeof out->warnings[0], fmt, args);
    va_end(args);
}

static cdz_status resolve_max(const cdz_generation *g, uint32_t prompt_len, uint32_t max_positions,
                              uint32_t embeds_len, cdz_lengths *out, cdz_error *err)
{
    if (g->max_new_tokens.set) {
        out->max_length = plus(prompt_len, g->max_new_tokens.value);
    } else if (!g->max_length_given) {
        out->max_length = plus(prompt_len, g->max_length.value);
        if (max_positions && out->max_length > max_positions) out->max_length = max_positions;
        warn(out, "no length is set: at most %lld new tokens; set max_new_tokens for another limit",
             (long long)g->max_length.value);
    } else if (!g->max_length.set) {
        return cdz_err(err, CDZ_E_USAGE, "max_length = none needs max_new_tokens");
    } else {
        out->max_length = clamped(plus(0, g->max_length.value) - embeds_len);
    }
    return CDZ_OK;
}

static void resolve_min(const cdz_generation *g, uint32_t prompt_len, uint32_t embeds_len,
                        cdz_lengths *out)
{
    if (g->min_new_tokens.set)
        out->min_length = plus(prompt_len, g->min_new_tokens.value);
    else
        out->min_length = clamped(plus(0, g->min_length.value) - embeds_len);
    if (g->min_length.set && out->min_length > out->max_length)
        warn(out, "min_length %lld is above max_length %lld, which wins",
             (long long)out->min_length, (long long)out->max_length);
    if (g->min_new_tokens.set && out->min_length > out->max_length)
        warn(out, "min_new_tokens %lld goes past max_length %lld, which wins",
             (long long)g->min_new_tokens.value, (long long)out->max_length);
}

cdz_status cdz_resolve_lengths(const cdz_generation *generation, uint32_t prompt_len,
                               uint32_t max_positions, uint32_t embeds_len, cdz_lengths *out,
                               cdz_error *err)
{
    *out = (cdz_lengths){0};
    CDZ_TRY(resolve_max(generation, prompt_len, max_positions, embeds_len, out, err));
    resolve_min(generation, prompt_len, embeds_len, out);
    if ((int64_t)prompt_len >= out->max_length)
        return cdz_err(err, CDZ_E_INPUT,
                       "the prompt of %u tokens leaves no room: max_length is %lld, prompt "
                       "included; set max_new_tokens or a larger max_length",
                       prompt_len, (long long)out->max_length);
    return CDZ_OK;
}
