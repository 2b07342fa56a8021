#!/usr/bin/env python3
"""peer.py - the figures of bench_grammar for llguidance (pip install llguidance numpy), in the same form, to be read side by side.

usage: peer.py VOCABULARY.gguf CASES.jsonl
One thread, its CPU time; a mask before each id and after the last; each schema compiled afresh. JSON slices, flexible whitespace.
Python's own share of a call is about a microsecond.
"""
import json
import struct
import sys
import time

import llguidance
import llguidance.numpy

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
          f"max {us[-1]:8.1f}  mean {sum(us) / n:7.1f} us")


def run(row, tokenizer, mask):
    t0 = time.thread_time_ns()
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(row["constraint"]))
    matcher = llguidance.LLMatcher(tokenizer, grammar)
    compile_ms = (time.thread_time_ns() - t0) / 1e6
    us = []
    if matcher.is_error():
        print(f"{row['name']:<30} refused: {matcher.get_error()[:80]}")
        return compile_ms, us
    for i in range(len(row["ids"]) + 1):
        t0 = time.thread_time_ns()
        llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
        us.append((time.thread_time_ns() - t0) / 1e3)
        if i < len(row["ids"]) and not matcher.consume_token(row["ids"][i]):
            print(f"{row['name']}: id {i} is not allowed")
            break
    say(row["name"], compile_ms, us)
    return compile_ms, us


def main():
    t0 = time.thread_time_ns()
    wrapped = llguidance.TokenizerWrapper(Vocabulary(sys.argv[1]))
    tokenizer = llguidance.LLTokenizer(wrapped, slices=llguidance.LLTokenizer.json_slices())
    print(f"vocabulary of {tokenizer.vocab_size} ids: {(time.thread_time_ns() - t0) / 1e6:.1f} ms")
    mask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    daily, compiles = [], []
    with open(sys.argv[2], encoding="utf-8") as f:
        for row in map(json.loads, f):
            compile_ms, us = run(row, tokenizer, mask)
            if row["name"].startswith("real"):
                daily += us
                compiles.append(compile_ms * 1e3)
    say("daily", 0, daily)
    say("daily: compiling", 0, compiles)


main()
