"""failures.py - memory that runs out at any point of a request, and writes that fail at any point of its answer: the answer is
the whole one, an error of the server's, or cut off where the client sees it; nothing is left, and the server goes on. refuse.c
stands before the C library. CADENZA_SWEEP_STRIDE=1 tries every point."""
import json
import mmap
import os
import socket
import struct
import sys
import tempfile

REFUSE = sys.argv.pop(3)
page_file = tempfile.NamedTemporaryFile()
page_file.write(struct.pack("6q", 0, -1, 0, 0, -1, 0) + bytes(4096))
page_file.flush()
page = mmap.mmap(page_file.fileno(), 4096)
ASKED, REFUSED_AT, HELD, WRITTEN, FAILS_AT, HOW = range(6)
RESET, LATER, ONE_BYTE = range(3)
STRIDE = int(os.environ.get("CADENZA_SWEEP_STRIDE", "0"))

from server import PATIENCE, Server, Speaker, check, done, parse, read_all


def get(i):
    return struct.unpack_from("q", page, 8 * i)[0]


def put(i, value):
    struct.pack_into("q", page, 8 * i, value)


P = "river (noun): a"
M = [{"role": "user", "content": "What does river mean?"}]
TEMPLATE = ("{#- <tool_call> -#}{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>{% endif -%}"
            "{%- for m in messages -%}<|{{ m.role }}|>{{ m.content }}<|end|>{%- endfor -%}<|assistant|>")
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
speaker = Speaker(tempfile.mkdtemp(), TEMPLATE)
speaker.say("call", 'Well. <tool_call>{"name": "f", "arguments": {"a": [1, "b"]}}</tool_call>')
os.environ.update(LD_PRELOAD=REFUSE, CADENZA_TEST_REFUSALS=page_file.name)
s = speaker.serve("--threads", "1", "--max-queue", "64")
del os.environ["LD_PRELOAD"]

scenarios = [
    ("GET", "/v1/models", None),
    ("POST", "/tokenize", {"prompt": P}),
    ("POST", "/v1/completions", {"prompt": [P, "a"], "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": True, "stop": ["zzz"]}),
    ("POST", "/v1/completions", {"prompt": P, "max_tokens": 4, "seed": 3, "temperature": 1, "n": 2, "stream": True,
                                 "stream_options": {"include_usage": True}, "presence_penalty": 0.5}),
    ("POST", "/v1/completions", {"prompt": P, "max_tokens": 3, "n": 2, "cadenza": {
        "kwargs": {"num_beams": 3, "do_sample": False}, "processors": [{"name": "dry", "params": {"multiplier": 0.8}}]}}),
    ("POST", "/v1/chat/completions", {"messages": M, "tools": TOOLS, "cadenza": {"pipeline": "call"}}),
    ("POST", "/v1/chat/completions", {"messages": M, "tools": TOOLS, "stream": True, "cadenza": {"pipeline": "call"}}),
    ("POST", "/v1/responses", {"input": "a", "tools": [{"type": "function", "name": "f"}], "stream": True, "cadenza": {"pipeline": "call"}}),
]


def request(method, path, body):
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: same\r\n"
    if body is not None:
        head += f"Content-Length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


def ask(data):
    """What came back, and whether it came to an end."""
    with socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE) as c:
        try:
            c.sendall(data)
        except OSError:
            pass
        try:
            return read_all(c), True
        except socket.timeout:
            return b"", False


def plain(value):
    """Without what differs between two equal answers; how much of a prompt was still known is no part of an answer."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in ("created", "created_at", "id", "item_id", "call_id", "cached_tokens")}
    return [plain(v) for v in value] if isinstance(value, list) else value


def told(events):
    """What a stream says, however it was cut into events: of each choice or item its texts, and all else."""
    out = {}
    for e in events:
        if "choices" not in e:
            key = (e["type"], e.get("output_index"))
            out[key] = out.get(key, "") + (e["delta"] if "delta" in e else json.dumps(plain({**e, "sequence_number": 0})))
            continue
        out["usage"] = e.get("usage") or out.get("usage")
        for c in e["choices"]:
            mine = out.setdefault(c["index"], {})
            delta = c.get("delta", {"content": c.get("text", "")})
            mine["text"] = mine.get("text", "") + (delta.get("content") or "")
            mine["finish"] = c["finish_reason"] or mine.get("finish")
            for call in delta.get("tool_calls", []):
                mine["calls"] = mine.get("calls", "") + call["function"].get("name", "") + call["function"]["arguments"]
    return out


def judge(raw, good):
    """None, or what is wrong with an answer."""
    try:
        return judge_whole(raw, good)
    except (ValueError, KeyError) as e:
        return repr(e)


def judge_whole(raw, good):
    head, _, body = raw.partition(b"\r\n\r\n")
    if not raw or not _:
        return None # cut off before its head was there
    status = int(raw.split(b" ", 2)[1])
    if status not in (200, 500, 503):
        return "status"
    chunked = b"transfer-encoding: chunked" in head.lower()
    if chunked and not body.endswith(b"0\r\n\r\n"):
        return None
    _, headers, body = parse(raw)
    if not chunked and len(body) < int(headers.get("content-length", "0")):
        return None
    if status != 200:
        return None if "message" in json.loads(body).get("error", {}) else "no reason"
    if "content-type" not in headers or headers.get("x-request-id") != "same":
        return "a header is missing"
    if headers["content-type"] != "text/event-stream":
        return None if plain(json.loads(body)) == good else "another answer"
    blocks = body.decode().split("\n\n")
    events = [json.loads(b[b.index("data: ") + 6:]) for b in blocks if "data: {" in b]
    if any("error" in e or e.get("type") == "response.failed" for e in events):
        return "an error and [DONE]" if "data: [DONE]" in blocks else None
    return None if told(events) == good else "another stream"


def good_of(raw):
    status, headers, body = parse(raw)
    check("status", status == 200, raw)
    if headers["content-type"] != "text/event-stream":
        return plain(json.loads(body))
    return told([json.loads(b[b.index("data: ") + 6:]) for b in body.decode().split("\n\n") if "data: {" in b])


def points(first, stride):
    n = 0
    while True:
        yield n
        n += 1 if STRIDE == 1 else (1 if n < first else STRIDE or stride)


def sweep(what, data, good, counter, place, first, stride, how=0):
    n_tried = 0
    for n in points(first, stride):
        put(HOW, how)
        put(counter, 0)
        put(place, n)
        raw, ended = ask(data)
        put(place, -1)
        n_tried += 1
        wrong = judge(raw, good) if ended else "it never ends"
        check(f"{what} at {n}", not wrong, (wrong, raw[-1500:]))
        if get(counter) <= n or wrong == "it never ends":
            return n_tried
    return n_tried


goods = [good_of(ask(request(*row))[0]) for row in scenarios]
for _ in range(3):
    for row, good in zip(scenarios, goods):
        check(f"{row} again", not judge(ask(request(*row))[0], good))
s.quiet()
base, held, tried = s.descriptors(), get(HELD), 0
for row, good in zip(scenarios, goods):
    data = request(*row)
    name = f"{row[1]} {'stream ' if row[2] and row[2].get('stream') else ''}"
    tried += sweep(name + "memory", data, good, ASKED, REFUSED_AT, 60, 23)
    for how, says in ((RESET, "reset"), (LATER, "later"), (ONE_BYTE, "one byte")):
        tried += sweep(name + says, data, good, WRITTEN, FAILS_AT, 200, 1, how)
for row, good in zip(scenarios, goods):
    check(f"{row} at the end", not judge(ask(request(*row))[0], good))
s.quiet()
check("descriptors come back", s.descriptors() <= base + 2, (base, s.descriptors()))
check("memory comes back", get(HELD) <= held + tried / 20 + 64, (held, get(HELD), tried))
s.stop()
print(f"{tried} failures; {held} pieces of memory before, {get(HELD)} at the end")
done()
