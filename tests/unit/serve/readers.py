"""readers.py - clients that read slowly, or not at all: their requests pause, and nobody else's; their answers are those of clients
that read at once, and of `cadenza run`; whoever reads nothing for too long is dropped."""
import json
import os
import signal
import socket
import tempfile
import threading
import time

from server import Server, check, done, parse, post, read_all, run_request, until, write_hold

C = "/v1/completions"
P = "river (noun): a"
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "plain.lua"), "w") as f:
    f.write("""return cadenza.strategy { id = "test.plain", version = "1.0.0", one_row = true,
  run = function(ctx)
    while not ctx:done() do ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1))) end
  end }
""")
with open(os.path.join(folder, "plain.ini"), "w") as f:
    f.write("[pipeline]\nstrategy = lua:plain.lua\n[generation]\ndo_sample = false\n"
            "[lua:plain.lua]\nbudget_instructions = 1000000000000\nbudget_ms = 3600000\n")
# What the sockets between the two hold comes before what waits for the reader: answers here are of a few MiB.
LOUD = {"prompt": P, "n": 8, "seed": 5, "temperature": 1, "max_tokens": 200, "ignore_eos": True, "logprobs": 20,
        "return_token_ids": True}
s = Server("--max-unread", "8K", "--pipelines", folder)


def asks(server, path, body):
    """A connection that asks for a stream and reads nothing."""
    data = json.dumps({**body, "stream": True}).encode()
    c = socket.socket()
    c.settimeout(280)
    c.connect(("127.0.0.1", server.port))
    c.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return c


def events_of(raw):
    text = parse(raw)[2].decode()
    return [json.loads(block[6:]) for block in text.split("\n\n") if block.startswith("data: {")], "data: [DONE]" in text


def paused(n):
    """Until so many requests are paused, and their sockets take no more: a reader who sleeps for a moment is no slow one."""
    def still():
        m, later = s.metrics(), None
        if m["num_requests_paused"] == n:
            time.sleep(0.2)
            later = s.metrics()
        return later and later["num_requests_paused"] == n and later["generation_tokens_total"] == m["generation_tokens_total"]
    return until(still)


def same_choices(what, events, want):
    for choice in want:
        mine = [e["choices"][0] for e in events if e["choices"] and e["choices"][0]["index"] == choice["index"]]
        check(f"{what}: the text", "".join(c["text"] for c in mine) == choice["text"], (mine[-1:], choice))
        check(f"{what}: the ids", [i for c in mine for i in c.get("token_ids", [])] == choice["token_ids"], choice)
        if choice["logprobs"]:
            odds = [lp for c in mine if c["logprobs"] for lp in c["logprobs"]["token_logprobs"]]
            check(f"{what}: the log-probabilities", odds == choice["logprobs"]["token_logprobs"], choice)
        check(f"{what}: one end", [c["finish_reason"] for c in mine if c["finish_reason"]] == [choice["finish_reason"]], mine[-1:])


# --- a paused request waits, and others do not ---
want = s.post(C, LOUD)[1]["choices"]
alone = s.post(C, {"prompt": "dog (noun):", "max_tokens": 100, "temperature": 0})[1]
s.quiet()
made = s.metrics()["generation_tokens_total"]
lazy = asks(s, C, LOUD)
paused(1)
still = s.metrics()["generation_tokens_total"]
check("it has not been made to its end", 0 < still - made < 8 * 200, still - made)
check("others have their answer", s.post(C, {"prompt": "dog (noun):", "max_tokens": 100, "temperature": 0})[1]["choices"] == alone["choices"])
more = s.metrics()["generation_tokens_total"] - still
check("nothing more was made of it", more == alone["usage"]["completion_tokens"], more)
m = s.metrics()
check("it counts among those that run", m["num_requests_running"] == m["num_requests_paused"] == 1, m)
check("and holds its blocks", m["kv_blocks_used"] > 0, m)
check("the server is well, and ready", s.get("/health")[0] == 200 and s.ask("GET", "/ready")[0] == 200)
events, ended = events_of(read_all(lazy))
check("it ends once it is read", ended)
same_choices("read late", events, want)
last = s.quiet()
check("nothing is paused any more", last["num_requests_paused"] == 0 and last["kv_blocks_used"] == 0, last)
check("that is no disconnect", last["disconnects_total"] == 0, last)

# --- as `cadenza run` has it: its tokens hang on no pause ---
document = {"prompt": P, "seed": 7, "kwargs": {"do_sample": True, "temperature": 1.0, "min_new_tokens": 200, "max_new_tokens": 200,
                                               "num_return_sequences": 8}}
lazy = asks(s, C, {"prompt": P, "n": 8, "seed": 7, "logprobs": 20, "return_token_ids": True, "cadenza": {
    "kwargs": {"do_sample": True, "temperature": 1.0, "min_new_tokens": 200, "max_new_tokens": 200}}})
paused(1)
events, _ = events_of(read_all(lazy))
ids = [[i for e in events for c in e["choices"] if c["index"] == k for i in c.get("token_ids", [])] for k in range(8)]
check("the tokens of `cadenza run`", ids == run_request(document)["ids"], ids[:2])

# --- whatever decodes: many prompts, a loop in Lua; and searches and scored drafts, which say nothing before their end ---
kinds = {
    "prompts": {**LOUD, "n": 2, "prompt": [P, "music is", "dog (noun):", "the sea"]},
    "drafts": {**LOUD, "temperature": 0, "n": 1, "prompt": [P] * 2, "cadenza": {"kwargs": {"prompt_lookup_num_tokens": 4}}},
    "a loop in Lua": {"prompt": [P] * 24, "return_token_ids": True, "max_tokens": 200, "ignore_eos": True,
                      "cadenza": {"pipeline": "plain"}, "stream_options": {"continuous_usage_stats": True}},
    "beams": {"prompt": [P] * 2, "n": 4, "return_token_ids": True, "logprobs": 5, "temperature": 0, "max_tokens": 100,
              "cadenza": {"kwargs": {"num_beams": 4, "min_new_tokens": 100}}},
}
for name, body in kinds.items():
    want = s.post(C, {k: v for k, v in body.items() if k != "stream_options"})[1]["choices"]
    lazy = asks(s, C, body)
    if name in ("beams", "drafts"):
        until(lambda: s.load() == 0)
    else:
        until(lambda: s.metrics()["num_requests_paused"] > 0)
    events, ended = events_of(read_all(lazy))
    check(f"{name}: ends", ended)
    same_choices(name, events, want)
chat = {"messages": [{"role": "user", "content": "river"}], "n": 8, "seed": 3, "temperature": 1, "max_tokens": 200, "ignore_eos": True,
        "logprobs": True, "top_logprobs": 20}
want = s.post("/v1/chat/completions", chat)
if want[0] == 200:
    lazy = asks(s, "/v1/chat/completions", chat)
    paused(1)
    events, ended = events_of(read_all(lazy))
    texts = ["".join(c["delta"].get("content") or "" for e in events for c in e["choices"] if c["index"] == k) for k in range(8)]
    check("a chat's texts", texts == [c["message"]["content"] for c in want[1]["choices"]], texts[:2])
s.quiet()

# --- one that goes away while it is paused frees all, and one that is paused in a queue of others keeps nobody waiting ---
gone = s.metrics()["disconnects_total"]
crowd = [asks(s, C, {**LOUD, "seed": k}) for k in range(3)]
paused(3)
crowd[0].close()
paused(2)
crowd[1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
crowd[1].close()
paused(1)
check("those were disconnects", s.metrics()["disconnects_total"] == gone + 2, s.metrics())
rest = [events_of(read_all(c)) for c in crowd[2:]]
check("the others end", all(ended for _, ended in rest))
s.quiet()

# --- SIGTERM: what is paused ends when it is read ---
lazy = asks(s, C, LOUD)
paused(1)
s.process.send_signal(signal.SIGTERM)
until(lambda: s.ask("GET", "/ready")[0] == 503)
events, ended = events_of(read_all(lazy))
check("a paused stream ends well", ended and sum(bool(c["finish_reason"]) for e in events for c in e["choices"]) == 8, events[-1:])
check("exit status 0", s.process.wait(280) == 0)

# --- and holds nobody up when it is not ---
s = Server("--max-unread", "8K", "--drain-timeout", "0")
lazy = asks(s, C, LOUD)
paused(1)
s.stop()
lazy.close()

# --- memory that a paused one holds is had by those that go on; then it goes on itself, to the same tokens ---
s = Server("--max-unread", "8K", "--kv-memory", "12M")
want = s.post(C, {**LOUD, "n": 8})
check("it fits", want[0] == 200, want)
lazy = asks(s, C, {**LOUD, "n": 8})
paused(1)
other = s.post(C, {**LOUD, "n": 8, "seed": 6, "logprobs": None})
check("another of its size has its answer meanwhile", other[0] == 200 and s.metrics()["num_requests_paused"] == 1, other)
check("with the blocks of the paused one", s.metrics()["num_preemptions_total"] > 0)
events, ended = events_of(read_all(lazy))
check("the paused one ends", ended)
same_choices("preempted", events, want[1]["choices"])
s.stop()

# --- its place is others' meanwhile; when it is read, it waits for one ---
write_hold(folder)
s = Server("--max-unread", "8K", "--max-running", "1", "--pipelines", folder)
want = s.post(C, LOUD)[1]["choices"]
lazy = asks(s, C, LOUD)
paused(1)
other = s.post(C, {"prompt": "dog (noun):", "max_tokens": 100, "temperature": 0})[1]
check("another has its answer in the only place", other["choices"] == alone["choices"] and s.metrics()["num_requests_paused"] == 1, other)
second = asks(s, C, {**LOUD, "seed": 6})
paused(2)
full = s.connect()
full.sendall(post({"prompt": "dog (noun):", "max_tokens": 5}))
until(lambda: s.load() == 3)
check("as many again may be paused, and no more", s.metrics()["num_requests_waiting"] == 1, s.metrics())
second.close()
check("the next one begins", parse(read_all(full))[0] == 200)
held = s.hold()
late = []
reader = threading.Thread(target=lambda: late.append(read_all(lazy)))
reader.start()
for _ in range(20):
    check("the place is taken: it waits", s.metrics()["num_requests_paused"] == 1 and not late)
held.close()
reader.join()
events, ended = events_of(late[0])
check("it ends in the place that became free", ended)
same_choices("another had its place", events, want)
check("nobody is left", s.quiet()["num_requests_paused"] == 0)
s.stop()

# --- whoever reads nothing for too long is dropped, with all that it holds ---
s = Server("--max-unread", "8K", "--read-timeout", "1")
lazy = asks(s, C, LOUD)
last = s.quiet() if until(lambda: s.metrics()["disconnects_total"] == 1) else s.metrics()
check("what it held is free", last["kv_blocks_used"] == 0 and last["num_requests_paused"] == 0, last)
check("its stream has no end", b"[DONE]" not in read_all(lazy))
s.stop()
done()
