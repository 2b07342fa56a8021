/* session.c - the runtime, model and pipeline a command works with, and Ctrl-C. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/write.h"
#include "cli/cli.h"
#include "cli/tools.h"
#include "config/pipeline.h"
#include "plug/manifest.h"

/* --- what is shipped beside the program --------------------------------------------------------------------- */

bool cdz_cli_shared(const char *name, char *path, size_t bytes)
{
    char exe[4096];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (len <= 0) return false;
    exe[len] = '\0';
    char *slash = strrchr(exe, '/');
    if (!slash) return false;
    slash[1] = '\0';
    int n = snprintf(path, bytes, "%s../share/cadenza/%s", exe, name);
    struct stat st;
    return n > 0 && (size_t)n < bytes && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool cdz_cli_shipped_model(char *path, size_t bytes)
{
    return cdz_cli_shared("models/pocket-dictionary", path, bytes);
}

/* --- opening ---------------------------------------------------------------------------------------------- */

/* Whether the model has a decode loop of its own. */
static bool has_loop(const char *model)
{
    cdz_arena arena = {0};
    const char *folder = cdz_arena_printf(&arena, "%s/" CDZ_CUSTOM_GENERATE, model);
    const bool has = folder && cdz_manifest_present(folder);
    cdz_arena_free(&arena);
    return has;
}

/* As trust_remote_code = True does in transformers: the model's own loop replaces the usual one. A strategy that the user
 * names wins. */
static cdz_status use_loop_of_model(cdz_pipeline *pipeline, const cdz_cli_options *o,
                                    const char *folder, cdz_error *err)
{
    if (!o->host.options.allow_model_plugins || o->host.options.safe_mode ||
        o->host.program.custom_generate || !o->host.program.model || !folder)
        return CDZ_OK;
    if (!has_loop(folder) || cdz_pipeline_names_strategy(pipeline)) return CDZ_OK;
    return cdz_pipeline_custom_generate(pipeline, folder, err);
}

/* What the command line says of every pipeline; takes the pipeline, also on failure. */
static cdz_status finish_pipeline(const cdz_session *session, const cdz_cli_options *options,
                                  cdz_pipeline *pipeline, cdz_pipeline **out, cdz_error *err)
{
    cdz_status status = CDZ_OK;
    if (options->host.program.custom_generate)
        status = cdz_pipeline_custom_generate(pipeline, options->host.program.custom_generate, err);
    for (uint32_t i = 0; status == CDZ_OK && i < options->n_settings; i++) {
        const char *equals = strchr(options->settings[i], '=');
        char *name = strndup(options->settings[i], (size_t)(equals - options->settings[i]));
        status = name ? cdz_pipeline_set(pipeline, name, equals + 1, err) : CDZ_E_NOMEM;
        free(name);
    }
    if (status == CDZ_OK) status = use_loop_of_model(pipeline, options, session->folder, err);
    if (status == CDZ_OK) status = cdz_pipeline_check(pipeline, err);
    if (status == CDZ_OK && session->reloader)
        status = cdz_reloader_add(session->reloader, pipeline, err);
    if (status == CDZ_OK)
        *out = pipeline;
    else
        cdz_pipeline_free(pipeline);
    return status;
}

cdz_status cdz_session_pipeline(const cdz_session *session, const cdz_cli_options *options,
                                const char *file, cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *pipeline;
    const bool typed = !file || (options->host.program.pipeline &&
                                 strcmp(file, options->host.program.pipeline) == 0);
    if (typed)
        CDZ_TRY(cdz_pipeline_load(session->runtime, options->host.program.pipeline, &pipeline, err));
    else
        CDZ_TRY(cdz_pipeline_load_for_request(session->runtime, file, &pipeline, err));
    return finish_pipeline(session, options, pipeline, out, err);
}

cdz_status cdz_session_written_pipeline(const cdz_session *session, const cdz_cli_options *options,
                                        const cdz_json *object, cdz_pipeline **out, cdz_error *err)
{
    cdz_pipeline *pipeline;
    CDZ_TRY(cdz_pipeline_of_object_alone(session->runtime, object, &pipeline, err));
    return finish_pipeline(session, options, pipeline, out, err);
}

void cdz_session_free_pipeline(const cdz_session *session, cdz_pipeline *pipeline)
{
    cdz_reloader_remove(session->reloader, pipeline);
    cdz_pipeline_free(pipeline);
}

void cdz_cli_say_reloaded(cdz_pipeline *pipeline, const cdz_error *why)
{
    const char *name = cdz_pipeline_name(pipeline);
    if (why)
        cdz_cli_say("%s: %s", name, why->text);
    else
        cdz_cli_say("%s: reloaded, generation %llu", name,
                    (unsigned long long)cdz_pipeline_generation(pipeline));
}

/* [the reloader's or the engine's thread] */
static void on_reload(void *user, cdz_pipeline *pipeline, const cdz_error *why)
{
    cdz_session *session = user;
    if (atomic_exchange(&session->mid_line, false)) fputc('\n', stderr);
    cdz_cli_say_reloaded(pipeline, why);
}

/* The trial of a new version is made with the model. */
static cdz_status watch(cdz_session *s, cdz_error *err)
{
    const cdz_reloader_options options = {
        .size = sizeof options, .model = s->model, .on_reload = on_reload, .user = s};
    CDZ_TRY(cdz_reloader_open(&options, &s->reloader, err));
    return cdz_reloader_add(s->reloader, s->pipeline, err);
}

/* On a terminal: how far a model's weights have got. The line goes away when they are there. */
static void say_loading(void *user, const char *model, uint64_t done, uint64_t bytes)
{
    cdz_session *s = user;
    const int percent = (int)((double)done / (double)bytes * 100);
    if (percent == s->loaded_percent && done < bytes) return;
    s->loaded_percent = percent;
    if (done < bytes)
        fprintf(stderr, "\r%.60s: %d %% of the weights on the device", model, percent);
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

cdz_status cdz_session_model(cdz_session *s, const cdz_cli_options *o, const char *folder,
                             cdz_error *err)
{
    const cdz_model_options how = cdz_settings_to_model(&o->host);
    return cdz_model_open(s->runtime, folder, &how, &s->model, err);
}

cdz_status cdz_session_runtime(cdz_session *s, const cdz_cli_options *o, cdz_error *err)
{
    cdz_options options = cdz_settings_to_options(&o->host);
    options.guard_files = true;
    options.loading = isatty(STDERR_FILENO) ? say_loading : NULL;
    options.log = cdz_cli_log_for(o);
    options.log_user = s;
    return cdz_open(&options, &s->runtime, err);
}

const char *cdz_cli_named_folder(const char *given)
{
    const char *equals = strchr(given, '=');
    return equals && equals != given && equals[1] ? equals + 1 : NULL;
}

/* Further models: NAME=FOLDER each. */
cdz_status cdz_session_with(cdz_session *s, const cdz_program_settings *program, cdz_error *err)
{
    char path[4096];
    s->with = calloc(program->n_with + 1, sizeof(cdz_model *));
    s->with_names = calloc(program->n_with + 1, sizeof(char *));
    if (!s->with || !s->with_names) return cdz_err_memory(err, "models");
    for (uint32_t i = 0; i < program->n_with; i++) {
        const char *given = program->with[i], *named = cdz_cli_named_folder(given);
        if (!named) return cdz_err(err, CDZ_E_USAGE, "--with %s: expected NAME=FOLDER", given);
        const char *folder =
            cdz_cli_model_folder(&(cdz_program_settings){.offline = program->offline}, named,
                                 CDZ_NEED_WEIGHTS, path, sizeof path);
        if (!folder)
            return cdz_err(err, CDZ_E_NOT_FOUND, "--with %s: there is no such model", given);
        s->with_names[i] = strndup(given, (size_t)(named - given) - 1);
        if (!s->with_names[i]) return cdz_err_memory(err, "models");
        CDZ_TRY(cdz_model_open(s->runtime, folder, NULL, &s->with[i], err));
        s->n_with++;
    }
    return CDZ_OK;
}

static cdz_status open_observed(cdz_session *s, const char *path, cdz_error *err)
{
    if (!path) return CDZ_OK;
    if (strcmp(path, "-") != 0) return cdz_write_grow(path, true, NULL, 0, &s->observed, err);
    s->observed = stderr;
    return CDZ_OK;
}

/* [the engine's thread] One call writes one line. */
static void write_observed(void *user, uint64_t request, const char *plugin, const char *line,
                           size_t len)
{
    FILE *to = user;
    (void)request, (void)plugin;
    fprintf(to, "%.*s\n", (int)len, line);
}

static void close_beside(cdz_session *s)
{
    for (uint32_t i = 0; s->with && i < s->n_with; i++) cdz_model_close(s->with[i]);
    for (uint32_t i = 0; s->with_names && s->with_names[i]; i++)
        free((char *)(uintptr_t)s->with_names[i]);
    free((void *)s->with);
    free((void *)s->with_names);
    if (s->observed && s->observed != stderr && fclose(s->observed) != 0)
        cdz_cli_say("--observe: the file could not be written: %s", strerror(errno));
}

static cdz_status open_all(const cdz_cli_options *o, const char *folder, const char *assistant,
                           cdz_session *s, cdz_error *err)
{
    CDZ_TRY(cdz_session_runtime(s, o, err));
    /* The pipeline first: its mistakes are the likelier ones, and quicker to find than a model is to load. */
    CDZ_TRY(cdz_session_pipeline(s, o, NULL, &s->pipeline, err));
    CDZ_TRY(cdz_session_model(s, o, folder, err));
    if (assistant) CDZ_TRY(cdz_model_open(s->runtime, assistant, NULL, &s->assistant, err));
    CDZ_TRY(cdz_session_with(s, &o->host.program, err));
    CDZ_TRY(open_observed(s, o->host.program.observe, err));
    return o->host.program.dev ? watch(s, err) : CDZ_OK;
}

cdz_request cdz_session_request(const cdz_session *session, const cdz_cli_options *options)
{
    cdz_request request = cdz_settings_to_request(&options->host);
    request.model = session->model;
    request.assistant = session->assistant;
    request.pipeline = session->pipeline;
    if (options->host.program.n_tools) request.on_tool = cdz_cli_on_tool;
    request.tool_user = (void *)(uintptr_t)&options->host.program;
    request.models = session->with;
    request.model_names = session->with_names;
    request.n_models = session->n_with;
    if (session->observed) request.on_observed = write_observed;
    request.observe_user = session->observed;
    return request;
}

int cdz_session_open(const cdz_cli_options *options, cdz_session *session)
{
    char path[4096], second[4096];
    cdz_error err = {0};
    *session = (cdz_session){0};
    const double start = cdz_now_s();
    if (!cdz_cli_tools_are_good(&options->host.program)) return CDZ_EXIT_USAGE;
    const char *folder = cdz_cli_model_folder(&options->host.program, options->host.program.model,
                                              CDZ_NEED_WEIGHTS, path, sizeof path);
    if (!folder) return CDZ_EXIT_FAILURE;
    session->folder = strdup(folder);
    const char *assistant = options->host.program.assistant;
    if (assistant) /* the revision is the model's */
        assistant =
            cdz_cli_model_folder(&(cdz_program_settings){.offline = options->host.program.offline},
                                 assistant, CDZ_NEED_WEIGHTS, second, sizeof second);
    if (!session->folder || (options->host.program.assistant && !assistant)) {
        cdz_session_close(session);
        return CDZ_EXIT_FAILURE;
    }
    if (options->host.program.model && !options->host.options.allow_model_plugins &&
        !options->host.options.safe_mode && !options->host.program.custom_generate &&
        has_loop(folder))
        cdz_cli_say("%s has a decode loop of its own, which is not used; --allow-model-plugins "
                    "lets it run",
                    options->host.program.model);
    if (open_all(options, folder, assistant, session, &err) != CDZ_OK) {
        cdz_session_close(session);
        cdz_cli_as_typed(options, &err);
        return cdz_cli_fail(&err);
    }
    session->open_s = cdz_now_s() - start;
    return CDZ_EXIT_OK;
}

void cdz_session_say_profile(const cdz_session *session)
{
    cdz_profile_times times;
    cdz_buf table = {0};
    if (!cdz_engine_get_profile(session->runtime->engine, &times)) return;
    cdz_profile_write_table(&times, &table);
    fflush(stdout); /* the answer first, where both go to one place */
    cdz_cli_say("profile: plugins, weights and tokenizer opened in %.1f ms; passes on %s",
                session->open_s * 1e3, cdz_runtime_device(session->runtime)->api->device);
    const unsigned nodes = cdz_engine_nodes(session->runtime->engine);
    if (nodes > 1) cdz_cli_say("profile: numa: threads and memory are spread over %u nodes", nodes);
    if (nodes == 1) cdz_cli_say("profile: numa: there is one node of memory, nothing to spread");
    if (table.data && !table.failed) fputs(table.data, stderr);
    cdz_buf_free(&table);
}

/* Do stdout and stderr end in one place, a terminal as a rule? */
static bool one_stream(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void cdz_session_put_text(cdz_session *session, const char *text)
{
    if (!text[0]) return;
    fputs(text, stdout);
    fflush(stdout);
    atomic_store(&session->mid_line, one_stream() && text[strlen(text) - 1] != '\n');
}

void cdz_session_close(cdz_session *session)
{
    cdz_session_free_pipeline(session, session->pipeline);
    cdz_reloader_close(session->reloader);
    close_beside(session);
    cdz_model_close(session->assistant);
    cdz_model_close(session->model);
    cdz_close(session->runtime);
    free(session->folder);
    *session = (cdz_session){0};
}

/* --- interrupts ------------------------------------------------------------------------------------------
 * SIGINT and SIGTERM are blocked in every thread and taken by one that waits for them, so that the handler is
 * ordinary code. These are the program's only globals; the library has none. */

static struct {
    cdz_mutex lock;
    void (*handler)(void *user);
    void *user;
    bool patient; /* the handler ends the program in its own time */
    unsigned calls;
    atomic_bool interrupted;
} interrupts = {.lock = CDZ_MUTEX_INITIALIZER};

static struct {
    cdz_mutex lock;
    void (*handler)(void *user);
    void *user;
} hangups = {.lock = CDZ_MUTEX_INITIALIZER};

static void take_hangup(void)
{
    cdz_mutex_lock(&hangups.lock);
    if (!hangups.handler) _exit(128 + SIGHUP);
    hangups.handler(hangups.user);
    cdz_mutex_unlock(&hangups.lock);
}

void cdz_cli_on_hangup(void (*handler)(void *user), void *user)
{
    cdz_mutex_lock(&hangups.lock);
    hangups.handler = handler;
    hangups.user = user;
    cdz_mutex_unlock(&hangups.lock);
}

static void take_signal(int number, bool soon)
{
    cdz_mutex_lock(&interrupts.lock);
    const bool again = atomic_exchange(&interrupts.interrupted, true) || soon,
               handled = interrupts.handler != NULL;
    if (handled) interrupts.handler(interrupts.user);
    const bool waits = interrupts.patient && ++interrupts.calls < 3;
    cdz_mutex_unlock(&interrupts.lock);
    if (handled && waits) return;
    if (again || !handled || number == SIGTERM) _exit(128 + number);
}

/* A handler was told, and what it is to end has not ended. */
static bool is_stopping(void)
{
    cdz_mutex_lock(&interrupts.lock);
    const bool stopping =
        atomic_load(&interrupts.interrupted) && interrupts.handler && !interrupts.patient;
    cdz_mutex_unlock(&interrupts.lock);
    return stopping;
}

static void *wait_for_signals(void *set)
{
    static const struct timespec patience = {2, 0};
    double last = -10;
    bool told = false;
    for (;;) {
        const bool stopping = is_stopping();
        const int number =
            stopping && !told ? sigtimedwait(set, NULL, &patience) : sigwaitinfo(set, NULL);
        if (number == SIGHUP) {
            take_hangup();
        } else if (number > 0) {
            take_signal(number, cdz_now_s() - last < 1);
            last = cdz_now_s();
            told = false;
        } else if (stopping && errno == EAGAIN && is_stopping()) {
            told = true;
            cdz_cli_say("not stopped yet: a pass or a plugin has to come to its end; Ctrl-C again "
                        "ends the program at once");
        }
    }
    return NULL;
}

bool cdz_cli_catch_interrupts(void)
{
    static sigset_t set; /* the thread reads it for as long as the program runs */
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    struct sigaction hangup; /* nohup has it ignored */
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(&set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) return false;
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_signals, &set) != 0) return false;
    pthread_detach(thread);
    return true;
}

void cdz_cli_on_interrupt(void (*handler)(void *user), void *user)
{
    cdz_mutex_lock(&interrupts.lock);
    interrupts.handler = handler;
    interrupts.user = user;
    interrupts.patient = false;
    cdz_mutex_unlock(&interrupts.lock);
}

void cdz_cli_on_stop(void (*handler)(void *user), void *user)
{
    cdz_mutex_lock(&interrupts.lock);
    interrupts.handler = handler;
    interrupts.user = user;
    interrupts.patient = handler != NULL;
    interrupts.calls = 0;
    cdz_mutex_unlock(&interrupts.lock);
}

bool cdz_cli_interrupted(void)
{
    return atomic_load(&interrupts.interrupted);
}

void cdz_cli_clear_interrupt(void)
{
    atomic_store(&interrupts.interrupted, false);
}

void cdz_cli_say_warnings(const cdz_cli_options *options, const cdz_result *result)
{
    if (options->host.program.log && strcmp(options->host.program.log, "none") == 0) return;
    fflush(stdout);
    for (uint32_t i = 0; i < result->n_warnings; i++)
        cdz_cli_say("warning: %s", result->warnings[i]);
}
