"""odds.py - log-probabilities of streams: each event has those of its own tokens, and all events together have what the whole
answer has, to the bit; also where text is held back, and where a decode loop keeps none."""
import json
import os
import shutil
import tempfile

from server import MODEL, Server, Speaker, check, done

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
                if "\ufffd" not in joined: # a text may lack the first blank
                    same = joined in (c["text"], " " + c["text"])
                    check(f"{name}: an event has its own tokens", same, c)
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
                check(f"{name}: an event has its own bytes", cut or bytes_of.decode(errors="replace") == piece, c)
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
want = whole(C, {"prompt": P, "logprobs": 0, "stop": ["END"], **said})[0]["logprobs"]["tokens"]
check("tokens behind the stop are left out", "behind" not in "".join(want), want)

chat("a chat", {"temperature": 0, "max_tokens": 12, "top_logprobs": 2})
chat("a sampled chat", {"temperature": 1.2, "seed": 5, "max_tokens": 12, "n": 2})

# --- a loop that keeps no scores: the text waits for its end ---
bare = completion("a bare loop", {"prompt": P, "logprobs": 3, "cadenza": {"pipeline": "bare"}}, None)
check("its values are those of greedy", bare[0]["logprobs"] == plain[0]["logprobs"], (bare, plain))
s.quiet()
# --- prompt_logprobs, as vLLM has them: the values that `echo` has ---
for prompt in (P, [P, "the sea"], [5, 80, 201]):
    for k in (0, 3):
        body = {"prompt": prompt, "max_tokens": 2, "temperature": 0}
        echoed = whole(C, {**body, "echo": True, "logprobs": k, "return_token_ids": True})
        for c, e in zip(whole(C, {**body, "prompt_logprobs": k}), echoed):
            places, ids = c["prompt_logprobs"], e["prompt_token_ids"]
            check("a place for each token of the prompt, the first unknown", len(places) == len(ids) and places[0] is None, places)
            for i, place in list(enumerate(places))[1:]:
                own = place.get(str(ids[i]), {})
                check("its own value", own.get("logprob") == e["logprobs"]["token_logprobs"][i], (place, e["logprobs"]))
                check("and text", own.get("decoded_token") == e["logprobs"]["tokens"][i], (place, e["logprobs"]))
                ranks = [x["rank"] for x in place.values()]
                check("the leaders in order", ranks[:k] == list(range(1, k + 1)) and len(place) in (k, k + 1), place)
                values = [x["logprob"] for x in place.values()][:k]
                check("fall", values == sorted(values, reverse=True) and all(v >= own["logprob"] for v in values if own["rank"] is None), place)
answer = s.post(T, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "prompt_logprobs": 1})[1]
check("a chat's beside its choices", len(answer["prompt_logprobs"]) == answer["usage"]["prompt_tokens"], answer)
check("and nothing where nobody asks", "prompt_logprobs" not in s.post(C, {"prompt": P, "max_tokens": 1})[1]["choices"][0])

# --- characters that never complete are U+FFFD, each token's in its place ---
face = s.post("/tokenize", {"prompt": "\U0001f600", "add_special_tokens": False})[1]["tokens"]
check("a character of several tokens", len(face) >= 3, face)
eos = s.get("/tokenizer_info")[1]["eos_token_id"]


def say(name, ids):
    """A pipeline in which the model says these ids."""
    with open(os.path.join(speaker.pipelines, name + ".lua"), "w") as f:
        f.write(f"local said = {{{', '.join(map(str, ids))}}}\nreturn cadenza.processor {{\n"
                f"  id = 'org.example.{name}', version = '1.0.0', needs_ids = true,\n"
                f"  apply = function(p, ids, row, ctx) row[said[#ids - ctx.prompt_len + 1] or {eos}] = 1e6 end,\n}}\n")
    with open(os.path.join(speaker.pipelines, name + ".ini"), "w") as f:
        f.write(f"[pipeline]\nprocessors = lua:{name}.lua\n[generation]\ndo_sample = false\nmax_new_tokens = 40\n")


a, b = (s.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"] for text in ("so", " END it"))
for name, said, text in (("cut", a + face[:-1], "so\ufffd"), ("within", a + face[:1] + a, "so\ufffdso"), ("alone", face[-1:] + a, "\ufffdso"),
                         ("twice", face[:2] + face + face[:1], "\ufffd\U0001f600\ufffd"), ("behind", face[:1] + a + b, "\ufffdso END it")):
    say(name, said)
    s.post("/v1/pipelines/reload", {})
    for more in ({}, {"stop": ["END"]}, {"max_tokens": len(said)}):
        body = {"prompt": P, "logprobs": 1, "cadenza": {"pipeline": name}, **more}
        want = completion(f"{name} {more}", body, 0)[0]
        check(f"{name} {more}: the text", want["text"] == (text.partition("END")[0] if "stop" in more else text), want)
        check(f"{name} {more}: its tokens", want["logprobs"]["tokens"][-1].startswith(" END") is False or "stop" not in more, want)
        chat(f"{name} {more}", {"top_logprobs": 1, "add_generation_prompt": True, "cadenza": {"pipeline": name}, **more}, 0)

# --- bytes join to the text, whatever the text has ---
for more in ({"skip_special_tokens": False, "ignore_eos": True}, {"skip_special_tokens": False}, {"stop_token_ids": face[:1]}):
    body = {"messages": [{"role": "user", "content": "river"}], "temperature": 0, "max_tokens": 40, "logprobs": True, "top_logprobs": 1, **more}
    if "stop_token_ids" in more:
        body["logit_bias"] = {str(face[0]): 100}
    for choice in whole(T, body):
        joined = bytes(b for t in choice["logprobs"]["content"] for b in t["bytes"]).decode()
        check(f"{more}: bytes join to the text", joined == choice["message"]["content"], choice)

# --- a stop string of characters that several tokens spell ends the row where it is whole ---
with open(os.path.join(speaker.pipelines, "face.lua"), "w") as f:
    f.write("return cadenza.criterion { id = 'org.example.face', version = '1.0.0',\n"
            "  test = function(p, ids, ctx) if ctx:text_tail(7) == '\U0001f600\u20ac' then return 'face' end end }\n")
with open(os.path.join(speaker.pipelines, "face.ini"), "w") as f:
    f.write("[pipeline]\nuse = faces.ini\nstopping = lua:face.lua\n")
check("read again", s.post("/v1/pipelines/reload", {})[0] == 200)
all_of_it = s.post(C, {"prompt": P, "cadenza": {"pipeline": "faces"}})[1]
check("all of it", all_of_it["choices"][0]["text"] == FACES, all_of_it)
for stop in ("\u00ef", "\U0001f600", "\U0001f600\u20ac c", "\u20ac", "\u00e9 \U0001f9ea"):
    body = {"prompt": P, "stop": [stop, "\u00fc"], "return_token_ids": True, "cadenza": {"pipeline": "faces"}}
    status, answer = s.post(C, body)
    check(f"{stop}: status", status == 200, answer)
    choice = answer["choices"][0]
    check(f"{stop}: cut there", (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (FACES.partition(stop)[0], "stop", stop), choice)
    ended = s.post("/detokenize", {"tokens": choice["token_ids"]})[1]["prompt"]
    check(f"{stop}: nothing is made behind it", ended == FACES.partition(stop)[0] + stop, ended)
    events, _ = s.stream(C, {**body, "stream": True})
    check(f"{stop}: streamed", "".join(e["choices"][0]["text"] for e in events) == choice["text"], events)
choice = s.post(C, {"prompt": P, "cadenza": {"pipeline": "face"}})[1]["choices"][0]
check("a script sees it whole", choice["text"] == FACES.partition(" caf")[0] and choice["stop_reason"] == "face", choice)

s.stop()

# --- a tokenizer whose texts begin without the blank that their first token has (SentencePiece's) ---
pieces = os.path.join(tempfile.mkdtemp(), "pieces")
shutil.copytree(MODEL, pieces)
os.chmod(pieces, 0o755)
path = os.path.join(pieces, "tokenizer.json")
os.chmod(path, 0o644)
with open(path, encoding="utf-8") as f:
    tokenizer = json.loads(f.read().replace("\u0120", "\u2581"))
tokenizer["pre_tokenizer"] = tokenizer["decoder"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
with open(path, "w", encoding="utf-8") as f:
    json.dump(tokenizer, f)
s = Server(model=pieces)
for prompt in ("river (noun):", "dog (noun):", s.post("/tokenize", {"prompt": "river (noun):"})[1]["tokens"]):
    for more in ({}, {"echo": True}):
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 6, "logprobs": 1, **more}
        choice = completion(f"{body}", body, 0)[0]
        told, text = choice["logprobs"], choice["text"]
        ends = told["text_offset"][1:] + [len(text)]
        check("offsets are places of the text", [text[a:b] for a, b in zip(told["text_offset"], ends)] ==
              [told["tokens"][0].removeprefix(" "), *told["tokens"][1:]], choice)
        check("and the text is all of them", "".join(told["tokens"]).removeprefix(" ") == text, choice)
        check("as it is without log-probabilities", s.post(C, {**body, "logprobs": None})[1]["choices"][0]["text"] == text)
        events, _ = s.stream(C, {**body, "logprobs": None, "stream": True})
        check("and in a stream", "".join(e["choices"][0]["text"] for e in events) == text, events)
for stream in (False, True): # its tokens have no bytes of their own
    status, _, text = s.ask("POST", C, {"prompt": "river", "stop": ["\u20ac"], "stream": stream})
    check("a stop string that no token ends is the client's fault", status == 400 and json.loads(text)["error"]["param"] == "stop", text)
_, answer = s.post(T, {"messages": [{"role": "user", "content": "river"}], "temperature": 0, "max_tokens": 6, "logprobs": True})
joined = bytes(b for t in answer["choices"][0]["logprobs"]["content"] for b in t["bytes"]).decode()
check("bytes of a chat", joined == answer["choices"][0]["message"]["content"], answer)
s.stop()
endless = Server(model=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden", "mamba2"))
_, answer = endless.post(C, {"prompt": [5, 9], "n_predict": -1, "ignore_eos": True, "temperature": 0})
check("a model whose context has no end: an answer has one", answer["usage"]["completion_tokens"] == 4096, answer.get("usage", answer))
endless.stop()
done()
