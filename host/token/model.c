/* model.c - WordPiece and WordLevel, and the choice between the models. */
#include "token/model.h"

#include <stdlib.h>

#include "token/unicode.h"

void cdz_tok_model_work_free(cdz_tok_model_work *work)
{
    cdz_bpe_work_free(&work->bpe);
    free(work->found);
    free(work->ends);
    free(work->ways);
    free(work->joined);
    *work = (cdz_tok_model_work){0};
}

bool cdz_tok_model_put(cdz_tok_model_work *work, int32_t id, size_t begin, size_t end)
{
    if (work->n == work->cap) {
        const size_t cap = work->cap ? work->cap * 2 : 64;
        cdz_tok_found *found =
            cap > SIZE_MAX / sizeof *found ? NULL : realloc(work->found, cap * sizeof *found);
        if (!found) return false;
        work->found = found;
        work->cap = cap;
    }
    work->found[work->n++] = (cdz_tok_found){id, begin, end};
    return true;
}

static cdz_status put_unk(const cdz_tok_model *model, cdz_tok_model_work *work, size_t n,
                          cdz_error *err)
{
    work->n = 0;
    if (model->unk_id < 0)
        return cdz_err(
            err, CDZ_E_INPUT,
            "the text has a word that is not in the vocabulary, and neither is the unk_token");
    if (cdz_tok_model_put(work, model->unk_id, 0, n)) return CDZ_OK;
    return cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static bool too_long(const uint8_t *t, size_t n, uint32_t max_chars)
{
    size_t n_chars = 0;
    for (size_t i = 0; i < n && n_chars <= max_chars; i++) n_chars += (t[i] & 0xC0) != 0x80;
    return n_chars > max_chars;
}

/* The longest token that begins at i, at its node: its end, or i. */
static size_t longest(const cdz_byte_trie *trie, uint32_t node, const uint8_t *t, size_t n,
                      size_t i, int32_t *id, size_t *seen)
{
    size_t end = i, k = i;
    for (; k < n && node; k++) {
        node = cdz_byte_trie_child(trie, node, t[k]);
        if (!node || trie->ids[node] < 0) continue;
        *id = trie->ids[node];
        end = k + 1;
    }
    *seen = k - i;
    return end;
}

cdz_status cdz_tok_model_spent(size_t n, cdz_error *err)
{
    return cdz_err(err, CDZ_E_LIMIT, "the model takes too many steps on a piece of %zu bytes", n);
}

static cdz_status run_wordpiece(const cdz_tok_model *model, cdz_tok_model_work *work,
                                const uint8_t *t, size_t n, cdz_error *err)
{
    if (too_long(t, n, model->max_chars)) return put_unk(model, work, n, err);
    for (size_t i = 0, end, seen; i < n; i = end) {
        int32_t id = -1;
        const uint32_t from = i == 0 ? CDZ_TRIE_ROOT : model->prefix_node;
        end = longest(&model->trie, from, t, n, i, &id, &seen);
        if (!cdz_meter_take(work->meter, seen)) return cdz_tok_model_spent(n, err);
        if (end == i) return put_unk(model, work, n, err);
        if (!cdz_tok_model_put(work, id, i, end)) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    }
    return CDZ_OK;
}

static cdz_status run_wordlevel(const cdz_tok_model *model, cdz_tok_model_work *work,
                                const uint8_t *t, size_t n, cdz_error *err)
{
    const int32_t id = cdz_strmap_get(model->words, (const char *)t, n);
    if (id < 0) return put_unk(model, work, n, err);
    return cdz_tok_model_put(work, id, 0, n) ? CDZ_OK : cdz_err(err, CDZ_E_NOMEM, "out of memory");
}

static cdz_status run_kind(const cdz_tok_model *model, const cdz_bpe *bpe, cdz_tok_model_work *work,
                           const uint8_t *piece, size_t n, cdz_error *err)
{
    switch (model->kind) {
    case CDZ_MODEL_BPE: return cdz_char_bpe_run(model, bpe, work, piece, n, err);
    case CDZ_MODEL_UNIGRAM: return cdz_unigram_run(model, work, piece, n, err);
    case CDZ_MODEL_WORDPIECE: return run_wordpiece(model, work, piece, n, err);
    case CDZ_MODEL_WORDLEVEL: break;
    }
    return run_wordlevel(model, work, piece, n, err);
}

/* Each is one unknown token, or gone where there is none. */
static void hide_unknown(const cdz_tok_model *model, cdz_tok_model_work *work)
{
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++) {
        cdz_tok_found f = work->found[i];
        if (f.id >= model->n_known) f.id = model->unk_id;
        if (f.id >= 0 && f.id < model->n_known) work->found[n++] = f;
    }
    work->n = n;
}

cdz_status cdz_tok_model_run(const cdz_tok_model *model, const cdz_bpe *bpe,
                             cdz_tok_model_work *work, const uint8_t *piece, size_t n,
                             cdz_error *err)
{
    work->n = 0;
    CDZ_TRY(run_kind(model, bpe, work, piece, n, err));
    if (model->n_known < INT32_MAX) hide_unknown(model, work);
    return CDZ_OK;
}
