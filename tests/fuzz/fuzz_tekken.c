/* fuzz_tekken.c - any bytes as Mistral's tekken.json: a sentence, or a tokenizer.json that is one, whose ids decode to what they
 * were made of. */
#include <string.h>

#include "fuzz.h"
#include "token/tekken.h"
#include "token/tokenizer.h"

static void check_text(const cdz_tokenizer *tok)
{
    static const char text[] = " a b\xc3\xa9 [INST]12 the\n\n";
    cdz_encoding ids = {0};
    cdz_buf out = {0};
    cdz_error err;
    if (cdz_tokenizer_encode(tok, NULL, text, sizeof text - 1, CDZ_ENCODE_PLAIN, &ids, &err) ==
        CDZ_OK) {
        FUZZ_CHECK(cdz_tokenizer_decode(tok, ids.ids, ids.n, 0, &out, &err) == CDZ_OK);
        FUZZ_CHECK(out.len == sizeof text - 1 && memcmp(out.data, text, out.len) == 0);
    }
    cdz_buf_free(&out);
    cdz_encoding_free(&ids);
}

static void check_made(const cdz_buf *json)
{
    cdz_tokenizer *tok = NULL;
    cdz_error err = {0};
    if (cdz_tokenizer_parse(json->data, json->len, cdz_tekken_config, strlen(cdz_tekken_config),
                            "fuzz", &tok, &err) == CDZ_OK)
        check_text(tok);
    else
        FUZZ_CHECK(*err.text);
    cdz_tokenizer_free(tok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cdz_arena arena = {0};
    cdz_json root;
    cdz_buf json = {0};
    cdz_error err = {0};
    if (size > 1 << 16) return 0;
    if (cdz_json_parse((const char *)data, size, "fuzz", NULL, &arena, &root, &err) == CDZ_OK) {
        if (cdz_tokenizer_json_of_tekken(&root, "fuzz", &json, &err) == CDZ_OK)
            check_made(&json);
        else
            FUZZ_CHECK(*err.text);
    }
    cdz_buf_free(&json);
    cdz_arena_free(&arena);
    return 0;
}
