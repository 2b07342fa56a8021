/* fuzz_reply.c - any bytes as an answer to a conversation: however they are cut, text, reasoning and calls are the same; a call
 * has a name and an object. The first byte says which markers there are, the second how many bytes come at a time. */
#include <string.h>

#include "fuzz.h"
#include "template/reply.h"

static const char *const forms[] = {
    "<tool_call><think></think>",
    "[TOOL_CALLS]",
    "<|python_tag|> dictionary of argument name and its value",
    "[func_name1(",
    "<|tool_call_start|>",
    "<TOOLCALL></think>",
    "<|tool_call|>",
    "functools[",
    "<function=",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜><｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|><|tool_call_begin|><|tool_calls_section_end|>",
    "<minimax:tool_call>",
    "<|START_ACTION|>",
    "<|channel|>",
};

static void put(cdz_buf *out, char kind, const char *text, size_t len)
{
    static _Thread_local char last;
    if (!out->len || kind != last) cdz_buf_putc(out, kind);
    last = kind;
    cdz_buf_add(out, text, len);
}

static void on_text(void *user, const char *text, size_t len)
{
    put(user, 't', text, len);
}

static void on_reasoning(void *user, const char *text, size_t len)
{
    put(user, 'r', text, len);
}

static void on_call(void *user, const char *name, const char *arguments)
{
    static const cdz_json_limits limits = {.depth = 200, .duplicates = true};
    cdz_arena arena = {0};
    cdz_json value;
    FUZZ_CHECK(*name);
    FUZZ_CHECK(cdz_json_parse(arguments, strlen(arguments), "arguments", &limits, &arena, &value,
                              NULL) == CDZ_OK);
    FUZZ_CHECK(value.type == CDZ_JSON_OBJECT);
    cdz_arena_free(&arena);
    put(user, 'c', name, strlen(name));
    put(user, 'a', arguments, strlen(arguments));
}

static cdz_buf say(const char *form, const char *text, size_t len, size_t piece)
{
    static const cdz_json none = {.type = CDZ_JSON_ARRAY};
    cdz_buf out = {0};
    cdz_reply reply = {.form = cdz_reply_form_of(form),
                       .tools = &none,
                       .sink = {on_text, on_reasoning, on_call, &out}};
    for (size_t at = 0; at < len; at += piece)
        cdz_reply_feed(&reply, text + at, len - at < piece ? len - at : piece);
    cdz_reply_end(&reply);
    FUZZ_CHECK(!reply.failed && !out.failed);
    cdz_reply_free(&reply);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || size > (1 << 14)) return 0;
    const char *form = forms[data[0] % (sizeof forms / sizeof *forms)];
    cdz_buf whole = say(form, (const char *)data + 2, size - 2, size);
    cdz_buf cut = say(form, (const char *)data + 2, size - 2, data[1] % 32 + 1u);
    FUZZ_CHECK(whole.len == cut.len && (!whole.len || memcmp(whole.data, cut.data, whole.len) == 0));
    cdz_buf_free(&whole);
    cdz_buf_free(&cut);
    return 0;
}
