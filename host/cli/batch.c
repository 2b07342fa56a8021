/* batch.c - cadenza run --input: hundreds of requests, decoded together, answered in order.
 *
 * A window of requests is in flight. One thread reads lines and submits them, another waits for the oldest answer and
 * writes it at once: line i is out when 1 to i are done, however long the next line of a pipe takes to come. A line that is
 * wrong, or a request that fails, gives {"error": ...} in its place and exit status 1 at the end. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/write.h"
#include "cli/cmd_run.h"
#include "cli/drafts.h"
#include "cli/places.h"

enum { WINDOW = 512 };

typedef struct slot {
    uint64_t id; /* of the request; 0: refused, see error */
    char *error; /* the sentence of a line that was refused */
} slot;

typedef struct batch {
    const cdz_run_options *options;
    cdz_session *session;
    FILE *in, *out;
    slot slots[WINDOW]; /* ring: [done, submitted) are in flight */
    uint64_t submitted, done, failed, n_lines;
    uint64_t n_kept;              /* answers that an earlier run wrote: --resume */
    bool no_more;                 /* every line is submitted */
    int write_errno;              /* of the first answer that could not be written */
    cdz_pipeline_cache pipelines; /* that lines name, by their paths, or have, by their texts */
    cdz_drafts drafts;
    cdz_mutex lock; /* of the ring: the reader's, the writer's and the interrupt's thread use it */
    pthread_cond_t moved; /* an answer was written, or a line submitted */
    bool stop;            /* interrupted, or nothing can be written: submit no more */
    bool show_progress;
    double shown_at, began_at;
} batch;

/* --- progress ----------------------------------------------------------------------------------------------- */

/* [the writer's thread] */
static void show_progress(batch *b, bool last)
{
    enum { WIDTH = 30 };
    if (!b->show_progress || (!last && cdz_now_s() - b->shown_at < 0.1)) return;
    b->shown_at = cdz_now_s();
    const double passed = b->shown_at - b->began_at;
    const uint64_t done = b->n_kept + b->done;
    fputc('\r', stderr);
    if (b->n_lines) {
        int filled = (int)(done * WIDTH / b->n_lines);
        char bar[WIDTH + 1];
        for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '#' : '.';
        bar[WIDTH] = '\0';
        fprintf(stderr, "[%s] %llu of %llu", bar, (unsigned long long)done,
                (unsigned long long)b->n_lines);
    } else {
        fprintf(stderr, "%llu answers", (unsigned long long)done);
    }
    if (passed > 1 && b->done) fprintf(stderr, ", %.1f a second\033[K", (double)b->done / passed);
    if (last) fputc('\n', stderr);
    fflush(stderr);
}

/* Lines of a regular file, for the bar; 0 when they cannot be counted. */
static uint64_t count_lines(FILE *in)
{
    if (fseek(in, 0, SEEK_END) != 0 || ftell(in) <= 0 || fseek(in, 0, SEEK_SET) != 0) return 0;
    uint64_t n = 0;
    bool blank = true;
    for (int c; (c = getc(in)) != EOF;) {
        if (c == '\n') {
            n += !blank;
            blank = true;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            blank = false;
        }
    }
    rewind(in);
    return n + !blank;
}

/* --- submitting --------------------------------------------------------------------------------------------- */

/* "f" and a file's path, or "t" and the text that an object comes to. */
static cdz_status put_key(const cdz_json *pipeline, cdz_buf *out, cdz_error *err)
{
    const bool written = pipeline->type == CDZ_JSON_OBJECT;
    cdz_buf_putc(out, written ? 't' : 'f');
    if (written) CDZ_TRY(cdz_pipeline_text(pipeline, out, err));
    if (!written) cdz_buf_puts(out, pipeline->string);
    return out->failed ? cdz_err(err, CDZ_E_NOMEM, "out of memory") : CDZ_OK;
}

static cdz_status make_pipeline(const batch *b, const cdz_json *pipeline, cdz_pipeline **out,
                                cdz_error *err)
{
    const cdz_cli_options *common = &b->options->common;
    if (pipeline->type == CDZ_JSON_OBJECT)
        return cdz_session_written_pipeline(b->session, common, pipeline, out, err);
    return cdz_session_pipeline(b->session, common, pipeline->string, out, err);
}

static cdz_status find_or_make(batch *b, const cdz_json *pipeline, const cdz_buf *key,
                               cdz_pipeline **out, cdz_error *err)
{
    *out = cdz_pipeline_cache_find(&b->pipelines, key->data, key->len);
    if (*out) return CDZ_OK;
    CDZ_TRY(make_pipeline(b, pipeline, out, err));
    cdz_pipeline_cache_keep(&b->pipelines, key->data, key->len, *out);
    return CDZ_OK;
}

/* [any thread] What --dev watches is watched no more. */
static void let_go(void *session, cdz_pipeline *pipeline)
{
    cdz_session_free_pipeline(session, pipeline);
}

/* The pipeline that a line asks for, held (cdz_pipeline_free); NULL: the command's. */
static cdz_status line_pipeline(batch *b, const cdz_json *document, cdz_pipeline **out,
                                cdz_error *err)
{
    const cdz_json *pipeline = cdz_json_get(document, "pipeline");
    cdz_buf key = {0};
    if (!pipeline || pipeline->type == CDZ_JSON_NULL) return CDZ_OK;
    if (pipeline->type != CDZ_JSON_STRING && pipeline->type != CDZ_JSON_OBJECT)
        return cdz_err(err, CDZ_E_USAGE,
                       "\"pipeline\" must be the path of an ini file or an object of its sections, "
                       "found %s",
                       cdz_json_type_name(pipeline));
    cdz_status status = put_key(pipeline, &key, err);
    if (status == CDZ_OK) status = find_or_make(b, pipeline, &key, out, err);
    cdz_buf_free(&key);
    return status;
}

static cdz_status open_draft(batch *b, const cdz_json *document, cdz_model **out, cdz_error *err)
{
    return cdz_drafts_open(&b->drafts, b->session->runtime, document, b->session->folder, out, err);
}

/* A file of plain texts is told what lines look like. */
static cdz_status check_line(const char *line, const char *name, cdz_error *err)
{
    const char *start = line + strspn(line, " \t\r\n");
    if (*start == '{') return CDZ_OK;
    return cdz_err(err, CDZ_E_INPUT,
                   "%s: each line is a JSON object such as {\"prompt\": \"music is\"}; found '%.*s'",
                   name, (int)strcspn(start, " \t\r\n"), start);
}

static cdz_status submit_line(batch *b, const char *line, size_t len, uint64_t line_number,
                              uint64_t *id, cdz_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "line %llu", (unsigned long long)line_number);
    cdz_arena arena = {0};
    cdz_json document;
    cdz_pipeline *pipeline = NULL;
    cdz_status status = check_line(line, name, err);
    if (status == CDZ_OK) status = cdz_json_parse(line, len, name, NULL, &arena, &document, err);
    if (status == CDZ_OK) {
        status = line_pipeline(b, &document, &pipeline, err);
        if (status == CDZ_OK) {
            cdz_request request = cdz_session_request(b->session, &b->options->common);
            request.pipeline = pipeline ? pipeline : b->session->pipeline;
            request.json = line;
            request.inputs_dir = cdz_cli_folder_of(b->options->input, &arena);
            status = open_draft(b, &document, &request.assistant, err);
            if (status == CDZ_OK) status = cdz_submit(b->session->runtime, &request, id, err);
        }
        if (status != CDZ_OK) cdz_err_prefix(err, "%s", name);
    }
    cdz_pipeline_free(pipeline);
    cdz_arena_free(&arena);
    return status;
}

/* --- answers -------------------------------------------------------------------------------------------------- */

static void write_error(batch *b, const char *sentence)
{
    cdz_buf buf = {0};
    cdz_buf_puts(&buf, "{\"error\": ");
    cdz_json_write_string(&buf, sentence, strlen(sentence));
    cdz_buf_puts(&buf, "}\n");
    if (!buf.failed) fputs(buf.data, b->out);
    cdz_buf_free(&buf);
    b->failed++;
}

static void write_answer(batch *b, const slot *s)
{
    if (s->id == 0) {
        write_error(b, s->error ? s->error : "out of memory");
        return;
    }
    cdz_error err = {0};
    cdz_result *result = NULL;
    cdz_status status = cdz_wait(b->session->runtime, s->id, &result, &err);
    if (result)
        fprintf(b->out, "%s\n", cdz_result_json(result));
    else
        write_error(b, err.text);
    if (result && status != CDZ_OK && status != CDZ_E_DEADLINE) b->failed++;
    cdz_result_free(result);
}

/* Under the lock: no more lines, and what runs ends with what it has. */
static void stop_all(batch *b)
{
    b->stop = true;
    for (uint64_t i = b->done; i < b->submitted; i++) {
        slot *s = &b->slots[i % WINDOW];
        if (s->id) cdz_cancel(b->session->runtime, s->id, NULL);
    }
    pthread_cond_broadcast(&b->moved);
}

/* The oldest slot, waiting for one; false: there will be none. */
static bool oldest(batch *b, slot *out)
{
    cdz_mutex_lock(&b->lock);
    while (b->done == b->submitted && !b->no_more) cdz_mutex_wait(&b->lock, &b->moved, NULL);
    const bool any = b->done < b->submitted;
    if (any) *out = b->slots[b->done % WINDOW];
    cdz_mutex_unlock(&b->lock);
    return any;
}

static void drop_oldest(batch *b)
{
    cdz_mutex_lock(&b->lock);
    slot *s = &b->slots[b->done % WINDOW];
    free(s->error);
    *s = (slot){0};
    b->done++;
    pthread_cond_broadcast(&b->moved);
    cdz_mutex_unlock(&b->lock);
}

/* Where an answer cannot be written, more of them are worth nothing. */
static void stop_writing(batch *b)
{
    cdz_mutex_lock(&b->lock);
    if (b->write_errno == 0) {
        b->write_errno = errno ? errno : EIO;
        stop_all(b);
    }
    cdz_mutex_unlock(&b->lock);
}

static void *write_answers(void *user)
{
    batch *b = user;
    slot s;
    while (oldest(b, &s)) {
        write_answer(b, &s);
        if (fflush(b->out) != 0 || ferror(b->out)) stop_writing(b);
        drop_oldest(b);
        show_progress(b, false);
    }
    return NULL;
}

/* Ctrl-C. [the interrupt's thread] */
static void stop_batch(void *user)
{
    batch *b = user;
    cdz_mutex_lock(&b->lock);
    stop_all(b);
    cdz_mutex_unlock(&b->lock);
}

static void add_slot(batch *b, const char *line, size_t len, uint64_t line_number)
{
    cdz_error err = {0};
    slot s = {0};
    if (submit_line(b, line, len, line_number, &s.id, &err) != CDZ_OK) {
        s.id = 0;
        s.error = strdup(err.text);
    }
    cdz_mutex_lock(&b->lock);
    b->slots[b->submitted % WINDOW] = s;
    b->submitted++;
    if (b->stop && s.id) cdz_cancel(b->session->runtime, s.id, NULL);
    pthread_cond_broadcast(&b->moved);
    cdz_mutex_unlock(&b->lock);
}

/* Waits for room in the window; false: stopped. */
static bool has_room(batch *b)
{
    cdz_mutex_lock(&b->lock);
    while (!b->stop && b->submitted - b->done == WINDOW) cdz_mutex_wait(&b->lock, &b->moved, NULL);
    const bool go_on = !b->stop;
    cdz_mutex_unlock(&b->lock);
    return go_on;
}

static bool stopped(batch *b)
{
    cdz_mutex_lock(&b->lock);
    bool stop = b->stop;
    cdz_mutex_unlock(&b->lock);
    return stop;
}

static cdz_status submit_lines(batch *b, cdz_error *err)
{
    const bool standard = b->in == stdin;
    cdz_cli_lines lines = {.in = b->in, .name = standard ? "standard input" : b->options->input};
    uint64_t n_requests = 0;
    cdz_status status = CDZ_OK;
    for (bool some; !stopped(b);) {
        status = cdz_cli_next_line(&lines, &some, err);
        if (status != CDZ_OK || !some) break;
        if (strspn(lines.line, " \t\r") == lines.len || n_requests++ < b->n_kept) continue;
        if (!has_room(b)) break;
        add_slot(b, lines.line, lines.len, lines.number);
    }
    free(lines.line);
    if (status == CDZ_OK && n_requests < b->n_kept && !stopped(b))
        status = cdz_err(err, CDZ_E_INPUT,
                         "%s has %llu answers, %s only %llu requests: --resume continues a run of "
                         "the same requests",
                         b->options->output, (unsigned long long)b->n_kept, b->options->input,
                         (unsigned long long)n_requests);
    return status;
}

static cdz_status run_lines(batch *b, cdz_error *err)
{
    pthread_t writer;
    if (pthread_create(&writer, NULL, write_answers, b) != 0)
        return cdz_err(err, CDZ_E_NOMEM, "no thread could be made to write the answers");
    const cdz_status status = submit_lines(b, err);
    cdz_mutex_lock(&b->lock);
    b->no_more = true;
    pthread_cond_broadcast(&b->moved);
    cdz_mutex_unlock(&b->lock);
    pthread_join(writer, NULL);
    return status;
}

/* --- resuming --------------------------------------------------------------------------------------------------- */

static bool is_cancelled(const cdz_json *reason)
{
    return reason->type == CDZ_JSON_STRING && strcmp(reason->string, "cancelled") == 0;
}

/* An answer that another run need not give again: an object, and no row of it was cancelled. */
static bool is_answer(const char *line, size_t len)
{
    cdz_arena arena = {0};
    cdz_json answer;
    cdz_error err = {0};
    bool good = cdz_json_parse(line, len, "answer", NULL, &arena, &answer, &err) == CDZ_OK &&
                answer.type == CDZ_JSON_OBJECT;
    const cdz_json *reason = good ? cdz_json_get(&answer, "finish_reason") : NULL;
    if (reason && is_cancelled(reason)) good = false;
    for (uint32_t i = 0; reason && reason->type == CDZ_JSON_ARRAY && i < reason->len; i++)
        if (is_cancelled(&reason->items[i])) good = false;
    cdz_arena_free(&arena);
    return good;
}

/* Answers may hold scores of every step. */
#define ANSWER_BYTES ((size_t)1 << 30)

/* Counts the answers that stand in the output, and cuts off what follows them. */
static cdz_status keep_answers(batch *b, cdz_error *err)
{
    const char *path = b->options->output;
    cdz_cli_lines lines = {.in = b->out, .name = path, .max = ANSWER_BYTES};
    off_t end = 0;
    cdz_status status;
    rewind(b->out);
    for (bool some; (status = cdz_cli_next_line(&lines, &some, err)) == CDZ_OK && some &&
                    lines.ended && is_answer(lines.line, lines.len);
         end += (off_t)lines.len + 1)
        b->n_kept++;
    free(lines.line);
    CDZ_TRY(status);
    if (fseeko(b->out, end, SEEK_SET) != 0 || ftruncate(fileno(b->out), end) != 0)
        return cdz_err(err, CDZ_E_IO, "%s: its answers cannot be kept: %s", path, strerror(errno));
    return CDZ_OK;
}

/* --- the files -------------------------------------------------------------------------------------------------- */

/* Answers are written as they come, for who follows the file. */
static cdz_status open_output(batch *b, cdz_error *err)
{
    const char *path = b->options->output;
    const int input = fileno(b->in);
    b->out = stdout;
    if (!path) return CDZ_OK;
    CDZ_TRY(cdz_cli_check_place(&b->options->common, path, NULL, 0, err));
    CDZ_TRY(cdz_write_grow(path, b->options->resume, &input, 1, &b->out, err));
    return b->out == stdout || !b->options->resume ? CDZ_OK : keep_answers(b, err);
}

static int open_files(batch *b)
{
    const cdz_run_options *o = b->options;
    cdz_error err = {0};
    b->in = strcmp(o->input, "-") == 0 ? stdin : fopen(o->input, "rbe");
    if (!b->in) {
        cdz_cli_say("%s: cannot be opened: %s", o->input, strerror(errno));
        return CDZ_EXIT_FAILURE;
    }
    if (open_output(b, &err) != CDZ_OK) return cdz_cli_fail(&err);
    b->show_progress = isatty(STDERR_FILENO) &&
                       !(b->out == stdout ? isatty(STDOUT_FILENO) : isatty(fileno(b->out)));
    if (b->show_progress) b->n_lines = count_lines(b->in);
    b->began_at = cdz_now_s();
    return CDZ_EXIT_OK;
}

static int close_files(batch *b)
{
    if (b->in && b->in != stdin) fclose(b->in);
    /* Standard output is told of at the program's end, as every command's. */
    const bool own = b->out && b->out != stdout;
    if (own && fclose(b->out) != 0 && !b->write_errno) b->write_errno = errno;
    if (own && b->write_errno)
        cdz_cli_say("%s: cannot be written: %s", b->options->output, strerror(b->write_errno));
    return b->write_errno ? CDZ_EXIT_FAILURE : CDZ_EXIT_OK;
}

int cdz_cli_run_batch(const cdz_run_options *options, cdz_session *session)
{
    batch *b = calloc(1, sizeof *b);
    if (!b) return CDZ_EXIT_FAILURE;
    b->options = options;
    b->session = session;
    cdz_mutex_init(&b->lock);
    pthread_cond_init(&b->moved, NULL);
    cdz_pipeline_cache_open(&b->pipelines, CDZ_PIPELINE_CACHE_BYTES, let_go, session);
    cdz_error err = {0};
    int status = open_files(b);
    if (status == CDZ_EXIT_OK) {
        cdz_cli_on_interrupt(stop_batch, b);
        if (run_lines(b, &err) != CDZ_OK) status = cdz_cli_fail(&err);
        cdz_cli_on_interrupt(NULL, NULL);
        show_progress(b, true);
    }
    int closed = close_files(b);
    if (status == CDZ_EXIT_OK) status = closed;
    if (status == CDZ_EXIT_OK && b->stop) status = CDZ_EXIT_INTERRUPTED;
    if (b->stop && !b->write_errno && b->options->output)
        cdz_cli_say("--resume goes on where %s ends", b->options->output);
    if (b->failed && !b->write_errno) {
        cdz_cli_say("%llu of %llu requests failed; see \"error\" in their lines",
                    (unsigned long long)b->failed, (unsigned long long)b->done);
        if (status == CDZ_EXIT_OK) status = CDZ_EXIT_FAILURE;
    }
    cdz_pipeline_cache_close(&b->pipelines);
    cdz_drafts_close(&b->drafts);
    pthread_cond_destroy(&b->moved);
    cdz_mutex_destroy(&b->lock);
    free(b);
    return status;
}
