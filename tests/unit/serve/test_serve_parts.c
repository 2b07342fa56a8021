/* test_serve_parts.c - stop strings on their way out, keys, hosts, origins, sentences of refusals, an engine that stands still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/write.h"
#include "serve/fault.h"
#include "serve/keys.h"
#include "serve/stop.h"
#include "serve/watch.h"

/* --- stop strings ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *stops[3];
    const char *pieces[6];
    const char *out; /* what left, each piece's end marked by | */
} streams[] = {
    {{NULL}, {"a", "bc"}, "a|bc|"},
    {{"x"}, {"ab", "cx", "d"}, "ab|c||"},
    {{"stop"}, {"a s", "t", "art"}, "a ||start|"},
    {{"stop"}, {"a s", "to", "p it"}, "a |||"},
    {{"stop", "op"}, {"st", "op"}, "||"},
    {{"ab", "b"}, {"a", "b"}, "||"},
    {{"bc", "abcd"}, {"ab", "c"}, "|a|"},
    {{"\n\n"}, {"a\n", "b\n", "\nc"}, "a|\nb||"},
    {{"aab"}, {"aaa", "b"}, "a||"},
    {{"aab"}, {"a", "a", "a", "c"}, "||a|aac|"},
    {{"\xc3\xa4"}, {"a", "\xc3\xb6"}, "a|\xc3\xb6|"},
};

static void test_streams(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char out[128] = "";
        cdz_serve_row_text row = {0};
        cdz_stop_texts stops = {.at = streams[i].stops};
        while (stops.n < 3 && streams[i].stops[stops.n]) stops.n++;
        for (size_t k = 0; k < 6 && streams[i].pieces[k]; k++) {
            const char *piece = streams[i].pieces[k];
            const size_t from = row.let_out;
            const size_t n = cdz_serve_row_text_add(&row, &stops, piece, strlen(piece));
            const size_t at = strlen(out);
            snprintf(out + at, sizeof out - at, "%.*s|", (int)n, row.text.data + from);
        }
        /* a trailing hold is not in the table */
        if (strncmp(out, streams[i].out, strlen(streams[i].out)) != 0)
            fail_msg("row %zu: '%s', expected '%s'", i, out, streams[i].out);
        cdz_buf_free(&row.text);
    }
}

/* Whatever the cuts, what leaves is the text up to the earliest stop string. */
static void test_every_cut(void **state)
{
    static const char text[] = "one two three four five";
    static const char *const names[] = {"three", "e f", "two th"};
    const cdz_stop_texts stops = {.at = names, .n = 3};
    size_t which;
    (void)state;
    const size_t end = cdz_stop_find(&stops, text, sizeof text - 1, 0, &which);
    assert_int_equal(which, 2);
    assert_int_equal(end, 4);
    for (size_t cut = 0; cut < sizeof text; cut++) {
        cdz_serve_row_text row = {0};
        cdz_serve_row_text_add(&row, &stops, text, cut);
        assert_true(row.let_out <= end);
        cdz_serve_row_text_add(&row, &stops, text + cut, sizeof text - 1 - cut);
        assert_int_equal(row.let_out, end);
        assert_true(row.stopped);
        cdz_buf_free(&row.text);
    }
}

/* --- keys ------------------------------------------------------------------------------------------------------------ */

static cdz_slice slice(const char *text)
{
    return (cdz_slice){text, text ? strlen(text) : 0};
}

static void test_keys(void **state)
{
    static const char file[] = "# people\n\n  first-key \r\nsecond-key\n#third-key\n";
    char path[] = "/tmp/cadenza-keys-XXXXXX";
    cdz_api_keys keys, none = {0};
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file, sizeof file - 1), sizeof file - 1);
    close(fd);
    assert_int_equal(cdz_keys_read(path, &keys, NULL), CDZ_OK);
    assert_int_equal(keys.n, 2);
    assert_true(cdz_keys_open(&keys, slice("Bearer first-key")));
    assert_true(cdz_keys_open(&keys, slice("bEARER second-key")));
    static const char *const wrong[] = {
        "Bearer third-key", "Bearer first-ke", "Bearer first-key2", "Bearer ",          "Bearer",
        "Basic first-key",  "first-key",       "Bearer #third-key", "Bearer  first-key"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(cdz_keys_open(&keys, slice(wrong[i])));
    assert_false(cdz_keys_open(&keys, slice(NULL)));
    assert_true(cdz_keys_open(&none, slice("Bearer "))); /* lm-eval sends that */
    cdz_keys_free(&keys);
    unlink(path);
}

static void test_hosts(void **state)
{
    static const char *const more[] = {"box.example.org"};
    static const char *const good[] = {"localhost", "LOCALHOST:1", "127.0.0.1:8080",
                                       "[::1]",     "[::1]:99",    "box.example.org:8080"};
    static const char *const bad[] = {
        "evil.example", "localhost.evil.example", "127.0.0.1.evil:8080", "", "::1", "127.0.0.2"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(cdz_serve_host_is_local(slice(good[i]), more, 1));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cdz_serve_host_is_local(slice(bad[i]), more, 1));
    assert_false(cdz_serve_host_is_local(slice(NULL), more, 1));
    assert_true(
        cdz_serve_origin_is_allowed(slice("https://a"), (const char *const[]){"https://a"}, 1));
    assert_false(
        cdz_serve_origin_is_allowed(slice("https://A"), (const char *const[]){"https://a"}, 1));
    assert_false(
        cdz_serve_origin_is_allowed(slice("https://a.b"), (const char *const[]){"https://a"}, 1));
}

static void test_faults(void **state)
{
    cdz_serve_fault fault = {0};
    cdz_buf text = {0};
    (void)state;
    assert_false(cdz_serve_fault_set(&fault, 429, NULL, "queue_full", "%d \"wait\"", 3));
    cdz_serve_fault_write(&fault, &text);
    assert_string_equal(text.data, "{\"error\":{\"message\":\"3 \\\"wait\\\"\",\"type\":"
                                   "\"rate_limit_error\",\"param\":null,\"code\":\"queue_full\"}}");
    cdz_buf_free(&text);
}

/* --- an engine that stands still ----------------------------------------------------------------------------------- */

/* Looks one after another, at a clock that ran before the server did. */
static const struct {
    double now;
    unsigned n_running, n_pending;
    uint64_t n_passes, n_failed;
    bool still;
    unsigned n_paused;
} looks[] = {
    {5000, 1, 0, 0, 0, false, 0}, /* the first request has come before the first look */
    {5001, 1, 0, 0, 0, false, 0}, {5030, 1, 0, 0, 0, false, 0},
    {5031, 1, 0, 0, 0, true, 0},  {5032, 1, 0, 1, 0, false, 0}, /* it moves again */
    {5062, 0, 1, 1, 0, false, 0}, {5063, 0, 1, 1, 0, true, 0},  /* work that only waits */
    {5064, 0, 0, 1, 0, false, 0},                               /* that work was given up */
    {9000, 0, 0, 1, 0, false, 0}, /* nothing to do is no standing still */
    {9001, 3, 0, 1, 0, false, 0}, {9031, 3, 0, 1, 1, false, 0}, /* an end in an error is progress */
    {9061, 3, 0, 1, 1, false, 0}, {9062, 3, 0, 1, 1, true, 0},
    {9063, 2, 3, 1, 1, false, 2}, {9900, 2, 3, 1, 1, false, 2}, /* all wait for their readers */
    {9931, 2, 3, 1, 1, true, 1},
};

static void test_watch(void **state)
{
    cdz_serve_watch watch = {0};
    (void)state;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        const cdz_stats stats = {.n_running = looks[i].n_running,
                                 .n_pending = looks[i].n_pending,
                                 .n_paused = looks[i].n_paused,
                                 .n_passes = looks[i].n_passes,
                                 .n_failed = looks[i].n_failed};
        if (cdz_serve_watch_look(&watch, &stats, looks[i].now) != looks[i].still)
            fail_msg("look %zu", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams), cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_keys),    cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
