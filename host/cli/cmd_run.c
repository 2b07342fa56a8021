/* cmd_run.c - cadenza run: text, ids or a request document in; text or JSON out. */
#include "cli/cmd_run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "base/json.h"
#include "base/write.h"
#include "cli/drafts.h"
#include "cli/places.h"

enum {
    OPT_FILE = CDZ_OPT_OWN,
    OPT_IDS,
    OPT_REQUEST,
    OPT_INPUT,
    OPT_OUTPUT,
    OPT_OUTPUTS,
    OPT_JSON,
    OPT_STREAM,
    OPT_NO_STREAM,
    OPT_MESSAGES,
    OPT_INTERACTIVE,
    OPT_SYSTEM,
    OPT_RESUME
};

static const cdz_flag flags[] = {
    {"prompt", 'p', 'p', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT", "continue this text"},
    {"file", 'f', OPT_FILE, CDZ_FLAG_ONCE, "FILE",
     "continue the text in a file; - is standard input"},
    {"system", 0, OPT_SYSTEM, CDZ_FLAG_ONCE, "TEXT",
     "the prompt is a question: answer it by the model's chat template, after this system message"},
    {"messages", 0, OPT_MESSAGES, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "answer a conversation, by the model's chat template; FILE holds a JSON list of messages, "
     "or an object of \"messages\" and other variables of the template; - is standard input"},
    {"ids", 0, OPT_IDS, CDZ_FLAG_ONCE, "LIST", "continue these token ids, separated by commas"},
    {"request", 0, OPT_REQUEST, CDZ_FLAG_ONCE, "FILE",
     "a request document (JSON): prompt or prompt_ids, attention_mask, kwargs, seed, record; - is "
     "standard input"},
    {"input", 0, OPT_INPUT, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "many requests, one JSON object a line, run together"},
    {"output", 0, OPT_OUTPUT, CDZ_FLAG_ONCE, "FILE",
     "file for the answers to --input, one JSON object a line, in order; default: standard "
     "output; each is written when it and all before it are done"},
    {"resume", 0, OPT_RESUME, 0, NULL,
     "continue a run that was stopped: answer the requests after those that --output has "
     "answers to"},
    {"interactive", 0, OPT_INTERACTIVE, 0, NULL,
     "talk with the model: the same as `cadenza chat`, with -p as the first question"},
    {"json", 0, OPT_JSON, CDZ_FLAG_OFTEN, NULL,
     "one JSON object; it has text, ids, finish_reason, timings, and what was asked for"},
    {"stream", 0, OPT_STREAM, 0, NULL, "write the answer while it comes: the default"},
    {"no-stream", 0, OPT_NO_STREAM, 0, NULL, "write the answer when it is whole"},
    {"outputs", 0, OPT_OUTPUTS, CDZ_FLAG_ONCE, "FILE",
     "scores, logits, attentions and hidden states (what --output-attentions and the like ask for) as "
     "a .safetensors file, or as .npy files in the folder FILE/"},
    {0},
};

const cdz_page cdz_page_run = {
    .name = "run",
    .summary = "continue a prompt, or a file of them",
    .usage = "run [MODEL] [-p TEXT | --messages FILE | --request FILE | --input FILE] [options]\n",
    .about = "Continues a prompt; without one it reads standard input. MODEL is a model folder "
             "or a GGUF file; without it the shipped model runs. The answer is written while it "
             "is generated.",
    .flags = flags,
    .takes = CDZ_TAKES_ALL | CDZ_TAKES_TEXT | CDZ_TAKES_SHOW_PROMPT | CDZ_TAKES_DEV |
             CDZ_TAKES_PROFILE | CDZ_SHOWS_PARAMETERS,
    .examples =
        "cadenza run -p 'river (noun): a'\n"
        "cadenza run my-model --temperature 0.7 --top-p 0.9 --seed 1 -p 'music is'\n"
        "echo 'dog (noun):' | cadenza run --pipeline story.ini\n"
        "cadenza run --custom-generate org.cadenza.simple-sample -n 20 -p 'A dog is a kind of' --json\n"
        "cadenza run my-model --quantize q4_k -p 'Once upon a time'\n"
        "cadenza run --messages talk.json\n"
        "cadenza run --input prompts.jsonl --output answers.jsonl\n",
};

static void take_option(cdz_run_options *o, const cdz_args *a)
{
    switch (a->opt) {
    case 'p': o->prompt = a->value; break;
    case OPT_FILE: o->file = a->value; break;
    case OPT_IDS: o->ids = a->value; break;
    case OPT_REQUEST: o->request = a->value; break;
    case OPT_INPUT: o->input = a->value; break;
    case OPT_OUTPUT: o->output = a->value; break;
    case OPT_JSON: o->json = true; break;
    case OPT_STREAM: o->stream = true; break;
    case OPT_NO_STREAM: o->whole = true; break;
    case OPT_OUTPUTS: o->outputs = a->value; break;
    case OPT_MESSAGES: o->messages = a->value; break;
    case OPT_INTERACTIVE: o->interactive = true; break;
    case OPT_RESUME: o->resume = true; break;
    case OPT_SYSTEM: o->system = a->value; break;
    default: break;
    }
}

/* What does not go together; NULL: all does. */
static const char *clash(const cdz_run_options *o)
{
    const int prompts =
        !!o->prompt + !!o->file + !!o->ids + !!o->request + !!o->input + !!o->messages;
    if (prompts > 1) return "give only one of -p, --file, --messages, --ids, --request and --input";
    const bool document = o->ids || o->request || o->input || o->messages;
    if (o->system && document) return "--system goes with -p, --file or standard input";
    if (o->interactive && (document || o->file || o->json || o->outputs || o->output || o->shows))
        return "--interactive is a conversation; of these it takes -p and --system alone";
    if (o->outputs && o->input)
        return "--outputs holds one answer's tensors; it does not go with --input";
    if (o->output && !o->input) return "--output goes with --input";
    if (o->resume && !o->output)
        return "--resume goes with --input and --output, whose answers it keeps";
    if (o->stream && o->whole) return "--stream and --no-stream: give one of them";
    if (o->shows && (o->json || o->input))
        return "--stream-words, --show-prompt and --show-special say how text is written; --json and "
               "--input write JSON";
    if (o->shows & CDZ_STREAM_WORDS && o->whole)
        return "--stream-words writes text while it comes: it does not go with --no-stream";
    if (o->stream && (o->json || o->input))
        return "--stream writes text; --json and --input write JSON when an answer is whole";
    return NULL;
}

/* False: stop with *status. */
static bool take_options(int argc, char **argv, cdz_run_options *o, int *status)
{
    cdz_args a = cdz_args_of(&cdz_page_run, argc, argv, &o->common);
    while (cdz_args_next(&a)) take_option(o, &a);
    o->shows = o->common.host.request.stream;
    const bool good =
        !a.stopped && cdz_args_take_model(&a, &o->common.host.program.model) && cdz_args_end(&a);
    const char *wrong = good ? clash(o) : NULL;
    if (wrong) cdz_args_refuse(&a, "%s", wrong);
    *status = a.status;
    return !a.stopped;
}

/* --- the prompt ------------------------------------------------------------------------------------------- */

/* What one request is made of; owned. */
typedef struct prompt {
    char *text, *json;
    int32_t *ids;
    uint32_t n_ids;
} prompt;

static int parse_ids(const char *list, prompt *p)
{
    size_t max = strlen(list) / 2 + 1;
    p->ids = malloc(max * sizeof *p->ids);
    if (!p->ids) return CDZ_EXIT_FAILURE;
    const char *at = list;
    while (*at) {
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX || (*end && *end != ',') ||
            (*end == ',' && !end[1]))
            return cdz_cli_misuse("run", "--ids %s: expected token ids from 0, separated by commas",
                                  list);
        p->ids[p->n_ids++] = (int32_t)id;
        at = *end ? end + 1 : end;
    }
    return p->n_ids ? CDZ_EXIT_OK : cdz_cli_misuse("run", "--ids: expected at least one token id");
}

static int read_file(const char *path, char **text)
{
    cdz_error err = {0};
    size_t len;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rbe");
    if (!file) {
        cdz_cli_say("%s: cannot be opened: %s", path, strerror(errno));
        return CDZ_EXIT_FAILURE;
    }
    cdz_status status = cdz_cli_read_stream(file, path, (size_t)64 << 20, text, &len, &err);
    if (file != stdin) fclose(file);
    if (status != CDZ_OK) return cdz_cli_fail(&err);
    if (strlen(*text) != len) {
        cdz_cli_say("%s: holds a NUL byte at offset %zu; expected text", path, strlen(*text));
        return CDZ_EXIT_FAILURE;
    }
    return CDZ_EXIT_OK;
}

/* A list of messages, or an object as `cadenza template render` takes it, becomes a request document. */
static cdz_status wrap_messages(const char *text, const char *path, cdz_buf *out, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json given;
    cdz_status status = cdz_json_parse(text, strlen(text), path, NULL, &arena, &given, err);
    const bool list = status == CDZ_OK && given.type == CDZ_JSON_ARRAY;
    const cdz_json *messages = list               ? &given
                               : status == CDZ_OK ? cdz_json_get(&given, "messages")
                                                  : NULL;
    if (status == CDZ_OK && !messages)
        status = cdz_err(err, CDZ_E_INPUT,
                         "%s: expected a list of messages, or an object with \"messages\"", path);
    if (status == CDZ_OK) {
        cdz_buf_puts(out, "{\"messages\": ");
        cdz_json_write(out, messages);
        cdz_buf_puts(out, ", \"chat_template_kwargs\": {");
        const char *comma = "";
        for (uint32_t i = 0; !list && i < given.len; i++) {
            if (&given.members[i].value == messages) continue;
            cdz_buf_puts(out, comma);
            cdz_json_write_string(out, given.members[i].key, given.members[i].key_len);
            cdz_buf_puts(out, ": ");
            cdz_json_write(out, &given.members[i].value);
            comma = ", ";
        }
        cdz_buf_puts(out, "}}");
    }
    cdz_arena_free(&arena);
    return status;
}

static int read_messages(const char *path, prompt *p)
{
    cdz_error err = {0};
    cdz_buf request = {0};
    char *text = NULL;
    int status = read_file(path, &text);
    if (status == CDZ_EXIT_OK &&
        wrap_messages(text, strcmp(path, "-") == 0 ? "standard input" : path, &request, &err) !=
            CDZ_OK)
        status = cdz_cli_fail(&err);
    if (status == CDZ_EXIT_OK && !request.failed && request.data) p->json = strdup(request.data);
    if (status == CDZ_EXIT_OK && !p->json) {
        cdz_cli_say("out of memory for the conversation");
        status = CDZ_EXIT_FAILURE;
    }
    cdz_buf_free(&request);
    free(text);
    return status;
}

/* The newline that ends the last line of a pipe, terminal or file is not part of the prompt. */
static int read_text(const char *path, prompt *p)
{
    const int status = read_file(path, &p->text);
    const size_t len = status == CDZ_EXIT_OK ? strlen(p->text) : 0;
    if (len && p->text[len - 1] == '\n') p->text[len - 1] = '\0';
    return status;
}

/* The text read so far becomes a question of a conversation. */
static int wrap_question(const char *system, prompt *p)
{
    cdz_buf out = {0};
    cdz_buf_puts(&out, "{\"messages\": [{\"role\": \"system\", \"content\": ");
    cdz_json_write_string(&out, system, strlen(system));
    cdz_buf_puts(&out, "}, {\"role\": \"user\", \"content\": ");
    cdz_json_write_string(&out, p->text, strlen(p->text));
    cdz_buf_puts(&out, "}]}");
    if (!out.failed) p->json = strdup(out.data);
    cdz_buf_free(&out);
    free(p->text);
    p->text = NULL;
    if (p->json) return CDZ_EXIT_OK;
    cdz_cli_say("out of memory for the question");
    return CDZ_EXIT_FAILURE;
}

static int read_prompt(const cdz_run_options *o, prompt *p)
{
    if (o->ids) return parse_ids(o->ids, p);
    if (o->request) return read_file(o->request, &p->json);
    if (o->messages) return read_messages(o->messages, p);
    if (o->file) return read_text(o->file, p);
    if (o->prompt) {
        p->text = strdup(o->prompt);
        return p->text ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
    }
    if (isatty(STDIN_FILENO)) fputs("Type a prompt; Ctrl-D ends it.\n", stderr);
    return read_text("-", p);
}

static void free_prompt(prompt *p)
{
    free(p->text);
    free(p->json);
    free(p->ids);
}

/* --- running ------------------------------------------------------------------------------------------------ */

/* What the callback writes to. Rows after the first are printed at the end: two streams in one terminal are none. */
typedef struct stream {
    cdz_session *session;
    bool wrote, newline;
    bool keeps,
        whole;     /* rows as they were shown: with prompts or special tokens; the first one, too */
    cdz_buf *rows; /* (n_rows) */
    uint32_t n_rows;
    bool failed;
} stream;

/* The text of a row so far; NULL: out of memory. */
static cdz_buf *kept_row(stream *out, uint32_t row)
{
    if (row >= out->n_rows) {
        cdz_buf *grown = realloc(out->rows, (row + (size_t)1) * sizeof *grown);
        if (!grown) return NULL;
        memset(grown + out->n_rows, 0, (row + (size_t)1 - out->n_rows) * sizeof *grown);
        out->rows = grown;
        out->n_rows = row + 1;
    }
    return &out->rows[row];
}

static void on_event(void *user, const cdz_event *event)
{
    stream *out = user;
    if (event->kind != CDZ_EVENT_TOKENS || !event->text[0]) return;
    if (event->row > 0 || out->whole) {
        cdz_buf *row = out->keeps ? kept_row(out, event->row) : NULL;
        if (row) cdz_buf_puts(row, event->text);
        out->failed |= out->keeps && (!row || row->failed);
        return;
    }
    cdz_session_put_text(out->session, event->text);
    out->wrote = true;
    out->newline = event->text[strlen(event->text) - 1] == '\n';
}

static void free_stream(stream *out)
{
    for (uint32_t r = 0; r < out->n_rows; r++) cdz_buf_free(&out->rows[r]);
    free(out->rows);
}

static const char *row_text(const cdz_result *result, const stream *out, uint32_t row)
{
    if (!out->keeps) return cdz_result_text(result, row);
    return row < out->n_rows && out->rows[row].data ? out->rows[row].data : "";
}

typedef struct cancellation {
    cdz_runtime *runtime;
    uint64_t id;
} cancellation;

static void cancel(void *user)
{
    cancellation *c = user;
    cdz_cancel(c->runtime, c->id, NULL);
}

/* As --ids takes them. */
static void print_ids(const cdz_result *result)
{
    for (uint32_t r = 0; r < cdz_result_rows(result); r++) {
        uint32_t n;
        const int32_t *ids = cdz_result_ids(result, r, &n);
        if (r) puts("---");
        for (uint32_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
        putchar('\n');
    }
}

/* Without a tokenizer a row has no text. */
static void print_rows(const cdz_result *result, const stream *out)
{
    if (!cdz_run_model_tokenizer(out->session->model->run)) {
        print_ids(result);
        return;
    }
    if (out->whole) printf("%s\n", row_text(result, out, 0));
    if (out->wrote && !out->newline) cdz_session_put_text(out->session, "\n");
    for (uint32_t r = 1; r < cdz_result_rows(result); r++)
        printf("---\n%s\n", row_text(result, out, r));
}

/* What drafting was worth, on the terminal: rounds are passes of the model. */
static void print_rounds(const cdz_result *result)
{
    const cdz_outcome *o = result->outcome;
    unsigned long long n = 0, proposed = 0, accepted = 0;
    for (uint32_t i = 0; i < o->n_results; i++) {
        const cdz_named_result *r = &o->results[i];
        if (strncmp(r->name, "rounds", 6) != 0 || (r->name[6] && r->name[6] != '['))
            continue; /* "rounds", "rounds[ROW]" */
        for (uint64_t k = 0; k < r->shape[0]; k++, n++) {
            proposed += (unsigned long long)((const int64_t *)r->data)[2 * k];
            accepted += (unsigned long long)((const int64_t *)r->data)[2 * k + 1];
        }
    }
    if (n == 0) return;
    fflush(stdout); /* the answer first, where both go to one place */
    cdz_cli_say("%u tokens in %llu rounds: %llu proposed, %llu accepted", o->n_new_tokens, n,
                proposed, accepted);
}

/* The pipeline that a document has as an object, in place of the command's. A file that it names would be another than the one
 * that was opened. */
static cdz_status open_pipeline(const cdz_session *session, const cdz_cli_options *options,
                                const cdz_json *document, cdz_pipeline **out, cdz_error *err)
{
    const cdz_json *pipeline = cdz_json_get(document, "pipeline");
    if (cdz_json_is(pipeline, CDZ_JSON_OBJECT))
        return cdz_session_written_pipeline(session, options, pipeline, out, err);
    if (!cdz_json_is(pipeline, CDZ_JSON_STRING)) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE,
                   "request: \"pipeline\" as a file is a field of lines of --input; beside --request "
                   "give --pipeline FILE");
}

/* What a request document names: a draft model, and a pipeline of its own, which is to be freed. */
static cdz_status open_named(const cdz_session *session, const cdz_cli_options *options,
                             const char *json, cdz_drafts *drafts, cdz_request *request,
                             cdz_pipeline **own, cdz_error *err)
{
    cdz_arena arena = {0};
    cdz_json document;
    if (!json) return CDZ_OK;
    cdz_status status = cdz_json_parse(json, strlen(json), "request", NULL, &arena, &document, err);
    if (status == CDZ_OK) status = open_pipeline(session, options, &document, own, err);
    if (*own) request->pipeline = *own;
    if (status == CDZ_OK)
        status = cdz_drafts_open(drafts, session->runtime, &document, session->folder,
                                 &request->assistant, err);
    cdz_arena_free(&arena);
    return status;
}

/* Will the outputs have a place? Better said before the answer than after it. A folder may have to be made. */
static int check_outputs(const cdz_run_options *o)
{
    const char *path = o->outputs, *const others[] = {o->request, o->messages};
    struct stat s;
    cdz_error err = {0};
    const size_t n = path ? strlen(path) : 0;
    if (n == 0) return CDZ_EXIT_OK;
    if (path[n - 1] == '/' || (stat(path, &s) == 0 && S_ISDIR(s.st_mode))) return CDZ_EXIT_OK;
    cdz_status st = cdz_cli_check_place(&o->common, path, others, 2, &err);
    if (st == CDZ_OK) st = cdz_write_may(path, 0, &err);
    return st == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

static int run_one(const cdz_run_options *o, cdz_session *session)
{
    prompt p = {0};
    stream out = {.session = session,
                  .whole = o->whole,
                  .keeps = (o->shows & (CDZ_STREAM_PROMPT | CDZ_STREAM_SPECIAL)) != 0};
    cdz_drafts drafts = {0};
    cdz_arena arena = {0};
    int status = check_outputs(o);
    if (status == CDZ_EXIT_OK) status = read_prompt(o, &p);
    if (status == CDZ_EXIT_OK && o->system && p.text) status = wrap_question(o->system, &p);
    if (status != CDZ_EXIT_OK) {
        free_prompt(&p);
        cdz_arena_free(&arena);
        return status;
    }
    cdz_request request = cdz_session_request(session, &o->common);
    request.prompt = p.text;
    request.ids = p.ids;
    request.n_ids = p.n_ids;
    request.json = p.json;
    request.inputs_dir = cdz_cli_folder_of(o->request, &arena);
    request.on_event = o->json || (o->whole && !out.keeps) ? NULL : on_event;
    request.user = &out;
    cdz_error err = {0};
    cdz_result *result = NULL;
    cancellation c = {.runtime = session->runtime};
    cdz_pipeline *own = NULL;
    cdz_status run = open_named(session, &o->common, p.json, &drafts, &request, &own, &err);
    if (run == CDZ_OK) run = cdz_submit(session->runtime, &request, &c.id, &err);
    if (run == CDZ_OK) {
        cdz_cli_on_interrupt(cancel, &c);
        run = cdz_wait(session->runtime, c.id, &result, &err);
        cdz_cli_on_interrupt(NULL, NULL);
    }
    if (result && o->outputs && run == CDZ_OK) run = cdz_result_save(result, o->outputs, &err);
    if (result && o->json) puts(cdz_result_json(result));
    if (out.failed && run == CDZ_OK) run = cdz_err_memory(&err, "the text");
    if (result && !o->json) print_rows(result, &out);
    if (result && !o->json) print_rounds(result);
    if (result && !o->json) cdz_cli_say_warnings(&o->common, result);
    if (run == CDZ_E_DEADLINE && result) run = CDZ_OK; /* --timeout: the answer is what it has */
    if (run != CDZ_OK) cdz_cli_as_typed(&o->common, &err);
    status = run == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
    cdz_result_free(result);
    cdz_drafts_close(&drafts);
    if (own) cdz_session_free_pipeline(session, own);
    free_stream(&out);
    free_prompt(&p);
    cdz_arena_free(&arena);
    return status;
}

int cdz_cmd_run(int argc, char **argv)
{
    cdz_run_options o = {0};
    cdz_session session;
    int status;
    if (!take_options(argc, argv, &o, &status)) {
        cdz_cli_options_free(&o.common);
        return status;
    }
    if (o.interactive) {
        status = cdz_cli_chat(&o.common, o.system, o.prompt);
    } else {
        status = cdz_session_open(&o.common, &session);
        if (status == CDZ_EXIT_OK) {
            status = o.input ? cdz_cli_run_batch(&o, &session) : run_one(&o, &session);
            if (o.common.host.options.profile) cdz_session_say_profile(&session);
            cdz_session_close(&session);
        }
    }
    cdz_cli_options_free(&o.common);
    return status;
}
