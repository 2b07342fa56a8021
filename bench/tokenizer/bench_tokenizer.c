/* bench_tokenizer.c - loading a tokenizer.json and encoding a text on one thread: bench_tokenizer FOLDER
 *
 * FOLDER holds tokenizer.json and text.txt, which is encoded as documents of whole lines, 8 KiB or a little more each.
 * Prints, one a line: milliseconds to load, megabytes encoded per second without offsets, from an empty cache of words
 * and with what earlier rounds left in it, then the number of ids and a checksum. Medians of some rounds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench.h"
#include "token/tokenizer.h"

enum { ROUNDS = 5, DOCUMENT = 8192 };

static void must(cdz_status status, const cdz_error *err)
{
    if (status == CDZ_OK) return;
    cdz_bench_give_up(err->text);
}

static size_t document_end(const char *text, size_t len, size_t from)
{
    if (len - from <= DOCUMENT) return len;
    const char *line = memchr(text + from + DOCUMENT, '\n', len - from - DOCUMENT);
    return line ? (size_t)(line - text) + 1 : len;
}

typedef struct answer {
    size_t n_ids;
    uint32_t sum;
} answer;

static answer encode_all(const cdz_tokenizer *tok, cdz_tokenizer_scratch *scratch, const char *text,
                         size_t len)
{
    cdz_encoding e = {0};
    cdz_error err;
    answer a = {0, 1};
    for (size_t from = 0, to; from < len; from = to) {
        to = document_end(text, len, from);
        must(cdz_tokenizer_encode(tok, scratch, text + from, to - from, 0, &e, &err), &err);
        a.n_ids += e.n;
        for (size_t i = 0; i < e.n; i++) a.sum = a.sum * 31 + (uint32_t)e.ids[i];
    }
    cdz_encoding_free(&e);
    return a;
}

static cdz_tokenizer *load(const char *folder, double *ms)
{
    cdz_tokenizer *tok = NULL;
    cdz_error err;
    double took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        cdz_tokenizer_free(tok);
        const double start = cdz_now_s();
        must(cdz_tokenizer_open(folder, &tok, &err), &err);
        took[i] = (cdz_now_s() - start) * 1e3;
    }
    *ms = cdz_bench_median(took, ROUNDS);
    return tok;
}

int main(int argc, char **argv)
{
    char path[4096], *text;
    size_t len;
    cdz_error err;
    double load_ms, cold[ROUNDS], warm[ROUNDS];
    answer a = {0, 0};
    if (argc != 2) {
        fputs("usage: bench_tokenizer FOLDER\n", stderr);
        return 2;
    }
    snprintf(path, sizeof path, "%s/text.txt", argv[1]);
    must(cdz_file_read(path, (size_t)1 << 30, &text, &len, &err), &err);
    cdz_tokenizer *tok = load(argv[1], &load_ms);
    for (int i = 0; i < ROUNDS; i++) {
        cdz_tokenizer_scratch *scratch = cdz_tokenizer_scratch_new();
        double start = cdz_now_s();
        a = encode_all(tok, scratch, text, len);
        cold[i] = (double)len * 1e-6 / (cdz_now_s() - start);
        start = cdz_now_s();
        encode_all(tok, scratch, text, len);
        warm[i] = (double)len * 1e-6 / (cdz_now_s() - start);
        cdz_tokenizer_scratch_free(scratch);
    }
    printf("load_ms %.1f\ncold_mb_s %.2f\nwarm_mb_s %.2f\nids %zu\nsum %" PRIu32 "\n", load_ms,
           cdz_bench_median(cold, ROUNDS), cdz_bench_median(warm, ROUNDS), a.n_ids, a.sum);
    cdz_tokenizer_free(tok);
    free(text);
    return 0;
}
