"""list.py - the caches of this machine: what `cadenza list` shows of them, and the models run by their names."""
import json
import os
import subprocess

from hub import MODEL, PROGRAM, Home, Hub, check, done, draft, sha256

hub = Hub()
home = Home(hub)
gguf = os.path.join(home.path, "draft.gguf")
subprocess.run([PROGRAM, "model", "convert", MODEL + "-draft", gguf], check=True, capture_output=True)
with open(gguf, "rb") as f:
    GGUF = f.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def put_snapshot(name, commit, files, ref=True):
    folder = home.folder(name)
    for path, data in files.items():
        put(os.path.join(folder, "snapshots", commit, path), data)
    if ref:
        put(os.path.join(folder, "refs", "main"), commit.encode())


def put_ollama(where, digest=None):
    put(os.path.join(home.path, ".ollama/models/manifests", where), json.dumps({"layers": [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64, "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest or "sha256:" + sha256(GGUF), "size": len(GGUF)},
    ]}).encode())


put(os.path.join(home.path, ".ollama/models/blobs/sha256-" + sha256(GGUF)), GGUF)
for where in ("registry.ollama.ai/library/river/latest", "registry.ollama.ai/library/river/1b", "registry.ollama.ai/me/river/q8",
              "hf.co/org/stream-GGUF/Q8_0"):
    put_ollama(where)
put_ollama("registry.ollama.ai/library/evil/latest", "sha256:../../../../" + "e" * 52)
put_ollama("registry.ollama.ai/library/gone/latest", "sha256:" + "1" * 64)
put(os.path.join(home.path, ".cache/llama.cpp/org_brook-GGUF_brook-Q8_0.gguf"), GGUF)
put(os.path.join(home.path, ".cache/llama.cpp/org_brook-GGUF_brook-F16.gguf"), GGUF)
put_snapshot("org/whole", "a" * 40, draft())
put_snapshot("org/part", "b" * 40, {k: v for k, v in draft().items() if k != "model.safetensors"})
put_snapshot("org/ggufs", "c" * 40, {"x-Q8_0.gguf": GGUF, "x-F16.gguf": GGUF})
put_snapshot("only", "d" * 40, draft(), ref=False)
put_snapshot("org/two", "1" * 40, draft(), ref=False)
put_snapshot("org/two", "2" * 40, draft(), ref=False)
home.env.update(HF_HUB_OFFLINE="1", CADENZA_MODELS=os.path.join(home.path, "shelf"))
os.makedirs(home.env["CADENZA_MODELS"])
os.symlink(MODEL, os.path.join(home.env["CADENZA_MODELS"], "words"))

status, out, err = home.run("list", "--json")
rows = json.loads(out)
seen = {(r["id"], r["format"], r["where"]) for r in rows}
want = {("(the shipped model)", "safetensors", "shipped"), ("words", "safetensors", "$CADENZA_MODELS"),
        ("org/whole", "safetensors", "Hugging Face"), ("org/part", "incomplete", "Hugging Face"), ("only", "safetensors", "Hugging Face"),
        ("org/ggufs:x-Q8_0.gguf", "gguf", "Hugging Face"), ("org/ggufs:x-F16.gguf", "gguf", "Hugging Face"),
        ("river:latest", "gguf", "Ollama"), ("river:1b", "gguf", "Ollama"), ("me/river:q8", "gguf", "Ollama"),
        ("hf.co/org/stream-GGUF:Q8_0", "gguf", "Ollama"),
        ("org_brook-GGUF_brook-Q8_0", "gguf", "llama.cpp"), ("org_brook-GGUF_brook-F16", "gguf", "llama.cpp")}
check("list --json", status == 0 and not err and seen == want, (seen ^ want, err))
check("sizes", {r["bytes"] for r in rows if r["format"] == "gguf"} == {len(GGUF)}, rows)
check("the folder's size", [r["bytes"] for r in rows if r["id"] == "org/whole"] == [sum(map(len, draft().values()))])
status, text, _ = home.run("list")
check("list", status == 0 and all(r["id"] in text and r["path"] in text for r in rows) and len(text.splitlines()) == len(rows), text)
check("model list", home.run("model", "list")[1] == text)

ask = ("--no-do-sample", "-n", "8", "-p", "river (noun): a")
plain = home.run("run", gguf, *ask)
check("the file itself", plain[0] == 0, plain)
for r in rows:
    if r["format"] in ("gguf",):
        check(f"run {r['id']}", home.run("run", r["id"], *ask) == plain, home.run("run", r["id"], *ask))
for name in ("river", "hf.co/org/stream-GGUF:Q8_0", "org/stream-GGUF:Q8_0", "org/brook-GGUF:Q8_0", "org/brook-GGUF:f16",
             "org_brook-GGUF_brook-Q8_0.gguf", "org/ggufs:q8_0", "org/whole", "only"):
    check(f"run {name}", home.run("run", name, *ask)[1] == plain[1], home.run("run", name, *ask))
for name, said in [("org/brook-GGUF", "is neither here nor in a cache"), ("evil", "no such model folder"), ("gone", "no such model folder"),
                   ("river:2b", "no such model"), ("../river", "no such model"), ("org/two", "is neither here nor in a cache"),
                   ("org/ggufs", "holds 2 models and is none"), ("org/part", "model.safetensors")]:
    status, _, err = home.run("run", name, *ask)
    check(f"run {name} is refused", status == 1 and said in err and err.count("\n") == 1, err)
check("a tokenizer of a part", home.run("tokenize", "org/part", "-p", "river")[0] == 0)
check("nobody was asked", not hub.seen)
home.drop()
done()
