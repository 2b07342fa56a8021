"""metrics.py - /metrics, read as Prometheus reads it: every name has its HELP and TYPE, histograms add up, and the counts are
those of what was asked."""
import os
import tempfile
import time

from server import Server, check, done, read_metrics, write_hold

folder = tempfile.mkdtemp()
with open(os.path.join(folder, "story.ini"), "w") as f:
    f.write("[generation]\ndo_sample = no\nmax_new_tokens = 4\n")
began = time.time()
write_hold(folder)
s = Server("--pipelines", folder)
C = "/v1/completions"


class Metrics:
    def __init__(self):
        status, headers, text = s.ask("GET", "/metrics")
        check("a text of version 0.0.4", status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"), headers)
        self.samples, self.kinds, self.helps = read_metrics(text.decode())

    def of(self, name, **labels):
        """The sum of a name's values with these labels."""
        return sum(v for n, l, v in self.samples if n == "cadenza:" + name and labels.items() <= l.items())

    def process(self, name):
        return next((v for n, _, v in self.samples if n == "process_" + name), None)


def family(name, kinds):
    for ending in ("_bucket", "_sum", "_count"):
        if kinds.get(name.removesuffix(ending)) == "histogram":
            return name.removesuffix(ending)
    return name


def check_form(m):
    check("nothing stands twice", len({(n, tuple(l.items())) for n, l, _ in m.samples}) == len(m.samples))
    for name, labels, value in m.samples:
        base = family(name, m.kinds)
        check(f"{name} has HELP and TYPE", m.kinds.get(base) in ("gauge", "counter", "histogram") and m.helps.get(base), (base, m.kinds))
        check(f"{name} is a number", value == value and value >= 0, value)
        if name.startswith("cadenza:"):
            check(f"{name} has its labels", labels.get("model_name") == "pocket-dictionary" and labels.get("engine") == "0", labels)
    for name, kind in m.kinds.items():
        if kind != "histogram":
            continue
        buckets = [(float(l["le"]), v) for n, l, v in m.samples if n == name + "_bucket"]
        counts = [v for _, v in buckets]
        check(f"{name}: bounds rise", [b for b, _ in buckets] == sorted({b for b, _ in buckets}) and buckets[-1][0] == float("inf"), buckets)
        check(f"{name}: counts rise", counts == sorted(counts), buckets)
        check(f"{name}: the last is all", counts[-1] == m.of(name.removeprefix("cadenza:") + "_count"), buckets)


WANTED = """num_requests_running num_requests_paused num_requests_waiting kv_cache_usage_perc prompt_tokens_total generation_tokens_total
    request_success_total prefix_cache_queries_total prefix_cache_hits_total num_preemptions_total time_to_first_token_seconds
    inter_token_latency_seconds e2e_request_latency_seconds request_queue_time_seconds request_prefill_time_seconds
    request_decode_time_seconds request_prompt_tokens request_generation_tokens request_params_n request_params_max_tokens
    iteration_tokens_total spec_decode_num_draft_tokens_total spec_decode_num_accepted_tokens_total requests_by_strategy_total
    requests_by_pipeline_total requests_refused_total disconnects_total http_requests_total""".split()
m = Metrics()
check_form(m)
missing = [n for n in WANTED if "cadenza:" + n not in m.kinds]
check("all the names", not missing, missing)
check("no use of KV memory yet", m.of("kv_cache_usage_perc") == 0)

# --- what is asked, and what the answers say it took ---
P = "river (noun): a"
asks = [
    {"prompt": P, "max_tokens": 3, "temperature": 0},
    {"prompt": P, "max_tokens": 5, "temperature": 0.9, "seed": 1, "n": 2},
    {"prompt": [P, "dog (noun):"], "max_tokens": 2, "temperature": 0},
    {"prompt": P, "cadenza": {"pipeline": "story"}},
    {"prompt": P, "max_tokens": 2, "temperature": 1, "cadenza": {"strategy": "org.cadenza.simple-sample"}},
    {"prompt": P, "cadenza": {"kwargs": {"do_sample": False, "prompt_lookup_num_tokens": 3, "max_new_tokens": 24}}, "max_tokens": None},
]
usages, reasons = [], []
for body in asks:
    status, answer = s.post(C, body)
    check(f"status of {body}", status == 200, answer)
    usages.append(answer["usage"])
    reasons.append(answer["choices"][-1]["finish_reason"])
check("a name that is not there", s.post(C, {"model": "none", "prompt": "a"})[0] == 404)
check("a method that is not served", s.ask("BREW", C)[0] == 405)
check("another host", s.ask("GET", "/v1/models", None, [("Host", "a.example")])[0] in (400, 421))
s.quiet()
m = Metrics()
check_form(m)
made, read = sum(u["completion_tokens"] for u in usages), sum(u["prompt_tokens"] for u in usages)
check("generated tokens", m.of("generation_tokens_total") == made == m.of("request_generation_tokens_sum"), made)
check("tokens of prompts", m.of("prompt_tokens_total") == read == m.of("request_prompt_tokens_sum"), read)
for name in ("request_generation_tokens", "request_prompt_tokens", "request_params_n", "e2e_request_latency_seconds", "time_to_first_token_seconds"):
    check(f"{name} of each request", m.of(name + "_count") == len(asks), m.of(name + "_count"))
for name in ("queue", "prefill", "decode"):
    check(f"{name} time of each prompt", m.of(f"request_{name}_time_seconds_count") == len(asks) + 1)
check("and they took time", m.of("request_prefill_time_seconds_sum") > 0 and m.of("request_decode_time_seconds_sum") > 0)
check("n", m.of("request_params_n_sum") == len(asks) + 1)
check("the buckets of n", m.of("request_params_n_bucket", le="1") == len(asks) - 1 and m.of("request_params_n_bucket", le="2") == len(asks))
check("max_tokens where it is given", m.of("request_params_max_tokens_sum") >= 12, m.of("request_params_max_tokens_sum"))
for reason in ("stop", "length"):
    check(f"ends by {reason}", m.of("request_success_total", finished_reason=reason) == reasons.count(reason), reasons)
check("none by error", m.of("request_success_total", finished_reason="error") == 0)
check("by pipeline", m.of("requests_by_pipeline_total", pipeline="story") == 1 and m.of("requests_by_pipeline_total") == len(asks))
check("by strategy", m.of("requests_by_strategy_total", strategy="org.cadenza.simple-sample") == 1 and
      m.of("requests_by_strategy_total", strategy="auto") == len(asks) - 1)
check("answers by status", m.of("http_requests_total", handler=C, method="POST", status="200") == len(asks))
check("refusals by status", m.of("http_requests_total", handler=C, method="POST", status="404") == 1 and
      m.of("http_requests_total", handler=C, method="other", status="405") == 1)
check("passes", m.of("iteration_tokens_total_count") == m.of("iterations_total") > 0 and m.of("iteration_tokens_total_sum") >= m.of("iterations_total"))
drafted, accepted = m.of("spec_decode_num_draft_tokens_total"), m.of("spec_decode_num_accepted_tokens_total")
check("tokens of drafts", 0 < drafted and accepted <= drafted, (drafted, accepted))

# --- while it runs, and when the client goes away ---
c = s.hold()
m = Metrics()
check("KV memory in use", 0 < m.of("kv_cache_usage_perc") <= 1, m.of("kv_cache_usage_perc"))
c.close()
s.quiet()
m = Metrics()
check("it is none of the answers", m.of("request_success_total", finished_reason="abort") == 1 == m.of("disconnects_total") and
      m.of("e2e_request_latency_seconds_count") == len(asks))
check("KV memory given back", m.of("kv_cache_usage_perc") == 0)

# --- the process ---
with open(f"/proc/{s.process.pid}/stat") as f:
    fields = f.read().rpartition(")")[2].split()
resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
check("resident memory", abs(m.process("resident_memory_bytes") - resident) < resident / 4, (m.process("resident_memory_bytes"), resident))
check("virtual memory", m.process("virtual_memory_bytes") >= m.process("resident_memory_bytes"))
check("processor time", 0 < m.process("cpu_seconds_total") < 3600)
check("when it began", abs(m.process("start_time_seconds") - began) < 60, (m.process("start_time_seconds"), began))
check("descriptors", abs(m.process("open_fds") - s.descriptors()) <= 3 and m.process("max_fds") > m.process("open_fds"),
      (m.process("open_fds"), s.descriptors()))
s.stop()

# --- who is turned away ---
keys = os.path.join(folder, "keys")
with open(keys, "w") as f:
    f.write("secret\n")
s = Server("--api-key-file", keys, "--open-metrics")
for _ in range(3):
    check("a key is asked for", s.post(C, {"prompt": "a"})[0] == 401)
s.ask("GET", "/health", None, [("Origin", "http://a.example")])
s.quiet()
m = Metrics()
check("refused for their keys", m.of("requests_refused_total", reason="api_key") == 3 == m.of("requests_refused_total"), m.samples)
s.stop()
done()
