/* decode.c - ids to text: whole lists, single tokens, and streams.
 *
 * With a ByteLevel decoder a token's text is its bytes, whatever stands around it. With any other
 * the chain of the decoder is run over all ids, and a stream keeps the ids that can matter yet. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "token/parts.h"

static const cdz_token *token_of(const cdz_tokenizer *tok, int32_t id, bool skip_special)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    return token && skip_special && token->special ? NULL : token;
}

/* --- whole lists ------------------------------------------------------------------------------ */

/* What transformers' clean_up_tokenization does, each replacement over the whole text in this
 * order. */
static void clean_up(cdz_buf *text, size_t from)
{
    static const struct {
        const char *find, *put;
    } rules[] = {{" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
                 {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        const size_t n_find = strlen(rules[r].find), n_put = strlen(rules[r].put);
        size_t read = from, write = from;
        while (read < text->len) {
            if (text->len - read >= n_find && memcmp(text->data + read, rules[r].find, n_find) == 0) {
                memcpy(text->data + write, rules[r].put, n_put);
                read += n_find;
                write += n_put;
            } else {
                text->data[write++] = text->data[read++];
            }
        }
        if (text->data) text->data[text->len = write] = '\0';
    }
}

/* Appends what the decoder's chain makes of the strings. */
static cdz_status run_chain(const cdz_tokenizer *tok, cdz_strings *list, cdz_buf *out,
                            cdz_error *err)
{
    const size_t n = list->n;
    cdz_status st = CDZ_OK;
    if (!list->bytes.failed) st = cdz_decoder_run(&tok->decoder, list, err);
    if (st == CDZ_OK && list->bytes.len > 0) cdz_buf_add(out, list->bytes.data, list->bytes.len);
    if (st == CDZ_OK && (list->bytes.failed || out->failed))
        st = cdz_err(err, CDZ_E_NOMEM, "out of memory for the text of %zu ids", n);
    cdz_strings_free(list);
    return st;
}

static void add_texts(const cdz_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                      cdz_strings *list)
{
    for (size_t i = 0; i < n; i++) {
        const cdz_token *token = token_of(tok, ids[i], skip_special);
        if (token) cdz_strings_add(list, token->text, token->len);
    }
}

static cdz_status decode_chain(const cdz_tokenizer *tok, const int32_t *ids, size_t n,
                               bool skip_special, cdz_buf *out, cdz_error *err)
{
    cdz_strings list = {0};
    add_texts(tok, ids, n, skip_special, &list);
    return run_chain(tok, &list, out, err);
}

static cdz_status decode_bytes(const cdz_tokenizer *tok, const int32_t *ids, size_t n,
                               unsigned flags, cdz_buf *out, cdz_error *err)
{
    cdz_buf bytes = {0};
    for (size_t i = 0; i < n; i++) {
        const cdz_token *token = token_of(tok, ids[i], flags & CDZ_DECODE_SKIP_SPECIAL);
        if (token) cdz_buf_add(&bytes, token->bytes, token->n_bytes);
    }
    if (bytes.len > 0) cdz_utf8_add_all(out, bytes.data, bytes.len);
    const bool failed = bytes.failed || out->failed;
    cdz_buf_free(&bytes);
    return failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory for the text of %zu ids", n) : CDZ_OK;
}

/* A token may have as many bytes as its file. */
static cdz_status check_ids(const cdz_tokenizer *tok, const int32_t *ids, size_t n, cdz_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const cdz_token *token = cdz_vocab_token(&tok->vocab, ids[i]);
        if (token) bytes += token->len;
    }
    if (bytes <= CDZ_TEXT_MAX_BYTES) return CDZ_OK;
    return cdz_err(err, CDZ_E_LIMIT, "the tokens of %zu ids have %llu bytes, the limit is %zu", n,
                   (unsigned long long)bytes, CDZ_TEXT_MAX_BYTES);
}

cdz_status cdz_tokenizer_decode(const cdz_tokenizer *tok, const int32_t *ids, size_t n,
                                unsigned flags, cdz_buf *out, cdz_error *err)
{
    const size_t from = out->len;
    CDZ_TRY(check_ids(tok, ids, n, err));
    const cdz_status st = tok->decoder.byte_level
                              ? decode_bytes(tok, ids, n, flags, out, err)
                              : decode_chain(tok, ids, n, flags & CDZ_DECODE_SKIP_SPECIAL, out, err);
    if (st == CDZ_OK && flags & CDZ_DECODE_CLEAN_UP) clean_up(out, from);
    return st;
}

/* --- single tokens ---------------------------------------------------------------------------- */

#define STOP_BASE "abcdef" /* the text that transformers' StopStringCriteria puts a token after */

/* A text that the model cannot read leaves the list empty. */
cdz_status cdz_tokenizer_read_stop_base(cdz_tokenizer *tok, cdz_error *err)
{
    cdz_encoding enc = {0};
    cdz_status st = CDZ_OK;
    if (tok->decoder.byte_level) return CDZ_OK;
    if (cdz_tokenizer_encode(tok, NULL, STOP_BASE, strlen(STOP_BASE), 0, &enc, NULL) == CDZ_OK) {
        tok->stop_base = cdz_arena_array(&tok->arena, enc.n + 1, sizeof *tok->stop_base);
        if (!tok->stop_base) st = cdz_err(err, CDZ_E_NOMEM, "out of memory");
        if (st == CDZ_OK && enc.n > 0) memcpy(tok->stop_base, enc.ids, enc.n * sizeof *enc.ids);
        tok->n_stop_base = st == CDZ_OK ? (uint32_t)enc.n : 0;
    }
    cdz_encoding_free(&enc);
    return st;
}

/* The text after the base, or the token's own where the base does not come out as it went in. */
static bool chain_alone(const cdz_tokenizer *tok, const cdz_token *token, cdz_buf *out)
{
    cdz_strings list = {0};
    cdz_buf text = {0};
    add_texts(tok, tok->stop_base, tok->n_stop_base, false, &list);
    cdz_strings_add(&list, token->text, token->len);
    cdz_status st = run_chain(tok, &list, &text, NULL);
    const char *at = text.data ? strstr(text.data, STOP_BASE) : NULL;
    if (st == CDZ_OK && at) {
        cdz_buf_puts(out, at + strlen(STOP_BASE));
    } else if (st == CDZ_OK) {
        cdz_strings_add(&list, token->text, token->len);
        st = run_chain(tok, &list, out, NULL);
    }
    cdz_buf_free(&text);
    return st == CDZ_OK;
}

bool cdz_tokenizer_text_alone(const cdz_tokenizer *tok, int32_t id, cdz_buf *out)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    if (!token) return false;
    if (!tok->decoder.byte_level) return chain_alone(tok, token, out);
    cdz_utf8_add_all(out, token->bytes, token->n_bytes);
    return true;
}

#define SPACE_MARK "\xE2\x96\x81"

static bool chain_marks_spaces(const cdz_tok_decoder *decoder)
{
    for (uint32_t i = 0; i < decoder->n; i++)
        if (decoder->steps[i].kind == CDZ_DEC_REPLACE ||
            decoder->steps[i].kind == CDZ_DEC_METASPACE ||
            decoder->steps[i].kind == CDZ_DEC_STRETCHES)
            return true;
    return false;
}

/* The text with spaces for their marks. */
static void add_unmarked(cdz_buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const bool mark = n - i >= 3 && memcmp(text + i, SPACE_MARK, 3) == 0;
        cdz_buf_putc(out, mark ? ' ' : text[i]);
        i += mark ? 3 : 1;
    }
}

bool cdz_tokenizer_token_bytes(const cdz_tokenizer *tok, int32_t id, cdz_buf *out)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    if (!token || token->special) return false;
    if (!tok->decoder.byte_level && id == tok->model.unk_id) return false;
    if (token->added >= 0) { /* written as it is found in a text */
        cdz_buf_add(out, token->text, token->len);
        return true;
    }
    if (tok->decoder.byte_level) {
        cdz_buf_add(out, token->bytes, token->n_bytes);
        return true;
    }
    const int byte = tok->decoder.byte_fallback ? cdz_fallback_byte(token->text, token->len) : -1;
    if (byte >= 0)
        cdz_buf_putc(out, (char)byte);
    else if (chain_marks_spaces(&tok->decoder))
        add_unmarked(out, token->text, token->len);
    else
        return chain_alone(tok, token, out);
    return true;
}

/* --- streams ---------------------------------------------------------------------------------- */

static bool ends_in_replacement(const cdz_buf *text)
{
    return text->len >= 3 && memcmp(text->data + text->len - 3, CDZ_UTF8_REPLACEMENT, 3) == 0;
}

static cdz_status give(cdz_text_stream *s, const char **new_text, size_t *len, cdz_error *err)
{
    if (s->text.failed) return cdz_err_memory(err, "streamed text");
    s->given = true;
    *new_text = s->text.len > 0 ? s->text.data : "";
    if (len) *len = s->text.len;
    return CDZ_OK;
}

static void drop_given(cdz_text_stream *s)
{
    if (s->given) cdz_buf_clear(&s->text);
    s->given = false;
}

/* --- streams of other decoders ---------------------------------------------------------------- */

static bool push_id(cdz_text_stream *s, int32_t id)
{
    if (s->n_ids == s->ids_cap) {
        const size_t cap = s->ids_cap ? s->ids_cap * 2 : 16;
        int32_t *ids = cap > SIZE_MAX / sizeof *ids ? NULL : realloc(s->ids, cap * sizeof *ids);
        if (!ids) return false;
        s->ids = ids;
        s->ids_cap = cap;
    }
    s->ids[s->n_ids++] = id;
    return true;
}

/* Follows the run of <0x..> tokens that the ids end in; true once no byte can make it text. */
static bool run_is_dead(cdz_text_stream *s, const cdz_token *token)
{
    const int byte = s->tok->decoder.byte_fallback ? cdz_fallback_byte(token->text, token->len) : -1;
    bool cut = false;
    if (byte < 0) {
        s->tail.n = 0;
        s->dead = false;
        return false;
    }
    if (s->dead) return true;
    s->tail.at[s->tail.n++] = (char)byte;
    if (cdz_utf8_valid(s->tail.at, s->tail.n)) {
        s->tail.n = 0;
        return false;
    }
    cdz_utf8_bad(s->tail.at, s->tail.n, &cut);
    if (!cut) s->tail.n = 0;
    return s->dead = !cut;
}

/* The bytes that two texts begin with alike, whole characters. */
static size_t common_prefix(const cdz_buf *a, const cdz_buf *b)
{
    size_t n = 0;
    while (n < a->len && n < b->len && a->data[n] == b->data[n]) n++;
    while (n > 0 && n < b->len && ((unsigned char)b->data[n] & 0xC0) == 0x80) n--;
    return n;
}

static void say(cdz_text_stream *s, const cdz_buf *text)
{
    const size_t known = common_prefix(&s->said, text);
    cdz_buf_clear(&s->text);
    if (text->len > known) cdz_buf_add(&s->text, text->data + known, text->len - known);
}

/* The ids before the last text go, and what is left of them is what was said. */
static cdz_status drop_said(cdz_text_stream *s, cdz_error *err)
{
    s->n_ids -= s->n_said;
    memmove(s->ids, s->ids + s->n_said, s->n_ids * sizeof *s->ids);
    s->n_said = s->n_ids;
    cdz_buf_clear(&s->said);
    return decode_chain(s->tok, s->ids, s->n_ids, s->skip_special, &s->said, err);
}

/* Ids that gave no text yet count as said, where later ones do not change that. */
static cdz_status settle(cdz_text_stream *s, cdz_buf *text, cdz_error *err)
{
    if (s->said.len > 0 || s->n_ids == 0) return CDZ_OK;
    CDZ_TRY(decode_chain(s->tok, s->ids, s->n_ids, s->skip_special, text, err));
    if (ends_in_replacement(text)) return CDZ_OK;
    s->n_said = s->n_ids;
    if (text->len > 0) cdz_buf_add(&s->said, text->data, text->len);
    return CDZ_OK;
}

enum { PATIENCE = 256 }; /* ids without text that are decoded anew with every id */

static bool looks(const cdz_text_stream *s)
{
    return s->n_ids <= PATIENCE || s->n_ids >= s->look_at;
}

/* The reference's DecodeStream: *ready tells that there is text to give. Where a later id changes
 * text that was said, which the reference fails on, the changed end is said again. */
static cdz_status feed_chain(cdz_text_stream *s, int32_t id, bool *ready, cdz_error *err)
{
    const cdz_token *token = token_of(s->tok, id, s->skip_special);
    cdz_buf text = {0};
    *ready = false;
    if (!token) return CDZ_OK;
    const bool waits = run_is_dead(s, token) || !looks(s);
    cdz_status st = waits ? CDZ_OK : settle(s, &text, err);
    if (st == CDZ_OK && !push_id(s, id)) st = cdz_err_memory(err, "streamed text");
    if (st == CDZ_OK && !waits) {
        cdz_buf_clear(&text);
        st = decode_chain(s->tok, s->ids, s->n_ids, s->skip_special, &text, err);
        *ready = st == CDZ_OK && text.len > s->said.len && !ends_in_replacement(&text);
        s->look_at = *ready ? 0 : s->n_ids + s->n_ids / 4;
    }
    if (*ready) {
        say(s, &text);
        st = drop_said(s, err);
    }
    cdz_buf_free(&text);
    return st;
}

static cdz_status end_chain(cdz_text_stream *s, cdz_error *err)
{
    cdz_buf text = {0};
    const cdz_status st = decode_chain(s->tok, s->ids, s->n_ids, s->skip_special, &text, err);
    if (st == CDZ_OK) say(s, &text);
    cdz_buf_free(&text);
    cdz_buf_clear(&s->said);
    s->n_ids = s->n_said = s->look_at = 0;
    s->dead = false;
    s->tail.n = 0;
    return st;
}

/* --- one id ----------------------------------------------------------------------------------- */

/* Text goes out when it is whole and does not end in U+FFFD, which later bytes might replace:
 * then what was decoded so far is a prefix of whatever comes. */
cdz_status cdz_text_stream_feed(cdz_text_stream *s, int32_t id, const char **new_text, size_t *len,
                                cdz_error *err)
{
    const cdz_token *token = token_of(s->tok, id, s->skip_special);
    bool ready;
    drop_given(s);
    if (s->tok->decoder.byte_level) {
        if (token) cdz_utf8_push(&s->text, &s->tail, token->bytes, token->n_bytes);
        ready = token && s->tail.n == 0 && !ends_in_replacement(&s->text);
    } else {
        CDZ_TRY(feed_chain(s, id, &ready, err));
    }
    if (ready) return give(s, new_text, len, err);
    *new_text = "";
    if (len) *len = 0;
    return s->text.failed ? cdz_err_memory(err, "streamed text") : CDZ_OK;
}

cdz_status cdz_text_stream_end(cdz_text_stream *s, const char **new_text, size_t *len,
                               cdz_error *err)
{
    drop_given(s);
    if (!s->tok->decoder.byte_level) CDZ_TRY(end_chain(s, err));
    if (s->tail.n > 0) cdz_buf_puts(&s->text, CDZ_UTF8_REPLACEMENT);
    s->tail.n = 0;
    return give(s, new_text, len, err);
}

void cdz_text_stream_free(cdz_text_stream *s)
{
    cdz_buf_free(&s->text);
    cdz_buf_free(&s->said);
    free(s->ids);
    s->ids = NULL;
    s->n_ids = s->ids_cap = s->n_said = s->look_at = 0;
    s->tail.n = 0;
    s->given = s->dead = false;
}
