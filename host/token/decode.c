/* decode.c - ids to text: whole lists, single tokens, and streams. */
#include <string.h>

#include "base/utf8.h"
#include "token/parts.h"

/* Appends bytes as text: each malformed part becomes U+FFFD. Returns how many bytes at the end
 * may be the begin of a character that more bytes complete; they are not appended. */
static size_t add_lossy(cdz_buf *out, const char *bytes, size_t n)
{
    while (n > 0) {
        const size_t valid = cdz_utf8_valid_prefix(bytes, n);
        bool cut = false;
        cdz_buf_add(out, bytes, valid);
        bytes += valid;
        n -= valid;
        if (n == 0) break;
        const size_t bad = cdz_utf8_bad(bytes, n, &cut);
        if (cut) return n;
        cdz_buf_puts(out, CDZ_UTF8_REPLACEMENT);
        bytes += bad;
        n -= bad;
    }
    return 0;
}

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
            if (text->len - read >= n_find &&
                memcmp(text->data + read, rules[r].find, n_find) == 0) {
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

cdz_status cdz_tokenizer_decode(const cdz_tokenizer *tok, const int32_t *ids, size_t n,
                                unsigned flags, cdz_buf *out, cdz_error *err)
{
    const size_t from = out->len;
    cdz_buf bytes = {0};
    for (size_t i = 0; i < n; i++) {
        const cdz_token *token = token_of(tok, ids[i], flags & CDZ_DECODE_SKIP_SPECIAL);
        if (token) cdz_buf_add(&bytes, token->bytes, token->n_bytes);
    }
    if (bytes.len > 0 && add_lossy(out, bytes.data, bytes.len) > 0)
        cdz_buf_puts(out, CDZ_UTF8_REPLACEMENT);
    const bool failed = bytes.failed || out->failed;
    cdz_buf_free(&bytes);
    if (failed) return cdz_err(err, CDZ_E_NOMEM, "out of memory for the text of %zu ids", n);
    if (flags & CDZ_DECODE_CLEAN_UP) clean_up(out, from);
    return CDZ_OK;
}

bool cdz_tokenizer_text_alone(const cdz_tokenizer *tok, int32_t id, cdz_buf *out)
{
    const cdz_token *token = cdz_vocab_token(&tok->vocab, id);
    if (!token) return false;
    if (add_lossy(out, token->bytes, token->n_bytes) > 0) cdz_buf_puts(out, CDZ_UTF8_REPLACEMENT);
    return true;
}

/* --- streams ---------------------------------------------------------------------------------- */

static bool ends_in_replacement(const cdz_buf *text)
{
    return text->len >= 3 && memcmp(text->data + text->len - 3, CDZ_UTF8_REPLACEMENT, 3) == 0;
}

static cdz_status give(cdz_text_stream *s, const char **new_text, size_t *len, cdz_error *err)
{
    if (s->text.failed) return cdz_err(err, CDZ_E_NOMEM, "out of memory for streamed text");
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

/* Adds the bytes that follow the tail. */
static void take_bytes(cdz_text_stream *s, const char *bytes, size_t n)
{
    while (s->n_tail > 0 && n > 0) { /* one byte at a time until the tail is settled */
        char joined[5];
        memcpy(joined, s->tail, s->n_tail);
        joined[s->n_tail] = *bytes++;
        n--;
        const size_t left = add_lossy(&s->text, joined, s->n_tail + 1u);
        memcpy(s->tail, joined + s->n_tail + 1u - left, left);
        s->n_tail = (uint8_t)left;
    }
    if (n == 0) return;
    const size_t left = add_lossy(&s->text, bytes, n);
    memcpy(s->tail, bytes + n - left, left);
    s->n_tail = (uint8_t)left;
}

/* Text goes out when it is whole and does not end in U+FFFD, which later bytes might replace:
 * then what was decoded so far is a prefix of whatever comes. */
cdz_status cdz_text_stream_feed(cdz_text_stream *s, int32_t id, const char **new_text, size_t *len,
                                cdz_error *err)
{
    const cdz_token *token = token_of(s->tok, id, s->skip_special);
    drop_given(s);
    if (token) take_bytes(s, token->bytes, token->n_bytes);
    if (token && s->n_tail == 0 && !ends_in_replacement(&s->text))
        return give(s, new_text, len, err);
    *new_text = "";
    if (len) *len = 0;
    return s->text.failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory for streamed text") : CDZ_OK;
}

cdz_status cdz_text_stream_end(cdz_text_stream *s, const char **new_text, size_t *len,
                               cdz_error *err)
{
    drop_given(s);
    if (s->n_tail > 0) cdz_buf_puts(&s->text, CDZ_UTF8_REPLACEMENT);
    s->n_tail = 0;
    return give(s, new_text, len, err);
}

void cdz_text_stream_free(cdz_text_stream *s)
{
    cdz_buf_free(&s->text);
    s->n_tail = 0;
    s->given = false;
}
