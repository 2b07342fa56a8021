"""The programs that are compared, each in a process of its own that answers orders, so that none sees another's threads
or memory. `peers.py NAME SPEC` is that process: it reads an order per line and writes an answer per line, as JSON.

Orders: {"do": "prefill", "n": 512}                       -> {"seconds": ..}   one prompt of made-up ids
        {"do": "decode", "context": 16, "n": 64, "batch": 1} -> {"seconds": ..} of one step, for all sequences
        {"do": "memory"}                                   -> {"rss": .., "anon": .., "peak": ..} bytes
The first line it writes is {"ready": seconds from before the weights were opened to a first token} or {"missing": why}.
"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time


def ids(n, vocab):
    """Made-up ids, the same for all programs."""
    stream, out = 1, []
    for _ in range(n):
        stream = (stream * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append((stream >> 8) % vocab)
    return out


def memory(pid):
    out = {}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("VmHWM", "VmRSS", "RssAnon"):
            out[{"VmHWM": "peak", "VmRSS": "rss", "RssAnon": "anon"}[key]] = int(value.split()[0]) * 1024
    return out


class LlamaCpp:
    """Through the library that llama-cpp-python brings, called as llama-bench calls it."""

    def __init__(self, spec):
        import llama_cpp as L
        import numpy
        self.L, self.numpy = L, numpy
        self.quiet = L.llama_log_callback(lambda *_: None)
        L.llama_log_set(self.quiet, ctypes.c_void_p(0))
        L.llama_backend_init()
        self.start = time.perf_counter()
        params = L.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = L.llama_model_load_from_file(spec["gguf"].encode(), params)
        if not self.model:
            raise RuntimeError(f"cannot load {spec['gguf']}")
        self.vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))
        self.threads, self.context, self.room = spec["threads"], None, (0, 0)
        self.first_token(spec)

    def reach(self, n_ctx, n_seq):
        if self.context and self.room[0] >= n_ctx and self.room[1] == n_seq:
            return
        L = self.L
        if self.context:
            L.llama_free(self.context)
        params = L.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = n_ctx * n_seq, self.threads, self.threads
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = n_seq
        self.context, self.room = L.llama_init_from_model(self.model, params), (n_ctx, n_seq)
        if not self.context:
            raise RuntimeError("no context")

    def clear(self):
        self.L.llama_memory_clear(self.L.llama_get_memory(self.context), True)

    def run(self, tokens):
        """tokens: (id, position, sequence, wants logits)"""
        L = self.L
        batch = L.llama_batch_init(len(tokens), 0, 1)
        try:
            for i, (token, position, sequence, wanted) in enumerate(tokens):
                batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
                batch.seq_id[i][0], batch.logits[i] = sequence, wanted
            batch.n_tokens = len(tokens)
            if L.llama_decode(self.context, batch) != 0:
                raise RuntimeError("llama_decode failed")
        finally:
            L.llama_batch_free(batch)

    def best(self, i):
        row = self.numpy.ctypeslib.as_array(self.L.llama_get_logits_ith(self.context, i), shape=(self.vocab,))
        return int(row.argmax())

    def prompt(self, n, sequence=0):
        at = 0
        prompt = ids(n, self.vocab)
        while at < n:
            end = min(n, at + 512)
            self.run([(prompt[i], i, sequence, i == n - 1) for i in range(at, end)])
            at = end
        return self.best(-1)

    def first_token(self, spec):
        self.reach(512, 1)
        self.prompt(spec["context"])
        self.ready = time.perf_counter() - self.start

    def prefill(self, n):
        self.reach(max(n + 8, 512), 1)
        self.clear()
        start = time.perf_counter()
        self.prompt(n)
        return time.perf_counter() - start

    def decode(self, context, n, batch):
        self.reach(max(context + n + 8, 512 if batch == 1 else 0), batch)
        self.clear()
        last = [self.prompt(context, s) for s in range(batch)]
        start = time.perf_counter()
        for step in range(n - 1):
            self.run([(last[s], context + step, s, True) for s in range(batch)])
            last = [self.best(s) for s in range(batch)]
        return (time.perf_counter() - start) / (n - 1)


class Transformers:
    def __init__(self, spec):
        import torch
        from transformers import AutoModelForCausalLM, logging
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.torch = torch
        torch.set_num_threads(spec["threads"])
        self.start = time.perf_counter()
        self.model = AutoModelForCausalLM.from_pretrained(spec["folder"], dtype="auto").eval()
        self.vocab = self.model.config.vocab_size
        self.prefill(spec["context"])
        self.ready = time.perf_counter() - self.start

    def prompt(self, n, batch=1):
        return self.model(self.torch.tensor([ids(n, self.vocab)] * batch), use_cache=True, logits_to_keep=1)

    def prefill(self, n):
        with self.torch.inference_mode():
            start = time.perf_counter()
            int(self.prompt(n).logits[:, -1].argmax(-1)[0])
            return time.perf_counter() - start

    def decode(self, context, n, batch):
        with self.torch.inference_mode():
            out = self.prompt(context, batch)
            start = time.perf_counter()
            for _ in range(n - 1):
                token = out.logits[:, -1].argmax(-1, keepdim=True)
                out = self.model(token, past_key_values=out.past_key_values, use_cache=True)
            int(out.logits[:, -1].argmax(-1)[0])
            return (time.perf_counter() - start) / (n - 1)


class CTranslate2:
    """Its generator takes token texts: the folder that its converter wrote names them by number."""

    def __init__(self, spec):
        import ctranslate2
        self.start = time.perf_counter()
        self.model = ctranslate2.Generator(spec["ct2"], device="cpu", compute_type=spec.get("compute", "int8"),
                                           inter_threads=1, intra_threads=spec["threads"])
        self.vocab = spec["vocab"]
        self.prefill(spec["context"])
        self.ready = time.perf_counter() - self.start

    def generate(self, n_prompt, n_new, batch):
        prompt = [str(i) for i in ids(n_prompt, self.vocab)]
        self.model.generate_batch([prompt] * batch, max_length=n_new, min_length=n_new, sampling_topk=1,
                                  include_prompt_in_result=False, end_token=[])

    def prefill(self, n):
        start = time.perf_counter()
        self.generate(n, 1, 1)
        return time.perf_counter() - start

    def decode(self, context, n, batch):
        start = time.perf_counter()
        self.generate(context, 1, batch)
        first = time.perf_counter()
        self.generate(context, n, batch)
        end = time.perf_counter()
        return ((end - first) - (first - start)) / (n - 1)


class OpenVINO:
    """The model that OpenVINO GenAI makes and runs, through OpenVINO itself: make_openvino.py."""

    def __init__(self, spec):
        import numpy
        import openvino
        self.numpy, self.vocab = numpy, spec["vocab"]
        self.start = time.perf_counter()
        model = openvino.Core().compile_model(spec["openvino"], "CPU", {"PERFORMANCE_HINT": "LATENCY",
                                                                         "INFERENCE_NUM_THREADS": spec["threads"]})
        self.request = model.create_infer_request()
        self.prefill(spec["context"])
        self.ready = time.perf_counter() - self.start

    def run(self, tokens, past):
        """tokens (batch, n) after `past` positions; the ids that its last row of logits has as the best."""
        batch, n = tokens.shape
        numpy = self.numpy
        out = self.request.infer({"input_ids": tokens, "attention_mask": numpy.ones((batch, past + n), numpy.int64),
                                  "position_ids": numpy.tile(numpy.arange(past, past + n), (batch, 1)),
                                  "beam_idx": numpy.arange(batch, dtype=numpy.int32)})
        return next(iter(out.values()))[:, -1].argmax(-1)

    def prompt(self, n, batch=1):
        self.request.reset_state()
        return self.run(self.numpy.array([ids(n, self.vocab)] * batch, self.numpy.int64), 0)

    def prefill(self, n):
        start = time.perf_counter()
        self.prompt(n)
        return time.perf_counter() - start

    def decode(self, context, n, batch):
        last = self.prompt(context, batch)
        start = time.perf_counter()
        for step in range(n - 1):
            last = self.run(last.reshape(batch, 1), context + step)
        return (time.perf_counter() - start) / (n - 1)


PROGRAMS = {"llama.cpp": LlamaCpp, "transformers": Transformers, "CTranslate2": CTranslate2, "OpenVINO": OpenVINO}


class Worker:
    """A program's process, seen from outside. missing: why there is none, or None."""

    def __init__(self, python, name, spec):
        self.missing, self.ready, self.process = None, None, None
        self.process = subprocess.Popen([python, os.path.abspath(__file__), name, json.dumps(spec)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        first = self.read()
        self.missing = first.get("missing")
        self.ready = first.get("ready")

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            return {"missing": f"its process ended with status {self.process.wait()}"}
        return json.loads(line)

    def order(self, **what):
        """The answer, or None: it failed, and is missing from now on."""
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            answer = self.read()
        except (OSError, ValueError) as e:
            answer = {"missing": str(e)}
        if "missing" in answer:
            self.missing = answer["missing"]
            return None
        return answer

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()
        if self.process:
            self.process.stdout.close()


def serve():
    name, spec = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(**what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        program = PROGRAMS[name](spec)
    except Exception as e:  # whatever it is, it is why there is no figure
        say(missing=f"{type(e).__name__}: {e}".split("\n")[0])
        return
    say(ready=program.ready)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if order["do"] == "memory":
                say(**memory(os.getpid()))
            elif order["do"] == "prefill":
                say(seconds=program.prefill(order["n"]))
            else:
                say(seconds=program.decode(order["context"], order["n"], order["batch"]))
        except Exception as e:
            say(missing=f"{type(e).__name__}: {e}".split("\n")[0])


if __name__ == "__main__":
    serve()
