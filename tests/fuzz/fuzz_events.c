/* fuzz_events.c - any bytes as the text of an answer that is streamed: each event is one line of JSON behind its name, and the
 * pieces join to what the whole answer says. The first byte: what is asked for; the second: bytes of a piece. */
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "serve/message.h"

/* A data line; false: something else. */
static bool read_data(const char *line, size_t len, cdz_arena *arena, cdz_json *out)
{
    static const cdz_json_limits limits = {.depth = 200, .duplicates = true};
    return len > 6 && memcmp(line, "data: ", 6) == 0 &&
           cdz_json_parse(line + 6, len - 6, "event", &limits, arena, out, NULL) == CDZ_OK;
}

static void check_events(const cdz_buf *out, bool named)
{
    const char *at = out->data, *end = at ? at + out->len : at;
    while (at < end) {
        cdz_arena arena = {0};
        cdz_json event;
        const char *stop = memmem(at, (size_t)(end - at), "\n\n", 2);
        const char *line = named ? memchr(at, '\n', (size_t)(end - at)) : at;
        FUZZ_CHECK(stop && line);
        line += named;
        FUZZ_CHECK(!memchr(line, '\n', (size_t)(stop - line)) &&
                   read_data(line, (size_t)(stop - line), &arena, &event));
        if (named) {
            const cdz_json *type = cdz_json_get(&event, "type");
            FUZZ_CHECK(memcmp(at, "event: ", 7) == 0 && type &&
                       type->len == (size_t)(line - at) - 8 &&
                       memcmp(at + 7, type->string, type->len) == 0);
        }
        cdz_arena_free(&arena);
        at = stop + 2;
    }
}

static const cdz_buf no_odds;

static void speak(cdz_http_exchange *e, const char *text, size_t len, size_t piece)
{
    cdz_generation_run *run = e->runs;
    cdz_choice end = {.finish = "stop"};
    FUZZ_CHECK(cdz_message_open(run));
    if (e->ask.respond) cdz_respond_begin(e);
    for (size_t at = 0; e->streaming && at < len; at += piece)
        cdz_message_say(run->chats, text + at, len - at < piece ? len - at : piece, NULL, 0,
                        &no_odds);
    FUZZ_CHECK(cdz_message_end(run->chats, e->streaming ? "" : text, e->streaming ? 0 : len, &end));
    if (e->ask.respond)
        cdz_respond_end(e, true);
    else
        cdz_serve_answer_event(e, &end);
    if (e->streaming) check_events(&e->out, e->ask.respond);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const cdz_json none = {.type = CDZ_JSON_ARRAY};
    static cdz_serve serve;
    static char id[] = "a \"model\"\n";
    static cdz_served served = {.id = id};
    if (size < 2 || size > (1 << 14)) return 0;
    cdz_http_exchange *e = calloc(1, sizeof *e);
    cdz_generation_run run = {.exchange = e, .rows = 1, .copies = 1};
    FUZZ_CHECK(e);
    e->serve = &serve;
    e->served = &served;
    e->runs = &run;
    e->n_runs = 1;
    e->ask = (cdz_asking){
        .chat = true, .n = 1, .respond = data[0] & 1, .tools = data[0] & 2 ? &none : NULL};
    e->ask.form = cdz_reply_form_of("<tool_call></think>");
    e->streaming = data[0] & 4;
    cdz_mutex_init(&e->lock);
    cdz_mutex_lock(&e->lock);
    speak(e, (const char *)data + 2, size - 2, data[1] % 32 + 1u);
    cdz_mutex_unlock(&e->lock);
    cdz_mutex_destroy(&e->lock);
    cdz_message_close(&run);
    cdz_buf_free(&e->out);
    free(e);
    return 0;
}
