/* cutter.c - running a chain of cuts. Metaspace and ByteLevel write the text anew; the other cuts
 * only move the ends of the pieces. */
#include "token/cutter.h"

#include <stdlib.h>
#include <string.h>

#include "token/text_class.h"
#include "token/vocab.h"

void cdz_cut_work_free(cdz_cut_work *work)
{
    cdz_atext_free(&work->made[0]);
    cdz_atext_free(&work->made[1]);
    free(work->pieces.items);
    free(work->spare.items);
    *work = (cdz_cut_work){0};
}

/* Empty pieces are dropped. */
static bool put_piece(cdz_pieces *pieces, size_t begin, size_t end)
{
    if (begin == end) return true;
    if (pieces->n == pieces->cap) {
        const size_t cap = pieces->cap ? pieces->cap * 2 : 64;
        cdz_piece *items =
            cap > SIZE_MAX / sizeof *items ? NULL : realloc(pieces->items, cap * sizeof *items);
        if (!items) return false;
        pieces->items = items;
        pieces->cap = cap;
    }
    pieces->items[pieces->n++] = (cdz_piece){begin, end};
    return true;
}

static bool take_piece(void *context, const uint8_t *text, size_t begin, size_t end)
{
    (void)text;
    return put_piece(context, begin, end);
}

/* --- cuts that keep the text ------------------------------------------------------------------ */

/* What comes before the first character of a script is dropped, as in the reference. */
static bool cut_scripts(cdz_pieces *out, const uint8_t *t, size_t begin, size_t end)
{
    uint32_t last = 0;
    size_t from = end, size;
    for (size_t i = begin; i < end; i += size) {
        const uint32_t script = cdz_text_script(cdz_uc_code(t + i, &size));
        if (script == 0 || script == last) continue;
        if (last != 0 && !put_piece(out, from, i)) return false;
        from = i;
        last = script;
    }
    return put_piece(out, from, end);
}

static bool cut_fixed(cdz_pieces *out, const uint8_t *t, size_t begin, size_t end, uint32_t length)
{
    size_t from = begin, size;
    uint32_t n = 0;
    for (size_t i = begin; i < end; i += size) {
        if (n == length) {
            if (!put_piece(out, from, i)) return false;
            from = i;
            n = 0;
        }
        cdz_uc_code(t + i, &size);
        n++;
    }
    return put_piece(out, from, end);
}

/* --- cuts that rewrite it --------------------------------------------------------------------- */

static bool starts_with(const cdz_atext *text, size_t begin, const cdz_pattern *literal)
{
    return text->len - begin >= literal->literal_len &&
           memcmp(text->bytes + begin, literal->literal, literal->literal_len) == 0;
}

/* Writes the piece with its spaces replaced, and the replacement before it where the scheme says
 * so. */
static bool write_metaspace(const cdz_cut *cut, const cdz_atext *from, cdz_piece piece,
                            cdz_atext *to)
{
    const cdz_pattern *mark = &cut->split.pattern;
    const cdz_align first = from->align[piece.begin];
    cdz_atext whole = *from;
    whole.len = piece.end;
    const bool marked = from->bytes[piece.begin] == ' ' || starts_with(&whole, piece.begin, mark);
    const bool wanted =
        cut->scheme == CDZ_PREPEND_ALWAYS || (cut->scheme == CDZ_PREPEND_FIRST && first.begin == 0);
    if (wanted && !marked && !cdz_atext_put_all(to, mark->literal, mark->literal_len, first))
        return false;
    size_t done = piece.begin;
    for (size_t i = piece.begin; i < piece.end; i++) {
        if (from->bytes[i] != ' ') continue;
        if (!cdz_atext_copy(to, from, done, i)) return false;
        if (!cdz_atext_put_all(to, mark->literal, mark->literal_len, from->align[i])) return false;
        done = i + 1;
    }
    return cdz_atext_copy(to, from, done, piece.end);
}

static bool cut_metaspace(const cdz_cut *cut, const cdz_atext *from, cdz_piece piece,
                          cdz_meter *meter, cdz_atext *to, cdz_pieces *out)
{
    const size_t begin = to->len;
    if (!write_metaspace(cut, from, piece, to)) return false;
    if (!cut->cuts_first) return put_piece(out, begin, to->len);
    return cdz_split_run(&cut->split, to->bytes, begin, to->len, meter, take_piece, out);
}

/* Writes the bytes in the printable alphabet. */
static bool write_bytes(const cdz_atext *from, cdz_piece piece, cdz_atext *to, cdz_pieces *out)
{
    const size_t begin = to->len;
    for (size_t i = piece.begin; i < piece.end; i++)
        if (!cdz_atext_put(to, cdz_byte_to_code(from->bytes[i]), from->align[i])) return false;
    return put_piece(out, begin, to->len);
}

/* The prefixed copy of the piece lies in `spare`. */
static bool cut_byte_level(const cdz_cut *cut, const cdz_atext *from, cdz_piece piece,
                           cdz_meter *meter, cdz_atext *to, cdz_atext *spare, cdz_pieces *out)
{
    cdz_pieces parts = {0};
    bool ok = true;
    if (cut->prefix && from->bytes[piece.begin] != ' ') {
        cdz_atext_begin(spare, piece.end - piece.begin, meter);
        if (!cdz_atext_put(spare, ' ', from->align[piece.begin]) ||
            !cdz_atext_copy(spare, from, piece.begin, piece.end))
            return false;
        from = spare;
        piece = (cdz_piece){0, spare->len};
    }
    if (!cut->cuts_first) return write_bytes(from, piece, to, out);
    ok = cdz_split_run(&cut->split, from->bytes, piece.begin, piece.end, meter, take_piece, &parts);
    for (size_t i = 0; i < parts.n && ok; i++) ok = write_bytes(from, parts.items[i], to, out);
    free(parts.items);
    return ok;
}

/* --- the chain -------------------------------------------------------------------------------- */

static bool cut_piece(const cdz_cut *cut, const cdz_atext *from, cdz_piece p, cdz_meter *meter,
                      cdz_atext *to, cdz_atext *spare, cdz_pieces *out)
{
    switch (cut->kind) {
    case CDZ_CUT_SPLIT:
        return cdz_split_run(&cut->split, from->bytes, p.begin, p.end, meter, take_piece, out);
    case CDZ_CUT_SCRIPTS: return cut_scripts(out, from->bytes, p.begin, p.end);
    case CDZ_CUT_FIXED: return cut_fixed(out, from->bytes, p.begin, p.end, cut->length);
    case CDZ_CUT_METASPACE: return cut_metaspace(cut, from, p, meter, to, out);
    case CDZ_CUT_BYTE_LEVEL: break;
    }
    return cut_byte_level(cut, from, p, meter, to, spare, out);
}

static cdz_status run_cut(const cdz_cut *cut, cdz_cut_work *work, cdz_error *err)
{
    const bool rewrites = cut->kind == CDZ_CUT_METASPACE || cut->kind == CDZ_CUT_BYTE_LEVEL;
    cdz_atext *to = work->text == &work->made[0] ? &work->made[1] : &work->made[0], spare = {0};
    bool ok = true;
    work->spare.n = 0;
    if (rewrites) cdz_atext_begin(to, work->text->len, work->meter);
    for (size_t i = 0; i < work->pieces.n && ok; i++)
        ok = cut_piece(cut, work->text, work->pieces.items[i], work->meter, to, &spare,
                       &work->spare);
    if (rewrites) cdz_atext_end(to, work->text->len, work->meter);
    cdz_atext_free(&spare);
    if (!ok && work->meter->spent)
        return cdz_err(err, CDZ_E_LIMIT, "the pre_tokenizer's pattern takes too long on this text");
    if (!ok && rewrites && to->over_limit)
        return cdz_err(err, CDZ_E_LIMIT, "the pre_tokenizer makes more than %zu bytes of the text",
                       to->limit);
    if (!ok) return cdz_err(err, CDZ_E_NOMEM, "out of memory to cut %zu bytes", work->text->len);
    const cdz_pieces done = work->spare;
    work->spare = work->pieces;
    work->pieces = done;
    if (rewrites) work->text = to;
    return CDZ_OK;
}

cdz_status cdz_cutter_run(const cdz_cutter *cutter, cdz_cut_work *work, const cdz_atext *text,
                          size_t begin, size_t end, cdz_error *err)
{
    work->text = text;
    work->pieces.n = 0;
    if (!put_piece(&work->pieces, begin, end)) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < cutter->n; i++) CDZ_TRY(run_cut(&cutter->cuts[i], work, err));
    return CDZ_OK;
}
