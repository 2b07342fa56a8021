/* probe_tokens.c - the tokenizer of a made-up request: token i stands for the i-th of some short syllables, and for a
 * number behind a space past those. Every text of small letters can be written with it. */
#include <stdio.h>
#include <string.h>

#include "cadenza/ext/tokenizer.h"
#include "check/probe.h"

enum { LETTERS = 26, TEXT_BYTES = 12 };

static bool present(const cdz_step *step)
{
    return step->request != NULL;
}

static uint32_t n_tokens(const cdz_step *step)
{
    return step->request->n_vocab;
}

/* The text of every token that can be: constant memory for letters, the probe's for the rest. */
static cdz_string token_text(const cdz_step *step, int32_t id)
{
    static const char letters[] = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l\0m\0n\0o\0p\0q\0r\0s\0t\0u\0v"
                                  "\0w\0x\0y\0z";
    if (id < 0 || (uint32_t)id >= step->request->n_vocab) return (cdz_string){NULL, 0};
    if (id < LETTERS) return (cdz_string){letters + 2 * (size_t)id, 1};
    char text[TEXT_BYTES];
    const int len = snprintf(text, sizeof text, " %d", (int)id);
    const char *kept = cdz_arena_strndup(&cdz_probe_of(step)->memory, text, (size_t)len);
    return (cdz_string){kept, kept ? (uint32_t)len : 0};
}

/* A letter is its own token, anything else token 0. */
static int32_t token_of(const cdz_step *step, char c)
{
    const uint32_t id = c >= 'a' && c <= 'z' ? (uint32_t)(c - 'a') : 0;
    return id < step->request->n_vocab ? (int32_t)id : 0;
}

static cdz_status encode(const cdz_step *step, const char *text, size_t len, bool special,
                         cdz_ids *out)
{
    (void)special;
    int32_t *ids = cdz_arena_array(&cdz_probe_of(step)->memory, len + 1, sizeof *ids);
    if (!ids) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (size_t i = 0; i < len; i++) ids[i] = token_of(step, text[i]);
    *out = (cdz_ids){ids, (uint32_t)len};
    return CDZ_OK;
}

static cdz_status decode(const cdz_step *step, cdz_ids ids, bool skip_special, cdz_string *out)
{
    (void)skip_special;
    char *text = cdz_arena_alloc(&cdz_probe_of(step)->memory, (size_t)ids.len * TEXT_BYTES + 1);
    uint32_t len = 0;
    if (!text) return cdz_fail(step, CDZ_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < ids.len; i++) {
        const cdz_string one = token_text(step, ids.at[i]);
        if (one.len) memcpy(text + len, one.at, one.len);
        len += one.len;
    }
    *out = (cdz_string){text, len};
    return CDZ_OK;
}

static cdz_status convert(const cdz_step *step, const char *from_model, cdz_ids ids,
                          const char *to_model, bool special, cdz_ids *out)
{
    (void)from_model, (void)ids, (void)to_model, (void)special, (void)out;
    return cdz_fail(step, CDZ_E_NOT_FOUND, "there is one model only");
}

static const cdz_tokenizer_api tokenizer = {
    .size = sizeof tokenizer,
    .present = present,
    .token_text = token_text,
    .n_tokens = n_tokens,
    .encode = encode,
    .decode = decode,
    .convert = convert,
};

const void *cdz_probe_tokenizer(void)
{
    return &tokenizer;
}
