"""The cases of cases.json: model, press and prompt length; the prompt comes from the seed."""
G = "../golden/"
CASES = []
FILTERS = {"qfilters_llama_gqa.safetensors": {"seed": 11, "shape": (3, 2, 12)},
           "qfilters_qwen3.safetensors": {"seed": 12, "shape": (3, 2, 16)}}


def add(kind, model, length, press, **kw):
    n = sum(c["id"].startswith(kind + "/") for c in CASES)
    CASES.append(dict(id="%s/%d" % (kind, n), model=G + model, length=length, press=press,
                      seed=1000 + 131 * len(CASES), **kw))


def P(name, ratio=None, **kw):
    d = {"name": name}
    if ratio is not None:
        d["compression_ratio"] = ratio
    d.update(kw)
    return d


L, Q3, Q2, L3, LB, QY = "llama_gqa", "qwen3", "qwen2_tied", "llama_tied_l3", "llama_bias", "qwen3_yarn"
S = dict(attn="sdpa")

# nothing to do
add("none", L, 24, P("knorm", 0.0))
add("none", Q3, 16, P("knorm", 0.01))                       # int(16 * 0.99) = 15

for m, n, r, kw in [(L, 8, 0.5, {}), (L, 100, 0.9, {}), (L, 120, 0.75, {}), (Q3, 33, 0.3, {}), (Q2, 50, 0.7, {}),
                    (L3, 64, 0.25, {}), (LB, 40, 0.6, {}), (QY, 60, 0.5, {}), (L, 10, 0.95, {}), (Q2, 71, 0.5, dict(question=7)),
                    (Q3, 30, 0.1, S)]:
    add("knorm", m, n, P("knorm", r), **kw)

for m, n, r, seed in [(L, 20, 0.5, 0), (Q3, 51, 0.3, 42), (L3, 90, 0.8, 7), (LB, 37, 0.6, 123456789)]:
    add("random", m, n, P("random", r, seed=seed), repeats=True)

for m, n, r, kw, more in [(L, 20, 0.5, {}, {}), (L, 110, 0.9, {}, {}), (Q3, 50, 0.75, dict(n_sink=1), {}),
                          (Q2, 64, 0.3, dict(n_sink=8), {}), (L3, 30, 0.5, dict(n_sink=0), {}), (LB, 41, 0.7, {}, {}),
                          (QY, 77, 0.25, dict(n_sink=2), {}), (Q2, 40, 0.5, {}, dict(question=5, repeats=True))]:
    add("streaming_llm", m, n, P("streaming_llm", r, **kw), **more)

for m, n, r, kw, more in [(L, 100, 0.25, {}, {}), (L, 120, 0.4, {}, S), (L, 40, 0.5, dict(window_size=8), {}),
                          (Q3, 60, 0.5, dict(window_size=16), {}), (Q3, 60, 0.7, dict(window_size=16, kernel_size=7), S),
                          (Q2, 33, 0.3, dict(window_size=4, kernel_size=3), {}), (L3, 70, 0.6, dict(window_size=16, kernel_size=1), {}),
                          (LB, 50, 0.75, dict(window_size=8), S), (QY, 64, 0.5, dict(window_size=8), S),
                          (L, 90, 0.8, dict(window_size=1), {}), (Q3, 24, 0.25, dict(window_size=16), {}),
                          (Q2, 80, 0.5, dict(window_size=32), dict(question=4)), (L3, 45, 0.5, dict(window_size=6), dict(repeats=True))]:
    add("snapkv", m, n, P("snapkv", r, **kw), **more)

for m, n, r, more in [(L, 12, 0.5, {}), (L, 100, 0.9, {}), (Q3, 50, 0.3, S), (Q2, 64, 0.75, {}), (L3, 80, 0.5, {}), (LB, 33, 0.25, {}),
                      (QY, 40, 0.6, S), (Q3, 61, 0.7, dict(question=3))]:
    add("tova", m, n, P("tova", r), **more)

for m, n, r, more in [(L, 16, 0.5, {}), (L, 90, 0.8, {}), (Q3, 45, 0.3, {}), (Q2, 60, 0.6, {}), (L3, 70, 0.75, {}), (LB, 32, 0.25, {}),
                      (QY, 50, 0.5, dict(question=4))]:
    add("observed_attention", m, n, P("observed_attention", r), **more)

for m, n, r, kw, more in [(L, 40, 0.5, {}, {}), (L, 100, 0.85, {}, {}), (Q3, 60, 0.3, {}, {}), (Q2, 50, 0.6, dict(use_covariance=False), {}),
                          (L3, 64, 0.5, dict(n_future_positions=64), {}), (LB, 36, 0.25, dict(use_vnorm=False), {}),
                          (QY, 44, 0.5, dict(n_sink=1, epsilon=0.01), {}), (Q3, 33, 0.7, dict(n_future_positions=8, n_sink=0), S),
                          (Q2, 70, 0.4, dict(epsilon=0.02), dict(question=3))]:
    add("expected_attention", m, n, P("expected_attention", r, **kw), **more)

for m, n, r, more in [(L, 14, 0.5, {}), (L, 110, 0.9, {}), (Q3, 48, 0.3, {}), (Q2, 63, 0.75, {}), (L3, 40, 0.6, {}), (LB, 90, 0.5, {}),
                      (QY, 55, 0.25, dict(question=2))]:
    add("keydiff", m, n, P("keydiff", r), **more)

for m, n, r, kw, more in [(L, 23, 0.25, dict(lag_size=8), {}), (Q3, 28, 0.5, dict(lag_size=8), {}),
                          (Q2, 44, 0.3, dict(lag_size=16), {}), (L3, 90, 0.5, dict(lag_size=12, cross_scoring=True), {}),
                          (LB, 68, 0.4, dict(lag_size=16, cross_scoring=True), {}), (QY, 52, 0.5, {}, {}),
                          (L, 27, 0.44, dict(lag_size=6, n_sink=2), {})]:
    add("lagkv", m, n, P("lagkv", r, **kw), **more)

for m, n, r, kw, more in [(L, 60, 0.5, dict(window_size=8), S), (Q3, 100, 0.6, dict(window_size=4), S), (Q2, 80, 0.75, dict(window_size=4, beta=4), S),
                          (L3, 45, 0.7, dict(window_size=8), {}), (LB, 64, 0.3, dict(window_size=8, beta=2), S),
                          (QY, 44, 0.6, dict(window_size=12), {})]:
    add("pyramidkv", m, n, P("pyramidkv", r, **kw), **more)

for m, n, inner, kw in [(L, 40, P("knorm", 0.5), {}), (L, 100, P("snapkv", 0.6, window_size=16), {}), (Q3, 50, P("keydiff", 0.7), {}),
                        (Q2, 60, P("expected_attention", 0.5), dict(alpha_safeguard=0.0)), (LB, 44, P("knorm", 0.3), dict(alpha_safeguard=0.5)),
                        (QY, 64, P("snapkv", 0.75, window_size=8, kernel_size=3), {}), (Q3, 84, P("lagkv", 0.5, lag_size=16, cross_scoring=True), {}),
                        (L, 30, P("keydiff", 0.8), dict(alpha_safeguard=1.0))]:
    add("adakv", m, n, P("adakv", press=inner, **kw), uneven=kw.get("alpha_safeguard", 0.2) < 1, **S)
add("adakv", Q3, 36, P("adakv", press=P("snapkv", 0.5, window_size=8)), uneven=True, question=4, **S)

for m, n, inner, more in [(L, 40, P("knorm", 0.5), {}), (Q3, 60, P("streaming_llm", 0.7), {}), (Q2, 50, P("snapkv", 0.5, window_size=8), {}),
                          (L3, 90, P("keydiff", 0.75), {}), (LB, 33, P("tova", 0.3), {}), (QY, 48, P("expected_attention", 0.5), {}),
                          (L, 72, P("streaming_llm", 0.5, n_sink=2), dict(question=6))]:
    add("key_rerotation", m, n, P("key_rerotation", press=inner), **more)

for m, n, inner, c in [(L, 40, P("knorm", 0.5), 16), (Q3, 61, P("keydiff", 0.3), 20), (Q2, 45, P("streaming_llm", 0.4, n_sink=2), 15),
                       (LB, 70, P("expected_attention", 0.6, n_sink=1), 24)]:
    add("chunk", m, n, P("chunk", press=inner, chunk_length=c), **S)

for m, n, inner, c, more in [(L, 80, P("knorm", 0.5), None, {}), (Q3, 61, P("keydiff", 0.4), 7, {}), (Q2, 90, P("snapkv", 0.6, window_size=16), 10, {}),
                             (L3, 15, P("knorm", 0.5), 20, {}), (LB, 40, P("tova", 0.5), 10, dict(question=3))]:
    add("chunkkv", m, n, P("chunkkv", press=inner, **({"chunk_length": c} if c else {})), **dict(S, **more))

for m, n, kw in [(L, 40, dict(key_channel_compression_ratio=0.5)), (Q3, 20, dict(key_channel_compression_ratio=0.3)),
                 (Q2, 60, dict(key_channel_compression_ratio=0.25, window_size=8)), (L3, 50, dict(key_channel_compression_ratio=0.6))]:
    add("think", m, n, P("think", **kw))

for m, n, kw, more in [(L, 40, dict(lazy_threshold=0.4, n_recent=12), dict(mixed=True)), (Q3, 60, dict(lazy_threshold=0.3, n_recent=16, n_initial=2), {}),
                       (Q2, 50, dict(lazy_threshold=0.5, n_recent=20, n_last=3), {}), (Q3, 40, dict(lazy_threshold=0.9), {})]:
    add("simlayerkv", m, n, P("simlayerkv", **kw), **dict(S, **more))

for m, n, inner, b in [(L, 40, P("knorm", 0.5), 5), (Q3, 60, P("keydiff", 0.7), 16), (Q2, 55, P("keydiff", 0.5), 128), (L3, 90, P("knorm", 0.8), 32)]:
    add("block", m, n, P("block", press=inner, block_size=b), **S)

add("criticalkv", L, 50, P("criticalkv", press=P("snapkv", 0.5, window_size=8)))
add("criticalkv", Q3, 40, P("criticalkv", press=P("expected_attention", 0.6, use_vnorm=False), first_stage_ratio=0.25))
add("critical_adakv", L, 60, P("critical_adakv", press=P("snapkv", 0.6, window_size=8)), uneven=True, **S)
add("critical_adakv", Q3, 44, P("critical_adakv", press=P("snapkv", 0.4, window_size=8), alpha_safeguard=0.4), **S)

add("qfilter", L, 60, P("qfilter", 0.5, filters="qfilters_llama_gqa.safetensors"))
add("qfilter", L, 100, P("qfilter", 0.8, filters="qfilters_llama_gqa.safetensors"))
add("qfilter", Q3, 44, P("qfilter", 0.3, filters="qfilters_qwen3.safetensors"))
add("qfilter", Q3, 70, P("adakv", press=P("qfilter", 0.6, filters="qfilters_qwen3.safetensors")), uneven=True, **S)


def D(inner, every, size, **kw):
    return P("decoding", press=inner, compression_interval=every, target_size=size, **kw)


add("decoding", L, 30, D(P("knorm", 0.0), 4, 20), events=2)
add("decoding", Q3, 40, D(P("keydiff", 0.0), 3, 24), events=3)
add("decoding", Q2, 24, D(P("tova", 0.0), 5, 16), events=2)
add("decoding", L3, 36, D(P("snapkv", 0.0, window_size=3, kernel_size=1), 5, 20), events=2)
add("decoding", LB, 28, D(P("streaming_llm", 0.0), 8, 12), events=1)
add("decoding", L, 16, D(P("knorm", 0.0), 4, 64), events=0)                # shorter than the target: nothing goes
add("decoding", Q3, 22, D(P("knorm", 0.0), 3, 16), events=4, question=5)
add("decoding_ratio", L, 40, P("decoding_ratio", press=P("knorm", 0.0), compression_interval=4, target_compression_ratio=0.5), events=2)
add("decoding_ratio", Q2, 30, P("decoding_ratio", press=P("keydiff", 0.0), compression_interval=5, target_compression_ratio=0.7), events=2)
add("prefill_decoding", L, 60, P("prefill_decoding", prefill=P("snapkv", 0.5, window_size=8), decoding=D(P("knorm", 0.0), 4, 24)), events=3)
add("prefill_decoding", Q3, 50, P("prefill_decoding", prefill=P("tova", 0.6), decoding=D(P("tova", 0.0), 5, 18)), events=3)
add("prefill_decoding", Q2, 44, P("prefill_decoding", prefill=P("keydiff", 0.25), decoding=D(P("keydiff", 0.0), 3, 30)), events=4)

add("composed", L, 50, P("composed", presses=[P("snapkv", 0.5, window_size=8), P("think", key_channel_compression_ratio=0.5)]))
add("composed", Q3, 60, P("composed", presses=[P("knorm", 0.3), P("keydiff", 0.5)]))
add("per_layer", L, 40, P("per_layer", press=P("knorm", 0.0), compression_ratios=[0.5, 0.25, 0.75]), **S)
add("per_layer", Q3, 50, P("per_layer", press=P("snapkv", 0.0, window_size=8), compression_ratios=[0.0, 0.4, 0.6]), **S)

# sliding-window layers are left alone
H = dict(cache="hybrid")
for m, n, press in [("qwen2_sw", 40, P("knorm", 0.5)), ("qwen2_sw", 60, P("snapkv", 0.6, window_size=8)), ("gemma3", 50, P("knorm", 0.5)),
                    ("gemma3", 70, P("tova", 0.7)), ("olmo3", 44, P("keydiff", 0.4)), ("olmo3", 60, P("observed_attention", 0.5))]:
    add("sliding", m, n, press, **H)

# what 0.5.5 does where one would not expect it
O = dict(optional=True)
add("quirk/sliding", "mistral_sw", 40, P("knorm", 0.5), note="every layer pressed; the window counts cache entries in cache order", **O)


add("quirk/decoding_expected", Q3, 40, D(P("expected_attention", 0.0, n_sink=0), 5, 24), events=2,
    note="statistics of the buffered queries; future positions start at the length of the buffer", **O)
add("quirk/decoding_observed", L, 40, D(P("observed_attention", 0.0), 5, 24), events=2,
    note="the last row of attention over falling counts", **O)
add("quirk/prefill_decoding_tova", Q3, 50, P("prefill_decoding", prefill=P("knorm", 0.6), decoding=D(P("tova", 0.0), 5, 18)), events=3,
    note="the mean over heads joins entries of one cache index, which are other positions in each KV head", **O)
add("quirk/chunk_snapkv", L, 48, P("chunk", press=P("snapkv", 0.4, window_size=4), chunk_length=16),
    note="window queries of every chunk are rotated as the last tokens of the prompt", **dict(O, **S))
