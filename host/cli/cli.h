/* cli.h - what the commands of the program share: options, the session, signals, sentences. */
#ifndef CDZ_HOST_CLI_CLI_H
#define CDZ_HOST_CLI_CLI_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "cadenza/cadenza.h"
#include "cli/flags.h"

enum { CDZ_EXIT_OK = 0, CDZ_EXIT_FAILURE = 1, CDZ_EXIT_USAGE = 2, CDZ_EXIT_INTERRUPTED = 130 };

/* One command of the program; argv[0] is its name. Returns the exit status. */
typedef int cdz_command(int argc, char **argv);

cdz_command cdz_cmd_run, cdz_cmd_chat, cdz_cmd_explain, cdz_cmd_plugin, cdz_cmd_model,
    cdz_cmd_tokenize, cdz_cmd_template, cdz_cmd_detect, cdz_cmd_steer, cdz_cmd_config,
    cdz_cmd_parity, cdz_cmd_score, cdz_cmd_serve, cdz_cmd_lua, cdz_cmd_bench, cdz_cmd_completion,
    cdz_cmd_manual, cdz_cmd_version, cdz_cmd_grammar, cdz_cmd_pull, cdz_cmd_list;

/* What a model would run on and what memory that has (model_device.c): the last lines of `model info`, or a member of its
 * JSON object. False: it has been said why not. Whether a device can be had is told before anything else. */
struct cdz_weights;
struct cdz_buf;
bool cdz_cli_device_is_there(const char *device, int *status);
bool cdz_cli_model_device(const struct cdz_weights *weights, const char *device);
bool cdz_cli_model_device_json(const struct cdz_weights *weights, const char *device,
                               struct cdz_buf *out);

/* `model check` (model_check.c): reads all of a model; 1 when something is wrong. */
int cdz_cli_model_check(const char *folder);

/* `plugin new` (plugin_new.c): writes a package from the shipped template of that kind and language. id: NULL means
 * org.example. and the name. */
int cdz_cli_plugin_new(const char *path, const char *kind, const char *lang, const char *id);

/* `bench serve` (bench_serve.c): a server under load. */
int cdz_cli_bench_serve(int argc, char **argv);

/* `plugin add` and `plugin remove` (plugin_add.c). lock: the file, or NULL for the usual one. */
int cdz_cli_plugin_add(const char *folder, const char *lock, bool yes, bool safe_mode);
int cdz_cli_plugin_remove(const char *id, const char *lock);
/* Where plugins are looked for, in order, and which locks there are: the head of `plugin list -v` (plugin_places.c). */
struct cdz_registry;
void cdz_cli_plugin_places(bool safe_mode, const struct cdz_registry *registry);

/* Writes "cadenza: sentence" to stderr. */
void cdz_cli_say(const char *fmt, ...) CDZ_PRINTF(1, 2);
/* The same for err; returns the exit status that fits its code: 2 for usage, 130 when cancelled, else 1. */
int cdz_cli_fail(const cdz_error *err);
/* The same for a command used wrongly: adds where to find help. Returns 2. */
int cdz_cli_misuse(const char *command, const char *fmt, ...) CDZ_PRINTF(2, 3);

/* --- options that run, chat and parity have in common ------------------------------------------------- */

/* What the command line says. */
typedef struct cdz_cli_options {
    cdz_settings host;     /* the structs that it fills, and what was typed */
    const char **settings; /* "name=value" */
    char **typed;          /* beside each: the option it was written as, "--temp"; NULL: -s */
    uint32_t n_settings;
    cdz_arena kept; /* texts made on the way, alive as long as the options */
} cdz_cli_options;

enum { CDZ_OPT_OWN = 512 }; /* ids of a command's own options start here, or are letters */

/* Takes a setting. False: its value is wrong, which has been said (then *status is the exit status), or there is no memory. */
bool cdz_cli_take_setting(cdz_cli_options *options, const cdz_setting *setting, const char *value,
                          const char *command, int *status);
/* "name=value", which lives as long as the options; typed: the option it came from, or NULL. */
bool cdz_cli_add_setting(cdz_cli_options *options, const char *setting, const char *typed);
/* Whether the value of --json-schema is the schema itself. */
bool cdz_cli_is_inline(const char *schema);
/* Lets a sentence that begins with "-s NAME" begin with what was typed for it. */
void cdz_cli_as_typed(const cdz_cli_options *options, cdz_error *err);
void cdz_cli_options_free(cdz_cli_options *options);

/* --- a session: runtime, model, pipeline ----------------------------------------------------------------- */

typedef struct cdz_session {
    char *folder; /* of the model, owned; NULL: none was asked for */
    cdz_runtime *runtime;
    cdz_model *model, *assistant;
    cdz_model **with;        /* (n_with) further models */
    const char **with_names; /* (n_with), owned */
    uint32_t n_with;
    FILE *observed; /* where observers' lines go; NULL: nowhere */
    cdz_pipeline *pipeline;
    cdz_reloader *reloader; /* --dev, or NULL */
    double open_s;          /* what opening took */
    int loaded_percent;     /* of the weights that go to a device, as said on the terminal */
    atomic_bool
        mid_line; /* stderr stands behind a piece of the answer: what is said now begins on a new line */
} cdz_session;

/* The table of --profile to stderr. */
void cdz_session_say_profile(const cdz_session *session);
/* A piece of the answer to stdout, at once. */
void cdz_session_put_text(cdz_session *session, const char *text);

/* What cdz_options.log takes: a plugin's line to stderr, from the level of --log on; NULL when none is wanted. log_user: the
 * session, or NULL. */
typedef void cdz_cli_log(void *user, cdz_log_level level, const char *plugin, const char *text);
cdz_cli_log *cdz_cli_log_for(const cdz_cli_options *options);

/* The one place that opens a runtime with what the command line says, into session->runtime. */
cdz_status cdz_session_runtime(cdz_session *session, const cdz_cli_options *options, cdz_error *err);
/* Of NAME=FOLDER, as --with has it, the folder; NULL: it is none. */
const char *cdz_cli_named_folder(const char *given);
/* The further models of --with, with the runtime open. */
cdz_status cdz_session_with(cdz_session *session, const cdz_program_settings *program,
                            cdz_error *err);
/* Opens all three with progress on a terminal; on failure says why and returns the exit status, else 0. */
int cdz_session_open(const cdz_cli_options *options, cdz_session *session);
void cdz_session_close(cdz_session *session);
/* A request with the session's model, assistant and pipeline, and what the options say of requests. */
cdz_request cdz_session_request(const cdz_session *session, const cdz_cli_options *options);
/* Opens a model into session->model, as the options have it. */
cdz_status cdz_session_model(cdz_session *session, const cdz_cli_options *options,
                             const char *folder, cdz_error *err);
/* A pipeline as the options say (file, settings, custom generate), or with another file, which a request document named,
 * instead of theirs. */
cdz_status cdz_session_pipeline(const cdz_session *session, const cdz_cli_options *options,
                                const char *file, cdz_pipeline **out, cdz_error *err);
/* The same for one that a document has as an object of its sections. */
cdz_status cdz_session_written_pipeline(const cdz_session *session, const cdz_cli_options *options,
                                        const cdz_json *object, cdz_pipeline **out, cdz_error *err);
/* With --dev its files are watched; this lets go of both. NULL is fine. */
void cdz_session_free_pipeline(const cdz_session *session, cdz_pipeline *pipeline);
/* What does nothing, or not what it may seem; in JSON it stands beside the answer. */
void cdz_cli_say_warnings(const cdz_cli_options *options, const cdz_result *result);
/* What --dev says of a reload; why NULL: it went well. */
void cdz_cli_say_reloaded(cdz_pipeline *pipeline, const cdz_error *why);

/* The folder share/cadenza/NAME beside the program, into path; false when it is not there. */
bool cdz_cli_shared(const char *name, char *path, size_t bytes);
/* The folder of the shipped model into path; false when it is not there. */
bool cdz_cli_shipped_model(char *path, size_t bytes);
/* What a command reads of a model, and so what is downloaded for it where the model is an id that no cache has. */
typedef enum cdz_cli_need {
    CDZ_NEED_WEIGHTS,
    CDZ_NEED_TEXTS, /* tokenizer and templates */
    CDZ_NEED_HERE,  /* nothing is downloaded */
} cdz_cli_need;

/* The model that a word means: NULL the shipped one, a path, a name, or an id (models.c). how: --revision and --offline. Returns
 * NULL after having spoken. */
const char *cdz_cli_model_folder(const cdz_program_settings *how, const char *model,
                                 cdz_cli_need need, char *path, size_t bytes);
/* Downloads a model, with a bar on a terminal (download.c); the exit status, after having spoken where it is not 0. */
struct cdz_hub_wish;
int cdz_cli_download(const struct cdz_hub_wish *wish, char *path, size_t bytes);

/* `list` and `model list` */
int cdz_cli_model_list(bool json);

/* `help NAME`, and the names of its topics as a line (topics.c). */
int cdz_cli_help_on(const char *name);
void cdz_cli_print_topics(void);

/* --- interrupts ------------------------------------------------------------------------------------------ */

/* From now on Ctrl-C and SIGTERM call handler(user) on a thread of their own instead of ending the program; another
 * within a second, or before what the first was to end has ended, ends it. Call before any other thread exists. */
bool cdz_cli_catch_interrupts(void);
void cdz_cli_on_interrupt(void (*handler)(void *user), void *user); /* NULL: none */
/* The same for a program that ends when it is ready to: SIGTERM too calls the handler alone, and so does a second signal;
 * a third ends the program. */
void cdz_cli_on_stop(void (*handler)(void *user), void *user);
/* SIGHUP calls handler(user), on the same thread; NULL: it ends the program, as it does where nobody catches it. Returns when
 * no handler runs. */
void cdz_cli_on_hangup(void (*handler)(void *user), void *user);
bool cdz_cli_interrupted(void); /* since the last clear */
void cdz_cli_clear_interrupt(void);

/* --- small things ---------------------------------------------------------------------------------------- */

/* A whole stream into *text (allocated, NUL-terminated), at most max bytes. */
cdz_status cdz_cli_read_stream(FILE *file, const char *name, size_t max, char **text, size_t *len,
                               cdz_error *err);

/* Lines of a stream, each of at most max bytes: one that is longer, or has no end, is refused before it is
 * held. Zeroed but for the first three; free line at the end. */
typedef struct cdz_cli_lines {
    FILE *in;
    const char *name; /* of the stream, for sentences */
    size_t max;       /* bytes of a line without its newline; 0: CDZ_CLI_LINE_BYTES */
    char *line;       /* the line read last, without its newline, NUL-terminated */
    size_t len, cap;
    uint64_t number; /* of that line, from 1 */
    bool ended;      /* by a newline, not by the stream's end */
} cdz_cli_lines;

#define CDZ_CLI_LINE_BYTES ((size_t)64 << 20)

/* The next line; *some is false at the end of the stream. */
cdz_status cdz_cli_next_line(cdz_cli_lines *lines, bool *some, cdz_error *err);

/* The folder that a file lies in, for what it names: "." for standard input. */
const char *cdz_cli_folder_of(const char *path, cdz_arena *arena);
#endif
