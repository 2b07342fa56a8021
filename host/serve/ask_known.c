/* ask_known.c - fields that change nothing about the tokens, or only a little: those that many clients always send, which are
 * checked and taken, the id of the answer, and what one endpoint has and another has not. */
#include <stdio.h>
#include <string.h>

#include "serve/ask.h"

static const struct {
    const char *name;
    cdz_json_type type;
    const char *says;
} taken[] = {
    {"user", CDZ_JSON_STRING, "a string"},
    {"safety_identifier", CDZ_JSON_STRING, "a string"},
    {"prompt_cache_key", CDZ_JSON_STRING, "a string"},
    {"service_tier", CDZ_JSON_STRING, "a string"},
    {"reasoning_effort", CDZ_JSON_STRING, "a string"},
    {"verbosity", CDZ_JSON_STRING, "a string"},
    {"metadata", CDZ_JSON_OBJECT, "an object"},
    {"store", CDZ_JSON_BOOL, "true or false"},
    {"cache_prompt", CDZ_JSON_BOOL, "true or false"},
    {"parallel_tool_calls", CDZ_JSON_BOOL, "true or false"},
    {"spaces_between_special_tokens", CDZ_JSON_BOOL, "true or false"}, /* of slow tokenizers */
    {"id_slot", CDZ_JSON_INT, "an integer"},                           /* any place is as good */
    {"n_keep", CDZ_JSON_INT, "an integer"}, /* nothing is ever dropped from a context */
    {"n_discard", CDZ_JSON_INT, "an integer"},
};

static bool check_taken(const cdz_asking *a)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const cdz_json *value = cdz_ask_field(&a->body, taken[i].name);
        if (!value || value->type == taken[i].type) continue;
        return cdz_ask_wrong(a->fault, taken[i].name, taken[i].says, value);
    }
    return true;
}

/* Of chats alone, or of completions alone (chat). `neutral`: JSON that asks for nothing, beside null. */
static const struct {
    const char *name;
    bool chat;
    const char *neutral[2], *says;
} elsewhere[] = {
    {"messages", true, {NULL}, "send them to /v1/chat/completions"},
    {"tools", true, {"[]"}, "send them to /v1/chat/completions"},
    {"tool_choice", true, {"\"none\"", "\"auto\""}, "there are no tools without 'messages'"},
    {"top_logprobs", true, {"0"}, "use 'logprobs', a number"},
    {"chat_template_kwargs", true, {"{}"}, "a prompt has no chat template"},
    {"add_generation_prompt", true, {"false"}, "a prompt has no chat template"},
    {"continue_final_message", true, {"false"}, "a prompt has no chat template"},
    {"documents", true, {"[]"}, "a prompt has no chat template"},
    {"suffix", false, {"\"\""}, "send it with a 'prompt' to /v1/completions"},
    {"prompt", false, {NULL}, "send 'messages', or the prompt to /v1/completions"},
};

static bool asks_for_nothing(const cdz_json *value, const char *const neutral[2])
{
    return (neutral[0] && cdz_ask_is_json(value, neutral[0])) ||
           (neutral[1] && cdz_ask_is_json(value, neutral[1]));
}

bool cdz_ask_place(cdz_asking *a)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        const cdz_json *value = cdz_ask_field(&a->body, elsewhere[i].name);
        if (!value || elsewhere[i].chat == a->chat || asks_for_nothing(value, elsewhere[i].neutral))
            continue;
        return cdz_serve_fault_set(a->fault, 400, elsewhere[i].name, NULL,
                                   "'%s' is not supported at this endpoint: %s", elsewhere[i].name,
                                   elsewhere[i].says);
    }
    return true;
}

static bool take_id(cdz_asking *a)
{
    char same[CDZ_HEAD_ID];
    const cdz_json *id = cdz_ask_field(&a->body, "request_id");
    if (!id) return true;
    if (id->type == CDZ_JSON_STRING) {
        cdz_head_id((cdz_slice){id->string, id->len}, same);
        if (strcmp(same, id->string) == 0) a->id = id->string;
    }
    if (a->id) return true;
    return cdz_serve_fault_set(a->fault, 400, "request_id", NULL,
                               "'request_id' must be 1 to 128 letters, digits, '.', '_' and '-'");
}

/* A template adds special tokens itself, and a chat's answer stands alone. */
bool cdz_ask_chat_only(const cdz_json *body, cdz_serve_fault *fault)
{
    static const char *const not_there[] = {"echo", "add_special_tokens"};
    for (size_t i = 0; i < sizeof not_there / sizeof *not_there; i++) {
        bool wanted;
        if (!cdz_ask_bool(body, not_there[i], false, &wanted, fault)) return false;
        if (wanted)
            return cdz_serve_fault_set(fault, 400, not_there[i], NULL,
                                       "'%s' is not supported with 'messages': %s", not_there[i],
                                       i ? "the chat template adds them" : "use 'prompt'");
    }
    return true;
}

static bool check_least(const cdz_asking *a)
{
    const cdz_json *least = cdz_ask_field(&a->body, "min_tokens");
    if (!least || a->max_tokens < 0 || least->integer <= a->max_tokens) return true;
    return cdz_serve_fault_set(a->fault, 400, "min_tokens", NULL,
                               "'min_tokens' is %lld, and the answer has at most %lld tokens",
                               (long long)least->integer, (long long)a->max_tokens);
}

/* llama-server's limit in milliseconds. */
static bool take_time(cdz_asking *a)
{
    char text[40];
    double ms = -1;
    const cdz_json *limit = cdz_ask_field(&a->body, "t_max_predict_ms");
    if (limit && !cdz_json_number(limit, &ms))
        return cdz_ask_wrong(a->fault, "t_max_predict_ms", "a number", limit);
    if (!(ms > 0)) return true;
    snprintf(text, sizeof text, "%.17g", ms / 1000);
    return cdz_ask_set(a, "max_time", text);
}

bool cdz_ask_known(cdz_asking *a)
{
    return check_taken(a) && take_id(a) && check_least(a) && take_time(a);
}
