/* recurrent.c - what config.json says of recurrent layers: which they are, the sizes of their states, how what they give is gated.
 * Keys and defaults as in transformers' configuration classes; what a family has of this is its cdz_recurrent_rules. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "load/config_keys.h"
#include "load/families.h"

enum {
    MOST_LAYERS = 10000,
    MOST_HEADS = 1 << 14,
    MOST_DIM = 1 << 12,
    MOST_WIDTH = 1 << 20,
    MOST_INNER = 1 << 24
};
static const float LARGEST_STEP = 3.0e38f;

/* --- questions ----------------------------------------------------------------------------- */

bool cdz_arch_mixes(const cdz_arch *a, uint32_t layer, cdz_mixer mixer)
{
    return ((a->mixers ? a->mixers[layer] : CDZ_MIX_ATTENTION) & mixer) != 0;
}

uint32_t cdz_arch_kv_layers(const cdz_arch *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i + a->n_kv_shared < a->n_layers; i++)
        n += cdz_arch_mixes(a, i, CDZ_MIX_ATTENTION);
    return n;
}

uint32_t cdz_arch_kv_place(const cdz_arch *arch, uint32_t layer)
{
    return arch->kv_place ? arch->kv_place[layer] : layer;
}

bool cdz_arch_attends(const cdz_arch *a)
{
    return !a->mixers || cdz_arch_kv_layers(a) > 0;
}

bool cdz_arch_feeds(const cdz_arch *a, uint32_t layer)
{
    return !a->feeds || a->feeds[layer];
}

size_t cdz_recurrent_width(const cdz_arch *a)
{
    const cdz_recurrent *r = &a->recurrent;
    if (r->kind == CDZ_MIX_CONV) return a->hidden;
    return (size_t)r->heads * r->columns;
}

size_t cdz_recurrent_channels(const cdz_arch *a)
{
    const cdz_recurrent *r = &a->recurrent;
    return cdz_recurrent_width(a) + 2 * (size_t)r->groups * r->rows;
}

/* Whole lines of the cache. */
static size_t rounded(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

size_t cdz_recurrent_window(const cdz_arch *a)
{
    return rounded((a->recurrent.taps - 1) * cdz_recurrent_channels(a));
}

size_t cdz_recurrent_floats(const cdz_arch *a)
{
    const cdz_recurrent *r = &a->recurrent;
    return cdz_recurrent_window(a) + rounded((size_t)r->heads * r->rows * r->columns);
}

uint64_t cdz_arch_state_floats(const cdz_arch *a)
{
    uint64_t n = 0;
    for (uint32_t i = 0; a->recurrent.kind && i < a->n_layers; i++)
        n += cdz_arch_mixes(a, i, CDZ_MIX_RECURRENT);
    return n ? n * cdz_recurrent_floats(a) : 0;
}

/* --- which layers -------------------------------------------------------------------------- */

static const cdz_json *types_of(const cdz_keys *k, const cdz_recurrent_rules *r, const char **key)
{
    const char *const keys[] = {r->types, r->old_types, r->letters};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cdz_json *list = keys[i] ? cdz_key(k, keys[i]) : NULL;
        *key = keys[i];
        if (list) return list;
    }
    return NULL;
}

cdz_status cdz_recurrent_count(const cdz_keys *k, const cdz_arch *a, uint32_t *n)
{
    const char *key;
    const cdz_recurrent_rules *r = a->family->recurrent;
    const cdz_json *list = r && r->alone ? types_of(k, r, &key) : NULL;
    if (!list) return CDZ_OK;
    const bool letters = list->type == CDZ_JSON_STRING;
    const size_t len = letters ? strlen(list->string) : list->len;
    if ((!letters && list->type != CDZ_JSON_ARRAY) || len == 0 || len > MOST_LAYERS)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %s is %s of %zu, expected a list of 1 to %d layers' kinds", k->path,
                       key, cdz_json_type_name(list), len, MOST_LAYERS);
    *n = (uint32_t)len;
    return CDZ_OK;
}

/* What layers are, one after the other. */
typedef struct layer_kinds {
    uint8_t *mixers;
    bool *feeds, *plain;
} layer_kinds;

/* A layer's kind by its word, or by its letter: M, *, E and -. */
static bool kind_of(const cdz_recurrent_rules *r, const cdz_json *list, uint32_t i,
                    const layer_kinds *to)
{
    const bool letters = list->type == CDZ_JSON_STRING;
    const cdz_json *word = letters ? NULL : &list->items[i];
    const char letter = letters ? list->string[i] : '\0';
    const bool recurs = letters ? letter == 'M' : cdz_json_eq(word, r->word);
    const bool attends = letters ? letter == '*' : cdz_json_eq(word, r->attention_word);
    const bool plain = letters ? letter == '-' : r->plain_word && cdz_json_eq(word, r->plain_word);
    const bool only_feeds =
        plain || (letters ? letter == 'E' : r->feed_word && cdz_json_eq(word, r->feed_word));
    to->mixers[i] = recurs ? (uint8_t)r->kind : attends ? CDZ_MIX_ATTENTION : 0;
    to->feeds[i] = r->alone ? only_feeds : !r->no_feed;
    to->plain[i] = plain;
    return recurs || attends || only_feeds;
}

static cdz_status unknown_kind(const cdz_keys *k, const cdz_recurrent_rules *r, const char *key,
                               uint32_t i, bool letters)
{
    char words[96];
    if (letters)
        snprintf(words, sizeof words, "M, *, E and -");
    else if (r->feed_word)
        snprintf(words, sizeof words, "%s, %s, %s and %s", r->word, r->attention_word, r->feed_word,
                 r->plain_word);
    else
        snprintf(words, sizeof words, "%s and %s", r->word, r->attention_word);
    return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s[%u] is not supported; supported are %s",
                   k->path, key, (unsigned)i, words);
}

static cdz_status read_types(const cdz_keys *k, const cdz_arch *a, const cdz_json *list,
                             const char *key, const layer_kinds *to)
{
    const cdz_recurrent_rules *r = a->family->recurrent;
    const bool letters = list->type == CDZ_JSON_STRING;
    const size_t len = letters ? strlen(list->string) : list->len;
    if ((!letters && list->type != CDZ_JSON_ARRAY) || len != a->n_layers)
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %s must be an array of num_hidden_layers (%u) names", k->path, key,
                       (unsigned)a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (!kind_of(r, list, i, to)) return unknown_kind(k, r, key, i, letters);
    return CDZ_OK;
}

/* A list of the layers with attention. */
static cdz_status read_attention_list(const cdz_keys *k, const cdz_arch *a, const cdz_json *list,
                                      uint8_t *mixers)
{
    const cdz_recurrent_rules *r = a->family->recurrent;
    if (list->type != CDZ_JSON_ARRAY)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s is %s, expected an array", k->path,
                       r->attention_list, cdz_json_type_name(list));
    for (uint32_t i = 0; i < a->n_layers; i++) mixers[i] = (uint8_t)r->kind;
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *layer = &list->items[i];
        if (layer->type != CDZ_JSON_INT || layer->integer < 0 ||
            layer->integer >= (int64_t)a->n_layers)
            return cdz_err(k->err, CDZ_E_INPUT,
                           "%s: %s[%u] is no layer, expected a number from 0 to %u", k->path,
                           r->attention_list, (unsigned)i, (unsigned)a->n_layers - 1);
        mixers[layer->integer] = CDZ_MIX_ATTENTION;
    }
    return CDZ_OK;
}

static cdz_status read_kinds(const cdz_keys *k, const cdz_arch *a, const layer_kinds *to)
{
    uint8_t *mixers = to->mixers;
    const cdz_recurrent_rules *r = a->family->recurrent;
    const char *key;
    uint32_t interval = r->usual_interval;
    const cdz_json *types = types_of(k, r, &key);
    const cdz_json *list = r->attention_list ? cdz_key(k, r->attention_list) : NULL;
    const bool recurs = r->usually_recurrent || r->beside;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        mixers[i] = recurs ? (uint8_t)r->kind : CDZ_MIX_ATTENTION;
        if (r->beside) mixers[i] |= CDZ_MIX_ATTENTION;
        to->feeds[i] = !r->no_feed;
    }
    if (r->beside) return CDZ_OK;
    if (types) return read_types(k, a, types, key, to);
    if (r->alone) return cdz_err(k->err, CDZ_E_INPUT, "%s: %s is missing", k->path, r->types);
    if (list) return read_attention_list(k, a, list, mixers);
    if (!r->interval) return CDZ_OK;
    CDZ_TRY(cdz_key_size(k, r->interval, &interval, MOST_LAYERS, &interval));
    for (uint32_t i = 0; i < a->n_layers; i++)
        mixers[i] = (i + 1) % interval ? (uint8_t)r->kind : CDZ_MIX_ATTENTION;
    return CDZ_OK;
}

/* Where a layer is a feed-forward without experts, its width is required. */
static cdz_status read_plain(const cdz_keys *k, cdz_arch *a, const bool *plain)
{
    for (uint32_t i = 0; i < a->n_layers; i++) {
        if (!plain[i]) continue;
        a->recurrent.plain = plain;
        return cdz_key_size(k, "intermediate_size", NULL, MOST_INNER, &a->intermediate);
    }
    return CDZ_OK;
}

static cdz_status read_layers(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    uint8_t *mixers = cdz_arena_array(arena, a->n_layers, sizeof *mixers);
    bool *feeds = cdz_arena_array(arena, (size_t)a->n_layers * 2, sizeof *feeds);
    uint32_t *places = cdz_arena_array(arena, (size_t)a->n_layers * 2, sizeof *places);
    uint32_t n_kv = 0, n_states = 0;
    if (!mixers || !feeds || !places) return cdz_err_memory_in(k->err, k->path);
    const layer_kinds to = {mixers, feeds, feeds + a->n_layers};
    CDZ_TRY(read_kinds(k, a, &to));
    a->mixers = mixers;
    a->feeds = feeds;
    CDZ_TRY(read_plain(k, a, to.plain));
    a->kv_place = places;
    a->state_place = places + a->n_layers;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        places[i] = n_kv;
        places[a->n_layers + i] = n_states;
        n_kv += cdz_arch_mixes(a, i, CDZ_MIX_ATTENTION);
        n_states += cdz_arch_mixes(a, i, CDZ_MIX_RECURRENT);
    }
    return CDZ_OK;
}

/* --- sizes --------------------------------------------------------------------------------- */

static cdz_status read_size(const cdz_keys *k, const cdz_size_key *key, uint32_t max, uint32_t *out)
{
    const char *name =
        key->old_key && !cdz_key(k, key->key) && cdz_key(k, key->old_key) ? key->old_key : key->key;
    if (!name) return CDZ_OK;
    return cdz_key_size(k, name, key->usual ? &key->usual : NULL, max, out);
}

/* "auto": as many as heads share of the inner width, which is said or is so many times the hidden one. */
static cdz_status read_columns(const cdz_keys *k, const cdz_recurrent_rules *rules, cdz_arch *a)
{
    cdz_recurrent *r = &a->recurrent;
    const cdz_json *given = rules->columns.key ? cdz_key(k, rules->columns.key) : NULL;
    const bool none = rules->inner && cdz_key_is_null(k, rules->inner);
    uint32_t expand = rules->usual_expand, inner = rules->usual_inner;
    if (rules->expand) {
        CDZ_TRY(cdz_key_size(k, rules->expand, &expand, 64, &expand));
        if (!rules->inner || none) inner = a->hidden * expand;
    }
    if (rules->inner && !none)
        CDZ_TRY(cdz_key_size(k, rules->inner, inner ? &inner : NULL, MOST_WIDTH, &inner));
    const bool automatic = given ? cdz_json_eq(given, "auto") : rules->columns.usual == 0;
    if (!automatic || !rules->expand)
        CDZ_TRY(read_size(k, &rules->columns, MOST_DIM, &r->columns));
    else
        r->columns = inner / r->heads;
    if (!rules->expand || (r->columns && (uint64_t)r->columns * r->heads == inner)) return CDZ_OK;
    return cdz_err(k->err, CDZ_E_INPUT, "%s: %s: %u heads of %u do not make the inner width of %u",
                   k->path, rules->columns.key, (unsigned)r->heads, (unsigned)r->columns,
                   (unsigned)inner);
}

static cdz_status read_sizes(const cdz_keys *k, const cdz_recurrent_rules *rules, cdz_arch *a)
{
    cdz_recurrent *r = &a->recurrent;
    CDZ_TRY(read_size(k, &rules->taps, CDZ_CONV_TAPS_MOST, &r->taps));
    if (r->taps < 2)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED, "%s: %s %u is not supported; expected 2 to %d",
                       k->path, rules->taps.key, (unsigned)r->taps, CDZ_CONV_TAPS_MOST);
    if (r->kind == CDZ_MIX_CONV) return CDZ_OK;
    CDZ_TRY(read_size(k, &rules->heads, MOST_HEADS, &r->heads));
    CDZ_TRY(read_size(k, &rules->groups, MOST_HEADS, &r->groups));
    CDZ_TRY(read_size(k, &rules->rows, MOST_DIM, &r->rows));
    CDZ_TRY(read_columns(k, rules, a));
    if (r->heads % r->groups)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s %u is not a multiple of %s %u", k->path,
                       rules->heads.key, (unsigned)r->heads, rules->groups.key, (unsigned)r->groups);
    if (cdz_recurrent_channels(a) > MOST_WIDTH)
        return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                       "%s: a recurrent layer of %zu channels is not supported; expected at most %d",
                       k->path, cdz_recurrent_channels(a), MOST_WIDTH);
    return CDZ_OK;
}

/* --- numbers ------------------------------------------------------------------------------- */

/* A number, or the word that stands for one without end: Infinity, as transformers writes it. */
static bool end_of(const cdz_json *value, double *out)
{
    const cdz_json *word = value->type == CDZ_JSON_OBJECT ? cdz_json_get(value, "__float__") : value;
    if (word && (cdz_json_eq(word, "Infinity") || cdz_json_eq(word, "inf"))) {
        *out = (double)LARGEST_STEP;
        return true;
    }
    return cdz_json_number(value, out) && *out >= 0;
}

static cdz_status read_limits(const cdz_keys *k, const cdz_recurrent_rules *rules, cdz_recurrent *r)
{
    double low = 0, high = (double)LARGEST_STEP;
    const cdz_json *pair = rules->limit ? cdz_key(k, rules->limit) : NULL;
    if (pair && (pair->type != CDZ_JSON_ARRAY || pair->len != 2 || !end_of(&pair->items[0], &low) ||
                 !end_of(&pair->items[1], &high) || low > high))
        return cdz_err(k->err, CDZ_E_INPUT,
                       "%s: %s is no pair of numbers, the lower one first, expected such as "
                       "[0.0, Infinity]",
                       k->path, rules->limit);
    if (rules->least) {
        const char *old = "mamba_dt_min";
        const char *key = cdz_key(k, rules->least) || !cdz_key(k, old) ? rules->least : old;
        CDZ_TRY(cdz_key_real(k, key, 0.001, 0, 1e6, &low));
    }
    r->low = (float)low;
    r->high = (float)fmin(high, (double)LARGEST_STEP);
    return CDZ_OK;
}

static cdz_status read_flags(const cdz_keys *k, const cdz_recurrent_rules *rules, cdz_recurrent *r)
{
    bool on = false, first = true;
    if (rules->conv_bias)
        CDZ_TRY(cdz_key_bool(k, rules->conv_bias, rules->usual_conv_bias, &r->conv_bias));
    if (rules->in_bias) CDZ_TRY(cdz_key_bool(k, rules->in_bias, false, &r->in_bias));
    if (rules->out_bias) CDZ_TRY(cdz_key_bool(k, rules->out_bias, false, &r->out_bias));
    r->norm = rules->norm;
    if (!rules->norm_keys) return CDZ_OK;
    CDZ_TRY(cdz_key_bool(k, "mamba_rms_norm", false, &on));
    CDZ_TRY(cdz_key_bool(k, "mamba_norm_before_gate", true, &first));
    if (on) r->norm = first ? CDZ_GATED_FIRST : CDZ_GATED_GROUPS;
    return CDZ_OK;
}

/* The convolution's activation is silu, in all that are known. */
static cdz_status check_curve(const cdz_keys *k, const cdz_recurrent_rules *rules, const cdz_arch *a)
{
    const char *key = rules->curve ? rules->curve : a->keys->activation;
    const cdz_json *given = rules->kind == CDZ_MIX_CONV ? NULL : cdz_key(k, key);
    if (!given || cdz_json_eq(given, "silu") || cdz_json_eq(given, "swish")) return CDZ_OK;
    return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                   "%s: %s %.40s is not supported in recurrent layers; expected silu", k->path, key,
                   given->type == CDZ_JSON_STRING ? given->string : cdz_json_type_name(given));
}

static cdz_status read_factor(const cdz_keys *k, const char *key, float *out)
{
    double x;
    CDZ_TRY(cdz_key_real(k, key, 1, -1e9, 1e9, &x));
    *out = (float)x;
    return CDZ_OK;
}

static cdz_status read_factors(const cdz_keys *k, const char *key, float *const *out, uint32_t n)
{
    const cdz_json *list = cdz_key(k, key);
    double x;
    if (!list) return CDZ_OK;
    if (list->type != CDZ_JSON_ARRAY || list->len != n)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s is no list of %u numbers", k->path, key,
                       (unsigned)n);
    for (uint32_t i = 0; i < n; i++) {
        if (!cdz_json_number(&list->items[i], &x) || !(fabs(x) <= 1e9))
            return cdz_err(k->err, CDZ_E_INPUT, "%s: %s[%u] is %s, expected a number", k->path, key,
                           (unsigned)i, cdz_json_type_name(&list->items[i]));
        *out[i] = (float)x;
    }
    return CDZ_OK;
}

/* falcon_h1's; null is 1. */
static cdz_status read_multipliers(const cdz_keys *k, cdz_arch *a)
{
    cdz_recurrent *r = &a->recurrent;
    float *const parts[CDZ_SSD_PARTS] = {&r->part_scale[0], &r->part_scale[1], &r->part_scale[2],
                                         &r->part_scale[3], &r->part_scale[4]};
    float *const feed[] = {&a->gate_scale, &a->down_scale};
    CDZ_TRY(read_factor(k, "embedding_multiplier", &a->embed_scale));
    CDZ_TRY(read_factor(k, "lm_head_multiplier", &a->head_scale));
    CDZ_TRY(read_factor(k, "attention_in_multiplier", &a->attention_in));
    CDZ_TRY(read_factor(k, "attention_out_multiplier", &a->attention_out));
    CDZ_TRY(read_factor(k, "key_multiplier", &a->key_scale));
    CDZ_TRY(read_factor(k, "ssm_in_multiplier", &r->in_scale));
    CDZ_TRY(read_factor(k, "ssm_out_multiplier", &r->out_scale));
    CDZ_TRY(read_factors(k, "ssm_multipliers", parts, CDZ_SSD_PARTS));
    return read_factors(k, "mlp_multipliers", feed, 2);
}

cdz_status cdz_recurrent_read(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const cdz_recurrent_rules *rules = a->family->recurrent;
    cdz_recurrent *r = &a->recurrent;
    a->attention_in = a->attention_out = a->key_scale = a->gate_scale = a->down_scale = 1;
    a->attention_gate = a->family->attention_gate;
    if (!rules) return CDZ_OK;
    *r = (cdz_recurrent){.kind = rules->kind, .in_scale = 1, .out_scale = 1};
    for (size_t i = 0; i < CDZ_SSD_PARTS; i++) r->part_scale[i] = 1;
    CDZ_TRY(read_layers(k, arena, a));
    CDZ_TRY(read_sizes(k, rules, a));
    CDZ_TRY(read_limits(k, rules, r));
    CDZ_TRY(read_flags(k, rules, r));
    CDZ_TRY(check_curve(k, rules, a));
    return rules->multiplied ? read_multipliers(k, a) : CDZ_OK;
}
