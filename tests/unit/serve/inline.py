"""inline.py - pipelines that requests have themselves: the answers of the same request documents, and what a stranger may not say."""
import json
import os
import tempfile

from server import Server, check, done, run_request

C = "/v1/completions"
P = "river (noun): a"
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "story.ini"), "w") as f:
    f.write("[generation]\ndo_sample = no\nmax_new_tokens = 4\n")
s = Server("--pipelines", folder)
CALM = {"pipeline": {"use": "hf", "strategy": "greedy", "processors": ["calm"]},
        "calm": {"id": "frequency_penalty", "frequency_penalty": 2}, "generation": {"max_new_tokens": 12}}
WARM = {"pipeline": {"strategy": "sample", "processors": "dry, top_n_sigma".split(", ")}, "dry": {"multiplier": 0.8},
        "generation": {"do_sample": True, "temperature": 0.8, "max_new_tokens": 16}}


def ask(pipeline, **more):
    return s.post(C, {"prompt": P, "return_token_ids": True, "cadenza": {"pipeline": pipeline}, **more})


# --- the answers of documents ---
for name, pipeline, seed in (("greedy", CALM, None), ("sampled", WARM, 4), ("beams", {"generation": {"num_beams": 3, "max_new_tokens": 9}}, None),
                             ("nothing", {}, 1)):
    document = {"prompt": P, "pipeline": pipeline, **({"seed": seed} if seed is not None else {})}
    want = run_request(document)
    status, answer = ask(pipeline, **({"seed": seed} if seed is not None else {}))
    check(f"{name}: the tokens of the document", status == 200 and answer["choices"][0]["token_ids"] == want["ids"], (answer, want["ids"]))
want = ask(CALM)[1]["choices"][0]["text"]
events, ended = s.stream(C, {"prompt": P, "stream": True, "cadenza": {"pipeline": CALM}})
check("a stream", ended and "".join(c["text"] for e in events for c in e["choices"]) == want, want)
check("several prompts", [c["text"] for c in s.post(C, {"prompt": [P, P], "cadenza": {"pipeline": CALM}})[1]["choices"]] == [want] * 2)

# --- a field of the request, and kwargs, stand above it ---
check("max_tokens wins", len(ask(CALM, max_tokens=3)[1]["choices"][0]["token_ids"]) == 3)
status, answer = s.post(C, {"prompt": P, "cadenza": {"pipeline": CALM, "kwargs": {"calm.frequency_penalty": 0.5, "max_new_tokens": 12}}})
want = run_request({"prompt": P, "pipeline": CALM, "kwargs": {"calm.frequency_penalty": 0.5}})
check("kwargs win", status == 200 and answer["choices"][0]["text"] == want["text"], (answer, want))

# --- what may not be said ---
for pipeline, says in (
    ({"pipeline": {"strategy": "lua:mine.lua"}}, "must be an id"),
    ({"pipeline": {"strategy": "/etc/passwd"}}, "must be an id"),
    ({"pipeline": {"use": "../story.ini"}}, "must be an id"),
    ({"pipeline": {"use": "story.ini"}}, "must be an id"),
    ({"pipeline": {"use": "story"}}, "story"),
    ({"pipeline": {"processors": ["a/b"]}}, "must be an id"),
    ({"pipeline": {"processors": [7]}}, "must be an id"),
    ({"pipeline": {"processors": "dry\nuse = x"}}, "must be an id"),
    ({"pipeline": {"processors": "nobody_s_plugin"}}, "nobody_s_plugin"),
    ({"pipeline": {"strategie": "greedy"}}, "did you mean \"strategy\""),
    ({"pipeline": {"isolation": "none"}}, "no field \"isolation\""),
    ({"pipeline": {"observers": "trace"}}, "files of this server alone"),
    ({"pipeline": 3}, "must be an object"),
    ({"calm": {"id": "lua:x.lua"}}, "must be an id"),
    ({"calm": {"id": "x.so"}}, "must be an id"),
    ({"../calm": {"id": "dry"}}, "no file"),
    ({"lua:x.lua": {"a": 1}}, "no file"),
    ({"model": {"device": "cuda"}}, "no section \"model\""),
    ({"models": {"x": "y"}}, "no section \"models\""),
    ({"names": {"x": "y"}}, "no section \"names\""),
    ({"phase:one": {"strategy": "greedy"}}, "no file"),
    ({"generation": {"max_new_tokenz": 3}}, "max_new_tokenz"),
    ({"generation": {"num_return_sequences": 3}}, "cannot be set"),
    ({"generation": {"trust_remote_code": True}}, "cannot be set"),
    ({"calm": {"id": "dry", "budget_ms": 9}}, "cannot be set"),
    ({"calm": {"id": "dry", "sequence_breakers": ["/etc/passwd"]}}, "no files"),
    ({"calm": {"id": "dry", "x.y": 1}}, "no name of a parameter"),
    ({f"s{i}": {"id": "dry"} for i in range(65)}, "more than 64 sections"),
    ({"generation": {f"p{i}": 1 for i in range(513)}}, "more than 512 values"),
    ({"calm": {"id": "dry", "text": "x" * 70000}}, "longer than 65536 bytes"),
    ([], "must be the name of a pipeline of this server, or an object"),
):
    status, answer = ask(pipeline)
    found = answer.get("error", {})
    check(f"{json.dumps(pipeline)[:60]} is refused", status == 400 and found.get("param") == "cadenza" and says in found["message"],
          (status, answer))
    check("and names no folder", folder not in json.dumps(answer) and "/work" not in json.dumps(answer), answer)
_, answer = ask({"pipeline": {"isolation": "none"}})
check("a name is no hint for itself", "did you mean" not in answer["error"]["message"], answer)
for field in ("strategy", "processors"):
    status, answer = s.post(C, {"prompt": P, "cadenza": {"pipeline": CALM, field: "greedy" if field == "strategy" else [{"name": "dry"}]}})
    check(f"{field} beside it", status == 400 and "does not go with an object" in answer["error"]["message"], answer)
status, answer = ask(CALM, dry_multiplier=1)
check("what needs a processor beside it", status == 400 and answer["error"]["param"] == "dry_multiplier", answer)

# --- chats and responses; and counted under one name ---
status, answer = s.post("/v1/responses", {"input": "river", "max_output_tokens": 5, "cadenza": {"pipeline": CALM}})
check("a response, or its model has no template", status == 200 or "template" in json.dumps(answer), answer)
_, _, text = s.ask("GET", "/metrics")
check("one label", b'pipeline="inline"' in text and b"frequency" not in text, text[-500:])

# --- many different ones: what was made of them is kept up to a limit ---
for i in range(40):
    names = ["dry"] * (1 + i % 7)
    status, answer = ask({"pipeline": {"processors": names}, "generation": {"max_new_tokens": 1, "do_sample": False}})
    check("one of many", status == 200 or "twice" in json.dumps(answer), answer)
s.quiet()
s.stop()
done()
