/* cmd_template.c - cadenza template: a chat template rendered with a context, as text or line by line. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "template/chat.h"

enum { OPT_CONTEXT = CDZ_OPT_OWN, OPT_NAME, OPT_JSONL };

static const cdz_flag flags[] = {
    {"context", 0, OPT_CONTEXT, CDZ_FLAG_ONCE, "FILE.json", "the context; - is standard input"},
    {"name", 0, OPT_NAME, CDZ_FLAG_ONCE, "NAME",
     "the template to render, if a model has "
     "several"},
    {"jsonl", 0, OPT_JSONL, 0, NULL,
     "one context a line from standard input; for each one line of output: a JSON string, or "
     "{\"error\": TEXT}"},
    {0},
};

const cdz_page cdz_page_template = {
    .name = "template",
    .summary = "render a chat template",
    .usage = "template render [MODEL|FILE.jinja] --context FILE.json [options]\n",
    .about =
        "Prints a chat template's text exactly, with no newline added. MODEL is a folder or a "
        "GGUF file; without it: the shipped one. The context is a JSON object: \"messages\" and "
        "everything else by name (\"tools\", \"documents\", \"add_generation_prompt\", "
        "\"continue_final_message\", ...). \"clock\" in it, such as \"2026-01-15T12:34:56\", is "
        "the current time for the template. A model's special tokens are defined unless the "
        "context defines them.",
    .flags = flags,
    .takes = CDZ_TAKES_MODEL,
    .examples =
        "cadenza template render my-model --context talk.json\n"
        "cadenza template render chat_template.jinja --context talk.json\n"
        "echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | cadenza template render "
        "--jsonl\n",
};

enum { MAX_CONTEXT_BYTES = 256 << 20 };

typedef struct template_job {
    cdz_cli_options common;
    const char *path, *context, *name;
    bool jsonl;
    cdz_chat_template *chat;
    cdz_arena arena;
    cdz_buf text, line;
} template_job;

/* --- one context ---------------------------------------------------------------------------------- */

/* The text of one context goes to job->text. source: its file, for sentences. */
static cdz_status render(template_job *job, const char *json, size_t len, const char *source,
                         cdz_error *err)
{
    const cdz_json_limits limits = {.depth = 1000};
    cdz_json context;
    cdz_buf_clear(&job->text);
    cdz_arena_reset(&job->arena);
    CDZ_TRY(cdz_json_parse(json, len, source, &limits, &job->arena, &context, err));
    const cdz_json *tools = cdz_json_get(&context, "tools");
    const bool has_tools = tools && !cdz_json_is(tools, CDZ_JSON_NULL);
    CDZ_TRY(cdz_chat_template_choose(job->chat, job->name, has_tools, err));
    return cdz_chat_template_render(job->chat, &context, NULL, &job->text, err);
}

static cdz_status write_out(const cdz_buf *buf, cdz_error *err)
{
    if (buf->failed) return cdz_err_memory(err, "the text");
    if (buf->len) (void)fwrite(buf->data, 1, buf->len, stdout); /* checked at the program's end */
    return CDZ_OK;
}

static cdz_status render_one(template_job *job, cdz_error *err)
{
    const bool standard = strcmp(job->context, "-") == 0;
    const char *source = standard ? "standard input" : job->context;
    FILE *file = standard ? stdin : fopen(job->context, "rbe");
    char *json = NULL;
    size_t len = 0;
    if (!file) return cdz_err(err, CDZ_E_IO, "%s: %s", job->context, strerror(errno));
    cdz_status status = cdz_cli_read_stream(file, source, MAX_CONTEXT_BYTES, &json, &len, err);
    if (!standard) fclose(file);
    if (status == CDZ_OK) status = render(job, json, len, source, err);
    if (status == CDZ_OK) status = write_out(&job->text, err);
    free(json);
    return status;
}

/* --- a context a line ------------------------------------------------------------------------------ */

static cdz_status answer_line(template_job *job, const char *json, size_t len, cdz_error *err)
{
    cdz_error wrong = {0};
    cdz_buf_clear(&job->line);
    if (render(job, json, len, "context", &wrong) == CDZ_OK) {
        cdz_json_write_string(&job->line, job->text.len ? job->text.data : "", job->text.len);
    } else {
        cdz_buf_puts(&job->line, "{\"error\": ");
        cdz_json_write_string(&job->line, wrong.text, strlen(wrong.text));
        cdz_buf_putc(&job->line, '}');
    }
    cdz_buf_putc(&job->line, '\n');
    return write_out(&job->line, err);
}

static cdz_status render_lines(template_job *job, cdz_error *err)
{
    cdz_cli_lines lines = {.in = stdin, .name = "standard input"};
    cdz_status status = CDZ_OK;
    for (bool some = true; status == CDZ_OK && some && !ferror(stdout);) {
        status = cdz_cli_next_line(&lines, &some, err);
        if (status != CDZ_OK || !some) break;
        status = answer_line(job, lines.line, lines.len, err);
        fflush(stdout); /* a reader may wait for this line before it writes the next */
    }
    free(lines.line);
    return status;
}

/* --- options ---------------------------------------------------------------------------------------- */

static int run_job(template_job *job)
{
    cdz_error err = {0};
    char path[4096];
    const char *where = cdz_cli_model_folder(&job->common.host.program, job->path, CDZ_NEED_TEXTS,
                                             path, sizeof path);
    if (!where) return CDZ_EXIT_FAILURE;
    cdz_status status = cdz_chat_template_open(where, &job->chat, &err);
    /* A template that does not compile is told once, not once a line. */
    if (status == CDZ_OK && (job->name || job->jsonl))
        status = cdz_chat_template_choose(job->chat, job->name, true, &err);
    if (status == CDZ_OK) status = job->jsonl ? render_lines(job, &err) : render_one(job, &err);
    cdz_chat_template_free(job->chat);
    cdz_arena_free(&job->arena);
    cdz_buf_free(&job->text);
    cdz_buf_free(&job->line);
    return status == CDZ_OK ? CDZ_EXIT_OK : cdz_cli_fail(&err);
}

static void check_words(cdz_args *a, template_job *job)
{
    const char *verb = cdz_args_word(a);
    if (!verb || strcmp(verb, "render") != 0) {
        cdz_args_refuse_verb(a, "'render'", verb);
        return;
    }
    if (!cdz_args_take_model(a, &job->path)) return;
    const char *more = cdz_args_word(a);
    if (more)
        cdz_args_refuse(a, "unexpected argument '%s'", more);
    else if (job->jsonl == (job->context != NULL))
        cdz_args_refuse(a, "give either --context FILE.json or --jsonl");
}

int cdz_cmd_template(int argc, char **argv)
{
    template_job job = {0};
    cdz_args a = cdz_args_of(&cdz_page_template, argc, argv, &job.common);
    while (cdz_args_next(&a)) {
        if (a.opt == OPT_CONTEXT) job.context = a.value;
        if (a.opt == OPT_NAME) job.name = a.value;
        if (a.opt == OPT_JSONL) job.jsonl = true;
    }
    if (!a.stopped) check_words(&a, &job);
    const int status = a.stopped ? a.status : run_job(&job);
    cdz_cli_options_free(&job.common);
    return status;
}
