"""pull.py - `cadenza pull` against a hub that cuts, lies, sends on and refuses: what lies in the cache afterwards is whole or
not there."""
import os
import pty
import re
import resource
import select
import signal
import subprocess
import tempfile
import threading
import time

from hub import PROGRAM, Answer, Home, Hub, check, done, draft, git_name, read_terminal, sha256

hub = Hub()
FILES = dict(draft(), **{"pytorch_model.bin": b"pickle", "model.onnx": b"onnx", "modeling_x.py": b"import os",
                         "original/consolidated.safetensors": b"again", ".gitattributes": b"*"})
WEIGHTS = FILES["model.safetensors"]
TAKEN = {"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
         "tokenizer_config.json"}
COMMIT = hub.add("org/draft", FILES, large=["model.safetensors"])

# --- the whole of a model, in the layout that huggingface_hub has ---
home = Home(hub, HF_TOKEN="hf_very_own_token")
status, out, err = home.run("pull", "org/draft")
folder = os.path.join(home.folder("org/draft"), "snapshots", COMMIT)
check("pulled", status == 0 and out.strip() == folder, (status, out, err))
check("what is taken", set(os.listdir(folder)) == TAKEN, os.listdir(folder))
for name in TAKEN:
    link, data = os.path.join(folder, name), FILES[name]
    want = "../../blobs/" + (sha256(data) if name == "model.safetensors" else git_name(data))
    check(f"{name} is a link", os.readlink(link) == want, os.readlink(link))
    check(f"{name} is whole", open(link, "rb").read() == data)
with open(os.path.join(home.folder("org/draft"), "refs", "main")) as f:
    check("what main is", f.read() == COMMIT)
check("one line of what is to come, no bar in a pipe", err.count("\n") == 1 and "1.8 MiB in 6 files" in err and "\r" not in err, err)
check("no file is asked for twice", len(hub.files_asked()) == 7, [r.path for r in hub.seen])  # one of them sent on
check("nothing that could run is asked for", not any(p in r.path for r in hub.seen for p in (".bin", ".py", ".onnx", "consolidated")))
check("the hub sees the token", all(r.headers.get("Authorization") == "Bearer hf_very_own_token" for r in hub.seen if r.where == "hub"))
others = [r for r in hub.seen if r.where == "store"]
check("the other host does not", len(others) == 1 and "Authorization" not in others[0].headers)
check("nobody is told it", "very" not in out + err, err)
hub.bend()
status, out, err = home.run("pull", "org/draft")
check("a second time asks for no file", status == 0 and not hub.files_asked() and out.strip() == folder and not err, (out, err))

# --- from then on it needs no network, and a folder of its name wins ---
ask = ("--no-do-sample", "-n", "8", "-p", "river (noun): a")
plain = home.run("run", folder, *ask)
hub.bend()
check("run ORG/NAME", home.run("run", "org/draft", *ask) == plain and plain[0] == 0 and not hub.seen, plain)
check("run hf.co/ORG/NAME", home.run("run", "hf.co/org/draft", *ask) == plain)
check("--offline", home.run("run", "org/draft", "--offline", *ask) == plain)
check("pull --offline", home.run("pull", "org/draft", "--offline") == (0, folder + "\n", ""))
check("--revision", home.run("run", "org/draft", "--revision", "main", *ask) == plain)
check("a commit", home.run("run", "org/draft", "--revision", COMMIT, *ask) == plain and not hub.seen)
status, out, _ = home.run("model", "info", "org/draft")
check("model info ORG/NAME", status == 0 and "llama" in out, out)
os.makedirs(os.path.join(home.path, "org", "draft"))
status, _, err = home.run("model", "info", "org/draft")
check("a folder of that name wins", status == 1 and "org/draft/config.json" in err, err)
home.drop()

# --- run, and what needs texts alone ---
home = Home(hub)
hub.bend()
status, out, err = home.run("tokenize", "org/draft", "-p", "river")
check("tokenize ORG/NAME", status == 0 and out.startswith("["), (out, err))
check("takes the texts alone", not hub.files_asked("model.safetensors") and hub.files_asked("tokenizer.json"))
status, out, err = home.run("model", "info", "org/draft")
check("model info downloads nothing", status == 1 and not hub.files_asked("model.safetensors"), err)
status, out, err = home.run("run", "org/draft", *ask)
check("run downloads first", status == 0 and out == plain[1] and "org/draft: 1.5 MiB in 1 file to" in err, (status, out, err))
hub.bend()
status, out, err = home.run("model", "info", "org/none")
check("no info of what is not here", status == 1 and "`cadenza pull org/none` downloads it" in err and not hub.seen, err)
status, out, err = home.run("run", "org/none", "--offline", *ask)
check("offline it is an error", status == 1 and "--offline or HF_HUB_OFFLINE forbids" in err and not hub.seen, err)
home.env["HF_HUB_OFFLINE"] = "1"
status, out, err = home.run("pull", "org/none")
check("HF_HUB_OFFLINE", status == 1 and "forbids" in err and not hub.seen, err)
home.drop()

# --- cut at every byte of a small file: in one process, and from one to the next ---
TINY = bytes(range(97))
hub.add("org/tiny", {"config.json": b"{}", "model.safetensors": TINY}, large=["model.safetensors"])


def first_is_cut(at, **more):
    """The first answer with weights ends after so many bytes; later ones are as they should be."""
    left = [1]

    def rule(request):
        if request.where == "store" and left[0]:
            left[0] -= 1
            return Answer(cut=at, **more)
    return rule


for at in range(len(TINY) + 1):
    home = Home(hub)
    hub.bend(first_is_cut(at))
    status, _, err = home.run("pull", "org/tiny")
    asked = [(r.headers.get("Range"), r.headers.get("If-Range")) for r in hub.seen if r.where == "store"]
    again = [(f"bytes={at}-" if at else None, f'"{sha256(TINY)}"' if at else None)] if at < len(TINY) else []
    check(f"cut at {at}", status == 0 and home.is_whole("org/tiny", TINY, True) and asked == [(None, None)] + again, (status, err, asked))
    home.drop()
for at in list(range(0, len(TINY), 7)) + [len(TINY) - 1, len(TINY)]:
    home = Home(hub)
    refused = [False]

    def cut_then_refuse(request):
        if request.where != "store":
            return None
        if refused[0]:
            return Answer(status=403)
        refused[0] = True
        return Answer(cut=at)
    hub.bend(cut_then_refuse)
    status, _, err = home.run("pull", "org/tiny")
    part = home.blob("org/tiny", TINY, True) + ".incomplete"
    if at < len(TINY):
        check(f"left at {at}", status == 1 and os.path.getsize(part) == at and "(403)" in err, (status, err))
    hub.bend()
    status, _, err = home.run("pull", "org/tiny")
    asked = [r.headers.get("Range") for r in hub.seen if r.where == "store"]
    check(f"taken up at {at}", status == 0 and home.is_whole("org/tiny", TINY, True) and
          asked == ([f"bytes={at}-" if at else None] if at < len(TINY) else []), (status, err, asked))
    home.drop()

# --- what a server may do to who goes on ---
for what, rules, good in [
    ("another ETag by now", [first_is_cut(40, etag="old")], True),
    ("no ranges", [first_is_cut(40, ranges=False), lambda r: Answer(ranges=False)], True),
    ("no length", [lambda r: Answer(length=False) if r.of_file else None], True),
    ("no length, and cut", [first_is_cut(40, length=False)], True),
    ("another part than asked for", [first_is_cut(40), lambda r: Answer(shift=1) if r.of_file else None], False),
    ("more bytes than promised", [lambda r: Answer(data=TINY + b"x", length=False) if r.where == "store" else None], False),
    ("another length", [lambda r: Answer(data=TINY + b"x") if r.where == "store" else None], False),
    ("other bytes", [lambda r: Answer(data=TINY[::-1]) if r.where == "store" else None], False),
    ("other bytes behind a cut", [first_is_cut(40), lambda r: Answer(data=TINY[::-1]) if r.where == "store" else None], False),
]:
    home = Home(hub)
    hub.bend(*rules)
    status, out, err = home.run("pull", "org/tiny")
    check(what, (status == 0) == good and home.is_whole("org/tiny", TINY, True) == good, (status, err))
    check(what + ": one sentence", good or (err.splitlines()[-1].startswith("cadenza: model.safetensors: ") and not out), err)
    check(what + ": no model is left", good or not os.path.exists(os.path.join(home.folder("org/tiny"), "refs", "main")))
    home.drop()
home = Home(hub)
hub.bend(lambda r: Answer(data=b"[]") if r.of_file and "config.json" in r.path else None)
status, _, err = home.run("pull", "org/tiny")
check("a small file's git SHA-1", status == 1 and "its git SHA-1 is" in err and "it was not kept" in err, err)
check("nothing wrong is kept", not os.listdir(os.path.join(home.folder("org/tiny"), "blobs")))
home.drop()
for what, left in [("rubbish", b"rubbish"), ("too much", TINY * 2), ("all of it, wrong", TINY[::-1]), ("all of it", TINY)]:
    home = Home(hub)
    part = home.blob("org/tiny", TINY, True) + ".incomplete"
    os.makedirs(os.path.dirname(part))
    with open(part, "wb") as f:
        f.write(left)
    hub.bend()
    status, _, err = home.run("pull", "org/tiny")
    check(f"{what} was left", status == 0 and home.is_whole("org/tiny", TINY, True), (status, err))
    home.drop()

# --- answers that are none ---
API = "/api/models/"
for status, code, where, headers, said in [
    (401, "", API, [], "knows no such model, or shows it to some alone (401)"),
    (403, "GatedRepo", API, [], "does not give access (403)"),
    (404, "RepoNotFound", API, [], "org/tiny is not at"),
    (404, "RevisionNotFound", API, [], "the hub has no such revision (404)"),
    (404, "EntryNotFound", "/resolve/", [], "the hub has no such file any more (404)"),
    (429, "", API, [("Retry-After", "3000")], "too many requests for"),
    (403, "", "/resolve/", [], "does not give access (403)"),
    (500, "", "/resolve/", [], "is in trouble (500)"),
    (503, "", API, [], "is in trouble (503)"),
    (418, "", API, [], "answered with status 418"),
]:
    home = Home(hub)
    hub.bend(lambda r: Answer(status=status, headers=headers + [("X-Error-Code", code)]) if where in r.path else None)
    got, out, err = home.run("pull", "org/tiny")
    check(f"{status} {code} at {where}", got == 1 and said in err and err.count("\n") <= 2 and not out, (got, err))
    tries = len([r for r in hub.seen if where in r.path])
    check(f"{status} is tried again where it may help", tries == (5 if status >= 500 else 1), tries)
    home.drop()
for where in (API, "/resolve/"):
    home = Home(hub)
    hub.bend(lambda r: Answer(status=404, endless=True) if where in r.path else None)
    got, out, err = home.run("pull", "org/tiny")
    check(f"404 at {where} without end", got == 1 and "(404)" in err and err.count("\n") <= 2 and not out, (got, err))
    home.drop()
for status, headers in [(503, []), (429, [("Retry-After", "1")])]:
    home, left = Home(hub), [2]

    def in_trouble(request):
        if left[0] and API in request.path:
            left[0] -= 1
            return Answer(status=status, headers=headers)
    hub.bend(in_trouble)
    check(f"{status} twice, then well", home.run("pull", "org/tiny")[0] == 0)
    home.drop()
home = Home(hub)
for what, data in [("no JSON", b"<html>"), ("no commit", b"{}"), ("a commit that is a path", b'{"sha": "../../x", "siblings": []}')]:
    hub.bend(lambda r: Answer(data=data) if API in r.path else None)
    status, _, err = home.run("pull", "org/tiny")
    check(what, status == 1 and err.startswith("cadenza: org/tiny:"), err)
for to in ("ftp://127.0.0.1/x", "file:///etc/passwd", "/api/models/org/tiny/revision/main?again"):
    hub.bend(lambda r: Answer(status=302, headers=[("Location", to)]) if API in r.path else None)
    status, _, err = home.run("pull", "org/tiny")
    check(f"sent on to {to}", status == 1 and "root:" not in err and ("is not followed" in err or "sent on more" in err), err)
home.env["HF_TOKEN"] = "hf_a\nX-Other: 1"
status, _, err = home.run("pull", "org/tiny")
check("a token with a line in it", status == 2 and "HF_TOKEN: holds a blank" in err and "X-Other" not in err, err)
home.env["HF_TOKEN"] = ""
for endpoint in ("ftp://x", "http://user:word@127.0.0.1", "nothing at all", "http://h?x"):
    home.env["HF_ENDPOINT"] = endpoint
    status, _, err = home.run("pull", "org/tiny")
    check(f"HF_ENDPOINT={endpoint}", status == 2 and "HF_ENDPOINT: expected an address" in err and "word" not in err, err)
home.env["HF_ENDPOINT"] = "http://127.0.0.1:1"
status, _, err = home.run("pull", "org/tiny")
check("nobody answers", status == 1 and "127.0.0.1" in err, err)
home.env.update(HF_ENDPOINT="http://hub.invalid", http_proxy=hub.url)
hub.bend()
status, _, err = home.run("pull", "org/draft")
check("by a proxy", status == 0 and home.is_whole("org/draft", WEIGHTS, True) and hub.seen[0].headers.get("Host") == "hub.invalid", err)
home.drop()

# --- names that lead elsewhere ---
home = Home(hub)
hub.bend()
for name in ("../x", "org/..", "org/.x", "a/b/c", "org/na me", "org/name:../x", "org/name:/x", "/org/name", "org/", "/", "org/a--b", "-a/b",
             "org/" + "n" * 100, "org/name:", "org/n\\x"):
    status, _, err = home.run("pull", name)
    check(f"pull {name!r}", status == 2 and not hub.seen, (status, err))
for name in ("../x", "a b", "/x", "-x", "a//b", "a/../b", ".x"):
    status, _, err = home.run("pull", "org/tiny", f"--revision={name}")
    check(f"--revision {name!r}", status == 2 and not hub.seen, (status, err))


def with_evil(siblings):
    more = [{"rfilename": n, "size": 1, "blobId": git_name(b"x")} for n in ("../evil.model", "/evil.model", "a/../../evil.jinja", "x\n.model", "..")]
    return siblings + more + [{"rfilename": "no_hash.model", "size": 1}, {"rfilename": 3}, "x"]


hub.add("org/evil", {"config.json": b"{}", "model.safetensors": TINY}, listed=with_evil)
status, out, err = home.run("pull", "org/evil")
check("names of a bad hub", status == 0 and sorted(os.listdir(out.strip())) == ["config.json", "model.safetensors"], (out, err))
found = subprocess.run(["find", home.path, "-name", "*evil.*"], capture_output=True, text=True).stdout
check("nothing lies elsewhere", not found, found)
for shard in ("../x.safetensors", "/etc/passwd", "config.json", "none.safetensors"):
    hub.add("org/shards", {"config.json": b"{}", "model.safetensors.index.json": b'{"weight_map": {"a": "%s"}}' % shard.encode()})
    status, _, err = home.run("pull", "org/shards")
    check(f"an index that names {shard}", status == 1 and ("names " + shard in err or "is no name of a file" in err), err)
home.drop()

# --- shards, revisions, GGUF ---
home = Home(hub)
hub.bend()
parts = {f"weights-{i}.safetensors": bytes([i]) * 50 for i in (1, 2)}
index = b'{"weight_map": {"a": "weights-1.safetensors", "b": "weights-2.safetensors", "c": "weights-2.safetensors"}}'
hub.add("org/shards", dict(parts, **{"config.json": b"{}", "model.safetensors.index.json": index, "other.safetensors": b"x"}), large=list(parts))
status, out, err = home.run("pull", "org/shards")
check("shards", status == 0 and sorted(os.listdir(out.strip())) == ["config.json", "model.safetensors.index.json", *parts], (out, err))
tag = hub.add("org/tiny", {"config.json": b"{ }", "model.safetensors": TINY}, revision="refs/pr/1")
status, out, err = home.run("pull", "org/tiny", "--revision", "refs/pr/1")
check("a revision", status == 0 and out.strip().endswith(tag) and open(out.strip() + "/config.json").read() == "{ }", (out, err))
check("its name", open(os.path.join(home.folder("org/tiny"), "refs/refs/pr/1")).read() == tag)
status, _, err = home.run("pull", "org/tiny", "--revision", "v9")
check("a revision of none", status == 1 and "no such revision" in err, err)
ggufs = {"m-Q4_K_M.gguf": b"GGUF4", "m-Q4_K_S.gguf": b"GGUFs", "IQ4/m-IQ4_XS.gguf": b"GGUFi", "mmproj-m.gguf": b"GGUFm",
         "m-F16-00001-of-00002.gguf": b"GGUF1", "m-F16-00002-of-00002.gguf": b"GGUF2", "config.json": b"{}"}
hub.add("org/ggufs", ggufs, large=[n for n in ggufs if n.endswith("gguf")])
for wanted, taken in [("Q4_K_M", ["m-Q4_K_M.gguf"]), ("q4_k_s", ["m-Q4_K_S.gguf"]), ("m-Q4_K_M.gguf", ["m-Q4_K_M.gguf"]),
                      ("iq4_xs", ["IQ4/m-IQ4_XS.gguf"]), ("F16", ["m-F16-00001-of-00002.gguf", "m-F16-00002-of-00002.gguf"])]:
    home.drop()
    home = Home(hub)
    hub.bend()
    status, out, err = home.run("pull", "org/ggufs:" + wanted)
    check(f":{wanted}", status == 0 and out.strip().endswith(taken[0]) and os.path.exists(out.strip()) and
          [r.path.split("/resolve/")[1].split("/", 1)[1] for r in hub.seen if "/resolve/" in r.path] == taken, (out, err))
    check(f":{wanted} is here from then on", home.run("pull", "org/ggufs:" + wanted, "--offline")[1] == out)
status, _, err = home.run("pull", "org/ggufs")
check("several GGUF models", status == 2 and "say which" in err and "m-Q4_K_S.gguf" in err and "mmproj" not in err, err)
status, _, err = home.run("pull", "org/ggufs:Q9")
check("a GGUF model of none", status == 1 and 'fits "Q9"' in err and "m-Q4_K_M.gguf" in err, err)
hub.add("org/pickle", {"config.json": b"{}", "pytorch_model.bin": b"x"})
hub.bend()
status, _, err = home.run("pull", "org/pickle")
check("weights that run code", status == 1 and "may run code and are never taken" in err and not hub.files_asked(), err)

# --- room ---
hub.add("org/large", {"config.json": b"{}", "model.safetensors": b"x"}, listed=lambda s: [dict(i, size=10**15) for i in s])
hub.bend()
status, _, err = home.run("pull", "org/large")
check("no room", status == 1 and "has room for" in err and not hub.files_asked(), err)
home.drop()
home = Home(hub)
hub.bend()


def fill_up(path):
    """a file that takes whatever its disk still has"""
    f = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(f, bytes(1 << 12))
    except OSError:
        os.close(f)


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000))


status, _, err = home.run("pull", "org/draft", preexec_fn=small_files)
check("a file that may not grow", status == 1 and "File too large" in err and err.count("\n") == 2, (status, err))
status, _, err = home.run("pull", "org/draft")
check("and goes on when it may", status == 0 and home.is_whole("org/draft", WEIGHTS, True) and
      [r.headers.get("Range") for r in hub.seen if r.where == "store"] == [None, "bytes=300000-"], err)
home.drop()
disk = tempfile.mkdtemp()
if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode == 0:
    home = Home(hub)
    home.env["HF_HUB_CACHE"] = os.path.join(disk, "hub")
    hub.bend()
    status, _, err = home.run("pull", "org/draft")
    check("a disk that is too small", status == 1 and "has room for" in err and not hub.files_asked(), err)
    with open(os.path.join(disk, "filler"), "wb") as f:
        f.write(bytes(1 << 19))
    # room is looked at, and then taken by somebody else
    hub.add("org/half", {"config.json": b"{}", "model.safetensors": bytes(400000)}, large=["model.safetensors"])
    gate = threading.Event()
    hub.bend(lambda r: Answer(cut=1000, wait=gate) if r.where == "store" else None)
    p = home.start("pull", "org/half")
    while not any(r.where == "store" for r in hub.seen):
        time.sleep(0.01)
    fill_up(os.path.join(disk, "more"))
    gate.set()
    _, err = p.communicate(timeout=60)
    check("a disk that fills up", p.returncode == 1 and "No space left on device" in err, (p.returncode, err))
    os.remove(os.path.join(disk, "more"))
    os.remove(os.path.join(disk, "filler"))
    hub.bend()
    status, out, err = home.run("pull", "org/half")
    check("and goes on when there is room", status == 0 and os.path.getsize(out.strip() + "/model.safetensors") == 400000, err)
    subprocess.run(["umount", disk])
    home.drop()
os.rmdir(disk)

# --- two at once, and who is stopped ---
home = Home(hub)
gate = threading.Event()
hub.bend(lambda r: Answer(cut=1000, wait=gate) if r.where == "store" else None)
one = home.start("pull", "org/draft")
while not any(r.where == "store" for r in hub.seen):
    time.sleep(0.01)
two = home.start("pull", "org/draft")
said = two.stderr.readline() + two.stderr.readline()
gate.set()
ends = [p.communicate(timeout=60) for p in (one, two)]
check("two at once", one.returncode == two.returncode == 0 and ends[0][0] == ends[1][0], ends)
check("the second waits", "another process downloads it" in said, said)
check("one file, loaded once", home.is_whole("org/draft", WEIGHTS, True) and len([r for r in hub.seen if r.where == "store"]) == 1)
home.drop()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
    home, gate = Home(hub), threading.Event()
    hub.bend(lambda r: Answer(cut=5000, wait=gate) if r.where == "store" else None)
    p = home.start("pull", "org/draft")
    part = home.blob("org/draft", WEIGHTS, True) + ".incomplete"
    while not os.path.exists(part) or os.path.getsize(part) < 5000:
        time.sleep(0.01)
    p.send_signal(number)
    _, err = p.communicate(timeout=60)
    gate.set()
    want = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    check(f"stopped by {number.name}", p.returncode == want and os.path.getsize(part) == 5000, (p.returncode, err))
    check(f"{number.name} is told", number != signal.SIGINT or "stopped; what is there by now stays" in err, err)
    hub.bend()
    status, _, err = home.run("pull", "org/draft")
    check(f"goes on after {number.name}", status == 0 and home.is_whole("org/draft", WEIGHTS, True) and
          [r.headers.get("Range") for r in hub.seen if r.where == "store"] == ["bytes=5000-"], err)
    home.drop()

# --- a bar on a terminal ---
home = Home(hub)
hub.bend()
master, slave = pty.openpty()
p = subprocess.Popen([PROGRAM, "pull", "org/draft"], env=home.env, stdout=subprocess.PIPE, stderr=slave, stdin=subprocess.DEVNULL)
os.close(slave)
shown = read_terminal(master)
p.wait(60)
check("a bar on a terminal", p.returncode == 0 and re.search(rb"model.safetensors \[#+\.*\] +\d+ %  .* of 1.5 MiB, .*/s", shown), shown[-300:])
check("the line is gone at the end", shown.endswith(b"\r\x1b[K"), shown[-40:])
home.drop()
done()
