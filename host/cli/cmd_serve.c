/* cmd_serve.c - cadenza serve: a model behind HTTP. The server is host/serve/; here are its options, its signals and its
 * lines. */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#ifdef CADENZA_HAVE_SERVE
#include "serve/serve.h"
#endif

enum {
    OPT_HOST = CDZ_OPT_OWN,
    OPT_PORT,
    OPT_KEYS,
    OPT_PIPELINES,
    OPT_QUEUE,
    OPT_ALLOWED_HOST,
    OPT_ORIGIN,
    OPT_DRAIN,
    OPT_ALIAS,
    MOST_NAMES = 64
};

static const cdz_flag flags[] = {
    {"host", 0, OPT_HOST, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "NAME",
     "the address to listen on; default: 127.0.0.1, which this machine alone reaches"},
    {"port", 0, OPT_PORT, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "N",
     "the port; 0: any that is free, which the first line tells; default: 8080"},
    {"api-key-file", 0, OPT_KEYS, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FILE",
     "a key a line, # begins a comment; requests need one of them: Authorization: Bearer KEY"},
    {"pipelines", 0, OPT_PIPELINES, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "FOLDER",
     "requests may name the ini files in it, without their ending: {\"cadenza\": {\"pipeline\": "
     "NAME}}"},
    {"model-name", 0, OPT_ALIAS, CDZ_FLAG_ONCE, "NAME",
     "what requests call the model; default: the name of its folder or file"},
    {"max-queue", 0, OPT_QUEUE, CDZ_FLAG_OFTEN | CDZ_FLAG_ONCE, "N",
     "requests that may wait; further ones get status 429; default: 256"},
    {"allowed-host", 0, OPT_ALLOWED_HOST, 0, "NAME",
     "another name of this machine that a request's Host may have, when it listens on loopback; may "
     "be repeated"},
    {"cors-origin", 0, OPT_ORIGIN, 0, "ORIGIN",
     "pages of this origin (https://chat.example.org) may ask; may be repeated"},
    {"drain-timeout", 0, OPT_DRAIN, CDZ_FLAG_ONCE, "SECONDS",
     "after SIGTERM: how long requests that are there may take to end; default: 25"},
    {0},
};

const cdz_page cdz_page_serve = {
    .name = "serve",
    .summary = "answer requests over HTTP, as OpenAI's API",
    .usage = "serve [MODEL] [options]\n",
    .about =
        "Serves a model to clients of OpenAI's API: completions, chats, streams, log-probabilities. "
        "A request may pick its decode loop, processors and parameters in its field \"cadenza\". "
        "SIGTERM or Ctrl-C ends it: new requests are refused, those that are there end; a second "
        "signal ends these too.",
    .flags = flags,
    .takes = CDZ_TAKES_MODEL | CDZ_TAKES_MACHINE | CDZ_TAKES_PLUGINS,
    .more_title = "Endpoints",
    .more =
        "  POST /v1/completions, /v1/chat/completions, /tokenize, /detokenize\n"
        "  GET  /v1/models, /v1/plugins, /v1/pipelines, /tokenizer_info, /health, /ready, /metrics\n"
        "  POST /v1/pipelines/reload\n",
    .examples = "cadenza serve\n"
                "cadenza serve my-model --port 8000 --api-key-file keys.txt\n"
                "cadenza serve my-model --pipelines pipelines/ --max-queue 64\n"
                "curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"river (noun): a\"}'\n",
};

typedef struct serve_words {
    cdz_cli_options common;
    const char *host, *keys, *pipelines, *alias;
    uint16_t port;
    uint32_t queue;
    double drain_s;
    const char *hosts[MOST_NAMES], *origins[MOST_NAMES];
    uint32_t n_hosts, n_origins;
} serve_words;

#ifdef CADENZA_HAVE_SERVE

static bool take_number(cdz_args *a, const char *name, double most, double *out)
{
    char *end;
    *out = strtod(a->value, &end);
    if (end != a->value && !*end && *out >= 0 && *out <= most) return true;
    cdz_args_refuse(a, "--%s %s: expected a number from 0 to %.0f", name, a->value, most);
    return false;
}

static void add_name(cdz_args *a, const char *name, const char **names, uint32_t *n)
{
    if (*n == MOST_NAMES)
        cdz_args_refuse(a, "--%s: more than %d of them", name, MOST_NAMES);
    else
        names[(*n)++] = a->value;
}

static void take_option(serve_words *o, cdz_args *a)
{
    double number = 0;
    switch (a->opt) {
    case OPT_HOST: o->host = a->value; break;
    case OPT_KEYS: o->keys = a->value; break;
    case OPT_PIPELINES: o->pipelines = a->value; break;
    case OPT_ALIAS: o->alias = a->value; break;
    case OPT_PORT:
        if (take_number(a, "port", 65535, &number)) o->port = (uint16_t)number;
        break;
    case OPT_QUEUE:
        if (take_number(a, "max-queue", 1e6, &number)) o->queue = (uint32_t)number;
        break;
    case OPT_DRAIN: take_number(a, "drain-timeout", 1e6, &o->drain_s); break;
    case OPT_ALLOWED_HOST: add_name(a, "allowed-host", o->hosts, &o->n_hosts); break;
    case OPT_ORIGIN: add_name(a, "cors-origin", o->origins, &o->n_origins); break;
    default: break;
    }
}

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
    cdz_serve_stop(user);
}

static void say_line(void *user, const char *line)
{
    (void)user;
    cdz_cli_say("%s", line);
}

static void say_start(const serve_words *o, const char *model, const cdz_serve *server)
{
    cdz_cli_say("serve: %s on http://%s:%u, %s", model, o->host, cdz_serve_port(server),
                cdz_serve_has_keys(server) ? "with keys" : "without keys");
    if (!cdz_serve_is_loopback(server) && !cdz_serve_has_keys(server))
        cdz_cli_say("serve: warning: other machines reach this address, and no key is asked for; "
                    "--api-key-file names some");
}

static int serve(const serve_words *o, cdz_session *session)
{
    char name[PATH_MAX];
    cdz_serve *server = NULL;
    cdz_error err = {0};
    name_model(session->folder, name, sizeof name);
    const cdz_serve_options options = {
        .runtime = session->runtime,
        .model = session->model,
        .model_id = o->alias ? o->alias : name,
        .host = o->host,
        .port = o->port,
        .key_file = o->keys,
        .pipelines = o->pipelines,
        .hosts = o->hosts,
        .n_hosts = o->n_hosts,
        .origins = o->origins,
        .n_origins = o->n_origins,
        .most_waiting = o->queue,
        .drain_s = o->drain_s,
        .log = say_line,
    };
    /* Whoever reads the log may go away; clients' answers go on. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (cdz_serve_open(&options, &server, &err) != CDZ_OK) return cdz_cli_fail(&err);
    cdz_cli_on_stop(on_signal, server);
    say_start(o, options.model_id, server);
    cdz_serve_wait(server);
    cdz_cli_on_stop(NULL, NULL);
    cdz_serve_close(server);
    cdz_cli_say("serve: stopped");
    return CDZ_EXIT_OK;
}

int cdz_cmd_serve(int argc, char **argv)
{
    serve_words o = {.host = "127.0.0.1", .port = 8080, .queue = 256, .drain_s = 25};
    cdz_session session = {0};
    cdz_args a = cdz_args_of(&cdz_page_serve, argc, argv, &o.common);
    while (cdz_args_next(&a)) take_option(&o, &a);
    const bool good =
        !a.stopped && cdz_args_take_model(&a, &o.common.host.program.model) && cdz_args_end(&a);
    int status = a.status;
    if (good && !a.stopped) {
        o.common.host.options.max_queue = o.queue;
        status = cdz_session_open(&o.common, &session);
        if (status == CDZ_EXIT_OK) status = serve(&o, &session);
        cdz_session_close(&session);
    }
    cdz_cli_options_free(&o.common);
    return status;
}

#else

int cdz_cmd_serve(int argc, char **argv)
{
    serve_words o = {0};
    cdz_args a = cdz_args_of(&cdz_page_serve, argc, argv, &o.common);
    while (cdz_args_next(&a)) {
    }
    cdz_cli_options_free(&o.common);
    if (a.stopped) return a.status;
    cdz_cli_say("serve: this build has no server: libmicrohttpd was not there when it was made");
    return CDZ_EXIT_FAILURE;
}

#endif
