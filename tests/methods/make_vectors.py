#!/usr/bin/env python3
"""Writes vectors.json: what the packages of the zoo must give, worked out here from the papers' formulas in plain Python
(doubles, probabilities instead of logarithms, exhaustive comparison instead of bookkeeping), not from their code.

    python3 make_vectors.py > vectors.json
"""
import json
import math
import random
import struct

NEG = float("-inf")


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def scores_of(rng, n, spread=4.0, masked=0.0):
    return [NEG if rng.random() < masked else f32(rng.uniform(-spread, spread)) for _ in range(n)]


def softmax(row):
    top = max(row)
    e = [math.exp(x - top) for x in row]
    total = math.fsum(e)
    return [x / total for x in e]


def entropy(row):
    return -math.fsum(p * math.log(p) for p in softmax(row) if p > 0)


def order(row):
    return sorted(range(len(row)), key=lambda v: -row[v])


# --- a case -----------------------------------------------------------------------------------------------------------

CASES = []


def case(plugin, name, params, rows, method, **facts):
    """rows: (ids, scores); method(params, ids, scores, row, facts) gives the scores wanted."""
    facts = {"prompt_len": 2, "seed": 7, "eos": [2], "tokens": None, "max_length": 20, **facts}
    done = []
    for r, (ids, scores) in enumerate(rows):
        want = method(params, ids, scores, r, facts)
        done.append({"ids": ids, "scores": scores, "want": want})
    CASES.append({"plugin": plugin, "name": name, "params": params, **facts, "rows": done})


def far_from(values, limit, what):
    """No value may stand so near a limit that rounding decides."""
    for x in values:
        assert abs(x - limit) > 1e-5 * max(1.0, abs(limit)), f"{what}: {x} is too near {limit}"


# --- the generator of noise: Philox4x32-10, Salmon et al. 2011 --------------------------------------------------------

def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


# Random123's known answers: so that this generator is right, whoever else is.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def uniform(plugin, seed, row, position):
    """The first word of noise(row, position), from 0 to below 1: the plugin's id is hashed by FNV-1a."""
    h = 0xCBF29CE484222325
    for byte in plugin.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return philox([row, position, h & 0xFFFFFFFF, h >> 32], [seed & 0xFFFFFFFF, seed >> 32])[0] / 2**32


# --- the methods ------------------------------------------------------------------------------------------------------

def dry(p, ids, scores, _row, facts):
    p = {"multiplier": 0.8, "base": 1.75, "allowed_length": 2, "range": 0,
         "sequence_breakers": ["\n", ":", '"', "*"], **p}
    texts = facts["tokens"]
    broken = {i for i, t in enumerate(texts or []) if t and any(s in t for s in p["sequence_breakers"])}
    if p["range"]:
        ids = ids[-p["range"]:]
    out = list(scores)
    for token in range(len(scores)):
        if token in broken:
            continue
        longest = 0
        for at in range(1, len(ids)):       # token stands at `at`: how much of the row's end stands before it?
            n = 0
            while ids[at] == token and n < min(at, 50) and ids[at - 1 - n] == ids[-1 - n] and ids[-1 - n] not in broken:
                n += 1
            longest = max(longest, n)
        if longest >= p["allowed_length"]:
            out[token] -= p["multiplier"] * p["base"] ** (longest - p["allowed_length"])
    return out


def xtc(p, ids, scores, row, facts):
    p = {"threshold": 0.1, "probability": 0.5, "spare": ["\n"], **p}
    if uniform("xtc", facts["seed"], row, len(ids)) >= p["probability"]:
        return scores
    probs = softmax(scores)
    far_from(probs, p["threshold"], "xtc")
    likely = [v for v in order(scores) if probs[v] >= p["threshold"]]
    spared = set(facts["eos"]) | {i for i, t in enumerate(facts["tokens"] or []) if t in p["spare"]}
    if len(likely) < 2 or spared & set(likely[:-1]):
        return scores
    return [NEG if v in likely[:-1] else x for v, x in enumerate(scores)]


def dynamic_temperature(p, _ids, scores, _row, _facts):
    p = {"low": 0.5, "high": 1.5, "exponent": 1.0, **p}
    n = sum(x > NEG for x in scores)
    if n < 2:
        return scores
    t = p["low"] + (p["high"] - p["low"]) * (entropy(scores) / math.log(n)) ** p["exponent"]
    return [x / t for x in scores]


def entropy_temperature(p, _ids, scores, _row, _facts):
    p = {"temperature": 1.0, "theta": 0.1, "base": 0.8, "least": 0.01, **p}
    h = entropy(scores)
    t = p["temperature"] * p["base"] ** (p["theta"] / h) if h > 1e-6 else (0.0 if p["theta"] else p["temperature"])
    return [x / max(t, p["least"]) for x in scores]


def top_n_sigma(p, _ids, scores, _row, _facts):
    some = [x for x in scores if x > NEG]
    mean = math.fsum(some) / len(some)
    sigma = math.sqrt(math.fsum((x - mean) ** 2 for x in some) / len(some))
    limit = max(some) - p.get("top_n_sigma", 1.0) * sigma
    far_from(some, limit, "top_n_sigma")
    return [x if x >= limit else NEG for x in scores]


def tail_free(p, _ids, scores, _row, _facts):
    p = {"tfs_z": 0.95, "min_tokens_to_keep": 1, **p}
    ranks = order(scores)
    probs = sorted(softmax(scores), reverse=True)
    slopes = [b - a for a, b in zip(probs, probs[1:])]
    bends = [abs(b - a) for a, b in zip(slopes, slopes[1:])]
    keep = {ranks[0]}
    for i in range(len(bends)):
        share = math.fsum(bends[:i + 1]) / math.fsum(bends)
        far_from([share], p["tfs_z"], "tail_free")
        if share <= p["tfs_z"]:
            keep.add(ranks[i + 1])
    keep |= set(ranks[:p["min_tokens_to_keep"]])
    return [x if v in keep else NEG for v, x in enumerate(scores)]


def top_a(p, _ids, scores, _row, _facts):
    probs = softmax(scores)
    limit = p.get("top_a", 0.2) * max(probs) ** 2
    far_from([q / limit for q in probs], 1.0, "top_a")
    return [x if q >= limit else NEG for x, q in zip(scores, probs)]


def smoothing(p, _ids, scores, _row, _facts):
    f, c, top = p.get("smoothing_factor", 0.3), p.get("smoothing_curve", 1.0), max(scores)
    return [x if x == NEG else top - f * (3 - c) / 2 * (x - top) ** 2 - f * (c - 1) / 2 * abs(x - top) ** 3 for x in scores]


def frequency_penalty(p, ids, scores, _row, facts):
    new = ids[facts["prompt_len"]:]
    return [x - new.count(v) * p.get("frequency_penalty", 0.5) for v, x in enumerate(scores)]


def presence_penalty(p, ids, scores, _row, facts):
    new = ids[facts["prompt_len"]:]
    return [x - (v in new) * p.get("presence_penalty", 0.5) for v, x in enumerate(scores)]


def encode(text, tokens):
    """The longest token that fits, again and again, as the test's tokenizer does."""
    ids = []
    while text:
        best = max((i for i, t in enumerate(tokens) if t and text.startswith(t)), key=lambda i: len(tokens[i]))
        ids.append(best)
        text = text[len(tokens[best]):]
    return ids


def logit_bias(p, ids, scores, _row, facts):
    out = list(scores)
    for text, bias in zip(p["texts"], p["biases"]):
        tokens = encode(text, facts["tokens"])
        if p.get("mode", "tokens") == "tokens":
            for t in tokens:
                out[t] += bias
        elif ids[len(ids) - len(tokens) + 1:] == tokens[:-1]:
            out[tokens[-1]] += bias
    return out


def text_of(ids, facts):
    return "".join(facts["tokens"][i] or "" for i in ids)


def keyword(p, ids, scores, _row, facts):
    """Read off the text of what was generated, length by length."""
    start, tokens, boost = facts["prompt_len"], facts["tokens"], p.get("boost", 0.0)
    plan, at, missing, settled = None, 0, [], False
    for length in range(start, len(ids) + 1):
        if plan is None and not settled:
            missing = [w for w in p["words"] if w.strip() not in text_of(ids[start:length], facts)]
            total = [t for w in missing for t in encode(w, tokens)]
            if total and facts["max_length"] - length <= len(total):
                plan, at = total, 0
        if length < len(ids) and plan:
            if ids[length] == plan[at]:
                at += 1
                settled = at == len(plan)
                plan = None if settled else plan
            else:
                plan = None
    if plan:
        return [x if v == plan[at] else NEG for v, x in enumerate(scores)]
    if settled or not missing:
        return scores
    out = [NEG if v in facts["eos"] else x for v, x in enumerate(scores)]
    for w in missing:
        word = encode(w, tokens)
        for k in range(len(word)):
            if k == 0 or ids[-k:] == word[:k]:
                out[word[k]] += boost
    return out


def think_answer(p, ids, scores, _row, facts):
    p = {"open": "<think>", "close": "</think>", "thinking": False, "think_budget": 0, "think_least": 0,
         "answer_budget": 0, "think_temperature": None, "answer_temperature": None, **p}
    close, new = encode(p["close"], facts["tokens"]), ids[facts["prompt_len"]:]
    phase, since, forced = ("think" if p["thinking"] else "before"), 0, 0
    for n in range(1, len(new) + 1):
        said = text_of(new[since:n], facts)
        if phase == "before" and p["open"] in said:
            phase, since = "think", n
        elif phase == "think":
            if p["think_budget"] and n - 1 - since >= p["think_budget"] and new[n - 1] == close[forced]:
                forced += 1
            if p["close"] in said or forced == len(close):
                phase, since, forced = "answer", n, 0
    spent = len(new) - since
    if phase == "think" and p["think_budget"] and spent >= p["think_budget"]:
        return [x if v == close[forced] else NEG for v, x in enumerate(scores)]
    if phase == "answer" and p["answer_budget"] and spent >= p["answer_budget"]:
        return [x if v in facts["eos"] else NEG for v, x in enumerate(scores)]
    out = list(scores)
    if phase == "think" and spent < p["think_least"]:
        held = set(facts["eos"]) | ({close[-1]} if ids[len(ids) - len(close) + 1:] == close[:-1] else set())
        out = [NEG if v in held else x for v, x in enumerate(out)]
    t = {"think": p["think_temperature"], "answer": p["answer_temperature"]}.get(phase)
    return [x / t for x in out] if t else out


# --- the cases --------------------------------------------------------------------------------------------------------

LETTERS = [None, None, None] + list("abcdefgh") + ["ab", "bc", "abc", ":\n", ": ", "a*", "\n", '"', " a", None]


def write_cases(rng):
    n = len(LETTERS)

    def rows(k, length=8, alphabet=range(3, 11), **how):
        return [([rng.choice(list(alphabet)) for _ in range(length)], scores_of(rng, n, **how)) for _ in range(k)]

    # DRY: short alphabets, so that there is much to repeat; without a tokenizer nothing is a breaker
    for name, params, letters in [("defaults", {}, range(3, 5)), ("three letters", {"multiplier": 1.5}, range(3, 6)),
                                  ("from one token on", {"allowed_length": 1, "base": 2.0}, range(3, 7)),
                                  ("a short range", {"range": 9}, range(3, 5))]:
        case("dry", name, params, rows(4, 24, letters), dry)
    for name, params in [("usual breakers", {}), ("breakers of one's own", {"sequence_breakers": ["b", "f"]}),
                         ("no breakers", {"sequence_breakers": []})]:
        case("dry", name, params, rows(4, 40, [3, 4, 14, 16, 18]), dry, tokens=LETTERS)
    run = [3, 4] * 60
    case("dry", "longer than 50", {"base": 1.1}, [(run, scores_of(rng, n)), ([5] * 200, scores_of(rng, n))], dry)
    case("dry", "masked scores and one token", {}, [(run, [NEG] * n), ([3], scores_of(rng, n))], dry)

    # XTC: always, never, now and then; spared tokens
    for name, params in [("always", {"probability": 1.0}), ("now and then", {}), ("seldom", {"probability": 0.1}),
                         ("low threshold", {"probability": 1.0, "threshold": 0.02}),
                         ("high threshold", {"probability": 1.0, "threshold": 0.5})]:
        for seed in (1, 2**40 + 5):
            case("xtc", f"{name}, seed {seed}", params, rows(4), xtc, seed=seed, eos=[])
    peak = [8.0 - 0.125 * v if v in (2, 18, 5) else 0.25 * v - 8 for v in range(n)]
    case("xtc", "the end of sequence is spared", {"probability": 1.0}, [([1, 1], peak)], xtc, eos=[2])
    peak = [8.0 - 0.125 * v if v in (17, 18, 5) else 0.25 * v - 8 for v in range(n)]
    case("xtc", "the newline is spared", {"probability": 1.0}, [([1, 1], peak)], xtc, eos=[], tokens=LETTERS)
    case("xtc", "a text is spared", {"probability": 1.0, "spare": ["c"]},
         [([1, 1], [9.0 - 0.125 * v if v in (5, 7) else 0.5 - v for v in range(n)])], xtc, eos=[], tokens=LETTERS)

    for name, params in [("defaults", {}), ("wide", {"low": 0.1, "high": 3.0}), ("bent", {"low": 0.2, "exponent": 2.5}),
                         ("flat", {"low": 0.7, "high": 0.7})]:
        case("dynamic_temperature", name, params, rows(3) + rows(1, masked=0.5), dynamic_temperature)
    lone = [NEG] * n
    lone[4] = 1.5
    case("dynamic_temperature", "one token", {}, [([3, 4], lone)], dynamic_temperature)

    for name, params in [("defaults", {}), ("strong", {"theta": 1.5, "temperature": 2.0}), ("off", {"theta": 0.0}),
                         ("floor", {"theta": 5.0, "base": 0.1, "least": 0.3})]:
        case("entropy_temperature", name, params, rows(3) + rows(1, masked=0.5), entropy_temperature)
    case("entropy_temperature", "one token", {}, [([3, 4], lone)], entropy_temperature)

    for x in (0.5, 1.0, 1.7, 4.0):
        case("top_n_sigma", f"n = {x}", {"top_n_sigma": x}, rows(3) + rows(1, masked=0.4), top_n_sigma)
    for z, least in ((0.5, 1), (0.95, 1), (0.99, 1), (0.0, 1), (0.3, 6)):
        case("tail_free", f"z = {z}, at least {least}", {"tfs_z": z, "min_tokens_to_keep": least}, rows(4), tail_free)
    for a in (0.01, 0.2, 1.0):
        case("top_a", f"a = {a}", {"top_a": a}, rows(3) + rows(1, masked=0.4), top_a)
    for f, c in ((0.3, 1.0), (1.5, 1.0), (0.2, 2.0), (0.7, 3.0)):
        case("smoothing", f"factor {f}, curve {c}", {"smoothing_factor": f, "smoothing_curve": c},
             rows(3) + rows(1, masked=0.4), smoothing)
    for x in (0.5, 2.0, -0.75):
        case("frequency_penalty", str(x), {"frequency_penalty": x}, rows(4, 30, range(3, 9)), frequency_penalty, prompt_len=6)
        case("presence_penalty", str(x), {"presence_penalty": x}, rows(4, 30, range(3, 9)), presence_penalty, prompt_len=6)
    case("frequency_penalty", "nothing generated", {}, rows(2, 6), frequency_penalty, prompt_len=6)
    case("presence_penalty", "nothing generated", {}, rows(2, 6), presence_penalty, prompt_len=6)
    some = rows(3, 8) + [([3, 4], scores_of(rng, n))]
    for mode in ("tokens", "sequence"):
        case("logit_bias", mode, {"texts": ["d", "abce", "ab", "c:\n"], "biases": [1.5, -2.0, 0.25, 30.0], "mode": mode},
             some, logit_bias, tokens=LETTERS)
    case("logit_bias", "one token", {"texts": [" a"], "biases": [-100.0]}, some, logit_bias, tokens=LETTERS)



    # a keyword, and phases of thought: every length of some rows, so that each state is seen
    def lengths(row, start):
        return [(row[:k], scores_of(rng, n)) for k in range(start, len(row) + 1)]

    def in_fours(plugin, name, params, all_rows, method, **facts):
        for k in range(0, len(all_rows), 4):
            case(plugin, f"{name}, {k // 4 + 1}", params, all_rows[k:k + 4], method, tokens=LETTERS, **facts)

    for name, params, row in [
            ("found by itself", {"words": [" a"]}, [1, 3, 5, 6, 19, 7, 8, 2]),
            ("insisted on", {"words": ["abc", " a"]}, [1, 3, 5, 6, 7, 8, 9, 10, 5, 6, 13, 19]),
            ("one found, one insisted on", {"words": ["cd", "gh"], "boost": 1.5}, [1, 3, 5, 4, 6, 5, 6, 7, 8, 7, 9, 10]),
            ("an insisted one that does not come", {"words": ["gg", "f"]}, [1, 3, 5, 4, 6, 5, 6, 7, 8, 7, 9, 4]),
            ("across tokens", {"words": ["bcd"], "boost": 2.0}, [1, 3, 11, 5, 6, 4, 7, 2])]:
        in_fours("keyword", name, params, lengths(row, 2), keyword, max_length=12)
    marks = {"open": "ab", "close": "cd"}
    row = [1, 3, 3, 4, 7, 8, 5, 6, 9, 10, 2]
    for name, params in [("budget", {**marks, "think_budget": 2}), ("least", {**marks, "think_least": 4}),
                         ("answer", {**marks, "answer_budget": 1}),
                         ("temperatures", {**marks, "think_temperature": 0.5, "answer_temperature": 2.0}),
                         ("begun", {**marks, "thinking": True, "think_budget": 3, "think_least": 3, "answer_budget": 2})]:
        in_fours("think_answer", name, params, lengths(row, 2), think_answer)
        in_fours("think_answer", name + ", over the token's edge", params, lengths([1, 3, 11, 7, 8, 4, 5, 6, 7], 2), think_answer)
    in_fours("think_answer", "forced", {**marks, "think_budget": 1, "answer_budget": 2},
             lengths([1, 3, 11, 7, 5, 6, 9, 10, 2], 2), think_answer)


def plain(x):
    """JSON has no infinities."""
    if isinstance(x, float):
        return "-inf" if x == NEG else x
    if isinstance(x, list):
        return [plain(y) for y in x]
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def main():
    write_cases(random.Random(20241))
    print('{"cases": [')
    print(",\n".join(json.dumps(plain(c)) for c in CASES))
    print("]}")


if __name__ == "__main__":
    main()
