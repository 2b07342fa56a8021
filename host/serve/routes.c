/* routes.c - endpoints, who may use them, and those that need no engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "serve/exchange.h"

static void reply_json(cdz_http_exchange *e, cdz_buf *text)
{
    cdz_mutex_lock(&e->lock);
    cdz_buf_free(&e->out);
    e->out = *text;
    const bool failed = e->out.failed;
    cdz_mutex_unlock(&e->lock);
    if (!failed) {
        cdz_serve_exchange_reply(e, 200, "application/json");
        return;
    }
    cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory for the answer");
    cdz_serve_exchange_refuse(e);
}

/* --- state ------------------------------------------------------------------------------------------------------ */

static void health(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    if (atomic_load(&e->serve->stuck)) {
        cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "the engine has stood still for 30 s");
        cdz_serve_exchange_refuse(e);
        return;
    }
    cdz_buf_puts(&text, "{\"status\":\"ok\"}");
    reply_json(e, &text);
}

static bool is_full(const cdz_serve *serve)
{
    cdz_stats stats = {.size = sizeof stats};
    if (!serve->options.most_waiting) return false;
    cdz_get_stats(serve->options.runtime, &stats);
    return stats.n_pending >= serve->options.most_waiting;
}

static void ready(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    if (atomic_load(&e->serve->draining) || is_full(e->serve)) {
        cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "%s",
                            atomic_load(&e->serve->draining) ? "the server is stopping"
                                                             : "the queue is full");
        cdz_serve_exchange_refuse(e);
        return;
    }
    cdz_buf_puts(&text, "{\"status\":\"ready\"}");
    reply_json(e, &text);
}

static void metrics(cdz_http_exchange *e)
{
    cdz_serve *serve = e->serve;
    const char *model = serve->options.model_id;
    cdz_stats stats = {.size = sizeof stats};
    cdz_buf text = {0};
    cdz_get_stats(serve->options.runtime, &stats);
    cdz_metrics_put(&text, "num_requests_running", "gauge", "requests that decode", model,
                    (double)stats.n_running);
    cdz_metrics_put(&text, "num_requests_waiting", "gauge", "requests that wait", model,
                    (double)stats.n_pending);
    cdz_metrics_put(&text, "kv_blocks_used", "gauge", "KV blocks in use", model,
                    (double)stats.kv_blocks_used);
    cdz_metrics_put(&text, "iterations_total", "counter", "passes through the model", model,
                    (double)stats.n_passes);
    cdz_metrics_put(&text, "iteration_tokens_total", "counter", "positions in those passes", model,
                    (double)stats.n_pass_rows);
    cdz_metrics_put(&text, "connections", "gauge", "open connections", model,
                    (double)cdz_door_n_guests(serve->door));
    cdz_metrics_write(&serve->metrics, model, &text);
    cdz_mutex_lock(&e->lock);
    cdz_buf_free(&e->out);
    e->out = text;
    cdz_mutex_unlock(&e->lock);
    cdz_serve_exchange_reply(e, 200, "text/plain; version=0.0.4; charset=utf-8");
}

/* --- what there is ------------------------------------------------------------------------------------------------ */

static void put_card(const cdz_serve *serve, cdz_buf *out)
{
    const char *id = serve->options.model_id;
    cdz_buf_puts(out, "{\"id\":");
    cdz_json_write_string(out, id, strlen(id));
    cdz_buf_printf(out,
                   ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"cadenza\","
                   "\"max_model_len\":%u}",
                   (long long)serve->created, cdz_model_context(serve->options.model));
}

static void models(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    cdz_buf_puts(&text, "{\"object\":\"list\",\"data\":[");
    put_card(e->serve, &text);
    cdz_buf_puts(&text, "]}");
    reply_json(e, &text);
}

static void one_model(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    const char *id = e->path + strlen(e->route->path);
    if (strcmp(id, e->serve->options.model_id) == 0) {
        put_card(e->serve, &text);
        reply_json(e, &text);
        return;
    }
    cdz_serve_fault_set(&e->fault, 404, "model", "model_not_found",
                        "there is no model '%.80s' here; /v1/models lists them", id);
    cdz_serve_exchange_refuse(e);
}

static void plugins(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    char *json = NULL;
    if (cdz_plugins_json(e->serve->options.runtime, &json, &err) != CDZ_OK) {
        cdz_serve_fault_of(&e->fault, NULL, &err);
        cdz_serve_exchange_refuse(e);
    } else {
        cdz_buf_printf(&text, "{\"object\":\"list\",\"data\":%s}", json);
        cdz_free(json);
        reply_json(e, &text);
    }
    cdz_serve_exchange_release(e);
}

static void pipelines(cdz_http_exchange *e)
{
    const cdz_serve *serve = e->serve;
    cdz_buf text = {0};
    cdz_buf_puts(&text, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < serve->n_pipelines; i++) {
        cdz_buf_puts(&text, i ? ",{\"id\":" : "{\"id\":");
        cdz_json_write_string(&text, serve->pipelines[i].name, strlen(serve->pipelines[i].name));
        cdz_buf_printf(&text, ",\"object\":\"pipeline\",\"generation\":%llu}",
                       (unsigned long long)cdz_pipeline_generation(serve->pipelines[i].pipeline));
    }
    cdz_buf_puts(&text, "]}");
    reply_json(e, &text);
}

/* --- reading small bodies --------------------------------------------------------------------------------------- */

static bool read_body(cdz_http_exchange *e, cdz_arena *arena, cdz_json *out)
{
    static const cdz_json_limits limits = {.depth = 128, .nodes = 4 << 20};
    static const cdz_json none = {.type = CDZ_JSON_OBJECT};
    cdz_error err = {0};
    *out = none;
    if (e->body.len &&
        cdz_json_parse(e->body.data, e->body.len, "body", &limits, arena, out, &err) != CDZ_OK)
        return cdz_serve_fault_set(&e->fault, 400, NULL, NULL, "%s", err.text);
    if (out->type == CDZ_JSON_OBJECT) return true;
    return cdz_serve_fault_set(&e->fault, 400, NULL, NULL,
                               "the body must be a JSON object, found %s", cdz_json_type_name(out));
}

/* A worker's endpoint: reads the body, answers, lets go. */
static void with_body(cdz_http_exchange *e,
                      bool (*answer)(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out))
{
    cdz_arena arena = {0};
    cdz_json body;
    cdz_buf text = {0};
    if (read_body(e, &arena, &body) && answer(e, &body, &text)) {
        reply_json(e, &text);
    } else {
        cdz_buf_free(&text);
        cdz_serve_exchange_refuse(e);
    }
    cdz_arena_free(&arena);
    cdz_serve_exchange_release(e);
}

static bool reload_pipelines(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    cdz_serve *serve = e->serve;
    const cdz_json *name = cdz_ask_field(body, "pipeline");
    size_t found = 0;
    if (name && name->type != CDZ_JSON_STRING)
        return cdz_serve_fault_set(&e->fault, 400, "pipeline", NULL, "'pipeline' must be a string");
    for (size_t i = 0; i < serve->n_pipelines; i++) {
        cdz_error err = {0};
        if (name && !cdz_json_eq(name, serve->pipelines[i].name)) continue;
        found++;
        if (cdz_pipeline_reload(serve->pipelines[i].pipeline, serve->options.model, &err) != CDZ_OK)
            return cdz_serve_fault_set(&e->fault, 400, "pipeline", NULL, "%s", err.text);
    }
    if (name && !found)
        return cdz_serve_fault_set(&e->fault, 404, "pipeline", NULL,
                                   "there is no pipeline '%.80s' here", name->string);
    cdz_buf_printf(out, "{\"object\":\"list\",\"reloaded\":%zu}", found);
    return true;
}

static void reload(cdz_http_exchange *e)
{
    with_body(e, reload_pipelines);
}

static bool tokenize_text(cdz_http_exchange *e, const cdz_json *body, int32_t **ids, size_t *n)
{
    const cdz_json *text = cdz_ask_field(body, "prompt");
    bool special;
    cdz_error err = {0};
    if (!text) text = cdz_ask_field(body, "content");
    if (cdz_ask_field(body, "messages"))
        return cdz_ask_messages(&e->serve->world, body, ids, n, &e->fault);
    if (!cdz_json_is(text, CDZ_JSON_STRING))
        return cdz_serve_fault_set(&e->fault, 400, "prompt", NULL,
                                   "expected 'prompt' (a string) or 'messages'");
    if (!cdz_ask_bool(body, "add_special_tokens", true, &special, &e->fault)) return false;
    if (cdz_tokenize(e->serve->options.model, text->string, text->len, special, ids, n, &err) ==
        CDZ_OK)
        return true;
    return cdz_serve_fault_of(&e->fault, "prompt", &err);
}

static bool put_tokens(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    int32_t *ids = NULL;
    size_t n = 0;
    if (!tokenize_text(e, body, &ids, &n)) return false;
    cdz_buf_puts(out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) cdz_buf_printf(out, "%s%d", i ? "," : "", (int)ids[i]);
    cdz_buf_printf(out, "],\"count\":%zu,\"max_model_len\":%u}", n,
                   cdz_model_context(e->serve->options.model));
    cdz_free(ids);
    return true;
}

static void tokenize(cdz_http_exchange *e)
{
    with_body(e, put_tokens);
}

static bool put_detokenized(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    const cdz_json *tokens = cdz_ask_field(body, "tokens");
    int32_t *ids = NULL;
    size_t n = 0;
    char *text = NULL;
    cdz_error err = {0};
    if (!cdz_json_is(tokens, CDZ_JSON_ARRAY))
        return cdz_serve_fault_set(&e->fault, 400, "tokens", NULL, "'tokens' must be a list of ids");
    if (!cdz_ask_ids(&e->serve->world, tokens, "tokens", &ids, &n, &e->fault)) return false;
    const cdz_status status = cdz_detokenize(e->serve->options.model, ids, n, false, &text, &err);
    free(ids);
    if (status != CDZ_OK) return cdz_serve_fault_of(&e->fault, "tokens", &err);
    cdz_buf_puts(out, "{\"prompt\":");
    cdz_json_write_string(out, text, strlen(text));
    cdz_buf_puts(out, ",\"content\":");
    cdz_json_write_string(out, text, strlen(text));
    cdz_buf_putc(out, '}');
    cdz_free(text);
    return true;
}

static void detokenize(cdz_http_exchange *e)
{
    with_body(e, put_detokenized);
}

static void tokenizer_info(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    char *json = cdz_tokenizer_info_json(e->serve->options.model);
    cdz_buf_puts(&text, json ? json : "{}");
    cdz_free(json);
    reply_json(e, &text);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* Of one path several methods; a path whose `rest` is set stands after those that it begins. */
static const cdz_serve_route routes[] = {
    {"/health", false, false, true, false, health},
    {"/ready", false, false, true, false, ready},
    {"/metrics", false, false, false, false, metrics},
    {"/v1/models", false, false, false, false, models},
    {"/v1/models/", false, true, false, false, one_model},
    {"/v1/plugins", false, false, false, true, plugins},
    {"/v1/pipelines", false, false, false, false, pipelines},
    {"/v1/pipelines/reload", true, false, false, true, reload},
    {"/v1/completions", true, false, false, true, cdz_complete},
    {"/v1/chat/completions", true, false, false, true, cdz_complete},
    {"/tokenize", true, false, false, true, tokenize},
    {"/detokenize", true, false, false, true, detokenize},
    {"/tokenizer_info", false, false, false, false, tokenizer_info},
};

static const cdz_serve_route *route_of(const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const size_t n = strlen(routes[i].path);
        if (routes[i].rest ? strncmp(path, routes[i].path, n) == 0 && path[n]
                           : strcmp(path, routes[i].path) == 0)
            return &routes[i];
    }
    return NULL;
}

/* --- who may ---------------------------------------------------------------------------------------------------- */

static void take_request_id(cdz_http_exchange *e, cdz_slice id)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    unsigned char random[12] = {0};
    if (id.at && id.len && id.len < sizeof e->request_id) {
        memcpy(e->request_id, id.at, id.len);
        e->request_id[id.len] = '\0';
        if (strspn(e->request_id, allowed) == id.len) return;
    }
    if (getrandom(random, sizeof random, 0) < 0) random[0] = 1;
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(e->request_id + 2 * i, 3, "%02x", random[i]);
}

static bool is_json(cdz_slice type)
{
    static const char json[] = "application/json";
    static const size_t n = sizeof json - 1;
    if (!type.at) return true;
    if (type.len < n || strncasecmp(type.at, json, n) != 0) return false;
    return type.len == n || type.at[n] == ';' || type.at[n] == ' ';
}

static bool check_site(cdz_http_exchange *e, const struct cdz_http_seen *head)
{
    const cdz_serve_options *o = &e->serve->options;
    if (cdz_door_is_loopback(e->serve->door) &&
        !cdz_serve_host_is_local(head->host, o->hosts, o->n_hosts))
        return cdz_serve_fault_set(&e->fault, 421, NULL, NULL,
                                   "this Host is not served here; --allowed-host names others");
    if (!head->origin.at) return true;
    if (cdz_serve_origin_is_allowed(head->origin, o->origins, o->n_origins)) {
        snprintf(e->origin, sizeof e->origin, "%.*s", (int)head->origin.len, head->origin.at);
        return true;
    }
    if (strcmp(e->method, "GET") == 0 || strcmp(e->method, "HEAD") == 0) return true;
    return cdz_serve_fault_set(
        &e->fault, 403, NULL, NULL,
        "pages of this Origin may not ask; --cors-origin names those that may");
}

static bool check_method(cdz_http_exchange *e)
{
    static const char *const never[] = {"TRACE", "CONNECT"};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(e->method, never[i]) == 0)
            return cdz_serve_fault_set(&e->fault, 405, NULL, NULL, "%s is not served here",
                                       e->method);
    if (!e->route)
        return cdz_serve_fault_set(&e->fault, 404, NULL, NULL, "there is nothing at this path");
    if (strcmp(e->method, "OPTIONS") == 0) return true;
    const bool get = strcmp(e->method, "GET") == 0 || strcmp(e->method, "HEAD") == 0;
    if (e->route->post ? strcmp(e->method, "POST") == 0 : get) return true;
    return cdz_serve_fault_set(&e->fault, 405, NULL, NULL, "this path takes %s",
                               e->route->post ? "POST" : "GET");
}

static bool check_load(cdz_http_exchange *e)
{
    if (!e->route->work) return true;
    if (atomic_load(&e->serve->draining))
        return cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "the server is stopping");
    if (e->route->answer != cdz_complete || !is_full(e->serve)) return true;
    atomic_fetch_add(&e->serve->metrics.refused, 1);
    return cdz_serve_fault_set(&e->fault, 429, NULL, "queue_full",
                               "%u requests are waiting already", e->serve->options.most_waiting);
}

bool cdz_serve_route_check(cdz_http_exchange *e, const struct cdz_http_seen *head)
{
    take_request_id(e, head->request_id);
    snprintf(e->traceparent, sizeof e->traceparent, "%.*s",
             (int)(head->traceparent.at ? head->traceparent.len : 0),
             head->traceparent.at ? head->traceparent.at : "");
    e->route = strcmp(e->path, "*") == 0 ? NULL : route_of(e->path);
    if (!check_site(e, head)) return false;
    if (strcmp(e->path, "*") == 0 && strcmp(e->method, "OPTIONS") == 0) return true;
    if (!check_method(e)) return false;
    if (strcmp(e->method, "OPTIONS") == 0) return true;
    if (!e->route->open && !cdz_keys_open(&e->serve->keys, head->authorization))
        return cdz_serve_fault_set(&e->fault, 401, NULL, "invalid_api_key",
                                   "an API key is needed: Authorization: Bearer KEY");
    if (e->route->post && !is_json(head->content_type))
        return cdz_serve_fault_set(&e->fault, 415, NULL, NULL,
                                   "Content-Type must be application/json");
    return check_load(e);
}
