/* test_sha1.c - digests published by NIST (FIPS 180-2 appendix A and the CAVP byte vectors), and names of git's objects. */
#include "base/sha1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *name, const char *text, size_t len, size_t piece, const char *digest)
{
    cdz_sha1_state state;
    char hex[CDZ_SHA1_HEX];
    cdz_sha1_begin(&state);
    for (size_t at = 0; at < len; at += piece)
        cdz_sha1_add(&state, text + at, len - at < piece ? len - at : piece);
    cdz_sha1_end(&state, hex);
    if (strcmp(hex, digest) != 0) fail_msg("%s in pieces of %zu: %s", name, piece, hex);
}

static void published_digests(void **state)
{
    static const struct {
        const char *name, *text, *digest;
    } texts[] = {
        {"nothing", "", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
        {"abc", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
        {"448 bits: the length needs a second block",
         "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
        {"one byte, 0x36", "\x36", "c1dfd96eea8cc2b62785275bca38ac261256e278"},
        {"two bytes", "\x19\x5a", "0a1c2d555bbe431ad6288af5a54f93e0449c9232"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (size_t piece = 1; piece < 70; piece += 23)
            expect(texts[i].name, texts[i].text, strlen(texts[i].text), piece, texts[i].digest);
}

static void a_million_letters(void **state)
{
    (void)state;
    char *text = malloc(1000000);
    assert_non_null(text);
    memset(text, 'a', 1000000);
    expect("a million", text, 1000000, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    expect("a million", text, 1000000, 63, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(text);
}

static void names_of_git(void **state)
{
    static const char empty[] = "blob 0", hello[] = "blob 6\0hello\n";
    (void)state;
    expect("an empty file", empty, sizeof empty, 64, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    expect("hello", hello, sizeof hello - 1, 64, "ce013625030ba8dba906f756967f9e9ca394464a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_digests),
        cmocka_unit_test(a_million_letters),
        cmocka_unit_test(names_of_git),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
