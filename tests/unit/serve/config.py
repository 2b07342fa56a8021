"""config.py - settings of the server: its file, several models, a socket in the file system, and reading all of it again."""
import json
import os
import signal
import socket
import subprocess
import tempfile

from server import MODEL, PROGRAM, Server, check, done, parse, run, until, write_hold

folder = tempfile.mkdtemp()


def write(name, text):
    with open(os.path.join(folder, name), "w") as f:
        f.write(text)
    return os.path.join(folder, name)


def said(text):
    """What a file is refused with, or None."""
    path = write("wrong.ini", text)
    out = subprocess.run([PROGRAM, "serve", "--config", path, "--check-config"], capture_output=True, text=True)
    check(f"status of {text!r}", out.returncode == (0 if "nothing is wrong" in out.stderr else 2) or "no such" in out.stderr, out)
    return out.stderr


# --- what a file may say ---
check("a good one", "nothing is wrong" in said(f"[server]\nport = 0\ncors_origin = https://a.example, https://b.example\n"
                                               f"open_metrics = yes\nmax_body = 1M\n[model a]\npath = {MODEL}\nidle = 5\n"))
check("a scheduler's section", "nothing is wrong" in said("[server]\nport = 0\nscheduler = priority\n[priority]\nageing = 5\nprompt_rows = 8\n"))
check("further models", "nothing is wrong" in said(f"[server]\nport = 0\n[models]\nreward = {MODEL}\n"))
for text, sentence in [
    ("[server]\nprt = 1\n", "wrong.ini:2:1: [server] has no key 'prt'; did you mean 'port'?"),
    ("[server]\nport = 70000\n", "wrong.ini:2:8: port = 70000: expected a number from 0 to 65535"),
    ("[server]\nopen_metrics = 7\n", "expected yes or no"),
    ("[server]\nlog_format = xml\n", "expected text or json"),
    ("[server]\nlisten = 8080\n", "expected ADDRESS:PORT or unix:PATH"),
    ("[server]\nlisten = a:1\nport = 2\n", "say one of the two"),
    ("[server]\nscheduler = prioritys\n", "no scheduler 'prioritys': did you mean 'priority'?"),
    ("[server]\nscheduler = priority\n[priority]\nagein = 1\n", "no parameter 'agein': did you mean 'ageing'?"),
    ("[server]\nscheduler = priority\n[priority]\nageing = soon\n", "scheduler priority: ageing: "),
    ("[server]\nscheduler = priority\n[fair_share]\nanswer_weight = 1\n", "[fair_share] is no section of a server's file"),
    ("[servr]\nport = 1\n", "[servr] is no section of a server's file"),
    ("[model a]\nload = start\n", "[model a] has no path"),
    ("[model a]\npath = x\nlaod = start\n", "[model NAME] has no key 'laod'; did you mean 'load'?"),
    ("[model a]\npath = x\nload = never\n", "expected first_use or start"),
    ("[model a]\npath = no-such-model-here\n", "no-such-model-here"),
    ("[server]\napi_key_file = no-such-file\n", "no-such-file"),
]:
    found = said(text)
    check(f"{text!r} is refused by name", sentence in found, found)

# --- two models by name, the second loaded with its first request, and let go when it is idle ---
os.mkdir(os.path.join(folder, "pipelines"))
write("pipelines/story.ini", "[generation]\ndo_sample = no\nmax_new_tokens = 4\n")
write_hold(os.path.join(folder, "pipelines"))
write("keys", "first\n")
write("pipelines/ask.lua", """return cadenza.strategy { id = "org.example.ask", version = "1.0.0", one_row = true, greedy = true,
  run = function(ctx) ctx:result("n", ctx:facts("reward").n_vocab); ctx:append(5) end }
""")
write("pipelines/ask.ini", "[pipeline]\nstrategy = lua:ask.lua\n[generation]\nmax_new_tokens = 1\n")
write("pipelines/own.ini", f"[pipeline]\nuse = ask.ini\n[models]\nreward = {MODEL}\n")
os.symlink(MODEL, os.path.join(folder, "judge"))
good = f"""[server]
listen = 127.0.0.1:0
api_key_file = keys
pipelines = pipelines
cors_origin = https://a.example
open_metrics = yes
[models]
reward = judge
[model one]
path = {MODEL}
load = start
[model two]
path = {MODEL}
idle = 1
"""
path = write("server.ini", good)
key = [("Authorization", "Bearer first")]
s = Server("--config", path, model=None)


def cards():
    return {m["id"]: m["loaded"] for m in s.get("/v1/models", key)[1]["data"]}


ASK = {"prompt": "river (noun): a", "temperature": 0, "max_tokens": 8}
check("the file's models", cards() == {"one": True, "two": False}, cards())
check("keys of the file", s.post("/v1/completions", ASK)[0] == 401)
check("open metrics", s.ask("GET", "/metrics")[0] == 200)
status, one = s.post("/v1/completions", ASK, key)
check("the first model is the default", status == 200 and one["model"] == "one", one)
for name in ["ask", "own"]:
    status, judged = s.post("/v1/completions", {"prompt": "river", "cadenza": {"pipeline": name}}, key)
    check(f"{name} has the model that a file names", status == 200 and judged["cadenza"]["results"][0]["n"] > 0, judged)
held = s.hold("first", model="two") # it stays while somebody uses it
check("the second is loaded", cards() == {"one": True, "two": True}, cards())
status, two = s.post("/v1/completions", {**ASK, "model": "two"}, key)
check("and answers", status == 200 and two["model"] == "two", two)
check("both are the same model", one["choices"] == two["choices"], (one, two))
held.close()
status, answer = s.post("/v1/completions", {**ASK, "model": "three"}, key)
check("another is 404", status == 404 and answer["error"]["code"] == "model_not_found", answer)
check("its card", s.get("/v1/models/two", key)[1]["id"] == "two")
status, tokens = s.post("/tokenize", {"prompt": "river", "model": "two"}, key)
check("tokens of the second", status == 200 and tokens["count"] > 0, tokens)
check("it is let go when idle", until(lambda: not cards()["two"]))
status, again = s.post("/v1/completions", {**ASK, "model": "two"}, key)
check("and comes back", status == 200 and again["choices"] == two["choices"], again)


# --- read again ---
def hang_up():
    n = len(s.lines)
    s.process.send_signal(signal.SIGHUP)
    return until(lambda: next((line for line in s.lines[n:] if "read again" in line or "goes on serving" in line), ""))


write("keys", "second\n")
write("pipelines/other.ini", "[generation]\nmax_new_tokens = 3\n")
write("server.ini", good.replace("https://a.example", "https://b.example") + f"[model three]\npath = {MODEL}\n")
told = hang_up()
check("a good file is taken", "read again" in told, told)
check("the old key is out", s.post("/v1/completions", ASK, key)[0] == 401)
key = [("Authorization", "Bearer second")]
check("the new one is in", s.post("/v1/completions", ASK, key)[0] == 200)
check("a new model", s.post("/v1/completions", {**ASK, "model": "three"}, key)[0] == 200)
check("a new pipeline", {p["id"] for p in s.get("/v1/pipelines", key)[1]["data"]} == {"story", "other", "hold", "ask", "own"})
origin = lambda name: s.ask("POST", "/v1/completions", ASK, [*key, ("Origin", name)])
check("a new origin", origin("https://b.example")[1].get("access-control-allow-origin") == "https://b.example")
check("the old origin", origin("https://a.example")[0] == 403)
status, answer = s.post("/v1/completions", {**ASK, "max_tokens": None, "cadenza": {"pipeline": "other"}}, key)
check("the new pipeline answers", status == 200 and answer["usage"]["completion_tokens"] == 3, answer)

for wrong, why in [(good + "[model three]\n", "has no path"), ("[server]\nno_key = 1\n", "no_key"),
                   (good.replace("keys", "nowhere"), "nowhere")]:
    write("server.ini", wrong)
    told = hang_up()
    check("a bad file is told", "goes on serving" in told and why in told, told)
    check("and the old one serves", s.post("/v1/completions", {**ASK, "model": "three"}, key)[0] == 200)
    status, answer = s.post("/v1/pipelines/reload", {}, key)
    check("the route says why, too", status == 400 and why in answer["error"]["message"], answer)
write("server.ini", good)
write("pipelines/other.ini", "[generation]\nmax_new_tokns = 3\n")
status, answer = s.post("/v1/pipelines/reload", {}, key)
check("a bad pipeline", status == 400 and "max_new_tokns" in answer["error"]["message"], answer)
check("its old one serves", s.post("/v1/completions", {**ASK, "cadenza": {"pipeline": "other"}}, key)[0] == 200)
os.remove(os.path.join(folder, "pipelines/other.ini"))
status, answer = s.post("/v1/pipelines/reload", {}, key)
check("the route reads all", status == 200, answer)
check("a model that is gone", s.post("/v1/completions", {**ASK, "model": "three"}, key)[0] == 404)
status, answer = s.post("/v1/completions", {**ASK, "cadenza": {"pipeline": "other"}}, key)
check("a pipeline that is gone", status == 404 or status == 400, answer)
s.stop()

# --- the command line wins ---
write("server.ini", good.replace("127.0.0.1:0", "127.0.0.1:1"))
s = Server("--config", path, "--cors-origin", "https://c.example")
check("MODEL is the first", list(cards())[0] == os.path.basename(MODEL.rstrip("/")), cards())
check("an option in place of the file's", origin("https://c.example")[0] == 200 and origin("https://a.example")[0] == 403)
s.stop()

# --- a model that cannot be loaded says so, and the others serve ---
os.mkdir(os.path.join(folder, "broken"))
write("broken/config.json", "{}")
write("server.ini", "[server]\nport = 0\n[model one]\npath = " + MODEL + "\n[model two]\npath = broken\n")
s = Server("--config", path, model=None, port=None)
key = []
status, answer = s.post("/v1/completions", {**ASK, "model": "two"})
check("a broken model is 503", status == 503 and "path" not in answer["error"]["message"], answer)
check("the log says why", s.has_said("model two: "), s.lines)
check("another answers", s.post("/v1/completions", ASK)[0] == 200)
s.stop()

# --- prompts that wait are counted in tokens ---
s = Server("--max-queue-tokens", "50", "--max-running", "1", "--pipelines", os.path.join(folder, "pipelines"))
held = [s.hold(prompt="river " * 60)] # there is a place for it
check("what has a place waits for nothing", s.metrics()["num_prompt_tokens_waiting"] == 0, s.metrics())
held.append(s.hold(prompt="river " * 60)) # and none for this one
check("its tokens are counted", s.metrics()["num_prompt_tokens_waiting"] > 50, s.metrics())
status, headers, text = s.ask("POST", "/v1/completions", ASK)
check("too many tokens wait", status == 429 and "retry-after" in headers and b"tokens of prompts" in text, (status, headers, text))
for c in held:
    c.close()
s.quiet()
check("they wait no more", s.metrics()["num_prompt_tokens_waiting"] == 0, s.metrics())
check("and all is as before", s.post("/v1/completions", ASK)[0] == 200)
s.stop()

# --- a socket in the file system ---
at = os.path.join(folder, "socket")
left = socket.socket(socket.AF_UNIX)
left.bind(at) # nobody listens there: a left-over
left.close()
s = Server("--listen", "unix:" + at, port=None, unix=at)
check("it answers there", s.post("/v1/completions", ASK)[0] == 200)
status, _, _ = parse(s.raw(b"GET /health HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n"))
check("any Host is good there", status == 200, status)
second = subprocess.run([PROGRAM, "serve", MODEL, "--listen", "unix:" + at], capture_output=True, text=True)
check("a second one is refused", second.returncode == 1 and "cannot listen" in second.stderr, second)
s.stop()
check("the file is gone", not os.path.exists(at))

# --- control vectors of a model's own ---
make = [PROGRAM, "steer", "make", write("glad.txt", "A glad day.\nWe laughed.\n"), write("sad.txt", "A sad night.\nWe cried.\n"), MODEL]
made = subprocess.run([*make, "-o", os.path.join(folder, "glad.gguf")], capture_output=True, text=True)
check("a control vector", made.returncode == 0, made)
BODY = {"prompt": "cat (noun): a", "max_tokens": 12, "temperature": 0, "return_token_ids": True}
alone = {name: run("-p", BODY["prompt"], "-n", "12", "-s", "do_sample=no", *more)["ids"] for name, more in (
    ("plain", ()), ("glad", ("--control-vector-scaled", os.path.join(folder, "glad.gguf:6"), "--control-vector-layer-range", "2:3")),
    ("other", ("--control-vector", os.path.join(folder, "glad.gguf"), "--control-vector-scaled", os.path.join(folder, "glad.gguf:-9"))))}
check("they change what is said", len({str(ids) for ids in alone.values()}) == 3, alone)


def steered(glad):
    return write("steered.ini", f"[server]\nport = 0\n[model plain]\npath = {MODEL}\n[model glad]\npath = {MODEL}\n{glad}")


def tokens(model):
    return s.post("/v1/completions", {**BODY, "model": model})[1]["choices"][0]["token_ids"]


s = Server("--config", steered("control_vector_scaled = glad.gguf:6\ncontrol_vector_layer_range = 2:3\n"))
check("a model without", tokens("plain") == alone["plain"])
check("and with its own", tokens("glad") == alone["glad"])
steered(f"control_vector = {folder}/glad.gguf\ncontrol_vector_scaled = glad.gguf:-9\n")
status, answer = s.post("/v1/pipelines/reload", {})
check("read again", status == 200, answer)
check("others from now on", tokens("glad") == alone["other"] and tokens("plain") == alone["plain"])
steered("control_vector = no-such.gguf\n")
check("read again", s.post("/v1/pipelines/reload", {})[0] == 200)
status, answer = s.post("/v1/completions", {**BODY, "model": "glad"})
check("a file that is not there", status == 503 and "no-such" not in str(answer) and s.has_said("no-such.gguf"), answer)
s.stop()
s = Server("--config", steered("control_vector_scaled = glad.gguf:6\ncontrol_vector_layer_range = 2:3\n"),
           "--control-vector", os.path.join(folder, "glad.gguf"), "--control-vector-scaled", os.path.join(folder, "glad.gguf:-9"))
check("the command line's are of models without their own", tokens("plain") == alone["other"] and tokens("glad") == alone["glad"])
s.stop()
found = said("[model a]\npath = x\ncontrol_vectr = a.gguf\n")
check("a name that is wrong", "did you mean 'control_vector'?" in found, found)
done()
