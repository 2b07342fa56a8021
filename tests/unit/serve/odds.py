"""odds.py - log-probabilities of streams: each event has those of its own tokens, and all events together have what the whole
answer has, to the bit; also where text is held back, and where a decode loop keeps none."""
import os
import tempfile

from server import Speaker, check, done

C, T = "/v1/completions", "/v1/chat/completions"
P = "river (noun): a"
FACES = "na\u00efve \U0001f600\u20ac caf\u00e9 \U0001f9ea END behind"
TEMPLATE = ("{%- for m in messages -%}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endfor -%}"
            "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}")
speaker = Speaker(tempfile.mkdtemp(), TEMPLATE)
speaker.say("faces", FACES)
with open(os.path.join(speaker.pipelines, "bare.lua"), "w") as f: # a loop that keeps no scores
    f.write("return cadenza.strategy { id = 'org.example.bare', version = '1.0.0', one_row = true, run = function(ctx)\n"
            "  while not ctx:done() do ctx:append((ctx:argmax(ctx:forward(), 1))) end\nend }\n")
with open(os.path.join(speaker.pipelines, "bare.ini"), "w") as f:
    f.write("[pipeline]\nstrategy = lua:bare.lua\n[generation]\nmax_new_tokens = 12\n")
s = speaker.serve()


def whole(path, body):
    status, answer = s.post(path, body)
    check(f"status of {body}", status == 200, answer)
    return answer["choices"]


LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


def completion(name, body, most=2):
    """most: tokens of an event, but for the last of a row, and those that complete a character."""
    want = whole(C, body)
    events, _ = s.stream(C, {**body, "stream": True})
    got = [{"text": "", **{k: [] for k in LISTS}} for _ in want]
    counts = [[] for _ in want]
    for e in events:
        for c in e["choices"]:
            mine = got[c["index"]]
            mine["text"] += c["text"]
            if c["logprobs"] is None:
                continue
            for k in LISTS:
                mine[k] += c["logprobs"][k]
            if c["finish_reason"] is None:
                counts[c["index"]].append(len(c["logprobs"]["tokens"]))
                joined = "".join(c["logprobs"]["tokens"])
                if "\ufffd" not in joined:
                    check(f"{name}: an event has its own tokens", joined == c["text"], c)
    for w, g, n in zip(want, got, counts):
        check(f"{name}: the text", g.pop("text") == w["text"], (g, w))
        check(f"{name}: the events joined", g == {k: w["logprobs"][k] for k in LISTS}, (g, w["logprobs"]))
        if most:
            check(f"{name}: a few at a time", len(n) >= 2 and max(n) <= most, n)
    return want


def chat(name, body, most=2):
    body = {"messages": [{"role": "user", "content": "Say it."}], "logprobs": True, **body}
    want = whole(T, body)
    events, _ = s.stream(T, {**body, "stream": True})
    got, text = [[] for _ in want], [""] * len(want)
    counts = [[] for _ in want]
    for e in events:
        for c in e["choices"]:
            piece = c["delta"].get("content") or ""
            text[c["index"]] += piece
            if c["logprobs"] is None:
                continue
            content = c["logprobs"]["content"]
            got[c["index"]] += content
            if c["finish_reason"] is None and piece:
                counts[c["index"]].append(len(content))
                bytes_of = bytes(b for t in content for b in t["bytes"])
                cut = "stop" in body and bytes_of.startswith(piece.encode()) # within a token
                check(f"{name}: an event has its own bytes", cut or bytes_of == piece.encode(), c)
    for w, g, t, n in zip(want, got, text, counts):
        check(f"{name}: the text", t == w["message"]["content"], (t, w))
        check(f"{name}: the events joined", g == w["logprobs"]["content"], (g, w["logprobs"]))
        if most:
            check(f"{name}: a few at a time", len(n) >= 2 and max(n) <= most, n)
    return want


BASE = {"prompt": P, "max_tokens": 12, "logprobs": 3}
for name, more in (("greedy", {"temperature": 0}), ("the chosen alone", {"temperature": 0, "logprobs": 0}),
                   ("sampled", {"temperature": 1.2, "seed": 3}), ("rows", {"temperature": 1, "seed": 3, "n": 3}),
                   ("prompts", {"temperature": 0, "prompt": [P, "dog (noun):"]}),
                   ("ids as texts", {"temperature": 0, "return_token_ids": True})):
    completion(name, {**BASE, **more})
K = {"do_sample": False, "max_new_tokens": 12}
for name, kwargs in (("beams", {"num_beams": 3}), ("drafts", {"prompt_lookup_num_tokens": 3}), ("contrastive", {"penalty_alpha": 0.6, "top_k": 4})):
    completion(name, {"prompt": P, "logprobs": 3, "cadenza": {"kwargs": {**K, **kwargs}}}, None)
echo = completion("echo", {**BASE, "temperature": 0, "echo": True}, None)
plain = whole(C, {**BASE, "temperature": 0})
n = len(plain[0]["logprobs"]["tokens"])
check("kept and scored, the same bits", echo[0]["logprobs"]["token_logprobs"][-n:] == plain[0]["logprobs"]["token_logprobs"] and
      echo[0]["logprobs"]["top_logprobs"][-n:] == plain[0]["logprobs"]["top_logprobs"], (echo, plain))
completion("a prompt alone", {"prompt": P, "max_tokens": 0, "logprobs": 2, "echo": True}, None)

# --- text that is held back: characters in parts, and what may become a stop string ---
said = {"cadenza": {"pipeline": "faces"}}
completion("parts of characters", {"prompt": P, "logprobs": 2, **said}, 8)
chat("parts of characters of a chat", {"top_logprobs": 2, **said}, 8)
for stop in (["END"], [" END", "zzz"], ["END behind it"], ["na\u00efve"], ["caf", "zzz"]):
    for keep in (False, True):
        body = {"stop": stop, "include_stop_str_in_output": keep, **said}
        want = completion(f"stop {stop} {keep}", {"prompt": P, "logprobs": 1, **body}, None)
        cut = FACES.find(stop[0])
        text = FACES if cut < 0 else FACES[:cut + (len(stop[0]) if keep else 0)]
        check(f"stop {stop} {keep}: where it stops", want[0]["text"] == text, want)
        chat(f"stop {stop} {keep} of a chat", body, None)
status, answer = s.post(C, {"prompt": P, "stop": ["\u20ac"], **said}) # tokens hold parts of it alone
check("a stop string that no token ends is the client's fault", status == 400 and answer["error"]["param"] == "stop", answer)
want = whole(C, {"prompt": P, "logprobs": 0, "stop": ["END"], **said})[0]["logprobs"]["tokens"]
check("tokens behind the stop are left out", "behind" not in "".join(want), want)

chat("a chat", {"temperature": 0, "max_tokens": 12, "top_logprobs": 2})
chat("a sampled chat", {"temperature": 1.2, "seed": 5, "max_tokens": 12, "n": 2})

# --- a loop that keeps no scores: the text waits for its end ---
bare = completion("a bare loop", {"prompt": P, "logprobs": 3, "cadenza": {"pipeline": "bare"}}, None)
check("its values are those of greedy", bare[0]["logprobs"] == plain[0]["logprobs"], (bare, plain))
s.quiet()
s.stop()
done()
