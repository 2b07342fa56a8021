/* log.c - what the server says of itself: the line that each request leaves (what it was, what it took, why it ended; no
 * prompts, no answers, no keys), remarks, and its load at this moment. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "serve/message.h"
#include "serve/process.h"

static bool says_json(cdz_serve *serve)
{
    return atomic_load(&serve->json_log);
}

static void hand_over(cdz_serve *serve, cdz_buf *line, bool json)
{
    if (!line->failed && line->data) serve->options.log(serve->options.user, line->data, json);
    cdz_buf_free(line);
}

static void put_member(cdz_buf *out, const char *name, const char *text)
{
    cdz_json_write_member(out, name, text, text ? strlen(text) : 0);
}

static void put_time(cdz_buf *out)
{
    struct timespec now;
    struct tm at;
    char text[32] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &at)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &at);
    cdz_buf_printf(out, "{\"time\":\"%s.%03dZ\"", text, (int)(now.tv_nsec / 1000000));
}

/* --- a request ------------------------------------------------------------------------------------------------- */

/* What of an exchange is told. */
typedef struct told {
    const char *path, *model, *pipeline, *strategy, *end, *trace; /* NULL: there is none */
    unsigned long long prompt, fresh;
    double first, total;
} told;

static told told_of(const cdz_http_exchange *e)
{
    return (told){
        .path = e->route ? e->route->path : NULL,
        .model = e->served ? e->served->id : NULL,
        .pipeline = e->asked ? e->ask.pipeline_name : NULL,
        .strategy = e->asked ? e->ask.strategy : NULL,
        .end = e->gone     ? "disconnect"
               : e->broken ? "error"
               : e->ended  ? e->ended
                           : "answered",
        .trace = e->traceparent[0] ? e->traceparent : NULL,
        .prompt = e->prompt_tokens,
        .fresh = e->new_tokens,
        .first = e->first_token > 0 ? e->first_token - e->arrived : 0,
        .total = cdz_now_s() - e->arrived,
    };
}

static const char *word(const char *text)
{
    return text ? text : "-";
}

static void put_text(const cdz_http_exchange *e, const told *t, cdz_buf *out)
{
    cdz_buf_printf(out,
                   "%s %s %s %d model=%s pipeline=%s strategy=%s prompt=%llu new=%llu first=%.3fs "
                   "total=%.3fs end=%s%s%s",
                   e->request_id, e->method, word(t->path), e->status, word(t->model),
                   word(t->pipeline), word(t->strategy), t->prompt, t->fresh, t->first, t->total,
                   t->end, t->trace ? " traceparent=" : "", t->trace ? t->trace : "");
}

static void put_json(const cdz_http_exchange *e, const told *t, cdz_buf *out)
{
    put_time(out);
    put_member(out, "id", e->request_id);
    put_member(out, "method", e->method);
    put_member(out, "path", t->path);
    cdz_buf_printf(out, ",\"status\":%d", e->status);
    put_member(out, "model", t->model);
    put_member(out, "pipeline", t->pipeline);
    put_member(out, "strategy", t->strategy);
    cdz_buf_printf(out,
                   ",\"prompt_tokens\":%llu,\"new_tokens\":%llu,\"first_token_s\":%.6f,"
                   "\"total_s\":%.6f",
                   t->prompt, t->fresh, t->first, t->total);
    put_member(out, "end", t->end);
    if (t->trace) put_member(out, "traceparent", t->trace);
    cdz_buf_putc(out, '}');
}

void cdz_serve_log_request(const cdz_http_exchange *e)
{
    const told t = told_of(e);
    const bool json = says_json(e->serve);
    cdz_buf line = {0};
    if (!e->serve->options.log) return;
    (json ? put_json : put_text)(e, &t, &line);
    hand_over(e->serve, &line, json);
}

/* --- remarks and load --------------------------------------------------------------------------------------------- */

void cdz_serve_remark(cdz_serve *serve, const char *text)
{
    const bool json = says_json(serve);
    cdz_buf line = {0};
    if (!serve->options.log) return;
    if (json) {
        put_time(&line);
        put_member(&line, "message", text);
        cdz_buf_putc(&line, '}');
    } else {
        cdz_buf_puts(&line, text);
    }
    hand_over(serve, &line, json);
}

cdz_serve_load cdz_serve_load_now(cdz_serve *serve)
{
    cdz_stats stats = {.size = sizeof stats};
    cdz_get_stats(serve->options.runtime, &stats);
    return (cdz_serve_load){.running = stats.n_running + stats.n_pending - stats.n_waiting,
                            .waiting = stats.n_waiting,
                            .new_tokens = atomic_load(&serve->metrics.new_tokens),
                            .memory = cdz_process_resident(),
                            .stuck = atomic_load(&serve->stuck)};
}
