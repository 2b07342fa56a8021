"""proxies.py - the files of deploy/: nginx and HAProxy run as they say in front of servers, where they are installed; the others
are read and held against what the server has."""
import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from server import PATIENCE, Server, check, done, read_metrics, start, until, write_hold

DEPLOY = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "deploy")
folder = tempfile.mkdtemp()


def text_of(name):
    with open(os.path.join(DEPLOY, name)) as f:
        return f.read()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Front(Server):
    """A proxy's port, asked as a server is."""

    def __init__(self, port):
        self.port, self.unix = port, None


def wait_for(port, process):
    def answers():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
            return True
        except OSError:
            return False

    until(lambda: process.poll() is not None or answers())
    return process.poll() is None and answers()


def ask_without_end(front, path, **body):
    """A connection whose stream begins and never ends."""
    data = json.dumps({"stream": True, "ignore_eos": True, "cadenza": {"pipeline": "hold"}, **body}).encode()
    c = front.connect()
    c.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return c


def aborted(servers):
    """Requests whose client went away. Not disconnects: a proxy that asks for health may hang up early, too."""
    samples = [x for s in servers for x in read_metrics(s.ask("GET", "/metrics")[2].decode())[0]]
    return sum(v for name, labels, v in samples if name == "cadenza:request_success_total" and labels["finished_reason"] == "abort")


def first_event(c):
    """What has come by the first event."""
    held = b""
    while b"data: " not in held:
        piece = c.recv(65536)
        if not piece:
            break
        held += piece
    return held


def try_front(what, port, process, servers):
    atexit.register(process.terminate)
    front = Front(port)
    check(f"{what} answers", front.get("/health")[0] == 200)
    answer = front.post("/v1/completions", {"prompt": "river (noun): a", "max_tokens": 5, "temperature": 0})
    alone = servers[0].post("/v1/completions", {"prompt": "river (noun): a", "max_tokens": 5, "temperature": 0})
    check(f"{what}: an answer is the server's", answer[0] == 200 and answer[1]["choices"] == alone[1]["choices"], answer)
    events, ended = front.stream("/v1/completions", {"prompt": "a", "max_tokens": 200, "min_tokens": 200, "n": 8, "stream": True})
    check(f"{what}: a stream comes to its end", ended and len(events) > 200, events[-1])
    with ask_without_end(front, "/v1/chat/completions", messages=[{"role": "user", "content": "a"}]) as c:
        held = first_event(c)
        check(f"{what}: events come as they are made", b'"role":"assistant"' in held, held)
    for s in servers:
        s.quiet()
    check(f"{what}: a refusal passes", front.post("/v1/completions", {"prompt": 5})[0] == 400)
    check(f"{what}: metrics are not for everybody", front.ask("GET", "/metrics")[0] == 403)
    check(f"{what}: the page passes", front.ask("GET", "/")[0] == 200)
    # A peer that goes away is noticed through the proxy.
    before = aborted(servers)
    with ask_without_end(front, "/v1/completions", prompt="a", max_tokens=400):
        until(lambda: any(s.load() for s in servers))
    after = [s.quiet() for s in servers]
    gone = aborted(servers) - before
    check(f"{what}: a peer that goes away frees its rows", gone == 1 and
          all(m["num_requests_running"] == 0 for m in after), gone)
    # One server drains: the other has the requests that come now.
    servers[0].process.send_signal(signal.SIGTERM)
    check(f"{what}: a server stops", servers[0].process.wait(PATIENCE) == 0)
    check(f"{what}: the other answers", until(lambda: all(
        front.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})[0] == 200 for _ in range(10))))
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)
    servers[1].stop()


def find(name):
    return os.environ.get(name.upper()) or shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


write_hold(folder)
pipelines = ("--pipelines", folder)
nginx, haproxy = find("nginx"), find("haproxy")
if nginx:
    servers, port = [Server(*pipelines), Server(*pipelines)], free_port()
    conf = text_of("nginx.conf")
    check("nginx.conf has one server", conf.count("server 127.0.0.1:8080 max_fails=1 fail_timeout=5s;") == 1 and "listen 127.0.0.1:8000;" in conf)
    conf = conf.replace("server 127.0.0.1:8080 max_fails=1 fail_timeout=5s;", "".join(f"server 127.0.0.1:{s.port} max_fails=1 fail_timeout=5s;" for s in servers))
    conf = conf.replace("listen 127.0.0.1:8000;", f"listen 127.0.0.1:{port};")
    path = os.path.join(folder, "nginx.conf")
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(path, "w") as f:
        f.write(f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; events {{}}\nhttp {{ access_log off; {places}\n{conf}\n}}\n")
    p = start([nginx, "-p", folder, "-e", os.path.join(folder, "nginx.log"), "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check("nginx starts", wait_for(port, p), open(os.path.join(folder, "nginx.log")).read())
    try_front("nginx", port, p, servers)
else:
    print("skipped: nginx in front: there is no nginx")
if haproxy:
    servers, port = [Server(*pipelines), Server(*pipelines)], free_port()
    conf = text_of("haproxy.cfg")
    for name, s in zip(("one 127.0.0.1:8080", "two 127.0.0.1:8081"), servers):
        check(f"haproxy.cfg has server {name}", conf.count(f"server {name}") == 1)
        conf = conf.replace(f"server {name}", f"server {name.split()[0]} 127.0.0.1:{s.port}")
    conf = conf.replace("bind 127.0.0.1:8000", f"bind 127.0.0.1:{port}")
    path = os.path.join(folder, "haproxy.cfg")
    with open(path, "w") as f:
        f.write(conf)
    told = subprocess.run([haproxy, "-c", "-f", path], capture_output=True, text=True)
    check("haproxy.cfg is whole", told.returncode == 0 and "WARNING" not in told.stderr.upper(), told.stderr)
    p = start([haproxy, "-db", "-f", path], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    check("HAProxy starts", wait_for(port, p))
    try_front("HAProxy", port, p, servers)
else:
    print("skipped: HAProxy in front: there is no haproxy")

# --- files that only say things ---
served = {"/health", "/ready"}
ours = set(re.findall(r"^\s*(?:; )?(\w+)\s*=", text_of("server.ini").split("[model")[0], re.M))
with open(os.path.join(DEPLOY, os.pardir, "docs", "reference", "settings.md")) as f:
    known = f.read()
check("server.ini has settings that there are", ours and all(f"`{name}` in `[server]`" in known for name in ours), ours)
with open(os.path.join(folder, "server.ini"), "w") as f:
    f.write(text_of("server.ini").replace("/var/lib/cadenza/model", sys.argv[2]))
s = Server("--config", os.path.join(folder, "server.ini"), "--listen", "127.0.0.1:0", model=None)
check("server.ini serves", s.get("/v1/models")[1]["data"][0]["id"] == "main", s.lines)
s.stop()
for name in ("Dockerfile", "kubernetes.yaml"):
    options = re.findall(r"--[a-z][a-z-]+", "\n".join(re.findall(r"^(?:CMD.*|.*args:.*|\s+--.*)$", text_of(name), re.M)))
    check(f"{name} has options that there are", options and all(f"`{o}" in known for o in options), options)
paths = re.findall(r"path: (/[a-z]+)", text_of("kubernetes.yaml"))
check("probes ask what is there", sorted(set(p for p in paths if p in served)) == sorted(served), paths)
check("HAProxy's two files differ in addresses alone", re.sub(r"#.*|bind.*|server (one|two) .*", "", text_of("haproxy.cfg")) ==
      re.sub(r"#.*|bind.*|server (one|two) .*", "", text_of("haproxy-compose.cfg")))
unit = text_of("cadenza.service")
check("the unit waits longer than the server", "Type=notify" in unit and
      int(re.search(r"TimeoutStopSec=(\d+)", unit).group(1)) > int(re.search(r"drain_timeout = (\d+)", text_of("server.ini")).group(1)))
try:
    import yaml
    for name in ("compose.yaml", "kubernetes.yaml", "envoy.yaml"):
        check(f"{name} can be read", len(list(yaml.safe_load_all(text_of(name)))) > 0)
except ImportError:
    print("skipped: reading of YAML: there is no yaml for this python")
done()
