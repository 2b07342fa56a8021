/* test_isolate_wire.c - what two processes say to each other: values that come back as they went, and messages cut short
 * or changed at every byte, which may say nonsense but never more than their length. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cadenza/processor.h"
#include "isolate/values.h"
#include "support/mock_host.h"

enum { ROOM = 4096 };

/* --- values --------------------------------------------------------------------------------------------------------- */

typedef struct everything {
    bool flag;
    int64_t whole;
    double real;
    const char *text;
    cdz_opt_bool opt_flag;
    cdz_opt_int opt_whole;
    cdz_opt_real opt_real;
    cdz_word word, flag_or_word;
    cdz_int_list ints;
    cdz_real_list reals;
    cdz_string_list strings;
    cdz_int_lists int_lists;
    cdz_weighted_list weighted;
    cdz_int_real pair;
    cdz_word_or_ints word_or_ints;
    cdz_int_choices choices;
} everything;

static const cdz_param rows[] = {
    CDZ_BOOL(everything, flag, 0, "flag"),
    CDZ_INT(everything, whole, 0, -9e15, 9e15, "whole"),
    CDZ_REAL(everything, real, 0, -CDZ_NO_LIMIT, CDZ_NO_LIMIT, "real"),
    CDZ_STRING(everything, text, NULL, "text"),
    CDZ_OPT_BOOL(everything, opt_flag, 0, "flag"),
    CDZ_OPT_INT(everything, opt_whole, 0, -9e15, 9e15, "whole"),
    CDZ_OPT_REAL(everything, opt_real, 0, -1, 1, "real"),
    CDZ_WORD(everything, word, "a|b|c", 0, "word"),
    CDZ_BOOL_OR_WORD(everything, flag_or_word, 0, "never", "word"),
    CDZ_INTS(everything, ints, 0, -9e15, 9e15, "ints"),
    CDZ_REALS(everything, reals, 0, -1, 1, "reals"),
    CDZ_STRINGS(everything, strings, 0, "strings"),
    CDZ_INT_LISTS(everything, int_lists, 0, -1, 1, "lists"),
    CDZ_WEIGHTED(everything, weighted, 0, "weighted"),
    CDZ_INT_REAL(everything, pair, 0, "pair"),
    CDZ_WORD_OR_INTS(everything, word_or_ints, 0, "a|b", 0, 9, "word or ints"),
    CDZ_INT_CHOICES(everything, choices, 0, 0, 9, "choices"),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const cdz_param_table table = {rows, N_ROWS, sizeof rows[0], sizeof(everything)};

static const int64_t three[] = {1, -2, INT64_MAX};
static const double two[] = {0.1, -0.0};
static const cdz_string words[] = {{"a\0b", 3}, {"", 0}};
static const cdz_int_list lists[] = {{three, 3, true}, {three, 0, true}};
static const cdz_weighted weights[] = {{{three, 2, true}, 0.3, false}, {{three, 1, true}, 2, true}};
static const cdz_int_lists alternatives[] = {{lists, 2, true}, {lists, 1, true}};

static const everything full = {
    .flag = true,
    .whole = INT64_MIN,
    .real = 0.1,
    .text = "na\xC3\xAFve",
    .opt_flag = {true, true},
    .opt_whole = {-7, true},
    .opt_real = {0.25, true, true},
    .word = {2, true},
    .flag_or_word = {1, true},
    .ints = {three, 3, true},
    .reals = {two, 2, true},
    .strings = {words, 2, true},
    .int_lists = {lists, 2, true},
    .weighted = {weights, 2, true, true},
    .pair = {5, 1.5, true},
    .word_or_ints = {{1, true}, {three, 1, true}},
    .choices = {alternatives, 2, true},
};

/* As bytes again: the same bytes mean the same values, whatever pointers they stand behind. */
static size_t put_all(const everything *values, unsigned char *to)
{
    cdz_wire_out out = {.at = to, .cap = ROOM};
    cdz_put_params(&out, &table, N_ROWS, values);
    assert_false(out.full);
    return out.len;
}

static void come_back(const everything *values)
{
    unsigned char there[ROOM], back[ROOM];
    const size_t len = put_all(values, there);
    cdz_arena arena = {0};
    everything got = {0};
    cdz_wire_in in = {.at = there, .len = len};
    cdz_take_params(&in, &table, &arena, &got);
    assert_false(in.bad);
    assert_int_equal(in.pos, len);
    assert_int_equal(put_all(&got, back), len);
    assert_memory_equal(there, back, len);
    cdz_arena_free(&arena);
}

static void values_come_back(void **state)
{
    static const everything empty;
    (void)state;
    come_back(&full);
    come_back(&empty);
    unsigned char bytes[ROOM];
    cdz_arena arena = {0};
    everything got = {0};
    cdz_wire_in in = {.at = bytes, .len = put_all(&full, bytes)};
    cdz_take_params(&in, &table, &arena, &got);
    assert_string_equal(got.text, full.text);
    assert_int_equal(got.whole, INT64_MIN);
    assert_memory_equal(got.strings.at[0].at, "a\0b", 4);
    assert_int_equal(got.choices.at[1].at[0].at[1], -2);
    assert_true(got.opt_real.is_int && got.weighted.is_map && got.weighted.at[1].weight_is_int);
    cdz_arena_free(&arena);
}

static void cut_short(void **state)
{
    unsigned char bytes[ROOM];
    const size_t len = put_all(&full, bytes);
    (void)state;
    for (size_t n = 0; n < len; n++) {
        unsigned char *some = malloc(n ? n : 1); /* of that length, so that a read past it is seen */
        cdz_arena arena = {0};
        everything got = {0};
        assert_non_null(some);
        memcpy(some, bytes, n);
        cdz_wire_in in = {.at = some, .len = n};
        cdz_take_params(&in, &table, &arena, &got);
        assert_true(in.bad);
        cdz_arena_free(&arena);
        free(some);
    }
}

static void does_not_fit(void **state)
{
    unsigned char bytes[ROOM];
    const size_t len = put_all(&full, bytes);
    (void)state;
    for (size_t n = 0; n < len; n++) {
        cdz_wire_out out = {.at = bytes, .cap = n};
        cdz_put_params(&out, &table, N_ROWS, &full);
        assert_true(out.full);
        assert_true(out.len <= n);
    }
}

/* --- a process that describes its file --------------------------------------------------------------------------------- */

static size_t put_hello(unsigned char *to)
{
    cdz_wire_out out = {.at = to, .cap = ROOM};
    cdz_put_u32(&out, 1);
    cdz_put_u32(&out, 0);
    cdz_put_u32(&out, CDZ_KIND_PROCESSOR);
    cdz_put_text(&out, "test.it");
    cdz_put_text(&out, "1.0.0");
    cdz_put_text(&out, "does it");
    cdz_put_u32(&out, CDZ_ROWWISE);
    cdz_put_u32(&out, 16);
    cdz_put_u32(&out, 1);
    cdz_put_u32(&out, CDZ_HAS_ACCEPT);
    cdz_put_u32(&out, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const cdz_param *row = &rows[i == 2 ? 7 : i];
        cdz_put_text(&out, row->name);
        cdz_put_text(&out, row->help);
        cdz_put_u32(&out, row->type);
        cdz_put_u32(&out, row->flags);
        cdz_put_real(&out, row->def);
        cdz_put_real(&out, row->min);
        cdz_put_real(&out, row->max);
        cdz_put_text(&out, row->text);
    }
    assert_false(out.full);
    return out.len;
}

/* What came of it, checked as a module's descriptors are; then its defaults are written, which is what a plan does. */
static cdz_status describe(const unsigned char *bytes, size_t len, uint32_t *n_params)
{
    char path[] = "it";
    cdz_isolate isolate = {.path = path};
    cdz_wire_in in = {.at = bytes, .len = len};
    cdz_error err;
    cdz_status st = cdz_isolate_describe(&isolate, &in, &err);
    for (uint32_t i = 0; st == CDZ_OK && i < isolate.n; i++) {
        cdz_descriptor d;
        st = cdz_descriptor_adopt("it", isolate.plugins[i], NULL, &d, &err);
        if (st != CDZ_OK) break;
        const cdz_param_table own = cdz_params_of(&d.base);
        void *params = cdz_arena_alloc(&isolate.arena, own.params_size);
        assert_non_null(params);
        cdz_params_defaults(&own, params);
        *n_params = own.n;
    }
    cdz_arena_free(&isolate.arena);
    return st;
}

static void honest_hello(void **state)
{
    unsigned char bytes[ROOM];
    uint32_t n = 0;
    (void)state;
    const size_t len = put_hello(bytes);
    assert_int_equal(describe(bytes, len, &n), CDZ_OK);
    assert_int_equal(n, 4); /* its own, and the deadline */
    for (size_t cut = 0; cut < len; cut++) assert_int_not_equal(describe(bytes, cut, &n), CDZ_OK);
}

/* Every byte set to each of a few values: taken or refused, nothing else. */
static void changed_hello(void **state)
{
    static const unsigned char values[] = {0, 1, 2, 7, 16, 0x7f, 0x80, 0xff};
    unsigned char bytes[ROOM];
    uint32_t n, taken = 0, refused = 0;
    (void)state;
    const size_t len = put_hello(bytes);
    for (size_t i = 0; i < len; i++)
        for (size_t v = 0; v < sizeof values; v++) {
            const unsigned char before = bytes[i];
            bytes[i] = values[v];
            if (describe(bytes, len, &n) == CDZ_OK)
                taken++;
            else
                refused++;
            bytes[i] = before;
        }
    assert_true(taken > 0 && refused > 0);
}

/* What no honest file says, at a word of its parameters. */
static void wrong_hello(void **state)
{
    static const struct {
        const char *from, *to; /* of the same length */
    } texts[] = {{"a|b|c", "a|\033[m"}, {"a|b|c", "a|\377|c"}, {"flag", "fl\001g"}};
    unsigned char bytes[ROOM];
    uint32_t n;
    (void)state;
    const size_t len = put_hello(bytes);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        unsigned char *at = memmem(bytes, len, texts[i].from, strlen(texts[i].from));
        assert_non_null(at);
        memcpy(at, texts[i].to, strlen(texts[i].to));
        assert_int_not_equal(describe(bytes, len, &n), CDZ_OK);
        memcpy(at, texts[i].from, strlen(texts[i].from));
        assert_int_equal(describe(bytes, len, &n), CDZ_OK);
    }
    bytes[len] = 0;
    assert_int_not_equal(describe(bytes, len + 1, &n), CDZ_OK);
}

/* A default that is no integer, where one is wanted. */
static void no_integer(void **state)
{
    static const double wrong[] = {1e300, -1e300, 0x1p63, INFINITY, -INFINITY};
    cdz_param row = rows[1];
    const cdz_param_table one = {&row, 1, sizeof row, sizeof(everything)};
    (void)state;
    row.min = -INFINITY;
    row.max = INFINITY;
    assert_int_equal(cdz_param_table_check(&one, "it", NULL), CDZ_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        row.def = wrong[i];
        assert_int_not_equal(cdz_param_table_check(&one, "it", NULL), CDZ_OK);
    }
}

/* What is read is the host's own: it stays when the memory it came from changes. */
static void copied_once(void **state)
{
    unsigned char *map = mock_map();
    cdz_isolate isolate = {.process.map = map};
    cdz_wire_in in;
    (void)state;
    memcpy(map + CDZ_ISOLATE_DOWN, "message", 8);
    cdz_peer_head(&isolate.process)->down_bytes = 8;
    assert_true(cdz_isolate_read(&isolate, &in));
    memset(map + CDZ_ISOLATE_DOWN, 'x', 8);
    cdz_peer_head(&isolate.process)->down_bytes = UINT32_MAX;
    assert_int_equal(in.len, 8);
    assert_memory_equal(in.at, "message", 8);
    assert_false(cdz_isolate_read(&isolate, &in));
    cdz_peer_head(&isolate.process)->down_bytes = CDZ_ISOLATE_DOWN_BYTES + 1;
    assert_false(cdz_isolate_read(&isolate, &in));
    free(isolate.reply);
    munmap(map, CDZ_ISOLATE_MAP_BYTES);
}

/* --- a process that asks ------------------------------------------------------------------------------------------------- */

/* Honest ones of every kind. */
static size_t put_question(uint32_t kind, unsigned char *to)
{
    static const int32_t three_ids[] = {1, 2, 3};
    const cdz_ids ids = {three_ids, 3};
    cdz_wire_out out = {.at = to, .cap = ROOM};
    cdz_put_u32(&out, kind);
    if (kind == CDZ_DOWN_LOG) cdz_put_u32(&out, CDZ_LOG_INFO);
    if (kind == CDZ_DOWN_FILTER) cdz_put_u32(&out, 2);
    for (uint32_t i = 0; kind == CDZ_DOWN_FILTER && i < 2; i++) {
        cdz_put_u32(&out, i);
        cdz_put_ids(&out, ids);
    }
    if (kind == CDZ_DOWN_LOG || kind == CDZ_DOWN_CONFIG || kind == CDZ_DOWN_CONVERT ||
        kind == CDZ_DOWN_FILE)
        cdz_put_text(&out, "known");
    if (kind == CDZ_DOWN_CONFIG) cdz_put_u32(&out, CDZ_T_INTS);
    if (kind == CDZ_DOWN_TEXTS) cdz_put_u32(&out, 1), cdz_put_u32(&out, 5);
    if (kind == CDZ_DOWN_ENCODE) cdz_put_text(&out, "ax");
    if (kind == CDZ_DOWN_DECODE || kind == CDZ_DOWN_CONVERT) cdz_put_ids(&out, ids);
    if (kind == CDZ_DOWN_CONVERT) cdz_put_text(&out, NULL);
    if (kind == CDZ_DOWN_ENCODE || kind == CDZ_DOWN_DECODE || kind == CDZ_DOWN_CONVERT)
        cdz_put_u32(&out, 1);
    assert_false(out.full);
    return out.len;
}

static bool ask(const unsigned char *bytes, size_t len, unsigned char *map)
{
    cdz_isolate_session session = {0};
    return mock_ask(bytes, len, map, &session);
}

/* Every message x every word at every byte x extreme values, and each cut short everywhere: answered or refused; what
 * reaches the host's functions is in range (asserted there), and nothing is read past the message's end (sanitizers). */
static void changed_questions(void **state)
{
    static const uint32_t values[] = {0,          1,          2,          3,
                                      4,          7,          8,          MOCK_VOCAB + 1,
                                      0x7f,       0xff,       0xffff,     0x10000,
                                      0x10001,    63u << 20,  0x3fffffff, 0x40000000,
                                      0x7ffffffe, 0x7fffffff, 0x80000000, 0xfffffffe,
                                      UINT32_MAX};
    unsigned char *map = mock_map();
    (void)state;
    for (uint32_t kind = CDZ_DOWN_LOG; kind <= CDZ_DOWN_FILE; kind++) {
        if (kind == CDZ_DOWN_READY) continue; /* no question */
        unsigned char bytes[ROOM], changed[ROOM];
        const size_t len = put_question(kind, bytes);
        if (!ask(bytes, len, map)) fail_msg("question %u: refused", kind);
        for (size_t cut = 0; cut < len; cut++) assert_false(ask(bytes, cut, map));
        bytes[len] = 0;
        assert_false(ask(bytes, len + 1, map));
        for (size_t at = 0; at + 4 <= len; at++)
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
                memcpy(changed, bytes, len);
                memcpy(changed + at, &values[v], 4);
                (void)ask(changed, len, map);
            }
    }
    munmap(map, CDZ_ISOLATE_MAP_BYTES);
}

/* As long as they say, and longer than one question may be. */
static void long_questions(void **state)
{
    static unsigned char bytes[(1 << 20) + 64];
    unsigned char *map = mock_map();
    (void)state;
    for (uint32_t kind = CDZ_DOWN_ENCODE; kind <= CDZ_DOWN_DECODE; kind++)
        for (int more = 0; more < 2; more++) {
            const uint32_t n =
                (uint32_t)(kind == CDZ_DOWN_ENCODE ? CDZ_ASK_TEXT_BYTES : CDZ_ASK_IDS);
            const uint32_t count = n + (uint32_t)more;
            cdz_wire_out out = {.at = bytes, .cap = sizeof bytes};
            cdz_put_u32(&out, kind);
            cdz_put_u32(&out, count);
            out.len += kind == CDZ_DOWN_ENCODE ? count : count * sizeof(int32_t);
            cdz_put_u32(&out, 0);
            assert_false(out.full);
            assert_int_equal(ask(bytes, out.len, map), more == 0);
        }
    assert_int_equal(mock_most_text, CDZ_ASK_TEXT_BYTES);
    assert_int_equal(mock_most_ids, CDZ_ASK_IDS);
    munmap(map, CDZ_ISOLATE_MAP_BYTES);
}

/* Rows that are lent for a filter stay taken: one more each time, they are not lent anew each time. */
static void lent_rows(void **state)
{
    static unsigned char bytes[ROOM];
    unsigned char *map = mock_map();
    cdz_isolate_session session = {0};
    const int32_t id = 1;
    (void)state;
    mock_rows_lent = 0;
    for (uint32_t n = 1; n <= 64; n++) {
        cdz_wire_out out = {.at = bytes, .cap = sizeof bytes};
        cdz_put_u32(&out, CDZ_DOWN_FILTER);
        cdz_put_u32(&out, n);
        for (uint32_t i = 0; i < n; i++) {
            cdz_put_u32(&out, 0);
            cdz_put_ids(&out, (cdz_ids){&id, 1});
        }
        assert_false(out.full);
        assert_true(mock_ask(bytes, out.len, map, &session));
    }
    assert_in_range(mock_rows_lent, 64, 2 * 64);
    munmap(map, CDZ_ISOLATE_MAP_BYTES);
}

/* --- what is shown to people --------------------------------------------------------------------------------------------- */

static void clean(const char *text, size_t len, size_t room, const char *want)
{
    char out[64];
    assert_true(room <= sizeof out);
    assert_string_equal(cdz_isolate_clean((cdz_string){text, (uint32_t)len}, out, room), want);
}

static void cleaned(void **state)
{
    (void)state;
    clean("plain", 5, 64, "plain");
    clean("", 0, 64, "");
    clean("a\0b\n\033[0m\x7f", 9, 64, "a?b??[0m?");
    clean("\xC3\xA9\xFF\xC3", 4, 64, "\xC3\xA9??");
    clean("\xC2\x85z", 3, 64, "?z");
    clean("abcdefgh", 8, 8, "abcd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back),  cmocka_unit_test(cut_short),
        cmocka_unit_test(does_not_fit),      cmocka_unit_test(honest_hello),
        cmocka_unit_test(changed_hello),     cmocka_unit_test(cleaned),
        cmocka_unit_test(changed_questions), cmocka_unit_test(long_questions),
        cmocka_unit_test(lent_rows),         cmocka_unit_test(wrong_hello),
        cmocka_unit_test(no_integer),        cmocka_unit_test(copied_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
