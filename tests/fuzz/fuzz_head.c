/* fuzz_head.c - any bytes as the head of a request and the chunks behind it: what is good is good byte by byte as well, and the
 * texts of a good head lie in it. The first byte says how many bytes come at a time. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "serve/head.h"

static void check_inside(cdz_slice s, const char *bytes, size_t n)
{
    FUZZ_CHECK(!s.at || (s.at >= bytes && s.at + s.len <= bytes + n));
    for (size_t i = 0; i < s.len; i++)
        FUZZ_CHECK(s.at[i] != '\r' && s.at[i] != '\n' && s.at[i] != '\0');
}

static void check_good(const cdz_head *h, const char *bytes, size_t n)
{
    FUZZ_CHECK(h->skip + h->bytes <= n &&
               memcmp(bytes + h->skip + h->bytes - 4, "\r\n\r\n", 4) == 0);
    const cdz_slice texts[] = {h->method,       h->path,       h->query,
                               h->host,         h->origin,     h->authorization,
                               h->content_type, h->request_id, h->traceparent};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_inside(texts[i], bytes, h->skip + h->bytes);
    FUZZ_CHECK(h->method.len && h->path.len);
    FUZZ_CHECK(h->body != CDZ_BODY_LENGTH || h->length);
    FUZZ_CHECK(!h->old || h->body != CDZ_BODY_CHUNKED);
}

/* Bytes of the body; SIZE_MAX: refused. */
static size_t unpack(const char *bytes, size_t n, size_t piece)
{
    cdz_chunks chunks = {0};
    size_t at = 0, sum = 0;
    while (at < n && !chunks.done) {
        cdz_slice data;
        size_t used;
        const size_t there = n - at < piece ? n - at : piece;
        if (!cdz_chunks_read(&chunks, bytes + at, there, &data, &used)) return SIZE_MAX;
        FUZZ_CHECK(used && used <= there && data.len <= used);
        sum += data.len;
        at += used;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > (1 << 16)) return 0;
    const size_t piece = data[0] % 16 + 1u, n = size - 1;
    char *bytes = malloc(n + 1); /* no byte behind the end */
    cdz_head head, again;
    FUZZ_CHECK(bytes);
    memcpy(bytes, data + 1, n);
    const cdz_head_state state = cdz_head_read(bytes, n, &head);
    for (size_t i = piece; i < n && i < 4096; i += piece) {
        const cdz_head_state early = cdz_head_read(bytes, i, &again);
        FUZZ_CHECK(early == CDZ_HEAD_MORE || early == state);
        if (early == CDZ_HEAD_GOOD) FUZZ_CHECK(again.bytes == head.bytes);
    }
    FUZZ_CHECK(state != CDZ_HEAD_BAD || (head.status >= 400 && head.why));
    if (state == CDZ_HEAD_GOOD) {
        check_good(&head, bytes, n);
        const char *body = bytes + head.skip + head.bytes;
        const size_t left = n - head.skip - head.bytes;
        FUZZ_CHECK(unpack(body, left, piece) == unpack(body, left, left + 1));
    }
    free(bytes);
    return 0;
}
