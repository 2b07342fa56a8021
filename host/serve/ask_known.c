/* ask_known.c - fields that change nothing about the tokens, or only a little: those that many clients always send, which are
 * checked and taken, the id of the answer, and what one endpoint has and another has not. */
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
};

static bool check_taken(const cdz_asking *a)
{
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const cdz_json *value = cdz_ask_field(&a->body, taken[i].name);
        if (!value || value->type == taken[i].type) continue;
        return cdz_serve_fault_set(a->fault, 400, taken[i].name, NULL, "'%s' must be %s, found %s",
                                   taken[i].name, taken[i].says, cdz_json_type_name(value));
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

bool cdz_ask_known(cdz_asking *a)
{
    bool endless;
    return check_taken(a) && take_id(a) && check_least(a) &&
           cdz_ask_bool(&a->body, "ignore_eos", false, &endless, a->fault) &&
           (!endless || cdz_ask_set(a, "eos_token_id", "[]"));
}
