"""A second opinion on cases.json: a small engine in numpy (float64), its presses written from docs/reference/internals/presses.md alone.

    python check_press_goldens.py CASES.json [CASES.json ...]

torch and transformers only read weights and rope frequencies. Entries are kept in rising position, lists by layer and KV head.
Left out: quirk/* and the sliding/* of families that it has no layers for.
"""

import json, math, os, sys, warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
warnings.filterwarnings("ignore")
import numpy as np, torch, transformers
from transformers import AutoModelForCausalLM
from safetensors.torch import load_file

transformers.logging.set_verbosity(50)
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
F = np.float64


class Model:
    def __init__(s, path):
        m = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        c = s.c = m.config
        s.w = {k: v.double().numpy() for k, v in m.state_dict().items()}
        s.H, s.G = c.num_attention_heads, c.num_key_value_heads
        s.g = s.H // s.G
        s.d = getattr(c, "head_dim", None) or c.hidden_size // s.H
        s.n = c.num_hidden_layers
        s.eps = c.rms_norm_eps
        s.inv = m.model.rotary_emb.inv_freq.float().numpy()
        s.att = float(m.model.rotary_emb.attention_scaling)
        s.qn = "model.layers.0.self_attn.q_norm.weight" in s.w
        s.head = m.lm_head.weight.detach().double().numpy()

    def norm(s, x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + s.eps) * w

    def cs(s, p):
        f = (np.asarray(p, np.float32)[:, None] * s.inv[None]).astype(np.float32).astype(F)
        f = np.concatenate([f, f], -1)
        return np.cos(f) * s.att, np.sin(f) * s.att

    def lin(s, x, name):
        y = x @ s.w[name + ".weight"].T
        return y + s.w[name + ".bias"] if name + ".bias" in s.w else y

    def q_raw(s, l, x):
        q = s.lin(x, f"model.layers.{l}.self_attn.q_proj").reshape(len(x), s.H, s.d).transpose(1, 0, 2)
        return s.norm(q, s.w[f"model.layers.{l}.self_attn.q_norm.weight"]) if s.qn else q

    def kv(s, l, x):
        k = s.lin(x, f"model.layers.{l}.self_attn.k_proj").reshape(len(x), s.G, s.d).transpose(1, 0, 2)
        v = s.lin(x, f"model.layers.{l}.self_attn.v_proj").reshape(len(x), s.G, s.d).transpose(1, 0, 2)
        return (s.norm(k, s.w[f"model.layers.{l}.self_attn.k_norm.weight"]) if s.qn else k), v


def rot(x, cos, sin):
    h = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., h:], x[..., :h]], -1) * sin


def softmax(z):
    z = z - z.max(-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def nk(L, r):
    return max(1, int(L * (1 - r)))


def best(s, n):  # larger first, lower position first on ties
    return sorted(np.argsort(-s, kind="stable")[:n].tolist())


def mt(seed, n):
    r = np.random.RandomState(seed & 0xFFFFFFFF)
    u = r.randint(0, 2**32, size=n, dtype=np.uint32)
    return (u & 0xFFFFFF) * 2.0**-24


class Ctx:
    pass  # m,l,x,k,v,pos(of x),a


def window(c, w):
    m = c.m
    cos, sin = m.cs(c.pos[-w:])
    q = rot(m.q_raw(c.l, c.x[-w:]), cos, sin)
    L = c.k.shape[1]
    z = np.einsum("hid,hjd->hij", q, c.k.repeat(m.g, 0)) / math.sqrt(m.d)
    w = q.shape[1]
    z[:, np.arange(L)[None] > (np.arange(w) + L - w)[:, None]] = -np.inf
    return softmax(z)[:, :, : L - w]


def snap(c, p):
    w, ks = p.get("window_size", 64), p.get("kernel_size", 5)
    L = c.k.shape[1]
    A = c.a[:, -w:, : L - w] if c.a is not None else window(c, w)
    s = A.mean(1)
    pad = np.pad(s, ((0, 0), (ks // 2, ks // 2)))
    s = sum(pad[:, i : i + s.shape[1]] for i in range(ks)) / ks
    s = s.reshape(c.m.G, c.m.g, -1).mean(1)
    return np.concatenate([s, np.full((c.m.G, w), s.max() + 1)], 1)


def score(c, p):
    n = p["name"]
    G, L, d = c.k.shape
    m = c.m
    if n == "knorm":
        return -np.sqrt((c.k**2).sum(-1))
    if n == "random":
        return mt(p["seed"], G * L).reshape(G, L)
    if n == "streaming_llm":
        s = np.ones((G, L))
        q = L - int(L * (1 - c.r))
        k = p.get("n_sink", 4)
        s[:, k : k + q] = 0
        return s
    if n in ("snapkv", "pyramidkv"):
        return snap(c, p)
    if n == "tova":
        A = (c.a[:, -1, : L - 1] if c.a is not None else window(c, 1)[:, 0]).mean(0)
        return np.tile(np.append(A, A.max() + 1), (G, 1))
    if n == "observed_attention":
        return (c.a.sum(1) / (L - np.arange(L))).reshape(G, m.g, L).mean(1)
    if n == "expected_attention":
        ns, nf = p.get("n_sink", 4), p.get("n_future_positions", 512)
        q = m.q_raw(c.l, c.x[ns:])
        mu = q.mean(1)
        n_ = q.shape[1]
        C = np.einsum("hni,hnj->hij", q - mu[:, None], q - mu[:, None]) / n_
        L0 = len(c.x)
        cos, sin = m.cs(np.arange(L0, L0 + nf))
        R = np.diag(cos.mean(0))
        sm = sin.mean(0)
        for i in range(d // 2):
            R[i, i + d // 2] = -sm[i]
            R[i + d // 2, i] = sm[i + d // 2]
        mu = mu @ R.T
        C = R @ C @ R.T
        k = c.k[:, ns:].repeat(m.g, 0)
        z = np.einsum("hd,hjd->hj", mu, k) / math.sqrt(d)
        if p.get("use_covariance", True):
            z = z + np.einsum("hjd,hde,hje->hj", k, C, k) / (2 * d)
        s = softmax(z).reshape(G, m.g, -1).mean(1)
        if p.get("use_vnorm", True):
            s = (s + p.get("epsilon", 0.0)) * np.sqrt((c.v[:, ns:] ** 2).sum(-1))
        return np.concatenate([np.full((G, ns), s.max() + 1), s], 1)
    if n == "keydiff":
        u = c.k / np.maximum(np.linalg.norm(c.k, axis=-1, keepdims=True), 1e-12)
        a = u.mean(1, keepdims=True)
        return -(c.k * a).sum(-1) / (np.linalg.norm(c.k, axis=-1) * np.linalg.norm(a, axis=-1))
    if n == "lagkv":
        ns, lag = p.get("n_sink", 4), p.get("lag_size", 128)
        s = np.ones((G, L))
        if L < ns + 2 * lag:
            s[:, ns:] = np.arange(L - ns) / (L - ns)
            return s
        N = (L - ns) // lag
        for i in range(N - 1):
            a = ns + i * lag

            def one(t):
                nx = t[:, a + lag : a + 2 * lag]
                lo, hi = nx.min(1, keepdims=True), nx.max(1, keepdims=True)
                return softmax(((t[:, a : a + lag] - lo) / (hi - lo)).std(-1, ddof=1))

            e = (one(c.k) + one(c.v)) / 2
            if not p.get("cross_scoring", False):
                e = np.argsort(np.argsort(e, -1), -1) / lag
            s[:, a : a + lag] = e
        return s
    if n == "qfilter":
        return -(c.filters[c.l][:, None] * c.k).sum(-1)
    if n == "criticalkv":
        i = p["press"]
        c.r = i["compression_ratio"]
        s = score(c, i)
        fs = p.get("first_stage_ratio", 0.5)
        n1 = max(1, int((1 - c.r) * L * fs))
        out = (s + p.get("epsilon", 1e-4)) * vw(c)
        for h in range(G):
            out[h, best(s[h], n1)] = 1e300
        return out
    raise KeyError(n)


def vw(c):
    m = c.m
    W = m.w[f"model.layers.{c.l}.self_attn.o_proj.weight"].T.reshape(m.H, m.d, -1)
    y = np.stack([np.abs(c.v[h // m.g] @ W[h]).sum(-1) for h in range(m.H)])
    return y.reshape(m.G, m.g, -1).mean(1)


def safe(s, n, alpha):
    ns = int(n * alpha)
    ns = max(1, ns) if alpha > 0 else ns
    for h in range(len(s)):
        s[h, best(s[h], ns)] = np.finfo(F).max
    return s


def bottom(s, n):
    G, L = s.shape
    gone = set(np.argsort(s.reshape(-1), kind="stable")[: G * (L - n)].tolist())
    return [[j for j in range(L) if h * L + j not in gone] for h in range(G)]


def ratio(p):
    return p.get("compression_ratio", ratio(p["press"]) if "press" in p else 0.0)


def select(c, p):
    """indices kept per head (ascending), or None for no change; may set c.rekey, c.zero"""
    n = p["name"]
    G, L, d = c.k.shape
    m = c.m
    r = c.r if c.r is not None else ratio(p)
    c.r = r
    if n == "think":
        kc = p["key_channel_compression_ratio"]
        w = p.get("window_size", 32)
        x = c.x[-w:]
        cos, sin = m.cs(c.pos[-w:])
        q = rot(m.q_raw(c.l, x), cos, sin)
        s = (q**2).mean(1).reshape(G, m.g, d).mean(1) * (c.k**2).mean(1)
        c.zero = [sorted(np.argsort(s[h], kind="stable")[: int(d * kc)].tolist()) for h in range(G)]
        return None
    if n == "simlayerkv":
        i, re, la = p.get("n_initial", 4), p.get("n_recent", 1024), p.get("n_last", 1)
        t = p.get("lazy_threshold", 1.0)
        if L <= i + re + la or t == 1.0:
            return None
        A = window(c, la).mean((0, 1))
        s = A[:i].sum() + A[-re:].sum()
        return [list(range(i)) + list(range(L - re + la, L))] * G if s > t else None
    if r == 0:
        return None
    if n == "pyramidkv":
        w, b = p.get("window_size", 64), p.get("beta", 20)
        T = (w + L * (1 - r)) - w
        lo = T / b
        hi = T * 2 - lo
        if hi >= L - w:
            hi = L - w
            lo = T * 2 - hi
        k = round(hi - c.l * (hi - lo) / (m.n - 1)) if L >= hi >= lo >= w else max(1, round(L * (1 - r)))
        s = score(c, p)
        return [best(s[h], k) for h in range(G)]
    if n == "adakv":
        c.r = r
        s = score(c, p["press"])
        k = nk(L, r)
        return bottom(safe(s, k, p.get("alpha_safeguard", 0.2)), k)
    if n == "critical_adakv":
        s = score(c, p["press"])
        k = nk(L, r)
        s = safe(s, k, p.get("alpha_safeguard", 0.2))
        top = np.argsort(-s.reshape(-1), kind="stable")[: k * G]
        bud = [int((top // L == h).sum()) for h in range(G)]
        m_ = vw(c)
        e = p.get("epsilon", 1e-4)
        fs = p.get("first_stage_ratio", 0.5)
        out = []
        for h in range(G):
            f = best(s[h], int(bud[h] * fs))
            t = (np.minimum(s[h], 1e200) + e) * m_[h]
            t[f] = np.inf
            # the safe set is in as well
            out.append(best(t, bud[h]))
        return out
    if n == "key_rerotation":
        s = score(c, p["press"])
        k = nk(L, r)
        out = [best(s[h], k) for h in range(G)]
        c.rekey = True
        return out
    if n == "chunk":
        out = [[] for _ in range(G)]
        cl = p.get("chunk_length", 1024)
        for a in range(0, L, cl):
            e = Ctx()
            e.__dict__.update(c.__dict__)
            e.x = c.x[a : a + cl]
            e.k = c.k[:, a : a + cl]
            e.v = c.v[:, a : a + cl]
            e.pos = c.pos[-len(e.x) :]
            s = score(e, p["press"])
            k = max(1, int(s.shape[1] * (1 - r)))
            for h in range(G):
                out[h] += [a + j for j in best(s[h], k)]
        return out
    if n == "chunkkv":
        cl = p.get("chunk_length", 20)
        if L // cl == 0:
            return select(c, p["press"])
        s = score(c, p["press"]).sum(0)
        cs = [s[a : a + cl].mean() for a in range(0, L, cl)]
        k = max(1, int(len(cs) * (1 - r)))
        o = []
        for i in best(np.array(cs), k):
            o += list(range(i * cl, min(L, i * cl + cl)))
        return [o] * G
    if n == "block":
        k = nk(L, r)
        b = min(p.get("block_size", 128), L)
        out = []
        for h in range(G):
            kept = list(range(k))
            for a in range(k, L, b):
                cur = kept + list(range(a, min(a + b, L)))
                e = Ctx()
                e.__dict__.update(c.__dict__)
                e.k = c.k[:, cur]
                e.v = c.v[:, cur]
                kept = sorted(cur[j] for j in best(score(e, p["press"])[h], k))
            out.append(kept)
        return out
    s = score(c, p)
    k = nk(L, r)
    return [best(s[h], k) for h in range(G)]


class Engine:
    def __init__(s, m, case, base):
        s.m, s.case, s.eager = m, case, case["attn"] == "eager"
        s.K = [None] * m.n
        s.V = [None] * m.n
        s.P = [None] * m.n
        s.events = []
        s.zeroed = [None] * m.n
        s.base = base
        s.count = 0
        s.buf = [[] for _ in range(m.n)]
        s.seen = 0

    def act(s, l, c, p, ev):
        """apply press p to layer l"""
        m = s.m
        if p["name"] == "composed":
            for q in p["presses"]:
                c.k, c.v = np.stack(s.K[l]), np.stack(s.V[l])
                c.r = None
                s.act(l, c, q, ev)
            return
        if p["name"] == "per_layer":
            c.r = p["compression_ratios"][l]
            p = p["press"]
        f = p if "filters" in p else p.get("press", {})
        if "filters" in f:
            c.filters = load_file(os.path.join(s.base, f["filters"]))["q_filters"].double().numpy()
        c.zero = None
        c.rekey = False
        sel = select(c, p)
        if c.zero is not None:
            for h in range(m.G):
                s.K[l][h][:, c.zero[h]] = 0
            s.zeroed[l] = c.zero
        if sel is not None:
            for h in range(m.G):
                i = sel[h]
                k = s.K[l][h][i]
                if c.rekey:
                    dl = np.arange(len(i)) - np.array(s.P[l][h])[i]
                    f = dl[:, None] * m.inv[None].astype(F)
                    f = np.concatenate([f, f], -1)
                    k = rot(k, np.cos(f), np.sin(f))
                s.K[l][h] = k
                s.V[l][h] = s.V[l][h][i]
                s.P[l][h] = [s.P[l][h][j] for j in i]
        if sel is not None or ev == "prefill":
            s.changed[l] = [list(x) for x in s.P[l]]

    def step(s, ids, start, prefill):
        m = s.m
        x = m.w["model.embed_tokens.weight"][ids]
        pos = np.arange(start, start + len(ids))
        cos, sin = m.cs(pos)
        s.changed = {}
        pr = s.case["press"]
        dec = None
        if pr["name"] in ("decoding", "decoding_ratio"):
            dec = pr
            pre = None
        elif pr["name"] == "prefill_decoding":
            pre, dec = pr["prefill"], pr["decoding"]
        else:
            pre = pr
        s.seen += len(ids)
        if not prefill:
            s.count += 1
        fire = False
        for l in range(m.n):
            b = f"model.layers.{l}."
            sliding = s.case.get("cache") == "hybrid" and m.c.layer_types[l] != "full_attention"
            h = m.norm(x, m.w[b + "input_layernorm.weight"])
            q = rot(m.q_raw(l, h), cos, sin)
            k, v = m.kv(l, h)
            k = rot(k, cos, sin)
            if s.K[l] is None:
                s.K[l] = [np.zeros((0, m.d))] * m.G
                s.V[l] = [np.zeros((0, m.d))] * m.G
                s.P[l] = [[] for _ in range(m.G)]
            o = np.zeros((len(ids), m.H, m.d))
            rows = []
            for g in range(m.G):
                s.K[l][g] = np.concatenate([s.K[l][g], k[g]])
                s.V[l][g] = np.concatenate([s.V[l][g], v[g]])
                s.P[l][g] = s.P[l][g] + pos.tolist()
                n = len(s.K[l][g])
                for j in range(m.g):
                    z = q[g * m.g + j] @ s.K[l][g].T / math.sqrt(m.d)
                    z[np.arange(n)[None] > (np.arange(len(ids)) + n - len(ids))[:, None]] = -np.inf
                    if sliding:
                        z[np.array(s.P[l][g])[None] <= (pos - m.c.sliding_window)[:, None]] = -np.inf
                    a = softmax(z)
                    rows.append(a)
                    o[:, g * m.g + j] = a @ s.V[l][g]
            c = Ctx()
            c.m, c.l, c.x, c.pos, c.r = m, l, h, pos, None
            if prefill and pre is not None and not sliding:
                c.k, c.v = np.stack(s.K[l]), np.stack(s.V[l])
                c.a = np.stack(rows) if s.eager else None
                s.act(l, c, pre, "prefill")
            if not prefill and dec is not None:
                s.buf[l].append(h)
                size = (
                    dec["target_size"] if dec["name"] == "decoding" else max(1, int((pos[-1] + 1) * (1 - dec["target_compression_ratio"])))
                )
                if s.count >= dec["compression_interval"] or len(ids) >= size:
                    fire = True
                    n = len(s.K[l][0])
                    c.k, c.v = np.stack(s.K[l]), np.stack(s.V[l])
                    c.a = np.stack(rows) if s.eager else None
                    c.x = np.concatenate(s.buf[l])
                    if n > size:
                        c.r = 1 - size / n
                        for _ in range(50):  # exact target
                            if nk(n, c.r) == size:
                                break
                            c.r = c.r - 1e-9 if nk(n, c.r) < size else c.r + 1e-9
                        s.act(l, c, dec["press"], "decode")
                    s.buf[l] = []
            x = x + m.lin(o.reshape(len(ids), -1), b + "self_attn.o_proj")
            h = m.norm(x, m.w[b + "post_attention_layernorm.weight"])
            x = x + m.lin(silu(m.lin(h, b + "mlp.gate_proj")) * m.lin(h, b + "mlp.up_proj"), b + "mlp.down_proj")
        if fire:
            s.count = 0
        if s.changed:
            s.events.append({"seen": s.seen, "kept": [s.changed.get(l) for l in range(m.n)]})
        return m.norm(x[-1], m.w["model.norm.weight"]) @ m.head.T


def check(case, base, models):
    path = os.path.join(base, case["model"])
    if path not in models:
        models[path] = Model(path)
    m = models[path]
    e = Engine(m, case, base)
    ids = case["prompt_ids"]
    ex = case["expect"]
    lg = e.step(ids, 0, True)
    at = ex["next_position"]
    want_at = len(e.P[0][0]) if case["press"]["name"] == "key_rerotation" else len(ids)
    assert at == want_at
    q = case.get("question_ids")
    if q:
        lg = e.step(q, at, False)
        at += len(q)
    worst = 0
    for i, t in enumerate(ex["tokens"]):
        if int(lg.argmax()) != t:
            return f"token {i}: {int(lg.argmax())} not {t}", 0
        for j, v in zip(ex["top_ids"][i], ex["top_vals"][i]):
            worst = max(worst, abs(lg[j] - v) / (1e-4 + 1e-4 * abs(v)))
        if i < 11:
            lg = e.step([t], at, False)
            at += 1
    if worst > 1:
        return f"logits {worst}", worst
    srt = lambda k: [[sorted(h) for h in l] if l is not None else None for l in k]
    if "kept" in ex:
        mine = e.events[0]["kept"]
        if srt(mine) != srt(ex["kept"]):
            return "kept", worst
        if "zeroed_channels" in ex and e.zeroed != ex["zeroed_channels"]:
            return "channels", worst
    else:
        if [(v["seen"], srt(v["kept"])) for v in e.events] != [(v["seen"], srt(v["kept"])) for v in ex["events"]]:
            return f"events {[v['seen'] for v in e.events]}", worst
    return None, worst


if __name__ == "__main__":
    models, failed = {}, 0
    for f in sys.argv[1:]:
        base = os.path.dirname(f)
        ok = bad = skip = 0
        w = 0
        for c in json.load(open(f)):
            if (c["id"].startswith(("sliding")) and "qwen2" not in c["model"]) or c["id"].startswith("quirk"):
                skip += 1
                continue
            try:
                r, x = check(c, base, models)
            except Exception as ex:
                import traceback

                r, x = repr(ex) + traceback.format_exc()[-300:], 0
            w = max(w, x)
            if r:
                bad += 1
                print(c["id"], c["press"], r)
            else:
                ok += 1
        print(f"{ok} agree, {bad} differ, {skip} left out; worst logit {w:.3f} of the tolerance")
        failed += bad
    sys.exit(failed > 0)
