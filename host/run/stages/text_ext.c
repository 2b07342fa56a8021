/* text_ext.c - "cadenza.text/1": the text of rows, kept as they grow.
 *
 * Owns: of each request row the text of its newest known history (rows.h), with where it stood behind each token. A history
 * that goes another way, a draft or a row that was taken back, cuts it where they part. Rows of one request row may be asked
 * about on several threads: the lock is held while the text is brought on and copied out.
 * Invariant: text is whole characters, U+FFFD for what is none; the bytes of a character that is not whole yet are apart, at most
 * three. What the text has it keeps, whatever comes, so a token costs what it is long, and a cut nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cadenza/ext/text.h"
#include "run/stages/stages.h"

/* Behind a token. */
typedef struct text_end {
    uint32_t len; /* of the text */
    cdz_utf8_tail open;
} text_end;

/* What is kept of a request row. */
struct cdz_row_text {
    int32_t *ids;   /* (n) new tokens */
    text_end *ends; /* (n) */
    uint32_t n, cap;
    cdz_buf text;
    cdz_utf8_tail open;
};

void cdz_rows_free_texts(cdz_rows *rows)
{
    for (uint32_t r = 0; rows->row_texts && r < rows->n; r++) {
        free(rows->row_texts[r].ids);
        free(rows->row_texts[r].ends);
        cdz_buf_free(&rows->row_texts[r].text);
    }
    free(rows->row_texts);
    rows->row_texts = NULL;
}

static bool room_for(cdz_row_text *t, uint32_t n)
{
    if (n <= t->cap) return true;
    const size_t cap = n < 16 ? 16 : 2 * (size_t)n;
    int32_t *ids = realloc(t->ids, cap * sizeof *ids);
    if (ids) t->ids = ids;
    text_end *ends = realloc(t->ends, cap * sizeof *ends);
    if (ends) t->ends = ends;
    if (!ids || !ends) return false;
    t->cap = cap < UINT32_MAX ? (uint32_t)cap : UINT32_MAX;
    return true;
}

/* Leaves the first n tokens. */
static void cut(cdz_row_text *t, uint32_t n)
{
    t->n = n;
    t->text.len = n ? t->ends[n - 1].len : 0;
    t->open = n ? t->ends[n - 1].open : (cdz_utf8_tail){0};
}

/* A token that is a part of a character has bytes of its own; others have their text. */
static void add_token(cdz_row_text *t, cdz_rows *rows, int32_t id)
{
    const cdz_string added = cdz_run_model_token_text(rows->model, id);
    cdz_buf bytes = {0};
    const bool part = added.at && strstr(added.at, CDZ_UTF8_REPLACEMENT) &&
                      cdz_tokenizer_token_bytes(rows->model->tokenizer, id, &bytes);
    const cdz_string says = part ? (cdz_string){bytes.data, (uint32_t)bytes.len} : added;
    if (says.at) cdz_utf8_push(&t->text, &t->open, says.at, says.len);
    rows->text_work += says.len;
    t->text.failed |= bytes.failed;
    cdz_buf_free(&bytes);
}

/* False: out of memory; then nothing is known of the row any more. */
static bool bring_to(cdz_row_text *t, cdz_rows *rows, const int32_t *ids, uint32_t n)
{
    uint32_t same = t->n < n ? t->n : n;
    if (same && memcmp(t->ids, ids, same * sizeof *ids) != 0)
        for (same = 0; t->ids[same] == ids[same];) same++;
    cut(t, same);
    if (!room_for(t, n)) return false;
    for (uint32_t i = same; i < n; i++) {
        add_token(t, rows, ids[i]);
        t->ids[i] = ids[i];
        t->ends[i] = (text_end){(uint32_t)t->text.len, t->open};
        t->n = i + 1;
    }
    if (!t->text.failed && t->text.len <= UINT32_MAX) return true;
    cdz_buf_free(&t->text);
    t->text = (cdz_buf){0};
    cut(t, 0);
    return false;
}

/* --- which row ---------------------------------------------------------------------------------------------------- */

static bool has_rows_of_its_own(const cdz_step *step)
{
    return step->plugin->kind != CDZ_KIND_STRATEGY && step->plugin->kind != CDZ_KIND_DRAFTER;
}

/* The row of the request, and its ids in this call. */
static cdz_status find_row(const cdz_step *step, uint32_t r, uint32_t *row, cdz_ids *ids)
{
    const cdz_rows *rows = ((const cdz_scope *)step->scope)->rows;
    const bool own = has_rows_of_its_own(step);
    if (!rows->model->tokenizer)
        return step->host->fail(step, CDZ_E_NOT_FOUND, "the model has no tokenizer.json");
    if (own && (!step->input_ids || !step->row_index))
        return step->host->fail(step, CDZ_E_STATE,
                                "text: this call shows no ids (CDZ_NEEDS_IDS asks for them)");
    if (r >= (own ? step->n_rows : rows->n))
        return step->host->fail(step, CDZ_E_USAGE, "text: row %u of %u", r,
                                own ? step->n_rows : rows->n);
    *row = own ? step->row_index[r] : r;
    *ids = own ? step->input_ids[r] : cdz_row_ids(&rows->at[r]);
    return CDZ_OK;
}

/* Where the last n bytes begin, but not inside a character. */
static size_t tail_from(const cdz_buf *text, uint32_t n)
{
    size_t from = text->len > n ? text->len - n : 0;
    while (from < text->len && ((unsigned char)text->data[from] & 0xC0) == 0x80) from++;
    return from;
}

/* The last bytes of the text to where whoever asked may keep it. */
static bool hand_out(const cdz_step *step, const cdz_row_text *t, uint32_t most, cdz_string *out)
{
    const size_t from = tail_from(&t->text, most), n = t->text.len - from;
    char *copy;
    *out = (cdz_string){t->text.data ? t->text.data + from : "", (uint32_t)n};
    if (!has_rows_of_its_own(step)) {
        if (t->text.data) t->text.data[t->text.len] = '\0'; /* it may have been longer */
        return true;
    }
    copy = cdz_scratch(step, n + 1);
    if (!copy) return false;
    memcpy(copy, out->at, n);
    copy[n] = '\0';
    out->at = copy;
    ((const cdz_scope *)step->scope)->rows->text_work += n;
    return true;
}

static cdz_status give(const cdz_step *step, uint32_t r, uint32_t most, cdz_string *out)
{
    cdz_rows *rows = ((const cdz_scope *)step->scope)->rows;
    uint32_t row = 0;
    cdz_ids ids = {0};
    CDZ_TRY(find_row(step, r, &row, &ids));
    const uint32_t prompt = rows->info.prompt_len < ids.len ? rows->info.prompt_len : ids.len;
    cdz_mutex_lock(&rows->text_lock);
    if (!rows->row_texts) rows->row_texts = calloc(rows->n, sizeof *rows->row_texts);
    cdz_row_text *t = rows->row_texts ? &rows->row_texts[row] : NULL;
    const bool good =
        t && bring_to(t, rows, ids.at + prompt, ids.len - prompt) && hand_out(step, t, most, out);
    cdz_mutex_unlock(&rows->text_lock);
    return good ? CDZ_OK : step->host->fail(step, CDZ_E_NOMEM, "out of memory for a row's text");
}

static cdz_status tail(const cdz_step *step, uint32_t r, uint32_t n, cdz_string *out)
{
    return give(step, r, n, out);
}

static cdz_status since_prompt(const cdz_step *step, uint32_t r, cdz_string *out)
{
    return give(step, r, UINT32_MAX, out);
}

const void *cdz_stages_text(void)
{
    static const cdz_text_api api = {.size = sizeof api, .tail = tail, .since_prompt = since_prompt};
    return &api;
}
