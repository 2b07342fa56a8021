"""attacks.py - what HTTP servers are attacked with, on the socket: each row has its status, the connection ends, and nothing
behind the refused head is answered."""
import json
import resource
import socket
import threading
import time

from server import PATIENCE, Server, check, done, parse, read_all, until

resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
s = Server("--max-queue", "64")
H = "Host: localhost\r\n"
NEXT = f"GET /v1/models HTTP/1.1\r\n{H}\r\n"


def head(line, *fields, host=True):
    return (line + "\r\n" + (H if host else "") + "".join(f + "\r\n" for f in fields) + "\r\n").encode("latin-1")


G, P = "GET /health HTTP/1.1", "POST /tokenize HTTP/1.1"
BODY = '{"prompt": "a"}'
rows = [
    ("CL and TE", 400, head(P, "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    ("TE and CL", 400, head(P, "Transfer-Encoding: chunked", "Content-Length: 5") + b"0\r\n\r\n"),
    ("two lengths", 400, head(P, "Content-Length: 5", "Content-Length: 6") + b"hello"),
    ("a list of lengths", 400, head(P, "Content-Length: 5, 5") + b"hello"),
    ("a signed length", 400, head(P, "Content-Length: +5") + b"hello"),
    ("a hexadecimal length", 400, head(P, "Content-Length: 0x5") + b"hello"),
    ("a length that overflows", 400, head(P, "Content-Length: 99999999999999999999") + b"hello"),
    ("two TE", 400, head(P, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + b"0\r\n\r\n"),
    ("TE identity", 400, head(P, "Transfer-Encoding: identity")),
    ("TE gzip, chunked", 400, head(P, "Transfer-Encoding: gzip, chunked")),
    ("TE with a tab", 400, head(P, "Transfer-Encoding:\tchun\tked")),
    ("TE under 1.0", 400, head("POST /tokenize HTTP/1.0", "Transfer-Encoding: chunked")),
    ("a folded field", 400, head(G, "A: b\r\n c")),
    ("NUL in a field", 400, head(G, "A: b\0c")),
    ("CR in a field", 400, head(G, "A: b\rc")),
    ("LF line ends", 400, head(G).replace(b"\r\n", b"\n")),
    ("LF at one line", 400, head(G, "A: b").replace(b"A: b\r\n", b"A: b\n")),
    ("NUL in the target", 400, head("GET /hea\0lth HTTP/1.1")),
    ("a control byte in the target", 400, head("GET /\x01 HTTP/1.1")),
    ("two hosts", 400, head(G, "Host: localhost")),
    ("no host", 400, head(G, host=False)),
    ("a blank before the colon", 400, head(G, "A : b")),
    ("an empty name", 400, head(G, ": b")),
    ("bytes as a method", 400, head("G\xe4T /health HTTP/1.1")),
    ("a target without a slash", 400, head("GET health HTTP/1.1")),
    ("two blanks", 400, head("GET  /health HTTP/1.1")),
    ("a blank before the first field", 400, b"GET /health HTTP/1.1\r\n " + H.encode() + b"\r\n"),
    ("a TLS hello", 400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64),
    ("HTTP/2", 505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("a signed chunk", 400, head(P, "Transfer-Encoding: chunked") + b"+5\r\nhello\r\n0\r\n\r\n"),
    ("a 0x chunk", 400, head(P, "Transfer-Encoding: chunked") + b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("a chunk that overflows", 400, head(P, "Transfer-Encoding: chunked") + b"ffffffffffffffff1\r\n"),
    ("a chunk with LF", 400, head(P, "Transfer-Encoding: chunked") + b"5\nhello\r\n0\r\n\r\n"),
    ("a chunk that is too long", 400, head(P, "Transfer-Encoding: chunked") + b"2\r\nhello\r\n0\r\n\r\n"),
    ("a long head", 431, head(G, "A: " + "b" * 40000)),
    ("many fields", 431, head(G, *["A: b"] * 101)),
    ("a long target", 414, head("GET /" + "a" * 9000 + " HTTP/1.1")),
    ("a long body", 413, head(P, f"Content-Length: {1 << 30}", "Expect: 100-continue")),
    ("a packed body", 415, head(P, "Content-Encoding: gzip", "Content-Length: 5") + b"hello"),
    ("a port that is none", 400, b"GET /health HTTP/1.1\r\nHost: localhost:80x\r\n\r\n"),
    ("a host with a user", 400, b"GET /health HTTP/1.1\r\nHost: a@localhost\r\n\r\n"),
    ("brackets that are open", 400, b"GET /health HTTP/1.1\r\nHost: [::1\r\n\r\n"),
    ("two hosts in one", 400, b"GET /health HTTP/1.1\r\nHost: localhost, localhost\r\n\r\n"),
    ("https in the target", 400, head("GET https://localhost/health HTTP/1.1")),
    ("another expectation", 417, head(P, "Expect: tea", "Content-Length: 5") + b"hello"),
    ("CONNECT", 405, head("CONNECT localhost:1 HTTP/1.1")),
]
for name, status, data in rows:
    answer = s.raw(data + NEXT.encode())
    got, headers, body = parse(answer)
    check(name, got == status, answer)
    check(name + ": one answer", answer.count(b"HTTP/1.1 ") == 1, answer)
    check(name + ": JSON", "message" in json.loads(body or b"{}").get("error", {}), answer)
    check(name + ": closes", headers.get("connection") == "close", headers)
    check(name + ": an id", headers.get("x-request-id"), headers)

# --- a head that comes a byte at a time is as slow as one that does not come ---
dripped = []


def drip():
    with s.connect() as c:
        data = head(G, "A: " + "b" * 20000)
        try:
            for i in range(len(data)):
                c.sendall(data[i:i + 1])
                time.sleep(0.1)
        except OSError:
            pass
        dripped.append(read_all(c))


slow = threading.Thread(target=drip)
slow.start()

# --- answered by the routes ---
table = [
    ("a path", 404, "GET", "/nothing", None, []),
    ("a method", 405, "POST", "/health", {}, []),
    ("another method", 405, "GET", "/v1/completions", None, []),
    ("an unknown method", 405, "BREW", "/health", None, []),
    ("TRACE", 405, "TRACE", "/health", None, []),
    ("another host", 400, "GET", "/health", None, [("Host", "evil.example")]),
    ("another origin", 403, "POST", "/tokenize", {"prompt": "a"}, [("Origin", "https://evil.example")]),
    ("deep JSON", 400, "POST", "/tokenize", b"[" * 100000, []),
    ("deep objects", 400, "POST", "/v1/completions", b'{"a":' * 100000, []),
    ("a long number", 400, "POST", "/v1/completions", b'{"seed": ' + b"9" * 10000 + b', "prompt": "a"}', []),
    ("no UTF-8", 400, "POST", "/tokenize", b'{"prompt": "\xff"}', []),
    ("a lone surrogate", 400, "POST", "/tokenize", b'{"prompt": "\\ud800"}', []),
    ("NaN", 400, "POST", "/v1/completions", b'{"prompt": "a", "temperature": NaN}', []),
    ("a list", 400, "POST", "/v1/completions", b"[]", []),
    ("nothing", 400, "POST", "/v1/completions", b"", []),
    ("a stop that is wrong behind a good one", 400, "POST", "/v1/completions", {"prompt": "a", "stop": ["a" * 99, 5]}, []),
    ("an empty stop behind a good one", 400, "POST", "/v1/completions", {"prompt": "a", "stop": ["a" * 99, ""]}, []),
    ("a bias that is wrong behind a good one", 400, "POST", "/v1/completions", {"prompt": "a", "logit_bias": {"1": 1, "x": 1}}, []),
    ("a prompt that is wrong behind good ones", 400, "POST", "/v1/completions", {"prompt": ["a", "b", 5]}, []),
    ("an id that is wrong behind good ones", 400, "POST", "/v1/completions", {"prompt": [[1, 2], [1, -2]]}, []),
    ("a part that is wrong behind a good one", 400, "POST", "/v1/chat/completions", {"messages": [
        {"role": "user", "content": [{"type": "text", "text": "a" * 99}, {"type": "text", "text": 5}]}]}, []),
    ("a call that is wrong behind a good one", 400, "POST", "/v1/chat/completions", {"messages": [{"role": "assistant", "tool_calls": [
        {"id": "a", "function": {"name": "f", "arguments": "{}"}}, {"id": "b", "function": {"name": "f"}}]}]}, []),
    ("a processor that is wrong behind a good one", 400, "POST", "/v1/completions", {"prompt": "a", "cadenza": {"processors": [
        {"name": "dry", "params": {"multiplier": 0.8}}, {"name": "dry.so"}]}}, []),
]
for name, status, method, path, body, headers in table:
    got, answered, text = s.ask(method, path, body, headers)
    check(name, got == status, (got, text))
    check(name + ": JSON", "message" in json.loads(text or b"{}").get("error", {}), text)
    check(name + ": an id", answered.get("x-request-id"), answered)
    if got == 405:
        check(name + ": Allow", "allow" in answered, answered)
check("text/plain is refused", parse(s.raw(
    head(P, "Content-Type: text/plain", f"Content-Length: {len(BODY)}", "Connection: close") + BODY.encode()))[0] == 415)
for evil in ("evil.example", "localhost.evil.example", "evil.example:80"):
    got = parse(s.raw(f"GET /health HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n".encode()))[0]
    check(f"Host {evil}", got == 421, got)
got = parse(s.raw(head("GET http://evil.example/health HTTP/1.1", "Connection: close")))[0]
check("an absolute target of another host", got == 421, got)
got = parse(s.raw(head("GET http://localhost:1/health HTTP/1.1", "Connection: close")))[0]
check("an absolute target of this host", got == 200, got)
got = parse(s.raw(head("GET http://localhost HTTP/1.1", "Connection: close")))
check("an absolute target without a path", got[0] in (200, 404), got)
got = parse(s.raw(head(P, "Content-Length: 1073741824", "X-Request-Id: my-id")))
check("the id of a refusal", got[0] == 413 and got[1].get("x-request-id") == "my-id", got)
check("OPTIONS *", parse(s.raw(head("OPTIONS * HTTP/1.1", "Connection: close")))[0] == 204)
answer = s.raw(head("HEAD /health HTTP/1.1", "Connection: close"))
check("HEAD has no body", answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"\r\n\r\n"), answer)
check("HTTP/1.0", parse(s.raw(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n"))[0] == 200)
check("an id is taken over", s.ask("GET", "/health", None, [("X-Request-Id", "abc-1.2_3")])[1]["x-request-id"] == "abc-1.2_3")
check("a bad id is not", s.ask("GET", "/health", None, [("X-Request-Id", "a b<c")])[1]["x-request-id"] != "a b<c")

# --- bodies in pieces, pipelines, continuation ---
with s.connect() as c:
    chunked = head(P, "Transfer-Encoding: chunked", "Connection: close") + b"8;x=y\r\n" + BODY[:8].encode() + b"\r\n"
    chunked += f"{len(BODY) - 8:x}\r\n{BODY[8:]}\r\n0\r\n\r\n".encode()
    for i in range(0, len(chunked), 3):
        c.sendall(chunked[i:i + 3])
    status, _, body = parse(read_all(c))
    check("chunks in pieces", status == 200 and json.loads(body)["count"] == 1, body)
with s.connect() as c:
    c.sendall(head(P, f"Content-Length: {len(BODY)}", "Expect: 100-continue", "Connection: close"))
    check("100 Continue", c.recv(100).startswith(b"HTTP/1.1 100"))
    c.sendall(BODY.encode())
    check("and then the answer", parse(read_all(c))[0] == 200)
with s.connect() as c:
    one = head(P, f"Content-Length: {len(BODY)}") + BODY.encode()
    last = head("GET /health HTTP/1.1", "Connection: close")
    c.sendall(one + head("GET /v1/models HTTP/1.1") + one + last)
    answer = read_all(c)
    places = [answer.find(text) for text in (b'"tokens"', b'"object":"list"', b'"status":"ok"')]
    check("pipelined requests in order", answer.count(b"HTTP/1.1 200") == 4 and places == sorted(places), answer)
with s.connect() as c:
    c.sendall(one + b"GET / HTTP/1.1\nHost: x\r\n\r\n")
    answer = read_all(c)
    check("a bad head behind a good one", [answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 400")] == [1, 1], answer)
total = 9 << 20
with s.connect() as c:
    c.sendall(head(P, "Transfer-Encoding: chunked"))
    sent, answer = 0, b""
    try:
        while sent < total:
            c.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
            sent += 65536
    except OSError:
        pass
    answer = read_all(c)
    check("chunks past the limit", sent < total or parse(answer)[0] == 413, (sent, answer))

# --- many bodies at once: together they may be 128 times as long as one ---
narrow = Server("--max-body", "65536")
part, held = b'{"prompt": "' + b"a" * 60000, []
for i in range(160):
    c = narrow.connect()
    try:
        c.sendall(head(P, "Content-Length: 65000") + part)
    except OSError:
        pass
    held.append(c)
c = narrow.connect()
c.sendall(head(P, "Content-Length: 65000") + part)
answer = read_all(c)
check("a body too many", parse(answer)[0] == 503 and b"as many bytes of bodies" in answer and b"Retry-After" in answer, answer)
for other in held + [c]:
    other.close()


def has_room():
    return parse(narrow.raw(head(P, f"Content-Length: {len(BODY)}", "Connection: close") + BODY.encode()))[0] == 200


check("there is room when they are gone", until(has_room))
narrow.stop()

# --- resets, half-closes, idlers ---
base = s.descriptors()
for i in range(50):
    c = s.connect()
    c.sendall(head(P, "Content-Length: 100")[: i + 1])
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
halves = [head(P, "Content-Length: 100") + b'{"prompt"', head(P, "Transfer-Encoding: chunked") + b"5\r\n{",
          head(P, f"Content-Length: {len(BODY)}") + BODY.encode()]
for i in range(120): # in the middle of a body, or with half a close behind all of it
    c = s.connect()
    c.sendall(halves[i % 3])
    if i % 2:
        c.shutdown(socket.SHUT_WR)
    if i % 5 == 0:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    c.close()
idle = [s.connect() for _ in range(300)]
check("300 idle connections hold up nobody", s.get("/health")[0] == 200)
for c in idle:
    c.close()
check("descriptors come back", until(lambda: s.descriptors() <= base + 4), (base, s.descriptors()))


def served(source):
    """The number of connections, as a request from this address gets it; or None."""
    with socket.create_connection(("127.0.0.1", s.port), timeout=PATIENCE, source_address=(source, 0)) as c:
        try:
            c.sendall(head("GET /metrics HTTP/1.1", "Connection: close"))
        except OSError:
            pass
        status, _, body = parse(read_all(c))
    lines = body.decode().splitlines() if status == 200 else []
    return next((float(line.split()[1]) for line in lines if line.startswith("cadenza:connections{")), None)


slow.join()
check("a slow head", parse(dripped[0])[0] == 408 and dripped[0].count(b"HTTP/1.1 ") == 1, dripped)

# All places are taken by connections that say nothing, or half a head: the oldest of them go.
silent = []
for i in range(1100):
    silent.append(s.connect())
    if i % 2:
        silent[-1].sendall(b"GET /he")
check("silent connections hold up nobody", until(lambda: served("127.0.0.1")))
for c in silent:
    c.close()
s.stop()

# --- one address leaves places to others ---
s = Server("--host", "0.0.0.0")
crowd = [s.connect() for _ in range(1100)]
n = served("127.0.0.2")
check("another address is served at once, and the crowd has its share", n and n <= 900, n)
for c in crowd:
    c.close()
s.stop()

# --- no descriptors are left: connections are closed, and the server goes on ---
s = Server(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150)))
crowd = [s.connect() for _ in range(200)]
for c in crowd:
    try:
        c.sendall(head("GET /health HTTP/1.1", "Connection: close"))
    except OSError:
        pass
answers = [read_all(c) for c in crowd]
for c in crowd:
    c.close()
check("some of too many are served", any(parse(a)[0] == 200 for a in answers if a))
check("and all of a few", until(lambda: served("127.0.0.1")))
s.stop()

# --- keys and origins ---
import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "keys")
    with open(path, "w") as f:
        f.write("# people\nsecret-one\nsecret-two\n")
    s = Server("--api-key-file", path, "--cors-origin", "https://chat.example", "--allowed-host", "box")
    for key, status in ((None, 401), ("secret-three", 401), ("secret-one", 200), ("secret-two", 200), ("", 401)):
        headers = [] if key is None else [("Authorization", "bearer " + key)]
        got, answered, text = s.ask("GET", "/v1/models", None, headers)
        check(f"key {key}", got == status, text)
        check(f"key {key}: challenge", (got == 401) == ("www-authenticate" in answered), answered)
    check("health needs no key", s.ask("GET", "/health")[0] == 200)
    with s.connect() as c: # refused before the body
        c.sendall(head("POST /v1/completions HTTP/1.1", "Content-Length: 1000000", "Expect: 100-continue"))
        check("no 100 before the key", c.recv(100).startswith(b"HTTP/1.1 401"))
    two = head("GET /v1/models HTTP/1.1", "Authorization: Bearer secret-one", "Authorization: Bearer secret-one")
    check("two keys", parse(s.raw(two))[0] == 400)
    got, answered, _ = s.ask("GET", "/health", None, [("Origin", "https://chat.example")])
    check("an allowed origin", answered.get("access-control-allow-origin") == "https://chat.example", answered)
    got, answered, _ = s.ask("GET", "/health", None, [("Origin", "https://evil.example")])
    check("no echo of an origin", "access-control-allow-origin" not in answered, answered)
    got, answered, _ = s.ask("OPTIONS", "/v1/completions", None, [("Origin", "https://chat.example")])
    check("preflight", got == 204 and "POST" in answered.get("access-control-allow-methods", ""), answered)
    check("an allowed host", parse(s.raw(b"GET /health HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n"))[0] == 200)
    s.stop()
    check("no key in the log", not any("secret" in line for line in s.lines), s.lines)
done()
