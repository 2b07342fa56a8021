"""service.py - the log, the line at a terminal, and what a service manager hands in and hears."""
import json
import os
import pty
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

from server import MODEL, PATIENCE, PROGRAM, Server, check, done, start

folder = tempfile.mkdtemp()
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def told(s, request_id):
    """The line that a request leaves; it comes when its answer has left."""
    return s.has_said(request_id)


# --- a line a request ---
os.mkdir(os.path.join(folder, "pipelines"))
with open(os.path.join(folder, "pipelines", "story.ini"), "w") as f:
    f.write("[generation]\ndo_sample = no\nmax_new_tokens = 4\n")
with open(os.path.join(folder, "pipelines", "watched.ini"), "w") as f:
    f.write("[pipeline]\nobservers = org.cadenza.trace\n[generation]\ndo_sample = no\nmax_new_tokens = 2\n")
options = ["--pipelines", os.path.join(folder, "pipelines")]
s = Server(*options)
s.ask("POST", "/v1/completions", {"prompt": "a secret bird", "max_tokens": 3}, [("X-Request-Id", "first"), ("traceparent", TRACE)])
line = told(s, "first")
check("a line of a request", re.search(
    r"first POST /v1/completions 200 model=\S+ pipeline=- strategy=\S+ prompt=\d+ new=3 first=[\d.]+s total=[\d.]+s end=\w+ traceparent=" + TRACE,
    line), line)
check("no prompt in it", "secret" not in line and "bird" not in line, line)
s.post("/v1/completions", {"prompt": "a", "cadenza": {"pipeline": "story"}}, [("X-Request-Id", "second")])
check("its pipeline by name", " pipeline=story " in told(s, "second"), s.lines)
s.ask("POST", "/v1/completions", {"prompt": "a", "cadenza": {"pipeline": "watched"}}, [("X-Request-Id", "watched-1"), ("traceparent", TRACE)])
seen = told(s, "request watched-1")
check("observers know the request", seen.endswith(f"request watched-1, traceparent {TRACE}\n"), s.lines)
wrong = [TRACE.upper(), TRACE[:-1], TRACE + "0", TRACE + "-0", "ff" + TRACE[2:], "00-" + "0" * 32 + TRACE[35:], TRACE[:36] + "0" * 16 + "-01", "x" * 300]
for i, trace in enumerate(wrong):
    s.ask("GET", "/health", None, [("X-Request-Id", f"wrong{i}"), ("traceparent", trace)])
    check(f"{trace[:80]} is no trace", "traceparent" not in told(s, f"wrong{i}"), s.lines)
s.ask("GET", "/health", None, [("X-Request-Id", "later"), ("traceparent", "01" + TRACE[2:] + "-more")])
check("a later version's beginning is one", told(s, "later").endswith("traceparent=01" + TRACE[2:] + "\n"), s.lines)
s.ask("POST", "/v1/completions", {"prompt": "a", "cadenza": {"pipeline": "no\u0007such"}}, [("X-Request-Id", "third")])
check("a name that is not there is not told", "such" not in told(s, "third"), s.lines)
s.process.send_signal(signal.SIGTERM)
check("it ends", s.process.wait(PATIENCE) == 0)

s = Server(*options, "--log-format", "json")
s.ask("POST", "/v1/completions", {"prompt": "a secret bird", "max_tokens": 3}, [("X-Request-Id", "first"), ("traceparent", TRACE)])
told(s, '"first"')
s.ask("GET", "/nowhere", None, [("X-Request-Id", "nowhere")])
told(s, '"nowhere"')
s.process.send_signal(signal.SIGHUP)
told(s, "read again")
s.process.send_signal(signal.SIGTERM)
s.process.wait(PATIENCE)
s.reader.join(PATIENCE)
read = []
for line in s.lines:
    if "WARNING: ASan doesn't fully support makecontext" in line: # AddressSanitizer's own, once a process
        continue
    try:
        read.append(json.loads(line))
    except ValueError:
        check("every line is JSON", False, line)
check("each has its time", all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", r["time"]) for r in read), read)
first = next(r for r in read if r.get("id") == "first")
check("what a request was", {k: first[k] for k in ("method", "path", "status", "new_tokens", "pipeline", "traceparent")} == {
    "method": "POST", "path": "/v1/completions", "status": 200, "new_tokens": 3, "pipeline": None, "traceparent": TRACE}, first)
check("and what it took", 0 < first["first_token_s"] <= first["total_s"] and first["prompt_tokens"] > 0, first)
check("a path that is not there", next(r for r in read if r.get("id") == "nowhere")["path"] is None, read)
check("remarks stand among them", [m for m in ("without keys", "read again", "stopped") if not any(m in r.get("message", "") for r in read)] == [], read)

# --- a terminal: one line that tells the load, and lines of the log above it ---
ours, theirs = pty.openpty()
p = start([PROGRAM, "serve", MODEL, "--port", "0"], stderr=theirs, stdout=subprocess.DEVNULL)
os.close(theirs)
seen, port = "", 0
until = time.monotonic() + PATIENCE
while time.monotonic() < until and "tokens/s" not in seen:
    seen += os.read(ours, 4096).decode()
m = re.search(r":(\d+), with", seen)
check("the load at a terminal", re.search(r"\r0 running, 0 waiting, 0\.0 tokens/s, [1-9]\d* MiB\x1b\[K", seen), seen)
if m:
    body = b'{"prompt": "a", "max_tokens": 3}'
    with socket.create_connection(("127.0.0.1", int(m.group(1)))) as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: live\r\n"
                  b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        while c.recv(4096):
            pass
    while time.monotonic() < until and not re.search(r"live POST.*\n(.|\n)*tokens/s", seen):
        seen += os.read(ours, 4096).decode()
    check("a line of the log takes its place", re.search(r"\r\x1b\[Kcadenza: live POST", seen), seen)
p.send_signal(signal.SIGTERM)


def read_rest():
    try:
        while os.read(ours, 4096):
            pass
    except OSError:
        pass


threading.Thread(target=read_rest, daemon=True).start()
check("it ends at a terminal too", p.wait(PATIENCE) == 0)

# --- a service manager: a socket that listens already, and what it hears ---
path = os.path.join(folder, "notify")
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(path)
manager.settimeout(PATIENCE)


def handed(listener, n=1, **more):
    """A server with this socket as descriptor 3. Between fork and exec nothing but system calls."""
    def hand_in():
        os.dup2(listener.fileno(), 3)
        os.environ["LISTEN_PID"] = str(os.getpid())
        os.execve(PROGRAM, [PROGRAM, "serve", MODEL], {**os.environ, "LISTEN_FDS": str(n), "NOTIFY_SOCKET": path, **more})
    return hand_in


class Handed(Server):
    def __init__(self, listener, **more):
        super().__init__(preexec_fn=handed(listener, **more), pass_fds=[3] if listener.fileno() == 3 else [])


listener = socket.create_server(("127.0.0.1", 0))
s = Handed(listener, WATCHDOG_USEC="3000000")
check("it serves on the socket that was handed in", s.port == listener.getsockname()[1], s.lines)
check("it says when it is ready", manager.recv(1000) == b"READY=1")
check("it answers there", s.post("/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200)
check("and that it is alive", manager.recv(1000) == b"WATCHDOG=1")


def next_but_alive():
    while True:
        word = manager.recv(1000)
        if word != b"WATCHDOG=1":
            return word


s.process.send_signal(signal.SIGHUP)
word = next_but_alive()
check("that it reads its settings again", re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", word), word)
check("and has", next_but_alive() == b"READY=1")
s.process.send_signal(signal.SIGTERM)
check("that it stops", next_but_alive() == b"STOPPING=1")
check("it stops", s.process.wait(PATIENCE) == 0)
late = socket.create_connection(listener.getsockname(), timeout=PATIENCE)
check("the manager's socket still listens", late.fileno() >= 0)
late.close()

place = os.path.join(folder, "handed.sock")
files = socket.socket(socket.AF_UNIX)
files.bind(place)
files.listen()
s = Server(preexec_fn=handed(files), unix=place)
check("a socket file that was handed in", f" on unix:{place}," in "".join(s.lines) and s.get("/health")[0] == 200, s.lines)
s.process.send_signal(signal.SIGTERM)
check("it ends", s.process.wait(PATIENCE) == 0)
check("its file stays", os.path.exists(place))
told_of_two = subprocess.run([PROGRAM], preexec_fn=handed(listener, n=2), capture_output=True, text=True)
check("two sockets are refused", told_of_two.returncode == 2 and "expected one socket" in told_of_two.stderr, told_of_two.stderr)
with open(os.path.join(folder, "file"), "w") as f:
    no_socket = subprocess.run([PROGRAM], preexec_fn=handed(f), capture_output=True, text=True)
check("what is no socket is refused", no_socket.returncode == 2 and "no socket that listens" in no_socket.stderr, no_socket.stderr)
done()
