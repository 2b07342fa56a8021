/* encode_chars.c - text to ids by the full pipeline, for every tokenizer that is not byte-level BPE:
 * each stretch between added tokens is normalized, cut and given to the model, and every byte
 * keeps the place in the original that it stands for. */
#include "token/parts.h"

typedef struct walk {
    const cdz_encode_job *job;
    const cdz_atext *normal; /* NULL: in the original text */
    cdz_status st;
    cdz_error *err;
} walk;

static bool fail(walk *w, cdz_status st)
{
    w->st = st;
    return false;
}

static bool out_of_memory(walk *w)
{
    return fail(w, cdz_err(w->err, CDZ_E_NOMEM, "out of memory to tokenize"));
}

/* --- spans ------------------------------------------------------------------------------------ */

/* Bytes of the original as characters. */
static cdz_token_span to_chars(const walk *w, size_t begin, size_t end)
{
    const uint32_t *chars = w->job->scratch->chars;
    const uint32_t first = chars[begin];
    return (cdz_token_span){first, end > begin ? chars[end - 1] + 1 : first};
}

static cdz_token_span trim(const walk *w, cdz_token_span span, const uint8_t *text, size_t n)
{
    const cdz_postproc *post = &w->job->tok->postproc;
    uint32_t leading, trailing;
    if (!post->trim_offsets) return span;
    cdz_count_spaces(text, n, &leading, &trailing);
    return cdz_trim_span(post, w->job->out->n == 0, span, leading, trailing);
}

/* Appends an id that stands for bytes of the original and is spelt as `text`. */
static bool put(walk *w, int32_t id, size_t begin, size_t end, const uint8_t *text, size_t n)
{
    cdz_encoding *out = w->job->out;
    if (!cdz_encoding_reserve(out, 1, w->job->offsets)) return out_of_memory(w);
    if (w->job->offsets) out->offsets[out->n] = trim(w, to_chars(w, begin, end), text, n);
    out->ids[out->n++] = id;
    return true;
}

/* --- the model -------------------------------------------------------------------------------- */

/* A token of the piece that begins at byte `at` of the text. Unigram's unk is spelt as the text it
 * stands for, others as the vocabulary has them. */
static bool put_found(walk *w, const cdz_atext *text, cdz_piece piece, cdz_tok_found f)
{
    const cdz_tokenizer *tok = w->job->tok;
    const size_t n = piece.end - piece.begin, end = f.end < n ? f.end : n,
                 begin = f.begin < end ? f.begin : end - 1;
    const cdz_token *token = cdz_vocab_token(&tok->vocab, f.id);
    const bool by_text =
        !token || (tok->model.kind == CDZ_MODEL_UNIGRAM && f.id == tok->model.unk_id);
    const uint8_t *spelt =
        by_text ? text->bytes + piece.begin + begin : (const uint8_t *)token->text;
    const cdz_align *align = text->align + piece.begin;
    return put(w, f.id, align[begin].begin, align[end - 1].end, spelt,
               by_text ? end - begin : token->len);
}

static bool run_model(walk *w, const cdz_atext *text, cdz_piece piece)
{
    const cdz_tokenizer *tok = w->job->tok;
    cdz_tok_model_work *work = &w->job->scratch->by_chars.model;
    const cdz_status st = cdz_tok_model_run(&tok->model, &tok->bpe, work, text->bytes + piece.begin,
                                            piece.end - piece.begin, w->err);
    if (st != CDZ_OK) return fail(w, st);
    for (size_t i = 0; i < work->n; i++)
        if (!put_found(w, text, piece, work->found[i])) return false;
    return true;
}

/* --- stretches -------------------------------------------------------------------------------- */

/* Normalized text without added tokens. */
static bool encode_normal(walk *w, const uint8_t *text, size_t begin, size_t end)
{
    cdz_cut_work *cut = &w->job->scratch->by_chars.cut;
    (void)text;
    const cdz_status st = cdz_cutter_run(&w->job->tok->cutter, cut, w->normal, begin, end, w->err);
    if (st != CDZ_OK) return fail(w, st);
    for (size_t i = 0; i < cut->pieces.n; i++)
        if (!run_model(w, cut->text, cut->pieces.items[i])) return false;
    return true;
}

static bool put_match(walk *w, const uint8_t *text, const cdz_added_match *m)
{
    const int32_t id = w->job->tok->vocab.added[m->token].id;
    const cdz_align *align = w->normal ? w->normal->align : NULL;
    const size_t begin = align ? align[m->begin].begin : m->begin,
                 end = align ? align[m->end - 1].end : m->end;
    return put(w, id, begin, end, text + m->begin, m->end - m->begin);
}

typedef bool (*stretch_fn)(walk *w, const uint8_t *text, size_t begin, size_t end);

/* Calls `between` for each stretch of text[0, n) without an added token of the trie, and writes
 * the tokens. */
static bool split_added(walk *w, const cdz_trie *trie, const uint8_t *text, size_t n,
                        stretch_fn between)
{
    size_t from = 0, done = 0, last = 0;
    cdz_added_match m;
    cdz_meter *meter = &w->job->scratch->meter;
    while (cdz_added_next(trie, w->job->tok->vocab.added, text, n, w->job->plain, meter, &from,
                          &done, &m)) {
        if (m.begin > last && !between(w, text, last, m.begin)) return false;
        if (!put_match(w, text, &m)) return false;
        last = m.end;
    }
    if (meter->spent) return fail(w, cdz_added_spent(n, w->err));
    return last >= n || between(w, text, last, n);
}

/* Original text without raw added tokens. */
static bool encode_raw(walk *w, const uint8_t *text, size_t begin, size_t end)
{
    const cdz_tokenizer *tok = w->job->tok;
    cdz_norm_work *norm = &w->job->scratch->by_chars.norm;
    const cdz_status st =
        cdz_normalizer_run(&tok->normalizer, norm, text + begin, end - begin, begin, w->err);
    if (st != CDZ_OK) return fail(w, st);
    w->normal = &norm->text;
    const bool ok =
        split_added(w, &tok->vocab.normalized, norm->text.bytes, norm->text.len, encode_normal);
    w->normal = NULL;
    return ok;
}

cdz_status cdz_encode_by_chars(const cdz_encode_job *job, const uint8_t *text, size_t len,
                               cdz_error *err)
{
    walk w = {.job = job, .st = CDZ_OK, .err = err};
    cdz_char_work *work = &job->scratch->by_chars;
    work->norm.meter = work->cut.meter = work->model.meter = &job->scratch->meter;
    split_added(&w, &job->tok->vocab.raw, text, len, encode_raw);
    return w.st;
}
