/* unigram.c - the most probable way to cut a piece into tokens (Viterbi), in double precision and
 * in the reference's order, which decides ties. */
#include <math.h>
#include <stdlib.h>

#include "token/model.h"
#include "token/unicode.h"

static bool reserve_ways(cdz_tok_model_work *w, size_t n)
{
    if (n > w->ways_cap) {
        const size_t cap = n + n / 2;
        cdz_way *ways = cap > SIZE_MAX / sizeof *ways ? NULL : realloc(w->ways, cap * sizeof *ways);
        if (!ways) return false;
        w->ways = ways;
        w->ways_cap = cap;
    }
    for (size_t i = 0; i < n; i++) w->ways[i] = (cdz_way){.id = -1};
    return true;
}

static void offer(cdz_way *way, double score, size_t begin, int32_t id)
{
    if (way->id >= 0 && !(score > way->score)) return;
    *way = (cdz_way){score, (uint32_t)begin, id};
}

/* SentencePiece itself adds in float32, which decides between ways that are equal. */
static double added(const cdz_tok_model *model, double a, double b)
{
    return model->float32 ? (double)(float)(a + b) : a + b;
}

/* Offers every token that begins at i; *single: one of them is the one character of `size`. False when the meter is
 * spent. */
static bool offer_tokens(const cdz_tok_model *model, cdz_tok_model_work *w, const uint8_t *t,
                         size_t n, size_t i, size_t size, bool *single)
{
    cdz_way *ways = w->ways;
    uint32_t node = CDZ_TRIE_ROOT;
    size_t end = i + 1;
    *single = false;
    for (; end <= n; end++) {
        node = cdz_byte_trie_child(&model->trie, node, t[end - 1]);
        if (!node) break;
        const int32_t id = model->trie.ids[node];
        if (id < 0 || isnan(model->scores[id]))
            continue; /* NaN: the token is never cut out of a text */
        offer(&ways[end], added(model, ways[i].score, model->scores[id]), i, id);
        if (end - i == size) *single = true;
    }
    return cdz_meter_take(w->meter, end - i);
}

/* The tokens' places, last first, a run of unknown characters being one. */
static bool walk_back(const cdz_tok_model *model, cdz_tok_model_work *w, size_t n)
{
    size_t unk_end = 0; /* 0: no run of unknowns is open */
    for (size_t end = n, begin; end > 0; end = begin) {
        begin = w->ways[end].begin;
        const int32_t id = w->ways[end].id;
        if (id == model->unk_id) {
            if (!unk_end) unk_end = end;
            if (begin > 0) continue;
            return cdz_tok_model_put(w, id, 0, unk_end);
        }
        if (unk_end && !cdz_tok_model_put(w, model->unk_id, end, unk_end)) return false;
        unk_end = 0;
        if (!cdz_tok_model_put(w, id, begin, end)) return false;
    }
    return true;
}

/* The ids of an unknown run: a token that is spelt so, the bytes' tokens, or unk. */
static bool put_unknown(const cdz_tok_model *model, cdz_tok_model_work *w, const uint8_t *t,
                        cdz_tok_found f)
{
    const int32_t known = cdz_strmap_get(model->words, (const char *)t + f.begin, f.end - f.begin);
    if (known >= 0) return cdz_tok_model_put(w, known, f.begin, f.end);
    bool all = model->byte_fallback;
    for (size_t i = f.begin; i < f.end && all; i++) all = model->byte_id[t[i]] >= 0;
    if (!all) return cdz_tok_model_put(w, model->unk_id, f.begin, f.end);
    for (size_t i = f.begin; i < f.end; i++)
        if (!cdz_tok_model_put(w, model->byte_id[t[i]], f.begin, f.end)) return false;
    return true;
}

/* Writes the tokens in order after the places, and moves them to the front. */
static bool resolve(const cdz_tok_model *model, cdz_tok_model_work *w, const uint8_t *t)
{
    const size_t n_places = w->n;
    for (size_t i = n_places; i-- > 0;) {
        const cdz_tok_found f = w->found[i];
        if (f.id == model->unk_id ? !put_unknown(model, w, t, f)
                                  : !cdz_tok_model_put(w, f.id, f.begin, f.end))
            return false;
    }
    memmove(w->found, w->found + n_places, (w->n - n_places) * sizeof *w->found);
    w->n -= n_places;
    return true;
}

cdz_status cdz_unigram_run(const cdz_tok_model *model, cdz_tok_model_work *w, const uint8_t *t,
                           size_t n, cdz_error *err)
{
    size_t size;
    bool single;
    if (!reserve_ways(w, n + 1)) return cdz_err(err, CDZ_E_NOMEM, "out of memory for %zu bytes", n);
    for (size_t i = 0; i < n; i += size) {
        cdz_uc_code(t + i, &size);
        if (!offer_tokens(model, w, t, n, i, size, &single)) return cdz_tok_model_spent(n, err);
        if (single) continue;
        if (model->unk_id < 0)
            return cdz_err(
                err, CDZ_E_INPUT,
                "the text has a character that is not in the vocabulary, which names no unk");
        offer(&w->ways[i + size], added(model, w->ways[i].score, model->unk_score), i,
              model->unk_id);
    }
    if (!walk_back(model, w, n) || !resolve(model, w, t))
        return cdz_err(err, CDZ_E_NOMEM, "out of memory for %zu bytes", n);
    return CDZ_OK;
}
