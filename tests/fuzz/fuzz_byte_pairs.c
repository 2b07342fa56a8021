/* fuzz_byte_pairs.c - vocab.json, merges.txt, tokenizer_config.json, special_tokens_map.json, added_tokens.json and config.json,
 * separated by NUL bytes, an empty one not being there: a sentence, or a tokenizer.json that is one. */
#include <string.h>

#include "fuzz.h"
#include "token/byte_pairs.h"
#include "token/settings.h"
#include "token/tokenizer.h"

enum { VOCAB, MERGES, CONFIG, SPECIAL_MAP, ADDED, MODEL, N_FILES };

typedef struct part {
    const char *text;
    size_t len;
} part;

static void split(const uint8_t *data, size_t size, part parts[N_FILES])
{
    const char *at = (const char *)data, *end = at + size;
    for (size_t i = 0; i < N_FILES; i++) {
        const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        parts[i] = (part){at, (size_t)((stop ? stop : end) - at)};
        at = stop ? stop + 1 : end;
    }
}

/* False: it is there and no JSON. */
static bool parsed(const part *p, cdz_arena *arena, cdz_json *root, const cdz_json **out)
{
    cdz_error err;
    *out = p->len ? root : NULL;
    return !p->len || cdz_json_parse(p->text, p->len, "fuzz", NULL, arena, root, &err) == CDZ_OK;
}

static void check_made(const cdz_buf *json, const cdz_buf *config)
{
    static const char text[] = " a b\xc3\xa9<s> </s><mask>\n";
    cdz_tokenizer *tok = NULL;
    cdz_error err = {0};
    if (cdz_tokenizer_parse(json->data, json->len, config->data, config->len, "fuzz", &tok, &err) !=
        CDZ_OK) {
        FUZZ_CHECK(*err.text);
        return;
    }
    cdz_encoding ids = {0};
    if (cdz_tokenizer_encode(tok, NULL, text, sizeof text - 1, CDZ_ENCODE_SPECIAL, &ids, &err) ==
        CDZ_OK)
        for (size_t i = 0; i < ids.n; i++)
            FUZZ_CHECK(cdz_tokenizer_token(tok, ids.ids[i], NULL) != NULL);
    cdz_encoding_free(&ids);
    cdz_tokenizer_free(tok);
}

static void convert(const part parts[N_FILES], cdz_arena *arena, cdz_buf *json, cdz_buf *config)
{
    cdz_json roots[N_FILES], settings;
    cdz_tokenizer_sources from;
    cdz_byte_pairs pairs = {.merges = parts[MERGES].text,
                            .merges_len = parts[MERGES].len,
                            .settings = &settings,
                            .folder = "fuzz"};
    cdz_error err = {0};
    if (!parsed(&parts[VOCAB], arena, &roots[VOCAB], &pairs.vocab) || !pairs.vocab ||
        !parsed(&parts[CONFIG], arena, &roots[CONFIG], &from.config) ||
        !parsed(&parts[SPECIAL_MAP], arena, &roots[SPECIAL_MAP], &from.special_map) ||
        !parsed(&parts[ADDED], arena, &roots[ADDED], &from.added) ||
        !parsed(&parts[MODEL], arena, &roots[MODEL], &from.model))
        return;
    if (cdz_tokenizer_settings(&from, arena, &settings, &err) == CDZ_OK &&
        cdz_tokenizer_json_of_byte_pairs(&pairs, json, config, &err) == CDZ_OK)
        check_made(json, config);
    else
        FUZZ_CHECK(*err.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    part parts[N_FILES];
    cdz_arena arena = {0};
    cdz_buf json = {0}, config = {0};
    if (size > 1 << 16) return 0;
    split(data, size, parts);
    convert(parts, &arena, &json, &config);
    cdz_buf_free(&json);
    cdz_buf_free(&config);
    cdz_arena_free(&arena);
    return 0;
}
