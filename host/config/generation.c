/* generation.c - one request's generation parameters: values from their sources, checked and filled in.
 *
 * Owns: which source wins, and where each value came from (origins). Not: names, types and defaults, which are rows
 * (generation_table.c); which loop follows from them (generation_modes.c); lengths (lengths.c). */
#include "config/generation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "params/param_types.h"

/* The nearest of all names, or NULL. */
static const char *nearest(const char *name)
{
    enum { MOST = 256 };
    const char *names[MOST];
    uint32_t n = 0;
    while (n < cdz_generation_slots() && n < MOST) {
        names[n] = cdz_generation_slot_name(n);
        n++;
    }
    return cdz_nearest_name(name, names, n);
}

cdz_status cdz_generation_known(const char *name, const char **near)
{
    if (cdz_generation_slot(name) >= 0) return CDZ_OK;
    *near = nearest(name);
    return CDZ_E_NOT_FOUND;
}

cdz_status cdz_generation_value(const cdz_generation *generation, const char *name,
                                cdz_param_type type, void *out)
{
    if (type == 0) return cdz_generation_known(name, out);
    const cdz_param *param = cdz_param_find(cdz_generation_table(), name);
    if (!param || param->type != type) return CDZ_E_NOT_FOUND;
    memcpy(out, cdz_param_field_const(param, generation), cdz_param_shape_of(param->type)->bytes);
    return CDZ_OK;
}

void cdz_warn(cdz_warnings *warnings, cdz_arena *arena, const char *fmt, ...)
{
    char text[CDZ_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (warnings->n == warnings->cap) {
        uint32_t cap = warnings->cap ? warnings->cap * 2 : 8;
        const char **at = cdz_arena_array(arena, cap, sizeof *at);
        if (!at) return;
        if (warnings->n) memcpy(at, warnings->at, warnings->n * sizeof *at);
        warnings->at = at;
        warnings->cap = cap;
    }
    const char *copy = cdz_arena_strdup(arena, text);
    if (copy) warnings->at[warnings->n++] = copy;
}

void cdz_origin_prefix(const cdz_origin *origin, char *out, size_t out_bytes)
{
    out[0] = '\0';
    switch (origin->source) {
    case CDZ_SOURCE_DEFAULT: break;
    case CDZ_SOURCE_MODEL: snprintf(out, out_bytes, "%s: ", origin->file); break;
    case CDZ_SOURCE_PROFILE:
    case CDZ_SOURCE_FILE:
        if (origin->file) snprintf(out, out_bytes, "%s:%u: ", origin->file, origin->line);
        break;
    case CDZ_SOURCE_COMMAND: snprintf(out, out_bytes, "-s "); break;
    case CDZ_SOURCE_REQUEST: snprintf(out, out_bytes, "request: "); break;
    }
}

cdz_status cdz_origin_error(const cdz_origin *origin, const char *name, cdz_status status,
                            const char *sentence, cdz_error *err)
{
    char prefix[300];
    const size_t len = strlen(name);
    const bool renamed = origin->said && strncmp(sentence, name, len) == 0;
    cdz_origin_prefix(origin, prefix, sizeof prefix);
    return cdz_err(err, status, "%s%s%s", prefix, renamed ? origin->said : "",
                   renamed ? sentence + len : sentence);
}

/* --- putting together ------------------------------------------------------------------------------------ */

cdz_status cdz_resolution_begin(cdz_resolution *res, cdz_arena *arena, cdz_error *err)
{
    *res = (cdz_resolution){.arena = arena};
    res->values = cdz_arena_array(arena, cdz_generation_slots(), sizeof *res->values);
    res->origins = cdz_arena_array(arena, cdz_generation_slots(), sizeof *res->origins);
    if (!res->values || !res->origins)
        return cdz_err(err, CDZ_E_NOMEM, "generation parameters: out of memory");
    return CDZ_OK;
}

void cdz_resolution_put(cdz_resolution *res, uint32_t slot, const cdz_json *value,
                        const cdz_origin *origin)
{
    res->values[slot] = value;
    res->origins[slot] = *origin;
}

/* Arguments of generate() that a configuration may not hold. */
static bool argument_only(const char *name)
{
    return cdz_generation_forbidden(name) || strcmp(name, "negative_prompt_ids") == 0 ||
           strcmp(name, "negative_prompt_attention_mask") == 0;
}

cdz_status cdz_resolution_put_model(cdz_resolution *res, const cdz_json *model, cdz_error *err)
{
    if (!model || model->type != CDZ_JSON_OBJECT) return CDZ_OK;
    const bool derived = model->boolean; /* see cdz_generation_of_model */
    const cdz_origin origin = {.source = CDZ_SOURCE_MODEL,
                               .file = derived ? "config.json" : "generation_config.json"};
    for (uint32_t i = 0; i < model->len; i++) {
        const cdz_json_member *member = &model->members[i];
        if (argument_only(member->key))
            return cdz_err(err, CDZ_E_INPUT,
                           "%s: %s is an argument of a request, not a parameter of a "
                           "configuration",
                           origin.file, member->key);
        int slot = cdz_generation_slot(member->key);
        if (slot >= 0 && member->value.type != CDZ_JSON_NULL)
            cdz_resolution_put(res, (uint32_t)slot, &member->value, &origin);
    }
    return CDZ_OK;
}

static cdz_status write_values(cdz_resolution *res, cdz_error *err)
{
    const cdz_param_table *table = cdz_generation_table();
    cdz_params_defaults(table, &res->generation);
    for (uint32_t i = 0; i < table->n; i++) {
        if (!res->values[i]) continue;
        cdz_error why = {0};
        cdz_status st = cdz_param_set(cdz_param_at(table, i), &res->generation, res->values[i],
                                      res->arena, &why);
        if (st == CDZ_OK) continue;
        return cdz_origin_error(&res->origins[i], cdz_param_at(table, i)->name, st, why.text, err);
    }
    return CDZ_OK;
}

/* --- validate() of transformers -------------------------------------------------------------------------- */

static cdz_status bad(const cdz_resolution *res, const char *name, const char *why, cdz_error *err)
{
    const cdz_origin *origin = &res->origins[cdz_generation_slot(name)];
    char prefix[256];
    cdz_origin_prefix(origin, prefix, sizeof prefix);
    return cdz_err(err, CDZ_E_USAGE, "%s%s: %s", prefix, origin->said ? origin->said : name, why);
}

static const cdz_json *value_of(const cdz_resolution *res, const char *name)
{
    const cdz_json *value = res->values[cdz_generation_slot(name)];
    return value && value->type != CDZ_JSON_NULL ? value : NULL;
}

static cdz_status check_cache(const cdz_resolution *res, cdz_error *err)
{
    static const char *const names[] = {
        "dynamic", "dynamic_full",   "offloaded",        "quantized",
        "static",  "paged",          "offloaded_static", "sliding_window",
        "hybrid",  "hybrid_chunked", "offloaded_hybrid", "offloaded_hybrid_chunked",
    };
    const char *name = res->generation.cache_implementation;
    if (!name) return CDZ_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return CDZ_OK;
    char why[160];
    const char *nearest = cdz_nearest_name(name, names, sizeof names / sizeof names[0]);
    snprintf(why, sizeof why, "no cache is called '%.60s'%s%s%s", name,
             nearest ? ": did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return bad(res, "cache_implementation", why, err);
}

/* Of a quantised cache its cache_config; others read none. */
static cdz_status check_cache_config(cdz_resolution *res, cdz_error *err)
{
    const char *name = res->generation.cache_implementation;
    char why[192];
    if (!name || strcmp(name, "quantized") != 0) return CDZ_OK;
    if (!cdz_quantized_cache_read(value_of(res, "cache_config"), &res->generation.quantized, why,
                                  sizeof why))
        return bad(res, "cache_config", why, err);
    res->generation.quantized.on = res->generation.use_cache;
    return CDZ_OK;
}

static cdz_status check_rows(const cdz_resolution *res, cdz_error *err)
{
    const cdz_generation *g = &res->generation;
    if (g->num_return_sequences <= 1) return CDZ_OK;
    if (g->num_beams == 1 && res->zero_temperature)
        return bad(res, "num_return_sequences",
                   "temperature = 0 is greedy decoding, which gives one sequence", err);
    if (g->num_beams == 1 && !g->do_sample)
        return bad(res, "num_return_sequences",
                   "greedy decoding gives one sequence; set do_sample = true or more beams", err);
    if (g->num_beams > 1 && g->num_return_sequences > g->num_beams)
        return bad(res, "num_return_sequences", "must not be above num_beams", err);
    return CDZ_OK;
}

/* The fields of WatermarkingConfig and what it refuses itself. */
static cdz_status check_watermark(const cdz_resolution *res, cdz_error *err)
{
    static const char *const names[] = {"greenlist_ratio", "bias",          "hashing_key",
                                        "seeding_scheme",  "context_width", "type"};
    const cdz_json *config = value_of(res, "watermarking_config");
    double ratio = 0.25, width = 1;
    if (!config) return CDZ_OK;
    if (config->type != CDZ_JSON_OBJECT)
        return bad(res, "watermarking_config", "must be an object", err);
    if (cdz_json_eq(cdz_json_get(config, "type"), "synthid")) return CDZ_OK;
    for (uint32_t i = 0; i < config->len; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            known |= strcmp(names[k], config->members[i].key) == 0;
        if (known) continue;
        char why[160];
        const char *near =
            cdz_nearest_name(config->members[i].key, names, sizeof names / sizeof names[0]);
        snprintf(why, sizeof why, "'%.60s' is no setting of a green list%s%s%s",
                 config->members[i].key, near ? ": did you mean '" : "", near ? near : "",
                 near ? "'?" : "");
        return bad(res, "watermarking_config", why, err);
    }
    cdz_json_number(cdz_json_get(config, "greenlist_ratio"), &ratio);
    cdz_json_number(cdz_json_get(config, "context_width"), &width);
    const cdz_json *scheme = cdz_json_get(config, "seeding_scheme");
    if (ratio < 0 || ratio > 1)
        return bad(res, "watermarking_config", "greenlist_ratio must be 0.0 to 1.0", err);
    if (width < 1)
        return bad(res, "watermarking_config", "context_width must be an integer from 1", err);
    if (scheme && !cdz_json_eq(scheme, "lefthash") && !cdz_json_eq(scheme, "selfhash"))
        return bad(res, "watermarking_config", "seeding_scheme must be lefthash or selfhash", err);
    return CDZ_OK;
}

static cdz_status check_errors(cdz_resolution *res, cdz_error *err)
{
    const cdz_json *compile = value_of(res, "compile_config");
    CDZ_TRY(check_cache(res, err));
    CDZ_TRY(check_cache_config(res, err));
    CDZ_TRY(check_rows(res, err));
    CDZ_TRY(check_watermark(res, err));
    if (compile) return bad(res, "compile_config", "nothing is compiled here; remove it", err);
    if (res->generation.low_memory.value && res->generation.num_beams > 1)
        return bad(res, "low_memory", "is not possible with beams", err);
    if (res->generation.prefill_chunk_size.set && !res->generation.use_cache && !res->has_embeds)
        return bad(res, "prefill_chunk_size", "needs use_cache = true", err);
    return CDZ_OK;
}

/* Notes a minor issue; true when the user wrote the value and so should read about it. */
static bool minor(cdz_resolution *res, const char *name, bool issue)
{
    if (!issue || res->n_minor == CDZ_MAX_MINOR) return false;
    res->minor[res->n_minor++] = name;
    return res->origins[cdz_generation_slot(name)].source > CDZ_SOURCE_MODEL;
}

static bool differs(cdz_opt_real value, double from)
{
    return value.set && value.value != from;
}

typedef struct issue {
    const char *name;
    bool here;
} issue;

/* One warning for all issues of a kind: "temperature, top_k do nothing without do_sample = true". */
static void report(cdz_resolution *res, const issue *issues, size_t n, const char *why)
{
    char names[512];
    size_t len = 0;
    unsigned count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!minor(res, issues[i].name, issues[i].here)) continue;
        int wrote =
            snprintf(names + len, sizeof names - len, "%s%s", count++ ? ", " : "", issues[i].name);
        if (wrote > 0 && (size_t)wrote < sizeof names - len) len += (size_t)wrote;
    }
    if (count && why)
        cdz_warn(&res->warnings, res->arena, "%s %s nothing %s", names, count > 1 ? "do" : "does",
                 why);
}

static void check_sampling(cdz_resolution *res)
{
    const cdz_generation *g = &res->generation;
    const issue issues[] = {
        {"temperature", differs(g->temperature, 1.0)},
        {"top_p", differs(g->top_p, 1.0)},
        {"min_p", g->min_p.set},
        {"top_h", g->top_h.set},
        {"typical_p", differs(g->typical_p, 1.0)},
        {"top_k", g->top_k.set && g->top_k.value != 50 && !g->penalty_alpha.set},
        {"epsilon_cutoff", differs(g->epsilon_cutoff, 0.0)},
        {"eta_cutoff", differs(g->eta_cutoff, 0.0)},
    };
    if (!g->do_sample)
        report(res, issues, sizeof issues / sizeof issues[0],
               res->zero_temperature ? NULL : "without do_sample = true");
}

static void check_beams(cdz_resolution *res)
{
    const cdz_generation *g = &res->generation;
    const issue issues[] = {
        {"early_stopping", g->early_stopping.set && g->early_stopping.value != 0},
        {"length_penalty", differs(g->length_penalty, 1.0)},
    };
    if (g->num_beams == 1)
        report(res, issues, sizeof issues / sizeof issues[0], "without num_beams above 1");
}

/* By the user, not by the model's files. */
static bool asked_for(const cdz_resolution *res, const char *name)
{
    return res->origins[cdz_generation_slot(name)].source > CDZ_SOURCE_MODEL;
}

/* transformers warns of these, and means a static cache by them. */
static bool old_name(const char *cache)
{
    return cache && (strcmp(cache, "sliding_window") == 0 || strstr(cache, "hybrid"));
}

static void check_cache_use(cdz_resolution *res)
{
    const issue issues[] = {
        {"cache_implementation", res->generation.cache_implementation != NULL},
        {"cache_config", value_of(res, "cache_config") != NULL},
    };
    if (!res->generation.use_cache) {
        report(res, issues, sizeof issues / sizeof issues[0], "with use_cache = false");
        return;
    }
    if (issues[1].here && !res->generation.quantized.on && asked_for(res, "cache_config"))
        cdz_warn(&res->warnings, res->arena,
                 "cache_config does nothing without cache_implementation = quantized");
    if (old_name(res->generation.cache_implementation) && asked_for(res, "cache_implementation"))
        cdz_warn(&res->warnings, res->arena,
                 "cache_implementation = %s is an old name: write static or offloaded_static",
                 res->generation.cache_implementation);
}

/* Cadenza gives what was asked for without return_dict_in_generate: an issue there, no warning here. */
static void check_outputs(cdz_resolution *res)
{
    const cdz_generation *g = &res->generation;
    const issue issues[] = {
        {"output_scores", g->output_scores},
        {"output_logits", g->output_logits},
        {"output_attentions", g->output_attentions},
        {"output_hidden_states", g->output_hidden_states},
    };
    if (!g->return_dict_in_generate) report(res, issues, sizeof issues / sizeof issues[0], NULL);
}

static void check_ids(cdz_resolution *res)
{
    const cdz_generation *g = &res->generation;
    if (minor(res, "pad_token_id", g->pad_token_id.set && g->pad_token_id.value < 0))
        cdz_warn(&res->warnings, res->arena, "pad_token_id is negative");
    for (uint32_t i = 0; i < g->eos_token_id.len; i++) {
        if (g->eos_token_id.at[i] >= 0) continue;
        cdz_warn(&res->warnings, res->arena,
                 "eos_token_id %lld is negative: no token ever equals it",
                 (long long)g->eos_token_id.at[i]);
    }
}

/* --- what follows from the values ------------------------------------------------------------------------ */

static bool given(const cdz_resolution *res, const char *name)
{
    return res->origins[cdz_generation_slot(name)].source != CDZ_SOURCE_DEFAULT;
}

static void warn_shadowed(cdz_resolution *res, const char *total, const char *new_tokens)
{
    char where[256];
    const cdz_origin *origin = &res->origins[cdz_generation_slot(total)];
    if (origin->source <= CDZ_SOURCE_MODEL || !value_of(res, total)) return;
    cdz_origin_prefix(origin, where, sizeof where);
    cdz_warn(&res->warnings, res->arena, "%s%s is not used: %s is set too, and wins", where, total,
             new_tokens);
}

static void derive(cdz_resolution *res)
{
    cdz_generation *g = &res->generation;
    g->max_length_given = given(res, "max_length");
    g->min_length_given = given(res, "min_length");
    if (g->eos_token_id.len == 0) g->eos_token_id.set = false;
    if (!g->pad_token_id.set && g->eos_token_id.set)
        g->pad_token_id = (cdz_opt_int){g->eos_token_id.at[0], true};
    if (g->max_new_tokens.set) warn_shadowed(res, "max_length", "max_new_tokens");
    if (g->min_new_tokens.set) warn_shadowed(res, "min_length", "min_new_tokens");
}

cdz_status cdz_resolution_finish(cdz_resolution *res, cdz_error *err)
{
    CDZ_TRY(write_values(res, err));
    CDZ_TRY(check_errors(res, err));
    check_sampling(res);
    check_beams(res);
    check_cache_use(res);
    check_outputs(res);
    check_ids(res);
    derive(res);
    return CDZ_OK;
}
