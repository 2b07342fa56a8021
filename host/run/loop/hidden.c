/* hidden.c - verbs on what lies between the layers: hidden states that passes keep, and the head on its own.
 *
 * Owns: the store of those states, which the next pass that keeps any writes over. Not: the pass (run/pass/heads.c), states
 * of recorded steps (states.c). */
#include <inttypes.h>
#include <string.h>

#include "run/loop/loop.h"
#include "run/loop/verbs.h"

static cdz_status check_layers(cdz_loop *loop, const uint32_t *layers, uint32_t n)
{
    const uint32_t last = loop->rows.model->weights->arch.n_layers;
    if (n && loop->rows.model->function.forward)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "keep_hidden: a model that is a function has scores alone");
    for (uint32_t i = 0; i < n; i++)
        if (layers[i] > last)
            return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                                 "keep_hidden: layer %" PRIu32 " of a model with %" PRIu32
                                 "; 0 is what enters the first",
                                 layers[i], last);
    return CDZ_OK;
}

cdz_status cdz_verb_keep_hidden(cdz_decoder *dec, cdz_positions positions, const uint32_t *layers,
                                uint32_t n)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    CDZ_TRY(check_layers(loop, layers, n));
    if (n && positions != CDZ_POSITIONS_LAST && positions != CDZ_POSITIONS_ALL)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN, "keep_hidden: of the last position, or of all");
    cdz_hidden_store *h = &loop->hidden;
    if (!h->layers || n > h->room) {
        h->room = n < 64 ? 64 : 2 * n;
        h->layers = cdz_arena_array(&loop->rows.arena, h->room, sizeof *h->layers);
    }
    if (!h->layers) return cdz_loop_nomem(loop);
    if (n) memcpy(h->layers, layers, n * sizeof *layers);
    h->n = n;
    h->n_rows = 0;
    h->positions = positions;
    return CDZ_OK;
}

/* Room for rows; new memory is zeroed, for rows that no pass writes. */
static cdz_status fit(cdz_loop *loop, uint64_t n_rows)
{
    cdz_hidden_store *h = &loop->hidden;
    cdz_backend *b = loop->rows.berth->backend;
    const uint64_t row = (uint64_t)h->n * loop->rows.model->weights->arch.hidden;
    if (n_rows > SIZE_MAX / sizeof(float) / row) return cdz_loop_nomem(loop);
    const size_t need = (size_t)(n_rows * row);
    if (need > h->cap) {
        float *data = b->api->alloc(b, need * sizeof *data);
        if (!data) return cdz_loop_nomem(loop);
        memset(data, 0, need * sizeof *data);
        b->api->free(b, h->data);
        h->data = data;
        h->cap = need;
    }
    h->n_rows = (uint32_t)n_rows;
    return CDZ_OK;
}

cdz_status cdz_loop_want_hidden(cdz_loop *loop, uint64_t n_rows)
{
    cdz_hidden_store *h = &loop->hidden;
    if (h->n == 0 || loop->want.model != loop->rows.model || loop->want.n_layers) return CDZ_OK;
    if (n_rows > UINT32_MAX) return cdz_loop_nomem(loop);
    CDZ_TRY(cdz_loop_may_take(
        loop, "keep_hidden",
        cdz_loop_bytes(n_rows * h->n, loop->rows.model->weights->arch.hidden * sizeof(float))));
    CDZ_TRY(fit(loop, n_rows));
    loop->want.hidden_layers = h->layers;
    loop->want.n_hidden = h->n;
    loop->want.hidden_positions = h->positions;
    loop->want.hidden = h->data;
    loop->want.hidden_stride = (size_t)n_rows * loop->rows.model->weights->arch.hidden;
    return CDZ_OK;
}

/* Row `row` was not run: it has what its leader has. */
void cdz_loop_follow_hidden(cdz_loop *loop, uint32_t row, uint32_t leader)
{
    const cdz_hidden_store *h = &loop->hidden;
    const size_t D = loop->rows.model->weights->arch.hidden;
    for (uint32_t i = 0; i < h->n; i++) {
        float *layer = h->data + (size_t)i * h->n_rows * D;
        memcpy(layer + row * D, layer + leader * D, D * sizeof *layer);
    }
}

cdz_status cdz_verb_hidden_states(cdz_decoder *dec, cdz_hidden *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    const cdz_hidden_store *h = &loop->hidden;
    if (h->n == 0)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "hidden_states: nothing is kept; ask for layers with keep_hidden before "
                             "the pass");
    if (h->n_rows == 0)
        return cdz_loop_fail(loop, CDZ_E_PLUGIN,
                             "hidden_states: no pass of the target model has run since keep_hidden; "
                             "those of the assistant, or of its first layers, keep none");
    *out = (cdz_hidden){h->data, h->n, h->n_rows, loop->rows.model->weights->arch.hidden};
    return CDZ_OK;
}

/* How a model's last steps are run on their own. */
typedef void run_end(cdz_layers *layers, const float *hidden, uint32_t n, float *scores);

static cdz_status score(cdz_decoder *dec, const char *verb, run_end *run, const float *hidden,
                        uint32_t n, cdz_scores *out)
{
    cdz_loop *loop = cdz_loop_of(dec);
    CDZ_TRY(cdz_verb_enter(dec, 0));
    if (n == 0) return cdz_loop_fail(loop, CDZ_E_PLUGIN, "%s: of no hidden states", verb);
    if (loop->rows.model->function.forward)
        return cdz_loop_fail(loop, CDZ_E_UNSUPPORTED,
                             "%s: a model that is a function has none of its own", verb);
    CDZ_TRY(cdz_matrix_fit(&loop->rows, &loop->hidden.scores, n, loop->rows.n_vocab));
    run(loop->rows.model->layers, hidden, n, loop->hidden.scores.data);
    *out = cdz_matrix_scores(&loop->hidden.scores);
    return CDZ_OK;
}

cdz_status cdz_verb_head(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out)
{
    return score(dec, "head", cdz_layers_head, hidden, n, out);
}

cdz_status cdz_verb_lens(cdz_decoder *dec, const float *hidden, uint32_t n, cdz_scores *out)
{
    return score(dec, "lens", cdz_layers_lens, hidden, n, out);
}

bool cdz_verb_facts(const cdz_decoder *dec, const char *model, cdz_model_facts *out)
{
    const cdz_run_model *m = cdz_loop_model_named(cdz_loop_of(dec), model);
    if (!m) return false;
    const cdz_arch *a = &m->weights->arch;
    *out = (cdz_model_facts){.size = sizeof *out,
                             .n_vocab = a->n_vocab,
                             .n_layers = a->n_layers,
                             .width = a->hidden,
                             .tied = a->tied,
                             .has_encoder = a->encoder != NULL,
                             .n_positions = cdz_arch_has_positions(a) ? a->context : 0};
    return true;
}
