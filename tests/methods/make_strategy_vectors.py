#!/usr/bin/env python3
"""Writes strategy_vectors.json: what the zoo's decode loops must give with a model that is a table (the scores of the next
token depend on the last one only) and draws that are given. Worked out here by each method's definition, in plain Python
with probabilities; token k is the k-th letter, so that texts can be looked at.

    python3 make_strategy_vectors.py > strategy_vectors.json
"""
import json
import math
import random
import re

from make_vectors import f32, order, softmax

V, EOS, START = 16, 2, [1, 3, 5, 3]
CASES = []


class Draws:
    """torch's multinomial here is the inverse of the distribution function at given numbers, one after the other."""

    def __init__(self, rng):
        self.used, self.rng = [], rng

    def number(self):
        self.used.append(self.rng.random())
        return self.used[-1]

    def token(self, probs):
        while True:
            u, reached = self.rng.random(), 0.0
            edges = []
            for p in probs:
                reached += p
                edges.append(reached)
            if all(abs(u - e) > 1e-4 for e in edges[:-1]):     # rounding may not decide
                self.used.append(u)
                return next(v for v, e in enumerate(edges) if u < e)


def text(ids):
    return "".join("abcdefghijklmnop"[i] for i in ids)


def random_table(rng, spread=3.0):
    return [[f32(rng.uniform(-spread, spread)) for _ in range(V)] for _ in range(V)]


def case(strategy, name, params, method, rng, n_rows=1, most=14, do_sample=True, table=None, heads=None, **models):
    """models: tables of further models, by name; heads: what heads for values say, by model and newest token."""
    table, draws = table or random_table(rng), Draws(rng)
    rows, results = method(params, table, draws, n_rows, most, do_sample, **(heads or models))
    CASES.append({"strategy": strategy, "name": name, "params": params, "n_rows": n_rows, "most": most, "models": models,
                  "do_sample": do_sample, "table": table, "draws": draws.used, "rows": rows, "results": results}
                 | ({"heads": heads} if heads else {}))


def ended(ids, most):
    return len(ids) > len(START) and (ids[-1] == EOS or len(ids) >= most)


# --- mirostat ---------------------------------------------------------------------------------------------------------

def mirostat_loop(kept, p, table, draws, n_rows, most):
    rows, mu = [list(START) for _ in range(n_rows)], [2 * p.get("tau", 5.0)] * n_rows
    mus, surprises, over = [[] for _ in rows], [[] for _ in rows], [False] * n_rows
    while not all(over):
        for r, ids in enumerate(rows):
            probs = softmax(table[ids[-1]])
            keep = kept(p, probs, mu[r])
            probs = [q if v in keep else 0.0 for v, q in enumerate(probs)]
            probs = [q / sum(probs) for q in probs]
            token = draws.token(probs)             # a row that has ended draws as well
            surprise = 0.0
            if not over[r]:
                surprise = -math.log2(probs[token])
                mu[r] -= p.get("eta", 0.1) * (surprise - p.get("tau", 5.0))
            mus[r].append(mu[r])
            surprises[r].append(surprise)
            ids.append(0 if over[r] else token)
        for r, ids in enumerate(rows):
            over[r] = over[r] or ended(ids, most)
    return rows, {"mu": sum(mus, []), "surprise": sum(surprises, [])}


def mirostat(p, table, draws, n_rows, most, _):
    def kept(p, probs, mu):
        ranks = order(probs)
        m = min(p.get("m", 100), V)
        best = [probs[v] for v in ranks[:m]]
        t = [math.log((i + 2) / (i + 1)) for i in range(m - 1)]
        b = [math.log(best[i] / best[i + 1]) for i in range(m - 1)]
        s = sum(x * y for x, y in zip(t, b)) / sum(x * x for x in t)
        k = ((s - 1) * 2 ** mu / (1 - V ** (1 - s))) ** (1 / s)
        assert k > V or abs(k - round(k)) > 1e-4
        return set(ranks[:max(1, int(min(k, V)))])
    return mirostat_loop(kept, p, table, draws, n_rows, most)


def mirostat_v2(p, table, draws, n_rows, most, _):
    def kept(_, probs, mu):
        assert all(abs(-math.log2(q) - mu) > 1e-4 for q in probs)
        return {v for v, q in enumerate(probs) if -math.log2(q) <= mu} | {order(probs)[0]}
    return mirostat_loop(kept, p, table, draws, n_rows, most)


# --- several continuations ----------------------------------------------------------------------------------------------

def draw_all(n, table, draws, most):
    """n continuations side by side: (ids after the start, probability of each token)."""
    all_rows = [([], []) for _ in range(n)]
    while True:
        live = [(ids, ps) for ids, ps in all_rows if not ids or not ended(START + ids, most)]
        if not live:
            return all_rows
        for ids, ps in live:
            probs = softmax(table[(START + ids)[-1]])
            token = draws.token(probs)
            ids.append(token)
            ps.append(probs[token])


def best_of_n(p, table, draws, _n, most, _s):
    drawn = draw_all(p.get("n", 4), table, draws, most)
    values = [math.log(math.prod(ps)) / len(ids) ** p.get("length_penalty", 1.0) for ids, ps in drawn]
    best = values.index(max(values))
    return [START + drawn[best][0]], {"best": [best + 1], "values": values}


def self_consistency(p, table, draws, _n, most, _s):
    drawn = draw_all(p.get("n", 5), table, draws, most)
    found = [re.findall(PATTERNS[p.get("pattern", ".+")], text(ids)) for ids, _ in drawn]
    answers = [f[-1] if f else None for f in found]
    votes = [answers.count(a) if a else 0 for a in answers]
    most_votes = max(votes)
    if most_votes:
        won = answers[votes.index(most_votes)]
        among = [i for i, a in enumerate(answers) if a == won]
    else:
        among = list(range(len(drawn)))
    means = [math.log(math.prod(ps)) / len(ps) for _, ps in drawn]
    best = max(among, key=lambda i: means[i])
    return [START + drawn[best][0]], {"chosen": [best + 1], "votes": votes}


PATTERNS = {".+": ".+", "%w*([aeio])": "[a-p]*([aeio])", "zzz": "zzz"}      # of Lua, and the same for re


def entropy_branching(p, table, _d, _n, most, _s):
    """By the whole tree: a fork is decided at the moment and in the order in which branches came to be."""
    all_rows = [([], [])]
    while True:
        live = [(ids, ps) for ids, ps in all_rows if not ids or not ended(START + ids, most)]
        if not live:
            break
        for ids, ps in live:
            probs = softmax(table[(START + ids)[-1]])
            h = sum(-q * math.log(q) for q in probs)
            assert abs(h - p.get("threshold", 2.0)) > 1e-4
            room = p.get("branches", 6) - len(all_rows)
            ways = order(probs)[:min(p.get("width", 2), room + 1) if h > p.get("threshold", 2.0) else 1]
            old = (list(ids), list(ps))
            for k, token in enumerate(ways):
                mine = (ids, ps)
                if k:
                    mine = (list(old[0]), list(old[1]))
                    all_rows.append(mine)
                mine[0].append(token)
                mine[1].append(probs[token])
    values = [math.log(math.prod(ps)) / len(ids) ** p.get("length_penalty", 1.0) for ids, ps in all_rows]
    best = values.index(max(values))
    return [START + all_rows[best][0]], {"best": [best + 1], "values": values, "lengths": [len(i) for i, _ in all_rows]}


def multiple_choice(p, table, draws, _n, _most, do_sample):
    chances, lengths = [], []
    for choice in p["choices"]:
        ids, chance = ["abcdefghijklmnop".index(c) for c in choice], 1.0
        for before, token in zip([START[-1]] + ids, ids):
            chance *= softmax(table[before])[token]
        chances.append(chance)
        lengths.append(len(ids))
    if p.get("mean"):
        chances = [c ** (1 / n) for c, n in zip(chances, lengths)]
    shares = [c / sum(chances) for c in chances]
    best = shares.index(max(shares))
    if do_sample:
        u, reached = draws.number(), 0.0
        for best, share in enumerate(shares):
            reached += share
            if u < reached:
                break
    ids = ["abcdefghijklmnop".index(c) for c in p["choices"][best]]
    return [START + ids], {"choice": [best + 1], "logprobs": [math.log(c) for c in chances], "probabilities": shares}


def banned_strings(p, table, draws, _n, most, do_sample):
    """The definition: from the start, never taking a token at a place where it is known to lead to a banned text."""
    banned, said, rewinds = {}, [], 0
    while not said or not ended(START + said, most):
        here = banned.get(tuple(said), set())
        probs = [0.0 if v in here else q for v, q in enumerate(softmax(table[(START + said)[-1]]))]
        probs = [q / sum(probs) for q in probs]
        said.append(draws.token(probs) if do_sample else order(probs)[0])
        at = [text(said).find(b.lower()) for b in p["banned"]]
        if any(a >= 0 for a in at) and rewinds < p.get("rewinds", 1000):
            first = min(a for a in at if a >= 0)
            banned.setdefault(tuple(said[:first]), set()).add(said[first])
            said, rewinds = said[:first], rewinds + 1
    return [START + said], {"rewinds": [rewinds]}


def contrastive_decoding(p, table, draws, _n, most, do_sample, assistant):
    ids = list(START)
    while not ended(ids, most):
        expert, other = softmax(table[ids[-1]]), softmax(assistant[ids[-1]])
        assert all(abs(q / max(expert) - p.get("alpha", 0.1)) > 1e-4 for q in expert)
        kept = [v for v, q in enumerate(expert) if q >= p.get("alpha", 0.1) * max(expert)]
        beta = p.get("beta", 0.5)
        worth = {v: expert[v] ** (1 + beta) / other[v] ** beta for v in kept}
        probs = [worth.get(v, 0.0) / sum(worth.values()) for v in range(V)]
        ids.append(draws.token(probs) if do_sample else order(probs)[0])
    return [ids], {}


def proxy_tuning(p, table, draws, _n, most, do_sample, expert, antiexpert):
    """Proportional to P(model) * (P(expert) / P(antiexpert)) ** alpha."""
    ids = list(START)
    while not ended(ids, most):
        model, more, less = (softmax(t[ids[-1]]) for t in (table, expert, antiexpert))
        worth = [m * (a / b) ** p["alpha"] for m, a, b in zip(model, more, less)]
        ids.append(next_token([w / sum(worth) for w in worth], draws, do_sample))
    return [ids], {}


def cot_decoding(p, table, _d, _n, most, _s):
    first = order(table[START[-1]])[:p.get("k", 5)]
    best, values = None, []
    for token in first:
        ids, margins = [], []
        while not ids or not ended(START + ids, most):
            probs = softmax(table[(START + ids)[-1]])
            ranks = order(probs)
            ids.append(ranks[0] if ids else token)
            margins.append(probs[ranks[0]] - probs[ranks[1]])
        spans = [m.span(m.re.groups) for m in re.finditer(PATTERNS[p.get("pattern", ".+")], text(ids))]
        inside = margins[slice(*spans[-1])] if spans else []
        values.append(sum(inside) / len(inside) if inside else 0.0)
        if best is None or values[-1] > max(values[:-1]):
            best = ids
    return [START + best], {"best": [values.index(max(values)) + 1], "sureness": values}


def mbr(p, table, draws, _n, most, _s):
    drawn = [ids for ids, _ in draw_all(p.get("n", 8), table, draws, most)]
    agreement = []
    for i, a in enumerate(drawn):
        values = []
        for j, b in enumerate(drawn):
            if i != j:
                left, common = list(b), 0
                for token in a:
                    if token in left:
                        left.remove(token)
                        common += 1
                precision, recall = common / len(a), common / len(b)
                values.append(2 * precision * recall / (precision + recall) if common else 0.0)
        agreement.append(sum(values) / max(1, len(values)))
    best = next(i for i, v in enumerate(agreement) if v > max(agreement) - 1e-9)
    return [START + drawn[best]], {"best": [best + 1], "agreement": agreement}


# --- text of others, pieces taken back ----------------------------------------------------------------------------------

def ids_of(letters):
    return ["abcdefghijklmnop".index(c) for c in letters]


def next_token(probs, draws, do_sample):
    return draws.token(probs) if do_sample else order(probs)[0]


def tool_use(p, table, draws, _n, most, do_sample):
    """The tool says the question backwards. Answers do not count: the text may be longer by them."""
    said, calls, seen = [], 0, 0
    while not said or not ended(START + said, most):
        said.append(next_token(softmax(table[(START + said)[-1]]), draws, do_sample))
        if ended(START + said, most) or calls == p["calls"]:
            continue
        begin = text(said).find(p["open"], seen)
        end = text(said).find(p["close"], begin + len(p["open"])) if begin >= 0 else -1
        if end < 0:
            continue
        answer = p["before"] + text(said)[begin + len(p["open"]):end][::-1] + p["after"]
        said, calls, most = said + ids_of(answer), calls + 1, most + len(answer)
        seen = len(said)
    return [START + said], {}


def budget_forcing(p, table, draws, _n, most, do_sample):
    said, thinking, forced, cut = [], True, 0, 0
    while not said or not ended(START + said, most):
        if thinking and p["most"] and len(said) >= p["most"]:
            said, thinking, cut = said + ids_of(p["close"]), False, 1
            continue
        said.append(next_token(softmax(table[(START + said)[-1]]), draws, do_sample))
        closes = thinking and text(said).endswith(p["close"])
        stops = thinking and said[-1] == EOS
        if (closes or stops) and len(said) < p["least"] and forced < p["times"]:
            said, forced = said[:-len(p["close"]) if closes else -1] + ids_of(p["again"]), forced + 1
        elif closes:
            thinking = False
    return [START + said], {"forced": [forced], "ended": [cut]}


def backtracking(p, table, draws, _n, most, do_sample):
    kept, piece, banned, backs = [], [], set(), 0
    while not kept + piece or not ended(START + kept + piece, most):
        probs = softmax(table[(START + kept + piece)[-1]])
        if not piece:
            probs = [0.0 if v in banned else q for v, q in enumerate(probs)]
            probs = [q / sum(probs) for q in probs]
        piece.append(next_token(probs, draws, do_sample))
        if not ended(START + kept + piece, most) and not re.search(p["ends"], text(piece)):
            continue
        good = (not p.get("must") or re.search(p["must"], text(piece))) and \
            (not p.get("never") or not re.search(p["never"], text(piece)))
        if not good and len(banned) < p["tries"]:
            banned.add(piece[0])
            piece, backs = [], backs + 1
        else:
            kept, piece, banned = kept + piece, [], set()
    return [START + kept], {"taken_back": [backs]}


# --- searches -----------------------------------------------------------------------------------------------------------------

def speculative_rejection(p, table, draws, _n, most, _s):
    alive, left = [([], []) for _ in range(p["n"])], []
    place = {id(b): i for i, b in enumerate(alive)}
    over = lambda ids: len(ids) > 0 and ended(START + ids, most)
    while not all(over(ids) for ids, _ in alive):
        starts = [b for b in alive if not over(b[0])]
        for _ in range(p["every"]):
            for ids, ps in starts:
                if not over(ids):
                    probs = softmax(table[(START + ids)[-1]])
                    ids.append(draws.token(probs))
                    ps.append(probs[ids[-1]])
        worth = [math.log(math.prod(ps)) / len(ps) for _, ps in alive]
        assert all(abs(a - b) > 1e-5 or alive[i][0] == alive[k][0] for i, a in enumerate(worth) for k, b in enumerate(worth[:i]))
        ranks = sorted(range(len(alive)), key=lambda i: (-round(worth[i], 5), place[id(alive[i])]))
        ranks = ranks[:max(1, math.ceil(len(alive) * (1 - p["alpha"]) - 1e-9))]
        alive = [alive[i] for i in ranks]
        left.append(len(alive))
    ids, ps = alive[0]
    return [START + ids], {"value": [math.log(math.prod(ps)) / len(ps)], "left": left}


def mcts(p, table, _d, _n, most, _s):
    """A tree by paths: visits, sums of values, and what a path is worth once it has been played out."""
    row, chosen_visits = list(START), []
    while not ended(row, most):
        visits, total, worth, grown = {(): 0}, {(): 0.0}, {}, {}

        def chance(path):
            return math.prod(softmax(table[(row + list(path))[i - 1]])[t] for i, t in enumerate(path, len(row)))

        def play(path):
            ids, chances = list(path), chance(path)
            if path and ended(row + ids, most):
                worth[path] = chances ** (1 / len(path))
                return
            for _ in range(p["depth"]):
                probs = softmax(table[(row + ids)[-1]])
                ids.append(order(probs)[0])
                chances *= probs[ids[-1]]
                if ended(row + ids, most):
                    break
            worth[path] = chances ** (1 / len(ids)) if ids else 1.0
            probs = softmax(table[(row + list(path))[-1]])
            grown[path] = [(path + (t,), probs[t]) for t in order(probs)[:p["width"]]]
            for child, _ in grown[path]:
                visits[child], total[child] = 0, 0.0

        def give(path, value):
            for n in range(len(path) + 1):
                total[path[:n]] += value

        play(())
        left = p["simulations"]
        while left:
            leaves = []
            for _ in range(min(p["batch"], left)):
                left -= 1
                path = ()
                visits[path] += 1
                while path in grown:
                    ways = [((total[c] / visits[c] if visits[c] else 0) + p["c"] * q * math.sqrt(visits[path]) / (1 + visits[c]), c)
                            for c, q in grown[path]]
                    best = max(ways, key=lambda w: w[0])
                    assert all(w is best or best[0] - w[0] > 1e-6 for w in ways)
                    path = best[1]
                    visits[path] += 1
                if path in worth:
                    give(path, worth[path])
                else:
                    leaves.append(path)
            for path in dict.fromkeys(leaves):
                play(path)
            for path in leaves:
                give(path, worth[path])
        most_visited = max(grown[()], key=lambda c: visits[c[0]])[0]
        chosen_visits.append(visits[most_visited])
        row.append(most_visited[0])
    return [row], {"visits": chosen_visits}


def odds(p, judge, ids):
    """How many times likelier yes is than no, behind the text and the question; by a head, e to its value, or the odds of a label."""
    if len(judge[0]) != V:
        values = judge[ids[-1]]
        return math.exp(values[0]) if len(values) == 1 else softmax(values)[p["label"]] / (1 - softmax(values)[p["label"]])
    probs = softmax(judge[(ids + ids_of(p["question"]))[-1]])
    return probs[ids_of(p["yes"])[0]] / probs[ids_of(p["no"])[0]]


def args(p, table, draws, _n, most, do_sample, reward=None):
    ids, rewards = list(START), []
    while not ended(ids, most):
        probs = softmax(table[ids[-1]])
        worth = [0.0] * V
        for v in order(probs)[:p["k"]]:
            worth[v] = probs[v] * odds(p, reward or table, ids + [v]) ** p["w"]
        ids.append(next_token([w / sum(worth) for w in worth], draws, do_sample))
        rewards.append(math.log(odds(p, reward or table, ids)))
    return [ids], {"rewards": rewards}


def tree_of_thought(p, table, draws, _n, most, _s, reward=None):
    states, best, value = [[]], [], []
    for _ in range(p["depth"]):
        begun = [(s, []) for s in states for _ in range(1 if s and ended(START + s, most) else p["thoughts"])]
        for _ in range(p["most"]):
            for state, thought in begun:
                if (state + thought and ended(START + state + thought, most)) or re.search(p["ends"], text(thought)):
                    continue
                thought.append(draws.token(softmax(table[(START + state + thought)[-1]])))
        said = [state + thought for state, thought in begun]
        worth = [odds(p, reward or table, START + s) for s in said]
        ranks = sorted(range(len(said)), key=lambda i: (-round(worth[i], 9), i))[:p["breadth"]]
        states = [said[i] for i in ranks]
        best.append(ranks[0] + 1)
        value.append(worth[ranks[0]] / (1 + worth[ranks[0]]))
        if ended(START + states[0], most):
            break
    ids = START + states[0]
    while not ended(ids, most):
        ids.append(draws.token(softmax(table[ids[-1]])))
    return [ids], {"best": best, "value": value}


# --- the cases --------------------------------------------------------------------------------------------------------------

def write_cases(rng):
    for tau, eta in ((3.0, 0.1), (1.5, 0.5), (0.5, 1.0)):
        for rows in (1, 3):
            params = {"tau": tau, "eta": eta}
            case("mirostat", f"tau {tau}, {rows} rows", params, mirostat, rng, n_rows=rows, most=16)
            case("mirostat_v2", f"tau {tau}, {rows} rows", params, mirostat_v2, rng, n_rows=rows, most=16)
    case("mirostat", "few tokens for the estimate", {"m": 5, "tau": 2.0}, mirostat, rng)
    for n, penalty in ((1, 1.0), (4, 1.0), (6, 0.0), (5, 0.6)):
        case("best_of_n", f"n {n}, penalty {penalty}", {"n": n, "length_penalty": penalty}, best_of_n, rng)
    for pattern in PATTERNS:
        for n in (1, 7):
            case("self_consistency", f"{pattern} of {n}", {"n": n, "pattern": pattern}, self_consistency, rng, most=9)
    for threshold, width, branches in ((1.5, 2, 6), (0.5, 3, 8), (9.0, 2, 6), (1.0, 2, 1)):
        case("entropy_branching", f"above {threshold}, {width} ways, {branches} branches",
             {"threshold": threshold, "width": width, "branches": branches}, entropy_branching, rng, do_sample=False)
    choices = ["abc", "d", "eff", "ponm"]
    for mean in (False, True):
        for do_sample in (False, True):
            case("multiple_choice", f"mean {mean}, draws {do_sample}", {"choices": choices, "mean": mean}, multiple_choice, rng,
                 most=30, do_sample=do_sample)
    for k in range(3):
        for do_sample in (False, True):
            table = [[f32(rng.uniform(-2, 2)) + (6 if v in ((u + 1) % V, (u + 4) % V) else 0) for v in range(V)] for u in range(V)]
            path = list(START)
            while len(path) < 24:
                path.append(order(table[path[-1]])[0])
            path = text(path[len(START):])
            banned = [path[:2], path[3:6].upper(), path[1], path[8:12], "np", "ho"]
            case("banned_strings", f"chains {k}, draws {do_sample}", {"banned": banned}, banned_strings, rng,
                 most=20, do_sample=do_sample, table=table)
    case("banned_strings", "patience runs out", {"banned": ["e", "h", "p"], "rewinds": 2}, banned_strings, rng, table=table,
         do_sample=False)

    for alpha, beta in ((0.1, 0.5), (0.3, 1.0), (0.02, 0.0)):
        for do_sample in (False, True):
            case("contrastive_decoding", f"alpha {alpha}, beta {beta}, draws {do_sample}", {"alpha": alpha, "beta": beta},
                 contrastive_decoding, rng, do_sample=do_sample, assistant=random_table(rng))
    for k, pattern in ((5, None), (1, None), (6, "%w*([aeio])"), (4, "zzz")):
        case("cot_decoding", f"{k} paths, {pattern}", {"k": k, **({"pattern": pattern} if pattern else {})}, cot_decoding, rng,
             do_sample=False)
    for n in (1, 2, 9):
        case("mbr", f"n {n}", {"n": n}, mbr, rng)
    write_later_cases(random.Random(78))


def write_later_cases(rng):
    marks = {"open": "b", "close": "d", "before": "m", "after": "no"}
    for calls in (0, 1, 5):
        for do_sample in (False, True):
            case("tool_use", f"{calls} calls, draws {do_sample}", {**marks, "calls": calls}, tool_use, rng, most=30,
                 do_sample=do_sample)
    for close, least, most, times in (("e", 12, 0, 3), ("ab", 8, 0, 9), ("e", 0, 5, 0), ("hi", 6, 10, 2), ("k", 20, 0, 1)):
        for do_sample in (False, True):
            case("budget_forcing", f"{close} from {least} to {most}, draws {do_sample}",
                 {"close": close, "again": "pa", "least": least, "most": most, "times": times}, budget_forcing, rng, most=26,
                 do_sample=do_sample)
    for close in "dgjn":
        case("budget_forcing", f"{close} too soon", {"close": close, "again": "pa", "least": 15, "most": 0, "times": 3},
             budget_forcing, rng, most=26)
    for ends, must, never, tries in (("[eo]$", "", "[ad]", 4), ("f$", "i", "", 2), ("[a-h]$", "", "b", 9), ("e$", "zz", "", 3)):
        for do_sample in (False, True):
            case("backtracking", f"{ends} with {must} without {never}, draws {do_sample}",
                 {"ends": ends, "must": must, "never": never, "tries": tries}, backtracking, rng, most=24, do_sample=do_sample)
    for n, alpha, every in ((1, 0.5, 3), (8, 0.5, 2), (6, 0.0, 4), (7, 0.9, 1), (5, 0.3, 100)):
        case("speculative_rejection", f"{n} by {alpha} every {every}", {"n": n, "alpha": alpha, "every": every},
             speculative_rejection, rng, most=16)
    for simulations, width, depth, batch, c in ((1, 3, 2, 1, 1.0), (12, 4, 3, 1, 1.0), (12, 4, 3, 5, 1.0), (20, 2, 0, 4, 0.3),
                                                (9, 5, 20, 9, 4.0)):
        case("mcts", f"{simulations} of {width} by {batch}, {depth} deep", {"simulations": simulations, "width": width, "depth": depth,
             "batch": batch, "c": c}, mcts, rng, most=10, do_sample=False)
    for alpha in (1.0, 0.4, -1.0):
        for do_sample in (False, True):
            case("proxy_tuning", f"alpha {alpha}, draws {do_sample}", {"alpha": alpha}, proxy_tuning, rng, do_sample=do_sample,
                 expert=random_table(rng), antiexpert=random_table(rng))
    asked = {"question": "", "yes": "i", "no": "ga"}
    for k, w in ((1, 2.0), (5, 0.7), (16, 0.1), (4, 0.0)):
        for do_sample in (False, True):
            case("args", f"{k} by {w}, draws {do_sample}", {"k": k, "w": w, **asked}, args, rng, do_sample=do_sample,
                 reward=random_table(rng))
    case("args", "asked a question, by itself", {"k": 6, "w": 3.0, **asked, "question": "lm"}, args, rng)
    for thoughts, breadth, depth, most, ends in ((3, 2, 3, 4, "[aeio]$"), (1, 1, 2, 3, "zz"), (5, 1, 1, 2, "p$"), (2, 4, 4, 5, "[k-p]$")):
        params = {"thoughts": thoughts, "breadth": breadth, "depth": depth, "most": most, "ends": ends, **asked}
        case("tree_of_thought", f"{thoughts} of {breadth}, {depth} deep", params, tree_of_thought, rng, most=24,
             reward=random_table(rng))
        case("tree_of_thought", f"{thoughts} of {breadth}, {depth} deep, judged by itself", params, tree_of_thought, rng, most=12)


def write_head_cases(rng):
    def head(n):
        return {"reward": [[f32(rng.uniform(-2, 2)) for _ in range(n)] for _ in range(V)]}

    for n, label in ((1, -1), (2, -1), (2, 0), (5, 3)):
        for do_sample in (False, True):
            case("args", f"label {label} of {n}, draws {do_sample}", {"k": 5, "w": 0.8, "label": label}, args, rng,
                 do_sample=do_sample, heads=head(n), reward=random_table(rng))
        case("tree_of_thought", f"label {label} of {n}", {"thoughts": 3, "breadth": 2, "depth": 3, "most": 4, "ends": "[aeio]$",
             "label": label}, tree_of_thought, rng, most=24, heads=head(n), reward=random_table(rng))


def main():
    write_cases(random.Random(77))
    write_head_cases(random.Random(79))
    print('{"cases": [')
    print(",\n".join(json.dumps(c) for c in CASES))
    print("]}")


if __name__ == "__main__":
    main()
