"""saved.py - prefix caches in files: a server that is started again finds what the one before has computed, to the same answers; files
of other models, and damaged ones, are said and left; names of /v1/kv; two models; keys; a server that is killed while it writes."""
import json
import os
import random
import resource
import signal
import stat
import subprocess
import tempfile
import threading
import time

from server import MODEL, PATIENCE, PROGRAM, Server, check, done, until

PROMPT = [i * i * 31 % 251 + 3 for i in range(150)]
BODY = {"prompt": PROMPT, "temperature": 0, "max_tokens": 9, "logprobs": 3, "return_token_ids": True}
FOLDER = tempfile.mkdtemp()
FILE = os.path.join(FOLDER, "cache.kv")


def ask(s, body, key=None):
    """(tokens found, what was answered)"""
    headers = [("Authorization", f"Bearer {key}")] if key else []
    status, answer = s.post("/v1/completions", body, headers)
    check(f"status of {list(body)}", status == 200, answer)
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"]


def call(s, method, name="", body=None, key=None):
    headers = [("Authorization", f"Bearer {key}")] if key else []
    status, _, text = s.ask(method, "/v1/kv" + name, body, headers)
    return status, json.loads(text)


def said(s, text):
    return any(text in line for line in s.lines)


def names(s, key=None):
    return [row["id"] for row in call(s, "GET", key=key)[1]["data"]]


# --- a file, over three lives of a server ---
s = Server("--kv-save", FILE)
wanted = ask(s, BODY)[1]
ask(s, {**BODY, "cache_salt": "a"})
s.stop()
check("it says what it keeps", said(s, f"8 blocks of its prefix cache are kept in {FILE}"), s.lines)
check("nobody else reads it", stat.S_IMODE(os.stat(FILE).st_mode) == 0o600)
for life in range(2):
    s = Server("--kv-save", FILE)
    check("it says what it read", said(s, f"blocks of its prefix cache were read from {FILE}"), s.lines)
    for body, n in ((BODY, 128), ({**BODY, "cache_salt": "a"}, 128), ({**BODY, "cache_salt": "b"}, 0 if life == 0 else 128)):
        found, answer = ask(s, body)
        check(f"life {life} finds {n}", found == n, found)
        check(f"life {life} answers the same", answer == wanted, (answer, wanted))
    check("hits are counted", s.metrics()["prefix_cache_hits_total"] == 256 + 128 * life)
    s.stop()
with open(FILE, "rb") as f:
    good = f.read()

# --- what is damaged, or not this model's ---
def refuses(bytes_, why, *options):
    with open(FILE, "wb") as f:
        f.write(bytes_)
    s = Server("--kv-save", FILE, *options)
    check(f"it says: {why}", said(s, why) and said(s, "; nothing of it is used"), s.lines)
    check("it begins with nothing", ask(s, BODY)[0] == 0)
    check("and goes on", ask(s, BODY)[0] == 128)
    s.stop()
    check("the next one is whole", said(s, "are kept in"), s.lines)


refuses(good[:-1], "has been cut")
refuses(good[:100] + bytes([good[100] ^ 1]) + good[101:], "its head is damaged")
refuses(good[:5000] + bytes([good[5000] ^ 64]) + good[5001:], "block 0 of")
refuses(b"no such thing", "is no file of a prefix cache")
refuses(b"", "is no file of a prefix cache")
refuses(good, "keys and values in F32, expected F16", "--kv-cache", "f16")
refuses(good, "other types of weights or activations", "--quantize", "q8_0")


def fails(*options):
    out = subprocess.run([PROGRAM, "serve", MODEL, "--port", "0", *options], capture_output=True, text=True, timeout=PATIENCE)
    return out.returncode != 0 and out.stderr
check("a folder that is not there", "its folder" in (fails("--kv-save", "/no/such/folder/file") or ""))
check("a file as a folder", "is no folder" in (fails("--kv-folder", FILE) or ""))
with open(FILE, "wb") as f:
    f.write(good)
s = Server("--kv-save", FILE, "--prefix-cache", "off")
check("no cache to keep", said(s, "there is no prefix cache to keep: it is off"), s.lines)
s.stop()
with open(FILE, "rb") as f:
    check("and the file stays", f.read() == good)

# --- a disk that is full ---
s = Server("--kv-save", FILE, restore_signals=False, # Python ignores SIGXFSZ
           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
ask(s, {**BODY, "cache_salt": "new"})
s.process.send_signal(signal.SIGTERM)
check("it ends with an error", s.process.wait(PATIENCE) == 1)
s.reader.join(PATIENCE)
check("it says why", said(s, f"{FILE}: cannot be written: File too large"), s.lines)
with open(FILE, "rb") as f:
    check("the old file stays", f.read() == good)
check("nothing is left beside it", os.listdir(FOLDER) == ["cache.kv"], os.listdir(FOLDER))

# --- names ---
NAMED = tempfile.mkdtemp()
s = Server("--kv-folder", NAMED)
check("none yet", call(s, "GET") == (200, {"object": "list", "data": []}))
check("nothing is cached yet", call(s, "PUT", "/all", {})[1]["blocks"] == 0)
status, answer = call(s, "PUT", "/one", {"prompt": PROMPT})
check("a prompt is read and kept", status == 200 and answer["blocks"] == 4 and answer["tokens"] == 128 and answer["id"] == "one", answer)
check("it is in the cache", ask(s, BODY) == (128, wanted))
text = "river (noun): a natural stream of water. " * 20
status, answer = call(s, "PUT", "/text", {"prompt": text, "cache_salt": "s"})
check("a text under a salt", status == 200 and answer["blocks"] > 0, answer)
check("all that is cached without a salt", call(s, "PUT", "/all", {})[1]["blocks"] == 4)
check("names", names(s) == ["all", "one", "text"], names(s))
check("the folder has files of these names", sorted(os.listdir(NAMED)) == ["all.kv", "one.kv", "text.kv"])
for name in ("/a%2Fb", "/..", "/.hidden", "/a b", "/" + "x" * 65, "/%00", "/@a", "/a/b"):
    check(f"no name: {name}", call(s, "PUT", name.replace(" ", "%20"), {})[0] == 400, name)
check("none of them made a file", len(os.listdir(NAMED)) == 3)
for body, param in (({"prompt": PROMPT[:31]}, "prompt"), ({"prompt": [1, -1] * 40}, "prompt"), ({"prompt": 5}, "prompt"),
                    ({"cache_salt": 5}, "cache_salt"), ({"prompt": [5] * 5000}, "prompt"), ({"prompts": PROMPT}, "prompts")):
    status, answer = call(s, "PUT", "/bad", body)
    check(f"refused: {param}", status == 400 and answer["error"]["param"] == param, answer)
check("no JSON", [call(s, "PUT", "/bad", b"{")[0] for _ in range(2)] == [400, 400])
check("another model", call(s, "PUT", "/bad", {"model": "nobody"})[0] in (200, 404))
check("a method that is not taken", call(s, "POST", "/one", {})[0] == 405)
check("a PUT elsewhere", s.ask("PUT", "/v1/completions", {})[0] == 405)
check("removed", call(s, "DELETE", "/all") == (200, {"id": "all", "object": "kv", "deleted": True}))
check("not there any more", call(s, "DELETE", "/all")[0] == 404)
call(s, "DELETE", "/bad")
check("names after that", names(s) == ["one", "text"], names(s))
s.stop()
s = Server("--kv-folder", NAMED)
check("a named one is read at start", ask(s, BODY) == (128, wanted))
check("not under another salt", ask(s, {"prompt": text, "max_tokens": 1})[0] == 0)
check("under its own", ask(s, {"prompt": text, "max_tokens": 1, "cache_salt": "s"})[0] > 0)
s.stop()
s = Server()
check("no folder", call(s, "GET")[0] == 404 and call(s, "PUT", "/a", {})[0] == 404 and call(s, "DELETE", "/a")[0] == 404)
s.stop()

# --- keys have names and blocks of their own ---
KEYS, OWNED = os.path.join(FOLDER, "keys"), tempfile.mkdtemp()
with open(KEYS, "w") as f:
    f.write("one-key\nother-key\n")
with_keys = ("--api-key-file", KEYS, "--kv-folder", OWNED, "--kv-save", os.path.join(FOLDER, "keyed.kv"))
s = Server(*with_keys)
check("a key is asked for", call(s, "GET")[0] == 401)
check("one keeps", call(s, "PUT", "/mine", {"prompt": PROMPT}, "one-key")[1]["blocks"] == 4)
check("the other sees nothing", names(s, "other-key") == [] and call(s, "DELETE", "/mine", key="other-key")[0] == 404)
check("and has that name too", call(s, "PUT", "/mine", {}, "other-key")[1]["blocks"] == 0)
check("each its own", names(s, "one-key") == ["mine"] == names(s, "other-key") and len(os.listdir(OWNED)) == 2)
owner = max(os.listdir(OWNED), key=lambda f: os.path.getsize(os.path.join(OWNED, f))).partition("-")[0]
for i in range(255):
    open(os.path.join(OWNED, f"{owner}-more{i}.kv"), "w").close()
status, answer = call(s, "PUT", "/more", {}, "one-key")
check("its names are counted", status == 400 and "256 prefix caches already" in answer["error"]["message"], answer)
check("not with the other's", call(s, "PUT", "/more", {}, "other-key")[0] == 200)
for i in range(255):
    os.remove(os.path.join(OWNED, f"{owner}-more{i}.kv"))
s.stop()
s = Server(*with_keys)
check("the key finds it", ask(s, BODY, "one-key") == (128, wanted))
check("the other does not", ask(s, BODY, "other-key") == (0, wanted))
s.stop()
for where in [os.path.join(OWNED, f) for f in os.listdir(OWNED)] + [os.path.join(FOLDER, "keyed.kv")]:
    with open(where, "rb") as f:
        inside = f.read() + where.encode()
    check("no key is in a file", b"one-key" not in inside and b"other-key" not in inside)

# --- two models, the second let go and loaded again ---
INI, MANY = os.path.join(FOLDER, "server.ini"), os.path.join(FOLDER, "many.kv")
with open(INI, "w") as f:
    f.write(f"[server]\nlisten = 127.0.0.1:0\nkv_save = many.kv\n[model a]\npath = {MODEL}\nload = start\n[model b/c]\npath = {MODEL}\nidle = 1\n")
s = Server("--config", INI, model=None)
check("each computes", [ask(s, {**BODY, "model": m}) for m in ("a", "b/c", "a")] == [(0, wanted), (0, wanted), (128, wanted)])
until(lambda: said(s, "model b/c: 5 blocks of its prefix cache are kept in") or said(s, "model b/c: 4 blocks of its prefix cache are kept in"))
check("it is kept before it goes", os.path.exists(MANY + ".b%2Fc"), os.listdir(FOLDER))
until(lambda: not [m for m in s.get("/v1/models")[1]["data"] if m["id"] == "b/c"][0]["loaded"])
check("and found when it comes back", ask(s, {**BODY, "model": "b/c"}) == (128, wanted), s.lines)
s.stop()
s = Server("--config", INI, model=None)
check("both find theirs", [ask(s, {**BODY, "model": m}) for m in ("a", "b/c")] == [(128, wanted), (128, wanted)], s.lines)
s.stop()

# --- killed at any moment: the old file or the new one ---
KILLED = os.path.join(FOLDER, "killed.kv")
dice, sizes, takes = random.Random(1), set(), 0.5
for turn in range(16):
    s = Server("--kv-save", KILLED)
    check(f"turn {turn}: never damaged", not said(s, "nothing of it is used"), s.lines)
    found = ask(s, BODY)[0]
    check(f"turn {turn}: nothing or all", found == (128 if os.path.exists(KILLED) else 0), found)
    ask(s, {"prompt": [(j * 7 + turn * 13) % 241 + 3 for j in range(400)], "max_tokens": 1})
    start = time.monotonic()
    s.process.send_signal(signal.SIGTERM)
    try:
        s.process.wait(PATIENCE if turn % 4 == 0 else dice.uniform(0, 1.2) * takes)
        takes = time.monotonic() - start
    except subprocess.TimeoutExpired:
        s.process.kill()
        s.process.wait()
    s.reader.join(PATIENCE)
    sizes.add(os.path.getsize(KILLED) if os.path.exists(KILLED) else 0)
check("some were written", len(sizes) > 2, sizes)

# --- kept while others are answered ---
s = Server("--kv-folder", NAMED)
stop = threading.Event()
answers = []


def talk():
    while not stop.is_set():
        answers.append(ask(s, BODY)[1] == wanted)


threads = [threading.Thread(target=talk) for _ in range(3)]
for t in threads:
    t.start()
i = 0
while i < 20 or len(answers) <= 3: # until some have been answered beside it
    status, answer = call(s, "PUT", "/beside", {"prompt": [(j * 7 + i) % 241 + 3 for j in range(300)]})
    check("kept beside others", status == 200 and answer["blocks"] == 9, answer)
    i += 1
stop.set()
for t in threads:
    t.join()
check("the others' answers are the same", all(answers) and len(answers) > 3, len(answers))
s.stop()
done()
