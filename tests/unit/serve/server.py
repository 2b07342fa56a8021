"""server.py - the program on a free port, and requests to it over plain sockets. Python's standard library alone.

However a test ends, by an exception or a signal too, the servers that it started end with it."""
import atexit
import inspect
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from checks import check, done  # the latter for those who import this

PROGRAM, MODEL = sys.argv[1], sys.argv[2]
started = []


@atexit.register
def end_all():
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)) # as an exception, so that what is registered runs


def start(words, **more):
    process = subprocess.Popen(words, **more)
    started.append(process)
    return process


PATIENCE = 280 # seconds in which whatever comes at all has come, however busy the machine is; less than a test may take, so that it
# says where it waited


def until(true):
    """Waits until a function gives something true, or for PATIENCE, which is a failure; what it gave last."""
    end = time.monotonic() + PATIENCE
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.02)
    caller = inspect.currentframe()
    while caller.f_code.co_filename == __file__ and caller.f_back:
        caller = caller.f_back
    check(f"what is waited for at {os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno} comes", found)
    return found


class Speaker:
    """A copy of the model with a chat template of one's own, and pipelines in which it says what is wanted, token for token.
    renamed: of some special tokens, other texts."""

    def __init__(self, folder, template, renamed=None):
        self.model, self.pipelines = os.path.join(folder, "speaker"), os.path.join(folder, "said")
        os.makedirs(self.pipelines)
        shutil.copytree(MODEL, self.model)
        os.chmod(self.model, 0o755)
        for name in ("chat_template.jinja", "tokenizer_config.json"):
            os.chmod(os.path.join(self.model, name), 0o644)
        path = os.path.join(self.model, "tokenizer_config.json")
        with open(path) as f:
            config = json.load(f)
        config.pop("chat_template", None)
        with open(path, "w") as f:
            json.dump({k: (renamed or {}).get(v, v) if isinstance(v, str) else v for k, v in config.items()}, f)
        with open(os.path.join(self.model, "chat_template.jinja"), "w") as f:
            f.write(template)
        if renamed:
            self.rename(renamed)
        self.base = Server(model=self.model)

    def rename(self, texts):
        path = os.path.join(self.model, "tokenizer.json")
        os.chmod(path, 0o644)
        with open(path, encoding="utf-8") as f:
            tokenizer = json.load(f)
        for token in tokenizer["added_tokens"]:
            token["content"] = texts.get(token["content"], token["content"])
        vocab = tokenizer["model"]["vocab"]
        tokenizer["model"]["vocab"] = {texts.get(text, text): i for text, i in vocab.items()}
        with open(path, "w", encoding="utf-8") as f:
            json.dump(tokenizer, f)

    def say(self, name, text):
        ids = self.base.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"]
        eos = self.base.get("/tokenizer_info")[1]["eos_token_id"]
        with open(os.path.join(self.pipelines, name + ".lua"), "w") as f:
            f.write(f"local said = {{{', '.join(map(str, ids))}}}\nreturn cadenza.processor {{\n"
                    f"  id = 'org.example.{name}', version = '1.0.0', needs_ids = true,\n"
                    f"  apply = function(p, ids, row, ctx) row[said[#ids - ctx.prompt_len + 1] or {eos}] = 1e6 end,\n}}\n")
        with open(os.path.join(self.pipelines, name + ".ini"), "w") as f:
            f.write(f"[pipeline]\nprocessors = lua:{name}.lua\n[generation]\ndo_sample = false\nmax_new_tokens = 300\n")

    def serve(self, *options):
        self.base.stop()
        return Server("--pipelines", self.pipelines, *options, model=self.model)


def write_hold(folder):
    """The pipeline `hold` in a folder of pipelines: a request of it computes until its client goes away. Of 64 passes one keeps its
    token, so that the request costs more and more, up to 256 of them."""
    with open(os.path.join(folder, "hold.lua"), "w") as f:
        f.write("""return cadenza.strategy { id = "test.hold", version = "1.0.0", one_row = true, rewinds = true,
  run = function(ctx)
    local n = 0
    while true do
      ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1)))
      n = n + 1
      if n % 64 ~= 0 or n > 64 * 256 then ctx:rewind(1) end
    end
  end }
""")
    with open(os.path.join(folder, "hold.ini"), "w") as f:
        # A script's usual budgets end it: on a quick machine after twenty seconds.
        f.write("[pipeline]\nstrategy = lua:hold.lua\n[generation]\ndo_sample = false\n"
                "[lua:hold.lua]\nbudget_instructions = 1000000000000\nbudget_ms = 3600000\n")


def post(body, key=None):
    """The bytes of a request for a completion, alone on its connection."""
    data = json.dumps(body).encode()
    who = f"Authorization: Bearer {key}\r\n" if key else ""
    return (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{who}"
            f"Content-Length: {len(data)}\r\n\r\n").encode() + data


class Server:
    def __init__(self, *options, model=MODEL, port="0", unix=None, **more):
        self.lines, self.deaf, self.unix = [], False, unix
        words = [model] if model else []
        words += ["--port", port] if port and "--config" not in options else []
        self.process = start(
            [PROGRAM, "serve", *words, *options], **more, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        ready = threading.Event()

        def read():
            for line in self.process.stderr:
                self.lines.append(line)
                if self.deaf:
                    break
                if "serve: " in line and (" on http" in line or " on unix" in line):
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, daemon=True)
        self.reader.start()
        ready.wait()
        found = [re.search(r":(\d+), with", line) for line in self.lines]
        self.port = next((int(m.group(1)) for m in found if m), 0)
        if not self.port and not unix:
            print("the server did not start:", "".join(self.lines))
            sys.exit(1)

    def hang_up(self):
        """Nobody reads the log from here on."""
        self.deaf = True
        self.get("/health")
        self.reader.join(PATIENCE)
        self.process.stderr.close()

    def connect(self, timeout=PATIENCE):
        if self.unix:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(self.unix)
            return s
        s = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def raw(self, data, timeout=PATIENCE):
        """All that comes back until the server closes."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            return read_all(s)

    def ask(self, method, path, body=None, headers=(), timeout=PATIENCE):
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
        for name, _, value in read_metrics(text.decode())[0]:
            name = name.removeprefix("cadenza:")
            out[name] = out.get(name, 0) + value
        return out

    def hold(self, key=None, **body):
        """A connection whose request of `write_hold` is taken, and runs or waits for its turn until it is closed. Nothing else may
        begin or end meanwhile. `cadenza` may name another pipeline that never ends, such as one whose `use` is hold.ini."""
        body = {"prompt": "a", "max_tokens": 400, "ignore_eos": True, "cadenza": {"pipeline": "hold"}, **body}
        more = len(body["prompt"]) if isinstance(body["prompt"], list) else 1
        before = self.load()
        c = self.connect()
        c.sendall(post(body, key))
        until(lambda: self.load() == before + more)
        return c

    def load(self):
        """Requests that run or wait."""
        m = self.metrics()
        return m["num_requests_running"] + m["num_requests_waiting"]

    def quiet(self):
        """Waits until nothing runs; the last metrics."""
        until(lambda: self.load() == 0 and self.metrics()["kv_blocks_used"] == 0)
        return self.metrics()

    def has_said(self, text):
        """Whether the log has it, perhaps after a while; the line."""
        return until(lambda: next((line for line in list(self.lines) if text in line), ""))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        check("it ends with status 0", status == 0, status)
        check("no sanitizer speaks", not any("ERROR: " in line or "runtime error" in line or "ThreadSanitizer" in line for line in self.lines),
              "".join(self.lines)[-3000:])


def read_metrics(text):
    """Prometheus' text format: ([(name, labels, value)], {name: kind}, {name: help}). What is not of that form raises."""
    samples, kinds, helps = [], {}, {}
    for line in text.splitlines():
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            {"TYPE": kinds, "HELP": helps}[word][name] = rest
            continue
        m = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)', line)
        if not m:
            raise ValueError(f"no line of metrics: {line}")
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m.group(2) or ""))
        samples.append((m.group(1), labels, float(m.group(3))))
    return samples, kinds, helps


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
