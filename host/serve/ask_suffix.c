/* ask_suffix.c - "suffix" of a completion: the model writes what comes between prompt and suffix, where its tokenizer has tokens
 * that ask for it. Their order is that in which such models were trained. */
#include <string.h>

#include "serve/ask.h"

/* Before the prompt, before the suffix, and behind both. */
typedef struct fill_marks {
    const char *prefix, *suffix, *middle;
    bool suffix_first;
} fill_marks;

static const fill_marks marks[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", false}, /* Qwen, CodeGemma */
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", false},       /* StarCoder, Granite */
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false},       /* SantaCoder */
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", false}, /* DeepSeek */
    {"[PREFIX]", "[SUFFIX]", "", true},                            /* Codestral */
};

/* How many ids a text has, with those that are added to any. */
static size_t n_ids(const cdz_ask_world *world, const char *text)
{
    int32_t *ids = NULL;
    size_t n = 0;
    cdz_error err = {0};
    if (cdz_tokenize(world->model, text, strlen(text), true, &ids, &n, &err) != CDZ_OK) n = 0;
    cdz_free(ids);
    return n;
}

/* A vocabulary without the token cuts its text into several. */
static bool is_token(const cdz_ask_world *world, const char *text)
{
    return !*text || n_ids(world, text) == n_ids(world, "") + 1;
}

static const fill_marks *marks_of(const cdz_ask_world *world)
{
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (is_token(world, marks[i].prefix) && is_token(world, marks[i].suffix) &&
            is_token(world, marks[i].middle))
            return &marks[i];
    return NULL;
}

bool cdz_ask_suffix(cdz_asking *a)
{
    const cdz_json *suffix = cdz_ask_field(&a->body, "suffix");
    if (!suffix || cdz_ask_is_json(suffix, "\"\"")) return true;
    if (suffix->type != CDZ_JSON_STRING)
        return cdz_ask_wrong(a->fault, "suffix", "a string", suffix);
    if (strlen(suffix->string) != suffix->len)
        return cdz_serve_fault_set(a->fault, 400, "suffix", NULL, "'suffix' holds a NUL character");
    bool special;
    if (!cdz_ask_bool(&a->body, "add_special_tokens", true, &special, a->fault)) return false;
    if (!special)
        return cdz_serve_fault_set(a->fault, 400, "suffix", NULL,
                                   "'suffix' does not go with 'add_special_tokens': false: it "
                                   "stands between special tokens");
    if (a->echo)
        return cdz_serve_fault_set(a->fault, 400, "suffix", NULL,
                                   "'suffix' does not go with 'echo': the prompt stands on both "
                                   "sides of the answer");
    if (!marks_of(a->world))
        return cdz_serve_fault_set(a->fault, 400, "suffix", NULL,
                                   "'suffix' is not supported: the model does not fill in, its "
                                   "tokenizer has no tokens for it, as %s is",
                                   marks[0].prefix);
    a->suffix = suffix->string;
    return true;
}

void cdz_ask_fill_in(const cdz_asking *a, const char *prompt, cdz_buf *out)
{
    const fill_marks *m = marks_of(a->world);
    const char *const forward[] = {m->prefix, prompt, m->suffix, a->suffix, m->middle};
    const char *const backward[] = {m->suffix, a->suffix, m->prefix, prompt, m->middle};
    for (size_t i = 0; i < sizeof forward / sizeof *forward; i++)
        cdz_buf_puts(out, m->suffix_first ? backward[i] : forward[i]);
}
