/* cache.c - verbs on what a sequence's cache holds (cadenza/ext/kv.h): taking positions out of it, and looking into it.
 *
 * Owns: the rooms of what was looked at, which the next look writes over. Not: drops (run/pass/drop.c), captured rows
 * (run/pass/capture.c). */
#include "cadenza/ext/kv.h"

#include <inttypes.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"
#include "run/pass/entries.h"
#include "run/pass/model.h"

/* --- taking out --------------------------------------------------------------------------------------------------- */

static cdz_status check_request(cdz_loop *loop, const cdz_seq *seq)
{
    const cdz_generation *g = &loop->rows.config;
    if (seq->press)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_drop: a press of the pipeline compresses this sequence; either it "
                             "or the loop takes positions out");
    if (!g->use_cache)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_drop: without a cache (use_cache = false) nothing is dropped");
    if (seq->account->spans)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_drop: nothing is taken out of a quantised cache "
                             "(cache_implementation = quantized)");
    if (loop->job->keep_hidden || loop->job->keep_attentions)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_drop: output_attentions and output_hidden_states show whole "
                             "caches");
    return CDZ_OK;
}

static cdz_status check_range(cdz_loop *loop, const cdz_seq *seq, uint32_t from, uint32_t to)
{
    if (from < to && to <= seq->known) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                         "seq_drop: positions %" PRIu32 " to %" PRIu32
                         " of a sequence of which %" PRIu32 " have been read",
                         cdz_loop_nth(loop, from), to, seq->known);
}

/* What is left lies at the places 0, 1, 2 once it was renumbered, and drops that leave gaps would not be told from it. */
static cdz_status check_numbering(cdz_loop *loop, const cdz_seq *seq, bool renumber)
{
    const cdz_drop *last = seq->n_drops ? cdz_drops_at(seq->drops, seq->n_drops - 1) : NULL;
    if (!last || last->renumber == renumber) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_STATE,
                         "seq_drop: earlier drops of this sequence %s positions, so this one has to "
                         "as well",
                         last->renumber ? "renumbered" : "kept");
}

static cdz_status drop(cdz_decoder *dec, cdz_seq *seq, uint32_t from, uint32_t to, uint32_t flags)
{
    cdz_loop *loop = cdz_loop_of(dec);
    const bool renumber = flags & CDZ_DROP_RENUMBER;
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (flags & ~(uint32_t)CDZ_DROP_RENUMBER)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_drop: flags 0x%" PRIx32 "; known is 0x%x",
                             flags, (unsigned)CDZ_DROP_RENUMBER);
    CDZ_TRY(check_request(loop, seq));
    CDZ_TRY(cdz_drop_fits(seq->model, renumber, &loop->rows.error));
    CDZ_TRY(check_range(loop, seq, from, to));
    CDZ_TRY(check_numbering(loop, seq, renumber));
    return cdz_seq_take_out(seq, from, to, renumber, &loop->rows.error);
}

/* --- looking in --------------------------------------------------------------------------------------------------- */

static cdz_status check_place(cdz_loop *loop, const cdz_seq *seq, uint32_t layer, uint32_t head)
{
    const cdz_arch *a = &seq->model->weights->arch;
    const uint32_t depth = seq->n_layers ? seq->n_layers : a->n_layers;
    if (layer >= depth)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_kv: layer %" PRIu32 " of %" PRIu32, layer,
                             depth);
    if (!cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION))
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "seq_kv: layer %" PRIu32 " is recurrent, and has no keys and values",
                             layer);
    if (head < a->n_kv_heads) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_kv: kv head %" PRIu32 " of %" PRIu32, head,
                         a->n_kv_heads);
}

static const char *hidden_by(const cdz_seq *seq)
{
    const cdz_run_model *model = seq->model;
    const cdz_backend_api *api = model->device->api;
    if (model->function.forward) return "a model with passes of its own has no keys and values";
    if (model->weights->arch.latent.kv_rank) return "latent attention caches latents, not keys";
    if (!api->kv_get) return "caches on this device cannot be read";
    return seq->account->spans ? "a quantised cache has no plain ones" : NULL;
}

static cdz_status check_visible(cdz_loop *loop, const cdz_seq *seq)
{
    const char *why = hidden_by(seq);
    if (!why) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED, "seq_kv: %s", why);
}

/* What is looked at lies in scratch memory; nothing is a piece of it, too. */
static void *room(cdz_loop *loop, size_t n, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(n + 1, bytes, &all)) return NULL;
    return cdz_scratch_take(&loop->rows.verb_scratch, all);
}

/* Blocks may have been taken from it while the loop was outside. */
static cdz_status bring_back(cdz_loop *loop, cdz_seq *seq)
{
    return seq->computed < seq->known ? cdz_loop_reread(loop, seq) : CDZ_OK;
}

static cdz_status read_entries(cdz_decoder *dec, cdz_seq *seq, uint32_t layer, uint32_t head,
                               uint32_t from, uint32_t to, cdz_kv_entries *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    CDZ_TRY(check_visible(loop, seq));
    CDZ_TRY(check_place(loop, seq, layer, head));
    CDZ_TRY(bring_back(loop, seq));
    const cdz_entries e = cdz_entries_of(seq, layer, head);
    const uint32_t first = cdz_entries_before(&e, from), end = cdz_entries_before(&e, to);
    const uint32_t d = seq->model->weights->arch.head_dim, n = end > first ? end - first : 0;
    uint32_t *positions = room(loop, n, sizeof *positions);
    float *floats = room(loop, 2 * (size_t)cdz_entries_room(n), d * sizeof *floats);
    if (!positions || !floats) return cdz_loop_nomem(loop);
    for (uint32_t i = 0; i < n; i++) positions[i] = cdz_entries_position(&e, first + i);
    *out = (cdz_kv_entries){.size = sizeof *out, .n = n, .head_dim = d, .positions = positions};
    cdz_entries_read(&e, first, n, floats, &out->keys, &out->values);
    return CDZ_OK;
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

static cdz_status check_queries(cdz_loop *loop, const cdz_seq *seq, uint32_t n_queries,
                                const uint32_t *layers, uint32_t n_layers)
{
    const cdz_arch *a = &seq->model->weights->arch;
    if (seq->model->function.forward || a->latent.kv_rank || seq->mask || seq->embeds)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "seq_attention: not of a model with passes of its own or latent "
                             "attention, nor of a prompt with a mask or embeddings");
    if (n_queries == 0 || n_queries > cdz_seq_visible(seq))
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_attention: the newest %" PRIu32 " of %" PRIu32 " positions",
                             n_queries, cdz_seq_visible(seq));
    for (uint32_t i = 0; i < n_layers; i++) {
        if (layers[i] < a->n_layers && cdz_arch_mixes(a, layers[i], CDZ_MIX_ATTENTION)) continue;
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_attention: layer %" PRIu32 " is none of %" PRIu32 " that attends",
                             layers[i], a->n_layers);
    }
    if (n_layers) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_PLUGIN, "seq_attention: of no layer");
}

/* Weights of one query over a head's entries go to their positions, from the last one on: none lies before its place. */
static void place_weights(const cdz_entries *e, float *weights, uint32_t n_keys)
{
    uint32_t end = n_keys;
    for (uint32_t i = e->n; i-- > 0;) {
        const uint32_t p = cdz_entries_position(e, i);
        const float w = weights[i];
        for (uint32_t gap = p + 1; gap < end; gap++) weights[gap] = 0.0f;
        weights[i] = 0.0f;
        weights[p] = w;
        end = p;
    }
    for (uint32_t gap = 0; gap < end; gap++) weights[gap] = 0.0f;
}

static void place_all(const cdz_seq *seq, const uint32_t *layers, const cdz_attention_rows *rows,
                      float *data)
{
    const uint32_t group = rows->n_heads / seq->model->weights->arch.n_kv_heads;
    for (uint32_t i = 0; seq->pressed && i < rows->n_layers; i++)
        for (uint32_t h = 0; h < rows->n_heads; h++) {
            const cdz_entries e = cdz_entries_of(seq, layers[i], h / group);
            for (uint32_t q = 0; q < rows->n_queries; q++) {
                const size_t row = ((size_t)i * rows->n_heads + h) * rows->n_queries + q;
                place_weights(&e, data + row * rows->n_keys, rows->n_keys);
            }
        }
}

/* The newest positions of a copy are read again, and looked at. */
static cdz_status watch(cdz_loop *loop, cdz_seq *copy, float **tensors,
                        const cdz_attention_rows *rows)
{
    const cdz_capture capture = {.attentions = tensors,
                                 .first = cdz_seq_slot(copy, rows->n_keys - rows->n_queries),
                                 .n_queries = rows->n_queries,
                                 .n_keys = rows->n_keys,
                                 .by_entry = true};
    cdz_seq_reread(copy, rows->n_keys - rows->n_queries);
    loop->captures = &capture;
    const cdz_status status = cdz_verb_seq_forward(&loop->base, &copy, 1, CDZ_POSITIONS_NONE, NULL);
    loop->captures = NULL;
    return status;
}

/* Weights over a cache that has changed since are of other entries. */
static cdz_status check_unmoved(cdz_loop *loop, const cdz_seq *seq, uint32_t n)
{
    const cdz_drop *last = seq->n_drops ? cdz_drops_at(seq->drops, seq->n_drops - 1) : NULL;
    if (!(seq->pressed && seq->pressed->at > n) && !(last && last->at > n)) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_STATE,
                         "seq_attention: positions were dropped or pressed after some of these were "
                         "read; ask before that, or for fewer");
}

static cdz_status attention(cdz_decoder *dec, cdz_seq *seq, uint32_t n_queries,
                            const uint32_t *layers, uint32_t n_layers, cdz_attention_rows *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, CDZ_VERB_SCRATCH));
    CDZ_TRY(check_queries(loop, seq, n_queries, layers, n_layers));
    CDZ_TRY(check_unmoved(loop, seq, cdz_seq_visible(seq) - n_queries));
    const cdz_arch *a = &seq->model->weights->arch;
    cdz_attention_rows rows = {.size = sizeof rows,
                               .n_layers = n_layers,
                               .n_heads = a->n_heads,
                               .n_queries = n_queries,
                               .n_keys = cdz_seq_visible(seq)};
    const size_t a_layer = (size_t)a->n_heads * n_queries * rows.n_keys;
    CDZ_TRY(cdz_loop_may_take(loop, "seq_attention",
                              cdz_loop_bytes(n_layers, cdz_loop_bytes(a_layer, sizeof(float)))));
    float *data = room(loop, n_layers * a_layer, sizeof *data);
    float **tensors = room(loop, a->n_layers, sizeof *tensors);
    if (!data || !tensors) return cdz_loop_nomem(loop);
    memset(data, 0, n_layers * a_layer * sizeof *data);
    memset(tensors, 0, a->n_layers * sizeof *tensors);
    for (uint32_t i = 0; i < n_layers; i++) tensors[layers[i]] = data + i * a_layer;
    cdz_seq *copy;
    CDZ_TRY(cdz_verb_seq_fork(dec, seq, &copy));
    cdz_status status = watch(loop, copy, tensors, &rows);
    if (status == CDZ_OK) status = check_unmoved(loop, copy, rows.n_keys - n_queries);
    if (status == CDZ_OK) place_all(copy, layers, &rows, data);
    cdz_verb_seq_free(dec, copy);
    rows.data = data;
    *out = rows;
    return status;
}

/* --- output_kv ---------------------------------------------------------------------------------------------------- */

cdz_status cdz_cache_open(cdz_loop *loop)
{
    const char *why = loop->job->keep_kv ? hidden_by(loop->rows.at[0].seq) : NULL;
    return why ? cdz_err(&loop->rows.error, CDZ_E_UNSUPPORTED, "output_kv: %s", why) : CDZ_OK;
}

static uint32_t longest_head(const cdz_seq *seq, uint32_t layer)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < seq->model->weights->arch.n_kv_heads; g++) {
        const cdz_entries e = cdz_entries_of(seq, layer, g);
        if (e.n > most) most = e.n;
    }
    return most;
}

/* (n, head_dim) of one head, into the layer's tensors. */
static cdz_status record_head(cdz_loop *loop, const cdz_outcome_kv *kv, const cdz_seq *seq,
                              uint32_t layer, uint32_t head)
{
    const size_t d = seq->model->weights->arch.head_dim, n = kv->n[layer], row = head * n;
    const cdz_entries e = cdz_entries_of(seq, layer, head);
    const float *keys, *values;
    cdz_scratch_reset(&loop->rows.verb_scratch);
    float *floats = room(loop, 2 * (size_t)cdz_entries_room(e.n), d * sizeof *floats);
    if (!floats) return cdz_loop_nomem(loop);
    cdz_entries_read(&e, 0, e.n, floats, &keys, &values);
    memcpy(kv->keys[layer] + row * d, keys, e.n * d * sizeof *keys);
    memcpy(kv->values[layer] + row * d, values, e.n * d * sizeof *values);
    for (uint32_t i = 0; i < n; i++)
        kv->positions[layer][row + i] = i < e.n ? (float)cdz_entries_position(&e, i) : -1.0f;
    return CDZ_OK;
}

static cdz_status record_layer(cdz_loop *loop, cdz_outcome_kv *kv, const cdz_seq *seq,
                               uint32_t layer)
{
    const cdz_arch *a = &seq->model->weights->arch;
    cdz_arena *arena = &loop->rows.berth->outcome->arena;
    if (!cdz_arch_mixes(a, layer, CDZ_MIX_ATTENTION)) return CDZ_OK;
    kv->n[layer] = longest_head(seq, layer);
    const size_t n = (size_t)a->n_kv_heads * kv->n[layer] + 1;
    kv->keys[layer] = cdz_arena_array(arena, n, a->head_dim * sizeof(float));
    kv->values[layer] = cdz_arena_array(arena, n, a->head_dim * sizeof(float));
    kv->positions[layer] = cdz_arena_array(arena, n, sizeof(float));
    if (!kv->keys[layer] || !kv->values[layer] || !kv->positions[layer])
        return cdz_loop_nomem(loop);
    for (uint32_t g = 0; g < a->n_kv_heads; g++) CDZ_TRY(record_head(loop, kv, seq, layer, g));
    return CDZ_OK;
}

static cdz_status record_row(cdz_loop *loop, cdz_outcome_kv *kv, cdz_seq *seq)
{
    const uint32_t L = seq->model->weights->arch.n_layers;
    cdz_arena *arena = &loop->rows.berth->outcome->arena;
    CDZ_TRY(bring_back(loop, seq));
    kv->n = cdz_arena_array(arena, L, sizeof *kv->n);
    kv->keys = cdz_arena_array(arena, L, sizeof *kv->keys);
    kv->values = cdz_arena_array(arena, L, sizeof *kv->values);
    kv->positions = cdz_arena_array(arena, L, sizeof *kv->positions);
    if (!kv->n || !kv->keys || !kv->values || !kv->positions) return cdz_loop_nomem(loop);
    for (uint32_t layer = 0; layer < L; layer++) CDZ_TRY(record_layer(loop, kv, seq, layer));
    return CDZ_OK;
}

cdz_status cdz_cache_record(cdz_loop *loop)
{
    cdz_outcome *o = loop->rows.berth->outcome;
    if (!o->kv) o->kv = cdz_arena_array(&o->arena, loop->job->n_rows, sizeof *o->kv);
    if (!o->kv) return cdz_loop_nomem(loop);
    o->n_rows_kv = loop->job->n_rows;
    for (uint32_t r = 0; r < loop->rows.n; r++)
        CDZ_TRY(record_row(loop, &o->kv[loop->first_row + r], loop->rows.at[r].seq));
    return CDZ_OK;
}

const void *cdz_loop_cache_table(void)
{
    static const cdz_kv_host table = {
        .size = sizeof table, .drop = drop, .read = read_entries, .attention = attention};
    return &table;
}
