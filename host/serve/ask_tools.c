/* ask_tools.c - tools that a chat may call, and what its answer may hold besides text: calls and reasoning.
 *
 * How a model writes these is in its chat template; host/template/reply.h reads them. */
#include <stdlib.h>
#include <string.h>

#include "serve/ask.h"

enum { MOST_TOOLS = 512 };

static bool no_tool(cdz_serve_fault *fault, uint32_t i, const char *why)
{
    return cdz_serve_fault_set(fault, 400, "tools", NULL, "'tools' entry %u: %s", i, why);
}

static bool check_tool(const cdz_json *tool, uint32_t i, cdz_serve_fault *fault)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const cdz_json *type = cdz_ask_field(tool, "type");
    const cdz_json *function = cdz_ask_field(tool, "function");
    const cdz_json *name = function ? cdz_json_get(function, "name") : NULL;
    const cdz_json *parameters = function ? cdz_ask_field(function, "parameters") : NULL;
    if (tool->type != CDZ_JSON_OBJECT || (type && !cdz_json_eq(type, "function")))
        return no_tool(fault, i,
                       "expected {\"type\": \"function\", \"function\"}; there are no other tools");
    if (!cdz_json_is(function, CDZ_JSON_OBJECT))
        return no_tool(fault, i, "\"function\" must be an object");
    if (!cdz_json_is(name, CDZ_JSON_STRING) || !name->len || name->len > 128 ||
        strspn(name->string, allowed) != name->len)
        return no_tool(fault, i, "\"name\" must be 1 to 128 letters, digits, '_', '-' and '.'");
    if (parameters && parameters->type != CDZ_JSON_OBJECT)
        return no_tool(fault, i, "\"parameters\" must be a JSON Schema, which is an object");
    return true;
}

/* The name of the one tool that is to be called; NULL: none is named. A response has no "function" around it. */
static const char *named_tool(const cdz_json *choice)
{
    const cdz_json *function = choice ? cdz_json_get(choice, "function") : NULL;
    const cdz_json *name = cdz_json_get(function ? function : choice, "name");
    return cdz_json_is(name, CDZ_JSON_STRING) ? name->string : NULL;
}

static bool check_choice(const cdz_json *tools, const cdz_json *choice, cdz_serve_fault *fault)
{
    const char *name = cdz_json_is(choice, CDZ_JSON_OBJECT) ? named_tool(choice) : NULL;
    if (!choice || cdz_json_eq(choice, "none") || cdz_json_eq(choice, "auto")) return true;
    if (!name && !cdz_json_eq(choice, "required"))
        return cdz_serve_fault_set(fault, 400, "tool_choice", NULL,
                                   "'tool_choice' must be \"none\", \"auto\", \"required\" or "
                                   "{\"type\": \"function\", \"function\": {\"name\"}}");
    if (!tools || !tools->len)
        return cdz_serve_fault_set(fault, 400, "tool_choice", NULL,
                                   "'tool_choice' asks for a call, and there are no tools");
    if (!name || cdz_reply_tool(tools, name)) return true;
    return cdz_serve_fault_set(fault, 400, "tool_choice", NULL,
                               "'tool_choice' names '%.80s', which is none of the tools", name);
}

bool cdz_ask_tools(const cdz_json *body, const cdz_json **out, cdz_serve_fault *fault)
{
    const cdz_json *tools = cdz_ask_field(body, "tools");
    const cdz_json *choice = cdz_ask_field(body, "tool_choice");
    *out = NULL;
    if (tools && tools->type != CDZ_JSON_ARRAY)
        return cdz_ask_wrong(fault, "tools", "a list", tools);
    if (tools && tools->len > MOST_TOOLS)
        return cdz_serve_fault_set(fault, 400, "tools", NULL, "'tools' holds more than %d tools",
                                   MOST_TOOLS);
    for (uint32_t i = 0; tools && i < tools->len; i++)
        if (!check_tool(&tools->items[i], i, fault)) return false;
    if (!check_choice(tools, choice, fault)) return false;
    if (tools && tools->len && !cdz_json_eq(choice, "none")) *out = tools;
    return true;
}

static bool take_reasoning(cdz_asking *a)
{
    const cdz_json *format = cdz_ask_field(&a->body, "reasoning_format");
    if (!format) return true;
    if (cdz_json_eq(format, "none"))
        a->form.thinks = false;
    else if (!cdz_json_eq(format, "auto") && !cdz_json_eq(format, "deepseek"))
        return cdz_serve_fault_set(a->fault, 400, "reasoning_format", NULL,
                                   "'reasoning_format' must be \"auto\", \"deepseek\" or \"none\"");
    return true;
}

/* The answer is one call and nothing else, as JSON without markers: a model may write these as tokens that no text has. */
static bool force_call(cdz_asking *a)
{
    const cdz_json *choice = cdz_ask_field(&a->body, "tool_choice");
    const bool object = cdz_json_is(choice, CDZ_JSON_OBJECT);
    if (!a->tools || (!object && !cdz_json_eq(choice, "required"))) return true;
    if (!a->form.tells_tools)
        return cdz_serve_fault_set(a->fault, 400, "tool_choice", NULL,
                                   "'tool_choice' asks for a call, and the model's chat template "
                                   "tells it of no tools");
    a->form = (cdz_reply_form){.bare_json = true,
                               .thinks = a->form.thinks && !a->form.channels,
                               .short_id = a->form.short_id};
    a->special = false;
    a->named_call = object;
    return cdz_ask_one_call(a, object ? named_tool(choice) : NULL);
}

bool cdz_ask_answer_form(cdz_asking *a)
{
    bool many;
    if (!cdz_ask_tools(&a->body, &a->tools, a->fault)) return false;
    if (!cdz_ask_bool(&a->body, "parallel_tool_calls", true, &many, a->fault)) return false;
    a->one_call = !many;
    a->form = a->world->answers.reply;
    a->special = (a->tools || a->form.channels) && a->world->answers.marks_special;
    if (!force_call(a)) return false;
    if (a->tools && a->form.tagged_json && !a->structured && !cdz_ask_strict_calls(a)) return false;
    return take_reasoning(a);
}

/* A constraint is on what comes after the reasoning. */
bool cdz_ask_thinking(cdz_asking *a)
{
    const cdz_ask_prompt *p = &a->prompts[0];
    cdz_error err = {0};
    cdz_reply_form form = a->form;
    bool thinking;
    form.thinks |= a->structured != NULL;
    if (cdz_model_answer_thinks(a->world->model, &form, p->ids, p->n, &thinking, &err) != CDZ_OK)
        return cdz_serve_fault_of(a->fault, NULL, &err);
    a->thinking = thinking && a->form.thinks;
    return !thinking || !a->structured || cdz_ask_set(a, "grammar_after", "\"</think>\"");
}
