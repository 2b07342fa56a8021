/* fuzz_tokenizer.c - a tokenizer.json and a text for it, separated by a NUL byte. The file is
 * refused or gives a tokenizer; whatever ids it makes of the text decode, as a whole and as a
 * stream: to the same text where the decoder is ByteLevel, to UTF-8 in any case (with others a
 * later token may change earlier text). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "support/memory_meter.h"
#include "token/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int what)
{
    if (!what) abort();
}

static void check_stream(const cdz_tokenizer *tok, const cdz_encoding *enc, const cdz_buf *whole)
{
    cdz_text_stream stream = {.tok = tok};
    cdz_buf joined = {0};
    const char *text;
    size_t len;
    for (size_t i = 0; i < enc->n; i++) {
        const cdz_status st = cdz_text_stream_feed(&stream, enc->ids[i], &text, &len, NULL);
        require(st == CDZ_OK || (st == CDZ_E_LIMIT && !tok->decoder.byte_level));
        if (st != CDZ_OK) continue;
        cdz_buf_add(&joined, text, len);
    }
    if (cdz_text_stream_end(&stream, &text, &len, NULL) == CDZ_OK) cdz_buf_add(&joined, text, len);
    require(joined.len == 0 || cdz_utf8_valid(joined.data, joined.len));
    if (tok->decoder.byte_level) {
        require(joined.len == whole->len);
        require(joined.len == 0 || memcmp(joined.data, whole->data, joined.len) == 0);
    }
    cdz_text_stream_free(&stream);
    cdz_buf_free(&joined);
}

static void check_text(const cdz_tokenizer *tok, const char *text, size_t len)
{
    cdz_tokenizer_scratch *scratch = cdz_tokenizer_scratch_new();
    cdz_encoding enc = {0}, with_offsets = {0};
    cdz_buf whole = {0};
    if (cdz_tokenizer_encode(tok, scratch, text, len, CDZ_ENCODE_SPECIAL, &enc, NULL) == CDZ_OK) {
        const unsigned flags = CDZ_ENCODE_SPECIAL | CDZ_ENCODE_OFFSETS;
        require(cdz_tokenizer_encode(tok, scratch, text, len, flags, &with_offsets, NULL) == CDZ_OK);
        require(enc.n == with_offsets.n);
        require(enc.n == 0 || memcmp(enc.ids, with_offsets.ids, enc.n * sizeof *enc.ids) == 0);
        for (size_t i = 0; i < enc.n; i++)
            require(with_offsets.offsets[i].begin <= with_offsets.offsets[i].end &&
                    with_offsets.offsets[i].end <= len);
        const cdz_status st = cdz_tokenizer_decode(tok, enc.ids, enc.n, 0, &whole, NULL);
        require(st == CDZ_OK || (st == CDZ_E_LIMIT && !tok->decoder.byte_level));
        check_stream(tok, &enc, &whole);
    }
    cdz_buf_free(&whole);
    cdz_encoding_free(&enc);
    cdz_encoding_free(&with_offsets);
    cdz_tokenizer_scratch_free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data;
    const char *end = size ? memchr(json, 0, size) : NULL;
    const size_t json_len = end ? (size_t)(end - json) : size;
    cdz_tokenizer *tok;
    cdz_error err;
    meter_begin();
    const cdz_status st = cdz_tokenizer_parse(json, json_len, NULL, 0, "fuzz", &tok, &err);
    require(meter_most() + json_len <= meter_allowed(json_len));
    if (st != CDZ_OK) return 0;
    if (end) check_text(tok, end + 1, size - json_len - 1);
    cdz_tokenizer_free(tok);
    return 0;
}
