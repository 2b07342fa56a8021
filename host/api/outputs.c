/* outputs.c - the tensors of a result: scores, logits, attentions and hidden states of each step, and what
 * caches held at the end, row by row; kind by kind.
 *
 * Owns nothing: it says which there are, by transformers' names, and where they lie in the outcome. */
#include <inttypes.h>
#include <stdio.h>

#include "api/api.h"

enum {
    LOGITS,
    SCORES,
    ATTENTIONS,
    HIDDEN,
    CROSS,
    KEYS,
    VALUES,
    POSITIONS,
    ENCODER_ATTENTIONS,
    ENCODER_HIDDEN
};

static const cdz_arch *arch_of(const cdz_result *result)
{
    return cdz_weights_arch(cdz_run_model_weights(result->model));
}

uint32_t cdz_result_output_kinds(const cdz_result *result,
                                 cdz_output_kind out[static CDZ_OUTPUT_KINDS])
{
    static const cdz_recorded_step none;
    const cdz_outcome *o = result->outcome;
    const cdz_recorded_step *first = o->n_steps ? o->steps : &none;
    const cdz_arch *a = arch_of(result), *enc = a->encoder;
    const uint32_t S = o->n_steps, L = a->n_layers, E = enc ? enc->n_layers : 0;
    const struct {
        bool there;
        cdz_output_kind kind;
    } all[] = {
        {first->logits, {"logits", LOGITS, S, 0}},
        {first->scores, {"scores", SCORES, S, 0}},
        {first->attentions, {enc ? "decoder_attentions" : "attentions", ATTENTIONS, S, L}},
        {first->hidden, {enc ? "decoder_hidden_states" : "hidden_states", HIDDEN, S, L + 1}},
        {first->cross, {"cross_attentions", CROSS, S, L}},
        {o->kv, {"keys", KEYS, o->n_rows_kv, L}},
        {o->kv, {"values", VALUES, o->n_rows_kv, L}},
        {o->kv, {"kv_positions", POSITIONS, o->n_rows_kv, L}},
        {o->encoder_attentions, {"encoder_attentions", ENCODER_ATTENTIONS, 0, E}},
        {o->encoder_hidden, {"encoder_hidden_states", ENCODER_HIDDEN, 0, E + 1}},
    };
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].there) out[n++] = all[i].kind;
    return n;
}

static const float *of_layer(float *const *layers, uint32_t layer)
{
    return layers ? layers[layer] : NULL;
}

/* Of a row: (kv heads, entries, head_dim), or without the last. */
static cdz_output of_cache(const cdz_outcome *o, const cdz_arch *a, const cdz_output_kind *kind,
                           uint32_t row, uint32_t layer)
{
    const cdz_outcome_kv *kv = &o->kv[row];
    const uint64_t G = a->n_kv_heads, n = kv->n ? kv->n[layer] : 0;
    if (!kv->n) return (cdz_output){.name = ""};
    if (kind->id == POSITIONS) return (cdz_output){"", 2, {G, n}, kv->positions[layer]};
    float *const *of = kind->id == KEYS ? kv->keys : kv->values;
    return (cdz_output){"", 3, {G, n, a->head_dim}, of[layer]};
}

static bool is_of_cache(const cdz_output_kind *kind)
{
    return kind->id == KEYS || kind->id == VALUES || kind->id == POSITIONS;
}

void cdz_result_output(const cdz_result *result, const cdz_output_kind *kind, uint32_t s,
                       uint32_t layer, cdz_output *out)
{
    const cdz_outcome *o = result->outcome;
    const cdz_arch *a = arch_of(result), *enc = a->encoder;
    static const cdz_recorded_step none = {0};
    const cdz_recorded_step *step = kind->n_steps && !is_of_cache(kind) ? &o->steps[s] : &none;
    const uint64_t R = o->n_step_rows, Q = step->n_queries, H = a->n_heads;
    const uint64_t P = o->n_sources, T = o->source_len;
    switch (kind->id) {
    case LOGITS: *out = (cdz_output){"", 2, {R, o->n_vocab}, step->logits}; break;
    case SCORES: *out = (cdz_output){"", 2, {R, o->n_vocab}, step->scores}; break;
    case ATTENTIONS:
        *out = (cdz_output){"", 4, {R, H, Q, step->n_keys}, of_layer(step->attentions, layer)};
        break;
    case CROSS: *out = (cdz_output){"", 4, {R, H, Q, T}, of_layer(step->cross, layer)}; break;
    case HIDDEN:
        *out = (cdz_output){"", 3, {R, Q, a->hidden}, of_layer(step->hidden, layer)};
        break;
    case KEYS:
    case VALUES:
    case POSITIONS: *out = of_cache(o, a, kind, s, layer); break;
    case ENCODER_ATTENTIONS:
        *out = (cdz_output){"", 4, {P, enc->n_heads, T, T}, of_layer(o->encoder_attentions, layer)};
        break;
    default:
        *out = (cdz_output){"", 3, {P, T, enc->hidden}, of_layer(o->encoder_hidden, layer)};
        break;
    }
    int n = snprintf(out->name, sizeof out->name, "%s", kind->name);
    if (kind->n_steps) n += snprintf(out->name + n, sizeof out->name - (size_t)n, "/%" PRIu32, s);
    if (kind->n_layers) snprintf(out->name + n, sizeof out->name - (size_t)n, "/%" PRIu32, layer);
}

static bool visit_kind(const cdz_result *result, const cdz_output_kind *kind,
                       cdz_output_visit *visit, void *user)
{
    for (uint32_t s = 0; s < (kind->n_steps ? kind->n_steps : 1); s++)
        for (uint32_t l = 0; l < (kind->n_layers ? kind->n_layers : 1); l++) {
            cdz_output out;
            cdz_result_output(result, kind, s, l, &out);
            if (out.data && !visit(user, &out)) return false;
        }
    return true;
}

bool cdz_result_each_output(const cdz_result *result, cdz_output_visit *visit, void *user)
{
    cdz_output_kind kinds[CDZ_OUTPUT_KINDS];
    const uint32_t n = cdz_result_output_kinds(result, kinds);
    for (uint32_t i = 0; i < n; i++)
        if (!visit_kind(result, &kinds[i], visit, user)) return false;
    return true;
}
