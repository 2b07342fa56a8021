/* cmd_serve.c - cadenza serve: models behind HTTP. The server is host/serve/, its settings are host/params/; here are what the
 * two mean to each other, its signals and its lines. */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#ifdef CADENZA_HAVE_SERVE
#include "base/clock.h"
#include "cli/serve_lines.h"
#include "cli/service.h"
#include "cli/tools.h"
#include "serve/serve.h"

enum { DEFAULT_QUEUE = 256, DEFAULT_RUNNING = 256 }; /* requests; the latter as a runtime is made */
#endif

const cdz_page cdz_page_serve = {
    .name = "serve",
    .summary = "answer requests over HTTP, as OpenAI's API",
    .usage = "serve [MODEL] [options]\n",
    .about =
        "Serves models to clients of OpenAI's API: completions, chats, responses, tools, streams, "
        "log-probabilities. "
        "A request may pick its decode loop, processors and parameters in its field \"cadenza\". "
        "SIGTERM or Ctrl-C ends it: new requests are refused, those that are there end; a second "
        "signal ends these too. SIGHUP has the file of --config read again.",
    .takes = CDZ_TAKES_MODEL | CDZ_TAKES_SERVER | CDZ_TAKES_MACHINE | CDZ_TAKES_PLUGINS |
             CDZ_TAKES_TOOLS | CDZ_TAKES_OTHERS,
    .more_title = "Endpoints",
    .more =
        "  GET  /  a page to chat on\n"
        "  POST /v1/completions, /v1/chat/completions, /v1/responses, /tokenize, /detokenize\n"
        "  GET  /v1/models, /v1/plugins, /v1/pipelines, /tokenizer_info, /health, /ready, /metrics\n"
        "  POST /v1/pipelines/reload; GET /v1/kv, PUT and DELETE /v1/kv/NAME\n",
    .examples = "cadenza serve\n"
                "cadenza serve my-model --port 8000 --api-key-file keys.txt\n"
                "cadenza serve my-model --pipelines pipelines/ --max-queue 64\n"
                "cadenza serve --config server.ini\n"
                "curl --json '{\"prompt\": \"river\"}' http://127.0.0.1:8080/v1/completions\n",
};

#ifdef CADENZA_HAVE_SERVE

/* What was said, of one reading of the file. */
typedef struct serve_words {
    cdz_settings settings;
    cdz_served_list models;
    cdz_arena arena;
    cdz_serve_model *list; /* (n_list) as the server has them */
    size_t n_list;
} serve_words;

typedef struct serving {
    cdz_cli_options *common; /* the command line, alone */
    cdz_session session;
    char own_name[PATH_MAX]; /* of the model MODEL */
    int handed;              /* a socket that a service manager handed in; or -1 */
    cdz_cli_live live;
    bool watched; /* a service manager wants to hear that it is alive */
    cdz_serve *server;
} serving;

/* --- settings ------------------------------------------------------------------------------------------------ */

static bool was_said(const cdz_settings *s, const char *name)
{
    return s->said[cdz_setting_index(cdz_setting_named(name))] != NULL;
}

/* A path in the file is beside the file. */
static cdz_status beside(serve_words *w, const char **path, const char *name,
                         const cdz_settings *line, cdz_error *err)
{
    const char *folder = cdz_cli_folder_of(w->settings.program.server.config, &w->arena);
    if (!*path || **path == '/' || was_said(line, name)) return CDZ_OK;
    *path = cdz_arena_printf(&w->arena, "%s/%s", folder, *path);
    return *path ? CDZ_OK : cdz_err_memory(err, "the server's settings");
}

/* Where it listens is said once: --listen, or --host and --port. */
static cdz_status check_place(serve_words *w, const cdz_settings *line, cdz_error *err)
{
    cdz_server_settings *s = &w->settings.program.server;
    const bool line_parts = was_said(line, "host") || was_said(line, "port");
    const bool parts = was_said(&w->settings, "host") || was_said(&w->settings, "port");
    if (line_parts && !was_said(line, "listen")) s->listen = NULL;
    if (s->listen && line->program.server.listen && !line_parts) return CDZ_OK;
    if (!s->listen || !parts) return CDZ_OK;
    return cdz_err(err, CDZ_E_USAGE, "listen = %s: host and port are said too; say one of the two",
                   s->listen);
}

/* The model of a section: a path beside the file, or what MODEL may be on the command line. */
static cdz_status find_model(serve_words *w, cdz_served_settings *m, cdz_error *err)
{
    char path[PATH_MAX];
    const char *folder = cdz_cli_folder_of(w->settings.program.server.config, &w->arena);
    const char *near = cdz_arena_printf(&w->arena, "%s/%s", folder, m->path);
    const char *found =
        near && access(near, F_OK) == 0
            ? near
            : cdz_cli_model_folder(&w->settings.program, m->path, CDZ_NEED_HERE, path, sizeof path);
    if (!found)
        return cdz_err(err, CDZ_E_NOT_FOUND, "[model %s]: there is no model %s", m->name, m->path);
    m->path = cdz_arena_strdup(&w->arena, found);
    return m->path ? CDZ_OK : cdz_err_memory(err, "the server's settings");
}

static const char *const own_keys[] = {"control_vector", "control_vector_scaled",
                                       "control_vector_layer_range"};
enum { N_OWN_KEYS = sizeof own_keys / sizeof *own_keys };

/* A line "key=value" for each part of a list; files of the file are beside it. */
static void put_own(serve_words *w, const char *key, const char *list, bool files, cdz_buf *out)
{
    const char *folder = cdz_cli_folder_of(w->settings.program.server.config, &w->arena);
    while (*(list += strspn(list, " \t,"))) {
        size_t n = strcspn(list, ",");
        const char *next = list + n;
        while (list[n - 1] == ' ' || list[n - 1] == '\t') n--;
        cdz_buf_printf(out, "%s=", key);
        if (files && *list != '/') cdz_buf_printf(out, "%s/", folder);
        cdz_buf_add(out, list, n);
        cdz_buf_putc(out, '\n');
        list = next;
    }
}

/* What a model's section says about opening it, for open_model; NULL: nothing. */
static cdz_status how_to_open(serve_words *w, const cdz_served_settings *m, const char **how,
                              cdz_error *err)
{
    const char *const said[N_OWN_KEYS] = {m->control_vector, m->control_vector_scaled,
                                          m->control_vector_layer_range};
    cdz_buf lines = {0};
    for (size_t i = 0; i < N_OWN_KEYS; i++)
        if (said[i]) put_own(w, own_keys[i], said[i], i < 2, &lines);
    *how = lines.len ? cdz_arena_strdup(&w->arena, lines.data) : NULL;
    const bool good = !lines.failed && (!lines.len || *how);
    cdz_buf_free(&lines);
    return good ? CDZ_OK : cdz_err_memory(err, "the server's settings");
}

static cdz_status list_models(serve_words *w, const serving *run, cdz_error *err)
{
    w->list = cdz_arena_array(&w->arena, w->models.n + 1, sizeof *w->list);
    if (!w->list) return cdz_err_memory(err, "the server's settings");
    const char *name = w->settings.program.server.model_name;
    if (run->session.model)
        w->list[w->n_list++] = (cdz_serve_model){.id = name ? name : run->own_name,
                                                 .path = run->session.folder,
                                                 .model = run->session.model};
    for (size_t i = 0; i < w->models.n; i++) {
        cdz_served_settings *m = &w->models.at[i];
        CDZ_TRY(find_model(w, m, err));
        if (w->n_list && strcmp(w->list[0].id, m->name) == 0)
            return cdz_err(err, CDZ_E_USAGE, "[model %s]: MODEL is called so, too", m->name);
        const char *how = NULL;
        CDZ_TRY(how_to_open(w, m, &how, err));
        w->list[w->n_list++] = (cdz_serve_model){.id = m->name,
                                                 .path = m->path,
                                                 .how = how,
                                                 .at_start = m->load && !strcmp(m->load, "start"),
                                                 .idle_s = m->idle};
    }
    return CDZ_OK;
}

static void free_words(serve_words *w)
{
    cdz_settings_free(&w->settings);
    cdz_arena_free(&w->arena);
}

/* The command line, and what it leaves to the file. Free it in either case. */
static cdz_status read_words(const cdz_cli_options *common, serve_words *w, cdz_error *err)
{
    const cdz_settings *line = &common->host;
    *w = (serve_words){0};
    CDZ_TRY(cdz_settings_copy(line, &w->settings, err));
    cdz_server_settings *s = &w->settings.program.server;
    if (!s->config) return check_place(w, line, err);
    CDZ_TRY(cdz_settings_read_server(s->config, &w->settings, &w->models, &w->arena, err));
    CDZ_TRY(beside(w, &s->api_key_file, "api_key_file", line, err));
    CDZ_TRY(beside(w, &s->pipelines, "pipelines", line, err));
    CDZ_TRY(beside(w, &s->kv_save, "kv_save", line, err));
    CDZ_TRY(beside(w, &s->kv_folder, "kv_folder", line, err));
    return check_place(w, line, err);
}

static cdz_serve_rules rules_of(const serve_words *w)
{
    const cdz_server_settings *s = &w->settings.program.server;
    return (cdz_serve_rules){
        .models = w->list,
        .n_models = w->n_list,
        .key_file = s->api_key_file,
        .pipelines = s->pipelines,
        .kv_save = s->kv_save,
        .kv_folder = s->kv_folder,
        .hosts = s->allowed_hosts,
        .n_hosts = s->n_allowed_hosts,
        .origins = s->cors_origins,
        .n_origins = s->n_cors_origins,
        .most_waiting =
            was_said(&w->settings, "max_queue") ? w->settings.options.max_queue : DEFAULT_QUEUE,
        .most_waiting_tokens = s->max_queue_tokens,
        .drain_s = was_said(&w->settings, "drain_timeout") ? s->drain_timeout : 25,
        .head_s = s->head_timeout,
        .body_s = s->body_timeout,
        .idle_s = s->idle_timeout,
        .unread_s = s->read_timeout,
        .body = s->max_body,
        .most_unread = s->max_unread,
        .connections = s->max_connections,
        .open_metrics = s->open_metrics,
        .json_log = s->log_format && strcmp(s->log_format, "json") == 0,
    };
}

/* --- while it serves ------------------------------------------------------------------------------------------- */

/* The last part of a path, without a weight file's ending. */
static void name_model(const char *folder, char *out, size_t bytes)
{
    char real[PATH_MAX];
    const char *path = realpath(folder, real) ? real : folder;
    const char *slash = strrchr(path, '/');
    snprintf(out, bytes, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(out, '.');
    if (dot && strcmp(dot, ".gguf") == 0) *dot = '\0';
}

static void on_signal(void *user)
{
    cdz_cli_tell_service("STOPPING=1");
    cdz_serve_stop(user);
}

static void say_line(void *user, const char *line, bool json)
{
    serving *run = user;
    cdz_cli_live_line(&run->live, line, json);
}

static void on_second(void *user, const cdz_serve_load *now)
{
    serving *run = user;
    cdz_cli_live_second(&run->live, (cdz_cli_load){.running = now->running,
                                                   .waiting = now->waiting,
                                                   .tokens = now->new_tokens,
                                                   .memory = now->memory});
    if (run->watched && !now->stuck) cdz_cli_tell_service("WATCHDOG=1");
}

/* Lines of how_to_open, in place of what the command line says of these keys. */
static cdz_status take_lines(cdz_settings *settings, char *lines, cdz_error *err)
{
    settings->model.n_control_vectors = settings->model.n_control_vectors_scaled = 0;
    settings->model.control_vector_layer_range = NULL;
    for (char *end; *lines; lines = end + 1) {
        char *equals = strchr(lines, '=');
        end = strchr(lines, '\n');
        if (!equals || !end) break;
        *equals = *end = '\0';
        CDZ_TRY(cdz_settings_take(settings, cdz_setting_named(lines), equals + 1, err));
    }
    return CDZ_OK;
}

static cdz_status open_model(void *user, const char *path, const char *how, cdz_model **out,
                             cdz_error *err)
{
    const serving *run = user;
    cdz_settings settings = {0};
    char *lines = strdup(how ? how : "");
    cdz_status status = lines ? cdz_settings_copy(&run->common->host, &settings, err)
                              : cdz_err_memory(err, "the model's settings");
    if (status == CDZ_OK && how) status = take_lines(&settings, lines, err);
    const cdz_model_options options = cdz_settings_to_model(&settings);
    if (status == CDZ_OK) status = cdz_model_open(run->session.runtime, path, &options, out, err);
    cdz_settings_free(&settings);
    free(lines);
    return status;
}

static cdz_status reread(void *user, cdz_error *err)
{
    serving *run = user;
    serve_words w;
    cdz_status status = read_words(run->common, &w, err);
    if (status == CDZ_OK) status = list_models(&w, run, err);
    if (status == CDZ_OK) {
        const cdz_serve_rules rules = rules_of(&w);
        status = cdz_serve_change(run->server, &rules, err);
    }
    free_words(&w);
    return status;
}

static void on_hangup(void *user)
{
    serving *run = user;
    cdz_error err = {0};
    char text[CDZ_ERROR_TEXT + 64];
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%.0f", cdz_now_s() * 1e6);
    cdz_cli_tell_service(text);
    if (reread(user, &err) == CDZ_OK)
        snprintf(text, sizeof text, "serve: settings and pipelines were read again");
    else
        snprintf(text, sizeof text, "serve: what was read before goes on serving: %s", err.text);
    cdz_serve_remark(run->server, text);
    cdz_cli_tell_service("READY=1");
}

/* --- the beginning and the end ------------------------------------------------------------------------------------- */

static const char *const default_host = "127.0.0.1";

typedef struct place {
    char host[256];
    const char *unix_path;
    uint16_t port;
} place;

/* "ADDRESS:PORT", "[::1]:8080" or "unix:PATH". */
static cdz_status read_listen(const char *text, place *out, cdz_error *err)
{
    static const char file[] = "unix:";
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    if (strncmp(text, file, sizeof file - 1) == 0 && text[sizeof file - 1]) {
        out->unix_path = text + sizeof file - 1;
        return CDZ_OK;
    }
    const unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (!n || n >= sizeof out->host || end == colon + 1 || *end || port > 65535)
        return cdz_err(err, CDZ_E_USAGE, "listen = %s: expected ADDRESS:PORT or unix:PATH", text);
    if (*text == '[' && text[n - 1] == ']') text++, n -= 2;
    snprintf(out->host, sizeof out->host, "%.*s", (int)n, text);
    out->port = (uint16_t)port;
    return CDZ_OK;
}

static cdz_status place_of(const serve_words *w, place *out, cdz_error *err)
{
    const cdz_server_settings *s = &w->settings.program.server;
    if (s->listen) return read_listen(s->listen, out, err);
    snprintf(out->host, sizeof out->host, "%s", s->host ? s->host : default_host);
    out->port = was_said(&w->settings, "port") ? (uint16_t)s->port : 8080;
    return CDZ_OK;
}

static void say_start(const serving *run, const serve_words *w, const place *at)
{
    const char *keys = cdz_serve_has_keys(run->server) ? "with keys" : "without keys";
    char where[300];
    cdz_buf names = {0}, line = {0};
    for (size_t i = 0; i < w->n_list; i++)
        cdz_buf_printf(&names, "%s%s", i ? ", " : "", w->list[i].id);
    const char *named = names.data && !names.failed ? names.data : "models";
    if (run->handed >= 0)
        cdz_serve_address(run->server, where, sizeof where);
    else if (at->unix_path)
        snprintf(where, sizeof where, "unix:%s", at->unix_path);
    else
        snprintf(where, sizeof where, "http://%s:%u", at->host, cdz_serve_port(run->server));
    cdz_buf_printf(&line, "serve: %s on %s, %s", named, where, keys);
    cdz_serve_remark(run->server, line.data && !line.failed ? line.data : "serve: ready");
    cdz_buf_free(&line);
    cdz_buf_free(&names);
    if (!cdz_serve_is_loopback(run->server) && !cdz_serve_has_keys(run->server))
        cdz_serve_remark(run->server,
                         "serve: warning: other machines reach this address, and no key is asked "
                         "for; --api-key-file names some");
}

static cdz_status open_server(serving *run, const serve_words *w, const place *at, cdz_error *err)
{
    const cdz_serve_options options = {
        .runtime = run->session.runtime,
        .rules = rules_of(w),
        .most_running =
            w->settings.options.max_running ? w->settings.options.max_running : DEFAULT_RUNNING,
        .host = at->host,
        .port = at->port,
        .unix_path = at->unix_path,
        .listener = run->handed,
        .log = say_line,
        .second = run->live.terminal || run->watched ? on_second : NULL,
        .open = open_model,
        .reread = reread,
        .user = run,
        .on_tool = w->settings.program.n_tools ? cdz_cli_on_tool : NULL,
        .tool_user = (void *)(uintptr_t)&w->settings.program,
        .others = run->session.with,
        .other_names = run->session.with_names,
        .n_others = run->session.n_with,
    };
    return cdz_serve_open(&options, &run->server, err);
}

static int serve_all(serving *run, serve_words *w)
{
    cdz_error err = {0};
    place at = {0};
    if (run->session.folder) name_model(run->session.folder, run->own_name, sizeof run->own_name);
    /* Whoever reads the log may go away; clients' answers go on. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (list_models(w, run, &err) != CDZ_OK || place_of(w, &at, &err) != CDZ_OK ||
        cdz_cli_handed_socket(&run->handed, &err) != CDZ_OK ||
        open_server(run, w, &at, &err) != CDZ_OK)
        return cdz_cli_fail(&err);
    cdz_cli_on_stop(on_signal, run->server);
    cdz_cli_on_hangup(on_hangup, run);
    say_start(run, w, &at);
    cdz_cli_tell_service("READY=1");
    cdz_serve_wait(run->server);
    cdz_cli_on_hangup(NULL, NULL);
    cdz_cli_on_stop(NULL, NULL);
    const cdz_status saved = cdz_serve_save(run->server);
    cdz_serve_remark(run->server, "serve: stopped");
    cdz_serve_close(run->server);
    return saved == CDZ_OK ? CDZ_EXIT_OK : CDZ_EXIT_FAILURE;
}

static int serve(serving *run, serve_words *w)
{
    cdz_cli_live_begin(&run->live);
    const int status = serve_all(run, w);
    cdz_cli_live_end(&run->live);
    return status;
}

/* MODEL, or the shipped one where the file names none; limits of the queue are the server's own, before it submits. */
static int open_session(serving *run, const serve_words *w)
{
    cdz_error err = {0};
    cdz_cli_options opened = *run->common;
    opened.host = w->settings;
    opened.host.options.max_queue = 0;
    if (run->common->host.program.model || !w->models.n)
        return cdz_session_open(&opened, &run->session);
    return cdz_session_runtime(&run->session, &opened, &err) == CDZ_OK &&
                   cdz_session_with(&run->session, &w->settings.program, &err) == CDZ_OK
               ? CDZ_EXIT_OK
               : cdz_cli_fail(&err);
}

/* --check-config: everything but the models. */
static int check_only(serving *run, serve_words *w)
{
    cdz_error err = {0};
    place at = {0};
    cdz_cli_options opened = *run->common;
    opened.host = w->settings;
    if (cdz_session_runtime(&run->session, &opened, &err) != CDZ_OK) return cdz_cli_fail(&err);
    if (list_models(w, run, &err) != CDZ_OK || place_of(w, &at, &err) != CDZ_OK ||
        cdz_serve_check(&(const cdz_serve_rules){.key_file = w->settings.program.server.api_key_file,
                                                 .kv_save = w->settings.program.server.kv_save,
                                                 .kv_folder = w->settings.program.server.kv_folder},
                        &err) != CDZ_OK)
        return cdz_cli_fail(&err);
    cdz_cli_say("serve: nothing is wrong with the settings");
    return CDZ_EXIT_OK;
}

static int run_serve(cdz_cli_options *common)
{
    serving run = {.common = common, .handed = -1, .watched = cdz_cli_is_watched()};
    serve_words w;
    cdz_error err = {0};
    int status;
    if (read_words(common, &w, &err) != CDZ_OK)
        status = cdz_cli_fail(&err);
    else if (!cdz_cli_tools_are_good(&w.settings.program))
        status = CDZ_EXIT_USAGE;
    else if (w.settings.program.server.check_config)
        status = check_only(&run, &w);
    else if ((status = open_session(&run, &w)) == CDZ_EXIT_OK)
        status = serve(&run, &w);
    cdz_session_close(&run.session);
    free_words(&w);
    return status;
}

int cdz_cmd_serve(int argc, char **argv)
{
    cdz_cli_options common = {0};
    cdz_args a = cdz_args_of(&cdz_page_serve, argc, argv, &common);
    while (cdz_args_next(&a)) {
    }
    const bool good =
        !a.stopped && cdz_args_take_model(&a, &common.host.program.model) && cdz_args_end(&a);
    const int status = good && !a.stopped ? run_serve(&common) : a.status;
    cdz_cli_options_free(&common);
    return status;
}

#else

int cdz_cmd_serve(int argc, char **argv)
{
    cdz_cli_options common = {0};
    cdz_args a = cdz_args_of(&cdz_page_serve, argc, argv, &common);
    while (cdz_args_next(&a)) {
    }
    cdz_cli_options_free(&common);
    if (a.stopped) return a.status;
    cdz_cli_say("serve: this build has no server: libmicrohttpd was not there when it was made");
    return CDZ_EXIT_FAILURE;
}

#endif
