/* wordlist.c - a processor of a package: the words of its file of data do not come. It asks for the file `name` in create, in begin and
 * in apply, as `when` says, and again each time. For test_isolate_files. */
#include <math.h>
#include <string.h>

#include "cadenza/ext/files.h"
#include "cadenza/ext/tokenizer.h"
#include "cadenza/processor.h"

enum when { BEGIN, CREATE, APPLY };

typedef struct wordlist {
    cdz_word when;
    const char *name;
} wordlist;

static const cdz_param params[] = {
    CDZ_WORD(wordlist, when, "begin|create|apply", 0, "besides begin, where the words are read"),
    CDZ_STRING(wordlist, name, "words.txt", "what is asked for in that place"),
};

typedef struct banned {
    uint32_t n;
    int32_t ids[64];
    uint32_t bytes;
} banned;

static cdz_status read_file(const cdz_step *step, enum when when, cdz_string *out)
{
    const wordlist *p = step->params;
    const char *name = p->when.value == (int32_t)when ? p->name : "words.txt";
    CDZ_TRY(cdz_package_file(step, name, out));
    if (out->at[out->len] != '\0') return cdz_fail(step, CDZ_E_PLUGIN, "no NUL behind the bytes");
    return CDZ_OK;
}

static cdz_status create(const cdz_step *step)
{
    cdz_string text;
    return read_file(step, CREATE, &text);
}

static cdz_status add_word(const cdz_step *step, banned *b, const char *word, size_t n)
{
    char text[64] = " ";
    cdz_ids ids;
    if (n == 0 || n > 60 || b->n == 64) return CDZ_OK;
    memcpy(text + 1, word, n);
    CDZ_TRY(cdz_get_tokenizer(step)->encode(step, text, n + 1, false, &ids));
    b->ids[b->n++] = ids.at[0];
    return CDZ_OK;
}

static cdz_status begin(const cdz_step *step, void **shared)
{
    cdz_string text;
    banned *b = cdz_alloc(step, sizeof *b);
    if (!b) return CDZ_E_NOMEM;
    memset(b, 0, sizeof *b);
    CDZ_TRY(read_file(step, BEGIN, &text));
    b->bytes = text.len;
    for (uint32_t at = 0; at < text.len;) {
        const size_t n = strcspn(text.at + at, "\n");
        CDZ_TRY(add_word(step, b, text.at + at, n));
        at += (uint32_t)n + 1;
    }
    *shared = b;
    return CDZ_OK;
}

static cdz_status apply(const cdz_step *step, cdz_scores *scores)
{
    const banned *b = step->shared;
    cdz_string text;
    CDZ_TRY(read_file(step, APPLY, &text));
    if (text.len != b->bytes) return cdz_fail(step, CDZ_E_PLUGIN, "another file than in begin");
    for (uint32_t r = 0; r < scores->n_rows; r++)
        for (uint32_t i = 0; i < b->n; i++) cdz_row(scores, r)[b->ids[i]] = -INFINITY;
    return CDZ_OK;
}

static const cdz_processor words = {
    .base = {CDZ_PROCESSOR_BASE, .id = "test.wordlist", .version = "1.0.0",
             .summary = "The words of a file do not come", CDZ_PARAMS(wordlist, params)},
    .caps = CDZ_ROWWISE,
    .create = create,
    .begin = begin,
    .apply = apply,
};
CDZ_EXPORT_PLUGINS(&words.base)
