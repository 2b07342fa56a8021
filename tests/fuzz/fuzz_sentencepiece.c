/* fuzz_sentencepiece.c - any bytes as a SentencePiece model: a sentence, or a tokenizer.json that is one. The first byte says
 * which class is to read it. */
#include <string.h>

#include "fuzz.h"
#include "token/sentencepiece.h"
#include "token/tokenizer.h"

/* numbers stands for vocab.json. */
static const struct {
    const char *config, *numbers;
} all[] = {
    {"", ""},
    {"{\"tokenizer_class\": \"LlamaTokenizer\", \"add_bos_token\": true, \"add_eos_token\": true}",
     ""},
    {"{\"tokenizer_class\": \"GemmaTokenizer\", \"add_bos_token\": true, \"bos_token\": null}", ""},
    {"{\"tokenizer_class\": \"T5Tokenizer\", \"extra_ids\": 3, \"additional_special_tokens\": [\"<x>\"]}",
     ""},
    {"{\"tokenizer_class\": \"PegasusTokenizer\", \"offset\": 5}", ""},
    {"{\"tokenizer_class\": \"NllbTokenizer\", \"legacy_behaviour\": true}", ""},
    {"{\"tokenizer_class\": \"M2M100Tokenizer\", \"extra_special_tokens\": [\"__fr__\", \"<x>\"]}",
     "{\"<s>\": 0, \"<pad>\": 1, \"</s>\": 2, \"<unk>\": 3, \"\xe2\x96\x81\": 4, \"a\": 5, \"\xe2\x96\x81"
     "b\": 6, \"xyz\": 7}"},
    {"{\"tokenizer_class\": \"MarianTokenizer\"}",
     "{\"</s>\": 0, \"<unk>\": 1, \"\xe2\x96\x81\": 2, \"e\": 3, \">>fra<<\": 4}"},
};

static const cdz_json *parsed(const char *text, cdz_arena *arena, cdz_json *root)
{
    cdz_error err;
    if (!*text) return NULL;
    FUZZ_CHECK(cdz_json_parse(text, strlen(text), "config", NULL, arena, root, &err) == CDZ_OK);
    return root;
}

/* Every id of the text is one that decodes. */
static void check_text(const cdz_tokenizer *tok)
{
    static const char text[] = " a b\xc3\xa9<s> </s>\n";
    cdz_encoding ids = {0};
    cdz_buf out = {0};
    cdz_error err;
    if (cdz_tokenizer_encode(tok, NULL, text, sizeof text - 1, CDZ_ENCODE_SPECIAL, &ids, &err) ==
        CDZ_OK) {
        for (size_t i = 0; i < ids.n; i++)
            FUZZ_CHECK(cdz_tokenizer_token(tok, ids.ids[i], NULL) != NULL);
        (void)cdz_tokenizer_decode(tok, ids.ids, ids.n, 0, &out, &err);
    }
    cdz_buf_free(&out);
    cdz_encoding_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 1 << 15) return 0;
    const char *config = all[data[0] % 8].config;
    cdz_arena arena = {0};
    cdz_json roots[2];
    cdz_buf json = {0};
    cdz_error err = {0};
    cdz_tokenizer *tok = NULL;
    const cdz_json *settings = parsed(config, &arena, &roots[0]),
                   *numbers = parsed(all[data[0] % 8].numbers, &arena, &roots[1]);
    if (cdz_tokenizer_json_of_sentencepiece(data + 1, size - 1, settings, numbers, "fuzz", &json,
                                            &err) != CDZ_OK) {
        FUZZ_CHECK(*err.text);
    } else if (cdz_tokenizer_parse(json.data, json.len, *config ? config : NULL, strlen(config),
                                   "fuzz", &tok, &err) == CDZ_OK) {
        check_text(tok);
        cdz_tokenizer_free(tok);
    }
    cdz_buf_free(&json);
    cdz_arena_free(&arena);
    return 0;
}
