/* ask_response.c - a body of /v1/responses as the chat that it asks for: its input becomes messages, its tools get their
 * "function", and what stays as it is goes over under its name. */
#include <string.h>

#include "serve/ask.h"

typedef struct writing {
    cdz_buf *out;
    cdz_serve_fault *fault;
    bool calls; /* a message is open that makes calls */
    bool any;
} writing;

static bool no_input(writing *w, const char *why)
{
    return cdz_serve_fault_set(w->fault, 400, "input", NULL, "'input': %s", why);
}

/* --- messages ----------------------------------------------------------------------------------------------------------- */

static void close_calls(writing *w)
{
    if (w->calls) cdz_buf_puts(w->out, "]}");
    w->calls = false;
}

static void begin(writing *w)
{
    close_calls(w);
    cdz_buf_puts(w->out, w->any ? ", " : "");
    w->any = true;
}

static void put_member(cdz_buf *out, const char *before, const cdz_json *value)
{
    cdz_buf_puts(out, before);
    cdz_json_write(out, value);
}

/* Texts of a list of parts, as a chat has them. */
static bool put_parts(writing *w, const cdz_json *parts)
{
    static const char *const types[] = {"input_text", "output_text", "text", "summary_text",
                                        "refusal"};
    cdz_buf_putc(w->out, '[');
    for (uint32_t i = 0; i < parts->len; i++) {
        const cdz_json *type = cdz_json_get(&parts->items[i], "type");
        const cdz_json *text = cdz_json_get(&parts->items[i], "text");
        size_t k = 0;
        if (!text) text = cdz_json_get(&parts->items[i], "refusal");
        while (k < 5 && !cdz_json_eq(type, types[k])) k++;
        if (k == 5 || !cdz_json_is(text, CDZ_JSON_STRING))
            return no_input(w, "a part of a content is no text; this model reads text alone");
        put_member(
            w->out,
            i ? ", {\"type\": \"text\", \"text\": " : "{\"type\": \"text\", \"text\": ", text);
        cdz_buf_putc(w->out, '}');
    }
    cdz_buf_putc(w->out, ']');
    return true;
}

static bool put_content(writing *w, const cdz_json *content)
{
    if (cdz_json_is(content, CDZ_JSON_ARRAY)) return put_parts(w, content);
    if (!cdz_json_is(content, CDZ_JSON_STRING))
        return no_input(w, "a content must be a string or a list of text parts");
    cdz_json_write(w->out, content);
    return true;
}

static bool put_message(writing *w, const cdz_json *item)
{
    const cdz_json *role = cdz_json_get(item, "role");
    if (!cdz_json_is(role, CDZ_JSON_STRING)) return no_input(w, "an item has no role");
    begin(w);
    put_member(w->out, "{\"role\": ", role);
    cdz_buf_puts(w->out, ", \"content\": ");
    if (!put_content(w, cdz_json_get(item, "content"))) return false;
    cdz_buf_putc(w->out, '}');
    return true;
}

/* Calls that follow each other are one message's. */
static bool put_call(writing *w, const cdz_json *item)
{
    const cdz_json *id = cdz_ask_field(item, "call_id");
    const cdz_json *name = cdz_json_get(item, "name");
    const cdz_json *arguments = cdz_json_get(item, "arguments");
    if (!cdz_json_is(id, CDZ_JSON_STRING) || !cdz_json_is(name, CDZ_JSON_STRING) ||
        !cdz_json_is(arguments, CDZ_JSON_STRING))
        return no_input(w, "a function_call needs the texts call_id, name and arguments");
    if (w->calls) {
        cdz_buf_puts(w->out, ", ");
    } else {
        begin(w);
        cdz_buf_puts(w->out, "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [");
        w->calls = true;
    }
    put_member(w->out, "{\"type\": \"function\", \"id\": ", id);
    put_member(w->out, ", \"function\": {\"name\": ", name);
    put_member(w->out, ", \"arguments\": ", arguments);
    cdz_buf_puts(w->out, "}}");
    return true;
}

static bool put_output(writing *w, const cdz_json *item)
{
    const cdz_json *id = cdz_json_get(item, "call_id");
    if (!cdz_json_is(id, CDZ_JSON_STRING))
        return no_input(w, "a function_call_output needs a call_id");
    begin(w);
    put_member(w->out, "{\"role\": \"tool\", \"tool_call_id\": ", id);
    cdz_buf_puts(w->out, ", \"content\": ");
    if (!put_content(w, cdz_json_get(item, "output"))) return false;
    cdz_buf_putc(w->out, '}');
    return true;
}

static bool put_item(writing *w, const cdz_json *item)
{
    const cdz_json *type = cdz_ask_field(item, "type");
    if (item->type != CDZ_JSON_OBJECT) return no_input(w, "an item must be an object");
    if (!type || cdz_json_eq(type, "message")) return put_message(w, item);
    if (cdz_json_eq(type, "function_call")) return put_call(w, item);
    if (cdz_json_eq(type, "function_call_output")) return put_output(w, item);
    if (cdz_json_eq(type, "reasoning"))
        return true; /* of earlier answers: templates leave it out */
    return no_input(w, "an item's type must be message, function_call, function_call_output or "
                       "reasoning; nothing is stored here");
}

static bool put_messages(writing *w, const cdz_json *body)
{
    const cdz_json *input = cdz_ask_field(body, "input");
    const cdz_json *instructions = cdz_ask_field(body, "instructions");
    if (instructions && instructions->type != CDZ_JSON_STRING)
        return cdz_ask_wrong(w->fault, "instructions", "a string", instructions);
    if (!input) return cdz_serve_fault_set(w->fault, 400, "input", NULL, "'input' is missing");
    cdz_buf_puts(w->out, "\"messages\": [");
    if (instructions) {
        begin(w);
        put_member(w->out, "{\"role\": \"system\", \"content\": ", instructions);
        cdz_buf_putc(w->out, '}');
    }
    if (input->type == CDZ_JSON_STRING) {
        begin(w);
        put_member(w->out, "{\"role\": \"user\", \"content\": ", input);
        cdz_buf_putc(w->out, '}');
    } else if (input->type != CDZ_JSON_ARRAY || !input->len) {
        return no_input(w, "expected a string or a list of at least one item");
    } else {
        for (uint32_t i = 0; i < input->len; i++)
            if (!put_item(w, &input->items[i])) return false;
    }
    close_calls(w);
    cdz_buf_putc(w->out, ']');
    return true;
}

/* --- tools, and the rest ------------------------------------------------------------------------------------------------ */

/* {"type", "name", ...} becomes {"type", "function": {"name", ...}}. */
static bool put_tools(writing *w, const cdz_json *tools)
{
    if (tools->type != CDZ_JSON_ARRAY) return cdz_ask_wrong(w->fault, "tools", "a list", tools);
    cdz_buf_puts(w->out, ", \"tools\": [");
    for (uint32_t i = 0; i < tools->len; i++) {
        const cdz_json *tool = &tools->items[i];
        if (!cdz_json_eq(cdz_json_get(tool, "type"), "function"))
            return cdz_serve_fault_set(w->fault, 400, "tools", NULL,
                                       "'tools' entry %u: its type must be \"function\"", i);
        cdz_buf_puts(w->out, i ? ", {\"type\": \"function\", \"function\": {"
                               : "{\"type\": \"function\", \"function\": {");
        bool first = true;
        for (uint32_t k = 0; k < tool->len; k++) {
            if (strcmp(tool->members[k].key, "type") == 0) continue;
            cdz_buf_puts(w->out, first ? "" : ", ");
            cdz_json_write_string(w->out, tool->members[k].key, tool->members[k].key_len);
            put_member(w->out, ": ", &tool->members[k].value);
            first = false;
        }
        cdz_buf_puts(w->out, "}}");
    }
    cdz_buf_putc(w->out, ']');
    return true;
}

/* What would need a store, another model or another answer. `neutral`: JSON that is let through. */
static const struct {
    const char *name, *neutral, *says;
} refused[] = {
    {"previous_response_id", NULL, "answers are not stored; send the conversation as 'input'"},
    {"conversation", NULL, "conversations are not stored; send them as 'input'"},
    {"background", "false", "answers are made while the client waits"},
    {"prompt", NULL, "prompts are not stored; send 'input'"},
    {"truncation", "\"disabled\"", "a conversation that does not fit is refused"},
    {"top_logprobs", "0", "use /v1/chat/completions"},
    {"n", "1", "a response has one answer"},
    {"response_format", "{\"type\": \"text\"}", "use 'text.format'"},
    {"messages", NULL, "send 'input'"},
    {"max_tokens", NULL, "use 'max_output_tokens'"},
    {"max_completion_tokens", NULL, "use 'max_output_tokens'"},
    {"logprobs", "false", "use /v1/chat/completions"},
};

static bool refuse_some(const cdz_json *body, cdz_serve_fault *fault)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const cdz_json *value = cdz_ask_field(body, refused[i].name);
        if (!value || (refused[i].neutral && cdz_ask_is_json(value, refused[i].neutral))) continue;
        return cdz_serve_fault_set(fault, 400, refused[i].name, NULL, "'%s' is not supported: %s",
                                   refused[i].name, refused[i].says);
    }
    const cdz_json *include = cdz_ask_field(body, "include");
    if (include && include->type != CDZ_JSON_ARRAY)
        return cdz_ask_wrong(fault, "include", "a list", include);
    for (uint32_t i = 0; include && i < include->len; i++)
        if (!cdz_json_eq(&include->items[i], "reasoning.encrypted_content"))
            return cdz_serve_fault_set(fault, 400, "include", NULL,
                                       "'include' entry %u cannot be had here", i);
    return true;
}

/* The form of the answer: a chat's response_format, without the "json_schema" around "schema". */
static bool put_format(writing *w, const cdz_json *body)
{
    const cdz_json *text = cdz_ask_field(body, "text");
    const cdz_json *format = text ? cdz_ask_field(text, "format") : NULL;
    if (text && text->type != CDZ_JSON_OBJECT)
        return cdz_ask_wrong(w->fault, "text", "an object", text);
    if (format) put_member(w->out, ", \"response_format\": ", format);
    return true;
}

/* {"effort"} becomes a chat's reasoning_effort; summaries are not made. */
static bool put_reasoning(writing *w, const cdz_json *body)
{
    const cdz_json *reasoning = cdz_ask_field(body, "reasoning");
    const cdz_json *effort =
        cdz_json_is(reasoning, CDZ_JSON_OBJECT) ? cdz_ask_field(reasoning, "effort") : NULL;
    if (reasoning && reasoning->type != CDZ_JSON_OBJECT)
        return cdz_ask_wrong(w->fault, "reasoning", "an object", reasoning);
    if (effort && effort->type != CDZ_JSON_STRING)
        return cdz_ask_wrong(w->fault, "reasoning.effort", "a string", effort);
    if (!effort) effort = cdz_ask_field(body, "reasoning_effort");
    if (effort) put_member(w->out, ", \"reasoning_effort\": ", effort);
    return true;
}

static bool check_stream_options(const cdz_json *body, cdz_serve_fault *fault)
{
    const cdz_json *options = cdz_ask_field(body, "stream_options");
    if (!options || options->type == CDZ_JSON_OBJECT) return true;
    return cdz_ask_wrong(fault, "stream_options", "an object", options);
}

static bool is_ours(const char *name)
{
    static const char *const ours[] = {"input",
                                       "instructions",
                                       "tools",
                                       "messages",
                                       "text",
                                       "response_format",
                                       "truncation",
                                       "top_logprobs",
                                       "logprobs",
                                       "n",
                                       "max_tokens",
                                       "max_completion_tokens",
                                       "stream_options",
                                       "background",
                                       "include",
                                       "reasoning",
                                       "reasoning_effort"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(ours[i], name) == 0) return true;
    return false;
}

static bool put_body(writing *w, const cdz_json *body)
{
    const cdz_json *tools = cdz_ask_field(body, "tools");
    cdz_buf_putc(w->out, '{');
    if (!put_messages(w, body) || (tools && !put_tools(w, tools)) || !put_format(w, body) ||
        !put_reasoning(w, body) || !check_stream_options(body, w->fault))
        return false;
    for (uint32_t i = 0; i < body->len; i++) {
        const cdz_json_member *m = &body->members[i];
        if (is_ours(m->key) || m->value.type == CDZ_JSON_NULL) continue;
        cdz_buf_puts(w->out, ", ");
        cdz_json_write_string(w->out, m->key, m->key_len);
        put_member(w->out, ": ", &m->value);
    }
    cdz_buf_putc(w->out, '}');
    return true;
}

bool cdz_ask_response(cdz_asking *a)
{
    cdz_buf text = {0};
    writing w = {.out = &text, .fault = a->fault};
    a->asked = a->body;
    bool good = refuse_some(&a->body, a->fault) && put_body(&w, &a->body);
    const char *kept =
        good && !text.failed ? cdz_arena_strndup(&a->arena, text.data, text.len) : NULL;
    if (good && !kept)
        good = cdz_serve_fault_set(a->fault, 500, NULL, NULL, "out of memory for the request");
    good = good && cdz_ask_parse(kept, text.len, &a->arena, &a->body, a->fault);
    cdz_buf_free(&text);
    return good;
}
