#!/usr/bin/env python3
"""peer.py - the figures of bench_grammar for llguidance and xgrammar, in the same form, to be read side by side.

usage: peer.py VOCABULARY.gguf CASES.jsonl llguidance | xgrammar-open | xgrammar-strict [SECONDS]
One thread, its CPU time; a mask before each id and after the last; each schema compiled afresh, in a process of its own forked from
a warm one, which is ended after SECONDS (20) of its time. llguidance: JSON slices, flexible whitespace. xgrammar: strict_mode off
(open: the language that Cadenza and llguidance read) or on, no cache. Python's own share of a call is about a microsecond.
Needs llguidance and numpy, or xgrammar and torch.
"""
import json
import os
import resource
import struct
import sys
import time

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def metadata(path):
    """The keys of a GGUF file."""
    with open(path, "rb") as f:
        def number(kind):
            form = "<" + SCALARS[kind]
            return struct.unpack(form, f.read(struct.calcsize(form)))[0]

        def value(kind):
            if kind == 8:
                return f.read(number(10))
            if kind == 9:
                inner, n = number(4), number(10)
                return [value(inner) for _ in range(n)]
            return number(kind)

        f.read(4), number(4), number(10)
        return {value(8).decode(): value(number(4)) for _ in range(number(10))}


def byte_table():
    """GPT-2's letters for bytes, inverted."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in plain}
    others = [b for b in range(256) if b not in plain]
    return {**table, **{chr(256 + i): b for i, b in enumerate(others)}}


class Vocabulary:
    """What llguidance asks of a tokenizer; its masks need no encoding."""
    bos_token_id = None

    def __init__(self, path):
        keys, table = metadata(path), byte_table()
        kinds = keys["tokenizer.ggml.token_type"]
        texts = [t.decode() for t in keys["tokenizer.ggml.tokens"]]
        self.eos_token_id = keys["tokenizer.ggml.eos_token_id"]
        self.special_token_ids = [i for i, k in enumerate(kinds) if k == 3]
        self.tokens = [bytes(table[c] for c in t) if k == 1 else t.encode() for t, k in zip(texts, kinds)]

    def __call__(self, text):
        return []


def say(name, compile_ms, us):
    us = sorted(us)
    n = len(us)
    print(f"{name:<30} compile {compile_ms:8.3f} ms  masks {n:5}  p50 {us[n // 2]:8.2f}  p99 {us[n * 99 // 100]:8.1f}  "
          f"max {us[-1]:8.1f}  mean {sum(us) / n:7.1f} us", flush=True)


class Llguidance:
    def __init__(self, path):
        import llguidance
        import llguidance.numpy
        self.lib, self.fill = llguidance, llguidance.numpy.fill_next_token_bitmask
        wrapped = llguidance.TokenizerWrapper(Vocabulary(path))
        self.tokenizer = llguidance.LLTokenizer(wrapped, slices=llguidance.LLTokenizer.json_slices())
        self.n_ids = self.tokenizer.vocab_size
        self.bits = llguidance.numpy.allocate_token_bitmask(1, self.n_ids)

    def compile(self, schema):
        matcher = self.lib.LLMatcher(self.tokenizer, self.lib.LLMatcher.grammar_from_json_schema(schema))
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def mask(self, matcher):
        self.fill(matcher, self.bits, 0)

    def accept(self, matcher, token):
        return matcher.consume_token(token)


class Xgrammar:
    def __init__(self, path, strict):
        import torch
        import xgrammar
        torch.set_num_threads(1)
        self.lib, self.strict = xgrammar, strict
        known = Vocabulary(path)
        self.n_ids = len(known.tokens)
        info = xgrammar.TokenizerInfo(known.tokens, xgrammar.VocabType.RAW, vocab_size=self.n_ids,
                                      stop_token_ids=[known.eos_token_id])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.bits = xgrammar.allocate_token_bitmask(1, self.n_ids)

    def compile(self, schema):
        return self.lib.GrammarMatcher(self.compiler.compile_json_schema(schema, strict_mode=self.strict))

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.bits, 0)

    def accept(self, matcher, token):
        return matcher.accept_token(token)


def run(row, peer):
    t0 = time.thread_time_ns()
    try:
        matcher = peer.compile(json.dumps(row["constraint"]))
    except (ValueError, RuntimeError) as error:
        print(f"{row['name']:<30} refused: {str(error)[:80]}")
        return 0, []
    compile_ms = (time.thread_time_ns() - t0) / 1e6
    us = []
    for i in range(len(row["ids"]) + 1):
        t0 = time.thread_time_ns()
        peer.mask(matcher)
        us.append((time.thread_time_ns() - t0) / 1e3)
        if i < len(row["ids"]) and not peer.accept(matcher, row["ids"][i]):
            print(f"{row['name']}: id {i} is not allowed")
            break
    say(row["name"], compile_ms, us)
    return compile_ms, us


def run_apart(row, peer, seconds):
    """In a process of its own: a compiler that does not end is ended."""
    out, inside = os.pipe()
    child = os.fork()
    if child == 0:
        used = int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (used + seconds, used + seconds))
        result = run(row, peer)
        os.write(inside, json.dumps(result).encode())
        sys.stdout.flush()
        os._exit(0)
    os.close(inside)
    with os.fdopen(out, "rb") as f:
        text = f.read()
    os.waitpid(child, 0)
    if not text:
        print(f"{row['name']:<30} over {seconds} s", flush=True)
    return json.loads(text) if text else (0, [])


def main():
    name = sys.argv[3]
    t0 = time.thread_time_ns()
    peer = Llguidance(sys.argv[1]) if name == "llguidance" else Xgrammar(sys.argv[1], name == "xgrammar-strict")
    print(f"vocabulary of {peer.n_ids} ids: {(time.thread_time_ns() - t0) / 1e6:.1f} ms", flush=True)
    daily, compiles = [], []
    with open(sys.argv[2], encoding="utf-8") as f:
        for row in map(json.loads, f):
            compile_ms, us = run_apart(row, peer, int(sys.argv[4]) if len(sys.argv) > 4 else 20)
            if row["name"].startswith("real") and us:
                daily += us
                compiles.append(compile_ms * 1e3)
    if daily:
        say("daily", 0, daily)
        say("daily: compiling", 0, compiles)


main()
