"""server.py - the program on a free port, and requests to it over plain sockets. Python's standard library alone."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM, MODEL = sys.argv[1], sys.argv[2]
failures = []


checks = 0


def check(what, good, found=""):
    global checks
    checks += 1
    if not good:
        failures.append(what)
        print(f"FAILED {what}: {str(found)[:600]}", flush=True)


def done():
    print(f"{checks} checks, {len(failures)} failed")
    sys.exit(1 if failures else 0)


class Server:
    def __init__(self, *options):
        self.lines, self.deaf = [], False
        self.process = subprocess.Popen(
            [PROGRAM, "serve", MODEL, "--port", "0", *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        started = threading.Event()

        def read():
            for line in self.process.stderr:
                self.lines.append(line)
                if self.deaf:
                    break
                if "serve: " in line and " on http" in line:
                    started.set()
            started.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        started.wait()
        found = [re.search(r":(\d+), with", line) for line in self.lines]
        self.port = next((int(m.group(1)) for m in found if m), 0)
        if not self.port:
            print("the server did not start:", "".join(self.lines))
            sys.exit(1)

    def hang_up(self):
        """Nobody reads the log from here on."""
        self.deaf = True
        self.get("/health")
        self.reader.join(60)
        self.process.stderr.close()

    def connect(self, timeout=60):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def raw(self, data, timeout=60):
        """All that comes back until the server closes."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            return read_all(s)

    def ask(self, method, path, body=None, headers=(), timeout=300):
        """(status, headers, body) of one request on its own connection."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        for name, value in headers:
            head += f"{name}: {value}\r\n"
        return parse(self.raw(head.encode() + b"\r\n" + data, timeout))

    def post(self, path, body, headers=()):
        status, _, text = self.ask("POST", path, body, headers)
        return status, json.loads(text)

    def get(self, path, headers=()):
        status, _, text = self.ask("GET", path, None, headers)
        return status, json.loads(text)

    def stream(self, path, body):
        """(events, whether [DONE] came)"""
        status, headers, text = self.ask("POST", path, body)
        check(f"{path} streams", status == 200 and headers.get("content-type") == "text/event-stream", (status, text))
        events, ended = [], False
        for block in text.decode().split("\n\n"):
            if block.startswith("data: [DONE]"):
                ended = True
            elif block.startswith("data: "):
                check("an event is one line", "\n" not in block, block)
                events.append(json.loads(block[6:]))
            elif block:
                check("what is no event is a comment", block.startswith(":"), block)
        return events, ended

    def metrics(self):
        _, _, text = self.ask("GET", "/metrics")
        out = {}
        for line in text.decode().splitlines():
            m = re.match(r"cadenza:(\w+)\{[^}]*\} (\S+)$", line)
            if m:
                out[m.group(1)] = out.get(m.group(1), 0) + float(m.group(2))
        return out

    def quiet(self):
        """Waits until nothing runs; the last metrics."""
        for _ in range(3000):
            m = self.metrics()
            if m["num_requests_running"] == 0 and m["num_requests_waiting"] == 0 and m["kv_blocks_used"] == 0:
                return m
            time.sleep(0.02)
        return m

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(120)
        self.reader.join(10)
        check("it ends with status 0", status == 0, status)
        check("no sanitizer speaks", not any("ERROR: " in line or "runtime error" in line for line in self.lines),
              "".join(self.lines)[-3000:])


def read_all(s):
    out = b""
    try:
        while True:
            piece = s.recv(65536)
            if not piece:
                return out
            out += piece
    except ConnectionResetError:
        return out


def parse(raw):
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if lines[0].startswith("HTTP/1.1 100"):
        return parse(body)
    status = int(lines[0].split()[1]) if lines[0].startswith("HTTP/1.") else 0
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        out = b""
        while body:
            size, _, rest = body.partition(b"\r\n")
            n = int(size, 16)
            if n == 0:
                break
            out += rest[:n]
            body = rest[n + 2:]
        body = out
    return status, headers, body


def run(*arguments):
    """`cadenza run --json` of the same: its answer as an object."""
    out = subprocess.run([PROGRAM, "run", MODEL, "--json", *arguments], capture_output=True, text=True)
    if out.returncode:
        print("cadenza run", arguments, out.stderr)
        sys.exit(1)
    return json.loads(out.stdout)


def run_request(document):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(document, f)
        f.flush()
        return run("--request", f.name)
