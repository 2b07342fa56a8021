"""life.py - clients that go away, streams that nobody reads, a full queue, and the end of the server."""
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

from server import PATIENCE, PROGRAM, Server, check, done, parse, read_all, until, write_hold

LONG = {"prompt": "river (noun): a", "max_tokens": 400, "temperature": 1.0, "cadenza": {"kwargs": {"min_new_tokens": 400}}}
folder = tempfile.mkdtemp()
write_hold(folder)
pipelines = ("--pipelines", folder)


def request(path, body):
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


dice = random.Random(1)
s = Server("--max-queue", "1000", *pipelines)
s.post("/v1/completions", {"prompt": "a", "max_tokens": 2})
first, base = s.quiet(), s.descriptors()
threads = len(os.listdir(f"/proc/{s.process.pid}/task"))

# --- clients go away that would wait for ever: of a whole answer, of streams, of several rows and prompts ---
held = [s.hold(), s.hold(stream=True), s.hold(n=4, stream=True), s.hold(prompt=["a", "b", "c"]), s.hold(prompt=["a", "b"], stream=True)]
check("all of them run", s.load() == 8, s.load())
for c in held:
    c.close()
last = s.quiet()
check("rows are freed", last["kv_blocks_used"] == first["kv_blocks_used"] == 0, last)
check("they are disconnects", last["disconnects_total"] == len(held), last)

# --- and clients that go away at any moment, of searches and drafts too: before the first token, in a stream, near the end ---
kinds = [
    {},
    {"stream": True},
    {"n": 4, "stream": True},
    {"cadenza": {"kwargs": {"num_beams": 4, "min_new_tokens": 200, "max_new_tokens": 200, "do_sample": False}}, "max_tokens": None,
     "temperature": None},
    {"cadenza": {"kwargs": {"prompt_lookup_num_tokens": 4, "min_new_tokens": 300, "max_new_tokens": 300, "do_sample": False}},
     "max_tokens": None, "temperature": None},
    {"prompt": ["a", "b", "c"], "stream": True},
]
for _ in range(60):
    c = s.connect()
    c.sendall(request("/v1/completions", {**LONG, **dice.choice(kinds)}))
    time.sleep(dice.choice([0, 0, 0.001, 0.01, 0.05]))
    if dice.random() < 0.5: # a reset in place of an end
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
last = s.quiet()
check("rows of all are freed", last["kv_blocks_used"] == 0, last)
check("descriptors come back", until(lambda: s.descriptors() <= base + 2), (base, s.descriptors()))
check("threads stay", len(os.listdir(f"/proc/{s.process.pid}/task")) == threads)

# --- somebody who does not read is alone with it ---
lazy = s.connect()
lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
lazy.sendall(request("/v1/completions", {**LONG, "n": 8, "stream": True}))
check("others go on", s.post("/v1/completions", {"prompt": "a", "max_tokens": 3})[0] == 200)
check("health under load", s.get("/health")[0] == 200)
lazy.close()
s.quiet()

# --- many at once, and each its own ---
want = s.post("/v1/completions", {"prompt": "dog (noun):", "max_tokens": 20, "temperature": 0.8, "seed": 9})[1]["choices"]
got = [None] * 64


def one(i):
    got[i] = s.post("/v1/completions", {"prompt": "dog (noun):", "max_tokens": 20, "temperature": 0.8, "seed": 9})[1].get("choices")


crowd = [threading.Thread(target=one, args=(i,)) for i in range(64)]
for t in crowd:
    t.start()
for t in crowd:
    t.join()
check("64 at once have the answer of one", all(g == want for g in got), got)
s.stop()

# --- a full queue ---
s = Server("--max-queue", "1", "--max-running", "2", *pipelines)
held = [s.connect(), s.connect()]
for c in held: # at once: there is a place for both
    c.sendall(request("/v1/completions", {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "cadenza": {"pipeline": "hold"}}))
until(lambda: s.load() == 2)
check("neither waits", s.metrics()["num_requests_waiting"] == 0 and s.ask("GET", "/ready")[0] == 200, s.metrics())
held.append(s.hold(stream=True))
check("the third does", s.metrics()["num_requests_waiting"] == 1, s.metrics())
full = s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2})
check("a full queue", full[0] == 429 and "retry-after" in full[1], full)
full = s.ask("GET", "/ready")
check("and is not ready", full[0] == 503 and "retry-after" in full[1], full)
check("and is well", s.get("/health")[0] == 200)
for c in held:
    c.close()
s.quiet()
check("ready again", s.ask("GET", "/ready")[0] == 200)

# --- what the queue has no room for may come again; what can never fit may not ---
answer = s.ask("POST", "/v1/completions", {"prompt": ["a"] * 4, "max_tokens": 2})
check("more prompts than the queue takes", answer[0] == 429 and b"queue_full" in answer[2] and "retry-after" in answer[1], answer)
s.quiet()
small = Server("--kv-memory", "1M")
answer = small.ask("POST", "/v1/completions", {**LONG, "n": 8})
check("more than the memory holds", answer[0] == 400 and "retry-after" not in answer[1] and b"KV memory" in answer[2], answer)
check("others fit", small.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200)
small.stop()

# --- the end: what runs ends well, what is new is refused ---
held = s.hold() # so that the server does not end before it has been looked at
c = s.connect()
c.sendall(request("/v1/completions", {**LONG, "max_tokens": 200, "cadenza": {"kwargs": {"min_new_tokens": 200}}, "stream": True}))
check("it streams", c.recv(100).startswith(b"HTTP/1.1 200"))
idle = s.connect()
idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
answer = http.client.HTTPResponse(idle) # all of it, however many pieces it comes in
answer.begin()
check("the idle connection is answered", answer.status == 200 and answer.read(), answer.status)
s.process.send_signal(signal.SIGTERM)
check("an idle connection is closed", idle.recv(1000) == b"")


def is_draining():
    return s.ask("GET", "/ready")[0] == 503


check("it hears the signal", until(is_draining))
status, headers, _ = s.ask("GET", "/ready")
check("not ready while it ends", status == 503 and headers.get("connection") == "close", (status, headers))
status, headers, _ = s.ask("POST", "/v1/completions", {"prompt": "a"})
check("no new requests", status == 503 and "retry-after" in headers, (status, headers))
held.close()
rest = read_all(c)
check("the stream ends well", b"data: [DONE]" in rest, rest[-300:])
check("exit status 0", s.process.wait(PATIENCE) == 0)

# --- a second signal ends streams with an error ---
s = Server("--drain-timeout", str(PATIENCE), *pipelines)
c = s.hold(stream=True)
c.recv(100)
s.process.send_signal(signal.SIGTERM)
check("it hears the first", until(is_draining))
s.process.send_signal(signal.SIGTERM)
rest = read_all(c)
check("it says why", b'"error"' in rest and b"the server is stopping" in rest and b"[DONE]" not in rest, rest[-300:])
check("exit status 0 again", s.process.wait(PATIENCE) == 0)

# --- a time limit does the same ---
s = Server("--drain-timeout", "0", *pipelines)
c = s.hold(stream=True)
c.recv(100)
s.process.send_signal(signal.SIGTERM)
rest = read_all(c)
check("the time limit ends it", b'"error"' in rest, rest[-300:])
check("exit status 0 once more", s.process.wait(PATIENCE) == 0)

# --- nobody reads the log any more ---
s = Server()
s.hang_up()
for _ in range(3):
    check("it answers without a log", s.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200)
s.process.send_signal(signal.SIGTERM)
check("exit status 0 without a log", s.process.wait(PATIENCE) == 0)

# --- a line of the log is one write, so that lines of several writers stay apart: each is a datagram here ---
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
told = subprocess.run([PROGRAM, "run", "--no-such\x01option"], stderr=theirs, stdout=subprocess.DEVNULL)
check("a misspelt option is refused", told.returncode == 2)
ours.settimeout(PATIENCE)
line = ours.recv(10000)
check("a line is one write", line.startswith(b"cadenza: run: --no-such\\x01option") and line.endswith(b"\n"), line)
done()
