/* values.c - verbs on the head for values of classifiers and reward models: what it says of the texts of sequences.
 *
 * Owns: nothing. The states come from a pass like any other (seqs.c), in which sequences of all requests are read side by side. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

/* Ids up to the last one that is no pad; 0: there is none. */
static uint32_t text_end(const cdz_seq *seq, int32_t pad)
{
    uint32_t n = seq->n;
    while (n && pad >= 0 && seq->ids[n - 1] == pad) n--;
    return n;
}

static cdz_status check_valued(cdz_loop *loop, const cdz_seq *seq, uint32_t n_values)
{
    const cdz_value_head *head = &seq->model->weights->values;
    if (head->n == 0)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "seq_value: model \"%s\" has no head for values (score.weight, "
                             "v_head.summary.weight)",
                             cdz_loop_name_of(loop, seq->model));
    if (seq->n_layers)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "seq_value: a sequence that runs the first %" PRIu32 " layers alone",
                             seq->n_layers);
    if (n_values != head->n)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "seq_value: room for %" PRIu32 " values of a sequence; model \"%s\" "
                             "gives %" PRIu32,
                             n_values, cdz_loop_name_of(loop, seq->model), head->n);
    return CDZ_OK;
}

/* Sequences as they are read: where pads are behind a text, a fork without them, which is also in forks. */
static cdz_status without_pads(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, cdz_seq **read,
                               cdz_seq **forks)
{
    cdz_loop *loop = cdz_loop_of(dec);
    const int32_t pad = seqs[0]->model->weights->values.pad;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t end = text_end(seqs[i], pad);
        read[i] = seqs[i];
        if (end < seqs[i]->n) {
            CDZ_TRY(cdz_verb_seq_fork(dec, seqs[i], &forks[i]));
            CDZ_TRY(cdz_verb_seq_truncate(dec, forks[i], end));
            read[i] = forks[i];
        }
        if (cdz_seq_visible(read[i]) == 0)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "seq_value: sequence %" PRIu32 " of %" PRIu32 " has no token%s",
                                 cdz_loop_nth(loop, i), n, end < seqs[i]->n ? " but pads" : "");
    }
    return CDZ_OK;
}

static cdz_status value(cdz_decoder *dec, cdz_seq *const *read, uint32_t n, float *states,
                        float *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    const cdz_weights *w = read[0]->model->weights;
    const size_t width = w->arch.hidden;
    const uint32_t last = w->arch.n_layers; /* behind the final norm */
    CDZ_TRY(cdz_loop_last_states(loop, read, n, &last, states));
    for (uint32_t i = 0; i < n; i++)
        cdz_value_head_apply(&w->values, states + i * width, width, out + (size_t)i * w->values.n);
    return CDZ_OK;
}

cdz_status cdz_verb_seq_value(cdz_decoder *dec, cdz_seq *const *seqs, uint32_t n, uint32_t n_values,
                              float *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    cdz_loop_renew(loop);
    if (n == 0) return CDZ_OK;
    CDZ_TRY(cdz_loop_check_seqs(loop, "seq_value", seqs, n));
    CDZ_TRY(check_valued(loop, seqs[0], n_values));
    cdz_seq **read = calloc(n, sizeof(cdz_seq *)), **forks = calloc(n, sizeof(cdz_seq *));
    float *states = calloc((size_t)n * seqs[0]->model->weights->arch.hidden, sizeof *states);
    cdz_status status = read && forks && states ? CDZ_OK : cdz_loop_nomem(loop);
    if (status == CDZ_OK) status = without_pads(dec, seqs, n, read, forks);
    if (status == CDZ_OK) status = value(dec, read, n, states, out);
    for (uint32_t i = 0; forks && i < n; i++)
        if (forks[i]) cdz_verb_seq_free(dec, forks[i]);
    free((void *)read);
    free((void *)forks);
    free(states);
    return status;
}

uint32_t cdz_verb_n_values(const cdz_decoder *dec, const char *model)
{
    const cdz_run_model *m = cdz_loop_model_named(cdz_loop_of(dec), model);
    return m ? m->weights->values.n : 0;
}

cdz_string cdz_verb_value_label(const cdz_decoder *dec, const char *model, uint32_t i)
{
    const cdz_run_model *m = cdz_loop_model_named(cdz_loop_of(dec), model);
    const cdz_value_head *head = m ? &m->weights->values : NULL;
    return head && head->labels && i < head->n ? head->labels[i] : (cdz_string){NULL, 0};
}
