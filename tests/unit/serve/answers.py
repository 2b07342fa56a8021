"""answers.py - completions and chats: every answer has the tokens that `cadenza run` gives alone, streamed or whole, and what
cannot be honoured is refused by its name."""
import concurrent.futures
import json
import math
import os
import tempfile

from server import Server, check, done, run, run_request

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "story.ini"), "w") as f:
    f.write("[pipeline]\nprocessors = dry\n[generation]\ndo_sample = true\ntemperature = 0.8\nseed = 5\nmax_new_tokens = 9\n"
            "[dry]\nmultiplier = 0.8\n")
dry = os.path.join(folder, "dry.run")
with open(dry, "w") as f:
    f.write("[pipeline]\nprocessors = dry\n[dry]\nmultiplier = 0.8\n")
beside = os.path.join(folder, "strategy.run")
with open(beside, "w") as f:
    f.write("[pipeline]\nstrategy = org.cadenza.simple-sample\n")
penalties = os.path.join(folder, "penalties.run")
with open(penalties, "w") as f:
    f.write("[pipeline]\nprocessors = presence_penalty, frequency_penalty\n[presence_penalty]\npresence_penalty = 0.5\n"
            "[frequency_penalty]\nfrequency_penalty = 0.25\n")

s = Server("--pipelines", folder)
MODEL = s.get("/v1/models")[1]["data"][0]["id"]
check("the model's id", MODEL == "pocket-dictionary", MODEL)
P = "river (noun): a"


def ids_of(choice):
    return choice["token_ids"]


def completion(body, **more):
    status, answer = s.post("/v1/completions", {"return_token_ids": True, **body, **more})
    check(f"status of {body}", status == 200, answer)
    return answer


# --- the same tokens: (body, arguments of run) ---
G = {"do_sample": False}
table = [
    ({"temperature": 0}, {"do_sample": False, "max_new_tokens": 16}, None),
    ({"temperature": 0, "max_tokens": 30}, {"do_sample": False, "max_new_tokens": 30}, None),
    ({"temperature": 0.9, "seed": 7, "max_tokens": 20}, {"do_sample": True, "temperature": 0.9, "max_new_tokens": 20}, 7),
    ({"temperature": 1.3, "top_p": 0.8, "top_k": 20, "min_p": 0.01, "seed": 1, "max_tokens": 20},
     {"do_sample": True, "temperature": 1.3, "top_p": 0.8, "top_k": 20, "min_p": 0.01, "max_new_tokens": 20}, 1),
    ({"temperature": 0, "repetition_penalty": 1.5}, {"do_sample": False, "repetition_penalty": 1.5, "max_new_tokens": 16}, None),
    ({"temperature": 0, "logit_bias": {"292": -100, "480": 5}},
     {"do_sample": False, "sequence_bias": [[[292], -100.0], [[480], 5.0]], "max_new_tokens": 16}, None),
    ({"temperature": 0, "min_tokens": 12}, {"do_sample": False, "min_new_tokens": 12, "max_new_tokens": 16}, None),
    ({"cadenza": {"kwargs": {"do_sample": False, "num_beams": 4, "max_new_tokens": 12}}},
     {"do_sample": False, "num_beams": 4, "max_new_tokens": 12}, None),
    ({"cadenza": {"kwargs": {"do_sample": False, "prompt_lookup_num_tokens": 3, "max_new_tokens": 24}}},
     {"do_sample": False, "prompt_lookup_num_tokens": 3, "max_new_tokens": 24}, None),
    ({"cadenza": {"kwargs": {"do_sample": False, "penalty_alpha": 0.6, "top_k": 4, "max_new_tokens": 12}}},
     {"do_sample": False, "penalty_alpha": 0.6, "top_k": 4, "max_new_tokens": 12}, None),
]


def compare(row):
    body, kwargs, seed = row
    document = {"prompt": P, "kwargs": kwargs}
    if seed is not None:
        document["seed"] = seed
    return run_request(document)


with concurrent.futures.ThreadPoolExecutor(2) as pool:
    wanted = list(pool.map(compare, table))
with concurrent.futures.ThreadPoolExecutor(16) as pool: # all of them at once, three times each
    answers = list(pool.map(lambda row: completion({"prompt": P, **row[0]}), table * 3))
for i, answer in enumerate(answers):
    want = wanted[i % len(table)]
    choice = answer["choices"][0]
    check(f"tokens of {table[i % len(table)][0]}", ids_of(choice) == want["ids"], (choice, want["ids"]))
    check("text", choice["text"] == want["text"], (choice["text"], want["text"]))
    check("usage", answer["usage"]["completion_tokens"] == len(want["ids"]), answer["usage"])
    check("ids of the prompt", choice["prompt_token_ids"] == answers[0]["choices"][0]["prompt_token_ids"])

for name, body, ini in (("processors", {"processors": [{"name": "dry", "params": {"multiplier": 0.8}}]}, dry),
                        ("strategy", {"strategy": "org.cadenza.simple-sample"}, beside)):
    got = completion({"prompt": P, "seed": 3, "temperature": 1, "max_tokens": 12, "cadenza": body})["choices"][0]
    want = run("--pipeline", ini, "-p", P, "-n", "12", "--seed", "3", "-s", "do_sample=yes", "-s", "temperature=1.0")
    check(f"tokens with {name}", ids_of(got) == want["ids"], (got, want["ids"]))
got = completion({"prompt": P, "cadenza": {"pipeline": "story"}})["choices"][0]
want = run("--pipeline", os.path.join(folder, "story.ini"), "-p", P)
check("tokens of a pipeline", ids_of(got) == want["ids"], (got, want["ids"]))
for section in ({"dry.multiplier": 0}, {"dry.multiplier": 5, "dry.allowed_length": 1}):
    got = completion({"prompt": P, "cadenza": {"pipeline": "story", "kwargs": section}})["choices"][0]
    args = [part for name, value in section.items() for part in ("-s", f"{name}={value}")]
    want = run("--pipeline", os.path.join(folder, "story.ini"), "-p", P, *args)
    check("tokens with a section's own value", ids_of(got) == want["ids"], (section, got, want["ids"]))
got = completion({"prompt": P, "temperature": 0, "presence_penalty": 0.5, "frequency_penalty": 0.25})["choices"][0]
want = run("--pipeline", penalties, "-p", P, "-n", "16", "-s", "do_sample=no")
check("tokens with penalties", ids_of(got) == want["ids"], (got, want["ids"]))


def pipeline_of(name, text):
    path = os.path.join(folder, name + ".run")
    with open(path, "w") as f:
        f.write(text)
    return path


# --- samplers by llama-server's names are the processors and decode loops of here ---
DRAWS = ["-n", "16", "--seed", "3", "-s", "do_sample=yes", "-s", "temperature=1.5"]
for name, body, text in (
        ("dry", {"dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 1, "dry_penalty_last_n": 20, "dry_sequence_breakers": ["\n"]},
         "processors = dry\n[dry]\nmultiplier = 0.8\nbase = 2\nallowed_length = 1\nrange = 20\nsequence_breakers = [\"\\n\"]\n"),
        ("xtc", {"xtc_probability": 0.9, "xtc_threshold": 0.02}, "processors = xtc\n[xtc]\nprobability = 0.9\nthreshold = 0.02\n"),
        ("sigma", {"top_n_sigma": 0.5}, "processors = top_n_sigma\n[top_n_sigma]\ntop_n_sigma = 0.5\n"),
        ("dynamic", {"dynatemp_range": 0.5, "dynatemp_exponent": 2},
         "processors = dynamic_temperature\n[dynamic_temperature]\nlow = 1.0\nhigh = 2.0\nexponent = 2\n"),
        ("newest", {"repeat_last_n": 4, "repeat_penalty": 1.7, "frequency_penalty": 0.5},
         "processors = recent_penalties\n[recent_penalties]\nlast_n = 4\nrepetition = 1.7\nfrequency = 0.5\n"),
        ("mirostat", {"mirostat": 1, "mirostat_tau": 2}, "strategy = mirostat\n[mirostat]\ntau = 2\n"),
        ("mirostat2", {"mirostat": 2, "mirostat_tau": 2, "mirostat_eta": 0.3}, "strategy = mirostat_v2\n[mirostat_v2]\ntau = 2\neta = 0.3\n")):
    got = completion({"prompt": P, "seed": 3, "temperature": 1.5, **body})["choices"][0]
    want = run("--pipeline", pipeline_of(name, "[pipeline]\n" + text), "-p", P, *DRAWS)
    check(f"tokens with {body}", ids_of(got) == want["ids"], (got, want["ids"]))
off = {"dry_multiplier": 0, "dry_base": 3, "xtc_probability": 0, "mirostat": 0, "mirostat_tau": 5, "top_n_sigma": -1, "dynatemp_range": 0,
       "repeat_last_n": 64, "repeat_penalty": 1, "t_max_predict_ms": -1, "id_slot": -1, "n_keep": 0, "min_keep": 0, "samplers": None}
got = completion({"prompt": P, "temperature": 0, **off})["choices"][0]
check("samplers that are off", ids_of(got) == wanted[0]["ids"], got)
got = completion({"prompt": P, "temperature": 0, "repeat_last_n": -1, "repeat_penalty": 1.5})["choices"][0]
check("penalties over all tokens", ids_of(got) == wanted[4]["ids"], got)

# --- tokens: those that end an answer, those that it may not have, the only ones ---
full = completion({"prompt": P, "temperature": 0})["choices"][0]
for at in (0, 5):
    stop = ids_of(full)[at]
    before = s.post("/detokenize", {"tokens": ids_of(full)[:at]})[1]["prompt"]
    after = s.post("/detokenize", {"tokens": ids_of(full)[:at + 1]})[1]["prompt"]
    for more, text in (({}, before), ({"ignore_eos": True}, before), ({"logprobs": 1}, before), ({"include_stop_str_in_output": True}, after)):
        body = {"prompt": P, "temperature": 0, "stop_token_ids": [stop, 7], **more}
        answer = completion(body)
        choice = answer["choices"][0]
        check(f"stop_token_ids at {at} {more}", (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (text, "stop", stop), choice)
        check("the token itself is counted", ids_of(choice) == ids_of(full)[:at + 1] and answer["usage"]["completion_tokens"] == at + 1, answer)
        events, _ = s.stream("/v1/completions", {**body, "stream": True})
        check("and streamed", "".join(e["choices"][0]["text"] for e in events) == text and events[-1]["choices"][0]["stop_reason"] == stop, events)
ended = completion({"prompt": P, "temperature": 0, "max_tokens": 60, "stop_token_ids": [7]})["choices"][0]
plain = completion({"prompt": P, "temperature": 0, "max_tokens": 60})["choices"][0]
check("the model's own end stays one", ids_of(ended) == ids_of(plain) and ended["stop_reason"] is None and ended["finish_reason"] == "stop", ended)
got = completion({"prompt": P, "temperature": 0, "bad_words": ["stream", " water"]})["choices"][0]
bad = [s.post("/tokenize", {"prompt": word, "add_special_tokens": False})[1]["tokens"] for word in ("stream", " stream", "water", " water")]
want = run_request({"prompt": P, "kwargs": {"do_sample": False, "max_new_tokens": 16, "bad_words_ids": bad}})
check("bad_words", ids_of(got) == want["ids"] and "stream" not in got["text"] and "stream" in full["text"], (got, want))
some = ids_of(full)[:4] + [292]
got = completion({"prompt": P, "temperature": 1, "seed": 2, "allowed_token_ids": some})["choices"][0]
check("allowed_token_ids", len(ids_of(got)) == 16 and set(ids_of(got)) <= set(some), got)
shown = completion({"prompt": P, "temperature": 0, "max_tokens": 60, "ignore_eos": True, "skip_special_tokens": False})["choices"][0]
hidden = completion({"prompt": P, "temperature": 0, "max_tokens": 60, "ignore_eos": True})["choices"][0]
check("special tokens are shown", shown["text"] == s.post("/detokenize", {"tokens": ids_of(shown)})[1]["prompt"] != hidden["text"], shown)
events, _ = s.stream("/v1/completions", {"prompt": P, "temperature": 0, "max_tokens": 60, "ignore_eos": True, "skip_special_tokens": False,
                                         "stream": True})
check("and streamed", "".join(e["choices"][0]["text"] for e in events) == shown["text"], events)
ended = completion({"prompt": P, "temperature": 0, "max_tokens": 60, "skip_special_tokens": False})["choices"][0]
check("but for the one that ends an answer", ended["text"] == plain["text"], ended)

# --- several prompts, several rows ---
prompts = [P, "dog (noun):", "music is"]
answer = completion({"prompt": prompts, "temperature": 0.9, "seed": 4, "n": 2, "max_tokens": 8})
check("indexes", [c["index"] for c in answer["choices"]] == list(range(6)), answer)
for i, prompt in enumerate(prompts):
    want = run_request({"prompt": prompt, "seed": 4,
                        "kwargs": {"do_sample": True, "temperature": 0.9, "num_return_sequences": 2, "max_new_tokens": 8}})
    for k in range(2):
        check(f"row {k} of prompt {i}", ids_of(answer["choices"][2 * i + k]) == want["ids"][k], want["ids"])
answer = completion({"prompt": P, "temperature": 0, "n": 3})
check("greedy, three times", len({json.dumps(c["token_ids"]) for c in answer["choices"]}) == 1 and len(answer["choices"]) == 3)
check("usage is their sum", answer["usage"]["completion_tokens"] == sum(len(ids_of(c)) for c in answer["choices"]), answer["usage"])
answer = completion({"prompt": P, "n": 2, "cadenza": {"kwargs": {"num_beams": 3, "do_sample": False, "max_new_tokens": 6}}})
want = run_request({"prompt": P, "kwargs": {"num_beams": 3, "do_sample": False, "num_return_sequences": 2, "max_new_tokens": 6}})
check("two beams of three", [ids_of(c) for c in answer["choices"]] == want["ids"], (answer, want["ids"]))
ids = s.post("/tokenize", {"prompt": P})[1]["tokens"]
check("a prompt of ids", ids_of(completion({"prompt": ids, "temperature": 0})["choices"][0]) == wanted[0]["ids"])
check("prompts of ids", ids_of(completion({"prompt": [ids, ids], "temperature": 0})["choices"][1]) == wanted[0]["ids"])

# --- the best of several: those whose tokens are the likeliest on average, in this order ---
draws = {"prompt": [P, "music is"], "temperature": 1.2, "seed": 11, "max_tokens": 8}
rows = completion({**draws, "n": 5, "logprobs": 0})["choices"]
best = completion({**draws, "n": 2, "best_of": 5, "logprobs": 0})
for i in range(2):
    five = sorted(rows[5 * i:5 * i + 5], key=lambda c: -sum(c["logprobs"]["token_logprobs"]) / len(ids_of(c)))
    got = [ids_of(c) for c in best["choices"][2 * i:2 * i + 2]]
    check("the two likeliest of five", got == [ids_of(c) for c in five[:2]], (got, [ids_of(c) for c in five]))
check("their indexes", [c["index"] for c in best["choices"]] == [0, 1, 2, 3], best)
check("those that are told are counted", best["usage"]["completion_tokens"] == sum(len(ids_of(c)) for c in best["choices"]), best["usage"])
alone = completion({**draws, "prompt": P, "best_of": 5})["choices"]
check("the best one", len(alone) == 1 and ids_of(alone[0]) == ids_of(best["choices"][0]), alone)
again = completion({**draws, "prompt": P, "best_of": 5, "cadenza": {"strategy": "org.cadenza.simple-sample"}})
check("of a loop that keeps no scores", len(again["choices"]) == 1, again)
got = completion({"prompt": P, "temperature": 0, "best_of": 3})
check("of a greedy search", [ids_of(c) for c in got["choices"]] == [wanted[0]["ids"]] and got["usage"]["completion_tokens"] == 16, got)
got = completion({"prompt": P, "temperature": 0, "n": 2, "best_of": 2, "stream": None})
check("as many as are told", len(got["choices"]) == 2, got)

# --- llama-server's n_predict ---
got = completion({"prompt": P, "temperature": 0, "n_predict": -1})
check("n_predict: to the end", ids_of(got["choices"][0]) == completion({"prompt": P, "temperature": 0, "max_tokens": 500})["choices"][0]["token_ids"]
      and len(ids_of(got["choices"][0])) > 16, got)
got = completion({"prompt": P, "temperature": 0, "n_predict": -1, "max_tokens": 4})
check("max_tokens wins", len(ids_of(got["choices"][0])) == 4, got)
got = completion({"prompt": P, "temperature": 0, "max_tokens": 4, "cadenza": {"kwargs": {"max_new_tokens": 4}}})
check("two limits that agree", len(ids_of(got["choices"][0])) == 4, got)
got = completion({"prompt": P, "temperature": 0, "tools": [], "tool_choice": "none", "top_logprobs": 0, "documents": [], "tfs_z": 1.0,
                  "chat_template_kwargs": {}, "truncation_side": "left", "n_cmpl": 1})
check("fields of chats that ask for nothing", ids_of(got["choices"][0]) == wanted[0]["ids"], got)
got = completion({"prompt": P, "temperature": 0, "tool_choice": "auto"})
check("auto without tools", ids_of(got["choices"][0]) == wanted[0]["ids"], got)

# --- streams ---
for body in [row[0] for row in table] + [{"temperature": 1, "seed": 2, "n": 3, "max_tokens": 10}]:
    body = {"prompt": P, **body}
    whole = completion(body)
    events, ended = s.stream("/v1/completions", {**body, "stream": True, "stream_options": {"include_usage": True},
                                                 "return_token_ids": True})
    check("[DONE]", ended)
    check("usage comes last", events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"], events[-1])
    check("and not before", all(e["usage"] is None for e in events[:-1]))
    check("one id", len({e["id"] for e in events}) == 1)
    for choice in whole["choices"]:
        mine = [c for e in events for c in e["choices"] if c["index"] == choice["index"]]
        check(f"streamed text of {body}", "".join(c["text"] for c in mine) == choice["text"], mine)
        check("one reason", [c["finish_reason"] for c in mine if c["finish_reason"]] == [choice["finish_reason"]], mine)
events, _ = s.stream("/v1/completions", {"prompt": P, "stream": True, "temperature": 0})
check("no usage unasked", all("usage" not in e for e in events))
events, _ = s.stream("/v1/completions", {"prompt": P, "stream": True, "temperature": 0, "echo": True})
check("echo, streamed", "".join(e["choices"][0]["text"] for e in events) == P + wanted[0]["text"], events)

events, _ = s.stream("/v1/completions", {"prompt": [P, "a"], "n": 2, "stream": True, "seed": 3, "max_tokens": 6, "stream_options": {
    "include_usage": True, "continuous_usage_stats": True}})
counts = [e["usage"]["completion_tokens"] for e in events]
check("usage in each event", counts == sorted(counts) and counts[0] > 0 and all(e["usage"]["prompt_tokens"] == 7 for e in events), counts)
answer = completion({"prompt": P, "request_id": "my-own.id_1", "temperature": 0})
check("an id of the client's", answer["id"] == "cmpl-my-own.id_1" and ids_of(answer["choices"][0]) == wanted[0]["ids"], answer)
answer = completion({"prompt": P, "ignore_eos": True, "temperature": 0, "max_tokens": 80})
want = run_request({"prompt": P, "kwargs": {"do_sample": False, "eos_token_id": [], "max_new_tokens": 80}})
check("past the end", ids_of(answer["choices"][0]) == want["ids"] and len(want["ids"]) == 80, answer)

# --- stop strings: at every place of an answer ---
long = completion({"prompt": P, "temperature": 0, "max_tokens": 40})["choices"][0]["text"]
for at in range(1, len(long) - 6, 5):
    stop = long[at:at + 4]
    want = long[:long.index(stop)]
    body = {"prompt": P, "temperature": 0, "max_tokens": 40, "stop": ["never", stop]}
    choice = completion(body)["choices"][0]
    check(f"stop {stop!r}", (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (want, "stop", stop), choice)
    events, _ = s.stream("/v1/completions", {**body, "stream": True})
    check(f"stop {stop!r}, streamed", "".join(e["choices"][0]["text"] for e in events) == want, events)
kept = completion({"prompt": P, "temperature": 0, "max_tokens": 40, "stop": long[9:12], "include_stop_str_in_output": True})
for prompt, answer, stop, want in (("a large str", "eam of water", "stream", "eam of water"), ("a stream is ", "a stream", "stream", "a "),
                                   ("one\n", "\ntwo", "\n\n", "\ntwo"), ("\u00e9", "\u00e9a", "\u00e9\u00e9", "\u00e9a")):
    for echo in (False, True):
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 40, "stop": stop, "echo": echo, "structured_outputs": {"choice": [answer]}}
        choice = completion(body)["choices"][0]
        check(f"stop {stop!r} that {prompt!r} begins, echo {echo}", (choice["text"], choice["stop_reason"]) ==
              ((prompt if echo else "") + want, None if want == answer else stop), choice)
check("the stop string kept", kept["choices"][0]["text"] == long[:long.index(long[9:12]) + 3], kept)

# --- chats ---
messages = [{"role": "user", "content": "What does river mean?"}]
want = run_request({"messages": messages, "kwargs": {"do_sample": False, "max_new_tokens": 20}})
parts = [{"role": "user", "content": [{"type": "text", "text": "What does "}, {"type": "text", "text": "river mean?"}]}]
for m in (messages, parts):
    status, answer = s.post("/v1/chat/completions", {"messages": m, "temperature": 0, "max_completion_tokens": 20,
                                                     "return_token_ids": True})
    check("a chat", status == 200 and answer["object"] == "chat.completion", answer)
    check("tokens of a chat", ids_of(answer["choices"][0]) == want["ids"], (answer, want["ids"]))
    check("text of a chat", answer["choices"][0]["message"] == {"role": "assistant", "content": want["text"]}, answer)
events, ended = s.stream("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 20, "stream": True})
deltas = [e["choices"][0]["delta"] for e in events]
check("chunks", ended and all(e["object"] == "chat.completion.chunk" for e in events))
check("first the role", deltas[0] == {"role": "assistant", "content": ""}, deltas[0])
check("last an empty delta", deltas[-1] == {} and events[-1]["choices"][0]["finish_reason"], events[-1])
check("chat text, streamed", "".join(d.get("content", "") for d in deltas) == want["text"], deltas)
check("messages to ids", s.post("/tokenize", {"messages": messages, "add_generation_prompt": True})[1]["tokens"] ==
      answer["prompt_token_ids"])
events, ended = s.stream("/v1/chat/completions", {"messages": messages, "n": 2, "max_tokens": 2, "stream": True, "return_token_ids": True})
check("the prompt's ids once, in the first event", [e.get("prompt_token_ids") for e in events] ==
      [answer["prompt_token_ids"]] + [None] * (len(events) - 1) and "prompt_token_ids" not in json.dumps([e["choices"] for e in events]), events)
call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
for change, good in (({}, True), ({"id": None, "type": None}, True), ({"function": {"name": "f", "arguments": {}}}, True), ({"id": 5}, False), ({"type": "f"}, False),
                     ({"function": None}, False), ({"function": 5}, False), ({"function": {"name": "f", "arguments": 5}}, False),
                     ({"function": {"name": "f", "arguments": None}}, False), ({"function": {"name": 5, "arguments": ""}}, False)):
    status, got = s.post("/v1/chat/completions", {"max_tokens": 1, "messages": [*messages, {"role": "assistant", "tool_calls": [{**call, **change}]}]})
    check(f"a call with {change}", status == (200 if good else 400) and (good or got["error"]["param"] == "messages"), got)

# --- log-probabilities ---
want = run_request({"prompt": P, "kwargs": {"do_sample": False, "max_new_tokens": 8, "output_logprobs": True}})
raw = [step[0] for step in want["raw_logprobs"]]
for body in ({}, {"echo": True}):
    choice = completion({"prompt": P, "temperature": 0, "max_tokens": 8, "logprobs": 3, **body})["choices"][0]
    lp = choice["logprobs"]
    n = len(ids) if body.get("echo") else 0
    check("raw log-probabilities", all(abs(a - b) < 1e-6 for a, b in zip(lp["token_logprobs"][n:], raw)), (lp, raw))
    check("greedy is the leader", all(v == max(t.values()) for v, t in zip(lp["token_logprobs"][n:], lp["top_logprobs"][n:])), lp)
    check("lengths", len({len(lp[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}) == 1, lp)
    check("tokens join to the text", "".join(lp["tokens"]).startswith(choice["text"][: len(choice["text"]) - 1]), (lp, choice))
    if n:
        check("nothing precedes the first", lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None, lp)
for more in ({"temperature": 0}, {"temperature": 0.9, "seed": 3}, {"cadenza": {"kwargs": {"num_beams": 3, "do_sample": False}}},
             {"cadenza": {"kwargs": {"prompt_lookup_num_tokens": 3, "do_sample": False}}}, {"temperature": 0, "logit_bias": {"292": -100}}):
    kept, scored = (completion({"prompt": P, "max_tokens": 8, "logprobs": 4, "echo": echo, **more})["choices"][0] for echo in (False, True))
    check(f"kept or scored, the same bits: {more}", ids_of(kept) == ids_of(scored) and all(
        kept["logprobs"][k] == scored["logprobs"][k][len(ids):] for k in ("tokens", "token_logprobs", "top_logprobs")), (kept, scored))
face = s.post("/tokenize", {"prompt": "é\U0001f600", "add_special_tokens": False})[1]["tokens"]
check("a character of several tokens", len(face) > 2, face)
halves = completion({"prompt": P, "temperature": 0, "max_tokens": len(face), "logprobs": 0,
                     "logit_bias": {str(i): 100 for i in face[:1]}, "cadenza": {"kwargs": {"eos_token_id": []}}})["choices"][0]
check("halves have their offsets", halves["logprobs"]["text_offset"] == sorted(halves["logprobs"]["text_offset"]), halves)
status, answer = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "temperature": 0, "max_tokens": 4,
                                                 "logprobs": True, "logit_bias": {str(face[-1]): 100}})
content = answer["choices"][0]["logprobs"]["content"]
check("bytes of a half", content[0]["bytes"] and content[0]["bytes"][0] >= 0x80 and len(content[0]["bytes"]) < 4 and
      "\ufffd" in content[0]["token"], content)
scored = completion({"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0})["choices"][0]
check("a prompt scored alone", scored["text"] == P and len(scored["logprobs"]["tokens"]) == len(ids), scored)
harness = completion({"prompt": [ids], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True})
check("as lm-eval asks", len(harness["choices"][0]["logprobs"]["tokens"]) == len(ids) + 1, harness)
status, answer = s.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 6, "logprobs": True,
                                                 "top_logprobs": 2})
content = answer["choices"][0]["logprobs"]["content"]
check("chat log-probabilities", all(len(e["top_logprobs"]) == 2 and e["logprob"] <= 0 for e in content), content)
check("bytes join to the text", bytes(b for e in content for b in e["bytes"]).decode().strip() ==
      answer["choices"][0]["message"]["content"].strip(), answer)
status, answer = s.post("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 3, "logprobs": True})
check("no leaders unasked", all(e["top_logprobs"] == [] for e in answer["choices"][0]["logprobs"]["content"]), answer)

# --- what tokens write ---
text = "a caf\u00e9 \U0001f600"
plain = s.post("/tokenize", {"prompt": text})[1]["tokens"]
_, got = s.post("/tokenize", {"content": text, "with_pieces": True})
check("pieces in the place of ids", [t["id"] for t in got["tokens"]] == plain and got["count"] == len(plain), got)
check("bytes where they are no characters", got["tokens"][0]["piece"] == "a" and any(isinstance(t["piece"], list) for t in got["tokens"]), got)
spelt = [t["piece"] if isinstance(t["piece"], list) else t["piece"].encode() for t in got["tokens"]]
check("they join to the text", b"".join(map(bytes, spelt)).decode() == text, got)
_, got = s.post("/tokenize", {"messages": messages, "with_pieces": True})
check("special tokens too", got["tokens"][0]["piece"] == "<|user|>", got)
_, got = s.post("/tokenize", {"prompt": "a river", "return_token_strs": True})
check("texts beside ids", "".join(got["token_strs"]) == "a river" and len(got["token_strs"]) == len(got["tokens"]), got)

# --- refusals, by name ---
C, T = "/v1/completions", "/v1/chat/completions"
M = {"messages": messages}
refusals = [
    (C, {}, "prompt"), (C, {"prompt": []}, "prompt"), (C, {"prompt": ["a", 1]}, "prompt"), (C, {"prompt": [1, "a"]}, "prompt"),
    (C, {"prompt": 5}, "prompt"), (C, {"prompt": [999999]}, "prompt"), (C, {"prompt": [-1]}, "prompt"),
    (C, {"prompt": [True]}, "prompt"), (C, {"prompt": [[1], "a"]}, "prompt"), (C, {"prompt": "a", "max_tokens": -1}, "max_tokens"),
    (C, {"prompt": "a", "max_tokens": 0}, "max_tokens"), (C, {"prompt": "a", "max_tokens": 1.5}, "max_tokens"),
    (C, {"prompt": "a", "max_tokens": True}, "max_tokens"), (C, {"prompt": "a", "max_tokens": "5"}, "max_tokens"),
    (C, {"prompt": "a", "temperature": -1}, "temperature"), (C, {"prompt": "a", "temperature": True}, "temperature"),
    (C, {"prompt": "a", "top_p": 0}, "top_p"), (C, {"prompt": "a", "top_p": 2}, "top_p"), (C, {"prompt": "a", "top_k": 1.5}, "top_k"),
    (C, {"prompt": "a", "n": 0}, "n"), (C, {"prompt": "a", "n": 129}, "n"),
    (C, {"prompt": "a", "stop": 42}, "stop"), (C, {"prompt": "a", "stop": [1]}, "stop"), (C, {"prompt": "a", "stop": ""}, "stop"),
    (C, {"prompt": "a", "logit_bias": 5}, "logit_bias"), (C, {"prompt": "a", "logit_bias": {"999999": 1}}, "logit_bias"),
    (C, {"prompt": "a", "logit_bias": {"1": 101}}, "logit_bias"), (C, {"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias"),
    (C, {"prompt": "a", "logprobs": 21}, "logprobs"), (C, {"prompt": "a", "logprobs": True}, "logprobs"),
    (C, {"prompt": "a", "stream": 1}, "stream"), (C, {"prompt": "a", "stream_options": {}}, "stream_options"),
    (C, {"prompt": "a", "suffix": "b"}, "suffix"), (C, {"prompt": "a", "grammar": "root ::= x"}, "grammar"),
    (C, {"prompt": "a", "guided_json": {"not": {}}}, "guided_json"),
    (C, {"prompt": "a", "guided_json": "{"}, "guided_json"), (C, {"prompt": "a", "guided_regex": "a(?=b)"}, "guided_regex"),
    (C, {"prompt": "a", "guided_regex": 5}, "guided_regex"), (C, {"prompt": "a", "guided_choice": []}, "guided_choice"),
    (C, {"prompt": "a", "guided_choice": ["a", 5]}, "guided_choice"), (C, {"prompt": "a", "json_schema": {"type": "x"}}, "json_schema"),
    (C, {"prompt": "a", "guided_regex": "a", "grammar": 'root ::= "a"'}, "grammar"),
    (C, {"prompt": "a", "structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
    (C, {"prompt": "a", "structured_outputs": {}}, "structured_outputs"),
    (C, {"prompt": "a", "structured_outputs": {"structural_tag": "x"}}, "structured_outputs"),
    (C, {"prompt": "a", "structured_outputs": {"structural_tag": {"triggers": []}}}, "structured_outputs"),
    (C, {"prompt": "a", "response_format": {"type": "structural_tag", "triggers": ["<"], "structures": [{"begin": "a", "schema": {}, "end": "b"}]}}, "response_format"),
    (C, {"prompt": "a", "response_format": {"type": "structural_tag", "triggers": ["<"], "structures": [{"begin": "<", "schema": {"uniqueItems": True}, "end": "b"}]}}, "response_format"),
    (C, {"prompt": "a", "guided_regex": "a", "cadenza": {"kwargs": {"regex": "b"}}}, "cadenza"),
    (C, {"prompt": "a", "guided_regex": "a", "cadenza": {"kwargs": {"choice": ["b"]}}}, None),
    (C, {"prompt": "a", "ignore_eos": 1}, "ignore_eos"),
    (C, {"prompt": "a", "ignore_eos": True, "response_format": {"type": "json_object"}}, "response_format"),
    (T, {**M, "ignore_eos": True, "guided_regex": "a+"}, "guided_regex"),
    (C, {"prompt": "a", "mirostat": 3}, "mirostat"), (C, {"prompt": "a", "mirostat": 1, "cadenza": {"strategy": "greedy"}}, "mirostat"),
    (C, {"prompt": "a", "mirostat": 1, "cadenza": {"pipeline": "story"}}, "mirostat"),
    (C, {"prompt": "a", "stop_token_ids": 5}, "stop_token_ids"), (C, {"prompt": "a", "stop_token_ids": ["a"]}, "stop_token_ids"),
    (C, {"prompt": "a", "stop_token_ids": [1 << 30]}, "stop_token_ids"),
    (C, {"prompt": "a", "stop_token_ids": [5], "cadenza": {"pipeline": "story"}}, "stop_token_ids"),
    (C, {"prompt": "a", "bad_words": "a"}, "bad_words"), (C, {"prompt": "a", "bad_words": ["a", ""]}, "bad_words"),
    (C, {"prompt": "a", "allowed_token_ids": []}, "allowed_token_ids"), (C, {"prompt": "a", "allowed_token_ids": [-1]}, "allowed_token_ids"),
    (C, {"prompt": "a", "skip_special_tokens": "no"}, "skip_special_tokens"), (C, {"prompt": "a", "repeat_last_n": -2}, "repeat_last_n"),
    (C, {"prompt": "a", "dry_multiplier": "much"}, "dry_multiplier"), (C, {"prompt": "a", "dry_multiplier": 1, "dry_base": 0.5}, "dry_base"),
    (C, {"prompt": "a", "dry_multiplier": 1, "dry_sequence_breakers": [5]}, "dry_sequence_breakers"),
    (C, {"prompt": "a", "xtc_probability": 2}, "xtc_probability"), (C, {"prompt": "a", "dynatemp_range": -1}, "dynatemp_range"),
    (C, {"prompt": "a", "t_max_predict_ms": "soon"}, "t_max_predict_ms"), (C, {"prompt": "a", "min_keep": 2}, "min_keep"),
    (C, {"prompt": "a", "use_beam_search": True}, "use_beam_search"), (C, {"prompt": "a", "n_keep": "all"}, "n_keep"), (C, {"prompt": "a", "priority": 1}, "priority"),
    (C, {"prompt": "a", "presence_penalty": 3}, "presence_penalty"), (C, {"prompt": "a", "seed": 1.5}, "seed"),
    (C, {"prompt": "a", "response_format": {"type": "xml"}}, "response_format"),
    (C, {"prompt": "a", "response_format": {"type": "json_schema"}}, "response_format"),
    (C, {"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True}}}}, "response_format"),
    (T, {}, "messages"), (T, {"messages": []}, "messages"), (T, {"messages": [{"role": "robot", "content": "a"}]}, "messages"),
    (T, {"messages": [{"role": "user", "content": 5}]}, "messages"), (T, {"messages": [{"role": "user"}]}, "messages"),
    (T, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
    (T, {**M, "top_logprobs": 2}, "top_logprobs"), (T, {**M, "logprobs": 2}, "logprobs"), (T, {**M, "tools": 5}, "tools"),
    (T, {**M, "tools": [{"type": "function", "function": {"name": "f g"}}]}, "tools"),
    (T, {**M, "tool_choice": "required"}, "tool_choice"), (T, {**M, "chat_template": "{{ 1 }}"}, "chat_template"),
    (C, {"prompt": "a", "cadenza": 5}, "cadenza"), (C, {"prompt": "a", "cadenza": {"pipelin": "x"}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"pipeline": "nobody"}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"kwargs": {"no_such_parameter": 1}}}, "cadenza"),
    (C, {"prompt": "a", "temperature": 0.5, "cadenza": {"kwargs": {"temperature": 0.6}}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"pipeline": "story", "kwargs": {"dry.multiplyer": 1}}}, None),
    (C, {"prompt": "a", "cadenza": {"pipeline": "story", "kwargs": {"dri.multiplier": 1}}}, None),
    (C, {"prompt": "a", "cadenza": {"pipeline": "story", "kwargs": {"dry.multiplier": "/etc/passwd"}}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"pipeline": "story", "kwargs": {"dry.sequence_breakers": ["a", "/etc/passwd"]}}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"pipeline": "story", "kwargs": {"generation.num_return_sequences": 2}}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"processors": [{"name": "dry", "parms": {}}]}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"processors": [{"name": "nobody"}]}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"processors": [{"name": "dry", "params": {"multiplyer": 1}}]}}, "cadenza"),
    (C, {"prompt": "a", "cadenza": {"strategy": "nobody"}}, "cadenza"),
    (C, {"prompt": "a", "user": 5}, "user"), (C, {"prompt": "a", "metadata": "m"}, "metadata"), (C, {"prompt": "a", "store": 1}, "store"),
    (C, {"prompt": "a", "cache_salt": 5}, "cache_salt"), (C, {"prompt": "a", "cache_prompt": "yes"}, "cache_prompt"),
    (C, {"prompt": "a", "request_id": 5}, "request_id"), (C, {"prompt": "a", "request_id": "a b"}, "request_id"),
    (C, {"prompt": "a", "request_id": ""}, "request_id"), (C, {"prompt": "a", "request_id": "a\nb"}, "request_id"),
    (C, {"prompt": "a", "min_tokens": 9, "max_tokens": 4}, "min_tokens"), (C, {"prompt": "a", "min_tokens": -1}, "min_tokens"),
    (C, {"prompt": "a", "truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
    (C, {"prompt": "a", "logit_bias": {"05": 1}}, "logit_bias"), (C, {"prompt": "a", "top_n_sigma": "a"}, "top_n_sigma"),
    (C, {"prompt": "a", "stream": True, "stream_options": {"continuous_usage_stats": 1}}, "continuous_usage_stats"),
    (C, {"prompt": "a", "best_of": 1, "n": 2}, "best_of"), (C, {"prompt": "a", "best_of": 2, "stream": True}, "best_of"),
    (C, {"prompt": "a", "best_of": 129}, "best_of"), (T, {**M, "best_of": 2}, "best_of"), (C, {"prompt": "a", "n_predict": 0}, "n_predict"),
    (C, {"prompt": "a", "messages": []}, "messages"), (C, {"prompt": "a", "tools": [{}]}, "tools"), (T, {**M, "prompt": "a"}, "prompt"),
    (T, {"messages": [{"role": "assistant", "content": None}]}, "messages"), (T, {"messages": [{"role": "assistant", "tool_calls": []}]}, "messages"),
    (C, {"prompt": "a", "tool_choice": "required"}, "tool_choice"), (C, {"prompt": "a", "top_logprobs": 2}, "top_logprobs"),
    (C, {"prompt": "a", "chat_template_kwargs": {"a": 1}}, "chat_template_kwargs"), (C, {"prompt": "a", "documents": 5}, "documents"),
    (C, {"prompt": "a", "add_generation_prompt": True}, "add_generation_prompt"), (C, {"prompt": "a", "tfs_z": 0.5}, "tfs_z"),
    (C, {"prompt": "a", "continue_final_message": True}, "continue_final_message"), (C, {"prompt": "a", "truncation_side": "right"}, "truncation_side"),
    (C, {"prompt": "a", "max_tokens": 3, "cadenza": {"kwargs": {"max_new_tokens": 2}}}, "cadenza"),
    (C, {"prompt": "a", "max_tokens": 3, "cadenza": {"kwargs": {"max_length": 9}}}, "cadenza"), (T, {**M, "documents": [5]}, "documents"),
    (C, {"prompt": "a", "prompt_logprobs": 21}, "prompt_logprobs"),
    (C, {"prompt": "a", "prompt_logprobs": True}, "prompt_logprobs"),
    (C, {"prompt": "a", "prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
    ("/v1/responses", {"input": "a", "prompt_logprobs": 1}, "prompt_logprobs"),
    (C, {"prompt": "a", "seed": 3, "cadenza": {"kwargs": {"seed": 2}}}, "cadenza"), (T, {"messages": [{**M["messages"][0], "name": 5}]}, "messages"),
    (C, {"prompt": "a", "temperature": 0, "cadenza": {"kwargs": {"temperature": 0.5}}}, "cadenza"),
    (T, {**M, "chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
    (T, {**M, "continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
    (C, {"prompt": "a", "structured_outputs": {"choice": []}}, "structured_outputs"),
    ("/v1/responses", {"input": "a", "reasoning": 5}, "reasoning"), ("/v1/responses", {"input": "a", "reasoning": {"effort": 5}}, "reasoning.effort"),
    ("/v1/responses", {"input": "a", "stream_options": 5}, "stream_options"), ("/tokenize", {"prompt": "a", "model": 5}, "model"),
    ("/tokenize", {"prompt": "a", "messages": []}, "messages"), ("/tokenize", {"prompt": "a", "content": "a"}, "content"),
    ("/tokenize", {"content": "a", "with_pieces": 1}, "with_pieces"), ("/tokenize", {"content": "a", "add_special": 1}, "add_special"),
    ("/tokenize", {"prompt": "a", "return_token_strs": "yes"}, "return_token_strs"), ("/detokenize", {"tokens": [5], "model": 5}, "model"),
    ("/tokenize", {**M, "reasoning_effort": 5}, "reasoning_effort"),
    (T, {**M, "echo": True}, "echo"), (T, {**M, "add_special_tokens": True}, "add_special_tokens"), (T, {**M, "user": {}}, "user"),
    (T, {**M, "reasoning_effort": 1}, "reasoning_effort"), ("/tokenize", {**M, "add_special_tokens": True}, "add_special_tokens"),
]
for bad in ("../story", "/etc/passwd", "story.ini", "a/b", "a\0b", "..", ".", "x.so", "lua:x.lua", "x.lua", "a\nb"):
    refusals.append((C, {"prompt": "a", "cadenza": {"pipeline": bad}}, "cadenza"))
    refusals.append((C, {"prompt": "a", "cadenza": {"strategy": bad}}, "cadenza"))
    refusals.append((C, {"prompt": "a", "cadenza": {"processors": [{"name": bad}]}}, "cadenza"))
    if "." != bad:
        refusals.append((C, {"prompt": "a", "cadenza": {"kwargs": {"prefix_allowed_tokens": bad}}}, "cadenza"))
    refusals.append((C, {"prompt": "a", "cadenza": {"kwargs": {bad + ".multiplier": 1}}}, "cadenza"))
refusals.append((C, {"prompt": "a", "cadenza": {"processors": [{"name": "dry", "params": {"sequence_breakers": ["/etc/passwd"]}}]}}, "cadenza"))
for path, body, param in refusals:
    status, answer = s.post(path, body)
    error = answer.get("error", {})
    check(f"{body} is refused", status == 400, (status, answer))
    check(f"{body} names the field", error.get("type") == "invalid_request_error" and (not param or error.get("param") == param), answer)
    if path in (C, T, "/v1/responses") and not {"stream", "stream_options"} & set(body):
        status, _, streamed = s.ask("POST", path, {**body, "stream": True})
        check(f"{body}, streamed: the same status", status == 400 and json.loads(streamed)["error"] == error, streamed)
    check(f"{body}: no path of the machine", folder not in json.dumps(answer) and "/work" not in json.dumps(answer), answer)
for cadenza in ({"processors": [{"name": "dry", "params": {"isolation": "none"}}]}, {"pipeline": "story", "kwargs": {"dry.isolation": "none"}},
                {"pipeline": {"pipeline": {"processors": "dry"}, "dry": {"isolation": "process"}}},
                {"processors": [{"name": "xtc", "params": {"budget_ms": 60000}}]}, {"kwargs": {"budget_instructions": 1e9}},
                {"pipeline": "story", "kwargs": {"dry.budget_memory": 1e9}}, {"pipeline": "story", "kwargs": {"dry.deadline_ms": 1e9}}):
    status, answer = s.post(C, {"prompt": "a", "cadenza": cadenza})
    check(f"{cadenza}: limits are the owner's", status == 400 and "cannot be set by a request" in answer["error"]["message"], answer)
status, answer = s.post(C, {"prompt": "a", "model": "other"})
check("another model", status == 404 and answer["error"]["code"] == "model_not_found", answer)
for path, body in (("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [5]})):
    status, answer = s.post(path, {**body, "model": "other"})
    check(f"another model: {path}", status == 404 and answer["error"]["code"] == "model_not_found", answer)
    check(f"this model: {path}", s.post(path, {**body, "model": MODEL})[0] == 200)
status, answer = s.post(C, {"prompt": [5] * 512})
check("a prompt without room", status == 400 and answer["error"]["code"] == "context_length_exceeded", answer)
answer = completion({"prompt": [5] * 505, "max_tokens": 100, "temperature": 0, "cadenza": {"kwargs": {"eos_token_id": []}}})
check("up to the context", answer["choices"][0]["finish_reason"] in ("length", "stop") and
      answer["usage"]["completion_tokens"] <= 7, answer)
answer = completion({"prompt": P, "temperature": 0, "user": "x", "metadata": {}, "store": False, "no_such_field": 1, "stop": None,
                     "logit_bias": None, "stream": None, "stream_options": None, "n": None, "model": MODEL})
check("null is absent, and what many clients send is taken", ids_of(answer["choices"][0]) == wanted[0]["ids"])

# --- answers of a certain form: each way to ask gives what the generation parameter gives ---
SCHEMA = {"type": "object", "properties": {"word": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
          "required": ["word", "n"], "additionalProperties": False}
DATE = "[12][0-9]{3}-(0[1-9]|1[0-2])"
GBNF = 'root ::= "yes" | "no"'
TAGS = {"structures": [{"begin": " of", "schema": {"enum": [" \u00e9", 5]}, "end": "."}], "triggers": [" of"]}
LARK = 'start: (T a)* T\nT: ~/(?s:.)* of(?s:.)*/\na: " of" %json {"enum": [" \\u00e9", 5]} "."'
forms = [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "w", "schema": SCHEMA, "strict": True}}}, {"json_schema": SCHEMA}),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, {"json_schema": SCHEMA}),
    ({"response_format": {"type": "json_object"}}, {"json_object": True}),
    ({"json_schema": SCHEMA}, {"json_schema": SCHEMA}), ({"guided_json": json.dumps(SCHEMA)}, {"json_schema": SCHEMA}),
    ({"structured_outputs": {"json": SCHEMA, "regex": None}}, {"json_schema": SCHEMA}),
    ({"structured_outputs": {"regex": DATE}}, {"regex": DATE}), ({"guided_regex": DATE}, {"regex": DATE}),
    ({"structured_outputs": {"choice": ["red, blue", "green"]}}, {"choice": ["red, blue", "green"]}),
    ({"guided_choice": ["a/b", "c"]}, {"choice": ["a/b", "c"]}), ({"grammar": GBNF}, {"grammar": GBNF}),
    ({"guided_grammar": 'start: "yes" | "no"'}, {"grammar": GBNF}),
    ({"cadenza": {"kwargs": {"regex": "a/b.lua"}}}, {"regex": "a/b.lua"}),
    ({"response_format": {"type": "structural_tag", **TAGS}}, {"structural_tag": TAGS}),
    ({"structured_outputs": {"structural_tag": json.dumps(TAGS)}}, {"grammar": LARK}), ({"cadenza": {"kwargs": {"structural_tag": TAGS}}}, {"grammar": LARK}),
    ({"structured_outputs": {"structural_tag": {"format": {"type": "triggered_tags", "triggers": [" of"], "tags": [
        {"begin": " of", "content": {"type": "json_schema", "json_schema": {"enum": [" \u00e9", 5]}}, "end": "."}]}}}}, {"grammar": LARK}),
    ({"response_format": {"type": "text"}, "grammar": "", "json_schema": {}}, {}),
]
for body, kwargs in forms:
    answer = completion({"prompt": P, "temperature": 0, "max_tokens": 48, **body})["choices"][0]
    alone = run_request({"prompt": P, "kwargs": {"do_sample": False, "max_new_tokens": 48, **kwargs}})
    check(f"{body}: as the parameter", ids_of(answer) == alone["ids"], (answer, alone))
    if kwargs.get("json_schema") and answer["finish_reason"] == "stop":
        check(f"{body}: JSON", set(json.loads(answer["text"])) == {"word", "n"}, answer)
    if "choice" in kwargs:
        check(f"{body}: a choice", answer["text"] in kwargs["choice"] and answer["finish_reason"] == "stop", answer)
status, chat = s.post(T, {**M, "max_tokens": 30, "response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}}})
check("a chat", status == 200 and chat["choices"][0]["message"]["content"] in ('"yes"', '"no"'), chat)

# --- the other endpoints ---
check("one model", s.get("/v1/models/" + MODEL)[1]["max_model_len"] == 512)
check("no such model", s.get("/v1/models/other")[0] == 404)
text = "río \U0001f600 \"x\"\n"
tokens = s.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]
check("there and back", s.post("/detokenize", {"tokens": tokens})[1]["prompt"] == text)
check("llama-server's names", s.post("/tokenize", {"content": P})[1]["tokens"] == ids)
for bad in ({"tokens": 5}, {"tokens": ["a"]}, {"tokens": [1 << 40]}, {}):
    check(f"detokenize {bad}", s.post("/detokenize", bad)[0] == 400)
info = s.get("/tokenizer_info")[1]
check("tokenizer_info", info["eos_token"] and info["chat_template"], info)
plugins = {p["id"]: p for p in s.get("/v1/plugins")[1]["data"]}
check("plugins", plugins["greedy"]["kind"] == "strategy" and "multiplier" in json.dumps(plugins["dry"]["parameters"]), list(plugins))
check("pipelines", s.get("/v1/pipelines")[1]["data"] == [{"id": "story", "object": "pipeline", "generation": 1}])
with open(os.path.join(folder, "story.ini"), "a") as f:
    f.write("allowed_length = 3\n")
check("reload", s.post("/v1/pipelines/reload", {"pipeline": "story"})[0] == 200)
check("its next generation", s.get("/v1/pipelines")[1]["data"][0]["generation"] == 2)
with open(os.path.join(folder, "story.ini"), "a") as f:
    f.write("nonsense = 3\n")
status, answer = s.post("/v1/pipelines/reload", {})
check("a reload that fails", status == 400 and "nonsense" in answer["error"]["message"] and
      answer["error"]["message"].startswith("story.ini:") and folder not in json.dumps(answer), answer)
check("the old one serves", s.get("/v1/pipelines")[1]["data"][0]["generation"] == 2 and
      s.post(C, {"prompt": P, "cadenza": {"pipeline": "story"}})[0] == 200)
m = s.quiet()
check("counters", m["prompt_tokens_total"] > 0 and m["generation_tokens_total"] > 0 and math.isfinite(m["request_success_total"]), m)
s.stop()
done()
