"""hub.py - a hub of models on two free ports, the second the host that large files are sent on to; and the program that asks
it. Python's standard library alone. What a request gets can be bent: `rules` are functions (request) -> Answer or None."""
import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from checks import check, done, read_terminal  # for those who import this

PROGRAM, MODEL = map(os.path.abspath, sys.argv[1:3])


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_name(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Answer:
    """status alone: an error. cut: bytes after which the connection ends. data: other bytes. ranges: whether it has them.
    length: whether Content-Length is told. wait: an event before the bytes behind the first `cut`. endless: an error's body has
    no end."""

    def __init__(self, status=None, cut=None, data=None, ranges=True, length=True, headers=(), wait=None, etag=None, shift=0, endless=False):
        self.endless = endless
        self.status, self.cut, self.data, self.ranges, self.length = status, cut, data, ranges, length
        self.headers, self.wait, self.etag, self.shift = list(headers), wait, etag, shift


class Request:
    def __init__(self, where, path, headers):
        self.where, self.path, self.headers = where, path, headers

    @property
    def of_file(self):
        return "/resolve/" in self.path or self.where == "store"


class Hub:
    def __init__(self):
        self.repos, self.store, self.rules, self.seen = {}, {}, [], []
        self.lock = threading.Lock()
        self.hub, self.other = self._serve("hub"), self._serve("store")
        self.url = f"http://127.0.0.1:{self.hub.server_address[1]}"

    def _serve(self, where):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *a):
                pass

            def do_GET(self):
                path = re.sub(r"^http://[^/]*", "", self.path)  # as a proxy is asked
                request = Request(where, path, self.headers)
                with hub.lock:
                    hub.seen.append(request)
                bent = next((a for a in (r(request) for r in hub.rules) if a), Answer())
                try:
                    hub.answer(self, request, bent)
                except (BrokenPipeError, ConnectionResetError):
                    pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *a: None  # who is killed hangs up
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def add(self, name, files, large=(), revision="main", listed=None):
        """A revision of a repository: files by name; those in large have a SHA-256 and lie at the other host."""
        commit = hashlib.sha1((name + revision + repr(sorted(files))).encode()).hexdigest()
        siblings = []
        for path, data in files.items():
            item = {"rfilename": path, "size": len(data), "blobId": git_name(data)}
            if path in large:
                item["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
                self.store[sha256(data)] = data
            siblings.append(item)
        listed = listed(siblings) if listed else siblings
        repo = self.repos.setdefault(name, {})
        repo[revision] = repo[commit] = (commit, files, set(large), listed)
        return commit

    def send(self, handler, status, data=b"", headers=()):
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def answer(self, handler, request, bent):
        if bent.endless:
            handler.send_response(bent.status)
            handler.end_headers()
            while True:  # until nobody reads it any more
                handler.wfile.write(b"x" * 65536)
        if bent.status:
            return self.send(handler, bent.status, b'{"error": "..."}', bent.headers)
        url = urllib.parse.urlsplit(request.path)
        found = re.fullmatch(r"/api/models/(.+?)/revision/([^/]+)", url.path)
        if found:
            repo = self.repos.get(found[1])
            at = (repo or {}).get(urllib.parse.unquote(found[2]))
            if not at:
                code = "RevisionNotFound" if repo else "RepoNotFound"
                return self.send(handler, 404, b"{}", [("X-Error-Code", code)])
            text = json.dumps({"id": found[1], "sha": at[0], "siblings": at[3]}).encode()
            return self.send(handler, 200, bent.data if bent.data is not None else text)
        found = re.fullmatch(r"/(.+?/.+?)/resolve/([^/]+)/(.+)", url.path)
        if found:
            path = urllib.parse.unquote(found[3])
            _, files, large, _ = self.repos[found[1]][found[2]]
            if path in large:
                to = f"http://127.0.0.1:{self.other.server_address[1]}/{sha256(files[path])}?key=very-secret"
                return self.send(handler, 302, b"Found", [("Location", to), ("X-Linked-Size", "1")])
            return self.file(handler, request, files[path], git_name(files[path]), bent)
        name = url.path[1:]
        return self.file(handler, request, self.store[name], name, bent)

    def file(self, handler, request, data, etag, bent):
        data = bent.data if bent.data is not None else data
        etag = f'"{bent.etag or etag}"'
        asked = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        condition = request.headers.get("If-Range")
        start = int(asked[1]) if asked and bent.ranges and condition in (None, etag) else None
        if start is not None and start >= len(data):
            return self.send(handler, 416, b"", [("Content-Range", f"bytes */{len(data)}")])
        handler.send_response(206 if start is not None else 200)
        if start is not None:
            handler.send_header("Content-Range", f"bytes {start + bent.shift}-{len(data) - 1}/{len(data)}")
        rest = data[start or 0:]
        handler.send_header("ETag", etag)
        if bent.length:
            handler.send_header("Content-Length", str(len(rest)))
        if not bent.length or bent.cut is not None:
            handler.send_header("Connection", "close")
            handler.close_connection = True
        handler.end_headers()
        handler.wfile.write(rest if bent.cut is None else rest[:bent.cut])
        handler.wfile.flush()
        if bent.wait:
            bent.wait.wait(60)
            handler.wfile.write(rest[bent.cut:])

    def files_asked(self, part=""):
        return [r for r in self.seen if r.of_file and part in r.path]

    def bend(self, *rules):
        self.rules = list(rules)
        self.seen.clear()


class Home:
    """An empty home, and the program in it."""

    def __init__(self, hub, **env):
        self.path = tempfile.mkdtemp()
        self.hub = os.path.join(self.path, "hf", "hub")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "OLLAMA", "LLAMA", "XDG", "CADENZA_MODELS"))
                    and not k.lower().endswith("_proxy")}
        self.env.update(HOME=self.path, HF_HOME=os.path.join(self.path, "hf"), HF_ENDPOINT=hub.url, **env)

    def start(self, *args, **more):
        return subprocess.Popen([PROGRAM, *args], env=self.env, cwd=self.path, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **more)

    def run(self, *args, **more):
        p = self.start(*args, **more)
        out, err = p.communicate(timeout=300)
        return p.returncode, out, re.sub(r"==\d+==WARNING: ASan doesn't fully support makecontext.*\n", "", err)

    def folder(self, name):
        return os.path.join(self.hub, "models--" + name.replace("/", "--"))

    def blob(self, name, data, large):
        return os.path.join(self.folder(name), "blobs", sha256(data) if large else git_name(data))

    def is_whole(self, name, data, large):
        path = self.blob(name, data, large)
        if not os.path.exists(path) or os.path.exists(path + ".incomplete"):
            return False
        with open(path, "rb") as f:
            return f.read() == data

    def drop(self):
        shutil.rmtree(self.path)


def draft():
    """The small model's files, by name."""
    folder = MODEL + "-draft"
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}
