/* test_reply.c - answers of chat models: reasoning, text and calls, in every form that is known, whole, cut at every byte, and
 * byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "template/reply.h"

#define HERMES   "<tool_call>"
#define QWEN     "<think></think><tool_call>"
#define LLAMA    "<|python_tag|> dictionary of argument name and its value"
#define LFM      "<|tool_call_start|>"
#define DEEPSEEK "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜><｜tool▁calls▁end｜>"
#define KIMI     "<|tool_calls_section_begin|><|tool_call_begin|><|tool_calls_section_end|>"
#define PLAIN    "{{ messages }}"
#define HARMONY  "<|start|>assistant<|channel|>"
#define SAYS     "<|channel|>final<|message|>"
#define DOZENS   "twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes "
#define SOME     DOZENS DOZENS DOZENS DOZENS DOZENS
#define LONG                                                                                       \
    SOME SOME SOME "and now no head of a message is as long as this is, whatever it begins with"
#define SUN      "{\"name\": \"weather\", \"arguments\": {\"place\": \"Oslo\", \"days\": 2}}"
#define SUN_SAID "weather({\"place\": \"Oslo\", \"days\": 2})"

/* said: text, then {reasoning} and calls, in their order. */
static const struct {
    const char *form, *answer, *said;
} rows[] = {
    {PLAIN, "Hello", "Hello"},
    {PLAIN, "  Hello <tool_call>" SUN "</tool_call> ", "  Hello <tool_call>" SUN "</tool_call> "},
    {PLAIN, "<think>a</think>b", "<think>a</think>b"},
    {QWEN, "<think>\nWell.\n\nYes.\n</think>\n\nHello", "{Well.\n\nYes.}Hello"},
    {QWEN, "<think></think>Hello", "Hello"},
    {QWEN, "<think>never ends ", "{never ends}"},
    {QWEN, "<thin", "<thin"},
    {QWEN, "a <think>b</think>", "a <think>b</think>"},
    {QWEN, "<think>a</think>\n<tool_call>" SUN "</tool_call>", "{a}" SUN_SAID},
    {HERMES, "<tool_call>\n" SUN "\n</tool_call>", SUN_SAID},
    {HERMES, "I look.\n<tool_call>" SUN "</tool_call>", "I look." SUN_SAID},
    {HERMES, "<tool_call>" SUN "</tool_call>\n<tool_call>" SUN "</tool_call>", SUN_SAID SUN_SAID},
    {HERMES, "<tool_call>" SUN "</tool_call> and so", SUN_SAID "and so"},
    {HERMES, "<tool_call>\n" SUN "\n", SUN_SAID},
    {HERMES, "<tool_call>[" SUN ", " SUN "]</tool_call>", SUN_SAID SUN_SAID},
    {HERMES, "<tool_call>{\"name\": \"now\"}</tool_call>", "now({})"},
    {HERMES, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     "f({\"a\": 1})"},
    {HERMES, "<tool_call>{\"name\": 5}</tool_call>", "<tool_call>{\"name\": 5}</tool_call>"},
    {HERMES, "I look.\n <tool_call>{\"name\": 5}</tool_call> So",
     "I look.\n <tool_call>{\"name\": 5}</tool_call> So"},
    {HERMES, "I look. <tool_call>\n" SUN "\n</tool_call>\n<tool_call>{",
     "I look." SUN_SAID "<tool_call>{"},
    {HERMES, "I look.\n<tool_call>{\"name\": \"f\"", "I look.\n<tool_call>{\"name\": \"f\""},
    {HERMES, "a <tool_call>{</tool_call> <tool_call>" SUN "</tool_call>",
     "a <tool_call>{</tool_call>" SUN_SAID},
    {LLAMA, "\n{\"name\": \"f\"", "\n{\"name\": \"f\""},
    {LLAMA, "So: <|python_tag|>1 + 1", "So: <|python_tag|>1 + 1"},
    {"[TOOL_CALLS]", "So: [TOOL_CALLS]none [TOOL_CALLS]none",
     "So: [TOOL_CALLS]none [TOOL_CALLS]none"},
    {"functools[", "So: functools[none", "So: functools[none"},
    {KIMI,
     "So. <|tool_calls_section_begin|><|tool_call_begin|>none<|tool_call_end|> <|tool_calls_section_end|>!",
     "So. <|tool_call_begin|>none<|tool_call_end|> !"},
    {KIMI, "So.\n<|tool_calls_section_begin|>\nx", "So.\n\nx"},
    {HERMES, "<tool_call>{\"name\": \"a b\"}</tool_call>",
     "<tool_call>{\"name\": \"a b\"}</tool_call>"},
    {HERMES, "<tool_call>{\"name\": \"f\", \"argu", "<tool_call>{\"name\": \"f\", \"argu"},
    {HERMES, "a < b <tool", "a < b <tool"},
    {HERMES, "{\"name\": \"weather\"}", "{\"name\": \"weather\"}"},
    {HERMES,
     "<tool_call>\n<function=weather>\n<parameter=place>\nOslo\n</parameter>\n<parameter=days>\n2\n"
     "</parameter>\n</function>\n</tool_call>",
     "weather({\"place\": \"Oslo\", \"days\": 2})"},
    {HERMES,
     "<tool_call>\n<function=weather>\n<parameter=place>\n12\n</parameter>\n</function>\n</tool_call>",
     "weather({\"place\": \"12\"})"},
    {HERMES,
     "<tool_call>weather\n<arg_key>place</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>[1, 2]</arg_value>\n</tool_call>",
     "weather({\"place\": \"Oslo\", \"days\": [1, 2]})"},
    {"<function=", "<function=weather>{\"place\": \"Oslo\"}</function>",
     "weather({\"place\": \"Oslo\"})"},
    {"[TOOL_CALLS]", "[TOOL_CALLS][" SUN ", " SUN "]", SUN_SAID SUN_SAID},
    {"[TOOL_CALLS]",
     "[TOOL_CALLS]weather[ARGS]{\"place\": \"Oslo\", \"days\": 2}[TOOL_CALLS]now[CALL_ID]abc[ARGS]{}",
     SUN_SAID "now({})"},
    {"[TOOL_CALLS]", "[TOOL_CALLS] soon", "[TOOL_CALLS] soon"},
    {LLAMA, "{\"name\": \"weather\", \"parameters\": {\"place\": \"Oslo\"}}",
     "weather({\"place\": \"Oslo\"})"},
    {LLAMA, "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\"}",
     "now({})now({})"},
    {LLAMA, "{\"name\": \"stranger\", \"parameters\": {}}",
     "{\"name\": \"stranger\", \"parameters\": {}}"},
    {LLAMA, "{\"a\": 1}", "{\"a\": 1}"},
    {LLAMA, "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", "now({})"},
    {"[func_name1(", "[weather(place='Os\\'lo', days=2), now()]",
     "weather({\"place\": \"Os'lo\", \"days\": 2})now({})"},
    {"[func_name1(", "[1, 2]", "[1, 2]"},
    {"[func_name1(", "[stranger()]", "[stranger()]"},
    {LFM,
     "<|tool_call_start|>[weather(place=\"Oslo\", days=[1, {'a': None, 'b': True}, -2.5])]<|tool_call_end|>Wait.",
     "weather({\"place\": \"Oslo\", \"days\": [1, {\"a\": null, \"b\": true}, -2.5]})Wait."},
    {LFM, "<|tool_call_start|>[weather(place=)]<|tool_call_end|>",
     "<|tool_call_start|>[weather(place=)]<|tool_call_end|>"},
    {"<TOOLCALL>", "<TOOLCALL>[" SUN "]</TOOLCALL>", SUN_SAID},
    {"<|tool_call|>", "<|tool_call|>[" SUN "]", SUN_SAID},
    {"functools[", " functools[" SUN "]", SUN_SAID},
    {"<|START_ACTION|>",
     "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"now\", \"parameters\": {}}]<|END_ACTION|>",
     "now({})"},
    {DEEPSEEK,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"place\": \"Oslo\", \"days\": 2}"
     "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     SUN_SAID "now({})"},
    {KIMI,
     "So.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
     "{\"place\": \"Oslo\", \"days\": 2}<|tool_call_end|><|tool_calls_section_end|>",
     "So." SUN_SAID},
    {"<minimax:tool_call>",
     "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"place\">Oslo</parameter>\n"
     "<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
     "weather({\"place\": \"Oslo\", \"days\": 2})"},
    {HARMONY, SAYS "Hello", "Hello"},
    {HARMONY, SAYS "Hello<|return|>", "Hello"},
    {HARMONY, "Hello <|x", "Hello <|x"},
    {HARMONY, " <|channel|>analysis", ""},
    {HARMONY, "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" SAYS "a <| b<|return|>",
     "{Hm.}a <| b"},
    {HARMONY, "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>b", "{Hm.}b"},
    {HARMONY, "<|channel|>analysis<|message|>never ends <|en", "{never ends <|en}"},
    {HARMONY, "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" SAYS "It rains.",
     "I look.\n\nIt rains."},
    {HARMONY,
     "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
     "<|constrain|>json<|message|>{\"place\": \"Oslo\", \"days\": 2}<|call|>",
     "{Hm.}" SUN_SAID},
    {HARMONY, "<|channel|>final " SOME SOME SOME "<|message|>a", "a"},
    {HARMONY, "<|channel|>" LONG, LONG},
    {HARMONY, "<|start|>" LONG SAYS "a<|channel|><|start|>" LONG "<|end|>", LONG "\n\na\n\n" LONG},
    {HARMONY, " to=functions.now<|channel|>commentary json<|message|>", "now({})"},
    {HARMONY, " to=functions.now<|channel|>commentary json<|message|> {} <|call|>", "now({})"},
    {HARMONY, "<|channel|>commentary to=functions.now<|message|>{\"a\": 1", "{\"a\": 1"},
    {HARMONY, "<|channel|>commentary to=functions.stranger<|message|>{}<|call|>", "{{}}"},
    {HARMONY, "<|channel|>analysis to=python code<|message|>print(1)<|call|>" SAYS "a",
     "{print(1)}a"},
};

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\", \"properties\": "
    "{\"place\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}}}}}, {\"type\": \"function\", \"function\": "
    "{\"name\": \"now\"}}]";

typedef struct spoken {
    cdz_buf all;
    bool reasons;
} spoken;

static void end_reasoning(spoken *s)
{
    if (s->reasons) cdz_buf_putc(&s->all, '}');
    s->reasons = false;
}

static void on_text(void *user, const char *text, size_t len)
{
    spoken *s = user;
    end_reasoning(s);
    cdz_buf_add(&s->all, text, len);
}

static void on_reasoning(void *user, const char *text, size_t len)
{
    spoken *s = user;
    if (!s->reasons) cdz_buf_putc(&s->all, '{');
    s->reasons = true;
    cdz_buf_add(&s->all, text, len);
}

static void on_call(void *user, const char *name, const char *arguments)
{
    spoken *s = user;
    end_reasoning(s);
    /* one spelling, so that the table can be read */
    cdz_buf_printf(&s->all, "%s(%s)", name, arguments);
}

/* cut SIZE_MAX: a byte at a time. */
static char *say(size_t row, const cdz_json *tools, size_t cut)
{
    const char *answer = rows[row].answer;
    const size_t len = strlen(answer);
    spoken s = {0};
    cdz_reply reply = {.form = cdz_reply_form_of(rows[row].form),
                       .tools = tools,
                       .sink = {on_text, on_reasoning, on_call, &s}};
    cdz_buf_add(&s.all, "", 0);
    if (cut <= len) {
        cdz_reply_feed(&reply, answer, cut);
        cdz_reply_feed(&reply, answer + cut, len - cut);
    } else {
        for (size_t i = 0; i < len; i++) cdz_reply_feed(&reply, answer + i, 1);
    }
    cdz_reply_end(&reply);
    end_reasoning(&s);
    assert_false(reply.failed);
    cdz_reply_free(&reply);
    return s.all.data;
}

static void test_rows(void **state)
{
    cdz_arena arena = {0};
    cdz_json tools;
    (void)state;
    assert_int_equal(
        cdz_json_parse(tools_text, sizeof tools_text - 1, "tools", NULL, &arena, &tools, NULL),
        CDZ_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t cut = 0; cut <= strlen(rows[i].answer) + 1; cut++) {
            char *said = say(i, &tools, cut);
            if (strcmp(said, rows[i].said) != 0)
                fail_msg("row %zu '%s' cut at %zu: '%s', expected '%s'", i, rows[i].answer, cut,
                         said, rows[i].said);
            free(said);
        }
    }
    cdz_arena_free(&arena);
}

/* Without tools nothing is a call. */
static void test_no_tools(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strstr(rows[i].form, "think") || strstr(rows[i].form, "<|channel|>")) continue;
        for (size_t cut = 0; cut <= strlen(rows[i].answer) + 1; cut++) {
            char *said = say(i, NULL, cut);
            assert_string_equal(said, rows[i].answer);
            free(said);
        }
    }
}

static void test_prompts(void **state)
{
    (void)state;
    assert_true(cdz_reply_is_thinking("a<think>\n", 9));
    assert_true(cdz_reply_is_thinking("<think>", 7));
    assert_false(cdz_reply_is_thinking("<think>\n\n</think>\n", 18));
    assert_false(cdz_reply_is_thinking("", 0));
    assert_true(cdz_reply_form_of("[TOOL_CALLS]").short_id);
    assert_int_equal(cdz_reply_form_of(NULL).markers, 0);
}

static void test_deep(void **state)
{
    enum { DEEP = 100000 };
    static const char *const opens[] = {"<tool_call>", "<|tool_call_start|>[f(a="};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const cdz_json none = {.type = CDZ_JSON_ARRAY};
        spoken s = {0};
        cdz_reply reply = {.form = cdz_reply_form_of(i ? LFM : HERMES),
                           .tools = &none,
                           .sink = {on_text, on_reasoning, on_call, &s}};
        cdz_reply_feed(&reply, opens[i], strlen(opens[i]));
        for (size_t k = 0; k < DEEP; k++) cdz_reply_feed(&reply, "[", 1);
        cdz_reply_end(&reply);
        assert_int_equal(s.all.len, strlen(opens[i]) + DEEP);
        cdz_reply_free(&reply);
        cdz_buf_free(&s.all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_tools),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
