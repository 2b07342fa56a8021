/* model_check.c - cadenza model check: every file of a model looked into before it is trusted. What is wrong goes to
 * stderr, a sentence each; progress too, and only to a terminal. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "config/generation.h"
#include "load/check.h"
#include "load/model_files.h"
#include "template/chat.h"
#include "token/tokenizer.h"

enum { MOST_SENTENCES = 8 };

typedef struct checking {
    cdz_weights *weights;
    cdz_arena arena;
    bool terminal;    /* progress is shown */
    const char *what; /* is being read, for progress */
    uint32_t n_wrong; /* files, tensors and parts with something wrong */
} checking;

/* --- progress ------------------------------------------------------------------------------ */

static void tell(void *user, uint64_t done, uint64_t total)
{
    const checking *c = user;
    if (!c->terminal || total == 0) return;
    fprintf(stderr, "\r\033[K%s %3.0f %%", c->what, 100.0 * (double)done / (double)total);
}

static void clear_line(const checking *c)
{
    if (c->terminal) fputs("\r\033[K", stderr);
}

static void wrong(checking *c, const cdz_error *err)
{
    clear_line(c);
    if (c->n_wrong++ < MOST_SENTENCES) cdz_cli_say("%s", err->text);
}

/* --- hashes -------------------------------------------------------------------------------- */

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* always: also where nothing is recorded of it. */
static cdz_status check_hash(checking *c, const cdz_file *file, bool always, cdz_error *err)
{
    cdz_known_hash known;
    char hex[CDZ_SHA256_HEX];
    CDZ_TRY(cdz_hash_known(file->path, &c->arena, &known, err));
    if (!always && !*known.hex) return CDZ_OK;
    c->what = file_name(file->path);
    CDZ_TRY(cdz_hash_check(file, &(cdz_check_progress){tell, c}, hex, err));
    if (*known.hex && strcmp(hex, known.hex) != 0)
        return cdz_err(err, CDZ_E_INPUT, "%s: its SHA-256 is %s, expected %s after %s", file->path,
                       hex, known.hex, known.source);
    clear_line(c);
    printf("%-18s %s%s%s\n", c->what, hex, *known.hex ? ", as recorded in " : "",
           *known.hex ? known.source : "");
    return CDZ_OK;
}

static void check_hashes(checking *c)
{
    static const char *const others[] = {"config.json",         "generation_config.json",
                                         "tokenizer.json",      "tokenizer_config.json",
                                         "chat_template.jinja", "tokenizer.model",
                                         "spiece.model",        "sentencepiece.bpe.model",
                                         "source.spm",          "target.spm",
                                         "vocab.json",          "merges.txt",
                                         "tekken.json"};
    const cdz_tensors *set = &c->weights->tensors;
    cdz_error err = {0};
    for (uint32_t i = 0; i < set->n_files; i++)
        if (check_hash(c, &set->files[i], true, &err) != CDZ_OK) wrong(c, &err);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cdz_file file;
        const char *path = cdz_arena_printf(&c->arena, "%s/%s", c->weights->folder, others[i]);
        if (!path || cdz_file_map(path, &file, &err) != CDZ_OK) continue;
        if (check_hash(c, &file, false, &err) != CDZ_OK) wrong(c, &err);
        cdz_file_unmap(&file);
    }
}

/* --- values -------------------------------------------------------------------------------- */

typedef struct totals {
    uint64_t n, n_nan, n_infinite, n_tensors, n_unread;
} totals;

static void check_tensor(checking *c, cdz_value_scan *scan, const cdz_tensor *t, totals *sum)
{
    const cdz_file *file = &c->weights->tensors.files[t->file];
    cdz_value_counts counts;
    cdz_error err = {0};
    if (cdz_value_scan_tensor(scan, file, t, &counts, &err) != CDZ_OK) {
        wrong(c, &err);
        return;
    }
    sum->n_tensors++;
    sum->n_unread += counts.n == 0 && t->n_bytes > 0;
    sum->n += counts.n;
    sum->n_nan += counts.n_nan;
    sum->n_infinite += counts.n_infinite;
    if (counts.n_nan == 0) return;
    cdz_err_write(&err, CDZ_E_INPUT,
                  "%s: tensor %.100s has %" PRIu64 " NaN among %" PRIu64
                  " values, the first at %" PRIu64,
                  file->path, t->name, counts.n_nan, counts.n, counts.first_nan);
    wrong(c, &err);
}

static void print_values(const totals *sum)
{
    printf("%-18s %" PRIu64 " in %" PRIu64 " tensors", "values", sum->n, sum->n_tensors);
    printf(", %" PRIu64 " of them NaN", sum->n_nan);
    if (sum->n_infinite) printf(", %" PRIu64 " infinite", sum->n_infinite);
    if (sum->n_unread) printf("; %" PRIu64 " tensors of types that hold no numbers", sum->n_unread);
    putchar('\n');
}

static int check_values(checking *c)
{
    const cdz_tensors *set = &c->weights->tensors;
    char why[256] = "out of memory";
    uint64_t done = 0;
    totals sum = {0};
    cdz_backend *backend = cdz_cpu_backend_create(&(cdz_cpu_options){0}, why, sizeof why);
    cdz_value_scan *scan = backend ? cdz_value_scan_new(backend) : NULL;
    if (!scan) {
        cdz_cli_say("%s", why);
        if (backend) backend->api->destroy(backend);
        return CDZ_EXIT_FAILURE;
    }
    c->what = "values";
    for (size_t i = 0; i < set->n_items; i++) {
        tell(c, done, c->weights->facts.file_bytes);
        check_tensor(c, scan, &set->items[i], &sum);
        done += set->items[i].n_bytes;
    }
    clear_line(c);
    print_values(&sum);
    cdz_value_scan_free(scan);
    backend->api->destroy(backend);
    return CDZ_EXIT_OK;
}

/* --- what goes with the weights ------------------------------------------------------------ */

static cdz_status check_tokenizer(const checking *c, cdz_error *err)
{
    cdz_tokenizer *tok = NULL;
    const uint32_t n_vocab = cdz_weights_arch(c->weights)->n_vocab;
    const cdz_status st = cdz_tokenizer_open(c->weights->folder, &tok, err);
    if (st == CDZ_E_NOT_FOUND) {
        printf("%-18s none: prompts are ids\n", "tokenizer");
        return CDZ_OK;
    }
    CDZ_TRY(st);
    const uint32_t n = cdz_tokenizer_n_ids(tok);
    printf("%-18s %s, ids up to %u of %u\n", "tokenizer", cdz_tokenizer_kind(tok), n ? n - 1 : 0,
           n_vocab);
    cdz_tokenizer_free(tok);
    if (n <= n_vocab) return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "%s: the tokenizer has ids up to %u, but the embedding only %u rows",
                   c->weights->folder, n - 1, n_vocab);
}

static cdz_status check_template(const checking *c, cdz_error *err)
{
    cdz_chat_template *chat = NULL;
    cdz_error why = {0};
    if (cdz_chat_template_open(c->weights->folder, &chat, &why) != CDZ_OK) {
        printf("%-18s none\n", "chat template");
        return CDZ_OK;
    }
    const cdz_status st = cdz_chat_template_choose(chat, NULL, false, err);
    cdz_chat_template_free(chat);
    if (st == CDZ_OK) printf("%-18s compiles\n", "chat template");
    return st;
}

static cdz_status check_generation(const checking *c, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json generation;
    const cdz_status st =
        cdz_generation_of_model(cdz_weights_generation_config(c->weights),
                                cdz_weights_config(c->weights), &arena, &generation, err);
    cdz_arena_free(&arena);
    return st;
}

static void check_parts(checking *c)
{
    cdz_error err = {0};
    if (check_tokenizer(c, &err) != CDZ_OK) wrong(c, &err);
    if (check_template(c, &err) != CDZ_OK) wrong(c, &err);
    if (check_generation(c, &err) != CDZ_OK) wrong(c, &err);
}

int cdz_cli_model_check(const char *folder)
{
    checking c = {.terminal = isatty(STDERR_FILENO)};
    cdz_error err = {0};
    if (cdz_weights_open(folder, &c.weights, &err) != CDZ_OK) return cdz_cli_fail(&err);
    printf("%-18s %s, as %s has them\n", "names and shapes", folder,
           cdz_weights_arch(c.weights)->architecture);
    check_hashes(&c);
    int status = check_values(&c);
    check_parts(&c);
    if (c.n_wrong > MOST_SENTENCES)
        cdz_cli_say("and %u more of the kind", c.n_wrong - MOST_SENTENCES);
    if (c.n_wrong) status = CDZ_EXIT_FAILURE;
    if (status == CDZ_EXIT_OK) puts("nothing wrong was found");
    cdz_weights_close(c.weights);
    cdz_arena_free(&c.arena);
    return status;
}
