/* fuzz_wire.c - any bytes as a message of a plugin's process, to each reader that the host has for them, which the first
 * byte chooses: taken or refused, nothing read past its end, nothing but words in what is shown, memory in proportion. */
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "isolate/answers.h"
#include "isolate/values.h"
#include "support/memory_meter.h"
#include "support/mock_host.h"

enum { STATE = 16, MOST_MORE = 1 << 20 };

static void check_shown(const char *text)
{
    for (size_t n = text ? strlen(text) : 0; n > 0;) {
        uint32_t code;
        const size_t len = cdz_utf8_decode(text, n, &code);
        FUZZ_CHECK(len && cdz_isolate_is_shown(code));
        text += len;
        n -= len;
    }
}

static void read_ready(cdz_wire_in *in)
{
    uint32_t guards;
    if (cdz_take_ready(in, &guards)) FUZZ_CHECK(guards <= CDZ_GUARDS_ALL && in->len == 8);
}

/* As a file's description is used: checked, defaults written, told. */
static void adopt(const cdz_plugin_base *plugin, cdz_arena *arena)
{
    cdz_descriptor d;
    cdz_error err = {0};
    if (cdz_descriptor_adopt("it", plugin, NULL, &d, &err) != CDZ_OK) {
        FUZZ_CHECK(strncmp(err.text, "it", 2) == 0);
        return;
    }
    const cdz_param_table table = cdz_params_of(&d.base);
    void *params = cdz_arena_alloc(arena, table.params_size ? table.params_size : 1);
    FUZZ_CHECK(params);
    cdz_params_defaults(&table, params);
    check_shown(d.base.summary);
    for (uint32_t i = 0; i < table.n; i++) {
        const cdz_param *param = cdz_param_at(&table, i);
        cdz_buf text = {0};
        cdz_param_write(param, params, &text);
        cdz_param_write_default(param, &text);
        check_shown(param->name);
        check_shown(param->help);
        cdz_buf_free(&text);
    }
}

static void read_hello(cdz_wire_in *in)
{
    char path[] = "it";
    cdz_isolate isolate = {.path = path};
    cdz_error err = {0};
    if (cdz_isolate_describe(&isolate, in, &err) == CDZ_OK)
        for (uint32_t i = 0; i < isolate.n; i++) adopt(isolate.plugins[i], &isolate.arena);
    else
        FUZZ_CHECK(strncmp(err.text, "it: ", 4) == 0);
    cdz_arena_free(&isolate.arena);
}

static void read_question(const uint8_t *data, size_t size)
{
    static unsigned char *map;
    cdz_isolate_session session = {0};
    if (!map) map = mock_map();
    mock_rows_lent = 0;
    (void)mock_ask(data, size, map, &session);
    FUZZ_CHECK(mock_most_text <= CDZ_ASK_TEXT_BYTES && mock_most_ids <= CDZ_ASK_IDS);
}

/* What follows DONE, by the call. */
static void read_gift(uint8_t call, cdz_wire_in *in, cdz_arena *arena)
{
    unsigned char state[STATE];
    cdz_stop stops[MOCK_ROWS] = {{0}};
    cdz_ids tokens;
    bool flag;
    if (call == 0 && cdz_take_state(in, state, sizeof state)) FUZZ_CHECK(in->pos == in->len);
    if (call == 1 && cdz_take_flag(in, &flag)) FUZZ_CHECK(in->pos == in->len);
    if (call == 2 && cdz_take_stops(in, arena, MOCK_ROWS, stops))
        for (uint32_t r = 0; r < MOCK_ROWS; r++) {
            FUZZ_CHECK(stops[r].text.at ? strlen(stops[r].text.at) == stops[r].text.len
                                        : stops[r].text.len == 0);
            check_shown(stops[r].text.at);
        }
    if (call != 3 || !cdz_take_draft(in, arena, &tokens)) return;
    FUZZ_CHECK(tokens.len <= CDZ_ASK_DRAFT && in->pos == in->len);
    for (const volatile int32_t *t = tokens.at; t < tokens.at + tokens.len; t++) (void)*t;
}

static void read_done(uint8_t call, cdz_wire_in *in)
{
    char text[CDZ_ERROR_TEXT];
    cdz_arena arena = {0};
    cdz_isolate_verdict verdict;
    if (cdz_take_done(in, &arena, &verdict)) {
        FUZZ_CHECK(verdict.code == CDZ_OK ? !verdict.said.at : in->pos == in->len);
        if (verdict.said.at) check_shown(cdz_isolate_clean(verdict.said, text, sizeof text));
        if (verdict.code == CDZ_OK) read_gift(call, in, &arena);
    }
    cdz_arena_free(&arena);
}

/* The same readers take what the host says, in the process. */
static void read_request(cdz_wire_in *in)
{
    cdz_arena arena = {0};
    cdz_request_info request;
    cdz_take_request(in, &arena, &request);
    for (uint32_t i = 0; !in->bad && i < request.n_prompts; i++)
        FUZZ_CHECK(request.prompts[i].len == 0 || request.prompts[i].at);
    cdz_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const uint8_t reader = data[0] % 8;
    cdz_wire_in in = {.at = data + 1, .len = size - 1};
    meter_begin();
    if (reader == 0) read_ready(&in);
    if (reader == 1) read_hello(&in);
    if (reader == 2) read_question(data + 1, size - 1);
    if (reader == 3) read_request(&in);
    if (reader >= 4) read_done((uint8_t)(reader - 4), &in);
    FUZZ_CHECK(meter_most() <= meter_allowed(size) + MOST_MORE);
    return 0;
}
