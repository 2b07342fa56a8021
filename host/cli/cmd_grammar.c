/* cmd_grammar.c - cadenza grammar: what a constraint says of texts and ids, members of it, and its compiled form. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "cli/cli.h"
#include "grammar/grammar.h"

enum {
    OPT_JSONL = CDZ_OPT_OWN,
    OPT_SEED,
    OPT_SCHEMA,
    OPT_REGEX,
    OPT_GBNF,
    OPT_LARK,
    OPT_TAGS,
    OPT_CHOICE
};
enum { MOST_SAMPLES = 1000000 };

static const cdz_flag rows[] = {
    {"json-schema", 0, OPT_SCHEMA, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "the constraint: JSON that fits a schema; what begins with { is the schema itself"},
    {"regex", 0, OPT_REGEX, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "the constraint: what a regular expression matches as a whole"},
    {"gbnf", 0, OPT_GBNF, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "the constraint: a grammar as llama.cpp writes them"},
    {"lark", 0, OPT_LARK, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE", "the constraint: a Lark grammar"},
    {"structural-tag", 0, OPT_TAGS, CDZ_FLAG_ONCE, "FILE",
     "the constraint: free text with tags, whose insides fit schemas; what begins with { is the JSON "
     "itself"},
    {"choice", 0, OPT_CHOICE, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "A,B", "the constraint: one of these"},
    {"prompt", 'p', 'p', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "the text to ask about; without it and --jsonl: standard input"},
    {"jsonl", 0, OPT_JSONL, CDZ_FLAG_OFTEN, NULL, "one JSON question a line, one answer a line"},
    {"seed", 0, OPT_SEED, CDZ_FLAG_ONCE, "N", "of sample (default 1)"},
    {0},
};

const cdz_page cdz_page_grammar = {
    .name = "grammar",
    .summary = "ask a constraint about texts",
    .usage = "grammar check CONSTRAINT [MODEL] [-p TEXT | --jsonl]\n"
             "grammar sample CONSTRAINT [N] [--seed N] [--jsonl]\n"
             "grammar show CONSTRAINT\n"
             "grammar convert CONSTRAINT\n",
    .about =
        "Says whether a text is in the language of a constraint (accepts), and whether it may become so "
        "(viable). CONSTRAINT is --json-schema, --regex, --gbnf, --lark, --structural-tag or --choice with its value. With --jsonl a question is {\"text\": \"...\"} or {\"ids\": [...]} on a line, and its "
        "answer {\"accepts\": true, \"viable\": true}. With \"allowed\": true in the question the answer "
        "also has how many tokens may come next, n_allowed, and the SHA-256 of their ids: ascending, in "
        "decimal, joined by commas; with \"list\": true their ids. Ids need MODEL: a model's folder, a "
        "tokenizer's folder or file, or a GGUF file. sample draws N texts of the language (1), one a "
        "line, with --jsonl as questions for check; how likely one is means nothing. show prints the "
        "compiled form: rules, and the bytes that lead from place to place. convert writes a schema, a regex or choices as "
        "GBNF of the same language. Exit status 1: the constraint is not supported; the sentence names what is not.",
    .flags = rows,
    .takes = CDZ_TAKES_MODEL,
    .examples =
        "cadenza grammar check --regex '[0-9]{3}-[0-9]{4}' -p '555-01'\n"
        "cadenza grammar check --json-schema person.json -p '{\"name\": '\n"
        "cadenza grammar sample --regex '[0-9]{3}-[0-9]{4}' 5\n"
        "printf '{\"ids\": [51], \"allowed\": true}\\n' | cadenza grammar check --choice yes,no "
        "--jsonl my-model\n",
};

typedef struct grammar_job grammar_job;
struct grammar_job {
    cdz_cli_options common;
    const char *folder, *text;
    const char *source; /* of the constraint: a file or a text */
    int kind;           /* the option it came by, or 0 */
    bool jsonl;
    int (*verb)(grammar_job *job);
    uint64_t seed;
    uint32_t n_samples;
    cdz_tokenizer *tok;
    cdz_grammar_vocab *vocab;
    cdz_grammar *grammar;
    cdz_buf line, ids;
    cdz_arena arena;
};

/* --- the constraint ------------------------------------------------------------------------------- */

/* The texts between the commas: as many as there are. */
static cdz_status from_choices(const char *text, const cdz_grammar_options *options,
                               cdz_grammar **out, cdz_error *err)
{
    size_t most = 1, n = 0;
    for (const char *at = text; (at = strchr(at, ',')) != NULL; at++) most++;
    char *copy = strdup(text);
    const char **texts = calloc(most, sizeof *texts);
    cdz_status st = CDZ_OK;
    if (!copy || !texts) st = cdz_err_memory(err, "the choices");
    for (char *at = copy; st == CDZ_OK && at && n < most; n++) {
        texts[n] = at;
        at = strchr(at, ',');
        if (at) *at++ = '\0';
    }
    if (st == CDZ_OK) st = cdz_grammar_from_choice(texts, n, options, out, err);
    free(texts);
    free(copy);
    return st;
}

static cdz_status compile(grammar_job *job, cdz_error *err)
{
    const cdz_grammar_options options = {.tokenizer = job->tok};
    char *text = NULL;
    size_t len = 0;
    if (job->kind == OPT_SCHEMA && cdz_cli_is_inline(job->source))
        return cdz_grammar_from_schema(job->source, strlen(job->source), &options, &job->grammar,
                                       err);
    if (job->kind == OPT_TAGS && cdz_cli_is_inline(job->source))
        return cdz_grammar_from_tags(job->source, strlen(job->source), &options, &job->grammar, err);
    if (job->kind == OPT_CHOICE) return from_choices(job->source, &options, &job->grammar, err);
    if (job->kind == OPT_REGEX)
        return cdz_grammar_from_regex(job->source, strlen(job->source), &options, &job->grammar,
                                      err);
    CDZ_TRY(cdz_file_read(job->source, CDZ_GRAMMAR_MAX_BYTES, &text, &len, err));
    cdz_status st;
    switch (job->kind) {
    case OPT_GBNF: st = cdz_grammar_from_gbnf(text, len, &options, &job->grammar, err); break;
    case OPT_TAGS: st = cdz_grammar_from_tags(text, len, &options, &job->grammar, err); break;
    case OPT_LARK: st = cdz_grammar_from_lark(text, len, &options, &job->grammar, err); break;
    default: st = cdz_grammar_from_schema(text, len, &options, &job->grammar, err);
    }
    free(text);
    return st == CDZ_OK ? st : cdz_err_prefix(err, "%s", job->source);
}

/* The folder or GGUF file that holds the tokenizer; a tokenizer.json stands for its folder. */
static cdz_status open_tokenizer(grammar_job *job, cdz_error *err)
{
    static const char file[] = "tokenizer.json";
    char path[4096];
    const size_t n = strlen(job->folder), m = sizeof file - 1;
    const char *folder = job->folder;
    if (n >= m && strcmp(folder + n - m, file) == 0 && (n == m || folder[n - m - 1] == '/')) {
        folder = n == m ? "." : cdz_arena_strndup(&job->arena, folder, n - m - 1);
        if (!folder) return cdz_err(err, CDZ_E_NOMEM, "out of memory");
    } else {
        folder = cdz_cli_model_folder(&job->common.host.program, folder, CDZ_NEED_TEXTS, path,
                                      sizeof path);
        if (!folder) return CDZ_E_NOT_FOUND; /* which has been said */
    }
    CDZ_TRY(cdz_tokenizer_open(folder, &job->tok, err));
    const cdz_tokenizer_config *config = cdz_tokenizer_get_config(job->tok);
    return cdz_grammar_vocab_new(job->tok, &config->eos_id, 1, &job->vocab, err);
}

/* --- a question ----------------------------------------------------------------------------------- */

static cdz_status after_ids(grammar_job *job, const cdz_json *ids, uint32_t *state, cdz_error *err)
{
    if (!job->vocab)
        return cdz_err(err, CDZ_E_INPUT, "ids need MODEL: a model, a tokenizer or a GGUF file");
    if (ids->type != CDZ_JSON_ARRAY)
        return cdz_err(err, CDZ_E_INPUT, "\"ids\" is %s, expected an array",
                       cdz_json_type_name(ids));
    for (uint32_t i = 0; i < ids->len; i++) {
        const cdz_json *id = &ids->items[i];
        if (id->type != CDZ_JSON_INT || id->integer < 0 || id->integer > INT32_MAX)
            return cdz_err(err, CDZ_E_INPUT, "\"ids\": entry %u is %s, expected an id", i,
                           cdz_json_type_name(id));
        *state = cdz_grammar_feed_token(job->grammar, job->vocab, *state, (int32_t)id->integer);
    }
    return CDZ_OK;
}

static cdz_status write_allowed(grammar_job *job, uint32_t state, bool list, cdz_error *err)
{
    const uint64_t *mask;
    char hex[CDZ_SHA256_HEX];
    uint32_t n = 0;
    if (!job->vocab)
        return cdz_err(err, CDZ_E_INPUT,
                       "\"allowed\" needs MODEL: a model, a tokenizer or a GGUF file");
    CDZ_TRY(cdz_grammar_allowed(job->grammar, job->vocab, state, &mask, err));
    cdz_buf_clear(&job->ids);
    for (uint32_t id = 0; id < cdz_grammar_vocab_size(job->vocab); id++)
        if (cdz_bit_is_set(mask, id)) cdz_buf_printf(&job->ids, n++ ? ",%u" : "%u", id);
    cdz_sha256_hex(job->ids.data ? job->ids.data : "", job->ids.len, hex);
    cdz_buf_printf(&job->line, ", \"n_allowed\": %u, \"sha256\": \"%s\"", n, hex);
    if (list) cdz_buf_printf(&job->line, ", \"list\": [%s]", job->ids.len ? job->ids.data : "");
    return CDZ_OK;
}

static bool says_true(const cdz_json *question, const char *name)
{
    const cdz_json *value = cdz_json_get(question, name);
    return cdz_json_is(value, CDZ_JSON_BOOL) && value->boolean;
}

/* question NULL: the text alone. */
static cdz_status answer(grammar_job *job, const cdz_json *question, const char *text, size_t len,
                         cdz_error *err)
{
    uint32_t state = cdz_grammar_start(job->grammar);
    const cdz_json *ids = cdz_json_get(question, "ids");
    if (ids)
        CDZ_TRY(after_ids(job, ids, &state, err));
    else
        state = cdz_grammar_feed(job->grammar, state, text, len);
    cdz_buf_clear(&job->line);
    const bool accepts = cdz_grammar_accepts(job->grammar, state);
    CDZ_TRY(cdz_grammar_trouble(job->grammar, err));
    cdz_buf_printf(&job->line, "{\"accepts\": %s, \"viable\": %s", accepts ? "true" : "false",
                   state ? "true" : "false");
    if (says_true(question, "allowed"))
        CDZ_TRY(write_allowed(job, state, says_true(question, "list"), err));
    cdz_buf_puts(&job->line, "}\n");
    if (job->line.failed) return cdz_err_memory(err, "an answer");
    fwrite(job->line.data, 1, job->line.len, stdout);
    fflush(stdout);
    return CDZ_OK;
}

static cdz_status answer_line(grammar_job *job, const char *line, size_t len, cdz_error *err)
{
    cdz_json question;
    cdz_arena_reset(&job->arena);
    CDZ_TRY(cdz_json_parse(line, len, "the question", NULL, &job->arena, &question, err));
    const cdz_json *text = cdz_json_get(&question, "text");
    if (!cdz_json_get(&question, "ids") && !cdz_json_is(text, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "expected {\"text\": \"...\"} or {\"ids\": [...]}");
    return answer(job, &question, text ? text->string : "", text ? text->len : 0, err);
}

static int answer_lines(grammar_job *job)
{
    cdz_cli_lines lines = {.in = stdin, .name = "standard input"};
    cdz_error err = {0};
    int status = CDZ_EXIT_OK;
    for (bool some = true; status == CDZ_EXIT_OK && some && !ferror(stdout);) {
        if (cdz_cli_next_line(&lines, &some, &err) != CDZ_OK) {
            status = cdz_cli_fail(&err);
        } else if (some && answer_line(job, lines.line, lines.len, &err) != CDZ_OK) {
            cdz_cli_say("standard input:%llu: %s", (unsigned long long)lines.number, err.text);
            status = CDZ_EXIT_FAILURE;
        }
    }
    free(lines.line);
    return status;
}

static int answer_whole(grammar_job *job)
{
    cdz_error err = {0};
    char *text = NULL;
    size_t len = job->text ? strlen(job->text) : 0;
    cdz_status st = CDZ_OK;
    if (!job->text)
        st = cdz_cli_read_stream(stdin, "standard input", (size_t)1 << 30, &text, &len, &err);
    if (st == CDZ_OK) st = answer(job, NULL, job->text ? job->text : text, len, &err);
    free(text);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

static int check(grammar_job *job)
{
    return job->jsonl ? answer_lines(job) : answer_whole(job);
}

/* --- samples, and the compiled form ----------------------------------------------------------------- */

static cdz_status write_sample(grammar_job *job, cdz_error *err)
{
    cdz_buf_clear(&job->ids);
    cdz_buf_clear(&job->line);
    CDZ_TRY(cdz_grammar_sample(job->grammar, &job->seed, &job->ids, err));
    const char *text = job->ids.data ? job->ids.data : "";
    if (job->jsonl) {
        cdz_buf_puts(&job->line, "{\"text\": ");
        cdz_json_write_string(&job->line, text, job->ids.len);
        cdz_buf_putc(&job->line, '}');
    } else {
        cdz_buf_add(&job->line, text, job->ids.len);
    }
    cdz_buf_putc(&job->line, '\n');
    if (job->line.failed) return cdz_err_memory(err, "a sample");
    fwrite(job->line.data, 1, job->line.len, stdout);
    return CDZ_OK;
}

static int sample(grammar_job *job)
{
    cdz_error err = {0};
    cdz_status st = CDZ_OK;
    for (uint32_t i = 0; st == CDZ_OK && i < job->n_samples && !ferror(stdout); i++)
        st = write_sample(job, &err);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

static int show(grammar_job *job)
{
    const cdz_error none = {.code = CDZ_E_NOMEM, .text = "out of memory for the compiled form"};
    cdz_grammar_show(job->grammar, &job->line);
    if (job->line.failed) return cdz_cli_fail(&none);
    fwrite(job->line.data, 1, job->line.len, stdout);
    return CDZ_EXIT_OK;
}

static int convert(grammar_job *job)
{
    cdz_error err = {0};
    if (cdz_grammar_to_gbnf(job->grammar, &job->line, &err) != CDZ_OK) return cdz_cli_fail(&err);
    fwrite(job->line.data, 1, job->line.len, stdout);
    return CDZ_EXIT_OK;
}

static int run(grammar_job *job)
{
    cdz_error err = {0};
    int status;
    cdz_status st = job->folder ? open_tokenizer(job, &err) : CDZ_OK;
    if (st == CDZ_OK) st = compile(job, &err);
    if (st != CDZ_OK)
        status = err.text[0] ? cdz_cli_fail(&err) : CDZ_EXIT_FAILURE;
    else
        status = job->verb(job);
    cdz_grammar_free(job->grammar);
    cdz_grammar_vocab_free(job->vocab);
    cdz_tokenizer_free(job->tok);
    cdz_buf_free(&job->line);
    cdz_buf_free(&job->ids);
    cdz_arena_free(&job->arena);
    return status;
}

/* --- options -------------------------------------------------------------------------------------- */

static uint64_t take_number(cdz_args *a, const char *name, const char *text, uint64_t most)
{
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || n > most)
        cdz_args_refuse(a, "%s %s: expected a number from 0 to %llu", name, text,
                        (unsigned long long)most);
    return n;
}

static void take_option(grammar_job *job, cdz_args *a)
{
    switch (a->opt) {
    case 'p': job->text = a->value; break;
    case OPT_JSONL: job->jsonl = true; break;
    case OPT_SEED: job->seed = take_number(a, "--seed", a->value, UINT64_MAX); break;
    default:
        if (job->kind)
            cdz_args_refuse(a, "one constraint at a time");
        else
            job->source = a->value;
        job->kind = a->opt;
    }
}

static void take_verb(cdz_args *a, grammar_job *job)
{
    static const struct {
        const char *name;
        int (*run)(grammar_job *job);
    } verbs[] = {{"check", check}, {"sample", sample}, {"show", show}, {"convert", convert}};
    const char *verb = cdz_args_word(a);
    for (size_t i = 0; verb && i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verb, verbs[i].name) == 0) job->verb = verbs[i].run;
    if (!job->verb) cdz_args_refuse_verb(a, "'check', 'sample', 'show' or 'convert'", verb);
}

static void check_words(cdz_args *a, grammar_job *job)
{
    take_verb(a, job);
    if (a->stopped) return;
    if (job->verb == sample) {
        const char *n = cdz_args_word(a);
        if (n) job->n_samples = (uint32_t)take_number(a, "N", n, MOST_SAMPLES);
    } else if (job->verb == check && !cdz_args_take_model(a, &job->folder)) {
        return;
    }
    if (a->stopped || !cdz_args_end(a)) return;
    if (!job->kind)
        cdz_args_refuse(a, "a constraint is missing: --json-schema, --regex, --gbnf, --lark, "
                           "--structural-tag or --choice");
    else if (job->text && (job->jsonl || job->verb != check))
        cdz_args_refuse(a, job->jsonl ? "give either -p or --jsonl" : "-p is for check");
    else if (job->verb == convert && job->kind >= OPT_GBNF && job->kind <= OPT_TAGS)
        cdz_args_refuse(a, "convert takes --json-schema, --regex or --choice");
    else if (job->verb != check && job->verb != sample && job->jsonl)
        cdz_args_refuse(a, "--jsonl is for check and sample");
}

int cdz_cmd_grammar(int argc, char **argv)
{
    grammar_job job = {.seed = 1, .n_samples = 1};
    cdz_args a = cdz_args_of(&cdz_page_grammar, argc, argv, &job.common);
    while (cdz_args_next(&a)) take_option(&job, &a);
    if (!a.stopped) check_words(&a, &job);
    const int status = a.stopped ? a.status : run(&job);
    cdz_cli_options_free(&job.common);
    return status;
}
