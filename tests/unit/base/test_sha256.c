/* test_sha256.c - digests published by NIST (FIPS 180-2 appendix B and the CAVP byte vectors). */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *name, *text, *digest;
} texts[] = {
    {"nothing", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"448 bits: the length needs a second block",
     "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"896 bits",
     "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"one byte, 0xbd", "\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
    {"four bytes", "\xc9\x8c\x8e\x55",
     "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504"},
};

static void published_digests(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char hex[CDZ_SHA256_HEX];
        cdz_sha256_hex(texts[i].text, strlen(texts[i].text), hex);
        if (strcmp(hex, texts[i].digest) != 0) fail_msg("%s: %s", texts[i].name, hex);
    }
}

/* CAVP's further vectors: runs of zeros around the block boundary, and a million letters. */
static const struct {
    size_t len;
    char byte;
    const char *digest;
} runs[] = {
    {55, 0, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
    {56, 0, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
    {57, 0, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785"},
    {64, 0, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
    {1000, 0, "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53"},
    {1000, 'A', "c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4"},
    {1005, 'U', "f4d62ddec0f3dd90ea1380fa16a5ff8dc4c54b21740650f24afc4120903552b0"},
    {1000000, 'a', "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void published_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char hex[CDZ_SHA256_HEX], *data = malloc(runs[i].len);
        assert_non_null(data);
        memset(data, runs[i].byte, runs[i].len);
        cdz_sha256_hex(data, runs[i].len, hex);
        free(data);
        if (strcmp(hex, runs[i].digest) != 0) fail_msg("%zu bytes: %s", runs[i].len, hex);
    }
}

/* The same in pieces of every size up to two blocks. */
static void in_pieces(void **state)
{
    (void)state;
    char data[500], whole[CDZ_SHA256_HEX];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * 7);
    cdz_sha256_hex(data, sizeof data, whole);
    for (size_t piece = 1; piece <= 130; piece++) {
        cdz_sha256_state s;
        char hex[CDZ_SHA256_HEX];
        cdz_sha256_begin(&s);
        for (size_t at = 0; at < sizeof data; at += piece)
            cdz_sha256_add(&s, data + at, at + piece < sizeof data ? piece : sizeof data - at);
        cdz_sha256_add(&s, NULL, 0);
        cdz_sha256_end(&s, hex);
        if (strcmp(hex, whole) != 0) fail_msg("pieces of %zu: %s", piece, hex);
    }
}

static void what_a_digest_looks_like(void **state)
{
    (void)state;
    assert_true(cdz_sha256_is_hex(texts[0].digest));
    assert_true(
        cdz_sha256_is_hex("E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"));
    assert_false(cdz_sha256_is_hex(""));
    assert_false(cdz_sha256_is_hex(texts[0].digest + 1));
    assert_false(
        cdz_sha256_is_hex("g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_digests),
        cmocka_unit_test(published_runs),
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(what_a_digest_looks_like),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
