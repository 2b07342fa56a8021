"""chats.py - what a chat's answer holds: calls of tools, reasoning, and the same as a response; whole, and in a stream."""
import json
import os
import tempfile

from server import Server, Speaker, check, done, parse

folder = tempfile.mkdtemp()
TEMPLATE = ("{#- <tool_call> </tool_call> <think> </think> -#}"
            "{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif -%}"
            "{%- for m in messages -%}<|{{ m.role }}|>{{ m.content }}"
            "{%- for c in m.tool_calls or [] %}[{{ c.id }} {{ c.function.name }} {{ c.function.arguments.place }}]{% endfor -%}"
            "{%- if m.tool_call_id %}({{ m.tool_call_id }}){% endif -%}<|end|>{%- endfor -%}"
            "{%- if reasoning_effort %}({{ reasoning_effort }}){% endif -%}"
            "{%- if add_generation_prompt -%}<|assistant|>{% if enable_thinking %}<think>\n{% endif %}{%- endif -%}")
CALL = '{"name": "weather", "arguments": {"place": "Oslo", "days": 2}}'
speaker = Speaker(folder, TEMPLATE)
answers = {
    "plain": "It is sunny.",
    "call": f"<tool_call>\n{CALL}\n</tool_call>",
    "two": f"I look.\n<tool_call>{CALL}</tool_call>\n<tool_call>" + '{"name": "now", "arguments": {}}</tool_call>',
    "broken": '<tool_call>{"name": }</tool_call> so',
    "so": 'I look.\n\n<tool_call>{"name": }</tool_call> so',
    "thought": "<think>\nLet me see.\n</think>\n\nIt is sunny.",
    "thought_call": f"<think>a</think><tool_call>{CALL}</tool_call>",
    "open": "I think.\n</think>\nYes.",
    "open_json": 'I think: "no".\n</think>\n\n"yes"',
}
for name, text in answers.items():
    speaker.say(name, text)
s = speaker.serve()
T, R = "/v1/chat/completions", "/v1/responses"
M = [{"role": "user", "content": "Weather?"}]
FUNCTIONS = [{"name": "weather", "description": "of a place", "parameters": {"type": "object", "properties": {
    "place": {"type": "string"}, "days": {"type": "integer"}}}}, {"name": "now"}]
TOOLS = [{"type": "function", "function": f} for f in FUNCTIONS]
FLAT = [{"type": "function", **f} for f in FUNCTIONS]
ARGUMENTS = {"place": "Oslo", "days": 2}


def body(name, **more):
    return {"messages": M, "add_generation_prompt": True, "cadenza": {"pipeline": name}, **more}


def chat(name, **more):
    status, answer = s.post(T, body(name, **more))
    check(f"{name}: status", status == 200, answer)
    return answer["choices"][0]


def streamed(name, **more):
    """(content, reasoning, calls, finish reason) of a stream's deltas."""
    events, ended = s.stream(T, body(name, stream=True, **more))
    content, reasoning, calls, reasons = "", "", [], []
    for e in events:
        choice = e["choices"][0]
        delta = choice["delta"]
        content += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        for c in delta.get("tool_calls", []):
            if c["index"] == len(calls):
                check("a call begins whole", c["id"].startswith("call_") and c["type"] == "function" and
                      c["function"]["arguments"] == "", c)
                calls.append({"id": c["id"], "type": "function", "function": dict(c["function"])})
            else:
                check("and goes on", "id" not in c and set(c["function"]) == {"arguments"}, c)
                calls[c["index"]]["function"]["arguments"] += c["function"]["arguments"]
        if choice["finish_reason"]:
            reasons.append(choice["finish_reason"])
            check("the last delta is empty", delta == {}, delta)
    check(f"{name}: [DONE] and one reason", ended and len(reasons) == 1, reasons)
    return content, reasoning, calls, reasons[0]


def calls_of(calls):
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]


# --- what the template is given ---
def prompt(**more):
    ids = s.post("/tokenize", {"messages": M, "add_generation_prompt": True, **more})[1]["tokens"]
    return s.post("/detokenize", {"tokens": ids})[1]["prompt"]


check("tools are in the prompt", json.dumps(TOOLS[1]) in prompt(tools=TOOLS), prompt(tools=TOOLS))
check("not where none may be called", "weather" not in prompt(tools=TOOLS, tool_choice="none"))
history = [M[0], {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(ARGUMENTS)}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sun"}]}]
check("calls and their results", "[call_1 weather Oslo]" in prompt(messages=history) and "sun(call_1)" in prompt(messages=history),
      prompt(messages=history))
told = prompt(reasoning_effort="high")
check("reasoning_effort is the template's", "(high)" in told and "(" not in prompt(), told)
check("chat_template_kwargs are more specific", "(low)" in prompt(reasoning_effort="high", chat_template_kwargs={"reasoning_effort": "low"}))
longer = len(s.post("/tokenize", {"messages": M, "reasoning_effort": "high"})[1]["tokens"])
for more in ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}):
    used = s.post(R, {"input": "Weather?", "cadenza": {"pipeline": "plain"}, **more})[1]["usage"]
    check("of a response too", used["input_tokens"] == longer, (used, longer))

# --- chats, whole and streamed ---
expected = { # content, reasoning, calls, reason
    "plain": ("It is sunny.", "", [], "stop"),
    "call": (None, "", [("weather", ARGUMENTS)], "tool_calls"),
    "two": ("I look.", "", [("weather", ARGUMENTS), ("now", {})], "tool_calls"),
    "broken": (answers["broken"], "", [], "stop"),
    "so": (answers["so"], "", [], "stop"),
    "thought": ("It is sunny.", "Let me see.", [], "stop"),
    "thought_call": (None, "a", [("weather", ARGUMENTS)], "tool_calls"),
}
for name, want in expected.items():
    choice = chat(name, tools=TOOLS)
    m = choice["message"]
    got = (m["content"], m.get("reasoning_content", ""), calls_of(m.get("tool_calls", [])), choice["finish_reason"])
    check(f"{name}, whole", got == want, (got, want))
    check(f"{name}: ids", len({c["id"] for c in m.get("tool_calls", [])}) == len(want[2]), m)
    content, reasoning, calls, reason = streamed(name, tools=TOOLS)
    check(f"{name}, streamed", (content or None, reasoning, calls_of(calls), reason) == (want[0], *want[1:]), (content, reasoning, calls))
check("without tools a call is text", chat("call")["message"] == {"role": "assistant", "content": answers["call"]}, chat("call"))
check("tool_choice none", chat("call", tools=TOOLS, tool_choice="none")["message"]["content"] == answers["call"])
check("one call at a time", len(chat("two", tools=TOOLS, parallel_tool_calls=False)["message"]["tool_calls"]) == 1)


def tokens_of(text):
    return len(s.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"])


def thought_of(name, path=T, **more):
    """Tokens of reasoning as the usage tells them, whole and streamed."""
    if path == T:
        asked = body(name, tools=TOOLS, **more)
        usages = [s.post(T, asked)[1]["usage"]]
        events, _ = s.stream(T, {**asked, "stream": True, "stream_options": {"include_usage": True}})
        usages.append(events[-1]["usage"])
        return [u["completion_tokens_details"]["reasoning_tokens"] for u in usages]
    answer = s.post(R, {"input": "Weather?", "tools": FLAT, "cadenza": {"pipeline": name}, **more})[1]
    return [answer["usage"]["output_tokens_details"]["reasoning_tokens"]]


for name in ("plain", "call"):
    check(f"{name}: no reasoning", thought_of(name) == [0, 0] and thought_of(name, R) == [0], thought_of(name))
for name, inner in (("thought", "\nLet me see.\n"), ("thought_call", "a")):
    least, most = 1, tokens_of(inner) + 1 # a token may hold a part of a marker
    n = thought_of(name)
    check(f"{name}: tokens of reasoning", n[0] == n[1] == thought_of(name, R)[0] and least <= n[0] <= most and n[0] < tokens_of(answers[name]),
          (n, thought_of(name, R), most))
check("of every row", thought_of("thought", n=2)[0] == 2 * thought_of("thought")[0])
check("where the template opens it", thought_of("open", chat_template_kwargs={"enable_thinking": True})[0] >= tokens_of("I think."))
check("reasoning as text", chat("thought", reasoning_format="none")["message"]["content"] == answers["thought"])
opened = chat("open", chat_template_kwargs={"enable_thinking": True})["message"]
check("reasoning that the template opens", (opened["reasoning_content"], opened["content"]) == ("I think.", "Yes."), opened)
cut = chat("call", tools=TOOLS, max_tokens=3, cadenza={"pipeline": "call", "kwargs": {"max_new_tokens": 3}})
check("a call that is cut is text", cut["finish_reason"] == "length" and cut["message"]["content"], cut)
lp = chat("thought_call", tools=TOOLS, logprobs=True)
check("log-probabilities beside a call", len(lp["logprobs"]["content"]) > 5 and lp["message"]["tool_calls"], lp)
n = s.post(T, body("two", tools=TOOLS, n=2))[1]["choices"]
check("two rows", [len(c["message"]["tool_calls"]) for c in n] == [2, 2], n)

# --- calls that must come: whatever the model would say, within max_tokens ---
FEW = [{"type": "function", "function": {"name": "now", "parameters": {"$ref": "#/$defs/none", "$defs": {
    "none": {"type": "object", "additionalProperties": False}}}}}]
COMPACT = dict(cadenza={"kwargs": {"max_new_tokens": 200}})
for choice, reason in (("required", "tool_calls"), ({"type": "function", "function": {"name": "now"}}, "stop")):
    forced = chat("plain", tools=FEW, tool_choice=choice, **COMPACT)
    if forced["finish_reason"] != "length":
        check(f"{choice}: a call", calls_of(forced["message"]["tool_calls"]) == [("now", {})] and forced["finish_reason"] == reason, forced)
    else:
        check(f"{choice}: the beginning of a call", forced["message"]["content"].lstrip().startswith("{"), forced)

# --- arguments of strict tools: text stays free, and a call fits its schema ---
def strict(most):
    return [{"type": "function", "function": {"name": "weather", "strict": True, "parameters": {
        "type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "integer", "maximum": most}},
        "required": ["place", "days"], "additionalProperties": False}}}, TOOLS[1]]


for name in ("plain", "call", "two", "thought", "thought_call"):
    got = chat(name, tools=strict(5))
    check(f"{name}: strict tools", (got["message"]["content"], calls_of(got["message"].get("tool_calls", []))) ==
          (expected[name][0], expected[name][2]), got)
got = chat("call", tools=strict(1))["message"]
check("arguments that would not fit", calls_of(got["tool_calls"])[0][1]["days"] <= 1, got)
got = chat("two", tools=strict(5), parallel_tool_calls=False)["message"]
check("one call, and no more", got["content"] == "I look." and len(got["tool_calls"]) == 1, got)
status, answer = s.post(T, body("plain", tools=[{"type": "function", "function": {"name": "a", "strict": True, "parameters": {"uniqueItems": True}}}]))
check("a strict schema that is not supported", status == 400 and answer["error"]["param"] == "tools" and "uniqueItems" in answer["error"]["message"], answer)

# --- a form of the answer, which begins behind the reasoning that the template opens ---
YES = {"response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": {"enum": ["yes", "no"]}}}}
THINK = {"chat_template_kwargs": {"enable_thinking": True}}
for more in ({}, {"reasoning_format": "none"}):
    got = chat("open_json", **YES, **THINK, **more)["message"]
    want = ("", answers["open_json"]) if more else ('I think: "no".', '"yes"')
    check(f"a form behind reasoning, {more}", (got.get("reasoning_content", ""), got["content"]) == want, got)
got = chat("open", **YES, **THINK)["message"]
check("an answer of another form behind it", got["reasoning_content"] == "I think." and got["content"] in ('"yes"', '"no"'), got)
got = chat("open_json", **YES)["message"]
check("no reasoning was opened", got["content"] in ('"yes"', '"no"'), got)

# --- refusals ---
for more, param in (({"tools": [5]}, "tools"), ({"tools": [{"type": "web_search"}]}, "tools"), ({"tools": [{"type": "function"}]}, "tools"),
                    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
                    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": 5}}]}, "tools"),
                    ({"tool_choice": "required"}, "tool_choice"), ({"tools": TOOLS, "tool_choice": 5}, "tool_choice"),
                    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "then"}}}, "tool_choice"),
                    ({"tools": TOOLS, "tool_choice": "required", "response_format": {"type": "json_object"}}, "tool_choice"),
                    ({"tools": [{"type": "function", "function": {"name": "a", "parameters": {"uniqueItems": True}}}], "tool_choice": "required"}, "tool_choice"),
                    ({"parallel_tool_calls": 5}, "parallel_tool_calls"), ({"reasoning_format": "loud"}, "reasoning_format")):
    status, answer = s.post(T, body("plain", **more))
    check(f"{more} is refused", status == 400 and answer["error"]["param"] == param, answer)


# --- responses ---
def response(name, **more):
    status, answer = s.post(R, {"input": "Weather?", "cadenza": {"pipeline": name}, **more})
    check(f"{name}: a response", status == 200 and answer["object"] == "response" and answer["id"].startswith("resp_"), answer)
    return answer


def response_events(name, **more):
    status, headers, text = s.ask("POST", R, {"input": "Weather?", "stream": True, "cadenza": {"pipeline": name}, **more})
    check(f"{name}: a stream", status == 200 and headers["content-type"] == "text/event-stream", text)
    check("no [DONE]", b"[DONE]" not in text)
    events = []
    for block in text.decode().split("\n\n"):
        if not block or block.startswith(":"):
            continue
        first, second = block.split("\n")
        event = json.loads(second[6:])
        check("event and type", first == "event: " + event["type"] and second.startswith("data: "), block)
        events.append(event)
    check("numbers rise by one", [e["sequence_number"] for e in events] == list(range(len(events))), events)
    return events


def shape(output):
    """Output without ids."""
    out = []
    for item in output:
        if item["type"] == "function_call":
            out.append((item["name"], json.loads(item["arguments"])))
        else:
            out.append((item["type"], "".join(p["text"] for p in item["content"])))
    return out


wanted = {"plain": [("message", "It is sunny.")], "call": [("weather", ARGUMENTS)],
          "two": [("message", "I look."), ("weather", ARGUMENTS), ("now", {})],
          "thought": [("reasoning", "Let me see."), ("message", "It is sunny.")]}
for name, want in wanted.items():
    answer = response(name, tools=FLAT)
    check(f"{name}: output", shape(answer["output"]) == want, answer)
    check(f"{name}: completed", answer["status"] == "completed" and answer["incomplete_details"] is None and answer["error"] is None, answer)
    check(f"{name}: usage", answer["usage"]["total_tokens"] == answer["usage"]["input_tokens"] + answer["usage"]["output_tokens"] > 0)
    check(f"{name}: tools come back", answer["tools"] == FLAT and answer["parallel_tool_calls"] is True, answer)
    events = response_events(name, tools=FLAT)
    check(f"{name}: it ends", events[-1]["type"] == "response.completed" and shape(events[-1]["response"]["output"]) == want, events[-1])
    check(f"{name}: usage of a stream", events[-1]["response"]["usage"] == answer["usage"], events[-1])
    check(f"{name}: it begins", [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"], events[:2])
    items = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    check(f"{name}: items", items == events[-1]["response"]["output"], items)
    for i, item in enumerate(items):
        mine = [e for e in events if e.get("output_index") == i]
        kinds = [e["type"].removeprefix("response.") for e in mine]
        texts = "".join(e["delta"] for e in mine if "delta" in e)
        check(f"{name}: ids of item {i}", all(e["item_id"] == item["id"] for e in mine if "item_id" in e), mine)
        if item["type"] == "function_call":
            check(f"{name}: a call's events", kinds == ["output_item.added", "function_call_arguments.delta",
                                                        "function_call_arguments.done", "output_item.done"], kinds)
            check(f"{name}: arguments", texts == item["arguments"])
        else:
            kind = "output_text" if item["type"] == "message" else "reasoning_text"
            plain = [k for k in kinds if k != kind + ".delta"]
            check(f"{name}: a text's events", plain == ["output_item.added", "content_part.added", kind + ".done",
                                                        "content_part.done", "output_item.done"], kinds)
            check(f"{name}: text", texts == item["content"][0]["text"] and all(e["content_index"] == 0 for e in mine if "part" in e), mine)
short = response("plain", max_output_tokens=2, cadenza={})
check("a limit", short["status"] == "incomplete" and short["incomplete_details"] == {"reason": "max_output_tokens"} and
      short["output"][-1]["status"] == "incomplete" and short["usage"]["output_tokens"] == 2, short)
check("a limit of a stream", response_events("plain", max_output_tokens=2, cadenza={})[-1]["type"] == "response.incomplete")
one = response("plain", input=[{"role": "user", "content": "Weather?"}])
parts = response("plain", input=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}])
check("inputs of three kinds", one["usage"] == parts["usage"] == response("plain")["usage"])
whole = response("plain", instructions="Be short.", input=[
    {"role": "user", "content": "Weather?"}, {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": json.dumps(ARGUMENTS)},
    {"type": "function_call", "call_id": "call_2", "name": "now", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "sun"},
    {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "noon"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "Sun."}]}, {"role": "user", "content": "Sure?"}])
check("a conversation", whole["usage"]["input_tokens"] > one["usage"]["input_tokens"] and whole["instructions"] == "Be short.", whole)
form = {"format": {"type": "json_schema", "name": "w", "schema": {"enum": ["sun", "rain"]}}}
formed = response("plain", text=form)
check("a form", formed["output"][0]["content"][0]["text"] in ('"sun"', '"rain"') and formed["text"] == form, formed)
for more, param in (({"input": None}, "input"), ({"input": 5}, "input"), ({"input": []}, "input"), ({"input": [5]}, "input"),
                    ({"input": [{"role": "robot", "content": "a"}]}, "input"), ({"input": [{"role": "user", "content": 5}]}, "input"),
                    ({"input": [{"type": "item_reference", "id": "x"}]}, "input"),
                    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input"),
                    ({"input": [{"type": "function_call", "name": "a"}]}, "input"), ({"instructions": 5}, "instructions"),
                    ({"previous_response_id": "resp_1"}, "previous_response_id"), ({"conversation": "c"}, "conversation"),
                    ({"background": True}, "background"), ({"include": 5}, "include"), ({"max_tokens": 5}, "max_tokens"),
                    ({"messages": []}, "input"), ({"logprobs": True}, "logprobs"), ({"prompt": {"id": "p"}}, "prompt"), ({"include": ["file_search"]}, "include"),
                    ({"text": {"format": {"type": "xml"}}}, "text.format"), ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
                    ({"text": {"format": {"type": "json_schema", "schema": {"uniqueItems": True}}}}, "text.format"),
                    ({"response_format": {"type": "json_object"}}, "response_format"), ({"text": 5}, "text"), ({"tools": 5}, "tools"),
                    ({"tools": [{"type": "web_search"}]}, "tools"), ({"tool_choice": "required"}, "tool_choice"),
                    ({"max_output_tokens": 0}, "max_output_tokens"), ({"max_output_tokens": "5"}, "max_output_tokens"),
                    ({"temperature": -1}, "temperature"), ({"model": "other"}, "model")):
    status, answer = s.post(R, {"input": "a", **more})
    check(f"{more} is refused", status == (404 if param == "model" else 400) and answer["error"]["param"] == param, answer)
s.quiet()
s.stop()

# --- ids of calls where a template wants nine letters or digits ---
nine = Speaker(tempfile.mkdtemp(), "{#- [TOOL_CALLS] -#}" + TEMPLATE)
nine.say("list", f"[TOOL_CALLS][{CALL}]")
s = nine.serve()
made = chat("list", tools=TOOLS)["message"]["tool_calls"]
check("Mistral's form", calls_of(made) == [("weather", ARGUMENTS)], made)
for given, told in ((made[0]["id"], made[0]["id"][-9:]), ("abcdefghi", "abcdefghi"), ("x", None)):
    history[1]["tool_calls"][0]["id"] = history[2]["tool_call_id"] = given
    text = prompt(messages=history)
    inner = text.split("[")[-1].split(" ")[0]
    check(f"id {given}", len(inner) == 9 and inner.isalnum() and f"({inner})" in text and told in (None, inner), text)
s.stop()

# --- messages with heads, some of whose markers are special tokens ---
harmony = Speaker(tempfile.mkdtemp(), "{#- <|channel|> -#}" + TEMPLATE,
                  {"<|system|>": "<|channel|>", "<|user|>": "<|message|>", "<|assistant|>": "<|end|>", "<|end|>": "<|return|>"})
THINKS, SAYS = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant", "<|channel|>final<|message|>It is sunny.<|return|>"
ASKS = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>" + json.dumps(ARGUMENTS) + "<|call|>"
for name, text in {"says": THINKS + SAYS, "asks": THINKS + ASKS, "plain": "It is sunny."}.items():
    harmony.say(name, text)
s = harmony.serve()
for name, more, content, reasoning, calls, reason in (
        ("says", {}, "It is sunny.", "Let me see.", [], "stop"), ("plain", {}, "It is sunny.", "", [], "stop"),
        ("says", {"tools": TOOLS}, "It is sunny.", "Let me see.", [], "stop"),
        ("asks", {"tools": TOOLS}, "", "Let me see.", [("weather", ARGUMENTS)], "tool_calls"),
        ("says", {"reasoning_format": "none"}, "Let me see.\n\nIt is sunny.", "", [], "stop")):
    choice = chat(name, **more)
    message = choice["message"]
    said = (message["content"] or "", message.get("reasoning_content") or "", calls_of(message.get("tool_calls") or []),
            choice["finish_reason"])
    check(f"channels {name} {list(more)}", said == (content, reasoning, calls, reason), said)
    said = streamed(name, **more)
    check(f"channels {name} {list(more)} in a stream", (*said[:2], calls_of(said[2]), said[3]) == (content, reasoning, calls, reason), said)
items = s.post(R, {"input": "a", "tools": FLAT, "cadenza": {"pipeline": "asks"}})[1]["output"]
check("channels as items", [i["type"] for i in items] == ["reasoning", "function_call"], items)
s.stop()
done()
