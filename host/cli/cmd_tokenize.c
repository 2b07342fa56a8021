/* cmd_tokenize.c - cadenza tokenize: text to ids and back, one text or a line of JSON at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/tokenize_pair.h"
#include "token/tokenizer.h"

enum { OPT_JSONL = CDZ_OPT_OWN, OPT_DECODE, OPT_SKIP_SPECIAL, OPT_NO_SPECIAL };

static const cdz_flag rows[] = {
    {"prompt", 'p', 'p', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "the text, or with --decode the array of ids"},
    {"no-special", 0, OPT_NO_SPECIAL, CDZ_FLAG_OFTEN, NULL,
     "add no special tokens (BOS and the like)"},
    {"decode", 0, OPT_DECODE, CDZ_FLAG_OFTEN, NULL,
     "the reverse: a JSON array of ids in, a JSON string out"},
    {"skip-special", 0, OPT_SKIP_SPECIAL, CDZ_FLAG_OFTEN, NULL,
     "with --decode: leave special tokens out of the text"},
    {"jsonl", 0, OPT_JSONL, CDZ_FLAG_OFTEN, NULL, "one JSON value a line, one answer a line"},
    {"json", 0, CDZ_OPT_JSON, CDZ_FLAG_OFTEN, NULL,
     "a JSON object: ids, type_ids, attention_mask, special_tokens_mask, sequence_ids, offsets, and "
     "what was cut off: overflowing"},
    {"pair", 0, CDZ_OPT_PAIR, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "a second text; with --jsonl lines are [\"first\", \"second\"]"},
    {"max-length", 0, CDZ_OPT_MAX_LENGTH, CDZ_FLAG_OFTEN, "N", "truncate to at most N ids"},
    {"stride", 0, CDZ_OPT_STRIDE, 0, "N", "with --max-length: windows that share N ids"},
    {"truncation", 0, CDZ_OPT_TRUNCATION, 0, "WAY", "longest_first, only_first or only_second"},
    {"truncation-side", 0, CDZ_OPT_TRUNCATION_SIDE, 0, "SIDE", "left or right"},
    {"pad-to", 0, CDZ_OPT_PAD_TO, CDZ_FLAG_OFTEN, "N", "pad to at least N ids"},
    {"pad-multiple", 0, CDZ_OPT_PAD_MULTIPLE, 0, "N", "pad to a multiple of N ids"},
    {"pad-side", 0, CDZ_OPT_PAD_SIDE, 0, "SIDE", "left or right"},
    {0},
};

const cdz_page cdz_page_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids and back",
    .usage = "tokenize [MODEL] [-p TEXT] [options]\n",
    .about =
        "Prints the token ids of a text as a JSON array. The text is TEXT, or standard input exactly as "
        "it is, a newline at its end included. MODEL is a folder with a tokenizer.json, tekken.json or tokenizer.model, or a GGUF file; "
        "without it: the shipped one.",
    .flags = rows,
    .takes = CDZ_TAKES_MODEL,
    .examples = "cadenza tokenize -p 'river (noun):'\n"
                "cadenza tokenize my-model --no-special < chapter.txt\n"
                "cadenza tokenize my-model --decode -p '[72, 480, 292]'\n"
                "printf '\"one\"\\n\"two\"\\n' | cadenza tokenize my-model --jsonl\n"
                "cadenza tokenize my-model -p 'A question?' --pair 'Its answer.' --max-length 128\n",
};

typedef struct tokenize_job {
    cdz_cli_options common;
    const char *folder, *text; /* text NULL: standard input */
    bool jsonl, decode, skip_special, no_special;
    cdz_cli_pair pair;
    cdz_tokenizer *tok;
    cdz_tokenizer_scratch *scratch;
    cdz_encoding encoding;
    cdz_buf line; /* one answer */
    cdz_arena arena;
    int32_t *ids;
    size_t ids_cap;
} tokenize_job;

/* --- one value -------------------------------------------------------------------------------- */

static cdz_status write_ids(tokenize_job *job, const char *text, size_t len, cdz_error *err)
{
    const unsigned flags = job->no_special ? 0 : CDZ_ENCODE_SPECIAL;
    CDZ_TRY(cdz_tokenizer_encode(job->tok, job->scratch, text, len, flags, &job->encoding, err));
    cdz_buf_putc(&job->line, '[');
    for (size_t i = 0; i < job->encoding.n; i++)
        cdz_buf_printf(&job->line, i ? ", %d" : "%d", job->encoding.ids[i]);
    cdz_buf_putc(&job->line, ']');
    return CDZ_OK;
}

static cdz_status take_ids(tokenize_job *job, const cdz_json *list, cdz_error *err)
{
    if (!cdz_json_is(list, CDZ_JSON_ARRAY))
        return cdz_err(err, CDZ_E_INPUT, "expected an array of ids, found %s",
                       cdz_json_type_name(list));
    if (list->len > job->ids_cap) {
        int32_t *ids = realloc(job->ids, list->len * sizeof *ids);
        if (!ids) return cdz_err(err, CDZ_E_NOMEM, "out of memory for %u ids", list->len);
        job->ids = ids;
        job->ids_cap = list->len;
    }
    for (uint32_t i = 0; i < list->len; i++) {
        const cdz_json *id = &list->items[i];
        if (!cdz_json_is(id, CDZ_JSON_INT) || id->integer < 0 || id->integer > INT32_MAX)
            return cdz_err(err, CDZ_E_INPUT, "entry %u is %s, expected an id: a whole number from 0",
                           i, cdz_json_type_name(id));
        job->ids[i] = (int32_t)id->integer;
    }
    return CDZ_OK;
}

static cdz_status write_text(tokenize_job *job, const cdz_json *list, cdz_error *err)
{
    unsigned flags = job->skip_special ? CDZ_DECODE_SKIP_SPECIAL : 0;
    if (cdz_tokenizer_get_config(job->tok)->clean_up_tokenization_spaces)
        flags |= CDZ_DECODE_CLEAN_UP;
    cdz_buf text = {0};
    CDZ_TRY(take_ids(job, list, err));
    cdz_status st = cdz_tokenizer_decode(job->tok, job->ids, list->len, flags, &text, err);
    if (st == CDZ_OK) cdz_json_write_string(&job->line, text.len ? text.data : "", text.len);
    cdz_buf_free(&text);
    return st;
}

/* A text, or two of them in a list, as JSON or as they are. */
static cdz_status write_pair(tokenize_job *job, const cdz_json *parsed, const char *value,
                             size_t len, cdz_error *err)
{
    const char *second = job->pair.second;
    size_t second_len = second ? strlen(second) : 0;
    if (parsed && parsed->type == CDZ_JSON_ARRAY) {
        const cdz_json *texts = parsed->items;
        if (!texts || parsed->len != 2 || !cdz_json_is(&texts[0], CDZ_JSON_STRING) ||
            !cdz_json_is(&texts[1], CDZ_JSON_STRING))
            return cdz_err(err, CDZ_E_INPUT, "expected a JSON string, or a list of two");
        second = texts[1].string;
        second_len = texts[1].len;
        parsed = &texts[0];
    }
    if (parsed) {
        value = parsed->string;
        len = parsed->len;
    }
    return cdz_cli_pair_write(&job->pair, job->tok, value, len, second, second_len, &job->line, err);
}

/* Answers one value on a line of its own. json: the value is written as JSON, else it is the
 * text itself. */
static cdz_status answer(tokenize_job *job, const char *value, size_t len, bool json, cdz_error *err)
{
    cdz_json parsed = {0};
    cdz_buf_clear(&job->line);
    cdz_arena_reset(&job->arena);
    if (json) CDZ_TRY(cdz_json_parse(value, len, "", NULL, &job->arena, &parsed, err));
    const bool two = job->pair.asked && cdz_json_is(&parsed, CDZ_JSON_ARRAY);
    if (json && !job->decode && !two && !cdz_json_is(&parsed, CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "expected a JSON string, found %s",
                       cdz_json_type_name(&parsed));
    if (job->decode)
        CDZ_TRY(write_text(job, &parsed, err));
    else if (job->pair.asked)
        CDZ_TRY(write_pair(job, json ? &parsed : NULL, value, len, err));
    else
        CDZ_TRY(write_ids(job, json ? parsed.string : value, json ? parsed.len : len, err));
    cdz_buf_putc(&job->line, '\n');
    if (job->line.failed) return cdz_err_memory(err, "the answer");
    (void)fwrite(job->line.data, 1, job->line.len, stdout); /* checked at the program's end */
    return CDZ_OK;
}

/* Says what is wrong and where. A JSON sentence begins ":1:COLUMN:", its line counted within the
 * value. */
static int say_wrong(const char *source, size_t line, const cdz_error *err)
{
    const bool from_json = strncmp(err->text, ":1:", 3) == 0;
    fflush(stdout); /* the answers before it come first where both go to one place */
    if (line == 0)
        cdz_cli_say("%s%s%s", source, err->text[0] == ':' ? "" : ": ", err->text);
    else
        cdz_cli_say("%s:%zu:%s%s", source, line, from_json ? "" : " ",
                    err->text + (from_json ? 3 : 0));
    return CDZ_EXIT_FAILURE;
}

/* --- all of the input ------------------------------------------------------------------------- */

static int answer_lines(tokenize_job *job)
{
    cdz_cli_lines lines = {.in = stdin, .name = "standard input"};
    cdz_error err = {0};
    int status = CDZ_EXIT_OK;
    for (bool some = true; status == CDZ_EXIT_OK && some && !ferror(stdout);) {
        if (cdz_cli_next_line(&lines, &some, &err) != CDZ_OK)
            status = cdz_cli_fail(&err);
        else if (some && answer(job, lines.line, lines.len, true, &err) != CDZ_OK)
            status = say_wrong("standard input", (size_t)lines.number, &err);
    }
    free(lines.line);
    return status;
}

/* "72 480" and "72, 480" as the array that they mean; else the text as it stands. NULL: out of memory. */
static char *as_array(const char *text, size_t *len)
{
    cdz_buf out = {0};
    if (!*text || strspn(text, "0123456789, \t\n") < *len) return strndup(text, *len);
    cdz_buf_putc(&out, '[');
    for (const char *at = text; *at;) {
        const size_t gap = strspn(at, ", \t\n"), n = strspn(at + gap, "0123456789");
        if (n && out.len > 1) cdz_buf_putc(&out, ',');
        cdz_buf_add(&out, at + gap, n);
        at += gap + n;
    }
    cdz_buf_putc(&out, ']');
    char *array = out.failed ? NULL : strdup(out.data);
    *len = array ? strlen(array) : 0;
    cdz_buf_free(&out);
    return array;
}

static int answer_whole(tokenize_job *job)
{
    cdz_error err = {0};
    const char *source = job->text ? "-p" : "standard input";
    char *input = NULL;
    size_t len = job->text ? strlen(job->text) : 0;
    if (!job->text &&
        cdz_cli_read_stream(stdin, source, (size_t)1 << 30, &input, &len, &err) != CDZ_OK)
        return cdz_cli_fail(&err);
    if (job->decode) {
        char *array = as_array(job->text ? job->text : input, &len);
        free(input);
        input = array;
        if (!array) {
            cdz_cli_say("%s: out of memory", source);
            return CDZ_EXIT_FAILURE;
        }
    }
    const char *value = input ? input : job->text;
    /* With -p, --jsonl means that the text is a JSON value too. */
    const cdz_status st = answer(job, value, len, job->decode || job->jsonl, &err);
    free(input);
    return st == CDZ_OK ? CDZ_EXIT_OK : say_wrong(source, 0, &err);
}

static int tokenize(tokenize_job *job)
{
    cdz_error err = {0};
    char path[4096];
    const char *folder = cdz_cli_model_folder(&job->common.host.program, job->folder,
                                              CDZ_NEED_TEXTS, path, sizeof path);
    if (!folder) return CDZ_EXIT_FAILURE;
    if (cdz_tokenizer_open(folder, &job->tok, &err) != CDZ_OK) return cdz_cli_fail(&err);
    job->scratch = cdz_tokenizer_scratch_new();
    int status = job->jsonl && !job->text ? answer_lines(job) : answer_whole(job);
    cdz_tokenizer_scratch_free(job->scratch);
    cdz_tokenizer_free(job->tok);
    cdz_encoding_free(&job->encoding);
    cdz_buf_free(&job->line);
    cdz_arena_free(&job->arena);
    free(job->ids);
    return status;
}

/* --- options ---------------------------------------------------------------------------------- */

static void take_option(tokenize_job *job, cdz_args *a)
{
    switch (a->opt) {
    case 'p': job->text = a->value; break;
    case OPT_JSONL: job->jsonl = true; break;
    case OPT_DECODE: job->decode = true; break;
    case OPT_SKIP_SPECIAL: job->skip_special = true; break;
    case OPT_NO_SPECIAL: job->no_special = true; break;
    default: a->stopped = !cdz_cli_pair_option(&job->pair, a->opt, a->value, &a->status);
    }
}

/* What does not go together; NULL: all does. */
static const char *clash(const tokenize_job *job)
{
    if (job->pair.asked && job->decode)
        return "--decode gives text: it takes no --json, --pair, truncation or padding";
    if (job->skip_special && !job->decode) return "--skip-special needs --decode";
    if (job->no_special && job->decode)
        return "--no-special goes with encoding; did you mean --skip-special?";
    return NULL;
}

int cdz_cmd_tokenize(int argc, char **argv)
{
    tokenize_job job = {0};
    cdz_args a = cdz_args_of(&cdz_page_tokenize, argc, argv, &job.common);
    while (cdz_args_next(&a)) take_option(&job, &a);
    job.pair.options.special = !job.no_special;
    const char *wrong = a.stopped ? NULL : clash(&job);
    if (wrong) cdz_args_refuse(&a, "%s", wrong);
    const bool good = !a.stopped && cdz_args_take_model(&a, &job.folder) && cdz_args_end(&a);
    const int status = good ? tokenize(&job) : a.status;
    cdz_cli_options_free(&job.common);
    return status;
}
