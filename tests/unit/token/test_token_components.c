/* test_token_components.c - normalizers, pre-tokenizers and decoders alone, on the texts and token
 * lists of components.json, against what the reference makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/documents.h"
#include "token/decoder.h"
#include "token/normalizer.h"

typedef struct counts {
    size_t n, n_failed, n_no_engine;
} counts;

/* What one config was read into. */
typedef struct part {
    cdz_arena arena;
    cdz_regex *regexes;
    cdz_normalizer normalizer;
    cdz_cutter cutter;
    cdz_tok_decoder decoder;
} part;

static void free_part(part *p)
{
    cdz_regex_free(p->regexes);
    cdz_arena_free(&p->arena);
    free(p);
}

static bool same_text(const cdz_json *want, const void *text, size_t n)
{
    return cdz_json_is(want, CDZ_JSON_STRING) && want->len == n &&
           (n == 0 || memcmp(want->string, text, n) == 0);
}

/* --- one case --------------------------------------------------------------------------------- */

static bool check_normalizer(const part *p, const cdz_json *input, const cdz_json *want)
{
    cdz_meter meter;
    cdz_norm_work work = {.meter = &meter};
    cdz_error err = {0};
    cdz_meter_begin(&meter, input->len);
    const cdz_status st = cdz_normalizer_run(&p->normalizer, &work, (const uint8_t *)input->string,
                                             input->len, 0, &err);
    const bool ok = st == CDZ_OK && same_text(want, work.text.bytes, work.text.len);
    if (!ok) print_error("%s: got %.*s\n", err.text, (int)work.text.len, (char *)work.text.bytes);
    cdz_norm_work_free(&work);
    return ok;
}

/* Code points of the first n bytes. */
static int64_t chars_before(const cdz_json *text, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)text->string[i] & 0xC0) != 0x80;
    return count;
}

static bool same_piece(const cdz_json *want, const cdz_json *input, const cdz_atext *text,
                       cdz_piece piece)
{
    const cdz_json *span = &want->items[1];
    return same_text(&want->items[0], text->bytes + piece.begin, piece.end - piece.begin) &&
           span->items[0].integer == chars_before(input, text->align[piece.begin].begin) &&
           span->items[1].integer == chars_before(input, text->align[piece.end - 1].end);
}

static bool check_cutter(const part *p, const cdz_json *input, const cdz_json *want)
{
    cdz_atext text = {0};
    cdz_meter meter;
    cdz_cut_work work = {.meter = &meter};
    cdz_error err = {0};
    cdz_meter_begin(&meter, input->len);
    assert_true(cdz_atext_take(&text, (const uint8_t *)input->string, input->len, 0));
    bool ok = cdz_cutter_run(&p->cutter, &work, &text, 0, text.len, &err) == CDZ_OK;
    ok = ok && work.pieces.n == want->len;
    for (size_t i = 0; ok && i < work.pieces.n; i++)
        ok = same_piece(&want->items[i], input, work.text, work.pieces.items[i]);
    cdz_cut_work_free(&work);
    cdz_atext_free(&text);
    return ok;
}

/* Where the reference fails, ours gives some text. */
static bool check_decoder(const part *p, const cdz_json *input, const cdz_json *want)
{
    cdz_strings list = {0};
    cdz_error err = {0};
    for (uint32_t i = 0; i < input->len; i++)
        cdz_strings_add(&list, input->items[i].string, input->items[i].len);
    bool ok = cdz_decoder_run(&p->decoder, &list, &err) == CDZ_OK;
    if (cdz_json_is(want, CDZ_JSON_STRING))
        ok = ok && same_text(want, list.bytes.data, list.bytes.len);
    cdz_strings_free(&list);
    return ok;
}

/* --- the lists -------------------------------------------------------------------------------- */

static cdz_status read_normalizer(const cdz_json *config, part *p, cdz_error *err)
{
    return cdz_normalizer_read(config, &p->normalizer, &p->arena, &p->regexes, err);
}

static cdz_status read_cutter(const cdz_json *config, part *p, cdz_error *err)
{
    return cdz_cutter_read(config, &p->cutter, &p->arena, &p->regexes, err);
}

static cdz_status read_decoder(const cdz_json *config, part *p, cdz_error *err)
{
    return cdz_decoder_read(config, &p->decoder, &p->arena, &p->regexes, err);
}

typedef cdz_status (*read_fn)(const cdz_json *config, part *p, cdz_error *err);
typedef bool (*check_fn)(const part *p, const cdz_json *input, const cdz_json *want);

static void check_config(const cdz_json *entry, read_fn read, check_fn check, counts *n)
{
    const cdz_json *config = cdz_json_get(entry, "config"), *cases = cdz_json_get(entry, "cases");
    cdz_error err = {0};
    cdz_buf name = {0};
    part *p = calloc(1, sizeof *p);
    assert_non_null(p);
    cdz_json_write(&name, config);
    const cdz_status st = read(config, p, &err);
    if (st == CDZ_E_UNSUPPORTED && strstr(err.text, "no regex engine")) {
        n->n_no_engine++;
        cases = NULL;
    } else if (st != CDZ_OK) {
        fail_msg("%s: %s", name.data, err.text);
    }
    for (uint32_t i = 0; cases && i < cases->len; i++) {
        const cdz_json *c = cases->items[i].items;
        n->n++;
        if (check(p, &c[0], &c[1])) continue;
        n->n_failed++;
        print_error("%s: case %u differs\n", name.data, i);
    }
    cdz_buf_free(&name);
    free_part(p);
}

static void check_list(const char *key, read_fn read, check_fn check, size_t n_cases)
{
    cdz_arena arena = {0};
    counts n = {0};
    const cdz_json *root = document_in(&arena, CADENZA_TEST_DATA "/tokenizers/components.json");
    const cdz_json *list = cdz_json_get(root, key);
    for (uint32_t i = 0; i < list->len; i++) check_config(&list->items[i], read, check, &n);
    print_message("%s: %zu cases, %zu differ; %zu patterns without an engine\n", key, n.n,
                  n.n_failed, n.n_no_engine);
    cdz_arena_free(&arena);
    assert_int_equal(n.n_failed, 0);
    if (n.n_no_engine == 0) assert_int_equal(n.n, n_cases);
}

static void test_normalizers(void **state)
{
    (void)state;
    check_list("normalizers", read_normalizer, check_normalizer, 25 * 28);
}

static void test_pre_tokenizers(void **state)
{
    (void)state;
    check_list("pre_tokenizers", read_cutter, check_cutter, 78 * 28);
}

static void test_decoders(void **state)
{
    (void)state;
    check_list("decoders", read_decoder, check_decoder, 19 * 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normalizers),
        cmocka_unit_test(test_pre_tokenizers),
        cmocka_unit_test(test_decoders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
