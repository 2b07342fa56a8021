"""clients.py - the clients that people use: openai, LangChain, LiteLLM, lm-eval and curl. clients.sh makes their environment."""
import asyncio
import json
import logging
import math
import shutil
import subprocess
import tempfile

import openai

from server import PROGRAM, MODEL, Server, Speaker, check, done, run_request

P = "river (noun): a"
M = [{"role": "user", "content": "What does river mean?"}]
TEMPLATE = ("{#- <tool_call> -#}{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif -%}"
            "{%- for m in messages -%}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endfor -%}<|assistant|>")
CALL = '{"name": "weather", "arguments": {"place": "Oslo"}}'
TOOL = {"name": "weather", "description": "of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}
speaker = Speaker(tempfile.mkdtemp(), TEMPLATE)
speaker.say("call", f"<tool_call>{CALL}</tool_call>")
speaker.say("sun", "It is sunny.")
s = speaker.serve()
URL = f"http://127.0.0.1:{s.port}/v1"
NAME = s.get("/v1/models")[1]["data"][0]["id"]
CALLS = {"cadenza": {"pipeline": "call"}}
greedy = run_request({"prompt": P, "kwargs": {"do_sample": False, "max_new_tokens": 16}})
said = s.post("/v1/chat/completions", {"messages": M, "temperature": 0, "max_tokens": 12})[1]["choices"][0]["message"]["content"]


# --- openai ---
def openai_completions(client):
    answer = client.completions.create(model=NAME, prompt=P, temperature=0)
    check("openai: a completion", answer.choices[0].text == greedy["text"], answer)
    answer = client.completions.create(model=NAME, prompt=[P, P], n=2, seed=3, temperature=0.8, logprobs=2, max_tokens=4)
    check("openai: two prompts, two rows", [c.index for c in answer.choices] == [0, 1, 2, 3] and
          len(answer.choices[0].logprobs.token_logprobs) == answer.usage.completion_tokens // 4, answer)
    events = list(client.completions.create(model=NAME, prompt=P, temperature=0, stream=True, stream_options={"include_usage": True}))
    check("openai: a stream", "".join(e.choices[0].text for e in events if e.choices) == greedy["text"] and
          events[-1].usage.completion_tokens == len(greedy["ids"]), events)


def openai_chats(client):
    answer = client.chat.completions.create(model=NAME, messages=M, temperature=0, max_tokens=12, logprobs=True, top_logprobs=2)
    check("openai: a chat", answer.choices[0].message.content == said and answer.choices[0].finish_reason in ("stop", "length"), answer)
    check("openai: its log-probabilities", all(len(t.top_logprobs) == 2 for t in answer.choices[0].logprobs.content), answer)
    events = list(client.chat.completions.create(model=NAME, messages=M, temperature=0, max_tokens=12, stream=True))
    check("openai: a streamed chat", "".join(e.choices[0].delta.content or "" for e in events) == said, events)
    with client.chat.completions.stream(model=NAME, messages=M, extra_body={"cadenza": {"pipeline": "sun"}}) as stream:
        check("openai: the stream's helper", stream.get_final_completion().choices[0].message.content == "It is sunny.")
    answer = client.chat.completions.create(model=NAME, messages=M, max_tokens=12,
                                            extra_body={"cadenza": {"kwargs": {"do_sample": False}}})
    check("openai: extra_body", answer.choices[0].message.content == said, answer)


def openai_tools(client):
    tools = [{"type": "function", "function": TOOL}]
    answer = client.chat.completions.create(model=NAME, messages=M, tools=tools, extra_body=CALLS).choices[0]
    call = answer.message.tool_calls[0]
    check("openai: a call", answer.finish_reason == "tool_calls" and call.function.name == "weather" and
          json.loads(call.function.arguments) == {"place": "Oslo"}, answer)
    more = M + [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    check("openai: its result", client.chat.completions.create(model=NAME, messages=more, tools=tools, max_tokens=3).choices)
    with client.chat.completions.stream(model=NAME, messages=M, tools=tools, extra_body=CALLS) as stream:
        final = stream.get_final_completion().choices[0].message.tool_calls[0]
    check("openai: a streamed call", json.loads(final.function.arguments) == {"place": "Oslo"} and final.id.startswith("call_"), final)


def openai_responses(client):
    answer = client.responses.create(model=NAME, input=M, temperature=0, max_output_tokens=12)
    check("openai: a response", answer.output_text == said and answer.status in ("completed", "incomplete"), answer)
    with client.responses.stream(model=NAME, input=M, temperature=0, max_output_tokens=12) as stream:
        kinds = [e.type for e in stream]
        final = stream.get_final_response() if "response.completed" in kinds else None
    check("openai: a streamed response", kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete") and
          (final is None or final.output_text == said), kinds)
    answer = client.responses.create(model=NAME, input="Weather?", tools=[{"type": "function", "strict": False, **TOOL}], extra_body=CALLS)
    call = answer.output[0]
    check("openai: a call in a response", call.type == "function_call" and json.loads(call.arguments) == {"place": "Oslo"}, answer)
    more = [{"role": "user", "content": "Weather?"}, call.model_dump(exclude_none=True),
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    check("openai: its output", client.responses.create(model=NAME, input=more, max_output_tokens=3).output)


def openai_errors(client):
    for kind, why in ((openai.BadRequestError, {"max_tokens": -1}), (openai.NotFoundError, {"model": "other"})):
        try:
            client.completions.create(**{"model": NAME, "prompt": P, **why})
            check(f"openai: {why} raises", False)
        except kind as e:
            check(f"openai: {why} raises", e.type in ("invalid_request_error", "not_found_error"), e)
    check("openai: models", client.models.list().data[0].id == NAME and client.models.retrieve(NAME).id == NAME)


async def openai_async():
    async with openai.AsyncOpenAI(base_url=URL, api_key="none") as client:
        many = await asyncio.gather(*[client.completions.create(model=NAME, prompt=P, temperature=0) for _ in range(8)])
        check("openai: eight at once", all(a.choices[0].text == greedy["text"] for a in many))
        text = ""
        async for e in await client.chat.completions.create(model=NAME, messages=M, temperature=0, max_tokens=12, stream=True):
            text += e.choices[0].delta.content or ""
        check("openai: an asynchronous stream", text == said, text)


# --- LangChain, LiteLLM ---
def langchain():
    from langchain_openai import ChatOpenAI, OpenAI
    chat = ChatOpenAI(base_url=URL, api_key="none", model=NAME, temperature=0, max_tokens=12)
    check("LangChain: a chat", chat.invoke("What does river mean?").content == said)
    check("LangChain: a stream", "".join(c.content for c in chat.stream("What does river mean?")) == said)
    bound = ChatOpenAI(base_url=URL, api_key="none", model=NAME, extra_body=CALLS).bind_tools([{"type": "function", "function": TOOL}])
    check("LangChain: a call", [(c["name"], c["args"]) for c in bound.invoke("Weather?").tool_calls] == [("weather", {"place": "Oslo"})])
    plain = OpenAI(base_url=URL, api_key="none", model=NAME, temperature=0, max_tokens=16)
    check("LangChain: a completion", plain.invoke(P) == greedy["text"])


def litellm():
    import litellm
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    here = {"api_base": URL, "api_key": "none", "temperature": 0}
    answer = litellm.completion(model="openai/" + NAME, messages=M, max_tokens=12, **here)
    check("LiteLLM: a chat", answer.choices[0].message.content == said, answer)
    stream = litellm.completion(model="openai/" + NAME, messages=M, max_tokens=12, stream=True, **here)
    check("LiteLLM: a stream", "".join(e.choices[0].delta.content or "" for e in stream) == said)
    answer = litellm.text_completion(model="text-completion-openai/" + NAME, prompt=P, max_tokens=16, **here)
    check("LiteLLM: a completion", answer.choices[0].text == greedy["text"], answer)


# --- lm-eval ---
def instance(kind, *arguments):
    from lm_eval.api.instance import Instance
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def scored(context, continuation):
    """The sum of the log-probabilities that `cadenza score` gives."""
    out = subprocess.run([PROGRAM, "score", MODEL, "--json", "--context", context, "--text", continuation], capture_output=True, text=True)
    return sum(json.loads(out.stdout)["logprobs"])


def lm_eval():
    from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
    logging.disable(logging.WARNING)
    model = LocalCompletionsAPI(model=NAME, base_url=URL + "/completions", tokenizer_backend="remote", batch_size=2, num_concurrent=1)
    pairs = [(P, " stream of water"), ("dog (noun):", " an animal"), ("music is", " a kind of art"), ("the", " sea")]
    got = model.loglikelihood([instance("loglikelihood", *p) for p in pairs])
    for (context, continuation), (value, _) in zip(pairs, got):
        check(f"lm-eval: {context!r}{continuation!r} as `cadenza score` has it", value == scored(context, continuation),
              (value, scored(context, continuation)))
    check("lm-eval: numbers", all(math.isfinite(v) and v < 0 for v, _ in got), got)
    texts = model.generate_until([instance("generate_until", P, {"until": ["\n"], "max_gen_toks": 16, "temperature": 0.0})])
    check("lm-eval: generation", texts == [greedy["text"].split("\n")[0]], texts)
    chat = LocalChatCompletion(model=NAME, base_url=URL + "/chat/completions", tokenizer_backend=None, batch_size=1, num_concurrent=1)
    asked = chat.apply_chat_template(M, add_generation_prompt=True) if hasattr(chat, "apply_chat_template") else M
    texts = chat.generate_until([instance("generate_until", asked, {"until": ["never"], "max_gen_toks": 12, "temperature": 0.0})])
    check("lm-eval: a chat", texts == [said], (texts, said))


# --- curl ---
def curl():
    body = json.dumps({"prompt": P, "temperature": 0, "stream": True})
    out = subprocess.run(["curl", "-sN", URL + "/completions", "-H", "Content-Type: application/json", "-d", body],
                         capture_output=True, text=True).stdout
    events = [json.loads(line[6:]) for line in out.splitlines() if line.startswith("data: {")]
    check("curl: a stream", "".join(e["choices"][0]["text"] for e in events) == greedy["text"] and "data: [DONE]" in out, out)


with openai.OpenAI(base_url=URL, api_key="none") as client:
    for part in (openai_completions, openai_chats, openai_tools, openai_responses, openai_errors):
        part(client)
asyncio.run(openai_async())
langchain()
litellm()
lm_eval()
if shutil.which("curl"):
    curl()
else:
    print("skipped curl: there is none")
s.quiet()
s.stop()
done()
