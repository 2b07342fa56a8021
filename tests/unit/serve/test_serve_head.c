/* test_serve_head.c - heads and bodies of HTTP requests, byte for byte: what is refused, with which status, and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/head.h"

#define GET  "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define END  "\r\n"

/* status 200: it is good; 0: it has not ended. */
static const struct {
    const char *name;
    int status;
    const char *bytes;
    size_t len; /* 0: to the NUL */
} heads[] = {
    {"plain", 200, GET HOST END, 0},
    {"an empty line first", 200, END GET HOST END, 0},
    {"two empty lines first", 400, END END GET HOST END, 0},
    {"not ended", 0, GET HOST, 0},
    {"nothing", 0, "", 0},
    {"version 1.0 without a host", 200, "GET / HTTP/1.0\r\n\r\n", 0},
    {"version 1.2", 505, "GET / HTTP/1.2\r\n" HOST END, 0},
    {"version 2.0 preface", 505, "PRI * HTTP/2.0\r\n\r\n", 0},
    {"version in small letters", 400, "GET / http/1.1\r\n" HOST END, 0},
    {"no version", 400, "GET /\r\n" HOST END, 0},
    {"two blanks", 400, "GET  / HTTP/1.1\r\n" HOST END, 0},
    {"two blanks before the version", 400, "GET /  HTTP/1.1\r\n" HOST END, 0},
    {"a tab for a blank", 400, "GET\t/ HTTP/1.1\r\n" HOST END, 0},
    {"a blank at the end", 400, "GET / HTTP/1.1 \r\n" HOST END, 0},
    {"a TLS hello", 400, "\x16\x03\x01\x02\x00", 5},
    {"bytes as method", 400, "G\x80T / HTTP/1.1\r\n" HOST END, 0},
    {"brackets as method", 400, "G(T / HTTP/1.1\r\n" HOST END, 0},
    {"a long method", 400, "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" HOST END, 0},
    {"an unknown method", 200, "BREW / HTTP/1.1\r\n" HOST END, 0},
    {"CONNECT", 405, "CONNECT a:1 HTTP/1.1\r\n" HOST END, 0},
    {"OPTIONS *", 200, "OPTIONS * HTTP/1.1\r\n" HOST END, 0},
    {"GET *", 400, "GET * HTTP/1.1\r\n" HOST END, 0},
    {"a target without a slash", 400, "GET a HTTP/1.1\r\n" HOST END, 0},
    {"an absolute target", 200, "GET http://b:1/x?y HTTP/1.1\r\n" HOST END, 0},
    {"an absolute target without a path", 200, "GET http://b HTTP/1.1\r\n" HOST END, 0},
    {"an absolute target with a query alone", 400, "GET http://b?x HTTP/1.1\r\n" HOST END, 0},
    {"an absolute target with a user", 400, "GET http://u@b/ HTTP/1.1\r\n" HOST END, 0},
    {"another scheme", 400, "GET ftp://b/ HTTP/1.1\r\n" HOST END, 0},
    {"NUL in the target", 400, "GET /\0 HTTP/1.1\r\n" HOST END,
     sizeof("GET /\0 HTTP/1.1\r\n" HOST END) - 1},
    {"%00 in the target", 400, "GET /%00 HTTP/1.1\r\n" HOST END, 0},
    {"a control byte in the target", 400, "GET /\x01 HTTP/1.1\r\n" HOST END, 0},
    {"DEL in the target", 400, "GET /\x7f HTTP/1.1\r\n" HOST END, 0},
    {"a byte above 127 in the target", 400, "GET /\xc3\xa4 HTTP/1.1\r\n" HOST END, 0},
    {"% without digits", 400, "GET /%zz HTTP/1.1\r\n" HOST END, 0},
    {"% at the end", 400, "GET /% HTTP/1.1\r\n" HOST END, 0},
    {"a fragment", 400, "GET /#x HTTP/1.1\r\n" HOST END, 0},
    {"LF after the request line", 400, "GET / HTTP/1.1\n" HOST END, 0},
    {"LF after a field", 400, GET "Host: a\n" END, 0},
    {"LF as the empty line", 400, GET HOST "\n", 0},
    {"LF alone at once", 400, "\n", 0},
    {"CR in a field", 400, GET HOST "A: b\rc" END END, 0},
    {"CR CR LF", 400, GET HOST "A: b\r\r\n" END, 0},
    {"NUL in a field", 400, GET HOST "A: \0" END END, sizeof(GET HOST "A: \0" END END) - 1},
    {"a control byte in a field", 400, GET HOST "A: \x02" END END, 0},
    {"a tab in a field", 200, GET HOST "A: b\tc" END END, 0},
    {"bytes above 127 in a field", 200, GET HOST "A: \xe4" END END, 0},
    {"a folded field", 400, GET HOST "A: b\r\n c" END END, 0},
    {"a folded field by a tab", 400, GET HOST "A: b\r\n\tc" END END, 0},
    {"a blank before the first field", 400, GET " " HOST END, 0},
    {"a blank before the colon", 400, GET "Host : a\r\n" END, 0},
    {"an empty name", 400, GET HOST ": b\r\n" END, 0},
    {"no colon", 400, GET HOST "A b\r\n" END, 0},
    {"a bracket in a name", 400, GET HOST "A(b: c\r\n" END, 0},
    {"no host", 400, GET END, 0},
    {"two hosts", 400, GET HOST HOST END, 0},
    {"two hosts in other letters", 400, GET HOST "hOST: b\r\n" END, 0},
    {"a host with a path", 400, GET "Host: a/b\r\n" END, 0},
    {"a host with a user", 400, GET "Host: u@a\r\n" END, 0},
    {"a host of two", 400, GET "Host: a, b\r\n" END, 0},
    {"a host with a port of letters", 400, GET "Host: a:b\r\n" END, 0},
    {"a host with two ports", 400, GET "Host: a:1:2\r\n" END, 0},
    {"a host in brackets that are open", 400, GET "Host: [::1\r\n" END, 0},
    {"a host behind brackets", 400, GET "Host: [::1]a\r\n" END, 0},
    {"a host in brackets", 200, GET "Host: [::1]:80\r\n" END, 0},
    {"two keys", 400, GET HOST "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n" END, 0},
    {"two origins", 400, GET HOST "Origin: a\r\nOrigin: b\r\n" END, 0},
    {"two types", 400, GET HOST "Content-Type: a\r\nContent-Type: a\r\n" END, 0},
    {"a length", 200, POST HOST "Content-Length: 5\r\n" END, 0},
    {"length 0", 200, POST HOST "Content-Length: 0\r\n" END, 0},
    {"leading zeros", 200, POST HOST "Content-Length: 0005\r\n" END, 0},
    {"no length", 400, POST HOST "Content-Length:\r\n" END, 0},
    {"a list of lengths", 400, POST HOST "Content-Length: 5, 5\r\n" END, 0},
    {"two lengths", 400, POST HOST "Content-Length: 5\r\nContent-Length: 6\r\n" END, 0},
    {"one length twice", 400, POST HOST "Content-Length: 5\r\nContent-Length: 5\r\n" END, 0},
    {"a sign", 400, POST HOST "Content-Length: +5\r\n" END, 0},
    {"below zero", 400, POST HOST "Content-Length: -5\r\n" END, 0},
    {"hexadecimal", 400, POST HOST "Content-Length: 0x5\r\n" END, 0},
    {"a fraction", 400, POST HOST "Content-Length: 5.0\r\n" END, 0},
    {"a blank inside", 400, POST HOST "Content-Length: 5 5\r\n" END, 0},
    {"an overflow", 400, POST HOST "Content-Length: 18446744073709551621\r\n" END, 0},
    {"chunked", 200, POST HOST "Transfer-Encoding: chunked\r\n" END, 0},
    {"chunked in other letters", 200, POST HOST "transfer-encoding: Chunked\r\n" END, 0},
    {"length and chunked", 400, POST HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" END,
     0},
    {"chunked and length", 400, POST HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" END,
     0},
    {"chunked twice", 400,
     POST HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" END, 0},
    {"chunked, chunked", 400, POST HOST "Transfer-Encoding: chunked, chunked\r\n" END, 0},
    {"gzip, chunked", 400, POST HOST "Transfer-Encoding: gzip, chunked\r\n" END, 0},
    {"identity", 400, POST HOST "Transfer-Encoding: identity\r\n" END, 0},
    {"an unknown coding", 400, POST HOST "Transfer-Encoding: xchunked\r\n" END, 0},
    {"a coding with a tab inside", 400, POST HOST "Transfer-Encoding: chun\tked\r\n" END, 0},
    {"chunked under 1.0", 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" END, 0},
    {"a blank before the coding's colon", 400, POST HOST "Transfer-Encoding : chunked\r\n" END, 0},
    {"a packed body", 415, POST HOST "Content-Encoding: gzip\r\n" END, 0},
    {"a body as it is", 200, POST HOST "Content-Encoding: identity\r\n" END, 0},
    {"expects 100-continue", 200, POST HOST "Expect: 100-Continue\r\nContent-Length: 1\r\n" END, 0},
    {"expects something else", 417, POST HOST "Expect: tea\r\n" END, 0},
};

static void test_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        cdz_head head;
        const size_t len = heads[i].len ? heads[i].len : strlen(heads[i].bytes);
        char *exact = malloc(len + 1); /* what lies behind it is not to be read */
        assert_non_null(exact);
        memcpy(exact, heads[i].bytes, len);
        const cdz_head_state got = cdz_head_read(exact, len, &head);
        const int status = got == CDZ_HEAD_GOOD ? 200 : got == CDZ_HEAD_BAD ? head.status : 0;
        if (status != heads[i].status)
            fail_msg("%s: status %d, expected %d (%s)", heads[i].name, status, heads[i].status,
                     head.why ? head.why : "");
        if (got == CDZ_HEAD_GOOD) assert_int_equal(head.skip + head.bytes, len);
        free(exact);
    }
}

/* However it arrives, a head is refused, or good, with its last byte at the latest, and never before it is good. */
static void test_every_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const size_t len = heads[i].len ? heads[i].len : strlen(heads[i].bytes);
        cdz_head head;
        for (size_t n = 0; n < len; n++) {
            const cdz_head_state got = cdz_head_read(heads[i].bytes, n, &head);
            if (got == CDZ_HEAD_GOOD) fail_msg("%s: good after %zu bytes", heads[i].name, n);
            if (heads[i].status == 200 && got != CDZ_HEAD_MORE)
                fail_msg("%s: refused after %zu bytes: %s", heads[i].name, n, head.why);
        }
    }
}

static void test_what_it_says(void **state)
{
    static const char text[] =
        "POST http://b:1/x%20y?q=1 HTTP/1.1\r\nHost: a\r\nORIGIN: \t http://o \r\n"
        "authorization: Bearer k\r\nConnection: foo, CLOSE\r\nExpect: 100-continue\r\n"
        "Content-Length: 42\r\n\r\nbody";
    cdz_head h;
    (void)state;
    assert_int_equal(cdz_head_read(text, sizeof text - 1, &h), CDZ_HEAD_GOOD);
    assert_int_equal(h.bytes, sizeof text - 1 - 4);
    assert_true(cdz_slice_is(h.method, "POST"));
    assert_true(cdz_slice_is(h.path, "/x%20y"));
    assert_true(cdz_slice_is(h.query, "q=1"));
    assert_true(cdz_slice_is(h.host, "b:1")); /* the target's wins */
    assert_true(cdz_slice_is(h.origin, "http://o"));
    assert_true(cdz_slice_is(h.authorization, "Bearer k"));
    assert_true(h.last);
    assert_true(h.expects);
    assert_int_equal(h.body, CDZ_BODY_LENGTH);
    assert_int_equal(h.length, 42);
}

static void test_keeps_the_connection(void **state)
{
    cdz_head h;
    (void)state;
    assert_int_equal(cdz_head_read(GET HOST END, strlen(GET HOST END), &h), CDZ_HEAD_GOOD);
    assert_false(h.last);
    const char *old = "GET / HTTP/1.0\r\n\r\n",
               *kept = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    assert_int_equal(cdz_head_read(old, strlen(old), &h), CDZ_HEAD_GOOD);
    assert_true(h.last);
    assert_int_equal(cdz_head_read(kept, strlen(kept), &h), CDZ_HEAD_GOOD);
    assert_false(h.last);
}

/* A head of `bytes` bytes in all, of fields or of one target. */
static char *long_head(size_t bytes, size_t fields, bool target)
{
    char *text = malloc(bytes + 64 + fields * 8);
    size_t n = 0;
    assert_non_null(text);
    memcpy(text, "GET /", 5);
    n = 5;
    while (target && n < bytes) text[n++] = 'a';
    memcpy(text + n, " HTTP/1.1\r\nHost: a\r\n", 20);
    n += 20;
    for (size_t i = 0; i < fields; i++) {
        memcpy(text + n, "A: b\r\n", 6);
        n += 6;
    }
    if (!target && n < bytes) {
        memcpy(text + n, "B: ", 3);
        n += 3;
        while (n < bytes) text[n++] = 'b';
        memcpy(text + n, "\r\n", 2);
        n += 2;
    }
    memcpy(text + n, "\r\n", 3);
    return text;
}

static int status_of(const char *text)
{
    cdz_head h;
    const cdz_head_state got = cdz_head_read(text, strlen(text), &h);
    return got == CDZ_HEAD_GOOD ? 200 : got == CDZ_HEAD_BAD ? h.status : 0;
}

static void test_limits(void **state)
{
    static const struct {
        size_t bytes, fields;
        bool target;
        int status;
    } rows[] = {
        {0, 99, false, 200},     {0, 100, false, 431},     {8000, 0, true, 200},
        {9000, 0, true, 414},    {30000, 0, false, 200},   {40000, 0, false, 431},
        {1 << 20, 0, true, 414}, {1 << 20, 0, false, 431},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = long_head(rows[i].bytes, rows[i].fields, rows[i].target);
        assert_int_equal(status_of(text), rows[i].status);
        free(text);
    }
}

/* --- chunks ------------------------------------------------------------------------------------------------------ */

/* The body, or NULL: refused. `piece` bytes are there at a time. */
static char *unpack(const char *bytes, size_t len, size_t piece, bool *done)
{
    static char out[256];
    size_t n = 0, at = 0;
    cdz_chunks chunks = {0};
    while (at < len && !chunks.done) {
        cdz_slice data;
        size_t used;
        const size_t there = len - at < piece ? len - at : piece;
        if (!cdz_chunks_read(&chunks, bytes + at, there, &data, &used)) return NULL;
        assert_true(used > 0 && n + data.len < sizeof out);
        memcpy(out + n, data.at, data.len);
        n += data.len;
        at += used;
    }
    out[n] = '\0';
    *done = chunks.done;
    return out;
}

static const struct {
    const char *bytes, *body; /* body NULL: refused */
    bool done;
} bodies[] = {
    {"0\r\n\r\n", "", true},
    {"5\r\nhello\r\n0\r\n\r\n", "hello", true},
    {"5\r\nhello\r\n0\r\n\r\nGET /", "hello", true},
    {"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello", true},
    {"05\r\nhello\r\n0\r\n\r\n", "hello", true},
    {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789", true},
    {"5;name=value\r\nhello\r\n0\r\n\r\n", "hello", true},
    {"5\r\nhel", "hel", false},
    {"5\r\nhello", "hello", false},
    {"+5\r\nhello\r\n0\r\n\r\n", NULL, false},
    {"-5\r\nhello\r\n0\r\n\r\n", NULL, false},
    {"0x5\r\nhello\r\n0\r\n\r\n", NULL, false},
    {" 5\r\nhello\r\n0\r\n\r\n", NULL, false},
    {"5 \r\nhello\r\n0\r\n\r\n", NULL, false},
    {"\r\nhello\r\n0\r\n\r\n", NULL, false},
    {"g\r\n", NULL, false},
    {"5\nhello\r\n0\r\n\r\n", NULL, false},
    {"5\r\nhello\n0\r\n\r\n", NULL, false},
    {"5\r\nhello0\r\n\r\n", NULL, false},
    {"5\rhello\r\n0\r\n\r\n", NULL, false},
    {"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n", NULL, false},
    {"0\r\n\n", NULL, false},
    {"fffffffff\r\n", NULL, false},
    {"000000000\r\n\r\n", NULL, false},
    {"5;a\nb\r\nhello\r\n0\r\n\r\n", NULL, false},
    {"5;\x01\r\nhello\r\n0\r\n\r\n", NULL, false},
};

static void test_chunks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (size_t piece = 1; piece < 40; piece += 3) {
            bool done = false;
            const char *got = unpack(bodies[i].bytes, strlen(bodies[i].bytes), piece, &done);
            if (!!got != !!bodies[i].body || (got && strcmp(got, bodies[i].body) != 0))
                fail_msg("%s by %zu bytes: '%s'", bodies[i].bytes, piece, got ? got : "(refused)");
            if (got) assert_int_equal(done, bodies[i].done);
        }
}

static void test_long_extension(void **state)
{
    char text[300] = "1;";
    bool done;
    (void)state;
    memset(text + 2, 'a', 200);
    memcpy(text + 202, "\r\nx\r\n0\r\n\r\n", 11);
    assert_null(unpack(text, strlen(text), 300, &done));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),          cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_what_it_says),   cmocka_unit_test(test_keeps_the_connection),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_long_extension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
