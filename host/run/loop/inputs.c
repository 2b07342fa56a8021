/* inputs.c - verbs on what the first layer reads: the vectors of ids, and vectors in place of ids.
 *
 * Owns: nothing; sequences hold their vectors (run/pass/given.h). Ids stay what processors, drafters and companions see. */
#include <inttypes.h>
#include <math.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

static cdz_status check_model(cdz_loop *loop, const char *verb, const cdz_run_model *model)
{
    if (!model->function.forward) return CDZ_OK;
    return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED, "%s: a model that is a function reads ids alone",
                         verb);
}

cdz_status cdz_verb_embed(cdz_decoder *dec, const char *model, const int32_t *ids, uint32_t n,
                          float *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    const cdz_run_model *m = cdz_loop_model_named(loop, model);
    if (!m)
        return cdz_loop_fail(loop, CDZ_E_NOT_FOUND, "embed: the request has no model \"%s\"", model);
    CDZ_TRY(check_model(loop, "embed", m));
    const uint32_t n_vocab = m->weights->arch.n_vocab;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "embed: token %" PRId32 " is outside the vocabulary of %" PRIu32,
                                 ids[i], n_vocab);
    cdz_layers_inputs(m->layers, ids, n, out);
    return CDZ_OK;
}

static cdz_status check_vectors(cdz_loop *loop, const float *vectors, uint32_t n, uint32_t width,
                                uint32_t hidden)
{
    if (vectors && width != hidden)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_embeds: vectors of %" PRIu32
                             " numbers; hidden states of this model have %" PRIu32,
                             width, hidden);
    for (size_t i = 0; vectors && i < (size_t)n * width; i++)
        if (!isfinite(vectors[i]))
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "seq_embeds: number %zu of vector %zu is not finite", i % width,
                                 i / width);
    return CDZ_OK;
}

cdz_status cdz_verb_seq_embeds(cdz_decoder *dec, cdz_seq *seq, uint32_t from, const float *embeds,
                               uint32_t n, uint32_t width)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(check_model(loop, "seq_embeds", seq->model));
    const uint32_t visible = cdz_seq_visible(seq);
    if (n > visible || from > visible - n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_embeds: positions %" PRIu32 " to %" PRIu64
                             " of a sequence of %" PRIu32 "; append ids for them first",
                             from, (uint64_t)from + n, visible);
    if (n == 0) return CDZ_OK;
    if (cdz_seq_slot(seq, from) < seq->n_embeds)
        return cdz_loop_fail(loop, CDZ_E_STATE,
                             "seq_embeds: position %" PRIu32
                             " is of a prompt that is given as embeddings already",
                             from);
    CDZ_TRY(check_vectors(loop, embeds, n, width, seq->model->weights->arch.hidden));
    CDZ_TRY(cdz_loop_grow_seq(loop, "seq_embeds",
                              cdz_given_bytes(seq->given) +
                                  cdz_loop_bytes(n, (width + 1ull) * sizeof(float))));
    return cdz_seq_give(seq, from, embeds, n, &loop->rows.error);
}
