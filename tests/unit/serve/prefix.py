"""prefix.py - prompts that begin as earlier ones did: the same answers, counted as found, and found by nobody else."""
import os
import tempfile

from server import Server, check, done

PROMPT = [i * i * 31 % 251 + 3 for i in range(150)]
BODY = {"prompt": PROMPT, "temperature": 0, "max_tokens": 9, "logprobs": 3, "return_token_ids": True}


def ask(s, body, key=None):
    """(tokens found, what was answered)"""
    headers = [("Authorization", f"Bearer {key}")] if key else []
    status, answer = s.post("/v1/completions", body, headers)
    check(f"status of {list(body)}", status == 200, answer)
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"]


s, off = Server(), Server("--prefix-cache", "off")
wanted = ask(off, BODY)[1]
check("nothing is found without a cache", ask(off, BODY) == (0, wanted))
for turn, n in enumerate((0, 128, 128)):
    found, answer = ask(s, BODY)
    check(f"turn {turn} finds {n}", found == n, found)
    check(f"turn {turn} answers the same", answer == wanted, (answer, wanted))
check("the last block is computed", ask(s, {**BODY, "prompt": PROMPT[:128]})[0] == 96)
check("two prompts and two answers each", ask(s, {**BODY, "prompt": [PROMPT, PROMPT[:70]], "n": 2})[0] == 128 + 64)
scored = {**BODY, "echo": True, "logprobs": 2, "max_tokens": 0}
check("log-probabilities of the prompt are computed", ask(s, scored) == (0, ask(off, scored)[1]))
events, ended = s.stream("/v1/completions", {**BODY, "stream": True, "stream_options": {"include_usage": True}})
check("a stream tells", ended and events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 128, events[-1])

counts = s.metrics()
check("tokens asked for", counts["prefix_cache_queries_total"] == 4 * 150 + 128 + 150 + 70, counts)
check("tokens found", counts["prefix_cache_hits_total"] == 3 * 128 + 96 + 128 + 64, counts)
check("no queries without a cache", off.metrics()["prefix_cache_queries_total"] == 0)

check("another salt", [ask(s, {**BODY, "cache_salt": "a"})[0] for _ in range(2)] == [0, 128])
check("none again", ask(s, BODY)[0] == 128)
status, answer = s.post("/v1/completions", {**BODY, "cache_salt": 1})
check("a salt is a string", status == 400 and answer["error"]["param"] == "cache_salt", answer)

# A conversation: each turn is computed from where the one before ended.
talk = [{"role": "user", "content": "tell me about rivers and all that swims in them, " * 8}]
for turn in range(3):
    status, answer = s.post("/v1/chat/completions", {"messages": talk, "temperature": 0, "max_tokens": 20})
    if status == 400:  # the model has no template
        break
    found = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    check(f"turn {turn} of the conversation", (found > 0) == (turn > 0), answer["usage"])
    talk += [answer["choices"][0]["message"], {"role": "user", "content": "and more?"}]

for server in (s, off):
    server.stop()

# What a balancer may go by: the same of prompts that begin alike and of the same key.
def named(s, prompt, key=None, **more):
    headers = s.ask("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1, **more}, [("Authorization", f"Bearer {key}")] if key else [])[1]
    return headers.get("x-cadenza-prefix")


# Of two keys neither finds what the other has asked; nor does one find it under the other's salt.
keys = os.path.join(tempfile.mkdtemp(), "keys")
with open(keys, "w") as f:
    f.write("one-key\nother-key\n")
s = Server("--api-key-file", keys)
check("health needs no key", s.get("/health")[0] == 200)
asked = [("one-key", None, 0), ("one-key", None, 128), ("other-key", None, 0), ("other-key", "a", 0), ("one-key", "a", 0),
         ("other-key", None, 128), ("one-key", "a", 128)]
for key, salt, n in asked:
    found, answer = ask(s, {**BODY, **({"cache_salt": salt} if salt else {})}, key)
    check(f"{key}, salt {salt}", found == n, found)
    check("the same answer", answer == wanted)
first = named(s, PROMPT, "one-key")
check("a prefix has a name", first and len(first) == 16, first)
check("prompts that begin alike have one", named(s, PROMPT[:130] + [9, 9], "one-key") == first == named(s, PROMPT, "one-key", stream=True))
others = [named(s, PROMPT, "other-key"), named(s, PROMPT, "one-key", cache_salt="a"), named(s, [7] + PROMPT, "one-key"), named(s, PROMPT[:40], "one-key")]
check("others have others", None not in others and len({first, *others}) == 5, others)
check("a refusal has none", named(s, [], "one-key") is None)
s.stop()
done()
