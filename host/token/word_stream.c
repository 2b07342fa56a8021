/* word_stream.c - holds text back to the last space, so that no half word is shown.
 *
 * The rule is that of transformers.TextStreamer.put; ideographs are those of its _is_chinese_char, which leaves out kana and
 * hangul on purpose. */
#include "token/word_stream.h"

#include <stdint.h>
#include <string.h>

static bool is_ideograph(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } blocks[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                  {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (c >= blocks[i].first && c <= blocks[i].last) return true;
    return false;
}

/* The last character of valid UTF-8. */
static uint32_t last_character(const char *text, size_t len)
{
    size_t at = len;
    while (at > 0 && ((unsigned char)text[at - 1] & 0xC0) == 0x80) at--;
    if (at == 0) return 0;
    const unsigned char lead = (unsigned char)text[at - 1];
    const size_t more = len - at;
    uint32_t c = more == 0 ? lead : lead & (0x3Fu >> more);
    for (size_t i = at; i < len; i++) c = c << 6 | ((unsigned char)text[i] & 0x3F);
    return c;
}

/* What was held before, text[0, held), has no space: only what is new is searched. */
static size_t sayable(const char *text, size_t held, size_t len)
{
    const uint32_t last = len ? last_character(text, len) : 0;
    if (last == '\n' || is_ideograph(last)) return len;
    while (len > held && text[len - 1] != ' ') len--;
    return len > held ? len : 0;
}

static void drop_said(cdz_word_stream *stream)
{
    cdz_buf *held = &stream->held;
    if (stream->n_said == 0) return;
    memmove(held->data, held->data + stream->n_said, held->len - stream->n_said);
    held->len -= stream->n_said;
    stream->n_said = 0;
}

const char *cdz_word_stream_feed(cdz_word_stream *stream, const char *text, size_t len, size_t *n)
{
    drop_said(stream);
    const size_t held = stream->held.len;
    cdz_buf_add(&stream->held, text, len);
    *n = 0;
    if (stream->held.failed) return NULL;
    *n = stream->n_said = sayable(stream->held.data, held, stream->held.len);
    return stream->held.data;
}

const char *cdz_word_stream_end(cdz_word_stream *stream, size_t *n)
{
    drop_said(stream);
    *n = stream->n_said = stream->held.len;
    return stream->held.data;
}

void cdz_word_stream_free(cdz_word_stream *stream)
{
    cdz_buf_free(&stream->held);
    *stream = (cdz_word_stream){0};
}
