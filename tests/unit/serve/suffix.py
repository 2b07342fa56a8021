"""suffix.py - a text behind the answer, where the model's tokenizer has tokens for it: the ids of the whole text, marks and all; and
what is said where it has none."""
import tempfile

from server import Server, Speaker, check, done

C = "/v1/completions"
KINDS = {
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"): "{0}{p}{1}{s}{2}",
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"): "{0}{p}{1}{s}{2}",
    ("[PREFIX]", "[SUFFIX]", "<|left|>"): "{1}{s}{0}{p}",
}
HAS = ("<|system|>", "<|user|>", "<|assistant|>")
BODY = {"prompt": "river (noun): a", "suffix": " kind of stream.", "max_tokens": 5, "temperature": 0, "return_token_ids": True}

for names, form in KINDS.items():
    s = Speaker(tempfile.mkdtemp(), "{{ messages[0].content }}", dict(zip(HAS, names))).base
    text = form.format(*names, p=BODY["prompt"], s=BODY["suffix"])
    ids = s.post("/tokenize", {"prompt": text})[1]["tokens"]
    status, answer = s.post(C, BODY)
    mine = answer["choices"][0] if status == 200 else {}
    check(f"{names[0]}: the ids of the whole text", mine.get("prompt_token_ids") == ids, (answer, ids))
    plain = s.post(C, {**BODY, "prompt": text, "suffix": None})[1]
    check(f"{names[0]}: the answer to it", mine.get("token_ids") == plain["choices"][0]["token_ids"], (answer, plain))
    events, ended = s.stream(C, {**BODY, "stream": True})
    check(f"{names[0]}: streamed", ended and "".join(c["text"] for e in events for c in e["choices"]) == mine.get("text"), events)
    two = s.post(C, {**BODY, "prompt": ["river", "dog"]})[1]
    check(f"{names[0]}: for each prompt", [c["prompt_token_ids"][0] for c in two["choices"]] == [ids[0]] * 2, two)
    empty = s.post(C, {**BODY, "prompt": ""})
    check(f"{names[0]}: an empty prompt", empty[0] == 200, empty)
    for more, says in (({"echo": True}, "echo"), ({"add_special_tokens": False}, "special tokens"), ({"prompt": [5, 6]}, "a text"), ({"suffix": 5}, "a string"), ({"suffix": "a\0"}, "NUL")):
        status, answer = s.post(C, {**BODY, **more})
        check(f"{more} is refused", status == 400 and answer["error"]["param"] == "suffix" and says in answer["error"]["message"], answer)
    s.stop()

s = Server()
status, answer = s.post(C, BODY)
check("a model that does not fill in", status == 400 and "does not fill in" in answer["error"]["message"], answer)
check("no suffix at all", [s.post(C, {**BODY, "suffix": x})[0] for x in ("", None)] == [200, 200])
status, answer = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "suffix": "b"})
check("a chat has none", status == 400 and answer["error"]["param"] == "suffix", answer)
s.stop()
done()
