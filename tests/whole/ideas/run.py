#!/usr/bin/env python3
"""The ideas of examples/ideas, each by a check that knows its method: what comes out is worked out here from logits of the model,
or follows from the definition. docs/ideas.md names every file, with its lines. run.py BUILD_FOLDER"""
import datetime
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(sys.argv[1]).resolve()
IDEAS = ROOT / "examples/ideas"
MODEL, DRAFT = (str(ROOT / "models" / m) for m in ("pocket-dictionary", "pocket-dictionary-draft"))
RIVER, EOS = "river (noun): a", (4, 0)
TWICE = "river (noun): a large natural stream of water (larger than a creek). river (noun): a"
RAW = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "do_sample": True}
WORK = tempfile.TemporaryDirectory()
os.environ.setdefault("CADENZA_PLUGIN_DIR", str(BUILD / "lib/cadenza"))


def cadenza(*args, text=None):
    done = subprocess.run([str(BUILD / "bin/cadenza"), *args], input=text, capture_output=True, text=True, cwd=IDEAS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(prompt=RIVER, more=(), **settings):
    """An answer as JSON."""
    given = [f"-s{k}={v if isinstance(v, str) and v == v.strip() else json.dumps(v)}" for k, v in settings.items()]
    return json.loads(cadenza("run", MODEL, "-p", prompt, "--json", *more, *given))


def loop(name, prompt=RIVER, more=(), **settings):
    return run(prompt, more, strategy=f"lua:{name}.lua", **{"max_new_tokens": 20, **settings})


def processor(name, prompt=RIVER, **settings):
    return run(prompt, processors=f"lua:{name}.lua", **{"max_new_tokens": 20, **settings})


def greedy(prompt=RIVER, **settings):
    return run(prompt, do_sample=False, **{"max_new_tokens": 20, **settings})["ids"]


def encode(text):
    return json.loads(cadenza("tokenize", MODEL, "-p", text))


def decode(ids):
    return json.loads(cadenza("tokenize", MODEL, "--decode", "-p", json.dumps(ids)))


def logits(rows, model=MODEL):
    """What a model says behind each of these ids."""
    lines = "".join(json.dumps({"prompt_ids": [r], "kwargs": {"max_new_tokens": 1, "last_only": True}}) + "\n" for r in rows)
    answers = cadenza("run", model, "--input", "-", "-sstrategy=org.cadenza.forward", text=lines).splitlines()
    return [json.loads(a)["results"]["logits"][0] for a in answers]


def softmax(row):
    top = max(row)
    e = [math.exp(x - top) for x in row]
    total = sum(e)
    return [x / total for x in e]


def log_softmax(row):
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - total for x in row]


def entropy(p):
    return -sum(q * math.log(q) for q in p if q > 0)


def best(row):
    return row.index(max(row))


def steps(answer, model=MODEL):
    """(logits, token) of each new token."""
    whole, new = answer["sequences"][0], answer["ids"]
    at = len(whole) - len(new)
    return list(zip(logits([whole[:at + i] for i in range(len(new))], model), new))


def logprobs(answer, model=MODEL):
    return [log_softmax(row)[token] for row, token in steps(answer, model)]


def near(a, b, within=1e-3):
    assert abs(a - b) <= within * (1 + abs(b)), (a, b)


def shared(name, *flags):
    out = f"{WORK.name}/{name}.so"
    subprocess.run([os.environ.get("CADENZA_DOC_CC", "cc"), "-std=c17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-shared",
                    "-fPIC", *os.environ.get("CADENZA_DOC_CFLAGS", "").split(), f"-I{ROOT}/sdk/include", str(IDEAS / f"{name}.c"),
                    "-o", out], check=True)
    return out


# --- the ideas that plugin authors had --------------------------------------------------------------------------------------

def ban_prompt_ngrams():
    ids, plain = encode(TWICE), greedy(TWICE)
    said = processor("ban_prompt_ngrams", TWICE, n=2, do_sample=False)["ids"]
    pairs = set(zip(ids, ids[1:]))
    assert not pairs & set(zip(ids[-1:] + said, said)) and pairs & set(zip(ids[-1:] + plain, plain))


def cooling():
    for seed in (1, 2, 3):
        answer = processor("cooling", first=3.0, last=0.5, min_p=1.0, over=4, seed=seed, do_sample=True)
        assert all(token == best(row) for row, token in steps(answer)[4:])


def brackets():
    def balance(text):
        least = n = 0
        for c in text:
            n += (c == "(") - (c == ")")
            least = min(least, n)
        return n, least
    plugin = ("--plugin", shared("brackets"))
    prompt = "river (noun): a large natural stream of water (larger than a creek"
    chosen = {"processors": "org.example.brackets", "max_new_tokens": 20}
    assert balance(run(prompt, do_sample=False, max_new_tokens=20)["text"])[1] < 0
    assert balance(run(prompt, plugin, do_sample=False, **chosen)["text"])[1] == 0
    for seed in range(4):
        answer = run(RIVER, plugin, do_sample=True, temperature=1.5, seed=seed, **chosen)
        n, least = balance(answer["text"])
        assert least == 0 and (answer["finish_reason"] != "stop" or n == 0), answer["text"]
    beams = run(RIVER, plugin, num_beams=3, do_sample=False, **chosen)
    assert balance(beams["text"])[1] == 0


def enough_sentences():
    plugin = ("--plugin", shared("enough_sentences"))
    for n in (1, 2):
        text = run(RIVER, plugin, stopping="org.example.enough-sentences", sentences=n, do_sample=False)["text"]
        assert text.count(".") == n and text.endswith("."), text


def stop_pattern():
    assert run(stopping="lua:stop_pattern.lua", pattern="of water", do_sample=False)["text"].endswith("of water")
    # a value for each request of one run
    lines = "".join(json.dumps({"prompt": RIVER, "kwargs": {"do_sample": False, "lua:stop_pattern.lua.pattern": p}}) + "\n"
                    for p in ("natural", "stream"))
    answers = cadenza("run", MODEL, "--input", "-", "-sstopping=lua:stop_pattern.lua", text=lines).splitlines()
    assert [json.loads(a)["text"] for a in answers] == [" large natural", " large natural stream"]


def speculate():
    answer = loop("speculate", more=("--assistant", DRAFT))
    assert answer["ids"] == greedy() and answer["results"]["passes"][0] < 15


def best_by_critic():
    answer = loop("best_by_critic", more=("--with", f"critic={DRAFT}"), seed=2)
    said = logprobs(answer, DRAFT)
    assert len(set(answer["results"]["values"])) > 1
    near(sum(said) / len(said), max(answer["results"]["values"]))


def entropy_exit():
    never, always = loop("entropy_exit", below=0), loop("entropy_exit", below=100)
    assert never["ids"] == greedy() and set(never["results"]["exits"]) == {6}
    assert always["ids"] != greedy() and set(always["results"]["exits"]) == {1}


def suffix_drafter():
    answer = run(TWICE, drafter="lua:suffix_drafter.lua", do_sample=False, max_new_tokens=20)
    assert answer["ids"] == greedy(TWICE)
    assert sum(taken for _, taken in answer["rounds"]) >= 10


def topk_csv():
    path = f"{WORK.name}/top.csv"
    answer = run(more=("--observe", path), observers="lua:topk_csv.lua", k=2, do_sample=False, max_new_tokens=6)
    lines = [line.split(",") for line in open(path).read().split()]
    assert [int(line[1]) for line in lines] == answer["ids"] and [int(line[0]) for line in lines] == [1, 2, 3, 4, 5, 6]
    for line, (row, token) in zip(lines, steps(answer)):
        p = softmax(row)
        assert int(line[2]) == best(row)
        near(float(line[3]), p[token])
        near(float(line[5]), sorted(p)[-2])


def iso_date():
    for seed in range(4):
        text = processor("iso_date", do_sample=True, seed=seed, temperature=1.5)["text"]
        assert datetime.date.fromisoformat(text).year >= 1900


def word_list():
    banned = {encode(" " + word)[0] for word in ("large", "natural", "stream", "water")}
    assert banned & set(greedy())
    assert not banned & set(run(more=("--plugin", "word_list"), processors="org.example.word-list", do_sample=False)["ids"])


# --- papers -------------------------------------------------------------------------------------------------------------------

def outside(name, may, **settings):
    """Of draws with and without a processor: how many tokens `may` says no to."""
    counts = []
    for extra in ({"processors": f"lua:{name}.lua", **settings}, {}):
        taken = [s for seed in (1, 2, 3) for s in steps(run(seed=seed, max_new_tokens=16, **{**RAW, "temperature": 1.4}, **extra))]
        counts.append(sum(not may(softmax(row), token) for row, token in taken))
    assert counts[0] == 0 and counts[1] > 0, counts


def p_less():
    outside("p_less", lambda p, token: p[token] >= sum(q * q for q in p) * (1 - 1e-4))


def top_h():
    def may(p, token):
        mass = set_entropy = 0.0
        for i, v in enumerate(sorted(range(len(p)), key=lambda v: -p[v])):
            kept = [q for q in sorted(p)[-(i + 1):]]
            mass = sum(kept)
            set_entropy = entropy([q / mass for q in kept])
            if i and set_entropy > 0.4 * entropy(p) * (1 + 1e-4):
                return False
            if v == token:
                return True
        return False
    outside("top_h", may, alpha=0.4)


def adacad():
    evidence = "river (noun): a person who is angry."
    whole = f"{evidence} {RIVER}"
    n = len(encode(evidence))
    answer = processor("adacad", whole, evidence=evidence, do_sample=False)
    ids, new = answer["sequences"][0], answer["ids"]
    at = len(ids) - len(new)
    with_it, without = logits([ids[:at + i] for i in range(len(new))]), logits([ids[n:at + i] for i in range(len(new))])
    for a, b, token in zip(with_it, without, new):
        p, q = softmax(a), softmax(b)
        m = [(x + y) / 2 for x, y in zip(p, q)]
        apart = sum(x * math.log2(x / z) + y * math.log2(y / z) for x, y, z in zip(p, q, m)) / 2
        assert token == best([(1 + apart) * x - apart * y for x, y in zip(a, b)])
    assert new != greedy(whole)


def instructive():
    answer = processor("instructive", noisy="house (noun): a", epsilon=0.6, do_sample=False)
    noisy, new = encode("house (noun): a"), answer["ids"]
    other = logits([noisy + new[:i] for i in range(len(new))])
    assert all(token == best([x - 0.6 * y for x, y in zip(row, o)]) for (row, token), o in zip(steps(answer), other))
    assert new != greedy()


def power_sampling():
    def mean(alpha):
        answers = [loop("power_sampling", seed=seed, alpha=alpha, steps=5, eos_token_id="none", **RAW) for seed in (1, 2, 3)]
        if alpha == 1:
            assert all(a["results"]["accepted"][0] == a["results"]["accepted"][1] > 0 for a in answers)
        return sum(sum(logprobs(a)) for a in answers)
    assert mean(8) > mean(1) + 1


def self_certainty():
    answer = loop("self_certainty", seed=1)
    rows = [row for row, _ in steps(answer)]
    sure = [-sum(log_softmax(row)) / len(row) - math.log(len(row)) for row in rows]
    assert len(set(answer["results"]["values"])) > 1
    near(sum(sure) / len(sure), max(answer["results"]["values"]))


def deepconf():
    answer = loop("deepconf", seed=4, k=3, window=4, **RAW)
    sure = [-sum(sorted(log_softmax(row))[-3:]) / 3 for row, _ in steps(answer)]
    least = min(sum(sure[i:i + 4]) / 4 for i in range(max(1, len(sure) - 3)))
    answers, votes = answer["results"]["answers"], {}
    assert [a["sure"] for a in answers] == sorted((a["sure"] for a in answers), reverse=True)
    for a in answers[:3]:
        votes[a["says"]] = votes.get(a["says"], 0) + a["sure"]
    says = re.search("[A-Za-z]+", answer["text"])[0]
    assert votes[says] == max(votes.values())
    near(least, max(a["sure"] for a in answers if a["says"] == says))


def jacobi():
    answer = loop("jacobi", TWICE, max_new_tokens=90, eos_token_id="none")
    assert answer["ids"] == greedy(TWICE, max_new_tokens=90, eos_token_id="none")
    assert answer["results"]["passes"][0] < 90


def rest():
    answer = run(more=("--plugin", "rest"), drafter="org.example.rest", do_sample=False, max_new_tokens=20)
    assert answer["ids"] == greedy() and sum(taken for _, taken in answer["rounds"]) >= 10


def token_recycling():
    answer = loop("token_recycling", TWICE, max_new_tokens=90, eos_token_id="none")
    assert answer["ids"] == greedy(TWICE, max_new_tokens=90, eos_token_id="none")
    assert answer["results"]["passes"][0] < 80


def skip_layers():
    some, most = loop("skip_layers", skip=[2]), loop("skip_layers", skip=[1, 2, 3, 4, 5])
    assert some["ids"] == most["ids"] == greedy()
    assert some["results"]["accepted"][0] > most["results"]["accepted"][0]


def ablate_direction():
    texts = {"with": ["river (noun): a large", "house (noun): a large"], "without": ["river (noun): a small", "house (noun): a small"]}
    assert loop("ablate_direction", **texts)["results"]["most_along"][0] < 1e-3
    off = loop("ablate_direction", off=True, **texts)
    assert off["results"]["most_along"][0] > 1 and off["ids"] == greedy()


def conditional_steering():
    verb, noun = loop("conditional_steering", "run (verb):"), loop("conditional_steering", "house (noun):")
    assert verb["results"]["cosine"][0] > 0.3 > noun["results"]["cosine"][0]
    assert verb["ids"] != greedy("run (verb):") and noun["ids"] == greedy("house (noun):")


def clamp_feature():
    free = loop("clamp_feature", most=1000)
    assert free["ids"] == greedy()
    limit = free["results"]["most_of_it"][0] - 0.5
    held = loop("clamp_feature", most=limit)
    near(held["results"]["most_of_it"][0], limit)
    assert held["ids"] != greedy()


def patchscope():
    assert loop("patchscope", source=RIVER)["ids"] == greedy()
    assert loop("patchscope", source="music (noun):")["ids"] != greedy()
    # the last layer's state of another text says what that text is followed by
    assert loop("patchscope", source="music (noun):", layer=5, into=5)["ids"][0] == greedy("music (noun):")[0]


def mixture_of_inputs():
    assert loop("mixture_of_inputs", top_k=1)["ids"] == greedy()
    answer = loop("mixture_of_inputs", beta=0.5, k=4, seed=1, **RAW)
    p = softmax(steps(answer)[0][0])
    near(answer["results"]["drawn"][0], 1 - entropy(p) / math.log(len(p)) * sum(sorted(p)[-4:]) / 1.5)


def soft_best_of_n():
    for seed in (1, 2, 3):
        answer = loop("soft_best_of_n", more=("--with", f"critic={DRAFT}"), seed=seed, **{"lambda": 1e-6})
        rewards, chosen = answer["results"]["rewards"], answer["results"]["chosen"][0]
        said = logprobs(answer, DRAFT)
        assert rewards[chosen - 1] == max(rewards)
        near(sum(said) / len(said), max(rewards))
    softly = [loop("soft_best_of_n", more=("--with", f"critic={DRAFT}"), seed=s, **{"lambda": 1e6})["results"] for s in range(6)]
    assert any(r["rewards"][r["chosen"][0] - 1] < max(r["rewards"]) for r in softly)


def early_stopping_votes():
    lengths = set()
    for seed in range(4):
        answer = loop("early_stopping_votes", seed=seed, window=2, windows=3, temperature=1.3)
        said = answer["results"]["said"]["all"]
        agree = [said[i] == said[i + 1] for i in range(0, len(said), 2)]
        assert not any(agree[:-1]) and (agree[-1] or len(said) == 6)
        wins = said[-1] if agree[-1] else max(said, key=said.count)
        assert said.count(re.search("[A-Za-z]+", answer["text"])[0]) == said.count(wins)
        lengths.add(len(said))
    assert len(lengths) > 1


def dynamic_exit():
    never, once = loop("dynamic_exit", sure=2, max_new_tokens=30), loop("dynamic_exit", sure=0, trial=4, max_new_tokens=30)
    assert never["ids"] == greedy(max_new_tokens=30) and "spans" not in never
    (first, last, who), = once["spans"]
    ask = encode(" Synonym:")
    assert who == "exit" and once["ids"][first:last] == ask and once["ids"][:first] == never["ids"][:first]
    chances = [math.exp(log_softmax(row)[token]) for row, token in steps(once)[last:last + 4]]
    near(once["results"]["tried"]["means"][0], math.prod(chances) ** (1 / len(chances)))


def thought_switching():
    another = encode(" A")[0]
    assert another in greedy()
    assert another not in processor("thought_switching", words=[" A"], alpha=50, beta=600, do_sample=False)["ids"]
    assert processor("thought_switching", words=[" A"], alpha=50, beta=0, do_sample=False)["ids"] == greedy()


def line_temperature():
    answer = processor("line_temperature", hot=3.0, cold=1e-4, line="[.] ?$", do_sample=True, seed=3, top_k=0, eos_token_id="none")
    said, strange = "", 0
    for i, (row, token) in enumerate(steps(answer)):
        begins = i == 0 or re.search(r"[.] ?$", said)
        strange += token != best(row)
        assert begins or token == best(row)
        said = decode(answer["ids"][:i + 1])
    assert strange


def smc():
    """Masking goes for the likelier first word, and then there is no likely second: the other whole is likelier by far."""
    trap, right, regex = " large kind", " strong belief", " (large kind|strong belief)"
    prompt, chance = encode(RIVER), {}
    for text in (trap, right):
        said = encode(text)
        rows = [log_softmax(row) for row in logits([prompt + said[:i] for i in range(len(said) + 1)])]
        chance[text] = sum(row[t] for row, t in zip(rows, said)) + math.log(sum(math.exp(rows[-1][e]) for e in EOS))
    assert chance[right] > chance[trap] + 5
    by_mask, by_particles = ([loop("smc", regex=regex, seed=seed, n=n)["text"] for seed in range(6)] for n in (1, 64))
    assert {*by_mask, *by_particles} == {trap, right}
    assert by_mask.count(trap) >= 4 and by_particles.count(right) >= 4


def weak_to_strong():
    answer = loop("weak_to_strong", more=("--with", f"tuned={MODEL}", "--with", f"untuned={DRAFT}"), seed=1)
    near(answer["results"]["value"][0], sum(logprobs(answer)) - sum(logprobs(answer, DRAFT)))


def semantic_entropy():
    answer = loop("semantic_entropy", seed=1, temperature=1.5)
    counts = answer["results"]["meanings"].values()
    assert answer["ids"] == greedy() and sum(counts) == 6 and len(counts) > 1
    near(answer["results"]["entropy"][0], entropy([n / 6 for n in counts]))


# --- the page --------------------------------------------------------------------------------------------------------------------

def the_page(files):
    """docs/ideas.md has a row for every file, with its lines, and as many rows as it says."""
    page = (ROOT / "docs/ideas.md").read_text()
    rows = re.findall(r"^\| (\d+) \|.*\|$", page, re.M)
    assert rows == [str(i + 1) for i in range(44)], rows
    for name, path in files.items():
        lines = path.read_text().count("\n")
        assert re.search(rf"\[{path.name}\]\(\.\./{path.relative_to(ROOT)}\), {lines} \|", page), f"{name}: {lines} lines"
        assert lines <= 80, f"{name} has {lines} lines"


def main():
    files = {p.stem: p for p in [*IDEAS.glob("*.lua"), *IDEAS.glob("*.c"), *IDEAS.glob("*/*.lua")]}
    passed, failed = 0, 0
    for name, path in [*sorted(files.items()), ("the_page", None)]:
        try:
            the_page(files) if name == "the_page" else globals()[name]()
            passed += 1
        except Exception as e:     # whatever went wrong, the others are looked at
            failed += 1
            line = e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else 0
            print(f"FAILED {name}, line {line}: {type(e).__name__} {str(e)[:400]}")
    print(f"COUNTED {passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
