/* routes.c - endpoints, who may use them, and those that need no engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/utf8.h"
#include "serve/exchange.h"
#include "serve/page.h"
#include "serve/process.h"

/* Takes the text over. */
static void reply(cdz_http_exchange *e, const char *type, cdz_buf *text)
{
    cdz_mutex_lock(&e->lock);
    cdz_buf_free(&e->out);
    e->out = *text;
    const bool failed = e->out.failed;
    cdz_mutex_unlock(&e->lock);
    if (!failed) {
        cdz_serve_exchange_reply(e, 200, type);
        return;
    }
    cdz_serve_fault_set(&e->fault, 500, NULL, NULL, "out of memory for the answer");
    cdz_serve_exchange_refuse(e);
}

static void reply_json(cdz_http_exchange *e, cdz_buf *text)
{
    reply(e, "application/json", text);
}

/* --- state ------------------------------------------------------------------------------------------------------ */

static void health(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    if (atomic_load(&e->serve->stuck)) {
        cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "the engine has stood still for %d s",
                            CDZ_SERVE_WATCH_PATIENCE_S);
        cdz_serve_exchange_refuse(e);
        return;
    }
    cdz_buf_puts(&text, "{\"status\":\"ok\"}");
    reply_json(e, &text);
}

/* Which limit of the queue has been reached; CDZ_N_REFUSED: none. */
static cdz_metric_refusal full_of(const cdz_serve *serve)
{
    cdz_stats stats = {.size = sizeof stats};
    const unsigned most = atomic_load(&serve->most_waiting);
    const unsigned most_tokens = atomic_load(&serve->most_waiting_tokens);
    if (!most && !most_tokens) return CDZ_N_REFUSED;
    cdz_get_stats(serve->options.runtime, &stats);
    if (most_tokens && stats.n_waiting_tokens >= most_tokens) return CDZ_REFUSED_TOKENS;
    return most && stats.n_waiting_rows >= most ? CDZ_REFUSED_QUEUE : CDZ_N_REFUSED;
}

static void ready(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    if (atomic_load(&e->serve->draining) || full_of(e->serve) != CDZ_N_REFUSED) {
        cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "%s",
                            atomic_load(&e->serve->draining) ? "the server is stopping"
                                                             : "the queue is full");
        cdz_serve_exchange_refuse(e);
        return;
    }
    cdz_buf_puts(&text, "{\"status\":\"ready\"}");
    reply_json(e, &text);
}

/* What the engine counts. */
static void put_engine(cdz_serve *serve, const char *model, cdz_buf *out)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(serve->options.runtime, &stats);
    const double limit = (double)stats.kv_bytes_limit;
    cdz_metrics_put(out, "num_requests_running", "gauge", "requests that decode, or begin to",
                    model, (double)(stats.n_running + stats.n_pending - stats.n_waiting));
    cdz_metrics_put(out, "num_requests_paused", "gauge",
                    "of those that run: requests whose clients read too slowly", model,
                    (double)stats.n_paused);
    cdz_metrics_put(out, "num_requests_waiting", "gauge", "requests that found no place", model,
                    (double)stats.n_waiting);
    cdz_metrics_put(out, "num_prompt_tokens_waiting", "gauge", "tokens of their prompts", model,
                    (double)stats.n_waiting_tokens);
    cdz_metrics_put(out, "kv_cache_usage_perc", "gauge",
                    "KV memory that requests hold or were promised, of 1", model,
                    limit > 0 ? (double)stats.kv_bytes_held / limit : 0);
    cdz_metrics_put(out, "kv_blocks_used", "gauge", "KV blocks in use", model,
                    (double)stats.kv_blocks_used);
    cdz_metrics_put(out, "kv_blocks_cached", "gauge", "KV blocks kept for prompts to come", model,
                    (double)stats.kv_blocks_cached);
    cdz_metrics_put(out, "prefix_cache_queries_total", "counter",
                    "tokens of prompts that were looked for in the prefix cache", model,
                    (double)stats.n_prefix_queries);
    cdz_metrics_put(out, "prefix_cache_hits_total", "counter",
                    "tokens of prompts that were found in it", model, (double)stats.n_prefix_hits);
    cdz_metrics_put(out, "num_preemptions_total", "counter",
                    "requests that gave their KV blocks to an older one", model,
                    (double)stats.n_preemptions);
    cdz_metrics_put(out, "iterations_total", "counter", "passes through the model", model,
                    (double)stats.n_passes);
    cdz_metrics_put_powers(out, "iteration_tokens_total", "positions in each of those passes",
                           model, stats.n_passes_to, CDZ_STATS_PASSES, (double)stats.n_pass_rows);
    cdz_metrics_put(out, "spec_decode_num_draft_tokens_total", "counter",
                    "tokens that drafters proposed", model, (double)stats.n_drafted);
    cdz_metrics_put(out, "spec_decode_num_accepted_tokens_total", "counter",
                    "of those: tokens that were right", model, (double)stats.n_accepted);
}

static void metrics(cdz_http_exchange *e)
{
    cdz_serve *serve = e->serve;
    char model[128];
    cdz_buf text = {0};
    cdz_served_first_id(serve, model, sizeof model);
    put_engine(serve, model, &text);
    cdz_metrics_put(&text, "connections", "gauge", "open connections", model,
                    (double)cdz_door_n_guests(serve->door));
    cdz_metrics_write(&serve->metrics, model, &text);
    cdz_process_write(&text);
    reply(e, "text/plain; version=0.0.4; charset=utf-8", &text);
}

/* --- what there is ------------------------------------------------------------------------------------------------ */

static void models(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    cdz_buf_puts(&text, "{\"object\":\"list\",\"data\":[");
    cdz_served_put_all(e->serve, &text);
    cdz_buf_puts(&text, "]}");
    reply_json(e, &text);
}

static void one_model(cdz_http_exchange *e)
{
    cdz_buf text = {0};
    const char *id = e->path + strlen(e->route->path);
    if (cdz_served_put_one(e->serve, id, &text)) {
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
    cdz_serve *serve = e->serve;
    cdz_buf text = {0};
    const char *comma = "";
    cdz_buf_puts(&text, "{\"object\":\"list\",\"data\":[");
    cdz_mutex_lock(&serve->folder_lock);
    for (const struct cdz_pipeline_file *p = serve->pipelines; p; p = p->next) {
        if (!p->listed) continue;
        cdz_buf_printf(&text, "%s{\"id\":", comma);
        cdz_json_write_string(&text, p->name, strlen(p->name));
        cdz_buf_printf(&text, ",\"object\":\"pipeline\",\"generation\":%llu}",
                       (unsigned long long)cdz_pipeline_generation(p->pipeline));
        comma = ",";
    }
    cdz_mutex_unlock(&serve->folder_lock);
    cdz_buf_puts(&text, "]}");
    reply_json(e, &text);
}

/* --- reading small bodies --------------------------------------------------------------------------------------- */

/* A body, which may be absent. */
static bool read_body(cdz_http_exchange *e, cdz_arena *arena, cdz_json *out)
{
    *out = (cdz_json){.type = CDZ_JSON_OBJECT};
    return !e->body.len || cdz_ask_parse(e->body.data, e->body.len, arena, out, &e->fault);
}

/* A worker's endpoint: reads the body, answers, lets go. */
void cdz_serve_with_body(cdz_http_exchange *e,
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

/* Of all: the settings too, and files of pipelines that are new. */
static cdz_status reload_all(cdz_serve *serve, cdz_error *err)
{
    if (serve->options.reread) return serve->options.reread(serve->options.user, err);
    cdz_mutex_lock(&serve->change_lock);
    const cdz_status status = cdz_serve_read_folder(serve, serve->rules->is.pipelines, err);
    cdz_mutex_unlock(&serve->change_lock);
    return status;
}

static bool reload_pipelines(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    cdz_serve *serve = e->serve;
    const cdz_json *name = cdz_ask_field(body, "pipeline");
    bool found = true;
    cdz_error err = {0};
    if (name && name->type != CDZ_JSON_STRING)
        return cdz_serve_fault_set(&e->fault, 400, "pipeline", NULL, "'pipeline' must be a string");
    const cdz_status status = name ? cdz_serve_reload_pipeline(serve, name->string, &found, &err)
                                   : reload_all(serve, &err);
    if (status != CDZ_OK)
        return cdz_serve_fault_set(&e->fault, 400, name ? "pipeline" : NULL, NULL, "%s", err.text);
    if (!found)
        return cdz_serve_fault_set(&e->fault, 404, "pipeline", NULL,
                                   "there is no pipeline '%.80s' here", name->string);
    cdz_buf_puts(out, "{\"object\":\"list\",\"reloaded\":true}");
    return true;
}

static void reload(cdz_http_exchange *e)
{
    cdz_serve_with_body(e, reload_pipelines);
}

/* "prompt", "content" or "messages": one of them. */
static const cdz_json *text_of(cdz_http_exchange *e, const cdz_json *body)
{
    static const char *const names[] = {"prompt", "content", "messages"};
    const cdz_json *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cdz_json *value = cdz_ask_field(body, names[i]);
        if (value && found) {
            cdz_serve_fault_set(&e->fault, 400, names[i], NULL,
                                "'prompt', 'content' and 'messages' are given one at a time");
            return NULL;
        }
        if (value) found = value;
    }
    if (!found)
        cdz_serve_fault_set(&e->fault, 400, "prompt", NULL,
                            "expected 'prompt' (a string) or 'messages'");
    return found;
}

/* vLLM's name, and llama-server's. */
static bool take_special(cdz_http_exchange *e, const cdz_json *body, bool *out)
{
    return cdz_ask_bool(body, "add_special", true, out, &e->fault) &&
           cdz_ask_bool(body, "add_special_tokens", *out, out, &e->fault);
}

bool cdz_serve_tokenize(cdz_http_exchange *e, const cdz_json *body, int32_t **ids, size_t *n)
{
    bool special;
    cdz_error err = {0};
    if (!cdz_ask_model(&e->served->world, body, &e->fault)) return false;
    const cdz_json *text = text_of(e, body);
    if (!text) return false;
    if (cdz_ask_field(body, "messages"))
        return cdz_ask_messages(&e->served->world, body, ids, n, &e->fault);
    if (text->type != CDZ_JSON_STRING)
        return cdz_serve_fault_set(&e->fault, 400, "prompt", NULL,
                                   "expected 'prompt' (a string) or 'messages'");
    if (!take_special(e, body, &special)) return false;
    if (cdz_tokenize(e->served->model, text->string, text->len, special, ids, n, &err) == CDZ_OK)
        return true;
    return cdz_serve_fault_of(&e->fault, "prompt", &err);
}

/* An id with what it writes: a text, or bytes where they are no whole characters. */
static void put_piece(const cdz_http_exchange *e, int32_t id, cdz_buf *out)
{
    size_t len = 0;
    bool writes;
    char *bytes = cdz_trail_bytes(e->served->model, id, true, &len, &writes);
    cdz_buf_printf(out, "{\"id\":%d,\"piece\":", (int)id);
    if (bytes && cdz_utf8_valid(bytes, len))
        cdz_json_write_string(out, bytes, len);
    else
        cdz_trail_write_bytes(out, bytes, bytes ? len : 0);
    cdz_buf_putc(out, '}');
    out->failed |= !bytes;
    cdz_free(bytes);
}

static void put_text(const cdz_http_exchange *e, int32_t id, cdz_buf *out)
{
    char *text = NULL;
    size_t len = 0;
    out->failed |= cdz_token_text(e->served->model, id, &text, &len, NULL) != CDZ_OK;
    cdz_json_write_string(out, text ? text : "", len);
    cdz_free(text);
}

static void put_each(const cdz_http_exchange *e, const int32_t *ids, size_t n,
                     void (*put)(const cdz_http_exchange *e, int32_t id, cdz_buf *out), cdz_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        cdz_buf_puts(out, i ? "," : "");
        put(e, ids[i], out);
    }
}

/* pieces: llama-server's, in the place of ids; texts: vLLM's, beside them. */
static bool put_tokens(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    int32_t *ids = NULL;
    size_t n = 0;
    bool pieces, texts;
    if (!cdz_ask_bool(body, "with_pieces", false, &pieces, &e->fault) ||
        !cdz_ask_bool(body, "return_token_strs", false, &texts, &e->fault) ||
        !cdz_serve_tokenize(e, body, &ids, &n))
        return false;
    cdz_buf_puts(out, "{\"tokens\":[");
    if (pieces)
        put_each(e, ids, n, put_piece, out);
    else
        cdz_ask_write_ids(out, ids, n);
    cdz_buf_printf(out, "],\"count\":%zu", n);
    if (e->served->context) cdz_buf_printf(out, ",\"max_model_len\":%u", e->served->context);
    if (texts) {
        cdz_buf_puts(out, ",\"token_strs\":[");
        put_each(e, ids, n, put_text, out);
        cdz_buf_putc(out, ']');
    }
    cdz_buf_putc(out, '}');
    cdz_free(ids);
    return true;
}

static void tokenize(cdz_http_exchange *e)
{
    cdz_serve_with_body(e, put_tokens);
}

static bool put_detokenized(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    const cdz_json *tokens = cdz_ask_field(body, "tokens");
    int32_t *ids = NULL;
    size_t n = 0;
    char *text = NULL;
    cdz_error err = {0};
    if (!cdz_ask_model(&e->served->world, body, &e->fault)) return false;
    if (!cdz_json_is(tokens, CDZ_JSON_ARRAY))
        return cdz_serve_fault_set(&e->fault, 400, "tokens", NULL, "'tokens' must be a list of ids");
    if (!cdz_ask_ids(&e->served->world, tokens, "tokens", &ids, &n, &e->fault)) return false;
    const cdz_status status = cdz_detokenize(e->served->model, ids, n, false, &text, &err);
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
    cdz_serve_with_body(e, put_detokenized);
}

static bool put_tokenizer_info(cdz_http_exchange *e, const cdz_json *body, cdz_buf *out)
{
    char *json = cdz_tokenizer_info_json(e->served->model);
    (void)body;
    cdz_buf_puts(out, json ? json : "{}");
    cdz_free(json);
    return true;
}

static void tokenizer_info(cdz_http_exchange *e)
{
    cdz_serve_with_body(e, put_tokenizer_info);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

/* Of one path several methods; a path whose `rest` is set stands after those that it begins. */
static const cdz_serve_route routes[] = {
    {"/", CDZ_ROUTE_GET, false, true, false, false, cdz_serve_page},
    {"/health", CDZ_ROUTE_GET, false, true, false, false, health},
    {"/ready", CDZ_ROUTE_GET, false, true, false, false, ready},
    {"/metrics", CDZ_ROUTE_GET, false, false, false, false, metrics},
    {"/v1/models", CDZ_ROUTE_GET, false, false, false, false, models},
    {"/v1/models/", CDZ_ROUTE_GET, true, false, false, false, one_model},
    {"/v1/plugins", CDZ_ROUTE_GET, false, false, true, false, plugins},
    {"/v1/pipelines", CDZ_ROUTE_GET, false, false, false, false, pipelines},
    {"/v1/pipelines/reload", CDZ_ROUTE_POST, false, false, true, false, reload},
    {"/v1/completions", CDZ_ROUTE_POST, false, false, true, true, cdz_complete},
    {"/v1/chat/completions", CDZ_ROUTE_POST, false, false, true, true, cdz_complete},
    {"/v1/responses", CDZ_ROUTE_POST, false, false, true, true, cdz_complete},
    {"/tokenize", CDZ_ROUTE_POST, false, false, true, true, tokenize},
    {"/detokenize", CDZ_ROUTE_POST, false, false, true, true, detokenize},
    {"/tokenizer_info", CDZ_ROUTE_GET, false, false, true, true, tokenizer_info},
    {"/v1/kv", CDZ_ROUTE_GET, false, false, true, false, cdz_serve_saved_list},
    {"/v1/kv/", CDZ_ROUTE_PUT, true, false, true, true, cdz_serve_saved_put},
    {"/v1/kv/", CDZ_ROUTE_DELETE, true, false, true, false, cdz_serve_saved_delete},
};

static const char *const method_names[] = {
    [CDZ_ROUTE_GET] = "GET",
    [CDZ_ROUTE_POST] = "POST",
    [CDZ_ROUTE_PUT] = "PUT",
    [CDZ_ROUTE_DELETE] = "DELETE",
};

static bool is_at(const cdz_serve_route *route, const char *path)
{
    const size_t n = strlen(route->path);
    return route->rest ? strncmp(path, route->path, n) == 0 && path[n]
                       : strcmp(path, route->path) == 0;
}

static bool takes(const cdz_serve_route *route, const char *method)
{
    return strcmp(method, method_names[route->method]) == 0 ||
           (route->method == CDZ_ROUTE_GET && strcmp(method, "HEAD") == 0);
}

/* The one that takes the method; else the first of the path, or NULL. */
static const cdz_serve_route *route_of(const char *path, const char *method)
{
    const cdz_serve_route *first = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const cdz_serve_route *route = &routes[i];
        if (!is_at(route, path) || (first && strcmp(first->path, route->path) != 0)) continue;
        if (takes(route, method)) return route;
        if (!first) first = route;
    }
    return first;
}

const char *cdz_serve_route_allows(const cdz_http_exchange *e)
{
    static const char *const allows[] = {
        [CDZ_ROUTE_GET] = "GET, HEAD, OPTIONS",
        [CDZ_ROUTE_POST] = "POST, OPTIONS",
        [CDZ_ROUTE_PUT] = "PUT, DELETE, OPTIONS",
        [CDZ_ROUTE_DELETE] = "PUT, DELETE, OPTIONS",
    };
    return e->route ? allows[e->route->method] : "GET, HEAD, POST, PUT, DELETE, OPTIONS";
}

/* --- who may ---------------------------------------------------------------------------------------------------- */

static bool is_json(cdz_slice type)
{
    static const char json[] = "application/json";
    static const size_t n = sizeof json - 1;
    if (!type.at) return true;
    if (type.len < n || strncasecmp(type.at, json, n) != 0) return false;
    return type.len == n || type.at[n] == ';' || type.at[n] == ' ';
}

/* Of the page at /, asked by the name that the server has. A name that anybody may have pointed here says nothing: then it
 * takes a key, which a page of somebody else's does not know. */
static bool is_own_page(const cdz_http_exchange *e, const struct cdz_http_seen *head)
{
    const cdz_serve_rules *o = &e->serve->rules->is;
    cdz_assert_holds(&e->serve->rules_lock);
    return cdz_serve_origin_is_own(head->origin, head->host) &&
           (cdz_serve_host_is_local(head->host, o->hosts, o->n_hosts) ||
            cdz_serve_host_is_address(head->host) || e->serve->rules->keys.n > 0);
}

static bool check_site(cdz_http_exchange *e, const struct cdz_http_seen *head)
{
    const cdz_serve_rules *o = &e->serve->rules->is;
    cdz_assert_holds(&e->serve->rules_lock);
    if (cdz_door_is_loopback(e->serve->door) &&
        !cdz_serve_host_is_local(head->host, o->hosts, o->n_hosts))
        return cdz_serve_fault_set(&e->fault, 421, NULL, NULL,
                                   "this Host is not served here; --allowed-host names others");
    if (!head->origin.at || is_own_page(e, head)) return true;
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
    if (takes(e->route, e->method)) return true;
    return cdz_serve_fault_set(&e->fault, 405, NULL, NULL, "this path takes %s",
                               cdz_serve_route_allows(e));
}

static bool check_load(cdz_http_exchange *e)
{
    if (!e->route->work) return true;
    if (atomic_load(&e->serve->draining)) {
        cdz_metrics_refuse(&e->serve->metrics, CDZ_REFUSED_STOPPING);
        return cdz_serve_fault_set(&e->fault, 503, NULL, NULL, "the server is stopping");
    }
    const bool queues = e->route->answer == cdz_complete || e->route->answer == cdz_serve_saved_put;
    const cdz_metric_refusal full = queues ? full_of(e->serve) : CDZ_N_REFUSED;
    if (full == CDZ_N_REFUSED) return true;
    cdz_metrics_refuse(&e->serve->metrics, full);
    return cdz_serve_fault_set(&e->fault, 429, NULL, "queue_full",
                               "as many %s are waiting as may; try again",
                               full == CDZ_REFUSED_TOKENS ? "tokens of prompts" : "requests");
}

/* Of an Authorization that opens: what one key's holders have computed is found by them alone. */
static void note_key(cdz_http_exchange *e, cdz_slice authorization)
{
    static const size_t scheme = sizeof "Bearer " - 1;
    cdz_sha256_hex(authorization.at + scheme, authorization.len - scheme, e->key);
}

static bool reads_body(const cdz_serve_route *route)
{
    return route->method == CDZ_ROUTE_POST || route->method == CDZ_ROUTE_PUT;
}

static bool is_open(const cdz_http_exchange *e)
{
    return e->route->open || (e->serve->rules->is.open_metrics && e->route->answer == metrics);
}

/* version-trace-parent-flags in lower hex, as W3C's trace context has it; a later version may say more behind it. Anything else
 * is left out. */
static void take_trace(cdz_http_exchange *e, cdz_slice value)
{
    static const char form[] = "xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
    enum { LENGTH = sizeof form - 1, TRACE = 3, PARENT = 36 };
    if (!value.at || value.len < LENGTH) return;
    for (size_t i = 0; i < LENGTH; i++)
        if (form[i] == '-' ? value.at[i] != '-' : !cdz_byte_in(value.at[i], "0123456789abcdef"))
            return;
    if (value.len > LENGTH && (strncmp(value.at, "00", 2) == 0 || value.at[LENGTH] != '-')) return;
    if (strncmp(value.at, "ff", 2) == 0 || strspn(value.at + TRACE, "0") >= 32 ||
        strspn(value.at + PARENT, "0") >= 16)
        return;
    snprintf(e->traceparent, sizeof e->traceparent, "%.*s", (int)LENGTH, value.at);
}

/* The rules' lock is held. */
static bool check_all(cdz_http_exchange *e, const struct cdz_http_seen *head)
{
    cdz_head_id(head->request_id, e->request_id);
    take_trace(e, head->traceparent);
    e->route = strcmp(e->path, "*") == 0 ? NULL : route_of(e->path, e->method);
    if (!check_site(e, head)) {
        cdz_metrics_refuse(&e->serve->metrics, CDZ_REFUSED_SITE);
        return false;
    }
    if (strcmp(e->path, "*") == 0 && strcmp(e->method, "OPTIONS") == 0) return true;
    if (!check_method(e)) return false;
    if (strcmp(e->method, "OPTIONS") == 0) return true;
    if (!is_open(e) && !cdz_keys_open(&e->serve->rules->keys, head->authorization)) {
        cdz_metrics_refuse(&e->serve->metrics, CDZ_REFUSED_KEY);
        return cdz_serve_fault_set(&e->fault, 401, NULL, "invalid_api_key",
                                   "an API key is needed: Authorization: Bearer KEY");
    }
    if (!is_open(e) && e->serve->rules->keys.n) note_key(e, head->authorization);
    if (reads_body(e->route) && !is_json(head->content_type))
        return cdz_serve_fault_set(&e->fault, 415, NULL, NULL,
                                   "Content-Type must be application/json");
    return check_load(e);
}

bool cdz_serve_route_check(cdz_http_exchange *e, const struct cdz_http_seen *head)
{
    cdz_mutex_lock(&e->serve->rules_lock);
    const bool good = check_all(e, head);
    cdz_mutex_unlock(&e->serve->rules_lock);
    return good;
}
