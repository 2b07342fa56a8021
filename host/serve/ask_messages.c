/* ask_messages.c - the messages of a chat, as the model's template takes them. */
#include <string.h>

#include "base/sha256.h"
#include "serve/ask.h"

/* Texts of a content list, joined. */
static bool put_parts(const cdz_json *parts, cdz_buf *out, cdz_serve_fault *fault)
{
    cdz_buf text = {0};
    bool good = true;
    for (uint32_t i = 0; good && i < parts->len; i++) {
        const cdz_json *type = cdz_json_get(&parts->items[i], "type");
        const cdz_json *said = cdz_json_get(&parts->items[i], "text");
        good = (cdz_json_eq(type, "text") || cdz_json_eq(type, "input_text")) &&
               cdz_json_is(said, CDZ_JSON_STRING);
        if (good) cdz_buf_add(&text, said->string, said->len);
    }
    out->failed |= text.failed;
    if (good)
        cdz_json_write_string(out, text.data ? text.data : "", text.len);
    else
        cdz_serve_fault_set(fault, 400, "messages", NULL,
                            "a part of a message's content is no text; this model reads text alone");
    cdz_buf_free(&text);
    return good;
}

static bool put_content(const cdz_json *content, bool may_be_null, cdz_buf *out,
                        cdz_serve_fault *fault)
{
    if (cdz_json_is(content, CDZ_JSON_STRING)) {
        cdz_json_write_string(out, content->string, content->len);
        return true;
    }
    if (cdz_json_is(content, CDZ_JSON_ARRAY)) return put_parts(content, out, fault);
    if (may_be_null && (!content || content->type == CDZ_JSON_NULL)) {
        cdz_buf_puts(out, "\"\"");
        return true;
    }
    return cdz_serve_fault_set(
        fault, 400, "messages", NULL,
        "a message's content must be a string or a list of text parts, found %s",
        content ? cdz_json_type_name(content) : "nothing");
}

/* Arguments come as a text; templates want the object in it. */
static void put_arguments(const cdz_json *arguments, cdz_buf *out)
{
    cdz_arena arena = {0};
    cdz_json value;
    cdz_status status = CDZ_E_INPUT;
    if (cdz_json_is(arguments, CDZ_JSON_STRING))
        status = cdz_json_parse(arguments->string, arguments->len, "arguments", NULL, &arena,
                                &value, NULL);
    out->failed |= status == CDZ_E_NOMEM;
    cdz_json_write(out, status == CDZ_OK ? &value : arguments);
    cdz_arena_free(&arena);
}

/* The id of a call as the template wants it: nine letters or digits, which are its own last ones where it has so many. */
static void put_id(const cdz_json *id, bool nine, cdz_buf *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    uint8_t hash[CDZ_SHA256_BYTES];
    const char *last = id->len > 9 ? id->string + id->len - 9 : id->string;
    if (!nine || (id->len >= 9 && strspn(last, letters) == 9)) {
        cdz_json_write_string(out, nine ? last : id->string, nine ? 9 : id->len);
        return;
    }
    cdz_sha256(id->string, id->len, hash);
    cdz_buf_putc(out, '"');
    for (size_t i = 0; i < 9; i++) cdz_buf_printf(out, "%x", hash[i] & 15u);
    cdz_buf_putc(out, '"');
}

/* Arguments as an object are what some clients send, and what the template wants. */
static bool check_call(const cdz_json *call, cdz_serve_fault *fault)
{
    const cdz_json *id = cdz_ask_field(call, "id"), *type = cdz_ask_field(call, "type");
    const cdz_json *function = cdz_ask_field(call, "function");
    const cdz_json *arguments = function ? cdz_ask_field(function, "arguments") : NULL;
    if (!function || !cdz_json_is(cdz_ask_field(function, "name"), CDZ_JSON_STRING) || !arguments)
        return cdz_serve_fault_set(fault, 400, "messages", NULL,
                                   "an entry of tool_calls needs function.name and arguments");
    if (arguments->type != CDZ_JSON_STRING && arguments->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(fault, 400, "messages", NULL,
                                   "arguments of tool_calls must be a string, found %s",
                                   cdz_json_type_name(arguments));
    if ((type && !cdz_json_eq(type, "function")) || (id && id->type != CDZ_JSON_STRING))
        return cdz_serve_fault_set(
            fault, 400, "messages", NULL,
            "an entry of tool_calls has the type 'function', and a string as id");
    return true;
}

static void put_call(const cdz_json *call, bool nine, cdz_buf *out)
{
    const cdz_json *id = cdz_ask_field(call, "id"), *function = cdz_json_get(call, "function");
    cdz_buf_puts(out, "{\"type\": \"function\"");
    if (id) {
        cdz_buf_puts(out, ", \"id\": ");
        put_id(id, nine, out);
    }
    cdz_buf_puts(out, ", \"function\": {\"name\": ");
    cdz_json_write(out, cdz_json_get(function, "name"));
    cdz_buf_puts(out, ", \"arguments\": ");
    put_arguments(cdz_json_get(function, "arguments"), out);
    cdz_buf_puts(out, "}}");
}

static bool put_calls(const cdz_json *calls, bool nine, cdz_buf *out, cdz_serve_fault *fault)
{
    cdz_buf_puts(out, ", \"tool_calls\": [");
    for (uint32_t i = 0; i < calls->len; i++) {
        if (!check_call(&calls->items[i], fault)) return false;
        cdz_buf_puts(out, i ? ", " : "");
        put_call(&calls->items[i], nine, out);
    }
    cdz_buf_putc(out, ']');
    return true;
}

static bool is_role(const cdz_json *role)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (cdz_json_eq(role, roles[i])) return true;
    return false;
}

/* An assistant's message that says something else than text. */
static bool may_lack_content(const cdz_json *message)
{
    const cdz_json *calls = cdz_ask_field(message, "tool_calls");
    return cdz_json_eq(cdz_json_get(message, "role"), "assistant") &&
           ((calls && calls->len) || cdz_ask_field(message, "reasoning_content"));
}

static bool put_message(const cdz_json *message, bool nine, cdz_buf *out, cdz_serve_fault *fault)
{
    const cdz_json *role = cdz_json_get(message, "role");
    const cdz_json *calls = cdz_ask_field(message, "tool_calls");
    if (message->type != CDZ_JSON_OBJECT || !is_role(role))
        return cdz_serve_fault_set(
            fault, 400, "messages", NULL,
            "a message must be an object with a role: system, developer, user, "
            "assistant or tool");
    if (calls && calls->type != CDZ_JSON_ARRAY)
        return cdz_serve_fault_set(fault, 400, "messages", NULL, "tool_calls must be a list");
    cdz_buf_printf(out, "{\"role\": \"%s\", \"content\": ",
                   cdz_json_eq(role, "developer") ? "system" : role->string);
    if (!put_content(cdz_json_get(message, "content"), may_lack_content(message), out, fault))
        return false;
    if (calls && calls->len && !put_calls(calls, nine, out, fault)) return false;
    static const char *const kept[] = {"name", "reasoning_content", "tool_call_id"};
    for (size_t i = 0; i < 3; i++) {
        const cdz_json *value = cdz_ask_field(message, kept[i]);
        if (!value) continue;
        if (value->type != CDZ_JSON_STRING)
            return cdz_serve_fault_set(fault, 400, "messages", NULL,
                                       "a message's %s must be a string, found %s", kept[i],
                                       cdz_json_type_name(value));
        cdz_buf_printf(out, ", \"%s\": ", kept[i]);
        put_id(value, nine && i == 2, out);
    }
    cdz_buf_putc(out, '}');
    return true;
}

/* Variables of the template: the request's own, and those that stand beside them. */
static bool put_variables(const cdz_json *body, cdz_buf *out, cdz_serve_fault *fault)
{
    static const char *const flags[] = {"add_generation_prompt", "continue_final_message"};
    const cdz_json *given = cdz_ask_field(body, "chat_template_kwargs");
    bool first = true;
    if (given && given->type != CDZ_JSON_OBJECT)
        return cdz_serve_fault_set(fault, 400, "chat_template_kwargs", NULL,
                                   "'chat_template_kwargs' must be an object");
    cdz_buf_puts(out, ", \"chat_template_kwargs\": {");
    for (uint32_t i = 0; given && i < given->len; i++) {
        cdz_buf_puts(out, first ? "" : ", ");
        cdz_json_write_string(out, given->members[i].key, given->members[i].key_len);
        cdz_buf_puts(out, ": ");
        cdz_json_write(out, &given->members[i].value);
        first = false;
    }
    for (size_t i = 0; i < 2; i++) {
        bool value;
        if (!cdz_ask_bool(body, flags[i], false, &value, fault)) return false;
        if (!cdz_ask_field(body, flags[i]) || (given && cdz_json_get(given, flags[i]))) continue;
        cdz_buf_printf(out, "%s\"%s\": %s", first ? "" : ", ", flags[i], value ? "true" : "false");
        first = false;
    }
    const cdz_json *effort = cdz_ask_field(body, "reasoning_effort");
    if (effort && effort->type != CDZ_JSON_STRING)
        return cdz_ask_wrong(fault, "reasoning_effort", "a string", effort);
    if (effort && !(given && cdz_json_get(given, "reasoning_effort"))) {
        cdz_buf_puts(out, first ? "\"reasoning_effort\": " : ", \"reasoning_effort\": ");
        cdz_json_write(out, effort);
    }
    cdz_buf_putc(out, '}');
    return true;
}

static bool check_documents(const cdz_json *documents, cdz_serve_fault *fault)
{
    bool good = !documents || documents->type == CDZ_JSON_ARRAY;
    for (uint32_t i = 0; good && documents && i < documents->len; i++)
        good = documents->items[i].type == CDZ_JSON_OBJECT;
    return good || cdz_serve_fault_set(fault, 400, "documents", NULL,
                                       "'documents' must be a list of objects");
}

static bool put_document(const cdz_json *body, bool nine, cdz_buf *out, cdz_serve_fault *fault)
{
    const cdz_json *messages = cdz_ask_field(body, "messages");
    const cdz_json *documents = cdz_ask_field(body, "documents");
    const cdz_json *tools;
    if (!cdz_ask_chat_only(body, fault) || !cdz_ask_tools(body, &tools, fault) ||
        !check_documents(documents, fault))
        return false;
    if (!cdz_json_is(messages, CDZ_JSON_ARRAY) || !messages->len)
        return cdz_serve_fault_set(fault, 400, "messages", NULL,
                                   "'messages' must be a list of at least one message");
    cdz_buf_puts(out, "{\"messages\": [");
    for (uint32_t i = 0; i < messages->len; i++) {
        cdz_buf_puts(out, i ? ", " : "");
        if (!put_message(&messages->items[i], nine, out, fault)) return false;
    }
    cdz_buf_putc(out, ']');
    if (tools) {
        cdz_buf_puts(out, ", \"tools\": ");
        cdz_json_write(out, tools);
    }
    if (documents) {
        cdz_buf_puts(out, ", \"documents\": ");
        cdz_json_write(out, documents);
    }
    if (!put_variables(body, out, fault)) return false;
    cdz_buf_putc(out, '}');
    return true;
}

/* The field that the template's refusal is about. */
static const char *blamed(const cdz_json *body, const char *text)
{
    static const char *const names[] = {"chat_template_kwargs", "continue_final_message"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cdz_ask_field(body, names[i]) && strstr(text, names[i])) return names[i];
    return "messages";
}

bool cdz_ask_messages(const cdz_ask_world *world, const cdz_json *body, int32_t **ids, size_t *n,
                      cdz_serve_fault *fault)
{
    cdz_buf text = {0};
    cdz_error err = {0};
    bool good = put_document(body, world->answers.reply.short_id, &text, fault);
    if (good && text.failed) good = cdz_serve_fault_set(fault, 500, NULL, NULL, "out of memory");
    if (good && cdz_apply_chat_template(world->model, text.data, text.len, ids, n, &err) != CDZ_OK)
        good = cdz_serve_fault_of(fault, blamed(body, err.text), &err);
    cdz_buf_free(&text);
    return good;
}
