/* fuzz_template.c - a chat template and a context for it, separated by a NUL byte. The template compiles or is refused
 * with a place; rendered twice within limits it says the same, and a failure leaves the output as it was.
 *
 * What a rendering may cost is counted, in steps and in text and lists gone through, so that an input of a few bytes that
 * works for seconds ends in a sentence on every machine; the fuzzer's clock is there for what is not counted. */
#include <stdint.h>
#include <string.h>

#include "fuzz.h"
#include "support/memory_meter.h"
#include "template/chat.h"

static const char before[] = "before";

enum { MAX_STEPS = 20000, MAX_TOUCHED = 16 << 20, MAX_OUTPUT = 1 << 16 };

static cdz_status render(cdz_chat_template *chat, const cdz_json *context, cdz_buf *out,
                         uint64_t *cost, cdz_error *err)
{
    cdz_template_span spans[4];
    cdz_template_options options = {.max_steps = MAX_STEPS,
                                    .max_touched = MAX_TOUCHED,
                                    .max_output = MAX_OUTPUT,
                                    .clock = "2026-01-15T12:34:56",
                                    .span = spans,
                                    .spans_cap = sizeof spans / sizeof *spans};
    cdz_buf_puts(out, before);
    const cdz_status status = cdz_chat_template_render(chat, context, &options, out, err);
    *cost = options.steps + options.touched;
    if (status == CDZ_OK)
        FUZZ_CHECK(options.steps <= MAX_STEPS && options.touched <= MAX_TOUCHED &&
                   out->len <= MAX_OUTPUT + sizeof before);
    if (status != CDZ_OK) FUZZ_CHECK(out->len == sizeof before - 1 && err->text[0]);
    FUZZ_CHECK(memcmp(out->data, before, sizeof before - 1) == 0);
    return status;
}

static void check_render(cdz_chat_template *chat, const char *json, size_t len)
{
    cdz_arena arena = {0};
    cdz_json context;
    cdz_error err, again;
    cdz_buf first = {0}, second = {0};
    uint64_t cost, same_cost;
    if (cdz_json_parse(json, len, "context", NULL, &arena, &context, &err) == CDZ_OK &&
        context.type == CDZ_JSON_OBJECT) {
        const cdz_status status = render(chat, &context, &first, &cost, &err);
        FUZZ_CHECK(render(chat, &context, &second, &same_cost, &again) == status);
        FUZZ_CHECK(cost == same_cost);
        FUZZ_CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    }
    cdz_buf_free(&first);
    cdz_buf_free(&second);
    cdz_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size ? memchr(text, 0, size) : NULL;
    const size_t len = end ? (size_t)(end - text) : size;
    cdz_chat_template *chat;
    cdz_error err;
    meter_begin();
    if (cdz_chat_template_parse(text, len, "fuzz", &chat, &err) != CDZ_OK) return 0;
    const cdz_status st = cdz_chat_template_choose(chat, NULL, false, &err);
    FUZZ_CHECK(meter_most() + len <= meter_allowed(len));
    if (st != CDZ_OK)
        FUZZ_CHECK(err.code == CDZ_E_NOMEM || strncmp(err.text, "fuzz", 4) == 0);
    else if (end)
        check_render(chat, end + 1, size - len - 1);
    cdz_chat_template_free(chat);
    return 0;
}
