/* cmd_lua.c - cadenza lua: statements of Lua in the ctx of a decode loop, from a terminal, a file, -e or a pipe.
 *
 * One request runs, whose strategy is the console (lua/console.h) on the engine's thread. The main thread reads and hands a
 * statement over; while it runs, the main thread waits, so that one writes at a time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/mutex.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "lua/console.h"

static const cdz_flag flags[] = {
    {"prompt", 'p', 'p', CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "TEXT",
     "the prompt that the row begins with; without it the model's start token, or a line end"},
    {"eval", 'e', 'e', CDZ_FLAG_OFTEN, "STATEMENT", "run this; may be repeated"},
    {"interactive", 'i', 'i', CDZ_FLAG_OFTEN, NULL, "read standard input after SCRIPT and -e"},
    {0},
};

const cdz_page cdz_page_lua = {
    .name = "lua",
    .summary = "try a model from Lua, statement by statement",
    .usage = "lua [MODEL] [SCRIPT.lua] [options]\n",
    .about =
        "Runs Lua inside a decode loop of MODEL, or of the shipped model: ctx has every function "
        "that strategies have. On a terminal, statements are read one by one and the values of "
        "expressions are shown; help() lists the functions. SCRIPT.lua and -e run first. "
        "Standard input is read if there is neither of them, or with -i.",
    .flags = flags,
    .takes = CDZ_TAKES_ALL,
    .examples = "cadenza lua\n"
                "cadenza lua -p 'river (noun): a' -e 'ctx:forward()'\n"
                "cadenza lua my-model explore.lua --pipeline story.ini\n"
                "echo \"ctx:encode('a river')\" | cadenza lua my-model\n",
};

typedef struct lua_options {
    cdz_cli_options common;
    const char *prompt, *script;
    const char **statements; /* of -e */
    uint32_t n_statements;
    bool interactive;
} lua_options;

/* --- handing statements over ---------------------------------------------------------------------------------------- */

typedef struct talk {
    cdz_mutex lock;
    pthread_cond_t changed;
    cdz_lua_statement statement;
    bool given, over;     /* there is a statement; there will be none any more */
    bool waiting;         /* the console wants one */
    cdz_lua_said said;    /* how the last one went */
    cdz_outcome *outcome; /* the request has ended */
    atomic_bool interrupted;
} talk;

/* [engine] */
static bool next(void *user, cdz_lua_said said, cdz_lua_statement *out)
{
    talk *t = user;

    fflush(stdout);
    cdz_mutex_lock(&t->lock);
    t->said = said;
    t->waiting = true;
    pthread_cond_broadcast(&t->changed);
    while (!t->given && !t->over) cdz_mutex_wait(&t->lock, &t->changed, NULL);
    const bool more = t->given;
    *out = t->statement;
    t->given = t->waiting = false;
    cdz_mutex_unlock(&t->lock);
    return more;
}

/* [engine] */
static void write_text(void *user, const char *text, size_t len)
{
    (void)user;
    fwrite(text, 1, len, stdout);
}

/* [engine] */
static void complain(void *user, const char *sentence)
{
    (void)user;
    fflush(stdout);
    fprintf(stderr, "%s\n", sentence);
}

/* [engine] */
static bool interrupted(void *user)
{
    return atomic_load_explicit(&((talk *)user)->interrupted, memory_order_relaxed);
}

/* [signal thread] */
static void interrupt(void *user)
{
    atomic_store(&((talk *)user)->interrupted, true);
}

/* [signal thread] Between statements there is nothing to end. */
static void let_pass(void *user)
{
    (void)user;
    cdz_cli_clear_interrupt();
}

/* [engine] */
static void on_done(void *user, cdz_outcome *outcome)
{
    talk *t = user;

    cdz_mutex_lock(&t->lock);
    t->outcome = outcome;
    pthread_cond_broadcast(&t->changed);
    cdz_mutex_unlock(&t->lock);
}

/* Until the console wants a statement, or the request has ended. False: ended. */
static bool wait_for_console(talk *t)
{
    cdz_mutex_lock(&t->lock);
    while (!t->waiting && !t->outcome) cdz_mutex_wait(&t->lock, &t->changed, NULL);
    const bool alive = !t->outcome;
    cdz_mutex_unlock(&t->lock);
    return alive;
}

static bool has_ended(talk *t)
{
    cdz_mutex_lock(&t->lock);
    const bool ended = t->outcome != NULL;
    cdz_mutex_unlock(&t->lock);
    return ended;
}

/* Runs a statement; how it went. */
static cdz_lua_said give(talk *t, cdz_lua_statement statement)
{
    if (!wait_for_console(t)) return CDZ_LUA_FAILED;
    atomic_store(&t->interrupted, false);
    cdz_cli_on_interrupt(interrupt, t);
    cdz_mutex_lock(&t->lock);
    t->statement = statement;
    t->given = true;
    t->waiting = false;
    pthread_cond_broadcast(&t->changed);
    cdz_mutex_unlock(&t->lock);
    const bool alive = wait_for_console(t);
    cdz_cli_on_interrupt(let_pass, NULL);
    cdz_cli_clear_interrupt();
    return alive ? t->said : CDZ_LUA_FAILED;
}

static void end_talk(talk *t)
{
    cdz_mutex_lock(&t->lock);
    t->over = true;
    pthread_cond_broadcast(&t->changed);
    while (!t->outcome) cdz_mutex_wait(&t->lock, &t->changed, NULL);
    cdz_mutex_unlock(&t->lock);
}

/* --- where statements come from -------------------------------------------------------------------------------------- */

static bool run_whole(talk *t, const char *text, size_t len, const char *name)
{
    return give(t, (cdz_lua_statement){text, len, name, true}) == CDZ_LUA_RAN;
}

static bool run_script(talk *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    cdz_error err = {0};
    char *text = NULL;
    size_t len;

    if (cdz_lua_read_text(path, &text, &len, &err) != CDZ_OK) {
        cdz_cli_fail(&err);
        return false;
    }
    const bool good = run_whole(t, text, len, slash ? slash + 1 : path);
    free(text);
    return good;
}

/* Whether all that there was has been read; says what was not. */
static bool readable(const cdz_line_reader *reader, const cdz_buf *text)
{
    cdz_error err = {0};
    if (cdz_line_reader_status(reader, &err) == CDZ_OK && text->len > CDZ_CLI_LINE_BYTES)
        cdz_err(&err, CDZ_E_LIMIT,
                "standard input: a statement is longer than the limit of %zu bytes",
                CDZ_CLI_LINE_BYTES);
    if (err.code != CDZ_OK) cdz_cli_fail(&err);
    return err.code == CDZ_OK;
}

/* Line by line, a statement as soon as it is whole. From a pipe the first mistake ends it. */
static bool run_lines(talk *t, bool terminal)
{
    cdz_line_reader *reader = cdz_line_reader_new("> ");
    cdz_buf text = {0};
    bool good = reader != NULL, open = false; /* a statement has begun */

    for (const char *line; good && (line = cdz_line_reader_next(reader)) != NULL;) {
        if (open) cdz_buf_putc(&text, '\n');
        cdz_buf_puts(&text, line);
        if (text.failed || text.len > CDZ_CLI_LINE_BYTES) break;
        if (!open && strspn(line, " \t") == strlen(line)) continue;
        const cdz_lua_said said = give(t, (cdz_lua_statement){text.data, text.len, "stdin", false});
        open = said == CDZ_LUA_INCOMPLETE;
        cdz_line_reader_ask(reader, open ? ">> " : "> ");
        if (!open) cdz_buf_clear(&text);
        if (has_ended(t)) break;
        good = terminal || said != CDZ_LUA_FAILED;
    }
    if (good && !readable(reader, &text)) good = false;
    if (good && open) good = run_whole(t, text.data, text.len, "stdin"); /* says what is missing */
    cdz_buf_free(&text);
    cdz_line_reader_free(reader);
    return good;
}

static int run_all(const lua_options *o, talk *t)
{
    const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    bool good = true;

    if (o->script) good = run_script(t, o->script);
    for (uint32_t i = 0; good && i < o->n_statements; i++)
        good = run_whole(t, o->statements[i], strlen(o->statements[i]), "-e");
    if (good && (o->interactive || (!o->script && o->n_statements == 0))) {
        if (terminal) puts("Lua in a decode loop; help() says what there is, Ctrl-D leaves.");
        good = run_lines(t, terminal);
        if (terminal) putchar('\n');
    }
    return good ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

/* --- the request ------------------------------------------------------------------------------------------------------ */

/* A row that only the person ends: as long as the model reads. */
static cdz_status prepare(const lua_options *o, const cdz_session *s,
                          const cdz_lua_console *console, cdz_job **out, cdz_error *err)
{
    cdz_prepare_input in = {
        .model = s->model->run,
        .assistant = s->assistant ? s->assistant->run : NULL,
        .assistant_generation = s->assistant ? &s->assistant->generation : NULL,
        .pipeline = s->pipeline,
        .chat = &s->model->chat,
        .model_generation = &s->model->generation,
        .prompt = o->prompt,
        .timeout_s = o->common.host.request.timeout_s,
    };
    cdz_prepared call;
    cdz_status st = cdz_prepare_job(&in, &call, NULL, err);
    if (st != CDZ_OK && !o->prompt) {
        in.prompt = "\n"; /* the model has no start token */
        st = cdz_prepare_job(&in, &call, NULL, err);
    }
    if (st != CDZ_OK) return st;
    cdz_job *job = *out = call.job;
    const uint32_t context = cdz_run_model_weights(s->model->run)->arch.context;
    if (job->max_length < context) job->max_length = context;
    job->plan->strategy = (cdz_instance){
        .name = "lua", .plugin = {&cdz_lua_console_strategy.base, NULL}, .params = console};
    return CDZ_OK;
}

static int converse(const lua_options *o, cdz_session *session)
{
    talk t = {.lock = CDZ_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    cdz_lua_console console = {.next = next,
                               .write = write_text,
                               .complain = complain,
                               .interrupted = interrupted,
                               .user = &t};
    cdz_job *job = NULL;
    cdz_error err = {0};
    uint64_t id;

    cdz_status st = cdz_lua_module_empty("lua", &console.module, &err);
    if (st == CDZ_OK) st = prepare(o, session, &console, &job, &err);
    if (st == CDZ_OK) {
        job->on_done = on_done;
        job->user = &t;
        st = cdz_engine_submit(session->runtime->engine, job, &id, &err);
    }
    int status = CDZ_EXIT_FAILURE;
    if (st == CDZ_OK) {
        cdz_cli_on_interrupt(let_pass, NULL);
        status = run_all(o, &t);
        end_talk(&t);
        cdz_cli_on_interrupt(NULL, NULL);
        if (t.outcome->error.code != CDZ_OK) status = cdz_cli_fail(&t.outcome->error);
        cdz_outcome_free(t.outcome);
    } else {
        status = cdz_cli_fail(&err);
    }
    cdz_lua_module_free(console.module);
    return status;
}

/* --- options ------------------------------------------------------------------------------------------------------------ */

static bool is_script(const char *name)
{
    const size_t n = strlen(name);

    return n > 4 && strcmp(name + n - 4, ".lua") == 0;
}

static void take_words(lua_options *o, cdz_args *a)
{
    const char *word = cdz_args_word(a);
    o->common.host.program.model = a->model;
    if (word && !o->common.host.program.model && !is_script(word)) {
        o->common.host.program.model = word;
        word = cdz_args_word(a);
    }
    if (word && is_script(word)) {
        o->script = word;
        word = cdz_args_word(a);
    }
    if (word) cdz_args_refuse(a, "unexpected argument '%s'; expected MODEL and SCRIPT.lua", word);
}

static bool take_options(int argc, char **argv, lua_options *o, int *status)
{
    cdz_args a = cdz_args_of(&cdz_page_lua, argc, argv, &o->common);
    while (cdz_args_next(&a)) {
        if (a.opt == 'p') o->prompt = a.value;
        if (a.opt == 'e') o->statements[o->n_statements++] = a.value;
        if (a.opt == 'i') o->interactive = true;
    }
    if (!a.stopped) take_words(o, &a);
    *status = a.status;
    return !a.stopped;
}

int cdz_cmd_lua(int argc, char **argv)
{
    lua_options o = {.statements = calloc((size_t)argc + 1, sizeof *o.statements)};
    cdz_session session;
    int status = CDZ_EXIT_FAILURE;

    if (o.statements && take_options(argc, argv, &o, &status)) {
        status = cdz_session_open(&o.common, &session);
        if (status == CDZ_EXIT_OK) {
            status = converse(&o, &session);
            cdz_session_close(&session);
        }
    }
    free(o.statements);
    cdz_cli_options_free(&o.common);
    return status;
}
