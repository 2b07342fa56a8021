/* test_token_variants.c - the parts of tokenizer.json one by one: variants.json puts each into a
 * recorded tokenizer and holds what the reference makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "token/tokenizer.h"

static void read_json(cdz_arena *arena, const char *file, cdz_json *out)
{
    cdz_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/%s", CADENZA_TEST_DATA, file);
    if (cdz_json_read_file(path, 0, NULL, arena, out, &err) != CDZ_OK) fail_msg("%s", err.text);
}

/* object with the members of `set` put in place of its own, or after them. */
static cdz_json with_members(cdz_arena *arena, const cdz_json *object, const cdz_json *set)
{
    cdz_json out = *object;
    const uint32_t n_set = set ? set->len : 0;
    cdz_json_member *members = cdz_arena_array(arena, object->len + n_set + 1u, sizeof *members);
    assert_non_null(members);
    memcpy(members, object->members, object->len * sizeof *members);
    for (uint32_t i = 0; i < n_set; i++) {
        uint32_t k = 0;
        while (k < out.len && strcmp(members[k].key, set->members[i].key) != 0) k++;
        members[k] = set->members[i];
        if (k == out.len) out.len++;
    }
    out.members = members;
    return out;
}

static cdz_json with_items(cdz_arena *arena, const cdz_json *list, const cdz_json *add)
{
    cdz_json out = *list;
    cdz_json *items = cdz_arena_array(arena, list->len + add->len + 1u, sizeof *items);
    assert_non_null(items);
    memcpy(items, list->items, list->len * sizeof *items);
    memcpy(items + list->len, add->items, add->len * sizeof *items);
    out.len = list->len + add->len;
    out.items = items;
    return out;
}

static cdz_json one_member(cdz_arena *arena, const char *key, cdz_json value)
{
    cdz_json_member *m = cdz_arena_array(arena, 1, sizeof *m);
    assert_non_null(m);
    *m = (cdz_json_member){key, (uint32_t)strlen(key), value};
    return (cdz_json){.type = CDZ_JSON_OBJECT, .len = 1, .members = m};
}

/* The tokenizer.json of a variant as text. */
static void assemble(cdz_arena *arena, const cdz_json *variant, cdz_buf *text)
{
    const cdz_json *add = cdz_json_get(variant, "add"),
                   *set_model = cdz_json_get(variant, "set_model");
    char file[128];
    cdz_json base, part;
    snprintf(file, sizeof file, "%s/tokenizer.json", cdz_json_get(variant, "base")->string);
    read_json(arena, file, &base);
    base = with_members(arena, &base, cdz_json_get(variant, "set"));
    if (add) {
        part = one_member(arena, "added_tokens",
                          with_items(arena, cdz_json_get(&base, "added_tokens"), add));
        base = with_members(arena, &base, &part);
    }
    if (set_model) {
        part = one_member(arena, "model",
                          with_members(arena, cdz_json_get(&base, "model"), set_model));
        base = with_members(arena, &base, &part);
    }
    cdz_json_write(text, &base);
    assert_false(text->failed);
}

static bool same_ids(const cdz_json *want, const cdz_encoding *enc)
{
    bool same = want->len == enc->n;
    for (size_t i = 0; same && i < enc->n; i++) same = want->items[i].integer == enc->ids[i];
    return same;
}

static bool same_offsets(const cdz_json *want, const cdz_encoding *enc)
{
    bool same = want->len == enc->n;
    for (size_t i = 0; same && i < enc->n; i++) {
        const cdz_json *pair = want->items[i].items;
        same = pair[0].integer == enc->offsets[i].begin && pair[1].integer == enc->offsets[i].end;
    }
    return same;
}

typedef struct counts {
    size_t n_cases, n_failed;
} counts;

static void check_text(const cdz_tokenizer *tok, cdz_tokenizer_scratch *scratch, const char *name,
                       const cdz_json *c, uint32_t index, counts *n)
{
    static const struct {
        unsigned flags;
        const char *key;
    } ways[] = {{0, "ids"},
                {CDZ_ENCODE_OFFSETS, "ids"},
                {CDZ_ENCODE_SPECIAL, "ids_special"},
                {CDZ_ENCODE_SPECIAL | CDZ_ENCODE_OFFSETS, "ids_special"},
                {CDZ_ENCODE_PLAIN, "ids_plain"}};
    const cdz_json *text = cdz_json_get(c, "text");
    cdz_encoding enc = {0};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        assert_int_equal(
            cdz_tokenizer_encode(tok, scratch, text->string, text->len, ways[w].flags, &enc, NULL),
            CDZ_OK);
        bool ok = same_ids(cdz_json_get(c, ways[w].key), &enc);
        if (ways[w].flags == CDZ_ENCODE_OFFSETS)
            ok = ok && same_offsets(cdz_json_get(c, "offsets"), &enc);
        n->n_cases++;
        if (ok) continue;
        n->n_failed++;
        print_error("%s: text %u: %s differ (way %zu)\n", name, index, ways[w].key, w);
    }
    cdz_encoding_free(&enc);
}

static void check_variant(const cdz_json *variant, counts *n)
{
    cdz_arena arena = {0};
    cdz_buf text = {0};
    cdz_error err = {0};
    cdz_tokenizer *tok;
    const char *name = cdz_json_get(variant, "name")->string;
    const cdz_json *cases = cdz_json_get(variant, "cases");
    cdz_tokenizer_scratch *scratch = cdz_tokenizer_scratch_new();
    assemble(&arena, variant, &text);
    if (cdz_tokenizer_parse(text.data, text.len, NULL, 0, name, &tok, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < cases->len; i++)
        check_text(tok, scratch, name, &cases->items[i], i, n);
    cdz_tokenizer_scratch_free(scratch);
    cdz_tokenizer_free(tok);
    cdz_buf_free(&text);
    cdz_arena_free(&arena);
}

static void test_variants(void **state)
{
    (void)state;
    cdz_arena arena = {0};
    cdz_json variants;
    counts n = {0};
    read_json(&arena, "variants.json", &variants);
    for (uint32_t i = 0; i < variants.len; i++) check_variant(&variants.items[i], &n);
    print_message("%u variants: %zu comparisons, %zu differ\n", variants.len, n.n_cases, n.n_failed);
    cdz_arena_free(&arena);
    assert_true(n.n_cases > 3000);
    assert_int_equal(n.n_failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
