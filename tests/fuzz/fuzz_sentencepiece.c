/* fuzz_sentencepiece.c - any bytes as a SentencePiece model: a sentence, or a tokenizer.json that is one. The first byte says
 * which class is to read it. */
#include <string.h>

#include "fuzz.h"
#include "token/sentencepiece.h"
#include "token/tokenizer.h"

static const char *const configs[] = {
    "",
    "{\"tokenizer_class\": \"LlamaTokenizer\", \"add_bos_token\": true, \"add_eos_token\": true}",
    "{\"tokenizer_class\": \"GemmaTokenizer\", \"add_bos_token\": true, \"bos_token\": null}",
    "{\"tokenizer_class\": \"T5Tokenizer\", \"extra_ids\": 3, \"additional_special_tokens\": [\"<x>\"]}",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = " a b\xc3\xa9<s> </s>\n";
    if (size < 2 || size > 1 << 15) return 0;
    const char *config = configs[data[0] % 4];
    cdz_arena arena = {0};
    cdz_json root;
    cdz_buf json = {0};
    cdz_error err = {0};
    cdz_tokenizer *tok = NULL;
    if (*config)
        FUZZ_CHECK(cdz_json_parse(config, strlen(config), "config", NULL, &arena, &root, &err) ==
                   CDZ_OK);
    if (cdz_tokenizer_json_of_sentencepiece(data + 1, size - 1, *config ? &root : NULL, NULL,
                                            "fuzz", &json, &err) != CDZ_OK) {
        FUZZ_CHECK(*err.text);
    } else if (cdz_tokenizer_parse(json.data, json.len, *config ? config : NULL, strlen(config),
                                   "fuzz", &tok, &err) == CDZ_OK) {
        cdz_encoding ids = {0};
        (void)cdz_tokenizer_encode(tok, NULL, text, sizeof text - 1, CDZ_ENCODE_SPECIAL, &ids, &err);
        cdz_encoding_free(&ids);
        cdz_tokenizer_free(tok);
    }
    cdz_buf_free(&json);
    cdz_arena_free(&arena);
    return 0;
}
