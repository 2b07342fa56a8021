/* altup.c - what gemma3n's config.json says beyond gemma3's: rows of several streams, what layers get of the token itself, layers that
 * use others' keys, gates that are cut. */
#include <math.h>

#include "load/config_keys.h"
#include "load/families.h"

enum { MOST_STREAMS = 16, MOST_WIDTH = 1 << 24 };

/* Deviations from the mean below which a share of a normal distribution lies. */
static float deviations(double share)
{
    double low = -40, high = 40;
    for (int i = 0; i < 128; i++) {
        const double middle = (low + high) / 2;
        if (erfc(-middle / sqrt(2)) / 2 < share)
            low = middle;
        else
            high = middle;
    }
    return (float)high;
}

/* activation_sparsity_pattern: a share for each layer, or one for all; without it, the first ten of more than ten layers have 0.95. */
static cdz_status read_cuts(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const char *key = "activation_sparsity_pattern";
    const uint32_t sparse = a->n_layers > 10 ? 10 : 0;
    const cdz_json *given = cdz_key(k, key);
    const bool list = cdz_json_is(given, CDZ_JSON_ARRAY);
    float *cut = cdz_arena_array(arena, a->n_layers, sizeof *cut);
    if (!cut) return cdz_err_memory_in(k->err, k->path);
    if (list && given->len != a->n_layers)
        return cdz_err(k->err, CDZ_E_INPUT, "%s: %s has %u numbers, expected num_hidden_layers (%u)",
                       k->path, key, (unsigned)given->len, (unsigned)a->n_layers);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        double share = i < sparse ? 0.95 : 0;
        if (given && !cdz_json_number(list ? &given->items[i] : given, &share)) share = -1;
        if (!(share >= 0 && share < 1))
            return cdz_err(k->err, CDZ_E_INPUT,
                           "%s: %s of layer %u must be a number from 0 to below 1", k->path, key,
                           (unsigned)i);
        cut[i] = share > 0 ? deviations(share) : -INFINITY;
    }
    a->streams.cut = cut;
    return CDZ_OK;
}

/* The last layers use the keys of the last one before them that has a window as they have, or none. */
static cdz_status read_shared_keys(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    uint32_t shared;
    CDZ_TRY(cdz_key_count(k, "num_kv_shared_layers", 15, MOST_WIDTH, &shared));
    if (shared == 0 || shared >= a->n_layers) return CDZ_OK;
    const uint32_t own = a->n_layers - shared;
    uint32_t *place = cdz_arena_array(arena, a->n_layers, sizeof *place);
    if (!place) return cdz_err_memory_in(k->err, k->path);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        uint32_t from = i < own ? i + 1 : own;
        while (i >= own && from > 0 && !a->window[from - 1] != !a->window[i]) from--;
        if (from == 0)
            return cdz_err(k->err, CDZ_E_INPUT,
                           "%s: num_kv_shared_layers %u leaves layer %u none to share keys with",
                           k->path, (unsigned)shared, (unsigned)i);
        place[i] = from - 1;
    }
    a->kv_place = place;
    a->n_kv_shared = shared;
    return CDZ_OK;
}

cdz_status cdz_arch_read_streams(const cdz_keys *k, cdz_arena *arena, cdz_arch *a)
{
    const uint32_t four = 4, rank = 64, inner = 256, vocab = 262144;
    cdz_streams *s = &a->streams;
    CDZ_TRY(cdz_key_size(k, "altup_num_inputs", &four, MOST_STREAMS, &s->n));
    CDZ_TRY(cdz_key_count(k, "altup_active_idx", 0, s->n - 1, &s->active));
    CDZ_TRY(cdz_key_bool(k, "altup_correct_scale", true, &s->scaled));
    CDZ_TRY(cdz_key_size(k, "laurel_rank", &rank, MOST_WIDTH, &s->rank));
    CDZ_TRY(cdz_key_size(k, "hidden_size_per_layer_input", &inner, 1 << 14, &s->inner));
    CDZ_TRY(cdz_key_size(k, "vocab_size_per_layer_input", &vocab, MOST_WIDTH, &s->vocab));
    CDZ_TRY(read_cuts(k, arena, a));
    return read_shared_keys(k, arena, a);
}

cdz_status cdz_arch_read_inner_list(const cdz_keys *k, const char *key, cdz_arch *a)
{
    const cdz_json *list = cdz_key(k, key);
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *one = &list->items[i];
        if (one->type != CDZ_JSON_INT || one->integer < 1 || one->integer > MOST_WIDTH)
            return cdz_err(k->err, CDZ_E_INPUT, "%s: %s[%u] is no whole number from 1 to %d",
                           k->path, key, (unsigned)i, (int)MOST_WIDTH);
        if (one->integer != list->items[0].integer)
            return cdz_err(k->err, CDZ_E_UNSUPPORTED,
                           "%s: %s of several widths is not supported; expected one for all layers",
                           k->path, key);
    }
    if (list->len == 0) return cdz_err(k->err, CDZ_E_INPUT, "%s: %s is empty", k->path, key);
    a->intermediate = (uint32_t)list->items[0].integer;
    return CDZ_OK;
}
