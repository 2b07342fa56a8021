"""load.py - many streams at once, decoded in every way, some of which are given up at any moment: each answer that is left has
the tokens that `cadenza run` gives alone, and memory, descriptors and KV blocks come back. CADENZA_LOAD_STREAMS: how many (64);
CADENZA_LOAD_MINUTES: for so long crowd after crowd, with readers who sleep and pipelines that are read again."""
import json
import os
import random
import re
import shutil
import socket
import tempfile
import threading
import time

from server import PROGRAM, Server, check, done, parse, run, run_request, until, write_hold

STREAMS = int(os.environ.get("CADENZA_LOAD_STREAMS", "64"))
MINUTES = float(os.environ.get("CADENZA_LOAD_MINUTES", "0"))
WAVES = 3
GROWTH = 8 # MiB
P = "river (noun): a"
folder = tempfile.mkdtemp()
shutil.copy(os.path.join(os.path.dirname(__file__), "../../whole/composition/backtrack.lua"), os.path.join(folder, "back.lua"))
back = os.path.join(folder, "back.ini")
with open(back, "w") as f:
    f.write("[pipeline]\nstrategy = lua:back.lua\n[generation]\nmax_new_tokens = 20\n")
dry = os.path.join(folder, "dry.ini")
with open(dry, "w") as f:
    f.write("[pipeline]\nprocessors = dry\n[generation]\ndo_sample = true\ntemperature = 0.8\nseed = 5\nmax_new_tokens = 20\n[dry]\nmultiplier = 0.8\n")


def of_kwargs(prompt, seed=None, **kwargs):
    document = {"prompt": prompt, "kwargs": kwargs}
    body = {"prompt": prompt, "cadenza": {"kwargs": kwargs}}
    if seed is not None:
        document["seed"] = body["seed"] = seed
    return body, lambda: run_request(document)


# (body, what runs the same alone)
table = [
    of_kwargs(P, do_sample=False, max_new_tokens=24),
    of_kwargs("dog (noun):", do_sample=False, max_new_tokens=40),
    of_kwargs(P, 7, do_sample=True, temperature=0.9, max_new_tokens=24),
    of_kwargs("music is", 8, do_sample=True, temperature=1.2, top_p=0.9, top_k=30, max_new_tokens=32),
    of_kwargs(P, do_sample=False, num_beams=4, max_new_tokens=16),
    of_kwargs("the sea", 3, do_sample=True, num_beams=2, max_new_tokens=12),
    of_kwargs(P, do_sample=False, prompt_lookup_num_tokens=4, max_new_tokens=32),
    of_kwargs("dog (noun):", 4, do_sample=True, prompt_lookup_num_tokens=3, max_new_tokens=24),
    of_kwargs(P, do_sample=False, repetition_penalty=1.4, no_repeat_ngram_size=3, max_new_tokens=24),
    ({"prompt": P, "cadenza": {"pipeline": "back"}}, lambda: run("--pipeline", back, "-p", P)),
    ({"prompt": "music is", "cadenza": {"pipeline": "back"}}, lambda: run("--pipeline", back, "-p", "music is")),
    ({"prompt": P, "cadenza": {"pipeline": "dry"}}, lambda: run("--pipeline", dry, "-p", P)),
]
write_hold(folder)
wanted = [alone()["ids"] for _, alone in table]
s = Server("--pipelines", folder, "--max-queue", "4096")


def memory():
    with open(f"/proc/{s.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def give_up(dice, body):
    """Asks, and goes away before the answer, in its middle, or right behind the head."""
    data = json.dumps(body).encode()
    c = s.connect()
    c.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    if dice.random() < 0.5:
        c.settimeout(dice.choice([0.001, 0.01, 0.1, 1]))
        try:
            c.recv(dice.choice([1, 200, 5000]))
        except OSError:
            pass
    if dice.random() < 0.5:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()


def tokens_of(body):
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    status, _, text = parse(s.raw(head.encode() + data, 600))
    if status != 200:
        return status, text
    if not body["stream"]:
        return status, json.loads(text)["choices"][0]["token_ids"]
    events = [json.loads(b[6:]) for b in text.decode().split("\n\n") if b.startswith("data: {")]
    return status, [i for e in events for c in e["choices"] for i in c.get("token_ids", [])]


wrong, right = [], []


def stream_of(seed):
    dice = random.Random(seed)
    for _ in range(WAVES):
        i = dice.randrange(len(table))
        body = {**table[i][0], "stream": dice.random() < 0.6, "return_token_ids": True}
        if dice.random() < 0.3:
            give_up(dice, body)
            continue
        status, ids = tokens_of(body)
        (right if (status, ids) == (200, wanted[i]) else wrong).append((body, status, ids, wanted[i]))


def settle():
    """The server closes its side of a connection when it sees ours closed: descriptors are counted after that."""
    until(lambda: s.descriptors() <= base)
    return s.descriptors()


def crowd(first):
    threads = [threading.Thread(target=stream_of, args=(first + i,)) for i in range(STREAMS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


s.post("/v1/completions", {"prompt": "a", "max_tokens": 2})
s.quiet()
base = s.descriptors()
tasks = len(os.listdir(f"/proc/{s.process.pid}/task"))


def beside(over):
    """What else happens to a server in a day: pipelines are read again, somebody asks how it is, somebody does not read."""
    dice = random.Random(1)
    while not over.is_set():
        check("a reload", s.post("/v1/pipelines/reload", {})[0] == 200)
        health = s.get("/health")
        check("health", health[0] == 200, health)
        sleeper = s.connect()
        data = json.dumps({**table[0][0], "n": 4, "stream": True}).encode()
        sleeper.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        over.wait(dice.random() * 4)
        sleeper.close()


def soak(minutes):
    """Memory in the first quarter, and in the last: the most that a crowd left. A line a minute for who waits; a wrong answer ends it."""
    begin, told, levels = time.monotonic(), 0, []
    while (gone := (time.monotonic() - begin) / 60) < minutes and not wrong:
        if gone >= told + 1:
            told = int(gone)
            print(f"{told} of {minutes:g} minutes: {len(levels)} crowds, {len(right)} answers, all as alone; {levels[-1]:.1f} MiB", flush=True)
        crowd(10000 * (len(levels) + 1))
        levels.append(memory())
    quarter = max(1, len(levels) // 4)
    print(f"{len(levels)} crowds")
    return max(levels[:quarter]), max(levels[-quarter:])


def crowds():
    """Memory before and after a crowd that did not add to it. How many of one were there at once is chance: what leaks, grows with
    each of them."""
    crowd(0)
    s.hold().close()
    crowd(10000)
    for i in range(2, 6):
        before = memory()
        crowd(10000 * i)
        after = memory()
        if after < before + GROWTH:
            break
    return before, after


over = threading.Event()
other = threading.Thread(target=beside, args=(over,))
other.start()
before, after = soak(MINUTES) if MINUTES else crowds()
over.set()
other.join()
last = s.quiet()
settle()
check("each answer is the one that is given alone", not wrong, wrong[:3])
check("enough were asked for", len(right) > STREAMS * WAVES * 1.5, len(right))
check("clients went away", last["disconnects_total"] > 0, last)
check("KV blocks come back", last["kv_blocks_used"] == 0 and last["num_requests_running"] == 0 and last["num_requests_waiting"] == 0, last)
last_open = settle()
check("descriptors come back", last_open <= base, (base, last_open))
check("threads stay", len(os.listdir(f"/proc/{s.process.pid}/task")) == tasks)
# A sanitizer keeps what was freed for a while.
with open(PROGRAM, "rb") as f:
    sanitized = re.search(b"__[at]san_init", f.read())
if not sanitized:
    check("memory does not grow with each crowd", after < before + GROWTH, (before, after))
s.stop()
print(f"{len(right)} answers; {before:.1f} MiB before, {after:.1f} after")
done()
