/* ask_samplers.c - fields of OpenAI's and llama-server's samplers that are processors or decode loops here: penalties, dry, xtc,
 * top_n_sigma, a dynamic temperature, mirostat. A field that says what a sampler does when it is off asks for nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/ask.h"

/* --- what is asked for --------------------------------------------------------------------------------------------- */

static bool is_free(cdz_asking *a, const char *field)
{
    if (!a->named_pipeline) return true;
    return cdz_serve_fault_set(a->fault, 400, field, NULL,
                               "'%s' does not go with cadenza.pipeline: write it into the "
                               "pipeline's file",
                               field);
}

bool cdz_ask_want(cdz_asking *a, cdz_ask_own *own, const char *field, const char *processor)
{
    if (!is_free(a, field)) return false;
    cdz_buf_printf(own->list, "%s%s", own->list->len ? ", " : "", processor);
    return true;
}

bool cdz_ask_own_set(cdz_asking *a, cdz_ask_own *own, const char *field, const char *key,
                     const char *text)
{
    const char *kept = cdz_arena_strdup(&a->arena, text);
    if (!kept || own->n == sizeof own->set / sizeof *own->set)
        return cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory for the request");
    own->set[own->n].field = field;
    own->set[own->n].key = key;
    own->set[own->n++].text = kept;
    return true;
}

bool cdz_ask_set_own(cdz_asking *a, const cdz_ask_own *own)
{
    for (size_t i = 0; i < own->n; i++) {
        cdz_error err = {0};
        if (cdz_pipeline_set(a->pipeline, own->set[i].key, own->set[i].text, &err) != CDZ_OK)
            return cdz_serve_fault_of(a->fault, own->set[i].field, &err);
    }
    return true;
}

const char *cdz_ask_blamed_own(const cdz_asking *a, const char *text)
{
    static const char set[] = "-s ";
    if (strncmp(text, set, sizeof set - 1) != 0) return NULL;
    for (size_t i = 0; i < a->own.n; i++) {
        const size_t n = strlen(a->own.set[i].key);
        const char *key = text + sizeof set - 1;
        if (strncmp(key, a->own.set[i].key, n) == 0 && key[n] == ' ') return a->own.set[i].field;
    }
    return NULL;
}

/* --- values --------------------------------------------------------------------------------------------------------- */

static bool take(const cdz_asking *a, const char *name, double low, double high, double absent,
                 double *out)
{
    const cdz_json *value = cdz_ask_field(&a->body, name);
    *out = absent;
    if (!value || (cdz_json_number(value, out) && *out >= low && *out <= high)) return true;
    return cdz_serve_fault_set(a->fault, 400, name, NULL, "'%s' must be a number from %g to %g",
                               name, low, high);
}

static bool take_whole(const cdz_asking *a, const char *name, int64_t low, int64_t high,
                       int64_t absent, int64_t *out)
{
    const cdz_json *value = cdz_ask_field(&a->body, name);
    *out = value && value->type == CDZ_JSON_INT ? value->integer : absent;
    if (!value || (value->type == CDZ_JSON_INT && *out >= low && *out <= high)) return true;
    return cdz_serve_fault_set(a->fault, 400, name, NULL,
                               "'%s' must be a whole number from %lld to %lld", name,
                               (long long)low, (long long)high);
}

static bool put(cdz_asking *a, cdz_ask_own *own, const char *field, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    return cdz_ask_own_set(a, own, field, key, text);
}

/* A value where the field is there; else the processor's own. */
static bool put_given(cdz_asking *a, cdz_ask_own *own, const char *field, const char *key,
                      double value)
{
    return !cdz_ask_field(&a->body, field) || put(a, own, field, key, value);
}

static bool differs(double a, double b)
{
    return a < b || a > b;
}

/* --- penalties ------------------------------------------------------------------------------------------------------- */

static const char *window_of(const cdz_asking *a)
{
    return cdz_ask_field(&a->body, "repeat_last_n") ? "repeat_last_n" : "penalty_last_n";
}

bool cdz_ask_looks_back(const cdz_asking *a)
{
    const cdz_json *n = cdz_ask_field(&a->body, window_of(a));
    return n && !(n->type == CDZ_JSON_INT && n->integer == -1);
}

/* Over all tokens each is a processor of its own, as clients of OpenAI expect it. */
static bool take_penalty(cdz_asking *a, cdz_ask_own *own, const char *name, const char *key,
                         double value)
{
    return !differs(value, 0) || (cdz_ask_want(a, own, name, name) && put(a, own, name, key, value));
}

static bool take_penalties(cdz_asking *a, cdz_ask_own *own)
{
    const char *field = window_of(a);
    double presence, frequency, repetition;
    int64_t n;
    if (!take(a, "presence_penalty", -2, 2, 0, &presence) ||
        !take(a, "frequency_penalty", -2, 2, 0, &frequency) ||
        !take(a, "repeat_penalty", 0, 1e6, 1, &repetition) ||
        !take_whole(a, field, -1, INT32_MAX, -1, &n))
        return false;
    if (n < 0)
        return take_penalty(a, own, "presence_penalty", "presence_penalty.presence_penalty",
                            presence) &&
               take_penalty(a, own, "frequency_penalty", "frequency_penalty.frequency_penalty",
                            frequency);
    if (!n || !(differs(presence, 0) || differs(frequency, 0) || differs(repetition, 1)))
        return true;
    return cdz_ask_want(a, own, field, "recent_penalties") &&
           put(a, own, field, "recent_penalties.last_n", (double)n) &&
           put(a, own, field, "recent_penalties.presence", presence) &&
           put(a, own, field, "recent_penalties.frequency", frequency) &&
           put(a, own, field, "recent_penalties.repetition", repetition);
}

/* --- processors ------------------------------------------------------------------------------------------------------ */

static bool put_breakers(cdz_asking *a, cdz_ask_own *own)
{
    static const char field[] = "dry_sequence_breakers";
    const cdz_json *list = cdz_ask_field(&a->body, field);
    cdz_buf text = {0};
    if (!list) return true;
    bool good = list->type == CDZ_JSON_ARRAY;
    for (uint32_t i = 0; good && i < list->len; i++) good = list->items[i].type == CDZ_JSON_STRING;
    if (!good)
        return cdz_serve_fault_set(a->fault, 400, field, NULL, "'%s' must be a list of strings",
                                   field);
    cdz_json_write(&text, list);
    good = text.failed
               ? cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory for the request")
               : cdz_ask_own_set(a, own, field, "dry.sequence_breakers", text.data);
    cdz_buf_free(&text);
    return good;
}

static bool take_dry(cdz_asking *a, cdz_ask_own *own)
{
    static const char field[] = "dry_multiplier";
    double multiplier, base;
    int64_t length, last_n;
    if (!take(a, field, 0, 1e6, 0, &multiplier) || !take(a, "dry_base", 0, 1e6, 1.75, &base) ||
        !take_whole(a, "dry_allowed_length", 0, INT32_MAX, 2, &length) ||
        !take_whole(a, "dry_penalty_last_n", -1, INT32_MAX, -1, &last_n))
        return false;
    if (!(multiplier > 0) || !last_n) return true;
    return cdz_ask_want(a, own, field, "dry") && put(a, own, field, "dry.multiplier", multiplier) &&
           put_given(a, own, "dry_base", "dry.base", base) &&
           put_given(a, own, "dry_allowed_length", "dry.allowed_length", (double)length) &&
           put_given(a, own, "dry_penalty_last_n", "dry.range", last_n < 0 ? 0 : (double)last_n) &&
           put_breakers(a, own);
}

static bool take_xtc(cdz_asking *a, cdz_ask_own *own)
{
    static const char field[] = "xtc_probability";
    double probability, threshold;
    if (!take(a, field, 0, 1, 0, &probability) || !take(a, "xtc_threshold", 0, 1, 0.1, &threshold))
        return false;
    if (!(probability > 0) || threshold > 0.5) return true; /* no two tokens are above a half */
    return cdz_ask_want(a, own, field, "xtc") &&
           put(a, own, field, "xtc.probability", probability) &&
           put_given(a, own, "xtc_threshold", "xtc.threshold", threshold);
}

static bool take_sigma(cdz_asking *a, cdz_ask_own *own)
{
    static const char field[] = "top_n_sigma";
    double n;
    if (!take(a, field, -1, 1e6, -1, &n)) return false;
    return !(n > 0) || (cdz_ask_want(a, own, field, "top_n_sigma") &&
                        put(a, own, field, "top_n_sigma.top_n_sigma", n));
}

/* From `range` below the temperature to as much above it. */
static bool take_dynamic(cdz_asking *a, cdz_ask_own *own)
{
    static const char field[] = "dynatemp_range";
    double range, exponent, temperature;
    if (!take(a, field, 0, 1e6, 0, &range) || !take(a, "dynatemp_exponent", 0, 100, 1, &exponent) ||
        !take(a, "temperature", 0, 1e6, 1, &temperature))
        return false;
    if (!(range > 0) || !(temperature > 0)) return true;
    const double low = temperature - range, least = 1e-3;
    return cdz_ask_set(a, "do_sample", "true") &&
           cdz_ask_want(a, own, field, "dynamic_temperature") &&
           put(a, own, field, "dynamic_temperature.low", low > least ? low : least) &&
           put(a, own, field, "dynamic_temperature.high", temperature + range) &&
           put_given(a, own, "dynatemp_exponent", "dynamic_temperature.exponent", exponent);
}

/* --- a decode loop ---------------------------------------------------------------------------------------------------- */

static bool take_mirostat(cdz_asking *a, cdz_ask_own *own)
{
    static const char *const ids[] = {NULL, "mirostat", "mirostat_v2"};
    int64_t version;
    double tau, eta;
    if (!take_whole(a, "mirostat", 0, 2, 0, &version) ||
        !take(a, "mirostat_tau", 0, 100, 5, &tau) || !take(a, "mirostat_eta", 0, 10, 0.1, &eta))
        return false;
    if (!version) return true;
    if (!is_free(a, "mirostat")) return false;
    if (a->strategy && strcmp(a->strategy, ids[version]) != 0)
        return cdz_serve_fault_set(a->fault, 400, "mirostat", NULL,
                                   "'mirostat' is a decode loop, and cadenza.strategy says '%.80s'",
                                   a->strategy);
    a->strategy = ids[version];
    return put_given(a, own, "mirostat_tau", version == 1 ? "mirostat.tau" : "mirostat_v2.tau",
                     tau) &&
           put_given(a, own, "mirostat_eta", version == 1 ? "mirostat.eta" : "mirostat_v2.eta", eta);
}

bool cdz_ask_samplers(cdz_asking *a, cdz_ask_own *own)
{
    return take_penalties(a, own) && take_dry(a, own) && take_sigma(a, own) && take_xtc(a, own) &&
           take_dynamic(a, own) && take_mirostat(a, own);
}
