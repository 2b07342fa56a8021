/* head.c - reads heads and chunk sizes byte for byte; see head.h. */
#include "serve/head.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/ascii.h"

bool cdz_slice_is(cdz_slice s, const char *text)
{
    return s.at && s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

bool cdz_slice_same(cdz_slice s, const char *text)
{
    return s.at && s.len == strlen(text) && strncasecmp(s.at, text, s.len) == 0;
}

/* --- bytes ------------------------------------------------------------------------------------------------- */

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* tchar of RFC 9110 */
static bool is_token(unsigned char c)
{
    return is_digit(c) || is_letter(c) || cdz_byte_in(c, "!#$%&'*+-.^_`|~");
}

static bool all_tokens(cdz_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_token((unsigned char)s.at[i])) return false;
    return s.len > 0;
}

static cdz_slice trimmed(const char *at, size_t len)
{
    while (len && (*at == ' ' || *at == '\t')) at++, len--;
    while (len && (at[len - 1] == ' ' || at[len - 1] == '\t')) len--;
    return (cdz_slice){at, len};
}

static cdz_head_state refuse(cdz_head *h, int status, const char *why)
{
    h->status = status;
    h->why = why;
    return CDZ_HEAD_BAD;
}

/* --- where the head ends -------------------------------------------------------------------------------------- */

/* What no head holds, wherever it stands. */
static const char *forbidden(const char *bytes, size_t n, size_t i)
{
    const unsigned char c = (unsigned char)bytes[i];
    if (c == '\n' && (i == 0 || bytes[i - 1] != '\r')) return "a line ends in LF alone";
    if (c == '\r' && i + 1 < n && bytes[i + 1] != '\n') return "a CR stands without LF";
    if (c == 0) return "there is a NUL byte in the head";
    if ((c < 0x20 && c != '\r' && c != '\n' && c != '\t') || c == 0x7F)
        return "there is a control byte in the head";
    return NULL;
}

/* The length of the head with its empty line; 0: it has not ended. *why: what is wrong before. */
static size_t head_end(const char *bytes, size_t n, const char **why)
{
    *why = NULL;
    for (size_t i = 0; i < n; i++) {
        *why = forbidden(bytes, n, i);
        if (*why) return 0;
        if (bytes[i] == '\n' && i >= 3 && bytes[i - 2] == '\n') return i + 1;
    }
    return 0;
}

/* --- the request line ------------------------------------------------------------------------------------------ */

/* "/path?query", every byte printable, every % with two digits. */
static bool split_target(cdz_slice target, cdz_head *h)
{
    const char *mark = memchr(target.at, '?', target.len);
    for (size_t i = 0; i < target.len; i++) {
        const unsigned char c = (unsigned char)target.at[i];
        if (c <= 0x20 || c >= 0x7F || c == '#' || c == '\\') return false;
        if (c != '%') continue;
        if (i + 2 >= target.len || cdz_hex_digit(target.at[i + 1]) < 0 ||
            cdz_hex_digit(target.at[i + 2]) < 0 ||
            (target.at[i + 1] == '0' && target.at[i + 2] == '0'))
            return false;
    }
    h->path = (cdz_slice){target.at, mark ? (size_t)(mark - target.at) : target.len};
    if (mark) h->query = (cdz_slice){mark + 1, target.len - h->path.len - 1};
    return true;
}

/* Letters, digits and these. */
static bool all_of(const char *at, size_t n, const char *others)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)at[i];
        if (!is_letter(c) && !is_digit(c) && (!c || !strchr(others, c))) return false;
    }
    return true;
}

/* A name or an address, perhaps in brackets, with perhaps a port, and nothing else. */
static bool is_host(cdz_slice s)
{
    const char *bracket = s.len && *s.at == '[' ? memchr(s.at, ']', s.len) : NULL;
    const char *after = bracket ? bracket + 1 : s.at, *end = s.at + s.len;
    const char *colon = memchr(after, ':', (size_t)(end - after));
    const char *name_end = colon ? colon : end;
    if (bracket && (name_end != after || !all_of(s.at + 1, (size_t)(bracket - s.at) - 1, ":.%")))
        return false;
    if (!bracket && !all_of(s.at, (size_t)(name_end - s.at), "-._~%")) return false;
    for (const char *at = colon ? colon + 1 : end; at < end; at++)
        if (!is_digit((unsigned char)*at)) return false;
    return true;
}

static cdz_head_state read_target(cdz_slice target, cdz_head *h)
{
    static const char scheme[] = "http://";
    static const size_t n = sizeof scheme - 1;
    if (cdz_slice_is(target, "*") && cdz_slice_is(h->method, "OPTIONS")) {
        h->path = target;
        return CDZ_HEAD_GOOD;
    }
    if (cdz_slice_is(h->method, "CONNECT")) return refuse(h, 405, "CONNECT is not served here");
    if (target.len > n && strncasecmp(target.at, scheme, n) == 0) {
        size_t len = 0;
        while (n + len < target.len && target.at[n + len] != '/' && target.at[n + len] != '?')
            len++;
        h->host = (cdz_slice){target.at + n, len};
        if (!len || !is_host(h->host)) return refuse(h, 400, "the target's host is malformed");
        const char *slash = target.at + n - 1; /* the scheme's, where the path has none */
        target = (cdz_slice){target.at + n + len, target.len - n - len};
        if (!target.len) target = (cdz_slice){slash, 1};
    }
    if (!target.len || target.at[0] != '/')
        return refuse(h, 400, "the target must begin with / or http://");
    if (!split_target(target, h))
        return refuse(h, 400, "the target holds bytes that must be written as %XX");
    return CDZ_HEAD_GOOD;
}

static cdz_head_state read_version(cdz_slice version, cdz_head *h)
{
    h->old = cdz_slice_is(version, "HTTP/1.0");
    if (h->old || cdz_slice_is(version, "HTTP/1.1")) return CDZ_HEAD_GOOD;
    if (version.len == 8 && memcmp(version.at, "HTTP/", 5) == 0 &&
        is_digit((unsigned char)version.at[5]) && version.at[6] == '.' &&
        is_digit((unsigned char)version.at[7]))
        return refuse(h, 505, "the server speaks HTTP/1.1");
    return refuse(h, 400, "the request line must end in HTTP/1.1");
}

static cdz_head_state read_request_line(cdz_slice line, cdz_head *h)
{
    const char *first = memchr(line.at, ' ', line.len);
    if (!first) return refuse(h, 400, "the first line is no request line");
    h->method = (cdz_slice){line.at, (size_t)(first - line.at)};
    const cdz_slice rest = {first + 1, line.len - h->method.len - 1};
    const char *second = memchr(rest.at, ' ', rest.len);
    if (!second) return refuse(h, 400, "the request line must end in HTTP/1.1");
    const cdz_slice target = {rest.at, (size_t)(second - rest.at)};
    const cdz_slice version = {second + 1, rest.len - target.len - 1};
    if (!all_tokens(h->method) || h->method.len > 32) return refuse(h, 400, "this is no method");
    if (target.len > CDZ_HEAD_TARGET) return refuse(h, 414, "the target is longer than 8192 bytes");
    const cdz_head_state state = read_version(version, h);
    return state == CDZ_HEAD_GOOD ? read_target(target, h) : state;
}

/* --- fields ------------------------------------------------------------------------------------------------------ */

typedef struct known {
    cdz_slice host, length, coding, encoding, expect;
    uint32_t n;
} known;

/* Fields that may come once; NULL: any number of them. */
static cdz_slice *place_of(cdz_slice name, cdz_head *h, known *k)
{
    const struct {
        const char *name;
        cdz_slice *at;
    } once[] = {
        {"Host", &k->host},
        {"Content-Length", &k->length},
        {"Transfer-Encoding", &k->coding},
        {"Content-Encoding", &k->encoding},
        {"Expect", &k->expect},
        {"Origin", &h->origin},
        {"Authorization", &h->authorization},
        {"Content-Type", &h->content_type},
        {"X-Request-Id", &h->request_id},
        {"traceparent", &h->traceparent},
    };
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        if (cdz_slice_same(name, once[i].name)) return once[i].at;
    return NULL;
}

static void read_connection(cdz_slice value, cdz_head *h)
{
    while (value.len) {
        const char *comma = memchr(value.at, ',', value.len);
        const size_t n = comma ? (size_t)(comma - value.at) : value.len;
        const cdz_slice word = trimmed(value.at, n);
        if (cdz_slice_same(word, "close")) h->last = true;
        if (cdz_slice_same(word, "keep-alive") && h->old) h->last = false;
        value = (cdz_slice){value.at + n + !!comma, value.len - n - !!comma};
    }
}

static cdz_head_state read_field(cdz_slice line, cdz_head *h, known *k)
{
    const char *colon = memchr(line.at, ':', line.len);
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return refuse(h, 400, "a field begins with a blank: folded lines are not read");
    if (!colon) return refuse(h, 400, "a field has no colon");
    const cdz_slice name = {line.at, (size_t)(colon - line.at)};
    const cdz_slice value = trimmed(colon + 1, line.len - name.len - 1);
    if (!all_tokens(name)) return refuse(h, 400, "a field's name is empty or malformed");
    if (++k->n > CDZ_HEAD_FIELDS) return refuse(h, 431, "the head has more than 100 fields");
    if (cdz_slice_same(name, "Connection")) read_connection(value, h);
    cdz_slice *place = place_of(name, h, k);
    if (place && place->at) return refuse(h, 400, "a field that may come once comes twice");
    if (place) *place = value;
    return CDZ_HEAD_GOOD;
}

/* --- what the fields say together ------------------------------------------------------------------------------------ */

static bool read_length(cdz_slice s, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit((unsigned char)s.at[i])) return false;
        *out = *out * 10 + (uint64_t)(s.at[i] - '0');
    }
    return s.len >= 1 && s.len <= 18;
}

static cdz_head_state read_framing(const known *k, cdz_head *h)
{
    if (k->length.at && k->coding.at)
        return refuse(h, 400, "Content-Length and Transfer-Encoding contradict each other");
    if (k->coding.at && h->old) return refuse(h, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (k->coding.at && !cdz_slice_same(k->coding, "chunked"))
        return refuse(h, 400, "Transfer-Encoding must be chunked");
    if (k->length.at && !read_length(k->length, &h->length))
        return refuse(h, 400, "Content-Length must be a number of bytes");
    if (k->coding.at)
        h->body = CDZ_BODY_CHUNKED;
    else if (h->length)
        h->body = CDZ_BODY_LENGTH;
    return CDZ_HEAD_GOOD;
}

static cdz_head_state read_rest(const known *k, cdz_head *h)
{
    if (!k->host.at && !h->old) return refuse(h, 400, "there is no Host");
    if (k->host.at && !is_host(k->host)) return refuse(h, 400, "Host is malformed");
    if (!h->host.at) h->host = k->host;
    const cdz_head_state state = read_framing(k, h);
    if (state != CDZ_HEAD_GOOD) return state;
    if (k->encoding.at && !cdz_slice_same(k->encoding, "identity"))
        return refuse(h, 415, "Content-Encoding is not read: send the body as it is");
    if (k->expect.at && !cdz_slice_same(k->expect, "100-continue"))
        return refuse(h, 417, "of expectations, 100-continue alone is met");
    h->expects = k->expect.at && !h->old;
    return CDZ_HEAD_GOOD;
}

static cdz_head_state read_lines(const char *at, const char *end, cdz_head *h)
{
    known k = {0};
    bool first = true;
    for (;;) {
        const char *cr = memchr(at, '\r', (size_t)(end - at));
        const cdz_slice line = {at, (size_t)(cr - at)};
        if (line.len == 0) return read_rest(&k, h);
        const cdz_head_state state = first ? read_request_line(line, h) : read_field(line, h, &k);
        if (state != CDZ_HEAD_GOOD) return state;
        if (first) h->last = h->old; /* unless it says keep-alive */
        first = false;
        at = cr + 2;
    }
}

/* Too long, or not ended. */
static cdz_head_state unended(const char *bytes, size_t n, cdz_head *h)
{
    const char *line = memchr(bytes, '\n', n);
    if ((line ? (size_t)(line - bytes) : n) > CDZ_HEAD_TARGET + 64)
        return refuse(h, 414, "the request line is longer than 8192 bytes");
    if (n >= CDZ_HEAD_BYTES) return refuse(h, 431, "the head is longer than 32768 bytes");
    return CDZ_HEAD_MORE;
}

cdz_head_state cdz_head_read(const char *bytes, size_t n, cdz_head *h)
{
    const char *why;
    *h = (cdz_head){0};
    if (n >= 2 && memcmp(bytes, "\r\n", 2) == 0) h->skip = 2;
    bytes += h->skip;
    n -= h->skip;
    if (n >= 2 && memcmp(bytes, "\r\n", 2) == 0) return refuse(h, 400, "there is no request line");
    const size_t end = head_end(bytes, n, &why);
    if (why) return refuse(h, 400, why);
    if (!end) return unended(bytes, n, h);
    if (end > CDZ_HEAD_BYTES) return unended(bytes, end, h);
    h->bytes = end;
    return read_lines(bytes, bytes + end, h);
}

/* --- ids --------------------------------------------------------------------------------------------------------------- */

void cdz_head_id(cdz_slice given, char out[CDZ_HEAD_ID])
{
    unsigned char random[12] = {0};
    if (given.at && given.len && given.len < CDZ_HEAD_ID && all_of(given.at, given.len, "._-")) {
        memcpy(out, given.at, given.len);
        out[given.len] = '\0';
        return;
    }
    if (getrandom(random, sizeof random, 0) < 0) random[0] = 1;
    for (size_t i = 0; i < sizeof random; i++) snprintf(out + 2 * i, 3, "%02x", random[i]);
}

/* --- chunks ------------------------------------------------------------------------------------------------------------ */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, END_CR, END_LF };

static bool read_size(cdz_chunks *c, unsigned char byte)
{
    const int digit = cdz_hex_digit(byte);
    if (digit >= 0) {
        c->left = c->left * 16 + (uint64_t)digit;
        return ++c->digits <= CDZ_CHUNK_DIGITS;
    }
    if (!c->digits) return false;
    c->state = byte == ';' ? EXTENSION : SIZE_LF;
    return byte == ';' || byte == '\r';
}

static bool read_extension(cdz_chunks *c, unsigned char byte)
{
    if (byte == '\r') c->state = SIZE_LF;
    return byte == '\r' || (((byte >= 0x20 && byte < 0x7F) || byte == '\t') &&
                            ++c->extended <= CDZ_CHUNK_EXTENSION);
}

static bool read_mark(cdz_chunks *c, unsigned char byte)
{
    switch (c->state) {
    case SIZE: return read_size(c, byte);
    case EXTENSION: return read_extension(c, byte);
    case SIZE_LF: c->state = c->left ? DATA : END_CR; return byte == '\n';
    case DATA_CR: c->state = DATA_LF; return byte == '\r';
    case DATA_LF: *c = (cdz_chunks){.state = SIZE}; return byte == '\n';
    case END_CR: c->state = END_LF; return byte == '\r'; /* trailers are not read */
    default: c->done = true; return byte == '\n';
    }
}

bool cdz_chunks_read(cdz_chunks *c, const char *bytes, size_t n, cdz_slice *data, size_t *used)
{
    size_t i = 0;
    *data = (cdz_slice){bytes, 0};
    *used = 0;
    while (i < n && c->state != DATA && !c->done)
        if (!read_mark(c, (unsigned char)bytes[i++])) return false;
    if (c->state == DATA && i < n) {
        const size_t len = n - i < c->left ? n - i : (size_t)c->left;
        *data = (cdz_slice){bytes + i, len};
        c->left -= len;
        if (!c->left) c->state = DATA_CR;
        i += len;
    }
    *used = i;
    return true;
}
