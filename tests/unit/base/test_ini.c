/* test_ini.c - the strict ini reader: what it takes, and every way a file is refused whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/ini.h"

#define S48 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeee"

/* expect: "section.name=value@line:column;..." or, after '!', the sentence. */
static const struct {
    const char *name, *text, *expect;
} cases[] = {
    {"nothing", "", ""},
    {"blank lines and comments", "\n  \n; a\n# b\n\t; c\n  # d\n", ""},
    {"one setting", "[a]\nx = 1\n", "a.x=1@2:5;"},
    {"no blanks around '='", "[a]\nx=1", "a.x=1@2:3;"},
    {"CR LF", "[a]\r\nx = 1\r\n", "a.x=1@2:5;"},
    {"a byte order mark", "\xEF\xBB\xBF[a]\nx = 1\n", "a.x=1@2:5;"},
    {"a value with '='", "[a]\nx = b = c\n", "a.x=b = c@2:5;"},
    {"a value with ':'", "[a]\nx = lua:y.lua, c:d\n", "a.x=lua:y.lua, c:d@2:5;"},
    {"a comment after a value", "[a]\nx = 1 ; note\n", "a.x=1@2:5;"},
    {"a comment after a tab", "[a]\nx = 1\t;note\n", "a.x=1@2:5;"},
    {"no blank before ';': part of the value", "[a]\nx = y;z\n", "a.x=y;z@2:5;"},
    {"'#' inside a value", "[a]\nx = 1 # 2\n", "a.x=1 # 2@2:5;"},
    {"a comment after a section", "[a] ; note\nx = 1\n", "a.x=1@2:5;"},
    {"a section with blanks and colon", "[lua:my file.lua]\nx = 1\n", "lua:my file.lua.x=1@2:5;"},
    {"UTF-8 in a value", "[a]\nx = gr\xC3\xBC\xC3\x9F\n", "a.x=gr\xC3\xBC\xC3\x9F@2:5;"},
    {"the same name in two sections", "[a]\nx = 1\n[b]\nx = 2\n", "a.x=1@2:5;b.x=2@4:5;"},
    {"a section name of 48 bytes", "[" S48 "]\nx = 1\n", S48 ".x=1@2:5;"},
    {"a name of 48 bytes", "[a]\n" S48 " = 1\n", "a." S48 "=1@2:52;"},
    {"JSON", "[a]\nx = [[1, 2], [3]]\n", "a.x=[[1, 2], [3]]@2:5;"},
    {"quotes stay", "[a]\nx = \"b c\"\n", "a.x=\"b c\"@2:5;"},

    {"a section name of 49 bytes", "[" S48 "f]\n",
     "!t.ini:1:1: a section name of more than 48 bytes; take a short one and write id = ..."},
    {"a name of 49 bytes", "[a]\n" S48 "f = 1\n", "!t.ini:2:1: a name of more than 48 bytes"},
    {"a name twice", "[a]\nx = 1\ny = 2\nx = 3\n", "!t.ini:4:1: [a] x was set on line 2 already"},
    {"a section twice", "[a]\nx = 1\n[b]\n[a]\n", "!t.ini:4:1: [a] was begun on line 1 already"},
    {"an indented line", "[a]\nx = 1\n  y = 2\n",
     "!t.ini:3:1: an indented line; lines are not continued, begin it at the margin"},
    {"an indented section", "[a]\nx = 1\n [b]\n",
     "!t.ini:3:1: an indented line; lines are not continued, begin it at the margin"},
    {"an indented word", "[a]\nx = 1\n more\n",
     "!t.ini:3:1: an indented line; lines are not continued, begin it at the margin"},
    {"an unclosed section", "[a]\nx = 1\n[b\ny = 2\n",
     "!t.ini:3:1: the section is not closed: ']' is missing"},
    {"a comment closes no section", "[a ; ]\n",
     "!t.ini:1:1: a section name holds no '[' or ';' and no blanks at its ends"},
    {"text after a section", "[a] x = 1\n", "!t.ini:1:4: only a comment may follow the section"},
    {"an empty section name", "[]\n", "!t.ini:1:1: the section has no name"},
    {"blanks around a section name", "[ a ]\n",
     "!t.ini:1:1: a section name holds no '[' or ';' and no blanks at its ends"},
    {"brackets in brackets", "[a[b]\n",
     "!t.ini:1:1: a section name holds no '[' or ';' and no blanks at its ends"},
    {"a setting before any section", "x = 1\n",
     "!t.ini:1:1: a setting before the first [section]: x"},
    {"a name alone", "[a]\nx\n", "!t.ini:2:2: expected [section] or name = value"},
    {"a colon for '='", "[a]\nx: 1\n", "!t.ini:2:2: expected [section] or name = value"},
    {"a blank inside a name", "[a]\nx y = 1\n", "!t.ini:2:3: expected [section] or name = value"},
    {"no name", "[a]\n= 1\n", "!t.ini:2:1: a name is missing before '='"},
    {"no value", "[a]\nx =\n", "!t.ini:2:4: [a] x has no value; write none to unset it"},
    {"only a comment for a value", "[a]\nx = ; note\n",
     "!t.ini:2:5: [a] x has no value; write none to unset it"},
    {"a comment glued to '='", "[a]\nx =;note\n",
     "!t.ini:2:4: [a] x has no value; write none to unset it"},
    {"a control character", "[a]\nx = 1\a\n", "!t.ini:2:6: a control character"},
    {"a control character of two bytes",
     "[a]\nx = \xC2\xA0\xC2\x9B"
     "31m\n",
     "!t.ini:2:7: a control character"},
    {"a lone CR", "[a]\nx = 1\ry = 2\n", "!t.ini:2:6: a control character"},
    {"broken UTF-8", "[a]\nx = \xFF\n", "!t.ini:2:5: these bytes are not UTF-8"},
    {"overlong UTF-8", "[a]\nx = \xC0\xAF\n", "!t.ini:2:5: these bytes are not UTF-8"},
    {"broken UTF-8 in a comment", "; \xC3\n", "!t.ini:1:3: these bytes are not UTF-8"},
    {"an error far below hides nothing above", "[a]\nx = 1\n\n\n[b]\ny\n",
     "!t.ini:6:2: expected [section] or name = value"},
};

static void write_ini(const cdz_ini *ini, cdz_buf *out)
{
    cdz_buf_puts(out, "");
    for (uint32_t i = 0; i < ini->n_settings; i++) {
        const cdz_ini_setting *s = &ini->settings[i];
        cdz_buf_printf(out, "%s.%s=%s@%u:%u;", s->section, s->name, s->value, s->line, s->column);
    }
}

static void every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_error err = {0};
        cdz_ini ini;
        cdz_buf got = {0};
        const char *text = cases[i].text, *expect = cases[i].expect;
        cdz_status st = cdz_ini_read(text, strlen(text), "t.ini", &arena, &ini, &err);
        if (st == CDZ_OK)
            write_ini(&ini, &got);
        else
            cdz_buf_puts(&got, err.text);
        bool fails = *expect == '!';
        if (fails != (st == CDZ_E_INPUT) || strcmp(got.data, expect + fails) != 0)
            fail_msg("%s: %d %s", cases[i].name, (int)st, got.data);
        cdz_buf_free(&got);
        cdz_arena_free(&arena);
    }
}

static cdz_status read_bytes(const char *text, size_t len, cdz_arena *arena, cdz_ini *ini,
                             cdz_error *err)
{
    *arena = (cdz_arena){0};
    *err = (cdz_error){0};
    return cdz_ini_read(text, len, "t.ini", arena, ini, err);
}

static void a_nul_is_refused(void **state)
{
    (void)state;
    static const char text[] = "[a]\nx = 1\0y = 2\n";
    cdz_arena arena;
    cdz_ini ini;
    cdz_error err;
    assert_int_equal(read_bytes(text, sizeof text - 1, &arena, &ini, &err), CDZ_E_INPUT);
    assert_string_equal(err.text, "t.ini:2:6: a control character");
    cdz_arena_free(&arena);
}

/* inih splits lines past its buffer and reads the tail as a new setting: the longest line must arrive whole. */
static void long_lines(void **state)
{
    (void)state;
    static const char *const ends[] = {"", "\n", "\r\n"};
    for (size_t e = 0; e < 3; e++) {
        for (size_t len = 193; len <= 201; len++) {
            cdz_buf text = {0};
            cdz_arena arena;
            cdz_ini ini;
            cdz_error err;
            cdz_buf_puts(&text, "[a]\n");
            cdz_buf_puts(&text, "x = ");
            for (size_t i = 4; i < len; i++) cdz_buf_putc(&text, i == 195 ? '=' : 'v');
            cdz_buf_puts(&text, ends[e]);
            if (*ends[e]) cdz_buf_puts(&text, "y = 1\n");
            cdz_status st = read_bytes(text.data, text.len, &arena, &ini, &err);
            if (len > 197) {
                assert_int_equal(st, CDZ_E_INPUT);
                assert_string_equal(err.text, "t.ini:2:198: the line is longer than 197 bytes");
            } else {
                assert_int_equal(st, CDZ_OK);
                assert_int_equal(ini.n_settings, *ends[e] ? 2 : 1);
                assert_int_equal(strlen(ini.settings[0].value), len - 4);
            }
            cdz_buf_free(&text);
            cdz_arena_free(&arena);
        }
    }
}

static void big_files(void **state)
{
    (void)state;
    cdz_buf text = {0};
    cdz_arena arena;
    cdz_ini ini;
    cdz_error err;
    cdz_buf_puts(&text, "[a]\n");
    for (int i = 0; i < 4096; i++) cdz_buf_printf(&text, "x%d = 1\n", i);
    assert_int_equal(read_bytes(text.data, text.len, &arena, &ini, &err), CDZ_OK);
    assert_int_equal(ini.n_settings, 4096);
    cdz_arena_free(&arena);
    cdz_buf_puts(&text, "one_more = 1\n");
    assert_int_equal(read_bytes(text.data, text.len, &arena, &ini, &err), CDZ_E_INPUT);
    assert_string_equal(err.text, "t.ini:4098:1: more than 4096 settings");
    cdz_arena_free(&arena);

    cdz_buf_clear(&text);
    for (int i = 0; i < 513; i++) cdz_buf_printf(&text, "[s%d]\n", i);
    assert_int_equal(read_bytes(text.data, text.len, &arena, &ini, &err), CDZ_E_INPUT);
    assert_string_equal(err.text, "t.ini:513:1: more than 512 sections");
    cdz_arena_free(&arena);

    while (text.len <= CDZ_INI_MAX_BYTES) cdz_buf_puts(&text, ";;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;\n");
    assert_int_equal(read_bytes(text.data, text.len, &arena, &ini, &err), CDZ_E_INPUT);
    assert_non_null(strstr(err.text, "a pipeline file has at most 1048576"));
    cdz_arena_free(&arena);
    cdz_buf_free(&text);
}

/* Memory may end anywhere: a status, never a crash. */
static void memory_runs_out(void **state)
{
    (void)state;
    static const char text[] = "[a]\nx = 1\n[b]\ny = 2 ; z\n";
    bool succeeded = false;
    for (size_t limit = 1; limit < 4096 && !succeeded; limit++) {
        cdz_arena arena = {.limit = limit};
        cdz_ini ini;
        cdz_error err = {0};
        cdz_status st = cdz_ini_read(text, sizeof text - 1, "t.ini", &arena, &ini, &err);
        succeeded = st == CDZ_OK;
        if (!succeeded) assert_int_equal(st, CDZ_E_NOMEM);
        cdz_arena_free(&arena);
    }
    assert_true(succeeded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule),      cmocka_unit_test(a_nul_is_refused),
        cmocka_unit_test(long_lines),      cmocka_unit_test(big_files),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
